//! What does not turn: throughput by size, depth and alignment.

use moirai::discovery::{Preferences, Throughput, Writes};
use moirai::units::BlockCount;
use serde::Serialize;

use crate::failure::Failure;
use crate::print;

#[derive(Serialize)]
pub(super) struct ShownThroughput {
    pub(super) ensemble_bytes: u64,
    is_alignment_worth: bool,
    rounds: usize,
    rounds_with_this_ensemble: usize,
    rounds_with_this_parallelism: usize,
    by_size: Vec<Measurement>,
    by_depth: Vec<Measurement>,
    by_alignment: Vec<Measurement>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) writes: Option<ShownWrites>,
}

#[derive(Serialize)]
struct Measurement {
    request_bytes: u64,
    depth: u32,
    aligned: bool,
    mb_per_s: f64,
    least_mb_per_s: f64,
    most_mb_per_s: f64,
    response_ms: f64,
    p99_response_ms: f64,
}

impl From<&Throughput> for Measurement {
    fn from(one: &Throughput) -> Measurement {
        Measurement {
            request_bytes: one.blocks.bytes().0,
            depth: one.depth,
            aligned: one.is_aligned,
            mb_per_s: one.bytes_per_s / 1e6,
            least_mb_per_s: one.range.0 / 1e6,
            most_mb_per_s: one.range.1 / 1e6,
            response_ms: one.response.as_ms(),
            p99_response_ms: one.response_p99.as_ms(),
        }
    }
}

#[derive(Serialize)]
pub(super) struct ShownWrites {
    by_size: Vec<Measurement>,
    by_depth: Vec<Measurement>,
    /// A write of 4 KiB and the flush behind it.
    flush_ms: f64,
    first_lbn: u64,
    blocks: u64,
}

impl From<&Writes> for ShownWrites {
    fn from(found: &Writes) -> ShownWrites {
        ShownWrites {
            by_size: found.by_size.iter().map(Measurement::from).collect(),
            by_depth: found.by_depth.iter().map(Measurement::from).collect(),
            flush_ms: found.flush.as_ms(),
            first_lbn: found.scratch.first.0,
            blocks: found.scratch.count.0,
        }
    }
}

impl From<&Preferences> for ShownThroughput {
    fn from(found: &Preferences) -> ShownThroughput {
        let all = |measured: &[Throughput]| measured.iter().map(Measurement::from).collect();
        let (of_ensemble, of_parallelism, rounds) = found.agreeing;
        ShownThroughput {
            ensemble_bytes: found.ensemble.bytes().0,
            is_alignment_worth: found.is_alignment_worth,
            rounds,
            rounds_with_this_ensemble: of_ensemble,
            rounds_with_this_parallelism: of_parallelism,
            by_size: all(&found.by_size),
            by_depth: all(&found.by_depth),
            by_alignment: all(&found.by_alignment),
            writes: None,
        }
    }
}

impl ShownThroughput {
    /// What it says of ensembles and parallelism.
    pub(super) fn facts(&self, parallelism: u32) -> [(&'static str, String); 2] {
        let rounds = self.rounds;
        let ensemble = BlockCount(self.ensemble_bytes / 512);
        let ensemble = format!(
            "{}, in {} of {rounds} rounds; its alignment {}",
            ensemble.bytes(),
            self.rounds_with_this_ensemble,
            if self.is_alignment_worth { "matters" } else { "does not matter" },
        );
        let parallelism =
            format!("{parallelism}, in {} of {rounds} rounds", self.rounds_with_this_parallelism);
        [("ensemble", ensemble), ("parallelism", parallelism)]
    }

    pub(super) fn print(&self) -> Result<(), Failure> {
        let row = |one: &Measurement| {
            vec![
                BlockCount(one.request_bytes / 512).bytes().to_string(),
                one.depth.to_string(),
                if one.aligned { "yes" } else { "no" }.to_owned(),
                format!("{:.1}", one.mb_per_s),
                format!("{:.1}", one.least_mb_per_s),
                format!("{:.1}", one.most_mb_per_s),
                format!("{:.3}", one.response_ms),
                format!("{:.3}", one.p99_response_ms),
            ]
        };
        let columns = |requests| {
            [
                (requests, true),
                ("at a time", true),
                ("aligned", false),
                ("MB/s", true),
                ("least", true),
                ("most", true),
                ("ms each", true),
                ("99th", true),
            ]
        };
        print::line(
            "\nReads all over the device: throughput as the median, the least and the most of the rounds, and the \
             response time, median and 99th percentile:",
        )?;
        let all = self.by_size.iter().chain(&self.by_depth).chain(&self.by_alignment);
        print::table(&columns("reads of"), all.map(row).collect())?;
        let Some(writes) = &self.writes else { return Ok(()) };
        print::line(format!(
            "\nWrites of what {} at its end hold; a write of 4 KiB with a flush takes {:.3} ms:",
            BlockCount(writes.blocks).bytes(),
            writes.flush_ms
        ))?;
        print::table(
            &columns("writes of"),
            writes.by_size.iter().chain(&writes.by_depth).map(row).collect(),
        )
    }
}
