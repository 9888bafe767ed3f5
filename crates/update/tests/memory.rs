//! What an engine keeps in memory stays within [`Options::memory`].

#![expect(clippy::unwrap_used, reason = "a test stops at what it did not expect")]

use std::sync::Arc;

use moirai_devices::{FaultyDevice, Power};
use moirai_runtime::{Random, block_on_virtual, sleep};
use moirai_storage::Device;
use moirai_units::{BlockCount, ByteCount, Nanos};
use moirai_update::{
    Engine, Error, Figures, Format, Formats, Group, Kinds, Modification, Options, PUT, SpaceId,
    WholeBlocks,
};
use rand::{Rng, SeedableRng};

const SPACE: SpaceId = SpaceId(1);
const KEYS: u64 = 4096;
/// Somewhat more than the directory takes.
const LITTLE: ByteCount = ByteCount(384 << 10);
const MUCH: ByteCount = ByteCount(32 << 20);

struct Fixture {
    power: Arc<Power>,
    data: Arc<FaultyDevice>,
    log: Arc<FaultyDevice>,
}

impl Fixture {
    async fn new(data_blocks: u64) -> Fixture {
        let power = Power::on();
        let device = |name: &str, blocks| {
            FaultyDevice::new(name.into(), BlockCount(blocks), BlockCount(16), Arc::clone(&power))
        };
        let (data, log) = (device("data", data_blocks), device("log", 16_000));
        let format = Format {
            block_bytes: ByteCount(512),
            partition_blocks: 16,
            segment_bytes: Some(ByteCount(64 << 10)),
            ..Format::default()
        };
        let logs = [Arc::clone(&log) as Arc<dyn Device>];
        Engine::format(&*data, &logs, &WholeBlocks, format).await.unwrap();
        Fixture { power, data, log }
    }

    async fn open_with(&self, options: Options) -> moirai_update::Result<Engine> {
        let logs = [Arc::clone(&self.log) as Arc<dyn Device>];
        let data = Arc::clone(&self.data);
        Engine::open(data, &logs, Kinds::new(), Formats::of(WholeBlocks), options).await
    }

    async fn open(&self, memory: ByteCount) -> Engine {
        self.open_with(Options { memory, ..Options::default() }).await.unwrap()
    }

    /// Fills the log: nothing of it is swept.
    async fn with_pending(&self, groups: u64) -> Vec<u64> {
        let engine = self.open(MUCH).await;
        engine.create_space(SPACE).await.unwrap();
        let mut values = vec![0; KEYS as usize];
        let mut random = Random::seed_from_u64(7);
        for number in 1..=groups {
            let mut group = Group::new();
            let mut next = values.clone();
            for _ in 0..100 {
                let key = random.random_range(0..KEYS);
                *next.get_mut(key as usize).unwrap() = number;
                let (key, bytes) = (key.to_be_bytes(), number.to_le_bytes());
                group.modify(SPACE, Modification { key: &key, kind: PUT, bytes: &bytes });
            }
            match engine.commit(&group).await {
                Err(Error::Full { .. }) => break,
                committed => committed.unwrap(),
            }
            values = next;
            // Some of it is in blocks, and some staged.
            if number == groups / 8 || number == groups / 4 {
                engine.checkpoint().await.unwrap();
            }
        }
        drop(engine);
        sleep(Nanos(10_000_000)).await;
        values
    }
}

async fn check(engine: &Engine, values: &[u64]) {
    for (key, expected) in (0..KEYS).zip(values) {
        let value = engine.get(SPACE, &key.to_be_bytes()).await.unwrap().unwrap();
        let number = value.first_chunk().copied().map(u64::from_le_bytes);
        assert_eq!(number, Some(*expected), "key {key}");
    }
}

fn memory_bytes(figures: &Figures) -> u64 {
    figures.queued_bytes + figures.directory_bytes + figures.other_bytes + figures.cached_bytes
}

#[test]
fn a_log_of_more_memory_is_recovered_with_little() {
    block_on_virtual(1, async {
        let fixture = Fixture::new(60_000).await;
        let values = fixture.with_pending(1000).await;
        let engine = fixture.open(MUCH).await;
        let figures = engine.figures();
        assert!(figures.queued_bytes > 3 * LITTLE.0, "{figures:?}");
        drop(engine);
        sleep(Nanos(10_000_000)).await;
        for _ in 0..2 {
            let engine = fixture.open(LITTLE).await;
            let figures = engine.figures();
            assert!(memory_bytes(&figures) <= LITTLE.0, "{figures:?}");
            check(&engine, &values).await;
            drop(engine);
            sleep(Nanos(10_000_000)).await;
        }
        let engine = fixture.open(MUCH).await;
        check(&engine, &values).await;
    });
}

/// A power cut at any write while it is opened.
#[test]
fn a_recovery_with_little_memory_that_a_power_cut_ends_is_begun_again() {
    block_on_virtual(2, async {
        let fixture = Fixture::new(60_000).await;
        let values = fixture.with_pending(600).await;
        let mut writes = 0;
        let mut cuts = 0;
        loop {
            fixture.power.fail_after(writes);
            let opened = fixture.open_with(Options { memory: LITTLE, ..Options::default() }).await;
            let is_off = fixture.power.is_off();
            fixture.power.bring_back();
            if let (Ok(engine), false) = (&opened, is_off) {
                check(engine, &values).await;
                break;
            }
            drop(opened);
            sleep(Nanos(10_000_000)).await;
            fixture.data.restart();
            fixture.log.restart();
            writes += 1 + writes / 4;
            cuts += 1;
        }
        assert!(cuts > 10, "{cuts}");
    });
}

/// Where sweeps find space at last, or none.
#[test]
fn a_log_of_more_memory_is_recovered_on_a_device_that_is_nearly_full() {
    for data_blocks in (4800..8000).step_by(400) {
        block_on_virtual(data_blocks, async {
            let fixture = Fixture::new(data_blocks).await;
            let values = fixture.with_pending(400).await;
            for _ in 0..2 {
                let engine = fixture.open(LITTLE).await;
                check(&engine, &values).await;
                drop(engine);
                sleep(Nanos(10_000_000)).await;
            }
        });
    }
}

/// Who writes nothing holds in memory what is pending.
#[test]
fn opening_for_reading_only_takes_what_it_needs() {
    block_on_virtual(3, async {
        let fixture = Fixture::new(60_000).await;
        let values = fixture.with_pending(1000).await;
        let options = Options { memory: LITTLE, read_only: true, ..Options::default() };
        let engine = fixture.open_with(options).await.unwrap();
        assert!(engine.figures().queued_bytes > LITTLE.0);
        check(&engine, &values).await;
    });
}
