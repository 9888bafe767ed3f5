//! How fast rows of TPC-H's `lineitem` take updates of two attributes by primary key, in pages of columns and as records of a tree.
//!
//!     cargo run --release -p moirai-pages --example row_updates -- FOLDER [SCALE [SECONDS [MEMORY_MIB]]]
//!
//! A commit updates 1000 rows. The tree has the same rows as values of bytes, and its updates are merges that set as many bytes.

#![expect(clippy::print_stdout, reason = "what it measures is what it is for")]

use std::error::Error;
use std::path::Path;
use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::{Array, ArrayRef};
use arrow_schema::DataType;
use moirai_btree::{Batch, Store, with_leaves};
use moirai_devices::{Access, NewFiles};
use moirai_encodings::{Numbers, Texts};
use moirai_pages::{
    ColumnSlice, ColumnType, Encoder, FieldsBuilder, NumberType, Page, PageFormat, PageSchema,
    ROWS, SET, encode_rows, key_of_row, register,
};
use moirai_runtime::{Stopwatch, block_on_real, random, use_one_heap};
use moirai_storage::Device;
use moirai_units::ByteCount;
use moirai_update::{
    At, Engine, Figures, Format, Formats, Group, Kind, KindNumber, Kinds, Modification, Options,
    SpaceFormat, SpaceId, UnitSet, Value, WholeBlocks,
};
use moirai_workloads::tpch::Table;
use rand::Rng;

type Outcome<T = ()> = Result<T, Box<dyn Error>>;

const TABLE: SpaceId = SpaceId(1);
const BATCH: usize = 1000;
/// `l_orderkey` and `l_linenumber`; `l_quantity` and `l_discount`.
const KEY: [usize; 2] = [0, 3];
const SET_COLUMNS: [usize; 2] = [4, 6];
const PATCH: KindNumber = KindNumber(20);

fn device(folder: &Path, name: &str, size: ByteCount) -> Outcome<Arc<dyn Device>> {
    let path = folder.join(name);
    drop(std::fs::remove_file(&path));
    let uri = format!("file:{}?size={}MiB&direct=false", path.display(), size.0 >> 20);
    Ok(moirai_devices::open(uri.parse()?, Access::Create(&NewFiles::new()))?)
}

fn type_of(data_type: &DataType) -> ColumnType {
    let number = |width_bytes| ColumnType::Number(NumberType { width_bytes, is_signed: true });
    match data_type {
        DataType::Int32 | DataType::Date32 => number(4),
        DataType::Int64 => number(8),
        DataType::Utf8View => ColumnType::Text,
        _ => number(16),
    }
}

/// A column of a batch as bytes, and where its texts end.
fn column(array: &ArrayRef) -> Outcome<(Vec<u8>, Vec<u32>)> {
    let (mut bytes, mut ends) = (Vec::new(), Vec::new());
    if let Some(texts) = array.as_string_view_opt() {
        for text in texts {
            bytes.extend_from_slice(text.unwrap_or_default().as_bytes());
            ends.push(bytes.len() as u32);
        }
        return Ok((bytes, ends));
    }
    let ColumnType::Number(of) = type_of(array.data_type()) else { return Ok((bytes, ends)) };
    let data = array.to_data();
    let all = data.buffers().first().ok_or("a column without values")?;
    let first = data.offset() * of.width_bytes;
    bytes
        .extend_from_slice(all.get(first..first + data.len() * of.width_bytes).unwrap_or_default());
    Ok((bytes, ends))
}

/// Reads columns in the order of the keys, and gives the bytes that they take as arrays.
async fn scan(engine: &Engine, schema: &PageSchema, columns: &[usize]) -> Outcome<usize> {
    let units = columns.iter().filter_map(|column| schema.unit(*column));
    let units = units.map(UnitSet::one).reduce(UnitSet::with).ok_or("no columns")?;
    let mut views =
        engine
            .now()
            .units(units)
            .in_layers(UnitSet::one(0))
            .views(TABLE, At::Key(&[]), 64, |_| true);
    let mut bytes = 0;
    while let Some(view) = views.next().await.transpose()? {
        for layers in view.layers() {
            let Some(block) = layers.block else { continue };
            let page = Page::of(schema, block);
            for column in columns {
                let minipage =
                    page.minipage(*column).map_err(|_| "no page")?.ok_or("no minipage")?;
                let of = schema.columns().get(*column).ok_or("no column")?.of;
                bytes += match of {
                    ColumnType::Number(NumberType { width_bytes: 4, .. }) => {
                        let mut out: Vec<u32> = Vec::new();
                        Numbers::parse(minipage)?.decode(&mut out)?;
                        std::hint::black_box(out).len() * 4
                    }
                    ColumnType::Number(NumberType { width_bytes: 8, .. }) => {
                        let mut out: Vec<u64> = Vec::new();
                        Numbers::parse(minipage)?.decode(&mut out)?;
                        std::hint::black_box(out).len() * 8
                    }
                    ColumnType::Number(_) => {
                        let mut out: Vec<i128> = Vec::new();
                        Numbers::parse(minipage)?.decode(&mut out)?;
                        std::hint::black_box(out).len() * 16
                    }
                    ColumnType::Text => {
                        let mut out = Vec::new();
                        let texts = Texts::parse(minipage)?;
                        texts.ranges(&mut out)?;
                        std::hint::black_box(out).len() * 16
                    }
                };
            }
        }
    }
    Ok(bytes)
}

