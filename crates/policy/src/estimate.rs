//! An estimate of a plan's response times by queueing theory, thousands of times faster than a
//! simulation: which plans are worth one.
//!
//! Each disk is an M/G/1 queue. Streams are on and off together or in turn, so the load is taken at
//! sampled moments of the on and off periods: `W = lambda E[S^2] / (2 (1 - rho))` (Pollaczek and
//! Khinchine) with the streams that are on at that moment. A request to several disks waits for the
//! slowest of them.

use std::collections::BTreeMap;

use moirai_models::{Direction, Disk, DiskRequest, Profile, Scheduler, WritePolicy};
use moirai_runtime::seeded;
use moirai_units::{BlockCount, BlockRange, Instant, Lbn};
use moirai_volume::Level;
use rand::Rng;

use crate::policy::Goal;
use crate::spread::Spread;
use crate::system::{ObjectOnArrays, SystemDescription};
use crate::windows::Windows;
use crate::workload::{Arrivals, SizeDistribution, Stream, Workload};

/// Service times of a drive, measured on its model.
#[derive(Clone, Debug)]
struct ServiceTimes {
    /// The mean time of a random read of one block, in ms, by the share of the drive that is used, in
    /// tenths.
    positioning_ms: Vec<f64>,
    /// Their standard deviation.
    deviation_ms: Vec<f64>,
    /// What each further block adds.
    block_ms: f64,
    /// A revolution.
    revolution_ms: f64,
}

/// Estimates plans for one workload; keeps what it measured of drives.
#[derive(Debug)]
pub struct Estimator<'a> {
    workload: &'a Workload,
    drives: BTreeMap<String, ServiceTimes>,
    /// Each object's stream, and when it is on.
    streams: BTreeMap<&'a str, (&'a Stream, Moments)>,
}

/// Of the sampled moments those at which a stream is on, a bit each.
type Moments = u64;

/// The estimate of a plan.
#[derive(Clone, Debug, PartialEq)]
pub struct Estimate {
    /// The mean response time of all requests, in ms.
    pub cost: f64,
    /// By how much goals are missed, in all; percentiles are taken from an exponential distribution.
    pub missed_by: f64,
    /// The mean response time of each object, in ms.
    pub response_ms: Vec<f64>,
    /// The utilisation of the disks of each array, averaged over time.
    pub utilisation: Vec<f64>,
}

/// Moments at which the load is sampled.
const MOMENTS: usize = Moments::BITS as usize;
/// Reads by which a drive is measured, for each share of it.
const MEASURED_READS: u64 = 300;
/// Above this utilisation a queue has no steady state in the time that streams stay as they are.
const UTILISATION_MAX: f64 = 0.9;
/// How long an overload lasts where streams are always on: as long as a simulation of some seconds.
const ALWAYS_MS: f64 = 10_000.0;
/// Steps of the fixed point of closed loops.
const CLOSED_STEPS: usize = 8;

impl ServiceTimes {
    fn measure(profile: &Profile) -> ServiceTimes {
        let capacity = profile.geometry.capacity();
        let mut positioning_ms = Vec::with_capacity(10);
        let mut deviation_ms = Vec::with_capacity(10);
        let read = |tenths: u64, blocks: u64| -> (f64, f64) {
            let mut disk = Disk::new(profile.clone(), Scheduler::Fcfs);
            let mut random = seeded(0, "reads that measure a drive");
            let places = (capacity.0 / 10 * tenths).saturating_sub(blocks).max(1);
            let (mut at, mut done, mut times) = (Instant::ZERO, Vec::new(), Vec::new());
            for id in 0..MEASURED_READS {
                let blocks =
                    BlockRange::new(Lbn(random.random_range(0..places)), BlockCount(blocks));
                disk.submit(at, DiskRequest { id, direction: Direction::Read, blocks });
                while let Some(next) = disk.next_event().filter(|_| done.is_empty()) {
                    disk.advance(next, &mut done);
                }
                for completion in done.drain(..) {
                    times.push(completion.finished.since(at).as_ms());
                    at = completion.finished;
                }
            }
            let mean = times.iter().sum::<f64>() / times.len().max(1) as f64;
            let variance = times.iter().map(|time| (time - mean).powi(2)).sum::<f64>();
            (mean, (variance / times.len().max(1) as f64).sqrt())
        };
        for tenths in 1..=10 {
            let (mean, deviation) = read(tenths, 1);
            positioning_ms.push(mean);
            deviation_ms.push(deviation);
        }
        let long = 1024.min(capacity.0 / 2).max(2);
        let alone = positioning_ms.last().copied().unwrap_or(0.0);
        let block_ms = ((read(10, long).0 - alone) / (long - 1) as f64).max(0.0);
        let revolution_ms = 60_000.0 / profile.file.rotation_rpm;
        ServiceTimes { positioning_ms, deviation_ms, block_ms, revolution_ms }
    }

