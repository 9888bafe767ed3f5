//! Transactions over the trees of a store.

use std::ops::Bound;
use std::sync::Arc;

use moirai_runtime::sleep;
use moirai_transactions::{
    Isolation, LockMode, LockWait, Reads, Sight, TransactionOptions, Transactions, key_after,
};
use moirai_units::Nanos;
use moirai_update::{DELETE, KindNumber, Modification, PUT, SpaceId};

use crate::range::KeyRange;
use crate::reader::Reader;
use crate::scan::{Direction, Scan};
use crate::store::{Store, Tree};
use crate::{Error, Result};

/// How long [`Store::run`] waits before it runs a transaction again: longer after each conflict, up to a limit.
const RETRY_NS: u64 = 50_000;
const RETRIES_LONGER_MAX: u32 = 7;

/// A transaction over the trees of a store. It reads its own changes; others see them once it is committed. Dropped, it is rolled
/// back. See [`moirai_transactions`] for what the isolation levels promise.
///
/// ```
/// # use moirai_btree::{Direction, Isolation, KeyRange, LockWait, Store, TransactionOptions, with_leaves};
/// # use moirai_update::{Kinds, Options};
/// # use moirai_units::{BlockCount, ByteCount};
/// # moirai_runtime::block_on_virtual(1, async {
/// # let power = moirai_devices::Power::on();
/// # let device = |name: &str| -> std::sync::Arc<dyn moirai_storage::Device> { moirai_devices::FaultyDevice::new(
/// #     name.into(), BlockCount(40_000), BlockCount(16), power.clone()) };
/// # let (data, logs) = (device("data"), [device("log")]);
/// # Store::format(&*data, &logs, with_leaves(ByteCount(8 << 10))).await?;
/// # let store = Store::open(data, &logs, Kinds::new(), Options::default()).await?;
/// let accounts = store.tree("accounts").await?;
/// store.put(&accounts, b"ann", &[100]).await?;
/// store.put(&accounts, b"bob", &[20]).await?;
///
/// // Runs again after a conflict with another transaction.
/// store.run(TransactionOptions::default(), async |tx| {
///     let from = tx.get(&accounts, b"ann").await?.unwrap();
///     let to = tx.get(&accounts, b"bob").await?.unwrap();
///     tx.put(&accounts, b"ann", &[from[0] - 30]).await?;
///     tx.put(&accounts, b"bob", &[to[0] + 30]).await
/// }).await?;
///
/// let mut tx = store.begin(TransactionOptions::of(Isolation::Snapshot));
/// assert_eq!(tx.get_for_update(&accounts, b"bob", LockWait::NoWait).await?, Some(vec![50]));
/// tx.savepoint("before")?;
/// tx.delete(&accounts, b"bob").await?;
/// let mut scan = tx.scan(&accounts, KeyRange::all(), Direction::Forward).await?;
/// assert_eq!(scan.next().await?, Some((&b"ann"[..], &[70][..])));
/// assert_eq!(scan.next().await?, None);
/// drop(scan);
/// tx.roll_back_to("before")?;
/// tx.commit().await?;
/// assert!(store.contains(&accounts, b"bob").await?);
/// # Ok::<(), moirai_btree::Error>(())
/// # }).unwrap();
/// ```
#[derive(Debug)]
pub struct Transaction<S: AsRef<Store>> {
    store: S,
    inner: moirai_transactions::Transaction,
    /// The trees that it changes.
    trees: Vec<Tree>,
    /// How often it was begun again.
    retries: u32,
}

impl AsRef<Store> for Store {
    fn as_ref(&self) -> &Store {
        self
    }
}

impl Store {
    /// Begins a transaction. Nothing is read or locked for it yet.
    #[must_use]
    pub fn begin(&self, options: TransactionOptions) -> Transaction<&Store> {
        Transaction::begin(self, options)
    }

    /// Runs a transaction and commits it; runs it again where it failed because of others
    /// ([`Error::is_retryable`](crate::Error::is_retryable)), as often as that takes. The compiler does not see that the future may be sent to
    /// another thread: a task that is spawned has a loop of its own, with [`Transaction::retry`].
    ///
    /// # Errors
    /// Those of `body`, and the transaction is rolled back; errors as of [`Transaction::commit`].
    pub async fn run<T>(
        &self,
        options: TransactionOptions,
        mut body: impl AsyncFnMut(&mut Transaction<&Store>) -> Result<T>,
    ) -> Result<T> {
        let mut transaction = self.begin(options);
        loop {
            let error = match body(&mut transaction).await {
                Ok(value) => match transaction.commit().await {
                    Ok(()) => return Ok(value),
                    Err(error) => error,
                },
                Err(error) => error,
            };
            if !error.is_retryable() {
                return Err(error);
            }
            transaction.retry().await;
        }
    }

