//! The zones: as rings seen from above, as a strip from the rim to the hub, and as a table.

use moirai_models::Profile;

use super::bands::{Band, bands, bands_alternate};
use super::{MARGIN, WIDTH, media_rate, part};
use crate::colours::{EMPTY, INK, LINE, MUTED, PAPER};
use crate::plot::BASE_LINE;
use crate::scale::Scale;
use crate::svg::{Canvas, Place, Type, fill, stroke};
use crate::text::width;
use moirai_units::{grouped, grouped_decimals};

const RADIUS: f64 = 196.0;
/// The radius of the hub, where no track is, as a part of the whole: a guess, and the note says so.
const HUB: f64 = 0.45;
/// The left and right edges of the strip.
const STRIP: (f64, f64) = (570.0, 606.0);
const TABLE_LEFT: f64 = 648.0;
/// Rows of the table; of a drive with more track lengths, the table lists some.
const ROWS_MAX: usize = 14;
const ROW_HEIGHT_MAX: f64 = 100.0;
/// The right ends of the table's columns of numbers, and the room of each.
const CYLINDERS: (f64, f64) = (944.0, 200.0);
const SECTORS: (f64, f64) = (1044.0, 90.0);
const RATE: (f64, f64) = (WIDTH - MARGIN, 96.0);

const CELL: Type = Type::new(17.0);
const LABEL: Type = Type::new(16.0).muted();
/// A zone's number in the strip; a thinner band has none.
const NUMBER: Type = Type::new(12.0).middle();
const NUMBERED_HEIGHT_MIN: f64 = 13.0;

/// Neighbouring zones with the same number of sectors per track.
struct Group {
    first_zone: usize,
    last_zone: usize,
    first_cylinder: u32,
    last_cylinder: u32,
    track_sectors: u32,
}

/// Draws the zones; returns the bottom.
pub(super) fn draw(canvas: &mut Canvas, profile: &Profile, top: f64) -> f64 {
    let groups = groups(profile);
    let bands = bands(profile);
    let colours = match bands_alternate(&bands) {
        true => "Dark and light blue alternate from zone to zone.",
        false => "A zone is the darker, the more sectors its tracks have.",
    };
    let note = format!("{colours} The radius shows the cylinder; the size of the hub is a guess.");
    let room = WIDTH - 2.0 * MARGIN;
    let top = part(canvas, (MARGIN, top), (room, 2), "Zones, seen from above", &note) + 66.0;
    let cylinders = profile.geometry.cylinders();
    rings(canvas, (MARGIN + RADIUS, top + RADIUS), &bands, cylinders);
    let along = Scale::linear((0.0, f64::from(cylinders)), (top, top + 2.0 * RADIUS));
    strip(canvas, &bands, along);
    strip_axis(canvas, along);
    let rows = some_of(&groups);
    table(canvas, profile, &rows, along);
    let mut bottom = along.end();
    if rows.len() < groups.len() {
        bottom += 26.0;
        let (shown, all) = (grouped(rows.len() as u64), grouped(groups.len() as u64));
        let note = format!("The table lists {shown} of {all} track lengths.");
        canvas.text(LABEL, (TABLE_LEFT, bottom), &note);
    }
    bottom
}

/// Groups neighbouring zones with the same number of sectors per track.
fn groups(profile: &Profile) -> Vec<Group> {
    let mut groups: Vec<Group> = Vec::new();
    for (index, zone) in profile.geometry.zones().enumerate() {
        let last_cylinder = zone.first_cylinder + (zone.cylinders - 1);
        match groups.last_mut() {
            Some(group) if group.track_sectors == zone.track_sectors => {
                (group.last_zone, group.last_cylinder) = (index, last_cylinder);
            }
            _ => groups.push(Group {
                first_zone: index,
                last_zone: index,
                first_cylinder: zone.first_cylinder,
                last_cylinder,
                track_sectors: zone.track_sectors,
            }),
        }
    }
    groups
}

/// Draws the rings, each over the inner part of the one outside, so that no gap shows between them.
fn rings(canvas: &mut Canvas, centre: Place, bands: &[Band], cylinders: u32) {
    let radius = Scale::linear((0.0, f64::from(cylinders)), (RADIUS, RADIUS * HUB));
    let mut disk = |cylinder: u32, look: &str| {
        canvas.circle(centre, radius.at(f64::from(cylinder)), look);
    };
    cover(bands, &mut disk, |from, to| radius.at(f64::from(from)) - radius.at(f64::from(to)));
    canvas.circle(centre, RADIUS, &stroke(INK, 1.25));
    let hub = format!("{} stroke=\"{INK}\" stroke-width=\"1.25\"", fill(PAPER));
    canvas.circle(centre, RADIUS * HUB, &hub);
    canvas.circle(centre, 4.0, &fill(MUTED));
    canvas.text(LABEL.middle(), (centre.0, centre.1 + 30.0), "hub");
    canvas.text(LABEL.middle(), (centre.0, centre.1 - RADIUS - 14.0), "rim: cylinder 0");
}

