//! The engine: taking modifications in, and the tasks that bring them to their places.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};

use moirai_runtime::{Task, check_timers, now, spawn};
use moirai_storage::Device;
use moirai_units::ByteCount;
use parking_lot::Mutex;
use tokio::sync::{MutexGuard, Notify};

use crate::block_format::BlockFormat;
use crate::check::Damage;
use crate::data::cache::Cache;
use crate::data::checkpoint::read_checkpoint;
use crate::data::extents::Extents;
use crate::data::format::{disk_id, name_of};
use crate::data::requests::Requests;
use crate::data::superblock::{NAME_BYTES, Superblock};
use crate::data::tables::Tables;
use crate::error::{Error, Result};
use crate::figures::{Counts, Figures};
use crate::group::Group;
use crate::ids::SpaceId;
use crate::ingest::Ingest;
use crate::kind::{Kinds, Modification, Question};
use crate::log::replay::replay;
use crate::log::segments::{LogDisk, Ring, Segments};
use crate::log::{Log, Opened};
use crate::long::read::{LongValues, ValueReader};
use crate::long::write::ValueWriter;
use crate::options::{Durability, Options};
use crate::sample::Sample;
use crate::shared::{LONG_WAIT, Lagging, Shared};
use crate::state::entry::Entry;
use crate::sweep::{Cleared, Clears, Ingests, Working};
use crate::view::{At, View, Views};

/// The least memory for pending modifications.
const MEMORY_MIN: ByteCount = ByteCount(4 << 10);
/// A partition with so many bytes pending, or a sixteenth of the memory, is swept early: who reads goes through
/// all of them.
const HOT_BYTES_MAX: usize = 1 << 20;

/// The part of the memory that one partition's queue may take: to write it as a chunk takes as much again, and to sort it
/// eight bytes for each modification. Groups wait then, whatever they modify, since they are taken in in their order.
const PARTITION_SHARE: usize = 8;

/// The part of the memory that tables of blocks may take.
const TABLES_SHARE: usize = 4;

/// The update engine over a data device and one or more log devices.
///
/// Dropped, it ends at once, as in a crash: what was acknowledged is there when it is opened again. Open the
/// devices anew then, too: writes to these may still be under way, as they are not after [`Engine::close`]. In real
/// time its tasks let go of the devices a moment later, or when their runtime ends. It may be dropped outside of a
/// runtime, and after its own has ended.
///
/// Its two tasks run in the tokio runtime that it was opened in, one with `enable_all`: where that runtime ends, or its
/// only thread does something else, nothing is written any more. [`moirai_runtime::wait`] serves programs without one.
pub struct Engine {
    shared: Arc<Shared>,
    /// None of an engine for reading only.
    tasks: Option<Tasks>,
}

struct Tasks {
    writer: Task<()>,
    sweeper: Task<()>,
}

