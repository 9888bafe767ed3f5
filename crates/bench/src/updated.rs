//! Scans of one attribute of TPC-H's `lineitem`, with pending updates of it, and with concurrent ones.
//!
//! Updates set `l_discount` of random rows by their primary key, in commits of 1000. Scans are warm: the file is in the page cache,
//! and direct I/O off. With pending updates they run on one core, so that the time of a scan is the processor time of all of its
//! work. Concurrent updates and scans run on all cores.

use std::error::Error;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use arrow_array::cast::AsArray;
use arrow_array::types::{Int32Type, Int64Type};
use arrow_array::{ArrayRef, Decimal128Array, Int32Array, Int64Array};
use moirai::runtime::{Random, Stopwatch, block_on_real, random, sleep, spawn};
use moirai::tables::{Changes, LoadOptions, ScanOptions, Table as Stored, TableDefinition, Tables};
use moirai::units::{ByteCount, Nanos};
use moirai::update::Options;
use moirai::{Access, NewFiles};
use moirai_workloads::tpch::Table;
use rand::Rng;
use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};

use crate::pin_to_one_core;

const KEY: [usize; 2] = [0, 3];
const DISCOUNT: usize = 6;
const TAX: usize = 7;
const GROUP: u64 = 1000;
const LEAF: ByteCount = ByteCount(8 << 10);

type Outcome<T> = Result<T, Box<dyn Error>>;

/// What is measured of `lineitem`.
pub(crate) struct Settings {
    pub(crate) scale_factor: f64,
    /// How many updates are pending.
    pub(crate) pending: u64,
    /// Updates per second during the scans, and for how long.
    pub(crate) rate_per_s: u64,
    pub(crate) seconds: f64,
    /// Memory of the store.
    pub(crate) memory: ByteCount,
    /// Runs of each; the median counts.
    pub(crate) runs: usize,
}

pub(crate) fn run(settings: &Settings) -> Outcome<()> {
    let all_cores = sched_getaffinity(None)?;
    pin_to_one_core()?;
    block_on_real(1, pending(settings))?;
    unpin(&all_cores)?;
    block_on_real(1, concurrent(settings))
}

fn unpin(cores: &CpuSet) -> Outcome<()> {
    Ok(sched_setaffinity(None, cores)?)
}

/// `lineitem`, loaded, and the keys of its rows.
struct Lineitem {
    tables: Arc<Tables>,
    table: Stored,
    orders: Vec<i64>,
    lines: Vec<i32>,
    /// The file is removed with it.
    _folder: tempfile::TempDir,
}

impl Lineitem {
    async fn load(settings: &Settings) -> Outcome<Lineitem> {
        let folder = tempfile::tempdir()?;
        let bytes = (settings.scale_factor * 4e9) as u64 + (256 << 20);
        let uri = format!(
            "file:{}?size={}MiB&direct=false",
            folder.path().join("store").display(),
            bytes >> 20
        );
        let device = moirai::open_device_for(&uri, Access::Create(&NewFiles::new())).await?;
        // What waits stays in memory: nothing is swept while nobody commits.
        let options = Options { memory: settings.memory, idle: None, ..Options::default() };
        let tables = moirai::create_tables_on(device, LEAF, options).await?;
        let of = Table::LineItem;
        let definition = TableDefinition::new(of.schema(), of.primary_key(settings.scale_factor))?;
        let mut load = tables.load(of.name(), definition, LoadOptions::default()).await?;
        let (mut orders, mut lines) = (Vec::new(), Vec::new());
        for batch in of.batches(settings.scale_factor, 8192) {
            let batch = batch?;
            let [order, line] = KEY.map(|column| batch.column(column));
            orders.extend_from_slice(order.as_primitive::<Int64Type>().values());
            lines.extend_from_slice(line.as_primitive::<Int32Type>().values());
            load.push(&batch).await?;
        }
        let (table, _) = load.finish().await?;
        Ok(Lineitem { tables, table, orders, lines, _folder: folder })
    }

    /// Sets `l_discount` of some random rows, in one commit.
    async fn update(&self, random: &mut Random, rows: u64) -> Outcome<()> {
        let (mut orders, mut lines): (Vec<i64>, Vec<i32>) = (Vec::new(), Vec::new());
        for _ in 0..rows {
            let place = random.random_range(0..self.orders.len());
            orders.extend(self.orders.get(place));
            lines.extend(self.lines.get(place));
        }
        let values = (0..rows).map(|_| random.random_range(0..11_i128));
        let values = Decimal128Array::from_iter_values(values).with_precision_and_scale(15, 2)?;
        let keys: [ArrayRef; 2] =
            [Arc::new(Int64Array::from(orders)), Arc::new(Int32Array::from(lines))];
        let mut changes = Changes::new();
        changes.set(&self.table, &keys, &[(DISCOUNT, Arc::new(values))], &[])?;
        Ok(self.tables.commit(&changes).await?)
    }

    /// Milliseconds of a scan of one attribute of all rows.
    async fn scan_ms(&self, column: usize) -> Outcome<f64> {
        let watch = Stopwatch::start();
        let options = ScanOptions { columns: Some(vec![column]), ..ScanOptions::default() };
        let mut scan = self.tables.snapshot().await.scan(&self.table, options)?;
        let mut rows = 0;
        while let Some(batch) = scan.next().await? {
            rows += batch.num_rows();
        }
        assert_eq!(rows, self.orders.len(), "a scan has all rows");
        Ok(watch.elapsed().as_ms())
    }

