//! Long values: written and read in parts, made by merges, freed, and found damaged.

use std::sync::Arc;

use moirai_btree::{Batch, Direction, Error, KeyRange, Store};
use moirai_devices::FaultyDevice;
use moirai_runtime::{block_on_virtual, random, sleep};
use moirai_storage::Device;
use moirai_units::{BlockCount, BlockRange, ByteCount, Lbn, Nanos};
use moirai_update::Options;

use crate::bench::{APPEND, Bench};
use crate::scanned;

async fn bench() -> Bench {
    let mut bench = Bench::with_partitions(&mut random("long"), 16).await;
    bench.options = Options { memory: ByteCount::mib(1), ..Options::default() };
    bench
}

/// Bytes without a pattern that repeats.
fn value(length: usize, seed: u8) -> Vec<u8> {
    let mut state = u64::from(seed) + 0x9e37_79b9_7f4a_7c15;
    let next = |_| {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state as u8
    };
    (0..length).map(next).collect()
}

/// After which all that is pending was applied.
async fn settle() {
    sleep(Nanos(20_000_000_000)).await;
}

#[test]
fn values_of_any_length_are_there_in_every_way_to_read() {
    block_on_virtual(1, async {
        let bench = bench().await;
        let mut store = bench.open().await.unwrap();
        let mut tree = store.tree("t").await.unwrap();
        let lengths = [0, 1, 100, 1000, 20_000, 1 << 20, (1 << 20) + 1, 5 << 20];
        let mut batch = Batch::new();
        for (seed, length) in lengths.into_iter().enumerate() {
            batch.put(&tree, &[seed as u8], &value(length, seed as u8));
        }
        store.commit(&batch).await.unwrap();
        let expected: Vec<_> = lengths
            .iter()
            .enumerate()
            .map(|(seed, length)| (vec![seed as u8], value(*length, seed as u8)))
            .collect();
        // Pending, replayed, swept, and from a checkpoint.
        for round in 0..4 {
            let found = scanned(&store, &tree, KeyRange::all(), Direction::Forward).await;
            assert!(found == expected, "round {round}");
            let mut found = scanned(&store, &tree, KeyRange::all(), Direction::Backward).await;
            found.reverse();
            assert!(found == expected, "round {round}");
            let keys: Vec<_> = expected.iter().map(|(key, _)| key).collect();
            let found = store.multi_get(&tree, &keys).await.unwrap();
            assert!(found.into_iter().eq(expected.iter().map(|(_, value)| Some(value.clone()))));
            for (key, value) in &expected {
                assert!(store.contains(&tree, key).await.unwrap());
                assert!(store.get(&tree, key).await.unwrap().as_ref() == Some(value));
                let reader = store.read_value(&tree, key).await.unwrap().unwrap();
                assert_eq!(reader.length(), ByteCount(value.len() as u64));
                let (from, to) = (value.len() / 3, value.len().min(value.len() / 3 + 70_000));
                let part = reader.read(from as u64..to as u64).await.unwrap();
                assert!(part == value[from..to]);
                assert_eq!(reader.read(u64::MAX - 1..u64::MAX).await.unwrap(), []);
            }
            let measured = store.measure(&tree, ..).await.unwrap();
            let bytes: usize = expected.iter().map(|(key, value)| key.len() + value.len()).sum();
            assert_eq!((measured.records, measured.bytes), (8, bytes as u64));
            match round {
                0 => drop(store),
                1 => {
                    store.checkpoint().await.unwrap();
                    settle().await;
                    continue;
                }
                _ => store.close().await.unwrap(),
            }
            bench.restart();
            store = bench.open().await.unwrap();
            tree = store.tree("t").await.unwrap();
        }
    });
}

