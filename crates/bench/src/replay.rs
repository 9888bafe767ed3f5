//! Replaying random reads onto a simulated Atlas 10K, on one core, the trace read from a file.
//!
//! The floor is the trace itself: a line of 35 bytes and a request of half a dozen events. DiskSim
//! replays 55,000 requests a second on machines of this kind.

use std::error::Error;
use std::fs::File;
use std::io::{BufReader, BufWriter, Write};
use std::path::Path;

use futures::executor::block_on;
use moirai::devices::model;
use moirai::runtime::{Stopwatch, block_on_virtual, random};
use moirai::units::{Lbn, Nanos};
use moirai_replay::trace::{Format, TraceReader};
use moirai_replay::{Drives, Options, Summary, replay};
use rand::Rng;

use crate::pin_to_one_core;

type Outcome<T> = Result<T, Box<dyn Error>>;

/// The drive as bare mechanics, and with all that was extracted from it, cache and read-ahead too.
const DRIVES: [&str; 4] = [
    "sim:quantum-atlas-10k?scheduler=fcfs",
    "sim:quantum-atlas-10k?scheduler=sptf",
    "sim:quantum-atlas-10k-extracted?scheduler=fcfs",
    "sim:quantum-atlas-10k-extracted?scheduler=sptf",
];

const LOCATIONS: usize = 1_000_000;

/// Blocks of the drive, and mean time between requests, at which it is two thirds busy.
const BLOCKS: u64 = 17_938_986;
const GAP_US: f64 = 12_000.0;

pub(crate) fn run(requests: u64, runs: usize) -> Outcome<()> {
    pin_to_one_core()?;
    let folder = tempfile::tempdir()?;
    let traces: Vec<(u64, std::path::PathBuf)> = [1, 2, 4]
        .into_iter()
        .map(|factor| (factor * requests, folder.path().join(format!("{factor}.trace"))))
        .collect();
    for (requests, path) in &traces {
        write_trace(path, *requests)?;
    }
    println!("random 8 KiB reads in DiskSim's ASCII format, open loop, one core, median of {runs}");
    println!(
        "{:50} {:>10} {:>10} {:>13} {:>8}",
        "", "requests", "median s", "requests/s", "mean ms"
    );
    for drive in DRIVES {
        for (requests, path) in &traces {
            let mut seconds = Vec::new();
            let mut mean_ms = 0.0;
            for _ in 0..runs.max(1) {
                let watch = Stopwatch::start();
                mean_ms = replay_once(drive, path)?.mean_response_ms();
                seconds.push(watch.elapsed().as_s());
            }
            seconds.sort_by(f64::total_cmp);
            let median = seconds.get(seconds.len() / 2).copied().unwrap_or(f64::NAN);
            let rate = *requests as f64 / median;
            println!("{drive:50} {requests:10} {median:10.3} {rate:13.0} {mean_ms:8.3}");
        }
    }
    for drive in ["quantum-atlas-10k-extracted", "modern-20tb-7200"] {
        locate(drive)?;
    }
    println!("peak memory of all: {} MiB", peak_memory_mib()?);
    Ok(())
}

fn replay_once(drive: &str, path: &Path) -> Outcome<Summary> {
    let reader = BufReader::with_capacity(256 << 10, File::open(path)?);
    let trace = TraceReader::new(path.display().to_string(), reader, Format::DiskSim);
    let mut target = Drives::new(vec![(drive.to_owned(), model(drive.parse()?)?)]);
    let options = Options::default();
    Ok(block_on(replay(&mut target, trace, &options, |_| Ok(())))?)
}

fn write_trace(path: &Path, requests: u64) -> Outcome<()> {
    let mut random = block_on_virtual(1, async { random("replay benchmark") });
    let mut out = BufWriter::new(File::create(path)?);
    let mut at_us = 0.0;
    for _ in 0..requests {
        // Exponential gaps: a Poisson process.
        at_us -= GAP_US * (1.0 - random.random::<f64>()).ln();
        let lbn = random.random_range(0..BLOCKS / 16) * 16;
        writeln!(out, "{:.6} 0 {lbn} 16 1", at_us / 1e3)?;
    }
    Ok(out.flush()?)
}

/// Times block numbers to places and back.
fn locate(drive: &str) -> Outcome<()> {
    let model = model(format!("sim:{drive}").parse()?)?;
    let geometry = &model.profile().geometry;
    let mut random = block_on_virtual(1, async { random("places") });
    let lbns: Vec<Lbn> =
        (0..LOCATIONS).map(|_| Lbn(random.random_range(0..geometry.capacity().0))).collect();
    let watch = Stopwatch::start();
    let places: Vec<_> = lbns.iter().filter_map(|lbn| geometry.locate(*lbn)).collect();
    let there = watch.elapsed();
    let watch = Stopwatch::start();
    let back: Vec<_> = places.iter().filter_map(|place| geometry.lbn_at(*place)).collect();
    let and_back = watch.elapsed();
    assert_eq!(back, lbns);
    let each = |span: Nanos| span.0 as f64 / LOCATIONS as f64;
    println!(
        "{drive}: a block number to its place in {:.0} ns, and back in {:.0} ns",
        each(there),
        each(and_back)
    );
    Ok(())
}

/// The most memory this process has had.
fn peak_memory_mib() -> Outcome<u64> {
    let status = std::fs::read_to_string("/proc/self/status")?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
    let kib = line.and_then(|line| line.split_whitespace().next()).unwrap_or("0");
    Ok(kib.parse::<u64>()? >> 10)
}
