//! Workloads: how each object is accessed. A TOML file, written by hand or by `moirai plan
//! characterise`.

use std::collections::BTreeSet;
use std::path::Path;

use moirai_units::{BLOCK_BYTES, BlockCount, ByteCount, Nanos};
use serde::{Deserialize, Serialize};

use crate::error::Result;
use crate::file;

/// The request streams of a workload, one for each object.
///
/// ```toml
/// [[stream]]
/// object = "orders"
/// iops = 120.0            # while it is on
/// reads = 0.67            # the share of requests that read
/// size = "8KiB"           # on average
///
/// [[stream]]
/// object = "reports"
/// concurrency = 4         # instead of iops: so many requests always in flight
/// size = "1MiB"
/// ```
#[derive(Clone, Debug, PartialEq, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Workload {
    /// The streams.
    #[serde(rename = "stream")]
    pub streams: Vec<Stream>,
}

/// The requests to one object (placement paper 3.1).
#[derive(Clone, Debug, PartialEq, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Stream {
    /// The object's name.
    pub object: String,
    /// Requests a second while the stream is on, as a Poisson process.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub iops: Option<f64>,
    /// Requests that are always in flight: a closed loop.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub concurrency: Option<u32>,
    /// The share of requests that read, 0 to 1.
    #[serde(default = "one")]
    pub reads: f64,
    /// The mean size of a request.
    pub size: String,
    /// How sizes are distributed.
    #[serde(default)]
    pub sizes: SizeDistribution,
    /// What requests at random places are aligned to; a block without it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub align: Option<String>,
    /// The share of requests that begin where the one before ended, 0 to 1.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub sequential: f64,
    /// The part of the object that is accessed; all of it without.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub working_set: Option<String>,
    /// A part that has more accesses than its size.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hot: Option<Hot>,
    /// The mean length of on periods; always on without it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub on_ms: Option<f64>,
    /// The mean length of off periods.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub off_ms: Option<f64>,
    /// The object whose stream this one is on together with, or in turn with.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub follows: Option<String>,
    /// The share of the on periods of `follows` during which this stream is on, too, 0 to 1.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub overlap: Option<f64>,
}

/// How the sizes of requests are distributed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum SizeDistribution {
    /// Exponential, in whole blocks.
    #[default]
    Exponential,
    /// All alike.
    Fixed,
}

/// A hot part of an object.
#[derive(Clone, Copy, Debug, PartialEq, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Hot {
    /// The share of the accesses at random places that go there, 0 to 1.
    pub accesses: f64,
    /// Its share of the working set, above 0 and at most 1.
    pub space: f64,
}

/// When the requests of a stream come.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Arrivals {
    /// As a Poisson process with this mean time between requests while the stream is on.
    Poisson(Nanos),
    /// As soon as one before is done, so many in flight.
    Closed(u32),
}

/// Bounds of what a stream may be: from a request a month to more than any system serves.
const IOPS: (f64, f64) = (1e-6, 1e8);
const CONCURRENCY_MAX: u32 = 100_000;
/// Requests in an on period, at the least and on average.
const REQUESTS_WHILE_ON_MIN: f64 = 1e-4;
/// From a microsecond to a year.
const PERIODS_MS: (f64, f64) = (1e-3, 3.2e10);

fn one() -> f64 {
    1.0
}

fn is_zero(value: &f64) -> bool {
    *value == 0.0
}

impl Workload {
    /// Reads and checks the workload in the file at `path`.
    ///
    /// # Errors
    /// When the file cannot be read, or a stream is not possible.
    pub fn read(path: &Path) -> Result<Workload> {
        let workload: Workload = file::read(path, "reading the workload")?;
        workload.check().map_err(|problem| file::invalid(path, problem))?;
        Ok(workload)
    }

    /// Parses the text of a workload; `path` is what messages call it.
    ///
    /// # Errors
    /// As [`Workload::read`].
    pub fn parse(text: &str, path: &Path) -> Result<Workload> {
        let workload: Workload = file::parse(text, path)?;
        workload.check().map_err(|problem| file::invalid(path, problem))?;
        Ok(workload)
    }

    /// The workload as TOML, for the file at `path`.
    ///
    /// # Errors
    /// When a value cannot be written.
    pub fn text(&self, path: &Path) -> Result<String> {
        file::text(self, path)
    }

    /// The stream to `object`.
    #[must_use]
    pub fn stream(&self, object: &str) -> Option<&Stream> {
        self.streams.iter().find(|stream| stream.object == object)
    }

    /// Requests a second of `stream`, averaged over on and off periods; `None` for a closed loop.
    #[must_use]
    pub fn mean_iops(&self, stream: &Stream) -> Option<f64> {
        Some(stream.iops? * self.on_share(stream))
    }

