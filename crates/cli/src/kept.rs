//! Where what was discovered of devices is kept: `$XDG_DATA_HOME/moirai`.

use std::env;
use std::path::PathBuf;

use moirai::discovery::{Angle, TrackMap, angles};
use moirai::storage::Device;
use moirai::units::Lbn;
use moirai::{Kept, identity};

use crate::failure::Failure;
use crate::print;

/// Boundaries whose angles are kept, all over the device.
const ANGLES: usize = 16;

/// The folder; `None` where the environment names neither it nor a home.
pub(crate) fn folder() -> Option<PathBuf> {
    let named = |name| env::var_os(name).filter(|value| !value.is_empty()).map(PathBuf::from);
    // A path that is not absolute does not count, as the specification of these folders has it.
    let data = named("XDG_DATA_HOME").filter(|path| path.is_absolute());
    let data = data.or_else(|| named("HOME").map(|home| home.join(".local/share")));
    data.map(|data| data.join("moirai"))
}

/// What is kept of a device with these ensembles. Of a disk, some angles are measured.
pub(crate) async fn kept_of(
    uri: &str,
    device: &dyn Device,
    map: &TrackMap,
    method: &str,
    parallelism: u32,
    turns: bool,
) -> Result<Kept, Failure> {
    let mut kept = Kept {
        device: identity(uri)?,
        capacity_blocks: device.inquiry().capacity.0,
        method: method.to_owned(),
        parallelism,
        rotation_ns: None,
        angles: Vec::new(),
        ensembles: map.runs().collect(),
        unsure: Vec::new(),
    };
    if turns {
        let count = map.firsts().count();
        let step = (count / ANGLES).max(1);
        let firsts = map.firsts().skip(1).step_by(step).take(ANGLES);
        let pairs: Vec<(Lbn, Lbn)> = firsts.map(|first| (Lbn(first.0 - 1), first)).collect();
        // What was found is kept without them if they cannot be measured.
        match angles(device, &pairs).await {
            Ok((rotation, measured)) => {
                kept.rotation_ns = Some(rotation.period_ns);
                let angle = |one: &Angle| (one.from.0, one.to.0, one.ns.round());
                kept.angles = measured.iter().map(angle).collect();
            }
            Err(error) => print::error_line(format!("no angles are kept: {error}")),
        }
    }
    Ok(kept)
}

/// Keeps it. Where that is not possible, says so: the work was done all the same.
pub(crate) fn keep(kept: &Kept) -> Result<Option<PathBuf>, Failure> {
    let Some(folder) = folder() else {
        print::error_line("the profile is not kept: neither XDG_DATA_HOME nor HOME names a folder");
        return Ok(None);
    };
    let saved = kept.save(&folder);
    if let Err(error) = &saved {
        print::error_line(format!("the profile is not kept: {error}"));
    }
    Ok(saved.ok())
}
