//! Encodings of minipages: the values of one attribute in a run of rows, as few bytes as their values allow.
//!
//! A row group is always written whole, so that the encodings of its minipages can follow its values. [`Encoder`] looks at
//! the values and takes the encoding that needs the fewest bytes. Readers need no other minipage: each says its own encoding.
//!
//! | encoding | for | one value |
//! |---|---|---|
//! | sequence | row numbers, constants | computed |
//! | packed | numbers | its distance to the least one, in as few bits as the greatest needs |
//! | runs | numbers that repeat in neighbouring rows | found by a binary search |
//! | dictionary | numbers and texts of which few differ | a packed code |
//! | wide | numbers of more than 64 bits | as it is |
//! | texts | texts and bytes | found by the lengths before it; zstd compresses the bytes where that saves an eighth |
//!
//! Format: `docs/formats/encodings.md`. Everything here is a function of bytes: no I/O, no clock, no state between calls.

mod error;
mod header;
mod numbers;
mod numbers_encoder;
mod packed;
mod texts;
mod texts_encoder;

pub use error::{Damaged, Result};
pub use header::{ENCODINGS_VERSION, ROWS_MAX, Validity, rows_of};
pub use numbers::{Number, Numbers};
pub use numbers_encoder::NumberType;
pub use texts::{TEXT_BYTES_MAX, Texts};

/// Encodes minipages. It keeps the memory that it worked in for the next one.
#[derive(Default)]
pub struct Encoder {
    numbers: numbers_encoder::NumbersEncoder,
    texts: texts_encoder::TextsEncoder,
}

impl Encoder {
    /// An encoder that has no memory yet.
    #[must_use]
    pub fn new() -> Encoder {
        Encoder::default()
    }

    /// Appends the minipage of `values` to `out`: numbers of [`NumberType::width_bytes`] each, little-endian. The values of
    /// nulls have no meaning.
    ///
    /// # Panics
    /// With more than [`ROWS_MAX`] values, or where the bytes of `values` are no whole number of them.
    pub fn numbers(
        &mut self,
        values: &[u8],
        of: NumberType,
        validity: Option<Validity<'_>>,
        out: &mut Vec<u8>,
    ) {
        self.numbers.encode(values, of, validity, out);
    }

    /// The same of numbers that are 64 bits wide in memory, whatever bytes the attribute has: signed ones with their sign. The
    /// numbers of nulls are stored, and cost least where they are those of the row before.
    ///
    /// # Panics
    /// With more than [`ROWS_MAX`] numbers.
    pub fn numbers64(
        &mut self,
        numbers: &[u64],
        is_signed: bool,
        validity: Option<Validity<'_>>,
        out: &mut Vec<u8>,
    ) {
        assert!(numbers.len() <= ROWS_MAX, "a minipage has up to {ROWS_MAX} rows");
        self.numbers.encode_loaded(numbers, is_signed, validity, out);
    }

    /// Appends the minipage of texts to `out`: text i ends at `ends[i]` of `bytes`, where the next one begins. Nulls are best
    /// empty.
    ///
    /// # Panics
    /// With more than [`ROWS_MAX`] texts or [`TEXT_BYTES_MAX`] bytes, or where `ends` do not ascend to the end of `bytes`.
    pub fn texts(
        &mut self,
        ends: &[u32],
        bytes: &[u8],
        validity: Option<Validity<'_>>,
        out: &mut Vec<u8>,
    ) {
        self.texts.encode(ends, bytes, validity, out);
    }
}

impl std::fmt::Debug for Encoder {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Encoder").finish_non_exhaustive()
    }
}
