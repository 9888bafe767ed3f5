//! Writes: into the cache and reported at once, or to the media first; and flushes.

use moirai_units::{BlockCount, Instant, Lbn, Nanos, ServiceParts};

use super::{Disk, DiskCompletion, DiskRequest, Job, RequestId};
use crate::cache::SegmentIndex;
use crate::service::{Access, Arriving};
use crate::{Direction, ImmediateReport};

/// A write that waits for a segment.
#[derive(Clone, Copy, Debug)]
pub(super) struct Blocked {
    pub(super) request: DiskRequest,
    pub(super) issued: Instant,
    pub(super) overhead: Nanos,
}

/// A flush that waits for the writes before it.
#[derive(Clone, Copy, Debug)]
pub(super) struct Flush {
    pub(super) id: RequestId,
    pub(super) issued: Instant,
    /// Writes with lower numbers were reported before it.
    pub(super) writes: u64,
}

/// The write that came last.
#[derive(Clone, Copy, Debug)]
pub(super) struct LastWrite {
    pub(super) end: Lbn,
    /// When it is on the media, once the mechanism has taken it up.
    pub(super) on_media: Option<Instant>,
}

impl Disk {
    pub(super) fn submit_write(&mut self, now: Instant, request: DiskRequest, previous: Direction) {
        let overheads = self.profile.electronics.overheads;
        let extra_disconnect = overheads
            .extra_disconnect
            .filter(|_| self.disconnects_extra(now, request.blocks.first, previous));
        let (hit, miss) = match extra_disconnect {
            None => (overheads.write_hit.get(previous), overheads.write_miss.get(previous)),
            Some(extra_disconnect) => (extra_disconnect.data, extra_disconnect.arm),
        };
        self.stop_read_ahead(now);
        let report = self
            .cache
            .as_ref()
            .filter(|cache| cache.switches.writes)
            .map_or(ImmediateReport::None, |cache| cache.settings.immediate_report);
        let blocks = request.blocks;
        let joined = self.cache.as_ref().filter(|cache| cache.settings.combine_writes);
        let joined = joined.and_then(|cache| cache.appendable(blocks.first, blocks.count));
        if let Some(cache) = &mut self.cache {
            cache.invalidate(blocks);
        }
        let at_once = match report {
            ImmediateReport::None => false,
            ImmediateReport::Sequential => self.continues_a_write(blocks.first, now),
            ImmediateReport::All => true,
        };
        self.last_write = Some(LastWrite { end: blocks.end(), on_media: None });
        if at_once && self.fits_a_segment(blocks.count) {
            // First come, first served.
            let room = self.blocked.is_empty() && self.has_room_to_write();
            let segment = match joined {
                None if room => self.take_segment(blocks.first, true),
                joined => joined,
            };
            match segment {
                Some(segment) => {
                    let shared = joined.is_some();
                    self.write_back(request, now, hit, now + hit, now + miss, segment, shared);
                }
                None => {
                    self.blocked.push_back(Blocked { request, issued: now, overhead: miss });
                }
            }
            return;
        }
        let segment = joined
            .inspect(|segment| {
                let cache = self.cache.iter_mut();
                cache.for_each(|cache| cache.add_user(*segment, Direction::Write));
            })
            .or_else(|| self.take_segment(blocks.first, true));
        let data = self.take_bus(now + hit, blocks.count, joined.is_some());
        let job = Job {
            id: request.id,
            issued: now,
            overhead: miss,
            request: blocks,
            transfer: Instant::ZERO,
            segment,
            is_connected: false,
            is_extra_disconnected: extra_disconnect.is_some(),
            reported: None,
            is_seek: false,
        };
        let access = Access { direction: Direction::Write, blocks, data: Some(data) };
        self.enqueue(access, now + miss, job);
    }

    /// Takes a write's data into `segment`, reports it complete, and leaves it to the queue.
    #[expect(clippy::too_many_arguments, reason = "each is another time of one write")]
    fn write_back(
        &mut self,
        request: DiskRequest,
        issued: Instant,
        overhead: Nanos,
        transfer: Instant,
        ready: Instant,
        segment: SegmentIndex,
        shared: bool,
    ) {
        let blocks = request.blocks;
        let data = self.take_bus(transfer, blocks.count, shared);
        let in_buffer = data.from + Nanos(blocks.count.0 * data.sector.0);
        if let Some(cache) = &mut self.cache {
            if shared {
                cache.add_user(segment, Direction::Write);
            }
            cache.touch(segment);
            cache.grow(segment, blocks.end(), in_buffer);
        }
        let completion = self.profile.electronics.overheads.write_completion;
        let parts = ServiceParts {
            queue: data.from.since(issued + overhead),
            overhead: overhead + completion,
            bus: in_buffer.since(data.from),
            ..ServiceParts::default()
        };
        self.complete(DiskCompletion {
            id: request.id,
            issued,
            started: data.from,
            finished: in_buffer + completion,
            cached: blocks.count,
            parts,
        });
        self.unwritten.insert(self.reported_writes);
        let job = Job {
            id: request.id,
            issued,
            overhead,
            request: blocks,
            transfer: Instant::ZERO,
            segment: Some(segment),
            is_connected: false,
            is_extra_disconnected: false,
            reported: Some(self.reported_writes),
            is_seek: false,
        };
        self.reported_writes += 1;
        let access = Access { direction: Direction::Write, blocks, data: Some(data) };
        self.enqueue(access, ready, job);
    }

