//! CH-benCHmark: terminals and streams of queries on the same tables.

use std::pin::pin;
use std::sync::Arc;

use clap::Subcommand;
use futures::FutureExt;
use moirai::NewFiles;
use moirai::runtime::{Stopwatch, now, sleep, spawn};
use moirai::tables::{Isolation, Layout, Tables};
use moirai::units::{Instant, Nanos, grouped};
use moirai_sql::Database;
use moirai_workloads::ch::{self, QUERIES};
use moirai_workloads::driver::Figures;
use moirai_workloads::tpcc::{self, RunOptions, Scale};
use serde::Serialize;

use crate::failure::Failure;
use crate::store::Place;
use crate::{print, progress};

/// How often to look whether stopped queries have ended, every 10 ms.
const STOPPED_TRIES: u32 = 500;

#[derive(Subcommand)]
pub(crate) enum Ch {
    /// Load the tables of TPC-C, some 80 MB for each warehouse, and three more, in place of any of their names
    ///
    /// A blank device, or a new file with `?size=` in its URI, becomes a store.
    Load {
        #[command(flatten)]
        place: Place,
        /// Warehouses to load
        #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(i64).range(1..=100_000))]
        warehouses: i64,
        /// How rows lie in pages: nsm, csm or pax
        #[arg(long, default_value = "csm", value_parser = super::layout)]
        layout: Layout,
    },
    /// Run terminals and streams of queries at the same time, and print the throughput of both
    ///
    /// Each query sees all that was committed before it began. Compare with a run of `--streams 0`, and with one of `--terminals 0`.
    Run {
        #[command(flatten)]
        place: Place,
        /// Terminals to run
        #[arg(long, default_value_t = 16, value_parser = clap::value_parser!(u64).range(0..=1_000_000))]
        terminals: u64,
        /// Streams of queries to run, each with the 22 queries again and again
        #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u64).range(0..=1000))]
        streams: u64,
        /// Seconds to run
        #[arg(long, default_value_t = 60, value_parser = clap::value_parser!(u64).range(1..=1_000_000))]
        seconds: u64,
        /// Transactions a second to begin at most
        #[arg(long, value_parser = super::rate)]
        rate: Option<f64>,
        /// Isolation of the transactions: read-committed, snapshot or serializable
        #[arg(long, default_value = "snapshot", value_parser = super::isolation)]
        isolation: Isolation,
        /// Print JSON
        #[arg(long)]
        json: bool,
    },
}

pub(super) fn run(command: Ch) -> Result<(), Failure> {
    match command {
        Ch::Load { place, warehouses, layout } => place.run(load(&place, warehouses, layout)),
        Ch::Run { place, terminals, streams, seconds, rate, isolation, json } => {
            let time = Nanos(seconds * 1_000_000_000);
            let options = RunOptions { rate, isolation, ..RunOptions::of(terminals, time) };
            place.run(run_both(&place, options, streams, json))
        }
    }
}

async fn load(place: &Place, warehouses: i64, layout: Layout) -> Result<(), Failure> {
    let files = NewFiles::new();
    let tables = Tables::over(place.create(&files, place.options(), false).await?.store);
    let bar = progress::bar("loading", None);
    let watch = Stopwatch::start();
    let scale = Scale::of(warehouses);
    let pages = tables.page_options(layout);
    let loaded = tpcc::load(&tables, scale, pages, |rows| bar.set_position(rows)).await;
    let rows = bar.position();
    bar.finish_and_clear();
    drop(loaded?);
    ch::load(&tables, layout).await?;
    tables.close().await?;
    let (rows, seconds) = (grouped(rows), watch.elapsed().as_s());
    print::note(format!(
        "{rows} rows of {warehouses} warehouses, and the suppliers, in {} in {seconds:.1} s",
        place.store
    ));
    print::note_of_memory(&place.store);
    Ok(())
}

/// How long a query took, each time that it was run to its end.
#[derive(Clone, Default)]
struct Times(Vec<f64>);

/// The figures of a query, as JSON has them.
#[derive(Serialize)]
struct QueryReport {
    query: usize,
    runs: usize,
    mean_s: f64,
    max_s: f64,
}

/// The figures of a run, as JSON has them.
#[derive(Serialize)]
struct Report {
    warehouses: i64,
    terminals: u64,
    streams: u64,
    seconds: f64,
    transactions_per_s: f64,
    queries_per_hour: f64,
    queries: Vec<QueryReport>,
    committed_by_second: Vec<u64>,
}

