//! Writes heap pages: fills extents page by page and keeps the directory of pages.

use moirai_storage::{Device, IoBuf};
use moirai_units::{BlockCount, Lbn};

use crate::blob;
use crate::catalog::HeapEntry;
use crate::heap::{self, BuiltPage, HeapPlace, PageBuilder};
use crate::space::{RunExtent, Space};
use crate::{Error, Result};

/// Pages in a heap's first extent; each further one has as many as all before it, up to a whole
/// ensemble.
const FIRST_EXTENT_PAGES: u64 = 8;

/// A heap that is being loaded.
#[derive(Debug)]
pub(crate) struct HeapWriter {
    place: HeapPlace,
    /// For messages.
    table: String,
    builder: PageBuilder,
    extents: Vec<RunExtent>,
    /// The extent that is being filled, and how much of it is.
    pending: Option<(RunExtent, Vec<u8>)>,
    directory: Vec<u8>,
    rows: u64,
}

impl HeapWriter {
    pub(crate) fn new(place: HeapPlace, table: String) -> HeapWriter {
        HeapWriter {
            place,
            table,
            builder: PageBuilder::new(place),
            extents: Vec::new(),
            pending: None,
            directory: Vec::new(),
            rows: 0,
        }
    }

    /// Adds a record, `None` for a null. Gives the rows of the page that it did not fit in any more.
    pub(crate) async fn push(
        &mut self,
        device: &dyn Device,
        space: &mut Space,
        record: Option<&[u8]>,
    ) -> Result<Option<u32>> {
        let needed = self.builder.blocks_alone(record.map_or(0, <[u8]>::len));
        if needed > heap::UNIT && needed > space.longest_run()? {
            return Err(Error::RowTooLarge {
                table: self.table.clone(),
                row: self.rows,
                needed,
                longest: space.longest_run()?,
            });
        }
        self.rows += 1;
        match self.builder.push(record) {
            None => Ok(None),
            Some(page) => self.add(device, space, page).await.map(Some),
        }
    }

    /// Adds a full page to the extent; writes the extent when the page does not fit.
    async fn add(
        &mut self,
        device: &dyn Device,
        space: &mut Space,
        page: BuiltPage,
    ) -> Result<u32> {
        let page_bytes = page.bytes.len() as u64;
        let fits = |(extent, content): &(RunExtent, Vec<u8>)| {
            content.len() as u64 + page_bytes <= extent.range().bytes().0
        };
        if !self.pending.as_ref().is_some_and(fits) {
            self.write_pending(device).await?;
            let extent = self.allocate(space, BlockCount(u64::from(page.units) * heap::UNIT.0))?;
            self.pending = Some((extent, Vec::with_capacity(extent.range().bytes().0 as usize)));
        }
        if let Some((_, content)) = &mut self.pending {
            content.extend_from_slice(&page.bytes);
        }
        self.directory.extend_from_slice(&page.rows.to_le_bytes());
        self.directory.extend_from_slice(&page.units.to_le_bytes());
        Ok(page.rows)
    }

    fn allocate(&self, space: &mut Space, least: BlockCount) -> Result<RunExtent> {
        let blocks: u64 = self.extents.iter().map(|extent| extent.blocks).sum();
        let wanted = blocks.max(FIRST_EXTENT_PAGES * heap::UNIT.0);
        space.allocate_run(least, BlockCount(wanted.next_multiple_of(least.0)))
    }

    async fn write_pending(&mut self, device: &dyn Device) -> Result<()> {
        if let Some((extent, content)) = self.pending.take() {
            device.write(Lbn(extent.first), IoBuf::holding(&content)).await?;
            self.extents.push(extent);
        }
        Ok(())
    }

    /// Writes what is left, gives back the room it does not need, and writes the directory. Gives
    /// the rows of the last page too.
    pub(crate) async fn finish(
        mut self,
        device: &dyn Device,
        space: &mut Space,
    ) -> Result<(HeapEntry, Option<u32>)> {
        let mut last_rows = None;
        if let Some(page) = self.builder.finish() {
            last_rows = Some(self.add(device, space, page).await?);
        }
        if let Some((extent, content)) = &mut self.pending {
            let used = BlockCount(content.len() as u64 / moirai_units::BLOCK_BYTES);
            let (kept, rest) = extent.range().split_at(Lbn(extent.first) + used);
            extent.blocks = kept.count.0;
            if !rest.is_empty() {
                space.free_run(rest)?;
            }
        }
        self.write_pending(device).await?;
        let entry = HeapEntry {
            attribute: self.attribute(),
            extents: self.extents,
            directory: blob::write(device, space, &self.directory).await?,
        };
        Ok((entry, last_rows))
    }

    fn attribute(&self) -> Option<usize> {
        (self.place.attribute != heap::ROWS).then_some(usize::from(self.place.attribute))
    }

    /// Lays out `rows` records of `record_bytes` without writing them. Gives the directory too,
    /// which is not stored.
    pub(crate) fn reserve(
        mut self,
        space: &mut Space,
        rows: u64,
        record_bytes: usize,
    ) -> Result<(HeapEntry, Vec<u8>)> {
        let record = vec![0; record_bytes];
        let page_rows = loop {
            if let Some(page) = self.builder.push(Some(&record)) {
                break u64::from(page.rows);
            }
        };
        let mut left = rows;
        while left > 0 {
            let extent = self.allocate(space, heap::UNIT)?;
            for _ in 0..extent.blocks / heap::UNIT.0 {
                let held = left.min(page_rows);
                if held > 0 {
                    self.directory.extend_from_slice(&(held as u32).to_le_bytes());
                    self.directory.extend_from_slice(&1u32.to_le_bytes());
                }
                left -= held;
            }
            self.extents.push(extent);
        }
        let entry = HeapEntry {
            attribute: self.attribute(),
            extents: self.extents,
            directory: blob::BlobRef::default(),
        };
        Ok((entry, self.directory))
    }
}
