//! What a trace says of each object: rates, sizes, runs, on and off periods, burstiness, working set,
//! skew, and which streams are on together. One pass, in memory that the trace's length does not change.

mod intervals;

use std::collections::HashMap;

use moirai_replay::trace::{Arrival, TraceRequest};
use moirai_storage::Op;
use moirai_units::{ByteCount, Instant, Lbn, Nanos};
use serde::Serialize;

use crate::error::{Error, Result};
use crate::workload::{Hot, SizeDistribution, Stream, Workload};
use intervals::{Intervals, Scale};

/// Takes in the requests of a trace.
#[derive(Debug, Default)]
pub struct Characteriser {
    devices: Vec<Device>,
    scales: Vec<Scale>,
    requests: u64,
    first: Option<Instant>,
    last: Instant,
    backwards: u64,
    longest_gap: (Nanos, Instant),
    /// Blocks of a region of the working set, a power of two.
    region_shift: u32,
    regions: usize,
}

/// What a trace is like.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Characterised {
    /// Requests.
    pub requests: u64,
    /// From the first to the last.
    pub span_s: f64,
    /// Requests with an earlier time than one before them.
    pub backwards: u64,
    /// The longest time without a request.
    pub longest_gap_s: f64,
    /// When it began, from the first request on.
    pub longest_gap_at_s: f64,
    /// The streams, in the order of the trace's devices; those without a request are left out.
    pub streams: Vec<Characteristics>,
    /// Pairs of streams that are on together more or less than by chance.
    pub overlaps: Vec<Overlap>,
}

/// What a stream is like.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Characteristics {
    /// The object's name.
    pub object: String,
    /// The trace's device.
    pub device: u32,
    /// Requests.
    pub requests: u64,
    /// Reads a second over the whole trace.
    pub read_iops: f64,
    /// Writes a second over the whole trace.
    pub write_iops: f64,
    /// The mean size of a request.
    pub mean_bytes: f64,
    /// Whether all requests have the same size.
    pub fixed_size: bool,
    /// What requests that begin a run are aligned to, a power of two.
    pub align_bytes: u64,
    /// Requests in a run, each beginning where the one before ended, on average.
    pub mean_run: f64,
    /// The scale at which on and off periods are told apart; `None` when it is always on.
    pub on_scale_s: Option<f64>,
    /// The mean length of on periods.
    pub on_ms: Option<f64>,
    /// The mean length of off periods.
    pub off_ms: Option<f64>,
    /// The variance of the number of requests in a second over its mean: 1 for a Poisson process.
    pub dispersion: f64,
    /// Bytes of regions that were accessed.
    pub working_set_bytes: u64,
    /// Where the last access ended: the least size of the object.
    pub end_bytes: u64,
    /// The share of accesses that go to the fifth of the working set that is accessed most.
    pub hot_fifth: f64,
    /// Accesses to a region of the working set, on average.
    pub accesses_a_region: f64,
}

/// How two streams are on together.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Overlap {
    /// One object.
    pub one: String,
    /// The other.
    pub other: String,
    /// The length of the intervals in which a stream is on or off.
    pub scale_s: f64,
    /// The share of the intervals with `one` on in which `other` is on.
    pub share: f64,
    /// The correlation of being on, -1 to 1.
    pub correlation: f64,
}

#[derive(Debug, Default)]
struct Device {
    reads: u64,
    writes: u64,
    blocks: u64,
    /// The least and the most blocks of a request.
    lengths: Option<(u64, u64)>,
    runs: u64,
    /// All bits of the first blocks of runs.
    run_bits: u64,
    next: Option<Lbn>,
    end: u64,
    regions: HashMap<u64, u32>,
}

/// Lengths of intervals: from what a queue notices to what an administrator notices.
const SCALES_NS: [u64; 4] = [100_000_000, 1_000_000_000, 10_000_000_000, 100_000_000_000];
/// The scale at which dispersion is told.
const SECOND: usize = 1;
/// A stream is on in an interval of a length at which it has this many requests where it has any.
const REQUESTS_WHILE_ON: f64 = 5.0;
/// A stream that is on for a larger share of the time is always on.
const ALWAYS_ON: f64 = 0.95;
/// Regions of the working set begin at 1 MiB, and get longer where there are more than so many.
const REGION_SHIFT: u32 = 11;
const REGIONS_MAX: usize = 1 << 21;
/// Runs from which an alignment is told: so many do not begin at multiples of two by chance. And the longest that is, 1 MiB.
const RUNS_MIN: u64 = 32;
const ALIGN_SHIFT_MAX: u32 = 11;
/// Devices of a trace.
const DEVICES_MAX: usize = 1024;
impl Characteriser {
    /// Nothing yet.
    #[must_use]
    pub fn new() -> Characteriser {
        Characteriser {
            scales: SCALES_NS.into_iter().map(Scale::new).collect(),
            region_shift: REGION_SHIFT,
            ..Characteriser::default()
        }
    }

