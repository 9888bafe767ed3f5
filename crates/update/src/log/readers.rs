//! Reading the segments of the log again: where its frames are, and where it ends.

use moirai_storage::IoBuf;
use moirai_units::{BLOCK_BYTES, BlockCount, BlockRange, ByteCount, Lbn};

use crate::error::{Error, FRAME, Result};
use crate::ids::Seq;
use crate::log::frame::Frame;
use crate::log::placing::{Free, Gap};
use crate::log::segments::{LogDisk, LogWriter, Start};
use crate::state::Misfit;

pub(super) const NO_BLOCKS: BlockRange = BlockRange { first: Lbn(0), count: BlockCount::ZERO };

/// A segment as it was read.
pub(super) struct Segment {
    pub(super) index: u32,
    pub(super) blocks: BlockRange,
    pub(super) content: IoBuf,
    /// Blocks of a physical sector.
    pub(super) physical: BlockCount,
    /// The physical sectors of it that could not be read.
    pub(super) unreadable: Vec<Gap>,
    /// Where something lies that has a frame's header, and what it says.
    pub(super) headers: Vec<(BlockCount, Frame)>,
}

impl Segment {
    /// Reads a segment; physical sectors that cannot be read come as zeros. Where that is all of them it is an error, unless
    /// the end of the log is forced.
    async fn read(disk: &LogDisk, index: u32, is_forced: bool) -> Result<Segment> {
        let blocks = disk.segments.at(index);
        let physical = disk.segments.ring.physical;
        let mut unreadable = Vec::new();
        let content = match disk.device.read(blocks).await {
            Ok(content) => content,
            Err(_) => {
                let mut content = IoBuf::zeroed(blocks.count);
                let mut error = None;
                let mut rest = &mut content[..];
                let mut first = blocks.first;
                while first < blocks.end() {
                    let end = sector_after(first, physical).min(blocks.end());
                    let sector = BlockRange::between(first, end);
                    let bytes = sector.count.bytes().0 as usize;
                    let Some((place, behind)) = rest.split_at_mut_checked(bytes) else { break };
                    match disk.device.read(sector).await {
                        Ok(read) => place.copy_from_slice(&read),
                        Err(why) => {
                            let at = BlockCount(first.0 - blocks.first.0);
                            unreadable.push(Gap { at, count: sector.count });
                            error = Some(why);
                        }
                    }
                    (rest, first) = (behind, end);
                }
                // Where nothing can be read it is the device.
                let lost: BlockCount = unreadable.iter().map(|sector| sector.count).sum();
                if let Some(error) = error
                    && lost == blocks.count
                    && !is_forced
                {
                    return Err(error.into());
                }
                content
            }
        };
        let at = (0..).map(BlockCount).zip(content.chunks_exact(BLOCK_BYTES as usize));
        let headers = at.filter_map(|(at, block)| Some((at, Frame::header(block)?)));
        let begins = |at: BlockCount| (blocks.first + at).0.is_multiple_of(physical.0);
        let headers = headers.filter(|(at, frame)| frame.log == disk.id && begins(*at)).collect();
        Ok(Segment { index, blocks, content, physical, unreadable, headers })
    }

    /// The frame that follows `number`, whose checksum is given, with its place, content and checksum.
    fn after(&self, number: u64, checksum: u32) -> Option<(Gap, Frame, &[u8], u32)> {
        let mut following =
            self.headers.iter().filter(|(_, frame)| frame.follows(number, checksum));
        following.find_map(|(at, _)| {
            let bytes = self.content.get((at.0 * BLOCK_BYTES) as usize..)?;
            let (frame, content, sum) = Frame::decode(bytes)?;
            let count = Frame::blocks(content.len(), self.physical);
            Some((Gap { at: *at, count }, frame, content, sum))
        })
    }

