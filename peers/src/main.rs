//! Moirai beside other engines, in one run: random updates of an index, and TPC-C.
//!
//! Each engine runs in a process of its own, in a fresh folder on the same disk, with the same memory: a budget
//! that it is told, and a control group that limits the process with the files cached for it.

mod bandwidth;
mod process;
mod tpcc;
mod update;

use std::error::Error;
use std::process::{Command, Stdio};

use clap::Parser;
use serde::de::DeserializeOwned;

/// As in the tool, and for engines in C and C++, too.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

pub(crate) type Outcome<T> = Result<T, Box<dyn Error + Send + Sync>>;

/// Moirai beside other engines. Nothing else is to run meanwhile; these machines are noisy: look at the ratios.
#[derive(Parser)]
enum Benchmark {
    /// Update random records of an index larger than memory
    Update(update::Arguments),
    /// Run TPC-C: the same rows and the same transactions for each engine
    Tpcc(tpcc::Arguments),
}

fn main() -> Outcome<()> {
    match Benchmark::parse() {
        Benchmark::Update(arguments) => update::run(arguments),
        Benchmark::Tpcc(arguments) => tpcc::run(arguments),
    }
}

/// Runs an engine of this benchmark in another process; gives what it prints.
fn run_apart<T: DeserializeOwned>(name: &str) -> Outcome<T> {
    let output = Command::new(std::env::current_exe()?)
        .args(std::env::args_os().skip(1))
        .args(["--here", name])
        .stderr(Stdio::inherit())
        .output()?;
    if !output.status.success() {
        return Err(format!("the process ended with {}", output.status).into());
    }
    Ok(serde_json::from_slice(&output.stdout)?)
}
