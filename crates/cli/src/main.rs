//! The `moirai` tool: `moirai NOUN VERB`.

mod demo;
mod device;
mod failure;
mod kv;
mod lab;
mod output;
mod print;
mod progress;
mod prompt;
mod replay;
mod run;
mod sql;
mod table;
mod volume;

use std::process::ExitCode;

use clap::{Parser, Subcommand};

use failure::Failure;

/// A storage manager that learns what each device is good at, and shapes layout, I/O and placement
/// to it.
///
/// Devices are named by URI:
///
///   file:/srv/vol.img?size=8GiB      a file, made when it is not there
///   sim:seagate-cheetah-36es         a simulated disk, contents in memory
///   sim:./my-drive.toml?data=d.img   a drive profile of your own, contents in a file
///   volume:./vol.toml                several devices as one
///
/// Simulated devices run in virtual time: seconds on the disk take no time here, and the same seed
/// gives the same nanoseconds.
#[derive(Parser)]
#[command(name = "moirai", version, verbatim_doc_comment)]
struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Devices: list, show and draw them; import, validate and fit drive profiles
    #[command(subcommand)]
    Device(device::Command),
    Replay(replay::Arguments),
    /// Volumes: several devices as one, striped or in quadrangles
    #[command(subcommand)]
    Volume(volume::Command),
    /// Tables: load, list, show, scan, drop
    #[command(subcommand)]
    Table(table::Command),
    Kv(kv::Arguments),
    /// Ask a store in SQL, one statement or at a prompt
    Sql(sql::Arguments),
    /// Experiments in virtual time, beside the published figures
    #[command(subcommand)]
    Lab(lab::Command),
    /// Load TPC-H in both page layouts, on simulated disks and in a file; compare, and report
    Demo(demo::Arguments),
}

fn main() -> ExitCode {
    let level = tracing_subscriber::EnvFilter::try_from_env("MOIRAI_LOG")
        .unwrap_or_else(|_| tracing_subscriber::EnvFilter::new("warn"));
    tracing_subscriber::fmt()
        .with_env_filter(level)
        .with_writer(std::io::stderr)
        .without_time()
        .with_target(false)
        .init();
    let done = match Arguments::parse().command {
        Command::Device(command) => device::run(command),
        Command::Replay(arguments) => replay::run(&arguments),
        Command::Volume(command) => volume::run(command),
        Command::Table(command) => table::run(command),
        Command::Kv(arguments) => kv::run(&arguments),
        Command::Sql(arguments) => sql::run(arguments),
        Command::Lab(command) => lab::run(command),
        Command::Demo(arguments) => demo::run(&arguments),
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(Failure::BrokenPipe) => ExitCode::SUCCESS,
        Err(failure) => {
            eprintln!("moirai: {failure}");
            ExitCode::from(failure.status())
        }
    }
}
