//! A transaction: what it read, what it changes, and its locks.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::sync::atomic::Ordering;

use futures::FutureExt;
use moirai_runtime::sleep;
use moirai_update::{Bulk, Draft, DraftMark, Engine, Modification, SpaceId};

use crate::error::{Error, Result};
use crate::history::{History, Modified};
use crate::locks::{Answer, Granted, LockKey, LockMode, TransactionId};
use crate::options::{Isolation, LockWait, TransactionOptions};
use crate::reads::{ReadRange, Reads};
#[cfg(feature = "canary")]
use crate::transactions::Canary;
use crate::transactions::{Point, Transactions};

/// Locks of keys of a space after which, and after as many more again, the transaction tries to lock the space instead.
const KEYS_LOCKED_MAX: usize = 20_000;
/// What a transaction that failed its validation had in common with others.
const READ: &str = "something that it read";
/// Why a transaction that was committed takes nothing more.
const ENDED: &str = "it has ended with its commit";

/// A transaction. Dropped, it is rolled back.
#[derive(Debug)]
pub struct Transaction {
    all: Arc<Transactions>,
    id: TransactionId,
    options: TransactionOptions,
    draft: Arc<Draft>,
    savepoints: Vec<(String, DraftMark)>,
    /// The read point; of a transaction that reads what is committed, that of a statement.
    point: Option<Arc<Point>>,
    reads: Arc<Reads>,
    /// Of spaces of which it holds locks, how many keys; none of a space that it has locked whole.
    locked: BTreeMap<SpaceId, usize>,
    whole: BTreeSet<SpaceId>,
    failed: Option<String>,
    /// Whether its commit was given up while a bulk group was on its way, which keeps its locks.
    is_given_up: bool,
}

/// What a transaction sees: a state of the store with the transaction's own modifications over it.
#[derive(Clone, Copy, Debug)]
pub struct Sight<'t> {
    /// The state.
    pub point: &'t Arc<Point>,
    /// The transaction's modifications.
    pub draft: &'t Arc<Draft>,
    /// Where to note what is read; `None` where validation does not ask for it.
    pub reads: Option<&'t Arc<Reads>>,
}

impl Transactions {
    /// Begins a transaction. It reads nothing yet, and its read point begins with its first read.
    #[must_use]
    pub fn begin(self: &Arc<Transactions>, options: TransactionOptions) -> Transaction {
        Transaction::new(Arc::clone(self), self.next_id(), options)
    }
}

impl Transaction {
    pub(crate) fn new(
        all: Arc<Transactions>,
        id: TransactionId,
        options: TransactionOptions,
    ) -> Transaction {
        Transaction {
            all,
            id,
            options,
            draft: Arc::default(),
            savepoints: Vec::new(),
            point: None,
            reads: Arc::default(),
            locked: BTreeMap::new(),
            whole: BTreeSet::new(),
            failed: None,
            is_given_up: false,
        }
    }

    /// How it runs.
    #[must_use]
    pub fn options(&self) -> &TransactionOptions {
        &self.options
    }

