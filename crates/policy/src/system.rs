//! A system of arrays under a workload, in virtual time: objects over arrays, each with the cache of
//! its controller, and the drives below. The drives are stepped directly; no task and no timer.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};

use hdrhistogram::Histogram;
use moirai_models::{ArrayCache, Disk, Profile, Scheduler, WritePolicy};
use moirai_replay::{Array, Done, DriveSection, Rebuilt, Target};
use moirai_storage::Op;
use moirai_units::{BlockCount, BlockRange, ByteCount, Instant, Lbn, Nanos};
use moirai_volume::{Layout, Level};
use slab::Slab;

use crate::generate::{Source, TracedRequest};
use crate::run::Run;
use crate::spread::Spread;

/// Arrays and the objects on them.
#[derive(Clone, Debug)]
pub struct SystemDescription {
    /// The drives of each array.
    pub arrays: Vec<Vec<Profile>>,
    /// How drives order their queues.
    pub scheduler: Scheduler,
    /// The cache of each array's controller, if it has one.
    pub cache: Option<(ByteCount, WritePolicy)>,
    /// The objects, in the order of their numbers.
    pub objects: Vec<ObjectOnArrays>,
    /// Drives that have failed: the array, and the drive in it.
    pub failed: Vec<(usize, usize)>,
    /// A new drive is in the place of the first of them, and is filled.
    pub rebuilds: bool,
}

/// Where an object lies.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ObjectOnArrays {
    /// Its name.
    pub name: String,
    /// Its size.
    pub size: BlockCount,
    /// The arrays that it is spread over, in the order of its stripe units.
    pub arrays: Vec<usize>,
    /// Its RAID level on each.
    pub level: Level,
    /// Its stripe unit.
    pub unit: BlockCount,
}

/// A running system.
#[derive(Debug)]
pub struct System {
    drives: Array,
    /// The drives of each array, by number, the first and the count.
    arrays: Vec<(usize, usize)>,
    controllers: Vec<Option<Controller>>,
    objects: Vec<Hosted>,
    accesses: Slab<Access>,
    requests: Slab<Request>,
    /// Requests that caches served, by the time at which they are done.
    served: BinaryHeap<Reverse<(Instant, usize)>>,
    done: Vec<Done>,
    figures: Vec<Response>,
    issued: u64,
    run: Run,
    last_finished: Instant,
}

/// The response times of an object.
#[derive(Clone, Debug)]
pub struct Response {
    /// In nanoseconds, to two digits.
    pub times: Histogram<u64>,
    /// Their sum.
    pub sum_ns: u128,
    /// Those of reads.
    pub read_sum_ns: u128,
    /// How many of them are reads.
    pub reads: u64,
    /// Requests that were done when the time of a run was over.
    pub late: u64,
}

#[derive(Debug)]
struct Hosted {
    spread: Spread,
    /// For each array of the object: its number, and that of its volume there.
    volumes: Vec<(usize, usize)>,
}

/// The cache before an array (placement paper 3).
#[derive(Debug)]
struct Controller {
    cache: ArrayCache,
    policy: WritePolicy,
    /// Longer requests bypass the cache.
    most: BlockCount,
    /// Runs of dirty blocks that are chosen and wait for their turn.
    chosen: VecDeque<BlockRange>,
    /// Runs on their way to the drives, at most `leaving_max`: reads do not wait behind a whole batch.
    leaving: usize,
    leaving_max: usize,
    /// Writes that wait for room.
    waiting: VecDeque<(usize, usize, BlockRange)>,
}

/// A request of the workload in flight.
#[derive(Clone, Copy, Debug, Default)]
struct Request {
    object: u32,
    is_read: bool,
    is_counted: bool,
    issued: Instant,
    finished: Instant,
    /// Parts that are not done.
    parts: u32,
}

/// An access to a volume in flight.
#[derive(Clone, Copy, Debug)]
struct Access {
    array: usize,
    volume: usize,
    blocks: BlockRange,
    kind: Kind,
}

#[derive(Clone, Copy, Debug)]
enum Kind {
    /// Part of a request; what is read goes into the cache if `fills`.
    Part { request: usize, fills: bool },
    /// Dirty blocks on their way to the drives.
    Destage,
}

