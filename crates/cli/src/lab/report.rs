//! `moirai lab report`: all experiments as a site.

use std::path::PathBuf;

use moirai::runtime::Stopwatch;
use moirai_lab::site::{self, Ran};
use moirai_lab::{Experiment, all};

use super::outcome;
use crate::failure::{Failure, verdict};
use crate::output::{self, Force};
use crate::print;

#[derive(clap::Args)]
pub(crate) struct Arguments {
    /// Folder for the pages; created if it does not exist
    #[arg(long, value_name = "DIR", default_value = "moirai-lab")]
    out: PathBuf,
    /// Run long experiments at their smallest scale
    #[arg(long, conflicts_with = "full")]
    quick: bool,
    /// Run all experiments at the published settings
    #[arg(long)]
    full: bool,
    /// Seed of the random choices; the same seed gives the same figures
    #[arg(long, default_value_t = 1)]
    seed: u64,
    #[command(flatten)]
    force: Force,
    /// Print JSON: the figures of each experiment
    #[arg(long)]
    json: bool,
}

impl Arguments {
    fn scale(&self, experiment: &Experiment) -> f64 {
        match experiment.scaling {
            None => 1.0,
            Some(_) if self.full => 1.0,
            Some(scaling) if self.quick => scaling.least,
            Some(scaling) => scaling.shorter,
        }
    }
}

pub(super) fn run(arguments: &Arguments) -> Result<(), Failure> {
    let Arguments { out, seed, .. } = arguments;
    for experiment in all() {
        arguments.force.check(&out.join(format!("{}.html", experiment.name)), &[])?;
    }
    let index = out.join("index.html");
    arguments.force.check(&index, &[])?;
    std::fs::create_dir_all(out)
        .map_err(|problem| Failure::Failed(format!("creating {}: {problem}", out.display())))?;
    let mut ran = Vec::new();
    for (number, experiment) in (1..).zip(all()) {
        let scale = arguments.scale(experiment);
        if !arguments.json {
            let name = experiment.name;
            print::line(format!("{number:2} of {}: {name}, scale {scale}", all().len()))?;
        }
        let watch = Stopwatch::start();
        let outcome =
            outcome(experiment, *seed, scale, None).map_err(|failure| failure.to_string());
        let seconds = watch.elapsed().as_s();
        ran.push(Ran { experiment, outcome, scale, seed: *seed, seconds });
        // Whoever ends it early has the site of what ran.
        for (name, text) in site::pages(&ran) {
            output::write(&out.join(name), &text)?;
        }
    }
    let printed = match arguments.json {
        true => {
            print::json(&ran.iter().filter_map(|ran| ran.outcome.as_ref().ok()).collect::<Vec<_>>())
        }
        false => summary(&ran, &index),
    };
    let failed: Vec<String> = ran
        .iter()
        .filter_map(|ran| Some(format!("{}: {}", ran.experiment.name, ran.outcome.as_ref().err()?)))
        .collect();
    let all_ran = match failed.is_empty() {
        true => Ok(()),
        false => Err(Failure::Failed(failed.join("\n"))),
    };
    verdict(printed, all_ran)
}

fn summary(ran: &[Ran<'_>], index: &std::path::Path) -> Result<(), Failure> {
    print::line("")?;
    let rows = site::counts(ran)
        .map(|(verdict, count)| vec![verdict.words().to_owned(), count.to_string()]);
    print::table(&[("published figures", false), ("how many", true)], rows.to_vec())?;
    print::line(format!("The site: {}", index.display()))
}
