//! A process that is killed under load: what it was told is durable is there, in all trees, and batches are whole.
//!
//! Processes are killed some times, more often in an optimised build, or as often as `MOIRAI_RUNS` says. `MOIRAI_SEED` begins with other moments.

#![expect(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    reason = "a test stops at what it did not expect"
)]

mod bulk;

use std::fs::File;
use std::io::Write;
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::Arc;

use moirai_btree::{AddU64, Batch, Store, Tree, with_leaves};
use moirai_devices::{Access, NewFiles};
use moirai_runtime::{block_on_real, random, sleep};
use moirai_storage::Device;
use moirai_units::{ByteCount, Nanos};
use moirai_update::{KindNumber, Kinds, Options};
use parking_lot::Mutex;
use rand::Rng;

const COUNT: KindNumber = KindNumber(16);
const TREES: [&str; 3] = ["a", "b", "c"];
/// Tasks that commit at the same time.
const TASKS: u64 = 4;
/// Each task puts batch `n` under key `n % KEYS` of each tree, and adds 1 to its count.
const KEYS: u64 = 50;
/// Where the process that is killed has its files.
const FOLDER: &str = "MOIRAI_KILLED_IN";

fn devices(folder: &Path, access: Access<'_>) -> (Arc<dyn Device>, [Arc<dyn Device>; 1]) {
    let open = |name: &str, size: &str| {
        let uri = format!("file:{}?size={size}", folder.join(name).display());
        moirai_devices::open(uri.parse().unwrap(), access).unwrap()
    };
    (open("data", "64MiB"), [open("log", "4MiB")])
}

async fn open(folder: &Path) -> Store {
    let (data, logs) = devices(folder, Access::Write);
    let mut kinds = Kinds::new();
    kinds.register(COUNT, Arc::new(AddU64)).unwrap();
    // So little that sweeps run all the time.
    let options = Options { memory: ByteCount::mib(1), ..Options::default() };
    Store::open(data, &logs, kinds, options).await.unwrap()
}

fn key(task: u64, batch: u64) -> [u8; 16] {
    let mut key = [0; 16];
    key[..8].copy_from_slice(&(batch % KEYS).wrapping_mul(0x9e37_79b9_7f4a_7c15).to_be_bytes());
    key[8..].copy_from_slice(&task.to_be_bytes());
    key
}

/// What batch `batch` of a task puts: one in twenty is too long for a leaf.
fn value(task: u64, batch: u64) -> Vec<u8> {
    let length = if batch.is_multiple_of(20) { 9000 } else { 16 + (batch % 7) as usize * 40 };
    let mut value: Vec<u8> = (0..length).map(|index| (index as u64 * batch + task) as u8).collect();
    value[..8].copy_from_slice(&batch.to_be_bytes());
    value
}

async fn count_of(store: &Store, counts: &Tree, task: u64) -> u64 {
    let count = store.get(counts, &task.to_be_bytes()).await.unwrap();
    count.map_or(0, |count| u64::from_le_bytes(count.try_into().unwrap()))
}

/// Commits until it is killed, and says in a file of each task how many batches are durable.
async fn load(folder: &Path) {
    let store = Arc::new(open(folder).await);
    let counts = store.tree("counts").await.unwrap();
    let mut trees = Vec::new();
    for name in TREES {
        trees.push(store.tree(name).await.unwrap());
    }
    let trees = Arc::new(trees);
    let tasks = (0..TASKS).map(|task| {
        let (store, trees, counts) = (Arc::clone(&store), Arc::clone(&trees), counts.clone());
        let acknowledged = Mutex::new(File::create(folder.join(format!("{task}"))).unwrap());
        moirai_runtime::spawn(async move {
            for number in count_of(&store, &counts, task).await.. {
                let mut batch = Batch::new();
                for tree in &*trees {
                    batch.put(tree, &key(task, number), &value(task, number));
                }
                batch.merge(&counts, COUNT, &task.to_be_bytes(), &1_u64.to_le_bytes());
                store.commit(&batch).await.unwrap();
                acknowledged.lock().write_all(&(number + 1).to_le_bytes()).unwrap();
            }
        })
    });
    for task in tasks.collect::<Vec<_>>() {
        task.await;
    }
}

/// The last number in a task's file, or 0.
fn acknowledged(folder: &Path, task: u64) -> u64 {
    let bytes = std::fs::read(folder.join(format!("{task}"))).unwrap_or_default();
    bytes.chunks_exact(8).last().map_or(0, |last| u64::from_le_bytes(last.try_into().unwrap()))
}

async fn check(folder: &Path, before: &mut [u64]) {
    let store = open(folder).await;
    let counts = store.tree("counts").await.unwrap();
    for task in 0..TASKS {
        let count = count_of(&store, &counts, task).await;
        let least = acknowledged(folder, task).max(before[task as usize]);
        assert!(count == least || count == least + 1, "task {task}: {count}, told {least}");
        before[task as usize] = count;
        for name in TREES {
            let tree = store.tree(name).await.unwrap();
            for number in count.saturating_sub(KEYS)..count {
                let found = store.get(&tree, &key(task, number)).await.unwrap();
                assert!(found == Some(value(task, number)), "task {task}, batch {number}");
            }
        }
    }
    assert_eq!(store.check().await, []);
    store.close().await.unwrap();
}

/// Starts a test of this program, which is ignored otherwise, as a process that works in a folder, and kills it after a while.
async fn kill_after(wait: Nanos, test: &str, folder: &Path) {
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.args(["--exact", test, "--ignored"]).env(FOLDER, folder);
    let mut child = command.stdout(Stdio::null()).spawn().unwrap();
    sleep(wait).await;
    child.kill().unwrap();
    child.wait().unwrap();
}

/// How often a process is killed: fewer times without optimisation, or as often as `MOIRAI_RUNS` says.
fn runs(plain: u64, optimised: u64) -> u64 {
    variable("MOIRAI_RUNS").unwrap_or(if cfg!(debug_assertions) { plain } else { optimised })
}

fn variable(name: &str) -> Option<u64> {
    std::env::var(name).ok().and_then(|text| text.parse().ok())
}

#[test]
#[ignore = "it is what the other test starts and kills"]
fn the_process_that_is_killed() {
    if let Some(folder) = std::env::var_os(FOLDER) {
        block_on_real(0, load(Path::new(&folder)));
    }
}

#[test]
fn a_killed_process_loses_nothing_that_was_acknowledged() {
    let runs = runs(8, 100);
    let folder = tempfile::tempdir().unwrap();
    let kills = async {
        let mut random = random("kills");
        let files = NewFiles::new();
        let (data, logs) = devices(folder.path(), Access::Create(&files));
        Store::format(&*data, &logs, with_leaves(ByteCount(4096))).await.unwrap();
        drop((data, logs));
        let mut before = [0; TASKS as usize];
        for _ in 0..runs {
            let wait = Nanos(random.random_range(20_000_000..600_000_000));
            kill_after(wait, "the_process_that_is_killed", folder.path()).await;
            check(folder.path(), &mut before).await;
        }
        assert!(before.iter().sum::<u64>() > 50 * runs, "{before:?} batches: nothing to lose");
    };
    block_on_real(variable("MOIRAI_SEED").unwrap_or(0), kills);
}
