//! The placement paper: narrow and wide striping of objects over arrays.

mod ideal;
mod interference;
mod skew;
mod sweep;
mod testbed;
mod traces;

pub(super) use ideal::EXPERIMENT as IDEAL;
pub(super) use interference::EXPERIMENT as INTERFERENCE;
pub(super) use skew::EXPERIMENT as SKEW;
pub(super) use sweep::EXPERIMENT as SWEEP;
pub(super) use testbed::EXPERIMENT as TESTBED;

use moirai::units::{BlockCount, ByteCount};
use moirai::volume::{Level, Rotation};
use moirai_models::{Scheduler, WritePolicy};
use moirai_policy::{
    Generator, ObjectOnArrays, Response, Run, Source, Stream, System, SystemDescription, Workload,
};

use crate::Failure;
use crate::setting::profile;

/// Mean request and stripe unit of large and of small requests (section 3.1).
const LARGE: ByteCount = ByteCount(1 << 20);
const LARGE_UNIT: ByteCount = ByteCount(512 << 10);
const SMALL: ByteCount = ByteCount(4 << 10);
/// Mean times between requests at which the paper's arrays are used for 60 to 65 % of the time.
const LARGE_GAP_MS: f64 = 17.0;
const SMALL_GAP_MS: f64 = 4.0;
/// "The size is 64 MB for each array."
const CACHE: ByteCount = ByteCount(64 << 20);
/// Each array's stores fill its disks, so that arms move over all of them.
const ARRAY_STORES: ByteCount = ByteCount(64 << 30);
const ARRAY_DISKS: usize = 5;
/// The part of the requests by which caches and queues fill; it is not counted.
const WARM_UP: f64 = 0.1;
/// On and off periods; the paper gives no length.
const PERIOD_MS: f64 = 1000.0;

/// What all experiments of the paper assume.
const ASSUMPTIONS: [&str; 4] = [
    "Drives: fujitsu-maj3182mc, five to an array (4+p, left-symmetric), first come, first served.",
    "The stores of an array fill its disks: with them the arrays are used for 50 to 60 % of the time at the paper's \
     rates, which it gives as 60 to 65 %. Stores of 16 GB come to 44 %.",
    "Requests begin at multiples of the stripe unit: the paper counts two accesses for 1 MB in units of 512 KB.",
    "Wide striping takes the arrays in turn, stripe unit by stripe unit.",
];

/// A store of one array, or its share of a wide system.
struct Store {
    stream: Stream,
    unit: ByteCount,
    size: ByteCount,
}

/// A system that is simulated.
struct Setting {
    drive: &'static str,
    /// Disks of an array.
    disks: usize,
    arrays: usize,
    is_wide: bool,
    cache: Option<(ByteCount, WritePolicy)>,
    /// Virtual seconds.
    seconds: f64,
    seed: u64,
}

/// What came of it.
struct Measured {
    names: Vec<String>,
    responses: Vec<Response>,
    /// By array.
    utilisations: Vec<Vec<f64>>,
    seconds: f64,
}

impl Setting {
    /// The system of section 3, of `arrays` arrays.
    fn new(arrays: usize, is_wide: bool, seconds: f64, seed: u64) -> Setting {
        let cache = Some((CACHE, WritePolicy::EARLY_DESTAGE));
        let (drive, disks) = ("fujitsu-maj3182mc", ARRAY_DISKS);
        Setting { drive, disks, arrays, is_wide, cache, seconds, seed }
    }

    /// Simulates the stores that `stores` gives for each array.
    fn measure(&self, stores: impl Fn(usize) -> Vec<Store>) -> Result<Measured, Failure> {
        let on: Vec<(Store, Vec<usize>)> = (0..self.arrays)
            .flat_map(|array| {
                let arrays = if self.is_wide { (0..self.arrays).collect() } else { vec![array] };
                stores(array).into_iter().map(move |store| (store, arrays.clone()))
            })
            .collect();
        self.measure_placed(on)
    }

    /// Simulates stores on the arrays beside them.
    fn measure_placed(&self, stores: Vec<(Store, Vec<usize>)>) -> Result<Measured, Failure> {
        let object = |(store, arrays): &(Store, Vec<usize>)| {
            let name = store.stream.object.clone();
            Self::object(name, BlockCount::holding(store.size), store.unit, arrays.clone())
        };
        let objects: Vec<ObjectOnArrays> = stores.iter().map(object).collect();
        let sizes: Vec<_> =
            objects.iter().map(|object| (object.name.clone(), object.size)).collect();
        let streams: Vec<Stream> = stores.into_iter().map(|(store, _)| store.stream).collect();
        // Closed loops come to some 100 requests a second for each that is in flight.
        let workload = Workload { streams };
        let in_loop = |stream: &Stream| stream.concurrency.map(|most| f64::from(most) * 100.0);
        let rate: f64 = workload
            .streams
            .iter()
            .filter_map(|stream| workload.mean_iops(stream).or(in_loop(stream)))
            .sum();
        workload.check().map_err(Failure::Setting)?;
        let requests = (rate * self.seconds).max(100.0);
        self.simulate(objects, &mut Generator::new(&workload, &sizes, self.seed), requests)
    }

