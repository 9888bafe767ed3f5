//! Free space: which blocks are taken, and where the next extent goes.
//!
//! Extents fit the device's boundaries and differ in size (Lachesis 4). There are two kinds:
//! *columns* of regions, for pages whose attributes lie apart, and *runs* of blocks between two
//! access delay boundaries, for pages that are read whole. A region serves one kind at a time.
//!
//! Nothing here is stored: at open the space is what the catalog's extents leave over, so that an
//! interrupted load has taken nothing.

use std::sync::Arc;

use moirai_extents::{Region, region_at};
use moirai_storage::Device;
use moirai_units::{BlockCount, BlockRange, Lbn};
use serde::{Deserialize, Serialize};

use crate::{Error, Result};

/// Columns `first_column..first_column + columns` of all slots of some regions.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct ColumnExtent {
    /// The block that holds the extent's first column, for each slot of each region.
    pub(crate) slot_firsts: Vec<u64>,
    /// Blocks in each slot.
    pub(crate) columns: u64,
}

impl ColumnExtent {
    /// The extent's blocks in a slot.
    pub(crate) fn slot(&self, slot: usize) -> Option<BlockRange> {
        let first = self.slot_firsts.get(slot)?;
        Some(BlockRange::new(Lbn(*first), BlockCount(self.columns)))
    }
}

/// A run of blocks between two access delay boundaries.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct RunExtent {
    pub(crate) first: u64,
    pub(crate) blocks: u64,
}

impl RunExtent {
    pub(crate) fn range(self) -> BlockRange {
        BlockRange::new(Lbn(self.first), BlockCount(self.blocks))
    }
}

/// What a region's blocks are used for.
#[derive(Clone, Debug)]
enum Use {
    Free,
    /// Free intervals of columns, sorted, apart from each other.
    Columns(Vec<(u64, u64)>),
    /// Free runs, sorted; none crosses an ensemble's end.
    Runs(Vec<BlockRange>),
    /// It holds an extent of when the device had other regions: nothing is allocated here.
    Closed,
}

/// The free space of a device.
#[derive(Clone, Debug)]
pub(crate) struct Space {
    device: Arc<dyn Device>,
    /// The regions seen so far, from the device's beginning on, and what they are used for.
    regions: Vec<(Region, Use)>,
    /// Before this one every region is full.
    first_open: usize,
}

impl Space {
    /// A device of which only `reserved` blocks at its beginning are taken.
    pub(crate) fn new(device: Arc<dyn Device>, reserved: BlockCount) -> Result<Space> {
        let mut space = Space { device, regions: Vec::new(), first_open: 0 };
        space.take_run(BlockRange::new(Lbn(0), reserved))?;
        Ok(space)
    }

    fn full(&self, needed: BlockCount) -> Error {
        Error::Full {
            device: self.device.inquiry().name.clone(),
            needed,
            capacity: self.device.inquiry().capacity,
        }
    }

    /// Makes sure that region `index` is known; `false` past the device's end.
    fn see(&mut self, index: usize) -> Result<bool> {
        let end = self.device.inquiry().all_blocks().end();
        while self.regions.len() <= index {
            let first = self.regions.last().map_or(Lbn(0), |(region, _)| region.blocks.end());
            if first >= end {
                return Ok(false);
            }
            self.regions.push((region_at(&*self.device, first)?, Use::Free));
        }
        Ok(true)
    }

    fn index_of(&mut self, lbn: Lbn) -> Result<usize> {
        let mut next = self.regions.len();
        loop {
            match self.regions.last() {
                Some((region, _)) if region.blocks.end() > lbn => break,
                _ => {}
            }
            if !self.see(next)? {
                return Err(self.full(BlockCount::ZERO));
            }
            next += 1;
        }
        Ok(self.regions.partition_point(|(region, _)| region.blocks.end() <= lbn))
    }

    /// Slots of the device's first region: how many blocks an equivalence class has.
    pub(crate) fn class_slots(&self) -> usize {
        self.regions.first().map_or(1, |(region, _)| region.slot_firsts.len())
    }

