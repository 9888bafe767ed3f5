//! A toy format of two units: each record is two numbers, `a` in the first unit and `b` in the second, both beside its key.

use moirai_update::{
    Block, BlockFormat, Kind, KindNumber, Kinds, Modification, NewBlocks, NotOfFormat, Value,
};

/// Sets `a`, or `b`, of a record that is there.
pub(crate) const SET_A: KindNumber = KindNumber(20);
pub(crate) const SET_B: KindNumber = KindNumber(21);
/// Adds to both, and to 0 where there is no record.
pub(crate) const ADD_BOTH: KindNumber = KindNumber(22);

const UNIT: usize = 512;
pub(crate) const BLOCK: usize = 2 * UNIT;
/// A count, and then the records of a unit.
const HEADER: usize = 8;
const RECORD: usize = 16;
pub(crate) const RECORDS_MAX: usize = (UNIT - HEADER) / RECORD;

/// What a record is as a value.
pub(crate) fn bytes_of((a, b): (u64, u64)) -> [u8; 16] {
    let mut bytes = [0; 16];
    bytes[..8].copy_from_slice(&a.to_le_bytes());
    bytes[8..].copy_from_slice(&b.to_le_bytes());
    bytes
}

pub(crate) fn pair_of(bytes: &[u8]) -> Option<(u64, u64)> {
    let (a, b) = bytes.split_first_chunk::<8>()?;
    Some((u64::from_le_bytes(*a), u64::from_le_bytes(b.try_into().ok()?)))
}

/// What it does, and whether it makes a record.
struct Change(fn(&mut (u64, u64), u64), bool);

impl Kind for Change {
    fn fits(&self, value: &Value, _: &[u8]) -> bool {
        value.is_there || self.1
    }

    fn apply(&self, value: &mut Value, modification: &[u8]) {
        let mut pair = value.get().and_then(pair_of).unwrap_or_default();
        (self.0)(&mut pair, modification.try_into().map_or(0, u64::from_le_bytes));
        value.set(Some(&bytes_of(pair)));
    }
}

pub(crate) fn kinds() -> Kinds {
    let mut kinds = Kinds::new();
    let mut register = |number, change: fn(&mut (u64, u64), u64)| {
        let change = Change(change, number == ADD_BOTH);
        kinds.register(number, std::sync::Arc::new(change)).unwrap();
    };
    register(SET_A, |pair, number| pair.0 = number);
    register(SET_B, |pair, number| pair.1 = number);
    register(ADD_BOTH, |pair, number| {
        *pair = (pair.0.wrapping_add(number), pair.1.wrapping_add(number));
    });
    kinds
}

type Record = ([u8; 8], u64);
/// A key with `a` and `b`.
pub(crate) type KeyedPair = ([u8; 8], (u64, u64));

fn records(unit: &[u8]) -> Option<Vec<Record>> {
    let count = u64::from_le_bytes(*unit.first_chunk()?) as usize;
    let record = |record: &[u8]| {
        let (key, number) = record.split_first_chunk::<8>()?;
        Some((*key, u64::from_le_bytes(number.try_into().ok()?)))
    };
    let all = unit.get(HEADER..HEADER + count.checked_mul(RECORD)?)?;
    all.chunks_exact(RECORD).map(record).collect()
}

