//! `cargo xtask fuzz`: the fuzz targets in `fuzz/`, one for each parser.
//!
//! They are built as `cargo fuzz --sanitizer none` builds them, which takes neither that program nor a
//! nightly compiler: LLVM counts the edges that a run takes, and libFuzzer, which the crate
//! `libfuzzer-sys` contains, looks for inputs that take others. A panic, a failed assertion, an overflow,
//! ten seconds without an answer or a gigabyte of memory is a failure. What is left behind is in
//! `target/fuzz`:
//!
//! ```text
//! build/       the instrumented programs
//! corpus/      inputs that took new edges; the next run begins with them
//! artifacts/   inputs that failed
//! ```

use std::path::{Path, PathBuf};
use std::process::Command;

use clap::Args;
use clap::builder::PossibleValuesParser;

use crate::error::Error;
use crate::process;

/// How long each target runs in `cargo xtask test --full`.
const TEST_SECONDS: u32 = 60;

/// What `cargo fuzz` gives to rustc, less the sanitizer. Debug assertions and overflow checks are in
/// the profile of `fuzz/Cargo.toml`.
const RUSTC_FLAGS: [&str; 7] = [
    "-Cpasses=sancov-module",
    "-Cllvm-args=-sanitizer-coverage-level=4",
    "-Cllvm-args=-sanitizer-coverage-inline-8bit-counters",
    "-Cllvm-args=-sanitizer-coverage-pc-table",
    "-Cllvm-args=-sanitizer-coverage-trace-compares",
    "--cfg",
    "fuzzing",
];

const LIMITS: [&str; 2] = ["-timeout=10", "-rss_limit_mb=1024"];

/// A program in `fuzz/targets`.
#[derive(Debug, PartialEq)]
pub(crate) struct Target {
    name: &'static str,
    /// In `fuzz/dictionaries`: words that inputs are made of.
    dictionary: &'static str,
    /// Folders of inputs to begin with.
    seeds: &'static [&'static str],
}

const TARGETS: [Target; 9] = [
    Target {
        name: "profile",
        dictionary: "profile.dict",
        seeds: &["fuzz/seeds/profile", "crates/models/profiles"],
    },
    Target {
        name: "disk",
        dictionary: "profile.dict",
        seeds: &["fuzz/seeds/disk", "fuzz/seeds/profile", "crates/models/profiles"],
    },
    Target { name: "diskspecs", dictionary: "diskspecs.dict", seeds: &["fuzz/seeds/diskspecs"] },
    Target { name: "trace", dictionary: "trace.dict", seeds: &["fuzz/seeds/trace"] },
    Target { name: "uri", dictionary: "uri.dict", seeds: &["fuzz/seeds/uri"] },
    Target { name: "log", dictionary: "log.dict", seeds: &["fuzz/seeds/log"] },
    Target { name: "leaf", dictionary: "leaf.dict", seeds: &["fuzz/seeds/leaf"] },
    Target { name: "scsi", dictionary: "scsi.dict", seeds: &["fuzz/seeds/scsi"] },
    Target { name: "kept", dictionary: "kept.dict", seeds: &["fuzz/seeds/kept"] },
];

#[derive(Debug, Args)]
pub(crate) struct Options {
    /// The target; all of them in turn when not given
    #[arg(value_parser = PossibleValuesParser::new(TARGETS.each_ref().map(|target| target.name)))]
    target: Option<String>,

    /// Inputs to run once instead of looking for new ones, as after a failure
    inputs: Vec<PathBuf>,

    /// How long each target runs
    #[arg(long, default_value_t = TEST_SECONDS, conflicts_with = "inputs")]
    seconds: u32,
}

/// A step of `cargo xtask test --full`.
#[derive(Debug, PartialEq)]
pub(crate) enum Step {
    Clippy,
    Build,
    Run(&'static Target),
}

impl Step {
    /// All of them, in order.
    pub(crate) fn all() -> impl Iterator<Item = Step> {
        [Step::Clippy, Step::Build].into_iter().chain(TARGETS.iter().map(Step::Run))
    }

    pub(crate) fn title(&self) -> String {
        match self {
            Step::Clippy => "clippy of the fuzz targets".to_owned(),
            Step::Build => "build of the fuzz targets".to_owned(),
            Step::Run(target) => format!("cargo xtask fuzz {}", target.name),
        }
    }

