//! The memory of a process with a store: what [`Options::memory`] says, and a fixed part.
//!
//! Each measurement is a process of its own: this program, told by `MOIRAI_RESIDENT` what to do. `MOIRAI_UPDATES` says how
//! many updates there are, and the processes say how fast they were.

#![cfg(target_os = "linux")]
#![expect(clippy::unwrap_used, reason = "a test stops at what it did not expect")]

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;

use moirai_btree::{Batch, Store, with_leaves};
use moirai_devices::{Access, NewFiles};
use moirai_runtime::{Random, Stopwatch};
use moirai_storage::Device;
use moirai_units::ByteCount;
use moirai_update::{Durability, Kinds, Options};
use rand::{Rng, SeedableRng};

const LITTLE: ByteCount = ByteCount(16 << 20);
const MUCH: ByteCount = ByteCount(96 << 20);
/// What a process takes beside its budget: code, stacks, a few requests in flight, segments of the log, and what the
/// allocator cannot use.
const OVERHEAD: ByteCount = ByteCount(20 << 20);
const KEYS: u64 = 1_000_000;
const GROUP: u64 = 500;

fn updates() -> u64 {
    let plain = if cfg!(debug_assertions) { 400_000 } else { 4_000_000 };
    std::env::var("MOIRAI_UPDATES").map_or(plain, |updates| updates.parse().unwrap())
}

/// A line of what the system says of this process, in bytes.
fn status(name: &str) -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix(name)).unwrap();
    let kib: u64 = line.trim_matches([':', '\t', ' ', 'k', 'B']).parse().unwrap();
    kib << 10
}

async fn open(folder: &Path, memory: ByteCount) -> Store {
    let files = NewFiles::new();
    let device = |name: &str, size: &str| -> Arc<dyn Device> {
        let path = folder.join(name);
        let size = if path.exists() { String::new() } else { format!("?size={size}") };
        let uri = format!("file:{}{size}", path.display());
        moirai_devices::open(uri.parse().unwrap(), Access::Create(&files)).unwrap()
    };
    let is_new = !folder.join("data").exists();
    let (data, logs) = (device("data", "512MiB"), [device("log", "128MiB")]);
    if is_new {
        Store::format(&*data, &logs, with_leaves(ByteCount(8 << 10))).await.unwrap();
    }
    // Flushes would take most of the time.
    let durability = Durability::Written;
    let options = Options { memory, durability, ..Options::default() };
    Store::open(data, &logs, Kinds::new(), options).await.unwrap()
}

async fn update(store: &Store, count: u64) {
    let tree = store.tree("records").await.unwrap();
    let mut random = Random::seed_from_u64(3);
    let mut batch = Batch::new();
    for number in 1..=count {
        let key = random.random_range(0..KEYS).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        batch.put(&tree, &key.to_be_bytes(), &number.to_le_bytes());
        if number % GROUP == 0 {
            store.commit(&batch).await.unwrap();
            batch.clear();
        }
    }
}

/// What a process does, which then ends as in a crash.
fn measured(task: &str, folder: &Path) {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        let before = status("VmRSS");
        let watch = Stopwatch::start();
        let memory = if task == "much" { MUCH } else { LITTLE };
        let store = open(folder, memory).await;
        let count = match task {
            "little" => updates(),
            // So many that most of the memory is full.
            "much" => updates().min(1_500_000),
            _ => GROUP,
        };
        update(&store, count).await;
        let seconds = watch.elapsed().0 as f64 / 1e9;
        let grown = status("VmHWM") - before;
        let (figures, kib) = (store.figures(), |bytes: u64| bytes >> 10);
        eprintln!(
            "{task}: {count} updates in {seconds:.2} s, {:.0} a second; {} KiB more; pending {} KiB, directory {} KiB, cache {} KiB",
            count as f64 / seconds,
            kib(grown),
            kib(figures.queued_bytes),
            kib(figures.directory_bytes),
            kib(figures.cached_bytes)
        );
        let most = memory.0 + OVERHEAD.0;
        assert!(task == "much" || grown <= most, "{} KiB more than {} KiB", kib(grown), kib(most));
        if task == "much" {
            assert!(figures.queued_bytes > LITTLE.0 || cfg!(debug_assertions), "{figures:?}");
        }
        std::process::exit(0);
    });
}

#[test]
fn a_process_takes_no_more_than_its_budget() {
    if let Some(task) = std::env::var_os("MOIRAI_RESIDENT") {
        let folder = PathBuf::from(std::env::var_os("MOIRAI_FOLDER").unwrap());
        measured(task.to_str().unwrap(), &folder);
    }
    let folder = tempfile::tempdir().unwrap();
    for task in ["little", "much", "reopen"] {
        let status = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "a_process_takes_no_more_than_its_budget", "--nocapture"])
            .envs([("MOIRAI_RESIDENT", task), ("MALLOC_ARENA_MAX", "1")])
            .env("MOIRAI_FOLDER", folder.path())
            .status();
        assert!(status.unwrap().success(), "{task}");
    }
}
