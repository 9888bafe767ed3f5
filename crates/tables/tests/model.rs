//! Random tables and histories of them against rows in memory: loads, changes, scans of any columns and ranges, rows by key,
//! snapshots, checkpoints, and what a power cut leaves.

#![expect(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    reason = "a test stops at what it did not expect"
)]

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use arrow_array::types::{
    Date32Type, Decimal128Type, Int8Type, Int16Type, Int32Type, Int64Type,
    TimestampMicrosecondType, UInt8Type, UInt16Type, UInt32Type, UInt64Type,
};
use arrow_array::{
    Array, ArrayRef, ArrowPrimitiveType, BinaryViewArray, BooleanArray, FixedSizeBinaryArray,
    Float64Array, PrimitiveArray, RecordBatch, RecordBatchOptions, StringArray, StringViewArray,
};
use arrow_schema::{DataType, Field, Schema, TimeUnit};
use moirai_btree::{Store, with_leaves};
use moirai_devices::{FaultyDevice, Power};
use moirai_runtime::{Random, each_seed, random};
use moirai_storage::Device;
use moirai_tables::{
    Changes, Error, Index, IndexDefinition, Layout, LoadOptions, PageOptions, ScanOptions,
    Snapshot, Table, TableDefinition, Tables, key_behind,
};
use moirai_units::{BlockCount, ByteCount};
use moirai_update::{Kinds, Options};
use rand::Rng;

/// A value, in the order of its type.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Value {
    Number(i128),
    Bytes(Vec<u8>),
}

type Key = Vec<Value>;
type Row = Vec<Option<Value>>;
type Model = BTreeMap<Key, Row>;

struct Devices {
    power: Arc<Power>,
    data: Arc<FaultyDevice>,
    log: Arc<FaultyDevice>,
}

impl Devices {
    async fn formatted() -> Devices {
        let power = Power::on();
        let device = |name: &str, blocks| {
            FaultyDevice::new(name.into(), BlockCount(blocks), BlockCount(1), Arc::clone(&power))
        };
        let (data, log) = (device("data", 40_000), device("log", 3000));
        let logs = [Arc::clone(&log) as Arc<dyn Device>];
        Store::format(&*data, &logs, with_leaves(ByteCount(2048))).await.unwrap();
        Devices { power, data, log }
    }

    async fn open(&self, options: Options) -> Result<Arc<Tables>, Error> {
        let logs = [Arc::clone(&self.log) as Arc<dyn Device>];
        Tables::open(Arc::clone(&self.data) as _, &logs, Kinds::new(), options).await
    }
}

fn primitive<T: ArrowPrimitiveType>(
    data_type: &DataType,
    values: &[Option<Value>],
    narrow: impl Fn(i128) -> T::Native,
) -> ArrayRef {
    let number = |value: &Option<Value>| match value {
        Some(Value::Number(number)) => Some(narrow(*number)),
        _ => None,
    };
    let array = PrimitiveArray::<T>::from_iter(values.iter().map(number));
    Arc::new(array.with_data_type(data_type.clone()))
}

/// An array of a type with these values.
fn array_of(data_type: &DataType, values: &[Option<Value>]) -> ArrayRef {
    let bytes = |value: &'_ Option<Value>| match value {
        Some(Value::Bytes(bytes)) => Some(bytes.clone()),
        _ => None,
    };
    let number = |value: &Option<Value>| match value {
        Some(Value::Number(number)) => Some(*number),
        _ => None,
    };
    match data_type {
        DataType::Boolean => Arc::new(BooleanArray::from_iter(
            values.iter().map(|value| number(value).map(|one| one != 0)),
        )),
        DataType::Int8 => primitive::<Int8Type>(data_type, values, |one| one as i8),
        DataType::Int16 => primitive::<Int16Type>(data_type, values, |one| one as i16),
        DataType::Int32 => primitive::<Int32Type>(data_type, values, |one| one as i32),
        DataType::Int64 => primitive::<Int64Type>(data_type, values, |one| one as i64),
        DataType::UInt8 => primitive::<UInt8Type>(data_type, values, |one| one as u8),
        DataType::UInt16 => primitive::<UInt16Type>(data_type, values, |one| one as u16),
        DataType::UInt32 => primitive::<UInt32Type>(data_type, values, |one| one as u32),
        DataType::UInt64 => primitive::<UInt64Type>(data_type, values, |one| one as u64),
        DataType::Date32 => primitive::<Date32Type>(data_type, values, |one| one as i32),
        DataType::Timestamp(..) => {
            primitive::<TimestampMicrosecondType>(data_type, values, |one| one as i64)
        }
        DataType::Decimal128(..) => primitive::<Decimal128Type>(data_type, values, |one| one),
        DataType::Float64 => Arc::new(Float64Array::from_iter(
            values.iter().map(|value| number(value).map(|one| f64::from_bits(one as u64))),
        )),
        DataType::FixedSizeBinary(width) => Arc::new(
            FixedSizeBinaryArray::try_from_sparse_iter_with_size(values.iter().map(bytes), *width)
                .unwrap(),
        ),
        DataType::BinaryView => {
            let all: Vec<Option<Vec<u8>>> = values.iter().map(bytes).collect();
            Arc::new(BinaryViewArray::from_iter(all))
        }
        _ => {
            let all =
                values.iter().map(|one| bytes(one).map(|one| String::from_utf8(one).unwrap()));
            Arc::new(StringViewArray::from_iter(all))
        }
    }
}

