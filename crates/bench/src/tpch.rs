//! The 22 queries of TPC-H, beside DataFusion over Parquet and over memory, and DuckDB where its Python package is installed.
//!
//! Cold: the caches of the system are dropped before each query, and the store is opened with it. That needs the rights of root.
//! Each cold figure is that of a single run. Warm: the query is run again in the same process, and the median counts.
//!
//! DataFusion over Parquet has its own settings; over memory it has those of Moirai, which compute with decimals and refuse overflows.

use std::error::Error;
use std::fs::File;
use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

use arrow_array::RecordBatch;
use datafusion::prelude::{ParquetReadOptions, SessionConfig, SessionContext};
use moirai::runtime::{Stopwatch, block_on_real};
use moirai::tables::{KeyBounds, Layout, LoadOptions, TableDefinition, Tables};
use moirai::units::ByteCount;
use moirai::update::{Kinds, Options};
use moirai::{NewFiles, NewTrees, TreesPlace};
use moirai_sql::{Database, memory_database};
use moirai_workloads::tpch::{Table, query};
use parquet::arrow::ArrowWriter;
use parquet::basic::Compression;
use parquet::file::properties::WriterProperties;

use crate::median;

const BATCH_ROWS: usize = 8192;
const QUERIES: std::ops::RangeInclusive<u8> = 1..=22;
const LEAF: ByteCount = ByteCount(8 << 10);
/// Memory of a store: enough to keep nothing back.
const MEMORY: ByteCount = ByteCount(2 << 30);

type Outcome<T> = Result<T, Box<dyn Error>>;

/// Milliseconds of each query.
struct Peer<'a> {
    name: &'static str,
    engine: Engine<'a>,
    /// `None` where caches cannot be dropped, and of what is in memory.
    cold_ms: Vec<Option<f64>>,
    warm_ms: Vec<f64>,
}

/// What answers the queries.
enum Engine<'a> {
    /// The URI of a store, and what is open of it.
    Store(String, Option<Database>),
    /// A folder of Parquet files, and the context in which they are known.
    Parquet(&'a Path, Option<SessionContext>),
    Memory(Database),
    DuckDb(&'a Path, DuckDb),
}

pub(crate) fn run(scale_factor: f64, runs: usize) -> Outcome<()> {
    let folder = tempfile::tempdir()?;
    let folder = folder.path();
    let mut peers = Vec::new();
    for (name, layout) in [("moirai, csm", Layout::Csm), ("moirai, nsm", Layout::Nsm)] {
        let path = folder.join(format!("{}.moirai", layout.name()));
        block_on_real(1, load(&path, layout, scale_factor))?;
        let uri = format!("file:{}", path.display());
        peers.push(Peer::new(name, Engine::Store(uri, None)));
    }
    for table in Table::ALL {
        write_parquet(&parquet_of(folder, table), table, scale_factor)?;
    }
    let bytes = Table::ALL.iter().map(|table| parquet_of(folder, *table).metadata());
    let bytes: u64 = bytes.map(|file| file.map(|file| file.len())).sum::<Result<_, _>>()?;
    println!("Parquet: {:.1} MB", bytes as f64 / 1e6);
    peers.push(Peer::new("DataFusion, Parquet", Engine::Parquet(folder, None)));
    peers.push(Peer::new("DataFusion, memory", Engine::Memory(in_memory(scale_factor)?)));
    match DuckDb::start(folder) {
        Ok(process) => peers.push(Peer::new("DuckDB", Engine::DuckDb(folder, process))),
        Err(error) => println!("DuckDB is left out: {error}"),
    }
    // Query by query: the speed of the machine drifts.
    for number in QUERIES {
        let statement = query(number, scale_factor).ok_or("no such query")?;
        for peer in &mut peers {
            block_on_real(1, peer.time(&statement, runs))?;
        }
    }
    report(&peers);
    Ok(())
}

/// Drops the caches of the system; tells whether it may.
fn drop_caches() -> bool {
    rustix::fs::sync();
    std::fs::write("/proc/sys/vm/drop_caches", "3").is_ok()
}

impl<'a> Peer<'a> {
    fn new(name: &'static str, engine: Engine<'a>) -> Peer<'a> {
        Peer { name, engine, cold_ms: Vec::new(), warm_ms: Vec::new() }
    }

    /// Times a query cold, if caches can be dropped, and then warm.
    async fn time(&mut self, statement: &str, runs: usize) -> Outcome<()> {
        let has_cold = !matches!(self.engine, Engine::Memory(_));
        let is_cold = has_cold && drop_caches();
        self.cold_ms.push(if is_cold {
            Some(self.engine.time(statement, true).await?)
        } else {
            None
        });
        let mut times = Vec::new();
        for _ in 0..=runs {
            times.push(self.engine.time(statement, false).await?);
        }
        // The first run fills caches.
        times.remove(0);
        self.warm_ms.push(median(&mut times));
        self.engine.close();
        Ok(())
    }
}

