//! How a transaction is isolated from others, and how it waits.

use moirai_units::Nanos;
use moirai_update::Durability;

/// What a transaction sees of others that run at the same time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Isolation {
    /// Each read sees what was committed before it began. Two reads may see different states.
    ReadCommitted,
    /// All reads see one state, that of the first. A transaction that changes a key which another changed and committed since
    /// then fails (first committer wins).
    Snapshot,
    /// As if the transactions ran one after another, in the order of their commits. A transaction that changes something fails
    /// at its commit if what it read has changed since.
    #[default]
    Serializable,
}

/// How a transaction is to run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TransactionOptions {
    /// What it sees of others.
    pub isolation: Isolation,
    /// Whether it only reads: it takes no locks, waits for nobody and does not fail, but for the age of what it reads.
    pub read_only: bool,
    /// How long it waits for a lock; as long as it takes where it is `None`.
    pub lock_timeout: Option<Nanos>,
    /// How durable it is once its commit returns, if that is to be more than [`moirai_update::Options::durability`].
    pub durability: Durability,
    /// Bytes of memory that its modifications may take.
    pub memory_bytes: usize,
}

/// Bytes of memory for the modifications of a transaction, if it does not ask for another amount.
const MEMORY_BYTES: usize = 64 << 20;

impl Default for TransactionOptions {
    fn default() -> TransactionOptions {
        TransactionOptions {
            isolation: Isolation::default(),
            read_only: false,
            lock_timeout: None,
            durability: Durability::Written,
            memory_bytes: MEMORY_BYTES,
        }
    }
}

impl TransactionOptions {
    /// One of this isolation, and otherwise the default.
    #[must_use]
    pub fn of(isolation: Isolation) -> TransactionOptions {
        TransactionOptions { isolation, ..TransactionOptions::default() }
    }
}

/// What to do about a lock that another transaction holds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum LockWait {
    /// Wait for it, up to [`TransactionOptions::lock_timeout`].
    #[default]
    Wait,
    /// Fail at once with [`Error::LockNotAvailable`](crate::Error::LockNotAvailable).
    NoWait,
    /// Go on without it.
    Skip,
}