    /// The stream whose periods `stream` has: itself, or the one that it follows.
    pub(crate) fn leader<'a>(&'a self, stream: &'a Stream) -> &'a Stream {
        stream.follows.as_ref().and_then(|leader| self.stream(leader)).unwrap_or(stream)
    }

    /// The share of the time that `stream` is on.
    #[must_use]
    pub fn on_share(&self, stream: &Stream) -> f64 {
        let leader = self.leader(stream);
        match (leader.on_ms, leader.off_ms) {
            (Some(on), Some(off)) if on + off > 0.0 => on / (on + off),
            _ => 1.0,
        }
    }

    /// What is wrong with the streams, if anything.
    pub fn check(&self) -> std::result::Result<(), String> {
        let mut names = BTreeSet::new();
        for stream in &self.streams {
            let name = &stream.object;
            if !names.insert(name) {
                return Err(format!(
                    "object `{name}` has two streams: write one [[stream]] for it"
                ));
            }
            stream.check().map_err(|problem| format!("stream of `{name}`: {problem}"))?;
        }
        for stream in &self.streams {
            if let (Some(on_ms), Some(iops)) = (self.leader(stream).on_ms, stream.iops)
                && on_ms / 1e3 * iops < REQUESTS_WHILE_ON_MIN
            {
                let name = &stream.object;
                return Err(format!(
                    "stream of `{name}`: `iops` and `on_ms` make less than one request in 10,000 on periods: give longer ones"
                ));
            }
            let Some(leader) = &stream.follows else { continue };
            let name = &stream.object;
            let Some(leader) = self.stream(leader) else {
                return Err(format!("stream of `{name}`: key `follows`: no stream of `{leader}`"));
            };
            let own = &leader.object;
            if leader.follows.is_some() || own == name {
                let problem = "must be a stream that follows none";
                return Err(format!("stream of `{name}`: key `follows`: `{own}` {problem}"));
            }
            if leader.on_ms.is_none() {
                let problem = "has no `on_ms` and is always on";
                return Err(format!("stream of `{name}`: key `follows`: `{own}` {problem}"));
            }
        }
        Ok(())
    }
}

impl Stream {
    /// A stream to `object` of requests of `size` on average, all reads, `iops` a second.
    #[must_use]
    pub fn open(object: impl Into<String>, iops: f64, size: ByteCount) -> Stream {
        Stream {
            object: object.into(),
            iops: Some(iops),
            concurrency: None,
            reads: 1.0,
            size: size.0.to_string(),
            sizes: SizeDistribution::default(),
            align: None,
            sequential: 0.0,
            working_set: None,
            hot: None,
            on_ms: None,
            off_ms: None,
            follows: None,
            overlap: None,
        }
    }

    /// A stream to `object` of requests of `size` on average, all reads, `concurrency` in flight.
    #[must_use]
    pub fn closed(object: impl Into<String>, concurrency: u32, size: ByteCount) -> Stream {
        let open = Stream::open(object, 1.0, size);
        Stream { iops: None, concurrency: Some(concurrency), ..open }
    }

    /// The mean size of a request, in bytes.
    #[must_use]
    pub fn mean_bytes(&self) -> ByteCount {
        self.size.parse().unwrap_or(ByteCount(BLOCK_BYTES))
    }

    /// When its requests come.
    #[must_use]
    pub fn arrivals(&self) -> Arrivals {
        match (self.concurrency, self.iops) {
            (Some(most), _) => Arrivals::Closed(most.max(1)),
            (None, iops) => Arrivals::Poisson(Nanos((1e9 / iops.unwrap_or(1.0)).max(1.0) as u64)),
        }
    }

    /// What requests at random places are aligned to.
    #[must_use]
    pub fn alignment(&self) -> BlockCount {
        let bytes = self.align.as_ref().and_then(|align| align.parse().ok());
        BlockCount::holding(bytes.unwrap_or(ByteCount(BLOCK_BYTES)))
    }

    /// The part of an object of `size` that is accessed.
    #[must_use]
    pub fn accessed(&self, size: BlockCount) -> BlockCount {
        let bytes = self.working_set.as_ref().and_then(|bytes| bytes.parse().ok());
        bytes.map_or(size, |bytes| BlockCount::holding(bytes).min(size)).max(BlockCount(1))
    }

    /// Multiplies the requests a second, or those in flight, by `times`.
    pub fn grow(&mut self, times: f64) {
        self.iops = self.iops.map(|iops| iops * times);
        let grown = |most: u32| (f64::from(most) * times).round().max(1.0) as u32;
        self.concurrency = self.concurrency.map(grown);
    }

