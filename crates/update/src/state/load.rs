//! Recovery of a log that has more pending than memory may hold.
//!
//! Recovery reads such a log twice. The first time the state takes the engine's own entries alone, its *outline*: which
//! partitions there are, where they lie, and up to which group each has everything (`frontier`). No modification changes
//! any of that. The outline is to the whole log what a checkpoint is to the log before it. So the second time every
//! modification goes to the partition that has its key at the end of the log, unless that has it already, and sweeps make
//! room as they do while the engine runs (`crate::sweep::load`).

use std::sync::Arc;

use crate::codec::Taker;
use crate::ids::{PartitionId, PointNumber, Seq};
use crate::state::entry::{Entry, is_own};
use crate::state::queue::Queue;
use crate::state::{Phase, State};

impl State {
    /// Drops all that is pending: queues would take more memory than there is. They are loaded later.
    pub(crate) fn drop_queues(&mut self) {
        self.phase = Phase::Outline;
        for (_, partition) in self.partitions.iter_mut() {
            partition.active = Queue::default();
            partition.since = Seq(u64::MAX);
            if let Some(sealed) = &mut partition.sealed {
                (sealed.queue, sealed.since) = (Arc::default(), Seq(u64::MAX));
            }
        }
        (0..self.partitions.slots()).for_each(|id| self.index(PartitionId(id)));
        (self.queued_bytes, self.queued, self.unplaced_bytes) = (0, 0, 0);
        self.hot.clear();
    }

    /// The outline is complete; groups from `first` on are loaded next.
    pub(crate) fn begin_loading(&mut self, first: Seq) {
        self.phase = Phase::Loading { end: self.applied };
        self.applied = first.min(self.applied);
    }

    /// Takes the modifications of a group that their partitions lack. `None` when the group is none of a log.
    pub(crate) fn load(&mut self, seq: Seq, group: &[u8]) -> Option<()> {
        let is_own = is_own(group);
        let mut taker = Taker(group);
        while !taker.is_empty() {
            let (space, modification, encoded) = match Entry::take(&mut taker)? {
                Entry::Modify { space, modification, encoded } => (space, modification, encoded),
                // The outline has the blocks of long values, and what the engine's own entries tell.
                Entry::Long { .. } => continue,
                _ if is_own => continue,
                _ => return None,
            };
            let partition = self.partition_of(space, modification.key)?;
            self.enqueue(partition, (seq, PointNumber::default()), modification.key, encoded);
        }
        self.applied = self.applied.max(Seq(seq.0 + 1));
        Some(())
    }

    /// Everything is loaded. What was sealed and not swept is pending again.
    pub(crate) fn end_loading(&mut self) {
        if let Phase::Loading { end } = self.phase {
            self.applied = end;
        }
        self.phase = Phase::Whole;
        self.unseal();
    }

    /// Groups whose own entries of the engine are in the state: those before this one.
    pub(crate) fn outlined(&self) -> Seq {
        match self.phase {
            Phase::Loading { end } => end,
            Phase::Whole | Phase::Outline => self.applied,
        }
    }

    pub(crate) fn is_loading(&self) -> bool {
        matches!(self.phase, Phase::Loading { .. })
    }
}

#[cfg(test)]
mod tests {
    use moirai_extents::{Ensembles, Extents};
    use moirai_units::{BlockCount, BlockRange, Lbn};

    use super::*;
    use crate::data::division::Division;
    use crate::group::Group;
    use crate::ids::{PUT, SpaceId};
    use crate::kind::{Kinds, Modification};
    use crate::limits::PAGE_PARTITIONS;
    use crate::spec::whole_blocks;
    use crate::state::chunk::Chunk;
    use crate::state::directory::Directory;
    use crate::state::partition::Partition;

    /// What was loaded is sealed with the number that the next logged group has, which may be a seal.
    #[test]
    fn a_partition_is_sealed_by_the_group_after_those_that_were_loaded() {
        const A: PartitionId = PartitionId(0);
        let data = BlockRange::new(Lbn(16), BlockCount(64));
        let (one, staging) = (BlockCount(1), BlockCount(8));
        let division = Division { grain: one, block: one, partition_blocks: 4, staging };
        let specs = whole_blocks(division);
        let spec = Arc::clone(&specs.default);
        let mut state = State::new(specs, Extents::new(data, one, Ensembles::none()));
        state.spaces.insert(SpaceId(1), Directory::new(&spec, PAGE_PARTITIONS));
        let partition = Partition::new(SpaceId(1), &spec, Box::default(), Seq(0));
        state.add(A, partition).unwrap();
        let mut group = Group::new();
        group.modify(SpaceId(1), Modification { key: b"a", kind: PUT, bytes: b"b" });
        state.applied = Seq(8);
        state.begin_loading(Seq(7));
        state.load(Seq(7), &group.bytes).unwrap();
        let entry = |state: &mut State, entry: Entry<'_>| {
            let mut group = Vec::new();
            entry.encode(&mut group);
            state.apply(Seq(8), &group, &Kinds::new(), Seq(0)).unwrap();
        };
        // A sweep that is not logged takes no number.
        entry(&mut state, Entry::Seal { partition: A });
        let (chunk, first) = (Chunk::default(), Lbn(0));
        entry(&mut state, Entry::Staged { partition: A, chunk, first, combined: 0 });
        state.applied = Seq(8);
        state.end_loading();
        assert_eq!((state.applied, state.queued), (Seq(8), 0));
        assert_eq!(state.partition(A).unwrap().frontier, Seq(8));
        entry(&mut state, Entry::Seal { partition: A });
        assert!(state.partition(A).unwrap().sealed.is_some());
    }
}
