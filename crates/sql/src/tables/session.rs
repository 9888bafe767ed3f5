//! Statements, one at a time.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use datafusion::arrow::array::{RecordBatch, UInt64Array};
use datafusion::arrow::datatypes::{DataType, Field, Schema, SchemaRef};
use datafusion::catalog::{
    CatalogProvider, CatalogProviderList, MemTable, MemoryCatalogProvider,
    MemoryCatalogProviderList, TableProvider,
};
use datafusion::common::ScalarValue;
use datafusion::config::Dialect;
use datafusion::error::DataFusionError;
use datafusion::execution::SessionState;
use datafusion::execution::session_state::SessionStateBuilder;
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use datafusion::prelude::SessionContext;
use datafusion::sql::parser::Statement;
use datafusion::sql::sqlparser::ast::{Ident, ObjectName, SelectItem, Statement as SqlStatement};
use futures::TryStreamExt;
use moirai_tables::{Snapshot, Table, Tables, Transaction};

use crate::database::{Answered, read};
use crate::precedence::regroup;
use crate::script::words;
use crate::tables::catalog::StatementTables;
use crate::tables::copy::Copy;
use crate::tables::define::NOTHING;
use crate::tables::point::PointStatement;
use crate::tables::prepared::Asked;
use crate::tables::syntax::{self, ROWS};
use crate::tables::table::external;
use crate::tables::transaction::SessionScope;
use crate::tables::work::{Applied, Work};
use crate::{Error, Result};

/// Where statements find tables.
const CATALOG: &str = "datafusion";
const SCHEMA: &str = "public";
/// How often a statement that writes is begun.
const TRIES: u32 = 4;

/// A session over the tables of a store.
pub(crate) struct Session {
    pub(crate) tables: Arc<Tables>,
    /// With functions and rules, and without tables.
    base: Arc<SessionState>,
    state: tokio::sync::Mutex<SessionScope>,
    /// Statements that went past DataFusion.
    pub(crate) points: AtomicU64,
}

/// A statement that changes rows.
pub(crate) enum Writing<'a> {
    Statement(&'a SqlStatement),
    Copy(Copy),
    /// One on single rows, with its parameters.
    Point(&'a PointStatement, &'a [ScalarValue]),
}

impl Writing<'_> {
    /// Whether it changes rows that are there.
    fn changes_rows(&self) -> bool {
        match self {
            Writing::Statement(statement) => {
                matches!(statement, SqlStatement::Update(_) | SqlStatement::Delete(_))
            }
            Writing::Point(point, _) => point.changes_rows(),
            Writing::Copy(_) => false,
        }
    }

    fn is_copy(&self) -> bool {
        matches!(self, Writing::Copy(_))
    }
}

/// What a session is asked to do.
enum Request<'a> {
    Text(&'a str),
    /// The prepared statement of this name, with values of its parameters.
    Execute(&'a str, &'a [ScalarValue]),
}

/// What a statement that writes did.
pub(crate) struct Written {
    /// Rows that it inserted, changed or deleted.
    pub(crate) rows: u64,
    /// What it says of them, where it has `RETURNING`, and what `FOR UPDATE` has read.
    pub(crate) returned: Option<Vec<RecordBatch>>,
}

pub(crate) fn refused<T>(problem: impl Into<String>) -> Result<T> {
    refused_as("0A000", problem)
}

/// The error of a statement that names what is not there, or says something twice.
pub(crate) fn refused_as<T>(sqlstate: &'static str, problem: impl Into<String>) -> Result<T> {
    Err(Error::Refused { problem: problem.into(), sqlstate })
}

/// The name that `name` means: of what is before its last part nothing is known but the schema of all tables.
pub(crate) fn table_name(name: &ObjectName) -> Result<String> {
    let parts: Option<Vec<&Ident>> = name.0.iter().map(|part| part.as_ident()).collect();
    let parts: Vec<String> = parts.unwrap_or_default().into_iter().map(normal).collect();
    match &parts[..] {
        [name] => Ok(name.clone()),
        [schema, name] if schema == SCHEMA => Ok(name.clone()),
        [catalog, schema, name] if catalog == CATALOG && schema == SCHEMA => Ok(name.clone()),
        _ => refused(format!("`{name}` names no table: all are in the schema `{SCHEMA}`")),
    }
}

