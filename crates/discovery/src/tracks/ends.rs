//! Where one track ends: looked for by bisection, and proven by what passes the head between its blocks.

use futures::StreamExt;
use moirai_units::{BlockCount, Instant, Lbn, Nanos};

use super::{Behind, Care, DEVIATIONS, SECTORS_MIN, SKEW_SECTORS_MIN, Search};
use crate::error::Result;

/// Slipped sectors in a track, at most, where they are told from a short skew.
const SLIPS_MAX: usize = 16;
/// The same while the length of a sector is not known well.
const DEVIATIONS_FIRST: f64 = 20.0;
/// Reads of each block where one is too noisy, if no cache is there to answer them.
const REPEATED: u32 = 8;
/// A track has no more sectors than pass in a revolution, as far as the length of a sector is known before its end is.
const REVOLUTION_MARGIN: f64 = 1.01;
/// And no more than this.
const TRACK_SECTORS_MAX: f64 = 65536.0;
/// In so many parts a track is looked at that is not as expected.
const WITHIN: u64 = 6;
/// See [`Care::span`].
const SPAN_FIRST: u64 = 32;
/// How often a boundary is looked at, of which two must agree.
const END_TRIES: usize = 4;
const SWITCH_TRIES: usize = 6;
/// A block that passed the head later than this part of a revolution behind its neighbour is not beside it.
const NEIGHBOUR_PART: f64 = 8.0;

/// How neighbouring blocks lie.
pub(super) enum Neighbours {
    OnTrack,
    /// On different tracks: the second was read a revolution later.
    Apart(Behind),
    Unknown,
}

