//! Random schemas and histories in an engine, against rows in memory: what modifications do, pages that grow, shrink, split and
//! are joined, and what a power cut leaves.

#![expect(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    reason = "a test stops at what it did not expect"
)]

use std::collections::BTreeMap;
use std::sync::Arc;

use moirai_devices::{FaultyDevice, Power};
use moirai_encodings::{Numbers, Texts};
use moirai_pages::{
    ADD, Column, ColumnRead, ColumnSlice, ColumnType, Encoder, Fields, FieldsBuilder, KeyBounds,
    KeyReader, NumberType, PageFormat, PageRows, PageSchema, Placement, ROWS, SET, Validity,
    added_field, encode_rows, is_in_last_block, key_of_row, number_bytes, number_of, register,
};
use moirai_runtime::{Random, block_on_virtual, each_seed, random};
use moirai_storage::Device;
use moirai_units::{BlockCount, ByteCount};
use moirai_update::{
    At, DELETE, Engine, Error, Format, Formats, Group, KindNumber, Kinds, Modification, Options,
    PUT, Reader, SpaceFormat, SpaceId, UnitSet, WholeBlocks,
};
use rand::Rng;

const TABLE: SpaceId = SpaceId(1);

/// The value of each column but those of the key; `None` for a null.
type Row = Vec<Option<Vec<u8>>>;
type Model = BTreeMap<Vec<u8>, Row>;

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
        let (data, log) = (device("data", 30_000), device("log", 2000));
        let logs = [Arc::clone(&log) as Arc<dyn Device>];
        let format =
            Format { block_bytes: ByteCount(512), partition_blocks: 8, ..Format::default() };
        Engine::format(&*data, &logs, &WholeBlocks, format).await.unwrap();
        Devices { power, data, log }
    }

    async fn open(&self, options: Options) -> Result<Engine, Error> {
        let mut kinds = Kinds::new();
        register(&mut kinds).unwrap();
        let formats = PageFormat::register(Formats::of(WholeBlocks));
        let logs = [Arc::clone(&self.log) as Arc<dyn Device>];
        Engine::open(Arc::clone(&self.data) as _, &logs, kinds, formats, options).await
    }
}

fn any_type(random: &mut Random) -> ColumnType {
    let width_bytes = [1, 2, 4, 8, 16][random.random_range(0..5)];
    match random.random_bool(0.3) {
        true => ColumnType::Text,
        false => ColumnType::Number(NumberType {
            width_bytes,
            is_signed: width_bytes == 16 || random.random_bool(0.5),
        }),
    }
}

/// The number of this type that has the same lowest bits.
fn wrapped(number: i128, of: NumberType) -> i128 {
    let bits = 8 * of.width_bytes as u32;
    let lowest = if bits == 128 { number as u128 } else { number as u128 & ((1 << bits) - 1) };
    match of.is_signed && bits < 128 && lowest >> (bits - 1) == 1 {
        true => lowest as i128 - (1 << bits),
        false => lowest as i128,
    }
}

fn any_schema(random: &mut Random) -> PageSchema {
    let count = random.random_range(1..7);
    let types: Vec<ColumnType> = (0..count).map(|_| any_type(random)).collect();
    let mut key: Vec<usize> = (0..count).collect();
    for at in (1..count).rev() {
        key.swap(at, random.random_range(0..=at));
    }
    key.truncate(random.random_range(1..=count.min(3)));
    let rows_max = [1, 5, 8, 30, 40, 200][random.random_range(0..6)];
    let placement = match random.random_bool(0.25) {
        true => Placement::ByPage,
        false => Placement::ByAttribute,
    };
    PageSchema::placed(&types, &key, rows_max, placement).unwrap()
}

/// A value of which there are few in a key, and else any.
fn any_value(random: &mut Random, column: &Column, is_key: bool) -> Vec<u8> {
    match column.of {
        ColumnType::Number(of) => {
            let number: i128 = match random.random_range(0..10) {
                _ if is_key => random.random_range(-9..9),
                0 => random.random(),
                1..4 => i128::from(random.random::<i32>()),
                _ => random.random_range(-3..50),
            };
            number_bytes(wrapped(number, of))
        }
        ColumnType::Text if is_key => {
            vec![[0, b'a', 255][random.random_range(0..3)]; random.random_range(0..5)]
        }
        ColumnType::Text => {
            let most = [4, 60, 300][random.random_range(0..3)];
            let length = random.random_range(0..most);
            (0..length).map(|_| random.random_range(b'a'..b'e')).collect()
        }
    }
}

