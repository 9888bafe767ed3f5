//! Transfers of a file by io_uring: a batch reaches the kernel in one call, and no thread waits for it.
//!
//! What makes it sound: buffers belong to the ring from before the kernel knows of them until it said that it is done
//! with them, whoever asked for them, and a ring ends only then.

#![expect(unsafe_code, reason = "the kernel is given addresses of buffers")]

use std::io;
use std::os::fd::{AsRawFd, RawFd};
use std::sync::{Arc, Weak};

use io_uring::{IoUring, Probe, opcode, types};
use moirai_runtime::{Task, Watched, now, spawn, watch};
use moirai_storage::{Op, Request};
use moirai_units::Instant;
use parking_lot::Mutex;
use rustix::event::{EventfdFlags, eventfd};
use rustix::io::Errno;
use slab::Slab;
use tokio::sync::oneshot;

/// Transfers that are handed over in one call.
const ENTRIES: u32 = 256;
/// Transfers of a batch at most: their numbers have so many bits.
const BATCH_BITS: u32 = 24;

/// A ring, and the task that takes from it what is done. It is used in one runtime at a time.
pub(crate) struct Ring {
    shared: Arc<Mutex<Transfers>>,
    taker: Mutex<Task<()>>,
}

/// A request that was carried out, or not: then it is the same as it was, but for what its buffers hold.
pub(crate) struct Carried {
    pub(crate) request: Request,
    pub(crate) is_whole: bool,
    pub(crate) started: Instant,
    pub(crate) finished: Instant,
}

/// Transfers that the kernel knows of.
struct Transfers {
    ring: IoUring,
    batches: Slab<Batch>,
    under_way: usize,
    /// The kernel takes no more.
    is_broken: bool,
}

struct Batch {
    carried: Vec<Carried>,
    /// Of each transfer, which request it is of and how many bytes it has.
    transfers: Vec<(usize, usize)>,
    left: usize,
    /// Who waits for it; `None` once it was told.
    done: Option<oneshot::Sender<Vec<Carried>>>,
}

impl Ring {
    /// A ring; `None` where the system gives none that reads and writes.
    pub(crate) fn new() -> Option<Ring> {
        let made = Ring::make();
        if let Err(error) = &made {
            tracing::debug!("no io_uring, so threads do the transfers: {error}");
        }
        made.ok()
    }

    fn make() -> io::Result<Ring> {
        let ring = IoUring::new(ENTRIES)?;
        let mut probe = Probe::new();
        ring.submitter().register_probe(&mut probe)?;
        if !probe.is_supported(opcode::Read::CODE) || !probe.is_supported(opcode::Write::CODE) {
            return Err(io::Error::other(
                "the kernel's io_uring does not support reads and writes",
            ));
        }
        let transfers = Transfers { ring, batches: Slab::new(), under_way: 0, is_broken: false };
        let shared = Arc::new(Mutex::new(transfers));
        let taker = Mutex::new(taker(&shared)?);
        Ok(Ring { shared, taker })
    }

    /// Carries requests out, each in the files that `file_of` tells for an offset and a buffer. An error when the
    /// kernel takes none any more.
    pub(crate) async fn carry_out(
        &self,
        requests: Vec<Request>,
        file_of: impl Fn(u64, &[u8]) -> RawFd + Send,
    ) -> io::Result<Vec<Carried>> {
        self.keep_taking()?;
        let done = self.shared.lock().begin(requests, file_of)?;
        done.await.map_err(|_| io::Error::other("an earlier call of io_uring failed"))
    }

    /// What was opened in one runtime may be used in another one, after the first has ended with its tasks.
    fn keep_taking(&self) -> io::Result<()> {
        let mut task = self.taker.lock();
        if task.is_ended() {
            *task = taker(&self.shared)?;
        }
        Ok(())
    }
}

impl Drop for Ring {
    /// Waits for what is under way: the files are closed next.
    fn drop(&mut self) {
        self.taker.lock().abort();
        self.shared.lock().wait();
    }
}

