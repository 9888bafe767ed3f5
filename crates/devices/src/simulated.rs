//! Simulated devices behind the storage interface: a model supplies the times, `Contents` the data.

mod diagnostics;
mod disk;
mod mems;
mod ssd;

use std::collections::BTreeMap;
use std::fmt;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Weak};

use futures::future::join_all;
use moirai_models::{
    Direction, Disk, DiskCompletion, DiskRequest, Mems, RequestId, Scheduler, Ssd,
};
use moirai_runtime::{Task, now, sleep_until, spawn};
use moirai_storage::{Completion, Completions, Error, Inquiry, Op, Request, Result, Timing};
use moirai_units::{BlockCount, BlockRange, Instant, Lbn};
use parking_lot::Mutex;
use tokio::sync::{Notify, oneshot};

pub use disk::SimulatedDisk;
pub use mems::SimulatedMems;
pub use ssd::SimulatedSsd;

use crate::{Contents, HostBus};

/// How to simulate a device.
#[derive(Debug)]
pub struct SimulatedOptions {
    /// What messages call it.
    pub name: String,
    /// How it orders its queue.
    pub scheduler: Scheduler,
    /// What it holds.
    pub contents: Contents,
    /// The physical sector that it reports. The model takes no time to read what a part of one is written into.
    pub physical_block: BlockCount,
    /// The bus it shares with others, if any.
    pub host_bus: Option<Arc<HostBus>>,
}

/// A model of a device, stepped from event to event.
trait Model: Send + 'static {
    fn submit(&mut self, now: Instant, request: DiskRequest);
    fn flush(&mut self, now: Instant, id: RequestId);
    fn advance(&mut self, now: Instant, completions: &mut Vec<DiskCompletion>);
    fn next_event(&self) -> Option<Instant>;
    /// Takes back blocks that are not needed; disks and MEMS stores know no discard.
    fn discard(&mut self, _blocks: BlockRange) {}
}

macro_rules! is_model {
    ($model:ty $(, $more:ident)?) => {
        impl Model for $model {
            fn submit(&mut self, now: Instant, request: DiskRequest) {
                <$model>::submit(self, now, request);
            }
            fn flush(&mut self, now: Instant, id: RequestId) {
                <$model>::flush(self, now, id);
            }
            fn advance(&mut self, now: Instant, completions: &mut Vec<DiskCompletion>) {
                <$model>::advance(self, now, completions);
            }
            fn next_event(&self) -> Option<Instant> {
                <$model>::next_event(self)
            }
            $(fn $more(&mut self, blocks: BlockRange) {
                <$model>::$more(self, blocks);
            })?
        }
    };
}

is_model!(Disk);
is_model!(Mems);
is_model!(Ssd, discard);

/// A device that exists in virtual time (or runs in step with the clock, under real time).
struct Simulation<M> {
    inquiry: Inquiry,
    contents: Mutex<Contents>,
    host_bus: Option<Arc<HostBus>>,
    mechanism: Arc<Mechanism<M>>,
    stepper: Task<()>,
    /// Set by a failed flush and never cleared.
    latched: AtomicBool,
}

/// What the device shares with the task that steps the model.
struct Mechanism<M> {
    state: Mutex<MechanismState<M>>,
    /// Rung when a request came.
    bell: Arc<Notify>,
}

struct MechanismState<M> {
    model: M,
    next_id: RequestId,
    waiting: BTreeMap<RequestId, oneshot::Sender<DiskCompletion>>,
}

impl<M: Model> Simulation<M> {
    /// Starts a model at rest, of so many blocks. Whoever starts one with parallelism, depth or a volatile cache says so in the inquiry.
    fn start(model: M, capacity: BlockCount, options: SimulatedOptions) -> Simulation<M> {
        let bell = Arc::new(Notify::new());
        let mechanism = Arc::new(Mechanism {
            state: Mutex::new(MechanismState { model, next_id: 0, waiting: BTreeMap::new() }),
            bell: Arc::clone(&bell),
        });
        let stepper = spawn(step(Arc::downgrade(&mechanism), bell));
        Simulation {
            inquiry: Inquiry {
                name: options.name,
                capacity,
                parallelism: 1,
                depth: 1,
                volume_block: BlockCount(1),
                atomic_write: BlockCount(1),
                physical_block: options.physical_block,
                discard: options.contents.discard_granularity(),
                wants_discards: false,
                volatile_cache: false,
                read_only: options.contents.is_read_only(),
                keeps_data: options.contents.keeps_data(),
            },
            contents: Mutex::new(options.contents),
            host_bus: options.host_bus,
            mechanism,
            stepper,
            latched: AtomicBool::new(false),
        }
    }

    /// An error when nothing may be asked of it now.
    fn check(&self) -> Result<()> {
        if self.stepper.is_ended() {
            return Err(self.is_still());
        }
        if self.latched.load(Ordering::Acquire) {
            return Err(Error::Latched { device: self.inquiry.name.clone() });
        }
        Ok(())
    }

