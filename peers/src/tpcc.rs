//! TPC-C with Moirai, SQLite and RocksDB: the same rows, the same inputs, one driver.

mod ledger;
mod ours;
mod rocks;
mod sqlite;
mod table;

use std::path::{Path, PathBuf};
use std::sync::Arc;

use clap::{Args, ValueEnum};
use moirai::runtime::{Random, block_on_real, blocking};
use moirai::tables::{Layout, Row};
use moirai::units::{ByteCount, Nanos};
use moirai_workloads::driver::{Client, Done, Pace, Running, drive};
use moirai_workloads::tpcc::inputs::{Input, Inputs};
use moirai_workloads::tpcc::{Initial, KINDS, Kind, Scale, TABLES};
use serde::{Deserialize, Serialize};

use crate::process::{self, MemoryLimit};
use crate::{Outcome, run_apart};

/// What is measured.
#[derive(Clone, Debug, Args)]
pub(crate) struct Arguments {
    /// The engines; all when none is named
    #[arg(long, value_delimiter = ',')]
    engines: Vec<Name>,
    /// Warehouses, some 80 MB each
    #[arg(long, default_value_t = 10, value_parser = clap::value_parser!(i64).range(1..=100_000))]
    warehouses: i64,
    /// Memory for what an engine caches and puts off
    #[arg(long, default_value = "128MiB")]
    memory: ByteCount,
    /// What the process may take beside that, with the files cached for it
    #[arg(long, default_value = "192MiB")]
    beside: ByteCount,
    /// Terminals, without think time: each number is measured in turn
    #[arg(long, value_delimiter = ',', default_values_t = [1, 16])]
    terminals: Vec<u64>,
    /// Seconds of transactions before anything counts
    #[arg(long, default_value_t = 20)]
    warm: u64,
    /// Seconds of transactions that count
    #[arg(long, default_value_t = 60)]
    seconds: u64,
    /// Runs of each engine; the median counts
    #[arg(long, default_value_t = 1)]
    runs: usize,
    /// Where the files go, which are removed in the end
    #[arg(long, default_value = "/tmp")]
    folder: PathBuf,
    /// Measure this one engine, in this process
    #[arg(long, hide = true)]
    here: Option<Name>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Name {
    /// Moirai, rows in leaves (layout nsm)
    Moirai,
    /// Moirai, rows in columns (layout csm)
    MoiraiCsm,
    /// SQLite
    Sqlite,
    /// RocksDB's TransactionDB
    Rocksdb,
}

impl Name {
    fn text(self) -> String {
        self.to_possible_value().map_or_else(String::new, |value| value.get_name().to_owned())
    }

    fn is_ours(self) -> bool {
        matches!(self, Name::Moirai | Name::MoiraiCsm)
    }
}

/// What an engine is opened with.
#[derive(Clone, Copy, Debug)]
struct Setup<'a> {
    folder: &'a Path,
    /// For what it caches and puts off, in bytes.
    memory: u64,
    scale: Scale,
}

/// Transactions of an engine whose calls block the thread.
trait Blocking: Send + Sync + 'static {
    /// Puts rows into a table, in the order of their keys.
    fn load(&self, table: &str, rows: &[Row]) -> Outcome<()>;
    /// All rows are there.
    fn finish_load(&self) -> Outcome<()>;
    /// Runs a transaction. `None`: others are in its way, and it is to be run again.
    fn run(&self, input: &Input) -> Outcome<Option<Done>>;
    /// An error where a consistency condition does not hold.
    fn check(&self) -> Outcome<()>;
}

/// A terminal of an engine whose calls block the thread: each transaction has one for itself.
struct Terminal<E> {
    engine: Arc<E>,
    inputs: Inputs,
}

impl<E: Blocking> Client for Terminal<E> {
    type Error = Box<dyn std::error::Error + Send + Sync>;

    const KINDS: &'static [&'static str] = &KINDS;

    fn next_kind(&mut self) -> usize {
        self.inputs.draw_kind() as usize
    }

    async fn run(&mut self, kind: usize, retries: &mut u64) -> Outcome<Done> {
        let input = self.inputs.draw(Kind::of(kind));
        let engine = Arc::clone(&self.engine);
        let again = blocking(move || {
            let mut again = 0;
            loop {
                match engine.run(&input)? {
                    Some(done) => return Outcome::Ok((done, again)),
                    None => again += 1,
                }
            }
        });
        let (done, again) = again.await?;
        *retries += again;
        Ok(done)
    }

    fn random(&mut self) -> &mut Random {
        self.inputs.random()
    }
}

