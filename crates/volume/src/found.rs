//! Devices of a volume as their labels say: which label counts, and who is who.

use std::sync::Arc;

use moirai_storage::{Device, Error, Result};

use crate::format::sections;
use crate::label::{Copy, Label, MemberLabel, Newest};
use crate::laid::Laid;
use crate::members::{Member, MemberState, Members, Parts};
use crate::shape::Shape;
use crate::sums::{Summed, blocks_covered};
use crate::{DiskIndex, Layout};

/// Openings, and generations of labels, that a volume lives to see.
const GENERATION_MAX: u64 = 1 << 31;

/// A device, and the label that counts on it.
pub(crate) struct Labelled {
    pub(crate) device: Arc<dyn Device>,
    pub(crate) label: Label,
    pub(crate) copy: Copy,
    /// See [`Newest::is_alone`].
    is_alone: bool,
}

impl Labelled {
    /// Whether `newest` still counts this device among the volume's: it is the one that was last put
    /// in its place, has not failed, and does not hold what it held before an earlier opening, as from a copy that was
    /// written back.
    pub(crate) fn state(&self, newest: &Label) -> MemberState {
        let disk = self.label.disk.0;
        let (Some(own), Some(now)) = (self.label.members.get(disk), newest.members.get(disk))
        else {
            return MemberState::Failed;
        };
        match (now.state, own.state) {
            _ if own.id != now.id || self.went_back(newest) => MemberState::Failed,
            (MemberState::Rebuilding(now), MemberState::Rebuilding(own)) => {
                MemberState::Rebuilding(now.min(own))
            }
            // It was told less than it should have been.
            (MemberState::Rebuilding(_), MemberState::Failed) => MemberState::Failed,
            (now, _) => now,
        }
    }

    /// Whether it holds what it held before an opening that it took part in. Where a label cannot be read that may be newer, nobody
    /// knows.
    fn went_back(&self, newest: &Label) -> bool {
        let opened = self.label.opening.map_or(0, |opening| opening.generation);
        let of = |label: &Label| label.members.get(self.label.disk.0).copied();
        let (own, now) = (of(&self.label), of(newest));
        !self.is_alone
            && own.zip(now).is_some_and(|(own, now)| own.id == now.id && opened < now.opened)
    }
}

/// Devices of one volume, as their labels say.
pub(crate) struct Found {
    /// The label that counts.
    pub(crate) label: Label,
    pub(crate) all: Vec<Labelled>,
    /// The devices that cannot be used, each with the reason.
    pub(crate) unusable: Vec<String>,
}

impl Found {
    /// Reads the labels of `devices`. A device whose label cannot be read, or that is shorter than the volume needs,
    /// counts as missing.
    pub(crate) async fn among(name: &str, devices: &[Arc<dyn Device>]) -> Result<Found> {
        let bad = |problem: String| Error::Description { path: name.into(), problem };
        let mut all: Vec<Labelled> = Vec::new();
        let mut unusable = Vec::new();
        for device in devices {
            let called = &device.inquiry().name;
            let Some(Newest { label, copy, is_alone }) = Label::read(&**device).await? else {
                unusable.push(format!("{called} (no volume label can be read)"));
                continue;
            };
            if let Some(other) = all.iter().find(|other| other.label.volume != label.volume) {
                let other = &other.device.inquiry().name;
                return Err(bad(format!("{called} and {other} belong to different volumes")));
            }
            let capacity = device.inquiry().capacity;
            if !label.fits(capacity) || label.generation >= GENERATION_MAX {
                unusable.push(format!("{called} (its label is damaged, or it was larger)"));
                continue;
            }
            if label.end().is_some_and(|end| end > capacity.0) {
                let has = capacity.bytes();
                unusable.push(format!("{called} (its {has} are less than it had in the volume)"));
                continue;
            }
            all.push(Labelled { device: Arc::clone(device), label, copy, is_alone });
        }
        if all.is_empty() {
            return Err(bad(format!("none of the devices can be used{}", without(&unusable))));
        }
        // The label that counts comes after all others, but for those of devices that failed before it
        // was written and were opened apart since.
        let counts = |label: &Label| {
            all.iter().all(|other| {
                label.follows(&other.label) || other.state(label) == MemberState::Failed
            })
        };
        let apart = || {
            bad("the devices were opened and written as two separate groups: name the devices of one group"
                .into())
        };
        let counting = || all.iter().map(|one| &one.label).filter(|label| counts(label));
        // Of two as new the one that more devices have: the other was begun, and not finished.
        let agreeing =
            |label: &Label| all.iter().filter(|other| other.label.members == label.members).count();
        let newest = counting().max_by_key(|label| (label.generation, agreeing(label)));
        let label = newest.cloned().ok_or_else(apart)?;
        // Two sides that each call the other failed.
        if counting().any(|other| !label.follows(other)) {
            return Err(apart());
        }
        let stale = all.iter().filter(|one| one.went_back(&label)).map(|one| {
            let called = &one.device.inquiry().name;
            format!("{called} (it holds what it held before an earlier opening, as if a copy had been written back)")
        });
        unusable.extend(stale);
        Ok(Found { label, all, unusable })
    }

