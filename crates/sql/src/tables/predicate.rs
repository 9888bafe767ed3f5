//! Filters of a query that its scans know of.
//!
//! A scan that knows them reads less: the columns of the filters first, and the others of pages that have rows to keep. What
//! it gives is filtered again by whose filters they are, so it need not be exact.

use std::error::Error;
use std::fmt;
use std::sync::Arc;

use datafusion::arrow::array::{AsArray, BooleanArray, RecordBatch};
use datafusion::error::Result;
use datafusion::physical_expr::utils::{collect_columns, reassign_expr_columns};
use datafusion::physical_expr::{PhysicalExpr, conjunction};
use datafusion::physical_expr_common::physical_expr::is_volatile;
use moirai_tables::{RowFilter, Table};

/// What filters ask of columns of a table. Those that a sort of a few rows made become narrower while the query runs.
#[derive(Clone, Debug)]
pub(crate) struct Predicate {
    /// The columns of the table.
    columns: Vec<usize>,
    /// Over these columns, in this order.
    expression: Arc<dyn PhysicalExpr>,
}

impl Predicate {
    /// The filters over a scan of `columns` that a scan can ask; `None` where there are none.
    pub(crate) fn of(
        filters: &[Arc<dyn PhysicalExpr>],
        (table, columns): (&Table, &[usize]),
    ) -> Result<Option<Predicate>> {
        let can_ask = |filter: &&Arc<dyn PhysicalExpr>| {
            // Asked twice, a random number is another.
            !is_volatile(filter) && !collect_columns(filter).is_empty()
        };
        let filters: Vec<Arc<dyn PhysicalExpr>> = filters.iter().filter(can_ask).cloned().collect();
        if filters.is_empty() {
            return Ok(None);
        }
        let expression = conjunction(filters);
        let mut places: Vec<usize> =
            collect_columns(&expression).iter().map(|column| column.index()).collect();
        places.sort_unstable();
        let columns: Vec<usize> =
            places.iter().filter_map(|place| columns.get(*place).copied()).collect();
        let schema = table.schema_with_row_numbers().project(&columns)?;
        let expression = reassign_expr_columns(expression, &schema)?;
        Ok(Some(Predicate { columns, expression }))
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
