//! Reading rows by an index: ranges of entries, and the rows that they are of.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

use arrow_array::{ArrayRef, BooleanArray, RecordBatch, UInt64Array};
use arrow_schema::SchemaRef;
use arrow_select::take::take_record_batch;

use crate::Result;
use crate::index::{Index, key_behind};
use crate::scan::{Scan, ScanCounts, ScanOptions};
use crate::snapshot::{Snapshot, projected};
use crate::table::Table;

/// Rows that are read at once.
const ROWS_AT_ONCE: usize = 1024;

/// Values that are found in the time that passing a page takes: each reads a page, too, with all changes of its partition.
const VALUES_OF_PAGE: u64 = 4;

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
        let ScanOptions { columns, from, to, batch_rows, pages } = options;
        let columns =
            columns.unwrap_or_else(|| (0..table.schema().fields().len()).collect::<Vec<_>>());
        let schema = projected(table, &columns)?;
        let mut read = columns.clone();
        read.extend(index.source_columns());
        read.sort_unstable();
        read.dedup();
        let of_entries = ScanOptions { columns: None, from, to, batch_rows, pages };
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
        let mut conflicts = vec![false; own.len()];
        let mut wanted: BTreeMap<Vec<u8>, Vec<usize>> = BTreeMap::new();
        for (row, identity) in index.identities(rows)?.into_iter().enumerate() {
            if let Some(identity) = identity {
                wanted.entry(identity).or_default().push(row);
            }
        }
        for (from, to) in self.ranges_of(index, &wanted).await? {
            let columns = Some(key_columns.to_vec());
            let options = ScanOptions { columns, from, to, ..ScanOptions::default() };
            let mut scan = Arc::clone(self).index_scan(table, index, options)?;
            while let Some(entries) = scan.entries.next().await? {
                let of_others = scan.row_keys(&entries)?;
                // Rows that are to be put, and the entries of others that have the values of one of them.
                let (mut with, mut taken) = (Vec::new(), Vec::new());
                for (entry, key) in index.entries().keys(entries.columns())?.iter().enumerate() {
                    let identity = index.prefix_bytes(key).and_then(|bytes| key.get(..bytes));
                    let rows = identity.and_then(|identity| wanted.get(identity));
                    let other = of_others.get(entry).filter(|other| !leave(other));
                    for row in rows.into_iter().flatten() {
                        if other.is_some_and(|other| own.get(*row) != Some(other)) {
                            with.push(*row);
                            taken.push(entry as u64);
                        }
                    }
                }
                if taken.is_empty() {
                    continue;
                }
                let taken = take_record_batch(&entries, &UInt64Array::from(taken))?;
                let Current { found, is_current, .. } = scan.current(&taken).await?;
                for (place, is_current) in found.into_iter().zip(is_current.values()) {
                    if let Some(row) = with.get(place)
                        && let Some(conflict) = conflicts.get_mut(*row)
                    {
                        *conflict |= is_current;
                    }
                }
            }
        }
        Ok(conflicts)
    }

    /// Ranges of an index with all entries that have some values: one for all of them, or one for each where that has far more
    /// pages than there are values.
    async fn ranges_of<T>(
        &self,
        index: &Index,
        values: &BTreeMap<Vec<u8>, T>,
    ) -> Result<Vec<(Vec<u8>, Option<Vec<u8>>)>> {
        let (Some((first, _)), Some((last, _))) =
            (values.first_key_value(), values.last_key_value())
        else {
            return Ok(Vec::new());
        };
        let (from, to) = (first.clone(), key_behind(last.clone()));
        let engine = self.tables().store().engine();
        let entries = index.entries().space();
        let pages = engine.sample(entries, &from, to.as_deref(), 2).await?.blocks;
        if values.len() == 1 || pages <= 1 + values.len() as u64 / VALUES_OF_PAGE {
            return Ok(vec![(from, to)]);
        }
        Ok(values.keys().map(|one| (one.clone(), key_behind(one.clone()))).collect())
    }
}

/// Entries beside the rows that they are of.
struct Current {
    /// The rows that are there, with all columns that were read.
    rows: RecordBatch,
    /// The entry of each row.
    found: Vec<usize>,
    /// Whether the row has it still.
    is_current: BooleanArray,
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

    /// The rows whose entries these are, those alone that still have them.
    async fn rows(&self, entries: &RecordBatch) -> Result<RecordBatch> {
        let Current { rows, is_current, .. } = self.current(entries).await?;
        let columns = self.columns.iter().filter_map(|column| self.place(*column));
        let rows = rows.project(&columns.collect::<Vec<_>>())?;
        match is_current.true_count() == is_current.len() {
            true => Ok(rows),
            false => Ok(arrow_select::filter::filter_record_batch(&rows, &is_current)?),
        }
    }

    /// Where a column is among those that are read.
    fn place(&self, column: usize) -> Option<usize> {
        self.read.iter().position(|one| *one == column)
    }

    /// The keys of the rows whose entries these are.
    fn row_keys(&self, entries: &RecordBatch) -> Result<Vec<Vec<u8>>> {
        let columns = self.index.key_columns(&self.table).into_iter();
        let arrays = columns.filter_map(|column| entries.columns().get(column).cloned());
        self.table.keys(&arrays.collect::<Vec<ArrayRef>>())
    }

    async fn current(&self, entries: &RecordBatch) -> Result<Current> {
        let keys = self.index.entries().keys(entries.columns())?;
        let of_table = self.row_keys(entries)?;
        let (rows, found) = self.snapshot.rows_at(&self.table, &of_table, &self.read).await?;
        let array = |column: &usize| rows.columns().get(self.place(*column)?).cloned();
        let sources: Vec<ArrayRef> = self.index.source_columns().iter().filter_map(array).collect();
        let mut made = self.index.keys(&sources)?;
        let mut is_current = Vec::with_capacity(found.len());
        for (row, entry) in found.iter().enumerate() {
            is_current.push(keys.get(*entry) == Some(&made.key(row)?));
        }
        #[cfg(feature = "canary")]
        if self.snapshot.tables().has_canary(crate::Canary::StaleEntry) {
            is_current.fill(true);
        }
        let is_current = BooleanArray::from(is_current);
        Ok(Current { rows, found, is_current })
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
