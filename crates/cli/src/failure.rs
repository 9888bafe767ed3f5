//! How a command fails: what it says, and its exit status.

/// A failed command.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Failure {
    #[error(transparent)]
    Discovery(#[from] moirai::discovery::Error),
    #[error(transparent)]
    Device(#[from] moirai::storage::Error),
    #[error(transparent)]
    Trees(#[from] moirai::btree::Error),
    #[error(transparent)]
    Tables(#[from] moirai::tables::Error),
    #[error(transparent)]
    Sql(#[from] moirai_sql::Error),
    #[error(transparent)]
    Lab(#[from] moirai_lab::Failure),
    #[error(transparent)]
    Trace(#[from] moirai_replay::trace::TraceError),
    #[error(transparent)]
    Replay(#[from] moirai_replay::ReplayError),
    #[error(transparent)]
    Policy(#[from] moirai_policy::Error),
    #[error("{0}")]
    Usage(String),
    #[error("{0}")]
    Failed(String),
    /// The reader of the output has gone.
    #[error("the output is closed")]
    BrokenPipe,
    /// The user pressed Ctrl-C.
    #[error("{0}")]
    Interrupted(String),
}

/// The outcome of a check whose findings were printed: it counts though nobody reads them to the end.
pub(crate) fn verdict(
    printed: Result<(), Failure>,
    verdict: Result<(), Failure>,
) -> Result<(), Failure> {
    match printed {
        Ok(()) | Err(Failure::BrokenPipe) => verdict,
        failed => failed,
    }
}

impl Failure {
    /// The exit status: 2 when the command was not understood and nothing was done, 130 when it was interrupted, 1
    /// when it failed.
    pub(crate) fn status(&self) -> u8 {
        let is_usage = match self {
            Failure::Usage(_) | Failure::Device(moirai::storage::Error::Uri { .. }) => true,
            Failure::Trees(moirai::btree::Error::Update(moirai::update::Error::Device(error))) => {
                matches!(error, moirai::storage::Error::Uri { .. })
            }
            Failure::Sql(error) => error.is_usage(),
            _ => false,
        };
        match self {
            // As a shell reports a command that SIGINT ended.
            Failure::Interrupted(_) => 130,
            _ if is_usage => 2,
            _ => 1,
        }
    }
}

impl From<moirai_replay::ReplayFailure> for Failure {
    fn from(failure: moirai_replay::ReplayFailure) -> Failure {
        match failure {
            moirai_replay::ReplayFailure::Replay(error) => error.into(),
            moirai_replay::ReplayFailure::Output(error) => error.into(),
        }
    }
}

impl From<std::io::Error> for Failure {
    fn from(error: std::io::Error) -> Failure {
        if error.kind() == std::io::ErrorKind::BrokenPipe {
            return Failure::BrokenPipe;
        }
        Failure::Failed(error.to_string())
    }
}
