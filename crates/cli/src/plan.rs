//! `moirai plan`: from a workload and a set of disks to a plan that is simulated before it is carried out.

mod apply;
mod characterise;
mod make;
mod page;
mod shown;
mod traced;
mod watch;
mod words;

use std::path::PathBuf;

use clap::{Args, Subcommand};
use moirai_policy::search::Options as SearchOptions;

pub(crate) use characterise::{characterised, print_characterised};

use crate::failure::Failure;
use crate::output::Force;

#[derive(Subcommand)]
pub(crate) enum Command {
    Characterise(Characterise),
    Make(Make),
    /// Show where a plan puts the objects
    Show {
        /// Plan
        #[arg(value_name = "PLAN")]
        plan: PathBuf,
        /// Print JSON
        #[arg(long)]
        json: bool,
    },
    Simulate(Simulate),
    Compare(Compare),
    Apply(Apply),
    Watch(Watch),
}

/// Write the workload that a trace has: rates, sizes, runs, on and off periods, skew, and which streams are on together
///
/// Each device of the trace becomes an object, called device0, device1, ... or as --name says.
#[derive(Args)]
#[command(verbatim_doc_comment)]
pub(crate) struct Characterise {
    /// Trace of block I/O
    #[arg(value_name = "TRACE")]
    trace: PathBuf,
    /// Format of the trace, or auto; `moirai replay --help` lists them
    #[arg(long, default_value = "auto")]
    format: String,
    /// Name the object of a device of the trace, like 0=orders
    #[arg(long = "name", value_name = "N=NAME", value_parser = named)]
    names: Vec<(u32, String)>,
    /// Workload file to write
    #[arg(long, value_name = "FILE")]
    out: Option<PathBuf>,
    #[command(flatten)]
    force: Force,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

/// Look for the best plan for a policy: which arrays, which RAID level, which stripe unit, which objects where
///
///   moirai plan make policy.toml --workload load.toml --out plan.toml --page plan.html
///
/// The policy names disks, arrays and objects, the workload says how objects are accessed; docs/placement.md
/// describes both. Wide striping, narrow striping and what a search finds are simulated with the same requests.
/// With goals, the fewest arrays are used on which all are met.
///
/// Exit status: 1 when no plan that was found meets all goals.
#[derive(Args)]
#[command(verbatim_doc_comment)]
pub(crate) struct Make {
    /// Policy: disks and objects
    #[arg(value_name = "POLICY")]
    policy: PathBuf,
    /// Workload: a stream for each object
    #[arg(long, value_name = "FILE")]
    workload: PathBuf,
    /// Plan file to write
    #[arg(long, value_name = "FILE")]
    out: Option<PathBuf>,
    /// Page to write: the plans as pictures, side by side
    #[arg(long, value_name = "FILE")]
    page: Option<PathBuf>,
    /// Requests of each simulation
    #[arg(long, value_name = "N", default_value_t = SearchOptions::default().requests, value_parser = clap::value_parser!(u64).range(100..))]
    requests: u64,
    /// Simulations, about: of plans, and of the best of them again
    #[arg(long, value_name = "N", default_value_t = SearchOptions::default().simulations as u64, value_parser = clap::value_parser!(u64).range(4..100_000))]
    simulations: u64,
    /// Seed of random choices and of the requests
    #[arg(long, default_value_t = 1)]
    seed: u64,
    #[command(flatten)]
    force: Force,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

/// Simulate a plan under its workload, and under what may come: growth, streams that coincide, a failed disk and its rebuild
#[derive(Args)]
pub(crate) struct Simulate {
    /// Plan
    #[arg(value_name = "PLAN")]
    plan: PathBuf,
    #[command(flatten)]
    how: How,
    /// Also simulate what-if scenarios: growth, streams that coincide, a failed disk and its rebuild
    #[arg(long, conflicts_with = "trace")]
    what_if: bool,
    /// Use the requests of a trace in place of a workload; its devices are the plan's objects, in their order or as --name says
    #[arg(long, value_name = "FILE", conflicts_with = "workload")]
    trace: Option<PathBuf>,
    /// Format of the trace, or auto
    #[arg(long, default_value = "auto", requires = "trace")]
    format: String,
    /// Name the object of a device of the trace, like 0=orders
    #[arg(long = "name", value_name = "N=NAME", value_parser = named, requires = "trace")]
    names: Vec<(u32, String)>,
    /// Multiply the times of an object's requests, like orders=0.75 for a third more of them a second
    #[arg(long = "time-scale", value_name = "NAME=FACTOR", value_parser = scaled, requires = "trace")]
    time_scales: Vec<(String, f64)>,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

/// Simulate several plans with the same requests, and order them
#[derive(Args)]
pub(crate) struct Compare {
    /// Plans
    #[arg(value_name = "PLAN", required = true, num_args = 2..)]
    plans: Vec<PathBuf>,
    #[command(flatten)]
    how: How,
    /// Page to write: the plans as pictures, side by side
    #[arg(long, value_name = "FILE")]
    page: Option<PathBuf>,
    #[command(flatten)]
    force: Force,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

/// Carry a plan out: make the volumes of its objects on sections of its disks, and move objects that lie elsewhere
///
///   moirai plan apply plan.toml --to placed              # simulated disks, contents in files of the folder
///   moirai plan apply plan.toml --to placed --device block:/dev/sdb --device block:/dev/sdc ...
///   moirai plan apply better.toml --to placed            # objects that lie elsewhere move
///   moirai plan apply --to placed --back                 # give up a move that was interrupted
///
/// The object `orders` is then volume:placed/orders.toml. What moves is copied and compared before the object is
/// switched; a command that is killed loses nothing, and continues when it is run again.
#[derive(Args)]
#[command(verbatim_doc_comment)]
pub(crate) struct Apply {
    /// Plan
    #[arg(value_name = "PLAN", required_unless_present = "back", conflicts_with = "back")]
    plan: Option<PathBuf>,
    /// Folder for the descriptions of the volumes, and for what lies where
    #[arg(long = "to", value_name = "DIR")]
    folder: PathBuf,
    /// Disk of the plan, as URI, array by array; simulated ones without it
    #[arg(long = "device", value_name = "URI", conflicts_with = "back")]
    devices: Vec<String>,
    /// Give up a move that was interrupted: the object stays where it was
    #[arg(long)]
    back: bool,
    /// Use disks that hold data: it is lost
    #[arg(long)]
    overwrite: bool,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

/// Compare a trace of what happens with the workload that was planned for, and say whether the plan still fits
///
/// Exit status: 1 when goals are missed, the mean response is a quarter longer than planned, an object is accessed
/// that the plan does not have, or requests pass the end of one.
#[derive(Args)]
#[command(verbatim_doc_comment)]
pub(crate) struct Watch {
    /// Plan
    #[arg(value_name = "PLAN")]
    plan: PathBuf,
    /// Workload that was planned for
    #[arg(long, value_name = "FILE")]
    workload: PathBuf,
    /// Trace of what happens
    #[arg(long, value_name = "FILE")]
    trace: PathBuf,
    /// Format of the trace, or auto
    #[arg(long, default_value = "auto")]
    format: String,
    /// Name the object of a device of the trace, like 0=orders
    #[arg(long = "name", value_name = "N=NAME", value_parser = named)]
    names: Vec<(u32, String)>,
    /// Requests of each simulation
    #[arg(long, value_name = "N", default_value_t = 50_000, value_parser = clap::value_parser!(u64).range(100..))]
    requests: u64,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

/// How plans are simulated.
#[derive(Args)]
pub(crate) struct How {
    /// Workload: a stream for each object
    #[arg(long, value_name = "FILE")]
    workload: Option<PathBuf>,
    /// Requests of each run
    #[arg(long, value_name = "N", default_value_t = 100_000, value_parser = clap::value_parser!(u64).range(100..))]
    requests: u64,
    /// Runs, each with another seed: they give the confidence. A trace is run once
    #[arg(long, value_name = "N", default_value_t = 5, value_parser = clap::value_parser!(u64).range(1..1000))]
    runs: u64,
    /// Seed of the first run
    #[arg(long, default_value_t = 1)]
    seed: u64,
}

/// A device of a trace and the name of its object.
fn named(text: &str) -> Result<(u32, String), String> {
    let (device, name) = text.split_once('=').ok_or("write a number and a name, like 0=orders")?;
    let device = device.parse().map_err(|_| format!("`{device}` is no device's number"))?;
    match name.is_empty() {
        true => Err("the name is empty".into()),
        false => Ok((device, name.to_owned())),
    }
}

/// An object and what its times are multiplied by.
fn scaled(text: &str) -> Result<(String, f64), String> {
    let (name, scale) =
        text.rsplit_once('=').ok_or("write a name and a factor, like orders=0.75")?;
    let scale: f64 = scale.parse().map_err(|_| format!("`{scale}` is no number"))?;
    match (1e-3..=1e3).contains(&scale) {
        true => Ok((name.to_owned(), scale)),
        false => Err(format!("{scale} is not from 0.001 to 1000")),
    }
}

pub(crate) fn run(command: Command) -> Result<(), Failure> {
    match command {
        Command::Characterise(arguments) => characterise::run(&arguments),
        Command::Make(arguments) => make::run(&arguments),
        Command::Show { plan, json } => shown::show(&plan, json),
        Command::Simulate(arguments) => shown::simulate(&arguments),
        Command::Compare(arguments) => shown::compare(&arguments),
        Command::Apply(arguments) => apply::run(&arguments),
        Command::Watch(arguments) => watch::run(&arguments),
    }
}
