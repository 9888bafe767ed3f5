//! Judging plans by simulation: response times, utilisation, and what happens when the workload or the
//! disks are not as expected.

use moirai_replay::Rebuilt;
use moirai_runtime::seeded;
use moirai_units::BlockCount;
use rand::RngCore;
use serde::Serialize;

use crate::error::{Error, Result};
use crate::generate::{Generator, Source};
use crate::moments::Moments;
use crate::plan::Plan;
use crate::policy::Goal;
use crate::run::Run;
use crate::system::{Response, System, SystemDescription};
use crate::workload::Workload;

/// How plans are simulated.
#[derive(Clone, Debug)]
pub struct Judge<'a> {
    /// The workload.
    pub workload: &'a Workload,
    /// Requests of each run; the first tenth is not counted. Where streams are on or off for longer than these take, they are taken
    /// at several moments.
    pub requests: u64,
    /// The seed of the first run.
    pub seed: u64,
    /// Runs, each with another seed.
    pub runs: u64,
}

/// What may be other than expected.
#[derive(Clone, Debug, PartialEq)]
pub enum Scenario {
    /// All is as expected.
    Expected,
    /// The stream to an object has so many times the requests.
    Grown {
        /// The object.
        object: String,
        /// The factor, above 0.
        times: f64,
    },
    /// Two streams are on at the same times.
    Coincident {
        /// An object whose stream has on periods.
        leader: String,
        /// The object whose stream is on with it.
        follower: String,
    },
    /// A disk has failed.
    FailedDisk {
        /// The array's name.
        array: String,
        /// The disk in the array, counted from 0.
        disk: usize,
        /// Another one is in its place, and is filled as fast as its array can beside the requests.
        is_rebuilt: bool,
    },
    /// All objects have grown as they do in a year, and their requests with them.
    NextYear,
}

/// The figures of a plan.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Judgement {
    /// What the disks cost.
    pub price: f64,
    /// The mean response time of all requests, in ms: what plans are compared by.
    pub cost: f64,
    /// Half the 95 % confidence interval of `cost`; 0 for one run.
    pub cost_confidence: f64,
    /// Whether all goals are met.
    pub meets_goals: bool,
    /// By how much goals are missed, in all: 0.5 is half more than the goal, 0 when all are met.
    pub missed_by: f64,
    /// Each object.
    pub objects: Vec<ObjectFigures>,
    /// The share of the time that each disk worked.
    pub disk_utilisation: Vec<DiskFigures>,
    /// How fast a disk is filled, where one is and that shows.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rebuild: Option<RebuildFigures>,
}

/// How fast a disk is filled that is in the place of a failed one.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct RebuildFigures {
    /// What is written to it.
    pub mb_per_s: f64,
    /// How long it takes to fill all that is used of it, if the requests stay as they are.
    pub hours: f64,
}

/// The figures of an object.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct ObjectFigures {
    /// The object's name.
    pub name: String,
    /// Its arrays.
    pub array: Vec<String>,
    /// Its RAID level.
    pub raid: String,
    /// Its stripe unit.
    pub stripe_unit_bytes: u64,
    /// Requests that were counted.
    pub requests: u64,
    /// Requests a second.
    pub iops: f64,
    /// The mean response time.
    pub mean_response_ms: f64,
    /// The mean response time of reads.
    pub mean_read_ms: f64,
    /// The response time that 95 % of the requests do not exceed.
    pub p95_response_ms: f64,
    /// The one that 99.9 % do not exceed.
    pub p999_response_ms: f64,
    /// What it must have, in words.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub goal: Option<String>,
    /// Whether it has that; `None` without a goal.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub meets_goal: Option<bool>,
    /// What would be needed, in words, where the goal is missed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub missed: Option<String>,
}

/// The figures of a disk.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct DiskFigures {
    /// Its array.
    pub array: String,
    /// Which disk of the array, counted from 0.
    pub disk: usize,
    /// The share of the time that it worked, 0 to 1.
    pub utilisation: f64,
}

/// A goal in words.
#[must_use]
pub fn goal_text(goal: &Goal) -> String {
    let response = goal.response_ms.map(|ms| match goal.percentile {
        Some(percent) => format!("{percent} % of the requests within {ms} ms"),
        None => format!("{ms} ms on average"),
    });
    let rate = goal.iops.map(|iops| format!("{iops} requests/s"));
    response.into_iter().chain(rate).collect::<Vec<_>>().join(", ")
}

