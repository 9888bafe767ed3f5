//! `moirai device check`: whether a device still is what was discovered of it.

use std::path::PathBuf;

use clap::Args;
use moirai::discovery::{Rotation, angles, find_array, measure};
use moirai::runtime::now;
use moirai::storage::{Device, DeviceUri};
use moirai::units::{ByteCount, Lbn, Nanos};
use moirai::{Access, Kept, kept_path};
use serde::Serialize;

use crate::failure::Failure;
use crate::{kept, print, progress, run};

/// How far an angle may be from the kept one, as a part of a revolution, and in standard deviations of what times differ by.
const ANGLE_PART: f64 = 0.005;
const DEVIATIONS: f64 = 8.0;
/// With more noise than that nothing can be told.
const NOISY_PART: f64 = 0.02;
/// The same of the time of a revolution.
const ROTATION_PART: f64 = 0.001;
/// How long what does not turn is measured.
const BUDGET: Nanos = Nanos(10_000_000_000);
/// By what factor what was measured may differ: a step.
const STEP: u64 = 2;

/// Check whether what was discovered of a device still holds, by measuring a few things again
///
/// Of a disk, how fast it turns and where some tracks begin; of an array, its disks and stripe units; of what does not turn, which
/// requests are long enough and how many at a time. Nothing is written. `moirai discover DEVICE` finds everything again.
#[derive(Args)]
pub(crate) struct Arguments {
    /// Device, as URI
    uri: String,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

#[derive(Serialize)]
struct Checked {
    device: String,
    holds: bool,
    /// What was compared.
    compared: usize,
    /// What is not as it was.
    differences: Vec<String>,
}

pub(crate) fn run(arguments: &Arguments) -> Result<(), Failure> {
    run::on_device(&arguments.uri, check(arguments))
}

async fn check(arguments: &Arguments) -> Result<(), Failure> {
    let none = || {
        Failure::Failed(format!(
            "no profile of {0} is kept: `moirai discover {0}` finds it",
            arguments.uri
        ))
    };
    // What the URI says counts, as where the device is used.
    let named: Option<PathBuf> = arguments.uri.parse::<DeviceUri>()?.take("profile")?;
    let path = match named {
        Some(path) => path,
        None => {
            let folder = kept::folder().ok_or_else(none)?;
            kept_path(&folder, &arguments.uri)?.ok_or_else(none)?
        }
    };
    let profile = Kept::load(&path)?;
    let device = moirai::open_device_for(&arguments.uri, Access::Read).await?;
    let capacity = device.inquiry().capacity.0;
    let (compared, differences) = if capacity != profile.capacity_blocks {
        (1, vec![format!("it has {capacity} blocks, and had {}", profile.capacity_blocks)])
    } else if profile.is_array() {
        array(&*device, &profile).await?
    } else if profile.rotation_ns.is_some() {
        disk(&*device, &profile).await?
    } else {
        other(&*device, &profile).await?
    };
    let holds = differences.is_empty();
    let checked = Checked { device: device.inquiry().name.clone(), holds, compared, differences };
    // Whoever reads may be gone: the exit status tells all the same.
    let shown = checked.print(arguments.json);
    match holds {
        true => shown,
        false => Err(Failure::Failed(format!(
            "the profile {} does not hold: `moirai discover {}` finds a new one",
            path.display(),
            arguments.uri
        ))),
    }
}

impl Checked {
    fn print(&self, json: bool) -> Result<(), Failure> {
        if json {
            return print::json(self);
        }
        let verdict =
            if self.holds { "is as it was discovered" } else { "is not as it was discovered" };
        print::line(format!("{} {verdict}: {} timings compared.", self.device, self.compared))?;
        self.differences.iter().try_for_each(|difference| print::line(format!("  {difference}")))
    }
}

/// How fast it turns, where that is not as it was.
fn other_speed(rotation: &Rotation, profile: &Kept) -> Option<String> {
    let was = profile.rotation_ns.unwrap_or(rotation.period_ns);
    let before = Rotation { period_ns: was, ..*rotation }.rpm();
    let differs = (rotation.period_ns / was - 1.0).abs() > ROTATION_PART;
    differs.then(|| format!("it turns at {:.1} rpm, and did at {before:.1}", rotation.rpm()))
}

async fn array(device: &dyn Device, profile: &Kept) -> Result<(usize, Vec<String>), Failure> {
    let bar = progress::shares();
    let found = find_array(device, |at| progress::show_search(&bar, "stripe units", at)).await?;
    bar.finish_and_clear();
    let Some(found) = found else {
        return Ok((1, vec!["several disks no longer show".to_owned()]));
    };
    let mut differences: Vec<String> = other_speed(&found.rotation, profile).into_iter().collect();
    let (disks, were) = (found.disks.unwrap_or(0), profile.parallelism as usize);
    if disks != were {
        differences.push(format!("{disks} disks show, and {were} did"));
    }
    let units: Vec<(u64, u64)> =
        found.units.iter().map(|(first, unit)| (first.0, unit.0)).collect();
    let were: Vec<(u64, u64)> =
        profile.ensembles.iter().map(|run| (run.0, u64::from(run.1))).collect();
    if let Some((now, before)) = units.iter().zip(&were).find(|(now, before)| now != before) {
        let size = |blocks: u64| ByteCount(blocks * 512);
        differences.push(format!(
            "from LBN {} on its stripe unit is {}, and from LBN {} on it was {}",
            now.0,
            size(now.1),
            before.0,
            size(before.1)
        ));
    } else if units.len() != were.len() {
        let (now, before) = (units.len(), were.len());
        differences.push(format!("it has {now} runs of stripe units, and had {before}"));
    }
    Ok((2 + units.len(), differences))
}

async fn disk(device: &dyn Device, profile: &Kept) -> Result<(usize, Vec<String>), Failure> {
    let pairs: Vec<(Lbn, Lbn)> = profile.angles().map(|one| (one.from, one.to)).collect();
    let (rotation, measured) = angles(device, &pairs).await?;
    let mut differences = Vec::new();
    differences.extend(other_speed(&rotation, profile));
    let allowed = (ANGLE_PART * rotation.period_ns).max(DEVIATIONS * rotation.noise_ns);
    if allowed > NOISY_PART * rotation.period_ns {
        differences.push(format!(
            "its answers differ by {:.3} ms, too much to tell its tracks: see that nobody else uses it",
            rotation.noise_ns / 1e6
        ));
    }
    for (before, now) in profile.angles().zip(&measured) {
        let off = rotation.wrap(now.ns - before.ns);
        if off.abs() > allowed {
            differences.push(format!(
                "{} passes {:.3} ms behind the block before it, and passed {:.3} ms behind it",
                before.to,
                now.ns / 1e6,
                before.ns / 1e6
            ));
        }
    }
    Ok((1 + measured.len(), differences))
}

async fn other(device: &dyn Device, profile: &Kept) -> Result<(usize, Vec<String>), Failure> {
    let bar = progress::shares();
    let show = |share| progress::show(&bar, "throughput", share);
    let found = measure(device, now() + BUDGET, show).await?;
    bar.finish_and_clear();
    let mut differences = Vec::new();
    let is_near = |one: u64, other: u64| one <= other * STEP && other <= one * STEP;
    let ensemble = profile.ensembles.first().map_or(0, |run| u64::from(run.1));
    if !is_near(found.ensemble.0, ensemble) {
        let size = |blocks: u64| ByteCount(blocks * 512);
        let (now, before) = (size(found.ensemble.0), size(ensemble));
        differences.push(format!("requests of {now} are long enough, and of {before} were"));
    }
    if !is_near(u64::from(found.parallelism), u64::from(profile.parallelism)) {
        let (now, before) = (found.parallelism, profile.parallelism);
        differences.push(format!("it likes {now} requests at a time, and liked {before}"));
    }
    Ok((2, differences))
}
