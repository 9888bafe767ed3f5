//! An array controller in front of a device: an LRU cache that writes through or back with early
//! destage (placement section 3). It sits above volume layouts, and is a device itself.
//!
//! Invariants:
//! 1. A write is acknowledged when the cache has it (write-back) or the device has it (through).
//! 2. A read sees every write that was acknowledged before it began: what the cache holds lies over
//!    what the device gives.
//! 3. A flush returns when the device has all that was acknowledged before it, and has flushed.
//!    After a failed destage the controller is latched: all operations are errors.
//! 4. Requests longer than an eighth of the cache, or of more lines than it has, go past it.
//! 5. While a write goes past the cache, the cache holds none of its blocks: what was dirty is
//!    destaged before, other writes of them wait, and reads of them are not kept.
//!
//! The cache's memory takes no time: on the machines of the paper it is fast beside any disk.

use std::collections::BTreeMap;
use std::fmt;
use std::ops::Range;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Weak};

use futures::future::{BoxFuture, join_all, ready};
use moirai_models::{ArrayCache, Full, LINE_BLOCKS, LineNumber, WritePolicy};
use moirai_runtime::{now, spawn};
use moirai_storage::{
    Completion, Completions, Device, Discarded, Ensemble, EquivalenceClass, Error, Flushed,
    Inquiry, IoBuf, Op, Request, Result, Timing,
};
use moirai_units::{BLOCK_BYTES, BlockCount, BlockRange, ByteCount, Instant, Lbn, ServiceParts};
use parking_lot::Mutex;
use tokio::sync::Notify;

/// Lines destaged in one batch: enough for the disks to order, few enough that a read waits little.
const DESTAGE_LINES: usize = 64;

/// A device with an array controller's cache before it.
pub struct ArrayController {
    inquiry: Inquiry,
    device: Arc<dyn Device>,
    policy: WritePolicy,
    most: BlockCount,
    lines_max: u64,
    state: Mutex<State>,
    /// Rung when there is something to destage.
    work: Arc<Notify>,
    /// Rung when a batch is destaged, and when a write past the cache ends.
    room: Notify,
    latched: AtomicBool,
}

struct State {
    cache: ArrayCache,
    contents: Contents,
    /// Those that wait for dirty blocks to be destaged, whatever the marks say.
    urgent: u32,
    /// Whether a write found no line to take, since the last batch.
    pressed: bool,
    /// Lines that are dirty, and when the oldest write that the device does not have came.
    dirty: BTreeMap<LineNumber, Moment>,
    /// Lines of the batch that is on its way, likewise.
    leaving: BTreeMap<LineNumber, Moment>,
    /// Reads under way, and whether a write came between: then what they bring is not kept.
    reads: BTreeMap<Moment, (BlockRange, bool)>,
    /// Writes that go past the cache.
    past: BTreeMap<Moment, BlockRange>,
    next: Moment,
}

/// Counts what happens in the controller: earlier is less.
type Moment = u64;

impl State {
    fn moment(&mut self) -> Moment {
        self.next += 1;
        self.next
    }

    /// Whether the device has what was written to `lines` before `then`.
    fn has_settled(&self, lines: Range<LineNumber>, then: Moment) -> bool {
        let before = |map: &BTreeMap<LineNumber, Moment>| {
            map.range(lines.clone()).any(|(_, written)| *written < then)
        };
        !before(&self.dirty) && !before(&self.leaving)
    }

    fn goes_past(&self, blocks: BlockRange) -> bool {
        self.past.values().any(|other| other.overlaps(blocks))
    }

    /// Takes in a write that is destaged later, if there is a line for it.
    fn write_back(&mut self, request: &Request) -> std::result::Result<(), Full> {
        let gone = self.cache.insert_dirty(request.blocks)?;
        self.contents.forget(gone);
        keep(&mut self.contents, &self.cache, request);
        taint(&mut self.reads, request.blocks);
        let written = self.moment();
        for line in lines(request.blocks) {
            self.dirty.entry(line).or_insert(written);
        }
        Ok(())
    }

