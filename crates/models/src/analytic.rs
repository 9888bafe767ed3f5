//! Closed forms for the expected time of a disk access: thesis 6.3.4, 6.3.5 and appendix A; and what follows for systems
//! above, thesis 5.5 and 5.6.
//!
//! Times are in revolutions and leave the seek out. N is sectors on a track, K (in appendix A: S) sectors wanted, H
//! the track skew in sectors.

mod systems;
mod unaligned;

pub use systems::{SegmentCost, VideoRound, scheduled_seek, transfer_inefficiency};
pub use unaligned::{
    UnalignedAccess, landing_outside_probability, ordinary_second_track_revolutions,
    switch_probability, zero_latency_second_track_revolutions,
};

/// Expected time to read K sectors of one track on a disk with zero-latency access (equation 6.1).
///
/// The closed form as published; it treats the arm as landing on a sector boundary.
#[must_use]
pub fn zero_latency_revolutions(track_sectors: u64, wanted_sectors: u64) -> f64 {
    let (n, k) = (track_sectors as f64, wanted_sectors as f64);
    (n - k + 1.0) * (n + k) / (2.0 * n * n) + (k - 1.0) / n
}

/// The same on a disk that waits for the first wanted sector (equation 6.2).
#[must_use]
pub fn ordinary_revolutions(track_sectors: u64, wanted_sectors: u64) -> f64 {
    let (n, k) = (track_sectors as f64, wanted_sectors as f64);
    (n - 1.0) / (2.0 * n) + k / n
}

/// Expected time of a semi-sequential access to b sectors on each of d tracks that keeps the
/// one-revolution bound (equation 6.5).
#[must_use]
pub fn quadrangle_revolutions(
    track_sectors: u64,
    skew_sectors: u64,
    block_sectors: u64,
    depth: u64,
) -> f64 {
    let span = depth * block_sectors + depth.saturating_sub(1) * skew_sectors;
    zero_latency_revolutions(track_sectors, span)
}

/// The same where the access does not fit a revolution (equation 6.10), whose K the thesis prints as
/// d b - (d - 1) H; the sum is what 6.5 has, and what gives the 10.8 ms of 6.3.6.
#[must_use]
pub fn unbounded_quadrangle_revolutions(
    track_sectors: u64,
    skew_sectors: u64,
    block_sectors: u64,
    depth: u64,
) -> f64 {
    let span = depth * block_sectors + depth.saturating_sub(1) * skew_sectors;
    let (n, b, k) = (track_sectors as f64, block_sectors as f64, span as f64);
    let missed = (n - skew_sectors as f64 - b - 1.0).max(0.0) / n;
    let rest = n - (span % track_sectors) as f64;
    (b - 1.0) / (2.0 * n) + k / n + missed * rest / n
}

/// The efficiency of a long sequential access: 1 - H/N (equation 6.3).
///
/// The thesis takes the limit of 1 / (1 + H/N) to first order; this is the form as published.
#[must_use]
pub fn sequential_efficiency(track_sectors: u64, skew_sectors: u64) -> f64 {
    1.0 - skew_sectors as f64 / track_sectors as f64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_full_track_takes_one_revolution_without_latency_and_one_and_a_half_with() {
        // Thesis 3.2.4: "an ordinary disk requires an average of 1.5" revolutions.
        assert!((zero_latency_revolutions(334, 334) - 1.0).abs() < 0.005);
        assert!((ordinary_revolutions(334, 334) - 1.5).abs() < 0.005);
    }

    #[test]
    fn one_sector_takes_half_a_revolution_on_either_disk() {
        assert!((zero_latency_revolutions(686, 1) - 0.5).abs() < 0.005);
        assert!((ordinary_revolutions(686, 1) - 0.5).abs() < 0.005);
    }

    #[test]
    fn figure_6_7_steps_within_one_revolution_of_6_ms() {
        // Thesis 6.3.6, Atlas 10K III: with d = 1 the response time grows from 3 to 6 ms.
        let ms = |block, depth| 6.0 * quadrangle_revolutions(686, 139, block, depth);
        assert!((ms(1, 1) - 3.0).abs() < 0.05);
        assert!((ms(686, 1) - 6.0).abs() < 0.05);
        assert!(ms(26, 5) < 6.05);
        // "For d = 6, the response time is at least 10.8 ms."
        let six = 6.0 * unbounded_quadrangle_revolutions(686, 139, 1, 6);
        assert!((six - 10.8).abs() < 0.05, "{six}");
    }
}
