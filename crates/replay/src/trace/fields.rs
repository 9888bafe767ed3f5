//! The columns of a line, and the numbers in them.

use std::fmt;
use std::ops::RangeInclusive;

use moirai_units::{BLOCK_BYTES, BlockCount, BlockRange, Lbn, Nanos};

use super::Flaw;

/// Blocks lie below this one: as many as have a byte count of 64 bits.
pub(super) const LBN_END: u64 = u64::MAX / BLOCK_BYTES;
const BYTES_MAX: u64 = LBN_END * BLOCK_BYTES;

/// The latest time: half of what 64 bits hold, so that a replay may add to it. 292 years.
pub(crate) const TIME_NS_MAX: u64 = u64::MAX / 2;

/// How much of a bad value an error shows.
const SHOWN_BYTES: usize = 40;

/// The unit of a column of times.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum TimeUnit {
    Seconds,
    Milliseconds,
    Microseconds,
}

impl TimeUnit {
    /// Decimal places from this unit to nanoseconds.
    fn places(self) -> usize {
        match self {
            TimeUnit::Seconds => 9,
            TimeUnit::Milliseconds => 6,
            TimeUnit::Microseconds => 3,
        }
    }

    /// A time as a column of this unit has it.
    pub(super) fn shown(self, ns: u64) -> String {
        let places = self.places();
        let one = 10u64.pow(places as u32);
        let decimals = format!("{}.{:0places$}", ns / one, ns % one);
        format!("{} {self}", decimals.trim_end_matches('0').trim_end_matches('.'))
    }
}

impl fmt::Display for TimeUnit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            TimeUnit::Seconds => "s",
            TimeUnit::Milliseconds => "ms",
            TimeUnit::Microseconds => "us",
        })
    }
}

#[derive(Clone, Copy, Debug)]
enum Separator {
    Blanks,
    Comma,
}

/// What is left of a line.
#[derive(Clone, Copy, Debug)]
pub(super) struct Fields<'a> {
    /// `None` after the last column.
    rest: Option<&'a [u8]>,
    parted_by: Separator,
}

impl<'a> Fields<'a> {
    /// Columns parted by blanks.
    pub(super) fn by_blanks(line: &'a [u8]) -> Self {
        Fields { rest: Some(line), parted_by: Separator::Blanks }
    }

    /// Columns parted by commas, with blanks around them or without.
    pub(super) fn by_commas(line: &'a [u8]) -> Self {
        Fields { rest: Some(line), parted_by: Separator::Comma }
    }

    /// The next column, whatever it is.
    #[inline]
    pub(super) fn word(&mut self) -> Option<&'a [u8]> {
        match self.parted_by {
            Separator::Comma => {
                let mut parts = self.rest?.splitn(2, |byte| *byte == b',');
                let word = parts.next();
                self.rest = parts.next();
                word.map(<[u8]>::trim_ascii)
            }
            Separator::Blanks => {
                let rest = self.rest?.trim_ascii_start();
                let end = rest.iter().position(u8::is_ascii_whitespace).unwrap_or(rest.len());
                let (word, rest) = rest.split_at(end);
                self.rest = Some(rest);
                (!word.is_empty()).then_some(word)
            }
        }
    }

    /// The next column, as `read` understands it; `expected` says what `read` does.
    #[inline]
    pub(super) fn parse<T, E: fmt::Display>(
        &mut self,
        column: &'static str,
        read: impl FnOnce(&'a [u8]) -> Option<T>,
        expected: impl FnOnce() -> E,
    ) -> Result<T, Flaw> {
        let word = self.word();
        word.and_then(read).ok_or_else(|| flaw(column, word, &expected()))
    }

    /// The next column as text.
    pub(super) fn text(
        &mut self,
        column: &'static str,
        expected: &'static str,
    ) -> Result<&'a [u8], Flaw> {
        self.parse(column, |word| (!word.is_empty()).then_some(word), || expected)
    }

    /// The next column as a whole number in `range`.
    #[inline]
    pub(super) fn number(
        &mut self,
        column: &'static str,
        range: RangeInclusive<u64>,
    ) -> Result<u64, Flaw> {
        self.parse(
            column,
            |word| whole(word).filter(|number| range.contains(number)),
            || format!("a whole number from {} to {}", range.start(), range.end()),
        )
    }

    /// The next column as the number of a device.
    #[inline]
    pub(super) fn device(&mut self, column: &'static str) -> Result<u32, Flaw> {
        self.number(column, 0..=u64::from(u32::MAX)).map(|number| number as u32)
    }

    /// The next column as a time: a decimal number of `unit`.
    #[inline]
    pub(super) fn time(&mut self, column: &'static str, unit: TimeUnit) -> Result<Nanos, Flaw> {
        self.parse(
            column,
            |word| decimal(word, unit.places()).filter(|ns| *ns <= TIME_NS_MAX).map(Nanos),
            || format!("a time in {unit} such as 12.5, below 292 years"),
        )
    }

    /// The next two columns as blocks: address and count, both in blocks.
    #[inline]
    pub(super) fn blocks(
        &mut self,
        first: &'static str,
        count: &'static str,
    ) -> Result<BlockRange, Flaw> {
        let lbn = self.number(first, 0..=LBN_END - 1)?;
        let count = self.number(count, 1..=LBN_END - lbn)?;
        Ok(BlockRange::new(Lbn(lbn), BlockCount(count)))
    }

    /// The next two columns as blocks: the address in blocks, the size in bytes, rounded up.
    pub(super) fn blocks_holding(
        &mut self,
        first: &'static str,
        size: &'static str,
    ) -> Result<BlockRange, Flaw> {
        let lbn = self.number(first, 0..=LBN_END - 1)?;
        let bytes = self.number(size, 1..=(LBN_END - lbn) * BLOCK_BYTES)?;
        Ok(BlockRange::new(Lbn(lbn), BlockCount(bytes.div_ceil(BLOCK_BYTES))))
    }

    /// The next two columns as the blocks that bytes touch: offset and size in bytes.
    pub(super) fn blocks_touched(
        &mut self,
        offset: &'static str,
        size: &'static str,
    ) -> Result<BlockRange, Flaw> {
        let first = self.number(offset, 0..=BYTES_MAX - 1)?;
        let bytes = self.number(size, 1..=BYTES_MAX - first)?;
        let end = Lbn((first + bytes).div_ceil(BLOCK_BYTES));
        Ok(BlockRange::between(Lbn(first / BLOCK_BYTES), end))
    }

    /// The next two columns as whole blocks: offset and length in bytes.
    pub(super) fn blocks_whole(
        &mut self,
        offset: &'static str,
        length: &'static str,
    ) -> Result<BlockRange, Flaw> {
        let mut blocks = |column, range: RangeInclusive<u64>| {
            self.parse(
                column,
                |word| {
                    let bytes = whole(word).filter(|bytes| bytes.is_multiple_of(BLOCK_BYTES))?;
                    Some(bytes / BLOCK_BYTES).filter(|blocks| range.contains(blocks))
                },
                || {
                    let (low, high) = (range.start() * BLOCK_BYTES, range.end() * BLOCK_BYTES);
                    format!("a multiple of {BLOCK_BYTES} from {low} to {high}")
                },
            )
        };
        let first = blocks(offset, 0..=LBN_END - 1)?;
        let count = blocks(length, 1..=LBN_END - first)?;
        Ok(BlockRange::new(Lbn(first), BlockCount(count)))
    }

    /// Nothing must be left.
    #[inline]
    pub(super) fn end(mut self) -> Result<(), Flaw> {
        match self.word() {
            None => Ok(()),
            Some(word) => Err(Flaw::Extra { found: shown(word) }),
        }
    }
}

