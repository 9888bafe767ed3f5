//! Volumes over simulated drives, their requests planned as a volume plans them and the drives stepped
//! directly: no task, no timer and no buffer comes between.

mod rebuild;

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet, BinaryHeap, VecDeque};

use moirai_models::{Direction, Disk, DiskCompletion, DiskRequest};
use moirai_storage::Op;
use moirai_units::{BlockCount, BlockRange, Instant, Nanos, ServiceParts};
use moirai_volume::plan::{Access, Extent, Plan, Present};
use moirai_volume::{DiskIndex, Layout, Role, StripeIndex};

use rebuild::Rebuild;
pub use rebuild::Rebuilt;

use crate::target::{Done, Target, Ticket, settle};

/// Simulated drives and the volumes on them, which may share drives.
///
/// Volumes are numbered in the order in which they are added. A drive may fail: reads then
/// reconstruct what it held, and writes keep parity right without it. Another one may be filled in its place.
#[derive(Debug)]
pub struct Array {
    volumes: Vec<Hosted>,
    drives: Vec<Disk>,
    failed: BTreeSet<usize>,
    rebuild: Option<Rebuild>,
    events: Events,
    requests: Slab<Request>,
    works: Slab<Work>,
    /// Stripes that are written, by volume, each with the works that wait to write it.
    written: BTreeMap<(usize, StripeIndex), VecDeque<usize>>,
    plan: Plan,
    /// Requests that no drive can serve, as more drives failed than their volume's level bears.
    lost: Vec<usize>,
    pieces: Vec<Piece>,
    extents: Vec<Extent>,
    completions: Vec<DiskCompletion>,
}

/// The section of a drive that a volume has as one of its disks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DriveSection {
    /// The drive, counted from 0.
    pub drive: usize,
    /// The blocks of the drive before the section.
    pub first: BlockCount,
}

/// A volume on some of the drives.
#[derive(Debug)]
struct Hosted {
    name: String,
    layout: Layout,
    disks: Vec<DriveSection>,
}

/// Which disks of a volume work, and up to which stripe one that is filled does.
struct Working<'a> {
    number: usize,
    volume: &'a Hosted,
    failed: &'a BTreeSet<usize>,
    rebuild: Option<&'a Rebuild>,
}

impl<'a> Working<'a> {
    fn new(
        number: usize,
        volume: &'a Hosted,
        failed: &'a BTreeSet<usize>,
        rebuild: Option<&'a Rebuild>,
    ) -> Working<'a> {
        Working { number, volume, failed, rebuild }
    }
}

impl Present for Working<'_> {
    fn is_present(&self, disk: DiskIndex, stripe: StripeIndex) -> bool {
        let Some(DriveSection { drive, .. }) = self.volume.disks.get(disk.0) else { return false };
        let is_filled = |rebuild: &Rebuild| rebuild.has_filled(*drive, self.number, stripe);
        !self.failed.contains(drive) || self.rebuild.is_some_and(is_filled)
    }
}

/// When something happens next on each drive.
#[derive(Debug, Default)]
struct Events {
    /// By drive; entries of `heap` that differ are out of date.
    next: Vec<Option<Instant>>,
    heap: BinaryHeap<Reverse<(Instant, usize)>>,
}

impl Events {
    fn set(&mut self, drive: usize, at: Option<Instant>) {
        let Some(known) = self.next.get_mut(drive) else { return };
        if *known != at {
            *known = at;
            self.heap.extend(at.map(|at| Reverse((at, drive))));
        }
    }

    /// The earliest time at which a drive has something to do.
    fn first(&mut self) -> Option<Instant> {
        while let Some(Reverse((at, drive))) = self.heap.peek().copied() {
            if self.next.get(drive).copied().flatten() == Some(at) {
                return Some(at);
            }
            self.heap.pop();
        }
        None
    }

    /// A drive that has something to do at `at`; its event is taken out.
    fn take_at(&mut self, at: Instant) -> Option<usize> {
        if self.first() != Some(at) {
            return None;
        }
        let Reverse((_, drive)) = self.heap.pop()?;
        if let Some(next) = self.next.get_mut(drive) {
            *next = None;
        }
        Some(drive)
    }
}

/// A request of a volume in flight.
#[derive(Clone, Copy, Debug, Default)]
struct Request {
    ticket: Ticket,
    issued: Instant,
    started: Option<Instant>,
    finished: Instant,
    parts: ServiceParts,
    /// Works that are not done.
    works: u32,
}

