//! What fuzz targets share: a mutation, and what is checked of what they have parsed.

mod disk;
mod geometry;
mod numbers;
mod profile;

pub use disk::serve;
pub use numbers::mutate as mutate_numbers;
pub use profile::check as check_profile;
