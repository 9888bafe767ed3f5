//! A store of up to 1 TiB in 256 MiB of memory: ingest, checkpoint, opening and lookups.
//!
//! The size is 8 GiB in a plain run and 1 TiB with `--include-ignored`. `MOIRAI_SIZE` gives another one, and
//! `MOIRAI_PARTITION_LEAVES` the leaves of a partition: 64 GiB with 4 of them make as many partitions as 1 TiB with 64.
//!
//!     MOIRAI_SIZE=1TiB cargo test --release -p moirai-btree --test size -- --nocapture gibibytes

#![expect(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    reason = "a test stops at what it did not expect"
)]
#![expect(clippy::print_stdout, reason = "what it measures is for who runs it by hand")]

mod device;

use std::fmt::Debug;
use std::process::Command;
use std::str::FromStr;
use std::sync::Arc;

use moirai_btree::{Store, with_leaves};
use moirai_runtime::{Stopwatch, block_on_real, random};
use moirai_storage::Device;
use moirai_units::{BlockCount, ByteCount};
use moirai_update::{Format, Kinds, Options};
use parking_lot::Mutex;
use rand::Rng;

use crate::device::{LEAF_BYTES, RECORDS_OF_LEAF, SizeDevice, VALUE_BYTES, fill_value, key_of};

const MEMORY: ByteCount = ByteCount(256 << 20);
/// What the process has beside: the program, its stacks, the list of runs of the device, and what the allocator keeps.
const BESIDE: ByteCount = ByteCount(64 << 20);
const LOG: ByteCount = ByteCount(256 << 20);
const LOOKUPS: u64 = 1000;
const CHANGES: u64 = 1000;

/// The tests of this file measure the memory of the process, one after the other.
static ALONE: Mutex<()> = Mutex::new(());

/// The most memory that the process had since [`forget_memory`], and has now.
fn memory() -> (ByteCount, ByteCount) {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = |name: &str| {
        let found = status.lines().find_map(|line| line.strip_prefix(name)).unwrap();
        ByteCount(found.trim().trim_end_matches(" kB").parse::<u64>().unwrap() << 10)
    };
    (line("VmHWM:"), line("VmRSS:"))
}

fn forget_memory() {
    // Where the system refuses it, the peak is that of all tests so far.
    let _ = std::fs::write("/proc/self/clear_refs", "5");
}

/// Prints how long a step took, and the memory of the process; checks that.
fn report(step: &str, watch: &Stopwatch) {
    let (peak, now) = memory();
    println!("{step}: {:.3} s; memory {peak} at most, {now} now", watch.elapsed().as_s());
    assert!(peak.0 <= MEMORY.0 + BESIDE.0, "{step}: {peak} of memory");
    forget_memory();
}

async fn check_lookup(store: &Store, tree: &moirai_btree::Tree, number: u64, value: &mut [u8]) {
    fill_value(number, value);
    let found = store.get(tree, &key_of(number)).await.unwrap();
    assert!(found.as_deref() == Some(value), "record {number}");
}

