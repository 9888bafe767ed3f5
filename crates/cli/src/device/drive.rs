//! Drives that commands read, show and change: a profile by name or from a file, with its notes.

use std::path::Path;

use moirai::devices::import;
use moirai::storage::DeviceUri;
use moirai_models::ProfileFile;
use serde::Serialize;

use crate::failure::Failure;
use crate::output;

/// A drive's profile, with notes for the user.
pub(super) struct Drive {
    pub(super) profile: ProfileFile,
    pub(super) notes: Vec<String>,
    /// Whether the drive's file leaves the bus rate open, so that a rate was assumed.
    pub(super) bus_assumed: bool,
}

/// The drive that a `sim:` URI without parameters names.
pub(super) fn named(uri: &str) -> Result<Drive, Failure> {
    let parsed: DeviceUri = uri.parse()?;
    if parsed.scheme != "sim" {
        let problem = format!("`{uri}` is not a simulated drive: name one as sim:PROFILE");
        return Err(Failure::Usage(problem));
    }
    parsed.finish()?;
    let drive = moirai::devices::drive(&parsed)?;
    Ok(Drive { profile: drive.profile.file, notes: drive.notes, bus_assumed: drive.bus_assumed })
}

/// The drive of DiskSim's parameter file `path`; `name` says which, where there are several.
pub(super) fn imported(path: &Path, name: Option<&str>) -> Result<Drive, Failure> {
    let imported = import(path, name)?;
    Ok(Drive {
        profile: imported.profile,
        notes: imported.notes,
        bus_assumed: imported.bus_assumed,
    })
}

/// Writes a profile as TOML to `path`.
pub(super) fn write_profile(profile: &impl Serialize, path: &Path) -> Result<(), Failure> {
    output::write(path, &text(profile)?)
}

/// A profile as TOML.
pub(super) fn text(profile: &impl Serialize) -> Result<String, Failure> {
    toml::to_string(profile).map_err(|problem| Failure::Failed(problem.to_string()))
}
