//! Volumes whose devices know them: putting a volume together from devices in any order, without those that
//! are missing or stale.

use std::sync::Arc;

use moirai_runtime::unique;
use moirai_storage::{Device, Error, IoBuf, Result};

use crate::found::{Found, Labelled, without};
use crate::journal::{Entry, Journal, Record};
use crate::keeper::{Keeper, Labels};
use crate::label::{Copy, MemberLabel};
use crate::members::{MemberState, Members};
use crate::plan::Present;
use crate::shape::Shape;
use crate::{DiskIndex, Layout, LayoutDescription, Role, StripeIndex, Volume};

/// Records of one opening: their numbers are the lower bits.
const GENERATION_SHIFT: u32 = 32;
/// By how many generations a label that cannot be read is later than the one before it on that device, at most.
const GENERATION_LEAP: u64 = 1 << 10;

/// Puts the volume together that `devices` are of, in whatever order they come. With `degraded`, also
/// when some are missing that the level can do without.
pub async fn assemble(
    name: String,
    devices: Vec<Arc<dyn Device>>,
    degraded: bool,
) -> Result<Arc<Volume>> {
    let bad = |problem: String| Error::Description { path: (&name).into(), problem };
    let found = Found::among(&name, &devices).await?;
    let missing = found.missing();
    let disks = found.label.members.len();
    let (mut laid, members) = found.together(&name)?;
    let states = found.states();
    if !laid.shape.is_whole(&states, members.moved()) {
        let lacking = (0..disks).filter(|disk| states.get(*disk) != Some(&MemberState::Ready));
        return Err(bad(format!(
            "disks {:?} of {disks} are missing, failed or not yet rebuilt: {} needs more disks; name the devices of missing \
             ones, or read what is left with `volume:PATH?salvage=true`{}",
            lacking.collect::<Vec<_>>(),
            found.label.level,
            without(&found.unusable)
        )));
    }
    if !missing.is_empty() && !degraded {
        let (noun, verb, device) = match missing.len() {
            1 => ("disk", "is", "its device"),
            _ => ("disks", "are", "their devices"),
        };
        let numbers: Vec<String> = missing.iter().map(ToString::to_string).collect();
        return Err(bad(format!(
            "{noun} {} of {disks} {verb} missing: name {device}, or go on without (`moirai volume open PATH --degraded`, \
             then replace and rebuild){}",
            numbers.join(" and "),
            without(&found.unusable)
        )));
    }
    if laid.shape.failures() == 0 {
        // No disk can be missing, and there is no journal: nothing changes that labels would record.
        return Ok(Volume::of(laid, members, None));
    }
    let copy = |disk| found.member(disk).map_or(Copy(0), |(one, _)| one.copy);
    let copies = found.disks().map(copy).collect();
    let mut newest = found.label.clone();
    for (disk, member) in found.disks().zip(&mut newest.members) {
        let opened = found.member(disk).and_then(|(one, _)| one.label.opening);
        member.opened = opened.map_or(0, |opening| opening.generation).max(member.opened);
    }
    if found.has_lost_label() {
        // No generation is given twice.
        newest.generation += GENERATION_LEAP;
    }
    let found = Journal::read(newest.volume, newest.journal, &members).await;
    // Numbers of records go on from the label's generation, which is one more each time the volume is
    // opened: none is used twice, also when a record could not be read.
    let next = ((newest.generation + 1) << GENERATION_SHIFT).max(found.next);
    let journal = Journal::new(newest.volume, newest.journal, found.rings, next);
    newest.open(unique());
    let mut keeper = Keeper::new(Labels::new(newest, copies), journal, laid.shape.clone());
    keeper.record(&members).await?;
    replay(&laid.shape, &members, &found.records).await?;
    // What was moved is known from the journal, too: the labels must know before it is forgotten.
    members.moved_durably(members.moved());
    keeper.record(&members).await?;
    // From here on no older record counts: what was not found now must not come back later.
    let opened = keeper.append(&members, Vec::new()).await?;
    keeper.journal.placed(opened);
    if laid.shape.old.is_some() && members.moved() >= laid.shape.layout.stripes() {
        keeper.end_growth();
        laid.shape.old = None;
    }
    keeper.record(&members).await?;
    Ok(Volume::of(laid, members, Some(keeper)))
}

