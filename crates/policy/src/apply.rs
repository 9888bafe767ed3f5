//! Carrying a plan out: volumes for its objects on sections of its disks, and objects that move.
//!
//! A folder holds the state: `placement.toml` says which sections of which disks each object has, and
//! `NAME.toml` describes the object's volume, which any command opens as `volume:FOLDER/NAME.toml`.
//!
//! An object moves in this order, so that a crash at any point loses nothing:
//!
//! 1. `placement.toml` notes the sections that the object moves to;
//! 2. its volume is made there, and the object is copied; writes meanwhile go to both;
//! 3. both are read and compared, writes wait, and the new volume is flushed;
//! 4. `NAME.toml` is replaced by the description of the new volume: from here on the object lies there;
//! 5. `placement.toml` forgets the old sections.
//!
//! After a crash, the next run learns from `NAME.toml` whether step 4 was reached. If it was not, the move
//! begins anew, or is given up.
//!
//! `NAME.toml` has one part, of exactly the object's blocks: the volume below it may be larger.

mod folder;
mod moving;
mod replaced;
mod room;

use std::sync::Arc;

use moirai_storage::{Device, IoBuf, Section, SectionBlocks};
use moirai_units::{BlockCount, BlockRange, Lbn};
use moirai_volume::{
    Description, Format, LayoutDescription, Level, StripeUnit, Volume, assemble, format,
};

pub use folder::{Folder, Move, Placed, PlacedArray};
pub use moving::Moving;

use crate::error::{Error, Result};
use crate::plan::{Placement, Plan};

/// Blocks that are cleared at once: 1 MiB.
const CLEARED_BLOCKS: u64 = 2048;

/// The disks of a plan's arrays, opened: for each array its disks.
pub type Disks = Vec<Vec<Arc<dyn Device>>>;

/// What [`apply`] reports.
#[derive(Clone, Debug)]
pub enum Step {
    /// An object's volume is made.
    Making(String),
    /// An object moves: requests to it go to this device until it is closed, before and after the switch.
    Moving(String, Arc<Moving>),
    /// An object is copied: blocks that are done, of how many.
    Copying(String, BlockCount, BlockCount),
    /// The copy is compared.
    Comparing(String, BlockCount, BlockCount),
    /// An object is where the plan has it.
    Placed(String),
}

/// Places the objects of `plan` on `disks`, the arrays' in their order, and notes that in `folder`.
/// Objects that lie elsewhere move; one whose move was begun before is moved anew. `are_blank` says that
/// the disks hold nothing but zeros: else volumes with parity read and clear their sections first.
///
/// # Errors
/// When an object has no room, or a device fails. What was placed stays so, and `apply` may be called
/// again.
pub async fn apply(
    folder: &mut Folder,
    plan: &Plan,
    disks: &Disks,
    are_blank: bool,
    report: &mut dyn FnMut(Step),
) -> Result<()> {
    // Sections that objects left are not blank.
    let are_blank = are_blank && folder.objects().next().is_none() && folder.moving().is_none();
    folder.check(plan)?;
    folder.settle()?;
    let names: Vec<&str> = plan.arrays.iter().map(|array| array.name.as_str()).collect();
    check_room(folder, plan, &names, disks)?;
    let mut waiting: Vec<&Placement> = plan.objects.iter().collect();
    // An object may have to wait until another has left.
    while !waiting.is_empty() {
        let mut left = Vec::new();
        let mut problem = None;
        for object in &waiting {
            match place(folder, plan, object, &names, (disks, are_blank), report).await {
                Ok(()) => {}
                Err(Error::NoRoom(why)) => {
                    problem = Some(Error::NoRoom(why));
                    left.push(*object);
                }
                Err(error) => return Err(error),
            }
        }
        if let Some(problem) = problem.filter(|_| left.len() == waiting.len()) {
            return Err(problem);
        }
        waiting = left;
    }
    Ok(())
}

