//! Writes A-pages: gathers values until an extent is full, then writes it slot by slot.

use moirai_storage::{Device, IoBuf};
use moirai_units::BlockCount;

use crate::bounds::BoundsBuilder;
use crate::catalog::ColumnPages;
use crate::columns::Input;
use crate::minipage::{self, UnitFormat, UnitPlace};
use crate::schema::Attribute;
use crate::shape::{MinipageShape, PageShape};
use crate::space::{ColumnExtent, Space};
use crate::{Error, Result};

/// Pages in a table's first extent; each further one has as many as all before it, up to a whole
/// region.
const FIRST_EXTENT_PAGES: u64 = 4;

/// The A-pages of a table that is being loaded.
#[derive(Debug)]
pub(crate) struct ColumnWriter {
    table: u32,
    pages: ColumnPages,
    columns: Vec<PendingColumn>,
    pending_rows: usize,
    /// The extent that the pending rows go to, when it is known.
    extent: Option<ColumnExtent>,
    next_page: u64,
}

/// The values of one attribute that wait for their extent to be full.
#[derive(Debug)]
struct PendingColumn {
    minipage: MinipageShape,
    format: UnitFormat,
    bytes: Vec<u8>,
    valid: Vec<bool>,
}

impl PendingColumn {
    fn push(&mut self, value: Option<&[u8]>) {
        match value {
            Some(value) => self.bytes.extend_from_slice(value),
            None => self.bytes.resize(self.bytes.len() + self.format.width_bytes, 0),
        }
        self.valid.push(value.is_some());
    }
}

impl ColumnWriter {
    pub(crate) fn new(table: u32, attributes: &[Attribute], shape: PageShape) -> ColumnWriter {
        let columns = shape
            .minipages
            .iter()
            .filter_map(|minipage| {
                let attribute = attributes.get(minipage.attribute)?;
                Some(PendingColumn {
                    minipage: minipage.clone(),
                    format: UnitFormat {
                        width_bytes: attribute.attribute_type.width_bytes()?,
                        nullable: attribute.nullable,
                        unit_values: minipage.unit_values,
                    },
                    bytes: Vec::new(),
                    valid: Vec::new(),
                })
            })
            .collect();
        ColumnWriter {
            table,
            pages: ColumnPages { shape, extents: Vec::new() },
            columns,
            pending_rows: 0,
            extent: None,
            next_page: 0,
        }
    }

    /// Adds rows; writes extents that are full.
    pub(crate) async fn append(
        &mut self,
        device: &dyn Device,
        space: &mut Space,
        columns: &[Input],
        rows: usize,
        bounds: &mut [BoundsBuilder],
    ) -> Result<()> {
        for row in 0..rows {
            let room = self.extent_rows(space)?;
            for pending in &mut self.columns {
                if let Some(column) = columns.get(pending.minipage.attribute) {
                    pending.push(column.value(row));
                }
            }
            self.pending_rows += 1;
            if self.pending_rows == room {
                self.write_extent(device, bounds).await?;
            }
        }
        Ok(())
    }

    /// Writes what is left and gives back the room it does not need; gives the table's pages.
    pub(crate) async fn finish(
        mut self,
        device: &dyn Device,
        space: &mut Space,
        bounds: &mut [BoundsBuilder],
    ) -> Result<ColumnPages> {
        let shape = &self.pages.shape;
        let pages = self.pending_rows.div_ceil(shape.rows as usize) as u64;
        let used = BlockCount(pages * shape.unit_blocks);
        if let Some(extent) = &mut self.extent {
            space.shrink_columns(extent, used)?;
        }
        if self.pending_rows > 0 {
            self.write_extent(device, bounds).await?;
        }
        Ok(self.pages)
    }

    /// Lays out `rows` rows without writing them.
    pub(crate) fn reserve(mut self, space: &mut Space, rows: u64) -> Result<ColumnPages> {
        let mut left = rows;
        while left > 0 {
            let held = self.extent_rows(space)? as u64;
            left = left.saturating_sub(held);
            self.pages.extents.extend(self.extent.take());
        }
        Ok(self.pages)
    }

