//! Extents: the allocator of the data device.
//!
//! An extent is a run of device blocks of any length, in whole grains. Nothing is overwritten: a sweep writes a
//! partition to another extent. An extent is free again when its last owner drops it, and then joins the free runs
//! beside it.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use moirai_units::{BlockCount, BlockRange, Lbn};
use parking_lot::{Mutex, MutexGuard};

use crate::state::tree_bytes;

/// Free runs that an allocation looks at from where the last one ended; after these it takes the shortest run that is
/// long enough.
const RUNS_TRIED: usize = 32;

/// The free runs of a data device.
#[derive(Debug)]
pub(crate) struct Extents {
    free: Mutex<Free>,
    /// All blocks for extents.
    all: BlockRange,
    grain: BlockCount,
}

#[derive(Debug, Default)]
struct Free {
    /// Free runs by their first block: none overlaps or touches another.
    runs: BTreeMap<u64, u64>,
    /// The same runs as (length, first block).
    by_length: BTreeSet<(u64, u64)>,
    /// Blocks in all runs.
    blocks: u64,
    /// Where the last extent ended: extents that are written together lie together.
    next: u64,
    /// How many extents were taken.
    taken: u64,
    /// Blocks that were freed and not yet discarded; some may be in use again.
    discardable: BTreeMap<u64, u64>,
}

/// An extent in use. Dropping it frees its blocks.
#[derive(Debug)]
pub(crate) struct Extent {
    /// Its blocks, in whole grains.
    pub(crate) blocks: BlockRange,
    /// A number that no other extent since the opening has.
    pub(crate) number: u64,
    /// Whether the device knows already that the blocks hold nothing.
    is_discarded: bool,
    /// Whether its blocks stay in use when it is dropped.
    is_left: bool,
    all: Arc<Extents>,
}

impl Extents {
    /// The blocks `all`, all of them free. Extents begin and end at multiples of `grain` blocks.
    pub(crate) fn new(all: BlockRange, grain: BlockCount) -> Arc<Extents> {
        let grain = BlockCount(grain.0.max(1));
        let first = all.first.0.next_multiple_of(grain.0);
        let end = all.end().0 / grain.0 * grain.0;
        let mut free = Free { next: first, ..Free::default() };
        if end > first {
            free.insert(first, end - first);
        }
        Arc::new(Extents { free: Mutex::new(free), all, grain })
    }

    /// Blocks for extents, free or in use.
    pub(crate) fn capacity(&self) -> BlockCount {
        self.all.count
    }

    /// Free blocks.
    pub(crate) fn free(&self) -> BlockCount {
        BlockCount(self.free.lock().blocks)
    }

    /// Bytes of memory that it takes to know what is free.
    pub(crate) fn memory_bytes(&self) -> usize {
        let free = self.free.lock();
        let entries = free.runs.len() + free.by_length.len() + free.discardable.len();
        tree_bytes::<(u64, u64)>(entries)
    }

    /// `count` rounded up to grains, and what is free; `None` when fewer than `reserve` blocks would stay free of that.
    fn with_room(
        &self,
        count: BlockCount,
        reserve: BlockCount,
    ) -> Option<(u64, MutexGuard<'_, Free>)> {
        let count = count.0.next_multiple_of(self.grain.0);
        let free = self.free.lock();
        let has_room = count > 0 && free.blocks >= count.saturating_add(reserve.0);
        has_room.then_some((count, free))
    }

    /// An extent of `count` blocks, rounded up to grains; `None` when no free run is so long, or fewer than `reserve`
    /// blocks would stay free.
    pub(crate) fn take(
        self: &Arc<Extents>,
        count: BlockCount,
        reserve: BlockCount,
    ) -> Option<Extent> {
        let (count, mut free) = self.with_room(count, reserve)?;
        let next = free.next;
        // On a device that is nearly full, long runs are kept for those who need them.
        let tried = if free.blocks < self.all.count.0 / 4 { 0 } else { RUNS_TRIED };
        let ahead = free.runs.range(next..).take(tried).find(|(_, length)| **length >= count);
        let first = match ahead {
            Some((first, _)) => *first,
            None => free.by_length.range((count, 0)..).next()?.1,
        };
        free.next = first + count;
        Some(self.remove(&mut free, first, count))
    }

