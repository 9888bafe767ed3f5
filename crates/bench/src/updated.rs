//! Scans of one attribute of TPC-H's `lineitem`, with pending updates of it, and with concurrent ones.
//!
//! Updates set `l_discount` of random rows by their primary key, in commits of 1000. Scans are warm: the file is in the page cache,
//! and direct I/O off. With pending updates they run on one core, so that the time of a scan is the processor time of all of its
//! work. Concurrent updates and scans run on all cores.

use std::error::Error;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use moirai::runtime::{Random, Stopwatch, block_on_real, random, sleep, spawn};
use moirai::tables::Layout;
use moirai::units::{ByteCount, Nanos};
use moirai::update::Options;
use rustix::thread::{sched_getaffinity, sched_setaffinity};

use crate::lineitem::{DISCOUNT, GROUP, Lineitem, StoreOptions, TAX};
use crate::{median, pin_to_one_core};

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
    sched_setaffinity(None, &all_cores)?;
    block_on_real(1, concurrent(settings))
}

async fn load(settings: &Settings) -> Outcome<Lineitem> {
    // What waits stays in memory: nothing is swept while nobody commits.
    let engine = Options { memory: settings.memory, idle: None, ..Options::default() };
    let scale_factor = settings.scale_factor;
    Lineitem::load(StoreOptions { scale_factor, layout: Layout::Csm, is_direct: false, engine })
        .await
}

/// The median of several scans, after one that fills caches.
async fn median_ms(lineitem: &Lineitem, column: usize, runs: usize) -> Outcome<f64> {
    lineitem.scan_ms(column).await?;
    let mut times = Vec::new();
    for _ in 0..runs {
        times.push(lineitem.scan_ms(column).await?);
    }
    Ok(median(&mut times))
}

/// Makes so many updates, or a few more, pending.
async fn update_many(lineitem: &Lineitem, random: &mut Random, count: u64) -> Outcome<()> {
    for _ in 0..count.div_ceil(GROUP) {
        lineitem.update(random, &[DISCOUNT]).await?;
    }
    Ok(())
}

/// How many updates wait in memory.
fn queued(lineitem: &Lineitem) -> u64 {
    lineitem.tables.store().engine().figures().queued
}

/// What pending updates cost a scan, on one core.
async fn pending(settings: &Settings) -> Outcome<()> {
    let lineitem = load(settings).await?;
    let mut random = random("updates");
    let touched = median_ms(&lineitem, DISCOUNT, settings.runs).await?;
    let other = median_ms(&lineitem, TAX, settings.runs).await?;
    let before = queued(&lineitem);
    update_many(&lineitem, &mut random, settings.pending).await?;
    let pending = queued(&lineitem) - before;
    let touched_pending = median_ms(&lineitem, DISCOUNT, settings.runs).await?;
    let other_pending = median_ms(&lineitem, TAX, settings.runs).await?;
    if queued(&lineitem) != before + pending || pending < settings.pending {
        println!(
            "NOTE: sweeps took some of the updates out of memory: give the store more --memory"
        );
    }
    println!("{} rows, {pending} pending updates of l_discount, one core", lineitem.rows());
    println!("scan, ms     nothing pending    pending");
    println!("l_discount   {touched:>15.1} {touched_pending:>10.1}");
    println!("l_tax        {other:>15.1} {other_pending:>10.1}");
    let each = (touched_pending - touched) * 1e6 / pending as f64;
    println!("a pending update costs the scan of its attribute {each:.0} ns");
    let times = other_pending / other;
    println!("a scan of another attribute takes {times:.2} times as long");
    Ok(lineitem.tables.close().await?)
}

/// What concurrent updates cost a scan that has as many pending ones.
async fn concurrent(settings: &Settings) -> Outcome<()> {
    let lineitem = Arc::new(load(settings).await?);
    let mut random = random("updates");
    update_many(&lineitem, &mut random, settings.pending).await?;
    let before = (queued(&lineitem), median_ms(&lineitem, DISCOUNT, settings.runs).await?);
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
            of_task.update(&mut random, &[DISCOUNT]).await.map_err(|error| error.to_string())?;
            done += GROUP;
        }
        Ok::<f64, String>(done as f64 / watch.elapsed().as_s())
    });
    let (watch, mut times, mut counts) = (Stopwatch::start(), Vec::new(), Vec::new());
    while watch.elapsed().as_s() < settings.seconds {
        counts.push(queued(&lineitem) as f64);
        times.push(lineitem.scan_ms(DISCOUNT).await?);
    }
    is_over.store(true, Ordering::Relaxed);
    let reached = updates.await?;
    let after = (queued(&lineitem), median_ms(&lineitem, DISCOUNT, settings.runs).await?);
    let last = lineitem.tables.store().engine().figures();
    let (concurrent, count) = (median(&mut times), median(&mut counts));
    println!(
        "\n{rate} updates a second asked, {reached:.0} reached, {} scans meanwhile",
        times.len()
    );
    println!("scan of l_discount   in memory         ms");
    for (when, count, ms) in [
        ("before", before.0 as f64, before.1),
        ("meanwhile", count, concurrent),
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
