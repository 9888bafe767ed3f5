//! One queue or one for each place, a log behind its end or where the head is: figure 3 of the BOSC paper.

use moirai::runtime::block_on_virtual;
use moirai::units::ByteCount;
use moirai::update::LogWriter;

use super::bosc::{DEPARTURES, Setting, sustained, trail};
use super::index_requests::Workload;
use super::one_queue::in_one_queue;
use crate::{Experiment, Failure, Row};

pub(super) const EXPERIMENT: Experiment = Experiment {
    name: "update-variants",
    source: "BOSC figure 3 and section 6.2",
    summary: "updates of TPC-C's indexes: many queues and one, a log where the head is and one behind its end",
    assumptions: &[
        "Drives: five ibm-deskstar-dtla-307030. Index and memory are a 64th of the paper's: 16 MB for 1 GB, 12.8 MB for a \
         warehouse. All lies at the rim then, where seeks are short, which helps one queue most; hot and cold places lie \
         closer together than in the paper's indexes, and ours slows down with more warehouses, which the paper's does not.",
        "The paper's traces are not published. Here are the rows that TPC-C's new orders, payments and deliveries change \
         (clauses 2.4 to 2.7), tables as large as their rows are at first; leaves keep as many as they have room for. What \
         only reads is left out: it is the same for all variants. So is the plain tree.",
        "24 requests under way, so that a log behind its end takes about what the paper's took, 2,386 a second; trail over \
         append follows from that, and with a thousand the sweeps would be the limit of both. Processors take no time; the \
         paper's took 140 us for an insert (6.3).",
        "With one queue the first N updates are brought to their leaves in the order of their addresses; the paper does not \
         say how many. N = 1 comes nearest to its 20 a second, and is judged; N = 64 is beside it. The paper has no staging.",
        DEPARTURES,
    ],
    run,
};

/// The paper's sizes by this.
const SCALE: u64 = 64;
const CLIENTS: u64 = 24;
const WAREHOUSES: [u64; 4] = [20, 40, 60, 80];
/// What the text has of the figure, at 80 warehouses.
const PUBLISHED: (u64, f64, f64, f64) = (80, 6058.0, 2386.0, 20.0);
/// How many updates of one queue are measured.
const ONE_QUEUE_REQUESTS: u64 = 2000;

fn run(seed: u64) -> Result<Vec<Row>, Failure> {
    let mut rows = Vec::new();
    for warehouses in WAREHOUSES {
        // The paper's indexes had 0.8 GB for a warehouse.
        let index = ByteCount((16 << 30) / 20 * warehouses);
        let setting = Setting {
            index,
            clients: CLIENTS,
            workload: Workload::TpcC { warehouses },
            ..Setting::of_the_paper()?
        };
        rows.extend(rows_of(seed, setting.scaled(SCALE), warehouses)?);
    }
    Ok(rows)
}

fn rows_of(seed: u64, setting: Setting, warehouses: u64) -> Result<Vec<Row>, Failure> {
    let append = Setting { log: LogWriter::Append, ..setting };
    let trail = Setting { log: trail()?, ..setting };
    let many_trail = block_on_virtual(seed, sustained(trail))?;
    let many_append = block_on_virtual(seed, sustained(append))?;
    let one =
        |setting, batch| block_on_virtual(seed, in_one_queue(setting, batch, ONE_QUEUE_REQUESTS));
    let (one_trail, one_append) = (one(trail, 1)?, one(append, 1)?);
    let one_of_64 = one(trail, 64)?;
    let row =
        |what: &str, ours| Row::new(format!("{warehouses} warehouses, {what}"), "requests/s", ours);
    let mut rows = vec![
        row("many queues, trail", many_trail),
        row("many queues, append", many_append),
        row("one queue, trail", one_trail),
        row("one queue, append", one_append),
        row("one queue, trail, 64 at a time", one_of_64),
    ];
    let times = |what: &str, times: f64| {
        Row::new(format!("{warehouses} warehouses, {what}"), "times", times)
    };
    let mut factors = vec![
        times("trail over append", many_trail / many_append),
        times("many queues over one", many_trail / one_trail),
    ];
    let (published_for, many, appended, single) = PUBLISHED;
    if warehouses == published_for {
        let staged = Setting { staging_percent: 100, ..trail };
        let staged = block_on_virtual(seed, sustained(staged))?;
        factors.push(times("many queues with staging over one", staged / one_trail));
        for (row, published) in rows.iter_mut().zip([many, appended, single]) {
            *row = row.clone().beside(published);
        }
        let published = [(many / appended, 2.5), (many / single, 300.0)];
        for (row, (published, least)) in factors.iter_mut().zip(published) {
            *row = Row { within: Some(row.ours >= least), ..row.clone().beside(published) };
        }
    }
    rows.extend(factors);
    Ok(rows)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// At a 1024th of the paper's sizes.
    #[test]
    fn the_variants_come_in_the_order_of_the_paper() {
        let warehouses = 4;
        let setting = Setting {
            index: ByteCount(64 << 30),
            clients: CLIENTS,
            workload: Workload::TpcC { warehouses },
            ..Setting::of_the_paper().unwrap()
        };
        let rows = rows_of(1, setting.scaled(1024), warehouses).unwrap();
        let [many_trail, many_append, one_trail, ..] = &rows[..] else { panic!("{rows:?}") };
        assert!(many_trail.ours > 2.5 * many_append.ours, "{rows:?}");
        assert!(many_append.ours > 10.0 * one_trail.ours, "{rows:?}");
    }
}
