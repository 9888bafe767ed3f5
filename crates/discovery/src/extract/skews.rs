//! How far the tracks of a zone are turned against each other (thesis 4.2.2).

use moirai_geometry::{Geometry, Place, Zone};
use moirai_storage::Op;
use moirai_units::Lbn;

use super::rig::{Rig, median};
use super::turning::{Switches, Turning};
use crate::error::Result;

/// Sectors that a block may lie from where skews say, where times have no noise.
const SECTORS_OFF: f64 = 0.6;
/// Tracks of each zone that are compared with what its skews say.
const CHECKED: [f64; 3] = [0.35, 0.7, 1.0];
/// Angles of one block by which their deviation is told, with some room: by chance they may lie close.
const NOISE_ANGLES: usize = 32;
const NOISE_ROOM: f64 = 1.2;
/// The deviation of the median of some angles, as a part of that of one.
const MEDIAN_NOISE: f64 = 0.5;
/// Angles by which the skews of a zone are made better, at most, and how many of them may be none that noise makes.
const ANGLES_MAX: usize = 600;
const ODD_MAX: usize = 8;
/// Tracks that are looked at lie at most so many times closer to each other than to the first one.
const TRACKS_BETWEEN: u64 = 4;

/// A zone does not turn as its skews say: from this cylinder on.
pub(super) struct Turned {
    pub(super) cylinder: u32,
    pub(super) why: String,
}

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
        let number = |rig: &Self, track: u64| rig.first_block(index, track * sectors);
        let last = {
            let blocks = self.geometry.zone_blocks().nth(index);
            let end = blocks.map_or(Lbn(0), |blocks| Lbn(blocks.end().0 - 1));
            let end = end.min(Lbn(self.geometry.capacity().0 - 1));
            let place = self.geometry.locate(end).and_then(|at| self.geometry.place(at));
            place.map_or(0, |place| place.sector / sectors)
        };
        // Tracks that follow each other on a cylinder, and on two.
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
        let found = (0..=last).find_map(|track| Some((track, number(self, track)?.0)));
        let Some((first_track, first)) = found else { return Ok(None) };
        zone.origin_sector = 0;
        let begins = match self.is_exact() {
            true => self.begins(first).await?,
            false => self.refined(index, zone, (first_track, first), last).await?,
        };
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
            let mut why = format!(
                "it translates {lbn} to a sector that passes {off:.1} sectors later than the skews of its zone say"
            );
            if !self.is_exact() {
                let (noise_us, sector_us) =
                    (self.rotation.noise_ns / 1e3, self.sector_ns(lbn) / 1e3);
                why += &format!(
                    " (its times vary by {noise_us:.1} us, while a sector passes in {sector_us:.1} us: see that nobody else uses it)"
                );
            }
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

    /// The first block on a track, and its cylinder.
    fn first_block(&self, zone: usize, sector: u64) -> Option<(Lbn, u32)> {
        let at = self.geometry.location(Place { zone, sector })?;
        let block = self.block_at(at.cylinder, at.head, 0.0)?;
        Some((block, at.cylinder))
    }

    /// Makes the skews of a zone better where times are noisy, by tracks from the `first` to the `last` one. Gives the angle in ns at
    /// which the first block of the first track begins.
    async fn refined(
        &mut self,
        index: usize,
        zone: &mut Zone,
        (first_track, first): (u64, Lbn),
        last: u64,
    ) -> Result<f64> {
        let sectors = u64::from(zone.track_sectors);
        let turns = self.without_skews(index, zone);
        let said = |lbn: Lbn| turns.as_ref().map_or(0.0, |geometry| turned_by(geometry, lbn));
        let (sector_ns, base) = (self.sector_ns(first), said(first));
        // Near tracks all, and of those further away some: each with all that follow it on its cylinder.
        let heads = u64::from(self.geometry.heads());
        let (mut switches, mut near, mut before) = (Switches::default(), Vec::new(), None);
        let mut wanted = first_track;
        for track in first_track..=last {
            let at = self.geometry.location(Place { zone: index, sector: track * sectors });
            let Some(at) = at else { continue };
            match before.replace(at.cylinder) {
                Some(cylinder) if cylinder == at.cylinder => switches.heads += 1,
                Some(_) => switches.cylinders += 1,
                None => {}
            }
            if track >= wanted {
                if let Some((lbn, _)) = self.first_block(index, track * sectors) {
                    near.push((lbn, switches));
                }
                if track >= wanted + heads {
                    wanted = track + (track - first_track) / TRACKS_BETWEEN;
                }
            }
        }
        let (blocks, all): (Vec<Lbn>, Vec<Switches>) = near.into_iter().unzip();
        let noise = (self.angle_noise(first).await? / sector_ns).powi(2);
        let of_median = noise * MEDIAN_NOISE * MEDIAN_NOISE;
        let begins = self.begins(first).await? / sector_ns;
        // A skew of two angles, rounded.
        let of_skew = 2.0 * of_median + 1.0 / 12.0;
        let skews = [zone.track_skew, zone.cylinder_skew].map(f64::from);
        let values = [begins - base, skews[0], skews[1]];
        let mut turning =
            Turning::new(sectors as f64, noise, values, [of_median, of_skew, of_skew], &all);
        let mut odd = 0;
        for _ in 0..ANGLES_MAX {
            if turning.is_known() || odd > ODD_MAX {
                break;
            }
            let Some(at) = turning.next(&all) else { break };
            let (Some(lbn), Some(switches)) = (blocks.get(at).copied(), all.get(at)) else { break };
            let begins = self.angle_once((Op::Read, lbn, 1)).await? - self.sector_ns(lbn);
            let angle = begins / self.sector_ns(lbn) - said(lbn);
            odd += usize::from(!turning.learn(*switches, angle));
        }
        let [origin, track_skew, cylinder_skew] = turning.values();
        let whole = |skew: f64| skew.round().rem_euclid(sectors as f64) as u32;
        (zone.track_skew, zone.cylinder_skew) = (whole(track_skew), whole(cylinder_skew));
        Ok((origin + base) * sector_ns)
    }

    /// The deviation of angles, in ns: half of them are no further from their middle than two thirds of it.
    async fn angle_noise(&mut self, lbn: Lbn) -> Result<f64> {
        let mut angles = Vec::with_capacity(NOISE_ANGLES);
        for _ in 0..NOISE_ANGLES {
            angles.push(self.angle_once((Op::Read, lbn, 1)).await?);
        }
        // The first may be anywhere in a turn, and others near it on the other side of its end.
        let first = angles.first().copied().unwrap_or(0.0);
        let near = |angles: &[f64], middle: f64| -> Vec<f64> {
            angles.iter().map(|angle| self.rotation.wrap(angle - middle)).collect()
        };
        let middle = first + median(near(&angles, first));
        let misses = near(&angles, middle).into_iter().map(f64::abs).collect();
        Ok(NOISE_ROOM * 1.4826 * median(misses))
    }

    /// The layout with a zone that has no skews.
    fn without_skews(&self, index: usize, zone: &Zone) -> Option<Geometry> {
        let mut zones: Vec<Zone> = self.geometry.zones().cloned().collect();
        let plain = Zone { track_skew: 0, cylinder_skew: 0, origin_sector: 0, ..zone.clone() };
        *zones.get_mut(index)? = plain;
        rebuilt(self.geometry, zones)
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
