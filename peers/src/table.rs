//! The engines' figures beside each other.

use std::fmt;

use crate::Name;
use crate::workload::Measured;

/// The runs of each engine.
pub(crate) struct Table(Vec<(Name, Vec<Measured>)>);

impl Table {
    pub(crate) fn new(names: &[Name]) -> Table {
        Table(names.iter().map(|&name| (name, Vec::new())).collect())
    }

    pub(crate) fn add(&mut self, name: Name, measured: Measured) {
        if let Some((_, runs)) = self.0.iter_mut().find(|(had, _)| *had == name) {
            runs.push(measured);
        }
    }
}

fn median(runs: &[Measured], figure: impl Fn(&Measured) -> f64) -> f64 {
    let mut figures: Vec<f64> = runs.iter().map(figure).collect();
    figures.sort_by(f64::total_cmp);
    figures.get(figures.len() / 2).copied().unwrap_or(f64::NAN)
}

impl fmt::Display for Table {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(
            f,
            "{:<14}{:>11}{:>8}{:>9}{:>30}{:>10}{:>10}{:>10}{:>8}{:>8}{:>8}",
            "engine",
            "updates/s",
            "ratio",
            "B/update",
            "group ms: median, 99 %, 99.9 %",
            "reads/s",
            "load/s",
            "CPU s/M",
            "RSS MiB",
            "MiB",
            "cycles"
        )?;
        let best = self
            .0
            .iter()
            .filter(|(name, _)| *name != Name::Moirai)
            .map(|(_, runs)| median(runs, |run| run.updates_per_s))
            .fold(f64::NAN, f64::max);
        for (name, runs) in self.0.iter().filter(|(_, runs)| !runs.is_empty()) {
            let median = |figure: fn(&Measured) -> f64| median(runs, figure);
            let updates = median(|run| run.updates_per_s);
            let waits = format!(
                "{:.2} {:.2} {:.2}",
                median(|run| run.waits_ms[0]),
                median(|run| run.waits_ms[1]),
                median(|run| run.waits_ms[2])
            );
            writeln!(
                f,
                "{:<14}{updates:>11.0}{:>8.2}{:>9.0}{waits:>30}{:>10.0}{:>10.0}{:>10.2}{:>8.0}{:>8.0}{:>8}",
                name.text(),
                updates / best,
                median(|run| run.written),
                median(|run| run.reads_per_s),
                median(|run| run.loaded_per_s),
                median(|run| run.cpu_s),
                median(|run| run.resident_mib as f64),
                median(|run| run.disk_mib as f64),
                match runs.iter().filter_map(|run| run.cycles).next() {
                    Some(_) => format!("{:.1}", median(|run| run.cycles.unwrap_or(f64::NAN))),
                    None => String::new(),
                }
            )?;
        }
        Ok(())
    }
}
