//! The state that the log's entries make: spaces, their partitions, and what is pending in memory.
//!
//! It changes by entries alone, in their order, while the engine runs and when a log is read again: both come
//! to the same. While the engine runs, it has a group only once readers may see it (`crate::shared::Shared::state`).

pub(crate) mod block_table;
#[cfg(test)]
mod bounds;
pub(crate) mod chunk;
pub(crate) mod directory;
pub(crate) mod entry;
pub(crate) mod load;
pub(crate) mod partition;
pub(crate) mod partitions;
pub(crate) mod queue;
pub(crate) mod sorted;

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::ops::Bound;
use std::sync::Arc;

use moirai_units::{BlockCount, BlockRange, Lbn};

use crate::codec::{Taker, prefix_of};
use crate::data::extents::{Extent, Extents};
use crate::data::layout::Layout;
use crate::data::place::Place;
use crate::ids::{KindNumber, PartitionId, Seq, SpaceId};
use crate::kind::Kinds;
use crate::long::epoch::Epoch;
use crate::long::runs::Runs;
use crate::state::directory::Directory;
use crate::state::entry::{Entry, Placed};
use crate::state::load::Phase;
use crate::state::partition::{Partition, Sealed, Staged, staged_blocks};
use crate::state::partitions::Partitions;
use crate::state::queue::Queue;

/// Steps of work for a partition that comes into the directory, or leaves it.
const CHANGE_STEPS: u64 = 32;

/// What an entry cannot mean: the log is damaged, or was not made by this program.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Misfit {
    NotOfLog,
    NoSpace(SpaceId),
    UnknownKind(KindNumber),
}

#[derive(Debug)]
pub(crate) struct State {
    pub(crate) spaces: BTreeMap<SpaceId, Directory>,
    pub(crate) partitions: Partitions,
    /// Blocks of all partitions.
    pub(crate) blocks: u64,
    /// Groups before this one are applied.
    pub(crate) applied: Seq,
    /// Bytes of the next group that are applied.
    part_applied: usize,
    /// Work so far: one step is a modification that was put into a queue, about a fifth of a microsecond.
    pub(crate) steps: u64,
    pub(crate) unapplied: Unapplied,
    pub(crate) phase: Phase,
    /// Bytes of memory that queues take, sealed ones included.
    pub(crate) queued_bytes: usize,
    /// Modifications in queues.
    pub(crate) queued: usize,
    /// Bytes of the modifications in queues, and of chunks on the device: space that blocks may need once all of it is
    /// applied.
    pub(crate) unplaced_bytes: u64,
    pub(crate) staged_bytes: u64,
    /// Bytes of records that are being ingested.
    pub(crate) ingested_bytes: usize,
    /// Whether the device has been full.
    pub(crate) was_full: bool,
    /// Bytes of memory that say where blocks and staged modifications lie.
    pub(crate) directory_bytes: usize,
    /// Modifications that did not fit the value that they were applied to, since the engine was formatted.
    pub(crate) refused: u64,
    extents: Arc<Extents>,
    layout: Layout,
    /// Whether it has what neither the log nor a checkpoint says yet.
    pub(crate) is_ahead: bool,
    /// Partitions that need the log, by the oldest group that each needs.
    needing: BTreeSet<(Seq, PartitionId)>,
    /// Partitions that have more pending than is good for who reads them.
    pub(crate) hot: BTreeSet<PartitionId>,
    /// From how many bytes on.
    pub(crate) hot_bytes: usize,
    /// Partitions whose reading has cost as much as writing their blocks, with what is staged, would.
    pub(crate) costly: BTreeSet<PartitionId>,
    /// Whether no partition is worth rewriting in idle time, as far as the last look at all of them told.
    pub(crate) is_settled: bool,
    /// Partitions with few blocks, which could be merged with their neighbours.
    pub(crate) small: BTreeSet<PartitionId>,
    /// Partitions that are set aside.
    pub(crate) set_aside: usize,
    /// Partitions of which what can be read is to be written anew, without the rest.
    pub(crate) to_salvage: BTreeSet<PartitionId>,
    /// See `Options::canary`.
    #[cfg(feature = "canary")]
    pub(crate) has_canary: bool,
    /// The blocks of long values.
    pub(crate) long: Runs,
    /// Blocks of long values that entries have freed: in use until the log says so and nobody reads them.
    pub(crate) left: Vec<Extent>,
    /// What readers hold while they may read long values.
    pub(crate) epoch: Arc<Epoch>,
    /// Extents in use of which the next entries tell, by their first blocks.
    pub(crate) arriving: BTreeMap<Lbn, Extent>,
}

