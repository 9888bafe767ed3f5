//! The physical plan of a scan of a snapshot, by key or by an index.

use std::collections::VecDeque;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use datafusion::arrow::array::RecordBatch;
use datafusion::arrow::compute::SortOptions;
use datafusion::arrow::datatypes::SchemaRef;
use datafusion::catalog::Session;
use datafusion::common::tree_node::TreeNodeRecursion;
use datafusion::common::{Statistics, internal_err};
use datafusion::error::{DataFusionError, Result};
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::logical_expr::Expr;
use datafusion::physical_expr::expressions::Column;
use datafusion::physical_expr::{EquivalenceProperties, PhysicalExpr, PhysicalSortExpr};
use datafusion::physical_plan::execution_plan::{Boundedness, EmissionType};
use datafusion::physical_plan::metrics::{
    Count, ExecutionPlanMetricsSet, MetricBuilder, MetricsSet, Time,
};
use datafusion::physical_plan::statistics::StatisticsArgs;
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use datafusion::physical_plan::{
    DisplayAs, DisplayFormatType, ExecutionPlan, Partitioning, PlanProperties,
};
use moirai_runtime::now;
use moirai_tables::{
    FilterOrder, FilteredScan, Index, IndexScan, Layout, Scan, ScanCounts, ScanOptions, Snapshot,
    Table,
};

use crate::tables::predicate::Predicate;
use crate::tables::range::{KeyRange, Wanted};
use crate::tables::table::external;

/// Reads columns of a table: in each partition ranges of keys, rows with some keys, or those that ranges of an index's entries name.
#[derive(Clone, Debug)]
pub(crate) struct RowsExec {
    snapshot: Arc<Snapshot>,
    table: Table,
    columns: Vec<usize>,
    schema: SchemaRef,
    index: Option<Index>,
    /// What is read by whom.
    parts: Vec<Wanted>,
    limit: Option<usize>,
    /// Rows that it does not keep may be left out: they are filtered again.
    predicate: Option<Arc<Predicate>>,
    statistics: Arc<Statistics>,
    properties: Arc<PlanProperties>,
    metrics: ExecutionPlanMetricsSet,
}

