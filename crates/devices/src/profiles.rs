//! Profiles of disks and MEMS stores by name or from files: our own TOML, and DiskSim's parameters.

use std::io;
use std::path::{Path, PathBuf};

use moirai_models::diskspecs::{self, DiskspecsError, Imported, Load};
use moirai_models::{MemsProfile, Profile, Scheduler, built_in_mems_names, built_in_names};
use moirai_storage::{DeviceUri, Error, Result};

/// The endings of DiskSim's parameter files.
const DISKSIM_EXTENSIONS: [&str; 2] = ["diskspecs", "parv"];

/// A drive, and what its file says beside the profile.
#[derive(Debug)]
pub struct NamedDrive {
    /// What it is.
    pub profile: Profile,
    /// How it chooses the next request, when its file says so.
    pub scheduler: Option<Scheduler>,
    /// What the profile does not represent, or what the file left open, in sentences.
    pub notes: Vec<String>,
    /// The file that it comes from leaves the bus open, and a rate was assumed.
    pub bus_assumed: bool,
}

impl From<Profile> for NamedDrive {
    fn from(profile: Profile) -> NamedDrive {
        // An imported profile keeps in its sources that nobody knew the bus.
        let bus_source = profile.file.sources.get("bus_mb_per_s");
        let bus_assumed = bus_source.is_some_and(|source| source == diskspecs::BUS_ASSUMED);
        NamedDrive { profile, scheduler: None, notes: Vec::new(), bus_assumed }
    }
}

/// What a `sim:` URI names.
#[derive(Debug)]
pub enum NamedModel {
    /// A disk drive.
    Disk(Box<NamedDrive>),
    /// A MEMS store, and its own scheduler where its file says so.
    Mems(Box<MemsProfile>, Option<Scheduler>),
}

/// The device that a `sim:` URI names: a built-in profile, a TOML file, or a file of DiskSim's. Of a MEMS store it takes the
/// parameter `tips`.
pub fn named_model(uri: &mut DeviceUri) -> Result<NamedModel> {
    let model = find_model(uri)?;
    let NamedModel::Mems(profile, scheduler) = model else { return Ok(model) };
    let profile = match uri.take::<u32>("tips")? {
        None => profile,
        Some(tips) => {
            let changed = profile.with_active_tips(tips);
            Box::new(changed.map_err(|problem| uri.error(format!("parameter `tips`: {problem}")))?)
        }
    };
    Ok(NamedModel::Mems(profile, scheduler))
}

fn find_model(uri: &DeviceUri) -> Result<NamedModel> {
    if let Some(profile) = Profile::built_in(&uri.target) {
        return Ok(NamedModel::Disk(Box::new(profile.into())));
    }
    if let Some(profile) = MemsProfile::built_in(&uri.target) {
        return Ok(NamedModel::Mems(Box::new(profile), None));
    }
    let path = Path::new(&uri.target);
    let invalid = |problem: String| Error::Description { path: path.to_owned(), problem };
    if is_disksim(path) {
        let mems = import_with(path, |file, load| diskspecs::import_mems(file, load))?;
        if let Some((profile, scheduler)) = mems {
            let profile = MemsProfile::new(profile);
            let profile = profile.map_err(|problem| invalid(problem.to_string()))?;
            return Ok(NamedModel::Mems(Box::new(profile), scheduler));
        }
        let imported = import(path, None)?;
        let profile = Profile::new(imported.profile);
        return Ok(NamedModel::Disk(Box::new(NamedDrive {
            profile: profile.map_err(|problem| invalid(problem.to_string()))?,
            scheduler: imported.scheduler,
            notes: imported.notes,
            bus_assumed: imported.bus_assumed,
        })));
    }
    if path.extension().is_none_or(|extension| extension != "toml") {
        let names: Vec<&str> = built_in_names().chain(built_in_mems_names()).collect();
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
    if MemsProfile::is_kind_of(&text) {
        let profile = MemsProfile::parse(&text).map_err(|problem| invalid(problem.to_string()))?;
        return Ok(NamedModel::Mems(Box::new(profile), None));
    }
    let profile = Profile::parse(&text).map_err(|problem| invalid(problem.to_string()))?;
    Ok(NamedModel::Disk(Box::new(profile.into())))
}

/// The drive that a `sim:` URI names; an error where that is no disk.
pub fn drive(uri: &DeviceUri) -> Result<NamedDrive> {
    match find_model(uri)? {
        NamedModel::Disk(drive) => Ok(*drive),
        NamedModel::Mems(..) => Err(
            uri.error("this is a MEMS store, and a disk drive is wanted: see `moirai device list`")
        ),
    }
}

/// Whether `path` is named like one of DiskSim's parameter files.
fn is_disksim(path: &Path) -> bool {
    let extension = path.extension().and_then(|extension| extension.to_str());
    extension.is_some_and(|extension| {
        DISKSIM_EXTENSIONS.iter().any(|known| extension.eq_ignore_ascii_case(known))
    })
}

/// Imports the drive that DiskSim's parameter file at `path` describes; `drive` chooses one by the
/// name of its block where there are several. Files that it sources lie beside it.
pub fn import(path: &Path, drive: Option<&str>) -> Result<Imported> {
    import_with(path, |file, load| diskspecs::import(file, drive, load))
}

fn import_with<T>(
    path: &Path,
    import: impl FnOnce(&str, &mut Load<'_>) -> std::result::Result<T, DiskspecsError>,
) -> Result<T> {
    let folder = path.parent().unwrap_or(Path::new("")).to_owned();
    let name = path.file_name().map_or_else(PathBuf::new, PathBuf::from);
    let mut load = |file: &str| -> io::Result<String> {
        let bytes = std::fs::read(folder.join(file))?;
        String::from_utf8(bytes)
            .map_err(|_| io::Error::new(io::ErrorKind::InvalidData, "the file is not UTF-8 text"))
    };
    import(&name.to_string_lossy(), &mut load).map_err(|problem| Error::Description {
        path: path.to_owned(),
        problem: problem.to_string(),
    })
}
