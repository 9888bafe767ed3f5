//! Stores on several disks, with the log behind the data on the same ones: scans keep all disks busy.

#![expect(clippy::unwrap_used, reason = "a test stops at what it did not expect")]

use std::sync::Arc;

use arrow_array::{ArrayRef, Int64Array, RecordBatch};
use arrow_schema::{DataType, Field, Schema};
use moirai::create_tables_on;
use moirai::devices::{Access, open};
use moirai::runtime::{block_on_virtual, now, random};
use moirai::storage::Device;
use moirai::tables::{Layout, LoadOptions, PageOptions, ScanOptions, TableDefinition};
use moirai::units::ByteCount;
use moirai::update::Options;
use moirai::volume::{LayoutDescription, Level, StripeUnit, Volume};
use rand::Rng;

const COLUMNS: usize = 12;
const ROWS: usize = 120_000;

/// Disks as one device.
fn array(disks: usize) -> Arc<dyn Device> {
    let layout = LayoutDescription::Stripe { unit: StripeUnit::Track };
    let disk = |_| open("sim:seagate-cheetah-36es".parse().unwrap(), Access::Write).unwrap();
    Volume::new("array".into(), (0..disks).map(disk).collect(), Level::Raid0, layout).unwrap()
}

/// Virtual seconds of a scan of whole rows, which no encoding makes shorter.
fn scan_s(disks: usize, layout: Layout) -> f64 {
    block_on_virtual(1, async {
        let device = array(disks);
        let (memory, read_ahead) = (ByteCount::mib(256), ByteCount::mib(1));
        let options = Options { memory, read_ahead, ..Options::default() };
        let tables = create_tables_on(device, ByteCount(8192), options).await.unwrap();
        let names = (0..COLUMNS).map(|column| format!("c{column}"));
        let fields: Vec<Field> =
            names.map(|name| Field::new(name, DataType::Int64, false)).collect();
        let mut definition = TableDefinition::new(Schema::new(fields), &["c0"]).unwrap();
        definition.pages = PageOptions::of(layout);
        let mut load = tables.load("rows", definition, LoadOptions::default()).await.unwrap();
        let mut random = random("rows");
        let ids: ArrayRef = Arc::new(Int64Array::from_iter_values(0..ROWS as i64));
        let others = (1..COLUMNS).map(|_| -> ArrayRef {
            Arc::new(Int64Array::from_iter_values((0..ROWS).map(|_| random.random())))
        });
        let columns = std::iter::once(ids).chain(others).collect();
        let batch = RecordBatch::try_new(Arc::clone(load.table().schema()), columns).unwrap();
        load.push(&batch).await.unwrap();
        let (table, _) = load.finish().await.unwrap();
        let began = now();
        let mut scan = tables.snapshot().await.scan(&table, ScanOptions::default()).unwrap();
        let mut rows = 0;
        while let Some(batch) = scan.next().await.unwrap() {
            rows += batch.num_rows();
        }
        assert_eq!(rows, ROWS);
        let took = now().since(began).as_s();
        tables.close().await.unwrap();
        took
    })
}

/// Four disks take little more than a fourth of the time.
#[test]
fn a_scan_reads_from_all_disks_of_a_stripe() {
    let (one_s, four_s) = (scan_s(1, Layout::Nsm), scan_s(4, Layout::Nsm));
    assert!(four_s < 0.35 * one_s, "{four_s} s on four disks, {one_s} s on one");
}

/// Clotho 7.2.1: columns are no slower than rows where all are read. They lie apart, in pieces that must not be short.
#[test]
fn whole_rows_in_columns_are_read_as_fast_as_rows() {
    for disks in [1, 4] {
        let (rows_s, columns_s) = (scan_s(disks, Layout::Nsm), scan_s(disks, Layout::Csm));
        assert!(
            columns_s < 1.1 * rows_s,
            "{disks} disks: {columns_s} s in columns, {rows_s} s in rows"
        );
    }
}
