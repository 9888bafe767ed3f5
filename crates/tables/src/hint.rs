//! Scans that are told of a filter which is applied again to the rows that they give.
//!
//! Filtering rows twice costs more than it saves while many pages have rows to keep. So such a scan gives all rows, and applies the
//! filter to a sample of batches, to learn when few pages have rows to keep.

use std::sync::Arc;

use arrow_array::{ArrayRef, BooleanArray, RecordBatch};

use crate::Result;
use crate::definition::Layout;
use crate::filter_order::PAGES_OF_DECISION;
use crate::scan::{Scan, ScanCounts, ScanOptions};
use crate::snapshot::Snapshot;
use crate::table::Table;

/// Rows are filtered where less than 1 in 4 pages has some to keep.
const FILTERED_BELOW: u64 = 4;
/// The filter looks at the first batches, which are short, then at every second one, every fourth, down to one in so many.
const LOOKS_OF: u64 = 16;
const FIRST_ROWS: usize = 2048;

/// A scan whose rows come as they are.
pub(crate) struct Unfiltered {
    scan: Scan,
    batch_rows: usize,
    /// Where the filter's columns are.
    places: Vec<usize>,
    /// Pages that came with earlier batches.
    pages: u64,
    /// Batches until the filter looks at one, and how many come between the looks.
    wait: u64,
    between: u64,
    /// Pages since the last decision, and those of them that had rows to keep.
    seen: u64,
    with_rows: u64,
}

impl Unfiltered {
    /// A scan that has the filter's columns at these places.
    pub(crate) fn new(
        (snapshot, table, mut options): (Arc<Snapshot>, &Table, ScanOptions),
        places: Vec<usize>,
    ) -> Result<Unfiltered> {
        let batch_rows = options.batch_rows;
        if table.layout() != Layout::Nsm {
            options.batch_rows = batch_rows.min(FIRST_ROWS);
        }
        let scan = snapshot.scan(table, options)?;
        let (pages, wait, between, seen, with_rows) = (0, 1, 1, 0, 0);
        Ok(Unfiltered { scan, batch_rows, places, pages, wait, between, seen, with_rows })
    }

    pub(crate) fn counts(&self) -> ScanCounts {
        self.scan.counts()
    }

    pub(crate) async fn next(&mut self) -> Result<Option<RecordBatch>> {
        self.scan.next().await
    }

    /// Looks, where it is time for that, how many pages of a batch that just came have rows to keep. Gives the key from which on rows are
    /// to be filtered where these are few.
    pub(crate) fn look(
        &mut self,
        rows: &RecordBatch,
        keep: impl Fn(&[ArrayRef], usize) -> Result<BooleanArray>,
    ) -> Result<Option<Vec<u8>>> {
        let all_pages = self.scan.counts().pages;
        let pages = (all_pages - std::mem::replace(&mut self.pages, all_pages)) as usize;
        // A table in rows has no columns that could be read by themselves.
        let Some(position) = self.scan.position() else { return Ok(None) };
        self.wait = self.wait.saturating_sub(1);
        if self.wait > 0 || pages == 0 {
            return Ok(None);
        }
        let all = rows.columns();
        let arrays: Vec<ArrayRef> =
            self.places.iter().filter_map(|place| all.get(*place).cloned()).collect();
        let keep = keep(&arrays, rows.num_rows())?;
        // About as many rows are of each page.
        let page_rows = rows.num_rows().div_ceil(pages).max(1);
        for first in (0..rows.num_rows()).step_by(page_rows) {
            let of_page = keep.slice(first, page_rows.min(rows.num_rows() - first));
            self.seen += 1;
            self.with_rows += u64::from(of_page.true_count() > 0);
        }
        if self.seen < PAGES_OF_DECISION {
            self.wait = self.between;
            return Ok(None);
        }
        let have_few = self.with_rows * FILTERED_BELOW < self.seen;
        (self.seen, self.with_rows) = (0, 0);
        self.between = (2 * self.between).min(LOOKS_OF);
        self.wait = self.between;
        self.scan.set_batch_rows(self.batch_rows);
        Ok(have_few.then_some(position))
    }
}