/// Whether a folder without objects has room for all of them: before the first is made.
fn check_room(folder: &Folder, plan: &Plan, names: &[&str], disks: &Disks) -> Result<()> {
    if folder.objects().next().is_some() {
        return Ok(());
    }
    let mut tried = folder.tried();
    for object in &plan.objects {
        let place = room::find(&tried, &Wanted::of(plan, object)?, names, disks)?;
        tried.take(&object.name, place);
    }
    Ok(())
}

/// Gives up a move that was begun and did not come to its end; the object stays where it was. Gives the
/// object's name, if there was one.
///
/// # Errors
/// When a file of the folder cannot be read or written.
pub fn go_back(folder: &mut Folder) -> Result<Option<String>> {
    folder.settle()
}

async fn place(
    folder: &mut Folder,
    plan: &Plan,
    object: &Placement,
    arrays: &[&str],
    (disks, are_blank): (&Disks, bool),
    report: &mut dyn FnMut(Step),
) -> Result<()> {
    let wanted = Wanted::of(plan, object)?;
    let present = folder.placed(&object.name).cloned();
    if present.as_ref().is_some_and(|placed| wanted.is_as(placed)) {
        return Ok(());
    }
    if let Some(placed) = &present
        && placed.blocks > wanted.blocks
    {
        return Err(Error::Mismatch(format!(
            "object `{}` has {} and the plan {}: objects do not shrink",
            object.name,
            BlockCount(placed.blocks).bytes(),
            BlockCount(wanted.blocks).bytes()
        )));
    }
    let target = room::find(folder, &wanted, arrays, disks)?;
    folder.begin(&object.name, target.clone())?;
    report(Step::Making(object.name.clone()));
    let name = format!("volume:{}", folder.description(&object.name).display());
    let volume = make(&name, &target, disks, are_blank).await?;
    if let Some(placed) = present {
        let from = open(&name, &placed, disks).await?;
        let blocks = BlockCount(placed.blocks);
        let moving = Moving::new(from, Arc::clone(&volume), blocks);
        report(Step::Moving(object.name.clone(), Arc::clone(&moving)));
        let copied = |done| report(Step::Copying(object.name.clone(), done, blocks));
        moving.copy(copied).await?;
        let compared = |done| report(Step::Comparing(object.name.clone(), done, blocks));
        moving.compare(compared).await?;
        moving.switch(|| folder.switch(&object.name)).await?;
    } else {
        volume.flush().await?;
        folder.switch(&object.name)?;
    }
    report(Step::Placed(object.name.clone()));
    Ok(())
}

/// Where an object is to lie.
#[derive(Clone, Debug, PartialEq)]
struct Wanted {
    blocks: u64,
    /// The numbers of its arrays.
    arrays: Vec<usize>,
    level: Level,
    unit: BlockCount,
}

impl Wanted {
    fn of(plan: &Plan, object: &Placement) -> Result<Wanted> {
        let placed = plan.system()?.objects.into_iter().find(|placed| placed.name == object.name);
        let placed = placed.ok_or_else(|| {
            Error::Mismatch(format!("object `{}` is not in the plan", object.name))
        })?;
        Ok(Wanted {
            blocks: placed.size.0,
            arrays: placed.arrays,
            level: placed.level,
            unit: placed.unit,
        })
    }

    fn is_as(&self, placed: &Placed) -> bool {
        let arrays: Vec<usize> = placed.arrays.iter().map(|array| array.array).collect();
        self.blocks == placed.blocks
            && self.arrays == arrays
            && self.level.to_string() == placed.level
            && self.unit.0 == placed.unit_blocks
    }
}

