//! A DataFusion session over the tables of a store.

use std::sync::atomic::Ordering;
use std::sync::{Arc, OnceLock};

use datafusion::arrow::array::RecordBatch;
use datafusion::arrow::datatypes::SchemaRef;
use datafusion::common::ScalarValue;
use datafusion::datasource::MemTable;
use datafusion::error::DataFusionError;
use datafusion::execution::context::SQLOptions;
use datafusion::execution::session_state::SessionStateBuilder;
use datafusion::execution::{SendableRecordBatchStream, SessionState};
use datafusion::physical_plan::execute_stream;
use datafusion::prelude::{SessionConfig, SessionContext};
use datafusion::sql::parser::Statement;
use futures::channel::mpsc;
use futures::{SinkExt, StreamExt};
use moirai_runtime::{BoundTask, is_virtual, spawn};
use moirai_tables::Tables;

use crate::listing::TableInfo;
use crate::overflow::OverflowIsAnError;
use crate::precedence::{regroup, statement_of};
use crate::tables::Session;
use crate::using::qualify_columns;
use crate::yielding::YieldingJoins;
use crate::{Error, Result};

/// A session in which statements are run.
pub struct Database {
    source: Source,
}

/// Where the tables are.
enum Source {
    Memory(SessionContext),
    /// In a store.
    Tables(Box<Session>),
}

/// What sessions over stores begin with. It has hundreds of functions and rules: all sessions of a program share it.
fn base() -> Arc<SessionState> {
    static REAL: OnceLock<Arc<SessionState>> = OnceLock::new();
    static VIRTUAL: OnceLock<Arc<SessionState>> = OnceLock::new();
    let base = if is_virtual() { &VIRTUAL } else { &REAL };
    Arc::clone(base.get_or_init(|| Arc::new(context().state())))
}

/// A session whose plans are the same on every machine: one partition in virtual time, where the
/// order of events must not depend on the number of cores.
fn context() -> SessionContext {
    let config = SessionConfig::new().with_information_schema(true);
    let mut config = if is_virtual() { config.with_target_partitions(1) } else { config };
    let options = config.options_mut();
    // So that TIMESTAMP WITH TIME ZONE is one.
    options.execution.time_zone = Some("+00:00".to_owned());
    // Else 12345678901234567.89 would be another number.
    options.sql_parser.parse_float_as_decimal = true;
    let state = SessionStateBuilder::new()
        .with_config(config)
        .with_default_features()
        .with_analyzer_rule(Arc::new(OverflowIsAnError))
        .with_physical_optimizer_rule(Arc::new(YieldingJoins))
        .build();
    SessionContext::new_with_state(state)
}

impl Database {
    /// A session over the tables of a store. Its statements run one after another; sessions run at the same time. Inside a runtime only.
    #[must_use]
    pub fn over(tables: &Arc<Tables>) -> Database {
        let session = Session::new(Arc::clone(tables), base());
        Database { source: Source::Tables(Box::new(session)) }
    }

    /// The tables, in the order of their names.
    pub async fn tables(&self) -> Result<Vec<TableInfo>> {
        let mut all = Vec::new();
        match &self.source {
            Source::Memory(_) => {}
            Source::Tables(session) => {
                let snapshot = session.tables.snapshot().await;
                for name in snapshot.names().await? {
                    if let Some(table) = snapshot.find(&name).await? {
                        all.push(TableInfo::of(&snapshot, &table).await?);
                    }
                }
            }
        }
        Ok(all)
    }

    /// How many statements of this session named single rows, and went to the store without being planned.
    #[must_use]
    pub fn point_statements(&self) -> u64 {
        match &self.source {
            Source::Memory(_) => 0,
            Source::Tables(session) => session.points.load(Ordering::Relaxed),
        }
    }

    /// Whether a transaction block is open: one that is when the session is dropped is rolled back.
    #[must_use]
    pub fn is_in_block(&self) -> bool {
        match &self.source {
            Source::Memory(_) => false,
            Source::Tables(session) => session.is_in_block(),
        }
    }

    /// Plans `statement` and starts it, or carries it out where it writes: its answer, as it comes.
    pub async fn stream(&self, statement: &str) -> Result<AnswerStream> {
        Ok(AnswerStream::of(self.start(statement).await?))
    }

    /// Executes a statement that was prepared in this session ([`Database::query`] of `PREPARE name AS ...`) with these values of its
    /// parameters: what `EXECUTE name (...)` does, without text. Statements that name rows by their keys, or a few by the beginning of
    /// a key or an index, do not pass through DataFusion then.
    ///
    /// # Errors
    /// [`Error::Refused`] for a name that is not known, and another number of values; those of the statement.
    pub async fn execute(&self, name: &str, values: &[ScalarValue]) -> Result<AnswerStream> {
        let Source::Tables(session) = &self.source else {
            let problem = "statements are prepared over the tables of a store".to_owned();
            return Err(Error::Refused { problem, sqlstate: "0A000" });
        };
        Ok(AnswerStream::of(Box::pin(session.execute(name, values)).await?))
    }