/// A task that tells of transfers that are done, as long as the ring is there.
fn taker(shared: &Arc<Mutex<Transfers>>) -> io::Result<Task<()>> {
    let event = eventfd(0, EventfdFlags::NONBLOCK | EventfdFlags::CLOEXEC)?;
    {
        let transfers = shared.lock();
        let submitter = transfers.ring.submitter();
        // That of an ended runtime.
        let _ = submitter.unregister_eventfd();
        submitter.register_eventfd(event.as_raw_fd())?;
    }
    let (watched, shared) = (watch(event)?, Arc::downgrade(shared));
    Ok(spawn(take_forever(watched, shared)))
}

async fn take_forever(watched: Watched, shared: Weak<Mutex<Transfers>>) {
    while let Some(transfers) = shared.upgrade() {
        transfers.lock().take_done(Some(now()));
        drop(transfers);
        if watched.readable().await.is_err() {
            return;
        }
    }
}

impl Transfers {
    fn begin(
        &mut self,
        requests: Vec<Request>,
        file_of: impl Fn(u64, &[u8]) -> RawFd,
    ) -> io::Result<oneshot::Receiver<Vec<Carried>>> {
        if self.is_broken {
            return Err(io::Error::other("an earlier call of io_uring failed"));
        }
        let (done, receiver) = oneshot::channel();
        let started = now();
        let carried: Vec<Carried> = requests
            .into_iter()
            .map(|request| Carried { request, is_whole: true, started, finished: started })
            .collect();
        let count = carried.iter().map(|one| one.request.data.len()).sum();
        if count == 0 || count >> BATCH_BITS > 0 {
            let problem = format!("a batch of {count} transfers");
            return Err(io::Error::new(io::ErrorKind::InvalidInput, problem));
        }
        let batch =
            Batch { carried, transfers: Vec::with_capacity(count), left: count, done: Some(done) };
        let slot = self.batches.insert(batch);
        let mut entries = Vec::with_capacity(count);
        if let Some(batch) = self.batches.get_mut(slot) {
            for (index, one) in batch.carried.iter_mut().enumerate() {
                let mut offset = one.request.blocks.first.byte_offset();
                for buffer in &mut one.request.data {
                    let file = types::Fd(file_of(offset, buffer));
                    let (address, bytes) = (buffer.as_mut_ptr(), buffer.len());
                    // Longer ones than the kernel transfers at once come back short.
                    let length = u32::try_from(bytes).unwrap_or(u32::MAX);
                    let entry = match one.request.op {
                        Op::Read => opcode::Read::new(file, address, length).offset(offset).build(),
                        Op::Write => {
                            opcode::Write::new(file, address, length).offset(offset).build()
                        }
                    };
                    let number = (slot as u64) << BATCH_BITS | batch.transfers.len() as u64;
                    entries.push(entry.user_data(number));
                    batch.transfers.push((index, bytes));
                    offset += bytes as u64;
                }
            }
        }
        for entry in &entries {
            // SAFETY: the buffer is the batch's, which stays in `batches` until the kernel is done with all of its
            // transfers; that it moves there moves no buffer.
            while unsafe { self.ring.submission().push(entry) }.is_err() {
                self.hand_over()?;
            }
            self.under_way += 1;
        }
        self.hand_over()?;
        Ok(receiver)
    }

    /// Hands over what the kernel has not been told yet.
    fn hand_over(&mut self) -> io::Result<()> {
        while !self.ring.submission().is_empty() {
            let Err(error) = self.ring.submit() else { continue };
            match Errno::from_io_error(&error) {
                Some(Errno::INTR) => {}
                // It has no room for more results, or no memory for more transfers.
                Some(Errno::BUSY | Errno::AGAIN) => self.take_done(Some(now())),
                _ => {
                    // What it was not told it is never told; buffers stay, and who waits for them is told.
                    self.is_broken = true;
                    self.batches.iter_mut().for_each(|(_, batch)| batch.done = None);
                    return Err(error);
                }
            }
        }
        Ok(())
    }

    /// Tells of what is done, at `finished`; nobody, when nobody is there to be told.
    fn take_done(&mut self, finished: Option<Instant>) {
        loop {
            self.take_some(finished);
            // More was done than the queue of results holds; of that there is no event.
            if !self.ring.submission().cq_overflow() || self.ring.submit().is_err() {
                return;
            }
        }
    }