    /// Whether it has changed anything.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.draft.is_empty()
    }

    /// [`Error::Failed`] after an error that ended it.
    pub fn check(&self) -> Result<()> {
        match &self.failed {
            Some(why) => Err(Error::Failed { why: why.clone() }),
            None => Ok(()),
        }
    }

    /// What the next read sees. The read point is one for the whole transaction, or, where that reads what is committed, a new one each
    /// time.
    ///
    /// # Errors
    /// [`Error::Failed`].
    pub async fn sight(&mut self, engine: &Engine) -> Result<Sight<'_>> {
        self.check()?;
        let is_kept = self.options.isolation != Isolation::ReadCommitted;
        let point = match &self.point {
            Some(point) if is_kept => Arc::clone(point),
            _ => self.all.begin_point(engine, !self.options.read_only).await,
        };
        let is_validated =
            self.options.isolation == Isolation::Serializable && !self.options.read_only;
        Ok(Sight {
            point: self.point.insert(point),
            draft: &self.draft,
            reads: is_validated.then_some(&self.reads),
        })
    }

    /// Locks a key for as long as the transaction lasts; tells whether it is locked, which it is unless `wait` says to skip it.
    /// Once it returns, readers see whatever others committed there.
    ///
    /// # Errors
    /// [`Error::Deadlock`]; [`Error::Conflict`] where another transaction changed a key of a snapshot; both end the transaction.
    /// [`Error::LockNotAvailable`], [`Error::ReadOnly`], [`Error::Failed`], [`Error::Engine`].
    ///
    /// # Cancel safety
    /// A lock that is no longer waited for is not taken, or is released with the others.
    pub async fn lock(
        &mut self,
        engine: &Engine,
        (space, key): (SpaceId, &[u8]),
        mode: LockMode,
        wait: LockWait,
    ) -> Result<bool> {
        self.check()?;
        if self.options.read_only {
            return Err(Error::ReadOnly);
        }
        self.all.resolve(engine).await;
        if !self.whole.contains(&space) {
            let key = LockKey { space, key: Some(key.into()) };
            if !self.locked.contains_key(&space) {
                if !self.take(LockKey { space, key: None }, LockMode::Shared, wait).await? {
                    return Ok(false);
                }
                self.locked.insert(space, 0);
            }
            if !self.take(key, mode, wait).await? {
                return Ok(false);
            }
            self.count_lock(space);
        }
        // A commit whose future was dropped has released its locks, and readers may not see it yet.
        let in_flight = self.all.history.lock().in_flight(space, key, engine.groups_end());
        if let Some(number) = in_flight {
            engine.see(number).await?;
        }
        let is_first_committer = mode == LockMode::Exclusive
            && self.options.isolation == Isolation::Snapshot
            && self.has_changed(space, key);
        match is_first_committer {
            true => Err(self.conflict("a key that it changes")),
            false => Ok(true),
        }
    }

    /// Locks all keys of a space; waits for it as [`Transaction::lock`] does.
    ///
    /// # Errors
    /// As of [`Transaction::lock`].
    pub async fn lock_space(&mut self, engine: &Engine, space: SpaceId) -> Result<()> {
        self.check()?;
        if self.options.read_only {
            return Err(Error::ReadOnly);
        }
        self.all.resolve(engine).await;
        if !self.whole.contains(&space) {
            let key = LockKey { space, key: None };
            self.take(key, LockMode::Exclusive, LockWait::Wait).await?;
            self.holds_space(space);
        }
        let in_flight = self.all.history.lock().in_flight_of(space, engine.groups_end());
        if let Some(number) = in_flight {
            engine.see(number).await?;
        }
        Ok(())
    }

    /// Whether a group that the read point does not see has changed a key; not so without a read point.
    #[must_use]
    pub fn has_changed(&self, space: SpaceId, key: &[u8]) -> bool {
        let since = self.point.as_ref().map(|point| point.groups_end());
        since.is_some_and(|since| self.all.history.lock().has_changed(space, key, since))
    }

    /// Whether a group that the read point does not see has changed a key of a range: from one on, and before another or to the last.
    #[must_use]
    pub fn has_range_changed(&self, space: SpaceId, from: &[u8], to: Option<&[u8]>) -> bool {
        let Some(point) = &self.point else { return false };
        let range = ReadRange { space, from: from.into(), to: to.map(Into::into) };
        self.all.history.lock().has_range_changed(&range, point.groups_end())
    }

    /// Takes a lock; tells whether it did, which is not so where it is to be skipped.
    async fn take(&mut self, key: LockKey, mode: LockMode, wait: LockWait) -> Result<bool> {
        /// Gives up waiting when the future is dropped.
        struct Waiting<'a>(&'a Transactions, TransactionId);
        impl Drop for Waiting<'_> {
            fn drop(&mut self) {
                self.0.locks.lock().give_up(self.1);
            }
        }
        #[cfg(feature = "canary")]
        if self.all.has_canary(Canary::LostLock) {
            return Ok(true);
        }
        if wait != LockWait::Wait {
            return match self.all.locks.lock().try_take(self.id, &key, mode) {
                true => Ok(true),
                false if wait == LockWait::Skip => Ok(false),
                false => Err(Error::LockNotAvailable),
            };
        }
        let answer = self.all.locks.lock().ask(self.id, &key, mode);
        let granted = match answer {
            Answer::Held => return Ok(true),
            Answer::Deadlock => Granted::Deadlock,
            Answer::Wait(receiver) => {
                self.all.counts.waits.fetch_add(1, Ordering::Relaxed);
                let _waiting = Waiting(&self.all, self.id);
                let granted = match self.options.lock_timeout {
                    None => receiver.await.ok(),
                    Some(timeout) => {
                        futures::select_biased! {
                            granted = receiver.fuse() => granted.ok(),
                            () = sleep(timeout).fuse() => None,
                        }
                    }
                };
                granted.ok_or(Error::LockNotAvailable)?
            }
        };
        match granted {
            Granted::Held => Ok(true),
            Granted::Deadlock => {
                self.all.counts.deadlocks.fetch_add(1, Ordering::Relaxed);
                Err(self.fail(Error::Deadlock))
            }
        }
    }

    /// Notes that one more key of a space is locked. Locks the space in the place of many of its keys, if nobody else has any.
    fn count_lock(&mut self, space: SpaceId) {
        let Some(count) = self.locked.get_mut(&space) else { return };
        *count += 1;
        if !count.is_multiple_of(KEYS_LOCKED_MAX) {
            return;
        }
        let key = LockKey { space, key: None };
        let is_taken = {
            let mut locks = self.all.locks.lock();
            // Some were locked several times.
            *count = locks.held_of(self.id, space);
            *count >= KEYS_LOCKED_MAX && locks.try_take(self.id, &key, LockMode::Exclusive)
        };
        if is_taken {
            self.holds_space(space);
        }
    }

    fn holds_space(&mut self, space: SpaceId) {
        self.whole.insert(space);
        self.locked.insert(space, 0);
        let of_key = |key: &LockKey| key.space == space && key.key.is_some();
        self.all.locks.lock().release(self.id, of_key);
    }

    /// Adds a modification, whose key is locked unless it is no other transaction's business.
    ///
    /// # Errors
    /// [`Error::ReadOnly`], [`Error::Failed`]; [`Error::TooLarge`], which ends the transaction.
    pub fn modify(&mut self, space: SpaceId, modification: Modification<'_>) -> Result<()> {
        self.check()?;
        if self.options.read_only {
            return Err(Error::ReadOnly);
        }
        // Scans may still have it, which then keep theirs.
        let draft = Arc::make_mut(&mut self.draft);
        draft.modify(space, modification);
        let most = self.options.memory_bytes;
        match draft.memory_bytes() > most {
            true => Err(self.fail(Error::TooLarge { most: most as u64 })),
            false => Ok(()),
        }
    }

    /// Sets a savepoint, to which [`Transaction::roll_back_to`] returns. A name may be used again: the last one counts.
    ///
    /// # Errors
    /// [`Error::Failed`].
    pub fn savepoint(&mut self, name: &str) -> Result<()> {
        self.check()?;
        let mark = Arc::make_mut(&mut self.draft).mark();
        self.savepoints.push((name.to_owned(), mark));
        Ok(())
    }

    /// Takes back what was changed after a savepoint, which stays, as locks do.
    ///
    /// # Errors
    /// [`Error::NoSavepoint`], [`Error::Failed`].
    pub fn roll_back_to(&mut self, name: &str) -> Result<()> {
        self.check()?;
        let place = self.place_of(name)?;
        self.savepoints.truncate(place + 1);
        if let Some((_, mark)) = self.savepoints.last() {
            Arc::make_mut(&mut self.draft).roll_back(*mark);
        }
        Ok(())
    }

    /// Forgets a savepoint and those after it; what was changed since stays.
    ///
    /// # Errors
    /// As of [`Transaction::roll_back_to`].
    pub fn release_savepoint(&mut self, name: &str) -> Result<()> {
        self.check()?;
        let place = self.place_of(name)?;
        self.savepoints.truncate(place);
        if self.savepoints.is_empty() {
            Arc::make_mut(&mut self.draft).forget_marks();
        }
        Ok(())
    }

    fn place_of(&self, name: &str) -> Result<usize> {
        let place = self.savepoints.iter().rposition(|(one, _)| one == name);
        place.ok_or_else(|| Error::NoSavepoint { name: name.to_owned() })
    }

    /// Commits: all changes are durable together when it returns, and transactions that begin then see them. The transaction has
    /// ended, whatever it returns.
    ///
    /// # Errors
    /// [`Error::Conflict`] where a serializable transaction has read what others changed meanwhile; [`Error::Failed`]; errors of
    /// the engine, of which [`moirai_update::Error::Stopped`] leaves open whether it is committed.
    ///
    /// # Cancel safety
    /// Dropped before the changes are in the log, the transaction goes on; after that it is committed.
    pub async fn commit(&mut self, engine: &Engine) -> Result<()> {
        self.check()?;
        let committed = self.commit_once(engine).await;
        // In this order: who gets the locks next sees the changes.
        self.end();
        self.failed = Some(ENDED.to_owned());
        committed
    }

    async fn commit_once(&mut self, engine: &Engine) -> Result<()> {
        if self.draft.is_empty() {
            return Ok(());
        }
        let all = Arc::clone(&self.all);
        let group = self.draft.group();
        if group.log_bytes() > engine.group_bytes_max() {
            let mut bulk = engine.bulk();
            bulk.add(&group).await?;
            return self.commit_unnumbered(engine, bulk).await;
        }
        let group = engine.prepare(&group).await?;
        let committing = all.committing.read().await;
        let reserved = engine.reserve_for(&group).await?;
        let appended = {
            let mut history = self.all.history.lock();
            if self.is_outdated(&history) {
                drop(history);
                return Err(self.conflict(READ));
            }
            let appended = reserved.append(&group)?;
            history.appended(appended.number(), self.modified());
            appended
        };
        drop(committing);
        // From here on it is committed, also where the future is dropped.
        self.failed = Some(ENDED.to_owned());
        appended.acknowledged_with(self.options.durability).await?;
        self.all.counts.committed.fetch_add(1, Ordering::Relaxed);
        self.all.history.lock().forget(engine.groups_end());
        Ok(())
    }

    /// Whether another transaction has changed what this one has read, where that matters.
    fn is_outdated(&self, history: &History) -> bool {
        let Some(point) = &self.point else { return false };
        if self.options.isolation != Isolation::Serializable {
            return false;
        }
        #[cfg(feature = "canary")]
        if self.all.has_canary(Canary::NoRanges) {
            let has_changed = |read: &ReadRange| {
                read.is_key() && history.has_range_changed(read, point.groups_end())
            };
            return self.reads.any(has_changed);
        }
        self.reads.any(|read| history.has_range_changed(read, point.groups_end()))
    }

    /// Commits changes that are too many for memory, instead of those that the transaction has: it has locked all of their spaces
    /// ([`Transaction::lock_space`]). The transaction has ended, whatever it returns.
    ///
    /// # Errors
    /// As of [`Transaction::commit`] and [`Bulk::commit`].
    pub async fn commit_bulk(&mut self, engine: &Engine, bulk: Bulk<'_>) -> Result<()> {
        self.check()?;
        let committed = self.commit_unnumbered(engine, bulk).await;
        self.end();
        self.failed = Some(ENDED.to_owned());
        committed
    }

    /// Commits a bulk group, whose number is not known before it is visible.
    async fn commit_unnumbered(&mut self, engine: &Engine, bulk: Bulk<'_>) -> Result<()> {
        /// A commit whose future may be dropped while the group is on its way.
        struct Unnumbered<'a>(&'a Transactions, TransactionId, Vec<Modified>);
        impl Drop for Unnumbered<'_> {
            fn drop(&mut self) {
                self.0.give_up(self.1, std::mem::take(&mut self.2));
            }
        }
        let all = Arc::clone(&self.all);
        // What a serializable transaction has read is to stay as it is until its group is visible.
        let is_serializable = self.options.isolation == Isolation::Serializable;
        let (_alone, _beside) = match is_serializable {
            true => (Some(all.committing.write().await), None),
            false => (None, Some(all.committing.read().await)),
        };
        let modified = self.modified();
        let is_outdated = {
            let mut history = all.history.lock();
            let is_outdated = self.is_outdated(&history);
            if !is_outdated {
                history.unnumbered(&modified);
            }
            is_outdated
        };
        if is_outdated {
            return Err(self.conflict(READ));
        }
        // From here on it may be committed, also where the future is dropped, which then leaves the locks to `give_up`.
        self.failed = Some(ENDED.to_owned());
        self.is_given_up = true;
        let mut unnumbered = Unnumbered(&all, self.id, modified);
        let committed = bulk.commit().await;
        let modified = std::mem::take(&mut unnumbered.2);
        std::mem::forget(unnumbered);
        self.is_given_up = false;
        let number = engine.groups_end().saturating_sub(1);
        all.history.lock().numbered(number, modified);
        all.counts.committed.fetch_add(u64::from(committed.is_ok()), Ordering::Relaxed);
        all.history.lock().forget(engine.groups_end());
        Ok(committed?)
    }

    /// The keys that it modifies, for the history.
    fn modified(&self) -> Vec<Modified> {
        let whole = self.whole.iter().map(|space| (*space, None));
        let keys = self.draft.keys().filter(|(space, _)| !self.whole.contains(space));
        whole.chain(keys.map(|(space, key)| (space, Some(key.into())))).collect()
    }

    /// Ends the transaction, since another one changed what both use.
    pub fn conflict(&mut self, what: &'static str) -> Error {
        self.all.counts.conflicts.fetch_add(1, Ordering::Relaxed);
        self.fail(Error::Conflict { what })
    }

    /// Rolls the transaction back: it has ended.
    pub fn roll_back(&mut self) {
        self.end();
        self.failed = Some("it was rolled back".to_owned());
    }

    /// Ends the transaction because of an error: others need not wait until it is rolled back.
    pub fn fail(&mut self, error: Error) -> Error {
        self.failed = Some(error.to_string());
        self.end();
        error
    }

    /// Begins it again after it has failed or was rolled back. It stays as old as it was: of a deadlock the youngest is ended.
    pub fn begin_again(&mut self) {
        self.end();
        if self.is_given_up {
            (self.id, self.is_given_up) = (self.all.next_id(), false);
        }
        self.failed = None;
    }

    /// Ends a statement of a transaction that reads what is committed: what it read is of no more interest.
    pub fn end_statement(&mut self) {
        if self.options.isolation == Isolation::ReadCommitted {
            self.point = None;
        }
    }

    fn end(&mut self) {
        if !self.is_given_up {
            self.all.locks.lock().release(self.id, |_| true);
        }
        self.locked.clear();
        self.whole.clear();
        self.draft = Arc::default();
        self.savepoints.clear();
        self.point = None;
        self.reads.clear();
    }
}

impl Drop for Transaction {
    fn drop(&mut self) {
        self.end();
    }
}
