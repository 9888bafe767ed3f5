//! The time of a revolution: reads of one block end whole revolutions apart.

use std::collections::BTreeSet;

use moirai_runtime::sleep;
use moirai_units::{BlockCount, Instant, Lbn, Nanos};

use crate::error::{Error, Result};
use crate::probe::Prober;

/// Revolutions that drives may take, in ns: 24,000 to 2,400 a minute.
const SHORTEST_NS: f64 = 2.5e6;
const LONGEST_NS: f64 = 25e6;
/// Reads of the block, and after how many it is clear whether the block comes from a cache.
const SAMPLES: usize = 24;
const SAMPLES_FIRST: usize = 10;
/// Reads elsewhere before each of them, at most: a cache must have forgotten the block.
pub(crate) const SCATTERED_MAX: u64 = 1024;
/// How far from a whole number of revolutions reads may end, as a part of one.
const TOLERANCE: f64 = 0.02;
/// Reads that follow each other end no more revolutions apart than this.
const HELD_UP_TURNS: f64 = 4.0;
/// Reads after waits of all parts of a revolution, and how far half of their responses lie apart at least, as a part of one.
const WAITS: usize = 16;
const SPREAD_MIN: f64 = 0.125;
/// How many of the reads must, and how many fewer may than with another period. The others were held up.
const INLIERS: f64 = 0.8;
const OUTLIERS: usize = 2;

/// How a disk turns.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Rotation {
    /// The time of a revolution, in ns.
    pub period_ns: f64,
    /// The standard deviation of when reads end, in ns.
    pub noise_ns: f64,
}

impl Rotation {
    /// Revolutions a minute.
    #[must_use]
    pub fn rpm(&self) -> f64 {
        60e9 / self.period_ns
    }

    /// The part of a time that is no whole number of revolutions, in ns: from minus one half of a revolution to one half.
    #[must_use]
    pub fn wrap(&self, ns: f64) -> f64 {
        ns - self.period_ns * (ns / self.period_ns).round()
    }

    /// The same of the time between two reads, less `expected_ns`.
    #[must_use]
    pub fn offset(&self, from: Instant, to: Instant, expected_ns: f64) -> f64 {
        let between = i128::from(ns_of(to)) - i128::from(ns_of(from));
        self.wrap(between as f64 - expected_ns)
    }

    /// Whether one of two reads that follow each other was held up: by chance it may end at any angle then.
    pub(crate) fn is_held_up(&self, from: Instant, to: Instant) -> bool {
        let between = i128::from(ns_of(to)) - i128::from(ns_of(from));
        between.unsigned_abs() as f64 > HELD_UP_TURNS * self.period_ns
    }

    /// The one of `known` that differs by no more than a tolerance, all in ns.
    pub(crate) fn nearest(&self, ns: f64, known: &[f64], tolerance_ns: f64) -> Option<f64> {
        known.iter().copied().find(|one| self.wrap(one - ns).abs() <= tolerance_ns)
    }

    /// How many sectors pass in a time, which is less than a revolution.
    #[must_use]
    pub fn sectors(&self, ns: f64, sector_ns: f64) -> u32 {
        let ns = if ns < 0.0 { ns + self.period_ns } else { ns };
        (ns / sector_ns).round() as u32
    }
}

fn ns_of(at: Instant) -> u64 {
    at.since(Instant::ZERO).0
}

