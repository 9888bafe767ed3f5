//! What the rate of updates depends on: figures 4 to 8 of the BOSC paper.

use moirai::runtime::block_on_virtual;
use moirai::units::ByteCount;

use super::bosc::{DEPARTURES, Setting, sustained};
use super::index_requests::Workload;
use crate::{Experiment, Failure, Row};

pub(super) const EXPERIMENT: Experiment = Experiment {
    name: "update-sensitivity",
    source: "BOSC figures 4 to 8",
    summary: "updates per second by leaf, record, index and memory, at a 256th of the paper's sizes",
    assumptions: &[
        "Drives: five ibm-deskstar-dtla-307030. Index and memory are a 256th of the paper's, 256 MB for 64 GB and 4 MB \
         for 1 GB: how many updates a leaf has pending when it is swept is the same. Leaves and records are the paper's.",
        "What is not proportional: all lies in some hundred MB at the rim, where seeks are short and tracks long; the drives' \
         caches are as they are; fewer partitions are swept at a time. They are of 1 MB in all steps. At full size an index \
         of 16 GB with 1 GB of memory takes more than here, see update-throughput.",
        "The figures' values are not in the text; judged is that the rate goes where the paper says it goes: with no step the \
         other way by more than 3 %, and from the first to the last by 10 % at least. Measured are four memoryfuls after \
         four, the paper's first cycle of commits is not.",
        "Partitions are read and written whole: how they are divided into leaves, which is figure 4, changes little.",
        "Sequential inserts are not judged: who modifies waits when a partition has an eighth of the memory pending, which \
         in the paper's memory it cannot come to. They differ from the paper in figure 8.",
        "1,024 requests under way. Processors take no time, to which the paper lays part of what sequential inserts gain.",
        DEPARTURES,
    ],
    run,
};

/// The paper's sizes by this.
const SCALE: u64 = 256;
const WORKLOADS: [(&str, Workload); 3] = [
    ("sequential", Workload::Sequential),
    ("clustered", Workload::Clustered),
    ("random", Workload::Random),
];
/// By how much a step may go the other way.
const SLACK: f64 = 0.03;
/// By how much the rate has to change from the first step to the last.
const CHANGE_MIN: f64 = 0.1;

/// A figure: settings from the left to the right, and whether the rate rises with them.
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
                    let setting = Setting { index: ByteCount((gib << 30) / SCALE), ..paper };
                    step(format!("index {gib} GiB"), setting)
                })
                .into(),
            rises: false,
        },
        Figure {
            name: "figure 8",
            steps: [512, 1024, 1536]
                .map(|mib: u64| {
                    let setting = Setting { memory: ByteCount((mib << 20) / SCALE), ..paper };
                    step(format!("memory {mib} MiB"), setting)
                })
                .into(),
            rises: true,
        },
    ]
}

fn run(seed: u64) -> Result<Vec<Row>, Failure> {
    let paper = Setting {
        index: ByteCount(64 << 30),
        partition: ByteCount::mib(1),
        ..Setting::of_the_paper()?
    };
    let paper = paper.scaled(SCALE);
    let mut rows = Vec::new();
    for figure in figures(paper) {
        for workload in WORKLOADS {
            rows.extend(rows_of(seed, &figure, workload)?);
        }
    }
    Ok(rows)
}

fn rows_of(
    seed: u64,
    figure: &Figure,
    (called, workload): (&str, Workload),
) -> Result<Vec<Row>, Failure> {
    let mut rows: Vec<Row> = Vec::new();
    for (step, setting) in &figure.steps {
        let setting = Setting { workload, ..*setting };
        let per_s = block_on_virtual(seed, sustained(setting))?;
        let mut row = Row::new(format!("{}, {called}, {step}", figure.name), "requests/s", per_s);
        let goes_on = |before: &Row| match figure.rises {
            true => per_s >= before.ours * (1.0 - SLACK),
            false => per_s <= before.ours * (1.0 + SLACK),
        };
        row.within = rows.last().filter(|_| workload != Workload::Sequential).map(goes_on);
        rows.push(row);
    }
    let first = rows.first().map_or(0.0, |first| first.ours);
    if let Some(last) = rows.last_mut() {
        let change = last.ours / first - 1.0;
        let is_large = if figure.rises { change >= CHANGE_MIN } else { change <= -CHANGE_MIN };
        last.within = last.within.map(|goes_on| goes_on && is_large);
    }
    Ok(rows)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A quarter of the index: more memory, more updates.
    #[test]
    fn more_memory_is_more_updates() {
        let paper = Setting { clients: 256, ..Setting::of_the_paper().unwrap().scaled(256) };
        let steps = [1, 2, 4]
            .map(|mib| (format!("{mib} MiB"), Setting { memory: ByteCount::mib(mib), ..paper }));
        let figure = Figure { name: "figure 8", steps: steps.into(), rises: true };
        let rows = rows_of(1, &figure, ("random", Workload::Random)).unwrap();
        assert!(rows[2].ours > rows[0].ours * 1.5, "{rows:?}");
    }
}