    /// Up to `count` blocks, or else a multiple of `unit` blocks, as many as the longest free run has: for a device whose
    /// free blocks are scattered.
    pub(crate) fn take_part(
        self: &Arc<Extents>,
        count: BlockCount,
        unit: BlockCount,
        reserve: BlockCount,
    ) -> Option<Extent> {
        if let Some(extent) = self.take(count, reserve) {
            return Some(extent);
        }
        let mut free = self.free.lock();
        let (length, first) = free.by_length.last().copied()?;
        let unit = unit.0.max(1).next_multiple_of(self.grain.0);
        let length = length.min(free.blocks.saturating_sub(reserve.0)) / unit * unit;
        if length == 0 || length >= count.0.next_multiple_of(self.grain.0) {
            return None;
        }
        Some(self.remove(&mut free, first, length))
    }

    /// Up to `count` blocks, rounded up to grains, near the end of the device: for a part of a long value. These keep apart from
    /// partitions, whose extents come and go. Fewer where no free run is so long; `None` when `count` blocks and `reserve`
    /// are more than there are.
    pub(crate) fn take_high(
        self: &Arc<Extents>,
        count: BlockCount,
        reserve: BlockCount,
    ) -> Option<Extent> {
        let (count, mut free) = self.with_room(count, reserve)?;
        let last = free.runs.iter().rev().take(RUNS_TRIED).find(|(_, length)| **length >= count);
        let found = match last {
            Some((first, length)) => (*length, *first),
            None => {
                let shortest = free.by_length.range((count, 0)..).next();
                *shortest.or(free.by_length.last())?
            }
        };
        let (length, first) = found;
        let count = count.min(length);
        Some(self.remove(&mut free, first + length - count, count))
    }

    /// Blocks in use that have no extent, as one that can be dropped.
    pub(crate) fn adopt(self: &Arc<Extents>, blocks: BlockRange) -> Extent {
        let mut free = self.free.lock();
        free.taken += 1;
        let number = free.taken;
        Extent { blocks, number, is_discarded: false, is_left: false, all: Arc::clone(self) }
    }

    /// The extent that begins at `first` and holds `count` blocks, when it is free: for recovery.
    pub(crate) fn take_this(self: &Arc<Extents>, first: Lbn, count: BlockCount) -> Option<Extent> {
        let grain = self.grain.0;
        let count = count.0.checked_next_multiple_of(grain).filter(|count| *count > 0)?;
        let end = first.0.checked_add(count)?;
        let mut free = self.free.lock();
        let (run, length) = free.runs.range(..=first.0).next_back()?;
        let is_free = first.0.is_multiple_of(grain) && run + length >= end;
        is_free.then(|| self.remove(&mut free, first.0, count))
    }

    /// A freed run of `most` blocks at most that was not discarded yet, taken out of the free runs: discard its
    /// blocks, call [`Extent::discarded`], and drop it.
    pub(crate) fn take_discardable(self: &Arc<Extents>, most: BlockCount) -> Option<Extent> {
        let mut free = self.free.lock();
        loop {
            let (first, length) = free.discardable.pop_first()?;
            let end = first + length;
            // The first free run in it.
            let run = free
                .runs
                .range(..=first)
                .next_back()
                .filter(|(run, length)| *run + *length > first);
            let Some((run, length)) = run.or_else(|| free.runs.range(first..end).next()) else {
                continue;
            };
            let (from, upto) = ((*run).max(first), (run + length).min(end));
            let upto = upto.min(from + most.0.max(1).next_multiple_of(self.grain.0));
            if upto < end {
                free.discardable.insert(upto, end - upto);
            }
            return Some(self.remove(&mut free, from, upto - from));
        }
    }

    /// Whether there may be something to discard.
    pub(crate) fn has_discardable(&self) -> bool {
        !self.free.lock().discardable.is_empty()
    }

    /// Takes all free blocks for discardable: after an opening nobody knows which of them were written.
    pub(crate) fn discard_all(&self) {
        let mut free = self.free.lock();
        free.discardable = free.runs.clone();
    }

