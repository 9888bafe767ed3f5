//! The boundaries of tracks, from timings alone: the READ-only search of thesis 4.2.1, made fast enough to prove each boundary.
//!
//! A read of one block ends when the block has passed the head. So the time between the ends of two reads, less whole revolutions,
//! is the angle between the blocks. On a track, neighbours are a sector apart; across a boundary, the skew comes to that, which is many
//! sectors, or the drive could not switch heads in time.
//!
//! ```text
//!     track k        f . . . . . . . . . . l                 time from f to l: (blocks - 1) sectors, or they are not on one track
//!     track k + 1              f . . . . . . . . . . l       time from l to f: a sector and the skew, or no boundary is between them
//! ```
//!
//! The search reads the last block of each track and the first of the next, one after the other, so that the drive goes from track to
//! track as in a long read: a revolution and a skew for each. A skew that was not seen before is measured twice, with no other read in
//! flight. Where the tracks are not as expected, the end of one is looked for by bisection. The drive's cache
//! gives nothing away: what it answers is too soon, and is read again when the cache has forgotten it.

mod ends;
mod expected;

use std::collections::VecDeque;

use expected::Expected;
use futures::StreamExt;
use moirai_storage::Device;
use moirai_units::{BlockCount, BlockRange, Instant, Lbn, Nanos};

use self::ends::Neighbours;
use crate::error::Result;
use crate::probe::{Prober, Read};
use crate::rotation::{CacheSeen, Rotation, SCATTERED_MAX, cache, rotation};

/// Skews of fewer sectors are not told from slipped sectors, which make a block come a sector later.
const SKEW_SECTORS_MIN: f64 = 4.5;
/// What is told where times have no noise.
const SECTORS_MIN: f64 = 0.5;
/// Standard deviations of noise that no read is off by.
const DEVIATIONS: f64 = 9.0;
/// Tracks that are expected at once, at most.
const AHEAD: usize = 256;
/// How often a short response was seen before it is taken for one of a cache.
const SAME_TIMES: usize = 3;
/// Tracks on either side that a track is compared with.
const BESIDE: usize = 3;
/// The same for tracks whose lengths none beside them has.
const ALONE_BESIDE: usize = 8;
/// Tracks after which lengths repeat, as spares at the ends of cylinders make them: more than heads that drives have.
const PERIOD_MAX: usize = 33;
/// How far behind a track whose end is not found the next one is looked for at first, where no length is known; then half as far again
/// each time.
const SKIPPED: u64 = 64;

/// How far a search has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Progress {
    /// The boundaries before this block are found.
    pub done: Lbn,
    /// The blocks of the device.
    pub capacity: BlockCount,
}

/// The tracks of a disk.
#[derive(Clone, Debug, PartialEq)]
pub struct Tracks {
    /// The first block of each track, in their order.
    pub firsts: Vec<Lbn>,
    /// Sectors that pass the head between the end of each track and the beginning of the next; 0 for what is a guess.
    pub switches: Vec<u32>,
    /// Where boundaries are guesses: those after the first block of such a range, and before its end.
    pub unsure: Vec<BlockRange>,
    /// How the disk turns.
    pub rotation: Rotation,
}

/// Whether a block is not within one of the ranges in which boundaries are guesses. A range's own first block is certain.
pub(crate) fn is_certain(unsure: &[BlockRange], lbn: Lbn) -> bool {
    !unsure.iter().any(|range| range.first < lbn && range.contains(lbn))
}

impl Tracks {
    /// Whether it is certain that a track begins with `lbn`, or that none does.
    #[must_use]
    pub fn is_certain(&self, lbn: Lbn) -> bool {
        is_certain(&self.unsure, lbn)
    }
}

