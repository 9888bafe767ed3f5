//! Where the spares of a drive are: by where blocks leave out sectors that no defect list explains.
//!
//! Blocks follow each other along the sectors of a zone. Where block `x` lies on sector `p(x)`, counted along the tracks,
//! `p(x) - x` less the defects before grows at spares and nowhere else: each growth is a *gap*. Gaps at the end of every track,
//! of every cylinder, or of every few name the scheme, and their length is what is spare.

use moirai_geometry::{Geometry, Place, TrackOrder, Zone};
use moirai_storage::{Defect, Located, Sector};
use moirai_units::{BlockRange, Lbn, Location};

use super::cylinders::Run;
use super::{Survey, plain};
use crate::error::Result;

/// Gaps of a zone that are looked for.
const GAPS: usize = 4;
/// Cylinders that are looked at one by one for spare ones.
const CYLINDERS_LOOKED_AT: u32 = 256;
/// Bad sectors of a zone that are told apart, those of bad tracks included.
const BAD_SECTORS_MAX: usize = 16 << 20;
/// Spare cylinders at the end of a zone, at most.
const LAST_CYLINDERS: u32 = 64;

/// A zone whose spares are looked for.
#[derive(Clone, Debug)]
pub(super) struct Frame {
    pub(super) run: Run,
    pub(super) blocks: BlockRange,
    /// Groups of cylinders that end with spare ones: how many of how many; 0 of 0 when there are none.
    spare_cylinders: (u32, u32),
    /// Cylinders at its end that hold no blocks: spare cylinders, spare tracks or spare sectors.
    last_cylinders: u32,
    /// Its groups of cylinders end here, and another zone begins, or a rest without spare ones.
    pub(super) ends: Option<u32>,
}

/// Sectors that blocks leave out, counted along the tracks of a zone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Gap {
    pub(super) start: u64,
    pub(super) end: u64,
}

/// What was found out about a zone.
pub(super) struct Found {
    pub(super) frame: Frame,
    /// Bad sectors along its tracks: those of the primary list, and those that were found since.
    pub(super) primary: Vec<u64>,
    pub(super) grown: Vec<u64>,
    /// Gaps between blocks.
    pub(super) gaps: Vec<Gap>,
    /// What is left out before the first block: spares, or the drive's own.
    pub(super) head: Gap,
    /// What is left behind the last block.
    pub(super) tail: Option<Gap>,
    pub(super) plain: Geometry,
}

impl Frame {
    pub(super) fn new(run: Run, blocks: BlockRange) -> Frame {
        Frame { run, blocks, spare_cylinders: (0, 0), last_cylinders: 0, ends: None }
    }

    /// The same with its last cylinders as spare ones, where it has no groups with others.
    pub(super) fn with_last_cylinders_spare(&self) -> Frame {
        let spare_cylinders = match self.spare_cylinders {
            (0, _) => (self.last_cylinders, 0),
            groups => groups,
        };
        Frame { spare_cylinders, ..self.clone() }
    }

    /// Its zone, without spare sectors or defects.
    pub(super) fn zone(&self) -> Zone {
        let (spare_cylinders, spare_group_cylinders) = self.spare_cylinders;
        Zone {
            first_cylinder: self.run.first,
            cylinders: self.run.end - self.run.first,
            track_sectors: self.run.track_sectors,
            spare_cylinders,
            spare_group_cylinders,
            ..Zone::default()
        }
    }

    /// Spare cylinders of the zone before `cylinder`.
    pub(super) fn spare_cylinders_before(&self, cylinder: u32) -> u32 {
        let (spare, group) = self.spare_cylinders;
        let group = if group == 0 { self.run.end - self.run.first } else { group };
        cylinder.saturating_sub(self.run.first) / group.max(1) * spare
    }
}

impl Found {
    /// The end of the spares that a gap is of: bad sectors may follow them. A multiple of `unit` where there is one.
    pub(super) fn end_of(&self, gap: Gap, unit: u64) -> u64 {
        let mut end = gap.end;
        while !end.is_multiple_of(unit)
            && end > gap.start
            && self.primary.binary_search(&(end - 1)).is_ok()
        {
            end -= 1;
        }
        if end.is_multiple_of(unit) { end } else { gap.end }
    }

    /// Where they start: bad sectors may come before them.
    pub(super) fn start_of(&self, gap: Gap, unit: u64) -> u64 {
        let mut start = gap.start;
        while !start.is_multiple_of(unit)
            && start < gap.end
            && self.primary.binary_search(&start).is_ok()
        {
            start += 1;
        }
        if start.is_multiple_of(unit) { start } else { gap.start }
    }
}

