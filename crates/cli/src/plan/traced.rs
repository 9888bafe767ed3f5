//! A plan under the requests of a trace.

use std::path::Path;

use moirai::units::{BlockCount, ByteCount, Instant};
use moirai_policy::{Judge, Judgement, Plan, TraceSource, TracedRequest, Workload};
use moirai_replay::trace::Arrival;

use super::Simulate;
use super::characterise::note_backwards;
use crate::failure::Failure;
use crate::print;
use crate::replay::open_trace;

/// The figures of `plan` under the requests of the trace at `path`.
pub(super) fn judged(arguments: &Simulate, path: &Path, plan: &Plan) -> Result<Judgement, Failure> {
    let objects: Vec<(String, BlockCount)> =
        plan.system()?.objects.into_iter().map(|object| (object.name, object.size)).collect();
    let time_scales = time_scales(&arguments.time_scales, &objects)?;
    let requests = requests(arguments, path, &objects)?;
    let judge = Judge {
        workload: &Workload { streams: Vec::new() },
        requests: requests.len() as u64,
        seed: arguments.how.seed,
        runs: 1,
    };
    Ok(judge.judge_source(plan, &mut TraceSource::new(requests, &time_scales))?)
}

/// Which of the objects has this name.
fn numbered(name: &str, objects: &[(String, BlockCount)]) -> Result<u32, Failure> {
    let number = objects.iter().position(|(object, _)| object == name);
    let unknown = || Failure::Usage(format!("the plan has no object `{name}`"));
    number.and_then(|number| u32::try_from(number).ok()).ok_or_else(unknown)
}

/// What the times of each object's requests are multiplied by.
fn time_scales(
    given: &[(String, f64)],
    objects: &[(String, BlockCount)],
) -> Result<Vec<f64>, Failure> {
    let mut scales = vec![1.0; objects.len()];
    for (name, scale) in given {
        if let Some(of_object) = scales.get_mut(numbered(name, objects)? as usize) {
            *of_object = *scale;
        }
    }
    Ok(scales)
}

/// The first requests of the trace, from time 0 on, to the plan's objects.
fn requests(
    arguments: &Simulate,
    path: &Path,
    objects: &[(String, BlockCount)],
) -> Result<Vec<TracedRequest>, Failure> {
    let mut object_of_device = Vec::with_capacity(arguments.names.len());
    for (device, name) in &arguments.names {
        object_of_device.push((*device, numbered(name, objects)?));
    }
    let object_of = |device: u32| match object_of_device.iter().find(|(of, _)| *of == device) {
        Some((_, object)) => Some(*object),
        None => object_of_device.is_empty().then_some(device),
    };
    let (mut reader, _) = open_trace(path, &arguments.format)?;
    let mut requests = Vec::new();
    let mut first: Option<Instant> = None;
    for traced in reader.by_ref().take(arguments.how.requests as usize) {
        let traced = traced?;
        let Arrival::At(at) = traced.at else {
            let problem = "the trace has delays between requests in place of times";
            return Err(Failure::Failed(format!("{}: {problem}", path.display())));
        };
        let object = object_of(traced.device);
        let found = object.and_then(|object| Some((object, objects.get(object as usize)?)));
        let Some((object, (name, size))) = found else {
            return Err(Failure::Failed(format!(
                "{}: line {}: device {} is no object of the plan, which has {}: name it with --name",
                path.display(),
                traced.line,
                traced.device,
                objects.len()
            )));
        };
        if traced.blocks.end().0 > size.0 {
            return Err(Failure::Failed(format!(
                "{}: line {}: the request ends at block {}, past the end of object `{name}` at {}: give it {} or more",
                path.display(),
                traced.line,
                traced.blocks.end(),
                size,
                ByteCount(traced.blocks.end().0 * 512)
            )));
        }
        let first = *first.get_or_insert(at);
        let at = Instant { ns: at.ns.saturating_sub(first.ns) };
        requests.push(TracedRequest { at, object, op: traced.op, blocks: traced.blocks });
    }
    if requests.is_empty() {
        return Err(Failure::Failed(format!("{}: the trace has no request", path.display())));
    }
    note_backwards(reader.backwards());
    if reader.next().is_some() {
        let count = print::counted(arguments.how.requests, "request");
        print::note(format!("the first {count} of the trace are used: give --requests for more"));
    }
    Ok(requests)
}
