//! Leaves: records in the order of their keys. See `docs/formats/btree-leaf.md`.
//!
//! ```text
//! count | offset of each record | free | ... record 1 | record 0 |     record: key bytes, value bytes, key, value
//! ```

use moirai_update::{
    Block, BlockFormat, KeyedReference, Kinds, Modification, NewBlocks, NotOfFormat, Stored, Value,
};

/// Bytes before the offsets.
pub(crate) const LEAF_HEADER_BYTES: usize = 4;
/// Bytes of a record beside its key and value: its offset, and the length of both.
pub(crate) const RECORD_OVERHEAD_BYTES: usize = 6;
/// Bytes of a leaf at most: offsets have 16 bits.
pub const LEAF_BYTES_MAX: usize = 1 << 16;

/// A leaf that has less than this part of its bytes free is full: the leaf behind it is left as it is.
const FULL_SHARE: usize = 64;

/// Set in the number of records of a leaf that has references to long values.
pub(crate) const LEAF_HAS_LONG: u32 = 1 << 31;
/// Set in the length of a value that is a reference to a long value.
pub(crate) const VALUE_IS_LONG: u16 = 1 << 15;

/// Keys and values as leaves of a B+-tree hold them.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Leaves;

/// A leaf that was checked as far as its records are asked for: a block of a space whose format is [`Leaf::FORMAT`].
#[derive(Clone, Copy, Debug)]
pub struct Leaf<'a> {
    bytes: &'a [u8],
    count: usize,
}

impl<'a> Leaf<'a> {
    /// The name of the format, which has no parameters.
    pub const FORMAT: &'static str = "leaves";

    /// Bytes of a key at most, and of a value that lies in the leaf: longer ones lie elsewhere.
    #[must_use]
    pub fn longest(leaf_bytes: usize) -> usize {
        leaf_bytes.saturating_sub(LEAF_HEADER_BYTES) / 4 - RECORD_OVERHEAD_BYTES
    }

    /// The leaf that a block holds; `None` for one that holds none.
    #[must_use]
    pub fn of(bytes: &'a [u8]) -> Option<Leaf<'a>> {
        let count = u32::from_le_bytes(bytes.get(..4)?.try_into().ok()?) & !LEAF_HAS_LONG;
        let count = count as usize;
        bytes.get(LEAF_HEADER_BYTES..)?.get(..count.checked_mul(2)?)?;
        Some(Leaf { bytes, count })
    }

    /// How many records it has.
    #[must_use]
    pub fn len(&self) -> usize {
        self.count
    }

    /// Whether it has none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.count == 0
    }

    fn number(&self, at: usize) -> Option<usize> {
        let bytes = self.bytes.get(at..at.checked_add(2)?)?;
        Some(usize::from(u16::from_le_bytes(bytes.try_into().ok()?)))
    }

    /// Key and value of a record, in the order of the keys; `None` behind the last, and for what is no record.
    #[must_use]
    pub fn record(&self, index: usize) -> Option<(&'a [u8], Stored<'a>)> {
        if index >= self.count {
            return None;
        }
        let at = self.number(LEAF_HEADER_BYTES + 2 * index)?;
        let (key, value) = (self.number(at)?, self.number(at + 2)?);
        let is_long = value & usize::from(VALUE_IS_LONG) != 0;
        let value = value & !usize::from(VALUE_IS_LONG);
        let (key, value) = self.bytes.get(at + 4..)?.get(..key + value)?.split_at_checked(key)?;
        Some((key, if is_long { Stored::Long(value) } else { Stored::Short(value) }))
    }

    /// Whether some of its values are long.
    #[must_use]
    pub fn has_long(&self) -> bool {
        let count = self.bytes.first_chunk().map_or(0, |count| u32::from_le_bytes(*count));
        count & LEAF_HAS_LONG != 0
    }

    /// The record with `key`, or where it would be.
    fn search(&self, key: &[u8]) -> Option<Result<usize, usize>> {
        let (mut first, mut end) = (0, self.count);
        while first < end {
            let middle = first.midpoint(end);
            match self.record(middle)?.0.cmp(key) {
                std::cmp::Ordering::Less => first = middle + 1,
                std::cmp::Ordering::Equal => return Some(Ok(middle)),
                std::cmp::Ordering::Greater => end = middle,
            }
        }
        Some(Err(first))
    }
}

/// A record of a leaf that is being made.
#[derive(Clone, Copy)]
struct Record<'a> {
    key: &'a [u8],
    value: Content<'a>,
}