const UTC: &str = "+00:00";

fn any_type(random: &mut Random) -> DataType {
    let types = [
        DataType::Boolean,
        DataType::Int8,
        DataType::Int16,
        DataType::Int32,
        DataType::Int64,
        DataType::UInt8,
        DataType::UInt16,
        DataType::UInt32,
        DataType::UInt64,
        DataType::Date32,
        DataType::Timestamp(TimeUnit::Microsecond, Some(UTC.into())),
        DataType::Decimal128(38, 2),
        DataType::Utf8View,
        DataType::Utf8View,
        DataType::Utf8View,
        DataType::BinaryView,
        DataType::FixedSizeBinary(5),
        DataType::Float64,
    ];
    types[random.random_range(0..types.len())].clone()
}

/// The least and the greatest number of a type.
fn limits(data_type: &DataType) -> (i128, i128) {
    let signed = |bits: u32| (-(1 << (bits - 1)), (1 << (bits - 1)) - 1);
    let unsigned = |bits: u32| (0, (1 << bits) - 1);
    match data_type {
        DataType::Boolean => (0, 1),
        DataType::Int8 => signed(8),
        DataType::Int16 => signed(16),
        DataType::Int32 | DataType::Date32 => signed(32),
        DataType::UInt8 => unsigned(8),
        DataType::UInt16 => unsigned(16),
        DataType::UInt32 => unsigned(32),
        DataType::UInt64 | DataType::Float64 => unsigned(64),
        DataType::Decimal128(..) => (-10_i128.pow(37), 10_i128.pow(37)),
        _ => signed(64),
    }
}

/// A value of a type: of keys there are few.
fn any_value(random: &mut Random, data_type: &DataType, is_key: bool) -> Value {
    match data_type {
        DataType::Utf8View | DataType::BinaryView if is_key => {
            Value::Bytes(vec![[0, b'a'][random.random_range(0..2)]; random.random_range(0..6)])
        }
        DataType::Utf8View | DataType::BinaryView => {
            let most = [4, 40, 200][random.random_range(0..3)];
            let length = random.random_range(0..most);
            Value::Bytes((0..length).map(|_| random.random_range(b'a'..b'd')).collect())
        }
        DataType::FixedSizeBinary(width) => {
            let bytes = (0..*width).map(|_| random.random_range(0..if is_key { 2 } else { 255 }));
            Value::Bytes(bytes.collect())
        }
        _ => {
            let (least, greatest) = limits(data_type);
            let number = match random.random_range(0..4) {
                0 if !is_key => random.random_range(least..=greatest),
                _ => random.random_range(least.max(-9)..=greatest.min(9)),
            };
            Value::Number(number)
        }
    }
}

/// A table's columns, and what its rows may be.
struct Kind {
    definition: TableDefinition,
    others: Vec<usize>,
}

