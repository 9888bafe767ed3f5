//! Partitions: neighbouring blocks of a space that lie in one extent and are swept together, with what is
//! pending for them.

use std::sync::Arc;

use moirai_extents::Extent;
use moirai_units::BlockCount;

use crate::data::place::{Place, TablePlace};
use crate::data::strips::Run;
use crate::ids::{PointNumber, Seq, SpaceId};
use crate::spec::Spec;
use crate::state::chunk::Chunk;
use crate::state::queue::Queue;

/// What a request costs beside its bytes, and what one more at the same time does: as much as so many bytes in a row.
/// Measured on flash, where 4 KiB take 90 us, two times 4 KiB at once 101 us, and 1 MB in a row 1 ms.
pub(crate) const REQUEST_BYTES: u64 = 96 << 10;
pub(crate) const REQUEST_MORE_BYTES: u64 = 12 << 10;
/// What merging a modification into a value takes: 200 ns for one that adds to a field of a row, measured in TPC-C. A deleted
/// row that a scan of few rows passes counts as much, which was not measured. The first of each read are for nothing.
pub(crate) const MERGED_NS: u64 = 200;
pub(crate) const MERGED_FREE: usize = 8;

/// What a partition takes in memory beside what it holds, and a chunk: what the allocator needs, about 16 bytes for each
/// part, counts of references, and places in lists.
const PARTITION_MORE_BYTES: usize = 4 * 16;
const STAGED_MORE_BYTES: usize = 6 * 16;

/// What was pending when a partition was sealed, and is on its way out of memory.
#[derive(Clone, Debug)]
pub(crate) struct Sealed {
    pub(crate) queue: Arc<Queue>,
    /// The group of the seal: all before it are in the queue, or were before.
    pub(crate) at: Seq,
    /// The oldest group that has something in the queue.
    pub(crate) since: Seq,
    /// The newest read point that had not ended when it was sealed.
    pub(crate) points: PointNumber,
}

/// A chunk, and where it lies.
#[derive(Debug)]
pub(crate) struct Staged {
    pub(crate) chunk: Chunk,
    pub(crate) extent: Extent,
}

/// Device blocks that chunks take.
pub(crate) fn staged_blocks<'a>(chunks: impl IntoIterator<Item = &'a Arc<Staged>>) -> BlockCount {
    chunks.into_iter().map(|staged| staged.extent.blocks.count).sum()
}

#[derive(Debug)]
pub(crate) struct Partition {
    pub(crate) space: SpaceId,
    pub(crate) low: Box<[u8]>,
    /// Where its blocks lie.
    pub(crate) place: Arc<Place>,
    /// Oldest first.
    pub(crate) staged: Vec<Arc<Staged>>,
    /// What reading what is pending and staged has cost since blocks were written, in bytes transferred. Not in the log.
    pub(crate) paid_bytes: u64,
    /// Its blocks, or what is staged, could not be read: they stay as they are, and more is staged. Not in the log.
    pub(crate) is_set_aside: bool,
    /// All modifications of groups before this one are in the blocks, or staged.
    pub(crate) frontier: Seq,
    /// Read points up to this one do not see the partition, but versions of what was here before.
    pub(crate) covered: PointNumber,
    pub(crate) sealed: Option<Sealed>,
    pub(crate) active: Queue,
    /// The oldest group that has something in `active`.
    pub(crate) since: Seq,
    /// What the state's index of these says of [`Partition::oldest`].
    pub(crate) indexed: Option<Seq>,
}

impl Staged {
    /// Bytes of memory.
    pub(crate) fn memory_bytes(&self) -> usize {
        Staged::bytes_of(&self.chunk)
    }

    /// The same of a chunk that is not staged yet.
    pub(crate) fn bytes_of(chunk: &Chunk) -> usize {
        chunk.memory_bytes() + size_of::<Extent>() + STAGED_MORE_BYTES
    }
}

impl Partition {
    pub(crate) fn new(
        space: SpaceId,
        spec: &Arc<Spec>,
        low: Box<[u8]>,
        frontier: Seq,
    ) -> Partition {
        Partition {
            space,
            low,
            place: Arc::new(Place::empty(spec)),
            staged: Vec::new(),
            paid_bytes: 0,
            is_set_aside: false,
            frontier,
            covered: PointNumber::default(),
            sealed: None,
            active: Queue::default(),
            since: Seq(u64::MAX),
            indexed: None,
        }
    }

    /// What it costs to read its blocks and what is staged, and to write its blocks anew: two reads and a write, and
    /// the work on it, which takes readers about as long again: 64 blocks of 4 KiB cost them some 2 ms, by few runs on
    /// flash whose speed varies.
    pub(crate) fn price_bytes(&self) -> u64 {
        let blocks = (self.place.blocks() * self.place.block_bytes()) as u64;
        2 * (2 * blocks + staged_blocks(&self.staged).bytes().0) + 3 * REQUEST_BYTES
    }

    /// What is pending in memory, in two queues, the older first.
    pub(crate) fn queues(&self) -> impl Iterator<Item = &Queue> {
        let sealed = self.sealed.as_ref().map(|sealed| &*sealed.queue);
        sealed.into_iter().chain(std::iter::once(&self.active))
    }

    /// Whether something is pending or staged.
    pub(crate) fn has_waiting(&self) -> bool {
        !self.staged.is_empty() || !self.active.is_empty() || self.sealed.is_some()
    }

    /// Whether it holds nothing at all.
    pub(crate) fn is_empty(&self) -> bool {
        self.place.blocks() == 0 && !self.has_waiting()
    }

    /// Bytes of memory, without its queues.
    pub(crate) fn directory_bytes(&self) -> usize {
        Partition::bytes_of(&self.low, &self.place, &self.staged)
    }

    /// The same of one that begins with the key `low`.
    pub(crate) fn bytes_of(low: &[u8], place: &Place, staged: &[Arc<Staged>]) -> usize {
        let staged: usize = staged.iter().map(|staged| staged.memory_bytes()).sum();
        size_of::<Partition>() + PARTITION_MORE_BYTES + low.len() + place.memory_bytes() + staged
    }

    /// The same of one that is to be written in one run.
    pub(crate) fn bytes_in_one_run(low: &[u8], table: &TablePlace) -> usize {
        let place = size_of::<Place>() + size_of::<Extent>() + size_of::<Run>();
        size_of::<Partition>() + PARTITION_MORE_BYTES + low.len() + place + table.memory_bytes()
    }

    /// The oldest group that it still needs the log for.
    pub(crate) fn oldest(&self) -> Option<Seq> {
        let active = (!self.active.is_empty()).then_some(self.since);
        // What comes of a seal is told behind the seal, also when nothing was pending.
        let sealed = self.sealed.as_ref().map(|sealed| sealed.since.min(sealed.at));
        sealed.into_iter().chain(active).min()
    }
}
