//! Which pages of a table a scan must read: those that its filters do not rule out.

use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::sync::Arc;

use datafusion::arrow::array::{ArrayRef, BooleanArray, UInt64Array};
use datafusion::catalog::Session;
use datafusion::common::pruning::PruningStatistics;
use datafusion::common::{Column, DFSchema, ScalarValue};
use datafusion::error::Result;
use datafusion::logical_expr::Expr;
use datafusion::logical_expr::utils::conjunction;
use datafusion::physical_expr::utils::collect_columns;
use datafusion::physical_optimizer::pruning::PruningPredicateBuilder;
use moirai_store::{PageBounds, PageMask, Table};

use crate::table::external;

/// The pages that can hold rows which pass `filters`; `None` when the bounds rule out none.
pub(crate) async fn wanted_pages(
    table: &Table,
    state: &dyn Session,
    filters: &[Expr],
) -> Result<Option<PageMask>> {
    let Some(filter) = conjunction(filters.iter().cloned()) else {
        return Ok(None);
    };
    let schema = DFSchema::try_from(Arc::clone(table.schema()))?;
    let filter = state.create_physical_expr(filter, &schema)?;
    // In column order: the set's own order differs from run to run, and the bounds are read in it.
    let columns: BTreeSet<usize> =
        collect_columns(&filter).iter().map(|column| column.index()).collect();
    let Ok(predicate) = PruningPredicateBuilder::new()
        .with_file_schema(Arc::clone(table.schema()))
        .try_build(filter)
    else {
        // A filter that cannot be turned into one on bounds rules nothing out.
        return Ok(None);
    };
    if predicate.always_true() {
        return Ok(None);
    }
    let mut bounds = BTreeMap::new();
    for column in columns {
        let name = table.attributes().get(column).map(|attribute| attribute.name.clone());
        let pages = table.page_bounds(column).await.map_err(external)?;
        bounds.extend(name.zip(pages));
    }
    let Some(pages) = bounds.values().next().map(|bounds| bounds.pages()) else {
        return Ok(None);
    };
    let mask = predicate.prune(&Bounds { pages, bounds })?;
    Ok(mask.contains(&false).then_some(mask))
}

/// The bounds of a table's pages, by column.
struct Bounds<'a> {
    pages: usize,
    bounds: BTreeMap<String, &'a PageBounds>,
}

impl PruningStatistics for Bounds<'_> {
    fn min_values(&self, column: &Column) -> Option<ArrayRef> {
        self.bounds.get(column.name()).map(|bounds| Arc::clone(&bounds.min))
    }

    fn max_values(&self, column: &Column) -> Option<ArrayRef> {
        self.bounds.get(column.name()).map(|bounds| Arc::clone(&bounds.max))
    }

    fn num_containers(&self) -> usize {
        self.pages
    }

    /// As if every page had two rows: what counts is whether there are no nulls, some, or all.
    fn null_counts(&self, column: &Column) -> Option<ArrayRef> {
        let bounds = self.bounds.get(column.name())?;
        let pages = bounds.has_nulls.iter().zip(&bounds.has_values);
        let counts = pages.map(|(has_nulls, has_values)| match (has_nulls, has_values) {
            (false, _) => 0,
            (true, true) => 1,
            (true, false) => 2,
        });
        Some(Arc::new(UInt64Array::from_iter_values(counts)))
    }

    fn row_counts(&self) -> Option<ArrayRef> {
        Some(Arc::new(UInt64Array::from(vec![2; self.pages])))
    }

    fn contained(&self, _: &Column, _: &HashSet<ScalarValue>) -> Option<BooleanArray> {
        None
    }
}
