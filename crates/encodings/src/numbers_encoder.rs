//! Minipages of numbers, on their way in: which encoding needs the fewest bytes.

use hashbrown::HashMap;

use crate::header::{Encoding, HEADER_BYTES, Header, ROWS_MAX, Validity, put_nested};
use crate::packed::{bits_of, pack, packed_bytes};

/// How the numbers of an attribute lie in memory. Floats are unsigned numbers here: their bits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NumberType {
    /// Bytes of each: 1, 2, 4, 8 or 16. Those of 16 are signed.
    pub width_bytes: usize,
    /// Whether the highest bit is a sign.
    pub is_signed: bool,
}

/// Bytes that a minipage in a minipage takes beside its numbers.
const NESTED_BYTES: usize = 4 + HEADER_BYTES;
/// A value takes as many bits at least before a dictionary is tried.
const DICTIONARY_BITS_MIN: u8 = 6;
/// Distinct values that are looked up before a dictionary is given up, and the rows for each further one.
const FIRST_ENTRIES: usize = 64;
const ROWS_OF_ENTRY: usize = 4;

/// See [`Encoder::numbers`](crate::Encoder::numbers).
#[derive(Default)]
pub(crate) struct NumbersEncoder {
    numbers: Vec<u64>,
    dictionary: HashMap<u64, u32>,
    entries: Vec<u64>,
    codes: Vec<u64>,
}

/// What one pass over numbers tells.
#[derive(Clone, Copy, Debug)]
struct Looked {
    /// The least one.
    base: u64,
    /// Bits of the greatest distance to it.
    bits: u8,
    /// Runs of equal numbers.
    runs: usize,
    /// The distance between neighbours, where all have the same.
    step: Option<u64>,
}

impl Looked {
    fn at(numbers: &[u64], is_signed: bool) -> Looked {
        // With the sign bit turned, signed numbers have the order of unsigned ones.
        let sign = u64::from(is_signed) << 63;
        let (mut least, mut greatest) = (u64::MAX, 0);
        for number in numbers {
            least = least.min(number ^ sign);
            greatest = greatest.max(number ^ sign);
        }
        let (mut runs, mut is_sequence) = (usize::from(!numbers.is_empty()), true);
        let first_step = match numbers {
            [first, second, ..] => second.wrapping_sub(*first),
            _ => 0,
        };
        for pair in numbers.windows(2) {
            let [one, next] = pair else { continue };
            runs += usize::from(one != next);
            is_sequence &= next.wrapping_sub(*one) == first_step;
        }
        let base = if numbers.is_empty() { 0 } else { least ^ sign };
        let bits = bits_of(greatest.saturating_sub(least));
        Looked { base, bits, runs, step: is_sequence.then_some(first_step) }
    }
}

impl NumbersEncoder {
    pub(crate) fn encode(
        &mut self,
        values: &[u8],
        of: NumberType,
        validity: Option<Validity<'_>>,
        out: &mut Vec<u8>,
    ) {
        let rows = values.len() / of.width_bytes.max(1);
        assert!(
            rows * of.width_bytes == values.len(),
            "the values are {} bytes each",
            of.width_bytes
        );
        assert!(rows <= ROWS_MAX, "a minipage has up to {ROWS_MAX} rows");
        let mut numbers = std::mem::take(&mut self.numbers);
        numbers.clear();
        if load(values, of, validity, &mut numbers) {
            self.encode_loaded(&numbers, of.is_signed, validity, out);
        } else {
            Header { encoding: Encoding::Wide, bits: 0, rows, base: 0 }.put(validity, out);
            out.extend(values);
        }
        self.numbers = numbers;
    }

