//! Spaces with different formats in one engine, and blocks with two units: how many device blocks a read of one unit takes, how
//! staged modifications are divided, and what a power cut or a damaged unit leaves.

#![expect(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    reason = "a test stops at what it did not expect"
)]

mod classes;
mod fitted;
mod indexed;
mod pairs;
mod rows;

use std::collections::BTreeMap;
use std::sync::Arc;

use moirai_devices::{FaultyDevice, Power};
use moirai_runtime::{Random, block_on_virtual, each_seed, random};
use moirai_storage::{Device, Meter, Metered};
use moirai_units::{BlockCount, ByteCount};
use moirai_update::{
    At, DELETE, Engine, Error, Format, Formats, Group, KindNumber, Modification, NewBlocks,
    Options, PUT, Reader, SpaceFormat, SpaceId, UnitSet, WholeBlocks,
};
use rand::Rng;

use crate::classes::Classes;
use crate::pairs::{
    ADD_BOTH, BLOCK, FITTED_BLOCK, FittedPairs, KeyedPair, Pairs, RECORDS_MAX, SET_A, SET_B,
    applied, bytes_of, kinds, pair_of, shown,
};

const PAIRS: SpaceId = SpaceId(1);
const WHOLE: SpaceId = SpaceId(2);
const A: usize = 0;
const B: usize = 1;

type Model = BTreeMap<u64, (u64, u64)>;

/// A data device, a log, and what counts what passes to the data device.
struct Devices {
    power: Arc<Power>,
    data: Arc<FaultyDevice>,
    log: Arc<FaultyDevice>,
    metered: Arc<Metered>,
    /// What the engine is opened with.
    classes: Arc<dyn Device>,
}

impl Devices {
    async fn formatted(data_blocks: u64, log_blocks: u64) -> Devices {
        let power = Power::on();
        let device = |name: &str, blocks| {
            FaultyDevice::new(name.into(), BlockCount(blocks), BlockCount(1), Arc::clone(&power))
        };
        let (data, log) = (device("data", data_blocks), device("log", log_blocks));
        let metered = Metered::new(Arc::clone(&data) as _);
        let format =
            Format { block_bytes: ByteCount(512), partition_blocks: 8, ..Format::default() };
        let logs = [Arc::clone(&log) as Arc<dyn Device>];
        Engine::format(&*data, &logs, &WholeBlocks, format).await.unwrap();
        let classes = Arc::clone(&metered) as _;
        Devices { power, data, log, metered, classes }
    }

    /// The data device has regions of equivalents: so many slots of so many blocks.
    fn with_classes(self, slots: u64, columns: u64) -> Devices {
        let inner = Arc::clone(&self.metered) as _;
        Devices { classes: Classes::new(inner, slots, columns), ..self }
    }

    async fn open_with(&self, formats: Formats, options: Options) -> Result<Engine, Error> {
        let logs = [Arc::clone(&self.log) as Arc<dyn Device>];
        Engine::open(Arc::clone(&self.classes), &logs, kinds(), formats, options).await
    }

    async fn open(&self) -> Engine {
        self.open_for(Options::default()).await
    }

    async fn open_for(&self, options: Options) -> Engine {
        let formats = Formats::of(WholeBlocks).with(Pairs);
        let engine = self.open_with(formats, options).await.unwrap();
        engine.create_space_of(PAIRS, &space_format(64)).await.unwrap();
        engine.create_space(WHOLE).await.unwrap();
        engine
    }
}

/// All that is read comes from the device.
fn uncached() -> Options {
    Options { cache: ByteCount(0), ..Options::default() }
}

fn space_format(partition_blocks: u32) -> SpaceFormat {
    SpaceFormat {
        name: "pairs".into(),
        parameters: Box::default(),
        block_bytes: ByteCount(BLOCK as u64),
        partition_blocks,
        staging_percent: 400,
    }
}

fn fitted_format(partition_blocks: u32) -> SpaceFormat {
    SpaceFormat {
        name: "fitted pairs".into(),
        block_bytes: ByteCount(FITTED_BLOCK as u64),
        staging_percent: 100,
        ..space_format(partition_blocks)
    }
}

fn change(group: &mut Group, key: u64, kind: KindNumber, bytes: &[u8]) {
    group.modify(PAIRS, Modification { key: &key.to_be_bytes(), kind, bytes });
}

