//! The table of a partition's blocks: lowest keys and checksums.

use std::cmp::Ordering;

use crate::codec::{Taker, prefix_of, put_bytes, put_number};
use crate::data::layout::PARTITION_BLOCKS_MAX;

/// The blocks of a partition: the lowest key of each, and its checksum.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct BlockTable {
    keys: Box<[u8]>,
    /// Where the key of each block ends.
    ends: Box<[u32]>,
    checksums: Box<[u32]>,
}

impl BlockTable {
    pub(crate) fn new<'a>(blocks: impl Iterator<Item = (&'a [u8], u32)>) -> BlockTable {
        let (mut keys, mut ends, mut checksums) = (Vec::new(), Vec::new(), Vec::new());
        for (low, checksum) in blocks {
            keys.extend_from_slice(low);
            ends.push(keys.len() as u32);
            checksums.push(checksum);
        }
        BlockTable { keys: keys.into(), ends: ends.into(), checksums: checksums.into() }
    }

    pub(crate) fn len(&self) -> usize {
        self.ends.len()
    }

    pub(crate) fn low(&self, block: usize) -> &[u8] {
        let first = block.checked_sub(1).and_then(|before| self.ends.get(before));
        let end = self.ends.get(block).copied().unwrap_or(0);
        self.keys.get(first.copied().unwrap_or(0) as usize..end as usize).unwrap_or_default()
    }

    pub(crate) fn checksum(&self, block: usize) -> u32 {
        self.checksums.get(block).copied().unwrap_or(0)
    }

    /// The block that holds `key`, if there are any: the first one holds all that come before it, too.
    pub(crate) fn holding(&self, key: &[u8]) -> usize {
        let prefix = prefix_of(key);
        let is_before = |low: &[u8]| match prefix_of(low).cmp(&prefix) {
            Ordering::Equal => low <= key,
            order => order.is_lt(),
        };
        let (mut first, mut end) = (0, self.len());
        while first < end {
            let middle = first.midpoint(end);
            match is_before(self.low(middle)) {
                true => first = middle + 1,
                false => end = middle,
            }
        }
        first.saturating_sub(1)
    }

    pub(crate) fn memory_bytes(&self) -> usize {
        self.keys.len() + 8 * self.len() + 96
    }

    pub(crate) fn encode(&self, out: &mut Vec<u8>) {
        put_number(out, self.len() as u64);
        for block in 0..self.len() {
            put_bytes(out, self.low(block));
            out.extend_from_slice(&self.checksum(block).to_le_bytes());
        }
    }

    pub(crate) fn take(taker: &mut Taker<'_>) -> Option<BlockTable> {
        let count = taker.number()?;
        if count > u64::from(PARTITION_BLOCKS_MAX) {
            return None;
        }
        let mut blocks = Vec::new();
        for _ in 0..count {
            blocks.push((taker.bytes()?, taker.le32()?));
        }
        Some(BlockTable::new(blocks.into_iter()))
    }
}
