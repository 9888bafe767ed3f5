//! Free runs, and the extents that are taken from them.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use moirai_units::{BlockCount, BlockRange, Lbn};
use parking_lot::{Mutex, MutexGuard};

use crate::ensembles::Ensembles;

/// Bytes of memory of a tree of the standard library: its nodes are half full at least.
#[must_use]
pub fn tree_bytes<T>(count: usize) -> usize {
    2 * count * size_of::<T>()
}

/// Free runs that an allocation looks at from where the last one ended; after these it takes the shortest run that is
/// long enough.
const RUNS_TRIED: usize = 32;
/// And so many times as many that are too short.
const PASSED_OVER: usize = 8;

/// The free runs of a device.
#[derive(Debug)]
pub struct Extents {
    pub(crate) free: Mutex<Free>,
    /// All blocks for extents.
    all: BlockRange,
    pub(crate) grain: BlockCount,
    pub(crate) ensembles: Ensembles,
    /// A mistake that tests make to see that they notice it: of so many extents one is given although it is not free.
    #[cfg(feature = "canary")]
    twice: std::sync::atomic::AtomicU64,
}

#[derive(Debug, Default)]
pub(crate) struct Free {
    /// Free runs by their first block: none overlaps or touches another.
    pub(crate) runs: BTreeMap<u64, u64>,
    /// The same runs as (length, first block).
    by_length: BTreeSet<(u64, u64)>,
    /// Blocks in all runs.
    pub(crate) blocks: u64,
    /// Where the last extent ended: extents that are written together lie together.
    next: u64,
    /// The same of the last extents that were taken in rows, in the first of them.
    pub(crate) next_column: u64,
    /// How many extents were taken.
    taken: u64,
    /// Blocks that were freed and not yet discarded; some may be in use again.
    discardable: BTreeMap<u64, u64>,
}

/// An extent in use. Dropping it frees its blocks.
#[derive(Debug)]
pub struct Extent {
    /// Its blocks, in whole grains.
    pub blocks: BlockRange,
    /// A number that no other extent since the opening has.
    pub number: u64,
    /// Whether the device knows already that the blocks hold nothing.
    is_discarded: bool,
    /// Whether its blocks stay in use when it is dropped.
    is_left: bool,
    all: Arc<Extents>,
}

impl Extents {
    /// The blocks `all`, all of them free. Extents begin and end at multiples of `grain` blocks, and keep to `ensembles`.
    #[must_use]
    pub fn new(all: BlockRange, grain: BlockCount, ensembles: Ensembles) -> Arc<Extents> {
        let grain = BlockCount(grain.0.max(1));
        let first = all.first.0.next_multiple_of(grain.0);
        let end = all.end().0 / grain.0 * grain.0;
        let mut free = Free { next: first, next_column: first, ..Free::default() };
        if end > first {
            free.insert(first, end - first);
        }
        Arc::new(Extents {
            free: Mutex::new(free),
            all,
            grain,
            ensembles,
            #[cfg(feature = "canary")]
            twice: std::sync::atomic::AtomicU64::new(0),
        })
    }

    /// The ensembles that extents keep to.
    #[must_use]
    pub fn ensembles(&self) -> &Ensembles {
        &self.ensembles
    }

    /// Blocks for extents, free or in use.
    pub fn capacity(&self) -> BlockCount {
        self.all.count
    }

    /// Extents begin and end at multiples of so many blocks.
    pub fn grain(&self) -> BlockCount {
        self.grain
    }

    /// Free blocks.
    pub fn free(&self) -> BlockCount {
        BlockCount(self.free.lock().blocks)
    }

