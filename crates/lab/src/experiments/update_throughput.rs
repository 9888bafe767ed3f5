//! Random updates of an index with the update engine and with a plain tree: figure 2 of the BOSC paper.

use moirai::runtime::block_on_virtual;
use moirai::units::ByteCount;

use super::bosc::{DEPARTURES, Setting, on_the_engine, plain};
use crate::{Experiment, Failure, Row};

pub(super) const EXPERIMENT: Experiment = Experiment {
    name: "update-throughput",
    source: "BOSC figure 2 and section 6.2",
    summary: "random updates of records of 64 B in an index of 16 GB: log, queues and sweeps, and a plain tree",
    assumptions: &[
        "Drives: five ibm-deskstar-dtla-307030 with their caches; four hold leaves of 64 KB, in stripes of as much, \
         and one the log. The plain tree has five for leaves.",
        "The paper does not say how many requests are under way at a time: 1,024 here, of either tree; drives serve them \
         shortest positioning time first.",
        "Processors take no time. The paper's took 140 us for an insert (6.3), 7,100 requests/s of one, and lays its limit to \
         the disks (6.2). Its curve is flat from 1 GB on, and ours is not.",
        "Leaves hold the records of the run alone; the others, whose contents do not matter, are not there (6.1). \
         Inserts and updates are the same then.",
        "Measured is the second sweep over all leaves, which begins with memory in use as it stays; the paper measures its \
         first (6.3).",
        "The plain tree writes no log; its cache is full of changed leaves, and has what is asked for as often as its share of \
         the index is.",
        DEPARTURES,
    ],
    run,
};

const MEMORIES_MIB: [u64; 6] = [256, 512, 768, 1024, 1280, 1536];
/// Where the paper gives figures, and what they are.
const PUBLISHED_MIB: u64 = 1024;
const PUBLISHED_PER_S: f64 = 6410.0;
const PUBLISHED_PLAIN_PER_S: f64 = 311.0;
/// What counts: so many times the plain tree.
const TIMES_MIN: f64 = 20.0;
const PLAIN_REQUESTS: u64 = 20_000;
/// What the paper's processor did at the most, by the time that an insert took it (6.3).
const PROCESSOR_PER_S: f64 = 1e6 / 140.0;

fn run(seed: u64) -> Result<Vec<Row>, Failure> {
    let mut rows = Vec::new();
    for mib in MEMORIES_MIB {
        let setting = Setting { memory: ByteCount::mib(mib), ..Setting::of_the_paper()? };
        rows.extend(rows_of(seed, setting, mib == PUBLISHED_MIB)?);
    }
    Ok(rows)
}

fn rows_of(seed: u64, setting: Setting, is_published: bool) -> Result<Vec<Row>, Failure> {
    let ours = block_on_virtual(seed, on_the_engine(setting))?;
    let plain = block_on_virtual(seed, plain(setting, PLAIN_REQUESTS))?;
    let name = |what: &str| format!("{} of memory, {what}", setting.memory);
    let mut times =
        Row::new(name("times the plain tree"), "", ours.requests_per_s / plain.requests_per_s);
    let mut sweeps = Row::new(name("log and sweeps"), "requests/s", ours.requests_per_s);
    let mut tree = Row::new(name("plain tree"), "requests/s", plain.requests_per_s);
    if is_published {
        times = times.beside(PUBLISHED_PER_S / PUBLISHED_PLAIN_PER_S);
        times.within = Some(times.ours >= TIMES_MIN);
        (sweeps, tree) = (sweeps.beside(PUBLISHED_PER_S), tree.beside(PUBLISHED_PLAIN_PER_S));
    }
    let with_processor = ours.requests_per_s.min(PROCESSOR_PER_S) / plain.requests_per_s;
    let with_processor =
        Row::new(name("times, were each request 140 us of one processor"), "", with_processor);
    let wait = Row::new(name("until acknowledged"), "ms", ours.wait_ms);
    Ok(vec![sweeps, tree, times, with_processor, wait])
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A sixty-fourth of the paper's index and memory.
    #[test]
    fn sweeps_are_twenty_times_as_fast() {
        let setting = Setting { clients: 256, ..Setting::of_the_paper().unwrap().scaled(64) };
        let rows = rows_of(1, setting, true).unwrap();
        for row in &rows {
            assert_ne!(row.within, Some(false), "{row:?}");
        }
        assert_eq!(rows, rows_of(1, setting, true).unwrap());
    }
}
