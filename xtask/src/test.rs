//! `cargo xtask test`: every check in order, each with a heading and the time it took.

use std::path::Path;
use std::time::{Duration, Instant};

use clap::Args;

use crate::error::Error;
use crate::{fuzz, process, real_clients, tidy};

#[derive(Debug, Args)]
pub(crate) struct Options {
    /// Also run the tests marked `#[ignore]`, which are long, 100,000 seeds of the simulations of
    /// failing volumes and of the update engine, and each fuzz target for a minute
    #[arg(long)]
    full: bool,

    /// Leave clippy out, for a quick look; continuous integration never does
    #[arg(long)]
    skip_clippy: bool,
}

#[derive(Debug, PartialEq)]
enum Step {
    Cargo(&'static [&'static str]),
    Tidy,
    Fuzz(fuzz::Step),
}

impl Step {
    fn title(&self) -> String {
        match self {
            Step::Cargo(args) => format!("cargo {}", args.join(" ")),
            Step::Tidy => "cargo xtask tidy".to_owned(),
            Step::Fuzz(step) => step.title(),
        }
    }

    fn run(&self, root: &Path) -> Result<(), Error> {
        match self {
            Step::Cargo(args) => process::run(process::cargo(root).args(*args)),
            Step::Tidy => tidy::run(root),
            Step::Fuzz(step) => step.run(root),
        }
    }
}

/// The cheap steps come first, so that most mistakes show within a second.
fn steps(options: &Options) -> Vec<Step> {
    let mut steps = vec![Step::Cargo(&["fmt", "--all", "--check"]), Step::Tidy];
    if options.full {
        steps.push(Step::Cargo(&["fmt", "--manifest-path", "fuzz/Cargo.toml", "--check"]));
        steps.push(Step::Cargo(&["fmt", "--manifest-path", "peers/Cargo.toml", "--check"]));
    }
    if !options.skip_clippy {
        steps.push(Step::Cargo(&[
            "clippy",
            "--workspace",
            "--all-targets",
            "--",
            "-D",
            "warnings",
        ]));
    }
    steps.push(Step::Cargo(if options.full {
        // The store of 1 TiB comes with the optimised build below.
        &["test", "--workspace", "--", "--include-ignored", "--skip", "a_tebibyte"]
    } else {
        &["test", "--workspace"]
    }));
    if options.full {
        steps.push(Step::Cargo(&[
            "test",
            "--release",
            "-p",
            "moirai-volume",
            "--test",
            "survival",
        ]));
        steps.push(Step::Cargo(&[
            "test",
            "--release",
            "-p",
            "moirai-update",
            "-p",
            "moirai-btree",
            "-p",
            "moirai-pages",
            "-p",
            "moirai-tables",
            "--tests",
            "--",
            "--include-ignored",
        ]));
        let is_wanted = |step: &fuzz::Step| *step != fuzz::Step::Clippy || !options.skip_clippy;
        steps.extend(fuzz::Step::all().filter(is_wanted).map(Step::Fuzz));
    }
    steps
}

pub(crate) fn run(root: &Path, options: &Options) -> Result<(), Error> {
    real_clients::install_missing()?;
    if options.full {
        fuzz::need_cpp_compiler()?;
    }

    let mut timings = Vec::new();
    let mut outcome = Ok(());
    for step in steps(options) {
        let title = step.title();
        println!("\n== {title}");
        let start = Instant::now();
        outcome = step.run(root);
        let elapsed = start.elapsed();
        println!("-- {:.1} s", elapsed.as_secs_f64());
        timings.push((title, elapsed));
        if outcome.is_err() {
            break;
        }
    }
    println!("\n{}", table(&timings, outcome.is_ok()));
    outcome
}

/// One row per step that ran. Only the last can have failed, since it is where the run stops.
fn table(timings: &[(String, Duration)], all_passed: bool) -> String {
    let last = timings.len().saturating_sub(1);
    let mut lines = vec![format!("{:>9}  step", "seconds")];
    for (index, (title, elapsed)) in timings.iter().enumerate() {
        let verdict = if index == last && !all_passed { "  FAILED" } else { "" };
        lines.push(format!("{:>9.1}  {title}{verdict}", elapsed.as_secs_f64()));
    }
    lines.join("\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn titles(full: bool, skip_clippy: bool) -> Vec<String> {
        let options = Options { full, skip_clippy };
        steps(&options).iter().map(Step::title).collect()
    }

    #[test]
    fn steps_run_from_cheap_to_dear() {
        assert_eq!(
            titles(false, false),
            [
                "cargo fmt --all --check",
                "cargo xtask tidy",
                "cargo clippy --workspace --all-targets -- -D warnings",
                "cargo test --workspace",
            ]
        );
    }

    #[test]
    fn options_change_the_steps() {
        assert_eq!(
            titles(true, true),
            [
                "cargo fmt --all --check",
                "cargo xtask tidy",
                "cargo fmt --manifest-path fuzz/Cargo.toml --check",
                "cargo fmt --manifest-path peers/Cargo.toml --check",
                "cargo test --workspace -- --include-ignored --skip a_tebibyte",
                "cargo test --release -p moirai-volume --test survival",
                "cargo test --release -p moirai-update -p moirai-btree -p moirai-pages -p moirai-tables --tests -- --include-ignored",
                "build of the fuzz targets",
                "cargo xtask fuzz profile",
                "cargo xtask fuzz disk",
                "cargo xtask fuzz diskspecs",
                "cargo xtask fuzz trace",
                "cargo xtask fuzz uri",
                "cargo xtask fuzz log",
                "cargo xtask fuzz leaf",
                "cargo xtask fuzz scsi",
                "cargo xtask fuzz kept",
            ]
        );
    }

    #[test]
    fn table_marks_the_step_that_failed() {
        let timings = [
            ("first".to_owned(), Duration::from_millis(1_240)),
            ("second".to_owned(), Duration::from_secs(100)),
        ];
        assert_eq!(table(&timings, true), "  seconds  step\n      1.2  first\n    100.0  second");
        assert_eq!(
            table(&timings, false),
            "  seconds  step\n      1.2  first\n    100.0  second  FAILED"
        );
    }
}
