//! Random work on threads of the machine's: tasks that commit, read and are stopped, a log and a memory so small that
//! groups wait for room while sweeps and checkpoints go on. What was acknowledged is there, once, in its order, and
//! groups are whole, while it runs and after a crash.
//!
//! Threads differ from run to run, so no seed runs a failure again. `MOIRAI_RUNS` says how many stores there are, of
//! which each is opened some times.

#![expect(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    reason = "a test stops at what it did not expect"
)]

mod memory;
mod whole_groups;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use futures::future::{Either, select};
use moirai_devices::{Access, NewFiles};
use moirai_runtime::{Random, Stopwatch, Task, random, sleep, spawn};
use moirai_storage::Device;
use moirai_units::{BLOCK_BYTES, ByteCount, Nanos};
use moirai_update::{
    DELETE, Durability, Engine, Error, Figures, Format, Formats, Group, Kind, KindNumber, Kinds,
    LogWriter, Modification, Options, PUT, ReadPoint, SpaceId, Value, WholeBlocks,
};
use parking_lot::Mutex;
use rand::Rng;

use crate::memory::{Memory, step_back};

const SPACE: SpaceId = SpaceId(1);
const ADD: KindNumber = KindNumber(20);
const APPEND: KindNumber = KindNumber(21);
const BLOCK: usize = 512;
const THREADS: usize = 4;
const TASKS: u64 = 8;
/// Blocks of one task alone.
const OWN_BLOCKS: u64 = 24;
/// How long an engine is at work before it ends.
const LIFE: Nanos = Nanos(250_000_000);
/// Whatever happens happens sooner.
const LONG: Nanos = Nanos(60_000_000_000);

/// Adds to the number that a block begins with; two are one.
struct Add;

impl Kind for Add {
    fn apply(&self, value: &mut Value, modification: &[u8]) {
        let sum = number(&value.bytes).wrapping_add(number(modification));
        value.bytes[..8].copy_from_slice(&sum.to_le_bytes());
    }

    fn combine(&self, older: &[u8], newer: &[u8], both: &mut Vec<u8>) -> bool {
        both.extend_from_slice(&number(older).wrapping_add(number(newer)).to_le_bytes());
        true
    }
}

/// Puts the tags of modifications behind each other, the last of them first: order shows.
struct Append;

impl Kind for Append {
    fn apply(&self, value: &mut Value, modification: &[u8]) {
        value.bytes.copy_within(8..BLOCK - 4, 12);
        value.bytes[8..12].copy_from_slice(&modification[..4]);
    }
}

fn number(bytes: &[u8]) -> u64 {
    u64::from_le_bytes(bytes[..8].try_into().unwrap())
}

fn kinds() -> Kinds {
    let mut kinds = Kinds::new();
    kinds.register(ADD, Arc::new(Add)).unwrap();
    kinds.register(APPEND, Arc::new(Append)).unwrap();
    kinds
}

/// Each group counts in three places that lie far from each other: of its task twice, and of all.
fn count_of(task: u64) -> u64 {
    1000 + task
}

fn mirror_of(task: u64) -> u64 {
    2000 + 10 * task
}

const COUNT_OF_ALL: u64 = 5000;
/// The last groups, of whatever task.
const HISTORY: u64 = 6000;

#[derive(Clone, Debug)]
struct Change {
    block: u64,
    kind: KindNumber,
    bytes: Vec<u8>,
}

/// What a task did.
#[derive(Debug, Default)]
struct Done {
    /// Its blocks, as acknowledged groups leave them.
    model: BTreeMap<u64, Vec<u8>>,
    count: u64,
    /// The group that is not acknowledged.
    pending: Vec<Change>,
}

impl Done {
    fn acknowledge(&mut self) {
        for change in std::mem::take(&mut self.pending) {
            let block = self.model.entry(change.block).or_insert(vec![0; BLOCK]);
            let mut value = Value { is_there: true, bytes: std::mem::take(block), is_long: false };
            kinds().apply(change.kind, &mut value, &change.bytes);
            value.bytes.resize(BLOCK, 0);
            *block = value.bytes;
        }
        self.count += 1;
    }
}

fn any_changes(random: &mut Random, task: u64, bytes_max: usize) -> Vec<Change> {
    // Some take several segments of the log.
    let most = (bytes_max / (2 * BLOCK)).max(2);
    let count = if random.random_bool(0.02) { most } else { random.random_range(0..5.min(most)) };
    let change = |_| {
        let block = task + TASKS * random.random_range(0..OWN_BLOCKS);
        let (kind, bytes) = match random.random_range(0..10) {
            0..3 => (PUT, vec![random.random(); random.random_range(1..=BLOCK)]),
            3 => (DELETE, Vec::new()),
            4..7 => (ADD, random.random_range(1..1000_u64).to_le_bytes().to_vec()),
            _ => (APPEND, random.random::<u32>().to_le_bytes().to_vec()),
        };
        Change { block, kind, bytes }
    };
    (0..count).map(change).collect()
}

