//! Checks of a store with tables, indexes and trees: planted damage of each kind of block, and indexes that lack entries.

#![expect(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    reason = "a test stops at what it did not expect"
)]

mod common;

use std::collections::BTreeMap;
use std::sync::Arc;

use arrow_array::{ArrayRef, Int64Array, RecordBatch, StringViewArray};
use arrow_schema::{DataType, Field, Schema};
use moirai_devices::Power;
use moirai_runtime::block_on_virtual;
use moirai_storage::Device;
use moirai_tables::{
    Changes, Fault, IndexDefinition, Layout, LoadOptions, PageOptions, ScanOptions, Table,
    TableDefinition, Tables,
};
use moirai_units::{BlockCount, BlockRange, ByteCount, Lbn};
use moirai_update::{ExtentUse, Modification, Options, PUT};

use crate::common::Devices;

const MEMORY: ByteCount = ByteCount(64 << 10);

async fn formatted() -> Devices {
    Devices::formatted(&Power::on(), 100_000, 20_000).await
}

/// Turns one bit of a block over, and back again.
async fn flip(device: &dyn Device, lbn: Lbn, byte: usize) {
    let mut content = device.read(BlockRange::new(lbn, BlockCount(1))).await.unwrap();
    content[byte] ^= 4;
    device.write(lbn, content).await.unwrap();
}

/// A table with a key, a number that only one row has, and a text.
fn definition(layout: Layout) -> TableDefinition {
    let schema = Schema::new(vec![
        Field::new("id", DataType::Int64, false),
        Field::new("number", DataType::Int64, true),
        Field::new("text", DataType::Utf8View, true),
    ]);
    let mut definition = TableDefinition::new(schema, &["id"]).unwrap();
    definition.pages = PageOptions::for_device(layout, ByteCount(100_000 * 512));
    definition
}

fn numbers(from: i64, count: i64, of: impl Fn(i64) -> i64) -> ArrayRef {
    Arc::new(Int64Array::from_iter_values((from..from + count).map(of)))
}

fn rows(table: &Table, from: i64, count: i64) -> RecordBatch {
    let text = |id| format!("row {id}, number {}", id * 7);
    let texts = StringViewArray::from_iter_values((from..from + count).map(text));
    let columns = vec![
        numbers(from, count, |id| id),
        numbers(from, count, |id| 1_000_000 - id),
        Arc::new(texts),
    ];
    RecordBatch::try_new(Arc::clone(table.schema()), columns).unwrap()
}

async fn loaded(tables: &Arc<Tables>, name: &str, layout: Layout, count: i64) -> Table {
    let mut load = tables.load(name, definition(layout), LoadOptions::default()).await.unwrap();
    let batch = rows(load.table(), 0, count);
    load.push(&batch).await.unwrap();
    load.finish().await.unwrap();
    let index =
        IndexDefinition { name: format!("by_number_{name}"), columns: vec![1], is_unique: true };
    tables.create_index(name, index).await.unwrap()
}

async fn faults(tables: &Arc<Tables>, table: &Table, memory: ByteCount) -> Vec<Fault> {
    tables.snapshot().await.check(table, memory).await.unwrap()
}

#[test]
fn a_flipped_bit_is_found_in_each_kind_of_block() {
    block_on_virtual(1, async {
        let devices = formatted().await;
        let options = Options { memory: MEMORY, idle: None, ..Options::default() };
        let tables = devices.open(options).await.unwrap();
        let tree = tables.store().tree("records").await.unwrap();
        for (name, layout) in [("c", Layout::Csm), ("n", Layout::Nsm), ("p", Layout::Pax)] {
            let table = loaded(&tables, name, layout, 3000).await;
            // So many that some are staged.
            for part in 0..20 {
                let mut changes = Changes::new();
                changes.put(&table, &rows(&table, 5000 + part * 200, 200)).unwrap();
                tables.commit(&changes).await.unwrap();
            }
        }
        let store = tables.store();
        for number in 0..3000_u64 {
            let key = number.wrapping_mul(0x9e37_79b9_7f4a_7c15).to_be_bytes();
            store.put(&tree, &key, &[number as u8; 40]).await.unwrap();
        }
        store.put(&tree, b"long", &[7; 100_000]).await.unwrap();
        store.checkpoint().await.unwrap();
        assert_eq!(store.check().await, []);
        let map = store.engine().map().await;
        drop(tables);
        let mut places: Vec<(&str, Lbn)> = vec![("a superblock", Lbn(0)), ("a superblock", Lbn(8))];
        for extent in &map {
            let what = match extent.used_for {
                ExtentUse::Blocks(_) => "blocks",
                ExtentUse::Staged(_) => "staged",
                ExtentUse::LongValues => "a long value",
                ExtentUse::Checkpoint => "the checkpoint",
            };
            places.push((what, extent.blocks.first));
        }
        let mut found = BTreeMap::new();
        let read_only = Options { read_only: true, ..options };
        for (what, lbn) in places {
            flip(&*devices.data, lbn, 4).await;
            let tables = devices.open(read_only).await.unwrap();
            let damage = tables.store().check().await;
            let is_there =
                |one: &moirai_btree::Damage| (one.blocks.first..one.blocks.end()).contains(&lbn);
            assert!(damage.iter().any(is_there), "{what} at {lbn:?}: {damage:?}");
            for one in damage.iter().filter(|one| is_there(one)) {
                *found.entry((what, one.what)).or_insert(0) += 1;
            }
            drop(tables);
            flip(&*devices.data, lbn, 4).await;
        }
        let kinds: Vec<_> = found.keys().map(|(_, found)| *found).collect();
        for kind in ["a superblock", "a leaf", "staged changes", "a long value", "the checkpoint"] {
            assert!(kinds.contains(&kind), "{found:?}");
        }
        assert_eq!(devices.open(read_only).await.unwrap().store().check().await, []);
    });
}

