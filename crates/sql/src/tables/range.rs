//! Ranges of keys that filters leave.

use datafusion::arrow::array::ArrayRef;
use datafusion::arrow::compute::{CastOptions, cast_with_options};
use datafusion::common::ScalarValue;
use datafusion::logical_expr::{BinaryExpr, Expr, Operator};
use moirai_tables::{KeyBounds, Table};

/// Keys from one on, and before another or to the last.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct KeyRange {
    pub(crate) from: Vec<u8>,
    pub(crate) to: Option<Vec<u8>>,
    /// Whether it has the keys of one row at most.
    pub(crate) is_row: bool,
}

impl KeyRange {
    pub(crate) fn bounds(&self) -> KeyBounds<'_> {
        KeyBounds { from: &self.from, to: self.to.as_deref() }
    }
}

/// A condition `column operator value`.
struct Condition<'a> {
    column: &'a str,
    operator: Operator,
    value: &'a ScalarValue,
}

fn conditions<'a>(filter: &'a Expr, found: &mut Vec<Condition<'a>>) {
    match filter {
        Expr::BinaryExpr(BinaryExpr { left, op: Operator::And, right }) => {
            conditions(left, found);
            conditions(right, found);
        }
        Expr::BinaryExpr(BinaryExpr { left, op, right }) => match (&**left, &**right) {
            (Expr::Column(column), Expr::Literal(value, _)) => {
                found.push(Condition { column: &column.name, operator: *op, value });
            }
            (Expr::Literal(value, _), Expr::Column(column)) => {
                if let Some(operator) = op.swap() {
                    found.push(Condition { column: &column.name, operator, value });
                }
            }
            _ => {}
        },
        Expr::Between(between) if !between.negated => {
            let parts = (&*between.expr, &*between.low, &*between.high);
            if let (Expr::Column(column), Expr::Literal(low, _), Expr::Literal(high, _)) = parts {
                let column = &column.name;
                found.push(Condition { column, operator: Operator::GtEq, value: low });
                found.push(Condition { column, operator: Operator::LtEq, value: high });
            }
        }
        _ => {}
    }
}

/// The first key behind all that begin with `prefix`; `None` where there is none.
fn behind(mut prefix: Vec<u8>) -> Option<Vec<u8>> {
    while let Some(last) = prefix.last_mut() {
        if let Some(next) = last.checked_add(1) {
            *last = next;
            return Some(prefix);
        }
        prefix.pop();
    }
    None
}

/// A value as the column has it; `None` where that is another value.
fn value_of(table: &Table, column: usize, value: &ScalarValue) -> Option<ArrayRef> {
    let array = value.to_array().ok().filter(|_| !value.is_null())?;
    let of = table.schema().fields().get(column)?.data_type();
    if array.data_type() == of {
        return Some(array);
    }
    let options = CastOptions { safe: true, ..CastOptions::default() };
    let cast = cast_with_options(&array, of, &options).ok()?;
    let back = cast_with_options(&cast, array.data_type(), &options).ok()?;
    (cast.null_count() == 0 && *back == *array).then_some(cast)
}

/// The keys of the rows that all filters may leave.
pub(crate) fn key_range(table: &Table, filters: &[Expr]) -> KeyRange {
    let mut found = Vec::new();
    filters.iter().for_each(|filter| conditions(filter, &mut found));
    let mut prefix: Vec<ArrayRef> = Vec::new();
    let mut range = KeyRange::default();
    let encoded = |prefix: &[ArrayRef], value: &ArrayRef| {
        let values: Vec<ArrayRef> = prefix.iter().chain([value]).cloned().collect();
        table.key_prefix(&values).ok()
    };
    for column in table.definition().key() {
        let Some(field) = table.schema().fields().get(*column) else { break };
        let of_column = found.iter().filter(|one| one.column == field.name());
        let mut is_bound = false;
        let mut next = None;
        for Condition { operator, value, .. } in of_column {
            let Some(value) = value_of(table, *column, value) else { continue };
            let Some(key) = encoded(&prefix, &value) else { continue };
            let (from, to) = match operator {
                Operator::Eq => {
                    next = Some(value);
                    (Some(key.clone()), behind(key))
                }
                Operator::Gt => (behind(key), None),
                Operator::GtEq => (Some(key), None),
                Operator::Lt => (None, Some(key)),
                Operator::LtEq => (None, behind(key)),
                _ => continue,
            };
            is_bound = true;
            range.from = range.from.max(from.unwrap_or_default());
            range.to = match (range.to.take(), to) {
                (Some(one), Some(other)) => Some(one.min(other)),
                (one, other) => one.or(other),
            };
        }
        match next {
            Some(value) if is_bound => prefix.push(value),
            _ => break,
        }
    }
    let key = table.definition().key();
    range.is_row = !key.is_empty() && prefix.len() == key.len();
    range
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_key_behind_a_prefix_is_above_all_that_begin_with_it() {
        assert_eq!(behind(vec![1, 2]), Some(vec![1, 3]));
        assert_eq!(behind(vec![1, 255]), Some(vec![2]));
        assert_eq!(behind(vec![255, 255]), None);
        assert_eq!(behind(Vec::new()), None);
    }
}
