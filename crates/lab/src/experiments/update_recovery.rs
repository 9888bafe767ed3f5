//! The time to open an index after a crash: figure 9 of the BOSC paper.

use moirai::runtime::block_on_virtual;
use moirai::units::{ByteCount, grouped};

use super::bosc::{DEPARTURES, Recovered, Setting, recovered};
use crate::context::Stage;
use crate::{Context, Experiment, Failure, Row, Scaling, Tolerance};

pub(super) const EXPERIMENT: Experiment = Experiment {
    name: "update-recovery",
    source: "BOSC figure 9 and section 6.5",
    summary: "time to open an index after a crash, by the number of pending updates",
    assumptions: &[
        "Drives: five ibm-deskstar-dtla-307030; records of 16 B, leaves of 64 KB. The index has 512 MB instead of 64 GB; \
         the checkpoint, which is read first, would be some 14 MB longer with 64 GB.",
        "The paper has 256 MB of memory and more requests than the sweeps can take. Here there are two cases. Either nothing \
         was swept before the crash, with 256 MB of memory, and the log holds only pending updates. Or the memory was filled \
         several times, and the log is read from the oldest pending update on.",
        "Processors take no virtual time. The paper's search for the last record, 0.8 to 0.9 s, is not needed: the checkpoint \
         says where to begin reading the log.",
        "Judged without sweeps: the times between the first and the last lie on the line through both, within 5 %. Judged \
         with sweeps: opening takes at most 10 % longer than one read of as much log.",
        DEPARTURES,
    ],
    takes: "2.7 min",
    scaling: Some(Scaling {
        least: 0.25,
        shorter: 0.25,
        what: "the index, the updates before a crash and the memories that are filled; the checkpoint then takes a larger \
               share of the time",
    }),
    run,
};

/// Requests before a crash, if nothing is swept.
const PENDING: [u64; 4] = [250_000, 500_000, 1_000_000, 2_000_000];
/// Memory that requests fill four times before a crash.
const MEMORIES_MIB: [u64; 4] = [16, 32, 64, 128];

/// The largest share by which a time may differ from the line.
const DIFFERENCE_MAX: f64 = 0.05;
/// The largest share by which opening may take longer than one read of as much log.
const LONGER_MAX: f64 = 0.1;

fn run(context: &Context) -> Result<Vec<Row>, Failure> {
    let [pending, sweeping] = context.stage().split([2.0, 3.0]);
    let scaled = |count: u64| (count as f64 * context.scale()) as u64;
    let mut all = rows(context, &PENDING.map(scaled), &pending)?;
    let stages = sweeping.split(MEMORIES_MIB.map(|mib| mib as f64));
    for (mib, stage) in MEMORIES_MIB.into_iter().zip(stages) {
        all.extend(swept_rows(context, ByteCount(scaled(mib << 20)), &stage)?);
    }
    Ok(all)
}

fn setting(context: &Context, memory: ByteCount) -> Result<Setting, Failure> {
    let index = ByteCount((context.scale() * f64::from(512 << 20)) as u64);
    Ok(Setting { index, memory, record_bytes: 16, ..Setting::of_the_paper()? })
}

/// Crashes before the first sweep.
fn rows(context: &Context, all: &[u64], stage: &Stage) -> Result<Vec<Row>, Failure> {
    let setting = setting(context, ByteCount::mib(256))?;
    let mut runs = Vec::new();
    for (index, pending) in all.iter().enumerate() {
        let what = format!("{} updates, nothing swept", grouped(*pending));
        let stage = stage.part(index, all.len()).called(&what);
        runs.push(block_on_virtual(context.seed(), recovered(setting, *pending, stage))?);
    }
    let mut rows = Vec::new();
    let at = |one: &Recovered| (one.pending as f64, one.ms);
    for (index, one) in runs.iter().enumerate() {
        let mut opened = opened(one, "nothing swept");
        let is_between = (1..runs.len() - 1).contains(&index);
        let ends = runs.first().map(at).zip(runs.last().map(at));
        if let Some(((x0, y0), (x1, y1))) = ends.filter(|_| is_between) {
            let line = y0 + (y1 - y0) * (one.pending as f64 - x0) / (x1 - x0);
            opened = opened.judged(Tolerance::Near { value: line, share: DIFFERENCE_MAX });
        }
        rows.push(opened);
        rows.extend(of_log(one));
    }
    Ok(rows)
}

/// A crash in the midst of sweeps.
fn swept_rows(context: &Context, memory: ByteCount, stage: &Stage) -> Result<Vec<Row>, Failure> {
    let setting = setting(context, memory)?;
    // An update takes some 30 bytes.
    let count = 4 * memory.0 / 30;
    let stage = stage.called(&format!("four memoryfuls of {memory}"));
    let one = block_on_virtual(context.seed(), recovered(setting, count, stage))?;
    let most = Tolerance::AtMost(one.log_ms * (1.0 + LONGER_MAX));
    let mut rows = vec![opened(&one, "of four memoryfuls").judged_at_full_scale(most, context)];
    rows.extend(of_log(&one));
    Ok(rows)
}

fn opened(one: &Recovered, what: &str) -> Row {
    Row::new(format!("{} pending, {what}: opening", grouped(one.pending)), "virtual ms", one.ms)
}

fn of_log(one: &Recovered) -> [Row; 2] {
    let name = |what: &str| format!("{} pending, {what}", grouped(one.pending));
    let mebibytes = one.log.0 as f64 / f64::from(1 << 20);
    [
        Row::new(name("log read"), "MiB", mebibytes),
        Row::new(name("one read of as much log"), "virtual ms", one.log_ms),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn opening_takes_as_long_as_reading_the_pending_log() {
        let context = Context::new(1);
        let stage = context.stage();
        let mut all = rows(&context, &[100_000, 200_000, 400_000], &stage).unwrap();
        all.extend(swept_rows(&context, ByteCount::mib(8), &stage).unwrap());
        assert_eq!(all.iter().filter(|row| row.within == Some(true)).count(), 2, "{all:?}");
        assert!(all.iter().all(|row| row.within != Some(false)), "{all:?}");
    }
}