impl Search<'_> {
    /// The end of the track that begins with `first`, and when the first block of the next passed the head; `None` where that is not
    /// certain.
    pub(super) async fn end_of(&mut self, first: Lbn) -> Result<Option<(Lbn, Option<Behind>)>> {
        // Where a sector was slipped the track is shorter by one, if spares are elsewhere.
        let expected = self.expected.length(&[]);
        for length in
            [expected, expected.saturating_sub(1), expected.saturating_sub(2), expected + 1]
        {
            let end = first + BlockCount(length);
            if length > 2
                && end < self.capacity
                && let Some(behind) = self.is_end(first, end).await?
            {
                return Ok(Some((end, Some(behind))));
            }
        }
        if DEVIATIONS * self.rotation.noise_ns < SECTORS_MIN * self.sector_ns {
            // What comes soon behind the first may have been read ahead; but tracks may be short.
            for span in [SPAN_FIRST, 1] {
                let care = Care { span, ..Care::MUCH };
                if let Some(found) = self.end_without_noise(first, care).await? {
                    return Ok(Some(found));
                }
            }
            return Ok(None);
        }
        let repeated = (self.cache.hit == Nanos::ZERO).then_some(REPEATED);
        for reads in [Some(1), repeated].into_iter().flatten() {
            let care = Care { reads, ..Care::LITTLE };
            let Some(end) = self.bisect(first, care).await? else { continue };
            if end == self.capacity {
                // A short skew before it would not show.
                let is_as_expected = end.since(first).0 == expected && self.fits_turn(first, end);
                return Ok(is_as_expected.then_some((end, None)));
            }
            if let Some(behind) = self.is_end(first, end).await? {
                return Ok(Some((end, Some(behind))));
            }
        }
        Ok(None)
    }

    /// The same where times tell a single sector. So they tell slipped sectors, and boundaries with a skew next to none, as between two
    /// zones: there the drive cannot switch to the next track in time, and a read of the blocks beside the boundary takes a
    /// revolution more.
    async fn end_without_noise(
        &mut self,
        first: Lbn,
        care: Care,
    ) -> Result<Option<(Lbn, Option<Behind>)>> {
        let mut from = first;
        for _ in 0..SLIPS_MAX {
            let Some(end) = self.bisect(from, care).await? else { return Ok(None) };
            if end == self.capacity {
                return Ok(self.fits_turn(first, end).then_some((end, None)));
            }
            if let Some(behind) = self.is_end(first, end).await? {
                return Ok(Some((end, Some(behind))));
            }
            let sectors = end.since(first).0 as f64;
            if sectors * self.sector_ns > self.rotation.period_ns * REVOLUTION_MARGIN {
                return Ok(None);
            }
            // Where neighbours on a track take a revolution, too, nothing is told.
            if from == first && !matches!(self.neighbours(first).await?, Neighbours::OnTrack) {
                return Ok(None);
            }
            match self.neighbours(Lbn(end.0 - 1)).await? {
                Neighbours::Apart(behind) => {
                    let last = Lbn(end.0 - 1);
                    let expected_ns = last.since(first).0 as f64 * self.sector_ns;
                    let base = self.read(first).await?.finished;
                    let latest = self.late(base, last, expected_ns, 1).await?;
                    let is_one = self.is_one_track(first, end, (base, latest)).await?;
                    return Ok(is_one.then_some((end, Some(behind))));
                }
                Neighbours::OnTrack => {}
                Neighbours::Unknown => return Ok(None),
            }
            from = end;
        }
        Ok(None)
    }

    /// How a block and the next one lie, as far as it tells whether both can be read in one revolution.
    pub(super) async fn neighbours(&mut self, lbn: Lbn) -> Result<Neighbours> {
        let next = lbn + BlockCount(1);
        let mut seen = 0;
        for _ in 0..SWITCH_TRIES {
            // From elsewhere, and not from a cache.
            let elsewhere =
                if self.cache.hit > Nanos::ZERO { self.cache.forgotten_after } else { 1 };
            self.prober.evict(lbn, elsewhere).await?;
            let mut reads = std::pin::pin!(self.prober.stream(vec![lbn, next]));
            let (one, other) = (reads.next().await.transpose()?, reads.next().await.transpose()?);
            let Some((one, other)) = one.zip(other) else { break };
            let period_ns = self.rotation.period_ns;
            if other.finished > one.finished {
                let between_ns = other.finished.since(one.finished).0 as f64;
                if between_ns < period_ns / 2.0 {
                    // A few slipped sectors may lie between them. What comes at another time is from a cache.
                    let slipped = between_ns / self.sector_ns - 1.0;
                    return Ok(match (-SECTORS_MIN..SKEW_SECTORS_MIN).contains(&slipped) {
                        true => Neighbours::OnTrack,
                        false => Neighbours::Unknown,
                    });
                }
            } else {
                // The drive took the second one first. Were it behind the first on a track, a revolution later that would have passed.
                let between_ns = one.finished.since(other.finished).0 as f64;
                if between_ns < period_ns + self.sector_ns / 2.0 {
                    continue;
                }
            }
            let skew = self.rotation.offset(one.finished, other.finished, self.sector_ns);
            seen += 1;
            if seen == 2 {
                let switch = self.rotation.sectors(skew, self.sector_ns);
                return Ok(Neighbours::Apart((other.finished, switch)));
            }
        }
        Ok(Neighbours::Unknown)
    }

    /// What is behind the track of `first`, if `end` is the first block of the next. A skew must be seen twice if it is not known yet, or
    /// if times are noisy: then a read that was held up easily shows one that is known.
    async fn is_end(&mut self, first: Lbn, end: Lbn) -> Result<Option<Behind>> {
        let blocks = end.since(first).0 as f64;
        let tolerance_ns = self.tolerance_ns(DEVIATIONS, Care::LITTLE);
        let same_ns = self.tolerance_ns(DEVIATIONS, Care::MUCH);
        if !self.fits_turn(first, end) {
            return Ok(None);
        }
        let mut before: Option<f64> = None;
        let is_noisy = same_ns > SECTORS_MIN * self.sector_ns;
        let mut misses = 0;
        for _ in 0..END_TRIES {
            // From the last to the first: a cache reads ahead, and not back.
            let after = end + BlockCount(1);
            let behind = match after < self.capacity {
                true => Some(self.read(after).await?.finished),
                false => None,
            };
            let next = self.read(end).await?.finished;
            let last = self.read(Lbn(end.0 - 1)).await?.finished;
            let skew = self.rotation.offset(last, next, self.sector_ns);
            // Whether `end` itself lies elsewhere, in the place of a defect.
            let apart =
                behind.map_or(0.0, |behind| self.rotation.offset(next, behind, self.sector_ns));
            let mut is_seen = skew.abs() > tolerance_ns && apart.abs() <= tolerance_ns;
            if is_seen {
                let base = self.read(first).await?.finished;
                let late = self.rotation.offset(base, last, (blocks - 1.0) * self.sector_ns);
                is_seen = late.abs() <= tolerance_ns
                    && self.is_one_track(first, end, (base, late)).await?;
            }
            if !is_seen {
                // One of the reads may have been held up.
                misses += 1;
                if misses > usize::from(is_noisy) {
                    return Ok(None);
                }
                continue;
            }
            let switch = |skew| self.rotation.sectors(skew, self.sector_ns);
            let agrees = |before: f64| self.rotation.wrap(before - skew).abs() <= same_ns;
            let is_seen_twice = before.is_some_and(agrees);
            if let Some(known) = self.rotation.nearest(skew, &self.skews, same_ns)
                && (is_seen_twice || !is_noisy)
            {
                return Ok(Some((next, switch(known))));
            }
            if is_seen_twice {
                let behind = (next, switch(skew));
                self.skews.push(skew);
                return Ok(Some(behind));
            }
            before = Some(skew);
        }
        Ok(None)
    }

    /// Whether blocks between the first and the last of a track pass the head where slipped sectors let them: no sooner than on a track
    /// without any, and no later than the last one.
    async fn is_one_track(
        &mut self,
        first: Lbn,
        end: Lbn,
        (base, latest): (Instant, f64),
    ) -> Result<bool> {
        let blocks = end.since(first).0;
        let margin_ns = self.tolerance_ns(DEVIATIONS, Care::MUCH);
        for part in (1..WITHIN).rev() {
            let at = blocks * part / WITHIN;
            let expected_ns = at as f64 * self.sector_ns;
            let late = self.late(base, first + BlockCount(at), expected_ns, 1).await?;
            if late < -margin_ns || late > latest + margin_ns {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// Whether no more sectors lie from `first` to `end` than pass in a revolution.
    fn fits_turn(&self, first: Lbn, end: Lbn) -> bool {
        let period_ns = self.rotation.period_ns;
        let margin_ns = (self.sector_ns / 2.0).max(DEVIATIONS * self.rotation.noise_ns);
        let blocks = end.since(first).0 as f64;
        self.sector_ns > period_ns / TRACK_SECTORS_MAX
            && blocks * self.sector_ns < period_ns + margin_ns
    }

    /// Looks for the end of the track that begins with `first`: for the first block that does not pass the head when it would on the
    /// same track.
    async fn bisect(&mut self, first: Lbn, care: Care) -> Result<Option<Lbn>> {
        let reads = care.reads;
        let base = self.read(first).await?.finished;
        let shift = match reads {
            1 => 0.0,
            _ => self.late(base, first, 0.0, reads).await?,
        };
        let blocks_left = self.capacity.since(first).0;
        let (mut on_track, mut span) = (0, care.span);
        self.sector_ns = 0.0;
        let mut behind = loop {
            // Of the first blocks noise may say that they take no time.
            let sectors_max = match on_track {
                0..8 => u64::MAX,
                _ => (self.rotation.period_ns * REVOLUTION_MARGIN / self.sector_ns) as u64,
            };
            let end = blocks_left.min(sectors_max.max(on_track + 1));
            if span >= end {
                break end;
            }
            let expected_ns = shift + span as f64 * self.sector_ns;
            let late = self.late(base, first + BlockCount(span), expected_ns, reads).await?;
            let tolerance_ns = match on_track {
                0 => self.rotation.period_ns / NEIGHBOUR_PART,
                _ => self.tolerance_ns(DEVIATIONS_FIRST, care),
            };
            if late.abs() > tolerance_ns {
                break span;
            }
            self.sector_ns += late / span as f64;
            // A skew among the first blocks would make sectors longer.
            if on_track == 0 && span > 1 {
                let half = span / 2;
                let expected_ns = shift + half as f64 * self.sector_ns;
                let late = self.late(base, first + BlockCount(half), expected_ns, reads).await?;
                if late.abs() > self.tolerance_ns(DEVIATIONS, care) {
                    return Ok(None);
                }
            }
            (on_track, span) = (span, span * 2);
        };
        while behind - on_track > 1 {
            let middle = on_track + (behind - on_track) / 2;
            let expected_ns = shift + middle as f64 * self.sector_ns;
            let late = self.late(base, first + BlockCount(middle), expected_ns, reads).await?;
            match late.abs() <= self.tolerance_ns(DEVIATIONS, care) {
                true => {
                    self.sector_ns += late / middle as f64;
                    on_track = middle;
                }
                false => behind = middle,
            }
        }
        Ok((on_track > 0).then(|| first + BlockCount(behind)))
    }
}
