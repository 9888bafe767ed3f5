//! Filters of a query that its scans know of.
//!
//! A scan that knows them reads less: the columns of the filters first, and the others of pages that have rows to keep. What
//! it gives is filtered again, so it need not be exact.
//!
//! These are the filters that DataFusion's logical plan has for the table. Those that its physical plan hands down are not taken: version
//! 55.2 finds their columns by name alone below a join, passes those of `ORDER BY ... LIMIT` below another limit, and leaves rows
//! out that another aggregate needs.

use std::error::Error;
use std::fmt;
use std::sync::Arc;

use datafusion::arrow::array::{AsArray, BooleanArray, RecordBatch};
use datafusion::arrow::datatypes::SchemaRef;
use datafusion::catalog::Session;
use datafusion::common::DFSchema;
use datafusion::logical_expr::Expr;
use datafusion::physical_expr::utils::{collect_columns, reassign_expr_columns};
use datafusion::physical_expr::{PhysicalExpr, conjunction};
use datafusion::physical_expr_common::physical_expr::is_volatile;
use moirai_tables::RowFilter;

/// What filters ask of columns of a table.
#[derive(Clone, Debug)]
pub(crate) struct Predicate {
    /// The columns of the table.
    columns: Vec<usize>,
    /// Over these columns, in this order.
    expression: Arc<dyn PhysicalExpr>,
}

impl Predicate {
    /// The filters that a scan of `columns` can ask; `None` where there are none.
    pub(crate) fn of(
        state: &dyn Session,
        filters: &[Expr],
        (columns, schema): (&[usize], &SchemaRef),
    ) -> Option<Predicate> {
        let of_scan = DFSchema::try_from(Arc::clone(schema)).ok()?;
        // One that looks at other columns than the scan has, or waits for a subquery, is none that a scan can ask.
        let physical = |filter: &Expr| state.create_physical_expr(filter.clone(), &of_scan).ok();
        let can_ask = |filter: &Arc<dyn PhysicalExpr>| {
            // Asked twice, a random number is another.
            !is_volatile(filter) && !collect_columns(filter).is_empty()
        };
        let filters: Vec<_> = filters.iter().filter_map(physical).filter(can_ask).collect();
        if filters.is_empty() {
            return None;
        }
        let expression = conjunction(filters);
        let mut places: Vec<usize> =
            collect_columns(&expression).iter().map(|column| column.index()).collect();
        places.sort_unstable();
        let columns: Option<Vec<usize>> =
            places.iter().map(|place| columns.get(*place).copied()).collect();
        let schema = schema.project(&places).ok()?;
        let expression = reassign_expr_columns(expression, &schema).ok()?;
        Some(Predicate { columns: columns?, expression })
    }
}

impl fmt::Display for Predicate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.expression.fmt(f)
    }
}

impl RowFilter for Predicate {
    fn columns(&self) -> &[usize] {
        &self.columns
    }

    /// Rows for which a filter fails are kept: whoever filters them again says how.
    fn keep(
        &self,
        rows: &RecordBatch,
    ) -> std::result::Result<BooleanArray, Box<dyn Error + Send + Sync>> {
        let value = self.expression.evaluate(rows);
        let array = value.and_then(|value| value.into_array(rows.num_rows()));
        Ok(match array.as_ref().ok().and_then(|array| array.as_boolean_opt()) {
            Some(keep) => keep.clone(),
            None => BooleanArray::from(vec![true; rows.num_rows()]),
        })
    }
}
