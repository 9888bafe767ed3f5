//! What aligned access is worth to systems above: segments of a log-structured file system (thesis 5.5), streams of a video
//! server (5.6).

use moirai_units::{ByteCount, Nanos};

use crate::SeekCurve;

/// Transfer inefficiency of a segment (5.5, after Matthews et al. 1997): how many times as long as its transfer alone the access
/// takes.
#[must_use]
pub fn transfer_inefficiency(
    positioning: Nanos,
    bandwidth_mb_per_s: f64,
    segment: ByteCount,
) -> f64 {
    positioning.as_s() * bandwidth_mb_per_s * 1e6 / segment.0 as f64 + 1.0
}

/// Segments that a log-structured file system moved (5.5).
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct SegmentCost {
    /// N_written^new: of new data.
    pub new_written: f64,
    /// N_read^clean: to clean.
    pub clean_read: f64,
    /// N_written^clean: what was live in them.
    pub clean_written: f64,
    /// N_written^data: that the data fill.
    pub data_written: f64,
}

impl SegmentCost {
    /// Write cost: what is moved for each segment of data.
    #[must_use]
    pub fn write_cost(&self) -> f64 {
        (self.new_written + self.clean_read + self.clean_written) / self.data_written
    }

    /// Overall write cost: the same times the transfer inefficiency.
    #[must_use]
    pub fn overall_write_cost(&self, transfer_inefficiency: f64) -> f64 {
        self.write_cost() * transfer_inefficiency
    }
}

/// A round of a video server: each disk serves one access of every stream (5.6).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct VideoRound {
    /// V: streams of a disk.
    pub streams: u64,
    /// Of one access.
    pub access: Nanos,
    /// D: disks over which the data are spread.
    pub disks: u64,
}

impl VideoRound {
    /// V times the time of an access.
    #[must_use]
    pub fn round(&self) -> Nanos {
        Nanos(self.access.0.saturating_mul(self.streams))
    }

    /// What a stream that is admitted waits at worst: D + 1 rounds (Santos et al. 2000).
    #[must_use]
    pub fn startup_latency(&self) -> Nanos {
        Nanos(self.round().0.saturating_mul(self.disks.saturating_add(1)))
    }

    /// The buffer that the server needs for the streams of one disk: two accesses for each.
    #[must_use]
    pub fn buffer(&self, access: ByteCount) -> ByteCount {
        ByteCount(access.0.saturating_mul(2).saturating_mul(self.streams))
    }

    /// The bit rate that each stream may have at most: an access in each round.
    #[must_use]
    pub fn stream_mbit_per_s(&self, access: ByteCount) -> f64 {
        access.0 as f64 * 8.0 / 1e6 / self.round().as_s()
    }
}

/// The part of each of `streams` in the worst route over all of `cylinders` that serves them in one sweep (5.6.2, after Reddy and
/// Wyllie 1993). Longer seeks take less for each cylinder, so the worst route has stops at equal distances.
#[must_use]
pub fn scheduled_seek(curve: &SeekCurve, cylinders: u32, streams: u64) -> Nanos {
    let distance = u64::from(cylinders.saturating_sub(1)).div_ceil(streams.max(1));
    curve.time(distance as u32)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// 5.5: with 5.2 ms and 40 MB/s, a segment as long as what passes while positioning costs twice its transfer.
    #[test]
    fn a_segment_of_the_positioning_time_costs_twice_its_transfer() {
        let inefficiency = |bytes| transfer_inefficiency(Nanos(5_200_000), 40.0, ByteCount(bytes));
        assert!((inefficiency(208_000) - 2.0).abs() < 1e-9);
        assert!((inefficiency(2_080_000) - 1.1).abs() < 1e-9);
        let cost = SegmentCost {
            new_written: 8.0,
            clean_read: 4.0,
            clean_written: 2.0,
            data_written: 7.0,
        };
        assert!((cost.overall_write_cost(inefficiency(208_000)) - 4.0).abs() < 1e-9);
    }

    /// Of a curve that is concave no division of the way takes longer than equal steps.
    #[test]
    fn the_worst_route_has_equal_steps() {
        let points = (1..=100).map(|at| (at, Nanos((f64::from(at).sqrt() * 1e6) as u64)));
        let curve = SeekCurve::new(points.collect()).unwrap();
        assert_eq!(scheduled_seek(&curve, 101, 1), curve.time(100));
        let equal = scheduled_seek(&curve, 101, 4).0 * 4;
        assert_eq!(equal, curve.time(25).0 * 4);
        for (a, b, c) in [(10, 20, 30), (1, 1, 1), (25, 25, 24), (40, 5, 30)] {
            let route = [a, b, c, 100 - a - b - c].map(|step| curve.time(step).0);
            assert!(route.iter().sum::<u64>() <= equal, "{route:?}");
        }
    }

    /// 5.6.1: a round of 0.5 s on ten disks starts a stream after 5.5 s at worst; the 70 streams of 4 Mb/s have 250 KB of it each.
    #[test]
    fn ten_disks_with_half_a_second_start_after_five_and_a_half() {
        let round = VideoRound { streams: 70, access: Nanos(500_000_000 / 70), disks: 10 };
        assert!((round.startup_latency().as_s() - 5.5).abs() < 1e-6);
        assert!((round.stream_mbit_per_s(ByteCount(250_000)) - 4.0).abs() < 1e-6);
        assert_eq!(round.buffer(ByteCount(250_000)), ByteCount(35_000_000));
    }
}
