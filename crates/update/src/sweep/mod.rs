//! Sweeps: what is pending leaves memory, partition after partition in the order of their keys.
//!
//! A partition's pending modifications are sealed, and go to the staging area of its extent as long as there is
//! room, or almost. Else its blocks are read, everything staged and pending is applied, and they are written to another
//! extent. Both count once the log says so, after a flush of the data.

use std::cmp::Reverse;
use std::collections::VecDeque;
use std::sync::Arc;

use futures::{StreamExt, TryStreamExt};
use moirai_storage::IoBuf;
use moirai_units::BlockCount;

use crate::block_format::Pieces;
use crate::data::extents::Extent;
use crate::data::layout::Division;
use crate::error::{Error, Result};
use crate::ids::{PartitionId, Seq, SpaceId};
use crate::kind::Modification;
use crate::shared::Shared;
use crate::state::State;
use crate::state::block_table::BlockTable;
use crate::state::chunk::{Chunk, staged_blocks};
use crate::state::entry::{Entry, Placed};
use crate::state::partition::Sealed;
use crate::state::queue::{decode, sorted};

/// Partitions of a batch, after which the data device is flushed.
const BATCH_PARTITIONS: usize = 64;
/// Partitions of a batch that are swept because reading them is costly.
const COSTLY_PARTITIONS: usize = 16;
/// Partitions in the pipeline: one is read, one is applied, one is written.
const PIPELINE: usize = 3;
/// Why a sweep goes on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Need {
    /// Memory is short: sweep the partitions with the longest queues.
    Memory { bytes_min: usize },
    /// Sweep every partition with a modification of a group before this one.
    Older(Seq),
}

/// A sealed partition that is being swept.
struct Job {
    id: PartitionId,
    low: Box<[u8]>,
    sealed: Sealed,
    blocks: Arc<BlockTable>,
    /// The extent of its blocks, held until the one that replaces it is durable.
    extent: Option<Arc<Extent>>,
    staged: Vec<Arc<Chunk>>,
    /// Whether to rewrite its blocks although the staging area has room: reading it is costly, memory is short, or
    /// [`level`] chose it.
    is_to_place: bool,
    /// Whether costly reading is the only reason to sweep it.
    is_optional: bool,
    /// Whether the log holds the seal.
    is_logged: bool,
}

/// The outcome of a job.
enum Done {
    Staged(Chunk),
    Placed(Rewritten),
}

/// The new blocks of a partition.
struct Rewritten {
    pieces: Vec<Piece>,
    /// Modifications that did not fit their values.
    refused: u64,
}

/// A block of a partition, if it has any, and the modifications that go into it.
struct Part<'a> {
    index: usize,
    low: &'a [u8],
    block: Option<&'a [u8]>,
    now: &'a [Modification<'a>],
}

/// Blocks that a sweep wrote to a new extent.
struct Piece {
    low: Box<[u8]>,
    /// `None` when there are none.
    extent: Option<Extent>,
    blocks: Arc<BlockTable>,
}

impl Shared {
    /// Sweeps until the engine is closed, or something fails.
    pub(crate) async fn sweep_forever(&self) {
        let (mut waiting, mut due) = (VecDeque::new(), 0.0);
        loop {
            let woken = self.sweep_wake.notified();
            match self.sweep_some(&mut waiting, &mut due).await {
                Ok(true) => self.room.notify_waiters(),
                Ok(false) if self.is_closing() => return,
                Ok(false) => woken.await,
                Err(error) => {
                    self.stop(&format!("a sweep failed: {error}"));
                    return;
                }
            }
        }
    }

    /// What is to be done now; `None` when nothing is.
    fn need(&self, state: &State) -> Option<Need> {
        let older = self.requests.older();
        if state.oldest_is_before(older) {
            return Some(Need::Older(older));
        }
        if let Some(older) = self.log.to_leave()
            && state.oldest_is_before(older)
        {
            return Some(Need::Older(older));
        }
        if state.queued_bytes > self.queues_bytes_max(state) / 2 {
            let all: usize = state.partitions.iter().map(|one| one.active.bytes()).sum();
            let average = all / state.partitions.len().max(1);
            return Some(Need::Memory { bytes_min: average / 2 });
        }
        None
    }