/// What a controller takes for a request that its cache serves.
const CACHE_HIT: Nanos = Nanos(100_000);
/// Lines chosen for destaging at once, 2 MiB: writes of 1 MiB go to the drives whole, so that their stripes are
/// written once.
const DESTAGE_LINES: usize = 512;
/// Blocks of a cache's address space that each volume has.
const VOLUME_BLOCKS: u64 = 1 << 40;
/// Response times are kept to two digits and up to an hour; longer ones count as that.
const LONGEST_NS: u64 = 3_600_000_000_000;

impl Default for Response {
    #[expect(clippy::expect_used, reason = "bounds and digits that a histogram can have")]
    fn default() -> Response {
        let times = Histogram::new_with_max(LONGEST_NS, 2).expect("a histogram of two digits");
        Response { times, sum_ns: 0, read_sum_ns: 0, reads: 0, late: 0 }
    }
}

impl Response {
    /// Requests that are counted.
    #[must_use]
    pub fn requests(&self) -> u64 {
        self.times.len()
    }

    /// The mean response time; 0 without requests.
    #[must_use]
    pub fn mean_ms(&self) -> f64 {
        self.sum_ns as f64 / 1e6 / self.requests().max(1) as f64
    }

    /// The mean response time of reads; 0 without any.
    #[must_use]
    pub fn mean_read_ms(&self) -> f64 {
        self.read_sum_ns as f64 / 1e6 / self.reads.max(1) as f64
    }

    /// The response time that `percent` of the requests do not exceed.
    #[must_use]
    pub fn percentile_ms(&self, percent: f64) -> f64 {
        self.times.value_at_percentile(percent) as f64 / 1e6
    }

    /// Adds the response times of another run.
    pub fn add(&mut self, other: &Response) {
        // Both have the same bounds.
        let _ = self.times.add(&other.times);
        self.sum_ns += other.sum_ns;
        self.read_sum_ns += other.read_sum_ns;
        self.reads += other.reads;
        self.late += other.late;
    }

    fn count(&mut self, response: Nanos, is_read: bool) {
        self.times.saturating_record(response.0);
        self.sum_ns += u128::from(response.0);
        if is_read {
            self.read_sum_ns += u128::from(response.0);
            self.reads += 1;
        }
    }
}

impl System {
    /// A system at rest.
    ///
    /// # Errors
    /// When a level is not possible on an array, or the objects on an array do not fit on its drives.
    pub fn new(description: &SystemDescription) -> Result<System, String> {
        let SystemDescription { arrays, scheduler, cache, objects, failed, rebuilds } = description;
        if let Some(problem) = description.misfit() {
            return Err(problem);
        }
        let all = arrays.iter().flatten();
        let disks = all.map(|profile| Disk::new(profile.clone(), *scheduler)).collect();
        let mut drives = Array::of_drives(disks);
        let mut first = 0;
        let mut ranges = Vec::with_capacity(arrays.len());
        for array in arrays {
            ranges.push((first, array.len()));
            first += array.len();
        }
        for (array, drive) in failed {
            if let Some((first, _)) = ranges.get(*array) {
                drives.fail(first + drive);
            }
        }
        let mut used = vec![BlockCount::ZERO; arrays.len()];
        let mut hosted = Vec::with_capacity(objects.len());
        for object in objects {
            let spread = Spread { arrays: object.arrays.len(), unit: object.unit };
            let mut volumes = Vec::with_capacity(object.arrays.len());
            for array in object.arrays.iter().copied() {
                let (Some(used), Some((first, count))) = (used.get_mut(array), ranges.get(array))
                else {
                    return Err(format!("object `{}`: there is no array {array}", object.name));
                };
                let depth = object.blocks_a_disk(*count);
                let layout = Layout::striped(object.level, *count, object.unit, depth)
                    .map_err(|problem| format!("object `{}`: {problem}", object.name))?;
                let sections = (*first..first + count)
                    .map(|drive| DriveSection { drive, first: *used })
                    .collect();
                *used += depth;
                volumes.push((array, drives.add(object.name.clone(), layout, sections)));
            }
            hosted.push(Hosted { spread, volumes });
        }
        if let Some((array, drive)) = failed.first().filter(|_| *rebuilds)
            && let Some((first, _)) = ranges.get(*array)
        {
            drives.rebuild(Instant::ZERO, first + drive);
        }
        let controller = |disks: &Vec<Profile>| {
            let (size, policy) = (*cache)?;
            let most = BlockCount(BlockCount::holding(size).0 / 8);
            let cache = ArrayCache::new(size, policy);
            let (chosen, waiting) = (VecDeque::new(), VecDeque::new());
            let leaving_max = disks.len().max(1);
            Some(Controller { cache, policy, most, chosen, leaving: 0, leaving_max, waiting })
        };
        Ok(System {
            drives,
            controllers: arrays.iter().map(controller).collect(),
            arrays: ranges,
            figures: vec![Response::default(); hosted.len()],
            objects: hosted,
            accesses: Slab::new(),
            requests: Slab::new(),
            served: BinaryHeap::new(),
            done: Vec::new(),
            issued: 0,
            run: Run::Requests { count: 0, warm_up: 0 },
            last_finished: Instant::ZERO,
        })
    }