/// What is worth asking of `plan`, in words: the busiest streams grow by a third, two of them turn out to
/// be on together, a disk of the busiest array fails, and a year passes.
#[must_use]
pub fn scenarios(
    plan: &Plan,
    workload: &Workload,
    judgement: &Judgement,
) -> Vec<(String, Scenario)> {
    let mut busiest: Vec<&ObjectFigures> = judgement.objects.iter().collect();
    busiest.sort_by(|one, other| other.iops.total_cmp(&one.iops));
    let mut scenarios: Vec<(String, Scenario)> = busiest
        .iter()
        .take(3)
        .filter(|figures| workload.stream(&figures.name).is_some())
        .map(|figures| {
            let object = figures.name.clone();
            let words = format!("`{object}` has a third more requests");
            (words, Scenario::Grown { object, times: 4.0 / 3.0 })
        })
        .collect();
    let with_periods: Vec<&str> = busiest
        .iter()
        .filter_map(|figures| workload.stream(&figures.name))
        .filter(|stream| stream.on_ms.is_some())
        .map(|stream| stream.object.as_str())
        .collect();
    let is_free =
        |name: &&str| workload.streams.iter().all(|stream| stream.follows.as_deref() != Some(name));
    let in_turn = workload.streams.iter().find_map(|stream| {
        let leader = stream.follows.as_deref()?;
        (stream.overlap.unwrap_or(0.0) < 1.0).then_some((leader, stream.object.as_str()))
    });
    let apart = || match with_periods.as_slice() {
        [leader, others @ ..] => Some((*leader, others.iter().copied().find(is_free)?)),
        [] => None,
    };
    if let Some((leader, follower)) = in_turn.or_else(apart) {
        let (leader, follower) = (leader.to_owned(), follower.to_owned());
        let words = format!("`{leader}` and `{follower}` are on together");
        scenarios.push((words, Scenario::Coincident { leader, follower }));
    }
    let is_redundant = |array: &str| {
        let on =
            plan.objects.iter().filter(|object| object.arrays.iter().any(|name| name == array));
        on.into_iter().all(|object| object.level != "raid0")
    };
    let used =
        |one: &&DiskFigures, other: &&DiskFigures| one.utilisation.total_cmp(&other.utilisation);
    if let Some(disk) = judgement.disk_utilisation.iter().max_by(used)
        && is_redundant(&disk.array)
    {
        for (is_rebuilt, what) in [(false, "has failed"), (true, "has failed and is rebuilt")] {
            let words = format!("disk {} of `{}` {what}", disk.disk, disk.array);
            let (array, disk) = (disk.array.clone(), disk.disk);
            scenarios.push((words, Scenario::FailedDisk { array, disk, is_rebuilt }));
        }
    }
    if plan.objects.iter().any(|object| object.growth > 0.0) {
        scenarios.push(("a year passes".into(), Scenario::NextYear));
    }
    scenarios
}

/// What was measured in a run, in one piece or at several moments, added up.
#[derive(Default)]
struct Sums {
    responses: Vec<Response>,
    utilisations: Vec<Vec<f64>>,
    /// Pieces.
    count: u32,
    /// Until all requests were served.
    span_s: f64,
    /// The part of that in which requests are counted.
    counted_s: f64,
    rebuilt: Option<Rebuilt>,
}

impl Sums {
    fn simulate(
        &mut self,
        description: &SystemDescription,
        source: &mut impl Source,
        run: Run,
    ) -> Result<()> {
        let mut system = System::new(description).map_err(Error::Mismatch)?;
        system.run(source, run);
        let span_s = system.last_finished().ns as f64 / 1e9;
        let counted_share = match run {
            Run::Requests { warm_up, .. } => 1.0 - warm_up as f64 / system.issued().max(1) as f64,
            Run::Time { until, warm_up } => 1.0 - warm_up.ns as f64 / until.ns.max(1) as f64,
        };
        self.add(Sums {
            responses: system.responses().to_vec(),
            utilisations: system.utilisations(),
            count: 1,
            span_s,
            counted_s: span_s * counted_share,
            rebuilt: system.rebuilt(),
        });
        Ok(())
    }

