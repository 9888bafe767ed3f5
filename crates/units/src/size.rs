//! Sizes in bytes, as people write them: `8GiB`, `64KiB`, `512`.

use std::fmt;
use std::str::FromStr;

/// A number of bytes.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct ByteCount(pub u64);

/// A text that is no size.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "`{text}` is no size: write a number of bytes, or one with KiB, MiB, GiB or TiB, like 8GiB"
)]
pub struct ParseSizeError {
    text: String,
}

const UNITS: [(&str, u64); 4] =
    [("TiB", 1 << 40), ("GiB", 1 << 30), ("MiB", 1 << 20), ("KiB", 1 << 10)];

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
        let (digits, unit_bytes) = UNITS
            .iter()
            .find_map(|(unit, bytes)| text.strip_suffix(unit).map(|digits| (digits, *bytes)))
            .unwrap_or((text.strip_suffix('B').unwrap_or(text), 1));
        let count: u64 = digits.trim().parse().map_err(|_| bad())?;
        count.checked_mul(unit_bytes).map(ByteCount).ok_or_else(bad)
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
        check("", None);
        check("GiB", None);
        check("-1", None);
        check("8GB", None);
        check("99999999999TiB", None);
    }

    #[test]
    fn sizes_print_in_the_largest_fitting_unit() {
        assert_eq!(ByteCount(3 << 29).to_string(), "1.5 GiB");
        assert_eq!(ByteCount(1 << 20).to_string(), "1 MiB");
        assert_eq!(ByteCount(100).to_string(), "100 B");
    }
}
