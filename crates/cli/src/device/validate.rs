//! `moirai device validate`: a simulated drive beside the real one.

use std::path::PathBuf;

use clap::Args;
use moirai::units::{Nanos, grouped};
use moirai_models::Profile;
use moirai_replay::validate::{compare, responses, simulate};
use serde::Serialize;

use super::measured::{DriveAndTrace, Measured};
use crate::failure::Failure;
use crate::{output, print};

/// Compare a simulated drive with the response times that a trace of the real drive holds
///
/// The trace is in the `disksim-validate` format: R or W, what the buffer did, LBN, sectors, response time in us,
/// delay in us from its completion to the issue of the next request. The simulated drive receives the same requests.
/// The demerit figure is the root mean square distance of the two cumulative distributions (Ruemmler and Wilkes
/// 1993; thesis 4.4.2).
#[derive(Args)]
pub(crate) struct Arguments {
    #[command(flatten)]
    measured: DriveAndTrace,
    /// SVG file to draw the two distributions into
    #[arg(long, value_name = "FILE")]
    svg: Option<PathBuf>,
    /// CSV file to write each request's measured and simulated time into
    #[arg(long, value_name = "FILE")]
    per_request: Option<PathBuf>,
    #[command(flatten)]
    force: output::Force,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

#[derive(Serialize)]
struct Shown {
    device: String,
    requests: usize,
    measured_mean_ms: f64,
    simulated_mean_ms: f64,
    demerit_ms: f64,
    per_request_rms_ms: f64,
    correlation: f64,
    /// The bus rate, where the drive's file leaves it open.
    bus_mb_per_s_from_trace: Option<f64>,
    notes: Vec<String>,
}

pub(crate) fn run(arguments: &Arguments) -> Result<(), Failure> {
    arguments.force.needs_output(arguments.svg.is_some() || arguments.per_request.is_some())?;
    for path in arguments.svg.iter().chain(&arguments.per_request) {
        arguments.force.check(path, &arguments.measured.inputs())?;
    }
    let Measured { drive, requests, bus_mb_per_s: bus } = arguments.measured.read()?;
    let profile =
        Profile::new(drive.profile).map_err(|problem| Failure::Failed(problem.to_string()))?;
    let simulated = simulate(profile, &requests).map_err(|problem| {
        Failure::Failed(format!("{}: {problem}", arguments.measured.trace.display()))
    })?;
    let simulated = responses(&simulated);
    let measured: Vec<Nanos> = requests.iter().map(|request| request.measured).collect();
    let compared = compare(&measured, &simulated);
    if let Some(path) = &arguments.svg {
        let title = format!("{} and the real drive", arguments.measured.device);
        let note = format!(
            "{} requests; demerit figure {:.3} ms, correlation {:.3}",
            requests.len(),
            compared.demerit_ms,
            compared.correlation
        );
        let series = [("measured", measured.as_slice()), ("simulated", simulated.as_slice())];
        output::write(path, &moirai_charts::distributions(&title, &series, &note))?;
    }
    if let Some(path) = &arguments.per_request {
        let mut text = String::from("rw,lbn,sectors,measured_ms,simulated_ms\n");
        for (request, simulated) in requests.iter().zip(&simulated) {
            let op = match request.op {
                moirai::storage::Op::Read => 'R',
                moirai::storage::Op::Write => 'W',
            };
            let (lbn, sectors) = (request.blocks.first.0, request.blocks.count.0);
            let (measured, simulated) = (request.measured.as_ms(), simulated.as_ms());
            text.push_str(&format!("{op},{lbn},{sectors},{measured:.6},{simulated:.6}\n"));
        }
        output::write(path, &text)?;
    }
    let shown = Shown {
        device: arguments.measured.device.clone(),
        requests: requests.len(),
        measured_mean_ms: compared.measured_mean_ms,
        simulated_mean_ms: compared.simulated_mean_ms,
        demerit_ms: compared.demerit_ms,
        per_request_rms_ms: compared.per_request_rms_ms,
        correlation: compared.correlation,
        bus_mb_per_s_from_trace: bus,
        notes: drive.notes,
    };
    if arguments.json {
        return print::json(&shown);
    }
    print::notes(&shown.notes);
    print::table(
        &[("figure", false), ("value", true)],
        vec![
            vec!["requests".into(), grouped(shown.requests as u64)],
            vec!["measured mean".into(), format!("{:.3} ms", shown.measured_mean_ms)],
            vec!["simulated mean".into(), format!("{:.3} ms", shown.simulated_mean_ms)],
            vec!["demerit figure".into(), format!("{:.3} ms", shown.demerit_ms)],
            vec!["per-request RMS".into(), format!("{:.3} ms", shown.per_request_rms_ms)],
            vec!["correlation".into(), format!("{:.3}", shown.correlation)],
        ],
    )
}
