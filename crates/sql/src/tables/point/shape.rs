//! Which statements name single rows: what is read off their trees before any table is looked at.

use datafusion::sql::sqlparser::ast::{
    AssignmentTarget, BinaryOperator, Delete, Expr, FromTable, GroupByExpr, Ident, Insert,
    LimitClause, LockClause, LockType, NonBlock, OrderByKind, OrderByOptions, Query, Select,
    SelectFlavor, SelectItem, SetExpr, Statement as SqlStatement, TableObject, TableWithJoins,
    Update,
};
use moirai_tables::LockWait;

use crate::tables::point::value::Operand;
use crate::tables::session::{normal, table_name};
use crate::tables::syntax::plain_table;

/// Rows of VALUES at most: more are not single rows.
const INSERTED_MAX: usize = 1000;
/// Keys that lists of values say at most.
const KEYS_MAX: usize = 1000;

/// A table, and how the statement calls it.
pub(crate) struct Named {
    pub(crate) name: String,
    alias: String,
}

/// Conditions that name rows: of columns, the values that they may have.
pub(crate) type Conditions = Vec<(Vec<String>, Vec<Vec<Operand>>)>;

/// What a statement does with rows.
pub(crate) enum Shape {
    Select {
        /// Columns with their names in the answer; nothing for all.
        items: Vec<Option<(String, String)>>,
        conditions: Conditions,
        /// Columns by which the answer is ordered, upwards.
        order: Vec<String>,
        limit: Option<Operand>,
        lock: Option<LockWait>,
    },
    Insert {
        columns: Vec<String>,
        rows: Vec<Vec<Operand>>,
    },
    Update {
        set: Vec<(String, Expr)>,
        conditions: Conditions,
    },
    Delete {
        conditions: Conditions,
    },
}

impl Named {
    /// The table of a FROM that has no other.
    fn of(from: &TableWithJoins) -> Option<Named> {
        let (name, alias) = plain_table(from)?;
        let name = table_name(name).ok()?;
        let alias = match alias {
            None => name.clone(),
            Some(alias) if alias.columns.is_empty() && alias.at.is_none() => normal(&alias.name),
            Some(_) => return None,
        };
        Some(Named { name, alias })
    }

    /// The column that an expression is.
    pub(crate) fn column(&self, expr: &Expr) -> Option<String> {
        match expr {
            Expr::Identifier(name) => Some(normal(name)),
            Expr::CompoundIdentifier(parts) => self.column_of(parts.iter()),
            Expr::Nested(inner) => self.column(inner),
            _ => None,
        }
    }

    fn column_of<'i>(&self, parts: impl Iterator<Item = &'i Ident>) -> Option<String> {
        let parts: Vec<String> = parts.map(normal).collect();
        match &parts[..] {
            [name] => Some(name.clone()),
            [of, name] if *of == self.alias => Some(name.clone()),
            _ => None,
        }
    }

    /// What a condition says of columns, where it says that they have certain values and nothing else.
    fn conditions(&self, condition: &Expr) -> Option<Conditions> {
        let one = |column, values| Some(vec![(vec![column], values)]);
        match condition {
            Expr::Nested(inner) => self.conditions(inner),
            Expr::BinaryOp { left, op: BinaryOperator::And, right } => {
                let mut all = self.conditions(left)?;
                all.append(&mut self.conditions(right)?);
                Some(all)
            }
            Expr::BinaryOp { left, op: BinaryOperator::Eq, right } => {
                let (column, value) = match self.column(left) {
                    Some(column) => (column, right),
                    None => (self.column(right)?, left),
                };
                one(column, vec![vec![Operand::of(value)?]])
            }
            Expr::InList { expr, list, negated: false } => match &**expr {
                Expr::Tuple(columns) => {
                    let columns =
                        columns.iter().map(|one| self.column(one)).collect::<Option<Vec<_>>>()?;
                    let tuple = |expr: &Expr| match expr {
                        Expr::Tuple(values) if values.len() == columns.len() => {
                            values.iter().map(Operand::of).collect()
                        }
                        _ => None,
                    };
                    let values = list.iter().map(tuple).collect::<Option<Vec<_>>>()?;
                    Some(vec![(columns, values)])
                }
                expr => {
                    let values = list.iter().map(|value| Some(vec![Operand::of(value)?]));
                    one(self.column(expr)?, values.collect::<Option<Vec<_>>>()?)
                }
            },
            _ => None,
        }
    }

    fn where_of(&self, selection: Option<&Expr>) -> Option<Conditions> {
        let conditions = self.conditions(selection?)?;
        let rows =
            conditions.iter().try_fold(1_usize, |rows, (_, values)| rows.checked_mul(values.len()));
        rows.filter(|rows| *rows <= KEYS_MAX).map(|_| conditions)
    }
}

