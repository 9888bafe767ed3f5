//! The engine: taking modifications in, and the tasks that bring them to their places.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use moirai_runtime::{Task, spawn, unique};
use moirai_storage::Device;
use moirai_units::{BLOCK_BYTES, BlockCount, ByteCount, Lbn};
use parking_lot::Mutex;
use tokio::sync::Notify;

use crate::entry::{Entry, put_modification};
use crate::extents::{Division, Extent, Extents};
use crate::figures::{Counts, Figures};
use crate::frame::Frame;
use crate::log::{Log, Opened, Ring, Start};
use crate::partition::{PARTITION_BLOCKS_MAX, PartitionId};
use crate::replay::replay;
use crate::state::State;
use crate::superblock::{
    NAME_BYTES, SUPERBLOCKS, Snapshot, Superblock, encode_state, read_snapshot, write_snapshot,
};
use crate::sweep::EXTENTS_RESERVE;
use crate::{At, BlockFormat, Error, KindNumber, Kinds, Modification, Result, Seq, SpaceId, View};

/// How data and log are divided when they are formatted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Format {
    /// Bytes of a block.
    pub block_bytes: ByteCount,
    /// Blocks of a partition at most: they lie together and are swept together.
    pub partition_blocks: u32,
    /// Room for staging in a partition's extent, in percent of its blocks' bytes. Without, memory alone decides
    /// how much one sweep applies.
    pub staging_percent: u32,
    /// Bytes of a segment of the log; when not given a sixteenth of it, 4 MiB at most.
    pub segment_bytes: Option<ByteCount>,
}

impl Default for Format {
    /// The paper's blocks (6.1), and as much again for staging.
    fn default() -> Format {
        Format {
            block_bytes: ByteCount(64 << 10),
            partition_blocks: 32,
            staging_percent: 100,
            segment_bytes: None,
        }
    }
}

/// The least memory for pending modifications.
const MEMORY_MIN: ByteCount = ByteCount(4 << 10);
/// A partition with so many bytes pending, or a sixteenth of the memory, is swept early: who reads goes through
/// all of them.
const HOT_BYTES_MAX: usize = 1 << 20;

/// When a group is acknowledged.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Durability {
    /// When it is durable.
    #[default]
    Flushed,
    /// When it is written: a power cut may lose it, with all that came after; the end of the process does not.
    Written,
}

/// How an engine is opened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Options {
    /// Memory for pending modifications. Sweeps begin at half of it, and who modifies waits when it is full.
    pub memory: ByteCount,
    /// When groups are acknowledged.
    pub durability: Durability,
}

impl Default for Options {
    fn default() -> Options {
        Options { memory: ByteCount::mib(64), durability: Durability::default() }
    }
}

/// Modifications that are durable together or not at all.
#[derive(Clone, Debug, Default)]
pub struct Group {
    bytes: Vec<u8>,
    count: usize,
    /// Spaces and kinds in it.
    uses: Vec<(SpaceId, KindNumber)>,
    /// The longest key and modification.
    longest: (usize, usize),
}

impl Group {
    /// None yet.
    #[must_use]
    pub fn new() -> Group {
        Group::default()
    }

    /// Adds a modification; it comes after those before it.
    pub fn modify(&mut self, space: SpaceId, modification: Modification<'_>) {
        put_modification(&mut self.bytes, space, modification);
        self.count += 1;
        let (key, bytes) = self.longest;
        self.longest = (key.max(modification.key.len()), bytes.max(modification.bytes.len()));
        let used = (space, modification.kind);
        if self.uses.last() != Some(&used) && !self.uses.contains(&used) {
            self.uses.push(used);
        }
    }

    /// How many there are.
    #[must_use]
    pub fn len(&self) -> usize {
        self.count
    }

    /// Whether there are none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.count == 0
    }

    /// Takes all out.
    pub fn clear(&mut self) {
        self.bytes.clear();
        self.uses.clear();
        (self.count, self.longest) = (0, (0, 0));
    }
}

/// Snapshots that somebody waits for. The sweeper takes them: what is begun is finished.
#[derive(Debug, Default)]
pub(crate) struct Snapshots(Mutex<SnapshotsWanted>);

