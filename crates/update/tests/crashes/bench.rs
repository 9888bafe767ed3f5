//! Devices that fail at random, and the engine on them.

use std::sync::Arc;

use moirai_devices::{FaultyDevice, Medium, Power};
use moirai_runtime::Random;
use moirai_storage::Device;
use moirai_units::{BlockCount, ByteCount, Lbn, Nanos};
use moirai_update::{
    Durability, Engine, Error, Format, Formats, Kinds, LogWriter, Options, WholeBlocks,
};
use rand::Rng;

use crate::model::{BLOCK, Model, SPACE, kinds};

/// Physical sectors of the log and of the data.
#[derive(Clone, Copy)]
pub(crate) struct Sectors {
    log: BlockCount,
    data: BlockCount,
}

/// Sectors of one block, and of 4 KiB.
const SMALL: BlockCount = BlockCount(1);
const LARGE: BlockCount = BlockCount(8);

impl Sectors {
    pub(crate) const SMALL: Sectors = Sectors { log: SMALL, data: SMALL };
    pub(crate) const LARGE_OF_LOG: Sectors = Sectors { log: LARGE, data: SMALL };
    pub(crate) const LARGE: Sectors = Sectors { log: LARGE, data: LARGE };
}

pub(crate) fn devices(logs: &[Arc<FaultyDevice>]) -> Vec<Arc<dyn Device>> {
    logs.iter().map(|log| Arc::clone(log) as _).collect()
}

/// Less than the log takes, mostly.
pub(crate) fn any_memory(random: &mut Random) -> ByteCount {
    let kib = if random.random_bool(0.3) { 30..200 } else { 4..30 };
    ByteCount(random.random_range(kib) << 10)
}

pub(crate) struct Bench {
    pub(crate) power: Arc<Power>,
    pub(crate) data: Arc<FaultyDevice>,
    pub(crate) logs: Vec<Arc<FaultyDevice>>,
    pub(crate) options: Options,
    pub(crate) blocks: u64,
}

impl Bench {
    /// On devices with such sectors. Segments of logs with large ones are longer.
    pub(crate) async fn new(random: &mut Random, sectors: Sectors) -> Bench {
        let power = Power::on();
        // Where tracks are long they begin anywhere in sectors.
        let (track, lengths, segments) = match sectors.log {
            SMALL => (BlockCount(16), 130..600, 8..30),
            _ => (BlockCount(70), 450..1200, 32..60),
        };
        // Flash is told what is free while updates go on.
        let is_flash: bool = moirai_runtime::random("flash").random();
        let medium = if is_flash { Medium::flash } else { Medium::disk };
        let log_device = |blocks| {
            let (blocks, power) = (BlockCount(blocks), Arc::clone(&power));
            FaultyDevice::on(medium(sectors.log), "log".into(), blocks, track, power)
        };
        // Mostly one; their sizes differ.
        let disks = random.random_range(1..5_u64).saturating_sub(1).max(1);
        let log = |_| log_device(random.random_range(lengths.clone()));
        let logs: Vec<_> = (0..disks).map(log).collect();
        // Now and then the blocks do not all fit.
        let is_small = random.random_bool(0.05);
        let (data_blocks, blocks) =
            if is_small { (500..1200, 300..1000) } else { (1200..6000, 1..200) };
        let data_blocks = random.random_range(data_blocks);
        // Extents are whole sectors.
        let data_blocks = BlockCount(data_blocks * sectors.data.0);
        let (power_of_data, ensemble) = (Arc::clone(&power), BlockCount(16));
        let data_medium = medium(sectors.data);
        let data =
            FaultyDevice::on(data_medium, "data".into(), data_blocks, ensemble, power_of_data);
        let format = Format {
            block_bytes: ByteCount(BLOCK as u64),
            partition_blocks: random.random_range(1..12),
            staging_percent: [0, 50, 100, 300][random.random_range(0..4)],
            segment_bytes: Some(ByteCount(512 * random.random_range(segments))),
            log: match random.random_range(0..3) {
                0 => LogWriter::Trail { rotation: Nanos(random.random_range(1000..10_000_000)) },
                _ => LogWriter::Append,
            },
        };
        Engine::format(&*data, &devices(&logs), &WholeBlocks, format).await.unwrap();
        let durability = [Durability::Flushed, Durability::Written][random.random_range(0..2)];
        let memory = any_memory(random);
        let log_wait = Nanos([0, 200_000, 2_000_000][random.random_range(0..3)]);
        let blocks = random.random_range(blocks);
        // Short enough that it rests now and then, and gives free blocks of data and log back.
        let idle = Some(Nanos([1_000_000_000, 100_000][random.random_range(0..2)]));
        // Few partitions are of several pages.
        let page_partitions = [2, 3, 128][moirai_runtime::random("pages").random_range(0..3)];
        let durable = Options { durability, log_wait, ..Options::default() };
        let options = Options { memory, idle, page_partitions, ..durable };
        Bench { power, data, logs, options, blocks }
    }

    pub(crate) async fn open(&self) -> moirai_update::Result<Engine> {
        let engine = self.open_with(kinds()).await?;
        engine.create_space(SPACE).await?;
        Ok(engine)
    }

    pub(crate) async fn open_with(&self, kinds: Kinds) -> moirai_update::Result<Engine> {
        let (data, logs) = (Arc::clone(&self.data), devices(&self.logs));
        Engine::open(data, &logs, kinds, Formats::of(WholeBlocks), self.options).await
    }

    /// Opens it, though the power may fail meanwhile, again and again; tells whether it did.
    pub(crate) async fn open_at_last(&mut self, random: &mut Random) -> (Engine, bool) {
        let mut was_cut = false;
        loop {
            // What is pending may be more than there is memory for by now.
            self.options.memory = any_memory(random);
            if random.random_bool(0.3) {
                self.power.fail_after(random.random_range(0..20));
            }
            match self.open().await {
                Ok(engine) if !self.power.is_off() => {
                    self.power.bring_back();
                    return (engine, was_cut);
                }
                Err(error) if !self.power.is_off() => panic!("cannot be opened: {error}"),
                _ => self.restart(),
            }
            was_cut = true;
        }
    }

    /// Fails reads of some blocks of the data, behind the superblocks.
    pub(crate) fn make_unreadable(&self, random: &mut Random) {
        let capacity = (&*self.data as &dyn Device).inquiry().capacity;
        for _ in 0..random.random_range(1..30) {
            let first = random.random_range(16..capacity.0);
            let end = capacity.0.min(first + random.random_range(1..100));
            (first..end).for_each(|lbn| self.data.make_unreadable(Lbn(lbn)));
        }
    }

    pub(crate) fn restart(&self) {
        self.power.bring_back();
        self.data.restart();
        self.logs.iter().for_each(|log| log.restart());
    }

    pub(crate) async fn content(&self, engine: &Engine) -> Model {
        self.try_content(engine).await.unwrap()
    }

    pub(crate) async fn try_content(&self, engine: &Engine) -> Result<Model, Error> {
        let mut model = Model::new();
        for block in 0..self.blocks {
            let read = engine.get(SPACE, &block.to_be_bytes()).await?;
            let read = read.unwrap();
            assert_eq!(read.len(), BLOCK);
            if read.iter().any(|byte| *byte != 0) {
                model.insert(block, read);
            }
        }
        Ok(model)
    }
}
