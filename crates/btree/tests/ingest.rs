//! Records that are ingested: what goes in where, what is refused, and what it costs.

#![expect(clippy::unwrap_used, reason = "a test stops at what it did not expect")]

use std::collections::BTreeMap;
use std::sync::Arc;

use futures::FutureExt;
use futures::future::{join, select};
use moirai_btree::{AddU64, Direction, Error, Store, Tree, with_leaves};
use moirai_devices::{FaultyDevice, Power};
use moirai_runtime::{block_on_virtual, sleep};
use moirai_storage::Device;
use moirai_units::{BlockCount, ByteCount, Lbn, Nanos};
use moirai_update::{Error as UpdateError, Format, KindNumber, Kinds, Options};

const COUNT: KindNumber = KindNumber(16);
const LEAF: u64 = 1024;

type Records = BTreeMap<Vec<u8>, Vec<u8>>;

struct Bench {
    data: Arc<FaultyDevice>,
    log: Arc<FaultyDevice>,
    options: Options,
}

impl Bench {
    async fn new(data_bytes: u64, log_bytes: u64, memory: ByteCount) -> Bench {
        let power = Power::on();
        let device = |name: &str, bytes| {
            let capacity = BlockCount(bytes / 512);
            FaultyDevice::new(name.into(), capacity, BlockCount(16), Arc::clone(&power))
        };
        let (data, log) = (device("data", data_bytes), device("log", log_bytes));
        let format = Format { partition_blocks: 16, ..with_leaves(ByteCount(LEAF)) };
        Store::format(&*data, &[Arc::clone(&log) as _], format).await.unwrap();
        Bench { data, log, options: Options { memory, ..Options::default() } }
    }

    async fn open(&self) -> (Store, Tree) {
        let mut kinds = Kinds::new();
        kinds.register(COUNT, Arc::new(AddU64)).unwrap();
        let logs = [Arc::clone(&self.log) as Arc<dyn Device>];
        let store = Store::open(Arc::clone(&self.data) as _, &logs, kinds, self.options);
        let store = store.await.unwrap();
        let tree = store.tree("t").await.unwrap();
        (store, tree)
    }
}

fn key(number: u32) -> Vec<u8> {
    format!("key {number:08}").into_bytes()
}

fn records(numbers: impl IntoIterator<Item = u32>, byte: u8) -> Records {
    numbers.into_iter().map(|number| (key(number), vec![byte; 40])).collect()
}

async fn content(store: &Store, tree: &Tree) -> Records {
    let mut scan = store.scan(tree, .., Direction::Forward);
    let mut all = Records::new();
    while let Some((key, value)) = scan.next().await.unwrap() {
        all.insert(key.to_vec(), value.to_vec());
    }
    all
}

fn update_error(error: Error) -> UpdateError {
    match error {
        Error::Update(error) => error,
        other => panic!("{other}"),
    }
}

#[test]
fn an_empty_tree_is_filled_with_full_leaves_that_are_written_once() {
    block_on_virtual(1, async {
        let bench = Bench::new(64 << 20, 4 << 20, ByteCount::mib(4)).await;
        let (store, tree) = bench.open().await;
        let all = records(0..200_000, 1);
        let before = store.figures();
        assert_eq!(store.ingest(&tree, &all).await.unwrap(), 200_000);
        let figures = store.figures();
        // A record takes 58 bytes, and a leaf holds 17.
        let leaves = 200_000_u64.div_ceil(17);
        assert!((leaves..leaves + leaves / 100).contains(&figures.blocks), "{figures:?}");
        let placed = figures.placed_bytes - before.placed_bytes;
        let (least, most) = (leaves * LEAF, leaves * LEAF + leaves * LEAF / 25);
        assert!((least..most).contains(&placed), "{placed} of {least}");
        let logged = figures.log_bytes - before.log_bytes;
        assert!(logged < placed / 50, "{logged}");
        assert_eq!(figures.swept_bytes, before.swept_bytes);
        drop(store);
        let (store, tree) = bench.open().await;
        assert!(content(&store, &tree).await == all);
        store.close().await.unwrap();
        let (store, tree) = bench.open().await;
        assert!(content(&store, &tree).await == all);
        assert_eq!(store.check().await, []);
    });
}

#[test]
fn records_come_after_earlier_changes_and_before_later_ones() {
    block_on_virtual(1, async {
        let bench = Bench::new(64 << 20, 4 << 20, ByteCount(256 << 10)).await;
        let (store, tree) = bench.open().await;
        let mut model = records((0..30_000).step_by(2), 1);
        store.ingest(&tree, &model).await.unwrap();
        for round in 0..3_u8 {
            let one = 1_u64.to_le_bytes();
            for number in (0..30_000).step_by(97) {
                store.put(&tree, &key(number), b"before").await.unwrap();
                store.merge(&tree, COUNT, &key(number + 1), &one).await.unwrap();
                store.delete(&tree, &key(number + 2)).await.unwrap();
                model.insert(key(number), b"before".to_vec());
                let count = model.entry(key(number + 1)).or_default();
                let sum = count.first_chunk().map_or(0, |first| u64::from_le_bytes(*first)) + 1;
                *count = sum.to_le_bytes().to_vec();
                model.remove(&key(number + 2));
            }
            // Among them, over them, and behind them.
            let some = (10_000..40_000).step_by([1, 3, 7][usize::from(round)]);
            let more = records(some, 10 + round);
            store.ingest(&tree, &more).await.unwrap();
            model.extend(more);
            for number in (0..40_000).step_by(1009) {
                store.delete(&tree, &key(number)).await.unwrap();
                store.put(&tree, &key(number + 1), b"after").await.unwrap();
                model.remove(&key(number));
                model.insert(key(number + 1), b"after".to_vec());
            }
            assert!(content(&store, &tree).await == model);
        }
        drop(store);
        let (store, tree) = bench.open().await;
        assert!(content(&store, &tree).await == model);
        store.checkpoint().await.unwrap();
        assert!(content(&store, &tree).await == model);
    });
}

