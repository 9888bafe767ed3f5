//! Sizes in bytes, as people write them: `8GiB`, `1.5g`, `512k`, `1GB`, `4096`.

use std::fmt;
use std::str::FromStr;

/// A number of bytes.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct ByteCount(pub u64);

/// A text that is not a size.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "`{text}` is not a size: write bytes, or a number with a unit, like 512k, 64KiB, 1.5GiB (binary) or 1GB (decimal)"
)]
pub struct ParseSizeError {
    text: String,
}

/// The units that sizes are printed in, the largest first.
const UNITS: [(&str, u64); 4] =
    [("TiB", 1 << 40), ("GiB", 1 << 30), ("MiB", 1 << 20), ("KiB", 1 << 10)];

/// The letters of units, with the powers of 1024 or 1000 that they stand for.
const LETTERS: [(char, u32); 5] = [('k', 1), ('m', 2), ('g', 3), ('t', 4), ('p', 5)];

/// Bytes of a unit in lower case: `k` and `kib` are binary, `kb` is decimal.
fn unit_bytes(unit: &str) -> Option<u64> {
    if unit.is_empty() || unit == "b" {
        return Some(1);
    }
    let mut letters = unit.chars();
    let letter = letters.next()?;
    let (_, power) = LETTERS.into_iter().find(|(known, _)| *known == letter)?;
    match letters.as_str() {
        "" | "ib" => Some(1024_u64.pow(power)),
        "b" => Some(1000_u64.pow(power)),
        _ => None,
    }
}

impl ByteCount {
    /// The bytes in `count` binary megabytes.
    #[must_use]
    pub fn mib(count: u64) -> ByteCount {
        ByteCount(count << 20)
    }

    /// The size in binary megabytes, for tables and charts.
    #[must_use]
    pub fn as_mib(self) -> f64 {
        self.0 as f64 / (1 << 20) as f64
    }
}

impl FromStr for ByteCount {
    type Err = ParseSizeError;

    fn from_str(text: &str) -> Result<Self, ParseSizeError> {
        let bad = || ParseSizeError { text: text.into() };
        let trimmed = text.trim();
        let is_number = |letter: char| letter.is_ascii_digit() || letter == '.';
        let end = trimmed.find(|letter| !is_number(letter)).unwrap_or(trimmed.len());
        let (number, unit) = trimmed.split_at_checked(end).ok_or_else(bad)?;
        let unit = unit_bytes(&unit.trim().to_ascii_lowercase()).ok_or_else(bad)?;
        let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
        if whole.is_empty() || (number.contains('.') && fraction.is_empty()) {
            return Err(bad());
        }
        let whole: u64 = whole.parse().map_err(|_| bad())?;
        let mut bytes = whole.checked_mul(unit).ok_or_else(bad)?;
        if !fraction.is_empty() {
            // Bytes are not divided: what is less than one is dropped.
            let digits: u64 = fraction.parse().map_err(|_| bad())?;
            let power = u32::try_from(fraction.len()).map_err(|_| bad())?;
            let scale = 10_u128.checked_pow(power).ok_or_else(bad)?;
            let part = u128::from(digits) * u128::from(unit) / scale;
            bytes = bytes.checked_add(u64::try_from(part).map_err(|_| bad())?).ok_or_else(bad)?;
        }
        Ok(ByteCount(bytes))
    }
}

impl fmt::Display for ByteCount {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (unit, bytes) in UNITS {
            if self.0 >= bytes {
                return if self.0.is_multiple_of(bytes) {
                    write!(f, "{} {unit}", self.0 / bytes)
                } else {
                    write!(f, "{:.1} {unit}", self.0 as f64 / bytes as f64)
                };
            }
        }
        write!(f, "{} B", self.0)
    }
}

impl fmt::Debug for ByteCount {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_parse_as_people_write_them() {
        let check = |text: &str, expected: Option<u64>| {
            assert_eq!(text.parse::<ByteCount>().ok().map(|s| s.0), expected, "{text}");
        };
        check("512", Some(512));
        check("512B", Some(512));
        check("64KiB", Some(65536));
        check("2 GiB", Some(2 << 30));
        check("1G", Some(1 << 30));
        check("512k", Some(512 << 10));
        check("1.5GiB", Some(3 << 29));
        check("1.5gib", Some(3 << 29));
        check("0.1KiB", Some(102));
        check("1GB", Some(1_000_000_000));
        check("1.25kb", Some(1250));
        check("3t", Some(3 << 40));
        for bad in ["", "GiB", "-1", "1.", ".5G", "1..5G", "1x", "1Gi", "1 G B", "99999999999TiB"] {
            check(bad, None);
        }
        let message = "8 apples".parse::<ByteCount>().unwrap_err().to_string();
        assert!(message.contains("`8 apples`") && message.contains("1.5GiB"), "{message}");
    }

    proptest::proptest! {
        #[test]
        fn no_text_panics(text in "[0-9.kKmMgGiIbB -]{0,24}") {
            let _ = text.parse::<ByteCount>();
        }
    }

    #[test]
    fn sizes_print_in_the_largest_fitting_unit() {
        assert_eq!(ByteCount(3 << 29).to_string(), "1.5 GiB");
        assert_eq!(ByteCount(1 << 20).to_string(), "1 MiB");
        assert_eq!(ByteCount(100).to_string(), "100 B");
    }
}
