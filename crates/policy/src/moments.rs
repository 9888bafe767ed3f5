//! Where streams stay on or off for longer than a simulation lasts, it would show one moment alone: such a workload is simulated
//! at several moments, as short runs.

use std::collections::BTreeMap;

use moirai_runtime::seeded;
use moirai_units::{BlockCount, Instant, Nanos};
use rand::Rng;
use rand::seq::SliceRandom;

use crate::run::{Run, WARM_UP};
use crate::workload::Workload;

/// A run of fewer on and off periods than this is divided.
const CYCLES_MIN: f64 = 5.0;
/// Moments that long periods ask for, and that rare ones do: how often the rarest should be on.
const MOMENTS: f64 = 16.0;
const MOMENTS_MAX: f64 = 64.0;
const RARE_MOMENTS: f64 = 2.0;
/// Each begins with empty queues and caches, so it lasts so long if all together are no more than so many times the simulation that was
/// asked for.
const MOMENT_MIN_NS: f64 = 4e9;
const TIMES_MAX: f64 = 4.0;

/// Moments at which a workload is simulated.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Moments {
    count: usize,
    /// How long each is simulated.
    span: Nanos,
}

/// By stream with periods of its own: at each moment, how far it is in its periods, from 0 to 1.
pub(crate) type Phases = BTreeMap<String, Vec<f64>>;

impl Moments {
    /// Those of a simulation of `requests` to `objects`; `None` where one run shows enough periods. So it is with closed loops, too:
    /// how long their requests take is not known before.
    pub(crate) fn of(
        workload: &Workload,
        objects: &[(String, BlockCount)],
        requests: u64,
    ) -> Option<Moments> {
        let (mut iops, mut longest_ns, mut rarest) = (0.0, 0.0_f64, 1.0_f64);
        for stream in objects.iter().filter_map(|(name, _)| workload.stream(name)) {
            iops += workload.mean_iops(stream)?;
            let leader = workload.leader(stream);
            let cycle_ms = leader.on_ms.zip(leader.off_ms).map_or(0.0, |(on, off)| on + off);
            longest_ns = longest_ns.max(cycle_ms * 1e6);
            rarest = rarest.min(workload.on_share(stream));
        }
        let span_ns = requests as f64 / iops.max(1e-12) * 1e9;
        if span_ns >= CYCLES_MIN * longest_ns {
            return None;
        }
        let by_length = (CYCLES_MIN * longest_ns / span_ns).ceil().min(MOMENTS);
        let wanted = by_length.max((RARE_MOMENTS / rarest).ceil()).min(MOMENTS_MAX);
        let count = (TIMES_MAX * span_ns / MOMENT_MIN_NS).floor().min(wanted).max(2.0);
        let most_ns = TIMES_MAX * span_ns / count;
        let span = Nanos((span_ns / count).max(MOMENT_MIN_NS.min(most_ns)) as u64);
        Some(Moments { count: count as usize, span })
    }

    pub(crate) fn count(self) -> usize {
        self.count
    }

    /// The run at each of them.
    pub(crate) fn run(self) -> Run {
        let warm_up = Instant { ns: self.span.0 / WARM_UP };
        Run::Time { until: Instant { ns: self.span.0 }, warm_up }
    }

    /// How far streams are in their periods at each moment: each of as many equal parts once, so that a stream is on at its share of
    /// the moments, and at one at least.
    pub(crate) fn phases(self, workload: &Workload, seed: u64) -> Phases {
        let mut phases = Phases::new();
        for stream in workload.streams.iter().filter(|stream| stream.on_ms.is_some()) {
            let mut random = seeded(seed, &format!("moments of {}", stream.object));
            let mut parts: Vec<usize> = (0..self.count).collect();
            parts.shuffle(&mut random);
            let mut of_stream: Vec<f64> = parts
                .into_iter()
                .map(|part| (part as f64 + random.random::<f64>()) / self.count as f64)
                .collect();
            let share = workload.on_share(stream);
            let first = of_stream.iter_mut().min_by(|one, other| one.total_cmp(other));
            if let Some(first) = first.filter(|first| **first >= share) {
                *first = share * random.random::<f64>();
            }
            phases.insert(stream.object.clone(), of_stream);
        }
        phases
    }
}

#[cfg(test)]
mod tests {
    use moirai_units::ByteCount;

    use super::*;
    use crate::workload::Stream;

    fn alone(on_ms: f64, off_ms: f64) -> Workload {
        let mut stream = Stream::open("a", 0.01, ByteCount(4096));
        (stream.on_ms, stream.off_ms) = (Some(on_ms), Some(off_ms));
        // A hundred requests a second in all, nearly.
        Workload { streams: vec![stream, Stream::open("b", 100.0, ByteCount(4096))] }
    }

    fn objects() -> Vec<(String, BlockCount)> {
        ["a", "b"].map(|name| (name.to_owned(), BlockCount(1 << 20))).into()
    }

    #[test]
    fn long_periods_are_seen_at_several_moments() {
        let of = |on_ms, off_ms| {
            let moments = Moments::of(&alone(on_ms, off_ms), &objects(), 10_000)?;
            Some((moments.count, moments.span.as_s().round()))
        };
        // 100 s are fifty periods of 2 s, two of 50 s, and a part of one of a day. At four moments it is on twice.
        assert_eq!(of(1e3, 1e3), None);
        assert_eq!(of(25e3, 25e3), Some((4, 25.0)));
        assert_eq!(of(43.2e6, 43.2e6), Some((16, 6.0)));
        // An hour a day.
        assert_eq!(of(3.6e6, 82.8e6), Some((48, 4.0)));
        let only_b = [("b".to_owned(), BlockCount(1 << 20))];
        assert_eq!(Moments::of(&alone(1e9, 1e9), &only_b, 10_000), None, "`a` is not there");
    }

    #[test]
    fn each_stream_is_on_at_its_share_of_the_moments() {
        for (share, on) in [(0.5, 8), (0.25, 4), (0.01, 1)] {
            let workload = alone(share * 1e9, (1.0 - share) * 1e9);
            let moments = Moments { count: 16, span: Nanos(1) };
            for seed in 0..20 {
                let phases = moments.phases(&workload, seed);
                let count = phases["a"].iter().filter(|phase| **phase < share).count();
                assert_eq!((count, phases.len()), (on, 1), "{share}");
            }
        }
    }
}
