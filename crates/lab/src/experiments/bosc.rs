//! The test bed of the BOSC paper (6.1): five Deskstars, an index of leaves on four of them, and requests that
//! change a record each.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use moirai::devices::Contents;
use moirai::runtime::{now, random, sleep, spawn};
use moirai::storage::{Device, Op, Request};
use moirai::units::{BLOCK_BYTES, BlockCount, BlockRange, ByteCount, Lbn, Nanos};
use moirai::update::{
    At, Engine, Figures, Format, Group, Kind, KindNumber, Kinds, LogWriter, Modification, Options,
    PUT, SpaceId, Value, WholeBlocks,
};
use moirai::volume::{LayoutDescription, Level, Section, StripeUnit, Volume};
use rand::Rng;

use super::index_requests::{Requests, Workload};
use crate::Failure;
use crate::setting::{drive, profile};

const DRIVE: &str = "ibm-deskstar-dtla-307030";
pub(super) const SPACE: SpaceId = SpaceId(1);
pub(super) const PUT_RECORD: KindNumber = KindNumber(16);
/// Leaves of a partition at most.
const PARTITION_LEAVES: u64 = 64;
/// Where what is measured is not the paper's, whatever the experiment.
pub(super) const DEPARTURES: &str = "The engine has one queue for neighbouring leaves, 64 and 4 MB of them where nothing else \
     is said, which are read and written together whether each has something pending or not, and to another place: the data \
     have twice the room. The paper has a queue for each leaf, and writes runs of up to 32 in their place. No leaf is \
     split, and what says where leaves lie is of the same memory.";
/// Bytes of the number of records in a leaf.
const LEAF_HEADER_BYTES: usize = 4;
/// Requests between two looks at how far the sweeps are.
const LOOK_EACH: u64 = 4096;

/// What is measured.
#[derive(Clone, Copy, Debug)]
pub(super) struct Setting {
    pub(super) index: ByteCount,
    pub(super) leaf: ByteCount,
    /// Of neighbouring leaves, which are swept together, at most; there are several dozen at least.
    pub(super) partition: ByteCount,
    pub(super) record_bytes: usize,
    pub(super) memory: ByteCount,
    /// Room for staging, in percent of the leaves; the paper has none.
    pub(super) staging_percent: u32,
    /// Requests under way at a time.
    pub(super) clients: u64,
    /// How long a client waits before its next request, on average.
    pub(super) think: Nanos,
    pub(super) log: LogWriter,
    pub(super) log_disks: u64,
    /// How long a request waits for the log disk that writes before another takes it.
    pub(super) log_wait: Nanos,
    pub(super) workload: Workload,
}

impl Setting {
    /// The paper's: 64 B records in leaves of 64 KB, four disks and a log that is trail, 1,024 requests under way.
    pub(super) fn of_the_paper() -> Result<Setting, Failure> {
        Ok(Setting {
            index: ByteCount(16 << 30),
            leaf: ByteCount(64 << 10),
            partition: ByteCount::mib(4),
            record_bytes: 64,
            memory: ByteCount(1 << 30),
            staging_percent: 0,
            clients: 1024,
            think: Nanos(0),
            log: trail()?,
            log_disks: 1,
            log_wait: Options::default().log_wait,
            workload: Workload::Random,
        })
    }

    /// With index and memory divided by `scale`: as many updates are pending for a leaf when it is swept.
    pub(super) fn scaled(self, scale: u64) -> Setting {
        let (index, memory) = (ByteCount(self.index.0 / scale), ByteCount(self.memory.0 / scale));
        Setting { index, memory, ..self }
    }

    fn leaves(&self) -> u64 {
        self.index.0 / self.leaf.0
    }

    fn partition_leaves(&self) -> u64 {
        let partition = self.partition.0.min(self.index.0 / 64);
        (partition / self.leaf.0).clamp(1, PARTITION_LEAVES)
    }

    pub(super) fn requests(&self) -> Requests {
        Requests::new(self.workload, self.leaves(), self.leaf.0 / self.record_bytes as u64)
    }
}

/// Records sorted by their first 16 bytes, the key. The others of a leaf, of which the paper says that their
/// contents are immaterial, are not there: the leaf is as long as it would be.
struct PutRecord {
    bytes: usize,
}

