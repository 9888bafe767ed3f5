//! What every engine does: records of 16 + 48 bytes, uniformly random ones of which are changed in groups.

use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Weak};

use moirai::runtime::{Random, Stopwatch, blocking, sleep, spawn};
use moirai::units::Nanos;
use rand::{Rng, SeedableRng};
use serde::{Deserialize, Serialize};

use crate::{Outcome, process};

pub(crate) type Key = [u8; 16];
pub(crate) const VALUE_BYTES: usize = 48;
/// What is behind the number in a value.
const REST: u8 = 7;
/// Of so many records the changes are counted, and compared in the end.
const WATCHED: u64 = 1000;
/// Groups of a client after which it asks whether a cycle is over.
const ASKED_AFTER: usize = 64;

/// How much of it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Workload {
    pub(crate) records: u64,
    pub(crate) group: usize,
    pub(crate) clients: u64,
    /// Changing goes on for so long before anything counts, and for so long then.
    pub(crate) warm: Nanos,
    pub(crate) span: Nanos,
    /// For so long records are read, right after the changes, and again when the engine was left alone for `rest`.
    pub(crate) read_span: Nanos,
    pub(crate) rest: Nanos,
    /// How often an engine that works in cycles goes through its data at least, once it went through them once.
    pub(crate) cycles: f64,
}

/// An engine that is measured.
pub(crate) trait Engine: Send + Sync + 'static {
    /// Puts the records of numbers 0 to `records` - 1 into it, in the order of their keys.
    fn load(&self, records: u64) -> impl Future<Output = Outcome<()>> + Send;
    /// Adds one to the number at the front of each record's value; durable together, or not at all.
    fn add(&self, keys: Vec<Key>) -> impl Future<Output = Outcome<()>> + Send;
    /// Reads records, one after the other.
    fn read(&self, keys: Vec<Key>) -> impl Future<Output = Outcome<Vec<Vec<u8>>>> + Send;
    /// How often all of its data were written, where it tells.
    fn cycles(&self) -> Option<f64> {
        None
    }
    /// Bytes of its files in use, those of its log left out, where it tells.
    fn allocated(&self) -> Option<u64> {
        None
    }
    /// What it moved so far, where it tells.
    fn moved(&self) -> Option<Moved> {
        None
    }
}

/// An engine whose calls block the thread.
pub(crate) trait BlockingEngine: Send + Sync + 'static {
    fn load(&self, records: &mut dyn Iterator<Item = Key>) -> Outcome<()>;
    fn add(&self, keys: &[Key]) -> Outcome<()>;
    fn read(&self, keys: &[Key]) -> Outcome<Vec<Vec<u8>>>;
}

/// Gives each call of it a thread.
pub(crate) struct Threads<E>(pub(crate) Arc<E>);

impl<E: BlockingEngine> Engine for Threads<E> {
    async fn load(&self, records: u64) -> Outcome<()> {
        let engine = Arc::clone(&self.0);
        blocking(move || engine.load(&mut (0..records).map(move |number| key(number, records))))
            .await
    }

    async fn add(&self, keys: Vec<Key>) -> Outcome<()> {
        let engine = Arc::clone(&self.0);
        blocking(move || engine.add(&keys)).await
    }

    async fn read(&self, keys: Vec<Key>) -> Outcome<Vec<Vec<u8>>> {
        let engine = Arc::clone(&self.0);
        blocking(move || engine.read(&keys)).await
    }
}

/// The key of a record: in the order of the numbers, spread over all keys.
pub(crate) fn key(number: u64, records: u64) -> Key {
    let mut key = [0; 16];
    let (front, back) = key.split_at_mut(8);
    front.copy_from_slice(&(u64::MAX / records * number).to_be_bytes());
    back.copy_from_slice(&number.wrapping_mul(0x9e37_79b9_7f4a_7c15).to_be_bytes());
    key
}

/// A value, as it is loaded.
pub(crate) fn new_value() -> [u8; VALUE_BYTES] {
    let mut value = [REST; VALUE_BYTES];
    value[..8].fill(0);
    value
}

/// Adds to the number at the front of a value.
pub(crate) fn add_to(value: &mut [u8], more: u64) {
    if let Some(front) = value.first_chunk_mut() {
        *front = u64::from_le_bytes(*front).wrapping_add(more).to_le_bytes();
    }
}