    fn add(&mut self, other: Sums) {
        if self.count == 0 {
            *self = other;
            return;
        }
        for (sum, response) in self.responses.iter_mut().zip(&other.responses) {
            sum.add(response);
        }
        let shares = other.utilisations.iter().flatten();
        for (sum, share) in self.utilisations.iter_mut().flatten().zip(shares) {
            *sum += share;
        }
        if let Some(rebuilt) = other.rebuilt {
            let sum = self.rebuilt.get_or_insert_default();
            sum.blocks += rebuilt.blocks;
            sum.of = rebuilt.of;
            sum.elapsed += rebuilt.elapsed;
        }
        self.count += other.count;
        self.span_s += other.span_s;
        self.counted_s += other.counted_s;
    }

    /// The mean response time of all requests, in ms.
    fn cost(&self) -> f64 {
        let counted: u64 = self.responses.iter().map(Response::requests).sum();
        let sum_ns: u128 = self.responses.iter().map(|response| response.sum_ns).sum();
        sum_ns as f64 / 1e6 / counted.max(1) as f64
    }
}

/// The figures of several runs.
#[derive(Default)]
struct Runs {
    costs: Vec<f64>,
    sums: Sums,
    /// Where a workload is simulated at moments, its objects' requests a second over all of the time: some moments tell those of a
    /// stream with long periods badly.
    offered_iops: Option<Vec<f64>>,
}

impl Runs {
    fn add(&mut self, run: Sums) {
        self.costs.push(run.cost());
        self.sums.add(run);
    }
}

