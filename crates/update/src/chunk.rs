//! Chunks: what was swept out of memory and waits in a partition's staging area for the sweep that applies it.
//!
//! A chunk is modifications in the order of their keys, so those of a block are a stretch of it, its *part*. Of
//! each modification eight bits of its key's hash stay in memory: who reads a value reads the parts alone that
//! have its hash.

use std::ops::Range;
use std::sync::Arc;

use moirai_units::{BLOCK_BYTES, BlockCount};

use crate::codec::{Taker, put_number};
use crate::partition::{BlockTable, PARTITION_BLOCKS_MAX};
use crate::queue::{Queue, encode};
use crate::sweep::sorted;
use crate::{Kinds, Modification};

/// What is known of a chunk without reading it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Chunk {
    parts: Box<[Part]>,
    /// Of each modification.
    hashes: Box<[u8]>,
}

/// The modifications of a block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Part {
    block: u32,
    /// Modifications up to its end.
    count: u32,
    /// Bytes up to its end.
    end: u32,
    checksum: u32,
}

/// Where a part lies in its chunk, in bytes, and its checksum.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Stretch {
    pub(crate) bytes: Range<usize>,
    pub(crate) checksum: u32,
}

fn hash_of(key: &[u8]) -> u8 {
    (crc32c::crc32c(key) >> 24) as u8
}

impl Chunk {
    /// What `queue` holds, as short as the kinds allow; with the chunk's bytes.
    pub(crate) fn of(queue: &Queue, blocks: &BlockTable, kinds: &Kinds) -> (Chunk, Vec<u8>) {
        let sorted = sorted(queue.iter());
        let mut bytes = Vec::with_capacity(queue.bytes());
        let mut hashes = Vec::with_capacity(sorted.len());
        let mut parts: Vec<Part> = Vec::new();
        for of_key in sorted.chunk_by(|one, next| one.key == next.key) {
            let Some(Modification { key, .. }) = of_key.first() else { continue };
            let before = bytes.len();
            for_each_combined(of_key, kinds, |modification| {
                encode(&mut bytes, modification);
                hashes.push(hash_of(key));
            });
            let block = blocks.holding(key) as u32;
            if parts.last().is_none_or(|last| last.block != block) {
                parts.push(Part { block, count: 0, end: 0, checksum: 0 });
            }
            if let Some(part) = parts.last_mut() {
                let added = bytes.get(before..).unwrap_or_default();
                part.checksum = crc32c::crc32c_append(part.checksum, added);
                (part.count, part.end) = (hashes.len() as u32, bytes.len() as u32);
            }
        }
        (Chunk { parts: parts.into(), hashes: hashes.into() }, bytes)
    }

    /// Bytes of its modifications.
    pub(crate) fn bytes(&self) -> usize {
        self.parts.last().map_or(0, |last| last.end as usize)
    }

    /// Device blocks that it takes.
    pub(crate) fn length(&self) -> BlockCount {
        BlockCount((self.bytes() as u64).div_ceil(BLOCK_BYTES))
    }

    /// The part of a block, when it has one; of those with `key` alone when it has something of its hash.
    pub(crate) fn part(&self, block: usize, key: Option<&[u8]>) -> Option<Stretch> {
        let at = self.parts.binary_search_by_key(&block, |part| part.block as usize).ok()?;
        let part = self.parts.get(at)?;
        let before = at.checked_sub(1).and_then(|before| self.parts.get(before));
        let (first, from) = before.map_or((0, 0), |before| (before.count, before.end));
        let hashes = self.hashes.get(first as usize..part.count as usize)?;
        let is_wanted = key.is_none_or(|key| hashes.contains(&hash_of(key)));
        let bytes = from as usize..part.end as usize;
        is_wanted.then_some(Stretch { bytes, checksum: part.checksum })
    }

    /// All parts, in their order.
    pub(crate) fn parts(&self) -> impl Iterator<Item = Stretch> {
        let mut from = 0;
        self.parts.iter().map(move |part| {
            let bytes = from..part.end as usize;
            from = bytes.end;
            Stretch { bytes, checksum: part.checksum }
        })
    }

    pub(crate) fn memory_bytes(&self) -> usize {
        self.parts.len() * size_of::<Part>() + self.hashes.len() + size_of::<Chunk>()
    }

    pub(crate) fn encode(&self, out: &mut Vec<u8>) {
        put_number(out, self.parts.len() as u64);
        let (mut count, mut end) = (0, 0);
        for part in &self.parts {
            put_number(out, u64::from(part.block));
            put_number(out, u64::from(part.count - count));
            put_number(out, u64::from(part.end - end));
            out.extend_from_slice(&part.checksum.to_le_bytes());
            (count, end) = (part.count, part.end);
        }
        out.extend_from_slice(&self.hashes);
    }

