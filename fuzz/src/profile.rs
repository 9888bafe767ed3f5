//! The promises of a profile: its geometry's, and that it can be written and read back.

use moirai_models::Profile;

use crate::geometry;

/// Checks a profile that was found valid.
pub fn check(profile: &Profile) {
    geometry::check(&profile.geometry);
    let written = toml::to_string(&profile.file);
    let read = written.as_ref().map(|text| Profile::parse(text).map(|read| read.file));
    assert_eq!(read, Ok(Ok(profile.file.clone())), "as {written:?}");
}
