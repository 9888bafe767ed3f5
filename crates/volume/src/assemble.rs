//! Volumes whose devices know them: formatting devices, and putting a volume together from devices in any
//! order, without those that are missing or stale.

use std::collections::BTreeMap;
use std::sync::Arc;

use moirai_storage::{Device, Error, IoBuf, Result};
use moirai_units::{BlockCount, BlockRange, Lbn};

use crate::journal::{Journal, Record, record_blocks_max};
use crate::keeper::Keeper;
use crate::label::{DISKS_MAX, LABELS_BLOCKS, Label};
use crate::members::{Member, MemberState, Members};
use crate::plan::Present;
use crate::section::Section;
use crate::volume::Laid;
use crate::{DiskIndex, LayoutDescription, Level, Role, StripeIndex, Volume};

/// The journal on each device, when the stripes are not too long for it: 8 MiB.
const JOURNAL_BLOCKS: BlockCount = BlockCount(16 << 10);
/// Stripes that the journal holds at least.
const JOURNAL_STRIPES_MIN: u64 = 4;

/// Records of one opening: their numbers are the lower bits.
const GENERATION_SHIFT: u32 = 32;

/// How to format the devices of a volume.
#[derive(Clone, Copy, Debug)]
pub struct Format {
    /// What tells this volume from all others.
    pub volume: u128,
    /// How it survives failures.
    pub level: Level,
    /// How blocks are spread.
    pub layout: LayoutDescription,
    /// Blocks of the journal on each device; 8 MiB when not given.
    pub journal: Option<BlockCount>,
}

/// Writes labels to `devices`, which lose what they hold.
pub async fn format(name: &str, devices: &[Arc<dyn Device>], format: Format) -> Result<()> {
    let bad = |problem: String| Error::Description { path: name.into(), problem };
    if devices.len() > DISKS_MAX {
        return Err(bad(format!("{} devices: a volume has {DISKS_MAX} at most", devices.len())));
    }
    let journal = format.journal.unwrap_or(JOURNAL_BLOCKS);
    // The layout begins at an ensemble's beginning, at the same place of each device.
    let mut data = Lbn(0) + LABELS_BLOCKS + journal;
    for device in devices {
        let last = Lbn(data.0 - 1);
        let device: &dyn Device = &**device;
        device.check_lbn(last)?;
        data = data.max(device.ensemble(last)?.blocks.end());
    }
    let data_from = |device: &Arc<dyn Device>| {
        Section::from(Arc::clone(device), BlockCount(data.0)) as Arc<dyn Device>
    };
    let sections: Vec<Arc<dyn Device>> = devices.iter().map(data_from).collect();
    let laid = Laid::over(&sections, format.level, format.layout).map_err(bad)?;
    let layout = &laid.layout;
    let unit = (0..layout.stripes()).map(|stripe| layout.unit(StripeIndex(stripe))).max();
    let needed = JOURNAL_STRIPES_MIN * record_blocks_max(devices.len(), unit.unwrap_or_default());
    if journal.0 < needed {
        let problem = format!(
            "a journal of {journal} does not hold {JOURNAL_STRIPES_MIN} stripes: give it {needed} \
             blocks, or take a smaller stripe unit"
        );
        return Err(bad(problem));
    }
    let mut label = Label {
        volume: format.volume,
        generation: 0,
        disk: DiskIndex(0),
        level: format.level,
        layout: format.layout,
        capacity: layout.capacity(),
        journal: BlockRange::new(Lbn(0) + LABELS_BLOCKS, journal),
        data,
        states: vec![MemberState::Ready; devices.len()],
    };
    // Over both copies, so that nothing is left of what the device was before.
    for generation in 1..=2 {
        label.generation = generation;
        for (disk, device) in devices.iter().enumerate() {
            Label { disk: DiskIndex(disk), ..label.clone() }.write(device).await?;
        }
    }
    Ok(())
}

/// Devices of one volume, as their labels say.
struct Found {
    /// The newest label.
    label: Label,
    /// Each device, with its own label.
    devices: BTreeMap<DiskIndex, (Arc<dyn Device>, Label)>,
}

impl Found {
    /// Reads the labels of `devices`. With `degraded`, those without one are passed over.
    async fn among(name: &str, devices: &[Arc<dyn Device>], degraded: bool) -> Result<Found> {
        let bad = |problem: String| Error::Description { path: name.into(), problem };
        let mut found: BTreeMap<DiskIndex, (Arc<dyn Device>, Label)> = BTreeMap::new();
        let mut newest: Option<Label> = None;
        for device in devices {
            let called = &device.inquiry().name;
            let Some(label) = Label::read(&**device).await? else {
                // Its labels may be what cannot be read of it: it is as good as missing.
                if degraded {
                    continue;
                }
                let problem = "has no label of a volume: it was never made part of one";
                return Err(bad(format!("{called} {problem}")));
            };
            if newest.as_ref().is_some_and(|newest| newest.volume != label.volume) {
                let problem = "is of another volume than the devices before it";
                return Err(bad(format!("{called} {problem}")));
            }
            if let Some((other, _)) = found.get(&label.disk) {
                let (other, disk) = (&other.inquiry().name, label.disk.0);
                return Err(bad(format!("{other} and {called} both say they are disk {disk}")));
            }
            found.insert(label.disk, (Arc::clone(device), label.clone()));
            newest = newest.into_iter().chain([label]).max_by_key(|label| label.generation);
        }
        let label = newest.ok_or_else(|| bad("a volume has at least one device".into()))?;
        Ok(Found { label, devices: found })
    }

