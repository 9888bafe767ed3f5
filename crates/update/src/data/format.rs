//! Formatting: how data and log are divided.

use std::sync::Arc;

use moirai_runtime::unique;
use moirai_storage::Device;
use moirai_units::{BLOCK_BYTES, BlockCount, BlockRange, ByteCount, Lbn};

use crate::block_format::BlockFormat;
use crate::data::layout::{BLOCK_BYTES_MAX, Division, EXTENTS_RESERVE, PARTITION_BLOCKS_MAX};
use crate::data::superblock::{Checkpoint, NAME_BYTES, SUPERBLOCKS, Superblock};
use crate::engine::Engine;
use crate::error::{Error, Result};
use crate::ids::Seq;
use crate::log::frame::{Frame, LABEL_BLOCKS};
use crate::log::segments::{
    LOG_DISKS_MAX, LogWriter, Ring, SEGMENT_BLOCKS_MIN, SEGMENTS, Segments, Start,
};

/// How data and log are divided when they are formatted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Format {
    /// Bytes of a block: a multiple of 512, up to 1 MiB.
    pub block_bytes: ByteCount,
    /// Blocks of a partition at most, 1 to 64: they lie together and are swept together.
    pub partition_blocks: u32,
    /// Room for staging in a partition's extent, in percent of its blocks' bytes. Without, memory alone decides
    /// how much one sweep applies. 1000 at most.
    pub staging_percent: u32,
    /// Bytes of a segment of the log, 4 MiB at most; a sixteenth of the log when not given. Of no meaning with
    /// [`LogWriter::Trail`].
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

impl Engine {
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
        let division = divide(data, &format)?;
        if !(1..=LOG_DISKS_MAX).contains(&logs.len()) {
            let name = &data.inquiry().name;
            let problem = format!(
                "{name}: a log cannot have {} devices: name 1 to {LOG_DISKS_MAX}",
                logs.len()
            );
            return Err(Error::Options { problem });
        }
        let rings = logs.iter().map(|log| ring(&**log, &format)).collect::<Result<Vec<_>>>()?;
        let start = Start { at: [0; LOG_DISKS_MAX], number: 1, previous: 0, first: Seq(1) };
        let checkpoint = Checkpoint {
            next: Seq(1),
            frame: 0,
            start,
            bytes: 0,
            checksum: 0,
            extents: Vec::new(),
        };
        let mut superblock = Superblock {
            generation: 0,
            id: unique(),
            format: name_of(blocks),
            division,
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
        superblock.write(data).await?;
        superblock.generation = 1;
        superblock.write(data).await
    }

    /// How long data and log of the engine on `data` are; errors as of [`Engine::open`].
    pub async fn lengths(data: &dyn Device) -> Result<Lengths> {
        let Superblock { capacity, rings, .. } = Superblock::read(data).await?;
        let blocks = |ring: &Ring| ring.segment.0 * u64::from(ring.segments) + LABEL_BLOCKS.0;
        let log = rings.iter().map(|ring| BlockCount(blocks(ring))).sum();
        Ok(Lengths { data: capacity, log })
    }
}

/// What frames on a disk of an engine's log say whose they are: no disk is taken for another.
pub(crate) fn disk_id(engine: u64, disk: u64) -> u64 {
    engine.wrapping_add(disk)
}

/// How a device of a log is divided.
fn ring(log: &dyn Device, format: &Format) -> Result<Ring> {
    let ring = match format.log {
        LogWriter::Append => {
            let bytes = log.inquiry().capacity.0.saturating_sub(LABEL_BLOCKS.0) * BLOCK_BYTES;
            let segment = format.segment_bytes.map_or(bytes / 16, |bytes| bytes.0);
            let segment = BlockCount(segment.min(4 << 20) / BLOCK_BYTES);
            let segments = bytes.checked_div(segment.bytes().0).unwrap_or(0);
            Ring {
                segment,
                segments: segments.min(u64::from(*SEGMENTS.end())) as u32,
                writer: format.log,
            }
        }
        LogWriter::Trail { .. } => Segments::tracks_of(log, format.log)?.ring,
    };
    if ring.segment.0 < SEGMENT_BLOCKS_MIN || !SEGMENTS.contains(&ring.segments) {
        return Err(Error::Options {
            problem: format!(
                "{}: the log is too small for four segments of 4 KiB, or tracks of 6.5 KiB: give the log 68 KiB or more",
                log.inquiry().name
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

/// Divides the data device into extents.
fn divide(data: &dyn Device, format: &Format) -> Result<Division> {
    let bad = |problem: String| Err(Error::Options { problem });
    let Format { block_bytes, partition_blocks, staging_percent, .. } = *format;
    let is_whole = block_bytes.0.is_multiple_of(BLOCK_BYTES) && block_bytes.0 > 0;
    if !is_whole || block_bytes.0 > BLOCK_BYTES_MAX {
        return bad(format!(
            "a block cannot have {block_bytes}: take a multiple of 512 bytes, up to 1 MiB"
        ));
    }
    if partition_blocks == 0 || partition_blocks > PARTITION_BLOCKS_MAX {
        return bad(format!(
            "a partition cannot have {partition_blocks} blocks: take 1 to {PARTITION_BLOCKS_MAX}"
        ));
    }
    if staging_percent > 1000 {
        return bad(format!(
            "{staging_percent} percent for staging are too much: take at most 1000"
        ));
    }
    let block = BlockCount(block_bytes.0 / BLOCK_BYTES);
    let staging = block.0 * u64::from(partition_blocks) * u64::from(staging_percent) / 100;
    let mut division = Division {
        first: Lbn(SUPERBLOCKS.0),
        extents: 0,
        block,
        partition_blocks,
        staging: BlockCount(staging),
    };
    let room = data.inquiry().capacity.0.saturating_sub(SUPERBLOCKS.0);
    let extents = room / division.extent().0;
    division.extents = u32::try_from(extents).unwrap_or(u32::MAX - 1);
    if division.extents < 2 * EXTENTS_RESERVE as u32 + 2 {
        return bad(format!(
            "{}: the device has {} for data, but a store with blocks of {} needs {}: take a larger device, or smaller \
             blocks",
            data.inquiry().name,
            data.inquiry().capacity.bytes(),
            format.block_bytes,
            BlockCount(division.extent().0 * (2 * EXTENTS_RESERVE as u64 + 2) + SUPERBLOCKS.0)
                .bytes()
        ));
    }
    Ok(division)
}
