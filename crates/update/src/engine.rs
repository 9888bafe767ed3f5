//! The engine: taking modifications in, and the tasks that bring them to their places.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};

use moirai_runtime::{Task, now, spawn};
use moirai_storage::Device;
use moirai_units::ByteCount;
use parking_lot::Mutex;
use tokio::sync::Notify;

use crate::block_format::BlockFormat;
use crate::data::cache::Cache;
use crate::data::checkpoint::read_checkpoint;
use crate::data::extents::Extents;
use crate::data::format::{disk_id, name_of};
use crate::data::requests::Requests;
use crate::data::superblock::{NAME_BYTES, Superblock};
use crate::error::{Error, Result};
use crate::figures::{Counts, Figures};
use crate::group::Group;
use crate::ids::{PartitionId, SpaceId};
use crate::kind::{Kinds, Modification, Question};
use crate::log::replay::replay;
use crate::log::segments::{LogDisk, Ring, Segments};
use crate::log::{Log, Opened};
use crate::options::Options;
use crate::read::{At, View};
use crate::shared::LONG_WAIT;
use crate::shared::Shared;
use crate::state::entry::Entry;

/// The least memory for pending modifications.
const MEMORY_MIN: ByteCount = ByteCount(4 << 10);
/// A partition with so many bytes pending, or a sixteenth of the memory, is swept early: who reads goes through
/// all of them.
const HOT_BYTES_MAX: usize = 1 << 20;

/// The part of the memory that one partition's queue may take: to sort it takes as much again. Groups wait then,
/// whatever they modify, since they are taken in in their order.
const PARTITION_SHARE: usize = 8;

/// The update engine over a data device and one or more log devices.
///
/// Dropped, it ends at once, as in a crash: what was acknowledged is there when it is opened again. Open the
/// devices anew then, too: writes to these may still be under way, as they are not after [`Engine::close`].
pub struct Engine {
    shared: Arc<Shared>,
    writer: Task<()>,
    sweeper: Task<()>,
}

