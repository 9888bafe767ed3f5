//! The directory may be larger than memory: tables that say where keys lie are read when they are needed.

#![expect(clippy::unwrap_used, reason = "a test stops at what it did not expect")]

use std::sync::Arc;

use moirai_btree::{Batch, Direction, Store, Tree, with_leaves};
use moirai_devices::{FaultyDevice, Power};
use moirai_runtime::block_on_virtual;
use moirai_storage::Device;
use moirai_units::{BlockCount, ByteCount};
use moirai_update::{Format, Kinds, Options};

const KEYS: u64 = 100_000;
const MEMORY: ByteCount = ByteCount(288 << 10);

fn key(number: u64) -> [u8; 16] {
    let mut key = [0; 16];
    key[..8].copy_from_slice(&number.wrapping_mul(0x9e37_79b9_7f4a_7c15).to_be_bytes());
    key[8..].copy_from_slice(&number.to_be_bytes());
    key
}

async fn put_all(store: &Store, tree: &Tree, value: u8) {
    let mut batch = Batch::new();
    for number in 0..KEYS {
        batch.put(tree, &key(number), &[value; 40]);
        if batch.len() == 100 {
            store.commit(&batch).await.unwrap();
            batch.clear();
        }
    }
}

/// The lowest keys and the checksums of 12,500 leaves take more than the memory that there is.
#[test]
fn leaves_of_more_than_memory_can_tell_apart() {
    block_on_virtual(1, async {
        let power = Power::on();
        let device = |name: &str, bytes: u64| -> Arc<dyn Device> {
            let capacity = BlockCount(bytes / 512);
            FaultyDevice::new(name.into(), capacity, BlockCount(16), Arc::clone(&power))
        };
        let (data, logs) = (device("data", 128 << 20), [device("log", 2 << 20)]);
        let format = Format { partition_blocks: 64, ..with_leaves(ByteCount(512)) };
        Store::format(&*data, &logs, format).await.unwrap();
        let options = Options { memory: MEMORY, ..Options::default() };
        let open =
            async || Store::open(Arc::clone(&data), &logs, Kinds::new(), options).await.unwrap();
        let store = open().await;
        let tree = store.tree("records").await.unwrap();
        for value in 1..=2 {
            put_all(&store, &tree, value).await;
            let figures = store.figures();
            assert!(figures.directory_bytes <= MEMORY.0, "{figures:?}");
        }
        store.close().await.unwrap();
        let store = open().await;
        let tree = store.tree("records").await.unwrap();
        let opened = store.figures();
        assert!(opened.blocks * (16 + 8) > MEMORY.0, "{opened:?}");
        // A lookup is a read of a leaf, and one of a table where that is cold.
        for number in (0..KEYS).step_by(101) {
            assert_eq!(store.get(&tree, &key(number)).await.unwrap(), Some(vec![2; 40]));
        }
        let looked = store.figures();
        let lookups = KEYS.div_ceil(101);
        assert!(looked.table_reads > lookups / 4, "{looked:?}");
        assert!(looked.table_reads - opened.table_reads <= lookups, "{looked:?}");
        let leaf_reads = looked.reads - opened.reads - looked.staged_reads;
        assert!(leaf_reads <= lookups, "{looked:?}");
        // Several keys at once, scans both ways, and samples.
        let keys: Vec<[u8; 16]> = (0..KEYS).step_by(1009).map(key).collect();
        let values = store.multi_get(&tree, &keys).await.unwrap();
        assert!(values.iter().all(|value| value.as_deref() == Some(&[2; 40][..])));
        for direction in [Direction::Forward, Direction::Backward] {
            let mut scan = store.scan(&tree, .., direction);
            let (mut count, mut last) = (0, None);
            while let Some((key, _)) = scan.next().await.unwrap() {
                let key = Some(key.to_vec());
                let is_forward = last.as_ref() < Some(&key);
                assert!(last.is_none() || is_forward == (direction == Direction::Forward));
                (count, last) = (count + 1, Some(key));
            }
            assert_eq!(count, KEYS);
        }
        let estimate = store.estimate(&tree, ..).await.unwrap();
        assert!(estimate.records.abs_diff(KEYS) < KEYS / 5, "{estimate:?}");
        let figures = store.figures();
        assert!(figures.directory_bytes <= MEMORY.0, "{figures:?}");
        assert_eq!(store.check().await, []);
    });
}
