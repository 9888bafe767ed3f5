//! Space: what a device holds before it is full, that a full store goes on, and that space comes back.

#![expect(clippy::unwrap_used, reason = "a test stops at what it did not expect")]

use std::sync::Arc;

use moirai_btree::{Batch, Direction, KeyRange, Store, Tree, with_leaves};
use moirai_devices::{FaultyDevice, Power};
use moirai_runtime::{Random, block_on_virtual, random, sleep};
use moirai_storage::Device;
use moirai_units::{BlockCount, BlockRange, ByteCount, Lbn, Nanos};
use moirai_update::{Error, Format, Kinds, Options};
use rand::seq::SliceRandom;

/// Bytes of a record's key and value.
const RECORD_BYTES: usize = 60;
const DEVICE_BYTES: u64 = 8 << 20;
/// As in a record of 16 bytes: its number, spread.
type Key = [u8; 16];

struct Bench {
    data: Arc<FaultyDevice>,
    log: Arc<FaultyDevice>,
}

impl Bench {
    async fn new() -> Bench {
        let power = Power::on();
        let device = |name: &str, bytes| {
            let capacity = BlockCount(bytes / 512);
            FaultyDevice::new(name.into(), capacity, BlockCount(16), Arc::clone(&power))
        };
        let bench = Bench { data: device("data", DEVICE_BYTES), log: device("log", 1 << 20) };
        let format = Format { partition_blocks: 32, ..with_leaves(ByteCount(4096)) };
        Store::format(&*bench.data, &[Arc::clone(&bench.log) as _], format).await.unwrap();
        bench
    }

    async fn open(&self) -> (Store, Tree) {
        let options = Options { memory: ByteCount::mib(1), ..Options::default() };
        let logs = [Arc::clone(&self.log) as Arc<dyn Device>];
        let store = Store::open(Arc::clone(&self.data) as _, &logs, Kinds::new(), options);
        let store = store.await.unwrap();
        let tree = store.tree("records").await.unwrap();
        (store, tree)
    }
}

fn key(number: u64) -> Key {
    let spread = number.wrapping_mul(0x9e37_79b9_7f4a_7c15);
    [spread.to_be_bytes(), number.to_be_bytes()].concat().try_into().unwrap()
}

fn value(key: &Key) -> [u8; RECORD_BYTES - 16] {
    let mut value = [0; RECORD_BYTES - 16];
    value[..8].copy_from_slice(&key[8..]);
    value
}

/// Puts records until the store is full; how many went in.
async fn fill(store: &Store, tree: &Tree, keys: impl Iterator<Item = Key>) -> Vec<Key> {
    let mut put = Vec::new();
    for key in keys {
        match store.put(tree, &key, &value(&key)).await {
            Ok(()) => put.push(key),
            Err(moirai_btree::Error::Update(Error::Full { .. })) => return put,
            Err(error) => panic!("{error}"),
        }
    }
    panic!("it is never full");
}

async fn delete(store: &Store, tree: &Tree, keys: &[Key]) {
    for some in keys.chunks(16) {
        let mut batch = Batch::new();
        some.iter().for_each(|key| batch.delete(tree, key));
        store.commit(&batch).await.unwrap();
    }
}

async fn records(store: &Store, tree: &Tree) -> Vec<Key> {
    let mut scan = store.scan(tree, KeyRange::all(), Direction::Forward);
    let mut found = Vec::new();
    while let Some((found_key, found_value)) = scan.next().await.unwrap() {
        let key: Key = found_key.try_into().unwrap();
        assert_eq!(found_value, value(&key));
        found.push(key);
    }
    found
}

fn shuffle(keys: &mut [Key], random: &mut Random) {
    keys.shuffle(random);
}

