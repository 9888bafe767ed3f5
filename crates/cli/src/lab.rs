//! `moirai lab`: experiments beside the published figures.

mod report;

use std::path::{Path, PathBuf};

use clap::Subcommand;
use moirai_lab::{Context, Experiment, Outcome, Row, all, find, of_traces};
use tracing::subscriber::{NoSubscriber, with_default};

use crate::failure::{Failure, verdict};
use crate::{print, progress};

#[derive(Subcommand)]
pub(crate) enum Command {
    /// List the experiments: what they reproduce, and how long they take
    List {
        /// Print JSON
        #[arg(long)]
        json: bool,
    },
    /// Run all experiments and write a site: each published figure, ours beside it, and a page for each experiment
    ///
    /// Long experiments run at a smaller scale, so that all take less than a quarter of an hour; --quick takes the smallest, and --full the
    /// published settings. Exit status: 0 if all ran, 1 if one failed.
    Report(report::Arguments),
    /// Run an experiment in virtual time and print its figures beside the published ones
    ///
    /// Exit status: 0 if the experiment ran, 1 if it failed or --check found a figure outside its tolerance, 2 if the
    /// command line is wrong.
    Run {
        /// The experiment's name
        name: String,
        /// Seed of the random choices; the same seed gives the same figures
        #[arg(long, default_value_t = 1)]
        seed: u64,
        /// Scale of an experiment that takes more than a minute, in (0, 1]; 1 is the published setting
        #[arg(long, default_value_t = 1.0, value_parser = scale)]
        scale: f64,
        /// Folder with the traces that placement-skew is published with: Financial1.spc and 2, WebSearch1.spc to 3
        #[arg(long, value_name = "FOLDER")]
        traces: Option<PathBuf>,
        /// Exit with status 1 if a judged figure is outside its tolerance
        #[arg(long)]
        check: bool,
        /// Print JSON
        #[arg(long)]
        json: bool,
    },
}

#[derive(serde::Serialize)]
struct Listed {
    name: &'static str,
    source: &'static str,
    takes: &'static str,
    has_scale: bool,
    summary: &'static str,
}

/// A scale of an experiment.
fn scale(text: &str) -> Result<f64, String> {
    let scale: f64 = text.parse().map_err(|_| format!("`{text}` is not a number"))?;
    match scale > 0.0 && scale <= 1.0 {
        true => Ok(scale),
        false => Err("a scale is greater than 0 and at most 1".into()),
    }
}

pub(crate) fn run(command: Command) -> Result<(), Failure> {
    match command {
        Command::List { json } => list(json),
        Command::Report(arguments) => report::run(&arguments),
        Command::Run { name, seed, scale, traces, check, json } => {
            let experiment = find(&name).ok_or_else(|| {
                let names: Vec<&str> = all().iter().map(|experiment| experiment.name).collect();
                Failure::Usage(format!(
                    "there is no experiment `{name}`; there are: {}",
                    names.join(", ")
                ))
            })?;
            experiment.check_scale(scale).map_err(|error| Failure::Usage(error.to_string()))?;
            if traces.is_some() && name != of_traces() {
                let only = of_traces();
                return Err(Failure::Usage(format!("{name} takes no --traces; {only} does")));
            }
            let outcome = outcome(experiment, seed, scale, traces.as_deref())?;
            let printed = match json {
                true => print::json(&outcome),
                false => print_outcome(experiment, &outcome),
            };
            if check { verdict(printed, checked(&outcome)) } else { printed }
        }
    }
}

/// Runs an experiment with a progress bar.
fn outcome(
    experiment: &Experiment,
    seed: u64,
    scale: f64,
    traces: Option<&Path>,
) -> Result<Outcome, Failure> {
    let bar = progress::shares();
    let context = Context::new(seed).scaled(scale).reporting({
        let bar = bar.clone();
        move |what, share| progress::show(&bar, what, share)
    });
    let context = match traces {
        Some(folder) => context.with_traces(folder),
        None => context,
    };
    // An experiment overloads the engine on purpose. Its warnings, whose seconds are virtual, would tear the bar.
    let outcome = match std::env::var_os("MOIRAI_LOG") {
        Some(_) => experiment.outcome(&context),
        None => with_default(NoSubscriber::new(), || experiment.outcome(&context)),
    };
    bar.finish_and_clear();
    Ok(outcome?)
}

/// An error that names the judged figures outside their tolerance, if there are any.
fn checked(outcome: &Outcome) -> Result<(), Failure> {
    let judged = outcome.rows.iter().filter(|row| row.within.is_some()).count();
    let of_row = |row: &Row| {
        let tolerance = row.tolerance.map(|tolerance| tolerance.to_string()).unwrap_or_default();
        format!("\n  {}: {} is not {tolerance}", row.figure, number(row.ours))
    };
    if judged == 0 {
        print::notes(&[format!("no figure of {} is judged", outcome.experiment)]);
    }
    let outside: Vec<String> = outcome.outside().map(of_row).collect();
    if outside.is_empty() {
        return Ok(());
    }
    Err(Failure::Failed(format!(
        "{}: {} of {judged} judged figures outside their tolerance:{}",
        outcome.experiment,
        outside.len(),
        outside.concat()
    )))
}

