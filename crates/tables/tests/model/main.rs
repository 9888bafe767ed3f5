//! Random tables and histories of them against rows in memory: loads, changes, scans of any columns and ranges, rows by key,
//! snapshots, checkpoints, and what a power cut leaves.

#![expect(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    reason = "a test stops at what it did not expect"
)]

#[path = "../common/mod.rs"]
mod common;
mod kind;
mod values;

use std::collections::BTreeSet;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::panic::catch_unwind;
use std::sync::Arc;

use arrow_array::{
    Array, ArrayRef, BinaryViewArray, BooleanArray, RecordBatch, RecordBatchOptions, StringArray,
};
use arrow_schema::{DataType, Field, Schema};
use arrow_select::filter::filter_record_batch;
use moirai_devices::Power;
use moirai_runtime::{Random, block_on_virtual, each_seed, random};
use moirai_tables::{
    Canary, Error, FilterOrder, Index, LoadOptions, RowFilter, ScanOptions, Snapshot, Table,
    TableDefinition, Tables, key_behind,
};
use moirai_units::ByteCount;
use moirai_update::Options;
use rand::Rng;

use crate::common::Devices;
use crate::kind::{Key, Kind, Model, Row};
use crate::values::{Value, array_of};

fn concatenated(scan_schema: &arrow_schema::SchemaRef, batches: &[RecordBatch]) -> RecordBatch {
    let rows: usize = batches.iter().map(RecordBatch::num_rows).sum();
    if scan_schema.fields().is_empty() {
        let options = RecordBatchOptions::new().with_row_count(Some(rows));
        return RecordBatch::try_new_with_options(Arc::clone(scan_schema), vec![], &options)
            .unwrap();
    }
    arrow_select::concat::concat_batches(scan_schema, batches).unwrap()
}

async fn scanned(
    snapshot: &Arc<Snapshot>,
    table: &Table,
    options: ScanOptions,
) -> Result<RecordBatch, Error> {
    let mut scan = Arc::clone(snapshot).scan(table, options)?;
    let (schema, mut batches) = (Arc::clone(scan.schema()), Vec::new());
    while let Some(batch) = scan.next().await? {
        assert!(batch.num_rows() > 0);
        batches.push(batch);
    }
    Ok(concatenated(&schema, &batches))
}

/// Reads the table in some ways, and compares it to the model.
async fn compare(
    random: &mut Random,
    snapshot: &Arc<Snapshot>,
    (table, kind): (&Table, &Kind),
    model: &Model,
) -> Result<(), Error> {
    let all = kind.all();
    let columns: Vec<usize> = all.iter().copied().filter(|_| random.random_bool(0.5)).collect();
    let batch_rows = random.random_range(1..300);
    let options =
        ScanOptions { columns: Some(columns.clone()), batch_rows, ..ScanOptions::default() };
    let found = scanned(snapshot, table, options).await?;
    assert_eq!(found, kind.batch(&columns, model.iter()));
    compare_filtered(random, snapshot, (table, kind), model).await?;
    for index in table.indexes() {
        compare_by_index(random, snapshot, (table, kind, index), model).await?;
        if kind.has_key() {
            compare_conflicts(random, snapshot, (table, kind, index), model).await?;
        }
    }
    if !kind.has_key() {
        return Ok(());
    }
    let (from, to) = (kind.any_key(random), kind.any_key(random));
    let has_end = random.random_bool(0.7);
    let bytes = |key: &Key| table.key(&kind.keys(&[key])).unwrap();
    let options = ScanOptions {
        columns: Some(columns.clone()),
        from: bytes(&from),
        to: has_end.then(|| bytes(&to)),
        batch_rows,
        ..ScanOptions::default()
    };
    let found = scanned(snapshot, table, options).await?;
    let is_in = |(key, _): &(&Key, &Row)| **key >= from && (!has_end || **key < to);
    assert_eq!(found, kind.batch(&columns, model.iter().filter(is_in)));
    let keys: Vec<Key> = (0..random.random_range(1..10)).map(|_| kind.any_key(random)).collect();
    let refs: Vec<&Key> = keys.iter().collect();
    let found = snapshot.rows(table, &kind.keys(&refs), &columns).await?;
    let expected = keys.iter().filter_map(|key| Some((key, model.get(key)?)));
    assert_eq!(found, kind.batch(&columns, expected));
    Ok(())
}

