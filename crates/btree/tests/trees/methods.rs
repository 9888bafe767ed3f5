//! The methods of a store against a model: random calls while records are pending, staged and placed.

use std::ops::Bound;

use futures::future::{join, join_all};
use futures::{StreamExt, TryStreamExt};
use moirai_btree::{
    Batch, CurrentValue, Direction, Error, KeyRange, Record, Store, Tree, with_leaves,
};
use moirai_runtime::{Random, block_on_virtual, each_seed, random};
use moirai_units::ByteCount;
use moirai_update::{Durability, Format, Options};
use rand::Rng;

use crate::bench::{Bench, COUNT, Records, any_change, any_key, any_records};

fn any_bound(random: &mut Random) -> Bound<Vec<u8>> {
    let key = any_key(random);
    match random.random_range(0..3) {
        0 => Bound::Included(key),
        1 => Bound::Excluded(key),
        _ => Bound::Unbounded,
    }
}

fn is_in(from: &Bound<Vec<u8>>, to: &Bound<Vec<u8>>, key: &[u8]) -> bool {
    let from = match from {
        Bound::Included(from) => key >= &from[..],
        Bound::Excluded(from) => key > &from[..],
        Bound::Unbounded => true,
    };
    let to = match to {
        Bound::Included(to) => key <= &to[..],
        Bound::Excluded(to) => key < &to[..],
        Bound::Unbounded => true,
    };
    from && to
}

fn owned(record: Option<(&[u8], &[u8])>) -> Option<Record> {
    record.map(|(key, value)| (key.to_vec(), value.to_vec()))
}

/// Moves a scan at random; `at` is the number of records of the range before its position.
async fn walk(store: &Store, tree: &Tree, model: &Records, random: &mut Random) {
    let (from, to) = (any_bound(random), any_bound(random));
    let all: Vec<Record> = model
        .iter()
        .filter(|(key, _)| is_in(&from, &to, key))
        .map(|(key, value)| (key.clone(), value.clone()))
        .collect();
    let range = KeyRange::from((from.clone(), to.clone()));
    let direction = match random.random() {
        true => Direction::Forward,
        false => Direction::Backward,
    };
    let is_forward = direction == Direction::Forward;
    let mut scan = store.scan(tree, range.clone(), direction);
    let mut at = if is_forward { 0 } else { all.len() };
    for _ in 0..30 {
        if random.random_bool(0.2) {
            let key = any_key(random);
            scan.seek(&key);
            at = all.partition_point(|(other, _)| match is_forward {
                true => *other < key,
                false => *other <= key,
            });
        }
        for _ in 0..random.random_range(1..40) {
            let is_next = random.random_bool(0.7);
            let found = if is_next { scan.next().await } else { scan.prev().await };
            let expected = match is_next == is_forward {
                true => all.get(at).cloned().inspect(|_| at += 1),
                false => at.checked_sub(1).map(|before| {
                    at = before;
                    all[before].clone()
                }),
            };
            assert_eq!(owned(found.unwrap()), expected, "{range:?} {direction:?} at {at}");
        }
    }
    let rest: Vec<Record> = scan.into_stream().try_collect().await.unwrap();
    let expected: Vec<Record> = match is_forward {
        true => all[at..].to_vec(),
        false => all[..at].iter().rev().cloned().collect(),
    };
    assert_eq!(rest, expected);
    let count = store.count(tree, (from, to)).await.unwrap();
    assert_eq!(count, all.len() as u64, "{range:?}");
    // Every leaf of so few is counted.
    if store.figures().blocks <= 7 {
        let counted = store.estimate(tree, range).await.unwrap();
        assert_eq!((counted.records, counted.is_exact), (count, true));
    }
}

async fn compare(store: &Store, tree: &Tree, model: &Records, random: &mut Random) {
    let keys: Vec<Vec<u8>> = (0..random.random_range(0..300)).map(|_| any_key(random)).collect();
    let values: Vec<_> = keys.iter().map(|key| model.get(key).cloned()).collect();
    assert_eq!(store.multi_get(tree, &keys).await.unwrap(), values);
    let record = |record: Option<(&Vec<u8>, &Vec<u8>)>| {
        record.map(|(key, value)| (key.clone(), value.clone()))
    };
    assert_eq!(store.first(tree).await.unwrap(), record(model.first_key_value()));
    assert_eq!(store.last(tree).await.unwrap(), record(model.last_key_value()));
    for _ in 0..3 {
        walk(store, tree, model, random).await;
    }
}

