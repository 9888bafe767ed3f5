//! A store on devices that fail on demand, and random changes to it and to a model.

use std::collections::BTreeMap;
use std::sync::Arc;

use moirai_btree::{AddU64, Batch, Draft, Store, Tree, with_leaves};
use moirai_devices::{FaultyDevice, Medium, Power};
use moirai_runtime::Random;
use moirai_units::{BlockCount, ByteCount};
use moirai_update::{Format, Kind, KindNumber, Kinds, Options, Value};
use rand::Rng;

pub(crate) const COUNT: KindNumber = KindNumber(16);

pub(crate) const APPEND: KindNumber = KindNumber(17);

/// Appends the operand.
struct Append;

impl Kind for Append {
    fn apply(&self, value: &mut Value, modification: &[u8]) {
        let mut bytes = value.get().unwrap_or_default().to_vec();
        bytes.extend_from_slice(modification);
        value.set(Some(&bytes));
    }

    fn combine(&self, older: &[u8], newer: &[u8], both: &mut Vec<u8>) -> bool {
        *both = [older, newer].concat();
        both.len() < 50
    }
}

pub(crate) type Records = BTreeMap<Vec<u8>, Vec<u8>>;

pub(crate) struct Bench {
    pub(crate) power: Arc<Power>,
    pub(crate) data: Arc<FaultyDevice>,
    pub(crate) log: Arc<FaultyDevice>,
    pub(crate) options: Options,
}

impl Bench {
    pub(crate) async fn new(random: &mut Random) -> Bench {
        let partition_blocks = random.random_range(1..12);
        Bench::with_partitions(random, partition_blocks).await
    }

    /// With so many leaves to a partition.
    pub(crate) async fn with_partitions(random: &mut Random, partition_blocks: u32) -> Bench {
        Bench::with_blocks(random, partition_blocks, 60_000).await
    }

    /// With so many blocks for data.
    pub(crate) async fn with_blocks(
        random: &mut Random,
        partition_blocks: u32,
        data_blocks: u64,
    ) -> Bench {
        let power = Power::on();
        // Flash is told what is free while updates go on.
        let is_flash: bool = moirai_runtime::random("flash").random();
        let medium = if is_flash { Medium::flash } else { Medium::disk };
        // Half of the stores lie on sectors of 4 KiB. Extents are whole sectors, so they take more blocks.
        let physical = [1, 8][moirai_runtime::random("sectors").random_range(0..2)];
        let device = |name: &str, blocks| {
            let (blocks, power) = (BlockCount(blocks), Arc::clone(&power));
            let medium = medium(BlockCount(physical));
            FaultyDevice::on(medium, name.into(), blocks, BlockCount(16), power)
        };
        let (data, log) = (device("data", data_blocks * physical), device("log", 2000));
        let leaf = ByteCount([512, 1024, 4096][random.random_range(0..3)]);
        let format = Format {
            partition_blocks,
            staging_percent: [0, 100, 300][random.random_range(0..3)],
            ..with_leaves(leaf)
        };
        Store::format(&*data, &[Arc::clone(&log) as _], format).await.unwrap();
        let memory = ByteCount(random.random_range(4..60) << 10);
        // Few partitions are of several pages.
        let page_partitions = [2, 3, 128][moirai_runtime::random("pages").random_range(0..3)];
        let options = Options { memory, page_partitions, ..Options::default() };
        Bench { power, data, log, options }
    }

    pub(crate) async fn open(&self) -> moirai_btree::Result<Store> {
        let mut kinds = Kinds::new();
        kinds.register(COUNT, Arc::new(AddU64)).unwrap();
        kinds.register(APPEND, Arc::new(Append)).unwrap();
        let (data, log) = (Arc::clone(&self.data) as _, Arc::clone(&self.log) as _);
        Store::open(data, &[log], kinds, self.options).await
    }

    pub(crate) fn restart(&self) {
        self.power.bring_back();
        self.data.restart();
        self.log.restart();
    }
}

pub(crate) fn any_key(random: &mut Random) -> Vec<u8> {
    let length = if random.random_bool(0.05) { 60 } else { random.random_range(0..5) };
    (0..length).map(|_| random.random_range(b'a'..b'f')).collect()
}

/// Mostly short; some are too long for a leaf, and a few consist of several parts.
fn any_value(random: &mut Random) -> Vec<u8> {
    let length = match random.random_range(0..1000) {
        0 => random.random_range(1 << 20..5 << 19),
        1..20 => random.random_range(0..40_000),
        20..100 => random.random_range(0..3000),
        _ => random.random_range(0..100),
    };
    let (first, step): (u8, u8) = (random.random(), random.random());
    (0..length).map(|index| first.wrapping_add((index >> 7) as u8).wrapping_mul(step)).collect()
}

/// Records to ingest: some among those of [`any_change`], or many behind them.
pub(crate) fn any_records(random: &mut Random) -> Records {
    let count = random.random_range(1..300);
    let is_behind = random.random_bool(0.3);
    let key = |random: &mut Random, number: u64| match is_behind {
        true => [b"z", &number.to_be_bytes()[..]].concat(),
        false => any_key(random),
    };
    let record = |number| (key(random, number), vec![random.random(); random.random_range(0..100)]);
    (0..count).map(record).collect()
}

/// What takes changes in.
pub(crate) trait Changes {
    fn put(&mut self, tree: &Tree, key: &[u8], value: &[u8]);
    fn delete(&mut self, tree: &Tree, key: &[u8]);
    fn merge(&mut self, tree: &Tree, kind: KindNumber, key: &[u8], operand: &[u8]);
}

macro_rules! changes {
    ($($type:ty),*) => {$(
        impl Changes for $type {
            fn put(&mut self, tree: &Tree, key: &[u8], value: &[u8]) {
                <$type>::put(self, tree, key, value);
            }

            fn delete(&mut self, tree: &Tree, key: &[u8]) {
                <$type>::delete(self, tree, key);
            }

            fn merge(&mut self, tree: &Tree, kind: KindNumber, key: &[u8], operand: &[u8]) {
                <$type>::merge(self, tree, kind, key, operand);
            }
        }
    )*};
}

changes!(Batch, Draft);

pub(crate) fn any_change(
    random: &mut Random,
    tree: &Tree,
    batch: &mut impl Changes,
    model: &mut Records,
) {
    let key = any_key(random);
    match random.random_range(0..10) {
        0..2 => {
            batch.delete(tree, &key);
            model.remove(&key);
        }
        2..5 => {
            let value = any_value(random);
            batch.put(tree, &key, &value);
            model.insert(key, value);
        }
        5..7 => {
            let operand = vec![random.random(); random.random_range(0..100)];
            batch.merge(tree, APPEND, &key, &operand);
            model.entry(key).or_default().extend(operand);
        }
        _ => {
            let operand: u64 = random.random_range(1..1000);
            batch.merge(tree, COUNT, &key, &operand.to_le_bytes());
            let mut old = [0; 8];
            let had = model.get(&key).filter(|value| value.len() >= 8);
            old.copy_from_slice(had.map_or(&[0; 8], |value| &value[..8]));
            let sum = u64::from_le_bytes(old).wrapping_add(operand);
            model.insert(key, sum.to_le_bytes().to_vec());
        }
    }
}