pub(crate) fn number_of(value: &[u8]) -> u64 {
    value.first_chunk().map_or(0, |front| u64::from_le_bytes(*front))
}

/// Bytes that an engine moved for updates, or bytes a second.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub(crate) struct Moved {
    pub(crate) logged: f64,
    pub(crate) staged: f64,
    pub(crate) swept: f64,
    pub(crate) placed: f64,
}

impl Moved {
    /// What came since `before`, each second.
    fn since(self, before: Moved, seconds: f64) -> Moved {
        Moved {
            logged: (self.logged - before.logged) / seconds,
            staged: (self.staged - before.staged) / seconds,
            swept: (self.swept - before.swept) / seconds,
            placed: (self.placed - before.placed) / seconds,
        }
    }
}

/// What a run of one engine gave.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Measured {
    pub(crate) loaded_per_s: f64,
    pub(crate) updates_per_s: f64,
    /// Bytes that the disk took for each update.
    pub(crate) written: f64,
    /// How long a group takes: median, 99 %, 99.9 %.
    pub(crate) waits_ms: [f64; 3],
    /// Right after the updates, and after a rest.
    pub(crate) reads_per_s: [f64; 2],
    /// Time of all cores for a million updates.
    pub(crate) cpu_s: f64,
    pub(crate) resident_mib: u64,
    /// What the files take on the disk when the updates end, and after a rest.
    pub(crate) disk_mib: [u64; 2],
    /// The same without the log, and what is not in use: the most while updates ran, and after a rest.
    pub(crate) allocated_mib: Option<[u64; 2]>,
    /// What keys and values take.
    pub(crate) live_mib: u64,
    pub(crate) cycles: Option<f64>,
    /// Bytes a second.
    pub(crate) moved: Option<Moved>,
}