/// A name as DataFusion compares it: with ASCII letters in lower case, unless it is quoted.
pub(crate) fn normal(name: &Ident) -> String {
    match name.quote_style {
        Some(_) => name.value.clone(),
        None => name.value.to_ascii_lowercase(),
    }
}

impl Session {
    pub(crate) fn new(tables: Arc<Tables>, base: Arc<SessionState>) -> Session {
        Session { tables, base, state: tokio::sync::Mutex::default(), points: AtomicU64::new(0) }
    }

    /// Whether a transaction block is open, while no statement is running.
    pub(crate) fn is_in_block(&self) -> bool {
        self.state.try_lock().is_ok_and(|state| state.block.is_some())
    }

    /// A context over these tables.
    pub(crate) fn context(&self, tables: StatementTables) -> Result<SessionContext> {
        let catalog = MemoryCatalogProvider::new();
        catalog.register_schema(SCHEMA, Arc::new(tables))?;
        let catalogs = MemoryCatalogProviderList::new();
        catalogs.register_catalog(CATALOG.to_owned(), Arc::new(catalog));
        let state = SessionStateBuilder::new_from_existing((*self.base).clone())
            .with_catalog_list(Arc::new(catalogs))
            .build();
        Ok(SessionContext::new_with_state(state))
    }

    /// Plans `statement` and starts it, or carries it out where it writes: the answer's schema and batches.
    pub(crate) async fn stream(&self, statement: &str) -> Result<Answered> {
        self.started(Request::Text(statement)).await.map_err(|error| match &error {
            Error::Statement(DataFusionError::Plan(problem))
                if problem.contains("not supported: ") =>
            {
                unknown(statement)
            }
            Error::Statement(DataFusionError::NotImplemented(problem))
                if problem.starts_with("Unsupported SQL statement") =>
            {
                unknown(statement)
            }
            _ => error,
        })
    }

    /// Executes a prepared statement.
    pub(crate) async fn execute(&self, name: &str, values: &[ScalarValue]) -> Result<Answered> {
        self.started(Request::Execute(name, values)).await
    }

    async fn started(&self, request: Request<'_>) -> Result<Answered> {
        let mut state = self.state.lock().await;
        // That of a block which the statement begins is another one.
        let has_failed = state.block.as_ref().map(|block| Arc::clone(&block.has_failed));
        let started = match request {
            Request::Text(statement) => self.start(&mut state, statement).await,
            Request::Execute(name, values) => self.start_prepared(&mut state, name, values).await,
        };
        if let Some(block) = &mut state.block {
            block.transaction.end_statement();
        }
        match (started, has_failed) {
            (Err(error), Some(has_failed)) => {
                has_failed.store(true, Ordering::Relaxed);
                Err(error)
            }
            // An answer may fail as it comes.
            (Ok(Answered::Stream(stream)), Some(has_failed)) => {
                let schema = stream.schema();
                let stream = stream.inspect_err(move |_| has_failed.store(true, Ordering::Relaxed));
                Ok(Answered::Stream(Box::pin(RecordBatchStreamAdapter::new(schema, stream))))
            }
            (started, _) => started,
        }
    }

    async fn start(&self, state: &mut SessionScope, statement: &str) -> Result<Answered> {
        if let Some(copy) = Copy::parse(statement)? {
            if copy.to {
                let snapshot = state.snapshot(&self.tables).await?;
                return answer(self.copy_to(snapshot, copy).await?);
            }
            return answer(self.write(state, Writing::Copy(copy)).await?);
        }
        // For the alias of an INSERT's table.
        let mut parsed = self.base.sql_to_statement(statement, &Dialect::PostgreSQL)?;
        let Statement::Statement(inner) = &mut parsed else {
            return self.plan(state, parsed).await;
        };
        if let Some(done) = state.control(self, inner).await {
            return answer(done?);
        }
        match state.asked((**inner).clone())? {
            Asked::Done => answer(NOTHING),
            Asked::Execute(name, values) => self.start_execute(state, &name, values).await,
            Asked::Run(mut one) => {
                regroup(&mut *one);
                if let Some(written) = self.point(state, &one).await? {
                    return answer(written);
                }
                self.run(state, one, statement).await
            }
        }
    }

