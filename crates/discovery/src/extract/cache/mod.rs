//! The cache, hypothesis by hypothesis (thesis 4.2.3).
//!
//! Each hypothesis reads where nothing was read before, lets the drive do what it likes for some turns, and asks for one more
//! block at a moment when the platter would need most of a turn to bring it. An answer in a small part of a turn is a hit.

mod ahead;
mod writes;

use std::collections::BTreeSet;

use moirai_geometry::TrackOrder;
use moirai_runtime::now;
use moirai_storage::Op;
use moirai_units::{Instant, Lbn, Location};

use super::rig::Rig;
use crate::error::Result;
use crate::probe::SCATTERED_PART;
pub use writes::Reported;

/// A hit takes no more than this part of a turn (a quarter in the thesis); a miss is made to take this part.
pub(super) const HIT_PART: f64 = 0.3;
pub(super) const MISS_PART: f64 = 0.75;
/// Turns in which reading ahead comes to its end.
const TURNS: f64 = 12.0;
/// Lengths that are tried, in blocks.
const BLOCKS_MAX: u64 = 32_768;
/// Segments that are counted.
const SEGMENTS_MAX: u64 = 512;
/// The size of an adaptive cache is found within one part in so many.
const ADAPTIVE_PARTS: u64 = 8;
/// Places that are tried for one with room behind it.
const PLACES_TRIED: usize = 16;
/// See [`CacheTests::before_end`]; at most.
const BEFORE_END: u64 = 8;
/// Blocks behind a read that may have passed by the time of the next command.
const PASSED_MAX: u64 = 48;

/// Where reading ahead ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReadAhead {
    /// There is none.
    None,
    /// At the end of the track.
    Track,
    /// At the end of the cylinder.
    Cylinder,
    /// When the segment is full.
    Segment,
    /// At the end of the track, or of the next one behind a read that came from the track before.
    NextTrack,
}

/// What shows of a cache.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct CacheFound {
    /// Segments.
    pub segments: u64,
    /// Blocks of one.
    pub segment_blocks: u64,
    /// Segments are as long as their data.
    pub is_adaptive: bool,
    /// Segments that may hold data that are not on the media yet; where writes are reported at once.
    pub write_segments: Option<u64>,
    /// How far it reads ahead.
    pub read_ahead: ReadAhead,
    /// Blocks behind a request that reading ahead reaches, where that is less than the kind says or, with [`ReadAhead::NextTrack`], in any
    /// case.
    pub read_ahead_blocks: Option<u64>,
    /// Reading ahead goes on after a hit on a segment that was left.
    pub resumes_on_hit: bool,
    /// Sectors that pass while the head waits are kept.
    pub reads_while_waiting: bool,
    /// A read of the block that is just being read ahead is a hit.
    pub hits_on_arriving: bool,
    /// Blocks behind a read that are hits when it has just ended, and the time of a sector there in ns.
    pub(super) hits_behind: (u64, f64),
    /// What was sent is given up.
    pub discards_sent: bool,
    /// A write makes the drive give up what was read; where writes were allowed.
    pub write_drops_reads: Option<bool>,
    /// Reads hit on written data; where writes were allowed.
    pub hits_on_written: Option<bool>,
    /// Which writes are reported at once; where writes were allowed.
    pub reported: Option<Reported>,
    /// A write that goes on where the one before ended joins its segment.
    pub combines_writes: Option<bool>,
}

/// Looks at a cache.
pub(super) struct CacheTests<'t, 'r, 'd> {
    pub(super) rig: &'t mut Rig<'r, 'd>,
    /// A block that passed the head, and when its read ended.
    passed: (Lbn, Instant),
    /// The zone that is read in: its first cylinder and how many it has.
    cylinders: (u32, u32),
    /// Sectors of its tracks.
    track_sectors: u32,
    /// Blocks that are read ahead behind a block.
    pub(super) ahead: u64,
    scattered: f64,
    used: BTreeSet<u32>,
    forgotten_after: u64,
    /// The disk has too few cylinders for what was to be counted.
    pub(super) is_limited: bool,
    /// What a hit is asked of behind a read of one block: the block itself, or the next one.
    further: u64,
    /// What was sent is given up.
    discards_sent: bool,
}

/// Where in its cylinder a block lies that is read.
#[derive(Clone, Copy)]
enum At {
    CylinderFront,
    TrackEnd,
    CylinderEnd,
}