    fn check(&self) -> std::result::Result<(), String> {
        let share = |key: &str, value: f64| match (0.0..=1.0).contains(&value) {
            true => Ok(()),
            false => Err(format!("key `{key}`: {value} is not a share from 0 to 1")),
        };
        let within = |key: &str, value: Option<f64>, (least, most): (f64, f64)| match value {
            Some(value) if !(least..=most).contains(&value) => {
                Err(format!("key `{key}`: {value} is not from {least} to {most}"))
            }
            _ => Ok(()),
        };
        let bytes = |key: &str, text: &str| match text.parse::<ByteCount>() {
            Ok(size) if size.0 >= BLOCK_BYTES => Ok(size),
            Ok(size) => Err(format!("key `{key}`: {size} is less than a block of {BLOCK_BYTES} B")),
            Err(problem) => Err(format!("key `{key}`: {problem}")),
        };
        match (self.iops, self.concurrency) {
            (Some(_), Some(_)) => {
                return Err("`iops` and `concurrency` contradict each other: give one".into());
            }
            (None, None) => {
                return Err("give `iops`, or `concurrency` for a closed loop".into());
            }
            (None, Some(most)) if !(1..=CONCURRENCY_MAX).contains(&most) => {
                return Err(format!(
                    "key `concurrency`: {most} is not from 1 to {CONCURRENCY_MAX}"
                ));
            }
            _ => {}
        }
        share("reads", self.reads)?;
        share("sequential", self.sequential)?;
        share("overlap", self.overlap.unwrap_or(0.0))?;
        within("iops", self.iops, IOPS)?;
        within("on_ms", self.on_ms, PERIODS_MS)?;
        within("off_ms", self.off_ms, PERIODS_MS)?;
        bytes("size", &self.size)?;
        if let Some(align) = &self.align {
            let align = bytes("align", align)?;
            if !align.0.is_multiple_of(BLOCK_BYTES) {
                return Err(format!("key `align`: {align} is not a multiple of {BLOCK_BYTES} B"));
            }
        }
        if let Some(set) = &self.working_set {
            bytes("working_set", set)?;
        }
        if let Some(Hot { accesses, space }) = self.hot {
            share("hot.accesses", accesses)?;
            share("hot.space", space)?;
            within("hot.space", Some(space), (1e-6, 1.0))?;
        }
        if self.on_ms.is_some() != self.off_ms.is_some() {
            return Err("`on_ms` and `off_ms` go together: give both or neither".into());
        }
        if self.follows.is_some() && self.on_ms.is_some() {
            return Err(
                "a stream that `follows` another has that one's periods: leave out `on_ms`".into(),
            );
        }
        if self.follows.is_none() && self.overlap.is_some() {
            return Err("key `overlap`: say with which stream: add `follows`".into());
        }
        let has_periods = self.on_ms.is_some() || self.follows.is_some();
        if self.concurrency.is_some() && has_periods {
            return Err(
                "a closed loop has no on periods: leave out `concurrency` or the periods".into()
            );
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn problem(stream: &str) -> String {
        let text = format!("[[stream]]\nobject = \"a\"\n{stream}\n");
        Workload::parse(&text, Path::new("w.toml")).unwrap_err().to_string()
    }

    #[test]
    fn a_stream_that_is_not_possible_names_the_key() {
        for (text, named) in [
            ("size = \"4KiB\"", "`iops`"),
            ("size = \"4KiB\"\niops = 1.0\nconcurrency = 2", "contradict"),
            ("size = \"4KiB\"\niops = -1.0", "`iops`"),
            ("size = \"4KiB\"\niops = 1.0\nreads = 1.5", "`reads`"),
            ("size = \"4 apples\"\niops = 1.0", "`size`"),
            ("size = \"4KiB\"\niops = 1.0\non_ms = 5.0", "`off_ms`"),
            ("size = \"4KiB\"\niops = 1.0\nfollows = \"b\"", "`follows`"),
            ("size = \"4KiB\"\niops = 1.0\noverlap = 0.5", "`overlap`"),
            ("size = \"4KiB\"\niops = 1.0\ncolour = \"red\"", "unknown field `colour`"),
            ("size = \"4KiB\"\niops = 1.0\non_ms = 0.001\noff_ms = 3.2e10", "`on_ms`"),
        ] {
            let problem = problem(text);
            assert!(problem.contains(named) && problem.starts_with("w.toml"), "{problem}");
        }
        let unknown = problem("size = \"4KiB\"\niops = 1.0\ncolour = \"red\"");
        assert!(unknown.contains("line 5"), "{unknown}");
    }

    #[test]
    fn a_workload_is_written_and_read_back() {
        let mut stream = Stream::open("a", 12.5, ByteCount(4096));
        stream.hot = Some(Hot { accesses: 0.8, space: 0.2 });
        let workload =
            Workload { streams: vec![stream, Stream::closed("b", 3, ByteCount(1 << 20))] };
        let path = Path::new("w.toml");
        assert_eq!(Workload::parse(&workload.text(path).unwrap(), path).unwrap(), workload);
    }
}
