//! The planner beside all plans of small cases, and beside random plans of a large one; the estimate
//! beside the simulation.
//!
//! `MOIRAI_RUNS` says how many cases are tried, `MOIRAI_SEED` with which to begin.

#![expect(clippy::unwrap_used, reason = "a test stops at what it did not expect")]
#![expect(clippy::indexing_slicing, reason = "a test stops at what it did not expect")]
#![expect(clippy::print_stdout, reason = "figures are read where the test is run by hand")]

use std::path::Path;

use moirai_policy::estimate::Estimator;
use moirai_policy::search::{Options, compare, search};
use moirai_policy::{Goal, Judge, Judgement, Object, Placement, Plan, Policy, Stream, Workload};
use moirai_runtime::{Random, Stopwatch, map_on_cores, seeded};
use moirai_units::ByteCount;
use rand::Rng;
use rand::seq::{IndexedRandom, SliceRandom};

fn variable(name: &str, default: u64) -> u64 {
    std::env::var(name).ok().and_then(|text| text.parse().ok()).unwrap_or(default)
}

/// A policy of fixed arrays, each with its kind of disks.
fn policy(kinds: &[(&str, usize)], objects: Vec<Object>) -> Policy {
    let disks = kinds.iter().map(|(profile, arrays)| {
        let count = arrays * 5;
        format!("[[disks]]\nprofile = \"{profile}\"\ncount = {count}\ncost = 300.0\n")
    });
    let disks: String = disks.collect();
    let text = format!(
        "{disks}\n[arrays]\nwidth = 5\nfixed = true\n[[object]]\nname = \"none\"\nsize = \"1MiB\"\n"
    );
    let policy = Policy::parse(&text, Path::new("policy")).unwrap();
    Policy { objects, ..policy }
}

/// A stream of a random kind, which takes about `load` of the time of five disks while it is on.
fn random_stream(name: &str, load: f64, random: &mut Random) -> Stream {
    let (bytes, busy_ms) = *[(4 << 10, 9.0), (8 << 10, 9.0), (64 << 10, 11.0), (512 << 10, 40.0)]
        .choose(random)
        .unwrap();
    let iops = load * 5.0 / busy_ms * 1000.0;
    let mut stream = Stream::open(name, iops, ByteCount(bytes));
    stream.reads = [1.0, 1.0, 0.8].choose(random).copied().unwrap();
    if random.random::<f64>() < 0.5 {
        stream.iops = Some(iops / stream.reads);
        (stream.on_ms, stream.off_ms) = (Some(500.0), Some(500.0));
    }
    stream
}

/// Four objects, on three arrays of five Fujitsu MAJ3182MC.
fn small_case(seed: u64) -> (Policy, Workload) {
    let mut random = seeded(seed, "small case");
    let mut streams = Vec::new();
    let mut objects = Vec::new();
    for index in 0..4 {
        let name = format!("object{index}");
        streams.push(random_stream(&name, random.random_range(0.1..0.5), &mut random));
        let mut object = Object::new(&name, ByteCount(random.random_range(2..8) << 30));
        (object.level, object.stripe_unit) = (Some("raid5".into()), Some("64KiB".into()));
        if random.random::<f64>() < 0.3 {
            let response_ms = Some(random.random_range(15.0..60.0));
            object.goal = Some(Goal { percentile: None, response_ms, iops: None });
        }
        objects.push(object);
    }
    (policy(&[("fujitsu-maj3182mc", 3)], objects), Workload { streams })
}

/// `plan` of `policy` with object `index` on the arrays that `of` says.
fn plan(policy: &Policy, of: impl Fn(usize) -> Vec<usize>) -> Plan {
    let base = Plan::arrays_of(policy, "plan", usize::MAX);
    let placement = |(index, object): (usize, &Object)| Placement {
        name: object.name.clone(),
        size: object.size.clone(),
        arrays: of(index).iter().map(|array| base.arrays[*array].name.clone()).collect(),
        level: object.level.clone().unwrap(),
        stripe_unit: object.stripe_unit.clone().unwrap(),
        growth: 0.0,
        goal: object.goal,
    };
    let objects = policy.objects.iter().enumerate().map(placement).collect();
    Plan { objects, ..base }
}

