//! A chart of response times: the cumulative distribution of each run.

use moirai_units::Nanos;

use crate::colours::{INK, SERIES};
use crate::plot::{ABOVE, Area, BELOW, LABEL_SIZE, Plot};
use crate::scale::Scale;
use crate::svg::{Canvas, Type, stroke};
use crate::text::{counted, significant, width, wrap};

const WIDTH: f64 = 1000.0;
const MARGIN: f64 = 40.0;
const HEIGHT: f64 = 400.0;
const LEFT: f64 = 60.0;
/// A curve of more values has slopes between quantiles instead of a step for each value.
const STEPS_MAX: usize = 250;
const QUANTILES_MAX: usize = 500;
/// The axis may end at this quantile of the slowest series.
const CUT: f64 = 0.999;

const TITLE: Type = Type::new(28.0).bold();
const NOTE: Type = Type::new(18.0).muted();
const NAME: Type = Type::new(17.0);
const LABEL: Type = Type::new(LABEL_SIZE).muted();
/// The length of the line beside a name in the legend.
const SAMPLE: f64 = 44.0;
const LEGEND_PITCH: f64 = 28.0;

/// A series: its name, its values in ascending order, and the attributes of its line.
struct Series<'a> {
    name: &'a str,
    sorted_ms: Vec<f64>,
    look: String,
}

/// Draws the cumulative distributions of response times: for each of `series`, the part of its requests that took at
/// most a given time. `note` stands below the title. The sixth series looks like the first again.
#[must_use]
pub fn distributions(title: &str, series: &[(&str, &[Nanos])], note: &str) -> String {
    let series: Vec<Series> =
        series.iter().enumerate().map(|(index, given)| Series::new(index, *given)).collect();
    let mut canvas = Canvas::default();
    let room = WIDTH - 2.0 * MARGIN;
    canvas.text_within(TITLE, (MARGIN, 58.0), room, title);
    let mut bottom = 66.0;
    for line in wrap(note, NOTE.size, room, 3) {
        bottom += 25.0;
        canvas.text(NOTE, (MARGIN, bottom), &line);
    }
    bottom = legend(&mut canvas, &series, bottom + 14.0);
    let top = bottom + ABOVE + 12.0;
    let area = Area { left: MARGIN + LEFT, top, right: WIDTH - MARGIN, bottom: top + HEIGHT };
    let end = End::of(&series);
    let plot = Plot {
        area,
        x: Scale::linear((0.0, end.ms), area.across()),
        y: Scale::linear((0.0, 1.0), area.upwards()),
    };
    axes(&mut canvas, &plot, end);
    for series in &series {
        canvas.path(series.corners(end.ms, &plot), &series.look);
    }
    if series.iter().all(|series| series.sorted_ms.is_empty()) {
        let middle = (f64::midpoint(area.left, area.right), f64::midpoint(area.top, area.bottom));
        canvas.text(LABEL.middle(), middle, "No requests");
    }
    let description = "Cumulative distributions of response times, one line for each series.";
    canvas.finish((WIDTH, area.bottom + BELOW + 16.0), title, description)
}

/// The end of the time axis, and whether it cuts off the slowest requests.
#[derive(Clone, Copy)]
struct End {
    ms: f64,
    is_cut: bool,
}

impl End {
    fn of(series: &[Series]) -> End {
        let slowest = series.iter().filter_map(|series| series.sorted_ms.last().copied());
        let slowest = slowest.fold(0.0, f64::max);
        let cut = series.iter().filter_map(Series::cut_ms).fold(0.0, f64::max);
        let is_cut = cut < slowest;
        // The axis goes on a little after the slowest request, so that the end of the curve shows.
        match slowest {
            _ if is_cut => End { ms: cut, is_cut },
            0.0 => End { ms: 1.0, is_cut },
            _ => End { ms: slowest * 1.05, is_cut },
        }
    }
}

fn axes(canvas: &mut Canvas, plot: &Plot, end: End) {
    plot.y_axis(canvas, &plot.y.ticks(5, false), "fraction of requests", MARGIN);
    let name = if end.is_cut {
        let cut = significant(end.ms);
        format!("response time in ms (cut at {cut}, the 99.9th percentile of the slowest series)")
    } else {
        "response time in ms".to_owned()
    };
    plot.x_axis(canvas, &plot.x.ticks_across(LABEL_SIZE, false), &name);
    let Area { left, top, bottom, .. } = plot.area;
    canvas.path([(left, top), (left, bottom)], &stroke(INK, 1.25));
}

