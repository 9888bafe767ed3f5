//! The traces of placement table 2, where a user has them: the streams that the paper keeps of them, and their requests.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::BufReader;
use std::path::Path;

use moirai::storage::Op;
use moirai::units::{BlockCount, Instant, Nanos};
use moirai_policy::{TracedRequest, choose};
use moirai_replay::trace::{Arrival, Format, TraceReader};

use crate::Failure;

/// The buffer that a trace is read with.
const BUFFER_BYTES: usize = 1 << 20;

/// A trace of table 2.
pub(super) struct Trace {
    pub(super) name: &'static str,
    /// What its file is called where it was published.
    pub(super) file: &'static str,
    /// Reads and writes a second.
    pub(super) reads: f64,
    pub(super) writes: f64,
    pub(super) mean_bytes: u64,
    /// The streams that the paper keeps.
    pub(super) kept: usize,
    /// Whether it is of a web search, of which the paper keeps the streams that are active.
    pub(super) is_search: bool,
}

pub(super) const TRACES: [Trace; 5] = [
    oltp("OLTP 1", "Financial1.spc", (28.27, 93.79), 3466, 22),
    oltp("OLTP 2", "Financial2.spc", (74.31, 15.93), 2449, 17),
    search("Web Search 1", "WebSearch1.spc", (334.91, 0.07), 15_509),
    search("Web Search 2", "WebSearch2.spc", (297.48, 0.06), 15_432),
    search("Web Search 3", "WebSearch3.spc", (188.01, 0.06), 15_772),
];

const fn oltp(
    name: &'static str,
    file: &'static str,
    (reads, writes): (f64, f64),
    mean_bytes: u64,
    kept: usize,
) -> Trace {
    Trace { name, file, reads, writes, mean_bytes, kept, is_search: false }
}

const fn search(
    name: &'static str,
    file: &'static str,
    (reads, writes): (f64, f64),
    mean_bytes: u64,
) -> Trace {
    Trace { name, file, reads, writes, mean_bytes, kept: 3, is_search: true }
}

/// Streams of the traces, and their requests in the time that all traces have.
pub(super) struct TracedStreams {
    pub(super) streams: Vec<TracedStream>,
    /// To the streams by their numbers, trace by trace.
    pub(super) requests: Vec<TracedRequest>,
    pub(super) span: Nanos,
}

/// All requests of a trace to one of its volumes.
#[derive(Clone, Debug)]
pub(super) struct TracedStream {
    /// Which of the traces.
    pub(super) trace: usize,
    pub(super) name: String,
    pub(super) reads: u64,
    pub(super) writes: u64,
    /// Up to the end of its last request.
    pub(super) size: BlockCount,
}

impl TracedStream {
    /// Its load as the paper counts it: accesses in all.
    pub(super) fn load(&self) -> f64 {
        self.reads as f64 + choose::WRITE_WEIGHT * self.writes as f64
    }

    fn requests(&self) -> u64 {
        self.reads + self.writes
    }
}

/// Reads the traces in `folder`, each under the name that it was published with, in the format of the Storage Performance Council.
/// Of the time that all of them have, `scale` is taken.
pub(super) fn read(folder: &Path, scale: f64) -> Result<TracedStreams, Failure> {
    let mut traces = Vec::new();
    let mut span = Nanos(u64::MAX);
    // Those of the web searches first, which are the shorter ones: of the others no more is read than the shortest has.
    for (trace, Trace { file, .. }) in TRACES.iter().enumerate().rev() {
        let (requests, length) = requests(&folder.join(file), span)?;
        traces.push((trace, requests));
        span = span.min(length);
    }
    span = Nanos((span.0 as f64 * scale) as u64);
    let mut all = TracedStreams { streams: Vec::new(), requests: Vec::new(), span };
    for (trace, mut requests) in traces.into_iter().rev() {
        requests.retain(|request| request.at.ns <= span.0);
        all.add(trace, requests);
    }
    Ok(all)
}

impl TracedStreams {
    /// Adds the streams of a trace that the paper keeps: of the web searches those that are active, of the OLTP traces those that
    /// are not bound by capacity, which are the largest.
    fn add(&mut self, trace: usize, requests: Vec<TracedRequest>) {
        let Some(Trace { name, kept, is_search, .. }) = TRACES.get(trace) else { return };
        let mut volumes: BTreeMap<u32, TracedStream> = BTreeMap::new();
        for TracedRequest { object, op, blocks, .. } in &requests {
            let volume = volumes.entry(*object).or_insert_with(|| TracedStream {
                trace,
                name: format!("{name}, volume {object}"),
                reads: 0,
                writes: 0,
                size: BlockCount::ZERO,
            });
            match op {
                Op::Read => volume.reads += 1,
                Op::Write => volume.writes += 1,
            }
            volume.size = volume.size.max(BlockCount(blocks.end().0));
        }
        let mut order: Vec<(u32, TracedStream)> = volumes.into_iter().collect();
        order.sort_by_key(|(_, volume)| match is_search {
            true => u64::MAX - volume.requests(),
            false => volume.size.0,
        });
        order.truncate(*kept);
        let mut numbers = BTreeMap::new();
        for (volume, stream) in order {
            numbers.insert(volume, self.streams.len() as u32);
            self.streams.push(stream);
        }
        self.requests.extend(requests.into_iter().filter_map(|request| {
            let object = *numbers.get(&request.object)?;
            Some(TracedRequest { object, ..request })
        }));
    }