/// Records 0 to `count`, in blocks on the device.
async fn filled(devices: &Devices, count: u64, options: Options) -> Engine {
    let engine = devices.open_for(options).await;
    for first in (0..count).step_by(100) {
        let mut group = Group::new();
        for key in first..count.min(first + 100) {
            change(&mut group, key, PUT, &bytes_of((key, 1000 + key)));
        }
        engine.commit(&group).await.unwrap();
    }
    engine.checkpoint().await.unwrap();
    engine
}

/// All records in the order of their keys, as far as these units tell.
async fn scanned(reader: Reader<'_>, space: SpaceId) -> Result<Vec<(u64, (u64, u64))>, Error> {
    let mut records = Vec::new();
    let mut next: Option<Box<[u8]>> = Some(Box::default());
    while let Some(key) = next {
        let Some(view) = reader.view(space, At::Key(&key), 64).await? else { break };
        view.blocks().for_each(|(_, block)| records.extend(shown(block)));
        next = view.next;
    }
    Ok(records)
}

/// The same of a reader in layers, which applies the modifications itself.
async fn scanned_in_layers(
    reader: Reader<'_>,
    space: SpaceId,
) -> Result<Vec<(u64, (u64, u64))>, Error> {
    let (mut records, kinds) = (Vec::new(), kinds());
    let mut views = reader.in_layers(UnitSet::NONE).views(space, At::Key(&[]), 64, |_| true);
    while let Some(view) = views.next().await.transpose()? {
        for layers in view.layers() {
            let modifications: Vec<Modification<'_>> = layers.modifications().collect();
            assert!(modifications.is_sorted_by_key(|one| one.key));
            let mut new_blocks = NewBlocks::new(0);
            let pairs = applied(layers.block, &modifications, &kinds, &mut new_blocks).unwrap();
            let number = |(key, pair): KeyedPair| (u64::from_be_bytes(key), pair);
            records.extend(pairs.into_iter().map(number));
        }
    }
    Ok(records)
}

/// What a reader of these units is to be shown.
fn expected(model: &Model, units: UnitSet) -> Vec<(u64, (u64, u64))> {
    let seen = |(a, b)| (if units.has(A) { a } else { 0 }, if units.has(B) { b } else { 0 });
    model.iter().map(|(key, pair)| (*key, seen(*pair))).collect()
}

#[test]
fn a_scan_of_one_unit_reads_half_of_the_blocks() {
    block_on_virtual(1, async {
        const COUNT: u64 = 2000;
        let devices = Devices::formatted(20_000, 2000).await;
        let engine = filled(&devices, COUNT, uncached()).await;
        let blocks = COUNT.div_ceil(RECORDS_MAX as u64);
        let mut read = Vec::new();
        for units in [UnitSet::ALL, UnitSet::one(A), UnitSet::one(B)] {
            devices.metered.take();
            let records = scanned(engine.now().units(units), PAIRS).await.unwrap();
            let model = (0..COUNT).map(|key| (key, (key, 1000 + key))).collect();
            assert_eq!(records, expected(&model, units));
            read.push(devices.metered.take().read_blocks.0);
        }
        // The tables of the blocks are in memory since the sweeps wrote them.
        assert_eq!(read, [2 * blocks, blocks, blocks]);
    });
}

#[test]
fn a_point_read_takes_the_units_that_it_asks_for() {
    block_on_virtual(1, async {
        let devices = Devices::formatted(20_000, 2000).await;
        let engine = filled(&devices, 2000, Options::default()).await;
        for (key, units, blocks, pair) in [
            (777, UnitSet::one(A), 1, (777, 0)),
            (1200, UnitSet::one(B), 1, (0, 2200)),
            (1500, UnitSet::one(A).with(UnitSet::one(B)), 2, (1500, 2500)),
            // Both are kept by now.
            (1501, UnitSet::ALL, 0, (1501, 2501)),
            (778, UnitSet::one(A), 0, (778, 0)),
            (779, UnitSet::one(B), 1, (0, 1779)),
        ] {
            devices.metered.take();
            let reader = engine.now().units(units);
            let value = reader.get(PAIRS, &u64::to_be_bytes(key)).await.unwrap().unwrap();
            assert_eq!(pair_of(&value), Some(pair), "{key} {units:?}");
            assert_eq!(devices.metered.take().read_blocks.0, blocks, "{key} {units:?}");
        }
    });
}

