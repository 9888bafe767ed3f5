//! The demo: TPC-H in rows and in columns, on simulated disks and in files, with updates, each answer checked.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use arrow_array::{Array, ArrayRef, BooleanArray, RecordBatch, UInt64Array};
use arrow_select::concat::concat_batches;
use arrow_select::filter::filter_record_batch;
use arrow_select::interleave::interleave;
use arrow_select::take::take;
use moirai::devices::Contents;
use moirai::runtime::{Stopwatch, block_on_real, block_on_virtual, now, random};
use moirai::storage::{Device, Metered};
use moirai::tables::{Changes, Layout, LoadOptions, ScanOptions, TableDefinition, Tables};
use moirai::units::ByteCount;
use moirai::update::{Kinds, Options};
use moirai::{Held, NewFiles, NewTrees, TreesPlace};
use moirai_sql::{Answer, Database, Format, memory_database};
use moirai_workloads::tpch;
use rand::Rng;

use crate::setting::{FOUR_CHEETAHS, four_cheetahs};
use crate::{DemoFigures, DemoRow, Failure, LoadRow};

/// The setting of a demo.
#[derive(Clone, Debug)]
pub struct DemoOptions {
    /// The TPC-H scale factor.
    pub scale_factor: f64,
    /// The seed of all random choices.
    pub seed: u64,
    /// The folder for the files; created if it does not exist.
    pub folder: PathBuf,
}

impl DemoOptions {
    /// The two files that the demo stores the tables in, one for each layout.
    #[must_use]
    pub fn stores(&self) -> [PathBuf; 2] {
        LAYOUTS.map(|layout| self.folder.join(format!("{}.moirai", layout.name())))
    }

    /// The file for the report, which the caller writes.
    #[must_use]
    pub fn report(&self) -> PathBuf {
        self.folder.join("report.html")
    }
}

/// Takes what the demo does now, and the share of the demo that is done, from 0 to 1.
pub type Progress<'a> = &'a (dyn Fn(&str, f64) + Sync);

const LAYOUTS: [Layout; 2] = [Layout::Nsm, Layout::Csm];
const QUERIES: [u8; 4] = [1, 6, 12, 14];
const FETCHES: usize = 1000;
/// Rows of `lineitem` that get other discounts and taxes, and how many of them a group has.
const UPDATED_SHARE: f64 = 0.1;
const GROUP_ROWS: usize = 1000;
const BATCH_ROWS: usize = 8192;
/// Bytes of the leaves that catalogs have.
const LEAF: ByteCount = ByteCount(8 << 10);

/// Updates wait in memory: nothing is swept because nobody works.
fn options() -> Options {
    Options { idle: None, ..Options::default() }
}

/// Runs the demo. Overwrites the files [`DemoOptions::stores`]; the caller asks first.
///
/// # Errors
/// [`Failure::Setting`] if one of these files is a store with tables of its own, which is then left as it is; else
/// whatever fails during the run.
pub fn run(options: &DemoOptions, progress: Progress<'_>) -> Result<DemoFigures, Failure> {
    progress("generating TPC-H data", 0.0);
    let data = Data::new(options.scale_factor)?;
    progress("querying tables in memory", 0.05);
    let expected = Arc::new(block_on_virtual(options.seed, Expected::new(&data))?);

    let mut simulated = Vec::new();
    let mut in_file = Vec::new();
    let stores = options.stores();
    for (index, (layout, path)) in LAYOUTS.into_iter().zip(&stores).enumerate() {
        let at = |share: f64| 0.1 + 0.9 * (index as f64 + share) / LAYOUTS.len() as f64;
        let name = layout.name();
        progress(&format!("{name} on the simulated volume"), at(0.0));
        simulated.push(block_on_virtual(options.seed, on_disks(&data, &expected, layout))?);
        progress(&format!("{name} in a file"), at(0.5));
        let uri = new_file(path, data.bytes)?;
        in_file.push(block_on_real(options.seed, in_a_file(&data, &expected, layout, &uri))?);
    }
    progress("done", 1.0);

    let mut rows = Vec::new();
    for (index, workload) in Workload::all().into_iter().enumerate() {
        for (layout, (disks, file)) in LAYOUTS.iter().zip(simulated.iter().zip(&in_file)) {
            let (Some(disks), Some(file)) = (disks.runs.get(index), file.runs.get(index)) else {
                continue;
            };
            rows.push(DemoRow {
                workload: workload.name(),
                layout: layout.name().to_owned(),
                read_mib: disks.read_mib,
                written_mib: disks.written_mib,
                ios: disks.ios,
                simulated_io_ms: disks.elapsed_ms,
                disk_efficiency: disks.disk_efficiency,
                file_wall_ms: file.elapsed_ms,
            });
        }
    }
    let load = LAYOUTS.iter().zip(simulated.iter().zip(&in_file));
    Ok(DemoFigures {
        scale_factor: options.scale_factor,
        seed: options.seed,
        simulated: FOUR_CHEETAHS.to_owned(),
        files: stores.iter().map(|path| path.display().to_string()).collect(),
        load: load
            .map(|(layout, (disks, file))| LoadRow {
                layout: layout.name().to_owned(),
                stored_mib: disks.stored_mib,
                simulated_write_ms: disks.load_ms,
                file_load_ms: file.load_ms,
            })
            .collect(),
        rows,
    })
}

