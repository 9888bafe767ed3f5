//! `moirai volume`: describe volumes, see where their blocks lie, and look after their disks.

mod bench;
mod create;
mod disks;
mod draw;
mod show;

use std::path::PathBuf;

use clap::{Subcommand, ValueEnum};
use moirai::units::{BlockCount, ByteCount, Lbn};
use moirai::volume::{
    ControllerTable, ControllerWrites, Description, DiskIndex, LayoutDescription, Level, StripeUnit,
};

use crate::failure::Failure;

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum LayoutKind {
    /// Stripe units in turn
    Stripe,
    /// Quadrangles: efficient by rows and by columns (thesis 6.3)
    Quadrangle,
}

#[derive(Subcommand)]
pub(crate) enum Command {
    /// Make a volume, and describe it in a TOML file
    ///
    /// Devices of a level that survives failures get labels, so that each knows what it is part of: what
    /// they hold is lost. Simulated devices that keep nothing, and raid0 without --labels, are described and
    /// left as they are.
    Create {
        /// The file to write; it must not be there
        path: PathBuf,
        /// A device's URI; give one for each device, in their order
        #[arg(long = "device", value_name = "URI", required_unless_present = "parts")]
        devices: Vec<String>,
        /// Put what these URIs name one behind the other, as volume:PATH, instead of devices in a layout
        #[arg(long = "part", value_name = "URI", conflicts_with_all = ["devices", "labels", "spares", "integrity"])]
        parts: Vec<String>,
        /// A device's URI that takes the place of the first disk that fails, when the volume is rebuilt
        #[arg(long = "spare", value_name = "URI")]
        spares: Vec<String>,
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
        /// Label the devices at raid0, too: they may then be named in any order, and a stale one is refused
        #[arg(long)]
        labels: bool,
        /// Keep checksums of blocks: what a device changed by itself is found and put right
        #[arg(long)]
        integrity: bool,
        /// Take devices whose first or last MiB holds something; all that they hold is lost
        #[arg(long)]
        force: bool,
        /// Put an array controller with a cache of this size before the volume, like 64MiB
        #[arg(long, value_name = "SIZE")]
        controller: Option<ByteCount>,
        /// Let the controller give writes to the disks before it acknowledges them
        #[arg(long, requires = "controller")]
        write_through: bool,
    },
    /// Show a volume's layout, attributes and disks
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
    /// Draw the layout as SVG, as thesis figure 6.2: disks, tracks, quadrangles, the blocks of one access
    Draw {
        /// The volume's TOML file
        path: PathBuf,
        /// Where the picture goes
        #[arg(long, value_name = "FILE")]
        out: PathBuf,
        /// A block of the access
        #[arg(long, value_name = "LBN", default_value_t = 0)]
        at: u64,
    },
    /// Measure a volume: sequential, other-major and random reads
    Bench {
        /// The volume's TOML file
        path: PathBuf,
        /// Requests of each kind
        #[arg(long, default_value_t = 500)]
        requests: u64,
        /// Also measure writes: what the volume holds is lost
        #[arg(long)]
        yes_destroy_data: bool,
        /// Print JSON
        #[arg(long)]
        json: bool,
    },
    /// Open a volume whose devices have labels, and show its disks
    ///
    /// What a crash left undone is done. Other commands open their volume themselves: this one is for a
    /// volume with a disk missing, or without a description.
    Open {
        /// The volume's TOML file; with --device it is written
        path: PathBuf,
        /// A device's URI; give one for each device, in any order, to describe the volume from their labels
        #[arg(long = "device", value_name = "URI")]
        devices: Vec<String>,
        /// Go on without the disks that are missing: they count as failed from now on
        #[arg(long)]
        degraded: bool,
    },
    /// Take a disk out of use; the volume goes on without it
    Fail {
        /// The volume's TOML file
        path: PathBuf,
        /// Which disk, counted from 0
        disk: usize,
    },
    /// Put a new device in the place of a disk that failed or is missing; rebuild fills it
    Replace {
        /// The volume's TOML file, in which the new device takes the old one's place
        path: PathBuf,
        /// Which disk, counted from 0
        disk: usize,
        /// The new device's URI
        #[arg(value_name = "URI")]
        device: String,
        /// Take a device whose first or last MiB holds something; all that it holds is lost
        #[arg(long)]
        force: bool,
    },
    /// Fill replaced disks with what they should hold; it may be interrupted and goes on from there
    ///
    /// Spares take the places of failed disks first.
    Rebuild {
        /// The volume's TOML file
        path: PathBuf,
        /// Bytes a second to write at most, like 50MiB
        #[arg(long, value_name = "SIZE")]
        rate: Option<ByteCount>,
    },
    /// Add disks to a striped volume and spread over them what it holds, or parts to one that is made of such
    ///
    /// It may be interrupted; without --device it goes on. The volume is larger when it is opened after that.
    Grow {
        /// The volume's TOML file, in which the new devices are named, too
        path: PathBuf,
        /// A new device's URI; give one for each
        #[arg(long = "device", value_name = "URI")]
        devices: Vec<String>,
        /// Put what this URI names behind the parts of a volume that is made of parts; nothing is moved
        #[arg(long = "part", value_name = "URI", conflicts_with_all = ["devices", "rate", "force"])]
        parts: Vec<String>,
        /// Bytes a second to write to each disk at most, like 50MiB
        #[arg(long, value_name = "SIZE")]
        rate: Option<ByteCount>,
        /// Take devices whose first or last MiB holds something; all that they hold is lost
        #[arg(long)]
        force: bool,
    },
    /// Read everything, and write again what cannot be read
    ///
    /// Where copies or parity do not fit the data, that is said, and the exit status is 1.
    Scrub {
        /// The volume's TOML file
        path: PathBuf,
        /// Bytes a second to read from each disk at most, like 50MiB
        #[arg(long, value_name = "SIZE")]
        rate: Option<ByteCount>,
        /// Make copies and parity fit the data, which may be what is wrong
        #[arg(long)]
        repair: bool,
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
            parts,
            spares,
            level,
            layout,
            unit,
            depth,
            block,
            zone,
            labels,
            integrity,
            force,
            controller,
            write_through,
        } => {
            let layout = match layout {
                LayoutKind::Stripe => LayoutDescription::Stripe { unit },
                LayoutKind::Quadrangle => {
                    LayoutDescription::Quadrangle { depth, block: BlockCount(block), zone }
                }
            };
            let mut description = match parts.is_empty() {
                true => Description::new(devices, level, layout),
                false => Description::concatenated(create::parts(parts)?),
            };
            description.controller = controller.map(|size| ControllerTable {
                size: size.0.to_string(),
                write: match write_through {
                    true => ControllerWrites::Through,
                    false => ControllerWrites::Back,
                },
            });
            description.spares = spares;
            description.labels |= labels;
            description.integrity = integrity;
            create::create(&path, &description, force)
        }
        Command::Show { path, json } => show::show(&path, json),
        Command::Map { path, lbn, json } => show::map(&path, Lbn(lbn), json),
        Command::Draw { path, out, at } => draw::draw(&path, &out, Lbn(at)),
        Command::Bench { path, requests, yes_destroy_data, json } => {
            bench::bench(&path, requests, yes_destroy_data, json)
        }
        Command::Open { path, devices, degraded } => disks::open(&path, &devices, degraded),
        Command::Fail { path, disk } => disks::fail(&path, DiskIndex(disk)),
        Command::Replace { path, disk, device, force } => {
            disks::replace(&path, DiskIndex(disk), &device, force)
        }
        Command::Scrub { path, rate, repair, json } => disks::scrub(&path, rate, repair, json),
        Command::Grow { path, devices, parts, rate, force } => match parts.is_empty() {
            true => disks::grow(&path, &devices, rate, force),
            false => create::append(&path, parts),
        },
        Command::Rebuild { path, rate } => disks::rebuild(&path, rate),
    }
}
