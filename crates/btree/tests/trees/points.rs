//! Read points: what they show stays as it was, whatever happens to the trees.

use moirai_btree::{Batch, Direction, Draft, Error, KeyRange, ReadPoint, Reader, Store};
use moirai_runtime::{Random, block_on_virtual, each_seed, random, sleep};
use moirai_units::{ByteCount, Nanos};
use moirai_update::Options;
use rand::Rng;

use crate::bench::{APPEND, Bench, any_change, any_key};
use crate::drops::{Trees, step};
use crate::records_of;

/// All records that a reader shows, from both ends.
async fn content(reader: Reader<'_>) -> moirai_btree::Result<Trees> {
    let mut trees = Trees::new();
    for name in reader.trees().await? {
        let tree = reader.find_tree(&name).await?.unwrap();
        let all = records_of(reader.scan(&tree, KeyRange::all(), Direction::Forward)).await?;
        let mut back = records_of(reader.scan(&tree, KeyRange::all(), Direction::Backward)).await?;
        back.reverse();
        assert!(all == back, "{name}");
        trees.insert(name, all.into_iter().collect());
    }
    Ok(trees)
}

/// Compares what a reader shows with what should be there.
async fn compare(
    reader: Reader<'_>,
    expected: &Trees,
    random: &mut Random,
) -> moirai_btree::Result<()> {
    let content = content(reader).await?;
    assert!(content == *expected, "{content:?}\nis not {expected:?}");
    for (name, records) in expected {
        let tree = reader.find_tree(name).await?.unwrap();
        let keys: Vec<Vec<u8>> = (0..10).map(|_| any_key(random)).collect();
        let values = reader.multi_get(&tree, &keys).await?;
        for (key, value) in keys.iter().zip(values) {
            assert_eq!(value.as_ref(), records.get(key));
            assert_eq!(reader.get(&tree, key).await?, value);
            assert_eq!(reader.contains(&tree, key).await?, value.is_some());
            let value_reader = reader.read_value(&tree, key).await?;
            assert_eq!(
                value_reader.map(|one| one.length().0),
                value.map(|value| value.len() as u64)
            );
        }
        let from = any_key(random);
        let count = records.range(from.clone()..).count() as u64;
        assert_eq!(reader.count(&tree, &from[..]..).await?, count);
        let first = records.first_key_value().map(|(key, value)| (key.clone(), value.clone()));
        assert_eq!(reader.first(&tree).await?, first);
    }
    Ok(())
}

/// Changes to the trees of a reader, in a draft and in a model.
async fn any_draft(
    reader: Reader<'_>,
    random: &mut Random,
    model: &mut Trees,
) -> moirai_btree::Result<Draft> {
    let mut draft = Draft::new();
    for (name, records) in model {
        let tree = reader.find_tree(name).await?.unwrap();
        for _ in 0..random.random_range(0..40) {
            any_change(random, &tree, &mut draft, records);
        }
    }
    Ok(draft)
}

fn is_too_old(error: &Error) -> bool {
    matches!(error, Error::Update(moirai_update::Error::PointTooOld { .. }))
}

