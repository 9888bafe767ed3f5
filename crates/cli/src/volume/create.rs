//! `moirai volume create`, and parts that are added to a volume of parts.

use std::path::Path;
use std::sync::Arc;

use moirai::storage::{Device, DeviceUri, Occupant, clear_ends, occupants};
use moirai::units::{BlockCount, ByteCount};
use moirai::volume::{
    ControllerTable, Description, Format, LayoutDescription, Level, Part, StripeUnit, Volume,
    default_layout, format, has_switch,
};
use moirai::{Access, NewFiles};

use super::{LayoutArguments, LayoutKind, show};
use crate::failure::Failure;
use crate::{output, print, progress, run};

/// A volume as the command line describes it.
pub(super) struct Wanted {
    pub(super) devices: Vec<String>,
    pub(super) parts: Vec<String>,
    pub(super) spares: Vec<String>,
    pub(super) level: Level,
    pub(super) layout: LayoutArguments,
    pub(super) integrity: bool,
    pub(super) controller: Option<ControllerTable>,
}

/// Less of the possible capacity than this, in percent, is explained.
const CAPACITY_PERCENT_MIN: f64 = 95.0;

pub(super) fn create(path: &Path, wanted: &Wanted, force: bool) -> Result<(), Failure> {
    if path.exists() {
        return Err(Failure::Failed(format!(
            "{} exists: choose another name, or remove the file",
            path.display()
        )));
    }
    if let Some(controller) = &wanted.controller {
        controller.size(path)?;
    }
    let uris: Vec<String> = wanted.devices.iter().chain(&wanted.parts).cloned().collect();
    let is_virtual = moirai::are_simulated(&uris)?;
    // First: if the description cannot be written, no device loses what it holds.
    let file = output::NewFile::create(path)?;
    let notes = run::creating(|files| {
        let (mut description, notes) = run::in_time(is_virtual, async {
            match wanted.parts.is_empty() {
                true => of_devices(path, wanted, files, force).await,
                false => {
                    let parts = parts(&wanted.parts, &[], files, force).await?;
                    Ok((Description::concatenated(parts), Vec::new()))
                }
            }
        })?;
        description.controller.clone_from(&wanted.controller);
        file.write(&description.text_for(path)?)?;
        Ok(notes)
    })?;
    show::show(path, false)?;
    print::notes(&notes);
    Ok(())
}

/// Makes a volume of devices; gives its description, and what should be said of its capacity.
async fn of_devices(
    path: &Path,
    wanted: &Wanted,
    files: &NewFiles,
    force: bool,
) -> Result<(Description, Vec<String>), Failure> {
    let mut devices = Vec::new();
    for uri in &wanted.devices {
        devices.push(moirai::devices::open(uri.parse()?, Access::Create(files))?);
    }
    // Nothing is cleared before it is known that the volume can be made.
    let held = occupants(&devices, force).await?;
    let level = wanted.level;
    level
        .check(devices.len())
        .map_err(|problem| Failure::Failed(format!("{}: {problem}", path.display())))?;
    let layout = chosen_layout(&wanted.layout, &devices, level)?;
    let names: Vec<String> =
        wanted.devices.iter().map(|uri| lasting_name(uri)).collect::<Result<_, _>>()?;
    let mut description = Description::new(names, level, layout);
    description.spares.clone_from(&wanted.spares);
    description.integrity = wanted.integrity;
    description.check_labels(path)?;
    let is_new = |uri: &String| {
        let uri: Option<DeviceUri> = uri.parse().ok();
        uri.and_then(|uri| uri.data_path()).is_some_and(|path| files.contains(&path))
    };
    let is_blank = wanted.devices.iter().all(is_new);
    let integrity = description.integrity;
    let how = Format { level, layout, journal: None, integrity, is_blank };
    let name = path.display().to_string();
    let volume = match description.labels {
        true => how.lay_out(name.clone(), devices.clone())?,
        false => Volume::new(name.clone(), devices.clone(), level, layout)
            .map_err(|problem| Failure::Failed(format!("{name}: {problem}")))?,
    };
    let notes = capacity_notes(&volume, layout);
    drop(volume);
    if description.labels {
        let bar = progress::bar("clearing", Some(0));
        let progress = |done: BlockCount, all: BlockCount| {
            bar.set_length(all.0);
            bar.set_position(done.0);
        };
        format(&name, &devices, how, progress).await?;
        bar.finish_and_clear();
    }
    for (index, occupant) in &held {
        let (Some(device), Some(uri)) = (devices.get(*index), wanted.devices.get(*index)) else {
            continue;
        };
        if !description.labels {
            clear_ends(&**device).await?;
        }
        print::note_of_loss(uri, occupant);
    }
    Ok((description, notes))
}

