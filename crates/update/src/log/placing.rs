//! Where on the log device the next frame goes.
//!
//! *Append* puts it at the beginning of what is free. *Trail* is for disks (the BOSC paper, 4.1): segments are tracks, and a frame
//! goes where the head is about to be, so that nothing waits for the platter.

use std::sync::Arc;

use moirai_units::{BlockCount, BlockRange, Instant, Lbn, Nanos};

use crate::log::frame::Frame;
use crate::log::segments::Segments;
use crate::log::segments::{TRACK_FILL_PERCENT, Tracks};

/// Sizes of frames that differ in how long before the head they are put: a disk that gets all of a frame before it looks
/// for the place takes longer for a longer one.
const SIZES: usize = 10;
/// How long before the head a frame is put at first, as a part of a turn.
const LOOKAHEAD_FIRST: f64 = 1.0 / 16.0;
/// How much longer once it came too late, and a turn was lost.
const LOOKAHEAD_STEP: f64 = 1.0 / 128.0;
/// How much shorter with each frame that came in time: before any was late, and then.
const LOOKAHEAD_LESS: [f64; 2] = [1.0 / 2048.0, 1.0 / 32_768.0];

/// Blocks of a segment that follow each other.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Gap {
    /// Blocks of the segment before it.
    pub(crate) at: BlockCount,
    pub(crate) count: BlockCount,
}

impl Gap {
    fn end(&self) -> BlockCount {
        self.at + self.count
    }
}

/// The first physical sector that begins at `at` or after it.
fn whole_sectors(at: Lbn, physical: BlockCount) -> Lbn {
    Lbn(at.0.next_multiple_of(physical.0.max(1)))
}

/// What is free of a segment, in its order: whole physical sectors.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Free {
    gaps: Vec<Gap>,
    all: BlockCount,
}

impl Free {
    /// Segment `index` with nothing in it: its whole physical sectors.
    pub(crate) fn of(segments: &Segments, index: u32) -> Free {
        Free::new(segments.at(index), segments.ring.physical)
    }

    fn new(blocks: BlockRange, physical: BlockCount) -> Free {
        let begin = whole_sectors(blocks.first, physical).0 - blocks.first.0;
        let end =
            (blocks.end().0 / physical.0.max(1) * physical.0.max(1)).saturating_sub(blocks.first.0);
        let gap = Gap { at: BlockCount(begin), count: BlockCount(end.saturating_sub(begin)) };
        let gaps = if gap.count > BlockCount::ZERO { vec![gap] } else { Vec::new() };
        Free { gaps, all: blocks.count }
    }

    pub(crate) fn contains(&self, at: BlockCount) -> bool {
        self.gaps.iter().any(|gap| (gap.at..gap.end()).contains(&at))
    }

    /// Whether a run of free blocks begins at `at`.
    pub(crate) fn begins_at(&self, at: BlockCount) -> bool {
        self.gaps.iter().any(|gap| gap.at == at)
    }

    /// Whether the last block is free.
    pub(crate) fn is_open(&self) -> bool {
        self.gaps.last().is_some_and(|gap| gap.end() == self.all)
    }

    fn count(&self) -> BlockCount {
        self.gaps.iter().map(|gap| gap.count).sum()
    }

    /// These blocks are no more free, as far as they were.
    pub(crate) fn take(&mut self, taken: Gap) {
        let mut gaps = Vec::with_capacity(self.gaps.len() + 1);
        for gap in &self.gaps {
            let before = taken.at.min(gap.end()).0.saturating_sub(gap.at.0);
            let behind = gap.end().0.saturating_sub(taken.end().max(gap.at).0);
            let parts = [(gap.at, before), (BlockCount(gap.end().0 - behind), behind)];
            let parts = parts.into_iter().map(|(at, count)| Gap { at, count: BlockCount(count) });
            gaps.extend(parts.filter(|part| part.count > BlockCount::ZERO));
        }
        self.gaps = gaps;
    }
}

/// What is free of the segment that is written, and where the head is.
#[derive(Debug)]
pub(crate) struct Placing {
    segments: Arc<Segments>,
    segment: u32,
    free: Free,
    head: Head,
}

