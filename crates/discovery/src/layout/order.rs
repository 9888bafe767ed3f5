//! In which order tracks are numbered: by the tracks that follow each other.

use std::cmp::Ordering;

use moirai_geometry::TrackOrder;
use moirai_storage::Located;
use moirai_units::{BlockCount, Lbn, Location};

use super::cylinders::Run;
use super::{Frame, Survey};
use crate::error::Result;

/// Cylinders whose tracks are followed.
const CYLINDERS: u32 = 3;
/// Along a surface, each track lies at least this part of a cylinder further than the one before: spare sectors let blocks
/// go on sooner.
const ALONG: f64 = 0.4;

/// Steps from a track to the next one.
#[derive(Default)]
struct Steps {
    /// To another head of the cylinder.
    up: u32,
    down: u32,
    /// To another cylinder with the same head.
    along: u32,
}

impl Survey<'_, '_> {
    /// The orders in which tracks may be numbered, by the steps between tracks that follow each other, the likeliest first.
    pub(super) async fn orders(&mut self, runs: &[Run]) -> Result<Vec<TrackOrder>> {
        let frames = self.frames(runs).await?;
        let largest = frames.iter().max_by_key(|frame| frame.blocks.count);
        let Some(frame) = largest.filter(|_| self.heads > 1) else {
            return Ok(vec![TrackOrder::Cylinder]);
        };
        let mut steps = Steps::default();
        let middle = Lbn(frame.blocks.first.0 + frame.blocks.count.0 / 2);
        for from in [frame.blocks.first, middle] {
            let places = self.follow(frame, from, self.heads * CYLINDERS + 1).await?;
            for (one, next) in places.iter().zip(places.iter().skip(1)) {
                match (one.cylinder == next.cylinder, one.head.cmp(&next.head)) {
                    (true, Ordering::Less) => steps.up += 1,
                    (true, _) => steps.down += 1,
                    (false, Ordering::Equal) => steps.along += 1,
                    (false, _) => {}
                }
            }
        }
        let mut orders = [false, true].map(|restart| TrackOrder::CylinderSerpentine { restart });
        if steps.down == 0 && steps.along == 0 {
            // In a zone of one cylinder all are alike.
            return Ok([TrackOrder::Cylinder].into_iter().chain(orders).collect());
        }
        let mut fits = Vec::new();
        for order in orders {
            let fitted = self.fit(order, &frames).await?;
            fits.push(fitted.map_or(Some(Lbn(0)), |(_, wrong)| wrong));
        }
        if let [Some(one), other] = fits.as_slice()
            && other.is_none_or(|other| other > *one)
        {
            orders.reverse();
        }
        let mut orders = orders.to_vec();
        if let Some(cylinders) = self.surface_group(frame).await? {
            let surface = TrackOrder::SurfaceSerpentine { cylinders };
            let at = if steps.along > steps.up + steps.down { 0 } else { orders.len() };
            orders.insert(at, surface);
        }
        // Moved tracks make blocks go along where they do not else.
        let at = if steps.down == 0 { 0 } else { orders.len() };
        orders.insert(at, TrackOrder::Cylinder);
        Ok(orders)
    }

    /// The first blocks that are found on tracks from a block of a zone on.
    async fn follow(&mut self, frame: &Frame, from: Lbn, tracks: u32) -> Result<Vec<Location>> {
        let mut places = Vec::new();
        if frame.blocks.is_empty() {
            return Ok(places);
        }
        let mut at = self.unmoved(from, frame.blocks.end()).await?;
        while let Some((lbn, here)) = at
            && (places.len() as u32) < tracks
        {
            places.push(here);
            at = self.next_track(lbn, here, frame).await?;
        }
        Ok(places)
    }

    /// The first block from `lbn` on that was not moved.
    async fn unmoved(&mut self, lbn: Lbn, end: Lbn) -> Result<Option<(Lbn, Location)>> {
        let mut at = lbn;
        while at < end {
            let Located { location, is_moved } = self.locate(at).await?;
            if !is_moved {
                return Ok(Some((at, location)));
            }
            at += BlockCount(1);
        }
        Ok(None)
    }

    /// The first block behind `lbn` on another track.
    async fn next_track(
        &mut self,
        lbn: Lbn,
        here: Location,
        frame: &Frame,
    ) -> Result<Option<(Lbn, Location)>> {
        let end = frame.blocks.end();
        let is_here = |at: Location| (at.cylinder, at.head) == (here.cylinder, here.head);
        let left = u64::from(frame.run.track_sectors.saturating_sub(here.sector).max(1));
        let (mut low, mut high) = (lbn.0, (lbn.0 + left).min(end.0));
        let mut found = self.unmoved(Lbn(high), end).await?;
        if found.is_none_or(|(_, at)| is_here(at)) {
            return Ok(None);
        }
        while high - low > 1 {
            let middle = u64::midpoint(low, high);
            match self.unmoved(Lbn(middle), end).await? {
                Some((lbn, at)) if is_here(at) => low = middle.max(lbn.0.min(high - 1)),
                other => (high, found) = (middle, other),
            }
        }
        Ok(found)
    }

    /// If blocks go along a surface: over how many cylinders that hold blocks, before they go on with the next one.
    async fn surface_group(&mut self, frame: &Frame) -> Result<Option<u32>> {
        let end = frame.blocks.end();
        let Some((first, start)) = self.unmoved(frame.blocks.first, end).await? else {
            return Ok(None);
        };
        let Some((second, next)) = self.next_track(first, start, frame).await? else {
            return Ok(None);
        };
        let Some((third, _)) = self.next_track(second, next, frame).await? else {
            return Ok(None);
        };
        if next.head != start.head {
            return Ok(None);
        }
        let track = third.since(second).0.max(1);
        // So many tracks further it is the same surface.
        let mut along = 1_u64;
        let is_along = |at: Location, tracks: u64| {
            let moved = f64::from(at.cylinder.saturating_sub(start.cylinder));
            at.head == start.head && moved >= ALONG * tracks as f64 - 1.0
        };
        let mut beyond = loop {
            let lbn = Lbn(second.0 + (2 * along - 1) * track);
            match self.unmoved(lbn.min(end), end).await? {
                Some((_, at)) if is_along(at, 2 * along) => along *= 2,
                _ => break 2 * along,
            }
        };
        while beyond - along > 1 {
            let middle = u64::midpoint(along, beyond);
            let lbn = Lbn(second.0 + (middle - 1) * track);
            match self.unmoved(lbn.min(end), end).await? {
                Some((_, at)) if is_along(at, middle) => along = middle,
                _ => beyond = middle,
            }
        }
        let lbn = Lbn(second.0 + (along - 1) * track).min(Lbn(end.0 - 1));
        let mut at = self.unmoved(lbn, end).await?;
        let mut turn = start.cylinder;
        while let Some((lbn, here)) = at
            && here.head == start.head
        {
            turn = turn.max(here.cylinder);
            at = self.next_track(lbn, here, frame).await?;
        }
        let spare = frame.spare_cylinders_before(turn);
        let cylinders = (turn + 1).checked_sub(frame.run.first + spare);
        Ok(cylinders.filter(|cylinders| *cylinders > 0))
    }
}
