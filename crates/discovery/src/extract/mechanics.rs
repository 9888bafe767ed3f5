//! Heads, arm and platter (thesis 4.2.2): skews, the head switch, the seek curve, settling, and whether sectors are taken as
//! they come.

use moirai_geometry::{Geometry, Place, Zone};
use moirai_storage::Op;
use moirai_units::Lbn;

use super::rig::Rig;
use crate::error::Result;
use crate::probe::SCATTERED_PART;

/// Sectors that a block may lie from where skews say, where times have no noise.
const SECTORS_OFF: f64 = 0.6;
/// Tracks of each zone that are compared with what its skews say.
const CHECKED: [f64; 3] = [0.35, 0.7, 1.0];
/// A whole track that takes more turns waits for the bus.
const SLOW_TURNS: f64 = 2.02;
/// Seeks of each distance.
const SEEKS: usize = 3;
/// Points of the seek curve lie so close that a line between them is off by no more than this part, or this time in ns.
const CURVE_PART: f64 = 0.004;
const CURVE_NS: f64 = 4000.0;
/// Points at most.
const POINTS_MAX: usize = 600;

/// A zone does not turn as its skews say: from this cylinder on.
pub(super) struct Turned {
    pub(super) cylinder: u32,
    pub(super) why: String,
}

/// A point of the seek curve: cylinders, and the time in ns.
pub type SeekPoint = (u32, f64);

impl Rig<'_, '_> {
    /// Zones with skews and with the places of their first sectors.
    pub(super) async fn zones(&mut self) -> Result<std::result::Result<Vec<Zone>, Turned>> {
        let mut zones: Vec<Zone> = self.geometry.zones().cloned().collect();
        let mut mark = None;
        for (index, zone) in zones.iter_mut().enumerate() {
            if let Some(turned) = self.skews(index, zone, &mut mark).await? {
                return Ok(Err(turned));
            }
        }
        // A zone of one cylinder does not show its skew to the next: it takes as long as where it shows.
        let of_zone = |zone: &Zone| f64::from(zone.cylinder_skew) / f64::from(zone.track_sectors);
        let shown: Vec<(usize, f64)> = zones
            .iter()
            .enumerate()
            .filter(|(_, zone)| zone.cylinders > 1)
            .map(|(index, zone)| (index, of_zone(zone)))
            .collect();
        for (index, zone) in zones.iter_mut().enumerate().filter(|(_, zone)| zone.cylinders == 1) {
            if let Some((_, part)) = shown.iter().min_by_key(|(other, _)| other.abs_diff(index)) {
                zone.cylinder_skew = (part * f64::from(zone.track_sectors)).round() as u32;
            }
        }
        Ok(Ok(zones))
    }

