//! The first tracks, unrolled: the angles of their blocks, and the skew from track to track.

mod unrolled;

use moirai_models::{Profile, Track};
use moirai_units::{Lbn, grouped, grouped_decimals};

use super::{MARGIN, WIDTH, part, revolution_ms};
use crate::colours::{BLUE, INK, LINE, ORANGE, lightest};
use crate::plot::{Area, BASE_LINE, BELOW, LABEL_SIZE, Plot};
use crate::scale::Scale;
use crate::svg::{Canvas, Type, fill, stroke};
use crate::text::{counted, width};
use unrolled::Unrolled;

const TRACKS_MAX: usize = 12;
/// With as many tracks of two cylinders, the picture leaves out the third cylinder.
const TRACKS_ENOUGH: usize = 8;
const BAR_HEIGHT: f64 = 20.0;
const PITCH: f64 = 36.0;
/// The left edge of the bars.
const BARS_LEFT: f64 = 206.0;
/// The right ends of the columns of cylinders and heads.
const CYLINDER: f64 = 118.0;
const HEAD: f64 = 178.0;
const BLOCKS: &str = "blocks (LBNs)";

const CELL: Type = Type::new(17.0);
const LABEL: Type = Type::new(LABEL_SIZE).muted();

/// Draws the tracks; returns the bottom.
pub(super) fn draw(canvas: &mut Canvas, profile: &Profile, top: f64) -> f64 {
    let tracks = first_tracks(profile);
    let title = match tracks.len() {
        1 => "The first track, unrolled".to_owned(),
        count => format!("The first {count} tracks, unrolled"),
    };
    let room = WIDTH - 2.0 * MARGIN;
    let top = part(canvas, (MARGIN, top), (room, 3), &title, &note(profile)) + 60.0;
    let area = Area {
        left: BARS_LEFT,
        top,
        right: WIDTH - MARGIN - names_room(&tracks) - 28.0,
        bottom: top + PITCH * tracks.len() as f64 - (PITCH - BAR_HEIGHT) + 12.0,
    };
    header(canvas, top - 22.0);
    axis(canvas, profile, area);
    let mut before: Option<Unrolled> = None;
    for (index, track) in tracks.iter().enumerate() {
        let bar = Area { top: top + PITCH * index as f64, ..area };
        let bar = Area { bottom: bar.top + BAR_HEIGHT, ..bar };
        let unrolled = Unrolled::new(&profile.geometry, track);
        blocks(canvas, track, &unrolled, bar);
        arrow(canvas, before.as_ref(), &unrolled, bar);
        names(canvas, track, bar);
        before = Some(unrolled);
    }
    area.bottom + BELOW
}

/// Returns the tracks of the first two cylinders, and more of cylinders with few tracks.
fn first_tracks(profile: &Profile) -> Vec<Track> {
    let mut tracks: Vec<Track> = Vec::new();
    let (mut next, mut cylinders) = (Lbn(0), 0);
    while tracks.len() < TRACKS_MAX {
        let Some(track) = profile.geometry.track(next) else { break };
        if tracks.last().is_none_or(|last| last.cylinder != track.cylinder) {
            cylinders += 1;
            if cylinders > 2 && tracks.len() >= TRACKS_ENOUGH {
                break;
            }
        }
        if track.blocks.end() <= next {
            break;
        }
        next = track.blocks.end();
        tracks.push(track);
    }
    tracks
}

fn note(profile: &Profile) -> String {
    let mut note = "From left to right is one revolution. A track is darkest at its first block; \
                    sectors without blocks are blank."
        .to_owned();
    let (cylinders, heads) = (profile.geometry.cylinders(), profile.geometry.heads());
    let Some(zone) = profile.geometry.zones().next().filter(|_| cylinders > 1 || heads > 1) else {
        return note;
    };
    let revolution = revolution_ms(profile);
    let ms = |skew: u32| {
        grouped_decimals(f64::from(skew) / f64::from(zone.track_sectors) * revolution, 2)
    };
    let skew = |skew: u32| format!("{} ({} ms)", counted(skew, "sector"), ms(skew));
    note += " Orange arrows lead to the next track. Skew at the rim: ";
    let (by_head, by_cylinder) = (skew(zone.track_skew), skew(zone.cylinder_skew));
    note += &match (heads, cylinders) {
        (1, _) => by_cylinder,
        (_, 1) => by_head,
        _ if by_head == by_cylinder => by_head,
        _ => format!("{by_head} between heads, {by_cylinder} between cylinders"),
    };
    note.push('.');
    note
}

fn header(canvas: &mut Canvas, base_line: f64) {
    canvas.text(LABEL.end(), (CYLINDER, base_line), "cylinder");
    canvas.text(LABEL.end(), (HEAD, base_line), "head");
    canvas.text(LABEL.end(), (WIDTH - MARGIN, base_line), BLOCKS);
}

