//! Zones over another device: a shingled disk over a simulated disk, a zoned namespace over an SSD.
//!
//! Invariants:
//! 1. A write is checked, and moves its zone's write pointer, when it is submitted, in the order of its batch; an append when it is
//!    polled first. What is refused moves none. A write that fails on the device below, or whose future is dropped before it is polled, has
//!    moved it, and leaves blocks before the pointer that hold what they held.
//! 2. No more zones are open or active than the limits say. An implicitly open zone is closed for another, the one first that was
//!    opened first.
//!
//! Write pointers are in memory, as the contents of simulated devices are.

use std::sync::Arc;

use futures::future::BoxFuture;
use moirai_storage::{
    Completions, Device, Ensemble, EquivalenceClass, Error, Flushed, Inquiry, IoBuf, Op, Request,
    Result, ZoneAction, ZoneCondition, ZoneKind, ZoneLimits, ZoneProblem, ZoneReport, Zoned,
};
use moirai_units::{BlockCount, BlockRange, Lbn};
use parking_lot::Mutex;

/// How a device is divided into zones.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ZoneOptions {
    /// Blocks of a zone; the last may be shorter.
    pub zone: BlockCount,
    /// Zones at the beginning that are conventional.
    pub conventional: u64,
    /// How many may be written at a time.
    pub limits: ZoneLimits,
}

/// A sequential zone.
#[derive(Clone, Copy, Debug)]
struct State {
    condition: ZoneCondition,
    /// Blocks before the write pointer.
    written: BlockCount,
    /// Order of opening.
    opened: u64,
}

/// A device whose zones are written in order.
#[derive(Debug)]
pub struct ZonedDevice {
    inner: Arc<dyn Device>,
    inquiry: Inquiry,
    options: ZoneOptions,
    zones: Mutex<Zones>,
}

#[derive(Debug)]
struct Zones {
    /// The sequential ones, in the order of the device.
    states: Vec<State>,
    openings: u64,
}

impl ZonedDevice {
    /// Divides `inner`, which nothing was written to, into zones.
    #[must_use]
    pub fn over(inner: Arc<dyn Device>, options: ZoneOptions) -> Arc<ZonedDevice> {
        let zone = options.zone.max(BlockCount(1));
        let count = inner.inquiry().capacity.0.div_ceil(zone.0);
        let options =
            ZoneOptions { zone, conventional: options.conventional.min(count), ..options };
        let empty = State { condition: ZoneCondition::Empty, written: BlockCount::ZERO, opened: 0 };
        let sequential = count.saturating_sub(options.conventional) as usize;
        let inquiry = Inquiry {
            // A reset takes back what a zone held.
            discard: None,
            depth: 1,
            ..inner.inquiry().clone()
        };
        let zones = Mutex::new(Zones { states: vec![empty; sequential], openings: 0 });
        Arc::new(ZonedDevice { inner, inquiry, options, zones })
    }

    fn blocks(&self, number: u64) -> BlockRange {
        let first = number * self.options.zone.0;
        let end = (first + self.options.zone.0).min(self.inquiry.capacity.0);
        BlockRange::between(Lbn(first), Lbn(end))
    }

    fn number(&self, lbn: Lbn) -> u64 {
        lbn.0 / self.options.zone.0
    }

    /// The state of a zone by its number; `None` of a conventional one.
    fn index(&self, number: u64) -> Option<usize> {
        number.checked_sub(self.options.conventional).map(|index| index as usize)
    }

    fn refused(&self, zone: BlockRange, problem: ZoneProblem) -> Error {
        Error::Zone { device: self.inquiry.name.clone(), zone, problem }
    }

    /// The sequential zone that begins with `first`.
    fn named(&self, first: Lbn) -> Result<(BlockRange, usize)> {
        self.inquiry.check_blocks(BlockRange::new(first, BlockCount(1)))?;
        let zone = self.blocks(self.number(first));
        if zone.first != first {
            return Err(self.refused(zone, ZoneProblem::NotFirst));
        }
        let index = self.index(self.number(first));
        Ok((zone, index.ok_or_else(|| self.refused(zone, ZoneProblem::Conventional))?))
    }

    /// The parts of `blocks` that the write pointers of their zones have not passed.
    fn unwritten(&self, blocks: BlockRange) -> Vec<BlockRange> {
        let zones = self.zones.lock();
        let numbers = self.number(blocks.first)..self.number(blocks.end()) + 1;
        let parts = numbers.filter_map(|number| {
            let state = zones.states.get(self.index(number)?)?;
            let zone = self.blocks(number);
            let from = (zone.first + state.written).max(blocks.first);
            let until = zone.end().min(blocks.end());
            (from < until).then(|| BlockRange::between(from, until))
        });
        parts.collect()
    }

