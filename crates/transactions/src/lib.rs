//! Transactions over the update engine: locks, validation and isolation levels, for keys of any spaces.
//!
//! A transaction is a list of modifications that nobody else sees (a [`moirai_update::Draft`]), a read point, and locks. It commits as
//! one group of the engine, so it is durable and visible whole or not at all. The crates above know what keys are: trees
//! (`moirai_btree::Transaction`) and rows of tables (`moirai_tables::Transaction`).
//!
//! ```text
//!  begin   read            modify              commit
//!          |               |                   |
//!          read point      lock of the key,    reserve room in the log; then, at one moment:
//!          + own draft     then the draft        compare what was read with the history, append the group;
//!                                              wait until it is durable and visible; release the locks
//! ```
//!
//! # Isolation
//!
//! - Groups have numbers, and readers see them in this order. A read point sees the groups before a number.
//! - *Writes* lock their keys until the group is visible: [`LockMode::Exclusive`], but for blind additions, which do not conflict
//!   with each other ([`LockMode::Shared`]). With [`Isolation::Snapshot`] who locks a key that has changed since the read point fails: first
//!   committer wins.
//! - *Reads* take no locks. A [`Isolation::Serializable`] transaction that changes something is validated when it commits: no group since its
//!   read point may have modified a key or a range that it read (optimistic validation, backwards). So what it read is
//!   still so when its group comes, and the order of groups is a serial order. A transaction that changes nothing reads a state
//!   between two groups, which is a place in that order: it is not validated.
//! - What is modified otherwise than by transactions, as by `Engine::commit`, is atomic and seen by transactions that begin after it. It takes
//!   no locks, and validation does not know of it.
//!
//! | file | subject |
//! |---|---|
//! | `locks` | the lock table: queues, deadlocks |
//! | `history` | which keys were modified lately |
//! | `reads` | what a transaction has read |
//! | `transactions` | what the transactions of a store share |
//! | `transaction` | a transaction |
//! | `options` | how it runs |

mod error;
mod history;
mod locks;
mod options;
mod reads;
mod transaction;
mod transactions;

pub use error::{Error, Result, sqlstate};
pub use locks::LockMode;
pub use options::{Isolation, LockWait, TransactionOptions};
pub use reads::{Reads, key_after};
pub use transaction::{Sight, Transaction};
#[cfg(feature = "canary")]
#[doc(hidden)]
pub use transactions::Canary;
pub use transactions::{Point, TransactionFigures, Transactions};
