//! Volumes: several devices as one, striped or in quadrangles (thesis 6.3), with or without
//! redundancy.
//!
//! A volume is itself a device, so that its ensembles and equivalence classes are answered through
//! the interface its own devices are asked through.

mod assemble;
mod attributes;
mod concatenation;
mod default_layout;
mod description;
mod discard;
mod exchange;
mod format;
mod found;
mod growth;
mod journal;
mod keeper;
mod label;
mod laid;
mod layout;
mod level;
mod members;
mod open;
mod pace;
mod parity;
mod pieces;
pub mod plan;
mod quadrangle;
mod rebuild;
mod ring;
mod route;
mod scrub;
mod serve;
mod shape;
mod slots;
mod stripe;
mod stripe_io;
mod sums;
mod tracks;
mod volume;
mod whole_units;
mod zones;

pub use assemble::{InspectedDisk, Inspection, assemble, inspect};
pub use concatenation::Concatenation;
pub use default_layout::{default_layout, has_switch};
pub use description::{
    ControllerTable, ControllerWrites, Description, LayoutDescription, Part, StripeUnit,
};
pub use exchange::{add_disks, replace};
pub use format::{Format, format};
pub use layout::{DiskIndex, Layout, Location, Place, StripeIndex};
pub use level::{Level, Role, Rotation};
pub use members::MemberState;
pub use open::{DevicesThere, lay_out, open_described, salvage};
pub use quadrangle::{QuadrangleDimensions, QuadrangleZone};
pub use scrub::Scrubbed;
pub use volume::Volume;
pub use whole_units::Repair;
pub use zones::{Zone, zones};