    /// The mean and the standard deviation of an access to `blocks`, with `used` of the drive in use.
    fn of(&self, blocks: f64, used: f64) -> (f64, f64) {
        let tenth = ((used * 10.0).ceil() as usize).clamp(1, 10) - 1;
        let positioning = self.positioning_ms.get(tenth).copied().unwrap_or(0.0);
        let deviation = self.deviation_ms.get(tenth).copied().unwrap_or(0.0);
        (positioning + self.block_ms * (blocks - 1.0).max(0.0), deviation)
    }
}

/// What an object asks of the disks of an array.
#[derive(Clone, Debug, Default)]
struct Load {
    /// Requests a second while it is on.
    rate: f64,
    concurrency: Option<u32>,
    reads: f64,
    /// The mean time of an access to a disk, and its deviation.
    access_ms: f64,
    deviation_ms: f64,
    /// The time of all disks of all arrays that a request takes, in ms, and the squared times.
    busy_ms: f64,
    busy_squared: f64,
    /// The response to a write that the cache does not take, without waiting, in ms, and how often it waits.
    write_ms: f64,
    write_waits: f64,
    /// How much later than the mean the slowest disk of a read, and of a write, is done, in deviations.
    slowest_read: f64,
    slowest_write: f64,
    arrays: Vec<usize>,
    /// Disks of all its arrays.
    all_disks: f64,
    on: Moments,
    on_ms: f64,
    cached_writes: bool,
}

