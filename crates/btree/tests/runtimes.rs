//! Stores in tokio runtimes that the program made itself, in none, and dropped in any order with them.

#![expect(clippy::unwrap_used, reason = "a test stops at what it did not expect")]

use std::path::Path;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use futures::future::{Either, select};
use moirai_btree::{AddU64, Batch, Direction, Error, KeyRange, Store, Tree, with_leaves};
use moirai_devices::{Access, FaultyDevice, NewFiles, Power};
use moirai_runtime::{Stopwatch, is_virtual, sleep, wait};
use moirai_storage::Device;
use moirai_units::{BlockCount, ByteCount, Nanos};
use moirai_update::{KindNumber, Kinds, Options};
use tokio::runtime::{Builder, Handle, Runtime};

const COUNT: KindNumber = KindNumber(16);
/// What is to happen soon happens sooner.
const LONG: Nanos = Nanos(20_000_000_000);

fn one_thread() -> Runtime {
    Builder::new_current_thread().enable_all().build().unwrap()
}

fn two_threads() -> Runtime {
    Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap()
}

/// Data and two logs: with several of these the engine sets timers.
struct Devices {
    data: Arc<dyn Device>,
    logs: [Arc<dyn Device>; 2],
}

impl Devices {
    fn in_memory() -> Devices {
        let power = Power::on();
        let device = |name: &str, blocks| -> Arc<dyn Device> {
            FaultyDevice::new(name.into(), BlockCount(blocks), BlockCount(16), power.clone())
        };
        Devices { data: device("data", 20_000), logs: [device("a", 600), device("b", 600)] }
    }

    fn in_files(folder: &Path) -> moirai_storage::Result<Devices> {
        let files = NewFiles::new();
        let device = |name: &str, size: &str| {
            let path = folder.join(name);
            let size = if path.exists() { String::new() } else { format!("?size={size}") };
            let uri = format!("file:{}{size}", path.display());
            moirai_devices::open(uri.parse()?, Access::Create(&files))
        };
        let logs = [device("a", "512KiB")?, device("b", "512KiB")?];
        Ok(Devices { data: device("data", "16MiB")?, logs })
    }

    async fn format(&self) -> moirai_btree::Result<()> {
        Store::format(&*self.data, &self.logs, with_leaves(ByteCount(1024))).await
    }

    async fn open(self) -> moirai_btree::Result<Store> {
        let mut kinds = Kinds::new();
        kinds.register(COUNT, Arc::new(AddU64)).unwrap();
        let options = Options { memory: ByteCount(32 << 10), ..Options::default() };
        Store::open(self.data, &self.logs, kinds, options).await
    }
}

fn key(number: u64) -> Vec<u8> {
    format!("key {number:06}").into_bytes()
}

/// A store in files, made and closed in a runtime that has ended since.
fn made_in(folder: &Path) -> Tree {
    one_thread().block_on(async {
        let devices = Devices::in_files(folder).unwrap();
        devices.format().await.unwrap();
        let store = devices.open().await.unwrap();
        let tree = store.tree("t").await.unwrap();
        store.put(&tree, b"first", b"value").await.unwrap();
        store.close().await.unwrap();
        tree
    })
}

/// Opens it; its files are locked until the tasks of a store that was dropped are gone.
async fn reopened(folder: &Path) -> Store {
    let began = Stopwatch::start();
    loop {
        match Devices::in_files(folder) {
            Ok(devices) => return devices.open().await.unwrap(),
            Err(moirai_storage::Error::InUse { .. }) if began.elapsed() < LONG => {
                sleep(Nanos(1_000_000)).await;
            }
            Err(error) => panic!("{error}"),
        }
    }
}

