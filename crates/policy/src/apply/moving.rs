//! An object that moves while it is used.
//!
//! Invariants:
//! 1. Until the switch, reads see the old place, which has every write. After it, all requests go to the
//!    new place.
//! 2. All blocks before `copied` are alike in both places, but for writes in flight. Writes to the same
//!    block follow each other.
//! 3. No write is in flight to blocks that are being copied or compared: the one that comes second waits.
//! 4. A write that fails in the new place ends the move and not the write.
//! 5. No request is in flight to the old place once the move has ended: another object may lie there next.

use std::sync::Arc;

use futures::future::BoxFuture;
use moirai_storage::{
    Completions, Device, Discarded, Ensemble, EquivalenceClass, Flushed, Inquiry, IoBuf, Op,
    Request,
};
use moirai_units::{BlockCount, BlockRange, Lbn};
use parking_lot::Mutex;
use tokio::sync::Notify;

use crate::error::{Error, Result};

/// Blocks that are copied at once: 1 MiB.
const COPIED_BLOCKS: u64 = 2048;

/// An object in its old place and in its new one; a device that serves it.
pub struct Moving {
    from: Arc<dyn Device>,
    to: Arc<dyn Device>,
    blocks: BlockCount,
    state: Mutex<State>,
    /// Rung when a write ends, and when blocks have been copied.
    changed: Notify,
}

#[derive(Debug, Default)]
struct State {
    /// Blocks before this are in both places.
    copied: Lbn,
    /// What is being copied or compared.
    busy: Option<BlockRange>,
    /// Writes in flight.
    writes: Vec<BlockRange>,
    /// Reads in flight to the old place.
    old_reads: usize,
    /// Why the new place cannot be used.
    failed: Option<moirai_storage::Error>,
    /// Whether the object lies in the new place.
    is_switched: bool,
}

impl std::fmt::Debug for Moving {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Moving").field("from", self.from.inquiry()).finish_non_exhaustive()
    }
}

impl Moving {
    /// The first `blocks` of `from`, which move to `to`.
    #[must_use]
    pub fn new(from: Arc<dyn Device>, to: Arc<dyn Device>, blocks: BlockCount) -> Arc<Moving> {
        let (state, changed) = (Mutex::default(), Notify::new());
        Arc::new(Moving { from, to, blocks, state, changed })
    }

    /// Copies all blocks, and tells `report` how many are done.
    ///
    /// # Errors
    /// When a device fails.
    pub async fn copy(&self, mut report: impl FnMut(BlockCount)) -> Result<()> {
        let mut at = Lbn(0);
        while at.0 < self.blocks.0 {
            let part = self.part(at);
            let _busy = self.occupy(part).await;
            let data = self.from.read(part).await?;
            self.to.write(part.first, data).await?;
            self.state.lock().copied = part.end();
            at = part.end();
            report(BlockCount(at.0));
        }
        self.to.flush().await?;
        self.check()
    }

    /// An error when a write failed in the new place.
    fn check(&self) -> Result<()> {
        match self.state.lock().failed.take() {
            Some(error) => Err(error.into()),
            None => Ok(()),
        }
    }

    /// Makes the new place the object's, as `commit` notes durably: all requests go there from then on. Writes wait
    /// meanwhile, so that none is missing in the new place.
    ///
    /// # Errors
    /// When a write has failed in the new place, or as of `commit`: the object stays where it was.
    pub(super) async fn switch(&self, commit: impl FnOnce() -> Result<()>) -> Result<()> {
        let busy = self.occupy(BlockRange::new(Lbn(0), self.blocks)).await;
        self.to.flush().await?;
        self.check()?;
        commit()?;
        self.state.lock().is_switched = true;
        drop(busy);
        self.when(|state| state.old_reads == 0).await;
        Ok(())
    }

    async fn read(&self, request: Request) -> moirai_storage::Result<moirai_storage::Completion> {
        let in_flight = {
            let mut state = self.state.lock();
            let is_old = !state.is_switched;
            state.old_reads += usize::from(is_old);
            is_old.then_some(OldRead(self))
        };
        let device = if in_flight.is_some() { &self.from } else { &self.to };
        device.access(request).await
    }

