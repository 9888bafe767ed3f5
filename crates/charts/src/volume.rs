//! The layout of a volume, as thesis figure 6.2 shows it: a column for each disk, a row for each stripe, and the
//! blocks of one access.

mod labels;
mod legend;
mod selection;

use labels::{Labels, column_width_min, span};
use moirai_units::{BlockRange, Lbn, grouped};

use crate::colours::{BLUE, EMPTY, LINE, MUTED, ORANGE, PALE, lightest};
use crate::svg::{Canvas, Place, Type, fill, stroke};
use crate::text::{counted, width, wrap};
pub use selection::stripes_to_draw;

/// The width of a picture, unless the disks need more.
const WIDTH_MIN: f64 = 1200.0;
const MARGIN: f64 = 48.0;
/// The columns to the left of the first disk: the stripe's number, and the blocks of the access.
const LABELS: f64 = 252.0;
/// The right ends of these columns, and the room in them.
const STRIPE: (f64, f64) = (MARGIN + 72.0, 72.0);
const ACCESS: (f64, f64) = (MARGIN + LABELS - 18.0, LABELS - 18.0 - 72.0 - 12.0);
/// Between two disks.
const GUTTER: f64 = 18.0;
/// Holds "disk 99".
const COLUMN_WIDTH_MIN: f64 = 72.0;
const ROW: f64 = 38.0;
const ROW_GAP: f64 = 3.0;
/// The part of a row for marks, below the part for numbers: the distance of its top from the row's, and its height.
const LANE: (f64, f64) = (22.0, 14.0);
/// The base line of a text in the middle of a row, from the top of the row.
const MIDDLE: f64 = 24.0;
/// Between two groups of stripes, besides the gap of rows.
const GROUP_GAP: f64 = 15.0;
/// The least width of a mark, so that it can be seen.
const MARK_WIDTH_MIN: f64 = 7.0;

const TITLE: Type = Type::new(30.0).bold();
const NOTE: Type = Type::new(16.0).muted();
const NOTE_PITCH: f64 = 23.0;
const DISK: Type = Type::new(16.0).bold().middle();
const DEVICE: Type = Type::new(13.0).muted().middle();
const HEADING: Type = Type::new(14.0).muted().end();
const CELL: Type = Type::new(14.0).end();
const LEFT_OUT: Type = Type::new(14.0).muted().middle();

/// The content of a unit.
#[derive(Clone, Debug, PartialEq)]
pub enum Content {
    /// Blocks of the volume.
    Data(BlockRange),
    /// A mirror of blocks of the volume.
    Copy(BlockRange),
    /// The XOR of the stripe's data units.
    P,
    /// The weighted sum of the stripe's data units.
    Q,
}

/// The part of a stripe on one disk.
#[derive(Clone, Debug, PartialEq)]
pub struct Unit {
    /// The content.
    pub content: Content,
    /// The place of the first block, from 0 at the left edge to 1 at the right edge.
    pub first_at: f64,
    /// The blocks of the access: the place of each, as `first_at`, and its length as a part of the unit.
    pub marks: Vec<(f64, f64)>,
}

/// A row of the picture: one unit of each disk.
#[derive(Clone, Debug, PartialEq)]
pub struct Stripe {
    /// The number of the stripe in the volume.
    pub index: u64,
    /// Whether the stripe begins a group: a row of quadrangles, or stripes with other roles of the disks.
    pub begins_group: bool,
    /// The blocks of the access in the stripe.
    pub access: Vec<Lbn>,
    /// The units, in the order of the disks.
    pub units: Vec<Unit>,
}