#[derive(Debug, Default)]
struct SnapshotsWanted {
    wanted: u64,
    done: u64,
    /// Groups before this one are to be swept, whatever memory there is.
    older: Seq,
}

impl Snapshots {
    fn want(&self, older: Seq) -> u64 {
        let mut all = self.0.lock();
        all.wanted += 1;
        all.older = all.older.max(older);
        all.wanted
    }

    /// The last one wanted, when all is swept for it.
    pub(crate) fn wanted(&self, is_swept: impl FnOnce(Seq) -> bool) -> Option<u64> {
        let all = self.0.lock();
        (all.wanted > all.done && is_swept(all.older)).then_some(all.wanted)
    }

    pub(crate) fn done(&self, wanted: u64) {
        let mut all = self.0.lock();
        all.done = all.done.max(wanted);
    }

    fn is_done(&self, wanted: u64) -> bool {
        self.0.lock().done >= wanted
    }

    pub(crate) fn older(&self) -> Seq {
        self.0.lock().older
    }
}

/// What the engine's tasks share.
pub(crate) struct Shared {
    pub(crate) data: Arc<dyn Device>,
    pub(crate) log: Log,
    pub(crate) division: Division,
    pub(crate) extents: Arc<Extents>,
    pub(crate) kinds: Kinds,
    pub(crate) format: Arc<dyn BlockFormat>,
    pub(crate) memory_bytes: usize,
    pub(crate) state: Mutex<State>,
    /// The last partition that was swept.
    pub(crate) cursor: Mutex<(SpaceId, Box<[u8]>)>,
    pub(crate) snapshots: Snapshots,
    closing: AtomicBool,
    /// Extents that the last snapshot took.
    snapshot_extents: AtomicUsize,
    pub(crate) sweep_wake: Notify,
    pub(crate) room: Arc<Notify>,
    /// Held by the group that is taken in next: they come in the order in which they asked.
    turn: tokio::sync::Mutex<()>,
    pub(crate) counts: Counts,
    /// The superblock, and the extents of its snapshot.
    superblock: tokio::sync::Mutex<(Superblock, Vec<Extent>)>,
    stopped: Mutex<Option<Arc<str>>>,
    longest: (usize, usize),
    replayed_bytes: u64,
}

/// The update engine over a data device and a log device.
///
/// Dropped, it ends at once, as in a crash: what was acknowledged is there when it is opened again. Open the
/// devices anew then, too: writes to these may still be under way, as they are not after [`Engine::close`].
pub struct Engine {
    shared: Arc<Shared>,
    writer: Task<()>,
    sweeper: Option<Task<()>>,
}

impl Engine {
    /// Makes `data` and `log` those of a new engine; they lose what they hold.
    pub async fn format(
        data: &dyn Device,
        log: &dyn Device,
        blocks: &dyn BlockFormat,
        format: Format,
    ) -> Result<()> {
        let division = divide(data, &format)?;
        let bytes = log.inquiry().capacity.bytes().0;
        let segment = format.segment_bytes.map_or(bytes / 16, |bytes| bytes.0).min(4 << 20);
        let segment = BlockCount(segment / BLOCK_BYTES);
        let segments = bytes.checked_div(segment.bytes().0).unwrap_or(0).min(1 << 20) as u32;
        if segment < BlockCount(8) || segments < 4 {
            return Err(Error::Options {
                problem: format!(
                    "{}: a log has four segments of 4 KiB at least; give it 64 KiB or more",
                    log.inquiry().name
                ),
            });
        }
        let start = Start { segment: 0, number: 1, previous: 0, first: Seq(1) };
        let snapshot =
            Snapshot { next: Seq(1), frame: 1, start, bytes: 0, checksum: 0, extents: Vec::new() };
        let mut superblock = Superblock {
            generation: 0,
            id: unique(),
            format: name_of(blocks),
            division,
            ring: Ring { segment, segments },
            snapshot,
        };
        // The log says whose it is before anything else.
        let first = Frame {
            log: superblock.id,
            number: 1,
            first: Seq(1),
            durable: 0,
            previous: 0,
            bytes: 0,
            continued: 0,
            opening: 0,
        };
        log.write(Lbn(0), first.encode(&[]).0).await?;
        log.flush().await?;
        superblock.write(data).await?;
        superblock.generation = 1;
        superblock.write(data).await
    }

