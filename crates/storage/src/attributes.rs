//! What a device says of itself and of its block space.

use moirai_units::{BlockCount, BlockRange, Lbn};

use crate::{Error, Result};

/// The device as a whole (`sif_inquiry`, and what a real device adds).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Inquiry {
    /// How messages name the device: its URI.
    pub name: String,
    /// Blocks on the device.
    pub capacity: BlockCount,
    /// Parallelism p: how many blocks can be accessed at the same time (thesis 6.2.1).
    pub parallelism: u32,
    /// Depth d: how many blocks of one device can be accessed for one positioning cost.
    pub depth: u32,
    /// The unit of allocation, b blocks: requests aligned to it are served without extra work.
    pub volume_block: BlockCount,
    /// The unit that is written wholly or not at all when power fails.
    pub atomic_write: BlockCount,
    /// The physical sector: so many blocks, counted from block 0, are written by the medium as one. A power
    /// failure during a write may damage every physical sector that the write touches, also blocks of it that
    /// were durable and that the write leaves alone. A power of two; 1 where nothing else is known.
    pub physical_block: BlockCount,
    /// The granularity of [`discard`](crate::Device::discard): so many blocks, counted from block 0, are freed
    /// together. `None` where discarding frees nothing, so that there is no use in it.
    pub discard: Option<BlockCount>,
    /// Whether blocks that are free had better be discarded soon: flash moves whatever it takes for live before it erases
    /// what lies beside it. Of other devices a discard only saves space, and can wait until nobody uses them.
    pub wants_discards: bool,
    /// Whether written data can be lost at a power failure until [`flush`](crate::Device::flush).
    pub volatile_cache: bool,
    /// Whether the device refuses writes.
    pub read_only: bool,
    /// Whether the device keeps what is written; one that does not only simulates the timing.
    pub keeps_data: bool,
}

impl Inquiry {
    /// The whole block space.
    #[must_use]
    pub fn all_blocks(&self) -> BlockRange {
        BlockRange::new(Lbn(0), self.capacity)
    }

    /// An error unless the device has all of `blocks`.
    pub fn check_blocks(&self, blocks: BlockRange) -> Result<()> {
        let end = blocks.first.0.checked_add(blocks.count.0);
        if end.is_some_and(|end| end <= self.capacity.0) {
            return Ok(());
        }
        Err(Error::PastEnd { device: self.name.clone(), blocks, capacity: self.capacity })
    }

    /// The part of `blocks` that a discard frees: its whole granules; none where a discard frees nothing.
    /// An error when the device has not all of `blocks`, or is read-only. Every discard calls this first.
    pub fn discardable(&self, blocks: BlockRange) -> Result<BlockRange> {
        self.check_blocks(blocks)?;
        if self.read_only {
            return Err(Error::ReadOnly { device: self.name.clone() });
        }
        let Some(granule) = self.discard.filter(|granule| *granule > BlockCount::ZERO) else {
            return Ok(BlockRange::new(blocks.first, BlockCount::ZERO));
        };
        let whole = |lbn: u64| lbn.div_ceil(granule.0) * granule.0;
        let first = whole(blocks.first.0);
        // The last granule of the device may be a shorter one.
        let end = match blocks.end().0 {
            end if end == self.capacity.0 => end,
            end => end / granule.0 * granule.0,
        };
        Ok(BlockRange::new(Lbn(first), BlockCount(end.saturating_sub(first))))
    }
}

/// A run of blocks between two access delay boundaries: most efficient when accessed whole.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ensemble {
    /// The blocks between the boundaries.
    pub blocks: BlockRange,
    /// The delay of crossing the upper boundary, as the number of blocks that could have been
    /// accessed meanwhile: H of thesis 6.3.3. Zero where nothing is lost, or nothing is known.
    pub switch: BlockCount,
}

/// Blocks that can be accessed together: the p x d matrix of thesis 6.2.3.
///
/// `lbns` holds the matrix row by row. The p blocks of a row can be accessed in parallel; the d
/// blocks of a column can be accessed semi-sequentially, for one positioning cost.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EquivalenceClass {
    /// The members, p to a row. Two classes are the same set or share no block.
    pub lbns: Vec<Lbn>,
    /// Members in a row, p.
    pub parallelism: u32,
}

impl EquivalenceClass {
    /// A block that has no equals.
    #[must_use]
    pub fn single(lbn: Lbn) -> Self {
        EquivalenceClass { lbns: vec![lbn], parallelism: 1 }
    }

    /// The members column by column: first the d blocks of the first column.
    pub fn by_column(&self) -> impl Iterator<Item = Lbn> + '_ {
        let parallelism = self.parallelism as usize;
        (0..parallelism)
            .flat_map(move |column| self.lbns.iter().skip(column).step_by(parallelism).copied())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_discard_frees_whole_granules() {
        let inquiry = |discard: Option<u64>, read_only| Inquiry {
            name: "d".into(),
            capacity: BlockCount(100),
            parallelism: 1,
            depth: 1,
            volume_block: BlockCount(1),
            atomic_write: BlockCount(1),
            physical_block: BlockCount(1),
            discard: discard.map(BlockCount),
            wants_discards: false,
            volatile_cache: true,
            read_only,
            keeps_data: true,
        };
        let range = |first, count| BlockRange::new(Lbn(first), BlockCount(count));
        let freed = |granule, first, count| {
            inquiry(granule, false).discardable(range(first, count)).unwrap()
        };
        assert_eq!(freed(Some(1), 3, 10), range(3, 10));
        assert_eq!(freed(Some(8), 3, 10), range(8, 0));
        assert_eq!(freed(Some(8), 3, 13), range(8, 8));
        assert_eq!(freed(Some(8), 16, 24), range(16, 24));
        assert!(freed(Some(8), 1, 3).is_empty());
        assert!(freed(None, 0, 100).is_empty());
        // 100 blocks end with half a granule.
        assert_eq!(freed(Some(8), 90, 10), range(96, 4));
        assert!(freed(Some(8), 97, 3).is_empty());
        let past = inquiry(None, false).discardable(range(99, 2));
        assert!(matches!(past, Err(Error::PastEnd { .. })));
        let huge = inquiry(None, false).discardable(range(u64::MAX, 2));
        assert!(matches!(huge, Err(Error::PastEnd { .. })));
        let kept = inquiry(Some(1), true).discardable(range(0, 1));
        assert!(matches!(kept, Err(Error::ReadOnly { .. })));
    }
}