    /// The requests before the first stream ends, where the gaps of each are multiplied by its scale: later the load would be another
    /// one.
    pub(super) fn requests_until_one_ends(&self, scales: &[f64]) -> Vec<TracedRequest> {
        let shortest = scales.iter().copied().fold(1.0, f64::min);
        let end_ns = self.span.0 as f64 * shortest;
        let scale = |request: &TracedRequest| scales.get(request.object as usize).unwrap_or(&1.0);
        let is_before = |request: &&TracedRequest| request.at.ns as f64 * scale(request) <= end_ns;
        self.requests.iter().filter(is_before).copied().collect()
    }

    /// Reads and writes a second of a trace, as far as its streams are kept.
    pub(super) fn rates(&self, trace: usize) -> (f64, f64) {
        let of = |count: &dyn Fn(&TracedStream) -> u64| {
            let streams = self.streams.iter().filter(|stream| stream.trace == trace);
            streams.map(count).sum::<u64>() as f64 / self.span.as_s().max(1e-9)
        };
        (of(&|stream| stream.reads), of(&|stream| stream.writes))
    }
}

/// The requests of a trace within `longest` of its first one, and how long it is as far as it was read.
fn requests(path: &Path, longest: Nanos) -> Result<(Vec<TracedRequest>, Nanos), Failure> {
    let file = File::open(path).map_err(|problem| {
        Failure::Setting(format!(
            "the trace {} cannot be read: {problem}; the folder needs {}",
            path.display(),
            TRACES.map(|trace| trace.file).join(", ")
        ))
    })?;
    let name = path.display().to_string();
    let reader =
        TraceReader::new(name.clone(), BufReader::with_capacity(BUFFER_BYTES, file), Format::Spc);
    let mut requests = Vec::new();
    let (mut first, mut length) = (None, Nanos::ZERO);
    for traced in reader {
        let traced = traced.map_err(|problem| Failure::Setting(problem.to_string()))?;
        let Arrival::At(at) = traced.at else { continue };
        let since = at.since(*first.get_or_insert(at));
        length = length.max(since);
        if since > longest {
            break;
        }
        let at = Instant { ns: since.0 };
        let object = traced.device;
        requests.push(TracedRequest { at, object, op: traced.op, blocks: traced.blocks });
    }
    match requests.is_empty() {
        true => Err(Failure::Setting(format!("{name}: the trace has no request"))),
        false => Ok((requests, length)),
    }
}

#[cfg(test)]
mod tests {
    use std::fmt::Write as _;
    use std::path::PathBuf;

    use super::super::skew::EXPERIMENT;
    use super::*;
    use crate::Context;

    /// Traces of 100 s with a few more volumes than are kept; the last one of each is the largest and the least active.
    fn folder() -> tempfile::TempDir {
        let folder = tempfile::tempdir().unwrap();
        for (index, trace) in TRACES.iter().enumerate() {
            let volumes = trace.kept as u64 + 1;
            let mut text = String::new();
            for number in 0..4000_u64 {
                let rare = number % 200 == 0;
                let volume = if rare { volumes - 1 } else { number % (volumes - 1) };
                let block =
                    number.wrapping_mul(2_654_435_761) % (1 << 20) + (u64::from(rare) << 21);
                let op = if number % 4 == 0 { "w" } else { "r" };
                // No two traces at the same times.
                let at = (number as f64 + index as f64 / 5.0) / 40.0;
                writeln!(text, "{volume},{block},4096,{op},{at:.6}").unwrap();
            }
            std::fs::write(folder.path().join(trace.file), text).unwrap();
        }
        folder
    }

    #[test]
    fn the_streams_of_the_paper_are_kept() {
        let folder = folder();
        let found = read(folder.path(), 1.0).unwrap();
        assert_eq!(found.streams.len(), 48);
        assert_eq!(found.span, Nanos(99_975_000_000));
        assert!(found.streams.iter().all(|stream| stream.size.0 <= (1 << 20) + 8));
        let kept: u64 = found.streams.iter().map(TracedStream::requests).sum();
        assert_eq!((kept, found.requests.len()), (5 * 3980, 5 * 3980));
        let (reads, writes) = found.rates(2);
        assert!((reads + writes - 3980.0 / 99.975).abs() < 1e-9, "{reads} {writes}");
        let half = read(folder.path(), 0.5).unwrap();
        assert_eq!(half.requests.len(), 5 * 1990);
    }

    #[test]
    fn the_experiment_takes_the_traces_of_a_folder() {
        let folder = folder();
        let context = Context::new(1).with_traces(folder.path());
        let rows = EXPERIMENT.outcome(&context).unwrap().rows;
        let row = |figure: &str| rows.iter().find(|row| row.figure.contains(figure)).unwrap();
        // Three of four requests read, and all of the volume that is left out write.
        assert!((row("Web Search 1, reads").ours - 3000.0 / 99.975).abs() < 1e-9, "{rows:?}");
        assert!(row("figure 12, all streams, mean").ours > 0.0, "{rows:?}");
        // Gaps of half of the streams are shorter there, so all disks together work more.
        let busy = |figure: &str| row(&format!("figure {figure}c, utilisation, narrow")).ours;
        assert!(busy("13") > busy("12"), "{rows:?}");
    }

    #[test]
    fn a_trace_that_is_missing_is_named() {
        let folder = folder();
        std::fs::remove_file(folder.path().join("WebSearch2.spc")).unwrap();
        let missing = |folder: PathBuf| {
            let context = Context::new(1).with_traces(&folder);
            EXPERIMENT.outcome(&context).unwrap_err().to_string()
        };
        assert!(missing(folder.path().to_owned()).contains("WebSearch2.spc cannot be read"));
    }
}
