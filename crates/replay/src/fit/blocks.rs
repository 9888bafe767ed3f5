//! Blocks of a trace, for cross-validation: does a change help on requests that it was not fitted to, by
//! more than chance?

use moirai_units::Nanos;

use crate::validate::compare;

/// Blocks of a trace; even, so that both folds have as many.
const BLOCKS: usize = 40;

/// Standard errors that a gain must exceed. Student's t with 39 degrees of freedom exceeds 3.06 by chance once in
/// 500 times: all of 24 parameters stay below it in 95 of 100 fits (Bonferroni).
const ERRORS_MIN: f64 = 3.06;

/// The part of the distance that a gain must exceed: a smaller gain is not worth a change.
const GAIN_MIN: f64 = 0.005;

/// Which requests a distance is taken on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Part {
    /// Every request.
    All,
    /// The requests of one fold: 0 for the even blocks, 1 for the odd ones.
    Fold(usize),
}

/// What a change takes off the distance between a profile and the drive, on requests that the change was
/// not fitted to.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Gain {
    /// The distance before the change less the distance after it, in ms.
    pub ms: f64,
    /// The standard error of `ms`.
    pub error_ms: f64,
    /// The distance before the change, in ms.
    before_ms: f64,
}

impl Gain {
    /// The gain of no change.
    pub(super) const NONE: Gain = Gain { ms: 0.0, error_ms: 0.0, before_ms: 0.0 };

    /// Whether the gain exceeds chance and is worth a change.
    #[must_use]
    pub fn counts(&self) -> bool {
        self.ms > ERRORS_MIN * self.error_ms && self.ms > GAIN_MIN * self.before_ms
    }
}

/// The measured times of a trace, in contiguous blocks that belong to the two folds in turn.
pub(super) struct Blocks {
    measured: Vec<Nanos>,
}

impl Blocks {
    pub(super) fn new(measured: Vec<Nanos>) -> Blocks {
        Blocks { measured }
    }

    fn block(&self, request: usize) -> usize {
        request * BLOCKS / self.measured.len()
    }

    /// How far simulated times are from the measured ones, in ms. The demerit figure counts every request; the
    /// root mean square, request by request, counts missed revolutions most.
    pub(super) fn distance_ms(&self, simulated: &[Nanos], part: Part) -> f64 {
        let counts = |block: usize| part == Part::All || part == Part::Fold(block % 2);
        let kept = |times: &[Nanos]| -> Vec<Nanos> {
            let times = times.iter().enumerate();
            times
                .filter(|(request, _)| counts(self.block(*request)))
                .map(|(_, time)| *time)
                .collect()
        };
        let compared = compare(&kept(&self.measured), &kept(simulated));
        weigh(compared.demerit_ms, compared.per_request_rms_ms)
    }

    /// Joins the times of two simulations: those of fold 0 from the first, those of fold 1 from the second.
    pub(super) fn join(&self, fold_0: &[Nanos], fold_1: &[Nanos]) -> Vec<Nanos> {
        let times = fold_0.iter().zip(fold_1).enumerate();
        times
            .map(|(request, (a, b))| if self.block(request).is_multiple_of(2) { *a } else { *b })
            .collect()
    }

    /// The gain of the times `after` over the times `before`.
    ///
    /// The standard error is the delete-one jackknife over blocks (Kuensch, "The jackknife and the bootstrap
    /// for general stationary observations", Annals of Statistics 17(3), 1989): a request leaves the cache
    /// and the head to the next, so that single requests are not independent; and the demerit figure is no
    /// mean over requests or blocks. Each block is left out before and after the change alike, as in a
    /// paired test.
    pub(super) fn gain(&self, before: &[Nanos], after: &[Nanos]) -> Gain {
        let (before, after) = (self.leaving_out(before), self.leaving_out(after));
        let gains: Vec<f64> = before.each.iter().zip(&after.each).map(|(b, a)| b - a).collect();
        let mean = gains.iter().sum::<f64>() / BLOCKS as f64;
        let squares: f64 = gains.iter().map(|gain| (gain - mean).powi(2)).sum();
        Gain {
            ms: before.none - after.none,
            error_ms: (squares * (BLOCKS - 1) as f64 / BLOCKS as f64).sqrt(),
            before_ms: before.none,
        }
    }

