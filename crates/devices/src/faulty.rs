//! A device in memory that fails as it is told to: for tests of what must survive.
//!
//! The fault model:
//!
//! - A power cut takes what was not flushed, or some of it: each block holds what was written last, or
//!   earlier, or zeros of a discard. A write that the cut meets is torn between blocks.
//! - With physical sectors of several blocks the cut may also damage any sector that something not flushed, or
//!   the write that it meets, has touched: all blocks of the sector hold noise then, also those that were
//!   durable. A drive reads such a sector, changes it and writes it as one.
//! - Single blocks cannot be read, or hold what nobody wrote; and the device dies.
//!
//! Requests take times of their own, so that those of a batch are carried out in another order with each seed.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::io;
use std::sync::Arc;

use futures::future::{BoxFuture, join_all};
use moirai_runtime::{Random, now, random, sleep};
use moirai_storage::{
    Completion, Completions, Device, Discarded, Ensemble, EquivalenceClass, Error, Flushed,
    Inquiry, IoBuf, Op, Request, Result, Timing,
};
use moirai_units::{BLOCK_BYTES, BlockCount, BlockRange, Lbn, Nanos};
use parking_lot::Mutex;
use rand::Rng;

/// The longest that a request takes.
const SERVICE_NS_MAX: u64 = 1_000_000;

/// How often a power cut damages a physical sector that it may damage: one time in so many.
const DAMAGE_ODDS: u32 = 4;

/// The power of one or more devices.
#[derive(Debug, Default)]
pub struct Power {
    state: Mutex<PowerState>,
}

#[derive(Debug, Default)]
struct PowerState {
    is_off: bool,
    /// Writes and flushes until it fails.
    writes_left: Option<u64>,
}

impl Power {
    /// Power that is on.
    #[must_use]
    pub fn on() -> Arc<Power> {
        Arc::new(Power::default())
    }

    /// Lets the power fail in the middle of the write or flush after so many others.
    pub fn fail_after(&self, writes: u64) {
        self.state.lock().writes_left = Some(writes);
    }

    /// Whether it has failed.
    #[must_use]
    pub fn is_off(&self) -> bool {
        self.state.lock().is_off
    }

    /// Brings it back. Devices must be [restarted](FaultyDevice::restart) then.
    pub fn bring_back(&self) {
        *self.state.lock() = PowerState::default();
    }

    /// Counts a write; tells whether the power fails in it.
    fn fails_in_write(&self) -> bool {
        let mut state = self.state.lock();
        match state.writes_left {
            Some(0) => {
                state.is_off = true;
                state.writes_left = None;
                true
            }
            Some(writes) => {
                state.writes_left = Some(writes - 1);
                false
            }
            None => false,
        }
    }
}

type Block = [u8; BLOCK_BYTES as usize];

/// What a [`FaultyDevice`] keeps its blocks on. The physical sector is a power of two of blocks; a power cut may damage a sector of
/// several blocks.
#[derive(Clone, Copy, Debug)]
pub struct Medium {
    physical_block: BlockCount,
    is_flash: bool,
}

impl Medium {
    /// A disk with such physical sectors.
    #[must_use]
    pub fn disk(physical_block: BlockCount) -> Medium {
        Medium { physical_block, is_flash: false }
    }

    /// Flash, which should learn soon which blocks are free ([`Inquiry::wants_discards`]).
    #[must_use]
    pub fn flash(physical_block: BlockCount) -> Medium {
        Medium { physical_block, is_flash: true }
    }
}

/// A device in memory that fails as it is told to.
pub struct FaultyDevice {
    inquiry: Inquiry,
    ensemble: BlockCount,
    power: Arc<Power>,
    state: Mutex<State>,
}

