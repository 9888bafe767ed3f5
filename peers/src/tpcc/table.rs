//! The engines' figures beside each other: a table for each number of terminals.

use std::fmt;

use moirai_workloads::tpcc::KINDS;

use super::{Measured, Name};

/// The runs of each engine.
pub(super) struct Table<'a> {
    terminals: &'a [u64],
    runs: Vec<(Name, Vec<Measured>)>,
}

impl<'a> Table<'a> {
    pub(super) fn new(terminals: &'a [u64]) -> Table<'a> {
        Table { terminals, runs: Vec::new() }
    }

    pub(super) fn add(&mut self, name: Name, measured: Vec<Measured>) {
        match self.runs.iter_mut().find(|(had, _)| *had == name) {
            Some((_, runs)) => runs.extend(measured),
            None => self.runs.push((name, measured)),
        }
    }
}

/// The median of a figure over the runs with a number of terminals.
fn median(runs: &[Measured], terminals: u64, figure: impl Fn(&Measured) -> f64) -> f64 {
    let mut figures: Vec<f64> =
        runs.iter().filter(|run| run.terminals == terminals).map(figure).collect();
    figures.sort_by(f64::total_cmp);
    figures.get(figures.len() / 2).copied().unwrap_or(f64::NAN)
}

impl fmt::Display for Table<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for &terminals in self.terminals {
            let of_peers = self.runs.iter().filter(|(name, _)| !name.is_ours());
            let best = of_peers
                .map(|(_, runs)| median(runs, terminals, |run| run.per_s))
                .fold(f64::NAN, f64::max);
            writeln!(f, "{terminals} terminals; response times in ms: median, 99.9 %")?;
            write!(
                f,
                "{:<12}{:>8}{:>7}{:>8}{:>8}{:>9}{:>9}{:>9}",
                "engine", "tx/s", "ratio", "B/tx", "CPU us", "retries", "RSS MiB", "disk MiB"
            )?;
            KINDS.iter().try_for_each(|kind| write!(f, "{kind:>16}"))?;
            writeln!(f)?;
            for (name, runs) in &self.runs {
                let median = |figure: fn(&Measured) -> f64| median(runs, terminals, figure);
                let per_s = median(|run| run.per_s);
                write!(
                    f,
                    "{:<12}{per_s:>8.0}{:>7.2}{:>8.0}{:>8.0}{:>9.0}{:>9.0}{:>9.0}",
                    name.text(),
                    per_s / best,
                    median(|run| run.written),
                    median(|run| run.cpu_us),
                    median(|run| run.retries as f64),
                    median(|run| run.resident_mib as f64),
                    median(|run| run.disk_mib as f64),
                )?;
                for kind in 0..KINDS.len() {
                    let of_kind = |at: usize| {
                        let figure = |run: &Measured| {
                            run.responses_ms.get(kind).map_or(f64::NAN, |times| times[at])
                        };
                        self::median(runs, terminals, figure)
                    };
                    let times = format!("{:.2} {:.1}", of_kind(0), of_kind(1));
                    write!(f, "{times:>16}")?;
                }
                writeln!(f)?;
            }
            writeln!(f)?;
        }
        Ok(())
    }
}
