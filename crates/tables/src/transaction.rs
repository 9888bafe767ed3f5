//! Transactions over rows of tables, and over trees.

use std::sync::Arc;

use arrow_array::{ArrayRef, RecordBatch};
use moirai_btree::Store;
use moirai_pages::ADD;
use moirai_transactions::{Isolation, LockMode, LockWait, Sight, TransactionOptions};
use moirai_update::{DELETE, SpaceId};

use crate::index::{Index, key_behind};
use crate::snapshot::{Snapshot, SnapshotPoint};
use crate::table::Table;
use crate::tables::{Tables, Writer, named};
use crate::{Changes, Error, Result};

/// A transaction over the tables and trees of a store. It reads its own changes ([`Transaction::snapshot`]); others see them once it is
/// committed. Dropped, it is rolled back. See [`moirai_transactions`] for what the isolation levels promise.
///
/// ```
/// # use std::sync::Arc;
/// # use arrow_array::{ArrayRef, Int64Array, RecordBatch};
/// # use arrow_schema::{DataType, Field, Schema};
/// # use moirai_tables::{Changes, Isolation, LockWait, TableDefinition, Tables, TransactionOptions};
/// # use moirai_update::{Kinds, Options};
/// # use moirai_units::{BlockCount, ByteCount};
/// # moirai_runtime::block_on_virtual(1, async {
/// # let power = moirai_devices::Power::on();
/// # let device = |name: &str, blocks| -> Arc<dyn moirai_storage::Device> { moirai_devices::FaultyDevice::new(
/// #     name.into(), BlockCount(blocks), BlockCount(16), power.clone()) };
/// # let (data, logs) = (device("data", 200_000), [device("log", 10_000)]);
/// # moirai_btree::Store::format(&*data, &logs, moirai_btree::with_leaves(ByteCount(8 << 10))).await?;
/// # let tables = Tables::open(data, &logs, Kinds::new(), Options::default()).await?;
/// # let numbers = |values: &[i64]| -> ArrayRef { Arc::new(Int64Array::from(values.to_vec())) };
/// let schema = Schema::new(vec![
///     Field::new("id", DataType::Int64, false),
///     Field::new("balance", DataType::Int64, false),
/// ]);
/// let accounts = tables.create("accounts", TableDefinition::new(schema, &["id"])?).await?;
///
/// let mut tx = tables.begin_transaction(TransactionOptions::default());
/// let columns = vec![numbers(&[1, 2]), numbers(&[100, 20])];
/// tx.insert(&accounts, &RecordBatch::try_new(accounts.schema().clone(), columns)?).await?;
/// tx.commit().await?;
///
/// // Blind additions: the rows are not read, and transactions that add to them do not wait for each other.
/// let mut tx = tables.begin_transaction(TransactionOptions::of(Isolation::ReadCommitted));
/// let mut changes = Changes::new();
/// changes.add(&accounts, &[numbers(&[1, 2])], &[(1, numbers(&[-30, 30]))])?;
/// tx.change(&changes).await?;
/// let rows = tx.rows_for_update(&accounts, &[numbers(&[2])], &[1], LockWait::Wait).await;
/// assert_eq!(rows?.column(0), &numbers(&[50]));
/// tx.commit().await?;
/// # Ok::<(), moirai_tables::Error>(())
/// # }).unwrap();
/// ```
#[derive(Debug)]
pub struct Transaction {
    inner: moirai_btree::Transaction<Holder>,
    /// The tables that it changes.
    changed: Vec<Table>,
}

/// What holds the store of tables.
#[derive(Clone, Debug)]
pub struct Holder(Arc<Tables>);

impl AsRef<Store> for Holder {
    fn as_ref(&self) -> &Store {
        &self.0.store
    }
}

/// Whether the snapshot that was read last still shows what is locked now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Locked {
    /// It does.
    Current,
    /// Another transaction has changed it since. A transaction that reads what is committed reads it again; others have failed.
    Stale,
}

/// The spaces that changes are of; those of indexes with these.
fn spaces_of(changes: &Changes) -> Vec<(SpaceId, Option<&Index>)> {
    let mut spaces = Vec::new();
    for table in changes.tables() {
        spaces.push((table.space(), None));
        spaces.extend(table.indexes().iter().map(|index| (index.entries().space(), Some(index))));
    }
    spaces
}

