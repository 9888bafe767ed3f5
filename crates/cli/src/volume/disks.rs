//! `moirai volume open`, `fail`, `replace`, `rebuild`, `grow` and `scrub`: disks of volumes with labelled devices.

use std::num::NonZeroU64;
use std::path::Path;
use std::sync::Arc;

use moirai::storage::{Device, DeviceUri};
use moirai::units::{BlockRange, ByteCount, grouped};
use moirai::volume::{
    Description, DevicesThere, DiskIndex, InspectedDisk, Inspection, MemberState, Repair, Scrubbed,
    Volume,
};
use moirai::{Access, NewFiles};

use serde::Serialize;

use super::create::{lasting_name, new_device};
use super::show;
use crate::failure::{Failure, verdict};
use crate::{output, print, progress, run};

pub(super) fn open(path: &Path, devices: &[String], degraded: bool) -> Result<(), Failure> {
    if !devices.is_empty() {
        describe(path, devices)?;
    }
    with_labels(path, async |_, there| {
        there.assemble(degraded).await?.flush().await?;
        Ok(())
    })?;
    show::show(path, false)
}

/// Describes the volume that `devices` belong to, as their labels say.
fn describe(path: &Path, devices: &[String]) -> Result<(), Failure> {
    if path.exists() {
        let problem = format!("{} exists: open it without --device", path.display());
        return Err(Failure::Usage(problem));
    }
    let mut description = run::in_time(moirai::are_simulated(devices)?, async {
        let there = DevicesThere::of(path, devices, to_write)?;
        let Inspection { volume, layout, integrity, disks, .. } = there.inspect().await?;
        let names = disks.iter().filter_map(|disk| there.uri(disk)).map(str::to_owned).collect();
        let mut description = Description::new(names, volume.layout().level(), layout);
        description.integrity = integrity;
        Ok::<_, Failure>(description)
    })?;
    description.labels = true;
    output::write(path, &description.text_for(path)?)
}

/// Opens a device of a volume, which exists.
fn to_write(uri: DeviceUri) -> moirai::storage::Result<Arc<dyn Device>> {
    moirai::devices::open(uri, Access::Write)
}

pub(super) fn fail(path: &Path, disk: DiskIndex) -> Result<(), Failure> {
    with_labels(path, async |_, there| {
        let volume = there.assemble(false).await?;
        let disks = volume.devices().len();
        if disk.0 >= disks {
            return Err(Failure::Usage(format!(
                "there is no disk {}: the volume has {disks}",
                disk.0
            )));
        }
        if !volume.survives_without(disk) {
            return Err(Failure::Failed(format!(
                "disk {} is needed: the volume would lose data without it (it survives {} further failures now)",
                disk.0,
                volume.survives()
            )));
        }
        volume.fail(disk);
        volume.flush().await?;
        Ok(())
    })?;
    show::show(path, false)
}

pub(super) fn replace(path: &Path, disk: DiskIndex, uri: &str, force: bool) -> Result<(), Failure> {
    let described = run::creating(|files| {
        with_labels(path, async |mut description, mut there| {
            let inspection = there.inspect().await?;
            let new = description.name_of(&lasting_name(uri)?);
            let is_new = |disk: &InspectedDisk| there.uri(disk) == Some(&new);
            if let Some(disk) = inspection.disks.iter().position(is_new) {
                let problem = format!("{new} is disk {disk} of the volume, and in use");
                return Err(Failure::Failed(problem));
            }
            let old = old_name(&description, &there, disk, &inspection, &new);
            // One that failed may come back as a new one.
            there.forget(&new);
            let (device, held) = new_device(uri, files, force).await?;
            there.replace(disk, device).await?;
            if let Some(occupant) = held {
                print::note_of_loss(uri, &occupant);
            }
            description.devices.retain(|name| *name != new);
            match description.devices.iter_mut().find(|name| old.as_ref() == Some(name)) {
                Some(old) => *old = new,
                None => description.devices.push(new),
            }
            Ok(description)
        })
    })?;
    output::replace(path, &described.text_for(path)?)?;
    show::show(path, false)?;
    print::line(format!("\nnext, rebuild the disk: moirai volume rebuild {}", path.display()))
}

