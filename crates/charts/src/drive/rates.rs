//! The media rate: how many sectors a track has, and how fast their bytes pass the head, by cylinder.

use moirai_models::Profile;

use super::bands::{Band, bands};
use super::{COLUMN_WIDTH, media_rate, part};
use crate::colours::INK;
use crate::plot::{ABOVE, Area, BELOW, LABEL_SIZE, Plot};
use crate::scale::Scale;
use crate::svg::{Canvas, Place, fill, stroke};

const HEIGHT: f64 = 250.0;
const LEFT: f64 = 84.0;
const RIGHT: f64 = 76.0;

/// Draws the chart with its top left corner at `place`; returns its bottom.
pub(super) fn draw(canvas: &mut Canvas, profile: &Profile, place: Place) -> f64 {
    let note = "The rate of a head on its track, in the colours of the zones.";
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
    steps(canvas, &plot, &bands);
    let rate = Scale::linear((0.0, media_rate(profile, most) * 1.1), area.upwards());
    plot.right_axis(canvas, rate, &rate.ticks(5, false), ("MB/s", right));
    plot.x_axis(canvas, &plot.x.ticks_across(LABEL_SIZE, true), "cylinder, from the rim inwards");
    area.bottom + BELOW
}

/// Draws the bands and a line along their tops.
fn steps(canvas: &mut Canvas, plot: &Plot, bands: &[Band]) {
    let mut line = Vec::new();
    let mut end = None;
    for band in bands {
        let (left, right) =
            (plot.x.at(f64::from(band.first_cylinder)), plot.x.at(f64::from(band.end)));
        let (top, bottom) = (plot.y.at(f64::from(band.track_sectors)), plot.area.bottom);
        let look = format!("{} shape-rendering=\"crispEdges\"", fill(&band.colour));
        // A path, because a rectangle's x and width are rounded apart: their sum would miss the next band's x
        // by a hundredth, and the background would show in the gap.
        canvas.path([(left, bottom), (left, top), (right, top), (right, bottom)], &look);
        if end.is_some_and(|end| end != band.first_cylinder) {
            canvas.path(line.drain(..), &stroke(INK, 2.0));
        }
        line.extend([(left, top), (right, top)]);
        end = Some(band.end);
    }
    canvas.path(line, &stroke(INK, 2.0));
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The left and right edge of each shape that shows a zone, as the picture spells them.
    fn edges(picture: &str) -> Vec<(f64, f64)> {
        let document = roxmltree::Document::parse(picture).unwrap();
        let is_zone = |node: &roxmltree::Node| node.has_attribute("shape-rendering");
        let number = |text: &str| text.parse::<f64>().unwrap();
        let edges = |node: roxmltree::Node| {
            let places = node.attribute("d").unwrap().split(['M', 'L']);
            let places = places.filter(|place| !place.is_empty());
            let xs = || places.clone().map(|place| number(place.split(' ').next().unwrap()));
            (xs().fold(f64::MAX, f64::min), xs().fold(0.0, f64::max))
        };
        document.descendants().filter(is_zone).map(edges).collect()
    }

    #[test]
    fn neighbouring_zones_share_an_edge() {
        let profile = Profile::built_in("quantum-atlas-10k").unwrap();
        let mut canvas = Canvas::default();
        draw(&mut canvas, &profile, (48.0, 800.0));
        let edges = edges(&canvas.finish((1200.0, 1200.0), "", ""));
        assert_eq!(edges.len(), 24);
        for (zone, pair) in edges.windows(2).enumerate() {
            // A gap of any width shows the background as a line at some zoom.
            assert_eq!(pair[0].1, pair[1].0, "zones {zone} and {}", zone + 1);
        }
    }
}
