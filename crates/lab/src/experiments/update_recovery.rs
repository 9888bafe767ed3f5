//! How long an index takes to open after a crash: figure 9 of the BOSC paper.

use moirai::runtime::block_on_virtual;
use moirai::units::ByteCount;

use super::bosc::{DEPARTURES, Recovered, Setting, recovered};
use crate::{Experiment, Failure, Row};

pub(super) const EXPERIMENT: Experiment = Experiment {
    name: "update-recovery",
    source: "BOSC figure 9 and section 6.5",
    summary: "opening an index whose updates are pending after a crash, by how many there are",
    assumptions: &[
        "Drives: five ibm-deskstar-dtla-307030; records of 16 B, leaves of 64 KB. The index has 512 MB and not 64 GB, whose \
         snapshot, which is read first, would be longer by some 14 MB.",
        "The paper has 256 MB of memory and pending what comes faster than it is swept. Here either nothing was swept before \
         the crash, in 256 MB, and the log has what is pending and nothing else; or memory was filled several times, and \
         the log is read from the oldest pending update on.",
        "Processors take no time. The paper's search for the last record, 0.8 to 0.9 s, is not needed: the snapshot says \
         from where the log is to be read.",
        "Judged is that what lies between the first and the last lies on the line through both, within 5 %; and that \
         opening takes no more than reading as much in one request and 10 %.",
        DEPARTURES,
    ],
    run,
};

/// Requests before a crash when nothing is swept.
const PENDING: [u64; 4] = [250_000, 500_000, 1_000_000, 2_000_000];
/// Memory that is filled several times before a crash.
const MEMORIES_MIB: [u64; 4] = [16, 32, 64, 128];

/// By how much a time may differ from the line.
const DIFFERENCE_MAX: f64 = 0.05;
/// By how much opening may take longer than reading as much of the log in one request.
const LONGER_MAX: f64 = 0.1;

fn run(seed: u64) -> Result<Vec<Row>, Failure> {
    let mut all = rows(seed, &PENDING)?;
    for mib in MEMORIES_MIB {
        all.extend(swept_rows(seed, ByteCount::mib(mib))?);
    }
    Ok(all)
}

fn setting(memory: ByteCount) -> Result<Setting, Failure> {
    let index = ByteCount::mib(512);
    Ok(Setting { index, memory, record_bytes: 16, ..Setting::of_the_paper()? })
}

/// What is pending before the first sweep.
fn rows(seed: u64, all: &[u64]) -> Result<Vec<Row>, Failure> {
    let setting = setting(ByteCount::mib(256))?;
    let run = |pending: &u64| block_on_virtual(seed, recovered(setting, *pending));
    let runs = all.iter().map(run).collect::<Result<Vec<_>, _>>()?;
    let mut rows = Vec::new();
    let at = |one: &Recovered| (one.pending as f64, one.ms);
    for (index, one) in runs.iter().enumerate() {
        let mut opened = opened(one, "nothing swept");
        let is_between = (1..runs.len() - 1).contains(&index);
        let ends = runs.first().map(at).zip(runs.last().map(at));
        if let Some(((x0, y0), (x1, y1))) = ends.filter(|_| is_between) {
            let line = y0 + (y1 - y0) * (one.pending as f64 - x0) / (x1 - x0);
            opened.within = Some((one.ms / line - 1.0).abs() <= DIFFERENCE_MAX);
        }
        rows.push(opened);
        rows.extend(of_log(one));
    }
    Ok(rows)
}

/// What is pending while sweeps go on.
fn swept_rows(seed: u64, memory: ByteCount) -> Result<Vec<Row>, Failure> {
    let setting = setting(memory)?;
    // An update takes some 30 bytes.
    let count = 4 * memory.0 / 30;
    let one = block_on_virtual(seed, recovered(setting, count))?;
    let mut opened = opened(&one, "of four memoryfuls");
    opened.within = Some(one.ms <= one.log_ms * (1.0 + LONGER_MAX));
    let mut rows = vec![opened];
    rows.extend(of_log(&one));
    Ok(rows)
}

fn opened(one: &Recovered, what: &str) -> Row {
    Row::new(format!("{} pending, {what}: opened again", one.pending), "ms", one.ms)
}

fn of_log(one: &Recovered) -> [Row; 2] {
    let name = |what: &str| format!("{} pending, {what}", one.pending);
    let mebibytes = one.log.0 as f64 / f64::from(1 << 20);
    [
        Row::new(name("log read"), "MiB", mebibytes),
        Row::new(name("as much of the log in one request"), "ms", one.log_ms),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_takes_as_long_as_reading_what_is_pending() {
        let mut all = rows(1, &[100_000, 200_000, 400_000]).unwrap();
        all.extend(swept_rows(1, ByteCount::mib(8)).unwrap());
        assert_eq!(all.iter().filter(|row| row.within == Some(true)).count(), 2, "{all:?}");
        assert!(all.iter().all(|row| row.within != Some(false)), "{all:?}");
    }
}