#[test]
fn records_that_are_refused_are_left_out_and_those_before_are_durable() {
    block_on_virtual(1, async {
        let bench = Bench::new(64 << 20, 4 << 20, ByteCount::mib(4)).await;
        let (store, tree) = bench.open().await;
        let all = records(0..5000, 1);
        let mut ingest = store.ingest_into(&tree).unwrap();
        for (key, value) in &all {
            ingest.push(key, value).await.unwrap();
        }
        for number in [4999, 4998, 0] {
            let refused = update_error(ingest.push(&key(number), b"").await.unwrap_err());
            let UpdateError::Unsorted { key: bad, before } = refused else { panic!("{refused}") };
            assert_eq!((&bad[..], &before[..]), (&key(number)[..], &key(4999)[..]));
            assert_eq!((ingest.pushed(), ingest.durable()), (5000, 5000));
        }
        assert!(content(&store, &tree).await == all);
        let refused = update_error(ingest.push(&[b'z'; 400], b"").await.unwrap_err());
        assert!(matches!(refused, UpdateError::TooLong { have: 400, .. }), "{refused}");
        // It goes on.
        ingest.push(&key(5000), &[1; 40]).await.unwrap();
        assert_eq!(ingest.finish().await.unwrap(), 5001);
        assert!(content(&store, &tree).await == records(0..5001, 1));
        // Batches that are cut off in the middle leave some of the records.
        let more = records(0..100_000, 2);
        let ingest = store.ingest(&tree, &more).map(drop).boxed_local();
        drop(select(ingest, std::pin::pin!(sleep(Nanos(50_000_000)))).await);
        sleep(Nanos(1_000_000_000)).await;
        let there = content(&store, &tree).await;
        let count = there.values().filter(|value| value[0] == 2).count();
        assert!((1..100_000).contains(&count), "{count}");
        assert!(there.values().take(count).all(|value| value[0] == 2));
        assert!(store.drop_tree("t").await.unwrap());
        assert!(matches!(store.ingest_into(&tree), Err(Error::Dropped { .. })));
        store.close().await.unwrap();
        let bench = Bench { options: Options { read_only: true, ..bench.options }, ..bench };
        let logs = [Arc::clone(&bench.log) as Arc<dyn Device>];
        let store = Store::open(Arc::clone(&bench.data) as _, &logs, Kinds::new(), bench.options);
        let store = store.await.unwrap();
        assert!(store.find_tree("t").await.unwrap().is_none());
    });
}

#[test]
fn a_full_store_refuses_a_batch_and_goes_on_with_it_once_there_is_space() {
    block_on_virtual(1, async {
        let bench = Bench::new(8 << 20, 1 << 20, ByteCount::mib(1)).await;
        let (store, tree) = bench.open().await;
        let other = store.tree("other").await.unwrap();
        store.ingest(&other, &records(0..30_000, 1)).await.unwrap();
        let mut ingest = store.ingest_into(&tree).unwrap();
        let mut number = 0;
        // The first refusal opens what is kept free until a store was full once. After the second there is nothing left.
        for _ in 0..2 {
            let full = loop {
                match ingest.push(&key(number), &[2; 40]).await {
                    Ok(()) => number += 1,
                    Err(error) => break update_error(error),
                }
            };
            assert!(matches!(full, UpdateError::Full { .. }), "{full}");
        }
        // All but some batches and the reserve.
        assert!((60_000..110_000).contains(&number), "{number}");
        assert!(ingest.push(&key(number), &[2; 40]).await.is_err());
        assert!(ingest.flush().await.is_err());
        let (pushed, durable) = (u64::from(number), ingest.durable());
        assert!(
            ingest.pushed() == pushed && (pushed * 3 / 4..pushed).contains(&durable),
            "{durable}"
        );
        assert_eq!(store.get(&tree, &key(10)).await.unwrap(), Some(vec![2; 40]));
        store.delete(&other, &key(7)).await.unwrap();
        assert!(store.drop_tree("other").await.unwrap());
        for number in number..number + 20_000 {
            ingest.push(&key(number), &[2; 40]).await.unwrap();
        }
        ingest.finish().await.unwrap();
        assert!(content(&store, &tree).await == records(0..number + 20_000, 2));
        store.close().await.unwrap();
        let (store, tree) = bench.open().await;
        store.put(&tree, b"one", b"more").await.unwrap();
        assert_eq!(store.count(&tree, ..).await.unwrap(), u64::from(number) + 20_001);
        assert_eq!(store.check().await, []);
    });
}

