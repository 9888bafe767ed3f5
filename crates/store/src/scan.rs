//! Scans and fetches: batches of some columns of a range of rows, or of chosen rows.

use std::ops::Range;
use std::sync::Arc;

use arrow_array::{ArrayRef, RecordBatch, RecordBatchOptions, UInt64Array};
use arrow_schema::{Schema, SchemaRef};
use arrow_select::take::take;
use futures::stream::{self, BoxStream, StreamExt};
use moirai_runtime::spawn;

use crate::groups::{PageMask, RowGroup, limit_rows, row_count, row_groups};
use crate::read::ReadPlan;
use crate::table::Table;
use crate::{Error, Result};

/// Rows of a batch unless asked otherwise.
pub const BATCH_ROWS: usize = 8192;

/// Row groups that are read ahead, so that a disk always knows its next request.
const READ_AHEAD: usize = 3;

/// What a scan reads.
#[derive(Clone, Debug, Default)]
pub struct ScanOptions {
    /// The columns, in the order wanted; all when not given.
    pub columns: Option<Vec<usize>>,
    /// The pages; all when not given.
    pub pages: Option<PageMask>,
    /// The rows; all when not given.
    pub rows: Option<Range<u64>>,
    /// No more rows than these.
    pub limit: Option<u64>,
    /// Rows of a batch; [`BATCH_ROWS`] when not given.
    pub batch_rows: Option<usize>,
}

/// A scan that is about to begin.
#[derive(Clone, Debug)]
pub struct Scan {
    table: Arc<Table>,
    columns: Columns,
    groups: Vec<RowGroup>,
    batch_rows: usize,
}

/// The columns of a scan: as they are wanted, and as they are read.
#[derive(Clone, Debug)]
struct Columns {
    /// Ascending, each once.
    read: Vec<usize>,
    /// For each wanted column, its place among those that are read.
    wanted: Vec<usize>,
    schema: SchemaRef,
}

impl Columns {
    fn new(table: &Table, columns: Option<&[usize]>) -> Result<Columns> {
        let all: Vec<usize> = (0..table.attributes().len()).collect();
        let wanted = columns.unwrap_or(&all);
        let mut read = wanted.to_vec();
        read.sort_unstable();
        read.dedup();
        if let Some(column) = read.last().filter(|column| **column >= all.len()) {
            return Err(table.no_column(*column));
        }
        let place = |column: &usize| read.partition_point(|known| known < column);
        let schema: Schema = table.schema().project(wanted)?;
        Ok(Columns { wanted: wanted.iter().map(place).collect(), read, schema: Arc::new(schema) })
    }

    fn batch(&self, rows: usize, read: &[ArrayRef]) -> Result<RecordBatch> {
        let arrays = self.wanted.iter().filter_map(|place| read.get(*place).cloned());
        let options = RecordBatchOptions::new().with_row_count(Some(rows));
        Ok(RecordBatch::try_new_with_options(Arc::clone(&self.schema), arrays.collect(), &options)?)
    }
}

impl Table {
    /// Prepares a scan.
    pub async fn scan(self: &Arc<Self>, options: ScanOptions) -> Result<Scan> {
        let columns = Columns::new(self, options.columns.as_deref())?;
        let rows = options.rows.unwrap_or(0..u64::MAX);
        let mut groups = row_groups(self, &columns.read, options.pages.as_ref(), rows).await?;
        limit_rows(&mut groups, options.limit.unwrap_or(u64::MAX));
        Ok(Scan {
            table: Arc::clone(self),
            columns,
            groups,
            batch_rows: options.batch_rows.unwrap_or(BATCH_ROWS).max(1),
        })
    }

    /// Reads some columns (all when not given) of chosen rows, as one batch of I/O. The rows come
    /// in the order given.
    pub async fn fetch(&self, rows: &[u64], columns: Option<&[usize]>) -> Result<RecordBatch> {
        let columns = Columns::new(self, columns)?;
        let (ranges, order) = self.ranges_of(rows)?;
        let plan = ReadPlan::new(self, &columns.read, &ranges).await?;
        let read = plan.read().await?;
        let arrays = read.iter().map(|array| take(array, &order, None));
        let arrays = arrays.collect::<std::result::Result<Vec<_>, _>>()?;
        columns.batch(rows.len(), &arrays)
    }

