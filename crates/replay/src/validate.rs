//! Validation: a measured trace through a simulated drive, and how far apart the two are.
//!
//! The demerit figure is the root mean square of the horizontal distance between the cumulative
//! distributions of the two sets of response times (Ruemmler and Wilkes 1993; thesis 4.4.2). With as
//! many requests in both, that is the distance between the times of the same rank.

use std::collections::BTreeMap;

use moirai_models::{Direction, Disk, DiskCompletion, DiskRequest, Profile, Scheduler};
use moirai_storage::Op;
use moirai_units::{BlockCount, BlockRange, Instant, Nanos};

use crate::trace::MeasuredRequest;

/// Reads of one size that a percentile is taken of: the second one of fifty is a whole request.
const READS_OF_A_SIZE: usize = 50;

/// Sizes that a line is drawn through.
const SIZES_MIN: usize = 4;

/// A measured request that the drive does not have.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("request {request} accesses {blocks}, past the drive's end at {capacity}")]
pub struct PastEnd {
    /// Which request of the trace, counted from 1.
    pub request: usize,
    /// Its blocks.
    pub blocks: BlockRange,
    /// The drive's blocks.
    pub capacity: BlockCount,
}

/// How far a simulated drive is from the real one.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Comparison {
    /// Mean response time of the real drive.
    pub measured_mean_ms: f64,
    /// And of the simulated one.
    pub simulated_mean_ms: f64,
    /// Root mean square distance of the distributions.
    pub demerit_ms: f64,
    /// Root mean square of the differences, request by request.
    pub per_request_rms_ms: f64,
    /// Pearson's correlation of the times, request by request.
    pub correlation: f64,
}

/// Sends the requests to a simulated drive, each its delay after the completion of the one before;
/// gives the completions.
pub fn simulate(
    profile: Profile,
    requests: &[MeasuredRequest],
) -> Result<Vec<DiskCompletion>, PastEnd> {
    let capacity = profile.geometry.capacity();
    let mut disk = Disk::new(profile, Scheduler::Fcfs);
    let mut now = Instant::ZERO;
    let mut done = Vec::new();
    let mut completions = Vec::with_capacity(requests.len());
    for (index, request) in requests.iter().enumerate() {
        if request.blocks.end().0 > capacity.0 {
            return Err(PastEnd { request: index + 1, blocks: request.blocks, capacity });
        }
        now = now + request.delay;
        let direction = match request.op {
            Op::Read => Direction::Read,
            Op::Write => Direction::Write,
        };
        disk.submit(now, DiskRequest { id: index as u64, direction, blocks: request.blocks });
        while let Some(at) = disk.next_event().filter(|_| done.is_empty()) {
            disk.advance(at, &mut done);
        }
        for completion in done.drain(..) {
            now = completion.finished;
            completions.push(completion);
        }
    }
    Ok(completions)
}

/// What a sector takes on the bus of the machine that the trace was taken on: how much longer the
/// fastest reads are for each more sector. They are hits, whose data only cross the bus. `None` when
/// the trace has too few sizes of reads to tell.
///
/// A drive's parameters may leave the bus to the machine; then the trace is the only one to know.
#[must_use]
pub fn bus_sector(requests: &[MeasuredRequest]) -> Option<Nanos> {
    let mut by_sectors: BTreeMap<u64, Vec<Nanos>> = BTreeMap::new();
    for request in requests.iter().filter(|request| request.op == Op::Read) {
        by_sectors.entry(request.blocks.count.0).or_default().push(request.measured);
    }
    // (sectors, time, weight): the second percentile of each size that has as much as one.
    let fastest: Vec<(f64, f64, f64)> = by_sectors
        .into_iter()
        .filter(|(_, times)| times.len() >= READS_OF_A_SIZE)
        .filter_map(|(sectors, mut times)| {
            times.sort_unstable();
            let time = times.get(times.len() / READS_OF_A_SIZE)?;
            Some((sectors as f64, time.0 as f64, times.len() as f64))
        })
        .collect();
    if fastest.len() < SIZES_MIN {
        return None;
    }
    let weight: f64 = fastest.iter().map(|(.., weight)| weight).sum();
    let mean = |of: fn(&(f64, f64, f64)) -> f64| {
        fastest.iter().map(|point| of(point) * point.2).sum::<f64>() / weight
    };
    let (sectors, time) = (mean(|point| point.0), mean(|point| point.1));
    let (mut both, mut square) = (0.0, 0.0);
    for (x, y, weight) in fastest {
        both += weight * (x - sectors) * (y - time);
        square += weight * (x - sectors).powi(2);
    }
    let slope_ns = both / square;
    (slope_ns > 0.0).then_some(Nanos(slope_ns.round() as u64))
}

/// The response times of completions.
#[must_use]
pub fn responses(completions: &[DiskCompletion]) -> Vec<Nanos> {
    completions.iter().map(|done| done.finished.since(done.issued)).collect()
}

/// Compares the times of the same requests, measured and simulated. Both must be as many.
#[must_use]
pub fn compare(measured: &[Nanos], simulated: &[Nanos]) -> Comparison {
    let pairs = || measured.iter().zip(simulated).map(|(a, b)| (a.as_ms(), b.as_ms()));
    let count = measured.len().max(1) as f64;
    let (measured_mean_ms, simulated_mean_ms) =
        pairs().fold((0.0, 0.0), |(a, b), (x, y)| (a + x / count, b + y / count));
    let (mut both, mut first, mut second) = (0.0, 0.0, 0.0);
    for (x, y) in pairs() {
        let (x, y) = (x - measured_mean_ms, y - simulated_mean_ms);
        both += x * y;
        first += x * x;
        second += y * y;
    }
    let correlation = if first * second > 0.0 { both / (first * second).sqrt() } else { 0.0 };
    let sorted = |times: &[Nanos]| {
        let mut times = times.to_vec();
        times.sort_unstable();
        times
    };
    Comparison {
        measured_mean_ms,
        simulated_mean_ms,
        demerit_ms: rms_ms(&sorted(measured), &sorted(simulated)),
        per_request_rms_ms: rms_ms(measured, simulated),
        correlation,
    }
}

fn rms_ms(a: &[Nanos], b: &[Nanos]) -> f64 {
    let squares = a.iter().zip(b).map(|(a, b)| (a.as_ms() - b.as_ms()).powi(2));
    (squares.sum::<f64>() / a.len().max(1) as f64).sqrt()
}
