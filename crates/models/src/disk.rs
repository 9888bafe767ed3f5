//! A disk drive: commands, a cache, a request queue, the mechanism, and a bus.
//!
//! Invariants:
//! 1. The mechanism serves one access at a time; which is next is decided when it is free.
//! 2. Commands are decoded while the mechanism works on others, so that only a request that finds
//!    the drive idle waits for its own decoding.
//! 3. The parts of a completion add up to the time from issue to finish.
//! 4. Stepping to a time in several steps gives what stepping there at once gives.
//! 5. Reading ahead goes on while nobody waits. It has no events of its own: how far it got is worked
//!    out when the next request comes.
//!
//! ```text
//!            hit  +---------------------- cache --------------------+
//!                 |                                                 v
//!   submit --> decoding --> queued --> on the media -----------> on the bus --> done
//!              overhead     queue      seek, switch, rotation,   bus (what the media
//!                 |                    media                     did not overlap)
//!                 +-- write, reported at once: bus --> done, and queued --> on the media
//! ```

mod control;
mod read_ahead;
mod request;
mod writes;

use std::collections::{BTreeSet, VecDeque};

use moirai_units::{BlockCount, BlockRange, Instant, Lbn, Nanos, ServiceParts};

use crate::cache::{Cache, Hit, SegmentIndex};
use crate::queue::{Queue, Waiting};
use crate::service::{self, Access, Arm, Run};
use crate::{Direction, Profile, Scheduler};

pub use control::CacheSwitches;
pub use request::{DiskCompletion, DiskRequest, RequestId};

use read_ahead::Background;
pub(crate) use request::DoneQueue;
use writes::{Blocked, Flush, LastWrite};

/// An access to the media on somebody's behalf.
#[derive(Clone, Copy, Debug)]
struct Job {
    id: RequestId,
    issued: Instant,
    overhead: Nanos,
    /// All blocks of the request; the access may be to the last of them.
    request: BlockRange,
    /// When the transfer of cached blocks, which the access leaves out, may begin.
    transfer: Instant,
    segment: Option<SegmentIndex>,
    /// The bus is kept from the command on.
    is_connected: bool,
    /// The bus was left between the command and the data.
    is_extra_disconnected: bool,
    /// The number of a write whose completion was reported when its data were in the buffer.
    reported: Option<u64>,
    /// Only the arm is to be moved.
    is_seek: bool,
}

/// A simulated disk.
#[derive(Debug)]
pub struct Disk {
    profile: Profile,
    cache: Option<Cache>,
    arm: Arm,
    /// Behind the last block accessed.
    position: Lbn,
    media_free: Instant,
    media_busy: Nanos,
    bus_free: Instant,
    previous: Direction,
    queue: Queue<Job>,
    background: Option<Background>,
    blocked: VecDeque<Blocked>,
    last_write: Option<LastWrite>,
    reported_writes: u64,
    /// Numbers of reported writes that are not on the media.
    unwritten: BTreeSet<u64>,
    /// When the last reported write that was taken up is on the media.
    written_until: Instant,
    flushes: Vec<Flush>,
    done: DoneQueue,
}

impl Disk {
    /// A disk at rest with its arm over the outermost cylinder.
    #[must_use]
    pub fn new(profile: Profile, scheduler: Scheduler) -> Disk {
        Disk {
            cache: profile.electronics.cache.clone().map(Cache::new),
            profile,
            arm: Arm::default(),
            position: Lbn(0),
            media_free: Instant::ZERO,
            media_busy: Nanos::ZERO,
            bus_free: Instant::ZERO,
            previous: Direction::Read,
            queue: Queue::new(scheduler),
            background: None,
            blocked: VecDeque::new(),
            last_write: None,
            reported_writes: 0,
            unwritten: BTreeSet::new(),
            written_until: Instant::ZERO,
            flushes: Vec::new(),
            done: DoneQueue::default(),
        }
    }

    /// What the disk was made from.
    #[must_use]
    pub fn profile(&self) -> &Profile {
        &self.profile
    }

    /// Requests that wait for the mechanism or for a segment.
    #[must_use]
    pub fn queue_length(&self) -> usize {
        self.queue.len() + self.blocked.len()
    }

