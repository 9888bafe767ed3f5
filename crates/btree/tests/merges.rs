//! Merges that do not fit the value that they meet.

#![expect(clippy::unwrap_used, reason = "a test stops at what it did not expect")]

use std::sync::Arc;

use moirai_btree::{AddDecimal, Store, with_leaves};
use moirai_devices::{FaultyDevice, Power};
use moirai_runtime::{block_on_virtual, sleep};
use moirai_storage::Device;
use moirai_units::{BlockCount, ByteCount, Nanos};
use moirai_update::{Format, KindNumber, Kinds, Options};

const ADD: KindNumber = KindNumber(17);

async fn open(data: &Arc<FaultyDevice>, log: &Arc<FaultyDevice>) -> Store {
    let mut kinds = Kinds::new();
    kinds.register(ADD, Arc::new(AddDecimal)).unwrap();
    let log: Arc<dyn Device> = Arc::clone(log) as _;
    Store::open(Arc::clone(data) as _, &[log], kinds, Options::default()).await.unwrap()
}

/// Text stays as it is, whether the merge is pending or swept, and a merge that is applied counts, for good.
#[test]
fn merges_into_text_keep_it_and_are_counted() {
    block_on_virtual(1, async {
        let power = Power::on();
        let device = |name: &str, blocks| {
            FaultyDevice::new(name.into(), BlockCount(blocks), BlockCount(16), Arc::clone(&power))
        };
        let (data, log) = (device("data", 60_000), device("log", 2000));
        let format = Format { staging_percent: 0, ..with_leaves(ByteCount(4096)) };
        Store::format(&*data, &[Arc::clone(&log) as _], format).await.unwrap();
        let store = open(&data, &log).await;
        let tree = store.tree("fruit").await.unwrap();
        store.put(&tree, b"name", b"apple").await.unwrap();
        store.put(&tree, b"count", b"7").await.unwrap();
        store.checkpoint().await.unwrap();
        store.merge(&tree, ADD, b"name", b"5").await.unwrap();
        store.merge(&tree, ADD, b"count", b"5").await.unwrap();
        store.merge(&tree, ADD, b"new", b"5").await.unwrap();
        let check = async |store: &Store, refused: u64| {
            let tree = store.tree("fruit").await.unwrap();
            for (key, value) in [(&b"name"[..], &b"apple"[..]), (b"count", b"12"), (b"new", b"5")] {
                assert_eq!(store.get(&tree, key).await.unwrap().as_deref(), Some(value));
            }
            assert_eq!(store.figures().refused, refused);
        };
        check(&store, 0).await;
        store.checkpoint().await.unwrap();
        check(&store, 1).await;
        store.close().await.unwrap();
        let store = open(&data, &log).await;
        check(&store, 1).await;
        // A crash: the count comes back from the log.
        let tree = store.tree("fruit").await.unwrap();
        store.merge(&tree, ADD, b"name", b"6").await.unwrap();
        store.checkpoint().await.unwrap();
        drop(store);
        check(&open(&data, &log).await, 2).await;
    });
}

/// Merges that no value takes leave a long one where it lies.
#[test]
fn a_long_value_that_takes_no_merge_is_not_written_again() {
    block_on_virtual(1, async {
        let device = |name: &str, blocks| {
            FaultyDevice::new(name.into(), BlockCount(blocks), BlockCount(16), Power::on())
        };
        let (data, log) = (device("data", 20_000), device("log", 2000));
        let logs = [Arc::clone(&log) as Arc<dyn Device>];
        Store::format(&*data, &logs, with_leaves(ByteCount(4096))).await.unwrap();
        let store = open(&data, &log).await;
        let tree = store.tree("t").await.unwrap();
        let text = vec![b'x'; 100_000];
        store.put(&tree, b"text", &text).await.unwrap();
        store.checkpoint().await.unwrap();
        sleep(Nanos(20_000_000_000)).await;
        let before = store.figures();
        for _ in 0..3 {
            store.merge(&tree, ADD, b"text", b"5").await.unwrap();
            store.checkpoint().await.unwrap();
            sleep(Nanos(20_000_000_000)).await;
        }
        let after = store.figures();
        assert_eq!(after.refused, 3);
        assert_eq!(
            (after.long_written_bytes, after.long_bytes),
            (before.long_written_bytes, before.long_bytes)
        );
        assert!(store.get(&tree, b"text").await.unwrap() == Some(text));
    });
}
