//! The commands of `cargo xtask`: what a developer runs, and what continuous integration runs.
#![expect(
    clippy::print_stdout,
    reason = "headings and violations on the terminal are what this program is for"
)]

mod bench;
mod error;
mod fuzz;
mod process;
mod real_clients;
mod test;
mod tidy;

use std::ffi::OsString;
use std::path::Path;
use std::process::ExitCode;

use clap::{Parser, Subcommand};

use error::Error;

/// The project's own commands.
///
/// Before a commit, run `cargo xtask test`; continuous integration runs the same command.
/// Exit status: 0 all is well, 1 something failed, 2 the command line was not understood.
#[derive(Debug, Parser)]
#[command(name = "cargo xtask", bin_name = "cargo xtask")]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Check the rules of the house that the compiler does not know
    ///
    /// Prints one line per violation, `path:line: what is wrong; what to do`. Where a rule has
    /// exceptions, the line in question says why it is one: `// tidy: allow(REASON)`.
    Tidy,
    /// Run every check and test, stopping at the first that fails
    ///
    /// In this order: formatting, tidy, clippy with warnings as errors, the tests of the workspace.
    Test(test::Options),
    /// Look for inputs that the parsers fail on
    ///
    /// Each fuzz target of fuzz/ runs for a minute, or until an input makes it panic, hang or take a
    /// gigabyte of memory. Such an input is kept in target/fuzz/artifacts and the command that runs
    /// it again is printed.
    Fuzz(fuzz::Options),
    /// Run the benchmarks of crates/bench in release mode; `update` and `tpcc`: those of peers/
    #[command(
        after_help = "For the help of the benchmarks themselves: cargo xtask bench -- --help, and \
                      cargo xtask bench update --help (the peers take a C++ compiler and libclang to build)"
    )]
    Bench {
        /// Arguments for the benchmark program, passed on as they are
        #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
        args: Vec<OsString>,
    },
}

fn main() -> ExitCode {
    match run(&Cli::parse().command) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error}");
            ExitCode::FAILURE
        }
    }
}

fn run(command: &Command) -> Result<(), Error> {
    let root = workspace_root();
    match command {
        Command::Tidy => tidy::run(root),
        Command::Test(options) => test::run(root, options),
        Command::Fuzz(options) => fuzz::run(root, options),
        Command::Bench { args } => bench::run(root, args),
    }
}

/// The folder that holds this crate's, so that every command works from anywhere in the tree.
fn workspace_root() -> &'static Path {
    let this_crate = Path::new(env!("CARGO_MANIFEST_DIR"));
    this_crate.parent().unwrap_or(this_crate)
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::CommandFactory;

    #[test]
    fn command_line_is_well_formed() {
        Cli::command().debug_assert();
    }

    #[test]
    fn bench_passes_hyphenated_arguments_on() {
        let cli = Cli::try_parse_from(["xtask", "bench", "--only", "scan", "-v"]).unwrap();
        let Command::Bench { args } = cli.command else {
            panic!("parsed as {:?}", cli.command);
        };
        assert_eq!(args, ["--only", "scan", "-v"]);
    }

    #[test]
    fn workspace_root_holds_the_workspace_manifest() {
        assert!(workspace_root().join("Cargo.lock").is_file());
    }
}