    /// Takes in the next request.
    ///
    /// # Errors
    /// When the trace has delays in place of times, more devices than any, or a request longer than any.
    pub fn add(&mut self, request: &TraceRequest) -> Result<()> {
        let Arrival::At(at) = request.at else {
            let problem = "the trace has delays between requests in place of times: what is on at a time \
                           cannot be told from it";
            return Err(Error::Mismatch(problem.into()));
        };
        let first = *self.first.get_or_insert(at);
        if at < self.last {
            self.backwards += 1;
        }
        // A time that runs backwards counts as the one before.
        let at = at.max(self.last).max(first);
        if self.requests > 0 && at.since(self.last) > self.longest_gap.0 {
            self.longest_gap = (at.since(self.last), self.last);
        }
        self.last = at;
        self.requests += 1;
        let index = request.device as usize;
        if index >= DEVICES_MAX {
            return Err(Error::Mismatch(format!(
                "line {}: device {index} is too many: a trace has at most {DEVICES_MAX}",
                request.line
            )));
        }
        if request.blocks.count.0 >> self.region_shift > REGIONS_MAX as u64 / 4 {
            let (line, size) = (request.line, request.blocks.bytes());
            return Err(Error::Mismatch(format!(
                "line {line}: a request of {size} is longer than any object"
            )));
        }
        if self.devices.len() <= index {
            self.devices.resize_with(index + 1, Device::default);
        }
        let since_first = at.since(first).0;
        for scale in &mut self.scales {
            scale.add(request.device, since_first);
        }
        let shift = self.region_shift;
        if let Some(device) = self.devices.get_mut(index) {
            self.regions += device.add(request, shift);
        }
        if self.regions > REGIONS_MAX {
            self.coarsen();
        }
        Ok(())
    }

    /// Doubles the length of regions.
    fn coarsen(&mut self) {
        self.region_shift += 1;
        self.regions = 0;
        for device in &mut self.devices {
            let finer = std::mem::take(&mut device.regions);
            for (region, count) in finer {
                *device.regions.entry(region >> 1).or_default() += count;
            }
            self.regions += device.regions.len();
        }
    }

    /// What the trace is like. `name` gives each device's object its name.
    #[must_use]
    pub fn finish(mut self, name: impl Fn(u32) -> String) -> Characterised {
        // The last interval is not whole.
        let dispersions = self.scales.get(SECOND).map(Scale::dispersions).unwrap_or_default();
        for scale in &mut self.scales {
            scale.end_interval();
        }
        let first = self.first.unwrap_or(Instant::ZERO);
        let span = self.last.since(first);
        let span_s = (span.0 as f64 / 1e9).max(1e-9);
        let mut streams = Vec::new();
        for (index, device) in (0u32..).zip(&self.devices) {
            if device.reads + device.writes > 0 {
                let dispersion = dispersions.get(index as usize).copied().unwrap_or(0.0);
                let stream = self.characteristics(index, device, span_s, &name);
                streams.push(Characteristics { dispersion, ..stream });
            }
        }
        let mut overlaps: Vec<Overlap> = self
            .scales
            .iter()
            .flat_map(|scale| scale.overlaps(span.0 / scale.length_ns.max(1) + 1, &name))
            .collect();
        overlaps.sort_by(|one, other| other.correlation.abs().total_cmp(&one.correlation.abs()));
        Characterised {
            requests: self.requests,
            span_s: span.0 as f64 / 1e9,
            backwards: self.backwards,
            longest_gap_s: self.longest_gap.0.0 as f64 / 1e9,
            longest_gap_at_s: self.longest_gap.1.since(first).0 as f64 / 1e9,
            streams,
            overlaps,
        }
    }