async fn run() {
    let mut random = random("points");
    let mut bench = Bench::new(&mut random).await;
    if random.random_bool(0.8) {
        bench.options.memory = ByteCount::mib(1);
    }
    let store = bench.open().await.unwrap();
    let mut model = Trees::new();
    let mut held: Vec<(ReadPoint<'_>, Trees)> = Vec::new();
    for _ in 0..random.random_range(1..60) {
        let looked_at = random.random_range(0..5);
        let seed = random.random();
        let (done, looked) = futures::future::join(step(&store, &mut random, &mut model), async {
            let (point, expected) = held.get(looked_at)?;
            let mut random: Random = rand::SeedableRng::seed_from_u64(seed);
            compare(point.reader(), expected, &mut random).await.err()
        })
        .await;
        done.1.unwrap();
        if let Some(error) = looked {
            assert!(is_too_old(&error), "{error}");
            held.remove(looked_at);
        }
        match random.random_range(0..7) {
            0 => store.checkpoint().await.unwrap(),
            1 | 2 if held.len() < 5 => held.push((store.read_point().await, model.clone())),
            3 if !held.is_empty() => drop(held.remove(random.random_range(0..held.len()))),
            5 if !model.is_empty() => {
                let mut expected = model.clone();
                let draft = any_draft(store.now(), &mut random, &mut expected).await.unwrap();
                compare(store.now().over(&draft).unwrap(), &expected, &mut random).await.unwrap();
                if let Some((point, before)) = held.first() {
                    // The trees may be others by now.
                    let mut expected = before.clone();
                    let draft = any_draft(point.reader(), &mut random, &mut expected).await;
                    let looked = async {
                        let draft = draft?;
                        compare(point.reader().over(&draft)?, &expected, &mut random).await
                    };
                    looked
                        .await
                        .or_else(|error| match is_too_old(&error) {
                            true => Ok(()),
                            false => Err(error),
                        })
                        .unwrap();
                }
                if random.random() {
                    store.commit(&draft.batch()).await.unwrap();
                    model = expected;
                }
            }
            4 => sleep(Nanos(random.random_range(0..3_000_000_000))).await,
            _ => {}
        }
    }
    for (point, expected) in &held {
        match compare(point.reader(), expected, &mut random).await {
            Err(error) => assert!(is_too_old(&error), "{error}"),
            Ok(()) => assert!(point.is_live()),
        }
    }
    drop(held);
    assert_eq!(store.figures().read_points, 0);
}

#[test]
fn read_points_show_what_was_there() {
    each_seed(if cfg!(debug_assertions) { 150 } else { 5000 }, run);
}

/// Overwrites all records of a tree, several times.
async fn overwrite(store: &Store, round: u64) {
    let tree = store.tree("t").await.unwrap();
    let mut batch = Batch::new();
    for number in 0..40_000_u64 {
        let key = number.wrapping_mul(0x9e37_79b9_7f4a_7c15).to_be_bytes();
        batch.put(&tree, &key, &[round as u8; 100]);
        if batch.len() == 100 {
            store.commit(&batch).await.unwrap();
            batch.clear();
        }
    }
}

/// Its space comes back once it is dropped; where the device is full before, it ends, and commits go on.
#[test]
fn a_full_device_ends_the_oldest_read_point() {
    block_on_virtual(1, async {
        let mut random = random("full");
        // 30 MB for 4.3 MB of records.
        let mut bench = Bench::with_partitions(&mut random, 16).await;
        bench.options = Options { memory: ByteCount::mib(8), ..Options::default() };
        let store = bench.open().await.unwrap();
        overwrite(&store, 0).await;
        store.checkpoint().await.unwrap();
        let tree = store.tree("t").await.unwrap();
        let key = 7_u64.wrapping_mul(0x9e37_79b9_7f4a_7c15).to_be_bytes();

        let point = store.read_point().await;
        overwrite(&store, 1).await;
        store.checkpoint().await.unwrap();
        assert_eq!(point.reader().get(&tree, &key).await.unwrap(), Some(vec![0; 100]));
        let with_point = store.figures();
        drop(point);
        // What was rewritten meanwhile is free again as soon as nobody reads it.
        let after = store.figures();
        let kept = after.data_free_bytes - with_point.data_free_bytes;
        assert!(kept > 1_000_000, "{kept} bytes were kept");

        let mut points = Vec::new();
        for round in 2..12 {
            points.push((store.read_point().await, round - 1));
            overwrite(&store, round).await;
            store.checkpoint().await.unwrap();
        }
        let mut too_old = 0;
        for (point, round) in &points {
            match point.reader().get(&tree, &key).await {
                Err(error) if is_too_old(&error) => {
                    assert!(!point.is_live());
                    too_old += 1;
                }
                value => assert_eq!(value.unwrap(), Some(vec![*round as u8; 100])),
            }
        }
        // The oldest ended first.
        assert!((1..10).contains(&too_old), "{too_old}");
        assert!(points[..too_old].iter().all(|(point, _)| !point.is_live()));
        assert_eq!(store.figures().read_points, 10 - too_old as u64);
        drop(points);
        store.close().await.unwrap();
    });
}

/// Several that share what they keep: all of them end before a commit is refused.
#[test]
fn read_points_that_share_versions_end_before_a_commit_is_refused() {
    block_on_virtual(1, async {
        let mut random = random("shared");
        let mut bench = Bench::with_blocks(&mut random, 16, 15_000).await;
        bench.options = Options { memory: ByteCount::mib(2), ..Options::default() };
        let store = bench.open().await.unwrap();
        overwrite(&store, 0).await;
        store.checkpoint().await.unwrap();
        let points = [store.read_point().await, store.read_point().await, store.read_point().await];
        for round in 1..6 {
            overwrite(&store, round).await;
            store.checkpoint().await.unwrap();
        }
        assert!(points.iter().all(|point| !point.is_live()));
        store.close().await.unwrap();
    });
}

/// Each shows the number of operands that came before it.
#[test]
fn a_thousand_read_points_at_once() {
    block_on_virtual(1, async {
        let mut random = random("thousand");
        let mut bench = Bench::with_partitions(&mut random, 16).await;
        bench.options = Options { memory: ByteCount::mib(8), ..Options::default() };
        let store = bench.open().await.unwrap();
        let tree = store.tree("t").await.unwrap();
        let key = |number: u64| number.wrapping_mul(0x9e37_79b9_7f4a_7c15).to_be_bytes();
        let mut points = Vec::new();
        for round in 0..1000_u64 {
            let mut batch = Batch::new();
            // Each changes a tenth of the records.
            for number in (0..2000).filter(|number| number % 10 == round % 10) {
                batch.merge(&tree, APPEND, &key(number), &[round as u8]);
            }
            store.commit(&batch).await.unwrap();
            if round % 50 == 0 {
                store.checkpoint().await.unwrap();
            }
            points.push(store.read_point().await);
        }
        assert_eq!(store.figures().read_points, 1000);
        for (round, point) in points.iter().enumerate().step_by(37) {
            let mut scan = point.reader().scan(&tree, KeyRange::all(), Direction::Forward);
            let mut records = 0;
            while let Some((_, value)) = scan.next().await.unwrap() {
                let rounds = 1 + round - usize::from(value[0]);
                assert_eq!(value.len(), rounds.div_ceil(10));
                records += 1;
            }
            assert_eq!(records, 200 * (round + 1).min(10));
        }
        // They end in any order.
        while !points.is_empty() {
            points.swap_remove(random.random_range(0..points.len()));
        }
        store.checkpoint().await.unwrap();
        assert_eq!(store.figures().read_points, 0);
        store.close().await.unwrap();
    });
}
