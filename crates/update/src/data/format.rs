//! Formatting: how data and log are divided.

use std::sync::Arc;

use moirai_runtime::{check_runtime, unique};
use moirai_storage::Device;
use moirai_units::{BLOCK_BYTES, BlockCount, BlockRange, ByteCount, Lbn};

use crate::block_format::BlockFormat;
use crate::data::division::Division;
use crate::data::layout::Layout;
use crate::data::superblock::{Checkpoint, SUPERBLOCKS, Superblock};
use crate::engine::Engine;
use crate::error::{Error, Result};
use crate::ids::Seq;
use crate::limits::NAME_BYTES;
use crate::log::frame::Frame;
use crate::log::segments::{
    LOG_DISKS_MAX, LogWriter, PHYSICAL_BLOCKS_MAX, Ring, SEGMENTS, Segments, Start,
};

/// Partitions of full length that a device has room for at least: some that are rewritten at once, and checkpoints.
const PARTITIONS_MIN: u64 = 8;

/// How data and log are divided when they are formatted; and the blocks of spaces that are made without a
/// [`SpaceFormat`](crate::SpaceFormat).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Format {
    /// Bytes of a block: a multiple of 512, up to 1 MiB.
    pub block_bytes: ByteCount,
    /// Blocks of a partition at most, 1 to 64: they lie together and are swept together.
    pub partition_blocks: u32,
    /// How much may be staged for a partition, in percent of the bytes of its blocks at most. With 0, memory alone
    /// decides how much one sweep applies. 1000 at most.
    pub staging_percent: u32,
    /// Bytes of a segment of the log, 4 MiB at most, rounded down to whole physical sectors of its device; a sixteenth of
    /// the log when not given. Of no meaning with [`LogWriter::Trail`].
    pub segment_bytes: Option<ByteCount>,
    /// How the log is written. With [`LogWriter::Trail`] its segments are the tracks of its disks.
    pub log: LogWriter,
}

/// How long data and log of an engine are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Lengths {
    /// The data device, as it was when it was formatted.
    pub data: BlockCount,
    /// What is used of all devices of the log, with their labels; of tracks, what counts of them.
    pub log: BlockCount,
}

impl Default for Format {
    /// The paper's blocks (figure 2), and as much again for staging.
    fn default() -> Format {
        Format {
            block_bytes: ByteCount(64 << 10),
            partition_blocks: 32,
            staging_percent: 100,
            segment_bytes: None,
            log: LogWriter::Append,
        }
    }
}

/// How data and log are to be divided.
fn divided(
    data: &dyn Device,
    logs: &[Arc<dyn Device>],
    format: &Format,
) -> Result<(Layout, Vec<Ring>)> {
    let layout = divide(data, format)?;
    if !(1..=LOG_DISKS_MAX).contains(&logs.len()) {
        let name = &data.inquiry().name;
        let problem =
            format!("{name}: a log cannot have {} devices: name 1 to {LOG_DISKS_MAX}", logs.len());
        return Err(Error::Options { problem });
    }
    let rings = logs.iter().map(|log| ring(&**log, format)).collect::<Result<Vec<_>>>()?;
    Ok((layout, rings))
}

impl Engine {
    /// Checks that [`Engine::format`] can make these devices those of an engine, and writes nothing.
    ///
    /// # Errors
    /// As of [`Engine::format`], but for a log device that is named twice.
    pub fn check_format(
        data: &dyn Device,
        logs: &[Arc<dyn Device>],
        format: &Format,
    ) -> Result<()> {
        divided(data, logs, format).map(drop)
    }

    /// Makes `data` and the devices of a log those of a new engine; they lose what they hold.
    ///
    /// # Errors
    /// [`Error::Options`] for what [`Format`] does not allow, devices that are too small, and no log device, more than
    /// eight, or one that is named twice, whose label is written by then; [`Error::Device`].
    pub async fn format(
        data: &dyn Device,
        logs: &[Arc<dyn Device>],
        blocks: &dyn BlockFormat,
        format: Format,
    ) -> Result<()> {
        check_runtime().map_err(moirai_storage::Error::NoRuntime)?;
        let (layout, rings) = divided(data, logs, &format)?;
        let start = Start { at: [0; LOG_DISKS_MAX], number: 1, previous: 0, first: Seq(1) };
        let checkpoint = Checkpoint {
            next: Seq(1),
            frame: 0,
            start,
            root: BlockRange::new(Lbn(0), BlockCount::ZERO),
            root_copy: Lbn(0),
        };
        let superblock = Superblock {
            generation: 1,
            id: unique(),
            format: name_of(blocks),
            layout,
            capacity: data.inquiry().capacity,
            rings,
            checkpoint,
        };
        // The log says whose it is before anything else.
        for (disk, log) in (0..).zip(logs) {
            log.write(Lbn(0), Frame::label(disk_id(superblock.id, disk))).await?;
            log.flush().await?;
        }
        for (disk, log) in (0..).zip(logs) {
            let label = log.read(BlockRange::new(Lbn(0), BlockCount(1))).await?;
            if label[..] != Frame::label(disk_id(superblock.id, disk))[..] {
                let name = &log.inquiry().name;
                let problem = format!(
                    "{name}: another log device has overwritten the label: name each log device once"
                );
                return Err(Error::Options { problem });
            }
        }
        superblock.write(data).await
    }

