//! How the data device is divided.

use moirai_units::{BLOCK_BYTES, BlockCount, BlockRange, Lbn};

/// Blocks that a partition has at most.
pub(crate) const PARTITION_BLOCKS_MAX: u32 = 64;

/// Extents that partitions leave free: checkpoints need some, and free others.
pub(crate) const EXTENTS_RESERVE: usize = 2;

/// Bytes of a block at most.
pub(crate) const BLOCK_BYTES_MAX: u64 = 1 << 20;

/// How the data device is divided.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Division {
    /// Where the first extent begins.
    pub(crate) first: Lbn,
    pub(crate) extents: u32,
    /// Device blocks of one of the engine's blocks.
    pub(crate) block: BlockCount,
    pub(crate) partition_blocks: u32,
    pub(crate) staging: BlockCount,
}

impl Division {
    /// Whether all extents have addresses: one that was read may say anything.
    pub(crate) fn is_addressable(&self) -> bool {
        let is_block = (1..=BLOCK_BYTES_MAX / BLOCK_BYTES).contains(&self.block.0);
        let is_partition = (1..=PARTITION_BLOCKS_MAX).contains(&self.partition_blocks);
        is_block && is_partition && self.staging.0 < 1 << 24 && self.first.0 < 1 << 32
    }

    pub(crate) fn extent(&self) -> BlockCount {
        BlockCount(self.block.0 * u64::from(self.partition_blocks) + self.staging.0)
    }

    pub(crate) fn block_bytes(&self) -> usize {
        self.block.bytes().0 as usize
    }

    pub(crate) fn staging_bytes(&self) -> usize {
        self.staging.bytes().0 as usize
    }

    pub(crate) fn extent_bytes(&self) -> usize {
        self.extent().bytes().0 as usize
    }

    pub(crate) fn first_of(&self, extent: u32) -> Lbn {
        self.first + BlockCount(self.extent().0 * u64::from(extent))
    }

    /// The first `count` blocks of an extent.
    pub(crate) fn blocks(&self, extent: u32, count: usize) -> BlockRange {
        BlockRange::new(self.first_of(extent), BlockCount(self.block.0 * count as u64))
    }

    pub(crate) fn block_at(&self, extent: u32, block: usize) -> BlockRange {
        let before = BlockCount(self.block.0 * block as u64);
        BlockRange::new(self.first_of(extent) + before, self.block)
    }

    /// `count` device blocks of the staging area, behind the first `from`.
    pub(crate) fn staging_at(
        &self,
        extent: u32,
        from: BlockCount,
        count: BlockCount,
    ) -> BlockRange {
        let area = BlockCount(self.block.0 * u64::from(self.partition_blocks));
        BlockRange::new(self.first_of(extent) + area + from, count)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_has_no_addresses_is_told() {
        let division = Division {
            first: Lbn(16),
            extents: 9,
            block: BlockCount(16),
            partition_blocks: 32,
            staging: BlockCount(512),
        };
        assert!(division.is_addressable());
        let block = BlockCount(u64::MAX / 3);
        assert!(!Division { block, ..division }.is_addressable());
        assert!(!Division { block: BlockCount::ZERO, ..division }.is_addressable());
        assert!(!Division { staging: block, ..division }.is_addressable());
        assert!(!Division { partition_blocks: 65, ..division }.is_addressable());
    }
}
