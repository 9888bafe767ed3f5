//! The text of values: reading each type, and telling which types a text fits.

use std::ops::{BitAnd, BitOr};
use std::str::FromStr;

use datafusion::arrow::datatypes::TimeUnit;

use super::schema::CsvType;

const DAY_SECONDS: i64 = 86_400;
const SECOND_NS: u32 = 1_000_000_000;

/// The integer that `text` is: digits after an optional sign. Leading zeros do not count.
pub(super) fn integer<T: FromStr>(text: &[u8]) -> Option<T> {
    std::str::from_utf8(text).ok()?.parse().ok()
}

/// The truth value that `text` is: `true` or `false` in any case.
pub(super) fn boolean(text: &[u8]) -> Option<bool> {
    match text {
        _ if text.eq_ignore_ascii_case(b"true") => Some(true),
        _ if text.eq_ignore_ascii_case(b"false") => Some(false),
        _ => None,
    }
}

/// A floating-point type.
pub(super) trait Float: FromStr {
    fn is_infinite(&self) -> bool;
}

impl Float for f32 {
    fn is_infinite(&self) -> bool {
        f32::is_infinite(*self)
    }
}

impl Float for f64 {
    fn is_infinite(&self) -> bool {
        f64::is_infinite(*self)
    }
}

/// The number that `text` is: decimal with an optional exponent, `inf` or `nan`. A number beyond the
/// type's range is none.
pub(super) fn float<T: Float>(text: &[u8]) -> Option<T> {
    let number: T = std::str::from_utf8(text).ok()?.parse().ok()?;
    let is_overflow = number.is_infinite() && text.iter().any(u8::is_ascii_digit);
    (!is_overflow).then_some(number)
}

/// The decimal number that `text` is, times 10 to the power of `scale`. A number with more digits
/// than the type has is none; zeros before and after it do not count.
pub(super) fn decimal(text: &[u8], precision: u8, scale: u8) -> Option<i128> {
    let (is_negative, digits) = match text.split_first()? {
        (b'-', digits) => (true, digits),
        (b'+', digits) => (false, digits),
        _ => (false, text),
    };
    let mut parts = digits.splitn(2, |byte| *byte == b'.');
    let (whole, fraction) = (parts.next()?, parts.next().unwrap_or_default());
    if whole.is_empty() && fraction.is_empty() {
        return None;
    }
    let scale = usize::from(scale);
    let (kept, dropped) = fraction.split_at_checked(scale).unwrap_or((fraction, &[]));
    if dropped.iter().any(|byte| *byte != b'0') {
        return None;
    }
    let mut number: i128 = 0;
    let zeros = std::iter::repeat_n(&b'0', scale - kept.len());
    for byte in whole.iter().chain(kept).chain(zeros) {
        let digit = byte.is_ascii_digit().then(|| i128::from(byte - b'0'))?;
        number = number.checked_mul(10)?.checked_add(digit)?;
    }
    if number >= 10_i128.checked_pow(precision.into())? {
        return None;
    }
    Some(if is_negative { -number } else { number })
}

/// The days from 1970-01-01 to the date that `text` is, `YYYY-MM-DD`.
pub(super) fn date(text: &[u8]) -> Option<i32> {
    let [y1, y2, y3, y4, b'-', m1, m2, b'-', d1, d2] = text else {
        return None;
    };
    let year = two_digits(*y1, *y2)? * 100 + two_digits(*y3, *y4)?;
    let month = two_digits(*m1, *m2)?;
    let day = two_digits(*d1, *d2)?;
    let is_leap = year % 4 == 0 && (year % 100 != 0 || year % 400 == 0);
    let month_days = match month {
        2 if is_leap => 29,
        2 => 28,
        4 | 6 | 9 | 11 => 30,
        1..=12 => 31,
        _ => return None,
    };
    if !(1..=month_days).contains(&day) {
        return None;
    }
    // Howard Hinnant, "chrono-Compatible Low-Level Date Algorithms", days_from_civil: years begin in
    // March, so that the leap day is a year's last. Year 0 begins an era of 400 years.
    let year = if month <= 2 { year - 1 } else { year };
    let era = year.div_euclid(400);
    let year_of_era = year.rem_euclid(400);
    let day_of_year = (153 * ((month + 9) % 12) + 2) / 5 + day - 1;
    let day_of_era = year_of_era * 365 + year_of_era / 4 - year_of_era / 100 + day_of_year;
    Some(era * 146_097 + day_of_era - 719_468)
}

