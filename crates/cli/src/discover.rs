//! `moirai discover`: what a device is good at, from what it is asked and when it answers.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use clap::Args;
use moirai::Access;
use moirai::devices::SystemSays;
use moirai::discovery::{
    Annotated, Error, Preferences, Throughput, TrackMap, Tracks, find_tracks, measure,
};
use moirai::storage::{Device, DeviceUri};
use moirai::units::{BlockCount, ByteCount, Nanos, grouped};
use moirai::volume::zones;
use serde::Serialize;

use crate::device::{BoundariesFile, ShownZone};
use crate::failure::Failure;
use crate::{print, progress, run};

/// Find out what a device is good at, from what it is asked and when it answers
///
/// A disk is asked to read single blocks: the times of its answers tell where each of its tracks begins, and how fast it turns. Of what
/// does not turn, such as flash, throughput is measured: which requests are long enough, and how many at a time. Nothing is written.
///
/// A file is read past the system's cache where its file system allows that.
#[derive(Args)]
pub(crate) struct Arguments {
    /// Device, as URI
    uri: String,
    /// How long to measure what does not turn: 30s, 2m
    #[arg(long, value_name = "TIME", default_value = "30s", value_parser = seconds)]
    budget: Nanos,
    /// Write the first block of each track to a new file, a line each, but for those that are guesses
    #[arg(long, value_name = "FILE")]
    boundaries: Option<PathBuf>,
    /// Print JSON
    #[arg(long)]
    json: bool,
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
    profile: Option<Profile>,
    #[serde(skip_serializing_if = "Option::is_none")]
    throughput: Option<ShownThroughput>,
    /// What the system says of the device that a file lies on.
    #[serde(skip_serializing_if = "Option::is_none")]
    system: Option<Claims>,
    /// Ranges in which boundaries are guesses.
    unsure: Vec<Unsure>,
    elapsed_device_s: f64,
    commands: Commands,
}

#[derive(Serialize)]
struct Profile {
    rotation_rpm: f64,
    tracks: usize,
    noise_us: f64,
}

#[derive(Serialize)]
struct Unsure {
    first_lbn: u64,
    blocks: u64,
}

#[derive(Serialize)]
struct Commands {
    read: u64,
}

#[derive(Serialize)]
struct ShownThroughput {
    ensemble_bytes: u64,
    is_alignment_worth: bool,
    rounds: usize,
    rounds_with_this_ensemble: usize,
    rounds_with_this_parallelism: usize,
    by_size: Vec<Measurement>,
    by_depth: Vec<Measurement>,
    by_alignment: Vec<Measurement>,
}

#[derive(Serialize)]
struct Claims {
    device: String,
    rotational: Option<bool>,
    logical_block_bytes: Option<u64>,
    physical_block_bytes: Option<u64>,
    minimum_io_bytes: Option<u64>,
    optimal_io_bytes: Option<u64>,
    chunk_bytes: Option<u64>,
    maximum_io_bytes: Option<u64>,
    discard_bytes: Option<u64>,
    atomic_write_bytes: Option<u64>,
    requests: Option<u64>,
    zones: Option<String>,
    open_zones_max: Option<u64>,
    actuators: Option<usize>,
    array_level: Option<String>,
    array_disks: Option<u64>,
    array_chunk_bytes: Option<u64>,
    below: Vec<String>,
    /// Where that and the measurement disagree.
    doubts: Vec<String>,
}

impl Claims {
    /// What the system says of the device that `uri` lies on.
    fn of(uri: &str) -> Result<Option<Claims>, Failure> {
        let uri: DeviceUri = uri.parse()?;
        if uri.scheme != "file" {
            return Ok(None);
        }
        let says = SystemSays::of(Path::new(&uri.target))?;
        Ok(says.map(|says| {
            let bytes = |count: Option<ByteCount>| count.map(|count| count.0);
            Claims {
                rotational: says.is_rotational,
                logical_block_bytes: bytes(says.logical_block),
                physical_block_bytes: bytes(says.physical_block),
                minimum_io_bytes: bytes(says.minimum_io),
                optimal_io_bytes: bytes(says.optimal_io),
                chunk_bytes: bytes(says.chunk),
                maximum_io_bytes: bytes(says.maximum_io),
                discard_bytes: bytes(says.discard),
                atomic_write_bytes: bytes(says.atomic_write),
                requests: says.requests,
                zones: says.zones,
                open_zones_max: says.open_zones_max,
                actuators: says.actuators,
                array_level: says.array.as_ref().map(|array| array.level.clone()),
                array_disks: says.array.as_ref().map(|array| array.disks),
                array_chunk_bytes: bytes(says.array.and_then(|array| array.chunk)),
                below: says.below,
                device: says.name,
                doubts: Vec::new(),
            }
        }))
    }

