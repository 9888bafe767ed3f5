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
use moirai_tables::{Snapshot, Table};

use crate::tables::range::key_range;
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

    /// A filter may bound the keys that are read; what is left is filtered again.
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
        let range = key_range(&self.table, filters);
        let rows = match range.is_row {
            true => 1,
            false => {
                let rows = self.snapshot.estimate_rows(&self.table, range.bounds()).await;
                // An estimate may be too low.
                rows.map_err(external)?.max(1)
            }
        };
        let rows = limit.map_or(rows, |limit| rows.min(limit as u64));
        let statistics = Statistics {
            num_rows: Precision::Inexact(rows as usize),
            total_byte_size: Precision::Absent,
            column_statistics: vec![ColumnStatistics::new_unknown(); columns.len()],
        };
        let parts = state.config().target_partitions();
        let keys = match limit {
            None if !range.is_row => {
                let keys = self.snapshot.divide(&self.table, range.bounds(), parts).await;
                keys.map_err(external)?
            }
            // Few rows are read faster by one.
            _ => Vec::new(),
        };
        let scan = RowsExec::new(Arc::clone(&self.snapshot), &self.table, columns, range);
        Ok(Arc::new(scan?.divided(&keys).limited(limit).with_statistics(statistics)))
    }
}
