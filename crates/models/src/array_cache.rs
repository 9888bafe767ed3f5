//! The cache of an array controller: LRU lines, written through or back with early destage
//! (placement section 3).
//!
//! The cache knows which blocks it holds and which of them the disks do not have yet; what it holds
//! is its owner's business, who is told which lines go.
//!
//! ```text
//!   absent --insert_clean--> clean --evicted--> absent
//!      \                      ^  \
//!       insert_dirty   destaged   insert_dirty
//!        \                    |    v
//!         +---------------> dirty --destage--> on its way (dirty again if written meanwhile)
//! ```

use std::collections::BTreeMap;

use hashbrown::HashMap; // tidy: allow(lines are looked up, never listed)
use moirai_units::{BlockCount, BlockRange, ByteCount, Lbn};

/// Blocks of a cache line: 4 KiB.
pub const LINE_BLOCKS: u64 = 8;

/// When an array's cache gives writes to the disks.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum WritePolicy {
    /// Before they are acknowledged.
    Through,
    /// Some time after.
    Back {
        /// The part of the cache that may be dirty before destaging begins, 0 to 1.
        high: f64,
        /// The part that is left dirty when it ends, below `high`.
        low: f64,
    },
}

impl WritePolicy {
    /// Write-back with early destage: begins when half of the cache is dirty, ends at a quarter.
    pub const EARLY_DESTAGE: WritePolicy = WritePolicy::Back { high: 0.5, low: 0.25 };
}

/// A cache line's number: its first block's, divided by [`LINE_BLOCKS`].
pub type LineNumber = u64;

/// A bit for each block of a line.
type Mask = u8;

#[derive(Clone, Copy, Debug, Default)]
struct Line {
    held: Mask,
    dirty: Mask,
    /// Blocks that are on their way to the disks.
    leaving: Mask,
    used: u64,
}

/// There is no line that a write could take until dirty ones have been destaged.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Full;

/// Which blocks an array controller holds.
#[derive(Debug)]
pub struct ArrayCache {
    lines_max: usize,
    high: usize,
    low: usize,
    lines: HashMap<LineNumber, Line>, // tidy: allow(lines are looked up, never listed)
    /// By their last use, lines that may be evicted: neither dirty nor on their way.
    clean: BTreeMap<u64, LineNumber>,
    /// By their last use, lines that may be destaged: dirty, and not on their way.
    dirty: BTreeMap<u64, LineNumber>,
    uses: u64,
    dirty_lines: usize,
    /// Lines that are dirty or on their way, which cannot go.
    busy_lines: usize,
    destaging: bool,
}

impl Line {
    fn is_busy(&self) -> bool {
        self.dirty | self.leaving != 0
    }

    fn order(&self) -> Order {
        match (self.leaving != 0, self.dirty != 0) {
            (true, _) => Order::Neither,
            (false, true) => Order::Dirty,
            (false, false) => Order::Clean,
        }
    }
}

/// Which of the cache's orders of use a line is in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Order {
    Clean,
    Dirty,
    Neither,
}

impl ArrayCache {
    /// An empty cache of `size`, at least one line.
    #[must_use]
    pub fn new(size: ByteCount, policy: WritePolicy) -> ArrayCache {
        let lines_max = (size.0 / BlockCount(LINE_BLOCKS).bytes().0).max(1) as usize;
        let part = |part: f64| (lines_max as f64 * part.clamp(0.0, 1.0)) as usize;
        let (high, low) = match policy {
            WritePolicy::Through => (0, 0),
            WritePolicy::Back { high, low } => (part(high), part(low.min(high))),
        };
        ArrayCache {
            lines_max,
            high,
            low,
            lines: HashMap::new(), // tidy: allow(lines are looked up, never listed)
            clean: BTreeMap::new(),
            dirty: BTreeMap::new(),
            uses: 0,
            dirty_lines: 0,
            busy_lines: 0,
            destaging: false,
        }
    }

    /// Whether all of `blocks` are here; they count as used then.
    pub fn hit(&mut self, blocks: BlockRange) -> bool {
        let all = pieces(blocks)
            .all(|(line, mask)| self.lines.get(&line).is_some_and(|held| held.held & mask == mask));
        if all {
            for (line, _) in pieces(blocks) {
                self.touch(line);
            }
        }
        all
    }

    /// Which of `blocks` are here, in runs.
    #[must_use]
    pub fn held(&self, blocks: BlockRange) -> Vec<BlockRange> {
        let mut runs = Vec::new();
        for (line, mask) in pieces(blocks) {
            let held = self.lines.get(&line).map_or(0, |held| held.held & mask);
            add_runs(&mut runs, line, held);
        }
        runs
    }

    /// Takes in blocks that the disks have; gives the lines that went for them. What is dirty stays.
    pub fn insert_clean(&mut self, blocks: BlockRange) -> Vec<LineNumber> {
        let mut gone = Vec::new();
        for (line, mask) in pieces(blocks) {
            if self.make_room(line, &mut gone) {
                self.change(line, true, |held| held.held |= mask);
            }
        }
        gone
    }

