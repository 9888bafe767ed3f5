//! Blind additions in transactions of 1,000: all to one row, and each to a random one. Transactions that add to a row do not wait for each
//! other, so that the one row takes as many.
//!
//!     cargo run --release -p moirai-tables --example hot_row -- FILE [SECONDS [TASKS]]
//!
//! FILE is made anew, of 4 GiB, and FILE.log beside it. Each way is measured three times, in turn.

#![expect(clippy::print_stdout, reason = "what it measures is what it is for")]

use std::error::Error;
use std::sync::Arc;

use arrow_schema::{DataType, Field, Schema};
use moirai_btree::{Store, with_leaves};
use moirai_devices::{Access, NewFiles};
use moirai_runtime::{block_on_real, now, random, spawn};
use moirai_storage::Device;
use moirai_tables::{
    Datum, Isolation, LoadOptions, Table, TableDefinition, Tables, TransactionOptions,
};
use moirai_units::{ByteCount, Nanos};
use moirai_update::{Kinds, Options};
use rand::Rng;

type Failed = Box<dyn Error + Send + Sync>;

const ROWS: i64 = 1_000_000;
const ADDITIONS: usize = 1000;

/// Adds for a while from several tasks, to the first rows; gives the additions a second.
async fn run(
    tables: &Arc<Tables>,
    table: &Table,
    rows: i64,
    (time, tasks): (Nanos, u64),
) -> Result<f64, Failed> {
    let began = now();
    let tasks: Vec<_> = (0..tasks)
        .map(|task| {
            let (tables, table) = (Arc::clone(tables), table.clone());
            let mut random = random(&format!("task {task}"));
            spawn(async move {
                let mut added = 0;
                while now().since(began).0 < time.0 {
                    let mut tx =
                        tables.begin_transaction(TransactionOptions::of(Isolation::ReadCommitted));
                    for _ in 0..ADDITIONS {
                        let key = [Datum::from(random.random_range(0..rows))];
                        tx.add_fields(&table, &key, &[(1, Datum::from(1_i64))]).await?;
                    }
                    tx.commit().await?;
                    added += ADDITIONS;
                }
                Ok::<usize, moirai_tables::Error>(added)
            })
        })
        .collect();
    let mut added = 0;
    for task in tasks {
        added += task.await?;
    }
    Ok(added as f64 / now().since(began).as_s())
}

fn main() -> Result<(), Failed> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [file, rest @ ..] = &arguments[..] else {
        return Err("name FILE [SECONDS [TASKS]]".into());
    };
    let number =
        |place: usize, default: u64| rest.get(place).map_or(Ok(default), |one| one.parse());
    let (time, tasks) = (Nanos(number(0, 10)? * 1_000_000_000), number(1, 4)?);
    block_on_real(1, async {
        let files = NewFiles::new();
        let open = |path: String, size: &str| -> Result<Arc<dyn Device>, Failed> {
            let _ = std::fs::remove_file(&path);
            Ok(moirai_devices::open(
                format!("file:{path}?size={size}").parse()?,
                Access::Create(&files),
            )?)
        };
        let (data, logs) = (open(file.clone(), "4GiB")?, [open(format!("{file}.log"), "256MiB")?]);
        Store::format(&*data, &logs, with_leaves(ByteCount(8 << 10))).await?;
        let options = Options { memory: ByteCount::mib(256), ..Options::default() };
        let tables = Tables::open(data, &logs, Kinds::new(), options).await?;
        let columns = ["id", "n"].map(|name| Field::new(name, DataType::Int64, false));
        let definition = TableDefinition::new(Schema::new(columns.to_vec()), &["id"])?;
        let mut load = tables.load("t", definition, LoadOptions::default()).await?;
        for first in (0..ROWS).step_by(10_000) {
            let rows = (first..first + 10_000).map(|id| vec![id.into(), Datum::from(0_i64)]);
            load.push(&load.table().batch(&rows.collect::<Vec<_>>())?).await?;
        }
        load.finish().await?;
        let table = tables.table("t").await?;
        let mut rates = [Vec::new(), Vec::new()];
        for _ in 0..3 {
            for (rates, (name, rows)) in
                rates.iter_mut().zip([("one row", 1), ("random rows", ROWS)])
            {
                let rate = run(&tables, &table, rows, (time, tasks)).await?;
                println!("{name:12} {rate:10.0} additions/s");
                rates.push(rate);
            }
        }
        let [one, random] = rates.map(|mut rates| {
            rates.sort_by(f64::total_cmp);
            rates.get(1).copied().unwrap_or_default()
        });
        println!("medians: one row takes {:.2} times as many as random rows", one / random);
        Ok(())
    })
}
