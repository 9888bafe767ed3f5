//! Checkpoints: they write what changed, and what comes while one is written is in the log.

#![expect(clippy::unwrap_used, reason = "a test stops at what it did not expect")]

use std::sync::Arc;

use futures::future::join;
use moirai_btree::{Batch, Store, Tree, with_leaves};
use moirai_devices::{FaultyDevice, Power};
use moirai_runtime::{Random, block_on_virtual};
use moirai_storage::Device;
use moirai_units::{BlockCount, ByteCount, Lbn};
use moirai_update::{Error, Format, Kinds, Options};
use rand::{Rng, SeedableRng};

const SMALL: u64 = 100_000;

/// A store of one tree.
struct Bench {
    data: Arc<FaultyDevice>,
    log: Arc<FaultyDevice>,
    options: Options,
}

impl Bench {
    /// Records of 60 bytes in leaves of 512 bytes. Partitions are small: they make a long checkpoint.
    async fn new(
        records: u64,
        page_partitions: u32,
        partition_blocks: u32,
    ) -> (Bench, Store, Tree) {
        let power = Power::on();
        let device = |name: &str, bytes: u64| {
            let capacity = BlockCount(bytes / 512);
            FaultyDevice::new(name.into(), capacity, BlockCount(16), Arc::clone(&power))
        };
        let (data, log) = (device("data", 512 << 20), device("log", 8 << 20));
        let format = Format { partition_blocks, ..with_leaves(ByteCount(512)) };
        let memory = ByteCount::mib(16);
        let options = Options { memory, page_partitions, idle: None, ..Options::default() };
        let bench = Bench { data, log, options };
        Store::format(&*bench.data, &bench.logs(), format).await.unwrap();
        let store = bench.open().await.unwrap();
        let tree = store.tree("records").await.unwrap();
        put(&store, &tree, 0..records, 0).await;
        store.checkpoint().await.unwrap();
        (bench, store, tree)
    }

    fn logs(&self) -> [Arc<dyn Device>; 1] {
        [Arc::clone(&self.log) as _]
    }

    async fn open(&self) -> moirai_btree::Result<Store> {
        let data = Arc::clone(&self.data) as _;
        Store::open(data, &self.logs(), Kinds::new(), self.options).await
    }
}

fn key(number: u64) -> [u8; 8] {
    number.wrapping_mul(0x9e37_79b9_7f4a_7c15).to_be_bytes()
}

async fn put(store: &Store, tree: &Tree, numbers: impl Iterator<Item = u64>, value: u8) {
    let mut batch = Batch::new();
    for number in numbers {
        batch.put(tree, &key(number), &[value; 60]);
        if batch.len() == 1000 {
            store.commit(&batch).await.unwrap();
            batch.clear();
        }
    }
    store.commit(&batch).await.unwrap();
}

/// Bytes that a checkpoint writes.
async fn checkpoint(store: &Store) -> u64 {
    let before = store.figures().checkpoint_bytes;
    store.checkpoint().await.unwrap();
    store.figures().checkpoint_bytes - before
}

/// Where the checkpoint lies.
async fn places(store: &Store) -> Vec<(Lbn, u64)> {
    let all = store.map().await.unwrap().into_iter().filter(|one| one.what == "checkpoint");
    all.map(|one| (one.blocks.first, one.blocks.count.bytes().0)).collect()
}

#[test]
fn a_checkpoint_writes_what_changed() {
    block_on_virtual(1, async {
        let (bench, store, tree) = Bench::new(SMALL, 16, 8).await;
        put(&store, &tree, 0..SMALL, 1).await;
        let full = checkpoint(&store).await;
        let partitions = store.figures().partitions;
        assert!(partitions > 1500, "{partitions}");
        // The index has 6 bytes or so for each page, and a partition 40 and more.
        let none = checkpoint(&store).await;
        assert!(none * 30 < full, "{none} bytes of {full} when nothing changed");
        put(&store, &tree, 7..8, 2).await;
        let one = checkpoint(&store).await;
        assert!((none + 16 * 40..none + full / 50).contains(&one), "{one} bytes, {none}, {full}");
        // Many rounds, each of which changes a few pages, are as one: a page counts where it was written last.
        let (mut random, mut written) = (Random::seed_from_u64(1), 0);
        const ROUNDS: u64 = 150;
        for round in 0..ROUNDS {
            let numbers: Vec<u64> = (0..5).map(|_| random.random_range(0..SMALL)).collect();
            put(&store, &tree, numbers.into_iter(), round as u8).await;
            written += checkpoint(&store).await;
        }
        let held: u64 = places(&store).await.iter().map(|(_, bytes)| bytes).sum();
        put(&store, &tree, 0..SMALL, 3).await;
        let full = checkpoint(&store).await;
        // Each round changes five of some hundred pages at most, and about as many again are in fragments that it rewrites.
        assert!(written < ROUNDS * full / 10, "{written} bytes, {full} of all");
        // Two copies of fragments that are half in use, and the index and its root.
        assert!(held < 2 * 2 * full + full / 2, "{held} bytes are kept, {full} of all");
        drop(store);
        let store = bench.open().await.unwrap();
        let tree = store.find_tree("records").await.unwrap().unwrap();
        for number in (0..SMALL).step_by(101) {
            assert_eq!(store.get(&tree, &key(number)).await.unwrap(), Some(vec![3; 60]));
        }
        assert_eq!(store.count(&tree, ..).await.unwrap(), SMALL);
        assert_eq!(store.check().await, []);
    });
}

