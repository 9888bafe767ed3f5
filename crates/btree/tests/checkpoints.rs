//! Checkpoints: what comes while one is written is in the log.

use std::sync::Arc;

use futures::future::join;
use moirai_btree::{Batch, Store, with_leaves};
use moirai_devices::{FaultyDevice, Power};
use moirai_runtime::block_on_virtual;
use moirai_storage::Device;
use moirai_units::{BlockCount, ByteCount};
use moirai_update::{Format, Kinds, Options};

/// A checkpoint is written in parts of 256 KiB, and trees are made between them.
#[test]
fn trees_made_during_a_checkpoint_are_there_after_a_crash() {
    block_on_virtual(1, async {
        let power = Power::on();
        let device = |name: &str, bytes: u64| -> Arc<dyn Device> {
            let capacity = BlockCount(bytes / 512);
            FaultyDevice::new(name.into(), capacity, BlockCount(16), Arc::clone(&power))
        };
        let (data, logs) = (device("data", 512 << 20), [device("log", 8 << 20)]);
        // Small partitions make a long checkpoint.
        let format = Format { partition_blocks: 64, ..with_leaves(ByteCount(512)) };
        Store::format(&*data, &logs, format).await.unwrap();
        let options = Options { memory: ByteCount::mib(16), ..Options::default() };
        let open =
            async || Store::open(Arc::clone(&data), &logs, Kinds::new(), options).await.unwrap();
        let mut store = open().await;
        let tree = store.tree("records").await.unwrap();
        let mut batch = Batch::new();
        for number in 0..1_500_000_u64 {
            let spread = number.wrapping_mul(0x9e37_79b9_7f4a_7c15).to_be_bytes();
            batch.put(&tree, &spread, &[7; 60]);
            if batch.len() == 1000 {
                store.commit(&batch).await.unwrap();
                batch.clear();
            }
        }
        store.checkpoint().await.unwrap();
        let written = store.figures().checkpoint_bytes;
        store.checkpoint().await.unwrap();
        let written = store.figures().checkpoint_bytes - written;
        assert!(written > 512 << 10, "{written} bytes are written at once");
        for round in 0..5 {
            let make = async {
                for number in 0..8 {
                    let tree = store.tree(&format!("tree {round} {number}")).await.unwrap();
                    store.put(&tree, b"key", b"value").await.unwrap();
                }
            };
            let (taken, ()) = join(store.checkpoint(), make).await;
            taken.unwrap();
            drop(store);
            store = open().await;
            for number in 0..8 {
                let tree = store.find_tree(&format!("tree {round} {number}")).await.unwrap();
                let value = store.get(&tree.unwrap(), b"key").await.unwrap();
                assert_eq!(value.as_deref(), Some(&b"value"[..]));
            }
        }
        assert_eq!(store.check().await, []);
    });
}