    /// What the transactions of this store share.
    #[must_use]
    pub fn transactions(&self) -> &Arc<Transactions> {
        &self.transactions
    }
}

impl<S: AsRef<Store>> Transaction<S> {
    /// Begins a transaction over what holds a store: a reference, or an `Arc`.
    #[must_use]
    pub fn begin(store: S, options: TransactionOptions) -> Transaction<S> {
        let inner = store.as_ref().transactions.begin(options);
        Transaction { store, inner, trees: Vec::new(), retries: 0 }
    }

    /// What holds the store.
    #[must_use]
    pub fn holder(&self) -> &S {
        &self.store
    }

    /// Its reads, changes and locks, for crates that store relations.
    pub fn inner(&mut self) -> &mut moirai_transactions::Transaction {
        &mut self.inner
    }

    /// Reads what it sees, with its own changes; and where it is to be noted what was read.
    async fn reader(&mut self, tree: &Tree) -> Result<(Reader<'_>, SpaceId, Option<&Reads>)> {
        let store = self.store.as_ref();
        store.check_store(tree)?;
        let Sight { point, draft, reads } = self.inner.sight(&store.engine).await?;
        let reader = store.at(point.read_point());
        let engine = reader.engine.over(draft);
        Ok((Reader { engine, ..reader }, tree.space, reads.map(|reads| &**reads)))
    }

    /// The value under `key`. Errors as of [`Reader::get`], and of a transaction that has failed.
    pub async fn get(&mut self, tree: &Tree, key: &[u8]) -> Result<Option<Vec<u8>>> {
        let (reader, space, reads) = self.reader(tree).await?;
        if let Some(reads) = reads {
            reads.note_key(space, key);
        }
        reader.get(tree, key).await
    }

    /// The values under several keys, in the order of `keys`, all of one moment. Errors as of [`Transaction::get`].
    pub async fn multi_get<K: AsRef<[u8]>>(
        &mut self,
        tree: &Tree,
        keys: &[K],
    ) -> Result<Vec<Option<Vec<u8>>>> {
        let (reader, space, reads) = self.reader(tree).await?;
        if let Some(reads) = reads {
            keys.iter().for_each(|key| reads.note_key(space, key.as_ref()));
        }
        reader.multi_get(tree, keys).await
    }

    /// Whether there is a value under `key`. Errors as of [`Transaction::get`].
    pub async fn contains(&mut self, tree: &Tree, key: &[u8]) -> Result<bool> {
        let (reader, space, reads) = self.reader(tree).await?;
        if let Some(reads) = reads {
            reads.note_key(space, key);
        }
        reader.contains(tree, key).await
    }

    /// The value under `key`, which no other transaction changes from now on until this one has ended; `None`, too, where another
    /// one has locked it and `wait` says to skip it.
    ///
    /// # Errors
    /// As of [`Transaction::get`] and [`moirai_transactions::Transaction::lock`].
    pub async fn get_for_update(
        &mut self,
        tree: &Tree,
        key: &[u8],
        wait: LockWait,
    ) -> Result<Option<Vec<u8>>> {
        let is_locked = self.lock(tree, key, LockMode::Exclusive, wait).await?;
        if !is_locked {
            return Ok(None);
        }
        // Its commit would fail.
        let is_serializable = self.inner.options().isolation == Isolation::Serializable;
        if is_serializable && self.inner.has_changed(tree.space, key) {
            return Err(self.inner.conflict("a key that it reads").into());
        }
        self.get(tree, key).await
    }