/// Draws the bands along a radius, with the numbers of the zones.
fn strip(canvas: &mut Canvas, bands: &[Band], along: Scale) {
    let (left, right) = STRIP;
    let place = |cylinder: u32| along.at(f64::from(cylinder));
    let mut rest = |cylinder: u32, look: &str| {
        let top = place(cylinder);
        canvas.rect((left, top), (right - left, along.end() - top), look);
    };
    cover(bands, &mut rest, |from, to| place(to) - place(from));
    rest(0, &stroke(INK, 1.25));
    for band in bands.iter().filter(|band| band.first_zone == band.last_zone) {
        let (top, bottom) = (place(band.first_cylinder), place(band.end));
        if bottom - top >= NUMBERED_HEIGHT_MIN {
            let middle = (f64::midpoint(left, right), f64::midpoint(top, bottom) + 4.3);
            let look = if band.is_dark { NUMBER.on_dark() } else { NUMBER };
            canvas.text(look, middle, &grouped(band.first_zone as u64));
        }
    }
}

/// Calls `cover_from` for each band and each gap between bands, from the rim inwards: the call covers everything
/// from its cylinder inwards. `thickness` is the distance between two cylinders in the picture.
fn cover(
    bands: &[Band],
    cover_from: &mut impl FnMut(u32, &str),
    thickness: impl Fn(u32, u32) -> f64,
) {
    let mut end = 0;
    cover_from(end, &fill(EMPTY));
    for band in bands {
        if band.first_cylinder > end {
            cover_from(end, &fill(EMPTY));
        }
        end = band.end;
        let look = edged(&band.colour, thickness(band.first_cylinder, end));
        cover_from(band.first_cylinder, &look);
    }
}

/// A surface with an edge, or without one if the edge would hide a surface of this `thickness`.
fn edged(colour: &str, thickness: f64) -> String {
    let edge = (thickness / 8.0).clamp(0.0, 0.75);
    if edge < 0.3 {
        return fill(colour);
    }
    format!("{} stroke=\"{PAPER}\" stroke-width=\"{edge:.2}\"", fill(colour))
}

fn strip_axis(canvas: &mut Canvas, along: Scale) {
    let left = STRIP.0;
    canvas.text(LABEL.end(), (left - 2.0, along.start() - 20.0), "cylinder");
    for tick in along.ticks(6, true) {
        let y = along.at(tick.value);
        canvas.path([(left - 6.0, y), (left, y)], &stroke(INK, 1.0));
        canvas.text(LABEL.end(), (left - 12.0, y + BASE_LINE), &tick.label);
    }
}

fn table(canvas: &mut Canvas, profile: &Profile, rows: &[&Group], along: Scale) {
    let top = along.start();
    header(canvas, top - 20.0);
    let height = (along.end() - top) / rows.len().max(1) as f64;
    let height = height.min(ROW_HEIGHT_MAX);
    for (index, group) in rows.iter().enumerate() {
        let middle = top + height * (index as f64 + 0.5);
        leader(canvas, group, along, middle);
        row(canvas, profile, group, middle + BASE_LINE);
    }
}

/// Chooses the groups for the table: all, or the first, the last and evenly spaced ones between them.
fn some_of(groups: &[Group]) -> Vec<&Group> {
    if groups.len() <= ROWS_MAX {
        return groups.iter().collect();
    }
    let chosen = |row: usize| groups.get(row * (groups.len() - 1) / (ROWS_MAX - 1));
    (0..ROWS_MAX).filter_map(chosen).collect()
}

fn header(canvas: &mut Canvas, base_line: f64) {
    canvas.text(LABEL, (TABLE_LEFT, base_line), "zones");
    canvas.text(LABEL.end(), (CYLINDERS.0, base_line), "cylinders");
    canvas.text(LABEL.end(), (SECTORS.0, base_line - 20.0), "sectors");
    canvas.text(LABEL.end(), (SECTORS.0, base_line), "per track");
    canvas.text(LABEL.end(), (RATE.0, base_line - 20.0), "media rate");
    canvas.text(LABEL.end(), (RATE.0, base_line), "in MB/s");
    let y = base_line + 12.0;
    canvas.path([(TABLE_LEFT, y), (WIDTH - MARGIN, y)], &stroke(LINE, 1.0));
}

/// Draws a line from the middle of the group in the strip to its row in the table.
fn leader(canvas: &mut Canvas, group: &Group, along: Scale, middle: f64) {
    let (first, last) = (f64::from(group.first_cylinder), f64::from(group.last_cylinder) + 1.0);
    let from = along.at(f64::midpoint(first, last));
    let right = STRIP.1;
    let places = [
        (right, from),
        (right + 8.0, from),
        (TABLE_LEFT - 16.0, middle),
        (TABLE_LEFT - 8.0, middle),
    ];
    canvas.path(places, &stroke(MUTED, 1.0));
}

fn row(canvas: &mut Canvas, profile: &Profile, group: &Group, base_line: f64) {
    let cylinders = span(u64::from(group.first_cylinder), u64::from(group.last_cylinder));
    let rate = grouped_decimals(media_rate(profile, group.track_sectors), 1);
    let sectors = grouped(group.track_sectors);
    let zones = span(group.first_zone as u64, group.last_zone as u64);
    let zones_room = CYLINDERS.0 - width(&cylinders, CELL.size, false) - 16.0 - TABLE_LEFT;
    canvas.text_within(CELL, (TABLE_LEFT, base_line), zones_room.max(40.0), &zones);
    for ((right, room), text) in [(CYLINDERS, cylinders), (SECTORS, sectors), (RATE, rate)] {
        canvas.text_within(CELL.end(), (right, base_line), room, &text);
    }
}

fn span(first: u64, last: u64) -> String {
    if first == last { grouped(first) } else { format!("{} to {}", grouped(first), grouped(last)) }
}