impl<'a> Estimator<'a> {
    /// An estimator for plans under `workload`.
    #[must_use]
    pub fn new(workload: &'a Workload) -> Estimator<'a> {
        let longest =
            workload.streams.iter().filter_map(|stream| Some(stream.on_ms? + stream.off_ms?));
        let horizon_ns = longest.fold(1.0, f64::max) * 40.0 * 1e6;
        let streams = workload.streams.iter().map(|stream| {
            let windows = Windows::of(workload, stream, 0);
            let on = windows.map_or(Moments::MAX, |windows| moments_on(windows, horizon_ns));
            (stream.object.as_str(), (stream, on))
        });
        Estimator { workload, drives: BTreeMap::new(), streams: streams.collect() }
    }

    /// Estimates `system`, whose objects have `goals`.
    pub fn estimate(&mut self, system: &SystemDescription, goals: &[Option<Goal>]) -> Estimate {
        for profile in system.arrays.iter().filter_map(|array| array.first()) {
            if !self.drives.contains_key(&profile.file.name) {
                self.drives.insert(profile.file.name.clone(), ServiceTimes::measure(profile));
            }
        }
        let used = used(system);
        let mut loads: Vec<Option<Load>> =
            system.objects.iter().map(|object| self.load(system, object, &used)).collect();
        let widths: Vec<f64> = system.arrays.iter().map(|array| array.len() as f64).collect();
        let mut response_ms = vec![0.0; loads.len()];
        let has_closed = loads.iter().flatten().any(|load| load.concurrency.is_some());
        let steps = if has_closed { CLOSED_STEPS } else { 1 };
        let mut utilisation = vec![0.0; widths.len()];
        for _ in 0..steps {
            utilisation = vec![0.0; widths.len()];
            let mut sums = vec![(0.0, 0.0); loads.len()];
            for moment in 0..MOMENTS {
                let waits = waits(&loads, &widths, moment, &mut utilisation);
                for (load, sum) in loads.iter().zip(&mut sums) {
                    let Some(load) = load.as_ref().filter(|load| load.is_on(moment)) else {
                        continue;
                    };
                    sum.0 += load.response_ms(&waits);
                    sum.1 += 1.0;
                }
            }
            for (response, sum) in response_ms.iter_mut().zip(&sums) {
                *response = if sum.1 > 0.0 { sum.0 / sum.1 } else { 0.0 };
            }
            for (load, response) in loads.iter_mut().flatten().zip(&response_ms) {
                if let Some(most) = load.concurrency {
                    let rate = f64::from(most) / response.max(0.01) * 1000.0;
                    // Half of the way, so that it does not swing.
                    load.rate = (load.rate + rate) / 2.0;
                }
            }
        }
        let weight =
            |load: &Option<Load>| load.as_ref().map_or(0.0, |load| load.rate * load.on_share());
        let all: f64 = loads.iter().map(weight).sum();
        let cost: f64 = loads.iter().zip(&response_ms).map(|(load, ms)| weight(load) * ms).sum();
        let mut missed_by = 0.0;
        for (goal, (load, ms)) in goals.iter().zip(loads.iter().zip(&response_ms)) {
            let (Some(goal), Some(load)) = (goal, load) else { continue };
            let factor = goal.percentile.map_or(1.0, |percent| -(1.0 - percent / 100.0).ln());
            missed_by += goal.response_ms.map_or(0.0, |most| (ms * factor / most - 1.0).max(0.0));
            let rate = load.rate * load.on_share();
            missed_by += goal.iops.map_or(0.0, |least| (least / rate.max(1e-9) - 1.0).max(0.0));
        }
        Estimate { cost: cost / all.max(1e-9), missed_by, response_ms, utilisation }
    }

    fn load(
        &self,
        system: &SystemDescription,
        object: &ObjectOnArrays,
        used: &[f64],
    ) -> Option<Load> {
        let (stream, on) = *self.streams.get(object.name.as_str())?;
        let first = object.arrays.first().copied()?;
        let (mut all_disks, mut drives) = (0.0, Vec::new());
        for index in &object.arrays {
            let disks = system.arrays.get(*index)?;
            all_disks += disks.len() as f64;
            let drive = self.drives.get(&disks.first()?.file.name)?;
            drives.push((drive, used.get(*index).copied()?));
        }
        let width = system.arrays.get(first)?.len();
        let data = object.level.data_units(width) as f64;
        let spread = Spread { arrays: object.arrays.len(), unit: object.unit };
        let (units, blocks) = touched(stream, spread.unit);
        // Units of a request on one disk follow each other there.
        let disks = units.min(data * object.arrays.len() as f64).max(1.0);
        let per_disk = blocks / disks;
        let mean = |value: &dyn Fn(&ServiceTimes, f64) -> f64| {
            let sum: f64 = drives.iter().map(|(drive, used)| value(drive, *used)).sum();
            sum / drives.len().max(1) as f64
        };
        let access_ms = mean(&|drive, used| drive.of(per_disk, used).0);
        let deviation_ms = mean(&|drive, used| drive.of(per_disk, used).1).hypot(
            // Exponential sizes vary as much as they are long.
            mean(&|drive, _| drive.block_ms * (per_disk - 1.0).max(0.0)),
        );
        let revolution_ms = mean(&|drive, _| drive.revolution_ms);
        let squared = access_ms * access_ms + deviation_ms * deviation_ms;
        // A stripe may be written whole, or a part of it, unit by unit.
        let (reads, writes) =
            write_accesses(object.level, width, units / object.arrays.len() as f64);
        let again_ms = access_ms.min(revolution_ms + access_ms * 0.1);
        let write_busy =
            disks * (reads * access_ms + writes * if reads > 0.0 { again_ms } else { access_ms });
        let write_squared = disks * (reads + writes) * squared;
        let cached_writes = system.cache.is_some_and(|(_, policy)| policy != WritePolicy::Through);
        let arrivals = stream.arrivals();
        Some(Load {
            rate: match arrivals {
                Arrivals::Poisson(mean) => 1e9 / mean.0 as f64,
                Arrivals::Closed(most) => f64::from(most) * 1000.0 / access_ms.max(0.01),
            },
            concurrency: match arrivals {
                Arrivals::Closed(most) => Some(most),
                Arrivals::Poisson(_) => None,
            },
            reads: stream.reads,
            access_ms,
            deviation_ms,
            busy_ms: stream.reads * disks * access_ms + (1.0 - stream.reads) * write_busy,
            busy_squared: stream.reads * disks * squared + (1.0 - stream.reads) * write_squared,
            write_ms: if reads > 0.0 { access_ms + revolution_ms } else { access_ms },
            write_waits: if reads > 0.0 { 2.0 } else { 1.0 },
            slowest_read: slowest_of(disks),
            slowest_write: slowest_of(disks * writes),
            arrays: object.arrays.clone(),
            all_disks,
            on,
            on_ms: self.on_ms(stream),
            cached_writes,
        })
    }

    /// The mean length of the on periods of `stream`.
    fn on_ms(&self, stream: &Stream) -> f64 {
        self.workload.leader(stream).on_ms.unwrap_or(ALWAYS_MS)
    }
}

impl Load {
    fn is_on(&self, moment: usize) -> bool {
        self.on >> moment & 1 == 1
    }

