//! A DataFusion session over the tables of a store.

use std::sync::Arc;

use datafusion::arrow::array::RecordBatch;
use datafusion::arrow::datatypes::SchemaRef;
use datafusion::datasource::MemTable;
use datafusion::error::DataFusionError;
use datafusion::execution::SendableRecordBatchStream;
use datafusion::execution::context::SQLOptions;
use datafusion::execution::session_state::SessionStateBuilder;
use datafusion::physical_plan::execute_stream;
use datafusion::prelude::{SessionConfig, SessionContext};
use datafusion::sql::parser::Statement;
use futures::TryStreamExt;
use moirai_runtime::{Task, is_virtual, spawn};
use moirai_store::Store;

use crate::Result;
use crate::overflow::OverflowIsAnError;
use crate::table::StoreTable;
use crate::using::qualify_columns;
use crate::yielding::YieldingJoins;

/// A session in which statements are run.
pub struct Database {
    context: SessionContext,
}

/// A session whose plans are the same on every machine: one partition in virtual time, where the
/// order of events must not depend on the number of cores.
fn context() -> SessionContext {
    let config = SessionConfig::new().with_information_schema(true);
    let config = if is_virtual() { config.with_target_partitions(1) } else { config };
    let state = SessionStateBuilder::new()
        .with_config(config)
        .with_default_features()
        .with_analyzer_rule(Arc::new(OverflowIsAnError))
        .with_physical_optimizer_rule(Arc::new(YieldingJoins))
        .build();
    SessionContext::new_with_state(state)
}

impl Database {
    /// A session over the tables that `store` has now. Inside a runtime only.
    pub fn new(store: &Store) -> Result<Database> {
        let context = context();
        for name in store.table_names() {
            let table = StoreTable::new(store.table(&name)?);
            // A bare reference, so that names keep their case and their dots.
            let reference = datafusion::common::TableReference::bare(name);
            context.register_table(reference, Arc::new(table))?;
        }
        Ok(Database { context })
    }

    /// Plans `statement` and starts it: the answer's schema and batches.
    pub async fn stream(&self, statement: &str) -> Result<SendableRecordBatchStream> {
        // What changes tables, or reads and writes files by itself, would not reach the store.
        let options = SQLOptions::new()
            .with_allow_ddl(false)
            .with_allow_dml(false)
            .with_allow_statements(false);
        let state = self.context.state();
        let dialect = state.config_options().sql_parser.dialect;
        let mut parsed = state.sql_to_statement(statement, &dialect)?;
        if let Statement::Statement(parsed) = &mut parsed {
            qualify_columns(&mut **parsed);
        }
        let plan = state.statement_to_plan(parsed).await?;
        options.verify_plan(&plan)?;
        let plan = self.context.execute_logical_plan(plan).await?.create_physical_plan().await?;
        Ok(execute_stream(plan, self.context.task_ctx())?)
    }

    /// Runs `statement`: the answer's schema and all of its batches.
    ///
    /// # Cancel safety
    /// When the future is dropped the statement ends with its next batch, wherever it runs.
    pub async fn query(&self, statement: &str) -> Result<(SchemaRef, Vec<RecordBatch>)> {
        let stream = self.stream(statement).await?;
        let schema = stream.schema();
        // A task of its own, so that whoever waits for the statement can be woken while it computes.
        let mut running = Running(spawn(stream.try_collect()));
        Ok((schema, (&mut running.0).await?))
    }
}

/// A statement that is aborted when it is dropped.
struct Running(Task<std::result::Result<Vec<RecordBatch>, DataFusionError>>);

impl Drop for Running {
    fn drop(&mut self) {
        self.0.abort();
    }
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
    Ok(Database { context })
}
