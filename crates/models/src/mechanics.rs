//! The moving parts: arm, heads, and a platter that turns with an exact period.

use moirai_units::{Instant, Nanos};

use crate::{Direction, SeekCurve};

/// The moving parts of a disk.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mechanics {
    /// One turn of the platter, in picoseconds: 10,025 rpm are no whole number of nanoseconds.
    pub revolution_ps: u64,
    /// Changing to another head of the cylinder.
    pub head_switch: Nanos,
    /// What settling adds to a seek or head switch before a write; less than nothing where the drive
    /// overlaps it with other work (thesis 4.2.2).
    pub write_settle_ns: i64,
    /// Arm movement by distance.
    pub seek: SeekCurve,
    /// Whether sectors are read in whatever order they come round (thesis 3.2.4).
    pub zero_latency_read: bool,
    /// Whether they are written so.
    pub zero_latency_write: bool,
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

    /// Picoseconds in which `sectors` of a track of `track_sectors` pass.
    #[must_use]
    pub fn span_ps(&self, sectors: u64, track_sectors: u32) -> u64 {
        sectors * self.revolution_ps / u64::from(track_sectors)
    }

    /// A time that no access over `distance` cylinders needs less than.
    pub(crate) fn least_positioning(&self, distance: u32) -> Nanos {
        let settle = self.write_settle_ns.min(0);
        Nanos(self.seek.least(distance).0.saturating_add_signed(settle))
    }

    /// The sector boundary at or after `ps` picoseconds of turning, which are a turn at most.
    #[must_use]
    pub fn sectors_begun(&self, ps: u64, track_sectors: u32) -> u32 {
        let product = u128::from(ps) * u128::from(track_sectors);
        product.div_ceil(u128::from(self.revolution_ps)) as u32
    }

    /// Picoseconds from the angle `from` until the angle `to` comes round.
    #[must_use]
    pub fn turn_ps(&self, from: u64, to: u64) -> u64 {
        if to >= from { to - from } else { to + self.revolution_ps - from }
    }

    /// Time to move from one track to another, and how much of it is for the head alone: a head is
    /// switched while the arm moves.
    #[must_use]
    pub fn positioning(
        &self,
        distance: u32,
        switches_head: bool,
        direction: Direction,
    ) -> Positioning {
        let mut seek = self.seek.time(distance);
        let mut head_switch = Nanos::ZERO;
        if switches_head {
            if distance > 0 {
                seek = seek.max(self.head_switch);
            } else {
                head_switch = self.head_switch;
            }
        }
        if direction == Direction::Write && (distance > 0 || switches_head) {
            let settled = |time: Nanos| Nanos(time.0.saturating_add_signed(self.write_settle_ns));
            if distance > 0 { seek = settled(seek) } else { head_switch = settled(head_switch) }
        }
        Positioning { seek, head_switch }
    }
}

/// The two ways to spend time between tracks, of which one is zero.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Positioning {
    /// The arm moves, and the head may be switched meanwhile.
    pub seek: Nanos,
    /// Only the head is switched.
    pub head_switch: Nanos,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_angle_is_exact_after_any_number_of_turns() {
        let mechanics = Mechanics {
            revolution_ps: Mechanics::revolution_ps(10_025.0),
            head_switch: Nanos::ZERO,
            write_settle_ns: 0,
            seek: SeekCurve::new(vec![(1, Nanos(1000))]).unwrap(),
            zero_latency_read: true,
            zero_latency_write: true,
        };
        assert_eq!(mechanics.revolution_ps, 5_985_037_406);
        for ns in [0, 5_985_037, 5_985_038, u64::MAX] {
            let exact = u128::from(ns) * 1000 % u128::from(mechanics.revolution_ps);
            assert_eq!(u128::from(mechanics.angle_ps(Instant { ns })), exact);
        }
    }

    #[test]
    fn settling_and_switching_overlap_with_the_arm() {
        let mechanics = Mechanics {
            revolution_ps: 1,
            head_switch: Nanos(500),
            write_settle_ns: -600,
            seek: SeekCurve::new(vec![(1, Nanos(400)), (2, Nanos(900))]).unwrap(),
            zero_latency_read: false,
            zero_latency_write: false,
        };
        let check = |distance, switches, direction, seek, head_switch| {
            let expected = Positioning { seek: Nanos(seek), head_switch: Nanos(head_switch) };
            assert_eq!(mechanics.positioning(distance, switches, direction), expected);
        };
        check(0, false, Direction::Write, 0, 0);
        check(0, true, Direction::Read, 0, 500);
        check(1, true, Direction::Read, 500, 0);
        check(2, true, Direction::Read, 900, 0);
        check(2, true, Direction::Write, 300, 0);
        check(0, true, Direction::Write, 0, 0);
    }
}