    /// The next batch to destage.
    fn take_batch(&mut self) -> Vec<BlockRange> {
        let mut runs = self.cache.destage(DESTAGE_LINES, self.urgent > 0);
        // With a high mark at the end of the cache, it is full before it would destage.
        if runs.is_empty() && self.pressed {
            runs = self.cache.destage(DESTAGE_LINES, true);
        }
        for line in runs.iter().flat_map(|run| lines(*run)) {
            if let Some(written) = self.dirty.remove(&line) {
                self.leaving.insert(line, written);
            }
        }
        runs
    }
}

/// What the lines hold, where the device keeps data.
#[derive(Default)]
struct Contents {
    keeps: bool,
    lines: BTreeMap<LineNumber, Box<[u8]>>,
}

impl Contents {
    fn forget(&mut self, gone: Vec<LineNumber>) {
        for line in gone {
            self.lines.remove(&line);
        }
    }

    /// Copies blocks of `data`, which begins at `first`, into their lines.
    fn put(&mut self, blocks: BlockRange, first: Lbn, data: &[u8]) {
        if !self.keeps {
            return;
        }
        for lbn in (blocks.first.0..blocks.end().0).map(Lbn) {
            let line_bytes = (LINE_BLOCKS * BLOCK_BYTES) as usize;
            let line = self.lines.entry(lbn.0 / LINE_BLOCKS);
            let line = line.or_insert_with(|| vec![0; line_bytes].into_boxed_slice());
            let from = lbn.since(first).bytes().0 as usize;
            let at = (lbn.0 % LINE_BLOCKS * BLOCK_BYTES) as usize;
            let length = BLOCK_BYTES as usize;
            if let (Some(target), Some(source)) =
                (line.get_mut(at..at + length), data.get(from..from + length))
            {
                target.copy_from_slice(source);
            }
        }
    }

    /// Copies blocks that are held over `data`, which begins at `first`.
    fn get(&self, blocks: BlockRange, first: Lbn, data: &mut [u8]) {
        for lbn in (blocks.first.0..blocks.end().0).map(Lbn) {
            let Some(line) = self.lines.get(&(lbn.0 / LINE_BLOCKS)) else { continue };
            let to = lbn.since(first).bytes().0 as usize;
            let at = (lbn.0 % LINE_BLOCKS * BLOCK_BYTES) as usize;
            let length = BLOCK_BYTES as usize;
            if let (Some(target), Some(source)) =
                (data.get_mut(to..to + length), line.get(at..at + length))
            {
                target.copy_from_slice(source);
            }
        }
    }
}

impl ArrayController {
    /// Puts a cache of `size` before `device`. Inside a runtime only.
    #[must_use]
    pub fn start(
        device: Arc<dyn Device>,
        size: ByteCount,
        policy: WritePolicy,
    ) -> Arc<ArrayController> {
        let below = device.inquiry();
        let writes_back = matches!(policy, WritePolicy::Back { .. });
        let inquiry = Inquiry {
            name: format!("a controller with {size} over {}", below.name),
            volatile_cache: writes_back || below.volatile_cache,
            ..below.clone()
        };
        let keeps = inquiry.keeps_data;
        let cache = ArrayCache::new(size, policy);
        let work = Arc::new(Notify::new());
        let controller = Arc::new(ArrayController {
            inquiry,
            device,
            policy,
            most: BlockCount((size.0 / BLOCK_BYTES / 8).max(LINE_BLOCKS)),
            lines_max: (size.0 / BLOCK_BYTES / LINE_BLOCKS).max(1),
            state: Mutex::new(State {
                cache,
                contents: Contents { keeps, lines: BTreeMap::new() },
                urgent: 0,
                pressed: false,
                dirty: BTreeMap::new(),
                leaving: BTreeMap::new(),
                reads: BTreeMap::new(),
                past: BTreeMap::new(),
                next: 0,
            }),
            work: Arc::clone(&work),
            room: Notify::new(),
            latched: AtomicBool::new(false),
        });
        if writes_back {
            spawn(destage(Arc::downgrade(&controller), work));
        }
        controller
    }

