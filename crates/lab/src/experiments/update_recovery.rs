//! How long an index takes to open after a crash: figure 9 of the BOSC paper.

use moirai::runtime::block_on_virtual;
use moirai::units::ByteCount;

use super::bosc::{Recovered, Setting, recovered};
use crate::{Experiment, Failure, Row};

pub(super) const EXPERIMENT: Experiment = Experiment {
    name: "update-recovery",
    source: "BOSC figure 9 and section 6.5",
    summary: "opening an index whose updates are pending after a crash, by how many there are",
    assumptions: &[
        "Drives: five ibm-deskstar-dtla-307030; records of 16 B, 256 MB of memory, leaves of 64 KB. The index has 512 MB \
         and not 64 GB: what is not pending is not read.",
        "Processors take no time. The paper's search for the last record, 0.8 to 0.9 s, is not needed: the snapshot says \
         from where the log is to be read.",
        "Judged is that all lie on a line, within 5 %.",
    ],
    run,
};

const PENDING: [u64; 4] = [250_000, 500_000, 1_000_000, 2_000_000];

/// By how much a time may differ from the line.
const DIFFERENCE_MAX: f64 = 0.05;

fn run(seed: u64) -> Result<Vec<Row>, Failure> {
    rows(seed, &PENDING)
}

fn rows(seed: u64, all: &[u64]) -> Result<Vec<Row>, Failure> {
    let (index, memory) = (ByteCount::mib(512), ByteCount::mib(256));
    let setting = Setting { index, memory, record_bytes: 16, ..Setting::of_the_paper()? };
    let run = |pending: &u64| block_on_virtual(seed, recovered(setting, *pending));
    let runs = all.iter().map(run).collect::<Result<Vec<_>, _>>()?;
    let mut rows = Vec::new();
    let at = |one: &Recovered| (one.pending as f64, one.ms);
    for one in &runs {
        let name = |what: &str| format!("{} pending, {what}", one.pending);
        let mut opened = Row::new(name("opened again"), "ms", one.ms);
        // On the line through the first and the last, which are.
        if let (Some((x0, y0)), Some((x1, y1))) = (runs.first().map(at), runs.last().map(at)) {
            let line = y0 + (y1 - y0) * (one.pending as f64 - x0) / (x1 - x0);
            opened.within = Some((one.ms / line - 1.0).abs() <= DIFFERENCE_MAX);
        }
        let mebibytes = one.log.0 as f64 / f64::from(1 << 20);
        rows.push(opened);
        rows.push(Row::new(name("log read"), "MiB", mebibytes));
        rows.push(Row::new(name("as much of the log in one request"), "ms", one.log_ms));
    }
    Ok(rows)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_takes_as_long_as_reading_what_is_pending() {
        for row in rows(1, &[100_000, 200_000, 400_000]).unwrap() {
            assert_ne!(row.within, Some(false), "{row:?}");
        }
    }
}