    /// The device in the place of a disk that can be used, and how far.
    pub(crate) fn member(&self, disk: DiskIndex) -> Option<(&Labelled, MemberState)> {
        let of_disk = self.all.iter().filter(|one| one.label.disk == disk);
        of_disk
            .map(|one| (one, one.state(&self.label)))
            .find(|(_, state)| *state != MemberState::Failed)
    }

    pub(crate) fn device(&self, disk: DiskIndex) -> Option<Arc<dyn Device>> {
        self.member(disk).map(|(one, _)| Arc::clone(&one.device))
    }

    /// Whether `device` is a disk of the volume, and has not failed.
    pub(crate) fn is_used(&self, device: &Arc<dyn Device>) -> bool {
        self.all.iter().any(|one| {
            Arc::ptr_eq(&one.device, device) && one.state(&self.label) != MemberState::Failed
        })
    }

    /// Writes `label`, which comes after the one that counts, to the disks that are there.
    pub(crate) async fn write(&self, label: &Label) -> Result<()> {
        for disk in self.disks() {
            if let Some((one, _)) = self.member(disk) {
                let label = Label { disk, ..label.clone() };
                label.write(&one.device, one.copy.other()).await?;
            }
        }
        Ok(())
    }

    /// Whether a device in use may have had a later label, which cannot be read.
    pub(crate) fn has_lost_label(&self) -> bool {
        self.disks().any(|disk| self.member(disk).is_some_and(|(one, _)| one.is_alone))
    }

    pub(crate) fn disks(&self) -> impl Iterator<Item = DiskIndex> + use<> {
        (0..self.label.members.len()).map(DiskIndex)
    }

    /// Disks that should be there and are not.
    pub(crate) fn missing(&self) -> Vec<usize> {
        let should = |disk: &DiskIndex| {
            let state = self.label.members.get(disk.0).map(|member| member.state);
            state != Some(MemberState::Failed) && self.member(*disk).is_none()
        };
        self.disks().filter(should).map(|disk| disk.0).collect()
    }

    /// A device for each disk; of one that is not there nothing is asked, and any may stand in.
    pub(crate) fn devices(&self, stand_in: &Arc<dyn Device>) -> Vec<Arc<dyn Device>> {
        let device = |disk| self.member(disk).map_or(stand_in, |(one, _)| &one.device);
        self.disks().map(|disk| Arc::clone(device(disk))).collect()
    }

    pub(crate) fn states(&self) -> Vec<MemberState> {
        let state = |disk| self.member(disk).map_or(MemberState::Failed, |(_, state)| state);
        self.disks().map(state).collect()
    }

    /// An error when the units of a disk that is there would lie elsewhere than they do.
    pub(crate) fn check_slots(&self, name: &str, layout: &Layout) -> Result<()> {
        let is_elsewhere = |(disk, member): (DiskIndex, &MemberLabel)| {
            self.member(disk).is_some() && layout.slots_checksum(disk) != member.slots
        };
        match self.disks().zip(&self.label.members).any(is_elsewhere) {
            true => Err(divided_otherwise(name)),
            false => Ok(()),
        }
    }