#[test]
fn rows_without_an_entry_are_found_and_get_one() {
    for layout in Layout::ALL {
        block_on_virtual(1, async {
            let devices = formatted().await;
            let tables = devices.open(Options::default()).await.unwrap();
            let table = loaded(&tables, "t", layout, 3000).await;
            let index = table.indexes()[0].clone();
            assert_eq!(faults(&tables, &table, MEMORY).await, []);
            // Deletes the entries of two rows that stay.
            let mut changes = Changes::new();
            let lost = [numbers(40, 2, |id| id), numbers(40, 2, |id| 1_000_000 - id)];
            changes.forget(&table, &index, &lost).unwrap();
            tables.commit(&changes).await.unwrap();
            // In one pass, and in several.
            for memory in [ByteCount(1 << 20), ByteCount(10_000)] {
                let found = faults(&tables, &table, memory).await;
                let [Fault { table, index: Some(index), problem }] = &found[..] else {
                    panic!("{found:?}");
                };
                assert_eq!((&table[..], &index[..]), ("t", "by_number_t"));
                let is_named = problem.contains("the key (40)") || problem.contains("the key (41)");
                assert!(problem.starts_with("2 rows have no entry") && is_named, "{problem}");
            }
            let made = tables.remake_index("by_number_t").await.unwrap();
            assert_eq!(faults(&tables, &made, MEMORY).await, []);
            let by_number = &made.indexes()[0];
            let prefix = by_number.key_prefix(&[numbers(40, 1, |id| 1_000_000 - id)]).unwrap();
            let options = ScanOptions { from: prefix, ..ScanOptions::default() };
            let snapshot = tables.snapshot().await;
            let mut scan = snapshot.index_scan(&made, by_number, options).unwrap();
            let first = scan.next().await.unwrap().unwrap();
            assert_eq!(first.slice(0, 1), rows(&made, 40, 1));
        });
    }
}

#[test]
fn rows_with_the_values_of_others_are_found_in_a_unique_index() {
    block_on_virtual(1, async {
        let devices = formatted().await;
        let tables = devices.open(Options::default()).await.unwrap();
        let table = loaded(&tables, "t", Layout::Csm, 1000).await;
        // `set` does not look for conflicts.
        let mut changes = Changes::new();
        let number: ArrayRef = numbers(7, 1, |id| 1_000_000 - id);
        changes.set(&table, &[numbers(900, 1, |id| id)], &[(1, number)], &[]).unwrap();
        tables.commit(&changes).await.unwrap();
        let found = faults(&tables, &table, MEMORY).await;
        assert_eq!(found.len(), 1, "{found:?}");
        assert!(found[0].problem.contains("(7) and (900)"), "{found:?}");
    });
}

#[test]
fn rows_that_cannot_be_read_are_a_fault() {
    block_on_virtual(1, async {
        let devices = formatted().await;
        let tables = devices.open(Options::default()).await.unwrap();
        let table = loaded(&tables, "t", Layout::Nsm, 100).await;
        // No key of the table: these have eight bytes.
        let row = Modification { key: b"key", kind: PUT, bytes: b"no fields" };
        tables.store().engine().modify(table.space(), row).await.unwrap();
        let found = faults(&tables, &table, MEMORY).await;
        assert_eq!(found.len(), 1, "{found:?}");
        assert!(found[0].index.is_none() && found[0].problem.contains("no page"), "{found:?}");
    });
}
