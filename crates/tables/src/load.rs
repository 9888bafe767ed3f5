//! Filling a table: rows become pages at once, past log and queues.
//!
//! ```text
//!  batches --> window: sorted by key --> whole pages, encoded --> ingested behind those before
//!                                   \--> rows with keys below one that was ingested --> bulk group, sorted on the device
//! ```
//!
//! Input that is sorted, or sorted but for neighbours, goes through the window alone. Where the first window says that it is
//! neither, all of it goes to the bulk group. The table is in the catalog once all is durable, and after a crash before that its space
//! is free.

use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::{ArrayRef, RecordBatch, UInt32Array, UInt64Array};
use arrow_schema::SchemaRef;
use moirai_btree::Leaf;
use moirai_pages::{ColumnSlice, Encoder, ROWS, do_keys_ascend, encode_rows, key_of_row};
use moirai_update::{Bulk, Ingest, Modification, PUT};

use crate::changes::RowEncoder;
use crate::definition::{Layout, TableDefinition};
use crate::rows::text_of;
use crate::table::{Replace, Table};
use crate::tables::Tables;
use crate::values::ArrayValues;
use crate::{Error, Result};

/// Pages of rows that a window holds, and bytes: rows may be out of order by half as many.
const WINDOW_PAGES: usize = 32;
const WINDOW_BYTES: usize = 64 << 20;
/// Input is not sorted but for neighbours where a row moves by more than such a part of the first window.
const MOVED_SHARE: usize = 4;
/// How often the rows of a table are counted at the end of a load.
const COUNTS_MAX: u32 = 3;

/// How a table is filled.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LoadOptions {
    /// Replace a table of its name.
    pub replace: bool,
}

/// Fills a new table. Dropped before [`Load::finish`], and after an error, it leaves nothing: its space is free before the next table
/// is made.
pub struct Load<'a> {
    tables: &'a Arc<Tables>,
    table: Table,
    replace: Replace,
    /// With the numbers of rows, where there is no key.
    columns: usize,
    encoder: Encoder,
    ingest: Ingest<'a>,
    /// Rows that are not ingested yet.
    window: Vec<RecordBatch>,
    window_rows: usize,
    window_bytes: usize,
    /// Whether a window has passed.
    has_passed: bool,
    /// Whether the table is in the catalog, or about to be.
    is_entered: bool,
    schema: SchemaRef,
    /// The last key that was ingested.
    last: Option<Vec<u8>>,
    /// Rows whose keys are below it, and all after these.
    bulk: Option<Bulk<'a>>,
    rows: u64,
    content: Vec<u8>,
}

impl Tables {
    /// Begins to fill a new table.
    ///
    /// # Errors
    /// [`Error::TableExists`] unless it may be replaced; errors as of [`Tables::create`].
    pub async fn load(
        self: &Arc<Tables>,
        name: &str,
        definition: TableDefinition,
        options: LoadOptions,
    ) -> Result<Load<'_>> {
        let replace = if options.replace { Replace::Any } else { Replace::Nothing };
        if !options.replace {
            self.check_new(name).await?;
        }
        let table = self.begin(name, definition).await?;
        Load::new(self, table, replace)
    }

    /// Begins to fill a table that is empty, and is to be at the end. Handles of it are of no use from then on.
    ///
    /// # Errors
    /// Errors as of [`Tables::load`]; [`Load::finish`] gives [`Error::NotEmpty`], [`Error::Altered`] or [`Error::NoTable`] where the
    /// table has changed meanwhile.
    pub async fn load_into(self: &Arc<Tables>, table: &Table) -> Result<Load<'_>> {
        let new = self.begin(table.name(), table.definition().clone()).await?;
        Load::new(self, new, Replace::Empty(table.clone()))
    }
}

