//! A chart of bars: for each workload one bar per layout, the value written beside it.
//!
//! One workload may cost a hundred times what another does, so bars on one scale would leave most of
//! them as slivers. The question is which layout wins, hence a scale for each workload.

use super::by_workload;
use super::column::Column;
use super::svg::{image, rect, text};
use super::text::number;
use crate::figures::DemoRow;

/// One measure of the workloads, as a chart shows it.
pub(super) struct Chart {
    pub(super) title: &'static str,
    pub(super) note: &'static str,
    /// What follows a value, with the space before it.
    pub(super) unit: &'static str,
    pub(super) value: fn(&DemoRow) -> f64,
    /// What a bar of full length stands for; if nothing, the longest bar of the same workload.
    pub(super) full: Option<f64>,
}

const WIDTH: f64 = 400.0;
const BAR_START: f64 = 44.0;
const BAR_LENGTH_MAX: f64 = 252.0;
const BAR_HEIGHT: f64 = 16.0;
const BAR_PITCH: f64 = 21.0;
/// With the space above it.
const HEADING_HEIGHT: f64 = 36.0;
/// From the base line of a heading to the first bar.
const HEADING_GAP: f64 = 9.0;
/// The base line of text below the top of a bar beside it.
const BASE_LINE: f64 = 13.0;

impl Chart {
    /// The chart with its caption.
    pub(super) fn figure(&self, rows: &[DemoRow]) -> String {
        let column = Column::new(rows, self.value);
        let (mut height, mut drawn) = (0.0, String::new());
        for rows in by_workload(rows) {
            height += HEADING_HEIGHT;
            drawn += &self.heading(height, rows);
            let longest = || rows.iter().map(self.value).fold(0.0, f64::max);
            let full = self.full.unwrap_or_else(longest);
            for row in rows {
                let share = share((self.value)(row), full);
                drawn += &bar(height, row, share, &(column.text(row) + self.unit));
                height += BAR_PITCH;
            }
        }
        let Chart { title, note, .. } = self;
        let name = format!("{title}, for each workload and layout");
        let image = image(&name, (WIDTH, height), &drawn);
        format!(
            "<figure><figcaption><h3>{title}</h3><p>{note}</p></figcaption>\n{image}</figure>\n"
        )
    }

    fn heading(&self, bottom: f64, rows: &[DemoRow]) -> String {
        let name = rows.first().map_or("", |row| &row.workload);
        let comparison = self.comparison(rows).unwrap_or_default();
        let y = bottom - HEADING_GAP;
        text("workload", (0.0, y), name) + &text("comparison", (WIDTH, y), &comparison)
    }

    /// What a stranger wants to know of a pair. Of percentages it would confuse, so it is left out.
    fn comparison(&self, rows: &[DemoRow]) -> Option<String> {
        let value_of = |layout| rows.iter().find(|row| row.layout == layout).map(self.value);
        let share = value_of("csm")? / value_of("nsm")?;
        let percent = number(100.0 * share, usize::from(share < 0.1));
        let is_clear = self.full.is_none() && share.is_finite();
        is_clear.then(|| format!("CSM is {percent}% of NSM"))
    }
}

fn bar(top: f64, row: &DemoRow, share: f64, value: &str) -> String {
    let layout = text("layout", (0.0, top + BASE_LINE), &row.layout.to_uppercase());
    let bar = |class: &str, length| rect(class, (BAR_START, top), (length, BAR_HEIGHT));
    let track = bar("track", BAR_LENGTH_MAX);
    let filled = bar(&format!("bar {}", row.layout), BAR_LENGTH_MAX * share);
    let value = text("value", (WIDTH, top + BASE_LINE), value);
    layout + &track + &filled + &value
}

/// `value / full`, within 0 and 1 whatever they are.
fn share(value: f64, full: f64) -> f64 {
    let share = value / full;
    if share.is_finite() { share.clamp(0.0, 1.0) } else { 0.0 }
}
