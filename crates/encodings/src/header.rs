//! The header of a minipage, and its bitmap of nulls.
//!
//! | offset | size | content |
//! |---|---|---|
//! | 0 | 1 | the encoding |
//! | 1 | 1 | 1 where a bitmap of nulls follows the header, else 0 |
//! | 2 | 1 | bits of each packed number |
//! | 3 | 1 | 0 |
//! | 4 | 4 | rows |
//! | 8 | 8 | the base: what packed numbers are added to, and where a sequence begins |
//! | 16 | ceil(rows / 8) | the bitmap, where there is one: bit i mod 8 of byte i / 8 is set when row i is not null |
//!
//! The content of each encoding follows: see `docs/formats/encodings.md`. All numbers are little-endian.

use crate::error::{Damaged, Result};

/// The version of the format; what a minipage lies in says it.
pub const ENCODINGS_VERSION: u32 = 1;

/// Rows of a minipage at most.
pub const ROWS_MAX: usize = 1 << 24;

/// Bytes of a header.
pub(crate) const HEADER_BYTES: usize = 16;

/// How the values of a minipage are stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Encoding {
    Sequence,
    Packed,
    Runs,
    Dictionary,
    Wide,
    Texts,
    CompressedTexts,
    TextDictionary,
}

impl Encoding {
    const ALL: [Encoding; 8] = [
        Encoding::Sequence,
        Encoding::Packed,
        Encoding::Runs,
        Encoding::Dictionary,
        Encoding::Wide,
        Encoding::Texts,
        Encoding::CompressedTexts,
        Encoding::TextDictionary,
    ];
}

/// Which rows of a minipage are not null.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Validity<'a> {
    bits: &'a [u8],
}

impl<'a> Validity<'a> {
    /// Bit i mod 8 of byte i / 8 is set when row i is not null, as in Arrow. Rows beyond the bytes are null.
    #[must_use]
    pub fn new(bits: &'a [u8]) -> Validity<'a> {
        Validity { bits }
    }

    /// The bits.
    #[must_use]
    pub fn bits(self) -> &'a [u8] {
        self.bits
    }

    /// Whether a row is not null.
    #[must_use]
    pub fn is_valid(self, row: usize) -> bool {
        self.bits.get(row / 8).is_some_and(|byte| byte >> (row % 8) & 1 == 1)
    }

    /// Whether one of the first `rows` rows is null.
    fn has_nulls(self, rows: usize) -> bool {
        let (whole, rest) = (rows / 8, rows % 8);
        let all = self.bits.get(..whole).is_some_and(|bytes| bytes.iter().all(|byte| *byte == 255));
        !all || (whole * 8..whole * 8 + rest).any(|row| !self.is_valid(row))
    }
}

/// See the module.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Header {
    pub(crate) encoding: Encoding,
    pub(crate) bits: u8,
    pub(crate) rows: usize,
    pub(crate) base: u64,
}

impl Header {
    /// Appends the header, and the bitmap where a row is null.
    pub(crate) fn put(&self, validity: Option<Validity<'_>>, out: &mut Vec<u8>) {
        let nulls = validity.filter(|validity| validity.has_nulls(self.rows));
        let number = Encoding::ALL.iter().position(|one| *one == self.encoding).unwrap_or(0);
        out.extend([number as u8, u8::from(nulls.is_some()), self.bits, 0]);
        out.extend((self.rows as u32).to_le_bytes());
        out.extend(self.base.to_le_bytes());
        if let Some(nulls) = nulls {
            let end = out.len() + self.rows.div_ceil(8);
            out.extend(nulls.bits.iter().take(self.rows.div_ceil(8)));
            out.resize(end, 0);
        }
    }
}

/// Takes the parts of a minipage off its front.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Taker<'a>(pub(crate) &'a [u8]);

impl<'a> Taker<'a> {
    pub(crate) fn bytes(&mut self, count: usize) -> Result<&'a [u8]> {
        let (bytes, rest) = self.0.split_at_checked(count).ok_or(Damaged::TOO_SHORT)?;
        self.0 = rest;
        Ok(bytes)
    }

    fn array<const N: usize>(&mut self) -> Result<[u8; N]> {
        let (bytes, rest) = self.0.split_first_chunk().ok_or(Damaged::TOO_SHORT)?;
        self.0 = rest;
        Ok(*bytes)
    }

    pub(crate) fn u32(&mut self) -> Result<usize> {
        self.array().map(|bytes| u32::from_le_bytes(bytes) as usize)
    }

    pub(crate) fn u64(&mut self) -> Result<u64> {
        self.array().map(u64::from_le_bytes)
    }

    /// A minipage in a minipage, which has its length before it.
    pub(crate) fn nested(&mut self) -> Result<&'a [u8]> {
        let count = self.u32()?;
        self.bytes(count)
    }

    pub(crate) fn header(&mut self) -> Result<(Header, Option<Validity<'a>>)> {
        let [number, has_nulls, bits, _] = self.array()?;
        let encoding = Encoding::ALL.get(usize::from(number)).copied();
        let encoding = encoding.ok_or(Damaged { problem: "its encoding is unknown" })?;
        let rows = self.u32()?;
        if rows > ROWS_MAX {
            return Err(Damaged { problem: "it has more rows than a minipage may have" });
        }
        let header = Header { encoding, bits, rows, base: self.u64()? };
        let validity = match has_nulls {
            0 => None,
            1 => Some(Validity { bits: self.bytes(rows.div_ceil(8))? }),
            _ => return Err(Damaged { problem: "its flags are unknown" }),
        };
        Ok((header, validity))
    }
}

/// How many rows the minipage at the front of `bytes` has.
///
/// # Errors
/// [`Damaged`] for what no encoder writes.
pub fn rows_of(bytes: &[u8]) -> Result<usize> {
    Taker(bytes).header().map(|(header, _)| header.rows)
}

/// Appends a minipage in a minipage, which `put` writes, with its length before it.
pub(crate) fn put_nested(out: &mut Vec<u8>, put: impl FnOnce(&mut Vec<u8>)) {
    let at = out.len();
    out.extend([0; 4]);
    put(out);
    let length = (out.len() - at - 4) as u32;
    if let Some(place) = out.get_mut(at..at + 4) {
        place.copy_from_slice(&length.to_le_bytes());
    }
}
