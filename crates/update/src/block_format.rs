//! What blocks of a space hold: how modifications change them, and how a value is found.

use std::sync::Arc;

use moirai_units::BLOCK_BYTES;

use crate::group::Group;
use crate::ids::{KindNumber, SpaceId};
use crate::kind::{Kinds, Modification, Value};
use crate::long::made::Made;
use crate::long::stored::Stored;
use crate::shape::Shape;
use crate::units::{Block, UnitSet};

/// A block that is not what its format writes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NotOfFormat;

/// A key, and the reference to its long value.
pub type KeyedReference<'a> = (&'a [u8], &'a [u8]);

/// How the blocks of a space hold keys and values. A block holds the values from its lowest key up to the
/// lowest key of the next.
pub trait BlockFormat: Send + Sync {
    /// Gives `new_blocks` the blocks that take the place of `block`, which is `None` when there is none yet, and
    /// whose lowest key is `low`; for reading, the first block of a partition gets what comes before its lowest key, too.
    /// There may be some of blocks before it already, and what is in `block` may be added to the last of these. The `modifications` are in the order of their keys, and those of one key in
    /// the order in which they are to be applied; none of them is a merge onto a long value. None at all is an empty block.
    /// Where some units alone are read, `block` and `new_blocks` have no others, and what modifications do to these is left out.
    fn apply(
        &self,
        low: &[u8],
        block: Option<Block<'_>>,
        modifications: &[Modification<'_>],
        kinds: &Kinds,
        new_blocks: &mut NewBlocks,
    ) -> Result<(), NotOfFormat>;

    /// Makes `value` that under `key` in a block whose lowest key is `low`; it is none before. Of units that were not read it
    /// has what the format likes.
    fn find(
        &self,
        low: &[u8],
        block: Block<'_>,
        key: &[u8],
        value: &mut Value,
    ) -> Result<(), NotOfFormat>;

    /// Bytes of each unit of a block: multiples of 512 that sum up to `block_bytes`, 1 to 64 of them.
    fn units(&self, block_bytes: usize) -> Vec<usize> {
        vec![block_bytes]
    }

    /// Whether a sweep makes the units of a partition's blocks as long as their contents need ([`NewBlocks::push_units`]), 512 bytes at
    /// least and `block_bytes` together at most. Of [`BlockFormat::units`] the number alone counts then.
    fn fits_units(&self) -> bool {
        false
    }

    /// The only unit that a modification changes. A modification that creates or deletes a value must give `None`: readers of other
    /// units do not see one that gives a unit. Modifications of a key that change different units may be applied in any order.
    fn unit_of(&self, modification: &Modification<'_>) -> Option<usize> {
        let _ = modification;
        None
    }

    /// The units that a modification changes: readers of others pass it over. All, where it creates or deletes a value.
    fn units_of(&self, modification: &Modification<'_>) -> UnitSet {
        self.unit_of(modification).map_or(UnitSet::ALL, UnitSet::one)
    }

    /// Divides a modification that changes several units, and neither creates nor deletes a value, into one of the same kind for
    /// each unit: gives `put` their contents, and tells whether it did. So each unit's part is staged by itself.
    fn divide(&self, modification: &Modification<'_>, put: &mut dyn FnMut(&[u8])) -> bool {
        let _ = (modification, put);
        false
    }

    /// Whether values may be longer than [`BlockFormat::longest`] says: the block holds a reference then.
    fn takes_long_values(&self) -> bool {
        false
    }

    /// Whether a block has references to long values. It may be damaged.
    fn has_long_values(&self, block: Block<'_>) -> bool {
        let _ = block;
        false
    }

    /// The keys of a block's long values, with the references.
    fn references<'a>(&self, block: Block<'a>) -> Result<Vec<KeyedReference<'a>>, NotOfFormat> {
        let _ = block;
        Ok(Vec::new())
    }

    /// Whether [`Engine::ingest_as`](crate::Engine::ingest_as) takes records of this kind, which no group has: `apply` is given
    /// them, with the key that they were pushed under.
    fn ingests(&self, kind: KindNumber) -> bool {
        let _ = kind;
        false
    }

    /// Bytes by which a modification makes blocks longer, about: how much is applied at once goes by it.
    fn growth_bytes(&self, modification: &Modification<'_>, block_bytes: usize) -> usize;

    /// Bytes of the modifications of other spaces that come of applying one modification, at most, with 16 for each beside its
    /// key and content: see [`NewBlocks::emit`]. With 0, none come of any.
    fn emitted_bytes_max(&self) -> usize {
        0
    }

    /// What the format is called, in 16 bytes at most: devices say which they were formatted with.
    fn name(&self) -> &'static str;

    /// Makes a value what a block can hold, before any modification and after each.
    fn settle(&self, value: &mut Value, block_bytes: usize) {
        let _ = (value, block_bytes);
    }

    /// The last key that a block has a value of.
    fn last_key<'a>(&self, low: &'a [u8], block: Block<'a>) -> Result<&'a [u8], NotOfFormat>;

    /// The longest key, and the longest value, that blocks of `block_bytes` can hold.
    fn longest(&self, block_bytes: usize) -> (usize, usize);
}