    /// Runs a statement that was parsed; `text` is what it was, or its name.
    pub(crate) async fn run(
        &self,
        state: &mut SessionScope,
        statement: Box<SqlStatement>,
        text: &str,
    ) -> Result<Answered> {
        let mut statement = statement;
        match &*statement {
            SqlStatement::Insert(_) | SqlStatement::Update(_) | SqlStatement::Delete(_) => {
                syntax::refuse_locks(&mut statement)?;
                return answer(self.write(state, Writing::Statement(&statement)).await?);
            }
            SqlStatement::CreateTable(_)
            | SqlStatement::CreateIndex(_)
            | SqlStatement::Truncate(_)
            | SqlStatement::Drop { .. } => {
                syntax::refuse_locks(&mut statement)?;
                let words: Vec<&str> = words(text).take(2).collect();
                state.refuse_in_block(&words.join(" ").to_uppercase())?;
                let _turn = self.tables.turn().await;
                return self.define(&statement).await;
            }
            SqlStatement::Query(query) if !query.locks.is_empty() => {
                let query = query.clone();
                return Ok(Answered::Stream(self.select_for_update(state, *query).await?));
            }
            _ => syntax::refuse_locks(&mut statement)?,
        }
        self.plan(state, Statement::Statement(statement)).await
    }

    /// Plans a statement that reads, and starts it.
    async fn plan(&self, state: &mut SessionScope, statement: Statement) -> Result<Answered> {
        let snapshot = state.snapshot(&self.tables).await?;
        let context = self.context(StatementTables::of(&snapshot).await.map_err(external)?)?;
        Ok(Answered::Stream(read(&context, statement).await?))
    }

    /// Carries out a statement that writes, which is not one on single rows.
    async fn write(&self, state: &mut SessionScope, writing: Writing<'_>) -> Result<Written> {
        Ok(self.try_write(state, writing).await?.unwrap_or(NOTHING))
    }

    /// Carries out a statement that writes: in the transaction block if one is open, and else in a transaction of its own, which begins
    /// again where it failed because of others. Nothing was done where it answers nothing: [`PointStatement::run`].
    pub(crate) async fn try_write(
        &self,
        state: &mut SessionScope,
        writing: Writing<'_>,
    ) -> Result<Option<Written>> {
        if let Some(block) = &mut state.block {
            block.check()?;
            block.has_run = true;
            return self.write_in(&mut block.transaction, &writing, false).await;
        }
        let mut transaction = self.tables.begin_transaction(state.alone());
        let changes = writing.changes_rows();
        let mut tries = 1;
        loop {
            let written = self.write_in(&mut transaction, &writing, true).await;
            let committed = match written {
                Ok(written) if transaction.is_empty() => Ok(written),
                Ok(written) => transaction.commit().await.map(|()| written).map_err(Error::from),
                Err(error) => Err(error),
            };
            let error = match committed {
                Err(error) => error,
                written => return written,
            };
            // On a device that is almost full, sweeps for what was committed before may end its snapshot.
            let is_ended = error.is_snapshot_ended();
            let may_succeed = is_ended || error.is_retryable() || error.is_outdated();
            if !may_succeed || tries == TRIES || writing.is_copy() {
                let has_no_room = is_ended || (changes && error.is_too_large());
                return Err(if has_no_room { Error::NoRoom(Box::new(error)) } else { error });
            }
            transaction.retry().await;
            tries += 1;
        }
    }

    /// Carries out a statement in a transaction; again, where it reads what is committed and others have changed that meanwhile.
    async fn write_in(
        &self,
        transaction: &mut Transaction,
        writing: &Writing<'_>,
        is_alone: bool,
    ) -> Result<Option<Written>> {
        if let Writing::Point(point, values) = writing {
            return point.run(transaction, values).await;
        }
        // Also where no row would be changed.
        transaction.check_writes()?;
        loop {
            let mut work = Work::begin(&self.tables, transaction, is_alone).await?;
            let written = match writing {
                Writing::Point(..) => return Ok(None),
                Writing::Copy(copy) => Box::pin(self.copy_from(&mut work, copy.clone())).await,
                Writing::Statement(statement) => {
                    Box::pin(self.write_once(&mut work, (*statement).clone())).await
                }
            };
            if work.is_stale() && !writing.is_copy() {
                continue;
            }
            let written = written?;
            match work.apply().await? {
                Applied::Done => return Ok(Some(written)),
                // Its file may be at its end.
                Applied::Stale if writing.is_copy() => {
                    return Err(transaction.conflict("a row that it copies").into());
                }
                Applied::Stale => {}
            }
        }
    }

