//! The transactions of a store, and what they share.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use moirai_update::{Engine, ReadPoint};
use parking_lot::Mutex;

use crate::history::{History, Modified};
use crate::locks::{Locks, TransactionId};

/// What the transactions of an engine share. There is one for each engine: transactions of two do not know of each other.
#[derive(Debug, Default)]
pub struct Transactions {
    last: AtomicU64,
    pub(crate) locks: Mutex<Locks>,
    /// Locked while a group is validated and appended, so that groups come in the order in which they are validated.
    pub(crate) history: Mutex<History>,
    pub(crate) counts: Counts,
    /// Held for reading by commits, and for writing by those whose validation is to hold until their groups are visible.
    pub(crate) committing: tokio::sync::RwLock<()>,
    /// Bulk groups whose commits were given up: they may still come. Until that is known their transactions keep their locks.
    unresolved: Mutex<Vec<(TransactionId, Vec<Modified>)>>,
    has_unresolved: AtomicBool,
    #[cfg(feature = "canary")]
    canary: Mutex<Canary>,
}

/// What happened since the store was opened.
#[derive(Debug, Default)]
pub(crate) struct Counts {
    pub(crate) committed: AtomicU64,
    pub(crate) conflicts: AtomicU64,
    pub(crate) deadlocks: AtomicU64,
    pub(crate) waits: AtomicU64,
}

/// What transactions did since the store was opened, and what they hold now.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TransactionFigures {
    /// Transactions that committed changes.
    pub committed: u64,
    /// Transactions that failed because others had changed what they used.
    pub conflicts: u64,
    /// Transactions that were ended because of a deadlock.
    pub deadlocks: u64,
    /// Locks that were waited for.
    pub waits: u64,
    /// Locks that are held.
    pub locks: usize,
    /// Transactions that wait for a lock.
    pub waiting: usize,
    /// Groups whose keys are kept for validation.
    pub history_groups: usize,
}

/// A mistake on purpose.
#[cfg(feature = "canary")]
#[doc(hidden)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Canary {
    /// None.
    #[default]
    None,
    /// Who asks for a lock gets it, whoever holds it.
    LostLock,
    /// Validation takes the first group that a read point does not see for one that it sees.
    LatePoint,
    /// Validation looks at keys that were read one by one, and not at ranges.
    NoRanges,
}

/// A read point of a transaction.
#[derive(Debug)]
pub struct Point {
    point: ReadPoint,
    /// Who keeps the history of what comes after it.
    noted_by: Option<Arc<Transactions>>,
}

impl Transactions {
    /// Those of an engine that was just opened.
    #[must_use]
    pub fn new() -> Arc<Transactions> {
        Arc::default()
    }

    /// What happened so far.
    #[must_use]
    pub fn figures(&self) -> TransactionFigures {
        let Counts { committed, conflicts, deadlocks, waits } = &self.counts;
        let (locks, waiting) = {
            let locks = self.locks.lock();
            (locks.held(), locks.waiting())
        };
        TransactionFigures {
            committed: committed.load(Ordering::Relaxed),
            conflicts: conflicts.load(Ordering::Relaxed),
            deadlocks: deadlocks.load(Ordering::Relaxed),
            waits: waits.load(Ordering::Relaxed),
            locks,
            waiting,
            history_groups: self.history.lock().len(),
        }
    }

    pub(crate) fn next_id(&self) -> TransactionId {
        TransactionId(self.last.fetch_add(1, Ordering::Relaxed))
    }

    /// The commit of a bulk group was given up.
    pub(crate) fn give_up(&self, id: TransactionId, modified: Vec<Modified>) {
        self.unresolved.lock().push((id, modified));
        self.has_unresolved.store(true, Ordering::Release);
    }

    /// Waits until bulk groups whose commits were given up are there or not, and releases their locks.
    pub(crate) async fn resolve(&self, engine: &Engine) {
        if !self.has_unresolved.load(Ordering::Acquire) {
            return;
        }
        // Those alone: others may be given up while this waits, and their groups may still be on their way then.
        let known: Vec<TransactionId> = self.unresolved.lock().iter().map(|(id, _)| *id).collect();
        // A read point waits for bulk groups that are being committed.
        drop(engine.read_point().await);
        let number = engine.groups_appended() - 1;
        let mut unresolved = self.unresolved.lock();
        for (id, modified) in unresolved.extract_if(.., |(id, _)| known.contains(id)) {
            self.history.lock().numbered(number, modified);
            self.locks.lock().release(id, |_| true);
        }
        self.has_unresolved.store(!unresolved.is_empty(), Ordering::Release);
    }

    /// Begins a read point. It is `noted` where validation and the first committer's win need to know what comes after it.
    pub(crate) async fn begin_point(
        self: &Arc<Transactions>,
        engine: &Engine,
        noted: bool,
    ) -> Arc<Point> {
        self.resolve(engine).await;
        if !noted {
            let point = engine.read_point().await;
            return Arc::new(Point { point, noted_by: None });
        }
        /// Says that no read point was begun when the future is dropped.
        struct Beginning<'a>(&'a Transactions);
        impl Drop for Beginning<'_> {
            fn drop(&mut self) {
                self.0.history.lock().begun(None);
            }
        }
        self.history.lock().beginning();
        let beginning = Beginning(self);
        let point = engine.read_point().await;
        std::mem::forget(beginning);
        self.history.lock().begun(Some(point.groups_end()));
        Arc::new(Point { point, noted_by: Some(Arc::clone(self)) })
    }

    /// Makes a mistake from now on.
    #[cfg(feature = "canary")]
    #[doc(hidden)]
    pub fn set_canary(&self, canary: Canary) {
        *self.canary.lock() = canary;
    }

    #[cfg(feature = "canary")]
    pub(crate) fn has_canary(&self, canary: Canary) -> bool {
        *self.canary.lock() == canary
    }
}

impl Point {
    /// The read point.
    #[must_use]
    pub fn read_point(&self) -> &ReadPoint {
        &self.point
    }

    /// The number from which on it sees no groups.
    pub(crate) fn groups_end(&self) -> u64 {
        #[cfg(feature = "canary")]
        if self.noted_by.as_ref().is_some_and(|all| all.has_canary(Canary::LatePoint)) {
            return self.point.groups_end() + 1;
        }
        self.point.groups_end()
    }
}

impl Drop for Point {
    fn drop(&mut self) {
        if let Some(all) = &self.noted_by {
            all.history.lock().ended(self.point.groups_end());
        }
    }
}
