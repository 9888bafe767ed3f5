//! Replaying a trace: at its times (open loop), or with a number of requests always under way.

use std::collections::BTreeMap;

use moirai_storage::Op;
use moirai_units::{BlockCount, BlockRange, Instant, Lbn, Nanos};

use crate::summary::Summary;
use crate::target::{Done, Target, Ticket};
use crate::trace::{Arrival, TIME_NS_MAX, TraceError, TraceRequest};

/// How to replay.
#[derive(Clone, Debug, PartialEq)]
pub struct Options {
    /// Requests always under way, whatever the trace's times; at the trace's times when `None`.
    pub closed: Option<u32>,
    /// What the trace's times and delays are multiplied with.
    pub time_scale: f64,
    /// Requests past the end of the device come round to its beginning: blocks count modulo its
    /// size. One that would reach past the end even so is moved back to end there.
    pub wrap: bool,
    /// Where each of the trace's devices begins on the one device, in the order of the devices;
    /// empty when each has its own. From [`stack`].
    pub stacked_at: Vec<(u32, Lbn)>,
}

impl Default for Options {
    fn default() -> Options {
        Options { closed: None, time_scale: 1.0, wrap: false, stacked_at: Vec::new() }
    }
}

/// A failed replay.
#[derive(Debug, thiserror::Error)]
pub enum ReplayError {
    /// The trace cannot be read.
    #[error(transparent)]
    Trace(#[from] TraceError),
    /// A device failed.
    #[error(transparent)]
    Device(#[from] moirai_storage::Error),
    /// A request that reaches past the end of its device.
    #[error(
        "{} accesses {blocks} of device {device}, past the end of the device at {capacity}: use a larger \
         device{}", named(*.request, *.line), if *.can_wrap { ", or --wrap" } else { "" }
    )]
    PastEnd {
        /// Which request, counted from 1.
        request: u64,
        /// Its line, counted from 1; 0 when it was not read from one.
        line: u64,
        /// Its blocks.
        blocks: BlockRange,
        /// The device's name.
        device: String,
        /// The device's blocks.
        capacity: BlockCount,
        /// Whether coming round to the beginning would help.
        can_wrap: bool,
    },
    /// A request to a device that the replay does not have.
    #[error(
        "{} is for device {device} of the trace, but the replay has {devices}: name one device for all, or \
         one for each", named(*.request, *.line)
    )]
    NoDevice {
        /// Which request, counted from 1.
        request: u64,
        /// Its line, counted from 1; 0 when it was not read from one.
        line: u64,
        /// The trace's device, counted from 0.
        device: u32,
        /// Devices that there are.
        devices: usize,
    },
    /// More requests in flight than the replay can number: the device does not keep up with the trace.
    #[error("{0} requests are in flight at request {1} of the trace: the device does not keep up")]
    Saturated(u32, u64),
    /// A request that arrives after the longest time of a replay.
    #[error(
        "{} arrives more than 292 years after the start, the longest time of a replay: use a \
         smaller --time-scale", named(*.request, *.line)
    )]
    TooLate {
        /// Which request, counted from 1.
        request: u64,
        /// Its line, counted from 1; 0 when it was not read from one.
        line: u64,
    },
}

