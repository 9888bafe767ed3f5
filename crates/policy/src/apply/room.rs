//! Room for an object on the disks of its arrays.

use std::sync::Arc;

use moirai_storage::{Device, Section};
use moirai_units::BlockCount;

use super::folder::{Folder, Placed, PlacedArray};
use super::{Disks, Wanted, has_labels, how, range};
use crate::error::{Error, Result};
use crate::spread::Spread;

/// Sections begin at multiples of a MiB: of any physical sector, and of what file systems like.
const ALIGNMENT: u64 = 2048;

/// Sections with room for `wanted`, on disks whose other sections `folder` knows.
///
/// # Errors
/// [`Error::NoRoom`] when an array's disks have no such section free.
pub(super) fn find(
    folder: &Folder,
    wanted: &Wanted,
    names: &[&str],
    disks: &Disks,
) -> Result<Placed> {
    let mut placed = Placed {
        blocks: wanted.blocks,
        level: wanted.level.to_string(),
        unit_blocks: wanted.unit.0,
        arrays: Vec::new(),
        generation: 0,
    };
    let spread = Spread { arrays: wanted.arrays.len(), unit: wanted.unit };
    let share = spread.share(BlockCount(wanted.blocks));
    for array in wanted.arrays.iter().copied() {
        let devices = disks.get(array).map(Vec::as_slice).unwrap_or_default();
        let room = first_room(folder, &placed, array, devices, share)?;
        let (first, count) = room.map_err(|count| {
            let name = names.get(array).copied().unwrap_or_default();
            Error::NoRoom(format!(
                "array `{name}` has no {} free in one piece on each disk: use larger disks, or fewer objects there",
                BlockCount(count).bytes()
            ))
        })?;
        placed.arrays.push(PlacedArray { array, first, count });
    }
    Ok(placed)
}

/// The first free section on each of `devices` so that a volume on it has `share`, with its labels and its journal: its first block and
/// its blocks, or else how many there would have to be.
fn first_room(
    folder: &Folder,
    placed: &Placed,
    array: usize,
    devices: &[Arc<dyn Device>],
    share: BlockCount,
) -> Result<std::result::Result<(u64, u64), u64>> {
    let how = how(placed)?;
    how.level.check(devices.len()).map_err(Error::Mismatch)?;
    let capacity = devices.iter().map(|device| device.inquiry().capacity.0).min().unwrap_or(0);
    let units = how.level.data_units(devices.len()).max(1) as u64;
    let mut count = (share.0.div_ceil(units) + placed.unit_blocks).next_multiple_of(ALIGNMENT);
    // Labels and the journal take a MiB or more; what they take depends on the section's length, and on the tracks that it begins with.
    while let Some(first) = first_fit(folder, array, count, capacity) {
        let section = |device: &Arc<dyn Device>| {
            Ok(Section::of(Arc::clone(device), range(first, count))? as Arc<dyn Device>)
        };
        let sections: Vec<Arc<dyn Device>> = devices.iter().map(section).collect::<Result<_>>()?;
        let has = match has_labels(&sections) {
            true => how.lay_out(String::new(), sections).map(|volume| volume.layout().capacity()),
            false => Ok(BlockCount(count / placed.unit_blocks * placed.unit_blocks * units)),
        };
        if has.is_ok_and(|has| has >= share) {
            return Ok(Ok((first, count)));
        }
        count = (count + count / 64 + ALIGNMENT).next_multiple_of(ALIGNMENT);
    }
    Ok(Err(count))
}

/// The first place on the disks of `array` where `count` blocks are free.
fn first_fit(folder: &Folder, array: usize, count: u64, capacity: u64) -> Option<u64> {
    let mut used: Vec<(u64, u64)> = folder
        .all()
        .flat_map(|placed| placed.arrays.iter())
        .filter(|placed| placed.array == array)
        .map(|placed| (placed.first, placed.first + placed.count))
        .collect();
    used.sort_unstable();
    let mut at = 0;
    for (first, end) in used {
        if first.saturating_sub(at) >= count {
            break;
        }
        at = at.max(end.next_multiple_of(ALIGNMENT));
    }
    (at + count <= capacity).then_some(at)
}
