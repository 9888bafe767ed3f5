//! DiskSim's parameter files (`.diskspecs`, `.parv`, and the files that they source) made into drive profiles.
//!
//! The drive is a `disksim_disk` with a `dm_disk` that has a `dm_layout_g1` and a `dm_mech_g1`
//! (DiskSim 4.0). What a profile cannot represent is not dropped: each such parameter is a note.

mod drive;
mod layout;
mod mechanism;
mod mems;
mod parameters;
mod syntax;

use crate::{MemsProfileFile, ProfileFile, Scheduler};

pub use drive::BUS_ASSUMED;
pub use syntax::{DiskspecsError, Load};

use syntax::{Block, Place, Value};

/// A drive as a profile, and what is to be said about it.
#[derive(Clone, Debug)]
pub struct Imported {
    /// The profile.
    pub profile: ProfileFile,
    /// What the profile does not represent, or what the file left open, in sentences.
    pub notes: Vec<String>,
    /// The file leaves the rate to a bus that it does not have, and a rate was assumed.
    pub bus_assumed: bool,
    /// The drive's own scheduler, where it is one of ours.
    pub scheduler: Option<Scheduler>,
}

/// Makes a profile of the drive that the file `file` describes; `drive` says which one, by the name
/// of its block, where there are several. `load` reads files by the names that others give them.
pub fn import(
    file: &str,
    drive: Option<&str>,
    load: &mut Load<'_>,
) -> Result<Imported, DiskspecsError> {
    let blocks = syntax::read(file, load)?;
    let top = Place { file: file.into(), line: 1 };
    let drives: Vec<&Block> = blocks.iter().filter(|block| block.kind == "disksim_disk").collect();
    let names = || drives.iter().map(|block| block.name.as_str()).collect::<Vec<_>>().join(", ");
    let chosen = match (drive, drives.as_slice()) {
        (_, []) => return Err(top.error("the file has no `disksim_disk` block")),
        (None, [only]) => only,
        (None, _) => {
            return Err(
                top.error(format!("the file has several drives; choose one of {}", names()))
            );
        }
        (Some(name), _) => *drives.iter().find(|block| block.name == name).ok_or_else(|| {
            top.error(format!("the file has no drive `{name}`; choose one of {}", names()))
        })?,
    };
    drive::convert(chosen, &blocks, load)
}

/// Makes a profile of the MEMS store that the file `file` describes, and tells its own scheduler where that is one of ours; `None`
/// where the file has no `memsmodel_mems` block, or a disk as well.
pub fn import_mems(
    file: &str,
    load: &mut Load<'_>,
) -> Result<Option<(MemsProfileFile, Option<Scheduler>)>, DiskspecsError> {
    let blocks = syntax::read(file, load)?;
    let of_kind = |kind: &str| blocks.iter().filter(|block| block.kind == kind).collect::<Vec<_>>();
    match (&of_kind("memsmodel_mems")[..], &of_kind("disksim_disk")[..]) {
        ([store], []) => mems::convert(store).map(Some),
        ([_, second, ..], []) => {
            Err(second.place.error("the file has several MEMS stores: one is wanted"))
        }
        _ => Ok(None),
    }
}
