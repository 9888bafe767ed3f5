//! `moirai workload`: benchmarks on the tables of a store.

mod ch;
mod page;
mod tpcc;
mod ycsb;

use std::sync::Arc;

use clap::Subcommand;
use moirai::runtime::{now, sleep, spawn};
use moirai::tables::{Isolation, Layout};
use moirai::units::{Nanos, grouped};
use moirai_workloads::driver::{Client, Figures, Running};
use serde::Serialize;

use crate::failure::Failure;
use crate::{print, progress};

#[derive(Subcommand)]
pub(crate) enum Command {
    /// TPC-C: orders, payments and deliveries of a wholesaler, in transactions of a few rows each
    #[command(subcommand)]
    Tpcc(tpcc::Tpcc),
    /// CH-benCHmark: TPC-C with the queries of TPC-H over the same tables at the same time
    #[command(subcommand)]
    Ch(ch::Ch),
    /// YCSB: reads, updates, inserts and scans of single records, some asked for more than others
    #[command(subcommand)]
    Ycsb(ycsb::Ycsb),
}

pub(crate) fn run(command: Command) -> Result<(), Failure> {
    match command {
        Command::Tpcc(command) => tpcc::run(command),
        Command::Ch(command) => ch::run(command),
        Command::Ycsb(command) => ycsb::run(command),
    }
}

fn layout(name: &str) -> Result<Layout, String> {
    Layout::of_name(name).ok_or_else(|| "take nsm, csm or pax".to_owned())
}

fn isolation(name: &str) -> Result<Isolation, String> {
    match name {
        "read-committed" => Ok(Isolation::ReadCommitted),
        "snapshot" => Ok(Isolation::Snapshot),
        "serializable" => Ok(Isolation::Serializable),
        _ => Err("take read-committed, snapshot or serializable".to_owned()),
    }
}

fn rate(text: &str) -> Result<f64, String> {
    let rate = text.parse().ok().filter(|rate: &f64| rate.is_finite() && *rate > 0.0);
    rate.ok_or_else(|| "a rate is a number above zero".to_owned())
}

/// The figures of one kind of operations, as JSON has them.
#[derive(Serialize)]
struct KindReport {
    kind: &'static str,
    committed: u64,
    rolled_back: u64,
    retries: u64,
    p50_ms: f64,
    p90_ms: f64,
    p99_ms: f64,
    p999_ms: f64,
}

impl KindReport {
    fn was_run(&self) -> bool {
        self.committed + self.rolled_back > 0
    }

    /// Its name and its figures, as tables show them.
    fn cells(&self) -> Vec<String> {
        let counts = [self.committed, self.rolled_back, self.retries].map(grouped);
        let times = [self.p50_ms, self.p90_ms, self.p99_ms, self.p999_ms];
        let times = times.map(|ms| format!("{ms:.2}"));
        [self.kind.to_owned()].into_iter().chain(counts).chain(times).collect()
    }
}

/// The figures of each kind, in their order.
fn kinds_of<C: Client>(figures: &Figures) -> Vec<KindReport> {
    let kinds = C::KINDS.iter().zip(&figures.kinds).map(|(kind, of_kind)| KindReport {
        kind,
        committed: of_kind.committed,
        rolled_back: of_kind.rolled_back,
        retries: of_kind.retries,
        p50_ms: of_kind.percentile(0.5).as_ms(),
        p90_ms: of_kind.percentile(0.9).as_ms(),
        p99_ms: of_kind.percentile(0.99).as_ms(),
        p999_ms: of_kind.percentile(0.999).as_ms(),
    });
    kinds.collect()
}

/// Prints the figures of kinds of which some were run.
fn print_kinds(what: &str, kinds: &[KindReport]) -> Result<(), Failure> {
    let columns = [
        (what, false),
        ("committed", true),
        ("rolled back", true),
        ("retries", true),
        ("p50 ms", true),
        ("p90 ms", true),
        ("p99 ms", true),
        ("p99.9 ms", true),
    ];
    let rows = kinds.iter().filter(|kind| kind.was_run());
    print::table(&columns, rows.map(KindReport::cells).collect())
}

/// Shows how fast clients are until they have run.
async fn shown<T>(
    time: Nanos,
    running: &Arc<Running>,
    run: impl Future<Output = moirai::tables::Result<T>>,
) -> Result<T, Failure> {
    let bar = progress::bar("", Some(time.as_s() as u64));
    let shown = {
        let (bar, running, began) = (bar.clone(), Arc::clone(running), now());
        spawn(async move {
            let (mut before, mut at) = (0, began);
            loop {
                sleep(Nanos(1_000_000_000)).await;
                let (committed, time) = (running.committed(), now());
                let rate = (committed - before) as f64 / time.since(at).as_s().max(1e-9);
                bar.set_position(time.since(began).as_s() as u64);
                bar.set_message(format!("{rate:.0}/s"));
                (before, at) = (committed, time);
            }
        })
        .bound()
    };
    let done = run.await;
    drop(shown);
    bar.finish_and_clear();
    Ok(done?)
}