impl Engine {
    /// Opens the engine that was formatted on `data` and `logs`, which come in the same order, and takes up what a
    /// crash left pending. The `kinds` must have every kind of which something is in the log or staged, and `blocks`
    /// is what it was formatted with. Where `data` has grown since, what it has more is used for data. An engine whose log
    /// takes nothing more, as when the data device is full and so
    /// the log cannot be freed, is opened, too: it serves reads.
    ///
    /// # Errors
    /// [`Error::NotFormatted`], [`Error::Version`], [`Error::OtherLog`] when the devices are not what was formatted
    /// together; [`Error::Device`] outside a runtime; [`Error::LogLost`], [`Error::LogUnreadable`], [`Error::Damaged`],
    /// [`Error::UnknownKind`], [`Error::NoSpace`] for what they hold;
    /// [`Error::Options`] for too little memory, another format of blocks, or another number of log devices. Nothing of
    /// what was acknowledged is lost then.
    pub async fn open(
        data: Arc<dyn Device>,
        logs: &[Arc<dyn Device>],
        kinds: Kinds,
        blocks: Arc<dyn BlockFormat>,
        options: Options,
    ) -> Result<Engine> {
        check_timers().map_err(moirai_storage::Error::NoRuntime)?;
        if options.memory < MEMORY_MIN {
            let problem =
                format!("memory of {} is too small: give at least {MEMORY_MIN}", options.memory);
            return Err(Error::Options { problem });
        }
        let mut superblock = Superblock::read(&*data).await?;
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
        let layout = superblock.layout.grown(data.inquiry().capacity);
        let has_grown = layout != superblock.layout;
        superblock.layout = layout;
        // What the last run left in caches must not be taken for durable.
        if !options.read_only {
            data.flush().await?;
            for log in logs {
                log.flush().await?;
            }
        }
        let extents = Extents::new(layout.data, layout.grain);
        let (mut state, held) = read_checkpoint(&*data, &superblock, &extents).await?;
        #[cfg(feature = "canary")]
        {
            state.has_canary = options.canary;
        }
        state.hot_bytes = (options.memory.0 as usize / 16).clamp(4 << 10, HOT_BYTES_MAX);
        let replayed = replay(&*data, &disks, &superblock, &mut state, &kinds, &options).await?;
        if let Some(number) = state.unknown_kind(&kinds) {
            return Err(Error::UnknownKind { number });
        }
        extents.discard_all();
        // Before anything lies in the new part.
        if has_grown && !options.read_only {
            superblock.generation += 1;
            superblock.write(&*data).await?;
        }
        let next = state.applied;
        let room = Arc::new(Notify::new());
        let opened = Opened {
            disks,
            opening: replayed.opening + 1,
            used: replayed.used,
            next,
            // The flushes above came before the replay.
            frame: replayed.at.number,
            room: Arc::clone(&room),
        };
        let log = Log::new(opened, &options);
        let (start, last_frame) = (superblock.checkpoint.start, replayed.at.number);
        let mut at = replayed.at;
        let opening = match options.read_only {
            true => Ok(()),
            false => at.write_opening(&log, next).await,
        };
        let shared = Arc::new(Shared {
            longest: blocks.longest(layout.block_bytes()),
            data,
            log,
            layout,
            extents,
            kinds,
            format: blocks,
            memory_bytes: options.memory.0 as usize,
            cache_bytes_max: options.cache.0 as usize,
            cache: Cache::new(),
            tables: Tables::new(options.memory.0 as usize / TABLES_SHARE),
            working: Working::new(options.memory.0 as usize),
            maps_bytes: AtomicUsize::new(0),
            state: Lagging::new(state),
            directory_blocks: AtomicU64::new(0),
            requests: Requests::default(),
            clears: Clears::default(),
            ingests: Ingests::default(),
            ingesting: Arc::default(),
            closing: AtomicBool::new(false),
            checkpoint_blocks: AtomicU64::new(held.iter().map(|one| one.blocks.count.0).sum()),
            sweep_wake: Notify::new(),
            room,
            turn: tokio::sync::Mutex::default(),
            counts: Counts::default(),
            superblock: tokio::sync::Mutex::new((superblock, held)),
            is_read_only: options.read_only,
            stopped: Mutex::new(None),
            space_wanted_bytes: AtomicUsize::new(0),
            is_space_refused: AtomicBool::new(false),
            is_stuck: AtomicBool::new(false),
            idle: options.idle,
            last_commit: Mutex::new(now()),
            replayed_bytes: replayed.bytes_read,
            waited_ns: AtomicU64::new(LONG_WAIT.0 / 2),
        });
        // A log that takes nothing more need not keep anybody from reading.
        if let Err(error) = opening {
            shared.stop(&format!("writing the log failed: {error}"));
        }
        if options.read_only {
            return Ok(Engine { shared, tasks: None });
        }
        shared.note_directory();
        if replayed.is_outline {
            shared.load(start, last_frame, options.force_log_end).await?;
        }
        // Made here and not in the tasks: a runtime that ends may drop a task that never ran.
        let writing = SayEnded(Arc::clone(&shared), "the task that writes the log ended");
        let writer = spawn(async move {
            let SayEnded(shared, _) = &writing;
            if shared.check_running().is_ok() {
                shared.write_log(at).await;
            }
        });
        let sweeping = SayEnded(Arc::clone(&shared), "the task that sweeps ended");
        let sweeper = spawn(async move {
            let SayEnded(shared, _) = &sweeping;
            if shared.check_running().is_ok() {
                shared.sweep_forever().await;
            }
        });
        let engine = Engine { shared, tasks: Some(Tasks { writer, sweeper }) };
        // Openings take room, too: they make some before there is none. Where that fails, reads go on, and who modifies
        // is told why. What a forced end left out is no more asked for after a checkpoint.
        if engine.shared.check_running().is_ok()
            && (replayed.is_forced || !engine.shared.log.has_room(0))
            && let Err(error) = engine.checkpoint().await
        {
            let name = &engine.shared.data.inquiry().name;
            tracing::warn!(
                "{name}: the checkpoint that the log needs after opening failed: {error}"
            );
        }
        Ok(engine)
    }

