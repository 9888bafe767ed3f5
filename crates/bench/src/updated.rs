//! Scans of one attribute of TPC-H's `lineitem`, while updates of it are pending, and while they go on.
//!
//! Updates set `l_discount` of random rows by their primary key, in commits of 1000. On one core, all work of a scan is in the time
//! that it takes, so that the difference that pending updates make is processor time. Those that go on have all cores, and take
//! half of two.

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
    /// How many come in a second while scans go on.
    pub(crate) rate_per_s: u64,
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
    block_on_real(1, going_on(settings))
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
    for _ in 0..settings.pending / GROUP {
        lineitem.update(&mut random, GROUP).await?;
    }
    let touched_pending = lineitem.median_ms(DISCOUNT, settings.runs).await?;
    let other_pending = lineitem.median_ms(TAX, settings.runs).await?;
    let queued = lineitem.queued();
    println!(
        "{} rows, {} updates of l_discount, {queued} of them in memory, one core",
        lineitem.orders.len(),
        settings.pending
    );
    println!("scan, ms            nothing pending    pending");
    println!("  l_discount        {touched:>15.1} {touched_pending:>10.1}");
    println!("  l_tax             {other:>15.1} {other_pending:>10.1}");
    let each = (touched_pending - touched) * 1e6 / settings.pending as f64;
    println!("a pending update costs the scan of its attribute {each:.0} ns");
    println!(
        "a scan of an attribute that none touches takes {:.2} times as long",
        other_pending / other
    );
    Ok(lineitem.tables.close().await?)
}

/// What updates that go on cost a scan, beside as many that are pending.
async fn going_on(settings: &Settings) -> Outcome<()> {
    let lineitem = Arc::new(Lineitem::load(settings).await?);
    let mut random = random("updates");
    for _ in 0..settings.pending / GROUP {
        lineitem.update(&mut random, GROUP).await?;
    }
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
    let (mut going_on, mut queued) = (Vec::new(), Vec::new());
    for _ in 0..=settings.runs {
        queued.push(lineitem.queued() as f64);
        going_on.push(lineitem.scan_ms(DISCOUNT).await?);
    }
    going_on.remove(0);
    is_over.store(true, Ordering::Relaxed);
    let reached = updates.await?;
    let left = lineitem.queued();
    let still = lineitem.median_ms(DISCOUNT, settings.runs).await?;
    let going_on = median(&mut going_on);
    println!(
        "\n{rate} updates a second asked, {reached:.0} reached; {:.0} in memory while scans began, {left} afterwards",
        median(&mut queued)
    );
    println!(
        "scan of l_discount: {going_on:.1} ms while updates go on, {still:.1} ms afterwards: {:.2} times",
        going_on / still
    );
    if let Ok(lineitem) = Arc::try_unwrap(lineitem) {
        lineitem.tables.close().await?;
    }
    Ok(())
}
