//! Where extents lie on a device: a row for each ensemble, from its first block at the left to its last at the right.

use moirai_units::{BlockRange, grouped};

use crate::colours::{EMPTY, INK, LINE, SERIES};
use crate::svg::{Canvas, Type, fill, stroke};
use crate::text::{width, wrap};

const MARGIN: f64 = 48.0;
/// To the left of the rows: the first block of each.
const LABELS: f64 = 132.0;
const ROW_WIDTH: f64 = 900.0;
const ROW: f64 = 16.0;
const ROW_GAP: f64 = 5.0;
const SWATCH: f64 = 16.0;

const TITLE: Type = Type::new(30.0).bold();
const NOTE: Type = Type::new(16.0).muted();
const NOTE_PITCH: f64 = 23.0;
const KEY: Type = Type::new(15.0);
const LABEL: Type = Type::new(13.0).muted().end();

/// An extent of a picture.
#[derive(Clone, Debug, PartialEq)]
pub struct DrawnExtent {
    /// Which of the uses it has.
    pub used_for: usize,
    /// Its blocks.
    pub blocks: BlockRange,
}

/// Draws extents on the ensembles `rows`. `uses` are what extents are for: up to four, each with its colour.
#[must_use]
pub fn extents(
    title: &str,
    note: &str,
    uses: &[&str],
    rows: &[BlockRange],
    extents: &[DrawnExtent],
) -> String {
    let mut canvas = Canvas::default();
    let mut y = MARGIN + 30.0;
    canvas.text(TITLE, (MARGIN, y), title);
    y += 12.0;
    for line in wrap(note, NOTE.size, LABELS + ROW_WIDTH, 6) {
        y += NOTE_PITCH;
        canvas.text(NOTE, (MARGIN, y), &line);
    }
    y += 34.0;
    let mut x = MARGIN;
    for (name, (colour, _)) in uses.iter().chain(&["free"]).zip(colours(uses.len())) {
        canvas.rect((x, y - SWATCH + 2.0), (SWATCH, SWATCH), &outlined(colour));
        canvas.text(KEY, (x + SWATCH + 8.0, y), name);
        x += SWATCH + 8.0 + width(name, KEY.size, false) + 32.0;
    }
    y += 34.0;
    canvas.text(LABEL, (MARGIN + LABELS - 14.0, y), "first block");
    y += 12.0;
    let longest = rows.iter().map(|row| row.count.0).max().unwrap_or(1).max(1) as f64;
    let left = MARGIN + LABELS;
    let mut next = 0;
    for row in rows {
        canvas.text(LABEL, (left - 14.0, y + ROW - 3.0), &grouped(row.first.0));
        let at = |block: u64| left + (block - row.first.0) as f64 / longest * ROW_WIDTH;
        let row_end = at(row.end().0);
        canvas.rect((left, y), (row_end - left, ROW), &outlined(EMPTY));
        // Extents and rows are both in the order of their blocks.
        while extents.get(next).is_some_and(|one| one.blocks.end() <= row.first) {
            next += 1;
        }
        let here = extents.iter().skip(next).take_while(|one| one.blocks.first < row.end());
        for one in here {
            let from = at(one.blocks.first.max(row.first).0);
            let upto = at(one.blocks.end().min(row.end()).0);
            let colour = colours(uses.len()).nth(one.used_for).map_or(INK, |(colour, _)| colour);
            canvas.rect((from, y), (upto - from, ROW), &outlined(colour));
        }
        y += ROW + ROW_GAP;
    }
    let size = (left + ROW_WIDTH + MARGIN, y + MARGIN - ROW_GAP);
    canvas.finish(size, title, note)
}

/// The colours of so many uses, and of what is free.
fn colours(uses: usize) -> impl Iterator<Item = (&'static str, &'static str)> {
    SERIES.into_iter().take(uses).chain([(EMPTY, "none")])
}

/// A surface whose edge shows where the next one begins.
fn outlined(colour: &str) -> String {
    let edge = if colour == EMPTY { LINE } else { "#ffffff" };
    let edge = stroke(edge, 1.0);
    format!("{} {}", fill(colour), edge.trim_start_matches("fill=\"none\" "))
}

#[cfg(test)]
mod tests {
    use moirai_units::{BlockCount, Lbn};

    use super::*;

    #[test]
    fn an_extent_over_a_boundary_shows_in_both_rows() {
        let range = |first, count| BlockRange::new(Lbn(first), BlockCount(count));
        let rows = [range(0, 100), range(100, 100), range(200, 50)];
        let drawn = [
            DrawnExtent { used_for: 0, blocks: range(10, 20) },
            DrawnExtent { used_for: 1, blocks: range(90, 120) },
        ];
        let picture = extents("t", "n", &["leaves", "staged"], &rows, &drawn);
        let document = roxmltree::Document::parse(&picture).unwrap();
        let of = |colour: &str| {
            let all = document.descendants();
            all.filter(|node| node.attribute("fill") == Some(colour)).count()
        };
        // Each with its mark in the legend.
        assert_eq!((of(SERIES[0].0), of(SERIES[1].0)), (2, 4));
    }
}