/// What the demo does, in this order.
#[derive(Clone, Copy)]
enum Workload {
    /// The query of this index in [`QUERIES`].
    Query(usize),
    Scan,
    Fetches,
    Updates,
    /// The query again, while the updates wait for their pages.
    QueryAfter(usize),
}

impl Workload {
    fn all() -> Vec<Workload> {
        let queries = 0..QUERIES.len();
        let others = [Workload::Scan, Workload::Fetches, Workload::Updates];
        let after = queries.clone().map(Workload::QueryAfter);
        queries.map(Workload::Query).chain(others).chain(after).collect()
    }

    fn name(self) -> String {
        let query = |index: usize| QUERIES.get(index).map_or(0, |number| *number);
        match self {
            Workload::Query(index) => format!("Q{}", query(index)),
            Workload::Scan => "full scan".to_owned(),
            Workload::Fetches => "1,000 fetches".to_owned(),
            Workload::Updates => "updates of a tenth".to_owned(),
            Workload::QueryAfter(index) => format!("Q{} after updates", query(index)),
        }
    }
}

/// The tables, generated once and kept in memory: the stores load them, and answers are compared with them.
struct Data {
    scale_factor: f64,
    tables: Vec<(tpch::Table, Vec<RecordBatch>)>,
    bytes: ByteCount,
}

impl Data {
    fn new(scale_factor: f64) -> Result<Data, Failure> {
        let mut tables = Vec::new();
        let mut bytes = 0;
        for table in tpch::Table::ALL {
            let mut batches = Vec::new();
            for batch in table.batches(scale_factor, BATCH_ROWS) {
                let batch = batch?;
                bytes += batch.get_array_memory_size() as u64;
                batches.push(batch);
            }
            tables.push((table, batches));
        }
        Ok(Data { scale_factor, tables, bytes: ByteCount(bytes) })
    }

    async fn load(&self, tables: &Arc<Tables>, layout: Layout) -> Result<(), Failure> {
        for (table, batches) in &self.tables {
            let mut definition =
                TableDefinition::new(table.schema(), table.primary_key(self.scale_factor))?;
            definition.pages = tables.page_options(layout);
            let mut load = tables.load(table.name(), definition, LoadOptions::default()).await?;
            for batch in batches {
                load.push(batch).await?;
            }
            load.finish().await?;
        }
        Ok(())
    }
}

/// The right answers.
struct Expected {
    queries: Vec<ExpectedQuery>,
    lineitem: RecordBatch,
    updates: Updates,
}

/// A query, and its answer before and after the updates.
struct ExpectedQuery {
    statement: String,
    before: Vec<String>,
    after: Vec<String>,
}

/// Rows of `lineitem`, and the columns that they get.
struct Updates {
    rows: RecordBatch,
    columns: Vec<(usize, ArrayRef)>,
}

