//! Divides a time among measurements, so that all of them together take no longer.

use moirai_runtime::now;
use moirai_units::{Instant, Nanos};

/// The measurements until `ends`.
pub(super) struct Schedule {
    ends: Instant,
    runs: usize,
    begun: usize,
}

impl Schedule {
    pub(super) fn new(ends: Instant, runs: usize) -> Schedule {
        Schedule { ends, runs, begun: 0 }
    }

    /// How long the next measurement may take: an equal part of the time that is left. Requests in flight at a measurement's end are
    /// awaited, so each takes somewhat longer than it may; later ones pay for it.
    pub(super) fn next_span(&mut self) -> Nanos {
        let left = self.ends.since(now());
        let runs = self.runs.saturating_sub(self.begun).max(1);
        self.begun += 1;
        Nanos(left.0 / runs as u64)
    }

    /// The share of the measurements that are done, after each.
    pub(super) fn done(&self) -> f64 {
        self.begun as f64 / self.runs as f64
    }
}
