//! Requests of a workload in the order of their times: generated, or from a trace.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use moirai_runtime::{Random, seeded};
use moirai_storage::Op;
use moirai_units::{BlockCount, BlockRange, Instant, Lbn, Nanos};
use rand::Rng;

use crate::moments::Phases;
use crate::windows::{Windows, exponential, span};
use crate::workload::{Arrivals, Hot, SizeDistribution, Stream, Workload};

/// A request to an object of a system.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TracedRequest {
    /// When it comes.
    pub at: Instant,
    /// The object, by its number.
    pub object: u32,
    /// Read or write.
    pub op: Op,
    /// The blocks of the object.
    pub blocks: BlockRange,
}

/// Where requests come from.
pub trait Source {
    /// The time of the next request that waits for no other; `None` when there is none.
    fn next_at(&self) -> Option<Instant>;

    /// Takes that request.
    fn take(&mut self) -> Option<TracedRequest>;

    /// The requests of closed loops at the beginning.
    fn first_closed(&mut self) -> Vec<TracedRequest> {
        Vec::new()
    }

    /// The request that the closed loop on `object` issues after one is done at `at`; `None` where
    /// the object has none.
    fn after(&mut self, _object: u32, _at: Instant) -> Option<TracedRequest> {
        None
    }
}

/// Requests later than this, in some 150 years, never come.
const LAST_NS: u64 = 1 << 62;

/// The requests of a workload.
#[derive(Debug)]
pub struct Generator {
    streams: Vec<Generated>,
    /// Open streams by the time of their next request.
    next: BinaryHeap<Reverse<(Instant, usize)>>,
}

#[derive(Debug)]
struct Generated {
    object: u32,
    arrivals: Arrivals,
    windows: Option<Windows>,
    /// The on period that the next request falls into.
    window: (Instant, Instant),
    reads: f64,
    mean_blocks: f64,
    is_fixed: bool,
    align: u64,
    sequential: f64,
    hot: Option<Hot>,
    size: BlockCount,
    accessed: BlockCount,
    /// Where the last request ended.
    end: Lbn,
    random: Random,
}

impl Generator {
    /// The requests of `workload` to `objects`, each with its name and size, under `seed`. Objects
    /// without a stream are not accessed.
    #[must_use]
    pub fn new(workload: &Workload, objects: &[(String, BlockCount)], seed: u64) -> Generator {
        Generator::with_periods(workload, objects, seed, |windows| windows)
    }

    /// The same from one of some moments on.
    #[must_use]
    pub(crate) fn at_moment(
        workload: &Workload,
        objects: &[(String, BlockCount)],
        seed: u64,
        phases: &Phases,
        moment: usize,
    ) -> Generator {
        Generator::with_periods(workload, objects, seed, |windows| {
            let phases = phases.get(windows.leader());
            match phases.and_then(|phases| phases.get(moment)) {
                Some(phase) => windows.at_phase(*phase),
                None => windows,
            }
        })
    }

    fn with_periods(
        workload: &Workload,
        objects: &[(String, BlockCount)],
        seed: u64,
        begun: impl Fn(Windows) -> Windows,
    ) -> Generator {
        let mut streams = Vec::new();
        let mut next = BinaryHeap::new();
        for (object, (name, size)) in (0u32..).zip(objects) {
            let Some(stream) = workload.stream(name) else { continue };
            let windows = Windows::of(workload, stream, seed).map(&begun);
            let mut generated = Generated::new(windows, stream, object, *size, seed);
            if let Arrivals::Poisson(_) = generated.arrivals {
                let at = generated.arrival_after(Instant::ZERO);
                next.push(Reverse((at, streams.len())));
            }
            streams.push(generated);
        }
        Generator { streams, next }
    }
}

impl Source for Generator {
    fn next_at(&self) -> Option<Instant> {
        self.next.peek().map(|Reverse((at, _))| *at).filter(|at| at.ns < LAST_NS)
    }

