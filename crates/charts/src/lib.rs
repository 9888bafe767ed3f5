//! Pictures as SVG text: a drive at a glance, a volume's stripes, and response times side by side.
//!
//! A picture needs nothing but itself: no script, no style sheet, no font but `sans-serif`. It has a
//! light background of its own, scales to whatever width it is given, and may stand in a page beside
//! others: what it names, it names after what it is. Labels have room for the widest of usual fonts.

mod colours;
mod distributions;
mod drive;
mod plot;
mod scale;
mod svg;
mod text;
mod volume;

pub use distributions::distributions;
pub use drive::drive;
pub use volume::{Content, Stripe, Unit, stripes_to_draw, volume};