async fn change(store: &Store, tree: &Tree, model: &mut Records, random: &mut Random) {
    match random.random_range(0..4) {
        0 => assert_eq!(store.pop_first(tree).await.unwrap(), model.pop_first()),
        1 => assert_eq!(store.pop_last(tree).await.unwrap(), model.pop_last()),
        _ => {
            let key = any_key(random);
            let current = model.get(&key).cloned();
            let expected = match random.random() {
                true => current.clone(),
                false => random.random_bool(0.5).then(|| b"unlikely".to_vec()),
            };
            let new = random.random_bool(0.7).then(|| vec![random.random(); 20]);
            let swapped =
                store.compare_and_swap(tree, &key, expected.as_deref(), new.as_deref()).await;
            if current == expected {
                assert_eq!(swapped.unwrap(), Ok(()));
                match new {
                    Some(new) => model.insert(key, new),
                    None => model.remove(&key),
                };
            } else {
                assert_eq!(swapped.unwrap(), Err(CurrentValue(current)));
            }
        }
    }
}

async fn run() {
    let mut random = random("methods");
    let bench = Bench::new(&mut random).await;
    let store = bench.open().await.unwrap();
    let tree = store.tree("t").await.unwrap();
    let mut model = Records::new();
    compare(&store, &tree, &model, &mut random).await;
    for _ in 0..random.random_range(1..15) {
        for _ in 0..random.random_range(1..20) {
            let mut batch = Batch::new();
            for _ in 0..random.random_range(1..60) {
                any_change(&mut random, &tree, &mut batch, &mut model);
            }
            store.commit(&batch).await.unwrap();
            if random.random_bool(0.1) {
                let records = any_records(&mut random);
                store.ingest(&tree, &records).await.unwrap();
                model.extend(records);
            }
        }
        for _ in 0..random.random_range(0..20) {
            change(&store, &tree, &mut model, &mut random).await;
        }
        if random.random_bool(0.2) {
            store.checkpoint().await.unwrap();
        }
        compare(&store, &tree, &model, &mut random).await;
    }
    drop(store);
    let store = bench.open().await.unwrap();
    let tree = store.tree("t").await.unwrap();
    compare(&store, &tree, &model, &mut random).await;
}

#[test]
fn methods_agree_with_a_map() {
    each_seed(if cfg!(debug_assertions) { 60 } else { 3000 }, run);
}

/// An empty tree whose first keys are in a leaf that has to be read each time.
async fn tree_to_read(bench: &mut Bench) -> (Store, Tree) {
    bench.options.cache = ByteCount(0);
    let store = bench.open().await.unwrap();
    let tree = store.tree("t").await.unwrap();
    let mut batch = Batch::new();
    for of_batch in 0..40_u8 {
        batch.clear();
        (0..50_u8).for_each(|one| batch.put(&tree, &[of_batch, one], &[one; 60]));
        store.commit(&batch).await.unwrap();
    }
    for of_batch in 0..40_u8 {
        batch.clear();
        (0..50_u8).for_each(|one| batch.delete(&tree, &[of_batch, one]));
        store.commit(&batch).await.unwrap();
    }
    assert!(store.figures().placed > 0);
    (store, tree)
}

/// A counter that some tasks add to by compare and swap and others by merges, whose leaf has to be read, while others
/// put records beside it.
async fn count_together() {
    let mut random = random("together");
    let mut bench = Bench::new(&mut random).await;
    let (store, tree) = tree_to_read(&mut bench).await;
    let one = 1_u64.to_le_bytes();
    store.merge(&tree, COUNT, b"\0counter", &one).await.unwrap();
    let swap = async || {
        for _ in 0..10 {
            let mut current = store.get(&tree, b"\0counter").await.unwrap();
            loop {
                let bytes = current.clone().unwrap().try_into().unwrap();
                let next = (u64::from_le_bytes(bytes) + 1).to_le_bytes();
                let expected = current.as_deref();
                match store
                    .compare_and_swap(&tree, b"\0counter", expected, Some(&next))
                    .await
                    .unwrap()
                {
                    Ok(()) => break,
                    Err(CurrentValue(found)) => current = found,
                }
            }
        }
    };
    let merge = async |task: u8| {
        for number in 0..10 {
            store.merge(&tree, COUNT, b"\0counter", &one).await.unwrap();
            store.put(&tree, &[task, number], &[task; 50]).await.unwrap();
        }
    };
    join(join_all((0..4).map(|_| swap())), join_all((0..4).map(merge))).await;
    let counter = store.get(&tree, b"\0counter").await.unwrap().unwrap();
    assert_eq!(u64::from_le_bytes(counter.try_into().unwrap()), 1 + 4 * 10 + 4 * 10);
}

