//! Random updates of records in a B+-tree that is larger than the memory given to it.
//!
//! Records of 16 + 48 bytes under random keys are loaded in the order of their keys, and then uniformly random
//! ones are changed in groups. The floor: each change is in the log once, some 30 bytes with a merge of 8, and
//! memory is gone through a few times; reads are one access to the device each.

use std::error::Error;
use std::path::Path;
use std::sync::Arc;

use moirai::btree::{AddU64, Batch, Store, with_leaves};
use moirai::runtime::{Random, Stopwatch, block_on_real, random, spawn};
use moirai::units::ByteCount;
use moirai::update::{Durability, Figures, Format, KindNumber, Kinds, Options};
use rand::{Rng, SeedableRng};

const ADD: KindNumber = KindNumber(16);

type Outcome<T> = Result<T, Box<dyn Error>>;

/// What is measured.
#[derive(Clone, Debug, clap::Args)]
pub(crate) struct Arguments {
    /// Records, 64 bytes each
    #[arg(long, default_value_t = 20_000_000)]
    records: u64,
    /// Memory for pending modifications
    #[arg(long, default_value = "160MiB")]
    memory: ByteCount,
    /// Changes of a group, which is one commit
    #[arg(long, default_value_t = 1000)]
    group: u64,
    /// Clients that commit at the same time
    #[arg(long, default_value_t = 1)]
    clients: u64,
    /// Changes in all
    #[arg(long, default_value_t = 30_000_000)]
    updates: u64,
    /// Reads of random records in the end
    #[arg(long, default_value_t = 100_000)]
    reads: u64,
    /// Bytes of a leaf
    #[arg(long, default_value = "8KiB")]
    leaf: ByteCount,
    /// Room for staging, in percent of the leaves
    #[arg(long, default_value_t = 100)]
    staging: u32,
    /// Acknowledge what is written, and not flushed
    #[arg(long)]
    no_sync: bool,
    /// Where the files go, which are removed in the end
    #[arg(long)]
    folder: Option<std::path::PathBuf>,
}

/// Keys in no order of their numbers, none twice.
fn key(number: u64) -> [u8; 16] {
    let mixed = number.wrapping_mul(0x9e37_79b9_7f4a_7c15);
    let mut key = [0; 16];
    key[..8].copy_from_slice(&mixed.to_be_bytes());
    key[8..].copy_from_slice(&number.to_be_bytes());
    key
}

pub(crate) fn run(arguments: &Arguments) -> Outcome<()> {
    let folder = match &arguments.folder {
        Some(folder) => tempfile::tempdir_in(folder)?,
        None => tempfile::tempdir()?,
    };
    block_on_real(1, measure(arguments, folder.path()))
}

