//! References to long values, and the index of a value's parts. See `docs/formats/update-data.md`.

use moirai_extents::Extent;
use moirai_units::{BlockCount, BlockRange, ByteCount, Lbn};

use crate::codec::{Taker, put_number};
use crate::data::layout::Layout;
use crate::limits::{PART_BYTES, VALUE_BYTES_MAX};

/// A value in one run of blocks.
const RUN: u8 = 0;
/// A value in several runs, which an index lists.
const INDEX: u8 = 1;
/// A value in memory: what a view shows of a merge. Never on a device.
const MEMORY: u8 = 2;

/// Where a long value is found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Reference {
    /// On the device, in one part.
    Run(ValuePart),
    /// On the device, in the parts that an index lists.
    Index { length: ByteCount, index: ValuePart },
    /// In memory, at this place among the values that a view made.
    Memory { length: ByteCount, place: u32 },
}

/// Some bytes of a long value, or its index: in consecutive blocks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ValuePart {
    pub(crate) first: Lbn,
    pub(crate) length: ByteCount,
    pub(crate) checksum: u32,
}

impl ValuePart {
    /// Bytes that lie in `extent`.
    pub(crate) fn of(bytes: &[u8], extent: &Extent) -> ValuePart {
        let length = ByteCount(bytes.len() as u64);
        ValuePart { first: extent.first(), length, checksum: crc32c::crc32c(bytes) }
    }

    /// The blocks that hold it.
    pub(crate) fn blocks(&self) -> BlockRange {
        BlockRange::new(self.first, BlockCount::holding(self.length))
    }

    /// The blocks of its extent.
    pub(crate) fn run(&self, layout: &Layout) -> BlockRange {
        BlockRange::new(self.first, layout.division.rounded(BlockCount::holding(self.length)))
    }

    pub(crate) fn encode(&self, out: &mut Vec<u8>) {
        put_number(out, self.first.0);
        put_number(out, self.length.0);
        out.extend_from_slice(&self.checksum.to_le_bytes());
    }

    fn take(taker: &mut Taker<'_>) -> Option<ValuePart> {
        let first = Lbn(taker.number()?);
        let length = ByteCount(taker.number()?);
        let checksum = taker.le32()?;
        let is_part = (1..=PART_BYTES as u64).contains(&length.0) && first.0 < 1 << 62;
        is_part.then_some(ValuePart { first, length, checksum })
    }
}

impl Reference {
    /// Bytes of the value.
    pub(crate) fn length(&self) -> ByteCount {
        match self {
            Reference::Run(part) => part.length,
            Reference::Index { length, .. } | Reference::Memory { length, .. } => *length,
        }
    }

    /// What tells it from all others on the device; `None` in memory.
    pub(crate) fn first(&self) -> Option<Lbn> {
        match self {
            Reference::Run(part) => Some(part.first),
            Reference::Index { index, .. } => Some(index.first),
            Reference::Memory { .. } => None,
        }
    }

    /// The blocks of its only part, or of its index; none in memory.
    pub(crate) fn blocks(&self) -> BlockRange {
        match self {
            Reference::Run(part) | Reference::Index { index: part, .. } => part.blocks(),
            Reference::Memory { .. } => BlockRange::new(Lbn(0), BlockCount::ZERO),
        }
    }

    pub(crate) fn encode(&self) -> Vec<u8> {
        let mut out = Vec::with_capacity(24);
        match self {
            Reference::Run(part) => {
                out.push(RUN);
                part.encode(&mut out);
            }
            Reference::Index { length, index } => {
                out.push(INDEX);
                put_number(&mut out, length.0);
                index.encode(&mut out);
            }
            Reference::Memory { length, place } => {
                out.push(MEMORY);
                put_number(&mut out, length.0);
                put_number(&mut out, u64::from(*place));
            }
        }
        out
    }

    /// The reference that `bytes` encode; `None` when they encode none.
    pub(crate) fn decode(bytes: &[u8]) -> Option<Reference> {
        let mut taker = Taker(bytes);
        let length = |taker: &mut Taker<'_>| {
            taker.number().map(ByteCount).filter(|length| *length <= VALUE_BYTES_MAX)
        };
        let reference = match taker.byte()? {
            RUN => Reference::Run(ValuePart::take(&mut taker)?),
            INDEX => Reference::Index {
                length: length(&mut taker)?,
                index: ValuePart::take(&mut taker)?,
            },
            MEMORY => Reference::Memory { length: length(&mut taker)?, place: taker.number32()? },
            _ => return None,
        };
        taker.is_empty().then_some(reference)
    }
}

/// The parts that an index lists, which are `length` together.
pub(crate) fn parts_of(index: &[u8], length: ByteCount) -> Option<Vec<ValuePart>> {
    let mut taker = Taker(index);
    let mut parts = Vec::new();
    let mut rest = length.0;
    while !taker.is_empty() {
        let part = ValuePart::take(&mut taker)?;
        rest = rest.checked_sub(part.length.0)?;
        parts.push(part);
    }
    (rest == 0).then_some(parts)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn part() -> impl Strategy<Value = ValuePart> {
        (0_u64..1 << 62, 1..=PART_BYTES as u64, any::<u32>()).prop_map(
            |(first, length, checksum)| ValuePart {
                first: Lbn(first),
                length: ByteCount(length),
                checksum,
            },
        )
    }

    proptest! {
        #[test]
        fn references_round_trip(part in part(), length in 0..=VALUE_BYTES_MAX.0, place: u32) {
            let length = ByteCount(length);
            for reference in [
                Reference::Run(part),
                Reference::Index { length, index: part },
                Reference::Memory { length, place },
            ] {
                let encoded = reference.encode();
                prop_assert_eq!(Reference::decode(&encoded), Some(reference));
                for end in 0..encoded.len() {
                    prop_assert_eq!(Reference::decode(&encoded[..end]), None);
                }
            }
        }

        #[test]
        fn an_index_lists_its_parts_and_arbitrary_bytes_list_none_or_all(
            parts in prop::collection::vec(part(), 0..20), bytes in prop::collection::vec(any::<u8>(), 0..60)
        ) {
            let mut index = Vec::new();
            parts.iter().for_each(|part| part.encode(&mut index));
            let length = ByteCount(parts.iter().map(|part| part.length.0).sum());
            prop_assert_eq!(parts_of(&index, length), Some(parts));
            prop_assert_eq!(parts_of(&index, ByteCount(length.0 + 1)), None);
            let _ = (parts_of(&bytes, length), Reference::decode(&bytes));
        }
    }
}
