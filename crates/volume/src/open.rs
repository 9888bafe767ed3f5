//! From a volume's description to the volume.

use std::path::Path;
use std::sync::Arc;

use moirai_storage::{Device, DeviceUri, Error, Result};

use crate::description::refuse_twice;
use crate::{
    Description, DiskIndex, Format, InspectedDisk, Inspection, Volume, add_disks, assemble,
    inspect, replace,
};

/// Devices that have labels, as far as they can be opened.
pub struct DevicesThere {
    /// What the volume is called.
    name: String,
    devices: Vec<(String, Arc<dyn Device>)>,
    /// Why the others could not be opened.
    problems: Vec<Error>,
}

impl DevicesThere {
    /// Opens what can be opened of the devices that `uris` name, for the volume that the file at `path`
    /// describes, or will; `open_device` opens each.
    pub fn of(
        path: &Path,
        uris: &[String],
        mut open_device: impl FnMut(DeviceUri) -> Result<Arc<dyn Device>>,
    ) -> Result<DevicesThere> {
        refuse_twice(path, uris)?;
        let (mut devices, mut problems) = (Vec::new(), Vec::new());
        for uri in uris {
            match open_device(uri.parse()?) {
                Ok(device) => devices.push((uri.clone(), device)),
                // It is there, and not missing: another program uses the volume.
                Err(problem @ Error::InUse { .. }) => return Err(problem),
                Err(problem) => problems.push(problem),
            }
        }
        Ok(DevicesThere { name: volume_name(path), devices, problems })
    }

    /// The URI of an [inspected](DevicesThere::inspect) disk's device, when it has one.
    #[must_use]
    pub fn uri(&self, disk: &InspectedDisk) -> Option<&str> {
        self.devices.get(disk.device?).map(|(uri, _)| uri.as_str())
    }

    fn devices(&self) -> Vec<Arc<dyn Device>> {
        self.devices.iter().map(|(_, device)| Arc::clone(device)).collect()
    }

    /// Whether the device that `uri` names could be opened, and has a label.
    #[must_use]
    pub fn is_labelled(&self, uri: &str, inspection: &Inspection) -> bool {
        let index = self.devices.iter().position(|(other, _)| other == uri);
        index.is_some_and(|index| inspection.says.get(index).is_some_and(Option::is_some))
    }

    /// The URI of the device that says it is `disk`, but is none in use: what was replaced is called so.
    #[must_use]
    pub fn stale_uri(&self, disk: DiskIndex, inspection: &Inspection) -> Option<&str> {
        let in_use = |index| inspection.disks.iter().any(|one| one.device == Some(index));
        let mut says = inspection.says.iter().enumerate();
        let (index, _) = says.find(|(index, says)| **says == Some(disk) && !in_use(*index))?;
        self.devices.get(index).map(|(uri, _)| uri.as_str())
    }

    /// Does without the device that `uri` names, and closes it.
    pub fn forget(&mut self, uri: &str) {
        self.devices.retain(|(other, _)| other != uri);
    }

    /// Opens the volume; with `degraded` also when devices are missing that its level can do without.
    pub async fn assemble(self, degraded: bool) -> Result<Arc<Volume>> {
        let assembled = assemble(self.name.clone(), self.devices(), degraded).await;
        assembled.map_err(|error| self.explained(error))
    }

    /// Reads what the labels say.
    pub async fn inspect(&self) -> Result<Inspection> {
        let inspected = inspect(self.name.clone(), &self.devices()).await;
        inspected.map_err(|error| self.explained(error))
    }

    /// Puts `device` in the place of a disk that failed or is missing; see [`replace`].
    pub async fn replace(&self, disk: DiskIndex, device: Arc<dyn Device>) -> Result<()> {
        let replaced = replace(&self.name, &self.devices(), disk, device).await;
        replaced.map_err(|error| self.explained(error))
    }

    /// Adds disks; see [`add_disks`].
    pub async fn add_disks(&self, added: &[Arc<dyn Device>]) -> Result<()> {
        let done = add_disks(&self.name, &self.devices(), added).await;
        done.map_err(|error| self.explained(error))
    }

    /// The error, and why devices are not there, which may be behind it.
    fn explained(&self, error: Error) -> Error {
        match error {
            Error::Description { path, mut problem } => {
                for why in &self.problems {
                    problem.push_str(&format!("\n  could not be opened: {why}"));
                }
                Error::Description { path, problem }
            }
            error => error,
        }
    }
}

fn volume_name(path: &Path) -> String {
    format!("volume:{}", path.display())
}

/// Opens the volume of `description`, which is in the file at `path`; `open_device` opens each of its
/// devices. Where these have labels the volume goes on where it ended, or where a crash left it.
pub async fn open_described(
    path: &Path,
    description: &Description,
    open_device: impl FnMut(DeviceUri) -> Result<Arc<dyn Device>>,
) -> Result<Arc<Volume>> {
    match description.labels {
        true => DevicesThere::of(path, &description.devices, open_device)?.assemble(false).await,
        false => lay_out(path, description, open_device),
    }
}

/// What is left of a volume that has lost more disks than it can do without, or what is there without the disks
/// `left_out`: it is not opened, takes no writes, and gives an error for what is lost. What was being written when it was
/// last used may be half there.
pub async fn salvage(
    path: &Path,
    description: &Description,
    left_out: &[DiskIndex],
    open_device: impl FnMut(DeviceUri) -> Result<Arc<dyn Device>>,
) -> Result<Arc<Volume>> {
    let bad = |problem: String| Error::Description { path: path.to_owned(), problem };
    if !description.labels {
        if let Some(disk) = left_out.first() {
            return Err(bad(format!(
                "disk {} cannot be left out: the devices of the volume have no labels",
                disk.0
            )));
        }
        return lay_out(path, description, open_device);
    }
    let mut there = DevicesThere::of(path, &description.devices, open_device)?;
    let inspection = there.inspect().await?;
    if left_out.is_empty() {
        return Ok(inspection.volume);
    }
    let mut uris = Vec::with_capacity(left_out.len());
    for disk in left_out {
        let inspected = inspection.disks.get(disk.0).ok_or_else(|| {
            bad(format!(
                "there is no disk {}: the volume has {}, counted from 0",
                disk.0,
                inspection.disks.len()
            ))
        })?;
        uris.extend(there.uri(inspected).map(str::to_owned));
    }
    uris.iter().for_each(|uri| there.forget(uri));
    Ok(there.inspect().await?.volume)
}

/// The volume that `description` would make, to ask where its blocks lie and how long requests take;
/// labels are neither read nor written. Without labels this is the volume itself.
pub fn lay_out(
    path: &Path,
    description: &Description,
    mut open_device: impl FnMut(DeviceUri) -> Result<Arc<dyn Device>>,
) -> Result<Arc<Volume>> {
    description.check_labels(path)?;
    refuse_twice(path, &description.devices)?;
    let open = |text: &String| text.parse().and_then(&mut open_device);
    let devices = description.devices.iter().map(open).collect::<Result<Vec<_>>>()?;
    let (level, layout) = (description.level(path)?, description.layout(path)?);
    match description.labels {
        true => {
            let integrity = description.integrity;
            let how = Format { level, layout, journal: None, integrity, is_blank: false };
            how.lay_out(volume_name(path), devices)
        }
        false => Volume::new(volume_name(path), devices, level, layout)
            .map_err(|problem| Error::Description { path: path.to_owned(), problem }),
    }
}
