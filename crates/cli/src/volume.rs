//! `moirai volume`: describe volumes, see where their blocks lie, and look after their disks.

mod bench;
mod create;
mod disks;
mod draw;
mod show;
mod watch;

use std::path::PathBuf;

use clap::{Subcommand, ValueEnum};
use moirai::units::{ByteCount, Lbn};
use moirai::volume::{ControllerTable, ControllerWrites, DiskIndex, Level, Repair, StripeUnit};

use crate::failure::Failure;
use crate::output;
use create::Wanted;

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum LayoutKind {
    /// Stripe units on the disks in turn
    Stripe,
    /// Quadrangles: efficient by rows and by columns (thesis 6.3)
    Quadrangle,
}

/// The layout of a new volume; what is not given follows from the devices' attributes.
#[derive(clap::Args)]
pub(crate) struct LayoutArguments {
    /// Layout [default: quadrangle where the devices lose time between ensembles, as disks do between tracks, else
    /// stripe]
    #[arg(long, value_enum)]
    layout: Option<LayoutKind>,
    /// Stripe unit: `track`, or a size [default: the devices' ensemble, within 64KiB and 1MiB]
    #[arg(long, value_name = "SIZE", conflicts_with_all = ["depth", "block", "zone"])]
    unit: Option<StripeUnit>,
    /// Depth of quadrangles in tracks, d [default: the deepest that are read in one revolution]
    #[arg(long)]
    depth: Option<u32>,
    /// Volume block of quadrangles in blocks of 512 bytes, b [default: 1]
    #[arg(long, value_name = "BLOCKS")]
    block: Option<u64>,
    /// Only zone to use, counted from the outermost [default: all]
    #[arg(long)]
    zone: Option<usize>,
}

/// A rate in bytes per second; one that is surely a mistake, such as 10 for 10MiB, is refused.
fn rate(text: &str) -> Result<ByteCount, String> {
    let rate: ByteCount = text.parse().map_err(|problem| format!("{problem}"))?;
    match rate.0 >= RATE_BYTES_MIN {
        true => Ok(rate),
        false => Err(format!("{rate} per second is too slow: give a size with a unit, like 10MiB")),
    }
}

/// The lowest rate, in bytes per second.
const RATE_BYTES_MIN: u64 = 64 << 10;