fn others(schema: &PageSchema) -> Vec<usize> {
    (0..schema.columns().len()).filter(|column| !schema.key().contains(column)).collect()
}

fn any_group(random: &mut Random, schema: &PageSchema, model: &mut Model) -> Group {
    let (mut group, others) = (Group::new(), others(schema));
    for _ in 0..random.random_range(1..40) {
        let values: Vec<Vec<u8>> = schema
            .key()
            .iter()
            .map(|column| any_value(random, &schema.columns()[*column], true))
            .collect();
        let key = KeyReader::new(schema).key(values.iter().map(|value| &value[..])).unwrap();
        let mut fields = FieldsBuilder::new();
        let mut modify = |kind: KindNumber, fields: &FieldsBuilder| {
            group.modify(TABLE, Modification { key: &key, kind, bytes: fields.bytes() });
        };
        let any = |random: &mut Random, column: usize| {
            random.random_bool(0.9).then(|| any_value(random, &schema.columns()[column], false))
        };
        match random.random_range(0..10) {
            0..5 => {
                let row: Row = others.iter().map(|column| any(random, *column)).collect();
                others
                    .iter()
                    .zip(&row)
                    .for_each(|(column, value)| fields.push(*column, value.as_deref()));
                modify(PUT, &fields);
                model.insert(key, row);
            }
            5 | 6 => {
                modify(DELETE, &fields);
                model.remove(&key);
            }
            kind => {
                let some: Vec<usize> =
                    (0..others.len()).filter(|_| random.random_bool(0.5)).collect();
                let is_number = |at: &usize| schema.columns()[others[*at]].of != ColumnType::Text;
                let some: Vec<usize> =
                    some.into_iter().filter(|at| kind < 9 || is_number(at)).collect();
                for at in some {
                    let value = any(random, others[at]);
                    let delta = value.as_deref().and_then(number_of);
                    let added = match schema.columns()[others[at]].of {
                        ColumnType::Number(of) => delta.map(|delta| added_field(of, delta)),
                        ColumnType::Text => None,
                    };
                    fields.push(
                        others[at],
                        if kind == 9 { added.as_deref() } else { value.as_deref() },
                    );
                    let Some(row) = model.get_mut(&key) else { continue };
                    row[at] = match kind {
                        9 => {
                            let ColumnType::Number(of) = schema.columns()[others[at]].of else {
                                panic!()
                            };
                            let (older, newer) = (row[at].take(), delta);
                            older.zip(newer).map(|(older, newer)| {
                                let sum = number_of(&older).unwrap().wrapping_add(newer);
                                number_bytes(wrapped(sum, of))
                            })
                        }
                        _ => value,
                    };
                }
                modify(if kind == 9 { ADD } else { SET }, &fields);
            }
        }
    }
    group
}

/// A record of rows that come behind all that are there, and the model with them; `None` where no key is behind.
fn any_rows(
    random: &mut Random,
    schema: &PageSchema,
    model: &mut Model,
) -> Option<(Vec<u8>, Vec<u8>)> {
    let others = others(schema);
    let mut rows = Model::new();
    for _ in 0..random.random_range(1..=schema.rows_max().min(60)) {
        let values: Vec<Vec<u8>> = schema
            .key()
            .iter()
            .map(|column| any_value(random, &schema.columns()[*column], true))
            .collect();
        let key = KeyReader::new(schema).key(values.iter().map(|value| &value[..])).unwrap();
        if model.last_key_value().is_none_or(|(last, _)| key > *last) {
            let value = |column: &usize| {
                random
                    .random_bool(0.9)
                    .then(|| any_value(random, &schema.columns()[*column], false))
            };
            rows.insert(key, others.iter().map(value).collect());
        }
    }
    let first = rows.first_key_value()?.0.clone();
    let mut keys = KeyReader::new(schema);
    let columns: Vec<Vec<Option<Vec<u8>>>> = (0..schema.columns().len())
        .map(|column| {
            let of_key = schema.key().iter().position(|one| *one == column);
            rows.iter()
                .map(|(key, row)| match of_key {
                    Some(part) => Some(keys.read(key).unwrap()[part].clone()),
                    None => row[others.iter().position(|one| *one == column).unwrap()].clone(),
                })
                .collect()
        })
        .collect();
    let mut all = Vec::new();
    for (column, values) in schema.columns().iter().zip(&columns) {
        let (mut bytes, mut ends) = (Vec::new(), Vec::new());
        let mut bits = vec![0; values.len().div_ceil(8)];
        for (row, value) in values.iter().enumerate() {
            bits[row / 8] |= u8::from(value.is_some()) << (row % 8);
            let value = value.as_deref().unwrap_or_default();
            match column.of {
                ColumnType::Number(of) => {
                    let number = number_of(value).unwrap().to_le_bytes();
                    bytes.extend_from_slice(&number[..of.width_bytes]);
                }
                ColumnType::Text => bytes.extend_from_slice(value),
            }
            ends.push(bytes.len() as u32);
        }
        all.push((bytes, ends, bits));
    }
    let slices: Vec<ColumnSlice<'_>> = schema
        .columns()
        .iter()
        .zip(&all)
        .map(|(column, (bytes, ends, bits))| {
            let validity = Some(Validity::new(bits));
            match column.of {
                ColumnType::Number(_) => ColumnSlice::Numbers { bytes, validity },
                ColumnType::Text => ColumnSlice::Texts { ends, bytes, validity },
            }
        })
        .collect();
    assert_eq!(key_of_row(schema, &slices, 0).as_ref(), Some(&first));
    let mut content = Vec::new();
    encode_rows(schema, &slices, &mut Encoder::new(), &mut content).unwrap();
    model.extend(rows);
    Some((first, content))
}

