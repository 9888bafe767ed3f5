//! Jobs: sealed partitions that are staged or rewritten at once.

use std::sync::Arc;

use moirai_units::BlockCount;

use crate::data::place::Place;
use crate::ids::{PartitionId, PointNumber};
use crate::long::sweep::has_references;
use crate::records::Records;
use crate::spec::Spec;
use crate::state::partition::{Partition, Sealed, Staged, staged_blocks};

/// Partitions of a batch, after which the data device is flushed.
pub(super) const BATCH_PARTITIONS: usize = 64;

/// Chunks that are combined have no more than this part of the memory together, and no more than so many bytes; or than two
/// partitions have, if that is more.
const COMBINED_SHARE: usize = 16;
const COMBINED_BYTES_MAX: usize = 4 << 20;

/// A partition that is sealed.
pub(super) struct Member {
    pub(super) id: PartitionId,
    pub(super) low: Box<[u8]>,
    pub(super) sealed: Sealed,
    /// Where its blocks lie: not free before those that replace them are durable.
    pub(super) place: Arc<Place>,
    pub(super) staged: Vec<Arc<Staged>>,
    /// Its blocks, or what is staged for it, could not be read before: they are left as they are.
    pub(super) is_set_aside: bool,
    /// See [`Partition::covered`].
    pub(super) covered: PointNumber,
    /// For readers of read points: what was sealed, once it is written.
    pub(super) history: Option<Arc<Staged>>,
}

/// The records for one partition.
pub(super) struct IngestPart {
    pub(super) records: Records,
    /// Whether the last of them may be left for the next batch.
    pub(super) is_open: bool,
    /// Once they are placed, those before this key are; all when there is none.
    pub(super) end: Option<Box<[u8]>>,
}

/// What is done at once.
pub(super) struct Job {
    /// One partition, or neighbours that are merged.
    pub(super) members: Vec<Member>,
    /// Whether to rewrite blocks although more could be staged.
    pub(super) is_to_place: bool,
    /// Whether nothing is kept of it; see `clear`.
    pub(super) is_to_clear: bool,
    /// Records that go into its blocks after all that is sealed.
    pub(super) ingest: Option<IngestPart>,
    /// Whether it brings modifications of a bulk group to blocks; see `absorb`.
    pub(super) is_of_bulk: bool,
    /// Whether nobody waits for it.
    pub(super) is_optional: bool,
    /// Whether the log holds the seal.
    pub(super) is_logged: bool,
}

impl Job {
    /// Bytes that it takes, about, beside its queues, if it goes as it is expected to, of so many for all.
    pub(super) fn working_bytes(&self, memory_bytes: usize) -> usize {
        let queued = self.queued_bytes();
        // Where a queue lies in its order, its chunk, and the chunk on its way to the device.
        let to_stage = queued / 2 + 2 * queued;
        if let ([member], false, None) = (&self.members[..], self.is_to_clear, &self.ingest)
            && member.is_set_aside
        {
            // Chunks that are combined are read first.
            let staged = staged_blocks(&member.staged).bytes().0 as usize;
            return to_stage + 3 * staged.min(member.combined_bytes_max(memory_bytes));
        }
        let has_blocks = self.members.iter().any(|one| one.place.blocks() > 0);
        let may_stage = |spec: Arc<Spec>| spec.division.staging > BlockCount::ZERO;
        let is_staged =
            !self.is_to_place && self.ingest.is_none() && self.spec().is_none_or(may_stage);
        match self.is_to_clear || (is_staged && has_blocks) {
            true => to_stage,
            false => self.placing_bytes(),
        }
    }

    /// Bytes that it takes to place it.
    pub(super) fn placing_bytes(&self) -> usize {
        let member = |one: &Member| {
            // The blocks as they were, as they come to be, and on their way to the device.
            let blocks = 3 * one.place.blocks() * one.place.block_bytes();
            blocks + staged_blocks(&one.staged).bytes().0 as usize
        };
        let blocks: usize = self.members.iter().map(member).sum();
        let partition_bytes = self.spec().map_or(0, |spec| spec.division.partition_bytes());
        let queued = self.queued_bytes();
        // New blocks are written once there are enough for two partitions.
        let new = queued.min(2 * partition_bytes);
        blocks + queued / 2 + 2 * new
    }
}

impl Member {
    /// Bytes of chunks that are combined with what was sealed, at most.
    pub(super) fn combined_bytes_max(&self, memory_bytes: usize) -> usize {
        let partition_bytes = self.place.spec().division.partition_bytes();
        (memory_bytes / COMBINED_SHARE).min(COMBINED_BYTES_MAX).max(2 * partition_bytes)
    }
}

impl Member {
    pub(super) fn of(id: PartitionId, partition: &Partition) -> Option<Member> {
        Some(Member {
            id,
            low: partition.low.clone(),
            sealed: partition.sealed.clone()?,
            place: Arc::clone(&partition.place),
            staged: partition.staged.clone(),
            is_set_aside: partition.is_set_aside,
            covered: partition.covered,
            history: None,
        })
    }
}

impl Member {
    /// Whether something of it refers to a long value.
    pub(super) fn has_long(&self) -> bool {
        let has_chunk = self.staged.iter().any(|staged| has_references(staged));
        self.place.has_long() || has_chunk || self.sealed.queue.has_long()
    }
}

impl Job {
    /// Bytes of its queues, and of records that are ingested.
    pub(super) fn queued_bytes(&self) -> usize {
        let ingested = self.ingest.as_ref().map_or(0, |part| part.records.bytes());
        self.members.iter().map(|one| one.sealed.queue.bytes()).sum::<usize>() + ingested
    }

    /// What the blocks of its space are.
    pub(super) fn spec(&self) -> Option<Arc<Spec>> {
        self.members.first().map(|first| Arc::clone(first.place.spec()))
    }

    /// Device blocks of its blocks and staged chunks.
    pub(super) fn blocks(&self) -> u64 {
        let blocks = |one: &Member| one.place.device_blocks() + staged_blocks(&one.staged);
        self.members.iter().map(|one| blocks(one).0).sum()
    }

    /// A sweep of a partition that is sealed, as the log says.
    pub(super) fn of_sealed(member: Member) -> Job {
        Job {
            members: vec![member],
            is_to_place: false,
            is_to_clear: false,
            ingest: None,
            is_of_bulk: false,
            is_optional: false,
            is_logged: true,
        }
    }

    /// A job for each of its partitions.
    pub(super) fn split(self) -> impl DoubleEndedIterator<Item = Job> {
        let Job { members, is_of_bulk, is_optional, is_logged, .. } = self;
        members.into_iter().map(move |member| Job {
            members: vec![member],
            is_to_place: false,
            is_to_clear: false,
            ingest: None,
            is_of_bulk,
            is_optional,
            is_logged,
        })
    }
}