    /// Scans the records of a range, from the lowest key up or from the highest down. Errors as of [`Transaction::get`].
    pub async fn scan(
        &mut self,
        tree: &Tree,
        range: impl Into<KeyRange>,
        direction: Direction,
    ) -> Result<TransactionScan<'_>> {
        let range = range.into();
        let (reader, space, reads) = self.reader(tree).await?;
        let scan = reader.scan(tree, range.clone(), direction);
        Ok(TransactionScan { scan, space, reads, range, direction, last: None, is_done: false })
    }

    /// Puts `value` under `key`, in place of any value there.
    ///
    /// # Errors
    /// As of [`moirai_transactions::Transaction::lock`], and of a commit of the same.
    pub async fn put(&mut self, tree: &Tree, key: &[u8], value: &[u8]) -> Result<()> {
        self.change(tree, LockMode::Exclusive, Modification { key, kind: PUT, bytes: value }).await
    }

    /// Puts `value` under `key`, where there is none.
    ///
    /// # Errors
    /// [`Error::KeyExists`], and nothing was changed; errors as of [`Transaction::put`].
    pub async fn insert(&mut self, tree: &Tree, key: &[u8], value: &[u8]) -> Result<()> {
        self.lock(tree, key, LockMode::Exclusive, LockWait::Wait).await?;
        if self.contains(tree, key).await? {
            return Err(Error::KeyExists { tree: tree.name().to_owned() });
        }
        self.put(tree, key, value).await
    }

    /// Deletes `key`. Errors as of [`Transaction::put`].
    pub async fn delete(&mut self, tree: &Tree, key: &[u8]) -> Result<()> {
        self.change(tree, LockMode::Exclusive, Modification { key, kind: DELETE, bytes: &[] }).await
    }

    /// Changes the value under `key` as the kind says, without reading it. Does not conflict with merges of other transactions.
    /// Errors as of [`Transaction::put`].
    pub async fn merge(
        &mut self,
        tree: &Tree,
        kind: KindNumber,
        key: &[u8],
        operand: &[u8],
    ) -> Result<()> {
        self.change(tree, LockMode::Shared, Modification { key, kind, bytes: operand }).await
    }

    async fn lock(
        &mut self,
        tree: &Tree,
        key: &[u8],
        mode: LockMode,
        wait: LockWait,
    ) -> Result<bool> {
        let store = self.store.as_ref();
        store.check_tree(tree)?;
        Ok(self.inner.lock(&store.engine, (tree.space, key), mode, wait).await?)
    }

    async fn change(
        &mut self,
        tree: &Tree,
        mode: LockMode,
        modification: Modification<'_>,
    ) -> Result<()> {
        self.lock(tree, modification.key, mode, LockWait::Wait).await?;
        self.inner.modify(tree.space, modification)?;
        if !self.trees.contains(tree) {
            self.trees.push(tree.clone());
        }
        Ok(())
    }

    /// Sets a savepoint; a name may be used again, and the last one counts. Errors as of
    /// [`moirai_transactions::Transaction::savepoint`].
    pub fn savepoint(&mut self, name: &str) -> Result<()> {
        Ok(self.inner.savepoint(name)?)
    }

    /// Takes back what was changed after a savepoint, which stays. Locks are kept. Errors as of
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
    /// [`Error::Dropped`] where a tree that it changes was dropped; errors as of [`moirai_transactions::Transaction::commit`].
    ///
    /// # Cancel safety
    /// Dropped before the changes are in the log, the transaction goes on; after that it is committed.
    pub async fn commit(&mut self) -> Result<()> {
        let store = self.store.as_ref();
        if let Err(error) = self.trees.iter().try_for_each(|tree| store.check_tree(tree)) {
            self.inner.roll_back();
            return Err(error);
        }
        Ok(self.inner.commit(&store.engine).await?)
    }

    /// Rolls it back: it has ended.
    pub fn roll_back(&mut self) {
        self.inner.roll_back();
    }

    /// Rolls it back and begins it again, after a while that is longer each time. It stays as old as it was: of a deadlock the youngest
    /// is ended.
    pub async fn retry(&mut self) {
        self.inner.roll_back();
        sleep(Nanos(RETRY_NS << self.retries.min(RETRIES_LONGER_MAX))).await;
        self.retries += 1;
        self.inner.begin_again();
        self.trees.clear();
    }
}

/// A scan within a transaction, which sees the transaction's own changes. What it passed counts as read.
#[derive(Debug)]
pub struct TransactionScan<'t> {
    scan: Scan<'t>,
    space: SpaceId,
    reads: Option<&'t Reads>,
    range: KeyRange,
    direction: Direction,
    /// The key that was passed last.
    last: Option<Vec<u8>>,
    is_done: bool,
}

impl TransactionScan<'_> {
    /// Passes the next record in the scan's direction and returns its key and value; `None` at the end. Errors as of [`Scan::next`].
    pub async fn next(&mut self) -> Result<Option<(&[u8], &[u8])>> {
        let record = self.scan.next().await?;
        match (&record, self.reads) {
            (None, _) => self.is_done = true,
            (Some((key, _)), Some(_)) => {
                let last = self.last.get_or_insert_default();
                last.clear();
                last.extend_from_slice(key);
            }
            (Some(_), None) => {}
        }
        Ok(record)
    }
}

impl Drop for TransactionScan<'_> {
    /// Notes what was read: the range, or as much of it as was passed.
    fn drop(&mut self) {
        let Some(reads) = self.reads else { return };
        let from = match &self.range.from {
            Bound::Included(key) => key.clone(),
            Bound::Excluded(key) => key_after(key),
            Bound::Unbounded => Vec::new(),
        };
        let to = match &self.range.to {
            Bound::Included(key) => Some(key_after(key)),
            Bound::Excluded(key) => Some(key.clone()),
            Bound::Unbounded => None,
        };
        match (self.is_done, &self.last, self.direction) {
            (true, ..) => reads.note(self.space, &from, to.as_deref()),
            (false, None, _) => {}
            (false, Some(last), Direction::Forward) => {
                reads.note(self.space, &from, Some(&key_after(last)));
            }
            (false, Some(last), Direction::Backward) => {
                reads.note(self.space, last, to.as_deref());
            }
        }
    }
}