/// The layout that was asked for; what was not follows from the devices.
fn chosen_layout(
    arguments: &LayoutArguments,
    devices: &[Arc<dyn Device>],
    level: Level,
) -> Result<LayoutDescription, Failure> {
    let LayoutArguments { layout, unit, depth, block, zone } = arguments;
    let wants_quadrangles = depth.is_some() || block.is_some() || zone.is_some();
    let fitting = default_layout(devices, level)?;
    let layout = match (layout, unit) {
        (Some(layout), _) => *layout,
        (None, Some(_)) => LayoutKind::Stripe,
        (None, None) if wants_quadrangles => LayoutKind::Quadrangle,
        (None, None) => match fitting {
            LayoutDescription::Stripe { .. } => LayoutKind::Stripe,
            LayoutDescription::Quadrangle { .. } => LayoutKind::Quadrangle,
        },
    };
    match layout {
        LayoutKind::Stripe if wants_quadrangles => Err(Failure::Usage(
            "--depth, --block and --zone are for quadrangles: leave them out, or say --layout quadrangle".into(),
        )),
        LayoutKind::Quadrangle if unit.is_some() => Err(Failure::Usage(
            "--unit is for stripes: leave it out, or say --layout stripe".into(),
        )),
        LayoutKind::Quadrangle if depth.is_none() && !has_switch(devices)? => {
            Err(Failure::Usage(
                "the devices lose no time between their ensembles, so no depth of quadrangles is better than \
                 another: leave --layout out for stripes, or give --depth"
                    .into(),
            ))
        }
        LayoutKind::Quadrangle => Ok(LayoutDescription::Quadrangle {
            depth: *depth,
            block: BlockCount(block.unwrap_or(1)),
            zone: *zone,
        }),
        LayoutKind::Stripe => Ok(match (unit, fitting) {
            (Some(unit), _) => LayoutDescription::Stripe { unit: *unit },
            (None, fitting @ LayoutDescription::Stripe { .. }) => fitting,
            // Disks: a unit that is their track crosses no boundary.
            (None, LayoutDescription::Quadrangle { .. }) => {
                LayoutDescription::Stripe { unit: StripeUnit::Track }
            }
        }),
    }
}

/// Why a volume uses less than 95 % of what its level could use of the devices, and what to change.
fn capacity_notes(volume: &Volume, layout: LayoutDescription) -> Vec<String> {
    let level = volume.layout().level();
    let capacities: Vec<u64> =
        volume.devices().iter().map(|device| device.inquiry().capacity.bytes().0).collect();
    let disks = capacities.len();
    let used = volume.inquiry().capacity.bytes().0 as f64;
    let smallest = capacities.iter().min().copied().unwrap_or(0);
    let all: u64 = capacities.iter().sum();
    let share = level.data_units(disks) as f64 / disks as f64;
    let (of_smallest, of_all) = ((smallest * disks as u64) as f64 * share, all as f64 * share);
    let mut notes = Vec::new();
    let percent = |used: f64, of: f64| used / of.max(1.0) * 100.0;
    if percent(of_smallest, of_all) < CAPACITY_PERCENT_MIN {
        let unused = ByteCount(all - smallest * disks as u64);
        notes.push(format!(
            "the devices differ in size, and each is used up to the size of the smallest, {}: {unused} stay unused; \
             use devices of one size, or make volumes of those of one size and join them with --part",
            ByteCount(smallest)
        ));
    }
    if percent(used, of_smallest) < CAPACITY_PERCENT_MIN {
        let why = match layout {
            LayoutDescription::Quadrangle { zone: Some(_), .. } => {
                "only one zone is used: leave --zone out for all of them"
            }
            LayoutDescription::Quadrangle { .. } => {
                "quadrangles leave sectors and tracks over: try another --depth or --block, or --layout stripe"
            }
            LayoutDescription::Stripe { .. } if level.failures(disks) > 0 => {
                "labels and the journal take the rest: use larger devices, or a smaller --unit"
            }
            LayoutDescription::Stripe { .. } => {
                "the rest is too short for a stripe: use a smaller --unit"
            }
        };
        notes.push(format!(
            "the volume has {:.1} % of the capacity that {level} could give on these devices; {why}",
            percent(used, of_smallest)
        ));
    }
    notes
}