/// Keeps about one of some rows, by their values.
struct Sample {
    columns: Vec<usize>,
    one_of: u64,
}

impl RowFilter for Sample {
    fn columns(&self) -> &[usize] {
        &self.columns
    }

    fn keep(
        &self,
        rows: &RecordBatch,
    ) -> Result<BooleanArray, Box<dyn std::error::Error + Send + Sync>> {
        let keep = |row: usize| {
            let mut hasher = DefaultHasher::new();
            for array in rows.columns() {
                format!("{:?}", array.slice(row, 1)).hash(&mut hasher);
            }
            hasher.finish().is_multiple_of(self.one_of)
        };
        Ok((0..rows.num_rows()).map(|row| Some(keep(row))).collect())
    }
}

/// Reads rows that a filter keeps.
async fn compare_filtered(
    random: &mut Random,
    snapshot: &Arc<Snapshot>,
    (table, kind): (&Table, &Kind),
    model: &Model,
) -> Result<(), Error> {
    let some = |random: &mut Random| -> Vec<usize> {
        kind.all().into_iter().filter(|_| random.random_bool(0.4)).collect()
    };
    let (mut columns, of_filter) = (some(random), some(random));
    let orders =
        [FilterOrder::Chosen, FilterOrder::Together, FilterOrder::First, FilterOrder::Hint];
    let order = orders[random.random_range(0..4)];
    if order == FilterOrder::Hint {
        let others = of_filter.iter().copied().filter(|column| !columns.contains(column));
        columns.extend(others.collect::<Vec<_>>());
    }
    let one_of = [1, 2, 20, 1000][random.random_range(0..4)];
    let filter: Arc<dyn RowFilter> = Arc::new(Sample { columns: of_filter.clone(), one_of });
    let keep = filter.keep(&kind.batch(&of_filter, model.iter())).unwrap();
    let kept = model.iter().zip(keep.values()).filter(|(_, is_kept)| *is_kept);
    let expected = kind.batch(&columns, kept.map(|(row, _)| row));
    let places = of_filter.iter().map(|column| columns.iter().position(|one| one == column));
    let places: Option<Vec<usize>> = places.collect();
    let batch_rows = random.random_range(1..300);
    let options = ScanOptions { columns: Some(columns), batch_rows, ..ScanOptions::default() };
    let snapshot = Arc::clone(snapshot);
    let mut scan = snapshot.filtered_scan(table, options, Arc::clone(&filter), order)?;
    let (schema, mut batches) = (Arc::clone(scan.schema()), Vec::new());
    while let Some(batch) = scan.next().await? {
        batches.push(batch);
    }
    let mut found = concatenated(&schema, &batches);
    if order == FilterOrder::Hint {
        // Rows that the filter does not keep may come, too.
        let keep = filter.keep(&found.project(&places.unwrap()).unwrap()).unwrap();
        found = filter_record_batch(&found, &keep).unwrap();
    }
    assert_eq!(found, expected, "{order:?}, one of {one_of}");
    Ok(())
}

