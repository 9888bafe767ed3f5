//! Block I/O traces: reading them, replaying them, and validating simulated drives against them.

mod array;
mod engine;
pub mod fit;
mod summary;
mod target;
pub mod trace;
pub mod validate;

pub use array::{Array, DriveSection, Rebuilt};
pub use engine::{Options, ReplayError, ReplayFailure, Replayed, replay, stack};
pub use summary::Summary;
pub use target::{Devices, Done, Drives, Target, Ticket};
