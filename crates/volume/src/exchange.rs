//! Other devices for a volume: in the place of one that failed, or beside the others.

use std::sync::Arc;

use moirai_storage::{Device, Error, Result};

use crate::format::{begin, check_count, journal_blocks_min};
use crate::found::{Found, laid_over};
use crate::label::{Growth, Label, MemberLabel};
use crate::{DiskIndex, LayoutDescription, MemberState};

/// Makes `device` a new, empty disk of the volume that `devices` are of, in the place of one that failed
/// or is missing. It is filled once the volume is put together and [rebuilt](Volume::rebuild).
pub async fn replace(
    name: &str,
    devices: &[Arc<dyn Device>],
    disk: DiskIndex,
    device: Arc<dyn Device>,
) -> Result<()> {
    let bad = |problem: String| Error::Description { path: name.into(), problem };
    let found = Found::among(name, devices).await?;
    let disks = found.label.members.len();
    if disk.0 >= disks {
        return Err(bad(format!("there is no disk {}: the volume has {disks}", disk.0)));
    }
    if found.member(disk).is_some() {
        return Err(bad(format!("disk {} has not failed: mark the disk as failed first", disk.0)));
    }
    let called = &device.inquiry().name;
    if found.is_used(&device) {
        return Err(bad(format!("{called} is a disk of this volume: name another device")));
    }
    let mut together = found.devices(&device);
    if let Some(place) = together.get_mut(disk.0) {
        *place = Arc::clone(&device);
    }
    let laid = laid_over(name, &found.label, &together)?;
    found.check_slots(name, &laid.shape.layout)?;
    let moved = found.label.growth.map_or(0, |growth| growth.moved);
    if !laid.shape.is_whole(&found.states(), moved) {
        return Err(bad(format!(
            "disk {} cannot be replaced while other disks that {} needs are missing: name their devices first",
            disk.0, found.label.level
        )));
    }
    let mut label = Label { generation: found.label.generation + 1, ..found.label.clone() };
    label.replace(disk, laid.shape.layout.slots_checksum(disk));
    begin(&Label { disk, ..label.clone() }, &device).await?;
    found.write(&label).await
}

/// Adds `added`, which lose what they hold, to the disks of the volume that `devices` are of. Once it is
/// put together [`Volume::grow`](crate::Volume::grow) spreads over them what it holds.
pub async fn add_disks(
    name: &str,
    devices: &[Arc<dyn Device>],
    added: &[Arc<dyn Device>],
) -> Result<()> {
    let bad = |problem: String| Error::Description { path: name.into(), problem };
    let found = Found::among(name, devices).await?;
    let had = found.label.members.len();
    let level = found.label.level;
    if found.label.growth.is_some() {
        return Err(bad(
            "the volume is growing: finish the growth first, with `moirai volume grow` or `Volume::grow`"
                .into(),
        ));
    }
    if level.failures(had) == 0 {
        return Err(bad(format!(
            "{level} has no journal, so a crash while the volume grows would lose data: create a larger volume"
        )));
    }
    if !matches!(found.label.layout, LayoutDescription::Stripe { .. }) {
        return Err(bad("only striped volumes can grow, and this volume has quadrangles".into()));
    }
    if found.states().iter().any(|state| *state != MemberState::Ready) {
        return Err(bad(
            "a disk has failed, is missing or is not yet rebuilt: replace and rebuild the disk first".into()
        ));
    }
    if let Some(again) = added.iter().find(|device| found.is_used(device)) {
        return Err(bad(format!(
            "{} is a disk of this volume: name another device",
            again.inquiry().name
        )));
    }
    check_count(name, had + added.len())?;
    let mut label = Label {
        generation: found.label.generation + 1,
        growth: Some(Growth { from_disks: had, moved: 0 }),
        ..found.label.clone()
    };
    let member = |_| MemberLabel::new(MemberState::Ready, 0);
    label.members.extend(added.iter().map(member));
    let mut together: Vec<Arc<dyn Device>> =
        found.disks().filter_map(|disk| found.device(disk)).collect();
    together.extend(added.iter().cloned());
    let laid = laid_over(name, &label, &together)?;
    found.check_slots(name, &laid.shape.layout)?;
    for (disk, member) in label.members.iter_mut().enumerate().skip(had) {
        member.slots = laid.shape.layout.slots_checksum(DiskIndex(disk));
    }
    let needed = journal_blocks_min(&together, laid.shape.layout.unit_max());
    if label.journal.count < needed {
        return Err(bad(format!(
            "the journal of {} is too small: {} disks need {needed}",
            label.journal.count,
            together.len()
        )));
    }
    // Labels that are older than all others do not count by themselves.
    for (disk, device) in (had..).map(DiskIndex).zip(added) {
        begin(&Label { disk, generation: 0, ..label.clone() }, device).await?;
    }
    // The volume grows once the first of these is written, and then all disks are there.
    found.write(&label).await
}