fn subset(mask: usize) -> Vec<usize> {
    (0..3).filter(|index| mask >> index & 1 == 1).collect()
}

/// The best of all 2,401 plans.
fn exhaustive(policy: &Policy, judge: &Judge<'_>) -> Judgement {
    let all: Vec<usize> = (0..7_usize.pow(4)).collect();
    let judged = map_on_cores(&all, |number| {
        judge
            .judge(&plan(policy, |object| subset(number / 7_usize.pow(object as u32) % 7 + 1)))
            .unwrap()
    });
    judged.into_iter().min_by(compare).unwrap()
}

#[test]
fn the_planner_finds_the_best_plan_of_small_cases() {
    let (first, cases) = (variable("MOIRAI_SEED", 0), variable("MOIRAI_RUNS", 2));
    let requests = variable("MOIRAI_REQUESTS", 1_000);
    let mut near = 0;
    for seed in first..first + cases {
        let (policy, workload) = small_case(seed);
        let judge = Judge { workload: &workload, requests, seed: 1, runs: 1 };
        let best = exhaustive(&policy, &judge);
        let options = Options { requests, simulations: 200, ..Options::default() };
        let found = search(&policy, &workload, &options, &mut |_, _| {}).unwrap();
        // With the requests that all plans were tried with: the search judges its last plans by further ones, too.
        let own = judge.judge(&found[0].plan).unwrap();
        let ratio = own.cost / best.cost;
        println!(
            "case {seed}: {:.3} ms, best {:.3} ms, {ratio:.3}; missed by {:.3}, {:.3}",
            own.cost, best.cost, own.missed_by, best.missed_by
        );
        assert!(
            own.meets_goals || !best.meets_goals,
            "case {seed}: MOIRAI_SEED={seed} MOIRAI_RUNS=1"
        );
        near += u64::from(ratio <= 1.05);
    }
    // 45 of 50.
    assert!(near * 50 >= cases * 45, "{near} of {cases} within 5 %");
}

/// Places of values in their order.
fn ranks(values: &[f64]) -> Vec<f64> {
    let mut order: Vec<usize> = (0..values.len()).collect();
    order.sort_by(|one, other| values[*one].total_cmp(&values[*other]));
    let mut ranks = vec![0.0; values.len()];
    for (rank, index) in order.into_iter().enumerate() {
        ranks[index] = rank as f64;
    }
    ranks
}

/// Spearman's rank correlation.
fn rank_correlation(one: &[f64], other: &[f64]) -> f64 {
    let (one, other) = (ranks(one), ranks(other));
    let squares: f64 = one.iter().zip(&other).map(|(a, b)| (a - b).powi(2)).sum();
    let count = one.len() as f64;
    1.0 - 6.0 * squares / (count * (count * count - 1.0))
}

#[test]
fn the_estimate_orders_plans_as_the_simulation_does() {
    let plans = variable("MOIRAI_PLANS", 60);
    let requests = variable("MOIRAI_REQUESTS", 5_000);
    let (mut sum, seeds) = (0.0, 3);
    for seed in 0..seeds {
        let (policy, workload) = small_case(seed);
        let judge = Judge { workload: &workload, requests, seed: 1, runs: 1 };
        let mut random = seeded(seed, "plans");
        let plans: Vec<Plan> = (0..plans)
            .map(|_| {
                let masks: Vec<usize> = (0..4).map(|_| random.random_range(1..8)).collect();
                plan(&policy, |object| subset(masks[object]))
            })
            .collect();
        let simulated: Vec<f64> = map_on_cores(&plans, |plan| judge.judge(plan).unwrap().cost);
        let mut estimator = Estimator::new(&workload);
        let goals = vec![None; 4];
        let estimated: Vec<f64> = plans
            .iter()
            .map(|plan| estimator.estimate(&plan.system().unwrap(), &goals).cost)
            .collect();
        let correlation = rank_correlation(&simulated, &estimated);
        println!("case {seed}: rank correlation {correlation:.3}");
        sum += correlation;
    }
    assert!(sum / seeds as f64 >= 0.9, "{}", sum / seeds as f64);
}

