//! Reading the log again: from the checkpoint's start to the last frame that follows.

use std::collections::VecDeque;
use std::sync::Arc;

use moirai_storage::Device;
use moirai_units::{BlockCount, BlockRange, Lbn};

use crate::data::superblock::Superblock;
use crate::error::{BULK_ENTRIES, Error, Result};
use crate::kind::Kinds;
use crate::log::frame::Frame;
use crate::log::placing::Placing;
use crate::log::readers::{End, NO_BLOCKS, Reader};
use crate::log::segments::{LogDisk, Start};
use crate::log::walk::Walk;
use crate::log::writer::Position;
use crate::options::Options;
use crate::state::State;
use crate::state::entry::Elsewhere;

/// How far the log went.
pub(crate) struct Replayed {
    pub(crate) used: VecDeque<Start>,
    pub(crate) at: Position,
    /// The last opening.
    pub(crate) opening: u32,
    /// Bytes of the log that were read.
    pub(crate) bytes_read: u64,
    /// Whether something durable may be missing: the end was forced.
    pub(crate) is_forced: bool,
    /// Whether the state is only an outline, because the pending modifications take more memory than the engine has.
    pub(crate) is_outline: bool,
}

/// Brings `state`, which a checkpoint gave, to where the log ends.
pub(crate) async fn replay(
    data: &dyn Device,
    disks: &[LogDisk],
    superblock: &Superblock,
    state: &mut State,
    kinds: &Kinds,
    options: &Options,
) -> Result<Replayed> {
    let known = superblock.checkpoint.next;
    let mut are_labelled = Vec::new();
    for disk in disks {
        are_labelled.push(has_label(data, disk).await?);
    }
    let memory_bytes = options.memory.0 as usize;
    let mut walk = Walk::new(disks, superblock.checkpoint.start, options.force_log_end).await?;
    let mut is_outline = false;
    while walk.step().await? {
        while let Some((seq, group)) = walk.next_group() {
            let elsewhere = Elsewhere::of(group).filter(|_| seq >= known);
            let entries = match &elsewhere {
                Some(elsewhere) => Some(read_elsewhere(data, state, elsewhere).await?),
                None => None,
            };
            // Of one that the checkpoint has nothing is left to do.
            let is_done = seq < known && Elsewhere::of(group).is_some();
            let group = if is_done { &[][..] } else { entries.as_deref().unwrap_or(group) };
            let applied = state.apply(seq, group, kinds, known);
            applied.map_err(|misfit| walk.not_applied(misfit))?;
            // Nobody reads yet, and the next group may have these blocks.
            state.left.clear();
            let is_too_much = state.queued_bytes > state.queues_bytes_max(memory_bytes, 0);
            // Who writes nothing cannot make room.
            if is_too_much && !is_outline && !options.read_only {
                is_outline = true;
                state.drop_queues();
            }
        }
    }
    let Walk { mut readers, number, checksum, opening, last, mut used, .. } = walk;
    for (reader, is_labelled) in readers.0.iter().zip(&are_labelled) {
        if !is_labelled && !reader.has_frames() {
            return Err(Error::other_log(data, &*reader.disk.device));
        }
    }
    let mut is_forced = false;
    if number < superblock.checkpoint.frame {
        readers.force(readers.lost(last, number + 1), state.applied, options.force_log_end)?;
        is_forced = true;
    }
    state.applied = state.applied.max(known);
    let end = End { last, number, checksum, next: state.applied };
    let (doubtful, is_lost) = readers.check_end(end, options.force_log_end).await?;
    is_forced |= is_lost;
    if !options.read_only {
        readers.clear(doubtful).await?;
    }
    for (disk, is_labelled) in disks.iter().zip(are_labelled) {
        if !is_labelled && !options.read_only {
            let name = &disk.device.inquiry().name;
            let written = disk.device.write(Lbn(0), Frame::label(disk.id)).await;
            let outcome = written.err().map_or("rewritten".into(), |error| error.to_string());
            tracing::warn!("{name}: the label of the log was damaged: {outcome}");
        }
    }
    // A group that a crash cut off is none, and its number is that of the next: nothing begins in segments in which it went
    // on, and what begins behind them comes first.
    let mut first = state.applied;
    for start in used.iter_mut().rev() {
        start.first = start.first.min(first);
        first = start.first;
    }
    state.unseal();
    let bytes_read = readers.0.iter().map(|reader| reader.bytes_read.0).sum();
    let placing = |reader: Reader<'_>| {
        Placing::new(Arc::clone(&reader.disk.segments), reader.segment.index, reader.free)
    };
    let placings = readers.0.into_iter().map(placing).collect();
    let at = Position { placings, number, checksum };
    Ok(Replayed { used, at, opening, bytes_read, is_forced, is_outline })
}

/// Reads entries that a group refers to. Their blocks are in use until the next checkpoint.
async fn read_elsewhere(
    data: &dyn Device,
    state: &mut State,
    elsewhere: &Elsewhere,
) -> Result<Vec<u8>> {
    let Elsewhere { runs, bytes, checksum } = elsewhere;
    let damaged = || {
        let blocks = runs.first().copied().unwrap_or(NO_BLOCKS);
        Error::damaged(data, BULK_ENTRIES, blocks)
    };
    let mut entries = Vec::new();
    for run in runs {
        let extent = state.extents.take_this(run.first, run.count).ok_or_else(damaged)?;
        state.elsewhere_extents.push(extent);
        entries.extend_from_slice(&data.read(*run).await?);
    }
    entries.truncate(*bytes as usize);
    match entries.len() as u64 == *bytes && crc32c::crc32c(&entries) == *checksum {
        true => Ok(entries),
        false => Err(damaged()),
    }
}

/// Whether a disk says whose log it is, and no other's; it does not when that is damaged.
async fn has_label(data: &dyn Device, disk: &LogDisk) -> Result<bool> {
    let Ok(content) = disk.device.read(BlockRange::new(Lbn(0), BlockCount(1))).await else {
        return Ok(false);
    };
    let label = Frame::decode(&content);
    let is_blank = content.iter().all(|byte| *byte == 0);
    match label {
        Some((frame, ..)) if frame.log == disk.id => Ok(true),
        None if !is_blank => Ok(false),
        _ => Err(Error::other_log(data, &*disk.device)),
    }
}