/// Whether two are the same.
fn has_twice(all: &mut [Vec<u8>]) -> bool {
    all.sort_unstable();
    all.windows(2).any(|pair| matches!(pair, [one, next] if one == next))
}

impl Tables {
    /// Begins a transaction. Nothing is read or locked for it yet.
    #[must_use]
    pub fn begin_transaction(self: &Arc<Tables>, options: TransactionOptions) -> Transaction {
        let inner = moirai_btree::Transaction::begin(Holder(Arc::clone(self)), options);
        Transaction { inner, changed: Vec::new() }
    }
}

impl Transaction {
    /// The tables of the store.
    #[must_use]
    pub fn tables(&self) -> &Arc<Tables> {
        &self.inner.holder().0
    }

    /// The same transaction over trees.
    pub fn trees(&mut self) -> &mut moirai_btree::Transaction<Holder> {
        &mut self.inner
    }

    /// How it runs.
    pub fn options(&mut self) -> &TransactionOptions {
        self.inner.inner().options()
    }

    /// What it sees, with its own changes: one state for the whole transaction; with [`Isolation::ReadCommitted`] a new one each time.
    /// Of a serializable transaction what is read of it counts as read.
    ///
    /// # Errors
    /// That of a transaction that has failed.
    pub async fn snapshot(&mut self) -> Result<Arc<Snapshot>> {
        let tables = Arc::clone(self.tables());
        let Sight { point, draft, reads } = self.inner.inner().sight(tables.store.engine()).await?;
        let point = SnapshotPoint::OfTransaction {
            point: Arc::clone(point),
            draft: Arc::clone(draft),
            reads: reads.cloned(),
        };
        Ok(Arc::new(Snapshot::new(tables, point)))
    }

    /// Locks what changes need: the keys of rows, and their values in unique indexes.
    ///
    /// # Errors
    /// As of [`moirai_transactions::Transaction::lock`].
    pub async fn lock(&mut self, changes: &Changes) -> Result<Locked> {
        let tables = Arc::clone(self.tables());
        let engine = tables.store.engine();
        let mut locked = Locked::Current;
        let spaces = spaces_of(changes);
        for (space, modification) in changes.group().iter() {
            let Some((_, index)) = spaces.iter().find(|(of, _)| *of == space) else { continue };
            let (key, to) = match index {
                None => (modification.key, None),
                Some(index) if index.definition().is_unique && modification.kind != DELETE => {
                    let Some(bytes) = index.prefix_bytes(modification.key) else { continue };
                    let prefix = modification.key.get(..bytes).unwrap_or_default();
                    (prefix, key_behind(prefix.to_vec()))
                }
                // Entries of other rows have other keys.
                Some(_) => continue,
            };
            let mode =
                if modification.kind == ADD { LockMode::Shared } else { LockMode::Exclusive };
            let inner = self.inner.inner();
            inner.lock(engine, (space, key), mode, LockWait::Wait).await?;
            let has_changed = match (mode, index) {
                // Whatever was there, the sum is right.
                (LockMode::Shared, _) => false,
                (LockMode::Exclusive, None) => inner.has_changed(space, key),
                (LockMode::Exclusive, Some(_)) => {
                    inner.has_range_changed(space, key, to.as_deref())
                }
            };
            if has_changed {
                if index.is_some() && inner.options().isolation == Isolation::Snapshot {
                    return Err(inner.conflict("a value of a unique index").into());
                }
                locked = Locked::Stale;
            }
        }
        Ok(locked)
    }