/// Where the head is: as parts of a turn behind the beginning of the first track.
#[derive(Clone, Copy, Debug)]
struct Head {
    /// Where it was last known to be, at which time, and over which track.
    known: Option<(f64, Instant, u32)>,
    /// The frame under way, and when it was begun.
    under_way: Option<(Gap, Instant)>,
    /// For frames of one block, of two or three, of four to seven, and so on.
    lookaheads: [Lookahead; SIZES],
}

/// How far before the head a frame is put, which is learnt.
#[derive(Clone, Copy, Debug)]
struct Lookahead {
    /// As a part of a turn.
    turns: f64,
    was_late: bool,
}

impl Placing {
    pub(crate) fn new(segments: Arc<Segments>, segment: u32, free: Free) -> Placing {
        let first = Lookahead { turns: LOOKAHEAD_FIRST, was_late: false };
        let head = Head { known: None, under_way: None, lookaheads: [first; SIZES] };
        Placing { segments, segment, free, head }
    }

    /// The segment that is written.
    pub(crate) fn segment(&self) -> u32 {
        self.segment
    }

    /// Goes on to a segment that is free.
    pub(crate) fn go_on_to(&mut self, segment: u32) {
        self.segment = segment;
        self.free = Free::of(&self.segments, segment);
    }

    /// Where that lies.
    pub(crate) fn blocks(&self) -> BlockRange {
        self.segments.at(self.segment)
    }

    /// Bytes of frames' contents that are sure to find room in the segment.
    pub(crate) fn left_bytes(&self) -> u64 {
        match self.segments.tracks {
            Some(_) => 0,
            None => self.free.gaps.iter().map(|gap| Frame::content_bytes(gap.count)).sum(),
        }
    }

    /// Where a frame goes for which `wanted` blocks are needed, at `now`; there may be fewer. With it the time until the
    /// head is there. `None` when it goes to the next segment.
    pub(crate) fn choose(&self, wanted: BlockCount, now: Instant) -> Option<(Gap, Nanos)> {
        let written = self.free.all.0 - self.free.count().0;
        let is_left = written * 100 >= self.free.all.0 * TRACK_FILL_PERCENT;
        if self.segments.tracks.is_some() && is_left {
            return None;
        }
        self.choose_of(self.segment, &self.free, wanted, now)
    }

    /// The same in a segment with nothing in it.
    pub(crate) fn choose_in(
        &self,
        segment: u32,
        wanted: BlockCount,
        now: Instant,
    ) -> Option<(Gap, Nanos)> {
        self.choose_of(segment, &Free::of(&self.segments, segment), wanted, now)
    }

    fn choose_of(
        &self,
        segment: u32,
        free: &Free,
        wanted: BlockCount,
        now: Instant,
    ) -> Option<(Gap, Nanos)> {
        let Some(tracks) = &self.segments.tracks else {
            return free.gaps.first().map(|gap| (*gap, Nanos(0)));
        };
        let first = self.segments.at(segment).first;
        let from = first + self.head.arrives(tracks, segment, (free.all, wanted), now);
        let from = BlockCount(whole_sectors(from, self.segments.ring.physical).0 - first.0);
        let from = from.min(free.all);
        // From there on and round; what lies around it is cut there.
        let behind = free.gaps.iter().filter(|gap| gap.end() > from).map(|gap| {
            let at = gap.at.max(from);
            Gap { at, count: BlockCount(gap.end().0 - at.0) }
        });
        let before = free.gaps.iter().filter(|gap| gap.at < from).map(|gap| {
            let end = gap.end().min(from);
            Gap { at: gap.at, count: BlockCount(end.0 - gap.at.0) }
        });
        let wait = |gap: &Gap| (gap.at.0 + free.all.0 - from.0) % free.all.0.max(1);
        // The one with which all that is wanted is written first: the next that has room for all could be half a turn away
        // where a track is used, and what finds no room in one needs others, each with its lookahead and a wait.
        let lookahead = self.head.lookahead(wanted) * free.all.0 as f64;
        let cost = |gap: &Gap| {
            let count = gap.count.min(wanted).0.max(1);
            let others = (wanted.0 - count.min(wanted.0)).div_ceil(count);
            wait(gap) as f64 + wanted.0 as f64 + others as f64 * 2.0 * lookahead
        };
        let gap = behind.chain(before).min_by(|one, other| cost(one).total_cmp(&cost(other)))?;
        Some((gap, Nanos(tracks.rotation.0 * wait(&gap) / free.all.0.max(1))))
    }