/// What is known of groups that are appended to the log, but not yet applied. What is appended next builds on it.
#[derive(Debug, Default)]
pub(crate) struct Unapplied {
    /// Bytes of memory that those of programs take.
    pub(crate) bytes: usize,
    /// Spaces that they make, and the group that makes each.
    pub(crate) spaces: BTreeMap<SpaceId, Seq>,
    /// Groups for which the log had no room; each comes before the logged group with its number.
    pub(crate) unlogged: VecDeque<(Seq, Vec<u8>)>,
}

/// Bytes of memory of a tree of the standard library: its nodes are half full at least.
pub(crate) fn tree_bytes<T>(count: usize) -> usize {
    2 * count * size_of::<T>()
}

impl State {
    pub(crate) fn new(layout: Layout, extents: Arc<Extents>) -> State {
        State {
            spaces: BTreeMap::new(),
            partitions: Partitions::default(),
            blocks: 0,
            applied: Seq(1),
            part_applied: 0,
            steps: 0,
            unapplied: Unapplied::default(),
            phase: Phase::default(),
            queued_bytes: 0,
            queued: 0,
            unplaced_bytes: 0,
            staged_bytes: 0,
            ingested_bytes: 0,
            was_full: false,
            is_settled: false,
            small: BTreeSet::new(),
            set_aside: 0,
            to_salvage: BTreeSet::new(),
            directory_bytes: 0,
            refused: 0,
            extents,
            layout,
            is_ahead: false,
            needing: BTreeSet::new(),
            hot: BTreeSet::new(),
            hot_bytes: usize::MAX,
            costly: BTreeSet::new(),
            #[cfg(feature = "canary")]
            has_canary: false,
            long: Runs::default(),
            left: Vec::new(),
            epoch: Arc::default(),
            arriving: BTreeMap::new(),
        }
    }

    pub(crate) fn partition(&self, id: PartitionId) -> Option<&Partition> {
        self.partitions.get(id)
    }

    fn partition_mut(&mut self, id: PartitionId) -> Option<&mut Partition> {
        self.partitions.get_mut(id)
    }

    /// How many partitions of a space begin at `key` or before it.
    fn rank(&self, directory: &Directory, key: &[u8]) -> usize {
        let prefix = prefix_of(key);
        directory.rank(|(other, partition)| {
            *other < prefix
                || (*other == prefix && self.partition(*partition).is_some_and(|p| *p.low <= *key))
        })
    }