async fn measure(arguments: &Arguments, folder: &Path) -> Outcome<()> {
    let data_mib = arguments.records * 64 * 4 / (1 << 20) + 512;
    let log_mib = 4 * arguments.memory.0 / (1 << 20) + 64;
    let open = |name: &str, mib: u64| {
        let uri = format!("file:{}?size={mib}MiB", folder.join(name).display());
        async move { moirai::open_device(&uri).await }
    };
    let (data, log) = (open("data", data_mib).await?, open("log", log_mib).await?);
    let format = Format { staging_percent: arguments.staging, ..with_leaves(arguments.leaf) };
    Store::format(&*data, &*log, format).await?;
    let mut kinds = Kinds::new();
    kinds.register(ADD, Arc::new(AddU64))?;
    let durability = if arguments.no_sync { Durability::Written } else { Durability::Flushed };
    let options = Options { memory: arguments.memory, durability };
    let store = Arc::new(Store::open(data, log, kinds, options).await?);
    let tree = store.tree("records").await?;

    let watch = Stopwatch::start();
    let mut order: Vec<[u8; 16]> = (0..arguments.records).map(key).collect();
    order.sort_unstable();
    let sorted_s = watch.elapsed().as_s();
    let watch = Stopwatch::start();
    let mut batch = Batch::new();
    for key in &order {
        batch.put(&tree, key, &[1; 48]);
        if batch.len() == 1000 {
            store.commit(&batch).await?;
            batch.clear();
        }
    }
    store.commit(&batch).await?;
    store.checkpoint().await?;
    let loaded_s = watch.elapsed().as_s();
    drop(order);
    println!(
        "load: {:.0} records/s ({sorted_s:.1} s to sort the keys apart); {}",
        arguments.records as f64 / loaded_s,
        memory()
    );

    let before = store.figures();
    let watch = Stopwatch::start();
    let each = arguments.updates / arguments.clients.max(1);
    let mut clients = Vec::new();
    for client in 0..arguments.clients {
        let (store, tree, arguments) = (Arc::clone(&store), tree.clone(), arguments.clone());
        clients.push(spawn(async move {
            let mut random = Random::seed_from_u64(client);
            let mut waits_ns = Vec::new();
            let mut batch = Batch::new();
            let mut done = 0;
            while done < each {
                batch.clear();
                for _ in 0..arguments.group {
                    let key = key(random.random_range(0..arguments.records));
                    batch.merge(&tree, ADD, &key, &1_u64.to_le_bytes());
                }
                let watch = Stopwatch::start();
                store.commit(&batch).await?;
                waits_ns.push(watch.elapsed().0);
                done += arguments.group;
            }
            Ok::<_, moirai::btree::Error>(waits_ns)
        }));
    }
    let mut waits_ns = Vec::new();
    for client in clients {
        waits_ns.extend(client.await?);
    }
    let updated_s = watch.elapsed().as_s();
    waits_ns.sort_unstable();
    let figures = store.figures();
    print_updates(arguments, updated_s, &waits_ns, &before, &figures);

    let mut random = random("reads");
    let watch = Stopwatch::start();
    for _ in 0..arguments.reads {
        let key = key(random.random_range(0..arguments.records));
        let found = store.get(&tree, &key).await?;
        assert_eq!(found.map(|value| value.len() <= 48), Some(true));
    }
    let read_s = watch.elapsed().as_s();
    let after = store.figures();
    println!(
        "reads: {:.0}/s, {:.2} requests each, {:.2} of them to staging; {}",
        arguments.reads as f64 / read_s,
        (after.reads - figures.reads) as f64 / arguments.reads as f64,
        (after.staged_reads - figures.staged_reads) as f64 / arguments.reads as f64,
        memory()
    );
    Ok(())
}

fn print_updates(
    arguments: &Arguments,
    seconds: f64,
    waits_ns: &[u64],
    before: &Figures,
    after: &Figures,
) {
    let done = (after.modifications - before.modifications).max(1) as f64;
    let at = |share: f64| {
        let index = (waits_ns.len() as f64 * share) as usize;
        waits_ns.get(index.min(waits_ns.len().saturating_sub(1))).copied().unwrap_or(0) as f64 / 1e6
    };
    println!(
        "updates: {:.0}/s in groups of {}; a group takes {:.2} ms (median), {:.2} (99 %), {:.2} (99.9 %)",
        done / seconds,
        arguments.group,
        at(0.5),
        at(0.99),
        at(0.999)
    );
    let log = (after.log_bytes - before.log_bytes) as f64 / done;
    let staged = (after.staged_bytes - before.staged_bytes) as f64 / done;
    let placed = (after.placed_bytes - before.placed_bytes) as f64 / done;
    let snapshots = (after.snapshot_bytes - before.snapshot_bytes) as f64 / done;
    println!(
        "written for each: {:.0} bytes: log {log:.0}, staging {staged:.0}, leaves {placed:.0}, snapshots \
         {snapshots:.1}; read by sweeps {:.0}; {} groups waited; {}",
        log + staged + placed + snapshots,
        (after.swept_bytes - before.swept_bytes) as f64 / done,
        after.waits - before.waits,
        memory()
    );
    println!("{after:?}");
}

/// What the process takes of memory now, and took at most.
fn memory() -> String {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let field = |name: &str| {
        let line = status.lines().find(|line| line.starts_with(name))?;
        line.split_whitespace().nth(1)?.parse::<u64>().ok()
    };
    let mib = |name| field(name).unwrap_or(0) / 1024;
    format!("memory {} MiB, at most {}", mib("VmRSS:"), mib("VmHWM:"))
}
