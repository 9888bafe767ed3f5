//! `moirai device`: which devices there are, and what they say of themselves.

mod check;
mod draw;
mod drive;
mod fit;
mod import;
mod measured;
mod mems;
mod ssd;
mod validate;

use std::path::{Path, PathBuf};

use clap::Subcommand;
use moirai::devices::{NamedModel, SCHEMES};
use moirai::storage::{Device, DeviceUri};
use moirai::units::{BlockCount, ByteCount, Lbn, Nanos, grouped};
use moirai::volume::{Zone, zones};
use moirai::{Access, Kept, kept_paths};
use moirai_models::{
    ImmediateReport, MemsProfile, OverheadsFile, Profile, ReadAhead, Sparing, SsdProfile,
    TrackOrder, ZoneFile, built_in_mems_names, built_in_names, built_in_ssd_names,
};
use serde::Serialize;

use self::mems::ShownMems;
use self::ssd::ShownSsd;
use crate::failure::Failure;
use crate::output::NewFile;
use crate::{kept, print, run};

#[derive(Subcommand)]
pub(crate) enum Command {
    /// List the schemes of device URIs, the devices that were discovered, and the built-in drive profiles
    List {
        /// List the devices that were discovered, and no others
        #[arg(long)]
        discovered: bool,
        /// Print JSON
        #[arg(long)]
        json: bool,
    },
    /// Show a device's capacity, attributes and zones, and where the numbers of a profile come from
    Show {
        /// Device, as URI
        uri: String,
        /// Write the first block of each ensemble to a new file, a line each
        #[arg(long, value_name = "FILE")]
        boundaries: Option<PathBuf>,
        /// Print JSON
        #[arg(long)]
        json: bool,
    },
    Check(check::Arguments),
    Draw(draw::Arguments),
    Import(import::Arguments),
    Validate(validate::Arguments),
    Fit(fit::Arguments),
}

pub(crate) fn run(command: Command) -> Result<(), Failure> {
    match command {
        Command::List { discovered: true, json } => list_discovered(json),
        Command::List { discovered: false, json } => list(json),
        Command::Show { uri, boundaries, json } => {
            run::on_device(&uri, show(&uri, boundaries.as_deref(), json))
        }
        Command::Check(arguments) => check::run(&arguments),
        Command::Draw(arguments) => draw::run(&arguments),
        Command::Import(arguments) => import::run(&arguments),
        Command::Validate(arguments) => validate::run(&arguments),
        Command::Fit(arguments) => fit::run(&arguments),
    }
}

#[derive(Serialize)]
struct ListedProfile {
    name: String,
    description: String,
    capacity_bytes: u64,
    /// Of a disk.
    rotation_rpm: Option<f64>,
    /// Of a disk or MEMS store.
    average_seek_ms: Option<f64>,
    /// Of a disk.
    zero_latency: Option<bool>,
}

#[derive(Serialize)]
struct ListedDevice {
    device: String,
    capacity_bytes: u64,
    method: String,
    parallelism: u32,
    first_ensemble_blocks: u64,
    path: String,
}

/// The devices that were discovered; of files that cannot be read, says why.
fn discovered() -> Vec<ListedDevice> {
    let paths = kept::folder().map_or_else(Vec::new, |folder| kept_paths(&folder));
    let listed = paths.into_iter().filter_map(|path| match Kept::load(&path) {
        Ok(kept) => Some(ListedDevice {
            capacity_bytes: BlockCount(kept.capacity_blocks).bytes().0,
            method: kept.method,
            parallelism: kept.parallelism,
            first_ensemble_blocks: kept.ensembles.first().map_or(0, |run| u64::from(run.1)),
            path: path.display().to_string(),
            device: kept.device,
        }),
        Err(error) => {
            print::error_line(error);
            None
        }
    });
    listed.collect()
}

