//! The update throughput by leaf, record, index and memory size: figures 4 to 8 of the BOSC paper.

use moirai::runtime::block_on_virtual;
use moirai::units::ByteCount;

use super::bosc::{DEPARTURES, Setting, sustained};
use super::index_requests::Workload;
use crate::context::Stage;
use crate::{Context, Experiment, Failure, Row, Scaling, Tolerance};

pub(super) const EXPERIMENT: Experiment = Experiment {
    name: "update-sensitivity",
    source: "BOSC figures 4 to 8",
    summary: "update throughput by leaf, record, index and memory size, at a 256th of the paper's sizes",
    assumptions: &[
        "Drives: five ibm-deskstar-dtla-307030. Index and memory are a 256th of the paper's, 256 MB for 64 GB and 4 MB \
         for 1 GB: a leaf has as many updates pending when it is swept. Leaves and records have the paper's sizes.",
        "Not proportional: the index takes a few hundred MB at the rim, where seeks are short and tracks long; the drives' \
         caches have their full size; a sweep takes fewer partitions at a time. Partitions have 1 MB in all steps. At full \
         size an index of 16 GB with 1 GB of memory has a higher throughput, see update-throughput.",
        "The text does not give the figures' values. The direction is judged: no step goes the other way by more than 3 %, \
         and the throughput changes by at least 10 % from the first step to the last. Four memoryfuls are measured after \
         four that do not count; the paper measures its first cycle of commits.",
        "Partitions are read and written whole, so their division into leaves, which is figure 4, changes little.",
        "Sequential inserts are not judged. A commit waits while its partition has an eighth of the memory pending, which \
         cannot happen with the paper's memory. They differ from the paper in figure 8.",
        "1,024 requests in flight. Processors take no virtual time; the paper ascribes part of the gain of sequential \
         inserts to its processor.",
        DEPARTURES,
    ],
    takes: "2.7 min",
    scaling: Some(Scaling {
        least: 0.25,
        shorter: 0.25,
        what: "the number of requests, before the measurement and during it: no longer four memoryfuls each",
    }),
    run,
};

/// The paper's sizes are divided by this.
const DIVISOR: u64 = 256;
/// How often the requests fill the memory, before the measurement and during it.
const MEMORYFULS: f64 = 4.0;
const WORKLOADS: [(&str, Workload); 3] = [
    ("sequential", Workload::Sequential),
    ("clustered", Workload::Clustered),
    ("random", Workload::Random),
];
/// The largest share by which a step may go the other way.
const SLACK: f64 = 0.03;
/// The smallest share by which the throughput changes from the first step to the last.
const CHANGE_MIN: f64 = 0.1;

/// A figure: settings from left to right, and whether the throughput rises with them.
struct Figure {
    name: &'static str,
    steps: Vec<(String, Setting)>,
    rises: bool,
}

fn figures(paper: Setting) -> Vec<Figure> {
    let kib = |kib: u64| ByteCount(kib << 10);
    let step = |name: String, setting: Setting| (name, setting);
    vec![
        Figure {
            name: "figure 4",
            steps: [16, 64, 256, 1024]
                .map(|leaf| step(format!("leaf {leaf} KiB"), Setting { leaf: kib(leaf), ..paper }))
                .into(),
            rises: true,
        },
        Figure {
            name: "figure 5",
            steps: [64, 256, 1024]
                .map(|bytes| {
                    step(format!("record {bytes} B"), Setting { record_bytes: bytes, ..paper })
                })
                .into(),
            rises: false,
        },
        Figure {
            name: "figure 6",
            // As many records to a leaf.
            steps: [64, 256, 1024]
                .map(|bytes: usize| {
                    let setting = Setting { record_bytes: bytes, leaf: kib(bytes as u64), ..paper };
                    step(format!("record {bytes} B, leaf {bytes} KiB"), setting)
                })
                .into(),
            rises: false,
        },
        Figure {
            name: "figure 7",
            steps: [16, 32, 64, 128]
                .map(|gib: u64| {
                    let setting = Setting { index: ByteCount((gib << 30) / DIVISOR), ..paper };
                    step(format!("index {gib} GiB"), setting)
                })
                .into(),
            rises: false,
        },
        Figure {
            name: "figure 8",
            steps: [512, 1024, 1536]
                .map(|mib: u64| {
                    let setting = Setting { memory: ByteCount((mib << 20) / DIVISOR), ..paper };
                    step(format!("memory {mib} MiB"), setting)
                })
                .into(),
            rises: true,
        },
    ]
}

