//! Trees that are dropped, renamed, and lose ranges of keys, against a model and through power cuts.

use std::collections::BTreeMap;

use moirai_btree::{Batch, Direction, Error, KeyRange, Store};
use moirai_runtime::{Random, block_on_virtual, each_seed, random};
use moirai_units::{BlockCount, ByteCount};
use moirai_update::Options;
use rand::Rng;

use crate::bench::{Bench, Records, any_change, any_key, any_records};
use crate::scanned;

pub(crate) type Trees = BTreeMap<String, Records>;

async fn content(store: &Store) -> Trees {
    let mut trees = Trees::new();
    for name in store.trees().await.unwrap() {
        let tree = store.find_tree(&name).await.unwrap().unwrap();
        let records = scanned(store, &tree, KeyRange::all(), Direction::Forward).await;
        trees.insert(name, records.into_iter().collect());
    }
    trees
}

fn any_name(random: &mut Random) -> String {
    ["a", "b", "ÿ", "long name"][random.random_range(0..4)].to_owned()
}

/// What may have happened after a step was cut off.
pub(crate) enum Step {
    /// All of it, or nothing.
    Whole,
    /// Some of the records between two keys of a tree are gone.
    Range(String, KeyRange),
    /// Some of these records, up to some key, are in a tree.
    Ingest(String, Records),
}

/// Does something at random, to the store and to the model.
pub(crate) async fn step(
    store: &Store,
    random: &mut Random,
    model: &mut Trees,
) -> (Step, moirai_btree::Result<()>) {
    let name = any_name(random);
    match random.random_range(0..24) {
        0..2 => {
            let before = store.find_tree(&name).await;
            let done = store.drop_tree(&name).await;
            let had = model.remove(&name).is_some();
            if let (Ok(dropped), Ok(before)) = (&done, before) {
                assert_eq!((*dropped, before.is_some()), (had, had));
                if let Some(tree) = before {
                    let refused = |error| matches!(error, Error::Dropped { .. });
                    assert!(refused(store.get(&tree, b"a").await.unwrap_err()));
                    assert!(refused(store.put(&tree, b"a", b"").await.unwrap_err()));
                }
            }
            (Step::Whole, done.map(|_| ()))
        }
        2..4 => {
            let to = any_name(random);
            let done = store.rename_tree(&name, &to).await;
            match &done {
                Err(Error::NoTree { tree }) => assert!(!model.contains_key(tree)),
                Err(Error::TreeExists { tree }) => assert!(model.contains_key(tree)),
                // Where it failed, it may be done all the same, if it could be.
                _ => {
                    let can_be = model.contains_key(&name) && !model.contains_key(&to);
                    assert!(can_be || done.is_err());
                    if can_be {
                        let records = model.remove(&name).unwrap();
                        model.insert(to, records);
                    }
                    return (Step::Whole, done);
                }
            }
            (Step::Whole, Ok(()))
        }
        4..8 => {
            let Ok(Some(tree)) = store.find_tree(&name).await else {
                return (Step::Whole, Ok(()));
            };
            let (from, to) = (any_key(random), any_key(random));
            let range = match random.random_range(0..5) {
                0 => KeyRange::all(),
                1 => KeyRange::from(&from[..]..),
                2 => KeyRange::from(..=&to[..]),
                3 => KeyRange::with_prefix(&from[..from.len().min(1)]),
                _ => KeyRange::from(&from[..]..&to[..]),
            };
            let done = store.delete_range(&tree, range.clone()).await;
            if let Some(records) = model.get_mut(&name) {
                records.retain(|key, _| !is_in(&range, key));
            }
            (Step::Range(name, range), done)
        }
        8..12 => {
            let Ok(Some(tree)) = store.find_tree(&name).await else {
                return (Step::Whole, Ok(()));
            };
            let records = any_records(random);
            let done = store.ingest(&tree, &records).await;
            assert!(
                done.as_ref().is_ok_and(|count| *count == records.len() as u64) || done.is_err()
            );
            if let Some(there) = model.get_mut(&name) {
                there.extend(records.clone());
            }
            (Step::Ingest(name, records), done.map(drop))
        }
        _ => {
            let tree = match store.tree(&name).await {
                Ok(tree) => tree,
                Err(error) => return (Step::Whole, Err(error)),
            };
            let records = model.entry(name).or_default();
            let mut batch = Batch::new();
            for _ in 0..random.random_range(1..60) {
                any_change(random, &tree, &mut batch, records);
            }
            (Step::Whole, store.commit(&batch).await)
        }
    }
}

