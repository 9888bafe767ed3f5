//! All partitions by their numbers.

use std::collections::BTreeSet;

use crate::ids::PartitionId;
use crate::state::partition::Partition;

/// Numbers that an entry of the log may leave out before a partition's: more are a damaged log.
const GAP_MAX: u32 = 1 << 16;

/// All partitions by their numbers. A number is free again once its partition was merged into another.
#[derive(Debug, Default)]
pub(crate) struct Partitions {
    slots: Vec<Option<Partition>>,
    /// Numbers below `slots.len()` of which there is no partition, and which nobody has reserved.
    free: BTreeSet<u32>,
    count: usize,
}

impl Partitions {
    pub(crate) fn get(&self, id: PartitionId) -> Option<&Partition> {
        self.slots.get(id.0 as usize)?.as_ref()
    }

    pub(crate) fn get_mut(&mut self, id: PartitionId) -> Option<&mut Partition> {
        self.slots.get_mut(id.0 as usize)?.as_mut()
    }

    /// How many partitions there are.
    pub(crate) fn len(&self) -> usize {
        self.count
    }

    /// One more than the highest number.
    pub(crate) fn slots(&self) -> u32 {
        self.slots.len() as u32
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = (PartitionId, &Partition)> {
        let all = (0..).map(PartitionId).zip(&self.slots);
        all.filter_map(|(id, slot)| Some((id, slot.as_ref()?)))
    }

    pub(crate) fn iter_mut(&mut self) -> impl Iterator<Item = (PartitionId, &mut Partition)> {
        let all = (0..).map(PartitionId).zip(&mut self.slots);
        all.filter_map(|(id, slot)| Some((id, slot.as_mut()?)))
    }

    /// A number for a partition of which the next entry tells; no other gets it.
    pub(crate) fn reserve(&mut self) -> PartitionId {
        if let Some(id) = self.free.pop_first() {
            return PartitionId(id);
        }
        self.slots.push(None);
        PartitionId(self.slots() - 1)
    }

    /// Adds a partition under a number that has none.
    pub(crate) fn insert(&mut self, id: PartitionId, partition: Partition) -> Option<()> {
        if id.0 >= self.slots().saturating_add(GAP_MAX) {
            return None;
        }
        while self.slots() <= id.0 {
            self.free.insert(self.slots());
            self.slots.push(None);
        }
        let slot = self.slots.get_mut(id.0 as usize).filter(|slot| slot.is_none())?;
        *slot = Some(partition);
        self.free.remove(&id.0);
        self.count += 1;
        Some(())
    }

    /// Takes a partition out; its number is free.
    pub(crate) fn remove(&mut self, id: PartitionId) -> Option<Partition> {
        let partition = self.slots.get_mut(id.0 as usize)?.take()?;
        self.free.insert(id.0);
        self.count -= 1;
        Some(partition)
    }
}