    /// How far a drive is filled, where one is.
    #[must_use]
    pub fn rebuilt(&self) -> Option<Rebuilt> {
        self.drives.rebuilt()
    }

    /// How many requests were issued.
    #[must_use]
    pub fn issued(&self) -> u64 {
        self.issued
    }

    /// Whether a request at `at` is still issued: a drive that is filled ends a run when it is.
    fn is_open(&self, at: Instant) -> bool {
        let is_filled = self
            .drives
            .rebuilt()
            .is_some_and(|rebuilt| rebuilt.of > BlockCount::ZERO && rebuilt.blocks >= rebuilt.of);
        let is_within = match self.run {
            Run::Requests { count, .. } => self.issued < count,
            Run::Time { until, .. } => at < until,
        };
        is_within && !is_filled
    }

    /// Issues requests of `source` and waits until all are done.
    pub fn run(&mut self, source: &mut impl Source, run: Run) {
        self.run = run;
        for request in source.first_closed() {
            self.issue(request);
        }
        loop {
            let arrival = source.next_at().filter(|at| self.is_open(*at));
            let served = self.served.peek().map(|Reverse((at, _))| *at);
            let until = [arrival, served].into_iter().flatten().min();
            // A drive may still be filled.
            if until.is_none() && self.accesses.is_empty() {
                break;
            }
            let mut done = std::mem::take(&mut self.done);
            self.drives.advance(until, &mut done);
            if !done.is_empty() {
                for done in done.drain(..) {
                    let next = self.finish_access(&done, source);
                    if let Some(request) = next.filter(|next| self.is_open(next.at)) {
                        self.issue(request);
                    }
                }
                self.done = done;
                continue;
            }
            self.done = done;
            match (arrival, served) {
                (_, Some(at)) if arrival.is_none_or(|arrival| at <= arrival) => {
                    let Some(Reverse((_, index))) = self.served.pop() else { continue };
                    let next = self.finish_part(index, at, source);
                    if let Some(request) = next.filter(|next| self.is_open(next.at)) {
                        self.issue(request);
                    }
                }
                (Some(_), _) => {
                    if let Some(request) = source.take() {
                        self.issue(request);
                    }
                }
                (None, _) => break,
            }
        }
        if let Run::Time { until, .. } = run {
            // Nothing may have come for a while before its end.
            self.last_finished = self.last_finished.max(until);
        }
    }

    /// The response times of each object.
    #[must_use]
    pub fn responses(&self) -> &[Response] {
        &self.figures
    }

    /// The share of the time that each drive worked, by array.
    #[must_use]
    pub fn utilisations(&self) -> Vec<Vec<f64>> {
        let span = self.last_finished.ns.max(1) as f64;
        let share = |disk: &Disk| (disk.media_busy().0 as f64 / span).min(1.0);
        let of_array = |(first, count): &(usize, usize)| {
            let drives = self.drives.drives().get(*first..first + count).unwrap_or_default();
            drives.iter().map(share).collect()
        };
        self.arrays.iter().map(of_array).collect()
    }

