//! How long tracks are, and so how fast data pass the head, by cylinder.

use moirai_models::Profile;

use super::bands::{Band, Shades, bands};
use super::{COLUMN_WIDTH, media_rate, part};
use crate::colours::INK;
use crate::plot::{ABOVE, Area, BELOW, LABEL_SIZE, Plot};
use crate::scale::Scale;
use crate::svg::{Canvas, Place, fill, stroke};

const HEIGHT: f64 = 250.0;
const LEFT: f64 = 84.0;
const RIGHT: f64 = 76.0;

/// Draws the chart with its top left corner at `place`; gives its bottom.
pub(super) fn draw(canvas: &mut Canvas, profile: &Profile, place: Place) -> f64 {
    let note = "What passes under a head that stays on its track.";
    let top = part(canvas, place, (COLUMN_WIDTH, 2), "Media rate", note) + ABOVE + 14.0;
    let right = place.0 + COLUMN_WIDTH;
    let area = Area { left: place.0 + LEFT, top, right: right - RIGHT, bottom: top + HEIGHT };
    let bands = bands(profile);
    let most = bands.iter().map(|band| band.track_sectors).max().unwrap_or(1);
    let highest = f64::from(most) * 1.1;
    let cylinders = f64::from(profile.geometry.cylinders());
    let plot = Plot {
        area,
        x: Scale::linear((0.0, cylinders), area.across()),
        y: Scale::linear((0.0, highest), area.upwards()),
    };
    plot.y_axis(canvas, &plot.y.ticks(5, true), "sectors per track", place.0);
    steps(canvas, &plot, &bands, &Shades::new(profile));
    let rate = Scale::linear((0.0, media_rate(profile, most) * 1.1), area.upwards());
    plot.right_axis(canvas, rate, &rate.ticks(5, false), ("MB/s", right));
    plot.x_axis(canvas, &plot.x.ticks_across(LABEL_SIZE, true), "cylinder, from the rim inwards");
    area.bottom + BELOW
}

fn steps(canvas: &mut Canvas, plot: &Plot, bands: &[Band], shades: &Shades) {
    let mut line = Vec::new();
    let mut end = None;
    for band in bands {
        let (left, right) =
            (plot.x.at(f64::from(band.first_cylinder)), plot.x.at(f64::from(band.end)));
        let top = plot.y.at(f64::from(band.track_sectors));
        let look =
            format!("{} shape-rendering=\"crispEdges\"", fill(&shades.of(band.track_sectors)));
        canvas.rect((left, top), (right - left, plot.area.bottom - top), &look);
        if end.is_some_and(|end| end != band.first_cylinder) {
            canvas.path(line.drain(..), &stroke(INK, 2.0));
        }
        line.extend([(left, top), (right, top)]);
        end = Some(band.end);
    }
    canvas.path(line, &stroke(INK, 2.0));
}
