//! Volumes whose devices know them: putting a volume together from devices in any order, without those that
//! are missing or stale.

use std::sync::Arc;

use moirai_runtime::unique;
use moirai_storage::{Device, Error, IoBuf, Result};

use crate::format::{begin, sections};
use crate::journal::{Journal, Record};
use crate::keeper::{Keeper, Labels, is_whole};
use crate::label::{Copy, Label, MemberLabel};
use crate::members::{Member, MemberState, Members};
use crate::plan::Present;
use crate::volume::Laid;
use crate::{DiskIndex, LayoutDescription, Role, Volume};

/// Records of one opening: their numbers are the lower bits.
const GENERATION_SHIFT: u32 = 32;

/// Openings, and generations of labels, that a volume lives to see.
const GENERATION_MAX: u64 = 1 << 31;

/// A device, and the label that counts on it.
struct Labelled {
    device: Arc<dyn Device>,
    label: Label,
    copy: Copy,
}

impl Labelled {
    /// Whether `newest` still counts this device among the volume's: it is the one that was last put
    /// in its place, and has not failed.
    fn state(&self, newest: &Label) -> MemberState {
        let disk = self.label.disk.0;
        let (Some(own), Some(now)) = (self.label.members.get(disk), newest.members.get(disk))
        else {
            return MemberState::Failed;
        };
        match (now.state, own.state) {
            _ if own.id != now.id => MemberState::Failed,
            (MemberState::Rebuilding(now), MemberState::Rebuilding(own)) => {
                MemberState::Rebuilding(now.min(own))
            }
            // It was told less than it should have been.
            (MemberState::Rebuilding(_), MemberState::Failed) => MemberState::Failed,
            (now, _) => now,
        }
    }
}

/// Devices of one volume, as their labels say.
struct Found {
    /// The label that counts.
    label: Label,
    all: Vec<Labelled>,
}

impl Found {
    /// Reads the labels of `devices`. With `degraded`, those without one are passed over.
    async fn among(name: &str, devices: &[Arc<dyn Device>], degraded: bool) -> Result<Found> {
        let bad = |problem: String| Error::Description { path: name.into(), problem };
        let mut all: Vec<Labelled> = Vec::new();
        for device in devices {
            let called = &device.inquiry().name;
            let Some((label, copy)) = Label::read(&**device).await? else {
                // Its labels may be what cannot be read of it: it is as good as missing.
                if degraded {
                    continue;
                }
                let problem =
                    "has no label of a volume that can be read: it is not part of one, or damaged";
                return Err(bad(format!("{called} {problem}")));
            };
            if all.iter().any(|other| other.label.volume != label.volume) {
                let problem = "is of another volume than the devices before it";
                return Err(bad(format!("{called} {problem}")));
            }
            if !label.fits(device.inquiry().capacity) || label.generation >= GENERATION_MAX {
                return Err(bad(format!(
                    "{called} has a label that does not fit it: it is damaged"
                )));
            }
            all.push(Labelled { device: Arc::clone(device), label, copy });
        }
        if all.is_empty() {
            return Err(bad("a volume has at least one device".into()));
        }
        // The label that counts comes after all others, but for those of devices that failed before it
        // was written and were opened apart since.
        let counts = |label: &Label| {
            all.iter().all(|other| {
                label.follows(&other.label) || other.state(label) == MemberState::Failed
            })
        };
        let newest = all.iter().map(|one| &one.label).filter(|label| counts(label));
        let label = newest.max_by_key(|label| label.generation).cloned().ok_or_else(|| {
            bad("its devices were opened apart from each other, and written: name those of one side"
                .into())
        })?;
        Ok(Found { label, all })
    }

    /// The device in the place of a disk that can be used, and how far.
    fn member(&self, disk: DiskIndex) -> Option<(&Labelled, MemberState)> {
        let of_disk = self.all.iter().filter(|one| one.label.disk == disk);
        of_disk
            .map(|one| (one, one.state(&self.label)))
            .find(|(_, state)| *state != MemberState::Failed)
    }

    fn disks(&self) -> impl Iterator<Item = DiskIndex> + use<> {
        (0..self.label.members.len()).map(DiskIndex)
    }

    /// Disks that should be there and are not.
    fn missing(&self) -> Vec<usize> {
        let should = |disk: &DiskIndex| {
            let state = self.label.members.get(disk.0).map(|member| member.state);
            state != Some(MemberState::Failed) && self.member(*disk).is_none()
        };
        self.disks().filter(should).map(|disk| disk.0).collect()
    }