#[derive(Clone, Copy)]
enum Content<'a> {
    Old(Stored<'a>),
    /// Where it lies among what was worked out, and whether it is a reference to a long value.
    New(usize, usize, bool),
}

/// The records of a leaf with modifications applied.
struct Merged<'a> {
    records: Vec<Record<'a>>,
    /// Values that modifications made.
    new: Vec<u8>,
    /// Modifications that did not fit their values.
    refused: u64,
}

impl<'a> Merged<'a> {
    fn value(&self, record: &Record<'a>) -> Stored<'_> {
        match record.value {
            Content::Old(value) => value,
            Content::New(first, end, is_long) => {
                let value = self.new.get(first..end).unwrap_or_default();
                if is_long { Stored::Long(value) } else { Stored::Short(value) }
            }
        }
    }

    fn of(
        leaf: Option<Leaf<'a>>,
        modifications: &[Modification<'a>],
        kinds: &Kinds,
        new_blocks: &mut NewBlocks,
    ) -> Result<Merged<'a>, NotOfFormat> {
        let count = leaf.map_or(0, |leaf| leaf.len());
        let mut merged = Merged {
            records: Vec::with_capacity(count + modifications.len()),
            new: Vec::new(),
            refused: 0,
        };
        let (_, longest) = Leaves.longest(new_blocks.block_bytes());
        let mut next = 0;
        let mut value = Value::default();
        let old = |index: usize| leaf.and_then(|leaf| leaf.record(index)).ok_or(NotOfFormat);
        for of_key in modifications.chunk_by(|one, next| one.key == next.key) {
            let (Some(first), Some(last)) = (of_key.first(), of_key.last()) else { continue };
            let mut found = None;
            while next < count {
                let (key, value) = old(next)?;
                if key > first.key {
                    break;
                }
                next += 1;
                if key == first.key {
                    found = Some(value);
                    break;
                }
                merged.records.push(Record { key, value: Content::Old(value) });
            }
            if last.kind == moirai_update::PUT {
                let value = Content::Old(Stored::Short(last.bytes));
                merged.records.push(Record { key: first.key, value });
                continue;
            }
            value.set_stored(found);
            // Nothing before the last that replaces matters.
            let from = of_key.iter().rposition(|one| one.kind.is_put()).unwrap_or(0);
            for one in of_key.get(from..).unwrap_or_default() {
                merged.refused += u64::from(!kinds.apply(one.kind, &mut value, one.bytes));
            }
            if value.is_there && !value.is_long && value.bytes.len() > longest {
                new_blocks.make_long(&mut value);
            }
            if value.is_there {
                let from = merged.new.len();
                merged.new.extend_from_slice(&value.bytes);
                let value = Content::New(from, merged.new.len(), value.is_long);
                merged.records.push(Record { key: first.key, value });
            }
        }
        for index in next..count {
            let (key, value) = old(index)?;
            merged.records.push(Record { key, value: Content::Old(value) });
        }
        Ok(merged)
    }

    /// Adds the records to the last of `new_blocks`, and to new ones, each with the lowest key of its records. All of them are
    /// filled: leaves are never changed in place, so room in them would stay empty.
    fn append_to(&self, new_blocks: &mut NewBlocks, low: &[u8]) {
        let mut filler = new_blocks.last_mut().and_then(Filler::of);
        for record in &self.records {
            let value = self.value(record);
            if filler.as_mut().is_some_and(|filler| filler.push(record.key, value)) {
                continue;
            }
            // The first takes all keys that come before it, too.
            let low = if new_blocks.is_empty() { low.min(record.key) } else { record.key };
            filler = Filler::of(new_blocks.push(low));
            if let Some(filler) = &mut filler {
                filler.push(record.key, value);
            }
        }
    }
}

/// A leaf that records are added to.
struct Filler<'a> {
    leaf: &'a mut [u8],
    count: usize,
    has_long: bool,
    /// Where the last record begins: the next lies before it.
    end: usize,
}

