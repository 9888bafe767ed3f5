//! Moirai: a storage manager that learns what each device is good at and shapes layout, I/O and
//! placement to it.
//!
//! This crate is the door for programs: it opens devices, volumes and stores by their URI, and
//! passes on what is needed to use them. SQL is in `moirai-sql`, so that programs that do not want
//! it do not build it.
//!
//! ```
//! use std::sync::Arc;
//! use moirai::{open_device, runtime};
//! use moirai::storage::Device;
//! use moirai::units::{BlockCount, BlockRange, Lbn};
//!
//! // A disk of 1999, in virtual time.
//! runtime::block_on_virtual(1, async {
//!     let disk: Arc<dyn Device> = open_device("sim:quantum-atlas-10k").await?;
//!     let track = disk.ensemble(Lbn(1000))?.blocks;
//!     disk.read(track).await?;
//!     assert!(runtime::now().ns > 5_000_000, "a revolution takes 6 ms");
//!     Ok::<(), moirai::storage::Error>(())
//! })
//! # .unwrap()
//! ```
//!
//! In real time everything works in any tokio runtime of the program's, of one thread or several, with timers and I/O
//! (`enable_all`). A program without a runtime blocks on each call with [`runtime::wait`]:
//!
//! ```
//! use moirai::runtime::wait;
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! # let folder = tempfile::tempdir()?;
//! # let path = folder.path().join("file");
//! # std::fs::write(&path, [7; 8192])?;
//! let device = wait(moirai::open_device(&format!("file:{}", path.display())))?;
//! let all = wait(device.read(device.inquiry().all_blocks()))?;
//! assert!(all.iter().all(|byte| *byte == 7));
//! # Ok(())
//! # }
//! ```

mod discovered;
mod kept;
mod trees;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::str::FromStr;
use std::sync::Arc;

pub use discovered::drive_profile;
pub use kept::{Kept, identity, kept_path, kept_paths};
pub use moirai_btree as btree;
pub use moirai_devices as devices;
pub use moirai_discovery as discovery;
pub use moirai_runtime as runtime;
pub use moirai_storage as storage;
pub use moirai_store as store;
pub use moirai_tables as tables;
pub use moirai_units as units;
pub use moirai_update as update;
pub use moirai_volume as volume;
pub use trees::{
    CreatedTrees, Held, NewTrees, TreesPlace, create_tables_on, create_tables_with_logs,
    create_trees, held, open_tables, open_tables_metered, open_trees,
};

pub use moirai_devices::{Access, NewFiles};

use moirai_devices::{ArrayController, Recorder, WritePolicy};
use moirai_storage::{Device, DeviceUri};
use moirai_units::BlockCount;
use moirai_volume::{Concatenation, ControllerWrites, Description, DiskIndex, Part};

/// Opens the device or volume that `uri` names (`file:`, `sim:`, `volume:`) to read and write it; its files must
/// exist. `volume:PATH?salvage=true` opens what is left of a volume, read-only, and `volume:PATH?without=1,2` the volume
/// without these disks. Inside a runtime only.
pub async fn open_device(uri: &str) -> storage::Result<Arc<dyn Device>> {
    open_device_for(uri, Access::Write).await
}

/// Opens the device or volume that `uri` names: to read it, which several programs may do at the same time, to
/// read and write it, or so that files that do not exist are created. Inside a runtime only.
pub async fn open_device_for(uri: &str, access: Access<'_>) -> storage::Result<Arc<dyn Device>> {
    open_nested(uri, access, &mut Vec::new(), false).await
}

/// The descriptions of volumes on the way to a part, outermost first. An error when `uri` is among them: a volume
/// that contains itself.
fn enter(uri: &DeviceUri, path: &Path, outer: &mut Vec<PathBuf>) -> storage::Result<()> {
    let file = path.canonicalize().unwrap_or_else(|_| path.to_owned());
    if outer.contains(&file) {
        let names = outer.iter().chain([&file]).map(|file| file.display().to_string());
        let way: Vec<String> = names.collect();
        return Err(uri.error(format!("the volume contains itself ({})", way.join(" -> "))));
    }
    outer.push(file);
    Ok(())
}

