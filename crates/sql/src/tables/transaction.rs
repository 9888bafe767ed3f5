//! What a session keeps between statements: its transaction block, from BEGIN to COMMIT, and its prepared statements.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use datafusion::sql::sqlparser::ast::{
    Set, Statement as SqlStatement, TransactionAccessMode, TransactionIsolationLevel,
    TransactionMode,
};
use moirai_tables::{Isolation, Snapshot, Tables, Transaction, TransactionOptions};

use crate::tables::define::NOTHING;
use crate::tables::prepared::{Asked, PreparedStatements};
use crate::tables::session::{Session, Written, normal};
use crate::{Error, Result};

/// What a transaction block may take of memory for its changes.
const MEMORY_BYTES: usize = 256 << 20;

/// What the transactions of a session are like.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Modes {
    isolation: Isolation,
    read_only: bool,
}

/// The default of SQL sessions, as of PostgreSQL's.
impl Default for Modes {
    fn default() -> Modes {
        Modes { isolation: Isolation::ReadCommitted, read_only: false }
    }
}

impl Modes {
    fn options(self) -> TransactionOptions {
        let Modes { isolation, read_only } = self;
        let memory_bytes = MEMORY_BYTES;
        TransactionOptions { isolation, read_only, memory_bytes, ..TransactionOptions::default() }
    }

    /// These with what a statement says.
    fn with(mut self, modes: &[TransactionMode]) -> Modes {
        use TransactionIsolationLevel as Level;
        for mode in modes {
            match mode {
                TransactionMode::AccessMode(mode) => {
                    self.read_only = *mode == TransactionAccessMode::ReadOnly;
                }
                TransactionMode::IsolationLevel(level) => {
                    self.isolation = match level {
                        Level::ReadUncommitted | Level::ReadCommitted => Isolation::ReadCommitted,
                        Level::RepeatableRead | Level::Snapshot => Isolation::Snapshot,
                        Level::Serializable => Isolation::Serializable,
                    };
                }
            }
        }
        self
    }
}

/// A transaction block that is open.
pub(crate) struct Block {
    pub(crate) transaction: Transaction,
    modes: Modes,
    /// Whether a statement has run in it: it keeps its isolation level from then on.
    pub(crate) has_run: bool,
    /// Whether a statement has failed: nothing more is done until the block, or the part after a savepoint, is rolled back.
    pub(crate) has_failed: Arc<AtomicBool>,
}

/// What a session keeps between statements.
#[derive(Default)]
pub(crate) struct SessionScope {
    modes: Modes,
    pub(crate) block: Option<Block>,
    pub(crate) prepared: PreparedStatements,
}

/// An error of the session's transaction, with PostgreSQL's words and number.
fn problem<T>(sqlstate: &'static str, problem: impl Into<String>) -> Result<T> {
    Err(Error::Transaction { problem: problem.into(), sqlstate })
}

impl Block {
    /// That no statement has failed in it.
    pub(crate) fn check(&self) -> Result<()> {
        if self.has_failed.load(Ordering::Relaxed) {
            return problem(
                "25P02",
                "current transaction is aborted, commands ignored until end of transaction block: write ROLLBACK",
            );
        }
        Ok(())
    }

    fn begin(tables: &Arc<Tables>, modes: Modes) -> Block {
        let transaction = tables.begin_transaction(modes.options());
        Block { transaction, modes, has_run: false, has_failed: Arc::default() }
    }
}

impl SessionScope {
    /// How a statement runs that is a transaction of its own. What does not fit into memory goes to the device.
    pub(crate) fn alone(&self) -> TransactionOptions {
        TransactionOptions { memory_bytes: usize::MAX, ..self.modes.options() }
    }

    /// What a statement that only reads sees.
    pub(crate) async fn snapshot(&mut self, tables: &Arc<Tables>) -> Result<Arc<Snapshot>> {
        match &mut self.block {
            Some(block) => {
                block.check()?;
                block.has_run = true;
                Ok(block.transaction.snapshot().await?)
            }
            None => Ok(tables.snapshot().await),
        }
    }

    /// What a statement asks for: see [`PreparedStatements::ask`].
    pub(crate) fn asked(&mut self, statement: SqlStatement) -> Result<Asked> {
        self.check()?;
        self.prepared.ask(statement)
    }

    /// That no statement has failed in the block, if one is open.
    pub(crate) fn check(&self) -> Result<()> {
        self.block.as_ref().map_or(Ok(()), Block::check)
    }

