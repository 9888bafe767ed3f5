//! CSV files become tables whose columns hold the files' values.

#![expect(clippy::unwrap_used, reason = "a test stops at what it did not expect")]

use moirai::runtime::block_on_virtual;
use moirai::tables::{Layout, LoadOptions, TableDefinition};
use moirai::units::ByteCount;
use moirai::update::Options;
use moirai_sql::arrow::util::pretty::pretty_format_batches;
use moirai_sql::{CsvOptions, Database, read_csv};

/// What `statement` answers about the table `t` that `text` is loaded into, in each layout.
fn answers(text: &str, options: &CsvOptions, statement: &str) -> [String; 3] {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("t.csv");
    std::fs::write(&path, text).unwrap();
    Layout::ALL.map(|layout| {
        block_on_virtual(1, async {
            let device = moirai::open_device("sim:quantum-atlas-10k").await.unwrap();
            let (leaf, of_store) = (ByteCount(8 << 10), Options::default());
            let tables = moirai::create_tables_on(device, leaf, of_store).await.unwrap();
            let import = read_csv(&path, options).unwrap();
            let mut definition = TableDefinition::new(import.schema, &[]).unwrap();
            definition.pages = tables.page_options(layout);
            let mut load = tables.load("t", definition, LoadOptions::default()).await.unwrap();
            for batch in import.batches {
                load.push(&batch.unwrap()).await.unwrap();
            }
            load.finish().await.unwrap();
            let (_, batches) = Database::over(&tables).query(statement).await.unwrap();
            pretty_format_batches(&batches).unwrap().to_string()
        })
    })
}

fn check(text: &str, options: &CsvOptions, statement: &str, expected: &[&str]) {
    let expected = expected.join("\n");
    assert_eq!(answers(text, options, statement), [(); 3].map(|()| expected.clone()));
}

#[test]
fn inferred_columns_are_loaded_and_queried() {
    check(
        "id,active,nothing,born\n1,true,,2000-01-01\n2,FALSE,,\n",
        &CsvOptions::default(),
        "select id, active, nothing, born from t where active or not active order by id",
        &[
            "+----+--------+---------+------------+",
            "| id | active | nothing | born       |",
            "+----+--------+---------+------------+",
            "| 1  | true   |         | 2000-01-01 |",
            "| 2  | false  |         |            |",
            "+----+--------+---------+------------+",
        ],
    );
}

#[test]
fn every_type_of_a_schema_is_loaded() {
    let schema = "a:tinyint,b:smallint,c:int not null,d:bigint,e:real,f:double,g:decimal(5,2),\
                  h:date,n:boolean,i:timestamp(0),j:timestamp(3),k:timestamp,l:timestamp(9),m:text not null";
    let options = CsvOptions {
        has_header: false,
        schema: Some(schema.parse().unwrap()),
        ..CsvOptions::default()
    };
    let time = "2024-01-02 03:04:05";
    let text = format!(
        "1,2,3,4,5.5,6.5,7.25,2024-01-02,true,{time},{time}.5,{time}.000001,{time}.000000001,x\n\
         ,,0,,,,,,,,,,,\"\"\n"
    );
    check(
        &text,
        &options,
        "select a + b + c + d as sum, e + f + g as fractions, h, m from t \
         where i < j and k > l and m = 'x' and n",
        &[
            "+-----+-----------+------------+---+",
            "| sum | fractions | h          | m |",
            "+-----+-----------+------------+---+",
            "| 10  | 19.25     | 2024-01-02 | x |",
            "+-----+-----------+------------+---+",
        ],
    );
    check(
        &text,
        &options,
        "select count(*) as rows, count(a) as a, count(c) as c, count(l) as l, count(m) as m from t",
        &[
            "+------+---+---+---+---+",
            "| rows | a | c | l | m |",
            "+------+---+---+---+---+",
            "| 2    | 1 | 2 | 1 | 2 |",
            "+------+---+---+---+---+",
        ],
    );
}