/// A request of a trace, for messages.
fn named(request: u64, line: u64) -> String {
    let line = if line > 0 { format!(", on line {line},") } else { String::new() };
    format!("request {request} of the trace{line}")
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
    /// When it was to be issued, where the trace says so.
    due: Option<Instant>,
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
    let start = target.start();
    let busy_before = target.busy().unwrap_or_default();
    let mut at = start;
    let mut note = |done: &mut Vec<Done>, tickets: &mut Tickets, summary: &mut Summary| {
        for mut done in done.drain(..) {
            let under_way = tickets.give_back(done.ticket);
            if let Some(due) = under_way.and_then(|under_way| under_way.due) {
                count_from(due, &mut done);
            }
            summary.done(&done);
            if let Some(UnderWay { request, device, op, blocks, .. }) = under_way {
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
                at = at.max(later(start, due.since(Instant::ZERO), &traced, request, options)?);
                target.run(Some(at), &mut done).await.map_err(ReplayError::Device)?;
                note(&mut done, &mut tickets, &mut summary)?;
            }
            (None, Arrival::After(delay)) => {
                while tickets.count() > 0 {
                    target.run(None, &mut done).await.map_err(ReplayError::Device)?;
                    at = latest(at, &done);
                    note(&mut done, &mut tickets, &mut summary)?;
                }
                at = later(at, delay, &traced, request, options)?;
                target.run(Some(at), &mut done).await.map_err(ReplayError::Device)?;
            }
        }
        let mut placed = place(&devices, &traced, request, options)?;
        placed.due = options.closed.is_none().then_some(at);
        let (device, op, blocks) = (placed.device, placed.op, placed.blocks);
        let Some(ticket) = tickets.take(placed) else {
            return Err(ReplayError::Saturated(tickets.count(), request + 1).into());
        };
        summary.issued(at, op == Op::Read, blocks.count.0);
        target.submit(at, device, op, blocks, ticket);
    }
    while tickets.count() > 0 {
        target.run(None, &mut done).await.map_err(ReplayError::Device)?;
        at = latest(at, &done);
        note(&mut done, &mut tickets, &mut summary)?;
    }
    let worked_until = target.settle(at);
    if let Some(busy) = target.busy() {
        let busy = Nanos(busy.0.saturating_sub(busy_before.0));
        summary.worked(busy, target.mechanisms(), worked_until);
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

/// Counts a request from when it was due: the time until it was issued is a wait for others.
fn count_from(due: Instant, done: &mut Done) {
    let late = done.issued.since(due);
    done.issued = done.issued.min(due);
    if let Some(parts) = &mut done.parts {
        parts.queue += late;
    }
}

/// The time that `span` of the trace is after `from`.
fn later(
    from: Instant,
    span: Nanos,
    traced: &TraceRequest,
    request: u64,
    options: &Options,
) -> Result<Instant, ReplayError> {
    let ns = if options.time_scale == 1.0 {
        span.0
    } else {
        (span.0 as f64 * options.time_scale) as u64
    };
    let at = from.ns.checked_add(ns).filter(|at| *at <= TIME_NS_MAX);
    at.map(|ns| Instant { ns })
        .ok_or(ReplayError::TooLate { request: request + 1, line: traced.line })
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
        let (device, devices) = (traced.device, devices.len());
        return Err(ReplayError::NoDevice {
            request: request + 1,
            line: traced.line,
            device,
            devices,
        });
    };
    let mut blocks = traced.blocks;
    let stacked = &options.stacked_at;
    if let Ok(found) = stacked.binary_search_by_key(&traced.device, |(device, _)| *device) {
        let base = stacked.get(found).map_or(0, |(_, base)| base.0);
        // As far as there are numbers; no device is that large.
        let first = base.saturating_add(blocks.first.0).min(u64::MAX - blocks.count.0);
        blocks.first = Lbn(first);
    }
    if blocks.end().0 > capacity.0 {
        if !options.wrap || blocks.count > *capacity {
            let (device, capacity) = (name.clone(), *capacity);
            // What is stacked must not come to lie on another of the trace's devices.
            let can_wrap = blocks.count <= capacity && stacked.is_empty();
            return Err(ReplayError::PastEnd {
                request: request + 1,
                line: traced.line,
                blocks,
                device,
                capacity,
                can_wrap,
            });
        }
        let last_start = capacity.0 - blocks.count.0;
        blocks.first = Lbn((blocks.first.0 % capacity.0).min(last_start));
    }
    Ok(UnderWay { request, due: None, device, op: traced.op, blocks })
}

/// Where each of a trace's devices begins when they are put one behind the other, worked out from a
/// reading of the whole trace; in the order of the devices.
pub fn stack(
    trace: impl Iterator<Item = Result<TraceRequest, TraceError>>,
) -> Result<Vec<(u32, Lbn)>, TraceError> {
    // By number, as numbers may be large and far apart.
    let mut ends: BTreeMap<u32, u64> = BTreeMap::new();
    for traced in trace {
        let traced = traced?;
        let end = ends.entry(traced.device).or_default();
        *end = (*end).max(traced.blocks.end().0);
    }
    let mut next = 0u64;
    let begin = |(device, end): (u32, u64)| {
        let first = next;
        next = next.saturating_add(end);
        (device, Lbn(first))
    };
    Ok(ends.into_iter().map(begin).collect())
}

#[cfg(test)]
mod tests {
    use futures::FutureExt;
    use moirai_models::{Disk, Profile, Scheduler};
    use moirai_units::ServiceParts;
    use proptest::prelude::*;

    use super::*;
    use crate::target::Drives;
    use crate::trace::{Format, TraceReader};

    const CAPACITY: u64 = 100;

    /// Takes 10 ms for each request, and issues it 3 ms late.
    #[derive(Default)]
    struct Late {
        under_way: Vec<(Instant, Ticket)>,
        blocks: Vec<(u64, u64)>,
    }

    impl Target for Late {
        fn devices(&self) -> Vec<(String, BlockCount)> {
            vec![("late".into(), BlockCount(CAPACITY))]
        }

        fn start(&self) -> Instant {
            Instant { ns: 7 }
        }

        fn submit(&mut self, at: Instant, _: usize, _: Op, blocks: BlockRange, ticket: Ticket) {
            self.under_way.push((at, ticket));
            self.blocks.push((blocks.first.0, blocks.count.0));
        }

        async fn run(
            &mut self,
            until: Option<Instant>,
            done: &mut Vec<Done>,
        ) -> Result<(), moirai_storage::Error> {
            if until.is_none() {
                done.extend(self.under_way.drain(..).map(|(at, ticket)| {
                    let issued = at + Nanos(3_000_000);
                    let finished = issued + Nanos(10_000_000);
                    let media = Nanos(10_000_000);
                    let parts = Some(ServiceParts { media, ..ServiceParts::default() });
                    Done { ticket, issued, started: issued, finished, parts }
                }));
            }
            Ok(())
        }

        fn busy(&self) -> Option<Nanos> {
            None
        }
    }

    /// Replays `text`, which is in the `disksim` format; nothing in these targets waits for others.
    fn run<T: Target>(
        target: &mut T,
        text: &str,
        options: &Options,
    ) -> Result<(Summary, Vec<Replayed>), ReplayFailure> {
        let trace = TraceReader::new("t", text.as_bytes(), Format::DiskSim);
        let mut replayed = Vec::new();
        let each = |one: &Replayed| {
            replayed.push(*one);
            Ok(())
        };
        let summary = replay(target, trace, options, each).now_or_never().unwrap()?;
        Ok((summary, replayed))
    }

    fn error(text: &str, options: &Options) -> String {
        run(&mut Late::default(), text, options).unwrap_err().to_string()
    }

    #[test]
    fn response_times_count_from_when_requests_were_due() {
        let check = |closed, response_ms: u64, due: u64| {
            let options = Options { closed, ..Options::default() };
            let (summary, replayed) = run(&mut Late::default(), "1 0 5 8 1\n", &options).unwrap();
            let done = replayed[0].done;
            let response = Nanos(response_ms * 1_000_000);
            assert_eq!(done.finished.since(done.issued), response);
            assert_eq!(done.parts.map(|parts| parts.total()), Some(response));
            assert_eq!(summary.mean_response_ms(), response_ms as f64);
            assert_eq!(done.issued.ns, due);
        };
        // From the start of the replay on.
        check(None, 13, 1_000_007);
        check(Some(1), 10, 3_000_007);
    }

    #[test]
    fn blocks_come_round_wherever_their_request_ends() {
        let mut target = Late::default();
        let text = "0 0 205 1 1\n0 0 205 8 1\n0 0 295 8 1\n0 0 95 8 1\n0 0 100 100 1\n0 0 92 8 1\n";
        run(&mut target, text, &Options { wrap: true, ..Options::default() }).unwrap();
        assert_eq!(target.blocks, [(5, 1), (5, 8), (92, 8), (92, 8), (0, 100), (92, 8)]);
    }

    #[test]
    fn devices_are_stacked_whatever_their_numbers() {
        let text = "0 4294967295 5 8 1\n0 7 10 20 1\n0 4294967295 0 3 1\n";
        let stacked_at = stack(TraceReader::new("t", text.as_bytes(), Format::DiskSim)).unwrap();
        assert_eq!(stacked_at, [(7, Lbn(0)), (u32::MAX, Lbn(30))]);
        let mut target = Late::default();
        run(&mut target, text, &Options { stacked_at, ..Options::default() }).unwrap();
        assert_eq!(target.blocks, [(35, 8), (10, 20), (30, 3)]);
    }

    #[test]
    fn times_past_what_the_clock_holds_are_errors() {
        let scaled = |time_scale| Options { time_scale, ..Options::default() };
        let text = "# late\n0 0 5 8 1\n1 0 5 8 1\n";
        let expected = "request 2 of the trace, on line 3, arrives more than 292 years after";
        assert!(error(text, &scaled(1e300)).starts_with(expected));
        assert!(run(&mut Late::default(), text, &scaled(1e12)).is_ok());
        let delays = [Nanos(TIME_NS_MAX - 20_000_000); 3].map(|delay| {
            let blocks = BlockRange::new(Lbn(0), BlockCount(1));
            Ok(TraceRequest::new(Arrival::After(delay), 0, Op::Read, blocks))
        });
        let mut target = Late::default();
        let options = Options::default();
        let replay = replay(&mut target, delays.into_iter(), &options, |_| Ok(()));
        let error = replay.now_or_never().unwrap().unwrap_err().to_string();
        assert!(error.starts_with("request 2 of the trace arrives"), "{error}");
    }

    #[test]
    fn requests_past_the_end_are_named_by_line_with_what_helps() {
        let check = |text: &str, options: &Options, expected: &str, advice: &str| {
            let error = error(text, options);
            assert!(error.starts_with(expected) && error.ends_with(advice), "{error}");
        };
        let plain = Options::default();
        let wrap = Options { wrap: true, ..Options::default() };
        let stacked = Options { stacked_at: vec![(0, Lbn(50))], ..Options::default() };
        let small = "# a comment\n0 0 5 8 1\n0 0 95 8 1\n";
        let third = "request 2 of the trace, on line 3, accesses ";
        let larger = ": use a larger device";
        check(small, &plain, third, ": use a larger device, or --wrap");
        check(small, &stacked, third, larger);
        let large = "0 0 5 8 1\n\n0 0 5 101 1\n";
        check(large, &plain, third, larger);
        check(large, &wrap, third, larger);
        let far = Options { stacked_at: vec![(0, Lbn(u64::MAX))], ..Options::default() };
        check(small, &far, "request 1 of the trace, on line 2, accesses ", larger);
    }

    /// Drives that report all writes early.
    fn drives(count: usize) -> Drives {
        let profile = Profile::built_in("fujitsu-man3367mp").unwrap();
        let drive = |_| ("d".to_owned(), Disk::new(profile.clone(), Scheduler::Fcfs));
        Drives::new((0..count).map(drive).collect())
    }

    #[test]
    fn media_work_after_the_last_finish_is_in_the_span_of_utilisation() {
        let mut target = drives(1);
        let (summary, _) = run(&mut target, "0 0 9000000 8 0\n", &Options::default()).unwrap();
        // The write is reported long before the arm is there.
        let (busy, span) = (target.busy().unwrap(), summary.span());
        assert!(busy > span, "{busy} in {span}");
        let utilisation = summary.utilisation().unwrap();
        assert!((0.5..=1.0).contains(&utilisation), "{utilisation}");
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]
        #[test]
        fn utilisation_is_never_above_one(
            rows in proptest::collection::vec((0u64..12, 0u32..2, 0u64..300, 1u64..64, 0u8..2), 1..60),
            closed in proptest::option::of(1u32..4),
        ) {
            let mut ms = 0;
            let text: String = rows
                .iter()
                .map(|(gap, device, first, count, flags)| {
                    ms += gap;
                    format!("{ms} {device} {} {count} {flags}\n", first * 8)
                })
                .collect();
            for count in [1, 2] {
                let options = Options { closed, ..Options::default() };
                let (summary, _) = run(&mut drives(count), &text, &options).unwrap();
                let utilisation = summary.utilisation().unwrap();
                prop_assert!((0.0..=1.0).contains(&utilisation), "{}", utilisation);
            }
        }
    }
}