/// A random plan of `policy`: each object on a random group of arrays, with a random unit. The level is RAID 5, the best there is for
/// objects that are mostly read and must survive a disk of five.
fn random_plan(policy: &Policy, random: &mut Random) -> Option<Plan> {
    let base = Plan::arrays_of(policy, "random", usize::MAX);
    let count = base.arrays.len();
    let objects = policy.objects.iter().map(|object| {
        let size = *[1, 1, 2, 4, count].choose(random)?;
        let mut arrays: Vec<usize> = (0..count).collect();
        arrays.shuffle(random);
        let mut arrays: Vec<usize> = arrays.into_iter().take(size).collect();
        arrays.sort_unstable();
        let unit = *["16KiB", "64KiB", "256KiB", "1MiB"].choose(random)?;
        Some(Placement {
            name: object.name.clone(),
            size: object.size.clone(),
            arrays: arrays.iter().map(|array| base.arrays[*array].name.clone()).collect(),
            level: "raid5".into(),
            stripe_unit: unit.into(),
            growth: 0.0,
            goal: object.goal,
        })
    });
    let objects = objects.collect::<Option<_>>()?;
    let plan = Plan { objects, ..base };
    plan.system().is_ok().then_some(plan)
}

/// By hand, the figures: `MOIRAI_RUNS=10 MOIRAI_PLANS=1000 MOIRAI_REQUESTS=100000
/// MOIRAI_OBJECTS=100`.
#[test]
fn the_planner_beats_random_plans_of_large_cases() {
    let (first, cases) = (variable("MOIRAI_SEED", 0), variable("MOIRAI_RUNS", 1));
    let (plans, requests) = (variable("MOIRAI_PLANS", 20), variable("MOIRAI_REQUESTS", 5_000));
    let objects = variable("MOIRAI_OBJECTS", 40);
    for seed in first..first + cases {
        let mut random = seeded(seed, "large case");
        let mut streams = Vec::new();
        let mut all = Vec::new();
        for index in 0..objects {
            let name = format!("object{index}");
            let load = random.random_range(0.02..0.15) * 100.0 / objects as f64;
            streams.push(random_stream(&name, load, &mut random));
            all.push(Object::new(&name, ByteCount(random.random_range(1..5) << 30)));
        }
        let kinds =
            [("fujitsu-maj3182mc", 8), ("seagate-cheetah-36es", 6), ("seagate-cheetah-x15", 6)];
        let (policy, workload) = (policy(&kinds, all), Workload { streams });
        let judge = Judge { workload: &workload, requests, seed: 1, runs: 1 };
        let watch = Stopwatch::start();
        let options = Options { requests, ..Options::default() };
        let found = search(&policy, &workload, &options, &mut |_, _| {}).unwrap();
        let seconds = watch.elapsed().as_s();
        let plans: Vec<Plan> = std::iter::from_fn(|| Some(random_plan(&policy, &mut random)))
            .flatten()
            .take(plans as usize)
            .collect();
        let costs = map_on_cores(&plans, |plan| judge.judge(plan).unwrap().cost);
        let best = costs.iter().copied().fold(f64::INFINITY, f64::min);
        let own = judge.judge(&found[0].plan).unwrap().cost;
        println!(
            "case {seed}: {own:.3} ms in {seconds:.0} s, best of {} random plans {best:.3} ms",
            costs.len()
        );
        assert!(own < best, "MOIRAI_SEED={seed} MOIRAI_RUNS=1");
    }
}