impl<'a> Load<'a> {
    fn new(tables: &'a Arc<Tables>, table: Table, replace: Replace) -> Result<Load<'a>> {
        let engine = tables.store().engine();
        let ingest = match table.layout() {
            Layout::Csm | Layout::Pax => engine.ingest_as(table.space(), ROWS)?,
            Layout::Nsm => engine.ingest(table.space())?,
        };
        let columns = table.pages().columns().len();
        let schema = Arc::clone(table.schema_with_row_numbers());
        Ok(Load {
            tables,
            table,
            replace,
            columns,
            encoder: Encoder::new(),
            ingest,
            window: Vec::new(),
            window_rows: 0,
            window_bytes: 0,
            has_passed: false,
            is_entered: false,
            schema,
            last: None,
            bulk: None,
            rows: 0,
            content: Vec::new(),
        })
    }

    /// The table to be.
    #[must_use]
    pub fn table(&self) -> &Table {
        &self.table
    }

    /// Rows so far.
    #[must_use]
    pub fn rows(&self) -> u64 {
        self.rows
    }

    /// Adds rows, in any order.
    ///
    /// # Errors
    /// [`Error::Rows`] for other columns than those of the table, and nulls where it takes none; [`Error::DuplicateKey`]; errors as
    /// of [`Ingest::push`] and [`Bulk::modify`]. The load cannot go on.
    pub async fn push(&mut self, rows: &RecordBatch) -> Result<()> {
        let need = self.table.schema().fields().len();
        if rows.num_columns() != need {
            let have = rows.num_columns();
            let problem = format!("it has {need} columns, and rows of {have} come");
            return self.table.rows_refused(problem);
        }
        let mut columns: Vec<ArrayRef> = Vec::with_capacity(self.columns);
        for (column, array) in rows.columns().iter().enumerate() {
            self.table.check_values(column, array)?;
            let held = crate::types::held(array.data_type());
            columns.push(match *array.data_type() == held {
                true => Arc::clone(array),
                false => arrow_cast::cast(array, &held)?,
            });
        }
        let count = rows.num_rows();
        if columns.len() < self.columns {
            let numbers = self.rows..self.rows + count as u64;
            columns.push(Arc::new(UInt64Array::from_iter_values(numbers)));
        }
        self.rows += count as u64;
        self.keep(RecordBatch::try_new(Arc::clone(&self.schema), columns)?);
        let is_full = self.window_rows >= WINDOW_PAGES * self.table.pages().rows_max()
            || self.window_bytes >= WINDOW_BYTES;
        if is_full { self.pass_window(false).await } else { Ok(()) }
    }

    fn keep(&mut self, rows: RecordBatch) {
        self.window_rows += rows.num_rows();
        self.window_bytes += rows.get_array_memory_size();
        self.window.push(rows);
    }

    /// Ingests rows of the window: all of them, or those that later ones are not likely to come before.
    async fn pass_window(&mut self, is_end: bool) -> Result<()> {
        let rows = arrow_select::concat::concat_batches(&self.schema, &self.window)?;
        let was_full = self.window_bytes >= WINDOW_BYTES;
        self.window.clear();
        (self.window_rows, self.window_bytes) = (0, 0);
        let (rows, moved) = self.sorted(rows)?;
        let (count, rows_max) = (rows.num_rows(), self.table.pages().rows_max());
        if !std::mem::replace(&mut self.has_passed, true) && !is_end && moved > count / MOVED_SHARE
        {
            // What follows goes there, too: a bulk group fills an empty table whatever its length is.
            self.bulk = Some(self.tables.store().engine().bulk());
        }
        let passed = match (is_end || self.bulk.is_some(), moved) {
            (true, _) => count,
            (false, 0) => count - count % rows_max,
            (false, _) => count / 2 - count / 2 % rows_max,
        };
        // Long rows: few of them are enough.
        let passed = if passed == 0 && was_full { count } else { passed };
        self.ingest_rows(&rows.slice(0, passed)).await?;
        if passed < count {
            self.keep(compacted(&rows.slice(passed, count - passed))?);
        }
        Ok(())
    }

    /// Rows by their keys, and by how many rows one of them moved at most.
    fn sorted(&self, rows: RecordBatch) -> Result<(RecordBatch, usize)> {
        let (pages, count) = (self.table.pages(), rows.num_rows());
        let of_key = |(column, array)| {
            pages.key().contains(&column).then(|| ArrayValues::of(array)).transpose()
        };
        let values: Vec<Option<ArrayValues>> =
            rows.columns().iter().enumerate().map(of_key).collect::<std::result::Result<_, _>>()?;
        // Keys need no others.
        const NONE: ColumnSlice<'static> = ColumnSlice::Numbers { bytes: &[], validity: None };
        let slices: Vec<_> =
            values.iter().map(|one| one.as_ref().map_or(NONE, ArrayValues::slice)).collect();
        let no_page = || self.table.no_page();
        if do_keys_ascend(pages, &slices, count).ok_or_else(no_page)? {
            return Ok((rows, 0));
        }
        let key = |row| key_of_row(pages, &slices, row).ok_or_else(no_page);
        let keys: Vec<Vec<u8>> = (0..count).map(key).collect::<Result<_>>()?;
        let mut order: Vec<u32> = (0..rows.num_rows() as u32).collect();
        let key = |row: &u32| keys.get(*row as usize);
        order.sort_by(|one, other| key(one).cmp(&key(other)));
        for pair in order.windows(2) {
            if let [one, next] = pair
                && key(one) == key(next)
            {
                return Err(self.duplicate(&rows, *one as usize));
            }
        }
        let moves = order.iter().enumerate().map(|(to, from)| to.abs_diff(*from as usize));
        let moved = moves.max().unwrap_or(0);
        let order = UInt32Array::from(order);
        Ok((arrow_select::take::take_record_batch(&rows, &order)?, moved))
    }

    fn duplicate(&self, rows: &RecordBatch, row: usize) -> Error {
        let columns = self.table.pages().key().iter();
        let key: Vec<_> =
            columns.filter_map(|column| rows.columns().get(*column).cloned()).collect();
        Error::DuplicateKey { table: self.table.name().to_owned(), key: text_of(&key, row) }
    }

    /// Ingests sorted rows, page by page, or brings them in with the bulk group.
    async fn ingest_rows(&mut self, rows: &RecordBatch) -> Result<()> {
        if self.table.layout() == Layout::Nsm {
            return self.ingest_records(rows).await;
        }
        let mut first = 0;
        let rows_max = self.table.pages().rows_max();
        while first < rows.num_rows() {
            let count = rows_max.min(rows.num_rows() - first);
            self.ingest_page(&rows.slice(first, count)).await?;
            first += count;
        }
        Ok(())
    }

    /// Ingests rows as a page, or as several where they are long.
    async fn ingest_page(&mut self, rows: &RecordBatch) -> Result<()> {
        let mut left = vec![rows.clone()];
        while let Some(rows) = left.pop() {
            let values = values_of(&rows)?;
            let slices: Vec<_> = values.iter().map(ArrayValues::slice).collect();
            let (pages, count) = (self.table.pages(), rows.num_rows());
            let key = |row: usize| key_of_row(pages, &slices, row);
            let ends = key(0).zip(count.checked_sub(1).and_then(key));
            let (key, last) = ends.ok_or_else(|| self.table.no_page())?;
            if self.bulk.is_some() || self.last.as_ref().is_some_and(|last| key <= *last) {
                drop(slices);
                self.put_rows(&rows).await?;
                continue;
            }
            self.content.clear();
            let bytes = encode_rows(pages, &slices, &mut self.encoder, &mut self.content);
            let page_bytes = self.table.definition().pages.page_bytes.0 as usize;
            if bytes.is_none_or(|bytes| bytes > page_bytes) {
                let half = count / 2;
                if half == 0 {
                    let problem = format!("a row is too long for pages of {page_bytes} bytes");
                    return self.table.rows_refused(problem);
                }
                left.push(rows.slice(half, count - half));
                left.push(rows.slice(0, half));
                continue;
            }
            self.ingest.push(&key, &self.content).await?;
            self.last = Some(last);
        }
        Ok(())
    }

    /// The same of a table whose rows are records.
    async fn ingest_records(&mut self, rows: &RecordBatch) -> Result<()> {
        let table = self.table.clone();
        let longest = Leaf::longest(table.definition().pages.page_bytes.0 as usize);
        let mut encoded = RowEncoder::of(&table, rows)?;
        for row in 0..rows.num_rows() {
            let (key, bytes) = encoded.row(row)?;
            // An ingest commits each long value by itself.
            if bytes.len() > longest || self.last.as_ref().is_some_and(|last| key <= *last) {
                let engine = self.tables.store().engine();
                let bulk = self.bulk.get_or_insert_with(|| engine.bulk());
                bulk.modify(table.space(), Modification { key: &key, kind: PUT, bytes }).await?;
                continue;
            }
            self.ingest.push(&key, bytes).await?;
            self.last = Some(key);
        }
        Ok(())
    }

    /// Brings rows in whose keys may be below some that were ingested.
    async fn put_rows(&mut self, rows: &RecordBatch) -> Result<()> {
        let bulk = self.bulk.get_or_insert_with(|| self.tables.store().engine().bulk());
        let mut encoded = RowEncoder::of(&self.table, rows)?;
        for row in 0..rows.num_rows() {
            let (key, bytes) = encoded.row(row)?;
            let put = Modification { key: &key, kind: PUT, bytes };
            bulk.modify(self.table.space(), put).await?;
        }
        Ok(())
    }

    /// Ends the load: the table is there, and durable, once this returns. Gives it with its number of rows.
    ///
    /// # Errors
    /// As of [`Load::push`]; [`Error::TableExists`] where one was made meanwhile. Nothing is left then.
    pub async fn finish(mut self) -> Result<(Table, u64)> {
        self.fill(false).await?;
        let (table, rows) = (self.table.clone(), self.rows);
        let (tables, replaces) = (self.tables, self.replace.clone());
        // It gives the space up where that fails.
        self.entered();
        tables.enter(&table, &replaces).await?;
        Ok((table, rows))
    }

    /// Brings the last rows in: the table only lacks its name then. A copy is as unique as its source.
    pub(crate) async fn fill(&mut self, is_copy: bool) -> Result<()> {
        self.pass_window(true).await?;
        self.ingest.flush().await?;
        if let Some(bulk) = self.bulk.take() {
            bulk.commit().await?;
            self.check_count().await?;
        }
        for index in self.table.indexes() {
            self.tables.fill_index(&self.table, index).await?;
            if !is_copy && index.definition().is_unique {
                self.tables.check_unique(index).await?;
            }
        }
        Ok(())
    }

    /// The table is in the catalog, or somebody else gives its space up.
    pub(crate) fn entered(mut self) {
        self.is_entered = true;
    }

    /// [`Error::DuplicateKeys`] where rows of the bulk group took the places of others.
    async fn check_count(&self) -> Result<()> {
        let mut found = u64::MAX;
        // Where a sweep joins pages meanwhile, some rows may be counted twice.
        for _ in 0..COUNTS_MAX {
            if found > self.rows {
                found = self.tables.count_rows(&self.table, u64::MAX).await?;
            }
        }
        match self.rows.saturating_sub(found) {
            0 => Ok(()),
            count => Err(Error::DuplicateKeys { table: self.table.name().to_owned(), count }),
        }
    }
}

impl Drop for Load<'_> {
    fn drop(&mut self) {
        if !self.is_entered {
            self.tables.abandon(self.table.spaces());
        }
    }
}

/// The same rows without what their texts had around them.
fn compacted(rows: &RecordBatch) -> Result<RecordBatch> {
    let compact = |array: &ArrayRef| -> ArrayRef {
        match (array.as_string_view_opt(), array.as_binary_view_opt()) {
            (Some(texts), _) => Arc::new(texts.gc()),
            (_, Some(bytes)) => Arc::new(bytes.gc()),
            (None, None) => Arc::clone(array),
        }
    };
    Ok(RecordBatch::try_new(rows.schema(), rows.columns().iter().map(compact).collect())?)
}

fn values_of(rows: &RecordBatch) -> Result<Vec<ArrayValues>> {
    let values = rows.columns().iter().map(ArrayValues::of);
    Ok(values.collect::<std::result::Result<_, _>>()?)
}