    /// How long the log of the engine on `data` is.
    pub async fn log_blocks(data: &dyn Device) -> Result<BlockCount> {
        let Ring { segment, segments } = Superblock::read(data).await?.ring;
        Ok(BlockCount(segment.0 * u64::from(segments)))
    }

    /// Opens the engine that was formatted on `data` and `log`, and takes up what a crash left pending. The
    /// `kinds` must have all that the log holds; `blocks` is what it was formatted with.
    pub async fn open(
        data: Arc<dyn Device>,
        log: Arc<dyn Device>,
        kinds: Kinds,
        blocks: Arc<dyn BlockFormat>,
        options: Options,
    ) -> Result<Engine> {
        if options.memory < MEMORY_MIN {
            let problem = format!("memory of {}: {MEMORY_MIN} are the least", options.memory);
            return Err(Error::Options { problem });
        }
        let superblock = Superblock::read(&*data).await?;
        let Superblock { division, ring, id, .. } = superblock;
        if superblock.format != name_of(&*blocks) {
            let name = |name: [u8; NAME_BYTES]| {
                String::from_utf8_lossy(&name).trim_end_matches('\0').to_owned()
            };
            return Err(Error::Options {
                problem: format!(
                    "{}: its blocks are `{}`, not `{}`: open it with what made it",
                    data.inquiry().name,
                    name(superblock.format),
                    blocks.name()
                ),
            });
        }
        let ends = division.first_of(division.extents).0 <= data.inquiry().capacity.0
            && ring.segment.0 * u64::from(ring.segments) <= log.inquiry().capacity.0;
        let other_log = || Error::OtherLog {
            log: log.inquiry().name.clone(),
            data: data.inquiry().name.clone(),
        };
        if !ends {
            return Err(other_log());
        }
        // What the last run left in caches must not be taken for durable.
        data.flush().await?;
        log.flush().await?;
        let extents = Extents::new(division.extents);
        let (mut state, held) = read_snapshot(&*data, &superblock, &extents).await?;
        state.hot_bytes = (options.memory.0 as usize / 16).clamp(4 << 10, HOT_BYTES_MAX);
        let replayed = replay(&*log, &superblock, &mut state, &kinds).await?;
        let replayed = replayed.ok_or_else(other_log)?;
        let next = state.next;
        let room = Arc::new(Notify::new());
        let opened = Opened {
            device: log,
            ring,
            id,
            opening: replayed.opening + 1,
            durability: options.durability,
            used: replayed.used,
            next,
            room: Arc::clone(&room),
        };
        let log = Log::new(opened);
        let mut at = replayed.at;
        log.write_opening(&mut at, next).await?;
        let shared = Arc::new(Shared {
            longest: blocks.longest(division.block_bytes()),
            data,
            log,
            division,
            extents,
            kinds,
            format: blocks,
            memory_bytes: options.memory.0 as usize,
            state: Mutex::new(state),
            cursor: Mutex::new((SpaceId(0), Box::default())),
            snapshots: Snapshots::default(),
            closing: AtomicBool::new(false),
            snapshot_extents: AtomicUsize::new(held.len()),
            sweep_wake: Notify::new(),
            room,
            turn: tokio::sync::Mutex::default(),
            counts: Counts::default(),
            superblock: tokio::sync::Mutex::new((superblock, held)),
            stopped: Mutex::new(None),
            replayed_bytes: replayed.bytes_read,
        });
        let writing = Arc::clone(&shared);
        let writer = spawn(async move {
            let _ended = SayEnded(&writing, "the task that writes the log ended");
            writing.write_log(at).await;
        });
        let sweeping = Arc::clone(&shared);
        let sweeper = spawn(async move {
            let _ended = SayEnded(&sweeping, "the task that sweeps ended");
            sweeping.sweep_forever().await;
        });
        let engine = Engine { shared, writer, sweeper: Some(sweeper) };
        // Openings take room, too: they make some before there is none.
        if !engine.shared.log.has_room(0) {
            engine.checkpoint().await?;
        }
        Ok(engine)
    }

