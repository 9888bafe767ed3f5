//! `moirai plan characterise`: a trace as a workload.

use std::fs::File;
use std::io::BufReader;
use std::path::Path;

use moirai::units::{ByteCount, grouped, grouped_decimals};
use moirai_policy::{Characterised, Characteriser};
use moirai_replay::trace::TraceReader;

use super::Characterise;
use crate::failure::Failure;
use crate::replay::open_trace;
use crate::{output, print, progress};

/// Overlaps that are printed.
const OVERLAPS_SHOWN: usize = 8;
/// Requests between two looks at the clock.
const PROGRESS_REQUESTS: u64 = 1 << 16;

pub(super) fn run(arguments: &Characterise) -> Result<(), Failure> {
    arguments.force.needs_output(arguments.out.is_some())?;
    if let Some(path) = &arguments.out {
        arguments.force.check(path, &[&arguments.trace.display().to_string()])?;
    }
    let (reader, _) = open_trace(&arguments.trace, &arguments.format)?;
    let characterised = characterised(reader, &arguments.names)?;
    let workload = characterised.workload();
    if let Some(path) = &arguments.out {
        output::write(path, &workload.text(path)?)?;
    }
    if arguments.json {
        return print::json(&characterised);
    }
    print_characterised(&characterised)?;
    match &arguments.out {
        Some(path) => print::line(format!("The workload: {}", path.display())),
        None => print::line(format!("\n{}", workload.text(Path::new("workload"))?)),
    }
}

pub(crate) fn characterised(
    mut reader: TraceReader<BufReader<File>>,
    names: &[(u32, String)],
) -> Result<Characterised, Failure> {
    let bar = progress::spinner("characterising");
    let mut characteriser = Characteriser::new();
    for (read, request) in (1u64..).zip(&mut reader) {
        characteriser.add(&request?)?;
        if read.is_multiple_of(PROGRESS_REQUESTS) {
            bar.set_position(read);
        }
    }
    bar.finish_and_clear();
    let mut given: Vec<&str> = names.iter().map(|(_, name)| name.as_str()).collect();
    given.sort_unstable();
    if let Some(pair) = given.windows(2).find(|pair| pair.first() == pair.last()) {
        let twice = pair.first().copied().unwrap_or_default();
        return Err(Failure::Usage(format!("--name: `{twice}` is given to two devices")));
    }
    let name = |device: u32| {
        let given = names.iter().find(|(number, _)| *number == device);
        given.map_or_else(|| format!("device{device}"), |(_, name)| name.clone())
    };
    let mut characterised = characteriser.finish(name);
    characterised.backwards += reader.backwards();
    if characterised.requests == 0 {
        return Err(Failure::Failed("the trace has no request".into()));
    }
    if characterised.span_s == 0.0 {
        return Err(Failure::Failed(
            "all requests of the trace come at one time: it has no rates".into(),
        ));
    }
    Ok(characterised)
}

pub(crate) fn print_characterised(characterised: &Characterised) -> Result<(), Failure> {
    let Characterised { requests, span_s, .. } = characterised;
    print::line(format!("{} requests in {} s", grouped(*requests), grouped_decimals(*span_s, 1)))?;
    let columns = [
        ("object", false),
        ("requests", true),
        ("reads/s", true),
        ("writes/s", true),
        ("mean size", true),
        ("run", true),
        ("on, ms", true),
        ("off, ms", true),
        ("dispersion", true),
        ("working set", true),
        ("hot fifth", true),
    ];
    let rows = characterised.streams.iter().map(|stream| {
        let ms =
            |value: Option<f64>| value.map_or_else(|| "-".to_owned(), |ms| grouped_decimals(ms, 0));
        vec![
            stream.object.clone(),
            grouped(stream.requests),
            grouped_decimals(stream.read_iops, 2),
            grouped_decimals(stream.write_iops, 2),
            ByteCount(stream.mean_bytes as u64).to_string(),
            grouped_decimals(stream.mean_run, 1),
            ms(stream.on_ms),
            ms(stream.off_ms),
            grouped_decimals(stream.dispersion, 1),
            ByteCount(stream.working_set_bytes).to_string(),
            format!("{:.0} %", stream.hot_fifth * 100.0),
        ]
    });
    print::table(&columns, rows.collect())?;
    if !characterised.overlaps.is_empty() {
        print::line("Streams that are on together more (or, below 0, less) than by chance:")?;
        let columns = [("", false), ("and", false), ("intervals, s", true), ("correlation", true)];
        let rows = characterised.overlaps.iter().take(OVERLAPS_SHOWN).map(|overlap| {
            vec![
                overlap.one.clone(),
                overlap.other.clone(),
                overlap.scale_s.to_string(),
                format!("{:.2}", overlap.correlation),
            ]
        });
        print::table(&columns, rows.collect())?;
    }
    note_backwards(characterised.backwards);
    // A gap of a tenth of the trace is none that a stream makes.
    if characterised.longest_gap_s > characterised.span_s / 10.0 {
        print::note(format!(
            "the trace has a gap of {:.1} s, {:.1} s from its beginning: rates are averages over it",
            characterised.longest_gap_s, characterised.longest_gap_at_s
        ));
    }
    Ok(())
}

/// Says how many times of a trace run backwards.
pub(super) fn note_backwards(count: u64) {
    if count > 0 {
        let count = print::counted(count, "request");
        print::note(format!(
            "{count} came with an earlier time than one before: the later time counts"
        ));
    }
}