impl Engine {
    /// Opens the engine that was formatted on `data` and `logs`, which come in the same order, and takes up what a
    /// crash left pending. The `kinds` must have every kind of which something is in the log or staged, and `blocks`
    /// is what it was formatted with. An engine whose log takes nothing more, as when the data device is full and so
    /// the log cannot be freed, is opened, too: it serves reads.
    ///
    /// # Errors
    /// [`Error::NotFormatted`], [`Error::Version`], [`Error::OtherLog`] when the devices are not what was formatted
    /// together; [`Error::LogLost`], [`Error::Damaged`], [`Error::UnknownKind`], [`Error::NoSpace`] for what they hold;
    /// [`Error::Options`] for too little memory, another format of blocks, or another number of log devices. Nothing of
    /// what was acknowledged is lost then.
    pub async fn open(
        data: Arc<dyn Device>,
        logs: &[Arc<dyn Device>],
        kinds: Kinds,
        blocks: Arc<dyn BlockFormat>,
        options: Options,
    ) -> Result<Engine> {
        if options.memory < MEMORY_MIN {
            let problem =
                format!("memory of {} is too small: give at least {MEMORY_MIN}", options.memory);
            return Err(Error::Options { problem });
        }
        let superblock = Superblock::read(&*data).await?;
        let division = superblock.division;
        if superblock.format != name_of(&*blocks) {
            let name = |name: [u8; NAME_BYTES]| {
                String::from_utf8_lossy(&name).trim_end_matches('\0').to_owned()
            };
            return Err(Error::Options {
                problem: format!(
                    "{}: the blocks have format `{}`, not `{}`: open the store with the program that created it",
                    data.inquiry().name,
                    name(superblock.format),
                    blocks.name()
                ),
            });
        }
        let disks = log_disks(&*data, logs, &superblock)?;
        // What the last run left in caches must not be taken for durable.
        data.flush().await?;
        for log in logs {
            log.flush().await?;
        }
        let extents = Extents::new(division.extents);
        let (mut state, held) = read_checkpoint(&*data, &superblock, &extents).await?;
        state.has_canary = options.canary;
        state.hot_bytes = (options.memory.0 as usize / 16).clamp(4 << 10, HOT_BYTES_MAX);
        let replayed = replay(&*data, &disks, &superblock, &mut state, &kinds).await?;
        if let Some(number) = state.unknown_kind(&kinds) {
            return Err(Error::UnknownKind { number });
        }
        let next = state.next;
        let room = Arc::new(Notify::new());
        let opened = Opened {
            disks,
            opening: replayed.opening + 1,
            used: replayed.used,
            next,
            room: Arc::clone(&room),
        };
        let log = Log::new(opened, &options);
        let mut at = replayed.at;
        let opening = at.write_opening(&log, next).await;
        let shared = Arc::new(Shared {
            longest: blocks.longest(division.block_bytes()),
            data,
            log,
            division,
            extents,
            kinds,
            format: blocks,
            memory_bytes: options.memory.0 as usize,
            cache_bytes_max: options.cache.0 as usize,
            cache: Cache::new(),
            state: Mutex::new(state),
            cursor: Mutex::new((SpaceId(0), Box::default())),
            requests: Requests::default(),
            closing: AtomicBool::new(false),
            checkpoint_extents: AtomicUsize::new(held.len()),
            sweep_wake: Notify::new(),
            room,
            turn: tokio::sync::Mutex::default(),
            counts: Counts::default(),
            superblock: tokio::sync::Mutex::new((superblock, held)),
            stopped: Mutex::new(None),
            replayed_bytes: replayed.bytes_read,
            waited_ns: AtomicU64::new(LONG_WAIT.0 / 2),
        });
        // A log that takes nothing more need not keep anybody from reading.
        if let Err(error) = opening {
            shared.stop(&format!("writing the log failed: {error}"));
        }
        let writing = Arc::clone(&shared);
        let writer = spawn(async move {
            let _ended = SayEnded(&writing, "the task that writes the log ended");
            if writing.check_running().is_ok() {
                writing.write_log(at).await;
            }
        });
        let sweeping = Arc::clone(&shared);
        let sweeper = spawn(async move {
            let _ended = SayEnded(&sweeping, "the task that sweeps ended");
            if sweeping.check_running().is_ok() {
                sweeping.sweep_forever().await;
            }
        });
        let engine = Engine { shared, writer, sweeper };
        // Openings take room, too: they make some before there is none. Where that fails, reads go on, and who modifies
        // is told why.
        if engine.shared.check_running().is_ok()
            && !engine.shared.log.has_room(0)
            && let Err(error) = engine.checkpoint().await
        {
            let name = &engine.shared.data.inquiry().name;
            tracing::warn!(
                "{name}: the log is full, and a checkpoint to free segments failed: {error}"
            );
        }
        Ok(engine)
    }

    /// The spaces that there are.
    #[must_use]
    pub fn spaces(&self) -> Vec<SpaceId> {
        self.shared.state.lock().spaces.keys().copied().collect()
    }

    /// Makes a space; does nothing when it is there. Waits while the log has no room.
    ///
    /// # Errors
    /// [`Error::NoSpace`] for number 0; [`Error::Stopped`].
    pub async fn create_space(&self, space: SpaceId) -> Result<()> {
        let shared = &self.shared;
        if space.0 == 0 {
            return Err(Error::NoSpace { space });
        }
        let seq = loop {
            let freed = shared.room.notified();
            {
                let mut state = shared.state.lock();
                if state.spaces.contains_key(&space) {
                    return Ok(());
                }
                shared.check_running()?;
                // Partitions that the log does not know would have numbers before this one's.
                if !state.is_ahead && shared.log.has_room(0) {
                    let partition = PartitionId(state.partitions.len() as u32);
                    let mut group = Vec::new();
                    Entry::CreateSpace { space, partition }.encode(&mut group);
                    break shared.append(&mut state, &group)?;
                }
            }
            shared.sweep_wake.notify_one();
            freed.await;
        };
        shared.acknowledged(seq).await
    }