    fn remove(self: &Arc<Extents>, free: &mut Free, first: u64, count: u64) -> Extent {
        free.remove(first, count);
        free.taken += 1;
        let blocks = BlockRange::new(Lbn(first), BlockCount(count));
        let number = free.taken;
        Extent { blocks, number, is_discarded: false, is_left: false, all: Arc::clone(self) }
    }
}

impl Free {
    /// Takes `count` blocks from `first` on out of the run that holds them.
    fn remove(&mut self, first: u64, count: u64) {
        let Some((run, length)) = self.runs.range(..=first).next_back() else { return };
        let (run, length) = (*run, *length);
        self.runs.remove(&run);
        self.by_length.remove(&(length, run));
        let end = first + count;
        for (first, length) in [(run, first - run), (end, run + length - end)] {
            if length > 0 {
                self.runs.insert(first, length);
                self.by_length.insert((length, first));
            }
        }
        self.blocks -= count;
    }

    /// Frees `count` blocks from `first` on; joins the runs beside them.
    fn insert(&mut self, mut first: u64, mut count: u64) {
        self.blocks += count;
        if let Some((run, length)) = self.runs.range(..first).next_back()
            && run + length == first
        {
            let (run, length) = (*run, *length);
            self.runs.remove(&run);
            self.by_length.remove(&(length, run));
            (first, count) = (run, count + length);
        }
        if let Some(length) = self.runs.remove(&(first + count)) {
            self.by_length.remove(&(length, first + count));
            count += length;
        }
        self.runs.insert(first, count);
        self.by_length.insert((count, first));
    }

    fn insert_discardable(&mut self, mut first: u64, count: u64) {
        let mut end = first + count;
        let touching = |(run, length): (&u64, &u64)| (*run, *run + *length);
        while let Some((run, run_end)) = self
            .discardable
            .range(..=end)
            .next_back()
            .map(touching)
            .filter(|(_, run_end)| *run_end >= first)
        {
            self.discardable.remove(&run);
            (first, end) = (first.min(run), end.max(run_end));
        }
        self.discardable.insert(first, end - first);
    }
}

impl Extent {
    /// Its first block.
    pub(crate) fn first(&self) -> Lbn {
        self.blocks.first
    }

    /// Whether it is one of these.
    pub(crate) fn is_of(&self, all: &Arc<Extents>) -> bool {
        Arc::ptr_eq(&self.all, all)
    }

    /// Leaves its blocks in use; see [`Extents::adopt`].
    pub(crate) fn leave(mut self) -> BlockRange {
        self.is_left = true;
        self.blocks
    }

    /// The same blocks, which it does not free when it is dropped.
    #[cfg(feature = "canary")]
    pub(crate) fn unowned(&self) -> Extent {
        let Extent { blocks, number, is_discarded, .. } = *self;
        Extent { blocks, number, is_discarded, is_left: true, all: Arc::clone(&self.all) }
    }

    /// The device knows that the blocks hold nothing.
    pub(crate) fn discarded(&mut self) {
        self.is_discarded = true;
    }
}

