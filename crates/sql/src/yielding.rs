//! Plans whose joins yield, so that a statement can be cancelled while it computes.
//!
//! DataFusion's sources take part in tokio's cooperative scheduling. A join that makes many batches of few does not: it is
//! polled again and again without its input being asked, and the task never returns to tokio. A nested loop that finds
//! nothing does not even make batches: it compares all rows of its first input with a whole batch of the second before it
//! asks for the next. So the second input comes in small batches, and the task yields after each.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use datafusion::common::config::ConfigOptions;
use datafusion::common::internal_err;
use datafusion::common::tree_node::{Transformed, TransformedResult, TreeNode, TreeNodeRecursion};
use datafusion::error::Result;
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_optimizer::PhysicalOptimizerRule;
use datafusion::physical_plan::coop::CooperativeExec;
use datafusion::physical_plan::execution_plan::replace_children_if_necessary;
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use datafusion::physical_plan::{DisplayAs, DisplayFormatType, ExecutionPlan, PlanProperties};
use futures::{StreamExt, TryStreamExt, stream};
use moirai_runtime::yield_now;

/// The operators that can make many batches of one.
const MULTIPLYING: [&str; 7] = [
    "NestedLoopJoinExec",
    "CrossJoinExec",
    "HashJoinExec",
    "SortMergeJoinExec",
    "PiecewiseMergeJoinExec",
    "SymmetricHashJoinExec",
    "UnnestExec",
];

/// The operator that compares all rows of its first input with a batch of the second before it can be polled again.
const NESTED: &str = "NestedLoopJoinExec";

/// Pairs of rows that it compares between two yields, some 10 ms where comparing is cheap.
const PAIRS: usize = 8 << 20;

/// How much longer a nested loop may compare to stay with large slices.
const SLOWER: usize = 16;

/// A rule that lets tasks yield after some batches of each operator that multiplies rows.
#[derive(Debug)]
pub(crate) struct YieldingJoins;

impl PhysicalOptimizerRule for YieldingJoins {
    fn optimize(
        &self,
        plan: Arc<dyn ExecutionPlan>,
        _: &ConfigOptions,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        plan.transform_up(|plan| {
            if !MULTIPLYING.contains(&plan.name()) {
                return Ok(Transformed::no(plan));
            }
            let mut plan = plan;
            if plan.name() == NESTED
                && let [build, probe] = plan.children()[..]
            {
                let build_rows = Arc::new(AtomicUsize::new(0));
                let paced = |input: &Arc<dyn ExecutionPlan>, side| {
                    let (input, build_rows) = (Arc::clone(input), Arc::clone(&build_rows));
                    Arc::new(Paced { input, side, build_rows }) as Arc<dyn ExecutionPlan>
                };
                let children = vec![paced(build, Side::Build), paced(probe, Side::Probe)];
                plan = replace_children_if_necessary(Arc::clone(&plan), children)?;
            }
            Ok(Transformed::yes(Arc::new(CooperativeExec::new(plan)) as Arc<dyn ExecutionPlan>))
        })
        .data()
    }

    fn name(&self) -> &'static str {
        "YieldingJoins"
    }

    fn schema_check(&self) -> bool {
        true
    }
}

/// Which input of a nested loop this is.
#[derive(Debug, Clone, Copy)]
enum Side {
    /// The first, which is read whole before the second.
    Build,
    /// The second.
    Probe,
}

/// An input of a nested loop: the rows of the first are counted, and the batches of the second cut by that count, with a yield
/// after each.
#[derive(Debug)]
struct Paced {
    input: Arc<dyn ExecutionPlan>,
    side: Side,
    build_rows: Arc<AtomicUsize>,
}

impl DisplayAs for Paced {
    fn fmt_as(&self, _: DisplayFormatType, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "PacedExec: side={:?}", self.side)
    }
}

impl ExecutionPlan for Paced {
    fn name(&self) -> &'static str {
        "PacedExec"
    }

    fn properties(&self) -> &Arc<PlanProperties> {
        self.input.properties()
    }

    fn maintains_input_order(&self) -> Vec<bool> {
        vec![true]
    }

    fn children(&self) -> Vec<&Arc<dyn ExecutionPlan>> {
        vec![&self.input]
    }

    fn apply_expressions(
        &self,
        _: &mut dyn FnMut(&Arc<dyn PhysicalExpr>) -> Result<TreeNodeRecursion>,
    ) -> Result<TreeNodeRecursion> {
        Ok(TreeNodeRecursion::Continue)
    }

    fn with_new_children(
        self: Arc<Self>,
        mut children: Vec<Arc<dyn ExecutionPlan>>,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        match (children.pop(), children.pop()) {
            (Some(input), None) => {
                let build_rows = Arc::clone(&self.build_rows);
                Ok(Arc::new(Paced { input, side: self.side, build_rows }))
            }
            _ => internal_err!("a side of a join is one input"),
        }
    }

    fn execute(
        &self,
        partition: usize,
        context: Arc<TaskContext>,
    ) -> Result<SendableRecordBatchStream> {
        let batch_rows = context.session_config().batch_size();
        let input = self.input.execute(partition, context)?;
        let schema = input.schema();
        let build_rows = Arc::clone(&self.build_rows);
        // With less than a tenth of a batch DataFusion takes a way that is slower for each pair. Up to `SLOWER` times the pairs are
        // compared at once to avoid it.
        let rows_min = batch_rows / 10 + 1;
        match self.side {
            Side::Build => {
                build_rows.store(0, Ordering::Relaxed);
                let counted = input.inspect_ok(move |batch| {
                    build_rows.fetch_add(batch.num_rows(), Ordering::Relaxed);
                });
                Ok(Box::pin(RecordBatchStreamAdapter::new(schema, counted)))
            }
            Side::Probe => {
                let slices = input.map_ok(move |batch| {
                    // The first input ended before the second was asked.
                    let rows = PAIRS / build_rows.load(Ordering::Relaxed).max(1);
                    let rows = rows.max(rows_min.min(SLOWER * rows)).max(1);
                    let firsts = (0..batch.num_rows()).step_by(rows);
                    stream::iter(firsts.map(move |first| {
                        Ok(batch.slice(first, rows.min(batch.num_rows() - first)))
                    }))
                });
                let slices = slices.try_flatten().then(|slice| async {
                    yield_now().await;
                    slice
                });
                Ok(Box::pin(RecordBatchStreamAdapter::new(schema, slices)))
            }
        }
    }
}