    /// Sweeps some partitions, those that are `waiting` first; tells whether there was something to do. For `due` see
    /// [`level`].
    async fn sweep_some(&self, waiting: &mut VecDeque<Job>, due: &mut f64) -> Result<bool> {
        if waiting.is_empty() {
            match self.seal_some() {
                Some(mut jobs) => {
                    if self.extents.free() > self.reserve() + jobs.len() {
                        level(&mut jobs, &self.division, due);
                        self.forget_staged(&mut jobs);
                    }
                    waiting.extend(jobs);
                }
                None => return self.free_log().await,
            }
        }
        // As many as there is room for; the others wait until these have left theirs.
        let mut room = self.extents.free().saturating_sub(self.reserve());
        let mut jobs = Vec::new();
        while let Some(job) = waiting.pop_front() {
            let extents = 2 + 2 * job.sealed.queue.bytes() / self.division.extent_bytes().max(1);
            if !jobs.is_empty() && extents > room {
                waiting.push_front(job);
                break;
            }
            room = room.saturating_sub(extents);
            jobs.push(job);
        }
        let is_logged = jobs.iter().all(|job| job.is_logged);
        // What nobody waits for leaves the device to those who read.
        let pipeline = match jobs.iter().all(|job| job.is_optional) {
            true => 1,
            // Each of the disks below has one, at least.
            false => PIPELINE.max(self.data.inquiry().parallelism as usize),
        };
        let done: Vec<(Job, Done)> = futures::stream::iter(jobs)
            .map(|job| async { self.carry_out(&job).await.map(|done| (job, done)) })
            .buffered(pipeline)
            .try_collect()
            .await?;
        self.data.flush().await?;
        // Extents that were left are free once this is durable.
        let mut left = Vec::new();
        let seq = {
            let mut state = self.state.lock();
            let mut group = Vec::new();
            let mut next = state.partitions.len() as u32;
            for (job, done) in done {
                left.extend(job.extent);
                match done {
                    Done::Staged(chunk) => {
                        // Of one that could not be placed: readers pay once more before it is tried again.
                        if state.costly.contains(&job.id) {
                            state.pay_again(job.id);
                        }
                        Entry::Staged { partition: job.id, chunk }.encode(&mut group);
                    }
                    Done::Placed(Rewritten { pieces, refused }) => {
                        if refused > 0 {
                            let partition = job.id;
                            Entry::Refused { partition, count: refused }.encode(&mut group);
                        }
                        let mut into = Vec::with_capacity(pieces.len());
                        for (index, Piece { low, extent, blocks }) in pieces.into_iter().enumerate()
                        {
                            let partition = if index == 0 { job.id } else { PartitionId(next) };
                            next += u32::from(index > 0);
                            let number = extent.as_ref().map(|extent| extent.index);
                            into.push(Placed { partition, low, extent: number, blocks });
                            state.arriving.extend(extent.map(|extent| (extent.index, extent)));
                        }
                        Entry::Placed { partition: job.id, into }.encode(&mut group);
                    }
                }
            }
            match is_logged && self.log.has_room_for_own(group.len()) {
                true => Some(self.append(&mut state, &group)?),
                false => {
                    self.apply_unlogged(&mut state, &group)?;
                    None
                }
            }
        };
        match seq {
            Some(seq) => {
                self.log.flush_before(Seq(seq.0 + 1)).await.map_err(|why| self.stopped_by(&why))?;
            }
            // The checkpoint says where all is, and frees the log.
            None => self.take_checkpoint().await?,
        }
        drop(left);
        self.free_log().await?;
        Ok(true)
    }

    /// Marks the partitions of a batch that have staged chunks for rewriting, once the directory of those chunks takes
    /// half of the memory.
    fn forget_staged(&self, jobs: &mut [Job]) {
        if self.state.lock().directory_bytes > self.memory_bytes / 2 {
            let staged = jobs.iter_mut().filter(|job| !job.staged.is_empty());
            staged.for_each(|job| job.is_to_place = true);
        }
    }

    /// Takes a checkpoint when somebody wants one and all that was to be in it is swept, or when that frees
    /// segments of a log that is half full.
    async fn free_log(&self) -> Result<bool> {
        let (wanted, frees) = {
            let state = self.state.lock();
            let wanted = self.requests.wanted(|older| !state.oldest_is_before(older));
            (wanted, self.log.to_leave().is_some() && self.log.would_free(state.oldest()))
        };
        if wanted.is_none() && !frees {
            return Ok(false);
        }
        self.take_checkpoint().await?;
        if let Some(wanted) = wanted {
            self.requests.done(wanted);
        }
        Ok(true)
    }

