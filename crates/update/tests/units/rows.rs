//! Units in rows of equivalents: where a device has classes, all units of a block are of one.

use moirai_devices::Access;
use moirai_storage::Device;
use moirai_units::Lbn;
use moirai_update::{
    Block, BlockFormat, Engine, ExtentInUse, ExtentUse, Kinds, Modification, NewBlocks,
    NotOfFormat, Value,
};
use moirai_volume::{LayoutDescription, Level, Volume};

use super::*;
use crate::classes::Classes;

const WIDE: SpaceId = SpaceId(3);

/// A block for each key, whose value is all of its units.
#[derive(Clone, Copy, Debug)]
struct Wide {
    units: usize,
    unit_bytes: usize,
}

impl Wide {
    fn of(parameters: &[u8]) -> Option<Arc<dyn BlockFormat>> {
        let [units, sectors] = *parameters else { return None };
        Some(Arc::new(Wide { units: units.into(), unit_bytes: usize::from(sectors) * 512 }))
    }

    fn space_format(self) -> SpaceFormat {
        SpaceFormat {
            name: "wide".into(),
            parameters: [self.units as u8, (self.unit_bytes / 512) as u8].into(),
            block_bytes: ByteCount((self.units * self.unit_bytes) as u64),
            ..space_format(64)
        }
    }

    fn value_of(self, block: Block<'_>) -> Vec<u8> {
        let lost = vec![0; self.unit_bytes];
        let units = (0..self.units).map(|unit| block.unit(unit).unwrap_or(&lost));
        units.collect::<Vec<_>>().concat()
    }

    /// A unit of the value under a key.
    fn unit(self, key: u64, unit: usize) -> Vec<u8> {
        vec![key as u8 ^ (unit as u8) << 4; self.unit_bytes]
    }

    fn value(self, key: u64) -> Vec<u8> {
        (0..self.units).flat_map(|unit| self.unit(key, unit)).collect()
    }
}

impl BlockFormat for Wide {
    fn apply(
        &self,
        low: &[u8],
        block: Option<Block<'_>>,
        modifications: &[Modification<'_>],
        kinds: &Kinds,
        new_blocks: &mut NewBlocks,
    ) -> Result<(), NotOfFormat> {
        let mut all: BTreeMap<&[u8], Vec<u8>> =
            block.map(|block| (low, self.value_of(block))).into_iter().collect();
        for one in modifications {
            let mut value = Value::default();
            value.set(all.get(one.key).map(|value| &value[..]));
            kinds.apply(one.kind, &mut value, one.bytes);
            match value.get() {
                Some(value) => all.insert(one.key, value.to_vec()),
                None => all.remove(one.key),
            };
        }
        for (key, value) in all {
            new_blocks.push(key);
            for (unit, bytes) in value.chunks(self.unit_bytes).enumerate() {
                new_blocks
                    .last_unit_mut(unit)
                    .into_iter()
                    .for_each(|place| place.copy_from_slice(bytes));
            }
        }
        Ok(())
    }

    fn find(
        &self,
        low: &[u8],
        block: Block<'_>,
        key: &[u8],
        value: &mut Value,
    ) -> Result<(), NotOfFormat> {
        value.set((low == key).then(|| self.value_of(block)).as_deref());
        Ok(())
    }

    fn units(&self, _: usize) -> Vec<usize> {
        vec![self.unit_bytes; self.units]
    }

    fn growth_bytes(&self, _: &Modification<'_>, block_bytes: usize) -> usize {
        block_bytes
    }

    fn name(&self) -> &'static str {
        "wide"
    }

    fn last_key<'a>(&self, low: &'a [u8], _: Block<'a>) -> Result<&'a [u8], NotOfFormat> {
        Ok(low)
    }

    fn longest(&self, block_bytes: usize) -> (usize, usize) {
        (8, block_bytes)
    }
}

