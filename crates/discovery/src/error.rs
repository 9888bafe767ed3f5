//! What can go wrong while a device is looked at.

use moirai_units::BlockCount;

/// The result of looking at a device.
pub type Result<T> = std::result::Result<T, Error>;

/// Why a device could not be discovered.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The device failed.
    #[error(transparent)]
    Device(#[from] moirai_storage::Error),
    /// A device that only reads and writes.
    #[error("{device} answers no diagnostic commands: use `--method timing`")]
    NoDiagnostics {
        /// The device.
        device: String,
    },
    /// What a drive says of itself contradicts what else it says, or when it answers.
    #[error("{device} contradicts itself: {why}; `--method timing` goes without what it says")]
    Contradiction {
        /// The device.
        device: String,
        /// What it said.
        why: String,
    },
    /// A device that is not as long as it was when it was opened.
    #[error("{device} had {held} when it was opened, and says that it has {told}: open it again")]
    Resized {
        /// The device.
        device: String,
        /// When it was opened.
        held: BlockCount,
        /// Since then.
        told: BlockCount,
    },
    /// Whoever asked did not want to wait any longer.
    #[error("{device}: stopped before all was found; its cache is as it was")]
    Stopped {
        /// The device.
        device: String,
    },
    /// Reads of one block come at no regular times: it is no disk, others use it, or it is too small.
    #[error("{device}: no rotation shows in the times of its reads: {why}")]
    NoRotation {
        /// The device.
        device: String,
        /// What was seen, and what to do.
        why: String,
    },
}
