//! What fuzz targets share: mutations, and what is checked of what they have parsed.

mod disk;
mod geometry;
mod profile;
mod text;

pub use disk::serve;
pub use profile::check as check_profile;
pub use text::mutate as mutate_text;