fn is_in(range: &KeyRange, key: &[u8]) -> bool {
    use std::ops::RangeBounds;
    (range.from.clone(), range.to.clone()).contains(&key.to_vec())
}

async fn run() {
    let mut random = random("drops");
    let bench = Bench::new(&mut random).await;
    let mut store = bench.open().await.unwrap();
    let mut model = Trees::new();
    for _ in 0..random.random_range(1..6) {
        if random.random_bool(0.8) {
            bench.power.fail_after(random.random_range(1..400));
        }
        let mut cut = None;
        for _ in 0..random.random_range(1..40) {
            let before = model.clone();
            let (what, done) = step(&store, &mut random, &mut model).await;
            if done.is_err() || bench.power.is_off() {
                assert!(bench.power.is_off(), "{done:?}");
                cut = done.is_err().then_some((before, what));
                break;
            }
            if random.random_bool(0.1) && store.checkpoint().await.is_err() {
                break;
            }
        }
        drop(store);
        bench.restart();
        store = bench.open().await.unwrap();
        let there = content(&store).await;
        match cut {
            Some((before, Step::Whole)) => {
                let mut made = before.clone();
                // A tree that was made for a batch that did not come is there, and empty.
                if let Some(name) = there.keys().find(|name| !before.contains_key(*name)) {
                    made.insert(name.clone(), Records::new());
                }
                let is_one_of = there == model || there == before || there == made;
                assert!(is_one_of, "{there:?}\nis neither {before:?}\nnor {model:?}");
            }
            Some((before, Step::Range(name, range))) => {
                for (tree, records) in &before {
                    for (key, value) in records {
                        let found = there[tree].get(key);
                        let may_be_gone = *tree == name && is_in(&range, key);
                        assert!(found == Some(value) || (may_be_gone && found.is_none()));
                    }
                    assert!(there[tree].keys().all(|key| records.contains_key(key)));
                }
                assert_eq!(there.len(), before.len());
            }
            Some((mut before, Step::Ingest(name, records))) => {
                let mut is_there = there == before;
                for record in records {
                    before.get_mut(&name).unwrap().extend([record]);
                    is_there |= there == before;
                }
                assert!(is_there, "{there:?}\nis not {before:?} with some of the last records");
            }
            None => assert_eq!(there, model),
        }
        model = there;
    }
    if random.random_bool(0.3) {
        no_long_value_is_left(&store).await;
    }
}

/// Once all is dropped and swept.
async fn no_long_value_is_left(store: &Store) {
    for name in store.trees().await.unwrap() {
        store.drop_tree(&name).await.unwrap();
    }
    moirai_runtime::sleep(moirai_units::Nanos(10_000_000_000)).await;
    assert_eq!(store.figures().long_bytes, 0);
}

#[test]
fn dropped_trees_and_ranges_are_gone_and_nothing_else() {
    each_seed(if cfg!(debug_assertions) { 150 } else { 5000 }, run);
}

