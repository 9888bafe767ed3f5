//! A simulated disk behind the storage interface: the model supplies the times, `Contents` the data.

mod diagnostics;

use std::collections::BTreeMap;
use std::fmt;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Weak};

use futures::future::{BoxFuture, join_all};
use moirai_models::{
    Direction, Disk, DiskCompletion, DiskRequest, Geometry, ImmediateReport, Profile, RequestId,
    Scheduler, Track,
};
use moirai_runtime::{Task, now, sleep_until, spawn};
use moirai_storage::{
    Completion, Completions, Device, Diagnostics, Discarded, Ensemble, EquivalenceClass, Error,
    Flushed, Inquiry, Op, Request, Result, Timing,
};
use moirai_units::{BlockCount, BlockRange, Lbn};
use parking_lot::Mutex;
use tokio::sync::{Notify, oneshot};

use crate::{Contents, HostBus};

/// How to simulate a disk.
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

/// A disk that exists in virtual time (or runs in step with the clock, under real time).
pub struct SimulatedDisk {
    inquiry: Inquiry,
    geometry: Geometry,
    contents: Mutex<Contents>,
    host_bus: Option<Arc<HostBus>>,
    mechanism: Arc<Mechanism>,
    stepper: Task<()>,
    /// Set by a failed flush and never cleared.
    latched: AtomicBool,
}

/// What the device shares with the task that steps the model.
struct Mechanism {
    state: Mutex<MechanismState>,
    /// Rung when a request came.
    bell: Arc<Notify>,
}

struct MechanismState {
    disk: Disk,
    next_id: RequestId,
    waiting: BTreeMap<RequestId, oneshot::Sender<DiskCompletion>>,
}

impl SimulatedDisk {
    /// Starts a disk at rest.
    ///
    /// # Panics
    /// Outside a runtime.
    #[must_use]
    pub fn start(profile: Profile, options: SimulatedOptions) -> Arc<SimulatedDisk> {
        let geometry = profile.geometry.clone();
        let cache = profile.electronics.cache.as_ref();
        let writes_back =
            cache.is_some_and(|cache| cache.immediate_report != ImmediateReport::None);
        let bell = Arc::new(Notify::new());
        let mechanism = Arc::new(Mechanism {
            state: Mutex::new(MechanismState {
                disk: Disk::new(profile, options.scheduler),
                next_id: 0,
                waiting: BTreeMap::new(),
            }),
            bell: Arc::clone(&bell),
        });
        let stepper = spawn(step(Arc::downgrade(&mechanism), bell));
        Arc::new(SimulatedDisk {
            inquiry: Inquiry {
                name: options.name,
                capacity: geometry.capacity(),
                parallelism: 1,
                depth: 1,
                volume_block: BlockCount(1),
                atomic_write: BlockCount(1),
                physical_block: options.physical_block,
                discard: options.contents.discard_granularity(),
                volatile_cache: writes_back,
                read_only: options.contents.is_read_only(),
                keeps_data: options.contents.keeps_data(),
            },
            geometry,
            contents: Mutex::new(options.contents),
            host_bus: options.host_bus,
            mechanism,
            stepper,
            latched: AtomicBool::new(false),
        })
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

    fn is_still(&self) -> Error {
        Error::RuntimeEnded { device: self.inquiry.name.clone() }
    }

    fn track(&self, lbn: Lbn) -> Result<Track> {
        self.geometry.track(lbn).ok_or_else(|| self.past_end(lbn))
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
        self.hand_over(|disk, id| {
            disk.submit(now(), DiskRequest { id, direction, blocks: request.blocks });
        })
    }

    /// Gives the model something under a new name, whose completion the receiver gets.
    fn hand_over(
        &self,
        give: impl FnOnce(&mut Disk, RequestId),
    ) -> oneshot::Receiver<DiskCompletion> {
        let (sender, receiver) = oneshot::channel();
        let mut state = self.mechanism.state.lock();
        let id = state.next_id;
        state.next_id += 1;
        state.waiting.insert(id, sender);
        give(&mut state.disk, id);
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
}

/// Steps the model from event to event until the device is gone.
async fn step(mechanism: Weak<Mechanism>, bell: Arc<Notify>) {
    let mut completions = Vec::new();
    loop {
        let next = {
            let Some(mechanism) = mechanism.upgrade() else {
                return;
            };
            let mut state = mechanism.state.lock();
            state.disk.advance(now(), &mut completions);
            for done in completions.drain(..) {
                if let Some(sender) = state.waiting.remove(&done.id) {
                    // Nobody listens any more when the request's future was dropped.
                    let _ = sender.send(done);
                }
            }
            state.disk.next_event()
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

impl Drop for SimulatedDisk {
    fn drop(&mut self) {
        self.stepper.abort();
    }
}

impl fmt::Debug for SimulatedDisk {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "SimulatedDisk({})", self.inquiry.name)
    }
}

impl Device for SimulatedDisk {
    fn inquiry(&self) -> &Inquiry {
        &self.inquiry
    }

    fn ensemble(&self, lbn: Lbn) -> Result<Ensemble> {
        self.track(lbn).map(|track| Ensemble {
            blocks: track.blocks,
            switch: BlockCount(u64::from(track.next_skew)),
        })
    }

    fn parallel_ensemble(&self, lbn: Lbn) -> Result<BlockRange> {
        self.track(lbn).map(|track| track.blocks)
    }

    fn equivalent(&self, lbn: Lbn) -> Result<EquivalenceClass> {
        self.track(lbn).map(|_| EquivalenceClass::single(lbn))
    }

    fn submit(&self, batch: Vec<Request>) -> BoxFuture<'_, Completions> {
        Box::pin(async move {
            // All of the batch is in the queue before the disk chooses the first.
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
        })
    }

    fn flush(&self) -> Flushed<'_> {
        Box::pin(async {
            self.check()?;
            if self.inquiry.volatile_cache {
                let written = self.hand_over(|disk, id| disk.flush(now(), id));
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
        })
    }

    /// Frees what holds the contents. The drives that are modelled know no discard, so the model is not told
    /// and no time passes.
    fn discard(&self, blocks: BlockRange) -> Discarded<'_> {
        Box::pin(async move {
            self.check()?;
            let freed = self.inquiry.discardable(blocks)?;
            self.contents.lock().discard(freed)
        })
    }

    fn diagnostics(&self) -> Option<&dyn Diagnostics> {
        Some(self)
    }
}

#[cfg(test)]
mod tests {
    use std::fs::File;

    use futures::future::join;
    use moirai_runtime::block_on_virtual;

    use super::*;

    #[test]
    fn a_flush_that_succeeds_does_not_clear_the_latch_of_one_that_failed() {
        block_on_virtual(1, async {
            // A null device cannot be synchronized.
            let path = "/dev/null".into();
            let contents = Contents::File {
                file: File::open("/dev/null").unwrap(),
                path,
                is_read_only: false,
            };
            let disk = SimulatedDisk::start(
                Profile::built_in("ibm-ultrastar-18lzx").unwrap(),
                SimulatedOptions {
                    name: "disk".to_owned(),
                    scheduler: Scheduler::Fcfs,
                    contents,
                    physical_block: BlockCount(1),
                    host_bus: None,
                },
            );
            let failing = async {
                let flushed = disk.flush().await;
                *disk.contents.lock() = Contents::memory();
                flushed
            };
            let (failed, flushed) = join(failing, disk.flush()).await;
            assert!(failed.is_err() && matches!(flushed, Err(Error::Latched { .. })));
            assert!(matches!(disk.flush().await, Err(Error::Latched { .. })));
        });
    }
}
