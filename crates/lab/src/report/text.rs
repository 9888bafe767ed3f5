//! Text as the page shows it: escaped characters and grouped numbers.

use moirai::units::grouped_decimals;

/// `text` with the characters that mean something in HTML, even inside an attribute, written out.
pub(crate) fn escape(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}

/// `value` with that many decimals and a comma between thousands; a dash when it is no number.
pub(crate) fn number(value: f64, decimals: usize) -> String {
    if !value.is_finite() {
        return "–".to_owned();
    }
    grouped_decimals(value, decimals)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_group_their_thousands() {
        let numbers = [0.0, 999.94, 1000.0, -123_456.0, f64::NAN].map(|value| number(value, 1));
        assert_eq!(numbers, ["0.0", "999.9", "1,000.0", "-123,456.0", "–"]);
    }
}
