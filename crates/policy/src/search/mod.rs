//! The search for the best plan: wide, narrow and grouped plans as starting points, a local search by
//! the estimate, and simulation of the most promising, which decides.
//!
//! A plan is better than another if it misses its goals by less, or, where they are alike in this, if
//! the mean response time of all requests is shorter. Every plan is simulated with the same requests.

mod choices;

use std::cmp::Ordering;
use std::collections::BTreeSet;

use moirai_runtime::{Random, map_on_cores, seeded};
use moirai_units::BlockCount;
use rand::Rng;
use rand::seq::{IndexedRandom, SliceRandom};

use crate::choose;
use crate::error::{Error, Result};
use crate::estimate::Estimator;
use crate::judge::{Judge, Judgement};
use crate::plan::{Placement, Plan};
use crate::policy::{Goal, Object, Policy};
use crate::system::{ObjectOnArrays, SystemDescription};
use crate::workload::Workload;
use choices::{Choice, Choices, SUBSETS_MAX, groups, level_name, size_text, swapped};

/// How long to search.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Options {
    /// The seed of random choices and of the requests.
    pub seed: u64,
    /// Requests of a simulation.
    pub requests: u64,
    /// Simulations, about: of plans, the starting points included, and of the best of them again.
    pub simulations: usize,
    /// Plans that are estimated for each starting point.
    pub estimates: usize,
}

impl Default for Options {
    fn default() -> Options {
        Options { seed: 1, requests: 20_000, simulations: 192, estimates: 4_000 }
    }
}

/// A plan and its figures.
#[derive(Clone, Debug, PartialEq)]
pub struct Judged {
    /// The plan.
    pub plan: Plan,
    /// Its figures.
    pub judgement: Judgement,
}

/// Plans that are given, beside wide and narrow striping.
const PLANS: usize = 3;
/// Plans by estimate that are kept for simulation.
const KEPT: usize = 256;
/// The plans that the search found best are simulated with two further seeds each, so that none wins or meets its goals by the requests
/// alone that it was chosen with: one of so many simulations, at most so many plans, and the runs of each.
const FINALISTS_OF: usize = 24;
const FINALISTS_MAX: usize = 8;
const FINAL_RUNS: u64 = 3;
/// Random orders of the greedy partition, and the imbalance that is enough (placement paper 3.4).
const PARTITION_TRIES: usize = 1_000;
const PARTITION_ENOUGH: f64 = 0.01;

/// Looks for the best plan for `policy` under `workload`. The plans are given best first. Among them are
/// wide striping, and narrow striping by the greedy partition, with the levels and the stripe units of
/// the rules, where the objects fit so. `report` is told what happens and the share that is done.
///
/// # Errors
/// When the objects fit on no plan's arrays.
pub fn search(
    policy: &Policy,
    workload: &Workload,
    options: &Options,
    report: &mut dyn FnMut(&str, f64),
) -> Result<Vec<Judged>> {
    policy.check_goals(workload).map_err(Error::Impossible)?;
    let all = Plan::arrays_of(policy, "planned", usize::MAX).arrays.len();
    let has_goals = policy.objects.iter().any(|object| object.goal.is_some());
    if policy.arrays.fixed || !has_goals {
        return Search::new(policy, workload, options, all)?.run(report);
    }
    // The fewest arrays on which the goals can be met, as few disks are bought: more arrays are taken to be no worse.
    let searches = f64::from(all.max(1).ilog2() + 2);
    let mut done = 0.0;
    let mut run = |arrays: usize| {
        let mut within = |what: &str, share: f64| report(what, (done + share) / searches);
        let found = Search::new(policy, workload, options, arrays)?.run(&mut within);
        done += 1.0;
        found
    };
    let (mut low, mut high, mut best) = (1, all, None);
    while low < high {
        let middle = usize::midpoint(low, high);
        match run(middle) {
            Ok(found) if found.first().is_some_and(|best| best.judgement.meets_goals) => {
                (high, best) = (middle, Some(found));
            }
            Ok(_) | Err(Error::Impossible(_)) => low = middle + 1,
            Err(error) => return Err(error),
        }
    }
    match best {
        Some(best) => Ok(best),
        None => run(high),
    }
}