impl Engine<'_> {
    /// Milliseconds of a query, and of opening what it reads where that `is_anew`, or was not open.
    async fn time(&mut self, statement: &str, is_anew: bool) -> Outcome<f64> {
        if is_anew {
            self.close();
        }
        let watch = Stopwatch::start();
        match self {
            Engine::Store(uri, opened) => {
                let database = match opened {
                    Some(database) => database,
                    None => opened.insert(open_store(uri).await?),
                };
                database.query(statement).await?;
            }
            Engine::Parquet(folder, opened) => {
                let context = match opened {
                    Some(context) => context,
                    None => opened.insert(open_parquet(folder).await?),
                };
                context.sql(statement).await?.collect().await?;
            }
            Engine::Memory(database) => drop(database.query(statement).await?),
            Engine::DuckDb(folder, process) => {
                let file = folder.join("query.sql");
                std::fs::write(&file, statement)?;
                return process.time(&file, is_anew);
            }
        }
        Ok(watch.elapsed().as_ms())
    }

    /// Leaves memory and processors to the others; the tables in memory stay.
    fn close(&mut self) {
        match self {
            Engine::Store(_, opened) => *opened = None,
            Engine::Parquet(_, opened) => *opened = None,
            Engine::Memory(_) => {}
            // A process that ended says so when it is asked the next time.
            Engine::DuckDb(_, process) => drop(process.close()),
        }
    }
}

async fn open_store(uri: &str) -> Outcome<Database> {
    let place = TreesPlace { data: uri, logs: &[] };
    let options = Options { memory: MEMORY, read_only: true, ..Options::default() };
    let tables = moirai::open_tables(place, Kinds::new(), options).await?;
    Ok(Database::over(&tables))
}

async fn open_parquet(folder: &Path) -> Outcome<SessionContext> {
    let context = SessionContext::new_with_config(SessionConfig::new());
    for table in Table::ALL {
        let path = parquet_of(folder, table);
        let path = path.to_string_lossy();
        context.register_parquet(table.name(), &*path, ParquetReadOptions::default()).await?;
    }
    Ok(context)
}

fn in_memory(scale_factor: f64) -> Outcome<Database> {
    let mut tables = Vec::new();
    for table in Table::ALL {
        let batches: Result<Vec<RecordBatch>, _> =
            table.batches(scale_factor, BATCH_ROWS).collect();
        tables.push((table.name().to_owned(), table.schema(), batches?));
    }
    Ok(memory_database(tables)?)
}

async fn load(path: &Path, layout: Layout, scale_factor: f64) -> Outcome<()> {
    let files = NewFiles::new();
    let new = NewTrees::new(LEAF, &files);
    let bytes = (scale_factor * 4e9) as u64 + (256 << 20);
    let uri = format!("file:{}?size={bytes}", path.display());
    let place = TreesPlace { data: &uri, logs: &[] };
    let options = Options { memory: ByteCount(64 << 20), ..Options::default() };
    let made = moirai::create_trees(place, new, Kinds::new(), options).await?;
    let tables = Tables::over(made.store);
    let watch = Stopwatch::start();
    let (mut of_queue, mut rows) = (0.0, 0);
    for table in Table::ALL {
        let mut definition = TableDefinition::new(table.schema(), table.primary_key(scale_factor))?;
        definition.pages = tables.page_options(layout);
        let mut load = tables.load(table.name(), definition, LoadOptions::default()).await?;
        for batch in table.batches(scale_factor, BATCH_ROWS) {
            let batch = batch?;
            let watch = Stopwatch::start();
            load.push(&batch).await?;
            of_queue += watch.elapsed().as_s();
        }
        rows += load.finish().await?.1;
    }
    let seconds = watch.elapsed().as_s();
    let snapshot = tables.snapshot().await;
    let mut stored = 0;
    for name in tables.names().await? {
        let table = tables.table(&name).await?;
        snapshot.estimate_rows(&table, KeyBounds::default()).await?;
        stored += snapshot.size(&table).await?.stored.0;
    }
    drop(snapshot);
    tables.close().await?;
    println!(
        "moirai, {}: {rows} rows, {:.1} MB, loaded in {seconds:.2} s with the making of the data, {of_queue:.2} s without",
        layout.name(),
        stored as f64 / 1e6
    );
    Ok(())
}