impl Survey<'_, '_> {
    /// The cylinders at which gaps between blocks end: where no scheme explains those, zones do.
    pub(super) async fn gap_cylinders(
        &mut self,
        order: TrackOrder,
        frames: &[Frame],
    ) -> Result<Vec<u32>> {
        let mut cylinders = Vec::new();
        for frame in frames {
            let Some(found) = self.find(order, frame).await? else { continue };
            // A zone begins with either head, as its tracks may be numbered the other way round.
            let is_outer =
                |at: &Location| at.sector == 0 && (at.head == 0 || at.head + 1 == self.heads);
            let ends = found.gaps.iter().map(|gap| Place { zone: 0, sector: gap.end });
            let at = ends.filter_map(|place| found.plain.location(place)).filter(is_outer);
            cylinders.extend(at.map(|at| at.cylinder));
        }
        Ok(cylinders)
    }

    /// Looks at one zone.
    pub(super) async fn find(&mut self, order: TrackOrder, frame: &Frame) -> Result<Option<Found>> {
        let frame = frame.clone();
        let Some(plain) = plain(self.heads, order, &frame) else { return Ok(None) };
        let sectors = |defects: &[Defect]| {
            let mut sectors = Vec::new();
            for Defect { cylinder, head, sector } in defects.iter().copied() {
                let at = Location { cylinder, head, sector: sector.unwrap_or(0) };
                let Some(place) = plain.place(at).filter(|_| {
                    (frame.run.first..frame.run.end).contains(&cylinder) && plain.has(at)
                }) else {
                    continue;
                };
                if sectors.len() > BAD_SECTORS_MAX {
                    break;
                }
                let count = if sector.is_none() { u64::from(frame.run.track_sectors) } else { 1 };
                sectors.extend(place.sector..place.sector + count);
            }
            sectors.sort_unstable();
            sectors.dedup();
            sectors
        };
        let (primary, grown) = (sectors(&self.defects.primary), sectors(&self.defects.grown));
        let mut found = Found {
            frame,
            primary,
            grown,
            gaps: Vec::new(),
            head: Gap { start: 0, end: 0 },
            tail: None,
            plain,
        };
        if found.frame.blocks.is_empty() {
            return Ok(Some(found));
        }
        found.gaps = self.gaps(&found).await?;
        // A gap of whole cylinders: a group of cylinders was longer than what was looked at.
        let cylinder = u64::from(found.frame.run.track_sectors) * u64::from(self.heads);
        let whole = found.gaps.iter().find_map(|gap| {
            let (begin, end) = (gap.start.div_ceil(cylinder), gap.end / cylinder);
            (begin < end).then(|| ((end - begin) as u32, end as u32))
        });
        if let Some((count, group)) = whole
            && found.frame.spare_cylinders.0 == 0
            && !matches!(order, TrackOrder::SurfaceSerpentine { .. })
        {
            found.frame.spare_cylinders = (count, group);
        }
        let end = found.frame.blocks.end();
        let first = self.numbered(&found, found.frame.blocks.first).await?;
        found.head.end = first.unwrap_or(0);
        let last = self.numbered(&found, Lbn(end.0 - 1)).await?;
        let all = found.plain.capacity().0;
        found.tail = last.map(|last| Gap { start: last + 1, end: all });
        Ok(Some(found))
    }

    /// The sector that a block is numbered to, wherever it was moved.
    pub(super) async fn numbered(&mut self, zone: &Found, lbn: Lbn) -> Result<Option<u64>> {
        let Located { location, is_moved } = self.locate(lbn).await?;
        if !is_moved {
            return Ok(zone.plain.place(location).map(|place| place.sector));
        }
        // It lies at a bad place between those of its neighbours that were not moved.
        let (mut before, mut steps) = (lbn, 0);
        while before > zone.frame.blocks.first {
            before = Lbn(before.0 - 1);
            steps += 1;
            let neighbour = self.locate(before).await?;
            let at = zone.plain.place(neighbour.location).filter(|_| !neighbour.is_moved);
            let Some(at) = at else { continue };
            // Sectors that are skipped do not count.
            let mut sector = at.sector;
            for _ in 0..steps {
                sector += 1;
                while zone.primary.binary_search(&sector).is_ok() {
                    sector += 1;
                }
            }
            if zone.grown.binary_search(&sector).is_ok() {
                return Ok(Some(sector));
            }
            break;
        }
        let (mut after, mut steps) = (lbn, 0);
        while after.0 + 1 < zone.frame.blocks.end().0 {
            after = Lbn(after.0 + 1);
            steps += 1;
            let neighbour = self.locate(after).await?;
            let at = zone.plain.place(neighbour.location).filter(|_| !neighbour.is_moved);
            let Some(at) = at else { continue };
            let mut sector = at.sector;
            for _ in 0..steps {
                sector = sector.saturating_sub(1);
                while sector > 0 && zone.primary.binary_search(&sector).is_ok() {
                    sector -= 1;
                }
            }
            return Ok(Some(sector));
        }
        Ok(None)
    }

