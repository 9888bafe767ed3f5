//! A table at a snapshot as DataFusion sees it.

use std::sync::Arc;

use async_trait::async_trait;
use datafusion::arrow::datatypes::SchemaRef;
use datafusion::catalog::{Session, TableProvider};
use datafusion::common::stats::Precision;
use datafusion::common::{ColumnStatistics, Constraint, Constraints, Statistics};
use datafusion::error::{DataFusionError, Result};
use datafusion::logical_expr::{Expr, TableProviderFilterPushDown, TableType};
use datafusion::physical_plan::ExecutionPlan;
use moirai_tables::{Index, ScanOptions, Snapshot, Table};

use crate::tables::range::{KeyRange, Wanted, wanted_entries, wanted_rows};
use crate::tables::scan::RowsExec;

/// The rows of a table.
#[derive(Debug)]
pub(crate) struct Rows {
    snapshot: Arc<Snapshot>,
    table: Table,
    schema: SchemaRef,
    constraints: Constraints,
}

pub(crate) fn external(error: moirai_tables::Error) -> DataFusionError {
    DataFusionError::External(Box::new(error))
}

impl Rows {
    /// Those of a snapshot; with their numbers, where the table has no key and these are wanted.
    pub(crate) fn new(snapshot: Arc<Snapshot>, table: Table, is_numbered: bool) -> Rows {
        let schema = match is_numbered {
            true => Arc::clone(table.schema_with_row_numbers()),
            false => Arc::clone(table.schema()),
        };
        let key = table.definition().key().to_vec();
        let constraints = match key.is_empty() {
            true => Vec::new(),
            false => vec![Constraint::PrimaryKey(key)],
        };
        Rows { snapshot, table, schema, constraints: Constraints::new_unverified(constraints) }
    }
}

/// So many ranges are looked at to tell how many rows all have.
const ESTIMATED_RANGES: usize = 16;
/// So many rows are scanned in the time that one takes whose entry in an index is read first.
const ENTRY_ROWS: u64 = 64;

impl Rows {
    /// About how many rows are wanted.
    async fn rows_in(&self, wanted: &Wanted) -> Result<u64> {
        if wanted.are_rows {
            return Ok(wanted.ranges.len() as u64);
        }
        let mut rows = 0;
        let estimated = wanted.ranges.len().min(ESTIMATED_RANGES);
        for range in wanted.ranges.iter().take(estimated) {
            let estimated = self.snapshot.estimate_rows(&self.table, range.bounds()).await;
            // An estimate may be too low.
            rows += estimated.map_err(external)?.max(1);
        }
        // The others have as many.
        Ok(rows * wanted.ranges.len() as u64 / estimated.max(1) as u64)
    }

    /// About how many entries of an index are wanted, where they are fewer than `most`.
    async fn entries_in(&self, index: &Index, wanted: &Wanted, most: u64) -> Result<Option<u64>> {
        let ranges = wanted.ranges.len();
        if wanted.are_rows {
            return Ok(Some(ranges as u64).filter(|entries| *entries < most));
        }
        let mut entries = 0;
        let counted = ranges.min(ESTIMATED_RANGES);
        let some = wanted.ranges.iter().step_by((ranges / counted.max(1)).max(1)).take(counted);
        for KeyRange { from, to } in some.cloned() {
            let columns = Some(Vec::new());
            let options = ScanOptions { columns, from, to, ..ScanOptions::default() };
            let scan = Arc::clone(&self.snapshot).scan(index.entries(), options);
            let mut scan = scan.map_err(external)?;
            while let Some(batch) = scan.next().await.map_err(external)? {
                entries += batch.num_rows() as u64;
                if entries >= most {
                    return Ok(None);
                }
            }
        }
        // The others have as many; looking for none takes as long as for one.
        let entries = entries.max(counted as u64) * ranges as u64 / counted.max(1) as u64;
        Ok(Some(entries).filter(|entries| *entries < most))
    }
}

#[async_trait]
impl TableProvider for Rows {
    fn schema(&self) -> SchemaRef {
        Arc::clone(&self.schema)
    }

    fn table_type(&self) -> TableType {
        TableType::Base
    }

    fn constraints(&self) -> Option<&Constraints> {
        Some(&self.constraints)
    }

    /// A filter may bound the keys that are read, and leave out rows; what is left is filtered again.
    fn supports_filters_pushdown(
        &self,
        filters: &[&Expr],
    ) -> Result<Vec<TableProviderFilterPushDown>> {
        Ok(vec![TableProviderFilterPushDown::Inexact; filters.len()])
    }

    async fn scan(
        &self,
        state: &dyn Session,
        projection: Option<&Vec<usize>>,
        filters: &[Expr],
        limit: Option<usize>,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        let columns: Vec<usize> = match projection {
            Some(columns) => columns.clone(),
            None => (0..self.schema.fields().len()).collect(),
        };
        let mut wanted = wanted_rows(&self.table, filters);
        let mut rows = self.rows_in(&wanted).await?;
        let mut by = None;
        for index in self.table.indexes() {
            let entries = wanted_entries(&self.table, index, filters);
            let most = if by.is_none() { rows / ENTRY_ROWS } else { rows };
            if !entries.is_bound() {
                continue;
            }
            if let Some(named) = self.entries_in(index, &entries, most).await? {
                (by, wanted, rows) = (Some(index), entries, named);
            }
        }
        let rows = limit.map_or(rows, |limit| rows.min(limit as u64));
        let statistics = Statistics {
            num_rows: Precision::Inexact(rows as usize),
            total_byte_size: Precision::Absent,
            column_statistics: vec![ColumnStatistics::new_unknown(); columns.len()],
        };
        let parts = state.config().target_partitions();
        let keys = match (&wanted.ranges[..], limit) {
            ([range], None) if !wanted.are_rows && by.is_none() => {
                let keys = self.snapshot.divide(&self.table, range.bounds(), parts).await;
                keys.map_err(external)?
            }
            // Few rows are read faster by one.
            _ => Vec::new(),
        };
        let mut scan = RowsExec::new(Arc::clone(&self.snapshot), &self.table, columns, wanted)?;
        if let Some(index) = by {
            scan = scan.by(index);
        }
        let scan = scan.divided(&keys).limited(limit).with_statistics(statistics);
        Ok(Arc::new(scan.filtered(state, filters)))
    }
}
