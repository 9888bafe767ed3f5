//! `moirai discover`: what a device is good at, from what it is asked and when it answers.

mod array;
mod claims;
mod drive;
mod throughput;
mod timing;

use std::path::PathBuf;
use std::pin::pin;
use std::sync::Arc;

use clap::{Args, ValueEnum};
use futures::future::{Either, select};
use moirai::discovery::{Annotated, Commands, Error, Step, TrackMap, extract_until};
use moirai::runtime::Interrupts;
use moirai::storage::Device;
use moirai::units::{BlockCount, BlockRange, Nanos, grouped};
use moirai::{Access, Kept};
use serde::Serialize;

use crate::device::{BoundariesFile, ShownProfile, ShownZone};
use crate::failure::Failure;
use crate::kept::{keep, kept_of};
use crate::output::NewFile;
use crate::{print, progress, run};
use array::ShownArray;
use claims::Claims;
use throughput::ShownThroughput;

/// Find out what a device is good at, from what it is asked and when it answers
///
/// A drive that answers diagnostic commands is asked where its blocks lie, and measured with its cache switched off and on: the result
/// is a profile, which `sim:` simulates. Any other disk is asked to read single blocks: the times of its answers tell
/// where each of its tracks begins, and how fast it turns; of several disks behind one device, how many there are, and where stripe units
/// begin. Of a device without rotation, such as flash, throughput is measured: which requests are long enough, and how many at a time.
///
/// Nothing is written without `--write`, and with it only what the blocks hold already; but opening a volume with labels may replay its
/// journal. A file is read past the system's cache where its file system allows that.
#[derive(Args)]
pub(crate) struct Arguments {
    /// Device, as URI
    uri: String,
    /// How to find out
    #[arg(long, value_enum, default_value_t = Method::Auto)]
    method: Method,
    /// Measure writes, too: blocks are written with what they hold, of a device without rotation those at its end. Nobody else may use
    /// the device meanwhile
    #[arg(long)]
    write: bool,
    /// How long to look for rotation and to measure a device that has none, which takes half of it at least: 30s, 2m
    #[arg(long, value_name = "TIME", default_value = "30s", value_parser = seconds)]
    budget: Nanos,
    /// Write what was found to a new file: of a drive that was asked by diagnostic commands a profile for `sim:FILE.toml`, of anything
    /// else its ensembles for `file:PATH?profile=FILE`
    #[arg(long, value_name = "FILE")]
    out: Option<PathBuf>,
    /// Write the first block of each track to a new file, a line each, but for those that are guesses
    #[arg(long, value_name = "FILE")]
    boundaries: Option<PathBuf>,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

/// How a device is examined.
#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Method {
    /// By diagnostic commands where the device answers them
    Auto,
    /// By diagnostic commands: where blocks lie, what is bad, how the cache is set
    Diagnostic,
    /// By the times of reads alone
    Timing,
}

fn seconds(text: &str) -> Result<Nanos, String> {
    let (digits, unit_s) = match text.strip_suffix('m') {
        Some(digits) => (digits, 60),
        None => (text.strip_suffix('s').unwrap_or(text), 1),
    };
    match digits.parse::<u64>() {
        Ok(count @ 1..=86_400) => Ok(Nanos(count * unit_s * 1_000_000_000)),
        _ => Err("a time such as 30s or 2m".to_owned()),
    }
}