    fn characteristics(
        &self,
        index: u32,
        device: &Device,
        span_s: f64,
        name: &impl Fn(u32) -> String,
    ) -> Characteristics {
        let requests = device.reads + device.writes;
        let intervals =
            |scale: &Scale| scale.devices.get(index as usize).copied().unwrap_or_default();
        let is_dense = |scale: &&Scale| {
            requests as f64 / intervals(scale).on.max(1) as f64 >= REQUESTS_WHILE_ON
        };
        let mut periods = None;
        if let Some(scale) = self.scales.iter().find(is_dense) {
            let Intervals { on, periods: count, last_on, first_on, .. } = intervals(scale);
            let all = last_on.map_or(0, |last| last - first_on + 1);
            if count > 1 && (on as f64) < ALWAYS_ON * all as f64 {
                let length_ms = scale.length_ns as f64 / 1e6;
                let off = (all - on) as f64 / (count - 1) as f64;
                let on = on as f64 / count as f64;
                periods = Some((scale.length_ns as f64 / 1e9, on * length_ms, off * length_ms));
            }
        }
        let mut counts: Vec<u32> = device.regions.values().copied().collect();
        counts.sort_unstable_by(|one, other| other.cmp(one));
        let hot: u64 =
            counts.iter().take(counts.len().div_ceil(5)).map(|count| u64::from(*count)).sum();
        let all: u64 = counts.iter().map(|count| u64::from(*count)).sum();
        Characteristics {
            object: name(index),
            device: index,
            requests,
            read_iops: device.reads as f64 / span_s,
            write_iops: device.writes as f64 / span_s,
            mean_bytes: device.blocks as f64 * 512.0 / requests as f64,
            fixed_size: device.lengths.is_some_and(|(least, most)| least == most),
            align_bytes: device.align_bytes(),
            mean_run: requests as f64 / device.runs.max(1) as f64,
            on_scale_s: periods.map(|periods| periods.0),
            on_ms: periods.map(|periods| periods.1),
            off_ms: periods.map(|periods| periods.2),
            dispersion: 0.0,
            working_set_bytes: (device.regions.len() as u64) << (self.region_shift + 9),
            end_bytes: device.end * 512,
            hot_fifth: hot as f64 / all.max(1) as f64,
            accesses_a_region: all as f64 / counts.len().max(1) as f64,
        }
    }
}

impl Device {
    /// What the first blocks of runs have in common; a block where there are too few of them to tell.
    fn align_bytes(&self) -> u64 {
        let shift = if self.runs < RUNS_MIN { 0 } else { self.run_bits.trailing_zeros() };
        512 << shift.min(ALIGN_SHIFT_MAX)
    }

    /// Takes in a request; gives how many regions are new.
    fn add(&mut self, request: &TraceRequest, region_shift: u32) -> usize {
        match request.op {
            Op::Read => self.reads += 1,
            Op::Write => self.writes += 1,
        }
        let blocks = request.blocks;
        self.blocks += blocks.count.0;
        let (least, most) = self.lengths.unwrap_or((blocks.count.0, blocks.count.0));
        self.lengths = Some((least.min(blocks.count.0), most.max(blocks.count.0)));
        if self.next != Some(blocks.first) {
            self.runs += 1;
            self.run_bits |= blocks.first.0;
        }
        self.next = Some(blocks.end());
        self.end = self.end.max(blocks.end().0);
        let before = self.regions.len();
        let last = blocks.end().0.saturating_sub(1) >> region_shift;
        for region in blocks.first.0 >> region_shift..=last {
            let count = self.regions.entry(region).or_default();
            *count = count.saturating_add(1);
        }
        self.regions.len() - before
    }
}

impl Characterised {
    /// A workload with the same rates, sizes, runs, periods and skew.
    ///
    /// Streams that are on together much more, or much less, than by chance, and for as long, follow
    /// each other.
    #[must_use]
    pub fn workload(&self) -> Workload {
        let mut streams: Vec<Stream> = self.streams.iter().map(Characteristics::stream).collect();
        for overlap in &self.overlaps {
            if overlap.correlation.abs() < 0.5 {
                break;
            }
            let of = |name: &str| streams.iter().position(|stream| stream.object == name);
            let (Some(leader), Some(follower)) = (of(&overlap.one), of(&overlap.other)) else {
                continue;
            };
            let share =
                |index: usize| match streams.get(index).map(|stream| (stream.on_ms, stream.off_ms))
                {
                    Some((Some(on), Some(off))) => on / (on + off),
                    _ => 1.0,
                };
            let is_alike = (0.8..=1.25).contains(&(share(leader) / share(follower)));
            let has_role = |stream: &Stream| {
                stream.follows.is_some()
                    || streams.iter().any(|other| other.follows.as_ref() == Some(&stream.object))
            };
            let is_free = [leader, follower]
                .iter()
                .filter_map(|index| streams.get(*index))
                .all(|stream| stream.on_ms.is_some() && !has_role(stream));
            let leader = streams.get(leader).map(|stream| stream.object.clone());
            if is_alike
                && is_free
                && let (Some(leader), Some(stream)) = (leader, streams.get_mut(follower))
            {
                (stream.on_ms, stream.off_ms) = (None, None);
                (stream.follows, stream.overlap) = (Some(leader), Some(overlap.share.min(1.0)));
            }
        }
        Workload { streams }
    }
}

