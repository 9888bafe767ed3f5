//! What blocks of a space hold: how modifications change them, and how a value is found.

use std::sync::Arc;

use moirai_extents::Extents;
use moirai_units::BlockCount;

use crate::kind::{Kinds, Modification, Value};
use crate::long::Stored;
use crate::long::made::Made;

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
    fn apply(
        &self,
        low: &[u8],
        block: Option<&[u8]>,
        modifications: &[Modification<'_>],
        kinds: &Kinds,
        pieces: &mut Pieces,
    ) -> Result<(), NotOfFormat>;

    /// The value under `key` in a block whose lowest key is `low`.
    fn find<'a>(
        &self,
        low: &[u8],
        block: &'a [u8],
        key: &[u8],
    ) -> Result<Option<Stored<'a>>, NotOfFormat>;

    /// Whether values may be longer than [`BlockFormat::longest`] says: the block holds a reference then.
    fn takes_long_values(&self) -> bool {
        false
    }

    /// Whether a block has references to long values. It may be damaged.
    fn has_long_values(&self, block: &[u8]) -> bool {
        let _ = block;
        false
    }

    /// The keys of a block's long values, with the references.
    fn references<'a>(&self, block: &'a [u8]) -> Result<Vec<KeyedReference<'a>>, NotOfFormat> {
        let _ = block;
        Ok(Vec::new())
    }

    /// Bytes by which a modification makes blocks longer, about: how much is applied at once goes by it.
    fn growth_bytes(&self, modification: &Modification<'_>, block_bytes: usize) -> usize;

    /// What the format is called, in 16 bytes at most: devices say which they were formatted with.
    fn name(&self) -> &'static str;

    /// Makes a value what a block can hold, before any modification and after each.
    fn settle(&self, value: &mut Value, block_bytes: usize) {
        let _ = (value, block_bytes);
    }

    /// The last key that a block has a value of.
    fn last_key<'a>(&self, low: &'a [u8], block: &'a [u8]) -> Result<&'a [u8], NotOfFormat>;

    /// The longest key, and the longest value, that blocks of `block_bytes` can hold.
    fn longest(&self, block_bytes: usize) -> (usize, usize);
}

/// Blocks that take the place of others, in the order of their keys.
#[derive(Debug)]
pub struct Pieces {
    block_bytes: usize,
    pub(crate) lows: Vec<Box<[u8]>>,
    pub(crate) bytes: Vec<u8>,
    refused: u64,
    /// The long values that merges make.
    pub(crate) made: Made,
}

impl Pieces {
    /// None yet, of blocks of `block_bytes`.
    #[must_use]
    pub fn new(block_bytes: usize) -> Pieces {
        Pieces::with(block_bytes, Made::Memory(Vec::new()))
    }

    /// None yet, of blocks whose long values go to the device, as far as `reserve` blocks stay free.
    pub(crate) fn on_device(
        block_bytes: usize,
        extents: &Arc<Extents>,
        reserve: BlockCount,
    ) -> Pieces {
        Pieces::with(block_bytes, Made::on_device(extents, reserve))
    }

    pub(crate) fn with(block_bytes: usize, made: Made) -> Pieces {
        let (lows, bytes) = (Vec::new(), Vec::new());
        Pieces { block_bytes, lows, bytes, refused: 0, made }
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

    /// Adds a block with lowest key `low`, and gives it to be filled; it is full of zeros.
    pub fn push(&mut self, low: &[u8]) -> &mut [u8] {
        self.lows.push(low.into());
        let first = self.bytes.len();
        self.bytes.resize(first + self.block_bytes, 0);
        self.bytes.get_mut(first..).unwrap_or_default()
    }

    /// The last one, to which more may be added.
    pub fn last_mut(&mut self) -> Option<&mut [u8]> {
        let first = self.bytes.len().checked_sub(self.block_bytes)?;
        self.bytes.get_mut(first..)
    }

    /// Takes the first `count` out.
    pub(crate) fn take(&mut self, count: usize) -> Pieces {
        let bytes = (count * self.block_bytes).min(self.bytes.len());
        let rest = self.bytes.split_off(bytes);
        let lows = self.lows.split_off(count.min(self.lows.len()));
        let mut taken = Pieces::new(self.block_bytes);
        taken.lows = std::mem::replace(&mut self.lows, lows);
        taken.bytes = std::mem::replace(&mut self.bytes, rest);
        taken
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
    pub fn iter(&self) -> impl Iterator<Item = (&[u8], &[u8])> {
        self.lows.iter().map(AsRef::as_ref).zip(self.bytes.chunks_exact(self.block_bytes.max(1)))
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
        mut block: Option<&[u8]>,
        modifications: &[Modification<'_>],
        kinds: &Kinds,
        pieces: &mut Pieces,
    ) -> Result<(), NotOfFormat> {
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

    fn find<'a>(
        &self,
        low: &[u8],
        block: &'a [u8],
        key: &[u8],
    ) -> Result<Option<Stored<'a>>, NotOfFormat> {
        Ok((low == key).then_some(Stored::Short(block)))
    }

    fn last_key<'a>(&self, low: &'a [u8], _: &'a [u8]) -> Result<&'a [u8], NotOfFormat> {
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