fn two_digits(tens: u8, ones: u8) -> Option<i32> {
    let both = tens.is_ascii_digit() && ones.is_ascii_digit();
    both.then(|| i32::from(tens - b'0') * 10 + i32::from(ones - b'0'))
}

/// A time without zone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Time {
    /// Seconds since 1970-01-01.
    seconds: i64,
    /// Nanoseconds of the second, 0 to 999,999,999.
    nanoseconds: u32,
}

impl Time {
    /// The time in units since 1970-01-01; `None` if that is no integer of 8 bytes.
    pub(super) fn units(self, unit: TimeUnit) -> Option<i64> {
        let second_units: u32 = match unit {
            TimeUnit::Second => 1,
            TimeUnit::Millisecond => 1_000,
            TimeUnit::Microsecond => 1_000_000,
            TimeUnit::Nanosecond => SECOND_NS,
        };
        let unit_ns = SECOND_NS / second_units;
        if !self.nanoseconds.is_multiple_of(unit_ns) {
            return None;
        }
        let fraction = i64::from(self.nanoseconds / unit_ns);
        self.seconds.checked_mul(second_units.into())?.checked_add(fraction)
    }
}

/// The time that `text` is: `YYYY-MM-DD`, then optionally a space or `T` and `HH:MM` with optional
/// `:SS`, a fraction of up to 9 digits, and a zone: `Z`, `+HH` or `+HH:MM`. A time with a zone is
/// converted to UTC.
pub(super) fn time(text: &[u8]) -> Option<Time> {
    let (day, rest) = text.split_at_checked(10).unwrap_or((text, &[]));
    let days = i64::from(date(day)?);
    let [b' ' | b'T' | b't', h1, h2, b':', m1, m2, rest @ ..] = rest else {
        return rest.is_empty().then_some(Time { seconds: days * DAY_SECONDS, nanoseconds: 0 });
    };
    let (hours, minutes) = hours_and_minutes([*h1, *h2], [*m1, *m2])?;
    let (seconds, rest) = match rest {
        [b':', s1, s2, rest @ ..] => (two_digits(*s1, *s2).filter(|s| *s < 60)?, rest),
        _ => (0, rest),
    };
    let (nanoseconds, rest) = match rest {
        [b'.', rest @ ..] => {
            let count = rest.iter().take_while(|byte| byte.is_ascii_digit()).count();
            let (digits, rest) = rest.split_at_checked(count)?;
            if !(1..=9).contains(&count) {
                return None;
            }
            let padded = digits.iter().chain(std::iter::repeat(&b'0')).take(9);
            (padded.fold(0, |number, digit| number * 10 + u32::from(digit - b'0')), rest)
        }
        _ => (0, rest),
    };
    let (is_east, hours_east, minutes_east) = match rest {
        [] | [b'Z' | b'z'] => (true, 0, 0),
        [sign @ (b'+' | b'-'), h1, h2, minutes @ ..] => {
            let minutes = match minutes {
                [] => [b'0', b'0'],
                [b':', m1, m2] => [*m1, *m2],
                _ => return None,
            };
            let (hours, minutes) = hours_and_minutes([*h1, *h2], minutes)?;
            (*sign == b'+', hours, minutes)
        }
        _ => return None,
    };
    let zone_seconds = (hours_east * 60 + minutes_east) * 60;
    let zone_seconds = if is_east { zone_seconds } else { -zone_seconds };
    let of_day = (hours * 60 + minutes) * 60 + seconds - zone_seconds;
    Some(Time { seconds: days * DAY_SECONDS + i64::from(of_day), nanoseconds })
}

fn hours_and_minutes(hours: [u8; 2], minutes: [u8; 2]) -> Option<(i32, i32)> {
    let [h1, h2] = hours;
    let [m1, m2] = minutes;
    let (hours, minutes) = (two_digits(h1, h2)?, two_digits(m1, m2)?);
    (hours < 24 && minutes < 60).then_some((hours, minutes))
}

