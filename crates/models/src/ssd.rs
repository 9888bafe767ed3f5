//! An SSD: dies of flash behind channels, a controller with a write buffer and a map of pages (Agrawal et al. 2008).
//!
//! Invariants:
//! 1. A logical page always lies on the die of its ensemble; the die's [`Ftl`] chooses the flash page.
//! 2. A plane works in the order in which it was asked. Channels and the host's bus serve whoever comes first while they are free.
//! 3. A write is complete when its data are in the buffer. They leave it when they are programmed; one that finds the buffer full
//!    waits for that. A flush completes when all are programmed.
//! 4. Garbage is collected before the write that needs the room, on the die where it needs it: later reads and writes of these
//!    planes wait for the copies and the erase.
//! 5. The parts of a completion add up to the time from issue to finish.
//!
//! ```text
//!   submit --> decoding --> plane --> channel --> host's bus --> done                                    (reads)
//!              command      read
//!                   +-----> room in the buffer --> host's bus --> done; then channel --> plane           (writes)
//!                                                                                        garbage, program
//! ```
//!
//! All times are known when a request comes, as nothing overtakes on a plane. Data that stay within a die do not take its channel,
//! although between planes they would.

mod ftl;
mod profile;
#[cfg(test)]
mod tests;

use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap, VecDeque};

use moirai_units::{BlockCount, BlockRange, Instant, Nanos, ServiceParts};

pub use profile::{SsdKind, SsdProfile, SsdProfileFile, built_in_ssd_names};

use crate::disk::DoneQueue;
use crate::{Direction, DiskCompletion, DiskRequest};
use ftl::{Ftl, Work};

/// What an SSD has done since it was new.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SsdCounters {
    /// What the host wrote.
    pub host: BlockCount,
    /// What was programmed into the flash: for the host, to fill pages up, and to move what was in the way.
    pub programmed: BlockCount,
    /// What of that was moved by collecting garbage.
    pub moved: BlockCount,
    /// Superblocks erased.
    pub erased: u64,
}

impl SsdCounters {
    /// Blocks programmed for each that the host wrote (write amplification); 1 when it wrote nothing.
    #[must_use]
    pub fn write_amplification(&self) -> f64 {
        if self.host.0 == 0 { 1.0 } else { self.programmed.0 as f64 / self.host.0 as f64 }
    }
}

/// A resource that serves one transfer at a time, and its reserved intervals.
#[derive(Clone, Debug, Default)]
struct Bus {
    /// Disjoint, in order.
    taken: VecDeque<(Instant, Instant)>,
}

impl Bus {
    /// Takes the first free `span` from `from` on; gives its end.
    fn take(&mut self, from: Instant, span: Nanos) -> Instant {
        let mut index = self.taken.partition_point(|(_, end)| *end <= from);
        let mut start = from;
        while let Some((begin, end)) = self.taken.get(index)
            && *begin < start + span
        {
            start = start.max(*end);
            index += 1;
        }
        let end = start + span;
        // One that follows directly is joined to the interval before, so that few are to be looked at.
        let follows = index.checked_sub(1).and_then(|before| self.taken.get_mut(before));
        match follows.filter(|before| before.1 == start) {
            Some(before) => before.1 = end,
            None => self.taken.insert(index, (start, end)),
        }
        end
    }

    fn forget_until(&mut self, now: Instant) {
        while self.taken.front().is_some_and(|(_, end)| *end < now) {
            self.taken.pop_front();
        }
    }
}

/// A die: its map, and when each of its planes has done what it was asked.
#[derive(Debug)]
struct Die {
    ftl: Ftl,
    planes: Vec<Instant>,
}

/// A page of the SSD as the host numbers them.
#[derive(Clone, Copy, Debug)]
struct Place {
    die: usize,
    /// The die's number of the page.
    logical: u32,
}

/// A simulated SSD.
#[derive(Debug)]
pub struct Ssd {
    profile: SsdProfile,
    dies: Vec<Die>,
    channels: Vec<Bus>,
    host: Bus,
    /// Pages in the buffer, by number, and when each is programmed.
    buffered: BTreeMap<u64, Instant>,
    /// When room in the buffer comes free, for as many as it has pages.
    leaving: BinaryHeap<Reverse<Instant>>,
    /// When all that was written is programmed.
    programmed: Instant,
    counters: SsdCounters,
    done: DoneQueue,
    work: Vec<Work>,
}