#[test]
fn compare_and_swap_and_merges_lose_no_update_of_each_other() {
    each_seed(if cfg!(debug_assertions) { 20 } else { 500 }, count_together);
}

async fn pop_together() {
    let mut random = random("pop");
    let mut bench = Bench::new(&mut random).await;
    let (store, tree) = tree_to_read(&mut bench).await;
    let mut batch = Batch::new();
    (0..40_u8).for_each(|number| batch.put(&tree, &[number], &[number; 60]));
    store.commit(&batch).await.unwrap();
    let pop = async |task: usize| {
        let mut popped = Vec::new();
        while let Some((key, value)) = match task % 2 {
            0 => store.pop_first(&tree).await.unwrap(),
            _ => store.pop_last(&tree).await.unwrap(),
        } {
            assert_eq!(value, vec![key[0]; 60]);
            popped.push(key[0]);
        }
        popped
    };
    let mut popped = join_all((0..4).map(pop)).await.concat();
    popped.sort_unstable();
    assert_eq!(popped, (0..40).collect::<Vec<u8>>());
    assert_eq!(store.count(&tree, ..).await.unwrap(), 0);
}

#[test]
fn tasks_that_pop_get_each_record_once() {
    each_seed(if cfg!(debug_assertions) { 20 } else { 500 }, pop_together);
}

/// Two records that one batch always changes together are the same in one answer.
#[test]
fn multi_get_shows_batches_whole() {
    each_seed(20, async || {
        let mut random = random("whole");
        let bench = Bench::new(&mut random).await;
        let store = bench.open().await.unwrap();
        let tree = store.tree("t").await.unwrap();
        // Keys in many leaves.
        let key = |number: u8| vec![number; 30];
        let put_all = async |value: u64| {
            let mut batch = Batch::new();
            (0..100).for_each(|number| batch.put(&tree, &key(number), &value.to_le_bytes()));
            store.commit(&batch).await.unwrap();
        };
        put_all(0).await;
        store.checkpoint().await.unwrap();
        let write = async {
            for value in 1..20 {
                put_all(value).await;
            }
        };
        let read = async {
            let keys: Vec<_> = (0..100).map(key).collect();
            for _ in 0..50 {
                let values = store.multi_get(&tree, &keys).await.unwrap();
                assert!(values.iter().all(|value| value.is_some() && *value == values[0]));
            }
        };
        join(write, read).await;
    });
}

/// Keys of one leaf cost one read, whatever their order.
#[test]
fn multi_get_reads_each_leaf_once() {
    block_on_virtual(1, async {
        let mut random = random("once");
        let bench = Bench::new(&mut random).await;
        let format = Format { staging_percent: 0, ..with_leaves(ByteCount(1024)) };
        Store::format(&*bench.data, &[bench.log.clone() as _], format).await.unwrap();
        // No room to keep leaves, and little for what is pending.
        let options =
            Options { memory: ByteCount(32 << 10), cache: ByteCount(0), ..Options::default() };
        let store = Bench { options, ..bench }.open().await.unwrap();
        let tree = store.tree("t").await.unwrap();
        let keys: Vec<[u8; 4]> = (0..2000_u32).map(u32::to_be_bytes).collect();
        for keys in keys.chunks(50) {
            let mut batch = Batch::new();
            keys.iter().for_each(|key| batch.put(&tree, key, &[7; 40]));
            store.commit(&batch).await.unwrap();
        }
        let (before, leaves) = (store.figures().reads, store.figures().blocks);
        assert!(leaves > 50, "{leaves} leaves");
        let shuffled: Vec<[u8; 4]> = (0..2000).map(|at| keys[at * 1013 % 2000]).collect();
        let values = store.multi_get(&tree, &shuffled).await.unwrap();
        assert!(values.iter().all(|value| value.as_deref() == Some(&[7; 40][..])));
        let reads = store.figures().reads - before;
        assert!((leaves / 2..=leaves).contains(&reads), "{reads} reads of {leaves} leaves");
    });
}

