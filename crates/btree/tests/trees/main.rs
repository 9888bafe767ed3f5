//! Trees against a model: random batches, scans in both directions, power cuts.

#![expect(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    reason = "a test stops at what it did not expect"
)]

mod bench;
mod bulk;
mod copies;
mod drops;
mod ingest;
mod long;
mod methods;
mod points;

use std::ops::Bound;
use std::sync::Arc;

use moirai_btree::{Batch, Direction, KeyRange, Record, Scan, Store, Tree, with_leaves};
use moirai_devices::{FaultyDevice, Power};
use moirai_runtime::{Random, block_on_virtual, each_seed, random};
use moirai_units::{BlockCount, ByteCount};
use moirai_update::{Format, Options};
use rand::Rng;

use crate::bench::{Bench, Records, any_change, any_key};

/// What a scan has left.
async fn records_of(mut scan: Scan<'_>) -> moirai_btree::Result<Vec<Record>> {
    let mut all = Vec::new();
    while let Some((key, value)) = scan.next().await? {
        all.push((key.to_vec(), value.to_vec()));
    }
    Ok(all)
}

async fn scanned(store: &Store, tree: &Tree, range: KeyRange, direction: Direction) -> Vec<Record> {
    records_of(store.scan(tree, range, direction)).await.unwrap()
}

async fn compare(store: &Store, tree: &Tree, model: &Records, random: &mut Random) {
    let all: Vec<_> = model.clone().into_iter().collect();
    assert_eq!(scanned(store, tree, KeyRange::all(), Direction::Forward).await, all);
    let mut back = scanned(store, tree, KeyRange::all(), Direction::Backward).await;
    back.reverse();
    assert_eq!(back, all);
    for _ in 0..10 {
        let key = any_key(random);
        assert_eq!(store.get(tree, &key).await.unwrap(), model.get(&key).cloned());
        assert_eq!(store.contains(tree, &key).await.unwrap(), model.contains_key(&key));
        let (from, to) = (any_key(random), any_key(random));
        let any_bound = |random: &mut Random, key: Vec<u8>| match random.random_range(0..3) {
            0 => Bound::Included(key),
            1 => Bound::Excluded(key),
            _ => Bound::Unbounded,
        };
        let range = KeyRange { from: any_bound(random, from), to: any_bound(random, to) };
        let holds = |key: &Vec<u8>| {
            let from = match &range.from {
                Bound::Included(from) => key >= from,
                Bound::Excluded(from) => key > from,
                Bound::Unbounded => true,
            };
            from && match &range.to {
                Bound::Included(to) => key <= to,
                Bound::Excluded(to) => key < to,
                Bound::Unbounded => true,
            }
        };
        let expected: Vec<_> = all.iter().filter(|(key, _)| holds(key)).cloned().collect();
        let found = scanned(store, tree, range.clone(), Direction::Forward).await;
        assert_eq!(found, expected, "{range:?}");
        let mut found = scanned(store, tree, range.clone(), Direction::Backward).await;
        found.reverse();
        assert_eq!(found, expected, "{range:?}");
    }
}

async fn run() {
    let mut random = random("trees");
    let bench = Bench::new(&mut random).await;
    let mut store = bench.open().await.unwrap();
    let mut models = [Records::new(), Records::new()];
    for _ in 0..random.random_range(1..4) {
        let trees = [store.tree("one").await.unwrap(), store.tree("other").await.unwrap()];
        if random.random_bool(0.6) {
            bench.power.fail_after(random.random_range(0..80));
        }
        let mut before = models.clone();
        for _ in 0..random.random_range(1..50) {
            before.clone_from(&models);
            let mut batch = Batch::new();
            for _ in 0..random.random_range(1..60) {
                let which = random.random_range(0..2);
                any_change(&mut random, &trees[which], &mut batch, &mut models[which]);
            }
            if store.commit(&batch).await.is_err() {
                break;
            }
            before.clone_from(&models);
            match random.random_range(0..10) {
                0 if store.checkpoint().await.is_err() => break,
                1 if !bench.power.is_off() => {
                    bench.power.bring_back();
                    compare(&store, &trees[0], &models[0], &mut random).await;
                }
                _ => {}
            }
        }
        drop(store);
        bench.restart();
        store = bench.open().await.unwrap();
        assert_eq!(store.trees().await.unwrap(), ["one", "other"]);
        let trees = [store.tree("one").await.unwrap(), store.tree("other").await.unwrap()];
        // The last batch is there or not, in both trees.
        let all = scanned(&store, &trees[0], KeyRange::all(), Direction::Forward).await;
        let other = scanned(&store, &trees[1], KeyRange::all(), Direction::Forward).await;
        let is = |models: &[Records; 2]| {
            all.iter().cloned().eq(models[0].clone()) && other.iter().cloned().eq(models[1].clone())
        };
        if !is(&models) {
            assert!(is(&before), "what is there is neither with the last batch nor without it");
            models = before;
        }
        for (tree, model) in trees.iter().zip(&models) {
            compare(&store, tree, model, &mut random).await;
        }
    }
}