    pub(crate) fn encode_loaded(
        &mut self,
        numbers: &[u64],
        is_signed: bool,
        validity: Option<Validity<'_>>,
        out: &mut Vec<u8>,
    ) {
        let looked = Looked::at(numbers, is_signed);
        let Looked { base, bits, runs, step } = looked;
        let rows = numbers.len();
        if step.is_some() {
            return put_plain(numbers, looked, validity, out);
        }
        let packed = packed_bytes(rows, bits);
        let ends_bits = bits_of(rows as u64);
        let of_runs = 2 * NESTED_BYTES + packed_bytes(runs, bits) + packed_bytes(runs, ends_bits);
        let of_codes = self.look_up(numbers, bits).map(|entry_bits| {
            let entries = NESTED_BYTES + packed_bytes(self.entries.len(), bits);
            entries + packed_bytes(rows, entry_bits)
        });
        let encodings = [(Encoding::Runs, Some(of_runs)), (Encoding::Dictionary, of_codes)];
        let (mut best, mut best_bytes) = (Encoding::Packed, packed);
        for (encoding, bytes) in encodings {
            // Packed numbers are read fastest.
            if let Some(bytes) = bytes.filter(|bytes| bytes + bytes / 8 < best_bytes) {
                (best, best_bytes) = (encoding, bytes);
            }
        }
        match best {
            Encoding::Runs => {
                Header { encoding: best, bits: 0, rows, base: 0 }.put(validity, out);
                let is_last = |row: &usize| numbers.get(*row) != numbers.get(row + 1);
                self.entries.clear();
                self.codes.clear();
                for row in (0..rows).filter(is_last) {
                    self.entries.extend(numbers.get(row));
                    self.codes.push(row as u64 + 1);
                }
                put_nested(out, |out| put_numbers(&self.entries, is_signed, out));
                put_nested(out, |out| put_numbers(&self.codes, false, out));
            }
            Encoding::Dictionary => {
                let bits = bits_of(self.entries.len() as u64 - 1);
                Header { encoding: best, bits, rows, base: 0 }.put(validity, out);
                put_nested(out, |out| put_numbers(&self.entries, is_signed, out));
                pack(&self.codes, 0, bits, out);
            }
            _ => {
                Header { encoding: best, bits, rows, base }.put(validity, out);
                pack(numbers, base, bits, out);
            }
        }
    }

    /// Looks up the code of each number among the distinct ones; gives the bits of a code, or `None` where many are distinct.
    fn look_up(&mut self, numbers: &[u64], bits: u8) -> Option<u8> {
        if bits < DICTIONARY_BITS_MIN {
            return None;
        }
        self.dictionary.clear();
        self.entries.clear();
        self.codes.clear();
        for (row, number) in numbers.iter().enumerate() {
            let next = self.entries.len();
            let code = *self.dictionary.entry(*number).or_insert(next as u32);
            if code as usize == next {
                if next >= FIRST_ENTRIES + row / ROWS_OF_ENTRY {
                    return None;
                }
                self.entries.push(*number);
            }
            self.codes.push(u64::from(code));
        }
        Some(bits_of((self.entries.len() as u64).saturating_sub(1)))
    }
}

/// Appends a minipage of a sequence or of packed numbers, without nulls: what parts of other minipages are.
pub(crate) fn put_numbers(numbers: &[u64], is_signed: bool, out: &mut Vec<u8>) {
    put_plain(numbers, Looked::at(numbers, is_signed), None, out);
}

fn put_plain(numbers: &[u64], looked: Looked, validity: Option<Validity<'_>>, out: &mut Vec<u8>) {
    let Looked { base, bits, step, .. } = looked;
    let rows = numbers.len();
    match step {
        Some(step) => {
            let base = numbers.first().copied().unwrap_or(0);
            Header { encoding: Encoding::Sequence, bits: 0, rows, base }.put(validity, out);
            out.extend(step.to_le_bytes());
        }
        None => {
            Header { encoding: Encoding::Packed, bits, rows, base }.put(validity, out);
            pack(numbers, base, bits, out);
        }
    }
}

/// Appends numbers as 64 bits, a null as the number before it; `false` where one needs more.
fn load(
    values: &[u8],
    of: NumberType,
    validity: Option<Validity<'_>>,
    numbers: &mut Vec<u64>,
) -> bool {
    macro_rules! load {
        ($width:literal, $signed:ty, $unsigned:ty) => {{
            let (values, _) = values.as_chunks::<$width>();
            match of.is_signed {
                true => numbers.extend(
                    values.iter().map(|bytes| i64::from(<$signed>::from_le_bytes(*bytes)) as u64),
                ),
                false => numbers.extend(
                    values.iter().map(|bytes| u64::from(<$unsigned>::from_le_bytes(*bytes))),
                ),
            }
        }};
    }
    match of.width_bytes {
        1 => load!(1, i8, u8),
        2 => load!(2, i16, u16),
        4 => load!(4, i32, u32),
        8 => load!(8, i64, u64),
        _ => {
            let (values, _) = values.as_chunks::<16>();
            for (row, bytes) in values.iter().enumerate() {
                let is_null = validity.is_some_and(|validity| !validity.is_valid(row));
                match i64::try_from(i128::from_le_bytes(*bytes)) {
                    Ok(number) => numbers.push(number as u64),
                    Err(_) if is_null => numbers.push(0),
                    Err(_) => return false,
                }
            }
        }
    }
    if let Some(validity) = validity {
        let is_valid = |row: &usize| validity.is_valid(*row);
        let first = (0..numbers.len()).find(is_valid).and_then(|row| numbers.get(row).copied());
        let mut before = first.unwrap_or(0);
        for (row, number) in numbers.iter_mut().enumerate() {
            if validity.is_valid(row) {
                before = *number;
            } else {
                *number = before;
            }
        }
    }
    true
}