/// A value that is read in parts stays as it was while it is replaced and its blocks would be given to others.
#[test]
fn a_reader_keeps_the_value_that_it_found() {
    block_on_virtual(1, async {
        let bench = bench().await;
        let store = bench.open().await.unwrap();
        let tree = store.tree("t").await.unwrap();
        let old = value(3 << 20, 7);
        store.put(&tree, b"k", &old).await.unwrap();
        store.checkpoint().await.unwrap();
        settle().await;
        let reader = store.read_value(&tree, b"k").await.unwrap().unwrap();
        for round in 0..6 {
            store.put(&tree, b"k", &value(3 << 20, round)).await.unwrap();
            store.checkpoint().await.unwrap();
            settle().await;
        }
        assert!(reader.read(0..u64::MAX).await.unwrap() == old);
        let held = store.figures().data_free_bytes;
        drop(reader);
        assert!(store.figures().data_free_bytes >= held + (3 << 20));
    });
}

#[test]
fn what_is_replaced_deleted_dropped_or_never_committed_is_free_again() {
    block_on_virtual(1, async {
        let bench = bench().await;
        let store = bench.open().await.unwrap();
        let tree = store.tree("t").await.unwrap();
        let long = value(2 << 20, 1);
        let long_bytes = async || {
            store.checkpoint().await.unwrap();
            settle().await;
            store.figures().long_bytes
        };
        // Twice within one queue.
        store.put(&tree, b"a", &long).await.unwrap();
        store.put(&tree, b"a", &long).await.unwrap();
        let one = long_bytes().await;
        assert!((2 << 20..(2 << 20) + 8192).contains(&one), "{one}");
        store.put(&tree, b"b", &long).await.unwrap();
        assert_eq!(long_bytes().await, 2 * one);
        // By a short value, by a delete, by a merge that makes it short, by a range, and with its tree.
        store.put(&tree, b"a", b"short").await.unwrap();
        assert_eq!(long_bytes().await, one);
        store.delete(&tree, b"b").await.unwrap();
        assert_eq!(long_bytes().await, 0);
        store.put(&tree, b"c", &long).await.unwrap();
        assert_eq!(long_bytes().await, one);
        store.merge(&tree, crate::bench::COUNT, b"c", &1_u64.to_le_bytes()).await.unwrap();
        assert_eq!(long_bytes().await, 0);
        store.put(&tree, b"d", &long).await.unwrap();
        assert_eq!(long_bytes().await, one);
        store.delete_range(&tree, ..).await.unwrap();
        assert_eq!(long_bytes().await, 0);
        store.put(&tree, b"d", &long).await.unwrap();
        assert_eq!(long_bytes().await, one);
        store.put(&tree, b"d", &long).await.unwrap();
        assert!(store.drop_tree("t").await.unwrap());
        assert_eq!(long_bytes().await, 0);
        // A writer that is dropped, and one whose power fails before the commit.
        let tree = store.tree("t").await.unwrap();
        let free = store.figures().data_free_bytes;
        let mut writer = store.write_value(&tree, b"e").unwrap();
        writer.write(&long).await.unwrap();
        assert!(store.figures().data_free_bytes < free);
        drop(writer);
        assert_eq!(store.figures().data_free_bytes, free);
        let mut writer = store.write_value(&tree, b"e").unwrap();
        writer.write(&long).await.unwrap();
        drop(writer);
        drop(store);
        bench.restart();
        let store = bench.open().await.unwrap();
        assert_eq!(store.figures().long_bytes, 0);
        store.checkpoint().await.unwrap();
        let figures = store.figures();
        assert!(figures.data_free_bytes + 100_000 > free, "{figures:?}");
    });
}

