//! Ranges of keys that filters leave.

use std::sync::Arc;

use datafusion::arrow::array::ArrayRef;
use datafusion::arrow::compute::{CastOptions, cast_with_options};
use datafusion::common::ScalarValue;
use datafusion::logical_expr::expr::InList;
use datafusion::logical_expr::{BinaryExpr, Expr, Operator};
use moirai_tables::{Index, IndexDefinition, KeyBounds, Table, key_behind};

/// Keys from one on, and before another or to the last.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct KeyRange {
    pub(crate) from: Vec<u8>,
    pub(crate) to: Option<Vec<u8>>,
}

impl KeyRange {
    pub(crate) fn bounds(&self) -> KeyBounds<'_> {
        KeyBounds { from: &self.from, to: self.to.as_deref() }
    }

    /// The keys that are in another range, too.
    fn within(self, other: &KeyRange) -> Option<KeyRange> {
        let from = self.from.max(other.from.clone());
        let to = match (self.to, other.to.clone()) {
            (Some(one), Some(other)) => Some(one.min(other)),
            (one, other) => one.or(other),
        };
        to.as_ref().is_none_or(|to| from < *to).then_some(KeyRange { from, to })
    }
}

/// What filters leave of rows in the order of a key, or of entries.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Wanted {
    /// Ranges of keys, which ascend and are apart; there may be none.
    pub(crate) ranges: Vec<KeyRange>,
    /// Whether each has one row at most.
    pub(crate) are_rows: bool,
}

impl Wanted {
    /// Whether it is less than all.
    pub(crate) fn is_bound(&self) -> bool {
        self.ranges != [KeyRange::default()]
    }
}

/// A condition `column operator value`; of several values, one that the column has.
struct Condition<'a> {
    column: &'a str,
    operator: Operator,
    values: Vec<&'a ScalarValue>,
}

/// The column that has one of some values where an expression is true.
fn one_of(expr: &Expr) -> Option<(&str, Vec<&ScalarValue>)> {
    match expr {
        Expr::BinaryExpr(BinaryExpr { left, op: Operator::Or, right }) => {
            let ((column, mut values), (other, more)) = (one_of(left)?, one_of(right)?);
            values.extend(more);
            (column == other).then_some((column, values))
        }
        Expr::BinaryExpr(BinaryExpr { left, op: Operator::Eq, right }) => match (&**left, &**right)
        {
            (Expr::Column(column), Expr::Literal(value, _))
            | (Expr::Literal(value, _), Expr::Column(column)) => Some((&column.name, vec![value])),
            _ => None,
        },
        Expr::InList(InList { expr, list, negated: false }) => {
            let Expr::Column(column) = &**expr else { return None };
            let values = list.iter().map(|one| match one {
                Expr::Literal(value, _) => Some(value),
                _ => None,
            });
            Some((&column.name, values.collect::<Option<Vec<_>>>()?))
        }
        _ => None,
    }
}

fn conditions<'a>(filter: &'a Expr, found: &mut Vec<Condition<'a>>) {
    if let Some((column, values)) = one_of(filter) {
        found.push(Condition { column, operator: Operator::Eq, values });
        return;
    }
    match filter {
        Expr::BinaryExpr(BinaryExpr { left, op: Operator::And, right }) => {
            conditions(left, found);
            conditions(right, found);
        }
        Expr::BinaryExpr(BinaryExpr { left, op, right }) => match (&**left, &**right) {
            (Expr::Column(column), Expr::Literal(value, _)) => {
                found.push(Condition { column: &column.name, operator: *op, values: vec![value] });
            }
            (Expr::Literal(value, _), Expr::Column(column)) => {
                if let Some(operator) = op.swap() {
                    let values = vec![value];
                    found.push(Condition { column: &column.name, operator, values });
                }
            }
            _ => {}
        },
        Expr::Between(between) if !between.negated => {
            let parts = (&*between.expr, &*between.low, &*between.high);
            if let (Expr::Column(column), Expr::Literal(low, _), Expr::Literal(high, _)) = parts {
                let column = &column.name;
                found.push(Condition { column, operator: Operator::GtEq, values: vec![low] });
                found.push(Condition { column, operator: Operator::LtEq, values: vec![high] });
            }
        }
        _ => {}
    }
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
pub(crate) fn wanted_rows(table: &Table, filters: &[Expr]) -> Wanted {
    let key = table.definition().key();
    let (ranges, equal) = ranges_of(table, key, |values| table.key_prefix(values).ok(), filters);
    Wanted { ranges, are_rows: !key.is_empty() && equal == key.len() }
}

