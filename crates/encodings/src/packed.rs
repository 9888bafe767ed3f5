//! Numbers in as few bits as the greatest of them needs, one after the other.
//!
//! Number i takes the bits from i w on, w being their width; bit j is bit j mod 8 of byte j / 8. Numbers come in groups of eight,
//! which take w bytes, and a pad follows the last group: each number is read with one load of eight bytes, a shift and a mask.
//! That takes widths up to 57; wider numbers take 64 bits, which need no shift.

use crate::error::{Damaged, Result};

/// Numbers of a group.
const GROUP: usize = 8;
/// Bytes behind the last group.
const PAD_BYTES: usize = 8;
/// The widest numbers that one load of eight bytes finds at any bit.
const SHIFTED_BITS_MAX: u32 = 57;

/// Bits that numbers up to `greatest` take.
pub(crate) fn bits_of(greatest: u64) -> u8 {
    let bits = u64::BITS - greatest.leading_zeros();
    if bits > SHIFTED_BITS_MAX { 64 } else { bits as u8 }
}

/// Whether [`bits_of`] gives so many.
pub(crate) fn are_bits(bits: u8) -> bool {
    u32::from(bits) <= SHIFTED_BITS_MAX || bits == 64
}

/// Bytes of `count` numbers of `bits` each.
pub(crate) fn packed_bytes(count: usize, bits: u8) -> usize {
    if bits == 0 { 0 } else { count.div_ceil(GROUP) * usize::from(bits) + PAD_BYTES }
}

/// Appends the distances of numbers to `base`, each of no more than `bits`.
pub(crate) fn pack(numbers: &[u64], base: u64, bits: u8, out: &mut Vec<u8>) {
    let end = out.len() + packed_bytes(numbers.len(), bits);
    out.reserve(end + PAD_BYTES - out.len());
    if bits > 0 {
        // Groups follow each other without a gap: eight numbers are whole bytes. The last word may reach into the pad of zeros.
        let (mut word, mut used) = (0u128, 0u32);
        for number in numbers {
            word |= u128::from(number.wrapping_sub(base)) << used;
            used += u32::from(bits);
            if used >= u64::BITS {
                out.extend_from_slice(&(word as u64).to_le_bytes());
                word >>= u64::BITS;
                used -= u64::BITS;
            }
        }
        out.extend_from_slice(&(word as u64).to_le_bytes());
    }
    out.resize(end, 0);
}

/// Packed numbers.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Packed<'a> {
    bytes: &'a [u8],
    bits: u8,
    count: usize,
}

impl<'a> Packed<'a> {
    /// Takes `count` numbers off the front of bytes, whose rest comes back.
    pub(crate) fn take(bytes: &'a [u8], count: usize, bits: u8) -> Result<(Packed<'a>, &'a [u8])> {
        if !are_bits(bits) {
            return Err(Damaged { problem: "its numbers have more bits than they may have" });
        }
        let (bytes, rest) =
            bytes.split_at_checked(packed_bytes(count, bits)).ok_or(Damaged::TOO_SHORT)?;
        Ok((Packed { bytes, bits, count }, rest))
    }

    /// Number `index`; 0 beyond the last.
    pub(crate) fn get(&self, index: usize) -> u64 {
        if index >= self.count {
            return 0;
        }
        let bit = index * usize::from(self.bits);
        let word = self.bytes.get(bit / 8..).and_then(|bytes| bytes.first_chunk());
        u64::from_le_bytes(*word.unwrap_or(&[0; 8])) >> (bit % 8) & mask(self.bits)
    }

    /// Appends what `map` makes of each number.
    pub(crate) fn unpack<T: Copy + Default>(&self, out: &mut Vec<T>, map: impl Fn(u64) -> T) {
        macro_rules! widths {
            ($($bits:literal)*) => {
                match self.bits {
                    0 => out.resize(out.len() + self.count, map(0)),
                    $($bits => self.unpack_groups::<$bits, { $bits + PAD_BYTES }, T>(out, map),)*
                    _ => self.unpack_words(out, map),
                }
            };
        }
        widths! {
            1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20 21 22 23 24 25 26 27 28 29 30 31 32 33 34 35 36 37 38 39 40
            41 42 43 44 45 46 47 48 49 50 51 52 53 54 55 56 57
        }
    }

