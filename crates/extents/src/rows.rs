//! Extents in rows of a region, so that blocks of the same index belong to one equivalence class.
//!
//! ```text
//!             column  0           c           c + n
//!   slot r            |           [  extent 0  ]         scanned alone, an extent is sequential
//!   slot r + 1        |           [  extent 1  ]         block i of all of them is read together: a class
//!   ...
//! ```
//!
//! Going from one slot to the next costs a disk a switch, in which H blocks pass (thesis 6.3.3). Rows of no more than H blocks are
//! reached sooner side by side, so they are not taken. What a slot has left behind its last rows is free for shorter runs alone: so
//! rows are not taken either where that would be much, and on a device of which little is free.

use std::sync::Arc;

use moirai_units::{BlockCount, Lbn};

use crate::extents::{Extent, Extents, Free};
use crate::regions::{Region, region_of};

/// Regions that are looked at for free rows.
const REGIONS_TRIED: usize = 16;
/// Of a slot at most one such part may be left behind as many rows as fit.
const LEFT_SHARE: u64 = 6;

/// Extents that begin at the same column of consecutive slots of a region.
#[derive(Debug)]
pub struct Rows {
    /// One in each row.
    pub extents: Vec<Extent>,
    /// From the beginning of one to that of the next.
    pub stride: BlockCount,
}

impl Extents {
    /// Extents in up to `most` rows, as many as a region has slots, but at least two. `length` gives how many blocks to take in a
    /// row: it is told how many rows there are, and which of them is asked for. `None` where the device has no equivalence
    /// classes, where rows are too short to be worth it, where the regions that are looked at have no such rows free, and where
    /// fewer than `reserve` blocks would stay free.
    pub fn take_rows(
        self: &Arc<Extents>,
        most: usize,
        length: impl Fn(usize, usize) -> BlockCount,
        reserve: BlockCount,
    ) -> Option<Rows> {
        // Without depth nothing is semi-sequential: the members of a class lie on different disks, or there are none.
        let device = self.ensembles.device().filter(|device| device.inquiry().depth > 1)?;
        let mut free = self.free.lock();
        if free.blocks < self.capacity().0 / 4 {
            return None;
        }
        let mut next = free.next_column;
        for _ in 0..REGIONS_TRIED {
            // After the last free run comes the first.
            let (first, _) = free.from(next).or_else(|| free.from(0))?;
            let Some(region) = region_of(device, Lbn(first)) else {
                next = device.parallel_ensemble(Lbn(first)).ok()?.end().0;
                continue;
            };
            let rows = most.min(region.slot_firsts.len());
            let rounded = |row| length(rows, row).0.next_multiple_of(self.grain.0);
            let lengths: Vec<u64> = (0..rows).map(rounded).collect();
            if free.blocks < lengths.iter().sum::<u64>().saturating_add(reserve.0) {
                return None;
            }
            if lengths.iter().min().is_none_or(|shortest| *shortest <= self.ensembles.switch(first))
            {
                return None;
            }
            let Some(firsts) = self.rows_in(&free, &region, Lbn(first), &lengths) else {
                next = region.blocks.end().0;
                continue;
            };
            free.next_column = firsts.first()?.0 + lengths.first()?;
            let taken = firsts.iter().zip(&lengths);
            let extents = taken.map(|(at, count)| self.remove(&mut free, at.0, *count)).collect();
            return Some(Rows { extents, stride: region.columns });
        }
        free.next_column = next;
        None
    }

    /// Where rows of these lengths begin in a region, from the block `from` of it on.
    fn rows_in(
        &self,
        free: &Free,
        region: &Region,
        from: Lbn,
        lengths: &[u64],
    ) -> Option<Vec<Lbn>> {
        let (rows, columns) = (lengths.len(), region.columns.0);
        let is_whole = |blocks: u64| blocks.is_multiple_of(self.grain.0);
        let left = columns % lengths.iter().max()?.max(&1);
        let is_much = left * LEFT_SHARE > columns;
        if rows < 2 || is_much || !is_whole(region.blocks.first.0) || !is_whole(columns) {
            return None;
        }
        let passed = from.since(region.blocks.first).0;
        let (slot, column) = ((passed / columns) as usize, passed % columns);
        let groups = region.slot_firsts.chunks_exact(rows).enumerate().skip(slot / rows);
        for (index, group) in groups {
            // In the group of `from` what comes before its column was passed over.
            let column = if index == slot / rows { column } else { 0 };
            if let Some(column) = self.column_in(free, group, (column, columns), lengths) {
                return Some(group.iter().map(|slot| *slot + BlockCount(column)).collect());
            }
        }
        None
    }

