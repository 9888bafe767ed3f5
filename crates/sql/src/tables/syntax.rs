//! Queries that are made of parts of other statements: of their trees, never of their text. Text that is printed and parsed again may
//! say something else: sqlparser takes some quotes in a literal for escaped ones.

use std::ops::ControlFlow;

use datafusion::sql::parser::Statement;
use datafusion::sql::sqlparser::ast::{
    BinaryOperator, Expr, Ident, ObjectName, ObjectNamePart, Query, SelectItem, SetExpr,
    Statement as SqlStatement, TableAlias, TableFactor, TableWithJoins, VisitMut, VisitorMut,
};
use datafusion::sql::sqlparser::dialect::PostgreSqlDialect;
use datafusion::sql::sqlparser::parser::{Parser, ParserError};

use crate::Result;
use crate::precedence::regroup;
use crate::tables::session::refused;

/// The rows that a statement changes, with their numbers; those that it has changed; and those that were to be inserted. No table
/// has such a name.
pub(crate) const TARGET: &str = "\u{0}target";
pub(crate) const ROWS: &str = "\u{0}rows";
pub(crate) const EXCLUDED: &str = "\u{0}excluded";

/// A name that means just this.
fn exact(name: &str) -> Ident {
    Ident::with_quote('"', name)
}

/// A column of a table.
pub(crate) fn column(table: &str, column: &str) -> Expr {
    Expr::CompoundIdentifier(vec![exact(table), exact(column)])
}

/// An expression, and what its column is called.
pub(crate) fn item(expr: Expr, name: &str) -> SelectItem {
    SelectItem::ExprWithAlias { expr, alias: exact(name) }
}

/// Expressions of which all are to be true.
pub(crate) fn all_of(conditions: impl IntoIterator<Item = Expr>) -> Option<Expr> {
    conditions.into_iter().reduce(|left, right| Expr::BinaryOp {
        left: Box::new(left),
        op: BinaryOperator::And,
        right: Box::new(Expr::Nested(Box::new(right))),
    })
}

pub(crate) fn equal(left: Expr, right: Expr) -> Expr {
    Expr::BinaryOp { left: Box::new(left), op: BinaryOperator::Eq, right: Box::new(right) }
}

/// The error of what cannot be parsed.
pub(crate) fn syntax_error(error: &ParserError) -> crate::Error {
    crate::Error::Refused { problem: error.to_string(), sqlstate: "42601" }
}

/// The query that a text is.
fn parsed(text: &str) -> Result<Query> {
    let mut statements =
        Parser::parse_sql(&PostgreSqlDialect {}, text).map_err(|error| syntax_error(&error))?;
    match statements.pop() {
        Some(SqlStatement::Query(mut query)) => {
            regroup(&mut *query);
            Ok(*query)
        }
        _ => refused(format!("`{text}` is no query")),
    }
}

/// A table under another name.
pub(crate) fn table(name: &str, alias: &str) -> Result<TableWithJoins> {
    let mut query = parsed("SELECT 1 FROM a AS b")?;
    if let SetExpr::Select(select) = &mut *query.body
        && let Some(mut from) = select.from.pop()
        && let TableFactor::Table { name: of_table, alias: Some(of_alias), .. } = &mut from.relation
    {
        *of_table = ObjectName(vec![ObjectNamePart::Identifier(exact(name))]);
        of_alias.name = exact(alias);
        return Ok(from);
    }
    refused("no table")
}

/// The name of a table, and what a statement calls it, where the FROM has no other table and says nothing else of it.
pub(crate) fn plain_table(from: &TableWithJoins) -> Option<(&ObjectName, Option<&TableAlias>)> {
    let TableFactor::Table {
        name,
        alias,
        args: None,
        with_hints,
        version: None,
        with_ordinality: false,
        partitions,
        json_path: None,
        sample: None,
        index_hints,
    } = &from.relation
    else {
        return None;
    };
    let is_plain = from.joins.is_empty()
        && with_hints.is_empty()
        && partitions.is_empty()
        && index_hints.is_empty();
    is_plain.then_some((name, alias.as_ref()))
}