/// Numbers of disks, with commas between them.
struct Disks(Vec<DiskIndex>);

impl FromStr for Disks {
    type Err = String;

    fn from_str(text: &str) -> Result<Disks, String> {
        let disks = text.split(',').map(|number| number.parse().map(DiskIndex));
        disks
            .collect::<Result<_, _>>()
            .map(Disks)
            .map_err(|_| format!("`{text}` names no disks: write their numbers, like 1 or 0,2"))
    }
}

async fn open_nested(
    uri: &str,
    access: Access<'_>,
    outer: &mut Vec<PathBuf>,
    salvage: bool,
) -> storage::Result<Arc<dyn Device>> {
    let mut uri: DeviceUri = uri.parse()?;
    let (salvage, left_out) = match uri.scheme.as_str() {
        "volume" => (
            uri.take("salvage")?.unwrap_or(salvage),
            uri.take("without")?.map_or_else(Vec::new, |Disks(disks)| disks),
        ),
        _ => (false, Vec::new()),
    };
    let Some((path, description)) = described(&uri)? else {
        return kept::open(uri, |uri| moirai_devices::open(uri, access));
    };
    // The devices of a volume exist since it was made: one that is not there was lost, and must not come back empty.
    let access = if matches!(access, Access::Create(_)) { Access::Write } else { access };
    let open = |uri| kept::open(uri, |uri| moirai_devices::open(uri, access));
    if !description.parts.is_empty() {
        if !left_out.is_empty() {
            return Err(uri.error("the volume has parts: leave disks out of one of them"));
        }
        enter(&uri, &path, outer)?;
        let mut parts = Vec::with_capacity(description.parts.len());
        for part in &description.parts {
            let device = Box::pin(open_nested(&part.uri, access, outer, salvage)).await?;
            parts.push((device, BlockCount(part.blocks)));
        }
        outer.pop();
        let volume = Concatenation::of(uri.to_string(), parts)?;
        let volume = behind_controller(&path, &description, volume)?;
        return recorded(&description, access, volume);
    }
    if salvage || !left_out.is_empty() {
        return Ok(moirai_volume::salvage(&path, &description, &left_out, open).await?);
    }
    let access = if description.opening_writes(&path)? { Access::Write } else { access };
    let mut volumes = BTreeMap::new();
    enter(&uri, &path, outer)?;
    for device in description.devices.iter().filter(|device| device.starts_with("volume:")) {
        let volume = Box::pin(open_nested(device, access, outer, salvage)).await?;
        volumes.insert(device.clone(), volume);
    }
    outer.pop();
    let open = |uri: DeviceUri| match volumes.get(&uri.to_string()) {
        Some(volume) => Ok(Arc::clone(volume)),
        None => kept::open(uri, |uri| moirai_devices::open(uri, access)),
    };
    let volume = moirai_volume::open_described(&path, &description, open).await?;
    let volume = behind_controller(&path, &description, volume)?;
    recorded(&description, access, volume)
}

/// Opens the device or volume that `uri` names for its attributes and times: simulated disks have no contents, and
/// a volume's labels are neither read nor written. Inside a runtime only.
pub fn open_device_for_timing(uri: &str, access: Access<'_>) -> storage::Result<Arc<dyn Device>> {
    time_nested(uri, access, &mut Vec::new())
}

fn time_nested(
    uri: &str,
    access: Access<'_>,
    outer: &mut Vec<PathBuf>,
) -> storage::Result<Arc<dyn Device>> {
    let uri: DeviceUri = uri.parse()?;
    let open = |uri| kept::open(uri, |uri| moirai_devices::open_without_data(uri, access));
    let Some((path, description)) = described(&uri)? else {
        return open(uri);
    };
    if !description.parts.is_empty() {
        enter(&uri, &path, outer)?;
        let mut open =
            |part: &Part| Ok((time_nested(&part.uri, access, outer)?, BlockCount(part.blocks)));
        let parts = description.parts.iter().map(&mut open).collect::<storage::Result<_>>()?;
        outer.pop();
        let volume = Concatenation::of(uri.to_string(), parts)?;
        return behind_controller(&path, &description, volume);
    }
    enter(&uri, &path, outer)?;
    let open = |device: DeviceUri| match device.scheme.as_str() {
        "volume" => time_nested(&device.to_string(), access, outer),
        _ => open(device),
    };
    let volume = moirai_volume::lay_out(&path, &description, open)?;
    outer.pop();
    behind_controller(&path, &description, volume)
}

