//! Shapes: how long the units of blocks are.
//!
//! Where a format says so, all blocks of a space have one shape. Else a sweep gives each partition a shape that its blocks need
//! ([`BlockFormat::fits_units`](crate::BlockFormat::fits_units)): each unit is as long as the longest of that number in the
//! partition. So the strip of a unit still has equal units, and needs no table to be found in.

use std::sync::Arc;

use bytes::Bytes;
use moirai_units::{BLOCK_BYTES, BlockCount, ByteCount};

use crate::codec::{Taker, put_number};
use crate::units::{UNITS_MAX, UnitSet};

/// How long each unit of a block is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Shape {
    /// Bytes of each unit: a multiple of 512.
    pub(crate) unit_bytes: Arc<[usize]>,
}

/// Device blocks of `bytes`.
fn holding(bytes: usize) -> BlockCount {
    BlockCount::holding(ByteCount(bytes as u64))
}

impl Shape {
    /// `None` where blocks cannot have such units.
    pub(crate) fn new(unit_bytes: Vec<usize>) -> Option<Shape> {
        let is_unit = |bytes: &usize| *bytes > 0 && (*bytes as u64).is_multiple_of(BLOCK_BYTES);
        let are_units = (1..=UNITS_MAX).contains(&unit_bytes.len());
        (are_units && unit_bytes.iter().all(is_unit))
            .then(|| Shape { unit_bytes: unit_bytes.into() })
    }

    /// How many units a block has.
    pub(crate) fn len(&self) -> usize {
        self.unit_bytes.len()
    }

    /// Bytes of a block.
    pub(crate) fn block_bytes(&self) -> usize {
        self.unit_bytes.iter().sum()
    }

    /// Device blocks of a block.
    pub(crate) fn block(&self) -> BlockCount {
        holding(self.block_bytes())
    }

    /// Which units there are, of those in a set.
    pub(crate) fn units(&self, units: UnitSet) -> impl Iterator<Item = usize> + use<> {
        (0..self.len()).filter(move |unit| units.has(*unit))
    }

    /// Bytes of these units of a block.
    pub(crate) fn bytes_of(&self, units: UnitSet) -> usize {
        self.units(units).filter_map(|unit| self.unit_bytes.get(unit)).sum()
    }

    /// Divides `content`, which begins with these units of `count` blocks, into a strip for each.
    pub(crate) fn strips(
        &self,
        units: impl Iterator<Item = usize>,
        content: &Bytes,
        count: usize,
    ) -> impl Iterator<Item = (usize, Bytes)> {
        let mut begin = 0;
        units.map(move |unit| {
            let end = begin + self.unit_bytes.get(unit).map_or(0, |bytes| bytes * count);
            let strip = content.get(std::mem::replace(&mut begin, end)..end);
            (unit, strip.map(|strip| content.slice_ref(strip)).unwrap_or_default())
        })
    }

    /// Device blocks before a unit of a block, and of the unit.
    pub(crate) fn unit_blocks(&self, unit: usize) -> (BlockCount, BlockCount) {
        let before: usize = self.unit_bytes.iter().take(unit).sum();
        (holding(before), holding(self.unit_bytes.get(unit).copied().unwrap_or(0)))
    }

    pub(crate) fn memory_bytes(&self) -> usize {
        size_of::<Shape>() + 32 + size_of_val(&*self.unit_bytes)
    }

    /// Bytes of a shape of so many units as [`Shape::encode`] writes it, at most.
    pub(crate) fn encoded_bytes_max(&self) -> usize {
        // Three groups of seven bits are enough for the blocks of a partition.
        1 + 3 * self.len()
    }

    /// A shape each of whose units is as long as the longer one of two.
    pub(crate) fn or_longer(&self, other: &Shape) -> Shape {
        let units = self.unit_bytes.iter().zip(&*other.unit_bytes);
        Shape { unit_bytes: units.map(|(one, other)| *one.max(other)).collect() }
    }

    pub(crate) fn encode(&self, out: &mut Vec<u8>) {
        put_number(out, self.len() as u64);
        for bytes in &*self.unit_bytes {
            put_number(out, *bytes as u64 / BLOCK_BYTES);
        }
    }

    /// `None` for a block of more than `block_bytes_max`.
    pub(crate) fn take(taker: &mut Taker<'_>, block_bytes_max: u64) -> Option<Shape> {
        let count = usize::try_from(taker.number()?).ok().filter(|count| *count <= UNITS_MAX)?;
        let (mut unit_bytes, mut left) = (Vec::with_capacity(count), block_bytes_max / BLOCK_BYTES);
        for _ in 0..count {
            let blocks = taker.number()?;
            left = left.checked_sub(blocks)?;
            unit_bytes.push((blocks * BLOCK_BYTES) as usize);
        }
        Shape::new(unit_bytes)
    }
}