    /// Seals the next partitions that are to be swept; `None` when there are none.
    fn seal_some(&self) -> Option<Vec<Job>> {
        let mut state = self.state.lock();
        let state = &mut *state;
        let is_free = |id: &PartitionId| {
            let partition = state.partition(*id);
            partition.is_some_and(|one| one.sealed.is_none() && !one.active.is_empty())
        };
        let need = self.need(state);
        // What the log, or who waits for a checkpoint, needs comes before those with so much that reading takes long.
        let mut ids: Vec<PartitionId> = match need {
            Some(Need::Older(_)) => Vec::new(),
            _ => state.hot.iter().copied().filter(is_free).take(BATCH_PARTITIONS).collect(),
        };
        let is_optional = ids.is_empty() && need.is_none();
        if is_optional {
            ids = self.costly(state);
        }
        if ids.is_empty() {
            let mut cursor = self.cursor.lock();
            let most = (self.queues_bytes_max(state) / 8, self.log.own_bytes_max());
            ids = choose(state, need?, &cursor, most);
            if let Some(last) = ids.last().and_then(|id| state.partition(*id)) {
                *cursor = (last.space, last.low.clone());
            }
        }
        if ids.is_empty() {
            return None;
        }
        let mut group = Vec::new();
        for id in &ids {
            Entry::Seal { partition: *id }.encode(&mut group);
        }
        // Where the log has no room for what is to come either, none of it is there.
        let is_logged = self.log.has_room_for_own(group.len() + self.log.own_bytes_max());
        match is_logged {
            true => self.append(state, &group).map(drop).ok()?,
            false => self.apply_unlogged(state, &group).ok()?,
        }
        let job = |id: PartitionId| {
            let partition = state.partition(id)?;
            Some(Job {
                id,
                low: partition.low.clone(),
                sealed: partition.sealed.clone()?,
                blocks: Arc::clone(&partition.blocks),
                extent: partition.extent.clone(),
                staged: partition.staged.clone(),
                is_to_place: state.costly.contains(&id),
                is_optional,
                is_logged,
            })
        };
        let jobs = ids.into_iter().filter_map(job).collect();
        // Those who waited for one of these queues alone.
        self.room.notify_waiters();
        Some(jobs)
    }

    /// Some partitions that are costly to read, when nothing else is to be done: as far as there is room.
    fn costly(&self, state: &State) -> Vec<PartitionId> {
        let room = self.extents.free().saturating_sub(self.reserve()) / 4;
        let mut entry_bytes = self.log.own_bytes_max() / 2;
        if self.is_closing() || !self.log.has_room_for_own(2 * self.log.own_bytes_max()) {
            return Vec::new();
        }
        let is_free = |id: &PartitionId| {
            let partition = state.partition(*id).filter(|one| one.sealed.is_none());
            let left = partition.and_then(|one| entry_bytes.checked_sub(2 * one.directory_bytes()));
            entry_bytes = left.unwrap_or(entry_bytes);
            left.is_some()
        };
        state.costly.iter().copied().filter(is_free).take(room.min(COSTLY_PARTITIONS)).collect()
    }

    async fn carry_out(&self, job: &Job) -> Result<Done> {
        if job.is_to_place {
            match self.place(job).await {
                Ok(placed) => return Ok(Done::Placed(placed)),
                // It need not be now.
                Err(error) => {
                    let name = &self.data.inquiry().name;
                    tracing::warn!("{name}: rewriting a partition failed, so it is staged: {error}")
                }
            }
        }
        match self.stage(job).await? {
            Some(chunk) => Ok(Done::Staged(chunk)),
            None => self.place(job).await.map(Done::Placed),
        }
    }

    /// Writes what was sealed to the staging area; `None` when there is no room.
    async fn stage(&self, job: &Job) -> Result<Option<Chunk>> {
        if job.sealed.queue.is_empty() {
            return Ok(Some(Chunk::default()));
        }
        let division = &self.division;
        let Some(extent) = &job.extent else { return Ok(None) };
        let used = staged_blocks(&job.staged);
        // What does not fit as it is may when it is combined; a quarter is worth the try.
        let worth = used.bytes().0 as usize + job.sealed.queue.bytes() / 4;
        if worth > division.staging_bytes() {
            return Ok(None);
        }
        let (chunk, bytes) = Chunk::of(&job.sealed.queue, &job.blocks, &self.kinds);
        let length = chunk.length();
        if used + length > division.staging {
            return Ok(None);
        }
        let place = division.staging_at(extent.index, used, length);
        self.data.write(place.first, IoBuf::holding(&bytes)).await?;
        self.counts.staged_bytes.add(length.bytes().0);
        Ok(Some(chunk))
    }