    /// A device for each disk; of one that is not there nothing is asked, and any may stand in.
    fn devices(&self, stand_in: &Arc<dyn Device>) -> Vec<Arc<dyn Device>> {
        let device = |disk| self.member(disk).map_or(stand_in, |(one, _)| &one.device);
        self.disks().map(|disk| Arc::clone(device(disk))).collect()
    }

    fn states(&self) -> Vec<MemberState> {
        let state = |disk| self.member(disk).map_or(MemberState::Failed, |(_, state)| state);
        self.disks().map(state).collect()
    }

    /// The volume's layout and devices, as far as they are there.
    fn together(&self, name: &str) -> Result<(Laid, Members)> {
        let Some((any, _)) = self.disks().find_map(|disk| self.member(disk)) else {
            let problem = "none of its devices can be used".into();
            return Err(Error::Description { path: name.into(), problem });
        };
        let devices = self.devices(&any.device);
        let laid = self.laid_over(name, &devices)?;
        let parts = sections(&devices, self.label.data)?;
        let member = |((whole, data), state)| Member::new(whole, data, state);
        let members = devices.into_iter().zip(parts).zip(self.states()).map(member).collect();
        Ok((laid, Members::new(name.to_owned(), members)))
    }

    /// The layout over `devices`, which must be the one that the volume was made with.
    fn laid_over(&self, name: &str, devices: &[Arc<dyn Device>]) -> Result<Laid> {
        let bad = |problem: String| Error::Description { path: name.into(), problem };
        let sections = sections(devices, self.label.data)?;
        let laid = Laid::over(&sections, self.label.level, self.label.layout).map_err(bad)?;
        if laid.layout.capacity() != self.label.capacity {
            return Err(bad(format!(
                "the devices give {} and the volume was made with {}: one is smaller, or has other defects \
                 than the one in whose place it is",
                laid.layout.capacity(),
                self.label.capacity
            )));
        }
        Ok(laid)
    }
}

/// Makes `device` a new, empty disk of the volume that `devices` are of, in the place of one that failed
/// or is missing. It is filled once the volume is put together and [rebuilt](Volume::rebuild).
pub async fn replace(
    name: &str,
    devices: &[Arc<dyn Device>],
    disk: DiskIndex,
    device: Arc<dyn Device>,
) -> Result<()> {
    let bad = |problem: String| Error::Description { path: name.into(), problem };
    let found = Found::among(name, devices, true).await?;
    let disks = found.label.members.len();
    if disk.0 >= disks {
        return Err(bad(format!("there is no disk {} of {disks}", disk.0)));
    }
    if found.member(disk).is_some() {
        return Err(bad(format!("disk {} has not failed: it is not replaced", disk.0)));
    }
    let called = &device.inquiry().name;
    if found.all.iter().any(|one| {
        Arc::ptr_eq(&one.device, &device) && one.state(&found.label) != MemberState::Failed
    }) {
        return Err(bad(format!("{called} is a disk of the volume already")));
    }
    let mut together = found.devices(&device);
    if let Some(place) = together.get_mut(disk.0) {
        *place = Arc::clone(&device);
    }
    found.laid_over(name, &together)?;
    let mut label = Label { generation: found.label.generation + 1, ..found.label.clone() };
    if let Some(member) = label.members.get_mut(disk.0) {
        *member = MemberLabel { id: unique(), state: MemberState::Rebuilding(0) };
    }
    begin(&Label { disk, ..label.clone() }, &device).await?;
    for other in found.disks().filter(|other| *other != disk) {
        if let Some((one, _)) = found.member(other) {
            let label = Label { disk: other, ..label.clone() };
            label.write(&one.device, one.copy.other()).await?;
        }
    }
    Ok(())
}