impl Kind {
    fn any(random: &mut Random) -> Kind {
        let count = random.random_range(1..7);
        let fields: Vec<Field> = (0..count)
            .map(|column| {
                Field::new(format!("c{column}"), any_type(random), random.random_bool(0.8))
            })
            .collect();
        let is_key = |field: &&Field| *field.data_type() != DataType::Float64;
        let mut key: Vec<&str> =
            fields.iter().filter(is_key).map(|field| &**field.name()).collect();
        for at in (1..key.len()).rev() {
            key.swap(at, random.random_range(0..=at));
        }
        key.truncate(random.random_range(0..=3));
        let mut definition = TableDefinition::new(Schema::new(fields.clone()), &key).unwrap();
        let layout = Layout::ALL[random.random_range(0..3)];
        definition.pages = PageOptions {
            layout,
            rows_max: [8, 24, 200][random.random_range(0..3)],
            // Rows of nsm are long values where they have more than a quarter of a page.
            page_bytes: match layout {
                Layout::Nsm => ByteCount([4 << 10, 8 << 10][random.random_range(0..2)]),
                _ => ByteCount([8 << 10, 32 << 10][random.random_range(0..2)]),
            },
            group_pages: random.random_range(1..9),
            staging_percent: [0, 50, 200][random.random_range(0..3)],
        };
        let others = (0..count).filter(|column| !definition.key().contains(column)).collect();
        let mut kind = Kind { definition, others };
        for _ in 0..random.random_range(0..3) {
            if let Some(index) = kind.any_index(random) {
                kind.definition = kind.definition.with_index(index).unwrap();
            }
        }
        kind
    }

    /// An index of some columns, where there are any for one.
    fn any_index(&self, random: &mut Random) -> Option<IndexDefinition> {
        let of_index = |column: &usize| *self.field(*column).data_type() != DataType::Float64;
        let mut columns: Vec<usize> = self.all().into_iter().filter(of_index).collect();
        for at in (1..columns.len()).rev() {
            columns.swap(at, random.random_range(0..=at));
        }
        // Long texts in three columns are too long for a key.
        columns.truncate(random.random_range(1..=2));
        let name = format!("i{}", random.random_range(0..u64::MAX));
        (!columns.is_empty()).then_some(IndexDefinition { name, columns, is_unique: false })
    }

    /// The values of columns of a row.
    fn values(&self, columns: &[usize], key: &Key, row: &Row) -> Row {
        let value =
            |column: &usize| match self.definition.key().iter().position(|one| one == column) {
                Some(part) => Some(key[part].clone()),
                None => row[self.others.iter().position(|one| one == column).unwrap()].clone(),
            };
        columns.iter().map(value).collect()
    }

