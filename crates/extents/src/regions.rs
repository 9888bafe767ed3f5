//! Regions: the pieces of the block space in which the device's attributes form a rectangle.
//!
//! `CapsuleResolve()` and `CapsuleAlloc()` of thesis 6.4.3 look up where the blocks of a capsule go
//! with `get_equivalent()` and `get_ensemble()`. The answers repeat themselves: for a run of
//! consecutive blocks, the classes of all of them are the class of the first, moved along. Such a
//! run with its classes is a region of `columns` x `slots`: column c of slot k is the block
//! `slot_firsts[k] + c`, the blocks of a column are one equivalence class, the blocks of a slot are
//! consecutive.
//!
//! ```text
//!            column 0  1  2  ...            a page takes a column (or a few):
//!   slot 0      [ parallel ensemble  ]         its minipages are read together
//!   slot 1      [ parallel ensemble  ]      an attribute takes a slot (or a few):
//!   ...                                        scanning it is sequential, on all disks
//! ```
//!
//! On a device without equivalents a region has one slot, which is one parallel ensemble. What the allocator takes of several
//! slots at once are rows of a region: see [`Extents::take_rows`](crate::Extents::take_rows).

use moirai_storage::{Device, Result};
use moirai_units::{BlockCount, BlockRange, Lbn};

/// A rectangle of the block space; see the head of this file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Region {
    /// The blocks of the region; regions tile the device.
    pub blocks: BlockRange,
    /// Blocks in each slot.
    pub columns: BlockCount,
    /// The first block of each slot, in the order in which a page fills them: the semi-sequential
    /// blocks of one disk before those of the next.
    pub slot_firsts: Vec<Lbn>,
}

/// The region that begins at `first`.
///
/// # Errors
/// Those of the device's attributes, for a block that it does not have.
pub fn region_at(device: &dyn Device, first: Lbn) -> Result<Region> {
    let run = device.parallel_ensemble(first)?;
    let run = BlockRange::between(first, run.end());
    let class: Vec<Lbn> = device.equivalent(first)?.by_column().collect();
    let last = Lbn(run.end().0 - 1);
    let last_class: Vec<Lbn> = device.equivalent(last)?.by_column().collect();
    let offset = last.since(first);

    let moved_along = class.len() == last_class.len()
        && class.iter().zip(&last_class).all(|(a, b)| *a + offset == *b);
    // The slots must fill the run's class without a gap, or a region would not be consecutive.
    let consecutive = class
        .iter()
        .enumerate()
        .all(|(slot, lbn)| *lbn == first + BlockCount(slot as u64 * run.count.0));
    if !(moved_along && consecutive) {
        return Ok(Region { blocks: run, columns: run.count, slot_firsts: vec![first] });
    }
    Ok(Region {
        blocks: BlockRange::new(first, BlockCount(run.count.0 * class.len() as u64)),
        columns: run.count,
        slot_firsts: class,
    })
}

/// The region that holds a block, where it has several slots.
pub(crate) fn region_of(device: &dyn Device, lbn: Lbn) -> Option<Region> {
    let row = device.parallel_ensemble(lbn).ok()?;
    let first = device.equivalent(row.first).ok()?.by_column().min()?;
    let region = region_at(device, first).ok()?;
    (region.slot_firsts.len() > 1 && region.blocks.contains(lbn)).then_some(region)
}

#[cfg(test)]
mod tests {
    use super::*;
    use moirai_devices::{Access, open};
    use moirai_runtime::block_on_virtual;
    use moirai_volume::{LayoutDescription, Level, StripeUnit, Volume};

    fn regions(uris: &[&str], layout: Option<LayoutDescription>) -> Vec<Region> {
        block_on_virtual(0, async {
            let devices: Vec<_> =
                uris.iter().map(|uri| open(uri.parse().unwrap(), Access::Write).unwrap()).collect();
            let device: std::sync::Arc<dyn Device> = match layout {
                None => devices[0].clone(),
                Some(layout) => Volume::new("v".into(), devices, Level::Raid0, layout).unwrap(),
            };
            let mut regions = Vec::new();
            let mut at = Lbn(0);
            while at < device.inquiry().all_blocks().end() {
                let region = region_at(&*device, at).unwrap();
                at = region.blocks.end();
                for (slot, first) in region.slot_firsts.iter().enumerate() {
                    for column in [0, region.columns.0 / 2, region.columns.0 - 1] {
                        let has_slots = region.slot_firsts.len() > 1;
                        let of_block = region_of(&*device, *first + BlockCount(column));
                        assert_eq!(of_block.as_ref(), has_slots.then_some(&region));
                        let class = device.equivalent(*first + BlockCount(column)).unwrap();
                        let member = class.by_column().nth(slot);
                        if region.slot_firsts.len() > 1 {
                            assert_eq!(member, Some(*first + BlockCount(column)));
                        }
                    }
                }
                regions.push(region);
            }
            regions
        })
    }

    #[test]
    fn a_quadrangle_region_is_p_stripes() {
        let layout =
            LayoutDescription::Quadrangle { depth: Some(4), block: BlockCount(1), zone: Some(0) };
        let regions = regions(&["sim:seagate-cheetah-36es"; 4], Some(layout));
        assert_eq!(regions[0].columns, BlockCount(4 * 738));
        assert_eq!(regions[0].slot_firsts.len(), 16);
        assert_eq!(regions.len(), 5790 * 4 / 16);
        assert!(regions.iter().all(|region| region.slot_firsts.len() == 16));
    }

    #[test]
    fn without_equivalents_a_region_is_a_parallel_ensemble() {
        let track = LayoutDescription::Stripe { unit: StripeUnit::Track };
        let regions_of_stripes = regions(&["sim:seagate-cheetah-36es"; 2], Some(track));
        assert_eq!(regions_of_stripes[0].columns, BlockCount(2 * 738));
        assert_eq!(regions_of_stripes[0].slot_firsts.len(), 1);
        let regions_of_disk = regions(&["sim:quantum-atlas-10k"], None);
        assert_eq!(regions_of_disk[0].columns, BlockCount(334));
    }
}
