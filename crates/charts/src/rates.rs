//! A chart of a rate over time: how much was done in each second.

use moirai_units::grouped_decimals;

use crate::colours::{BLUE, INK, ORANGE};
use crate::plot::{ABOVE, Area, BELOW, LABEL_SIZE, Plot};
use crate::scale::Scale;
use crate::svg::{Canvas, Type, stroke};

const WIDTH: f64 = 1000.0;
const MARGIN: f64 = 40.0;
const HEIGHT: f64 = 280.0;
const LEFT: f64 = 60.0;
/// More seconds than that are drawn as the means of as many that follow each other.
const POINTS_MAX: usize = 500;

const TITLE: Type = Type::new(28.0).bold();
const LABEL: Type = Type::new(LABEL_SIZE).muted();

/// Draws what was done in each second, and the mean. `what` names it, as in "transactions a second".
#[must_use]
pub fn rates(title: &str, what: &str, by_second: &[u64]) -> String {
    let mut canvas = Canvas::default();
    let room = WIDTH - 2.0 * MARGIN;
    canvas.text_within(TITLE, (MARGIN, 58.0), room, title);
    let top = 66.0 + ABOVE + 24.0;
    let area = Area { left: MARGIN + LEFT, top, right: WIDTH - MARGIN, bottom: top + HEIGHT };
    let points = points(by_second);
    let highest = points.iter().map(|(_, rate)| *rate).fold(0.0, f64::max);
    let plot = Plot {
        area,
        x: Scale::linear((0.0, by_second.len().max(1) as f64), area.across()),
        y: Scale::linear((0.0, highest * 1.05), area.upwards()),
    };
    plot.y_axis(&mut canvas, &plot.y.ticks(5, false), what, MARGIN);
    plot.x_axis(&mut canvas, &plot.x.ticks_across(LABEL_SIZE, false), "seconds");
    let Area { left, right, bottom, .. } = area;
    canvas.path([(left, top), (left, bottom)], &stroke(INK, 1.25));
    let line = points.iter().map(|(second, rate)| (plot.x.at(*second), plot.y.at(*rate)));
    canvas.path(line, &format!("{} stroke-linejoin=\"round\"", stroke(BLUE, 2.0)));
    let mean = by_second.iter().sum::<u64>() as f64 / by_second.len().max(1) as f64;
    let y = plot.y.at(mean);
    canvas.path(
        [(left, y), (right, y)],
        &format!("{} stroke-dasharray=\"11 5\"", stroke(ORANGE, 1.5)),
    );
    canvas.text(LABEL.end(), (right, y - 7.0), &format!("mean {}", grouped_decimals(mean, 0)));
    let description = "What was done in each second, as a line, and the mean.";
    canvas.finish((WIDTH, bottom + BELOW + 16.0), title, description)
}

/// The middles of the seconds and the rates in them, of as many seconds as make few points.
fn points(by_second: &[u64]) -> Vec<(f64, f64)> {
    let together = by_second.len().div_ceil(POINTS_MAX).max(1);
    let of = |(index, seconds): (usize, &[u64])| {
        let count = seconds.len() as f64;
        let middle = (index * together) as f64 + count / 2.0;
        (middle, seconds.iter().sum::<u64>() as f64 / count)
    };
    by_second.chunks(together).enumerate().map(of).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn points_are_means_in_the_middle_of_their_seconds() {
        assert_eq!(points(&[4, 8]), [(0.5, 4.0), (1.5, 8.0)]);
        let many: Vec<u64> = (0..1200).collect();
        let points = points(&many);
        assert_eq!(points.len(), 400);
        assert_eq!((points[0], points[399]), ((1.5, 1.0), (1198.5, 1198.0)));
        assert_eq!(super::points(&[]), []);
    }
}