    pub(crate) fn shared(&self) -> &Arc<Shared> {
        &self.shared
    }

    /// The spaces that there are.
    #[must_use]
    pub fn spaces(&self) -> Vec<SpaceId> {
        self.shared.state().spaces.keys().copied().collect()
    }

    /// Makes a space; does nothing when it is there. Returns when it is as durable as the options say. Waits while the
    /// log has no room.
    ///
    /// # Errors
    /// [`Error::NoSpace`] for number 0; [`Error::ReadOnly`]; [`Error::Stopped`].
    pub async fn create_space(&self, space: SpaceId) -> Result<()> {
        let shared = &self.shared;
        if space.0 == 0 {
            return Err(Error::NoSpace { space });
        }
        let seq = loop {
            let freed = shared.room.notified();
            {
                let mut state = shared.state();
                if state.spaces.contains_key(&space) {
                    return Ok(());
                }
                if let Some(seq) = state.unapplied.spaces.get(&space) {
                    break *seq;
                }
                shared.check_running()?;
                // Partitions that the log does not know would have numbers before this one's.
                if !state.is_ahead && shared.log.has_room(0) {
                    let partition = state.partitions.reserve();
                    let mut group = Vec::new();
                    Entry::CreateSpace { space, partition }.encode(&mut group);
                    let seq = shared.append(&mut state, &group);
                    state.unapplied.spaces.insert(space, seq);
                    break seq;
                }
            }
            shared.sweep_wake.notify_one();
            freed.await;
        };
        shared.acknowledged(seq, shared.log.durability).await
    }

    /// Takes a group in; returns when it is as durable as the options say, and readers see it. Until then, and after an
    /// error, they do not. Groups come in the order in which
    /// this is first polled, also when they wait for memory or for room in the log. One whose future is dropped is in
    /// once it was taken in.
    ///
    /// # Errors
    /// [`Error::UnknownKind`], [`Error::TooLong`], [`Error::GroupTooLong`], [`Error::NoSpace`], [`Error::Full`],
    /// [`Error::ReadOnly`], and nothing was taken in; [`Error::Stopped`], and the group may be there or not when the engine
    /// is opened again.
    pub async fn commit(&self, group: &Group) -> Result<()> {
        self.commit_with(group, self.shared.log.durability).await
    }

    /// As [`Engine::commit`], but returns when the group is as durable as is said here, or as the options say where that is
    /// more: see [`Durability`].
    pub async fn commit_with(&self, group: &Group, durability: Durability) -> Result<()> {
        if group.is_empty() {
            return Ok(());
        }
        let group = self.shared.ready(group).await?;
        let turn = self.shared.turn.lock().await;
        self.commit_in(turn, &group, durability).await
    }

    /// Commits the group that `decide` returns, if any, and tells whether there was one. No other group is taken in
    /// between: what `decide` reads stays as it is until the group is in, and contains every group that was taken in
    /// before. Returns when the group is as durable as the options say.
    ///
    /// All other commits wait while `decide` runs, and before that until all groups before are acknowledged. So
    /// these calls do not share the flushes of the log with each other, as commits do. A commit
    /// or an ingest within `decide` would wait forever. A batch of [`Engine::ingest`] that is being written comes first.
    ///
    /// # Errors
    /// Those of `decide`, and nothing was taken in; errors as of [`Engine::commit`].
    ///
    /// # Cancel safety
    /// As [`Engine::commit`].
    pub async fn commit_if<E: From<Error>>(
        &self,
        decide: impl AsyncFnOnce() -> std::result::Result<Option<Group>, E>,
    ) -> std::result::Result<bool, E> {
        let _alone = self.shared.ingesting.lock().await;
        let turn = self.shared.turn.lock().await;
        self.shared.all_visible().await?;
        let Some(group) = decide().await? else { return Ok(false) };
        if !group.is_empty() {
            let group = self.shared.ready(&group).await?;
            self.commit_in(turn, &group, self.shared.log.durability).await?;
        }
        Ok(true)
    }

