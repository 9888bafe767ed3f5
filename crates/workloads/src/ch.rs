//! CH-benCHmark: the queries of TPC-H over the tables of TPC-C, while transactions change these.
//!
//! Cole, Funke, Giakoumakis, Guy, Kemper, Krompass, Kuno, Nambiar, Neumann, Poess, Sattler, Seibold, Simon, Waas: The mixed workload
//! CH-benCHmark. DBTest 2011. Three tables come to those of TPC-C: suppliers, nations and regions. They do not change, and rows of
//! TPC-C refer to them by what they have already: stock to its supplier by the product of its two numbers, customers to their nation
//! by the first letter of their state.

mod queries;

use std::sync::Arc;

use arrow_schema::{DataType, Field, Schema};
use moirai_runtime::{Random, random};
use moirai_tables::{Layout, LoadOptions, Result, Row, TableDefinition, Tables};
use rand::Rng;

pub use queries::QUERIES;

use crate::tpcc::generate::{digits, letters};

/// The tables that come to those of TPC-C.
pub const TABLES: [&str; 3] = ["supplier", "nation", "region"];

/// Suppliers, whatever the number of warehouses is.
const SUPPLIERS: i64 = 10_000;
const REGIONS: [&str; 5] = ["Africa", "America", "Asia", "Europe", "Middle East"];
/// Nations that have names, with their regions: those of TPC-H, and one that a query asks for. The others have made-up names.
const NATIONS: [(&str, i64); 26] = [
    ("Algeria", 0),
    ("Argentina", 1),
    ("Brazil", 1),
    ("Canada", 1),
    ("Egypt", 4),
    ("Ethiopia", 0),
    ("France", 3),
    ("Germany", 3),
    ("India", 2),
    ("Indonesia", 2),
    ("Iran", 4),
    ("Iraq", 4),
    ("Japan", 2),
    ("Jordan", 4),
    ("Kenya", 0),
    ("Morocco", 0),
    ("Mozambique", 0),
    ("Peru", 1),
    ("China", 2),
    ("Romania", 3),
    ("Saudi Arabia", 4),
    ("Vietnam", 2),
    ("Russia", 3),
    ("United Kingdom", 3),
    ("United States", 1),
    ("Cambodia", 2),
];

/// The columns of a table, of which the first is its key.
fn columns(table: &str) -> Vec<(&'static str, DataType)> {
    let (number, text) = (DataType::Int32, DataType::Utf8View);
    match table {
        "supplier" => vec![
            ("su_suppkey", number.clone()),
            ("su_name", text.clone()),
            ("su_address", text.clone()),
            ("su_nationkey", number),
            ("su_phone", text.clone()),
            ("su_acctbal", DataType::Decimal128(12, 2)),
            ("su_comment", text),
        ],
        "nation" => vec![
            ("n_nationkey", number.clone()),
            ("n_name", text.clone()),
            ("n_regionkey", number),
            ("n_comment", text),
        ],
        _ => vec![("r_regionkey", number), ("r_name", text.clone()), ("r_comment", text)],
    }
}

/// The keys of the nations: what states of customers may begin with.
fn nation_keys() -> impl Iterator<Item = i64> {
    (b'0'..=b'9').chain(b'A'..=b'Z').chain(b'a'..=b'z').map(i64::from)
}

fn rows_of(table: &str, random: &mut Random) -> Vec<Row> {
    match table {
        "supplier" => (0..SUPPLIERS).map(|supplier| supplier_row(supplier, random)).collect(),
        "nation" => {
            let names = NATIONS.iter().map(|(name, region)| ((*name).to_owned(), *region));
            let others =
                (0..).map(|other| (format!("Nation {other}"), other % REGIONS.len() as i64));
            let nations = nation_keys().zip(names.chain(others));
            nations
                .map(|(key, (name, region))| {
                    vec![key.into(), name.into(), region.into(), letters(random, 31, 114).into()]
                })
                .collect()
        }
        _ => (0..)
            .zip(REGIONS)
            .map(|(region, name)| {
                vec![i64::from(region).into(), name.into(), letters(random, 31, 115).into()]
            })
            .collect(),
    }
}

fn supplier_row(supplier: i64, random: &mut Random) -> Row {
    let keys: Vec<i64> = nation_keys().collect();
    let nation = keys.get(random.random_range(0..keys.len())).copied().unwrap_or(0);
    let mut comment = letters(random, 25, 63);
    // Query 16 leaves these out.
    if supplier % 1000 == 13 {
        comment += " bad";
    }
    vec![
        supplier.into(),
        format!("Supplier#{supplier:09}").into(),
        letters(random, 10, 40).into(),
        nation.into(),
        digits(random, 15).into(),
        random.random_range(-99_999_i64..=999_999).into(),
        comment.into(),
    ]
}

/// Loads the tables that come to those of TPC-C, in place of any of their names.
///
/// # Errors
/// As of [`Tables::load`].
pub async fn load(tables: &Arc<Tables>, layout: Layout) -> Result<()> {
    let mut random = random("ch load");
    for name in TABLES {
        let columns = columns(name);
        let key: Vec<&str> = columns.iter().take(1).map(|(name, _)| *name).collect();
        let fields = columns.iter().map(|(name, of)| Field::new(*name, of.clone(), false));
        let schema = Schema::new(fields.collect::<Vec<_>>());
        let mut definition = TableDefinition::new(schema, &key)?;
        definition.pages = tables.page_options(layout);
        let mut load = tables.load(name, definition, LoadOptions { replace: true }).await?;
        load.push(&load.table().batch(&rows_of(name, &mut random))?).await?;
        load.finish().await?;
    }
    Ok(())
}