    /// Applies the staged and sealed modifications of a partition and writes its blocks to new extents: to one where
    /// they fit, to two halves up to twice as many, and else to as many as leave each a quarter free. Keys that are
    /// appended in order fill the extents.
    async fn place(&self, job: &Job) -> Result<Rewritten> {
        let (content, chunks) = match &job.extent {
            Some(extent) => self.read_whole(extent, &job.blocks, &job.staged).await?,
            None => (IoBuf::zeroed(BlockCount::ZERO), Vec::new()),
        };
        let staged = chunks.iter().flat_map(|chunk| decode(chunk));
        let sorted = sorted(staged.chain(job.sealed.queue.iter()));
        let mut pieces = Pieces::new(self.division.block_bytes());
        let mut placed = Vec::new();
        let room = self.division.partition_blocks as usize;
        // What comes in the order of its keys comes behind: partitions may be left full. Others get more.
        let full = match self.is_behind(job, &content, &sorted)? {
            true => room,
            false => (room * 3 / 4).max(1),
        };
        for Part { index, mut low, mut block, mut now } in self.parts(job, &content, &sorted) {
            let damaged = || self.damaged_block(job.extent.as_deref(), index);
            // Many modifications make many blocks: these are written as they come.
            while block.is_some() || !now.is_empty() {
                // All up to the block's last key goes into it; what comes behind makes blocks of its own.
                let of_old = match block {
                    Some(block) => {
                        let last = self.format.last_key(low, block).map_err(|_| damaged())?;
                        now.partition_point(|one| one.key <= last)
                    }
                    None => 0,
                };
                let (some, others) = now.split_at(of_old.max(self.at_once(now)));
                let applied = self.format.apply(low, block.take(), some, &self.kinds, &mut pieces);
                applied.map_err(|_| damaged())?;
                now = others;
                low = now.first().map_or(low, |first| first.key);
                self.place_full(job, full, &mut pieces, &mut placed).await?;
            }
        }
        if pieces.len() > room {
            let first = pieces.take(if full == room { room } else { pieces.len() / 2 });
            self.place_one(job, &first, &mut placed).await?;
        }
        if !pieces.is_empty() || placed.is_empty() {
            self.place_one(job, &pieces, &mut placed).await?;
        }
        self.counts.placed.add(1);
        Ok(Rewritten { pieces: placed, refused: pieces.refused() })
    }