    pub(crate) fn take(taker: &mut Taker<'_>) -> Option<Chunk> {
        let mut parts: Vec<Part> = Vec::new();
        let (mut count, mut end) = (0_u32, 0_u32);
        for _ in 0..taker.number()? {
            let block = taker.number32().filter(|block| *block < PARTITION_BLOCKS_MAX)?;
            if parts.last().is_some_and(|last| last.block >= block) {
                return None;
            }
            count = count.checked_add(taker.number32()?)?;
            end = end.checked_add(taker.number32()?)?;
            parts.push(Part { block, count, end, checksum: taker.le32()? });
        }
        let hashes = taker.fixed(count as usize)?;
        Some(Chunk { parts: parts.into(), hashes: hashes.into() })
    }
}

/// Device blocks that chunks take.
pub(crate) fn staged_blocks<'a>(chunks: impl IntoIterator<Item = &'a Arc<Chunk>>) -> BlockCount {
    chunks.into_iter().map(|chunk| chunk.length()).sum()
}

/// Gives `put` the modifications of a key, as few as do the same.
fn for_each_combined(
    of_key: &[Modification<'_>],
    kinds: &Kinds,
    mut put: impl FnMut(Modification<'_>),
) {
    // Nothing before the last that replaces matters.
    let from = of_key.iter().rposition(|one| Kinds::replaces(one.kind)).unwrap_or(0);
    let mut rest = of_key.get(from..).unwrap_or_default().iter();
    let Some(mut last) = rest.next().copied() else { return };
    let (mut combined, mut both) = (Vec::new(), Vec::new());
    let mut is_combined = false;
    for next in rest {
        let older = if is_combined { &combined[..] } else { last.bytes };
        both.clear();
        if next.kind == last.kind && kinds.combine(last.kind, older, next.bytes, &mut both) {
            std::mem::swap(&mut combined, &mut both);
            is_combined = true;
            continue;
        }
        put(Modification { bytes: older, ..last });
        (last, is_combined) = (*next, false);
    }
    let bytes = if is_combined { &combined[..] } else { last.bytes };
    put(Modification { bytes, ..last });
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::PUT;
    use crate::queue::decode;

    const BLOCKS: [&[u8]; 3] = [b"b", b"d", b"f"];

    fn chunk_of(keys: &[&[u8]]) -> (Chunk, Vec<u8>) {
        let mut queue = Queue::default();
        for key in keys {
            let mut encoded = Vec::new();
            encode(&mut encoded, Modification { key, kind: PUT, bytes: b"value" });
            queue.push(&encoded);
        }
        let blocks = BlockTable::new(BLOCKS.into_iter().map(|low| (low, 0)));
        Chunk::of(&queue, &blocks, &Kinds::new())
    }

    #[test]
    fn each_block_has_its_part() {
        let (chunk, bytes) = chunk_of(&[b"f1", b"a", b"b2", b"f0", b"f1"]);
        assert_eq!(chunk.bytes(), bytes.len());
        let keys_of = |stretch: Stretch| -> Vec<Vec<u8>> {
            let part = &bytes[stretch.bytes];
            assert_eq!(crc32c::crc32c(part), stretch.checksum);
            decode(part).map(|one| one.key.to_vec()).collect()
        };
        // What comes before the first block is in the first; of a key the last value alone is there.
        assert_eq!(keys_of(chunk.part(0, None).unwrap()), [&b"a"[..], b"b2"]);
        assert_eq!(chunk.part(1, None), None);
        assert_eq!(keys_of(chunk.part(2, Some(b"f1")).unwrap()), [b"f0", b"f1"]);
        assert_eq!(chunk.parts().count(), 2);
        let others = (0..100_u8).filter(|last| *last != b'0' && *last != b'1');
        let taken = others.filter(|last| chunk.part(2, Some(&[b'f', *last])).is_some()).count();
        assert!(taken <= 10, "{taken} of 98 keys that are not there");
    }

    #[test]
    fn it_is_taken_as_it_was_put() {
        let (chunk, _) = chunk_of(&[b"a", b"d", b"e", b"x"]);
        let mut encoded = Vec::new();
        chunk.encode(&mut encoded);
        let mut taker = Taker(&encoded);
        assert_eq!(Chunk::take(&mut taker), Some(chunk));
        assert!(taker.is_empty());
        for end in 0..encoded.len() {
            assert_eq!(Chunk::take(&mut Taker(&encoded[..end])), None);
        }
        // A block that no partition has, and blocks out of their order.
        assert_eq!(Chunk::take(&mut Taker(&[1, 64, 0, 0, 0, 0, 0, 0])), None);
        assert_eq!(Chunk::take(&mut Taker(&[2, 1, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0])), None);
    }
}
