//! What can go wrong in the update engine.

use moirai_storage::Device;
use moirai_units::{BlockRange, ByteCount};

use crate::{KindNumber, SpaceId};

/// The result of an operation of the engine.
pub type Result<T> = std::result::Result<T, Error>;

/// A failed operation of the engine. Messages about devices name the device, where there is one the place on it, and what
/// to do.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// A device failed.
    #[error(transparent)]
    Device(#[from] moirai_storage::Error),

    /// The engine takes no more modifications because writing the log or a sweep failed, or one of its tasks ended.
    #[error(
        "{device} takes no more modifications, only reads: {why}; open it again once that is mended"
    )]
    Stopped {
        /// The data device.
        device: String,
        /// What failed.
        why: String,
    },

    /// There is no engine on a device.
    #[error("{device} holds no data of the update engine: format it, or name another")]
    NotFormatted {
        /// The device.
        device: String,
    },

    /// A device holds the data of another version.
    #[error("{device} was made by version {version} of the format, and this program knows {known}")]
    Version {
        /// The device.
        device: String,
        /// What it says.
        version: u32,
        /// What this program writes.
        known: u32,
    },

    /// Data and log are not of the same engine, or one of them is shorter or otherwise divided than it was.
    #[error(
        "{log} is not the log of {data}, or not in its place: name the devices that were formatted together, \
         in their order"
    )]
    OtherLog {
        /// The log device.
        log: String,
        /// The data device.
        data: String,
    },

    /// What was read is not what was written.
    #[error("{device}: {what} at {blocks} is damaged: bring back a copy of the device")]
    Damaged {
        /// The device.
        device: String,
        /// What should be there.
        what: &'static str,
        /// Where.
        blocks: BlockRange,
    },

    /// Modifications that were durable cannot be found in the log.
    #[error(
        "{device}: the log ends at {blocks}, and frame {frame} behind that was durable and cannot be read: what it \
         and later ones held is lost; bring back copies of the log's devices"
    )]
    LogLost {
        /// The log device that has the frame before.
        device: String,
        /// The frame's number.
        frame: u64,
        /// The segment that the frame before is in.
        blocks: BlockRange,
    },

    /// A modification is of a kind that was not registered.
    #[error("modification of kind {}, which is not registered: open with the program that made it", .number.0)]
    UnknownKind {
        /// The kind.
        number: KindNumber,
    },

    /// A kind's number is taken.
    #[error("kind {} is registered already, or below those of programs: take another number", .number.0)]
    KindTaken {
        /// The kind.
        number: KindNumber,
    },

    /// A modification is of a space that is not there.
    #[error("there is no space {}: create it first", .space.0)]
    NoSpace {
        /// The space.
        space: SpaceId,
    },

    /// A key or a modification is longer than blocks allow.
    #[error(
        "a {what} of {have} bytes: {most} are the most; shorten it, or make the store with larger blocks"
    )]
    TooLong {
        /// Key, or modification.
        what: &'static str,
        /// Its length.
        have: usize,
        /// The longest allowed.
        most: usize,
    },

    /// A group is longer than the log allows.
    #[error(
        "a group of {have}: the log has room for groups of {most}; divide it, or make the log larger"
    )]
    GroupTooLong {
        /// Its length in the log.
        have: ByteCount,
        /// The longest allowed.
        most: ByteCount,
    },

    /// What was asked for does not work out.
    #[error("{problem}")]
    Options {
        /// What is wrong, and what to write.
        problem: String,
    },

    /// There is no room on the data device. Sweeps find that out, and so it is why the engine is [`Error::Stopped`].
    #[error(
        "{device} is full: its {extents} extents are in use, but for some that snapshots need; make a store on a larger device, and load it there"
    )]
    Full {
        /// The data device.
        device: String,
        /// How many it has.
        extents: u32,
    },
}

impl Error {
    pub(crate) fn other_log(data: &dyn Device, log: &dyn Device) -> Error {
        let name = |device: &dyn Device| device.inquiry().name.clone();
        Error::OtherLog { log: name(log), data: name(data) }
    }
}