/// As many rows as there are to be.
pub(crate) fn series(rows: usize) -> Result<TableWithJoins> {
    let mut query = parsed(&format!("SELECT 1 FROM generate_series(1, {rows})"))?;
    match &mut *query.body {
        SetExpr::Select(select) => select.from.pop().map_or_else(|| refused("no rows"), Ok),
        _ => refused("no rows"),
    }
}

/// The query of these columns of these tables.
pub(crate) fn select(
    items: Vec<SelectItem>,
    from: Vec<TableWithJoins>,
    wanted: Option<Expr>,
) -> Result<Statement> {
    let mut query = parsed("SELECT 1")?;
    if let SetExpr::Select(select) = &mut *query.body {
        select.projection = items;
        select.from = from;
        select.selection = wanted;
    }
    Ok(query_statement(query))
}

/// The query of columns of a table, or of all where none is named.
pub(crate) fn query_of(table: ObjectName, columns: Vec<Ident>) -> Result<Query> {
    let mut query = parsed("SELECT * FROM a")?;
    if let SetExpr::Select(select) = &mut *query.body {
        if !columns.is_empty() {
            let item = |one| SelectItem::UnnamedExpr(Expr::Identifier(one));
            select.projection = columns.into_iter().map(item).collect();
        }
        if let Some(TableFactor::Table { name, .. }) =
            select.from.first_mut().map(|from| &mut from.relation)
        {
            *name = table;
        }
    }
    Ok(query)
}

pub(crate) fn query_statement(query: Query) -> Statement {
    Statement::Statement(Box::new(SqlStatement::Query(Box::new(query))))
}

/// Gives columns of a query that are the same as earlier ones names of their own: DataFusion refuses two of one name, where only
/// their order counts.
pub(crate) fn distinguish_columns(query: &mut Query) {
    let SetExpr::Select(select) = &mut *query.body else { return };
    let mut earlier: Vec<Expr> = Vec::with_capacity(select.projection.len());
    for (place, one) in select.projection.iter_mut().enumerate() {
        let SelectItem::UnnamedExpr(expr) = one else { continue };
        if earlier.contains(expr) {
            *one = item(expr.clone(), &format!("column {}", place + 1));
        } else {
            earlier.push(expr.clone());
        }
    }
}

/// The expression that a text is.
pub(crate) fn expression(text: &str) -> Result<Expr> {
    let parsed = Parser::new(&PostgreSqlDialect {}).try_with_sql(text).and_then(|mut parser| {
        let mut expr = parser.parse_expr()?;
        regroup(&mut expr);
        Ok((expr, parser.peek_token().token))
    });
    match parsed {
        Ok((expr, datafusion::sql::sqlparser::tokenizer::Token::EOF)) => Ok(expr),
        _ => refused(format!("`{text}` is no expression")),
    }
}

/// The text of an expression; refused where that is read as another one.
pub(crate) fn text_of(expr: &Expr) -> Result<String> {
    let text = expr.to_string();
    match expression(&text) {
        Ok(read) if read == *expr => Ok(text),
        _ => refused(format!("the default {text} cannot be kept: write it in another way")),
    }
}

/// Whether an expression calls functions, which may give another value each time, or has queries.
pub(crate) fn may_vary(expr: &Expr) -> bool {
    struct Calls;
    impl VisitorMut for Calls {
        type Break = ();

        fn pre_visit_expr(&mut self, expr: &mut Expr) -> ControlFlow<()> {
            match expr {
                Expr::Function(_) | Expr::Subquery(_) => ControlFlow::Break(()),
                _ => ControlFlow::Continue(()),
            }
        }
    }
    expr.clone().visit(&mut Calls).is_break()
}

/// Refuses what DataFusion passes over in silence: locks of rows.
pub(crate) fn refuse_locks(statement: &mut SqlStatement) -> Result<()> {
    struct Locks;
    impl VisitorMut for Locks {
        type Break = ();

        fn pre_visit_query(&mut self, query: &mut Query) -> ControlFlow<()> {
            if query.locks.is_empty() { ControlFlow::Continue(()) } else { ControlFlow::Break(()) }
        }
    }
    match statement.visit(&mut Locks).is_break() {
        true => refused("rows are not locked by FOR UPDATE or FOR SHARE: leave it out"),
        false => Ok(()),
    }
}