/// All that a store does: more than its memory and its log hold.
async fn use_all(devices: Devices) {
    assert!(!is_virtual());
    devices.format().await.unwrap();
    let store = Arc::new(devices.open().await.unwrap());
    let tree = store.tree("t").await.unwrap();
    let tasks: Vec<_> = (0..4_u64)
        .map(|task| {
            let (store, tree) = (Arc::clone(&store), tree.clone());
            let runtime = Handle::current();
            runtime.spawn(async move {
                let mut batch = Batch::new();
                for round in 0..25 {
                    batch.clear();
                    for number in 0..10 {
                        batch.put(&tree, &key((round * 10 + number) * 4 + task), &[7; 100]);
                    }
                    batch.merge(&tree, COUNT, b"count", &1_u64.to_le_bytes());
                    store.commit(&batch).await.unwrap();
                }
            })
        })
        .collect();
    for task in tasks {
        task.await.unwrap();
    }
    assert_eq!(store.get(&tree, b"count").await.unwrap(), Some(100_u64.to_le_bytes().to_vec()));
    store.checkpoint().await.unwrap();
    store.barrier().await.unwrap();
    let mut scan = store.scan(&tree, KeyRange::with_prefix(b"key"), Direction::Backward);
    for number in (0..1000).rev() {
        assert_eq!(scan.next().await.unwrap(), Some((&key(number)[..], &[7; 100][..])));
    }
    assert_eq!(scan.next().await.unwrap(), None);
    drop(scan);
    assert!(store.figures().placed > 0, "the sweeper had nothing to do");
    Arc::into_inner(store).unwrap().close().await.unwrap();
}

#[test]
fn a_store_works_in_every_runtime_of_the_program() {
    for runtime in [one_thread(), two_threads()] {
        runtime.block_on(use_all(Devices::in_memory()));
        let folder = tempfile::tempdir().unwrap();
        runtime.block_on(use_all(Devices::in_files(folder.path()).unwrap()));
        // As a task, on a thread of the runtime's.
        let folder = tempfile::tempdir().unwrap();
        let devices = Devices::in_files(folder.path()).unwrap();
        runtime.block_on(runtime.spawn(use_all(devices))).unwrap();
    }
}

#[test]
fn a_program_without_a_runtime_waits() {
    let folder = tempfile::tempdir().unwrap();
    let devices = Devices::in_files(folder.path()).unwrap();
    wait(devices.format()).unwrap();
    let store = wait(devices.open()).unwrap();
    let tree = wait(store.tree("t")).unwrap();
    std::thread::scope(|scope| {
        for thread in 0..4 {
            let (store, tree) = (&store, &tree);
            scope.spawn(move || {
                for number in 0..50 {
                    wait(store.put(tree, &key(number * 4 + thread), &[7; 200])).unwrap();
                }
            });
        }
    });
    // Between calls the sweeper goes on: half of the memory is left free, which is not the case while all is pending.
    let began = Stopwatch::start();
    while store.figures().queued_bytes > 16 << 10 {
        assert!(began.elapsed() < LONG, "{:?}", store.figures());
        std::thread::yield_now();
    }
    let mut scan = store.scan(&tree, KeyRange::all(), Direction::Forward);
    let mut count = 0;
    while let Some((found, value)) = wait(scan.next()).unwrap() {
        assert_eq!((found, value), (&key(count)[..], &[7; 200][..]));
        count += 1;
    }
    assert_eq!(count, 200);
    drop(scan);
    wait(store.close()).unwrap();
    // Nobody holds the files any more.
    let store = wait(Devices::in_files(folder.path()).unwrap().open()).unwrap();
    let tree = wait(store.tree("t")).unwrap();
    assert_eq!(wait(store.get(&tree, &key(7))).unwrap(), Some(vec![7; 200]));
}

#[test]
fn without_a_runtime_the_error_says_what_to_do() {
    let folder = tempfile::tempdir().unwrap();
    made_in(folder.path());
    let is_said = |error: &dyn std::fmt::Display| {
        let error = error.to_string();
        assert!(error.contains("enable_all") && error.contains("moirai_runtime::wait"), "{error}");
    };
    let devices = Devices::in_files(folder.path()).unwrap();
    let read = futures::executor::block_on(devices.data.read(devices.data.inquiry().all_blocks()));
    is_said(&read.unwrap_err());
    is_said(&futures::executor::block_on(devices.logs[0].flush()).unwrap_err());
    is_said(&futures::executor::block_on(devices.format()).unwrap_err());
    let error = futures::executor::block_on(devices.open()).unwrap_err();
    assert!(matches!(
        error,
        Error::Update(moirai_update::Error::Device(moirai_storage::Error::NoRuntime(_)))
    ));
    is_said(&error);
    let simulated = moirai_devices::open("sim:quantum-atlas-10k".parse().unwrap(), Access::Write);
    is_said(&simulated.unwrap_err());
}