    /// The first block that cannot be read and could be of the frame after `number`, whose checksum is given: `free` is
    /// what the frames before it leave of the segment.
    fn hidden(&self, free: &Free, number: u64, checksum: u32, writer: LogWriter) -> Option<Lbn> {
        let begun = self.headers.iter().filter(|(_, frame)| frame.follows(number, checksum));
        let begun: Vec<_> = begun
            .map(|(at, frame)| *at..*at + Frame::blocks(frame.bytes as usize, self.physical))
            .collect();
        // The log may need none of the frames that are here, and then they are not taken from `free`.
        let earlier = self.headers.iter().filter(|(_, frame)| frame.number <= number);
        let last = earlier.max_by_key(|(_, frame)| frame.number);
        let behind_last =
            last.map(|(at, frame)| *at + Frame::blocks(frame.bytes as usize, self.physical));
        let could_begin = |at: BlockCount| match writer {
            LogWriter::Append => free.begins_at(at) || Some(at) == behind_last,
            LogWriter::Trail { .. } => free.contains(at),
        };
        let could_follow = |sector: &&Gap| {
            could_begin(sector.at) || begun.iter().any(|blocks| blocks.contains(&sector.at))
        };
        self.unreadable.iter().find(could_follow).map(|sector| self.blocks.first + sector.at)
    }

    /// What does not count, and might another time: frames behind the last one, and what cannot be read now.
    fn doubtful(&self, number: u64) -> impl Iterator<Item = Doubtful> {
        let first = self.blocks.first;
        let later = self.headers.iter().filter(move |(_, frame)| frame.number > number);
        let of = move |at: BlockCount, count, is_frame| Doubtful {
            blocks: BlockRange::new(first + at, count),
            is_frame,
        };
        let frames = later.map(move |(at, _)| of(*at, self.physical, true));
        frames.chain(self.unreadable.iter().map(move |sector| of(sector.at, sector.count, false)))
    }

    /// Whether a frame in it says that more was durable than up to frame `number`.
    fn says_more(&self, number: u64) -> bool {
        let claims = |(_, frame): &&(_, Frame)| frame.number > number && frame.durable > number;
        self.headers.iter().filter(claims).any(|(at, _)| {
            let bytes = self.content.get((at.0 * BLOCK_BYTES) as usize..);
            bytes.is_some_and(|bytes| Frame::decode(bytes).is_some())
        })
    }

    fn range(&self, gap: Gap) -> BlockRange {
        BlockRange::new(self.blocks.first + gap.at, gap.count)
    }
}

/// Where the physical sector after the one of `at` begins.
fn sector_after(at: Lbn, physical: BlockCount) -> Lbn {
    Lbn((at.0 + 1).next_multiple_of(physical.0.max(1)))
}

/// See [`Segment::doubtful`].
pub(super) struct Doubtful {
    /// A physical sector.
    blocks: BlockRange,
    is_frame: bool,
}

/// Where the log ends.
#[derive(Clone, Copy)]
pub(super) struct End {
    /// The disk that has the last frame.
    pub(super) last: usize,
    /// The last frame, and its checksum.
    pub(super) number: u64,
    pub(super) checksum: u32,
    /// The first group that is not whole.
    pub(super) next: Seq,
}

/// A disk of the log, as recovery reads it.
pub(super) struct Reader<'a> {
    pub(super) disk: &'a LogDisk,
    /// The segment that it is at.
    pub(super) segment: Segment,
    /// What is free of that.
    pub(super) free: Free,
    /// The one behind it, once it was read.
    pub(super) next: Option<Segment>,
    /// Segments that are in use.
    pub(super) used: u32,
    pub(super) bytes_read: ByteCount,
    /// See `Options::force_log_end`.
    pub(super) is_forced: bool,
}

/// All disks of the log.
pub(super) struct Readers<'a>(pub(super) Vec<Reader<'a>>);

/// A frame that follows.
pub(super) struct Found<'a> {
    pub(super) disk: usize,
    pub(super) place: Gap,
    pub(super) frame: Frame,
    pub(super) content: &'a [u8],
    pub(super) checksum: u32,
}