    async fn write_once(&self, work: &mut Work<'_>, statement: SqlStatement) -> Result<Written> {
        match statement {
            SqlStatement::Insert(insert) => self.insert(work, insert).await,
            SqlStatement::Update(update) => self.update(work, update).await,
            SqlStatement::Delete(delete) => self.delete(work, delete).await,
            other => refused(format!("{other} changes no rows")),
        }
    }

    /// Carries out a statement that changes what tables there are.
    async fn define(&self, statement: &SqlStatement) -> Result<Answered> {
        let written = match statement.clone() {
            SqlStatement::CreateTable(create) => self.create_table(create).await?,
            SqlStatement::CreateIndex(create) => self.create_index(create).await?,
            SqlStatement::Truncate(truncate) => self.truncate(truncate).await?,
            drop => self.drop(drop).await?,
        };
        answer(written)
    }

    /// The table called `name` as a snapshot has it: the rows that a statement sees are in it. One that was changed since is refused when the
    /// transaction commits.
    pub(crate) async fn table_at(&self, snapshot: &Snapshot, name: &str) -> Result<Table> {
        if let Some(table) = snapshot.find(name).await? {
            return Ok(table);
        }
        self.tables.table(name).await?;
        Err(moirai_tables::Error::Altered { table: name.to_owned() }.into())
    }

    /// What `RETURNING` says of rows of a table, which have all of its columns.
    pub(crate) async fn returned(
        &self,
        (snapshot, table): (&Arc<Snapshot>, &Table),
        items: Vec<SelectItem>,
        alias: &str,
        rows: Vec<RecordBatch>,
    ) -> Result<Vec<RecordBatch>> {
        let tables = StatementTables::of(snapshot).await.map_err(external)?;
        let context = self.context(tables.with(ROWS, rows_of(table.schema(), rows)?))?;
        let query = syntax::select(items, vec![syntax::table(ROWS, alias)?], None)?;
        let stream = read(&context, query).await?;
        let schema = stream.schema();
        let batches: Vec<RecordBatch> = stream.try_collect().await?;
        // The schema is shown without rows, too.
        Ok(match batches.is_empty() {
            true => vec![RecordBatch::new_empty(schema)],
            false => batches,
        })
    }
}

/// The error for a statement that is not known.
fn unknown(statement: &str) -> Error {
    let words: Vec<String> = words(statement).take(2).map(str::to_uppercase).collect();
    let words = words.join(" ");
    let problem = format!(
        "{words} is not known here: statements are SELECT, EXPLAIN, CREATE TABLE, CREATE INDEX, DROP, TRUNCATE, INSERT, \
         UPDATE, DELETE, COPY, BEGIN, COMMIT, ROLLBACK, SAVEPOINT, PREPARE and EXECUTE"
    );
    Error::Refused { problem, sqlstate: "42601" }
}

/// The answer of a statement that writes.
pub(crate) fn answer(written: Written) -> Result<Answered> {
    let batches = match written.returned {
        Some(batches) => batches,
        None => vec![count_of(written.rows)?],
    };
    let schema = batches.first().map_or_else(|| Arc::new(Schema::empty()), RecordBatch::schema);
    Ok(Answered::Rows(schema, batches))
}

/// The number of rows that a statement changed, as DataFusion tells it.
fn count_of(rows: u64) -> Result<RecordBatch> {
    let schema = Arc::new(Schema::new(vec![Field::new("count", DataType::UInt64, false)]));
    let count = Arc::new(UInt64Array::from(vec![rows]));
    Ok(RecordBatch::try_new(schema, vec![count]).map_err(DataFusionError::from)?)
}

/// Rows of `batches` as a table.
pub(crate) fn rows_of(
    schema: &SchemaRef,
    batches: Vec<RecordBatch>,
) -> Result<Arc<dyn TableProvider>> {
    Ok(Arc::new(MemTable::try_new(Arc::clone(schema), vec![batches])?))
}
