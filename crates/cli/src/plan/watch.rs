//! `moirai plan watch`: what happens beside what was planned.

use moirai::units::{ByteCount, grouped_decimals};
use moirai_policy::{Judge, Plan, Workload};
use serde::Serialize;

use super::{Watch, characterise};
use crate::failure::{Failure, verdict};
use crate::replay::open_trace;
use crate::{print, progress};

/// A rate or a size that is this much more, or less, than planned has drifted.
const DRIFT: f64 = 0.25;
/// A plan whose mean response is this much longer than planned no longer fits.
const SLOWER: f64 = 0.25;

#[derive(Serialize)]
struct Shown {
    fits: bool,
    planned_response_ms: f64,
    actual_response_ms: f64,
    missed: Vec<String>,
    streams: Vec<Drift>,
}

#[derive(Serialize)]
struct Drift {
    object: String,
    planned_iops: Option<f64>,
    actual_iops: f64,
    planned_bytes: u64,
    actual_bytes: u64,
    has_drifted: bool,
}

pub(super) fn run(arguments: &Watch) -> Result<(), Failure> {
    let plan = Plan::read(&arguments.plan)?;
    let planned = Workload::read(&arguments.workload)?;
    let (reader, _) = open_trace(&arguments.trace, &arguments.format)?;
    let characterised = characterise::characterised(reader, &arguments.names)?;
    let actual = characterised.workload();
    let bar = progress::clock("simulating");
    let figures = |workload: &Workload| {
        Judge { workload, requests: arguments.requests, seed: 1, runs: 1 }.judge(&plan)
    };
    let (before, now) = (figures(&planned)?, figures(&actual)?);
    bar.finish_and_clear();
    let streams = actual.streams.iter().map(|stream| {
        let of = planned.stream(&stream.object);
        let planned_iops = of.and_then(|stream| planned.mean_iops(stream));
        let actual_iops = actual.mean_iops(stream).unwrap_or(0.0);
        let planned_bytes = of.map_or(0, |stream| stream.mean_bytes().0);
        let actual_bytes = stream.mean_bytes().0;
        let differs = |now: f64, before: f64| (now / before.max(1e-9) - 1.0).abs() > DRIFT;
        Drift {
            object: stream.object.clone(),
            planned_iops,
            actual_iops,
            planned_bytes,
            actual_bytes,
            has_drifted: of.is_none()
                || planned_iops.is_some_and(|before| differs(actual_iops, before))
                || differs(actual_bytes as f64, planned_bytes as f64),
        }
    });
    let mut missed: Vec<String> = now
        .objects
        .iter()
        .filter_map(|object| Some(format!("`{}`: {}", object.name, object.missed.as_ref()?)))
        .collect();
    for stream in &actual.streams {
        if plan.objects.iter().all(|object| object.name != stream.object) {
            missed.push(format!(
                "`{}` is accessed and not in the plan: give its name with --name",
                stream.object
            ));
        }
    }
    for stream in &characterised.streams {
        let object = plan.objects.iter().find(|object| object.name == stream.object);
        let size = object.and_then(|object| object.size.parse::<ByteCount>().ok());
        if let Some(size) = size.filter(|size| size.0 < stream.end_bytes) {
            let end = ByteCount(stream.end_bytes);
            let name = &stream.object;
            missed.push(format!("`{name}`: requests reach up to {end}, and it has {size}"));
        }
    }
    for stream in &planned.streams {
        if actual.stream(&stream.object).is_none() {
            print::note(format!("`{}` was planned and is not accessed", stream.object));
        }
    }
    let is_slower = now.cost > before.cost * (1.0 + SLOWER);
    let shown = Shown {
        fits: missed.is_empty() && !is_slower,
        planned_response_ms: before.cost,
        actual_response_ms: now.cost,
        missed,
        streams: streams.collect(),
    };
    let printed = if arguments.json { print::json(&shown) } else { print_shown(&shown) };
    let outcome = match shown.fits {
        true => Ok(()),
        false => Err(Failure::Failed(
            "the plan no longer fits: make another with the workload that `moirai plan characterise` writes".into(),
        )),
    };
    verdict(printed, outcome)
}

fn print_shown(shown: &Shown) -> Result<(), Failure> {
    let columns = [
        ("object", false),
        ("planned requests/s", true),
        ("actual", true),
        ("planned bytes", true),
        ("actual", true),
        ("", false),
    ];
    let rows = shown.streams.iter().map(|stream| {
        vec![
            stream.object.clone(),
            stream.planned_iops.map_or_else(|| "-".into(), |iops| grouped_decimals(iops, 1)),
            grouped_decimals(stream.actual_iops, 1),
            stream.planned_bytes.to_string(),
            stream.actual_bytes.to_string(),
            if stream.has_drifted { "drifted".into() } else { String::new() },
        ]
    });
    print::table(&columns, rows.collect())?;
    print::line(format!(
        "Mean response: {:.2} ms as planned, {:.2} ms as it is.",
        shown.planned_response_ms, shown.actual_response_ms
    ))?;
    for missed in &shown.missed {
        print::line(format!("Does not fit: {missed}"))?;
    }
    Ok(())
}