    pub(crate) fn run(&self, root: &Path) -> Result<(), Error> {
        match self {
            Step::Clippy => {
                process::run(cargo(root, "clippy").args(["--all-targets", "--", "-D", "warnings"]))
            }
            Step::Build => process::run(&mut cargo(root, "build")),
            Step::Run(target) => target.run(root, TEST_SECONDS),
        }
    }
}

pub(crate) fn run(root: &Path, options: &Options) -> Result<(), Error> {
    need_cpp_compiler()?;
    process::run(&mut cargo(root, "build"))?;
    let is_wanted =
        |target: &&Target| options.target.as_ref().is_none_or(|name| name == target.name);
    for target in TARGETS.iter().filter(is_wanted) {
        if options.inputs.is_empty() {
            println!("\n== {} for {} s", target.name, options.seconds);
            target.run(root, options.seconds)?;
        } else {
            // Cargo runs at the root, wherever this does.
            let inputs = options.inputs.iter().filter_map(|input| std::path::absolute(input).ok());
            process::run(target.program(root).args(LIMITS).args(inputs))?;
        }
    }
    Ok(())
}

/// libFuzzer is C++, and a machine that builds Rust may have a compiler for C alone.
pub(crate) fn need_cpp_compiler() -> Result<(), Error> {
    let program = std::env::var("CXX").unwrap_or_else(|_| "c++".to_owned());
    let started = Command::new(&program).arg("--version").output();
    started.map(drop).map_err(|source| {
        println!("the fuzz targets need a C++ compiler; run");
        println!("    sudo apt-get update && sudo apt-get install -y g++");
        Error::Start { command: program, source }
    })
}

impl Target {
    /// Looks for failures for so long, beginning with the seeds and what earlier runs found.
    fn run(&self, root: &Path, seconds: u32) -> Result<(), Error> {
        let folder = folder(root);
        let found = folder.join("corpus").join(self.name);
        let artifacts = folder.join("artifacts").join(self.name);
        let dictionary = root.join("fuzz/dictionaries").join(self.dictionary);

        let mut program = self.program(root);
        program
            .args(LIMITS)
            .arg(format!("-max_total_time={seconds}"))
            .arg(format!("-dict={}", dictionary.display()))
            // With the slash it is a folder.
            .arg(format!("-artifact_prefix={}/", artifacts.display()))
            .args(["-create_missing_dirs=1", "-verbosity=0", "-print_final_stats=1"])
            // New inputs go to the first folder.
            .arg(found)
            .args(self.seeds.iter().map(|folder| root.join(folder)));
        let command = format!("cargo xtask fuzz {}", self.name);
        let output =
            program.output().map_err(|source| Error::Start { command: command.clone(), source })?;
        let said = String::from_utf8_lossy(&output.stderr);
        if output.status.success() {
            let input_count = after(&said, "stat::number_of_executed_units:").unwrap_or("no");
            println!("{input_count} inputs, and none of them failed");
            return Ok(());
        }
        println!("{said}");
        match after(&said, "Test unit written to ") {
            Some(artifact) => println!("to run the input again:\n    {command} {artifact}"),
            None => println!("no input was kept, as happens when the stack overflows"),
        }
        Err(Error::Failed { command, status: output.status })
    }

    fn program(&self, root: &Path) -> Command {
        let mut command = cargo(root, "run");
        command.args(["--quiet", "--bin", self.name, "--"]);
        command
    }
}

/// Cargo in the workspace of the fuzz targets. They get a target triple so that the flags are for
/// them alone, and not for build scripts and macros, which run without libFuzzer.
fn cargo(root: &Path, subcommand: &str) -> Command {
    let mut command = process::cargo(root);
    command
        .env("CARGO_ENCODED_RUSTFLAGS", RUSTC_FLAGS.join("\x1f"))
        .args([subcommand, "--release", "--target", "host-tuple"])
        .args(["--manifest-path", "fuzz/Cargo.toml"])
        .arg("--target-dir")
        .arg(folder(root).join("build"));
    command
}

/// `target/fuzz`, wherever cargo has its `target`.
fn folder(root: &Path) -> PathBuf {
    let target = std::env::var_os("CARGO_TARGET_DIR").map(PathBuf::from);
    let target = target.and_then(|target| std::path::absolute(target).ok());
    target.unwrap_or_else(|| root.join("target")).join("fuzz")
}

/// The rest of the first line that has `label`, from there on.
fn after<'a>(text: &'a str, label: &str) -> Option<&'a str> {
    let (_, rest) = text.split_once(label)?;
    rest.lines().next().map(str::trim)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;
    use std::fs;

    #[test]
    fn every_program_of_the_fuzz_workspace_is_a_target() {
        let root = crate::workspace_root();
        let manifest = fs::read_to_string(root.join("fuzz/Cargo.toml")).unwrap();
        let manifest: toml::Table = manifest.parse().unwrap();
        let programs = manifest["bin"].as_array().unwrap();
        let programs: BTreeSet<_> =
            programs.iter().filter_map(|bin| bin["name"].as_str()).collect();
        assert_eq!(programs, TARGETS.iter().map(|target| target.name).collect());
    }

    #[test]
    fn targets_have_their_dictionary_and_seeds() {
        let root = crate::workspace_root();
        for target in &TARGETS {
            assert!(root.join("fuzz/dictionaries").join(target.dictionary).is_file());
            for folder in target.seeds {
                assert!(fs::read_dir(root.join(folder)).unwrap().next().is_some(), "{folder}");
            }
        }
    }

    #[test]
    fn the_failing_input_is_found_in_what_libfuzzer_says() {
        let said =
            "SUMMARY: x\nartifact_prefix='/t/'; Test unit written to /t/crash-1\nBase64: eA==\n";
        assert_eq!(after(said, "Test unit written to "), Some("/t/crash-1"));
        assert_eq!(after("stat::n: 5\n", "Test unit written to "), None);
    }
}
