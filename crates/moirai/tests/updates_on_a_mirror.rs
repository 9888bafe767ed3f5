//! The update engine on mirrored devices with checksums: what one of them loses or changes is made good from the
//! other, of the log as of the data.

#![expect(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    reason = "a test stops at what it did not expect"
)]

use std::sync::Arc;

use moirai::devices::{FaultyDevice, Power};
use moirai::runtime::{Random, block_on_virtual, random};
use moirai::storage::Device;
use moirai::units::{BlockCount, ByteCount, Lbn};
use moirai::update::{
    Engine, Format, Formats, Group, Kinds, Modification, Options, PUT, SpaceId, WholeBlocks,
};
use moirai::volume::{self, LayoutDescription, Level, StripeUnit, Volume, assemble};
use rand::Rng;

const SPACE: SpaceId = SpaceId(1);
const KEYS: u64 = 60;
const BLOCK: usize = 512;

/// Two devices and the volume over them.
struct Mirror {
    disks: [Arc<FaultyDevice>; 2],
    name: &'static str,
    /// Of the volume.
    capacity: u64,
}

impl Mirror {
    async fn new(name: &'static str, blocks: u64, power: &Arc<Power>) -> Mirror {
        let disk = |side: &str| {
            let name = format!("{name} {side}");
            FaultyDevice::new(name, BlockCount(blocks), BlockCount(16), Arc::clone(power))
        };
        let mirror = Mirror { disks: [disk("left"), disk("right")], name, capacity: 0 };
        let format = volume::Format {
            level: Level::Raid1,
            layout: LayoutDescription::Stripe { unit: StripeUnit::Blocks(BlockCount(16)) },
            journal: None,
            integrity: true,
            is_blank: true,
        };
        volume::format(name, &mirror.devices(), format, |_, _| {}).await.unwrap();
        mirror
    }

    fn devices(&self) -> Vec<Arc<dyn Device>> {
        self.disks.iter().map(|disk| Arc::clone(disk) as Arc<dyn Device>).collect()
    }

    async fn open(&self) -> Result<Arc<Volume>, moirai::storage::Error> {
        assemble(self.name.into(), self.devices(), false).await
    }

    /// Changes, or makes unreadable, a third of the first blocks of these sides that the volume gives its users.
    fn damage(&self, random: &mut Random, sides: &[usize]) {
        for lbn in (0..USED).map(|block| Lbn(self.first() + block)) {
            let is_corrupt = random.random_bool(0.5);
            if !random.random_ratio(1, 3) {
                continue;
            }
            for disk in sides.iter().filter_map(|side| self.disks.get(*side)) {
                match is_corrupt {
                    true => disk.corrupt(lbn),
                    false => disk.make_unreadable(lbn),
                }
            }
        }
    }

    /// Where the volume's own part of a device ends: its labels, journal and checksums.
    fn first(&self) -> u64 {
        let disk = &self.disks[0];
        disk.inquiry().capacity.0 - self.capacity
    }
}

/// Does random work, is closed or dropped, damaged and opened again; gives the first error.
async fn work(sides: &[usize]) -> Result<(), Box<dyn std::error::Error>> {
    let mut random = random("mirror");
    let power = Power::on();
    let (mut data, mut log) =
        (Mirror::new("data", 24_000, &power).await, Mirror::new("log", 24_000, &power).await);
    let format = Format {
        block_bytes: ByteCount(BLOCK as u64),
        partition_blocks: 8,
        segment_bytes: Some(ByteCount(16 << 10)),
        ..Format::default()
    };
    {
        let (data_volume, log_volume) = (data.open().await?, log.open().await?);
        data.capacity = data_volume.inquiry().capacity.0;
        log.capacity = log_volume.inquiry().capacity.0;
        Engine::format(&*data_volume, &[log_volume], &WholeBlocks, format).await?;
    }
    let options = Options { memory: ByteCount(16 << 10), ..Options::default() };
    let mut expected = vec![0_u64; KEYS as usize];
    for _ in 0..3 {
        let (data_volume, log_volume) = (data.open().await?, log.open().await?);
        let formats = Formats::of(WholeBlocks);
        let engine =
            Engine::open(data_volume, &[log_volume], Kinds::new(), formats, options).await?;
        engine.create_space(SPACE).await?;
        for (key, expected) in (0_u64..).zip(&expected).filter(|(_, value)| **value > 0) {
            let read = engine.get(SPACE, &key.to_be_bytes()).await?.unwrap();
            assert_eq!(read.first_chunk(), Some(&expected.to_le_bytes()), "key {key}");
        }
        for _ in 0..40 {
            let mut group = Group::new();
            for _ in 0..10 {
                let key = random.random_range(0..KEYS);
                let value: u64 = random.random_range(1..u64::MAX);
                let (at, bytes) = (key.to_be_bytes(), value.to_le_bytes());
                group.modify(SPACE, Modification { key: &at, kind: PUT, bytes: &bytes });
                expected[key as usize] = value;
            }
            engine.commit(&group).await?;
        }
        if random.random_bool(0.5) {
            engine.close().await?;
        } else {
            drop(engine);
        }
        data.damage(&mut random, sides);
        log.damage(&mut random, sides);
    }
    Ok(())
}

/// Blocks of a volume that the engine uses first, or so.
const USED: u64 = 600;

#[test]
fn what_one_side_loses_is_made_good() {
    for seed in 0..20 {
        let side = [(seed % 2) as usize];
        block_on_virtual(seed, async { work(&side).await.map_err(|error| error.to_string()) })
            .unwrap_or_else(|error| panic!("seed {seed}: {error}"));
    }
}

/// What is damaged is what is used.
#[test]
fn what_both_sides_lose_is_lost() {
    let fails = |seed| block_on_virtual(seed, async { work(&[0, 1]).await.is_err() });
    assert!((0..20).filter(|seed| fails(*seed)).count() >= 15);
}