/// Reads all rows by an index, and some that have the values of one of them.
async fn compare_by_index(
    random: &mut Random,
    snapshot: &Arc<Snapshot>,
    (table, kind, index): (&Table, &Kind, &Index),
    model: &Model,
) -> Result<(), Error> {
    let columns: Vec<usize> = kind.all().into_iter().filter(|_| random.random_bool(0.5)).collect();
    let mut rows = kind.in_order_of(index.definition(), model);
    let (mut from, mut to) = (Vec::new(), None);
    if !rows.is_empty() && random.random_bool(0.7) {
        let (key, row) = rows[random.random_range(0..rows.len())];
        let count = random.random_range(1..=index.definition().columns.len());
        let of_prefix = &index.definition().columns[..count];
        let values = kind.values(of_prefix, key, row);
        let arrays = of_prefix.iter().zip(&values).map(|(column, value)| {
            array_of(kind.field(*column).data_type(), std::slice::from_ref(value))
        });
        match index.key_prefix(&arrays.collect::<Vec<_>>()) {
            Ok(prefix) => {
                to = key_behind(prefix.clone());
                from = prefix;
                rows.retain(|(key, row)| kind.values(of_prefix, key, row) == values);
            }
            Err(error) => assert!(values.contains(&None), "{error}"),
        }
    }
    let batch_rows = random.random_range(1..300);
    let pages = random.random_range(1..65);
    let options = ScanOptions { columns: Some(columns.clone()), from, to, batch_rows, pages };
    let mut scan = Arc::clone(snapshot).index_scan(table, index, options)?;
    let (schema, mut batches) = (Arc::clone(scan.schema()), Vec::new());
    while let Some(batch) = scan.next().await? {
        assert!(batch.num_rows() > 0 && batch.num_rows() <= batch_rows);
        batches.push(batch);
    }
    let found = concatenated(&schema, &batches);
    assert_eq!(found, kind.batch(&columns, rows.into_iter()));
    Ok(())
}

/// Asks which rows would have the values of others in an index.
async fn compare_conflicts(
    random: &mut Random,
    snapshot: &Arc<Snapshot>,
    (table, kind, index): (&Table, &Kind, &Index),
    model: &Model,
) -> Result<(), Error> {
    let mut rows = Model::new();
    for _ in 0..random.random_range(1..20) {
        let row = match model.values().nth(random.random_range(0..=model.len())) {
            Some(row) if random.random_bool(0.5) => row.clone(),
            _ => kind.any_row(random),
        };
        rows.insert(kind.any_key(random), row);
    }
    let bytes = |key: &Key| table.key(&kind.keys(&[key])).unwrap();
    let left: BTreeSet<&Key> = model.keys().filter(|_| random.random_bool(0.1)).collect();
    let left_bytes: BTreeSet<Vec<u8>> = left.iter().map(|key| bytes(key)).collect();
    let batch = kind.batch(&kind.all(), rows.iter());
    let leave = |key: &Vec<u8>| left_bytes.contains(key);
    let found = snapshot.conflicts(table, index, &batch, leave).await?;
    let columns = &index.definition().columns;
    let expected = rows.iter().map(|(key, row)| {
        let values = kind.values(columns, key, row);
        !values.contains(&None)
            && model.iter().any(|(other, row)| {
                let has_values = || kind.values(columns, other, row) == values;
                other != key && !left.contains(other) && has_values()
            })
    });
    assert_eq!(found, expected.collect::<Vec<bool>>());
    Ok(())
}

/// Makes an index, or drops one; gives the definition from then on.
async fn reindex(random: &mut Random, tables: &Arc<Tables>, kind: &Kind) -> Result<(), Error> {
    let indexes = kind.definition.indexes();
    if indexes.len() > 2 || (!indexes.is_empty() && random.random_bool(0.4)) {
        let index = &indexes[random.random_range(0..indexes.len())];
        return tables.drop_index(&index.name).await;
    }
    match kind.any_index(random) {
        Some(index) => tables.create_index("t", index).await.map(drop),
        None => Ok(()),
    }
}

/// Loads a table; the model of it.
async fn load(
    random: &mut Random,
    tables: &Arc<Tables>,
    name: &str,
    kind: &Kind,
) -> Result<Model, Error> {
    let options = LoadOptions { replace: true };
    let mut load = tables.load(name, kind.definition.clone(), options).await?;
    let mut model = Model::new();
    let disorder = [0.0, 0.1, 1.0][random.random_range(0..3)];
    let mut rows = Vec::new();
    for number in 0..random.random_range(0..700) {
        let key = match kind.has_key() {
            true => kind.any_key(random),
            false => vec![Value::Number(number)],
        };
        if !model.contains_key(&key) {
            model.insert(key.clone(), kind.any_row(random));
            rows.push(key);
        }
    }
    if kind.has_key() {
        rows.sort();
        for at in 0..rows.len() {
            if random.random_bool(disorder) {
                let other = random.random_range(0..rows.len());
                rows.swap(at, other);
            }
        }
    }
    for part in rows.chunks(random.random_range(1..300)) {
        let batch = kind.batch(&kind.all(), part.iter().map(|key| (key, &model[key])));
        load.push(&batch).await?;
    }
    let (_, count) = load.finish().await?;
    assert_eq!(count, model.len() as u64);
    Ok(model)
}

