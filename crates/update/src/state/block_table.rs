//! The table of a partition's blocks: lowest keys, and checksums of their units.

use std::cmp::Ordering;

use crate::codec::{Taker, prefix_of, put_bytes, put_number};
use crate::limits::PARTITION_BLOCKS_MAX;
use crate::units::UNITS_MAX;

/// The blocks of a partition: the lowest key of each, and the checksums of its units.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct BlockTable {
    keys: Box<[u8]>,
    /// Where the key of each block ends.
    ends: Box<[u32]>,
    /// Block by block, those of all units.
    checksums: Box<[u32]>,
}

impl BlockTable {
    /// Of blocks with these lowest keys, and the checksums of the units of each, block by block.
    pub(crate) fn new<'a>(lows: impl Iterator<Item = &'a [u8]>, checksums: Vec<u32>) -> BlockTable {
        let (mut keys, mut ends) = (Vec::new(), Vec::new());
        for low in lows {
            keys.extend_from_slice(low);
            ends.push(keys.len() as u32);
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

    /// Whether it is of so many blocks with so many units.
    pub(crate) fn is_of(&self, blocks: usize, units: usize) -> bool {
        self.len() == blocks && self.checksums.len() == blocks * units
    }

    /// Units of a block.
    fn units(&self) -> usize {
        self.checksums.len().checked_div(self.len()).unwrap_or(0)
    }

    pub(crate) fn checksum(&self, block: usize, unit: usize) -> u32 {
        self.checksums.get(block * self.units() + unit).copied().unwrap_or(0)
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
        self.keys.len() + 4 * (self.len() + self.checksums.len()) + 96
    }

    pub(crate) fn encode(&self, out: &mut Vec<u8>) {
        put_number(out, self.len() as u64);
        put_number(out, self.units() as u64);
        for block in 0..self.len() {
            put_bytes(out, self.low(block));
            for unit in 0..self.units() {
                out.extend_from_slice(&self.checksum(block, unit).to_le_bytes());
            }
        }
    }

    pub(crate) fn take(taker: &mut Taker<'_>) -> Option<BlockTable> {
        let (count, units) = (taker.number()?, taker.number()?);
        if count > u64::from(PARTITION_BLOCKS_MAX) || units > UNITS_MAX as u64 {
            return None;
        }
        let (mut lows, mut checksums) = (Vec::new(), Vec::new());
        for _ in 0..count {
            lows.push(taker.bytes()?);
            for _ in 0..units {
                checksums.push(taker.le32()?);
            }
        }
        Some(BlockTable::new(lows.into_iter(), checksums))
    }
}
