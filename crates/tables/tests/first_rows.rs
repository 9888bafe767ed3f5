//! The first rows of a range, of a table with thousands of changes that wait in memory, against a map.

#![expect(clippy::unwrap_used, reason = "a test stops at what it did not expect")]

mod common;

use std::collections::BTreeMap;
use std::sync::Arc;

use arrow_schema::{DataType, Field, Schema};
use moirai_btree::{Store, with_leaves};
use moirai_devices::{Access, FaultyDevice, Power};
use moirai_runtime::{Random, block_on_virtual, each_seed, random};
use moirai_storage::Device;
use moirai_tables::{
    Datum, Isolation, Layout, PageOptions, Row, Table, TableDefinition, Tables, TransactionOptions,
};
use moirai_units::{BlockCount, ByteCount};
use moirai_update::{Kinds, Options};
use rand::Rng;
use rand::seq::IndexedRandom;

use crate::common::Devices;

type Model = BTreeMap<(i64, i64), i64>;

fn number(number: i64) -> Datum {
    number.into()
}

async fn table(tables: &Arc<Tables>, layout: Layout) -> Table {
    let fields = ["a", "b", "n"].map(|name| Field::new(name, DataType::Int64, false));
    let schema = Arc::new(Schema::new(fields.to_vec()));
    let mut definition = TableDefinition::new(schema, &["a", "b"]).unwrap();
    definition.pages = PageOptions::of(layout);
    tables.create("t", definition).await.unwrap();
    tables.table("t").await.unwrap()
}

/// Puts, deletes, sets and adds: most are at the ends of few ranges, as those of queues are.
async fn change(tables: &Arc<Tables>, table: &Table, model: &mut Model, random: &mut Random) {
    let mut tx = tables.begin_transaction(TransactionOptions::of(Isolation::ReadCommitted));
    for _ in 0..random.random_range(1..200) {
        let a = random.random_range(0..4);
        let key = |b: i64| [number(a), number(b)];
        let mut of_a = model.range((a, 0)..(a + 1, 0)).map(|((_, b), _)| *b);
        let first = of_a.next();
        let ends = (first, of_a.next_back().or(first));
        match (random.random_range(0..10), ends) {
            (0..5, (_, last)) => {
                let b = last.map_or(0, |last| last + 1);
                tx.put_row(table, &[number(a), number(b), number(7)]).await.unwrap();
                model.insert((a, b), 7);
            }
            (5..8, (Some(first), _)) => {
                tx.delete_row(table, &key(first)).await.unwrap();
                model.remove(&(a, first));
            }
            (_, (Some(first), Some(last))) => {
                let b = random.random_range(first..=last);
                if let Some(n) = model.get_mut(&(a, b)) {
                    if random.random() {
                        tx.add_fields(table, &key(b), &[(2, number(3))]).await.unwrap();
                        *n += 3;
                    } else {
                        tx.set_fields(table, &key(b), &[(2, number(b))]).await.unwrap();
                        *n = b;
                    }
                }
            }
            _ => {}
        }
    }
    tx.commit().await.unwrap();
}

async fn run() {
    let mut random = random("first rows");
    let layout = *Layout::ALL.choose(&mut random).unwrap();
    let devices = Devices::formatted(&Power::on(), 100_000, 20_000).await;
    // Little is swept before it is told.
    let tables = devices.open(Options { idle: None, ..Options::default() }).await.unwrap();
    let table = table(&tables, layout).await;
    let mut model = Model::new();
    for _ in 0..30 {
        change(&tables, &table, &mut model, &mut random).await;
        if random.random_bool(0.05) {
            tables.store().checkpoint().await.unwrap();
        }
        let snapshot = tables.snapshot().await;
        for _ in 0..10 {
            let a = random.random_range(0..4);
            let from = random.random_bool(0.5).then(|| random.random_range(0..2000));
            let most = *[1, 3, 15, 300, usize::MAX].choose(&mut random).unwrap();
            let prefix = table.key_of(&[number(a)]).unwrap();
            let first = from
                .map_or(prefix.clone(), |from| table.key_of(&[number(a), number(from)]).unwrap());
            let found =
                snapshot.first_rows(&table, (&prefix, &first), &[1, 2], most).await.unwrap();
            let expected: Vec<Row> = model
                .range((a, from.unwrap_or(0))..(a + 1, 0))
                .take(most)
                .map(|((_, b), n)| vec![number(*b), number(*n)])
                .collect();
            assert!(found == expected, "{layout:?}: {most} of {a} from {from:?}");
        }
    }
}

