//! `moirai device check`: whether a device still is what was discovered of it.

use clap::Args;
use moirai::discovery::{Rotation, angles, measure};
use moirai::storage::Device;
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
/// Of a disk, how fast it turns and where some tracks begin; of what does not turn, which requests are long enough and how many at a
/// time. Nothing is written. `moirai discover DEVICE` finds everything again.
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
    let folder = kept::folder().ok_or_else(none)?;
    let path = kept_path(&folder, &arguments.uri)?.ok_or_else(none)?;
    let profile = Kept::load(&path)?;
    let device = moirai::open_device_for(&arguments.uri, Access::Read).await?;
    let capacity = device.inquiry().capacity.0;
    let (compared, differences) = if capacity != profile.capacity_blocks {
        (1, vec![format!("it has {capacity} blocks, and had {}", profile.capacity_blocks)])
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

async fn disk(device: &dyn Device, profile: &Kept) -> Result<(usize, Vec<String>), Failure> {
    let pairs: Vec<(Lbn, Lbn)> = profile.angles().map(|one| (one.from, one.to)).collect();
    let (rotation, measured) = angles(device, &pairs).await?;
    let mut differences = Vec::new();
    let was = profile.rotation_ns.unwrap_or(rotation.period_ns);
    if (rotation.period_ns / was - 1.0).abs() > ROTATION_PART {
        let before = Rotation { period_ns: was, ..rotation }.rpm();
        differences.push(format!("it turns at {:.1} rpm, and did at {before:.1}", rotation.rpm()));
    }
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
    let found = measure(device, BUDGET, show).await?;
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