fn row_of(schema: &PageSchema, value: &[u8]) -> Row {
    let fields = Fields::of(value);
    others(schema).iter().map(|column| fields.get(*column).map(<[u8]>::to_vec)).collect()
}

/// All rows in the order of their keys: of each block what the format finds under its keys.
async fn scanned(reader: Reader<'_>, schema: &PageSchema) -> Result<Model, Error> {
    let mut rows = Model::new();
    let mut views = reader.views(TABLE, At::Key(&[]), 64, |_| true);
    while let Some(view) = views.next().await.transpose()? {
        for (_, block) in view.blocks() {
            let page = moirai_pages::Page::of(schema, block);
            assert!(page.rows().unwrap() > 0 && page.rows().unwrap() <= schema.rows_max());
            let mut last = Vec::new();
            for (key, value) in page.all().unwrap() {
                assert!(rows.last_key_value().is_none_or(|(last, _)| *last < key));
                last.clone_from(&key);
                rows.insert(key, row_of(schema, &value));
            }
            assert_eq!(page.last_key().unwrap(), last);
        }
    }
    Ok(rows)
}

/// Some columns of all rows, read in layers.
async fn scanned_columns(
    reader: Reader<'_>,
    schema: &PageSchema,
    columns: &[usize],
    bounds: Option<KeyBounds<'_>>,
) -> Result<Vec<Row>, Error> {
    let units = columns.iter().map(|column| UnitSet::one(schema.unit(*column).unwrap()));
    let all_have_minipages = bounds.is_none() && !columns.is_empty();
    let first = if all_have_minipages { UnitSet::NONE } else { UnitSet::one(0) };
    let units = units.fold(first, UnitSet::with);
    let mut rows = Vec::new();
    let mut views =
        reader.units(units).in_layers(UnitSet::one(0)).views(TABLE, At::Key(&[]), 64, |_| true);
    while let Some(view) = views.next().await.transpose()? {
        for layers in view.layers() {
            let modifications: Vec<Modification<'_>> = layers.modifications().collect();
            let read = PageRows::of(schema, layers.block, &modifications, bounds, columns).unwrap();
            let columns: Vec<Row> = columns
                .iter()
                .map(|column| values_of(read.column(*column).unwrap(), schema, *column))
                .collect();
            assert!(columns.iter().all(|values| values.len() == read.rows()));
            for row in 0..read.rows() {
                rows.push(columns.iter().map(|values| values[row].clone()).collect());
            }
        }
    }
    Ok(rows)
}