/// Ten times: full, nine of ten records deleted, and as many others put. Reads go on, also after a crash.
#[test]
fn a_full_store_takes_deletes_and_is_filled_again() {
    block_on_virtual(1, async {
        let mut random = random("full store");
        let bench = Bench::new().await;
        let (mut store, mut tree) = bench.open().await;
        let mut all = fill(&store, &tree, (0..).map(key)).await;
        eprintln!("{:#?}", store.figures());
        let bytes = (all.len() * RECORD_BYTES) as u64;
        // A quarter stays free for sweeps and checkpoints, and leaves have six bytes more to each record of 60.
        assert!(bytes * 100 / DEVICE_BYTES >= 62, "{bytes} of {DEVICE_BYTES}");
        let mut next = 1 << 32;
        for turn in 0..10 {
            shuffle(&mut all, &mut random);
            let deleted = all.split_off(all.len() / 10);
            delete(&store, &tree, &deleted).await;
            for number in next..next + deleted.len() as u64 {
                let key = key(number);
                let put = store.put(&tree, &key, &value(&key)).await;
                put.unwrap_or_else(|error| {
                    panic!(
                        "turn {turn}, after {} of {}: {error}\n{:#?}",
                        number - next,
                        deleted.len(),
                        store.figures()
                    )
                });
                all.push(key);
            }
            next += deleted.len() as u64;
            if turn % 3 == 1 {
                store.close().await.unwrap();
                (store, tree) = bench.open().await;
            } else if turn % 3 == 2 {
                drop(store);
                sleep(Nanos(1_000_000_000)).await;
                (store, tree) = bench.open().await;
            }
            all.sort_unstable();
            assert!(records(&store, &tree).await == all, "turn {turn}");
        }
    });
}

#[test]
fn a_full_store_in_key_order_holds_more() {
    block_on_virtual(1, async {
        let bench = Bench::new().await;
        let (store, tree) = bench.open().await;
        let ordered = |number: u64| [number.to_be_bytes(), number.to_be_bytes()].concat();
        let keys = (0..).map(|number| ordered(number).try_into().unwrap());
        let all = fill(&store, &tree, keys).await;
        let bytes = (all.len() * RECORD_BYTES) as u64;
        assert!(bytes * 100 / DEVICE_BYTES >= 70, "{bytes} of {DEVICE_BYTES}");
        // What is refused changes nothing, and what is there can be replaced.
        assert!(records(&store, &tree).await == all);
        delete(&store, &tree, &all).await;
        assert!(records(&store, &tree).await.is_empty());
    });
}

/// Records come at one end and go at the other: neither the directory nor the device grows.
#[test]
fn a_queue_takes_no_more_space_than_what_is_in_it() {
    block_on_virtual(1, async {
        let bench = Bench::new().await;
        let (store, tree) = bench.open().await;
        let ordered = |number: u64| -> Key {
            [number.to_be_bytes(), number.to_be_bytes()].concat().try_into().unwrap()
        };
        let live = 10_000;
        let mut most = 0;
        for number in 0..12 * live {
            let key = ordered(number);
            let mut batch = Batch::new();
            batch.put(&tree, &key, &value(&key));
            if let Some(old) = number.checked_sub(live) {
                batch.delete(&tree, &ordered(old));
            }
            store.commit(&batch).await.unwrap();
            if number > 2 * live {
                most = most.max(store.figures().partitions);
            }
        }
        // Ten thousand records of 66 bytes in leaves of 4 KiB, of which a partition has 32 at most.
        let leaves = live * 66 / 4096;
        assert!(most <= 4 * (leaves / 32 + 2), "{most} partitions for {leaves} leaves");
        store.checkpoint().await.unwrap();
        sleep(Nanos(60_000_000_000)).await;
        let figures = store.figures();
        let used = figures.data_bytes - figures.data_free_bytes;
        assert!(used <= 2 * live * 66, "{used} bytes for {} live ones", live * 66);
    });
}

/// After nine of ten records are deleted at random, and a minute without changes.
#[test]
fn deleted_space_comes_back() {
    block_on_virtual(1, async {
        let mut random = random("deleted space");
        let bench = Bench::new().await;
        let (store, tree) = bench.open().await;
        let mut all: Vec<Key> = (0..60_000).map(key).collect();
        for key in &all {
            store.put(&tree, key, &value(key)).await.unwrap();
        }
        shuffle(&mut all, &mut random);
        let deleted = all.split_off(all.len() / 10);
        delete(&store, &tree, &deleted).await;
        sleep(Nanos(60_000_000_000)).await;
        let figures = store.figures();
        let used = figures.data_bytes - figures.data_free_bytes;
        let live = (all.len() * RECORD_BYTES) as u64;
        assert!(used <= 3 * live, "{used} bytes for {live} live ones");
        all.sort_unstable();
        assert!(records(&store, &tree).await == all);
    });
}

