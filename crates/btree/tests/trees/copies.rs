//! Copies of trees, and of whole stores, while updates go on.

use moirai_btree::{Batch, Direction, Error, KeyRange, Store};
use moirai_runtime::{Random, block_on_virtual, each_seed, random};
use moirai_units::ByteCount;
use rand::Rng;

use crate::bench::{Bench, Records, any_change};
use crate::scanned;

async fn records(store: &Store, name: &str) -> Records {
    let tree = store.find_tree(name).await.unwrap().unwrap();
    scanned(store, &tree, KeyRange::all(), Direction::Forward).await.into_iter().collect()
}

/// Changes a tree some times.
async fn change(
    store: &Store,
    random: &mut Random,
    model: &mut Records,
) -> moirai_btree::Result<()> {
    let tree = store.tree("one").await?;
    for _ in 0..random.random_range(1..20) {
        let mut batch = Batch::new();
        for _ in 0..random.random_range(1..60) {
            any_change(random, &tree, &mut batch, model);
        }
        store.commit(&batch).await?;
    }
    Ok(())
}

/// The power fails amid a copy: it is there whole, or there is no such tree, and its space is for the next one.
async fn copy_through_a_power_cut() {
    let mut random = random("copies");
    let mut bench = Bench::new(&mut random).await;
    bench.options.memory = ByteCount::mib(1);
    let store = bench.open().await.unwrap();
    let mut model = Records::new();
    change(&store, &mut random, &mut model).await.unwrap();
    let expected = model.clone();
    bench.power.fail_after(random.random_range(0..60));
    let (copied, changed) = futures::future::join(
        store.copy_tree("one", "copy"),
        change(&store, &mut random, &mut model),
    )
    .await;
    let is_off = bench.power.is_off();
    assert!(is_off || (copied.is_ok() && changed.is_ok()), "{copied:?} {changed:?}");
    drop(store);
    bench.restart();
    let store = bench.open().await.unwrap();
    match store.find_tree("copy").await.unwrap() {
        Some(_) => assert!(records(&store, "copy").await == expected),
        None => assert!(copied.is_err(), "an acknowledged copy is not there"),
    }
    if let Ok(copied) = copied {
        assert_eq!(copied, expected.len() as u64);
        assert!(matches!(store.copy_tree("one", "copy").await, Err(Error::TreeExists { .. })));
    }
    // It may be there although the power failed.
    store.drop_tree("copy").await.unwrap();
    let now = records(&store, "one").await;
    let point = store.read_point().await;
    let copied = store.copy_tree("one", "copy").await;
    assert_eq!(copied.unwrap(), now.len() as u64);
    drop(point);
    assert!(records(&store, "copy").await == now);
}

#[test]
fn copies_are_whole_or_absent() {
    each_seed(if cfg!(debug_assertions) { 60 } else { 2000 }, copy_through_a_power_cut);
}

#[test]
fn all_trees_of_a_read_point_are_copied_to_another_store() {
    block_on_virtual(1, async {
        let mut random = random("backup");
        let mut benches = [Bench::new(&mut random).await, Bench::new(&mut random).await];
        benches.iter_mut().for_each(|bench| bench.options.memory = ByteCount::mib(1));
        let [source, target] = [benches[0].open().await.unwrap(), benches[1].open().await.unwrap()];
        let mut model = Records::new();
        change(&source, &mut random, &mut model).await.unwrap();
        let long: Vec<u8> = (0..3_000_000_u32).map(|number| (number >> 3) as u8).collect();
        let other = source.tree("other").await.unwrap();
        source.put(&other, b"long", &long).await.unwrap();
        source.put(&other, b"short", b"value").await.unwrap();
        let point = source.read_point().await;
        let expected = model.clone();
        let mut told = 0;
        let (copied, changed) = futures::future::join(
            point.copy_to(&target, |_| told += 1),
            change(&source, &mut random, &mut model),
        )
        .await;
        changed.unwrap();
        source.drop_tree("other").await.unwrap();
        let copied = copied.unwrap();
        assert_eq!((copied.trees, copied.records), (2, expected.len() as u64 + 2));
        assert!(told >= 2);
        assert_eq!(target.trees().await.unwrap(), ["one", "other"]);
        assert!(records(&target, "one").await == expected);
        let other = records(&target, "other").await;
        assert!(other[&b"long"[..]] == long && other[&b"short"[..]] == *b"value");
        // Again is refused: what is there stays.
        let again = point.copy_to(&target, |_| {}).await;
        assert!(matches!(again, Err(Error::TreeExists { .. })), "{again:?}");
    });
}

/// The power of the target fails amid a copy of all trees: all are there, or none.
async fn copies_through_a_power_cut() {
    let mut random = random("backups");
    let mut benches = [Bench::new(&mut random).await, Bench::new(&mut random).await];
    benches.iter_mut().for_each(|bench| bench.options.memory = ByteCount::mib(1));
    let source = benches[0].open().await.unwrap();
    let mut expected = Records::new();
    change(&source, &mut random, &mut expected).await.unwrap();
    let other = source.tree("other").await.unwrap();
    source.put(&other, b"key", b"value").await.unwrap();
    let point = source.read_point().await;
    let target = benches[1].open().await.unwrap();
    benches[1].power.fail_after(random.random_range(0..60));
    let copied = point.copy_to(&target, |_| {}).await;
    drop(target);
    benches[1].restart();
    let target = benches[1].open().await.unwrap();
    let names = target.trees().await.unwrap();
    assert!(names.is_empty() || names == ["one", "other"], "{names:?}");
    if names.is_empty() {
        assert!(copied.is_err(), "an acknowledged copy is not there");
        point.copy_to(&target, |_| {}).await.unwrap();
    }
    assert!(records(&target, "one").await == expected);
    assert_eq!(records(&target, "other").await.len(), 1);
}

#[test]
fn copies_of_all_trees_are_there_together_or_not_at_all() {
    each_seed(if cfg!(debug_assertions) { 60 } else { 2000 }, copies_through_a_power_cut);
}