/// Runs the queries in a loop, beginning with number `first`, until the time is over. A query that has not finished by then is not counted.
async fn run_stream(tables: Arc<Tables>, first: usize, time: Nanos) -> Result<Vec<Times>, Failure> {
    let database = Database::over(&tables);
    let mut times = vec![Times::default(); QUERIES.len()];
    let end = now() + time;
    let all = QUERIES.iter().enumerate().cycle().skip(first);
    for (number, query) in all {
        let asked = now();
        if !answer(&database, query, end).await? {
            break;
        }
        if let Some(of_query) = times.get_mut(number) {
            of_query.0.push(now().since(asked).as_s());
        }
    }
    Ok(times)
}

/// Reads the answer of a query; stops it when the time is over, and tells whether it was read to its end.
async fn answer(database: &Database, query: &str, end: Instant) -> Result<bool, Failure> {
    let mut answer = database.stream(query).await?;
    loop {
        let left = sleep(Nanos(end.ns.saturating_sub(now().ns)));
        let next = futures::select_biased! {
            next = pin!(answer.next().fuse()) => next?.is_some(),
            () = pin!(left.fuse()) => {
                answer.stop().await;
                return Ok(false);
            }
        };
        if !next {
            return Ok(true);
        }
    }
}

async fn run_both(
    place: &Place,
    options: RunOptions,
    streams: u64,
    json: bool,
) -> Result<(), Failure> {
    let tables = place.tables().await?;
    let database = super::tpcc::open(&tables).await?;
    if tables.find(ch::TABLES[0]).await?.is_none() {
        let problem = "the suppliers are missing: load the tables with `moirai workload ch load`";
        return Err(Failure::Failed(problem.to_owned()));
    }
    let tasks: Vec<_> = (0..streams)
        .map(|stream| {
            // Not all with the same query.
            let first = stream as usize * 7 % QUERIES.len();
            spawn(run_stream(Arc::clone(&tables), first, options.time))
        })
        .collect();
    let figures = match options.terminals {
        0 => Ok(Figures::default()),
        _ => super::tpcc::run_shown(&database, options).await,
    };
    let mut times = vec![Times::default(); QUERIES.len()];
    for task in tasks {
        for (all, mut one) in times.iter_mut().zip(task.await?) {
            all.0.append(&mut one.0);
        }
    }
    let report = report(&database, options, streams, (&figures?, &times));
    drop(database);
    // Tasks of queries that were stopped hold the tables a moment longer.
    for _ in 0..STOPPED_TRIES {
        if Arc::strong_count(&tables) == 1 {
            break;
        }
        sleep(Nanos::from_ms(10.0)).await;
    }
    tables.close().await?;
    if json {
        return print::json(&report);
    }
    print::line(format!(
        "{} warehouses, {} terminals, {} streams, {:.1} s: {:.0} transactions/s, {:.0} queries/h\n",
        report.warehouses,
        report.terminals,
        report.streams,
        report.seconds,
        report.transactions_per_s,
        report.queries_per_hour
    ))?;
    let columns = [("query", true), ("runs", true), ("mean s", true), ("longest s", true)];
    let rows = report.queries.iter().map(|one| {
        let (mean, max) = (format!("{:.2}", one.mean_s), format!("{:.2}", one.max_s));
        vec![one.query.to_string(), one.runs.to_string(), mean, max]
    });
    print::table(&columns, rows.collect())
}

fn report(
    database: &tpcc::Database,
    options: RunOptions,
    streams: u64,
    (figures, times): (&Figures, &[Times]),
) -> Report {
    let queries = times.iter().enumerate().filter(|(_, times)| !times.0.is_empty());
    let queries: Vec<QueryReport> = queries
        .map(|(number, Times(times))| QueryReport {
            query: number + 1,
            runs: times.len(),
            mean_s: times.iter().sum::<f64>() / times.len() as f64,
            max_s: times.iter().copied().fold(0.0, f64::max),
        })
        .collect();
    let seconds = options.time.as_s();
    let runs: usize = queries.iter().map(|one| one.runs).sum();
    Report {
        warehouses: database.scale.warehouses,
        terminals: options.terminals,
        streams,
        seconds,
        transactions_per_s: figures.per_second(),
        queries_per_hour: runs as f64 / seconds * 3600.0,
        queries,
        committed_by_second: figures.by_second.clone(),
    }
}