/// The values of a column, row by row.
fn values_of(read: ColumnRead<'_>, schema: &PageSchema, column: usize) -> Row {
    match (read, schema.columns()[column].of) {
        (ColumnRead::Values(values), _) => (0..values.rows()).map(|row| values.get(row)).collect(),
        (ColumnRead::Minipage(None, rows), _) => rows.map(|_| None).collect(),
        (ColumnRead::Minipage(Some(minipage), rows), ColumnType::Number(of)) => {
            let numbers = Numbers::parse(minipage).unwrap();
            let is_valid = |row| numbers.validity().is_none_or(|validity| validity.is_valid(row));
            let number = |row| wrapped(numbers.get(row).unwrap().unwrap(), of);
            rows.map(|row| is_valid(row).then(|| number_bytes(number(row)))).collect()
        }
        (ColumnRead::Minipage(Some(minipage), rows), ColumnType::Text) => {
            let texts = Texts::parse(minipage).unwrap();
            let is_valid = |row| texts.validity().is_none_or(|validity| validity.is_valid(row));
            let text = |row| texts.get(row).unwrap().unwrap().to_vec();
            rows.map(|row| is_valid(row).then(|| text(row))).collect()
        }
    }
}

async fn survive() {
    let mut random = random("pages");
    let schema = any_schema(&mut random);
    let devices = Devices::formatted().await;
    let options =
        Options { memory: ByteCount(random.random_range(32..256) << 10), ..Options::default() };
    let format = SpaceFormat {
        name: PageFormat::NAME.into(),
        parameters: schema.parameters().into(),
        block_bytes: ByteCount([8 << 10, 32 << 10][random.random_range(0..2)]),
        partition_blocks: random.random_range(1..9),
        staging_percent: 200,
    };
    let mut durable = Model::new();
    for _ in 0..random.random_range(1..4) {
        let engine = devices.open(options).await.unwrap();
        engine.create_space_of(TABLE, &format).await.unwrap();
        assert_eq!(scanned(engine.now(), &schema).await.unwrap(), durable);
        if random.random_bool(0.5) {
            devices.power.fail_after(random.random_range(0..80));
        }
        let mut model = durable.clone();
        let mut point = None;
        for _ in 0..random.random_range(1..60) {
            let group = any_group(&mut random, &schema, &mut model);
            if engine.commit(&group).await.is_err() {
                break;
            }
            durable = model.clone();
            if random.random_bool(0.1) {
                point = Some((engine.read_point().await, durable.clone()));
            }
            if random.random_bool(0.2) && engine.checkpoint().await.is_err() {
                break;
            }
            let mut with_rows = model.clone();
            if random.random_bool(0.1)
                && let Some((key, content)) = any_rows(&mut random, &schema, &mut with_rows)
                && content.len() < format.block_bytes.0 as usize
                && is_in_last_block(engine.now(), TABLE, &key).await.is_ok_and(|is| is)
            {
                // It is on the device or not, whatever happens.
                model = with_rows;
                let mut ingest = engine.ingest_as(TABLE, ROWS).unwrap();
                if ingest.push(&key, &content).await.is_err() || ingest.finish().await.is_err() {
                    break;
                }
                durable = model.clone();
            }
            let (reader, wanted) = match &point {
                Some((point, wanted)) if random.random_bool(0.2) => (point.reader(), wanted),
                _ => (engine.now(), &durable),
            };
            if random.random_bool(0.3)
                && let Ok(rows) = scanned(reader, &schema).await
            {
                assert_eq!(rows, *wanted);
            }
            let others_of = others(&schema);
            let some: Vec<usize> =
                others_of.iter().copied().filter(|_| random.random_bool(0.5)).collect();
            let any_key = |random: &mut Random| {
                wanted
                    .keys()
                    .nth(random.random_range(0..=wanted.len()))
                    .cloned()
                    .unwrap_or_default()
            };
            let (from, to) = (any_key(&mut random), any_key(&mut random));
            let bounds = random.random_bool(0.5).then_some(KeyBounds {
                from: &from,
                to: random.random_bool(0.5).then_some(&to[..]),
            });
            if random.random_bool(0.5)
                && let Ok(rows) = scanned_columns(reader, &schema, &some, bounds).await
            {
                let at = |column: &usize| others_of.iter().position(|one| one == column).unwrap();
                let row = |row: &Row| some.iter().map(|column| row[at(column)].clone()).collect();
                let is_shown = |(key, _): &(&Vec<u8>, &Row)| {
                    bounds.is_none_or(|KeyBounds { from, to }| {
                        &key[..] >= from && to.is_none_or(|to| &key[..] < to)
                    })
                };
                let shown = wanted.iter().filter(is_shown);
                assert_eq!(rows, shown.map(|(_, one)| row(one)).collect::<Vec<Row>>());
            }
            if let Some((key, row)) = wanted.iter().nth(random.random_range(0..=wanted.len()))
                && let Ok(value) = reader.get(TABLE, key).await
            {
                assert_eq!(row_of(&schema, &value.unwrap()), *row);
                // Some columns: those of other units are nulls.
                let others = others(&schema);
                if let Some(at) = (0..others.len()).next_back() {
                    let unit = schema.unit(others[at]).unwrap();
                    let units = UnitSet::one(0).with(UnitSet::one(unit));
                    if let Ok(value) = reader.units(units).get(TABLE, key).await {
                        assert_eq!(row_of(&schema, &value.unwrap())[at], row[at]);
                    }
                }
            }
        }
        drop(point);
        if devices.power.is_off() || random.random_bool(0.5) {
            drop(engine);
            devices.power.bring_back();
            devices.data.restart();
            devices.log.restart();
            // The last group may be there or not.
            let engine = devices.open(options).await.unwrap();
            let found = match engine.spaces()[..] {
                [TABLE] => scanned(engine.now(), &schema).await.unwrap(),
                _ => Model::new(),
            };
            assert!(found == durable || found == model, "neither before nor after");
            durable = found;
            engine.close().await.unwrap();
        } else {
            devices.power.bring_back();
            engine.close().await.unwrap();
        }
    }
}