impl Kind for PutRecord {
    fn apply(&self, value: &mut Value, record: &[u8]) {
        let leaf = &mut value.bytes;
        let Some((head, records)) = leaf.split_at_mut_checked(LEAF_HEADER_BYTES) else { return };
        let count = head.first_chunk().map_or(0, |count| u32::from_le_bytes(*count)) as usize;
        let used = count * self.bytes;
        let key = |record: &[u8]| record.first_chunk::<16>().copied().unwrap_or_default();
        let have = records.get(..used).unwrap_or_default();
        let mut ranks = have.chunks_exact(self.bytes);
        let at = ranks.position(|other| key(other) >= key(record)).unwrap_or(count) * self.bytes;
        let is_there = records.get(at..used).is_some_and(|rest| {
            rest.first_chunk::<16>().is_some_and(|other| *other == key(record))
        });
        if !is_there {
            if used + self.bytes > records.len() {
                return;
            }
            records.copy_within(at..used, at + self.bytes);
            head.copy_from_slice(&(count as u32 + 1).to_le_bytes());
        }
        if let Some(place) = records.get_mut(at..at + self.bytes) {
            place.copy_from_slice(record);
        }
    }
}

/// What a run gave.
#[derive(Clone, Copy, Debug)]
pub(super) struct Measured {
    pub(super) requests_per_s: f64,
    /// Mean time until a request is acknowledged.
    pub(super) wait_ms: f64,
}

/// Counts requests, and when enough was done.
#[derive(Default)]
struct Progress {
    requests: AtomicU64,
    waits_ns: AtomicU64,
    is_over: AtomicBool,
}

/// The log where the head is about to be.
pub(super) fn trail() -> Result<LogWriter, Failure> {
    let turn_ps = profile(DRIVE)?.mechanics.revolution_ps;
    Ok(LogWriter::Trail { rotation: Nanos(turn_ps / 1000) })
}

/// The index on the update engine: four disks of data, one of log. Measured is the second sweep over all leaves.
pub(super) async fn on_the_engine(setting: Setting) -> Result<Measured, Failure> {
    let engine = engine(setting).await?;
    cycle(&engine, setting, 1).await?;
    cycle(&engine, setting, 2).await
}

/// The devices of an index, and what it is opened with.
pub(super) struct Made {
    pub(super) data: Arc<dyn Device>,
    logs: Vec<Arc<dyn Device>>,
    setting: Setting,
}

impl Made {
    pub(super) async fn open(&self) -> Result<Engine, Failure> {
        let mut kinds = Kinds::new();
        kinds.register(PUT_RECORD, Arc::new(PutRecord { bytes: self.setting.record_bytes }))?;
        let memory = self.setting.memory;
        // The paper's memory is for pending modifications: what is read comes from the disks.
        let log_wait = self.setting.log_wait;
        let options = Options { memory, cache: ByteCount(0), log_wait, ..Options::default() };
        let data = Arc::clone(&self.data);
        Ok(Engine::open(data, &self.logs, kinds, Arc::new(WholeBlocks), options).await?)
    }
}

/// The update engine with leaves that are empty.
async fn engine(setting: Setting) -> Result<Arc<Engine>, Failure> {
    Ok(Arc::new(made(setting).await?.open().await?))
}

/// An index of leaves that are empty.
pub(super) async fn made(setting: Setting) -> Result<Made, Failure> {
    let profile = profile(DRIVE)?;
    let disk = |name: String| drive(&profile, name, Contents::memory(), None);
    let disks = (0..4).map(|index| disk(format!("data {index}"))).collect();
    let layout = LayoutDescription::Stripe { unit: StripeUnit::Blocks(BlockCount(128)) };
    let data: Arc<dyn Device> =
        Volume::new("data".into(), disks, Level::Raid0, layout).map_err(Failure::Setting)?;
    // Both are used over and over, as far apart as they need to be.
    let data =
        section(&data, setting.index.0 * (100 + u64::from(setting.staging_percent)) / 100 * 2)?;
    let log_bytes = setting.memory.0 * 4 / setting.log_disks;
    let log = |index| section(&disk(format!("log {index}")), log_bytes);
    let logs = (0..setting.log_disks).map(log).collect::<Result<Vec<_>, _>>()?;
    let format = Format {
        block_bytes: setting.leaf,
        partition_blocks: setting.partition_leaves() as u32,
        staging_percent: setting.staging_percent,
        segment_bytes: None,
        log: setting.log,
    };
    Engine::format(&*data, &logs, &WholeBlocks, format).await?;
    let made = Made { data, logs, setting };
    let engine = made.open().await?;
    engine.create_space(SPACE).await?;
    let mut group = Group::new();
    for leaf in 0..setting.leaves() {
        let key = leaf.to_be_bytes();
        group.modify(SPACE, Modification { key: &key, kind: PUT, bytes: &[0; LEAF_HEADER_BYTES] });
        if group.len() == 1000 {
            engine.commit(&group).await?;
            group.clear();
        }
    }
    engine.commit(&group).await?;
    engine.close().await?;
    Ok(made)
}

