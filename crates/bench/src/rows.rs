//! Updates of two attributes of random rows of TPC-H's `lineitem`, by primary key, in commits of 1000 that are flushed.
//!
//! Moirai has the rows in columns, in rows, and as records of a plain tree, which take a merge of 16 bytes; a script of Python has them
//! in other databases, with prepared statements. What each of them writes is what the disk has counted, of all processes: nothing else is to
//! run meanwhile.

use std::error::Error;
use std::io::{BufRead, BufReader, Write};
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::types::{Date32Type, Decimal128Type, Int32Type, Int64Type};
use arrow_array::{Array, RecordBatch};
use arrow_schema::DataType;
use moirai::btree::{Batch, Store};
use moirai::runtime::{Random, Stopwatch, block_on_real, random};
use moirai::tables::Layout;
use moirai::units::ByteCount;
use moirai::update::{Figures, Kind, KindNumber, Kinds, Options, Value};
use moirai::{NewFiles, NewTrees, TreesPlace};
use moirai_workloads::tpch::Table;
use rand::Rng;

use crate::lineitem::{DISCOUNT, GROUP, KEY, LEAF, Lineitem, QUANTITY, StoreOptions, random_value};
use crate::tpch::write_parquet;

type Outcome<T> = Result<T, Box<dyn Error>>;

const COLUMNS: [usize; 2] = [QUANTITY, DISCOUNT];

/// How rows are updated.
pub(crate) struct Settings {
    pub(crate) scale_factor: f64,
    /// Seconds of updates before anything counts.
    pub(crate) warm_s: f64,
    /// Seconds of updates that count.
    pub(crate) seconds: f64,
    /// Memory of a store, and of the other databases' caches.
    pub(crate) memory: ByteCount,
}

pub(crate) fn run(settings: &Settings) -> Outcome<()> {
    println!(
        "{:20} {:>10} {:>10}  bytes each, of them: log, staged, placed",
        "", "updates/s", "written B"
    );
    for (name, layout) in [("moirai, csm", Layout::Csm), ("moirai, nsm", Layout::Nsm)] {
        report(name, &block_on_real(1, of_table(layout, settings))?);
    }
    report("moirai, plain tree", &block_on_real(1, of_tree(settings))?);
    others(settings)
}

/// What updates took.
struct Measured {
    updates: u64,
    seconds: f64,
    /// What the disk has written; `None` where it does not tell.
    written_bytes: Option<u64>,
    /// Bytes of the log, staged and placed, where the engine tells.
    parts: Option<[u64; 3]>,
}

fn report(name: &str, measured: &Measured) {
    let each = |bytes: u64| format!("{:.0}", bytes as f64 / measured.updates as f64);
    let parts = measured.parts.map(|parts| parts.map(each).join(", ")).unwrap_or_default();
    println!(
        "{name:20} {:>10.0} {:>10}  {parts}",
        measured.updates as f64 / measured.seconds,
        measured.written_bytes.map_or_else(|| "-".to_owned(), each)
    );
}

/// Bytes that the disk of `folder` has written so far, with what was cached.
fn written(folder: &Path) -> Option<u64> {
    rustix::fs::sync();
    let device = std::fs::metadata(folder).ok()?.dev();
    let (major, minor) = (rustix::fs::major(device), rustix::fs::minor(device));
    let stat = std::fs::read_to_string(format!("/sys/dev/block/{major}:{minor}/stat")).ok()?;
    // Sectors of 512 bytes: Documentation/block/stat.rst of the kernel.
    Some(stat.split_whitespace().nth(6)?.parse::<u64>().ok()? * 512)
}

fn parts(figures: &Figures) -> [u64; 3] {
    [figures.log_bytes, figures.staged_bytes, figures.placed_bytes]
}

/// Commits for as long as the settings say.
async fn measure(
    settings: &Settings,
    figures: impl Fn() -> Figures,
    mut commit: impl AsyncFnMut(&mut Random) -> Outcome<()>,
) -> Outcome<Measured> {
    let folder = std::env::temp_dir();
    let mut random = random("rows");
    let watch = Stopwatch::start();
    while watch.elapsed().as_s() < settings.warm_s {
        commit(&mut random).await?;
    }
    let (before, before_bytes) = (parts(&figures()), written(&folder));
    let (watch, mut updates) = (Stopwatch::start(), 0);
    while watch.elapsed().as_s() < settings.seconds {
        commit(&mut random).await?;
        updates += GROUP;
    }
    let seconds = watch.elapsed().as_s();
    let mut of = parts(&figures());
    for (of, before) in of.iter_mut().zip(before) {
        *of -= before;
    }
    let written_bytes = written(&folder).zip(before_bytes).map(|(now, before)| now - before);
    Ok(Measured { updates, seconds, written_bytes, parts: Some(of) })
}

async fn of_table(layout: Layout, settings: &Settings) -> Outcome<Measured> {
    let engine = Options { memory: settings.memory, ..Options::default() };
    let scale_factor = settings.scale_factor;
    let options = StoreOptions { scale_factor, layout, is_direct: true, engine };
    let lineitem = Lineitem::load(options).await?;
    let figures = || lineitem.tables.store().engine().figures();
    let commit = async |random: &mut Random| lineitem.update(random, &COLUMNS).await;
    let measured = measure(settings, figures, commit).await?;
    lineitem.tables.close().await?;
    Ok(measured)
}

/// Sets two numbers of a record.
const PATCH: KindNumber = KindNumber(20);

struct Patch;

/// Where a record has the two numbers: those before them have 8 bytes each, but for the line's number.
const PATCHED: [std::ops::Range<usize>; 2] = [28..36, 44..52];