impl Drop for Extent {
    fn drop(&mut self) {
        if self.is_left {
            return;
        }
        let mut free = self.all.free.lock();
        let (first, count) = (self.blocks.first.0, self.blocks.count.0);
        free.insert(first, count);
        if !self.is_discarded {
            free.insert_discardable(first, count);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn extents(blocks: u64, grain: u64) -> Arc<Extents> {
        Extents::new(BlockRange::new(Lbn(16), BlockCount(blocks)), BlockCount(grain))
    }

    #[test]
    fn freed_neighbours_join() {
        let all = extents(96, 8);
        let taken: Vec<Extent> =
            (0..12).map(|_| all.take(BlockCount(5), BlockCount::ZERO).unwrap()).collect();
        assert_eq!(all.free(), BlockCount::ZERO);
        assert!(all.take(BlockCount(1), BlockCount::ZERO).is_none());
        let mut taken: Vec<Option<Extent>> = taken.into_iter().map(Some).collect();
        for index in [3, 5, 4] {
            taken[index] = None;
        }
        // Three grains in a row are one run.
        let three = all.take(BlockCount(24), BlockCount::ZERO).unwrap();
        assert_eq!(three.blocks, BlockRange::new(Lbn(16 + 24), BlockCount(24)));
        drop((taken, three));
        let whole = all.take(BlockCount(96), BlockCount::ZERO).unwrap();
        assert_eq!(whole.blocks, BlockRange::new(Lbn(16), BlockCount(96)));
    }

    #[test]
    fn reserve_stays_free_and_scattered_runs_are_taken_in_part() {
        let all = extents(80, 8);
        assert!(all.take(BlockCount(16), BlockCount(65)).is_none());
        let mut taken: Vec<Option<Extent>> =
            (0..10).map(|_| all.take(BlockCount(8), BlockCount::ZERO)).collect();
        for index in [1, 2, 5] {
            taken[index] = None;
        }
        assert!(all.take(BlockCount(24), BlockCount::ZERO).is_none());
        let (count, unit) = (BlockCount(24), BlockCount(8));
        let part = all.take_part(count, unit, BlockCount::ZERO).unwrap();
        assert_eq!(part.blocks, BlockRange::new(Lbn(16 + 8), BlockCount(16)));
        assert!(all.take_part(count, unit, BlockCount(8)).is_none());
        assert!(all.take_part(count, BlockCount(16), BlockCount::ZERO).is_none());
    }

    #[test]
    fn long_values_lie_at_the_end_and_in_what_there_is() {
        let all = extents(80, 8);
        let last = all.take_high(BlockCount(9), BlockCount::ZERO).unwrap();
        assert_eq!(last.blocks, BlockRange::new(Lbn(16 + 64), BlockCount(16)));
        let middle = all.take_this(Lbn(16 + 32), BlockCount(8)).unwrap();
        // No run is so long.
        let part = all.take_high(BlockCount(48), BlockCount(8)).unwrap();
        assert_eq!(part.blocks, BlockRange::new(Lbn(16), BlockCount(32)));
        assert!(all.take_high(BlockCount(24), BlockCount(8)).is_none());
        let left = last.leave();
        assert_eq!(all.free(), BlockCount(24));
        drop(all.adopt(left));
        assert_eq!(all.free(), BlockCount(40));
        drop((middle, part));
        assert_eq!(all.free(), BlockCount(80));
    }

    #[test]
    fn recovery_takes_only_free_aligned_extents() {
        let all = extents(80, 8);
        let one = all.take_this(Lbn(32), BlockCount(9)).unwrap();
        assert_eq!(one.blocks, BlockRange::new(Lbn(32), BlockCount(16)));
        for (first, count) in
            [(32, 8), (24, 16), (40, 8), (33, 8), (88, 16), (8, 8), (u64::MAX - 3, 8), (48, 0)]
        {
            assert!(all.take_this(Lbn(first), BlockCount(count)).is_none(), "{first} {count}");
        }
        assert!(all.take_this(Lbn(48), BlockCount(u64::MAX)).is_none());
        assert!(all.take_this(Lbn(48), BlockCount(8)).is_some());
    }

    #[test]
    fn only_free_blocks_are_discarded_and_each_once() {
        let all = extents(80, 8);
        assert!(all.take_discardable(BlockCount(80)).is_none());
        let mut taken: Vec<Option<Extent>> =
            (0..10).map(|_| all.take(BlockCount(8), BlockCount::ZERO)).collect();
        taken[1..6].fill_with(|| None);
        // One of the freed ones is in use again.
        let again = all.take_this(Lbn(16 + 24), BlockCount(8)).unwrap();
        let mut found = Vec::new();
        while let Some(mut extent) = all.take_discardable(BlockCount(16)) {
            found.push((extent.blocks.first.0 - 16, extent.blocks.count.0));
            extent.discarded();
        }
        assert_eq!(found, [(8, 16), (32, 16)]);
        drop(again);
        let extent = all.take_discardable(BlockCount(16)).unwrap();
        assert_eq!(extent.blocks.first, Lbn(16 + 24));
    }
}