    /// Locks rows by their keys as pages order them; tells which of them are locked, which all are unless `wait` says to skip some, and
    /// whether the snapshot that was read last still shows them.
    ///
    /// # Errors
    /// As of [`moirai_transactions::Transaction::lock`]; of a serializable transaction, [`moirai_transactions::Error::Conflict`] where
    /// the snapshot does not show them any more.
    pub async fn lock_rows(
        &mut self,
        table: &Table,
        keys: &[Vec<u8>],
        wait: LockWait,
    ) -> Result<(Vec<bool>, Locked)> {
        let tables = Arc::clone(self.tables());
        let inner = self.inner.inner();
        let (mut are_locked, mut locked) = (Vec::with_capacity(keys.len()), Locked::Current);
        for key in keys {
            let place = (table.space(), &key[..]);
            let is_locked =
                inner.lock(tables.store.engine(), place, LockMode::Exclusive, wait).await?;
            are_locked.push(is_locked);
            if is_locked && inner.has_changed(table.space(), key) {
                if inner.options().isolation == Isolation::Serializable {
                    return Err(inner.conflict("a row that it reads").into());
                }
                locked = Locked::Stale;
            }
        }
        Ok((are_locked, locked))
    }

    /// Notes that it changes a table.
    pub(crate) fn note(&mut self, table: &Table) {
        if !self.changed.iter().any(|one| one.is(table)) {
            self.changed.push(table.clone());
        }
    }

    /// Adds changes, which are locked.
    ///
    /// # Errors
    /// As of [`moirai_transactions::Transaction::modify`].
    pub fn add(&mut self, changes: &Changes) -> Result<()> {
        changes.tables().for_each(|table| self.note(table));
        let inner = self.inner.inner();
        for (space, modification) in changes.group().iter() {
            inner.modify(space, modification)?;
        }
        Ok(())
    }

    /// Locks what changes need, and adds them. They do not depend on what was read before; see [`Transaction::lock`] where they do.
    /// Errors as of that and of [`Transaction::add`].
    pub async fn change(&mut self, changes: &Changes) -> Result<()> {
        self.lock(changes).await?;
        self.add(changes)
    }

    /// Inserts rows, none of which has the key of another, or its values in a unique index. Those of a table without a key come with their
    /// numbers.
    ///
    /// # Errors
    /// [`Error::RowExists`], and nothing was inserted; errors as of [`Transaction::change`], [`Changes::put`] and [`Snapshot::rows`].
    pub async fn insert(&mut self, table: &Table, rows: &RecordBatch) -> Result<()> {
        let mut changes = Changes::new();
        changes.put(table, rows)?;
        self.lock(&changes).await?;
        let snapshot = self.snapshot().await?;
        let columns = table.pages().key().iter();
        let keys: Vec<ArrayRef> =
            columns.filter_map(|column| rows.columns().get(*column).cloned()).collect();
        let exists = |what: String| Err(Error::RowExists { table: table.name().to_owned(), what });
        let mut of_rows = table.keys(&keys)?;
        if snapshot.lacks(table, &keys).await?.contains(&false) || has_twice(&mut of_rows) {
            return exists("key".to_owned());
        }
        for index in table.indexes().iter().filter(|index| index.definition().is_unique) {
            let mut values: Vec<Vec<u8>> = index.identities(rows)?.into_iter().flatten().collect();
            if has_twice(&mut values)
                || snapshot.conflicts(table, index, rows, |_| false).await?.contains(&true)
            {
                return exists(format!("values in index `{}`", index.definition().name));
            }
        }
        self.add(&changes)
    }

    /// Columns of the rows with these keys, as [`Snapshot::rows`] has them; no other transaction changes these rows from now on until this
    /// one has ended. Rows that another transaction has locked are left out where `wait` says to skip them.
    ///
    /// # Errors
    /// As of [`Transaction::lock_rows`] and [`Snapshot::rows`].
    pub async fn rows_for_update(
        &mut self,
        table: &Table,
        keys: &[ArrayRef],
        columns: &[usize],
        wait: LockWait,
    ) -> Result<RecordBatch> {
        let mut keys = table.keys(keys)?;
        let (are_locked, _) = self.lock_rows(table, &keys, wait).await?;
        let mut are_locked = are_locked.into_iter();
        keys.retain(|_| are_locked.next().unwrap_or(false));
        // Of a transaction that reads what is committed a new one.
        self.snapshot().await?.rows_of(table, &keys, columns).await
    }

    /// Sets a savepoint. Errors as of [`moirai_transactions::Transaction::savepoint`].
    pub fn savepoint(&mut self, name: &str) -> Result<()> {
        Ok(self.inner.savepoint(name)?)
    }