struct Patch;

impl Kind for Patch {
    fn apply(&self, value: &mut Value, modification: &[u8]) {
        for (at, byte) in modification.iter().enumerate() {
            if let Some(to) = value.bytes.get_mut(8 + at) {
                *to = *byte;
            }
        }
    }
}

fn report(what: &str, updates: u64, seconds: f64, before: &Figures, after: &Figures) {
    let staged = after.staged_bytes - before.staged_bytes;
    let placed = after.placed_bytes - before.placed_bytes;
    let log = after.log_bytes - before.log_bytes;
    println!(
        "{what}: {:.0} updates a second; bytes written for each: log {:.0}, staged {:.0}, placed {:.0}",
        updates as f64 / seconds,
        log as f64 / updates as f64,
        staged as f64 / updates as f64,
        placed as f64 / updates as f64
    );
}

async fn pages(folder: &Path, scale: f64, seconds: u64, options: Options) -> Outcome<Vec<Vec<u8>>> {
    let data = device(folder, "pages-data.img", ByteCount((scale * 3e9) as u64 + (1 << 30)))?;
    let logs = [device(folder, "pages-log.img", ByteCount(1 << 30))?];
    let types: Vec<ColumnType> =
        Table::LineItem.schema().fields().iter().map(|field| type_of(field.data_type())).collect();
    let schema = PageSchema::new(&types, &KEY, 2048).ok_or("no schema")?;
    Engine::format(&*data, &logs, &WholeBlocks, Format::default()).await?;
    let mut kinds = Kinds::new();
    register(&mut kinds)?;
    let formats = PageFormat::register(Formats::of(WholeBlocks));
    let engine = Engine::open(data, &logs, kinds, formats, options).await?;
    let format = SpaceFormat {
        name: PageFormat::NAME.into(),
        parameters: schema.parameters().into(),
        block_bytes: ByteCount(256 << 10),
        partition_blocks: 24,
        staging_percent: 50,
    };
    engine.create_space_of(TABLE, &format).await?;
    let (mut keys, mut fields) = (Vec::new(), FieldsBuilder::new());
    let mut encoder = Encoder::new();
    let (watch, mut content) = (Stopwatch::start(), Vec::new());
    let mut ingest = engine.ingest_as(TABLE, ROWS)?;
    let (mut taken_s, mut encoded_s, mut key_s) = (0.0, 0.0, 0.0);
    for batch in Table::LineItem.batches(scale, 2048) {
        let batch = batch?;
        let part = Stopwatch::start();
        let columns = batch.columns().iter().map(column).collect::<Outcome<Vec<_>>>()?;
        let slices: Vec<ColumnSlice<'_>> = types
            .iter()
            .zip(&columns)
            .map(|(of, (bytes, ends))| match of {
                ColumnType::Number(_) => ColumnSlice::Numbers { bytes, validity: None },
                ColumnType::Text => ColumnSlice::Texts { ends, bytes, validity: None },
            })
            .collect();
        taken_s += part.elapsed().as_s();
        let part = Stopwatch::start();
        content.clear();
        encode_rows(&schema, &slices, &mut encoder, &mut content).ok_or("no rows")?;
        encoded_s += part.elapsed().as_s();
        let part = Stopwatch::start();
        let first = keys.len();
        for row in 0..batch.num_rows() {
            keys.push(key_of_row(&schema, &slices, row).ok_or("no key")?);
        }
        key_s += part.elapsed().as_s();
        ingest.push(keys.get(first).ok_or("no rows")?, &content).await?;
    }
    ingest.finish().await?;
    println!("taken apart in {taken_s:.1} s, encoded in {encoded_s:.1}, keys for later {key_s:.1}");
    engine.checkpoint().await?;
    let used: u64 = engine.map().await.iter().map(|one| one.blocks.count.bytes().0).sum();
    println!(
        "pages: {} rows loaded in {:.1} s, {:.1} MB on the device",
        keys.len(),
        watch.elapsed().as_s(),
        used as f64 / 1e6
    );
    for (what, columns) in [
        ("two int64", &[1, 2][..]),
        ("four decimals", &[4, 5, 6, 7]),
        ("three dates", &[10, 11, 12]),
        ("key", &[0, 3]),
        ("l_comment", &[15]),
        ("all", &(0..16).collect::<Vec<_>>()),
    ] {
        let mut runs = Vec::new();
        let mut bytes = 0;
        for _ in 0..4 {
            let watch = Stopwatch::start();
            bytes = scan(&engine, &schema, columns).await?;
            runs.push(watch.elapsed().as_s());
        }
        runs.sort_by(f64::total_cmp);
        let seconds = runs.get(1).copied().unwrap_or(1.0);
        println!(
            "scan of {what}: {seconds:.3} s, {:.2} GB/s of arrays",
            bytes as f64 / seconds / 1e9
        );
    }
    let before = engine.figures();
    let mut random = random("row updates");
    let (watch, mut count) = (Stopwatch::start(), 0);
    while watch.elapsed().0 < seconds * 1_000_000_000 {
        let mut group = Group::new();
        for _ in 0..BATCH {
            let key = keys.get(random.random_range(0..keys.len())).ok_or("no row")?;
            fields.clear();
            for column in SET_COLUMNS {
                let number = moirai_pages::number_bytes(random.random_range(0..5000));
                fields.push(column, Some(&number));
            }
            group.modify(TABLE, Modification { key, kind: SET, bytes: fields.bytes() });
        }
        engine.commit(&group).await?;
        count += BATCH as u64;
    }
    report("pages", count, watch.elapsed().as_s(), &before, &engine.figures());
    println!("{:?}", engine.figures());
    for columns in [&[4][..], &[5]] {
        let mut runs = Vec::new();
        for _ in 0..9 {
            let watch = Stopwatch::start();
            scan(&engine, &schema, columns).await?;
            runs.push(watch.elapsed().as_s());
        }
        runs.sort_by(f64::total_cmp);
        let seconds = runs.get(4).copied().unwrap_or_default();
        println!("scan of column {columns:?} with updates pending: {seconds:.3} s");
    }
    engine.close().await?;
    Ok(keys)
}

