//! Where the spares of a drive are: by where blocks leave out sectors that no defect list explains.
//!
//! Blocks follow each other along the sectors of a zone. Where block `x` lies on sector `p(x)`, counted along the tracks,
//! `p(x) - x` less the defects before grows at spares and nowhere else: each growth is a *gap*. Gaps at the end of every track,
//! of every cylinder, or of every few name the scheme, and their length is what is spare.

use moirai_geometry::{Defects, Geometry, Place, Sparing, TrackOrder, Zone};
use moirai_storage::{Defect, Located, Sector};
use moirai_units::{BlockCount, BlockRange, Lbn, Location};

use super::cylinders::Run;
use super::{Survey, plain, reach};
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
struct Gap {
    start: u64,
    end: u64,
}

/// What was found out about a zone.
struct Found {
    frame: Frame,
    /// Bad sectors along its tracks: those of the primary list, and those that were found since.
    primary: Vec<u64>,
    grown: Vec<u64>,
    /// Gaps between blocks.
    gaps: Vec<Gap>,
    /// What is left out before the first block: spares, or the drive's own.
    head: Gap,
    /// What is left behind the last block.
    tail: Option<Gap>,
    plain: Geometry,
}

impl Frame {
    pub(super) fn new(run: Run, blocks: BlockRange) -> Frame {
        Frame { run, blocks, spare_cylinders: (0, 0), last_cylinders: 0, ends: None }
    }