    /// Takes a group in; returns when it is as durable as the options say. Groups come in the order in which
    /// this is first polled, also when they wait for memory or for room in the log. One whose future is dropped is in
    /// once it was taken in.
    ///
    /// # Errors
    /// [`Error::UnknownKind`], [`Error::TooLong`], [`Error::GroupTooLong`], [`Error::NoSpace`], and nothing was taken
    /// in; [`Error::Stopped`], and the group may be there or not when the engine is opened again.
    pub async fn commit(&self, group: &Group) -> Result<()> {
        let shared = &self.shared;
        if group.is_empty() {
            return Ok(());
        }
        shared.check(group)?;
        let mut waiting_since = None;
        let turn = shared.turn.lock().await;
        let seq = loop {
            let freed = shared.room.notified();
            shared.check_running()?;
            {
                let mut state = shared.state.lock();
                if let Some((space, _)) =
                    group.uses.iter().find(|(space, _)| !state.spaces.contains_key(space))
                {
                    return Err(Error::NoSpace { space: *space });
                }
                let most = shared.queues_bytes_max(&state);
                let has_memory =
                    state.queued_bytes < most && !state.is_full(most / PARTITION_SHARE);
                if has_memory && shared.log.has_room(group.bytes.len()) {
                    let seq = shared.append(&mut state, &group.bytes)?;
                    shared.cache.shrink(shared.cache_bytes_max(&state));
                    let is_short = state.queued_bytes > most / 2 || !state.hot.is_empty();
                    drop(state);
                    if is_short || shared.log.to_leave().is_some() {
                        shared.sweep_wake.notify_one();
                    }
                    break seq;
                }
            }
            if waiting_since.is_none() {
                shared.counts.waits.add(1);
                waiting_since = Some(now());
            }
            shared.log.want(group.bytes.len());
            shared.sweep_wake.notify_one();
            freed.await;
        };
        drop(turn);
        if let Some(since) = waiting_since {
            shared.say_waited(now().since(since));
        }
        shared.counts.modifications.add(group.len() as u64);
        shared.acknowledged(seq).await
    }

    /// Takes one modification in, as a group of its own; errors as of [`Engine::commit`].
    pub async fn modify(&self, space: SpaceId, modification: Modification<'_>) -> Result<()> {
        let mut group = Group::new();
        group.modify(space, modification);
        self.commit(&group).await
    }

    /// The value under a key, with all that was modified; from memory alone where that says all.
    ///
    /// # Errors
    /// [`Error::NoSpace`]; [`Error::Damaged`] and [`Error::Device`] for what has to be read.
    pub async fn get(&self, space: SpaceId, key: &[u8]) -> Result<Option<Vec<u8>>> {
        self.shared.get(space, key).await
    }

    /// The answer to a question about the value under a key; from memory alone where what is pending there tells it.
    /// Errors as of [`Engine::get`].
    pub async fn query<Q: Question>(
        &self,
        space: SpaceId,
        key: &[u8],
        question: &Q,
    ) -> Result<Q::Answer> {
        self.shared.query(space, key, question).await
    }

    /// A block with all that is pending for it; `None` when nothing lies there. Errors as of [`Engine::get`].
    pub async fn view(&self, space: SpaceId, at: At<'_>) -> Result<Option<View>> {
        self.shared.view(space, at).await
    }

    /// Returns when all that was taken in is durable; [`Error::Stopped`] when it cannot be.
    pub async fn barrier(&self) -> Result<()> {
        let next = self.shared.state.lock().next;
        self.shared.flushed_before(next).await
    }

