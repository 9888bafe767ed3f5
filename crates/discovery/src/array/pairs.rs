//! Whether two blocks lie on one disk, from reads of both at once.
//!
//! One arm goes from the one block to the other, so the two answers lie a seek apart, at least. Two arms move at once, and the answers
//! lie as far apart as the angles of the blocks happen to be:
//!
//! ```text
//!     one disk     issued |--- seek, turn ---| x |------ seek over 3/8 of the device, turn ------| y
//!     two disks    issued |--- seek, turn ---| x
//!                         |----- seek, turn -----| y      half a revolution apart, or less, in one of two or three tries
//! ```
//!
//! So a block is compared with blocks at the other end of the device. Disks may turn in step, as simulated ones do. Then the answers
//! are the angle between the blocks apart, give or take whole revolutions; still half a revolution or less in some of the tries.

use moirai_storage::Device;
use moirai_units::Lbn;

use crate::error::Result;
use crate::probe::{Prober, SCATTERED_PART};
use crate::rotation::{CacheSeen, Rotation, SCATTERED_MAX, cache, rotation};

/// Blocks are compared with blocks in this part of the device at its other end.
const FAR_PART: f64 = 1.0 / 8.0;
/// Answers of two disks are less than this part of a revolution apart now and then, whatever the angle between the blocks.
const APART: f64 = 0.55;
/// Where those of one disk come nearer than this, its seeks are too short to tell it from two.
const APART_OF_ONE: f64 = 0.8;
/// A device whose seeks are too short for that counts as one disk. To see that, blocks at both ends of it are read in turn: a quarter of
/// these reads must take longer than this part of a revolution.
const SWINGS: usize = 64;
const SWING: f64 = 1.15;
/// Pairs that are looked at once, to see whether there are several disks at all.
const PAIRS_FIRST: usize = 40;
/// Of those that come together, so many must come now more and now less apart, by this part of a revolution.
const CONFIRMED_MIN: usize = 2;
const SPREAD: f64 = 0.25;
/// Pairs from which is learnt how far apart answers are, and how often each is read. Two blocks of one disk are one of two times
/// apart, as the arm comes to the one first or to the other: it takes several to come near the shortest.
const PAIRS: usize = 400;
const PAIRS_OF_ONE: usize = 24;
const PAIRS_OF_TWO: usize = 8;
const TRIES_FIRST: usize = 28;
/// Answers together that are no accident: one could have been held up until the other came.
const TOGETHER_MIN: usize = 2;
/// Of two answers the later one takes no longer than this times what nearly all take, or both were held up.
const LONGEST: f64 = 1.25;
const NEARLY_ALL: f64 = 0.95;
/// Two disks are taken for one so often.
const WRONG: f64 = 1e-5;
const TRIES_MAX: usize = 64;
/// Two disks show in a try with no more than this probability; between two blocks whose angle is unlucky, with this one.
const SHOWN_MAX: f64 = 0.6;
const SHOWN_OF_TWO: f64 = 0.3;
/// Reads that are submitted at once.
const BATCH: u64 = 32;

/// Compares blocks.
pub(super) struct Pairs<'a> {
    pub(super) prober: Prober<'a>,
    pub(super) rotation: Rotation,
    cache: CacheSeen,
    /// How long the later one took of each pair that was read, in ns, as long as that is learnt; and how long at most.
    taken_ns: Vec<f64>,
    longest_ns: f64,
    /// After so many tries without such answers, two blocks lie on one disk.
    tries: usize,
    scattered: f64,
    is_near: bool,
}

/// What a device is, as far as pairs of blocks tell.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Disks {
    /// Two reads never went at once.
    One,
    /// There are several, and which blocks lie on one is not told: any two reads go at once, or seeks are short.
    Untold,
    /// Some pairs of blocks lie on one disk, and some do not.
    Several,
}