#[test]
fn tables_are_as_their_model_says() {
    each_seed(if cfg!(debug_assertions) { 100 } else { 10_000 }, survive);
}

#[test]
fn a_table_takes_what_its_format_allows() {
    block_on_virtual(1, async {
        let devices = Devices::formatted().await;
        let engine = devices.open(Options::default()).await.unwrap();
        let format = |parameters: &[u8]| SpaceFormat {
            name: PageFormat::NAME.into(),
            parameters: parameters.into(),
            block_bytes: ByteCount(8 << 10),
            partition_blocks: 8,
            staging_percent: 100,
        };
        assert!(engine.create_space_of(TABLE, &format(&[1, 2, 3])).await.is_err());
        let schema = PageSchema::new(&[ColumnType::Text], &[0], 100).unwrap();
        engine.create_space_of(TABLE, &format(&schema.parameters())).await.unwrap();
        engine.close().await.unwrap();
    });
}

/// What is no row of the table is refused and counted, and stops nothing.
#[test]
fn what_is_no_row_is_refused() {
    block_on_virtual(1, async {
        let devices = Devices::formatted().await;
        let engine = devices.open(Options::default()).await.unwrap();
        let int = ColumnType::Number(NumberType { width_bytes: 8, is_signed: true });
        let schema =
            PageSchema::new(&[int, ColumnType::Text, ColumnType::Text], &[0], 100).unwrap();
        let format = SpaceFormat {
            name: PageFormat::NAME.into(),
            parameters: schema.parameters().into(),
            block_bytes: ByteCount(8 << 10),
            partition_blocks: 8,
            staging_percent: 0,
        };
        engine.create_space_of(TABLE, &format).await.unwrap();
        let key = |number: i128| KeyReader::new(&schema).key([&number_bytes(number)[..]]).unwrap();
        let fields = |some: &[(usize, &str)]| {
            let mut fields = FieldsBuilder::new();
            some.iter().for_each(|(column, text)| fields.push(*column, Some(text.as_bytes())));
            fields.bytes().to_vec()
        };
        let mut group = Group::new();
        let mut change = |key: &[u8], kind, bytes: &[u8]| {
            group.modify(TABLE, Modification { key, kind, bytes });
        };
        for number in 0..3 {
            change(&key(number), PUT, &fields(&[(1, "one"), (2, "two")]));
        }
        // A key of another table; a column twice, of the key, unknown, and bytes that are no fields.
        change(b"abc", PUT, &fields(&[(1, "x")]));
        for bad in [&[(1, "x"), (1, "y")][..], &[(0, "x")], &[(3, "x")], &[(2, "x"), (1, "y")]] {
            change(&key(1), SET, &fields(bad));
        }
        change(&key(1), PUT, &[9, 200]);
        change(&key(2), SET, &fields(&[(2, "new")]));
        engine.commit(&group).await.unwrap();
        engine.checkpoint().await.unwrap();
        assert_eq!(engine.figures().refused, 6);
        let found = scanned(engine.now(), &schema).await.unwrap();
        let row = |second: &str| vec![Some(b"one".to_vec()), Some(second.as_bytes().to_vec())];
        let expected = [(key(0), row("two")), (key(1), row("two")), (key(2), row("new"))];
        assert_eq!(found, Model::from(expected));
        assert!(engine.check().await.is_empty());
        engine.close().await.unwrap();
    });
}