async fn tree(folder: &Path, keys: &[Vec<u8>], seconds: u64, options: Options) -> Outcome {
    let bytes = keys.len() as u64 * 200 * 3 + (1 << 30);
    let data = device(folder, "tree-data.img", ByteCount(bytes))?;
    let logs = [device(folder, "tree-log.img", ByteCount(1 << 30))?];
    Store::format(&*data, &logs, with_leaves(ByteCount(8 << 10))).await?;
    let mut kinds = Kinds::new();
    kinds.register(PATCH, Arc::new(Patch))?;
    let store = Store::open(data, &logs, kinds, options).await?;
    let tree = store.tree("lineitem").await?;
    // As many bytes as the row has in pages, about.
    store.ingest(&tree, keys.iter().map(|key| (key, [7; 40]))).await?;
    let before = store.figures();
    let mut random = random("row updates");
    let (watch, mut count) = (Stopwatch::start(), 0);
    while watch.elapsed().0 < seconds * 1_000_000_000 {
        let mut batch = Batch::new();
        for _ in 0..BATCH {
            let key = keys.get(random.random_range(0..keys.len())).ok_or("no row")?;
            let patch: [u8; 8] = random.random();
            batch.merge(&tree, PATCH, key, &patch);
        }
        store.commit(&batch).await?;
        count += BATCH as u64;
    }
    report("tree of 40-byte values", count, watch.elapsed().as_s(), &before, &store.figures());
    Ok(store.close().await?)
}

async fn run() -> Outcome {
    let mut arguments = std::env::args().skip(1);
    let folder = arguments.next().ok_or("name a folder")?;
    let scale = arguments.next().map_or(Ok(0.1), |text| text.parse::<f64>())?;
    let mut number = |default| arguments.next().map_or(Ok(default), |text| text.parse::<u64>());
    let (seconds, memory) = (number(30)?, number(64)?);
    let options = Options { memory: ByteCount(memory << 20), ..Options::default() };
    let folder = Path::new(&folder);
    let keys = pages(folder, scale, seconds, options).await?;
    tree(folder, &keys, seconds, options).await?;
    for file in ["pages-data.img", "pages-log.img", "tree-data.img", "tree-log.img"] {
        std::fs::remove_file(folder.join(file))?;
    }
    Ok(())
}

fn main() -> Outcome {
    use_one_heap();
    block_on_real(1, run())
}
