//! The state that the log's entries make: spaces, their partitions, and what is pending in memory.
//!
//! It changes by entries alone, in their order, while the engine runs and when a log is read again: both come
//! to the same. While the engine runs, it has a group only once readers may see it (`crate::shared::Shared::state`).

mod apply;
pub(crate) mod block_table;
#[cfg(test)]
mod bounds;
pub(crate) mod chunk;
pub(crate) mod directory;
pub(crate) mod entry;
pub(crate) mod holder;
pub(crate) mod key_order;
pub(crate) mod load;
pub(crate) mod partition;
pub(crate) mod partitions;
pub(crate) mod pieces;
pub(crate) mod points;
pub(crate) mod queue;
pub(crate) mod sorted;

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::ops::Bound;
use std::sync::Arc;

use moirai_extents::{Extent, Extents, tree_bytes};
use moirai_units::Lbn;

use crate::codec::prefix_of;
use crate::ids::{KindNumber, PartitionId, Seq, SpaceId};
use crate::kind::Kinds;
use crate::limits::PAGE_PARTITIONS;
use crate::long::epoch::Epoch;
use crate::long::runs::Runs;
#[cfg(feature = "canary")]
use crate::options::Canary;
use crate::spec::{Spec, Specs};
use crate::state::directory::{Directory, Entry};
use crate::state::partition::{Partition, staged_blocks};
use crate::state::partitions::Partitions;
use crate::state::pieces::Piece;
use crate::state::points::Points;

/// Modifications of groups from `since` on, which are on their way to other queues.
#[derive(Debug)]
struct Moving {
    space: SpaceId,
    since: Seq,
    pieces: std::vec::IntoIter<Piece>,
}

/// Which modifications the queues hold.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Phase {
    /// What is pending of all groups before `State::applied`.
    #[default]
    Whole,
    /// None: the state takes the engine's own entries alone.
    Outline,
    /// What is pending of the groups before `State::applied`. The engine's own entries are in the state up to the group
    /// `end`, where the log ends.
    Loading { end: Seq },
}

/// Steps of work for a partition that comes into the directory, or leaves it.
const CHANGE_STEPS: u64 = 32;

/// What an entry cannot mean: the log is damaged, or was not made by this program.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Misfit {
    NotOfLog,
    NoSpace(SpaceId),
    UnknownKind(KindNumber),
    /// A space has the format with this name, which is not known, or not with its parameters.
    UnknownFormat(String),
}

