//! What a trace is replayed onto: drive models stepped directly, or devices behind the interface.
//!
//! Both keep the same promises, so that one loop drives them: a request is handed over at the
//! current time, and time passes only in [`Target::run`].

use std::future::{Future, poll_fn};
use std::sync::Arc;
use std::task::Poll;

use futures::FutureExt;
use futures::future::BoxFuture;
use futures::stream::{FuturesUnordered, StreamExt};
use moirai_models::{Direction, Disk, DiskCompletion, DiskRequest};
use moirai_runtime::{now, sleep_until};
use moirai_storage::{Completion, Device, IoBuf, Op, Request};
use moirai_units::{BlockCount, BlockRange, Instant, Nanos, ServiceParts};

/// Names a request that is under way; used again once it is done.
pub type Ticket = u32;

/// A request that is done.
#[derive(Clone, Copy, Debug)]
pub struct Done {
    /// Which request.
    pub ticket: Ticket,
    /// When it was handed over.
    pub issued: Instant,
    /// When work on it began.
    pub started: Instant,
    /// When it was done.
    pub finished: Instant,
    /// Where the time went, on devices that know.
    pub parts: Option<ServiceParts>,
}

/// Devices that take the requests of a trace.
pub trait Target {
    /// Their names and sizes.
    fn devices(&self) -> Vec<(String, BlockCount)>;

    /// The time at which a replay begins.
    fn start(&self) -> Instant {
        Instant::ZERO
    }

    /// Hands a request over at the time `at`, which is now, or has been on devices that run by
    /// themselves.
    fn submit(&mut self, at: Instant, device: usize, op: Op, blocks: BlockRange, ticket: Ticket);

    /// Lets time pass until `until`, or without that until a request is done; adds what is done.
    fn run(
        &mut self,
        until: Option<Instant>,
        done: &mut Vec<Done>,
    ) -> impl Future<Output = Result<(), moirai_storage::Error>>;

    /// After all requests are done, at `now`: finishes what the mechanisms still do for them, such
    /// as writes that were reported early. Gives when that ends, where somebody knows.
    fn settle(&mut self, _now: Instant) -> Option<Instant> {
        None
    }

    /// How many mechanisms they have.
    fn mechanisms(&self) -> usize {
        self.devices().len()
    }

    /// How long the devices' mechanisms have worked for requests, all together; `None` where nobody
    /// knows.
    fn busy(&self) -> Option<Nanos>;
}

/// Simulated drives whose models are stepped directly: the fastest way to replay onto them.
#[derive(Debug)]
pub struct Drives {
    drives: Vec<(String, Disk)>,
    done: Vec<DiskCompletion>,
}

impl Drives {
    /// Drives with their names.
    #[must_use]
    pub fn new(drives: Vec<(String, Disk)>) -> Drives {
        Drives { drives, done: Vec::new() }
    }
}

/// When something happens next on any of `drives`.
pub(crate) fn next_event<'d>(drives: impl IntoIterator<Item = &'d Disk>) -> Option<Instant> {
    drives.into_iter().filter_map(Disk::next_event).min()
}

/// Has `drives` write all that they reported early; gives when the last is done.
pub(crate) fn settle<'d>(
    drives: impl Iterator<Item = &'d mut Disk>,
    now: Instant,
) -> Option<Instant> {
    let mut done = Vec::new();
    for disk in drives {
        disk.flush(now, FLUSH);
        while let Some(at) = disk.next_event() {
            disk.advance(at, &mut done);
        }
    }
    done.iter().map(|completion| completion.finished).max()
}

impl Target for Drives {
    fn devices(&self) -> Vec<(String, BlockCount)> {
        let size = |disk: &Disk| disk.profile().geometry.capacity();
        self.drives.iter().map(|(name, disk)| (name.clone(), size(disk))).collect()
    }