/// What the description calls the device that was `disk`, in whose place `new` comes: the one whose label says so, or
/// else the one that is gone, or has no label that can be read. When several disks or devices are gone, none is taken
/// for it.
fn old_name(
    description: &Description,
    there: &DevicesThere,
    disk: DiskIndex,
    inspection: &Inspection,
    new: &str,
) -> Option<String> {
    if let Some(stale) = there.stale_uri(disk, inspection) {
        return Some(stale.to_owned());
    }
    if inspection.disks.iter().filter(|one| one.device.is_none()).count() > 1 {
        return None;
    }
    let is_gone = |name: &&String| !there.is_labelled(name, inspection) && *name != new;
    let mut gone = description.devices.iter().filter(is_gone);
    gone.next().filter(|_| gone.next().is_none()).cloned()
}

pub(super) fn grow(
    path: &Path,
    added: &[String],
    rate: Option<ByteCount>,
    force: bool,
) -> Result<(), Failure> {
    if !added.is_empty() {
        let described = run::creating(|files| {
            with_labels(path, async |mut description, there| {
                let (mut devices, mut held) = (Vec::new(), Vec::new());
                for uri in added {
                    let (device, occupant) = new_device(uri, files, force).await?;
                    devices.push(device);
                    held.extend(occupant.map(|occupant| (uri, occupant)));
                    description.devices.push(lasting_name(uri)?);
                }
                there.add_disks(&devices).await?;
                held.iter().for_each(|(uri, occupant)| print::note_of_loss(uri, occupant));
                Ok(description)
            })
        })?;
        output::replace(path, &described.text_for(path)?)?;
    }
    let bytes_per_s = rate.and_then(|rate| NonZeroU64::new(rate.0));
    with_labels(path, async |_, there| {
        let volume = there.assemble(false).await?;
        let bar = progress::bar("moving", volume.moved().map(|(_, all)| all));
        let grown = volume.grow(bytes_per_s, |moved, _| bar.set_position(moved)).await;
        bar.finish_and_clear();
        Ok(grown?)
    })?;
    // It takes its new size when it is opened.
    open(path, &[], false)
}

pub(super) fn rebuild(path: &Path, rate: Option<ByteCount>) -> Result<(), Failure> {
    for spare in Description::read(path)?.spares {
        place_spare(path, &spare)?;
    }
    let bytes_per_s = rate.and_then(|rate| NonZeroU64::new(rate.0));
    with_labels(path, async |_, there| {
        let volume: Arc<Volume> = there.assemble(false).await?;
        let bar = progress::bar("rebuilding", Some(volume.layout().stripes()));
        let rebuilt = volume.rebuild(bytes_per_s, |done, _| bar.set_position(done)).await;
        bar.finish_and_clear();
        let lost = rebuilt?;
        volume.flush().await?;
        if !lost.is_empty() {
            return verdict(print_ranges("lost", &lost), Err(some_lost(path)));
        }
        let disks = (0..volume.devices().len()).map(DiskIndex);
        match disks.into_iter().find(|disk| volume.state(*disk) != MemberState::Ready) {
            None => Ok(()),
            Some(disk) => Err(Failure::Failed(format!(
                "disk {} failed, or has no device yet: give it one with `moirai volume replace`, or see `moirai volume \
                 show {}`",
                disk.0,
                path.display()
            ))),
        }
    })?;
    show::show(path, false)
}

/// Puts a spare in the place of the first disk that failed, if there is one; says so when it cannot be used.
fn place_spare(path: &Path, spare: &str) -> Result<(), Failure> {
    let placed = with_labels(path, async |mut description, there| {
        let inspection = there.inspect().await?;
        let failed = |disk: &InspectedDisk| disk.state == MemberState::Failed;
        let Some(disk) = inspection.disks.iter().position(failed).map(DiskIndex) else {
            return Ok(None);
        };
        let old = old_name(&description, &there, disk, &inspection, spare);
        drop(inspection);
        let files = NewFiles::new();
        let placed = match new_device(spare, &files, false).await {
            Ok((device, _)) => there.replace(disk, device).await.map_err(Failure::from),
            Err(problem) => Err(problem),
        };
        if let Err(problem) = placed {
            files.remove();
            print::line(format!("{spare} cannot be used: {problem}"))?;
            return Ok(None);
        }
        description.spares.retain(|other| other != spare);
        match description.devices.iter_mut().find(|name| old.as_ref() == Some(name)) {
            Some(old) => *old = lasting_name(spare)?,
            None => description.devices.push(lasting_name(spare)?),
        }
        Ok(Some((description, disk)))
    })?;
    let Some((description, disk)) = placed else { return Ok(()) };
    output::replace(path, &description.text_for(path)?)?;
    print::line(format!("{spare} takes the place of disk {}", disk.0))
}

