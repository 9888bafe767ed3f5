//! Where the blocks of a partition lie, and their table.
//!
//! ```text
//!  extent: | block 0 | block 1 | ... | block n | table of the blocks |
//! ```
//!
//! Blocks of several units lie strip by strip: see [`strips`](super::strips).
//!
//! The table is read when it is needed, so that those of all partitions may take more than memory. A short one is kept where
//! it is said where the blocks lie: in the log, in checkpoints and in memory.

use std::ops::Range;
use std::sync::Arc;

use moirai_extents::Extent;
use moirai_units::{BlockCount, BlockRange, ByteCount};

use crate::codec::{Taker, is_sum, put_number};
use crate::data::strips::Run;
use crate::limits::{BLOCK_BYTES_MAX, PARTITION_BLOCKS_MAX};
use crate::shape::Shape;
use crate::spec::Spec;
use crate::state::block_table::BlockTable;

/// A table of so many bytes is short: it takes no more than a few blocks, and no read.
const SHORT_BYTES: usize = 64;
/// Bytes of a block of a shape at most: units that are as long as the longest of a partition are together longer than a block.
const SHAPE_BYTES_MAX: u64 = BLOCK_BYTES_MAX * PARTITION_BLOCKS_MAX as u64;

/// Where the blocks of a partition lie: in one run, or in several on a device whose free blocks are scattered.
#[derive(Debug)]
pub(crate) struct Place {
    spec: Arc<Spec>,
    location: Location,
    /// One for each row of each run.
    extents: Box<[Extent]>,
}

/// Where a table is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum TablePlace {
    /// Here.
    Short(Arc<BlockTable>),
    /// Behind the last of the blocks.
    Behind { bytes: u32, checksum: u32 },
}

/// A block in its run.
#[derive(Clone, Copy)]
pub(crate) struct BlockPlace<'a> {
    shape: &'a Shape,
    run: &'a Run,
    /// The first of the run.
    pub(crate) extent: &'a Extent,
    /// Which block of the run it is.
    index: usize,
}

impl BlockPlace<'_> {
    /// The device blocks of a unit of it and of the blocks behind it, up to `blocks` together.
    pub(crate) fn unit(&self, unit: usize, blocks: usize) -> BlockRange {
        self.run.unit(self.shape, unit, self.index, blocks)
    }

    /// What a unit of it is called that is kept, among all of its run.
    pub(crate) fn number(&self, unit: usize) -> usize {
        unit * PARTITION_BLOCKS_MAX as usize + self.index
    }
}

/// What the log and checkpoints say of a place.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Location {
    /// The last may have no blocks, and the table alone.
    pub(crate) runs: Box<[Run]>,
    pub(crate) table: TablePlace,
    /// Whether the blocks refer to long values.
    pub(crate) has_long: bool,
    /// The shape of the blocks; `None` where it is that of all blocks of the space.
    pub(crate) shape: Option<Arc<Shape>>,
}

impl Default for TablePlace {
    fn default() -> TablePlace {
        TablePlace::Short(Arc::default())
    }
}

impl TablePlace {
    /// A table, with what is to be written of it behind the blocks.
    pub(crate) fn of(table: &Arc<BlockTable>) -> (TablePlace, Vec<u8>) {
        let mut bytes = Vec::new();
        table.encode(&mut bytes);
        if bytes.len() <= SHORT_BYTES {
            return (TablePlace::Short(Arc::clone(table)), Vec::new());
        }
        let checksum = crc32c::crc32c(&bytes);
        (TablePlace::Behind { bytes: bytes.len() as u32, checksum }, bytes)
    }

    pub(crate) fn is_short(&self) -> bool {
        matches!(self, TablePlace::Short(_))
    }

    /// Device blocks that it takes behind the blocks.
    pub(crate) fn device_blocks(&self) -> BlockCount {
        match self {
            TablePlace::Short(_) => BlockCount::ZERO,
            TablePlace::Behind { bytes, .. } => BlockCount::holding(ByteCount(u64::from(*bytes))),
        }
    }

    pub(crate) fn memory_bytes(&self) -> usize {
        match self {
            TablePlace::Short(table) => table.memory_bytes(),
            TablePlace::Behind { .. } => 0,
        }
    }
}

impl Location {
    /// How many blocks there are.
    pub(crate) fn blocks(&self) -> u32 {
        self.runs.iter().map(|run| run.count).sum()
    }

