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

/// A store of leaves of 512 bytes with all keys, in the order of the keys, on its data device.
async fn filled() -> (Arc<FaultyDevice>, Store, Tree) {
    let power = Power::on();
    let device = |name: &str, blocks: u64| {
        FaultyDevice::new(name.into(), BlockCount(blocks), BlockCount(16), Arc::clone(&power))
    };
    let data = device("data", DATA_BLOCKS);
    let logs: [Arc<dyn Device>; 1] = [device("log", 4 << 10)];
    let format = Format { partition_blocks: 64, ..with_leaves(ByteCount(512)) };
    Store::format(&*data, &logs, format).await.unwrap();
    let options = Options { memory: ByteCount::mib(1), ..Options::default() };
    let as_device: Arc<dyn Device> = Arc::<FaultyDevice>::clone(&data);
    let store = Store::open(as_device, &logs, Kinds::new(), options).await.unwrap();
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
    (data, store, tree)
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