fn names(canvas: &mut Canvas, track: &Track, bar: Area) {
    let base_line = f64::midpoint(bar.top, bar.bottom) + BASE_LINE;
    canvas.text_within(
        CELL.end(),
        (CYLINDER, base_line),
        CYLINDER - MARGIN,
        &grouped(track.cylinder),
    );
    canvas.text_within(CELL.end(), (HEAD, base_line), 50.0, &grouped(track.head));
    canvas.text(CELL.end(), (WIDTH - MARGIN, base_line), &blocks_of(track));
}

fn blocks_of(track: &Track) -> String {
    let last = track.blocks.end().0.saturating_sub(1);
    match track.blocks.count.0 {
        1 => grouped(last),
        _ => format!("{} to {}", grouped(track.blocks.first.0), grouped(last)),
    }
}

/// Returns the width of the column of blocks.
fn names_room(tracks: &[Track]) -> f64 {
    let widths = tracks.iter().map(|track| width(&blocks_of(track), CELL.size, false));
    widths.fold(width(BLOCKS, LABEL.size, false), f64::max)
}

fn axis(canvas: &mut Canvas, profile: &Profile, area: Area) {
    let revolution = revolution_ms(profile);
    let (x, y) = (
        Scale::linear((0.0, revolution), area.across()),
        Scale::linear((0.0, 1.0), area.upwards()),
    );
    let ticks = x.ticks_across(LABEL_SIZE, false);
    for tick in &ticks {
        let x = x.at(tick.value);
        canvas.path([(x, area.top - 14.0), (x, area.bottom)], &stroke(LINE, 1.0));
    }
    canvas.path([(area.right, area.top - 14.0), (area.right, area.bottom)], &stroke(LINE, 1.0));
    let name = format!(
        "ms after the index mark; a revolution takes {} ms",
        grouped_decimals(revolution, 3)
    );
    Plot { area, x, y }.x_axis(canvas, &ticks, &name);
}

/// Draws the outline of a track, and its blocks in shades that follow their order.
fn blocks(canvas: &mut Canvas, track: &Track, unrolled: &Unrolled, bar: Area) {
    let shading = shading(canvas, track, bar);
    for (from, to) in &unrolled.pieces {
        let (left, right) = (bar.left + from * bar.width(), bar.left + to * bar.width());
        canvas.rect((left, bar.top), (right - left, bar.height()), &shading);
    }
    canvas.rect((bar.left, bar.top), (bar.width(), bar.height()), &stroke(INK, 0.75));
}

/// Defines a gradient from dark to light, once round the track from its first sector. The name of the gradient holds
/// all its parameters, so that equal names in two pictures of one page mean equal gradients.
fn shading(canvas: &mut Canvas, track: &Track, bar: Area) -> String {
    let share = f64::from(track.origin_sector) / f64::from(track.sectors.max(1));
    let from = (bar.left + share * bar.width()).round();
    let (to, light) = (from + bar.width(), lightest());
    let name = format!("moirai-revolution-{from}-{to}");
    canvas.add(&format!(
        "<linearGradient id=\"{name}\" gradientUnits=\"userSpaceOnUse\" x1=\"{from}\" y1=\"0\" \
         x2=\"{to}\" y2=\"0\" spreadMethod=\"repeat\"><stop offset=\"0\" stop-color=\"{BLUE}\"/>\
         <stop offset=\"1\" stop-color=\"{light}\"/></linearGradient>"
    ));
    fill(&format!("url(#{name})"))
}

/// Draws an arrow from the end of the previous track, across the index mark if need be, to the first block of this
/// track.
fn arrow(canvas: &mut Canvas, before: Option<&Unrolled>, here: &Unrolled, bar: Area) {
    let (Some(before), Some(to)) = (before.and_then(|before| before.end), here.first) else {
        return;
    };
    let x = |share: f64| bar.left + share * bar.width();
    let (above, middle) = (bar.top - (PITCH - BAR_HEIGHT), bar.top - 10.0);
    let (from_x, to_x) = (x(before), x(to));
    let look = stroke(ORANGE, 2.0);
    let arrive = [(to_x, middle), (to_x, bar.top - 4.0)];
    if to_x >= from_x {
        canvas.path([(from_x, above), (from_x, middle)].into_iter().chain(arrive), &look);
    } else {
        let over = 10.0;
        canvas.path([(from_x, above), (from_x, middle), (bar.right + over, middle)], &look);
        canvas.path([(bar.left - over, middle)].into_iter().chain(arrive), &look);
    }
    let tip = [(to_x - 5.0, bar.top - 7.0), (to_x + 5.0, bar.top - 7.0), (to_x, bar.top)];
    canvas.path(tip, &fill(ORANGE));
}