    fn take(&mut self) -> Option<TracedRequest> {
        let Reverse((at, index)) = self.next.pop()?;
        let stream = self.streams.get_mut(index)?;
        let request = stream.request(at);
        self.next.push(Reverse((stream.arrival_after(at), index)));
        Some(request)
    }

    fn first_closed(&mut self) -> Vec<TracedRequest> {
        let mut requests = Vec::new();
        for stream in &mut self.streams {
            if let Arrivals::Closed(most) = stream.arrivals {
                requests.extend((0..most).map(|_| stream.request(Instant::ZERO)));
            }
        }
        requests
    }

    fn after(&mut self, object: u32, at: Instant) -> Option<TracedRequest> {
        let index = self.streams.binary_search_by_key(&object, |stream| stream.object).ok()?;
        let stream = self.streams.get_mut(index)?;
        matches!(stream.arrivals, Arrivals::Closed(_)).then(|| stream.request(at))
    }
}

impl Generated {
    fn new(
        mut windows: Option<Windows>,
        stream: &Stream,
        object: u32,
        size: BlockCount,
        seed: u64,
    ) -> Generated {
        let always = (Instant::ZERO, Instant { ns: u64::MAX });
        Generated {
            object,
            arrivals: stream.arrivals(),
            window: windows.as_mut().and_then(Windows::next).unwrap_or(always),
            windows,
            reads: stream.reads,
            mean_blocks: BlockCount::holding(stream.mean_bytes()).0 as f64,
            is_fixed: stream.sizes == SizeDistribution::Fixed,
            align: stream.alignment().0,
            sequential: stream.sequential,
            hot: stream.hot,
            size,
            accessed: stream.accessed(size),
            end: Lbn(0),
            random: seeded(seed, &format!("requests to {}", stream.object)),
        }
    }

    /// The time of the request after one at `at`: Poisson in the time that the stream is on.
    fn arrival_after(&mut self, at: Instant) -> Instant {
        let Arrivals::Poisson(mean) = self.arrivals else { return at };
        let mut wait = Nanos(exponential(&mut self.random, mean.0 as f64) as u64);
        let mut from = at.max(self.window.0);
        while span(from, self.window.1) < wait {
            let Some(next) = self.windows.as_mut().and_then(Windows::next) else { break };
            wait = wait - span(from, self.window.1);
            // A follower's period may begin before its last one ends.
            from = next.0.max(self.window.1);
            self.window = next;
        }
        Instant { ns: from.ns.saturating_add(wait.0) }
    }

    fn request(&mut self, at: Instant) -> TracedRequest {
        let blocks = match self.is_fixed {
            true => self.mean_blocks,
            false => exponential(&mut self.random, self.mean_blocks).round(),
        };
        let count = BlockCount((blocks as u64).clamp(1, self.accessed.0));
        let goes_on = self.sequential > 0.0 && self.random.random::<f64>() < self.sequential;
        let last = self.accessed - count;
        let first = match goes_on {
            true if self.end.0 <= last.0 => self.end,
            true => Lbn(0),
            false => self.random_place(last),
        };
        let blocks = BlockRange::new(first, count);
        debug_assert!(blocks.end().0 <= self.size.0);
        self.end = blocks.end();
        let op = match self.random.random::<f64>() < self.reads {
            true => Op::Read,
            false => Op::Write,
        };
        TracedRequest { at, object: self.object, op, blocks }
    }

    /// An aligned place of the working set, at most `last`.
    fn random_place(&mut self, last: BlockCount) -> Lbn {
        let places = last.0 / self.align + 1;
        let among = match self.hot {
            None => 0..places,
            Some(Hot { accesses, space }) => {
                let hot = ((places as f64 * space) as u64).clamp(1, places);
                match self.random.random::<f64>() < accesses || hot == places {
                    true => 0..hot,
                    false => hot..places,
                }
            }
        };
        Lbn(self.random.random_range(among) * self.align)
    }
}