/// The description of the volume that `uri` names, and its file.
fn described(uri: &DeviceUri) -> storage::Result<Option<(PathBuf, Description)>> {
    if uri.scheme != "volume" {
        return Ok(None);
    }
    uri.finish()?;
    let path = PathBuf::from(&uri.target);
    let description = Description::read(&path)?;
    Ok(Some((path, description)))
}

/// The volume behind the array controller that is described.
fn behind_controller(
    path: &Path,
    description: &Description,
    volume: Arc<dyn Device>,
) -> storage::Result<Arc<dyn Device>> {
    let Some(controller) = &description.controller else { return Ok(volume) };
    let policy = match controller.write {
        ControllerWrites::Back => WritePolicy::EARLY_DESTAGE,
        ControllerWrites::Through => WritePolicy::Through,
    };
    Ok(ArrayController::start(volume, controller.size(path)?, policy))
}

/// The volume with its requests recorded, where that is described and the volume is not only read: readers may
/// be several.
fn recorded(
    description: &Description,
    access: Access<'_>,
    volume: Arc<dyn Device>,
) -> storage::Result<Arc<dyn Device>> {
    match (&description.record, access) {
        (None, _) | (_, Access::Read) => Ok(volume),
        (Some(trace), _) => Ok(Recorder::start(volume, trace)?),
    }
}

/// An error when a RAID or a pool took over the device of a store.
async fn refuse_usurped(device: &dyn Device) -> storage::Result<()> {
    match storage::usurper(device).await? {
        None => Ok(()),
        Some(occupant) => {
            Err(storage::Error::Occupied { device: device.inquiry().name.clone(), occupant })
        }
    }
}

/// Whether what `uri` names is simulated, so that it wants [`runtime::block_on_virtual`], or where files keep its contents
/// [`runtime::block_on_virtual_with_files`].
pub fn is_simulated(uri: &str) -> storage::Result<bool> {
    are_simulated(&[uri.to_owned()])
}

/// The files of a device: what its URI names, and of a volume also what its description names. Of a description that cannot be
/// read, the URI's own.
#[must_use]
pub fn files_of(uri: &str) -> Vec<PathBuf> {
    let mut files = Vec::new();
    add_files(uri, &mut Vec::new(), &mut files);
    files
}

fn add_files(uri: &str, outer: &mut Vec<PathBuf>, files: &mut Vec<PathBuf>) {
    let Ok(parsed) = uri.parse::<DeviceUri>() else { return };
    files.extend(parsed.paths());
    let path = Path::new(&parsed.target);
    if parsed.scheme == "volume"
        && enter(&parsed, path, outer).is_ok()
        && let Ok(description) = Description::read(path)
    {
        description.uris().iter().for_each(|uri| add_files(uri, outer, files));
        outer.pop();
    }
}

/// Whether the devices that `uris` name are simulated: all of them or none, because simulated devices run in virtual
/// time and others in real time.
pub fn are_simulated(uris: &[String]) -> storage::Result<bool> {
    are_simulated_nested(uris, &mut Vec::new())
}

fn are_simulated_nested(uris: &[String], outer: &mut Vec<PathBuf>) -> storage::Result<bool> {
    let mut first: Option<bool> = None;
    for uri in uris {
        let parsed: DeviceUri = uri.parse()?;
        let simulated = match parsed.scheme.as_str() {
            "volume" => {
                let path = Path::new(&parsed.target);
                enter(&parsed, path, outer)?;
                let description = Description::read(path)?;
                let simulated = are_simulated_nested(&description.uris(), outer)?;
                outer.pop();
                simulated
            }
            _ => moirai_devices::is_simulated(&parsed),
        };
        if first.is_some_and(|first| first != simulated) {
            return Err(parsed.error(
                "simulated devices run in virtual time and others in real time: use devices of one kind",
            ));
        }
        first = Some(simulated);
    }
    Ok(first.unwrap_or(false))
}
