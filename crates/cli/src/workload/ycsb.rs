//! YCSB.

use std::sync::Arc;

use clap::Subcommand;
use moirai::NewFiles;
use moirai::runtime::Stopwatch;
use moirai::tables::{Layout, Tables};
use moirai::units::{Nanos, grouped};
use moirai_workloads::driver::{Pace, Running, drive};
use moirai_workloads::ycsb::{self, MIXES, Mix, User};
use serde::Serialize;

use crate::failure::Failure;
use crate::store::Place;
use crate::workload::KindReport;
use crate::{print, progress};

#[derive(Subcommand)]
pub(crate) enum Ycsb {
    /// Load records of a key and ten fields of 100 bytes, in place of a table `usertable`
    ///
    /// A blank device, or a new file with `?size=` in its URI, becomes a store.
    Load {
        #[command(flatten)]
        place: Place,
        /// Records to load
        #[arg(long, default_value_t = 100_000, value_parser = clap::value_parser!(u64).range(1..=10_000_000_000))]
        records: u64,
        /// How rows lie in pages: nsm, csm or pax
        #[arg(long, default_value = "nsm", value_parser = super::layout)]
        layout: Layout,
    },
    /// Run a mix of operations, and print throughput and response times. Commits are durable
    ///
    /// a: half reads, half updates of a field. b: 95 % reads. c: reads alone. d: 95 % reads of the newest records, and inserts. e: 95 % scans
    /// of up to 100 records, and inserts. f: half reads, half reads with an update of what was read.
    Run {
        #[command(flatten)]
        place: Place,
        /// The mix: a, b, c, d, e or f
        #[arg(long, default_value = "a", value_parser = mix)]
        mix: Mix,
        /// Records that were loaded
        #[arg(long, default_value_t = 100_000, value_parser = clap::value_parser!(u64).range(1..=10_000_000_000))]
        records: u64,
        /// How much more the first records are asked for than others: from 0, all alike, to below 1
        #[arg(long, default_value_t = 0.99, value_parser = skew)]
        skew: f64,
        /// Clients to run
        #[arg(long, default_value_t = 16, value_parser = clap::value_parser!(u64).range(1..=1_000_000))]
        clients: u64,
        /// Seconds to run
        #[arg(long, default_value_t = 60, value_parser = clap::value_parser!(u64).range(1..=1_000_000))]
        seconds: u64,
        /// Operations a second to begin at most
        #[arg(long, value_parser = super::rate)]
        rate: Option<f64>,
        /// Print JSON
        #[arg(long)]
        json: bool,
    },
}

fn mix(name: &str) -> Result<Mix, String> {
    let found = MIXES.into_iter().find(|mix| mix.name.to_string() == name.to_lowercase());
    found.ok_or_else(|| "take a, b, c, d, e or f".to_owned())
}

fn skew(text: &str) -> Result<f64, String> {
    let skew = text.parse().ok().filter(|skew: &f64| (0.0..1.0).contains(skew));
    skew.ok_or_else(|| "a skew is from 0 to below 1".to_owned())
}

pub(super) fn run(command: Ycsb) -> Result<(), Failure> {
    match command {
        Ycsb::Load { place, records, layout } => place.run(load(&place, records, layout)),
        Ycsb::Run { place, mix, records, skew, clients, seconds, rate, json } => {
            let time = Nanos(seconds * 1_000_000_000);
            let pace = Pace { rate, ..Pace::of(time) };
            place.run(run_mix(&place, (mix, records, skew), (clients, pace), json))
        }
    }
}

async fn load(place: &Place, records: u64, layout: Layout) -> Result<(), Failure> {
    let files = NewFiles::new();
    let tables = Tables::over(place.create(&files, place.options(), false).await?.store);
    let bar = progress::bar("loading", Some(records));
    let watch = Stopwatch::start();
    let loaded = ycsb::load(&tables, records, layout, |done| bar.set_position(done)).await;
    bar.finish_and_clear();
    loaded?;
    tables.close().await?;
    let (records, seconds) = (grouped(records), watch.elapsed().as_s());
    print::note(format!("{records} records in {} in {seconds:.1} s", place.store));
    print::note_of_memory(&place.store);
    Ok(())
}

/// The figures of a run, as JSON has them.
#[derive(Serialize)]
struct Report {
    mix: char,
    records: u64,
    skew: f64,
    clients: u64,
    seconds: f64,
    operations_per_s: f64,
    kinds: Vec<KindReport>,
    committed_by_second: Vec<u64>,
}

async fn run_mix(
    place: &Place,
    (mix, records, skew): (Mix, u64, f64),
    (clients, pace): (u64, Pace),
    json: bool,
) -> Result<(), Failure> {
    let tables = place.tables().await?;
    let database = ycsb::open(&tables, records, skew).await.map_err(|error| {
        Failure::Failed(format!("{error}: load the table with `moirai workload ycsb load`"))
    })?;
    if !database.is_whole().await? {
        let records = grouped(records);
        return Err(Failure::Failed(format!(
            "the table has fewer than {records} records: give the --records that were loaded"
        )));
    }
    let running = Arc::new(Running::default());
    let users = (0..clients).map(|number| User::new(&database, mix, number)).collect();
    let figures = super::shown(pace.time, &running, drive(users, pace, &running)).await?;
    drop(database);
    tables.close().await?;
    let report = Report {
        mix: mix.name,
        records,
        skew,
        clients,
        seconds: figures.time.as_s(),
        operations_per_s: figures.per_second(),
        kinds: super::kinds_of::<User>(&figures),
        committed_by_second: figures.by_second,
    };
    if json {
        return print::json(&report);
    }
    print::line(format!(
        "mix {}, {} records, {} clients, {:.1} s: {} operations/s\n",
        report.mix,
        grouped(report.records),
        report.clients,
        report.seconds,
        grouped(report.operations_per_s as u64)
    ))?;
    super::print_kinds("operation", &report.kinds)
}