    /// When the last request was done, and the time of the run was over.
    #[must_use]
    pub fn last_finished(&self) -> Instant {
        self.last_finished
    }

    fn issue(&mut self, request: TracedRequest) {
        let TracedRequest { at, object, op, blocks } = request;
        self.issued += 1;
        let is_counted = match self.run {
            Run::Requests { warm_up, .. } => self.issued > warm_up,
            Run::Time { warm_up, .. } => at >= warm_up,
        };
        let Some(hosted) = self.objects.get(object as usize) else { return };
        let index = self.requests.insert(Request {
            object,
            is_read: op == Op::Read,
            is_counted,
            issued: at,
            finished: at,
            parts: 0,
        });
        let spread = hosted.spread;
        for (place, part) in spread.parts(blocks) {
            let volumes = self.objects.get(object as usize).map(|hosted| hosted.volumes.as_slice());
            let Some((array, volume)) = volumes.and_then(|volumes| volumes.get(place)).copied()
            else {
                continue;
            };
            if let Some(request) = self.requests.get_mut(index) {
                request.parts += 1;
            }
            match op {
                Op::Read => self.read(at, index, (array, volume), part),
                Op::Write => self.write(at, index, (array, volume), part),
            }
        }
    }

    fn read(&mut self, at: Instant, request: usize, place: (usize, usize), blocks: BlockRange) {
        let (array, volume) = place;
        let mut fills = false;
        if let Some(controller) = self.controllers.get_mut(array).and_then(Option::as_mut) {
            if controller.cache.hit(cached(volume, blocks)) {
                return self.served.push(Reverse((at + CACHE_HIT, request)));
            }
            fills = blocks.count <= controller.most;
        }
        self.submit(at, Op::Read, (array, volume), blocks, Kind::Part { request, fills });
    }

    fn write(&mut self, at: Instant, request: usize, place: (usize, usize), blocks: BlockRange) {
        let (array, volume) = place;
        let kind = Kind::Part { request, fills: false };
        let controller = self.controllers.get_mut(array).and_then(Option::as_mut);
        let Some(controller) = controller else {
            return self.submit(at, Op::Write, place, blocks, kind);
        };
        let in_cache = cached(volume, blocks);
        if controller.policy == WritePolicy::Through || blocks.count > controller.most {
            // A longer write that goes past the cache leaves nothing old there.
            controller.cache.remove(in_cache);
            let fills = blocks.count <= controller.most;
            return self.submit(at, Op::Write, place, blocks, Kind::Part { request, fills });
        }
        match controller.waiting.is_empty() && controller.cache.insert_dirty(in_cache).is_ok() {
            true => self.served.push(Reverse((at + CACHE_HIT, request))),
            false => controller.waiting.push_back((request, volume, blocks)),
        }
        self.destage(at, array);
    }

    /// Gives the drives dirty blocks, a run for each disk of the array at a time.
    fn destage(&mut self, at: Instant, array: usize) {
        while let Some(run) =
            self.controllers.get_mut(array).and_then(Option::as_mut).and_then(Controller::next_run)
        {
            let volume = (run.first.0 / VOLUME_BLOCKS) as usize;
            let blocks = BlockRange::new(Lbn(run.first.0 % VOLUME_BLOCKS), run.count);
            self.submit(at, Op::Write, (array, volume), blocks, Kind::Destage);
        }
    }

    fn submit(
        &mut self,
        at: Instant,
        op: Op,
        (array, volume): (usize, usize),
        blocks: BlockRange,
        kind: Kind,
    ) {
        let index = self.accesses.insert(Access { array, volume, blocks, kind });
        self.drives.submit(at, volume, op, blocks, index as u32);
    }

