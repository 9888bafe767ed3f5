//! Columns of `USING` in `WHERE`.

#![expect(clippy::unwrap_used, reason = "a test stops at what it did not expect")]

use std::sync::Arc;

use moirai_runtime::block_on_virtual;
use moirai_sql::arrow::array::{Array, Int64Array, RecordBatch};
use moirai_sql::arrow::datatypes::{DataType, Field, Schema};
use moirai_sql::arrow::util::display::array_value_to_string;
use moirai_sql::{Database, memory_database};

/// `a` has ids 1 to 3, `b` 2 to 4, `c` 3 to 5; `x` is ten times the id.
fn database() -> Database {
    let table = |name: &str, first: i64| {
        let fields =
            vec![Field::new("id", DataType::Int64, true), Field::new("x", DataType::Int64, true)];
        let schema = Arc::new(Schema::new(fields));
        let ids: Vec<i64> = (first..first + 3).collect();
        let tens: Vec<i64> = ids.iter().map(|id| 10 * id).collect();
        let columns: Vec<Arc<dyn Array>> =
            vec![Arc::new(Int64Array::from(ids)), Arc::new(Int64Array::from(tens))];
        let batch = RecordBatch::try_new(Arc::clone(&schema), columns).unwrap();
        (name.to_owned(), schema, vec![batch])
    };
    memory_database([table("a", 1), table("b", 2), table("c", 3)]).unwrap()
}

/// The first column of an answer.
async fn answer(statement: &str) -> Result<Vec<String>, String> {
    let answer = database().query(statement).await;
    let (_, batches) = answer.map_err(|error| error.to_string())?;
    let mut values = Vec::new();
    for batch in &batches {
        let column = batch.column(0);
        let rows = 0..batch.num_rows();
        values.extend(rows.map(|row| array_value_to_string(column, row).unwrap()));
    }
    Ok(values)
}

#[test]
fn a_filter_finds_the_value_of_the_join() {
    block_on_virtual(1, async {
        for (statement, expected) in [
            ("select id from a join b using (id) where id = 2", &["2"][..]),
            ("select a.x from a inner join b using (ID) where Id > 2 and b.x > 0", &["30"]),
            ("select id from a left join b using (id) where id < 3 order by id", &["1", "2"]),
            ("select b.x from a right join b using (id) where id = 4", &["40"]),
            ("select a.x from a join b using (id) join c using (id) where id in (2, 3)", &["30"]),
            // Right joins are of the last, whatever was before.
            (
                "select c.x from a join b using (id) right join c using (id) where id > 3 order by 1",
                &["40", "50"],
            ),
            // Each query has tables of its own.
            ("select a.x from a join b using (id) where id = (select min(id) from c)", &["30"]),
            (
                "select s.id from (select a.id from a join b using (id) where id = 3) s where id > 1",
                &["3"],
            ),
            (
                "select id from a join b using (id) where id = 2 union all \
                 select id from b join c using (id) where id = 4 order by 1",
                &["2", "4"],
            ),
            (
                "with s as (select id from b) select id from a join s using (id) where id = 3",
                &["3"],
            ),
        ] {
            let found = answer(statement).await;
            assert!(found.as_ref().is_ok_and(|found| found == expected), "{statement}: {found:?}");
        }
        // In a full join it is the value of neither table.
        for statement in [
            "select a.x from a full join b using (id) where id = 1",
            // Nor of one that is joined to it.
            "select b.x from a full join b using (id) left join c using (id) where id = 4",
        ] {
            let refused = answer(statement).await;
            let asks = |error: String| error.contains("name the table");
            assert!(refused.clone().is_err_and(asks), "{statement}: {refused:?}");
        }
        let refused = answer("select a.x from a join b on a.id = b.id where id = 2").await;
        assert!(
            refused.clone().is_err_and(|error| error.contains("name the table")),
            "{refused:?}"
        );
    });
}