/// A volume as the labels of its devices say, without opening it.
pub struct Inspection {
    /// To ask where blocks lie, and which disks have failed or are missing. It takes no writes, and what
    /// it reads may lack what the journal holds.
    pub volume: Arc<Volume>,
    /// How it was described when it was made.
    pub layout: LayoutDescription,
    /// Whether its blocks have checksums.
    pub integrity: bool,
    /// Its disks.
    pub disks: Vec<InspectedDisk>,
    /// Of each device, which disk it says it is, though it may have failed since; `None` without a label.
    pub says: Vec<Option<DiskIndex>>,
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
    let found = Found::among(&name, devices).await?;
    let (laid, members) = found.together(&name)?;
    let doubtful = doubtful_end(&found, &laid.shape, &members).await;
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
    let says = |device| {
        let labelled = found.all.iter().find(|one| Arc::ptr_eq(&one.device, device));
        labelled.map(|one| one.label.disk)
    };
    let says = devices.iter().map(says).collect();
    let integrity = !found.label.sums.is_empty();
    Ok(Inspection {
        volume: Volume::read_only(laid, members, doubtful),
        layout,
        integrity,
        disks,
        says,
    })
}

/// Brings what a crash left in the journal to its places.
async fn replay(shape: &Shape, members: &Members, records: &[Record]) -> Result<()> {
    for entry in records.iter().flat_map(|record| &record.entries) {
        let Some(layout) = layout_of(shape, entry) else {
            return Err(Error::Description {
                path: members.name().into(),
                problem: format!(
                    "the journal is damaged: an entry does not fit the layout of {:?}",
                    entry.stripe
                ),
            });
        };
        if is_moved(shape, entry) {
            members.move_to(entry.stripe.0 + 1);
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
            let device = members.device(disk);
            let written = device.write(first, IoBuf::holding(&entry.content)).await;
            if written.is_err() {
                members.fail(&device);
            }
        }
    }
    // Those that fail are out, and whether the others suffice is said when that is recorded.
    let _: Result<()> = members.flush_all().await;
    Ok(())
}

/// Up to which stripe a volume that grows may have moved more than its labels know: the journal says it, as long as
/// no record can be on missing disks alone, and else how many stripes it has room for. A disk that is being filled has a
/// journal without what was before, and counts as missing.
async fn doubtful_end(found: &Found, shape: &Shape, members: &Members) -> StripeIndex {
    let moved = members.moved();
    let stripes = shape.layout.stripes();
    let missing = found.states().iter().filter(|state| **state != MemberState::Ready).count();
    if shape.old.is_none() {
        return StripeIndex(moved);
    }
    if missing <= shape.failures() {
        let found = Journal::read(found.label.volume, found.label.journal, members).await;
        let entries = found.records.iter().flat_map(|record| &record.entries);
        let ends = entries.filter(|entry| is_moved(shape, entry)).map(|entry| entry.stripe.0 + 1);
        return StripeIndex(ends.max().unwrap_or(moved).max(moved));
    }
    let mut room = found.label.journal.count.0 * shape.layout.disks() as u64;
    let mut end = moved;
    while end < stripes {
        let Some(left) = room.checked_sub(shape.layout.stripe_blocks(StripeIndex(end)).count.0)
        else {
            return StripeIndex(end + 1);
        };
        (room, end) = (left, end + 1);
    }
    StripeIndex(stripes)
}

/// Whether an entry is of a stripe that lies as it will in a volume that grows.
fn is_moved(shape: &Shape, entry: &Entry) -> bool {
    shape.old.is_some()
        && layout_of(shape, entry).is_some_and(|at| at.disks() == shape.layout.disks())
}

/// The layout that an entry is of, if that has such a place.
fn layout_of<'a>(shape: &'a Shape, entry: &Entry) -> Option<&'a Layout> {
    let mut layouts = [Some(&shape.layout), shape.old.as_ref()].into_iter().flatten();
    let layout = layouts.find(|layout| layout.disks() == entry.disks)?;
    let has_role = match entry.role {
        Role::Data { position, .. } => position < layout.data_units(),
        Role::P => layout.level().parity_units() > 0,
        Role::Q => layout.level().parity_units() > 1,
    };
    let is_there = has_role
        && entry.stripe.0 < layout.stripes()
        && entry.offset + entry.blocks() <= layout.unit(entry.stripe);
    is_there.then_some(layout)
}
