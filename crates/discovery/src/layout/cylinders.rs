//! Heads, cylinders, and how long their tracks are: by which places there are.

use std::collections::BTreeSet;

use moirai_units::Location;

use super::Survey;
use crate::drive::{CYLINDERS_MAX, TRACK_SECTORS_MAX};
use crate::error::Result;

/// Cylinders that are looked at first; all of a disk with fewer.
const SAMPLED: u32 = 128;
/// More surfaces than any drive has.
const HEADS_MAX: u32 = 256;

/// Consecutive cylinders with equally long tracks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Run {
    pub(super) first: u32,
    /// Behind the last.
    pub(super) end: u32,
    pub(super) track_sectors: u32,
}

impl Survey<'_, '_> {
    /// Heads: those of the cylinder that the first block lies on.
    pub(super) async fn count_heads(&mut self) -> Result<u32> {
        let cylinder = self.locate(moirai_units::Lbn(0)).await?.location.cylinder;
        for head in 0..=HEADS_MAX {
            if self.sector(Location { cylinder, head, sector: 0 }).await?.is_none() && head > 0 {
                return Ok(head);
            }
        }
        Err(self.drive.contradiction(format!("it has more than {HEADS_MAX} heads")))
    }

    async fn has(&mut self, cylinder: u32, sector: u32) -> Result<bool> {
        Ok(self.sector(Location { cylinder, head: 0, sector }).await?.is_some())
    }

    /// Sectors of a track of `cylinder`, which are probably `guess`; none when there is no such cylinder.
    async fn track_sectors(&mut self, cylinder: u32, guess: u32) -> Result<u32> {
        if guess > 0 && self.has(cylinder, guess - 1).await? && !self.has(cylinder, guess).await? {
            return Ok(guess);
        }
        // There is a sector `low - 1`, and none `high`.
        let (mut low, mut high) = (0, 1);
        while self.has(cylinder, high - 1).await? {
            low = high;
            high *= 2;
            if high > 2 * TRACK_SECTORS_MAX {
                let why = format!("tracks of cylinder {cylinder} have no end");
                return Err(self.drive.contradiction(why));
            }
        }
        high -= 1;
        while low < high {
            let middle = u32::midpoint(low, high);
            if self.has(cylinder, middle).await? { low = middle + 1 } else { high = middle }
        }
        Ok(low)
    }

    /// The runs of cylinders, from the rim inwards. Between two cylinders with equally long tracks others may be missed.
    pub(super) async fn runs(&mut self) -> Result<Vec<Run>> {
        let last = self.locate(self.last()).await?.location.cylinder;
        // Spare cylinders may lie behind the last block.
        let (mut there, mut step) = (last, 1);
        while self.has(there + step, 0).await? {
            there += step;
            step *= 2;
            if there + step > CYLINDERS_MAX {
                return Err(self.drive.contradiction("its cylinders have no end".to_owned()));
            }
        }
        let mut beyond = there + step;
        while beyond - there > 1 {
            let middle = u32::midpoint(there, beyond);
            if self.has(middle, 0).await? { there = middle } else { beyond = middle }
        }
        let stride = (beyond / SAMPLED).max(1);
        let mut sampled: Vec<(u32, u32)> = Vec::new();
        let mut guess = 0;
        for cylinder in (0..beyond).step_by(stride as usize).chain([beyond - 1]) {
            guess = self.track_sectors(cylinder, guess).await?;
            sampled.push((cylinder, guess));
        }
        // What lies between two that differ is looked at more closely, the outermost first.
        let mut open: Vec<((u32, u32), (u32, u32))> =
            sampled.iter().copied().zip(sampled.iter().copied().skip(1)).rev().collect();
        let mut runs = Vec::new();
        let mut first = 0;
        while let Some((low, high)) = open.pop() {
            if low.1 == high.1 {
                continue;
            }
            if high.0 - low.0 > 1 {
                let middle = u32::midpoint(low.0, high.0);
                let middle = (middle, self.track_sectors(middle, low.1).await?);
                open.extend([(middle, high), (low, middle)]);
                continue;
            }
            runs.push(Run { first, end: high.0, track_sectors: low.1 });
            first = high.0;
        }
        runs.push(Run { first, end: beyond, track_sectors: guess });
        runs.retain(|run| run.track_sectors > 0);
        Ok(runs)
    }

    /// Looks at `cylinders` and beside them for a run that was missed; gives the runs with it.
    pub(super) async fn missed_run(
        &mut self,
        runs: &[Run],
        cylinders: &[u32],
    ) -> Result<Option<Vec<Run>>> {
        let beside = cylinders.iter().flat_map(|at| [at.saturating_sub(1), *at, at + 1]);
        for at in beside.collect::<BTreeSet<_>>() {
            let mut holding = runs.iter().filter(|run| (run.first..run.end).contains(&at));
            let Some(run) = holding.next().copied() else { continue };
            let sectors = self.track_sectors(at, run.track_sectors).await?;
            if sectors == run.track_sectors {
                continue;
            }
            let (mut first, mut end) = (at, at + 1);
            while first > run.first && self.track_sectors(first - 1, sectors).await? == sectors {
                first -= 1;
            }
            while end < run.end && self.track_sectors(end, sectors).await? == sectors {
                end += 1;
            }
            let mut runs = runs.to_vec();
            replace(&mut runs, run, first, end, sectors);
            return Ok(Some(runs));
        }
        Ok(None)
    }
}

/// Lets a zone begin at a cylinder, whose tracks are as long as those before.
pub(super) fn cut_at(runs: &mut Vec<Run>, at: u32) {
    if let Some(run) = runs.iter().copied().find(|run| run.first < at && at < run.end) {
        replace(runs, run, at, run.end, run.track_sectors);
    }
}

/// Joins the run that begins at a cylinder with the next one, if their tracks are equally long.
pub(super) fn merge_behind(runs: &mut Vec<Run>, at: u32) -> bool {
    let Some(index) = runs.iter().position(|run| run.first == at) else { return false };
    let (Some(one), Some(next)) = (runs.get(index).copied(), runs.get(index + 1).copied()) else {
        return false;
    };
    if one.end != next.first || one.track_sectors != next.track_sectors {
        return false;
    }
    runs.remove(index);
    if let Some(next) = runs.get_mut(index) {
        next.first = at;
    }
    true
}

/// Puts a run from `first` to `end` into another one.
fn replace(runs: &mut Vec<Run>, within: Run, first: u32, end: u32, track_sectors: u32) {
    runs.retain(|run| *run != within);
    runs.extend([
        Run { end: first, ..within },
        Run { first, end, track_sectors },
        Run { first: end, ..within },
    ]);
    runs.retain(|run| run.first < run.end && run.track_sectors > 0);
    runs.sort_unstable_by_key(|run| run.first);
}