/// Whether a snapshot ended: there is little memory, and it takes some.
fn is_too_old(error: &Error) -> bool {
    let Error::Store(moirai_btree::Error::Update(error)) = error else { return false };
    matches!(error, moirai_update::Error::PointTooOld { .. })
}

async fn survive(canary: Canary) {
    let mut random = random("tables");
    let random = &mut random;
    let power = Power::on();
    let devices = Devices::formatted(&power, 40_000, 3000).await;
    let options =
        Options { memory: ByteCount(random.random_range(64..512) << 10), ..Options::default() };
    let mut kind = Kind::any(random);
    // What is there, and what may be there instead after a crash.
    let mut durable: Option<Model> = None;
    for _ in 0..random.random_range(1..4) {
        let tables = devices.open(options).await.unwrap();
        tables.set_canary(canary);
        let mut maybe = durable.clone();
        let mut next_kind = None;
        if random.random_bool(0.4) {
            power.fail_after(random.random_range(0..200));
        }
        let mut held: Option<(Arc<Snapshot>, Table, Model)> = None;
        for _ in 0..random.random_range(1..30) {
            let is_load = durable.is_none() || random.random_bool(0.05);
            if is_load {
                // A table of another kind may take its place.
                let other = Kind::any(random);
                match load(random, &tables, "t", &other).await {
                    Ok(model) => {
                        (durable, kind) = (Some(model), other);
                        held = None;
                        maybe.clone_from(&durable);
                    }
                    Err(error) => {
                        assert!(power.is_off(), "{error}");
                        // It may have been named, or not.
                        next_kind = Some(other);
                        break;
                    }
                }
                continue;
            }
            let Ok(table) = tables.table("t").await else { break };
            let model = durable.as_mut().unwrap();
            if kind.has_key() {
                let mut changed = model.clone();
                let changes = kind.change(random, &table, &mut changed);
                maybe = Some(changed.clone());
                if let Err(error) = tables.commit(&changes).await {
                    assert!(power.is_off(), "{error}");
                    break;
                }
                *model = changed;
            }
            if random.random_bool(0.1) {
                match reindex(random, &tables, &kind).await {
                    Ok(()) => {}
                    Err(error) if is_too_old(&error) => {}
                    Err(error) => {
                        assert!(power.is_off(), "{error}");
                        break;
                    }
                }
                kind.definition = tables.table("t").await.unwrap().definition().clone();
                continue;
            }
            if random.random_bool(0.1) {
                held = Some((tables.snapshot().await, table.clone(), model.clone()));
            }
            if random.random_bool(0.2)
                && let Err(error) = tables.store().checkpoint().await
            {
                assert!(power.is_off(), "{error}");
                break;
            }
            if random.random_bool(0.3) {
                let snapshot = tables.snapshot().await;
                if let Err(error) = compare(random, &snapshot, (&table, &kind), model).await
                    && !is_too_old(&error)
                {
                    assert!(power.is_off(), "{error}");
                    break;
                }
            }
            if random.random_bool(0.2)
                && let Some((snapshot, table, model)) = &held
            {
                // It may have ended.
                drop(compare(random, snapshot, (table, &kind), model).await);
            }
        }
        drop(held);
        let was_off = power.is_off();
        drop(tables);
        power.bring_back();
        devices.data.restart();
        devices.log.restart();
        let tables = devices.open(options).await.unwrap();
        tables.set_canary(canary);
        match tables.find("t").await.unwrap() {
            None => assert!(durable.is_none(), "the table is lost"),
            Some(table) => {
                if let Some(other) = next_kind
                    && *table.definition() == other.definition
                {
                    // The load that failed at its end; its rows are not known any more.
                    assert!(was_off);
                    durable = None;
                    tables.drop_table("t").await.unwrap();
                    assert!(tables.find("t").await.unwrap().is_none());
                } else {
                    // An index came or went at the end, perhaps.
                    kind.definition = table.definition().clone();
                    let snapshot = tables.snapshot().await;
                    let found = scanned(&snapshot, &table, ScanOptions::default()).await.unwrap();
                    let before = kind.batch(&kind.all(), durable.as_ref().unwrap().iter());
                    if found != before {
                        let after = kind.batch(&kind.all(), maybe.as_ref().unwrap().iter());
                        assert_eq!(found, after, "neither before nor after");
                        durable = maybe;
                    }
                    let model = durable.as_ref().unwrap();
                    compare(random, &snapshot, (&table, &kind), model).await.unwrap();
                    let memory = ByteCount(random.random_range(1 << 10..1 << 16));
                    match snapshot.check(&table, memory).await {
                        Ok(faults) => assert_eq!(faults, []),
                        Err(error) => assert!(is_too_old(&error), "{error}"),
                    }
                }
            }
        }
        assert_eq!(tables.store().check().await, []);
    }
}

