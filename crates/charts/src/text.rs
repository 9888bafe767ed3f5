//! Text in pictures: escaping, fitting to a width, and numbers with units.

use moirai_units::{ByteCount, grouped, grouped_decimals};

/// Escapes `text` for an element or an attribute of XML. Characters that XML does not allow become `�`.
pub(crate) fn escape(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for character in text.chars() {
        match character {
            '&' => escaped.push_str("&amp;"),
            '<' => escaped.push_str("&lt;"),
            '>' => escaped.push_str("&gt;"),
            '"' => escaped.push_str("&quot;"),
            '\'' => escaped.push_str("&#39;"),
            '\t' | '\n' | '\r' => escaped.push(' '),
            '\u{fffe}' | '\u{ffff}' => escaped.push('\u{fffd}'),
            control if control.is_control() => escaped.push('\u{fffd}'),
            other => escaped.push(other),
        }
    }
    escaped
}

/// Returns an upper bound of the width of `text` at `size` in the widest of the usual fonts, in the unit of `size`.
pub(crate) fn width(text: &str, size: f64, bold: bool) -> f64 {
    let ems: f64 = text.chars().map(width_ems).sum();
    ems * size * if bold { 1.13 } else { 1.0 }
}

/// Widths of DejaVu Sans, rounded up.
fn width_ems(character: char) -> f64 {
    match character {
        'i' | 'j' | 'l' | ' ' | '.' | ',' | '\'' => 0.33,
        'f' | 'r' | 't' | 'I' | 'J' | ':' | ';' | '(' | ')' | '-' | '/' | '|' => 0.42,
        'm' | 'w' | 'M' | 'W' | '%' | '@' => 1.0,
        'A'..='Z' => 0.75,
        _ if character.is_ascii() => 0.64,
        _ => 1.0,
    }
}

/// Returns `text`, or its beginning and an ellipsis if it is wider than `room`.
pub(crate) fn fit(text: &str, size: f64, bold: bool, room: f64) -> String {
    if width(text, size, bold) <= room {
        return text.to_owned();
    }
    let mut left = room - width("…", size, bold);
    let mut cut = String::new();
    for character in text.chars() {
        left -= width(character.encode_utf8(&mut [0; 4]), size, bold);
        if left < 0.0 {
            break;
        }
        cut.push(character);
    }
    if cut.is_empty() { cut } else { format!("{}…", cut.trim_end()) }
}

/// Wraps `text` in at most `most` lines no wider than `room`; an ellipsis ends the last line if text is missing.
pub(crate) fn wrap(text: &str, size: f64, room: f64, most: usize) -> Vec<String> {
    let mut lines: Vec<String> = Vec::new();
    for word in text.split_whitespace() {
        let is_full = lines.len() == most;
        let Some(line) = lines.last_mut() else {
            lines.push(word.to_owned());
            continue;
        };
        let longer = format!("{line} {word}");
        let fits = width(&longer, size, false) <= room;
        if fits || is_full {
            *line = longer;
        } else {
            lines.push(word.to_owned());
        }
        // The last line is too long now; `fit` cuts it below.
        if is_full && !fits {
            break;
        }
    }
    lines.iter().map(|line| fit(line, size, false, room)).collect()
}

/// Returns `value` with the noun `one`, in the plural unless `value` is 1.
pub(crate) fn counted(value: impl Into<u64>, one: &str) -> String {
    let value = value.into();
    format!("{} {one}{}", grouped(value), if value == 1 { "" } else { "s" })
}

/// Formats `value` with three significant digits; digits before the decimal point stay.
pub(crate) fn significant(value: f64) -> String {
    if value <= 0.0 || !value.is_finite() {
        return "0".to_owned();
    }
    let magnitude = value.log10().floor() as i32;
    grouped_decimals(value, usize::try_from(2 - magnitude).unwrap_or(0).min(9))
}

/// Formats a size in decimal units (1 kB = 1,000 bytes), as drives are sold.
pub(crate) fn bytes(size: ByteCount) -> String {
    let units = [("PB", 1e15), ("TB", 1e12), ("GB", 1e9), ("MB", 1e6), ("kB", 1e3)];
    let value = size.0 as f64;
    match units.iter().find(|(_, bytes)| value >= *bytes) {
        Some((unit, bytes)) => format!("{} {unit}", significant(value / bytes)),
        None => format!("{value} B"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn escape_leaves_no_markup() {
        assert_eq!(escape("a<b> & \"c\"\n\u{1}'"), "a&lt;b&gt; &amp; &quot;c&quot; \u{fffd}&#39;");
    }

    #[test]
    fn numbers_have_separators_and_units() {
        assert_eq!(counted(1u32, "zone"), "1 zone");
        assert_eq!(significant(5.9852), "5.99");
        assert_eq!(significant(0.123_45), "0.123");
        assert_eq!(significant(12_345.6), "12,346");
        assert_eq!(significant(f64::NAN), "0");
        assert_eq!(bytes(ByteCount(9_184_760_832)), "9.18 GB");
        assert_eq!(bytes(ByteCount(512)), "512 B");
    }

    #[test]
    fn fit_and_wrap_cut_long_texts() {
        assert_eq!(fit("short", 10.0, false, 100.0), "short");
        assert_eq!(fit("abcdefghij", 10.0, false, 45.0), "abcde…");
        assert_eq!(fit("abc", 10.0, false, 1.0), "");
        assert_eq!(wrap("aa bb cc dd", 10.0, 35.0, 3), ["aa bb", "cc dd"]);
        assert_eq!(wrap("aa bb cc dd ee", 10.0, 35.0, 2), ["aa bb", "cc d…"]);
        assert!(wrap(" ", 10.0, 35.0, 2).is_empty());
    }
}
