//! A MEMS store: a sled of media on springs over an array of probe tips (thesis 3.3, Griffin et al. 2000a).
//!
//! Invariants:
//! 1. The sled makes one pass at a time over a row of its squares; which is next is decided when the last one ends.
//! 2. A pass transfers what all requests want next of its row, for as many tips as may be active at once: blocks of an
//!    equivalence class that are asked for together take one pass, not one each.
//! 3. A request that was chosen is finished before the next one is. Others may join its passes, and go on later.
//! 4. The tips of a pass are chosen when the sled sets out, as in `DiskSim`'s model: of a write they take what has crossed the bus
//!    by then, and the first block in any case. So most writes to an idle store take a second pass.
//! 5. Writes cross the bus as soon as they are decoded and the buffer has room; one that does not is not chosen before.
//! 6. The parts of a completion add up to the time from issue to finish.
//! 7. Stepping to a time in several steps gives what stepping there at once gives.
//!
//! ```text
//!   submit --> decoding --> waiting --> seek, pass, seek, pass ... --> on the bus --> done     (reads)
//!              overhead     queue       seek  media                    bus
//!                   +-----> on the bus --> waiting --> seek, pass ... -------------> done     (writes)
//! ```
//!
//! A block that is read again is read from the media again: reads are not kept, as they are in `DiskSim`'s model.

mod layout;
mod profile;
mod sled;
#[cfg(test)]
mod tests;

use moirai_units::{BlockCount, Instant, Lbn, Nanos, ServiceParts};

pub use layout::{MemsLayout, MemsPlace};
pub use profile::{MemsKind, MemsProfile, MemsProfileFile, built_in_mems_names};
pub use sled::Sled;

use crate::disk::DoneQueue;
use crate::{Direction, DiskCompletion, DiskRequest, Scheduler};
use sled::SledState;

/// An unfinished request.
#[derive(Clone, Copy, Debug)]
struct Job {
    request: DiskRequest,
    issued: Instant,
    /// When the command is decoded.
    ready: Instant,
    /// When the first block of a write begins to cross the bus; `None` while the buffer has no room for it, and of reads.
    sent: Option<Instant>,
    /// When the sled set out for it first.
    started: Option<Instant>,
    /// The next block for the tips.
    next: Lbn,
    seek: Nanos,
    media: Nanos,
    /// When the blocks read so far have crossed the bus.
    received: Instant,
}

impl Job {
    /// Whether it may be chosen: a write's data are there, or on the bus.
    fn is_due(&self) -> bool {
        self.request.direction == Direction::Read || self.sent.is_some()
    }
}

/// A row that the tips are at, or on the way to.
#[derive(Clone, Debug)]
struct Pass {
    end: Instant,
    seek: Nanos,
    media: Nanos,
    /// Where the sled is then.
    sled: SledState,
    /// Requests, and how many blocks of each it transfers; the first is the one it was made for.
    taken: Vec<(u64, BlockCount)>,
}

/// A simulated MEMS store.
#[derive(Debug)]
pub struct Mems {
    profile: MemsProfile,
    scheduler: Scheduler,
    /// In order of arrival.
    waiting: Vec<Job>,
    /// The request that was begun.
    active: Option<u64>,
    pass: Option<Pass>,
    sled: SledState,
    /// When the last pass ended; `None` before the first.
    sled_free: Option<Instant>,
    /// Behind the last block accessed.
    position: Lbn,
    bus_free: Instant,
    /// Blocks of writes that are in the buffer, or on the bus to it.
    buffered: BlockCount,
    done: DoneQueue,
}

impl Mems {
    /// A store whose sled rests at the centre.
    #[must_use]
    pub fn new(profile: MemsProfile, scheduler: Scheduler) -> Mems {
        Mems {
            sled: profile.layout.centre(),
            profile,
            scheduler,
            waiting: Vec::new(),
            active: None,
            pass: None,
            sled_free: None,
            position: Lbn(0),
            bus_free: Instant::ZERO,
            buffered: BlockCount::ZERO,
            done: DoneQueue::default(),
        }
    }

    /// What it was made from.
    #[must_use]
    pub fn profile(&self) -> &MemsProfile {
        &self.profile
    }

    /// Hands a request over at `now`, which is no earlier than any time given before.
    pub fn submit(&mut self, now: Instant, request: DiskRequest) {
        self.decide(|at| at < now);
        self.waiting.push(Job {
            request,
            issued: now,
            ready: now + self.profile.command,
            sent: None,
            started: None,
            next: request.blocks.first,
            seek: Nanos::ZERO,
            media: Nanos::ZERO,
            received: Instant::ZERO,
        });
        self.fill_buffer(now);
    }