struct State {
    /// What happens by chance.
    chance: Random,
    /// What survives a power cut. Blocks that are not there are zeros.
    durable: BTreeMap<Lbn, Block>,
    /// What was written since the last flush, the last time last.
    cached: BTreeMap<Lbn, Vec<Written>>,
    /// How many blocks were written.
    written: u64,
    unreadable: BTreeSet<Lbn>,
    is_dead: bool,
    /// Where the next write goes instead.
    misdirected: Option<Lbn>,
}

/// What was written to a block.
struct Written {
    number: u64,
    block: Block,
}

impl FaultyDevice {
    /// A disk of 512-byte sectors, of `capacity` in ensembles of `ensemble`, full of zeros. Inside a runtime only.
    #[must_use]
    pub fn new(
        name: String,
        capacity: BlockCount,
        ensemble: BlockCount,
        power: Arc<Power>,
    ) -> Arc<FaultyDevice> {
        FaultyDevice::on(Medium::disk(BlockCount(1)), name, capacity, ensemble, power)
    }

    /// The same on a medium.
    #[must_use]
    pub fn on(
        medium: Medium,
        name: String,
        capacity: BlockCount,
        ensemble: BlockCount,
        power: Arc<Power>,
    ) -> Arc<FaultyDevice> {
        let Medium { physical_block, is_flash } = medium;
        let chance = random(&name);
        Arc::new(FaultyDevice {
            inquiry: Inquiry {
                name,
                capacity,
                parallelism: 1,
                depth: 1,
                volume_block: BlockCount(1),
                atomic_write: BlockCount(1),
                physical_block,
                discard: Some(physical_block),
                wants_discards: is_flash,
                volatile_cache: true,
                read_only: false,
                keeps_data: true,
            },
            ensemble,
            power,
            state: Mutex::new(State {
                chance,
                durable: BTreeMap::new(),
                cached: BTreeMap::new(),
                written: 0,
                unreadable: BTreeSet::new(),
                is_dead: false,
                misdirected: None,
            }),
        })
    }

    /// What is left after a power cut: of what was not flushed, of some blocks the last write, of others
    /// an earlier one or none, and of some physical sectors nothing.
    pub fn restart(&self) {
        let mut state = self.state.lock();
        let state = &mut *state;
        let cached = std::mem::take(&mut state.cached);
        let physical = self.inquiry.physical_block.0;
        let touched: BTreeSet<u64> = match physical {
            1 => BTreeSet::new(),
            _ => cached.keys().map(|lbn| lbn.0 / physical).collect(),
        };
        for (lbn, writes) in cached {
            let left = state.chance.random_range(0..=writes.len());
            if let Some(last) = left.checked_sub(1).and_then(|last| writes.get(last)) {
                state.make_durable(lbn, last.block);
            }
        }
        for sector in touched {
            if state.chance.random_ratio(1, DAMAGE_ODDS) {
                let first = sector * physical;
                for lbn in first..(first + physical).min(self.inquiry.capacity.0) {
                    let mut noise = [0; BLOCK];
                    state.chance.fill(&mut noise);
                    state.durable.insert(Lbn(lbn), noise);
                }
            }
        }
    }

    /// Fails whatever is asked of it from now on.
    pub fn die(&self) {
        self.state.lock().is_dead = true;
    }

    /// Answers again, with what it held when it died.
    pub fn revive(&self) {
        self.state.lock().is_dead = false;
    }

    /// Fails reads of the block until it is written anew.
    pub fn make_unreadable(&self, lbn: Lbn) {
        self.state.lock().unreadable.insert(lbn);
    }

    /// Lets all blocks be read again.
    pub fn make_readable(&self) {
        self.state.lock().unreadable.clear();
    }

    /// Changes what the block holds, and says nothing.
    pub fn corrupt(&self, lbn: Lbn) {
        let mut state = self.state.lock();
        let mut block = state.read(lbn);
        block.iter_mut().step_by(7).for_each(|byte| *byte = !*byte);
        state.durable.insert(lbn, block);
        state.cached.remove(&lbn);
    }

