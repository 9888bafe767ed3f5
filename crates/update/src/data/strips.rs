//! How the units of neighbouring blocks lie on the device: strip by strip.
//!
//! The *strip* of a unit has that unit of each block, side by side. The strips of a run of blocks lie in one extent, or in rows
//! of equivalents, so that all units of a block are of one class of the device (`moirai_extents::Rows`):
//!
//! ```text
//!  one extent:   | strip 0 | strip 1 | strip 2 | strip 3 | strip 4 | table |
//!
//!  three rows:   | strip 0 | strip 3 |
//!                | strip 1 | strip 4 |          an extent for each row; from one to the next: the stride
//!                | strip 2 | table |
//! ```
//!
//! The table of a partition's blocks takes the place of one more strip.

use std::iter::StepBy;
use std::ops::Range;

use moirai_units::{BlockCount, BlockRange, Lbn};

use crate::codec::{Taker, put_number};
use crate::shape::Shape;
use crate::units::UNITS_MAX;

/// Addresses from here on are none.
const ADDRESS_END: u64 = 1 << 62;

/// The rows in which strips lie.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct StripRows {
    pub(crate) count: u32,
    /// From the beginning of a row to that of the next; 0 where there is one.
    pub(crate) stride: BlockCount,
}

/// A run of a partition's blocks: where their strips begin, and how many of the engine's blocks they are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Run {
    pub(crate) first: Lbn,
    pub(crate) count: u32,
    pub(crate) rows: StripRows,
}

impl StripRows {
    /// One row: the strips lie in one extent.
    pub(crate) const ONE: StripRows = StripRows { count: 1, stride: BlockCount::ZERO };

    /// Whether the strips of blocks of a shape can lie in several rows: these are as long as each other.
    pub(crate) fn are_of(shape: &Shape) -> bool {
        let is_longer = |pair: &[usize]| pair.first() != pair.last();
        shape.len() > 1 && !shape.unit_bytes.windows(2).any(is_longer)
    }

    /// The strips of a row, of `strips`.
    pub(crate) fn strips_of(count: u32, row: usize, strips: usize) -> StepBy<Range<usize>> {
        (row..strips).step_by(count as usize)
    }

    /// The row in which the table lies behind the last strip.
    pub(crate) fn table_row(count: u32, strips: usize) -> usize {
        strips % count as usize
    }

    /// Device blocks of a row with the strips of `blocks` blocks, without a table.
    pub(crate) fn row_blocks(count: u32, row: usize, shape: &Shape, blocks: u32) -> BlockCount {
        let strips = StripRows::strips_of(count, row, shape.len());
        let of_block: u64 = strips.map(|unit| shape.unit_blocks(unit).1.0).sum();
        BlockCount(of_block * u64::from(blocks))
    }
}

impl Run {
    /// Where a strip begins; or the table, for the number behind the last strip.
    fn strip_first(&self, shape: &Shape, strip: usize) -> Lbn {
        let (row, column) = match self.rows.count {
            1 => (0, shape.unit_blocks(strip).0.0),
            rows => {
                let rows = rows as usize;
                (strip % rows, (strip / rows) as u64 * shape.unit_blocks(0).1.0)
            }
        };
        let in_row = BlockCount(column * u64::from(self.count));
        self.first + BlockCount(self.rows.stride.0 * row as u64) + in_row
    }

    /// The device blocks of a unit of the block `index`, and of as many blocks as there are to be.
    pub(crate) fn unit(
        &self,
        shape: &Shape,
        unit: usize,
        index: usize,
        blocks: usize,
    ) -> BlockRange {
        let length = shape.unit_blocks(unit).1.0;
        let first = self.strip_first(shape, unit) + BlockCount(length * index as u64);
        BlockRange::new(first, BlockCount(length * blocks as u64))
    }

    /// Where the table begins.
    pub(crate) fn table_first(&self, shape: &Shape) -> Lbn {
        self.strip_first(shape, shape.len())
    }

    /// The device blocks of each row, with those of the table in its row.
    pub(crate) fn rows<'a>(
        &self,
        shape: &'a Shape,
        table: BlockCount,
    ) -> impl Iterator<Item = BlockRange> + use<'a> {
        let Run { first, count, rows } = *self;
        let table_row = StripRows::table_row(rows.count, shape.len());
        (0..rows.count as usize).map(move |row| {
            let behind = if row == table_row { table } else { BlockCount::ZERO };
            let blocks = StripRows::row_blocks(rows.count, row, shape, count) + behind;
            BlockRange::new(first + BlockCount(rows.stride.0 * row as u64), blocks)
        })
    }

    /// Whether it can have blocks of a shape: it was read.
    pub(crate) fn is_of(&self, shape: &Shape) -> bool {
        let has_strips = self.rows.count as usize <= shape.len();
        self.rows == StripRows::ONE || (has_strips && StripRows::are_of(shape))
    }

    pub(crate) fn encode(&self, out: &mut Vec<u8>) {
        let StripRows { count, stride } = self.rows;
        put_number(out, self.first.0);
        put_number(out, u64::from(self.count) << 1 | u64::from(count > 1));
        if count > 1 {
            put_number(out, u64::from(count));
            put_number(out, stride.0);
        }
    }

    pub(crate) fn take(taker: &mut Taker<'_>) -> Option<Run> {
        let first = Lbn(taker.number().filter(|first| *first < ADDRESS_END)?);
        let number = taker.number()?;
        let count = u32::try_from(number >> 1).ok()?;
        let rows = match number & 1 {
            0 => StripRows::ONE,
            _ => {
                let (rows, stride) = (taker.number32()?, taker.number()?);
                let are_rows = (2..=UNITS_MAX as u32).contains(&rows) && count > 0;
                let has_address = (1..ADDRESS_END / UNITS_MAX as u64).contains(&stride);
                (are_rows && has_address)
                    .then_some(StripRows { count: rows, stride: BlockCount(stride) })?
            }
        };
        Some(Run { first, count, rows })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn taken(bytes: &[u8]) -> Option<Run> {
        let mut taker = Taker(bytes);
        Run::take(&mut taker).filter(|_| taker.is_empty())
    }

    #[test]
    fn only_runs_with_addresses_are_read() {
        let rows = |count, stride| StripRows { count, stride: BlockCount(stride) };
        let run = |first, count, rows| Run { first: Lbn(first), count, rows };
        let encoded = |run: Run| {
            let mut bytes = Vec::new();
            run.encode(&mut bytes);
            bytes
        };
        let far = ADDRESS_END - 1;
        for good in [
            run(0, 0, StripRows::ONE),
            run(far, 64, StripRows::ONE),
            run(7, 1, rows(2, 1)),
            run(far, 64, rows(64, ADDRESS_END / 64 - 1)),
        ] {
            assert_eq!(taken(&encoded(good)), Some(good));
        }
        for bad in [
            run(ADDRESS_END, 1, StripRows::ONE),
            run(7, 0, rows(2, 1)),
            run(7, 1, rows(65, 1)),
            run(7, 1, rows(2, 0)),
            run(7, 1, rows(2, ADDRESS_END / 64)),
        ] {
            assert_eq!(taken(&encoded(bad)), None, "{bad:?}");
        }
        // The flag of several rows, with a count of one row.
        assert_eq!(taken(&[7, 3, 1, 9]), None);
    }
}
