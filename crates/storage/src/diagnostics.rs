//! What a drive answers besides reads and writes. Discovery alone asks it (thesis 4.1, 4.2).

use futures::future::BoxFuture;
use moirai_units::{BlockCount, Lbn, Location};

use crate::{Result, Timing};

/// The future of a diagnostic command.
pub type Answer<'a, T> = BoxFuture<'a, Result<T>>;

/// The commands of a drive that tells where its blocks lie, in SCSI's words.
///
/// Each takes as long as the drive needs for it. None changes data.
pub trait Diagnostics: Send + Sync {
    /// Blocks of the drive (READ CAPACITY).
    fn capacity(&self) -> Answer<'_, BlockCount>;

    /// Where `lbn` lies (SEND and RECEIVE DIAGNOSTIC, translate page).
    ///
    /// # Errors
    /// A block that the drive does not have.
    fn locate(&self, lbn: Lbn) -> Answer<'_, Located>;

    /// What lies at a place (the same page, the other way round). `None` where the drive has no such place.
    fn sector(&self, at: Location) -> Answer<'_, Option<Sector>>;

    /// The bad places that the drive knows (READ DEFECT DATA, both lists, in physical form).
    fn defects(&self) -> Answer<'_, DefectLists>;

    /// How the cache is set, and what of that can be changed (MODE SENSE, caching page).
    fn cache(&self) -> Answer<'_, CachePages>;

    /// Sets the cache until the drive is switched off (MODE SELECT, caching page). Fields that cannot be changed
    /// must be as they are.
    fn set_cache(&self, page: CachePage) -> Answer<'_, ()>;

    /// Moves the arm over the track of `lbn` (SEEK).
    fn seek(&self, lbn: Lbn) -> Answer<'_, Timing>;
}

/// A block's place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Located {
    /// The place.
    pub location: Location,
    /// The block was moved there, to a spare, from where its number says (`ALTSEC`, `ALTTRK`).
    pub is_moved: bool,
}

/// What a place is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sector {
    /// It holds a block.
    Block(Lbn),
    /// It holds none: a spare, a bad sector, or the drive's own (`RAREA`).
    Reserved,
}

/// The bad places of a drive.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DefectLists {
    /// Found at the factory (`PLIST`).
    pub primary: Vec<Defect>,
    /// Found since (`GLIST`).
    pub grown: Vec<Defect>,
}

/// A bad place: a sector, or a track.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Defect {
    /// Cylinder, counted from the rim.
    pub cylinder: u32,
    /// Head.
    pub head: u32,
    /// The sector; `None` when all of the track is bad.
    pub sector: Option<u32>,
}

/// The caching page, and which of its fields can be changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CachePages {
    /// As it is.
    pub current: CachePage,
    /// `reads` can be changed.
    pub can_set_reads: bool,
    /// `writes` can be changed.
    pub can_set_writes: bool,
    /// `read_ahead_blocks` can be changed.
    pub can_set_read_ahead: bool,
}

/// How a drive uses its cache.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CachePage {
    /// Reads may be answered from the cache (`RCD` is clear).
    pub reads: bool,
    /// Writes may be complete when their data are in the cache (`WCE` is set).
    pub writes: bool,
    /// Blocks to read ahead at most (maximum pre-fetch); 65,535 for as many as the drive likes.
    pub read_ahead_blocks: u16,
}