/// The group of a task after so many others.
fn group_of(task: u64, count: u64, changes: &[Change]) -> Group {
    let mut group = Group::new();
    let mut modify = |block: u64, kind, bytes: &[u8]| {
        group.modify(SPACE, Modification { key: &block.to_be_bytes(), kind, bytes });
    };
    let one = 1_u64.to_le_bytes();
    modify(mirror_of(task), ADD, &one);
    changes.iter().for_each(|change| modify(change.block, change.kind, &change.bytes));
    modify(COUNT_OF_ALL, ADD, &one);
    modify(HISTORY, APPEND, &((task as u32) << 24 | (count as u32 + 1)).to_le_bytes());
    modify(count_of(task), ADD, &one);
    group
}

/// The devices of a store, the data first.
enum Place {
    Memory(Vec<Arc<Memory>>),
    Files(Vec<(PathBuf, u64)>),
}

impl Place {
    fn memory(sizes: &[u64]) -> Place {
        Place::Memory(sizes.iter().map(|blocks| Memory::new("memory", *blocks)).collect())
    }

    fn files(sizes: &[u64], folder: &Path) -> Place {
        let path = |(index, blocks): (usize, &u64)| (folder.join(index.to_string()), *blocks);
        Place::Files(sizes.iter().enumerate().map(path).collect())
    }

    async fn open(&self) -> Vec<Arc<dyn Device>> {
        let (new, watch) = (NewFiles::new(), Stopwatch::start());
        match self {
            Place::Memory(devices) => devices.iter().map(|one| Arc::clone(one) as _).collect(),
            Place::Files(files) => {
                let mut devices = Vec::new();
                for (path, blocks) in files {
                    let size = (blocks * BLOCK_BYTES).next_multiple_of(4096);
                    let uri = format!("file:{}?size={size}", path.display());
                    devices.push(loop {
                        match moirai_devices::open(uri.parse().unwrap(), Access::Create(&new)) {
                            Ok(device) => break device,
                            // The tasks of the engine that was dropped are not gone yet.
                            Err(moirai_storage::Error::InUse { .. }) if watch.elapsed() < LONG => {
                                sleep(Nanos(1_000_000)).await;
                            }
                            Err(error) => panic!("{error}"),
                        }
                    });
                }
                devices
            }
        }
    }
}

struct Bench {
    place: Place,
    log_blocks: u64,
    options: Options,
}

impl Bench {
    async fn new(random: &mut Random, folder: Option<&Path>) -> Bench {
        let disks = random.random_range(1..5_u64).saturating_sub(1).max(1);
        let mut sizes = vec![random.random_range(3000..6000)];
        sizes.extend((0..disks).map(|_| random.random_range(170..400_u64)));
        let place = match folder {
            Some(folder) => Place::files(&sizes, folder),
            None => Place::memory(&sizes),
        };
        let format = Format {
            block_bytes: ByteCount(BLOCK as u64),
            partition_blocks: random.random_range(2..12),
            staging_percent: [0, 50, 100, 300][random.random_range(0..4)],
            segment_bytes: Some(ByteCount(
                512 * random.random_range(if folder.is_some() { 32..40 } else { 8..20 }),
            )),
            log: match (folder, random.random_range(0..3)) {
                (None, 0) => LogWriter::Trail { rotation: Nanos(10_000) },
                _ => LogWriter::Append,
            },
        };
        let devices = place.open().await;
        Engine::format(&*devices[0], &devices[1..], &WholeBlocks, format).await.unwrap();
        let options = Options {
            memory: ByteCount(random.random_range(4..16) << 10),
            durability: [Durability::Flushed, Durability::Written][random.random_range(0..2)],
            log_wait: Nanos([0, 200_000, 2_000_000][random.random_range(0..3)]),
            ..Options::default()
        };
        Bench { place, log_blocks: sizes[1..].iter().sum(), options }
    }

    async fn open(&self) -> Engine {
        let devices = self.place.open().await;
        let (data, logs) = (Arc::clone(&devices[0]), &devices[1..]);
        let open = Engine::open(data, logs, kinds(), Formats::of(WholeBlocks), self.options);
        let engine = open.await.unwrap();
        engine.create_space(SPACE).await.unwrap();
        engine
    }
}

async fn read(engine: &Engine, block: u64) -> Vec<u8> {
    engine.get(SPACE, &block.to_be_bytes()).await.unwrap().unwrap()
}