    /// Compares it with what was found.
    fn doubt(&mut self, found: &Discovered) {
        match (self.rotational, &found.profile) {
            (Some(true), None) => {
                self.doubts.push("it is said to turn, and no rotation shows".to_owned());
            }
            (Some(false), Some(_)) => {
                self.doubts.push("it is said not to turn, and a rotation shows".to_owned());
            }
            _ => {}
        }
        let physical = self.physical_block_bytes.unwrap_or(512);
        if let Some(optimal) = self.optimal_io_bytes.filter(|optimal| optimal % physical != 0) {
            self.doubts.push(format!(
                "the optimal size of {optimal} bytes is no multiple of the physical block: it is passed over"
            ));
        } else if let (Some(optimal), Some(throughput)) = (self.optimal_io_bytes, &found.throughput)
            && optimal > 2 * throughput.ensemble_bytes
        {
            self.doubts.push(format!(
                "the optimal size is said to be {}, and reads beyond {} gain under 5 %",
                ByteCount(optimal),
                ByteCount(throughput.ensemble_bytes)
            ));
        }
    }

    fn print(&self) -> Result<(), Failure> {
        let size = |name, bytes: Option<u64>| Some((name, ByteCount(bytes?).to_string()));
        let facts = [
            self.rotational.map(|turns| ("turns", if turns { "yes" } else { "no" }.to_owned())),
            size("logical block", self.logical_block_bytes),
            size("physical block", self.physical_block_bytes),
            size("minimum request", self.minimum_io_bytes),
            size("optimal request", self.optimal_io_bytes),
            size("chunk", self.chunk_bytes),
            size("longest request", self.maximum_io_bytes),
            size("unit of discards", self.discard_bytes),
            size("atomic write", self.atomic_write_bytes),
            self.requests.map(|requests| ("requests that wait", requests.to_string())),
            self.zones.clone().map(|zones| ("zones", zones)),
            self.actuators.map(|count| ("actuators", count.to_string())),
            self.array_level.clone().map(|level| ("array", level)),
            self.array_disks.map(|disks| ("disks of the array", disks.to_string())),
            size("chunk of the array", self.array_chunk_bytes),
            (!self.below.is_empty()).then(|| ("lies on", self.below.join(", "))),
        ];
        print::line(format!("\nThe system says of {}:", self.device))?;
        let row = |(name, value): (&str, String)| vec![name.to_owned(), value];
        print::table(
            &[("claim", false), ("value", false)],
            facts.into_iter().flatten().map(row).collect(),
        )?;
        self.doubts.iter().try_for_each(|doubt| print::line(format!("Doubtful: {doubt}.")))
    }
}

#[derive(Serialize)]
struct Measurement {
    request_bytes: u64,
    depth: u32,
    aligned: bool,
    mb_per_s: f64,
    least_mb_per_s: f64,
    most_mb_per_s: f64,
}

impl From<&Throughput> for Measurement {
    fn from(one: &Throughput) -> Measurement {
        Measurement {
            request_bytes: one.blocks.bytes().0,
            depth: one.depth,
            aligned: one.is_aligned,
            mb_per_s: one.bytes_per_s / 1e6,
            least_mb_per_s: one.range.0 / 1e6,
            most_mb_per_s: one.range.1 / 1e6,
        }
    }
}

pub(crate) fn run(arguments: &Arguments) -> Result<(), Failure> {
    run::on_device(&arguments.uri, discover(arguments))
}

async fn discover(arguments: &Arguments) -> Result<(), Failure> {
    let boundaries = arguments.boundaries.as_deref().map(BoundariesFile::create).transpose()?;
    let device = moirai::open_device_for(&arguments.uri, Access::Read).await?;
    let bar = progress::shares();
    let tracks = find_tracks(&*device, |progress| {
        let share = progress.done.0 as f64 / progress.capacity.0.max(1) as f64;
        progress::show(&bar, "tracks", share);
    });
    let mut discovered = match tracks.await {
        Ok(found) => {
            if let Some(file) = boundaries {
                file.write(found.firsts.iter().copied().filter(|first| found.is_certain(*first)))?;
            }
            of_disk(&device, &found)?
        }
        Err(Error::NoRotation { .. }) if boundaries.is_none() => {
            let show = |share| progress::show(&bar, "throughput", share);
            of_other(&*device, &measure(&*device, arguments.budget, show).await?)
        }
        Err(error) => return Err(error.into()),
    };
    bar.finish_and_clear();
    if let Some(mut claims) = Claims::of(&arguments.uri)? {
        claims.doubt(&discovered);
        discovered.system = Some(claims);
    }
    match arguments.json {
        true => print::json(&discovered),
        false => print_discovered(&discovered),
    }
}