    /// How long the mechanism has worked for requests, reading ahead left out.
    #[must_use]
    pub fn media_busy(&self) -> Nanos {
        self.media_busy
    }

    /// Hands a request to the disk at `now`, which is no earlier than any time given before.
    pub fn submit(&mut self, now: Instant, request: DiskRequest) {
        self.decide(|at| at < now);
        let previous = std::mem::replace(&mut self.previous, request.direction);
        match request.direction {
            Direction::Read => self.submit_read(now, request, previous),
            Direction::Write => self.submit_write(now, request, previous),
        }
    }

    /// Asks at `now` for a completion when all writes before are on the media.
    pub fn flush(&mut self, now: Instant, id: RequestId) {
        self.decide(|at| at < now);
        self.flushes.push(Flush { id, issued: now, writes: self.reported_writes });
        self.complete_flushes();
    }

    /// The next time at which something happens; `None` when the disk is idle.
    #[must_use]
    pub fn next_event(&self) -> Option<Instant> {
        let finish = self.done.next();
        match (finish, self.queue.next_start(self.media_free)) {
            (Some(finish), Some(decision)) => Some(finish.min(decision)),
            (finish, decision) => finish.or(decision),
        }
    }

    /// Lets time pass up to and with `now`; requests that finish are appended to `completions`.
    pub fn advance(&mut self, now: Instant, completions: &mut Vec<DiskCompletion>) {
        self.decide(|at| at <= now);
        self.done.take(now, completions);
    }

    /// Takes up accesses for as long as `due` says so of their time.
    fn decide(&mut self, due: impl Fn(Instant) -> bool) {
        while let Some(at) = self.queue.next_start(self.media_free).filter(|at| due(*at)) {
            let mechanics = &self.profile.mechanics;
            let Some(next) = self.queue.pop(mechanics, self.arm, self.position, at) else {
                return;
            };
            self.serve(at.max(next.ready), next.access, next.job);
        }
    }

    fn submit_read(&mut self, now: Instant, request: DiskRequest, previous: Direction) {
        let overheads = self.profile.electronics.overheads;
        let (hit, miss) = (overheads.read_hit.get(previous), overheads.read_miss.get(previous));
        self.read_ahead_until(now);
        let blocks = request.blocks;
        let found = self.find(blocks);
        let mut job = Job {
            id: request.id,
            issued: now,
            overhead: miss,
            request: blocks,
            transfer: now + hit,
            segment: None,
            is_connected: false,
            is_extra_disconnected: false,
            reported: None,
            is_seek: false,
        };
        let Some(found) = found else {
            self.stop_read_ahead(now);
            job.transfer = now + miss + overheads.read_disconnect.get(previous);
            job.segment = self.take_segment(blocks.first, false);
            self.enqueue(
                Access { direction: Direction::Read, blocks, data: None },
                now + miss,
                job,
            );
            return;
        };
        if let Some(cache) = &mut self.cache {
            cache.touch(found.segment);
        }
        let streaming = self.background.is_some_and(|ahead| ahead.segment == found.segment);
        if found.blocks == blocks.count {
            self.finish_hit(now, hit, request, found);
            if streaming {
                self.read_on(found.segment, blocks);
            } else {
                self.stop_read_ahead(now);
                self.resume_read_ahead(found.segment, blocks, now + miss);
            }
            self.discard_sent(found.segment, blocks.end());
            return;
        }
        let rest = BlockRange::between(blocks.first + found.blocks, blocks.end());
        let access = Access { direction: Direction::Read, blocks: rest, data: None };
        job.segment = Some(found.segment);
        let is_free = streaming || (self.queue.is_empty() && self.media_free <= now);
        job.is_connected = self.profile.electronics.holds_bus && is_free;
        job.overhead = hit;
        if let Some(cache) = &mut self.cache {
            cache.add_user(found.segment, Direction::Read);
        }
        match self.background.filter(|_| streaming) {
            // The head is on its way to the rest already.
            Some(ahead) => {
                self.background = None;
                self.arm = ahead.arm;
                self.serve(ahead.from, access, job);
            }
            None => {
                self.stop_read_ahead(now);
                job.overhead = miss;
                self.enqueue(access, now + miss, job);
            }
        }
    }