    /// The shape of the blocks.
    fn shape<'a>(&'a self, spec: &'a Spec) -> &'a Shape {
        self.shape.as_deref().unwrap_or(&spec.shape)
    }

    /// The device blocks in each extent: those of each row of each run, and at the end of the last run those of the table.
    pub(crate) fn ranges<'a>(&'a self, spec: &'a Spec) -> impl Iterator<Item = BlockRange> + 'a {
        let shape = self.shape(spec);
        self.runs.iter().enumerate().flat_map(move |(index, run)| {
            let table = match index + 1 == self.runs.len() {
                true => self.table.device_blocks(),
                false => BlockCount::ZERO,
            };
            run.rows(shape, table)
        })
    }

    /// Whether it can be where blocks of a space lie: it was read.
    pub(crate) fn is_of(&self, spec: &Spec) -> bool {
        let shape = self.shape(spec);
        let has_table = match &self.table {
            TablePlace::Short(table) => table.is_of(self.blocks() as usize, shape.len()),
            TablePlace::Behind { .. } => true,
        };
        let may_have_shape = self.shape.is_none() || spec.format.fits_units();
        has_table
            && may_have_shape
            && shape.len() == spec.shape.len()
            && self.runs.iter().all(|run| run.is_of(shape))
    }

    pub(crate) fn encode(&self, out: &mut Vec<u8>) {
        let has_shape = u64::from(self.shape.is_some());
        put_number(out, (self.runs.len() as u64) << 2 | has_shape << 1 | u64::from(self.has_long));
        self.shape.iter().for_each(|shape| shape.encode(out));
        self.runs.iter().for_each(|run| run.encode(out));
        match &self.table {
            TablePlace::Short(table) => {
                put_number(out, 0);
                table.encode(out);
            }
            TablePlace::Behind { bytes, checksum } => {
                put_number(out, u64::from(*bytes));
                out.extend_from_slice(&checksum.to_le_bytes());
            }
        }
    }

    pub(crate) fn take(taker: &mut Taker<'_>) -> Option<Location> {
        let mut runs: Vec<Run> = Vec::new();
        let mut blocks = 0_u32;
        let count = taker.number()?;
        let (has_long, has_shape) = (count & 1 == 1, count & 2 == 2);
        let shape = match has_shape {
            true => Some(Arc::new(Shape::take(taker, SHAPE_BYTES_MAX)?)),
            false => None,
        };
        for _ in 0..count >> 2 {
            let run = Run::take(taker)?;
            // Only the last may have the table alone.
            let has_blocks = runs.last().is_none_or(|before| before.count > 0);
            blocks = blocks.checked_add(run.count).filter(|_| has_blocks)?;
            runs.push(run);
        }
        let is_empty_last = runs.last().is_some_and(|last| last.count == 0);
        let table = match taker.number32()? {
            0 => TablePlace::Short(Arc::new(BlockTable::take(taker)?)),
            bytes => TablePlace::Behind { bytes, checksum: taker.le32()? },
        };
        let fits = match &table {
            TablePlace::Short(table) => table.len() == blocks as usize && !is_empty_last,
            TablePlace::Behind { .. } => blocks > 0,
        };
        let is_empty = !has_long && !has_shape;
        let fits = fits && blocks <= PARTITION_BLOCKS_MAX && (blocks > 0 || is_empty);
        fits.then(|| Location { runs: runs.into(), table, has_long, shape })
    }
}

impl Place {
    /// The place of a partition without blocks.
    pub(crate) fn empty(spec: &Arc<Spec>) -> Place {
        Place::new(spec, Vec::new(), Location::default())
    }

    /// The place with these extents, which are those of `location`.
    pub(crate) fn new(spec: &Arc<Spec>, extents: Vec<Extent>, location: Location) -> Place {
        Place { spec: Arc::clone(spec), location, extents: extents.into() }
    }

    /// The same place, whose blocks are free all the same once others let go of them.
    #[cfg(feature = "canary")]
    pub(crate) fn unowned(&self) -> Place {
        let extents = self.extents.iter().map(Extent::unowned).collect();
        Place::new(&self.spec, extents, self.location.clone())
    }

    /// What the blocks are.
    pub(crate) fn spec(&self) -> &Arc<Spec> {
        &self.spec
    }

    /// The shape of the blocks.
    pub(crate) fn shape(&self) -> &Shape {
        self.location.shape(&self.spec)
    }