    /// How far a disk can be used: one that failed, and does not know it, not at all.
    fn state(&self, disk: DiskIndex) -> MemberState {
        let own = self.devices.get(&disk).map(|(_, label)| label);
        let own = own.and_then(|label| label.states.get(disk.0)).copied();
        match (self.label.states.get(disk.0).copied(), own) {
            (_, None) | (None | Some(MemberState::Failed), _) => MemberState::Failed,
            (Some(MemberState::Ready), Some(_)) => MemberState::Ready,
            (Some(MemberState::Rebuilding(ready)), Some(MemberState::Rebuilding(own))) => {
                MemberState::Rebuilding(ready.min(own))
            }
            (Some(MemberState::Rebuilding(_)), Some(_)) => MemberState::Failed,
        }
    }

    /// Disks that should be there and are not.
    fn missing(&self) -> Vec<usize> {
        let is_missing = |disk: &usize| {
            self.label.states.get(*disk) == Some(&MemberState::Ready)
                && !self.devices.contains_key(&DiskIndex(*disk))
        };
        (0..self.label.states.len()).filter(is_missing).collect()
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
    if found.state(disk) != MemberState::Failed {
        return Err(bad(format!("disk {} has not failed: it is not replaced", disk.0)));
    }
    let mut label = found.label.clone();
    let states = label.states.len();
    let state = label.states.get_mut(disk.0);
    *state.ok_or_else(|| bad(format!("there is no disk {} of {states}", disk.0)))? =
        MemberState::Rebuilding(0);
    // Over both copies of the new device, so that nothing is left of what it was; then the others.
    for _ in 0..2 {
        label.generation += 1;
        Label { disk, ..label.clone() }.write(&device).await?;
    }
    for (other, (device, _)) in found.devices.iter().filter(|(other, _)| **other != disk) {
        if found.state(*other) != MemberState::Failed {
            Label { disk: *other, ..label.clone() }.write(device).await?;
        }
    }
    Ok(())
}

/// Puts the volume together that `devices` are of, in whatever order they come. With `degraded`, also
/// when some are missing.
pub async fn assemble(
    name: String,
    devices: Vec<Arc<dyn Device>>,
    degraded: bool,
) -> Result<Arc<Volume>> {
    let bad = |problem: String| Error::Description { path: (&name).into(), problem };
    let found = Found::among(&name, &devices, degraded).await?;
    let missing = found.missing();
    let disks = found.label.states.len();
    if !missing.is_empty() && !degraded {
        return Err(bad(format!(
            "disk {missing:?} of {disks} is missing: name its device, or open the volume degraded"
        )));
    }
    let data_from = BlockCount(found.label.data.0);
    // Of a disk that is not there nothing is asked: any other may stand in its place.
    let stand_in = found.devices.values().next();
    let member = |disk: usize| {
        let disk = DiskIndex(disk);
        let (device, _) = found.devices.get(&disk).or(stand_in)?;
        let data = Section::from(Arc::clone(device), data_from);
        Some(Member::new(Arc::clone(device), data, found.state(disk)))
    };
    let members: Vec<Member> = (0..disks).filter_map(member).collect();
    let label = found.label;
    let sections: Vec<Arc<dyn Device>> =
        members.iter().map(|member| Arc::clone(&member.data)).collect();
    let laid = Laid::over(&sections, label.level, label.layout).map_err(bad)?;
    if laid.layout.capacity() != label.capacity {
        return Err(bad(format!(
            "the devices give {} and the volume was made with {}: a device has changed, or one that \
             is missing had defects of its own",
            laid.layout.capacity(),
            label.capacity
        )));
    }
    let members = Members::new(name.clone(), members);
    let records = Journal::read(label.volume, label.journal, &members).await?;
    // Numbers of records go on from the label's generation, which is one more each time the volume is
    // opened: none is used twice, also when a record could not be read.
    let next = (label.generation + 1) << GENERATION_SHIFT;
    let journal = Journal::new(label.volume, label.journal, disks, next);
    let bearable = label.level.failures(disks);
    let keeper = Keeper::new(label, journal);
    members.note_change();
    keeper.record(&members).await?;
    replay(&laid, &members, &records).await?;
    if bearable > 0 {
        // From here on no older record counts: what was not found now must not come back later.
        let opened = keeper.append(&members, bearable, Vec::new()).await?;
        keeper.journal.placed(opened);
    }
    keeper.record(&members).await?;
    Ok(Volume::of(name, laid, members, Some(keeper)))
}

/// Brings what a crash left in the journal to its places.
async fn replay(laid: &Laid, members: &Members, records: &[Record]) -> Result<()> {
    let layout = &laid.layout;
    for entry in records.iter().flat_map(|record| &record.entries) {
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
    // Those that fail are out; the others have it all.
    let flushed = members.flush_all().await;
    if members.in_use().is_empty() { flushed } else { Ok(()) }
}