    fn enqueue(&mut self, access: Access, ready: Instant, job: Job) {
        if let Some(extent) = self.profile.geometry.extent(access.blocks) {
            self.queue.push(Waiting { access, ready, extent, job });
        }
    }

    /// Serves an access on the media from `at` on.
    fn serve(&mut self, at: Instant, access: Access, job: Job) {
        if job.is_seek {
            self.serve_seek(at, access, job);
            return self.unblock(at);
        }
        let Profile { geometry, mechanics, electronics, .. } = &self.profile;
        let sectors = job.request.count.0;
        let before = sectors - access.blocks.count.0;
        let bus = electronics.bus_sector.0;
        let in_order = electronics.bus_in_order;
        let wanted = match electronics.read_watermark {
            0.0 => 0,
            share => {
                let segment =
                    electronics.cache.as_ref().map_or(sectors, |cache| cache.segment_blocks.0);
                ((share * sectors.min(segment) as f64) as u64).max(1)
            }
        };

        // When the bus, which sends in block order, is through; see `Run`.
        let mut bus_end = Instant::ZERO;
        let mut first_passed = None;
        let mut enough = Instant::ZERO;
        let passed = |mut run: Run| {
            run.first += before;
            first_passed.get_or_insert(run.first_passed);
            // After the first sector of a run all from it on are still to be sent; after its last,
            // all behind it. Out of order, nothing waits for what comes before it.
            let (from_first, from_last) = if in_order {
                (sectors - run.first, sectors - (run.first + run.sectors) + 1)
            } else {
                (run.sectors, 1)
            };
            bus_end = bus_end
                .max(run.first_passed + Nanos(bus * from_first))
                .max(run.last_passed + Nanos(bus * from_last));
            if run.first < wanted {
                let counted = run.sectors.min(wanted - run.first) - 1;
                let span = run.last_passed.since(run.first_passed).0;
                let until = span * counted / (run.sectors - 1).max(1);
                enough = enough.max(run.first_passed + Nanos(until));
            }
        };
        let service = service::serve(geometry, mechanics, self.arm, at, access, passed);

        let (media_end, overheads) = (service.media_end, electronics.overheads);
        let extra = overheads.extra_disconnect.filter(|_| job.is_extra_disconnected);
        let (finished, completion) = match access.direction {
            Direction::Write => {
                let (disconnect, reconnect) = match extra {
                    None => (overheads.write_disconnect, overheads.write_reconnect),
                    Some(extra) => (extra.disconnect, extra.reconnect),
                };
                let left = access.data.map(|data| {
                    data.from + Nanos(data.sector.0 * access.blocks.count.0) + disconnect
                });
                let completion = reconnect + overheads.write_completion;
                (media_end.max(left.unwrap_or(media_end)) + completion, completion)
            }
            // Cached blocks in front cross the bus while the media turn to the rest.
            Direction::Read if job.is_connected => {
                let sent = self.bus_free.max(job.transfer) + self.bus_time(job.request.count);
                self.bus_free = bus_end.max(sent);
                (self.bus_free + overheads.read_completion, overheads.read_completion)
            }
            Direction::Read => {
                let first = if before > 0 { Some(job.transfer) } else { first_passed };
                let start = self.bus_free.max(first.unwrap_or(at)).max(enough).max(job.transfer);
                let sent = start + overheads.reconnect + self.bus_time(job.request.count);
                self.bus_free = bus_end.max(sent);
                (self.bus_free + overheads.read_completion, overheads.read_completion)
            }
        };
        if job.reported.is_none() {
            // An access that began before its request did so by reading ahead: that part is free.
            let worked_before = (job.issued + job.overhead).since(at);
            let mut parts = service.parts;
            let queue = at.since(job.issued + job.overhead);
            shorten(&mut parts, worked_before);
            parts.queue += queue;
            parts.overhead += job.overhead + completion;
            let sum = parts.total();
            parts.bus += finished.since(job.issued) - sum.min(finished.since(job.issued));
            self.complete(DiskCompletion {
                id: job.id,
                issued: job.issued,
                started: at.max(job.issued),
                finished,
                cached: BlockCount(before),
                parts,
            });
        }
        self.arm = service.arm;
        self.position = access.blocks.end();
        self.media_free = media_end;
        self.media_busy += media_end.since(at);
        match access.direction {
            Direction::Read => self.fill(&job, access.blocks, service.lead, media_end),
            Direction::Write => self.written(&job, media_end),
        }
        self.unblock(at);
    }