    fn submit(&mut self, at: Instant, device: usize, op: Op, blocks: BlockRange, ticket: Ticket) {
        let direction = match op {
            Op::Read => Direction::Read,
            Op::Write => Direction::Write,
        };
        if let Some((_, disk)) = self.drives.get_mut(device) {
            disk.submit(at, DiskRequest { id: u64::from(ticket), direction, blocks });
        }
    }

    async fn run(
        &mut self,
        until: Option<Instant>,
        done: &mut Vec<Done>,
    ) -> Result<(), moirai_storage::Error> {
        if let (Some(until), [(_, disk)]) = (until, self.drives.as_mut_slice()) {
            disk.advance(until, &mut self.done);
        } else {
            let next = |drives: &[(String, Disk)]| next_event(drives.iter().map(|(_, disk)| disk));
            let due = |at: &Instant| until.is_none_or(|end| *at <= end);
            while let Some(at) = next(&self.drives).filter(due) {
                for (_, disk) in &mut self.drives {
                    disk.advance(at, &mut self.done);
                }
                if until.is_none() && !self.done.is_empty() {
                    break;
                }
            }
        }
        done.extend(self.done.drain(..).map(|completion| Done {
            ticket: completion.id as Ticket,
            issued: completion.issued,
            started: completion.started,
            finished: completion.finished,
            parts: Some(completion.parts),
        }));
        Ok(())
    }

    fn settle(&mut self, now: Instant) -> Option<Instant> {
        settle(self.drives.iter_mut().map(|(_, disk)| disk), now)
    }

    fn busy(&self) -> Option<Nanos> {
        Some(self.drives.iter().map(|(_, disk)| disk.media_busy()).sum())
    }
}

/// The flush at the end of a replay: no ticket is as large.
const FLUSH: u64 = u64::MAX;

type Pending = BoxFuture<'static, (Ticket, Result<Completion, moirai_storage::Error>)>;

/// Devices behind the storage interface: volumes, files, and disks in virtual or real time.
pub struct Devices {
    devices: Vec<Arc<dyn Device>>,
    pending: FuturesUnordered<Pending>,
}

impl Devices {
    /// A target over `devices`. Inside a runtime only.
    #[must_use]
    pub fn new(devices: Vec<Arc<dyn Device>>) -> Devices {
        Devices { devices, pending: FuturesUnordered::new() }
    }

    /// Adds a request that is done.
    fn note(
        finished: (Ticket, Result<Completion, moirai_storage::Error>),
        done: &mut Vec<Done>,
    ) -> Result<(), moirai_storage::Error> {
        let (ticket, completion) = finished;
        let timing = completion?.timing;
        done.push(Done {
            ticket,
            issued: timing.issued,
            started: timing.started,
            finished: timing.finished,
            parts: timing.parts,
        });
        Ok(())
    }
}

/// Lets other tasks run once: without that tokio keeps what is ready from one that never waits.
async fn give_way() {
    let mut given = false;
    poll_fn(|context| {
        if std::mem::replace(&mut given, true) {
            return Poll::Ready(());
        }
        context.waker().wake_by_ref();
        Poll::Pending
    })
    .await;
}

impl Target for Devices {
    fn start(&self) -> Instant {
        now()
    }

    fn devices(&self) -> Vec<(String, BlockCount)> {
        let named = |device: &Arc<dyn Device>| {
            let inquiry = device.inquiry();
            (inquiry.name.clone(), inquiry.capacity)
        };
        self.devices.iter().map(named).collect()
    }

    fn submit(&mut self, _: Instant, device: usize, op: Op, blocks: BlockRange, ticket: Ticket) {
        let Some(device) = self.devices.get(device).map(Arc::clone) else { return };
        // Where data are kept they move: a read is to take as long as one that is wanted.
        // The buffer is made when the device takes the request.
        self.pending.push(Box::pin(async move {
            let data = match device.inquiry().keeps_data {
                true => vec![IoBuf::zeroed(blocks.count)],
                false => Vec::new(),
            };
            (ticket, device.access(Request { op, blocks, data }).await)
        }));
    }