    fn leaving_out(&self, simulated: &[Nanos]) -> LeavingOut {
        let in_blocks = |times: &[Nanos]| -> Vec<InBlock> {
            let times = times.iter().enumerate();
            times.map(|(request, time)| (*time, self.block(request))).collect()
        };
        let (measured, simulated) = (in_blocks(&self.measured), in_blocks(simulated));
        let (mut measured_sorted, mut simulated_sorted) = (measured.clone(), simulated.clone());
        measured_sorted.sort_unstable();
        simulated_sorted.sort_unstable();
        let distance_ms = |left_out: Option<usize>| {
            let demerit_ms = rms_ms(&measured_sorted, &simulated_sorted, left_out);
            weigh(demerit_ms, rms_ms(&measured, &simulated, left_out))
        };
        LeavingOut {
            none: distance_ms(None),
            each: (0..BLOCKS).map(|block| distance_ms(Some(block))).collect(),
        }
    }
}

/// A time and the block of its request.
type InBlock = (Nanos, usize);

/// Distances in ms, leaving out no block and each block.
struct LeavingOut {
    none: f64,
    each: Vec<f64>,
}

fn weigh(demerit_ms: f64, per_request_rms_ms: f64) -> f64 {
    2.0 * demerit_ms + per_request_rms_ms
}

/// Root mean square of the differences, leaving out one block.
fn rms_ms(a: &[InBlock], b: &[InBlock], left_out: Option<usize>) -> f64 {
    let kept = |times: &[InBlock]| -> Vec<f64> {
        let times = times.iter().filter(|(_, block)| Some(*block) != left_out);
        times.map(|(time, _)| time.as_ms()).collect()
    };
    let (a, b) = (kept(a), kept(b));
    let squares = a.iter().zip(&b).map(|(a, b)| (a - b).powi(2));
    (squares.sum::<f64>() / a.len().max(1) as f64).sqrt()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Times of 4000 requests from 1 to 5 ms, and `shift_ns` of each request.
    fn times(shift_ns: impl Fn(u64) -> i64) -> Vec<Nanos> {
        let times = (0..4000u64).map(|request| {
            let time = 1_000_000 + request * 7919 % 4000 * 1000;
            Nanos(time.saturating_add_signed(shift_ns(request)))
        });
        times.collect()
    }

    #[test]
    fn a_gain_in_every_block_counts() {
        let blocks = Blocks::new(times(|_| 0));
        let gain = blocks.gain(&times(|_| 400_000), &times(|_| 100_000));
        // Twice the demerit figure and the root mean square, 0.3 ms each.
        assert!((gain.ms - 0.9).abs() < 1e-9 && gain.error_ms < 1e-9, "{gain:?}");
        assert!(gain.counts());
    }

    #[test]
    fn a_gain_in_one_block_is_chance() {
        let blocks = Blocks::new(times(|_| 0));
        let before = |request| if request < 100 { 900_000 } else { 100_000 };
        let gain = blocks.gain(&times(before), &times(|_| 100_000));
        assert!(gain.ms > GAIN_MIN * gain.before_ms && gain.error_ms > gain.ms / 2.0, "{gain:?}");
        assert!(!gain.counts());
    }

    #[test]
    fn a_fold_has_every_other_block() {
        let blocks = Blocks::new(times(|_| 0));
        let odd_late = times(|request| if request / 100 % 2 == 1 { 400_000 } else { 0 });
        assert!(blocks.distance_ms(&odd_late, Part::Fold(0)) < 1e-9);
        assert!((blocks.distance_ms(&odd_late, Part::Fold(1)) - 1.2).abs() < 1e-9);
        let joined = blocks.join(&odd_late, &times(|_| 0));
        assert!(blocks.distance_ms(&joined, Part::All) < 1e-9);
    }
}