/// Measures the time of a revolution.
pub(crate) async fn rotation(prober: &mut Prober<'_>) -> Result<Rotation> {
    let mut scattered = 1;
    while scattered <= SCATTERED_MAX {
        let lbn = Lbn(prober.capacity().0 / 3);
        let mut ends = Vec::with_capacity(SAMPLES);
        for sample in 0..SAMPLES as u64 {
            // A cache may keep what it has read ahead and not what it has sent, or the other way round.
            prober.read(Lbn(lbn.0.saturating_sub(1))).await?;
            // Not always as many, or all times could be multiples of two revolutions.
            prober.scatter(scattered + sample % 5).await?;
            ends.push(prober.read(lbn).await?.finished);
            if ends.len() == SAMPLES_FIRST && period(&ends).is_none() {
                break;
            }
        }
        if ends.len() == SAMPLES
            && let Some((period_ns, noise_ns)) = period(&ends)
        {
            if !waits_for_angle(prober, period_ns).await? {
                break;
            }
            return Ok(Rotation { period_ns, noise_ns });
        }
        scattered *= 4;
    }
    Err(Error::NoRotation {
        device: prober.name().to_owned(),
        why: "reads of one block, with reads elsewhere between them, do not end whole revolutions apart, or take as long whenever \
              they are asked for; if it is a disk, see that nobody else uses it"
            .to_owned(),
    })
}

/// Whether responses depend on when they are asked for, as those of a disk do, which waits for the angle. Where each takes as long, as over a
/// network, reads end whole responses apart, too.
async fn waits_for_angle(prober: &mut Prober<'_>, period_ns: f64) -> Result<bool> {
    let mut responses = Vec::with_capacity(WAITS);
    for wait in 0..WAITS {
        let (before, lbn) = (prober.elsewhere(), prober.elsewhere());
        prober.read(before).await?;
        sleep(Nanos((period_ns * wait as f64 / WAITS as f64) as u64)).await;
        responses.push(prober.read(lbn).await?.response.0);
    }
    responses.sort_unstable();
    let quartile = |of: usize| responses.get(WAITS * of / 4).copied().unwrap_or(0);
    let spread = quartile(3) - quartile(1);
    Ok(spread as f64 > period_ns * SPREAD_MIN)
}

/// The longest period of which the times between most neighbours of `ends` are multiples, and by how much they miss it.
fn period(ends: &[Instant]) -> Option<(f64, f64)> {
    let between = |pair: &[Instant]| Some(pair.last()?.since(*pair.first()?).0 as f64);
    let spans: Vec<f64> = ends.windows(2).filter_map(between).collect();
    let missed = |span: &f64, period: f64| span - period * (span / period).round();
    let is_near = |span: &f64, period: f64| missed(span, period).abs() < period * TOLERANCE;
    // One of the reads may have been held up, and with it the spans beside it.
    let candidates = spans.iter().flat_map(|span| {
        let fewest = (span / LONGEST_NS).ceil().max(1.0) as u32;
        (fewest..=(span / SHORTEST_NS) as u32).map(move |turns| span / f64::from(turns))
    });
    let fitting = |period: f64| {
        let near = spans.iter().filter(|span| is_near(span, period));
        let turns: Vec<u64> = near.map(|span| (span / period).round() as u64).collect();
        // Times that are all about the same are multiples of themselves.
        let kinds: BTreeSet<&u64> = turns.iter().collect();
        if kinds.len() > 2 { turns.len() } else { 0 }
    };
    let candidates: Vec<(usize, f64)> =
        candidates.map(|period| (fitting(period), period)).collect();
    // By chance most spans, but not nearly all, are of an even number of revolutions.
    let most = candidates.iter().map(|(count, _)| *count).max()?;
    let least = (most.saturating_sub(OUTLIERS)).max((INLIERS * spans.len() as f64).ceil() as usize);
    // Of a part of the true period the misses are a larger part; what is a little longer misses by far more.
    let share = |period: f64| {
        let mut shares: Vec<f64> =
            spans.iter().map(|span| missed(span, period).abs() / period).collect();
        shares.sort_unstable_by(f64::total_cmp);
        shares.get(shares.len() / 2).copied().unwrap_or(1.0)
    };
    let fitting = candidates.iter().filter(|(count, _)| *count >= least);
    let fitting: Vec<(f64, f64)> = fitting.map(|(_, period)| (share(*period), *period)).collect();
    let least = fitting.iter().map(|(share, _)| *share).fold(f64::MAX, f64::min);
    let is_as_good = |(share, _): &&(f64, f64)| *share <= least * 1.5 + 1e-6;
    let periods = fitting.iter().filter(is_as_good).map(|(_, period)| *period);
    let mut period = periods.max_by(f64::total_cmp)?;
    // First from neighbours, then from spans twice as long, until all of it is one span: each time the period is known well enough to
    // count the revolutions of the next.
    let mut distance = 1;
    while distance < ends.len() {
        let spans: Vec<f64> = ends
            .windows(distance + 1)
            .filter_map(|window| Some(window.last()?.since(*window.first()?).0 as f64))
            .filter(|span| is_near(span, period))
            .collect();
        if spans.is_empty() {
            break;
        }
        let turns = |span: &f64| (span / period).round();
        let (over, under) = spans.iter().fold((0.0, 0.0), |(over, under), span| {
            (over + span * turns(span), under + turns(span) * turns(span))
        });
        period = over / under;
        distance *= 2;
    }
    // Each miss is of two reads.
    let mut misses: Vec<f64> = spans.iter().map(|span| missed(span, period).abs()).collect();
    misses.sort_unstable_by(f64::total_cmp);
    let median = misses.get(misses.len() / 2).copied()?;
    Some((period, median * 1.4826 / std::f64::consts::SQRT_2))
}

