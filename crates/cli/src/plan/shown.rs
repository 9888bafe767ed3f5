//! Plans and their figures as text and JSON; `plan show`, `simulate` and `compare`.

use std::path::Path;

use moirai::units::{ByteCount, grouped_decimals};
use moirai_policy::search::{Judged, compare as better};
use moirai_policy::{Judge, Judgement, Plan, Scenario, Workload, scenarios};
use serde::Serialize;

use super::words::{arrays_text, reason};
use super::{Compare, How, Simulate, page, traced};
use crate::failure::Failure;
use crate::{output, print, progress};

#[derive(Serialize)]
struct Plans<'a> {
    plans: Vec<Shown<'a>>,
}

#[derive(Serialize)]
struct Shown<'a> {
    name: &'a str,
    #[serde(flatten)]
    judgement: &'a Judgement,
}

/// Prints plans and their figures as JSON.
pub(super) fn print_json(judged: &[Judged]) -> Result<(), Failure> {
    let plans =
        judged.iter().map(|judged| Shown { name: &judged.plan.name, judgement: &judged.judgement });
    print::json(&Plans { plans: plans.collect() })
}

/// Prints a line for each plan.
pub(super) fn print_plans(judged: &[Judged]) -> Result<(), Failure> {
    let columns = [
        ("plan", false),
        ("price", true),
        ("mean, ms", true),
        ("+-", true),
        ("goals", false),
        ("mean use", true),
        ("busiest", true),
    ];
    let rows = judged.iter().map(|Judged { plan, judgement }| {
        let all = judgement.disk_utilisation.iter().map(|disk| disk.utilisation);
        let count = judgement.disk_utilisation.len().max(1) as f64;
        let (sum, most) = all.fold((0.0, 0.0_f64), |(sum, most), one| (sum + one, most.max(one)));
        let has_goals = judgement.objects.iter().any(|object| object.goal.is_some());
        vec![
            plan.name.clone(),
            grouped_decimals(judgement.price, 0),
            grouped_decimals(judgement.cost, 2),
            match judgement.cost_confidence > 0.0 {
                true => grouped_decimals(judgement.cost_confidence, 2),
                false => "-".into(),
            },
            match (has_goals, judgement.meets_goals) {
                (false, _) => "none".into(),
                (true, true) => "met".into(),
                (true, false) => "missed".into(),
            },
            format!("{:.0} %", sum / count * 100.0),
            format!("{:.0} %", most * 100.0),
        ]
    });
    print::table(&columns, rows.collect())
}

/// Prints a line for each object of a plan.
pub(super) fn print_objects(judged: &Judged) -> Result<(), Failure> {
    print::line(format!("Plan `{}`:", judged.plan.name))?;
    let columns = [
        ("object", false),
        ("arrays", false),
        ("level", false),
        ("unit", true),
        ("requests/s", true),
        ("mean, ms", true),
        ("95 %", true),
        ("99.9 %", true),
        ("goal", false),
    ];
    let rows = judged.judgement.objects.iter().map(|object| {
        let goal = match (&object.goal, &object.missed) {
            (None, _) => String::new(),
            (Some(goal), None) => format!("{goal}: met"),
            (Some(_), Some(missed)) => format!("missed: {missed}"),
        };
        vec![
            object.name.clone(),
            arrays_text(&object.array),
            object.raid.clone(),
            ByteCount(object.stripe_unit_bytes).to_string(),
            grouped_decimals(object.iops, 1),
            grouped_decimals(object.mean_response_ms, 2),
            grouped_decimals(object.p95_response_ms, 1),
            grouped_decimals(object.p999_response_ms, 1),
            goal,
        ]
    });
    print::table(&columns, rows.collect())
}

pub(super) fn show(path: &Path, json: bool) -> Result<(), Failure> {
    let plan = Plan::read(path)?;
    if json {
        return print::json(&plan);
    }
    let columns = [("array", false), ("disks", true), ("profile", false), ("price", true)];
    let rows = plan.arrays.iter().map(|array| {
        let price = grouped_decimals(array.cost * array.disks as f64, 0);
        vec![array.name.clone(), array.disks.to_string(), array.profile.clone(), price]
    });
    print::table(&columns, rows.collect())?;
    let columns = [
        ("object", false),
        ("size", true),
        ("arrays", false),
        ("level", false),
        ("stripe unit", true),
    ];
    let rows = plan.objects.iter().map(|object| {
        let size: Result<ByteCount, _> = object.size.parse();
        vec![
            object.name.clone(),
            size.map_or_else(|_| object.size.clone(), |size| size.to_string()),
            arrays_text(&object.arrays),
            object.level.clone(),
            object.stripe_unit.clone(),
        ]
    });
    print::table(&columns, rows.collect())
}

#[derive(Serialize)]
struct Simulated<'a> {
    plans: Vec<Shown<'a>>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    what_if: Vec<WhatIf>,
}

#[derive(Serialize)]
struct WhatIf {
    scenario: String,
    /// Why it is not possible.
    #[serde(skip_serializing_if = "Option::is_none")]
    problem: Option<String>,
    #[serde(flatten)]
    judgement: Option<Judgement>,
}

