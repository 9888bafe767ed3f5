//! How the blocks of a space are divided into partitions and extents.

use moirai_units::{BLOCK_BYTES, BlockCount, ByteCount};

use crate::limits::{BLOCK_BYTES_MAX, PARTITION_BLOCKS_MAX};

/// Device blocks of a grain at most.
const GRAIN_BLOCKS_MAX: u64 = 1 << 11;

/// How the blocks of a space are divided.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Division {
    /// Extents begin and end at multiples of so many device blocks: a physical block of the device.
    pub(crate) grain: BlockCount,
    /// Device blocks of one of the engine's blocks.
    pub(crate) block: BlockCount,
    /// Blocks of a partition at most.
    pub(crate) partition_blocks: u32,
    /// Device blocks of a partition's staged chunks at most.
    pub(crate) staging: BlockCount,
}

impl Division {
    /// What a program asks for; the problem where it cannot be.
    pub(crate) fn of(
        block_bytes: ByteCount,
        partition_blocks: u32,
        staging_percent: u32,
        grain: BlockCount,
    ) -> Result<Division, String> {
        let is_whole = block_bytes.0.is_multiple_of(BLOCK_BYTES) && block_bytes.0 > 0;
        if !is_whole || block_bytes.0 > BLOCK_BYTES_MAX {
            return Err(format!(
                "a block cannot have {block_bytes}: take a multiple of 512 bytes, up to 1 MiB"
            ));
        }
        if partition_blocks == 0 || partition_blocks > PARTITION_BLOCKS_MAX {
            return Err(format!(
                "a partition cannot have {partition_blocks} blocks: take 1 to {PARTITION_BLOCKS_MAX}"
            ));
        }
        if staging_percent > 1000 {
            return Err(format!(
                "{staging_percent} percent for staging are too much: take at most 1000"
            ));
        }
        let block = BlockCount(block_bytes.0 / BLOCK_BYTES);
        let staging = block.0 * u64::from(partition_blocks) * u64::from(staging_percent) / 100;
        Ok(Division { grain, block, partition_blocks, staging: BlockCount(staging) })
    }

    /// Whether its extents have addresses: what was read may say anything.
    pub(crate) fn is_addressable(&self) -> bool {
        let is_block = (1..=BLOCK_BYTES_MAX / BLOCK_BYTES).contains(&self.block.0);
        let is_partition = (1..=PARTITION_BLOCKS_MAX).contains(&self.partition_blocks);
        let is_grain = (1..=GRAIN_BLOCKS_MAX).contains(&self.grain.0);
        is_block && is_partition && is_grain && self.staging.0 < 1 << 24
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
}
