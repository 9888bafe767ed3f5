//! Reading ahead: what the mechanism does while nobody waits for it.
//!
//! It has no events. How far it got is worked out when the next request comes, which may be a hit on
//! it, let it go on further, or stop it.

use moirai_units::{BlockCount, BlockRange, Instant, Lbn};

use super::Disk;
use crate::cache::SegmentIndex;
use crate::service::{self, Arm, Streamed};
use crate::{Profile, ReadAhead};

/// Reading on behind a request, into its segment.
#[derive(Clone, Copy, Debug)]
pub(super) struct Background {
    pub(super) segment: SegmentIndex,
    /// When the head is over the end of the block before `rest`, and where.
    pub(super) from: Instant,
    pub(super) arm: Arm,
    pub(super) rest: BlockRange,
}

impl Disk {
    /// Lets reading ahead get as far as it does by `now`.
    pub(super) fn read_ahead_until(&mut self, now: Instant) -> Option<Streamed> {
        let ahead = self.background.as_mut()?;
        let Profile { geometry, mechanics, .. } = &self.profile;
        let got = service::stream(geometry, mechanics, ahead.arm, ahead.from, ahead.rest, now);
        let at = ahead.rest.first + got.blocks;
        (ahead.from, ahead.arm) = (got.resume, got.resume_arm);
        ahead.rest = BlockRange::between(at, ahead.rest.end());
        if got.blocks > BlockCount::ZERO
            && let Some(cache) = &mut self.cache
        {
            cache.grow(ahead.segment, at, got.resume);
        }
        if ahead.rest.is_empty() && got.resume <= now {
            // The head rests where it is.
            self.arm = got.resume_arm;
            self.media_free = self.media_free.max(got.resume);
            self.background = None;
        }
        Some(got)
    }

    /// Ends reading ahead at `now`, or as soon as the head can leave.
    pub(super) fn stop_read_ahead(&mut self, now: Instant) {
        let Some(got) = self.read_ahead_until(now) else { return };
        self.background = None;
        let within = self.cache.as_ref().is_some_and(|cache| cache.settings.stop_within_sector);
        let seeking = got.leave_arm != got.resume_arm;
        let leave = if within && !seeking { got.leave.min(now) } else { got.leave };
        self.media_free = self.media_free.max(leave);
        self.arm = got.leave_arm;
    }

    /// Extends reading ahead as `request`, the last one to its segment, allows.
    pub(super) fn read_on(&mut self, segment: SegmentIndex, request: BlockRange) {
        let (Some(cache), Some(ahead)) = (&self.cache, &mut self.background) else { return };
        let geometry = &self.profile.geometry;
        let next = ahead.rest.first;
        let capacity = geometry.capacity();
        let track = |lbn: Lbn| geometry.track(lbn).map(|track| track.blocks);
        let most = cache.settings.read_ahead_blocks.min(cache.switches.read_ahead_blocks);
        // A drive that reads to the end of a track may read so far that what comes next falls off the segment's front.
        let to_track_end = request.end() + most;
        let far = request.end() + most.min(cache.settings.segment_blocks);
        let end = match cache.settings.read_ahead {
            ReadAhead::None => next,
            ReadAhead::Segment => far,
            ReadAhead::Track => {
                let last = Lbn(request.end().0 - 1);
                track(last).map_or(next, |blocks| blocks.end()).min(far)
            }
            ReadAhead::Cylinder => {
                let last = Lbn(request.end().0 - 1);
                geometry.cylinder_end(last).unwrap_or(next).min(far)
            }
            ReadAhead::NextTrack => {
                let begun = cache.segment(segment).map(|segment| segment.blocks.first);
                match track(request.end()) {
                    Some(here) if begun.is_some_and(|begun| begun < here.first) => {
                        track(here.end()).map_or(here.end(), |next| next.end()).min(to_track_end)
                    }
                    Some(here) => here.end().min(to_track_end),
                    None => next,
                }
            }
        };
        let end = end.min(Lbn(capacity.0)).max(ahead.rest.end()).max(next);
        ahead.rest = BlockRange::between(next, end);
    }

    /// After a hit on a segment that was left, goes on where it ends.
    pub(super) fn resume_read_ahead(
        &mut self,
        segment: SegmentIndex,
        request: BlockRange,
        at: Instant,
    ) {
        let Some(cache) = &self.cache else { return };
        let idle = self.queue.is_empty() && self.media_free <= at;
        if !cache.settings.resume_on_hit || !idle {
            return;
        }
        let Some(held) = cache.segment(segment).filter(|held| !held.written) else { return };
        let rest = BlockRange::new(held.blocks.end(), BlockCount::ZERO);
        self.background = Some(Background { segment, from: at, arm: self.arm, rest });
        self.read_on(segment, request);
    }
}
