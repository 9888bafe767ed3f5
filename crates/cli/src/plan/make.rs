//! `moirai plan make`: the search for a plan.

use moirai_policy::search::{Judged, Options, search};
use moirai_policy::{Policy, Workload};

use super::{Make, page, shown, words};
use crate::failure::{Failure, verdict};
use crate::{output, print, progress};

pub(super) fn run(arguments: &Make) -> Result<(), Failure> {
    let outputs = [&arguments.out, &arguments.page];
    arguments.force.needs_output(outputs.iter().any(|path| path.is_some()))?;
    let inputs = [&arguments.policy, &arguments.workload].map(|path| path.display().to_string());
    for path in outputs.into_iter().flatten() {
        arguments.force.check(path, &inputs.each_ref().map(String::as_str))?;
    }
    let policy = Policy::read(&arguments.policy)?;
    let workload = Workload::read(&arguments.workload)?;
    shown::note_left_out(&workload, "policy", policy.objects.iter().map(|object| &object.name));
    for object in &policy.objects {
        if workload.stream(&object.name).is_none() {
            print::note(format!(
                "the workload has no stream of `{}`: it counts for its size",
                object.name
            ));
        }
    }
    let options = Options {
        seed: arguments.seed,
        requests: arguments.requests,
        simulations: arguments.simulations as usize,
        ..Options::default()
    };
    let bar = progress::shares();
    let found = search(&policy, &workload, &options, &mut |what, share| {
        progress::show(&bar, what, share);
    });
    bar.finish_and_clear();
    let found = found?;
    let Some(best) = found.first() else {
        return Err(Failure::Failed("no plan was found".into()));
    };
    if let Some(path) = &arguments.out {
        output::write(path, &best.plan.text(path)?)?;
    }
    if let Some(path) = &arguments.page {
        output::write(path, &page::page(&found))?;
    }
    let printed = match arguments.json {
        true => shown::print_json(&found),
        false => print_found(arguments, &found),
    };
    verdict(printed, goals(best))
}

/// An error that names the goals that the best plan misses, and what it has instead.
fn goals(best: &Judged) -> Result<(), Failure> {
    if best.judgement.meets_goals {
        return Ok(());
    }
    let missed = best.judgement.objects.iter().filter_map(|object| {
        let (goal, missed) = (object.goal.as_ref()?, object.missed.as_ref()?);
        Some(format!("`{}` wants {goal} and has {missed}", object.name))
    });
    let busiest = best.judgement.disk_utilisation.iter().map(|disk| disk.utilisation);
    let busiest = busiest.fold(0.0, f64::max) * 100.0;
    Err(Failure::Failed(format!(
        "no plan that was found meets all goals: {}. The busiest disk works {busiest:.0} % of the time: add \
         disks, allow other RAID levels, or lower the goals",
        missed.collect::<Vec<_>>().join("; ")
    )))
}

fn print_found(arguments: &Make, found: &[Judged]) -> Result<(), Failure> {
    shown::print_plans(found)?;
    if let Some(best) = found.first() {
        print::line(format!("\n{}", words::reason(found)))?;
        print::line("")?;
        shown::print_objects(best)?;
    }
    if let Some(path) = &arguments.out {
        print::line(format!("The plan: {}", path.display()))?;
    }
    if let Some(path) = &arguments.page {
        print::line(format!("The page: {}", path.display()))?;
    }
    Ok(())
}