fn list_discovered(json: bool) -> Result<(), Failure> {
    let devices = discovered();
    if json {
        return print::json(&devices);
    }
    if devices.is_empty() {
        return print::line("No device was discovered yet: see `moirai discover --help`.");
    }
    let row = |device: ListedDevice| {
        vec![
            device.device,
            ByteCount(device.capacity_bytes).to_string(),
            device.method,
            device.parallelism.to_string(),
            BlockCount(device.first_ensemble_blocks).bytes().to_string(),
            device.path,
        ]
    };
    print::table(
        &[
            ("discovered", false),
            ("size", true),
            ("method", false),
            ("p", true),
            ("ensemble at 0", true),
            ("profile", false),
        ],
        devices.into_iter().map(row).collect(),
    )
}

fn list(json: bool) -> Result<(), Failure> {
    let disks = built_in_names().filter_map(Profile::built_in).map(|profile| ListedProfile {
        capacity_bytes: profile.geometry.capacity().bytes().0,
        rotation_rpm: Some(rotation_rpm(&profile)),
        average_seek_ms: Some(average_seek(&profile).as_ms()),
        zero_latency: Some(profile.mechanics.zero_latency_read),
        name: profile.file.name,
        description: profile.file.description,
    });
    let stores =
        built_in_mems_names().filter_map(MemsProfile::built_in).map(|profile| ListedProfile {
            capacity_bytes: profile.layout.capacity().bytes().0,
            rotation_rpm: None,
            average_seek_ms: Some(profile.average_seek().as_ms()),
            zero_latency: None,
            name: profile.file.name,
            description: profile.file.description,
        });
    let ssds = built_in_ssd_names().filter_map(SsdProfile::built_in).map(|profile| ListedProfile {
        capacity_bytes: profile.capacity().bytes().0,
        rotation_rpm: None,
        average_seek_ms: None,
        zero_latency: None,
        name: profile.file.name,
        description: profile.file.description,
    });
    let profiles: Vec<ListedProfile> = disks.chain(stores).chain(ssds).collect();
    if json {
        return print::json(&profiles);
    }
    print::line("Devices are named by URI:\n")?;
    for (pattern, meaning) in SCHEMES {
        print::line(format!("  {pattern}\n      {meaning}"))?;
    }
    print::line(
        "  volume:PATH\n      several devices as one, described in TOML; see `moirai volume create`",
    )?;
    if kept::folder().is_some_and(|folder| !kept_paths(&folder).is_empty()) {
        print::line("")?;
        list_discovered(false)?;
    }
    print::line("\nBuilt-in profiles:\n")?;
    print::table(
        &[
            ("sim:", false),
            ("drive", false),
            ("GB", true),
            ("rpm", true),
            ("seek ms", true),
            ("zero-latency", false),
        ],
        profiles
            .into_iter()
            .map(|profile| {
                vec![
                    profile.name,
                    profile.description,
                    format!("{:.1}", profile.capacity_bytes as f64 / 1e9),
                    profile.rotation_rpm.map_or("-".into(), |rpm| format!("{rpm:.0}")),
                    profile.average_seek_ms.map_or("-".into(), |ms| format!("{ms:.1}")),
                    match profile.zero_latency {
                        Some(true) => "yes",
                        Some(false) => "no",
                        None => "-",
                    }
                    .into(),
                ]
            })
            .collect(),
    )
}

fn rotation_rpm(profile: &Profile) -> f64 {
    60e12 / profile.mechanics.revolution_ps as f64
}

/// The average seek, which is the one over a third of the cylinders (thesis 3.2.3).
fn average_seek(profile: &Profile) -> Nanos {
    profile.mechanics.seek.time(profile.geometry.cylinders() / 3)
}

