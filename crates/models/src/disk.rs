//! A disk drive: a request queue, the mechanism, and a bus that sends data in order.
//!
//! Invariants:
//! 1. The mechanism serves one request at a time; a decision which is next is made when it is free.
//! 2. Commands are decoded while the mechanism works on others, so that only a request that finds
//!    the drive idle waits for its own decoding.
//! 3. The parts of a completion add up to the time from issue to finish.
//! 4. Stepping to a time in several steps gives what stepping there at once gives.
//!
//! ```text
//!   submit --> decoding --> queued --> on the media --> on the bus --> done
//!              overhead     queue      seek, switch,    bus (what the media
//!                                      rotation, media  did not overlap)
//! ```
//!
//! Written data cross the bus before they wait for the mechanism (thesis 3.2.4).

use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};

use moirai_units::{BlockRange, Instant, Nanos, ServiceParts};

use crate::service::{self, Arm, Run};
use crate::{Direction, Profile};

/// Names a request of one disk.
pub type RequestId = u64;

/// How the next request is chosen.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum Scheduler {
    /// In order of arrival.
    Fcfs,
    /// Shortest positioning time first.
    #[default]
    Sptf,
}

/// A request to a disk, whose blocks the disk has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DiskRequest {
    /// Comes back with the completion.
    pub id: RequestId,
    /// Read or write.
    pub direction: Direction,
    /// The blocks accessed.
    pub blocks: BlockRange,
}

/// A request that is done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DiskCompletion {
    /// The request.
    pub id: RequestId,
    /// When it was submitted.
    pub issued: Instant,
    /// When the mechanism took it up.
    pub started: Instant,
    /// When its last byte had crossed the bus, or was on the platter.
    pub finished: Instant,
    /// Where the time went.
    pub parts: ServiceParts,
}

#[derive(Clone, Copy, Debug)]
struct Queued {
    request: DiskRequest,
    issued: Instant,
    /// Decoded and, for a write, in the drive's memory.
    ready: Instant,
    overhead: Nanos,
    bus: Nanos,
}

/// Done requests, earliest first and then in the order they were served.
#[derive(Debug, PartialEq, Eq)]
struct Done {
    finished: Instant,
    sequence: u64,
    completion: DiskCompletion,
}

impl Ord for Done {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        (self.finished, self.sequence).cmp(&(other.finished, other.sequence))
    }
}

impl PartialOrd for Done {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

/// A simulated disk.
#[derive(Debug)]
pub struct Disk {
    profile: Profile,
    scheduler: Scheduler,
    arm: Arm,
    media_free: Instant,
    bus_free: Instant,
    queue: VecDeque<Queued>,
    done: BinaryHeap<Reverse<Done>>,
    served: u64,
}

impl Disk {
    /// A disk at rest with its arm over the outermost cylinder.
    #[must_use]
    pub fn new(profile: Profile, scheduler: Scheduler) -> Disk {
        Disk {
            profile,
            scheduler,
            arm: Arm::default(),
            media_free: Instant::ZERO,
            bus_free: Instant::ZERO,
            queue: VecDeque::new(),
            done: BinaryHeap::new(),
            served: 0,
        }
    }

    /// What the disk was made from.
    #[must_use]
    pub fn profile(&self) -> &Profile {
        &self.profile
    }

    /// Hands a request to the disk at `now`, which is no earlier than any time given before.
    pub fn submit(&mut self, now: Instant, request: DiskRequest) {
        let overhead = self.profile.command_overhead;
        let decoded = now + overhead;
        let ready = match request.direction {
            Direction::Read => decoded,
            Direction::Write => {
                self.bus_free = self.bus_free.max(decoded) + self.bus_time(request.blocks.count.0);
                self.bus_free
            }
        };
        self.queue.push_back(Queued {
            request,
            issued: now,
            ready,
            overhead,
            bus: ready.since(decoded),
        });
    }