    /// The spaces that there are.
    #[must_use]
    pub fn spaces(&self) -> Vec<SpaceId> {
        self.shared.state.lock().spaces.keys().copied().collect()
    }

    /// Makes a space; does nothing when it is there.
    pub async fn create_space(&self, space: SpaceId) -> Result<()> {
        let seq = {
            let mut state = self.shared.state.lock();
            if state.spaces.contains_key(&space) {
                return Ok(());
            }
            if space.0 == 0 {
                return Err(Error::NoSpace { space });
            }
            if !self.shared.log.has_room(0) {
                let problem = "the log is full: make the space once it was swept".into();
                return Err(Error::Options { problem });
            }
            let partition = PartitionId(state.partitions.len() as u32);
            let mut group = Vec::new();
            Entry::CreateSpace { space, partition }.encode(&mut group);
            self.shared.append(&mut state, &group)?
        };
        self.shared.acknowledged(seq).await
    }

    /// Takes a group in; returns when it is as durable as the options say. Groups come in the order in which
    /// this is first polled, also when they wait for memory or for room in the log.
    pub async fn commit(&self, group: &Group) -> Result<()> {
        let shared = &self.shared;
        if group.is_empty() {
            return Ok(());
        }
        shared.check(group)?;
        let mut has_waited = false;
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
                let has_memory = state.queued_bytes < shared.memory_bytes;
                if has_memory && shared.log.has_room(group.bytes.len()) {
                    let seq = shared.append(&mut state, &group.bytes)?;
                    let is_short =
                        state.queued_bytes > shared.memory_bytes / 2 || !state.hot.is_empty();
                    drop(state);
                    if is_short || shared.log.to_leave().is_some() {
                        shared.sweep_wake.notify_one();
                    }
                    break seq;
                }
            }
            if !has_waited {
                shared.counts.waits.add(1);
                has_waited = true;
            }
            shared.log.want(group.bytes.len());
            shared.sweep_wake.notify_one();
            freed.await;
        };
        drop(turn);
        shared.counts.modifications.add(group.len() as u64);
        shared.acknowledged(seq).await
    }

    /// Takes one modification in, as a group of its own.
    pub async fn modify(&self, space: SpaceId, modification: Modification<'_>) -> Result<()> {
        let mut group = Group::new();
        group.modify(space, modification);
        self.commit(&group).await
    }

    /// The value under a key, with all that was modified; from memory alone where that says all.
    pub async fn get(&self, space: SpaceId, key: &[u8]) -> Result<Option<Vec<u8>>> {
        self.shared.get(space, key).await
    }

    /// A block with all that is pending for it.
    pub async fn view(&self, space: SpaceId, at: At<'_>) -> Result<Option<View>> {
        self.shared.view(space, at).await
    }

    /// Returns when all that was taken in is durable.
    pub async fn barrier(&self) -> Result<()> {
        let next = self.shared.state.lock().next;
        self.shared.flushed_before(next).await
    }

    /// Brings all that was taken in to the data device, and returns when the log is needed for none of it.
    pub async fn checkpoint(&self) -> Result<()> {
        let shared = &self.shared;
        let wanted = shared.snapshots.want(shared.state.lock().next);
        loop {
            let swept = shared.room.notified();
            if shared.snapshots.is_done(wanted) {
                return Ok(());
            }
            shared.check_running()?;
            shared.sweep_wake.notify_one();
            swept.await;
        }
    }

    /// Checkpoints, and ends the engine: nothing is under way on the devices then.
    pub async fn close(mut self) -> Result<()> {
        self.checkpoint().await?;
        self.shared.closing.store(true, Ordering::Release);
        self.shared.sweep_wake.notify_one();
        if let Some(sweeper) = self.sweeper.take() {
            sweeper.await;
        }
        self.shared.check_running()
    }

    /// What it did.
    #[must_use]
    pub fn figures(&self) -> Figures {
        let Shared { counts, state, log, extents, .. } = &*self.shared;
        let state = state.lock();
        let blocks = state.partitions.iter().map(|one| one.blocks.len() as u64).sum();
        let directory_bytes = state.partitions.iter().map(|one| one.blocks.memory_bytes() as u64);
        Figures {
            modifications: counts.modifications.get(),
            queued: state.queued as u64,
            queued_bytes: state.queued_bytes as u64,
            log_bytes: log.bytes_written(),
            staged_bytes: counts.staged_bytes.get(),
            placed_bytes: counts.placed_bytes.get(),
            swept_bytes: counts.swept_bytes.get(),
            snapshot_bytes: counts.snapshot_bytes.get(),
            placed: counts.placed.get(),
            reads: counts.reads.get(),
            staged_reads: counts.staged_reads.get(),
            waits: counts.waits.get(),
            partitions: state.partitions.len() as u64,
            blocks,
            directory_bytes: directory_bytes.sum(),
            extents: u64::from(extents.count),
            extents_free: extents.free() as u64,
            log_segments: log.segments() as u64,
            log_segments_used: log.segments_used() as u64,
            replayed_bytes: self.shared.replayed_bytes,
        }
    }
}

