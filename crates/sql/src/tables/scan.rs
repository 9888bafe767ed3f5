//! The physical plan of a scan of a snapshot.

use std::fmt;
use std::sync::Arc;

use datafusion::arrow::array::RecordBatch;
use datafusion::arrow::datatypes::SchemaRef;
use datafusion::common::tree_node::TreeNodeRecursion;
use datafusion::common::{Statistics, internal_err};
use datafusion::error::{DataFusionError, Result};
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::physical_expr::{EquivalenceProperties, PhysicalExpr};
use datafusion::physical_plan::execution_plan::{Boundedness, EmissionType};
use datafusion::physical_plan::statistics::StatisticsArgs;
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use datafusion::physical_plan::{
    DisplayAs, DisplayFormatType, ExecutionPlan, Partitioning, PlanProperties,
};
use moirai_tables::{Scan, ScanOptions, Snapshot, Table};

use crate::tables::range::KeyRange;
use crate::tables::table::external;

/// Reads columns of a table, a range of keys in each partition.
#[derive(Debug)]
pub(crate) struct RowsExec {
    snapshot: Arc<Snapshot>,
    table: Table,
    columns: Vec<usize>,
    schema: SchemaRef,
    ranges: Vec<KeyRange>,
    limit: Option<usize>,
    statistics: Arc<Statistics>,
    properties: Arc<PlanProperties>,
}

fn properties(schema: &SchemaRef, parts: usize) -> Arc<PlanProperties> {
    Arc::new(PlanProperties::new(
        EquivalenceProperties::new(Arc::clone(schema)),
        Partitioning::UnknownPartitioning(parts),
        EmissionType::Incremental,
        Boundedness::Bounded,
    ))
}

impl RowsExec {
    pub(crate) fn new(
        snapshot: Arc<Snapshot>,
        table: &Table,
        columns: Vec<usize>,
        range: KeyRange,
    ) -> Result<RowsExec> {
        let schema = Arc::new(table.schema_with_row_numbers().project(&columns)?);
        let statistics = Arc::new(Statistics::new_unknown(&schema));
        let properties = properties(&schema, 1);
        let (table, ranges) = (table.clone(), vec![range]);
        Ok(RowsExec {
            snapshot,
            table,
            columns,
            schema,
            ranges,
            limit: None,
            statistics,
            properties,
        })
    }

    /// Divides the range at those of these keys that are in it.
    pub(crate) fn divided(mut self, keys: &[Vec<u8>]) -> RowsExec {
        let Some(mut rest) = self.ranges.pop() else { return self };
        for key in keys {
            if *key > rest.from && rest.to.as_ref().is_none_or(|to| key < to) {
                let from = std::mem::replace(&mut rest.from, key.clone());
                self.ranges.push(KeyRange { from, to: Some(key.clone()), is_row: false });
            }
        }
        self.ranges.push(rest);
        self.properties = properties(&self.schema, self.ranges.len());
        self
    }

    /// Reads no more rows than a query wants.
    pub(crate) fn limited(self, limit: Option<usize>) -> RowsExec {
        RowsExec { limit, ..self }
    }

    pub(crate) fn with_statistics(self, statistics: Statistics) -> RowsExec {
        RowsExec { statistics: Arc::new(statistics), ..self }
    }
}

impl DisplayAs for RowsExec {
    fn fmt_as(&self, _: DisplayFormatType, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let columns: Vec<&str> =
            self.schema.fields().iter().map(|field| field.name().as_str()).collect();
        write!(f, "MoiraiScan: table={}, columns=[{}]", self.table.name(), columns.join(", "))?;
        let is_bound = self.ranges.first().is_some_and(|first| !first.from.is_empty())
            || self.ranges.last().is_some_and(|last| last.to.is_some());
        if is_bound {
            write!(f, ", by key")?;
        }
        match self.limit {
            Some(limit) => write!(f, ", limit={limit}"),
            None => Ok(()),
        }
    }
}

/// The batches of a scan, up to a number of rows.
async fn next(
    (mut scan, left): (Scan, Option<usize>),
) -> Result<Option<(RecordBatch, (Scan, Option<usize>))>> {
    if left == Some(0) {
        return Ok(None);
    }
    let Some(mut batch) = scan.next().await.map_err(external)? else { return Ok(None) };
    if let Some(left) = left.filter(|left| *left < batch.num_rows()) {
        batch = batch.slice(0, left);
    }
    let left = left.map(|left| left - batch.num_rows());
    Ok(Some((batch, (scan, left))))
}

impl ExecutionPlan for RowsExec {
    fn name(&self) -> &'static str {
        "MoiraiScan"
    }

    fn properties(&self) -> &Arc<PlanProperties> {
        &self.properties
    }

    fn children(&self) -> Vec<&Arc<dyn ExecutionPlan>> {
        Vec::new()
    }

    fn apply_expressions(
        &self,
        _: &mut dyn FnMut(&Arc<dyn PhysicalExpr>) -> Result<TreeNodeRecursion>,
    ) -> Result<TreeNodeRecursion> {
        Ok(TreeNodeRecursion::Continue)
    }

    fn with_new_children(
        self: Arc<Self>,
        _: Vec<Arc<dyn ExecutionPlan>>,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        Ok(self)
    }

    fn execute(
        &self,
        partition: usize,
        context: Arc<TaskContext>,
    ) -> Result<SendableRecordBatchStream> {
        let Some(KeyRange { from, to, .. }) = self.ranges.get(partition).cloned() else {
            return internal_err!("partition {partition} of {}", self.ranges.len());
        };
        let options = ScanOptions {
            columns: Some(self.columns.clone()),
            from,
            to,
            batch_rows: context.session_config().batch_size(),
        };
        let scan = Arc::clone(&self.snapshot).scan(&self.table, options).map_err(external)?;
        let batches = futures::stream::try_unfold((scan, self.limit), next);
        Ok(Box::pin(RecordBatchStreamAdapter::new(Arc::clone(&self.schema), batches)))
    }

    fn statistics_from_inputs(
        &self,
        _: &[Arc<Statistics>],
        args: &StatisticsArgs,
    ) -> Result<Arc<Statistics>> {
        Ok(match args.partition() {
            None => Arc::clone(&self.statistics),
            Some(_) => Arc::new(Statistics::new_unknown(&self.schema)),
        })
    }
}

impl From<crate::Error> for DataFusionError {
    fn from(error: crate::Error) -> DataFusionError {
        DataFusionError::External(Box::new(error))
    }
}
