//! TPC-C.

use std::path::PathBuf;
use std::sync::Arc;

use clap::Subcommand;
use moirai::NewFiles;
use moirai::runtime::{Stopwatch, sleep, spawn};
use moirai::tables::{Isolation, Layout, Tables};
use moirai::units::{ByteCount, Nanos, grouped};
use moirai_sql::Database;
use moirai_workloads::driver::{Figures, Running};
use moirai_workloads::tpcc::{self, CONDITIONS, RunOptions, Scale, TABLES, Terminal};
use serde::Serialize;

use crate::failure::{Failure, verdict};
use crate::output::{self, Force};
use crate::store::Place;
use crate::workload::KindReport;
use crate::{print, progress};

#[derive(Subcommand)]
pub(crate) enum Tpcc {
    /// Load the nine tables, some 80 MB for each warehouse, in place of any of their names
    ///
    /// A blank device, or a new file with `?size=` in its URI, becomes a store.
    Load {
        #[command(flatten)]
        place: Place,
        /// Warehouses to load
        #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(i64).range(1..=100_000))]
        warehouses: i64,
        /// How rows lie in pages: nsm, csm or pax
        #[arg(long, default_value = "nsm", value_parser = super::layout)]
        layout: Layout,
    },
    /// Run transactions from many terminals, and print throughput and response times
    ///
    /// On simulated devices the run takes virtual time: the same seed gives the same figures. Commits are durable.
    Run {
        #[command(flatten)]
        place: Place,
        /// Terminals to run
        #[arg(long, default_value_t = 16, value_parser = clap::value_parser!(u64).range(1..=1_000_000))]
        terminals: u64,
        /// Seconds to run
        #[arg(long, default_value_t = 60, value_parser = clap::value_parser!(u64).range(1..=1_000_000))]
        seconds: u64,
        /// Seconds to run before, which do not count
        #[arg(long, default_value_t = 0, value_parser = clap::value_parser!(u64).range(0..=1_000_000))]
        warm_up: u64,
        /// Key in and think between transactions, as the specification asks: 12.86 New-Orders a minute for each warehouse at most
        #[arg(long)]
        think: bool,
        /// Transactions a second to begin at most
        #[arg(long, value_parser = super::rate)]
        rate: Option<f64>,
        /// Hold a snapshot open from the beginning to the end, as a long report does
        #[arg(long)]
        hold: bool,
        /// Isolation of the transactions: read-committed, snapshot or serializable
        #[arg(long, default_value = "snapshot", value_parser = super::isolation)]
        isolation: Isolation,
        /// Page to write: throughput by the second, and response times
        #[arg(long, value_name = "FILE")]
        page: Option<PathBuf>,
        #[command(flatten)]
        force: Force,
        /// Print JSON
        #[arg(long)]
        json: bool,
    },
    /// Check the twelve consistency conditions (clause 3.3.2 of the specification)
    ///
    /// The exit status is 1 when one does not hold.
    Check {
        #[command(flatten)]
        place: Place,
        /// Print JSON
        #[arg(long)]
        json: bool,
    },
}

pub(super) fn run(command: Tpcc) -> Result<(), Failure> {
    match command {
        Tpcc::Load { place, warehouses, layout } => place.run(load(&place, warehouses, layout)),
        Tpcc::Run {
            place,
            terminals,
            seconds,
            warm_up,
            think,
            rate,
            hold,
            isolation,
            page,
            force,
            json,
        } => {
            force.needs_output(page.is_some())?;
            if let Some(path) = &page {
                let devices = [&place.store].into_iter().chain(&place.log).map(String::as_str);
                force.check(path, &devices.collect::<Vec<_>>())?;
            }
            let time = Nanos(seconds * 1_000_000_000);
            let warm_up = Nanos(warm_up * 1_000_000_000);
            let of = RunOptions::of(terminals, time);
            let options = RunOptions { warm_up, thinks: think, rate, isolation, ..of };
            place.run(run_terminals(&place, options, hold, (page, json)))
        }
        Tpcc::Check { place, json } => place.run(check(&place, json)),
    }
}

async fn load(place: &Place, warehouses: i64, layout: Layout) -> Result<(), Failure> {
    let files = NewFiles::new();
    let tables = Tables::over(place.create(&files, place.options(), false).await?.store);
    let bar = progress::bar("loading", None);
    let watch = Stopwatch::start();
    let (scale, pages) = (Scale::of(warehouses), tables.page_options(layout));
    let database = tpcc::load(&tables, scale, pages, |rows| bar.set_position(rows)).await;
    let rows = bar.position();
    bar.finish_and_clear();
    drop(database?);
    let stored: u64 = {
        let snapshot = tables.snapshot().await;
        let mut stored = 0;
        for name in TABLES {
            let table = tables.table(name).await?;
            stored += snapshot.size(&table).await?.stored.0;
        }
        stored
    };
    tables.close().await?;
    print::note(format!(
        "{} rows of {warehouses} warehouses in {}: {} in {:.1} s",
        grouped(rows),
        place.store,
        ByteCount(stored),
        watch.elapsed().as_s()
    ));
    print::note_of_memory(&place.store);
    Ok(())
}

/// The figures of a run, as JSON has them.
#[derive(Serialize)]
struct Report {
    warehouses: i64,
    terminals: u64,
    seconds: f64,
    transactions_per_s: f64,
    new_orders_per_minute: f64,
    conflicts: u64,
    deadlocks: u64,
    lock_waits: u64,
    log_bytes_per_transaction: f64,
    kinds: Vec<KindReport>,
    committed_by_second: Vec<u64>,
}

