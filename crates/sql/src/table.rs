//! A table of a store as DataFusion sees it.

use std::sync::Arc;

use async_trait::async_trait;
use datafusion::arrow::datatypes::SchemaRef;
use datafusion::catalog::{Session, TableProvider};
use datafusion::common::stats::Precision;
use datafusion::common::{ColumnStatistics, ScalarValue, Statistics};
use datafusion::error::{DataFusionError, Result};
use datafusion::logical_expr::{Expr, TableProviderFilterPushDown, TableType};
use datafusion::physical_plan::ExecutionPlan;
use moirai_store::{ScanOptions, Table};

use crate::prune::wanted_pages;
use crate::scan_exec::ScanExec;

#[derive(Debug)]
pub(crate) struct StoreTable {
    table: Arc<Table>,
}

impl StoreTable {
    pub(crate) fn new(table: Arc<Table>) -> StoreTable {
        StoreTable { table }
    }
}

/// Row count and bounds of all columns: exact, because nothing but a load changes a table.
pub(crate) fn statistics(table: &Table) -> Statistics {
    let column_statistics = (0..table.attributes().len()).map(|column| {
        let Some(bounds) = table.bounds(column) else {
            return ColumnStatistics::new_unknown();
        };
        let bound = |array: Option<datafusion::arrow::array::ArrayRef>| {
            array
                .and_then(|array| ScalarValue::try_from_array(&array, 0).ok())
                .map_or(Precision::Absent, Precision::Exact)
        };
        ColumnStatistics {
            null_count: Precision::Exact(bounds.nulls as usize),
            min_value: bound(bounds.min),
            max_value: bound(bounds.max),
            ..ColumnStatistics::new_unknown()
        }
    });
    Statistics {
        num_rows: Precision::Exact(table.rows() as usize),
        total_byte_size: Precision::Absent,
        column_statistics: column_statistics.collect(),
    }
}

pub(crate) fn external(error: moirai_store::Error) -> DataFusionError {
    DataFusionError::External(Box::new(error))
}

#[async_trait]
impl TableProvider for StoreTable {
    fn schema(&self) -> SchemaRef {
        Arc::clone(self.table.schema())
    }

    fn table_type(&self) -> TableType {
        TableType::Base
    }

    fn statistics(&self) -> Option<Statistics> {
        Some(statistics(&self.table))
    }

    /// A filter rules out whole pages; what is left is filtered again.
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
        let options = ScanOptions {
            columns: projection.cloned(),
            pages: wanted_pages(&self.table, state, filters).await?,
            // DataFusion gives a limit only when no filter is left to apply behind the scan.
            limit: limit.map(|limit| limit as u64),
            ..ScanOptions::default()
        };
        let pages = options
            .pages
            .as_ref()
            .map(|pages| (pages.iter().filter(|wanted| **wanted).count(), pages.len()));
        let whole = options.pages.is_none() && limit.is_none();
        let scan = self.table.scan(options).await.map_err(external)?;
        let statistics = if whole {
            statistics(&self.table).project(projection)
        } else {
            let known = statistics(&self.table).project(projection).to_inexact();
            known.with_num_rows(Precision::Inexact(scan.rows() as usize))
        };
        let partitions = state.config().target_partitions();
        let name = self.table.name().to_owned();
        Ok(Arc::new(ScanExec::new(name, scan, partitions, statistics, pages)))
    }
}