/// The longest group that the log takes.
async fn group_bytes_max(engine: &Engine) -> usize {
    let mut group = Group::new();
    for _ in 0..2000 {
        group.modify(SPACE, Modification { key: &[0; 8], kind: PUT, bytes: &[0; BLOCK] });
    }
    match engine.commit(&group).await {
        Err(Error::GroupTooLong { most, .. }) => most.0 as usize,
        other => panic!("{other:?}"),
    }
}

struct Work {
    engine: Engine,
    done: Vec<Mutex<Done>>,
    bytes_max: usize,
    is_over: AtomicBool,
    /// How often a read point showed whole groups.
    points_shown: AtomicU64,
}

impl Work {
    fn is_over(&self) -> bool {
        self.is_over.load(Ordering::Relaxed)
    }

    async fn write(&self, task: u64, mut random: Random) {
        let done = &self.done[task as usize];
        while !self.is_over() {
            let changes = any_changes(&mut random, task, self.bytes_max);
            let group = {
                let mut done = done.lock();
                done.pending.clone_from(&changes);
                group_of(task, done.count, &changes)
            };
            match random.random_bool(0.2) {
                true => {
                    let reserved = self.engine.reserve(group.log_bytes()).await.unwrap();
                    step_back().await;
                    reserved.append(&group).unwrap().acknowledged().await.unwrap();
                }
                false => self.engine.commit(&group).await.unwrap(),
            }
            done.lock().acknowledge();
            match random.random_range(0..200) {
                0 => self.engine.checkpoint().await.unwrap(),
                1 => self.engine.barrier().await.unwrap(),
                2..20 => {
                    // Nobody else writes it.
                    let block = task + TASKS * random.random_range(0..OWN_BLOCKS);
                    let found = read(&self.engine, block).await;
                    let expected = done.lock().model.get(&block).cloned();
                    assert_eq!(found, expected.unwrap_or(vec![0; BLOCK]), "block {block}");
                }
                _ => {}
            }
        }
    }

    /// Counts go up, hold what was acknowledged, and groups are seen whole.
    async fn watch(&self, mut random: Random) {
        let mut last = [0; TASKS as usize];
        while !self.is_over() {
            let task = random.random_range(0..TASKS);
            let acknowledged = self.done[task as usize].lock().count;
            let count = number(&read(&self.engine, count_of(task)).await);
            let mirror = number(&read(&self.engine, mirror_of(task)).await);
            let before = last[task as usize];
            assert!(
                count >= acknowledged.max(before) && mirror >= count,
                "task {task}: {before} were seen and {acknowledged} acknowledged, but {count} and {mirror} are there"
            );
            last[task as usize] = mirror;
            step_back().await;
        }
    }

    /// Read points show whole groups, also later.
    async fn look_back(&self, mut random: Random) {
        while !self.is_over() {
            let point = self.engine.read_point().await;
            match self.shows_whole_groups(&point, &mut random).await {
                Ok(()) => drop(self.points_shown.fetch_add(1, Ordering::Relaxed)),
                Err(Error::PointTooOld { .. }) => {}
                Err(error) => panic!("{error}"),
            }
            step_back().await;
        }
    }

    async fn shows_whole_groups(
        &self,
        point: &ReadPoint,
        random: &mut Random,
    ) -> moirai_update::Result<()> {
        let read = async |block: u64| {
            let found = point.reader().get(SPACE, &block.to_be_bytes()).await;
            found.map(|found| number(&found.unwrap()))
        };
        let (of_all, mut sum) = (read(COUNT_OF_ALL).await?, 0);
        for task in 0..TASKS {
            let mirror = read(mirror_of(task)).await?;
            for _ in 0..random.random_range(0..20) {
                step_back().await;
            }
            let count = read(count_of(task)).await?;
            assert_eq!(count, mirror, "half a group at a read point");
            sum += count;
        }
        assert_eq!(of_all, sum, "groups came to a read point");
        Ok(())
    }

    /// After the engine was opened anew: each task's groups, up to the last one that was acknowledged or the one after.
    async fn compare(&self) {
        let engine = &self.engine;
        let mut counts = Vec::new();
        for (task, done) in (0..).zip(&self.done) {
            let count = number(&read(engine, count_of(task)).await);
            assert_eq!(count, number(&read(engine, mirror_of(task)).await), "half a group");
            let model = {
                let mut done = done.lock();
                if count == done.count + 1 {
                    done.acknowledge();
                }
                assert_eq!(count, done.count, "groups of task {task}");
                done.model.clone()
            };
            for block in (0..OWN_BLOCKS).map(|index| task + TASKS * index) {
                let expected = model.get(&block).cloned().unwrap_or(vec![0; BLOCK]);
                assert_eq!(read(engine, block).await, expected, "block {block} of {count} groups");
            }
            counts.push(count);
        }
        assert_eq!(number(&read(engine, COUNT_OF_ALL).await), counts.iter().sum::<u64>());
        // Newest first: of each task one after the other, from its last.
        for tag in read(engine, HISTORY).await[8..].chunks_exact(4) {
            let tag = u32::from_le_bytes(tag.try_into().unwrap());
            if tag == 0 {
                break;
            }
            let count = &mut counts[(tag >> 24) as usize];
            assert_eq!(u64::from(tag & 0xff_ffff), *count, "the order of task {}", tag >> 24);
            *count -= 1;
        }
    }
}

