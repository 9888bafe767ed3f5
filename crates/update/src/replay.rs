//! Reading the log again: from the snapshot's start to the last frame that follows.

use std::collections::VecDeque;

use moirai_storage::{Device, IoBuf};
use moirai_units::{BLOCK_BYTES, BlockCount, BlockRange};

use crate::codec::Taker;
use crate::frame::Frame;
use crate::log::{Position, Ring, Start};
use crate::state::{Misfit, State};
use crate::superblock::Superblock;
use crate::{Error, Kinds, Result, Seq};

/// How far the log went.
pub(crate) struct Replayed {
    pub(crate) used: VecDeque<Start>,
    pub(crate) at: Position,
    /// The last opening.
    pub(crate) opening: u32,
    /// Bytes of the log that were read.
    pub(crate) bytes_read: u64,
}

/// A segment as it was read.
struct Segment {
    blocks: BlockRange,
    content: IoBuf,
    /// The first block of it that could not be read.
    unreadable: Option<BlockCount>,
}

/// Brings `state`, which a snapshot gave, to where the log ends; `None` when this is not its log.
pub(crate) async fn replay(
    device: &dyn Device,
    superblock: &Superblock,
    state: &mut State,
    kinds: &Kinds,
) -> Result<Option<Replayed>> {
    let (ring, known) = (superblock.ring, superblock.snapshot.next);
    let start = superblock.snapshot.start;
    let mut used = VecDeque::from([start]);
    let (mut number, mut checksum) = (start.number - 1, start.previous);
    let (mut index, mut at) = (start.segment, BlockCount::ZERO);
    let mut segment = read_segment(device, ring, index).await?;
    let mut bytes_read = ring.segment.bytes().0;
    let mut opening = 0;
    // What was read of groups, and not yet applied.
    let mut rest: Vec<u8> = Vec::new();
    let mut seq = start.first;
    let mut is_first = true;
    loop {
        if at >= ring.segment {
            // The next segment is the log's if a frame there follows.
            let next = read_segment(device, ring, ring.after(index)).await?;
            bytes_read += ring.segment.bytes().0;
            let follows = frame_at(&next, BlockCount::ZERO, superblock.id);
            match follows.filter(|(frame, ..)| follow(frame, number, checksum)) {
                Some((frame, ..)) if used.len() < ring.segments as usize => {
                    index = ring.after(index);
                    at = BlockCount::ZERO;
                    segment = next;
                    let first = frame.first;
                    used.push_back(Start {
                        segment: index,
                        number: number + 1,
                        previous: checksum,
                        first,
                    });
                }
                _ => {
                    check_beyond(device, superblock, ring.after(index), number).await?;
                    break;
                }
            }
        }
        let found = frame_at(&segment, at, superblock.id);
        let Some((frame, content, sum)) =
            found.filter(|(frame, ..)| follow(frame, number, checksum))
        else {
            check_end(device, &segment, superblock, at, number)?;
            check_beyond(device, superblock, ring.after(index), number).await?;
            break;
        };
        if frame.opening != opening {
            // What a run before left unfinished never ends.
            rest.clear();
        }
        let skipped = if is_first { frame.continued as usize } else { 0 };
        if is_first || frame.opening != opening {
            seq = frame.first;
        }
        // A frame that is whole within a group that began before says nothing yet.
        is_first = is_first && skipped == content.len() && !content.is_empty();
        rest.extend_from_slice(content.get(skipped..).unwrap_or_default());
        let place = BlockRange::new(segment.blocks.first + at, Frame::blocks(content.len()));
        let applied = apply_whole(&mut rest, &mut seq, state, kinds, known);
        applied.map_err(|misfit| not_applied(device, place, misfit))?;
        (number, checksum, opening) = (frame.number, sum, frame.opening);
        at += place.count;
    }
    if number < start.number {
        let other =
            Frame::decode(&segment.content).filter(|(frame, ..)| frame.log != superblock.id);
        if other.is_some() || segment.content.iter().all(|byte| *byte == 0) {
            return Ok(None);
        }
    }
    if number < superblock.snapshot.frame {
        let blocks = BlockRange::new(segment.blocks.first + at, BlockCount(1));
        return Err(lost(device, number + 1, blocks));
    }
    state.next = state.next.max(known);
    state.unseal();
    let at = Position { segment: index, at, number, checksum };
    Ok(Some(Replayed { used, at, opening, bytes_read }))
}

