//! Points in time and spans of it, in whole nanoseconds of the runtime's clock.

use std::fmt;
use std::ops::{Add, AddAssign, Sub};

/// A point in time: nanoseconds since the runtime's clock began.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Instant {
    /// Nanoseconds since the clock began.
    pub ns: u64,
}

/// A span of time in nanoseconds.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Nanos(pub u64);

impl Instant {
    /// The moment at which the clock began.
    pub const ZERO: Instant = Instant { ns: 0 };

    /// The span from `earlier` to this point; zero when `earlier` is the later one.
    #[must_use]
    pub fn since(self, earlier: Instant) -> Nanos {
        Nanos(self.ns.saturating_sub(earlier.ns))
    }
}

impl Nanos {
    /// No time at all.
    pub const ZERO: Nanos = Nanos(0);

    /// A span given in milliseconds, to the nearest nanosecond.
    #[must_use]
    pub fn from_ms(ms: f64) -> Nanos {
        Nanos((ms * 1e6).round() as u64)
    }

    /// The span in milliseconds.
    #[must_use]
    pub fn as_ms(self) -> f64 {
        self.0 as f64 / 1e6
    }

    /// The span in seconds.
    #[must_use]
    pub fn as_s(self) -> f64 {
        self.0 as f64 / 1e9
    }
}

impl Add<Nanos> for Instant {
    type Output = Instant;
    fn add(self, span: Nanos) -> Instant {
        Instant { ns: self.ns + span.0 }
    }
}

impl Add for Nanos {
    type Output = Nanos;
    fn add(self, other: Nanos) -> Nanos {
        Nanos(self.0 + other.0)
    }
}

impl AddAssign for Nanos {
    fn add_assign(&mut self, other: Nanos) {
        self.0 += other.0;
    }
}

impl Sub for Nanos {
    type Output = Nanos;
    fn sub(self, other: Nanos) -> Nanos {
        Nanos(self.0 - other.0)
    }
}

impl std::iter::Sum for Nanos {
    fn sum<I: Iterator<Item = Nanos>>(spans: I) -> Nanos {
        spans.fold(Nanos::ZERO, Add::add)
    }
}

impl fmt::Display for Instant {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} ns", self.ns)
    }
}

impl fmt::Debug for Instant {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} ns", self.ns)
    }
}

impl fmt::Display for Nanos {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            0..1_000 => write!(f, "{} ns", self.0),
            1_000..1_000_000 => write!(f, "{:.1} us", self.0 as f64 / 1e3),
            1_000_000..1_000_000_000 => write!(f, "{:.3} ms", self.as_ms()),
            _ => write!(f, "{:.3} s", self.as_s()),
        }
    }
}

impl fmt::Debug for Nanos {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// Where the time of a request went, on devices that know: the simulated ones.
///
/// The parts add up to the time from issue to finish.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct ServiceParts {
    /// Waiting for other requests.
    pub queue: Nanos,
    /// Command processing by the device.
    pub overhead: Nanos,
    /// Moving the arm, settling included.
    pub seek: Nanos,
    /// Switching to another head of the same cylinder.
    pub head_switch: Nanos,
    /// Waiting for the wanted sectors to come round.
    pub rotation: Nanos,
    /// Wanted sectors passing under the head.
    pub media: Nanos,
    /// Bus transfer that did not overlap with any of the above.
    pub bus: Nanos,
}

impl ServiceParts {
    /// All parts together.
    #[must_use]
    pub fn total(&self) -> Nanos {
        self.queue + self.service()
    }

    /// All parts but the wait for other requests.
    #[must_use]
    pub fn service(&self) -> Nanos {
        self.overhead + self.seek + self.head_switch + self.rotation + self.media + self.bus
    }

    /// Media time over the time the mechanism was in use: the disk efficiency of thesis 3.2.4.
    /// Zero when it was never in use.
    #[must_use]
    pub fn efficiency(&self) -> f64 {
        let busy = self.seek + self.head_switch + self.rotation + self.media;
        if busy == Nanos::ZERO {
            return 0.0;
        }
        self.media.0 as f64 / busy.0 as f64
    }
}

impl AddAssign for ServiceParts {
    fn add_assign(&mut self, other: ServiceParts) {
        self.queue += other.queue;
        self.overhead += other.overhead;
        self.seek += other.seek;
        self.head_switch += other.head_switch;
        self.rotation += other.rotation;
        self.media += other.media;
        self.bus += other.bus;
    }
}
