//! Long scans: how many requests they take, and what they do at a damaged leaf.

#![expect(clippy::unwrap_used, reason = "a test stops at what it did not expect")]

use std::sync::Arc;

use moirai_btree::{Batch, Direction, Scan, Store, Tree, with_leaves};
use moirai_devices::{FaultyDevice, Power};
use moirai_runtime::block_on_virtual;
use moirai_storage::Device;
use moirai_units::{BlockCount, ByteCount, Lbn};
use moirai_update::{Format, Kinds, Options};

const KEYS: u64 = 40_000;
const DATA_BLOCKS: u64 = 64 << 10;

/// A data device with its log.
struct Devices {
    data: Arc<FaultyDevice>,
    logs: [Arc<dyn Device>; 1],
}

impl Devices {
    async fn open(&self) -> Store {
        let options = Options { memory: ByteCount::mib(1), ..Options::default() };
        let data: Arc<dyn Device> = Arc::<FaultyDevice>::clone(&self.data);
        Store::open(data, &self.logs, Kinds::new(), options).await.unwrap()
    }
}

/// A store of leaves of 512 bytes with all keys, in the order of the keys, on its data device.
async fn filled() -> (Arc<FaultyDevice>, Store, Tree) {
    let (devices, store, tree) = filled_devices().await;
    (devices.data, store, tree)
}

async fn filled_devices() -> (Devices, Store, Tree) {
    let power = Power::on();
    let device = |name: &str, blocks: u64| {
        FaultyDevice::new(name.into(), BlockCount(blocks), BlockCount(16), Arc::clone(&power))
    };
    let data = device("data", DATA_BLOCKS);
    let logs: [Arc<dyn Device>; 1] = [device("log", 4 << 10)];
    let format = Format { partition_blocks: 64, ..with_leaves(ByteCount(512)) };
    Store::format(&*data, &logs, format).await.unwrap();
    let devices = Devices { data, logs };
    let store = devices.open().await;
    let tree = store.tree("t").await.unwrap();
    let mut batch = Batch::new();
    for number in 0..KEYS {
        batch.put(&tree, &number.to_be_bytes(), &[7; 20]);
        if batch.len() == 100 {
            store.commit(&batch).await.unwrap();
            batch.clear();
        }
    }
    store.commit(&batch).await.unwrap();
    store.checkpoint().await.unwrap();
    (devices, store, tree)
}

/// Passes records up to the end, or an error; how many, with the error.
async fn pass_all(scan: &mut Scan<'_>) -> (u64, Option<moirai_btree::Error>) {
    let mut count = 0;
    loop {
        match scan.next().await {
            Ok(Some(_)) => count += 1,
            Ok(None) => return (count, None),
            Err(error) => return (count, Some(error)),
        }
    }
}

#[test]
fn a_long_scan_reads_many_leaves_with_a_request() {
    block_on_virtual(1, async {
        let (_, store, tree) = filled().await;
        let partitions = store.figures().partitions;
        assert!(store.figures().blocks > 2000, "{:?}", store.figures());
        for direction in [Direction::Forward, Direction::Backward] {
            let before = store.figures();
            assert_eq!(pass_all(&mut store.scan(&tree, .., direction)).await.0, KEYS);
            let after = store.figures();
            let staged = after.staged_reads - before.staged_reads;
            // One for each partition, and some while it begins; partitions may lie in two pieces.
            let leaves = after.reads - before.reads - staged;
            assert!(leaves <= 2 * partitions + 8, "{leaves} requests, {partitions} partitions");
            // A staged chunk takes one request for each run of leaves.
            let chunks = before.staged_bytes / 512;
            assert!(staged <= chunks.min(16 * partitions), "{staged} requests");
        }
        // A scan of a few records reads one leaf, and none ahead.
        let before = store.figures();
        let mut scan = store.scan(&tree, &77_u64.to_be_bytes()[..].., Direction::Forward);
        for _ in 0..3 {
            scan.next().await.unwrap().unwrap();
        }
        let after = store.figures();
        let leaves = after.reads - before.reads - (after.staged_reads - before.staged_reads);
        assert!(leaves <= 2, "{leaves} requests");
    });
}

