//! How long queries of an index with pending updates take: table 1 of the BOSC paper.

use moirai::runtime::block_on_virtual;
use moirai::units::ByteCount;

use super::bosc::{DEPARTURES, Setting, queries};
use crate::{Experiment, Failure, Row};

pub(super) const EXPERIMENT: Experiment = Experiment {
    name: "update-queries",
    source: "BOSC table 1",
    summary: "point and range queries of an index with updates pending, and of the disks below it",
    assumptions: &[
        "Drives: five ibm-deskstar-dtla-307030; leaves of 4 KB, 256 MB of memory of which two fifths hold pending updates, \
         no staging. The paper does not give the size of the index, 1 GB here: seeks are shorter than its were.",
        "A range is 1,000 records of 64 B (the paper: at most, and no size), 16 leaves, read one after the other; 10,000 \
         queries, the paper 100. Nothing else is under way. Without the engine the disks are read at places like its own.",
        "Processors take no time: what searching a queue takes is not in these figures, and judged is that a query reads no \
         more than its leaves.",
        DEPARTURES,
    ],
    run,
};

/// Leaves of a range query, which follow each other.
const RANGE_LEAVES: u64 = 16;
/// With the engine and without, in ms: point queries, and ranges.
const PUBLISHED_MS: [[f64; 2]; 2] = [[10.20, 10.19], [15.75, 15.76]];
/// What counts: by how much the engine may be slower.
const DIFFERENCE_MAX: f64 = 0.02;

fn run(seed: u64) -> Result<Vec<Row>, Failure> {
    rows(seed, ByteCount(1 << 30), 10_000)
}

fn rows(seed: u64, index: ByteCount, count: u64) -> Result<Vec<Row>, Failure> {
    let setting = Setting {
        index,
        leaf: ByteCount(4 << 10),
        memory: ByteCount(index.0 / 4),
        ..Setting::of_the_paper()?
    };
    let means = block_on_virtual(seed, queries(setting, RANGE_LEAVES, count))?;
    let mut rows = Vec::new();
    for ((name, ours), published) in ["point", "range"].into_iter().zip(means).zip(PUBLISHED_MS) {
        let ([with, without], [published_with, published_without]) = (ours, published);
        let row = |what: &str, ours| Row::new(format!("{name}, {what}"), "ms", ours);
        rows.push(row("with log and sweeps", with).beside(published_with));
        rows.push(row("without", without).beside(published_without));
        let ratio = Row::new(format!("{name}, with to without"), "", with / without);
        let is_met = with / without <= 1.0 + DIFFERENCE_MAX;
        rows.push(Row { within: Some(is_met), ..ratio.beside(published_with / published_without) });
    }
    Ok(rows)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn queries_take_as_long_as_without() {
        for row in rows(1, ByteCount::mib(64), 10_000).unwrap() {
            assert_ne!(row.within, Some(false), "{row:?}");
        }
    }
}
