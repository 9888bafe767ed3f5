//! Writing the log: what waits goes into frames, and each frame to a disk.
//!
//! One disk is the active one (the BOSC paper, 4.1). While it writes, what comes is gathered for its next frame, so
//! that what many programs wait for is one write and one flush. Once the oldest group has waited for
//! [`Options::log_wait`](crate::Options::log_wait), or when there is too little room on the track, a disk that is idle
//! takes the frame and is the active one: that which has room for the most of it, and of these the one whose head is
//! there first. Groups are acknowledged in their order, whichever disk is faster.

use std::cmp::Reverse;
use std::collections::VecDeque;

use futures::FutureExt;
use futures::future::BoxFuture;
use futures::stream::{FuturesUnordered, StreamExt};
use moirai_runtime::{now, sleep_until};
use moirai_storage::IoBuf;
use moirai_units::{BlockCount, BlockRange, Instant, Lbn, Nanos};

use crate::error::{Error, Result};
use crate::ids::Seq;
use crate::log::Log;
use crate::log::batch::{Batch, FrameContent};
use crate::log::filling::{self, Filling};
use crate::log::frame::{FRAME_HEADER_BYTES, Frame};
use crate::log::placing::{Gap, Placing};
use crate::options::Durability;

/// Where the log ends.
#[derive(Debug)]
pub(crate) struct Position {
    /// On each disk.
    pub(crate) placings: Vec<Placing>,
    /// The last frame.
    pub(crate) number: u64,
    /// Its checksum.
    pub(crate) checksum: u32,
}

/// Where a frame could go.
#[derive(Clone, Copy, Debug)]
struct Offer {
    disk: usize,
    segment: u32,
    gap: Gap,
    /// Until the head is there.
    wait: Nanos,
}

impl Position {
    /// Where a frame for which `wanted` blocks are needed could go on a disk; `None` when its next segment is not free.
    fn offer(&self, log: &Log, disk: usize, wanted: BlockCount, now: Instant) -> Option<Offer> {
        let placing = self.placings.get(disk)?;
        let offer = |segment, (gap, wait)| Offer { disk, segment, gap, wait };
        if let Some(place) = placing.choose(wanted, now) {
            return Some(offer(placing.segment(), place));
        }
        let next = log.next_free(disk, placing.segment())?;
        Some(offer(next, placing.choose_in(next, wanted, now)?))
    }

    /// Gives the next frame its place: what is written there, and where.
    fn place(
        &mut self,
        log: &Log,
        offer: Offer,
        part: &FrameContent<'_>,
        now: Instant,
    ) -> (Lbn, IoBuf) {
        let Offer { disk, segment, gap, .. } = offer;
        let number = self.number + 1;
        let physical =
            log.disks.get(disk).map_or(BlockCount(1), |disk| disk.segments.ring.physical);
        let frame = Frame {
            log: log.disks.get(disk).map_or(0, |disk| disk.id),
            number,
            first: part.first,
            durable: log.durable_frame(),
            previous: self.checksum,
            bytes: part.content.len() as u32,
            continued: part.continued as u32,
            opening: log.opening,
        };
        let (buffer, checksum) = frame.encode(part.content, physical);
        let mut first = Lbn(0);
        if let Some(placing) = self.placings.get_mut(disk) {
            if placing.segment() != segment {
                log.begin(disk, segment, number, self.checksum, part.first);
                placing.go_on_to(segment);
            }
            placing.begin(gap.at, buffer.blocks(), now);
            first = placing.blocks().first + gap.at;
        }
        (self.number, self.checksum) = (number, checksum);
        let left_bytes = self.placings.iter().map(Placing::left_bytes).sum();
        log.count_frame(buffer.blocks(), left_bytes);
        (first, buffer)
    }

    /// Writes a frame without content, so that what was found behind this counts no more.
    pub(crate) async fn write_opening(&mut self, log: &Log, next: Seq) -> Result<()> {
        let disks = 0..self.placings.len();
        // A place in the segment that each is at is good enough where the log is full.
        let any = |disk: usize| {
            let placing = self.placings.get(disk)?;
            Some(Offer { disk, segment: placing.segment(), gap: placing.any()?, wait: Nanos(0) })
        };
        let offers = disks.clone().filter_map(|disk| self.offer(log, disk, BlockCount(1), now()));
        let offer = offers.chain(disks.filter_map(any)).next().ok_or_else(|| {
            let log = log.names();
            let problem = format!(
                "{log}: the log is full to its last block, so it has no room to free segments"
            );
            Error::Options { problem }
        })?;
        let part = FrameContent { content: &[], continued: 0, first: next, end: next };
        let (first, buffer) = self.place(log, offer, &part, now());
        if let (Some(disk), Some(placing)) =
            (log.disks.get(offer.disk), self.placings.get_mut(offer.disk))
        {
            let blocks = buffer.blocks();
            disk.device.write(first, buffer).await?;
            log.frame_written(blocks);
            disk.device.flush().await?;
            placing.end(now(), true);
        }
        log.advance(next, Some((next, self.number)));
        Ok(())
    }
}

