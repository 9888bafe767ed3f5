//! Units of minipages: one attribute's values for a run of rows, checksummed. See
//! `docs/formats/minipage.md`.
//!
//! | offset | size | content |
//! |---|---|---|
//! | 0 | 4 | CRC-32C of all that follows, begun with the magic, the version and the unit's place |
//! | 4 | 4 | table |
//! | 8 | 4 | page |
//! | 12 | 2 | attribute |
//! | 14 | 2 | values in this unit |
//! | 16 | ceil(n / 8) | validity, a bit for each value, set when it is not null; only of nullable attributes, n being the most values of a unit |
//! | then | n w | values of w bytes |
//!
//! A unit of 512 bytes has no room for a magic and a version of its own. They are where the checksum
//! begins, together with the number of the unit in its minipage, so that a unit of another format,
//! or in another's place, does not pass.

use arrow_buffer::bit_util;
use moirai_units::BlockCount;

use crate::checksum::checksum;

/// Begins the checksum of every unit.
pub(crate) const MINIPAGE_MAGIC: &[u8; 8] = b"MOIRAIMP";
/// The version of this format.
pub(crate) const MINIPAGE_VERSION: u32 = 1;

/// Bytes before the validity bits or the values.
pub(crate) const HEADER_BYTES: usize = 16;

/// The most values of `width_bytes` that a unit holds.
pub(crate) fn unit_values(unit: BlockCount, width_bytes: usize, nullable: bool) -> u32 {
    let room_bits = (unit.bytes().0 as usize - HEADER_BYTES) * 8;
    // The validity bits are rounded up to a byte, so that one value less may fit.
    let bits_each = width_bytes * 8 + usize::from(nullable);
    let mut values = room_bits / bits_each;
    while values > 1 && nullable && (values.div_ceil(8) + values * width_bytes) * 8 > room_bits {
        values -= 1;
    }
    values.min(usize::from(u16::MAX)) as u32
}

/// Where a unit belongs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct UnitPlace {
    pub(crate) table: u32,
    pub(crate) page: u32,
    pub(crate) attribute: u16,
    /// The unit's number in its minipage.
    pub(crate) unit: u16,
}

/// What the values of a unit look like.
#[derive(Clone, Copy, Debug)]
pub(crate) struct UnitFormat {
    pub(crate) width_bytes: usize,
    pub(crate) nullable: bool,
    /// The most values of a unit.
    pub(crate) unit_values: u32,
}

impl UnitFormat {
    fn validity_bytes(&self) -> usize {
        if self.nullable { (self.unit_values as usize).div_ceil(8) } else { 0 }
    }

    fn values_offset(&self) -> usize {
        HEADER_BYTES + self.validity_bytes()
    }
}

/// The values of a unit that passed its checks.
#[derive(Clone, Copy, Debug)]
pub(crate) struct UnitValues<'a> {
    /// How many.
    pub(crate) count: usize,
    /// Their bytes, one after the other.
    pub(crate) bytes: &'a [u8],
    /// A bit for each, set when it is not null; `None` when there can be no nulls.
    pub(crate) validity: Option<&'a [u8]>,
}

fn checksum_of(place: UnitPlace, content: &[u8]) -> u32 {
    checksum(MINIPAGE_MAGIC, MINIPAGE_VERSION, place.unit, content)
}

/// Writes a unit into `unit`, which is zeros. `is_valid` tells which values are not null.
pub(crate) fn encode(
    unit: &mut [u8],
    place: UnitPlace,
    format: UnitFormat,
    values: &[u8],
    is_valid: impl Fn(usize) -> bool,
) {
    let count = values.len() / format.width_bytes;
    let header = [place.table.to_le_bytes(), place.page.to_le_bytes()];
    for (to, from) in unit.iter_mut().skip(4).zip(header.as_flattened()) {
        *to = *from;
    }
    let header = [place.attribute.to_le_bytes(), (count as u16).to_le_bytes()];
    for (to, from) in unit.iter_mut().skip(12).zip(header.as_flattened()) {
        *to = *from;
    }
    if format.nullable
        && let Some(bits) = unit.get_mut(HEADER_BYTES..format.values_offset())
    {
        for index in (0..count).filter(|index| is_valid(*index)) {
            bit_util::set_bit(bits, index);
        }
    }
    let offset = format.values_offset();
    if let Some(target) = unit.get_mut(offset..offset + values.len()) {
        target.copy_from_slice(values);
    }
    let crc = checksum_of(place, unit.get(4..).unwrap_or(&[]));
    for (to, from) in unit.iter_mut().zip(crc.to_le_bytes()) {
        *to = from;
    }
}