    async fn run(
        &mut self,
        until: Option<Instant>,
        done: &mut Vec<Done>,
    ) -> Result<(), moirai_storage::Error> {
        let Some(until) = until else {
            return match self.pending.next().await {
                Some(finished) => Devices::note(finished, done),
                None => Ok(()),
            };
        };
        // Also when it is late: what was handed over is issued by being polled.
        if now() > until {
            give_way().await;
        }
        while let Some(Some(finished)) = self.pending.next().now_or_never() {
            Devices::note(finished, done)?;
        }
        let time_is_up = sleep_until(until);
        futures::pin_mut!(time_is_up);
        while now() < until {
            if self.pending.is_empty() {
                time_is_up.as_mut().await;
                continue;
            }
            tokio::select! {
                biased;
                Some(finished) = self.pending.next() => Devices::note(finished, done)?,
                () = &mut time_is_up => {}
            }
        }
        Ok(())
    }

    fn busy(&self) -> Option<Nanos> {
        None
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use moirai_runtime::{block_on_virtual, sleep};
    use moirai_storage::{
        Completions, Ensemble, EquivalenceClass, Flushed, Inquiry, Result, Timing,
    };
    use moirai_units::Lbn;

    use super::*;

    /// Counts the requests that it has begun, and takes no time for them, or 1 ms.
    #[derive(Debug)]
    struct Counting {
        inquiry: Inquiry,
        begun: AtomicUsize,
        service: Nanos,
    }

    impl Device for Counting {
        fn inquiry(&self) -> &Inquiry {
            &self.inquiry
        }

        fn ensemble(&self, _: Lbn) -> Result<Ensemble> {
            panic!("nobody asks")
        }

        fn parallel_ensemble(&self, _: Lbn) -> Result<BlockRange> {
            panic!("nobody asks")
        }

        fn equivalent(&self, _: Lbn) -> Result<EquivalenceClass> {
            panic!("nobody asks")
        }

        fn submit(&self, batch: Vec<Request>) -> BoxFuture<'_, Completions> {
            Box::pin(async move {
                self.begun.fetch_add(batch.len(), Ordering::Relaxed);
                let issued = now();
                if self.service > Nanos::ZERO {
                    sleep(self.service).await;
                }
                let timing = Timing { issued, started: issued, finished: now(), parts: None };
                batch
                    .into_iter()
                    .map(|request| Ok(Completion { data: request.data, timing }))
                    .collect()
            })
        }

        fn flush(&self) -> Flushed<'_> {
            Box::pin(async { Ok(()) })
        }
    }

    #[test]
    fn requests_are_issued_also_when_their_time_is_past() {
        let check = |service: u64, done_at_once: usize| {
            block_on_virtual(0, async {
                let inquiry = Inquiry {
                    name: "counting".into(),
                    capacity: BlockCount(100),
                    parallelism: 1,
                    depth: 1,
                    volume_block: BlockCount(1),
                    atomic_write: BlockCount(1),
                    physical_block: BlockCount(1),
                    discard: None,
                    wants_discards: false,
                    volatile_cache: false,
                    read_only: false,
                    keeps_data: true,
                };
                let (begun, service) = (AtomicUsize::new(0), Nanos(service));
                let device = Arc::new(Counting { inquiry, begun, service });
                let shared: Arc<dyn Device> = device.clone();
                let mut devices = Devices::new(vec![shared]);
                sleep(Nanos(5_000_000)).await;
                assert_eq!(devices.start(), now());
                let (mut done, blocks) = (Vec::new(), BlockRange::new(Lbn(0), BlockCount(8)));
                for (begun, due_ms) in [(1, 1), (2, 4), (3, 5)] {
                    let due = Instant { ns: due_ms * 1_000_000 };
                    devices.submit(due, 0, Op::Read, blocks, begun);
                    devices.run(Some(due), &mut done).await.unwrap();
                    assert_eq!(device.begun.load(Ordering::Relaxed), begun as usize);
                }
                assert_eq!((done.len(), now().ns), (done_at_once, 5_000_000));
            });
        };
        check(0, 3);
        check(1_000_000, 0);
    }
}