impl Judge<'_> {
    /// Simulates `plan`.
    ///
    /// # Errors
    /// When the plan is not possible, or the workload accesses none of its objects.
    pub fn judge(&self, plan: &Plan) -> Result<Judgement> {
        self.judge_in(plan, &Scenario::Expected)
    }

    /// Simulates `plan` in `scenario`.
    ///
    /// # Errors
    /// As [`Judge::judge`], and when the scenario names an object or array that is not there, or a
    /// grown plan does not fit on its arrays.
    pub fn judge_in(&self, plan: &Plan, scenario: &Scenario) -> Result<Judgement> {
        let (plan, workload) = self.changed(plan, scenario)?;
        let mut description = plan.system()?;
        if let Scenario::FailedDisk { array, disk, is_rebuilt } = scenario {
            let index = plan.arrays.iter().position(|planned| planned.name == *array);
            let index =
                index.ok_or_else(|| Error::Mismatch(format!("there is no array `{array}`")))?;
            let disks = plan.arrays.get(index).map_or(0, |planned| planned.disks);
            if *disk >= disks {
                return Err(Error::Mismatch(format!("array `{array}` has no disk {disk}")));
            }
            description.failed.push((index, *disk));
            description.rebuilds = *is_rebuilt;
        }
        let sizes: Vec<(String, BlockCount)> =
            description.objects.iter().map(|object| (object.name.clone(), object.size)).collect();
        if !sizes.iter().any(|(name, _)| workload.stream(name).is_some()) {
            let problem = "the workload accesses no object of the plan: their names must agree";
            return Err(Error::Mismatch(problem.into()));
        }
        check_sizes(&workload, &sizes)?;
        let offered = |(name, _): &(String, BlockCount)| {
            workload.stream(name).and_then(|stream| workload.mean_iops(stream)).unwrap_or(0.0)
        };
        // What comes after a rebuild is as expected again, so all that comes before counts.
        let (moments, of_requests) = match description.rebuilds {
            true => (None, Run::Requests { count: self.requests, warm_up: 0 }),
            false => {
                (Moments::of(&workload, &sizes, self.requests), Run::with_warm_up(self.requests))
            }
        };
        let offered_iops = moments.map(|_| sizes.iter().map(offered).collect());
        let mut runs = Runs { offered_iops, ..Runs::default() };
        let mut seeds = seeded(self.seed, "seeds of the runs");
        for run in 0..self.runs.max(1) {
            let seed = if run == 0 { self.seed } else { seeds.next_u64() };
            let mut sums = Sums::default();
            let Some(moments) = moments else {
                let mut source = Generator::new(&workload, &sizes, seed);
                sums.simulate(&description, &mut source, of_requests)?;
                runs.add(sums);
                continue;
            };
            let phases = moments.phases(&workload, seed);
            let mut of_moments = seeded(seed, "moments");
            for moment in 0..moments.count() {
                let seed = of_moments.next_u64();
                let mut source = Generator::at_moment(&workload, &sizes, seed, &phases, moment);
                sums.simulate(&description, &mut source, moments.run())?;
            }
            runs.add(sums);
        }
        Ok(figures(&plan, &runs))
    }

    /// Simulates `plan` with the requests of `source`, as of a trace.
    ///
    /// # Errors
    /// As [`Judge::judge`].
    pub fn judge_source(&self, plan: &Plan, source: &mut impl Source) -> Result<Judgement> {
        let mut sums = Sums::default();
        sums.simulate(&plan.system()?, source, Run::with_warm_up(self.requests))?;
        let mut runs = Runs::default();
        runs.add(sums);
        Ok(figures(plan, &runs))
    }

    /// The plan and the workload as `scenario` has them.
    fn changed(&self, plan: &Plan, scenario: &Scenario) -> Result<(Plan, Workload)> {
        let (mut plan, mut workload) = (plan.clone(), self.workload.clone());
        let missing =
            |object: &str| Error::Mismatch(format!("the workload has no stream of `{object}`"));
        match scenario {
            Scenario::Expected | Scenario::FailedDisk { .. } => {}
            Scenario::Grown { object, times } => {
                let stream = workload.streams.iter_mut().find(|stream| stream.object == *object);
                stream.ok_or_else(|| missing(object))?.grow(*times);
            }
            Scenario::Coincident { leader, follower } => {
                let periods = workload.stream(leader).ok_or_else(|| missing(leader))?;
                let of_follower =
                    self.workload.stream(follower).ok_or_else(|| missing(follower))?;
                let old_share = self.workload.on_share(of_follower);
                let new_share = self.workload.on_share(periods);
                if periods.on_ms.is_none() {
                    let problem = format!("the stream of `{leader}` is always on");
                    return Err(Error::Mismatch(problem));
                }
                let stream = workload.streams.iter_mut().find(|stream| stream.object == *follower);
                let stream = stream.ok_or_else(|| missing(follower))?;
                // As many requests as before, at other times.
                stream.iops = stream.iops.map(|iops| iops * old_share / new_share);
                (stream.on_ms, stream.off_ms) = (None, None);
                (stream.follows, stream.overlap) = (Some(leader.clone()), Some(1.0));
                workload.check().map_err(Error::Mismatch)?;
            }
            Scenario::NextYear => {
                for object in &mut plan.objects {
                    let grown = 1.0 + object.growth;
                    if let Ok(size) = object.size.parse::<moirai_units::ByteCount>() {
                        object.size = ((size.0 as f64 * grown) as u64).to_string();
                    }
                    let mut streams = workload.streams.iter_mut();
                    if let Some(stream) = streams.find(|stream| stream.object == object.name) {
                        stream.grow(grown);
                    }
                }
            }
        }
        Ok((plan, workload))
    }
}

/// Refuses a stream whose requests are larger than its object.
fn check_sizes(workload: &Workload, objects: &[(String, BlockCount)]) -> Result<()> {
    for (name, size) in objects {
        let Some(stream) = workload.stream(name) else { continue };
        if BlockCount::holding(stream.mean_bytes()) > *size {
            return Err(Error::Mismatch(format!(
                "stream of `{name}`: requests of {} are larger than the object, which has {}",
                stream.mean_bytes(),
                size.bytes()
            )));
        }
    }
    Ok(())
}

/// How much less than its goal a measured rate may be.
const RATE_TOLERANCE: f64 = 0.03;

/// The factor of Student's t distribution for a 95 % confidence interval from `runs` runs.
fn student(runs: usize) -> f64 {
    let factors = [
        12.71, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262, 2.228, 2.201, 2.179, 2.160,
        2.145, 2.131, 2.120, 2.110, 2.101, 2.093,
    ];
    factors.get(runs.saturating_sub(2)).copied().unwrap_or(2.086)
}

