//! All partitions by their numbers.

use std::collections::BTreeSet;

use moirai_extents::tree_bytes;

use crate::ids::PartitionId;
use crate::state::partition::Partition;

/// Numbers of a chunk.
const CHUNK: usize = 1 << 8;
/// Numbers that an entry of the log may leave out before a partition's: more are a damaged log.
const GAP_MAX: u32 = 1 << 16;

/// All partitions by their numbers. A number is free again once its partition was merged into another.
#[derive(Debug, Default)]
pub(crate) struct Partitions {
    /// Chunks of [`CHUNK`] numbers, but for the last: one list of all would be copied whole, under the lock of the state, each
    /// time that it outgrows its memory.
    chunks: Vec<Vec<Option<Partition>>>,
    slots: u32,
    /// Numbers below `slots` of which there is no partition, and which nobody has reserved.
    free: BTreeSet<u32>,
    count: usize,
}

impl Partitions {
    pub(crate) fn get(&self, id: PartitionId) -> Option<&Partition> {
        let number = id.0 as usize;
        self.chunks.get(number / CHUNK)?.get(number % CHUNK)?.as_ref()
    }

    pub(crate) fn get_mut(&mut self, id: PartitionId) -> Option<&mut Partition> {
        self.slot_mut(id)?.as_mut()
    }

    fn slot_mut(&mut self, id: PartitionId) -> Option<&mut Option<Partition>> {
        let number = id.0 as usize;
        self.chunks.get_mut(number / CHUNK)?.get_mut(number % CHUNK)
    }

    /// Adds a number, without a partition.
    fn push(&mut self) {
        match self.chunks.last_mut().filter(|last| last.len() < CHUNK) {
            Some(last) => last.push(None),
            None => self.chunks.push(vec![None]),
        }
        self.slots += 1;
    }

    /// Adds a number that is free.
    pub(crate) fn push_free(&mut self) {
        self.free.insert(self.slots);
        self.push();
    }

    /// How many partitions there are.
    pub(crate) fn len(&self) -> usize {
        self.count
    }

    /// One more than the highest number.
    pub(crate) fn slots(&self) -> u32 {
        self.slots
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = (PartitionId, &Partition)> {
        let all = (0..).map(PartitionId).zip(self.chunks.iter().flatten());
        all.filter_map(|(id, slot)| Some((id, slot.as_ref()?)))
    }

    pub(crate) fn iter_mut(&mut self) -> impl Iterator<Item = (PartitionId, &mut Partition)> {
        let all = (0..).map(PartitionId).zip(self.chunks.iter_mut().flatten());
        all.filter_map(|(id, slot)| Some((id, slot.as_mut()?)))
    }

    /// A number for a partition of which the next entry tells; no other gets it.
    pub(crate) fn reserve(&mut self) -> PartitionId {
        if let Some(id) = self.free.pop_first() {
            return PartitionId(id);
        }
        self.push();
        PartitionId(self.slots - 1)
    }

    /// Adds a partition under a number that has none.
    pub(crate) fn insert(&mut self, id: PartitionId, partition: Partition) -> Option<()> {
        if id.0 >= self.slots().saturating_add(GAP_MAX) {
            return None;
        }
        while self.slots() <= id.0 {
            self.push_free();
        }
        let slot = self.slot_mut(id).filter(|slot| slot.is_none())?;
        *slot = Some(partition);
        self.free.remove(&id.0);
        self.count += 1;
        Some(())
    }

    /// Bytes of memory beside the partitions.
    pub(crate) fn spare_bytes(&self) -> usize {
        // Chunks but the last are as long as their memory.
        let of_last = self.chunks.last().map_or(0, Vec::capacity);
        let slots = self.chunks.len().saturating_sub(1) * CHUNK + of_last;
        let spare = slots.saturating_sub(self.count) * size_of::<Option<Partition>>();
        let lists = self.chunks.capacity() * size_of::<Vec<Option<Partition>>>();
        spare + lists + tree_bytes::<u32>(self.free.len())
    }

    /// Takes a partition out; its number is free.
    pub(crate) fn remove(&mut self, id: PartitionId) -> Option<Partition> {
        let partition = self.slot_mut(id)?.take()?;
        self.free.insert(id.0);
        self.count -= 1;
        Some(partition)
    }
}
