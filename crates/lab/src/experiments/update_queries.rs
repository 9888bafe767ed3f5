//! The latency of queries on an index with pending updates: table 1 of the BOSC paper.

use moirai::runtime::block_on_virtual;
use moirai::units::ByteCount;

use super::bosc::{DEPARTURES, Setting, queries};
use crate::context::Stage;
use crate::{Context, Experiment, Failure, Row, Tolerance};

pub(super) const EXPERIMENT: Experiment = Experiment {
    name: "update-queries",
    source: "BOSC table 1",
    summary: "point and range queries with updates pending, and on the disks alone",
    assumptions: &[
        "Drives: five ibm-deskstar-dtla-307030; leaves of 4 KB, 256 MB of memory of which two fifths hold pending updates, \
         no staging. The paper does not give the size of the index; ours has 1 GB, so our seeks are shorter.",
        "A range is 1,000 records of 64 B (the paper: at most 1,000, size not given), which are 16 leaves, read one after \
         the other. 10,000 queries, the paper 100. No other request is in flight. Without the engine, reads go to similar \
         places on the disks.",
        "Processors take no virtual time, so the search in a queue is not in these figures. Judged: a query reads only its \
         leaves.",
        DEPARTURES,
    ],
    takes: "5 s",
    scaling: None,
    run,
};

/// Leaves of a range query; they follow each other.
const RANGE_LEAVES: u64 = 16;
/// In ms, with the engine and without it: point queries, then range queries.
const PUBLISHED_MS: [[f64; 2]; 2] = [[10.20, 10.19], [15.75, 15.76]];
/// The largest share by which the engine may be slower.
const DIFFERENCE_MAX: f64 = 0.02;

fn run(context: &Context) -> Result<Vec<Row>, Failure> {
    let stage = context.stage().called("point and range queries");
    rows(context.seed(), ByteCount(1 << 30), 10_000, stage)
}

fn rows(seed: u64, index: ByteCount, count: u64, stage: Stage) -> Result<Vec<Row>, Failure> {
    let setting = Setting {
        index,
        leaf: ByteCount(4 << 10),
        memory: ByteCount(index.0 / 4),
        ..Setting::of_the_paper()?
    };
    let means = block_on_virtual(seed, queries(setting, RANGE_LEAVES, count, stage))?;
    let mut rows = Vec::new();
    for ((name, ours), published) in ["point", "range"].into_iter().zip(means).zip(PUBLISHED_MS) {
        let ([with, without], [published_with, published_without]) = (ours, published);
        let row = |what: &str, ours| Row::new(format!("{name}, {what}"), "virtual ms", ours);
        rows.push(row("update engine", with).beside(published_with));
        rows.push(row("disks alone", without).beside(published_without));
        let ratio = Row::new(format!("{name}, ratio engine to disks"), "", with / without);
        let ratio = ratio.beside(published_with / published_without);
        rows.push(ratio.judged(Tolerance::AtMost(1.0 + DIFFERENCE_MAX)));
    }
    Ok(rows)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn queries_with_pending_updates_take_as_long_as_reads_of_the_disks() {
        let stage = Context::new(1).stage();
        let rows = rows(1, ByteCount::mib(64), 10_000, stage).unwrap();
        assert_eq!(rows.iter().filter(|row| row.within == Some(true)).count(), 2, "{rows:?}");
        assert!(rows.iter().all(|row| row.within != Some(false)), "{rows:?}");
    }
}
