//! Heads, arm and platter (thesis 4.2.2): the head switch, the seek curve, settling, and whether sectors are taken as
//! they come.

use moirai_storage::Op;
use moirai_units::Lbn;

use super::rig::Rig;
use crate::error::Result;
use crate::probe::SCATTERED_PART;

/// A whole track that takes more turns waits for the bus.
const SLOW_TURNS: f64 = 2.02;
/// Seeks of each distance.
const SEEKS: usize = 3;
/// Points of the seek curve lie so close that a line between them is off by no more than this part, or this time in ns.
const CURVE_PART: f64 = 0.004;
const CURVE_NS: f64 = 4000.0;
/// Points at most.
const POINTS_MAX: usize = 600;

/// A point of the seek curve: cylinders, and the time in ns.
pub type SeekPoint = (u32, f64);

impl Rig<'_, '_> {
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