/// Applies the groups that are whole.
fn apply_whole(
    rest: &mut Vec<u8>,
    seq: &mut Seq,
    state: &mut State,
    kinds: &Kinds,
    known: Seq,
) -> std::result::Result<(), Misfit> {
    let mut taker = Taker(rest);
    let mut done = 0;
    while let Some(group) = taker.le32().and_then(|bytes| taker.fixed(bytes as usize)) {
        state.apply(*seq, group, kinds, known)?;
        *seq = Seq(seq.0 + 1);
        done += 4 + group.len();
    }
    rest.drain(..done);
    Ok(())
}

fn not_applied(device: &dyn Device, blocks: BlockRange, misfit: Misfit) -> Error {
    let device = device.inquiry().name.clone();
    match misfit {
        Misfit::NotOfLog => Error::Damaged { device, what: "a frame of the log", blocks },
        Misfit::NoSpace(space) => Error::NoSpace { space },
        Misfit::UnknownKind(number) => Error::UnknownKind { number },
    }
}

fn lost(device: &dyn Device, frame: u64, blocks: BlockRange) -> Error {
    Error::LogLost { device: device.inquiry().name.clone(), frame, blocks }
}

fn follow(frame: &Frame, number: u64, checksum: u32) -> bool {
    frame.number == number + 1 && frame.previous == checksum
}

fn frame_at(segment: &Segment, at: BlockCount, id: u64) -> Option<(Frame, &[u8], u32)> {
    let bytes = segment.content.get((at.0 * BLOCK_BYTES) as usize..)?;
    Frame::decode(bytes).filter(|(frame, ..)| frame.log == id)
}

/// The log ends before segment `index`: an error when that, or those that follow it, say that more was durable.
async fn check_beyond(
    device: &dyn Device,
    superblock: &Superblock,
    mut index: u32,
    number: u64,
) -> Result<()> {
    for _ in 0..superblock.ring.segments {
        let segment = read_segment(device, superblock.ring, index).await?;
        check_end(device, &segment, superblock, BlockCount::ZERO, number)?;
        let first = frame_at(&segment, BlockCount::ZERO, superblock.id);
        // One write may have gone over several segments.
        if first.is_none_or(|(frame, ..)| frame.number <= number) {
            break;
        }
        index = superblock.ring.after(index);
    }
    Ok(())
}

/// The log ends at `at` of a segment, behind frame `number`: an error when a frame further on says that more
/// was durable.
fn check_end(
    device: &dyn Device,
    segment: &Segment,
    superblock: &Superblock,
    at: BlockCount,
    number: u64,
) -> Result<()> {
    let blocks = BlockRange::new(segment.blocks.first + at, BlockCount(1));
    for further in (at.0..segment.blocks.count.0).map(BlockCount) {
        if let Some((frame, ..)) = frame_at(segment, further, superblock.id)
            && frame.number > number
            && frame.durable > number
        {
            return Err(lost(device, number + 1, blocks));
        }
    }
    if segment.unreadable.is_some_and(|first| first >= at) {
        tracing::warn!("{}: the log ends where blocks cannot be read", device.inquiry().name);
    }
    Ok(())
}

/// Reads a segment; blocks that cannot be read come as zeros.
async fn read_segment(device: &dyn Device, ring: Ring, index: u32) -> Result<Segment> {
    let blocks = ring.segment_at(index);
    if let Ok(content) = device.read(blocks).await {
        return Ok(Segment { blocks, content, unreadable: None });
    }
    let mut content = IoBuf::zeroed(blocks.count);
    let mut unreadable = None;
    let mut error = None;
    let places = content.chunks_exact_mut(BLOCK_BYTES as usize);
    for (at, place) in (0..).map(BlockCount).zip(places) {
        match device.read(BlockRange::new(blocks.first + at, BlockCount(1))).await {
            Ok(block) => place.copy_from_slice(&block),
            Err(why) => {
                unreadable = unreadable.or(Some(at));
                error = Some(why);
            }
        }
    }
    // Where nothing can be read it is the device.
    match error {
        Some(error)
            if unreadable == Some(BlockCount::ZERO) && content.iter().all(|byte| *byte == 0) =>
        {
            Err(error.into())
        }
        _ => Ok(Segment { blocks, content, unreadable }),
    }
}