    /// Finds the skews of a zone, and where its first sector lies from `mark`: the angle in ns at which that of the first zone
    /// begins.
    async fn skews(
        &mut self,
        index: usize,
        zone: &mut Zone,
        mark: &mut Option<f64>,
    ) -> Result<Option<Turned>> {
        let sectors = u64::from(zone.track_sectors);
        let all = self.geometry.zone_blocks().nth(index).map_or(0, |blocks| blocks.count.0);
        if all == 0 {
            return Ok(None);
        }
        // Tracks that follow each other on a cylinder, and on two.
        let number = |rig: &Self, track: u64| {
            let place = Place { zone: index, sector: track * sectors };
            let at = rig.geometry.location(place)?;
            let block = rig.block_at(at.cylinder, at.head, 0.0)?;
            Some((block, at.cylinder))
        };
        let last = {
            let blocks = self.geometry.zone_blocks().nth(index);
            let end = blocks.map_or(Lbn(0), |blocks| Lbn(blocks.end().0 - 1));
            let end = end.min(Lbn(self.geometry.capacity().0 - 1));
            let place = self.geometry.locate(end).and_then(|at| self.geometry.place(at));
            place.map_or(0, |place| place.sector / sectors)
        };
        let (mut same, mut next) = (None, None);
        let mut track = 0;
        while track < last && (same.is_none() || next.is_none()) {
            if let (Some(one), Some(two)) = (number(self, track), number(self, track + 1)) {
                if one.1 == two.1 {
                    same = same.or(Some((one.0, two.0)));
                } else {
                    next = next.or(Some((one.0, two.0)));
                }
            }
            track += 1;
        }
        if let Some((one, two)) = same {
            zone.track_skew = self.skew(one, two).await?;
        }
        if let Some((one, two)) = next {
            zone.cylinder_skew = self.skew(one, two).await?;
        }
        let Some((first, _)) = (0..=last).find_map(|track| number(self, track)) else {
            return Ok(None);
        };
        zone.origin_sector = 0;
        let begins = self.begins(first).await?;
        let said = self.with_skews(index, zone, first) * self.sector_ns(first);
        let mark = *mark.get_or_insert(begins - said);
        let origin = (begins - mark - said).rem_euclid(self.turn_ns()) / self.sector_ns(first);
        zone.origin_sector = (origin.round() as u64 % sectors) as u32;
        let mut right = 0;
        for part in CHECKED {
            let track = (last as f64 * part) as u64;
            let Some((lbn, _)) = number(self, track) else { continue };
            let off = self.off_by(index, zone, mark, lbn).await?;
            if off == 0.0 {
                right = track;
                continue;
            }
            let why = format!(
                "it translates {lbn} to a sector that passes {off:.1} sectors later than the skews of its zone say"
            );
            let mut wrong = track;
            let mut cylinder = None;
            while wrong - right > 1 {
                let middle = u64::midpoint(right, wrong);
                let Some((lbn, at)) = number(self, middle) else {
                    right = middle;
                    continue;
                };
                match self.off_by(index, zone, mark, lbn).await? == 0.0 {
                    true => right = middle,
                    false => (wrong, cylinder) = (middle, Some(at)),
                }
            }
            let cylinder = cylinder.or_else(|| number(self, wrong).map(|(_, at)| at));
            return Ok(Some(Turned { cylinder: cylinder.unwrap_or(zone.first_cylinder), why }));
        }
        Ok(None)
    }

    /// How many sectors later a block passes than the skews of its zone say; 0 where that is as near as can be told.
    async fn off_by(&mut self, index: usize, zone: &Zone, mark: f64, lbn: Lbn) -> Result<f64> {
        let sectors = f64::from(zone.track_sectors);
        let turned = (self.begins(lbn).await? - mark) / self.sector_ns(lbn);
        let said = self.with_skews(index, zone, lbn);
        let off = (turned - said + sectors / 2.0).rem_euclid(sectors) - sectors / 2.0;
        let noise = 6.0 * self.rotation.noise_ns / self.sector_ns(lbn);
        // The place of the first sector is rounded.
        Ok(if off.abs() > SECTORS_OFF + 0.5 + noise { off } else { 0.0 })
    }

    /// Sectors that pass between the sectors 0 of two tracks that follow each other.
    async fn skew(&mut self, one: Lbn, two: Lbn) -> Result<u32> {
        let sectors = self.geometry.track(one).map_or(1, |track| track.sectors);
        let turned = self.begins(two).await? - self.begins(one).await?;
        // By the layout without skews: the sectors, and what slipped ones add.
        let said = turned_by(self.geometry, two) - turned_by(self.geometry, one);
        Ok((turned / self.sector_ns(one) - said).round().rem_euclid(f64::from(sectors)) as u32
            % sectors)
    }

    /// The angle at which a block begins to pass, in ns.
    async fn begins(&mut self, lbn: Lbn) -> Result<f64> {
        Ok(self.angle((Op::Read, lbn, 1)).await? - self.sector_ns(lbn))
    }

    /// How many sectors pass before a block, by the skews of its zone.
    fn with_skews(&self, index: usize, zone: &Zone, lbn: Lbn) -> f64 {
        let mut zones: Vec<Zone> = self.geometry.zones().cloned().collect();
        if let Some(place) = zones.get_mut(index) {
            *place = zone.clone();
        }
        rebuilt(self.geometry, zones).map_or(0.0, |geometry| turned_by(&geometry, lbn))
    }

    /// The time to switch to another head, in ns; `None` with one head.
    pub(super) async fn head_switch(&mut self) -> Result<Option<f64>> {
        let Some((first, same, other)) = self.beside() else { return Ok(None) };
        let read = |lbn| (Op::Read, lbn, 1);
        let without = self.least(read(first), read(same)).await?;
        let with = self.least(read(first), read(other)).await?;
        Ok(Some((with - without).max(0.0)))
    }

