//! The engines' figures beside each other.

use std::fmt;

use crate::bandwidth::Bandwidth;
use crate::update::Name;
use crate::update::workload::{Measured, Moved};

/// The runs of each engine, and what its disk can do.
pub(crate) struct Table {
    runs: Vec<(Name, Vec<Measured>)>,
    disk: Bandwidth,
}

impl Table {
    pub(crate) fn new(names: &[Name], disk: Bandwidth) -> Table {
        Table { runs: names.iter().map(|&name| (name, Vec::new())).collect(), disk }
    }

    pub(crate) fn add(&mut self, name: Name, measured: Measured) {
        if let Some((_, runs)) = self.runs.iter_mut().find(|(had, _)| *had == name) {
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
            "{:<14}{:>11}{:>8}{:>9}{:>32}{:>10}{:>10}{:>10}{:>10}{:>9}{:>8}{:>8}{:>8}",
            "engine",
            "updates/s",
            "ratio",
            "B/update",
            "group ms: median, 99 %, 99.9 %",
            "reads/s",
            "settled",
            "load/s",
            "CPU s/M",
            "RSS MiB",
            "MiB",
            "rested",
            "cycles"
        )?;
        let best = self
            .runs
            .iter()
            .filter(|(name, _)| *name != Name::Moirai)
            .map(|(_, runs)| median(runs, |run| run.updates_per_s))
            .fold(f64::NAN, f64::max);
        for (name, runs) in self.runs.iter().filter(|(_, runs)| !runs.is_empty()) {
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
                "{:<14}{updates:>11.0}{:>8.2}{:>9.0}{waits:>32}{:>10.0}{:>10.0}{:>10.0}{:>10.2}{:>9.0}{:>8.0}{:>8.0}{:>8}",
                name.text(),
                updates / best,
                median(|run| run.written),
                median(|run| run.reads_per_s[0]),
                median(|run| run.reads_per_s[1]),
                median(|run| run.loaded_per_s),
                median(|run| run.cpu_s),
                median(|run| run.resident_mib as f64),
                median(|run| run.disk_mib[0] as f64),
                median(|run| run.disk_mib[1] as f64),
                match runs.iter().filter_map(|run| run.cycles).next() {
                    Some(_) => format!("{:.1}", median(|run| run.cycles.unwrap_or(f64::NAN))),
                    None => String::new(),
                }
            )?;
        }
        for (name, runs) in &self.runs {
            if let Some(run) = runs.iter().find(|run| run.allocated_mib.is_some()) {
                let median = |at: usize| {
                    median(runs, |run| run.allocated_mib.map_or(f64::NAN, |mib| mib[at] as f64))
                };
                let (most, rested, live) = (median(0), median(1), run.live_mib as f64);
                writeln!(
                    f,
                    "{}: without its log it had {most:.0} MiB allocated at most while updates ran, {:.2} times the {live} MiB \
                     of records; {rested:.0} MiB after the rest, {:.2} times",
                    name.text(),
                    most / live,
                    rested / live,
                )?;
            }
            let median = |figure: fn(Moved) -> f64, of: f64| {
                let share = |run: &Measured| run.moved.map_or(f64::NAN, figure) / of * 100.0;
                median(runs, share)
            };
            if runs.iter().any(|run| run.moved.is_some()) {
                writeln!(
                    f,
                    "{}: log {:.0} %, staging {:.0} % and blocks {:.0} % of what the disk writes in a row ({:.0} MB/s); \
                     sweeps read {:.0} % of what it reads ({:.0} MB/s)",
                    name.text(),
                    median(|moved| moved.logged, self.disk.written_per_s),
                    median(|moved| moved.staged, self.disk.written_per_s),
                    median(|moved| moved.placed, self.disk.written_per_s),
                    self.disk.written_per_s / 1e6,
                    median(|moved| moved.swept, self.disk.read_per_s),
                    self.disk.read_per_s / 1e6,
                )?;
            }
        }
        Ok(())
    }
}