#[test]
fn merges_make_values_long_and_change_long_ones() {
    block_on_virtual(1, async {
        let bench = bench().await;
        let store = bench.open().await.unwrap();
        let tree = store.tree("t").await.unwrap();
        let mut expected = Vec::new();
        for round in 0..300_u32 {
            let operand = [round as u8; 97];
            store.merge(&tree, APPEND, b"k", &operand).await.unwrap();
            expected.extend_from_slice(&operand);
            assert!(store.get(&tree, b"k").await.unwrap().as_ref() == Some(&expected));
            if round % 60 == 30 {
                store.checkpoint().await.unwrap();
                settle().await;
            }
            if round % 60 == 40 {
                let all = scanned(&store, &tree, KeyRange::all(), Direction::Forward).await;
                assert!(all == [(b"k".to_vec(), expected.clone())]);
            }
        }
        store.checkpoint().await.unwrap();
        settle().await;
        let figures = store.figures();
        let blocks = BlockCount::holding(ByteCount(expected.len() as u64));
        assert_eq!((figures.long_bytes, figures.refused), (blocks.bytes().0, 0), "{figures:?}");
        // One that is too long for merges stays as it is, and the merge is counted.
        let too_long = value((16 << 20) + 1, 3);
        store.put(&tree, b"k", &too_long).await.unwrap();
        store.merge(&tree, APPEND, b"k", b"more").await.unwrap();
        assert!(store.get(&tree, b"k").await.unwrap().as_ref() == Some(&too_long));
        store.checkpoint().await.unwrap();
        settle().await;
        assert!(store.get(&tree, b"k").await.unwrap().as_ref() == Some(&too_long));
        assert_eq!(store.figures().refused, 1);
    });
}

#[test]
fn a_full_device_refuses_a_long_value_and_takes_it_once_others_are_deleted() {
    block_on_virtual(1, async {
        let bench = bench().await;
        let store = bench.open().await.unwrap();
        let tree = store.tree("t").await.unwrap();
        let long = value(1 << 20, 1);
        let fill = async || {
            for number in 0_u64.. {
                match store.put(&tree, &number.to_be_bytes(), &long).await {
                    Ok(()) => {}
                    Err(Error::Update(moirai_update::Error::Full { .. })) => return number,
                    Err(error) => panic!("{error}"),
                }
            }
            0
        };
        let first = fill().await;
        // Of 30 MB.
        assert!(first >= 25, "{first}");
        assert!(store.get(&tree, &0_u64.to_be_bytes()).await.unwrap() == Some(long.clone()));
        for _ in 0..3 {
            store.delete_range(&tree, ..).await.unwrap();
            assert!(fill().await + 1 >= first);
        }
        // Each by itself, and pending where the next one needs its space.
        for number in 0..first {
            store.delete(&tree, &number.to_be_bytes()).await.unwrap();
        }
        assert!(fill().await + 1 >= first);
    });
}

#[test]
fn a_damaged_long_value_is_found_and_dropped_alone() {
    block_on_virtual(1, async {
        let bench = bench().await;
        let store = bench.open().await.unwrap();
        let tree = store.tree("t").await.unwrap();
        for number in 0..4_u8 {
            store.put(&tree, &[number], &value(1_500_000, number)).await.unwrap();
        }
        store.checkpoint().await.unwrap();
        settle().await;
        assert_eq!(store.check().await, []);
        damage(&bench.data, &value(1_500_000, 2)[1_400_000..1_400_100]).await;
        let failed = store.get(&tree, &[2]).await.unwrap_err();
        assert!(matches!(failed, Error::Update(moirai_update::Error::Damaged { .. })), "{failed}");
        // The rest of it can be read.
        let reader = store.read_value(&tree, &[2]).await.unwrap().unwrap();
        assert!(reader.read(0..1000).await.unwrap() == value(1000, 2));
        let found = store.check().await;
        assert_eq!(found.len(), 1, "{found:?}");
        let keys = found[0].keys.as_ref().unwrap();
        assert_eq!((found[0].what, &keys.from[..]), ("a long value", &[2][..]));
        store.drop_damaged().await.unwrap();
        assert_eq!(store.check().await, []);
        for number in 0..4_u8 {
            let expected = (number != 2).then(|| value(1_500_000, number));
            assert!(store.get(&tree, &[number]).await.unwrap() == expected);
        }
        store.drop_tree("t").await.unwrap();
        settle().await;
        assert_eq!(store.figures().long_bytes, 0);
    });
}

