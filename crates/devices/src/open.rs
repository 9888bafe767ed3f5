//! From a URI to a device.

use std::path::Path;
use std::sync::Arc;

use moirai_models::{Disk, Scheduler};
use moirai_storage::{Device, DeviceUri, Result};
use moirai_units::ByteCount;

use crate::{
    Contents, FileDevice, FileOptions, NamedDrive, SimulatedDisk, SimulatedOptions, drive,
};

/// The schemes that [`open`] knows, with what they name, for help texts.
pub const SCHEMES: [(&str, &str); 2] = [
    (
        "file:PATH[?size=SIZE][&ensemble=SIZE][&direct=true|false]",
        "a file; made with `size` when it is not there; direct I/O where the file system allows it",
    ),
    (
        "sim:PROFILE[?data=PATH|none][&scheduler=sptf|fcfs|c-look|sstf|aged-sptf:WEIGHT]",
        "a simulated disk: a built-in profile, a .toml file, or DiskSim's .diskspecs or .parv; \
         contents in memory, in the file that `data` names, or none at all; sptf unless DiskSim's file \
         says fcfs",
    ),
];

/// Whether the device that `uri` names is simulated, and so wants virtual time.
#[must_use]
pub fn is_simulated(uri: &DeviceUri) -> bool {
    uri.scheme == "sim"
}

/// Opens the device that `uri` names. Inside a runtime only.
pub fn open(uri: DeviceUri) -> Result<Arc<dyn Device>> {
    open_with(uri, true)
}

/// Opens the device that `uri` names for its attributes: a simulated one without its contents.
pub fn open_without_data(uri: DeviceUri) -> Result<Arc<dyn Device>> {
    open_with(uri, false)
}

/// The model of the simulated disk that `uri` names, for who steps it; its contents do not matter.
pub fn model(mut uri: DeviceUri) -> Result<Disk> {
    if uri.scheme != "sim" {
        return Err(uri.error("it is no simulated disk: name one as sim:PROFILE"));
    }
    let drive = drive(&uri)?;
    let scheduler = scheduler(&mut uri, &drive)?;
    let _: Option<String> = uri.take("data")?;
    uri.finish()?;
    Ok(Disk::new(drive.profile, scheduler))
}

/// The scheduler that the URI asks for, or else the drive's own, or else ours.
fn scheduler(uri: &mut DeviceUri, drive: &NamedDrive) -> Result<Scheduler> {
    Ok(uri.take::<Scheduler>("scheduler")?.or(drive.scheduler).unwrap_or_default())
}

fn open_with(mut uri: DeviceUri, with_data: bool) -> Result<Arc<dyn Device>> {
    match uri.scheme.as_str() {
        "file" => {
            let options = FileOptions {
                size: uri.take("size")?,
                ensemble: uri.take("ensemble")?.unwrap_or(ByteCount::mib(1)),
                direct: uri.take("direct")?.unwrap_or(true),
            };
            uri.finish()?;
            FileDevice::open(&uri, options).map(|device| device as Arc<dyn Device>)
        }
        "sim" => {
            let drive = drive(&uri)?;
            let data: Option<String> = uri.take("data")?;
            let scheduler = scheduler(&mut uri, &drive)?;
            let profile = drive.profile;
            uri.finish()?;
            let contents = match data.as_deref().filter(|_| with_data) {
                None if !with_data => Contents::Nothing,
                None => Contents::memory(),
                Some("none") => Contents::Nothing,
                Some(path) => Contents::file(Path::new(path), profile.geometry.capacity())?,
            };
            let options =
                SimulatedOptions { name: uri.to_string(), scheduler, contents, host_bus: None };
            Ok(SimulatedDisk::start(profile, options))
        }
        other => {
            Err(uri.error(format!("there is no scheme `{other}`: use file:, sim: or volume:")))
        }
    }
}
