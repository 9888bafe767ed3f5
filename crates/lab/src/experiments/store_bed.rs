//! A store on simulated disks with the tables of TPC-H and TPC-C, and how long queries and transactions take there.

use std::sync::Arc;

use moirai::devices::Contents;
use moirai::runtime::{now, sleep, spawn};
use moirai::storage::Device;
use moirai::tables::{LoadOptions, PageOptions, TableDefinition, Tables};
use moirai::units::{ByteCount, Nanos};
use moirai_models::{Profile, Scheduler};
use moirai_sql::Database;
use moirai_workloads::driver::{Figures, Running};
use moirai_workloads::tpcc::{self, RunOptions};
use moirai_workloads::tpch;

use crate::Failure;
use crate::context::Stage;
use crate::setting::{profile, scheduled_drive};

/// Pages of rows and of indexes.
pub(super) const LEAF: ByteCount = ByteCount(8 << 10);
/// Rows of a batch that is loaded.
const BATCH_ROWS: usize = 8192;
/// Longer than any query: terminals beside one are stopped.
const FOR_EVER: Nanos = Nanos(1_000_000_000_000_000);

/// The drive of thesis 5.7: a Maxtor Atlas 10K III. The thesis says nothing of its cache, which is that of its predecessor here: of as many
/// megabytes, and it reads on.
pub(super) fn atlas() -> Result<Profile, Failure> {
    let mut file = profile("maxtor-atlas-10k-iii")?.file;
    file.cache = profile("quantum-atlas-10k-ii")?.file.cache;
    file.sources.insert("cache".into(), "interpolated: as the Quantum Atlas 10K II".into());
    Profile::new(file).map_err(|error| Failure::Setting(error.to_string()))
}

/// One for the data. It serves the nearest request first, less a third of the time that each has waited.
pub(super) fn data_atlas() -> Result<Arc<dyn Device>, Failure> {
    let how = (Scheduler::AgedSptf { weight: 0.3 }, None);
    Ok(scheduled_drive(&atlas()?, "data".into(), Contents::memory(), how))
}

/// What an experiment on it says of both.
pub(super) const DRIVE: &str = "The drive takes the nearest request first, less 0.3 of the time that each has waited: if it took the nearest alone, a scan whose next \
     request is there would keep all others waiting. Its cache is that of the quantum-atlas-10k-ii, 8 MB in 16 segments, and reads on. The \
     thesis says nothing of either.";

/// Loads a table of TPC-H.
async fn load_tpch(
    tables: &Arc<Tables>,
    table: tpch::Table,
    pages: PageOptions,
    scale: f64,
) -> Result<(), Failure> {
    let mut definition = TableDefinition::new(table.schema(), table.primary_key(scale))?;
    definition.pages = pages;
    let mut load = tables.load(table.name(), definition, LoadOptions::default()).await?;
    for batch in table.batches(scale, BATCH_ROWS) {
        load.push(&batch?).await?;
    }
    load.finish().await?;
    Ok(())
}

/// Loads some tables of TPC-H, one after the other, and empties the log.
pub(super) async fn load_all(
    tables: &Arc<Tables>,
    which: &[tpch::Table],
    pages: PageOptions,
    scale: f64,
    stage: &Stage,
) -> Result<(), Failure> {
    for (index, table) in which.iter().enumerate() {
        load_tpch(tables, *table, pages, scale).await?;
        stage.at((index + 1) as f64 / which.len() as f64);
    }
    tables.store().checkpoint().await?;
    Ok(())
}

/// Virtual seconds of a query of TPC-H.
pub(super) async fn query_s(database: &Database, query: u8, scale: f64) -> Result<f64, Failure> {
    let statement = tpch::query(query, scale)
        .ok_or_else(|| Failure::Setting(format!("there is no query {query}")))?;
    let began = now();
    database.query(&statement).await?;
    Ok(now().since(began).as_s())
}

/// Virtual seconds of a query while terminals run, and what these do meanwhile: the mean of as many runs, one after the other, as begin
/// in the terminals' time.
pub(super) async fn query_beside(
    (database, query, scale): (&Database, u8, f64),
    terminals: &Arc<tpcc::Database>,
    options: RunOptions,
) -> Result<(f64, Figures), Failure> {
    let running = Arc::new(Running::default());
    let until_stopped = RunOptions { time: FOR_EVER, ..options };
    let task = {
        let (terminals, running) = (Arc::clone(terminals), Arc::clone(&running));
        spawn(async move { tpcc::run(&terminals, until_stopped, &running).await })
    };
    sleep(options.warm_up).await;
    let (began, mut runs) = (now(), 0);
    let mut failed = Ok(());
    while failed.is_ok() && now().since(began).0 < options.time.0 {
        failed = query_s(database, query, scale).await.map(drop);
        runs += 1;
    }
    let mean_s = now().since(began).as_s() / f64::from(runs.max(1));
    running.stop();
    let figures = task.await?;
    failed?;
    Ok((mean_s, figures))
}

/// Runs terminals.
pub(super) async fn transactions(
    terminals: &Arc<tpcc::Database>,
    options: RunOptions,
) -> Result<Figures, Failure> {
    Ok(tpcc::run(terminals, options, &Arc::new(Running::default())).await?)
}