    /// The longest run of blocks without a boundary, as far as seen.
    pub(crate) fn longest_run(&self) -> Result<BlockCount> {
        let mut longest = BlockCount::ZERO;
        for (region, _) in &self.regions {
            longest = longest.max(self.device.ensemble(region.blocks.first)?.blocks.count);
        }
        Ok(longest)
    }

    /// Takes an extent of at least `slots` slots, of up to `wanted` columns, in whole `unit`s. It has
    /// fewer only where a region has no more, or when the device is nearly full: small extents are
    /// small I/Os for good.
    pub(crate) fn allocate_columns(
        &mut self,
        slots: usize,
        wanted: BlockCount,
        unit: BlockCount,
    ) -> Result<ColumnExtent> {
        match self.allocate_columns_of(slots, wanted, wanted, unit) {
            Err(Error::Full { .. }) => self.allocate_columns_of(slots, unit, wanted, unit),
            done => done,
        }
    }

    /// The same, with at least `least` columns, or as many as a region has.
    fn allocate_columns_of(
        &mut self,
        slots: usize,
        least: BlockCount,
        wanted: BlockCount,
        unit: BlockCount,
    ) -> Result<ColumnExtent> {
        let needed = BlockCount(slots as u64 * unit.0);
        let mut start = self.first_open;
        loop {
            if !self.see(start)? {
                return Err(self.full(needed));
            }
            let Some(interval) = self.free_columns(start, least, unit) else {
                start += 1;
                continue;
            };
            let columns = interval.1.min(wanted.0.max(unit.0)) / unit.0 * unit.0;
            if let Some(found) = self.regions_with(start, slots, (interval.0, columns))? {
                return Ok(self.take_columns(&found, interval.0, columns));
            }
            start += 1;
        }
    }

    /// The first free interval of a region that has at least `least` columns, or all there are:
    /// first column and count, in whole units.
    fn free_columns(
        &self,
        index: usize,
        least: BlockCount,
        unit: BlockCount,
    ) -> Option<(u64, u64)> {
        let (region, used) = self.regions.get(index)?;
        let least = least.min(region.columns).0 / unit.0 * unit.0;
        let whole = (0, region.columns.0);
        let intervals = match used {
            Use::Free => std::slice::from_ref(&whole),
            Use::Columns(free) => free.as_slice(),
            Use::Runs(_) | Use::Closed => return None,
        };
        intervals.iter().copied().find_map(|(first, count)| {
            let count = count / unit.0 * unit.0;
            (count > 0 && count >= least).then_some((first, count))
        })
    }

    /// Regions from `start` on that together have `slots` slots and in which `interval` is free.
    fn regions_with(
        &mut self,
        start: usize,
        slots: usize,
        interval: (u64, u64),
    ) -> Result<Option<Vec<usize>>> {
        let mut found = Vec::new();
        let mut found_slots = 0;
        let mut index = start;
        while found_slots < slots {
            if !self.see(index)? {
                return Ok(None);
            }
            if let Some((region, used)) = self.regions.get(index) {
                let holds = |(first, count): (u64, u64)| {
                    first <= interval.0 && interval.0 + interval.1 <= first + count
                };
                let free = match used {
                    Use::Free => holds((0, region.columns.0)),
                    Use::Columns(free) => free.iter().copied().any(holds),
                    Use::Runs(_) | Use::Closed => false,
                };
                if free {
                    found.push(index);
                    found_slots += region.slot_firsts.len();
                }
            }
            index += 1;
        }
        Ok(Some(found))
    }

    fn take_columns(&mut self, found: &[usize], first: u64, columns: u64) -> ColumnExtent {
        let mut slot_firsts = Vec::new();
        for index in found {
            if let Some((region, used)) = self.regions.get_mut(*index) {
                slot_firsts.extend(region.slot_firsts.iter().map(|slot| slot.0 + first));
                if let Use::Free = used {
                    *used = Use::Columns(vec![(0, region.columns.0)]);
                }
                if let Use::Columns(free) = used {
                    cut(free, first, columns);
                }
            }
        }
        self.close_full();
        ColumnExtent { slot_firsts, columns }
    }