/// Requests until so many bytes were logged, after as many that do not count; with it the part of the tracks, or
/// segments, that was written.
pub(super) async fn logged(setting: Setting, bytes: ByteCount) -> Result<(Measured, f64), Failure> {
    let engine = engine(setting).await?;
    let begun = engine.figures().log_bytes;
    requests(&engine, setting, 1, move |figures| figures.log_bytes > begun + bytes.0).await?;
    let before = engine.figures();
    let until = before.log_bytes + bytes.0;
    let measured = requests(&engine, setting, 2, move |figures| figures.log_bytes > until).await?;
    let after = engine.figures();
    let passed = (after.log_passed_bytes - before.log_passed_bytes) as f64;
    Ok((measured, (after.log_bytes - before.log_bytes) as f64 / passed))
}

/// The first `bytes` of a device.
fn section(device: &Arc<dyn Device>, bytes: u64) -> Result<Arc<dyn Device>, Failure> {
    let blocks = BlockRange::new(Lbn(0), BlockCount(bytes / BLOCK_BYTES));
    Ok(Section::of(Arc::clone(device), blocks)?)
}

/// Requests per second over as many as fill the memory four times, after as many that do not count.
pub(super) async fn sustained(setting: Setting) -> Result<f64, Failure> {
    let engine = engine(setting).await?;
    let count = 4 * setting.memory.0 / setting.record_bytes as u64;
    requests(&engine, setting, 1, move |figures| figures.modifications > count).await?;
    let until = engine.figures().modifications + count;
    let measured = requests(&engine, setting, 2, move |figures| figures.modifications > until);
    Ok(measured.await?.requests_per_s)
}

/// What it takes to open an index after a crash.
#[derive(Clone, Copy, Debug)]
pub(super) struct Recovered {
    /// Requests that were pending.
    pub(super) pending: u64,
    pub(super) ms: f64,
    /// How much of the log was read, and how long that takes in one request.
    pub(super) log: ByteCount,
    pub(super) log_ms: f64,
}

/// Opens an index that crashed after so many requests.
pub(super) async fn recovered(setting: Setting, count: u64) -> Result<Recovered, Failure> {
    let made = made(setting).await?;
    let engine = Arc::new(made.open().await?);
    let until = engine.figures().modifications + count;
    requests(&engine, setting, 1, move |figures| figures.modifications >= until).await?;
    drop(engine);
    sleep(Nanos(1_000_000_000)).await;
    let began = now();
    let engine = made.open().await?;
    let ms = now().since(began).0 as f64 / 1e6;
    let figures = engine.figures();
    let log = ByteCount(figures.replayed_bytes);
    let began = now();
    for part in &made.logs {
        part.read(BlockRange::new(Lbn(0), BlockCount::holding(log))).await?;
    }
    let log_ms = now().since(began).0 as f64 / 1e6;
    Ok(Recovered { pending: figures.queued, ms, log, log_ms })
}

/// Mean times to read a random leaf, and `leaves` that follow each other from a random one on: with the engine, which has
/// as much pending as it takes without a sweep, and from the disks. In ms.
pub(super) async fn queries(
    setting: Setting,
    leaves: u64,
    count: u64,
) -> Result<[[f64; 2]; 2], Failure> {
    let made = made(setting).await?;
    let engine = Arc::new(made.open().await?);
    requests(&engine, setting, 1, move |figures| figures.queued_bytes > setting.memory.0 * 2 / 5)
        .await?;
    let mut means = [[0.0; 2]; 2];
    for (length, means) in [1, leaves].into_iter().zip(&mut means) {
        for (with_engine, mean) in [true, false].into_iter().zip(means) {
            let mut random = random(&format!("queries of {length}"));
            let began = now();
            for _ in 0..count {
                let first = random.random_range(0..setting.leaves() - length);
                for leaf in first..first + length {
                    if with_engine {
                        engine.view(SPACE, At::Key(&leaf.to_be_bytes())).await?;
                    } else {
                        let blocks = BlockCount(setting.leaf.0 / BLOCK_BYTES);
                        let at = Lbn(leaf * blocks.0);
                        made.data.read(BlockRange::new(at, blocks)).await?;
                    }
                }
            }
            *mean = now().since(began).0 as f64 / 1e6 / count as f64;
        }
    }
    Ok(means)
}

/// Random requests until all leaves were written once more.
async fn cycle(engine: &Arc<Engine>, setting: Setting, number: u64) -> Result<Measured, Failure> {
    let figures = engine.figures();
    let until = figures.placed + figures.partitions;
    requests(engine, setting, number, move |figures| figures.placed >= until).await
}

