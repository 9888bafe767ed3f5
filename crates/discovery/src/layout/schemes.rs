//! Which sparing schemes what was found of the zones allows, and the layout under each.

use moirai_geometry::{Defects, Geometry, Place, Sparing, TrackOrder, Zone};
use moirai_units::{BlockCount, BlockRange, Lbn};

use super::spares::{Found, Frame, Gap, gcd};
use super::{Survey, reach};
use crate::error::Result;

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

    /// The schemes that gaps and tails allow, the likeliest first.
    fn schemes(&self, found: &[Found]) -> Vec<Sparing> {
        let mut schemes = Vec::new();
        // Sectors of whole tracks could be left out one by one, but drives that list tracks leave out tracks.
        let bad = self.defects.primary.iter().chain(&self.defects.grown);
        if bad.clone().next().is_some() && bad.clone().all(|defect| defect.sector.is_none()) {
            schemes.push(Sparing::TracksPerZone);
        }
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