fn formats() -> Formats {
    Formats::of(WholeBlocks).with_parameters("wide", Wide::of)
}

/// An engine with a space of such blocks, all of them on the device.
async fn filled_wide(
    wide: Wide,
    format: SpaceFormat,
    (data, log): (Arc<dyn Device>, Arc<dyn Device>),
    count: u64,
) -> Engine {
    let options = uncached();
    let engine = Engine::open(data, &[log], kinds(), formats(), options).await.unwrap();
    engine.create_space_of(WIDE, &format).await.unwrap();
    for key in 0..count {
        let mut group = Group::new();
        let (key, bytes) = (&key.to_be_bytes(), &wide.value(key)[..]);
        group.modify(WIDE, Modification { key, kind: PUT, bytes });
        engine.commit(&group).await.unwrap();
    }
    engine.checkpoint().await.unwrap();
    engine
}

async fn assert_all(wide: Wide, engine: &Engine, count: u64) {
    for key in 0..count {
        let found = engine.now().get(WIDE, &key.to_be_bytes()).await.unwrap();
        assert!(found == Some(wide.value(key)), "{key}");
    }
}

/// Reads one unit of all blocks; gives how many there are.
async fn scan_unit(wide: Wide, engine: &Engine, unit: usize) -> u64 {
    let reader = engine.now().units(UnitSet::one(unit));
    let mut seen = 0;
    let mut views = reader.views(WIDE, At::Key(&[]), 64, |_| true);
    while let Some(view) = views.next().await {
        for (low, block) in view.unwrap().blocks() {
            let key = u64::from_be_bytes(low.try_into().unwrap());
            assert_eq!(block.unit(unit), Some(&wide.unit(key, unit)[..]));
            seen += 1;
        }
    }
    seen
}

/// The units of each block are of one class, as far as this has members; a scan of one unit reads that unit's blocks alone.
#[test]
fn units_of_a_block_are_equivalent() {
    const COUNT: u64 = 150;
    let wide = Wide { units: 5, unit_bytes: 512 };
    for slots in [1, 2, 3, 5, 8] {
        block_on_virtual(1, async {
            let devices = Devices::formatted(20_000, 4000).await.with_classes(slots, 1000);
            let classes = Arc::clone(&devices.classes);
            let on = (Arc::clone(&classes), Arc::clone(&devices.log) as _);
            let engine = filled_wide(wide, wide.space_format(), on, COUNT).await;
            let used = engine.map().await.into_iter();
            let used = used.filter(|one| one.used_for == ExtentUse::Blocks(WIDE));
            let extents: Vec<_> = used.map(|one| one.blocks).collect();
            let rows = (slots as usize).min(wide.units);
            assert!(slots > 1 || classes.equivalent(Lbn(30)).unwrap().lbns.len() == 1);
            let firsts: Vec<_> = extents.iter().map(|one| one.first).collect();
            for first in &firsts {
                let class = classes.equivalent(*first).unwrap().lbns;
                let others = class.iter().filter(|lbn| firsts.contains(lbn)).count();
                assert!(others.is_multiple_of(rows), "{first:?} of {firsts:?}");
            }
            assert!(extents.len().is_multiple_of(rows));
            // Beside the blocks there are their tables, of a few blocks.
            let blocks: u64 = extents.iter().map(|one| one.count.0).sum();
            let expected = COUNT * wide.units as u64;
            assert!((expected..expected + 30).contains(&blocks), "{blocks}");
            devices.metered.take();
            for unit in 0..wide.units {
                assert_eq!(scan_unit(wide, &engine, unit).await, COUNT);
                assert_eq!(devices.metered.take().read_blocks.0, COUNT);
            }
            // In rows, strips touch that have others between them.
            for (unit, other) in [(0, 2), (0, 3), (1, 3), (1, 4)] {
                let units = UnitSet::one(unit).with(UnitSet::one(other));
                let mut views = engine.now().units(units).views(WIDE, At::Key(&[]), 64, |_| true);
                while let Some(view) = views.next().await {
                    for (low, block) in view.unwrap().blocks() {
                        let key = u64::from_be_bytes(low.try_into().unwrap());
                        for unit in [unit, other] {
                            assert_eq!(block.unit(unit), Some(&wide.unit(key, unit)[..]));
                        }
                    }
                }
                assert_eq!(devices.metered.take().read_blocks.0, 2 * COUNT);
            }
            assert_all(wide, &engine, COUNT).await;
            drop(engine);
            // The log says where they lie, and then a checkpoint.
            for _ in 0..2 {
                let logs = [Arc::clone(&devices.log) as Arc<dyn Device>];
                let data = Arc::clone(&classes);
                let engine = Engine::open(data, &logs, kinds(), formats(), Options::default());
                let engine = engine.await.unwrap();
                assert_all(wide, &engine, COUNT).await;
                assert!(engine.check().await.is_empty());
                engine.close().await.unwrap();
            }
        });
    }
}