    /// Takes a run of at least `least` blocks, of up to `wanted`, in whole multiples of `least`.
    pub(crate) fn allocate_run(
        &mut self,
        least: BlockCount,
        wanted: BlockCount,
    ) -> Result<RunExtent> {
        let mut index = self.first_open;
        loop {
            if !self.see(index)? {
                return Err(self.full(least));
            }
            if self.has_ensembles_of(index, least)? {
                self.open_for_runs(index)?;
            }
            if let Some((_, Use::Runs(free))) = self.regions.get_mut(index)
                && let Some(run) = free.iter_mut().find(|run| run.count >= least)
            {
                let blocks = run.count.min(wanted.max(least)).0 / least.0 * least.0;
                let first = run.first;
                *run = BlockRange::between(first + BlockCount(blocks), run.end());
                free.retain(|run| !run.is_empty());
                self.close_full();
                return Ok(RunExtent { first: first.0, blocks });
            }
            index += 1;
        }
    }

    /// Whether the ensembles of a region are at least as long as `least`.
    fn has_ensembles_of(&self, index: usize, least: BlockCount) -> Result<bool> {
        match self.regions.get(index) {
            Some((region, _)) => {
                let first = self.device.ensemble(region.blocks.first)?.blocks;
                Ok(first.count >= least)
            }
            None => Ok(false),
        }
    }

    /// Turns a free region into one of runs.
    fn open_for_runs(&mut self, index: usize) -> Result<()> {
        if let Some((region, used @ Use::Free)) = self.regions.get_mut(index) {
            let mut runs = Vec::new();
            let mut at = region.blocks.first;
            while at < region.blocks.end() {
                let end = self.device.ensemble(at)?.blocks.end().min(region.blocks.end());
                runs.push(BlockRange::between(at, end));
                at = end;
            }
            *used = Use::Runs(runs);
        }
        Ok(())
    }

    fn close_full(&mut self) {
        let full = |used: &Use| match used {
            Use::Free => false,
            Use::Closed => true,
            Use::Columns(free) => free.is_empty(),
            Use::Runs(free) => free.is_empty(),
        };
        while self.regions.get(self.first_open).is_some_and(|(_, used)| full(used)) {
            self.first_open += 1;
        }
    }

    /// Takes a run that the catalog names; `false` when it is not free.
    pub(crate) fn take_run(&mut self, wanted: BlockRange) -> Result<bool> {
        let is_free = self.take_blocks(wanted, false)?;
        self.close_full();
        Ok(is_free)
    }

    /// Takes columns that the catalog names; `false` when they are not free.
    pub(crate) fn take_column_extent(&mut self, extent: &ColumnExtent) -> Result<bool> {
        for first in extent.slot_firsts.iter().copied().map(Lbn) {
            let blocks = BlockRange::new(first, BlockCount(extent.columns));
            let index = self.index_of(first)?;
            let is_free = match self.regions.get(index) {
                None => false,
                // One slot is taken as blocks, also where these reach into the next region: a volume
                // that has grown has other regions than when the extent was allocated.
                Some((region, _)) if region.slot_firsts.len() == 1 => {
                    self.take_blocks(blocks, true)?
                }
                Some((region, used)) => match column_of(region, extent, first) {
                    Some(0) if !matches!(used, Use::Runs(_)) => self.take_blocks(blocks, true)?,
                    // The region's first slot stands for all of them.
                    Some(_) if !matches!(used, Use::Runs(_)) => true,
                    _ => self.close(blocks)?,
                },
            };
            if !is_free {
                return Ok(false);
            }
        }
        self.close_full();
        Ok(true)
    }

    /// Allocates nothing more in the regions that have some of `blocks`.
    fn close(&mut self, blocks: BlockRange) -> Result<bool> {
        let mut at = blocks.first;
        while at < blocks.end() {
            let index = self.index_of(at)?;
            let Some((region, used)) = self.regions.get_mut(index) else { return Ok(false) };
            *used = Use::Closed;
            at = region.blocks.end();
        }
        Ok(true)
    }