    /// The next time at which something happens; `None` when the disk is idle.
    #[must_use]
    pub fn next_event(&self) -> Option<Instant> {
        let finish = self.done.peek().map(|Reverse(done)| done.finished);
        match (finish, self.next_decision()) {
            (Some(finish), Some(decision)) => Some(finish.min(decision)),
            (finish, decision) => finish.or(decision),
        }
    }

    /// Lets time pass up to and with `now`; requests that finish are appended to `completions`.
    pub fn advance(&mut self, now: Instant, completions: &mut Vec<DiskCompletion>) {
        while let Some(at) = self.next_decision().filter(|at| *at <= now) {
            self.take_up(at);
        }
        while let Some(Reverse(done)) = self.done.peek() {
            if done.finished > now {
                break;
            }
            completions.push(done.completion);
            self.done.pop();
        }
    }

    /// When the mechanism is free and a request waits for it.
    fn next_decision(&self) -> Option<Instant> {
        let ready = match self.scheduler {
            Scheduler::Fcfs => self.queue.front().map(|queued| queued.ready),
            Scheduler::Sptf => self.queue.iter().map(|queued| queued.ready).min(),
        };
        ready.map(|ready| ready.max(self.media_free))
    }

    fn take_up(&mut self, at: Instant) {
        let Some(index) = self.choose(at) else { return };
        let Some(queued) = self.queue.remove(index) else {
            return;
        };
        let Profile { geometry, mechanics, .. } = &self.profile;
        let request = queued.request;
        let sectors = request.blocks.count.0;
        let bus_sector = self.bus_time(1);

        // When the bus, which sends in block order, is through; see `Run`.
        let mut bus_end = Instant::ZERO;
        let mut first_passed = None;
        let in_order = self.profile.bus_in_order;
        let service = service::serve(
            geometry,
            mechanics,
            self.arm,
            at,
            request.direction,
            request.blocks,
            |run: Run| {
                first_passed.get_or_insert(run.first_passed);
                // After the first sector of a run all from it on are still to be sent; after its
                // last, all behind it. Out of order, nothing waits for what comes before it.
                let (from_first, from_last) = if in_order {
                    (sectors - run.first, sectors - (run.first + run.sectors) + 1)
                } else {
                    (run.sectors, 1)
                };
                bus_end = bus_end
                    .max(run.first_passed + Nanos(bus_sector.0 * from_first))
                    .max(run.last_passed + Nanos(bus_sector.0 * from_last));
            },
        );
        let finished = match request.direction {
            Direction::Write => service.media_end,
            Direction::Read => {
                let start = self.bus_free.max(first_passed.unwrap_or(at));
                self.bus_free = bus_end.max(start + self.bus_time(sectors));
                self.bus_free
            }
        };
        let parts = ServiceParts {
            queue: at.since(queued.ready),
            overhead: queued.overhead,
            bus: queued.bus + finished.since(service.media_end),
            ..service.parts
        };
        self.arm = service.arm;
        self.media_free = service.media_end;
        self.served += 1;
        self.done.push(Reverse(Done {
            finished,
            sequence: self.served,
            completion: DiskCompletion {
                id: request.id,
                issued: queued.issued,
                started: at,
                finished,
                parts,
            },
        }));
    }

    fn choose(&self, at: Instant) -> Option<usize> {
        if self.scheduler == Scheduler::Fcfs {
            return (!self.queue.is_empty()).then_some(0);
        }
        let Profile { geometry, mechanics, .. } = &self.profile;
        let ready = self.queue.iter().enumerate().filter(|(_, queued)| queued.ready <= at);
        ready
            .min_by_key(|(_, queued)| {
                let DiskRequest { direction, blocks, .. } = queued.request;
                service::positioning_time(geometry, mechanics, self.arm, at, direction, blocks)
            })
            .map(|(index, _)| index)
    }

    fn bus_time(&self, sectors: u64) -> Nanos {
        Nanos(sectors * self.profile.bus_sector.0)
    }
}

#[cfg(test)]
mod tests;