#[test]
fn trees_hold_what_was_committed_through_power_cuts() {
    each_seed(if cfg!(debug_assertions) { 100 } else { 5000 }, run);
}

#[test]
fn what_is_too_long_is_refused() {
    block_on_virtual(1, async {
        let mut random = random("long");
        let bench = Bench::new(&mut random).await;
        let store = bench.open().await.unwrap();
        let tree = store.tree("t").await.unwrap();
        let error = store.put(&tree, &[1; 5000], b"").await.unwrap_err().to_string();
        assert!(error.contains("a key of 5000 bytes"), "{error}");
        assert!(store.tree("").await.is_err());
        store.put(&tree, b"k", b"v").await.unwrap();
        assert_eq!(store.get(&tree, b"k").await.unwrap(), Some(b"v".to_vec()));
    });
}

/// Keys from the last to the first, and small random changes, with a log that is short for them: partitions
/// fill up while they are swept, and what sweeps have to say finds no room.
#[test]
fn a_short_log_and_keys_that_come_backwards_are_borne() {
    for (seed, staging_percent) in [(1, 0), (2, 100)] {
        block_on_virtual(seed, async {
            let power = Power::on();
            let device = |name: &str, blocks| {
                FaultyDevice::new(
                    name.into(),
                    BlockCount(blocks),
                    BlockCount(16),
                    Arc::clone(&power),
                )
            };
            let (data, log) = (device("data", 120_000), device("log", 512));
            let format = Format { staging_percent, ..with_leaves(ByteCount(512)) };
            Store::format(&*data, &[Arc::clone(&log) as _], format).await.unwrap();
            let options = Options { memory: ByteCount(64 << 10), ..Options::default() };
            let bench = Bench { power, data, log, options };
            let store = bench.open().await.unwrap();
            let tree = store.tree("t").await.unwrap();
            let mut batch = Batch::new();
            let key = |number: u64| format!("a key of some length {number:080}").into_bytes();
            let mut expected = Records::new();
            for number in (0..12_000_u64).rev() {
                batch.put(&tree, &key(number), &number.to_le_bytes());
                expected.insert(key(number), number.to_le_bytes().to_vec());
                if batch.len() == 20 {
                    store.commit(&batch).await.unwrap();
                    batch.clear();
                }
            }
            let mut random = random("short");
            for _ in 0..4000 {
                let number = random.random_range(0..12_000);
                store.put(&tree, &key(number), b"changed").await.unwrap();
                expected.insert(key(number), b"changed".to_vec());
            }
            assert!(store.figures().partitions > 50);
            drop(store);
            // Opening again and again does not fill the log.
            for _ in 0..200 {
                drop(bench.open().await.unwrap());
            }
            let store = bench.open().await.unwrap();
            let tree = store.tree("t").await.unwrap();
            let all: Vec<_> = expected.into_iter().collect();
            assert_eq!(
                scanned(&store, &tree, KeyRange::all(), Direction::Forward).await.len(),
                all.len()
            );
            assert!(scanned(&store, &tree, KeyRange::all(), Direction::Forward).await == all);
            store.close().await.unwrap();
        });
    }
}

/// A store that was never opened for writing has no catalog, and one that was has all that was committed.
#[test]
fn a_store_for_reading_only_finds_its_trees_and_makes_none() {
    block_on_virtual(1, async {
        let mut random = random("reading only");
        let mut bench = Bench::new(&mut random).await;
        bench.options.memory = ByteCount::mib(1);
        let writing = bench.options;
        bench.options.read_only = true;
        let store = bench.open().await.unwrap();
        assert!(store.trees().await.unwrap().is_empty());
        assert!(store.find_tree("one").await.unwrap().is_none());
        drop(store);
        bench.options = writing;
        let store = bench.open().await.unwrap();
        let tree = store.tree("one").await.unwrap();
        store.put(&tree, b"key", b"value").await.unwrap();
        drop(store);
        moirai_runtime::sleep(moirai_units::Nanos(10_000_000)).await;
        bench.options.read_only = true;
        let store = bench.open().await.unwrap();
        assert_eq!(store.trees().await.unwrap(), ["one"]);
        let tree = store.tree("one").await.unwrap();
        assert_eq!(store.get(&tree, b"key").await.unwrap().as_deref(), Some(&b"value"[..]));
        let is_refused = |refused: moirai_btree::Result<()>| {
            use moirai_btree::Error::Update;
            matches!(refused, Err(Update(moirai_update::Error::ReadOnly { .. })))
        };
        assert!(is_refused(store.put(&tree, b"key", b"other").await));
        assert!(is_refused(store.tree("two").await.map(drop)));
        store.close().await.unwrap();
    });
}