    /// Bytes of a block.
    pub(crate) fn block_bytes(&self) -> usize {
        self.shape().block_bytes()
    }

    /// Whether the blocks refer to long values.
    pub(crate) fn has_long(&self) -> bool {
        self.location.has_long
    }

    /// How many blocks there are.
    pub(crate) fn blocks(&self) -> usize {
        self.location.blocks() as usize
    }

    /// Whether the blocks may go to a partition with those of others: they are few, and short.
    pub(crate) fn is_small(&self) -> bool {
        let division = self.spec.division;
        let (blocks, bytes) = (self.blocks(), self.blocks() * self.block_bytes());
        blocks <= division.partition_blocks as usize / 4 && bytes <= division.partition_bytes() / 4
    }

    pub(crate) fn location(&self) -> &Location {
        &self.location
    }

    /// Its extents.
    pub(crate) fn extents(&self) -> impl Iterator<Item = &Extent> {
        self.extents.iter()
    }

    /// A number that no other place since the opening has, where there are blocks.
    pub(crate) fn number(&self) -> u64 {
        self.extents.last().map_or(0, |extent| extent.number)
    }

    /// Where a block is.
    pub(crate) fn find(&self, block: usize) -> Option<BlockPlace<'_>> {
        let (mut first, mut extent) = (0, 0);
        for run in &self.location.runs {
            let count = run.count as usize;
            if block < first + count {
                let (shape, extent) = (self.shape(), self.extents.get(extent)?);
                return Some(BlockPlace { shape, run, extent, index: block - first });
            }
            first += count;
            extent += run.rows.count as usize;
        }
        None
    }

    /// The blocks of the same run as one of them: their strips lie side by side.
    pub(crate) fn neighbours(&self, block: usize) -> Option<Range<usize>> {
        let mut first = 0;
        for run in &self.location.runs {
            let end = first + run.count as usize;
            if block < end {
                return Some(first..end);
            }
            first = end;
        }
        None
    }

    /// Whether the table lies with all blocks, in the same run.
    pub(crate) fn has_table_with_blocks(&self) -> bool {
        self.location.runs.len() == 1 && self.short_table().is_none()
    }

    /// The device blocks of a unit of a block.
    pub(crate) fn unit_at(&self, block: usize, unit: usize) -> Option<BlockRange> {
        Some(self.find(block)?.unit(unit, 1))
    }

    /// The device blocks in each extent; see [`Location::ranges`].
    pub(crate) fn ranges(&self) -> impl Iterator<Item = BlockRange> {
        self.location.ranges(&self.spec)
    }

    /// The table, where it is short.
    pub(crate) fn short_table(&self) -> Option<&Arc<BlockTable>> {
        match &self.location.table {
            TablePlace::Short(table) => Some(table),
            TablePlace::Behind { .. } => None,
        }
    }

    /// The device blocks of a table that is not short.
    pub(crate) fn table_range(&self) -> Option<BlockRange> {
        let first = self.location.runs.last()?.table_first(self.shape());
        let range = BlockRange::new(first, self.location.table.device_blocks());
        (!range.is_empty()).then_some(range)
    }

    /// The table that `content` begins with, when it is that of this place.
    pub(crate) fn take_table(&self, content: &[u8]) -> Option<Arc<BlockTable>> {
        let (bytes, checksum) = match &self.location.table {
            TablePlace::Short(table) => return Some(Arc::clone(table)),
            TablePlace::Behind { bytes, checksum } => (content.get(..*bytes as usize)?, *checksum),
        };
        let mut taker = Taker(bytes);
        let is_right = is_sum(checksum, crc32c::crc32c(bytes));
        let table = is_right.then(|| BlockTable::take(&mut taker)).flatten()?;
        let is_of = table.is_of(self.blocks(), self.shape().len());
        (is_of && taker.is_empty()).then(|| Arc::new(table))
    }

    /// Device blocks of all extents.
    pub(crate) fn device_blocks(&self) -> BlockCount {
        self.extents.iter().map(|extent| extent.blocks.count).sum()
    }

    /// Bytes of memory.
    pub(crate) fn memory_bytes(&self) -> usize {
        size_of::<Place>()
            + size_of_val(&*self.extents)
            + size_of_val(&*self.location.runs)
            + self.location.table.memory_bytes()
            + self.location.shape.as_ref().map_or(0, |shape| shape.memory_bytes())
    }
}