/// Tasks of a runtime that ends are dropped where they are, some before they ever ran; whoever uses the store then is
/// told, and waits for none of them.
#[test]
fn a_store_that_outlives_its_runtime_says_so() {
    let folder = tempfile::tempdir().unwrap();
    made_in(folder.path());
    for runtime in [one_thread(), two_threads()] {
        let open = Devices::in_files(folder.path()).unwrap().open();
        let store = runtime.block_on(open).unwrap();
        let tree = runtime.block_on(store.tree("t")).unwrap();
        drop(runtime);
        wait(async {
            let all = async {
                let put = store.put(&tree, b"k", b"v").await.unwrap_err().to_string();
                assert!(put.contains("ended"), "{put}");
                store.checkpoint().await.unwrap_err();
                // The device has no task that must live.
                assert!(store.get(&tree, b"first").await.unwrap().is_some());
                store.close().await.unwrap_err();
            };
            let late = async { sleep(LONG).await };
            let is_told = matches!(select(pin!(all), pin!(late)).await, Either::Left(_));
            assert!(is_told, "a call waits for a task that is gone");
        });
    }
}

/// Counts panics of all threads: those in tasks reach no test.
static PANICS: AtomicUsize = AtomicUsize::new(0);

#[test]
fn nothing_panics_in_whatever_order_stores_and_runtimes_are_dropped() {
    let hook = std::panic::take_hook();
    std::panic::set_hook(Box::new(move |panic| {
        PANICS.fetch_add(1, Ordering::Relaxed);
        hook(panic);
    }));
    let folder = tempfile::tempdir().unwrap();
    made_in(folder.path());
    let mut acknowledged = 0;
    for make in [one_thread, two_threads] {
        for order in 0..6 {
            let runtime = make();
            let store = Arc::new(runtime.block_on(reopened(folder.path())));
            let tree = runtime.block_on(store.tree("t")).unwrap();
            runtime.block_on(store.put(&tree, &key(acknowledged), b"there")).unwrap();
            acknowledged += 1;
            // Commits that are under way when it ends.
            let busy = |store: &Arc<Store>| {
                for number in 1000..1020 {
                    let (store, tree) = (Arc::clone(store), tree.clone());
                    runtime.spawn(async move {
                        let _ = store.put(&tree, &key(number), &[1; 500]).await;
                    });
                }
            };
            match order {
                // The store outside of the runtime, which goes on.
                0 => drop(store),
                1 => {
                    drop(runtime);
                    drop(store);
                    continue;
                }
                2 => runtime.block_on(async { drop(store) }),
                // The last one that has the store is a task, which ends with the runtime.
                3 => {
                    busy(&store);
                    runtime.spawn(async move {
                        std::future::pending::<()>().await;
                        drop(store);
                    });
                }
                4 => {
                    busy(&store);
                    runtime.shutdown_background();
                    drop(store);
                    continue;
                }
                _ => {
                    busy(&store);
                    std::thread::scope(|scope| scope.spawn(|| drop(store)).join().unwrap());
                }
            }
            drop(runtime);
        }
    }
    let store = wait(async { reopened(folder.path()).await });
    let tree = wait(store.tree("t")).unwrap();
    for number in 0..acknowledged {
        assert_eq!(wait(store.get(&tree, &key(number))).unwrap(), Some(b"there".to_vec()));
    }
    drop(store);
    assert_eq!(PANICS.load(Ordering::Relaxed), 0);
}

/// Tasks of a runtime of several threads may await all of it.
#[test]
fn futures_can_be_sent_to_other_threads() {
    fn is_send<T: Send>(_: T) {}
    fn is_shared<T: Send + Sync>() {}
    #[expect(dead_code, reason = "it is compiled, which is the test")]
    fn all(store: Store, devices: Devices, tree: &Tree, batch: &Batch) {
        is_send(store.commit(batch));
        is_send(store.put(tree, b"", b""));
        is_send(store.delete(tree, b""));
        is_send(store.merge(tree, COUNT, b"", b""));
        is_send(store.get(tree, b""));
        is_send(store.contains(tree, b""));
        is_send(store.tree(""));
        is_send(store.find_tree(""));
        is_send(store.trees());
        is_send(store.barrier());
        is_send(store.checkpoint());
        let mut scan = store.scan(tree, KeyRange::all(), Direction::Forward);
        is_send(scan.next());
        is_send(scan);
        is_send(store.close());
        is_send(devices.format());
        is_send(devices.open());
    }
    is_shared::<Store>();
    is_shared::<Batch>();
}
