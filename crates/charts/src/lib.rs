//! Pictures as SVG text: a drive at a glance, a volume's stripes, response times side by side, rates over time.
//!
//! A picture is self-contained: no script, no style sheet, no font but `sans-serif`. It has a light background,
//! scales to any width, and can share a page with other pictures: equal identifiers in two pictures define equal
//! things. Labels have room for DejaVu Sans, the widest of the usual fonts.

mod colours;
mod distributions;
mod drive;
mod extents;
mod plot;
mod rates;
mod scale;
mod svg;
mod text;
mod volume;

pub use distributions::distributions;
pub use drive::drive;
pub use extents::{DrawnExtent, extents};
pub use rates::rates;
pub use volume::{Content, Stripe, Unit, stripes_to_draw, volume};