fn list(json: bool) -> Result<(), Failure> {
    let listed = |experiment: &Experiment| Listed {
        name: experiment.name,
        source: experiment.source,
        takes: experiment.takes,
        has_scale: experiment.scaling.is_some(),
        summary: experiment.summary,
    };
    let listed: Vec<Listed> = all().iter().map(listed).collect();
    if json {
        return print::json(&listed);
    }
    let row = |l: Listed| [l.name, l.source, l.takes, l.summary].map(str::to_owned).to_vec();
    print_table(
        &[("experiment", false), ("source", false), ("takes", true), ("what is measured", false)],
        listed.into_iter().map(row).collect(),
    )?;
    print::line("\nTimes are real, of a release build. Those over a minute have --scale.")
}

fn number(value: f64) -> String {
    format!("{value:.3}")
}

fn print_outcome(experiment: &Experiment, outcome: &Outcome) -> Result<(), Failure> {
    let Outcome { source, seed, scale, rows, .. } = outcome;
    let title = format!("{}: {}", experiment.name, experiment.summary);
    print::line(wrapped(&title, "", width()))?;
    print::line(format!("source: {source}, seed {seed}, scale {scale}\n"))?;
    let row = |row: &Row| {
        vec![
            row.figure.clone(),
            row.unit.to_owned(),
            row.published.map(number).unwrap_or_default(),
            number(row.ours),
            row.ratio.map(number).unwrap_or_default(),
            row.tolerance.map(|tolerance| tolerance.to_string()).unwrap_or_default(),
            match row.within {
                Some(true) => "yes",
                Some(false) => "NO",
                None if row.is_unjudged() => "not judged",
                None => "",
            }
            .to_owned(),
        ]
    };
    print_table(
        &[
            ("figure", false),
            ("unit", false),
            ("published", true),
            ("ours", true),
            ("ratio", true),
            ("tolerance", true),
            ("within", false),
        ],
        rows.iter().map(row).collect(),
    )?;
    if let (Some(scaling), true) = (experiment.scaling, *scale < 1.0) {
        let note = format!(
            "Scale {scale} multiplies {}. These figures are not of the published setting.",
            scaling.what
        );
        print::line(format!("\n{}", wrapped(&note, "", width())))?;
        let unjudged: Vec<String> = rows
            .iter()
            .filter(|row| row.is_unjudged())
            .map(|row| format!("\n{}", item(&row.figure, width())))
            .collect();
        if !unjudged.is_empty() {
            print::line(format!("Not judged at this scale:{}", unjudged.concat()))?;
        }
    }
    print::line("\nAssumed:")?;
    for assumption in experiment.assumptions {
        print::line(item(assumption, width()))?;
    }
    Ok(())
}

/// Text in lines of at most `width`, unless a word is longer; those after the first begin with `indent`.
fn wrapped(text: &str, indent: &str, width: u16) -> String {
    let (mut lines, mut column) = (String::new(), 0);
    for word in text.split_whitespace() {
        let length = word.chars().count();
        if column > indent.len() && column + 1 + length > width.into() {
            lines = lines + "\n" + indent;
            column = indent.len();
        } else if column > 0 {
            lines.push(' ');
            column += 1;
        }
        lines += word;
        column += length;
    }
    lines
}

/// Text as the item of a list.
fn item(text: &str, width: u16) -> String {
    wrapped(&format!("- {text}"), "  ", width)
}

/// The width of output that does not go to a terminal.
const WIDTH_ELSEWHERE: u16 = 100;

/// The width of the terminal.
fn width() -> u16 {
    print::terminal_width().unwrap_or(WIDTH_ELSEWHERE)
}

/// Writes a table that fits [`width`].
fn print_table(columns: &[print::Column<'_>], rows: Vec<Vec<String>>) -> Result<(), Failure> {
    print::line(print::table_within(columns, rows, Some(width())))
}

#[cfg(test)]
mod tests {
    use moirai_lab::Tolerance;

    use super::*;

    fn outcome(ours: [f64; 2]) -> Outcome {
        let row = |ours| Row::new(format!("figure {ours}"), "virtual ms", ours);
        let rows = ours.map(|ours| row(ours).judged(Tolerance::AtMost(2.0)));
        let mut rows = rows.to_vec();
        rows.push(row(99.0));
        Outcome { experiment: "one", source: "here", seed: 1, scale: 1.0, rows }
    }

    #[test]
    fn check_names_the_figures_outside_their_tolerance() {
        checked(&outcome([1.0, 2.0])).unwrap();
        let failure = checked(&outcome([1.5, 3.5])).unwrap_err();
        let expected =
            "one: 1 of 2 judged figures outside their tolerance:\n  figure 3.5: 3.500 is not <= 2";
        assert_eq!((failure.status(), failure.to_string().as_str()), (1, expected));
    }

    #[test]
    fn items_wrap_between_words() {
        assert_eq!(item("one two three", 10), "- one two\n  three");
        assert_eq!(item("unbreakable word", 5), "- unbreakable\n  word");
        assert_eq!(wrapped("one two three", "", 7), "one two\nthree");
    }

    #[test]
    fn tables_fit_the_width() {
        let rows = || vec![vec!["name".to_owned(), "many words to wrap ".repeat(10)]];
        let columns = [("experiment", false), ("what is measured", false)];
        for width in [60, 80, 100] {
            let text = print::table_within(&columns, rows(), Some(width));
            let longest = text.lines().map(|line| line.chars().count()).max();
            assert!(longest > Some(40) && longest <= Some(width.into()), "{text}");
        }
    }
}
