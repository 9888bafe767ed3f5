//! Where a zone begins and what its skews are, from angles that are told with noise.
//!
//! Two tracks that follow each other tell a skew to the noise of two angles, which may be more than a sector. Tracks far from each
//! other tell it to that part of it, but only modulo a turn. So each angle is measured as far away as what is known
//! already tells how many turns there are between, and makes that better: least squares, an angle at a time.

/// Standard deviations by which it must be clear how many turns lie between.
const CLEAR: f64 = 4.0;
/// A skew with this deviation, in sectors, rounds to the right number.
const KNOWN: f64 = 0.12;
/// An angle further from what is expected is none that noise makes: an answer was held up, or the zone is none.
const FAR: f64 = 6.0;

/// Between two tracks: how often the head changes on a cylinder, and how often the cylinder does.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct Switches {
    pub(super) heads: u32,
    pub(super) cylinders: u32,
}

/// What is known of a zone, in sectors.
#[derive(Clone, Debug)]
pub(super) struct Turning {
    /// Of a track.
    sectors: f64,
    /// The variance of an angle.
    noise: f64,
    /// The angle of the first track, the skew where the head changes, and that where the cylinder does.
    values: [f64; 3],
    covariance: [[f64; 3]; 3],
    /// Whether any two tracks tell the one skew, and the other.
    matters: [bool; 2],
}

impl Switches {
    fn factors(self) -> [f64; 3] {
        [1.0, f64::from(self.heads), f64::from(self.cylinders)]
    }
}

impl Turning {
    /// The angle and the skews as they were measured once, with what their variances are, of tracks that are among `all`.
    pub(super) fn new(
        sectors: f64,
        noise: f64,
        values: [f64; 3],
        variances: [f64; 3],
        all: &[Switches],
    ) -> Turning {
        let [a, b, c] = variances;
        let covariance = [[a, 0.0, 0.0], [0.0, b, 0.0], [0.0, 0.0, c]];
        let matters = [
            all.iter().any(|switches| switches.heads > 0),
            all.iter().any(|switches| switches.cylinders > 0),
        ];
        Turning { sectors, noise, values, covariance, matters }
    }

    pub(super) fn values(&self) -> [f64; 3] {
        self.values
    }

    /// Whether the skews are known as far as they matter.
    pub(super) fn is_known(&self) -> bool {
        self.worst(&self.covariance) <= KNOWN * KNOWN
    }

    /// Which of `all` tells most, if any can be told from the next turn.
    pub(super) fn next(&self, all: &[Switches]) -> Option<usize> {
        let clear = self.sectors / 2.0 / CLEAR;
        let tells = |switches: &Switches| {
            let factors = switches.factors();
            (self.variance(factors) <= clear * clear)
                .then(|| self.worst(&self.covariance_after(factors)))
        };
        let told = all.iter().enumerate().filter_map(|(at, one)| Some((at, tells(one)?)));
        told.min_by(|one, other| one.1.total_cmp(&other.1)).map(|(at, _)| at)
    }

    /// Takes in the angle of a track, in sectors and modulo a turn. `false` where it is not what noise makes of what is known.
    pub(super) fn learn(&mut self, switches: Switches, angle: f64) -> bool {
        let factors = switches.factors();
        let expected: f64 =
            factors.iter().zip(self.values).map(|(factor, value)| factor * value).sum();
        let off =
            (angle - expected + self.sectors / 2.0).rem_euclid(self.sectors) - self.sectors / 2.0;
        let variance = self.variance(factors);
        if off.abs() > FAR * variance.sqrt() {
            return false;
        }
        let gains = self.weighted(factors).map(|one| one / variance);
        for (value, gain) in self.values.iter_mut().zip(gains) {
            *value += gain * off;
        }
        self.covariance = self.covariance_after(factors);
        true
    }

    /// The covariances of all with an angle.
    fn weighted(&self, factors: [f64; 3]) -> [f64; 3] {
        self.covariance.map(|row| row.iter().zip(factors).map(|(one, factor)| one * factor).sum())
    }

    /// The variance of a measured angle: of what is known, and of the noise.
    fn variance(&self, factors: [f64; 3]) -> f64 {
        let weighted = self.weighted(factors);
        let known: f64 = weighted.iter().zip(factors).map(|(one, factor)| one * factor).sum();
        known + self.noise
    }

    fn covariance_after(&self, factors: [f64; 3]) -> [[f64; 3]; 3] {
        let (weighted, variance) = (self.weighted(factors), self.variance(factors));
        let mut after = self.covariance;
        for (row, one) in after.iter_mut().zip(weighted) {
            for (value, other) in row.iter_mut().zip(weighted) {
                *value -= one * other / variance;
            }
        }
        after
    }

    /// The variance of the skew that is known less well.
    fn worst(&self, covariance: &[[f64; 3]; 3]) -> f64 {
        let [_, [_, head, _], [_, _, cylinder]] = covariance;
        let of = |matters: bool, variance: f64| if matters { variance } else { 0.0 };
        let [heads, cylinders] = self.matters;
        of(heads, *head).max(of(cylinders, *cylinder))
    }
}

#[cfg(test)]
mod tests {
    use moirai_runtime::{Random, seeded};
    use rand::Rng;

    use super::*;

    /// About normal, with a deviation of one.
    fn deviate(random: &mut Random) -> f64 {
        (0..12).map(|_| random.random_range(-0.5..0.5)).sum()
    }

    /// Tracks of some cylinders, with so many heads.
    fn tracks(heads: u32, cylinders: u32) -> Vec<Switches> {
        let place =
            |track: u32| Switches { heads: track - track / heads, cylinders: track / heads };
        (0..heads * cylinders).map(place).collect()
    }

    #[test]
    fn skews_come_out_of_angles_with_more_noise_than_a_sector() {
        for seed in 0..50 {
            let mut random = seeded(seed, "turning");
            let (heads, cylinders) = (random.random_range(1..8), random.random_range(2..200));
            let sectors: f64 = f64::from(random.random_range(100..2000));
            let truth =
                [0.0, sectors, sectors].map(|most: f64| (most * random.random::<f64>()).floor());
            let deviation = random.random_range(0.1..2.0);
            let (noise, all) = (deviation * deviation, tracks(heads, cylinders));
            let guess = truth.map(|value| value + 1.4 * deviation * deviate(&mut random));
            let mut turning = Turning::new(sectors, noise, guess, [2.0 * noise; 3], &all);
            let mut measured = 0;
            while !turning.is_known() {
                let switches = all[turning.next(&all).unwrap()];
                let turned: f64 = switches.factors().iter().zip(truth).map(|(a, b)| a * b).sum();
                let angle = (turned + deviation * deviate(&mut random)).rem_euclid(sectors);
                turning.learn(switches, angle);
                measured += 1;
            }
            let [_, head, cylinder] = turning.values().map(f64::round);
            assert!(heads == 1 || head == truth[1], "{seed}: {head} and not {truth:?}");
            assert_eq!(cylinder, truth[2], "{seed}");
            // What two heads need whose skew nothing else tells: a pair for each part of its variance.
            let least = 2.0 * noise / (KNOWN * KNOWN);
            assert!(f64::from(measured) < 20.0 + 2.5 * least, "{seed}: {measured} and {least}");
        }
    }
}
