//! The speed of a trail log, which writes where the head is about to be: section 6.5 of the BOSC paper.

use moirai::runtime::block_on_virtual;
use moirai::units::{ByteCount, Nanos};
use moirai::update::LogWriter;

use super::bosc::{DEPARTURES, Setting, logged, trail};
use crate::context::Stage;
use crate::{Context, Experiment, Failure, Row, Tolerance};

pub(super) const EXPERIMENT: Experiment = Experiment {
    name: "update-logging",
    source: "BOSC section 6.5",
    summary: "latency and throughput of a trail log, on one disk and several, and of an appended log",
    assumptions: &[
        "Drive: ibm-deskstar-dtla-307030 with its cache, which is flushed with each write. A command has 0.2 ms of overhead, \
         which is not published for the drive; a flush has none. The paper has an array of IDE disks. Here the log has one \
         disk unless a figure names another number.",
        "The log lies in the outermost zone; in the innermost zone 4 KB take 0.1 ms more. The writer leaves a track once 75 % \
         of it is written, so the space used is at least that and is not judged.",
        "2,000/s: 64 clients, each with one request of 4 KB in flight and some 31 ms between requests. Another disk takes a \
         request that has waited for the first disk as long as the figure says (T_wait of section 4.1).",
        "Space used: the share of the passed tracks that frames take, with their headers and padding.",
        DEPARTURES,
    ],
    takes: "10 s",
    scaling: None,
    run,
};

/// The judged figures, as the paper gives them.
const WAIT_MS_MAX: f64 = 0.5;
const RECORDS_PER_S_MIN: f64 = 50_000.0;
const FILL_PUBLISHED: f64 = 0.7;

/// Several log disks: the clients send some 2,000 requests a second.
const CLIENTS: u64 = 64;
const THINK: Nanos = Nanos(31_000_000);
/// The number of log disks, and the wait before another disk takes a request, in nanoseconds (T_wait of section 4.1).
const DISKS: [(u64, u64); 5] = [(1, 0), (2, 0), (2, 250_000), (2, 1_000_000), (4, 250_000)];

fn setting(record_bytes: usize, clients: u64, log: LogWriter) -> Result<Setting, Failure> {
    let (index, memory) = (ByteCount::mib(512), ByteCount::mib(512));
    Ok(Setting { index, memory, record_bytes, clients, log, ..Setting::of_the_paper()? })
}

fn run(context: &Context) -> Result<Vec<Row>, Failure> {
    rows(context.seed(), ByteCount::mib(32), &context.stage())
}

fn rows(seed: u64, bytes: ByteCount, stage: &Stage) -> Result<Vec<Row>, Failure> {
    let measure = |record_bytes, clients, log, stage: Stage| {
        block_on_virtual(seed, logged(setting(record_bytes, clients, log)?, bytes, stage))
    };
    let judged = |what: &str, unit, ours: f64, published: f64, tolerance| {
        Row::new(format!("trail, {what}"), unit, ours).beside(published).judged(tolerance)
    };
    let space = |what: &str, fill| {
        Row::new(format!("trail, {what}, space used"), "", fill).beside(FILL_PUBLISHED)
    };
    let (one, many) = ("4 KB until durable", "64 B, 1,024 in flight");
    let [first, second, disks, fourth, fifth] = stage.split([1.0, 4.0, 5.0, 1.0, 4.0]);
    let (blocks, fill) = measure(4096, 1, trail()?, first.called("trail, 4 KB"))?;
    let most = Tolerance::Below(WAIT_MS_MAX);
    let mut rows =
        vec![judged(one, "virtual ms", blocks.wait_ms, WAIT_MS_MAX, most), space("4 KB", fill)];
    let (records, fill) = measure(64, 1024, trail()?, second.called("trail, 64 B"))?;
    let (per_s, least) = (records.requests_per_s, Tolerance::Above(RECORDS_PER_S_MIN));
    rows.push(judged(many, "records/virtual s", per_s, RECORDS_PER_S_MIN, least));
    rows.push(space("64 B", fill));
    for ((disks, wait_ns), stage) in DISKS.into_iter().zip(disks.split(DISKS.map(|_| 1.0))) {
        let stage = stage.called(&format!("trail, 4 KB, log disks: {disks}"));
        let log_wait = Nanos(wait_ns);
        let of_clients = setting(4096, CLIENTS, trail()?)?;
        let setting = Setting { log_disks: disks, log_wait, think: THINK, ..of_clients };
        let (blocks, fill) = block_on_virtual(seed, logged(setting, bytes, stage))?;
        let waiting = match disks {
            1 => String::new(),
            _ => format!(", another after {log_wait}"),
        };
        let what = format!("2,000/s, disks: {disks}{waiting}");
        rows.push(Row::new(format!("trail, 4 KB, {what}"), "virtual ms", blocks.wait_ms));
        rows.push(Row::new(format!("trail, 4 KB, {what}, space used"), "", fill));
    }
    let (blocks, _) = measure(4096, 1, LogWriter::Append, fourth.called("append, 4 KB"))?;
    rows.push(Row::new(format!("append, {one}"), "virtual ms", blocks.wait_ms));
    let (records, _) = measure(64, 1024, LogWriter::Append, fifth.called("append, 64 B"))?;
    rows.push(Row::new(format!("append, {many}"), "records/virtual s", records.requests_per_s));
    Ok(rows)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_log_is_as_fast_as_published() {
        let rows = rows(1, ByteCount::mib(4), &Context::new(1).stage()).unwrap();
        assert_eq!(rows.iter().filter(|row| row.within == Some(true)).count(), 2, "{rows:?}");
        for row in &rows {
            assert_ne!(row.within, Some(false), "{row:?}");
        }
    }
}
