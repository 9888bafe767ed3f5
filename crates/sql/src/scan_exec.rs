//! The physical plan of a scan.

use std::fmt;
use std::sync::Arc;

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
use futures::TryStreamExt;
use moirai_store::Scan;

use crate::table::external;

/// Reads a table, a part of its row groups in each partition.
#[derive(Debug)]
pub(crate) struct ScanExec {
    table: String,
    schema: SchemaRef,
    parts: Vec<Scan>,
    statistics: Arc<Statistics>,
    /// Pages that are read, of how many; when some are not.
    pages: Option<(usize, usize)>,
    properties: Arc<PlanProperties>,
}

impl ScanExec {
    pub(crate) fn new(
        table: String,
        scan: Scan,
        partitions: usize,
        statistics: Statistics,
        pages: Option<(usize, usize)>,
    ) -> ScanExec {
        let schema = Arc::clone(scan.schema());
        let parts = scan.divide(partitions);
        let properties = PlanProperties::new(
            EquivalenceProperties::new(Arc::clone(&schema)),
            Partitioning::UnknownPartitioning(parts.len()),
            EmissionType::Incremental,
            Boundedness::Bounded,
        );
        ScanExec {
            table,
            schema,
            parts,
            statistics: Arc::new(statistics),
            pages,
            properties: Arc::new(properties),
        }
    }
}

impl DisplayAs for ScanExec {
    fn fmt_as(&self, _: DisplayFormatType, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let columns: Vec<&str> =
            self.schema.fields().iter().map(|field| field.name().as_str()).collect();
        write!(f, "MoiraiScan: table={}, columns=[{}]", self.table, columns.join(", "))?;
        match self.pages {
            Some((read, all)) => write!(f, ", pages={read} of {all}"),
            None => Ok(()),
        }
    }
}

impl ExecutionPlan for ScanExec {
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

    fn execute(&self, partition: usize, _: Arc<TaskContext>) -> Result<SendableRecordBatchStream> {
        let Some(part) = self.parts.get(partition) else {
            return internal_err!("partition {partition} of {}", self.parts.len());
        };
        let batches = part.clone().stream().map_err(|error| -> DataFusionError { external(error) });
        let stream = RecordBatchStreamAdapter::new(Arc::clone(&self.schema), batches);
        Ok(Box::pin(stream))
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
