//! What can go wrong in a command of `cargo xtask`.

use std::io;
use std::path::PathBuf;
use std::process::ExitStatus;

#[derive(Debug, thiserror::Error)]
pub(crate) enum Error {
    #[error("cannot read {}: {source}", path.display())]
    Read { path: PathBuf, source: io::Error },

    #[error("cannot start `{command}`: {source}")]
    Start { command: String, source: io::Error },

    #[error("`{command}` failed with {status}")]
    Failed { command: String, status: ExitStatus },

    #[error("tidy found {violation_count} violation(s), listed above")]
    Untidy { violation_count: usize },
}