fn of_disk(device: &Arc<dyn Device>, found: &Tracks) -> Result<Discovered, Failure> {
    let inquiry = device.inquiry();
    let map = TrackMap::of(found, inquiry.capacity);
    let annotated = Annotated::new(Arc::clone(device), map);
    let unsure =
        found.unsure.iter().map(|range| Unsure { first_lbn: range.first.0, blocks: range.count.0 });
    Ok(Discovered {
        device: inquiry.name.clone(),
        method: "timing",
        capacity_bytes: inquiry.capacity.bytes().0,
        parallelism: 1,
        zones: zones(&annotated)?.into_iter().map(ShownZone::from).collect(),
        profile: Some(Profile {
            rotation_rpm: 60e9 / found.rotation.period_ns,
            tracks: found.firsts.len(),
            noise_us: found.rotation.noise_ns / 1e3,
        }),
        throughput: None,
        system: None,
        unsure: unsure.collect(),
        elapsed_device_s: found.elapsed.as_s(),
        commands: Commands { read: found.commands },
    })
}

fn of_other(device: &dyn Device, found: &Preferences) -> Discovered {
    let inquiry = device.inquiry();
    let all = |measured: &[Throughput]| measured.iter().map(Measurement::from).collect();
    let (of_ensemble, of_parallelism, rounds) = found.agreeing;
    Discovered {
        device: inquiry.name.clone(),
        method: "timing",
        capacity_bytes: inquiry.capacity.bytes().0,
        parallelism: found.parallelism,
        zones: vec![ShownZone::whole(inquiry.capacity, found.ensemble)],
        profile: None,
        throughput: Some(ShownThroughput {
            ensemble_bytes: found.ensemble.bytes().0,
            is_alignment_worth: found.is_alignment_worth,
            rounds,
            rounds_with_this_ensemble: of_ensemble,
            rounds_with_this_parallelism: of_parallelism,
            by_size: all(&found.by_size),
            by_depth: all(&found.by_depth),
            by_alignment: all(&found.by_alignment),
        }),
        system: None,
        unsure: Vec::new(),
        elapsed_device_s: found.elapsed.as_s(),
        commands: Commands { read: found.commands },
    }
}

fn print_discovered(found: &Discovered) -> Result<(), Failure> {
    let blocks = found.capacity_bytes / 512;
    let mut facts =
        vec![("capacity", format!("{} blocks, {}", grouped(blocks), BlockCount(blocks).bytes()))];
    if let Some(profile) = &found.profile {
        let guessed: u64 = found.unsure.iter().map(|range| range.blocks).sum();
        let sure = match guessed {
            0 => "all boundaries were seen".to_owned(),
            guessed => format!("boundaries within {} blocks are guesses", grouped(guessed)),
        };
        facts.push(("rotation", format!("{:.1} rpm", profile.rotation_rpm)));
        facts.push(("tracks", grouped(profile.tracks as u64)));
        facts.push(("how sure", sure));
        facts.push(("noise of the times", format!("{:.1} us", profile.noise_us)));
    }
    if let Some(throughput) = &found.throughput {
        let rounds = throughput.rounds;
        let ensemble = BlockCount(throughput.ensemble_bytes / 512);
        facts.push((
            "ensemble",
            format!(
                "{}, in {} of {rounds} rounds; its alignment {}",
                ensemble.bytes(),
                throughput.rounds_with_this_ensemble,
                if throughput.is_alignment_worth { "matters" } else { "does not matter" },
            ),
        ));
        facts.push((
            "parallelism",
            format!(
                "{}, in {} of {rounds} rounds",
                found.parallelism, throughput.rounds_with_this_parallelism
            ),
        ));
    }
    facts.push((
        "asked",
        format!("{} reads, {:.1} s", grouped(found.commands.read), found.elapsed_device_s),
    ));
    print::line(&found.device)?;
    print::table(
        &[("attribute", false), ("value", false)],
        facts.into_iter().map(|(name, value)| vec![name.to_owned(), value]).collect(),
    )?;
    match &found.throughput {
        Some(throughput) => print_throughput(throughput)?,
        None => ShownZone::print(&found.zones)?,
    }
    found.system.as_ref().map_or(Ok(()), Claims::print)
}

fn print_throughput(found: &ShownThroughput) -> Result<(), Failure> {
    let row = |one: &Measurement| {
        vec![
            BlockCount(one.request_bytes / 512).bytes().to_string(),
            one.depth.to_string(),
            if one.aligned { "yes" } else { "no" }.to_owned(),
            format!("{:.1}", one.mb_per_s),
            format!("{:.1}", one.least_mb_per_s),
            format!("{:.1}", one.most_mb_per_s),
        ]
    };
    let columns = [
        ("reads of", true),
        ("at a time", true),
        ("aligned", false),
        ("MB/s", true),
        ("least", true),
        ("most", true),
    ];
    print::line("\nReads all over the device; the median, the least and the most of the rounds:")?;
    let all = found.by_size.iter().chain(&found.by_depth).chain(&found.by_alignment);
    print::table(&columns, all.map(row).collect())
}
