//! What a trace is replayed onto: drive models stepped directly, or devices behind the interface.
//!
//! Both keep the same promises, so that one loop drives them: a request is handed over at the
//! current time, and time passes only in [`Target::run`].

use std::future::Future;
use std::sync::Arc;

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

    /// Hands a request over at the time `at`, which is now.
    fn submit(&mut self, at: Instant, device: usize, op: Op, blocks: BlockRange, ticket: Ticket);

    /// Lets time pass until `until`, or without that until a request is done; adds what is done.
    fn run(
        &mut self,
        until: Option<Instant>,
        done: &mut Vec<Done>,
    ) -> impl Future<Output = Result<(), moirai_storage::Error>>;

    /// How long the devices' mechanisms have worked, all together; `None` where nobody knows.
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

    fn next_event(&self) -> Option<Instant> {
        self.drives.iter().filter_map(|(_, disk)| disk.next_event()).min()
    }
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
            while let Some(at) = self.next_event().filter(|at| until.is_none_or(|end| *at <= end)) {
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

    fn busy(&self) -> Option<Nanos> {
        Some(self.drives.iter().map(|(_, disk)| disk.media_busy()).sum())
    }
}

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

impl Target for Devices {
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
        let data = match device.inquiry().keeps_data {
            true => vec![IoBuf::zeroed(blocks.count)],
            false => Vec::new(),
        };
        let request = Request { op, blocks, data };
        self.pending.push(Box::pin(async move { (ticket, device.access(request).await) }));
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
