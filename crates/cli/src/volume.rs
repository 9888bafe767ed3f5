//! `moirai volume`: describe volumes, and see where their blocks lie.

use std::path::{Path, PathBuf};

use clap::{Subcommand, ValueEnum};
use moirai::storage::Device;
use moirai::units::{BlockCount, ByteCount, Lbn, grouped};
use moirai::volume::{
    ControllerTable, ControllerWrites, Description, LayoutDescription, Level, QuadrangleZone,
    StripeUnit, Volume,
};
use serde::Serialize;

use crate::failure::Failure;
use crate::{print, run};

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum LayoutKind {
    /// Stripe units in turn
    Stripe,
    /// Quadrangles: efficient by rows and by columns (thesis 6.3)
    Quadrangle,
}

#[derive(Subcommand)]
pub(crate) enum Command {
    /// Describe a volume in a TOML file, after checking that its devices fit together
    Create {
        /// The file to write; it must not be there
        path: PathBuf,
        /// A device's URI; give one for each device, in their order
        #[arg(long = "device", value_name = "URI", required = true)]
        devices: Vec<String>,
        /// What survives when devices fail: raid0, raid1, raid10, raid4, raid5, raid6; for raid5 also
        /// raid5-left-asymmetric, raid5-right-symmetric, raid5-right-asymmetric
        #[arg(long, default_value_t)]
        level: Level,
        /// How blocks are spread
        #[arg(long, value_enum, default_value = "quadrangle")]
        layout: LayoutKind,
        /// Stripe: `track`, or a size like 64KiB
        #[arg(long, default_value = "track")]
        unit: StripeUnit,
        /// Quadrangle: tracks, d; the deepest that keeps one revolution when not given
        #[arg(long)]
        depth: Option<u32>,
        /// Quadrangle: blocks of 512 bytes in a volume block, b
        #[arg(long, default_value_t = 1)]
        block: u64,
        /// Quadrangle: the only zone to use, counted from the rim; all of them when not given
        #[arg(long)]
        zone: Option<usize>,
        /// Put an array controller with a cache of this size before the volume, like 64MiB
        #[arg(long, value_name = "SIZE")]
        controller: Option<ByteCount>,
        /// Let the controller give writes to the disks before it acknowledges them
        #[arg(long, requires = "controller")]
        write_through: bool,
    },
    /// Show a volume's layout and attributes
    Show {
        /// The volume's TOML file
        path: PathBuf,
        /// Print JSON
        #[arg(long)]
        json: bool,
    },
    /// Show where a block lies, and which blocks go with it
    Map {
        /// The volume's TOML file
        path: PathBuf,
        /// The block's number on the volume
        lbn: u64,
        /// Print JSON
        #[arg(long)]
        json: bool,
    },
}

pub(crate) fn run(command: Command) -> Result<(), Failure> {
    match command {
        Command::Create {
            path,
            devices,
            level,
            layout,
            unit,
            depth,
            block,
            zone,
            controller,
            write_through,
        } => {
            let layout = match layout {
                LayoutKind::Stripe => LayoutDescription::Stripe { unit },
                LayoutKind::Quadrangle => {
                    LayoutDescription::Quadrangle { depth, block: BlockCount(block), zone }
                }
            };
            let mut description = Description::new(devices, level, layout);
            description.controller = controller.map(|size| ControllerTable {
                size: size.0.to_string(),
                write: match write_through {
                    true => ControllerWrites::Through,
                    false => ControllerWrites::Back,
                },
            });
            create(&path, &description)
        }
        Command::Show { path, json } => with_volume(&path, |volume| show(volume, json)),
        Command::Map { path, lbn, json } => {
            with_volume(&path, |volume| map(volume, Lbn(lbn), json))
        }
    }
}

fn with_volume(path: &Path, f: impl FnOnce(&Volume) -> Result<(), Failure>) -> Result<(), Failure> {
    let uri = format!("volume:{}", path.display());
    run::on_device(&uri, async { f(&*moirai::volume::open(path, moirai::devices::open)?) })
}

fn create(path: &Path, description: &Description) -> Result<(), Failure> {
    if path.exists() {
        return Err(Failure::Failed(format!(
            "{}: the file is there already: choose another name, or remove it",
            path.display()
        )));
    }
    // A description that does not fit its devices is never written, and checking makes no contents.
    run::in_time(moirai::are_simulated(&description.devices)?, async {
        let open_device = moirai::devices::open_without_data;
        if let Some(controller) = &description.controller {
            controller.size(path)?;
        }
        let volume = moirai::volume::open_described(path, description, open_device)?;
        std::fs::write(path, description.to_toml())
            .map_err(|error| Failure::Failed(format!("{}: {error}", path.display())))?;
        show(&volume, false)
    })
}

#[derive(Serialize)]
struct Shown<'a> {
    level: String,
    layout: &'static str,
    capacity_bytes: u64,
    raw_capacity_bytes: u64,
    survives_failures: usize,
    parallelism: u32,
    depth: u32,
    volume_block_blocks: u64,
    quadrangles: Vec<ShownZone>,
    devices: Vec<&'a str>,
}

#[derive(Serialize)]
struct ShownZone {
    zone: usize,
    track_blocks: u64,
    switch_blocks: u64,
    width: u64,
    residual_blocks: u64,
    quadrangles: u64,
    tracks_passed_over: u64,
}