    fn finish_access(&mut self, done: &Done, source: &mut impl Source) -> Option<TracedRequest> {
        let index = done.ticket as usize;
        let access = self.accesses.try_remove(index)?;
        let Access { array, volume, blocks, kind } = access;
        let controller = self.controllers.get_mut(array).and_then(Option::as_mut);
        match kind {
            Kind::Part { request, fills } => {
                if let Some(controller) = controller.filter(|_| fills) {
                    controller.cache.insert_clean(cached(volume, blocks));
                }
                self.finish_part(request, done.finished, source)
            }
            Kind::Destage => {
                if let Some(controller) = controller {
                    controller.cache.destaged(cached(volume, blocks));
                    controller.leaving -= 1;
                    while let Some((request, volume, blocks)) = controller.waiting.front().copied()
                    {
                        if controller.cache.insert_dirty(cached(volume, blocks)).is_err() {
                            break;
                        }
                        controller.waiting.pop_front();
                        self.served.push(Reverse((done.finished + CACHE_HIT, request)));
                    }
                }
                self.destage(done.finished, array);
                None
            }
        }
    }

    /// Notes that a part of a request is done; gives the request that a closed loop issues then.
    fn finish_part(
        &mut self,
        index: usize,
        at: Instant,
        source: &mut impl Source,
    ) -> Option<TracedRequest> {
        let request = self.requests.get_mut(index)?;
        request.parts -= 1;
        request.finished = request.finished.max(at);
        if request.parts > 0 {
            return None;
        }
        let Request { object, is_read, is_counted, issued, finished, .. } = *request;
        self.requests.remove(index);
        self.last_finished = self.last_finished.max(finished);
        if is_counted && let Some(response) = self.figures.get_mut(object as usize) {
            response.count(finished.since(issued), is_read);
            let is_late = matches!(self.run, Run::Time { until, .. } if finished > until);
            response.late += u64::from(is_late);
        }
        source.after(object, at)
    }
}

impl SystemDescription {
    /// Why an object cannot lie on its arrays, in words: no room, or a level that is not possible
    /// there; `None` when all fit.
    #[must_use]
    pub fn misfit(&self) -> Option<String> {
        let mut used = vec![BlockCount::ZERO; self.arrays.len()];
        for object in &self.objects {
            for index in object.arrays.iter().copied() {
                let (Some(used), Some(disks)) = (used.get_mut(index), self.arrays.get(index))
                else {
                    continue;
                };
                if let Err(problem) = object.level.check(disks.len()) {
                    return Some(format!("object `{}`: array {index}: {problem}", object.name));
                }
                let smallest = disks.iter().map(|disk| disk.geometry.capacity()).min();
                let smallest = smallest.unwrap_or_default();
                if object.unit > smallest {
                    return Some(format!(
                        "object `{}`: its stripe unit of {} is larger than a disk of array {index}",
                        object.name,
                        object.unit.bytes()
                    ));
                }
                *used += object.blocks_a_disk(disks.len());
                if *used > smallest {
                    return Some(format!(
                        "object `{}`: array {index} has no room for it: its disks have {} and would need {}",
                        object.name,
                        smallest.bytes(),
                        used.bytes()
                    ));
                }
            }
        }
        None
    }
}

impl Controller {
    /// The next run of dirty blocks for the drives, if there is one and another may be on its way.
    fn next_run(&mut self) -> Option<BlockRange> {
        if self.leaving == self.leaving_max {
            return None;
        }
        if self.chosen.is_empty() {
            self.chosen.extend(self.cache.destage(DESTAGE_LINES, false));
        }
        if self.chosen.is_empty() && !self.waiting.is_empty() {
            self.chosen.extend(self.cache.destage(DESTAGE_LINES, true));
        }
        let run = self.chosen.pop_front()?;
        self.leaving += 1;
        Some(run)
    }
}

impl ObjectOnArrays {
    /// The blocks that the object takes on each disk of an array of `disks`.
    #[must_use]
    pub fn blocks_a_disk(&self, disks: usize) -> BlockCount {
        let share = Spread { arrays: self.arrays.len(), unit: self.unit }.share(self.size);
        let (units, unit) = (self.level.data_units(disks).max(1) as u64, self.unit.0.max(1));
        BlockCount(share.0.div_ceil(unit * units) * unit)
    }
}

/// The blocks of a volume in the address space of its array's cache.
fn cached(volume: usize, blocks: BlockRange) -> BlockRange {
    BlockRange::new(Lbn(volume as u64 * VOLUME_BLOCKS + blocks.first.0), blocks.count)
}