/// The sections of an object's disks in one array.
fn sections(placed: &PlacedArray, disks: &Disks) -> Result<Vec<Arc<dyn Device>>> {
    let devices = disks.get(placed.array).map(Vec::as_slice).unwrap_or_default();
    let SectionBlocks(blocks) = placed.section();
    let section =
        |device: &Arc<dyn Device>| Ok(Section::of(Arc::clone(device), blocks)? as Arc<dyn Device>);
    devices.iter().map(section).collect()
}

fn layout(placed: &Placed) -> LayoutDescription {
    LayoutDescription::Stripe { unit: StripeUnit::Blocks(BlockCount(placed.unit_blocks)) }
}

fn how(placed: &Placed) -> Result<Format> {
    let level = placed.level.parse().map_err(Error::Mismatch)?;
    Ok(Format { level, layout: layout(placed), journal: None, integrity: false, is_blank: false })
}

/// Whether the volumes of an object have labels: those of devices that keep their data have.
fn has_labels(devices: &[Arc<dyn Device>]) -> bool {
    devices.iter().all(|device| device.inquiry().keeps_data)
}

/// Makes the volume of an object on its sections.
async fn make(
    name: &str,
    placed: &Placed,
    disks: &Disks,
    is_blank: bool,
) -> Result<Arc<dyn Device>> {
    for array in &placed.arrays {
        let devices = sections(array, disks)?;
        if has_labels(&devices) {
            let how = Format { is_blank, ..how(placed)? };
            format(name, &devices, how, |_, _| ()).await?;
        }
    }
    let volume = open(name, placed, disks).await?;
    let is_cleared = how(placed)?.level != Level::Raid0;
    if !is_blank && !is_cleared {
        // Formatting clears only what parity or copies must match.
        clear(&volume).await?;
    }
    Ok(volume)
}

/// Makes all blocks zero, so that nothing is left of what lay there.
async fn clear(device: &Arc<dyn Device>) -> Result<()> {
    let end = device.inquiry().capacity;
    let mut at = 0;
    while at < end.0 {
        let count = BlockCount(CLEARED_BLOCKS.min(end.0 - at));
        device.write(Lbn(at), IoBuf::zeroed(count)).await?;
        at += count.0;
    }
    Ok(())
}

/// Opens the volume of an object on its sections.
async fn open(name: &str, placed: &Placed, disks: &Disks) -> Result<Arc<dyn Device>> {
    let mut volumes: Vec<Arc<dyn Device>> = Vec::with_capacity(placed.arrays.len());
    for array in &placed.arrays {
        let devices = sections(array, disks)?;
        let volume = match has_labels(&devices) {
            true => assemble(name.to_owned(), devices, false).await?,
            false => Volume::new(name.to_owned(), devices, how(placed)?.level, layout(placed))
                .map_err(Error::Mismatch)?,
        };
        volumes.push(volume);
    }
    let whole: Arc<dyn Device> = match volumes.as_slice() {
        [alone] => Arc::clone(alone),
        _ => Volume::new(name.to_owned(), volumes, Level::Raid0, layout(placed))
            .map_err(Error::Mismatch)?,
    };
    // As the object's description has it: the volume may be larger.
    Ok(Section::of(whole, range(0, placed.blocks))?)
}

/// Opens the volume of the object called `name`.
///
/// # Errors
/// When the folder has no such object, or its volume cannot be opened.
pub async fn open_object(folder: &Folder, name: &str, disks: &Disks) -> Result<Arc<dyn Device>> {
    let placed = folder.placed(name).ok_or_else(|| {
        Error::Mismatch(format!("{} has no object `{name}`", folder.path().display()))
    })?;
    open(&format!("volume:{}", folder.description(name).display()), placed, disks).await
}

/// The blocks of a device, for messages and pictures.
fn range(first: u64, count: u64) -> BlockRange {
    BlockRange::new(Lbn(first), BlockCount(count))
}

/// The description of the volume of an array's sections, or of several volumes.
fn described(uris: Vec<String>, level: Level, placed: &Placed) -> Description {
    Description::new(uris, level, layout(placed))
}