    /// Accesses the blocks of chosen rows as [`fetch`](Table::fetch) does, without their data.
    pub async fn access_rows(&self, rows: &[u64], columns: Option<&[usize]>) -> Result<()> {
        let columns = Columns::new(self, columns)?;
        let (ranges, _) = self.ranges_of(rows)?;
        ReadPlan::new(self, &columns.read, &ranges).await?.access().await
    }

    /// Rows as ascending ranges that do not touch, and where each of `rows` is among those.
    fn ranges_of(&self, rows: &[u64]) -> Result<(Vec<Range<u64>>, UInt64Array)> {
        let mut sorted = rows.to_vec();
        sorted.sort_unstable();
        sorted.dedup();
        if let Some(row) = sorted.last().filter(|row| **row >= self.rows()) {
            return Err(Error::NoRow {
                table: self.name().to_owned(),
                row: *row,
                rows: self.rows(),
            });
        }
        let order = rows.iter().map(|row| sorted.partition_point(|known| known < row) as u64);
        let order = UInt64Array::from_iter_values(order);
        let mut ranges: Vec<Range<u64>> = Vec::new();
        for row in sorted {
            match ranges.last_mut() {
                Some(range) if range.end == row => range.end += 1,
                _ => ranges.push(row..row + 1),
            }
        }
        Ok((ranges, order))
    }
}

impl Scan {
    /// Rows that the scan gives.
    #[must_use]
    pub fn rows(&self) -> u64 {
        self.groups.iter().map(|group| row_count(group)).sum()
    }

    /// Divides the scan into at most `parts` scans of about as many groups each, in row order.
    #[must_use]
    pub fn divide(mut self, parts: usize) -> Vec<Scan> {
        let share = self.groups.len().div_ceil(parts.max(1)).max(1);
        let mut groups = std::mem::take(&mut self.groups).into_iter();
        let mut scans = Vec::new();
        loop {
            let part: Vec<RowGroup> = groups.by_ref().take(share).collect();
            if part.is_empty() && !scans.is_empty() {
                return scans;
            }
            scans.push(Scan { groups: part, ..self.clone() });
        }
    }

    /// The schema of the batches.
    #[must_use]
    pub fn schema(&self) -> &SchemaRef {
        &self.columns.schema
    }

    /// Reads the rows in their order, some row groups ahead.
    #[must_use]
    pub fn stream(self) -> BoxStream<'static, Result<RecordBatch>> {
        let Scan { table, columns, groups, batch_rows } = self;
        let columns = Arc::new(columns);
        stream::iter(groups)
            .map(move |group| {
                let (table, columns) = (Arc::clone(&table), Arc::clone(&columns));
                spawn(async move {
                    let plan = ReadPlan::new(&table, &columns.read, &group).await?;
                    columns.batch(row_count(&group) as usize, &plan.read().await?)
                })
            })
            .buffered(READ_AHEAD)
            .flat_map(move |batch| stream::iter(slices(batch, batch_rows)))
            .boxed()
    }

    /// Makes the accesses of the scan, in the same order and as far ahead, without the data.
    pub async fn access(self) -> Result<()> {
        let Scan { table, columns, groups, .. } = self;
        let mut accesses =
            stream::iter(groups)
                .map(|group| {
                    let (table, columns) = (Arc::clone(&table), columns.clone());
                    spawn(async move {
                        ReadPlan::new(&table, &columns.read, &group).await?.access().await
                    })
                })
                .buffered(READ_AHEAD);
        while let Some(accessed) = accesses.next().await {
            accessed?;
        }
        Ok(())
    }

    /// The blocks that the scan reads, all row groups together.
    pub async fn blocks(&self) -> Result<moirai_units::BlockCount> {
        let mut blocks = moirai_units::BlockCount::ZERO;
        for group in &self.groups {
            let plan = ReadPlan::new(&self.table, &self.columns.read, group).await?;
            blocks += plan.runs().iter().map(|run| run.count).sum();
        }
        Ok(blocks)
    }
}

/// A batch as batches of at most `batch_rows`, which share its memory.
fn slices(batch: Result<RecordBatch>, batch_rows: usize) -> Vec<Result<RecordBatch>> {
    match batch {
        Err(error) => vec![Err(error)],
        Ok(batch) => (0..batch.num_rows())
            .step_by(batch_rows)
            .map(|start| Ok(batch.slice(start, batch_rows.min(batch.num_rows() - start))))
            .collect(),
    }
}