    /// The volume's layout and devices, as far as they are there.
    pub(crate) fn together(&self, name: &str) -> Result<(Laid, Members)> {
        let Some((any, _)) = self.disks().find_map(|disk| self.member(disk)) else {
            let problem = "none of the devices can be used".into();
            return Err(Error::Description { path: name.into(), problem });
        };
        let devices = self.devices(&any.device);
        let laid = laid_over(name, &self.label, &devices)?;
        self.check_slots(name, &laid.shape.layout)?;
        let mut members = Vec::with_capacity(devices.len());
        for (whole, state) in devices.into_iter().zip(self.states()) {
            members.push(Member::new(parts(&self.label, whole)?, state));
        }
        let members = Members::new(name.to_owned(), members);
        if let Some(growth) = self.label.growth {
            members.move_to(growth.moved);
            members.moved_durably(growth.moved);
        }
        Ok((laid, members))
    }
}

/// The devices that cannot be used, as the end of a message.
pub(crate) fn without(unusable: &[String]) -> String {
    match unusable {
        [] => String::new(),
        names => format!("; not counted: {}", names.join(", ")),
    }
}

/// A device as the label says that its parts lie.
pub(crate) fn parts(label: &Label, whole: Arc<dyn Device>) -> Result<Parts> {
    let section = sections(std::slice::from_ref(&whole), label.data)?.pop();
    let data = section.unwrap_or_else(|| Arc::clone(&whole));
    if label.sums.is_empty() {
        return Ok(Parts { whole, data, summed: None });
    }
    let summed = Arc::new(Summed::new(data, Arc::clone(&whole), label.sums));
    let data = Arc::clone(&summed) as Arc<dyn Device>;
    Ok(Parts { whole, data, summed: Some(summed) })
}

/// The layout over `devices`, which must be the one that the volume was made with.
pub(crate) fn laid_over(name: &str, label: &Label, devices: &[Arc<dyn Device>]) -> Result<Laid> {
    let bad = |problem: String| Error::Description { path: name.into(), problem };
    let sections = sections(devices, label.data)?;
    let over = |devices: &[Arc<dyn Device>]| {
        let laid = Laid::kept_on(devices, label.level, label.layout, &label.zones).map_err(bad)?;
        // Without the smallest device there would be more of them.
        Ok(laid.limited_to(label.stripes))
    };
    let mut laid = over(&sections)?;
    let Shape { layout, old } = &mut laid.shape;
    if let Some(growth) = label.growth {
        let before = over(sections.get(..growth.from_disks).unwrap_or_default())?.shape.layout;
        if growth.moved > layout.stripes() {
            return Err(bad(
                "the labels are damaged: they count more moved stripes than the volume has".into(),
            ));
        }
        if !layout.extends(&before) {
            return Err(bad(
                "the added disks are smaller than the other disks or have other defects, so \
                            existing stripes would not keep their places"
                    .into(),
            ));
        }
        *old = Some(before);
    }
    let capacity = old.as_ref().unwrap_or(layout).capacity();
    if capacity != label.capacity {
        return Err(bad(format!(
            "the devices give {capacity}, but the volume was created with {}: a replacement is smaller \
             than the original device, or has other defects",
            label.capacity
        )));
    }
    if !label.sums.is_empty() && layout.end() > blocks_covered(label.sums.count) {
        return Err(bad(
            "a device has data blocks without checksums: its track boundaries differ from the other \
             devices, or an outer zone is larger"
                .into(),
        ));
    }
    if (layout.stripes(), layout.division()) != (label.stripes, label.division) {
        return Err(divided_otherwise(name));
    }
    Ok(laid)
}

fn divided_otherwise(name: &str) -> Error {
    let problem = "the devices have other track boundaries than when the volume was created: give files the \
                   same `ensemble`, and replaced disks the same defects";
    Error::Description { path: name.into(), problem: problem.into() }
}