#[derive(Serialize)]
struct Shown {
    device: String,
    capacity_bytes: u64,
    parallelism: u32,
    depth: u32,
    volume_block_bytes: u64,
    atomic_write_bytes: u64,
    volatile_cache: bool,
    read_only: bool,
    keeps_data: bool,
    first_ensemble_blocks: u64,
    first_parallel_ensemble_blocks: u64,
    zones: Vec<ShownZone>,
    /// Of a disk.
    profile: Option<ShownProfile>,
    /// Of a MEMS store.
    #[serde(skip_serializing_if = "Option::is_none")]
    mems: Option<ShownMems>,
    /// Of an SSD.
    #[serde(skip_serializing_if = "Option::is_none")]
    ssd: Option<ShownSsd>,
}

#[derive(Serialize)]
pub(crate) struct ShownZone {
    first_lbn: u64,
    ensembles: u64,
    shortened_ensembles: u64,
    ensemble_blocks: u64,
    switch_blocks: u64,
}

impl ShownZone {
    pub(crate) fn ensemble_bytes(&self) -> u64 {
        BlockCount(self.ensemble_blocks).bytes().0
    }
}

impl From<Zone> for ShownZone {
    fn from(zone: Zone) -> ShownZone {
        ShownZone {
            first_lbn: zone.blocks.first.0,
            ensembles: zone.ensembles,
            shortened_ensembles: zone.shortened,
            ensemble_blocks: zone.ensemble.0,
            switch_blocks: zone.switch.0,
        }
    }
}

/// A new file with the first block of each ensemble.
pub(crate) struct BoundariesFile(NewFile);

impl BoundariesFile {
    pub(crate) fn create(path: &Path) -> Result<BoundariesFile, Failure> {
        NewFile::create(path).map(BoundariesFile)
    }

    pub(crate) fn write(self, firsts: impl Iterator<Item = Lbn>) -> Result<(), Failure> {
        let mut text = String::new();
        for first in firsts {
            text.push_str(&first.0.to_string());
            text.push('\n');
        }
        self.0.write(&text)
    }
}

#[derive(Serialize)]
pub(crate) struct ShownProfile {
    description: String,
    cylinders: u32,
    heads: u32,
    rotation_rpm: f64,
    average_seek_ms: f64,
    /// Points of the seek curve: cylinders, ms.
    seek_ms: Vec<(u32, f64)>,
    head_switch_ms: f64,
    write_settle_ms: f64,
    zero_latency_read: bool,
    zero_latency_write: bool,
    bus_mb_per_s: f64,
    cache: Option<ShownCache>,
    overheads: OverheadsFile,
    track_order: TrackOrder,
    sparing: Sparing,
    zones: Vec<ZoneFile>,
    sources: std::collections::BTreeMap<String, String>,
}

#[derive(Serialize)]
struct ShownCache {
    segments: u32,
    segment_bytes: u64,
    adaptive: bool,
    read_ahead: ReadAhead,
    immediate_report: ImmediateReport,
}

impl From<Profile> for ShownProfile {
    fn from(profile: Profile) -> ShownProfile {
        let cache = profile.electronics.cache.as_ref().map(|cache| ShownCache {
            segments: cache.segments,
            segment_bytes: cache.segment_blocks.bytes().0,
            adaptive: cache.adaptive,
            read_ahead: cache.read_ahead,
            immediate_report: cache.immediate_report,
        });
        ShownProfile {
            cylinders: profile.geometry.cylinders(),
            heads: profile.geometry.heads(),
            rotation_rpm: rotation_rpm(&profile),
            average_seek_ms: average_seek(&profile).as_ms(),
            seek_ms: profile.mechanics.seek.points().map(|(at, time)| (at, time.as_ms())).collect(),
            head_switch_ms: profile.file.head_switch_ms,
            write_settle_ms: profile.file.write_settle_ms,
            zero_latency_read: profile.mechanics.zero_latency_read,
            zero_latency_write: profile.mechanics.zero_latency_write,
            bus_mb_per_s: profile.file.bus_mb_per_s,
            cache,
            overheads: profile.file.overheads,
            track_order: profile.file.track_order,
            sparing: profile.file.sparing,
            zones: profile.file.zones,
            description: profile.file.description,
            sources: profile.file.sources,
        }
    }
}