impl<'t, 'r, 'd> CacheTests<'t, 'r, 'd> {
    /// With the cache switched off: where the platter is.
    pub(super) async fn new(rig: &'t mut Rig<'r, 'd>) -> Result<CacheTests<'t, 'r, 'd>> {
        let lbn = Lbn(rig.geometry.capacity().0 / 2);
        let done = rig.drive.read(lbn, 1).await?;
        let end = Lbn(rig.geometry.capacity().0);
        let zones = rig.geometry.zones().zip(rig.geometry.zone_blocks());
        let used = zones.map(|(zone, blocks)| {
            (blocks.end().min(end).0.saturating_sub(blocks.first.0), zone, blocks.end() > end)
        });
        // The disk may end before its last zone does.
        let largest = used.max_by_key(|(count, ..)| *count);
        let (cylinders, track_sectors) = largest.map_or(((0, 1), 1), |(_, zone, is_cut)| {
            let last = rig.geometry.locate(Lbn(end.0 - 1)).filter(|_| is_cut);
            let last = last.map(|at| (at.cylinder + 1).saturating_sub(zone.first_cylinder));
            let count = last.unwrap_or(zone.cylinders).max(1);
            ((zone.first_cylinder, count), zone.track_sectors)
        });
        Ok(CacheTests {
            rig,
            passed: (lbn, done.finished),
            cylinders,
            track_sectors,
            ahead: 0,
            scattered: 0.0,
            used: BTreeSet::new(),
            forgotten_after: 64,
            is_limited: false,
            further: 0,
            discards_sent: false,
        })
    }

    /// Waits until a block will pass the head in a good part of a turn.
    async fn wait_for(&mut self, lbn: Lbn) {
        let turn = self.rig.turn_ns();
        let angle = self.rig.angle_between(self.passed.0, lbn);
        let since = now().since(self.passed.1).0 as f64;
        let left = (angle - since).rem_euclid(turn);
        self.rig.drive.wait((left - MISS_PART * turn).rem_euclid(turn)).await;
    }

    /// Whether a read of a block is answered from the cache.
    async fn hits(&mut self, lbn: Lbn) -> Result<bool> {
        if lbn.0 >= self.rig.geometry.capacity().0 {
            self.is_limited = true;
            return Ok(false);
        }
        self.wait_for(lbn).await;
        let done = self.rig.drive.read(lbn, 1).await?;
        let is_hit = (done.response().0 as f64) < HIT_PART * self.rig.turn_ns();
        if !is_hit {
            // It has just passed: what the time of a turn is off by does not add up.
            self.passed = (lbn, done.finished);
        }
        Ok(is_hit)
    }

    /// Lets reading ahead come to its end.
    async fn settle(&mut self) {
        self.settle_for(0).await;
    }

    /// The same where it reaches so many blocks.
    async fn settle_for(&mut self, blocks: u64) {
        let turns = 2.0 * blocks as f64 / f64::from(self.track_sectors.max(1));
        self.rig.drive.wait(turns.max(TURNS) * self.rig.turn_ns()).await;
    }

    /// A cylinder on which nothing was read, or not for long.
    async fn fresh_cylinder(&mut self) -> Result<u32> {
        let (first, count) = self.cylinders;
        // Those beside it are left alone: reading ahead may come there.
        let apart = (count / 256).clamp(1, 8);
        for _ in 0..2 {
            for _ in 0..count {
                self.scattered = (self.scattered + SCATTERED_PART).fract();
                let at = (f64::from(count / apart) * self.scattered) as u32 * apart;
                if self.used.insert(at) && self.rig.block_at(first + at, 0, 0.0).is_some() {
                    return Ok(first + at);
                }
            }
            self.used.clear();
            self.forget(self.forgotten_after).await?;
        }
        Ok(first)
    }

    /// Sees to it that so many cylinders can be read on without others between.
    async fn reserve(&mut self, cylinders: u64) -> Result<()> {
        let apart = (self.cylinders.1 / 256).clamp(1, 8);
        let left = u64::from(self.cylinders.1 / apart).saturating_sub(self.used.len() as u64);
        if left < 2 * cylinders {
            self.used.clear();
            self.forget(self.forgotten_after).await?;
        }
        Ok(())
    }

    /// Reads elsewhere, so that nothing is left of what was read.
    async fn forget(&mut self, count: u64) -> Result<()> {
        let all = self.rig.geometry.capacity().0 as f64;
        let mut part = self.scattered;
        for _ in 0..count {
            part = (part + SCATTERED_PART).fract();
            self.rig.drive.read(Lbn((all * part) as u64), 1).await?;
        }
        Ok(())
    }

    async fn fresh(&mut self, at: At) -> Result<Lbn> {
        for _ in 0..PLACES_TRIED {
            let cylinder = self.fresh_cylinder().await?;
            if let Some(lbn) = self.place(cylinder, at) {
                return Ok(lbn);
            }
        }
        self.is_limited = true;
        Ok(Lbn(0))
    }

    /// The same with so many blocks behind it; `None` where the disk seems too small for that.
    async fn fresh_with_room(&mut self, at: At, count: u64) -> Result<Option<Lbn>> {
        for _ in 0..PLACES_TRIED {
            let first = self.fresh(at).await?;
            if first.0 + count <= self.rig.geometry.capacity().0 {
                return Ok(Some(first));
            }
        }
        self.is_limited = true;
        Ok(None)
    }

    /// A block of a cylinder whose tracks have no defects.
    fn place(&self, cylinder: u32, at: At) -> Option<Lbn> {
        let geometry = self.rig.geometry;
        let head = |head: u32| {
            let lbn = self.rig.block_at(cylinder, head, 0.0)?;
            let track = geometry.track(lbn)?;
            let run = geometry.extent(track.blocks)?;
            (run.blocks == track.blocks.count && track.blocks.count.0 > 4 * BEFORE_END)
                .then_some(track.blocks)
        };
        let tracks: Vec<_> = (0..geometry.heads()).filter_map(head).collect();
        let along_surface = matches!(geometry.order(), TrackOrder::SurfaceSerpentine { .. });
        let first = tracks.iter().min_by_key(|track| track.first)?;
        let last = tracks.iter().max_by_key(|track| track.first)?;
        let before = self.before_end();
        match at {
            At::CylinderFront => Some(first.first),
            At::TrackEnd => Some(Lbn(first.end().0 - 1 - before)),
            At::CylinderEnd if along_surface => Some(Lbn(first.end().0 - 1 - before)),
            At::CylinderEnd => Some(Lbn(last.end().0 - 1 - before)),
        }
    }

    /// How far before the end of a track or cylinder a block is read whose reading ahead may stop there: less far than it reaches.
    fn before_end(&self) -> u64 {
        BEFORE_END.min(self.ahead.saturating_sub(1))
    }

    /// What the cache does with reads; `None` when there is none.
    pub(super) async fn reads(&mut self) -> Result<Option<CacheFound>> {
        let first = self.fresh(At::CylinderFront).await?;
        // The platter has just passed it, and reading ahead has not pushed it out yet.
        self.rig.drive.read(first, 1).await?;
        let again = self.rig.drive.read(first, 1).await?;
        let keeps = (again.response().0 as f64) < HIT_PART * self.rig.turn_ns();
        let ahead = self.reach(At::CylinderFront, 1).await?;
        self.ahead = ahead;
        if !keeps && ahead == 0 {
            return Ok(None);
        }
        // Reading ahead may push out what it began with.
        let settled = self.fresh(At::CylinderFront).await?;
        self.rig.drive.read(settled, 1).await?;
        self.settle().await;
        self.further = u64::from(!self.hits(settled).await?);
        let mut read_ahead = ReadAhead::None;
        let mut limit = None;
        if ahead > 0 {
            let on_track = self.reach(At::TrackEnd, 1).await?;
            let on_cylinder = self.reach(At::CylinderEnd, 1).await?;
            let track = self.rig.geometry.track(first).map_or(0, |track| track.blocks.count.0);
            let before = self.before_end();
            let of_next = if on_track <= before { self.beyond_track().await? } else { None };
            read_ahead = match (on_track <= before, of_next, on_cylinder <= before) {
                (true, Some(_), _) => ReadAhead::NextTrack,
                (true, None, _) => ReadAhead::Track,
                (false, _, true) => ReadAhead::Cylinder,
                (false, _, false) => ReadAhead::Segment,
            };
            limit = match read_ahead {
                ReadAhead::Track => (ahead + 1 < track).then_some(ahead),
                ReadAhead::NextTrack => of_next,
                ReadAhead::Cylinder => {
                    let heads = u64::from(self.rig.geometry.heads());
                    (ahead + 1 < track * heads).then_some(ahead)
                }
                _ => Some(ahead),
            };
        }
        let (mut segment, whole) = self.segment(ahead).await?;
        self.discards_sent = !keeps;
        if !whole {
            segment = segment.max(ahead);
        }
        let small = self.survives(1).await?;
        let mut is_adaptive = false;
        let mut segments = small + 1;
        // As many long reads stay as short ones, unless segments are as long as what they hold.
        if small > 1 && !self.stays_after(small, segment).await? {
            is_adaptive = true;
            segments = self.long_segments(small, segment).await?;
        }
        self.forgotten_after = 4 * segments;
        let resumes_on_hit = keeps && ahead > 1 && self.resumes(ahead).await?;
        let is_next_track = read_ahead == ReadAhead::NextTrack;
        let limit = limit.filter(|limit| *limit < segment || is_next_track);
        Ok(Some(CacheFound {
            segments,
            segment_blocks: segment,
            is_adaptive,
            write_segments: None,
            read_ahead,
            read_ahead_blocks: limit,
            resumes_on_hit,
            reads_while_waiting: self.reads_while_waiting().await?,
            hits_on_arriving: false,
            hits_behind: if ahead > 0 { self.hits_behind().await? } else { (0, 1.0) },
            discards_sent: !keeps,
            write_drops_reads: None,
            hits_on_written: None,
            reported: None,
            combines_writes: None,
        }))
    }

    /// Blocks of a segment: the window that is kept of a long read and what is read ahead. Also, whether its lower end was seen.
    async fn segment(&mut self, ahead: u64) -> Result<(u64, bool)> {
        let mut count = (2 * ahead).max(64);
        loop {
            let at = At::CylinderFront;
            let beyond = self.reach(at, count).await?;
            let Some(first) = self.fresh_with_room(at, count).await? else {
                return Ok((count / 2, false));
            };
            self.rig.drive.read(first, count).await?;
            self.settle_for(beyond).await;
            if !self.hits(first).await? {
                let (mut low, mut high) = (0, count - 1 + beyond);
                while high - low > 1 {
                    let middle = u64::midpoint(low, high);
                    let Some(first) = self.fresh_with_room(at, count + beyond).await? else {
                        return Ok((count / 2, false));
                    };
                    self.rig.drive.read(first, count).await?;
                    self.settle_for(beyond).await;
                    match self.hits(Lbn(first.0 + middle)).await? {
                        true => high = middle,
                        false => low = middle,
                    }
                }
                return Ok((count + beyond - high, high < count));
            }
            count *= 2;
            if count > BLOCKS_MAX {
                return Ok((count / 2, false));
            }
        }
    }

    /// After how many further reads of `count` blocks each a block is still in the cache.
    async fn survives(&mut self, count: u64) -> Result<u64> {
        let (mut stays, mut gone) = (0, 1);
        loop {
            if !self.stays_after(gone, count).await? {
                break;
            }
            stays = gone;
            gone *= 2;
            if gone > SEGMENTS_MAX {
                return Ok(stays);
            }
        }
        while gone - stays > 1 {
            let middle = u64::midpoint(stays, gone);
            match self.stays_after(middle, count).await? {
                true => stays = middle,
                false => gone = middle,
            }
        }
        Ok(stays)
    }

    /// About how many reads of `count` blocks an adaptive cache holds, of which it holds fewer than `most`.
    async fn long_segments(&mut self, most: u64, count: u64) -> Result<u64> {
        let (mut stays, mut gone) = (0, 1);
        while gone < most && self.stays_after(gone, count).await? {
            stays = gone;
            gone *= 2;
        }
        while (gone - stays) * ADAPTIVE_PARTS > gone && gone - stays > 1 {
            let middle = u64::midpoint(stays, gone);
            match self.stays_after(middle, count).await? {
                true => stays = middle,
                false => gone = middle,
            }
        }
        Ok(stays + 1)
    }

    /// Whether a block stays in the cache while so many others are read elsewhere, `count` with each.
    async fn stays_after(&mut self, others: u64, count: u64) -> Result<bool> {
        // What is read again takes no segment: on a small disk not many can be counted.
        let apart = (self.cylinders.1 / 256).clamp(1, 8);
        if others + 2 > u64::from(self.cylinders.1 / apart) {
            self.is_limited = true;
            return Ok(false);
        }
        self.reserve(others + 2).await?;
        let first = self.fresh(At::CylinderFront).await?;
        self.rig.drive.read(first, 1).await?;
        self.settle().await;
        for _ in 0..others {
            let Some(other) = self.fresh_with_room(At::CylinderFront, count).await? else {
                return Ok(false);
            };
            self.rig.drive.read(other, count).await?;
            if self.discards_sent {
                // A segment is in use once something was read ahead into it.
                self.rig.drive.wait(self.rig.turn_ns()).await;
            }
        }
        self.hits(Lbn(first.0 + self.further)).await
    }

    /// Whether reading ahead goes on after a hit on a segment that was left for another read.
    async fn resumes(&mut self, ahead: u64) -> Result<bool> {
        let first = self.fresh(At::CylinderFront).await?;
        let other = self.fresh(At::CylinderFront).await?;
        self.rig.drive.read(first, 1).await?;
        self.rig.drive.read(other, 1).await?;
        self.settle().await;
        if !self.hits(first).await? {
            return Ok(false);
        }
        self.settle().await;
        self.hits(Lbn(first.0 + ahead.div_ceil(2))).await
    }

    async fn reads_while_waiting(&mut self) -> Result<bool> {
        for part in [0.0, 0.33, 0.67] {
            let front = self.fresh(At::CylinderFront).await?;
            let block = Lbn(front.0 + BEFORE_END * 2);
            self.rig.drive.wait(part * self.rig.turn_ns()).await;
            self.rig.drive.read(block, 1).await?;
            if self.hits(Lbn(block.0 - 1)).await? {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// How many blocks behind a read are hits when it has just ended, and the time of a sector there in ns.
    async fn hits_behind(&mut self) -> Result<(u64, f64)> {
        let most = HIT_PART * self.rig.turn_ns();
        for further in 1..PASSED_MAX {
            let room = self.fresh_with_room(At::CylinderFront, further + 1).await?;
            let Some(first) = room else { break };
            let sector = self.rig.sector_ns(first);
            self.rig.drive.read(first, 1).await?;
            let done = self.rig.drive.read(Lbn(first.0 + further), 1).await?;
            if done.response().0 as f64 > most {
                return Ok((further - 1, sector));
            }
        }
        Ok((PASSED_MAX, 1.0))
    }

    /// A read that is answered from the cache, and what it takes, in ns: `before` is done between. The less of two: one may be held up.
    pub(super) async fn hit_ns(&mut self, before: Option<Op>, count: u64) -> Result<Option<f64>> {
        let (one, other) =
            (self.one_hit_ns(before, count).await?, self.one_hit_ns(before, count).await?);
        Ok(one.into_iter().chain(other).reduce(f64::min))
    }

    async fn one_hit_ns(&mut self, before: Option<Op>, count: u64) -> Result<Option<f64>> {
        let room = self.fresh_with_room(At::CylinderFront, count + 1).await?;
        let Some(first) = room else { return Ok(None) };
        let other = self.fresh(At::CylinderFront).await?;
        // Some caches keep what they read ahead alone.
        self.rig.drive.read(first, if self.further == 0 { count } else { 1 }).await?;
        self.settle().await;
        if let Some(op) = before {
            self.rig.drive.access(op, other, 1).await?;
            self.settle().await;
        }
        let block = Lbn(first.0 + self.further);
        self.wait_for(block).await;
        let response = self.rig.drive.read(block, count).await?.response().0 as f64;
        let most = HIT_PART * self.rig.turn_ns();
        Ok((response < most || count > 1).then_some(response))
    }

    /// Whether reading ahead reaches less far than without the limit that was set: a drive may round it.
    pub(super) async fn is_limited_to_less(&mut self) -> Result<bool> {
        Ok(self.reach(At::CylinderFront, 1).await? < self.ahead)
    }
}

impl Rig<'_, '_> {
    /// The time between two blocks' passing the head, by the layout and its skews, in ns: less than a turn.
    fn angle_between(&self, from: Lbn, to: Lbn) -> f64 {
        let angle = |lbn: Lbn| {
            let origin = self.geometry.track(lbn).map_or(0, |track| track.origin_sector);
            let sector = self.geometry.locate(lbn).map_or(0, |at: Location| at.sector);
            (f64::from(origin) + f64::from(sector) + 1.0) * self.sector_ns(lbn)
        };
        (angle(to) - angle(from)).rem_euclid(self.turn_ns())
    }
}