/// Blocks that take the place of others, in the order of their keys.
#[derive(Debug)]
pub struct NewBlocks {
    block_bytes: usize,
    unit_bytes: Arc<[usize]>,
    /// Which units they have.
    units: UnitSet,
    pub(crate) lows: Vec<Box<[u8]>>,
    /// A strip for each unit: that unit of all blocks, one after the other.
    pub(crate) strips: Vec<Vec<u8>>,
    /// Where units of lengths of their own end in the strips; `None` where all blocks have units of the same lengths.
    pub(crate) ends: Option<Vec<Vec<usize>>>,
    refused: u64,
    /// The long values that merges make.
    pub(crate) made: Made,
    /// Modifications of other spaces, where they are wanted.
    pub(crate) emission: Option<Box<Emission>>,
}

/// Modifications of other spaces that come of applying some.
#[derive(Debug)]
pub(crate) struct Emission {
    pub(crate) group: Group,
    /// How many bytes of the log they may take.
    pub(crate) bytes_max: usize,
}

/// The units of a block that was taken out of others.
#[derive(Clone, Debug)]
pub struct OwnedUnits {
    /// The lowest key of the block.
    pub low: Box<[u8]>,
    /// Its units.
    pub units: Vec<Vec<u8>>,
}

impl NewBlocks {
    /// None yet, of blocks of `block_bytes` in one unit.
    #[must_use]
    pub fn new(block_bytes: usize) -> NewBlocks {
        let made = Made::Memory(Vec::new());
        NewBlocks::with(block_bytes, &Arc::from([block_bytes]), UnitSet::ALL, made)
    }

    pub(crate) fn with(
        block_bytes: usize,
        unit_bytes: &Arc<[usize]>,
        units: UnitSet,
        made: Made,
    ) -> NewBlocks {
        let (lows, strips) = (Vec::new(), vec![Vec::new(); unit_bytes.len()]);
        let unit_bytes = Arc::clone(unit_bytes);
        let emission = None;
        let ends = None;
        NewBlocks { block_bytes, unit_bytes, units, lows, strips, ends, refused: 0, made, emission }
    }

    /// Makes a long value of a value that is too long for a block, and puts the reference in its place.
    pub fn make_long(&mut self, value: &mut Value) {
        match self.made.make(&value.bytes) {
            Some(reference) => value.set_stored(Some(Stored::Long(&reference.encode()))),
            // The sweep is postponed, so this is never written.
            None => value.set(None),
        }
    }

    /// Bytes of a block.
    #[must_use]
    pub fn block_bytes(&self) -> usize {
        self.block_bytes
    }

    /// Adds a block with lowest key `low`, and gives its first unit to be filled; all units are full of zeros.
    pub fn push(&mut self, low: &[u8]) -> &mut [u8] {
        self.lows.push(low.into());
        for (unit, (strip, bytes)) in self.strips.iter_mut().zip(&*self.unit_bytes).enumerate() {
            if self.units.has(unit) {
                strip.resize(strip.len() + bytes, 0);
            }
        }
        self.last_unit_mut(0).unwrap_or_default()
    }

