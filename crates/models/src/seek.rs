//! Seek curves: time by distance, from measured points or from the published formulas.

use moirai_units::Nanos;
use serde::{Deserialize, Serialize};

/// Seek time by distance: points, linear between them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SeekCurve {
    points: Vec<Point>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Point {
    /// Distance in cylinders; the first point has 1, and they increase.
    distance: u32,
    time: Nanos,
    /// The shortest time of this point and all further ones.
    floor: Nanos,
}

/// A seek time as a function of the distance, in milliseconds and cylinders.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "formula", rename_all = "kebab-case", deny_unknown_fields)]
pub enum SeekFormula {
    /// The same for every distance.
    Constant {
        /// Time of every seek.
        ms: f64,
    },
    /// Straight lines through a seek of one cylinder, the average seek (at a third of all
    /// cylinders) and the longest one.
    ThreePointLine {
        /// To the next cylinder.
        single_ms: f64,
        /// Over a third of the cylinders.
        average_ms: f64,
        /// Over all of them.
        full_ms: f64,
    },
    /// `a sqrt(d - 1) + b (d - 1) + c` through the same three points.
    ThreePointCurve {
        /// To the next cylinder.
        single_ms: f64,
        /// Over a third of the cylinders.
        average_ms: f64,
        /// Over all of them.
        full_ms: f64,
    },
    /// The same curve with Lee's coefficients (Lee and Katz 1993), where the average is that of seeks
    /// between random cylinders: what DiskSim calls `curve`.
    LeeCurve {
        /// To the next cylinder.
        single_ms: f64,
        /// The mean of seeks between random cylinders.
        average_ms: f64,
        /// Over all of them.
        full_ms: f64,
    },
    /// `short_ms + short_root_ms sqrt(d)` below `division` cylinders and `long_ms +
    /// long_cylinder_ms d` from there on (Ruemmler and Wilkes 1994), behind measured first times.
    RootThenLine {
        /// Times of distances 1, 2, ... that are known one by one.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        first_ms: Vec<f64>,
        /// Where the line takes over.
        division: u32,
        /// Constant of the root.
        short_ms: f64,
        /// Factor of the root.
        short_root_ms: f64,
        /// Constant of the line.
        long_ms: f64,
        /// Slope of the line, in ms for each cylinder.
        long_cylinder_ms: f64,
    },
}

impl SeekFormula {
    /// The time of a seek over `distance` of `cylinders`, in milliseconds.
    #[must_use]
    pub fn ms(&self, distance: u32, cylinders: u32) -> f64 {
        if distance == 0 {
            return 0.0;
        }
        let (d, full) = (f64::from(distance), f64::from(cylinders.max(2) - 1));
        let third = full / 3.0;
        match self {
            SeekFormula::Constant { ms } => *ms,
            SeekFormula::ThreePointLine { single_ms, average_ms, full_ms } => {
                let on = |from: f64, to: f64, low: f64, high: f64| {
                    if to > from { low + (high - low) * (d - from) / (to - from) } else { high }
                };
                if d <= third {
                    on(1.0, third, *single_ms, *average_ms)
                } else {
                    on(third, full, *average_ms, *full_ms)
                }
            }
            SeekFormula::ThreePointCurve { single_ms, average_ms, full_ms } => {
                // Two equations for a and b: the curve passes through the other two points.
                let (x, y) = ((third - 1.0).max(0.0), (full - 1.0).max(0.0));
                let (rise, all) = (average_ms - single_ms, full_ms - single_ms);
                let determinant = x.sqrt() * y - y.sqrt() * x;
                if determinant.abs() < 1e-9 {
                    return *single_ms;
                }
                let a = (rise * y - all * x) / determinant;
                let b = (all * x.sqrt() - rise * y.sqrt()) / determinant;
                single_ms + a * (d - 1.0).sqrt() + b * (d - 1.0)
            }
            SeekFormula::LeeCurve { single_ms, average_ms, full_ms } => {
                let cylinders = f64::from(cylinders.max(2));
                let root = -10.0 * single_ms + 15.0 * average_ms - 5.0 * full_ms;
                let line = 7.0 * single_ms - 15.0 * average_ms + 8.0 * full_ms;
                let (a, b) = (root / (3.0 * cylinders.sqrt()), line / (3.0 * cylinders));
                single_ms + a * (d - 1.0).sqrt() + b * (d - 1.0)
            }
            SeekFormula::RootThenLine {
                first_ms,
                division,
                short_ms,
                short_root_ms,
                long_ms,
                long_cylinder_ms,
            } => {
                if let Some(ms) = first_ms.get(distance as usize - 1) {
                    *ms
                } else if distance < *division {
                    short_ms + short_root_ms * d.sqrt()
                } else {
                    long_ms + long_cylinder_ms * d
                }
            }
        }
    }