/// Orders plans, the better first.
#[must_use]
pub fn compare(one: &Judgement, other: &Judgement) -> Ordering {
    let missed = one.missed_by.total_cmp(&other.missed_by);
    missed.then(one.cost.total_cmp(&other.cost))
}

struct Search<'a> {
    policy: &'a Policy,
    options: &'a Options,
    judge: Judge<'a>,
    /// The arrays, without objects.
    base: Plan,
    system: SystemDescription,
    goals: Vec<Option<Goal>>,
    estimator: Estimator<'a>,
    random: Random,
    workload: &'a Workload,
    /// Sets of arrays that an object may lie on.
    groups: Vec<Vec<usize>>,
    /// The best plans by estimate, the best first.
    kept: Vec<((f64, f64), Choices)>,
}

impl<'a> Search<'a> {
    fn new(
        policy: &'a Policy,
        workload: &'a Workload,
        options: &'a Options,
        arrays: usize,
    ) -> Result<Search<'a>> {
        let base = Plan::arrays_of(policy, "planned", arrays);
        let system = base.system()?;
        let judge = Judge { workload, requests: options.requests, seed: options.seed, runs: 1 };
        Ok(Search {
            policy,
            options,
            judge,
            groups: groups(base.arrays.len()),
            base,
            system,
            goals: policy.objects.iter().map(|object| object.goal).collect(),
            estimator: Estimator::new(workload),
            random: seeded(options.seed, "search for a plan"),
            workload,
            kept: Vec::new(),
        })
    }

    fn run(mut self, report: &mut dyn FnMut(&str, f64)) -> Result<Vec<Judged>> {
        report("estimating plans", 0.0);
        let starts = self.starts();
        if starts.is_empty() {
            return Err(self.impossible());
        }
        let count = starts.len() as f64;
        let mut wide_and_narrow = Vec::new();
        for (index, (name, start)) in starts.into_iter().enumerate() {
            if let Some(name) = name {
                wide_and_narrow.push((name, start.clone()));
            }
            self.descend(start);
            report("estimating plans", 0.3 * (index + 1) as f64 / count);
        }
        let named: Vec<Plan> =
            wide_and_narrow.iter().map(|(name, choices)| self.plan(choices, name)).collect();
        let first = self.options.simulations.saturating_sub(named.len()).div_ceil(2).max(1);
        let kept = std::mem::take(&mut self.kept);
        let candidates: Vec<Choices> =
            kept.iter().take(first).map(|(_, choices)| choices.clone()).collect();
        let plans: Vec<Plan> =
            candidates.iter().map(|choices| self.plan(choices, "planned")).collect();
        let mut judged: Vec<(Choices, Judged)> = Vec::new();
        report("simulating plans", 0.3);
        for (choices, judged_plan) in candidates.into_iter().zip(judge_all(&self.judge, plans)?) {
            judged.push((choices, judged_plan));
        }
        report("simulating plans", 0.6);
        let finalists = (self.options.simulations / FINALISTS_OF).clamp(PLANS, FINALISTS_MAX);
        let last = (finalists + named.len()) * FINAL_RUNS as usize;
        self.improve(&mut judged, &kept, self.options.simulations.saturating_sub(first + last))?;
        report("simulating the best plans again", 0.85);
        judged.sort_by(|one, other| compare(&one.1.judgement, &other.1.judgement));
        let judge = Judge { runs: FINAL_RUNS, ..self.judge.clone() };
        let plans = judged.into_iter().map(|(_, judged)| judged.plan).take(finalists).collect();
        let mut best = judge_all(&judge, plans)?;
        let baselines = judge_all(&judge, named)?;
        report("simulating the best plans again", 1.0);
        best.sort_by(|one, other| compare(&one.judgement, &other.judgement));
        best.truncate(PLANS);
        for (index, plan) in best.iter_mut().enumerate().skip(1) {
            plan.plan.name = format!("planned, {}", index + 1);
        }
        best.extend(baselines);
        best.sort_by(|one, other| compare(&one.judgement, &other.judgement));
        if !self.policy.arrays.fixed {
            best.iter_mut().for_each(without_unused);
        }
        Ok(best)
    }

    /// Why no plan is possible.
    fn impossible(&self) -> Error {
        let needed: u64 = self.policy.objects.iter().map(|object| object.blocks().bytes().0).sum();
        let there: u64 = self
            .system
            .arrays
            .iter()
            .flatten()
            .map(|disk| disk.geometry.capacity().bytes().0)
            .sum();
        let last =
            self.system.misfit().map(|problem| format!(" (of the last plan tried, {problem})"));
        Error::Impossible(format!(
            "the objects do not fit: they have {} before redundancy, {} disks have {} together{}; add disks, \
             or let objects survive less",
            moirai_units::ByteCount(needed),
            self.system.arrays.iter().map(Vec::len).sum::<usize>(),
            moirai_units::ByteCount(there),
            last.unwrap_or_default()
        ))
    }

    /// Plans to begin with: wide; narrow by the greedy partition; and groups of arrays in between.
    fn starts(&mut self) -> Vec<(Option<&'static str>, Choices)> {
        let arrays = self.base.arrays.len();
        let mut starts = Vec::new();
        if let Some(wide) = self.spread_over(arrays, 0).filter(|choices| self.fits(choices)) {
            starts.push((Some("wide"), wide));
        }
        let mut size = arrays / 2;
        let mut narrow_tries = 0;
        while size >= 1 {
            let group = if narrow_tries > 0 { 1 } else { size };
            if let Some(choices) = self.partitioned(group) {
                let name = (group == 1 && narrow_tries == 0).then_some("narrow");
                starts.push((name.filter(|_| arrays > 1), choices));
            }
            if group == 1 {
                narrow_tries += 1;
                if narrow_tries == 3 {
                    break;
                }
                continue;
            }
            size /= 2;
        }
        starts
    }

    /// All objects on the `count` arrays from `first` on.
    fn spread_over(&self, count: usize, first: usize) -> Option<Choices> {
        let arrays: Vec<usize> = (first..first + count).collect();
        self.policy.objects.iter().map(|object| self.choice(object, arrays.clone())).collect()
    }

    /// The objects divided over groups of `size` arrays by their loads.
    fn partitioned(&mut self, size: usize) -> Option<Choices> {
        let parts = self.base.arrays.len() / size.max(1);
        let load = |object: &Object| {
            self.workload
                .stream(&object.name)
                .map_or(0.0, |stream| choose::write_weighted_iops(self.workload, stream))
        };
        let loads: Vec<f64> = self.policy.objects.iter().map(load).collect();
        // Balance comes first; what then does not fit is tried in another order.
        for _ in 0..20 {
            let (of, _) = choose::greedy_partition(
                &loads,
                parts,
                PARTITION_ENOUGH,
                PARTITION_TRIES / 10,
                &mut self.random,
            );
            let choice = |(object, part): (&Object, &usize)| {
                self.choice(object, (part * size..(part + 1) * size).collect())
            };
            let choices: Option<Choices> =
                self.policy.objects.iter().zip(&of).map(choice).collect();
            if let Some(choices) = choices.filter(|choices| self.fits(choices)) {
                return Some(choices);
            }
        }
        self.packed(size)
    }

    /// The objects divided over groups of `size` arrays by their sizes, the largest first, each where most
    /// room is left.
    fn packed(&mut self, size: usize) -> Option<Choices> {
        let parts = self.base.arrays.len() / size.max(1);
        let mut order: Vec<usize> = (0..self.policy.objects.len()).collect();
        order.sort_by_key(|index| {
            std::cmp::Reverse(self.policy.objects.get(*index).map(|object| object.blocks().0))
        });
        let capacity = |part: &usize| -> u64 {
            let arrays = self.system.arrays.iter().skip(part * size).take(size);
            arrays.flatten().map(|disk| disk.geometry.capacity().0).sum()
        };
        let mut room: Vec<i128> = (0..parts).map(|part| i128::from(capacity(&part))).collect();
        let mut choices: Vec<Option<Choice>> = vec![None; order.len()];
        for index in order {
            let object = self.policy.objects.get(index)?;
            // Not all arrays have as many disks as a level needs.
            let possible = (0..parts).filter_map(|part| {
                let choice = self.choice(object, (part * size..(part + 1) * size).collect())?;
                Some((part, choice))
            });
            let (part, choice) = possible.max_by_key(|(part, _)| room.get(*part).copied())?;
            *room.get_mut(part)? -= i128::from(object.blocks().0);
            *choices.get_mut(index)? = Some(choice);
        }
        let choices: Option<Choices> = choices.into_iter().collect();
        choices.filter(|choices| self.fits(choices))
    }

    /// `object` on `arrays`, with the level and the stripe unit of the rules.
    fn choice(&self, object: &Object, arrays: Vec<usize>) -> Option<Choice> {
        let width = self.width(&arrays)?;
        let stream = self.workload.stream(&object.name);
        let unit = object.fixed_unit().or(stream.map(choose::stripe_unit));
        let unit = unit.unwrap_or(BlockCount(128));
        let allowed = object.levels(width);
        let level = match stream {
            Some(stream) => choose::level(stream, &allowed, width, unit),
            None => allowed.last().copied(),
        };
        Some(Choice { arrays, level: level_name(level?)?, unit_blocks: unit.0 })
    }

    /// The least disks that one of `arrays` has: a level must be possible on all.
    fn width(&self, arrays: &[usize]) -> Option<usize> {
        arrays.iter().filter_map(|index| self.system.arrays.get(*index)).map(Vec::len).min()
    }

    fn fits(&mut self, choices: &Choices) -> bool {
        self.system.objects = self.objects(choices);
        self.system.misfit().is_none()
    }

    fn objects(&self, choices: &Choices) -> Vec<ObjectOnArrays> {
        let object = |(object, choice): (&Object, &Choice)| ObjectOnArrays {
            name: object.name.clone(),
            size: object.blocks(),
            arrays: choice.arrays.clone(),
            level: choice.level.parse().unwrap_or_default(),
            unit: BlockCount(choice.unit_blocks),
        };
        self.policy.objects.iter().zip(choices).map(object).collect()
    }

    /// By how much goals are missed, and the mean response time; `None` where an object has no room.
    fn estimate(&mut self, choices: &Choices) -> Option<(f64, f64)> {
        if !self.fits(choices) {
            return None;
        }
        let estimate = self.estimator.estimate(&self.system, &self.goals);
        let value = (estimate.missed_by, estimate.cost);
        let place = self.kept.partition_point(|(other, _)| order(*other, value).is_lt());
        // Plans that differ in alike arrays have the same estimate.
        let mut alike =
            self.kept.iter().skip(place).take_while(|(other, _)| order(*other, value).is_eq());
        if place < KEPT && !alike.any(|(_, other)| other == choices) {
            self.kept.insert(place, (value, choices.clone()));
            self.kept.truncate(KEPT);
        }
        Some(value)
    }

    /// Improves `choices` by the estimate, a move at a time, until no move of a round helps.
    fn descend(&mut self, mut choices: Choices) {
        let Some(mut value) = self.estimate(&choices) else { return };
        let mut left = self.options.estimates;
        loop {
            let mut is_better = false;
            let mut objects: Vec<usize> = (0..choices.len()).collect();
            objects.shuffle(&mut self.random);
            for object in objects {
                for changed in self.moves(&choices, object) {
                    if left == 0 {
                        return;
                    }
                    left -= 1;
                    let Some(other) = self.estimate(&changed) else { continue };
                    if order(other, value).is_lt() {
                        (choices, value, is_better) = (changed, other, true);
                    }
                }
            }
            if !is_better {
                return;
            }
        }
    }

    /// Plans that differ from `choices` in one object, or in two that change places.
    fn moves(&mut self, choices: &Choices, object: usize) -> Vec<Choices> {
        let (Some(own), Some(wanted)) = (choices.get(object), self.policy.objects.get(object))
        else {
            return Vec::new();
        };
        let own = own.clone();
        let mut moved = Vec::new();
        let few = self.groups.len() <= 1 << SUBSETS_MAX;
        let groups: Vec<Vec<usize>> = match few {
            true => self.groups.clone(),
            // Of many, some at each visit.
            false => self.groups.choose_multiple(&mut self.random, 12).cloned().collect(),
        };
        for arrays in groups.into_iter().filter(|arrays| *arrays != own.arrays) {
            if let Some(mut choice) = self.choice(wanted, arrays) {
                choice.unit_blocks = own.unit_blocks;
                moved.push(choice);
            }
        }
        if wanted.fixed_unit().is_none() {
            for unit_blocks in choose::units().filter(|unit| *unit != own.unit_blocks) {
                moved.push(Choice { unit_blocks, ..own.clone() });
            }
        }
        let width = self.width(&own.arrays).unwrap_or(0);
        for level in wanted.levels(width).into_iter().filter_map(level_name) {
            if level != own.level {
                moved.push(Choice { level, ..own.clone() });
            }
        }
        let mut all: Vec<Choices> = moved
            .into_iter()
            .map(|choice| {
                let mut changed = choices.clone();
                if let Some(place) = changed.get_mut(object) {
                    *place = choice;
                }
                changed
            })
            .collect();
        for _ in 0..2 {
            let other = self.random.random_range(0..choices.len());
            let is_allowed = |index: usize, changed: &Choices| -> bool {
                let (Some(choice), Some(wanted)) =
                    (changed.get(index), self.policy.objects.get(index))
                else {
                    return false;
                };
                let levels = wanted.levels(self.width(&choice.arrays).unwrap_or(0));
                levels.into_iter().filter_map(level_name).any(|level| level == choice.level)
            };
            if let Some(changed) = swapped(choices, object, other)
                && is_allowed(object, &changed)
                && is_allowed(other, &changed)
            {
                all.push(changed);
            }
        }
        all
    }

    fn plan(&self, choices: &Choices, name: &str) -> Plan {
        let placement = |(object, choice): (&Object, &Choice)| Placement {
            name: object.name.clone(),
            size: object.size.clone(),
            arrays: choice
                .arrays
                .iter()
                .filter_map(|index| self.base.arrays.get(*index))
                .map(|array| array.name.clone())
                .collect(),
            level: choice.level.to_owned(),
            stripe_unit: size_text(BlockCount(choice.unit_blocks)),
            growth: object.growth,
            goal: object.goal,
        };
        let objects = self.policy.objects.iter().zip(choices).map(placement).collect();
        Plan { name: name.to_owned(), objects, ..self.base.clone() }
    }

    /// Simulates plans near the best, and further ones that the estimate found good, `left` in all.
    fn improve(
        &mut self,
        judged: &mut Vec<(Choices, Judged)>,
        kept: &[((f64, f64), Choices)],
        mut left: usize,
    ) -> Result<()> {
        let mut known: BTreeSet<Choices> =
            judged.iter().map(|(choices, _)| choices.clone()).collect();
        while left > 0 {
            let better = |one: &&(Choices, Judged), other: &&(Choices, Judged)| {
                compare(&one.1.judgement, &other.1.judgement)
            };
            let Some(best) = judged.iter().min_by(better).map(|(choices, _)| choices.clone())
            else {
                return Ok(());
            };
            let mut near = Vec::new();
            for object in 0..best.len() {
                for changed in self.moves(&best, object) {
                    if !known.contains(&changed)
                        && let Some(value) = self.estimate(&changed)
                    {
                        near.push((value, changed));
                    }
                }
            }
            let further =
                kept.iter().filter(|(_, choices)| !known.contains(choices)).take(2).cloned();
            near.sort_by(|one, other| order(one.0, other.0).then_with(|| one.1.cmp(&other.1)));
            near.dedup();
            near.truncate(6);
            near.extend(further);
            near.truncate(left);
            if near.is_empty() {
                return Ok(());
            }
            left -= near.len();
            known.extend(near.iter().map(|(_, choices)| choices.clone()));
            let plans = near.iter().map(|(_, choices)| self.plan(choices, "planned")).collect();
            for ((_, choices), plan) in near.into_iter().zip(judge_all(&self.judge, plans)?) {
                judged.push((choices, plan));
            }
        }
        Ok(())
    }
}

fn judge_all(judge: &Judge<'_>, plans: Vec<Plan>) -> Result<Vec<Judged>> {
    let judged = map_on_cores(&plans, |plan| judge.judge(plan));
    plans
        .into_iter()
        .zip(judged)
        .map(|(plan, judgement)| Ok(Judged { plan, judgement: judgement? }))
        .collect()
}

/// Takes arrays out of a plan on which nothing lies: nobody buys them.
fn without_unused(judged: &mut Judged) {
    let Judged { plan, judgement } = judged;
    let used: BTreeSet<&String> = plan.objects.iter().flat_map(|object| &object.arrays).collect();
    plan.arrays.retain(|array| used.contains(&array.name));
    judgement.disk_utilisation.retain(|disk| used.contains(&disk.array));
    judgement.price = plan.price();
}

fn order(one: (f64, f64), other: (f64, f64)) -> Ordering {
    one.0.total_cmp(&other.0).then(one.1.total_cmp(&other.1))
}
