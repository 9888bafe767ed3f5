//! Damage: it is found by a check, and dropped where that is asked for; all else stays.

#![expect(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    reason = "a test stops at what it did not expect"
)]

use std::sync::Arc;

use moirai_btree::{AddU64, Batch, Damage, Error, Store, Tree, with_leaves};
use moirai_devices::{FaultyDevice, Power};
use moirai_runtime::{block_on_virtual, sleep};
use moirai_storage::{Device, IoBuf};
use moirai_units::{BlockCount, BlockRange, ByteCount, Lbn, Nanos};
use moirai_update::{Format, KindNumber, Kinds, Options};

const ADD: KindNumber = KindNumber(17);
const KEYS: u64 = 20_000;

struct Bench {
    data: Arc<FaultyDevice>,
    log: Arc<FaultyDevice>,
}

impl Bench {
    async fn new() -> Bench {
        let power = Power::on();
        let device = |name: &str, bytes: u64| {
            let capacity = BlockCount(bytes / 512);
            FaultyDevice::new(name.into(), capacity, BlockCount(16), Arc::clone(&power))
        };
        let bench = Bench { data: device("data", 16 << 20), log: device("log", 8 << 20) };
        let format = Format { partition_blocks: 16, ..with_leaves(ByteCount(4096)) };
        Store::format(&*bench.data, &[Arc::clone(&bench.log) as _], format).await.unwrap();
        bench
    }

    async fn open(&self, options: Options) -> (Store, Tree) {
        let store = self.open_store(options).await;
        let tree = match options.read_only {
            true => store.find_tree("numbers").await.unwrap().unwrap(),
            false => store.tree("numbers").await.unwrap(),
        };
        (store, tree)
    }

    async fn open_store(&self, options: Options) -> Store {
        let logs = [Arc::clone(&self.log) as Arc<dyn Device>];
        let mut kinds = Kinds::new();
        kinds.register(ADD, Arc::new(AddU64)).unwrap();
        Store::open(Arc::clone(&self.data) as _, &logs, kinds, options).await.unwrap()
    }

    /// Changes a byte of each block that holds these bytes: also of blocks that are free by now.
    async fn damage(&self, holds: &[u8]) {
        let device: &dyn Device = &*self.data;
        for lbn in (0..device.inquiry().capacity.0).map(Lbn) {
            let mut content = device.read(BlockRange::new(lbn, BlockCount(1))).await.unwrap();
            if content.windows(holds.len()).any(|window| window == holds) {
                content[100] ^= 1;
                device.write(lbn, content).await.unwrap();
            }
        }
    }
}

fn key(number: u64) -> [u8; 24] {
    let spread = number.wrapping_mul(0x9e37_79b9_7f4a_7c15);
    let mut key = [0; 24];
    key[..8].copy_from_slice(&spread.to_be_bytes());
    key[8..16].copy_from_slice(&number.to_be_bytes());
    key[16..].copy_from_slice(b"__THIS__");
    key
}

/// As many keys as are within what is damaged, and what each key has now: 1 for what was put, 2 with what was added.
async fn look(store: &Store, tree: &Tree, damage: &[Damage]) -> (u64, [u64; 3], u64) {
    let (mut within, mut values, mut unreadable) = (0, [0; 3], 0);
    for number in 0..KEYS {
        let key = key(number);
        let is_within = damage.iter().filter_map(|one| one.keys.as_ref()).any(|keys| {
            keys.from[..] <= key[..] && keys.to.as_ref().is_none_or(|to| key[..] < to[..])
        });
        within += u64::from(is_within);
        match store.get(tree, &key).await {
            Ok(value) => {
                let value = value.map_or(0, |value| u64::from_le_bytes(value.try_into().unwrap()));
                values[value as usize] += 1;
                assert!(value == 2 || is_within, "{number} has {value}, and is not told");
            }
            Err(Error::Update(moirai_update::Error::Damaged { .. })) => unreadable += 1,
            Err(error) => panic!("{error}"),
        }
    }
    (within, values, unreadable)
}

