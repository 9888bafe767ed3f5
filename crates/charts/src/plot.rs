//! The frame of a chart: its area, grid, ticks and the names of its axes.

use crate::colours::{INK, LINE};
use crate::scale::{Scale, Tick};
use crate::svg::{Canvas, Type, stroke};

/// The size of labels.
pub(crate) const LABEL_SIZE: f64 = 16.0;
/// The room above an area that the name of its vertical axis takes.
pub(crate) const ABOVE: f64 = 34.0;
/// The room below it that the labels and the name of its horizontal axis take.
pub(crate) const BELOW: f64 = 58.0;

const LABEL: Type = Type::new(LABEL_SIZE).muted();
/// The base line of text below the middle of what it stands beside.
pub(crate) const BASE_LINE: f64 = 5.5;

/// Where the lines of a chart are drawn.
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

    /// The coordinates of a horizontal axis.
    pub(crate) fn across(&self) -> (f64, f64) {
        (self.left, self.right)
    }

    /// The coordinates of a vertical axis, which begins at the bottom.
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
    /// Grid lines with their labels to the left of the area, and `name` above them from `name_x` on.
    pub(crate) fn y_axis(&self, canvas: &mut Canvas, ticks: &[Tick], name: &str, name_x: f64) {
        let Area { left, right, top, .. } = self.area;
        for tick in ticks {
            let y = self.y.at(tick.value);
            canvas.path([(left, y), (right, y)], &stroke(LINE, 1.0));
            canvas.text(LABEL.end(), (left - 10.0, y + BASE_LINE), &tick.label);
        }
        canvas.text(LABEL, (name_x, top - 16.0), name);
    }

    /// Ticks with their labels below the area, and `name` below those.
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

    /// Another scale of the same vertical axis, to the right of the area, its name up to `name_x`.
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
