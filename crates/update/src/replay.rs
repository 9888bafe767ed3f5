//! Reading the log again: from the snapshot's start to the last frame that follows.

use std::collections::VecDeque;
use std::sync::Arc;

use moirai_storage::{Device, IoBuf};
use moirai_units::{BLOCK_BYTES, BlockCount, BlockRange, Lbn};

use crate::codec::Taker;
use crate::frame::Frame;
use crate::log::{Position, Start};
use crate::placing::{Free, Gap, Placing, Segments};
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
    index: u32,
    blocks: BlockRange,
    content: IoBuf,
    /// The blocks of it that could not be read.
    unreadable: Vec<BlockCount>,
    /// Where something lies that has a frame's header, and what it says.
    headers: Vec<(BlockCount, Frame)>,
}

impl Segment {
    /// The frame that follows `number`, whose checksum is given, with its place, content and checksum.
    fn after(&self, number: u64, checksum: u32) -> Option<(Gap, Frame, &[u8], u32)> {
        let follows = |frame: &Frame| frame.number == number + 1 && frame.previous == checksum;
        let mut following = self.headers.iter().filter(|(_, frame)| follows(frame));
        following.find_map(|(at, _)| {
            let bytes = self.content.get((at.0 * BLOCK_BYTES) as usize..)?;
            let (frame, content, sum) = Frame::decode(bytes)?;
            Some((Gap { at: *at, count: Frame::blocks(content.len()) }, frame, content, sum))
        })
    }

    /// What does not count, and might another time: frames behind the last one, and what cannot be read now.
    fn doubtful(&self, number: u64) -> impl Iterator<Item = Doubtful> {
        let first = self.blocks.first;
        let later = self.headers.iter().filter(move |(_, frame)| frame.number > number);
        let frames = later.map(move |(at, _)| Doubtful { block: first + *at, is_frame: true });
        let unreadable = self.unreadable.iter();
        frames.chain(unreadable.map(move |at| Doubtful { block: first + *at, is_frame: false }))
    }

    fn range(&self, gap: Gap) -> BlockRange {
        BlockRange::new(self.blocks.first + gap.at, gap.count)
    }
}

/// See [`Segment::doubtful`].
struct Doubtful {
    block: Lbn,
    is_frame: bool,
}

/// The segments of a log, as recovery reads them.
struct Reader<'a> {
    device: &'a dyn Device,
    segments: &'a Segments,
    id: u64,
}