    /// The curve of a disk of `cylinders`: exact up to 64 cylinders and around the formula's own
    /// corners, and from there on at distances that grow by a fiftieth.
    #[must_use]
    pub fn curve(&self, cylinders: u32) -> SeekCurve {
        let last = cylinders.max(2) - 1;
        let mut distances: Vec<u32> = (1..=last.min(64)).collect();
        let mut distance = 64;
        while distance < last {
            distance = (distance + distance / 50).min(last);
            distances.push(distance);
        }
        let corner = match self {
            SeekFormula::RootThenLine { division, .. } => *division,
            _ => last / 3,
        };
        distances.extend([corner.saturating_sub(1), corner, corner.saturating_add(1)]);
        distances.retain(|distance| (1..=last).contains(distance));
        distances.sort_unstable();
        distances.dedup();
        let time = |distance| Nanos::from_ms(self.ms(distance, cylinders).max(0.0));
        SeekCurve::of(distances.into_iter().map(|distance| (distance, time(distance))).collect())
    }
}

impl SeekCurve {
    /// A curve through `points` of (cylinders, time); `None` unless they start at distance 1 and
    /// increase in distance.
    #[must_use]
    pub fn new(points: Vec<(u32, Nanos)>) -> Option<SeekCurve> {
        let starts_at_one = points.first().is_some_and(|(distance, _)| *distance == 1);
        let increases = points.is_sorted_by(|a, b| a.0 < b.0);
        (starts_at_one && increases).then(|| SeekCurve::of(points))
    }

    fn of(points: Vec<(u32, Nanos)>) -> SeekCurve {
        let mut floor = Nanos(u64::MAX);
        let mut points: Vec<Point> = points
            .into_iter()
            .rev()
            .map(|(distance, time)| {
                floor = floor.min(time);
                Point { distance, time, floor }
            })
            .collect();
        points.reverse();
        SeekCurve { points }
    }

    /// Time to move the arm over `distance` cylinders. Past the last point the curve goes on as
    /// between the last two.
    #[must_use]
    pub fn time(&self, distance: u32) -> Nanos {
        if distance == 0 {
            return Nanos::ZERO;
        }
        let last = self.points.len().saturating_sub(1);
        let above = self.points.partition_point(|point| point.distance < distance).min(last);
        let Some(high) = self.points.get(above) else {
            return Nanos::ZERO;
        };
        let low = above.checked_sub(1).and_then(|below| self.points.get(below));
        match low {
            Some(low) if high.distance != distance => {
                let (t0, t1) = (low.time.0 as i64, high.time.0 as i64);
                let run = i64::from(distance) - i64::from(low.distance);
                let width = i64::from(high.distance) - i64::from(low.distance);
                Nanos((t0 + (t1 - t0) * run / width).max(0) as u64)
            }
            _ => high.time,
        }
    }

