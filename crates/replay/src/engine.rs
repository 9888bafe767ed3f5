//! Replaying a trace: at its times (open loop), or with a number of requests always under way.

use moirai_storage::Op;
use moirai_units::{BlockCount, BlockRange, Instant, Lbn, Nanos};

use crate::summary::Summary;
use crate::target::{Done, Target, Ticket};
use crate::trace::{Arrival, TraceError, TraceRequest};

/// How to replay.
#[derive(Clone, Debug, PartialEq)]
pub struct Options {
    /// Requests always under way, whatever the trace's times; at the trace's times when `None`.
    pub closed: Option<u32>,
    /// What the trace's times and delays are multiplied with.
    pub time_scale: f64,
    /// Requests past the end of the device come round to its beginning.
    pub wrap: bool,
    /// Where each of the trace's devices begins on the one device; empty when each has its own.
    pub stacked_at: Vec<Lbn>,
}

impl Default for Options {
    fn default() -> Options {
        Options { closed: None, time_scale: 1.0, wrap: false, stacked_at: Vec::new() }
    }
}

/// A replay that cannot go on.
#[derive(Debug, thiserror::Error)]
pub enum ReplayError {
    /// The trace is not what it should be.
    #[error(transparent)]
    Trace(#[from] TraceError),
    /// A device failed.
    #[error(transparent)]
    Device(#[from] moirai_storage::Error),
    /// A request that its device is too small for.
    #[error(
        "request {request} of the trace accesses {blocks} of device {device}, past its end at \
         {capacity}: use a larger device, or --wrap"
    )]
    PastEnd {
        /// Which request, counted from 1.
        request: u64,
        /// Its blocks.
        blocks: BlockRange,
        /// The device's name.
        device: String,
        /// The device's blocks.
        capacity: BlockCount,
    },
    /// A request to a device that the replay does not have.
    #[error(
        "request {request} of the trace is for its device {device}, and there are {devices}: name \
         one device for all, or one for each"
    )]
    NoDevice {
        /// Which request, counted from 1.
        request: u64,
        /// The trace's device, counted from 0.
        device: u32,
        /// Devices that there are.
        devices: usize,
    },
    /// More requests under way than can be named: the device does not keep up with the trace.
    #[error("{0} requests are under way at request {1} of the trace: the device does not keep up")]
    Saturated(u32, u64),
}

/// One request, replayed.
#[derive(Clone, Copy, Debug)]
pub struct Replayed {
    /// Which request of the trace, counted from 0.
    pub request: u64,
    /// Its device.
    pub device: usize,
    /// Read or write.
    pub op: Op,
    /// Blocks accessed.
    pub blocks: BlockRange,
    /// When it happened, and where its time went.
    pub done: Done,
}

/// A request under way.
#[derive(Clone, Copy)]
struct UnderWay {
    request: u64,
    device: usize,
    op: Op,
    blocks: BlockRange,
}

/// Requests under way, by ticket.
#[derive(Default)]
struct Tickets {
    requests: Vec<UnderWay>,
    free: Vec<Ticket>,
}

impl Tickets {
    fn count(&self) -> u32 {
        (self.requests.len() - self.free.len()) as u32
    }

    fn take(&mut self, request: UnderWay) -> Option<Ticket> {
        if let Some(ticket) = self.free.pop() {
            *self.requests.get_mut(ticket as usize)? = request;
            return Some(ticket);
        }
        let ticket = Ticket::try_from(self.requests.len()).ok()?;
        self.requests.push(request);
        Some(ticket)
    }

    fn give_back(&mut self, ticket: Ticket) -> Option<UnderWay> {
        self.free.push(ticket);
        self.requests.get(ticket as usize).copied()
    }
}

