//! The picture of a drive: key figures, zones, media rate, seek curve and first tracks.

mod bands;
mod heading;
mod platter;
mod rates;
mod seeks;
mod tracks;

use moirai_models::Profile;
use moirai_units::BLOCK_BYTES;

use crate::svg::{Canvas, Place, Type};
use crate::text::wrap;

const WIDTH: f64 = 1200.0;
/// The blank space at the left and right edges.
const MARGIN: f64 = 48.0;
/// The space between two parts of the picture.
const GAP: f64 = 52.0;
/// The space between the two columns of a row.
const GUTTER: f64 = 64.0;
const COLUMN_WIDTH: f64 = (WIDTH - 2.0 * MARGIN - GUTTER) / 2.0;

const PART: Type = Type::new(22.0).bold();
const NOTE: Type = Type::new(16.0).muted();
const NOTE_PITCH: f64 = 22.0;

/// Draws a drive: its zones as seen from above, its media rate over the cylinders, its seek curve, and its first
/// tracks unrolled.
#[must_use]
pub fn drive(profile: &Profile) -> String {
    let mut canvas = Canvas::default();
    let mut bottom = heading::draw(&mut canvas, profile);
    bottom = platter::draw(&mut canvas, profile, bottom + GAP);
    let row = bottom + GAP;
    let rates = rates::draw(&mut canvas, profile, (MARGIN, row));
    let seeks = seeks::draw(&mut canvas, profile, (MARGIN + COLUMN_WIDTH + GUTTER, row));
    bottom = tracks::draw(&mut canvas, profile, rates.max(seeks) + GAP);
    let name = &profile.file.name;
    canvas.finish(
        (WIDTH, bottom + MARGIN),
        &format!("The drive {name}"),
        &format!(
            "{}. Its zones as rings, its media rate by cylinder, its seek time by distance, and \
             the angles of the blocks of its first tracks.",
            profile.file.description
        ),
    )
}

/// Draws the heading of a part and its explanation, at most `lines` long; returns the bottom.
fn part(
    canvas: &mut Canvas,
    (x, top): Place,
    (room, lines): (f64, usize),
    title: &str,
    note: &str,
) -> f64 {
    canvas.text(PART, (x, top + 18.0), title);
    let mut base_line = top + 46.0;
    for line in wrap(note, NOTE.size, room, lines) {
        canvas.text(NOTE, (x, base_line), &line);
        base_line += NOTE_PITCH;
    }
    base_line - NOTE_PITCH + 6.0
}

/// Returns the media rate of a track of `sectors`, in million bytes per second.
fn media_rate(profile: &Profile, sectors: u32) -> f64 {
    let revolution_s = profile.mechanics.revolution_ps as f64 / 1e12;
    f64::from(sectors) * BLOCK_BYTES as f64 / 1e6 / revolution_s
}

/// Returns the time of one revolution in milliseconds.
fn revolution_ms(profile: &Profile) -> f64 {
    profile.mechanics.revolution_ps as f64 / 1e9
}