#[derive(Subcommand)]
pub(crate) enum Command {
    /// Make a volume, and describe it in a TOML file
    ///
    /// Devices that keep their data get labels, by which each knows its volume, and lose what they hold.
    /// Files that do not exist are created. Relative paths in the description are relative to its folder.
    Create {
        /// Description to write; the file must not exist
        path: PathBuf,
        /// Device of the volume, as URI; repeat for each, in their order
        #[arg(long = "device", value_name = "URI", required_unless_present = "parts")]
        devices: Vec<String>,
        /// Device or volume to concatenate with the others, as URI, instead of devices in a layout
        #[arg(long = "part", value_name = "URI", conflicts_with_all = [
            "devices", "spares", "integrity", "level", "layout", "unit", "depth", "block", "zone",
        ])]
        parts: Vec<String>,
        /// Device that takes the place of the first disk that fails when the volume is rebuilt, as URI
        #[arg(long = "spare", value_name = "URI")]
        spares: Vec<String>,
        /// RAID level: raid0, raid1, raid10, raid4, raid5, raid6, raid5-left-asymmetric, raid5-right-symmetric,
        /// raid5-right-asymmetric
        #[arg(long, default_value_t)]
        level: Level,
        #[command(flatten)]
        layout: Box<LayoutArguments>,
        /// Keep checksums of blocks, so that silent corruption is found and repaired
        #[arg(long)]
        integrity: bool,
        /// Use devices that hold something, whose contents are lost
        #[arg(long)]
        force: bool,
        /// Cache size of an array controller to put before the volume, like 64MiB
        #[arg(long, value_name = "SIZE")]
        controller: Option<ByteCount>,
        /// Let the controller acknowledge writes only once the disks have them
        #[arg(long, requires = "controller")]
        write_through: bool,
    },
    /// Show a volume's layout, attributes and disks
    Show {
        /// Description of the volume
        path: PathBuf,
        /// Print JSON
        #[arg(long)]
        json: bool,
    },
    /// Record the requests to a volume, and show what they are like
    ///
    ///   moirai volume watch orders.toml --record orders.csv   # from now on
    ///   moirai volume watch orders.toml                       # what they are like, and the workload of them
    ///   moirai volume watch orders.toml --stop
    ///
    /// The trace holds requests of commands and programs that may write to the volume. The time between them does
    /// not count. `moirai plan characterise` and `plan watch` read the trace, too.
    #[command(verbatim_doc_comment)]
    Watch {
        /// Description of the volume
        path: PathBuf,
        /// Trace file to append requests to from now on
        #[arg(long, value_name = "FILE", conflicts_with = "stop")]
        record: Option<PathBuf>,
        /// Stop recording; the trace stays
        #[arg(long)]
        stop: bool,
        /// Print JSON
        #[arg(long)]
        json: bool,
    },
    /// Show where a block lies, and its equivalence class
    Map {
        /// Description of the volume
        path: PathBuf,
        /// Block number on the volume
        lbn: u64,
        /// Show the whole equivalence class
        #[arg(long)]
        all: bool,
        /// Print JSON
        #[arg(long)]
        json: bool,
    },
    /// Draw the layout as SVG, as thesis figure 6.2: disks, tracks, quadrangles, the blocks of one access
    Draw {
        /// Description of the volume
        path: PathBuf,
        /// SVG file to write
        #[arg(long, value_name = "FILE")]
        out: PathBuf,
        /// Block of the access
        #[arg(long, value_name = "LBN", default_value_t = 0)]
        at: u64,
        #[command(flatten)]
        force: output::Force,
    },
    /// Measure a volume: sequential, other-major and random reads
    Bench {
        /// Description of the volume
        path: PathBuf,
        /// Number of requests of each kind
        #[arg(long, default_value_t = 500, value_parser = clap::value_parser!(u64).range(1..))]
        requests: u64,
        /// Measure writes, too, which destroys what the volume holds
        #[arg(long)]
        yes_destroy_data: bool,
        /// Print JSON
        #[arg(long)]
        json: bool,
    },
    /// Open a volume whose devices have labels, and show its disks
    ///
    /// Opening replays the journal after a crash. Other commands open their volume themselves; use this one when a
    /// disk is missing, or the description is lost.
    Open {
        /// Description of the volume; written when --device is given
        path: PathBuf,
        /// Device of the volume, as URI; repeat for each, in any order, to describe the volume from their labels
        #[arg(long = "device", value_name = "URI")]
        devices: Vec<String>,
        /// Go on without the disks that are missing, which count as failed from now on
        #[arg(long)]
        degraded: bool,
    },
    /// Mark a disk as failed; the volume goes on without it
    ///
    /// This cannot be undone: the disk comes back only by `replace` and `rebuild`, which write it anew. Where something on the
    /// volume is damaged, see `moirai volume scrub --help` for how to find the disk that is wrong.
    Fail {
        /// Description of the volume
        path: PathBuf,
        /// Disk, counted from 0
        disk: usize,
    },
    /// Replace a disk that failed or is missing by a new device, which `rebuild` fills
    Replace {
        /// Description of the volume, in which the new device is named
        path: PathBuf,
        /// Disk, counted from 0
        disk: usize,
        /// New device, as URI
        #[arg(value_name = "URI")]
        device: String,
        /// Use a device that holds something, whose contents are lost
        #[arg(long)]
        force: bool,
    },
    /// Rebuild the contents of replaced disks; an interrupted rebuild goes on from where it was
    ///
    /// Spares replace failed disks first. Blocks that cannot be reconstructed are listed, and the exit status is 1.
    Rebuild {
        /// Description of the volume
        path: PathBuf,
        /// Bytes per second to write at most, like 50MiB
        #[arg(long, value_name = "SIZE", value_parser = rate)]
        rate: Option<ByteCount>,
    },
    /// Add disks to a striped volume and spread its contents over them, or add parts to a volume of parts
    ///
    /// An interrupted growth goes on when the command is repeated without --device. The volume has its new size when
    /// it is opened the next time.
    Grow {
        /// Description of the volume, in which the new devices are named
        path: PathBuf,
        /// New device, as URI; repeat for each
        #[arg(long = "device", value_name = "URI")]
        devices: Vec<String>,
        /// Device or volume to add after the parts of a volume of parts, as URI; nothing is moved
        #[arg(long = "part", value_name = "URI", conflicts_with_all = ["devices", "rate"])]
        parts: Vec<String>,
        /// Bytes per second to write to each disk at most, like 50MiB
        #[arg(long, value_name = "SIZE", value_parser = rate)]
        rate: Option<ByteCount>,
        /// Use devices that hold something, whose contents are lost
        #[arg(long)]
        force: bool,
    },
    /// Read the whole volume, and rewrite what cannot be read
    ///
    /// Stripes whose copies or parity do not match the data are listed, and blocks that can be neither read nor
    /// reconstructed. The exit status is 1 when there are any that the command did not mend.
    ///
    /// On a volume without checksums nothing tells which disk is wrong where stripes differ. To find it, read what is
    /// damaged without each disk in turn, which changes nothing: `volume:PATH?without=N` names the volume without disk N,
    /// as in `moirai sql --store 'volume:v.toml?without=1' ...` or `moirai store check --store 'volume:v.toml?without=1'`. Then
    /// fail and replace the disk without which nothing is damaged.
    Scrub {
        /// Description of the volume
        path: PathBuf,
        /// Bytes per second to read from each disk at most, like 50MiB
        #[arg(long, value_name = "SIZE", value_parser = rate)]
        rate: Option<ByteCount>,
        /// Make copies and parity match the data, although the data may be what is wrong
        #[arg(long)]
        repair: bool,
        /// Fill lost blocks with zeros, so that they can be read and written again; their contents are gone
        #[arg(long)]
        clear_lost: bool,
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
            integrity,
            force,
            controller,
            write_through,
        } => {
            let controller = controller.map(|size| ControllerTable {
                size: size.0.to_string(),
                write: match write_through {
                    true => ControllerWrites::Through,
                    false => ControllerWrites::Back,
                },
            });
            let wanted =
                Wanted { devices, parts, spares, level, layout: *layout, integrity, controller };
            create::create(&path, &wanted, force)
        }
        Command::Show { path, json } => show::show(&path, json),
        Command::Watch { path, record, stop, json } => watch::run(&path, record, stop, json),
        Command::Map { path, lbn, all, json } => show::map(&path, Lbn(lbn), all, json),
        Command::Draw { path, out, at, force } => draw::draw(&path, &out, Lbn(at), &force),
        Command::Bench { path, requests, yes_destroy_data, json } => {
            bench::bench(&path, requests, yes_destroy_data, json)
        }
        Command::Open { path, devices, degraded } => disks::open(&path, &devices, degraded),
        Command::Fail { path, disk } => disks::fail(&path, DiskIndex(disk)),
        Command::Replace { path, disk, device, force } => {
            disks::replace(&path, DiskIndex(disk), &device, force)
        }
        Command::Scrub { path, rate, repair, clear_lost, json } => {
            disks::scrub(&path, rate, Repair { differing: repair, lost: clear_lost }, json)
        }
        Command::Grow { path, devices, parts, rate, force } => match parts.is_empty() {
            true => disks::grow(&path, &devices, rate, force),
            false => create::append(&path, parts, force),
        },
        Command::Rebuild { path, rate } => disks::rebuild(&path, rate),
    }
}