/// Four disks in quadrangles whose steps fit the units: whole blocks are read in less time than where their strips lie side by
/// side, and a scan of a unit takes no more. Strips that are shorter than a switch lie side by side.
#[test]
fn whole_blocks_are_read_semi_sequentially() {
    const COUNT: u64 = 640;
    let wide = Wide { units: 16, unit_bytes: 4096 };
    let measured = [(false, 64), (true, 64), (true, 8)].map(|(has_classes, partition_blocks)| {
        block_on_virtual(1, async {
            let open =
                |uri: &str| moirai_devices::open(uri.parse().unwrap(), Access::Write).unwrap();
            let disks = (0..4).map(|_| open("sim:seagate-cheetah-36es")).collect();
            let layout =
                LayoutDescription::Quadrangle { depth: Some(4), block: BlockCount(8), zone: None };
            let volume = Volume::new("v".into(), disks, Level::Raid0, layout).unwrap();
            let data: Arc<dyn Device> = match has_classes {
                true => volume,
                false => Classes::new(volume, 1, 4096),
            };
            let log = open("sim:seagate-cheetah-36es");
            let logs = [Arc::clone(&log)];
            Engine::format(&*data, &logs, &WholeBlocks, Format::default()).await.unwrap();
            let format = SpaceFormat { partition_blocks, ..wide.space_format() };
            let engine = filled_wide(wide, format, (data, log), COUNT).await;
            let blocks = |used: &ExtentInUse| used.used_for == ExtentUse::Blocks(WIDE);
            let extents = engine.map().await.iter().filter(|used| blocks(used)).count();
            let mut random = random("rows");
            let begun = moirai_runtime::now();
            for _ in 0..200 {
                let key: u64 = random.random_range(0..COUNT);
                engine.now().get(WIDE, &key.to_be_bytes()).await.unwrap().unwrap();
            }
            let fetched = moirai_runtime::now();
            for unit in 0..wide.units {
                assert_eq!(scan_unit(wide, &engine, unit).await, COUNT);
            }
            let scanned = moirai_runtime::now();
            (extents, fetched.since(begun).0, scanned.since(fetched).0)
        })
    });
    let [side_by_side, rows, short] = measured;
    // Ten partitions or a few less, and 80.
    assert!(rows.0 >= 8 * wide.units && rows.0.is_multiple_of(wide.units), "{measured:?}");
    assert!(side_by_side.0 <= 10 && short.0 <= 80, "{measured:?}");
    // A disk reads four units in a row: a seek, half a revolution, and three switches of 0.19 revolutions each, instead of
    // two or three separate accesses. And strips of neighbouring partitions lie side by side.
    assert!(rows.1 * 100 < side_by_side.1 * 80, "{measured:?}");
    assert!(rows.2 * 100 < side_by_side.2 * 80, "{measured:?}");
}