    /// Brings all that was taken in to the data device, and returns when the log is needed for none of it;
    /// [`Error::Stopped`] when it cannot be.
    pub async fn checkpoint(&self) -> Result<()> {
        let shared = &self.shared;
        let wanted = shared.requests.want(shared.state.lock().next);
        loop {
            let swept = shared.room.notified();
            if shared.requests.is_done(wanted) {
                return Ok(());
            }
            shared.check_running()?;
            shared.sweep_wake.notify_one();
            swept.await;
        }
    }

    /// Requests, and ends the engine: nothing is under way on the devices then, and they can be opened again. After an
    /// error it has ended as in a crash.
    pub async fn close(mut self) -> Result<()> {
        self.checkpoint().await?;
        self.shared.closing.store(true, Ordering::Release);
        self.shared.sweep_wake.notify_one();
        (&mut self.sweeper).await;
        // It holds the devices.
        self.writer.stop().await;
        self.shared.check_running()
    }

    /// What it did.
    #[must_use]
    pub fn figures(&self) -> Figures {
        let Shared { counts, state, cache, log, extents, .. } = &*self.shared;
        let state = state.lock();
        let blocks = state.partitions.iter().map(|one| one.blocks.len() as u64).sum();
        Figures {
            modifications: counts.modifications.get(),
            queued: state.queued as u64,
            queued_bytes: state.queued_bytes as u64,
            log_bytes: log.bytes_written(),
            log_passed_bytes: log.bytes_passed(),
            staged_bytes: counts.staged_bytes.get(),
            placed_bytes: counts.placed_bytes.get(),
            swept_bytes: counts.swept_bytes.get(),
            checkpoint_bytes: counts.checkpoint_bytes.get(),
            placed: counts.placed.get(),
            reads: counts.reads.get(),
            staged_reads: counts.staged_reads.get(),
            cached_reads: counts.cached_reads.get(),
            cached_bytes: cache.bytes() as u64,
            waits: counts.waits.get(),
            partitions: state.partitions.len() as u64,
            blocks,
            directory_bytes: state.directory_bytes as u64,
            extents: u64::from(extents.count),
            extents_free: extents.free() as u64,
            log_segments: log.segments() as u64,
            log_segments_used: log.segments_used() as u64,
            replayed_bytes: self.shared.replayed_bytes,
            refused: state.refused,
        }
    }
}

impl Drop for Engine {
    fn drop(&mut self) {
        self.shared.closing.store(true, Ordering::Release);
        self.writer.abort();
        self.sweeper.abort();
    }
}

impl std::fmt::Debug for Engine {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Engine({})", self.shared.data.inquiry().name)
    }
}

/// The disks of the log, as they were formatted.
fn log_disks(
    data: &dyn Device,
    logs: &[Arc<dyn Device>],
    superblock: &Superblock,
) -> Result<Vec<LogDisk>> {
    let Superblock { id, division, rings, .. } = superblock;
    if rings.len() != logs.len() {
        let problem = format!(
            "{}: the log has {} devices, but {} are named: name all log devices, in the order of creation",
            data.inquiry().name,
            rings.len(),
            logs.len()
        );
        return Err(Error::Options { problem });
    }
    let is_there = division.first_of(division.extents).0 <= data.inquiry().capacity.0;
    let disk = |((disk, log), ring): ((u64, &Arc<dyn Device>), &Ring)| {
        let segments = Segments::of(&**log, *ring)?.filter(|_| is_there);
        let segments = segments.ok_or_else(|| Error::other_log(data, &**log))?;
        let id = disk_id(*id, disk);
        Ok(LogDisk { device: Arc::clone(log), segments: Arc::new(segments), id })
    };
    (0..).zip(logs).zip(rings).map(disk).collect()
}

/// Has nobody wait for a task that ended, as when a kind of a program panics.
struct SayEnded<'a>(&'a Shared, &'static str);

impl Drop for SayEnded<'_> {
    fn drop(&mut self) {
        if !self.0.is_closing() {
            self.0.stop(self.1);
        }
    }
}
