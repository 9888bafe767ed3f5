//! Stores of more partitions than are looked at while the state is locked: estimates and checks go through them in pieces.

#![expect(clippy::unwrap_used, reason = "a test stops at what it did not expect")]

use std::sync::Arc;

use moirai_btree::{Batch, Store, Tree, with_leaves};
use moirai_devices::{FaultyDevice, Power};
use moirai_runtime::{block_on_virtual, sleep};
use moirai_storage::Device;
use moirai_units::{BlockCount, ByteCount, Lbn, Nanos};
use moirai_update::{Format, Kinds, Options};

const KEYS: u64 = 40_000;
const DATA_BLOCKS: u64 = 64 << 10;

/// A store whose partitions have one leaf of 512 bytes each.
async fn filled() -> (Arc<FaultyDevice>, Store, Tree) {
    let power = Power::on();
    let device = |name: &str, blocks: u64| {
        FaultyDevice::new(name.into(), BlockCount(blocks), BlockCount(16), Arc::clone(&power))
    };
    let data = device("data", DATA_BLOCKS);
    let logs: [Arc<dyn Device>; 1] = [device("log", 4 << 10)];
    let format = Format { partition_blocks: 1, ..with_leaves(ByteCount(512)) };
    Store::format(&*data, &logs, format).await.unwrap();
    let options = Options { memory: ByteCount::mib(2), ..Options::default() };
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
    assert!(store.figures().partitions > 2 << 10, "{:?}", store.figures());
    (data, store, tree)
}

#[test]
fn estimates_go_through_all_partitions() {
    block_on_virtual(1, async {
        let (_, store, tree) = filled().await;
        for (from, to) in [(0, KEYS), (100, KEYS - 100), (0, KEYS / 2), (KEYS / 3, KEYS)] {
            let (first, end) = (from.to_be_bytes(), to.to_be_bytes());
            let estimate = store.estimate(&tree, &first[..]..&end[..]).await.unwrap();
            let error = estimate.records.abs_diff(to - from);
            assert!(error < (to - from) / 10, "{from}..{to}: {estimate:?}");
        }
        let all = store.estimate(&tree, ..).await.unwrap();
        assert!(!all.is_exact && all.records.abs_diff(KEYS) < KEYS / 10, "{all:?}");
    });
}

#[test]
fn check_reads_all_partitions() {
    block_on_virtual(1, async {
        let (data, store, tree) = filled().await;
        assert_eq!(store.check().await, []);
        let mut leaves = Vec::new();
        for lbn in (DATA_BLOCKS / 200..DATA_BLOCKS / 10).step_by(97).map(Lbn) {
            data.corrupt(lbn);
            leaves.extend(store.check().await.into_iter().filter(|one| one.what == "a leaf"));
            data.corrupt(lbn);
        }
        assert!(leaves.len() > 10, "{leaves:?}");
        for damage in leaves {
            let keys = damage.keys.unwrap();
            let to = keys.to.unwrap();
            // The keys of one leaf.
            let records = store.count(&tree, &keys.from[..]..&to[..]).await.unwrap();
            assert!((1..=15).contains(&records), "{records} records");
        }
    });
}

/// Numbers of partitions that are free come in a checkpoint, more of them than an entry of the log may leave out.
#[test]
fn a_store_opens_after_most_partitions_went() {
    block_on_virtual(1, async {
        const RECORDS: u64 = 220_000;
        let power = Power::on();
        let device = |name: &str, blocks: u64| -> Arc<dyn Device> {
            FaultyDevice::new(name.into(), BlockCount(blocks), BlockCount(1), Arc::clone(&power))
        };
        let (data, logs) = (device("data", 600 << 10), [device("log", 8 << 10)]);
        let format = Format { partition_blocks: 1, ..with_leaves(ByteCount(512)) };
        Store::format(&*data, &logs, format).await.unwrap();
        let idle = Some(Nanos(1_000_000));
        let options = Options { memory: ByteCount::mib(128), idle, ..Options::default() };
        let open =
            async || Store::open(Arc::clone(&data), &logs, Kinds::new(), options).await.unwrap();
        let store = open().await;
        let tree = store.tree("many").await.unwrap();
        let records = (0..RECORDS).map(|number| (number.to_be_bytes(), [7; 120]));
        store.ingest(&tree, records).await.unwrap();
        let partitions = store.figures().partitions;
        assert!(partitions > 67_000, "{partitions}");
        let few = store.tree("few").await.unwrap();
        store
            .ingest(&few, (0..1000_u64).map(|number| (number.to_be_bytes(), [8; 110])))
            .await
            .unwrap();
        store.drop_tree("many").await.unwrap();
        sleep(Nanos(60_000_000_000)).await;
        let left = store.figures().partitions;
        assert!(left < 2000, "{left}");
        store.close().await.unwrap();
        let store = open().await;
        let few = store.find_tree("few").await.unwrap().unwrap();
        assert_eq!(store.count(&few, ..).await.unwrap(), 1000);
        assert_eq!(store.check().await, []);
    });
}