/// The reads of a request, its write of one stripe, or the filling of one.
#[derive(Debug, Default)]
struct Work {
    /// None where a drive is filled.
    request: Option<usize>,
    volume: usize,
    /// Accesses that drives have not finished.
    accesses: u32,
    /// What is read first, and what is written then.
    reads: Vec<Access>,
    writes: Vec<Access>,
    stripe: Option<StripeIndex>,
}

/// A part of a request that is consecutive in a unit.
#[derive(Clone, Copy, Debug)]
struct Piece {
    stripe: StripeIndex,
    extent: Extent,
}

/// Values with numbers, which are used again.
#[derive(Debug)]
struct Slab<T> {
    things: Vec<T>,
    free: Vec<usize>,
}

impl<T> Default for Slab<T> {
    fn default() -> Self {
        Slab { things: Vec::new(), free: Vec::new() }
    }
}

impl<T: Default> Slab<T> {
    fn take(&mut self) -> usize {
        self.free.pop().unwrap_or_else(|| {
            self.things.push(T::default());
            self.things.len() - 1
        })
    }

    fn get(&mut self, index: usize) -> &mut T {
        match self.things.get_mut(index) {
            Some(thing) => thing,
            None => panic!("a drive finished access {index}, which nobody began"),
        }
    }
}

impl Array {
    /// A volume called `name` with `layout` over `drives`.
    ///
    /// # Panics
    /// When these are not as many as the layout has disks.
    #[must_use]
    pub fn new(name: String, layout: Layout, drives: Vec<Disk>) -> Array {
        let section = |drive| DriveSection { drive, first: BlockCount::ZERO };
        let disks = (0..drives.len()).map(section).collect();
        let mut array = Array::of_drives(drives);
        array.add(name, layout, disks);
        array
    }

    /// Drives without a volume.
    #[must_use]
    pub fn of_drives(drives: Vec<Disk>) -> Array {
        Array {
            volumes: Vec::new(),
            failed: BTreeSet::new(),
            rebuild: None,
            events: Events { next: vec![None; drives.len()], heap: BinaryHeap::new() },
            drives,
            requests: Slab::default(),
            works: Slab::default(),
            written: BTreeMap::new(),
            plan: Plan::default(),
            lost: Vec::new(),
            pieces: Vec::new(),
            extents: Vec::new(),
            completions: Vec::new(),
        }
    }

    /// Adds a volume whose disks are `disks`; returns its number.
    ///
    /// # Panics
    /// When these are not as many as the layout has disks, or one is on no drive.
    pub fn add(&mut self, name: String, layout: Layout, disks: Vec<DriveSection>) -> usize {
        assert_eq!(layout.disks(), disks.len(), "a layout is for so many disks");
        assert!(
            disks.iter().all(|disk| disk.drive < self.drives.len()),
            "the array has the drives"
        );
        self.volumes.push(Hosted { name, layout, disks });
        self.volumes.len() - 1
    }

    /// Lets a drive fail, at a time when no request is in flight.
    pub fn fail(&mut self, drive: usize) {
        self.failed.insert(drive);
    }

    /// The drives, in their order.
    #[must_use]
    pub fn drives(&self) -> &[Disk] {
        &self.drives
    }

    /// Lets time pass until a request is done, at most until and with `until`; adds what is done. A
    /// request that no drive can serve is done when it was issued.
    pub fn advance(&mut self, until: Option<Instant>, done: &mut Vec<Done>) {
        let before = done.len();
        while let Some(index) = self.lost.pop() {
            self.finish_request(index, done);
        }
        if done.len() > before {
            return;
        }
        while let Some(at) = self.events.first().filter(|at| until.is_none_or(|end| *at <= end)) {
            let mut completions = std::mem::take(&mut self.completions);
            while let Some(drive) = self.events.take_at(at) {
                if let Some(disk) = self.drives.get_mut(drive) {
                    disk.advance(at, &mut completions);
                    self.events.set(drive, disk.next_event());
                }
            }
            for completion in completions.drain(..) {
                self.finish_access(&completion, done);
            }
            self.completions = completions;
            if done.len() > before {
                break;
            }
        }
    }

