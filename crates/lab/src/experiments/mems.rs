//! MEMS stores: thesis 3.3 and table 3.2, and the figures that DiskSim's authors expect of their model.

use moirai::runtime::{Random, block_on_virtual, random};
use moirai::units::{BlockCount, BlockRange, Instant, Lbn, Nanos};
use moirai_models::{
    Direction, DiskCompletion, DiskRequest, Mems, MemsProfile, MemsProfileFile, Scheduler,
};
use rand::Rng;

use crate::{Context, Experiment, Failure, Row, Tolerance};

pub(super) const EXPERIMENT: Experiment = Experiment {
    name: "mems",
    source: "thesis table 3.2 and 6.2.1; DiskSim 4.0's memsvalid",
    summary: "MEMS stores of three generations: response times, seeks, bandwidth, equals read at once",
    assumptions: &[
        "Response times: DiskSim's workload, 10,000 requests at random places, 66 % reads, arrivals 50 ms apart and sizes of 8 \
         blocks in the mean, both exponential, in multiples of 8 blocks; first come, first served; 1,280 active tips of G2.",
        "Seek and bandwidth: 640 active tips, as thesis 6.4.6 has them. The average seek is that between random blocks.",
        "The sled's times are exact, where DiskSim's are approximated in pieces. Reads are not kept.",
    ],
    takes: "1 s",
    scaling: None,
    run,
};

const REQUESTS: u64 = 10_000;
/// Generation, springs at the end of the way, and the mean response that DiskSim's authors expect.
const EXPECTED_MS: [(u32, f64, f64); 6] = [
    (1, 0.0, 2.00),
    (2, 0.0, 1.18),
    (3, 0.0, 0.87),
    (1, 0.75, 2.01),
    (2, 0.75, 1.16),
    (3, 0.75, 0.85),
];
/// DiskSim's own.
const G2_TIPS: u32 = 1280;

fn run(context: &Context) -> Result<Vec<Row>, Failure> {
    let seed = context.seed();
    let stages = context.stage().split([1.0; 6]);
    let mut rows = Vec::new();
    for ((generation, springs, expected), stage) in EXPECTED_MS.into_iter().zip(stages) {
        let stage = stage.called(&format!("G{generation}, springs {springs}"));
        let mut file = profile(generation)?.file;
        file.spring_factor = springs;
        if generation == 2 {
            file.active_tips = G2_TIPS;
        }
        let ours = block_on_virtual(seed, async { mean_response_ms(checked(file)?) })?;
        let figure = format!("G{generation}, springs {:.0} %, mean response", springs * 100.0);
        let row = Row::new(figure, "virtual ms", ours).beside(expected);
        rows.push(row.judged(Tolerance::Published(0.05)));
        stage.at(1.0);
    }
    let g2 = profile(2)?;
    let (seek_ms, mb_per_s) = block_on_virtual(seed, async { (seek_ms(&g2), streaming(&g2)) });
    let table = |row: Row, published| row.beside(published).judged(Tolerance::Published(0.05));
    rows.push(table(Row::new("G2, average random seek", "virtual ms", seek_ms), 0.56));
    rows.push(table(Row::new("G2, in sequence", "MB/virtual s", mb_per_s), 38.0));
    let (one, equals, apart) = reads_ms(&g2);
    rows.push(Row::new("G2, one block anywhere", "virtual ms", one));
    let together = Row::new("G2, ten equals together, in the time of one", "", equals / one);
    rows.push(together.judged(Tolerance::AtMost(1.1)));
    rows.push(Row::new("G2, ten blocks anywhere, in the time of one", "", apart / one));
    Ok(rows)
}

fn profile(generation: u32) -> Result<MemsProfile, Failure> {
    let name = format!("mems-g{generation}");
    MemsProfile::built_in(&name).ok_or(Failure::Setting(format!("there is no {name}")))
}

fn checked(file: MemsProfileFile) -> Result<MemsProfile, Failure> {
    MemsProfile::new(file).map_err(|error| Failure::Setting(error.to_string()))
}

/// All that is done when nothing more happens.
fn finish(mems: &mut Mems, done: &mut Vec<DiskCompletion>) {
    while let Some(at) = mems.next_event() {
        mems.advance(at, done);
    }
}

