//! The allocator of a device: runs of blocks of any length, which keep to the device's attributes.
//!
//! An [`Extent`] is a run of blocks in use, in whole grains. Dropped, it is free, and joins the free runs beside it. The
//! allocator is in memory alone: who owns an extent writes down where it is, and takes it again with [`Extents::take_this`]
//! after an opening.
//!
//! Crossing the boundary of an ensemble costs a disk the time of a head switch or more. An extent begins with the next ensemble
//! where that costs less ([`Ensembles`]), unless no free run allows it.
//!
//! Where a device has equivalence classes, what is to be accessed together takes [`Rows`] of a [`Region`].

mod ensembles;
mod extents;
mod regions;
mod rows;

pub use ensembles::Ensembles;
pub use extents::{Extent, Extents, tree_bytes};
pub use regions::{Region, region_at};
pub use rows::Rows;
