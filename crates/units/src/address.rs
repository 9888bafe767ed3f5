//! Logical block addresses and ranges of them.

use std::fmt;
use std::ops::{Add, AddAssign, Sub};

use crate::ByteCount;

/// Bytes in one block of the storage interface (`SIF_BLOCK_SIZE`, thesis appendix B).
pub const BLOCK_BYTES: u64 = 512;

/// A logical block number: the address of one block of [`BLOCK_BYTES`] on a device or volume.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Lbn(pub u64);

/// A number of blocks of [`BLOCK_BYTES`] each.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct BlockCount(pub u64);

impl Lbn {
    /// Byte offset of the block from the start of its device.
    #[must_use]
    pub fn byte_offset(self) -> u64 {
        self.0.saturating_mul(BLOCK_BYTES)
    }

    /// Blocks from `origin` up to this address. `origin` must not lie behind it.
    #[must_use]
    pub fn since(self, origin: Lbn) -> BlockCount {
        assert!(origin <= self, "{origin} lies behind {self}");
        BlockCount(self.0 - origin.0)
    }
}

impl BlockCount {
    /// No blocks.
    pub const ZERO: BlockCount = BlockCount(0);

    /// The bytes in these blocks.
    #[must_use]
    pub fn bytes(self) -> ByteCount {
        ByteCount(self.0 * BLOCK_BYTES)
    }

    /// The fewest blocks that hold `bytes`.
    #[must_use]
    pub fn holding(bytes: ByteCount) -> BlockCount {
        BlockCount(bytes.0.div_ceil(BLOCK_BYTES))
    }
}

impl Add<BlockCount> for Lbn {
    type Output = Lbn;
    fn add(self, count: BlockCount) -> Lbn {
        Lbn(self.0 + count.0)
    }
}

impl AddAssign<BlockCount> for Lbn {
    fn add_assign(&mut self, count: BlockCount) {
        self.0 += count.0;
    }
}

impl Add for BlockCount {
    type Output = BlockCount;
    fn add(self, other: BlockCount) -> BlockCount {
        BlockCount(self.0 + other.0)
    }
}

impl AddAssign for BlockCount {
    fn add_assign(&mut self, other: BlockCount) {
        self.0 += other.0;
    }
}

impl Sub for BlockCount {
    type Output = BlockCount;
    fn sub(self, other: BlockCount) -> BlockCount {
        BlockCount(self.0 - other.0)
    }
}

impl std::iter::Sum for BlockCount {
    fn sum<I: Iterator<Item = BlockCount>>(counts: I) -> BlockCount {
        counts.fold(BlockCount::ZERO, Add::add)
    }
}

impl fmt::Display for Lbn {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "LBN {}", self.0)
    }
}

impl fmt::Debug for Lbn {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "LBN {}", self.0)
    }
}

impl fmt::Display for BlockCount {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} block{}", self.0, if self.0 == 1 { "" } else { "s" })
    }
}

impl fmt::Debug for BlockCount {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// Consecutive blocks: `count` of them from `first` on.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct BlockRange {
    /// The lowest address of the range.
    pub first: Lbn,
    /// How many blocks; a range may be empty.
    pub count: BlockCount,
}

impl BlockRange {
    /// The range of `count` blocks that begins at `first`.
    #[must_use]
    pub fn new(first: Lbn, count: BlockCount) -> Self {
        BlockRange { first, count }
    }

    /// The range from `first` up to, and without, `end`.
    #[must_use]
    pub fn between(first: Lbn, end: Lbn) -> Self {
        BlockRange { first, count: end.since(first) }
    }

    /// One past the last address; the last there is, for ranges that a damaged reference makes up.
    #[must_use]
    pub fn end(self) -> Lbn {
        Lbn(self.first.0.saturating_add(self.count.0))
    }

    /// The bytes in the range.
    #[must_use]
    pub fn bytes(self) -> ByteCount {
        self.count.bytes()
    }

    /// Whether the range has no blocks.
    #[must_use]
    pub fn is_empty(self) -> bool {
        self.count == BlockCount::ZERO
    }

    /// Whether `lbn` lies in the range.
    #[must_use]
    pub fn contains(self, lbn: Lbn) -> bool {
        self.first <= lbn && lbn < self.end()
    }

    /// Whether the two ranges share a block.
    #[must_use]
    pub fn overlaps(self, other: BlockRange) -> bool {
        !self.is_empty()
            && !other.is_empty()
            && self.first < other.end()
            && other.first < self.end()
    }

    /// The part of this range that lies before `at`, and the part from `at` on.
    #[must_use]
    pub fn split_at(self, at: Lbn) -> (BlockRange, BlockRange) {
        let at = at.clamp(self.first, self.end());
        (BlockRange::between(self.first, at), BlockRange::between(at, self.end()))
    }
}

impl fmt::Display for BlockRange {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.count.0 == 1 {
            write!(f, "{}", self.first)
        } else {
            write!(f, "LBNs {}..{}", self.first.0, self.end().0)
        }
    }
}

impl fmt::Debug for BlockRange {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn splitting_loses_no_block(first in 0u64..1000, count in 0u64..1000, at in 0u64..2500) {
            let range = BlockRange::new(Lbn(first), BlockCount(count));
            let (low, high) = range.split_at(Lbn(at));
            prop_assert_eq!(low.count + high.count, range.count);
            prop_assert_eq!(low.end(), high.first);
            prop_assert!(!low.overlaps(high));
        }
    }

    #[test]
    fn empty_ranges_overlap_nothing() {
        let all = BlockRange::new(Lbn(0), BlockCount(10));
        let empty = BlockRange::new(Lbn(5), BlockCount::ZERO);
        assert!(!all.overlaps(empty));
        assert!(all.overlaps(BlockRange::new(Lbn(9), BlockCount(1))));
    }

    #[test]
    fn blocks_hold_bytes_rounding_up() {
        assert_eq!(BlockCount::holding(ByteCount(0)), BlockCount(0));
        assert_eq!(BlockCount::holding(ByteCount(513)), BlockCount(2));
    }
}