/// Replays `trace` onto `target`; shows each finished request to `each`, in the order they finish.
pub async fn replay<T: Target>(
    target: &mut T,
    trace: impl Iterator<Item = Result<TraceRequest, TraceError>>,
    options: &Options,
    mut each: impl FnMut(&Replayed) -> std::io::Result<()>,
) -> Result<Summary, ReplayFailure> {
    let devices = target.devices();
    let mut summary = Summary::default();
    let mut tickets = Tickets::default();
    let mut done = Vec::new();
    let mut at = Instant::ZERO;
    let mut note = |done: &mut Vec<Done>, tickets: &mut Tickets, summary: &mut Summary| {
        for done in done.drain(..) {
            summary.done(&done);
            if let Some(UnderWay { request, device, op, blocks }) = tickets.give_back(done.ticket) {
                each(&Replayed { request, device, op, blocks, done })?;
            }
        }
        Ok::<(), std::io::Error>(())
    };
    for (request, traced) in (0u64..).zip(trace) {
        let traced = traced.map_err(ReplayError::Trace)?;
        match (options.closed, traced.at) {
            (Some(most), _) => {
                while tickets.count() >= most.max(1) {
                    target.run(None, &mut done).await.map_err(ReplayError::Device)?;
                    at = latest(at, &done);
                    note(&mut done, &mut tickets, &mut summary)?;
                }
            }
            (None, Arrival::At(due)) => {
                at = at.max(scaled(due.since(Instant::ZERO), options));
                target.run(Some(at), &mut done).await.map_err(ReplayError::Device)?;
                note(&mut done, &mut tickets, &mut summary)?;
            }
            (None, Arrival::After(delay)) => {
                while tickets.count() > 0 {
                    target.run(None, &mut done).await.map_err(ReplayError::Device)?;
                    at = latest(at, &done);
                    note(&mut done, &mut tickets, &mut summary)?;
                }
                at = at + scaled(delay, options).since(Instant::ZERO);
                target.run(Some(at), &mut done).await.map_err(ReplayError::Device)?;
            }
        }
        let placed = place(&devices, &traced, request, options)?;
        let (device, op, blocks) = (placed.device, placed.op, placed.blocks);
        let Some(ticket) = tickets.take(placed) else {
            return Err(ReplayError::Saturated(tickets.count(), request + 1).into());
        };
        summary.issued(at, op == Op::Read, blocks.count.0);
        target.submit(at, device, op, blocks, ticket);
    }
    while tickets.count() > 0 {
        target.run(None, &mut done).await.map_err(ReplayError::Device)?;
        note(&mut done, &mut tickets, &mut summary)?;
    }
    Ok(summary)
}

/// Why a replay ended early.
#[derive(Debug, thiserror::Error)]
pub enum ReplayFailure {
    /// Its trace or its devices.
    #[error(transparent)]
    Replay(#[from] ReplayError),
    /// Whoever was shown the requests.
    #[error(transparent)]
    Output(#[from] std::io::Error),
}

fn latest(at: Instant, done: &[Done]) -> Instant {
    done.iter().map(|done| done.finished).fold(at, Instant::max)
}

fn scaled(span: Nanos, options: &Options) -> Instant {
    if options.time_scale == 1.0 {
        return Instant { ns: span.0 };
    }
    Instant { ns: (span.0 as f64 * options.time_scale) as u64 }
}

/// Finds the device of a request, and its blocks there.
fn place(
    devices: &[(String, BlockCount)],
    traced: &TraceRequest,
    request: u64,
    options: &Options,
) -> Result<UnderWay, ReplayError> {
    let of_trace = traced.device as usize;
    let device = if devices.len() == 1 { 0 } else { of_trace };
    let Some((name, capacity)) = devices.get(device) else {
        let (request, device, devices) = (request + 1, traced.device, devices.len());
        return Err(ReplayError::NoDevice { request, device, devices });
    };
    let base = options.stacked_at.get(of_trace).copied().unwrap_or(Lbn(0));
    let mut blocks = traced.blocks;
    blocks.first = base + BlockCount(blocks.first.0);
    if blocks.end().0 > capacity.0 {
        if !options.wrap || blocks.count > *capacity {
            let (request, device, capacity) = (request + 1, name.clone(), *capacity);
            return Err(ReplayError::PastEnd { request, blocks, device, capacity });
        }
        blocks.first = Lbn(blocks.first.0 % (capacity.0 - blocks.count.0 + 1));
    }
    Ok(UnderWay { request, device, op: traced.op, blocks })
}

/// Where each of a trace's devices begins when they are put one behind the other, worked out from a
/// reading of the whole trace.
pub fn stack(
    trace: impl Iterator<Item = Result<TraceRequest, TraceError>>,
) -> Result<Vec<Lbn>, TraceError> {
    let mut ends: Vec<u64> = Vec::new();
    for traced in trace {
        let traced = traced?;
        let device = traced.device as usize;
        if ends.len() <= device {
            ends.resize(device + 1, 0);
        }
        if let Some(end) = ends.get_mut(device) {
            *end = (*end).max(traced.blocks.end().0);
        }
    }
    let mut next = 0u64;
    let mut begin = |end: u64| {
        let first = next;
        next = next.saturating_add(end);
        Lbn(first)
    };
    Ok(ends.into_iter().map(&mut begin).collect())
}
