//! Numbers as values of fields: little-endian, signed, and as short as they can be, so that 0 has no bytes and 200 has two.

use moirai_encodings::NumberType;

/// The value of a field with this number.
#[must_use]
pub fn number_bytes(number: i128) -> Vec<u8> {
    let mut bytes = number.to_le_bytes().to_vec();
    let fill = if number < 0 { 0xff } else { 0 };
    while let [rest @ .., last] = &bytes[..]
        && *last == fill
        // What is left has the same sign.
        && rest.last().map_or(number == 0, |before| (before >> 7 == 1) == (number < 0))
    {
        bytes.pop();
    }
    bytes
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
            prop_assert_eq!(number_of(&number_bytes(number)), Some(number));
        }
    }
}
