//! From a URI to a device.

use std::ops::RangeInclusive;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use moirai_models::{Disk, Scheduler};
use moirai_runtime::check_runtime;
use moirai_storage::{Device, DeviceUri, Error, Result, Section, SectionBlocks, ZoneLimits};
use moirai_units::{BLOCK_BYTES, BlockCount, ByteCount};
use parking_lot::Mutex;

use crate::scsi::{Generic, ScsiDrive};
use crate::section;
use crate::{
    Contents, FileDevice, FileOptions, NamedModel, SimulatedDisk, SimulatedMems, SimulatedOptions,
    SimulatedSsd, ZoneOptions, ZonedDevice, drive, named_model,
};

/// The schemes that [`open`] knows, with what they name, for help texts.
pub const SCHEMES: [(&str, &str); 4] = [
    (
        "file:PATH[?size=SIZE][&ensemble=SIZE][&direct=true|false][&physical=SIZE][&profile=FILE]",
        "a file, with direct I/O where the file system allows it; `size` is the size of a file that is created; \
         `physical` is the physical sector of the drive below, by default the block of the file system; \
         `profile` is what `moirai discover` kept of it, whose ensembles it then has",
    ),
    (
        "block:DEVICE[?ensemble=SIZE][&direct=true|false][&physical=SIZE][&profile=FILE]",
        "a block device of Linux, such as block:/dev/sdb; the kernel refuses to write one that is mounted or in use",
    ),
    (
        "sim:PROFILE[?data=PATH|none][&scheduler=sptf|fcfs|c-look|sstf|aged-sptf:WEIGHT][&physical=SIZE][&tips=N][&size=SIZE]\
         [&zone=SIZE[&conventional=N][&open=N][&active=N]]",
        "a simulated disk, MEMS store or SSD: a built-in profile, a .toml file, or DiskSim's .diskspecs or .parv; its contents are \
         in memory, in the file that `data` names, or not kept at all; requests are scheduled by sptf unless \
         DiskSim's file says fcfs; `physical` is the physical sector that the disk reports, 512 bytes by default; \
         of a MEMS store `tips` may be active at once; `size` sets the capacity of an SSD; \
         `zone` divides the device into zones of that size: the first `conventional` of them take writes anywhere, the others at their \
         write pointers, and at most `open` (128) are open and `active` partly written",
    ),
    (
        "scsi:/dev/sgN[?profile=FILE]",
        "a SCSI drive with blocks of 512 bytes, by Linux's generic interface, which discovery can ask where its blocks lie; written \
         by the SCSI documents, and not tried on a real drive",
    ),
];

/// How many zones may be open where the URI does not say.
const OPEN_ZONES: u32 = 128;

/// The sizes that physical sectors can have.
const PHYSICAL_BYTES: RangeInclusive<u64> = BLOCK_BYTES..=64 << 10;

/// What a program means to do with a device that it opens.
#[derive(Clone, Copy, Debug)]
pub enum Access<'a> {
    /// Read it. Other readers may open the same files; writes are errors.
    Read,
    /// Read and write it. Its files must exist.
    Write,
    /// Read and write it; files that do not exist are created, and noted here.
    Create(&'a NewFiles),
}

impl Access<'_> {
    pub(crate) fn is_read_only(self) -> bool {
        matches!(self, Access::Read)
    }
}

/// The files that a program created, so that it can remove them when it fails.
#[derive(Debug, Default)]
pub struct NewFiles(Mutex<Vec<PathBuf>>);

impl NewFiles {
    /// None so far.
    #[must_use]
    pub fn new() -> NewFiles {
        NewFiles::default()
    }

    pub(crate) fn note(&self, path: &Path) {
        self.0.lock().push(path.to_owned());
    }

    /// Leaves the file to others, who have it now.
    pub(crate) fn forget(&self, path: &Path) {
        self.0.lock().retain(|new| new != path);
    }

    /// Whether `path` was created.
    #[must_use]
    pub fn contains(&self, path: &Path) -> bool {
        self.0.lock().iter().any(|new| new == path)
    }

    /// Whether files were created.
    #[must_use]
    pub fn any(&self) -> bool {
        !self.0.lock().is_empty()
    }

    /// Removes the files; for a creation that failed.
    pub fn remove(&self) {
        for path in self.0.lock().drain(..) {
            if let Err(error) = std::fs::remove_file(&path) {
                tracing::warn!("{}: removing the new file failed: {error}", path.display());
            }
        }
    }
}

/// Whether the device that `uri` names is simulated, and so wants virtual time.
#[must_use]
pub fn is_simulated(uri: &DeviceUri) -> bool {
    uri.scheme == "sim"
}

/// Opens the device that `uri` names.
///
/// # Errors
/// [`Error::NoRuntime`] for a simulated disk outside a runtime.
pub fn open(uri: DeviceUri, access: Access<'_>) -> Result<Arc<dyn Device>> {
    open_with(uri, access, true)
}

/// Opens the device that `uri` names for its attributes: a simulated one without its contents.
pub fn open_without_data(uri: DeviceUri, access: Access<'_>) -> Result<Arc<dyn Device>> {
    open_with(uri, access, false)
}

/// The model of the simulated disk that `uri` names, to be stepped directly; it has no contents.
pub fn model(mut uri: DeviceUri) -> Result<Disk> {
    if uri.scheme != "sim" {
        return Err(uri.error("this is not a simulated disk: name one as sim:PROFILE"));
    }
    let drive = drive(&uri)?;
    let asked = uri.take::<Scheduler>("scheduler")?;
    let _: Option<String> = uri.take("data")?;
    physical_block(&mut uri)?;
    uri.finish()?;
    Ok(Disk::new(drive.profile, asked.or(drive.scheduler).unwrap_or_default()))
}

