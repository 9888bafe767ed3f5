//! What a drive does besides reads and writes: seeks by themselves, and its cache switched on and off.

use moirai_units::{BlockCount, BlockRange, Instant, Lbn, Nanos, ServiceParts};

use super::{Disk, DiskCompletion, Job, RequestId};
use crate::Direction;
use crate::service::{Access, Arm};

/// How the cache is switched (SCSI's caching page).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CacheSwitches {
    /// Reads may be answered from the cache, and are read ahead.
    pub reads: bool,
    /// Writes may be reported when their data are in the cache.
    pub writes: bool,
    /// Blocks past a request that reading ahead may reach, where the profile allows more.
    pub read_ahead_blocks: BlockCount,
}

impl Default for CacheSwitches {
    fn default() -> CacheSwitches {
        CacheSwitches { reads: true, writes: true, read_ahead_blocks: BlockCount(u64::MAX) }
    }
}

impl Disk {
    /// Asks at `now` for the arm to be moved over the track of `lbn`, which the disk has.
    pub fn seek(&mut self, now: Instant, id: RequestId, lbn: Lbn) {
        self.decide(|at| at < now);
        self.stop_read_ahead(now);
        let overhead = self.profile.electronics.overheads.read_miss.get(self.previous);
        let blocks = BlockRange::new(lbn, BlockCount(1));
        let job = Job {
            id,
            issued: now,
            overhead,
            request: blocks,
            transfer: Instant::ZERO,
            segment: None,
            is_connected: false,
            is_extra_disconnected: false,
            reported: None,
            is_seek: true,
        };
        let access = Access { direction: Direction::Read, blocks, data: None };
        self.enqueue(access, now + overhead, job);
    }

    /// Moves the arm for a seek that was asked for by itself.
    pub(super) fn serve_seek(&mut self, at: Instant, access: Access, job: Job) {
        let Some(extent) = self.profile.geometry.extent(access.blocks) else { return };
        let distance = self.arm.cylinder.abs_diff(extent.cylinder);
        let switches = self.arm.head != extent.head;
        let moved = self.profile.mechanics.positioning(distance, switches, access.direction);
        let there = at + moved.seek + moved.head_switch;
        self.complete(DiskCompletion {
            id: job.id,
            issued: job.issued,
            started: at,
            finished: there,
            cached: BlockCount::ZERO,
            parts: ServiceParts {
                queue: at.since(job.issued + job.overhead),
                overhead: job.overhead,
                seek: moved.seek,
                head_switch: moved.head_switch,
                ..ServiceParts::default()
            },
        });
        self.arm = Arm { cylinder: extent.cylinder, head: extent.head };
        self.media_free = there;
        self.media_busy += there.since(at);
    }

    /// How the cache is switched; `None` without one.
    #[must_use]
    pub fn cache_switches(&self) -> Option<CacheSwitches> {
        self.cache.as_ref().map(|cache| cache.switches)
    }

    /// Switches the cache at `now`. What was read and lies in it is forgotten; data that are to be written stay.
    pub fn switch_cache(&mut self, now: Instant, switches: CacheSwitches) {
        self.decide(|at| at < now);
        self.stop_read_ahead(now);
        if let Some(cache) = &mut self.cache {
            cache.switches = switches;
            cache.forget();
        }
    }

    /// How long a command takes that is about the drive and not about data.
    #[must_use]
    pub fn diagnostic(&self) -> Nanos {
        self.profile.electronics.diagnostic
    }
}