pub(super) fn simulate(arguments: &Simulate) -> Result<(), Failure> {
    let plan = Plan::read(&arguments.plan)?;
    let bar = progress::clock("simulating");
    let (judgement, what_if) = match &arguments.trace {
        Some(trace) => (traced::judged(arguments, trace, &plan)?, Vec::new()),
        None => {
            let workload = workload(&arguments.how)?;
            note_left_out(&workload, "plan", plan.objects.iter().map(|object| &object.name));
            let judge = judge(&arguments.how, &workload);
            let judgement = judge.judge(&plan)?;
            let mut what_if = Vec::new();
            if arguments.what_if {
                for (words, scenario) in scenarios(&plan, &workload, &judgement) {
                    let (judgement, problem) = match judge.judge_in(&plan, &scenario) {
                        Ok(judgement) => (Some(judgement), None),
                        // As when a year's growth does not fit.
                        Err(problem) => (None, Some(problem.to_string())),
                    };
                    what_if.push(WhatIf { scenario: words, problem, judgement });
                }
            }
            (judgement, what_if)
        }
    };
    bar.finish_and_clear();
    if arguments.json {
        let plans = vec![Shown { name: &plan.name, judgement: &judgement }];
        return print::json(&Simulated { plans, what_if });
    }
    let judged = Judged { plan, judgement };
    print_plans(std::slice::from_ref(&judged))?;
    print_objects(&judged)?;
    if what_if.is_empty() {
        return Ok(());
    }
    print::line("What if")?;
    let columns = [
        ("", false),
        ("mean, ms", true),
        ("worst 95 %", true),
        ("busiest", true),
        ("goals", false),
    ];
    let rows = what_if.iter().map(|WhatIf { scenario, problem, judgement }| {
        let Some(judgement) = judgement else {
            let none = || "-".to_owned();
            return vec![
                scenario.clone(),
                none(),
                none(),
                none(),
                problem.clone().unwrap_or_default(),
            ];
        };
        let worst =
            judgement.objects.iter().map(|object| object.p95_response_ms).fold(0.0, f64::max);
        let busiest = judgement.disk_utilisation.iter().map(|disk| disk.utilisation);
        let missed: Vec<&str> = judgement
            .objects
            .iter()
            .filter(|object| object.missed.is_some())
            .map(|object| object.name.as_str())
            .collect();
        let filled = judgement
            .rebuild
            .as_ref()
            .map(|rebuild| format!(": {:.1} MB/s, {:.1} h", rebuild.mb_per_s, rebuild.hours));
        vec![
            format!("{scenario}{}", filled.unwrap_or_default()),
            grouped_decimals(judgement.cost, 2),
            grouped_decimals(worst, 1),
            format!("{:.0} %", busiest.fold(0.0, f64::max) * 100.0),
            if missed.is_empty() {
                "met".into()
            } else {
                format!("missed by {}", missed.join(", "))
            },
        ]
    });
    print::table(&columns, rows.collect())
}

/// Says which streams are to no object.
pub(super) fn note_left_out<'a>(
    workload: &Workload,
    of: &str,
    names: impl Iterator<Item = &'a String> + Clone,
) {
    for stream in &workload.streams {
        if names.clone().all(|name| *name != stream.object) {
            print::note(format!(
                "the {of} has no object `{}`: its stream is left out",
                stream.object
            ));
        }
    }
}

fn workload(how: &How) -> Result<Workload, Failure> {
    match &how.workload {
        Some(path) => Ok(Workload::read(path)?),
        None => Err(Failure::Usage("name the workload with --workload".into())),
    }
}

fn judge<'a>(how: &How, workload: &'a Workload) -> Judge<'a> {
    Judge { workload, requests: how.requests, seed: how.seed, runs: how.runs }
}

pub(super) fn compare(arguments: &Compare) -> Result<(), Failure> {
    arguments.force.needs_output(arguments.page.is_some())?;
    if let Some(path) = &arguments.page {
        let inputs: Vec<String> =
            arguments.plans.iter().map(|path| path.display().to_string()).collect();
        arguments.force.check(path, &inputs.iter().map(String::as_str).collect::<Vec<_>>())?;
    }
    let workload = workload(&arguments.how)?;
    let judge = judge(&arguments.how, &workload);
    let bar = progress::clock("simulating");
    let mut judged = Vec::new();
    for path in &arguments.plans {
        let mut plan = Plan::read(path)?;
        // Plans of one name are told by their files.
        if judged.iter().any(|other: &Judged| other.plan.name == plan.name) {
            plan.name = path.display().to_string();
        }
        let judgement = judge.judge_in(&plan, &Scenario::Expected)?;
        judged.push(Judged { plan, judgement });
    }
    bar.finish_and_clear();
    judged.sort_by(|one, other| better(&one.judgement, &other.judgement));
    if let Some(path) = &arguments.page {
        output::write(path, &page::page(&judged))?;
    }
    if arguments.json {
        return print_json(&judged);
    }
    print_plans(&judged)?;
    print::line(format!("\n{}", reason(&judged)))?;
    for judged in &judged {
        print::line("")?;
        print_objects(judged)?;
    }
    if let Some(path) = &arguments.page {
        print::line(format!("The page: {}", path.display()))?;
    }
    Ok(())
}