/// Damages the leaf that holds a key, also where it was before.
async fn damage(bench: &Bench, key: &Key) {
    let device: &dyn Device = &*bench.data;
    let mut count = 0;
    for lbn in (0..device.inquiry().capacity.0).map(Lbn) {
        let mut content = device.read(BlockRange::new(lbn, BlockCount(1))).await.unwrap();
        if content.windows(16).any(|window| window == key) {
            content.iter_mut().skip(7).take(1).for_each(|byte| *byte ^= 1);
            device.write(lbn, content).await.unwrap();
            count += 1;
        }
    }
    assert!(count > 0);
}

/// What is modified again and again beside a leaf that rotted takes no more space than once, and is kept.
#[test]
fn hot_keys_beside_a_damaged_block_do_not_fill_the_device() {
    block_on_virtual(1, async {
        let bench = Bench::new().await;
        let (store, tree) = bench.open().await;
        let mut all: Vec<Key> = (0..30_000).map(key).collect();
        for key in &all {
            store.put(&tree, key, &value(key)).await.unwrap();
        }
        sleep(Nanos(60_000_000_000)).await;
        store.close().await.unwrap();
        all.sort_unstable();
        damage(&bench, &all[15_000]).await;
        let (mut store, mut tree) = bench.open().await;
        // They come to 15 KB, and with all rounds to more than the device.
        let hot = &all[14_900..15_100];
        let mut free = Vec::new();
        for round in 0..800_u64 {
            let mut batch = Batch::new();
            for key in hot {
                let mut new = value(key);
                new[20..28].copy_from_slice(&round.to_le_bytes());
                batch.put(&tree, key, &new);
            }
            store.commit(&batch).await.unwrap();
            // Some leave memory by themselves, once their queue is long.
            if round % 8 == 0 {
                store.checkpoint().await.unwrap();
            }
            if round % 100 == 50 {
                free.push(store.figures().data_free_bytes);
            }
            if round == 400 {
                store.close().await.unwrap();
                (store, tree) = bench.open().await;
            }
        }
        assert_eq!(store.figures().set_aside, 1);
        let (least, most) = (free.iter().min().unwrap(), free.iter().max().unwrap());
        assert!(most - least < 1 << 18, "free: {free:?}");
        // Others have their space, and what is of the damaged leaf is there once nothing of that counts any more.
        for key in (30_000..60_000).map(key) {
            store.put(&tree, &key, &value(&key)).await.unwrap();
        }
        store.drop_damaged().await.unwrap();
        for key in hot {
            let found = store.get(&tree, key).await.unwrap().unwrap();
            assert_eq!(found[20..28], 799_u64.to_le_bytes());
        }
    });
}

/// A block that rotted is named, and everything else goes on, also when the store is opened again.
#[test]
fn a_damaged_block_stops_nothing_else() {
    block_on_virtual(1, async {
        let bench = Bench::new().await;
        let (store, tree) = bench.open().await;
        let all: Vec<Key> = (0..30_000).map(key).collect();
        for key in &all {
            store.put(&tree, key, &value(key)).await.unwrap();
        }
        // Everything is in leaves then.
        sleep(Nanos(60_000_000_000)).await;
        store.close().await.unwrap();
        // The leaf that holds this one.
        let rotten = all[15_000];
        damage(&bench, &rotten).await;
        let (mut store, mut tree) = bench.open().await;
        for turn in 0..3_u8 {
            // Several memoryfuls for all partitions.
            for round in 0..3 {
                for key in &all {
                    let mut new = value(key);
                    new[20] = turn * 3 + round;
                    store.put(&tree, key, &new).await.unwrap();
                }
                store.checkpoint().await.unwrap();
            }
            let mut unreadable = 0;
            for key in &all {
                match store.get(&tree, key).await {
                    Ok(found) => assert_eq!(found.unwrap()[20], turn * 3 + 2),
                    Err(moirai_btree::Error::Update(Error::Damaged { .. })) => unreadable += 1,
                    Err(error) => panic!("{error}"),
                }
            }
            // A leaf has 62 of them at most.
            assert!((1..=62).contains(&unreadable), "{unreadable} cannot be read");
            assert_eq!(store.figures().set_aside, 1);
            store.close().await.unwrap();
            (store, tree) = bench.open().await;
        }
    });
}