    /// The same for numbers of `BITS`, of which a group and the pad take `LOADED` bytes.
    fn unpack_groups<const BITS: usize, const LOADED: usize, T: Copy + Default>(
        &self,
        out: &mut Vec<T>,
        map: impl Fn(u64) -> T,
    ) {
        let first = out.len();
        out.resize(first + self.count, T::default());
        let (groups, rest) = out.get_mut(first..).unwrap_or_default().as_chunks_mut::<GROUP>();
        let mut bytes = self.bytes;
        for group in groups {
            let Some(loaded) = bytes.first_chunk::<LOADED>() else { return };
            *group = std::array::from_fn(|index| map(number_of::<BITS, LOADED>(loaded, index)));
            bytes = bytes.get(BITS..).unwrap_or_default();
        }
        if let Some(loaded) = bytes.first_chunk::<LOADED>() {
            for (index, number) in rest.iter_mut().enumerate() {
                *number = map(number_of::<BITS, LOADED>(loaded, index));
            }
        }
    }

    /// The same for numbers of 64 bits.
    fn unpack_words<T>(&self, out: &mut Vec<T>, map: impl Fn(u64) -> T) {
        let (words, _) = self.bytes.as_chunks::<8>();
        out.extend(words.iter().take(self.count).map(|word| map(u64::from_le_bytes(*word))));
    }
}

/// Number `index` of a group.
#[inline(always)]
fn number_of<const BITS: usize, const LOADED: usize>(loaded: &[u8; LOADED], index: usize) -> u64 {
    let bit = index * BITS;
    let word = loaded.get(bit / 8..bit / 8 + 8).and_then(|bytes| bytes.first_chunk());
    u64::from_le_bytes(*word.unwrap_or(&[0; 8])) >> (bit % 8) & mask(BITS as u8)
}

/// The lowest `bits` bits.
#[inline(always)]
fn mask(bits: u8) -> u64 {
    if bits >= 64 { u64::MAX } else { (1 << bits) - 1 }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_width_and_count_round_trips() {
        for bits in (0..=57).chain([64]) {
            for count in (0..20).chain([63, 64, 65, 1000]) {
                let number = |index: u64| index.wrapping_mul(0x9e37_79b9_7f4a_7c15) & mask(bits);
                let numbers: Vec<u64> = (0..count).map(number).collect();
                let mut bytes = vec![7];
                pack(&numbers, 0, bits, &mut bytes);
                bytes.push(9);
                let (packed, rest) = Packed::take(&bytes[1..], numbers.len(), bits).unwrap();
                assert_eq!(rest, [9], "{bits} bits, {count} numbers");
                let mut unpacked = Vec::new();
                packed.unpack(&mut unpacked, |number| number);
                assert_eq!(unpacked, numbers, "{bits} bits");
                let got: Vec<u64> = (0..numbers.len()).map(|index| packed.get(index)).collect();
                assert_eq!(got, numbers, "{bits} bits");
                assert_eq!(packed.get(numbers.len()), 0);
            }
        }
    }

    #[test]
    fn numbers_take_as_many_bits_as_the_greatest() {
        let bits = [0, 1, 2, 255, 256, (1 << 57) - 1, 1 << 57, u64::MAX].map(bits_of);
        assert_eq!(bits, [0, 1, 2, 8, 9, 57, 64, 64]);
        // Eight numbers of 3 bits are 3 bytes, and the pad.
        let mut bytes = Vec::new();
        pack(&[1, 2, 3, 4, 5, 6, 7, 0], 0, 3, &mut bytes);
        let word = (0..8).fold(0u32, |word, index| word | ((index + 1) % 8) << (3 * index));
        assert_eq!(bytes[..3], word.to_le_bytes()[..3]);
        assert_eq!(bytes.len(), 3 + PAD_BYTES);
    }

    #[test]
    fn what_ends_early_is_an_error() {
        let mut bytes = Vec::new();
        pack(&[1, 2, 3], 0, 5, &mut bytes);
        assert!(Packed::take(&bytes[..bytes.len() - 1], 3, 5).is_err());
        assert!(Packed::take(&bytes, 3, 58).is_err());
        assert!(Packed::take(&bytes, usize::MAX / 64, 57).is_err());
    }
}
