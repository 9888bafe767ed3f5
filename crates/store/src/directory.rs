//! Where the pages of a heap are: which rows each holds, and the blocks it lies in.

use moirai_units::{BlockCount, BlockRange, Lbn};

use crate::catalog::HeapEntry;
use crate::heap;

/// The pages of a heap, in row order.
#[derive(Clone, Debug)]
pub(crate) struct Directory {
    pages: Vec<DirectoryPage>,
    rows: u64,
}

/// One page.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct DirectoryPage {
    pub(crate) first_row: u64,
    pub(crate) rows: u32,
    pub(crate) blocks: BlockRange,
}

impl Directory {
    /// Reads the directory's blob: rows and units of each page, 4 bytes each. Pages fill the heap's
    /// extents in order; one that does not fit what is left of an extent begins the next. `None`
    /// when the pages do not fit the extents.
    pub(crate) fn decode(entry: &HeapEntry, blob: &[u8]) -> Option<Directory> {
        let mut extents = entry.extents.iter().map(|extent| extent.range());
        let mut room = BlockRange::new(Lbn(0), BlockCount::ZERO);
        let mut rows = 0;
        let mut pages = Vec::with_capacity(blob.len() / 8);
        for page in blob.chunks_exact(8) {
            let (page_rows, units) = page.split_first_chunk::<4>()?;
            let page_rows = u32::from_le_bytes(*page_rows);
            let units = u32::from_le_bytes(*units.first_chunk::<4>()?);
            let count = BlockCount::holding(heap::page_size(units));
            if room.count < count {
                room = extents.next()?;
            }
            if room.count < count {
                return None;
            }
            let (blocks, rest) = room.split_at(room.first + count);
            room = rest;
            pages.push(DirectoryPage { first_row: rows, rows: page_rows, blocks });
            rows += u64::from(page_rows);
        }
        Some(Directory { pages, rows })
    }

    /// Rows in all pages.
    pub(crate) fn rows(&self) -> u64 {
        self.rows
    }

    /// All pages.
    pub(crate) fn pages(&self) -> &[DirectoryPage] {
        &self.pages
    }

    /// The pages that hold any of `rows`.
    pub(crate) fn pages_of(&self, rows: std::ops::Range<u64>) -> &[DirectoryPage] {
        self.pages.get(self.page_range(&rows)).unwrap_or(&[])
    }

    /// The numbers of the pages that hold any of `rows`.
    pub(crate) fn page_range(&self, rows: &std::ops::Range<u64>) -> std::ops::Range<usize> {
        let start =
            self.pages.partition_point(|page| page.first_row + u64::from(page.rows) <= rows.start);
        let end = self.pages.partition_point(|page| page.first_row < rows.end);
        start..end.max(start)
    }
}
