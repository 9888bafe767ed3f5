//! The state that the log's entries make: spaces, their partitions, and what is pending in memory.
//!
//! It changes by entries alone, in their order, while the engine runs and when a log is read again: both come
//! to the same.

pub(crate) mod block_table;
pub(crate) mod chunk;
pub(crate) mod entry;
pub(crate) mod partition;
pub(crate) mod queue;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use crate::codec::{Taker, prefix_of};
use crate::data::extents::{Extent, Extents};
use crate::ids::{KindNumber, PartitionId, Seq, SpaceId};
use crate::kind::Kinds;
use crate::state::entry::Entry;
use crate::state::partition::{Partition, Sealed};
use crate::state::queue::Queue;

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
    /// By their numbers.
    pub(crate) partitions: Vec<Partition>,
    /// The number of the next group.
    pub(crate) next: Seq,
    /// Bytes of memory that queues take, sealed ones included.
    pub(crate) queued_bytes: usize,
    /// Modifications in queues.
    pub(crate) queued: usize,
    /// Bytes of memory that say where blocks and staged modifications lie.
    pub(crate) directory_bytes: usize,
    /// Modifications that did not fit the value that they were applied to, since the engine was formatted.
    pub(crate) refused: u64,
    extents: Arc<Extents>,
    /// Whether it has what neither the log nor a checkpoint says yet.
    pub(crate) is_ahead: bool,
    /// Partitions that have more pending than is good for who reads them.
    pub(crate) hot: BTreeSet<PartitionId>,
    /// From how many bytes on.
    pub(crate) hot_bytes: usize,
    /// Partitions whose reading has cost as much as writing their blocks, with what is staged, would.
    pub(crate) costly: BTreeSet<PartitionId>,
    /// See `Options::canary`.
    pub(crate) has_canary: bool,
    /// Extents in use of which the next entries tell.
    pub(crate) arriving: BTreeMap<u32, Extent>,
}

/// The partitions of a space, in the order of their lowest keys.
#[derive(Debug, Default)]
pub(crate) struct Directory {
    /// The first bytes of the lowest key, and the number. The key itself is asked only where these are equal.
    partitions: Vec<(u64, PartitionId)>,
}

impl Directory {
    pub(crate) fn iter(&self) -> impl DoubleEndedIterator<Item = PartitionId> + '_ {
        self.partitions.iter().map(|(_, partition)| *partition)
    }

    pub(crate) fn len(&self) -> usize {
        self.partitions.len()
    }

    pub(crate) fn at(&self, index: usize) -> Option<PartitionId> {
        self.partitions.get(index).map(|(_, partition)| *partition)
    }
}

impl State {
    pub(crate) fn new(extents: Arc<Extents>) -> State {
        State {
            spaces: BTreeMap::new(),
            partitions: Vec::new(),
            next: Seq(1),
            queued_bytes: 0,
            queued: 0,
            directory_bytes: 0,
            refused: 0,
            extents,
            is_ahead: false,
            hot: BTreeSet::new(),
            hot_bytes: usize::MAX,
            costly: BTreeSet::new(),
            has_canary: false,
            arriving: BTreeMap::new(),
        }
    }

    pub(crate) fn partition(&self, id: PartitionId) -> Option<&Partition> {
        self.partitions.get(id.0 as usize)
    }

    fn partition_mut(&mut self, id: PartitionId) -> Option<&mut Partition> {
        self.partitions.get_mut(id.0 as usize)
    }