    fn on_share(&self) -> f64 {
        f64::from(self.on.count_ones()) / MOMENTS as f64
    }

    /// The mean response time of a request, with `waits` on the disks of each array.
    fn response_ms(&self, waits: &[f64]) -> f64 {
        let of = |array: &usize| waits.get(*array).copied().unwrap_or_default();
        let count = self.arrays.len().max(1) as f64;
        let wait = self.arrays.iter().map(of).sum::<f64>() / count;
        let deviation = (self.deviation_ms * self.deviation_ms + wait * wait).sqrt();
        let read = self.access_ms + wait + deviation * self.slowest_read;
        let write = if self.cached_writes {
            0.1
        } else {
            self.write_ms + self.write_waits * wait + deviation * self.slowest_write
        };
        self.reads * read + (1.0 - self.reads) * write
    }
}

/// By how many deviations the slowest of so many accesses is expected behind their mean.
fn slowest_of(accesses: f64) -> f64 {
    (2.0 * accesses.max(1.0).ln()).sqrt() * 0.6
}

/// The mean wait on a disk of each array at a moment; adds up their utilisation.
fn waits(
    loads: &[Option<Load>],
    widths: &[f64],
    moment: usize,
    utilisation: &mut [f64],
) -> Vec<f64> {
    // The utilisation, the squared times and the longest on period.
    let mut queues = vec![(0.0_f64, 0.0_f64, 0.0_f64); widths.len()];
    for load in loads.iter().flatten().filter(|load| load.is_on(moment)) {
        let per_disk = load.rate / 1000.0 / load.all_disks.max(1.0);
        for array in &load.arrays {
            let Some(queue) = queues.get_mut(*array) else { continue };
            queue.0 += per_disk * load.busy_ms;
            queue.1 += per_disk * load.busy_squared;
            queue.2 = queue.2.max(load.on_ms);
        }
    }
    for (sum, queue) in utilisation.iter_mut().zip(&queues) {
        *sum += queue.0.min(1.0) / MOMENTS as f64;
    }
    let wait = |(busy, squared, on_ms): (f64, f64, f64)| {
        let steady = busy.min(UTILISATION_MAX);
        let steady_squared = if busy > 0.0 { squared * steady / busy } else { 0.0 };
        let wait = steady_squared / (2.0 * (1.0 - steady));
        // Beyond that the queue grows for as long as the streams stay on; half of it on average.
        wait + (busy - UTILISATION_MAX).max(0.0) * on_ms / 2.0
    };
    queues.into_iter().map(wait).collect()
}

/// The share of each drive of an array that objects use.
fn used(system: &SystemDescription) -> Vec<f64> {
    let mut blocks = vec![0; system.arrays.len()];
    for object in &system.objects {
        for index in &object.arrays {
            if let (Some(sum), Some(array)) = (blocks.get_mut(*index), system.arrays.get(*index)) {
                *sum += object.blocks_a_disk(array.len()).0;
            }
        }
    }
    let share = |(blocks, array): (&u64, &Vec<Profile>)| {
        let capacity = array.first().map_or(1, |profile| profile.geometry.capacity().0);
        *blocks as f64 / capacity.max(1) as f64
    };
    blocks.iter().zip(&system.arrays).map(share).collect()
}

/// On and off periods after which it does not show where they began.
const SETTLED_CYCLES: f64 = 50.0;

/// The sampled moments at which a stream with these on periods is on.
fn moments_on(mut windows: Windows, horizon_ns: f64) -> Moments {
    let mut window = windows.next();
    let at = |moment: usize| (horizon_ns * (moment as f64 + 0.5) / MOMENTS as f64) as u64;
    let cycle_ns = windows.cycle_ns();
    // Of short periods between two moments the last ones are enough.
    let are_many = horizon_ns / MOMENTS as f64 > 2.0 * SETTLED_CYCLES * cycle_ns;
    let mut on = 0;
    for moment in 0..MOMENTS {
        let at = Instant { ns: at(moment) };
        if are_many {
            windows.skip_to(at.ns as f64 - SETTLED_CYCLES * cycle_ns);
            window = windows.next();
        }
        while window.is_some_and(|(_, end)| end <= at) {
            window = windows.next();
        }
        on |= Moments::from(window.is_some_and(|(start, _)| start <= at)) << moment;
    }
    on
}

/// How many stripe units a request of `stream` touches on average, and how many blocks it has.
fn touched(stream: &Stream, unit: BlockCount) -> (f64, f64) {
    let blocks = BlockCount::holding(stream.mean_bytes()).0.max(1) as f64;
    let unit = unit.0.max(1) as f64;
    let is_aligned = stream.alignment().0 as f64 >= unit;
    let units = match (is_aligned, stream.sizes) {
        (true, SizeDistribution::Exponential) => 1.0 / (1.0 - (-unit / blocks).exp()),
        (true, SizeDistribution::Fixed) => (blocks / unit).ceil(),
        // At any place, one more boundary is crossed for each unit of length.
        (false, _) => 1.0 + (blocks - 1.0).max(0.0) / unit,
    };
    (units, blocks)
}

/// The reads and the writes that a written unit takes at `level` on `disks` disks, in a stripe of which a
/// request writes `units`.
fn write_accesses(level: Level, disks: usize, units: f64) -> (f64, f64) {
    let data = level.data_units(disks) as f64;
    let written = units.clamp(1.0, data.max(1.0));
    let parity = level.parity_units() as f64;
    if parity == 0.0 {
        return (0.0, level.copies(disks) as f64);
    }
    // Read-modify-write reads what it writes, reconstruct-write the rest of the stripe.
    let (modify, reconstruct) = (written + parity, data - written);
    (modify.min(reconstruct) / written, (written + parity) / written)
}

#[cfg(test)]
mod tests {
    use moirai_units::ByteCount;

    use super::*;

    #[test]
    fn a_request_touches_the_units_that_its_size_covers() {
        let mut stream = Stream::open("a", 1.0, ByteCount(1 << 20));
        stream.align = Some("512KiB".into());
        // 1 / (1 - e^(-1/2)).
        assert!((touched(&stream, BlockCount(1024)).0 - 2.541).abs() < 0.001);
        stream.sizes = SizeDistribution::Fixed;
        assert_eq!(touched(&stream, BlockCount(1024)), (2.0, 2048.0));
        stream.align = None;
        assert!((touched(&stream, BlockCount(1024)).0 - 3.0).abs() < 0.01);
    }

    #[test]
    fn small_writes_take_four_accesses_in_raid_5_and_two_in_raid_10() {
        let of = |level: &str, disks, units| write_accesses(level.parse().unwrap(), disks, units);
        assert_eq!(of("raid5", 5, 1.0), (2.0, 2.0));
        assert_eq!(of("raid5", 5, 4.0), (0.0, 1.25));
        assert_eq!(of("raid10", 4, 1.0), (0.0, 2.0));
        assert_eq!(of("raid1", 3, 1.0), (0.0, 3.0));
        assert_eq!(of("raid6", 6, 1.0), (3.0, 3.0));
    }
}
