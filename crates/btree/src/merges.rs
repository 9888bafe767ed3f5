//! Merges that many programs want.

use moirai_update::{Kind, Value};

/// Adds: value and operand are 64-bit numbers, little-endian; no value is zero. Sums go round at the end.
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