    /// A time that no seek over `distance` cylinders or more falls below.
    #[must_use]
    pub fn least(&self, distance: u32) -> Nanos {
        let above = self.points.partition_point(|point| point.distance < distance);
        match self.points.get(above) {
            Some(next) => next.floor.min(self.time(distance)),
            // Past the last point times may rise or fall with the extrapolation.
            None => Nanos::ZERO,
        }
    }

    /// The points the curve was made of: (cylinders, time).
    pub fn points(&self) -> impl ExactSizeIterator<Item = (u32, Nanos)> + Clone {
        self.points.iter().map(|point| (point.distance, point.time))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn curve() -> SeekCurve {
        let point = |distance, ns| (distance, Nanos(ns));
        SeekCurve::new(vec![point(1, 1000), point(3, 3000), point(10, 2300)]).unwrap()
    }

    #[test]
    fn seeks_are_interpolated_between_the_points() {
        let check = |distance, ns| assert_eq!(curve().time(distance), Nanos(ns), "{distance}");
        check(0, 0);
        check(1, 1000);
        check(2, 2000);
        check(3, 3000);
        check(4, 2900);
        check(10, 2300);
        check(20, 1300);
        check(9999, 0);
    }

    #[test]
    fn a_curve_needs_increasing_distances_from_one() {
        assert!(SeekCurve::new(vec![]).is_none());
        assert!(SeekCurve::new(vec![(2, Nanos(1))]).is_none());
        assert!(SeekCurve::new(vec![(1, Nanos(1)), (1, Nanos(2))]).is_none());
    }

    #[test]
    fn formulas_pass_through_their_points() {
        let line = SeekFormula::ThreePointLine { single_ms: 1.0, average_ms: 5.0, full_ms: 10.0 };
        let curve = SeekFormula::ThreePointCurve { single_ms: 1.0, average_ms: 5.0, full_ms: 10.0 };
        for formula in [line, curve] {
            for (distance, ms) in [(1, 1.0), (1000, 5.0), (3000, 10.0)] {
                assert!((formula.ms(distance, 3001) - ms).abs() < 1e-9, "{formula:?} {distance}");
            }
        }
        // Over random pairs of cylinders Lee's curve has the mean it is given, and both its ends.
        let lee = SeekFormula::LeeCurve { single_ms: 1.0, average_ms: 5.0, full_ms: 10.0 };
        let cylinders = 3001;
        let pairs = |distance: u32| f64::from(2 * (cylinders - distance));
        let total: f64 = (1..cylinders).map(|d| pairs(d) * lee.ms(d, cylinders)).sum();
        let mean = total / (1..cylinders).map(pairs).sum::<f64>();
        assert!((mean - 5.0).abs() < 0.02, "{mean}");
        assert!((lee.ms(1, cylinders) - 1.0).abs() < 1e-9);
        assert!((lee.ms(3000, cylinders) - 10.0).abs() < 0.01);

        // The HP C2200A of Ruemmler and Wilkes 1994, table 2: 3.45 + 0.597 sqrt(d), 10.8 + 0.012 d.
        let hp = SeekFormula::RootThenLine {
            first_ms: vec![2.5],
            division: 616,
            short_ms: 3.45,
            short_root_ms: 0.597,
            long_ms: 10.8,
            long_cylinder_ms: 0.012,
        };
        for (distance, ms) in [(1, 2.5), (100, 9.42), (616, 18.192), (1000, 22.8)] {
            assert!((hp.ms(distance, 1449) - ms).abs() < 1e-9, "{distance}");
            let sampled = hp.curve(1449).time(distance).as_ms();
            assert!((sampled / ms - 1.0).abs() < 1e-4, "{distance}: {sampled}");
        }
    }

    proptest! {
        #[test]
        fn no_longer_seek_is_shorter_than_the_least(near in 1u32..10, further in 0u32..10) {
            let far = (near + further).min(10);
            prop_assert!(curve().time(far) >= curve().least(near));
        }
    }
}
