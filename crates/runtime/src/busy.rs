//! Processor time of short stretches of work, cheap enough to measure each of millions.

use std::cell::Cell;
use std::time::{Duration, Instant};

use moirai_units::Nanos;
use rustix::time::{ClockId, clock_gettime};

use crate::context::is_virtual;

/// How old a thread's last reading of its processor clock may be when a stretch begins. Reading that clock is a system call
/// (0.3 to 1 us), so a thread makes one in this time at most: at worst half a percent of its time.
const READING_AGE_MAX: Duration = Duration::from_micros(200);

thread_local! {
    /// The thread's last reading of its processor clock, and when it was taken.
    static LAST: Cell<Option<(Instant, Duration)>> = const { Cell::new(None) };
}

/// Measures the processor time that the current thread spends from [`BusyTime::start`] on.
///
/// A stretch of up to 200 us is measured by the machine's clock. A longer one takes the processor time since the thread's
/// last reading before the stretch, so that time in which the thread did not run is left out. Either way the result is at
/// most 200 us too long, and never too short.
#[derive(Clone, Copy, Debug)]
pub struct BusyTime {
    began: Instant,
    /// The thread's processor time at `began`, or up to [`READING_AGE_MAX`] before.
    processor: Duration,
}

impl BusyTime {
    /// Starts measuring; `None` in virtual time, where the machine's time does not count.
    #[must_use]
    pub fn start() -> Option<BusyTime> {
        if is_virtual() {
            return None;
        }
        let began = Instant::now();
        let is_recent =
            |(at, _): &(Instant, Duration)| began.duration_since(*at) <= READING_AGE_MAX;
        let processor = match LAST.get().filter(is_recent) {
            Some((_, processor)) => processor,
            None => {
                let processor = processor_time();
                LAST.set(Some((began, processor)));
                processor
            }
        };
        Some(BusyTime { began, processor })
    }

    /// Processor time since the start. To be called by the thread that started.
    #[must_use]
    pub fn elapsed(&self) -> Nanos {
        let passed = self.began.elapsed();
        let busy = match passed > READING_AGE_MAX {
            true => passed.min(processor_time().saturating_sub(self.processor)),
            false => passed,
        };
        Nanos(u64::try_from(busy.as_nanos()).unwrap_or(u64::MAX))
    }
}

/// The processor time of the current thread since it began.
fn processor_time() -> Duration {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    let seconds = u64::try_from(time.tv_sec).unwrap_or_default();
    let nanoseconds = u64::try_from(time.tv_nsec).unwrap_or_default();
    Duration::from_secs(seconds) + Duration::from_nanos(nanoseconds)
}

#[cfg(test)]
mod tests {
    use std::hint::black_box;

    use super::*;
    use crate::block_on_virtual;

    #[test]
    fn busy_time_leaves_out_sleep() {
        let busy = BusyTime::start().unwrap();
        std::thread::sleep(Duration::from_millis(50));
        assert!(busy.elapsed() < Nanos(40_000_000), "{:?}", busy.elapsed());
    }

    #[test]
    fn busy_time_counts_work() {
        let busy = BusyTime::start().unwrap();
        let before = processor_time();
        let mut sum = 0_u64;
        while processor_time() - before < Duration::from_millis(5) {
            sum = black_box(sum.wrapping_add(1));
        }
        assert!(busy.elapsed() >= Nanos(5_000_000), "{:?}", busy.elapsed());
    }

    #[test]
    fn virtual_time_measures_no_work() {
        assert!(block_on_virtual(1, async { BusyTime::start() }).is_none());
    }
}