    /// How many partitions of a space begin at `key` or before it.
    fn rank(&self, directory: &Directory, key: &[u8]) -> usize {
        let prefix = prefix_of(key);
        directory.partitions.partition_point(|(other, partition)| {
            *other < prefix
                || (*other == prefix && self.partition(*partition).is_some_and(|p| *p.low <= *key))
        })
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

    /// Adds a partition; those of a space are divided where its lowest key is.
    pub(crate) fn add(&mut self, id: PartitionId, partition: Partition) -> Option<()> {
        if id.0 as usize != self.partitions.len() {
            return None;
        }
        let (space, low) = (partition.space, prefix_of(&partition.low));
        let directory = self.spaces.get(&space)?;
        let place = self.rank(directory, &partition.low);
        self.partitions.push(partition);
        self.spaces.get_mut(&space)?.partitions.insert(place, (low, id));
        Some(())
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
        let mut taker = Taker(group);
        while !taker.is_empty() {
            match Entry::take(&mut taker).ok_or(Misfit::NotOfLog)? {
                Entry::Modify { space, modification, encoded } => {
                    if !kinds.knows(modification.kind) {
                        return Err(Misfit::UnknownKind(modification.kind));
                    }
                    let partition = self.partition_of(space, modification.key);
                    let partition = partition.ok_or(Misfit::NoSpace(space))?;
                    self.enqueue(partition, seq, modification.key, encoded);
                }
                Entry::Seal { partition } => self.seal(partition, seq).ok_or(Misfit::NotOfLog)?,
                _ if seq < known => {}
                entry => self.change(entry).ok_or(Misfit::NotOfLog)?,
            }
        }
        self.next = self.next.max(Seq(seq.0 + 1));
        Ok(())
    }

    fn enqueue(&mut self, id: PartitionId, seq: Seq, key: &[u8], encoded: &[u8]) {
        let Some(partition) = self.partitions.get_mut(id.0 as usize) else { return };
        if seq < partition.frontier {
            return;
        }
        if partition.active.is_empty() {
            partition.since = seq;
        }
        let before = partition.active.bytes();
        self.queued_bytes += partition.active.push(key, encoded);
        self.queued += 1;
        if before < self.hot_bytes && partition.active.bytes() >= self.hot_bytes {
            self.hot.insert(id);
        }
    }

    /// What is pending is apart from what comes. A seal of which nothing came, because the engine ended
    /// before, counts no more.
    fn seal(&mut self, id: PartitionId, seq: Seq) -> Option<()> {
        let partition = self.partition_mut(id)?;
        if seq <= partition.frontier {
            return Some(());
        }
        let active = std::mem::take(&mut partition.active);
        self.hot.remove(&id);
        let partition = self.partition_mut(id)?;
        let mut sealed = Sealed { queue: Arc::new(active), at: seq, since: partition.since };
        if let Some(before) = partition.sealed.take() {
            // Nobody else has it: it is of a run that ended.
            let mut queue = Arc::try_unwrap(before.queue).ok()?;
            queue.append(Arc::try_unwrap(sealed.queue).ok()?);
            sealed.queue = Arc::new(queue);
            sealed.since = sealed.since.min(before.since);
        }
        partition.since = Seq(u64::MAX);
        partition.sealed = Some(sealed);
        Some(())
    }

    /// Makes pending again what was sealed when the engine ended.
    pub(crate) fn unseal(&mut self) {
        for partition in &mut self.partitions {
            if let Some(sealed) = partition.sealed.take() {
                let mut queue = Arc::try_unwrap(sealed.queue).unwrap_or_default();
                queue.append(std::mem::take(&mut partition.active));
                partition.active = queue;
                partition.since = sealed.since.min(partition.since);
            }
        }
        let is_hot = |partition: &Partition| partition.active.bytes() >= self.hot_bytes;
        let hot = self.partitions.iter().enumerate().filter(|(_, partition)| is_hot(partition));
        self.hot = hot.map(|(id, _)| PartitionId(id as u32)).collect();
    }

    /// Counts what reading staged modifications of a partition cost, and remembers it once that is as much as writing
    /// its blocks anew would, of `block_bytes` each: it pays to rent until one has paid the price. Tells whether it is.
    pub(crate) fn pay(&mut self, id: PartitionId, bytes: u64, block_bytes: usize) -> bool {
        let Some(partition) = self.partition_mut(id) else { return false };
        partition.paid_bytes += bytes;
        partition.paid_bytes >= partition.price_bytes(block_bytes) && self.costly.insert(id)
    }

    /// Readers of a partition pay from the beginning.
    pub(crate) fn pay_again(&mut self, id: PartitionId) {
        self.costly.remove(&id);
        if let Some(partition) = self.partition_mut(id) {
            partition.paid_bytes = 0;
        }
    }

    /// Whether a partition has more pending than it is to have: sorting it takes memory, too.
    pub(crate) fn is_full(&self, bytes_max: usize) -> bool {
        let queues = self.hot.iter().filter_map(|id| self.partition(*id));
        queues.map(|partition| partition.active.bytes()).any(|bytes| bytes >= bytes_max)
    }

    /// What was sealed has left memory: it is in the blocks, or staged.
    fn settle(&mut self, id: PartitionId) -> Option<()> {
        // The group of the seal itself has nothing that the frontier would pass over.
        let early = if self.has_canary { 2 } else { 0 };
        let partition = self.partitions.get_mut(id.0 as usize)?;
        let sealed = partition.sealed.take()?;
        self.queued_bytes = self.queued_bytes.saturating_sub(sealed.queue.memory_bytes());
        self.queued = self.queued.saturating_sub(sealed.queue.count());
        partition.frontier = Seq(sealed.at.0 + early);
        Some(())
    }

    fn change(&mut self, entry: Entry<'_>) -> Option<()> {
        match entry {
            Entry::Modify { .. } | Entry::Seal { .. } => None,
            Entry::CreateSpace { space, partition } => {
                if self.spaces.contains_key(&space) || space.0 == 0 {
                    return None;
                }
                self.spaces.insert(space, Directory::default());
                let new = Partition::new(space, Box::default(), Seq(0));
                self.directory_bytes += new.directory_bytes();
                self.add(partition, new)
            }
            Entry::Staged { partition, chunk } => {
                self.settle(partition)?;
                if chunk.bytes() > 0 {
                    self.directory_bytes += chunk.memory_bytes();
                    self.partition_mut(partition)?.staged.push(Arc::new(chunk));
                }
                Some(())
            }
            Entry::Refused { count, .. } => {
                self.refused = self.refused.saturating_add(count);
                Some(())
            }
            Entry::Placed { partition, into } => {
                self.settle(partition)?;
                let before = self.partition(partition)?.directory_bytes();
                self.directory_bytes = self.directory_bytes.saturating_sub(before);
                let old = self.partition_mut(partition)?;
                let (space, frontier) = (old.space, old.frontier);
                let (active, since) = (std::mem::take(&mut old.active), old.since);
                old.extent = None;
                old.staged.clear();
                self.pay_again(partition);
                for placed in &into {
                    let extent = match placed.extent {
                        Some(index) => {
                            let arriving = self.arriving.remove(&index);
                            Some(arriving.or_else(|| self.extents.take_this(index))?)
                        }
                        None => None,
                    };
                    if placed.partition != partition {
                        let new = Partition::new(space, placed.low.clone(), frontier);
                        self.add(placed.partition, new)?;
                    }
                    let now = self.partition_mut(placed.partition)?;
                    now.extent = extent.map(Arc::new);
                    now.blocks = Arc::clone(&placed.blocks);
                    let after = now.directory_bytes();
                    self.directory_bytes += after;
                }
                self.divide(partition, into.len(), active, since)
            }
        }
    }

    /// Gives what came for a partition since it was sealed to those that it has become.
    fn divide(&mut self, id: PartitionId, pieces: usize, active: Queue, since: Seq) -> Option<()> {
        if pieces <= 1 {
            let partition = self.partition_mut(id)?;
            partition.active = active;
            return Some(());
        }
        let space = self.partition(id)?.space;
        self.hot.remove(&id);
        self.queued_bytes = self.queued_bytes.saturating_sub(active.memory_bytes());
        self.queued = self.queued.saturating_sub(active.count());
        for (modification, encoded) in active.iter_encoded() {
            let to = self.partition_of(space, modification.key)?;
            self.enqueue(to, since, modification.key, encoded);
        }
        Some(())
    }

    /// A kind of what is staged that is not among `kinds`.
    pub(crate) fn unknown_kind(&self, kinds: &Kinds) -> Option<KindNumber> {
        let chunks = self.partitions.iter().flat_map(|partition| &partition.staged);
        let mut all = chunks.flat_map(|chunk| chunk.kinds()).copied();
        all.find(|kind| !kinds.knows(*kind))
    }

    /// The oldest group that is needed to come to this state again.
    pub(crate) fn oldest(&self) -> Seq {
        self.partitions.iter().filter_map(Partition::oldest).min().unwrap_or(self.next)
    }

    /// Whether something of a group before `seq` is pending.
    pub(crate) fn oldest_is_before(&self, seq: Seq) -> bool {
        self.partitions.iter().any(|one| one.oldest().is_some_and(|oldest| oldest < seq))
    }
}
