//! Drive profiles by name or from files: our own TOML, and DiskSim's parameters.

use std::io;
use std::path::{Path, PathBuf};

use moirai_models::diskspecs::{self, Imported};
use moirai_models::{Profile, built_in_names};
use moirai_storage::{DeviceUri, Error, Result};

/// The endings of DiskSim's parameter files.
const DISKSIM_EXTENSIONS: [&str; 2] = ["diskspecs", "parv"];

/// The profile that a `sim:` URI names: a built-in one, a TOML file, or a file of DiskSim's.
pub fn profile(uri: &DeviceUri) -> Result<Profile> {
    if let Some(profile) = Profile::built_in(&uri.target) {
        return Ok(profile);
    }
    let path = Path::new(&uri.target);
    let invalid = |problem: String| Error::Description { path: path.to_owned(), problem };
    if is_disksim(path) {
        let imported = import(path, None)?;
        return Profile::new(imported.profile).map_err(|problem| invalid(problem.to_string()));
    }
    if path.extension().is_none_or(|extension| extension != "toml") {
        let names: Vec<&str> = built_in_names().collect();
        return Err(uri.error(format!(
            "there is no profile `{}`: use {}, or a .toml, .diskspecs or .parv file",
            uri.target,
            names.join(", ")
        )));
    }
    let text = std::fs::read_to_string(path).map_err(|source| Error::File {
        path: path.to_owned(),
        action: "reading the profile",
        source,
    })?;
    Profile::parse(&text).map_err(|problem| invalid(problem.to_string()))
}

/// Whether `path` is named like one of DiskSim's parameter files.
#[must_use]
pub fn is_disksim(path: &Path) -> bool {
    let extension = path.extension().and_then(|extension| extension.to_str());
    extension.is_some_and(|extension| DISKSIM_EXTENSIONS.contains(&extension))
}

/// Imports the drive that DiskSim's parameter file at `path` describes; `drive` chooses one by the
/// name of its block where there are several. Files that it sources lie beside it.
pub fn import(path: &Path, drive: Option<&str>) -> Result<Imported> {
    let folder = path.parent().unwrap_or(Path::new("")).to_owned();
    let name = path.file_name().map_or_else(PathBuf::new, PathBuf::from);
    let mut load = |file: &str| -> io::Result<String> {
        let bytes = std::fs::read(folder.join(file))?;
        String::from_utf8(bytes)
            .map_err(|_| io::Error::new(io::ErrorKind::InvalidData, "it is no text"))
    };
    diskspecs::import(&name.to_string_lossy(), drive, &mut load).map_err(|problem| {
        Error::Description { path: path.to_owned(), problem: problem.to_string() }
    })
}
