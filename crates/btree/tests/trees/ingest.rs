//! Records that are ingested beside commits, against models and through power cuts.

use futures::future::join4;
use moirai_btree::{Batch, Direction, KeyRange, Store, Tree};
use moirai_runtime::{Random, each_seed, random, sleep};
use moirai_units::{ByteCount, Nanos};
use rand::Rng;

use crate::bench::{Bench, COUNT, Records};
use crate::scanned;

/// Records with the keys of a round; those of commits have others, between them.
fn any_sorted(random: &mut Random, round: u8) -> Records {
    let count = random.random_range(1..1500);
    let spread = [1, 7, 1000][random.random_range(0..3)];
    let first = random.random_range(0..2000_u32);
    let value = |random: &mut Random| vec![round; random.random_range(0..100)];
    let key = |number: u32| [&(first + number * spread).to_be_bytes()[..], b"i"].concat();
    (0..count).map(|number| (key(number), value(random))).collect()
}

/// Pushes records with pauses; whether all of them are durable.
async fn ingest(store: &Store, tree: &Tree, records: &Records, random: &mut Random) -> bool {
    let Ok(mut ingest) = store.ingest_into(tree) else { return false };
    let pause = random.random_bool(0.3);
    for (key, value) in records {
        if ingest.push(key, value).await.is_err() {
            return false;
        }
        if pause && random.random_bool(0.01) {
            sleep(Nanos(random.random_range(0..10_000_000))).await;
        }
        if random.random_bool(0.002) && ingest.flush().await.is_err() {
            return false;
        }
    }
    assert_eq!(ingest.pushed(), records.len() as u64);
    ingest.finish().await.is_ok()
}

/// Commits changes of keys between those that are ingested; gives the records with all that is durable, and with the change
/// that failed.
async fn commit(
    store: &Store,
    tree: &Tree,
    before: &Records,
    random: &mut Random,
) -> (Records, Records) {
    let mut durable = before.clone();
    for _ in 0..random.random_range(1..40) {
        let mut now = durable.clone();
        let mut batch = Batch::new();
        for _ in 0..random.random_range(1..40) {
            let number = random.random_range(0..20_000_u32).to_be_bytes();
            let key = [&number[..], b"c"].concat();
            match random.random_bool(0.7) {
                true => {
                    let value = vec![random.random(); random.random_range(0..60)];
                    batch.put(tree, &key, &value);
                    now.insert(key, value);
                }
                false => {
                    batch.delete(tree, &key);
                    now.remove(&key);
                }
            }
        }
        // Counts what is there or not.
        let counter = b"counter".to_vec();
        batch.merge(tree, COUNT, &counter, &1_u64.to_le_bytes());
        let count = now.get(&counter).map_or(0, |count| count[0]);
        now.insert(counter, [count.wrapping_add(1), 0, 0, 0, 0, 0, 0, 0].to_vec());
        if store.commit(&batch).await.is_err() {
            return (durable, now);
        }
        durable = now;
    }
    (durable.clone(), durable)
}

/// The records of `tree` that were ingested, and the others.
async fn divided(store: &Store, tree: &Tree) -> (Records, Records) {
    let all = scanned(store, tree, KeyRange::all(), Direction::Forward).await;
    all.into_iter().partition(|(key, _)| key.ends_with(b"i"))
}

fn check_prefix(there: &Records, before: &Records, records: &Records) {
    let mut now = before.clone();
    let mut is_there = there == before;
    for (key, value) in records {
        now.insert(key.clone(), value.clone());
        // Only the last one can be it, which is cheap to see.
        is_there |= now.len() == there.len() && *there == now;
    }
    assert!(is_there, "of {} records there are {}", records.len(), there.len());
}

async fn run() {
    let mut random = random("ingest");
    let mut bench = Bench::new(&mut random).await;
    bench.options.memory = ByteCount(random.random_range(4..1000) << 10);
    let mut store = bench.open().await.unwrap();
    let mut ingested = [Records::new(), Records::new()];
    let mut committed = Records::new();
    for round in 0..random.random_range(1..4) {
        let trees = [store.tree("one").await.unwrap(), store.tree("other").await.unwrap()];
        let records = [any_sorted(&mut random, round), any_sorted(&mut random, round)];
        if random.random_bool(0.5) {
            bench.power.fail_after(random.random_range(0..300));
        }
        let mut others = ["one", "other", "commits"].map(moirai_runtime::random);
        let [random_one, random_other, random_commits] = &mut others;
        let read = async {
            for _ in 0..3 {
                sleep(Nanos(3_000_000)).await;
                let mut scan = store.scan(&trees[0], .., Direction::Forward);
                let mut last: Option<Vec<u8>> = None;
                while let Ok(Some((key, _))) = scan.next().await {
                    assert!(last.as_ref().is_none_or(|last| key > &last[..]));
                    last = Some(key.to_vec());
                }
                if bench.power.is_off() || store.checkpoint().await.is_err() {
                    return;
                }
            }
        };
        let (one, other, (durable, with_last), ()) = join4(
            ingest(&store, &trees[0], &records[0], random_one),
            ingest(&store, &trees[1], &records[1], random_other),
            commit(&store, &trees[0], &committed, random_commits),
            read,
        )
        .await;
        let are_in = [one, other];
        assert!(one && other || bench.power.is_off());
        // In a store that goes on, too.
        if bench.power.is_off() || random.random_bool(0.5) {
            drop(store);
            bench.restart();
            store = bench.open().await.unwrap();
        } else {
            bench.power.bring_back();
        }
        let trees = [store.tree("one").await.unwrap(), store.tree("other").await.unwrap()];
        for (index, tree) in trees.iter().enumerate() {
            let (there, others) = divided(&store, tree).await;
            let before = &ingested[index];
            match are_in[index] {
                true => {
                    let mut all = before.clone();
                    all.extend(records[index].clone());
                    assert_eq!(there, all);
                }
                false => check_prefix(&there, before, &records[index]),
            }
            ingested[index] = there;
            if index == 0 {
                assert!(others == durable || others == with_last, "commits are lost");
                committed = others;
            }
        }
    }
}

#[test]
fn ingested_records_are_there_up_to_some_key_beside_commits_and_through_power_cuts() {
    each_seed(if cfg!(debug_assertions) { 60 } else { 3000 }, run);
}