/// What is staged for one unit is read by those alone who ask for it.
#[test]
fn staged_parts_are_divided_by_units() {
    block_on_virtual(1, async {
        const COUNT: u64 = 2000;
        let devices = Devices::formatted(40_000, 4000).await;
        let engine = filled(&devices, COUNT, uncached()).await;
        let mut model: Model = (0..COUNT).map(|key| (key, (key, 1000 + key))).collect();
        let before = engine.figures().staged_bytes;
        let mut group = Group::new();
        for key in 0..COUNT {
            // Of a, much is staged; of b, little.
            change(&mut group, key, SET_A, &(2 * key).to_le_bytes());
            model.get_mut(&key).unwrap().0 = 2 * key;
            if key % 8 == 0 {
                change(&mut group, key, SET_B, &(3 * key).to_le_bytes());
                model.get_mut(&key).unwrap().1 = 3 * key;
            }
        }
        engine.commit(&group).await.unwrap();
        engine.checkpoint().await.unwrap();
        let staged_bytes = engine.figures().staged_bytes - before;
        assert!(staged_bytes > 0, "it was not staged");
        let blocks = COUNT.div_ceil(RECORDS_MAX as u64);
        let mut staged = Vec::new();
        for units in [UnitSet::ALL, UnitSet::one(A), UnitSet::one(B)] {
            devices.metered.take();
            let records = scanned(engine.now().units(units), PAIRS).await.unwrap();
            assert_eq!(records, expected(&model, units));
            let of_blocks = if units == UnitSet::ALL { 2 * blocks } else { blocks };
            let Meter { read_blocks, .. } = devices.metered.take();
            staged.push((read_blocks.0 - of_blocks) * 512);
        }
        // Nine modifications of a to one of b, about; runs begin within device blocks.
        let [all, a, b] = staged[..] else { panic!() };
        assert!(
            all >= staged_bytes && all < staged_bytes + staged_bytes / 4,
            "{all} {staged_bytes}"
        );
        assert!(a > all * 3 / 4 && a < all, "{a} of {all}");
        assert!(b > 0 && b < all / 4, "{b} of {all}");
        // What may change any unit, everybody reads, and what came before it of its key.
        let mut group = Group::new();
        for key in (0..COUNT).step_by(4) {
            change(&mut group, key, SET_B, &7_u64.to_le_bytes());
            change(&mut group, key, ADD_BOTH, &1_u64.to_le_bytes());
            change(&mut group, key, SET_A, &9_u64.to_le_bytes());
            model.insert(key, (9, 8));
        }
        engine.commit(&group).await.unwrap();
        engine.checkpoint().await.unwrap();
        for units in [UnitSet::ALL, UnitSet::one(A), UnitSet::one(B)] {
            let reader = engine.now().units(units);
            assert_eq!(scanned(reader, PAIRS).await.unwrap(), expected(&model, units));
        }
    });
}

/// Reads of other units succeed. Dropping what is damaged loses the records of that block, in all units, and no others.
#[test]
fn a_damaged_unit_stops_readers_of_that_unit_alone() {
    block_on_virtual(1, async {
        let devices = Devices::formatted(20_000, 2000).await;
        let engine = filled(&devices, 100, Options::default()).await;
        let used = engine.map().await;
        let blocks =
            used.iter().find(|one| one.used_for == moirai_update::ExtentUse::Blocks(PAIRS));
        let count = 100_u64.div_ceil(RECORDS_MAX as u64);
        // The second unit of the second block.
        let lbn = blocks.unwrap().blocks.first + BlockCount(count + 1);
        devices.data.corrupt(lbn);
        assert_eq!(scanned(engine.now().units(UnitSet::one(A)), PAIRS).await.unwrap().len(), 100);
        let damaged = scanned(engine.now().units(UnitSet::one(B)), PAIRS).await;
        let Err(Error::Damaged { blocks, .. }) = damaged else { panic!("{damaged:?}") };
        assert_eq!((blocks.first, blocks.count), (lbn, BlockCount(1)));
        let dropped = engine.drop_damaged().await.unwrap();
        assert_eq!((dropped.len(), dropped[0].blocks.first), (1, lbn), "{dropped:?}");
        let lost = RECORDS_MAX as u64..2 * RECORDS_MAX as u64;
        let kept = (0..100).filter(|key| !lost.contains(key));
        let model: Model = kept.map(|key| (key, (key, 1000 + key))).collect();
        let all = scanned(engine.now(), PAIRS).await.unwrap();
        assert_eq!(all, expected(&model, UnitSet::ALL));
        assert!(engine.check().await.is_empty());
    });
}

