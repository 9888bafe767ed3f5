//! Host-managed zones, whose blocks can only be written in order (ZBC-2 of shingled disks, ZNS of flash).

use std::fmt;

use futures::future::BoxFuture;
use moirai_units::{BlockRange, Lbn};

use crate::{IoBuf, Result};

/// What a zone takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ZoneKind {
    /// Writes anywhere, as on other devices.
    Conventional,
    /// Writes at the write pointer alone.
    Sequential,
}

/// The condition of a zone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ZoneCondition {
    /// A conventional zone has no write pointer, and nothing to open.
    NotWritePointer,
    /// Nothing was written since it was reset.
    Empty,
    /// Open since it was written; the device closes it where it needs its place.
    ImplicitlyOpen,
    /// Open until the host closes it.
    ExplicitlyOpen,
    /// Partly written, and not open.
    Closed,
    /// To be reset before it is written again.
    Full,
}

impl ZoneCondition {
    /// Whether it takes one of the places for open zones.
    #[must_use]
    pub fn is_open(self) -> bool {
        matches!(self, ZoneCondition::ImplicitlyOpen | ZoneCondition::ExplicitlyOpen)
    }

    /// Whether it takes one of the places for active zones.
    #[must_use]
    pub fn is_active(self) -> bool {
        self.is_open() || self == ZoneCondition::Closed
    }
}

/// A zone as it is now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ZoneReport {
    /// Its blocks.
    pub blocks: BlockRange,
    /// What it takes.
    pub kind: ZoneKind,
    /// How it is.
    pub condition: ZoneCondition,
    /// Where it is written next; its end when it is full, and its first block where that means nothing.
    pub write_pointer: Lbn,
}

/// How many zones may be written at a time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ZoneLimits {
    /// Zones that are open.
    pub open: u32,
    /// Zones that are open or closed; `None` for any number, as on disks.
    pub active: Option<u32>,
}

/// What can be done with a zone as a whole.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ZoneAction {
    /// Take a place for open zones, until it is closed.
    Open,
    /// Give the place back.
    Close,
    /// Be full, whatever was written.
    Finish,
    /// Be empty; what was written is gone.
    Reset,
}

impl fmt::Display for ZoneAction {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            ZoneAction::Open => "open",
            ZoneAction::Close => "close",
            ZoneAction::Finish => "finish",
            ZoneAction::Reset => "reset",
        })
    }
}

/// Why a zone refused a command.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ZoneProblem {
    /// ZBC's UNALIGNED WRITE COMMAND, ZNS's Zone Invalid Write.
    #[error("is written at {write_pointer} next: write there, or reset it")]
    NotAtWritePointer {
        /// Where it is written next.
        write_pointer: Lbn,
    },
    /// ZBC's WRITE BOUNDARY VIOLATION, ZNS's Zone Boundary Error.
    #[error("ends at {end}, which the write crosses: divide it there")]
    PastEnd {
        /// The zone's end.
        end: Lbn,
    },
    /// ZNS's Zone Is Full.
    #[error("is full: reset it")]
    Full,
    /// ZBC's INSUFFICIENT ZONE RESOURCES, ZNS's Too Many Open Zones.
    #[error("cannot be opened, as {most} zones are open, which is the most: close one")]
    TooManyOpen {
        /// The most.
        most: u32,
    },
    /// ZNS's Too Many Active Zones.
    #[error(
        "cannot be begun, as {most} zones are partly written, which is the most: finish or reset one"
    )]
    TooManyActive {
        /// The most.
        most: u32,
    },
    /// ZNS's Invalid Zone State Transition.
    #[error("cannot be changed so: {action} a {condition:?} zone")]
    Transition {
        /// What was asked for.
        action: ZoneAction,
        /// How it is.
        condition: ZoneCondition,
    },
    /// A command for zones with write pointers.
    #[error("is conventional, and has no write pointer")]
    Conventional,
    /// A command that names a zone by another block than its first.
    #[error("is to be named by its first block")]
    NotFirst,
}

/// The commands of a device with zones.
///
/// Reads are as elsewhere, also over the ends of zones; from a write pointer to the end of its zone they give zeros. Writes that a
/// zone does not take are [`Error::Zone`](crate::Error::Zone) and change nothing.
///
/// # Cancel safety
/// A write or append whose future is dropped may have moved the write pointer without having written.
pub trait Zoned: Send + Sync {
    /// How many zones may be written at a time.
    fn zone_limits(&self) -> ZoneLimits;

    /// The zone around `lbn` (REPORT ZONES). Zones tile the device.
    ///
    /// # Errors
    /// A block past the end of the device.
    fn zone(&self, lbn: Lbn) -> Result<ZoneReport>;

    /// Writes at the write pointer of the zone that begins with `first`; gives the place (Zone Append).
    ///
    /// # Errors
    /// As of a write.
    fn append(&self, first: Lbn, data: IoBuf) -> BoxFuture<'_, Result<Lbn>>;

    /// Changes the zone that begins with `first`, to which no write is in flight. A zone already in that condition does not change.
    ///
    /// # Errors
    /// [`Error::Zone`](crate::Error::Zone) where the standards refuse it.
    fn manage(&self, first: Lbn, action: ZoneAction) -> BoxFuture<'_, Result<()>>;
}
