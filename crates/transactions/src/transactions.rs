//! The transactions of a store, and what they share.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use moirai_update::{Engine, ReadPoint};
use parking_lot::Mutex;

use crate::history::History;
use crate::locks::{Locks, TransactionId};
use crate::options::TransactionOptions;
use crate::transaction::Transaction;

/// What the transactions of an engine share. There is one for each engine: transactions of two do not know of each other.
#[derive(Debug, Default)]
pub struct Transactions {
    last: AtomicU64,
    pub(crate) locks: Mutex<Locks>,
    /// Locked while a group is validated and appended, so that groups come in the order in which they are validated.
    pub(crate) history: Mutex<History>,
    pub(crate) counts: Counts,
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
    all: Arc<Transactions>,
}

impl Transactions {
    /// Those of an engine that was just opened.
    #[must_use]
    pub fn new() -> Arc<Transactions> {
        Arc::default()
    }

    /// Begins a transaction. It reads nothing yet, and its read point begins with its first read.
    #[must_use]
    pub fn begin(self: &Arc<Transactions>, options: TransactionOptions) -> Transaction {
        let id = TransactionId(self.last.fetch_add(1, Ordering::Relaxed));
        Transaction::new(Arc::clone(self), id, options)
    }

    /// Begins a transaction that does again what `failed` was to do, and is as old: of a deadlock the youngest is ended.
    #[must_use]
    pub fn begin_again(self: &Arc<Transactions>, failed: &Transaction) -> Transaction {
        Transaction::new(Arc::clone(self), failed.id(), *failed.options())
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

    /// Begins a read point.
    pub(crate) async fn begin_point(self: &Arc<Transactions>, engine: &Engine) -> Arc<Point> {
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
        Arc::new(Point { point, all: Arc::clone(self) })
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
        if self.all.has_canary(Canary::LatePoint) {
            return self.point.groups_end() + 1;
        }
        self.point.groups_end()
    }
}

impl Drop for Point {
    fn drop(&mut self) {
        self.all.history.lock().ended(self.point.groups_end());
    }
}