    /// Begins what takes one access to a disk for each run of blocks there.
    fn begin_plain(&mut self, at: Instant, request: usize, volume: usize, op: Op) {
        let Some(hosted) = self.volumes.get(volume) else { return };
        let index = self.works.take();
        let mut work = emptied(self.works.get(index));
        let (direction, accesses) = match op {
            Op::Read => (Direction::Read, &mut work.reads),
            Op::Write => (Direction::Write, &mut work.writes),
        };
        let working = Working::new(volume, hosted, &self.failed, self.rebuild.as_ref());
        for Piece { stripe, extent } in self.pieces.iter().copied() {
            let copy = hosted.layout.preferred_copy(stripe);
            let role = Role::Data { position: extent.position, copy };
            let disk = hosted.layout.disk(stripe, role);
            if !self.failed.is_empty() && !working.is_present(disk, stripe) {
                if self.plan.restore(&hosted.layout, &working, stripe, extent).is_ok() {
                    accesses.extend_from_slice(&self.plan.reads);
                }
                continue;
            }
            let first = hosted.layout.unit_on(disk, stripe) + extent.offset;
            let blocks = BlockRange::new(first, extent.count);
            accesses.push(Access { disk, role, blocks, offset: extent.offset });
        }
        if accesses.len() > 1 {
            accesses.sort_by_key(|access| (access.disk, access.blocks.first));
            accesses.dedup_by(|next, last| joins(hosted, &self.drives, last, next));
        }
        if accesses.is_empty() {
            *self.works.get(index) = work;
            self.works.free.push(index);
            return self.lost.push(request);
        }
        self.requests.get(request).works += 1;
        *self.works.get(index) = Work { request: Some(request), volume, stripe: None, ..work };
        self.submit_accesses(at, index, direction);
    }

    fn begin_writes(&mut self, at: Instant, request: usize, volume: usize) {
        let mut pieces = std::mem::take(&mut self.pieces);
        for of_stripe in pieces.chunk_by(|one, other| one.stripe == other.stripe) {
            let Some(Piece { stripe, .. }) = of_stripe.first().copied() else { continue };
            self.extents.clear();
            self.extents.extend(of_stripe.iter().map(|piece| piece.extent));
            let Some(hosted) = self.volumes.get(volume) else { continue };
            let working = Working::new(volume, hosted, &self.failed, self.rebuild.as_ref());
            let planned = self.plan.write(&hosted.layout, &working, stripe, &mut self.extents);
            if planned.is_err() {
                continue;
            }
            let index = self.works.take();
            let mut work = emptied(self.works.get(index));
            work.reads.extend_from_slice(&self.plan.reads);
            work.writes.extend_from_slice(&self.plan.writes);
            self.requests.get(request).works += 1;
            let request = Some(request);
            *self.works.get(index) = Work { request, volume, stripe: Some(stripe), ..work };
            self.write_stripe(at, index, (volume, stripe));
        }
        if self.requests.get(request).works == 0 {
            self.lost.push(request);
        }
        pieces.clear();
        self.pieces = pieces;
    }

    /// Begins a work on a stripe, or lets it wait for those before it.
    fn write_stripe(&mut self, at: Instant, work: usize, stripe: (usize, StripeIndex)) {
        match self.written.get_mut(&stripe) {
            Some(waiting) => waiting.push_back(work),
            None => {
                self.written.insert(stripe, VecDeque::new());
                self.begin_stripe(at, work);
            }
        }
    }

    fn begin_stripe(&mut self, at: Instant, work: usize) {
        match self.works.get(work).reads.is_empty() {
            true => self.submit_accesses(at, work, Direction::Write),
            false => self.submit_accesses(at, work, Direction::Read),
        }
    }

    /// Hands the reads or the writes of a work to the drives.
    fn submit_accesses(&mut self, at: Instant, index: usize, direction: Direction) {
        let work = self.works.get(index);
        let list = match direction {
            Direction::Read => &mut work.reads,
            Direction::Write => &mut work.writes,
        };
        let mut accesses = std::mem::take(list);
        work.accesses = accesses.len() as u32;
        let sections = self.volumes.get(work.volume).map(|volume| volume.disks.as_slice());
        for Access { disk: DiskIndex(disk), blocks, .. } in &accesses {
            let Some(section) = sections.and_then(|sections| sections.get(*disk)) else { continue };
            if let Some(drive) = self.drives.get_mut(section.drive) {
                let blocks = BlockRange::new(blocks.first + section.first, blocks.count);
                drive.submit(at, DiskRequest { id: index as u64, direction, blocks });
                self.events.set(section.drive, drive.next_event());
            }
        }
        // Empty again, and the list's room with it.
        accesses.clear();
        let work = self.works.get(index);
        match direction {
            Direction::Read => work.reads = accesses,
            Direction::Write => work.writes = accesses,
        }
    }

