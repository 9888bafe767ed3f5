//! The moving parts: seek curve, head switch, and a platter that turns with an exact period.

use moirai_units::{Instant, Nanos};

/// Seek time by distance: measured points, linear between them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SeekCurve {
    /// (distance in cylinders, time), strictly increasing in distance, the first at distance 1.
    points: Vec<(u32, Nanos)>,
}

impl SeekCurve {
    /// A curve through `points`; `None` unless they start at distance 1 and increase in distance.
    #[must_use]
    pub fn new(points: Vec<(u32, Nanos)>) -> Option<SeekCurve> {
        let starts_at_one = points.first().is_some_and(|(distance, _)| *distance == 1);
        let increases = points.is_sorted_by(|a, b| a.0 < b.0);
        (starts_at_one && increases).then_some(SeekCurve { points })
    }

    /// Time to move the arm over `distance` cylinders; past the last point, that point's time.
    #[must_use]
    pub fn time(&self, distance: u32) -> Nanos {
        if distance == 0 {
            return Nanos::ZERO;
        }
        let above = self.points.partition_point(|(known, _)| *known < distance);
        match (
            above.checked_sub(1).and_then(|below| self.points.get(below)),
            self.points.get(above),
        ) {
            (_, Some((known, time))) if *known == distance => *time,
            (Some((d0, t0)), Some((d1, t1))) => {
                let (t0, t1) = (t0.0 as i64, t1.0 as i64);
                let (run, width) = (i64::from(distance - d0), i64::from(d1 - d0));
                Nanos((t0 + (t1 - t0) * run / width) as u64)
            }
            (Some((_, last)), None) => *last,
            (None, Some((_, first))) => *first,
            (None, None) => Nanos::ZERO,
        }
    }

    /// The points the curve was made of.
    #[must_use]
    pub fn points(&self) -> &[(u32, Nanos)] {
        &self.points
    }
}

/// The moving parts of a disk.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mechanics {
    /// One turn of the platter, in picoseconds: 10,025 rpm are no whole number of nanoseconds.
    pub revolution_ps: u64,
    /// Changing to another head of the cylinder.
    pub head_switch: Nanos,
    /// What settling adds to a seek or head switch before a write.
    pub write_settle: Nanos,
    /// Arm movement by distance.
    pub seek: SeekCurve,
    /// Whether sectors are accessed in whatever order they come round (thesis 3.2.4).
    pub zero_latency: bool,
}

impl Mechanics {
    /// Picoseconds in one turn at `rpm`.
    #[must_use]
    pub fn revolution_ps(rpm: f64) -> u64 {
        (60e12 / rpm).round() as u64
    }

    /// The angle of the platter at `at`: picoseconds since the index mark passed the heads.
    #[must_use]
    pub fn angle_ps(&self, at: Instant) -> u64 {
        // As many nanoseconds as the period has picoseconds are exactly 1,000 turns, so reducing by
        // that first keeps the product small for any time.
        (at.ns % self.revolution_ps) * 1000 % self.revolution_ps
    }

    /// When `sector` of a track of `track_sectors` begins, in picoseconds from the index mark.
    #[must_use]
    pub fn sector_angle_ps(&self, sector: u32, track_sectors: u32) -> u64 {
        u64::from(sector) * self.revolution_ps / u64::from(track_sectors)
    }

    /// Picoseconds from the angle `from` until the angle `to` comes round.
    #[must_use]
    pub fn turn_ps(&self, from: u64, to: u64) -> u64 {
        if to >= from { to - from } else { to + self.revolution_ps - from }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

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
        check(9999, 2300);
    }

    #[test]
    fn a_curve_needs_increasing_distances_from_one() {
        assert!(SeekCurve::new(vec![]).is_none());
        assert!(SeekCurve::new(vec![(2, Nanos(1))]).is_none());
        assert!(SeekCurve::new(vec![(1, Nanos(1)), (1, Nanos(2))]).is_none());
    }

    #[test]
    fn the_angle_is_exact_after_any_number_of_turns() {
        let mechanics = Mechanics {
            revolution_ps: Mechanics::revolution_ps(10_025.0),
            head_switch: Nanos::ZERO,
            write_settle: Nanos::ZERO,
            seek: curve(),
            zero_latency: true,
        };
        assert_eq!(mechanics.revolution_ps, 5_985_037_406);
        for ns in [0, 5_985_037, 5_985_038, u64::MAX] {
            let exact = u128::from(ns) * 1000 % u128::from(mechanics.revolution_ps);
            assert_eq!(u128::from(mechanics.angle_ps(Instant { ns })), exact);
        }
    }
}