/// In which order the columns that are read come, and in how many parts.
fn properties(
    table: &Table,
    index: Option<&Index>,
    (columns, schema): (&[usize], &SchemaRef),
    parts: usize,
) -> Arc<PlanProperties> {
    let number = [table.schema().fields().len()];
    let order = match (index, table.definition().key()) {
        (Some(index), _) => &index.definition().columns[..],
        (None, []) => &number[..],
        (None, key) => key,
    };
    let by = |column: &usize| {
        let place = columns.iter().position(|one| one == column)?;
        let column = Arc::new(Column::new(schema.field(place).name(), place));
        let options = SortOptions { descending: false, nulls_first: false };
        Some(PhysicalSortExpr { expr: column, options })
    };
    // What is behind a column that is not read has no order of its own.
    let order: Vec<PhysicalSortExpr> = order.iter().map_while(by).collect();
    Arc::new(PlanProperties::new(
        EquivalenceProperties::new_with_orderings(Arc::clone(schema), [order]),
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
        wanted: Wanted,
    ) -> Result<RowsExec> {
        let schema = Arc::new(table.schema_with_row_numbers().project(&columns)?);
        let statistics = Arc::new(Statistics::new_unknown(&schema));
        let properties = properties(table, None, (&columns, &schema), 1);
        let (table, parts) = (table.clone(), vec![wanted]);
        Ok(RowsExec {
            snapshot,
            table,
            columns,
            schema,
            index: None,
            parts,
            limit: None,
            predicate: None,
            statistics,
            properties,
            metrics: ExecutionPlanMetricsSet::new(),
        })
    }

    fn with_properties(mut self) -> RowsExec {
        let read = (&self.columns[..], &self.schema);
        self.properties = properties(&self.table, self.index.as_ref(), read, self.parts.len());
        self
    }

    /// Divides a range at those of these keys that are in it.
    pub(crate) fn divided(mut self, keys: &[Vec<u8>]) -> RowsExec {
        let [Wanted { ranges, are_rows: false }] = &self.parts[..] else { return self };
        let [range] = &ranges[..] else { return self };
        let (mut rest, mut parts) = (range.clone(), Vec::new());
        let part = |range| Wanted { ranges: vec![range], are_rows: false };
        for key in keys {
            if *key > rest.from && rest.to.as_ref().is_none_or(|to| key < to) {
                let from = std::mem::replace(&mut rest.from, key.clone());
                parts.push(part(KeyRange { from, to: Some(key.clone()) }));
            }
        }
        parts.push(part(rest));
        self.parts = parts;
        self.with_properties()
    }

    /// Reads the rows that entries of an index name: the ranges are those of entries.
    pub(crate) fn by(self, index: &Index) -> RowsExec {
        RowsExec { index: Some(index.clone()), ..self }.with_properties()
    }

    /// Reads no more rows than a query wants.
    pub(crate) fn limited(self, limit: Option<usize>) -> RowsExec {
        RowsExec { limit, ..self }
    }

    /// Leaves out rows that the filters do not keep, where that saves something: it reads many rows in one go, by their columns.
    pub(crate) fn filtered(self, state: &dyn Session, filters: &[Expr]) -> RowsExec {
        let is_range = |part: &Wanted| !part.are_rows && part.ranges.len() == 1;
        // With a limit, rows would be counted that the limit does not mean.
        let can_filter = self.index.is_none()
            && self.limit.is_none()
            && self.table.layout() != Layout::Nsm
            && self.parts.iter().all(is_range)
            && self.statistics.num_rows.get_value().is_some_and(|rows| *rows >= FILTERED_ROWS);
        let predicate = match can_filter {
            true => Predicate::of(state, filters, (&self.columns, &self.schema)),
            false => None,
        };
        RowsExec { predicate: predicate.map(Arc::new), ..self }
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
        let is_bound = self.parts.len() > 1 || self.parts.iter().any(Wanted::is_bound);
        match &self.index {
            Some(index) => write!(f, ", by index {}", index.definition().name)?,
            None if is_bound => write!(f, ", by key")?,
            None => {}
        }
        if let Some(predicate) = &self.predicate {
            write!(f, ", filter={predicate}")?;
        }
        match self.limit {
            Some(limit) => write!(f, ", limit={limit}"),
            None => Ok(()),
        }
    }
}

/// A scan of fewer rows does not filter them: that takes longer than to read all.
const FILTERED_ROWS: usize = 1 << 14;
/// Keys of rows that are read at once.
const KEYS_AT_ONCE: usize = 1024;

/// What a partition reads, and what of it comes next.
struct Reading {
    snapshot: Arc<Snapshot>,
    table: Table,
    index: Option<Index>,
    columns: Vec<usize>,
    /// Ranges that come after those that are being read, in their order.
    ranges: VecDeque<KeyRange>,
    are_rows: bool,
    /// Rows of a batch.
    batch_rows: usize,
    /// Rows that are wanted still.
    left: usize,
    predicate: Option<Arc<Predicate>>,
    source: Source,
    metrics: ScanMetrics,
}

/// What `EXPLAIN ANALYZE` shows of a partition.
struct ScanMetrics {
    rows: Count,
    /// Time until batches were there, with what was waited for.
    time: Time,
    pages: Count,
    changed_pages: Count,
    passed_pages: Count,
    bytes: Count,
}

impl ScanMetrics {
    fn new(all: &ExecutionPlanMetricsSet, partition: usize) -> ScanMetrics {
        let count = |name| MetricBuilder::new(all).counter(name, partition);
        ScanMetrics {
            rows: MetricBuilder::new(all).output_rows(partition),
            time: MetricBuilder::new(all).subset_time("read_time", partition),
            pages: count("pages"),
            changed_pages: count("changed_pages"),
            passed_pages: count("passed_pages"),
            bytes: count("bytes_read"),
        }
    }

    /// A scan has ended.
    fn add(&self, counts: ScanCounts) {
        self.pages.add(counts.pages as usize);
        self.changed_pages.add(counts.changed_pages as usize);
        self.passed_pages.add(counts.passed_pages as usize);
        self.bytes.add(counts.bytes as usize);
    }
}

/// Where rows come from.
enum Source {
    None,
    Range(Box<Scan>),
    Filtered(Box<FilteredScan>),
    Index(Box<IndexScan>),
}

impl Drop for Reading {
    fn drop(&mut self) {
        self.end();
    }
}

impl Reading {
    /// The next rows; `None` behind the last.
    async fn next(&mut self) -> moirai_tables::Result<Option<RecordBatch>> {
        while self.left > 0 {
            let batch = match &mut self.source {
                Source::Range(scan) => scan.next().await?,
                Source::Filtered(scan) => scan.next().await?,
                Source::Index(scan) => scan.next().await?,
                Source::None if self.ranges.is_empty() => return Ok(None),
                Source::None if self.are_rows && self.index.is_none() => {
                    let count = KEYS_AT_ONCE.min(self.ranges.len());
                    let keys: Vec<Vec<u8>> =
                        self.ranges.drain(..count).map(|range| range.from).collect();
                    Some(self.snapshot.rows_of(&self.table, &keys, &self.columns).await?)
                }
                Source::None => {
                    self.begin()?;
                    continue;
                }
            };
            match batch {
                None => self.end(),
                Some(batch) if batch.num_rows() == 0 => {}
                Some(batch) => {
                    let batch = batch.slice(0, self.left.min(batch.num_rows()));
                    self.left -= batch.num_rows();
                    return Ok(Some(batch));
                }
            }
        }
        Ok(None)
    }

    /// Ends what is being read.
    fn end(&mut self) {
        match std::mem::replace(&mut self.source, Source::None) {
            Source::Range(scan) => self.metrics.add(scan.counts()),
            Source::Filtered(scan) => self.metrics.add(scan.counts()),
            Source::Index(scan) => self.metrics.add(scan.counts()),
            Source::None => {}
        }
    }

    /// Begins to read the next range.
    fn begin(&mut self) -> moirai_tables::Result<()> {
        let Some(KeyRange { from, to }) = self.ranges.pop_front() else { return Ok(()) };
        let columns = Some(self.columns.clone());
        let batch_rows = self.batch_rows.min(self.left);
        let options = ScanOptions { columns, from, to, batch_rows, ..ScanOptions::default() };
        let snapshot = Arc::clone(&self.snapshot);
        self.source = match (&self.index, &self.predicate) {
            (None, None) => Source::Range(Box::new(snapshot.scan(&self.table, options)?)),
            (None, Some(predicate)) => {
                let (filter, order) = (Arc::clone(predicate), FilterOrder::Hint);
                let scan = snapshot.filtered_scan(&self.table, options, filter, order)?;
                Source::Filtered(Box::new(scan))
            }
            (Some(index), _) => {
                Source::Index(Box::new(snapshot.index_scan(&self.table, index, options)?))
            }
        };
        Ok(())
    }
}

async fn next(mut reading: Reading) -> Result<Option<(RecordBatch, Reading)>> {
    let started = now();
    let batch = reading.next().await.map_err(external)?;
    reading.metrics.time.add_duration(Duration::from_nanos(now().since(started).0));
    reading.metrics.rows.add(batch.as_ref().map_or(0, RecordBatch::num_rows));
    Ok(batch.map(|batch| (batch, reading)))
}

impl ExecutionPlan for RowsExec {
    fn name(&self) -> &'static str {
        "MoiraiScan"
    }

    fn properties(&self) -> &Arc<PlanProperties> {
        &self.properties
    }

    fn metrics(&self) -> Option<MetricsSet> {
        Some(self.metrics.clone_inner())
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
        let Some(Wanted { ranges, are_rows }) = self.parts.get(partition).cloned() else {
            return internal_err!("partition {partition} of {}", self.parts.len());
        };
        let reading = Reading {
            snapshot: Arc::clone(&self.snapshot),
            table: self.table.clone(),
            index: self.index.clone(),
            columns: self.columns.clone(),
            ranges: ranges.into(),
            are_rows,
            batch_rows: context.session_config().batch_size(),
            left: self.limit.unwrap_or(usize::MAX),
            predicate: self.predicate.clone(),
            source: Source::None,
            metrics: ScanMetrics::new(&self.metrics, partition),
        };
        let batches = futures::stream::try_unfold(reading, next);
        Ok(Box::pin(RecordBatchStreamAdapter::new(Arc::clone(&self.schema), batches)))
    }

    /// Of one partition alone: each of several would have the limit for itself.
    fn with_fetch(&self, limit: Option<usize>) -> Option<Arc<dyn ExecutionPlan>> {
        if self.parts.len() > 1 {
            return None;
        }
        let limit = self.limit.into_iter().chain(limit).min();
        Some(Arc::new(RowsExec { limit, predicate: None, ..self.clone() }))
    }

    fn fetch(&self) -> Option<usize> {
        self.limit.filter(|_| self.parts.len() == 1)
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
