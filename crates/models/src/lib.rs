//! Pure device models and the analytic equations of the papers.
//!
//! A model is a state machine that is stepped with a time. It has no clock, does no I/O and draws
//! no random numbers: the same requests at the same times give the same completions.

pub mod analytic;
mod array_cache;
mod cache;
mod disk;
pub mod diskspecs;
mod electronics;
mod mechanics;
mod mems;
mod profile;
mod queue;
mod seek;
mod service;
mod ssd;

pub use array_cache::{ArrayCache, Full, LINE_BLOCKS, LineNumber, WritePolicy};
pub use disk::{CacheSwitches, Disk, DiskCompletion, DiskRequest, RequestId};
pub use electronics::{
    After, CacheSettings, Electronics, ExtraDisconnect, ImmediateReport, Overheads, ReadAhead,
};
pub use mechanics::{Mechanics, Positioning};
pub use mems::{
    Mems, MemsKind, MemsLayout, MemsPlace, MemsProfile, MemsProfileFile, Sled, built_in_mems_names,
};
pub use moirai_geometry::{
    BadPlace, Defects, Extent, Geometry, GeometryError, Place, Sparing, Track, TrackOrder, Zone,
};
pub use profile::{
    CacheFile, ExtraDisconnectFile, OverheadsFile, Profile, ProfileError, ProfileFile, ZoneFile,
    built_in_names, kind_of,
};
pub use queue::{Scheduler, UnknownScheduler};
pub use seek::{SeekCurve, SeekFormula};
pub use service::Direction;
pub use ssd::{Ssd, SsdCounters, SsdKind, SsdProfile, SsdProfileFile, built_in_ssd_names};
