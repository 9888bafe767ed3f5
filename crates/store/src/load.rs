//! Bulk load: batches in, pages out. Nothing of a table is there until its load is finished.

use std::sync::Arc;

use arrow_array::RecordBatch;
use moirai_storage::Device;
use tokio::sync::OwnedMutexGuard;

use crate::blob;
use crate::bounds::BoundsBuilder;
use crate::catalog::{AttributeBounds, PageLayout, TableEntry};
use crate::column_writer::ColumnWriter;
use crate::columns::inputs;
use crate::heap::{self, HeapPlace};
use crate::heap_writer::HeapWriter;
use crate::row::RowFormat;
use crate::schema::Attribute;
use crate::shape::PageShape;
use crate::space::Space;
use crate::store::{Store, WriterState};
use crate::table::Table;
use crate::{Error, Result};

/// How to load a table.
#[derive(Clone, Copy, Debug, Default)]
pub struct LoadOptions {
    /// Rows of an A-page; chosen to fit the device's equivalence classes when not given.
    pub page_rows: Option<u32>,
    /// Whether a table of the same name is replaced. It stays until the new one is complete, so the device needs
    /// room for both.
    pub replace: bool,
}

/// The load of a table. A load that is dropped before it is [`finish`](Load::finish)ed leaves no table, and the
/// blocks that it wrote are free again.
#[derive(Debug)]
pub struct Load {
    store: Arc<Store>,
    /// The lock that makes other loads wait.
    writer: OwnedMutexGuard<WriterState>,
    /// The free space as the load sees it; becomes the store's when it is finished.
    space: Space,
    id: u32,
    name: String,
    layout: PageLayout,
    attributes: Vec<Attribute>,
    bounds: Vec<BoundsBuilder>,
    writers: Writers,
    rows: u64,
    /// Set while a batch is being added, and left set when that fails.
    broken: bool,
}

/// Where the rows go.
#[derive(Debug)]
enum Writers {
    Nsm {
        heap: HeapWriter,
        format: RowFormat,
        /// Values of the rows that wait for their page to be full: for its bounds.
        page: Vec<Vec<Option<Vec<u8>>>>,
        row: Vec<u8>,
    },
    Csm {
        pages: Option<ColumnWriter>,
        /// With the attribute that each holds.
        texts: Vec<(usize, HeapWriter)>,
    },
}

impl Load {
    pub(crate) fn new(
        store: Arc<Store>,
        writer: OwnedMutexGuard<WriterState>,
        name: String,
        attributes: Vec<Attribute>,
        layout: PageLayout,
        options: LoadOptions,
    ) -> Load {
        let id = writer.catalog.next_table;
        let space = writer.space.clone();
        let heap = |attribute: Option<usize>, nullable| {
            let place = HeapPlace {
                table: id,
                attribute: attribute.map_or(heap::ROWS, |attribute| attribute as u16),
                nullable,
            };
            HeapWriter::new(place, name.clone())
        };
        let writers = match layout {
            PageLayout::Nsm => Writers::Nsm {
                heap: heap(None, false),
                format: RowFormat::new(&attributes),
                page: Vec::new(),
                row: Vec::new(),
            },
            PageLayout::Csm => {
                let unit = store.device().inquiry().volume_block;
                let shape =
                    PageShape::choose(&attributes, unit, space.class_slots(), options.page_rows);
                let texts = attributes.iter().enumerate();
                Writers::Csm {
                    pages: shape.map(|shape| ColumnWriter::new(id, &attributes, shape)),
                    texts: texts
                        .filter(|(_, attribute)| attribute.attribute_type.width_bytes().is_none())
                        .map(|(number, attribute)| (number, heap(Some(number), attribute.nullable)))
                        .collect(),
                }
            }
        };
        Load {
            bounds: attributes.iter().map(|a| BoundsBuilder::new(a.attribute_type)).collect(),
            store,
            writer,
            space,
            id,
            name,
            layout,
            attributes,
            writers,
            rows: 0,
            broken: false,
        }
    }

    /// Rows added so far.
    #[must_use]
    pub fn rows(&self) -> u64 {
        self.rows
    }