/// Runs the workload on an engine whose files are in `folder`.
pub(crate) async fn measure<E: Engine>(
    engine: E,
    workload: Workload,
    folder: &Path,
) -> Outcome<Measured> {
    let engine = Arc::new(engine);
    let watch = Stopwatch::start();
    engine.load(workload.records).await?;
    let loaded_s = watch.elapsed().as_s();

    let watched = workload.records.div_ceil(WATCHED);
    let counts: Arc<Vec<AtomicU64>> = Arc::new((0..WATCHED).map(|_| AtomicU64::new(0)).collect());
    // An engine that works in cycles is measured over whole ones.
    let phase = |seed: u64, span: Nanos, cycles: f64| {
        let (engine, counts) = (Arc::clone(&engine), Arc::clone(&counts));
        async move {
            let mut clients = Vec::new();
            for client in 0..workload.clients {
                let (engine, counts) = (Arc::clone(&engine), Arc::clone(&counts));
                clients.push(spawn(async move {
                    let mut random = Random::seed_from_u64(seed + client);
                    let mut waits_ns = Vec::new();
                    let whole = Stopwatch::start();
                    let before = engine.cycles();
                    let is_cycle = || {
                        let pair = engine.cycles().zip(before);
                        pair.is_none_or(|(now, before)| now - before >= cycles)
                    };
                    // To ask how far it came takes an engine's time: not after each group.
                    let is_asked = |groups: usize| groups.is_multiple_of(ASKED_AFTER);
                    while whole.elapsed() < span || !is_asked(waits_ns.len()) || !is_cycle() {
                        let numbers: Vec<u64> = (0..workload.group)
                            .map(|_| random.random_range(0..workload.records))
                            .collect();
                        let keys =
                            numbers.iter().map(|&number| key(number, workload.records)).collect();
                        let watch = Stopwatch::start();
                        engine.add(keys).await?;
                        waits_ns.push(watch.elapsed().0);
                        for number in
                            numbers.iter().filter(|&number| number.is_multiple_of(watched))
                        {
                            if let Some(count) = counts.get((number / watched) as usize) {
                                count.fetch_add(1, Ordering::Relaxed);
                            }
                        }
                    }
                    Outcome::Ok(waits_ns)
                }));
            }
            let mut waits_ns = Vec::new();
            for client in clients {
                waits_ns.extend(client.await?);
            }
            Outcome::Ok(waits_ns)
        }
    };
    phase(1000, workload.warm, 1.0).await?;
    let (cycles, moved) = (engine.cycles(), engine.moved());
    let resident_mib = process::resident_mib();
    let used = process::used(folder)?;
    let is_over = Arc::new(AtomicBool::new(false));
    let watch = Stopwatch::start();
    let most_allocated = spawn(most_allocated(Arc::downgrade(&engine), Arc::clone(&is_over)));
    let mut waits_ns = phase(2000, workload.span, workload.cycles).await?;
    is_over.store(true, Ordering::Relaxed);
    let updated_s = watch.elapsed().as_s();
    let used = process::used(folder)? - used;
    let cycles = engine.cycles().zip(cycles).map(|(after, before)| after - before);
    let moved = engine.moved().zip(moved).map(|(after, before)| after.since(before, updated_s));
    waits_ns.sort_unstable();
    let wait_ms = |share: f64| {
        let at = (waits_ns.len() as f64 * share) as usize;
        waits_ns
            .get(at.min(waits_ns.len().saturating_sub(1)))
            .map_or(0.0, |&wait| wait as f64 / 1e6)
    };
    let updates = (waits_ns.len() * workload.group) as f64;

    let most_allocated = most_allocated.await;
    let disk_mib = process::folder_mib(folder);
    let at_once = read(&engine, workload, 3000).await?;
    sleep(workload.rest).await;
    let rested = engine.allocated();
    let disk_mib = [disk_mib, process::folder_mib(folder)];
    let in_the_end = read(&engine, workload, 5000).await?;

    for (at, count) in counts.iter().enumerate() {
        let number = at as u64 * watched;
        if number >= workload.records {
            break;
        }
        let values = engine.read(vec![key(number, workload.records)]).await?;
        let (had, was) =
            (values.first().map(|value| number_of(value)), count.load(Ordering::Relaxed));
        if had != Some(was) {
            return Err(format!("record {number} was changed {was} times and holds {had:?}").into());
        }
    }
    Ok(Measured {
        loaded_per_s: workload.records as f64 / loaded_s,
        updates_per_s: updates / updated_s,
        written: used.written_bytes as f64 / updates,
        waits_ms: [wait_ms(0.5), wait_ms(0.99), wait_ms(0.999)],
        reads_per_s: [at_once, in_the_end],
        cpu_s: used.cpu_s * 1e6 / updates,
        resident_mib,
        disk_mib,
        live_mib: (workload.records * (size_of::<Key>() + VALUE_BYTES) as u64) >> 20,
        allocated_mib: most_allocated.zip(rested).map(|(most, rested)| [most >> 20, rested >> 20]),
        cycles,
        moved,
    })
}

/// The most that an engine allocates until the changes are over, looked at every 50 ms.
async fn most_allocated<E: Engine>(engine: Weak<E>, is_over: Arc<AtomicBool>) -> Option<u64> {
    let mut most = None;
    while !is_over.load(Ordering::Relaxed) {
        most = most.max(engine.upgrade()?.allocated());
        sleep(Nanos(50_000_000)).await;
    }
    most
}

/// Reads random records with all clients; gives how many a second.
async fn read<E: Engine>(engine: &Arc<E>, workload: Workload, seed: u64) -> Outcome<f64> {
    let watch = Stopwatch::start();
    let client = |client: u64| {
        let engine = Arc::clone(engine);
        spawn(async move {
            let mut random = Random::seed_from_u64(seed + client);
            let (mut reads, watch) = (0, Stopwatch::start());
            while watch.elapsed() < workload.read_span {
                let numbers = (0..100).map(|_| random.random_range(0..workload.records));
                let keys = numbers.map(|number| key(number, workload.records)).collect();
                let values = engine.read(keys).await?;
                let is_right = |value: &Vec<u8>| value.get(8..) == Some(&[REST; 40]);
                if values.len() != 100 || !values.iter().all(is_right) {
                    return Err("a record is missing or wrong".into());
                }
                reads += values.len();
            }
            Outcome::Ok(reads)
        })
    };
    let clients: Vec<_> = (0..workload.clients).map(client).collect();
    let mut reads = 0;
    for client in clients {
        reads += client.await?;
    }
    Ok(reads as f64 / watch.elapsed().as_s())
}
