//! The disks of an array and its stripe units, from timings alone.
//!
//! A block's disk is known by blocks at the other end of the device that lie on the same one. The end of a unit is where the disk
//! changes: looked for by doubling, then by bisection. A run of equal units is followed in steps that grow: the units there must
//! lie where they would, each whole on one disk and its neighbours on others.

mod pairs;

use moirai_runtime::now;
use moirai_storage::Device;
use moirai_units::{BlockCount, BlockRange, Lbn, Nanos};
use pairs::{Disks, Pairs};

use crate::error::Result;
use crate::map::TrackMap;
use crate::rotation::Rotation;
use crate::tracks::{Progress, is_certain};

/// Blocks that stand for a disk, and how many are tried for each of them and each disk that is known.
const STANDING_FOR: usize = 4;
const TRIED_FOR: usize = 12;
/// No array has more disks.
const DISKS_MAX: usize = 64;
/// By what the steps grow in which a run is followed, and how many of its units are looked at besides.
const STEP: u64 = 4;
const ANYWHERE: u64 = 8;
/// Parity that moves to the next disk leaves two neighbouring units on one; of this many neighbours two boundaries in a row show.
const NEIGHBOURS: u64 = 4;
/// How long runs of units are followed, as where defects shorten many of them. What lies behind is left in doubt.
const LONGEST: Nanos = Nanos(3_600_000_000_000);

/// An array, as far as reads tell.
#[derive(Clone, Debug, PartialEq)]
pub struct Array {
    /// Disks that blocks are read from: those that only bring parity do not show. `None` where there are several, and which blocks lie on
    /// which of them does not show.
    pub disks: Option<usize>,
    /// Runs of stripe units of equal length: the first block, and the blocks of each. None where disks do not show.
    pub units: Vec<(Lbn, BlockCount)>,
    /// Where units are guesses.
    pub unsure: Vec<BlockRange>,
    /// How the disks turn.
    pub rotation: Rotation,
}

impl Array {
    /// The map of the units of a device of `capacity`; `None` where none were found.
    #[must_use]
    pub fn map(&self, capacity: BlockCount) -> Option<TrackMap> {
        let runs = self
            .units
            .iter()
            .map(|(first, unit)| (first.0, u32::try_from(unit.0).unwrap_or(u32::MAX), 0));
        (!self.units.is_empty()).then(|| TrackMap::from_runs(runs, capacity))
    }

    /// Whether it was seen that a unit begins with `lbn`, or that none does.
    #[must_use]
    pub fn is_certain(&self, lbn: Lbn) -> bool {
        is_certain(&self.unsure, lbn)
    }
}

/// Looks whether several disks lie behind `device`, and finds their stripe units. `None` where it is one disk. It is only read.
///
/// # Errors
/// Failures of the device, and [`Error::NoRotation`](crate::Error::NoRotation) for one that does not turn.
pub async fn find_array(
    device: &dyn Device,
    progress: impl FnMut(Progress),
) -> Result<Option<Array>> {
    let mut pairs = Pairs::of(device).await?;
    let disks = pairs.disks().await?;
    if disks == Disks::One {
        return Ok(None);
    }
    let capacity = device.inquiry().capacity;
    let mut search = Search {
        pairs,
        end: Lbn(capacity.0),
        halves: [Vec::new(), Vec::new()],
        units: Vec::new(),
        unsure: vec![BlockRange::new(Lbn(0), capacity)],
    };
    if disks == Disks::Several {
        search.all(progress).await?;
    }
    let Search { pairs, halves, units, unsure, .. } = search;
    Ok(Some(Array {
        disks: halves.iter().map(Vec::len).max().filter(|count| *count > 1),
        units,
        unsure,
        rotation: pairs.rotation,
    }))
}

/// Which disk: a number in the half of the device that was looked at.
type DiskNumber = usize;

struct Search<'a> {
    pairs: Pairs<'a>,
    /// Behind the last block.
    end: Lbn,
    /// For each half of the device, the disks of its blocks: blocks of each at the other end.
    halves: [Vec<Vec<Lbn>>; 2],
    units: Vec<(Lbn, BlockCount)>,
    unsure: Vec<BlockRange>,
}