    /// Whether a statement controls transactions, and what it does then.
    pub(crate) async fn control(
        &mut self,
        session: &Session,
        statement: &SqlStatement,
    ) -> Option<Result<Written>> {
        let done = match statement {
            SqlStatement::StartTransaction { modes, statements, .. } if statements.is_empty() => {
                self.begin(session, modes)
            }
            SqlStatement::Commit { chain, .. } => self.commit(session, *chain).await,
            SqlStatement::Rollback { chain, savepoint: None } => self.roll_back(session, *chain),
            SqlStatement::Rollback { savepoint: Some(name), .. } => {
                self.roll_back_to(&normal(name))
            }
            SqlStatement::Savepoint { name } => self
                .savepoint("SAVEPOINT", |block| Ok(block.transaction.savepoint(&normal(name))?)),
            SqlStatement::ReleaseSavepoint { name } => self
                .savepoint("RELEASE SAVEPOINT", |block| {
                    Ok(block.transaction.release_savepoint(&normal(name))?)
                }),
            SqlStatement::Set(Set::SetTransaction { modes, snapshot: None, session: all }) => {
                self.set(session, modes, *all)
            }
            _ => return None,
        };
        Some(done.map(|()| NOTHING))
    }

    fn begin(&mut self, session: &Session, modes: &[TransactionMode]) -> Result<()> {
        if let Some(block) = &self.block {
            block.check()?;
            return problem("25001", "there is already a transaction in progress");
        }
        self.block = Some(Block::begin(&session.tables, self.modes.with(modes)));
        Ok(())
    }

    /// Ends the block; of one in which a statement has failed, nothing is committed.
    async fn commit(&mut self, session: &Session, chain: bool) -> Result<()> {
        let Some(mut block) = self.block.take() else {
            return problem("25P01", "there is no transaction in progress");
        };
        let modes = block.modes;
        let committed = match block.has_failed.load(Ordering::Relaxed) {
            true => problem(
                "25P02",
                "the transaction was rolled back, since a statement in it has failed",
            ),
            false => block.transaction.commit().await.map_err(Error::from),
        };
        if chain {
            self.block = Some(Block::begin(&session.tables, modes));
        }
        committed
    }

    fn roll_back(&mut self, session: &Session, chain: bool) -> Result<()> {
        let Some(mut block) = self.block.take() else {
            return problem("25P01", "there is no transaction in progress");
        };
        block.transaction.roll_back();
        if chain {
            self.block = Some(Block::begin(&session.tables, block.modes));
        }
        Ok(())
    }

    fn roll_back_to(&mut self, name: &str) -> Result<()> {
        let Some(block) = &mut self.block else {
            return problem(
                "25P01",
                "ROLLBACK TO SAVEPOINT can only be used in transaction blocks",
            );
        };
        // A conflict or a deadlock has ended all of it.
        if let Err(error) = block.transaction.roll_back_to(name) {
            block.has_failed.store(true, Ordering::Relaxed);
            return Err(error.into());
        }
        block.has_failed.store(false, Ordering::Relaxed);
        Ok(())
    }

    fn savepoint(&mut self, what: &str, act: impl FnOnce(&mut Block) -> Result<()>) -> Result<()> {
        let Some(block) = &mut self.block else {
            return problem("25P01", format!("{what} can only be used in transaction blocks"));
        };
        block.check()?;
        block.has_run = true;
        act(block)
    }

    fn set(&mut self, session: &Session, modes: &[TransactionMode], all: bool) -> Result<()> {
        if all {
            self.modes = self.modes.with(modes);
            return Ok(());
        }
        let Some(block) = &mut self.block else {
            return problem("25P01", "SET TRANSACTION can only be used in transaction blocks");
        };
        block.check()?;
        if block.has_run {
            block.has_failed.store(true, Ordering::Relaxed);
            return problem(
                "25001",
                "SET TRANSACTION ISOLATION LEVEL must be called before any query",
            );
        }
        *block = Block::begin(&session.tables, block.modes.with(modes));
        Ok(())
    }

    /// Refuses what is not done in a transaction block.
    pub(crate) fn refuse_in_block(&mut self, what: &str) -> Result<()> {
        match &mut self.block {
            None => Ok(()),
            Some(block) => {
                block.check()?;
                block.has_failed.store(true, Ordering::Relaxed);
                problem("25001", format!("{what} cannot run inside a transaction block"))
            }
        }
    }
}