fn parquet_of(folder: &Path, table: Table) -> PathBuf {
    folder.join(format!("{}.parquet", table.name()))
}

pub(crate) fn write_parquet(path: &Path, table: Table, scale_factor: f64) -> Outcome<()> {
    let properties = WriterProperties::builder().set_compression(Compression::SNAPPY).build();
    let mut writer = ArrowWriter::try_new(File::create(path)?, table.schema(), Some(properties))?;
    for batch in table.batches(scale_factor, BATCH_ROWS) {
        writer.write(&batch?)?;
    }
    writer.close()?;
    Ok(())
}

/// A process of DuckDB's, which answers queries by their times.
struct DuckDb {
    child: Child,
    input: ChildStdin,
    output: BufReader<ChildStdout>,
}

impl DuckDb {
    /// Its process, with a database of the Parquet files in `folder`.
    fn start(folder: &Path) -> Outcome<DuckDb> {
        let mut child = Command::new("python3")
            .args(["-c", include_str!("tpch.py")])
            .arg(folder)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()?;
        let (Some(input), Some(output)) = (child.stdin.take(), child.stdout.take()) else {
            return Err("its process has no pipes".into());
        };
        let mut process = DuckDb { child, input, output: BufReader::new(output) };
        println!("DuckDB: {:.1} MB", process.line()? / 1e6);
        Ok(process)
    }

    /// Milliseconds of the query in a file.
    fn time(&mut self, query: &Path, is_anew: bool) -> Outcome<f64> {
        let word = if is_anew { "anew" } else { "again" };
        writeln!(self.input, "{word} {}", query.display())?;
        self.line()
    }

    fn close(&mut self) -> Outcome<()> {
        writeln!(self.input, "close -")?;
        self.line().map(drop)
    }

    fn line(&mut self) -> Outcome<f64> {
        let mut line = String::new();
        self.output.read_line(&mut line)?;
        line.trim().parse().map_err(|_| "its process ended".into())
    }
}

impl Drop for DuckDb {
    fn drop(&mut self) {
        // It ends with its input; where it does not, there is nobody to tell.
        drop(self.child.kill());
        drop(self.child.wait());
    }
}

fn report(peers: &[Peer<'_>]) {
    let heads = peers.iter().map(|peer| format!("{:>20}", peer.name)).collect::<String>();
    println!("\nms, cold / warm\n{:6}{heads}", "");
    let cell = |cold: Option<f64>, warm: f64| match cold {
        Some(cold) => format!("{cold:>10.1} /{warm:>8.1}"),
        None => format!("{:>10} /{warm:>8.1}", "-"),
    };
    for (index, number) in QUERIES.enumerate() {
        let of = |peer: &Peer<'_>| {
            let cold = peer.cold_ms.get(index).copied().flatten();
            cell(cold, peer.warm_ms.get(index).copied().unwrap_or(f64::NAN))
        };
        println!("Q{number:<5}{}", peers.iter().map(of).collect::<String>());
    }
    let sums = |peer: &Peer<'_>| {
        let cold: Option<f64> = peer.cold_ms.iter().copied().sum();
        (cold, peer.warm_ms.iter().sum::<f64>())
    };
    let of = |peer: &Peer<'_>| {
        let (cold, warm) = sums(peer);
        cell(cold, warm)
    };
    println!("{:6}{}", "sum", peers.iter().map(of).collect::<String>());
    let Some((cold, warm)) = peers.first().map(sums) else { return };
    for peer in peers {
        let (of_cold, of_warm) = sums(peer);
        let cold = cold.zip(of_cold).map(|(ours, theirs)| format!("{:.2}", ours / theirs));
        let cold = cold.unwrap_or_else(|| "-".to_owned());
        println!("moirai, csm over {}: cold {cold}, warm {:.2}", peer.name, warm / of_warm);
    }
}
