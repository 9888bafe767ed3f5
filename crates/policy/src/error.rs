//! What can be wrong with a workload, a policy or a plan.

use std::path::PathBuf;

/// A workload, policy or plan that cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// A file that cannot be read or written.
    #[error("{action} {path}: {source}")]
    File {
        /// The file.
        path: PathBuf,
        /// What was done with it.
        action: &'static str,
        /// What the operating system said.
        source: std::io::Error,
    },
    /// A file that is not what it should be.
    #[error("{path}: {problem}")]
    Invalid {
        /// The file.
        path: PathBuf,
        /// What is wrong, and where.
        problem: String,
    },
    /// Parts that do not fit together.
    #[error("{0}")]
    Mismatch(String),
    /// An array without room for an object.
    #[error("{0}")]
    NoRoom(String),
    /// A device or volume that failed.
    #[error(transparent)]
    Device(#[from] moirai_storage::Error),
    /// Goals that no plan meets.
    #[error("{0}")]
    Impossible(String),
}

/// What functions of this crate return.
pub(crate) type Result<T> = std::result::Result<T, Error>;