impl Ssd {
    /// An SSD that was never written.
    #[must_use]
    pub fn new(profile: SsdProfile) -> Ssd {
        let file = &profile.file;
        let die = || Die {
            ftl: Ftl::new(
                profile.superblock_pages,
                file.blocks_per_plane,
                profile.ensembles_per_die,
                file.streams_per_die as usize,
            ),
            planes: vec![Instant::ZERO; file.planes_per_die as usize],
        };
        Ssd {
            dies: (0..profile.dies).map(|_| die()).collect(),
            channels: vec![Bus::default(); file.channels as usize],
            host: Bus::default(),
            buffered: BTreeMap::new(),
            leaving: BinaryHeap::new(),
            programmed: Instant::ZERO,
            counters: SsdCounters::default(),
            done: DoneQueue::default(),
            work: Vec::new(),
            profile,
        }
    }

    /// What it was made from.
    #[must_use]
    pub fn profile(&self) -> &SsdProfile {
        &self.profile
    }

    /// What it has done.
    #[must_use]
    pub fn counters(&self) -> SsdCounters {
        self.counters
    }

    /// Hands a request over at `now`, which is no earlier than any time given before.
    pub fn submit(&mut self, now: Instant, request: DiskRequest) {
        self.forget_until(now);
        let ready = now + self.profile.command;
        let mut served = Served { finished: ready, ..Served::default() };
        for (page, blocks) in pages(self.profile.page_blocks, request.blocks) {
            match request.direction {
                Direction::Read => self.read(ready, page, blocks, &mut served),
                Direction::Write => self.write(ready, page, blocks, &mut served),
            }
        }
        let bus = Nanos(self.profile.host_block.0 * request.blocks.count.0);
        let rest = served.finished.since(ready);
        let bus = bus.min(rest);
        let one_page = self.profile.read + self.profile.channel_page;
        let media = if served.from_flash { one_page.min(rest - bus) } else { Nanos::ZERO };
        self.done.push(DiskCompletion {
            id: request.id,
            issued: now,
            started: ready,
            finished: served.finished,
            cached: served.cached,
            parts: ServiceParts {
                queue: rest - bus - media,
                overhead: self.profile.command,
                media,
                bus,
                ..ServiceParts::default()
            },
        });
    }

    /// Asks at `now` for a completion when all that was written is programmed.
    pub fn flush(&mut self, now: Instant, id: u64) {
        let finished = self.programmed.max(now);
        let parts = ServiceParts { queue: finished.since(now), ..ServiceParts::default() };
        let cached = BlockCount::ZERO;
        self.done.push(DiskCompletion { id, issued: now, started: now, finished, cached, parts });
    }

    /// Unmaps the pages that lie whole in `blocks` (TRIM): garbage collection does not move them any more.
    pub fn discard(&mut self, blocks: BlockRange) {
        let whole = self.profile.page_blocks;
        for (page, _) in pages(whole, blocks).filter(|(_, part)| *part == whole) {
            let Place { die, logical } = self.place(page);
            self.dies.get_mut(die).into_iter().for_each(|die| die.ftl.trim(logical));
        }
    }

    /// The next time at which something completes; `None` when nothing will.
    #[must_use]
    pub fn next_event(&self) -> Option<Instant> {
        self.done.next()
    }

    /// Lets time pass up to and with `now`; requests that finish are appended to `completions`.
    pub fn advance(&mut self, now: Instant, completions: &mut Vec<DiskCompletion>) {
        self.done.take(now, completions);
    }

    fn place(&self, page: u64) -> Place {
        let pages = u64::from(self.profile.superblock_pages);
        let (ensemble, offset) = (page / pages, page % pages);
        let dies = u64::from(self.profile.dies);
        let logical = ensemble / dies * pages + offset;
        Place { die: (ensemble % dies) as usize, logical: logical as u32 }
    }

    fn channel(&mut self, die: usize) -> Option<&mut Bus> {
        let channels = self.channels.len();
        self.channels.get_mut(die % channels)
    }

    fn forget_until(&mut self, now: Instant) {
        self.channels.iter_mut().for_each(|channel| channel.forget_until(now));
        self.host.forget_until(now);
        if self.buffered.len() > 2 * self.profile.file.buffer_pages as usize {
            self.buffered.retain(|_, programmed| *programmed > now);
        }
    }