    /// Notes that a write is on the media.
    pub(super) fn written(&mut self, job: &Job, media_end: Instant) {
        if let (Some(cache), Some(segment)) = (&mut self.cache, job.segment) {
            cache.remove_user(segment, Direction::Write);
            if job.reported.is_none() {
                cache.grow(segment, job.request.end(), media_end);
            }
        }
        if let Some(last) = self.last_write.as_mut().filter(|last| last.end == job.request.end()) {
            last.on_media = Some(media_end);
        }
        if let Some(number) = job.reported {
            self.unwritten.remove(&number);
            self.written_until = self.written_until.max(media_end);
            self.complete_flushes();
        }
    }

    /// Gives waiting writes the segments that became free at `at`; a write's is free when the
    /// mechanism takes it up.
    pub(super) fn unblock(&mut self, at: Instant) {
        while let Some(Blocked { request, issued, overhead }) = self.blocked.front().copied() {
            if !self.has_room_to_write() {
                return;
            }
            let Some(segment) = self.take_segment(request.blocks.first, true) else { return };
            self.blocked.pop_front();
            self.stop_read_ahead(at);
            let transfer = at.max(issued + overhead);
            self.write_back(request, issued, overhead, transfer, transfer, segment, false);
        }
    }

    /// Whether a write from `first` on goes on where the one before ended, which is still being
    /// written at `now`.
    fn continues_a_write(&self, first: Lbn, now: Instant) -> bool {
        self.last_write.is_some_and(|last| {
            last.end == first && last.on_media.is_none_or(|on_media| now < on_media)
        })
    }

    fn fits_a_segment(&self, blocks: BlockCount) -> bool {
        self.cache.as_ref().is_some_and(|cache| blocks <= cache.settings.segment_blocks)
    }

    /// Whether another segment may hold data that are not on the media.
    fn has_room_to_write(&self) -> bool {
        self.cache
            .as_ref()
            .is_some_and(|cache| cache.dirty_segments() < cache.settings.write_segments as usize)
    }

    /// Completes the flushes that wait for no write any more.
    pub(super) fn complete_flushes(&mut self) {
        let pending = self.unwritten.first().copied().unwrap_or(u64::MAX);
        let (done, waiting): (Vec<Flush>, Vec<Flush>) = std::mem::take(&mut self.flushes)
            .into_iter()
            .partition(|flush| flush.writes <= pending);
        self.flushes = waiting;
        for Flush { id, issued, .. } in done {
            let finished = self.written_until.max(issued);
            let parts = ServiceParts { queue: finished.since(issued), ..ServiceParts::default() };
            let cached = BlockCount::ZERO;
            self.complete(DiskCompletion { id, issued, started: issued, finished, cached, parts });
        }
    }

    /// Whether an idle drive with an extra write disconnect leaves the bus before it takes this write's data. It does so where the
    /// write does not begin at the end of the write directly before it.
    fn disconnects_extra(&self, now: Instant, first: Lbn, previous: Direction) -> bool {
        let is_idle = self.queue.is_empty() && self.media_free <= now;
        let follows = self.last_write.is_none_or(|last| last.end == first);
        is_idle && previous == Direction::Write && !follows
    }

    /// Takes the bus for a write's data from `at` on, or when it is free. Those that join others need no positioning.
    fn take_bus(&mut self, at: Instant, count: BlockCount, joins: bool) -> Arriving {
        let from = self.bus_free.max(at);
        let electronics = &self.profile.electronics;
        let sector = electronics.write_bus_sector;
        self.bus_free = from + Nanos(count.0 * sector.0);
        let least = electronics.overheads.write_positioning_least;
        Arriving {
            from,
            sector,
            start: electronics
                .cache
                .as_ref()
                .map_or(BlockCount(1), |cache| cache.write_start_blocks),
            positioning_least: if joins { Nanos::ZERO } else { least },
        }
    }
}