    /// Three blocks of a cylinder: two on a track, the third with another head.
    pub(super) fn beside(&self) -> Option<(Lbn, Lbn, Lbn)> {
        let middle = self.geometry.cylinders() / 3;
        (middle..self.geometry.cylinders()).chain(0..middle).find_map(|cylinder| {
            let first = self.block_at(cylinder, 0, 0.1)?;
            let same = self.block_at(cylinder, 0, 0.6)?;
            let heads = 1..self.geometry.heads();
            let other = heads.filter_map(|head| self.block_at(cylinder, head, 0.4)).next()?;
            (first != same).then_some((first, same, other))
        })
    }

    /// Two blocks of a track.
    pub(super) fn on_a_track(&self) -> Option<(Lbn, Lbn)> {
        let middle = self.geometry.cylinders() / 3;
        (middle..self.geometry.cylinders()).chain(0..middle).find_map(|cylinder| {
            let heads = 0..self.geometry.heads();
            heads
                .filter_map(|head| {
                    let one = self.block_at(cylinder, head, 0.1)?;
                    let two = self.block_at(cylinder, head, 0.6)?;
                    (one != two).then_some((one, two))
                })
                .next()
        })
    }

    /// The seek curve, by the SEEK command: at the distances of the thesis, and more closely where it bends.
    pub(super) async fn seeks(&mut self) -> Result<Vec<SeekPoint>> {
        let Some(first) = self.cylinder_from(0) else { return Ok(Vec::new()) };
        let most = self.last_cylinder().unwrap_or(first).saturating_sub(first);
        if most == 0 {
            return Ok(Vec::new());
        }
        let still = self.seek_ns(0).await?.unwrap_or(0.0);
        let distances = (1..=10)
            .chain((12..=20).step_by(2))
            .chain((25..=50).step_by(5))
            .chain((60..=100).step_by(10))
            .chain((125..=500).step_by(25))
            .chain((600..).step_by(100).take(POINTS_MAX));
        let step = if most > 20_000 { (most / 200).max(100) } else { 100 };
        let distances = distances.filter(|at| *at <= 500 || at % step < 100);
        let mut points: Vec<SeekPoint> = Vec::new();
        for distance in distances.take_while(|distance| *distance < most).chain([most]) {
            if let Some(ns) = self.seek_ns(distance).await? {
                points.push((distance, (ns - still).max(0.0)));
            }
        }
        // A line between two points must pass by what lies between them.
        let mut open: Vec<(SeekPoint, SeekPoint)> =
            points.iter().copied().zip(points.iter().copied().skip(1)).collect();
        while let Some((low, high)) = open.pop()
            && points.len() < POINTS_MAX
        {
            if high.0 - low.0 < 2 {
                continue;
            }
            let middle = u32::midpoint(low.0, high.0);
            let Some(ns) = self.seek_ns(middle).await? else { continue };
            let ns = (ns - still).max(0.0);
            let part = f64::from(middle - low.0) / f64::from(high.0 - low.0);
            let line = low.1 + (high.1 - low.1) * part;
            points.push((middle, ns));
            let allowed = (CURVE_PART * ns).max(CURVE_NS).max(6.0 * self.rotation.noise_ns);
            if (ns - line).abs() > allowed {
                open.extend([(low, (middle, ns)), ((middle, ns), high)]);
            }
        }
        points.sort_unstable_by_key(|point| point.0);
        Ok(points)
    }

    /// The time of the SEEK command over a distance: the median of some, inwards and outwards.
    async fn seek_ns(&mut self, distance: u32) -> Result<Option<f64>> {
        let all = self.geometry.cylinders();
        let mut times = Vec::with_capacity(2 * SEEKS);
        let mut part = f64::from(distance) * SCATTERED_PART;
        for _ in 0..SEEKS * 8 {
            if times.len() >= 2 * SEEKS {
                break;
            }
            part = (part + SCATTERED_PART).fract();
            let room = all.saturating_sub(distance);
            let from = (f64::from(room) * part) as u32;
            let (Some(one), Some(two)) =
                (self.block_at(from, 0, 0.5), self.block_at(from + distance, 0, 0.5))
            else {
                // Only some pairs of cylinders are as far from each other as that.
                continue;
            };
            self.drive.seek(one).await?;
            times.push(self.drive.seek(two).await?.response().0 as f64);
            times.push(self.drive.seek(one).await?.response().0 as f64);
        }
        times.sort_unstable_by(f64::total_cmp);
        if times.is_empty()
            && let Some(one) = self.cylinder_from(0)
            && let (Some(one), Some(two)) =
                (self.block_at(one, 0, 0.5), self.block_at(one + distance, 0, 0.5))
        {
            self.drive.seek(one).await?;
            times.push(self.drive.seek(two).await?.response().0 as f64);
        }
        Ok(times.get(times.len() / 2).copied())
    }