    /// Checks a request, and moves the write pointer for a write.
    fn admit(&self, request: &Request) -> Result<()> {
        request.check(&self.inquiry)?;
        if request.op == Op::Read || request.blocks.is_empty() {
            return Ok(());
        }
        let at = request.blocks.first;
        let number = self.number(at);
        let zone = self.blocks(number);
        let Some(index) = self.index(number) else {
            // Conventional zones may be written over their ends, as far as there is another behind.
            let end = Lbn(self.options.conventional * self.options.zone.0);
            return match request.blocks.end() <= end {
                true => Ok(()),
                false => Err(self.refused(zone, ZoneProblem::PastEnd { end })),
            };
        };
        let mut zones = self.zones.lock();
        let count = request.blocks.count;
        zones
            .write(&self.options.limits, index, zone, Some(at), count)
            .map(|_| ())
            .map_err(|problem| self.refused(zone, problem))
    }
}

impl Zones {
    /// Takes `count` blocks at the write pointer, which must be `at`; gives the place.
    fn write(
        &mut self,
        limits: &ZoneLimits,
        index: usize,
        zone: BlockRange,
        at: Option<Lbn>,
        count: BlockCount,
    ) -> std::result::Result<Lbn, ZoneProblem> {
        let Some(state) = self.states.get(index).copied() else {
            return Err(ZoneProblem::Conventional);
        };
        if state.condition == ZoneCondition::Full {
            return Err(ZoneProblem::Full);
        }
        let write_pointer = zone.first + state.written;
        if at.is_some_and(|at| at != write_pointer) {
            return Err(ZoneProblem::NotAtWritePointer { write_pointer });
        }
        let end = zone.end();
        if write_pointer + count > end {
            return Err(ZoneProblem::PastEnd { end });
        }
        if !state.condition.is_open() {
            self.open(limits, index, ZoneCondition::ImplicitlyOpen)?;
        }
        if let Some(state) = self.states.get_mut(index) {
            state.written += count;
            if state.written == zone.count {
                state.condition = ZoneCondition::Full;
            }
        }
        Ok(write_pointer)
    }

    /// Opens a zone that is empty, closed or implicitly open.
    fn open(
        &mut self,
        limits: &ZoneLimits,
        index: usize,
        condition: ZoneCondition,
    ) -> std::result::Result<(), ZoneProblem> {
        let Some(before) = self.states.get(index).map(|state| state.condition) else {
            return Err(ZoneProblem::Conventional);
        };
        let count = |of: fn(ZoneCondition) -> bool| {
            self.states.iter().filter(|state| of(state.condition)).count()
        };
        let is_full = |most: u32, count: usize| count >= most as usize;
        if let Some(most) = limits.active.filter(|_| !before.is_active())
            && is_full(most, count(ZoneCondition::is_active))
        {
            return Err(ZoneProblem::TooManyActive { most });
        }
        if !before.is_open() && is_full(limits.open, count(ZoneCondition::is_open)) {
            let implicit = self.states.iter_mut();
            let implicit =
                implicit.filter(|state| state.condition == ZoneCondition::ImplicitlyOpen);
            let oldest = implicit.min_by_key(|state| state.opened);
            let Some(oldest) = oldest else {
                return Err(ZoneProblem::TooManyOpen { most: limits.open });
            };
            oldest.condition = ZoneCondition::Closed;
        }
        self.openings += 1;
        if let Some(state) = self.states.get_mut(index) {
            (state.condition, state.opened) = (condition, self.openings);
        }
        Ok(())
    }

    /// Changes a zone as a whole.
    fn manage(
        &mut self,
        limits: &ZoneLimits,
        index: usize,
        action: ZoneAction,
    ) -> std::result::Result<(), ZoneProblem> {
        let Some(state) = self.states.get_mut(index) else {
            return Err(ZoneProblem::Conventional);
        };
        let condition = state.condition;
        match (action, condition) {
            (ZoneAction::Open, ZoneCondition::ExplicitlyOpen)
            | (ZoneAction::Close, ZoneCondition::Closed)
            | (ZoneAction::Finish, ZoneCondition::Full)
            | (ZoneAction::Reset, ZoneCondition::Empty) => {}
            (ZoneAction::Open, ZoneCondition::Full)
            | (ZoneAction::Close, ZoneCondition::Full | ZoneCondition::Empty)
            | (_, ZoneCondition::NotWritePointer) => {
                return Err(ZoneProblem::Transition { action, condition });
            }
            (ZoneAction::Open, _) => {
                return self.open(limits, index, ZoneCondition::ExplicitlyOpen);
            }
            // One that was opened and not written is empty again.
            (ZoneAction::Close, _) if state.written == BlockCount::ZERO => {
                state.condition = ZoneCondition::Empty;
            }
            (ZoneAction::Close, _) => state.condition = ZoneCondition::Closed,
            (ZoneAction::Finish, _) => state.condition = ZoneCondition::Full,
            (ZoneAction::Reset, _) => {
                (state.condition, state.written) = (ZoneCondition::Empty, BlockCount::ZERO);
            }
        }
        Ok(())
    }
}

