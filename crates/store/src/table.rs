//! A table that is open for reading: what the catalog says of it, and the parts loaded on demand.

use std::sync::Arc;

use arrow_array::ArrayRef;
use arrow_schema::SchemaRef;
use moirai_storage::Device;
use moirai_units::{BlockCount, BlockRange};
use tokio::sync::OnceCell;

use crate::blob;
use crate::bounds::{PageBounds, bound_array};
use crate::catalog::{ColumnPages, HeapEntry, PageLayout, TableEntry};
use crate::directory::Directory;
use crate::heap::{self, HeapPlace};
use crate::row::RowFormat;
use crate::schema::{Attribute, schema_of};
use crate::{Error, Result};

/// A table as it was when it was opened. It stays readable until it is dropped from the store.
#[derive(Debug)]
pub struct Table {
    pub(crate) device: Arc<dyn Device>,
    pub(crate) entry: TableEntry,
    schema: SchemaRef,
    pub(crate) row_format: RowFormat,
    /// For each extent of A-pages: the number of its first page.
    pub(crate) extent_first_pages: Vec<u64>,
    directories: Vec<OnceCell<Directory>>,
    page_bounds: Vec<OnceCell<Option<PageBounds>>>,
}

/// How much room a table takes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TableSize {
    /// Blocks of its extents.
    pub extent_blocks: BlockCount,
    /// Pages that hold rows: A-pages, or pages of rows.
    pub pages: u64,
}

/// What is known of a column's values in the whole table.
#[derive(Clone, Debug)]
pub struct ColumnBounds {
    /// How many are null.
    pub nulls: u64,
    /// The least, as an array of one value.
    pub min: Option<ArrayRef>,
    /// The greatest, as an array of one value.
    pub max: Option<ArrayRef>,
}

impl Table {
    pub(crate) fn new(device: Arc<dyn Device>, entry: TableEntry) -> Table {
        let mut next_page = 0;
        let extent_first_pages = entry.pages.iter().flat_map(|pages| {
            let unit_blocks = pages.shape.unit_blocks.max(1);
            pages.extents.iter().map(move |extent| extent.columns / unit_blocks)
        });
        let extent_first_pages = extent_first_pages
            .map(|pages| {
                next_page += pages;
                next_page - pages
            })
            .collect();
        Table {
            schema: schema_of(&entry.attributes),
            row_format: RowFormat::new(&entry.attributes),
            extent_first_pages,
            directories: entry.heaps.iter().map(|_| OnceCell::new()).collect(),
            page_bounds: entry.attributes.iter().map(|_| OnceCell::new()).collect(),
            device,
            entry,
        }
    }