    /// Adds a block with lowest key `low`, of a format whose units have lengths of their own: `put` appends the content of each unit
    /// that the blocks have. Zeros follow it, up to the length that the unit gets.
    pub fn push_units(&mut self, low: &[u8], mut put: impl FnMut(usize, &mut Vec<u8>)) {
        let NewBlocks { strips, ends: Some(ends), units, .. } = self else { return };
        self.lows.push(low.into());
        for (unit, (strip, ends)) in strips.iter_mut().zip(ends).enumerate() {
            if units.has(unit) {
                let first = strip.len();
                put(unit, strip);
                let content_bytes = strip.len().saturating_sub(first).max(1);
                strip.resize(first + content_bytes.next_multiple_of(BLOCK_BYTES as usize), 0);
                ends.push(strip.len());
            }
        }
    }

    /// The last block, with its lowest key.
    #[must_use]
    pub fn last(&self) -> Option<(&[u8], Block<'_>)> {
        let index = self.len().checked_sub(1)?;
        Some((self.lows.get(index)?, self.block(index)))
    }

    /// Takes the last block out again.
    pub fn pop(&mut self) -> Option<OwnedUnits> {
        let NewBlocks { strips, ends, unit_bytes, .. } = self;
        let low = self.lows.pop()?;
        let start_of = |(unit, strip): (usize, &Vec<u8>)| match ends.as_mut() {
            Some(ends) => {
                let ends = ends.get_mut(unit)?;
                ends.pop();
                Some(ends.last().copied().unwrap_or(0))
            }
            None => strip.len().checked_sub(*unit_bytes.get(unit)?),
        };
        let starts: Vec<_> = strips.iter().enumerate().map(start_of).collect();
        let unit = |(strip, start): (&mut Vec<u8>, Option<usize>)| match start {
            Some(start) => strip.split_off(start),
            None => Vec::new(),
        };
        Some(OwnedUnits { low, units: strips.iter_mut().zip(starts).map(unit).collect() })
    }

    /// The first unit of the last one, to which more may be added.
    pub fn last_mut(&mut self) -> Option<&mut [u8]> {
        self.last_unit_mut(0)
    }

    /// A unit of the last one; `None` where the blocks do not have it.
    pub fn last_unit_mut(&mut self, unit: usize) -> Option<&mut [u8]> {
        let strip = self.strips.get_mut(unit)?;
        let first = strip.len().checked_sub(*self.unit_bytes.get(unit)?)?;
        strip.get_mut(first..)
    }

    /// Takes the first `count` out.
    pub(crate) fn take(&mut self, count: usize) -> NewBlocks {
        let made = Made::Memory(Vec::new());
        let mut taken = NewBlocks::with(self.block_bytes, &self.unit_bytes, self.units, made);
        let lows = self.lows.split_off(count.min(self.lows.len()));
        taken.lows = std::mem::replace(&mut self.lows, lows);
        if let Some(ends) = &mut self.ends {
            let mut taken_ends = Vec::with_capacity(ends.len());
            for ((strip, ends), to) in self.strips.iter_mut().zip(ends).zip(&mut taken.strips) {
                let rest = ends.split_off(count.min(ends.len()));
                let at = ends.last().copied().unwrap_or(0);
                taken_ends.push(std::mem::replace(ends, rest));
                ends.iter_mut().for_each(|end| *end -= at);
                let rest = strip.split_off(at);
                *to = std::mem::replace(strip, rest);
            }
            taken.ends = Some(taken_ends);
            return taken;
        }
        let strips = self.strips.iter_mut().zip(&*self.unit_bytes);
        for ((strip, bytes), to) in strips.zip(&mut taken.strips) {
            let rest = strip.split_off((count * bytes).min(strip.len()));
            *to = std::mem::replace(strip, rest);
        }
        taken
    }

    /// How many of the first ones fit into `bytes_max`, one at least, where each unit is as long as the longest of them.
    pub(crate) fn fitting(&self, bytes_max: usize) -> usize {
        let Some(ends) = &self.ends else { return self.len() };
        let mut longest = vec![0; ends.len()];
        for count in 1..=self.len() {
            for (ends, longest) in ends.iter().zip(&mut longest) {
                *longest = length_of(ends, count - 1).max(*longest);
            }
            if count * longest.iter().sum::<usize>() > bytes_max {
                return (count - 1).max(1);
            }
        }
        self.len()
    }