    /// A store, as the arrays have it.
    fn object(
        name: String,
        size: BlockCount,
        unit: ByteCount,
        arrays: Vec<usize>,
    ) -> ObjectOnArrays {
        let level = Level::Raid5(Rotation::LeftSymmetric);
        ObjectOnArrays { name, size, arrays, level, unit: BlockCount::holding(unit) }
    }

    /// Simulates `requests` requests of `source` to `objects`.
    fn simulate(
        &self,
        objects: Vec<ObjectOnArrays>,
        source: &mut impl Source,
        requests: f64,
    ) -> Result<Measured, Failure> {
        let profile = profile(self.drive)?;
        let names = objects.iter().map(|object| object.name.clone()).collect();
        let description = SystemDescription {
            arrays: vec![vec![profile; self.disks]; self.arrays],
            scheduler: Scheduler::Fcfs,
            cache: self.cache,
            objects,
            failed: Vec::new(),
            rebuilds: false,
        };
        let mut system = System::new(&description).map_err(Failure::Setting)?;
        let run = Run::Requests { count: requests as u64, warm_up: (requests * WARM_UP) as u64 };
        system.run(source, run);
        Ok(Measured {
            names,
            responses: system.responses().to_vec(),
            utilisations: system.utilisations(),
            seconds: system.last_finished().ns as f64 / 1e9,
        })
    }
}

impl Measured {
    /// The mean response time of the stores whose names begin with `prefix`.
    fn mean_ms(&self, prefix: &str) -> f64 {
        let of = self.names.iter().zip(&self.responses);
        let (mut sum_ns, mut requests) = (0, 0);
        for (_, response) in of.filter(|(name, _)| name.starts_with(prefix)) {
            sum_ns += response.sum_ns;
            requests += response.requests();
        }
        sum_ns as f64 / 1e6 / requests.max(1) as f64
    }

    /// The share of the time that the drives worked.
    fn utilisation(&self) -> f64 {
        let all: Vec<f64> = self.utilisations.concat();
        all.iter().sum::<f64>() / all.len().max(1) as f64
    }

    /// Requests a second to the store called `name`.
    fn iops(&self, name: &str) -> f64 {
        let of = self.names.iter().zip(&self.responses).find(|(other, _)| *other == name);
        let requests = of.map_or(0, |(_, response)| response.requests());
        requests as f64 / (1.0 - WARM_UP) / self.seconds.max(1e-9)
    }
}

/// A store of array `array` with large requests, in `stores` stores to an array.
fn large(array: usize, stream: impl Fn(String) -> Stream, unit: ByteCount, stores: u64) -> Store {
    store(format!("L{array}"), stream, unit, stores)
}

/// One with small requests.
fn small(array: usize, stream: impl Fn(String) -> Stream, unit: ByteCount, stores: u64) -> Store {
    store(format!("S{array}"), stream, unit, stores)
}

fn store(name: String, stream: impl Fn(String) -> Stream, unit: ByteCount, stores: u64) -> Store {
    let mut stream = stream(name);
    stream.align = Some(unit.0.to_string());
    Store { stream, unit, size: ByteCount(ARRAY_STORES.0 / stores) }
}

/// A Poisson stream with a request each `gap_ms`, of `size` on average.
fn poisson(gap_ms: f64, size: ByteCount) -> impl Fn(String) -> Stream {
    move |name| Stream::open(name, 1000.0 / gap_ms, size)
}

/// The rates and sizes of the two streams of an array, which share it.
#[derive(Clone, Copy)]
struct Pair {
    large_gap_ms: f64,
    small_gap_ms: f64,
    large: ByteCount,
    large_unit: ByteCount,
    large_writes: f64,
    small_writes: f64,
    /// The correlation of their on periods.
    correlation: f64,
}

impl Default for Pair {
    fn default() -> Pair {
        Pair {
            large_gap_ms: LARGE_GAP_MS,
            small_gap_ms: SMALL_GAP_MS,
            large: LARGE,
            large_unit: LARGE_UNIT,
            large_writes: 0.0,
            small_writes: 0.0,
            correlation: 0.0,
        }
    }
}

impl Pair {
    /// The streams of array `array`: the small one is on when the large one is not, or with it.
    fn stores(&self, array: usize) -> Vec<Store> {
        let mut one = large(array, poisson(self.large_gap_ms, self.large), self.large_unit, 2);
        (one.stream.on_ms, one.stream.off_ms) = (Some(PERIOD_MS), Some(PERIOD_MS));
        one.stream.reads = 1.0 - self.large_writes;
        let mut other = small(array, poisson(self.small_gap_ms, SMALL), SMALL, 2);
        other.stream.follows = Some(one.stream.object.clone());
        other.stream.overlap = Some(self.correlation);
        other.stream.reads = 1.0 - self.small_writes;
        vec![one, other]
    }
}