/// In leaves, with changes pending for them.
#[test]
fn damaged_leaves_are_found_and_dropped() {
    block_on_virtual(1, async {
        let bench = Bench::new().await;
        let (store, tree) = bench.open(Options::default()).await;
        for number in 0..KEYS {
            store.put(&tree, &key(number), &1_u64.to_le_bytes()).await.unwrap();
        }
        store.checkpoint().await.unwrap();
        sleep(Nanos(60_000_000_000)).await;
        assert_eq!(store.check().await, []);
        // Pending, in the log.
        let mut batch = Batch::new();
        for number in 0..KEYS {
            batch.merge(&tree, ADD, &key(number), &1_u64.to_le_bytes());
        }
        store.commit(&batch).await.unwrap();
        drop(store);
        bench.damage(&key(777)).await;
        bench.damage(&key(9999)).await;
        let (store, tree) = bench.open(Options { read_only: true, ..Options::default() }).await;
        let damage = store.check().await;
        assert_eq!(damage.len(), 2, "{damage:?}");
        for one in &damage {
            assert_eq!((one.what, &one.device[..]), ("a leaf", "data"));
            assert_eq!(one.keys.as_ref().unwrap().tree.as_deref(), Some("numbers"));
        }
        let (within, values, unreadable) = look(&store, &tree, &damage).await;
        // Two leaves of 4 KiB with records of 32 bytes and some more each.
        assert!((100..=2 * 4096 / 32).contains(&within), "{within}");
        assert_eq!((values[2] + unreadable, unreadable <= within), (KEYS, true));
        store.drop_damaged().await.unwrap_err();
        drop(store);
        let (store, tree) = bench.open(Options::default()).await;
        let dropped = store.drop_damaged().await.unwrap();
        assert_eq!(dropped.damage, damage);
        assert_eq!(store.check().await, []);
        assert_eq!(store.figures().set_aside, 0);
        let (_, values, unreadable) = look(&store, &tree, &damage).await;
        // Neither the values nor what was added to them: a sum of that alone would be false.
        assert_eq!((values, unreadable), ([within, 0, KEYS - within], 0));
        store.close().await.unwrap();
        let (store, tree) = bench.open(Options::default()).await;
        assert_eq!(look(&store, &tree, &damage).await.1, values);
        // And it goes on.
        for number in 0..KEYS {
            store.put(&tree, &key(number), &2_u64.to_le_bytes()).await.unwrap();
        }
        store.checkpoint().await.unwrap();
        assert_eq!(look(&store, &tree, &[]).await.1, [0, 0, KEYS]);
    });
}

/// In chunks that wait beside their leaves: the leaves stay.
#[test]
fn damaged_chunks_are_found_and_dropped() {
    block_on_virtual(1, async {
        let bench = Bench::new().await;
        let (store, tree) = bench.open(Options::default()).await;
        for number in 0..KEYS {
            store.put(&tree, &key(number), &1_u64.to_le_bytes()).await.unwrap();
        }
        store.checkpoint().await.unwrap();
        sleep(Nanos(60_000_000_000)).await;
        store.close().await.unwrap();
        let options = Options { idle: None, ..Options::default() };
        let (store, tree) = bench.open(options).await;
        let staged = store.figures().staged_bytes;
        for number in 0..KEYS {
            store.merge(&tree, ADD, &key(number), &1_u64.to_le_bytes()).await.unwrap();
        }
        store.checkpoint().await.unwrap();
        assert!(store.figures().staged_bytes > staged, "{:?}", store.figures());
        store.close().await.unwrap();
        // Leaves, and chunks of partitions that were not rewritten.
        for number in (0..KEYS).step_by(2000) {
            bench.damage(&key(number)).await;
        }
        let (store, tree) = bench.open(options).await;
        let dropped = store.drop_damaged().await.unwrap();
        let count = |what| dropped.damage.iter().filter(|one| one.what == what).count();
        assert_eq!((count("a leaf"), count("staged changes") > 0), (10, true), "{dropped:?}");
        assert_eq!(store.check().await, []);
        let (within, values, unreadable) = look(&store, &tree, &dropped.damage).await;
        // A key of a leaf whose staged changes are damaged may have lost nothing.
        assert_eq!((values[2] >= KEYS - within, unreadable), (true, 0));
        assert!(values[0] > 0, "what is in neither is not there: {values:?}");
        store.close().await.unwrap();
    });
}

/// Whether a device block is a table of leaves: their count, their units, which is 1, and for each its lowest key behind a
/// length, and a checksum.
fn is_table(block: &[u8]) -> bool {
    let count = block[0];
    let (mut rest, mut last): (&[u8], &[u8]) = (&block[2..], &[]);
    for _ in 0..count {
        let length = rest.first().copied().unwrap_or(0) as usize;
        let Some(low) = rest.get(1..1 + length) else { return false };
        if low < last || rest.len() < 5 + length {
            return false;
        }
        (last, rest) = (low, &rest[5 + length..]);
    }
    (4..=16).contains(&count) && block[1] == 1 && rest.iter().all(|byte| *byte == 0)
}

