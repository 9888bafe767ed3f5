//! The storage interface: block access annotated with performance attributes.
//!
//! This is appendix B of the thesis in Rust. A [`Device`] is a linear space of blocks that can be
//! read and written, and that says what it is good at: which runs of blocks are best accessed whole
//! ([`Device::ensemble`]), which blocks can be accessed together ([`Device::equivalent`]). Every
//! layer above speaks to the one below through this interface only, and knows no kind of device.

mod attributes;
mod buffer;
pub mod conformance;
mod device;
mod diagnostics;
mod error;
mod metered;
mod occupant;
mod request;
mod section;
mod uri;
mod zones;

pub use attributes::{Ensemble, EquivalenceClass, Inquiry};
pub use buffer::IoBuf;
pub use device::{Completions, Device, Discarded, Flushed};
pub use diagnostics::{
    Answer, CachePage, CachePages, Defect, DefectLists, Diagnostics, Located, Sector,
};
pub use error::{Error, Result};
pub use metered::{Meter, Metered};
pub use occupant::{Occupant, clear_ends, occupant, occupants, usurper};
pub use request::{Completion, Op, Request, Timing};
pub use section::{Section, SectionBlocks};
pub use uri::DeviceUri;
pub use zones::{ZoneAction, ZoneCondition, ZoneKind, ZoneLimits, ZoneProblem, ZoneReport, Zoned};