    /// When a page is read from the flash into its plane's register, at `at` or later; `None` where nothing was written.
    fn read_flash(&mut self, at: Instant, place: Place) -> Option<Instant> {
        let read = self.profile.read;
        let die = self.dies.get_mut(place.die)?;
        let page = die.ftl.find(place.logical)?;
        let plane = page as usize % die.planes.len();
        let free = die.planes.get_mut(plane)?;
        *free = at.max(*free) + read;
        Some(*free)
    }

    fn read(&mut self, ready: Instant, page: u64, blocks: BlockCount, served: &mut Served) {
        let place = self.place(page);
        let is_buffered = self.buffered.get(&page).is_some_and(|programmed| *programmed > ready);
        let mut there = ready;
        if is_buffered {
            served.cached += blocks;
        } else if let Some(read) = self.read_flash(ready, place) {
            let page = self.profile.channel_page;
            there = self.channel(place.die).map_or(read, |channel| channel.take(read, page));
            served.from_flash = true;
        }
        let sent = self.host.take(there, Nanos(self.profile.host_block.0 * blocks.0));
        served.finished = served.finished.max(sent);
    }

    fn write(&mut self, ready: Instant, page: u64, blocks: BlockCount, served: &mut Served) {
        let mut room = ready;
        if self.leaving.len() >= self.profile.file.buffer_pages as usize
            && let Some(Reverse(left)) = self.leaving.pop()
        {
            room = room.max(left);
        }
        let received = self.host.take(room, Nanos(self.profile.host_block.0 * blocks.0));
        served.finished = served.finished.max(received);
        served.cached += blocks;
        self.counters.host += blocks;
        let place = self.place(page);
        let is_buffered = self.buffered.get(&page).is_some_and(|programmed| *programmed > received);
        let mut whole = received;
        if blocks < self.profile.page_blocks && !is_buffered {
            // The rest of the page is read, so that it can be programmed as a whole.
            whole = self.read_flash(received, place).unwrap_or(received);
        }
        let programmed = self.program(whole, place);
        self.buffered.insert(page, programmed);
        self.leaving.push(Reverse(programmed));
        self.programmed = self.programmed.max(programmed);
    }

    /// Has a page programmed that is in the buffer from `whole` on, and what must be done before; gives its end.
    fn program(&mut self, whole: Instant, place: Place) -> Instant {
        let channel_page = self.profile.channel_page;
        let sent = self.channel(place.die).map_or(whole, |bus| bus.take(whole, channel_page));
        let SsdProfile { read, program, erase, .. } = self.profile;
        let page_blocks = self.profile.page_blocks;
        let Some(die) = self.dies.get_mut(place.die) else { return sent };
        die.ftl.write(place.logical, &mut self.work);
        let planes = die.planes.len();
        let mut take = |page: u32, from: Instant, span: Nanos| {
            let Some(free) = die.planes.get_mut(page as usize % planes) else { return from };
            *free = from.max(*free) + span;
            *free
        };
        let mut end = sent;
        for work in self.work.drain(..) {
            match work {
                Work::Copy { from, to } => {
                    let was_read = take(from, whole, read);
                    take(to, was_read, program);
                    self.counters.programmed += page_blocks;
                    self.counters.moved += page_blocks;
                }
                Work::Erase { .. } => {
                    // All planes together, when the last of them has copied.
                    let all = 0..planes as u32;
                    let from = all.clone().map(|plane| take(plane, whole, Nanos::ZERO)).max();
                    let from = from.unwrap_or(whole);
                    all.for_each(|plane| {
                        take(plane, from, erase);
                    });
                    self.counters.erased += 1;
                }
                Work::Program { page } => {
                    end = take(page, sent, program);
                    self.counters.programmed += page_blocks;
                }
            }
        }
        end
    }
}

/// What became of a request so far.
#[derive(Default)]
struct Served {
    finished: Instant,
    cached: BlockCount,
    from_flash: bool,
}

/// The pages around `blocks`, and how many of the blocks lie in each.
fn pages(page: BlockCount, blocks: BlockRange) -> impl Iterator<Item = (u64, BlockCount)> {
    let (first, end) = (blocks.first.0, blocks.end().0);
    let last = if first < end { end.div_ceil(page.0) } else { first / page.0 };
    (first / page.0..last).map(move |number| {
        let from = first.max(number * page.0);
        let until = end.min((number + 1) * page.0);
        (number, BlockCount(until - from))
    })
}