fn run(context: &Context) -> Result<Vec<Row>, Failure> {
    let paper = Setting {
        index: ByteCount(64 << 30),
        partition: ByteCount::mib(1),
        ..Setting::of_the_paper()?
    };
    let figures = figures(paper.scaled(1.0 / DIVISOR as f64));
    let mut rows = Vec::new();
    for (index, figure) in figures.iter().enumerate() {
        let stages = context.stage().part(index, figures.len()).split(WORKLOADS.map(|_| 1.0));
        for (workload, stage) in WORKLOADS.into_iter().zip(stages) {
            rows.extend(rows_of(context, figure, workload, &stage)?);
        }
    }
    Ok(rows)
}

fn rows_of(
    context: &Context,
    figure: &Figure,
    (called, workload): (&str, Workload),
    stage: &Stage,
) -> Result<Vec<Row>, Failure> {
    let memoryfuls = MEMORYFULS * context.scale();
    let mut rows: Vec<Row> = Vec::new();
    for (index, (step, setting)) in figure.steps.iter().enumerate() {
        let name = format!("{}, {called}, {step}", figure.name);
        let stage = stage.part(index, figure.steps.len()).called(&name);
        let setting = Setting { workload, ..*setting };
        let per_s = block_on_virtual(context.seed(), sustained(setting, memoryfuls, stage))?;
        let mut row = Row::new(name, "requests/virtual s", per_s);
        let is_last = index + 1 == figure.steps.len();
        if let (true, Some(tolerance)) =
            (workload != Workload::Sequential, tolerance(&rows, figure.rises, is_last))
        {
            row = row.judged(tolerance);
        }
        rows.push(row);
    }
    Ok(rows)
}

/// What the next step must satisfy after the `rows` before it: it does not go the other way, and if it is the last,
/// it differs from the first.
fn tolerance(rows: &[Row], rises: bool, is_last: bool) -> Option<Tolerance> {
    let (first, before) = (rows.first()?.ours, rows.last()?.ours);
    Some(match (rises, is_last) {
        (true, false) => Tolerance::AtLeast(before * (1.0 - SLACK)),
        (true, true) => {
            Tolerance::AtLeast(f64::max(before * (1.0 - SLACK), first * (1.0 + CHANGE_MIN)))
        }
        (false, false) => Tolerance::AtMost(before * (1.0 + SLACK)),
        (false, true) => {
            Tolerance::AtMost(f64::min(before * (1.0 + SLACK), first * (1.0 - CHANGE_MIN)))
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A quarter of the index: more memory, more updates.
    #[test]
    fn more_memory_is_more_updates() {
        let paper =
            Setting { clients: 256, ..Setting::of_the_paper().unwrap().scaled(1.0 / 256.0) };
        let steps = [1, 2, 4]
            .map(|mib| (format!("{mib} MiB"), Setting { memory: ByteCount::mib(mib), ..paper }));
        let figure = Figure { name: "figure 8", steps: steps.into(), rises: true };
        let context = Context::new(1);
        let workload = ("random", Workload::Random);
        let rows = rows_of(&context, &figure, workload, &context.stage()).unwrap();
        assert!(rows[2].ours > rows[0].ours * 1.5, "{rows:?}");
        assert_eq!(rows.iter().filter(|row| row.within == Some(true)).count(), 2, "{rows:?}");
    }

    #[test]
    fn a_step_is_judged_by_the_step_before_and_the_last_by_the_first_too() {
        let rows = [100.0, 109.0].map(|ours| Row::new("step", "requests/virtual s", ours));
        assert_eq!(tolerance(&[], true, false), None);
        assert_eq!(tolerance(&rows, true, false), Some(Tolerance::AtLeast(109.0 * (1.0 - SLACK))));
        assert_eq!(tolerance(&rows, true, true), Some(Tolerance::AtLeast(100.0 * 1.1)));
        assert_eq!(tolerance(&rows, false, false), Some(Tolerance::AtMost(109.0 * (1.0 + SLACK))));
        assert_eq!(tolerance(&rows, false, true), Some(Tolerance::AtMost(100.0 * 0.9)));
    }
}