impl<'a> Filler<'a> {
    fn of(leaf: &'a mut [u8]) -> Option<Filler<'a>> {
        let old = Leaf::of(leaf)?;
        let (count, has_long) = (old.count, old.has_long());
        let end = match count.checked_sub(1) {
            Some(last) => Leaf::of(leaf)?.number(LEAF_HEADER_BYTES + 2 * last)?,
            None => leaf.len(),
        };
        Some(Filler { leaf, count, has_long, end })
    }

    /// Bytes for records and their offsets.
    fn free_bytes(&self) -> usize {
        self.end.saturating_sub(LEAF_HEADER_BYTES + 2 * self.count)
    }

    /// Adds a record behind the others; tells whether it found room.
    fn push(&mut self, key: &[u8], value: Stored<'_>) -> bool {
        let (value, long) = match value {
            Stored::Short(value) => (value, 0),
            Stored::Long(reference) => (reference, VALUE_IS_LONG),
        };
        if RECORD_OVERHEAD_BYTES + key.len() + value.len() > self.free_bytes() {
            return false;
        }
        let mut put = |at: usize, bytes: &[u8]| {
            if let Some(place) = self.leaf.get_mut(at..at + bytes.len()) {
                place.copy_from_slice(bytes);
            }
        };
        self.end -= 4 + key.len() + value.len();
        put(LEAF_HEADER_BYTES + 2 * self.count, &(self.end as u16).to_le_bytes());
        put(self.end, &(key.len() as u16).to_le_bytes());
        put(self.end + 2, &(value.len() as u16 | long).to_le_bytes());
        put(self.end + 4, key);
        put(self.end + 4 + key.len(), value);
        self.count += 1;
        self.has_long |= long != 0;
        let has_long = if self.has_long { LEAF_HAS_LONG } else { 0 };
        put(0, &(self.count as u32 | has_long).to_le_bytes());
        true
    }
}

impl BlockFormat for Leaves {
    /// None of longer blocks: places in a leaf have 16 bits.
    fn units(&self, block_bytes: usize) -> Vec<usize> {
        if block_bytes > LEAF_BYTES_MAX { Vec::new() } else { vec![block_bytes] }
    }

    fn apply(
        &self,
        low: &[u8],
        block: Option<Block<'_>>,
        modifications: &[Modification<'_>],
        kinds: &Kinds,
        new_blocks: &mut NewBlocks,
    ) -> Result<(), NotOfFormat> {
        let block_bytes = new_blocks.block_bytes();
        let leaf = match block {
            Some(block) => Some(Leaf::of(block.bytes()).ok_or(NotOfFormat)?),
            None => None,
        };
        let is_full = |last: &mut [u8]| {
            Filler::of(last).is_none_or(|last| last.free_bytes() < block_bytes / FULL_SHARE)
        };
        if let (Some(block), []) = (block, modifications)
            && new_blocks.last_mut().is_none_or(is_full)
        {
            new_blocks.push(low).copy_from_slice(block.bytes());
            return Ok(());
        }
        let merged = Merged::of(leaf, modifications, kinds, new_blocks)?;
        new_blocks.refuse(merged.refused);
        merged.append_to(new_blocks, low);
        Ok(())
    }

    fn find(
        &self,
        _: &[u8],
        block: Block<'_>,
        key: &[u8],
        value: &mut Value,
    ) -> Result<(), NotOfFormat> {
        let leaf = Leaf::of(block.bytes()).ok_or(NotOfFormat)?;
        if let Ok(index) = leaf.search(key).ok_or(NotOfFormat)? {
            value.set_stored(Some(leaf.record(index).ok_or(NotOfFormat)?.1));
        }
        Ok(())
    }

    fn last_key<'a>(&self, low: &'a [u8], block: Block<'a>) -> Result<&'a [u8], NotOfFormat> {
        let leaf = Leaf::of(block.bytes()).ok_or(NotOfFormat)?;
        match leaf.len().checked_sub(1) {
            Some(last) => leaf.record(last).map(|(key, _)| key).ok_or(NotOfFormat),
            None => Ok(low),
        }
    }

    fn takes_long_values(&self) -> bool {
        true
    }

    fn has_long_values(&self, block: Block<'_>) -> bool {
        Leaf::of(block.bytes()).is_some_and(|leaf| leaf.has_long())
    }

    fn references<'a>(&self, block: Block<'a>) -> Result<Vec<KeyedReference<'a>>, NotOfFormat> {
        let leaf = Leaf::of(block.bytes()).ok_or(NotOfFormat)?;
        let mut references = Vec::new();
        if leaf.has_long() {
            for index in 0..leaf.len() {
                if let (key, Stored::Long(reference)) = leaf.record(index).ok_or(NotOfFormat)? {
                    references.push((key, reference));
                }
            }
        }
        Ok(references)
    }

    fn growth_bytes(&self, modification: &Modification<'_>, _: usize) -> usize {
        RECORD_OVERHEAD_BYTES + modification.key.len() + modification.bytes.len()
    }