/// Reads a unit; the error says what is wrong with it.
pub(crate) fn decode(
    unit: &[u8],
    place: UnitPlace,
    format: UnitFormat,
) -> Result<UnitValues<'_>, &'static str> {
    let too_short = "the unit is shorter than its header says";
    let (crc, content) = unit.split_first_chunk::<4>().ok_or(too_short)?;
    if u32::from_le_bytes(*crc) != checksum_of(place, content) {
        return Err("the checksum does not match");
    }
    let (table, rest) = content.split_first_chunk::<4>().ok_or(too_short)?;
    let (page, rest) = rest.split_first_chunk::<4>().ok_or(too_short)?;
    let (attribute, rest) = rest.split_first_chunk::<2>().ok_or(too_short)?;
    let (count, _) = rest.split_first_chunk::<2>().ok_or(too_short)?;
    let found =
        (u32::from_le_bytes(*table), u32::from_le_bytes(*page), u16::from_le_bytes(*attribute));
    if found != (place.table, place.page, place.attribute) {
        return Err("the unit belongs to another place (misdirected write)");
    }
    let count = usize::from(u16::from_le_bytes(*count));
    if count > format.unit_values as usize {
        return Err("the header counts more values than fit");
    }
    let offset = format.values_offset();
    let bytes = unit.get(offset..offset + count * format.width_bytes).ok_or(too_short)?;
    let validity = match format.nullable {
        true => Some(unit.get(HEADER_BYTES..offset).ok_or(too_short)?),
        false => None,
    };
    Ok(UnitValues { count, bytes, validity })
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const PLACE: UnitPlace = UnitPlace { table: 7, page: 1_000_000, attribute: 3, unit: 2 };

    fn format(width_bytes: usize, nullable: bool) -> UnitFormat {
        UnitFormat {
            width_bytes,
            nullable,
            unit_values: unit_values(BlockCount(1), width_bytes, nullable),
        }
    }

    #[test]
    fn a_unit_holds_what_fits() {
        assert_eq!(unit_values(BlockCount(1), 8, false), 62);
        assert_eq!(unit_values(BlockCount(1), 32, false), 15);
        assert_eq!(unit_values(BlockCount(8), 4, false), 1020);
        // 61 values and 8 bytes of validity are 496 bytes exactly.
        assert_eq!(unit_values(BlockCount(1), 8, true), 61);
        for width in 1..=32 {
            let values = unit_values(BlockCount(1), width, true) as usize;
            assert!(HEADER_BYTES + values.div_ceil(8) + values * width <= 512, "{width}");
        }
    }

    proptest! {
        #[test]
        fn units_round_trip_and_any_flipped_bit_is_found(
            width in prop::sample::select(vec![1usize, 2, 4, 8, 15, 16, 32]),
            nullable in any::<bool>(),
            seed in any::<u64>(),
            fill in 0.0f64..=1.0,
            bit in 0usize..512 * 8,
        ) {
            let format = format(width, nullable);
            let count = (f64::from(format.unit_values) * fill) as usize;
            let values: Vec<u8> =
                (0..count * width).map(|i| (seed.wrapping_mul(i as u64 + 1) >> 32) as u8).collect();
            let is_valid = |index: usize| !nullable || (seed >> (index % 64)) & 1 == 1;
            let mut unit = vec![0; 512];
            encode(&mut unit, PLACE, format, &values, is_valid);
            let decoded = decode(&unit, PLACE, format).unwrap();
            prop_assert_eq!((decoded.count, decoded.bytes), (count, &values[..]));
            if let Some(bits) = decoded.validity {
                prop_assert!((0..count).all(|i| bit_util::get_bit(bits, i) == is_valid(i)));
            }
            unit[bit / 8] ^= 1 << (bit % 8);
            prop_assert!(decode(&unit, PLACE, format).is_err());
        }

        #[test]
        fn arbitrary_bytes_are_an_error(bytes in prop::collection::vec(any::<u8>(), 0..600)) {
            prop_assert!(decode(&bytes, PLACE, format(8, true)).is_err());
        }
    }

    #[test]
    fn a_unit_in_anothers_place_is_found() {
        let mut unit = vec![0; 512];
        encode(&mut unit, PLACE, format(4, false), &[1; 40], |_| true);
        for place in [
            UnitPlace { table: 8, ..PLACE },
            UnitPlace { page: 0, ..PLACE },
            UnitPlace { attribute: 2, ..PLACE },
            UnitPlace { unit: 0, ..PLACE },
        ] {
            assert!(decode(&unit, place, format(4, false)).is_err(), "{place:?}");
        }
    }
}
