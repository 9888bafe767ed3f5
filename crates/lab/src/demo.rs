//! The demo: TPC-H in rows and in capsules, on simulated disks and in files, each answer checked.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use arrow_array::RecordBatch;
use arrow_select::concat::concat_batches;
use futures::StreamExt;
use moirai::devices::Contents;
use moirai::runtime::{Stopwatch, block_on_real, block_on_virtual, now, random};
use moirai::storage::{Device, Metered};
use moirai::store::{LoadOptions, PageLayout, ScanOptions, Store};
use moirai::units::ByteCount;
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
        LAYOUTS.map(|layout| self.folder.join(format!("{layout}.moirai")))
    }

    /// The file for the report, which the caller writes.
    #[must_use]
    pub fn report(&self) -> PathBuf {
        self.folder.join("report.html")
    }
}

/// Takes what the demo does now, and the share of the demo that is done, from 0 to 1.
pub type Progress<'a> = &'a (dyn Fn(&str, f64) + Sync);

const LAYOUTS: [PageLayout; 2] = [PageLayout::Nsm, PageLayout::Csm];
const QUERIES: [u8; 4] = [1, 6, 12, 14];
const FETCHES: usize = 1000;
const BATCH_ROWS: usize = 8192;

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
        progress(&format!("{layout} on the simulated volume"), at(0.0));
        simulated.push(block_on_virtual(options.seed, on_disks(&data, &expected, layout))?);
        progress(&format!("{layout} in a file"), at(0.5));
        let uri = new_file(path, data.bytes)?;
        in_file.push(block_on_real(options.seed, in_a_file(&data, &expected, layout, &uri))?);
    }
    progress("done", 1.0);

    let mut rows = Vec::new();
    for (workload, name) in workload_names().into_iter().enumerate() {
        for (layout, (disks, file)) in LAYOUTS.iter().zip(simulated.iter().zip(&in_file)) {
            let (Some(disks), Some(file)) = (disks.runs.get(workload), file.runs.get(workload))
            else {
                continue;
            };
            rows.push(DemoRow {
                workload: name.clone(),
                layout: layout.to_string(),
                read_mib: disks.read_mib,
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
                layout: layout.to_string(),
                stored_mib: disks.stored_mib,
                simulated_write_ms: disks.load_ms,
                file_load_ms: file.load_ms,
            })
            .collect(),
        rows,
    })
}

fn workload_names() -> Vec<String> {
    let mut names: Vec<String> = QUERIES.iter().map(|number| format!("Q{number}")).collect();
    names.extend(["full scan".to_owned(), "1,000 fetches".to_owned()]);
    names
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

    async fn load(&self, store: &Arc<Store>, layout: PageLayout) -> Result<(), Failure> {
        for (table, batches) in &self.tables {
            let options = LoadOptions::default();
            let mut load = store.load(table.name(), &table.schema(), layout, options).await?;
            for batch in batches {
                load.append(batch).await?;
            }
            load.finish().await?;
        }
        Ok(())
    }
}

/// The right answers.
struct Expected {
    /// Statement and answer of each query.
    queries: Vec<(String, Vec<String>)>,
    lineitem: RecordBatch,
}