/// What the sweeper has to say finds no room in the log, again and again.
#[test]
fn a_tiny_log_is_enough_for_much_beside_commits() {
    block_on_virtual(1, async {
        let bench = Bench::new(64 << 20, 40 << 10, ByteCount::mib(2)).await;
        let (store, tree) = bench.open().await;
        let mut model = records((0..200_000).map(|number| 2 * number), 1);
        let ingest = store.ingest(&tree, &model);
        let commit = async {
            for number in 0..1000 {
                store.put(&tree, &key(2 * number * 97 + 1), &[3; 40]).await.unwrap();
            }
        };
        let (count, ()) = join(ingest, commit).await;
        assert_eq!(count.unwrap(), 200_000);
        model.extend(records((0..1000).map(|number| 2 * number * 97 + 1), 3));
        assert!(content(&store, &tree).await == model);
        drop(store);
        let (store, tree) = bench.open().await;
        assert!(content(&store, &tree).await == model);
    });
}

#[test]
fn a_partition_that_cannot_be_read_ends_an_ingest_before_it() {
    block_on_virtual(1, async {
        let bench = Bench::new(64 << 20, 4 << 20, ByteCount::mib(1)).await;
        let (store, tree) = bench.open().await;
        let old = records(0..20_000, 1);
        store.ingest(&tree, &old).await.unwrap();
        store.close().await.unwrap();
        // Some leaf in the middle.
        let (mut lbn, mut found) = (Lbn(0), None);
        while found.is_none() {
            let device: &dyn Device = &*bench.data;
            let run = moirai_units::BlockRange::new(lbn, BlockCount(2048));
            let content = device.read(run).await.unwrap();
            let text = key(10_000);
            found = content.windows(text.len()).position(|some| some == text);
            lbn = Lbn(lbn.0 + 2000);
        }
        bench.data.make_unreadable(Lbn(lbn.0 - 2000 + found.unwrap() as u64 / 512));
        let (store, tree) = bench.open().await;
        store.put(&tree, &key(9), b"pending").await.unwrap();
        let new = records(0..20_000, 2);
        let refused = update_error(store.ingest(&tree, &new).await.unwrap_err());
        assert!(matches!(refused, UpdateError::Unreadable { .. }), "{refused}");
        // Records are there up to the leaf, and the others as they were.
        let read = async |number| store.get(&tree, &key(number)).await;
        assert_eq!(read(0).await.unwrap().unwrap()[0], 2);
        assert_eq!(read(19_999).await.unwrap().unwrap()[0], 1);
        let mut last = 2;
        for number in 0..20_000 {
            if let Ok(value) = read(number).await {
                let now = value.unwrap()[0];
                assert!(now <= last, "{number}");
                last = now;
            }
        }
        store.put(&tree, &key(5), b"more").await.unwrap();
        store.close().await.unwrap();
    });
}

/// Both tasks are the store's, and who pushes may stop in the middle.
#[test]
fn a_store_closes_and_compares_while_a_batch_is_written() {
    block_on_virtual(1, async {
        let bench = Bench::new(64 << 20, 4 << 20, ByteCount::mib(1)).await;
        let (store, tree) = bench.open().await;
        let mut ingest = store.ingest_into(&tree).unwrap();
        for number in 0..20_000 {
            ingest.push(&key(number), &[1; 40]).await.unwrap();
            if number % 5000 == 0 {
                let swapped = store.compare_and_swap(&tree, b"lock", None, Some(b"me")).await;
                assert_eq!(swapped.unwrap().is_ok(), number == 0);
            }
        }
        drop(ingest);
        store.close().await.unwrap();
        let (store, tree) = bench.open().await;
        let count = store.count(&tree, ..).await.unwrap() - 1;
        assert!((1..=20_000).contains(&count), "{count}");
        let mut there = content(&store, &tree).await;
        assert_eq!(there.remove(&b"lock"[..]).as_deref(), Some(&b"me"[..]));
        assert!(there == records(0..count as u32, 1));
    });
}

#[test]
fn long_values_are_ingested_among_others() {
    block_on_virtual(1, async {
        let bench = Bench::new(30 << 20, 1 << 20, ByteCount::mib(1)).await;
        let (store, tree) = bench.open().await;
        let records = (0..500_u64).map(|number| {
            let length = if number % 100 == 7 { 200_000 } else { 20 };
            (number.to_be_bytes(), vec![number as u8; length])
        });
        let expected: Vec<_> = records.map(|(key, value)| (key.to_vec(), value)).collect();
        assert_eq!(store.ingest(&tree, expected.clone()).await.unwrap(), 500);
        let mut scan = store.scan(&tree, .., Direction::Forward);
        for (key, value) in &expected {
            let found = scan.next().await.unwrap();
            assert!(found == Some((&key[..], &value[..])));
        }
        assert!(scan.next().await.unwrap().is_none());
    });
}
