//! `moirai lab`: experiments beside the published figures.

use clap::Subcommand;
use moirai_lab::{Experiment, Outcome, all, find};

use crate::failure::Failure;
use crate::print;

#[derive(Subcommand)]
pub(crate) enum Command {
    /// List the experiments and what they reproduce
    List {
        /// Print JSON
        #[arg(long)]
        json: bool,
    },
    /// Run an experiment in virtual time and print its figures beside the published ones
    Run {
        /// The experiment's name
        name: String,
        /// Where random choices begin; the same seed gives the same figures
        #[arg(long, default_value_t = 1)]
        seed: u64,
        /// Print JSON
        #[arg(long)]
        json: bool,
    },
}

#[derive(serde::Serialize)]
struct Listed {
    name: &'static str,
    source: &'static str,
    summary: &'static str,
}

pub(crate) fn run(command: Command) -> Result<(), Failure> {
    match command {
        Command::List { json } => list(json),
        Command::Run { name, seed, json } => {
            let experiment = find(&name).ok_or_else(|| {
                let names: Vec<&str> = all().iter().map(|experiment| experiment.name).collect();
                Failure::Usage(format!(
                    "there is no experiment `{name}`; there are: {}",
                    names.join(", ")
                ))
            })?;
            let outcome = experiment.outcome(seed)?;
            if json { print::json(&outcome) } else { print_outcome(experiment, &outcome) }
        }
    }
}

fn list(json: bool) -> Result<(), Failure> {
    let listed: Vec<Listed> = all()
        .iter()
        .map(|experiment| Listed {
            name: experiment.name,
            source: experiment.source,
            summary: experiment.summary,
        })
        .collect();
    if json {
        return print::json(&listed);
    }
    print::table(
        &[("experiment", false), ("source", false), ("what is measured", false)],
        listed
            .into_iter()
            .map(|l| vec![l.name.to_owned(), l.source.to_owned(), l.summary.to_owned()])
            .collect(),
    )
}

fn print_outcome(experiment: &Experiment, outcome: &Outcome) -> Result<(), Failure> {
    print::line(format!(
        "{}: {}\nsource: {}, seed {}",
        experiment.name, experiment.summary, outcome.source, outcome.seed
    ))?;
    let number = |value: f64| format!("{value:.3}");
    let rows = outcome.rows.iter().map(|row| {
        vec![
            row.figure.clone(),
            row.unit.to_owned(),
            row.published.map(number).unwrap_or_default(),
            number(row.ours),
            row.ratio.map(number).unwrap_or_default(),
            match row.within {
                Some(true) => "yes".into(),
                Some(false) => "NO".into(),
                None => String::new(),
            },
        ]
    });
    print::table(
        &[
            ("figure", false),
            ("unit", false),
            ("published", true),
            ("ours", true),
            ("ours / published", true),
            ("within", false),
        ],
        rows.collect(),
    )?;
    print::line("\nAssumed:")?;
    for assumption in experiment.assumptions {
        print::line(format!("- {assumption}"))?;
    }
    Ok(())
}
