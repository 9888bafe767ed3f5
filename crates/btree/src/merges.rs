//! Merges that many programs want.

use moirai_update::{Kind, Value};

/// Adds: value and operand are 64-bit numbers, little-endian; no value is zero, and so is what has
/// less than 8 bytes; of more the first 8 count. Sums go round at the end.
#[derive(Clone, Copy, Debug, Default)]
pub struct AddU64;

fn number(bytes: &[u8]) -> u64 {
    bytes.first_chunk().map_or(0, |first| u64::from_le_bytes(*first))
}

impl Kind for AddU64 {
    fn apply(&self, value: &mut Value, modification: &[u8]) {
        let sum = number(value.get().unwrap_or_default()).wrapping_add(number(modification));
        value.set(Some(&sum.to_le_bytes()));
    }

    fn combine(&self, older: &[u8], newer: &[u8], both: &mut Vec<u8>) -> bool {
        both.extend_from_slice(&number(older).wrapping_add(number(newer)).to_le_bytes());
        true
    }
}

/// Adds: value and operand are numbers as text, like `-12`; no value, and what is no number, is zero. Sums of
/// more than 128 bits go round.
#[derive(Clone, Copy, Debug, Default)]
pub struct AddDecimal;

fn decimal(bytes: &[u8]) -> i128 {
    let text = std::str::from_utf8(bytes).unwrap_or_default();
    text.trim().parse().unwrap_or(0)
}

impl Kind for AddDecimal {
    fn apply(&self, value: &mut Value, modification: &[u8]) {
        let sum = decimal(value.get().unwrap_or_default()).wrapping_add(decimal(modification));
        value.set(Some(sum.to_string().as_bytes()));
    }

    fn combine(&self, older: &[u8], newer: &[u8], both: &mut Vec<u8>) -> bool {
        let sum = decimal(older).wrapping_add(decimal(newer));
        both.extend_from_slice(sum.to_string().as_bytes());
        true
    }
}