fn figures(plan: &Plan, runs: &Runs) -> Judgement {
    let count = runs.costs.len().max(1);
    let cost = runs.costs.iter().sum::<f64>() / count as f64;
    let variance = runs.costs.iter().map(|one| (one - cost).powi(2)).sum::<f64>()
        / count.saturating_sub(1).max(1) as f64;
    let cost_confidence = match count {
        1 => 0.0,
        _ => student(count) * (variance / count as f64).sqrt(),
    };
    let mut missed_by = 0.0;
    let mut objects = Vec::with_capacity(plan.objects.len());
    for (index, (placement, response)) in plan.objects.iter().zip(&runs.sums.responses).enumerate()
    {
        let iops = match &runs.offered_iops {
            None => response.requests() as f64 / runs.sums.counted_s.max(1e-9),
            Some(offered) => {
                let in_time = response.requests() - response.late;
                let share = in_time as f64 / response.requests().max(1) as f64;
                offered.get(index).copied().unwrap_or(0.0) * share
            }
        };
        let missed = placement.goal.as_ref().and_then(|goal| missed(goal, response, iops));
        missed_by += missed.as_ref().map_or(0.0, |(by, _)| *by);
        objects.push(ObjectFigures {
            name: placement.name.clone(),
            array: placement.arrays.clone(),
            raid: placement.level.clone(),
            stripe_unit_bytes: placement
                .stripe_unit
                .parse()
                .map_or(0, |size: moirai_units::ByteCount| size.0),
            requests: response.requests(),
            iops,
            mean_response_ms: response.mean_ms(),
            mean_read_ms: response.mean_read_ms(),
            p95_response_ms: response.percentile_ms(95.0),
            p999_response_ms: response.percentile_ms(99.9),
            goal: placement.goal.as_ref().map(goal_text),
            meets_goal: placement.goal.as_ref().map(|_| missed.is_none()),
            missed: missed.map(|(_, words)| words),
        });
    }
    let disks = plan.arrays.iter().zip(&runs.sums.utilisations).flat_map(|(array, disks)| {
        let figure = |(disk, sum): (usize, &f64)| DiskFigures {
            array: array.name.clone(),
            disk,
            utilisation: sum / f64::from(runs.sums.count.max(1)),
        };
        disks.iter().enumerate().map(figure)
    });
    Judgement {
        price: plan.price(),
        cost,
        cost_confidence,
        meets_goals: missed_by == 0.0,
        missed_by,
        disk_utilisation: disks.collect(),
        rebuild: runs.sums.rebuilt.filter(|rebuilt| rebuilt.blocks > BlockCount::ZERO).map(
            |rebuilt| {
                let mb_per_s =
                    rebuilt.blocks.bytes().0 as f64 / 1e6 / rebuilt.elapsed.as_s().max(1e-9);
                let hours = rebuilt.of.bytes().0 as f64 / 1e6 / mb_per_s.max(1e-9) / 3600.0;
                RebuildFigures { mb_per_s, hours }
            },
        ),
        objects,
    }
}

/// By how much `goal` is missed, and in words; `None` when it is met. Of an object without requests it is not known, which
/// counts as missed.
fn missed(goal: &Goal, response: &Response, iops: f64) -> Option<(f64, String)> {
    if response.requests() == 0 {
        let words =
            "no request while it was simulated: it has no stream, or one that is off for long";
        return Some((1.0, words.into()));
    }
    let had = match goal.percentile {
        Some(percent) => response.percentile_ms(percent),
        None => response.mean_ms(),
    };
    let slow = goal
        .response_ms
        .filter(|most| had > *most)
        .map(|most| (had / most - 1.0, format!("{had:.1} ms instead of {most} ms")));
    // A rate that is offered is measured a little lower or higher in a run.
    let few = goal.iops.filter(|least| iops < *least * (1.0 - RATE_TOLERANCE)).map(|least| {
        (least / iops.max(1e-9) - 1.0, format!("{iops:.0} requests/s instead of {least}"))
    });
    let all: Vec<(f64, String)> = slow.into_iter().chain(few).collect();
    let words = all.iter().map(|(_, words)| words.as_str()).collect::<Vec<_>>().join(", ");
    (!all.is_empty()).then(|| (all.iter().map(|(by, _)| by).sum(), words))
}