/// The columns of ORDER BY, where all go upwards.
fn order_of(named: &Named, query: &Query) -> Option<Vec<String>> {
    let Some(order) = &query.order_by else { return Some(Vec::new()) };
    let (OrderByKind::Expressions(all), None) = (&order.kind, &order.interpolate) else {
        return None;
    };
    let column =
        |one: &datafusion::sql::sqlparser::ast::OrderByExpr| match (&one.options, &one.with_fill) {
            (OrderByOptions { asc: None | Some(true), nulls_first: None }, None) => {
                named.column(&one.expr)
            }
            _ => None,
        };
    all.iter().map(column).collect()
}

fn lock_of(locks: &[LockClause]) -> Option<Option<LockWait>> {
    match locks {
        [] => Some(None),
        [LockClause { lock_type: LockType::Update, of: None, nonblock }] => {
            Some(Some(match nonblock {
                None => LockWait::Wait,
                Some(NonBlock::Nowait) => LockWait::NoWait,
                Some(NonBlock::SkipLocked) => LockWait::Skip,
            }))
        }
        _ => None,
    }
}

impl Shape {
    /// That of a statement, if it may be one on single rows.
    pub(crate) fn of(statement: &SqlStatement) -> Option<(Named, Shape)> {
        match statement {
            SqlStatement::Query(query) => Shape::of_query(query),
            SqlStatement::Insert(insert) => Shape::of_insert(insert),
            SqlStatement::Update(update) => Shape::of_update(update),
            SqlStatement::Delete(delete) => Shape::of_delete(delete),
            _ => None,
        }
    }

    fn of_query(query: &Query) -> Option<(Named, Shape)> {
        let Query {
            with: None,
            body,
            order_by: _,
            limit_clause,
            fetch: None,
            locks,
            for_clause: None,
            settings: None,
            format_clause: None,
            pipe_operators,
        } = query
        else {
            return None;
        };
        let SetExpr::Select(select) = &**body else { return None };
        let Select {
            select_token: _,
            optimizer_hints,
            distinct: None,
            select_modifiers: None,
            top: None,
            top_before_distinct: _,
            projection,
            exclude: None,
            into: None,
            from,
            lateral_views,
            prewhere: None,
            selection,
            connect_by,
            group_by: GroupByExpr::Expressions(group_by, group_modifiers),
            cluster_by,
            distribute_by,
            sort_by,
            having: None,
            named_window,
            qualify: None,
            window_before_qualify: _,
            value_table_mode: None,
            flavor: SelectFlavor::Standard,
        } = &**select
        else {
            return None;
        };
        let is_plain = pipe_operators.is_empty()
            && optimizer_hints.is_empty()
            && lateral_views.is_empty()
            && connect_by.is_empty()
            && group_by.is_empty()
            && group_modifiers.is_empty()
            && cluster_by.is_empty()
            && distribute_by.is_empty()
            && sort_by.is_empty()
            && named_window.is_empty();
        let ([from], true) = (&from[..], is_plain) else { return None };
        let named = Named::of(from)?;
        let item = |item: &SelectItem| match item {
            SelectItem::UnnamedExpr(expr) => {
                named.column(expr).map(|name| Some((name.clone(), name)))
            }
            SelectItem::ExprWithAlias { expr, alias } => {
                named.column(expr).map(|name| Some((name, normal(alias))))
            }
            SelectItem::Wildcard(options) if *options == Default::default() => Some(None),
            _ => None,
        };
        let items = projection.iter().map(item).collect::<Option<Vec<_>>>()?;
        let limit = match limit_clause {
            None => None,
            Some(LimitClause::LimitOffset { limit: Some(limit), offset: None, limit_by })
                if limit_by.is_empty() =>
            {
                Some(Operand::of(limit)?)
            }
            Some(_) => return None,
        };
        let conditions = named.where_of(selection.as_ref())?;
        let (order, lock) = (order_of(&named, query)?, lock_of(locks)?);
        Some((named, Shape::Select { items, conditions, order, limit, lock }))
    }