    /// Has writes cross the bus, in the order of their arrival, as far as the buffer has room. One that is longer than the buffer
    /// has it alone.
    fn fill_buffer(&mut self, now: Instant) {
        let (block, room) = (self.profile.bus_block, self.profile.file.buffer_blocks);
        for job in &mut self.waiting {
            if job.request.direction == Direction::Read || job.sent.is_some() {
                continue;
            }
            let count = job.request.blocks.count;
            let has_room = self.buffered.0 + count.0 <= room || self.buffered == BlockCount::ZERO;
            if !has_room {
                return;
            }
            let sent = job.ready.max(now).max(self.bus_free);
            job.sent = Some(sent);
            self.bus_free = sent + Nanos(block.0 * count.0);
            self.buffered += count;
        }
    }

    /// Asks at `now` for a completion: writes that are done are on the media.
    pub fn flush(&mut self, now: Instant, id: u64) {
        self.decide(|at| at < now);
        let parts = ServiceParts::default();
        let none = BlockCount::ZERO;
        self.done.push(DiskCompletion {
            id,
            issued: now,
            started: now,
            finished: now,
            cached: none,
            parts,
        });
    }

    /// The next time at which something happens; `None` when it is idle.
    #[must_use]
    pub fn next_event(&self) -> Option<Instant> {
        [self.done.next(), self.next_decision()].into_iter().flatten().min()
    }

    /// Lets time pass up to and with `now`; requests that finish are appended to `completions`.
    pub fn advance(&mut self, now: Instant, completions: &mut Vec<DiskCompletion>) {
        self.decide(|at| at <= now);
        self.done.take(now, completions);
    }

    /// When a pass ends, or one may begin.
    fn next_decision(&self) -> Option<Instant> {
        match &self.pass {
            Some(pass) => Some(pass.end),
            None => {
                let ready = self.waiting.iter().filter(|job| job.is_due()).map(|job| job.ready);
                ready.min().map(|ready| ready.max(self.sled_free.unwrap_or_default()))
            }
        }
    }

    fn decide(&mut self, due: impl Fn(Instant) -> bool) {
        while let Some(at) = self.next_decision().filter(|at| due(*at)) {
            match self.pass.take() {
                Some(pass) => self.end(pass),
                None => self.begin(at),
            }
        }
    }

    fn on_bus(&self, blocks: BlockCount) -> Nanos {
        Nanos(self.profile.bus_block.0 * blocks.0)
    }

    /// Chooses a request at `at`, and sets out for its next row.
    fn begin(&mut self, at: Instant) {
        let (from, mut startup) = (self.sled_at(at), Nanos::ZERO);
        if self.rests_at(at) {
            startup = self.profile.startup;
        }
        let chosen = self.active.and_then(|id| self.job_index(id));
        let Some(first) = chosen.or_else(|| self.choose(at, &from)) else { return };
        let Some(job) = self.waiting.get(first) else { return };
        self.active = Some(job.request.id);
        let (seek, start, end) = self.profile.seek_to(&from, job.next);
        let media = self.profile.pass;
        // Nothing is written before it is there.
        let is_write = job.request.direction == Direction::Write;
        let there = if is_write { self.arrival(job) } else { Instant::ZERO };
        let begins = at.max(Instant { ns: there.ns.saturating_sub((startup + seek).0) });
        let others = (0..self.waiting.len()).filter(|index| *index != first);
        let mut taken = Vec::new();
        let mut room = u64::from(self.profile.layout.parallelism);
        for index in std::iter::once(first).chain(others) {
            let job = self.waiting.get(index).filter(|job| job.ready <= at && job.is_due());
            let Some(job) = job else { continue };
            let count = self.in_row(job, &start, begins, index == first).min(room);
            if count > 0 {
                room -= count;
                taken.push((job.request.id, BlockCount(count)));
            }
            if room == 0 {
                break;
            }
        }
        for (id, _) in &taken {
            if let Some(job) = self.job_index(*id).and_then(|index| self.waiting.get_mut(index)) {
                job.started.get_or_insert(begins);
            }
        }
        let seek = startup + seek;
        self.pass = Some(Pass { end: begins + seek + media, seek, media, sled: end, taken });
    }

    /// When the next block of a write has crossed the bus.
    fn arrival(&self, job: &Job) -> Instant {
        let before = job.next.since(job.request.blocks.first).0;
        job.sent.unwrap_or_default() + self.on_bus(BlockCount(before + 1))
    }