/// Finds the boundaries of all tracks of `device`, which is only read. `progress` is told from time to time.
///
/// # Errors
/// Failures of the device, and [`Error::NoRotation`](crate::Error::NoRotation) for one that does not turn.
pub async fn find_tracks(device: &dyn Device, progress: impl FnMut(Progress)) -> Result<Tracks> {
    let mut prober = Prober::new(device);
    // The first answer may be unlike the others: a drive has been asleep, or a path is opened.
    prober.read(Lbn(0)).await?;
    let rotation = rotation(&mut prober).await?;
    let cache = cache(&mut prober, &rotation).await?;
    let capacity = prober.capacity();
    let mut search = Search {
        prober,
        rotation,
        cache,
        short: VecDeque::new(),
        capacity,
        sector_ns: 0.0,
        skews: Vec::new(),
        firsts: vec![Lbn(0)],
        switches: Vec::new(),
        turns: Vec::new(),
        unsure: Vec::new(),
        expected: Expected::default(),
    };
    search.all(progress).await?;
    search.doubt_odd_tracks().await?;
    let Search { mut firsts, mut switches, unsure, .. } = search;
    firsts.retain(|first| *first < capacity);
    switches.resize(firsts.len(), 0);
    Ok(Tracks { firsts, switches, unsure, rotation })
}

struct Search<'a> {
    prober: Prober<'a>,
    rotation: Rotation,
    cache: CacheSeen,
    /// The last short responses.
    short: VecDeque<Nanos>,
    capacity: Lbn,
    /// The time in which a sector passes the head, on the last track.
    sector_ns: f64,
    /// Skews that were measured with care, in ns.
    skews: Vec<f64>,
    firsts: Vec<Lbn>,
    /// Of each track but the last: sectors of the skew behind it, and as many as pass in a revolution.
    switches: Vec<u32>,
    turns: Vec<u32>,
    unsure: Vec<BlockRange>,
    expected: Expected,
}

/// How careful a search is.
#[derive(Clone, Copy)]
struct Care {
    /// Sectors that a skew has at least.
    sectors_min: f64,
    /// Reads of each block.
    reads: u32,
    /// Blocks from the first of a track to one that is looked at first.
    span: u64,
}

impl Care {
    const LITTLE: Care = Care { sectors_min: SKEW_SECTORS_MIN, reads: 1, span: 1 };
    const MUCH: Care = Care { sectors_min: SECTORS_MIN, reads: 1, span: 1 };
}

/// When the first block of the next track passed the head, and how many sectors passed before it.
type Behind = (Instant, u32);

/// The last block of a track and the first of the next, as they are expected.
struct Pair {
    last: Lbn,
    next: Lbn,
}