/// A cache, as it shows from outside.
#[derive(Clone, Copy, Debug)]
pub(crate) struct CacheSeen {
    /// Responses that only a cache gives are no longer; zero where there is none.
    pub(crate) hit: Nanos,
    /// After so many reads elsewhere it has forgotten a block: doubled where it had not.
    pub(crate) forgotten_after: u64,
}

/// Looks whether there is a cache.
pub(crate) async fn cache(prober: &mut Prober<'_>, rotation: &Rotation) -> Result<CacheSeen> {
    let mut least = u64::MAX;
    for further in [0, 1, 2].repeat(4) {
        let lbn = prober.elsewhere();
        prober.read(lbn).await?;
        // What was just read, and what comes next: a cache may have let go of what it sent, and have read ahead.
        let next = prober.read(lbn + BlockCount(further)).await?;
        least = least.min(next.response.0);
    }
    // Without a cache a block, or its neighbour, is read a revolution later.
    match (least as f64) < rotation.period_ns / 2.0 {
        true => {
            let hit = Nanos(least + least / 4 + (6.0 * rotation.noise_ns) as u64);
            Ok(CacheSeen { hit, forgotten_after: 2 })
        }
        false => Ok(CacheSeen { hit: Nanos::ZERO, forgotten_after: 0 }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_longest_period_that_fits_is_found() {
        let at = |turns: u64, noise: u64| Instant::ZERO + Nanos(turns * 5_985_037 + noise);
        let turns = [0_u64, 33, 71, 104, 139, 172, 210, 249, 281, 313, 350];
        let exact: Vec<Instant> = turns.iter().map(|turns| at(*turns, 500)).collect();
        let (found, noise) = period(&exact).unwrap();
        assert!((found - 5_985_037.0).abs() < 0.01 && noise < 1.0, "{found} {noise}");
        // One read was held up, and all are a little late.
        let late =
            [0, 31_000, 12_000, 55_000_000, 40_000, 3_000, 9_000, 22_000, 35_000, 1_000, 17_000];
        let noisy: Vec<Instant> = turns.iter().zip(late).map(|(t, l)| at(*t, l)).collect();
        let (found, noise) = period(&noisy).unwrap();
        assert!((found - 5_985_037.0).abs() < 200.0, "{found}");
        assert!((5_000.0..45_000.0).contains(&noise), "{noise}");
        let random: Vec<Instant> =
            (0..24_u64).map(|n| Instant::ZERO + Nanos(n * 200_000_000 + n * n * 777_777)).collect();
        assert_eq!(period(&random), None);
        // Flash takes as long each time, and a little more for a read more.
        let same: Vec<Instant> = (0..24_u64)
            .map(|n| Instant::ZERO + Nanos(n * 9_600_000 + n * 2 % 5 * 40_000))
            .collect();
        assert_eq!(period(&same), None);
    }
}
