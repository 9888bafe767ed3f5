//! Where a volume's blocks lie, as thesis figure 6.2 shows it: a column for each disk, a row for each
//! stripe, and the blocks of one access.

use moirai_units::{BlockRange, grouped};

use crate::colours::{BLUE, EMPTY, LINE, MUTED, ORANGE, lightest};
use crate::svg::{Canvas, Type, fill, stroke};
use crate::text::wrap;

const WIDTH: f64 = 1200.0;
const MARGIN: f64 = 48.0;
/// To the left of the first disk, for the blocks of the access.
const LABELS: f64 = 190.0;
/// Between two disks.
const GUTTER: f64 = 18.0;
const ROW: f64 = 30.0;
const ROW_GAP: f64 = 3.0;
/// Between two turns, beside the gap of rows.
const TURN_GAP: f64 = 15.0;
/// A block is no narrower, or it would not be seen.
const MARK_WIDTH_MIN: f64 = 7.0;

const TITLE: Type = Type::new(30.0).bold();
const NOTE: Type = Type::new(16.0).muted();
const NOTE_PITCH: f64 = 23.0;
const DISK: Type = Type::new(18.0).bold().middle();
const DEVICE: Type = Type::new(13.0).muted().middle();
const UNIT: Type = Type::new(14.0).middle();
const ACCESS: Type = Type::new(14.0).end();

/// What a disk holds of a stripe.
#[derive(Clone, Debug, PartialEq)]
pub struct Unit {
    /// The volume's blocks in it; without, it is parity.
    pub blocks: Option<BlockRange>,
    /// What it is called: a parity, or which copy.
    pub name: String,
    /// Where its first block lies, from 0 to 1.
    pub first_at: f64,
    /// The blocks of the access: where they begin and how long they are, as parts of the unit.
    pub marks: Vec<(f64, f64)>,
}

/// A row: a unit of each disk.
#[derive(Clone, Debug, PartialEq)]
pub struct Stripe {
    /// Whether a quadrangle begins, or the disks change their roles.
    pub begins_turn: bool,
    /// The blocks of the access in it.
    pub access: String,
    /// Of each disk.
    pub units: Vec<Unit>,
}

/// Stripes of a volume one below the other.
#[must_use]
pub fn volume(name: &str, note: &str, disks: &[String], stripes: &[Stripe]) -> String {
    let mut canvas = Canvas::default();
    let room = WIDTH - 2.0 * MARGIN;
    canvas.text_within(TITLE, (MARGIN, 66.0), room, name);
    let mut base_line = 100.0;
    for line in wrap(note, NOTE.size, room, 4) {
        canvas.text(NOTE, (MARGIN, base_line), &line);
        base_line += NOTE_PITCH;
    }
    let columns = Columns::of(disks.len());
    let top = base_line + 26.0;
    for (index, device) in disks.iter().enumerate() {
        let middle = columns.left(index) + columns.width / 2.0;
        canvas.text(DISK, (middle, top), &format!("disk {index}"));
        canvas.text_within(DEVICE, (middle, top + 20.0), columns.width, device);
    }
    let mut y = top + 34.0;
    let mut tops = Vec::with_capacity(stripes.len());
    for (index, stripe) in stripes.iter().enumerate() {
        if stripe.begins_turn && index > 0 {
            y += TURN_GAP;
        }
        tops.push(y);
        let access = (MARGIN + LABELS - 18.0, y + 20.0);
        canvas.text_within(ACCESS, access, LABELS - 18.0, &stripe.access);
        for (disk, unit) in stripe.units.iter().enumerate() {
            ground(&mut canvas, (columns.left(disk), y), columns.width, unit);
        }
        y += ROW + ROW_GAP;
    }
    for disk in 0..disks.len() {
        marks(&mut canvas, &columns, disk, stripes, &tops);
    }
    // Over the marks, so that it can be read.
    for (stripe, top) in stripes.iter().zip(tops) {
        for (disk, unit) in stripe.units.iter().enumerate() {
            let middle = columns.left(disk) + columns.width / 2.0;
            canvas.text_within(UNIT, (middle, top + 20.0), columns.width - 6.0, &label(unit));
        }
    }
    let description = "A column for each disk and a row for each stripe. Numbers in a unit are the volume's \
                       blocks that it holds. The blocks of one access are marked.";
    canvas.finish((WIDTH, y + MARGIN), &format!("The layout of {name}"), description)
}