impl Characteristics {
    /// What [`Characteristics::hot_fifth`] is where all regions are accessed alike, at random: numbers
    /// of accesses are Poisson then, and a fifth of a normal distribution is above 0.84 deviations,
    /// 1.4 on average.
    fn hot_fifth_by_chance(&self) -> f64 {
        (0.2 * (1.0 + 1.4 / self.accesses_a_region.max(1.0).sqrt())).min(1.0)
    }

    fn stream(&self) -> Stream {
        let on_share = match (self.on_ms, self.off_ms) {
            (Some(on), Some(off)) => on / (on + off),
            _ => 1.0,
        };
        let iops = self.read_iops + self.write_iops;
        let bytes = ((self.mean_bytes / 512.0).round().max(1.0) * 512.0) as u64;
        let mut stream = Stream::open(&self.object, (iops / on_share).max(1e-6), ByteCount(bytes));
        stream.reads = self.read_iops / iops.max(1e-12);
        if self.fixed_size {
            stream.sizes = SizeDistribution::Fixed;
        }
        if self.align_bytes > 512 {
            stream.align = Some(self.align_bytes.to_string());
        }
        stream.sequential = 1.0 - 1.0 / self.mean_run.max(1.0);
        stream.working_set = Some(self.working_set_bytes.max(bytes).to_string());
        if self.hot_fifth > self.hot_fifth_by_chance() + 0.1 {
            stream.hot = Some(Hot { accesses: self.hot_fifth, space: 0.2 });
        }
        (stream.on_ms, stream.off_ms) = (self.on_ms, self.off_ms);
        stream
    }
}

#[cfg(test)]
mod tests {
    use moirai_units::BlockCount;

    use super::*;
    use crate::generate::{Generator, Source};

    /// Characterises what a generator makes of `streams`.
    fn characterised(streams: Vec<Stream>, requests: usize) -> Characterised {
        let workload = Workload { streams };
        workload.check().unwrap();
        let objects: Vec<(String, BlockCount)> = workload
            .streams
            .iter()
            .map(|stream| (stream.object.clone(), BlockCount(1 << 24)))
            .collect();
        let mut generator = Generator::new(&workload, &objects, 5);
        let mut characteriser = Characteriser::new();
        for _ in 0..requests {
            let request = generator.take().unwrap();
            let at = Arrival::At(request.at);
            let request = TraceRequest::new(at, request.object, request.op, request.blocks);
            characteriser.add(&request).unwrap();
        }
        characteriser.finish(|device| format!("object{device}"))
    }

    #[test]
    fn a_generated_stream_is_recognised() {
        let mut one = Stream::open("object0", 100.0, ByteCount(16 << 10));
        (one.reads, one.sequential) = (0.25, 0.75);
        (one.on_ms, one.off_ms) = (Some(5_000.0), Some(5_000.0));
        one.hot = Some(Hot { accesses: 0.9, space: 0.05 });
        let mut other = Stream::open("object1", 100.0, ByteCount(16 << 10));
        (other.follows, other.overlap) = (Some("object0".into()), Some(0.0));
        let found = characterised(vec![one, other], 100_000);
        let first = &found.streams[0];
        let iops = first.read_iops + first.write_iops;
        assert!((iops - 50.0).abs() < 3.0, "{first:?}");
        assert!((first.read_iops / iops - 0.25).abs() < 0.02, "{first:?}");
        assert!((first.mean_bytes / 16384.0 - 1.0).abs() < 0.03, "{first:?}");
        assert!((first.mean_run - 4.0).abs() < 0.2, "{first:?}");
        let (on, off) = (first.on_ms.unwrap(), first.off_ms.unwrap());
        assert!((on / (on + off) - 0.5).abs() < 0.1, "{first:?}");
        // Anti-correlated, as made.
        let pair = &found.overlaps[0];
        assert!(pair.correlation < -0.7, "{:?}", found.overlaps);
        let workload = found.workload();
        workload.check().unwrap();
        assert_eq!(workload.streams[1].follows.as_deref(), Some("object0"), "{workload:?}");
    }

