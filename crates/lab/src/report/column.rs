//! Columns of numbers that line up.

use super::text::number;

/// One number of each row, all with the same number of decimals.
pub(super) struct Column<Row> {
    value: fn(&Row) -> f64,
    decimals: usize,
}

impl<Row> Column<Row> {
    /// The column that holds `value` of each of `rows`.
    pub(super) fn new(rows: &[Row], value: fn(&Row) -> f64) -> Self {
        let values = || rows.iter().map(value);
        let least = values().filter(|value| *value > 0.0).fold(f64::MAX, f64::min);
        // Counts need none; a measured value shows two digits at least.
        let decimals = match least {
            _ if values().all(|value| value.fract() == 0.0) => 0,
            100.0.. => 0,
            1.0.. => 1,
            _ => 2,
        };
        Column { value, decimals }
    }

    /// The number that belongs to `row`.
    pub(super) fn text(&self, row: &Row) -> String {
        number((self.value)(row), self.decimals)
    }
}