/// Runs of ensembles shown of a device; a file or a long volume has one, a disk a few dozen.
const ZONES_SHOWN: usize = 64;

async fn show(uri: &str, boundaries: Option<&Path>, json: bool) -> Result<(), Failure> {
    let boundaries = boundaries.map(BoundariesFile::create).transpose()?;
    let device = moirai::open_device_for(uri, Access::Read).await?;
    let device: &dyn Device = &*device;
    let mut parsed: DeviceUri = uri.parse()?;
    let (mut profile, mut mems, mut ssd) = (None, None, None);
    if moirai::devices::is_simulated(&parsed) {
        match moirai::devices::named_model(&mut parsed)? {
            NamedModel::Disk(drive) => {
                print::notes(&drive.notes);
                profile = Some(drive.profile);
            }
            NamedModel::Mems(store, _) => mems = Some(*store),
            NamedModel::Ssd(named) => ssd = Some(*named),
        }
    }
    let inquiry = device.inquiry();
    if let Some(file) = boundaries {
        let (mut at, mut firsts) = (Lbn(0), Vec::new());
        while at.0 < inquiry.capacity.0 {
            firsts.push(at);
            at = device.ensemble(at)?.blocks.end();
        }
        file.write(firsts.into_iter())?;
    }
    let shown = Shown {
        device: inquiry.name.clone(),
        capacity_bytes: inquiry.capacity.bytes().0,
        parallelism: inquiry.parallelism,
        depth: inquiry.depth,
        volume_block_bytes: inquiry.volume_block.bytes().0,
        atomic_write_bytes: inquiry.atomic_write.bytes().0,
        volatile_cache: inquiry.volatile_cache,
        read_only: inquiry.read_only,
        keeps_data: inquiry.keeps_data,
        first_ensemble_blocks: device.ensemble(Lbn(0))?.blocks.count.0,
        first_parallel_ensemble_blocks: device.parallel_ensemble(Lbn(0))?.count.0,
        zones: zones(device)?.into_iter().map(ShownZone::from).collect(),
        profile: profile.map(ShownProfile::from),
        mems: mems.map(ShownMems::from),
        ssd: ssd.map(ShownSsd::from),
    };
    if json { print::json(&shown) } else { print_shown(&shown) }
}

impl ShownZone {
    /// A device that is the same everywhere.
    pub(crate) fn whole(capacity: BlockCount, ensemble: BlockCount) -> ShownZone {
        ShownZone {
            first_lbn: 0,
            ensembles: capacity.0.div_ceil(ensemble.0.max(1)),
            shortened_ensembles: 0,
            ensemble_blocks: ensemble.0,
            switch_blocks: 0,
        }
    }

    pub(crate) fn print(zones: &[ShownZone]) -> Result<(), Failure> {
        print::line("\nZones, with ensembles of one length; defects and spares shorten some:")?;
        let rows = zones.iter().take(ZONES_SHOWN).map(|zone| {
            vec![
                grouped(zone.first_lbn),
                grouped(zone.ensembles),
                grouped(zone.shortened_ensembles),
                zone.ensemble_blocks.to_string(),
                zone.switch_blocks.to_string(),
            ]
        });
        let columns = [
            ("first LBN", true),
            ("ensembles", true),
            ("shortened", true),
            ("blocks each", true),
            ("switch", true),
        ];
        print::table(&columns, rows.collect())?;
        match zones.len().saturating_sub(ZONES_SHOWN) {
            0 => Ok(()),
            more => print::line(format!("... and {more} more: --json lists them")),
        }
    }
}

