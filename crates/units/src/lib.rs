//! Newtypes for addresses, lengths and times: the words every other crate speaks in.

mod address;
mod place;
mod size;
mod text;
mod time;

pub use address::{BLOCK_BYTES, BlockCount, BlockRange, Lbn};
pub use place::Location;
pub use size::{ByteCount, ParseSizeError};
pub use text::{grouped, grouped_decimals};
pub use time::{Instant, Nanos, ServiceParts};