    /// Compares both places block by block, and tells `report` how many are done.
    ///
    /// # Errors
    /// When a device fails, or the places differ.
    pub async fn compare(&self, mut report: impl FnMut(BlockCount)) -> Result<()> {
        let mut at = Lbn(0);
        while at.0 < self.blocks.0 {
            let part = self.part(at);
            let _busy = self.occupy(part).await;
            let (old, new) = (self.from.read(part).await?, self.to.read(part).await?);
            if old[..] != new[..] {
                return Err(Error::Mismatch(format!(
                    "{} of {} are not the same after they were copied: the object stays where it was; \
                     scrub the volume",
                    part,
                    self.from.inquiry().name
                )));
            }
            at = part.end();
            report(BlockCount(at.0));
        }
        self.check()
    }

    fn part(&self, at: Lbn) -> BlockRange {
        BlockRange::between(at, Lbn((at.0 + COPIED_BLOCKS).min(self.blocks.0)))
    }

    /// Keeps new writes away from `part` until what is given is dropped; waits for those in flight.
    async fn occupy(&self, part: BlockRange) -> Busy<'_> {
        self.state.lock().busy = Some(part);
        let busy = Busy(self);
        self.when(|state| !state.writes.iter().any(|write| write.overlaps(part))).await;
        busy
    }

    /// Waits until `holds`.
    async fn when(&self, holds: impl Fn(&mut State) -> bool) {
        loop {
            let mut changed = std::pin::pin!(self.changed.notified());
            changed.as_mut().enable();
            if holds(&mut self.state.lock()) {
                return;
            }
            changed.await;
        }
    }

    /// Notes a write of `blocks` once nothing that is copied or written overlaps it.
    async fn begin_write(&self, blocks: BlockRange) -> InFlight<'_> {
        self.when(|state| {
            let is_free = !state.busy.is_some_and(|busy| busy.overlaps(blocks))
                && !state.writes.iter().any(|write| write.overlaps(blocks));
            if is_free {
                state.writes.push(blocks);
            }
            is_free
        })
        .await;
        InFlight(self, blocks)
    }

    async fn write(&self, request: Request) -> moirai_storage::Result<moirai_storage::Completion> {
        let _in_flight = self.begin_write(request.blocks).await;
        let (is_switched, goes_to_both) = {
            let state = self.state.lock();
            // What lies after the copied blocks is copied later, over what is written now.
            (state.is_switched, request.blocks.first < state.copied && state.failed.is_none())
        };
        if is_switched {
            return self.to.access(request).await;
        }
        if !goes_to_both {
            return self.from.access(request).await;
        }
        let other = Request { op: Op::Write, blocks: request.blocks, data: copied(&request.data) };
        let (old, new) = futures::join!(self.from.access(request), self.to.access(other));
        if let Err(error) = new {
            self.state.lock().failed = Some(error);
        }
        old
    }
}

/// The same bytes once more.
fn copied(data: &[IoBuf]) -> Vec<IoBuf> {
    data.iter().map(|part| IoBuf::holding(part)).collect()
}

/// Blocks that are being copied.
struct Busy<'a>(&'a Moving);

impl Drop for Busy<'_> {
    fn drop(&mut self) {
        self.0.state.lock().busy = None;
        self.0.changed.notify_waiters();
    }
}

/// A read in flight to the old place.
struct OldRead<'a>(&'a Moving);

impl Drop for OldRead<'_> {
    fn drop(&mut self) {
        self.0.state.lock().old_reads -= 1;
        self.0.changed.notify_waiters();
    }
}

/// A write in flight.
struct InFlight<'a>(&'a Moving, BlockRange);

impl Drop for InFlight<'_> {
    fn drop(&mut self) {
        let mut state = self.0.state.lock();
        if let Some(index) = state.writes.iter().position(|blocks| *blocks == self.1) {
            state.writes.swap_remove(index);
        }
        drop(state);
        self.0.changed.notify_waiters();
    }
}

impl Device for Moving {
    fn inquiry(&self) -> &Inquiry {
        self.from.inquiry()
    }

    fn ensemble(&self, lbn: Lbn) -> moirai_storage::Result<Ensemble> {
        self.from.ensemble(lbn)
    }

    fn parallel_ensemble(&self, lbn: Lbn) -> moirai_storage::Result<BlockRange> {
        self.from.parallel_ensemble(lbn)
    }

    fn equivalent(&self, lbn: Lbn) -> moirai_storage::Result<EquivalenceClass> {
        self.from.equivalent(lbn)
    }