    /// Makes all units of a number as long as the longest of them; gives the shape that the blocks get by that.
    pub(crate) fn fit(&mut self) -> Option<Shape> {
        let ends = self.ends.take()?;
        let longest = |ends: &Vec<usize>| {
            (0..ends.len()).map(|index| length_of(ends, index)).max().unwrap_or(0)
        };
        let unit_bytes: Vec<usize> = ends.iter().map(longest).collect();
        for ((strip, ends), bytes) in self.strips.iter_mut().zip(&ends).zip(&unit_bytes) {
            if strip.len() == ends.len() * bytes {
                continue;
            }
            let content = std::mem::replace(strip, Vec::with_capacity(ends.len() * bytes));
            for (index, end) in ends.iter().enumerate() {
                let start = end - length_of(ends, index);
                strip.extend_from_slice(content.get(start..*end).unwrap_or_default());
                strip.resize((index + 1) * bytes, 0);
            }
        }
        self.unit_bytes = unit_bytes.clone().into();
        Shape::new(unit_bytes)
    }

    /// Adds a modification of another space, which is durable no later than the blocks: where a blind update made an entry of an
    /// index stale, this deletes it.
    ///
    /// It comes after all that was committed since the partition was sealed. So where a group may make the same entry again, let
    /// it be of a kind that looks first, as at a version in the entry. It may not lead back to a space that it came from.
    ///
    /// It may be left out: for readers, who write no blocks; where records are ingested, cleared or come in a bulk group; by a
    /// sweep for which the log had no room, as when it is nearly full or being loaded; beyond a sixteenth of the memory for one
    /// partition; and where the other space does not take it, which a warning says.
    pub fn emit(&mut self, space: SpaceId, modification: Modification<'_>) {
        let Some(Emission { group, bytes_max }) = self.emission.as_deref_mut() else { return };
        if group.bytes_with(modification) <= *bytes_max {
            group.modify(space, modification);
        }
    }

    /// Counts modifications that did not fit their values.
    pub fn refuse(&mut self, count: u64) {
        self.refused += count;
    }

    pub(crate) fn refused(&self) -> u64 {
        self.refused
    }

    /// How many there are.
    #[must_use]
    pub fn len(&self) -> usize {
        self.lows.len()
    }

    /// Whether there are none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.lows.is_empty()
    }

    /// Each with its lowest key.
    pub fn iter(&self) -> impl Iterator<Item = (&[u8], Block<'_>)> {
        self.lows.iter().enumerate().map(|(index, low)| (&**low, self.block(index)))
    }

    fn block(&self, index: usize) -> Block<'_> {
        match &self.ends {
            Some(ends) => Block::fitted(&self.strips, ends, index),
            None => Block::made(&self.strips, index, &self.unit_bytes),
        }
    }
}

/// How long a unit is, of those that end there.
fn length_of(ends: &[usize], index: usize) -> usize {
    let start = index.checked_sub(1).and_then(|before| ends.get(before)).copied().unwrap_or(0);
    ends.get(index).map_or(0, |end| end - start)
}

/// Blocks that are each the value under one key: the address space of the paper's `modify`. A block that was
/// never modified holds zeros, and takes no room; one that is deleted holds zeros. Keys have 8 bytes at most.
#[derive(Clone, Copy, Debug)]
pub struct WholeBlocks;

impl BlockFormat for WholeBlocks {
    fn apply(
        &self,
        low: &[u8],
        block: Option<Block<'_>>,
        modifications: &[Modification<'_>],
        kinds: &Kinds,
        new_blocks: &mut NewBlocks,
    ) -> Result<(), NotOfFormat> {
        let mut block = block.map(Block::bytes);
        let mut value = Value::default();
        for of_key in modifications.chunk_by(|one, next| one.key == next.key) {
            let Some(Modification { key, .. }) = of_key.first() else { continue };
            if *key > low
                && let Some(block) = block.take()
            {
                new_blocks.push(low).copy_from_slice(block);
            }
            value.set(if *key == low { block.take() } else { None });
            self.settle(&mut value, new_blocks.block_bytes());
            for one in of_key {
                let fits = kinds.apply(one.kind, &mut value, one.bytes);
                new_blocks.refuse(u64::from(!fits));
                self.settle(&mut value, new_blocks.block_bytes());
            }
            if value.bytes.iter().any(|byte| *byte != 0) {
                new_blocks.push(key).copy_from_slice(&value.bytes);
            }
        }
        if let Some(block) = block {
            new_blocks.push(low).copy_from_slice(block);
        }
        Ok(())
    }

    fn find(
        &self,
        low: &[u8],
        block: Block<'_>,
        key: &[u8],
        value: &mut Value,
    ) -> Result<(), NotOfFormat> {
        value.set((low == key).then_some(block.bytes()));
        Ok(())
    }

    fn last_key<'a>(&self, low: &'a [u8], _: Block<'a>) -> Result<&'a [u8], NotOfFormat> {
        Ok(low)
    }

    fn growth_bytes(&self, _: &Modification<'_>, block_bytes: usize) -> usize {
        block_bytes
    }

    fn name(&self) -> &'static str {
        "whole"
    }