    fn check_latch(&self) -> Result<()> {
        if self.latched.load(Ordering::Acquire) {
            return Err(Error::Latched { device: self.inquiry.name.clone() });
        }
        Ok(())
    }

    /// Whether the cache takes a request of `blocks`.
    fn fits(&self, blocks: BlockRange) -> bool {
        let lines = lines(blocks);
        blocks.count <= self.most && lines.end - lines.start <= self.lines_max
    }

    async fn serve(&self, request: Request) -> Result<Completion> {
        self.check_latch()?;
        request.check(&self.inquiry)?;
        match request.op {
            Op::Read => self.read(request).await,
            Op::Write => self.write(request).await,
        }
    }

    async fn read(&self, mut request: Request) -> Result<Completion> {
        let issued = now();
        let blocks = request.blocks;
        let (held, snapshot, read) = {
            let mut state = self.state.lock();
            let State { cache, contents, .. } = &mut *state;
            if cache.hit(blocks) {
                overlay(contents, &[blocks], &mut request);
                return Ok(done(request, issued));
            }
            let mut snapshot = IoBuf::zeroed(BlockCount::ZERO);
            let held = cache.held(blocks);
            if contents.keeps && !held.is_empty() {
                snapshot = IoBuf::zeroed(blocks.count);
                for run in &held {
                    contents.get(*run, blocks.first, &mut snapshot);
                }
            }
            let moment = state.moment();
            // It may bring what a write past the cache is about to replace.
            let tainted = state.goes_past(blocks);
            state.reads.insert(moment, (blocks, tainted));
            (held, snapshot, Underway { controller: self, moment })
        };
        let completion = self.device.access(request).await;
        let mut state = self.state.lock();
        let untouched = state.reads.get(&read.moment).is_some_and(|(_, written)| !written);
        let mut completion = completion?;
        // What was acknowledged before the read began may have left the cache since.
        scatter(&held, blocks.first, &snapshot, &mut completion.data);
        let State { cache, contents, .. } = &mut *state;
        let mut request = Request { op: Op::Read, blocks, data: completion.data };
        let held = cache.held(blocks);
        overlay(contents, &held, &mut request);
        // A read without buffers brings nothing that later reads could be given.
        let brought = !contents.keeps || !request.data.is_empty();
        if untouched && brought && self.fits(blocks) {
            contents.forget(cache.insert_clean(blocks));
            keep(contents, cache, &request);
        }
        Ok(Completion { data: request.data, timing: completion.timing })
    }

    async fn write(&self, request: Request) -> Result<Completion> {
        let issued = now();
        let blocks = request.blocks;
        if self.policy == WritePolicy::Through || !self.fits(blocks) {
            return self.write_through(request).await;
        }
        loop {
            let room = self.room.notified();
            {
                let mut state = self.state.lock();
                // Destaged while a write past the cache is under way, it could be overtaken by that.
                if !state.goes_past(blocks) {
                    let written = state.write_back(&request);
                    state.pressed |= written.is_err();
                    self.work.notify_one();
                    if written.is_ok() {
                        return Ok(done(request, issued));
                    }
                }
            }
            room.await;
            self.check_latch()?;
        }
    }

    async fn write_through(&self, request: Request) -> Result<Completion> {
        let issued = now();
        let blocks = request.blocks;
        let _underway = self.go_past(blocks).await?;
        // What was acknowledged must be on the device before the cache forgets it, since this write
        // may fail; and an older version must not overtake this one.
        self.settle(lines(blocks)).await?;
        {
            let mut state = self.state.lock();
            let State { cache, contents, reads, .. } = &mut *state;
            taint(reads, blocks);
            contents.forget(cache.remove(blocks));
        }
        let completion = self.device.access(request).await?;
        let request = Request { op: Op::Write, blocks, data: completion.data };
        if self.fits(blocks) {
            let mut state = self.state.lock();
            let State { cache, contents, .. } = &mut *state;
            contents.forget(cache.insert_clean(blocks));
            keep(contents, cache, &request);
        }
        Ok(Completion { data: request.data, timing: since(issued, completion.timing) })
    }