async fn run(size: ByteCount) {
    forget_memory();
    let leaves = size.0 / LEAF_BYTES as u64;
    let records = leaves * RECORDS_OF_LEAF;
    // A fifth more than the leaves take.
    let capacity = BlockCount::holding(ByteCount(size.0 + size.0 / 5 + (1 << 30)));
    let checked = if size.0 > 64 << 30 { 16 } else { 1 };
    let data = SizeDevice::new("data", capacity, checked);
    let log = SizeDevice::new("log", BlockCount::holding(LOG), 1);
    let logs = [Arc::clone(&log) as Arc<dyn Device>];
    let partition_blocks = variable("MOIRAI_PARTITION_LEAVES").unwrap_or(64);
    let format = Format { partition_blocks, ..with_leaves(ByteCount(LEAF_BYTES as u64)) };
    Store::format(&*data, &logs, format).await.unwrap();
    let options = Options { memory: MEMORY, idle: None, ..Options::default() };
    let open =
        async || Store::open(Arc::clone(&data) as _, &logs, Kinds::new(), options).await.unwrap();
    let store = open().await;
    let tree = store.tree("records").await.unwrap();

    let watch = Stopwatch::start();
    let mut ingest = store.ingest_into(&tree).unwrap();
    let mut value = vec![0; VALUE_BYTES];
    for number in 0..records {
        fill_value(number, &mut value);
        ingest.push(&key_of(number), &value).await.unwrap();
        if number > 0 && number % (records / 16) == 0 {
            println!("{} of {} in {:.0} s", number, records, watch.elapsed().as_s());
        }
    }
    assert_eq!(ingest.finish().await.unwrap(), records);
    let rate = size.0 as f64 / watch.elapsed().as_s() / 1e6;
    report(&format!("ingest of {size}, {rate:.0} MB/s"), &watch);
    let figures = store.figures();
    println!(
        "{} partitions, {} leaves; directory {}; written to blocks {:.4}, read by sweeps {:.4}, log {:.4}, checkpoints {:.4} of \
         the size; in the file {}",
        figures.partitions,
        figures.blocks,
        ByteCount(figures.directory_bytes),
        figures.placed_bytes as f64 / size.0 as f64,
        figures.swept_bytes as f64 / size.0 as f64,
        figures.log_bytes as f64 / size.0 as f64,
        figures.checkpoint_bytes as f64 / size.0 as f64,
        ByteCount(data.counts().1),
    );
    // Nothing is written twice, and leaves are full.
    assert!(figures.placed_bytes < size.0 + size.0 / 100 + (64 << 20), "{figures:?}");
    assert!(figures.blocks <= leaves + leaves / 100 + 2, "{figures:?}");

    let watch = Stopwatch::start();
    store.checkpoint().await.unwrap();
    report("checkpoint", &watch);
    let mut random = random("lookups");
    let watch = Stopwatch::start();
    for _ in 0..CHANGES {
        let number = random.random_range(0..records);
        fill_value(number, &mut value);
        store.put(&tree, &key_of(number), &value).await.unwrap();
    }
    report(&format!("{CHANGES} random puts"), &watch);
    let (watch, written) = (Stopwatch::start(), store.figures().checkpoint_bytes);
    store.checkpoint().await.unwrap();
    let written = ByteCount(store.figures().checkpoint_bytes - written);
    report(&format!("checkpoint of these, {written}"), &watch);
    store.close().await.unwrap();

    let watch = Stopwatch::start();
    let store = open().await;
    report("opening", &watch);
    let tree = store.tree("records").await.unwrap();
    let (reads, opened) = (data.counts().0, store.figures());
    let watch = Stopwatch::start();
    for _ in 0..LOOKUPS {
        check_lookup(&store, &tree, random.random_range(0..records), &mut value).await;
    }
    report(&format!("{LOOKUPS} random lookups"), &watch);
    let (reads, looked) = (data.counts().0 - reads, store.figures());
    let staged = looked.staged_reads - opened.staged_reads;
    println!(
        "{:.3} reads of the device for each, of these {:.3} of tables and {:.3} of staged changes",
        reads as f64 / LOOKUPS as f64,
        (looked.table_reads - opened.table_reads) as f64 / LOOKUPS as f64,
        staged as f64 / LOOKUPS as f64,
    );
    assert!(reads <= 2 * LOOKUPS + staged, "{reads} reads");
    for number in [0, records / 2, records - 1] {
        check_lookup(&store, &tree, number, &mut value).await;
    }
    assert!(store.get(&tree, &key_of(records)).await.unwrap().is_none());
    let watch = Stopwatch::start();
    store.close().await.unwrap();
    report("closing", &watch);
}

fn variable<T: FromStr<Err: Debug>>(name: &str) -> Option<T> {
    std::env::var(name).ok().map(|value| value.parse().unwrap())
}

fn size_or(default: ByteCount) -> ByteCount {
    variable("MOIRAI_SIZE").unwrap_or(default)
}

/// Runs a test of this file in a process of its own, which allocates from one heap as `Options::memory` asks of programs: the
/// threads of this process have begun heaps already.
fn run_alone(test: &str, default: ByteCount) {
    if std::env::var_os("MALLOC_ARENA_MAX").is_some() {
        return block_on_real(1, run(size_or(default)));
    }
    let _alone = ALONE.lock();
    let status = Command::new(std::env::current_exe().unwrap())
        .args([test, "--exact", "--include-ignored", "--nocapture"])
        .env("MALLOC_ARENA_MAX", "1")
        .status();
    assert!(status.unwrap().success(), "{test} failed in a process of its own");
}

#[test]
fn gibibytes_are_ingested_and_looked_up_in_256_mib() {
    run_alone("gibibytes_are_ingested_and_looked_up_in_256_mib", ByteCount(8 << 30));
}

#[test]
#[ignore = "takes ten minutes of an optimised build"]
fn a_tebibyte_is_ingested_and_looked_up_in_256_mib() {
    run_alone("a_tebibyte_is_ingested_and_looked_up_in_256_mib", ByteCount(1 << 40));
}