    /// Takes a checked group in, whose turn it is.
    async fn commit_in(
        &self,
        turn: MutexGuard<'_, ()>,
        group: &Group,
        durability: Durability,
    ) -> Result<()> {
        let shared = &self.shared;
        let entries = group.entries();
        shared.check_log(&entries)?;
        if group.has_long_twice() {
            return Err(Error::LongValueUsed);
        }
        let mut waiting_since = None;
        shared.is_space_refused.store(false, Ordering::Relaxed);
        let seq = loop {
            let freed = shared.room.notified();
            shared.check_running()?;
            {
                let mut state = shared.state_shortly();
                let unknown = group.uses.iter().find(|(space, _)| !state.will_have(*space));
                if let Some((space, _)) = unknown {
                    return Err(Error::NoSpace { space: *space });
                }
                let most = shared.queues_bytes_max(&state);
                let has_memory =
                    state.pending_bytes() < most && !state.is_full(most / PARTITION_SHARE);
                let has_space = shared.has_space(&state, group.added_bytes);
                let has_room = has_memory && shared.log.has_room(entries.len());
                // Where sweeps are stuck, nothing makes room either.
                let is_stuck = shared.is_stuck.load(Ordering::Relaxed);
                let is_refused = shared.is_space_refused.load(Ordering::Relaxed);
                if (!has_space && (is_refused || shared.is_full(&state))) || (!has_room && is_stuck)
                {
                    state.was_full = true;
                    return Err(Error::full(&*shared.data));
                }
                if !has_space {
                    shared.want_space(group.added_bytes);
                }
                if has_room && has_space {
                    *shared.last_commit.lock() = now();
                    // Another group may have been given one of them meanwhile.
                    if !group.long.iter().all(|value| value.is_new(&shared.extents)) {
                        return Err(Error::LongValueUsed);
                    }
                    let long = group.long.iter().flat_map(|value| value.give());
                    state.arriving.extend(long.map(|extent| (extent.first(), extent)));
                    let seq = shared.append(&mut state, &entries);
                    shared.cache.shrink(shared.cache_bytes_max(&state));
                    drop(state);
                    if shared.log.to_leave().is_some() {
                        shared.sweep_wake.notify_one();
                    }
                    break seq;
                }
            }
            if waiting_since.is_none() {
                shared.counts.waits.add(1);
                waiting_since = Some(now());
            }
            shared.log.want(entries.len());
            shared.sweep_wake.notify_one();
            freed.await;
        };
        drop(turn);
        if let Some(since) = waiting_since {
            shared.say_waited(now().since(since));
        }
        shared.counts.modifications.add(group.len() as u64);
        shared.acknowledged(seq, durability).await
    }

    /// Takes one modification in, as a group of its own; errors as of [`Engine::commit`].
    pub async fn modify(&self, space: SpaceId, modification: Modification<'_>) -> Result<()> {
        let mut group = Group::new();
        group.modify(space, modification);
        self.commit(&group).await
    }

    /// A writer for a long value, which goes to the device in parts; [`Group::put_long`] puts the value under a key.
    #[must_use]
    pub fn value_writer(&self) -> ValueWriter {
        ValueWriter::new(Arc::clone(&self.shared))
    }

    /// The value under a key, to be read in parts: as it is now, whatever is committed before it is read. Errors as of
    /// [`Engine::get`].
    pub async fn value_reader(&self, space: SpaceId, key: &[u8]) -> Result<Option<ValueReader>> {
        self.shared.value_reader(space, key).await
    }

    /// A long value of a view, whose blocks hold the `reference`. Errors as of [`Engine::get`].
    pub async fn long_value(&self, values: &LongValues, reference: &[u8]) -> Result<ValueReader> {
        ValueReader::of(Arc::clone(&self.shared), values, reference).await
    }

    /// The value under a key, with all that was modified; from memory alone where that says all.
    ///
    /// # Errors
    /// [`Error::NoSpace`]; [`Error::Damaged`] and [`Error::Device`] for what has to be read.
    pub async fn get(&self, space: SpaceId, key: &[u8]) -> Result<Option<Vec<u8>>> {
        self.shared.get(space, key).await
    }

    /// The values under several keys, in the order of `keys` and all of one moment. Blocks are read at the same time,
    /// up to 32 of them, and a block once for all of its keys. Errors as of [`Engine::get`].
    pub async fn get_many(&self, space: SpaceId, keys: &[&[u8]]) -> Result<Vec<Option<Vec<u8>>>> {
        self.shared.get_many(space, keys).await
    }