    /// All partitions in the order of their keys, from the one after `low` in `space` on, and around to it.
    pub(crate) fn around(
        &self,
        space: SpaceId,
        low: &[u8],
    ) -> impl Iterator<Item = PartitionId> + '_ {
        let here = self.spaces.get(&space);
        let passed = here.map_or(0, |directory| self.rank(directory, low));
        let later = self.spaces.range((Bound::Excluded(space), Bound::Unbounded));
        let earlier = self.spaces.range(..space);
        let after = here.into_iter().flat_map(move |directory| directory.from(passed));
        let before = here.into_iter().flat_map(move |directory| directory.from(0).take(passed));
        let others = later.chain(earlier).flat_map(|(_, directory)| directory.from(0));
        after.chain(others).chain(before)
    }

    /// The partitions that need groups before `seq`, when there are no more than `most`.
    pub(crate) fn needing(&self, seq: Seq, most: usize) -> Option<Vec<PartitionId>> {
        let all = self.needing.range(..(seq, PartitionId(0))).map(|(_, id)| *id);
        let some: Vec<PartitionId> = all.take(most + 1).collect();
        (some.len() <= most).then_some(some)
    }

    /// The place of the partition that `key` is of among those of its space.
    pub(crate) fn position(&self, space: SpaceId, key: &[u8]) -> Option<usize> {
        let directory = self.spaces.get(&space)?;
        Some(self.rank(directory, key).saturating_sub(1))
    }

    pub(crate) fn partition_of(&self, space: SpaceId, key: &[u8]) -> Option<PartitionId> {
        let directory = self.spaces.get(&space)?;
        directory.at(self.rank(directory, key).saturating_sub(1))
    }

    /// Whether a space is there for groups that are appended from now on.
    pub(crate) fn will_have(&self, space: SpaceId) -> bool {
        self.spaces.contains_key(&space) || self.unapplied.spaces.contains_key(&space)
    }

    /// Bytes of memory for modifications: those in queues, those that are not applied yet, and records on their way.
    pub(crate) fn pending_bytes(&self) -> usize {
        self.queued_bytes + self.unapplied.bytes + self.ingested_bytes
    }

    /// Bytes of memory that queues may take, of so many for all, where others than the directory take `other_bytes`.
    pub(crate) fn queues_bytes_max(&self, memory_bytes: usize, other_bytes: usize) -> usize {
        memory_bytes.saturating_sub(self.directory_bytes + other_bytes).max(memory_bytes / 4)
    }

    /// Bytes of memory of the maps from keys to partitions, of partitions' numbers, and of those that wait for something.
    pub(crate) fn maps_bytes(&self) -> usize {
        let Self { hot, costly, small, to_salvage, needing, arriving, spaces, .. } = self;
        let sets = [hot, costly, small, to_salvage];
        let ids: usize = sets.iter().map(|set| tree_bytes::<PartitionId>(set.len())).sum();
        let directories: usize = spaces.values().map(Directory::memory_bytes).sum();
        ids + tree_bytes::<(Seq, PartitionId)>(needing.len())
            + tree_bytes::<(Lbn, Extent)>(arriving.len())
            + tree_bytes::<(SpaceId, Directory)>(spaces.len())
            + directories
            + self.partitions.spare_bytes()
    }

    /// Adds a partition; those of a space are divided where its lowest key is.
    pub(crate) fn add(&mut self, id: PartitionId, partition: Partition) -> Option<()> {
        let (space, low) = (partition.space, prefix_of(&partition.low));
        self.steps += CHANGE_STEPS;
        let directory = self.spaces.get(&space)?;
        let place = self.rank(directory, &partition.low);
        self.directory_bytes += partition.directory_bytes();
        self.staged_bytes += staged_blocks(&partition.staged).bytes().0;
        let blocks = partition.place.blocks() as u64;
        if blocks <= u64::from(self.layout.partition_blocks) / 4 {
            self.small.insert(id);
        }
        self.partitions.insert(id, partition)?;
        self.index(id);
        self.blocks += blocks;
        self.spaces.get_mut(&space)?.insert(place, (low, id));
        Some(())
    }

    /// Takes a partition out of the directory of its space.
    fn remove(&mut self, id: PartitionId) -> Option<Partition> {
        self.steps += CHANGE_STEPS;
        let partition = self.partition(id)?;
        let space = partition.space;
        let place = self.rank(self.spaces.get(&space)?, &partition.low).checked_sub(1)?;
        let directory = self.spaces.get_mut(&space)?;
        if directory.at(place)? != id {
            return None;
        }
        directory.remove(place);
        let partition = self.partitions.remove(id)?;
        self.blocks -= partition.place.blocks() as u64;
        if let Some(oldest) = partition.indexed {
            self.needing.remove(&(oldest, id));
        }
        self.directory_bytes = self.directory_bytes.saturating_sub(partition.directory_bytes());
        self.staged_bytes -= staged_blocks(&partition.staged).bytes().0;
        self.hot.remove(&id);
        self.costly.remove(&id);
        self.small.remove(&id);
        self.to_salvage.remove(&id);
        self.set_aside -= usize::from(partition.is_set_aside);
        Some(partition)
    }

    /// Does what a group says, whose number is `seq`. Of groups that a checkpoint knows, which are those before
    /// `known`, what it lacks: modifications that were pending, and seals.
    pub(crate) fn apply(
        &mut self,
        seq: Seq,
        group: &[u8],
        kinds: &Kinds,
        known: Seq,
    ) -> Result<(), Misfit> {
        self.apply_from(seq, group, kinds, known, u64::MAX).map(drop)
    }

    /// Goes on with a group whose number is `seq`, up to an entry before which `steps` is at `end`; tells whether all of it is
    /// applied. The next call goes on there, and must be for the same group.
    pub(crate) fn apply_some(
        &mut self,
        seq: Seq,
        group: &[u8],
        kinds: &Kinds,
        end: u64,
    ) -> Result<bool, Misfit> {
        self.apply_from(seq, group, kinds, Seq(0), end)
    }

    fn apply_from(
        &mut self,
        seq: Seq,
        group: &[u8],
        kinds: &Kinds,
        known: Seq,
        end: u64,
    ) -> Result<bool, Misfit> {
        let mut taker = Taker(group.get(self.part_applied..).unwrap_or_default());
        while !taker.is_empty() {
            if self.steps >= end {
                self.part_applied = group.len() - taker.0.len();
                return Ok(false);
            }
            match Entry::take(&mut taker).ok_or(Misfit::NotOfLog)? {
                Entry::Modify { space, modification, encoded } => {
                    if !kinds.knows(modification.kind) {
                        return Err(Misfit::UnknownKind(modification.kind));
                    }
                    let partition = self.partition_of(space, modification.key);
                    let partition = partition.ok_or(Misfit::NoSpace(space))?;
                    if self.phase == Phase::Outline {
                        continue;
                    }
                    self.enqueue(partition, seq, modification.key, encoded);
                }
                // A partition that the checkpoint does not have was merged since.
                Entry::Seal { partition } if seq < known && self.partition(partition).is_none() => {
                }
                Entry::Seal { partition } => self.seal(partition, seq).ok_or(Misfit::NotOfLog)?,
                _ if seq < known => {}
                entry => self.change(entry).ok_or(Misfit::NotOfLog)?,
            }
        }
        self.part_applied = 0;
        self.applied = self.applied.max(Seq(seq.0 + 1));
        Ok(true)
    }

    /// Passes over all groups before `next`: one of them cannot be applied.
    pub(crate) fn give_up(&mut self, next: Seq) {
        (self.applied, self.part_applied) = (next, 0);
        self.unapplied.unlogged.clear();
    }

    fn enqueue(&mut self, id: PartitionId, seq: Seq, key: &[u8], encoded: &[u8]) {
        let Some(partition) = self.partitions.get_mut(id) else { return };
        self.steps += 1;
        if seq < partition.frontier {
            return;
        }
        let is_oldest = seq < partition.since;
        partition.since = partition.since.min(seq);
        let before = partition.active.bytes();
        self.queued_bytes += partition.active.push(key, encoded);
        self.queued += 1;
        self.unplaced_bytes += encoded.len() as u64;
        if before < self.hot_bytes && partition.active.bytes() >= self.hot_bytes {
            self.hot.insert(id);
        }
        self.is_settled = false;
        if is_oldest {
            self.index(id);
        }
    }

    /// Keeps the index of the oldest groups that partitions need.
    fn index(&mut self, id: PartitionId) {
        let Some(partition) = self.partitions.get_mut(id) else { return };
        let oldest = partition.oldest();
        if let Some(before) = std::mem::replace(&mut partition.indexed, oldest) {
            self.needing.remove(&(before, id));
        }
        self.needing.extend(oldest.map(|oldest| (oldest, id)));
    }

    /// What is pending is apart from what comes. A seal of which nothing came, because the engine ended
    /// before, counts no more. Where the frontier came of a seal that was not logged, the next logged group has its number.
    fn seal(&mut self, id: PartitionId, seq: Seq) -> Option<()> {
        let partition = self.partition_mut(id)?;
        if seq < partition.frontier {
            return Some(());
        }
        let active = std::mem::take(&mut partition.active);
        self.hot.remove(&id);
        let partition = self.partition_mut(id)?;
        let mut sealed = Sealed { queue: Arc::new(active), at: seq, since: partition.since };
        if let Some(before) = partition.sealed.take() {
            // It is of a run that ended, or of a sweep that found no space.
            let mut queue = Arc::try_unwrap(before.queue).unwrap_or_else(|queue| queue.copied());
            queue.append(Arc::try_unwrap(sealed.queue).ok()?);
            sealed.queue = Arc::new(queue);
            sealed.since = sealed.since.min(before.since);
        }
        partition.since = Seq(u64::MAX);
        partition.sealed = Some(sealed);
        self.index(id);
        Some(())
    }

    /// Makes pending again what was sealed when the engine ended.
    pub(crate) fn unseal(&mut self) {
        for (_, partition) in self.partitions.iter_mut() {
            if let Some(sealed) = partition.sealed.take() {
                let mut queue = Arc::try_unwrap(sealed.queue).unwrap_or_default();
                queue.append(std::mem::take(&mut partition.active));
                partition.active = queue;
                partition.since = sealed.since.min(partition.since);
            }
        }
        for id in 0..self.partitions.slots() {
            self.index(PartitionId(id));
        }
        let is_hot = |partition: &Partition| partition.active.bytes() >= self.hot_bytes;
        let hot = self.partitions.iter().filter(|(_, partition)| is_hot(partition));
        self.hot = hot.map(|(id, _)| id).collect();
    }

    /// Counts what reading staged modifications of a partition cost, and remembers it once that is as much as writing
    /// its blocks anew would, of `block_bytes` each: it pays to rent until one has paid the price. Tells whether it is.
    pub(crate) fn pay(&mut self, id: PartitionId, bytes: u64, block_bytes: usize) -> bool {
        let Some(partition) = self.partition_mut(id) else { return false };
        partition.paid_bytes += bytes;
        let is_costly =
            !partition.is_set_aside && partition.paid_bytes >= partition.price_bytes(block_bytes);
        is_costly && self.costly.insert(id)
    }

    /// Readers of a partition pay from the beginning.
    pub(crate) fn pay_again(&mut self, id: PartitionId) {
        self.costly.remove(&id);
        if let Some(partition) = self.partition_mut(id) {
            partition.paid_bytes = 0;
        }
    }

    /// Leaves the blocks and chunks of a partition as they are from now on.
    pub(crate) fn set_aside(&mut self, id: PartitionId) {
        self.costly.remove(&id);
        self.small.remove(&id);
        if let Some(partition) = self.partition_mut(id)
            && !partition.is_set_aside
        {
            partition.is_set_aside = true;
            self.set_aside += 1;
        }
    }

    /// Bytes that wait to be applied to blocks: in groups, in queues, in records that are ingested, and in chunks on the
    /// device.
    pub(crate) fn waiting_bytes(&self) -> u64 {
        let coming = self.unapplied.bytes + self.ingested_bytes;
        coming as u64 + self.unplaced_bytes + self.staged_bytes
    }

    /// Whether a partition has more pending than it is to have: sorting it takes memory, too. What is not applied yet may
    /// all be of one partition.
    pub(crate) fn is_full(&self, bytes_max: usize) -> bool {
        let coming = self.unapplied.bytes;
        let queues = self.hot.iter().filter_map(|id| self.partition(*id));
        let mut bytes = queues.map(|partition| partition.active.bytes());
        coming >= bytes_max.max(self.hot_bytes) || bytes.any(|bytes| bytes + coming >= bytes_max)
    }

    /// What was sealed has left memory: it is in the blocks, or staged.
    fn settle(&mut self, id: PartitionId) -> Option<()> {
        self.steps += 1;
        let partition = self.partitions.get_mut(id)?;
        let sealed = partition.sealed.take()?;
        self.queued_bytes = self.queued_bytes.saturating_sub(sealed.queue.memory_bytes());
        self.queued = self.queued.saturating_sub(sealed.queue.count());
        self.unplaced_bytes = self.unplaced_bytes.saturating_sub(sealed.queue.bytes() as u64);
        partition.frontier = sealed.at;
        self.is_settled = false;
        // The group of the seal itself has nothing that the frontier would pass over.
        #[cfg(feature = "canary")]
        if self.has_canary {
            partition.frontier.0 += 2;
        }
        self.index(id);
        Some(())
    }

    fn change(&mut self, entry: Entry<'_>) -> Option<()> {
        match entry {
            Entry::Modify { .. } | Entry::Seal { .. } => None,
            Entry::CreateSpace { space, partition } => {
                if self.spaces.contains_key(&space) || space.0 == 0 {
                    return None;
                }
                self.unapplied.spaces.remove(&space);
                self.spaces.insert(space, Directory::default());
                self.add(partition, Partition::new(space, Box::default(), Seq(0)))
            }
            Entry::Staged { partition, chunk, first } => {
                self.settle(partition)?;
                if chunk.bytes() > 0 {
                    let extent = self.arrived(first, chunk.length())?;
                    let staged = Staged { chunk, extent };
                    self.directory_bytes += staged.memory_bytes();
                    self.staged_bytes += staged.extent.blocks.count.bytes().0;
                    self.partition_mut(partition)?.staged.push(Arc::new(staged));
                }
                Some(())
            }
            Entry::Refused { count, .. } => {
                self.refused = self.refused.saturating_add(count);
                Some(())
            }
            Entry::Long { runs } => {
                self.steps += runs.len() as u64;
                runs.into_iter().try_for_each(|run| self.take_long(run))
            }
            Entry::Freed { runs } => {
                self.steps += runs.len() as u64;
                runs.into_iter().try_for_each(|run| self.leave_long(run))
            }
            Entry::Placed { from, into } => self.replace(&from, into),
        }
    }

    /// A long value lies in `run`.
    pub(crate) fn take_long(&mut self, run: BlockRange) -> Option<()> {
        let extent = self.arrived(run.first, run.count).filter(|one| one.blocks == run)?;
        self.change_long(|long| long.insert(extent.leave()))
    }

    /// Nothing refers to the long value in `run`.
    fn leave_long(&mut self, run: BlockRange) -> Option<()> {
        self.change_long(|long| long.remove(run))?;
        self.left.push(self.extents.adopt(run));
        Some(())
    }

    fn change_long(&mut self, change: impl FnOnce(&mut Runs) -> Option<()>) -> Option<()> {
        let before = self.long.memory_bytes();
        let done = change(&mut self.long);
        self.directory_bytes = self.directory_bytes + self.long.memory_bytes() - before;
        done
    }

    /// The extent that an entry tells of.
    fn arrived(&mut self, first: Lbn, count: BlockCount) -> Option<Extent> {
        match self.arriving.remove(&first) {
            Some(extent) => Some(extent),
            None => self.extents.take_this(first, count),
        }
    }

    /// Puts the partitions `into` in the place of the sealed neighbours `from`. What came for these since goes to the
    /// partitions that have its keys now.
    fn replace(&mut self, from: &[PartitionId], into: Vec<Placed>) -> Option<()> {
        let mut came: Vec<(Queue, Seq)> = Vec::with_capacity(from.len());
        let mut place: Option<(SpaceId, Box<[u8]>, Seq)> = None;
        let mut next = None;
        for id in from {
            self.settle(*id)?;
            let partition = self.partition(*id)?;
            let at = self.position(partition.space, &partition.low)?;
            // All of them were sealed by the same group, or what came would be passed over.
            let is_next = place.as_ref().is_none_or(|(space, _, frontier)| {
                (partition.space, partition.frontier) == (*space, *frontier) && next == Some(at)
            });
            if !is_next {
                return None;
            }
            next = Some(at + 1);
            place.get_or_insert((partition.space, partition.low.clone(), partition.frontier));
        }
        let is_one = from.len() == 1 && into.len() == 1;
        for id in from {
            let mut old = self.remove(*id)?;
            let active = std::mem::take(&mut old.active);
            if is_one {
                came.push((active, old.since));
                break;
            }
            self.queued_bytes = self.queued_bytes.saturating_sub(active.memory_bytes());
            self.queued = self.queued.saturating_sub(active.count());
            self.unplaced_bytes = self.unplaced_bytes.saturating_sub(active.bytes() as u64);
            came.push((active, old.since));
        }
        let (space, low, frontier) = place?;
        if into.first()?.low != low {
            return None;
        }
        let layout = self.layout;
        for Placed { partition, low, location } in into {
            let mut new = Partition::new(space, low, frontier);
            let extents = location.extents(&layout);
            let extents = extents.map(|(run, count)| self.arrived(run.first, count));
            let extents = extents.collect::<Option<Vec<Extent>>>()?;
            new.place = Arc::new(Place::new(extents, location));
            self.add(partition, new)?;
        }
        for (active, since) in came {
            if is_one {
                let id = self.partition_of(space, &low)?;
                if active.bytes() >= self.hot_bytes {
                    self.hot.insert(id);
                }
                let partition = self.partition_mut(id)?;
                (partition.active, partition.since) = (active, since);
                self.index(id);
                break;
            }
            self.enqueue_all(space, &active, since)?;
        }
        Some(())
    }

    /// Gives modifications of groups from `since` on to the partitions that have their keys.
    fn enqueue_all(&mut self, space: SpaceId, queue: &Queue, since: Seq) -> Option<()> {
        for (modification, encoded) in queue.iter_encoded() {
            let to = self.partition_of(space, modification.key)?;
            self.enqueue(to, since, modification.key, encoded);
        }
        Some(())
    }

    /// A kind of what is staged that is not among `kinds`.
    pub(crate) fn unknown_kind(&self, kinds: &Kinds) -> Option<KindNumber> {
        let chunks = self.partitions.iter().flat_map(|(_, partition)| &partition.staged);
        let mut all = chunks.flat_map(|staged| staged.chunk.kinds()).copied();
        all.find(|kind| !kinds.knows(*kind))
    }

    /// The oldest group that is needed to come to this state again.
    pub(crate) fn oldest(&self) -> Seq {
        let applied = self.applied;
        self.needing.first().map_or(applied, |(oldest, _)| applied.min(*oldest))
    }

    /// Whether something of a group before `seq` is pending.
    pub(crate) fn oldest_is_before(&self, seq: Seq) -> bool {
        self.needing.first().is_some_and(|(oldest, _)| *oldest < seq)
    }
}
