//! Replaying random reads onto a simulated Atlas 10K, on one core, the trace read from a file.
//!
//! The floor is the trace itself: a line of 35 bytes and a request of half a dozen events. DiskSim
//! replays 55,000 requests a second on machines of this kind.

use std::error::Error;
use std::fs::File;
use std::io::{BufReader, BufWriter, Write};
use std::path::Path;

use futures::executor::block_on;
use moirai::devices::{Access, model, open_without_data};
use moirai::runtime::{Stopwatch, block_on_virtual, random};
use moirai::units::{BlockCount, Lbn, Nanos};
use moirai::volume::{LayoutDescription, StripeUnit, Volume};
use moirai_replay::trace::{Format, TraceReader};
use moirai_replay::{Array, Drives, Options, Summary, replay};
use rand::Rng;

use crate::{median, pin_to_one_core};

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
        write_trace(path, *requests, BLOCKS, false)?;
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
            print_rate(drive, *requests, seconds, mean_ms);
        }
    }
    arrays(folder.path(), requests / 2, runs)?;
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

/// A trace for one drive, or with `writes` for the array: a third of its requests are writes.
fn write_trace(path: &Path, requests: u64, blocks: u64, writes: bool) -> Outcome<()> {
    let mut random = block_on_virtual(1, async { random("replay benchmark") });
    let mut out = BufWriter::new(File::create(path)?);
    let mut at_us = 0.0;
    for _ in 0..requests {
        // Exponential gaps: a Poisson process.
        at_us -= GAP_US * (1.0 - random.random::<f64>()).ln();
        let lbn = random.random_range(0..blocks / 16) * 16;
        let is_read = u8::from(!writes || random.random_range(0..3) < 2);
        writeln!(out, "{:.6} 0 {lbn} 16 {is_read}", at_us / 1e3)?;
    }
    Ok(out.flush()?)
}

/// A RAID 5 of five drives, a third of the requests writes: each reads and writes data and parity.
fn arrays(folder: &Path, requests: u64, runs: usize) -> Outcome<()> {
    const DISKS: u64 = 5;
    println!(
        "\nraid5 of {DISKS}, 64 KiB units, a third writes: data and parity read, then written"
    );
    for drive in ["sim:quantum-atlas-10k?scheduler=fcfs", "sim:quantum-atlas-10k?scheduler=sptf"] {
        let layout = block_on_virtual(1, async {
            let drives = (0..DISKS).map(|_| open_without_data(drive.parse()?, Access::Read));
            let unit = LayoutDescription::Stripe { unit: StripeUnit::Blocks(BlockCount(128)) };
            let level = "raid5".parse()?;
            let volume =
                Volume::new("raid5".into(), drives.collect::<Result<_, _>>()?, level, unit)?;
            Ok::<_, Box<dyn Error>>(volume.layout().clone())
        })?;
        for factor in [1, 2, 4] {
            let requests = factor * requests;
            let path = folder.join("array.trace");
            write_trace(&path, requests, layout.capacity().0, true)?;
            let mut seconds = Vec::new();
            let mut mean_ms = 0.0;
            for _ in 0..runs.max(1) {
                let watch = Stopwatch::start();
                let reader = BufReader::with_capacity(256 << 10, File::open(&path)?);
                let trace = TraceReader::new("array", reader, Format::DiskSim);
                let models = (0..DISKS).map(|_| model(drive.parse()?)).collect::<Result<_, _>>()?;
                let mut target = Array::new("raid5".into(), layout.clone(), models);
                let options = Options::default();
                let summary = block_on(replay(&mut target, trace, &options, |_| Ok(())))?;
                mean_ms = summary.mean_response_ms();
                seconds.push(watch.elapsed().as_s());
            }
            print_rate(drive, requests, seconds, mean_ms);
        }
    }
    Ok(())
}

fn print_rate(drive: &str, requests: u64, mut seconds: Vec<f64>, mean_ms: f64) {
    let median = median(&mut seconds);
    let rate = requests as f64 / median;
    println!("{drive:50} {requests:10} {median:10.3} {rate:13.0} {mean_ms:8.3}");
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
