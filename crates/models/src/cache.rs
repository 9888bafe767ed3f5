//! The segments of a drive's cache: what they hold, which one a request hits, which one goes.

use moirai_units::{BlockCount, BlockRange, Instant, Lbn};

use crate::{CacheSettings, CacheSwitches, Direction};

/// Consecutive blocks in a circular buffer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Segment {
    pub(crate) blocks: BlockRange,
    /// When all of them are there.
    pub(crate) filled: Instant,
    /// Whether they came from the host.
    pub(crate) written: bool,
    /// Accesses under way that read into it or write out of it.
    pub(crate) users: u32,
    /// Those of them that write out of it.
    pub(crate) writers: u32,
    /// Order of last use.
    used: u64,
}

impl Segment {
    /// Less is taken earlier: empty ones, then by last use; those with users last.
    fn rank(&self) -> u64 {
        let rank = (u64::from(!self.blocks.is_empty()) << 63) | self.used;
        if self.users > 0 { u64::MAX } else { rank }
    }
}

/// Names a segment for as long as it has users, and after that until it is taken.
pub(crate) type SegmentIndex = usize;

/// How a read meets the cache.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Hit {
    pub(crate) segment: SegmentIndex,
    /// Blocks of the request, from its first on, that are there or on their way.
    pub(crate) blocks: BlockCount,
}

#[derive(Debug)]
pub(crate) struct Cache {
    pub(crate) settings: CacheSettings,
    pub(crate) switches: CacheSwitches,
    segments: Vec<Segment>,
    uses: u64,
}

/// An adaptive cache may have this many times the segments of a fixed one.
const ADAPTIVE_FACTOR: usize = 8;

impl Cache {
    pub(crate) fn new(settings: CacheSettings) -> Cache {
        let factor = if settings.adaptive { ADAPTIVE_FACTOR } else { 1 };
        let empty = Segment {
            blocks: BlockRange::new(Lbn(0), BlockCount::ZERO),
            filled: Instant::ZERO,
            written: false,
            users: 0,
            writers: 0,
            used: 0,
        };
        let segments = vec![empty; settings.segments as usize * factor];
        Cache { settings, switches: CacheSwitches::default(), segments, uses: 0 }
    }

    pub(crate) fn segment(&self, index: SegmentIndex) -> Option<&Segment> {
        self.segments.get(index)
    }

    /// The segment with the most of `blocks` from their first on.
    pub(crate) fn find(&self, blocks: BlockRange) -> Option<Hit> {
        if !self.switches.reads {
            return None;
        }
        let of_reads = self.segments.iter().enumerate().skip(self.separate());
        let hits = of_reads.filter_map(|(segment, held)| {
            let usable = !held.written || self.settings.hit_on_written;
            let hit = usable && held.blocks.contains(blocks.first);
            hit.then(|| {
                let end = held.blocks.end().min(blocks.end());
                Hit { segment, blocks: end.since(blocks.first) }
            })
        });
        hits.max_by_key(|hit| hit.blocks)
    }

    /// Marks a segment as the one used last.
    pub(crate) fn touch(&mut self, index: SegmentIndex) {
        self.uses += 1;
        let uses = self.uses;
        if let Some(segment) = self.segments.get_mut(index) {
            segment.used = uses;
        }
    }

    /// Segments for writes alone; they come first.
    fn separate(&self) -> usize {
        usize::from(self.settings.separate_write_segment)
    }

    /// Takes the segment without users that was used least recently, an empty one if there is one,
    /// for data from `first` on.
    pub(crate) fn take(&mut self, first: Lbn, written: bool) -> Option<SegmentIndex> {
        if !written && !self.switches.reads {
            return None;
        }
        // One number for each: an adaptive cache has thousands, and a branch each is what takes time.
        let most = if written && self.separate() > 0 { self.separate() } else { usize::MAX };
        let ranks = self.segments.iter().map(Segment::rank).enumerate().take(most);
        let ranks = ranks.skip(if written { 0 } else { self.separate() });
        let (index, _) = ranks.min_by_key(|(_, rank)| *rank)?;
        let segment = self.segments.get_mut(index).filter(|segment| segment.users == 0)?;
        segment.blocks = BlockRange::new(first, BlockCount::ZERO);
        segment.written = written;
        self.touch(index);
        Some(index)
    }

