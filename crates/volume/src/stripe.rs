//! Striping: units of a fixed size, or of exactly one ensemble of the devices.

use moirai_storage::Inquiry;
use moirai_units::{BlockCount, Lbn};

use crate::slots::Slots;
use crate::tracks::Tracks;
use crate::{Layout, Level};

/// Units of `unit` blocks in turn, over devices of which `inquiries` tells.
pub(crate) fn fixed(
    level: Level,
    inquiries: &[&Inquiry],
    unit: BlockCount,
) -> Result<Layout, String> {
    let block = inquiries.iter().map(|inquiry| inquiry.volume_block.0).max().unwrap_or(1);
    if !unit.0.is_multiple_of(block) {
        return Err(format!(
            "key `unit`: {unit} are not a multiple of the devices' volume block, {block}"
        ));
    }
    let smallest = inquiries.iter().map(|inquiry| inquiry.capacity.0).min().unwrap_or(0);
    let stripes = smallest.checked_div(unit.0).unwrap_or(0);
    if stripes == 0 {
        return Err(format!("key `unit`: the devices are smaller than a unit of {unit}"));
    }
    Ok(fixed_of(level, inquiries.len(), stripes, unit))
}

/// So many stripes with units of `unit` blocks over `disks` disks.
pub(crate) fn fixed_of(level: Level, disks: usize, stripes: u64, unit: BlockCount) -> Layout {
    let slots = vec![Slots::side_by_side(Lbn(0), unit, stripes); disks];
    let mut layout = Layout::new(level, false, 1, BlockCount(1), slots);
    layout.add(stripes, unit, BlockCount::ZERO);
    layout
}

/// Units of one track each, over devices with `tracks`. Where a defect shortens a track of one device,
/// the units of that stripe are as short.
pub(crate) fn by_track(level: Level, tracks: &[Tracks]) -> Layout {
    let mut all: Vec<_> = tracks.iter().map(Tracks::iter).collect();
    let mut slots = vec![Slots::default(); tracks.len()];
    let mut units: Vec<(u64, BlockCount, BlockCount)> = Vec::new();
    while let Some(stripe) = all.iter_mut().map(Iterator::next).collect::<Option<Vec<_>>>() {
        let shortest = stripe.iter().map(|track| track.blocks.count).min();
        let (Some(unit), Some(switch)) = (shortest, stripe.iter().map(|track| track.switch).max())
        else {
            break;
        };
        for (slots, track) in slots.iter_mut().zip(&stripe) {
            slots.push(track.blocks.first);
        }
        match units.last_mut() {
            Some((stripes, last, delay)) if *last == unit => {
                *stripes += 1;
                *delay = switch.max(*delay);
            }
            _ => units.push((1, unit, switch)),
        }
    }
    let mut layout = Layout::new(level, false, 1, BlockCount(1), slots);
    for (stripes, unit, switch) in units {
        layout.add(stripes, unit, switch);
    }
    layout
}