/// Draws stripes of a volume, one below the other.
///
/// `stripes` are in order; where numbers are missing, a row says how many stripes the picture leaves out.
/// [`stripes_to_draw`] chooses them. `note` stands below the title.
#[must_use]
pub fn volume(name: &str, note: &str, disks: &[String], stripes: &[Stripe]) -> String {
    let columns = Columns::of(disks.len(), stripes);
    let mut canvas = Canvas::default();
    let room = columns.right() - MARGIN;
    canvas.text_within(TITLE, (MARGIN, 66.0), room, name);
    let mut base_line = 100.0;
    for line in wrap(note, NOTE.size, room.min(WIDTH_MIN - 2.0 * MARGIN), 4) {
        canvas.text(NOTE, (MARGIN, base_line), &line);
        base_line += NOTE_PITCH;
    }
    let routes = |disk: usize| routes(&columns, disk, stripes);
    let has_route = (0..disks.len()).any(|disk| routes(disk).iter().any(|route| route.len() > 1));
    let across = (MARGIN, columns.right());
    let labels = Labels::of(stripes, &columns);
    let entries = legend::entries(stripes, labels.form, has_route);
    let top = legend::draw(&mut canvas, across, base_line, &entries) + 34.0;
    header(&mut canvas, &columns, disks, top);
    let (tops, bottom) = rows(&mut canvas, &columns, stripes, top + 34.0);
    for (stripe, top) in stripes.iter().zip(&tops) {
        for (disk, unit) in stripe.units.iter().enumerate() {
            back(&mut canvas, (columns.left(disk), *top), columns.width, unit);
        }
    }
    for disk in 0..disks.len() {
        for route in routes(disk) {
            draw_route(&mut canvas, &route, &tops);
        }
    }
    // Over the lines between marks, so that each number can be read.
    for (stripe, top) in stripes.iter().zip(&tops) {
        for (disk, unit) in stripe.units.iter().enumerate() {
            labels.draw(&mut canvas, (columns.left(disk), *top), columns.width, unit);
        }
    }
    let description = "A column for each disk and a row for each stripe. Numbers in a unit are the first and the \
                       last block of the volume in it. The blocks of one access are marked.";
    let size = (columns.right() + MARGIN, bottom + MARGIN);
    canvas.finish(size, &format!("The layout of {name}"), description)
}

/// The columns of the disks.
struct Columns {
    disks: usize,
    width: f64,
}

impl Columns {
    /// Columns that hold at least the shortest label of each unit.
    fn of(disks: usize, stripes: &[Stripe]) -> Columns {
        let disks = disks.max(1);
        let room = WIDTH_MIN - 2.0 * MARGIN - LABELS - GUTTER * (disks as f64 - 1.0);
        let least = column_width_min(stripes).max(COLUMN_WIDTH_MIN);
        Columns { disks, width: (room / disks as f64).max(least) }
    }

    fn left(&self, disk: usize) -> f64 {
        MARGIN + LABELS + disk as f64 * (self.width + GUTTER)
    }

    /// The right end of the last column.
    fn right(&self) -> f64 {
        self.left(self.disks) - GUTTER
    }

    /// The middle of a mark, and its width.
    fn mark(&self, disk: usize, (from, length): (f64, f64)) -> (f64, f64) {
        let width = (length * self.width).clamp(MARK_WIDTH_MIN, self.width);
        let left = (from * self.width).min(self.width - width);
        (self.left(disk) + left + width / 2.0, width)
    }
}

/// Draws the headings of all columns.
fn header(canvas: &mut Canvas, columns: &Columns, disks: &[String], base_line: f64) {
    canvas.text(HEADING, (STRIPE.0, base_line + 20.0), "stripe");
    canvas.text(HEADING, (ACCESS.0, base_line), "blocks of");
    canvas.text(HEADING, (ACCESS.0, base_line + 20.0), "the access");
    for (index, device) in disks.iter().enumerate() {
        let middle = columns.left(index) + columns.width / 2.0;
        canvas.text_within(DISK, (middle, base_line), columns.width, &format!("disk {index}"));
        canvas.text_within(DEVICE, (middle, base_line + 20.0), columns.width, device);
    }
}

/// Draws the columns to the left of the disks and the rows for stripes left out. Returns the top of each stripe, and
/// the bottom of all.
fn rows(canvas: &mut Canvas, columns: &Columns, stripes: &[Stripe], top: f64) -> (Vec<f64>, f64) {
    let mut y = top;
    let mut tops = Vec::with_capacity(stripes.len());
    let mut next = stripes.first().map_or(0, |stripe| stripe.index);
    for (row, stripe) in stripes.iter().enumerate() {
        if stripe.index > next {
            left_out(canvas, columns, y, next, stripe.index);
            y += ROW + ROW_GAP;
        }
        if stripe.begins_group && row > 0 {
            y += GROUP_GAP;
        }
        canvas.text_within(CELL, (STRIPE.0, y + MIDDLE), STRIPE.1, &grouped(stripe.index));
        canvas.text_within(CELL, (ACCESS.0, y + MIDDLE), ACCESS.1, &named(&stripe.access));
        tops.push(y);
        y += ROW + ROW_GAP;
        next = stripe.index + 1;
    }
    (tops, y)
}

