//! Drives that commands read, show and change: a profile by name or from a file, with its notes.

use std::path::Path;

use moirai::devices::{import, is_disksim, profile};
use moirai::storage::DeviceUri;
use moirai_models::ProfileFile;

use crate::failure::Failure;

/// A drive's profile and what is to be said about it.
pub(super) struct Drive {
    pub(super) profile: ProfileFile,
    pub(super) notes: Vec<String>,
    /// The file that it comes from leaves the bus open, and a rate was assumed.
    pub(super) bus_assumed: bool,
}

/// The drive that a `sim:` URI names.
pub(super) fn named(uri: &str) -> Result<Drive, Failure> {
    let parsed: DeviceUri = uri.parse()?;
    if parsed.scheme != "sim" {
        let problem = format!("`{uri}` is no simulated drive: name one as sim:PROFILE");
        return Err(Failure::Usage(problem));
    }
    let path = Path::new(&parsed.target);
    if is_disksim(path) && path.exists() {
        return imported(path, None);
    }
    let profile = profile(&parsed)?.file;
    // An imported profile keeps in its sources that nobody knew the bus.
    let bus_source = profile.sources.get("bus_mb_per_s");
    let bus_assumed = bus_source.is_some_and(|source| source.starts_with("interpolated: "));
    Ok(Drive { profile, notes: Vec::new(), bus_assumed })
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

/// Says notes on standard error.
pub(super) fn say(notes: &[String]) {
    for note in notes {
        eprintln!("note: {note}");
    }
}

/// Writes a profile as TOML to `path`, which must not be there yet unless `overwrite`.
pub(super) fn write_profile(
    profile: &ProfileFile,
    path: &Path,
    overwrite: bool,
) -> Result<(), Failure> {
    if path.exists() && !overwrite {
        let problem = format!("{} is there already: name another file, or --force", path.display());
        return Err(Failure::Usage(problem));
    }
    write(path, &text(profile)?)
}

/// A profile as TOML.
pub(super) fn text(profile: &ProfileFile) -> Result<String, Failure> {
    toml::to_string(profile).map_err(|problem| Failure::Failed(problem.to_string()))
}

/// Writes a file whole.
pub(crate) fn write(path: &Path, text: &str) -> Result<(), Failure> {
    std::fs::write(path, text)
        .map_err(|problem| Failure::Failed(format!("writing {}: {problem}", path.display())))
}