    /// How many blocks a job wants of the row where a pass begins whose tips are chosen at `at`.
    fn in_row(&self, job: &Job, start: &SledState, at: Instant, is_first: bool) -> u64 {
        let layout = &self.profile.layout;
        let place = layout.place(job.next);
        if !layout.is_at(&place, start) {
            return 0;
        }
        let in_row = u64::from(layout.parallelism - place.cell);
        let wanted = job.request.blocks.end().since(job.next).0.min(in_row);
        if job.request.direction == Direction::Read {
            return wanted;
        }
        let (before, sent) =
            (job.next.since(job.request.blocks.first).0, job.sent.unwrap_or_default());
        let crossed = match self.profile.bus_block.0 {
            0 if at >= sent => u64::MAX,
            0 => 0,
            block => at.since(sent).0 / block,
        };
        wanted.min(crossed.saturating_sub(before).max(u64::from(is_first)))
    }

    fn job_index(&self, id: u64) -> Option<usize> {
        self.waiting.iter().position(|job| job.request.id == id)
    }

    /// Which request is next, of those that are decoded.
    fn choose(&self, at: Instant, from: &SledState) -> Option<usize> {
        let is_ready = |job: &Job| job.ready <= at && job.is_due();
        let ready = || self.waiting.iter().enumerate().filter(|(_, job)| is_ready(job));
        let seek_ns = |job: &Job| self.profile.seek_to(from, job.next).0.0 as f64;
        let least = |cost: &dyn Fn(&Job) -> f64| {
            let costs = ready().map(|(index, job)| (cost(job), index));
            // The first of equals.
            costs.min_by(|one, other| one.0.total_cmp(&other.0)).map(|(_, index)| index)
        };
        match self.scheduler {
            Scheduler::Fcfs => ready().next().map(|(index, _)| index),
            Scheduler::Sptf => least(&seek_ns),
            Scheduler::AgedSptf { weight } => {
                least(&|job| seek_ns(job) - weight * at.since(job.issued).0 as f64)
            }
            Scheduler::Sstf => least(&|job| {
                f64::from(self.profile.layout.cylinder_of(job.next).abs_diff(from.cylinder))
            }),
            Scheduler::CLook => {
                let here = self.position.0;
                // Those behind come after all that are ahead.
                let order = |lbn: u64| (lbn < here, lbn);
                ready().min_by_key(|(_, job)| order(job.next.0)).map(|(index, _)| index)
            }
        }
    }

    /// Whether the sled rests: it has not moved yet, or had nothing to do for long.
    fn rests_at(&self, at: Instant) -> bool {
        let is_idle = |free| at.since(free) >= self.profile.inactive_after;
        self.active.is_none() && self.sled_free.is_none_or(is_idle)
    }

    /// Where the sled is at a time when it makes no pass: it sweeps on until it rests at the centre.
    fn sled_at(&self, at: Instant) -> SledState {
        match self.sled_free {
            Some(free) if !self.rests_at(at) => self.profile.swept(&self.sled, at.since(free)),
            _ => self.profile.layout.centre(),
        }
    }

    /// A pass ends: what it read crosses the bus, and requests that are on the media as a whole are done.
    fn end(&mut self, pass: Pass) {
        let Pass { end, seek, media, sled, taken } = pass;
        (self.sled, self.sled_free) = (sled, Some(end));
        for (id, count) in taken {
            let Some(index) = self.job_index(id) else { continue };
            let bus = self.on_bus(count);
            let bus_free = self.bus_free;
            let Some(job) = self.waiting.get_mut(index) else { continue };
            job.next += count;
            job.seek += seek;
            job.media += media;
            if job.request.direction == Direction::Read {
                job.received = end.max(bus_free) + bus;
                self.bus_free = job.received;
            }
            if job.next >= job.request.blocks.end() {
                let job = *job;
                self.waiting.remove(index);
                if self.active == Some(id) {
                    self.active = None;
                    self.position = job.request.blocks.end();
                }
                if job.sent.is_some() {
                    self.buffered = BlockCount(self.buffered.0 - job.request.blocks.count.0);
                }
                self.finish(&job, end);
                self.fill_buffer(end);
            }
        }
    }

    fn finish(&mut self, job: &Job, end: Instant) {
        let finished = end.max(job.received);
        let overhead = job.ready.since(job.issued);
        let (seek, media, bus) = (job.seek, job.media, finished.since(end));
        let total = finished.since(job.issued);
        let queue = Nanos(total.0.saturating_sub((overhead + seek + media + bus).0));
        let parts = ServiceParts { queue, overhead, seek, media, bus, ..ServiceParts::default() };
        self.done.push(DiskCompletion {
            id: job.request.id,
            issued: job.issued,
            started: job.started.unwrap_or(end),
            finished,
            cached: BlockCount::ZERO,
            parts,
        });
    }
}