/// Adds parts to a volume of parts.
pub(super) fn append(path: &Path, uris: Vec<String>, force: bool) -> Result<(), Failure> {
    let mut description = Description::read(path)?;
    if description.parts.is_empty() {
        return Err(Failure::Failed(format!(
            "{}: the volume has devices and a layout: make a volume of parts, with --part volume:{0}, first",
            path.display()
        )));
    }
    let there = description.uris();
    let all: Vec<String> = there.iter().chain(&uris).cloned().collect();
    let is_virtual = moirai::are_simulated(&all)?;
    run::creating(|files| {
        let added = run::in_time(is_virtual, parts(&uris, &there, files, force))?;
        description.parts.extend(added);
        output::replace(path, &description.text_for(path)?)
    })?;
    show::show(path, false)
}

/// The parts that `uris` name, with the blocks that they have now; `there` are the parts that the volume has. The first
/// part of a volume keeps its data, whose blocks keep their numbers; the others must be blank, unless `force`.
async fn parts(
    uris: &[String],
    there: &[String],
    files: &NewFiles,
    force: bool,
) -> Result<Vec<Part>, Failure> {
    let (mut parts, mut devices) = (Vec::new(), Vec::new());
    for (index, uri) in uris.iter().enumerate() {
        if uris.iter().take(index).chain(there).any(|other| other == uri) {
            return Err(Failure::Failed(format!("{uri} is a part already")));
        }
        let device = moirai::open_device_for(uri, Access::Create(files)).await?;
        parts.push(Part { uri: lasting_name(uri)?, blocks: device.inquiry().capacity.0 });
        devices.push(device);
    }
    let kept = usize::from(there.is_empty());
    let added = devices.get(kept..).unwrap_or_default();
    if let (1, Some(first), Some(uri)) = (kept, devices.first(), uris.first())
        && let Some((_, occupant)) = occupants(std::slice::from_ref(first), true).await?.pop()
    {
        print::note(format!("{uri} holds {occupant}, which the volume keeps"));
    }
    for (index, occupant) in occupants(added, force).await? {
        if let (Some(device), Some(uri)) = (added.get(index), uris.get(kept + index)) {
            clear_ends(&**device).await?;
            print::note_of_loss(uri, &occupant);
        }
    }
    Ok(parts)
}

/// Opens a device that is to be taken into use, or creates it; gives what it holds, which is an error unless `force`.
pub(super) async fn new_device(
    uri: &str,
    files: &NewFiles,
    force: bool,
) -> Result<(Arc<dyn Device>, Option<Occupant>), Failure> {
    let device = moirai::devices::open(uri.parse()?, Access::Create(files))?;
    let held = occupants(std::slice::from_ref(&device), force).await?.pop();
    Ok((device, held.map(|(_, occupant)| occupant)))
}

/// The URI of a device that exists now, for a description: opening never creates it again.
pub(super) fn lasting_name(uri: &str) -> Result<String, Failure> {
    let uri: DeviceUri = uri.parse()?;
    Ok(uri.without("size"))
}