    /// Takes blocks from one region after the other, of one with several slots from its first. A free
    /// region becomes one of columns, or of runs.
    fn take_blocks(&mut self, wanted: BlockRange, as_columns: bool) -> Result<bool> {
        let mut rest = wanted;
        while !rest.is_empty() {
            let index = self.index_of(rest.first)?;
            if !as_columns {
                self.open_for_runs(index)?;
            }
            let Some((region, used)) = self.regions.get_mut(index) else {
                return Ok(false);
            };
            if let Use::Free = used {
                *used = Use::Columns(vec![(0, region.columns.0)]);
            }
            let end = match used {
                Use::Closed => Some(region.blocks.end()),
                Use::Runs(free) => cut_run(free, rest),
                Use::Columns(_) if !as_columns && region.slot_firsts.len() > 1 => None,
                Use::Columns(free) => {
                    let first = rest.first.since(region.blocks.first).0;
                    let count = rest.count.0.min(region.columns.0.saturating_sub(first));
                    let holds =
                        |(low, length): &(u64, u64)| *low <= first && first + count <= low + length;
                    free.iter().any(holds).then(|| {
                        cut(free, first, count);
                        rest.first + BlockCount(count)
                    })
                }
                Use::Free => None,
            };
            let Some(end) = end else {
                return Ok(false);
            };
            rest = BlockRange::between(end.min(rest.end()), rest.end());
        }
        Ok(true)
    }

    /// Gives back the columns of `extent` from its column `kept` on.
    pub(crate) fn shrink_columns(
        &mut self,
        extent: &mut ColumnExtent,
        kept: BlockCount,
    ) -> Result<()> {
        let freed = extent.columns.saturating_sub(kept.0);
        for first in &extent.slot_firsts {
            let index = self.index_of(Lbn(*first))?;
            let Some((region, Use::Columns(free))) = self.regions.get_mut(index) else {
                continue;
            };
            // The region's first slot stands for all of them.
            let in_first_slot = Lbn(*first) < region.blocks.first + region.columns;
            if freed > 0 && in_first_slot {
                let column = first - region.blocks.first.0 + kept.0;
                let place = free.partition_point(|interval| interval.0 < column);
                free.insert(place, (column, freed));
                free.dedup_by(|next, interval| {
                    let adjacent = interval.0 + interval.1 == next.0;
                    interval.1 += if adjacent { next.1 } else { 0 };
                    adjacent
                });
                self.first_open = self.first_open.min(index);
            }
        }
        extent.columns -= freed;
        Ok(())
    }

    /// Gives a run back.
    pub(crate) fn free_run(&mut self, run: BlockRange) -> Result<()> {
        let index = self.index_of(run.first)?;
        if let Some((_, Use::Runs(free))) = self.regions.get_mut(index) {
            let place = free.partition_point(|free| free.first < run.first);
            free.insert(place, run);
            self.first_open = self.first_open.min(index);
        }
        Ok(())
    }
}

/// In which of the region's slots `first` is, when the extent is the same columns of all of them.
fn column_of(region: &Region, extent: &ColumnExtent, first: Lbn) -> Option<usize> {
    let holds = |slot: &Lbn| *slot <= first && first < *slot + region.columns;
    let slot = region.slot_firsts.iter().position(holds)?;
    let column = first.since(*region.slot_firsts.get(slot)?);
    let in_all =
        region.slot_firsts.iter().all(|slot| extent.slot_firsts.contains(&(slot.0 + column.0)));
    (in_all && column.0 + extent.columns <= region.columns.0).then_some(slot)
}

/// Takes the beginning of `wanted` out of the free run that holds it; gives the end of what was taken.
fn cut_run(free: &mut Vec<BlockRange>, wanted: BlockRange) -> Option<Lbn> {
    let place = free.iter().position(|run| run.contains(wanted.first))?;
    let run = free.remove(place);
    let (before, tail) = run.split_at(wanted.first);
    let (_, after) = tail.split_at(wanted.end());
    let left = [before, after].into_iter().filter(|run| !run.is_empty());
    free.splice(place..place, left);
    Some(run.end().min(wanted.end()))
}