/// Brings `state`, which a snapshot gave, to where the log ends; `None` when this is not its log.
pub(crate) async fn replay(
    device: &dyn Device,
    segments: &Arc<Segments>,
    superblock: &Superblock,
    state: &mut State,
    kinds: &Kinds,
) -> Result<Option<Replayed>> {
    let known = superblock.snapshot.next;
    let start = superblock.snapshot.start;
    let reader = Reader { device, segments, id: superblock.id };
    let mut used = VecDeque::from([start]);
    let (mut number, mut checksum) = (start.number - 1, start.previous);
    let mut segment = reader.read(start.segment).await?;
    let mut free = Free::new(segment.blocks.count);
    let mut bytes_read = segment.blocks.count.bytes().0;
    let mut opening = 0;
    // What was read of groups, and not yet applied.
    let mut rest: Vec<u8> = Vec::new();
    let mut seq = start.first;
    let mut is_first = true;
    loop {
        let Some((place, frame, content, sum)) = segment.after(number, checksum) else {
            // The next segment is the log's if a frame there follows.
            if used.len() >= segments.ring.segments as usize {
                break;
            }
            let next = reader.read(segments.ring.after(segment.index)).await?;
            bytes_read += next.blocks.count.bytes().0;
            let Some((_, frame, ..)) = next.after(number, checksum) else { break };
            let (first, previous) = (frame.first, checksum);
            used.push_back(Start { segment: next.index, number: number + 1, previous, first });
            free = Free::new(next.blocks.count);
            segment = next;
            continue;
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
        let applied = apply_whole(&mut rest, &mut seq, state, kinds, known);
        applied.map_err(|misfit| not_applied(device, segment.range(place), misfit))?;
        (number, checksum, opening) = (frame.number, sum, frame.opening);
        free.take(place);
    }
    if number < start.number {
        let other =
            Frame::decode(&segment.content).filter(|(frame, ..)| frame.log != superblock.id);
        if other.is_some() || segment.content.iter().all(|byte| *byte == 0) {
            return Ok(None);
        }
    }
    if number < superblock.snapshot.frame {
        return Err(reader.lost(&segment, number + 1));
    }
    reader.check_end(&segment, &free, number, used.len()).await?;
    state.next = state.next.max(known);
    state.unseal();
    let placing = Placing::new(Arc::clone(segments), segment.index, free);
    let at = Position { placing, number, checksum };
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

impl Reader<'_> {
    /// Reads a segment; blocks that cannot be read come as zeros.
    async fn read(&self, index: u32) -> Result<Segment> {
        let blocks = self.segments.at(index);
        let mut unreadable = Vec::new();
        let content = match self.device.read(blocks).await {
            Ok(content) => content,
            Err(_) => {
                let mut content = IoBuf::zeroed(blocks.count);
                let mut error = None;
                let places = content.chunks_exact_mut(BLOCK_BYTES as usize);
                for (at, place) in (0..).map(BlockCount).zip(places) {
                    let block = BlockRange::new(blocks.first + at, BlockCount(1));
                    match self.device.read(block).await {
                        Ok(block) => place.copy_from_slice(&block),
                        Err(why) => {
                            unreadable.push(at);
                            error = Some(why);
                        }
                    }
                }
                // Where nothing can be read it is the device.
                if let Some(error) = error
                    && unreadable.len() as u64 == blocks.count.0
                {
                    return Err(error.into());
                }
                content
            }
        };
        let at = (0..).map(BlockCount).zip(content.chunks_exact(BLOCK_BYTES as usize));
        let headers = at.filter_map(|(at, block)| Some((at, Frame::header(block)?)));
        let headers = headers.filter(|(_, frame)| frame.log == self.id).collect();
        Ok(Segment { index, blocks, content, unreadable, headers })
    }

    /// The log ends behind frame `number`, in `last`: an error when a frame further on says that more was durable. Once
    /// none does, what might be taken to follow another time is written over, the last first: who is stopped on the
    /// way finds the rest again.
    async fn check_end(&self, last: &Segment, free: &Free, number: u64, used: usize) -> Result<()> {
        self.check_beyond(last, number)?;
        let mut doubtful: Vec<Doubtful> = last.doubtful(number).collect();
        doubtful.retain(|one| free.contains(BlockCount(one.block.0 - last.blocks.first.0)));
        let mut index = last.index;
        for _ in used..self.segments.ring.segments as usize {
            index = self.segments.ring.after(index);
            let segment = self.read(index).await?;
            self.check_beyond(&segment, number)?;
            doubtful.extend(segment.doubtful(number));
            // One write may have gone over several segments.
            if segment.headers.iter().all(|(_, frame)| frame.number <= number) {
                break;
            }
        }
        for Doubtful { block, is_frame } in doubtful.into_iter().rev() {
            let cleared = self.device.write(block, IoBuf::zeroed(BlockCount(1))).await;
            let log = &self.device.inquiry().name;
            match (cleared, is_frame) {
                (Err(error), true) => return Err(error.into()),
                (Err(error), false) => {
                    tracing::warn!("{log}: block {block} can be neither read nor written: {error}");
                }
                (Ok(()), true) => {}
                (Ok(()), false) => {
                    tracing::warn!("{log}: block {block}, where the log ends, could not be read");
                }
            }
        }
        Ok(self.device.flush().await?)
    }

    fn check_beyond(&self, segment: &Segment, number: u64) -> Result<()> {
        let says_more = |(_, frame): &(_, Frame)| frame.number > number && frame.durable > number;
        let mut claims = segment.headers.iter().filter(|header| says_more(header));
        let is_whole = |(at, _): &(BlockCount, Frame)| {
            let bytes = segment.content.get((at.0 * BLOCK_BYTES) as usize..);
            bytes.is_some_and(|bytes| Frame::decode(bytes).is_some())
        };
        match claims.any(is_whole) {
            true => Err(self.lost(segment, number + 1)),
            false => Ok(()),
        }
    }

    fn lost(&self, segment: &Segment, frame: u64) -> Error {
        let device = self.device.inquiry().name.clone();
        Error::LogLost { device, frame, blocks: segment.blocks }
    }
}