    fn submit(&self, batch: Vec<Request>) -> BoxFuture<'_, Completions> {
        Box::pin(async move {
            let each = batch.into_iter().map(|request| async move {
                match (request.op, request.check(self.inquiry())) {
                    (_, Err(error)) => Err(error),
                    (Op::Read, Ok(())) => self.read(request).await,
                    (Op::Write, Ok(())) => self.write(request).await,
                }
            });
            futures::future::join_all(each).await
        })
    }

    fn flush(&self) -> Flushed<'_> {
        Box::pin(async move {
            let (old, new) = futures::join!(self.from.flush(), self.to.flush());
            let mut state = self.state.lock();
            if state.is_switched {
                return new;
            }
            if let Err(error) = new {
                state.failed = Some(error);
            }
            old
        })
    }

    /// Nothing is discarded while the object moves: the copy would write the blocks again.
    fn discard(&self, blocks: BlockRange) -> Discarded<'_> {
        let checked = self.inquiry().check_blocks(blocks);
        Box::pin(async move { checked })
    }
}

#[cfg(test)]
mod tests {
    use moirai_devices::{FaultyDevice, Power};
    use moirai_runtime::{block_on_virtual, sleep, spawn};
    use moirai_units::Nanos;

    use super::*;

    /// A device on which writes of one block take long, and fail.
    #[derive(Debug)]
    struct Failing(Arc<FaultyDevice>);

    impl Device for Failing {
        fn inquiry(&self) -> &Inquiry {
            self.0.inquiry()
        }

        fn ensemble(&self, lbn: Lbn) -> moirai_storage::Result<Ensemble> {
            self.0.ensemble(lbn)
        }

        fn parallel_ensemble(&self, lbn: Lbn) -> moirai_storage::Result<BlockRange> {
            self.0.parallel_ensemble(lbn)
        }

        fn equivalent(&self, lbn: Lbn) -> moirai_storage::Result<EquivalenceClass> {
            self.0.equivalent(lbn)
        }

        fn submit(&self, batch: Vec<Request>) -> BoxFuture<'_, Completions> {
            Box::pin(async move {
                let fails =
                    |one: &Request| one.op == Op::Write && one.blocks.count == BlockCount(1);
                if batch.iter().any(fails) {
                    sleep(Nanos(100_000_000)).await;
                    let device = || self.inquiry().name.clone();
                    let error = || moirai_storage::Error::Latched { device: device() };
                    return batch.iter().map(|_| Err(error())).collect();
                }
                self.0.submit(batch).await
            })
        }

        fn flush(&self) -> Flushed<'_> {
            self.0.flush()
        }
    }

    #[test]
    fn a_write_that_fails_in_the_new_place_during_the_switch_is_not_lost() {
        block_on_virtual(1, async {
            let device = |name: &str| {
                FaultyDevice::new(name.into(), BlockCount(4096), BlockCount(16), Power::on())
            };
            let moving =
                Moving::new(device("old"), Arc::new(Failing(device("new"))), BlockCount(4096));
            moving.copy(|_| ()).await.unwrap();
            moving.compare(|_| ()).await.unwrap();
            let served: Arc<dyn Device> = moving.clone();
            let client = Arc::clone(&served);
            let written =
                spawn(async move { client.write(Lbn(9), IoBuf::holding(&[7; 512])).await });
            sleep(Nanos(1)).await;
            let mut is_switched = false;
            let switched = moving.switch(|| {
                is_switched = true;
                Ok(())
            });
            assert!(switched.await.is_err());
            assert!(!is_switched);
            written.await.unwrap();
            let read = served.read(BlockRange::new(Lbn(9), BlockCount(1))).await.unwrap();
            assert_eq!(read[..], [7; 512]);
        });
    }

    #[test]
    fn a_move_ends_when_no_read_is_in_flight_to_the_old_place() {
        block_on_virtual(1, async {
            let device = |name: &str| {
                FaultyDevice::new(name.into(), BlockCount(4096), BlockCount(16), Power::on())
            };
            let moving = Moving::new(device("old"), device("new"), BlockCount(4096));
            moving.copy(|_| ()).await.unwrap();
            let client: Arc<dyn Device> = moving.clone();
            let all = BlockRange::new(Lbn(0), BlockCount(4096));
            let reads: Vec<_> = (0..20)
                .map(|_| {
                    let client = Arc::clone(&client);
                    spawn(async move { client.read(all).await.map(drop) })
                })
                .collect();
            sleep(Nanos(1)).await;
            assert!(moving.state.lock().old_reads > 0);
            moving.switch(|| Ok(())).await.unwrap();
            assert_eq!(moving.state.lock().old_reads, 0);
            for read in reads {
                read.await.unwrap();
            }
        });
    }
}