    /// Has the next write go to `lbn`, and says nothing.
    pub fn misdirect(&self, lbn: Lbn) {
        self.state.lock().misdirected = Some(lbn);
    }

    fn error(&self, action: &'static str, blocks: BlockRange, problem: &str) -> Error {
        Error::Io {
            device: self.inquiry.name.clone(),
            action,
            offset: blocks.first.byte_offset(),
            source: io::Error::other(problem.to_owned()),
        }
    }

    fn check_alive(&self, action: &'static str, blocks: BlockRange) -> Result<()> {
        if self.power.is_off() {
            return Err(self.error(action, blocks, "the power is off"));
        }
        if self.state.lock().is_dead {
            return Err(self.error(action, blocks, "the device is dead"));
        }
        Ok(())
    }

    fn transfer(&self, request: &mut Request) -> Result<()> {
        let Request { op, blocks, data } = request;
        match op {
            Op::Read => {
                self.check_alive("read", *blocks)?;
                self.read(*blocks, data)
            }
            Op::Write => {
                self.check_alive("write", *blocks)?;
                self.write(*blocks, data)
            }
        }
    }

    fn read(&self, blocks: BlockRange, data: &mut [IoBuf]) -> Result<()> {
        let state = self.state.lock();
        if state.unreadable.range(blocks.first..blocks.end()).next().is_some() {
            return Err(self.error("read", blocks, "a block cannot be read"));
        }
        let mut at = blocks.first;
        for block in data.iter_mut().flat_map(|buffer| buffer.chunks_exact_mut(BLOCK)) {
            block.copy_from_slice(&state.read(at));
            at += BlockCount(1);
        }
        Ok(())
    }

    fn write(&self, blocks: BlockRange, data: &[IoBuf]) -> Result<()> {
        let is_torn = self.power.fails_in_write();
        let mut state = self.state.lock();
        let room = self.inquiry.capacity.0 - blocks.count.0;
        let misdirected = state.misdirected.take().map(|lbn| Lbn(lbn.0.min(room)));
        let mut at = misdirected.unwrap_or(blocks.first);
        // The restart decides what is left of each block, and of its physical sector.
        let is_cut_here = is_torn && self.inquiry.physical_block == BlockCount(1);
        for block in data.iter().flat_map(|buffer| buffer.chunks_exact(BLOCK)) {
            if !is_cut_here || state.chance.random() {
                let mut content = [0; BLOCK];
                content.copy_from_slice(block);
                state.cache(at, content);
                state.unreadable.remove(&at);
            }
            at += BlockCount(1);
        }
        if is_torn {
            return Err(self.error("write", blocks, "the power failed"));
        }
        Ok(())
    }

    /// Makes `blocks` zeros, as far as they are not.
    fn free(&self, blocks: BlockRange) -> Result<()> {
        let is_torn = self.power.fails_in_write();
        let mut state = self.state.lock();
        let state = &mut *state;
        let range = blocks.first..blocks.end();
        let durable = state.durable.range(range.clone()).map(|(lbn, _)| *lbn);
        let cached = state.cached.range(range.clone()).map(|(lbn, _)| *lbn);
        let held: BTreeSet<Lbn> = durable.chain(cached).collect();
        for lbn in held {
            if !is_torn || state.chance.random() {
                state.cache(lbn, [0; BLOCK]);
            }
        }
        let readable: Vec<Lbn> = state.unreadable.range(range).copied().collect();
        for lbn in readable {
            state.unreadable.remove(&lbn);
        }
        if is_torn {
            return Err(self.error("discard", blocks, "the power failed"));
        }
        Ok(())
    }
}

const BLOCK: usize = BLOCK_BYTES as usize;

impl State {
    fn read(&self, lbn: Lbn) -> Block {
        let cached = self.cached.get(&lbn).and_then(|writes| writes.last());
        let cached = cached.map(|one| &one.block);
        cached.or_else(|| self.durable.get(&lbn)).copied().unwrap_or([0; BLOCK])
    }

