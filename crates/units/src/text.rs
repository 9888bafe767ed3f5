//! Numbers as people read them: with a comma between thousands.

/// A whole number.
#[must_use]
pub fn grouped(number: impl Into<u64>) -> String {
    group(number.into().to_string())
}

/// `value` with that many decimals.
#[must_use]
pub fn grouped_decimals(value: f64, decimals: usize) -> String {
    group(format!("{value:.decimals$}"))
}

fn group(mut text: String) -> String {
    let digits_from = usize::from(text.starts_with('-'));
    let mut position = text.find('.').unwrap_or(text.len());
    while position > 3 + digits_from {
        position -= 3;
        text.insert(position, ',');
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn thousands_are_grouped() {
        assert_eq!([0u64, 999, 1000, 1_234_567].map(grouped), ["0", "999", "1,000", "1,234,567"]);
        let decimals = [0.0, 999.94, 1000.0, -123_456.0].map(|value| grouped_decimals(value, 1));
        assert_eq!(decimals, ["0.0", "999.9", "1,000.0", "-123,456.0"]);
        assert_eq!(grouped_decimals(999.96, 1), "1,000.0");
    }
}
