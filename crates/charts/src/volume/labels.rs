//! The texts in the units of a volume's picture: all in the longest form that fits, and in one size.

use moirai_units::{BlockRange, grouped};

use super::{Columns, Content, LANE, ROW, Stripe, Unit, ground};
use crate::svg::{Canvas, Place, Type, fill};
use crate::text::width;

const SIZE: f64 = 14.0;
const SIZE_MIN: f64 = 10.5;
/// A label is that much narrower than its column.
const PADDING: f64 = 6.0;
/// The distance of a base line from the middle of the text, as a part of the size.
const BASE_LINE: f64 = 0.36;

/// How much a label tells. The shortest form has a whole number, because a number that is cut reads as another one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Form {
    /// The first and the last block, and whether they are a copy.
    Whole,
    /// The first and the last block.
    Range,
    /// The first block.
    First,
}

/// How the labels of a picture look.
#[derive(Clone, Copy, Debug)]
pub(super) struct Labels {
    pub(super) form: Form,
    size: f64,
}

impl Labels {
    /// Chooses the form and the size for all units of `stripes`.
    pub(super) fn of(stripes: &[Stripe], columns: &Columns) -> Labels {
        let room = columns.width - PADDING;
        let forms = [Form::Whole, Form::Range].into_iter();
        let mut fitting = forms.filter(|form| widest(stripes, *form, SIZE_MIN) <= room);
        let form = fitting.next().unwrap_or(Form::First);
        let size = SIZE * (room / widest(stripes, form, SIZE)).min(1.0);
        Labels { form, size }
    }

    /// Draws the label of a unit, on a ground of its own over what lies below.
    pub(super) fn draw(self, canvas: &mut Canvas, (x, y): Place, column: f64, unit: &Unit) {
        let text = text(&unit.content, self.form);
        let middle_y = match unit.content {
            Content::Data(_) | Content::Copy(_) => y + LANE.0 / 2.0,
            Content::P | Content::Q => y + ROW / 2.0,
        };
        let middle = x + column / 2.0;
        let (across, high) = (width(&text, self.size, false), self.size * 1.2);
        let corner = (middle - across / 2.0, middle_y - high / 2.0);
        canvas.rect(corner, (across, high), &fill(&ground(&unit.content)));
        let look = Type::new(self.size).middle();
        canvas.text(look, (middle, middle_y + BASE_LINE * self.size), &text);
    }
}

/// The least width of a column that has room for each label of `stripes` in its shortest form.
pub(super) fn column_width_min(stripes: &[Stripe]) -> f64 {
    widest(stripes, Form::First, SIZE_MIN) + PADDING
}

fn widest(stripes: &[Stripe], form: Form, size: f64) -> f64 {
    let units = stripes.iter().flat_map(|stripe| &stripe.units);
    let widths = units.map(|unit| width(&text(&unit.content, form), size, false));
    widths.fold(1.0, f64::max)
}

fn text(content: &Content, form: Form) -> String {
    match (content, form) {
        (Content::P, _) => "P".to_owned(),
        (Content::Q, _) => "Q".to_owned(),
        (Content::Copy(blocks), Form::Whole) => format!("{} copy", range(blocks)),
        (Content::Data(blocks) | Content::Copy(blocks), Form::Whole | Form::Range) => range(blocks),
        (Content::Data(blocks) | Content::Copy(blocks), Form::First) => grouped(blocks.first.0),
    }
}

fn range(blocks: &BlockRange) -> String {
    span(blocks.first.0, blocks.end().0.saturating_sub(1))
}

/// `first` and `last`, or one number if they are equal.
pub(super) fn span(first: u64, last: u64) -> String {
    match first == last {
        true => grouped(first),
        false => format!("{}\u{2013}{}", grouped(first), grouped(last)),
    }
}
