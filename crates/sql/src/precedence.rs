//! `IS [NOT] DISTINCT FROM` before `AND` and `OR`.
//!
//! sqlparser 0.62 takes all that follows for the right operand: `a IS DISTINCT FROM b AND c` becomes
//! `a IS DISTINCT FROM (b AND c)`. Here `AND` and `OR` get the operands that PostgreSQL gives them. What stands in parentheses is a
//! node of its own, and stays.

use std::ops::ControlFlow;

use datafusion::sql::parser::Statement;
use datafusion::sql::sqlparser::ast::{
    BinaryOperator, Expr, Ident, Statement as SqlStatement, UnaryOperator, VisitMut, VisitorMut,
};

/// Mends all expressions of a statement or an expression.
pub(crate) fn regroup(parsed: &mut impl VisitMut) {
    let ControlFlow::Continue(()) = parsed.visit(&mut Regroup);
}

/// The statement that is run, or explained.
pub(crate) fn statement_of(parsed: &mut Statement) -> Option<&mut SqlStatement> {
    match parsed {
        Statement::Statement(statement) => Some(statement),
        Statement::Explain(explain) => statement_of(&mut explain.statement),
        _ => None,
    }
}

/// From the innermost expression to the outermost.
struct Regroup;

impl VisitorMut for Regroup {
    type Break = std::convert::Infallible;

    fn post_visit_expr(&mut self, expr: &mut Expr) -> ControlFlow<Self::Break> {
        match expr {
            Expr::IsDistinctFrom(..)
            | Expr::IsNotDistinctFrom(..)
            | Expr::UnaryOp { op: UnaryOperator::Not, .. } => lift(expr, is_and_or),
            Expr::BinaryOp { op: BinaryOperator::Or, .. } => {}
            Expr::BinaryOp { op: BinaryOperator::And, .. } => lift(expr, is_or),
            // As in `a = NOT b IS DISTINCT FROM c AND d`.
            Expr::BinaryOp { .. } => lift(expr, is_and_or),
            _ => {}
        }
        ControlFlow::Continue(())
    }
}

fn is_or(expr: &Expr) -> bool {
    matches!(expr, Expr::BinaryOp { op: BinaryOperator::Or, .. })
}

fn is_and_or(expr: &Expr) -> bool {
    is_or(expr) || matches!(expr, Expr::BinaryOp { op: BinaryOperator::And, .. })
}

/// Puts operators that bind weaker than `expr` and are its last operand around it: `a ? (b AND c)` becomes `(a ? b) AND c`.
fn lift(expr: &mut Expr, is_weaker: fn(&Expr) -> bool) {
    let blank = || Expr::Identifier(Ident::new(""));
    let last = match expr {
        Expr::IsDistinctFrom(_, last)
        | Expr::IsNotDistinctFrom(_, last)
        | Expr::UnaryOp { expr: last, .. }
        | Expr::BinaryOp { right: last, .. } => last,
        _ => return,
    };
    if !is_weaker(last) {
        return;
    }
    let mut outer = std::mem::replace(&mut **last, blank());
    let mut first = &mut outer;
    while is_weaker(first)
        && let Expr::BinaryOp { left, .. } = first
    {
        first = left;
    }
    std::mem::swap(&mut **last, first);
    std::mem::swap(expr, first);
    *expr = outer;
}

#[cfg(test)]
mod tests {
    use super::*;

    use datafusion::sql::sqlparser::dialect::PostgreSqlDialect;
    use datafusion::sql::sqlparser::parser::Parser;

    /// With parentheses around each operation.
    fn grouped(expr: &Expr) -> String {
        match expr {
            Expr::IsDistinctFrom(left, right) => {
                format!("({} <> {})", grouped(left), grouped(right))
            }
            Expr::IsNotDistinctFrom(left, right) => {
                format!("({} == {})", grouped(left), grouped(right))
            }
            Expr::BinaryOp { left, op, right } => {
                format!("({} {op} {})", grouped(left), grouped(right))
            }
            Expr::UnaryOp { op, expr } => format!("({op} {})", grouped(expr)),
            Expr::Nested(expr) => grouped(expr),
            other => other.to_string(),
        }
    }

    /// As PostgreSQL groups them: `IS` before `NOT`, `NOT` before `AND`, `AND` before `OR`.
    #[test]
    fn and_and_or_have_their_operands() {
        let distinct = "IS DISTINCT FROM";
        let same = "IS NOT DISTINCT FROM";
        for (text, expected) in [
            (format!("a {distinct} b AND c"), "((a <> b) AND c)"),
            (format!("a {same} b OR c AND d"), "((a == b) OR (c AND d))"),
            (format!("a {same} b AND c OR d"), "(((a == b) AND c) OR d)"),
            (format!("p AND a {distinct} b OR c"), "((p AND (a <> b)) OR c)"),
            (format!("p OR a {distinct} b AND c"), "(p OR ((a <> b) AND c))"),
            (format!("NOT a {distinct} b AND c"), "((NOT (a <> b)) AND c)"),
            (format!("p AND NOT a {distinct} b OR c"), "((p AND (NOT (a <> b))) OR c)"),
            (format!("a {distinct} b AND c {same} d AND e"), "((a <> b) AND ((c == d) AND e))"),
            (format!("a {distinct} b AND c {same} d OR e"), "(((a <> b) AND (c == d)) OR e)"),
            (format!("a {distinct} b = c AND d"), "((a <> (b = c)) AND d)"),
            (format!("a {distinct} (b AND c) AND d"), "((a <> (b AND c)) AND d)"),
            (format!("(a {distinct} b OR c) AND d"), "(((a <> b) OR c) AND d)"),
            (format!("p AND (a {distinct} b OR c)"), "(p AND ((a <> b) OR c))"),
            (format!("p = NOT a {distinct} b AND c"), "((p = (NOT (a <> b))) AND c)"),
            ("p AND (b OR c)".to_owned(), "(p AND (b OR c))"),
            ("NOT (b OR c) AND d".to_owned(), "((NOT (b OR c)) AND d)"),
        ] {
            let mut parser = Parser::new(&PostgreSqlDialect {}).try_with_sql(&text).unwrap();
            let mut expr = parser.parse_expr().unwrap();
            regroup(&mut expr);
            assert_eq!(grouped(&expr), expected, "{text}");
            // What is right stays.
            let before = expr.clone();
            regroup(&mut expr);
            assert_eq!(expr, before, "{text}");
        }
    }
}
