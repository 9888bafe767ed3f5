//! How far a drive reads ahead.

use moirai_geometry::Track;
use moirai_units::{BlockCount, Lbn};

use super::{At, BLOCKS_MAX, CacheTests};
use crate::error::Result;

impl CacheTests<'_, '_, '_> {
    /// How many blocks behind a read come to be in the cache.
    pub(super) async fn reach(&mut self, at: At, count: u64) -> Result<u64> {
        let (mut reached, mut beyond) = (0, 1);
        loop {
            let Some(first) = self.fresh_with_room(at, count + beyond).await? else { break };
            if !self.is_ahead(first, count, beyond).await? {
                break;
            }
            reached = beyond;
            beyond *= 2;
            if beyond > BLOCKS_MAX {
                return Ok(reached);
            }
        }
        while beyond - reached > 1 {
            let middle = u64::midpoint(reached, beyond);
            let Some(first) = self.fresh_with_room(at, count + middle).await? else { break };
            match self.is_ahead(first, count, middle).await? {
                true => reached = middle,
                false => beyond = middle,
            }
        }
        Ok(reached)
    }

    /// Whether a block is in the cache that lies so far behind a read; not behind the end of the disk.
    pub(super) async fn is_ahead(&mut self, first: Lbn, count: u64, further: u64) -> Result<bool> {
        let probed = Lbn(first.0 + count - 1 + further);
        if probed.0 >= self.rig.geometry.capacity().0 {
            return Ok(false);
        }
        self.rig.drive.read(first, count).await?;
        self.settle_for(further).await;
        self.hits(probed).await
    }

    /// How many blocks reading ahead goes on behind a read that came from the track before, where it does not end with the track; two
    /// tracks where it does with the next one.
    pub(super) async fn beyond_track(&mut self) -> Result<Option<u64>> {
        // The read must be short enough for the segment to have blocks of the first track, and end where what is read ahead reaches the
        // third. Of that, what reading ahead began with falls out of a short segment, and it may end before the track does.
        for part in [0.0, 0.5, 0.8, 1.0] {
            for probe in [0.0, 0.5, 1.0] {
                let Some((last, third)) = self.read_across(part).await? else { return Ok(None) };
                let further = third.blocks.first.since(last).0;
                let most = third.blocks.end().since(last).0 - 1;
                let mut reached = further + (probe * (most - further) as f64) as u64;
                if !self.hits(last + BlockCount(reached)).await? {
                    continue;
                }
                let mut beyond = most + 1;
                while beyond - reached > 1 {
                    let middle = u64::midpoint(reached, beyond);
                    let Some((last, _)) = self.read_across(part).await? else { break };
                    match self.hits(last + BlockCount(middle)).await? {
                        true => reached = middle,
                        false => beyond = middle,
                    }
                }
                let two = 2 * u64::from(self.track_sectors);
                return Ok(Some(if reached < most { reached } else { two }));
            }
        }
        Ok(None)
    }

    /// Reads from the end of a track to a part of the next one, and lets reading ahead come to its end; gives the last block that was
    /// read, and the track behind its own.
    async fn read_across(&mut self, part: f64) -> Result<Option<(Lbn, Track)>> {
        let before = self.before_end();
        let room = 2 * u64::from(self.track_sectors);
        let Some(first) = self.fresh_with_room(At::TrackEnd, room).await? else { return Ok(None) };
        let geometry = self.rig.geometry;
        let next = geometry.track(Lbn(first.0 + before + 1));
        let third = next.and_then(|next| geometry.track(next.blocks.end()));
        let (Some(next), Some(third)) = (next, third) else { return Ok(None) };
        let most = next.blocks.count.0.saturating_sub(1 + before) as f64;
        let last = Lbn(next.blocks.first.0 + before / 2 + (part * most) as u64);
        self.rig.drive.read(first, last.since(first).0 + 1).await?;
        self.settle().await;
        Ok(Some((last, third)))
    }
}