/// Where the disks stand.
struct Columns {
    width: f64,
}

impl Columns {
    fn of(disks: usize) -> Columns {
        let disks = disks.max(1) as f64;
        let room = WIDTH - 2.0 * MARGIN - LABELS - GUTTER * (disks - 1.0);
        Columns { width: (room / disks).max(8.0) }
    }

    fn left(&self, disk: usize) -> f64 {
        MARGIN + LABELS + disk as f64 * (self.width + GUTTER)
    }

    /// The middle of a mark, and its width.
    fn mark(&self, disk: usize, (from, length): (f64, f64)) -> (f64, f64) {
        let width = (length * self.width).max(MARK_WIDTH_MIN);
        let left = (from * self.width).min(self.width - width);
        (self.left(disk) + left + width / 2.0, width)
    }
}

fn ground(canvas: &mut Canvas, (x, y): (f64, f64), width: f64, unit: &Unit) {
    let ground = match unit.blocks {
        Some(_) => lightest(),
        None => EMPTY.to_owned(),
    };
    canvas.rect((x, y), (width, ROW), &format!("{} stroke=\"{LINE}\"", fill(&ground)));
    if unit.first_at > 0.0 {
        let at = x + unit.first_at * width;
        canvas.path([(at, y), (at, y + ROW)], &stroke(BLUE, 2.0));
    }
}

fn label(unit: &Unit) -> String {
    match (&unit.blocks, unit.name.as_str()) {
        (Some(blocks), "") => range(blocks),
        (Some(blocks), name) => format!("{} {name}", range(blocks)),
        (None, name) => name.to_owned(),
    }
}

fn range(blocks: &BlockRange) -> String {
    format!("{}–{}", grouped(blocks.first.0), grouped(blocks.end().0.saturating_sub(1)))
}

/// The marks of one disk, and a line through those of each turn.
fn marks(canvas: &mut Canvas, columns: &Columns, disk: usize, stripes: &[Stripe], tops: &[f64]) {
    let mut route = Vec::new();
    for (stripe, top) in stripes.iter().zip(tops) {
        if stripe.begins_turn {
            line(canvas, &mut route);
        }
        for mark in stripe.units.get(disk).into_iter().flat_map(|unit| &unit.marks) {
            let (middle, width) = columns.mark(disk, *mark);
            // The next revolution.
            if route.last().is_some_and(|(before, _)| middle < *before) {
                line(canvas, &mut route);
            }
            canvas.rect((middle - width / 2.0, *top), (width, ROW), &fill(ORANGE));
            route.push((middle, top + ROW / 2.0));
        }
    }
    line(canvas, &mut route);
}

fn line(canvas: &mut Canvas, route: &mut Vec<(f64, f64)>) {
    if route.len() > 1 {
        let look = format!("{} stroke-dasharray=\"5 4\"", stroke(MUTED, 1.5));
        canvas.path(route.iter().copied(), &look);
    }
    route.clear();
}

#[cfg(test)]
mod tests {
    use super::*;
    use moirai_units::{BlockCount, Lbn};

    #[test]
    fn it_is_well_formed_whatever_the_names_are() {
        let unit = |blocks| Unit {
            blocks,
            name: "P<&".into(),
            first_at: 0.25,
            marks: vec![(0.9, 0.001), (f64::NAN, 0.5)],
        };
        let data = Some(BlockRange::new(Lbn(0), BlockCount(334)));
        let stripe = |begins_turn| Stripe {
            begins_turn,
            access: "0, 334".into(),
            units: vec![unit(data), unit(None)],
        };
        let disks = ["a<b".to_owned(), "c&d".to_owned()];
        for disks in [&disks[..], &[]] {
            let picture = volume("<v>", "A \"note\".", disks, &[stripe(true), stripe(false)]);
            let document = roxmltree::Document::parse(&picture).unwrap();
            assert_eq!(document.root_element().tag_name().name(), "svg");
        }
    }
}
