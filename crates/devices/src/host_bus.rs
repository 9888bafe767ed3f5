//! A bus that several simulated disks share on their way to the host.

use moirai_units::{ByteCount, Instant, Nanos};
use parking_lot::Mutex;

/// A host bus: it carries what its disks deliver, at a bounded rate, first come first served.
///
/// Data flow on while a disk still reads, so that the bus delays a transfer only by what it was
/// behind when the disk was done.
#[derive(Debug)]
pub struct HostBus {
    bytes_per_s: f64,
    free: Mutex<Instant>,
}

impl HostBus {
    /// A bus of `mb_per_s` million bytes a second.
    #[must_use]
    pub fn new(mb_per_s: f64) -> HostBus {
        HostBus { bytes_per_s: mb_per_s * 1e6, free: Mutex::new(Instant::ZERO) }
    }

    /// When `bytes` that a disk had delivered by `delivered` have reached the host.
    pub(crate) fn carry(&self, delivered: Instant, bytes: ByteCount) -> Instant {
        let carrying = Nanos((bytes.0 as f64 / self.bytes_per_s * 1e9).round() as u64);
        let mut free = self.free.lock();
        *free = delivered.max(*free + carrying);
        *free
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_bus_bounds_the_rate_and_costs_nothing_when_idle() {
        let bus = HostBus::new(100.0);
        let at = |ns| Instant { ns };
        let megabyte = ByteCount(1_000_000); // 10 ms
        assert_eq!(bus.carry(at(50_000_000), megabyte), at(50_000_000));
        assert_eq!(bus.carry(at(52_000_000), megabyte), at(60_000_000));
        assert_eq!(bus.carry(at(53_000_000), megabyte), at(70_000_000));
        assert_eq!(bus.carry(at(200_000_000), megabyte), at(200_000_000));
    }
}
