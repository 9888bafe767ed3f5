//! Devices and tables for the tests of the store.

use std::sync::Arc;

use arrow_array::{
    ArrayRef, Date32Array, Decimal128Array, Int32Array, Int64Array, RecordBatch, StringViewArray,
};
use arrow_schema::{DataType, Field, Schema, SchemaRef};
use futures::StreamExt;
use moirai_devices::{Access, NewFiles, open};
use moirai_storage::Device;
use moirai_store::{LoadOptions, PageLayout, ScanOptions, Store, Table};
use moirai_units::BlockCount;
use moirai_volume::{LayoutDescription, Level, Volume};
use rand::Rng;

/// A quadrangle volume of four Cheetah 36ES with d = 4.
pub(crate) fn quadrangles(query: &str) -> Arc<dyn Device> {
    let disk = || {
        open(format!("sim:seagate-cheetah-36es{query}").parse().unwrap(), Access::Write).unwrap()
    };
    let layout =
        LayoutDescription::Quadrangle { depth: Some(4), block: BlockCount(1), zone: Some(0) };
    Volume::new("volume:test".into(), (0..4).map(|_| disk()).collect(), Level::Raid0, layout)
        .unwrap()
}

pub(crate) fn file(path: &std::path::Path, size: &str) -> Arc<dyn Device> {
    let size = if path.exists() { String::new() } else { format!("size={size}&") };
    let uri = format!("file:{}?{size}ensemble=64KiB", path.display());
    open(uri.parse().unwrap(), Access::Create(&NewFiles::new())).unwrap()
}

pub(crate) fn schema() -> SchemaRef {
    Arc::new(Schema::new(vec![
        Field::new("key", DataType::Int64, false),
        Field::new("number", DataType::Int32, true),
        Field::new("price", DataType::Decimal128(15, 2), true),
        Field::new("flag", DataType::Utf8View, false),
        Field::new("day", DataType::Date32, false),
        Field::new("comment", DataType::Utf8View, true),
    ]))
}

pub(crate) fn batch(first: u64, rows: usize, random: &mut impl Rng) -> RecordBatch {
    let mut nullable = |chance: f64| !random.random_bool(chance);
    let valid: Vec<[bool; 3]> =
        (0..rows).map(|_| [nullable(0.2), nullable(0.1), nullable(0.3)]).collect();
    let row = |index: usize| first as i64 + index as i64;
    let comments: Vec<Option<String>> =
        (0..rows).map(|i| valid[i][2].then(|| "x".repeat((row(i) as usize * 7) % 90))).collect();
    let columns: Vec<ArrayRef> = vec![
        Arc::new(Int64Array::from_iter_values((0..rows).map(|i| row(i) * 3))),
        Arc::new(Int32Array::from_iter((0..rows).map(|i| valid[i][0].then(|| -(row(i) as i32))))),
        Arc::new(
            Decimal128Array::from_iter(
                (0..rows).map(|i| valid[i][1].then(|| i128::from(row(i)) * 101)),
            )
            .with_precision_and_scale(15, 2)
            .unwrap(),
        ),
        Arc::new(StringViewArray::from_iter_values((0..rows).map(|i| ["A", "N", "R"][i % 3]))),
        Arc::new(Date32Array::from_iter_values((0..rows).map(|i| (row(i) / 100) as i32))),
        Arc::new(StringViewArray::from_iter(comments)),
    ];
    RecordBatch::try_new(schema(), columns).unwrap()
}

/// Loads `rows` rows; gives what was loaded as one batch.
pub(crate) async fn load(
    store: &Arc<Store>,
    name: &str,
    layout: PageLayout,
    rows: usize,
) -> RecordBatch {
    let mut random = moirai_runtime::random(&format!("load {name}"));
    let mut load = store.load(name, &schema(), layout, LoadOptions::default()).await.unwrap();
    let mut batches = Vec::new();
    let mut done = 0;
    while done < rows {
        let count = random.random_range(1..=5000).min(rows - done);
        let next = batch(done as u64, count, &mut random);
        load.append(&next).await.unwrap();
        batches.push(next);
        done += count;
    }
    load.finish().await.unwrap();
    arrow_select::concat::concat_batches(&schema(), &batches).unwrap()
}

pub(crate) async fn scan(
    table: &Arc<Table>,
    options: ScanOptions,
) -> moirai_store::Result<RecordBatch> {
    let scan = table.scan(options).await?;
    let schema = Arc::clone(scan.schema());
    let mut stream = scan.stream();
    let mut batches = Vec::new();
    while let Some(batch) = stream.next().await {
        batches.push(batch?);
    }
    if schema.fields().is_empty() {
        let rows = batches.iter().map(RecordBatch::num_rows).sum();
        let options = arrow_array::RecordBatchOptions::new().with_row_count(Some(rows));
        return Ok(RecordBatch::try_new_with_options(schema, vec![], &options)?);
    }
    Ok(arrow_select::concat::concat_batches(&schema, &batches)?)
}