    /// Lets a segment grow to `end`, all there at `filled`; what no longer fits falls off its front.
    pub(crate) fn grow(&mut self, index: SegmentIndex, end: Lbn, filled: Instant) {
        let most = self.settings.segment_blocks;
        if let Some(segment) = self.segments.get_mut(index) {
            let end = end.max(segment.blocks.end());
            let first = segment.blocks.first.max(Lbn(end.0.saturating_sub(most.0)));
            segment.blocks = BlockRange::between(first.min(end), end);
            segment.filled = segment.filled.max(filled);
        }
        if self.settings.adaptive {
            self.make_room(index);
        }
    }

    /// Lets a segment begin `lead` blocks earlier.
    pub(crate) fn lead(&mut self, index: SegmentIndex, lead: BlockCount) {
        if let Some(segment) = self.segments.get_mut(index) {
            let first = Lbn(segment.blocks.first.0.saturating_sub(lead.0));
            segment.blocks = BlockRange::between(first, segment.blocks.end());
        }
    }

    /// Empties segments that were used least recently until all fit in the cache.
    fn make_room(&mut self, kept: SegmentIndex) {
        let all = u64::from(self.settings.segments) * self.settings.segment_blocks.0;
        while self.segments.iter().map(|segment| segment.blocks.count.0).sum::<u64>() > all {
            let idle = self.segments.iter_mut().enumerate().filter(|(index, segment)| {
                *index != kept && segment.users == 0 && !segment.blocks.is_empty()
            });
            let Some((_, oldest)) = idle.min_by_key(|(_, segment)| segment.used) else { return };
            oldest.blocks.count = BlockCount::ZERO;
        }
    }

    /// Gives up the blocks of a segment before `at`.
    pub(crate) fn drop_before(&mut self, index: SegmentIndex, at: Lbn) {
        if let Some(segment) = self.segments.get_mut(index) {
            segment.blocks = segment.blocks.split_at(at).1;
        }
    }

    /// Forgets all segments without users.
    pub(crate) fn forget(&mut self) {
        for segment in self.segments.iter_mut().filter(|segment| segment.users == 0) {
            segment.blocks.count = BlockCount::ZERO;
        }
    }

    /// Forgets segments without users that share blocks with what is going to be written.
    pub(crate) fn invalidate(&mut self, blocks: BlockRange) {
        let all_reads = self.settings.write_drops_reads;
        for segment in &mut self.segments {
            let stale = segment.blocks.overlaps(blocks) || (all_reads && !segment.written);
            if segment.users == 0 && stale {
                segment.blocks.count = BlockCount::ZERO;
            }
        }
    }

    pub(crate) fn add_user(&mut self, index: SegmentIndex, direction: Direction) {
        if let Some(segment) = self.segments.get_mut(index) {
            segment.users += 1;
            segment.writers += u32::from(direction == Direction::Write);
        }
    }

    pub(crate) fn remove_user(&mut self, index: SegmentIndex, direction: Direction) {
        if let Some(segment) = self.segments.get_mut(index) {
            segment.users = segment.users.saturating_sub(1);
            let writers = u32::from(direction == Direction::Write);
            segment.writers = segment.writers.saturating_sub(writers);
        }
    }

    /// The segment of written data, not all of it on the media, that ends where `first` begins and
    /// has room for `blocks` more.
    pub(crate) fn appendable(&self, first: Lbn, blocks: BlockCount) -> Option<SegmentIndex> {
        self.segments.iter().position(|segment| {
            segment.writers > 0
                && segment.blocks.end() == first
                && segment.blocks.count + blocks <= self.settings.segment_blocks
        })
    }

    /// Segments with data that are not on the media yet.
    pub(crate) fn dirty_segments(&self) -> usize {
        self.segments.iter().filter(|segment| segment.writers > 0).count()
    }
}