    /// Registers a write past the cache, when no other one of its blocks is under way.
    async fn go_past(&self, blocks: BlockRange) -> Result<Underway<'_>> {
        loop {
            let room = self.room.notified();
            {
                let mut state = self.state.lock();
                if !state.goes_past(blocks) {
                    let moment = state.moment();
                    state.past.insert(moment, blocks);
                    return Ok(Underway { controller: self, moment });
                }
            }
            room.await;
            self.check_latch()?;
        }
    }

    /// Waits until the device has what was written to `lines` before now; not for what comes later,
    /// which might never end.
    async fn settle(&self, lines: Range<LineNumber>) -> Result<()> {
        let then = self.state.lock().moment();
        let _urgent = Urgent::begin(self);
        loop {
            let room = self.room.notified();
            if self.state.lock().has_settled(lines.clone(), then) {
                return self.check_latch();
            }
            self.work.notify_one();
            room.await;
        }
    }

    /// Gives a batch of dirty blocks to the device; whether there was one.
    async fn destage_batch(&self) -> bool {
        let batch: Vec<Request> = {
            let mut state = self.state.lock();
            let runs = state.take_batch();
            let contents = &state.contents;
            runs.into_iter()
                .map(|blocks| {
                    let mut data = Vec::new();
                    if contents.keeps {
                        let mut buffer = IoBuf::zeroed(blocks.count);
                        contents.get(blocks, blocks.first, &mut buffer);
                        data.push(buffer);
                    }
                    Request { op: Op::Write, blocks, data }
                })
                .collect()
        };
        if batch.is_empty() {
            return false;
        }
        let runs: Vec<BlockRange> = batch.iter().map(|request| request.blocks).collect();
        let results = self.device.submit(batch).await;
        if results.iter().any(Result::is_err) {
            self.latched.store(true, Ordering::Release);
        }
        let mut state = self.state.lock();
        for run in runs {
            state.cache.destaged(run);
        }
        state.leaving.clear();
        // Who still finds no line says so again.
        state.pressed = false;
        self.room.notify_waiters();
        true
    }
}

/// Destages in the background for as long as the controller is there.
async fn destage(controller: Weak<ArrayController>, work: Arc<Notify>) {
    loop {
        work.notified().await;
        loop {
            let Some(controller) = controller.upgrade() else { return };
            if !controller.destage_batch().await {
                break;
            }
        }
    }
}

/// Marks reads under way that share blocks with a write.
fn taint(reads: &mut BTreeMap<Moment, (BlockRange, bool)>, blocks: BlockRange) {
    for (read, tainted) in reads.values_mut() {
        *tainted |= read.overlaps(blocks);
    }
}

/// Copies the data of `request` into the lines that hold its blocks now.
fn keep(contents: &mut Contents, cache: &ArrayCache, request: &Request) {
    let mut first = request.blocks.first;
    for buffer in &request.data {
        let part = BlockRange::new(first, buffer.blocks());
        for run in cache.held(part) {
            contents.put(run, first, buffer);
        }
        first = part.end();
    }
}

/// Copies what lines hold of `runs` over the buffers of `request`.
fn overlay(contents: &Contents, runs: &[BlockRange], request: &mut Request) {
    let mut first = request.blocks.first;
    for buffer in &mut request.data {
        let part = BlockRange::new(first, buffer.blocks());
        for run in runs {
            contents.get(common(*run, part), first, buffer);
        }
        first = part.end();
    }
}