/// The types that values have been found to fit, out of those that are told from values.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Fit(u8);

impl Fit {
    const TEXT: Fit = Fit(1);
    const BIGINT: Fit = Fit(2);
    const DOUBLE: Fit = Fit(4);
    const DATE: Fit = Fit(8);
    const MICROSECONDS: Fit = Fit(16);
    const NANOSECONDS: Fit = Fit(32);
    const BOOLEAN: Fit = Fit(64);
    /// Integers of up to 38 digits: as doubles different ones would be equal.
    const DECIMAL: Fit = Fit(128);
    /// What no value has ruled out.
    pub(super) const ALL: Fit = Fit(255);

    /// Those of the types `before` that `value` fits; `None` if it is not even text.
    pub(super) fn of(value: &[u8], before: Fit) -> Option<Fit> {
        if before == Fit::TEXT {
            return std::str::from_utf8(value).is_ok().then_some(Fit::TEXT);
        }
        Some(before & Fit::of_alone(value)?)
    }

    fn of_alone(value: &[u8]) -> Option<Fit> {
        let trimmed = value.trim_ascii();
        if integer::<i64>(trimmed).is_some() {
            return Some(Fit::TEXT | Fit::DOUBLE | Fit::DECIMAL | Fit::BIGINT);
        }
        if float::<f64>(trimmed).is_some() {
            let is_whole = !trimmed.contains(&b'.') && decimal(trimmed, 38, 0).is_some();
            let decimal = if is_whole { Fit::DECIMAL } else { Fit::TEXT };
            return Some(Fit::TEXT | Fit::DOUBLE | decimal);
        }
        if boolean(trimmed).is_some() {
            return Some(Fit::TEXT | Fit::BOOLEAN);
        }
        if let Some(time) = time(trimmed) {
            let mut fit = Fit::TEXT;
            let of_type = [
                (date(trimmed).is_some(), Fit::DATE),
                (time.units(TimeUnit::Microsecond).is_some(), Fit::MICROSECONDS),
                (time.units(TimeUnit::Nanosecond).is_some(), Fit::NANOSECONDS),
            ];
            for (_, one) in of_type.into_iter().filter(|(fits, _)| *fits) {
                fit = fit | one;
            }
            return Some(fit);
        }
        std::str::from_utf8(value).is_ok().then_some(Fit::TEXT)
    }

    /// The narrowest of the types; text if no value has ruled out anything.
    pub(super) fn csv_type(self) -> CsvType {
        let types = [
            (Fit::BIGINT, CsvType::Bigint),
            (Fit::DECIMAL, CsvType::Decimal { precision: 38, scale: 0 }),
            (Fit::DOUBLE, CsvType::Double),
            (Fit::BOOLEAN, CsvType::Boolean),
            (Fit::DATE, CsvType::Date),
            (Fit::MICROSECONDS, CsvType::Timestamp(TimeUnit::Microsecond)),
            (Fit::NANOSECONDS, CsvType::Timestamp(TimeUnit::Nanosecond)),
        ];
        let fitting = types.into_iter().find(|(fit, _)| self != Fit::ALL && (self & *fit) == *fit);
        fitting.map_or(CsvType::Text, |(_, csv_type)| csv_type)
    }
}

impl BitAnd for Fit {
    type Output = Fit;
    fn bitand(self, other: Fit) -> Fit {
        Fit(self.0 & other.0)
    }
}

impl BitOr for Fit {
    type Output = Fit;
    fn bitor(self, other: Fit) -> Fit {
        Fit(self.0 | other.0)
    }
}

#[cfg(test)]
mod tests {
    use datafusion::arrow::array::types::Date32Type;

    use super::*;