impl Updates {
    /// Discounts and taxes change places between random rows; gives the table with them, too.
    fn of(lineitem: &RecordBatch) -> Result<(Updates, RecordBatch), Failure> {
        let mut random = random("demo updates");
        let is_updated: Vec<bool> =
            (0..lineitem.num_rows()).map(|_| random.random_bool(UPDATED_SHARE)).collect();
        let rows = filter_record_batch(lineitem, &BooleanArray::from(is_updated.clone()))?;
        let reversed = UInt64Array::from_iter_values((0..rows.num_rows() as u64).rev());
        let (mut columns, mut after) = (Vec::new(), lineitem.columns().to_vec());
        for name in ["l_discount", "l_tax"] {
            let column = lineitem.schema().index_of(name)?;
            let values = take(rows.column(column), &reversed, None)?;
            let mut next = 0..values.len();
            let places = is_updated.iter().enumerate().map(|(row, is_updated)| {
                let update = if *is_updated { next.next() } else { None };
                update.map_or((0, row), |update| (1, update))
            });
            let places: Vec<(usize, usize)> = places.collect();
            if let Some(array) = after.get_mut(column) {
                *array = interleave(&[&**array, &*values], &places)?;
            }
            columns.push((column, values));
        }
        let after = RecordBatch::try_new(lineitem.schema(), after)?;
        Ok((Updates { rows, columns }, after))
    }
}

impl Expected {
    async fn new(data: &Data) -> Result<Expected, Failure> {
        let of_lineitem = tpch::Table::LineItem;
        let batches = data.tables.iter().find(|(table, _)| *table == of_lineitem);
        let batches = batches.map_or(&[][..], |(_, batches)| batches.as_slice());
        let lineitem = concat_batches(&of_lineitem.schema(), batches)?;
        let (updates, after) = Updates::of(&lineitem)?;
        let database = |lineitem: &RecordBatch| {
            memory_database(data.tables.iter().map(|(table, batches)| {
                let batches = match *table == of_lineitem {
                    true => vec![lineitem.clone()],
                    false => batches.clone(),
                };
                (table.name().to_owned(), table.schema(), batches)
            }))
        };
        let (before, after) = (database(&lineitem)?, database(&after)?);
        let mut queries = Vec::new();
        for number in QUERIES {
            let statement = tpch::query(number, data.scale_factor)
                .ok_or_else(|| Failure::Setting(format!("there is no query {number}")))?;
            let (before, after) =
                (answer(&before, &statement).await?, answer(&after, &statement).await?);
            queries.push(ExpectedQuery { statement, before, after });
        }
        Ok(Expected { queries, lineitem, updates })
    }
}

/// The rows of an answer as text, sorted, since a query returns rows with equal sort keys in any order.
async fn answer(database: &Database, statement: &str) -> Result<Vec<String>, Failure> {
    let (schema, batches) = database.query(statement).await?;
    let mut text = Vec::new();
    Answer { schema: &schema, batches: &batches }.write(&mut text, Format::Csv)?;
    let text = String::from_utf8_lossy(&text);
    let mut lines: Vec<String> = text.lines().map(str::to_owned).collect();
    lines.sort_unstable();
    Ok(lines)
}

/// The cost of one workload.
#[derive(Default)]
struct Run {
    elapsed_ms: f64,
    read_mib: f64,
    written_mib: f64,
    ios: u64,
    disk_efficiency: f64,
}

/// The costs of one layout in one place.
#[derive(Default)]
struct Runs {
    load_ms: f64,
    stored_mib: f64,
    runs: Vec<Run>,
}

async fn on_disks(data: &Data, expected: &Expected, layout: Layout) -> Result<Runs, Failure> {
    let device = Metered::new(four_cheetahs(Contents::memory, None)?);
    let began = now();
    let on_device = Arc::clone(&device) as Arc<dyn Device>;
    let tables = moirai::create_tables_on(on_device, LEAF, options()).await?;
    data.load(&tables, layout).await?;
    let mut runs = Runs {
        load_ms: now().since(began).as_ms(),
        stored_mib: stored(&tables).await?,
        runs: Vec::new(),
    };
    for workload in Workload::all() {
        device.take();
        let began = now();
        run_workload(workload, &tables, expected, "the simulated volume").await?;
        let elapsed_ms = now().since(began).as_ms();
        let meter = device.take();
        runs.runs.push(Run {
            elapsed_ms,
            read_mib: meter.read_blocks.bytes().as_mib(),
            written_mib: meter.written_blocks.bytes().as_mib(),
            ios: meter.reads + meter.writes,
            disk_efficiency: meter.parts.efficiency(),
        });
    }
    Ok(runs)
}

