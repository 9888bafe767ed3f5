//! Pure device models and the analytic equations of the papers.
//!
//! A model is a state machine that is stepped with a time. It has no clock, does no I/O and draws
//! no random numbers: the same requests at the same times give the same completions.

pub mod analytic;
mod disk;
mod geometry;
mod mechanics;
mod profile;
mod service;

pub use disk::{Disk, DiskCompletion, DiskRequest, RequestId, Scheduler};
pub use geometry::{Geometry, Track, Zone};
pub use mechanics::{Mechanics, SeekCurve};
pub use profile::{Profile, ProfileError, built_in_names};
pub use service::Direction;
