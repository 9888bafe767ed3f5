//! What can go wrong in the update engine.

use moirai_storage::{Device, Occupant};
use moirai_units::{BlockRange, ByteCount};

use crate::ids::{KINDS_OF_PROGRAMS, KindNumber, SpaceId};

/// The result of an operation of the engine.
pub type Result<T> = std::result::Result<T, Error>;

/// A failed operation of the engine. A message about a device names the device, the place on the device if there is one,
/// and the remedy.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// A device failed.
    #[error(transparent)]
    Device(#[from] moirai_storage::Error),

    /// The engine takes no more modifications because writing the log or a sweep failed, or one of its tasks ended.
    #[error("{device} refuses modifications because {why}: fix the cause, then reopen the store")]
    Stopped {
        /// The data device.
        device: String,
        /// The failure.
        why: String,
    },

    /// The engine was opened with [`Options::read_only`](crate::Options::read_only).
    #[error("{device} is opened for reading only: open the store for writing to modify it")]
    ReadOnly {
        /// The data device.
        device: String,
    },

    /// A device that was not formatted.
    #[error("{device} holds {}", holds_instead(.holds.as_ref()))]
    NotFormatted {
        /// The device.
        device: String,
        /// The data that it holds, where that was looked for.
        holds: Option<Occupant>,
    },

    /// A device holds a store of another format version.
    #[error(
        "{device} holds a store of format {version}, and this program reads format {known}: use the \
         version of Moirai that created the store"
    )]
    Version {
        /// The device.
        device: String,
        /// The version on the device.
        version: u32,
        /// The version that this program reads and writes.
        known: u32,
    },

    /// Data and log belong to different stores, or a device is shorter or has other track boundaries than at creation.
    #[error(
        "{log} does not hold this part of the log of {data}: name the log devices that the store was created \
         with, in the same order"
    )]
    OtherLog {
        /// The log device.
        log: String,
        /// The data device.
        data: String,
    },

    /// Blocks do not hold the data that was written there.
    #[error(
        "{device}: {what} at {blocks} is damaged: restore the device from a backup (on a volume, look for a wrong disk first: \
         `moirai volume scrub --help`){}",
        what_else(what)
    )]
    Damaged {
        /// The device.
        device: String,
        /// The kind of data that the blocks should hold.
        what: &'static str,
        /// The blocks.
        blocks: BlockRange,
    },

    /// Durable modifications are missing from the log.
    #[error(
        "{device}: the log ends at {blocks}, but the durable frame {frame} that follows cannot be read: \
         restore the log devices from backups (on a volume, look for a wrong disk with `moirai volume scrub` first, and leave it \
         out with `volume fail`); or run `moirai store repair --drop --force-log-end` (in a program, \
         `Options::force_log_end`), which drops the modifications from that frame on, and \
         all else that `moirai store check` finds damaged"
    )]
    LogLost {
        /// The log device with the previous frame.
        device: String,
        /// The number of the unreadable frame.
        frame: u64,
        /// The segment of the previous frame.
        blocks: BlockRange,
    },

    /// A log device cannot be read where the log may continue after the last frame that was read.
    #[error(
        "{device} cannot be read at byte {offset}, where the log may continue with frame {frame}: repair the device, or \
         copy it to another one; or run `moirai store repair --drop --force-log-end` (in a program, \
         `Options::force_log_end`), which drops groups {group} and later, and all else that `moirai store check` finds damaged"
    )]
    LogUnreadable {
        /// The log device.
        device: String,
        /// The first byte that cannot be read.
        offset: u64,
        /// The number of the frame that may lie there.
        frame: u64,
        /// The number of the first group that may lie there.
        group: u64,
    },

    /// A modification is of a kind that was not registered.
    #[error(
        "modification kind {} is not registered: open the store with the program that wrote the modification",
        .number.0
    )]
    UnknownKind {
        /// The kind.
        number: KindNumber,
    },

    /// A space has a format that the engine was opened without.
    #[error(
        "blocks have format `{format}`, which this program does not know, or not with these parameters: open the store with the \
         program that created it"
    )]
    UnknownFormat {
        /// Its name.
        format: String,
    },

    /// The number of a kind is registered or reserved.
    #[error(
        "kind {} is already registered, or reserved: take another number of {} or more",
        .number.0, KINDS_OF_PROGRAMS.0
    )]
    KindTaken {
        /// The kind.
        number: KindNumber,
    },

    /// A modification names a space that does not exist.
    #[error("there is no space {}: create the space first", .space.0)]
    NoSpace {
        /// The space.
        space: SpaceId,
    },

    /// A key or a modification is too long for the blocks of the store.
    #[error(
        "a {what} of {have} bytes is too long: shorten it to {most} bytes, or create the store with larger blocks (`moirai kv --leaf`)"
    )]
    TooLong {
        /// Key, or modification.
        what: &'static str,
        /// Its length.
        have: usize,
        /// The longest allowed.
        most: usize,
    },

    /// Records that are ingested are not in ascending order of their keys, or two have the same key.
    #[error(
        "key `{}` does not come after key `{}` before it: sort the records by the bytes of their keys, with each key once",
        .key.escape_ascii(), .before.escape_ascii()
    )]
    Unsorted {
        /// The key.
        key: Box<[u8]>,
        /// The key before it.
        before: Box<[u8]>,
    },

    /// Records are ingested into a partition whose blocks cannot be read.
    #[error(
        "{device} holds blocks that cannot be read among the keys of the records: {why}; drop what is damaged with \
         `moirai store repair`, or load the records without --sorted"
    )]
    Unreadable {
        /// The data device.
        device: String,
        /// The failure.
        why: String,
    },

    /// A group is longer than the log allows.
    #[error(
        "a group of {have} is too long for the log, which takes {most}: split the group, or create the store with \
         a larger log"
    )]
    GroupTooLong {
        /// Its length in the log.
        have: ByteCount,
        /// The longest allowed.
        most: ByteCount,
    },

    /// A group is longer than the room that was reserved for it.
    #[error("a group of {have} does not fit the {most} that were reserved for it: reserve more")]
    RoomTooSmall {
        /// Its length in the log.
        have: ByteCount,
        /// What was reserved.
        most: ByteCount,
    },

    /// A part of a bulk group could not be written, or who wrote it was cancelled.
    #[error("a part of the bulk group was lost when writing it failed: begin another one")]
    BulkBroken,

    /// A bulk group modifies a key twice, and is to refuse that ([`Bulk::refuse_duplicates`](crate::Bulk::refuse_duplicates)).
    #[error("a bulk group has two modifications of a key of space {}, and was told to refuse that", .space.0)]
    DuplicateKey {
        /// The space.
        space: SpaceId,
        /// The key.
        key: Vec<u8>,
    },

    /// A long value was put twice, or into another store than it was written for, or writing it failed before.
    #[error(
        "a long value was put before, could not be written, or is of another store: write the value again for this put"
    )]
    LongValueUsed,

    /// A read point has ended, because what it kept on the device was wanted for something else.
    #[error(
        "{device}: the read point is too old: its versions took space or memory that modifications needed; begin \
         another one, or enlarge the device or the memory"
    )]
    PointTooOld {
        /// The data device.
        device: String,
    },

    /// An option is out of range, or does not fit the devices.
    #[error("{problem}")]
    Options {
        /// The problem and the remedy.
        problem: String,
    },

    /// The data device is full, and nothing of the group was taken in. Reads and deletes go on.
    #[error(
        "{device} is full: {capacity} for data are in use or reserved for sweeps: delete records, or enlarge the \
         device and reopen the store"
    )]
    Full {
        /// The data device.
        device: String,
        /// Its size, without the log.
        capacity: ByteCount,
    },
}