#[test]
fn tables_are_as_their_model_says() {
    let runs = if cfg!(debug_assertions) { 60 } else { 10_000 };
    each_seed(runs, async || survive(Canary::None).await);
}

/// That test notices each mistake.
#[test]
fn canaries_are_caught() {
    for canary in [Canary::StaleEntry, Canary::WholePages] {
        let is_noticed = |seed| catch_unwind(|| block_on_virtual(seed, survive(canary))).is_err();
        assert!((0..60).any(is_noticed), "{canary:?}");
    }
}

/// Rows that are as long as they may be: fewer than eight of them fill a page.
#[test]
fn pages_of_long_rows_are_loaded() {
    block_on_virtual(1, async {
        let devices = Devices::formatted(&Power::on(), 40_000, 3000).await;
        let tables = devices.open(Options::default()).await.unwrap();
        let schema = Arc::new(Schema::new(vec![Field::new("b", DataType::BinaryView, true)]));
        let mut definition = TableDefinition::new(Schema::clone(&schema), &[]).unwrap();
        definition.pages.page_bytes = ByteCount(8 << 10);
        let mut random = random("long rows");
        let rows: Vec<Option<Vec<u8>>> = (0..100)
            .map(|row| (row % 7 > 0).then(|| (0..2000).map(|_| random.random()).collect()))
            .collect();
        let bytes: ArrayRef =
            Arc::new(BinaryViewArray::from_iter(rows.iter().map(Option::as_deref)));
        let batch = RecordBatch::try_new(schema, vec![bytes]).unwrap();
        let mut load = tables.load("t", definition, LoadOptions::default()).await.unwrap();
        load.push(&batch).await.unwrap();
        let (table, _) = load.finish().await.unwrap();
        let found =
            scanned(&tables.snapshot().await, &table, ScanOptions::default()).await.unwrap();
        assert_eq!(found, batch);
    });
}

/// Texts of other types of Arrow come in, too.
#[test]
fn texts_are_held_as_views() {
    block_on_virtual(1, async {
        let devices = Devices::formatted(&Power::on(), 40_000, 3000).await;
        let tables = devices.open(Options::default()).await.unwrap();
        let schema = Schema::new(vec![Field::new("t", DataType::Utf8, true)]);
        let mut definition = TableDefinition::new(schema, &[]).unwrap();
        definition.pages.page_bytes = ByteCount(8 << 10);
        let mut load = tables.load("t", definition, LoadOptions::default()).await.unwrap();
        let texts: ArrayRef =
            Arc::new(StringArray::from(vec![Some("a text of some length"), None]));
        let schema = Schema::new(vec![Field::new("t", DataType::Utf8, true)]);
        let batch = RecordBatch::try_new(schema.into(), vec![texts]).unwrap();
        load.push(&batch).await.unwrap();
        let (table, _) = load.finish().await.unwrap();
        let snapshot = tables.snapshot().await;
        let found = scanned(&snapshot, &table, ScanOptions::default()).await.unwrap();
        assert_eq!(*found.column(0).data_type(), DataType::Utf8View);
        assert_eq!(found.num_rows(), 2);
    });
}
