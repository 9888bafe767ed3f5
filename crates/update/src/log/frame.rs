//! Frames of the log: what is written at once. See `docs/formats/update-log.md`.

use moirai_storage::IoBuf;
use moirai_units::{BLOCK_BYTES, BlockCount};

use crate::codec::{Taker, is_sum};
use crate::ids::Seq;

/// What a frame begins with.
pub(crate) const LOG_MAGIC: &[u8; 8] = b"MOIRAIUL";
/// The version of the format of the log.
pub(crate) const LOG_VERSION: u32 = 11;
/// Blocks of a log's device before its segments, at least: these begin at a whole physical sector. A frame of number 0
/// says there whose log it is. With `LogWriter::Trail` the whole first track comes before them.
pub const LABEL_BLOCKS: BlockCount = BlockCount(8);
/// Bytes of a frame before its content.
pub(crate) const FRAME_HEADER_BYTES: usize = 64;

/// What a frame says of itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Frame {
    /// Which log it is of.
    pub(crate) log: u64,
    /// One more with each frame.
    pub(crate) number: u64,
    /// The first group that begins in it, or else the next that begins at all.
    pub(crate) first: Seq,
    /// The last frame that was durable when this one was written.
    pub(crate) durable: u64,
    /// The checksum of the frame before: one that was left over from another run does not follow.
    pub(crate) previous: u32,
    /// Bytes of its content.
    pub(crate) bytes: u32,
    /// How many of these, at the front, are of a group that began before.
    pub(crate) continued: u32,
    /// How often the engine was opened.
    pub(crate) opening: u32,
}

impl Frame {
    /// What a disk's label says.
    pub(crate) fn label(log: u64) -> IoBuf {
        let first = Seq(1);
        let (number, durable, previous) = (0, 0, 0);
        let (bytes, continued, opening) = (0, 0, 0);
        Frame { log, number, first, durable, previous, bytes, continued, opening }
            .encode(&[], BlockCount(1))
            .0
    }

    /// Device blocks of a frame with `bytes` of content, in whole sectors of `physical` blocks.
    pub(crate) fn blocks(bytes: usize, physical: BlockCount) -> BlockCount {
        let blocks = ((FRAME_HEADER_BYTES + bytes) as u64).div_ceil(BLOCK_BYTES);
        BlockCount(blocks.next_multiple_of(physical.0.max(1)))
    }

    /// Bytes of content of a frame on so many device blocks.
    pub(crate) fn content_bytes(blocks: BlockCount) -> u64 {
        blocks.bytes().0.saturating_sub(FRAME_HEADER_BYTES as u64)
    }

    /// The frame with its content, in whole sectors of `physical` blocks, and its checksum.
    pub(crate) fn encode(&self, content: &[u8], physical: BlockCount) -> (IoBuf, u32) {
        let mut buffer = IoBuf::zeroed(Frame::blocks(content.len(), physical));
        let mut head = Vec::with_capacity(FRAME_HEADER_BYTES);
        head.extend_from_slice(LOG_MAGIC);
        head.extend_from_slice(&LOG_VERSION.to_le_bytes());
        head.extend_from_slice(&[0; 4]);
        for number in [self.log, self.number, self.first.0, self.durable] {
            head.extend_from_slice(&number.to_le_bytes());
        }
        for number in [self.previous, self.bytes, self.continued, self.opening] {
            head.extend_from_slice(&number.to_le_bytes());
        }
        let checksum = crc32c::crc32c(head.get(16..).unwrap_or_default());
        let checksum = crc32c::crc32c_append(checksum, content);
        if let Some(place) = head.get_mut(12..16) {
            place.copy_from_slice(&checksum.to_le_bytes());
        }
        let mut rest = &mut buffer[..];
        for part in [&head[..], content] {
            let Some((place, behind)) = rest.split_at_mut_checked(part.len()) else { break };
            place.copy_from_slice(part);
            rest = behind;
        }
        (buffer, checksum)
    }

    /// Whether it follows the frame `number`, whose checksum is given.
    pub(crate) fn follows(&self, number: u64, checksum: u32) -> bool {
        self.number == number + 1 && self.previous == checksum
    }

    /// What looks like the header of a frame at the front of `bytes`.
    pub(crate) fn header(bytes: &[u8]) -> Option<Frame> {
        let mut taker = Taker(bytes);
        if taker.fixed(8)? != LOG_MAGIC || taker.le32()? != LOG_VERSION {
            return None;
        }
        taker.le32()?;
        Some(Frame {
            log: taker.le64()?,
            number: taker.le64()?,
            first: Seq(taker.le64()?),
            durable: taker.le64()?,
            previous: taker.le32()?,
            bytes: taker.le32()?,
            continued: taker.le32()?,
            opening: taker.le32()?,
        })
    }

    /// The frame at the front of `bytes`, its content and its checksum; `None` when there is none that is
    /// whole.
    pub(crate) fn decode(bytes: &[u8]) -> Option<(Frame, &[u8], u32)> {
        let frame = Frame::header(bytes)?;
        let (head, behind) = bytes.split_at_checked(FRAME_HEADER_BYTES)?;
        let checksum = Taker(head.get(12..)?).le32()?;
        let content = behind.get(..frame.bytes as usize)?;
        let head = head.get(16..)?;
        let is_countable = frame.first.0 < u64::MAX >> 1 && frame.opening < u32::MAX >> 1;
        let is_whole = is_countable
            && frame.continued <= frame.bytes
            && is_sum(checksum, crc32c::crc32c_append(crc32c::crc32c(head), content));
        is_whole.then_some((frame, content, checksum))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn frames_round_trip_and_damage_is_noticed() {
        let content: Vec<u8> = (0..1000).map(|byte| byte as u8).collect();
        let frame = Frame {
            log: 7,
            number: 8,
            first: Seq(9),
            durable: 6,
            previous: 5,
            bytes: 1000,
            continued: 4,
            opening: 3,
        };
        let (padded, _) = frame.encode(&content, BlockCount(8));
        assert_eq!(padded.blocks(), BlockCount(8));
        let (mut buffer, checksum) = frame.encode(&content, BlockCount(1));
        assert_eq!(buffer.blocks(), BlockCount(3));
        assert_eq!(padded[..buffer.len()], buffer[..]);
        assert_eq!(Frame::decode(&buffer), Some((frame, &content[..], checksum)));
        for at in [0, 9, 13, 17, 40, 60, 64, 1063] {
            buffer[at] ^= 1;
            assert_eq!(Frame::decode(&buffer), None, "byte {at}");
            buffer[at] ^= 1;
        }
        assert_eq!(Frame::decode(&buffer[..1063]), None);
    }
}