/// Each record with its numbers; those of a unit that was not read are 0.
pub(crate) fn pairs(block: Block<'_>) -> Option<Vec<KeyedPair>> {
    let unit = |unit| Some(block.unit(unit).map(records)?.ok_or(NotOfFormat));
    let (a, b) = (unit(0).transpose().ok()?, unit(1).transpose().ok()?);
    match (a, b) {
        (Some(a), Some(b)) => {
            let is_of = |((a, _), (b, _)): (&Record, &Record)| a == b;
            let are_same = a.len() == b.len() && a.iter().zip(&b).all(is_of);
            let joined = a.iter().zip(&b).map(|((key, a), (_, b))| (*key, (*a, *b)));
            are_same.then(|| joined.collect())
        }
        (Some(a), None) => Some(a.into_iter().map(|(key, a)| (key, (a, 0))).collect()),
        (None, Some(b)) => Some(b.into_iter().map(|(key, b)| (key, (0, b))).collect()),
        (None, None) => None,
    }
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct Pairs;

/// The same in units as long as their contents need: blocks have different numbers of records, and the second unit has bytes of no
/// meaning behind them.
#[derive(Clone, Copy, Debug)]
pub(crate) struct FittedPairs;

const FITTED_UNITS: [usize; 2] = [2048, 3072];
pub(crate) const FITTED_BLOCK: usize = FITTED_UNITS[0] + FITTED_UNITS[1];
const FITTED_RECORDS_MAX: u64 = 100;
const FITTED_FILLER_MAX: usize = FITTED_UNITS[1] - HEADER - FITTED_RECORDS_MAX as usize * RECORD;

/// Some records, as a view's blocks have them.
pub(crate) fn shown(block: Block<'_>) -> Vec<(u64, (u64, u64))> {
    let pairs = pairs(block).unwrap();
    pairs.into_iter().map(|(key, pair)| (u64::from_be_bytes(key), pair)).collect()
}

/// The records of a block with what modifies them.
pub(crate) fn applied(
    block: Option<Block<'_>>,
    modifications: &[Modification<'_>],
    kinds: &Kinds,
    new_blocks: &mut NewBlocks,
) -> Result<Vec<KeyedPair>, NotOfFormat> {
    let mut all = match block {
        Some(block) => pairs(block).ok_or(NotOfFormat)?,
        None => Vec::new(),
    };
    let mut value = Value::default();
    for of_key in modifications.chunk_by(|one, next| one.key == next.key) {
        let key = of_key[0].key.try_into().map_err(|_| NotOfFormat)?;
        let at = all.binary_search_by_key(&key, |(key, _)| *key);
        value.set(at.ok().map(|at| bytes_of(all[at].1)).as_ref().map(|bytes| &bytes[..]));
        for one in of_key {
            let fits = kinds.apply(one.kind, &mut value, one.bytes);
            new_blocks.refuse(u64::from(!fits));
        }
        let pair = value.get().and_then(pair_of);
        match (at, pair) {
            (Ok(at), Some(pair)) => all[at].1 = pair,
            (Ok(at), None) => drop(all.remove(at)),
            (Err(at), Some(pair)) => all.insert(at, (key, pair)),
            (Err(_), None) => {}
        }
    }
    Ok(all)
}

/// What a unit of a block with these records has.
fn content_of(some: &[KeyedPair], unit: usize) -> Vec<u8> {
    let mut content = (some.len() as u64).to_le_bytes().to_vec();
    for (key, (a, b)) in some {
        content.extend(key);
        content.extend([a, b][unit].to_le_bytes());
    }
    content
}

impl BlockFormat for Pairs {
    fn apply(
        &self,
        low: &[u8],
        block: Option<Block<'_>>,
        modifications: &[Modification<'_>],
        kinds: &Kinds,
        new_blocks: &mut NewBlocks,
    ) -> Result<(), NotOfFormat> {
        let all = applied(block, modifications, kinds, new_blocks)?;
        for some in all.chunks(RECORDS_MAX) {
            let low = if new_blocks.is_empty() { low.min(&some[0].0) } else { &some[0].0 };
            new_blocks.push(low);
            for unit in 0..2 {
                let Some(place) = new_blocks.last_unit_mut(unit) else { continue };
                let content = content_of(some, unit);
                place[..content.len()].copy_from_slice(&content);
            }
        }
        Ok(())
    }

    fn find(
        &self,
        _: &[u8],
        block: Block<'_>,
        key: &[u8],
        value: &mut Value,
    ) -> Result<(), NotOfFormat> {
        let all = pairs(block).ok_or(NotOfFormat)?;
        let found = all.iter().find(|(other, _)| other == key);
        value.set(found.map(|(_, pair)| bytes_of(*pair)).as_ref().map(|bytes| &bytes[..]));
        Ok(())
    }

    fn units(&self, _: usize) -> Vec<usize> {
        vec![UNIT, UNIT]
    }

    fn unit_of(&self, modification: &Modification<'_>) -> Option<usize> {
        match modification.kind {
            SET_A => Some(0),
            SET_B => Some(1),
            _ => None,
        }
    }

    fn growth_bytes(&self, _: &Modification<'_>, _: usize) -> usize {
        2 * RECORD
    }

    fn name(&self) -> &'static str {
        "pairs"
    }

    fn last_key<'a>(&self, low: &'a [u8], block: Block<'a>) -> Result<&'a [u8], NotOfFormat> {
        let unit = block.unit(0).or_else(|| block.unit(1)).ok_or(NotOfFormat)?;
        let count = records(unit).ok_or(NotOfFormat)?.len();
        let Some(last) = count.checked_sub(1) else { return Ok(low) };
        unit.get(HEADER + last * RECORD..HEADER + last * RECORD + 8).ok_or(NotOfFormat)
    }

    fn longest(&self, _: usize) -> (usize, usize) {
        (8, 16)
    }
}

impl BlockFormat for FittedPairs {
    fn apply(
        &self,
        low: &[u8],
        block: Option<Block<'_>>,
        modifications: &[Modification<'_>],
        kinds: &Kinds,
        new_blocks: &mut NewBlocks,
    ) -> Result<(), NotOfFormat> {
        let all = applied(block, modifications, kinds, new_blocks)?;
        let mut rest = &all[..];
        while let Some((first, _)) = rest.first() {
            let key = u64::from_be_bytes(*first);
            let count = 1 + key * 37 % (10 + key / 30).min(FITTED_RECORDS_MAX);
            let (some, others) = rest.split_at(rest.len().min(count as usize));
            rest = others;
            let low = if new_blocks.is_empty() { low.min(&some[0].0) } else { &some[0].0 };
            new_blocks.push_units(low, |unit, out| {
                out.extend(content_of(some, unit));
                if unit == 1 {
                    out.resize(out.len() + some.len() * 97 % FITTED_FILLER_MAX, 0xee);
                }
            });
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
        Pairs.find(low, block, key, value)
    }

    fn units(&self, _: usize) -> Vec<usize> {
        FITTED_UNITS.to_vec()
    }

    fn fits_units(&self) -> bool {
        true
    }

    fn unit_of(&self, modification: &Modification<'_>) -> Option<usize> {
        Pairs.unit_of(modification)
    }

    fn growth_bytes(&self, modification: &Modification<'_>, block_bytes: usize) -> usize {
        Pairs.growth_bytes(modification, block_bytes)
    }

    fn name(&self) -> &'static str {
        "fitted pairs"
    }

    fn last_key<'a>(&self, low: &'a [u8], block: Block<'a>) -> Result<&'a [u8], NotOfFormat> {
        Pairs.last_key(low, block)
    }

    fn longest(&self, block_bytes: usize) -> (usize, usize) {
        Pairs.longest(block_bytes)
    }
}