/// A range of many leaves: the estimate is off by less than is said of trees like this one.
#[test]
fn estimates_of_random_puts_are_close_and_read_few_leaves() {
    each_seed(20, async || {
        let mut random = random("about");
        let bench = Bench::with_partitions(&mut random, 12).await;
        let store = bench.open().await.unwrap();
        let tree = store.tree("t").await.unwrap();
        for _ in 0..100 {
            let mut batch = Batch::new();
            for _ in 0..100 {
                batch.put(&tree, &random.random::<u64>().to_be_bytes(), &[1; 30]);
            }
            store.commit(&batch).await.unwrap();
        }
        // Of several leaves only the last one of a partition is seldom full. No sweep rewrites a leaf between its choice and its count.
        store.checkpoint().await.unwrap();
        moirai_runtime::sleep(moirai_units::Nanos(60_000_000_000)).await;
        let before = store.figures();
        let low = random.random::<u64>() >> 2;
        let high = low + (u64::MAX >> 2) + (random.random::<u64>() >> 2);
        let range = low.to_be_bytes()..high.to_be_bytes();
        let about = store.estimate(&tree, range.clone()).await.unwrap();
        let after = store.figures();
        let staged_reads = after.staged_reads - before.staged_reads;
        // An estimate reads eight leaves, and the staged chunks of their partitions: idle sweeps leave up to a few of them.
        let leaves = after.reads - before.reads - staged_reads;
        assert!(leaves <= 8 && staged_reads <= 8 * 4, "{leaves} leaves, {staged_reads} chunks");
        // All records are of one size.
        assert!((about.bytes / 38).abs_diff(about.records) <= 1, "{about:?}");
        let about = about.records as f64;
        let count = store.count(&tree, range).await.unwrap() as f64;
        assert!((0.7..1.3).contains(&(about / count)), "{about} is not about {count}");
    });
}

/// While others put and delete records around them, the records that stay come once each and in their order, both ways.
async fn scan_together() {
    let (mut random, mut random_writes) = (random("scans"), random("writes"));
    let mut bench = Bench::new(&mut random).await;
    let (store, tree) = tree_to_read(&mut bench).await;
    let is_lasting = |key: &[u8]| key.len() == 1;
    let mut batch = Batch::new();
    (0..200_u8).for_each(|number| batch.put(&tree, &[number], &[number; 20]));
    store.commit(&batch).await.unwrap();
    let write = async {
        let random = &mut random_writes;
        for _ in 0..60 {
            let mut batch = Batch::new();
            let (first, is_put) = (random.random_range(0..200_u8), random.random_bool(0.7));
            for number in 0..50 {
                match is_put {
                    true => batch.put(&tree, &[first, number], &[number; 60]),
                    false => batch.delete(&tree, &[first, number]),
                }
            }
            store.commit(&batch).await.unwrap();
        }
    };
    let read = async {
        for round in 0..20 {
            let direction = [Direction::Forward, Direction::Backward][round % 2];
            let mut scan = store.scan(&tree, .., direction);
            let (mut lasting, mut last) = (Vec::new(), None::<Vec<u8>>);
            while let Some((key, _)) = scan.next().await.unwrap() {
                let is_after = |last: &Vec<u8>| match direction {
                    Direction::Forward => key > &last[..],
                    Direction::Backward => key < &last[..],
                };
                assert!(last.as_ref().is_none_or(is_after), "{key:?} after {last:?}");
                last = Some(key.to_vec());
                lasting.extend(is_lasting(key).then(|| key[0]));
            }
            if direction == Direction::Backward {
                lasting.reverse();
            }
            assert_eq!(lasting, (0..200).collect::<Vec<u8>>());
        }
    };
    join(write, read).await;
}

#[test]
fn scans_among_writers_keep_their_order_and_miss_nothing() {
    each_seed(if cfg!(debug_assertions) { 20 } else { 500 }, scan_together);
}

