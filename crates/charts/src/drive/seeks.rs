//! The seek curve: seek time by distance.

use std::collections::BTreeSet;

use moirai_models::Profile;

use super::heading::average_distance;
use super::{COLUMN_WIDTH, part};
use crate::colours::{BLUE, INK, LINE, MUTED};
use crate::plot::{ABOVE, Area, BASE_LINE, BELOW, LABEL_SIZE, Plot};
use crate::scale::Scale;
use crate::svg::{Canvas, Place, Type, fill, stroke};
use crate::text::significant;

const HEIGHT: f64 = 250.0;
const LEFT: f64 = 52.0;
/// Room for half of the last label.
const RIGHT: f64 = 24.0;
/// Room for the label of the average seek.
const AVERAGE_ROOM: f64 = 240.0;
/// Distances at which the curve is computed, evenly spaced on the logarithmic axis.
const SAMPLES: u32 = 250;
/// A curve with as many measured points has no dots: they would hide the line.
const DOTS_MAX: usize = 300;

const LABEL: Type = Type::new(LABEL_SIZE).muted();

/// Draws the chart with its top left corner at `place`; gives its bottom.
pub(super) fn draw(canvas: &mut Canvas, profile: &Profile, place: Place) -> f64 {
    let longest = profile.geometry.cylinders().saturating_sub(1);
    let note = note(profile, longest);
    let top = part(canvas, place, (COLUMN_WIDTH, 2), "Seek time", &note) + ABOVE + 14.0;
    let right = place.0 + COLUMN_WIDTH - RIGHT;
    let area = Area { left: place.0 + LEFT, top, right, bottom: top + HEIGHT };
    if longest == 0 {
        nothing(canvas, area);
        return area.bottom + BELOW;
    }
    let curve = curve(profile, longest);
    let highest = curve.iter().map(|(_, ms)| *ms).fold(0.0, f64::max) * 1.2;
    let plot = Plot {
        area,
        x: Scale::logarithmic(f64::from(longest), area.across()),
        y: Scale::linear((0.0, highest), area.upwards()),
    };
    plot.y_axis(canvas, &plot.y.ticks(7, false), "ms", place.0);
    average(canvas, &plot, profile);
    line(canvas, &plot, &curve);
    dots(canvas, &plot, profile, longest);
    let name = "distance in cylinders (logarithmic scale)";
    for distance in plot.x.between_powers() {
        let x = plot.x.at(distance);
        canvas.path([(x, area.bottom), (x, area.bottom + 3.0)], &stroke(INK, 0.75));
    }
    plot.x_axis(canvas, &plot.x.ticks_across(LABEL_SIZE, true), name);
    area.bottom + BELOW
}

fn note(profile: &Profile, longest: u32) -> String {
    let ms = |distance| significant(profile.mechanics.seek.time(distance).as_ms());
    match longest {
        0 => "The drive has one cylinder.".into(),
        1 => format!("{} ms to the other cylinder.", ms(1)),
        _ => format!("{} ms to the next cylinder, {} ms across all cylinders.", ms(1), ms(longest)),
    }
}

fn nothing(canvas: &mut Canvas, area: Area) {
    canvas.rect((area.left, area.top), (area.width(), area.height()), &stroke(LINE, 1.0));
    let middle = (f64::midpoint(area.left, area.right), f64::midpoint(area.top, area.bottom));
    canvas.text(LABEL.middle(), middle, "The arm never moves.");
}

/// Returns points of the curve, as distance and milliseconds, close enough to look smooth.
fn curve(profile: &Profile, longest: u32) -> Vec<(f64, f64)> {
    let seek = &profile.mechanics.seek;
    let spaced = (0..=SAMPLES).map(|index| {
        let share = f64::from(index) / f64::from(SAMPLES);
        f64::from(longest).powf(share).round() as u32
    });
    let given = seek.points().map(|(distance, _)| distance);
    let given = given.take(if has_dots(profile) { DOTS_MAX } else { 0 });
    let distances: BTreeSet<u32> =
        spaced.chain(given).filter(|distance| (1..=longest).contains(distance)).collect();
    let point = |distance| (f64::from(distance), seek.time(distance).as_ms());
    distances.into_iter().map(point).collect()
}

/// Whether the points of the curve have dots. Points of a formula have none, because nobody measured them.
fn has_dots(profile: &Profile) -> bool {
    profile.file.seek.is_none() && profile.mechanics.seek.points().len() < DOTS_MAX
}

fn line(canvas: &mut Canvas, plot: &Plot, curve: &[(f64, f64)]) {
    let places = curve.iter().map(|(distance, ms)| (plot.x.at(*distance), plot.y.at(*ms)));
    canvas.path(places, &format!("{} stroke-linejoin=\"round\"", stroke(BLUE, 2.0)));
    // The curve of a drive with two cylinders is one point.
    if let [(distance, ms)] = curve {
        canvas.circle((plot.x.at(*distance), plot.y.at(*ms)), 2.75, &fill(BLUE));
    }
}

fn dots(canvas: &mut Canvas, plot: &Plot, profile: &Profile, longest: u32) {
    if !has_dots(profile) {
        return;
    }
    for (distance, time) in profile.mechanics.seek.points() {
        if distance <= longest {
            let place = (plot.x.at(f64::from(distance)), plot.y.at(time.as_ms()));
            canvas.circle(place, 2.75, &fill(BLUE));
        }
    }
}

/// Marks the average seek at its distance. No curve reaches the strip at the top, where its label stands.
fn average(canvas: &mut Canvas, plot: &Plot, profile: &Profile) {
    let Some(distance) = average_distance(profile) else { return };
    let ms = profile.mechanics.seek.time(distance).as_ms();
    let x = plot.x.at(f64::from(distance));
    let Area { top, bottom, left, .. } = plot.area;
    let look = format!("{} stroke-dasharray=\"5 4\"", stroke(MUTED, 1.25));
    canvas.path([(x, bottom), (x, top)], &look);
    let name = format!("average (a third): {} ms", significant(ms));
    let is_left = x - left < AVERAGE_ROOM;
    let (label, x) = if is_left { (LABEL, x + 8.0) } else { (LABEL.end(), x - 8.0) };
    canvas.text(label, (x, top + 11.0 + BASE_LINE), &name);
}