/// The entries of the rows that all filters may leave.
pub(crate) fn wanted_entries(table: &Table, index: &Index, filters: &[Expr]) -> Wanted {
    let IndexDefinition { columns, is_unique, .. } = index.definition();
    let (ranges, equal) =
        ranges_of(table, columns, |values| index.key_prefix(values).ok(), filters);
    Wanted { ranges, are_rows: *is_unique && equal == columns.len() }
}

/// Ranges of what is ordered by these columns of a table, where `prefix` gives what begins with values of the first ones; and how many
/// of the columns have one value in each range.
fn ranges_of(
    table: &Table,
    columns: &[usize],
    prefix: impl Fn(&[ArrayRef]) -> Option<Vec<u8>>,
    filters: &[Expr],
) -> (Vec<KeyRange>, usize) {
    let mut found = Vec::new();
    filters.iter().for_each(|filter| conditions(filter, &mut found));
    let mut equal: Vec<ArrayRef> = Vec::new();
    let mut range = KeyRange::default();
    for column in columns {
        let Some(field) = table.schema().fields().get(*column) else { break };
        let with = |value: &ArrayRef| {
            let values: Vec<ArrayRef> = equal.iter().chain([value]).cloned().collect();
            prefix(&values)
        };
        let of_column = found.iter().filter(|one| one.column == field.name());
        // The fewest values that the column has one of.
        let mut sets: Option<Vec<(Vec<u8>, ArrayRef)>> = None;
        let mut bounds = range.clone();
        for Condition { operator, values, .. } in of_column {
            if *operator == Operator::Eq {
                // A null equals nothing.
                let set = values.iter().filter(|value| !value.is_null()).map(|value| {
                    let value = value_of(table, *column, value)?;
                    Some((with(&value)?, value))
                });
                let set = set.collect::<Option<Vec<_>>>();
                let Some(set) = set else { continue };
                if sets.as_ref().is_none_or(|sets| set.len() < sets.len()) {
                    sets = Some(set);
                }
                continue;
            }
            let [value] = values[..] else { continue };
            let Some(value) = value_of(table, *column, value) else { continue };
            let Some(key) = with(&value) else { continue };
            let (from, to) = match operator {
                Operator::Gt => (key_behind(key), None),
                Operator::GtEq => (Some(key), None),
                Operator::Lt => (None, Some(key)),
                Operator::LtEq => (None, key_behind(key)),
                _ => continue,
            };
            let part = KeyRange { from: from.unwrap_or_default(), to };
            match bounds.within(&part) {
                Some(both) => bounds = both,
                None => return (Vec::new(), 0),
            }
        }
        let Some(mut set) = sets else { return (vec![bounds], equal.len()) };
        set.sort_by(|(one, _), (other, _)| one.cmp(other));
        set.dedup_by(|(one, _), (other, _)| one == other);
        let range_at = |key: &Vec<u8>| KeyRange { from: key.clone(), to: key_behind(key.clone()) };
        if let [(key, value)] = &set[..] {
            match range_at(key).within(&bounds) {
                Some(both) => range = both,
                None => return (Vec::new(), 0),
            }
            equal.push(Arc::clone(value));
            continue;
        }
        let ranges = set.iter().filter_map(|(key, _)| range_at(key).within(&bounds));
        return (ranges.collect(), equal.len() + 1);
    }
    (vec![range], equal.len())
}