/// What a device holds in the place of a store.
fn holds_instead(holds: Option<&Occupant>) -> String {
    match holds {
        Some(occupant) => format!("{occupant}, and no key-value store"),
        None => "no key-value store (on a blank device `put`, `merge`, `load`, `batch` or `restore` creates one)".to_owned(),
    }
}

/// Without these a store is not opened: nothing else of it is checked or repaired.
pub(crate) const CHECKPOINT: &str = "the checkpoint of its partitions";
pub(crate) const SUPERBLOCK: &str = "the superblock";
pub(crate) const BULK_ENTRIES: &str = "the entries of a bulk group";
pub(crate) const FRAME: &str = "a frame of the log";

/// What can be done about damage beside a backup.
fn what_else(what: &str) -> &'static str {
    match what {
        CHECKPOINT | SUPERBLOCK | BULK_ENTRIES | FRAME => {
            "; without it nothing of the store can be read"
        }
        _ => {
            "; or list what else is damaged with `moirai store check`, and drop it with `moirai store repair`"
        }
    }
}

impl Error {
    pub(crate) fn other_log(data: &dyn Device, log: &dyn Device) -> Error {
        let name = |device: &dyn Device| device.inquiry().name.clone();
        Error::OtherLog { log: name(log), data: name(data) }
    }

    pub(crate) fn damaged(device: &dyn Device, what: &'static str, blocks: BlockRange) -> Error {
        Error::Damaged { device: device.inquiry().name.clone(), what, blocks }
    }

    pub(crate) fn full(device: &dyn Device) -> Error {
        let inquiry = device.inquiry();
        Error::Full { device: inquiry.name.clone(), capacity: inquiry.capacity.bytes() }
    }
}