/// Next to nothing of either is read.
#[test]
fn the_space_of_a_dropped_tree_and_of_a_range_is_free_at_once() {
    block_on_virtual(1, async {
        let mut random = random("space");
        let mut bench = Bench::with_partitions(&mut random, 16).await;
        bench.options = Options { memory: ByteCount::mib(1), ..Options::default() };
        let store = bench.open().await.unwrap();
        let empty = store.figures();
        let capacity = BlockCount(60_000).bytes().0;
        for round in 0..4_u64 {
            let tree = store.tree("t").await.unwrap();
            let mut batch = Batch::new();
            for number in 0..100_000_u64 {
                let key = number.wrapping_mul(0x9e37_79b9_7f4a_7c15).to_be_bytes();
                batch.put(&tree, &key, &[round as u8; 100]);
                if batch.len() == 100 {
                    store.commit(&batch).await.unwrap();
                    batch.clear();
                }
            }
            store.checkpoint().await.unwrap();
            let full = store.figures();
            assert!(full.data_free_bytes < empty.data_free_bytes - capacity / 4, "{full:?}");
            match round % 2 {
                0 => assert!(store.drop_tree("t").await.unwrap()),
                // All but the first and the last.
                _ => {
                    let from = [0, 1, 0, 0, 0, 0, 0, 0];
                    store.delete_range(&tree, &from[..]..&[255, 254][..]).await.unwrap();
                    let left = store.count(&tree, ..).await.unwrap();
                    assert!((1..10).contains(&left), "{left}");
                    assert!(store.drop_tree("t").await.unwrap());
                }
            }
            let figures = store.figures();
            assert!(figures.reads - full.reads < full.blocks / 20, "{figures:?}");
            assert!(figures.swept_bytes - full.swept_bytes < capacity / 100, "{figures:?}");
            assert!(figures.data_free_bytes + capacity / 50 > empty.data_free_bytes, "{figures:?}");
        }
        // What is left of the partitions is merged.
        assert_eq!(store.trees().await.unwrap(), [""; 0]);
        moirai_runtime::sleep(moirai_units::Nanos(60_000_000_000)).await;
        let figures = store.figures();
        assert!(figures.partitions <= 8, "{figures:?}");
        store.close().await.unwrap();
        // Their spaces are for the next trees.
        let store = bench.open().await.unwrap();
        let spaces = store.figures().partitions;
        for name in ["one", "two", "three"] {
            let tree = store.tree(name).await.unwrap();
            assert_eq!(store.count(&tree, ..).await.unwrap(), 0);
        }
        assert_eq!(store.figures().partitions, spaces);
    });
}

#[test]
fn a_drop_that_is_refused_changes_nothing() {
    block_on_virtual(1, async {
        let bench = Bench::with_partitions(&mut random("read only"), 16).await;
        let store = bench.open().await.unwrap();
        let tree = store.tree("a").await.unwrap();
        store.put(&tree, b"k", b"v").await.unwrap();
        store.close().await.unwrap();
        let options = Options { read_only: true, ..bench.options };
        let store = Bench { options, ..bench }.open().await.unwrap();
        store.drop_tree("a").await.unwrap_err();
        let tree = store.find_tree("a").await.unwrap().unwrap();
        assert_eq!(store.get(&tree, b"k").await.unwrap(), Some(b"v".to_vec()));
    });
}

#[test]
fn a_full_store_drops_trees_and_takes_as_much_again() {
    block_on_virtual(1, async {
        let bench = Bench::with_partitions(&mut random("full"), 16).await;
        let store = bench.open().await.unwrap();
        let fill = async |name: &str| {
            let tree = store.tree(name).await.unwrap();
            for number in 0.. {
                match store.put(&tree, &u64::to_be_bytes(number), &[7; 100]).await {
                    Ok(()) => {}
                    Err(Error::Update(moirai_update::Error::Full { .. })) => return number,
                    Err(error) => panic!("{error}"),
                }
            }
            0
        };
        let first = fill("a").await;
        assert!(first > 100_000, "{first}");
        for name in ["b", "c", "d"] {
            let before = store.trees().await.unwrap();
            assert!(store.drop_tree(&before[0]).await.unwrap());
            assert_eq!(store.trees().await.unwrap(), [""; 0]);
            let again = fill(name).await;
            assert!(again > first - first / 50, "{again} of {first}");
        }
    });
}