#[derive(Serialize)]
struct Discovered {
    device: String,
    method: &'static str,
    capacity_bytes: u64,
    /// How many requests at a time bring all that more would; 1 for a disk, which has one arm.
    parallelism: u32,
    zones: Vec<ShownZone>,
    #[serde(skip_serializing_if = "Option::is_none")]
    profile: Option<Disk>,
    /// How a drive orders its queue.
    #[serde(skip_serializing_if = "Option::is_none")]
    scheduler: Option<&'static str>,
    /// Fields of the drive's caching page.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    caching_page: Vec<ShownField>,
    /// What shows of an array.
    #[serde(skip_serializing_if = "Option::is_none")]
    array: Option<ShownArray>,
    #[serde(skip_serializing_if = "Option::is_none")]
    throughput: Option<ShownThroughput>,
    /// What the system says of the device that a file lies on.
    #[serde(skip_serializing_if = "Option::is_none")]
    system: Option<Claims>,
    /// Ranges in which boundaries are guesses.
    unsure: Vec<Unsure>,
    /// What else is in doubt.
    doubts: Vec<String>,
    /// The file in which it is kept.
    #[serde(skip_serializing_if = "Option::is_none")]
    kept: Option<PathBuf>,
    elapsed_device_s: f64,
    /// What took how long.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    steps: Vec<ShownStep>,
    commands: Commands,
}

/// What is known of a disk: its times alone, or everything.
#[derive(Serialize)]
#[serde(untagged)]
enum Disk {
    Timed(Timed),
    Drive(Box<ShownProfile>),
}

#[derive(Serialize)]
struct Timed {
    rotation_rpm: f64,
    tracks: usize,
    noise_us: f64,
}

#[derive(Serialize)]
struct Unsure {
    first_lbn: u64,
    blocks: u64,
}

impl From<&BlockRange> for Unsure {
    fn from(range: &BlockRange) -> Unsure {
        Unsure { first_lbn: range.first.0, blocks: range.count.0 }
    }
}

/// A field of the caching page: whether the drive lets it be changed, and whether it then does what it says.
#[derive(Serialize)]
struct ShownField {
    field: &'static str,
    can_be_changed: bool,
    /// Missing where it was not tried.
    #[serde(skip_serializing_if = "Option::is_none")]
    has_effect: Option<bool>,
}

impl ShownField {
    fn text(&self) -> String {
        let says = match (self.can_be_changed, self.has_effect) {
            (false, _) => "cannot be changed",
            (true, Some(true)) => "has an effect",
            (true, Some(false)) => "has no effect",
            (true, None) => "can be changed, not tried",
        };
        format!("{} {says}", self.field)
    }
}

#[derive(Serialize)]
struct ShownStep {
    step: &'static str,
    elapsed_device_s: f64,
}

/// A device that is examined, and the files that were asked for.
struct Examined<'a> {
    device: &'a Arc<dyn Device>,
    arguments: &'a Arguments,
    boundaries: Option<BoundariesFile>,
    out: Option<NewFile>,
}

pub(crate) fn run(arguments: &Arguments) -> Result<(), Failure> {
    run::on_device(&arguments.uri, discover(arguments))
}

async fn discover(arguments: &Arguments) -> Result<(), Failure> {
    let out = arguments.out.as_deref().map(NewFile::create).transpose()?;
    let boundaries = arguments.boundaries.as_deref().map(BoundariesFile::create).transpose()?;
    let interrupts = Interrupts::listen()?;
    let access = if arguments.write { Access::Write } else { Access::Read };
    let device = moirai::open_device_for(&arguments.uri, access).await?;
    let examined = Examined { device: &device, arguments, boundaries, out };
    let asks = arguments.method != Method::Timing && device.diagnostics().is_some();
    let mut discovered = match asks || arguments.method == Method::Diagnostic {
        // Some drives answer, but refuse what is needed most.
        true => by_commands(examined, &interrupts).await.map_err(|failure| {
            match (arguments.method, failure) {
                (Method::Auto, Failure::Discovery(error @ Error::Device(_))) => Failure::Failed(
                    format!("{error}; `--method timing` goes without diagnostic commands"),
                ),
                (_, failure) => failure,
            }
        })?,
        false => {
            let found = pin!(examined.by_times());
            match select(found, pin!(interrupts.pressed())).await {
                Either::Left((found, _)) => found?,
                Either::Right(_) => {
                    let why = format!("{}: stopped before all was found", arguments.uri);
                    return Err(Failure::Interrupted(why));
                }
            }
        }
    };
    drop(interrupts);
    if let Some(mut claims) = Claims::of(&arguments.uri)? {
        claims.doubt(&discovered);
        discovered.system = Some(claims);
    }
    match arguments.json {
        true => print::json(&discovered),
        false => discovered.print(),
    }
}