/// What a number of terminals gave.
#[derive(Clone, Debug, Serialize, Deserialize)]
struct Measured {
    terminals: u64,
    per_s: f64,
    /// Bytes that the disk took for each transaction.
    written: f64,
    /// Time of all cores for a transaction.
    cpu_us: f64,
    retries: u64,
    resident_mib: u64,
    disk_mib: u64,
    /// Of each kind the median and the 99.9th percentile of response times.
    responses_ms: Vec<[f64; 2]>,
}

pub(crate) fn run(mut arguments: Arguments) -> Outcome<()> {
    if arguments.engines.is_empty() {
        arguments.engines = Name::value_variants().to_vec();
    }
    if let Some(name) = arguments.here {
        println!("{}", serde_json::to_string(&run_here(name, &arguments)?)?);
        return Ok(());
    }
    let mut table = table::Table::new(&arguments.terminals);
    for run in 0..arguments.runs {
        for &name in &arguments.engines {
            eprintln!("run {} of {}: {}", run + 1, arguments.runs, name.text());
            match run_apart::<Vec<Measured>>(&name.text()) {
                Ok(measured) => table.add(name, measured),
                Err(error) => eprintln!("{}: {error}", name.text()),
            }
        }
    }
    print!("{table}");
    Ok(())
}

fn run_here(name: Name, arguments: &Arguments) -> Outcome<Vec<Measured>> {
    let folder = tempfile::tempdir_in(&arguments.folder)?;
    let _limit = MemoryLimit::enter(arguments.memory.0 + arguments.beside.0).map_err(|error| {
        format!("memory cannot be limited, and files would be cached whole: {error}")
    })?;
    let setup = Setup {
        folder: folder.path(),
        memory: arguments.memory.0,
        scale: Scale::of(arguments.warehouses),
    };
    block_on_real(1, async {
        match name {
            Name::Moirai => ours::measure(setup, Layout::Nsm, arguments).await,
            Name::MoiraiCsm => ours::measure(setup, Layout::Csm, arguments).await,
            Name::Sqlite => measure_blocking(sqlite::Sqlite::open(setup)?, setup, arguments).await,
            Name::Rocksdb => measure_blocking(rocks::Rocks::open(setup)?, setup, arguments).await,
        }
    })
}

async fn measure_blocking<E: Blocking>(
    engine: E,
    setup: Setup<'_>,
    arguments: &Arguments,
) -> Outcome<Vec<Measured>> {
    let engine = Arc::new(engine);
    let (loaded, scale) = (Arc::clone(&engine), setup.scale);
    let load = blocking(move || {
        let mut initial = Initial::new(scale);
        for table in TABLES {
            for part in 0..initial.parts(table) {
                loaded.load(table, &initial.rows(table, part))?;
            }
        }
        loaded.finish_load()
    });
    load.await?;
    let terminal =
        |number| Terminal { engine: Arc::clone(&engine), inputs: Inputs::new(scale, number) };
    let measured = measure(setup, arguments, terminal).await?;
    blocking(move || engine.check()).await?;
    Ok(measured)
}

/// Measures each number of terminals.
async fn measure<C: Client>(
    setup: Setup<'_>,
    arguments: &Arguments,
    terminal: impl Fn(u64) -> C,
) -> Outcome<Vec<Measured>>
where
    Box<dyn std::error::Error + Send + Sync>: From<C::Error>,
{
    // Terminals so far apart have the same home, and other inputs.
    let homes = setup.scale.warehouses as u64 * 10;
    let mut number = 0;
    let mut phase = async |terminals: u64, seconds: u64| {
        let pace = Pace::of(Nanos(seconds * 1_000_000_000));
        let clients = (number..number + terminals).map(&terminal).collect();
        number += terminals.next_multiple_of(homes);
        Outcome::Ok(drive(clients, pace, &Arc::new(Running::default())).await?)
    };
    let mut all = Vec::new();
    for &terminals in &arguments.terminals {
        phase(terminals, arguments.warm).await?;
        let before = process::used(setup.folder)?;
        let figures = phase(terminals, arguments.seconds).await?;
        let used = process::used(setup.folder)? - before;
        let committed: u64 = figures.kinds.iter().map(|kind| kind.committed).sum();
        let each = |total: f64| total / committed.max(1) as f64;
        let ms = |time: Nanos| time.0 as f64 / 1e6;
        all.push(Measured {
            terminals,
            per_s: figures.per_second(),
            written: each(used.written_bytes as f64),
            cpu_us: each(used.cpu_s * 1e6),
            retries: figures.kinds.iter().map(|kind| kind.retries).sum(),
            resident_mib: process::resident_mib(),
            disk_mib: process::folder_mib(setup.folder),
            responses_ms: figures
                .kinds
                .iter()
                .map(|kind| [ms(kind.percentile(0.5)), ms(kind.percentile(0.999))])
                .collect(),
        });
    }
    Ok(all)
}
