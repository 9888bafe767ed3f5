//! What can go wrong below the storage interface.

use std::io;
use std::path::PathBuf;

use moirai_units::{BlockCount, BlockRange, ByteCount};

use crate::{Occupant, ZoneProblem};

/// The result of an operation on a device.
pub type Result<T> = std::result::Result<T, Error>;

/// A failed operation on a device, or a device that cannot be opened. Each message names the device
/// or file, the place on it, and a remedy where the remedy is not obvious.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// A request that reaches past the end of the device.
    #[error("{device}: {blocks} {} past the end of the device, which has {capacity}", if blocks.count.0 == 1 { "is" } else { "reach" })]
    PastEnd {
        /// The device.
        device: String,
        /// The blocks asked for.
        blocks: BlockRange,
        /// The capacity of the device.
        capacity: BlockCount,
    },

    /// A request whose buffers do not fit its blocks.
    #[error("{device}: a request for {blocks} carries buffers of {buffers}")]
    BufferMismatch {
        /// The device.
        device: String,
        /// The blocks asked for.
        blocks: BlockRange,
        /// The length of the buffers.
        buffers: BlockCount,
    },

    /// The operating system refused or failed an operation.
    #[error("{device}: {action} at byte {offset} failed: {source}")]
    Io {
        /// The device.
        device: String,
        /// The action: "read", "write".
        action: &'static str,
        /// The offset, in bytes from the start of the device.
        offset: u64,
        /// The error of the operating system.
        source: io::Error,
    },

    /// A file that cannot be opened, created or flushed.
    #[error("{path}: {action} failed: {source}")]
    File {
        /// The file.
        path: PathBuf,
        /// The action.
        action: &'static str,
        /// The error of the operating system.
        source: io::Error,
    },

    /// A file that this process or another one has open.
    #[error("{path} is in use by {holder}")]
    InUse {
        /// The file.
        path: PathBuf,
        /// The process that has the file open, as far as the operating system tells.
        holder: String,
    },

    /// A device that is to be formatted and holds data.
    #[error(
        "{device} holds {occupant}, which would be lost: name a blank device, or overwrite this one with \
         --force"
    )]
    Occupied {
        /// The device.
        device: String,
        /// The data that the device holds.
        occupant: Occupant,
    },

    /// A write to a read-only device.
    #[error("{device} is read-only: make the device writable, or name another")]
    ReadOnly {
        /// The device.
        device: String,
    },

    /// An operation after a failed flush, or after a drive said that it may have lost writes.
    #[error(
        "{device} failed to flush earlier, or was reset or failed a write late, so writes may be lost: reopen the device and check its data"
    )]
    Latched {
        /// The device.
        device: String,
    },

    /// Blocks that do not match their checksums.
    #[error("{device}: {blocks} do not match their checksums")]
    Corrupt {
        /// The device.
        device: String,
        /// The first block that does not match.
        blocks: BlockRange,
    },

    /// Blocks of a volume in a stripe of which more units are gone than the volume survives.
    #[error("{device}: {blocks} {} lost, because {why}", if blocks.count.0 == 1 { "is" } else { "are" })]
    Lost {
        /// The volume.
        device: String,
        /// The lost blocks of the request.
        blocks: BlockRange,
        /// The devices that failed, or what else happened, and what to do.
        why: String,
    },

    /// A request that failed because another request of its batch failed.
    #[error("{problem}")]
    Together {
        /// The error of the other request.
        problem: String,
    },

    /// A zone that does not take a write or another command.
    #[error("{device}: zone {zone} {problem}")]
    Zone {
        /// The device.
        device: String,
        /// The zone's blocks.
        zone: BlockRange,
        /// Why not, and what to do.
        problem: ZoneProblem,
    },

    /// An operation outside any runtime.
    #[error(transparent)]
    NoRuntime(moirai_runtime::NoRuntime),

    /// A device whose task ended with the runtime that the device was opened in.
    #[error("{device} was opened in a runtime that has ended: open the device again")]
    RuntimeEnded {
        /// The device.
        device: String,
    },

    /// A device smaller than its use needs.
    #[error("{device} has {have}, but needs {need}: give a larger size")]
    TooSmall {
        /// The device.
        device: String,
        /// The size of the device.
        have: ByteCount,
        /// The size that the use needs.
        need: ByteCount,
    },

    /// A file that does not exist.
    #[error("there is no file {path}")]
    NoFile {
        /// The file.
        path: PathBuf,
    },

    /// A URI that names no device.
    #[error("`{uri}` names no device: {problem}")]
    Uri {
        /// The URI as given.
        uri: String,
        /// The problem and the remedy.
        problem: String,
    },

    /// A description file that is not valid.
    #[error("{path}: {problem}")]
    Description {
        /// The file.
        path: PathBuf,
        /// The problem, with the line where it is known.
        problem: String,
    },
}