/// The leaves of a partition cannot be told from each other without their table: they go together, and no others.
#[test]
fn a_damaged_table_of_leaves_is_found_and_dropped() {
    block_on_virtual(1, async {
        let bench = Bench::new().await;
        let (store, tree) = bench.open(Options::default()).await;
        for number in 0..KEYS {
            store.put(&tree, &key(number), &2_u64.to_le_bytes()).await.unwrap();
        }
        store.checkpoint().await.unwrap();
        sleep(Nanos(60_000_000_000)).await;
        store.close().await.unwrap();
        let device: &dyn Device = &*bench.data;
        let mut tables = Vec::new();
        for lbn in (16..device.inquiry().capacity.0).map(Lbn) {
            let block = device.read(BlockRange::new(lbn, BlockCount(1))).await.unwrap();
            if is_table(&block) {
                tables.push((lbn, block));
            }
        }
        // Tables that were left are there, too.
        assert!(tables.len() >= KEYS as usize * 40 / (16 * 4096), "{}", tables.len());
        for (lbn, block) in &mut tables[..] {
            block[9] ^= 1;
            device.write(*lbn, IoBuf::holding(block)).await.unwrap();
        }
        let (store, _) = bench.open(Options { read_only: true, ..Options::default() }).await;
        let all = store.check().await;
        assert!(all.iter().all(|one| one.what == "a table of leaves"), "{all:?}");
        let kept = all.last().unwrap().blocks.first;
        drop(store);
        // All but one are mended.
        for (lbn, block) in &mut tables {
            block[9] ^= u8::from(*lbn != kept);
            device.write(*lbn, IoBuf::holding(block)).await.unwrap();
        }
        let (store, tree) = bench.open(Options::default()).await;
        let damage = store.check().await;
        assert_eq!((damage.len(), damage[0].blocks.first), (1, kept), "{damage:?}");
        let (within, values, unreadable) = look(&store, &tree, &damage).await;
        let partition = 16 * 4096 / 40;
        assert!((partition / 4..=partition).contains(&within), "{within}");
        assert_eq!((values, unreadable), ([0, 0, KEYS - within], within));
        // What is put now is kept, and counts afterwards.
        for number in 0..KEYS {
            store.put(&tree, &key(number), &2_u64.to_le_bytes()).await.unwrap();
        }
        store.checkpoint().await.unwrap();
        assert_eq!(store.figures().set_aside, 1);
        // It is staged, and found once there is a table again.
        let (_, values, unreadable) = look(&store, &tree, &[]).await;
        assert_eq!((values, unreadable), ([0, 0, KEYS - within], within));
        assert_eq!(store.drop_damaged().await.unwrap().damage[0].blocks.first, kept);
        assert_eq!((store.check().await, store.figures().set_aside), (vec![], 0));
        assert_eq!(look(&store, &tree, &[]).await.1, [0, 0, KEYS]);
    });
}

/// Whatever block of the data device it is, the store opens, and all that is not in that block can be read.
#[test]
fn one_damaged_block_keeps_no_store_from_opening() {
    block_on_virtual(1, async {
        let bench = Bench::new().await;
        let (store, tree) = bench.open(Options::default()).await;
        let mut batch = Batch::new();
        for number in 0..KEYS {
            batch.put(&tree, &key(number), &1_u64.to_le_bytes());
        }
        for round in 0..3 {
            store.commit(&batch).await.unwrap();
            store.checkpoint().await.unwrap();
            let one = KEYS / 3;
            batch.clear();
            for number in (round * one)..(round + 1) * one {
                batch.merge(&tree, ADD, &key(number), &0_u64.to_le_bytes());
            }
        }
        store.close().await.unwrap();
        let device: &dyn Device = &*bench.data;
        let (mut leaves, mut checkpoints, mut staged) = (0, 0, 0);
        for lbn in (0..device.inquiry().capacity.0).map(Lbn) {
            let content = device.read(BlockRange::new(lbn, BlockCount(1))).await.unwrap();
            if content.iter().all(|byte| *byte == 0) {
                continue;
            }
            bench.data.corrupt(lbn);
            let store = bench.open_store(Options { read_only: true, ..Options::default() }).await;
            let damage = store.check().await;
            for one in &damage {
                assert!(one.blocks.first <= lbn && lbn < one.blocks.end(), "{lbn}: {one:?}");
                match one.what {
                    "a leaf" | "a table of leaves" => leaves += 1,
                    "the checkpoint" => checkpoints += 1,
                    "staged changes" => staged += 1,
                    "a superblock" | "the catalog of trees" => {}
                    other => panic!("{other}"),
                }
            }
            // A free block damages nothing. Two parts of a staged chunk can share a block.
            assert!(damage.len() <= 2, "{damage:?}");
            let number = lbn.0 * 7919 % KEYS;
            let is_within = damage.iter().any(|one| one.keys.is_some());
            let value = match store.find_tree("numbers").await {
                Ok(tree) => store.get(&tree.unwrap(), &key(number)).await,
                Err(error) => Err(error),
            };
            match value {
                Ok(value) => assert_eq!(value, Some(1_u64.to_le_bytes().to_vec())),
                Err(error) => assert!(is_within, "{error}"),
            }
            drop(store);
            bench.data.corrupt(lbn);
        }
        assert!(leaves > 500 && checkpoints > 4 && staged > 20, "{leaves} {checkpoints} {staged}");
    });
}

