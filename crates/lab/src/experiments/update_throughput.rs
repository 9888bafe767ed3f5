//! Random updates of an index with the update engine and with a plain tree: figure 2 of the BOSC paper.

use moirai::runtime::block_on_virtual;
use moirai::units::ByteCount;

use super::bosc::{DEPARTURES, Setting, on_the_engine, plain};
use crate::context::Stage;
use crate::{Context, Experiment, Failure, Row, Scaling, Tolerance};

pub(super) const EXPERIMENT: Experiment = Experiment {
    name: "update-throughput",
    source: "BOSC figure 2 and section 6.2",
    summary: "random updates of an index of 16 GB: the update engine and a plain tree",
    assumptions: &[
        "Drives: five ibm-deskstar-dtla-307030 with their caches. Four drives hold leaves of 64 KB in stripe units of 64 KB, \
         one holds the log. The plain tree has leaves on all five. Records have 64 B.",
        "The paper does not give the number of requests in flight; both trees have 1,024 here. Drives serve the request \
         with the shortest positioning time first.",
        "Processors take no virtual time. The paper's processor took 140 us for an insert (6.3), at most 7,100 requests/s; \
         the paper ascribes its limit to the disks (6.2). Its curve is flat from 1 GB on, ours is not.",
        "Leaves hold only the records of the run, since the contents of the others do not matter (6.1). Inserts and \
         updates are then the same.",
        "The second sweep over all leaves is measured: the memory is in its steady state when the sweep begins. The paper \
         measures its first sweep (6.3).",
        "The plain tree writes no log. Its cache is full of dirty leaves, and its hit rate is its share of the index.",
        DEPARTURES,
    ],
    takes: "21 min",
    scaling: Some(Scaling {
        least: 0.01,
        shorter: 0.0625,
        what: "the index and the memory, so that a leaf has as many updates pending when it is swept; seeks \
               are shorter, and the drives' caches keep their size",
    }),
    run,
};

const MEMORIES_MIB: [u64; 6] = [256, 512, 768, 1024, 1280, 1536];
/// The memory at which the paper gives figures, and its figures.
const PUBLISHED_MIB: u64 = 1024;
const PUBLISHED_PER_S: f64 = 6410.0;
const PUBLISHED_PLAIN_PER_S: f64 = 311.0;
/// The judged figure: the throughput as a multiple of the plain tree's.
const TIMES_MIN: f64 = 20.0;
const PLAIN_REQUESTS: u64 = 20_000;
/// The most that the paper's processor can do, by the time that an insert takes (6.3).
const PROCESSOR_PER_S: f64 = 1e6 / 140.0;

fn run(context: &Context) -> Result<Vec<Row>, Failure> {
    let mut rows = Vec::new();
    // A sweep takes as many requests as fit into memory.
    let stages = context.stage().split(MEMORIES_MIB.map(|mib| mib as f64));
    for (mib, stage) in MEMORIES_MIB.into_iter().zip(stages) {
        let setting = Setting { memory: ByteCount::mib(mib), ..Setting::of_the_paper()? };
        let setting = setting.scaled(context.scale());
        rows.extend(rows_of(context, setting, mib == PUBLISHED_MIB, &stage)?);
    }
    Ok(rows)
}

fn rows_of(
    context: &Context,
    setting: Setting,
    is_published: bool,
    stage: &Stage,
) -> Result<Vec<Row>, Failure> {
    let [sweeping, updating] = stage.split([97.0, 3.0]);
    let sweeping = sweeping.called(&format!("update engine, {} of memory", setting.memory));
    let ours = block_on_virtual(context.seed(), on_the_engine(setting, sweeping))?;
    let updating = updating.called(&format!("plain tree, {} of memory", setting.memory));
    let plain = block_on_virtual(context.seed(), plain(setting, PLAIN_REQUESTS, updating))?;
    let name = |what: &str| format!("{} of memory, {what}", setting.memory);
    let mut times = Row::new(
        name("multiple of the plain tree"),
        "",
        ours.requests_per_s / plain.requests_per_s,
    );
    let mut sweeps = Row::new(name("update engine"), "requests/virtual s", ours.requests_per_s);
    let mut tree = Row::new(name("plain tree"), "requests/virtual s", plain.requests_per_s);
    if is_published {
        times = times.beside(PUBLISHED_PER_S / PUBLISHED_PLAIN_PER_S);
        times = times.judged_at_full_scale(Tolerance::AtLeast(TIMES_MIN), context);
        (sweeps, tree) = (sweeps.beside(PUBLISHED_PER_S), tree.beside(PUBLISHED_PLAIN_PER_S));
    }
    let with_processor = ours.requests_per_s.min(PROCESSOR_PER_S) / plain.requests_per_s;
    let with_processor =
        Row::new(name("multiple, if a request took 140 us of one processor"), "", with_processor);
    let wait = Row::new(name("until acknowledged"), "virtual ms", ours.wait_ms);
    Ok(vec![sweeps, tree, times, with_processor, wait])
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A sixty-fourth of the paper's index and memory.
    #[test]
    fn sweeps_are_twenty_times_as_fast() {
        let paper = Setting::of_the_paper().unwrap();
        let setting = Setting { clients: 256, ..paper.scaled(1.0 / 64.0) };
        let context = Context::new(1);
        let rows = || rows_of(&context, setting, true, &context.stage()).unwrap();
        let first = rows();
        assert!(first.iter().any(|row| row.within == Some(true)), "{first:?}");
        for row in &first {
            assert_ne!(row.within, Some(false), "{row:?}");
        }
        assert_eq!(rows(), first);
    }
}