impl Search<'_> {
    /// What passes the head later than this is not where it was expected.
    fn tolerance_ns(&self, deviations: f64, care: Care) -> f64 {
        let noise_ns = self.rotation.noise_ns / f64::from(care.reads).sqrt();
        (care.sectors_min * self.sector_ns).max(deviations * noise_ns).max(2e3)
    }

    /// Reads a block from the platter: where a cache had it, after that has forgotten it.
    async fn read(&mut self, lbn: Lbn) -> Result<Read> {
        let mut read = self.prober.read(lbn).await?;
        self.notice_hits(read.response);
        while read.response <= self.cache.hit {
            self.prober.evict(lbn, self.cache.forgotten_after).await?;
            read = self.prober.read(lbn).await?;
            if read.response <= self.cache.hit {
                if self.cache.forgotten_after >= SCATTERED_MAX {
                    break;
                }
                self.cache.forgotten_after *= 2;
            }
        }
        Ok(read)
    }

    /// Notices a cache that showed only now: its answers take as long each time, and those from the platter as long as it turns.
    fn notice_hits(&mut self, response: Nanos) {
        if response.0 as f64 > self.rotation.period_ns / 4.0 {
            return;
        }
        let is_same = |other: &&Nanos| {
            other.0.abs_diff(response.0) as f64
                <= response.0 as f64 / 100.0 + 3.0 * self.rotation.noise_ns
        };
        if self.short.iter().filter(is_same).count() >= SAME_TIMES {
            self.cache.hit = self.cache.hit.max(Nanos(response.0 + response.0 / 4));
            self.cache.forgotten_after = self.cache.forgotten_after.max(2);
        }
        self.short.push_back(response);
        if self.short.len() > 2 * SAME_TIMES {
            self.short.pop_front();
        }
    }

    /// By how much a block passes the head later than `expected_ns` after `base`: the mean of so many reads.
    async fn late(&mut self, base: Instant, lbn: Lbn, expected_ns: f64, reads: u32) -> Result<f64> {
        let first = self.read(lbn).await?.finished;
        let late = self.rotation.offset(base, first, expected_ns);
        let mut sum = 0.0;
        for _ in 1..reads {
            let again = self.read(lbn).await?.finished;
            sum += self.rotation.offset(first, again, 0.0);
        }
        Ok(self.rotation.wrap(late + sum / f64::from(reads)))
    }

    async fn all(&mut self, mut progress: impl FnMut(Progress)) -> Result<()> {
        let capacity = self.capacity.since(Lbn(0));
        let mut first = Lbn(0);
        let mut passed: Option<Instant> = None;
        while first < self.capacity {
            progress(Progress { done: first, capacity });
            let begin = match passed {
                Some(passed) if self.expected.regular > 0 => self.follow(first, passed).await?,
                _ => (first, None),
            };
            if begin.0 > first {
                (first, passed) = begin;
                continue;
            }
            (first, passed) = match self.end_of(first).await? {
                Some((end, behind)) => {
                    if self.expected.push(end.since(first).0) {
                        self.skews.clear();
                    }
                    self.firsts.push(end);
                    self.switches.push(behind.map_or(0, |(_, switch)| switch));
                    self.turns.push((self.rotation.period_ns / self.sector_ns.max(1.0)) as u32);
                    (end, behind.map(|(passed, _)| passed))
                }
                None => self.skip(first).await?,
            };
        }
        Ok(())
    }

    /// Follows tracks from one on, whose first block passed the head at `passed`, for as long as they are as expected. Gives where it
    /// came to.
    async fn follow(&mut self, first: Lbn, passed: Instant) -> Result<(Lbn, Option<Instant>)> {
        let mut pairs: Vec<Pair> = Vec::new();
        let (mut ahead, mut at) = (Vec::new(), first);
        while pairs.len() < AHEAD {
            let length = self.expected.length(&ahead);
            let next = at + BlockCount(length);
            if length < 2 || next > self.capacity {
                break;
            }
            pairs.push(Pair { last: Lbn(next.0 - 1), next });
            ahead.push(length);
            at = next;
        }
        let tolerance_ns = self.tolerance_ns(DEVIATIONS, Care::LITTLE);
        let same_ns = self.tolerance_ns(DEVIATIONS, Care::MUCH);
        let Search { prober, rotation, capacity, sector_ns, skews, expected, .. } = self;
        let lbns = pairs.iter().flat_map(|pair| [pair.last, pair.next]);
        let lbns: Vec<Lbn> = lbns.filter(|lbn| *lbn < *capacity).collect();
        let mut reads = std::pin::pin!(prober.stream(lbns));
        let (mut first, mut passed) = (first, passed);
        // The read before, of those that follow each other here.
        let mut before = None;
        for Pair { last, next } in pairs {
            let Some(of_last) = reads.next().await.transpose()? else { break };
            let sectors = (last.0 - first.0) as f64;
            let late = rotation.offset(passed, of_last.finished, sectors * *sector_ns);
            let is_held_up = before.is_some_and(|at| rotation.is_held_up(at, of_last.finished));
            if late.abs() > tolerance_ns || is_held_up {
                return Ok((first, Some(passed)));
            }
            *sector_ns += late / sectors;
            let mut switch = 0;
            if next < *capacity {
                let Some(of_next) = reads.next().await.transpose()? else { break };
                let skew = rotation.offset(of_last.finished, of_next.finished, *sector_ns);
                // Where times are noisy, no skew at all may be near a short one.
                let shows = skew.abs() > tolerance_ns
                    && !rotation.is_held_up(of_last.finished, of_next.finished);
                let known = rotation.nearest(skew, skews, same_ns).filter(|_| shows);
                let Some(known) = known else { return Ok((first, Some(passed))) };
                passed = of_next.finished;
                before = Some(passed);
                switch = rotation.sectors(known, *sector_ns);
            }
            expected.push(next.0 - first.0);
            self.firsts.push(next);
            self.switches.push(switch);
            self.turns.push((rotation.period_ns / *sector_ns) as u32);
            first = next;
        }
        Ok((first, Some(passed)))
    }

    /// Goes on behind a track whose end is not certain: guesses boundaries up to one that is.
    async fn skip(&mut self, first: Lbn) -> Result<(Lbn, Option<Instant>)> {
        let length = self.expected.length(&[]);
        let mut ahead = if length > 0 { length + length / 2 } else { SKIPPED };
        while ahead < self.capacity.since(first).0 {
            if let Some((end, behind)) = self.end_of(first + BlockCount(ahead)).await? {
                self.guess(first, end, length);
                return Ok((end, behind.map(|(passed, _)| passed)));
            }
            ahead += ahead / 2;
        }
        self.guess(first, self.capacity, length);
        Ok((self.capacity, None))
    }

    /// Takes tracks as they are expected for those before `end`, or none where nothing is expected.
    fn guess(&mut self, first: Lbn, end: Lbn, length: u64) {
        // Where the end of a track does not show, it may not begin where it seemed to.
        let before = self.firsts.len().checked_sub(2).and_then(|before| self.firsts.get(before));
        self.unsure.push(BlockRange::between(before.copied().unwrap_or(first), end));
        let mut at = first;
        while length > 0 && at.0 + length + length / 2 < end.0 {
            at += BlockCount(length);
            self.expected.push(length);
            self.firsts.push(at);
        }
        self.expected.push(end.since(at).0);
        self.firsts.push(end);
        self.switches.resize(self.firsts.len() - 1, 0);
        self.turns.resize(self.firsts.len() - 1, 0);
    }

    /// Doubts what looks like a track and may be none.
    ///
    /// Pairs of neighbours that would have room on one track, with what passed between them: many slipped sectors in a row look like a
    /// skew. Tracks that are longer than all beside them: a boundary without a skew is not seen. Tracks of a length that none beside them
    /// has, where the drive reads over their ends without a switch, or where times are too noisy to tell. And neighbours of which one has a
    /// block less and the next one more than where their lengths come again: a block that was moved from the end of a track to that of the
    /// next passes as if it began that one.
    async fn doubt_odd_tracks(&mut self) -> Result<()> {
        let lengths = self.expected.lengths.clone();
        let mut odd = Vec::new();
        let gaps = self.switches.iter().zip(&self.turns);
        for (at, (tracks, (switch, turn))) in self.firsts.windows(3).zip(gaps).enumerate() {
            if let &[first, _, end] = tracks
                && end.since(first).0 + u64::from(*switch) <= u64::from(*turn) + 1
            {
                odd.push((at, 2));
            }
        }
        odd.extend((0..lengths.len()).filter(|at| is_longest(&lengths, *at)).map(|at| (at, 1)));
        odd.extend(
            (0..lengths.len()).filter(|at| takes_from_next(&lengths, *at)).map(|at| (at, 2)),
        );
        for (at, tracks) in odd {
            let (first, end) = (self.firsts.get(at), self.firsts.get(at + tracks));
            if let (Some(first), Some(end)) = (first, end) {
                self.unsure.push(BlockRange::between(*first, *end));
            }
        }
        for at in (0..lengths.len()).filter(|at| is_alone(&lengths, *at)) {
            for at in [at, at + 1] {
                let Some(&[before, first, end]) =
                    at.checked_sub(1).and_then(|before| self.firsts.get(before..before + 3))
                else {
                    continue;
                };
                if !self.is_apart(at - 1, first).await? {
                    self.unsure.push(BlockRange::between(before, end));
                }
            }
        }
        self.unsure = merged(std::mem::take(&mut self.unsure));
        Ok(())
    }

    /// Whether a block lies on another track than the one before it, which is of the track `at`, as far as times tell.
    async fn is_apart(&mut self, at: usize, first: Lbn) -> Result<bool> {
        // A guess is in doubt as it is.
        let Some(sectors) = self.turns.get(at).copied().filter(|sectors| *sectors > 0) else {
            return Ok(true);
        };
        self.sector_ns = self.rotation.period_ns / f64::from(sectors);
        // Between two zones the next track may go on where this one ended, as far as noisy times tell.
        if DEVIATIONS * self.rotation.noise_ns >= SECTORS_MIN * self.sector_ns {
            return Ok(false);
        }
        Ok(!matches!(self.neighbours(Lbn(first.0 - 1)).await?, Neighbours::OnTrack))
    }
}

