//! Plans whose joins yield, so that a statement can be cancelled while it computes.
//!
//! DataFusion's sources take part in tokio's cooperative scheduling. A join that makes many batches of few
//! does not: it is polled again and again without its input being asked, and the task never returns to tokio.

use std::sync::Arc;

use datafusion::common::config::ConfigOptions;
use datafusion::common::tree_node::{Transformed, TransformedResult, TreeNode};
use datafusion::error::Result;
use datafusion::physical_optimizer::PhysicalOptimizerRule;
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::coop::CooperativeExec;

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
            Ok(match MULTIPLYING.contains(&plan.name()) {
                true => {
                    Transformed::yes(Arc::new(CooperativeExec::new(plan)) as Arc<dyn ExecutionPlan>)
                }
                false => Transformed::no(plan),
            })
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
