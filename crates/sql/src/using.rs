//! Columns of `USING` in `WHERE`.
//!
//! `select * from a join b using (id) where id = 1` is ambiguous to DataFusion 55.2: it looks for the join's columns among those
//! of the filter. So such a name is given the table whose value it is: the left one of an inner and a left join, the right one
//! of a right join. In a full join it is neither's, and stays as it is; in a natural join the columns are not known before
//! planning.

use std::collections::HashMap;
use std::ops::ControlFlow;

use datafusion::sql::sqlparser::ast::{
    Expr, Ident, JoinConstraint, JoinOperator, ObjectName, Query, Select, SetExpr, TableFactor,
    TableWithJoins, VisitMut, VisitorMut,
};

/// Gives columns of `USING` in all `WHERE`s of a statement their tables.
pub(crate) fn qualify_columns(statement: &mut impl VisitMut) {
    let ControlFlow::Continue(()) = statement.visit(&mut Queries);
}

/// Gives names of these columns in an expression a table, where they have none.
pub(crate) fn qualify(expr: &mut Expr, table: &str, columns: impl Iterator<Item = String>) {
    let table = vec![Ident::with_quote('"', table)];
    let tables = columns.map(|column| (column, Some(table.clone()))).collect();
    let ControlFlow::Continue(()) = expr.visit(&mut Names { tables, depth: 0 });
}

/// Looks at each query of a statement, inner ones included.
struct Queries;

impl VisitorMut for Queries {
    type Break = std::convert::Infallible;

    fn pre_visit_query(&mut self, query: &mut Query) -> ControlFlow<Self::Break> {
        qualify_in(&mut query.body);
        ControlFlow::Continue(())
    }
}

fn qualify_in(body: &mut SetExpr) {
    match body {
        SetExpr::Select(select) => qualify_in_select(select),
        SetExpr::SetOperation { left, right, .. } => {
            qualify_in(left);
            qualify_in(right);
        }
        // Others have no joins, or are queries that the visitor sees.
        _ => {}
    }
}

fn qualify_in_select(select: &mut Select) {
    let mut tables = HashMap::new();
    select.from.iter().for_each(|from| add_columns(from, &mut tables));
    if let Some(filter) = select.selection.as_mut().filter(|_| !tables.is_empty()) {
        let ControlFlow::Continue(()) = filter.visit(&mut Names { tables, depth: 0 });
    }
}

/// Adds the columns of the joins, each with a table that has its value, if one has it.
fn add_columns(from: &TableWithJoins, tables: &mut HashMap<String, Option<Vec<Ident>>>) {
    let left = name_of(&from.relation);
    for join in &from.joins {
        let right = name_of(&join.relation);
        let (constraint, is_of_right, table) = match &join.join_operator {
            // Both have it.
            JoinOperator::Join(constraint) | JoinOperator::Inner(constraint) => {
                (constraint, false, right)
            }
            JoinOperator::Left(constraint) | JoinOperator::LeftOuter(constraint) => {
                (constraint, false, left.clone())
            }
            JoinOperator::Right(constraint) | JoinOperator::RightOuter(constraint) => {
                (constraint, true, right)
            }
            JoinOperator::FullOuter(constraint) => (constraint, true, None),
            _ => continue,
        };
        let JoinConstraint::Using(columns) = constraint else { continue };
        for column in columns.iter().filter_map(last_of) {
            let column = normal(&column);
            if is_of_right || !tables.contains_key(&column) {
                tables.insert(column, table.clone());
            }
        }
    }
}

/// What columns of a table are qualified with.
fn name_of(table: &TableFactor) -> Option<Vec<Ident>> {
    match table {
        TableFactor::Table { alias: Some(alias), .. }
        | TableFactor::Derived { alias: Some(alias), .. } => Some(vec![alias.name.clone()]),
        TableFactor::Table { name, .. } => {
            name.0.iter().map(|part| part.as_ident().cloned()).collect()
        }
        _ => None,
    }
}

fn last_of(name: &ObjectName) -> Option<Ident> {
    name.0.last().and_then(|part| part.as_ident().cloned())
}

/// As names are compared: in lower case, unless they are quoted.
fn normal(name: &Ident) -> String {
    match name.quote_style {
        Some(_) => name.value.clone(),
        None => name.value.to_ascii_lowercase(),
    }
}

/// Qualifies names in a filter, but for those in queries in it, which have tables of their own.
struct Names {
    tables: HashMap<String, Option<Vec<Ident>>>,
    depth: usize,
}

impl VisitorMut for Names {
    type Break = std::convert::Infallible;

    fn pre_visit_query(&mut self, _: &mut Query) -> ControlFlow<Self::Break> {
        self.depth += 1;
        ControlFlow::Continue(())
    }

    fn post_visit_query(&mut self, _: &mut Query) -> ControlFlow<Self::Break> {
        self.depth -= 1;
        ControlFlow::Continue(())
    }

    fn pre_visit_expr(&mut self, expr: &mut Expr) -> ControlFlow<Self::Break> {
        if let Expr::Identifier(name) = expr
            && self.depth == 0
            && let Some(Some(table)) = self.tables.get(&normal(name))
        {
            let names = table.iter().cloned().chain([name.clone()]).collect();
            *expr = Expr::CompoundIdentifier(names);
        }
        ControlFlow::Continue(())
    }
}