    fn of_insert(insert: &Insert) -> Option<(Named, Shape)> {
        let Insert {
            insert_token: _,
            optimizer_hints,
            or: None,
            ignore: false,
            into: _,
            table: TableObject::TableName(name),
            table_alias: None,
            columns,
            overwrite: false,
            source: Some(source),
            assignments,
            partitioned: None,
            after_columns,
            has_table_keyword: false,
            on: None,
            returning: None,
            output: None,
            replace_into: false,
            priority: None,
            insert_alias: None,
            settings: None,
            format_clause: None,
            multi_table_insert_type: None,
            multi_table_into_clauses,
            multi_table_when_clauses,
            ..
        } = insert
        else {
            return None;
        };
        let is_plain = optimizer_hints.is_empty()
            && assignments.is_empty()
            && after_columns.is_empty()
            && multi_table_into_clauses.is_empty()
            && multi_table_when_clauses.is_empty();
        let is_bare = source.with.is_none()
            && source.order_by.is_none()
            && source.limit_clause.is_none()
            && source.fetch.is_none()
            && source.locks.is_empty()
            && source.pipe_operators.is_empty();
        let SetExpr::Values(values) = &*source.body else { return None };
        if !(is_plain && is_bare) || values.rows.len() > INSERTED_MAX {
            return None;
        }
        let name = table_name(name).ok()?;
        let named = Named { alias: name.clone(), name };
        let column = |name: &datafusion::sql::sqlparser::ast::ObjectName| {
            let parts = name.0.iter().map(|part| part.as_ident()).collect::<Option<Vec<_>>>()?;
            named.column_of(parts.into_iter())
        };
        let columns = columns.iter().map(column).collect::<Option<Vec<_>>>()?;
        let rows = values.rows.iter().map(|row| row.content.iter().map(Operand::of).collect());
        let rows = rows.collect::<Option<Vec<_>>>()?;
        Some((named, Shape::Insert { columns, rows }))
    }

    fn of_update(update: &Update) -> Option<(Named, Shape)> {
        let Update {
            update_token: _,
            optimizer_hints,
            table,
            assignments,
            from: None,
            selection,
            returning: None,
            output: None,
            or: None,
            order_by,
            limit: None,
        } = update
        else {
            return None;
        };
        if !(optimizer_hints.is_empty() && order_by.is_empty()) {
            return None;
        }
        let named = Named::of(table)?;
        let assignment = |one: &datafusion::sql::sqlparser::ast::Assignment| {
            let AssignmentTarget::ColumnName(name) = &one.target else { return None };
            let parts = name.0.iter().map(|part| part.as_ident()).collect::<Option<Vec<_>>>()?;
            Some((named.column_of(parts.into_iter())?, one.value.clone()))
        };
        let set = assignments.iter().map(assignment).collect::<Option<Vec<_>>>()?;
        let conditions = named.where_of(selection.as_ref())?;
        Some((named, Shape::Update { set, conditions }))
    }

    fn of_delete(delete: &Delete) -> Option<(Named, Shape)> {
        let Delete {
            delete_token: _,
            optimizer_hints,
            tables,
            from: FromTable::WithFromKeyword(from) | FromTable::WithoutKeyword(from),
            using: None,
            selection,
            returning: None,
            output: None,
            order_by,
            limit: None,
        } = delete
        else {
            return None;
        };
        let is_plain = optimizer_hints.is_empty() && tables.is_empty() && order_by.is_empty();
        let ([from], true) = (&from[..], is_plain) else { return None };
        let named = Named::of(from)?;
        let conditions = named.where_of(selection.as_ref())?;
        Some((named, Shape::Delete { conditions }))
    }
}
