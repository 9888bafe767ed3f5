//! Profiles of disks, MEMS stores and SSDs by name or from files: our own TOML, and DiskSim's parameters.

use std::io;
use std::path::{Path, PathBuf};

use moirai_models::diskspecs::{self, DiskspecsError, Imported, Load};
use moirai_models::{
    MemsProfile, MemsProfileFile, Profile, Scheduler, SsdProfile, built_in_mems_names,
    built_in_names, built_in_ssd_names, kind_of,
};
use moirai_storage::{DeviceUri, Error, Result};
use moirai_units::ByteCount;

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
    /// An SSD.
    Ssd(Box<SsdProfile>),
}

/// The device that a `sim:` URI names: a built-in profile, a TOML file, or a file of DiskSim's. Of a MEMS store it takes the
/// parameter `tips`, and of an SSD `size`.
pub fn named_model(uri: &mut DeviceUri) -> Result<NamedModel> {
    let model = find_model(uri)?;
    Ok(match model {
        NamedModel::Mems(profile, scheduler) => match uri.take::<u32>("tips")? {
            None => NamedModel::Mems(profile, scheduler),
            Some(tips) => {
                let changed = profile.with_active_tips(tips);
                let changed =
                    changed.map_err(|problem| uri.error(format!("parameter `tips`: {problem}")))?;
                NamedModel::Mems(Box::new(changed), scheduler)
            }
        },
        NamedModel::Ssd(profile) => match uri.take::<ByteCount>("size")? {
            None => NamedModel::Ssd(profile),
            Some(size) => {
                let changed = profile.with_size(size);
                let changed =
                    changed.map_err(|problem| uri.error(format!("parameter `size`: {problem}")))?;
                NamedModel::Ssd(Box::new(changed))
            }
        },
        disk @ NamedModel::Disk(_) => disk,
    })
}

fn find_model(uri: &DeviceUri) -> Result<NamedModel> {
    if let Some(profile) = Profile::built_in(&uri.target) {
        return Ok(NamedModel::Disk(Box::new(profile.into())));
    }
    if let Some(profile) = MemsProfile::built_in(&uri.target) {
        return Ok(NamedModel::Mems(Box::new(profile), None));
    }
    if let Some(profile) = SsdProfile::built_in(&uri.target) {
        return Ok(NamedModel::Ssd(Box::new(profile)));
    }
    let path = Path::new(&uri.target);
    let invalid = |problem: String| Error::Description { path: path.to_owned(), problem };
    if is_disksim(path) {
        if let Some((profile, scheduler)) = import_mems(path)? {
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
        let names = built_in_names().chain(built_in_mems_names()).chain(built_in_ssd_names());
        let names: Vec<&str> = names.collect();
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
    let model = match kind_of(&text).as_deref() {
        Some("mems") => {
            MemsProfile::parse(&text).map(|profile| NamedModel::Mems(Box::new(profile), None))
        }
        Some("ssd") => SsdProfile::parse(&text).map(|profile| NamedModel::Ssd(Box::new(profile))),
        _ => Profile::parse(&text).map(|profile| NamedModel::Disk(Box::new(profile.into()))),
    };
    model.map_err(|problem| invalid(problem.to_string()))
}

/// The drive that a `sim:` URI names; an error where that is no disk.
pub fn drive(uri: &DeviceUri) -> Result<NamedDrive> {
    let wanted = |is: &str| {
        uri.error(format!("this is {is}, and a disk drive is wanted: see `moirai device list`"))
    };
    match find_model(uri)? {
        NamedModel::Disk(drive) => Ok(*drive),
        NamedModel::Mems(..) => Err(wanted("a MEMS store")),
        NamedModel::Ssd(_) => Err(wanted("an SSD")),
    }
}

/// Whether `path` is named like one of DiskSim's parameter files.
fn is_disksim(path: &Path) -> bool {
    let extension = path.extension().and_then(|extension| extension.to_str());
    extension.is_some_and(|extension| {
        DISKSIM_EXTENSIONS.iter().any(|known| extension.eq_ignore_ascii_case(known))
    })
}

/// Imports the MEMS store of DiskSim's parameter file at `path`, and how it orders its queue where the file says so; `None` where the
/// file describes a drive.
pub fn import_mems(path: &Path) -> Result<Option<(MemsProfileFile, Option<Scheduler>)>> {
    import_with(path, |file, load| diskspecs::import_mems(file, load))
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