    /// Where one block is free, however full the segment is.
    pub(crate) fn any(&self) -> Option<Gap> {
        self.free.gaps.first().copied()
    }

    /// A frame is written to the first `count` blocks of a gap.
    pub(crate) fn begin(&mut self, at: BlockCount, count: BlockCount, now: Instant) {
        let gap = Gap { at, count };
        self.free.take(gap);
        self.head.under_way = Some((gap, now));
    }

    /// The last frame that was begun is on the medium; it `was_alone` when no other was before it.
    pub(crate) fn end(&mut self, now: Instant, was_alone: bool) {
        let Some(tracks) = &self.segments.tracks else { return };
        self.head.ended(tracks, self.segment, self.free.all, now, was_alone);
    }
}

/// Which of the lookaheads is that of so many blocks.
fn size_of(blocks: BlockCount) -> usize {
    (blocks.0.max(1).ilog2() as usize).min(SIZES - 1)
}

impl Lookahead {
    fn learn(&mut self, is_late: bool) {
        self.was_late |= is_late;
        let [early, then] = LOOKAHEAD_LESS;
        let change = match (is_late, self.was_late) {
            (true, _) => LOOKAHEAD_STEP,
            (false, false) => -early,
            (false, true) => -then,
        };
        self.turns = (self.turns + change).clamp(0.0, 0.9);
    }
}

impl Head {
    fn lookahead(&self, blocks: BlockCount) -> f64 {
        self.lookaheads.get(size_of(blocks)).map_or(LOOKAHEAD_FIRST, |lookahead| lookahead.turns)
    }

    /// The first of a track's `blocks` on which it can write a frame of as many as are `wanted` (equation 1).
    fn arrives(
        &self,
        tracks: &Tracks,
        track: u32,
        (blocks, wanted): (BlockCount, BlockCount),
        now: Instant,
    ) -> BlockCount {
        let Some((phase, at, over)) = self.known else { return BlockCount::ZERO };
        let begin = tracks.phase(track);
        // Another track is reached in the time that its skew leaves.
        let switch = if over == track { 0.0 } else { (begin - tracks.phase(over)).rem_euclid(1.0) };
        let phase = phase + tracks.turns(now.since(at)) + self.lookahead(wanted) + switch;
        let part = (phase - begin).rem_euclid(1.0);
        BlockCount(((part * blocks.0 as f64).ceil() as u64).min(blocks.0 - 1))
    }

    fn ended(
        &mut self,
        tracks: &Tracks,
        track: u32,
        blocks: BlockCount,
        now: Instant,
        alone: bool,
    ) {
        let Some((gap, begun)) = self.under_way.take() else { return };
        let part = |count: BlockCount| count.0 as f64 / blocks.0 as f64;
        let start = tracks.phase(track) + part(gap.at);
        if let Some((phase, at, _)) = self.known.filter(|(.., over)| alone && *over == track) {
            let wait = (start - phase - tracks.turns(begun.since(at))).rem_euclid(1.0);
            let is_late = tracks.turns(now.since(begun)) > wait + part(gap.count) + 0.5;
            if let Some(lookahead) = self.lookaheads.get_mut(size_of(gap.count)) {
                lookahead.learn(is_late);
            }
        }
        self.known = Some((start + part(gap.count), now, track));
    }
}

impl Tracks {
    fn phase(&self, track: u32) -> f64 {
        self.phases.get(track as usize).copied().unwrap_or(0.0)
    }

