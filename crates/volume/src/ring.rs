//! The journal's area on one device: a ring of runs of records, each behind the one before it.
//!
//! A power cut may damage every physical sector that is being written. So a run has its physical sectors for itself: it damages
//! no record before it, and nothing behind the area.

use std::collections::VecDeque;

use moirai_units::{BlockCount, BlockRange};

/// A number of a record, counted from 1.
pub(crate) type Sequence = u64;

/// Blocks that are kept for a record which frees others, at least.
const RESERVED_BLOCKS: u64 = 8;
/// Physical sectors that an area has at least: then the longest run that it is made for finds room between others.
pub(crate) const SECTORS_MIN: u64 = 12;

/// The journal's area on one device, written round and round. Places are blocks from the area's beginning.
#[derive(Clone, Debug)]
pub(crate) struct Ring {
    /// The physical sectors that lie in the area as a whole.
    begin: u64,
    end: u64,
    /// Blocks of a physical sector; 1 where the area has too few of them.
    sector: u64,
    next: u64,
    free: u64,
    /// The last record of each run of blocks, and their number.
    used: VecDeque<(Sequence, u64)>,
}

/// Where records lie.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Run {
    /// The number of the last one.
    pub(crate) last: Sequence,
    pub(crate) first: u64,
    pub(crate) blocks: u64,
}

impl Ring {
    /// An empty one.
    pub(crate) fn new(area: BlockRange, physical: BlockCount) -> Ring {
        let sector = match area.count.0 / physical.0.max(1) {
            SECTORS_MIN.. => physical.0.max(1),
            _ => 1,
        };
        let (first, end) = (area.first.0, area.end().0);
        let begin = first.next_multiple_of(sector) - first;
        let end = (end / sector * sector - first).max(begin);
        Ring { begin, end, sector, next: begin, free: end - begin, used: VecDeque::new() }
    }

    /// One in which the next run lies behind `newest`. The first record after an opening frees all before it: where it is torn, the same
    /// records count as before.
    pub(crate) fn behind(area: BlockRange, physical: BlockCount, newest: Run) -> Ring {
        let mut ring = Ring::new(area, physical);
        let end = (newest.first + newest.blocks).saturating_sub(ring.begin);
        let behind = end.next_multiple_of(ring.sector);
        if ring.begin + behind < ring.end {
            ring.next += behind;
        }
        ring
    }

    fn reserved(&self) -> u64 {
        RESERVED_BLOCKS.max(2 * self.sector)
    }

    /// Where a run of `blocks` would begin, and the blocks that it takes with those passed over.
    fn place(&self, blocks: u64) -> (u64, u64) {
        let blocks = blocks.next_multiple_of(self.sector);
        match self.next + blocks <= self.end {
            true => (self.next, blocks),
            false => (self.begin, blocks + self.end - self.next),
        }
    }

    /// Whether there is room for a run of `blocks`, and for what frees more.
    pub(crate) fn has_room(&self, blocks: u64) -> bool {
        self.place(blocks).1 + self.reserved() <= self.free
    }

    /// Takes a run of `blocks` for records up to `last`.
    pub(crate) fn take(&mut self, blocks: u64, last: Sequence) -> Option<u64> {
        let (first, taken) = self.place(blocks);
        self.free = self.free.checked_sub(taken)?;
        self.next = first + blocks.next_multiple_of(self.sector);
        self.used.push_back((last, taken));
        Some(first)
    }

    /// Whether a tail would free anything.
    pub(crate) fn frees(&self, tail: Sequence) -> bool {
        self.used.front().is_some_and(|(last, _)| *last < tail)
    }

    pub(crate) fn free_before(&mut self, tail: Sequence) {
        while let Some((_, blocks)) = self.used.front().copied().filter(|(last, _)| *last < tail) {
            self.used.pop_front();
            self.free += blocks;
        }
    }
}

#[cfg(test)]
mod tests {
    use moirai_units::Lbn;

    use super::*;

    fn area(first: u64, count: u64) -> BlockRange {
        BlockRange::new(Lbn(first), BlockCount(count))
    }

    #[test]
    fn a_ring_never_gives_what_is_in_use() {
        let mut ring = Ring::new(area(16, 40), BlockCount(1));
        assert_eq!(ring.take(16, 1), Some(0));
        assert_eq!(ring.take(16, 2), Some(16));
        // Eight are left at the end: a third run must begin anew, where the first still is.
        assert!(!ring.has_room(16) && !ring.frees(1) && ring.frees(2));
        ring.free_before(2);
        // Passing over the end and what is reserved leave none.
        assert!(ring.has_room(8) && !ring.has_room(9));
        assert_eq!(ring.take(16, 3), Some(0));
        assert_eq!((ring.next, ring.free), (16, 0));
        ring.free_before(4);
        assert_eq!(ring.free, 40);
    }

    #[test]
    fn runs_share_no_physical_sector() {
        // Blocks 17 to 130: the sectors from 24 to 127 lie in it as a whole.
        let mut ring = Ring::new(area(17, 114), BlockCount(8));
        assert_eq!((ring.begin, ring.end, ring.free), (7, 111, 104));
        assert_eq!(ring.take(9, 1), Some(7));
        assert_eq!(ring.take(1, 2), Some(23));
        assert_eq!(ring.take(64, 3), Some(31));
        assert_eq!((ring.next, ring.free), (95, 16));
        ring.free_before(3);
        // Behind it there are two sectors, and passing these over leaves too few.
        assert!(!ring.has_room(17) && ring.has_room(8));
        assert_eq!(ring.take(17, 4), Some(7));
        // Where there are few sectors, records lie side by side.
        let mut ring = Ring::new(area(16, 90), BlockCount(8));
        assert_eq!((ring.take(9, 1), ring.take(9, 2)), (Some(0), Some(9)));
    }

    #[test]
    fn after_an_opening_the_next_run_lies_behind_the_newest() {
        let behind = |first, blocks| {
            let newest = Run { last: 9, first, blocks };
            Ring::behind(area(16, 100), BlockCount(8), newest).next
        };
        assert_eq!((behind(16, 9), behind(0, 8), behind(80, 8)), (32, 8, 88));
        // Whole sectors end with block 96 of the area; behind them it goes on at the beginning.
        assert_eq!((behind(80, 9), behind(90, 10)), (0, 0));
    }
}
