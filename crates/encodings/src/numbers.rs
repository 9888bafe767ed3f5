//! Minipages of numbers, on their way out.

use crate::error::{Damaged, Result};
use crate::header::{Encoding, Header, Taker, Validity};
use crate::packed::Packed;

/// What numbers are read as. Signed and unsigned numbers of a width have the same bytes, and so have floats and their bits.
pub trait Number: Copy + Default {
    /// A number from the lowest of its bits; wider ones get the sign of the 64 bits.
    fn of(bits: u64) -> Self;

    /// A number from 16 bytes; `None` where it has fewer.
    fn of_wide(bytes: [u8; 16]) -> Option<Self> {
        let _ = bytes;
        None
    }
}

macro_rules! numbers {
    ($($number:ty)*) => {
        $(impl Number for $number {
            #[inline(always)]
            fn of(bits: u64) -> $number {
                bits as $number
            }
        })*
    };
}

numbers! { u8 u16 u32 u64 }

impl Number for i128 {
    #[inline(always)]
    fn of(bits: u64) -> i128 {
        i128::from(bits as i64)
    }

    fn of_wide(bytes: [u8; 16]) -> Option<i128> {
        Some(i128::from_le_bytes(bytes))
    }
}

/// The numbers of a minipage.
#[derive(Clone, Debug)]
pub struct Numbers<'a> {
    rows: usize,
    validity: Option<Validity<'a>>,
    source: Source<'a>,
}

#[derive(Clone, Debug)]
enum Source<'a> {
    Sequence {
        base: u64,
        step: u64,
    },
    Packed {
        base: u64,
        packed: Packed<'a>,
    },
    /// Run i ends before row `ends[i]`.
    Runs {
        values: Vec<u64>,
        ends: Vec<u32>,
    },
    Dictionary {
        entries: Vec<u64>,
        codes: Packed<'a>,
    },
    Wide(&'a [[u8; 16]]),
}

impl<'a> Numbers<'a> {
    /// Reads the minipage at the front of `bytes`; what follows does not matter.
    ///
    /// # Errors
    /// [`Damaged`] for what no encoder writes.
    pub fn parse(bytes: &'a [u8]) -> Result<Numbers<'a>> {
        Numbers::take(&mut Taker(bytes))
    }

    fn take(taker: &mut Taker<'a>) -> Result<Numbers<'a>> {
        let (header, validity) = taker.header()?;
        let Header { encoding, bits, rows, base } = header;
        let source = match encoding {
            Encoding::Sequence => Source::Sequence { base, step: taker.u64()? },
            Encoding::Packed => {
                let (packed, _) = Packed::take(taker.0, rows, bits)?;
                Source::Packed { base, packed }
            }
            Encoding::Runs => {
                let values = Numbers::plain(taker.nested()?)?;
                let ends: Vec<u32> = Numbers::plain(taker.nested()?)?;
                let do_ascend = ends.is_sorted_by(|end, next| end < next);
                let is_all = ends.last().copied().unwrap_or(0) as usize == rows;
                if values.len() != ends.len() || !do_ascend || !is_all {
                    return Err(Damaged { problem: "its runs do not cover its rows" });
                }
                Source::Runs { values, ends }
            }
            Encoding::Dictionary => {
                let entries = Numbers::plain(taker.nested()?)?;
                let (codes, _) = Packed::take(taker.0, rows, bits)?;
                Source::Dictionary { entries, codes }
            }
            Encoding::Wide => {
                let (values, _) = taker.bytes(rows * 16)?.as_chunks();
                Source::Wide(values)
            }
            Encoding::Texts | Encoding::CompressedTexts | Encoding::TextDictionary => {
                return Err(Damaged { problem: "it holds texts where numbers are expected" });
            }
        };
        Ok(Numbers { rows, validity, source })
    }

    /// The numbers of a minipage in a minipage: a sequence, or packed.
    pub(crate) fn plain<T: Number>(bytes: &'a [u8]) -> Result<Vec<T>> {
        let mut taker = Taker(bytes);
        if !matches!(taker.header()?.0.encoding, Encoding::Sequence | Encoding::Packed) {
            return Err(Damaged { problem: "a part of it has an encoding of wholes" });
        }
        let numbers = Numbers::parse(bytes)?;
        // A sequence of many numbers takes few bytes, but each of these stands for bytes that are there, or for rows.
        let mut decoded = Vec::new();
        numbers.decode(&mut decoded)?;
        Ok(decoded)
    }

    /// How many there are, nulls included.
    #[must_use]
    pub fn rows(&self) -> usize {
        self.rows
    }

    /// Whether some of them may need more than 64 bits.
    #[must_use]
    pub fn is_wide(&self) -> bool {
        matches!(self.source, Source::Wide(_))
    }

    /// Which are not null; `None` where all are not.
    #[must_use]
    pub fn validity(&self) -> Option<Validity<'a>> {
        self.validity
    }

    /// Appends all of them; nulls have any value.
    ///
    /// # Errors
    /// [`Damaged`] for what no encoder writes, and for numbers that are wider than `T`.
    pub fn decode<T: Number>(&self, out: &mut Vec<T>) -> Result<()> {
        match &self.source {
            Source::Sequence { base, step } => {
                let number = |row| T::of(base.wrapping_add(step.wrapping_mul(row)));
                out.extend((0..self.rows as u64).map(number));
            }
            Source::Packed { base, packed } => {
                let base = *base;
                packed.unpack(out, |delta| T::of(base.wrapping_add(delta)));
            }
            Source::Runs { values, ends } => {
                let first = out.len();
                for (value, end) in values.iter().zip(ends) {
                    out.resize(first + *end as usize, T::of(*value));
                }
            }
            Source::Dictionary { entries, codes } => {
                let entries: Vec<T> = entries.iter().map(|entry| T::of(*entry)).collect();
                let is_unknown = std::cell::Cell::new(false);
                codes.unpack(out, |code| {
                    entries.get(code as usize).copied().unwrap_or_else(|| {
                        is_unknown.set(true);
                        T::default()
                    })
                });
                if is_unknown.get() {
                    return Err(Damaged::UNKNOWN_CODE);
                }
            }
            Source::Wide(values) => {
                for bytes in *values {
                    out.push(T::of_wide(*bytes).ok_or(TOO_WIDE)?);
                }
            }
        }
        Ok(())
    }

    /// The number of one row; `None` behind the last.
    ///
    /// # Errors
    /// As of [`Numbers::decode`].
    pub fn get<T: Number>(&self, row: usize) -> Result<Option<T>> {
        if row >= self.rows {
            return Ok(None);
        }
        let bits = match &self.source {
            Source::Sequence { base, step } => base.wrapping_add(step.wrapping_mul(row as u64)),
            Source::Packed { base, packed } => base.wrapping_add(packed.get(row)),
            Source::Runs { values, ends } => {
                let run = ends.partition_point(|end| *end as usize <= row);
                values.get(run).copied().unwrap_or_default()
            }
            Source::Dictionary { entries, codes } => {
                *entries.get(codes.get(row) as usize).ok_or(Damaged::UNKNOWN_CODE)?
            }
            Source::Wide(values) => {
                let bytes = values.get(row).copied().unwrap_or_default();
                return T::of_wide(bytes).ok_or(TOO_WIDE).map(Some);
            }
        };
        Ok(Some(T::of(bits)))
    }
}

const TOO_WIDE: Damaged = Damaged { problem: "its numbers are wider than the attribute's" };
