//! Flushed writes in place: by the thread that asks, where the device is fast.
//!
//! A commit waits for one small write and a flush. These took 84 us on the flash that was measured, and handing them to a thread that may
//! block, and the result back, 30 to 40 us more. The thread that asks is one of the runtime's, on which other tasks wait meanwhile, so only
//! what has been short so far is done in place.

use std::sync::atomic::{AtomicU64, Ordering};

use moirai_units::{ByteCount, Nanos};

/// What is longer goes to a thread, however fast the device is.
const BYTES_MAX: ByteCount = ByteCount(64 << 10);
/// No task may keep a thread of the runtime for much longer than that.
const MEAN_MAX: Nanos = Nanos(500_000);
/// The last one counts for one in so many of the mean: one flush of 10 ms sends the next 9 to threads.
const SHARE: u64 = 8;

/// How long short flushed writes of a file have taken: a mean in which the last ones count most.
#[derive(Debug)]
pub(crate) struct FlushedTimes(AtomicU64);

impl Default for FlushedTimes {
    /// Until one has been measured, none is done in place.
    fn default() -> FlushedTimes {
        FlushedTimes(AtomicU64::new(2 * MEAN_MAX.0))
    }
}

impl FlushedTimes {
    /// Whether the next one, of so many bytes, is likely to be short.
    pub(crate) fn are_short(&self, bytes: ByteCount) -> bool {
        bytes <= BYTES_MAX && self.0.load(Ordering::Relaxed) <= MEAN_MAX.0
    }

    /// One has taken so long. Of two that end at once one may not count.
    pub(crate) fn note(&self, bytes: ByteCount, took: Nanos) {
        if bytes <= BYTES_MAX {
            let mean = self.0.load(Ordering::Relaxed);
            let mean = mean - mean / SHARE + took.0 / SHARE;
            self.0.store(mean, Ordering::Relaxed);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PAGE: ByteCount = ByteCount(4096);

    fn note(times: &FlushedTimes, count: usize, took: Nanos) {
        (0..count).for_each(|_| times.note(PAGE, took));
    }

    #[test]
    fn what_is_not_known_goes_to_a_thread() {
        assert!(!FlushedTimes::default().are_short(PAGE));
    }

    #[test]
    fn short_ones_are_done_in_place_until_one_is_long() {
        let times = FlushedTimes::default();
        note(&times, 20, Nanos(90_000));
        assert!(times.are_short(PAGE));
        assert!(!times.are_short(ByteCount(1 << 20)));
        times.note(PAGE, Nanos(10_000_000));
        assert!(!times.are_short(PAGE));
        note(&times, 8, Nanos(90_000));
        assert!(!times.are_short(PAGE));
        note(&times, 1, Nanos(90_000));
        assert!(times.are_short(PAGE));
    }

    #[test]
    fn a_disk_is_never_written_in_place() {
        let times = FlushedTimes::default();
        note(&times, 100, Nanos(4_000_000));
        assert!(!times.are_short(PAGE));
    }

    #[test]
    fn long_writes_do_not_count() {
        let times = FlushedTimes::default();
        note(&times, 20, Nanos(90_000));
        (0..20).for_each(|_| times.note(ByteCount(1 << 20), Nanos(5_000_000)));
        assert!(times.are_short(PAGE));
    }
}