impl ShownProfile {
    /// What there is to say of a drive, for people.
    pub(crate) fn facts(&self) -> Vec<(&'static str, String)> {
        let zero_latency = match (self.zero_latency_read, self.zero_latency_write) {
            (true, true) => "reads and writes",
            (true, false) => "reads",
            (false, true) => "writes",
            (false, false) => "no",
        };
        vec![
            ("rotation", format!("{:.0} rpm", self.rotation_rpm)),
            ("average seek", format!("{:.2} ms", self.average_seek_ms)),
            ("cylinders, heads", format!("{}, {}", grouped(self.cylinders), self.heads)),
            ("head switch", format!("{:.3} ms", self.head_switch_ms)),
            ("write settle", format!("{:.3} ms", self.write_settle_ms)),
            ("zero-latency", zero_latency.to_owned()),
            ("bus", format!("{:.1} MB/s", self.bus_mb_per_s)),
            ("cache", self.cache.as_ref().map_or("none".to_owned(), cache_text)),
        ]
    }
}

fn cache_text(cache: &ShownCache) -> String {
    let ShownCache { segments, segment_bytes, adaptive, read_ahead, immediate_report } = cache;
    let read_ahead = match read_ahead {
        ReadAhead::None => "none",
        ReadAhead::Track => "to the end of the track",
        ReadAhead::Cylinder => "to the end of the cylinder",
        ReadAhead::Segment => "until the segment is full",
        ReadAhead::NextTrack => "to the end of the track, or of the next",
    };
    let report = match immediate_report {
        ImmediateReport::None => "on the media",
        ImmediateReport::Sequential => "when sequential in the buffer",
        ImmediateReport::All => "in the buffer",
    };
    format!(
        "{segments} {}segments of {}; reads ahead: {read_ahead}; writes complete: {report}",
        if *adaptive { "adaptive " } else { "" },
        ByteCount(*segment_bytes)
    )
}

fn print_shown(shown: &Shown) -> Result<(), Failure> {
    let yes = |condition: bool| if condition { "yes" } else { "no" }.to_owned();
    let blocks = |count: u64| format!("{} blocks, {}", grouped(count), BlockCount(count).bytes());
    let mut facts = vec![
        ("capacity", blocks(shown.capacity_bytes / 512)),
        ("parallelism p", shown.parallelism.to_string()),
        ("depth d", shown.depth.to_string()),
        ("volume block", blocks(shown.volume_block_bytes / 512)),
        ("ensemble at 0", blocks(shown.first_ensemble_blocks)),
        ("parallel ensemble at 0", blocks(shown.first_parallel_ensemble_blocks)),
        ("atomic write", blocks(shown.atomic_write_bytes / 512)),
        ("volatile cache", yes(shown.volatile_cache)),
        ("read-only", yes(shown.read_only)),
        ("keeps data", yes(shown.keeps_data)),
    ];
    if let Some(profile) = &shown.profile {
        facts.insert(0, ("drive", profile.description.clone()));
        facts.extend(profile.facts());
    }
    if let Some(mems) = &shown.mems {
        facts.insert(0, ("store", mems.description.clone()));
        facts.extend(mems.facts());
    }
    if let Some(ssd) = &shown.ssd {
        facts.insert(0, ("SSD", ssd.file.description.clone()));
        facts.extend(ssd.facts());
    }
    print::line(&shown.device)?;
    print::table(
        &[("attribute", false), ("value", false)],
        facts.into_iter().map(|(name, value)| vec![name.to_owned(), value]).collect(),
    )?;
    ShownZone::print(&shown.zones)?;
    let profile = shown.profile.as_ref().map(|profile| &profile.sources);
    let mems = shown.mems.as_ref().map(|mems| &mems.sources);
    let ssd = shown.ssd.as_ref().map(|ssd| &ssd.file.sources);
    if let Some(sources) = profile.or(mems).or(ssd) {
        print::line("\nWhere the profile's numbers come from:")?;
        for (key, source) in sources {
            print::line(format!("  {key:20} {source}"))?;
        }
    }
    Ok(())
}
