//! `cargo xtask test`: every check in order, each with a heading and the time it took.

use std::path::Path;
use std::time::{Duration, Instant};

use clap::Args;

use crate::error::Error;
use crate::{process, real_clients, tidy};

#[derive(Debug, Args)]
pub(crate) struct Options {
    /// Also run the tests marked `#[ignore]`: the long ones
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
}

impl Step {
    fn title(&self) -> String {
        match self {
            Step::Cargo(args) => format!("cargo {}", args.join(" ")),
            Step::Tidy => "cargo xtask tidy".to_owned(),
        }
    }

    fn run(&self, root: &Path) -> Result<(), Error> {
        match self {
            Step::Cargo(args) => process::run(process::cargo(root).args(*args)),
            Step::Tidy => tidy::run(root),
        }
    }
}

/// The cheap steps come first, so that most mistakes show within a second.
fn steps(options: &Options) -> Vec<Step> {
    let mut steps = vec![Step::Cargo(&["fmt", "--all", "--check"]), Step::Tidy];
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
        &["test", "--workspace", "--", "--include-ignored"]
    } else {
        &["test", "--workspace"]
    }));
    steps
}

pub(crate) fn run(root: &Path, options: &Options) -> Result<(), Error> {
    real_clients::install_missing()?;

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
                "cargo test --workspace -- --include-ignored",
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