    /// Continues the work that an access was for.
    fn finish_access(&mut self, access: &DiskCompletion, done: &mut Vec<Done>) {
        let at = access.finished;
        let index = access.id as usize;
        let work = self.works.get(index);
        let (request_index, volume, stripe) = (work.request, work.volume, work.stripe);
        work.accesses -= 1;
        let goes_on = work.accesses > 0;
        let writes = !work.writes.is_empty();
        if let Some(index) = request_index {
            let request = self.requests.get(index);
            let started = request.started.map_or(access.started, |first| first.min(access.started));
            request.started = Some(started);
            request.finished = at;
            request.parts += access.parts;
        }
        if goes_on {
            return;
        }
        if writes {
            return self.submit_accesses(at, index, Direction::Write);
        }
        self.works.free.push(index);
        if let Some(index) = request_index {
            self.requests.get(index).works -= 1;
            self.finish_request(index, done);
        }
        if let Some(stripe) = stripe {
            match self.written.get_mut(&(volume, stripe)).and_then(VecDeque::pop_front) {
                Some(next) => self.begin_stripe(at, next),
                None => {
                    self.written.remove(&(volume, stripe));
                }
            }
        }
        if request_index.is_none() {
            self.stripe_filled(at);
        }
    }

    /// Reports a request whose works are all done.
    fn finish_request(&mut self, index: usize, done: &mut Vec<Done>) {
        let request = self.requests.get(index);
        if request.works == 0 {
            let Request { ticket, issued, started, finished, parts, .. } = std::mem::take(request);
            let started = started.unwrap_or(issued);
            done.push(Done { ticket, issued, started, finished, parts: Some(parts) });
            self.requests.free.push(index);
        }
    }
}

/// A finished work's place, with the room of its lists.
fn emptied(work: &mut Work) -> Work {
    let mut work = std::mem::take(work);
    work.reads.clear();
    work.writes.clear();
    work
}

/// Makes `next` part of `last` when it follows that within a track.
fn joins(volume: &Hosted, drives: &[Disk], last: &mut Access, next: &Access) -> bool {
    let track = |lbn| {
        let section = volume.disks.get(last.disk.0)?;
        let drive = drives.get(section.drive)?;
        Some(drive.profile().geometry.track(lbn + section.first)?.blocks)
    };
    let follows = last.disk == next.disk
        && last.blocks.end() == next.blocks.first
        && track(last.blocks.first).is_some_and(|track| {
            let section = volume.disks.get(last.disk.0).map(|section| section.first);
            track.contains(next.blocks.first + section.unwrap_or_default())
        });
    if follows {
        last.blocks.count += next.blocks.count;
    }
    follows
}

impl Target for Array {
    fn devices(&self) -> Vec<(String, BlockCount)> {
        let device = |volume: &Hosted| (volume.name.clone(), volume.layout.capacity());
        self.volumes.iter().map(device).collect()
    }

    fn submit(&mut self, at: Instant, volume: usize, op: Op, blocks: BlockRange, ticket: Ticket) {
        let Some(Hosted { layout, .. }) = self.volumes.get(volume) else { return };
        let mut first = blocks.first;
        self.pieces.clear();
        while first < blocks.end() {
            let place = layout.place(first);
            let count = place.run.min(blocks.end().since(first));
            let extent = Extent { position: place.position, offset: place.offset, count };
            self.pieces.push(Piece { stripe: place.stripe, extent });
            first += count;
        }
        let is_redundant = layout.level().failures(layout.disks()) > 0;
        let request = self.requests.take();
        *self.requests.get(request) =
            Request { ticket, issued: at, finished: at, ..Request::default() };
        match op {
            Op::Write if is_redundant => self.begin_writes(at, request, volume),
            _ => self.begin_plain(at, request, volume, op),
        }
    }

    async fn run(
        &mut self,
        until: Option<Instant>,
        done: &mut Vec<Done>,
    ) -> Result<(), moirai_storage::Error> {
        self.advance(until, done);
        // With a time to wait for, requests that are done do not end the waiting.
        while until.is_some_and(|end| self.events.first().is_some_and(|at| at <= end)) {
            self.advance(until, done);
        }
        Ok(())
    }

    fn settle(&mut self, now: Instant) -> Option<Instant> {
        settle(self.drives.iter_mut(), now)
    }

    fn mechanisms(&self) -> usize {
        self.drives.len()
    }

    fn busy(&self) -> Option<Nanos> {
        Some(self.drives.iter().map(Disk::media_busy).sum())
    }
}