impl Search<'_> {
    async fn all(&mut self, mut progress: impl FnMut(Progress)) -> Result<()> {
        let capacity = BlockCount(self.end.0);
        let began = now();
        let mut at = Lbn(0);
        while at < self.end && now().since(began) < LONGEST {
            progress(Progress { done: at, capacity });
            let Some(next) = self.end_of_unit(at).await? else { break };
            let unit = next.since(at);
            let count = if next < self.end { self.run(at, unit).await? } else { 1 };
            self.meet_all(at, unit, count).await?;
            self.units.push((at, unit));
            at = Lbn(at.0.saturating_add(count * unit.0)).min(self.end);
        }
        self.unsure = match at < self.end {
            true => vec![BlockRange::between(at, self.end)],
            false => Vec::new(),
        };
        Ok(())
    }

    /// Looks at units behind each other until twice as many as there are disks were on disks that are known.
    async fn meet_all(&mut self, first: Lbn, unit: BlockCount, count: u64) -> Result<()> {
        let half = self.half(first);
        let mut since = 0;
        for index in 0..count {
            let known = self.disks(half);
            let at = first + BlockCount(index * unit.0);
            if since > 2 * known || at >= self.end || self.half(at) != half {
                break;
            }
            self.disk(at, half).await?;
            since = if self.disks(half) > known { 0 } else { since + 1 };
        }
        Ok(())
    }

    fn half(&self, lbn: Lbn) -> usize {
        usize::from(lbn.0 >= self.end.0 / 2)
    }

    /// Blocks of a disk, to compare those of a half with.
    fn standing_for(&self, half: usize, disk: DiskNumber) -> Vec<Lbn> {
        let disks = self.halves.get(half).and_then(|disks| disks.get(disk));
        disks.cloned().unwrap_or_default()
    }

    fn disks(&self, half: usize) -> usize {
        self.halves.get(half).map_or(0, Vec::len)
    }

    /// The disk of a block of a half, or little behind it; `None` where no other block is on it.
    async fn disk(&mut self, lbn: Lbn, half: usize) -> Result<Option<DiskNumber>> {
        for disk in 0..self.disks(half) {
            if !self.pairs.differ(lbn, &self.standing_for(half, disk)).await? {
                return Ok(Some(disk));
            }
        }
        let known = self.disks(half);
        let mut found = Vec::with_capacity(STANDING_FOR);
        for _ in 0..STANDING_FOR * TRIED_FOR * (known + 2) {
            let other = self.pairs.far_from(half);
            if !self.pairs.differ(lbn, &[other]).await? {
                found.push(other);
            }
            if found.len() == STANDING_FOR {
                break;
            }
        }
        let is_found = found.len() == STANDING_FOR && known < DISKS_MAX;
        if let Some(disks) = self.halves.get_mut(half).filter(|_| is_found) {
            disks.push(found);
        }
        Ok(is_found.then_some(known))
    }

    async fn is_on(&mut self, lbn: Lbn, half: usize, disk: DiskNumber) -> Result<bool> {
        Ok(!self.pairs.differ(lbn, &self.standing_for(half, disk)).await?)
    }

    /// Where the stripe unit that begins with `first` ends.
    async fn end_of_unit(&mut self, first: Lbn) -> Result<Option<Lbn>> {
        let half = self.half(first);
        let Some(disk) = self.disk(first, half).await? else { return Ok(None) };
        // Comparisons of a half reach a little into the other one.
        let limit = if half == 0 { Lbn(self.end.0 / 4 * 3) } else { self.end };
        let (mut inside, mut step) = (first, 1);
        let mut outside = loop {
            let next = Lbn(first.0 + step);
            if next >= limit {
                return Ok((limit == self.end).then_some(self.end));
            }
            if !self.is_on(next, half, disk).await? {
                break next;
            }
            (inside, step) = (next, step * 2);
        };
        while outside.since(inside).0 > 1 {
            let middle = Lbn(inside.0 + outside.since(inside).0 / 2);
            match self.is_on(middle, half, disk).await? {
                true => inside = middle,
                false => outside = middle,
            }
        }
        Ok(Some(outside))
    }

    /// How many units of one length lie behind each other from `first` on.
    async fn run(&mut self, first: Lbn, unit: BlockCount) -> Result<u64> {
        let all = self.end.since(first).0 / unit.0;
        // The last units have no neighbours to compare with, and are as those before. Of a few, none was seen before.
        let last = all.saturating_sub(NEIGHBOURS + 1);
        if last == 0 {
            return Ok(1);
        }
        let (mut good, mut step) = (0, 1);
        let mut bad = None;
        while good < last && bad.is_none() {
            let next = (good + step).min(last);
            match self.is_unit(first, unit, next).await? {
                true => good = next,
                false => bad = Some(next),
            }
            step *= STEP;
        }
        // Where the run ends is looked for again if one of these does not fit.
        for index in 0..ANYWHERE {
            let within = good / ANYWHERE;
            let at = within * index + (within as f64 * self.pairs.scattered()) as u64;
            if at > 0 && !self.is_unit(first, unit, at).await? {
                bad = Some(at);
                break;
            }
        }
        let Some(mut bad) = bad else {
            // A part of a unit at the end is one.
            return Ok(self.end.since(first).0.div_ceil(unit.0));
        };
        good = good.min(bad - 1);
        if !(good == 0 || self.is_unit(first, unit, good).await?) {
            good = 0;
        }
        while bad - good > 1 {
            let middle = good + (bad - good) / 2;
            match self.is_unit(first, unit, middle).await? {
                true => good = middle,
                false => bad = middle,
            }
        }
        Ok(good + 1)
    }

    /// Whether a run has its unit of this number where it should be: whole on one disk, and its neighbours on others.
    async fn is_unit(&mut self, first: Lbn, unit: BlockCount, index: u64) -> Result<bool> {
        let at = first + BlockCount(index * unit.0);
        let half = self.half(at);
        let mut before = self.disk(Lbn(at.0.saturating_sub(1)), half).await?;
        for neighbour in 0..NEIGHBOURS {
            let begin = at + BlockCount(neighbour * unit.0);
            let Some(disk) = self.disk(begin, half).await? else { return Ok(false) };
            let next = begin + unit;
            if !self.is_on(Lbn(next.0 - 1), half, disk).await? {
                return Ok(false);
            }
            if before.is_some_and(|before| before != disk) && !self.is_on(next, half, disk).await? {
                return Ok(true);
            }
            before = Some(disk);
        }
        Ok(false)
    }
}