impl Drop for Engine {
    fn drop(&mut self) {
        self.shared.closing.store(true, Ordering::Release);
        self.writer.abort();
        if let Some(sweeper) = &self.sweeper {
            sweeper.abort();
        }
    }
}

impl std::fmt::Debug for Engine {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Engine({})", self.shared.data.inquiry().name)
    }
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

impl Shared {
    pub(crate) fn is_closing(&self) -> bool {
        self.closing.load(Ordering::Acquire)
    }

    /// Extents that partitions leave free, for the next snapshot.
    pub(crate) fn reserve(&self) -> usize {
        EXTENTS_RESERVE.max(self.snapshot_extents.load(Ordering::Relaxed) * 3 / 2 + 1)
    }

    async fn write_log(&self, at: crate::log::Position) {
        self.log.write_all(at).await;
        if let Some(why) = self.log.failed() {
            self.stop(&why);
        }
    }

    /// Numbers a group, does what it says and gives it to the log.
    pub(crate) fn append(&self, state: &mut State, group: &[u8]) -> Result<Seq> {
        let seq = state.next;
        // What does not fit must not be in the log.
        self.apply(state, seq, group)?;
        self.log.append(seq, group);
        Ok(seq)
    }

    /// Does what entries of the engine's own say, for which the log has no room. They count with the next
    /// snapshot, which is taken at once.
    pub(crate) fn apply_unlogged(&self, state: &mut State, group: &[u8]) -> Result<()> {
        let next = state.next;
        self.apply(state, next, group)?;
        // A number is that of a group in the log.
        state.next = next;
        Ok(())
    }

    fn apply(&self, state: &mut State, seq: Seq, group: &[u8]) -> Result<()> {
        state.apply(seq, group, &self.kinds, Seq(0)).map_err(|misfit| {
            let why = format!("an entry of its own does not fit: {misfit:?}");
            self.stop(&why);
            self.stopped_by(&why)
        })
    }

    fn check(&self, group: &Group) -> Result<()> {
        if let Some((_, number)) = group.uses.iter().find(|(_, kind)| !self.kinds.knows(*kind)) {
            return Err(Error::UnknownKind { number: *number });
        }
        let pairs = [
            ("key", group.longest.0, self.longest.0),
            ("modification", group.longest.1, self.longest.1),
        ];
        for (what, have, most) in pairs {
            if have > most {
                return Err(Error::TooLong { what, have, most });
            }
        }
        let most = self.log.group_bytes_max();
        if group.bytes.len() > most {
            let (have, most) = (ByteCount(group.bytes.len() as u64), ByteCount(most as u64));
            return Err(Error::GroupTooLong { have, most });
        }
        Ok(())
    }

    async fn acknowledged(&self, seq: Seq) -> Result<()> {
        self.log.acknowledged(seq).await.map_err(|why| self.stopped_by(&why))
    }

    async fn flushed_before(&self, seq: Seq) -> Result<()> {
        self.log.flush_before(seq).await.map_err(|why| self.stopped_by(&why))
    }