/// The requests of a trace that is in memory, in the order of their times.
#[derive(Clone, Debug)]
pub struct TraceSource {
    requests: Vec<TracedRequest>,
    next: usize,
}

impl TraceSource {
    /// The requests, with the times of each object's multiplied by its `time_scale`, 1 where there is
    /// none (placement paper 3.4).
    #[must_use]
    pub fn new(mut requests: Vec<TracedRequest>, time_scale: &[f64]) -> TraceSource {
        for request in &mut requests {
            if let Some(scale) = time_scale.get(request.object as usize) {
                request.at = Instant { ns: (request.at.ns as f64 * scale) as u64 };
            }
        }
        requests.sort_by_key(|request| request.at);
        TraceSource { requests, next: 0 }
    }
}

impl Source for TraceSource {
    fn next_at(&self) -> Option<Instant> {
        self.requests.get(self.next).map(|request| request.at)
    }

    fn take(&mut self) -> Option<TracedRequest> {
        let request = self.requests.get(self.next).copied();
        self.next += 1;
        request
    }
}

#[cfg(test)]
mod tests {
    use moirai_units::ByteCount;

    use super::*;

    fn requests(stream: Stream, count: usize) -> Vec<TracedRequest> {
        let objects = [(stream.object.clone(), BlockCount(1 << 22))];
        let workload = Workload { streams: vec![stream] };
        let mut generator = Generator::new(&workload, &objects, 3);
        std::iter::from_fn(|| generator.take()).take(count).collect()
    }

    #[test]
    fn rates_sizes_and_shares_are_those_of_the_stream() {
        let mut stream = Stream::open("a", 200.0, ByteCount(64 << 10));
        (stream.reads, stream.sequential) = (0.7, 0.5);
        (stream.on_ms, stream.off_ms) = (Some(300.0), Some(300.0));
        let requests = requests(stream, 40_000);
        let span_s = requests.last().unwrap().at.ns as f64 / 1e9;
        let rate = 40_000.0 / span_s;
        assert!((rate - 100.0).abs() < 5.0, "{rate}");
        let share = |holds: &dyn Fn(&TracedRequest) -> bool| {
            requests.iter().filter(|request| holds(request)).count() as f64 / 40_000.0
        };
        let reads = share(&|request| request.op == Op::Read);
        assert!((reads - 0.7).abs() < 0.01, "{reads}");
        let blocks: u64 = requests.iter().map(|request| request.blocks.count.0).sum();
        let mean = blocks as f64 / 40_000.0;
        assert!((mean - 128.0).abs() < 3.0, "{mean}");
        let runs = requests.windows(2).filter(|pair| pair[1].blocks.first == pair[0].blocks.end());
        let sequential = runs.count() as f64 / 40_000.0;
        assert!((sequential - 0.5).abs() < 0.02, "{sequential}");
    }

    #[test]
    fn the_hot_part_has_its_share_of_the_accesses() {
        let mut stream = Stream::open("a", 100.0, ByteCount(4096));
        stream.hot = Some(Hot { accesses: 0.8, space: 0.1 });
        let requests = requests(stream, 20_000);
        let hot = requests.iter().filter(|request| request.blocks.first.0 < (1 << 22) / 10).count();
        assert!((hot as f64 / 20_000.0 - 0.8).abs() < 0.02, "{hot}");
    }

    #[test]
    fn scaling_one_stream_of_a_trace_keeps_the_order_of_times() {
        let request = |at, object| TracedRequest {
            at: Instant { ns: at },
            object,
            op: Op::Read,
            blocks: BlockRange::new(Lbn(0), BlockCount(8)),
        };
        let trace = vec![request(100, 0), request(120, 1), request(200, 1)];
        let mut source = TraceSource::new(trace, &[1.0, 0.75]);
        let order: Vec<_> = std::iter::from_fn(|| source.take())
            .map(|request| (request.at.ns, request.object))
            .collect();
        assert_eq!(order, [(90, 1), (100, 0), (150, 1)]);
    }
}