    #[test]
    fn sizes_and_alignment_are_those_of_the_stream() {
        let mut one = Stream::open("object0", 100.0, ByteCount(24 << 10));
        (one.sizes, one.align) = (SizeDistribution::Fixed, Some("64KiB".into()));
        one.sequential = 0.5;
        let other = Stream::open("object1", 100.0, ByteCount(24 << 10));
        let found = characterised(vec![one, other], 2_000).workload();
        let [one, other] = found.streams.as_slice() else { panic!("{found:?}") };
        assert_eq!((one.sizes, one.alignment()), (SizeDistribution::Fixed, BlockCount(128)));
        assert_eq!(
            (other.sizes, other.alignment()),
            (SizeDistribution::Exponential, BlockCount(1))
        );
    }

    #[test]
    fn each_pair_of_devices_has_its_own_correlation() {
        // In each second some of five devices are on, which appear in no order: a number's bits say which.
        let mut random = moirai_runtime::seeded(1, "pairs");
        let mut characteriser = Characteriser::new();
        let seconds = 4_000_u64;
        let mut on = Vec::new();
        for second in 0..seconds {
            let mut devices: u32 = rand::Rng::random_range(&mut random, 0..32);
            // Device 3 is on with device 1, and device 4 in turn with device 0.
            devices = devices & 0b00111 | (devices >> 1 & 1) << 3 | (!devices & 1) << 4;
            on.push(devices);
            for device in [4, 1, 3, 0, 2].into_iter().filter(|device| devices >> device & 1 == 1) {
                for request in 0..6 {
                    let at = Instant { ns: second * 1_000_000_000 + request * 100_000_000 };
                    let blocks = moirai_units::BlockRange::new(Lbn(0), BlockCount(8));
                    let request = TraceRequest::new(Arrival::At(at), device, Op::Read, blocks);
                    characteriser.add(&request).unwrap();
                }
            }
        }
        let found = characteriser.finish(|device| device.to_string());
        let of_a_second = found.overlaps.iter().filter(|overlap| overlap.scale_s == 1.0);
        let mut told: Vec<(u32, u32, f64, f64)> = of_a_second
            .map(|overlap| {
                let [one, other] = [&overlap.one, &overlap.other].map(|name| name.parse().unwrap());
                (one, other, overlap.correlation, overlap.share)
            })
            .collect();
        told.sort_by_key(|pair| (pair.0, pair.1));
        // By counting.
        let both = |one: u32, other: u32| {
            let count = |mask: u32| on.iter().filter(|devices| **devices & mask == mask).count();
            count(1 << one | 1 << other) as f64 / count(1 << one) as f64
        };
        let pairs: Vec<(u32, u32)> = told.iter().map(|pair| (pair.0, pair.1)).collect();
        assert_eq!(pairs, [(0, 4), (1, 3)], "{told:?}");
        for (one, other, correlation, share) in told {
            assert!((correlation.abs() - 1.0).abs() < 0.01, "{one} {other}: {correlation}");
            assert!((share - both(one, other)).abs() < 0.01, "{one} {other}: {share}");
        }
    }

    #[test]
    fn a_poisson_stream_is_always_on_and_not_bursty() {
        let found = characterised(vec![Stream::open("object0", 200.0, ByteCount(4096))], 50_000);
        let stream = &found.streams[0];
        assert_eq!(stream.on_ms, None, "{stream:?}");
        assert!((stream.dispersion - 1.0).abs() < 0.3, "{stream:?}");
        assert!(found.workload().streams[0].hot.is_none(), "{stream:?}");
    }

    #[test]
    fn gaps_and_times_that_run_backwards_are_told() {
        let mut characteriser = Characteriser::new();
        for ns in [0, 10, 5, 2_000_000_000, 2_000_000_100] {
            let at = Arrival::At(Instant { ns });
            let blocks = moirai_units::BlockRange::new(Lbn(0), BlockCount(8));
            characteriser.add(&TraceRequest::new(at, 0, Op::Read, blocks)).unwrap();
        }
        let found = characteriser.finish(|_| "a".into());
        assert_eq!((found.backwards, found.requests), (1, 5));
        assert!((found.longest_gap_s - 2.0).abs() < 1e-6);
        let after = TraceRequest::new(
            Arrival::After(Nanos(1)),
            0,
            Op::Read,
            moirai_units::BlockRange::new(Lbn(0), BlockCount(8)),
        );
        assert!(Characteriser::new().add(&after).unwrap_err().to_string().contains("delays"));
    }
}