    /// Rows as an index has them, nulls behind the others.
    fn in_order_of<'m>(
        &self,
        index: &IndexDefinition,
        model: &'m Model,
    ) -> Vec<(&'m Key, &'m Row)> {
        let mut rows: Vec<_> = model.iter().collect();
        rows.sort_by_cached_key(|(key, row)| {
            let values = self.values(&index.columns, key, row);
            values.into_iter().map(|value| (value.is_none(), value)).collect::<Vec<_>>()
        });
        rows
    }

    /// Deletes entries of rows as they are in the model, as who has read them does.
    fn forget(
        &self,
        changes: &mut Changes,
        (table, index): (&Table, &Index),
        keys: &[Key],
        model: &Model,
    ) {
        let known = keys.iter().filter_map(|key| Some((key, model.get(key)?)));
        let rows = self.batch(&index.source_columns(), known);
        changes.forget(table, index, rows.columns()).unwrap();
    }

    fn has_key(&self) -> bool {
        !self.definition.key().is_empty()
    }

    fn field(&self, column: usize) -> &Field {
        self.definition.schema().field(column)
    }

    fn any_key(&self, random: &mut Random) -> Key {
        let key = self.definition.key().iter();
        key.map(|column| any_value(random, self.field(*column).data_type(), true)).collect()
    }

    fn any_of(&self, random: &mut Random, column: usize) -> Option<Value> {
        let field = self.field(column);
        let is_null = field.is_nullable() && random.random_bool(0.2);
        (!is_null).then(|| any_value(random, field.data_type(), false))
    }

    /// A row of the others than the key's columns.
    fn any_row(&self, random: &mut Random) -> Row {
        self.others.iter().map(|column| self.any_of(random, *column)).collect()
    }

    /// Columns of rows.
    fn batch<'a>(
        &self,
        columns: &[usize],
        rows: impl Iterator<Item = (&'a Key, &'a Row)>,
    ) -> RecordBatch {
        let rows: Vec<(&Key, &Row)> = rows.collect();
        let schema = self.definition.schema().project(columns).unwrap();
        let arrays = columns.iter().map(|column| {
            let value = |(key, row): &(&Key, &Row)| self.values(&[*column], key, row).remove(0);
            let values: Vec<Option<Value>> = rows.iter().map(value).collect();
            array_of(self.field(*column).data_type(), &values)
        });
        let options = RecordBatchOptions::new().with_row_count(Some(rows.len()));
        RecordBatch::try_new_with_options(schema.into(), arrays.collect(), &options).unwrap()
    }

    fn all(&self) -> Vec<usize> {
        (0..self.definition.schema().fields().len()).collect()
    }

    fn keys(&self, keys: &[&Key]) -> Vec<ArrayRef> {
        let key = self.definition.key().iter().enumerate();
        key.map(|(part, column)| {
            let values: Vec<_> = keys.iter().map(|key| Some(key[part].clone())).collect();
            array_of(self.field(*column).data_type(), &values)
        })
        .collect()
    }

    /// Changes of some rows, also in the model.
    fn change(&self, random: &mut Random, table: &Table, model: &mut Model) -> Changes {
        let mut changes = Changes::new();
        for _ in 0..random.random_range(1..6) {
            let count = random.random_range(1..20);
            let keys: Vec<Key> = (0..count).map(|_| self.any_key(random)).collect();
            let refs: Vec<&Key> = keys.iter().collect();
            let forgets = random.random_bool(0.5);
            match random.random_range(0..10) {
                0..5 => {
                    for index in table.indexes().iter().filter(|_| forgets) {
                        self.forget(&mut changes, (table, index), &keys, model);
                    }
                    let rows: Vec<Row> = keys.iter().map(|_| self.any_row(random)).collect();
                    let batch = self.batch(&self.all(), keys.iter().zip(&rows));
                    changes.put(table, &batch).unwrap();
                    model.extend(keys.into_iter().zip(rows));
                }
                // All rows of a range.
                5 if random.random_bool(0.3) => {
                    let (from, to) = (self.any_key(random), self.any_key(random));
                    let gone = model.keys().filter(|key| **key >= from && **key < to);
                    let gone: Vec<Key> = gone.cloned().collect();
                    let refs: Vec<&Key> = gone.iter().collect();
                    changes.delete(table, &self.keys(&refs)).unwrap();
                    gone.iter().for_each(|key| drop(model.remove(key)));
                }
                5 | 6 => {
                    for index in table.indexes().iter().filter(|_| forgets) {
                        self.forget(&mut changes, (table, index), &keys, model);
                    }
                    changes.delete(table, &self.keys(&refs)).unwrap();
                    keys.iter().for_each(|key| drop(model.remove(key)));
                }
                kind => {
                    let is_number = |at: &usize| {
                        let data_type = self.field(self.others[*at]).data_type();
                        // Sums of others wrap around as their bits do.
                        matches!(data_type, DataType::Int32 | DataType::UInt8 | DataType::Int64)
                    };
                    let mut some: Vec<usize> = (0..self.others.len())
                        .filter(|at| random.random_bool(0.4) && (kind < 9 || is_number(at)))
                        .collect();
                    // What is set of a record has a quarter of a leaf at most.
                    if self.definition.pages.layout == Layout::Nsm {
                        some.truncate(4);
                    }
                    // Nothing is added to columns of an index.
                    if kind == 9 {
                        some.retain(|at| {
                            let column = self.others[*at];
                            !table.indexes().iter().any(|index| index.has_any([column].into_iter()))
                        });
                    }
                    // What is known of rows beside: the other columns of indexes.
                    let mut known: Vec<usize> = table
                        .indexes()
                        .iter()
                        .filter(|index| index.has_any(some.iter().map(|at| self.others[*at])))
                        .flat_map(|index| index.definition().columns.clone())
                        .filter(|column| !some.iter().any(|at| self.others[*at] == *column))
                        .filter(|column| self.others.contains(column))
                        .collect();
                    known.sort_unstable();
                    known.dedup();
                    let known: Vec<(usize, ArrayRef)> = known
                        .into_iter()
                        .map(|column| {
                            let mut value = |key: &Key| match model.get(key) {
                                Some(row) => self.values(&[column], key, row).remove(0),
                                // There is no such row: any value will do.
                                None => self.any_of(random, column),
                            };
                            let values: Vec<_> = keys.iter().map(&mut value).collect();
                            (column, array_of(self.field(column).data_type(), &values))
                        })
                        .collect();
                    some.sort_unstable();
                    some.reverse();
                    let touched = table.indexes().iter().filter(|index| {
                        forgets && index.has_any(some.iter().map(|at| self.others[*at]))
                    });
                    for index in touched {
                        self.forget(&mut changes, (table, index), &keys, model);
                    }
                    let values: Vec<Vec<Option<Value>>> = some
                        .iter()
                        .map(|at| {
                            keys.iter().map(|_| self.any_of(random, self.others[*at])).collect()
                        })
                        .collect();
                    let arrays: Vec<(usize, ArrayRef)> = some
                        .iter()
                        .zip(&values)
                        .map(|(at, values)| {
                            let column = self.others[*at];
                            (column, array_of(self.field(column).data_type(), values))
                        })
                        .collect();
                    match kind {
                        9 => changes.add(table, &self.keys(&refs), &arrays).unwrap(),
                        _ => changes.set(table, &self.keys(&refs), &arrays, &known).unwrap(),
                    }
                    for (index, key) in keys.iter().enumerate() {
                        let Some(row) = model.get_mut(key) else { continue };
                        for (at, values) in some.iter().zip(&values) {
                            let data_type = self.field(self.others[*at]).data_type();
                            row[*at] = match (kind, row[*at].take(), values[index].clone()) {
                                (9, Some(Value::Number(one)), Some(Value::Number(other))) => {
                                    Some(Value::Number(wrapped(data_type, one + other)))
                                }
                                // Nothing is added.
                                (9, one, _) => one,
                                (_, _, other) => other,
                            };
                        }
                    }
                }
            }
        }
        changes
    }
}