#[test]
fn an_engine_opens_with_the_formats_of_its_spaces_alone() {
    block_on_virtual(1, async {
        let devices = Devices::formatted(20_000, 2000).await;
        devices.open().await.close().await.unwrap();
        for _ in 0..2 {
            let refused = devices.open_with(Formats::of(WholeBlocks), Options::default()).await;
            let Err(Error::UnknownFormat { format }) = refused else { panic!("{refused:?}") };
            assert_eq!(format, "pairs");
            // From the log first, and then from a checkpoint.
            let engine = devices.open().await;
            let mut group = Group::new();
            change(&mut group, 1, PUT, &bytes_of((2, 3)));
            engine.commit(&group).await.unwrap();
            engine.checkpoint().await.unwrap();
            assert_eq!(engine.space_format(PAIRS).unwrap(), space_format(64));
            assert_eq!(&*engine.space_format(WHOLE).unwrap().name, "whole");
            engine.close().await.unwrap();
        }
        let engine = devices.open().await;
        let bad = |change: fn(&mut SpaceFormat)| {
            let mut format = space_format(8);
            change(&mut format);
            format
        };
        for (format, problem) in [
            (bad(|format| format.name = "none".into()), "`none`"),
            (bad(|format| format.parameters = [1].into()), "`pairs` with these parameters"),
            (bad(|format| format.block_bytes = ByteCount(2048)), "its units"),
            (bad(|format| format.block_bytes = ByteCount(1000)), "a multiple of 512"),
            (bad(|format| format.partition_blocks = 65), "take 1 to 64"),
            (bad(|format| format.parameters = vec![0; 5000].into()), "4096 bytes of parameters"),
        ] {
            let refused = engine.create_space_of(SpaceId(3), &format).await;
            let Err(Error::Options { problem: said }) = refused else { panic!("{refused:?}") };
            assert!(said.contains(problem), "{said}");
        }
        assert_eq!(engine.spaces(), [PAIRS, WHOLE]);
        // Units that no block has.
        let reader = engine.now().units(UnitSet::one(2));
        let refused = reader.get(PAIRS, &[0; 8]).await;
        assert!(matches!(refused, Err(Error::Options { .. })), "{refused:?}");
        assert!(engine.now().units(UnitSet::one(B)).get(WHOLE, &[0; 8]).await.is_err());
    });
}

/// Random changes to both spaces in one group.
fn any_group(random: &mut Random, model: &mut (Model, BTreeMap<u64, u8>)) -> Group {
    let mut group = Group::new();
    let kinds = kinds();
    for _ in 0..random.random_range(1..60) {
        let key = random.random_range(0..400);
        let number: u64 = random.random_range(1..1000);
        let number_bytes = number.to_le_bytes();
        let (kind, bytes) = match random.random_range(0..10) {
            0 => (PUT, bytes_of((number, number + 1)).to_vec()),
            1 => (DELETE, Vec::new()),
            2..4 => (ADD_BOTH, number_bytes.to_vec()),
            4..7 => (SET_A, number_bytes.to_vec()),
            _ => (SET_B, number_bytes.to_vec()),
        };
        change(&mut group, key, kind, &bytes);
        let mut value = moirai_update::Value::default();
        value.set(model.0.get(&key).map(|pair| bytes_of(*pair)).as_ref().map(|bytes| &bytes[..]));
        kinds.apply(kind, &mut value, &bytes);
        match value.get().and_then(pair_of) {
            Some(pair) => model.0.insert(key, pair),
            None => model.0.remove(&key),
        };
    }
    if random.random_bool(0.5) {
        let (key, byte) = (random.random_range(0..40_u64), random.random_range(1..=255));
        let bytes = [byte; 512];
        group.modify(WHOLE, Modification { key: &key.to_be_bytes(), kind: PUT, bytes: &bytes });
        model.1.insert(key, byte);
    }
    group
}