impl<'a> Pairs<'a> {
    /// Sees how the disks turn, and whether there is a cache.
    pub(super) async fn of(device: &'a dyn Device) -> Result<Pairs<'a>> {
        let mut prober = Prober::new(device);
        let rotation = rotation(&mut prober).await?;
        let cache = cache(&mut prober, &rotation).await?;
        Ok(Pairs {
            prober,
            rotation,
            cache,
            taken_ns: Vec::new(),
            longest_ns: f64::INFINITY,
            tries: tries(SHOWN_MAX),
            scattered: 0.0,
            is_near: false,
        })
    }

    /// Looks whether there are several disks.
    pub(super) async fn disks(&mut self) -> Result<Disks> {
        if self.swing().await? < SWING * self.rotation.period_ns {
            return Ok(Disks::One);
        }
        let mut suspects = Vec::new();
        for _ in 0..PAIRS_FIRST {
            let (one, other) = self.pair();
            match self.between(one, other).await? {
                Some(ns) if ns.abs() < self.apart_ns() => suspects.push((one, other)),
                Some(_) => {}
                // A cache has everything: nothing shows.
                None => return Ok(Disks::One),
            }
        }
        let mut confirmed = 0;
        for (one, other) in suspects {
            let seen = self.many(one, other).await?;
            confirmed += usize::from(self.is_irregular(&seen));
            if confirmed == CONFIRMED_MIN {
                return Ok(if self.learn().await? { Disks::Several } else { Disks::Untold });
            }
        }
        Ok(Disks::One)
    }

    /// Whether of two blocks that are read in one order the second comes sometimes sooner and sometimes later. One arm takes as long
    /// each time, so this tells two disks from one whose seeks are short beside its revolutions.
    fn is_irregular(&self, between_ns: &[f64]) -> bool {
        let is_spread = |sign: f64| {
            let mut apart: Vec<f64> =
                between_ns.iter().map(|ns| ns * sign).filter(|ns| *ns > 0.0).collect();
            apart.sort_unstable_by(f64::total_cmp);
            // Without those that were held up.
            let least = apart.get(TOGETHER_MIN - 1);
            let most = apart.iter().rev().nth(TOGETHER_MIN - 1);
            least
                .zip(most)
                .is_some_and(|(least, most)| most - least > SPREAD * self.rotation.period_ns)
        };
        is_spread(1.0) || is_spread(-1.0)
    }

    /// Reads two blocks at once, many times.
    async fn many(&mut self, one: Lbn, other: Lbn) -> Result<Vec<f64>> {
        let mut seen = Vec::with_capacity(TRIES_FIRST);
        for _ in 0..TRIES_FIRST {
            seen.extend(self.between(one, other).await?);
        }
        Ok(seen)
    }

    /// Answers that lie less apart are of two disks, in ns.
    fn apart_ns(&self) -> f64 {
        APART * self.rotation.period_ns
    }

    fn capacity(&self) -> f64 {
        self.prober.capacity().0 as f64
    }

    /// A part of the device that was not taken before.
    pub(super) fn scattered(&mut self) -> f64 {
        self.scattered = (self.scattered + SCATTERED_PART).fract();
        self.scattered
    }

    /// A block far from those of the first half of the device, 0, or of the second, 1.
    pub(super) fn far_from(&mut self, half: usize) -> Lbn {
        let part = FAR_PART * self.scattered();
        let part = if half == 0 { 1.0 - part } else { part };
        Lbn((part * (self.capacity() - 1.0)) as u64)
    }

    /// Two blocks that could be compared, every other time as near to each other as any that are.
    fn pair(&mut self) -> (Lbn, Lbn) {
        self.is_near = !self.is_near;
        let around = if self.is_near { FAR_PART / 4.0 } else { 1.0 };
        let part = 0.5 + around * (self.scattered() - 0.5);
        let lbn = Lbn((part * self.capacity()) as u64);
        (lbn, self.far_from(usize::from(part >= 0.5)))
    }

    /// How long a read takes after one at the other end of the device, in ns: of four, three are faster.
    async fn swing(&mut self) -> Result<f64> {
        let mut taken = Vec::with_capacity(SWINGS);
        for _ in 0..SWINGS / 2 {
            let (one, other) = self.pair();
            taken.push(self.prober.read(one).await?.response);
            taken.push(self.prober.read(other).await?.response);
        }
        taken.sort_unstable();
        Ok(taken.get(SWINGS * 3 / 4).map_or(0.0, |ns| ns.0 as f64))
    }

    /// How much later than a block another one comes that is read at once with it, in ns; `None` where a cache has one of them and does
    /// not forget it, or where they were held up.
    async fn between(&mut self, one: Lbn, other: Lbn) -> Result<Option<f64>> {
        loop {
            // The arms stand elsewhere each time, and caches hold other blocks.
            let mut left = self.cache.forgotten_after.max(4);
            while left > 0 {
                let batch = left.min(BATCH);
                let lbns: Vec<Lbn> = (0..batch).map(|_| self.prober.elsewhere()).collect();
                self.prober.read_at_once(&lbns).await?;
                left -= batch;
            }
            let reads = self.prober.read_at_once(&[one, other]).await?;
            if reads.iter().all(|read| read.response > self.cache.hit) {
                let taken: Vec<f64> = reads.iter().map(|read| read.response.0 as f64).collect();
                let &[one, other] = &*taken else { return Ok(None) };
                if self.longest_ns.is_infinite() {
                    self.taken_ns.push(one.max(other));
                }
                return Ok((one.max(other) <= self.longest_ns).then_some(other - one));
            }
            if self.cache.forgotten_after >= SCATTERED_MAX {
                return Ok(None);
            }
            self.cache.forgotten_after = (2 * self.cache.forgotten_after).max(4);
        }
    }

    /// Whether a block lies on another disk than others, which lie on one and far from it.
    pub(super) async fn differ(&mut self, lbn: Lbn, others: &[Lbn]) -> Result<bool> {
        let tries = if others.len() > 1 { self.tries } else { tries(SHOWN_OF_TWO) };
        let mut together = 0;
        for other in others.iter().cycle().take(tries) {
            let between = self.between(lbn, *other).await?;
            together += usize::from(between.is_some_and(|ns| ns.abs() < self.apart_ns()));
            if together >= TOGETHER_MIN {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// How many of those times are shorter than one arm takes.
    fn together(&self, between_ns: &[f64]) -> usize {
        between_ns.iter().filter(|ns| ns.abs() < self.apart_ns()).count()
    }

    /// Learns from pairs how often answers of two disks come together, and how long answers take. Tells whether there were pairs of both
    /// kinds, and far enough from each other.
    async fn learn(&mut self) -> Result<bool> {
        let (mut of_one, mut of_two): (Vec<Vec<f64>>, Vec<Vec<f64>>) = (Vec::new(), Vec::new());
        for _ in 0..PAIRS {
            let (one, other) = self.pair();
            if of_two.len() >= PAIRS_OF_TWO && self.differ(one, &[other]).await? {
                continue;
            }
            let seen = self.many(one, other).await?;
            match self.together(&seen) {
                together if together >= TOGETHER_MIN => of_two.push(seen),
                _ => of_one.push(seen),
            }
            if of_one.len() >= PAIRS_OF_ONE && of_two.len() >= PAIRS_OF_TWO {
                break;
            }
        }
        let shortest = of_one.iter().filter_map(|seen| {
            let mut apart: Vec<f64> = seen.iter().map(|ns| ns.abs()).collect();
            apart.sort_unstable_by(f64::total_cmp);
            // Without those that were held up.
            apart.get(TOGETHER_MIN - 1).copied()
        });
        let shortest = shortest.fold(f64::MAX, f64::min);
        let is_short = shortest < APART_OF_ONE * self.rotation.period_ns;
        if of_one.len() < PAIRS_OF_ONE || of_two.is_empty() || is_short {
            return Ok(false);
        }
        self.taken_ns.sort_unstable_by(f64::total_cmp);
        let nearly_all = (NEARLY_ALL * self.taken_ns.len() as f64) as usize;
        self.longest_ns = self.taken_ns.get(nearly_all).map_or(f64::INFINITY, |ns| LONGEST * ns);
        let all: usize = of_two.iter().map(Vec::len).sum();
        let together: usize = of_two.iter().map(|seen| self.together(seen)).sum();
        self.tries = tries(SHOWN_MAX.min(together as f64 / all.max(1) as f64));
        Ok(true)
    }
}

/// After how many tries two disks would have shown, if one try shows them with the probability `shown`.
fn tries(shown: f64) -> usize {
    let hidden = 1.0 - shown;
    let wrong = |tries: &usize| {
        let tries = *tries as f64;
        hidden.powf(tries) + tries * shown * hidden.powf(tries - 1.0)
    };
    (TOGETHER_MIN..TRIES_MAX).find(|tries| wrong(tries) < WRONG).unwrap_or(TRIES_MAX)
}

#[cfg(test)]
mod tests {
    use super::tries;

    #[test]
    fn rarer_signs_take_more_tries() {
        // None or one of n shows: (1 - p)^n + n p (1 - p)^(n - 1) below 1e-5; 23 / 2^22, and 64e-7.
        assert_eq!(tries(0.5), 22);
        assert_eq!(tries(0.9), 7);
        assert_eq!(tries(0.01), super::TRIES_MAX);
    }
}