    fn take_some(&mut self, finished: Option<Instant>) {
        for entry in self.ring.completion() {
            self.under_way = self.under_way.saturating_sub(1);
            let slot = (entry.user_data() >> BATCH_BITS) as usize;
            let Some(batch) = self.batches.get_mut(slot) else { continue };
            let transfer = (entry.user_data() & ((1 << BATCH_BITS) - 1)) as usize;
            if let Some((request, bytes)) = batch.transfers.get(transfer)
                && let Some(one) = batch.carried.get_mut(*request)
            {
                one.is_whole &= usize::try_from(entry.result()) == Ok(*bytes);
                one.finished = finished.unwrap_or(one.finished);
            }
            batch.left -= 1;
            if batch.left == 0 {
                let mut batch = self.batches.remove(slot);
                if let Some(done) = batch.done.take().filter(|_| finished.is_some()) {
                    // Who asked may have gone.
                    let _ = done.send(std::mem::take(&mut batch.carried));
                }
            }
        }
    }

    /// Returns when the kernel uses no buffer any more.
    fn wait(&mut self) {
        while self.under_way > 0 && !self.is_broken {
            let waited = self.ring.submit_and_wait(1);
            self.take_done(None);
            let errno = waited.err().and_then(|error| Errno::from_io_error(&error));
            self.is_broken = errno.is_some_and(|errno| errno != Errno::INTR);
        }
        if self.is_broken {
            // Buffers that the kernel may still use are never given back.
            std::mem::forget(std::mem::take(&mut self.batches));
        }
    }
}

impl Drop for Transfers {
    fn drop(&mut self) {
        self.wait();
    }
}

#[cfg(test)]
mod tests {
    use std::os::fd::AsRawFd;

    use futures::FutureExt;
    use moirai_runtime::block_on_real;
    use moirai_storage::IoBuf;
    use moirai_units::{BlockCount, BlockRange, Lbn};

    use super::*;

    /// A file of a number in each block, and requests for `count` of them.
    fn numbered(count: u64) -> (std::fs::File, Vec<Request>) {
        let mut file = tempfile::tempfile().unwrap();
        let blocks = (0..count).flat_map(|number| [number.to_le_bytes(); 64].concat());
        io::Write::write_all(&mut file, &blocks.collect::<Vec<u8>>()).unwrap();
        let read = |number| Request::read(BlockRange::new(Lbn(number), BlockCount(1)));
        (file, (0..count).map(read).collect())
    }

    fn number(buffer: &IoBuf) -> u64 {
        u64::from_le_bytes(*buffer.first_chunk().unwrap())
    }

    #[test]
    fn more_transfers_than_the_queues_hold_are_carried_out() {
        let (file, requests) = numbered(3000);
        block_on_real(1, async {
            let Some(ring) = Ring::new() else { return };
            let carried = ring.carry_out(requests, |_, _| file.as_raw_fd()).await.unwrap();
            for (place, one) in (0..).zip(&carried) {
                assert!(one.is_whole && one.finished >= one.started);
                assert_eq!(number(&one.request.data[0]), place);
            }
            assert_eq!(carried.len(), 3000);
        });
    }

    #[test]
    fn what_nobody_waits_for_ends_before_the_ring() {
        let (file, requests) = numbered(700);
        let mut ring = None;
        for mut requests in [requests, numbered(700).1] {
            let later = requests.split_off(350);
            ring = block_on_real(1, async {
                let ring = ring.or_else(Ring::new)?;
                // Asked for, and left.
                let asked = ring.carry_out(requests, |_, _| file.as_raw_fd()).now_or_never();
                drop(asked);
                let carried = ring.carry_out(later, |_, _| file.as_raw_fd()).await.unwrap();
                assert_eq!(number(&carried[349].request.data[0]), 699);
                drop(ring.carry_out(numbered(9).1, |_, _| file.as_raw_fd()).now_or_never());
                Some(ring)
            });
        }
        // Outside any runtime.
        drop(ring);
    }

    #[test]
    fn a_transfer_behind_the_end_is_not_whole() {
        let (file, mut requests) = numbered(8);
        requests.push(Request::read(BlockRange::new(Lbn(7), BlockCount(2))));
        block_on_real(1, async {
            let Some(ring) = Ring::new() else { return };
            let carried = ring.carry_out(requests, |_, _| file.as_raw_fd()).await.unwrap();
            let whole: Vec<bool> = carried.iter().map(|one| one.is_whole).collect();
            assert_eq!(whole, [true, true, true, true, true, true, true, true, false]);
        });
    }
}