    fn turns(&self, time: Nanos) -> f64 {
        time.0 as f64 / self.rotation.0 as f64
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::log::segments::{LogWriter, Ring};

    const ROTATION: Nanos = Nanos(8_000_000);
    const TRACK: u64 = 400;
    const SKEW: u64 = 50;

    /// Ten tracks, which begin anywhere in physical sectors.
    fn disk(physical: BlockCount) -> Arc<Segments> {
        let tracks = Tracks {
            rotation: ROTATION,
            starts: (0..11).map(|track| Lbn(3 + track * TRACK)).collect(),
            phases: (0..11).map(|track| (track * SKEW) as f64 / TRACK as f64).collect(),
        };
        let writer = LogWriter::Trail { rotation: ROTATION };
        let ring = Ring { segment: BlockCount(TRACK * 3 / 5), segments: 10, writer, physical };
        Arc::new(Segments { ring, tracks: Some(tracks) })
    }

    /// When the head has passed the frame, for a disk that needs `overhead` before it looks for it.
    fn written(
        segments: &Segments,
        segment: u32,
        gap: Gap,
        begun: Instant,
        overhead: Nanos,
    ) -> Instant {
        let tracks = segments.tracks.as_ref().unwrap();
        let ready = begun + overhead;
        let start = tracks.phase(segment) + gap.at.0 as f64 / TRACK as f64;
        let now = (ready.ns % ROTATION.0) as f64 / ROTATION.0 as f64;
        let turns = (start - now).rem_euclid(1.0) + gap.count.0 as f64 / TRACK as f64;
        ready + Nanos((turns * ROTATION.0 as f64) as u64)
    }

    #[test]
    fn frames_are_where_the_head_is_about_to_be() {
        place_frames(BlockCount(1));
    }

    /// And none shares a physical sector with another, or reaches into the next track.
    #[test]
    fn frames_are_whole_physical_sectors_where_the_head_is_about_to_be() {
        place_frames(BlockCount(8));
    }

    fn place_frames(physical: BlockCount) {
        let segments = disk(physical);
        let mut placing = Placing::new(Arc::clone(&segments), 0, Free::of(&segments, 0));
        let overhead = Nanos(300_000);
        let mut now = Instant { ns: 0 };
        let (mut waited, mut frames, mut tracks) = (0, 0, 0);
        for round in 0..4000_u64 {
            now = now + Nanos(round * 7919 % 3_000_000);
            let wanted = BlockCount((1 + round % 12).next_multiple_of(physical.0));
            let Some((gap, _)) = placing.choose(wanted, now) else {
                tracks += 1;
                placing.go_on_to((placing.segment() + 1) % 10);
                continue;
            };
            let gap = Gap { count: gap.count.min(wanted), ..gap };
            let blocks = BlockRange::new(placing.blocks().first + gap.at, gap.count);
            assert!(blocks.first.0.is_multiple_of(physical.0) && blocks.count > BlockCount::ZERO);
            assert!(blocks.count.0.is_multiple_of(physical.0));
            assert!(blocks.end() <= placing.blocks().end());
            placing.begin(gap.at, gap.count, now);
            let done = written(&segments, placing.segment(), gap, now, overhead);
            if round > 2000 {
                waited += done.since(now).0;
                frames += 1;
            }
            now = done;
            placing.end(now, true);
        }
        assert!(tracks > 50, "{tracks}");
        // The overhead, some six blocks, and what lies before the next that is free: anywhere on the track it would be
        // half a turn more.
        let mean = Nanos(waited / frames);
        let anywhere = overhead + Nanos(ROTATION.0 / 2);
        assert!(mean.0 < anywhere.0 / 3, "{mean} of {anywhere}");
    }

    proptest! {
        #[test]
        fn what_is_taken_is_not_free(taken in prop::collection::vec((0u64..100, 1u64..20), 0..20)) {
            let all = BlockRange::new(Lbn(0), BlockCount(100));
            let mut free = Free::new(all, BlockCount(1));
            let mut is_free = [true; 120];
            for (at, count) in taken {
                free.take(Gap { at: BlockCount(at), count: BlockCount(count) });
                is_free[at as usize..(at + count) as usize].fill(false);
            }
            let mut found = [false; 120];
            for gap in &free.gaps {
                prop_assert!(gap.count > BlockCount::ZERO);
                found[gap.at.0 as usize..gap.end().0 as usize].fill(true);
            }
            prop_assert_eq!(&found[..100], &is_free[..100]);
        }
    }
}