impl Kind for Patch {
    fn apply(&self, value: &mut Value, modification: &[u8]) {
        for (range, number) in PATCHED.into_iter().zip(modification.chunks_exact(8)) {
            if let Some(bytes) = value.bytes.get_mut(range) {
                bytes.copy_from_slice(number);
            }
        }
    }
}

/// Rows as keys of 12 bytes and records: all numbers, in as many bytes as they need, and then all texts.
fn records(batch: &RecordBatch) -> Vec<([u8; 12], Vec<u8>)> {
    let mut records: Vec<([u8; 12], Vec<u8>)> =
        (0..batch.num_rows()).map(|_| ([0; 12], Vec::with_capacity(160))).collect();
    let columns = || batch.columns().iter();
    for array in columns() {
        for (row, (_, record)) in records.iter_mut().enumerate() {
            match array.data_type() {
                DataType::Int64 => {
                    record.extend(array.as_primitive::<Int64Type>().value(row).to_le_bytes());
                }
                DataType::Int32 => {
                    record.extend(array.as_primitive::<Int32Type>().value(row).to_le_bytes());
                }
                DataType::Date32 => {
                    record.extend(array.as_primitive::<Date32Type>().value(row).to_le_bytes());
                }
                DataType::Decimal128(..) => {
                    let number = array.as_primitive::<Decimal128Type>().value(row) as i64;
                    record.extend(number.to_le_bytes());
                }
                _ => {}
            }
        }
    }
    for texts in columns().filter_map(|array| array.as_string_view_opt()) {
        for (text, (_, record)) in texts.iter().zip(&mut records) {
            let text = text.unwrap_or_default();
            record.push(text.len() as u8);
            record.extend(text.as_bytes());
        }
    }
    let [orders, lines] = KEY.map(|column| batch.column(column));
    let (orders, lines) = (orders.as_primitive::<Int64Type>(), lines.as_primitive::<Int32Type>());
    for ((key, _), (order, line)) in
        records.iter_mut().zip(orders.values().iter().zip(lines.values()))
    {
        *key = key_of(*order, *line);
    }
    records
}

/// None of the numbers is negative, so these bytes sort as they do.
fn key_of(order: i64, line: i32) -> [u8; 12] {
    let mut key = [0; 12];
    let (of_order, of_line) = key.split_at_mut(8);
    of_order.copy_from_slice(&order.to_be_bytes());
    of_line.copy_from_slice(&line.to_be_bytes());
    key
}

async fn new_store(folder: &Path, settings: &Settings) -> Outcome<Store> {
    let mut kinds = Kinds::new();
    kinds.register(PATCH, Arc::new(Patch))?;
    let files = NewFiles::new();
    let new = NewTrees::new(LEAF, &files);
    let bytes = (settings.scale_factor * 4e9) as u64 + (256 << 20);
    let uri = format!("file:{}?size={}MiB", folder.join("store").display(), bytes >> 20);
    let options = Options { memory: settings.memory, ..Options::default() };
    let place = TreesPlace { data: &uri, logs: &[] };
    Ok(moirai::create_trees(place, new, kinds, options).await?.store)
}

async fn of_tree(settings: &Settings) -> Outcome<Measured> {
    let folder = tempfile::tempdir()?;
    let store = new_store(folder.path(), settings).await?;
    let tree = store.tree("lineitem").await?;
    let (mut keys, mut bytes, mut failed) = (Vec::new(), 0, None);
    let batches = Table::LineItem.batches(settings.scale_factor, 8192);
    let rows = batches.map_while(|batch| batch.map_err(|error| failed = Some(error)).ok());
    let rows = rows.flat_map(|batch| records(&batch)).inspect(|(key, record)| {
        keys.push(*key);
        bytes += key.len() + record.len();
    });
    store.ingest(&tree, rows).await?;
    if let Some(error) = failed {
        return Err(error.into());
    }
    println!("  {} records of {:.0} bytes", keys.len(), bytes as f64 / keys.len() as f64);
    let mut batch = Batch::new();
    let commit = async |random: &mut Random| {
        batch.clear();
        for _ in 0..GROUP {
            let key = keys.get(random.random_range(0..keys.len())).ok_or("no rows")?;
            let numbers = COLUMNS.map(|column| random_value(random, column).to_le_bytes());
            batch.merge(&tree, PATCH, key, numbers.as_flattened());
        }
        Ok(store.commit(&batch).await?)
    };
    let measured = measure(settings, || store.figures(), commit).await?;
    store.close().await?;
    Ok(measured)
}

/// Has a script do the same with other databases.
fn others(settings: &Settings) -> Outcome<()> {
    let folder = tempfile::tempdir()?;
    let rows = folder.path().join("lineitem.parquet");
    write_parquet(&rows, Table::LineItem, settings.scale_factor)?;
    let mut child = Command::new("python3")
        .args(["-c", include_str!("rows.py")])
        .arg(folder.path())
        .args([settings.warm_s, settings.seconds].map(|seconds| seconds.to_string()))
        .arg(settings.memory.0.to_string())
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()?;
    let (Some(mut input), Some(output)) = (child.stdin.take(), child.stdout.take()) else {
        return Err("the script has no pipes".into());
    };
    let mut before = None;
    for line in BufReader::new(output).lines() {
        let line = line?;
        match *line.split('\t').collect::<Vec<_>>() {
            ["begin"] => before = written(folder.path()),
            ["end", name, updates, seconds] => {
                let now = written(folder.path());
                let written_bytes = now.zip(before).map(|(now, before)| now - before);
                let (updates, seconds) = (updates.parse()?, seconds.parse()?);
                report(name, &Measured { updates, seconds, written_bytes, parts: None });
            }
            _ => println!("  {line}"),
        }
        // It goes on when it has read this; where it ended, its output ends, too.
        drop(writeln!(input));
    }
    child.wait()?;
    Ok(())
}