/// Opens an engine, compares what is there, and has it work until it is closed, killed or loses power.
async fn live(
    bench: &Bench,
    done: Vec<Mutex<Done>>,
    random: &mut Random,
) -> (Vec<Mutex<Done>>, Figures, u64) {
    let engine = bench.open().await;
    let bytes_max = group_bytes_max(&engine).await;
    let (is_over, points_shown) = (AtomicBool::new(false), AtomicU64::new(0));
    let work = Work { engine, done, bytes_max, is_over, points_shown };
    work.compare().await;
    let work = Arc::new(work);
    let stream = |random: &mut Random| random_of(random.random());
    let mut tasks: Vec<Task<()>> = Vec::new();
    for task in 0..TASKS {
        let (work, random) = (Arc::clone(&work), stream(random));
        tasks.push(spawn(async move { work.write(task, random).await }));
    }
    for _ in 0..2 {
        let (work, random) = (Arc::clone(&work), stream(random));
        tasks.push(spawn(async move { work.watch(random).await }));
    }
    let (looking, random_of_it) = (Arc::clone(&work), stream(random));
    tasks.push(spawn(async move { looking.look_back(random_of_it).await }));
    sleep(Nanos(random.random_range(LIFE.0 / 2..LIFE.0))).await;
    let is_stopped_in_its_middle: bool = random.random();
    if !is_stopped_in_its_middle {
        work.is_over.store(true, Ordering::Relaxed);
    }
    for task in &mut tasks {
        match is_stopped_in_its_middle {
            true => task.stop().await,
            false => task.await,
        }
    }
    let Work { engine, done, points_shown, .. } = Arc::into_inner(work).unwrap();
    let figures = engine.figures();
    match random.random() {
        true => engine.close().await.unwrap(),
        false => drop(engine),
    }
    if let Place::Memory(devices) = &bench.place {
        for device in devices {
            // The tasks of the engine that was dropped have it.
            while Arc::strong_count(device) > 1 {
                sleep(Nanos(1_000_000)).await;
            }
        }
        if bench.options.durability == Durability::Flushed {
            devices.iter().for_each(|device| device.cut_power());
        }
    }
    (done, figures, points_shown.into_inner())
}

fn random_of(number: u64) -> Random {
    random(&number.to_string())
}

fn stores(default: u64) -> u64 {
    std::env::var("MOIRAI_RUNS").ok().and_then(|runs| runs.parse().ok()).unwrap_or(default)
}

fn run(in_files: bool) {
    let (mut groups, mut waits, mut placed, mut rounds, mut points) = (0, 0, 0, 0.0, 0);
    for store in 0..stores(4) {
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(THREADS)
            .enable_all()
            .build()
            .unwrap();
        let folder = tempfile::tempdir().unwrap();
        let work = async {
            let mut random = random_of(store);
            let bench = Bench::new(&mut random, in_files.then_some(folder.path())).await;
            let mut done: Vec<_> = (0..TASKS).map(|_| Mutex::default()).collect();
            for _ in 0..4 {
                let (figures, points_shown);
                (done, figures, points_shown) = live(&bench, done, &mut random).await;
                points += points_shown;
                waits += figures.waits;
                placed += figures.placed;
                let log_bytes = bench.log_blocks * BLOCK_BYTES;
                rounds += figures.log_passed_bytes as f64 / log_bytes as f64;
            }
            groups += done.iter().map(|done| done.lock().count).sum::<u64>();
        };
        runtime.block_on(async {
            let is_ended = matches!(select(pin!(work), pin!(sleep(LONG))).await, Either::Left(_));
            assert!(is_ended, "store {store}: it hangs");
        });
    }
    eprintln!(
        "{groups} groups, {waits} waited, {placed} partitions rewritten, {rounds:.0} rounds of the log, {points} read points"
    );
    assert!(groups > 0 && waits > 0 && placed > 0 && rounds > 1.0 && points > 0);
}

#[test]
fn threads_lose_nothing_in_memory() {
    run(false);
}

#[test]
fn threads_lose_nothing_in_files() {
    run(true);
}