    /// Each block of a partition with what it takes in, and before them what comes before the first.
    fn parts<'a>(
        &self,
        job: &'a Job,
        content: &'a [u8],
        sorted: &'a [Modification<'a>],
    ) -> Vec<Part<'a>> {
        let first = job.blocks.len().min(1);
        let before = match first {
            0 => sorted.len(),
            _ => sorted.partition_point(|one| one.key < job.blocks.low(0)),
        };
        let (now, mut rest) = sorted.split_at(before);
        let low = now.first().filter(|_| first > 0).map_or(&job.low[..], |one| one.key);
        let mut parts = vec![Part { index: 0, low, block: None, now }];
        for (index, block) in content.chunks_exact(self.division.block_bytes()).enumerate() {
            let of_block = match index + 1 < job.blocks.len() {
                true => rest.partition_point(|one| one.key < job.blocks.low(index + 1)),
                false => rest.len(),
            };
            let (now, later) = rest.split_at(of_block);
            rest = later;
            parts.push(Part { index, low: job.blocks.low(index), block: Some(block), now });
        }
        parts
    }

    /// How many of these modifications are applied at once: those of a key together.
    fn at_once(&self, modifications: &[Modification<'_>]) -> usize {
        let block_bytes = self.division.block_bytes();
        let most = self.division.extent_bytes();
        let mut bytes = 0;
        for (index, pair) in modifications.windows(2).enumerate() {
            let [one, next] = pair else { break };
            bytes += self.format.growth_bytes(one, block_bytes);
            if bytes > most && one.key != next.key {
                return index + 1;
            }
        }
        modifications.len()
    }

    /// Whether all modifications are of keys behind those of a partition's blocks.
    fn is_behind(&self, job: &Job, content: &[u8], sorted: &[Modification<'_>]) -> Result<bool> {
        let Some(last) = job.blocks.len().checked_sub(1) else { return Ok(true) };
        let block = content.chunks_exact(self.division.block_bytes()).nth(last);
        let Some((block, first)) = block.zip(sorted.first()) else { return Ok(false) };
        let last_key = self.format.last_key(job.blocks.low(last), block);
        let last_key = last_key.map_err(|_| self.damaged_block(job.extent.as_deref(), last))?;
        Ok(first.key > last_key)
    }

    /// Writes blocks once there are enough for several partitions, `full` to each.
    async fn place_full(
        &self,
        job: &Job,
        full: usize,
        pieces: &mut Pieces,
        placed: &mut Vec<Piece>,
    ) -> Result<()> {
        let room = self.division.partition_blocks as usize;
        while pieces.len() > 2 * room {
            let part = pieces.take(full);
            self.place_one(job, &part, placed).await?;
        }
        Ok(())
    }

    /// Writes blocks to an extent.
    async fn place_one(&self, job: &Job, pieces: &Pieces, placed: &mut Vec<Piece>) -> Result<()> {
        let first = pieces.lows.first().map_or(&job.low, |low| low);
        let low = if placed.is_empty() { job.low.clone() } else { first.clone() };
        let table = pieces.iter().map(|(low, block)| (low, crc32c::crc32c(block)));
        let blocks = Arc::new(BlockTable::new(table));
        if pieces.is_empty() {
            placed.push(Piece { low, extent: None, blocks });
            return Ok(());
        }
        let full = || Error::Full {
            device: self.data.inquiry().name.clone(),
            extents: self.extents.count,
        };
        let extent = self.extents.take(self.reserve()).ok_or_else(full)?;
        self.counts.placed_bytes.add(pieces.bytes.len() as u64);
        self.data
            .write(self.division.first_of(extent.index), IoBuf::holding(&pieces.bytes))
            .await?;
        placed.push(Piece { low, extent: Some(extent), blocks });
        Ok(())
    }
}

/// Marks partitions for rewriting before their staging areas overflow: partitions loaded together fill up together, and
/// rewriting all in one sweep would stall writers.
///
/// An area with room for n chunks needs one rewrite in n + 1 sweeps, so each partition with staged data adds
/// 1 / (n + 1) to `due`, which carries over to the next batch. Partitions that would overflow now are always marked;
/// the fullest make up the rest. On return 0 <= `due` <= BATCH_PARTITIONS: forced rewrites leave no debt.
fn level(jobs: &mut [Job], division: &Division, due: &mut f64) {
    let room = division.staging_bytes();
    let staged = |job: &Job| staged_blocks(&job.staged).bytes().0 as usize;
    // The bytes that one sweep of the partition stages, judged by its chunks so far.
    let chunk = |job: &Job| staged(job).checked_div(job.staged.len()).unwrap_or(0).max(1);
    let mut known: Vec<&mut Job> = jobs
        .iter_mut()
        .filter(|job| !job.staged.is_empty() && !job.sealed.queue.is_empty())
        .collect();
    // The share of sweeps that find no room.
    *due += known.iter().map(|job| 1.0 / (1 + room / chunk(job)) as f64).sum::<f64>();
    let coming = |job: &Job| chunk(job).min(job.sealed.queue.bytes());
    let is_placed = |job: &Job| job.is_to_place || staged(job) + coming(job) > room;
    let placed = known.iter().filter(|job| is_placed(job)).count();
    known.sort_by_key(|job| Reverse((is_placed(job), staged(job))));
    let more = (*due as usize).clamp(placed, known.len());
    known.into_iter().take(more).for_each(|job| job.is_to_place = true);
    // Forced rewrites leave no debt.
    *due = (*due - more as f64).clamp(0.0, BATCH_PARTITIONS as f64);
}

/// The partitions to sweep: in key order from the cursor on, and around to it.
fn choose(
    state: &State,
    need: Need,
    cursor: &(SpaceId, Box<[u8]>),
    (bytes_max, entry_bytes_max): (usize, usize),
) -> Vec<PartitionId> {
    let needs = |id: &PartitionId| {
        let Some(partition) = state.partition(*id) else { return false };
        match need {
            _ if partition.sealed.is_some() || partition.active.is_empty() => false,
            Need::Memory { bytes_min } => partition.active.bytes() >= bytes_min,
            Need::Older(seq) => partition.since < seq,
        }
    };
    let is_behind = |id: &PartitionId| {
        let partition = state.partition(*id);
        partition.is_some_and(|one| (one.space, &one.low) > (cursor.0, &cursor.1))
    };
    let all = || state.spaces.values().flat_map(|directory| directory.iter());
    let around = all().filter(is_behind).chain(all().filter(|id| !is_behind(id)));
    let mut chosen = Vec::new();
    // What is pending, and about what the entries take that say where it went.
    let (mut bytes, mut entry_bytes) = (0, 0);
    for id in around.filter(needs) {
        let Some(partition) = state.partition(id) else { continue };
        bytes += partition.active.bytes();
        entry_bytes += 2 * partition.blocks.memory_bytes() + partition.active.bytes() / 4;
        let is_enough =
            chosen.len() >= BATCH_PARTITIONS || bytes > bytes_max || entry_bytes > entry_bytes_max;
        if is_enough && !chosen.is_empty() {
            break;
        }
        chosen.push(id);
    }
    chosen
}
