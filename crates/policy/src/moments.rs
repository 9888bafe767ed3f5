//! Where streams stay on or off for longer than a simulation lasts, it would show one moment alone: such a workload is simulated
//! at several moments, as short runs.

use moirai_units::{Instant, Nanos};

use crate::system::Run;
use crate::workload::Workload;

/// A run of fewer on and off periods than this is divided.
const CYCLES_MIN: f64 = 5.0;
/// Moments at most: each begins with empty queues and caches.
const MOMENTS_MAX: f64 = 16.0;
/// The share of a run in which queues and caches fill; it is not counted.
const WARM_UP: u64 = 10;

/// Moments at which a workload is simulated.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Moments {
    pub(crate) count: u64,
    /// How long each is simulated.
    span: Nanos,
}

impl Moments {
    /// Those of a simulation of `requests`; `None` where one run shows enough periods. So it is with closed loops, too: they are
    /// always on, and how long their requests take is not known before.
    pub(crate) fn of(workload: &Workload, requests: u64) -> Option<Moments> {
        let periods =
            workload.streams.iter().filter_map(|stream| Some(stream.on_ms? + stream.off_ms?));
        let longest_ns = periods.fold(0.0, f64::max) * 1e6;
        let mut iops = 0.0;
        for stream in &workload.streams {
            iops += workload.mean_iops(stream)?;
        }
        let span_ns = requests as f64 / iops.max(1e-12) * 1e9;
        if span_ns >= CYCLES_MIN * longest_ns {
            return None;
        }
        let count = (CYCLES_MIN * longest_ns / span_ns).ceil().min(MOMENTS_MAX);
        Some(Moments { count: count as u64, span: Nanos((span_ns / count) as u64) })
    }

    /// The run at each of them.
    pub(crate) fn run(self) -> Run {
        let warm_up = Instant { ns: self.span.0 / WARM_UP };
        Run::Time { until: Instant { ns: self.span.0 }, warm_up }
    }
}

impl Run {
    /// So many requests, of which the first tenth is not counted.
    pub(crate) fn with_warm_up(requests: u64) -> Run {
        Run::Requests { count: requests, warm_up: requests / WARM_UP }
    }
}

#[cfg(test)]
mod tests {
    use moirai_units::ByteCount;

    use super::*;
    use crate::workload::Stream;

    #[test]
    fn long_periods_are_seen_at_several_moments() {
        let mut stream = Stream::open("a", 100.0, ByteCount(4096));
        let of = |stream: &Stream| Moments::of(&Workload { streams: vec![stream.clone()] }, 10_000);
        assert_eq!(of(&stream), None);
        // 200 s are a hundred periods of 2 s, ten thirds of one of 60 s, and a part of one of a day.
        (stream.on_ms, stream.off_ms) = (Some(1e3), Some(1e3));
        assert_eq!(of(&stream), None);
        (stream.on_ms, stream.off_ms) = (Some(30e3), Some(30e3));
        assert_eq!(of(&stream), Some(Moments { count: 2, span: Nanos(100_000_000_000) }));
        (stream.on_ms, stream.off_ms) = (Some(43.2e6), Some(43.2e6));
        assert_eq!(of(&stream), Some(Moments { count: 16, span: Nanos(12_500_000_000) }));
    }
}
