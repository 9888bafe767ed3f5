//! The test bed of the BOSC paper (6.1): five Deskstars, an index of leaves on four of them, and requests that
//! each change one record.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use moirai::devices::Contents;
use moirai::runtime::{now, random, sleep, spawn};
use moirai::storage::{Device, Op, Request, Section};
use moirai::units::{BLOCK_BYTES, BlockCount, BlockRange, ByteCount, Lbn, Nanos};
use moirai::update::{
    At, Engine, Figures, Format, Formats, Group, Kind, KindNumber, Kinds, LogWriter, Modification,
    Options, PUT, SpaceId, Value, WholeBlocks,
};
use moirai::volume::{LayoutDescription, Level, StripeUnit, Volume};
use rand::Rng;

use super::index_requests::{Requests, Workload};
use crate::Failure;
use crate::context::Stage;
use crate::setting::{drive, profile};

const DRIVE: &str = "ibm-deskstar-dtla-307030";
pub(super) const SPACE: SpaceId = SpaceId(1);
pub(super) const PUT_RECORD: KindNumber = KindNumber(16);
/// The most leaves of a partition.
const PARTITION_LEAVES: u64 = 64;
/// Where every experiment departs from the paper.
pub(super) const DEPARTURES: &str = "The engine has one queue per partition: neighbouring leaves, at most 64 leaves and \
     4 MB unless stated otherwise. A sweep reads and writes a partition whole, even leaves without pending updates, and \
     writes it to a new place: the data devices have twice the room of the index. The paper has one queue per leaf and \
     writes runs of up to 32 leaves in place. No leaf is split. The leaf directory takes part of the same memory.";
/// Size of the record count at the head of a leaf.
const LEAF_HEADER_BYTES: usize = 4;
/// Requests between two looks at the figures of the engine.
const LOOK_EACH: u64 = 4096;

/// The sizes and the workload of a run.
#[derive(Clone, Copy, Debug)]
pub(super) struct Setting {
    pub(super) index: ByteCount,
    pub(super) leaf: ByteCount,
    /// Largest size of a partition, whose leaves are swept together; an index has at least 64 partitions.
    pub(super) partition: ByteCount,
    pub(super) record_bytes: usize,
    pub(super) memory: ByteCount,
    /// Size of the staging areas in percent of the leaves; the paper has none.
    pub(super) staging_percent: u32,
    /// Requests in flight.
    pub(super) clients: u64,
    /// Mean time that a client waits before its next request.
    pub(super) think: Nanos,
    pub(super) log: LogWriter,
    pub(super) log_disks: u64,
    /// Time that a request waits for a busy log disk before another log disk takes the request.
    pub(super) log_wait: Nanos,
    pub(super) workload: Workload,
}

impl Setting {
    /// The paper's setting: 64 B records in leaves of 64 KB, four data disks, a trail log, 1,024 requests in flight.
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

