//! Merges that do not fit the value that they meet.

#![expect(clippy::unwrap_used, reason = "a test stops at what it did not expect")]

use std::sync::Arc;

use moirai_btree::{AddDecimal, Store, with_leaves};
use moirai_devices::{FaultyDevice, Power};
use moirai_runtime::block_on_virtual;
use moirai_storage::Device;
use moirai_units::{BlockCount, ByteCount};
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