    /// Puts what was read into its segment, and reads on.
    fn fill(&mut self, job: &Job, read: BlockRange, lead: u32, media_end: Instant) {
        let (Some(cache), Some(segment)) = (&mut self.cache, job.segment) else { return };
        cache.grow(segment, read.end(), media_end);
        if cache.settings.read_while_waiting && read.first == job.request.first {
            cache.lead(segment, BlockCount(u64::from(lead)));
            cache.grow(segment, read.end(), media_end);
        }
        cache.remove_user(segment, Direction::Read);
        self.discard_sent(segment, job.request.end());
        if self.queue.is_empty() {
            let rest = BlockRange::new(read.end(), BlockCount::ZERO);
            self.background = Some(Background { segment, from: media_end, arm: self.arm, rest });
            self.read_on(segment, job.request);
        }
    }

    /// Sends a read from the cache.
    fn finish_hit(&mut self, now: Instant, overhead: Nanos, request: DiskRequest, hit: Hit) {
        let count = request.blocks.count;
        let filled = self.cache.as_ref().and_then(|cache| cache.segment(hit.segment));
        let filled = filled.map_or(now, |segment| segment.filled);
        let start = self.bus_free.max(now + overhead);
        let sent = start + self.bus_time(count);
        // What is still on its way from the media goes out behind it.
        let end = sent.max(filled + self.profile.electronics.bus_sector);
        let end = if filled <= now { sent } else { end };
        self.bus_free = end;
        let completion = self.profile.electronics.overheads.read_completion;
        let parts = ServiceParts {
            queue: start.since(now + overhead),
            overhead: overhead + completion,
            media: end.since(sent),
            bus: sent.since(start),
            ..ServiceParts::default()
        };
        self.complete(DiskCompletion {
            id: request.id,
            issued: now,
            started: start,
            finished: end + completion,
            cached: count,
            parts,
        });
    }

    fn discard_sent(&mut self, segment: SegmentIndex, end: Lbn) {
        if let Some(cache) = &mut self.cache
            && cache.settings.discard_sent
            && cache.segment(segment).is_some_and(|held| !held.written)
        {
            cache.drop_before(segment, end);
        }
    }

    fn find(&self, blocks: BlockRange) -> Option<Hit> {
        let cache = self.cache.as_ref()?;
        let arriving = self.background.filter(|ahead| {
            cache.settings.hit_on_arriving
                && ahead.rest.first == blocks.first
                && !ahead.rest.is_empty()
        });
        let arriving =
            arriving.map(|ahead| Hit { segment: ahead.segment, blocks: BlockCount::ZERO });
        cache.find(blocks).or(arriving)
    }

    fn take_segment(&mut self, first: Lbn, written: bool) -> Option<SegmentIndex> {
        let cache = self.cache.as_mut()?;
        let segment = cache.take(first, written)?;
        cache.add_user(segment, if written { Direction::Write } else { Direction::Read });
        Some(segment)
    }

    fn bus_time(&self, count: BlockCount) -> Nanos {
        Nanos(count.0 * self.profile.electronics.bus_sector.0)
    }

    fn complete(&mut self, completion: DiskCompletion) {
        self.done.push(completion);
    }
}

/// Takes `span` off the earliest parts of an access.
fn shorten(parts: &mut ServiceParts, mut span: Nanos) {
    for part in [&mut parts.seek, &mut parts.head_switch, &mut parts.rotation, &mut parts.media] {
        let taken = span.min(*part);
        *part = *part - taken;
        span = span - taken;
    }
}

#[cfg(test)]
mod tests;
