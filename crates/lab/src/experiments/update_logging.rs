//! How fast a log is written where the head is about to be: section 6.5 of the BOSC paper.

use moirai::runtime::block_on_virtual;
use moirai::units::{ByteCount, Nanos};
use moirai::update::LogWriter;

use super::bosc::{DEPARTURES, Setting, logged, trail};
use crate::{Experiment, Failure, Row};

pub(super) const EXPERIMENT: Experiment = Experiment {
    name: "update-logging",
    source: "BOSC section 6.5",
    summary: "a log where the heads are about to be, on one disk and several, and with each frame behind the last one",
    assumptions: &[
        "Drive: ibm-deskstar-dtla-307030 with its cache, which is flushed with each write; 0.2 ms of overhead for each \
         command, which is not published for it, and none for a flush. The paper has an array of IDE disks, and here it is \
         one, where no other number is given.",
        "The log lies in the outermost zone. At the hub 4 KB take 0.1 ms more. A track is left once 75 % of it are written, \
         so that is the space at least, and it is not judged.",
        "2,000/s: 64 clients, each with one request of 4 KB at a time and some 31 ms between them; another disk is taken when \
         a request has waited for the first so long (T_wait of section 4.1).",
        "Space is what frames take, with their headers and the rest of their last blocks, of the tracks that were passed.",
        DEPARTURES,
    ],
    run,
};

/// What counts, as the paper says it.
const WAIT_MS_MAX: f64 = 0.5;
const RECORDS_PER_S_MIN: f64 = 50_000.0;
const FILL_PUBLISHED: f64 = 0.7;

/// Of several log disks: some 2,000 requests a second come, whatever others wait for.
const CLIENTS: u64 = 64;
const THINK: Nanos = Nanos(31_000_000);
/// How many, and after how long another is taken, in nanoseconds (T_wait of section 4.1).
const DISKS: [(u64, u64); 5] = [(1, 0), (2, 0), (2, 250_000), (2, 1_000_000), (4, 250_000)];

fn setting(record_bytes: usize, clients: u64, log: LogWriter) -> Result<Setting, Failure> {
    let (index, memory) = (ByteCount::mib(512), ByteCount::mib(512));
    Ok(Setting { index, memory, record_bytes, clients, log, ..Setting::of_the_paper()? })
}

fn run(seed: u64) -> Result<Vec<Row>, Failure> {
    rows(seed, ByteCount::mib(32))
}

fn rows(seed: u64, bytes: ByteCount) -> Result<Vec<Row>, Failure> {
    let measure = |record_bytes, clients, log| {
        block_on_virtual(seed, logged(setting(record_bytes, clients, log)?, bytes))
    };
    let judged = |what: &str, unit, ours: f64, published: f64, is_met: bool| {
        let row = Row::new(format!("trail, {what}"), unit, ours).beside(published);
        Row { within: Some(is_met), ..row }
    };
    let space = |what: &str, fill| {
        Row::new(format!("trail, {what}, space (more than)"), "", fill).beside(FILL_PUBLISHED)
    };
    let (one, many) = ("4 KB until durable", "64 B, 1,024 at a time");
    let (blocks, fill) = measure(4096, 1, trail()?)?;
    let mut rows = vec![
        judged(
            &format!("{one} (less than)"),
            "ms",
            blocks.wait_ms,
            WAIT_MS_MAX,
            blocks.wait_ms < WAIT_MS_MAX,
        ),
        space("4 KB", fill),
    ];
    let (records, fill) = measure(64, 1024, trail()?)?;
    let per_s = records.requests_per_s;
    rows.push(judged(
        &format!("{many} (more than)"),
        "records/s",
        per_s,
        RECORDS_PER_S_MIN,
        per_s > RECORDS_PER_S_MIN,
    ));
    rows.push(space("64 B", fill));
    for (disks, wait_ns) in DISKS {
        let log_wait = Nanos(wait_ns);
        let of_clients = setting(4096, CLIENTS, trail()?)?;
        let setting = Setting { log_disks: disks, log_wait, think: THINK, ..of_clients };
        let (blocks, fill) = block_on_virtual(seed, logged(setting, bytes))?;
        let waiting = match disks {
            1 => String::new(),
            _ => format!(", another after {log_wait}"),
        };
        let what = format!("2,000/s, disks: {disks}{waiting}");
        rows.push(Row::new(format!("trail, 4 KB, {what}"), "ms", blocks.wait_ms));
        rows.push(Row::new(format!("trail, 4 KB, {what}, space"), "", fill));
    }
    let (blocks, _) = measure(4096, 1, LogWriter::Append)?;
    rows.push(Row::new(format!("append, {one}"), "ms", blocks.wait_ms));
    let (records, _) = measure(64, 1024, LogWriter::Append)?;
    rows.push(Row::new(format!("append, {many}"), "records/s", records.requests_per_s));
    Ok(rows)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_log_is_as_fast_as_published() {
        let rows = rows(1, ByteCount::mib(4)).unwrap();
        for row in &rows {
            assert_ne!(row.within, Some(false), "{row:?}");
        }
    }
}