    /// The median of several scans, after one that fills caches.
    async fn median_ms(&self, column: usize, runs: usize) -> Outcome<f64> {
        self.scan_ms(column).await?;
        let mut times = Vec::new();
        for _ in 0..runs {
            times.push(self.scan_ms(column).await?);
        }
        Ok(median(&mut times))
    }

    /// Makes so many updates, or a few more, pending.
    async fn update_many(&self, random: &mut Random, count: u64) -> Outcome<()> {
        for _ in 0..count.div_ceil(GROUP) {
            self.update(random, GROUP).await?;
        }
        Ok(())
    }

    fn queued(&self) -> u64 {
        self.tables.store().engine().figures().queued
    }
}

fn median(times: &mut [f64]) -> f64 {
    times.sort_by(f64::total_cmp);
    times.get(times.len() / 2).copied().unwrap_or(f64::NAN)
}

/// What pending updates cost a scan, on one core.
async fn pending(settings: &Settings) -> Outcome<()> {
    let lineitem = Lineitem::load(settings).await?;
    let mut random = random("updates");
    let touched = lineitem.median_ms(DISCOUNT, settings.runs).await?;
    let other = lineitem.median_ms(TAX, settings.runs).await?;
    let before = lineitem.queued();
    lineitem.update_many(&mut random, settings.pending).await?;
    let queued = lineitem.queued() - before;
    let touched_pending = lineitem.median_ms(DISCOUNT, settings.runs).await?;
    let other_pending = lineitem.median_ms(TAX, settings.runs).await?;
    if lineitem.queued() != before + queued || queued < settings.pending {
        println!(
            "NOTE: sweeps took some of the updates out of memory: give the store more --memory"
        );
    }
    println!("{} rows, {queued} pending updates of l_discount, one core", lineitem.orders.len());
    println!("scan, ms     nothing pending    pending");
    println!("l_discount   {touched:>15.1} {touched_pending:>10.1}");
    println!("l_tax        {other:>15.1} {other_pending:>10.1}");
    let each = (touched_pending - touched) * 1e6 / queued as f64;
    println!("a pending update costs the scan of its attribute {each:.0} ns");
    let times = other_pending / other;
    println!("a scan of another attribute takes {times:.2} times as long");
    Ok(lineitem.tables.close().await?)
}

/// What concurrent updates cost a scan that has as many pending ones.
async fn concurrent(settings: &Settings) -> Outcome<()> {
    let lineitem = Arc::new(Lineitem::load(settings).await?);
    let mut random = random("updates");
    lineitem.update_many(&mut random, settings.pending).await?;
    let before = (lineitem.queued(), lineitem.median_ms(DISCOUNT, settings.runs).await?);
    let first = lineitem.tables.store().engine().figures();
    let is_over = Arc::new(AtomicBool::new(false));
    let (ends, of_task) = (Arc::clone(&is_over), Arc::clone(&lineitem));
    let rate = settings.rate_per_s;
    let updates = spawn(async move {
        let (watch, mut done) = (Stopwatch::start(), 0);
        while !ends.load(Ordering::Relaxed) {
            // As many as are due.
            if done as f64 > watch.elapsed().as_s() * rate as f64 {
                sleep(Nanos(1_000_000)).await;
                continue;
            }
            of_task.update(&mut random, GROUP).await.map_err(|error| error.to_string())?;
            done += GROUP;
        }
        Ok::<f64, String>(done as f64 / watch.elapsed().as_s())
    });
    let (watch, mut times, mut queued) = (Stopwatch::start(), Vec::new(), Vec::new());
    while watch.elapsed().as_s() < settings.seconds {
        queued.push(lineitem.queued() as f64);
        times.push(lineitem.scan_ms(DISCOUNT).await?);
    }
    is_over.store(true, Ordering::Relaxed);
    let reached = updates.await?;
    let after = (lineitem.queued(), lineitem.median_ms(DISCOUNT, settings.runs).await?);
    let last = lineitem.tables.store().engine().figures();
    let (concurrent, queued) = (median(&mut times), median(&mut queued));
    println!(
        "\n{rate} updates a second asked, {reached:.0} reached, {} scans meanwhile",
        times.len()
    );
    println!("scan of l_discount   in memory         ms");
    for (when, count, ms) in [
        ("before", before.0 as f64, before.1),
        ("meanwhile", queued, concurrent),
        ("after", after.0 as f64, after.1),
    ] {
        println!("{when:<18} {count:>11.0} {ms:>10.1}");
    }
    println!(
        "row groups swept meanwhile: {}, {:.1} MB read for it",
        last.placed - first.placed,
        (last.swept_bytes - first.swept_bytes) as f64 / 1e6
    );
    let beside = (before.1 + after.1) / 2.0;
    println!("a scan beside concurrent updates takes {:.2} times as long", concurrent / beside);
    if let Ok(lineitem) = Arc::try_unwrap(lineitem) {
        lineitem.tables.close().await?;
    }
    Ok(())
}