    /// The same with index and memory multiplied by `scale`: a leaf has as many updates pending when it is swept.
    pub(super) fn scaled(self, scale: f64) -> Setting {
        let scaled = |size: ByteCount| ByteCount((size.0 as f64 * scale) as u64);
        let (index, memory) = (scaled(self.index), scaled(self.memory));
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

/// Puts a record into a leaf, whose records are sorted by their first 16 bytes, the key. A leaf begins without
/// records, since the paper says that their contents are immaterial, but has its full length.
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

/// The figures of a run.
#[derive(Clone, Copy, Debug)]
pub(super) struct Measured {
    pub(super) requests_per_s: f64,
    /// Mean virtual time until a request is acknowledged.
    pub(super) wait_ms: f64,
}

/// When a run is over: as soon as a figure of the engine reaches `until`.
#[derive(Clone, Copy)]
struct Goal {
    figure: fn(&Figures) -> u64,
    from: u64,
    until: u64,
}

impl Goal {
    /// The figure grows by `growth`.
    fn growth(engine: &Engine, figure: fn(&Figures) -> u64, growth: u64) -> Goal {
        let from = figure(&engine.figures());
        Goal { figure, from, until: from + growth }
    }

    fn share(&self, figures: &Figures) -> f64 {
        let done = (self.figure)(figures).saturating_sub(self.from);
        done as f64 / (self.until - self.from).max(1) as f64
    }

    fn is_reached(&self, figures: &Figures) -> bool {
        (self.figure)(figures) >= self.until
    }
}

/// The requests of all clients of a run.
#[derive(Default)]
struct Tally {
    requests: AtomicU64,
    waits_ns: AtomicU64,
    is_over: AtomicBool,
}

/// The log writer that writes each record where the head is about to be.
pub(super) fn trail() -> Result<LogWriter, Failure> {
    let revolution_ps = profile(DRIVE)?.mechanics.revolution_ps;
    Ok(LogWriter::Trail { rotation: Nanos(revolution_ps / 1000) })
}

/// The index on the update engine: four data disks and one log disk. Measures the second sweep over all leaves.
pub(super) async fn on_the_engine(setting: Setting, stage: Stage) -> Result<Measured, Failure> {
    let [loading, first, second] = stage.split([2.0, 49.0, 49.0]);
    let engine = engine(setting, loading).await?;
    cycle(&engine, setting, 1, first).await?;
    cycle(&engine, setting, 2, second).await
}

/// An index that is loaded and closed.
pub(super) struct Index {
    pub(super) data: Arc<dyn Device>,
    logs: Vec<Arc<dyn Device>>,
    setting: Setting,
}

impl Index {
    /// Opens the index.
    pub(super) async fn open(&self) -> Result<Engine, Failure> {
        let mut kinds = Kinds::new();
        kinds.register(PUT_RECORD, Arc::new(PutRecord { bytes: self.setting.record_bytes }))?;
        let memory = self.setting.memory;
        // The paper's memory holds pending updates and no cache: every read comes from the disks.
        let log_wait = self.setting.log_wait;
        // Nor does it sweep before it must.
        let (cache, idle) = (ByteCount(0), None);
        let options = Options { memory, cache, log_wait, idle, ..Options::default() };
        let data = Arc::clone(&self.data);
        Ok(Engine::open(data, &self.logs, kinds, Formats::of(WholeBlocks), options).await?)
    }
}

/// The update engine on an index of empty leaves.
async fn engine(setting: Setting, stage: Stage) -> Result<Arc<Engine>, Failure> {
    Ok(Arc::new(index(setting, stage).await?.open().await?))
}

/// Creates an index of empty leaves.
pub(super) async fn index(setting: Setting, stage: Stage) -> Result<Index, Failure> {
    let profile = profile(DRIVE)?;
    let disk = |name: String| drive(&profile, name, Contents::memory(), None);
    let disks = (0..4).map(|index| disk(format!("data {index}"))).collect();
    let layout = LayoutDescription::Stripe { unit: StripeUnit::Blocks(BlockCount(128)) };
    let data: Arc<dyn Device> =
        Volume::new("data".into(), disks, Level::Raid0, layout).map_err(Failure::Setting)?;
    // Sweeps write partitions to new places, so both halves are in use, as far apart as the index is long.
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
    let index = Index { data, logs, setting };
    let engine = index.open().await?;
    engine.create_space(SPACE).await?;
    let mut group = Group::new();
    for leaf in 0..setting.leaves() {
        let key = leaf.to_be_bytes();
        group.modify(SPACE, Modification { key: &key, kind: PUT, bytes: &[0; LEAF_HEADER_BYTES] });
        if group.len() == 1000 {
            engine.commit(&group).await?;
            group.clear();
            stage.at(leaf as f64 / setting.leaves() as f64);
        }
    }
    engine.commit(&group).await?;
    engine.close().await?;
    Ok(index)
}

/// Sends requests until `bytes` were logged, after as many that do not count. Returns with the figures the share of
/// the tracks passed, or segments, that was written.
pub(super) async fn logged(
    setting: Setting,
    bytes: ByteCount,
    stage: Stage,
) -> Result<(Measured, f64), Failure> {
    let [loading, first, second] = stage.split([1.0, 2.0, 2.0]);
    let engine = engine(setting, loading).await?;
    let goal = || Goal::growth(&engine, |figures| figures.log_bytes, bytes.0 + 1);
    requests(&engine, setting, 1, goal(), first).await?;
    let before = engine.figures();
    let measured = requests(&engine, setting, 2, goal(), second).await?;
    let after = engine.figures();
    let passed = (after.log_passed_bytes - before.log_passed_bytes) as f64;
    Ok((measured, (after.log_bytes - before.log_bytes) as f64 / passed))
}

/// The first `bytes` of a device.
fn section(device: &Arc<dyn Device>, bytes: u64) -> Result<Arc<dyn Device>, Failure> {
    let blocks = BlockRange::new(Lbn(0), BlockCount(bytes / BLOCK_BYTES));
    Ok(Section::of(Arc::clone(device), blocks)?)
}

/// Requests per second over as many as fill the memory `memoryfuls` times, after as many that do not count.
pub(super) async fn sustained(
    setting: Setting,
    memoryfuls: f64,
    stage: Stage,
) -> Result<f64, Failure> {
    let [loading, first, second] = stage.split([1.0, 4.0, 4.0]);
    let engine = engine(setting, loading).await?;
    let records = setting.memory.0 / setting.record_bytes as u64;
    let count = (memoryfuls * records as f64) as u64;
    let modifications = |figures: &Figures| figures.modifications;
    let goal = Goal { figure: modifications, from: 0, until: count + 1 };
    requests(&engine, setting, 1, goal, first).await?;
    let goal = Goal::growth(&engine, modifications, count + 1);
    Ok(requests(&engine, setting, 2, goal, second).await?.requests_per_s)
}

/// The cost of opening an index after a crash.
#[derive(Clone, Copy, Debug)]
pub(super) struct Recovered {
    /// Updates that were pending.
    pub(super) pending: u64,
    /// Virtual time to open the index.
    pub(super) ms: f64,
    /// The part of the log that was read, and the virtual time to read as much in one request.
    pub(super) log: ByteCount,
    pub(super) log_ms: f64,
}

/// Opens an index that crashed after `count` requests.
pub(super) async fn recovered(
    setting: Setting,
    count: u64,
    stage: Stage,
) -> Result<Recovered, Failure> {
    let [loading, running] = stage.split([1.0, 9.0]);
    let index = index(setting, loading).await?;
    let engine = Arc::new(index.open().await?);
    let goal = Goal::growth(&engine, |figures| figures.modifications, count);
    requests(&engine, setting, 1, goal, running).await?;
    drop(engine);
    sleep(Nanos(1_000_000_000)).await;
    let began = now();
    let engine = index.open().await?;
    let ms = now().since(began).0 as f64 / 1e6;
    let figures = engine.figures();
    let log = ByteCount(figures.replayed_bytes);
    let began = now();
    for part in &index.logs {
        part.read(BlockRange::new(Lbn(0), BlockCount::holding(log))).await?;
    }
    let log_ms = now().since(began).0 as f64 / 1e6;
    Ok(Recovered { pending: figures.queued, ms, log, log_ms })
}

/// Mean virtual ms to read one random leaf, and to read `leaves` that follow each other. Each is measured first with
/// the engine, which has as many updates pending as it takes without a sweep, then on the disks alone.
pub(super) async fn queries(
    setting: Setting,
    leaves: u64,
    count: u64,
    stage: Stage,
) -> Result<[[f64; 2]; 2], Failure> {
    let [loading, filling, querying] = stage.split([2.0, 3.0, 5.0]);
    let index = index(setting, loading).await?;
    let engine = Arc::new(index.open().await?);
    let until = setting.memory.0 * 2 / 5 + 1;
    let goal = Goal { figure: |figures| figures.queued_bytes, from: 0, until };
    requests(&engine, setting, 1, goal, filling).await?;
    let mut means = [[0.0; 2]; 2];
    let mut stages = querying.split([1.0, 1.0, leaves as f64, leaves as f64]).into_iter();
    for (length, means) in [1, leaves].into_iter().zip(&mut means) {
        for (with_engine, mean) in [true, false].into_iter().zip(means) {
            let stage = stages.next();
            let mut random = random(&format!("queries of {length}"));
            let began = now();
            for query in 0..count {
                if let (Some(stage), true) = (&stage, query % 256 == 0) {
                    stage.at(query as f64 / count as f64);
                }
                let first = random.random_range(0..setting.leaves() - length);
                for leaf in first..first + length {
                    if with_engine {
                        engine.view(SPACE, At::Key(&leaf.to_be_bytes()), 1).await?;
                    } else {
                        let blocks = BlockCount(setting.leaf.0 / BLOCK_BYTES);
                        let at = Lbn(leaf * blocks.0);
                        index.data.read(BlockRange::new(at, blocks)).await?;
                    }
                }
            }
            *mean = now().since(began).0 as f64 / 1e6 / count as f64;
        }
    }
    Ok(means)
}

/// Sends requests until as many partitions were rewritten as there are.
async fn cycle(
    engine: &Arc<Engine>,
    setting: Setting,
    number: u64,
    stage: Stage,
) -> Result<Measured, Failure> {
    let goal = Goal::growth(engine, |figures| figures.placed, engine.figures().partitions);
    requests(engine, setting, number, goal, stage).await
}

/// Sends requests until the engine reaches `goal`.
async fn requests(
    engine: &Arc<Engine>,
    setting: Setting,
    number: u64,
    goal: Goal,
    stage: Stage,
) -> Result<Measured, Failure> {
    let tally = Arc::new(Tally::default());
    let began = now();
    let all = setting.requests();
    let client = |client: u64| {
        let (engine, tally) = (Arc::clone(engine), Arc::clone(&tally));
        let (all, stage) = (all.clone(), stage.clone());
        spawn(async move {
            let mut next = all.client(&format!("cycle {number} client {client}"));
            let mut record = vec![7; setting.record_bytes];
            let mut thinking = random(&format!("cycle {number} client {client} thinks"));
            while !tally.is_over.load(Ordering::Relaxed) {
                if setting.think > Nanos(0) {
                    sleep(Nanos(thinking.random_range(0..2 * setting.think.0))).await;
                }
                let leaf = next.leaf();
                fill(&mut record, leaf, next.record());
                let key = leaf.to_be_bytes();
                let asked = now();
                let one = Modification { key: &key, kind: PUT_RECORD, bytes: &record };
                engine.modify(SPACE, one).await?;
                tally.waits_ns.fetch_add(now().since(asked).0, Ordering::Relaxed);
                let done = tally.requests.fetch_add(1, Ordering::Relaxed) + 1;
                if done.is_multiple_of(LOOK_EACH) {
                    let figures = engine.figures();
                    stage.at(goal.share(&figures));
                    if goal.is_reached(&figures) {
                        tally.is_over.store(true, Ordering::Relaxed);
                    }
                }
            }
            Ok::<(), moirai::update::Error>(())
        })
    };
    let clients: Vec<_> = (0..setting.clients).map(client).collect();
    for client in clients {
        client.await?;
    }
    let requests = tally.requests.load(Ordering::Relaxed) as f64;
    Ok(Measured {
        requests_per_s: requests / now().since(began).as_s(),
        wait_ms: tally.waits_ns.load(Ordering::Relaxed) as f64 / 1e6 / requests,
    })
}

/// Gives a record the key of `leaf` and `number`.
pub(super) fn fill(record: &mut [u8], leaf: u64, number: u64) {
    let key = leaf.to_be_bytes().into_iter().chain(number.to_be_bytes());
    record.iter_mut().zip(key).for_each(|(place, byte)| *place = byte);
}

/// The plain tree: leaves on five disks, and a cache full of dirty leaves. It writes no log.
pub(super) async fn plain(
    setting: Setting,
    requests: u64,
    stage: Stage,
) -> Result<Measured, Failure> {
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
        let (volume, done, stage) = (Arc::clone(&volume), Arc::clone(&done), stage.clone());
        spawn(async move {
            let device: &dyn Device = &*volume;
            let mut random = random(&format!("client {client}"));
            let mut waits_ns = 0;
            loop {
                let begun = done.fetch_add(1, Ordering::Relaxed);
                if begun >= requests {
                    break;
                }
                if begun.is_multiple_of(LOOK_EACH) {
                    stage.at(begun as f64 / requests as f64);
                }
                let asked = now();
                // Requests choose leaves uniformly, so each leaf is cached with the same probability, and the leaf
                // that the cache evicts is any leaf.
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