    /// Rows that the current extent holds; one is allocated when there is none.
    fn extent_rows(&mut self, space: &mut Space) -> Result<usize> {
        let shape = &self.pages.shape;
        let unit = shape.unit();
        let columns = match &self.extent {
            Some(extent) => extent.columns,
            None => {
                let columns: u64 = self.pages.extents.iter().map(|extent| extent.columns).sum();
                let wanted = BlockCount(columns.max(FIRST_EXTENT_PAGES * unit.0));
                let extent = space.allocate_columns(shape.slots(), wanted, unit)?;
                self.extent.insert(extent).columns
            }
        };
        Ok((columns / unit.0) as usize * shape.rows as usize)
    }

    async fn write_extent(
        &mut self,
        device: &dyn Device,
        bounds: &mut [BoundsBuilder],
    ) -> Result<()> {
        let Some(extent) = self.extent.take() else {
            return Ok(());
        };
        let shape = &self.pages.shape;
        let page_rows = shape.rows as usize;
        let pages = self.pending_rows.div_ceil(page_rows) as u64;
        let first_page = u32::try_from(self.next_page + pages)
            .map(|end| end - pages as u32)
            .map_err(|_| Error::TooLarge {
                what: format!("table number {}", self.table),
                problem: "the table has more than 2^32 pages".into(),
            })?;
        let mut writes = Vec::with_capacity(shape.slots());
        for column in &mut self.columns {
            let mut units: Vec<IoBuf> = Vec::new();
            units.resize_with(column.minipage.units, || {
                IoBuf::zeroed(BlockCount(pages * shape.unit_blocks))
            });
            for page in 0..pages as usize {
                let rows = page * page_rows..((page + 1) * page_rows).min(self.pending_rows);
                let place = UnitPlace {
                    table: self.table,
                    page: first_page + page as u32,
                    attribute: column.minipage.attribute as u16,
                    unit: 0,
                };
                column.encode_page(rows.clone(), place, shape.unit(), page, &mut units);
                if let Some(bounds) = bounds.get_mut(column.minipage.attribute) {
                    let valid = column.valid_values(rows.clone()).count();
                    bounds.add_page(rows.len(), rows.len() - valid, column.valid_values(rows));
                }
            }
            for (unit, buffer) in units.into_iter().enumerate() {
                if let Some(slot) = extent.slot(column.minipage.first_slot + unit) {
                    writes.push((slot.first, buffer));
                }
            }
            column.bytes.clear();
            column.valid.clear();
        }
        device.batch_write(writes).await?;
        self.next_page += pages;
        self.pending_rows = 0;
        self.pages.extents.push(extent);
        Ok(())
    }
}

impl PendingColumn {
    /// Writes the minipage of one page: unit k goes to `units[k]`, at the page's place in the extent.
    fn encode_page(
        &self,
        rows: std::ops::Range<usize>,
        place: UnitPlace,
        unit: BlockCount,
        page: usize,
        units: &mut [IoBuf],
    ) {
        let unit_bytes = unit.bytes().0 as usize;
        let width = self.format.width_bytes;
        let mut first = rows.start;
        for (number, buffer) in units.iter_mut().enumerate() {
            let end = (first + self.format.unit_values as usize).min(rows.end);
            let target = buffer.get_mut(page * unit_bytes..(page + 1) * unit_bytes);
            let values = self.bytes.get(first * width..end * width);
            if let (Some(target), Some(values)) = (target, values) {
                let place = UnitPlace { unit: number as u16, ..place };
                let is_valid =
                    |index: usize| self.valid.get(first + index).copied().unwrap_or(false);
                minipage::encode(target, place, self.format, values, is_valid);
            }
            first = end;
        }
    }

    fn valid_values(&self, rows: std::ops::Range<usize>) -> impl Iterator<Item = &[u8]> {
        let width = self.format.width_bytes;
        rows.filter(|row| self.valid.get(*row).copied().unwrap_or(false))
            .filter_map(move |row| self.bytes.get(row * width..(row + 1) * width))
    }
}