/// Records are not lost with the names of their trees.
#[test]
fn trees_whose_names_are_damaged_get_others() {
    block_on_virtual(1, async {
        let bench = Bench::new().await;
        let (store, tree) = bench.open(Options::default()).await;
        let (gone, other) = (store.tree("gone").await.unwrap(), store.tree("other").await.unwrap());
        for number in 0..KEYS {
            store.put(&tree, &key(number), &2_u64.to_le_bytes()).await.unwrap();
        }
        store.put(&gone, b"a", b"1").await.unwrap();
        store.put(&other, b"b", b"2").await.unwrap();
        assert!(store.drop_tree("gone").await.unwrap());
        store.checkpoint().await.unwrap();
        sleep(Nanos(60_000_000_000)).await;
        store.close().await.unwrap();
        bench.damage(b"numbers").await;
        let store = bench.open_store(Options::default()).await;
        store.trees().await.unwrap_err();
        let dropped = store.drop_damaged().await.unwrap();
        let what: Vec<_> = dropped.damage.iter().map(|one| one.what).collect();
        assert_eq!(what, ["the catalog of trees"]);
        // What is gone stays gone.
        assert_eq!(dropped.renamed, ["lost-2", "lost-4"]);
        assert_eq!(store.check().await, []);
        store.rename_tree("lost-2", "numbers").await.unwrap();
        let tree = store.find_tree("numbers").await.unwrap().unwrap();
        assert_eq!(look(&store, &tree, &[]).await.1, [0, 0, KEYS]);
        let other = store.find_tree("lost-4").await.unwrap().unwrap();
        assert_eq!(store.get(&other, b"b").await.unwrap(), Some(b"2".to_vec()));
        store.close().await.unwrap();
        let store = bench.open_store(Options::default()).await;
        assert_eq!(store.trees().await.unwrap(), ["lost-4", "numbers"]);
    });
}

/// A copy of the superblock that rotted, or is older than the other, is written anew by the next opening that writes.
#[test]
fn a_superblock_that_is_not_right_is_written_anew() {
    block_on_virtual(1, async {
        let bench = Bench::new().await;
        let device: &dyn Device = &*bench.data;
        let copy = async |place| device.read(BlockRange::new(Lbn(place), BlockCount(8))).await;
        for place in [0, 8] {
            for is_old in [false, true] {
                let (store, tree) = bench.open(Options::default()).await;
                store.put(&tree, b"key", &1_u64.to_le_bytes()).await.unwrap();
                store.close().await.unwrap();
                let mut wrong = copy(place).await.unwrap();
                let (store, tree) = bench.open(Options::default()).await;
                store.put(&tree, b"key", &2_u64.to_le_bytes()).await.unwrap();
                store.close().await.unwrap();
                if !is_old {
                    wrong = copy(place).await.unwrap();
                    wrong[200] ^= 1;
                }
                device.write(Lbn(place), wrong).await.unwrap();
                let options = Options { read_only: true, ..Options::default() };
                let (store, _) = bench.open(options).await;
                let damage = store.check().await;
                let damaged: Vec<_> =
                    damage.iter().map(|one| (one.what, one.blocks.first)).collect();
                // A crash between the writes of both leaves an older second copy.
                let expected = [("a superblock", Lbn(place))];
                assert_eq!(damaged, expected[usize::from(is_old && place == 8)..]);
                drop(store);
                let (store, tree) = bench.open(Options::default()).await;
                assert_eq!(store.check().await, []);
                assert_eq!(copy(0).await.unwrap()[..], copy(8).await.unwrap()[..]);
                let found = store.get(&tree, b"key").await.unwrap();
                assert_eq!(found, Some(2_u64.to_le_bytes().to_vec()));
                store.close().await.unwrap();
            }
        }
    });
}