    #[test]
    fn decimals_fit_by_their_digits() {
        let check = |text: &str, precision, scale, expected| {
            assert_eq!(decimal(text.as_bytes(), precision, scale), expected, "{text}");
        };
        check("12.34", 4, 2, Some(1234));
        check("-12.3", 4, 2, Some(-1230));
        check("+0012.340", 4, 2, Some(1234));
        check(".5", 1, 1, Some(5));
        check("5.", 2, 1, Some(50));
        check("0", 1, 1, Some(0));
        check("-0", 1, 0, Some(0));
        check("100", 4, 2, None);
        check("1.001", 4, 2, None);
        check("99999999999999999999999999999999999999", 38, 0, Some(10_i128.pow(38) - 1));
        check("100000000000000000000000000000000000000", 38, 0, None);
        check("999999999999999999999999999999999999999999999", 38, 0, None);
        for text in ["", "-", ".", "1e3", "1.2.3", "--1", "+-1", "1,5", "x", "1.x"] {
            check(text, 10, 2, None);
        }
    }

    #[test]
    fn dates_count_days_as_chrono_does() {
        let first = date(b"0000-01-01").unwrap();
        let last = date(b"9999-12-31").unwrap();
        let mut days = 0;
        for day in (first..=last).step_by(13).chain([-1, 0, 1, 11_016, 11_017]) {
            let text = Date32Type::to_naive_date_opt(day).unwrap().to_string();
            assert_eq!(date(text.as_bytes()), Some(day), "{text}");
            days += 1;
        }
        assert!(days > 280_000);
    }

    #[test]
    fn days_that_do_not_exist_are_no_dates() {
        for text in [
            "1900-02-29",
            "2023-02-29",
            "2024-02-30",
            "2024-04-31",
            "2024-00-10",
            "2024-13-10",
            "2024-01-00",
            "2024-01-32",
            "2024-1-1",
            "24-01-01",
            "2024/01/01",
            "20240101",
            "-024-01-01",
            "2024-01-01 ",
            "",
        ] {
            assert_eq!(date(text.as_bytes()), None, "{text}");
        }
        assert!(date(b"2000-02-29").is_some());
    }

    #[test]
    fn times_parse_with_fractions_and_zones() {
        let check = |text: &str, expected: Option<(i64, u32)>| {
            let found = time(text.as_bytes()).map(|time| (time.seconds, time.nanoseconds));
            assert_eq!(found, expected, "{text}");
        };
        check("1970-01-02", Some((86_400, 0)));
        check("1970-01-01 01:02", Some((3720, 0)));
        check("1970-01-01T01:02:03", Some((3723, 0)));
        check("1970-01-01 00:00:00.5", Some((0, 500_000_000)));
        check("1969-12-31 23:59:59.999999999", Some((-1, 999_999_999)));
        check("1970-01-01T00:00:00Z", Some((0, 0)));
        check("1970-01-01 00:00:00.25+01:30", Some((-5400, 250_000_000)));
        check("1970-01-01 00:00-02", Some((7200, 0)));
        for text in [
            "1970-01-01 ",
            "1970-01-01 1:02",
            "1970-01-01 24:00",
            "1970-01-01 00:60",
            "1970-01-01 00:00:60",
            "1970-01-01 00:00:00.",
            "1970-01-01 00:00:00.1234567890",
            "1970-01-01 00:00 UTC",
            "1970-01-01 00:00+1",
            "1970-01-01 00:00+0130x",
            "1970-01-01Z",
            "1970-13-01 00:00",
            "00:00",
        ] {
            check(text, None);
        }
    }

    #[test]
    fn times_fit_units_they_are_multiples_of() {
        let units = |text: &str, unit| time(text.as_bytes()).unwrap().units(unit);
        let text = "1969-12-31 23:59:59.250";
        assert_eq!(units(text, TimeUnit::Second), None);
        assert_eq!(units(text, TimeUnit::Millisecond), Some(-750));
        assert_eq!(units(text, TimeUnit::Microsecond), Some(-750_000));
        assert_eq!(units(text, TimeUnit::Nanosecond), Some(-750_000_000));
        assert_eq!(units("9999-12-31", TimeUnit::Nanosecond), None);
        assert_eq!(units("1677-09-22", TimeUnit::Nanosecond).map(i64::signum), Some(-1));
        assert_eq!(units("2262-04-11 23:47:16.854775807", TimeUnit::Nanosecond), Some(i64::MAX));
        assert_eq!(units("2262-04-11 23:47:16.854775808", TimeUnit::Nanosecond), None);
    }
}