impl<'a> Readers<'a> {
    pub(super) async fn new(
        disks: &'a [LogDisk],
        start: Start,
        is_forced: bool,
    ) -> Result<Readers<'a>> {
        let mut readers = Vec::new();
        for (at, disk) in disks.iter().enumerate() {
            let segment = Segment::read(disk, start.segment(at), is_forced).await?;
            let free = Free::of(&disk.segments, segment.index);
            let bytes_read = segment.blocks.count.bytes();
            readers.push(Reader {
                disk,
                segment,
                free,
                next: None,
                used: 1,
                bytes_read,
                is_forced,
            });
        }
        Ok(Readers(readers))
    }

    /// The frame that follows, in the segments that the disks are at.
    pub(super) fn after(&self, number: u64, checksum: u32) -> Option<Found<'_>> {
        self.0.iter().enumerate().find_map(|(disk, reader)| {
            let (place, frame, content, checksum) = reader.segment.after(number, checksum)?;
            Some(Found { disk, place, frame, content, checksum })
        })
    }

    /// A frame of the log is there.
    pub(super) fn take(&mut self, disk: usize, place: Gap) {
        if let Some(reader) = self.0.get_mut(disk) {
            reader.free.take(place);
        }
    }

    pub(super) fn not_applied(&self, disk: usize, place: Gap, misfit: Misfit) -> Error {
        match (misfit, self.0.get(disk)) {
            (Misfit::NoSpace(space), _) => Error::NoSpace { space },
            (Misfit::UnknownKind(number), _) => Error::UnknownKind { number },
            (Misfit::UnknownFormat(format), _) => Error::UnknownFormat { format },
            (Misfit::NotOfLog, reader) => Error::Damaged {
                device: reader.map(Reader::name).unwrap_or_default(),
                what: FRAME,
                blocks: reader.map_or(NO_BLOCKS, |reader| reader.segment.range(place)),
            },
        }
    }

    /// Goes on to the next segment of the disk on which the frame that follows is: which disk and segment, and the first
    /// group that begins there.
    pub(super) async fn go_on(
        &mut self,
        number: u64,
        checksum: u32,
    ) -> Result<Option<(usize, u32, Seq)>> {
        for (disk, reader) in self.0.iter_mut().enumerate() {
            reader.read_next().await?;
            let Some(next) = reader.next.take() else { continue };
            let Some((_, frame, ..)) = next.after(number, checksum) else {
                reader.next = Some(next);
                continue;
            };
            let (index, first) = (next.index, frame.first);
            reader.free = Free::of(&reader.disk.segments, next.index);
            reader.segment = next;
            reader.used += 1;
            return Ok(Some((disk, index, first)));
        }
        Ok(None)
    }

    /// The log ends there: unless the end is forced, an error when a frame further on says that more was durable, and when a
    /// block cannot be read that could be of the next frame. Gives what is doubtful on each disk, and whether it was forced.
    pub(super) async fn check_end(
        &mut self,
        end: End,
        is_forced: bool,
    ) -> Result<(Vec<Vec<Doubtful>>, bool)> {
        let End { last, number, .. } = end;
        let is_alone = self.0.len() == 1;
        let (mut doubtful, mut hidden, mut has_more) = (Vec::new(), None, false);
        for reader in &mut self.0 {
            reader.read_next().await?;
            hidden = hidden.or_else(|| reader.hidden(end, is_alone));
            let (found, says_more) = reader.doubtful(number).await?;
            doubtful.push(found);
            has_more |= says_more;
        }
        let why = match has_more {
            true => Some(self.lost(last, number + 1)),
            false => hidden,
        };
        let is_lost = why.is_some();
        if let Some(why) = why {
            self.force(why, end.next, is_forced)?;
        }
        Ok((doubtful, is_lost))
    }

    /// The log ends where `why` says, if that is to be so.
    pub(super) fn force(&self, why: Error, next: Seq, is_forced: bool) -> Result<()> {
        if !is_forced {
            return Err(why);
        }
        let group = next.0;
        tracing::warn!("the end of the log is forced, groups {group} and later are dropped: {why}");
        Ok(())
    }

    /// Writes over what might be taken to follow another time, the last first: who is stopped on the way finds the rest again.
    pub(super) async fn clear(&self, doubtful: Vec<Vec<Doubtful>>) -> Result<()> {
        for (reader, doubtful) in self.0.iter().zip(doubtful) {
            reader.clear(doubtful).await?;
        }
        Ok(())
    }

    /// A frame is missing that was durable; the one before is on the disk `last`.
    pub(super) fn lost(&self, last: usize, frame: u64) -> Error {
        let reader = self.0.get(last);
        let device = reader.map(Reader::name).unwrap_or_default();
        let blocks = reader.map_or(NO_BLOCKS, |reader| reader.segment.blocks);
        Error::LogLost { device, frame, blocks }
    }
}