    /// Picks up to `most` blocks, two at least, of those that hold the keys from `from` to `to`, which is at or after
    /// `from`, or to the last. Reads no block, but may read where they lie. Errors as of [`Engine::get`].
    pub async fn sample(
        &self,
        space: SpaceId,
        from: &[u8],
        to: Option<&[u8]>,
        most: usize,
    ) -> Result<Sample> {
        self.shared.sample(space, from, to, most).await
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

    /// The block at `at` with all that is pending for it, and some that follow it and are read with the same request, up to
    /// `blocks_max` together; with [`At::Before`] and [`At::Last`], some that come before it. `None` when nothing lies there.
    /// Errors as of [`Engine::get`].
    pub async fn view(
        &self,
        space: SpaceId,
        at: At<'_>,
        blocks_max: usize,
    ) -> Result<Option<View>> {
        self.shared.view(space, at, blocks_max).await
    }

    /// As [`Engine::view`], view after view from `at` on, while `goes_on` says so of the key at which the next one begins; with
    /// [`At::Before`] and [`At::Last`] downwards, and of the key before which it ends. They are read ahead, several at a time
    /// on several disks.
    pub fn views(
        &self,
        space: SpaceId,
        at: At<'_>,
        blocks_max: usize,
        goes_on: impl Fn(&[u8]) -> bool + Send + 'static,
    ) -> Views {
        self.shared.views(space, at, blocks_max, goes_on)
    }

    /// Removes all that lies in the partitions of `space` which are wholly between `from` and `to`, without reading it, and
    /// tells which keys these are: from one on, and before another or to the last. `None` when there are none. Durable when
    /// it returns; what is committed meanwhile between these keys may be removed, too. A crash before may leave some removed.
    ///
    /// # Errors
    /// [`Error::NoSpace`], [`Error::ReadOnly`], [`Error::Stopped`].
    pub async fn clear(
        &self,
        space: SpaceId,
        from: &[u8],
        to: Option<&[u8]>,
    ) -> Result<Option<Cleared>> {
        self.shared.clear(space, from, to).await
    }

    /// Puts sorted records into the blocks of a space, past the log and the queues: see [`Ingest`].
    ///
    /// # Errors
    /// [`Error::NoSpace`], [`Error::ReadOnly`], [`Error::Stopped`].
    pub fn ingest(&self, space: SpaceId) -> Result<Ingest<'_>> {
        Ingest::new(self, space)
    }

    /// Returns when all that was taken in is durable; [`Error::Stopped`] when it cannot be.
    pub async fn barrier(&self) -> Result<()> {
        self.shared.flushed_before(self.shared.log.appended()).await
    }

    /// Reads everything that the engine has on the data device, and tells what is damaged. What comes meanwhile may be left
    /// out.
    pub async fn check(&self) -> Vec<Damage> {
        self.shared.check_all().await.0
    }

    /// Checks, and drops what is damaged for ever: blocks, and modifications that are staged. What can be read of the same
    /// partitions is written anew. What was taken in for values of dropped blocks, and does not replace them, goes with
    /// them; what is taken in meanwhile may be applied as where there are no values. Returns what was dropped. Errors as of [`Engine::checkpoint`].
    pub async fn drop_damaged(&self) -> Result<Vec<Damage>> {
        if self.shared.is_read_only {
            return Err(Error::ReadOnly { device: self.shared.data.inquiry().name.clone() });
        }
        let dropped = self.shared.drop_damaged().await?;
        // It writes superblocks and checkpoint anew.
        self.checkpoint().await?;
        Ok(dropped)
    }

    /// Brings all that was taken in to the data device, and returns when the log is needed for none of it;
    /// [`Error::ReadOnly`]; [`Error::Stopped`] when it cannot be, and [`Error::Full`] where there is no space for it: it
    /// stays in the log.
    pub async fn checkpoint(&self) -> Result<()> {
        let shared = &self.shared;
        let older = shared.log.appended();
        // Sweeps take what is in the state.
        shared.visible_before(older).await?;
        let wanted = shared.requests.want(older);
        loop {
            let swept = shared.room.notified();
            if shared.requests.is_done(wanted) {
                return Ok(());
            }
            shared.check_running()?;
            if shared.is_stuck.load(Ordering::Relaxed) {
                return Err(Error::full(&*shared.data));
            }
            shared.sweep_wake.notify_one();
            swept.await;
        }
    }