    /// Runs `statement`: the answer's schema and all of its batches.
    ///
    /// # Cancel safety
    /// When the future is dropped the statement ends with its next batch, wherever it runs.
    pub async fn query(&self, statement: &str) -> Result<(SchemaRef, Vec<RecordBatch>)> {
        let mut stream = self.stream(statement).await?;
        let schema = Arc::clone(stream.schema());
        let mut batches = Vec::new();
        while let Some(batch) = stream.next().await? {
            batches.push(batch);
        }
        Ok((schema, batches))
    }

    async fn start(&self, statement: &str) -> Result<Answered> {
        let context = match &self.source {
            // The future of all statements is as long as that of the longest, and lies on the stack of whoever awaits it.
            Source::Tables(session) => return Box::pin(session.stream(statement)).await,
            Source::Memory(context) => context,
        };
        let state = context.state();
        let dialect = state.config_options().sql_parser.dialect;
        let statement = state.sql_to_statement(statement, &dialect)?;
        Ok(Answered::Stream(read(context, statement).await?))
    }
}

/// What a statement answers.
pub(crate) enum Answered {
    /// All of it.
    Rows(SchemaRef, Vec<RecordBatch>),
    /// What is computed as it is read.
    Stream(SendableRecordBatchStream),
}

/// Batches of an answer that are computed before they are read.
const AHEAD_BATCHES: usize = 2;

/// The answer of a statement: all of it, or what a task of its own computes, so that whoever waits for it can be woken. When it is dropped
/// the statement ends with its next batch.
pub struct AnswerStream {
    schema: SchemaRef,
    batches: Batches,
}

enum Batches {
    Known(std::vec::IntoIter<RecordBatch>),
    Computed {
        batches: mpsc::Receiver<std::result::Result<RecordBatch, DataFusionError>>,
        /// Until its end is seen.
        running: Option<BoundTask<()>>,
    },
}

impl AnswerStream {
    fn of(answered: Answered) -> AnswerStream {
        let mut stream = match answered {
            Answered::Stream(stream) => stream,
            Answered::Rows(schema, batches) => {
                return AnswerStream { schema, batches: Batches::Known(batches.into_iter()) };
            }
        };
        let schema = stream.schema();
        let (mut sender, batches) = mpsc::channel(AHEAD_BATCHES);
        let running = spawn(async move {
            while let Some(batch) = stream.next().await {
                let is_failed = batch.is_err();
                if sender.send(batch).await.is_err() || is_failed {
                    break;
                }
            }
        });
        AnswerStream {
            schema,
            batches: Batches::Computed { batches, running: Some(running.bound()) },
        }
    }

    /// Names and types of the columns.
    #[must_use]
    pub fn schema(&self) -> &SchemaRef {
        &self.schema
    }

    /// The next rows; `None` at the end.
    ///
    /// # Cancel safety
    /// No rows are lost with a future that is dropped.
    pub async fn next(&mut self) -> Result<Option<RecordBatch>> {
        let (batches, running) = match &mut self.batches {
            Batches::Known(batches) => return Ok(batches.next()),
            Batches::Computed { batches, running } => (batches, running),
        };
        let Some(batch) = batches.next().await else {
            // A panic of the task goes on here: it is no end of the answer.
            if let Some(task) = running {
                task.await;
            }
            *running = None;
            return Ok(None);
        };
        Ok(Some(batch?))
    }

    /// Stops the statement, and returns once its task has ended. Tasks that it started may hold tables a moment longer.
    pub async fn stop(mut self) {
        if let Batches::Computed { running: Some(running), .. } = &mut self.batches {
            running.stop().await;
        }
    }
}

/// Plans a statement that only reads, and starts it.
pub(crate) async fn read(
    context: &SessionContext,
    mut parsed: Statement,
) -> Result<SendableRecordBatchStream> {
    // What changes tables, or reads and writes files by itself, would not reach the store.
    let options =
        SQLOptions::new().with_allow_ddl(false).with_allow_dml(false).with_allow_statements(false);
    if let Some(statement) = statement_of(&mut parsed) {
        regroup(statement);
        qualify_columns(statement);
    }
    let plan = context.state().statement_to_plan(parsed).await?;
    options.verify_plan(&plan)?;
    let plan = context.execute_logical_plan(plan).await?.create_physical_plan().await?;
    Ok(execute_stream(plan, context.task_ctx())?)
}

/// A session over tables in memory, given as name, schema and batches: what answers are compared to.
pub fn memory_database(
    tables: impl IntoIterator<Item = (String, SchemaRef, Vec<RecordBatch>)>,
) -> Result<Database> {
    let context = context();
    for (name, schema, batches) in tables {
        let table = MemTable::try_new(schema, vec![batches])?;
        context.register_table(datafusion::common::TableReference::bare(name), Arc::new(table))?;
    }
    Ok(Database { source: Source::Memory(context) })
}
