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

mod trees;

use std::path::{Path, PathBuf};
use std::sync::Arc;

pub use moirai_btree as btree;
pub use moirai_devices as devices;
pub use moirai_runtime as runtime;
pub use moirai_storage as storage;
pub use moirai_store as store;
pub use moirai_units as units;
pub use moirai_update as update;
pub use moirai_volume as volume;
pub use trees::{NewTrees, TreesPlace, open_trees};

use moirai_devices::{ArrayController, WritePolicy};
use moirai_storage::{Device, DeviceUri};
use moirai_store::Store;
use moirai_units::BlockCount;
use moirai_volume::{Concatenation, ControllerWrites, Description, Part};

/// Opens the device or volume that `uri` names: `file:`, `sim:`, `volume:`; of `volume:PATH?salvage=true`
/// what is left. Inside a runtime only.
pub async fn open_device(uri: &str) -> storage::Result<Arc<dyn Device>> {
    open_nested(uri, NESTED_MAX, false).await
}

/// Volumes that are parts of parts, at most.
const NESTED_MAX: usize = 8;

/// The next depth, or an error: a volume may be its own part.
fn deeper(uri: &DeviceUri, depth: usize) -> storage::Result<usize> {
    let too_deep =
        || uri.error("its parts have parts, and these others, and so on: is it its own?");
    depth.checked_sub(1).ok_or_else(too_deep)
}

async fn open_nested(uri: &str, depth: usize, salvage: bool) -> storage::Result<Arc<dyn Device>> {
    let mut uri: DeviceUri = uri.parse()?;
    let salvage = match uri.scheme.as_str() {
        "volume" => uri.take("salvage")?.unwrap_or(salvage),
        _ => false,
    };
    let Some((path, description)) = described(&uri)? else {
        return moirai_devices::open(uri);
    };
    let open = moirai_devices::open;
    if !description.parts.is_empty() {
        let mut parts = Vec::with_capacity(description.parts.len());
        for part in &description.parts {
            let device = Box::pin(open_nested(&part.uri, deeper(&uri, depth)?, salvage)).await?;
            parts.push((device, BlockCount(part.blocks)));
        }
        let volume = Concatenation::of(uri.to_string(), parts)?;
        return behind_controller(&path, &description, volume);
    }
    if salvage {
        return Ok(moirai_volume::salvage(&path, &description, open).await?);
    }
    let volume = moirai_volume::open_described(&path, &description, open).await?;
    behind_controller(&path, &description, volume)
}

/// Opens the device or volume that `uri` names for its attributes and times: simulated disks hold
/// nothing, and a volume reads and writes no labels. Inside a runtime only.
pub fn open_device_for_timing(uri: &str) -> storage::Result<Arc<dyn Device>> {
    time_nested(uri, NESTED_MAX)
}

fn time_nested(uri: &str, depth: usize) -> storage::Result<Arc<dyn Device>> {
    let uri: DeviceUri = uri.parse()?;
    let open = moirai_devices::open_without_data;
    let Some((path, description)) = described(&uri)? else {
        return open(uri);
    };
    if !description.parts.is_empty() {
        let depth = deeper(&uri, depth)?;
        let open = |part: &Part| Ok((time_nested(&part.uri, depth)?, BlockCount(part.blocks)));
        let parts = description.parts.iter().map(open).collect::<storage::Result<_>>()?;
        let volume = Concatenation::of(uri.to_string(), parts)?;
        return behind_controller(&path, &description, volume);
    }
    let volume = moirai_volume::lay_out(&path, &description, open)?;
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

/// Opens the store on the device or volume that `uri` names. Inside a runtime only.
pub async fn open_store(uri: &str) -> store::Result<Arc<Store>> {
    Store::open(open_device(uri).await?).await
}

/// Whether what `uri` names is simulated, so that it wants [`runtime::block_on_virtual`], or where files keep its contents
/// [`runtime::block_on_virtual_with_files`].
pub fn is_simulated(uri: &str) -> storage::Result<bool> {
    are_simulated(&[uri.to_owned()])
}

/// Whether the devices that `uris` name are simulated: all of them or none, since the ones live in
/// virtual time and the others in real time.
pub fn are_simulated(uris: &[String]) -> storage::Result<bool> {
    are_simulated_nested(uris, NESTED_MAX)
}

fn are_simulated_nested(uris: &[String], depth: usize) -> storage::Result<bool> {
    let mut first: Option<bool> = None;
    for uri in uris {
        let parsed: DeviceUri = uri.parse()?;
        let simulated = match parsed.scheme.as_str() {
            "volume" => {
                let description = Description::read(Path::new(&parsed.target))?;
                are_simulated_nested(&description.uris(), deeper(&parsed, depth)?)?
            }
            _ => moirai_devices::is_simulated(&parsed),
        };
        if first.is_some_and(|first| first != simulated) {
            return Err(parsed.error(
                "simulated devices live in virtual time and others in real time: use the one kind \
                 or the other",
            ));
        }
        first = Some(simulated);
    }
    Ok(first.unwrap_or(false))
}
