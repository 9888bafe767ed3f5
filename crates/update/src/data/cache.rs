//! Blocks that were read, kept in the memory that pending modifications leave.

use std::ops::Range;
use std::sync::Arc;

use bytes::Bytes;
use lru::LruCache;
use moirai_extents::Extent;
use parking_lot::Mutex;

use crate::state::pieces::PIECE_BYTES;

/// What keeping a block takes beside its pieces, and a piece beside its bytes, about.
const ENTRY_BYTES: usize = 128;
const PIECE_MORE_BYTES: usize = 40;
/// Of so many runs of blocks that are read while there is no room one is kept in the place of others: those that are read often
/// come in soon, and those that are not cost little.
const KEPT_OF: u64 = 4;

/// Blocks by where they lie, of which those that nobody asked for longest go first.
#[derive(Debug)]
pub(crate) struct Cache(Mutex<Kept>);

#[derive(Debug)]
struct Kept {
    /// By the number of the extent and that of the block in it. Nothing is written over, so that they never change;
    /// those of extents that were left go in their turn.
    blocks: LruCache<(u64, usize), Pieces>,
    bytes: usize,
    /// How many found no room.
    asked: u64,
}

/// A block in pieces as queues have them: what these leave, here and there, is of that size.
type Pieces = Arc<[Box<[u8]>]>;

/// Bytes of memory for a block.
fn bytes_of(block_bytes: usize) -> usize {
    block_bytes + block_bytes.div_ceil(PIECE_BYTES) * PIECE_MORE_BYTES + ENTRY_BYTES
}

impl Cache {
    pub(crate) fn new() -> Cache {
        Cache(Mutex::new(Kept { blocks: LruCache::unbounded(), bytes: 0, asked: 0 }))
    }

    /// Bytes of memory that it takes.
    pub(crate) fn bytes(&self) -> usize {
        self.0.lock().bytes
    }

    /// The content of neighbouring blocks, in order; `None` unless the cache holds all of them.
    pub(crate) fn get(&self, extent: &Extent, blocks: Range<usize>) -> Option<Bytes> {
        let found: Vec<Pieces> = {
            let mut kept = self.0.lock();
            let kept = |block| kept.blocks.get(&(extent.number, block)).cloned();
            blocks.map(kept).collect::<Option<_>>()?
        };
        let pieces: Vec<&[u8]> =
            found.iter().flat_map(|block| &**block).map(|one| &**one).collect();
        Some(Bytes::from(pieces.concat()))
    }

    /// Whether a block is kept.
    pub(crate) fn has(&self, extent: &Extent, block: usize) -> bool {
        self.0.lock().blocks.contains(&(extent.number, block))
    }

    /// Keeps neighbouring blocks, which are as long as each other, in `bytes_max` bytes: all of them, or none.
    pub(crate) fn keep(
        &self,
        extent: &Extent,
        blocks: Range<usize>,
        content: &[u8],
        bytes_max: usize,
    ) {
        let block_bytes = content.len() / blocks.len().max(1);
        let mut kept = self.0.lock();
        let missing: Vec<(usize, &[u8])> = blocks
            .zip(content.chunks(block_bytes.max(1)))
            .filter(|(block, _)| !kept.blocks.contains(&(extent.number, *block)))
            .collect();
        let bytes = missing.len() * bytes_of(block_bytes);
        let Some(others_max) = bytes_max.checked_sub(bytes).filter(|_| bytes > 0) else { return };
        if kept.bytes > others_max {
            kept.asked += 1;
            // Not each fourth: who reads in turns would find the same ones kept.
            if kept.asked.wrapping_mul(0x9e37_79b9_7f4a_7c15) > u64::MAX / KEPT_OF {
                return;
            }
            kept.shrink(others_max);
        }
        for (block, content) in missing {
            let pieces: Pieces = content.chunks(PIECE_BYTES).map(Box::from).collect();
            kept.blocks.put((extent.number, block), pieces);
        }
        kept.bytes += bytes;
    }

    /// Lets go of what is more than `bytes_max` bytes.
    pub(crate) fn shrink(&self, bytes_max: usize) {
        self.0.lock().shrink(bytes_max);
    }
}

impl Kept {
    fn shrink(&mut self, bytes_max: usize) {
        while self.bytes > bytes_max
            && let Some((_, block)) = self.blocks.pop_lru()
        {
            self.bytes -= bytes_of(block.iter().map(|piece| piece.len()).sum());
        }
    }
}

#[cfg(test)]
mod tests {
    use moirai_units::{BlockCount, BlockRange, Lbn};

    use super::*;
    use moirai_extents::{Ensembles, Extents};

    const BLOCK: usize = 2500;

    #[test]
    fn those_that_nobody_asked_for_longest_go_first() {
        let count = BlockCount(64);
        let extents =
            Extents::new(BlockRange::new(Lbn(0), count), BlockCount(1), Ensembles::none());
        let extent = extents.take(count, BlockCount::ZERO).unwrap();
        let cache = Cache::new();
        let room = 3 * bytes_of(BLOCK);
        for block in 0..3 {
            cache.keep(&extent, block..block + 1, &[block as u8; BLOCK], room);
        }
        assert_eq!(cache.get(&extent, 0..1).as_deref(), Some(&[0; BLOCK][..]));
        // Not at once: the others may be asked for more often.
        cache.keep(&extent, 3..4, &[3; BLOCK], room);
        assert!(!cache.has(&extent, 3));
        (0..4 * KEPT_OF).for_each(|_| cache.keep(&extent, 3..4, &[3; BLOCK], room));
        assert_eq!((cache.get(&extent, 1..2), cache.bytes()), (None, room));
        assert!(cache.has(&extent, 3) && cache.has(&extent, 0));
        cache.keep(&extent, 3..4, &[3; BLOCK], room);
        assert_eq!(cache.bytes(), room);
        cache.keep(&extent, 4..5, &[4; BLOCK], BLOCK);
        assert_eq!(cache.get(&extent, 4..5), None);
        cache.shrink(bytes_of(BLOCK));
        assert!(cache.get(&extent, 3..4).is_some() && cache.get(&extent, 0..1).is_none());
        // The same place, and another extent.
        let first = extent.first();
        drop(extent);
        let extent = extents.take(count, BlockCount::ZERO).unwrap();
        assert_eq!((extent.first(), cache.get(&extent, 3..4)), (first, None));
        assert_eq!(Arc::strong_count(&extents), 2);
    }
}