    /// Whether reads of whole tracks take sectors in whatever order they pass (thesis 4.2.3): then their end depends on where the
    /// head comes down, and else it does not. `None` where a slow bus hides it.
    pub(super) async fn is_zero_latency_read(&mut self) -> Result<Option<bool>> {
        let Some((first, count)) = self.whole_track() else { return Ok(Some(false)) };
        let mut ends = Vec::new();
        for part in [0.0, 0.4] {
            // The earlier of two: one may have been held up.
            let mut end = f64::INFINITY;
            for _ in 0..2 {
                let before = self.drive.read(first, 1).await?;
                self.drive.wait(part * self.turn_ns()).await;
                let whole = self.drive.read(first, count).await?;
                end = end.min(whole.finished.since(before.finished).0 as f64);
            }
            ends.push(end);
        }
        let [at_once, later] = ends.as_slice() else { return Ok(None) };
        let off = self.rotation.wrap(later - at_once).abs();
        if off > 2.0 * self.sector_ns(first) + 6.0 * self.rotation.noise_ns {
            return Ok(Some(true));
        }
        Ok((at_once / self.turn_ns() < SLOW_TURNS).then_some(false))
    }

    /// The same of writes: such a write ends with whatever sector comes last, and not with the last one. Data that come late do
    /// not change that.
    pub(super) async fn is_zero_latency_write(&mut self) -> Result<bool> {
        let Some((first, count)) = self.whole_track() else { return Ok(false) };
        let last = self.angle((Op::Write, Lbn(first.0 + count - 1), 1)).await?;
        let mut ends_elsewhere = 0;
        for part in [0.0, 0.2, 0.4, 0.6] {
            let whole = self.drive.prepare(Op::Write, first, count).await?;
            let from = self.drive.read(self.origin(), 1).await?.finished;
            self.drive.wait(part * self.turn_ns()).await;
            let done = self.drive.carry_out(whole).await?;
            let offset = self.rotation.offset(from, done.finished, last);
            let far = 2.0 * self.sector_ns(first) + 6.0 * self.rotation.noise_ns;
            ends_elsewhere += u32::from(offset.abs() > far);
        }
        // One may have been held up, and one may end there by chance.
        Ok(ends_elsewhere >= 2)
    }

    /// The blocks of a track that lie one beside the other, most of the track.
    pub(super) fn whole_track(&self) -> Option<(Lbn, u64)> {
        let (near, _) = self.on_a_track()?;
        let mut at = near;
        for _ in 0..1024 {
            let track = self.geometry.track(at).or_else(|| self.geometry.track(Lbn(0)))?;
            let run = self.geometry.extent(track.blocks)?;
            if run.blocks == track.blocks.count && run.blocks.0 * 10 >= u64::from(track.sectors) * 9
            {
                return Some((track.blocks.first, run.blocks.0));
            }
            at = track.blocks.end();
        }
        None
    }
}

fn turned_by(geometry: &Geometry, lbn: Lbn) -> f64 {
    let origin = geometry.track(lbn).map_or(0, |track| track.origin_sector);
    let sector = geometry.locate(lbn).map_or(0, |at| at.sector);
    f64::from(origin) + f64::from(sector)
}

/// The same layout with other skews.
pub(super) fn rebuilt(geometry: &Geometry, zones: Vec<Zone>) -> Option<Geometry> {
    let (heads, order, sparing) = (geometry.heads(), geometry.order(), geometry.sparing());
    Geometry::new(heads, order, sparing, zones, Some(geometry.capacity())).ok()
}