/// That `word` in `column` is not what is expected, or that it is not there.
#[cold]
pub(super) fn flaw(column: &'static str, word: Option<&[u8]>, expected: &dyn fmt::Display) -> Flaw {
    let expected = expected.to_string();
    match word {
        Some(word) => Flaw::Value { column, found: shown(word), expected },
        None => Flaw::Missing { column, expected },
    }
}

fn shown(word: &[u8]) -> String {
    let begin = word.get(..SHOWN_BYTES).unwrap_or(word);
    format!("{}{}", begin.escape_ascii(), if begin.len() < word.len() { "..." } else { "" })
}

/// A whole number: digits and nothing else, of at most 64 bits.
#[inline]
fn whole(digits: &[u8]) -> Option<u64> {
    if digits.is_empty() {
        return None;
    }
    digits.iter().try_fold(0u64, |number, byte| {
        let digit = byte.wrapping_sub(b'0');
        if digit > 9 {
            return None;
        }
        number.checked_mul(10)?.checked_add(u64::from(digit))
    })
}

/// A decimal number times 10 to the power of `places`, rounded to the nearest whole one.
#[inline]
fn decimal(text: &[u8], places: usize) -> Option<u64> {
    let mut parts = text.splitn(2, |byte| *byte == b'.');
    let mut number = whole(parts.next()?)?;
    let mut fraction = match parts.next() {
        None => [].iter(),
        Some([]) => return None,
        Some(fraction) => fraction.iter(),
    };
    for _ in 0..places {
        let digit = fraction.next().map_or(0, |byte| byte.wrapping_sub(b'0'));
        if digit > 9 {
            return None;
        }
        number = number.checked_mul(10)?.checked_add(u64::from(digit))?;
    }
    if !fraction.as_slice().iter().all(u8::is_ascii_digit) {
        return None;
    }
    let rounds_up = fraction.next().is_some_and(|digit| *digit >= b'5');
    number.checked_add(u64::from(rounds_up))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn decimals_are_exact() {
        let check = |text: &str, places: usize, expected: Option<u64>| {
            assert_eq!(decimal(text.as_bytes(), places), expected, "{text}");
        };
        check("13.191135", 6, Some(13_191_135));
        check("7", 6, Some(7_000_000));
        check("0.1", 9, Some(100_000_000));
        check("4757.708232", 3, Some(4_757_708));
        check("4757.7085", 3, Some(4_757_709));
        check("0.9999", 3, Some(1000));
        check("18446744073709551615", 0, Some(u64::MAX));
        check("18446744073709551615.5", 0, None);
        check("18446744073709551616", 0, None);
        check("18446744073709551615", 3, None);
        for text in ["", ".", ".5", "5.", "-1", "+1", "1e3", "1.2.3", "1.2x", "1,5", "nan"] {
            check(text, 3, None);
        }
        check("1.2345x", 3, None);
    }

    proptest! {
        /// What is printed with all its places is read back.
        #[test]
        fn decimals_read_what_is_printed(ns in 0..TIME_NS_MAX) {
            let text = format!("{}.{:06}", ns / 1_000_000, ns % 1_000_000);
            prop_assert_eq!(decimal(text.as_bytes(), 6), Some(ns));
        }
    }

    #[test]
    fn long_and_binary_words_are_shown_short() {
        assert_eq!(shown(b"\xff\0a"), "\\xff\\x00a");
        assert_eq!(shown(&[b'x'; 41]), format!("{}...", "x".repeat(40)));
    }
}
