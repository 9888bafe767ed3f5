//! Applying entries: how each changes the state.
//!
//! A group may be applied in steps. Between two steps another thread may read counts, or go on applying the group.

use std::hint::black_box;
use std::sync::Arc;

use moirai_extents::Extent;
use moirai_units::{BlockCount, BlockRange, Lbn};

use crate::codec::Taker;
use crate::data::place::Place;
use crate::ids::{PartitionId, PointNumber, Seq, SpaceId};
use crate::kind::Kinds;
use crate::long::runs::Runs;
#[cfg(feature = "canary")]
use crate::options::Canary;
use crate::spec::Spec;
use crate::state::directory::Directory;
use crate::state::entry::{Elsewhere, Entry, Placed, is_own};
use crate::state::partition::{Partition, Sealed, Staged, staged_blocks};
use crate::state::queue::Queue;
use crate::state::{CHANGE_STEPS, Misfit, Moving, Phase, State};
use crate::units::UnitSet;

/// Modifications whose partitions are looked up before the first of them goes into a queue. With many more, what was read first
/// would leave the processor's caches again.
const AT_ONCE: usize = 32;
/// Steps of work for sealing a partition, and for what comes of that.
const SEAL_STEPS: u64 = 4;

impl State {
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

    /// Goes on with a group whose number is `seq`, until `steps` is at `end` or a little more; tells whether all of it is
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
        while !taker.is_empty() || !self.moving.is_empty() {
            if self.steps >= end {
                self.part_applied = group.len() - taker.0.len();
                return Ok(false);
            }
            if !self.moving.is_empty() {
                self.move_some().ok_or(Misfit::NotOfLog)?;
                continue;
            }
            if !is_own(taker.0) {
                let most = AT_ONCE.min((end - self.steps) as usize);
                self.enqueue_some(seq, &mut taker, kinds, most)?;
                continue;
            }
            match Entry::take(&mut taker).ok_or(Misfit::NotOfLog)? {
                // A partition that the checkpoint does not have was merged since.
                Entry::Seal { partition } if seq < known && self.partition(partition).is_none() => {
                }
                Entry::Seal { partition } => self.seal(partition, seq).ok_or(Misfit::NotOfLog)?,
                _ if seq < known => {}
                Entry::CreateSpace { space, partition, spec } => {
                    let made = self.specs.made(spec);
                    let made = made.ok_or_else(|| Misfit::UnknownFormat(spec.name()))?;
                    self.create_space(space, partition, &made).ok_or(Misfit::NotOfLog)?;
                }
                entry => self.change(entry).ok_or(Misfit::NotOfLog)?,
            }
        }
        self.part_applied = 0;
        self.applied = self.applied.max(Seq(seq.0 + 1));
        Ok(true)
    }

    /// Puts modifications at the front of a group into their queues: `most`, which is no more than [`AT_ONCE`], and fewer where an
    /// entry of the engine's own follows.
    fn enqueue_some(
        &mut self,
        seq: Seq,
        group: &mut Taker<'_>,
        kinds: &Kinds,
        most: usize,
    ) -> Result<(), Misfit> {
        let mut found = [(PartitionId(0), &[][..], &[][..]); AT_ONCE];
        let mut count = 0;
        while count < most.min(AT_ONCE) && !group.is_empty() && !is_own(group.0) {
            let Some(Entry::Modify { space, modification, encoded }) = Entry::take(group) else {
                return Err(Misfit::NotOfLog);
            };
            if !kinds.knows(modification.kind) {
                return Err(Misfit::UnknownKind(modification.kind));
            }
            let partition = self.partition_of(space, modification.key);
            let partition = partition.ok_or(Misfit::NoSpace(space))?;
            if let Some(slot) = found.get_mut(count) {
                *slot = (partition, modification.key, encoded);
            }
            count += 1;
        }
        if self.phase == Phase::Outline {
            return Ok(());
        }
        let found = found.get(..count).unwrap_or_default();
        // Partitions and their queues are seldom in the processor's caches. These reads do not depend on each other, so the
        // processor waits for many of them at the same time.
        let partitions = found.iter().filter_map(|(id, ..)| self.partitions.get(*id));
        black_box(
            partitions.map(|partition| partition.active.end_byte()).fold(0, u8::wrapping_add),
        );
        let after = self.points.newest_live();
        #[cfg(feature = "canary")]
        let after = match self.canary {
            Canary::LatePoint => self.points.newest_but_for(seq),
            _ => after,
        };
        for (partition, key, encoded) in found {
            self.enqueue(*partition, (seq, after), key, encoded);
        }
        Ok(())
    }

    /// The entries of a group that lie elsewhere: `None` where they are in the group, and `None` inside where they are not at
    /// hand.
    pub(crate) fn entries_of(&self, group: &[u8]) -> Option<Option<Arc<[u8]>>> {
        let first = Elsewhere::of(group)?.runs.first()?.first;
        Some(self.elsewhere.get(&first).cloned())
    }

    /// They are applied.
    pub(crate) fn forget_elsewhere(&mut self, group: &[u8]) {
        let first = Elsewhere::of(group).and_then(|elsewhere| Some(elsewhere.runs.first()?.first));
        first.and_then(|first| self.elsewhere.remove(&first));
    }

    /// Passes over all groups before `next`: one of them cannot be applied.
    pub(crate) fn give_up(&mut self, next: Seq) {
        (self.applied, self.part_applied) = (next, 0);
        self.moving.clear();
        self.unapplied.unlogged.clear();
    }

    /// Puts a modification of group `seq` into the queue of a partition; it came when `after` was the newest read point.
    pub(super) fn enqueue(
        &mut self,
        id: PartitionId,
        (seq, after): (Seq, PointNumber),
        key: &[u8],
        encoded: &[u8],
    ) {
        let Some(partition) = self.partitions.get_mut(id) else { return };
        self.steps += 1;
        if seq < partition.frontier {
            return;
        }
        let is_oldest = seq < partition.since;
        partition.since = partition.since.min(seq);
        let before = partition.active.bytes();
        // The directory is at hand; what the partition refers to may not be in the processor's caches.
        if partition.active.units() != UnitSet::ALL {
            let spec = self.spaces.get(&partition.space).map(|directory| &directory.spec);
            partition.active.note_units(spec.map_or(UnitSet::ALL, |spec| spec.units_of(encoded)));
        }
        let separates = |after, up_to| self.points.separates(after, up_to);
        self.queued_bytes += partition.active.push_among(key, encoded, after, separates);
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

    /// What is pending is apart from what comes. A seal of which nothing came, because the engine ended
    /// before, counts no more. Where the frontier came of a seal that was not logged, the next logged group has its number.
    fn seal(&mut self, id: PartitionId, seq: Seq) -> Option<()> {
        // A bulk group may seal all partitions.
        self.steps += SEAL_STEPS;
        let partition = self.partition_mut(id)?;
        if seq < partition.frontier {
            return Some(());
        }
        let mut active = std::mem::take(&mut partition.active);
        let is_appended = partition.sealed.is_some();
        let mut forgotten = if is_appended { active.forget_order() } else { 0 };
        self.hot.remove(&id);
        let newest = self.points.newest_live();
        let partition = self.partition_mut(id)?;
        let (since, points) = (partition.since, newest);
        let mut sealed = Sealed { queue: Arc::new(active), at: seq, since, points };
        if let Some(before) = partition.sealed.take() {
            // It is of a run that ended, or of a sweep that found no space.
            let held = before.queue.memory_bytes();
            let mut queue = Arc::try_unwrap(before.queue).unwrap_or_else(|queue| queue.copied());
            forgotten += held.saturating_sub(queue.memory_bytes());
            queue.append(Arc::try_unwrap(sealed.queue).ok()?);
            sealed.queue = Arc::new(queue);
            sealed.since = sealed.since.min(before.since);
        }
        partition.since = Seq(u64::MAX);
        partition.sealed = Some(sealed);
        self.queued_bytes = self.queued_bytes.saturating_sub(forgotten);
        self.index(id);
        Some(())
    }

    /// Makes pending again what was sealed when the engine ended.
    pub(crate) fn unseal(&mut self) {
        let mut forgotten = 0;
        for (_, partition) in self.partitions.iter_mut() {
            if let Some(sealed) = partition.sealed.take() {
                let mut queue = Arc::try_unwrap(sealed.queue).unwrap_or_default();
                let mut active = std::mem::take(&mut partition.active);
                forgotten += active.forget_order();
                queue.append(active);
                partition.active = queue;
                partition.since = sealed.since.min(partition.since);
            }
        }
        self.queued_bytes = self.queued_bytes.saturating_sub(forgotten);
        for id in 0..self.partitions.slots() {
            self.index(PartitionId(id));
        }
        let is_hot = |partition: &Partition| partition.active.bytes() >= self.hot_bytes;
        let hot = self.partitions.iter().filter(|(_, partition)| is_hot(partition));
        self.hot = hot.map(|(id, _)| id).collect();
    }

    /// What was sealed has left memory: it is in the blocks, or staged.
    fn settle(&mut self, id: PartitionId) -> Option<()> {
        self.steps += SEAL_STEPS;
        self.keep_version(id)?;
        self.note_change(id);
        let partition = self.partitions.get_mut(id)?;
        let sealed = partition.sealed.take()?;
        self.queued_bytes = self.queued_bytes.saturating_sub(sealed.queue.memory_bytes());
        self.queued = self.queued.saturating_sub(sealed.queue.count());
        self.unplaced_bytes = self.unplaced_bytes.saturating_sub(sealed.queue.bytes() as u64);
        partition.frontier = sealed.at;
        self.is_settled = false;
        // The group of the seal itself has nothing that the frontier would pass over.
        #[cfg(feature = "canary")]
        if self.canary == Canary::EarlyFrontier {
            partition.frontier.0 += 2;
        }
        self.index(id);
        Some(())
    }

    fn create_space(
        &mut self,
        space: SpaceId,
        partition: PartitionId,
        spec: &Arc<Spec>,
    ) -> Option<()> {
        if self.spaces.contains_key(&space) || space.0 == 0 {
            return None;
        }
        self.unapplied.spaces.remove(&space);
        self.spaces.insert(space, Directory::new(spec, self.page_partitions));
        self.add(partition, Partition::new(space, spec, Box::default(), Seq(0)))
    }

    fn change(&mut self, entry: Entry<'_>) -> Option<()> {
        match entry {
            // What an entry refers to is applied in its place.
            Entry::Modify { .. } | Entry::Seal { .. } | Entry::Elsewhere(_) => None,
            Entry::CreateSpace { .. } => None,
            Entry::Staged { partition, chunk, first, combined } => {
                self.settle(partition)?;
                self.leave_staged(partition, combined)?;
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

    /// The last chunks of a partition are in another one.
    fn leave_staged(&mut self, id: PartitionId, count: usize) -> Option<()> {
        let staged = &mut self.partitions.get_mut(id)?.staged;
        let left = staged.split_off(staged.len().checked_sub(count)?);
        let bytes: usize = left.iter().map(|one| one.memory_bytes()).sum();
        self.directory_bytes = self.directory_bytes.saturating_sub(bytes);
        self.staged_bytes -= staged_blocks(&left).bytes().0;
        Some(())
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
        let mut covered = PointNumber::default();
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
            covered = covered.max(partition.covered);
            place.get_or_insert((partition.space, partition.low.clone(), partition.frontier));
        }
        let is_one = from.len() == 1 && into.len() == 1;
        let (space, low, frontier) = place?;
        if into.first()?.low != low {
            return None;
        }
        // The first of them keeps its place in the directory, and its page.
        let (first, others) = from.split_first()?;
        let others = others.iter().map(|id| self.remove(*id)).collect::<Option<Vec<_>>>()?;
        let at = self.position(space, &low)?;
        if self.spaces.get(&space)?.at(at)? != *first {
            return None;
        }
        let first = self.remove_apart(*first)?;
        for mut old in std::iter::once(first).chain(others) {
            let active = std::mem::take(&mut old.active);
            if !is_one {
                self.queued_bytes = self.queued_bytes.saturating_sub(active.memory_bytes());
                self.queued = self.queued.saturating_sub(active.count());
                self.unplaced_bytes = self.unplaced_bytes.saturating_sub(active.bytes() as u64);
            }
            came.push((active, old.since));
        }
        let spec = Arc::clone(self.spec(space)?);
        let mut at = Some(at);
        for Placed { partition, low, location } in into {
            let mut new = Partition::new(space, &spec, low, frontier);
            new.covered = covered;
            if !location.is_of(&spec) {
                return None;
            }
            let extents = location.ranges(&spec);
            let extents = extents.map(|blocks| self.arrived(blocks.first, blocks.count));
            let extents = extents.collect::<Option<Vec<Extent>>>()?;
            new.place = Arc::new(Place::new(&spec, extents, location));
            match at.take() {
                Some(at) => {
                    self.steps += CHANGE_STEPS;
                    let entry = self.add_apart(partition, new)?;
                    self.spaces.get_mut(&space)?.put(at, entry);
                }
                None => self.add(partition, new)?,
            }
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
            if !active.is_empty() {
                self.moving.push_back(Moving { space, since, pieces: active.into_pieces() });
            }
        }
        Some(())
    }

    /// Gives some modifications of a partition that was replaced to the partitions that have their keys now.
    fn move_some(&mut self) -> Option<()> {
        let Some(moved) = self.moving.front_mut() else { return Some(()) };
        let (space, since) = (moved.space, moved.since);
        let Some(piece) = moved.pieces.next() else {
            self.moving.pop_front();
            return Some(());
        };
        for (modification, encoded, after) in piece.iter_after() {
            let to = self.partition_of(space, modification.key)?;
            self.enqueue(to, (since, after), modification.key, encoded);
        }
        Some(())
    }
}