impl Zoned for ZonedDevice {
    fn zone_limits(&self) -> ZoneLimits {
        self.options.limits
    }

    fn zone(&self, lbn: Lbn) -> Result<ZoneReport> {
        self.inquiry.check_blocks(BlockRange::new(lbn, BlockCount(1)))?;
        let number = self.number(lbn);
        let blocks = self.blocks(number);
        let zones = self.zones.lock();
        let state = self.index(number).and_then(|index| zones.states.get(index));
        Ok(match state {
            None => ZoneReport {
                blocks,
                kind: ZoneKind::Conventional,
                condition: ZoneCondition::NotWritePointer,
                write_pointer: blocks.first,
            },
            Some(state) => ZoneReport {
                blocks,
                kind: ZoneKind::Sequential,
                condition: state.condition,
                write_pointer: match state.condition {
                    ZoneCondition::Full => blocks.end(),
                    _ => blocks.first + state.written,
                },
            },
        })
    }

    fn append(&self, first: Lbn, data: IoBuf) -> BoxFuture<'_, Result<Lbn>> {
        Box::pin(async move {
            let (zone, index) = self.named(first)?;
            let count = data.blocks();
            let blocks = BlockRange::new(first, count);
            let mut request = Request { op: Op::Write, blocks, data: vec![data] };
            request.check(&self.inquiry)?;
            let limits = &self.options.limits;
            let taken = self.zones.lock().write(limits, index, zone, None, count);
            let at = taken.map_err(|problem| self.refused(zone, problem))?;
            request.blocks.first = at;
            let device: &dyn Device = &*self.inner;
            device.access(request).await?;
            Ok(at)
        })
    }

    fn manage(&self, first: Lbn, action: ZoneAction) -> BoxFuture<'_, Result<()>> {
        Box::pin(async move {
            if self.inquiry.read_only {
                return Err(Error::ReadOnly { device: self.inquiry.name.clone() });
            }
            let (zone, index) = self.named(first)?;
            if action == ZoneAction::Reset {
                // Before the pointer moves: what is written from then on stays.
                self.inner.discard(zone).await?;
            }
            let done = self.zones.lock().manage(&self.options.limits, index, action);
            done.map_err(|problem| self.refused(zone, problem))
        })
    }
}

impl Device for ZonedDevice {
    fn inquiry(&self) -> &Inquiry {
        &self.inquiry
    }

    fn ensemble(&self, lbn: Lbn) -> Result<Ensemble> {
        self.parallel_ensemble(lbn).map(|blocks| Ensemble { blocks, switch: BlockCount::ZERO })
    }

    fn parallel_ensemble(&self, lbn: Lbn) -> Result<BlockRange> {
        self.inquiry.check_blocks(BlockRange::new(lbn, BlockCount(1)))?;
        Ok(self.blocks(self.number(lbn)))
    }

    fn equivalent(&self, lbn: Lbn) -> Result<EquivalenceClass> {
        self.inquiry.check_blocks(BlockRange::new(lbn, BlockCount(1)))?;
        Ok(EquivalenceClass::single(lbn))
    }

    fn submit(&self, batch: Vec<Request>) -> BoxFuture<'_, Completions> {
        // Write pointers move now, in the order in which batches come.
        let mut requests = Vec::with_capacity(batch.len());
        let mut admitted = Vec::with_capacity(batch.len());
        for request in batch {
            admitted.push(self.admit(&request).map(|()| match request.op {
                Op::Read => (request.blocks.first, self.unwritten(request.blocks)),
                Op::Write => (request.blocks.first, Vec::new()),
            }));
            if let Some(Ok(_)) = admitted.last() {
                requests.push(request);
            }
        }
        Box::pin(async move {
            let mut done = self.inner.submit(requests).await.into_iter();
            let results = admitted.into_iter().filter_map(|admitted| match admitted {
                Err(refused) => Some(Err(refused)),
                Ok((first, unwritten)) => done.next().map(|done| {
                    done.map(|mut completion| {
                        clear(&mut completion.data, first, &unwritten);
                        completion
                    })
                }),
            });
            results.collect()
        })
    }

    fn flush(&self) -> Flushed<'_> {
        self.inner.flush()
    }

    fn zones(&self) -> Option<&dyn Zoned> {
        Some(self)
    }
}

/// Fills with zeros what of `data`, which begins with `first`, lies in `runs`.
fn clear(data: &mut [IoBuf], first: Lbn, runs: &[BlockRange]) {
    let mut at = first;
    for buffer in data {
        let held = BlockRange::new(at, buffer.blocks());
        for run in runs {
            let (from, until) = (run.first.max(held.first), run.end().min(held.end()));
            let bytes = |lbn: Lbn| lbn.since(held.first).bytes().0 as usize;
            if from < until
                && let Some(part) = buffer.get_mut(bytes(from)..bytes(until))
            {
                part.fill(0);
            }
        }
        at = held.end();
    }
}