/// Draws the legend, a name beside a piece of its line; returns the bottom.
fn legend(canvas: &mut Canvas, series: &[Series], top: f64) -> f64 {
    let (mut left, mut middle) = (MARGIN, top + LEGEND_PITCH / 2.0);
    for series in series {
        let name = series.legend();
        let room = WIDTH - 2.0 * MARGIN - SAMPLE - 10.0;
        let length = SAMPLE + 10.0 + width(&name, NAME.size, false).min(room);
        if left > MARGIN && left + length > WIDTH - MARGIN {
            (left, middle) = (MARGIN, middle + LEGEND_PITCH);
        }
        canvas.path([(left, middle), (left + SAMPLE, middle)], &series.look);
        canvas.text_within(NAME, (left + SAMPLE + 10.0, middle + 6.0), room, &name);
        left += length + 28.0;
    }
    middle + LEGEND_PITCH / 2.0
}

impl<'a> Series<'a> {
    fn new(index: usize, (name, values): (&'a str, &[Nanos])) -> Series<'a> {
        let mut sorted_ms: Vec<f64> = values.iter().map(|value| value.as_ms()).collect();
        sorted_ms.sort_by(f64::total_cmp);
        let (colour, dashes) = SERIES.get(index % SERIES.len()).copied().unwrap_or((INK, "none"));
        // The first line lies below the others and shows between their dashes.
        let width = if index == 0 { 3.5 } else { 2.5 };
        let look = format!(
            "{} stroke-dasharray=\"{dashes}\" stroke-linejoin=\"round\"",
            stroke(colour, width)
        );
        Series { name, sorted_ms, look }
    }

    fn legend(&self) -> String {
        let Series { name, sorted_ms, .. } = self;
        format!("{name} ({})", counted(sorted_ms.len() as u64, "request"))
    }

    /// Returns the 99.9th percentile.
    fn cut_ms(&self) -> Option<f64> {
        let rank = (self.sorted_ms.len() as f64 * CUT).ceil() as usize;
        self.sorted_ms.get(rank.checked_sub(1)?).copied()
    }

    /// Returns the corners of the curve up to `end_ms`: of a step for each of few values, otherwise of slopes
    /// between quantiles, each of which rises by less than a pixel.
    fn corners(&self, end_ms: f64, plot: &Plot) -> Vec<(f64, f64)> {
        let count = self.sorted_ms.len();
        let quantiles = count.min(QUANTILES_MAX);
        let (mut x, mut y) = (0.0, 0.0);
        let mut corners = vec![(x, y)];
        for quantile in 1..=quantiles {
            let rank = count * quantile / quantiles;
            let Some(ms) = self.sorted_ms.get(rank - 1).filter(|ms| **ms <= end_ms) else { break };
            x = *ms;
            if quantile == 1 || count <= STEPS_MAX {
                corners.push((x, y));
            }
            y = rank as f64 / count as f64;
            corners.push((x, y));
        }
        if count > 0 {
            corners.push((end_ms, y));
        }
        corners.into_iter().map(|(x, y)| (plot.x.at(x), plot.y.at(y))).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn plot() -> Plot {
        let area = Area { left: 0.0, top: 0.0, right: 100.0, bottom: 100.0 };
        let x = Scale::linear((0.0, 10.0), area.across());
        Plot { area, x, y: Scale::linear((0.0, 1.0), area.upwards()) }
    }

    fn series(times_ms: impl Iterator<Item = u32>) -> Series<'static> {
        let times: Vec<Nanos> = times_ms.map(|ms| Nanos::from_ms(f64::from(ms))).collect();
        Series::new(0, ("name", &times))
    }

    #[test]
    fn curve_of_few_values_has_a_step_for_each() {
        let corners = series([5, 1].into_iter()).corners(10.0, &plot());
        let steps = [(0, 100), (10, 100), (10, 50), (50, 50), (50, 0), (100, 0)];
        assert_eq!(corners, steps.map(|(x, y)| (f64::from(x), f64::from(y))));
    }

    #[test]
    fn curve_of_many_values_has_few_points_and_leaves_out_the_slowest() {
        let many = series((0..100_000).map(|index| if index < 99 { 5000 } else { index % 10 }));
        assert!(many.corners(10.0, &plot()).len() <= QUANTILES_MAX + 3);
        let end = End::of(&[many]);
        assert_eq!((end.ms, end.is_cut), (9.0, true));
        let end = End::of(&[series(0..100)]);
        assert_eq!((end.ms, end.is_cut), (99.0 * 1.05, false));
    }
}
