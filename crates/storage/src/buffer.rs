//! Buffers for block I/O: aligned, owned, and divisible without copying.

use std::fmt;
use std::ops::{Deref, DerefMut};

use bytes::{Bytes, BytesMut};
use moirai_units::{BLOCK_BYTES, BlockCount};

/// Memory alignment of a fresh buffer, as direct I/O wants it.
const ALIGN_BYTES: usize = 4096;

/// A buffer of whole blocks.
///
/// Scatter/gather lists are made by dividing a buffer with [`split_off`](IoBuf::split_off), and
/// undone with [`join`](IoBuf::join); neither moves a byte. A part of a buffer is aligned to the
/// block, the whole to a page.
pub struct IoBuf(BytesMut);

impl IoBuf {
    /// A buffer of `count` blocks of zeros.
    #[must_use]
    pub fn zeroed(count: BlockCount) -> IoBuf {
        let length = usize_of(count);
        let mut bytes = BytesMut::zeroed(length + ALIGN_BYTES);
        cut_to_alignment(&mut bytes);
        bytes.truncate(length);
        IoBuf(bytes)
    }

    /// A buffer of the fewest blocks that hold `content`, the rest zeros.
    #[must_use]
    pub fn holding(content: &[u8]) -> IoBuf {
        let length = content.len().next_multiple_of(BLOCK_BYTES as usize);
        let mut bytes = BytesMut::with_capacity(length + ALIGN_BYTES);
        bytes.resize(bytes.as_ptr().align_offset(ALIGN_BYTES), 0);
        cut_to_alignment(&mut bytes);
        bytes.extend_from_slice(content);
        bytes.resize(length, 0);
        IoBuf(bytes)
    }

    /// Blocks in the buffer.
    #[must_use]
    pub fn blocks(&self) -> BlockCount {
        BlockCount(self.0.len() as u64 / BLOCK_BYTES)
    }

    /// Cuts the buffer after `at` blocks and gives the rest.
    ///
    /// # Panics
    /// When the buffer has fewer blocks.
    #[must_use]
    pub fn split_off(&mut self, at: BlockCount) -> IoBuf {
        IoBuf(self.0.split_off(usize_of(at)))
    }

    /// Puts `tail` behind this buffer; without copying when it was cut from there.
    pub fn join(&mut self, tail: IoBuf) {
        self.0.unsplit(tail.0);
    }

    /// The content as shared, immutable bytes, without copying.
    #[must_use]
    pub fn freeze(self) -> Bytes {
        self.0.freeze()
    }
}

/// Cuts off what comes before the first address of a page.
fn cut_to_alignment(bytes: &mut BytesMut) {
    let padding = bytes.as_ptr().align_offset(ALIGN_BYTES);
    let _ = bytes.split_to(padding.min(bytes.len()));
}

fn usize_of(count: BlockCount) -> usize {
    usize::try_from(count.bytes().0).unwrap_or(usize::MAX)
}

impl Deref for IoBuf {
    type Target = [u8];
    fn deref(&self) -> &[u8] {
        &self.0
    }
}

impl DerefMut for IoBuf {
    fn deref_mut(&mut self) -> &mut [u8] {
        &mut self.0
    }
}

impl fmt::Debug for IoBuf {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "IoBuf({})", self.blocks())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn buffers_are_page_aligned_and_zero() {
        for count in [1, 7, 8, 100] {
            let buffer = IoBuf::zeroed(BlockCount(count));
            assert_eq!(buffer.as_ptr().align_offset(ALIGN_BYTES), 0);
            assert_eq!(buffer.blocks(), BlockCount(count));
            assert!(buffer.iter().all(|byte| *byte == 0));
        }
    }

    #[test]
    fn buffers_that_hold_something_are_aligned_and_end_with_zeros() {
        for length in [0, 1, 511, 512, 513, 4096, 70_000] {
            let buffer = IoBuf::holding(&vec![7; length]);
            assert_eq!(buffer.as_ptr().align_offset(ALIGN_BYTES), 0, "{length}");
            assert_eq!(buffer.blocks(), BlockCount(length.div_ceil(512) as u64));
            let (content, rest) = buffer.split_at(length);
            assert!(content.iter().all(|byte| *byte == 7) && rest.iter().all(|byte| *byte == 0));
        }
    }

    #[test]
    fn dividing_and_joining_moves_nothing() {
        let mut buffer = IoBuf::zeroed(BlockCount(8));
        let address = buffer.as_ptr();
        let mut tail = buffer.split_off(BlockCount(3));
        tail.fill(7);
        assert_eq!(tail.as_ptr().align_offset(BLOCK_BYTES as usize), 0);
        buffer.join(tail);
        assert_eq!(buffer.as_ptr(), address);
        assert_eq!(buffer.blocks(), BlockCount(8));
        assert_eq!(buffer.iter().filter(|byte| **byte == 7).count(), 5 * 512);
    }
}
