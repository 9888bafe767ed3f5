//! Bulk batches: whole or absent, in little memory.

use moirai_btree::{Direction, Error, KeyRange, Store};
use moirai_runtime::{Random, block_on_virtual, each_seed, random};
use moirai_units::ByteCount;
use moirai_update::Options;
use rand::Rng;

use crate::bench::{APPEND, Bench, Records, any_key};
use crate::scanned;

async fn content(store: &Store) -> [Records; 2] {
    let mut both = [Records::new(), Records::new()];
    for (name, records) in ["one", "other"].into_iter().zip(&mut both) {
        let tree = store.tree(name).await.unwrap();
        let all = scanned(store, &tree, KeyRange::all(), Direction::Forward).await;
        records.extend(all);
    }
    both
}

/// Changes for a batch, as a model has them.
async fn fill(
    store: &Store,
    bulk: &mut moirai_btree::Bulk<'_>,
    random: &mut Random,
    model: &mut [Records; 2],
) -> moirai_btree::Result<()> {
    let trees = [store.tree("one").await?, store.tree("other").await?];
    for _ in 0..random.random_range(1..600) {
        let which = random.random_range(0..2);
        let (tree, records, key) = (&trees[which], &mut model[which], any_key(random));
        match random.random_range(0..10) {
            0..2 => {
                bulk.delete(tree, &key).await?;
                records.remove(&key);
            }
            2..5 => {
                let operand = vec![random.random(); random.random_range(0..30)];
                bulk.merge(tree, APPEND, &key, &operand).await?;
                records.entry(key).or_default().extend(operand);
            }
            _ => {
                let length = if random.random_bool(0.02) { 20_000 } else { 100 };
                let value = vec![random.random(); random.random_range(0..length)];
                bulk.put(tree, &key, &value).await?;
                records.insert(key, value);
            }
        }
    }
    Ok(())
}

async fn run() {
    let mut random = random("bulk");
    let bench = Bench::new(&mut random).await;
    let mut store = bench.open().await.unwrap();
    let mut model = content(&store).await;
    for _ in 0..random.random_range(1..6) {
        if random.random_bool(0.6) {
            bench.power.fail_after(random.random_range(0..200));
        }
        let before = model.clone();
        let mut bulk = store.bulk();
        let filled = fill(&store, &mut bulk, &mut random, &mut model).await;
        let is_dropped = random.random_bool(0.2);
        let done = match filled {
            Ok(()) if is_dropped => Ok(()),
            Ok(()) => bulk.commit().await,
            Err(error) => Err(error),
        };
        let is_refused = matches!(
            done,
            Err(Error::Update(
                moirai_update::Error::GroupTooLong { .. } | moirai_update::Error::Full { .. }
            ))
        );
        assert!(done.is_ok() || is_refused || bench.power.is_off(), "{done:?}");
        if is_dropped || is_refused {
            model.clone_from(&before);
        }
        if done.is_ok() && !bench.power.is_off() {
            bench.power.bring_back();
            assert!(content(&store).await == model, "what is there is not what was committed");
            if random.random_bool(0.5) {
                continue;
            }
        }
        drop(store);
        bench.restart();
        store = bench.open().await.unwrap();
        let there = content(&store).await;
        match done {
            Ok(()) => assert!(there == model, "what was committed is not there"),
            Err(_) => assert!(there == model || there == before, "a part of a batch is there"),
        }
        model = there;
    }
}

#[test]
fn bulk_batches_are_whole_or_absent() {
    each_seed(if cfg!(debug_assertions) { 100 } else { 5000 }, run);
}

