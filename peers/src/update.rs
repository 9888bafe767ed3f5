//! Random updates of records in an index larger than memory.

mod engines;
mod table;
mod workload;

use std::path::{Path, PathBuf};
use std::sync::Arc;

use clap::{Args, ValueEnum};
use moirai::runtime::block_on_real;
use moirai::units::{ByteCount, Nanos};
use moirai::update::Format;

use crate::process::MemoryLimit;
use crate::update::engines::Setup;
use crate::update::workload::{BlockingEngine, Measured, Threads, Workload, measure};
use crate::{Outcome, bandwidth, run_apart};

/// What is measured.
#[derive(Clone, Debug, Args)]
pub(crate) struct Arguments {
    /// The engines; all when none is named
    #[arg(long, value_delimiter = ',')]
    engines: Vec<Name>,
    /// Records of 16 + 48 bytes
    #[arg(long, default_value_t = 20_000_000)]
    records: u64,
    /// Memory for what an engine caches and puts off
    #[arg(long, default_value = "160MiB")]
    memory: ByteCount,
    /// What the process may take beside that, with the files cached for it
    #[arg(long, default_value = "192MiB")]
    beside: ByteCount,
    /// Updates of a group, which is one commit
    #[arg(long, default_value_t = 1000)]
    group: usize,
    /// Clients that commit at the same time
    #[arg(long, default_value_t = 1)]
    clients: u64,
    /// Seconds of updates before anything counts
    #[arg(long, default_value_t = 60)]
    warm: u64,
    /// Seconds of updates that count
    #[arg(long, default_value_t = 60)]
    seconds: u64,
    /// Moirai: how often all leaves are swept meanwhile, at least; once before anything counts
    #[arg(long, default_value_t = 3.0)]
    cycles: f64,
    /// Seconds of reads of random records in the end: right after the updates, and after the rest
    #[arg(long, default_value_t = 10)]
    read_seconds: u64,
    /// Seconds in which nothing is asked of an engine, between these reads
    #[arg(long, default_value_t = 60)]
    rest: u64,
    /// Acknowledge what is written, and not flushed
    #[arg(long)]
    no_sync: bool,
    /// Runs of each engine; the median counts
    #[arg(long, default_value_t = 1)]
    runs: usize,
    /// Moirai: bytes of a leaf
    #[arg(long, default_value = "4KiB")]
    leaf: ByteCount,
    /// Moirai: leaves that are swept together
    #[arg(long, default_value_t = 64)]
    partition: u32,
    /// Moirai: room for staging, in percent of the leaves
    #[arg(long, default_value_t = 40)]
    staging: u32,
    /// Where the files go, which are removed in the end
    #[arg(long, default_value = "/tmp")]
    folder: PathBuf,
    /// Measure this one engine, in this process
    #[arg(long, hide = true)]
    here: Option<Name>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Name {
    /// Moirai
    Moirai,
    /// RocksDB with its merge operator
    RocksdbMerge,
    /// RocksDB, reading what it changes
    Rocksdb,
    /// fjall
    Fjall,
    /// redb
    Redb,
    /// LMDB
    Lmdb,
    /// SQLite
    Sqlite,
}

impl Name {
    fn text(self) -> String {
        self.to_possible_value().map_or_else(String::new, |value| value.get_name().to_owned())
    }
}

pub(crate) fn run(mut arguments: Arguments) -> Outcome<()> {
    if arguments.engines.is_empty() {
        arguments.engines = Name::value_variants().to_vec();
    }
    if let Some(name) = arguments.here {
        println!("{}", serde_json::to_string(&run_here(name, &arguments)?)?);
        return Ok(());
    }
    if arguments.no_sync {
        // What it has not synced does not survive the process.
        arguments.engines.retain(|name| *name != Name::Redb);
    }
    let disk = block_on_real(1, bandwidth::measure(&arguments.folder))?;
    let mut table = table::Table::new(&arguments.engines, disk);
    for run in 0..arguments.runs {
        for &name in &arguments.engines {
            eprintln!("run {} of {}: {}", run + 1, arguments.runs, name.text());
            match run_apart(&name.text()) {
                Ok(measured) => table.add(name, measured),
                Err(error) => eprintln!("{}: {error}", name.text()),
            }
        }
    }
    print!("{table}");
    Ok(())
}

fn run_here(name: Name, arguments: &Arguments) -> Outcome<Measured> {
    let folder = tempfile::tempdir_in(&arguments.folder)?;
    let limit = MemoryLimit::enter(arguments.memory.0 + arguments.beside.0);
    if let Err(error) = &limit {
        return Err(
            format!("memory cannot be limited, and files would be cached whole: {error}").into()
        );
    }
    let setup = Setup {
        folder: folder.path(),
        memory: arguments.memory.0,
        sync: !arguments.no_sync,
        records: arguments.records,
    };
    let seconds = |seconds: u64| Nanos(seconds * 1_000_000_000);
    let workload = Workload {
        records: arguments.records,
        group: arguments.group,
        clients: arguments.clients,
        warm: seconds(arguments.warm),
        span: seconds(arguments.seconds),
        read_span: seconds(arguments.read_seconds),
        rest: seconds(arguments.rest),
        cycles: arguments.cycles,
    };
    block_on_real(1, async {
        match name {
            Name::Moirai => {
                let format = Format {
                    block_bytes: arguments.leaf,
                    partition_blocks: arguments.partition,
                    staging_percent: arguments.staging,
                    ..Format::default()
                };
                let engine = engines::ours::Ours::open(setup, format).await?;
                measure(engine, workload, folder.path()).await
            }
            Name::RocksdbMerge => {
                threads(engines::rocksdb::Rocks::open(setup, true)?, workload, folder.path()).await
            }
            Name::Rocksdb => {
                threads(engines::rocksdb::Rocks::open(setup, false)?, workload, folder.path()).await
            }
            Name::Fjall => {
                threads(engines::fjall::Fjall::open(setup)?, workload, folder.path()).await
            }
            Name::Redb => threads(engines::redb::Redb::open(setup)?, workload, folder.path()).await,
            Name::Lmdb => threads(engines::lmdb::Lmdb::open(setup)?, workload, folder.path()).await,
            Name::Sqlite => {
                threads(engines::sqlite::Sqlite::open(setup)?, workload, folder.path()).await
            }
        }
    })
}

async fn threads(
    engine: impl BlockingEngine,
    workload: Workload,
    folder: &Path,
) -> Outcome<Measured> {
    measure(Threads(Arc::new(engine)), workload, folder).await
}
