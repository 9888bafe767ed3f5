//! How long a simulation lasts.

use moirai_units::Instant;

/// The share of a run in which queues and caches fill; it is not counted.
pub(crate) const WARM_UP: u64 = 10;

/// How long to simulate. What is issued during the warm-up at the beginning is not counted in response times.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Run {
    /// So many requests.
    Requests {
        /// Requests that are issued.
        count: u64,
        /// The first of them, which are not counted.
        warm_up: u64,
    },
    /// All requests of a time.
    Time {
        /// None is issued later.
        until: Instant,
        /// What is issued before this is not counted.
        warm_up: Instant,
    },
}

impl Run {
    /// So many requests, of which the first tenth is not counted.
    pub(crate) fn with_warm_up(requests: u64) -> Run {
        Run::Requests { count: requests, warm_up: requests / WARM_UP }
    }
}