fn show(volume: &Volume, json: bool) -> Result<(), Failure> {
    let (inquiry, layout) = (volume.inquiry(), volume.layout());
    let raw = volume.devices().map(|device| device.inquiry().capacity.bytes().0);
    let shown = Shown {
        level: layout.level().to_string(),
        layout: if volume.quadrangles().is_empty() { "stripe" } else { "quadrangle" },
        capacity_bytes: inquiry.capacity.bytes().0,
        raw_capacity_bytes: raw.sum(),
        survives_failures: layout.level().failures(layout.disks()),
        parallelism: inquiry.parallelism,
        depth: inquiry.depth,
        volume_block_blocks: inquiry.volume_block.0,
        quadrangles: volume.quadrangles().iter().map(ShownZone::from).collect(),
        devices: volume.devices().map(|device| device.inquiry().name.as_str()).collect(),
    };
    if json {
        return print::json(&shown);
    }
    let raw_percent = shown.capacity_bytes as f64 / shown.raw_capacity_bytes as f64 * 100.0;
    let facts = [
        ("level", shown.level.clone()),
        ("survives", format!("{} failed devices", shown.survives_failures)),
        ("layout", shown.layout.to_owned()),
        ("capacity", format!("{}, {raw_percent:.1} % of the devices", inquiry.capacity.bytes())),
        ("parallelism p", shown.parallelism.to_string()),
        ("depth d", shown.depth.to_string()),
        ("volume block b", inquiry.volume_block.to_string()),
    ];
    print::table(
        &[("volume", false), (inquiry.name.as_str(), false)],
        facts.into_iter().map(|(name, value)| vec![name.to_owned(), value]).collect(),
    )?;
    if !shown.quadrangles.is_empty() {
        print::line("")?;
        let columns = [
            "zone",
            "track N",
            "switch H",
            "width w",
            "residual R",
            "quadrangles",
            "tracks unused",
        ];
        let row = |zone: &ShownZone| {
            let numbers = [
                zone.zone as u64,
                zone.track_blocks,
                zone.switch_blocks,
                zone.width,
                zone.residual_blocks,
                zone.quadrangles,
                zone.tracks_passed_over,
            ];
            numbers.map(grouped).to_vec()
        };
        print::table(
            &columns.map(|name| (name, true)),
            shown.quadrangles.iter().map(row).collect(),
        )?;
    }
    print::line("")?;
    for (index, device) in shown.devices.iter().enumerate() {
        print::line(format!("  disk {index}: {device}"))?;
    }
    Ok(())
}

impl From<&QuadrangleZone> for ShownZone {
    fn from(zone: &QuadrangleZone) -> ShownZone {
        let dimensions = &zone.dimensions;
        ShownZone {
            zone: zone.zone,
            track_blocks: dimensions.track.0,
            switch_blocks: dimensions.switch.0,
            width: dimensions.width(),
            residual_blocks: dimensions.residual().0,
            quadrangles: zone.quadrangles,
            tracks_passed_over: zone.passed_over,
        }
    }
}

#[derive(Serialize)]
struct Mapped {
    lbn: u64,
    disk: usize,
    disk_lbn: u64,
    ensemble: [u64; 2],
    parallel_ensemble: [u64; 2],
    equivalent: Vec<MappedBlock>,
}

#[derive(Serialize)]
struct MappedBlock {
    lbn: u64,
    disk: usize,
    disk_lbn: u64,
}

fn map(volume: &Volume, lbn: Lbn, json: bool) -> Result<(), Failure> {
    let location = volume.locate(lbn)?;
    let ensemble = volume.ensemble(lbn)?.blocks;
    let parallel = volume.parallel_ensemble(lbn)?;
    let class = volume.equivalent(lbn)?;
    let mut equivalent = Vec::new();
    for member in &class.lbns {
        let location = volume.locate(*member)?;
        equivalent.push(MappedBlock {
            lbn: member.0,
            disk: location.disk.0,
            disk_lbn: location.dlbn.0,
        });
    }
    let mapped = Mapped {
        lbn: lbn.0,
        disk: location.disk.0,
        disk_lbn: location.dlbn.0,
        ensemble: [ensemble.first.0, ensemble.end().0],
        parallel_ensemble: [parallel.first.0, parallel.end().0],
        equivalent,
    };
    if json {
        return print::json(&mapped);
    }
    print::line(format!("{lbn} is {} of disk {}", location.dlbn, location.disk.0))?;
    print::line(format!("ensemble           {ensemble}"))?;
    print::line(format!("parallel ensemble  {parallel}"))?;
    print::line(
        "equivalence class: rows are accessed in parallel, columns semi-sequentially\n\
         (disk: its LBN, for each LBN of the volume)",
    )?;
    let parallelism = class.parallelism as usize;
    let cell = |block: &MappedBlock| format!("{}  ({}: {})", block.lbn, block.disk, block.disk_lbn);
    let rows = mapped.equivalent.chunks(parallelism).map(|row| row.iter().map(cell).collect());
    let titles: Vec<String> = (0..parallelism).map(|column| format!("column {column}")).collect();
    let columns: Vec<(&str, bool)> = titles.iter().map(|title| (title.as_str(), true)).collect();
    print::table(&columns, rows.collect())
}
