//! Minipages of texts and bytes, on their way out.

use std::borrow::Cow;
use std::cell::RefCell;
use std::ops::Range;

use zstd::bulk::Decompressor;

use crate::error::{Damaged, Result};
use crate::header::{Encoding, Header, Taker, Validity};
use crate::numbers::Numbers;
use crate::packed::Packed;

/// Bytes of the texts of a minipage at most.
pub const TEXT_BYTES_MAX: usize = 1 << 26;

/// The texts of a minipage.
#[derive(Clone, Debug)]
pub struct Texts<'a> {
    rows: usize,
    validity: Option<Validity<'a>>,
    bytes: Cow<'a, [u8]>,
    /// Where the text of each row ends, or that of each entry of the dictionary.
    ends: Vec<u32>,
    codes: Option<Packed<'a>>,
}

impl<'a> Texts<'a> {
    /// Reads the minipage at the front of `bytes`; what follows does not matter.
    ///
    /// # Errors
    /// [`Damaged`] for what no encoder writes.
    pub fn parse(bytes: &'a [u8]) -> Result<Texts<'a>> {
        let mut taker = Taker(bytes);
        let (header, validity) = taker.header()?;
        let Header { encoding, bits, rows, .. } = header;
        let texts = match encoding {
            Encoding::TextDictionary => {
                let entries = taker.nested()?;
                // First: damaged bytes could nest deeply.
                if Taker(entries).header()?.0.encoding == Encoding::TextDictionary {
                    return Err(Damaged { problem: "its dictionary has a dictionary" });
                }
                let entries = Texts::parse(entries)?;
                let (codes, _) = Packed::take(taker.0, rows, bits)?;
                Texts { rows, validity, codes: Some(codes), ..entries }
            }
            Encoding::Texts | Encoding::CompressedTexts => {
                let ends = ends_of(Numbers::plain(taker.nested()?)?, rows)?;
                let length = ends.last().copied().unwrap_or(0) as usize;
                let bytes = if encoding == Encoding::Texts {
                    Cow::Borrowed(taker.bytes(length)?)
                } else {
                    Cow::Owned(decompressed(taker.nested()?, length)?)
                };
                Texts { rows, validity, bytes, ends, codes: None }
            }
            _ => return Err(Damaged { problem: "it holds numbers where texts are expected" }),
        };
        Ok(texts)
    }

    /// How many there are, nulls included.
    #[must_use]
    pub fn rows(&self) -> usize {
        self.rows
    }

    /// Which are not null; `None` where none is.
    #[must_use]
    pub fn validity(&self) -> Option<Validity<'a>> {
        self.validity
    }

    /// The bytes that texts are ranges of: those of all rows, or of all entries of the dictionary.
    #[must_use]
    pub fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// Where in [`Texts::bytes`] the text of a row lies; `None` behind the last.
    ///
    /// # Errors
    /// [`Damaged`] for what no encoder writes.
    pub fn range(&self, row: usize) -> Result<Option<Range<usize>>> {
        if row >= self.rows {
            return Ok(None);
        }
        let entry = self.codes.map_or(row, |codes| codes.get(row) as usize);
        let end = *self.ends.get(entry).ok_or(Damaged::UNKNOWN_CODE)? as usize;
        let start = entry.checked_sub(1).and_then(|before| self.ends.get(before));
        Ok(Some(start.map_or(0, |start| *start as usize)..end))
    }

    /// The text of a row; `None` behind the last. That of a null is empty, or any.
    ///
    /// # Errors
    /// [`Damaged`] for what no encoder writes.
    pub fn get(&self, row: usize) -> Result<Option<&[u8]>> {
        Ok(self.range(row)?.and_then(|range| self.bytes.get(range)))
    }

    /// Appends the range of each row.
    ///
    /// # Errors
    /// [`Damaged`] for what no encoder writes.
    pub fn ranges(&self, out: &mut Vec<Range<u32>>) -> Result<()> {
        let mut ends = Vec::with_capacity(self.rows);
        self.map(|range| (range.start, range.end), &mut ends)?;
        out.extend(ends.into_iter().map(|(start, end)| start..end));
        Ok(())
    }

    /// Appends what `of` gives for the range of each row. It is asked once for each entry of a dictionary, and for each row where
    /// there is none.
    ///
    /// # Errors
    /// [`Damaged`] for what no encoder writes.
    pub fn map<T: Copy + Default>(
        &self,
        mut of: impl FnMut(Range<u32>) -> T,
        out: &mut Vec<T>,
    ) -> Result<()> {
        let starts = std::iter::once(0).chain(self.ends.iter().copied());
        let entries = starts.zip(&self.ends).map(|(start, end)| of(start..*end));
        let Some(codes) = self.codes else {
            out.extend(entries);
            return Ok(());
        };
        let entries: Vec<T> = entries.collect();
        let is_unknown = std::cell::Cell::new(false);
        codes.unpack(out, |code| {
            entries.get(code as usize).copied().unwrap_or_else(|| {
                is_unknown.set(true);
                T::default()
            })
        });
        if is_unknown.get() { Err(Damaged::UNKNOWN_CODE) } else { Ok(()) }
    }
}

/// Where texts of these lengths end.
fn ends_of(mut lengths: Vec<u32>, rows: usize) -> Result<Vec<u32>> {
    if lengths.len() != rows {
        return Err(Damaged { problem: "it has more or fewer lengths than rows" });
    }
    let mut end = 0u32;
    for length in &mut lengths {
        end = end.saturating_add(*length);
        *length = end;
    }
    match end as usize > TEXT_BYTES_MAX {
        true => Err(Damaged { problem: "its texts are longer than they may be" }),
        false => Ok(lengths),
    }
}

/// The `length` bytes that zstd made `bytes` of.
fn decompressed(bytes: &[u8], length: usize) -> Result<Vec<u8>> {
    thread_local! {
        /// Making one takes as long as decompressing a page.
        static DECOMPRESSOR: RefCell<Option<Decompressor<'static>>> = const { RefCell::new(None) };
    }
    let mut out = vec![0; length];
    let count = DECOMPRESSOR.with_borrow_mut(|kept| {
        let decompressor = match kept {
            Some(decompressor) => decompressor,
            None => kept.insert(Decompressor::new()?),
        };
        decompressor.decompress_to_buffer(bytes, &mut out)
    });
    match count {
        Ok(count) if count == length => Ok(out),
        _ => Err(Damaged { problem: "its compressed texts are none" }),
    }
}
