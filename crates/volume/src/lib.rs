//! Volumes: several devices as one, striped or in quadrangles (thesis 6.3).
//!
//! A volume is itself a device, so that its ensembles and equivalence classes are answered through
//! the interface its own devices are asked through.

mod description;
mod layout;
mod quadrangle;
mod stripe;
mod volume;
mod zones;

pub use description::{
    ControllerTable, ControllerWrites, Description, LayoutDescription, StripeUnit,
};
pub use layout::{DiskIndex, Layout, Location};
pub use quadrangle::{Quadrangle, QuadrangleDimensions};
pub use stripe::Stripe;
pub use volume::{Volume, open, open_described};
pub use zones::{ZoneRun, zone_runs};
