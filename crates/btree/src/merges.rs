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

/// Adds: value and operand are decimal numbers as text, like `-12`; no value is zero. A value that is not a number
/// stays as it is. Sums of more than 128 bits wrap around: whether a sum is one depends on what is added first, and that is
/// up to sweeps. See [`AddDecimal::sum`].
#[derive(Clone, Copy, Debug, Default)]
pub struct AddDecimal;

fn parsed(bytes: &[u8]) -> Option<i128> {
    std::str::from_utf8(bytes).ok()?.trim().parse().ok()
}

fn decimal(bytes: &[u8]) -> i128 {
    parsed(bytes).unwrap_or(0)
}

impl AddDecimal {
    /// Whether a value can be added to.
    #[must_use]
    pub fn is_number(value: &[u8]) -> bool {
        parsed(value).is_some()
    }

    /// The sum of two numbers, for a program that reads before it merges; `None` where it has more than 128 bits.
    #[must_use]
    pub fn sum(value: &[u8], operand: &[u8]) -> Option<Vec<u8>> {
        Some(decimal(value).checked_add(decimal(operand))?.to_string().into_bytes())
    }
}

impl Kind for AddDecimal {
    fn fits(&self, value: &Value, _: &[u8]) -> bool {
        value.get().is_none_or(AddDecimal::is_number)
    }

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
