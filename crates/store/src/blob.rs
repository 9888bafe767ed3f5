//! Blobs: byte strings of any length in runs of blocks, named and checksummed by who refers to them.

use moirai_storage::{Device, IoBuf};
use moirai_units::{BlockCount, BlockRange, ByteCount, Lbn};
use serde::{Deserialize, Serialize};

use crate::checksum::checksum;
use crate::space::{RunExtent, Space};
use crate::{Error, Result};

/// Begins the checksum of every blob.
pub(crate) const BLOB_MAGIC: &[u8; 8] = b"MOIRAIBL";
/// The version of what is common to blobs.
pub(crate) const BLOB_VERSION: u32 = 1;

/// The shortest run that part of a blob is put in, as long as there are such.
const RUN_LEAST: BlockCount = BlockCount(128);

/// Where a blob lies, and what it must be.
#[derive(Clone, Debug, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct BlobRef {
    /// Bytes of the content.
    pub(crate) bytes: u64,
    /// CRC-32C of the content, begun with the magic and the version of blobs.
    pub(crate) crc: u32,
    /// The runs that hold it, in order.
    pub(crate) runs: Vec<RunExtent>,
}

fn checksum_of(content: &[u8]) -> u32 {
    checksum(BLOB_MAGIC, BLOB_VERSION, 0, content)
}

/// Writes `content` into newly allocated runs.
pub(crate) async fn write(
    device: &dyn Device,
    space: &mut Space,
    content: &[u8],
) -> Result<BlobRef> {
    let unit = device.inquiry().volume_block;
    let mut runs = Vec::new();
    let mut writes = Vec::new();
    let mut rest = content;
    while !rest.is_empty() {
        let needed = BlockCount::holding(ByteCount(rest.len() as u64));
        let needed = BlockCount(needed.0.div_ceil(unit.0) * unit.0);
        // Small fragments, like what pages leave over of a track, are for when there is nothing else.
        let least = BlockCount(RUN_LEAST.0.next_multiple_of(unit.0)).min(needed);
        let run = match space.allocate_run(least, needed) {
            Err(Error::Full { .. }) => space.allocate_run(unit, needed)?,
            run => run?,
        };
        let held = (run.range().bytes().0 as usize).min(rest.len());
        let (part, tail) = rest.split_at(held);
        let mut buffer = IoBuf::zeroed(BlockCount(run.blocks));
        if let Some(head) = buffer.get_mut(..held) {
            head.copy_from_slice(part);
        }
        writes.push((Lbn(run.first), buffer));
        runs.push(run);
        rest = tail;
    }
    device.batch_write(writes).await?;
    Ok(BlobRef { bytes: content.len() as u64, crc: checksum_of(content), runs })
}

/// Reads a blob back; `what` is what messages call it.
pub(crate) async fn read(device: &dyn Device, blob: &BlobRef, what: &str) -> Result<Vec<u8>> {
    let runs: Vec<BlockRange> = blob.runs.iter().map(|run| run.range()).collect();
    let damaged = |problem: &str| Error::Damaged {
        device: device.inquiry().name.clone(),
        what: what.to_owned(),
        blocks: runs.first().copied().unwrap_or(device.inquiry().all_blocks()),
        offset: runs.first().map_or(0, |run| run.first.byte_offset()),
        problem: problem.to_owned(),
    };
    // Nothing is allocated for runs that cannot be: the reference may be damaged too.
    let all = device.inquiry().all_blocks();
    let unit = device.inquiry().volume_block.0;
    let mut held = 0u64;
    for run in &blob.runs {
        let fits = run.blocks > 0
            && run.first.checked_add(run.blocks).is_some_and(|end| end <= all.end().0);
        if !fits {
            return Err(damaged("a run of blocks lies past the end of the device"));
        }
        held += run.blocks;
    }
    if held != blob.bytes.div_ceil(moirai_units::BLOCK_BYTES).div_ceil(unit) * unit {
        return Err(damaged("the lengths of the runs do not add up"));
    }
    let mut content = Vec::new();
    for buffer in device.batch_read(&runs).await? {
        content.extend_from_slice(&buffer);
    }
    content.truncate(usize::try_from(blob.bytes).unwrap_or(usize::MAX));
    if checksum_of(&content) != blob.crc {
        return Err(damaged("the checksum does not match"));
    }
    Ok(content)
}