/// Into a tree that is empty, and then over it: with a log of 500 KiB and a memory of 512 KiB.
#[test]
fn a_batch_much_longer_than_log_and_memory() {
    block_on_virtual(1, async {
        let mut random = random("long bulk");
        let mut bench = Bench::with_partitions(&mut random, 16).await;
        bench.options = Options { memory: ByteCount(512 << 10), ..Options::default() };
        let store = bench.open().await.unwrap();
        let tree = store.tree("t").await.unwrap();
        let key = |number: u64| number.wrapping_mul(0x9e37_79b9_7f4a_7c15).to_be_bytes();
        let free = store.figures().data_free_bytes;
        for round in 0..3_u8 {
            let mut bulk = store.bulk();
            for number in 0..40_000 {
                bulk.put(&tree, &key(number), &[round; 40]).await.unwrap();
            }
            assert_eq!(bulk.len(), 40_000);
            // Nothing of it shows before.
            let shown = store.get(&tree, &key(7)).await.unwrap();
            assert_eq!(shown, round.checked_sub(1).map(|before| vec![before; 40]));
            if round == 1 {
                // The runs of one that is dropped are free at once.
                let mut dropped = store.bulk();
                let before = store.figures().data_free_bytes;
                for number in 0..40_000 {
                    dropped.delete(&tree, &key(number)).await.unwrap();
                }
                assert!(store.figures().data_free_bytes < before);
                drop(dropped);
                assert_eq!(store.figures().data_free_bytes, before);
            }
            bulk.commit().await.unwrap();
            let mut scan = store.scan(&tree, KeyRange::all(), Direction::Forward);
            let mut records = 0;
            while let Some((_, value)) = scan.next().await.unwrap() {
                assert!(value == [round; 40]);
                records += 1;
            }
            assert_eq!(records, 40_000);
        }
        assert!(store.figures().data_free_bytes < free);
        store.close().await.unwrap();
        let store = bench.open().await.unwrap();
        let tree = store.tree("t").await.unwrap();
        assert_eq!(store.count(&tree, ..).await.unwrap(), 40_000);
        assert_eq!(store.get(&tree, &key(7)).await.unwrap(), Some(vec![2; 40]));
    });
}

/// Of one partition a batch has many times what memory holds: behind its keys, between two keys of a leaf, and all over it.
#[test]
fn a_batch_of_which_most_is_for_one_partition() {
    block_on_virtual(1, async {
        let mut random = random("dense bulk");
        let mut bench = Bench::with_partitions(&mut random, 16).await;
        bench.options = Options { memory: ByteCount(512 << 10), ..Options::default() };
        let mut store = bench.open().await.unwrap();
        let key = |number: u64| number.to_be_bytes().to_vec();
        let mut model = Records::new();
        // Keys of the tree, and those of the batch: so many, from one on, so far apart.
        let batches =
            [(0, 1, 20_000), (1, 3, 15_000), (20_000 << 20, 7, 20_000), (500_000, 1, 15_000)];
        let tree = store.tree("t").await.unwrap();
        for number in 0..200_u64 {
            store.put(&tree, &key(number << 20), &[1; 30]).await.unwrap();
            model.insert(key(number << 20), vec![1; 30]);
        }
        store.checkpoint().await.unwrap();
        for (first, apart, count) in batches {
            let tree = store.tree("t").await.unwrap();
            let mut bulk = store.bulk();
            for number in 0..count {
                let key = key(first + number * apart);
                match random.random_range(0..10) {
                    0 => {
                        bulk.delete(&tree, &key).await.unwrap();
                        model.remove(&key);
                    }
                    1..3 => {
                        bulk.merge(&tree, APPEND, &key, &[2, 3]).await.unwrap();
                        model.entry(key).or_default().extend([2, 3]);
                    }
                    3 if number % 50 == 0 => {
                        bulk.put(&tree, &key, &[5; 20_000]).await.unwrap();
                        model.insert(key, vec![5; 20_000]);
                    }
                    _ => {
                        bulk.put(&tree, &key, &[4; 40]).await.unwrap();
                        model.insert(key, vec![4; 40]);
                    }
                }
            }
            // Among its keys something waits in memory, and one of them is put again after it.
            let between = [&key(first + apart)[..], &[0]].concat();
            store.put(&tree, &between, b"before").await.unwrap();
            model.insert(between, b"before".to_vec());
            bulk.commit().await.unwrap();
            store.put(&tree, &key(first), b"after").await.unwrap();
            model.insert(key(first), b"after".to_vec());
            if random.random_bool(0.5) {
                store.close().await.unwrap();
                store = bench.open().await.unwrap();
            }
            let tree = store.tree("t").await.unwrap();
            let there: Records = scanned(&store, &tree, KeyRange::all(), Direction::Forward)
                .await
                .into_iter()
                .collect();
            assert!(there == model, "of {count} from {first} on, {} are there", there.len());
            assert!(store.check().await.is_empty());
        }
    });
}
