//! The legend of a volume's picture: what its colours, letters and lines mean.

use super::labels::Form;
use super::{Content, Stripe, ground};
use crate::colours::{BLUE, LINE, MUTED, ORANGE};
use crate::svg::{Canvas, Place, Type, fill, stroke};
use crate::text::width;

const ENTRY: Type = Type::new(14.0);
/// The width and height of a sample.
const SAMPLE: (f64, f64) = (26.0, 16.0);
const PITCH: f64 = 26.0;

/// A sample of what an entry explains.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Sample {
    /// The colour of a unit.
    Ground(String),
    Mark,
    FirstBlock,
    Route,
}

/// Draws `entries` in lines from `left` to `right`; returns the bottom.
pub(super) fn draw(
    canvas: &mut Canvas,
    (left, right): (f64, f64),
    top: f64,
    entries: &[(Sample, &str)],
) -> f64 {
    let (mut x, mut y) = (left, top);
    for (sample, text) in entries {
        let length = SAMPLE.0 + 8.0 + width(text, ENTRY.size, false);
        if x > left && x + length > right {
            (x, y) = (left, y + PITCH);
        }
        draw_sample(canvas, sample, (x, y));
        canvas.text(ENTRY, (x + SAMPLE.0 + 8.0, y + 13.0), text);
        x += length + 26.0;
    }
    if entries.is_empty() { top } else { y + PITCH }
}

/// Chooses the entries that explain `stripes` with labels of `form`, and with lines between marks if `has_route`.
pub(super) fn entries(
    stripes: &[Stripe],
    form: Form,
    has_route: bool,
) -> Vec<(Sample, &'static str)> {
    let units = || stripes.iter().flat_map(|stripe| &stripe.units);
    let content = |is_kind: fn(&Content) -> bool, text| {
        let unit = units().find(|unit| is_kind(&unit.content));
        unit.map(|unit| (Sample::Ground(ground(&unit.content)), text))
    };
    let sign = |is_needed: bool, sample, text| is_needed.then_some((sample, text));
    let is_data = |content: &Content| matches!(content, Content::Data(_));
    let is_copy = |content: &Content| matches!(content, Content::Copy(_));
    let data = match form {
        Form::Whole | Form::Range => "data: first and last block of the volume in the unit",
        Form::First => "data: first block of the volume in the unit",
    };
    let has_mark = units().any(|unit| !unit.marks.is_empty());
    let has_first = units().any(|unit| unit.first_at > 0.0);
    let entries = [
        content(is_data, data),
        content(is_copy, "copy: mirror of a data unit"),
        content(|content| *content == Content::P, "P: parity, the XOR of the stripe's data units"),
        content(|content| *content == Content::Q, "Q: second parity, their weighted sum"),
        sign(has_mark, Sample::Mark, "block of the access"),
        sign(has_first, Sample::FirstBlock, "where the unit's first block lies"),
        sign(has_route, Sample::Route, "order in which a disk reads"),
    ];
    entries.into_iter().flatten().collect()
}

/// Draws a mark as a path, so that the only orange rectangles of a picture are the blocks of its access.
fn draw_sample(canvas: &mut Canvas, sample: &Sample, (x, y): Place) {
    let (width, height) = SAMPLE;
    let (middle_x, middle_y) = (x + width / 2.0, y + height / 2.0);
    let upright = [(middle_x, y), (middle_x, y + height)];
    match sample {
        Sample::Ground(colour) => {
            canvas.rect((x, y), SAMPLE, &format!("{} stroke=\"{LINE}\"", fill(colour)));
        }
        Sample::Mark => canvas.path(upright, &stroke(ORANGE, super::MARK_WIDTH_MIN)),
        Sample::FirstBlock => canvas.path(upright, &stroke(BLUE, 2.0)),
        Sample::Route => {
            let look = format!("{} stroke-dasharray=\"5 4\"", stroke(MUTED, 1.5));
            canvas.path([(x, middle_y), (x + width, middle_y)], &look);
        }
    }
}