/// What a store has counted.
struct Counts {
    conflicts: u64,
    deadlocks: u64,
    waits: u64,
    log_bytes: u64,
}

impl Counts {
    fn of(tables: &Tables) -> Counts {
        let of = tables.store().transactions().figures();
        let log_bytes = tables.store().figures().log_bytes;
        Counts { conflicts: of.conflicts, deadlocks: of.deadlocks, waits: of.waits, log_bytes }
    }

    /// What came after an earlier count.
    fn since(&self, before: &Counts) -> Counts {
        Counts {
            conflicts: self.conflicts - before.conflicts,
            deadlocks: self.deadlocks - before.deadlocks,
            waits: self.waits - before.waits,
            log_bytes: self.log_bytes - before.log_bytes,
        }
    }
}

/// The database that was loaded, by one of these commands.
pub(super) async fn open(tables: &Arc<Tables>) -> Result<Arc<tpcc::Database>, Failure> {
    let database = tpcc::open(tables).await.map_err(|error| {
        Failure::Failed(format!("{error}: load the tables with `moirai workload tpcc load`"))
    });
    Ok(Arc::new(database?))
}

/// Runs terminals, and shows how fast they are.
pub(super) async fn run_shown(
    database: &Arc<tpcc::Database>,
    options: RunOptions,
) -> Result<Figures, Failure> {
    let running = Arc::new(Running::default());
    let all = Nanos(options.warm_up.0 + options.time.0);
    super::shown(all, &running, tpcc::run(database, options, &running)).await
}

async fn run_terminals(
    place: &Place,
    options: RunOptions,
    hold: bool,
    (page, json): (Option<PathBuf>, bool),
) -> Result<(), Failure> {
    let tables = place.tables().await?;
    let database = open(&tables).await?;
    let held = if hold { Some(tables.snapshot().await) } else { None };
    let before = Counts::of(&tables);
    let warm = (options.warm_up > Nanos(0)).then(|| {
        let tables = Arc::clone(&tables);
        spawn(async move {
            sleep(options.warm_up).await;
            Counts::of(&tables)
        })
    });
    let figures = run_shown(&database, options).await?;
    drop(held);
    let before = match warm {
        Some(warm) => warm.await,
        None => before,
    };
    let counts = Counts::of(&tables).since(&before);
    let report = report(&database, options, &figures, &counts);
    drop(database);
    tables.close().await?;
    let lead = format!(
        "{} warehouses, {} terminals, {:.1} s: {:.0} transactions/s, {:.0} New-Orders/min",
        report.warehouses,
        report.terminals,
        report.seconds,
        report.transactions_per_s,
        report.new_orders_per_minute
    );
    if let Some(path) = page {
        let of = (&report.kinds[..], &figures);
        output::write(&path, &super::page::page("TPC-C", &lead, "transactions", of))?;
    }
    if json {
        return print::json(&report);
    }
    print::line(lead)?;
    print::line(format!(
        "{} lock waits, {} conflicts, {} deadlocks; {:.0} bytes of log for each transaction\n",
        grouped(report.lock_waits),
        grouped(report.conflicts),
        grouped(report.deadlocks),
        report.log_bytes_per_transaction
    ))?;
    super::print_kinds("transaction", &report.kinds)
}

fn report(
    database: &tpcc::Database,
    options: RunOptions,
    figures: &Figures,
    counts: &Counts,
) -> Report {
    let committed: u64 = figures.kinds.iter().map(|kind| kind.committed).sum();
    Report {
        warehouses: database.scale.warehouses,
        terminals: options.terminals,
        seconds: figures.time.as_s(),
        transactions_per_s: figures.per_second(),
        new_orders_per_minute: tpcc::new_orders_per_minute(figures),
        conflicts: counts.conflicts,
        deadlocks: counts.deadlocks,
        lock_waits: counts.waits,
        log_bytes_per_transaction: counts.log_bytes as f64 / committed.max(1) as f64,
        kinds: super::kinds_of::<Terminal>(figures),
        committed_by_second: figures.by_second.clone(),
    }
}

/// Whether a condition holds, as JSON has it.
#[derive(Serialize)]
struct Checked {
    condition: u32,
    says: &'static str,
    holds: bool,
    broken_rows: u64,
}

async fn check(place: &Place, json: bool) -> Result<(), Failure> {
    let tables = place.tables_to_read().await?;
    let database = Database::over(&tables);
    let mut all = Vec::with_capacity(CONDITIONS.len());
    for condition in CONDITIONS {
        let (_, rows) = database.query(condition.broken).await?;
        let broken_rows: u64 = rows.iter().map(|batch| batch.num_rows() as u64).sum();
        let (condition, says, holds) = (condition.number, condition.says, broken_rows == 0);
        all.push(Checked { condition, says, holds, broken_rows });
    }
    drop(database);
    tables.close().await?;
    let broken = all.iter().filter(|one| !one.holds).count();
    let printed = if json {
        print::json(&all)
    } else {
        let rows = all.iter().map(|one| {
            let holds = match one.holds {
                true => "holds".to_owned(),
                false => format!("{} rows break it", one.broken_rows),
            };
            vec![one.condition.to_string(), one.says.to_owned(), holds]
        });
        print::table(&[("condition", true), ("says", false), ("", false)], rows.collect())
    };
    let holds = match broken {
        0 => Ok(()),
        _ => Err(Failure::Failed(format!("{broken} of {} conditions do not hold", all.len()))),
    };
    verdict(printed, holds)
}
