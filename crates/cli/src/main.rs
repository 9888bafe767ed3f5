//! The `moirai` tool: `moirai NOUN VERB`.

mod demo;
mod device;
mod discover;
mod failure;
mod html;
mod kept;
mod kv;
mod lab;
mod model;
mod output;
mod plan;
mod print;
mod progress;
mod replay;
mod run;
mod sql;
mod store;
mod table;
mod volume;
mod workload;

use std::process::ExitCode;

use clap::{Parser, Subcommand};

use failure::Failure;

/// Many threads free what others allocated: glibc's allocator takes a third of the time of a busy store, and keeps what one thread frees
/// from the others.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// A storage manager that learns what each device is good at, and shapes layout and I/O to it.
///
/// Devices are named by URI:
///
///   file:/srv/vol.img?size=8GiB      a file, created with that size by commands that create
///   block:/dev/sdb                   a block device
///   sim:seagate-cheetah-36es         a simulated disk, contents in memory
///   sim:./my-drive.toml?data=d.img   a drive profile of your own, contents in a file
///   volume:./vol.toml                several devices as one
///
/// Simulated devices run in virtual time: a second on the simulated disk does not take a second of
/// real time, and the same seed gives the same nanoseconds.
///
/// Sizes: 512k, 1G, 1.5GiB (binary), 1GB (decimal).
/// Exit status: 0 done, 1 failed, 2 not understood, 130 interrupted.
#[derive(Parser)]
#[command(name = "moirai", version, verbatim_doc_comment, max_term_width = 100)]
struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// List, show and draw devices; import, validate and fit drive profiles
    #[command(subcommand)]
    Device(device::Command),
    Discover(discover::Arguments),
    Replay(replay::Arguments),
    /// Make several devices one volume, see where its blocks lie, and look after its disks
    #[command(subcommand)]
    Volume(volume::Command),
    /// Load, list, show, scan and drop tables
    #[command(subcommand)]
    Table(table::Command),
    Kv(kv::Arguments),
    /// Check, back up, restore, map and repair a store of trees and tables
    #[command(subcommand)]
    Store(store::Command),
    /// Query the tables of a store in SQL: one statement, a script, or a prompt
    Sql(sql::Arguments),
    /// Run experiments in virtual time and print their figures beside the published ones
    #[command(subcommand)]
    Lab(lab::Command),
    /// What the thesis's analytic model says of an access, a quadrangle, a video server, a file system
    #[command(subcommand)]
    Model(model::Command),
    /// Characterise a workload, and find, simulate and compare plans: which arrays, RAID levels, stripe units, objects where
    #[command(subcommand)]
    Plan(plan::Command),
    /// Run benchmarks of transactions on the tables of a store: TPC-C
    #[command(subcommand)]
    Workload(workload::Command),
    /// Load TPC-H in rows and in columns, on simulated disks and in files; query, update, compare and report
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
        // Where nobody reads standard error, nobody can be told that either.
        .log_internal_errors(false)
        .init();
    let done = match Arguments::parse().command {
        Command::Device(command) => device::run(command),
        Command::Discover(arguments) => discover::run(&arguments),
        Command::Replay(arguments) => replay::run(&arguments),
        Command::Volume(command) => volume::run(command),
        Command::Table(command) => table::run(command),
        Command::Kv(arguments) => kv::run(&arguments),
        Command::Store(command) => store::run(&command),
        Command::Sql(arguments) => sql::run(arguments),
        Command::Lab(command) => lab::run(command),
        Command::Model(command) => model::run(&command),
        Command::Plan(command) => plan::run(command),
        Command::Workload(command) => workload::run(command),
        Command::Demo(arguments) => demo::run(&arguments),
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(Failure::BrokenPipe) => ExitCode::SUCCESS,
        Err(failure) => {
            print::error_line(format!("moirai: {failure}"));
            ExitCode::from(failure.status())
        }
    }
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    /// That options which others name are there, and what else clap asserts.
    #[test]
    fn all_arguments_are_possible() {
        super::Arguments::command().debug_assert();
    }
}