/// Takes `count` columns from `first` on out of the free interval that holds them.
fn cut(free: &mut Vec<(u64, u64)>, first: u64, count: u64) {
    let holds = |interval: &(u64, u64)| interval.0 <= first && first < interval.0 + interval.1;
    if let Some(place) = free.iter().position(holds) {
        let (low, length) = free.remove(place);
        let rest = [(low, first - low), (first + count, low + length - first - count)];
        free.splice(place..place, rest.into_iter().filter(|interval| interval.1 > 0));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use moirai_devices::{Access, open};
    use moirai_runtime::block_on_virtual;
    use moirai_volume::{LayoutDescription, Level, Volume};
    use proptest::prelude::*;
    use std::collections::BTreeSet;

    fn device(quadrangles: bool) -> Arc<dyn Device> {
        let disk =
            || open("sim:quantum-atlas-10k?data=none".parse().unwrap(), Access::Write).unwrap();
        if !quadrangles {
            return disk();
        }
        let layout =
            LayoutDescription::Quadrangle { depth: Some(2), block: BlockCount(1), zone: Some(8) };
        Volume::new("v".into(), vec![disk(), disk()], Level::Raid0, layout).unwrap()
    }

    proptest! {
        /// Whatever is allocated, in whatever order, no block is given twice, and taking what was
        /// allocated on a fresh space works in any order and leaves the same free blocks.
        #[test]
        fn no_block_is_given_twice(
            quadrangles in any::<bool>(),
            requests in prop::collection::vec((any::<bool>(), 1usize..20, 1u64..900), 1..60),
        ) {
            block_on_virtual(0, async {
                let device = device(quadrangles);
                let mut space = Space::new(device.clone(), BlockCount(16)).unwrap();
                let mut again = Space::new(device.clone(), BlockCount(16)).unwrap();
                let mut taken: BTreeSet<u64> = (0..16).collect();
                let mut columns = Vec::new();
                let mut runs = Vec::new();
                for (by_column, slots, wanted) in requests {
                    if by_column {
                        let extent = space
                            .allocate_columns(slots, BlockCount(wanted), BlockCount(8))
                            .unwrap();
                        assert!(extent.slot_firsts.len() >= slots && extent.columns.is_multiple_of(8));
                        assert!(extent.columns > 0);
                        for slot in 0..extent.slot_firsts.len() {
                            let range = extent.slot(slot).unwrap();
                            for lbn in range.first.0..range.end().0 {
                                assert!(taken.insert(lbn), "{lbn} twice");
                            }
                        }
                        columns.push(extent);
                    } else {
                        let run = space.allocate_run(BlockCount(16), BlockCount(wanted)).unwrap();
                        let range = run.range();
                        let ensemble = device.ensemble(range.first).unwrap().blocks;
                        assert!(range.end() <= ensemble.end(), "{range} crosses a boundary");
                        for lbn in range.first.0..range.end().0 {
                            assert!(taken.insert(lbn), "{lbn} twice");
                        }
                        runs.push(run);
                    }
                }
                for (number, extent) in columns.iter_mut().enumerate() {
                    let kept = BlockCount(extent.columns / 8 / (1 + number as u64 % 3) * 8);
                    space.shrink_columns(extent, kept.max(BlockCount(8))).unwrap();
                }
                for extent in columns.iter().rev() {
                    assert!(again.take_column_extent(extent).unwrap());
                    assert!(!again.take_column_extent(extent).unwrap(), "taken twice");
                }
                for run in runs.iter().rev() {
                    assert!(again.take_run(run.range()).unwrap());
                    assert!(!again.take_run(run.range()).unwrap(), "taken twice");
                }
                let next = |space: &mut Space| {
                    (
                        space.allocate_columns(3, BlockCount(64), BlockCount(8)).unwrap(),
                        space.allocate_run(BlockCount(16), BlockCount(64)).unwrap(),
                    )
                };
                assert_eq!(next(&mut space), next(&mut again));
            });
        }
    }

    #[test]
    fn a_full_device_says_so_and_freed_runs_are_used_again() {
        block_on_virtual(0, async {
            let mut space = Space::new(device(true), BlockCount(16)).unwrap();
            let mut last = None;
            let error = loop {
                match space.allocate_run(BlockCount(16), BlockCount(1 << 20)) {
                    Ok(run) => last = Some(run),
                    Err(error) => break error.to_string(),
                }
            };
            assert!(error.contains("is full: 16 blocks more do not fit"), "{error}");
            space.free_run(last.unwrap().range()).unwrap();
            assert_eq!(
                space.allocate_run(BlockCount(16), BlockCount(1 << 20)).unwrap(),
                last.unwrap()
            );
        });
    }
}