    /// Takes in blocks that the disks do not have yet; gives the lines that went for them.
    pub fn insert_dirty(&mut self, blocks: BlockRange) -> Result<Vec<LineNumber>, Full> {
        let own = || pieces(blocks).filter_map(|(line, _)| self.lines.get(&line));
        let wanted = pieces(blocks).count() - own().count();
        let kept = self.busy_lines + own().filter(|line| !line.is_busy()).count();
        if kept + wanted > self.lines_max {
            return Err(Full);
        }
        let mut gone = Vec::new();
        // Lines that are there already must not go for the others.
        for (line, _) in pieces(blocks) {
            self.touch(line);
        }
        for (line, mask) in pieces(blocks) {
            self.make_room(line, &mut gone);
            self.change(line, true, |held| {
                held.held |= mask;
                held.dirty |= mask;
            });
        }
        Ok(gone)
    }

    /// Forgets blocks that are written past the cache; gives the lines that went.
    pub fn remove(&mut self, blocks: BlockRange) -> Vec<LineNumber> {
        let mut gone = Vec::new();
        for (line, mask) in pieces(blocks) {
            if !self.lines.contains_key(&line) {
                continue;
            }
            let left = self.change(line, false, |held| {
                held.held &= !mask;
                held.dirty &= !mask;
            });
            if left.held == 0 && left.leaving == 0 {
                self.clean.remove(&left.used);
                self.lines.remove(&line);
                gone.push(line);
            }
        }
        gone
    }

    /// The dirty blocks to give to the disks next, in the order of their addresses: some of the
    /// least recently used, at most `lines` of them; with `all`, whatever the marks say. Each comes
    /// once, until [`ArrayCache::destaged`] or [`ArrayCache::insert_dirty`].
    pub fn destage(&mut self, lines: usize, all: bool) -> Vec<BlockRange> {
        if self.dirty_lines > self.high {
            self.destaging = true;
        } else if self.dirty_lines <= self.low {
            self.destaging = false;
        }
        if !(self.destaging || all) {
            return Vec::new();
        }
        let most = if all { lines } else { lines.min(self.dirty_lines - self.low) };
        let mut chosen: Vec<LineNumber> = self.dirty.values().copied().take(most).collect();
        chosen.sort_unstable();
        let mut runs = Vec::new();
        for line in chosen {
            let leaves =
                self.change(line, false, |held| held.leaving = std::mem::take(&mut held.dirty));
            add_runs(&mut runs, line, leaves.leaving);
        }
        runs
    }

    /// Notes that the disks have blocks of [`ArrayCache::destage`].
    pub fn destaged(&mut self, blocks: BlockRange) {
        for (line, mask) in pieces(blocks) {
            if self.lines.contains_key(&line) {
                self.change(line, false, |held| held.leaving &= !mask);
            }
        }
    }

    fn touch(&mut self, line: LineNumber) {
        if self.lines.contains_key(&line) {
            self.change(line, true, |_| ());
        }
    }

    /// Changes a line, which is there afterwards, and what follows from it; `uses` makes it the last
    /// one used. Gives the line as it is then.
    fn change(&mut self, number: LineNumber, uses: bool, change: impl FnOnce(&mut Line)) -> Line {
        let ArrayCache { lines, clean, dirty, uses: last_use, dirty_lines, busy_lines, .. } = self;
        let line = lines.entry(number).or_default();
        let before = *line;
        change(line);
        if uses {
            *last_use += 1;
            line.used = *last_use;
        }
        let after = *line;
        *dirty_lines =
            *dirty_lines + usize::from(after.dirty != 0) - usize::from(before.dirty != 0);
        *busy_lines = *busy_lines + usize::from(after.is_busy()) - usize::from(before.is_busy());
        if (before.order(), before.used) != (after.order(), after.used) {
            match before.order() {
                Order::Clean => clean.remove(&before.used),
                Order::Dirty => dirty.remove(&before.used),
                Order::Neither => None,
            };
            match after.order() {
                Order::Clean => clean.insert(after.used, number),
                Order::Dirty => dirty.insert(after.used, number),
                Order::Neither => None,
            };
        }
        after
    }

    /// Lets the least recently used clean line go, if `line` is not here and all places are taken;
    /// whether there is a place then.
    fn make_room(&mut self, line: LineNumber, gone: &mut Vec<LineNumber>) -> bool {
        if self.lines.contains_key(&line) || self.lines.len() < self.lines_max {
            return true;
        }
        let Some((_, oldest)) = self.clean.pop_first() else { return false };
        self.lines.remove(&oldest);
        gone.push(oldest);
        true
    }
}

