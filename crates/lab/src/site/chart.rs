//! The chart of an experiment: for each figure a bar of ours, under one of what was published.
//!
//! Figures of one unit share a scale, so that bars one below the other have the shape of the paper's curve. Figures without a unit are
//! ratios and counts of all kinds, and each has a scale of its own.

use std::collections::BTreeMap;

use crate::Row;
use crate::report::svg::{image, rect, text};
use crate::report::text::number;

const WIDTH: f64 = 640.0;
const BAR_START: f64 = 84.0;
const BAR_LENGTH_MAX: f64 = 440.0;
const BAR_HEIGHT: f64 = 12.0;
const BAR_PITCH: f64 = 16.0;
const HEADING_HEIGHT: f64 = 26.0;
const HEADING_GAP: f64 = 6.0;
const BASE_LINE: f64 = 10.5;

pub(super) fn figure(rows: &[Row]) -> String {
    let mut longest: BTreeMap<&str, f64> = BTreeMap::new();
    for row in rows {
        let value = row.published.unwrap_or(0.0).abs().max(row.ours.abs());
        let entry = longest.entry(row.unit).or_default();
        *entry = entry.max(value);
    }
    let (mut height, mut drawn) = (0.0, String::new());
    for row in rows {
        let own = row.published.unwrap_or(0.0).abs().max(row.ours.abs());
        let full =
            if row.unit.is_empty() { own } else { longest.get(row.unit).copied().unwrap_or(own) };
        height += HEADING_HEIGHT;
        let unit = if row.unit.is_empty() { String::new() } else { format!(", {}", row.unit) };
        drawn += &text("workload", (0.0, height - HEADING_GAP), &format!("{}{unit}", row.figure));
        let bars = [("published", row.published), ("ours", Some(row.ours))];
        for (name, value) in bars.into_iter().filter_map(|(name, value)| Some((name, value?))) {
            let share = (value.abs() / full).clamp(0.0, 1.0);
            let share = if share.is_finite() { share } else { 0.0 };
            drawn += &text("layout", (0.0, height + BASE_LINE), name);
            let class = format!("bar {name}");
            drawn += &rect(&class, (BAR_START, height), (BAR_LENGTH_MAX * share, BAR_HEIGHT));
            let value = number(value, super::decimals(value.abs()));
            drawn += &text("value", (WIDTH, height + BASE_LINE), &value);
            height += BAR_PITCH;
        }
    }
    image("Each figure, published and ours", (WIDTH, height + BAR_PITCH), &drawn)
}