/// Draws the row for the stripes from `first` up to `end`, which the picture leaves out.
fn left_out(canvas: &mut Canvas, columns: &Columns, top: f64, first: u64, end: u64) {
    let (from, to) = (columns.left(0), columns.right());
    let text = format!("{} left out: {}", counted(end - first, "stripe"), span(first, end - 1));
    let half = width(&text, LEFT_OUT.size, false) / 2.0 + 12.0;
    let middle = f64::midpoint(from, to);
    let look = format!("{} stroke-dasharray=\"2 5\"", stroke(MUTED, 1.5));
    let y = top + ROW / 2.0;
    canvas.path([(from, y), (middle - half, y)], &look);
    canvas.path([(middle + half, y), (to, y)], &look);
    canvas.text(LEFT_OUT, (middle, top + MIDDLE), &text);
}

/// Names as many blocks as have room; dots stand for the others.
fn named(blocks: &[Lbn]) -> String {
    let mut text = String::new();
    for (index, block) in blocks.iter().enumerate() {
        let separator = if index == 0 { "" } else { ", " };
        let longer = format!("{text}{separator}{}", grouped(block.0));
        let dots = if index + 1 < blocks.len() { ", \u{2026}" } else { "" };
        if index > 0 && width(&format!("{longer}{dots}"), CELL.size, false) > ACCESS.1 {
            return format!("{text}, \u{2026}");
        }
        text = longer;
    }
    text
}

/// The colour of a unit.
fn ground(content: &Content) -> String {
    match content {
        Content::Data(_) => lightest(),
        Content::Copy(_) => PALE.to_owned(),
        Content::P | Content::Q => EMPTY.to_owned(),
    }
}

/// Draws a unit without its text.
fn back(canvas: &mut Canvas, (x, y): Place, width: f64, unit: &Unit) {
    let look = format!("{} stroke=\"{LINE}\"", fill(&ground(&unit.content)));
    canvas.rect((x, y), (width, ROW), &look);
    if unit.first_at > 0.0 {
        let at = x + unit.first_at * width;
        canvas.path([(at, y + LANE.0), (at, y + LANE.0 + LANE.1)], &stroke(BLUE, 2.0));
    }
}

/// A mark: the row, the middle, and the width.
type Mark = (usize, f64, f64);

/// The marks of one disk, in the order of access: one list for each revolution of each group.
fn routes(columns: &Columns, disk: usize, stripes: &[Stripe]) -> Vec<Vec<Mark>> {
    let mut routes: Vec<Vec<Mark>> = vec![Vec::new()];
    let mut next = 0;
    for (row, stripe) in stripes.iter().enumerate() {
        if stripe.begins_group || stripe.index != next {
            routes.push(Vec::new());
        }
        next = stripe.index + 1;
        for mark in stripe.units.get(disk).into_iter().flat_map(|unit| &unit.marks) {
            let (middle, width) = columns.mark(disk, *mark);
            let before = routes.last().and_then(|route| route.last());
            if before.is_some_and(|(_, before, _)| middle < *before) {
                routes.push(Vec::new());
            }
            if let Some(route) = routes.last_mut() {
                route.push((row, middle, width));
            }
        }
    }
    routes
}

/// Draws marks and the line through them.
fn draw_route(canvas: &mut Canvas, route: &[Mark], tops: &[f64]) {
    let mut line = Vec::with_capacity(route.len());
    for (row, middle, width) in route {
        let Some(top) = tops.get(*row).map(|top| top + LANE.0) else { continue };
        canvas.rect((middle - width / 2.0, top), (*width, LANE.1), &fill(ORANGE));
        line.push((*middle, top + LANE.1 / 2.0));
    }
    if line.len() > 1 {
        canvas.path(line, &format!("{} stroke-dasharray=\"5 4\"", stroke(MUTED, 1.5)));
    }
}

#[cfg(test)]
mod tests;