fn exponential(random: &mut Random, mean: f64) -> f64 {
    let uniform: f64 = random.random();
    -mean * (1.0 - uniform).ln()
}

fn mean_response_ms(profile: MemsProfile) -> Result<f64, Failure> {
    let mut random = random("requests");
    let units = profile.layout.capacity().0 / 8;
    let mut mems = Mems::new(profile, Scheduler::Fcfs);
    let (mut now, mut done) = (Instant::ZERO, Vec::new());
    for id in 0..REQUESTS {
        now = now + Nanos::from_ms(exponential(&mut random, 50.0));
        let (first, count) = loop {
            let first = random.random_range(0..units);
            // A whole number of blocks, and then of eight, as DiskSim rounds them.
            let count = (exponential(&mut random, 8.0) as u64).div_ceil(8);
            if count > 0 && first + count < units {
                break (first, count);
            }
        };
        let direction = if random.random_bool(0.66) { Direction::Read } else { Direction::Write };
        let blocks = BlockRange::new(Lbn(first * 8), BlockCount(count * 8));
        mems.advance(now, &mut done);
        mems.submit(now, DiskRequest { id, direction, blocks });
    }
    finish(&mut mems, &mut done);
    let total: f64 = done.iter().map(|one| one.finished.since(one.issued).as_ms()).sum();
    Ok(total / done.len() as f64)
}

/// From one random block to the next, one at a time: what the sled moves.
fn seek_ms(profile: &MemsProfile) -> f64 {
    let mut random = random("seeks");
    let capacity = profile.layout.capacity().0;
    let mut mems = Mems::new(profile.clone(), Scheduler::Fcfs);
    let mut done = Vec::new();
    let mut now = Instant::ZERO;
    for id in 0..REQUESTS {
        let blocks = BlockRange::new(Lbn(random.random_range(0..capacity)), BlockCount(1));
        mems.submit(now, DiskRequest { id, direction: Direction::Read, blocks });
        finish(&mut mems, &mut done);
        now = done.last().map_or(now, |last| last.finished);
    }
    // The first waits for the sled to start.
    let seeks = done.iter().skip(1).map(|one| one.parts.seek.as_ms());
    seeks.sum::<f64>() / (done.len() - 1) as f64
}

fn streaming(profile: &MemsProfile) -> f64 {
    let count = BlockCount(profile.layout.cylinder_blocks().0 * 100);
    let blocks = BlockRange::new(Lbn(0), count);
    let mut mems = Mems::new(profile.clone(), Scheduler::Fcfs);
    mems.submit(Instant::ZERO, DiskRequest { id: 0, direction: Direction::Read, blocks });
    let mut done = Vec::new();
    finish(&mut mems, &mut done);
    let took = done.iter().map(|one| one.finished.since(one.issued).as_s()).sum::<f64>();
    count.bytes().0 as f64 / 1e6 / took
}

/// Of one block, ten of its class and ten anywhere that are asked for together.
fn reads_ms(profile: &MemsProfile) -> (f64, f64, f64) {
    let layout = &profile.layout;
    let step = layout.capacity().0 / 10;
    let class = layout.equivalent(Lbn(step / 2));
    let read = |lbns: Vec<Lbn>| {
        let mut mems = Mems::new(profile.clone(), Scheduler::Sptf);
        let mut done = Vec::new();
        for (id, lbn) in (0..).zip(lbns) {
            let blocks = BlockRange::new(lbn, BlockCount(1));
            mems.submit(Instant::ZERO, DiskRequest { id, direction: Direction::Read, blocks });
        }
        finish(&mut mems, &mut done);
        done.iter().map(|one| one.finished.since(one.issued).as_ms()).fold(0.0, f64::max)
    };
    let column = class.iter().step_by(10).copied();
    let anywhere = (0..10).map(|at| Lbn(at * step + step / 2));
    (read(vec![Lbn(step / 2)]), read(column.collect()), read(anywhere.collect()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn mems_stores_are_those_of_disksim_and_the_thesis() {
        let outcome = EXPERIMENT.outcome(&Context::new(1)).unwrap();
        assert_eq!(outcome.outside().count(), 0, "{outcome:?}");
        assert_eq!(outcome.rows.iter().filter(|row| row.within == Some(true)).count(), 9);
    }
}