    /// How long data and log of the engine on `data` are; errors as of [`Engine::open`].
    pub async fn lengths(data: &dyn Device) -> Result<Lengths> {
        let (Superblock { capacity, rings, .. }, _) = Superblock::read(data).await?;
        let log = rings.iter().map(|ring| BlockCount(ring.segment_at(ring.segments).first.0)).sum();
        Ok(Lengths { data: capacity, log })
    }
}

/// What frames on a disk of an engine's log say whose they are: no disk is taken for another.
pub(crate) fn disk_id(engine: u64, disk: u64) -> u64 {
    engine.wrapping_add(disk)
}

/// How a device of a log is divided.
fn ring(log: &dyn Device, format: &Format) -> Result<Ring> {
    let physical = log.inquiry().physical_block.clamp(BlockCount(1), PHYSICAL_BLOCKS_MAX);
    let least = Ring::segment_min(physical);
    let ring = match format.log {
        LogWriter::Append => {
            let blocks = log.inquiry().capacity.0.saturating_sub(Ring::first(physical).0);
            let segment = match format.segment_bytes {
                Some(bytes) => bytes.0 / BLOCK_BYTES,
                None => (blocks / 16).max(least.0),
            };
            let segment = segment.min((4 << 20) / BLOCK_BYTES);
            let segment = BlockCount(segment / physical.0 * physical.0);
            let segments = blocks.checked_div(segment.0).unwrap_or(0);
            Ring {
                segment,
                segments: segments.min(u64::from(*SEGMENTS.end())) as u32,
                writer: format.log,
                physical,
            }
        }
        LogWriter::Trail { .. } => Segments::tracks_of(log, format.log, physical)?.ring,
    };
    if ring.segment < least || !SEGMENTS.contains(&ring.segments) {
        return Err(Error::Options {
            problem: format!(
                "{}: the log is too small for four segments of {}, or of tracks of which as much counts: give the log {} or \
                 more",
                log.inquiry().name,
                least.bytes(),
                BlockCount(4 * least.0 + Ring::first(physical).0).bytes()
            ),
        });
    }
    Ok(ring)
}

pub(crate) fn name_of(blocks: &dyn BlockFormat) -> [u8; NAME_BYTES] {
    let mut name = [0; NAME_BYTES];
    name.iter_mut().zip(blocks.name().bytes()).for_each(|(place, byte)| *place = byte);
    name
}

/// Divides the data device.
fn divide(data: &dyn Device, format: &Format) -> Result<Layout> {
    let Format { block_bytes, partition_blocks, staging_percent, .. } = *format;
    let grain = data.inquiry().physical_block.clamp(BlockCount(1), PHYSICAL_BLOCKS_MAX);
    let division = Division::of(block_bytes, partition_blocks, staging_percent, grain);
    let division = division.map_err(|problem| Error::Options { problem })?;
    let room = data.inquiry().capacity.0.saturating_sub(SUPERBLOCKS.0);
    let room = BlockCount(room);
    check_room(data, room, &division)?;
    Ok(Layout { data: BlockRange::new(Lbn(SUPERBLOCKS.0), room), division })
}

/// [`Error::Options`] where so many device blocks are too few for partitions that are divided like this.
pub(crate) fn check_room(data: &dyn Device, room: BlockCount, division: &Division) -> Result<()> {
    let least = BlockCount(division.partition().0 * PARTITIONS_MIN);
    if room >= least {
        return Ok(());
    }
    let problem = format!(
        "{}: the device has {} for data, but a store with blocks of {} needs {}: take a larger device, or smaller blocks",
        data.inquiry().name,
        data.inquiry().capacity.bytes(),
        division.block.bytes(),
        (least + SUPERBLOCKS).bytes()
    );
    Err(Error::Options { problem })
}
