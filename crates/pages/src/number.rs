//! Numbers as values of fields: little-endian, signed, and as short as they can be, so that 0 has no bytes and 200 has two.

use moirai_encodings::NumberType;

/// The value of a field with this number.
#[must_use]
pub fn number_bytes(number: i128) -> Vec<u8> {
    let mut bytes = Vec::new();
    put_number_bytes(number, &mut bytes);
    bytes
}

/// Appends the value of a field with this number.
pub fn put_number_bytes(number: i128, out: &mut Vec<u8>) {
    // All bits above it are those of the sign, of which one is kept.
    let bits = i128::BITS - (number ^ (number >> 127)).leading_zeros();
    let length = if number == 0 { 0 } else { bits as usize / 8 + 1 };
    out.extend_from_slice(number.to_le_bytes().get(..length).unwrap_or_default());
}

/// The number of a field's value, where it has 8 bytes or fewer.
#[must_use]
#[inline]
pub fn short_number_of(bytes: &[u8]) -> Option<i64> {
    let unused_bits = 64 - 8 * u32::try_from(bytes.len()).ok().filter(|length| *length <= 8)?;
    let number = bytes.iter().rev().fold(0, |number, byte| number << 8 | u64::from(*byte));
    // A number of no bytes is 0.
    let shifted = number.checked_shl(unused_bits).unwrap_or(0) as i64;
    Some(shifted.checked_shr(unused_bits).unwrap_or(0))
}

/// The number of a field's value; `None` for more than 16 bytes.
#[must_use]
pub fn number_of(bytes: &[u8]) -> Option<i128> {
    let mut wide = [if bytes.last().is_some_and(|last| last >> 7 == 1) { 0xff } else { 0 }; 16];
    wide.get_mut(..bytes.len())?.copy_from_slice(bytes);
    Some(i128::from_le_bytes(wide))
}

/// The number of this type that has the same lowest bits.
pub(crate) fn wrapped(number: i128, of: NumberType) -> i128 {
    let unused_bits = 128 - 8 * of.width_bytes.clamp(1, 16) as u32;
    let shifted = number << unused_bits;
    if of.is_signed { shifted >> unused_bits } else { (shifted as u128 >> unused_bits) as i128 }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn numbers_are_as_short_as_they_can_be() {
        for (number, bytes) in [
            (0, &[][..]),
            (1, &[1]),
            (-1, &[255]),
            (127, &[127]),
            (128, &[128, 0]),
            (-128, &[128]),
            (-129, &[127, 255]),
            (200, &[200, 0]),
            (i128::MIN, &i128::MIN.to_le_bytes()),
        ] {
            assert_eq!(number_bytes(number), bytes, "{number}");
        }
        assert_eq!(number_of(&[0; 17]), None);
        let of = |width_bytes, is_signed| NumberType { width_bytes, is_signed };
        assert_eq!([wrapped(200, of(1, true)), wrapped(-1, of(2, false))], [-56, 65_535]);
        assert_eq!(wrapped(i128::MIN, of(16, true)), i128::MIN);
    }

    proptest! {
        #[test]
        fn numbers_come_back(number: i128, shift in 0..128u32) {
            let number = number >> shift;
            let bytes = number_bytes(number);
            prop_assert_eq!(number_of(&bytes), Some(number));
            let short = (bytes.len() <= 8).then_some(number);
            prop_assert_eq!(short_number_of(&bytes).map(i128::from), short);
        }
    }
}
