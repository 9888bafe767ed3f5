//! Volumes: several devices as one, striped or in quadrangles (thesis 6.3), with or without
//! redundancy.
//!
//! A volume is itself a device, so that its ensembles and equivalence classes are answered through
//! the interface its own devices are asked through.

mod assemble;
mod attributes;
mod description;
mod journal;
mod keeper;
mod label;
mod layout;
mod level;
mod members;
mod parity;
mod pieces;
pub mod plan;
mod quadrangle;
mod rebuild;
mod section;
mod slots;
mod stripe;
mod stripe_io;
mod tracks;
mod volume;
mod zones;

pub use assemble::{Format, assemble, format, replace};
pub use description::{
    ControllerTable, ControllerWrites, Description, LayoutDescription, StripeUnit,
};
pub use layout::{DiskIndex, Layout, Location, Place, StripeIndex};
pub use level::{Level, Role, Rotation};
pub use members::MemberState;
pub use quadrangle::{QuadrangleDimensions, QuadrangleZone};
pub use volume::{Volume, open, open_described};
pub use zones::{Zone, zones};