    /// Adds the rows of `batch`, whose columns are those of the table. After an error that is not
    /// about the batch itself the load cannot be finished: part of the batch may be in it.
    pub async fn append(&mut self, batch: &RecordBatch) -> Result<()> {
        self.check_whole()?;
        let columns = inputs(&self.attributes, batch, self.rows)?;
        self.broken = true;
        for (bounds, column) in self.bounds.iter_mut().zip(&columns) {
            bounds.add_nulls(column.null_count());
        }
        let device: Arc<dyn Device> = Arc::clone(self.store.device());
        match &mut self.writers {
            Writers::Nsm { heap, format, page, row: bytes } => {
                for row in 0..batch.num_rows() {
                    format.encode(&columns, row, bytes);
                    let full = heap.push(&*device, &mut self.space, Some(bytes)).await?;
                    if full.is_some() {
                        add_page_bounds(&mut self.bounds, page);
                    }
                    page.push(columns.iter().map(|c| c.value(row).map(<[u8]>::to_vec)).collect());
                }
            }
            Writers::Csm { pages, texts } => {
                if let Some(pages) = pages {
                    let rows = batch.num_rows();
                    let bounds = &mut self.bounds;
                    pages.append(&*device, &mut self.space, &columns, rows, bounds).await?;
                }
                for (attribute, heap) in texts {
                    let Some(column) = columns.get(*attribute) else {
                        continue;
                    };
                    for row in 0..batch.num_rows() {
                        let value = column.value(row);
                        heap.push(&*device, &mut self.space, value).await?;
                    }
                }
            }
        }
        self.rows += batch.num_rows() as u64;
        self.broken = false;
        Ok(())
    }

    fn check_whole(&self) -> Result<()> {
        if self.broken {
            return Err(Error::BrokenLoad { table: self.name.clone() });
        }
        Ok(())
    }

    /// Writes what is left and makes the table part of the store, durably.
    pub async fn finish(mut self) -> Result<Arc<Table>> {
        self.check_whole()?;
        let device: Arc<dyn Device> = Arc::clone(self.store.device());
        let mut pages = None;
        let mut heaps = Vec::new();
        match self.writers {
            Writers::Nsm { heap, mut page, .. } => {
                let (entry, last_rows) = heap.finish(&*device, &mut self.space).await?;
                if last_rows.is_some() {
                    add_page_bounds(&mut self.bounds, &mut page);
                }
                heaps.push(entry);
            }
            Writers::Csm { pages: columns, texts } => {
                if let Some(columns) = columns {
                    pages =
                        Some(columns.finish(&*device, &mut self.space, &mut self.bounds).await?);
                }
                for (_, heap) in texts {
                    heaps.push(heap.finish(&*device, &mut self.space).await?.0);
                }
            }
        }
        let mut bounds: Vec<AttributeBounds> = Vec::with_capacity(self.bounds.len());
        for builder in self.bounds {
            let (mut of_table, by_page) = builder.finish();
            if !by_page.is_empty() {
                of_table.by_page = Some(blob::write(&*device, &mut self.space, &by_page).await?);
            }
            bounds.push(of_table);
        }
        let entry = TableEntry {
            id: self.id,
            name: self.name,
            layout: self.layout,
            rows: self.rows,
            attributes: self.attributes,
            bounds,
            pages,
            heaps,
        };
        let mut catalog = self.writer.catalog.clone();
        catalog.next_table += 1;
        // `Store::load` refuses the name of a table that is not to be replaced.
        let had = catalog.tables.len();
        catalog.tables.retain(|table| table.name != entry.name);
        let is_replacing = catalog.tables.len() < had;
        catalog.tables.push(entry.clone());
        self.writer.commit(&*device, catalog, self.space).await?;
        self.store.show(&self.writer);
        if is_replacing {
            self.store.free_dropped(&mut self.writer)?;
        }
        Ok(Arc::new(Table::new(device, entry)))
    }

    /// Lays out `rows` rows without writing anything: for experiments on devices that keep no data.
    /// The table is not made part of the store. Rows of an NSM table must be all of one size.
    pub fn reserve(mut self, rows: u64) -> Result<Arc<Table>> {
        let mut pages = None;
        let mut heaps = Vec::new();
        let mut directories = Vec::new();
        match self.writers {
            Writers::Nsm { heap, format, .. } => {
                let row_bytes = format.fixed_size().ok_or_else(|| Error::UnsupportedType {
                    column: "text".into(),
                    data_type: "utf8".into(),
                })?;
                let (entry, directory) = heap.reserve(&mut self.space, rows, row_bytes)?;
                heaps.push(entry);
                directories.push(directory);
            }
            Writers::Csm { pages: columns, .. } => {
                pages = columns.map(|c| c.reserve(&mut self.space, rows)).transpose()?;
            }
        }
        let entry = TableEntry {
            id: self.id,
            name: self.name,
            layout: self.layout,
            rows,
            bounds: self.attributes.iter().map(|_| AttributeBounds::default()).collect(),
            attributes: self.attributes,
            pages,
            heaps,
        };
        let table = Table::new(Arc::clone(self.store.device()), entry);
        for (index, directory) in directories.iter().enumerate() {
            table.set_directory(index, directory);
        }
        Ok(Arc::new(table))
    }
}

/// Adds the bounds of a page of rows, which is emptied.
fn add_page_bounds(bounds: &mut [BoundsBuilder], page: &mut Vec<Vec<Option<Vec<u8>>>>) {
    for (column, bounds) in bounds.iter_mut().enumerate() {
        let values = || page.iter().filter_map(|row| row.get(column)?.as_deref());
        bounds.add_page(page.len(), page.len() - values().count(), values());
    }
    page.clear();
}