    fn name(&self) -> &'static str {
        Leaf::FORMAT
    }

    fn longest(&self, block_bytes: usize) -> (usize, usize) {
        let quarter = Leaf::longest(block_bytes);
        (quarter, quarter)
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;
    use moirai_update::{DELETE, PUT};
    use proptest::prelude::*;

    const BLOCK: usize = 512;

    fn records(new_blocks: &NewBlocks) -> Vec<(Vec<u8>, Vec<u8>)> {
        let leaves = new_blocks.iter().map(|(_, block)| Leaf::of(block.bytes()).unwrap());
        let all = leaves.flat_map(|leaf| (0..leaf.len()).map(move |at| leaf.record(at).unwrap()));
        let short = |value| match value {
            Stored::Short(value) => value,
            Stored::Long(_) => panic!("no value is long"),
        };
        all.map(|(key, value)| (key.to_vec(), short(value).to_vec())).collect()
    }

    proptest! {
        #[test]
        fn leaves_hold_what_was_put(
            batches in prop::collection::vec(
                prop::collection::vec((prop::collection::vec(0_u8..4, 0..40), prop::option::of(prop::collection::vec(any::<u8>(), 0..120))), 1..30),
                1..8,
            )
        ) {
            let mut model = BTreeMap::new();
            let mut blocks: Vec<(Vec<u8>, Vec<u8>)> = Vec::new();
            for mut batch in batches {
                batch.sort_by(|one, other| one.0.cmp(&other.0));
                let modifications: Vec<Modification<'_>> = batch
                    .iter()
                    .map(|(key, value)| Modification {
                        key,
                        kind: if value.is_some() { PUT } else { DELETE },
                        bytes: value.as_deref().unwrap_or_default(),
                    })
                    .collect();
                for (key, value) in batch.clone() {
                    match value {
                        Some(value) => model.insert(key, value),
                        None => model.remove(&key),
                    };
                }
                let mut new_blocks = NewBlocks::new(BLOCK);
                let mut rest = &modifications[..];
                for (index, (low, block)) in blocks.iter().enumerate() {
                    let end = match blocks.get(index + 1) {
                        Some((next, _)) => rest.partition_point(|one| one.key < &next[..]),
                        None => rest.len(),
                    };
                    let (now, later) = rest.split_at(end);
                    Leaves.apply(low, Some(Block::whole(block)), now, &Kinds::new(), &mut new_blocks).unwrap();
                    rest = later;
                }
                if blocks.is_empty() {
                    Leaves.apply(b"", None, rest, &Kinds::new(), &mut new_blocks).unwrap();
                }
                let expected: Vec<_> = model.clone().into_iter().collect();
                prop_assert_eq!(records(&new_blocks), expected);
                let lows: Vec<&[u8]> = new_blocks.iter().map(|(low, _)| low).collect();
                prop_assert!(lows.windows(2).all(|pair| pair[0] < pair[1]));
                blocks = new_blocks.iter().map(|(low, block)| (low.to_vec(), block.bytes().to_vec())).collect();
                for (key, value) in &model {
                    let at = blocks.partition_point(|(low, _)| low <= key).saturating_sub(1);
                    let (low, block) = &blocks[at];
                    let mut found = Value::default();
                    Leaves.find(low, Block::whole(block), key, &mut found).unwrap();
                    prop_assert_eq!(found.stored(), Some(Stored::Short(&value[..])));
                }
            }
        }

        #[test]
        fn what_is_no_leaf_is_refused_or_read_without_panic(
            mut bytes in prop::collection::vec(any::<u8>(), 0..600), count in 0_u32..300
        ) {
            if let Some(place) = bytes.get_mut(..4) {
                place.copy_from_slice(&count.to_le_bytes());
            }
            let block = Block::whole(&bytes);
            let _ = Leaves.find(b"", block, b"key", &mut Value::default());
            let put = Modification { key: b"key", kind: PUT, bytes: b"value" };
            if bytes.len() == BLOCK {
                let _ = Leaves.apply(b"", Some(block), &[put], &Kinds::new(), &mut NewBlocks::new(BLOCK));
            }
        }
    }

    #[test]
    fn keys_in_their_order_fill_leaves() {
        let keys: Vec<[u8; 8]> = (0..200_u64).map(u64::to_be_bytes).collect();
        let put = |key| Modification { key, kind: PUT, bytes: &[7; 16] };
        let all: Vec<Modification<'_>> = keys.iter().map(|key| put(&key[..])).collect();
        let mut new_blocks = NewBlocks::new(BLOCK);
        Leaves.apply(b"", None, &all, &Kinds::new(), &mut new_blocks).unwrap();
        // 16 records of 30 bytes and the header.
        assert_eq!(new_blocks.len(), 200_usize.div_ceil(16));
    }
}