#[test]
fn a_scan_stays_before_a_damaged_leaf_and_goes_on_once_it_can_be_read() {
    block_on_virtual(1, async {
        let (data, store, tree) = filled().await;
        let mut lbns = (DATA_BLOCKS / 50..).map(Lbn);
        let damaged = loop {
            let lbn = lbns.next().unwrap();
            data.corrupt(lbn);
            let hits = store.check().await;
            if hits.iter().any(|one| one.what == "a leaf") {
                break lbn;
            }
            data.corrupt(lbn);
        };
        let mut scan = store.scan(&tree, .., Direction::Forward);
        let (upwards, error) = pass_all(&mut scan).await;
        assert!(matches!(error, Some(moirai_btree::Error::Update(_))), "{error:?}");
        // Another time, and from the other end.
        assert!(pass_all(&mut scan).await.1.is_some());
        let mut back = store.scan(&tree, .., Direction::Backward);
        let (downwards, error) = pass_all(&mut back).await;
        assert!(error.is_some() && upwards > 0 && downwards > 0);
        // No more than one leaf is missing between the two.
        assert!(upwards + downwards + 512 / 28 >= KEYS, "{upwards} and {downwards}");
        data.corrupt(damaged);
        assert_eq!(pass_all(&mut scan).await.0, KEYS - upwards);
        assert_eq!(pass_all(&mut back).await.0, KEYS - downwards);
    });
}

#[test]
fn scan_of_cold_store_reads_tables_with_leaves() {
    block_on_virtual(1, async {
        let (devices, store, _) = filled_devices().await;
        store.close().await.unwrap();
        for direction in [Direction::Forward, Direction::Backward] {
            let store = devices.open().await;
            let tree = store.tree("t").await.unwrap();
            let partitions = store.figures().partitions;
            let (count, error) = pass_all(&mut store.scan(&tree, .., direction)).await;
            assert!(count == KEYS && error.is_none(), "{count} {error:?}");
            let after = store.figures();
            // Partitions may lie in two pieces, and a scan begins with few leaves of the first ones.
            assert!(after.table_reads <= 4, "{after:?}");
            assert!(after.reads - after.staged_reads <= 2 * partitions + 8, "{after:?}");
            store.close().await.unwrap();
        }
    });
}

#[test]
fn scan_of_cold_store_stops_at_damaged_table_and_goes_on_after_it_is_healed() {
    block_on_virtual(1, async {
        let (devices, store, _) = filled_devices().await;
        store.close().await.unwrap();
        // More than a partition: a table lies among them.
        let corrupt = |blocks: std::ops::Range<u64>| {
            blocks.for_each(|lbn| devices.data.corrupt(Lbn(lbn)));
        };
        let many = DATA_BLOCKS / 50..DATA_BLOCKS / 50 + 100;
        let store = devices.open().await;
        let tree = store.tree("t").await.unwrap();
        corrupt(many.clone());
        let (_, error) = pass_all(&mut store.scan(&tree, .., Direction::Forward)).await;
        corrupt(many);
        let Some(moirai_btree::Error::Update(moirai_update::Error::Damaged {
            what, blocks, ..
        })) = error
        else {
            panic!("{error:?}")
        };
        assert!(what.contains("table"), "{what}");
        let damaged = blocks.first;
        store.close().await.unwrap();
        for direction in [Direction::Forward, Direction::Backward] {
            let store = devices.open().await;
            let tree = store.tree("t").await.unwrap();
            devices.data.corrupt(damaged);
            let mut scan = store.scan(&tree, .., direction);
            let (before, error) = pass_all(&mut scan).await;
            assert!(matches!(error, Some(moirai_btree::Error::Update(_))), "{error:?}");
            assert!(pass_all(&mut scan).await.1.is_some());
            devices.data.corrupt(damaged);
            let (after, error) = pass_all(&mut scan).await;
            assert!(before + after == KEYS && error.is_none(), "{before} {after} {error:?}");
            drop(scan);
            store.close().await.unwrap();
        }
    });
}