    /// Takes back what was changed after a savepoint, which stays. Errors as of
    /// [`moirai_transactions::Transaction::roll_back_to`].
    pub fn roll_back_to(&mut self, name: &str) -> Result<()> {
        Ok(self.inner.roll_back_to(name)?)
    }

    /// Forgets a savepoint and those after it. Errors as of [`Transaction::roll_back_to`].
    pub fn release_savepoint(&mut self, name: &str) -> Result<()> {
        Ok(self.inner.release_savepoint(name)?)
    }

    /// Commits: all changes are durable together when it returns, and seen by transactions that begin then. The transaction has
    /// ended, whatever it returns.
    ///
    /// # Errors
    /// [`Error::Dropped`], [`Error::Altered`] where a table that it changes is no longer what it was; errors as of
    /// [`moirai_transactions::Transaction::commit`].
    pub async fn commit(&mut self) -> Result<()> {
        let tables = Arc::clone(self.tables());
        let _defining = tables.defining.read().await;
        if let Err(error) = tables.check(&self.changed) {
            self.inner.roll_back();
            return Err(error);
        }
        Ok(self.inner.commit().await?)
    }

    /// Locks all rows of a table, and its indexes.
    ///
    /// # Errors
    /// As of [`moirai_transactions::Transaction::lock_space`].
    pub async fn lock_table(&mut self, table: &Table) -> Result<()> {
        for space in table.spaces() {
            let tables = Arc::clone(self.tables());
            self.inner.inner().lock_space(tables.store.engine(), space).await?;
        }
        Ok(())
    }

    /// That it may change something.
    ///
    /// # Errors
    /// Those of a transaction that has failed or only reads, and of a store that takes no changes.
    pub fn check_writes(&mut self) -> Result<()> {
        let tables = Arc::clone(self.tables());
        let inner = self.inner.inner();
        inner.check()?;
        if inner.options().read_only {
            return Err(moirai_transactions::Error::ReadOnly.into());
        }
        Ok(tables.store.engine().check_writes().map_err(moirai_btree::Error::from)?)
    }

    /// Ends a statement: see [`moirai_transactions::Transaction::end_statement`].
    pub fn end_statement(&mut self) {
        self.inner.inner().end_statement();
    }

    /// Whether another transaction has changed rows of a table since the snapshot that was read last.
    pub fn has_table_changed(&mut self, table: &Table) -> bool {
        let inner = self.inner.inner();
        table.spaces().into_iter().any(|space| inner.has_range_changed(space, &[], None))
    }

    /// Ends the transaction, since another one changed what both use; gives the error that says so.
    pub fn conflict(&mut self, what: &'static str) -> Error {
        self.inner.inner().conflict(what).into()
    }

    /// Ends the transaction, since its changes take more than its memory; gives the error that says so.
    pub fn too_large(&mut self) -> Error {
        let inner = self.inner.inner();
        let most = inner.options().memory_bytes as u64;
        inner.fail(moirai_transactions::Error::TooLarge { most }).into()
    }

    /// Whether it has changed nothing, or has ended.
    pub fn is_empty(&mut self) -> bool {
        self.inner.inner().is_empty()
    }

    /// Commits changes that are too many for memory, instead of those that the transaction has: it has locked all of their tables
    /// ([`Transaction::lock_table`]). Errors as of [`Transaction::commit`] and [`Writer::commit`].
    pub async fn commit_writer(&mut self, writer: Writer<'_>) -> Result<()> {
        let tables = Arc::clone(self.tables());
        let _defining = tables.defining.read().await;
        let (changed, bulk) = writer.checked().inspect_err(|_| self.inner.roll_back())?;
        let committed = self.inner.inner().commit_bulk(tables.store.engine(), bulk).await;
        committed.map_err(|error| named(&changed, error.into()))
    }

    /// Rolls it back: it has ended.
    pub fn roll_back(&mut self) {
        self.inner.roll_back();
    }

    /// Rolls it back and begins it again after a while, as old as it was; see [`moirai_btree::Transaction::retry`].
    pub async fn retry(&mut self) {
        self.inner.retry().await;
        self.changed.clear();
    }
}