/// Merges onto an unreadable long value are kept, and go with it when it is dropped.
#[test]
fn a_damaged_long_value_with_merges_stops_nothing_else() {
    block_on_virtual(1, async {
        let bench = bench().await;
        let store = bench.open().await.unwrap();
        let tree = store.tree("t").await.unwrap();
        for number in 0..4_u8 {
            store.put(&tree, &[number], &value(1_500_000, number)).await.unwrap();
        }
        store.checkpoint().await.unwrap();
        settle().await;
        damage(&bench.data, &value(1_500_000, 2)[1_400_000..1_400_100]).await;
        for number in 0..4_u8 {
            store.merge(&tree, APPEND, &[number], b"more").await.unwrap();
        }
        store.checkpoint().await.unwrap();
        settle().await;
        let expected = |number: u8| [value(1_500_000, number), b"more".to_vec()].concat();
        for _ in 0..2 {
            for number in [0, 1, 3] {
                assert!(store.get(&tree, &[number]).await.unwrap() == Some(expected(number)));
            }
            let failed = store.get(&tree, &[2]).await.unwrap_err();
            assert!(
                matches!(failed, Error::Update(moirai_update::Error::Damaged { .. })),
                "{failed}"
            );
            store.put(&tree, b"other", b"goes on").await.unwrap();
            store.checkpoint().await.unwrap();
            settle().await;
        }
        assert_eq!(store.figures().set_aside, 1);
        store.drop_damaged().await.unwrap();
        settle().await;
        for number in 0..4_u8 {
            let expected = (number != 2).then(|| expected(number));
            assert!(store.get(&tree, &[number]).await.unwrap() == expected, "{number}");
        }
        assert_eq!((store.check().await, store.figures().set_aside), (vec![], 0));
    });
}

/// Changes a byte of the block with these bytes.
async fn damage(device: &FaultyDevice, holds: &[u8]) {
    let device: &dyn Device = device;
    for lbn in (0..device.inquiry().capacity.0).map(Lbn) {
        let mut content = device.read(BlockRange::new(lbn, BlockCount(1))).await.unwrap();
        if content.windows(holds.len()).any(|window| window == holds) {
            content[300] ^= 1;
            device.write(lbn, content).await.unwrap();
        }
    }
}

#[test]
fn values_beyond_a_gibibyte_are_refused_and_groups_take_a_value_once() {
    block_on_virtual(1, async {
        let bench = bench().await;
        let store: Arc<Store> = Arc::new(bench.open().await.unwrap());
        let tree = store.tree("t").await.unwrap();
        let refused = store.put(&tree, b"k", &vec![0; (1 << 30) + 1]).await.unwrap_err();
        assert!(
            matches!(refused, Error::Update(moirai_update::Error::TooLong { .. })),
            "{refused}"
        );
        let operand = store.merge(&tree, APPEND, b"k", &[0; 5000]).await.unwrap_err();
        assert!(
            matches!(operand, Error::Update(moirai_update::Error::TooLong { .. })),
            "{operand}"
        );
        // A batch is committed again: its long values are written again.
        let mut batch = Batch::new();
        batch.put(&tree, b"k", &value(10_000, 1));
        store.commit(&batch).await.unwrap();
        store.commit(&batch).await.unwrap();
        assert!(store.get(&tree, b"k").await.unwrap() == Some(value(10_000, 1)));
        store.checkpoint().await.unwrap();
        settle().await;
        assert_eq!(store.figures().long_bytes, BlockCount(20).bytes().0);
    });
}

