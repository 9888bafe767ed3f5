//! What can go wrong with a transaction.

/// The result of an operation of a transaction.
pub type Result<T> = std::result::Result<T, Error>;

/// A failed operation of a transaction.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The engine failed or refused.
    #[error(transparent)]
    Engine(#[from] moirai_update::Error),

    /// Another transaction changed what this one read or changes, and committed first. The transaction ended.
    #[error(
        "could not serialize access: {what} was changed by a transaction that committed meanwhile; run the transaction again"
    )]
    Conflict {
        /// What both used.
        what: &'static str,
    },

    /// Transactions waited for each other, and this one was chosen to end. It ended.
    #[error(
        "deadlock: this transaction and others waited for each other, and it is the youngest; run it again, and let all \
         transactions lock rows in the same order"
    )]
    Deadlock,

    /// A lock was not granted in time, or at once where waiting was not wanted.
    #[error("a lock is held by another transaction: run this again once that has ended")]
    LockNotAvailable,

    /// The transaction has failed before.
    #[error("the transaction has failed ({why}): roll it back; nothing else is done in it")]
    Failed {
        /// How it failed.
        why: String,
    },

    /// A transaction that only reads was to change something.
    #[error("the transaction is read-only: begin one that may write")]
    ReadOnly,

    /// There is no such savepoint.
    #[error("there is no savepoint `{name}` in this transaction")]
    NoSavepoint {
        /// Its name.
        name: String,
    },

    /// The modifications of a transaction do not fit into its memory.
    #[error(
        "the transaction changes more than {most} bytes of memory hold: divide it, or give it more memory"
    )]
    TooLarge {
        /// What it may take.
        most: u64,
    },
}

impl Error {
    /// Whether the same transaction may succeed when it is run again.
    #[must_use]
    pub fn is_retryable(&self) -> bool {
        use moirai_update::Error::PointTooOld;
        matches!(self, Error::Conflict { .. } | Error::Deadlock | Error::Engine(PointTooOld { .. }))
    }

    /// The SQLSTATE, as PostgreSQL has it.
    #[must_use]
    pub fn sqlstate(&self) -> &'static str {
        match self {
            Error::Conflict { .. } => "40001",
            Error::Deadlock => "40P01",
            Error::LockNotAvailable => "55P03",
            Error::Failed { .. } => "25P02",
            Error::ReadOnly => "25006",
            Error::NoSavepoint { .. } => "3B001",
            Error::TooLarge { .. } => "54000",
            Error::Engine(error) => sqlstate(error),
        }
    }
}

/// The SQLSTATE of an error of the engine.
#[must_use]
pub fn sqlstate(error: &moirai_update::Error) -> &'static str {
    use moirai_update::Error;
    match error {
        Error::ReadOnly { .. } => "25006",
        Error::PointTooOld { .. } => "72000",
        Error::Full { .. } => "53100",
        Error::GroupTooLong { .. } | Error::TooLong { .. } => "54000",
        Error::DuplicateKey { .. } => "23505",
        Error::Damaged { .. } => "XX001",
        _ => "58030",
    }
}