/// Copies `runs` of `source`, which begins at `first`, over buffers that begin there, too.
fn scatter(runs: &[BlockRange], first: Lbn, source: &[u8], buffers: &mut [IoBuf]) {
    let mut at = first;
    for buffer in buffers {
        let part = BlockRange::new(at, buffer.blocks());
        for run in runs.iter().map(|run| common(*run, part)).filter(|run| !run.is_empty()) {
            let length = run.bytes().0 as usize;
            let (to, from) = (run.first.since(at).bytes().0, run.first.since(first).bytes().0);
            let (to, from) = (to as usize, from as usize);
            if let (Some(target), Some(source)) =
                (buffer.get_mut(to..to + length), source.get(from..from + length))
            {
                target.copy_from_slice(source);
            }
        }
        at = part.end();
    }
}

fn lines(blocks: BlockRange) -> Range<LineNumber> {
    blocks.first.0 / LINE_BLOCKS..blocks.end().0.div_ceil(LINE_BLOCKS)
}

fn common(a: BlockRange, b: BlockRange) -> BlockRange {
    let first = a.first.max(b.first);
    BlockRange::between(first, a.end().min(b.end()).max(first))
}

fn done(request: Request, issued: Instant) -> Completion {
    let finished = now();
    let queue = finished.since(issued);
    let parts = Some(ServiceParts { queue, ..ServiceParts::default() });
    let timing = Timing { issued, started: finished, finished, parts };
    Completion { data: request.data, timing }
}

/// The timing of a request that was issued before it was given to the device.
fn since(issued: Instant, timing: Timing) -> Timing {
    let waited = timing.issued.since(issued);
    let parts = timing.parts.map(|parts| ServiceParts { queue: parts.queue + waited, ..parts });
    Timing { issued, parts, ..timing }
}

/// A read, or a write past the cache, that is registered until it ends or is given up.
struct Underway<'a> {
    controller: &'a ArrayController,
    moment: Moment,
}

impl Drop for Underway<'_> {
    fn drop(&mut self) {
        let mut state = self.controller.state.lock();
        state.reads.remove(&self.moment);
        if state.past.remove(&self.moment).is_some() {
            self.controller.room.notify_waiters();
        }
    }
}

/// Someone who waits for dirty blocks to be destaged, until that is so or is given up.
struct Urgent<'a>(&'a ArrayController);

impl Urgent<'_> {
    fn begin(controller: &ArrayController) -> Urgent<'_> {
        controller.state.lock().urgent += 1;
        Urgent(controller)
    }
}

impl Drop for Urgent<'_> {
    fn drop(&mut self) {
        self.0.state.lock().urgent -= 1;
    }
}

impl Drop for ArrayController {
    fn drop(&mut self) {
        self.work.notify_one();
    }
}

impl fmt::Debug for ArrayController {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "ArrayController({})", self.inquiry.name)
    }
}

impl Device for ArrayController {
    fn inquiry(&self) -> &Inquiry {
        &self.inquiry
    }

    fn ensemble(&self, lbn: Lbn) -> Result<Ensemble> {
        self.device.ensemble(lbn)
    }

    fn parallel_ensemble(&self, lbn: Lbn) -> Result<BlockRange> {
        self.device.parallel_ensemble(lbn)
    }

    fn equivalent(&self, lbn: Lbn) -> Result<EquivalenceClass> {
        self.device.equivalent(lbn)
    }

    fn submit(&self, batch: Vec<Request>) -> BoxFuture<'_, Completions> {
        Box::pin(join_all(batch.into_iter().map(|request| self.serve(request))))
    }

    fn flush(&self) -> Flushed<'_> {
        Box::pin(async {
            self.check_latch()?;
            self.settle(0..LineNumber::MAX).await?;
            self.device.flush().await
        })
    }

    /// Passes it on. Lines of the cache keep what they hold, and may be destaged over it.
    fn discard(&self, blocks: BlockRange) -> Discarded<'_> {
        match self.check_latch() {
            Ok(()) => self.device.discard(blocks),
            Err(error) => Box::pin(ready(Err(error))),
        }
    }
}
