//! Merges onto long values. They are carried out key by key before the other modifications of a block are applied, so that one
//! value at a time is in memory.

use std::ops::Range;

use crate::block_format::NewBlocks;
use crate::error::{Error, Result};
use crate::ids::{DELETE, KindNumber, PUT, PUT_LONG};
use crate::kind::{Kinds, Modification, Value};
use crate::long::made::Made;
use crate::long::reference::Reference;
use crate::shared::Shared;
use crate::spec::Spec;
use crate::units::Block;

/// The modifications that replace merges onto long values.
#[derive(Debug, Default)]
pub(crate) struct MergedValues {
    values: Vec<MergedValue>,
    /// Why a value cannot be read that a sweep needs.
    pub(crate) unreadable: Option<Error>,
}

/// The outcome of the modifications of one key.
#[derive(Debug)]
struct MergedValue {
    /// Where these modifications are among those of the block.
    at: Range<usize>,
    /// Kind and content of the one that takes their place; `None` where the block's value stays as it is.
    put: Option<(KindNumber, Vec<u8>)>,
}

/// A long value and the merges onto it.
struct Base {
    at: Range<usize>,
    /// The first of the merges.
    first: usize,
    reference: Vec<u8>,
    /// Whether the block has the reference, and not a put among the modifications.
    is_in_block: bool,
}

impl MergedValues {
    /// `modifications`, which this was made of, with what takes the place of some.
    pub(crate) fn put_into<'a>(
        &'a self,
        modifications: &[Modification<'a>],
    ) -> Vec<Modification<'a>> {
        let mut all = Vec::with_capacity(modifications.len());
        let mut passed = 0;
        for MergedValue { at, put } in &self.values {
            all.extend_from_slice(modifications.get(passed..at.start).unwrap_or_default());
            if let (Some((kind, bytes)), Some(one)) = (put, modifications.get(at.start)) {
                all.push(Modification { key: one.key, kind: *kind, bytes });
            }
            passed = at.end;
        }
        all.extend_from_slice(modifications.get(passed..).unwrap_or_default());
        all
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.values.is_empty()
    }
}

impl Shared {
    /// Carries out those of `modifications`, which are sorted by key, that are merges onto a long value: of `block`, whose
    /// lowest key is `low`, or of a put among them. Results that are long go to `new_blocks.made`; it stops at the first result
    /// without space. A value that is too long for merges, or that no merge fits, stays where it is.
    ///
    /// For a reader, a value that cannot be read stays as it is, too: reading it by its own key fails.
    ///
    /// # Errors
    /// Those of writing what comes of it.
    pub(crate) async fn merge_long(
        &self,
        spec: &Spec,
        low: &[u8],
        block: Option<Block<'_>>,
        modifications: &[Modification<'_>],
        new_blocks: &mut NewBlocks,
    ) -> Result<MergedValues> {
        let mut merged = MergedValues::default();
        for base in bases(spec, low, block, modifications) {
            let Base { at, first, reference, is_in_block } = base;
            let merges = modifications.get(first..at.end).unwrap_or_default();
            let value = match self.merge_onto(&reference, merges, new_blocks).await {
                Ok(value) => value,
                Err(_) if matches!(new_blocks.made, Made::Memory(_)) => None,
                Err(error) => {
                    merged.unreadable = Some(error);
                    break;
                }
            };
            let put = match value {
                Some(value) => Some(as_put(spec, &value, &mut new_blocks.made)),
                None if is_in_block => None,
                None => Some((PUT_LONG, reference)),
            };
            merged.values.push(MergedValue { at, put });
            if let Made::Device(made) = &mut new_blocks.made {
                self.write_made(made).await?;
                if made.lacks_space {
                    break;
                }
            }
        }
        Ok(merged)
    }

    /// The value with the merges; `None` when they leave it as it is.
    async fn merge_onto(
        &self,
        reference: &[u8],
        merges: &[Modification<'_>],
        new_blocks: &mut NewBlocks,
    ) -> Result<Option<Value>> {
        let reference = Reference::decode(reference).ok_or_else(|| self.damaged_reference())?;
        let base = match reference {
            Reference::Memory { place, .. } => new_blocks.made.value(place),
            on_device => self.read_to_merge(&on_device).await?,
        };
        let Some(base) = base else {
            new_blocks.refuse(merges.len() as u64);
            return Ok(None);
        };
        let mut value = Value { bytes: base, is_there: true, is_long: false };
        let mut refused = 0;
        for one in merges {
            refused += u64::from(!self.kinds.apply(one.kind, &mut value, one.bytes));
        }
        new_blocks.refuse(refused);
        Ok((refused < merges.len() as u64).then_some(value))
    }
}

/// Kind and content of a modification that puts a value.
fn as_put(spec: &Spec, value: &Value, made: &mut Made) -> (KindNumber, Vec<u8>) {
    let (_, longest) = spec.longest;
    match value.get() {
        None => (DELETE, Vec::new()),
        Some(short) if short.len() <= longest => (PUT, short.to_vec()),
        Some(long) => match made.make(long) {
            Some(reference) => (PUT_LONG, reference.encode()),
            // The sweep is postponed, so this is never written.
            None => (DELETE, Vec::new()),
        },
    }
}

/// The long values that merges change.
fn bases(
    spec: &Spec,
    low: &[u8],
    block: Option<Block<'_>>,
    modifications: &[Modification<'_>],
) -> Vec<Base> {
    let mut bases = Vec::new();
    let has_long = modifications.iter().any(|one| one.kind == PUT_LONG)
        || block.is_some_and(|block| spec.format.has_long_values(block));
    if !has_long {
        return bases;
    }
    let mut begin = 0;
    for of_key in modifications.chunk_by(|one, next| one.key == next.key) {
        let at = begin..begin + of_key.len();
        begin = at.end;
        let Some(last) = of_key.last().filter(|last| !Kinds::replaces(last.kind)) else {
            continue;
        };
        let put = of_key.iter().rposition(|one| Kinds::replaces(one.kind));
        let (reference, first) = match put.and_then(|put| Some((put, of_key.get(put)?))) {
            Some((put, one)) if one.kind == PUT_LONG => {
                (Some(one.bytes.to_vec()), at.start + put + 1)
            }
            Some(_) => continue,
            None => {
                let mut value = Value::default();
                let found = block.map(|block| spec.format.find(low, block, last.key, &mut value));
                match found {
                    Some(Ok(())) if value.is_there && value.is_long => {
                        (Some(value.bytes), at.start)
                    }
                    _ => continue,
                }
            }
        };
        let is_in_block = put.is_none();
        bases.extend(reference.map(|reference| Base { at, first, reference, is_in_block }));
    }
    bases
}