    /// The first column of `from..columns` where rows of these lengths are free; a later one where that saves boundaries.
    fn column_in(
        &self,
        free: &Free,
        slots: &[Lbn],
        (from, columns): (u64, u64),
        lengths: &[u64],
    ) -> Option<u64> {
        let (width, slot) = (*lengths.iter().max()?, slots.first()?.0);
        let mut column = from;
        while column + width <= columns {
            let Some(next) = next_column(free, slots, column, lengths) else {
                let placed = self.ensembles.place(slot + column, width, self.grain.0) - slot;
                let is_better = placed + width <= columns
                    && next_column(free, slots, placed, lengths).is_none();
                return Some(if is_better { placed } else { column });
            };
            column = next;
        }
        None
    }
}

/// The next column where rows of these lengths may be free, where they are not at `column`.
fn next_column(free: &Free, slots: &[Lbn], column: u64, lengths: &[u64]) -> Option<u64> {
    for (slot, length) in slots.iter().zip(lengths) {
        let at = slot.0 + column;
        match free.from(at) {
            Some((first, end)) if first == at && end >= at + length => {}
            // What is free is too short.
            Some((first, end)) if first == at => return Some(end - slot.0),
            Some((first, _)) => return Some(first - slot.0),
            None => return Some(u64::MAX >> 1),
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use moirai_devices::{Access, open};
    use moirai_storage::Device;
    use moirai_units::BlockRange;
    use moirai_volume::{LayoutDescription, Level, Volume};
    use rand::Rng;

    use super::*;
    use crate::{Ensembles, region_at};

    fn disk() -> Arc<dyn Device> {
        open("sim:quantum-atlas-10k?data=none".parse().unwrap(), Access::Write).unwrap()
    }

    fn quadrangles() -> Arc<dyn Device> {
        let layout =
            LayoutDescription::Quadrangle { depth: Some(2), block: BlockCount(1), zone: Some(8) };
        Volume::new("v".into(), vec![disk(), disk()], Level::Raid0, layout).unwrap()
    }

    /// Runs and rows are taken and freed at random: none overlap, and blocks of the same index in rows are of one class.
    #[test]
    fn rows_are_equivalent_and_apart() {
        moirai_runtime::block_on_virtual(1, async {
            let device = quadrangles();
            let mut random = moirai_runtime::random("rows");
            let columns = region_of(&*device, Lbn(0)).unwrap().columns.0;
            let all = BlockRange::new(Lbn(24), BlockCount(100_000));
            let extents = Extents::new(all, BlockCount(1), Ensembles::of(Arc::clone(&device)));
            let mut held: Vec<Vec<Extent>> = Vec::new();
            let (mut in_rows, mut refused) = (0, 0);
            for _ in 0..20_000 {
                let is_full = extents.free().0 < all.count.0 / 2;
                if !held.is_empty() && (is_full || random.random_bool(0.4)) {
                    held.swap_remove(random.random_range(0..held.len()));
                    continue;
                }
                // Of a slot next to nothing is left.
                let count = BlockCount(columns / random.random_range(3..7) - 1);
                let most = random.random_range(1..7);
                if most == 1 {
                    held.extend(extents.take(count, BlockCount::ZERO).map(|extent| vec![extent]));
                    continue;
                }
                let length = |rows, row| {
                    assert!(row < rows && rows <= most && rows <= 4);
                    if row + 1 == rows { count + BlockCount(1) } else { count }
                };
                let Some(rows) = extents.take_rows(most, length, BlockCount::ZERO) else {
                    refused += 1;
                    continue;
                };
                in_rows += 1;
                assert_eq!(rows.extents.len(), most.min(4));
                let first = rows.extents[0].first();
                for index in [0, count.0 - 1].map(BlockCount) {
                    let class: Vec<Lbn> =
                        device.equivalent(first + index).unwrap().by_column().collect();
                    let of_rows = rows.extents.iter().map(|row| row.first() + index);
                    let of_rows: Vec<Lbn> = of_rows.collect();
                    let at = class.iter().position(|lbn| *lbn == of_rows[0]).unwrap();
                    assert_eq!(class[at..at + of_rows.len()], of_rows);
                    assert_eq!(of_rows[1], of_rows[0] + rows.stride);
                }
                held.push(rows.extents);
            }
            let mut held: Vec<Extent> = held.into_iter().flatten().collect();
            held.sort_by_key(|one| one.blocks.first);
            assert!(held.windows(2).all(|pair| pair[0].blocks.end() <= pair[1].blocks.first));
            let used: u64 = held.iter().map(|one| one.blocks.count.0).sum();
            assert_eq!(used + extents.free().0, all.count.0);
            // Half of the device is free, in what the runs and rows of others leave.
            assert!(in_rows > 9 * refused, "{in_rows} in rows, {refused} refused");
        });
    }

    /// Rows of the same length lie side by side, then in the next slots, and then in the next region.
    #[test]
    fn rows_fill_regions() {
        moirai_runtime::block_on_virtual(1, async {
            let device = quadrangles();
            let region = region_of(&*device, Lbn(0)).unwrap();
            assert_eq!(region.slot_firsts.len(), 4);
            let all = BlockRange::new(Lbn(0), BlockCount(3 * region.blocks.count.0));
            let extents = Extents::new(all, BlockCount(1), Ensembles::of(device));
            let half = BlockCount(region.columns.0 / 2);
            let take = || extents.take_rows(2, |_, _| half, BlockCount::ZERO);
            let mut firsts = Vec::new();
            let mut held = Vec::new();
            for _ in 0..8 {
                let rows = take().unwrap();
                firsts.push(rows.extents[0].first());
                held.push(rows);
            }
            let slots = |region: &Region| [region.slot_firsts[0], region.slot_firsts[2]];
            let next = region_at(extents.ensembles.device().unwrap(), region.blocks.end()).unwrap();
            let expected = [slots(&region), slots(&next)].concat();
            let expected: Vec<Lbn> =
                expected.into_iter().flat_map(|slot| [slot, slot + half]).collect();
            assert_eq!(firsts, expected);
            // Once a quarter is free there are no more.
            held.extend(std::iter::from_fn(take));
            assert_eq!(held.len(), 10);
            assert!(extents.free().0 * 4 < all.count.0);
            held.truncate(4);
            let reserve = BlockCount(extents.free().0 - half.0);
            assert!(extents.take_rows(2, |_, _| half, reserve).is_none(), "with a reserve");
            // Much of each slot would be left.
            let much = BlockCount(region.columns.0 * 2 / 3);
            assert!(extents.take_rows(2, |_, _| much, BlockCount::ZERO).is_none());
        });
    }

    #[test]
    fn short_rows_are_not_worth_a_switch() {
        moirai_runtime::block_on_virtual(1, async {
            let device = quadrangles();
            let all = BlockRange::new(Lbn(0), BlockCount(100_000));
            let switch = device.ensemble(Lbn(0)).unwrap().switch.0;
            assert!(switch > 30, "{switch}");
            let extents = Extents::new(all, BlockCount(1), Ensembles::of(device));
            let take = |count| extents.take_rows(2, |_, _| BlockCount(count), BlockCount::ZERO);
            assert!(take(switch).is_none());
            assert!(take(switch + 1).is_some());
        });
    }

    #[test]
    fn without_classes_there_are_no_rows() {
        moirai_runtime::block_on_virtual(1, async {
            let all = BlockRange::new(Lbn(0), BlockCount(100_000));
            for ensembles in [Ensembles::of(disk()), Ensembles::none()] {
                let extents = Extents::new(all, BlockCount(1), ensembles);
                assert!(extents.take_rows(2, |_, _| BlockCount(80), BlockCount::ZERO).is_none());
            }
        });
    }
}
