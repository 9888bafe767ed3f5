//! How the data device is divided: superblocks, and extents of any length after them.

use moirai_units::{BLOCK_BYTES, BlockCount, BlockRange, Lbn};

/// Blocks of a partition at most.
pub(crate) const PARTITION_BLOCKS_MAX: u32 = 64;

/// Bytes of a block at most.
pub(crate) const BLOCK_BYTES_MAX: u64 = 1 << 20;
/// Device blocks of a grain at most.
const GRAIN_BLOCKS_MAX: u64 = 1 << 11;

/// How the data device is divided.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Layout {
    /// The blocks for extents.
    pub(crate) data: BlockRange,
    /// Extents begin and end at multiples of so many device blocks: a physical block of the device.
    pub(crate) grain: BlockCount,
    /// Device blocks of one of the engine's blocks.
    pub(crate) block: BlockCount,
    /// Blocks of a partition at most.
    pub(crate) partition_blocks: u32,
    /// Device blocks of a partition's staged chunks at most.
    pub(crate) staging: BlockCount,
}

impl Layout {
    /// Whether all extents have addresses: a superblock that was read may say anything.
    pub(crate) fn is_addressable(&self) -> bool {
        let is_block = (1..=BLOCK_BYTES_MAX / BLOCK_BYTES).contains(&self.block.0);
        let is_partition = (1..=PARTITION_BLOCKS_MAX).contains(&self.partition_blocks);
        let is_grain = (1..=GRAIN_BLOCKS_MAX).contains(&self.grain.0);
        let is_data = self.data.first.0 < 1 << 32 && self.data.count.0 < 1 << 62;
        is_block && is_partition && is_grain && is_data && self.staging.0 < 1 << 24
    }

    /// The layout on the same device, which by now has `capacity`; the same where it is no longer.
    pub(crate) fn grown(self, capacity: BlockCount) -> Layout {
        let room = BlockCount(capacity.0.saturating_sub(self.data.first.0));
        Layout { data: BlockRange::new(self.data.first, room.max(self.data.count)), ..self }
    }

    pub(crate) fn block_bytes(&self) -> usize {
        self.block.bytes().0 as usize
    }

    pub(crate) fn staging_bytes(&self) -> usize {
        self.staging.bytes().0 as usize
    }

    /// Device blocks of `count` of the engine's blocks, rounded to grains.
    pub(crate) fn extent_of(&self, count: usize) -> BlockCount {
        self.rounded(BlockCount(self.block.0 * count as u64))
    }

    /// `blocks` rounded up to whole grains.
    pub(crate) fn rounded(&self, blocks: BlockCount) -> BlockCount {
        BlockCount(blocks.0.next_multiple_of(self.grain.0.max(1)))
    }

    /// The longest extent of a partition's blocks.
    pub(crate) fn partition(&self) -> BlockCount {
        self.extent_of(self.partition_blocks as usize)
    }

    pub(crate) fn partition_bytes(&self) -> usize {
        self.partition().bytes().0 as usize
    }

    /// Block `index` of an extent that begins at `first`.
    pub(crate) fn block_at(&self, first: Lbn, index: usize) -> BlockRange {
        BlockRange::new(first + BlockCount(self.block.0 * index as u64), self.block)
    }

    /// The first `count` blocks of an extent that begins at `first`.
    pub(crate) fn blocks_at(&self, first: Lbn, count: usize) -> BlockRange {
        BlockRange::new(first, BlockCount(self.block.0 * count as u64))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn layout_beyond_addresses_is_refused() {
        let layout = Layout {
            data: BlockRange::new(Lbn(16), BlockCount(9000)),
            grain: BlockCount(8),
            block: BlockCount(16),
            partition_blocks: 32,
            staging: BlockCount(512),
        };
        assert!(layout.is_addressable());
        let block = BlockCount(u64::MAX / 3);
        assert!(!Layout { block, ..layout }.is_addressable());
        assert!(!Layout { block: BlockCount::ZERO, ..layout }.is_addressable());
        assert!(!Layout { staging: block, ..layout }.is_addressable());
        assert!(!Layout { partition_blocks: 65, ..layout }.is_addressable());
        assert!(!Layout { grain: BlockCount::ZERO, ..layout }.is_addressable());
        let data = BlockRange::new(Lbn(16), BlockCount(u64::MAX - 20));
        assert!(!Layout { data, ..layout }.is_addressable());
    }
}