    /// How many sectors before a block hold none, defects of the primary list left aside.
    async fn left_out(&mut self, zone: &Found, lbn: Lbn) -> Result<Option<(u64, u64)>> {
        let Some(sector) = self.numbered(zone, lbn).await? else { return Ok(None) };
        let bad = zone.primary.partition_point(|bad| *bad < sector) as u64;
        let blocks = lbn.since(zone.frame.blocks.first).0;
        Ok(sector.checked_sub(bad + blocks).map(|left_out| (left_out, sector)))
    }

    /// The first gaps between the blocks of a zone.
    pub(super) async fn gaps(&mut self, zone: &Found) -> Result<Vec<Gap>> {
        let mut gaps = Vec::new();
        let BlockRange { first, .. } = zone.frame.blocks;
        let last = Lbn(zone.frame.blocks.end().0 - 1);
        let Some((mut here, _)) = self.left_out(zone, first).await? else { return Ok(gaps) };
        let mut at = first;
        while gaps.len() < GAPS {
            let (mut low, mut step) = (at, 1);
            let mut high = loop {
                let next = Lbn(low.0 + step).min(last);
                match self.left_out(zone, next).await? {
                    Some((left_out, _)) if left_out == here => {
                        if next == last {
                            return Ok(gaps);
                        }
                        low = next;
                        step *= 2;
                    }
                    _ => break next,
                }
            };
            while high.0 - low.0 > 1 {
                let middle = Lbn(u64::midpoint(low.0, high.0));
                match self.left_out(zone, middle).await? {
                    Some((left_out, _)) if left_out == here => low = middle,
                    _ => high = middle,
                }
            }
            let before = self.numbered(zone, low).await?;
            let Some((beyond, sector)) = self.left_out(zone, high).await? else { return Ok(gaps) };
            let Some(before) = before.filter(|before| before + 1 < sector) else { return Ok(gaps) };
            gaps.push(Gap { start: before + 1, end: sector });
            (at, here) = (high, beyond);
        }
        Ok(gaps)
    }

    /// Looks for cylinders that hold no blocks, where enough is left out for one.
    pub(super) async fn with_spare_cylinders(&mut self, mut frame: Frame) -> Result<Frame> {
        let Run { first, end, track_sectors } = frame.run;
        if frame.blocks.is_empty() {
            return Ok(frame);
        }
        let cylinder = u64::from(track_sectors) * u64::from(self.heads);
        let mut used_end = end;
        while used_end > first
            && end - used_end < LAST_CYLINDERS
            && self.is_reserved(used_end - 1, track_sectors).await?
        {
            used_end -= 1;
        }
        frame.last_cylinders = end - used_end;
        if frame.last_cylinders == LAST_CYLINDERS {
            // What lies far behind the last block is not in use.
            used_end = self.locate(self.last()).await?.location.cylinder + 1;
            used_end = used_end.clamp(first, end);
            frame.last_cylinders = 0;
        }
        let used = u64::from(used_end - first) * cylinder;
        if used.saturating_sub(frame.blocks.count.0) < cylinder {
            return Ok(frame);
        }
        // Behind the front, which may be the drive's own, come groups of cylinders with spare ones at their ends.
        let (mut is_used, mut spare) = (false, None);
        for at in (first..used_end).take(CYLINDERS_LOOKED_AT as usize) {
            match self.is_reserved(at, track_sectors).await? {
                true if is_used => {
                    let (_, count) = spare.get_or_insert((at, 0));
                    *count += 1;
                }
                true => {}
                false => is_used = true,
            }
            if let Some((begin, count)) = spare
                && begin + count <= at
            {
                frame.spare_cylinders = (count, begin + count - first);
                break;
            }
        }
        let (_, group) = frame.spare_cylinders;
        if let Some(groups) = (used_end - first).checked_div(group) {
            // Groups that do not end with spare cylinders are of another zone.
            let (mut right, mut wrong) = (1, groups + 1);
            while wrong - right > 1 {
                let middle = u32::midpoint(right, wrong);
                match self.is_reserved(first + middle * group - 1, track_sectors).await? {
                    true => right = middle,
                    false => wrong = middle,
                }
            }
            frame.ends = (right < groups).then_some(first + right * group);
        }
        Ok(frame)
    }

    /// Whether a cylinder seems to hold no blocks.
    async fn is_reserved(&mut self, cylinder: u32, track_sectors: u32) -> Result<bool> {
        let mut defects = self.defects.primary.iter().chain(&self.defects.grown);
        if defects.any(|defect| defect.cylinder == cylinder && defect.sector.is_none()) {
            return Ok(false);
        }
        let last = self.heads - 1;
        for (head, part) in [(0, 4), (last, 5), (last / 2, 3), (0, 6), (last, 2), (0, 7)] {
            let sector = (u64::from(track_sectors) * part / 8) as u32;
            if let Some(Sector::Block(_)) = self.sector(Location { cylinder, head, sector }).await?
            {
                return Ok(false);
            }
        }
        Ok(true)
    }
}

pub(super) fn gcd(a: u64, b: u64) -> u64 {
    if b == 0 { a } else { gcd(b, a % b) }
}
