//! Where the blocks of a partition lie.

use moirai_units::{BlockCount, BlockRange, Lbn};

use crate::codec::{Taker, put_number};
use crate::data::extents::Extent;
use crate::data::layout::Layout;

/// Where the blocks of a partition lie: in one extent, or in several on a device whose free blocks are scattered.
#[derive(Debug, Default)]
pub(crate) struct Place(Vec<(Extent, Run)>);

/// Some of a partition's blocks: where they begin, and how many of the engine's blocks they are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Run {
    pub(crate) first: Lbn,
    pub(crate) count: u32,
}

impl Place {
    /// Adds the next `count` blocks, which lie in `extent`.
    pub(crate) fn push(&mut self, extent: Extent, count: u32) {
        let first = extent.first();
        self.0.push((extent, Run { first, count }));
    }

    pub(crate) fn runs(&self) -> impl Iterator<Item = Run> {
        self.0.iter().map(|(_, run)| *run)
    }

    /// The extents, each by itself.
    pub(crate) fn into_extents(self) -> impl Iterator<Item = Extent> {
        self.0.into_iter().map(|(extent, _)| extent)
    }

    /// The extent of a block, and which block of the extent it is.
    pub(crate) fn find(&self, mut block: usize) -> Option<(&Extent, usize)> {
        for (extent, run) in &self.0 {
            let count = run.count as usize;
            if block < count {
                return Some((extent, block));
            }
            block -= count;
        }
        None
    }

    /// The device blocks of a block.
    pub(crate) fn block_at(&self, layout: &Layout, block: usize) -> Option<BlockRange> {
        let (extent, index) = self.find(block)?;
        Some(layout.block_at(extent.first(), index))
    }

    /// The device blocks of each extent's blocks.
    pub(crate) fn ranges(&self, layout: &Layout) -> impl Iterator<Item = BlockRange> {
        self.runs().map(|run| layout.blocks_at(run.first, run.count as usize))
    }

    /// Device blocks of all extents.
    pub(crate) fn device_blocks(&self) -> BlockCount {
        self.0.iter().map(|(extent, _)| extent.blocks.count).sum()
    }

    /// Bytes of memory.
    pub(crate) fn memory_bytes(&self) -> usize {
        self.0.capacity() * size_of::<(Extent, Run)>()
    }
}

/// Appends runs of so many blocks together as the reader knows.
pub(crate) fn put_runs(out: &mut Vec<u8>, runs: impl Iterator<Item = Run>) {
    for run in runs {
        put_number(out, run.first.0);
        put_number(out, u64::from(run.count));
    }
}

/// Runs that have `blocks` together.
pub(crate) fn take_runs(taker: &mut Taker<'_>, blocks: usize) -> Option<Vec<Run>> {
    let mut runs = Vec::new();
    let mut left = blocks;
    while left > 0 {
        let run = Run { first: Lbn(taker.number()?), count: taker.number32()? };
        left = left.checked_sub(run.count as usize).filter(|_| run.count > 0)?;
        runs.push(run);
    }
    Some(runs)
}