/// Trees of another store are refused by every method, and so is a batch over two stores.
#[test]
fn trees_of_another_store_are_refused() {
    block_on_virtual(1, async {
        let mut random = random("others");
        let (bench, other) = (Bench::new(&mut random).await, Bench::new(&mut random).await);
        let (store, other) = (bench.open().await.unwrap(), other.open().await.unwrap());
        let (ours, theirs) = (store.tree("t").await.unwrap(), other.tree("t").await.unwrap());
        let refused = |error: Error| {
            assert!(matches!(&error, Error::OtherStore { tree } if tree == "t"), "{error}");
        };
        refused(store.put(&theirs, b"k", b"v").await.unwrap_err());
        refused(store.delete(&theirs, b"k").await.unwrap_err());
        refused(store.merge(&theirs, COUNT, b"k", b"v").await.unwrap_err());
        refused(store.get(&theirs, b"k").await.unwrap_err());
        refused(store.multi_get(&theirs, &["k"]).await.unwrap_err());
        refused(store.contains(&theirs, b"k").await.unwrap_err());
        refused(store.compare_and_swap(&theirs, b"k", None, Some(b"v")).await.unwrap_err());
        refused(store.first(&theirs).await.unwrap_err());
        refused(store.pop_last(&theirs).await.unwrap_err());
        refused(store.count(&theirs, ..).await.unwrap_err());
        refused(store.estimate(&theirs, ..).await.unwrap_err());
        let scan = store.scan(&theirs, "a"..="b", Direction::Backward);
        refused(scan.into_stream().boxed().next().await.unwrap().unwrap_err());
        for trees in [[&ours, &theirs], [&theirs, &ours]] {
            let mut batch = Batch::new();
            trees.iter().for_each(|tree| batch.put(tree, b"k", b"v"));
            refused(store.commit(&batch).await.unwrap_err());
            refused(other.commit(&batch).await.unwrap_err());
            batch.clear();
            batch.put(&ours, b"k", b"v");
            store.commit(&batch).await.unwrap();
        }
        assert_eq!(store.count(&ours, ..).await.unwrap(), 1);
        assert_eq!(other.count(&theirs, ..).await.unwrap(), 0);
        // An opening of its own, since trees may be others then.
        drop(store);
        let store = bench.open().await.unwrap();
        refused(store.get(&ours, b"k").await.unwrap_err());
        let ours = store.tree("t").await.unwrap();
        assert_eq!(store.get(&ours, b"k").await.unwrap().as_deref(), Some(&b"v"[..]));
    });
}

/// Futures of the methods may be spawned.
#[test]
fn futures_can_be_sent() {
    fn is_send<T: Send>(future: T) -> T {
        future
    }
    block_on_virtual(1, async {
        let mut random = random("send");
        let bench = Bench::new(&mut random).await;
        let store = bench.open().await.unwrap();
        let tree = is_send(store.tree("t")).await.unwrap();
        let swapped = is_send(store.compare_and_swap(&tree, b"k", None, Some(b"v"))).await;
        assert_eq!(swapped.unwrap(), Ok(()));
        assert_eq!(is_send(store.multi_get(&tree, &["k"])).await.unwrap(), [Some(b"v".to_vec())]);
        assert_eq!(is_send(store.count(&tree, ..)).await.unwrap(), 1);
        assert_eq!(is_send(store.estimate(&tree, ..)).await.unwrap().records, 1);
        let stream = is_send(store.scan(&tree, .., Direction::Forward).into_stream());
        assert_eq!(stream.try_collect::<Vec<_>>().await.unwrap().len(), 1);
        assert!(is_send(store.pop_first(&tree)).await.unwrap().is_some());
        assert_eq!(is_send(store.ingest(&tree, [(b"i", b"v")])).await.unwrap(), 1);
    });
}

/// In a store whose commits wait for writes alone, one that is flushed outlives a power cut, with all before it; what came later
/// may be gone.
#[test]
fn a_commit_may_be_flushed_where_others_are_only_written() {
    let survives = |seed| {
        block_on_virtual(seed, async {
            let mut bench = Bench::new(&mut random("flushed")).await;
            bench.options.durability = Durability::Written;
            let store = bench.open().await.unwrap();
            let tree = store.tree("records").await.unwrap();
            store.put(&tree, b"a", b"1").await.unwrap();
            let mut batch = Batch::new();
            batch.put(&tree, b"b", b"2");
            store.commit_with(&batch, Durability::Flushed).await.unwrap();
            store.put(&tree, b"c", b"3").await.unwrap();
            drop(store);
            bench.restart();
            let store = bench.open().await.unwrap();
            let tree = store.find_tree("records").await.unwrap().unwrap();
            for (key, value) in [(b"a", b"1"), (b"b", b"2")] {
                assert_eq!(store.get(&tree, key).await.unwrap(), Some(value.to_vec()));
            }
            store.get(&tree, b"c").await.unwrap().is_some()
        })
    };
    let survivors = (0..40).filter(|seed| survives(*seed)).count();
    assert!((1..40).contains(&survivors), "{survivors} of 40");
}
