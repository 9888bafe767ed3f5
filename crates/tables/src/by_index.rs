//! Reading rows by an index: ranges of entries, and the rows that they are of.

use std::collections::VecDeque;
use std::sync::Arc;

use arrow_array::{ArrayRef, BooleanArray, RecordBatch};
use arrow_schema::SchemaRef;

use crate::Result;
use crate::index::{Index, key_behind};
use crate::scan::{Scan, ScanCounts, ScanOptions};
use crate::snapshot::{Snapshot, projected};
use crate::tables::Table;

/// Rows that are read at once.
const ROWS_AT_ONCE: usize = 1024;

/// Reads columns of the rows whose entries in an index are in a range, in the order of the index. Entries that a row does not have any
/// more are left out.
pub struct IndexScan {
    snapshot: Arc<Snapshot>,
    table: Table,
    index: Index,
    /// The columns of the answer, and these with those that entries are made of.
    schema: SchemaRef,
    columns: Vec<usize>,
    read: Vec<usize>,
    entries: Scan,
    /// Entries whose rows come next.
    pending: VecDeque<RecordBatch>,
    rows_at_once: usize,
}

impl Snapshot {
    /// Reads rows by an index of the table: `options` has bounds of the index's entries, see [`Index::key_prefix`], and columns of
    /// the table. A batch has `batch_rows` rows at most, and 1024.
    ///
    /// # Errors
    /// [`crate::Error::Rows`] for a column that the table does not have.
    pub fn index_scan(
        self: Arc<Snapshot>,
        table: &Table,
        index: &Index,
        options: ScanOptions,
    ) -> Result<IndexScan> {
        let ScanOptions { columns, from, to, batch_rows } = options;
        let columns =
            columns.unwrap_or_else(|| (0..table.schema().fields().len()).collect::<Vec<_>>());
        let schema = projected(table, &columns)?;
        let mut read = columns.clone();
        read.extend(index.source_columns());
        read.sort_unstable();
        read.dedup();
        let of_entries = ScanOptions { columns: None, from, to, batch_rows };
        let entries = Arc::clone(&self).scan(index.entries(), of_entries)?;
        let (table, index, pending) = (table.clone(), index.clone(), VecDeque::new());
        let rows_at_once = batch_rows.clamp(1, ROWS_AT_ONCE);
        Ok(IndexScan {
            snapshot: self,
            table,
            index,
            schema,
            columns,
            read,
            entries,
            pending,
            rows_at_once,
        })
    }

    /// Of rows that are to be put, with all columns of the table and the numbers of rows where it has no key: whether another row
    /// has the same values in the columns of an index, which is none of those that `leave`, by their keys. Nulls are the same as
    /// nothing.
    ///
    /// # Errors
    /// As of [`IndexScan::next`].
    pub async fn conflicts(
        self: &Arc<Snapshot>,
        table: &Table,
        index: &Index,
        rows: &RecordBatch,
        leave: impl Fn(&Vec<u8>) -> bool,
    ) -> Result<Vec<bool>> {
        let key_columns = table.pages().key();
        let of_rows: Vec<ArrayRef> =
            key_columns.iter().filter_map(|column| rows.columns().get(*column).cloned()).collect();
        let own = table.keys(&of_rows)?;
        let mut conflicts = Vec::with_capacity(own.len());
        for (identity, own) in index.identities(rows)?.into_iter().zip(&own) {
            let Some(prefix) = identity else {
                conflicts.push(false);
                continue;
            };
            let columns = Some(key_columns.to_vec());
            let to = key_behind(prefix.clone());
            let options = ScanOptions { columns, from: prefix, to, ..ScanOptions::default() };
            let mut scan = Arc::clone(self).index_scan(table, index, options)?;
            let mut is_taken = false;
            while let Some(others) = scan.next().await? {
                let mut keys = table.keys(others.columns())?.into_iter();
                is_taken |= keys.any(|key| key != *own && !leave(&key));
            }
            conflicts.push(is_taken);
        }
        Ok(conflicts)
    }
}

impl IndexScan {
    /// The columns.
    #[must_use]
    pub fn schema(&self) -> &SchemaRef {
        &self.schema
    }

    /// What was read of the index so far.
    #[must_use]
    pub fn counts(&self) -> ScanCounts {
        self.entries.counts()
    }

    /// The next rows; `None` behind the last.
    ///
    /// # Errors
    /// [`crate::Error::NoPage`]; errors as of [`moirai_update::Reader`].
    ///
    /// # Cancel safety
    /// Rows that were being read are left out: the scan is of no use then.
    pub async fn next(&mut self) -> Result<Option<RecordBatch>> {
        loop {
            let Some(entries) = self.pending.pop_front() else {
                let Some(entries) = self.entries.next().await? else { return Ok(None) };
                for first in (0..entries.num_rows()).step_by(self.rows_at_once) {
                    let count = self.rows_at_once.min(entries.num_rows() - first);
                    self.pending.push_back(entries.slice(first, count));
                }
                continue;
            };
            let rows = self.rows(&entries).await?;
            if rows.num_rows() > 0 {
                return Ok(Some(rows));
            }
        }
    }

    /// The rows of entries that they still have.
    async fn rows(&self, entries: &RecordBatch) -> Result<RecordBatch> {
        let keys = self.index.entries().keys(entries.columns())?;
        let of_table = self.index.key_columns(&self.table);
        let of_table = of_table.into_iter().filter_map(|column| entries.columns().get(column));
        let of_table: Vec<ArrayRef> = of_table.cloned().collect();
        let of_table = self.table.keys(&of_table)?;
        let (rows, found) = self.snapshot.rows_at(&self.table, &of_table, &self.read).await?;
        let place = |column: &usize| self.read.iter().position(|one| one == column);
        let array = |column: &usize| rows.columns().get(place(column)?).cloned();
        let sources: Vec<ArrayRef> = self.index.source_columns().iter().filter_map(array).collect();
        let mut made = self.index.keys(&sources)?;
        let mut is_current = Vec::with_capacity(found.len());
        for (row, entry) in found.into_iter().enumerate() {
            is_current.push(keys.get(entry) == Some(&made.key(row)?));
        }
        let is_current = BooleanArray::from(is_current);
        let columns: Vec<usize> = self.columns.iter().filter_map(place).collect();
        let rows = rows.project(&columns)?;
        match is_current.true_count() == is_current.len() {
            true => Ok(rows),
            false => Ok(arrow_select::filter::filter_record_batch(&rows, &is_current)?),
        }
    }
}

impl std::fmt::Debug for IndexScan {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let (table, index) = (self.table.name(), &self.index.definition().name);
        f.debug_struct("IndexScan")
            .field("table", &table)
            .field("index", index)
            .finish_non_exhaustive()
    }
}
