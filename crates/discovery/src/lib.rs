//! Discovery: what a device is good at, from what it is asked and when it answers (thesis chapter 4).
//!
//! This crate sees commands, data and completion times, and nothing else: it does not depend on `models`.

mod array;
mod drive;
mod error;
mod extract;
mod layout;
mod map;
mod probe;
mod rotation;
mod sample;
mod throughput;
mod tracks;

pub use array::{Array, find_array};
pub use drive::Commands;
pub use error::{Error, Result};
pub use extract::{
    AfterNs, Bus, CacheField, CacheFields, CacheFound, DriveFound, Overheads, ReadAhead, Reported,
    SchedulerKind, SeekPoint, Step, extract, extract_until,
};
pub use layout::find_layout;
pub use map::{Annotated, TrackMap};
pub use rotation::Rotation;
pub use sample::{Angle, angles};
pub use throughput::{Preferences, Throughput, Writes, measure, measure_writes};
pub use tracks::{Progress, Tracks, find_tracks};