/// A frame that is not yet as durable as its groups are to be.
#[derive(Debug)]
struct Unfinished {
    number: u64,
    disk: usize,
    /// Groups before this one are whole with it.
    end: Seq,
    is_finished: bool,
}

/// What the writer waits for.
enum Event {
    Done(Result<Done>),
    /// Something came to be written, or to be flushed.
    Woken,
    /// The log may have free segments.
    Freed,
    /// The oldest group has waited long enough.
    Waited,
}

/// A disk has written a frame, was flushed, or both.
struct Done {
    disk: usize,
    /// The last frame then.
    number: u64,
    has_frame: bool,
    is_flushed: bool,
    at: Instant,
}

/// What a disk does.
#[derive(Clone, Copy, Debug, Default)]
struct Doing {
    is_busy: bool,
    /// Frames that were written since the last flush.
    unflushed: u64,
    filling: Filling,
}

/// Writes what is appended to a log.
pub(crate) struct Writer<'a> {
    log: &'a Log,
    at: Position,
    batch: Batch,
    active: usize,
    disks: Vec<Doing>,
    /// Groups before this one are to be flushed, which they are not anyway.
    to_flush: Seq,
    /// The oldest first.
    unfinished: VecDeque<Unfinished>,
    events: FuturesUnordered<BoxFuture<'a, Event>>,
    /// Which events other than writes are under way.
    awaits_wake: bool,
    awaits_freed: bool,
    awaits_time: bool,
}