impl Expected {
    async fn new(data: &Data) -> Result<Expected, Failure> {
        let tables = data
            .tables
            .iter()
            .map(|(table, batches)| (table.name().to_owned(), table.schema(), batches.clone()));
        let database = memory_database(tables)?;
        let mut queries = Vec::new();
        for number in QUERIES {
            let statement = tpch::query(number, data.scale_factor)
                .ok_or_else(|| Failure::Setting(format!("there is no query {number}")))?;
            let answer = answer(&database, &statement).await?;
            queries.push((statement, answer));
        }
        let lineitem = tpch::Table::LineItem;
        let batches = data.tables.iter().find(|(table, _)| *table == lineitem);
        let batches = batches.map_or(&[][..], |(_, batches)| batches.as_slice());
        Ok(Expected { queries, lineitem: concat_batches(&lineitem.schema(), batches)? })
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

async fn on_disks(data: &Data, expected: &Expected, layout: PageLayout) -> Result<Runs, Failure> {
    let device = Metered::new(four_cheetahs(Contents::memory, None)?);
    let began = now();
    let store = Store::open(Arc::clone(&device) as Arc<dyn Device>).await?;
    data.load(&store, layout).await?;
    let mut runs = Runs {
        load_ms: now().since(began).as_ms(),
        stored_mib: stored(&store).await?,
        runs: Vec::new(),
    };
    for workload in 0..workload_names().len() {
        device.take();
        let began = now();
        run_workload(workload, &store, expected, "the simulated volume").await?;
        let elapsed_ms = now().since(began).as_ms();
        let meter = device.take();
        runs.runs.push(Run {
            elapsed_ms,
            read_mib: meter.read_blocks.bytes().as_mib(),
            ios: meter.reads,
            disk_efficiency: meter.parts.efficiency(),
        });
    }
    Ok(runs)
}

async fn in_a_file(
    data: &Data,
    expected: &Expected,
    layout: PageLayout,
    uri: &str,
) -> Result<Runs, Failure> {
    let (store, _) = moirai::create_store(uri, &moirai::NewFiles::new(), false).await?;
    let watch = Stopwatch::start();
    data.load(&store, layout).await?;
    let mut runs = Runs { load_ms: watch.elapsed().as_ms(), ..Runs::default() };
    for workload in 0..workload_names().len() {
        let watch = Stopwatch::start();
        run_workload(workload, &store, expected, uri).await?;
        runs.runs.push(Run { elapsed_ms: watch.elapsed().as_ms(), ..Run::default() });
    }
    Ok(runs)
}

async fn stored(store: &Store) -> Result<f64, Failure> {
    let mut mib = 0.0;
    for name in store.table_names() {
        mib += store.table(&name)?.size().await?.extent_blocks.bytes().as_mib();
    }
    Ok(mib)
}

/// Runs a workload, by its index in [`workload_names`], and checks the answer.
async fn run_workload(
    workload: usize,
    store: &Arc<Store>,
    expected: &Expected,
    place: &str,
) -> Result<(), Failure> {
    let differs = |what: String| Failure::Differs { what, store: place.to_owned() };
    if let Some((statement, expected)) = expected.queries.get(workload) {
        let database = Database::new(store)?;
        if answer(&database, statement).await? != *expected {
            return Err(differs(format!("TPC-H query {}", QUERIES.get(workload).unwrap_or(&0))));
        }
        return Ok(());
    }
    let table = store.table(tpch::Table::LineItem.name())?;
    let lineitem = &expected.lineitem;
    if workload == QUERIES.len() {
        let mut stream = table.scan(ScanOptions::default()).await?.stream();
        let mut row = 0;
        while let Some(batch) = stream.next().await {
            let batch = batch?;
            let rows = batch.num_rows().min(lineitem.num_rows() - row);
            if batch != lineitem.slice(row, rows) {
                return Err(differs(format!("a scan of lineitem, from row {row} on,")));
            }
            row += rows;
        }
        return if row == lineitem.num_rows() {
            Ok(())
        } else {
            Err(differs("a scan of lineitem".into()))
        };
    }
    let mut random = random("demo fetches");
    for _ in 0..FETCHES {
        let row = random.random_range(0..table.rows());
        if table.fetch(&[row], None).await? != lineitem.slice(row as usize, 1) {
            return Err(differs(format!("row {row} of lineitem")));
        }
    }
    Ok(())
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
        let names = match block_on_real(0, moirai::open_store(&uri)) {
            Ok(store) => store.table_names(),
            // A store of tables, and no table of it can be read.
            Err(moirai::store::Error::Damaged { .. } | moirai::store::Error::Version { .. }) => {
                Vec::new()
            }
            Err(error) => return Err(error.into()),
        };
        let is_demo = |name: &&String| tpch::Table::ALL.iter().any(|table| table.name() == *name);
        if let Some(other) = names.iter().find(|name| !is_demo(name)) {
            return Err(Failure::Setting(format!(
                "{} holds the table {other}, which the demo did not store: name another --dir",
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
        assert!(first.contains("\"workload\":\"Q14\""));
        assert_eq!(figures(), first);
    }

    #[test]
    fn a_store_with_other_tables_is_not_replaced() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("nsm.moirai");
        let uri = new_file(&path, ByteCount(0)).unwrap();
        let schema = tpch::Table::Nation.schema();
        block_on_real(1, async {
            let files = moirai::NewFiles::new();
            let (store, _) = moirai::create_store(&uri, &files, false).await.unwrap();
            let options = LoadOptions::default();
            let load = store.load("mine", &schema, PageLayout::Nsm, options).await.unwrap();
            load.finish().await.unwrap();
        });
        let refused = new_file(&path, ByteCount(0)).unwrap_err().to_string();
        assert!(refused.contains("holds the table mine"), "{refused}");
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