/// The number of a type with the same lowest bits.
fn wrapped(data_type: &DataType, number: i128) -> i128 {
    match data_type {
        DataType::Int32 => i128::from(number as i32),
        DataType::UInt8 => i128::from(number as u8),
        _ => i128::from(number as i64),
    }
}

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
    let options = ScanOptions { columns: Some(columns.clone()), from, to, batch_rows };
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

async fn survive() {
    let mut random = random("tables");
    let random = &mut random;
    let devices = Devices::formatted().await;
    let options =
        Options { memory: ByteCount(random.random_range(64..512) << 10), ..Options::default() };
    let mut kind = Kind::any(random);
    // What is there, and what may be there instead after a crash.
    let mut durable: Option<Model> = None;
    for _ in 0..random.random_range(1..4) {
        let tables = devices.open(options).await.unwrap();
        let mut maybe = durable.clone();
        let mut next_kind = None;
        if random.random_bool(0.4) {
            devices.power.fail_after(random.random_range(0..200));
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
                        assert!(devices.power.is_off(), "{error}");
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
                    assert!(devices.power.is_off(), "{error}");
                    break;
                }
                *model = changed;
            }
            if random.random_bool(0.1) {
                match reindex(random, &tables, &kind).await {
                    Ok(()) => {}
                    Err(error) if is_too_old(&error) => {}
                    Err(error) => {
                        assert!(devices.power.is_off(), "{error}");
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
                assert!(devices.power.is_off(), "{error}");
                break;
            }
            if random.random_bool(0.3) {
                let snapshot = tables.snapshot().await;
                if let Err(error) = compare(random, &snapshot, (&table, &kind), model).await
                    && !is_too_old(&error)
                {
                    assert!(devices.power.is_off(), "{error}");
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
        let was_off = devices.power.is_off();
        drop(tables);
        devices.power.bring_back();
        devices.data.restart();
        devices.log.restart();
        let tables = devices.open(options).await.unwrap();
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
                }
            }
        }
        // A superblock that a power cut tore is written anew with the next checkpoint.
        let damage = tables.store().check().await;
        assert!(damage.iter().all(|one| one.what == "a superblock"), "{damage:?}");
    }
}

#[test]
fn tables_are_as_their_model_says() {
    each_seed(if cfg!(debug_assertions) { 60 } else { 3000 }, survive);
}

/// Texts of other types of Arrow come in, too.
#[test]
fn texts_are_held_as_views() {
    moirai_runtime::block_on_virtual(1, async {
        let devices = Devices::formatted().await;
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