async fn in_a_file(
    data: &Data,
    expected: &Expected,
    layout: Layout,
    uri: &str,
) -> Result<Runs, Failure> {
    let files = NewFiles::new();
    let new = NewTrees::new(LEAF, &files);
    let place = TreesPlace { data: uri, logs: &[] };
    let made = moirai::create_trees(place, new, Kinds::new(), options()).await?;
    let tables = Tables::over(made.store);
    let watch = Stopwatch::start();
    data.load(&tables, layout).await?;
    let mut runs = Runs { load_ms: watch.elapsed().as_ms(), ..Runs::default() };
    for workload in Workload::all() {
        let watch = Stopwatch::start();
        run_workload(workload, &tables, expected, uri).await?;
        runs.runs.push(Run { elapsed_ms: watch.elapsed().as_ms(), ..Run::default() });
    }
    tables.close().await?;
    Ok(runs)
}

async fn stored(tables: &Arc<Tables>) -> Result<f64, Failure> {
    let snapshot = tables.snapshot().await;
    let mut mib = 0.0;
    for name in tables.names().await? {
        mib += snapshot.size(&tables.table(&name).await?).await?.stored.as_mib();
    }
    Ok(mib)
}

/// Runs a workload, and checks the answer.
async fn run_workload(
    workload: Workload,
    tables: &Arc<Tables>,
    expected: &Expected,
    place: &str,
) -> Result<(), Failure> {
    let is_right = match workload {
        Workload::Query(index) | Workload::QueryAfter(index) => {
            let Some(query) = expected.queries.get(index) else { return Ok(()) };
            let right = match workload {
                Workload::QueryAfter(_) => &query.after,
                _ => &query.before,
            };
            answer(&Database::over(tables), &query.statement).await? == *right
        }
        Workload::Scan => scan(tables, &expected.lineitem).await?,
        Workload::Fetches => fetch(tables, &expected.lineitem).await?,
        Workload::Updates => {
            update(tables, &expected.updates).await?;
            true
        }
    };
    match is_right {
        true => Ok(()),
        false => Err(Failure::Differs { what: workload.name(), store: place.to_owned() }),
    }
}

/// Reads all of `lineitem`; tells whether it is as it should be.
async fn scan(tables: &Arc<Tables>, lineitem: &RecordBatch) -> Result<bool, Failure> {
    let table = tables.table(tpch::Table::LineItem.name()).await?;
    let mut scan = tables.snapshot().await.scan(&table, ScanOptions::default())?;
    let mut row = 0;
    while let Some(batch) = scan.next().await? {
        let rows = batch.num_rows().min(lineitem.num_rows() - row);
        if batch != lineitem.slice(row, rows) {
            return Ok(false);
        }
        row += rows;
    }
    Ok(row == lineitem.num_rows())
}

/// The columns of the key of `lineitem`.
fn key_of(rows: &RecordBatch) -> Result<Vec<ArrayRef>, Failure> {
    let column = |name: &&str| Ok(Arc::clone(rows.column(rows.schema().index_of(name)?)));
    tpch::Table::LineItem.primary_key(1.0).iter().map(column).collect()
}

/// Reads random rows of `lineitem`, one after another; tells whether they are as they should be.
async fn fetch(tables: &Arc<Tables>, lineitem: &RecordBatch) -> Result<bool, Failure> {
    let table = tables.table(tpch::Table::LineItem.name()).await?;
    let snapshot = tables.snapshot().await;
    let columns: Vec<usize> = (0..lineitem.num_columns()).collect();
    let mut random = random("demo fetches");
    for _ in 0..FETCHES {
        let expected = lineitem.slice(random.random_range(0..lineitem.num_rows()), 1);
        if snapshot.rows(&table, &key_of(&expected)?, &columns).await? != expected {
            return Ok(false);
        }
    }
    Ok(true)
}

/// Commits the updates of `lineitem`, group by group. No page is read for them.
async fn update(tables: &Arc<Tables>, updates: &Updates) -> Result<(), Failure> {
    let table = tables.table(tpch::Table::LineItem.name()).await?;
    let (count, mut changes) = (updates.rows.num_rows(), Changes::new());
    for first in (0..count).step_by(GROUP_ROWS) {
        let rows = GROUP_ROWS.min(count - first);
        let columns = updates.columns.iter();
        let columns: Vec<(usize, ArrayRef)> =
            columns.map(|(column, values)| (*column, values.slice(first, rows))).collect();
        changes.clear();
        changes.set(&table, &key_of(&updates.rows.slice(first, rows))?, &columns, &[])?;
        tables.commit(&changes).await?;
    }
    Ok(())
}