#[test]
fn first_rows_are_those_of_a_map() {
    each_seed(if cfg!(debug_assertions) { 20 } else { 500 }, run);
}

/// Rows that were deleted at the front of a range are passed.
#[test]
fn many_deleted_rows_are_passed() {
    block_on_virtual(1, async {
        let devices = Devices::formatted(&Power::on(), 100_000, 20_000).await;
        let tables = devices.open(Options { idle: None, ..Options::default() }).await.unwrap();
        let table = table(&tables, Layout::Nsm).await;
        let begin = || tables.begin_transaction(TransactionOptions::of(Isolation::ReadCommitted));
        let mut tx = begin();
        for b in 0..5000 {
            tx.put_row(&table, &[number(1), number(b), number(b)]).await.unwrap();
        }
        tx.commit().await.unwrap();
        let mut tx = begin();
        for b in 0..4990 {
            tx.delete_row(&table, &[number(1), number(b)]).await.unwrap();
        }
        tx.commit().await.unwrap();
        let prefix = table.key_of(&[number(1)]).unwrap();
        let snapshot = tables.snapshot().await;
        let found = snapshot.first_rows(&table, (&prefix, &[]), &[1], 3).await.unwrap();
        assert_eq!(found, [4990, 4991, 4992].map(|b| vec![number(b)]));
    });
}

/// Whoever takes rows from one end of a table, as from a queue, passes those that were taken before. They are not to be more and more.
#[test]
fn rows_that_were_taken_are_not_passed_for_ever() {
    block_on_virtual(1, async {
        let open = |uri: &str| moirai_devices::open(uri.parse().unwrap(), Access::Write).unwrap();
        let data = open("sim:ssd-slc?size=64MiB");
        let logs =
            [FaultyDevice::new("log".into(), BlockCount(40_000), BlockCount(1), Power::on())
                as Arc<dyn Device>];
        Store::format(&*data, &logs, with_leaves(ByteCount(2048))).await.unwrap();
        // All of it is in memory, which is never full.
        let options = Options { memory: ByteCount::mib(64), idle: None, ..Options::default() };
        let tables = Tables::open(data, &logs, Kinds::new(), options).await.unwrap();
        let table = table(&tables, Layout::Nsm).await;
        let begin = || tables.begin_transaction(TransactionOptions::of(Isolation::ReadCommitted));
        let mut tx = begin();
        for b in 0..6000 {
            tx.put_row(&table, &[number(1), number(b), number(b)]).await.unwrap();
        }
        tx.commit().await.unwrap();
        tables.store().checkpoint().await.unwrap();
        let prefix = table.key_of(&[number(1)]).unwrap();
        let placed = tables.store().figures().placed;
        for b in 0..6000 {
            let snapshot = tables.snapshot().await;
            let first = snapshot.first_rows(&table, (&prefix, &[]), &[1], 1).await.unwrap();
            assert_eq!(first, [vec![number(b)]]);
            let mut tx = begin();
            tx.delete_row(&table, &[number(1), number(b)]).await.unwrap();
            tx.commit().await.unwrap();
        }
        let figures = tables.store().figures();
        let (placed, queued) = (figures.placed - placed, figures.queued);
        assert!((1..60).contains(&placed) && queued < 3000, "{placed} sweeps, {queued} pending");
    });
}