    /// An error unless the device has `lbn`.
    fn check_lbn(&self, lbn: Lbn) -> Result<()> {
        self.inquiry.check_blocks(BlockRange::new(lbn, BlockCount(1)))
    }

    fn is_still(&self) -> Error {
        Error::RuntimeEnded { device: self.inquiry.name.clone() }
    }

    fn past_end(&self, lbn: Lbn) -> Error {
        Error::PastEnd {
            device: self.inquiry.name.clone(),
            blocks: BlockRange::new(lbn, BlockCount(1)),
            capacity: self.inquiry.capacity,
        }
    }

    /// Queues a request that was checked.
    fn enqueue(&self, request: &Request) -> oneshot::Receiver<DiskCompletion> {
        let direction = match request.op {
            Op::Read => Direction::Read,
            Op::Write => Direction::Write,
        };
        self.hand_over(|model, id| {
            model.submit(now(), DiskRequest { id, direction, blocks: request.blocks });
        })
    }

    /// Gives the model something under a new name, whose completion the receiver gets.
    fn hand_over(&self, give: impl FnOnce(&mut M, RequestId)) -> oneshot::Receiver<DiskCompletion> {
        let (sender, receiver) = oneshot::channel();
        let mut state = self.mechanism.state.lock();
        let id = state.next_id;
        state.next_id += 1;
        state.waiting.insert(id, sender);
        give(&mut state.model, id);
        receiver
    }

    /// Moves the data of a request whose time has come.
    fn transfer(&self, request: &mut Request) -> Result<()> {
        let mut at = request.blocks.first;
        let mut contents = self.contents.lock();
        for buffer in &mut request.data {
            match request.op {
                Op::Read => contents.read(at, buffer)?,
                Op::Write => contents.write(at, buffer)?,
            }
            at += buffer.blocks();
        }
        Ok(())
    }

    async fn finish(
        &self,
        mut request: Request,
        receiver: oneshot::Receiver<DiskCompletion>,
    ) -> Result<Completion> {
        let Ok(done) = receiver.await else {
            return Err(self.is_still());
        };
        let (mut finished, mut parts) = (done.finished, done.parts);
        if let Some(bus) = &self.host_bus {
            finished = bus.carry(finished, request.blocks.bytes());
            parts.bus += finished.since(done.finished);
            sleep_until(finished).await;
        }
        self.transfer(&mut request)?;
        Ok(Completion {
            data: request.data,
            timing: Timing {
                issued: done.issued,
                started: done.started,
                finished,
                parts: Some(parts),
            },
        })
    }

    async fn submit(&self, batch: Vec<Request>) -> Completions {
        // All of the batch is in the queue before the device chooses the first.
        let queued: Vec<_> = batch
            .into_iter()
            .map(|request| {
                self.check()?;
                request.check(&self.inquiry)?;
                let receiver = self.enqueue(&request);
                Ok((request, receiver))
            })
            .collect();
        self.mechanism.bell.notify_one();
        join_all(queued.into_iter().map(|entry| async {
            let (request, receiver) = entry?;
            self.finish(request, receiver).await
        }))
        .await
    }

    async fn flush(&self) -> Result<()> {
        self.check()?;
        if self.inquiry.volatile_cache {
            let written = self.hand_over(|model, id| model.flush(now(), id));
            self.mechanism.bell.notify_one();
            if written.await.is_err() {
                return Err(self.is_still());
            }
        }
        let contents = self.contents.lock();
        // Another flush may have failed meanwhile, and the file reports an error only once.
        self.check()?;
        let flushed = contents.flush();
        if flushed.is_err() {
            self.latched.store(true, Ordering::Release);
        }
        flushed
    }

    /// Frees what holds the contents; no time passes.
    fn discard(&self, blocks: BlockRange) -> Result<()> {
        self.check()?;
        let freed = self.inquiry.discardable(blocks)?;
        self.mechanism.state.lock().model.discard(freed);
        let contents = &mut self.contents.lock();
        match contents.discard_granularity() {
            None => Ok(()),
            Some(_) => contents.discard(freed),
        }
    }
}

/// Steps the model from event to event until the device is gone.
async fn step<M: Model>(mechanism: Weak<Mechanism<M>>, bell: Arc<Notify>) {
    let mut completions = Vec::new();
    loop {
        let next = {
            let Some(mechanism) = mechanism.upgrade() else {
                return;
            };
            let mut state = mechanism.state.lock();
            state.model.advance(now(), &mut completions);
            for done in completions.drain(..) {
                if let Some(sender) = state.waiting.remove(&done.id) {
                    // Nobody listens any more when the request's future was dropped.
                    let _ = sender.send(done);
                }
            }
            state.model.next_event()
        };
        match next {
            None => bell.notified().await,
            Some(at) => {
                tokio::select! {
                    biased;
                    () = bell.notified() => {}
                    () = sleep_until(at) => {}
                }
            }
        }
    }
}

impl<M> Drop for Simulation<M> {
    fn drop(&mut self) {
        self.stepper.abort();
    }
}

impl<M> fmt::Debug for Simulation<M> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Simulation({})", self.inquiry.name)
    }
}