    fn cache(&mut self, lbn: Lbn, block: Block) {
        self.written += 1;
        let number = self.written;
        self.cached.entry(lbn).or_default().push(Written { number, block });
    }

    fn make_durable(&mut self, lbn: Lbn, block: Block) {
        match block.iter().all(|byte| *byte == 0) {
            true => self.durable.remove(&lbn),
            false => self.durable.insert(lbn, block),
        };
    }
}

impl fmt::Debug for FaultyDevice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "FaultyDevice({})", self.inquiry.name)
    }
}

impl Device for FaultyDevice {
    fn inquiry(&self) -> &Inquiry {
        &self.inquiry
    }

    fn ensemble(&self, lbn: Lbn) -> Result<Ensemble> {
        let device: &dyn Device = self;
        device.check_lbn(lbn)?;
        let first = Lbn(lbn.0 / self.ensemble.0 * self.ensemble.0);
        let end = (first + self.ensemble).min(self.inquiry.all_blocks().end());
        Ok(Ensemble { blocks: BlockRange::between(first, end), switch: BlockCount(1) })
    }

    fn parallel_ensemble(&self, lbn: Lbn) -> Result<BlockRange> {
        Ok(self.ensemble(lbn)?.blocks)
    }

    fn equivalent(&self, lbn: Lbn) -> Result<EquivalenceClass> {
        let device: &dyn Device = self;
        device.check_lbn(lbn)?;
        Ok(EquivalenceClass::single(lbn))
    }

    fn submit(&self, batch: Vec<Request>) -> BoxFuture<'_, Completions> {
        let served = batch.into_iter().map(move |mut request| {
            let service = self.state.lock().chance.random_range(0..SERVICE_NS_MAX);
            async move {
                let issued = now();
                request.check(&self.inquiry)?;
                sleep(Nanos(service)).await;
                self.transfer(&mut request)?;
                let timing = Timing { issued, started: issued, finished: now(), parts: None };
                Ok(Completion { data: request.data, timing })
            }
        });
        Box::pin(join_all(served))
    }

    fn data_after(&self, from: Lbn) -> Result<Option<BlockRange>> {
        let state = self.state.lock();
        let durable = state.durable.range(from..).next().map(|(lbn, _)| *lbn);
        let cached = state.cached.range(from..).next().map(|(lbn, _)| *lbn);
        let unreadable = state.unreadable.range(from..).next().copied();
        let first = [durable, cached, unreadable].into_iter().flatten().min();
        Ok(first.map(|first| BlockRange::new(first, BlockCount(1))))
    }

    fn flush(&self) -> Flushed<'_> {
        Box::pin(async move {
            // What is written meanwhile is not part of it.
            let written = self.state.lock().written;
            sleep(Nanos(SERVICE_NS_MAX / 2)).await;
            self.check_alive("flush", self.inquiry.all_blocks())?;
            // A power cut in its middle makes some of it durable.
            if self.power.fails_in_write() {
                self.restart();
                return Err(self.error("flush", self.inquiry.all_blocks(), "the power failed"));
            }
            let mut state = self.state.lock();
            for (lbn, mut writes) in std::mem::take(&mut state.cached) {
                let after = writes.split_off(writes.partition_point(|one| one.number <= written));
                if let Some(last) = writes.last() {
                    state.make_durable(lbn, last.block);
                }
                if !after.is_empty() {
                    state.cached.insert(lbn, after);
                }
            }
            Ok(())
        })
    }

    fn discard(&self, blocks: BlockRange) -> Discarded<'_> {
        Box::pin(async move {
            let freed = self.inquiry.discardable(blocks)?;
            if freed.is_empty() {
                return Ok(());
            }
            let service = self.state.lock().chance.random_range(0..SERVICE_NS_MAX);
            sleep(Nanos(service)).await;
            self.check_alive("discard", freed)?;
            self.free(freed)
        })
    }
}