    fn settle(&self, value: &mut Value, block_bytes: usize) {
        value.bytes.resize(block_bytes, 0);
        value.is_there = true;
    }

    fn longest(&self, block_bytes: usize) -> (usize, usize) {
        (8, block_bytes)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Blocks whose two units have so many bytes each.
    fn fitted(lengths: &[[usize; 2]]) -> NewBlocks {
        let mut new_blocks =
            NewBlocks::with(0, &Arc::from([0, 0]), UnitSet::ALL, Made::Memory(Vec::new()));
        new_blocks.ends = Some(vec![Vec::new(); 2]);
        for (index, lengths) in lengths.iter().enumerate() {
            new_blocks.push_units(&[index as u8], |unit, out| {
                out.resize(out.len() + lengths[unit], (index * 2 + unit + 1) as u8);
            });
        }
        new_blocks
    }

    /// The lengths of each block's units, and their bytes but for zeros.
    fn shown(new_blocks: &NewBlocks) -> Vec<([usize; 2], [usize; 2], [u8; 2])> {
        let units = |block: Block<'_>| [0, 1].map(|unit| block.unit(unit).unwrap().to_vec());
        let all = new_blocks.iter().map(|(_, block)| units(block));
        let content = |unit: &Vec<u8>| unit.iter().filter(|byte| **byte > 0).count();
        let first = |unit: &Vec<u8>| unit.first().copied().unwrap();
        all.map(|units| {
            let of = |of: &dyn Fn(&Vec<u8>) -> usize| [of(&units[0]), of(&units[1])];
            (of(&Vec::len), of(&content), [first(&units[0]), first(&units[1])])
        })
        .collect()
    }

    #[test]
    fn units_of_a_partition_get_the_length_of_the_longest() {
        let mut new_blocks = fitted(&[[100, 513], [512, 0], [1500, 40], [1, 3000]]);
        assert_eq!(new_blocks.strips[1].len(), 1024 + 512 + 512 + 3072);
        // The longest units of the first two have 512 and 1,024 bytes, those of three 1,536 and 1,024.
        assert_eq!(
            [2 * 1536 - 1, 2 * 1536, 3 * 2560 - 1, 3 * 2560].map(|most| new_blocks.fitting(most)),
            [1, 2, 2, 3]
        );
        assert_eq!((new_blocks.fitting(0), new_blocks.fitting(usize::MAX)), (1, 4));
        let mut first = new_blocks.take(2);
        assert_eq!(
            shown(&first),
            [([512, 1024], [100, 513], [1, 2]), ([512, 512], [512, 0], [3, 0])]
        );
        assert_eq!(
            shown(&new_blocks),
            [([1536, 512], [1500, 40], [5, 6]), ([512, 3072], [1, 3000], [7, 8])]
        );
        assert_eq!(first.lows.concat(), [0, 1]);
        let shape = first.fit().unwrap();
        assert_eq!(*shape.unit_bytes, [512, 1024]);
        assert_eq!(
            shown(&first),
            [([512, 1024], [100, 513], [1, 2]), ([512, 1024], [512, 0], [3, 0])]
        );
        let shape = new_blocks.fit().unwrap();
        assert_eq!(*shape.unit_bytes, [1536, 3072]);
        assert_eq!(
            shown(&new_blocks),
            [([1536, 3072], [1500, 40], [5, 6]), ([1536, 3072], [1, 3000], [7, 8])]
        );
        assert!(new_blocks.fit().is_none() && NewBlocks::new(512).fit().is_none());
    }
}