/// Puts the volume together that `devices` are of, in whatever order they come. With `degraded`, also
/// when some are missing that the level can do without.
pub async fn assemble(
    name: String,
    devices: Vec<Arc<dyn Device>>,
    degraded: bool,
) -> Result<Arc<Volume>> {
    let bad = |problem: String| Error::Description { path: (&name).into(), problem };
    let found = Found::among(&name, &devices, degraded).await?;
    let missing = found.missing();
    let disks = found.label.members.len();
    if !missing.is_empty() && !degraded {
        return Err(bad(format!(
            "disk {missing:?} of {disks} is missing: name its device, or open the volume degraded"
        )));
    }
    let (laid, members) = found.together(&name)?;
    let states = found.states();
    if !is_whole(&laid.layout, &states) {
        let lacking = (0..disks).filter(|disk| states.get(*disk) != Some(&MemberState::Ready));
        return Err(bad(format!(
            "disks {:?} of {disks} are missing, failed or not yet filled: {} cannot do without them",
            lacking.collect::<Vec<_>>(),
            found.label.level
        )));
    }
    let copy = |disk| found.member(disk).map_or(Copy(0), |(one, _)| one.copy);
    let copies = found.disks().map(copy).collect();
    let mut newest = found.label;
    let records = Journal::read(newest.volume, newest.journal, &members).await;
    // Numbers of records go on from the label's generation, which is one more each time the volume is
    // opened: none is used twice, also when a record could not be read.
    let next = (newest.generation + 1) << GENERATION_SHIFT;
    let journal = Journal::new(newest.volume, newest.journal, disks, next);
    newest.open(unique());
    let keeper = Keeper::new(Labels { newest, copies }, journal);
    keeper.record(&laid.layout, &members).await?;
    replay(&laid, &members, &records).await?;
    if laid.layout.level().failures(disks) > 0 {
        // From here on no older record counts: what was not found now must not come back later.
        let opened = keeper.append(&laid.layout, &members, Vec::new()).await?;
        keeper.journal.placed(opened);
    }
    keeper.record(&laid.layout, &members).await?;
    Ok(Volume::of(laid, members, Some(keeper)))
}

/// A volume as the labels of its devices say, without opening it.
pub struct Inspection {
    /// To ask where blocks lie, and which disks have failed or are missing. It takes no writes, and what
    /// it reads may lack what the journal holds.
    pub volume: Arc<Volume>,
    /// How it was described when it was made.
    pub layout: LayoutDescription,
    /// Its disks.
    pub disks: Vec<InspectedDisk>,
}

/// A disk as the labels say.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct InspectedDisk {
    /// What the labels say of it.
    pub state: MemberState,
    /// Which of the devices it is, counted from 0; `None` when it failed, or none of them is it.
    pub device: Option<usize>,
}

/// Reads the labels of `devices`, in whatever order they come, and writes nothing.
pub async fn inspect(name: String, devices: &[Arc<dyn Device>]) -> Result<Inspection> {
    let found = Found::among(&name, devices, true).await?;
    let (laid, members) = found.together(&name)?;
    let disk = |(disk, member): (DiskIndex, &MemberLabel)| {
        let there = found.member(disk);
        let is_it = |(one, _): (&Labelled, _)| {
            devices.iter().position(|device| Arc::ptr_eq(device, &one.device))
        };
        let state = there.map_or(member.state, |(_, state)| state);
        InspectedDisk { state, device: there.and_then(is_it) }
    };
    let disks = found.disks().zip(&found.label.members).map(disk).collect();
    let layout = found.label.layout;
    Ok(Inspection { volume: Volume::read_only(laid, members), layout, disks })
}

/// Brings what a crash left in the journal to its places.
async fn replay(laid: &Laid, members: &Members, records: &[Record]) -> Result<()> {
    let layout = &laid.layout;
    let units = layout.data_units();
    for entry in records.iter().flat_map(|record| &record.entries) {
        let is_there = entry.stripe.0 < layout.stripes()
            && entry.offset + entry.blocks() <= layout.unit(entry.stripe)
            && !matches!(entry.role, Role::Data { position, .. } if position >= units);
        if !is_there {
            return Err(Error::Description {
                path: members.name().into(),
                problem: format!(
                    "its journal writes past the end of {:?}: it is damaged",
                    entry.stripe
                ),
            });
        }
        let copies = match entry.role {
            Role::Data { .. } => layout.level().copies(layout.disks()),
            Role::P | Role::Q => 1,
        };
        for copy in 0..copies {
            let role = match entry.role {
                Role::Data { position, .. } => Role::Data { position, copy },
                parity => parity,
            };
            let disk = layout.disk(entry.stripe, role);
            if !members.is_present(disk, entry.stripe) {
                continue;
            }
            let first = layout.unit_on(disk, entry.stripe) + entry.offset;
            let written = members.device(disk).write(first, IoBuf::holding(&entry.content)).await;
            if written.is_err() {
                members.fail(disk);
            }
        }
    }
    // Those that fail are out, and whether the others suffice is said when that is recorded.
    let _: Result<()> = members.flush_all().await;
    Ok(())
}
