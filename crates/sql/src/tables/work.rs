//! What a statement that writes reads, and where its changes go.

use std::sync::Arc;

use moirai_tables::{Changes, Isolation, Locked, Snapshot, Table, Tables, Transaction, Writer};

use crate::tables::table::external;
use crate::{Error, Result};

/// Bytes of changes that a statement collects in memory. Where the statement is a transaction of its own, more go to the device.
const COLLECTED_BYTES: usize = 32 << 20;

/// A statement that writes, within a transaction. Its changes are collected, and become the transaction's once the whole statement
/// succeeded: a statement that fails changes nothing.
pub(crate) struct Work<'a> {
    pub(crate) snapshot: Arc<Snapshot>,
    tables: &'a Tables,
    transaction: &'a mut Transaction,
    collected: Vec<Changes>,
    bytes: usize,
    /// Changes that are too many for memory, and the tables that they change.
    writer: Option<Writer<'a>>,
    /// The table that gets new rows only.
    without_duplicates: Option<Table>,
    /// Whether the statement is all of its transaction.
    is_alone: bool,
    /// Whether others have changed what the statement read, so that what it says counts for nothing.
    is_stale: bool,
}

/// What became of the changes of a statement.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Applied {
    /// They are those of the transaction.
    Done,
    /// Other transactions have changed what the statement read. It is to run again with a new snapshot; the rows that it changes are locked
    /// by now.
    Stale,
}

impl<'a> Work<'a> {
    /// Begins a statement, with a snapshot of its own where the transaction reads what is committed.
    pub(crate) async fn begin(
        tables: &'a Tables,
        transaction: &'a mut Transaction,
        is_alone: bool,
    ) -> Result<Work<'a>> {
        let snapshot = transaction.snapshot().await?;
        Ok(Work {
            snapshot,
            tables,
            transaction,
            collected: Vec::new(),
            bytes: 0,
            writer: None,
            without_duplicates: None,
            is_alone,
            is_stale: false,
        })
    }

    /// Whether the statement is all of its transaction.
    pub(crate) fn is_alone(&self) -> bool {
        self.is_alone
    }

    /// Locks what changes need, before the statement says whether they may be; an error where others have changed that since the statement
    /// read it ([`Work::is_stale`]).
    pub(crate) async fn lock(&mut self, changes: &Changes) -> Result<()> {
        match self.transaction.lock(changes).await? {
            Locked::Current => Ok(()),
            Locked::Stale => {
                self.is_stale = true;
                Err(self.outdated())
            }
        }
    }

    /// Whether the statement is to run again: others have changed what it read, and its transaction reads what is committed.
    pub(crate) fn is_stale(&mut self) -> bool {
        self.is_stale && self.transaction.options().isolation == Isolation::ReadCommitted
    }

    fn outdated(&mut self) -> Error {
        match self.transaction.options().isolation {
            // Nobody sees it.
            Isolation::ReadCommitted => {
                let problem = "a row was changed meanwhile".to_owned();
                Error::Rows { problem, sqlstate: "40001" }
            }
            _ => self.transaction.conflict("a row that it changes").into(),
        }
    }

    /// Locks all rows of a table. What the statement reads from then on is what is there, where its transaction reads what is committed.
    pub(crate) async fn lock_table(&mut self, table: &Table) -> Result<()> {
        self.transaction.lock_table(table).await?;
        self.snapshot = self.transaction.snapshot().await?;
        Ok(())
    }

    /// Every change of this table puts a row that is to be new.
    pub(crate) fn refuse_duplicates(&mut self, table: &Table) {
        self.without_duplicates = Some(table.clone());
    }

    /// Whether the commit finds rows with the same key among those that are put: the statement need not remember keys.
    pub(crate) fn finds_duplicates(&self) -> bool {
        self.without_duplicates.is_some() && self.writer.is_some()
    }

    /// Adds changes, which come after those before them.
    pub(crate) async fn add(&mut self, changes: Changes) -> Result<()> {
        if let Some(writer) = &mut self.writer {
            return Ok(writer.add(&changes).await.map_err(external)?);
        }
        self.bytes += changes.group().log_bytes();
        self.collected.push(changes);
        if self.is_alone && self.bytes > COLLECTED_BYTES {
            let writer = self.writer.insert(self.tables.writer());
            self.without_duplicates.iter().for_each(|table| writer.refuse_duplicates(table));
            for changes in std::mem::take(&mut self.collected) {
                writer.add(&changes).await.map_err(external)?;
            }
        }
        if !self.is_alone && self.bytes > self.transaction.options().memory_bytes {
            return Err(self.transaction.too_large().into());
        }
        Ok(())
    }

    /// Locks what the changes need, and makes them those of the transaction, if nobody has changed the rows since they were read. A
    /// statement that is all of its transaction may be committed with that.
    pub(crate) async fn apply(self) -> Result<Applied> {
        let Work { snapshot, transaction, collected, writer, .. } = self;
        // It has the transaction's changes, of which there would be two copies.
        drop(snapshot);
        let mut locked = Locked::Current;
        for changes in &collected {
            if transaction.lock(changes).await? == Locked::Stale {
                locked = Locked::Stale;
            }
        }
        let tables: Vec<Table> = writer.iter().flat_map(Writer::tables).cloned().collect();
        for table in tables {
            transaction.lock_table(&table).await?;
            if transaction.has_table_changed(&table) {
                locked = Locked::Stale;
            }
        }
        if locked == Locked::Stale {
            return match transaction.options().isolation {
                Isolation::ReadCommitted => Ok(Applied::Stale),
                _ => Err(transaction.conflict("a row that it changes").into()),
            };
        }
        for changes in &collected {
            transaction.add(changes)?;
        }
        if let Some(writer) = writer {
            transaction.commit_writer(writer).await.map_err(external)?;
        }
        Ok(Applied::Done)
    }
}