#[derive(Serialize)]
struct Shown {
    stripes: u64,
    restored_units: u64,
    differing_stripes: usize,
    /// First block and the one after the last of each stripe.
    differing: Vec<[u64; 2]>,
    /// Blocks that can be neither read nor reconstructed, in the same form.
    lost: Vec<[u64; 2]>,
    /// Blocks that were lost, and are zeros now.
    cleared: Vec<[u64; 2]>,
    repaired: bool,
}

/// Ranges that are printed; JSON has them all.
const RANGES_SHOWN: usize = 10;

/// Prints the first of `ranges`, and how many blocks all of them have.
fn print_ranges(what: &str, ranges: &[BlockRange]) -> Result<(), Failure> {
    for blocks in ranges.iter().take(RANGES_SHOWN) {
        print::line(format!("  {what}: {blocks}"))?;
    }
    if ranges.len() > RANGES_SHOWN {
        let more = ranges.len() - RANGES_SHOWN;
        let blocks: u64 = ranges.iter().map(|range| range.count.0).sum();
        print::line(format!(
            "  and {} more; {} blocks in all",
            grouped(more as u64),
            grouped(blocks)
        ))?;
    }
    Ok(())
}

/// The error where a volume has lost blocks.
fn some_lost(path: &Path) -> Failure {
    Failure::Failed(format!(
        "some blocks can be neither read nor reconstructed; restore what was in them from a backup, or fill them with \
         zeros: moirai volume scrub {} --clear-lost",
        path.display()
    ))
}

pub(super) fn scrub(
    path: &Path,
    rate: Option<ByteCount>,
    repair: Repair,
    json: bool,
) -> Result<(), Failure> {
    let bytes_per_s = rate.and_then(|rate| NonZeroU64::new(rate.0));
    let (scrubbed, stripes) = with_labels(path, async |_, there| {
        let volume = there.assemble(false).await?;
        let stripes = volume.layout().stripes();
        let bar = progress::bar("scrubbing", Some(stripes));
        let scrubbed = volume.scrub(bytes_per_s, repair, |done| bar.set_position(done)).await;
        bar.finish_and_clear();
        Ok((scrubbed?, stripes))
    })?;
    let Scrubbed { differing, lost, cleared, .. } = &scrubbed;
    let ends = |blocks: &BlockRange| [blocks.first.0, blocks.end().0];
    let shown = Shown {
        stripes,
        restored_units: scrubbed.restored_units,
        differing_stripes: differing.len(),
        differing: differing.iter().map(ends).collect(),
        lost: lost.iter().map(ends).collect(),
        cleared: cleared.iter().map(ends).collect(),
        repaired: repair.differing,
    };
    let print = || {
        if json {
            print::json(&shown)?;
        } else {
            let blocks = |ranges: &[BlockRange]| {
                grouped(ranges.iter().map(|range| range.count.0).sum::<u64>())
            };
            print::line(format!(
                "{} stripes: {} units rewritten, {} stripes differ, {} blocks lost",
                grouped(stripes),
                grouped(shown.restored_units),
                grouped(differing.len() as u64),
                blocks(lost)
            ))?;
            print_ranges("differs", differing)?;
            print_ranges("lost", lost)?;
            if !cleared.is_empty() {
                print::line(format!("{} lost blocks are zeros now", blocks(cleared)))?;
                print_ranges("cleared", cleared)?;
            }
        }
        Ok(())
    };
    let found = match lost.is_empty() {
        false => Err(some_lost(path)),
        true if differing.is_empty() || repair.differing => Ok(()),
        true => Err(Failure::Failed(
            "copies or parity do not match the data, and nothing tells which disk is wrong: if something on the volume is \
             damaged, do not repair it, since --repair trusts the data; see `moirai volume scrub --help` for how to find the disk"
                .to_owned(),
        )),
    };
    verdict(print(), found)
}

/// Runs `command` on the devices that the description in the file at `path` names.
fn with_labels<T>(
    path: &Path,
    command: impl AsyncFnOnce(Description, DevicesThere) -> Result<T, Failure>,
) -> Result<T, Failure> {
    let description = Description::read(path)?;
    if !description.labels {
        return Err(Failure::Failed(format!(
            "{}: the volume's devices have no labels, so nothing tells which of them failed: make the volume with \
             `moirai volume create`",
            path.display()
        )));
    }
    run::in_time(moirai::are_simulated(&description.devices)?, async {
        let there = DevicesThere::of(path, &description.devices, to_write)?;
        command(description, there).await
    })
}