impl<'a> Writer<'a> {
    pub(crate) fn new(log: &'a Log, at: Position) -> Writer<'a> {
        Writer {
            log,
            disks: vec![Doing::default(); log.disks.len()],
            at,
            batch: Batch::default(),
            active: 0,
            to_flush: Seq(0),
            unfinished: VecDeque::new(),
            events: FuturesUnordered::new(),
            awaits_wake: false,
            awaits_freed: false,
            awaits_time: false,
        }
    }

    /// Goes on until something fails, which it gives.
    pub(crate) async fn run(mut self) -> Error {
        loop {
            if let Err(error) = self.step().await {
                return error;
            }
        }
    }

    async fn step(&mut self) -> Result<()> {
        let now = now();
        if self.batch.is_done() {
            if self.log.waiting_since().is_none() {
                self.to_flush = self.log.to_flush();
            }
            // What is not written is not flushed: it may have come since it was looked whether something waits.
            let to_flush = self.to_flush.min(self.log.written());
            if self.log.durability == Durability::Written && self.log.flushed() < to_flush {
                if self.unfinished.is_empty() {
                    self.flush_all();
                }
            } else if self.is_time(now) {
                // First, since those are in this batch at the latest.
                self.to_flush = self.log.to_flush();
                self.batch = self.log.take();
            }
        }
        if !self.batch.is_done() {
            match self.choose(now) {
                Some(offer) => {
                    self.write_next(offer, now);
                    return Ok(());
                }
                None if self.disks.iter().all(|disk| !disk.is_busy) && !self.awaits_freed => {
                    tracing::warn!(
                        "{}: the log is full: writes wait for free segments",
                        self.log.names()
                    );
                    let log = self.log;
                    self.awaits_freed = true;
                    self.events.push(log.freed.notified().map(|()| Event::Freed).boxed());
                }
                None => {}
            }
        } else if !self.awaits_wake && self.disks.iter().any(|disk| !disk.is_busy) {
            let log = self.log;
            self.awaits_wake = true;
            self.events.push(log.wake.notified().map(|()| Event::Woken).boxed());
        }
        match self.events.next().await {
            Some(Event::Done(done)) => self.end(&done?),
            Some(Event::Woken) => self.awaits_wake = false,
            Some(Event::Freed) => self.awaits_freed = false,
            Some(Event::Waited) => self.awaits_time = false,
            None => {}
        }
        Ok(())
    }

    fn is_idle(&self, disk: usize) -> bool {
        self.disks.get(disk).is_some_and(|disk| !disk.is_busy)
    }

    /// Whether what waits is to be written now; if later, it wakes then.
    fn is_time(&mut self, now: Instant) -> bool {
        let Some(since) = self.log.waiting_since() else { return false };
        if self.is_idle(self.active) {
            return true;
        }
        if self.disks.iter().all(|disk| disk.is_busy) {
            return false;
        }
        let until = Instant { ns: since.ns.saturating_add(self.log.wait.0) };
        if until > now && !self.awaits_time {
            self.awaits_time = true;
            self.events.push(sleep_until(until).map(|()| Event::Waited).boxed());
        }
        until <= now
    }

    /// The disk that is active from now on, and where on it the next frame goes.
    fn choose(&self, now: Instant) -> Option<Offer> {
        let wanted = Frame::blocks(self.batch.len() - self.batch.done, BlockCount(1));
        let idle = (0..self.disks.len()).filter(|disk| self.is_idle(*disk));
        let offers = idle.filter_map(|disk| self.at.offer(self.log, disk, wanted, now));
        offers.max_by_key(|offer| {
            let room = offer.gap.count.min(wanted);
            let stays = offer.disk == self.active && room == wanted;
            (stays, room, Reverse(offer.wait), Reverse(offer.disk))
        })
    }

    /// Begins to write the next frame.
    fn write_next(&mut self, offer: Offer, begun: Instant) {
        let disk = offer.disk;
        self.active = disk;
        let part = self.batch.cut(offer.gap.count.bytes().0 as usize - FRAME_HEADER_BYTES);
        let end = part.end;
        let (first, buffer) = self.at.place(self.log, offer, &part, begun);
        let number = self.at.number;
        self.unfinished.push_back(Unfinished { number, disk, end, is_finished: false });
        if self.batch.is_done() {
            self.log.placed(&self.batch);
            self.batch = Batch::default();
        }
        // What follows at once behind it is flushed with it; but a head that is still at it is not where it is taken to be.
        let is_flushed_later = self.disks.len() == 1 && !self.log.is_trail();
        let is_last = self.batch.is_done() || !is_flushed_later;
        let is_flushed = self.log.durability == Durability::Flushed && is_last;
        let free = BlockRange::new(first, offer.gap.count);
        self.begin(disk, Some((free, buffer)), is_flushed);
    }

    /// Begins to flush what is written.
    fn flush_all(&mut self) {
        for disk in 0..self.disks.len() {
            if self.disks.get(disk).is_some_and(|doing| doing.unflushed > 0 && !doing.is_busy) {
                self.begin(disk, None, true);
            }
        }
    }

    /// Gives a disk something to do: a frame for the first of some free blocks, or a flush of what it has.
    fn begin(&mut self, disk: usize, frame: Option<(BlockRange, IoBuf)>, is_flushed: bool) {
        let number = self.at.number;
        let (Some(doing), Some(log_disk)) = (self.disks.get_mut(disk), self.log.disks.get(disk))
        else {
            return;
        };
        doing.is_busy = true;
        doing.unflushed += u64::from(frame.is_some());
        let has_frame = frame.is_some();
        // On tracks a frame's end tells where the head is.
        let is_trail = self.log.is_trail();
        let frame = frame.map(|(free, frame)| {
            let zeros = match is_trail {
                true => BlockCount::ZERO,
                false => doing.filling.zeros(&*log_disk.device, free, frame.blocks()),
            };
            (free.first, frame, zeros)
        });
        let log = self.log;
        let done = async move {
            let device = &log_disk.device;
            if let Some((first, frame, zeros)) = frame {
                let blocks = frame.blocks();
                filling::write(&**device, first, (frame, zeros), is_flushed).await?;
                log.frame_written(blocks);
            } else if is_flushed {
                device.flush().await?;
            }
            Ok(Done { disk, number, has_frame, is_flushed, at: now() })
        };
        self.events.push(done.map(Event::Done).boxed());
    }

    /// A frame is written, and groups may be acknowledged.
    fn end(&mut self, done: &Done) {
        let Done { disk, number, is_flushed, .. } = *done;
        self.at_rest(done);
        let is_enough = is_flushed || self.log.durability == Durability::Written;
        // A flush is one of all that the disk has.
        let those =
            self.unfinished.iter_mut().filter(|one| one.disk == disk && one.number <= number);
        those.for_each(|one| one.is_finished |= is_enough);
        let mut last = None;
        while let Some(one) = self.unfinished.pop_front_if(|one| one.is_finished) {
            last = Some(one);
        }
        let is_durable = self.log.durability == Durability::Flushed;
        if let Some(Unfinished { number, end, .. }) = last {
            self.log.advance(end, is_durable.then_some((end, number)));
        } else if is_flushed && self.disks.iter().all(|doing| doing.unflushed == 0) {
            let end = self.log.written();
            self.log.advance(end, Some((end, number)));
        }
    }

    /// A disk has done what it was told; where its head is shows when the frame is on the medium.
    fn at_rest(&mut self, done: &Done) {
        let Done { disk, has_frame, is_flushed, at, .. } = *done;
        let (Some(doing), Some(placing), Some(log_disk)) =
            (self.disks.get_mut(disk), self.at.placings.get_mut(disk), self.log.disks.get(disk))
        else {
            return;
        };
        doing.is_busy = false;
        let has_cache = log_disk.device.inquiry().volatile_cache;
        if is_flushed || !has_cache {
            placing.end(at, has_frame && (doing.unflushed == 1 || !has_cache));
        }
        if is_flushed {
            doing.unflushed = 0;
        }
    }
}