impl Reader<'_> {
    /// Reads the segment behind the one it is at, when that can be in use, and was not read.
    async fn read_next(&mut self) -> Result<()> {
        let ring = self.disk.segments.ring;
        if self.next.is_none() && self.used < ring.segments {
            let next =
                Segment::read(self.disk, ring.after(self.segment.index), self.is_forced).await?;
            self.bytes_read.0 += next.blocks.count.bytes().0;
            self.next = Some(next);
        }
        Ok(())
    }

    /// Whether it has frames of the log where it is, or behind that.
    pub(super) fn has_frames(&self) -> bool {
        let segments = [Some(&self.segment), self.next.as_ref()];
        segments.into_iter().flatten().any(|segment| !segment.headers.is_empty())
    }

    fn name(&self) -> String {
        self.disk.device.inquiry().name.clone()
    }

    /// An error when a block cannot be read that could be of the frame after the last one. With several disks a disk may have
    /// gone on to its next segment though there is room before: frames there that the log no longer needs are not known.
    fn hidden(&self, End { number, checksum, next, .. }: End, is_alone: bool) -> Option<Error> {
        let writer = self.disk.segments.ring.writer;
        let here = self.segment.hidden(&self.free, number, checksum, writer);
        let stays = is_alone && writer == LogWriter::Append && self.free.is_open();
        let behind = self.next.as_ref().filter(|_| !stays).and_then(|segment| {
            let free = Free::of(&self.disk.segments, segment.index);
            segment.hidden(&free, number, checksum, writer)
        });
        let block = here.or(behind)?;
        let (device, offset) = (self.name(), block.byte_offset());
        Some(Error::LogUnreadable { device, offset, frame: number + 1, group: next.0 })
    }

    /// What is doubtful from the segment that it is at on, and whether something there says that more was durable. One
    /// frame that is lost may have filled a segment, so it ends where two of them have no later frame; where the end is forced
    /// several may be lost, and it does not.
    async fn doubtful(&mut self, number: u64) -> Result<(Vec<Doubtful>, bool)> {
        let mut says_more = self.segment.says_more(number);
        let mut doubtful: Vec<Doubtful> = self.segment.doubtful(number).collect();
        let first = self.segment.blocks.first;
        doubtful.retain(|one| self.free.contains(BlockCount(one.blocks.first.0 - first.0)));
        let mut next = self.next.take();
        let mut was_over = false;
        let ring = self.disk.segments.ring;
        for used in self.used..ring.segments {
            let Some(segment) = next else { break };
            says_more |= segment.says_more(number);
            doubtful.extend(segment.doubtful(number));
            // Frames may have gone over several segments before one of them was durable.
            let is_over = segment.headers.iter().all(|(_, frame)| frame.number <= number);
            if (is_over && was_over && !self.is_forced) || used + 1 == ring.segments {
                break;
            }
            was_over = is_over;
            let behind =
                Segment::read(self.disk, ring.after(segment.index), self.is_forced).await?;
            self.bytes_read.0 += behind.blocks.count.bytes().0;
            next = Some(behind);
        }
        Ok((doubtful, says_more))
    }

    /// Writes over what is doubtful, the last first.
    async fn clear(&self, doubtful: Vec<Doubtful>) -> Result<()> {
        let device = &self.disk.device;
        for Doubtful { blocks, is_frame } in doubtful.into_iter().rev() {
            let cleared = device.write(blocks.first, IoBuf::zeroed(blocks.count)).await;
            let log = &device.inquiry().name;
            match (cleared, is_frame) {
                (Err(error), true) => return Err(error.into()),
                (Err(error), false) => {
                    tracing::warn!("{log}: {blocks} can be neither read nor written: {error}");
                }
                (Ok(()), true) => {}
                (Ok(()), false) => {
                    tracing::warn!(
                        "{log}: {blocks} after the end of the log could not be read, and is cleared"
                    );
                }
            }
        }
        Ok(device.flush().await?)
    }
}
