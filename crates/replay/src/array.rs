//! A volume over simulated drives, its requests planned as the volume plans them and its drives stepped
//! directly: no task, no timer and no buffer comes between.

use std::collections::{BTreeMap, VecDeque};

use moirai_models::{Direction, Disk, DiskCompletion, DiskRequest};
use moirai_storage::Op;
use moirai_units::{BlockCount, BlockRange, Instant, Nanos, ServiceParts};
use moirai_volume::plan::{Access, AllPresent, Extent, Plan};
use moirai_volume::{DiskIndex, Layout, Role, StripeIndex};

use crate::target::{Done, Target, Ticket, next_event, settle};

/// A volume whose drives are all there.
#[derive(Debug)]
pub struct Array {
    name: String,
    layout: Layout,
    drives: Vec<Disk>,
    requests: Slab<Request>,
    works: Slab<Work>,
    /// Stripes that are written, each with what waits to write it.
    written: BTreeMap<StripeIndex, VecDeque<usize>>,
    plan: Plan,
    pieces: Vec<Piece>,
    extents: Vec<Extent>,
    completions: Vec<DiskCompletion>,
}

/// A request of the volume under way.
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

/// The reads of a request, or its write of one stripe.
#[derive(Debug, Default)]
struct Work {
    request: usize,
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

/// Things named by numbers, which are used again.
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
        assert_eq!(layout.disks(), drives.len(), "a layout is for so many drives");
        Array {
            name,
            layout,
            drives,
            requests: Slab::default(),
            works: Slab::default(),
            written: BTreeMap::new(),
            plan: Plan::default(),
            pieces: Vec::new(),
            extents: Vec::new(),
            completions: Vec::new(),
        }
    }

    /// Begins what takes one access to a disk for each run of blocks there.
    fn begin_plain(&mut self, at: Instant, request: usize, op: Op) {
        let work = self.works.take();
        let mut emptied = self.emptied(work);
        let (direction, accesses) = match op {
            Op::Read => (Direction::Read, &mut emptied.reads),
            Op::Write => (Direction::Write, &mut emptied.writes),
        };
        accesses.extend(self.pieces.iter().map(|piece| {
            let Piece { stripe, extent } = *piece;
            let copy = self.layout.preferred_copy(stripe);
            let role = Role::Data { position: extent.position, copy };
            let disk = self.layout.disk(stripe, role);
            let first = self.layout.unit_on(disk, stripe) + extent.offset;
            let blocks = BlockRange::new(first, extent.count);
            Access { disk, role, blocks, offset: extent.offset }
        }));
        if accesses.len() > 1 {
            accesses.sort_by_key(|access| (access.disk, access.blocks.first));
            accesses.dedup_by(|next, last| self.joins(last, next));
        }
        self.requests.get(request).works += 1;
        *self.works.get(work) = Work { request, stripe: None, ..emptied };
        self.submit_accesses(at, work, direction);
    }

    /// A finished work's place, with the room that its lists have.
    fn emptied(&mut self, work: usize) -> Work {
        let mut work = std::mem::take(self.works.get(work));
        work.reads.clear();
        work.writes.clear();
        work
    }

    /// Makes `next` part of `last` when it follows that within a track.
    fn joins(&self, last: &mut Access, next: &Access) -> bool {
        let track = |lbn| {
            let drive = self.drives.get(last.disk.0)?;
            Some(drive.profile().geometry.track(lbn)?.blocks)
        };
        let follows = last.disk == next.disk
            && last.blocks.end() == next.blocks.first
            && track(last.blocks.first).is_some_and(|track| track.contains(next.blocks.first));
        if follows {
            last.blocks.count += next.blocks.count;
        }
        follows
    }

    fn begin_writes(&mut self, at: Instant, request: usize) {
        let mut pieces = std::mem::take(&mut self.pieces);
        for of_stripe in pieces.chunk_by(|one, other| one.stripe == other.stripe) {
            let Some(Piece { stripe, .. }) = of_stripe.first().copied() else { continue };
            self.extents.clear();
            self.extents.extend(of_stripe.iter().map(|piece| piece.extent));
            let planned = self.plan.write(&self.layout, &AllPresent, stripe, &mut self.extents);
            if planned.is_err() {
                continue;
            }
            let work = self.works.take();
            let mut emptied = self.emptied(work);
            emptied.reads.extend_from_slice(&self.plan.reads);
            emptied.writes.extend_from_slice(&self.plan.writes);
            self.requests.get(request).works += 1;
            *self.works.get(work) = Work { request, stripe: Some(stripe), ..emptied };
            match self.written.get_mut(&stripe) {
                Some(waiting) => waiting.push_back(work),
                None => {
                    self.written.insert(stripe, VecDeque::new());
                    self.begin_stripe(at, work);
                }
            }
        }
        pieces.clear();
        self.pieces = pieces;
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
        for Access { disk: DiskIndex(disk), blocks, .. } in &accesses {
            if let Some(drive) = self.drives.get_mut(*disk) {
                drive.submit(at, DiskRequest { id: index as u64, direction, blocks: *blocks });
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

    /// Goes on with the work that an access was for.
    fn finish_access(&mut self, access: &DiskCompletion, done: &mut Vec<Done>) {
        let at = access.finished;
        let index = access.id as usize;
        let work = self.works.get(index);
        let request_index = work.request;
        work.accesses -= 1;
        let goes_on = work.accesses > 0;
        let writes = !work.writes.is_empty();
        let stripe = work.stripe;
        let request = self.requests.get(request_index);
        let started = request.started.map_or(access.started, |first| first.min(access.started));
        request.started = Some(started);
        request.finished = at;
        request.parts += access.parts;
        if goes_on {
            return;
        }
        if writes {
            return self.submit_accesses(at, index, Direction::Write);
        }
        self.works.free.push(index);
        let request = self.requests.get(request_index);
        request.works -= 1;
        if request.works == 0 {
            let Request { ticket, issued, finished, parts, .. } = std::mem::take(request);
            done.push(Done { ticket, issued, started, finished, parts: Some(parts) });
            self.requests.free.push(request_index);
        }
        if let Some(stripe) = stripe {
            match self.written.get_mut(&stripe).and_then(VecDeque::pop_front) {
                Some(next) => self.begin_stripe(at, next),
                None => {
                    self.written.remove(&stripe);
                }
            }
        }
    }
}

impl Target for Array {
    fn devices(&self) -> Vec<(String, BlockCount)> {
        vec![(self.name.clone(), self.layout.capacity())]
    }

    fn submit(&mut self, at: Instant, _: usize, op: Op, blocks: BlockRange, ticket: Ticket) {
        let mut first = blocks.first;
        self.pieces.clear();
        while first < blocks.end() {
            let place = self.layout.place(first);
            let count = place.run.min(blocks.end().since(first));
            let extent = Extent { position: place.position, offset: place.offset, count };
            self.pieces.push(Piece { stripe: place.stripe, extent });
            first += count;
        }
        let request = self.requests.take();
        *self.requests.get(request) = Request { ticket, issued: at, ..Request::default() };
        let is_redundant = self.layout.level().failures(self.layout.disks()) > 0;
        match op {
            Op::Write if is_redundant => self.begin_writes(at, request),
            _ => self.begin_plain(at, request, op),
        }
    }

    async fn run(
        &mut self,
        until: Option<Instant>,
        done: &mut Vec<Done>,
    ) -> Result<(), moirai_storage::Error> {
        let before = done.len();
        while let Some(at) =
            next_event(&self.drives).filter(|at| until.is_none_or(|end| *at <= end))
        {
            let mut completions = std::mem::take(&mut self.completions);
            for drive in &mut self.drives {
                drive.advance(at, &mut completions);
            }
            for completion in completions.drain(..) {
                self.finish_access(&completion, done);
            }
            self.completions = completions;
            if until.is_none() && done.len() > before {
                break;
            }
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
