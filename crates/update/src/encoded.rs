//! The encoding of modifications in queues, staged chunks and the log: a byte for the kind, then key and operand, each after its length.

use crate::codec::{Taker, put_bytes, put_number};
use crate::ids::{AFTER_POINT, KindNumber, PointNumber, SpaceId};
use crate::kind::Modification;

/// Appends a modification.
pub(crate) fn encode(out: &mut Vec<u8>, modification: Modification<'_>) {
    out.push(modification.kind.0);
    put_bytes(out, modification.key);
    put_bytes(out, modification.bytes);
}

/// The modifications that [`encode`] wrote; ends where something else is.
pub(crate) fn decode(bytes: &[u8]) -> impl Iterator<Item = Modification<'_>> {
    decode_encoded(bytes).map(|(modification, _)| modification)
}

/// Those of a history, or of any chunk, that came before a read point.
pub(crate) fn decode_before(
    bytes: &[u8],
    point: PointNumber,
) -> impl Iterator<Item = Modification<'_>> {
    let mut later = None;
    decode(bytes).filter(move |one| {
        if one.kind == AFTER_POINT {
            let after = one.bytes.try_into().map_or(0, u64::from_le_bytes);
            if PointNumber(after) >= point {
                later = Some(one.key);
            }
            return false;
        }
        later != Some(one.key)
    })
}

/// The modifications that [`encode`] wrote, each with its bytes.
pub(crate) fn decode_encoded(bytes: &[u8]) -> impl Iterator<Item = (Modification<'_>, &[u8])> {
    let mut taker = Taker(bytes);
    std::iter::from_fn(move || {
        let before = taker.0;
        let modification = take(&mut taker)?;
        let encoded = before.get(..before.len() - taker.0.len())?;
        Some((modification, encoded))
    })
}

/// The modification at the front.
#[inline]
pub(crate) fn take<'a>(taker: &mut Taker<'a>) -> Option<Modification<'a>> {
    let kind = KindNumber(taker.byte()?);
    Some(Modification { key: taker.bytes()?, kind, bytes: taker.bytes()? })
}

pub(crate) fn put_modification(out: &mut Vec<u8>, space: SpaceId, modification: Modification<'_>) {
    put_number(out, u64::from(space.0));
    encode(out, modification);
}

/// The space and the modification at the front of a group of a program.
pub(crate) fn take_modification<'a>(taker: &mut Taker<'a>) -> Option<(SpaceId, Modification<'a>)> {
    Some((SpaceId(taker.number32()?), take(taker)?))
}