    /// Bytes of memory that it takes to know what is free.
    pub fn memory_bytes(&self) -> usize {
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
    pub fn take(self: &Arc<Extents>, count: BlockCount, reserve: BlockCount) -> Option<Extent> {
        let (count, mut free) = self.with_room(count, reserve)?;
        let next = free.next;
        // On a device that is nearly full, long runs are kept for those who need them.
        let tried = if free.blocks < self.all.count.0 / 4 { 0 } else { RUNS_TRIED };
        let fitting = |first: u64, length: u64| {
            let at = self.ensembles.place(first, count, self.grain.0);
            (at + count <= first + length).then_some(at)
        };
        let long_enough = || free.by_length.range((count, 0)..);
        // What is left over at the ends of ensembles is passed over.
        let ahead = free.runs.range(next..).take(tried * PASSED_OVER);
        let mut ahead = ahead.filter(|(_, length)| **length >= count).take(tried);
        let first = ahead
            .find_map(|(first, length)| fitting(*first, *length))
            .or_else(|| {
                long_enough().take(RUNS_TRIED).find_map(|(length, first)| fitting(*first, *length))
            })
            // The longest run, where it is shorter than two ensembles, may have no such place either.
            .or_else(|| {
                long_enough().next_back().and_then(|(length, first)| fitting(*first, *length))
            })
            .or_else(|| long_enough().next().map(|(_, first)| *first))?;
        free.next = first + count;
        let extent = self.remove(&mut free, first, count);
        #[cfg(feature = "canary")]
        if let twice @ 1.. = self.twice.load(std::sync::atomic::Ordering::Relaxed)
            && free.taken.is_multiple_of(twice)
        {
            drop(free);
            return Some(extent.unowned());
        }
        Some(extent)
    }

    /// Gives one of so many extents to somebody else, too.
    #[cfg(feature = "canary")]
    pub fn give_twice(&self, of: u64) {
        self.twice.store(of, std::sync::atomic::Ordering::Relaxed);
    }

    /// Up to `count` blocks, or else a multiple of `unit` blocks, as many as the longest free run has: for a device whose
    /// free blocks are scattered.
    pub fn take_part(
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
        let wanted = count.0.next_multiple_of(self.grain.0);
        let length = match length.min(free.blocks.saturating_sub(reserve.0)) {
            // Other blocks became free since `take` looked.
            longer if longer >= wanted => wanted,
            shorter => shorter / unit * unit,
        };
        (length > 0).then(|| self.remove(&mut free, first, length))
    }

    /// Up to `count` blocks, rounded up to grains, near the end of the device: for a part of a long value. These keep apart from
    /// partitions, whose extents come and go. Fewer where no free run is so long; `None` when `count` blocks and `reserve`
    /// are more than there are.
    pub fn take_high(
        self: &Arc<Extents>,
        count: BlockCount,
        reserve: BlockCount,
    ) -> Option<Extent> {
        let (count, mut free) = self.with_room(count, reserve)?;
        let placed = |first: u64, length: u64| {
            self.ensembles.place_before(first, first + length, count, self.grain.0)
        };
        let mut last = free.runs.iter().rev().take(RUNS_TRIED);
        if let Some(first) = last.find_map(|(first, length)| placed(*first, *length)) {
            return Some(self.remove(&mut free, first, count));
        }
        let shortest = free.by_length.range((count, 0)..).next();
        let (length, first) = *shortest.or(free.by_length.last())?;
        let count = count.min(length);
        Some(self.remove(&mut free, first + length - count, count))
    }

    /// Blocks in use that have no extent, as one that can be dropped.
    pub fn adopt(self: &Arc<Extents>, blocks: BlockRange) -> Extent {
        let mut free = self.free.lock();
        free.taken += 1;
        let number = free.taken;
        Extent { blocks, number, is_discarded: false, is_left: false, all: Arc::clone(self) }
    }

    /// The extent that begins at `first` and holds `count` blocks, when it is free: for recovery.
    pub fn take_this(self: &Arc<Extents>, first: Lbn, count: BlockCount) -> Option<Extent> {
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
    pub fn take_discardable(self: &Arc<Extents>, most: BlockCount) -> Option<Extent> {
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
    pub fn has_discardable(&self) -> bool {
        !self.free.lock().discardable.is_empty()
    }

    /// Takes all free blocks for discardable: after an opening nobody knows which of them were written.
    pub fn discard_all(&self) {
        let mut free = self.free.lock();
        free.discardable = free.runs.clone();
    }

    pub(crate) fn remove(self: &Arc<Extents>, free: &mut Free, first: u64, count: u64) -> Extent {
        free.remove(first, count);
        free.taken += 1;
        let blocks = BlockRange::new(Lbn(first), BlockCount(count));
        let number = free.taken;
        Extent { blocks, number, is_discarded: false, is_left: false, all: Arc::clone(self) }
    }
}

impl Free {
    /// The first free block from `first` on, and the end of its run.
    pub(crate) fn from(&self, first: u64) -> Option<(u64, u64)> {
        let end_of = |(run, length): (&u64, &u64)| (*run, *run + *length);
        let holding = self.runs.range(..=first).next_back().map(end_of);
        match holding.filter(|(_, end)| *end > first) {
            Some((_, end)) => Some((first, end)),
            None => self.runs.range(first..).next().map(end_of),
        }
    }

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
    pub fn first(&self) -> Lbn {
        self.blocks.first
    }

    /// Whether it is one of these.
    pub fn is_of(&self, all: &Arc<Extents>) -> bool {
        Arc::ptr_eq(&self.all, all)
    }

    /// Leaves its blocks in use; see [`Extents::adopt`].
    pub fn leave(mut self) -> BlockRange {
        self.is_left = true;
        self.blocks
    }

    /// The same blocks, which it does not free when it is dropped.
    #[cfg(feature = "canary")]
    #[must_use]
    pub fn unowned(&self) -> Extent {
        let Extent { blocks, number, is_discarded, .. } = *self;
        Extent { blocks, number, is_discarded, is_left: true, all: Arc::clone(&self.all) }
    }

    /// The device knows that the blocks hold nothing.
    pub fn discarded(&mut self) {
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
    use moirai_devices::Access;
    use rand::Rng;

    use super::*;

    /// Extents are taken and freed at random: no two overlap, and next to none crosses a boundary that it need not.
    #[test]
    fn extents_keep_to_ensembles_and_apart() {
        for (seed, grain) in [(1, 1), (2, 8), (3, 1), (4, 8)] {
            moirai_runtime::block_on_virtual(seed, async {
                let uri = "sim:quantum-atlas-10k?data=none".parse().unwrap();
                let device = moirai_devices::open(uri, Access::Write).unwrap();
                let mut random = moirai_runtime::random("extents");
                let all = BlockRange::new(Lbn(24), BlockCount(100_000));
                let ensembles = Ensembles::of(device);
                let extents = Extents::new(all, BlockCount(grain), ensembles.clone());
                let mut held: Vec<Extent> = Vec::new();
                let (mut taken, mut needless) = (0, 0);
                for _ in 0..20_000 {
                    let is_full = extents.free().0 < all.count.0 / 2;
                    if !held.is_empty() && (is_full || random.random_bool(0.4)) {
                        held.swap_remove(random.random_range(0..held.len()));
                        continue;
                    }
                    let count = BlockCount(random.random_range(1..1200));
                    let extent = match random.random_bool(0.2) {
                        true => extents.take_high(count, BlockCount::ZERO),
                        false => extents.take(count, BlockCount::ZERO),
                    };
                    let Some(extent) = extent else { continue };
                    let blocks = extent.blocks;
                    assert!(blocks.first >= all.first && blocks.end() <= all.end());
                    assert!(blocks.first.0.is_multiple_of(grain));
                    taken += 1;
                    needless += u32::from(ensembles.avoidable(blocks, BlockCount(grain)) > 0);
                    held.push(extent);
                }
                held.sort_by_key(|one| one.blocks.first);
                assert!(held.windows(2).all(|pair| pair[0].blocks.end() <= pair[1].blocks.first));
                let used: u64 = held.iter().map(|one| one.blocks.count.0).sum();
                let whole = all.end().0 / grain * grain - all.first.0.next_multiple_of(grain);
                assert_eq!(used + extents.free().0, whole);
                // It looks at some of the runs alone, and the device is half full for most of the time.
                assert!(
                    needless * 50 <= taken,
                    "{needless} of {taken} cross one more than they need"
                );
            });
        }
    }

    fn extents(blocks: u64, grain: u64) -> Arc<Extents> {
        let all = BlockRange::new(Lbn(16), BlockCount(blocks));
        Extents::new(all, BlockCount(grain), Ensembles::none())
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