#[derive(Debug)]
pub(crate) struct State {
    pub(crate) spaces: BTreeMap<SpaceId, Directory>,
    pub(crate) partitions: Partitions,
    /// How many of them a page of the directory has at most; see `Options::page_partitions`.
    pub(crate) page_partitions: usize,
    /// Blocks of all partitions.
    pub(crate) blocks: u64,
    /// Groups before this one are applied.
    pub(crate) applied: Seq,
    /// Bytes of the next group that are applied.
    part_applied: usize,
    /// Modifications of replaced partitions that are not yet in the queues of the new partitions.
    moving: VecDeque<Moving>,
    /// Work so far: one step is a modification that was put into a queue, a fifth to half of a microsecond.
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
    pub(crate) extents: Arc<Extents>,
    pub(crate) specs: Specs,
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
    pub(crate) canary: Canary,
    /// The blocks of long values.
    pub(crate) long: Runs,
    /// Blocks of long values that entries have freed: in use until the log says so and nobody reads them.
    pub(crate) left: Vec<Extent>,
    /// What readers hold while they may read long values.
    pub(crate) epoch: Arc<Epoch>,
    /// Entries of groups that the log refers to, by their first blocks, until they are applied.
    pub(crate) elsewhere: BTreeMap<Lbn, Arc<[u8]>>,
    /// And the extents that they lie in, until a checkpoint makes them needless.
    pub(crate) elsewhere_extents: Vec<Extent>,
    /// How many groups have room reserved, and for how many bytes.
    pub(crate) reserved: usize,
    pub(crate) reserved_bytes: usize,
    /// What readers of earlier moments need.
    pub(crate) points: Points,
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

impl State {
    pub(crate) fn new(specs: Specs, extents: Arc<Extents>) -> State {
        State {
            spaces: BTreeMap::new(),
            partitions: Partitions::default(),
            page_partitions: PAGE_PARTITIONS,
            blocks: 0,
            applied: Seq(1),
            part_applied: 0,
            moving: VecDeque::new(),
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
            specs,
            is_ahead: false,
            needing: BTreeSet::new(),
            hot: BTreeSet::new(),
            hot_bytes: usize::MAX,
            costly: BTreeSet::new(),
            #[cfg(feature = "canary")]
            canary: Canary::None,
            long: Runs::default(),
            left: Vec::new(),
            epoch: Arc::default(),
            elsewhere: BTreeMap::new(),
            elsewhere_extents: Vec::new(),
            reserved: 0,
            reserved_bytes: 0,
            points: Points::default(),
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

    /// What the blocks of a space are.
    pub(crate) fn spec(&self, space: SpaceId) -> Option<&Arc<Spec>> {
        self.spaces.get(&space).map(|directory| &directory.spec)
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
            + self.points.memory_bytes()
            + self.epoch.memory_bytes()
            + directories
            + self.partitions.spare_bytes()
    }

    /// Adds a partition; those of a space are divided where its lowest key is.
    pub(crate) fn add(&mut self, id: PartitionId, partition: Partition) -> Option<()> {
        self.steps += CHANGE_STEPS;
        let space = partition.space;
        let place = self.rank(self.spaces.get(&space)?, &partition.low);
        let entry = self.add_apart(id, partition)?;
        self.spaces.get_mut(&space)?.insert(place, entry);
        Some(())
    }

    /// Adds a partition, of which the directory of its space is to have this entry.
    pub(crate) fn add_apart(&mut self, id: PartitionId, partition: Partition) -> Option<Entry> {
        self.directory_bytes += partition.directory_bytes();
        self.staged_bytes += staged_blocks(&partition.staged).bytes().0;
        let (low, blocks) = (prefix_of(&partition.low), partition.place.blocks() as u64);
        if partition.place.is_small() {
            self.small.insert(id);
        }
        self.partitions.insert(id, partition)?;
        self.index(id);
        self.blocks += blocks;
        Some((low, id))
    }

    /// Tells whether the pages of all directories, which were filled, are in order.
    pub(crate) fn end_filling(&mut self) -> Option<()> {
        let low = |(_, id): &Entry| self.partitions.get(*id).map(|one| &one.low);
        let is_before = |one: &Entry, next: &Entry| low(one) < low(next);
        let mut directories = self.spaces.values_mut();
        directories.all(|directory| directory.end_filling(is_before)).then_some(())
    }

    /// What a checkpoint says of a partition is different now.
    fn note_change(&mut self, id: PartitionId) {
        let Some(partition) = self.partition(id) else { return };
        let space = partition.space;
        let Some(place) = self.position(space, &partition.low) else { return };
        if let Some(directory) = self.spaces.get_mut(&space) {
            directory.changed(place);
        }
    }

    /// Takes a partition out of the directory of its space.
    fn remove(&mut self, id: PartitionId) -> Option<Partition> {
        self.steps += CHANGE_STEPS;
        let partition = self.partition(id)?;
        let space = partition.space;
        let place = self.position(space, &partition.low)?;
        let directory = self.spaces.get_mut(&space)?;
        if directory.at(place)? != id {
            return None;
        }
        directory.remove(place);
        self.remove_apart(id)
    }

    /// Takes a partition out, whose entry in the directory of its space is left.
    fn remove_apart(&mut self, id: PartitionId) -> Option<Partition> {
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

    /// Keeps the index of the oldest groups that partitions need.
    fn index(&mut self, id: PartitionId) {
        let Some(partition) = self.partitions.get_mut(id) else { return };
        let oldest = partition.oldest();
        if let Some(before) = std::mem::replace(&mut partition.indexed, oldest) {
            self.needing.remove(&(before, id));
        }
        self.needing.extend(oldest.map(|oldest| (oldest, id)));
    }

    /// Adds to what readers of a partition have paid, for reading staged modifications and for merging pending ones. Once that is as much
    /// as writing its blocks anew costs, the partition is remembered: it pays to rent until one has paid the price. Tells whether it
    /// just was.
    pub(crate) fn pay(&mut self, id: PartitionId, bytes: u64) -> bool {
        let Some(partition) = self.partition_mut(id) else { return false };
        partition.paid_bytes += bytes;
        let is_costly = !partition.is_set_aside && partition.paid_bytes >= partition.price_bytes();
        is_costly && self.costly.insert(id)
    }

    /// Sorts what is pending for a partition by key, for those who read ranges of it.
    pub(crate) fn order_keys(&mut self, id: PartitionId) {
        let Some(partition) = self.partition_mut(id) else { return };
        self.queued_bytes += partition.active.order_keys();
    }

    /// Sorts some pending modifications of a partition whose queue is so long that looking for one key takes long.
    pub(crate) fn order_for_keys(&mut self, id: PartitionId) {
        let is_long = |one: &Partition| one.active.is_to_order_for_keys();
        if self.partition(id).is_some_and(is_long) {
            self.order_keys(id);
        }
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

    /// The groups before this one are applied, or begun.
    pub(crate) fn begun(&self) -> Seq {
        let is_amid = self.part_applied > 0 || !self.moving.is_empty();
        Seq(self.applied.0 + u64::from(is_amid))
    }

    /// Whether some of the groups before `visible` are not applied yet.
    pub(crate) fn lacks(&self, visible: Seq) -> bool {
        self.applied < visible || !self.unapplied.unlogged.is_empty()
    }

    /// Whether a partition has more pending than it is to have: sorting it takes memory, too. What is not applied yet may
    /// all be of one partition.
    pub(crate) fn is_full(&self, bytes_max: usize) -> bool {
        let coming = self.unapplied.bytes;
        let queues = self.hot.iter().filter_map(|id| self.partition(*id));
        let mut bytes = queues.map(|partition| partition.active.bytes());
        coming >= bytes_max.max(self.hot_bytes) || bytes.any(|bytes| bytes + coming >= bytes_max)
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
