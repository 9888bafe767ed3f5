//! What can go wrong below the storage interface.

use std::io;
use std::path::PathBuf;

use moirai_units::{BlockCount, BlockRange, ByteCount};

/// The result of an operation on a device.
pub type Result<T> = std::result::Result<T, Error>;

/// A failed operation on a device, or a device that cannot be had. Each message names the device
/// or file, the place on it, and what to do where that is not plain.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// Blocks that the device does not have.
    #[error("{device}: {blocks} reach past the end of the device, which has {capacity}")]
    PastEnd {
        /// The device.
        device: String,
        /// The blocks asked for.
        blocks: BlockRange,
        /// What the device has.
        capacity: BlockCount,
    },

    /// A request whose buffers do not fit its blocks.
    #[error("{device}: a request for {blocks} carries buffers of {buffers}")]
    BufferMismatch {
        /// The device.
        device: String,
        /// The blocks asked for.
        blocks: BlockRange,
        /// What its buffers hold.
        buffers: BlockCount,
    },

    /// The operating system refused or failed an operation.
    #[error("{device}: {action} at byte {offset} failed: {source}")]
    Io {
        /// The device.
        device: String,
        /// What was tried: "read", "write".
        action: &'static str,
        /// Where, in bytes from the start of the device.
        offset: u64,
        /// What the operating system said.
        source: io::Error,
    },

    /// A file that cannot be opened, made or flushed.
    #[error("{path}: {action} failed: {source}")]
    File {
        /// The file.
        path: PathBuf,
        /// What was tried.
        action: &'static str,
        /// What the operating system said.
        source: io::Error,
    },

    /// A file that is open already, here or in another process.
    #[error("{path} is in use: by another process, or because it is named twice")]
    InUse {
        /// The file.
        path: PathBuf,
    },

    /// A write to a device that takes none.
    #[error("{device} is read-only: make it writable, or name another")]
    ReadOnly {
        /// The device.
        device: String,
    },

    /// An operation after a failed flush: what was written before it may be lost.
    #[error("{device} failed to flush earlier, so writes may be lost: reopen it and check")]
    Latched {
        /// The device.
        device: String,
    },

    /// Blocks that are not what was written there.
    #[error("{device}: {blocks} are not what was written there: the checksum is another")]
    Corrupt {
        /// The device.
        device: String,
        /// The first that is wrong.
        blocks: BlockRange,
    },

    /// Blocks of a volume that more devices have failed for than it can bear.
    #[error(
        "{device}: {blocks} are lost, because {failed} failed: bring one of these back, or write the \
         blocks anew"
    )]
    Lost {
        /// The volume.
        device: String,
        /// What is lost, of what was asked for.
        blocks: BlockRange,
        /// The devices that failed.
        failed: String,
    },

    /// A request that was carried out together with another of its batch, and failed as that did.
    #[error("{problem}")]
    Together {
        /// What happened.
        problem: String,
    },

    /// A device smaller than its use needs.
    #[error("{device} has {have}, and {need} are needed: give a larger size")]
    TooSmall {
        /// The device.
        device: String,
        /// What it has.
        have: ByteCount,
        /// What is needed.
        need: ByteCount,
    },

    /// A URI that names no device.
    #[error("`{uri}` names no device: {problem}")]
    Uri {
        /// The URI as given.
        uri: String,
        /// What is wrong and what to write.
        problem: String,
    },

    /// A description file that is not valid.
    #[error("{path}: {problem}")]
    Description {
        /// The file.
        path: PathBuf,
        /// What is wrong: with the line, where it is known.
        problem: String,
    },
}