    /// Its name.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.entry.name
    }

    /// Its rows; they are numbered from 0.
    #[must_use]
    pub fn rows(&self) -> u64 {
        self.entry.rows
    }

    /// How its pages are laid out.
    #[must_use]
    pub fn layout(&self) -> PageLayout {
        self.entry.layout
    }

    /// The schema of what it is read as.
    #[must_use]
    pub fn schema(&self) -> &SchemaRef {
        &self.schema
    }

    /// Its columns.
    #[must_use]
    pub fn attributes(&self) -> &[Attribute] {
        &self.entry.attributes
    }

    /// The device it lies on.
    #[must_use]
    pub fn device(&self) -> &Arc<dyn Device> {
        &self.device
    }

    /// Rows of an A-page; `None` when the table has none.
    #[must_use]
    pub fn page_rows(&self) -> Option<u32> {
        self.entry.pages.as_ref().map(|pages| pages.shape.rows)
    }

    /// How much room it takes.
    pub async fn size(&self) -> Result<TableSize> {
        let mut size = TableSize::default();
        if let Some(pages) = &self.entry.pages {
            for extent in &pages.extents {
                let slots = extent.slot_firsts.len() as u64;
                size.extent_blocks += BlockCount(extent.columns * slots);
            }
            size.pages = self.entry.rows.div_ceil(u64::from(pages.shape.rows.max(1)));
        }
        for (index, heap) in self.entry.heaps.iter().enumerate() {
            size.extent_blocks += heap.extents.iter().map(|extent| extent.range().count).sum();
            if heap.attribute.is_none() {
                size.pages = self.directory(index).await?.pages().len() as u64;
            }
        }
        Ok(size)
    }

    /// What is known of a column's values.
    #[must_use]
    pub fn bounds(&self, column: usize) -> Option<ColumnBounds> {
        let bounds = self.entry.bounds.get(column)?;
        let kind = self.entry.attributes.get(column)?.attribute_type;
        Some(ColumnBounds {
            nulls: bounds.nulls,
            min: bound_array(kind, bounds.min.as_ref()),
            max: bound_array(kind, bounds.max.as_ref()),
        })
    }

    /// The bounds of a column in each page; `None` where they are not kept.
    pub async fn page_bounds(&self, column: usize) -> Result<Option<&PageBounds>> {
        let (Some(cell), Some(bounds), Some(attribute)) = (
            self.page_bounds.get(column),
            self.entry.bounds.get(column),
            self.entry.attributes.get(column),
        ) else {
            return Err(self.no_column(column));
        };
        let load = || async {
            let Some(by_page) = &bounds.by_page else {
                return Ok(None);
            };
            let what = format!("bounds of column {} of table {}", attribute.name, self.entry.name);
            let content = blob::read(&*self.device, by_page, &what).await?;
            PageBounds::decode(attribute.attribute_type, &content).map(Some)
        };
        cell.get_or_try_init(load).await.map(Option::as_ref)
    }

    pub(crate) fn no_column(&self, column: usize) -> Error {
        Error::NoColumn {
            table: self.entry.name.clone(),
            column,
            columns: self.entry.attributes.len(),
        }
    }

    /// The A-pages and the rows of each, when there are any.
    pub(crate) fn column_pages(&self) -> Option<&ColumnPages> {
        self.entry.pages.as_ref()
    }

    /// The heap that holds `attribute`, or the rows: its index and entry.
    pub(crate) fn heap(&self, attribute: Option<usize>) -> Option<(usize, &HeapEntry)> {
        let mut heaps = self.entry.heaps.iter().enumerate();
        heaps.find(|(_, heap)| heap.attribute == attribute)
    }

    pub(crate) fn heap_place(&self, attribute: Option<usize>) -> HeapPlace {
        HeapPlace {
            table: self.entry.id,
            attribute: attribute.map_or(heap::ROWS, |attribute| attribute as u16),
            nullable: attribute
                .and_then(|attribute| self.entry.attributes.get(attribute))
                .is_some_and(|attribute| attribute.nullable),
        }
    }

    /// The directory of heap `index`.
    pub(crate) async fn directory(&self, index: usize) -> Result<&Directory> {
        let (Some(cell), Some(heap)) = (self.directories.get(index), self.entry.heaps.get(index))
        else {
            return Err(self.no_column(index));
        };
        let load = || async {
            let what = format!("page directory of table {}", self.entry.name);
            let content = blob::read(&*self.device, &heap.directory, &what).await?;
            Directory::decode(heap, &content)
                .filter(|directory| directory.rows() == self.entry.rows)
                .ok_or_else(|| {
                    let blocks = heap.directory.runs.first().map(|run| run.range());
                    let problem = "the directory does not fit the table's extents and rows";
                    self.damaged(what, blocks, problem)
                })
        };
        cell.get_or_try_init(load).await
    }

    /// Gives heap `index` a directory that is not stored.
    pub(crate) fn set_directory(&self, index: usize, content: &[u8]) {
        if let (Some(cell), Some(heap)) = (self.directories.get(index), self.entry.heaps.get(index))
            && let Some(directory) = Directory::decode(heap, content)
        {
            // It is set once, by who made the table.
            let _ = cell.set(directory);
        }
    }

    pub(crate) fn damaged(&self, what: String, blocks: Option<BlockRange>, problem: &str) -> Error {
        let blocks = blocks.unwrap_or(self.device.inquiry().all_blocks());
        Error::Damaged {
            device: self.device.inquiry().name.clone(),
            what,
            blocks,
            offset: blocks.first.byte_offset(),
            problem: problem.to_owned(),
        }
    }

    pub(crate) fn attribute_name(&self, attribute: Option<usize>) -> String {
        match attribute.and_then(|attribute| self.entry.attributes.get(attribute)) {
            Some(attribute) => format!("column {} of table {}", attribute.name, self.entry.name),
            None => format!("table {}", self.entry.name),
        }
    }
}