    /// The same with its last cylinders as spare ones, where it has no groups with others.
    fn with_last_cylinders_spare(&self) -> Frame {
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
    fn end_of(&self, gap: Gap, unit: u64) -> u64 {
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
    fn start_of(&self, gap: Gap, unit: u64) -> u64 {
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
    /// The layout that explains the most of what is known, with the first block that refutes it.
    pub(super) async fn fit(
        &mut self,
        order: TrackOrder,
        frames: &[Frame],
    ) -> Result<Option<(Geometry, Option<Lbn>)>> {
        let mut best: Option<(Geometry, Option<Lbn>)> = None;
        let spare: Vec<Frame> = frames.iter().map(Frame::with_last_cylinders_spare).collect();
        // Cylinders may seem spare that are spare tracks, some of them in use.
        let without = frames.iter().map(|frame| Frame::new(frame.run, frame.blocks));
        let without: Vec<Frame> = without.collect();
        for frames in [frames, spare.as_slice(), without.as_slice()] {
            let mut found = Vec::with_capacity(frames.len());
            for frame in frames {
                found.extend(self.find(order, frame).await?);
            }
            for sparing in self.schemes(&found) {
                let Some(geometry) = self.solve(order, sparing, &found).await? else { continue };
                let wrong = self.refuted_by(&geometry);
                if best.as_ref().is_none_or(|(_, other)| reach(wrong) > reach(*other)) {
                    best = Some((geometry, wrong));
                }
                if wrong.is_none() {
                    return Ok(best);
                }
            }
        }
        Ok(best)
    }

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
    async fn find(&mut self, order: TrackOrder, frame: &Frame) -> Result<Option<Found>> {
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
    async fn numbered(&mut self, zone: &Found, lbn: Lbn) -> Result<Option<u64>> {
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
    async fn gaps(&mut self, zone: &Found) -> Result<Vec<Gap>> {
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

    /// The schemes that gaps and tails allow, the likeliest first.
    fn schemes(&self, found: &[Found]) -> Vec<Sparing> {
        let mut schemes = Vec::new();
        let heads = u64::from(self.heads);
        let with_gaps = found.iter().filter(|zone| !zone.gaps.is_empty());
        let most = with_gaps.max_by_key(|zone| (zone.gaps.len(), zone.frame.blocks.count));
        if let Some(zone) = most {
            let track = u64::from(zone.frame.run.track_sectors);
            let cylinder = track * heads;
            let unit = zone.gaps.iter().map(|gap| zone.end_of(*gap, track)).fold(0, gcd);
            let starts = zone.gaps.iter().map(|gap| zone.start_of(*gap, cylinder));
            if unit == track && heads > 1 {
                schemes.push(Sparing::SectorsPerTrack);
            }
            if starts.fold(0, gcd) % cylinder == 0 {
                schemes.extend(
                    [false, true].map(|slip_to_end| Sparing::SectorsPerCylinder {
                        front: true,
                        slip_to_end,
                    }),
                );
            }
            if unit == cylinder {
                schemes.extend(
                    [false, true].map(|slip_to_end| Sparing::SectorsPerCylinder {
                        front: false,
                        slip_to_end,
                    }),
                );
            }
            if unit % cylinder == 0 {
                let cylinders = (unit / cylinder) as u32;
                schemes.push(Sparing::SectorsPerCylinders { cylinders });
            }
            if unit == track && heads == 1 {
                schemes.push(Sparing::SectorsPerTrack);
            }
        }
        let tails: Vec<u64> = found
            .iter()
            .filter(|zone| !zone.frame.blocks.is_empty())
            .map(|zone| zone.tail.map_or(0, |tail| tail.end - tail.start))
            .collect();
        let in_last = tails.iter().rev().skip(1).all(|tail| *tail == 0);
        let is_tracks = |zone: &Found| {
            zone.tail.is_none_or(|tail| tail.start % u64::from(zone.frame.run.track_sectors) == 0)
        };
        let of_tracks = self.defects.primary.iter().chain(&self.defects.grown);
        let mut defects = of_tracks.map(|defect| defect.sector.is_none());
        let tracks = found.iter().all(is_tracks) && defects.all(|is_track| is_track);
        match tails.iter().all(|tail| *tail == 0) {
            true => schemes.push(Sparing::None),
            // Sectors behind the last block are spares where one of them is in use.
            false if in_last && tails.len() > 1 => {
                schemes.push(match self.defects.grown.is_empty() {
                    true => Sparing::None,
                    false => Sparing::EndOfDisk,
                })
            }
            false if tracks => schemes.push(Sparing::TracksPerZone),
            false => {}
        }
        schemes.extend([false, true].map(|slip_to_end| Sparing::SectorsPerZone { slip_to_end }));
        schemes.extend([Sparing::TracksPerZone, Sparing::None, Sparing::EndOfDisk]);
        each_once(schemes)
    }

    /// The layout under a scheme; `None` where a zone does not fit it.
    async fn solve(
        &mut self,
        order: TrackOrder,
        sparing: Sparing,
        found: &[Found],
    ) -> Result<Option<Geometry>> {
        let mut zones: Vec<Zone> = Vec::with_capacity(found.len());
        for zone in found {
            let Some(solved) = self.solve_zone(order, sparing, zone).await? else {
                return Ok(None);
            };
            zones.push(solved);
        }
        let whole = Geometry::new(self.heads, order, sparing, zones.clone(), None);
        let cut = whole.as_ref().is_ok_and(|whole| whole.capacity() > self.capacity);
        let capacity = cut.then_some(self.capacity);
        Ok(Geometry::new(self.heads, order, sparing, zones, capacity).ok())
    }

    async fn solve_zone(
        &mut self,
        order: TrackOrder,
        sparing: Sparing,
        found: &Found,
    ) -> Result<Option<Zone>> {
        let BlockRange { first, count } = found.frame.blocks;
        let mut base = found.frame.zone();
        let granule = match sparing {
            Sparing::TracksPerZone => u64::from(base.track_sectors),
            _ => 1,
        };
        let mut slipped: Vec<u64> = found.primary.iter().map(|sector| sector / granule).collect();
        slipped.dedup();
        base.defects.slipped = slipped;
        if count == BlockCount::ZERO {
            base.defects = Defects::default();
            return Ok(Some(base));
        }
        let Some(begins) = self.numbered(found, first).await? else { return Ok(None) };
        // Where the blocks are too many or too few, another zone may lie within this one; or the disk ends before its sectors do.
        let mut likely = None;
        for spares in self.spare_counts(sparing, found, granule) {
            let mut zone = Zone { spares, ..base.clone() };
            let heads = self.heads;
            let alone =
                |zone: &Zone| Geometry::new(heads, order, sparing, vec![zone.clone()], None).ok();
            if alone(&zone).is_none() {
                // More defects than spares in a unit: another zone may begin before it.
                let all = zone.defects.slipped.len();
                let fits = |count: usize| {
                    let mut fewer = zone.clone();
                    fewer.defects.slipped.truncate(count);
                    alone(&fewer).is_some()
                };
                let (mut low, mut high) = (0, all);
                while high - low > 1 {
                    let middle = usize::midpoint(low, high);
                    if fits(middle) { low = middle } else { high = middle }
                }
                zone.defects.slipped.truncate(low);
            }
            let Some(numbering) = alone(&zone) else { continue };
            let row = numbering
                .location(Place { zone: 0, sector: begins })
                .and_then(|at| numbering.lbn_at(at));
            let Some(row) = row else { continue };
            zone.reserved_sectors = row.0;
            zone.defects.remapped = self.remapped(&numbering, found, granule, first, row).await?;
            let Some(geometry) = alone(&zone) else { continue };
            if geometry.capacity() == count {
                return Ok(Some(zone));
            }
            likely = likely.or(Some(zone));
        }
        Ok(likely)
    }

    /// What the spares of a unit may count, by the gaps of a zone.
    fn spare_counts(&self, sparing: Sparing, found: &Found, granule: u64) -> Vec<u64> {
        let track = u64::from(found.frame.run.track_sectors);
        let cylinder = track * u64::from(self.heads);
        let all = found.plain.capacity().0;
        let (unit, front) = match sparing {
            Sparing::None | Sparing::EndOfDisk => return vec![0],
            Sparing::TracksPerZone | Sparing::SectorsPerZone { .. } => (all, false),
            Sparing::SectorsPerTrack => (track, false),
            Sparing::SectorsPerCylinder { front, .. } => (cylinder, front),
            Sparing::SectorsPerCylinders { cylinders } => (cylinder * u64::from(cylinders), false),
        };
        // A zone that is smaller than a unit is one.
        let unit = unit.min(all);
        let bad = |from: u64, to: u64| {
            let before = |at: u64| found.primary.partition_point(|bad| *bad < at) as u64;
            before(to) - before(from)
        };
        let mut counts = Vec::new();
        let head = front.then_some(&found.head);
        for Gap { start, end } in found.gaps.iter().chain(&found.tail).chain(head) {
            // Slips into spares use some of them up; slips onwards do not.
            let gap = Gap { start: *start, end: *end };
            let (left, slips) = if front {
                let begin = found.start_of(gap, unit) / unit * unit;
                (end.saturating_sub(begin), bad(*end, (begin + unit).max(*end)))
            } else {
                let finish = found.end_of(gap, unit).div_ceil(unit) * unit;
                let begin = finish.saturating_sub(unit).min(*start);
                (finish.saturating_sub(*start), bad(begin, *start))
            };
            counts.extend([(left + slips) / granule, left / granule]);
        }
        counts.push(0);
        // By how often each was seen, as slips and the front of a zone disturb some gaps.
        let seen = counts.clone();
        let often = |count: &u64| seen.iter().filter(|other| *other == count).count();
        counts.sort_by_key(|count| std::cmp::Reverse(often(count)));
        each_once(counts)
    }

    /// Where the blocks of places that were found bad later lie: pairs of a bad place and its spare.
    async fn remapped(
        &mut self,
        numbering: &Geometry,
        found: &Found,
        granule: u64,
        first: Lbn,
        row: Lbn,
    ) -> Result<Vec<(u64, u64)>> {
        let mut pairs = Vec::new();
        for bad in found.grown.iter().filter(|bad| *bad % granule == 0) {
            let at = numbering.location(Place { zone: 0, sector: *bad });
            let Some(held) = at.and_then(|at| numbering.lbn_at(at)) else { continue };
            if held < row || held.since(row) >= found.frame.blocks.count {
                continue;
            }
            let told = self.locate(first + held.since(row)).await?;
            if let Some(spare) = numbering.place(told.location).filter(|_| told.is_moved) {
                pairs.push((bad / granule, spare.sector / granule));
            }
        }
        Ok(pairs)
    }
}

pub(super) fn gcd(a: u64, b: u64) -> u64 {
    if b == 0 { a } else { gcd(b, a % b) }
}

/// Of equal values the first, in the order they have.
fn each_once<T: PartialEq>(values: Vec<T>) -> Vec<T> {
    let mut unique = Vec::new();
    for value in values {
        if !unique.contains(&value) {
            unique.push(value);
        }
    }
    unique
}