/// Random requests until the engine's figures say that it is enough.
async fn requests(
    engine: &Arc<Engine>,
    setting: Setting,
    number: u64,
    is_enough: impl Fn(&Figures) -> bool + Copy + Send + Sync + 'static,
) -> Result<Measured, Failure> {
    let progress = Arc::new(Progress::default());
    let began = now();
    let all = setting.requests();
    let client = |client: u64| {
        let (engine, progress) = (Arc::clone(engine), Arc::clone(&progress));
        let all = all.clone();
        spawn(async move {
            let mut next = all.client(&format!("cycle {number} client {client}"));
            let mut record = vec![7; setting.record_bytes];
            let mut thinking = random(&format!("cycle {number} client {client} thinks"));
            while !progress.is_over.load(Ordering::Relaxed) {
                if setting.think > Nanos(0) {
                    sleep(Nanos(thinking.random_range(0..2 * setting.think.0))).await;
                }
                let leaf = next.leaf();
                fill(&mut record, leaf, next.record());
                let key = leaf.to_be_bytes();
                let asked = now();
                let one = Modification { key: &key, kind: PUT_RECORD, bytes: &record };
                engine.modify(SPACE, one).await?;
                progress.waits_ns.fetch_add(now().since(asked).0, Ordering::Relaxed);
                let done = progress.requests.fetch_add(1, Ordering::Relaxed) + 1;
                if done.is_multiple_of(LOOK_EACH) && is_enough(&engine.figures()) {
                    progress.is_over.store(true, Ordering::Relaxed);
                }
            }
            Ok::<(), moirai::update::Error>(())
        })
    };
    let clients: Vec<_> = (0..setting.clients).map(client).collect();
    for client in clients {
        client.await?;
    }
    let requests = progress.requests.load(Ordering::Relaxed) as f64;
    Ok(Measured {
        requests_per_s: requests / now().since(began).as_s(),
        wait_ms: progress.waits_ns.load(Ordering::Relaxed) as f64 / 1e6 / requests,
    })
}

/// Makes a record one of a leaf, with a number there.
pub(super) fn fill(record: &mut [u8], leaf: u64, number: u64) {
    let key = leaf.to_be_bytes().into_iter().chain(number.to_be_bytes());
    record.iter_mut().zip(key).for_each(|(place, byte)| *place = byte);
}

/// The plain tree: leaves on five disks, and a cache of them that is full of changed ones. No log is written.
pub(super) async fn plain(setting: Setting, requests: u64) -> Result<Measured, Failure> {
    let profile = profile(DRIVE)?;
    let disks = (0..5)
        .map(|index| drive(&profile, format!("data {index}"), Contents::Nothing, None))
        .collect();
    let leaf = BlockCount(setting.leaf.0 / BLOCK_BYTES);
    let layout = LayoutDescription::Stripe { unit: StripeUnit::Blocks(leaf) };
    let volume = Volume::new("data".into(), disks, Level::Raid0, layout);
    let volume = volume.map_err(Failure::Setting)?;
    let cached = setting.memory.0 / setting.leaf.0;
    let share = cached as f64 / setting.leaves() as f64;
    let began = now();
    let done = Arc::new(AtomicU64::new(0));
    let client = |client: u64| {
        let (volume, done) = (Arc::clone(&volume), Arc::clone(&done));
        spawn(async move {
            let device: &dyn Device = &*volume;
            let mut random = random(&format!("client {client}"));
            let mut waits_ns = 0;
            while done.fetch_add(1, Ordering::Relaxed) < requests {
                let asked = now();
                // Leaves are chosen uniformly: any of them is cached with the same probability, whatever leaves
                // the cache, and what leaves it is any leaf.
                if !random.random_bool(share.min(1.0)) {
                    for op in [Op::Write, Op::Read] {
                        let first = Lbn(random.random_range(0..setting.leaves()) * leaf.0);
                        device.access(Request::access(op, BlockRange::new(first, leaf))).await?;
                    }
                }
                waits_ns += now().since(asked).0;
            }
            Ok::<u64, moirai::storage::Error>(waits_ns)
        })
    };
    let clients: Vec<_> = (0..setting.clients).map(client).collect();
    let mut waits_ns = 0;
    for client in clients {
        waits_ns += client.await?;
    }
    Ok(Measured {
        requests_per_s: requests as f64 / now().since(began).as_s(),
        wait_ms: waits_ns as f64 / 1e6 / requests as f64,
    })
}