/// The physical sector that the URI tells of.
fn physical_block(uri: &mut DeviceUri) -> Result<Option<BlockCount>> {
    match uri.take::<ByteCount>("physical")? {
        None => Ok(None),
        Some(size) if size.0.is_power_of_two() && PHYSICAL_BYTES.contains(&size.0) => {
            Ok(Some(BlockCount::holding(size)))
        }
        Some(size) => Err(uri.error(format!(
            "parameter `physical`: {size} is not a power of two from 512 bytes to 64 KiB, like 4096"
        ))),
    }
}

/// The zones that the URI asks for.
fn zones(uri: &mut DeviceUri) -> Result<Option<ZoneOptions>> {
    let Some(size) = uri.take::<ByteCount>("zone")? else { return Ok(None) };
    let active: Option<u32> = uri.take("active")?;
    let open = uri.take("open")?.unwrap_or(OPEN_ZONES.min(active.unwrap_or(OPEN_ZONES)));
    let limits = ZoneLimits { open, active };
    if limits.open == 0 || limits.active.is_some_and(|active| active < limits.open) {
        return Err(uri.error("parameter `open`: give 1 at least, and no more than `active`"));
    }
    if size.0 == 0 || !size.0.is_multiple_of(BLOCK_BYTES) {
        return Err(uri.error(format!("parameter `zone`: {size} is no whole number of blocks")));
    }
    let conventional = uri.take("conventional")?.unwrap_or(0);
    Ok(Some(ZoneOptions { zone: BlockCount::holding(size), conventional, limits }))
}

fn open_with(mut uri: DeviceUri, access: Access<'_>, with_data: bool) -> Result<Arc<dyn Device>> {
    if let Some(SectionBlocks(blocks)) = uri.clone().take("section")? {
        let open = |whole| open_with(whole, access, with_data);
        return match with_data {
            true => section::open(&uri, blocks, access, open),
            // What is opened for its times has no file.
            false => Ok(Section::of(open(uri.without("section").parse()?)?, blocks)?),
        };
    }
    match uri.scheme.as_str() {
        "file" | "block" => {
            let is_file = uri.scheme == "file";
            let options = FileOptions {
                size: if is_file { uri.take("size")? } else { None },
                ensemble: uri.take("ensemble")?.unwrap_or(ByteCount::mib(1)),
                direct: uri.take("direct")?.unwrap_or(true),
                physical_block: physical_block(&mut uri)?,
            };
            uri.finish()?;
            FileDevice::open(&uri, options, access).map(|device| device as Arc<dyn Device>)
        }
        "sim" => {
            check_runtime().map_err(Error::NoRuntime)?;
            let model = named_model(&mut uri)?;
            let data: Option<String> = uri.take("data")?;
            let asked = uri.take::<Scheduler>("scheduler")?;
            let physical_block = physical_block(&mut uri)?.unwrap_or(BlockCount(1));
            let zones = zones(&mut uri)?;
            if zones.is_some() && data.as_deref().is_some_and(|data| data != "none") {
                return Err(uri.error("zones are not kept in a file: leave out `data`"));
            }
            if matches!(model, NamedModel::Ssd(_)) && asked.is_some() {
                return Err(
                    uri.error("parameter `scheduler`: an SSD serves requests in their order")
                );
            }
            uri.finish()?;
            let (capacity, own) = match &model {
                NamedModel::Disk(drive) => (drive.profile.geometry.capacity(), drive.scheduler),
                NamedModel::Mems(profile, scheduler) => (profile.layout.capacity(), *scheduler),
                NamedModel::Ssd(profile) => (profile.capacity(), None),
            };
            let contents = match data.as_deref().filter(|_| with_data) {
                None if !with_data => Contents::Nothing,
                None => Contents::memory(),
                Some("none") => Contents::Nothing,
                Some(path) => Contents::file(Path::new(path), capacity, access)?,
            };
            let (name, scheduler) = (uri.to_string(), asked.or(own).unwrap_or_default());
            let options =
                SimulatedOptions { name, scheduler, contents, physical_block, host_bus: None };
            let device: Arc<dyn Device> = match model {
                NamedModel::Disk(drive) => SimulatedDisk::start(drive.profile, options),
                NamedModel::Mems(profile, _) => SimulatedMems::start(*profile, options),
                NamedModel::Ssd(profile) => SimulatedSsd::start(*profile, options),
            };
            let Some(zones) = zones else { return Ok(device) };
            let inquiry = device.inquiry();
            let (least, most) = (inquiry.physical_block, inquiry.capacity);
            if !zones.zone.0.is_multiple_of(least.0) || zones.zone > most {
                let problem = format!(
                    "parameter `zone`: give whole physical sectors of {}, {} at most",
                    least.bytes(),
                    most.bytes()
                );
                return Err(uri.error(problem));
            }
            let count = most.0.div_ceil(zones.zone.0);
            if zones.conventional > count {
                let problem = format!("parameter `conventional`: there are {count} zones");
                return Err(uri.error(problem));
            }
            Ok(ZonedDevice::over(device, zones))
        }
        "scsi" => {
            check_runtime().map_err(Error::NoRuntime)?;
            let name = uri.to_string();
            let path = Path::new(&uri.target).to_owned();
            uri.finish()?;
            let read_only = access.is_read_only();
            let generic = Generic::open(&path, read_only)?;
            Ok(ScsiDrive::open(&name, generic, read_only)?)
        }
        other => Err(uri.error(format!(
            "there is no scheme `{other}`: use file:, block:, sim:, scsi: or volume:"
        ))),
    }
}
