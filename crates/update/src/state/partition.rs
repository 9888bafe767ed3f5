//! Partitions: neighbouring blocks of a space that lie in one extent and are swept together, with what is
//! pending for them.

use std::sync::Arc;

use crate::data::extents::Extent;
use crate::ids::{Seq, SpaceId};
use crate::state::block_table::BlockTable;
use crate::state::chunk::{Chunk, staged_blocks};
use crate::state::queue::Queue;

/// What a request costs beside its bytes, and what one more at the same time does: as much as so many bytes in a row.
/// Measured on flash, where 4 KiB take 90 us, two times 4 KiB at once 101 us, and 1 MB in a row 1 ms.
pub(crate) const REQUEST_BYTES: u64 = 96 << 10;
pub(crate) const REQUEST_MORE_BYTES: u64 = 12 << 10;

/// What was pending when a partition was sealed, and is on its way out of memory.
#[derive(Clone, Debug)]
pub(crate) struct Sealed {
    pub(crate) queue: Arc<Queue>,
    /// The group of the seal: all before it are in the queue, or were before.
    pub(crate) at: Seq,
    /// The oldest group that has something in the queue.
    pub(crate) since: Seq,
}

#[derive(Debug)]
pub(crate) struct Partition {
    pub(crate) space: SpaceId,
    pub(crate) low: Box<[u8]>,
    /// Where its blocks lie; `None` when it has none.
    pub(crate) extent: Option<Arc<Extent>>,
    pub(crate) blocks: Arc<BlockTable>,
    pub(crate) staged: Vec<Arc<Chunk>>,
    /// What reading what is staged has cost since blocks were written, in bytes transferred. Not in the log.
    pub(crate) paid_bytes: u64,
    /// All modifications of groups before this one are in the blocks, or staged.
    pub(crate) frontier: Seq,
    pub(crate) sealed: Option<Sealed>,
    pub(crate) active: Queue,
    /// The oldest group that has something in `active`.
    pub(crate) since: Seq,
}

impl Partition {
    pub(crate) fn new(space: SpaceId, low: Box<[u8]>, frontier: Seq) -> Partition {
        Partition {
            space,
            low,
            extent: None,
            blocks: Arc::default(),
            staged: Vec::new(),
            paid_bytes: 0,
            frontier,
            sealed: None,
            active: Queue::default(),
            since: Seq(u64::MAX),
        }
    }

    /// What it costs to read its blocks and what is staged, and to write its blocks anew: two reads and a write, and
    /// the work on it, which takes readers about as long again: 64 blocks of 4 KiB cost them some 2 ms, by few runs on
    /// flash whose speed varies.
    pub(crate) fn price_bytes(&self, block_bytes: usize) -> u64 {
        let blocks = (self.blocks.len() * block_bytes) as u64;
        2 * (2 * blocks + staged_blocks(&self.staged).bytes().0) + 3 * REQUEST_BYTES
    }

    /// Bytes of memory that say where its blocks and staged modifications lie.
    pub(crate) fn directory_bytes(&self) -> usize {
        let staged: usize = self.staged.iter().map(|chunk| chunk.memory_bytes()).sum();
        self.blocks.memory_bytes() + staged
    }

    /// The oldest group that it still needs the log for.
    pub(crate) fn oldest(&self) -> Option<Seq> {
        let active = (!self.active.is_empty()).then_some(self.since);
        // What comes of a seal is told behind the seal, also when nothing was pending.
        let sealed = self.sealed.as_ref().map(|sealed| sealed.since.min(sealed.at));
        sealed.into_iter().chain(active).min()
    }
}