    /// Takes no more modifications from now on.
    pub(crate) fn stop(&self, why: &str) {
        let why: Arc<str> = why.into();
        self.stopped.lock().get_or_insert_with(|| {
            tracing::warn!("{}: {why}", self.data.inquiry().name);
            Arc::clone(&why)
        });
        self.log.fail(&why);
        self.room.notify_waiters();
    }

    pub(crate) fn stopped_by(&self, why: &str) -> Error {
        Error::Stopped { device: self.data.inquiry().name.clone(), why: why.to_owned() }
    }

    fn check_running(&self) -> Result<()> {
        match &*self.stopped.lock() {
            Some(why) => Err(self.stopped_by(why)),
            None => Ok(()),
        }
    }

    /// Makes the state durable by itself, so that the log before what is pending is free.
    pub(crate) async fn take_snapshot(&self) -> Result<()> {
        let mut held = self.superblock.lock().await;
        // The extents that it tells of are not free before it counts.
        let (bytes, next, start, _told) = {
            let state = self.state.lock();
            let start = self.log.start_of(state.oldest());
            let told: Vec<_> =
                state.partitions.iter().filter_map(|one| one.extent.clone()).collect();
            (encode_state(&state), state.next, start, told)
        };
        let Some(start) = start else { return Ok(()) };
        // No group may be in the snapshot in part, and be lost with the log.
        self.flushed_before(next).await?;
        let extents = write_snapshot(&*self.data, &self.division, &self.extents, &bytes).await?;
        self.data.flush().await?;
        let mut superblock = held.0.clone();
        superblock.generation += 1;
        superblock.snapshot = Snapshot {
            next,
            frame: self.log.durable_frame(),
            start,
            bytes: bytes.len() as u64,
            checksum: crc32c::crc32c(&bytes),
            extents: extents.iter().map(|extent| extent.index).collect(),
        };
        superblock.write(&*self.data).await?;
        self.counts.snapshot_bytes.add(bytes.len() as u64);
        self.snapshot_extents.store(extents.len(), Ordering::Relaxed);
        *held = (superblock, extents);
        self.log.free_before(start);
        self.room.notify_waiters();
        Ok(())
    }
}

fn name_of(blocks: &dyn BlockFormat) -> [u8; NAME_BYTES] {
    let mut name = [0; NAME_BYTES];
    name.iter_mut().zip(blocks.name().bytes()).for_each(|(place, byte)| *place = byte);
    name
}

/// Divides the data device into extents.
fn divide(data: &dyn Device, format: &Format) -> Result<Division> {
    let bad = |problem: String| Err(Error::Options { problem });
    let Format { block_bytes, partition_blocks, staging_percent, .. } = *format;
    let is_whole = block_bytes.0.is_multiple_of(BLOCK_BYTES) && block_bytes.0 > 0;
    if !is_whole || block_bytes.0 > 1 << 20 {
        return bad(format!("blocks of {block_bytes}: take a multiple of 512 bytes, up to 1 MiB"));
    }
    if partition_blocks == 0 || partition_blocks > PARTITION_BLOCKS_MAX {
        return bad(format!(
            "partitions of {partition_blocks} blocks: take 1 to {PARTITION_BLOCKS_MAX}"
        ));
    }
    if staging_percent > 1000 {
        return bad(format!("{staging_percent} percent for staging: take 1000 at most"));
    }
    let block = BlockCount(block_bytes.0 / BLOCK_BYTES);
    let staging = block.0 * u64::from(partition_blocks) * u64::from(staging_percent) / 100;
    let mut division = Division {
        first: Lbn(SUPERBLOCKS.0),
        extents: 0,
        block,
        partition_blocks,
        staging: BlockCount(staging),
    };
    let room = data.inquiry().capacity.0.saturating_sub(SUPERBLOCKS.0);
    let extents = room / division.extent().0;
    division.extents = u32::try_from(extents).unwrap_or(u32::MAX - 1);
    if division.extents < 2 * EXTENTS_RESERVE as u32 + 2 {
        return bad(format!(
            "{}: it has room for {extents} extents of {}, and {} are needed: take a larger one, or \
             smaller partitions",
            data.inquiry().name,
            division.extent().bytes(),
            2 * EXTENTS_RESERVE + 2
        ));
    }
    Ok(division)
}