/// The ranges in their order, those that overlap as one.
fn merged(mut ranges: Vec<BlockRange>) -> Vec<BlockRange> {
    ranges.sort_unstable_by_key(|range| range.first);
    let mut merged: Vec<BlockRange> = Vec::with_capacity(ranges.len());
    for range in ranges {
        match merged.last_mut() {
            Some(last) if range.first < last.end() => {
                *last = BlockRange::between(last.first, last.end().max(range.end()));
            }
            _ => merged.push(range),
        }
    }
    merged
}

/// Whether a track is longer than all beside it.
fn is_longest(lengths: &[u64], at: usize) -> bool {
    let (before, behind) = beside(lengths, at, BESIDE);
    let shorter = |others: &[u64]| others.iter().all(|other| Some(other) < lengths.get(at));
    !before.is_empty() && !behind.is_empty() && shorter(before) && shorter(behind)
}

/// Whether none beside a track is as long.
fn is_alone(lengths: &[u64], at: usize) -> bool {
    let (before, behind) = beside(lengths, at, ALONE_BESIDE);
    lengths.get(at).is_some_and(|length| !before.contains(length) && !behind.contains(length))
}

/// The lengths before and behind one of a track.
fn beside(lengths: &[u64], at: usize, count: usize) -> (&[u64], &[u64]) {
    let before = lengths.get(at.saturating_sub(count)..at);
    let behind = lengths.get(at + 1..(at + 1 + count).min(lengths.len()));
    (before.unwrap_or_default(), behind.unwrap_or_default())
}

/// Whether the track behind `at` has a block more, and this one has one less, than where the lengths beside them come again.
fn takes_from_next(lengths: &[u64], at: usize) -> bool {
    let pair = |from: Option<usize>| from.and_then(|from| lengths.get(from..from + 2));
    let same = |one: Option<usize>, other: Option<usize>| {
        pair(one).zip(pair(other)).is_some_and(|(one, other)| one == other)
    };
    (1..PERIOD_MAX).any(|period| {
        let earlier = |from: usize| from.checked_sub(period);
        let is_period = at.checked_sub(2).is_some_and(|before| same(Some(before), earlier(before)))
            && same(Some(at + 2), Some(at + 2 + period));
        is_period
            && same(earlier(at), Some(at + period))
            && same(earlier(at), earlier(at).and_then(earlier))
            && same(Some(at + period), Some(at + 2 * period))
            && match (pair(Some(at)), pair(Some(at + period))) {
                (Some(&[one, two]), Some(&[of_one, of_two])) => {
                    one + 1 == of_one && two == of_two + 1
                }
                _ => false,
            }
    })
}
