//! Statements on single rows, and prepared ones, in a session.

use std::sync::atomic::Ordering;

use datafusion::common::ScalarValue;
use datafusion::logical_expr::lit;
use datafusion::sql::sqlparser::ast::{Expr, Statement as SqlStatement};
use datafusion::sql::unparser::expr_to_sql;

use crate::Result;
use crate::database::Answered;
use crate::precedence::regroup;
use crate::tables::point::PointStatement;
use crate::tables::point::value::constant;
use crate::tables::prepared::Compiled;
use crate::tables::session::{Session, Writing, Written, answer};
use crate::tables::transaction::SessionScope;

impl Session {
    /// Runs a statement if it is one on single rows; answers nothing, and nothing is changed, where it is not.
    pub(crate) async fn point(
        &self,
        state: &mut SessionScope,
        statement: &SqlStatement,
    ) -> Result<Option<Written>> {
        match PointStatement::compile(&self.tables, statement).await? {
            Compiled::Point(point) => self.run_point(state, &point, &[]).await,
            Compiled::No | Compiled::Unknown => Ok(None),
        }
    }

    async fn run_point(
        &self,
        state: &mut SessionScope,
        point: &PointStatement,
        values: &[ScalarValue],
    ) -> Result<Option<Written>> {
        let written = match point.is_of_transaction() {
            true => self.try_write(state, Writing::Point(point, values)).await?,
            false => point.read(&state.snapshot(&self.tables).await?, values).await?,
        };
        self.points.fetch_add(u64::from(written.is_some()), Ordering::Relaxed);
        Ok(written)
    }

    /// Executes a prepared statement with constants, if it is one on single rows.
    async fn execute_point(
        &self,
        state: &mut SessionScope,
        name: &str,
        values: &[ScalarValue],
    ) -> Result<Option<Written>> {
        let Some((prepared, values)) = state.prepared.compiled(name, values)? else {
            return Ok(None);
        };
        if let Compiled::Unknown = prepared.compiled {
            prepared.compiled = PointStatement::compile(&self.tables, &prepared.statement).await?;
        }
        let Compiled::Point(point) = prepared.compiled.clone() else { return Ok(None) };
        let written = self.run_point(state, &point, &values).await?;
        if written.is_none() && !self.tables.snapshot().await.shows(point.table()).await? {
            state.prepared.forget_compiled(name);
        }
        Ok(written)
    }

    /// Executes a prepared statement with the values of `EXECUTE`.
    pub(crate) async fn start_execute(
        &self,
        state: &mut SessionScope,
        name: &str,
        values: Vec<Expr>,
    ) -> Result<Answered> {
        let constants: Option<Vec<ScalarValue>> = values.iter().map(constant).collect();
        if let Some(constants) = constants
            && let Some(written) = self.execute_point(state, name, &constants).await?
        {
            return answer(written);
        }
        let mut statement = state.prepared.with(name, values)?;
        regroup(&mut *statement);
        self.run(state, statement, name).await
    }

    /// Executes a prepared statement with values.
    pub(crate) async fn start_prepared(
        &self,
        state: &mut SessionScope,
        name: &str,
        values: &[ScalarValue],
    ) -> Result<Answered> {
        state.check()?;
        if let Some(written) = self.execute_point(state, name, values).await? {
            return answer(written);
        }
        let literals = values.iter().map(|value| expr_to_sql(&lit(value.clone())));
        let literals = literals.collect::<std::result::Result<Vec<Expr>, _>>()?;
        let mut statement = state.prepared.with(name, literals)?;
        regroup(&mut *statement);
        self.run(state, statement, name).await
    }
}
