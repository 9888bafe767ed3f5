//! `moirai device fit`: a profile adjusted to a measured trace.

use std::path::PathBuf;

use clap::Args;
use moirai_replay::fit::{Change, PARAMETERS, Parameter, fit};
use serde::Serialize;

use super::drive;
use super::measured::{DriveAndTrace, Measured};
use crate::failure::Failure;
use crate::{output, print, progress};

/// Adjust a few parameters of a drive to a measured trace
///
/// Change a parameter only if that brings the drive nearer, beyond chance, on requests of the first half of
/// the trace that the change was not fitted to. The second half only tells what the changes are worth. The
/// trace is in the format of `moirai device validate`.
#[derive(Args)]
pub(crate) struct Arguments {
    #[command(flatten)]
    measured: DriveAndTrace,
    /// Profile to write
    #[arg(long, value_name = "FILE")]
    out: PathBuf,
    /// Parameters to adjust, separated by commas [default: all that the drive has]; a wrong name lists them
    #[arg(long, value_delimiter = ',', value_name = "NAMES")]
    parameters: Vec<Parameter>,
    #[command(flatten)]
    force: output::Force,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

#[derive(Serialize)]
struct Shown {
    profile: String,
    simulations: u32,
    changes: Vec<ShownChange>,
    left_alone: Vec<ShownLeftAlone>,
    fitted_half: ShownHalf,
    held_out_half: ShownHalf,
    notes: Vec<String>,
}

#[derive(Serialize)]
struct ShownChange {
    parameter: &'static str,
    before: String,
    after: String,
}

/// A parameter that was tried and left alone; without figures when no other value was nearer.
#[derive(Serialize)]
struct ShownLeftAlone {
    parameter: &'static str,
    gain_ms: Option<f64>,
    standard_error_ms: Option<f64>,
}

#[derive(Serialize)]
struct ShownHalf {
    demerit_before_ms: f64,
    demerit_after_ms: f64,
    per_request_rms_before_ms: f64,
    per_request_rms_after_ms: f64,
    correlation_before: f64,
    correlation_after: f64,
}

impl From<Change> for ShownHalf {
    fn from(Change { before, after }: Change) -> ShownHalf {
        ShownHalf {
            demerit_before_ms: before.demerit_ms,
            demerit_after_ms: after.demerit_ms,
            per_request_rms_before_ms: before.per_request_rms_ms,
            per_request_rms_after_ms: after.per_request_rms_ms,
            correlation_before: before.correlation,
            correlation_after: after.correlation,
        }
    }
}

pub(crate) fn run(arguments: &Arguments) -> Result<(), Failure> {
    arguments.force.check(&arguments.out, &arguments.measured.inputs())?;
    let Measured { drive, requests, .. } = arguments.measured.read()?;
    let mut parameters = arguments.parameters.clone();
    if parameters.is_empty() {
        parameters = PARAMETERS.into_iter().filter(|known| known.is_of(&drive.profile)).collect();
    }
    let mut named = std::collections::BTreeSet::new();
    parameters.retain(|parameter| named.insert(parameter.name));
    let bar = progress::bar("fitting", Some(1000));
    let fitted = fit(&drive.profile, &requests, &parameters, |done| {
        bar.set_position((done * 1000.0) as u64);
    });
    bar.finish_and_clear();
    let fitted = fitted.map_err(|problem| Failure::Failed(problem.to_string()))?;
    let mut profile = fitted.profile;
    if !fitted.changes.is_empty() {
        profile.description.push_str(", fitted to a measured trace");
    }
    drive::write_profile(&profile, &arguments.out)?;
    let changes = fitted.changes.into_iter().map(|(parameter, before, after)| ShownChange {
        parameter,
        before,
        after,
    });
    let left_alone = fitted.left_alone.into_iter().map(|(parameter, gain)| ShownLeftAlone {
        parameter,
        gain_ms: gain.map(|gain| gain.ms),
        standard_error_ms: gain.map(|gain| gain.error_ms),
    });
    let shown = Shown {
        profile: arguments.out.display().to_string(),
        simulations: fitted.simulations,
        changes: changes.collect(),
        left_alone: left_alone.collect(),
        fitted_half: fitted.fitted.into(),
        held_out_half: fitted.held_out.into(),
        notes: drive.notes,
    };
    if arguments.json { print::json(&shown) } else { print_shown(&shown) }
}

fn print_shown(shown: &Shown) -> Result<(), Failure> {
    print::notes(&shown.notes);
    if shown.changes.is_empty() {
        print::line("No parameter is changed.")?;
    } else {
        print::table(
            &[("parameter", false), ("before", true), ("after", true)],
            shown
                .changes
                .iter()
                .map(|change| {
                    vec![change.parameter.into(), change.before.clone(), change.after.clone()]
                })
                .collect(),
        )?;
    }
    if !shown.left_alone.is_empty() {
        let names: Vec<&str> = shown.left_alone.iter().map(|left| left.parameter).collect();
        print::line(format!(
            "\nLeft alone, because no other value is nearer beyond chance: {}.",
            names.join(", ")
        ))?;
    }
    let rows = |name: &str, half: &ShownHalf| {
        let row = |figure: &str, before: f64, after: f64| {
            let shown = |value: f64| format!("{value:.3}");
            vec![name.to_owned(), figure.to_owned(), shown(before), shown(after)]
        };
        vec![
            row("demerit figure, ms", half.demerit_before_ms, half.demerit_after_ms),
            row(
                "per-request RMS, ms",
                half.per_request_rms_before_ms,
                half.per_request_rms_after_ms,
            ),
            row("correlation", half.correlation_before, half.correlation_after),
        ]
    };
    let mut halves = rows("first, fitted", &shown.fitted_half);
    halves.extend(rows("second, held out", &shown.held_out_half));
    let held_out = &shown.held_out_half;
    let worse = held_out.demerit_after_ms > held_out.demerit_before_ms
        || held_out.correlation_after < held_out.correlation_before;
    print::line("")?;
    print::table(
        &[("half of the trace", false), ("figure", false), ("before", true), ("after", true)],
        halves,
    )?;
    if worse {
        print::line(
            "\nThe half that was not fitted is no nearer: the trace was learnt, not the drive.",
        )?;
    }
    print::line(format!(
        "\n{}, after {} simulations; `moirai device show sim:{}` shows it",
        shown.profile, shown.simulations, shown.profile
    ))
}