/// The names of the tables and trees in a store; none of a blank file.
async fn names_in(uri: &str) -> Result<Vec<String>, Failure> {
    match moirai::held(uri).await? {
        Held::Nothing => Ok(Vec::new()),
        Held::Other(occupant) => {
            Err(Failure::Setting(format!("{uri} holds {occupant}: name another --dir")))
        }
        Held::Store => {
            let options = Options { read_only: true, ..Options::default() };
            let place = TreesPlace { data: uri, logs: &[] };
            let tables = moirai::open_tables(place, Kinds::new(), options).await?;
            let mut names = tables.names().await?;
            names.extend(tables.store().trees().await?);
            Ok(names)
        }
    }
}

/// The URI of a new file at `path`, in place of what an earlier demo left there.
fn new_file(path: &Path, data_bytes: ByteCount) -> Result<String, Failure> {
    let failed = |path: &Path| {
        let path = path.to_owned();
        move |source| Failure::File { path, source }
    };
    if let Some(folder) = path.parent() {
        std::fs::create_dir_all(folder).map_err(failed(folder))?;
    }
    let uri = format!("file:{}", path.display());
    if path.exists() {
        let names = block_on_real(0, names_in(&uri))?;
        let is_demo = |name: &&String| tpch::Table::ALL.iter().any(|table| table.name() == *name);
        if let Some(other) = names.iter().find(|name| !is_demo(name)) {
            return Err(Failure::Setting(format!(
                "{} holds {other}, which the demo did not store: name another --dir",
                path.display()
            )));
        }
        std::fs::remove_file(path).map_err(failed(path))?;
    }
    // Sparse: only written blocks take room on the device below.
    let size = ByteCount::mib((data_bytes.0 * 3).div_ceil(1 << 20) + 256);
    Ok(format!("{uri}?size={}", size.0))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The second run replaces the files of the first.
    #[test]
    fn the_same_seed_gives_the_same_virtual_figures() {
        let folder = tempfile::tempdir().unwrap();
        let figures = || {
            let options =
                DemoOptions { scale_factor: 0.005, seed: 42, folder: folder.path().to_owned() };
            let mut figures = run(&options, &|_, _| {}).unwrap();
            for row in &mut figures.rows {
                row.file_wall_ms = 0.0;
            }
            for load in &mut figures.load {
                load.file_load_ms = 0.0;
            }
            serde_json::to_string(&figures).unwrap()
        };
        let first = figures();
        assert!(first.contains("\"workload\":\"Q14 after updates\""));
        assert_eq!(figures(), first);
    }

    #[test]
    fn a_store_with_other_tables_is_not_replaced() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("nsm.moirai");
        let uri = new_file(&path, ByteCount(0)).unwrap();
        let definition = TableDefinition::new(tpch::Table::Nation.schema(), &[]).unwrap();
        block_on_real(1, async {
            let files = NewFiles::new();
            let access = moirai::Access::Create(&files);
            let device = moirai::open_device_for(&uri, access).await.unwrap();
            let options = Options::default();
            let tables = moirai::create_tables_on(device, LEAF, options).await.unwrap();
            tables.create("mine", definition).await.unwrap();
            tables.close().await.unwrap();
        });
        let refused = new_file(&path, ByteCount(0)).unwrap_err().to_string();
        assert!(refused.contains("holds mine, which"), "{refused}");
        assert!(path.exists());
    }

    #[test]
    fn a_file_of_somebody_else_is_not_replaced() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("nsm.moirai");
        for content in [b"a letter".to_vec(), vec![b'x'; 1 << 20]] {
            std::fs::write(&path, &content).unwrap();
            new_file(&path, ByteCount(0)).unwrap_err();
            assert!(std::fs::read(&path).unwrap() == content);
        }
        // A demo that was killed before it loaded anything leaves a file of zeros.
        std::fs::write(&path, vec![0; 1 << 20]).unwrap();
        new_file(&path, ByteCount(0)).unwrap();
        assert!(!path.exists());
    }
}
