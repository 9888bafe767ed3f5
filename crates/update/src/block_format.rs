//! What blocks of a space hold: how modifications change them, and how a value is found.

use std::sync::Arc;

use crate::group::Group;
use crate::ids::SpaceId;
use crate::kind::{Kinds, Modification, Value};
use crate::long::Stored;
use crate::long::made::Made;
use crate::spec::Spec;
use crate::units::{Block, UnitSet};

/// A block that is not what its format writes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NotOfFormat;

/// A key, and the reference to its long value.
pub type KeyedReference<'a> = (&'a [u8], &'a [u8]);

/// How the blocks of a space hold keys and values. A block holds the values from its lowest key up to the
/// lowest key of the next.
pub trait BlockFormat: Send + Sync {
    /// Gives `pieces` the blocks that take the place of `block`, which is `None` when there is none yet, and
    /// whose lowest key is `low`; for reading, the first block of a partition gets what comes before its lowest key, too.
    /// There may be pieces of blocks before it already, and what is in `block` may be added to the last of these. The `modifications` are in the order of their keys, and those of one key in
    /// the order in which they are to be applied; none of them is a merge onto a long value. No pieces are an empty block.
    /// Where some units alone are read, `block` and `pieces` have no others, and what modifications do to these is left out.
    fn apply(
        &self,
        low: &[u8],
        block: Option<Block<'_>>,
        modifications: &[Modification<'_>],
        kinds: &Kinds,
        pieces: &mut Pieces,
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

    /// The only unit that a modification changes. A modification that creates or deletes a value must give `None`: readers of other
    /// units do not see one that gives a unit. Modifications of a key that change different units may be applied in any order.
    fn unit_of(&self, modification: &Modification<'_>) -> Option<usize> {
        let _ = modification;
        None
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

    /// Bytes by which a modification makes blocks longer, about: how much is applied at once goes by it.
    fn growth_bytes(&self, modification: &Modification<'_>, block_bytes: usize) -> usize;

    /// Bytes of the modifications of other spaces that come of applying one modification, at most, with 16 for each beside its
    /// key and content: see [`Pieces::emit`]. With 0, none come of any.
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
pub struct Pieces {
    block_bytes: usize,
    pub(crate) unit_bytes: Arc<[usize]>,
    /// Which units they have.
    units: UnitSet,
    pub(crate) lows: Vec<Box<[u8]>>,
    /// A strip for each unit: that unit of all blocks, one after the other.
    pub(crate) strips: Vec<Vec<u8>>,
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

impl Pieces {
    /// None yet, of blocks of `block_bytes` in one unit.
    #[must_use]
    pub fn new(block_bytes: usize) -> Pieces {
        let made = Made::Memory(Vec::new());
        Pieces::with(block_bytes, &Arc::from([block_bytes]), UnitSet::ALL, made)
    }

    /// None yet, of blocks that have these units.
    pub(crate) fn of(spec: &Spec, units: UnitSet, made: Made) -> Pieces {
        Pieces::with(spec.block_bytes(), &spec.unit_bytes, units, made)
    }

    fn with(block_bytes: usize, unit_bytes: &Arc<[usize]>, units: UnitSet, made: Made) -> Pieces {
        let (lows, strips) = (Vec::new(), vec![Vec::new(); unit_bytes.len()]);
        let unit_bytes = Arc::clone(unit_bytes);
        let emission = None;
        Pieces { block_bytes, unit_bytes, units, lows, strips, refused: 0, made, emission }
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
    pub(crate) fn take(&mut self, count: usize) -> Pieces {
        let made = Made::Memory(Vec::new());
        let mut taken = Pieces::with(self.block_bytes, &self.unit_bytes, self.units, made);
        let lows = self.lows.split_off(count.min(self.lows.len()));
        taken.lows = std::mem::replace(&mut self.lows, lows);
        let strips = self.strips.iter_mut().zip(&*self.unit_bytes);
        for ((strip, bytes), to) in strips.zip(&mut taken.strips) {
            let rest = strip.split_off((count * bytes).min(strip.len()));
            *to = std::mem::replace(strip, rest);
        }
        taken
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
        let block = |index| Block::made(&self.strips, index, &self.unit_bytes);
        self.lows.iter().enumerate().map(move |(index, low)| (&**low, block(index)))
    }
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
        pieces: &mut Pieces,
    ) -> Result<(), NotOfFormat> {
        let mut block = block.map(Block::bytes);
        let mut value = Value::default();
        for of_key in modifications.chunk_by(|one, next| one.key == next.key) {
            let Some(Modification { key, .. }) = of_key.first() else { continue };
            if *key > low
                && let Some(block) = block.take()
            {
                pieces.push(low).copy_from_slice(block);
            }
            value.set(if *key == low { block.take() } else { None });
            self.settle(&mut value, pieces.block_bytes());
            for one in of_key {
                let fits = kinds.apply(one.kind, &mut value, one.bytes);
                pieces.refuse(u64::from(!fits));
                self.settle(&mut value, pieces.block_bytes());
            }
            if value.bytes.iter().any(|byte| *byte != 0) {
                pieces.push(key).copy_from_slice(&value.bytes);
            }
        }
        if let Some(block) = block {
            pieces.push(low).copy_from_slice(block);
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
