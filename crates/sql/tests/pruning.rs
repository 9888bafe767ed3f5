//! Pages are skipped where their bounds rule a filter out, and no answer changes by it.

#![expect(clippy::unwrap_used, reason = "a test stops at what it did not expect")]

use std::sync::Arc;

use moirai::runtime::{block_on_virtual, random};
use moirai::storage::{Device, Metered};
use moirai::store::{LoadOptions, PageLayout, Store};
use moirai_sql::arrow::array::{Int32Array, Int64Array, RecordBatch, StringViewArray};
use moirai_sql::arrow::datatypes::{DataType, Field, Schema, SchemaRef};
use moirai_sql::arrow::util::pretty::pretty_format_batches;
use moirai_sql::{Database, memory_database};
use rand::Rng;

const ROWS: i64 = 40_000;

fn schema() -> SchemaRef {
    Arc::new(Schema::new(vec![
        Field::new("rising", DataType::Int64, false),
        Field::new("mostly_null", DataType::Int32, true),
        Field::new("noise", DataType::Int32, false),
        Field::new("text", DataType::Utf8View, false),
    ]))
}

fn batch() -> RecordBatch {
    let mut random = random("pruning");
    // The first half has no values at all, so that whole pages are null.
    let nulls =
        (0..ROWS).map(|row| (row > ROWS / 2 && row % 5 == 0).then_some((row / 1000) as i32));
    RecordBatch::try_new(
        schema(),
        vec![
            Arc::new(Int64Array::from_iter_values(0..ROWS)),
            Arc::new(Int32Array::from_iter(nulls)),
            Arc::new(Int32Array::from_iter_values((0..ROWS).map(|_| random.random_range(0..1000)))),
            Arc::new(StringViewArray::from_iter_values(
                (0..ROWS).map(|row| format!("t{}", row % 7)),
            )),
        ],
    )
    .unwrap()
}

async fn answer(database: &Database, statement: &str) -> String {
    let (_, batches) = database.query(statement).await.unwrap();
    pretty_format_batches(&batches).unwrap().to_string()
}

#[test]
fn filters_skip_pages_and_change_no_answer() {
    block_on_virtual(1, async {
        let memory = memory_database([("t".to_owned(), schema(), vec![batch()])]).unwrap();
        for layout in [PageLayout::Csm, PageLayout::Nsm] {
            let device = moirai::open_device("sim:quantum-atlas-10k").await.unwrap();
            let device = Metered::new(device);
            let store = Store::open(Arc::clone(&device) as Arc<dyn Device>).await.unwrap();
            let mut load =
                store.load("t", &schema(), layout, LoadOptions::default()).await.unwrap();
            load.append(&batch()).await.unwrap();
            load.finish().await.unwrap();
            let database = Database::new(&store).unwrap();
            let blocks_of = |filter: &'static str| {
                let (database, memory, device) = (&database, &memory, &device);
                async move {
                    let statement = format!(
                        "select count(*), sum(rising), min(mostly_null), max(text) from t where {filter}"
                    );
                    device.take();
                    let found = answer(database, &statement).await;
                    let blocks = device.take().read_blocks.0;
                    assert_eq!(found, answer(memory, &statement).await, "{layout}: {filter}");
                    blocks
                }
            };
            let all = blocks_of("noise >= 0").await;
            // The first time, the bounds of the column are read too.
            for (filter, share) in [
                ("rising = 12345", 0.2),
                ("rising = 12345", 0.02),
                ("rising between 100 and 4000", 0.25),
                ("rising in (5, 39999)", 0.05),
                ("rising < 0", 0.01),
                ("rising < 0 or noise < 5", 1.1),
                ("mostly_null is not null", 0.8),
                ("mostly_null is not null", 0.6),
                ("mostly_null = 39 and rising > 0", 0.1),
                ("mostly_null is null and rising < 1000", 0.1),
                ("noise = 77", 1.2),
                ("text = 't3'", 1.0),
                ("rising + 1 = 8", 1.0),
            ] {
                let blocks = blocks_of(filter).await;
                assert!(
                    blocks as f64 <= share * all as f64,
                    "{layout}: {filter} reads {blocks} of {all} blocks"
                );
            }
        }
    });
}

#[test]
fn limits_and_counts_read_what_they_need() {
    block_on_virtual(2, async {
        let device = Metered::new(moirai::open_device("sim:quantum-atlas-10k").await.unwrap());
        let store = Store::open(Arc::clone(&device) as Arc<dyn Device>).await.unwrap();
        let options = LoadOptions::default();
        let mut load = store.load("t", &schema(), PageLayout::Csm, options).await.unwrap();
        load.append(&batch()).await.unwrap();
        load.finish().await.unwrap();
        let database = Database::new(&store).unwrap();
        let count = "select count(*), min(rising), max(rising) from t";
        device.take();
        assert!(answer(&database, count).await.contains("| 40000    | 0"));
        assert_eq!(device.take().read_blocks.0, 0, "the catalog knows");
        let first = answer(&database, "select rising from t limit 3").await;
        assert_eq!(first.lines().count(), 7, "{first}");
        assert!(device.take().read_blocks.0 < 20);
    });
}