/// The merge needs as much again as the value has.
#[test]
fn a_merge_without_space_waits_until_its_key_is_deleted() {
    block_on_virtual(1, async {
        let bench = bench().await;
        let store = bench.open().await.unwrap();
        let tree = store.tree("t").await.unwrap();
        store.put(&tree, b"k", &value(14 << 20, 1)).await.unwrap();
        for number in 0_u64.. {
            if store.put(&tree, &number.to_be_bytes(), &value(1 << 20, 2)).await.is_err() {
                break;
            }
        }
        store.merge(&tree, APPEND, b"k", b"more").await.unwrap_or_default();
        let full = store.checkpoint().await;
        settle().await;
        let found = store.get(&tree, b"k").await.unwrap().unwrap();
        assert!(found.len() >= 14 << 20, "{full:?}");
        store.delete(&tree, b"k").await.unwrap();
        settle().await;
        store.checkpoint().await.unwrap();
        assert_eq!(store.get(&tree, b"k").await.unwrap(), None);
        store.put(&tree, b"k", &value(10 << 20, 3)).await.unwrap();
        assert!(store.get(&tree, b"k").await.unwrap() == Some(value(10 << 20, 3)));
    });
}

#[test]
fn merges_that_do_not_matter_are_not_refused() {
    block_on_virtual(1, async {
        let bench = bench().await;
        let store = bench.open().await.unwrap();
        let tree = store.tree("t").await.unwrap();
        for round in 0..3 {
            store.put(&tree, b"k", &value(100_000, 1)).await.unwrap();
            settle().await;
            let mut batch = Batch::new();
            batch.merge(&tree, APPEND, b"k", b"more");
            match round {
                0 => batch.delete(&tree, b"k"),
                1 => batch.put(&tree, b"k", b"short"),
                _ => batch.put(&tree, b"k", &value(100_000, 2)),
            }
            store.commit(&batch).await.unwrap();
            store.checkpoint().await.unwrap();
            settle().await;
        }
        assert_eq!(store.figures().refused, 0);
    });
}

/// Whether sweeps apply merges together or one by one.
#[test]
fn the_limit_of_merges_does_not_depend_on_sweeps() {
    block_on_virtual(1, async {
        for is_swept_between in [false, true] {
            let mut bench = Bench::with_blocks(&mut random("limit"), 16, 200_000).await;
            bench.options = Options { memory: ByteCount::mib(1), ..Options::default() };
            let store = bench.open().await.unwrap();
            let tree = store.tree("t").await.unwrap();
            let mut expected = value((16 << 20) - 30, 1);
            store.put(&tree, b"k", &expected).await.unwrap();
            settle().await;
            // Too long to be combined: the first one goes over the limit, and the second comes too late.
            for operand in [[1; 60], [2; 60]] {
                store.merge(&tree, APPEND, b"k", &operand).await.unwrap();
                if is_swept_between {
                    store.checkpoint().await.unwrap();
                    settle().await;
                }
            }
            expected.extend_from_slice(&[1; 60]);
            assert!(store.get(&tree, b"k").await.unwrap().as_ref() == Some(&expected));
            store.checkpoint().await.unwrap();
            settle().await;
            assert!(store.get(&tree, b"k").await.unwrap().as_ref() == Some(&expected));
            assert_eq!(store.figures().refused, 1);
        }
    });
}

#[test]
fn a_writer_that_failed_puts_nothing() {
    block_on_virtual(1, async {
        let bench = bench().await;
        let store = bench.open().await.unwrap();
        let tree = store.tree("t").await.unwrap();
        let mut writer = store.write_value(&tree, b"k").unwrap();
        let full = loop {
            if let Err(error) = writer.write(&value(1 << 20, 1)).await {
                break error;
            }
        };
        assert!(matches!(full, Error::Update(moirai_update::Error::Full { .. })), "{full}");
        let used = writer.write(b"more").await.unwrap_err();
        assert!(matches!(used, Error::Update(moirai_update::Error::LongValueUsed)), "{used}");
        assert!(writer.put().await.is_err());
        assert_eq!(store.get(&tree, b"k").await.unwrap(), None);
        // Its blocks are free.
        store.put(&tree, b"k", &value(20 << 20, 1)).await.unwrap();
    });
}