/// The lines of `blocks`, and which of their blocks are meant.
fn pieces(blocks: BlockRange) -> impl Iterator<Item = (LineNumber, Mask)> {
    let (first, end) = (blocks.first.0, blocks.end().0);
    let lines =
        if blocks.is_empty() { 0..0 } else { first / LINE_BLOCKS..end.div_ceil(LINE_BLOCKS) };
    lines.map(move |line| {
        let start = line * LINE_BLOCKS;
        let low = first.saturating_sub(start).min(LINE_BLOCKS);
        let high = (end - start).min(LINE_BLOCKS);
        let mask = (u16::MAX << low) & !(u16::MAX << high);
        (line, mask as Mask)
    })
}

/// Adds the blocks of `mask` to runs, the last of which they may go on.
fn add_runs(runs: &mut Vec<BlockRange>, line: LineNumber, mask: Mask) {
    for bit in (0..LINE_BLOCKS).filter(|bit| mask & (1 << bit) != 0) {
        let lbn = Lbn(line * LINE_BLOCKS + bit);
        match runs.last_mut() {
            Some(last) if last.end() == lbn => last.count += BlockCount(1),
            _ => runs.push(BlockRange::new(lbn, BlockCount(1))),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeSet;

    fn range(first: u64, count: u64) -> BlockRange {
        BlockRange::new(Lbn(first), BlockCount(count))
    }

    fn cache(lines: u64, policy: WritePolicy) -> ArrayCache {
        ArrayCache::new(ByteCount(lines * 4096), policy)
    }

    #[test]
    fn the_least_recently_used_line_goes() {
        let mut cache = cache(2, WritePolicy::Through);
        assert_eq!(cache.insert_clean(range(0, 16)), []);
        assert!(cache.hit(range(3, 2)) && cache.hit(range(0, 16)) && !cache.hit(range(15, 2)));
        assert!(cache.hit(range(0, 1)));
        assert_eq!(cache.insert_clean(range(80, 3)), [1]);
        assert!(!cache.hit(range(8, 1)) && cache.hit(range(80, 3)) && !cache.hit(range(80, 4)));
    }

    #[test]
    fn dirty_lines_stay_until_they_are_destaged() {
        let mut cache = cache(4, WritePolicy::EARLY_DESTAGE);
        for line in [5, 3, 9] {
            assert_eq!(cache.insert_dirty(range(line * 8, 8)), Ok(vec![]));
        }
        // Three of four are more than half: two leave, in the order of their addresses.
        let leaving = cache.destage(10, false);
        assert_eq!(leaving, [range(24, 8), range(40, 8)]);
        assert_eq!(cache.destage(10, false), []);
        assert_eq!(cache.insert_dirty(range(800, 16)), Err(Full));
        for run in leaving {
            cache.destaged(run);
        }
        assert_eq!(cache.insert_dirty(range(800, 16)), Ok(vec![5]));
        assert_eq!(cache.destage(10, true), [range(72, 8), range(800, 16)]);
    }

    #[test]
    fn what_is_written_while_it_leaves_is_dirty_again() {
        let mut cache = cache(4, WritePolicy::EARLY_DESTAGE);
        cache.insert_dirty(range(0, 4)).unwrap();
        assert_eq!(cache.destage(1, true), [range(0, 4)]);
        cache.insert_dirty(range(2, 4)).unwrap();
        cache.destaged(range(0, 4));
        assert_eq!(cache.destage(1, true), [range(2, 4)]);
    }

    proptest! {
        /// No block that was written is lost: it is dirty, on its way, or was given to the disks
        /// after it was written.
        #[test]
        fn no_dirty_block_is_forgotten(steps in prop::collection::vec((0u64..80, 1u64..12, 0u8..4), 1..120)) {
            let mut cache = cache(6, WritePolicy::Back { high: 0.4, low: 0.1 });
            let mut unwritten = BTreeSet::new();
            for (first, count, what) in steps {
                let blocks = range(first, count);
                let numbers = first..first + count;
                match what {
                    0 => { cache.insert_clean(blocks); }
                    1 if cache.insert_dirty(blocks).is_ok() => unwritten.extend(numbers),
                    2 => { cache.remove(blocks); numbers.for_each(|block| { unwritten.remove(&block); }) }
                    _ => for run in cache.destage(2, what == 1) {
                        for block in run.first.0..run.end().0 {
                            prop_assert!(unwritten.remove(&block), "{block} was not dirty");
                        }
                        cache.destaged(run);
                    }
                }
                for block in &unwritten {
                    prop_assert!(!cache.held(range(*block, 1)).is_empty(), "{block} is gone");
                }
                let lines = &cache.lines;
                let ordered = |order| lines.values().filter(|line| line.order() == order).count();
                prop_assert!(lines.len() <= 6);
                prop_assert_eq!(cache.clean.len(), ordered(Order::Clean));
                prop_assert_eq!(cache.dirty.len(), ordered(Order::Dirty));
            }
            let rest: BTreeSet<u64> = cache.destage(usize::MAX, true).into_iter()
                .flat_map(|run| run.first.0..run.end().0).collect();
            prop_assert_eq!(rest, unwritten);
        }
    }
}