    /// Takes a checkpoint, and ends the engine: nothing is under way on the devices then, but for reads of [`Views`] that are not
    /// dropped yet, and they can be opened again. After an
    /// error it has ended as in a crash.
    pub async fn close(mut self) -> Result<()> {
        if self.tasks.is_none() {
            return Ok(());
        }
        match self.checkpoint().await {
            // What finds no space on the data device is safe in the log.
            Ok(()) | Err(Error::Full { .. }) => {}
            Err(error) => return Err(error),
        }
        self.shared.closing.store(true, Ordering::Release);
        self.shared.sweep_wake.notify_one();
        if let Some(Tasks { writer, sweeper }) = &mut self.tasks {
            sweeper.await;
            // It holds the devices.
            writer.stop().await;
        }
        self.shared.check_running()
    }

    /// What it did.
    #[must_use]
    pub fn figures(&self) -> Figures {
        let Shared { counts, cache, tables, log, extents, .. } = &*self.shared;
        self.shared.note_directory();
        let state = self.shared.state();
        Figures {
            modifications: counts.modifications.get(),
            queued: state.queued as u64,
            queued_bytes: state.pending_bytes() as u64,
            log_bytes: log.bytes_written(),
            log_passed_bytes: log.bytes_passed(),
            staged_bytes: counts.staged_bytes.get(),
            placed_bytes: counts.placed_bytes.get(),
            swept_bytes: counts.swept_bytes.get(),
            checkpoint_bytes: counts.checkpoint_bytes.get(),
            placed: counts.placed.get(),
            long_bytes: state.long.blocks().bytes().0,
            long_written_bytes: counts.long_written_bytes.get(),
            long_reads: counts.long_reads.get(),
            reads: counts.reads.get(),
            staged_reads: counts.staged_reads.get(),
            table_reads: counts.table_reads.get(),
            cached_reads: counts.cached_reads.get(),
            cached_bytes: cache.bytes() as u64,
            waits: counts.waits.get(),
            lock_held_max_ns: counts.lock_held_max_ns(),
            lock_held_long: counts.lock_held_long(),
            partitions: state.partitions.len() as u64,
            blocks: state.blocks,
            directory_bytes: (state.directory_bytes + tables.bytes()) as u64,
            other_bytes: (self.shared.other_bytes(&state) + self.shared.working.bytes()) as u64,
            data_bytes: extents.capacity().bytes().0,
            data_free_bytes: extents.free().bytes().0,
            log_capacity_bytes: log.capacity_bytes(),
            log_segments: log.segments() as u64,
            log_segments_used: log.segments_used() as u64,
            replayed_bytes: self.shared.replayed_bytes,
            refused: state.refused,
            set_aside: state.set_aside as u64,
        }
    }
}

impl Drop for Engine {
    fn drop(&mut self) {
        self.shared.closing.store(true, Ordering::Release);
        if let Some(Tasks { writer, sweeper }) = &self.tasks {
            writer.abort();
            sweeper.abort();
        }
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
    let Superblock { id, layout, rings, .. } = superblock;
    if rings.len() != logs.len() {
        let problem = format!(
            "{}: the log has {} devices, but {} are named: name all log devices, in the order of creation",
            data.inquiry().name,
            rings.len(),
            logs.len()
        );
        return Err(Error::Options { problem });
    }
    let is_there = layout.data.end().0 <= data.inquiry().capacity.0;
    let disk = |((disk, log), ring): ((u64, &Arc<dyn Device>), &Ring)| {
        let segments = Segments::of(&**log, *ring)?.filter(|_| is_there);
        let segments = segments.ok_or_else(|| Error::other_log(data, &**log))?;
        let id = disk_id(*id, disk);
        Ok(LogDisk { device: Arc::clone(log), segments: Arc::new(segments), id })
    };
    (0..).zip(logs).zip(rings).map(disk).collect()
}

/// Has nobody wait for a task that ended, as when a kind of a program panics, or when the runtime ends.
struct SayEnded(Arc<Shared>, &'static str);

impl Drop for SayEnded {
    fn drop(&mut self) {
        if !self.0.is_closing() {
            self.0.stop(self.1);
        }
    }
}