/// Opening and checks tell which copies are damaged, and the next checkpoint writes these anew.
#[test]
fn a_damaged_copy_of_a_fragment_is_written_anew() {
    block_on_virtual(1, async {
        let (bench, store, tree) = Bench::new(20_000, 16, 8).await;
        for round in 0..10 {
            put(&store, &tree, round * 300..round * 300 + 2, 5).await;
            store.checkpoint().await.unwrap();
        }
        store.close().await.unwrap();
        let mut store = bench.open().await.unwrap();
        let mut twice = 0;
        for (first, _) in places(&store).await {
            // Those that the last rounds have replaced are free by now.
            if !places(&store).await.iter().any(|(other, _)| *other == first) {
                continue;
            }
            bench.data.corrupt(first);
            if first.0 % 2 == 0 {
                drop(store);
                store = bench.open().await.unwrap();
            }
            assert!(!store.check().await.is_empty(), "block {first}");
            store.checkpoint().await.unwrap();
            assert_eq!(store.check().await, [], "block {first}");
            twice += 1;
        }
        assert!(twice > 4, "{twice}");
        // Without a right copy the engine does not open.
        store.close().await.unwrap();
        let store = bench.open().await.unwrap();
        let all = places(&store).await;
        drop(store);
        all.iter().for_each(|(first, _)| bench.data.corrupt(*first));
        let opened = bench.open().await.map(drop);
        assert!(
            matches!(opened, Err(moirai_btree::Error::Update(Error::Damaged { .. }))),
            "{opened:?}"
        );
    });
}

/// Long keys make a directory that takes a tenth of the device, and checkpoints as much.
#[test]
fn a_full_store_with_a_long_directory_takes_deletes() {
    block_on_virtual(1, async {
        let power = Power::on();
        let device = |name: &str, bytes: u64| -> Arc<dyn Device> {
            let capacity = BlockCount(bytes / 512);
            FaultyDevice::new(name.into(), capacity, BlockCount(16), Arc::clone(&power))
        };
        let (data, logs) = (device("data", 8 << 20), [device("log", 1 << 20)]);
        let format = Format { partition_blocks: 1, ..with_leaves(ByteCount(2048)) };
        Store::format(&*data, &logs, format).await.unwrap();
        let memory = ByteCount::mib(8);
        let options = Options { memory, page_partitions: 16, idle: None, ..Options::default() };
        let store = Store::open(data, &logs, Kinds::new(), options).await.unwrap();
        let tree = store.tree("long keys").await.unwrap();
        let long_key = |number: u64| [&key(number)[..], &[7; 480]].concat();
        let mut count = 0;
        loop {
            match store.put(&tree, &long_key(count), &[1; 100]).await {
                Ok(()) => count += 1,
                Err(moirai_btree::Error::Update(Error::Full { .. })) => break,
                Err(error) => panic!("{error}"),
            }
        }
        assert!(count > 1500, "{count}");
        // A few pages change with each checkpoint, so the others lie in fragments that are used in part.
        for round in 0..60 {
            for number in (round..count).step_by(400) {
                store.delete(&tree, &long_key(number)).await.unwrap();
            }
            store.checkpoint().await.unwrap();
        }
        for number in 0..count {
            store.delete(&tree, &long_key(number)).await.unwrap();
        }
        store.checkpoint().await.unwrap();
        assert_eq!(store.count(&tree, ..).await.unwrap(), 0);
        for number in 0..count * 9 / 10 {
            store.put(&tree, &long_key(number + count), &[1; 100]).await.unwrap();
        }
        assert_eq!(store.check().await, []);
    });
}

/// A checkpoint is written in fragments of 256 KiB, and trees are made between them.
#[test]
fn trees_made_during_a_checkpoint_are_there_after_a_crash() {
    block_on_virtual(1, async {
        // Of each page some partitions change, so each checkpoint writes all of them.
        let (bench, mut store, _) = Bench::new(1_500_000, 1 << 10, 64).await;
        for round in 0..5 {
            let tree = store.find_tree("records").await.unwrap().unwrap();
            put(&store, &tree, 0..100, round).await;
            let make = async {
                for number in 0..8 {
                    let tree = store.tree(&format!("tree {round} {number}")).await.unwrap();
                    store.put(&tree, b"key", b"value").await.unwrap();
                }
            };
            let (written, ()) = join(checkpoint(&store), make).await;
            assert!(written > 512 << 10, "{written} bytes are written at once");
            drop(store);
            store = bench.open().await.unwrap();
            for number in 0..8 {
                let tree = store.find_tree(&format!("tree {round} {number}")).await.unwrap();
                let value = store.get(&tree.unwrap(), b"key").await.unwrap();
                assert_eq!(value.as_deref(), Some(&b"value"[..]));
            }
        }
        assert_eq!(store.check().await, []);
    });
}
