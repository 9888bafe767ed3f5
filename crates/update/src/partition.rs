//! Partitions: neighbouring blocks of a space that lie in one extent and are swept together, with what is
//! pending for them.

use std::cmp::Ordering;
use std::sync::Arc;

use crate::chunk::{Chunk, staged_blocks};
use crate::codec::{Taker, prefix_of, put_bytes, put_number};
use crate::extents::Extent;
use crate::queue::Queue;
use crate::{Seq, SpaceId};

/// Blocks that a partition has at most.
pub(crate) const PARTITION_BLOCKS_MAX: u32 = 64;

/// What a request costs beside its bytes, and what one more at the same time does: as much as so many bytes in a row.
/// Measured on flash, where 4 KiB take 90 us, two times 4 KiB at once 101 us, and 1 MB in a row 1 ms.
pub(crate) const REQUEST_BYTES: u64 = 96 << 10;
pub(crate) const REQUEST_MORE_BYTES: u64 = 12 << 10;

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct PartitionId(pub(crate) u32);

/// The blocks of a partition: the lowest key of each, and its checksum.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct BlockTable {
    keys: Box<[u8]>,
    /// Where the key of each block ends.
    ends: Box<[u32]>,
    checksums: Box<[u32]>,
}

impl BlockTable {
    pub(crate) fn new<'a>(blocks: impl Iterator<Item = (&'a [u8], u32)>) -> BlockTable {
        let (mut keys, mut ends, mut checksums) = (Vec::new(), Vec::new(), Vec::new());
        for (low, checksum) in blocks {
            keys.extend_from_slice(low);
            ends.push(keys.len() as u32);
            checksums.push(checksum);
        }
        BlockTable { keys: keys.into(), ends: ends.into(), checksums: checksums.into() }
    }

    pub(crate) fn len(&self) -> usize {
        self.ends.len()
    }

    pub(crate) fn low(&self, block: usize) -> &[u8] {
        let first = block.checked_sub(1).and_then(|before| self.ends.get(before));
        let end = self.ends.get(block).copied().unwrap_or(0);
        self.keys.get(first.copied().unwrap_or(0) as usize..end as usize).unwrap_or_default()
    }

    pub(crate) fn checksum(&self, block: usize) -> u32 {
        self.checksums.get(block).copied().unwrap_or(0)
    }

    /// The block that holds `key`, if there are any: the first one holds all that come before it, too.
    pub(crate) fn holding(&self, key: &[u8]) -> usize {
        let prefix = prefix_of(key);
        let is_before = |low: &[u8]| match prefix_of(low).cmp(&prefix) {
            Ordering::Equal => low <= key,
            order => order.is_lt(),
        };
        let (mut first, mut end) = (0, self.len());
        while first < end {
            let middle = first.midpoint(end);
            match is_before(self.low(middle)) {
                true => first = middle + 1,
                false => end = middle,
            }
        }
        first.saturating_sub(1)
    }

    pub(crate) fn memory_bytes(&self) -> usize {
        self.keys.len() + 8 * self.len() + 96
    }

    pub(crate) fn encode(&self, out: &mut Vec<u8>) {
        put_number(out, self.len() as u64);
        for block in 0..self.len() {
            put_bytes(out, self.low(block));
            out.extend_from_slice(&self.checksum(block).to_le_bytes());
        }
    }

    pub(crate) fn take(taker: &mut Taker<'_>) -> Option<BlockTable> {
        let count = taker.number()?;
        if count > u64::from(PARTITION_BLOCKS_MAX) {
            return None;
        }
        let mut blocks = Vec::new();
        for _ in 0..count {
            blocks.push((taker.bytes()?, taker.le32()?));
        }
        Some(BlockTable::new(blocks.into_iter()))
    }
}

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