/// What both spaces hold, the pairs read with these units.
async fn content(
    reader: Reader<'_>,
    units: UnitSet,
) -> Result<(Vec<(u64, (u64, u64))>, BTreeMap<u64, u8>), Error> {
    let pairs = scanned(reader.units(units), PAIRS).await?;
    let mut whole = BTreeMap::new();
    for key in 0..40_u64 {
        let value = reader.get(WHOLE, &key.to_be_bytes()).await?.unwrap();
        if value[0] > 0 {
            whole.insert(key, value[0]);
        }
    }
    Ok((pairs, whole))
}

async fn survive() {
    let mut random = random("units");
    let (slots, columns) = (random.random_range(1..4), random.random_range(8..200));
    let devices = Devices::formatted(6000, 600).await.with_classes(slots, columns);
    let options =
        Options { memory: ByteCount(random.random_range(8..64) << 10), ..Options::default() };
    let all = [UnitSet::ALL, UnitSet::one(A), UnitSet::one(B)];
    let mut durable = (Model::new(), BTreeMap::new());
    let formats = Formats::of(WholeBlocks).with(Pairs).with(FittedPairs);
    let format = if random.random_bool(0.5) { space_format(8) } else { fitted_format(8) };
    for _ in 0..random.random_range(1..4) {
        let engine = devices.open_with(formats.clone(), options).await.unwrap();
        engine.create_space_of(PAIRS, &format).await.unwrap();
        engine.create_space(WHOLE).await.unwrap();
        let (pairs, whole) = content(engine.now(), UnitSet::ALL).await.unwrap();
        assert_eq!((pairs, whole), (expected(&durable.0, UnitSet::ALL), durable.1.clone()));
        if random.random_bool(0.7) {
            devices.power.fail_after(random.random_range(0..80));
        }
        let mut model = durable.clone();
        let mut point = None;
        for _ in 0..random.random_range(1..60) {
            let group = any_group(&mut random, &mut model);
            if engine.commit(&group).await.is_err() {
                break;
            }
            durable = model.clone();
            if random.random_bool(0.1) {
                point = Some((engine.read_point().await, durable.clone()));
            }
            if random.random_bool(0.1) && engine.checkpoint().await.is_err() {
                break;
            }
            let units = all[random.random_range(0..3)];
            let key: u64 = random.random_range(0..400);
            if let Ok(found) = engine.now().units(units).get(PAIRS, &key.to_be_bytes()).await {
                let found = found.as_deref().and_then(pair_of);
                let (a, b) = (units.has(A), units.has(B));
                let of = |pair: Option<(u64, u64)>| {
                    pair.map(|pair| (if a { pair.0 } else { 0 }, if b { pair.1 } else { 0 }))
                };
                assert_eq!(of(found), of(durable.0.get(&key).copied()), "{key} {units:?}");
            }
            let (reader, wanted) = match &point {
                Some((point, wanted)) if random.random_bool(0.2) => (point.reader(), wanted),
                _ => (engine.now(), &durable),
            };
            if let Ok((pairs, whole)) = content(reader, units).await {
                assert_eq!(whole, wanted.1);
                let pairs: Vec<_> = expected(&pairs.into_iter().collect(), units);
                assert_eq!(pairs, expected(&wanted.0, units), "{units:?}");
            }
            if let Ok(pairs) = scanned_in_layers(reader.units(units), PAIRS).await {
                let pairs: Vec<_> = expected(&pairs.into_iter().collect(), units);
                assert_eq!(pairs, expected(&wanted.0, units), "{units:?} in layers");
            }
        }
        drop(point);
        if devices.power.is_off() || random.random_bool(0.5) {
            drop(engine);
            devices.power.bring_back();
            devices.data.restart();
            devices.log.restart();
            // The last group may be there or not.
            let engine = devices.open_with(formats.clone(), options).await.unwrap();
            let found = match engine.spaces()[..] {
                [PAIRS, WHOLE] => content(engine.now(), UnitSet::ALL).await.unwrap(),
                _ => (Vec::new(), BTreeMap::new()),
            };
            let of = |model: &(Model, BTreeMap<u64, u8>)| {
                (expected(&model.0, UnitSet::ALL), model.1.clone())
            };
            assert!(found == of(&durable) || found == of(&model), "neither before nor after");
            durable = (found.0.into_iter().collect(), found.1);
            engine.close().await.unwrap();
        } else {
            // It does not fail any more.
            devices.power.bring_back();
            engine.close().await.unwrap();
        }
    }
}

#[test]
fn two_formats_survive_power_cuts() {
    each_seed(if cfg!(debug_assertions) { 200 } else { 20_000 }, survive);
}