async fn by_commands(
    examined: Examined<'_>,
    interrupts: &Interrupts,
) -> Result<Discovered, Failure> {
    let Examined { device, arguments, boundaries, out } = examined;
    let bar = progress::shares();
    let show = |step: Step| {
        let before = Step::ALL.iter().position(|other| *other == step).unwrap_or(0);
        progress::show(&bar, step.name(), before as f64 / Step::ALL.len() as f64);
    };
    let found = extract_until(&**device, arguments.write, show, interrupts.pressed()).await;
    bar.finish_and_clear();
    let found = match found {
        Err(error @ Error::Stopped { .. }) => return Err(Failure::Interrupted(error.to_string())),
        found => found?,
    };
    let map = TrackMap::from_geometry(&found.geometry);
    if let Some(file) = boundaries {
        file.write(map.firsts())?;
    }
    let file = moirai::drive_profile(&found, format!("as discovered of {}", arguments.uri));
    let text = drive::text_of(&file)?;
    let kept = kept_of(&arguments.uri, &**device, &map, "diagnostic", 1, true).await?;
    let annotated = Annotated::new(Arc::clone(device), map);
    // A profile that is not valid is not written.
    let mut discovered = drive::discovered(&annotated, &found, file)?;
    if let Some(out) = out {
        out.write(&text)?;
    }
    discovered.kept = keep(&kept)?;
    Ok(discovered)
}

/// Keeps what was found, and writes it to a file that was named.
fn keep_as(kept: &Kept, out: Option<NewFile>) -> Result<Option<PathBuf>, Failure> {
    if let Some(out) = out {
        out.write(&kept.text())?;
    }
    keep(kept)
}

impl Discovered {
    fn print(&self) -> Result<(), Failure> {
        let blocks = self.capacity_bytes / 512;
        let capacity = format!("{} blocks, {}", grouped(blocks), BlockCount(blocks).bytes());
        let mut facts = vec![("capacity", capacity)];
        let sure = |all: &str| match self.unsure.iter().map(|range| range.blocks).sum() {
            0 => all.to_owned(),
            guessed => format!("boundaries within {} blocks are guesses", grouped(guessed)),
        };
        if let Some(array) = &self.array {
            facts.extend(array.facts());
            facts.push(("how sure", sure("units were looked at all over the device")));
        }
        match &self.profile {
            Some(Disk::Timed(profile)) => {
                facts.push(("rotation", format!("{:.1} rpm", profile.rotation_rpm)));
                facts.push(("tracks", grouped(profile.tracks as u64)));
                facts.push(("how sure", sure("all boundaries were seen")));
                facts.push(("noise of the times", format!("{:.1} us", profile.noise_us)));
            }
            Some(Disk::Drive(profile)) => {
                facts.extend(profile.facts());
                facts.extend(self.scheduler.map(|kind| ("scheduler", kind.to_owned())));
                let fields: Vec<String> = self.caching_page.iter().map(ShownField::text).collect();
                facts.push(("caching page", fields.join(", ")));
            }
            None => {}
        }
        if let Some(throughput) = &self.throughput {
            facts.extend(throughput.facts(self.parallelism));
        }
        let all: u64 = self.commands.values().sum();
        facts.extend(self.kept.as_ref().map(|path| ("kept in", path.display().to_string())));
        facts.push(("asked", format!("{} commands, {:.1} s", grouped(all), self.elapsed_device_s)));
        print::line(&self.device)?;
        print::table(
            &[("attribute", false), ("value", false)],
            facts.into_iter().map(|(name, value)| vec![name.to_owned(), value]).collect(),
        )?;
        match &self.throughput {
            Some(throughput) => throughput.print()?,
            None => ShownZone::print(&self.zones)?,
        }
        self.doubts.iter().try_for_each(|doubt| print::line(format!("Doubtful: {doubt}.")))?;
        self.system.as_ref().map_or(Ok(()), Claims::print)
    }
}
