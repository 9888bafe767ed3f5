//! The frame of a chart: its area, grid, ticks and the names of its axes.

use crate::colours::{INK, LINE};
use crate::scale::{Scale, Tick};
use crate::svg::{Canvas, Type, stroke};

/// The font size of labels.
pub(crate) const LABEL_SIZE: f64 = 16.0;
/// The height of the name of the vertical axis, above the area.
pub(crate) const ABOVE: f64 = 34.0;
/// The height of the labels and the name of the horizontal axis, below the area.
pub(crate) const BELOW: f64 = 58.0;

const LABEL: Type = Type::new(LABEL_SIZE).muted();
/// The distance of the base line of a label from the middle of the thing that it labels.
pub(crate) const BASE_LINE: f64 = 5.5;

/// The rectangle for the lines of a chart, without labels.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Area {
    pub(crate) left: f64,
    pub(crate) top: f64,
    pub(crate) right: f64,
    pub(crate) bottom: f64,
}

impl Area {
    pub(crate) fn width(&self) -> f64 {
        self.right - self.left
    }

    pub(crate) fn height(&self) -> f64 {
        self.bottom - self.top
    }

    /// The range of a horizontal axis.
    pub(crate) fn across(&self) -> (f64, f64) {
        (self.left, self.right)
    }

    /// The range of a vertical axis, which begins at the bottom.
    pub(crate) fn upwards(&self) -> (f64, f64) {
        (self.bottom, self.top)
    }
}

/// An area with the scales of its axes.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Plot {
    pub(crate) area: Area,
    pub(crate) x: Scale,
    pub(crate) y: Scale,
}

impl Plot {
    /// Draws grid lines, their labels to the left of the area, and `name` above the labels, starting at `name_x`.
    pub(crate) fn y_axis(&self, canvas: &mut Canvas, ticks: &[Tick], name: &str, name_x: f64) {
        let Area { left, right, top, .. } = self.area;
        for tick in ticks {
            let y = self.y.at(tick.value);
            canvas.path([(left, y), (right, y)], &stroke(LINE, 1.0));
            canvas.text(LABEL.end(), (left - 10.0, y + BASE_LINE), &tick.label);
        }
        canvas.text(LABEL, (name_x, top - 16.0), name);
    }

    /// Draws ticks and their labels below the area, and `name` below the labels.
    pub(crate) fn x_axis(&self, canvas: &mut Canvas, ticks: &[Tick], name: &str) {
        let Area { left, right, bottom, .. } = self.area;
        for tick in ticks {
            let x = self.x.at(tick.value);
            canvas.path([(x, bottom), (x, bottom + 6.0)], &stroke(INK, 1.0));
            canvas.text(LABEL.middle(), (x, bottom + 24.0), &tick.label);
        }
        canvas.path([(left, bottom), (right, bottom)], &stroke(INK, 1.25));
        let middle = f64::midpoint(left, right);
        canvas.text_within(LABEL.middle(), (middle, bottom + 50.0), self.area.width(), name);
    }

    /// Draws a second vertical axis to the right of the area; its name ends at `name_x`.
    pub(crate) fn right_axis(
        &self,
        canvas: &mut Canvas,
        scale: Scale,
        ticks: &[Tick],
        (name, name_x): (&str, f64),
    ) {
        let Area { right, top, bottom, .. } = self.area;
        canvas.path([(right, top), (right, bottom)], &stroke(INK, 1.0));
        for tick in ticks {
            let y = scale.at(tick.value);
            canvas.path([(right, y), (right + 6.0, y)], &stroke(INK, 1.0));
            canvas.text(LABEL, (right + 11.0, y + BASE_LINE), &tick.label);
        }
        canvas.text(LABEL.end(), (name_x, top - 16.0), name);
    }
}
