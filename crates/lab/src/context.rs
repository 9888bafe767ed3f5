//! What an experiment runs with: a seed, a scale, and a report of its progress.

use std::path::Path;
use std::sync::Arc;

/// Takes what an experiment simulates now, and the share of the experiment that is done, from 0 to 1.
pub type Report = Arc<dyn Fn(&str, f64) + Send + Sync>;

/// What an experiment runs with.
#[derive(Clone)]
pub struct Context {
    seed: u64,
    scale: f64,
    traces: Option<Arc<Path>>,
    report: Report,
}

impl Context {
    /// Full scale, and nobody to report to; the same seed gives the same figures.
    #[must_use]
    pub fn new(seed: u64) -> Context {
        Context { seed, scale: 1.0, traces: None, report: Arc::new(|_, _| ()) }
    }

    /// Scales the sizes or durations of the experiment; 1 is the published setting.
    #[must_use]
    pub fn scaled(self, scale: f64) -> Context {
        Context { scale, ..self }
    }

    /// Takes the published traces, where an experiment has some, from a folder.
    #[must_use]
    pub fn with_traces(self, folder: &Path) -> Context {
        Context { traces: Some(folder.into()), ..self }
    }

    /// Calls `report` as the experiment advances. The shares start at 0, never fall, and end at 1.
    #[must_use]
    pub fn reporting(self, report: impl Fn(&str, f64) + Send + Sync + 'static) -> Context {
        Context { report: Arc::new(report), ..self }
    }

    /// The seed of all random choices.
    #[must_use]
    pub fn seed(&self) -> u64 {
        self.seed
    }

    /// The folder of the published traces.
    #[must_use]
    pub fn traces(&self) -> Option<&Path> {
        self.traces.as_deref()
    }

    /// The scale, 1 at the published setting.
    #[must_use]
    pub fn scale(&self) -> f64 {
        self.scale
    }

    /// Whether the sizes and durations are those of the published setting.
    #[must_use]
    pub fn is_full_scale(&self) -> bool {
        self.scale >= 1.0
    }

    /// The whole experiment as a stage.
    pub(crate) fn stage(&self) -> Stage {
        Stage { report: Arc::clone(&self.report), what: "".into(), from: 0.0, to: 1.0 }
    }
}

/// A stage of an experiment, which reports its progress as a range of the whole.
#[derive(Clone)]
pub(crate) struct Stage {
    report: Report,
    what: Arc<str>,
    from: f64,
    to: f64,
}

impl Stage {
    /// Names what the stage simulates, and reports that the stage begins.
    pub(crate) fn called(&self, what: &str) -> Stage {
        let stage = Stage { what: what.into(), ..self.clone() };
        stage.at(0.0);
        stage
    }

    /// Reports the share of the stage that is done, from 0 to 1.
    pub(crate) fn at(&self, share: f64) {
        let share = if share.is_nan() { 0.0 } else { share.clamp(0.0, 1.0) };
        (self.report)(&self.what, self.from + (self.to - self.from) * share);
    }

    /// Divides the stage into stages that follow each other, as long as `weights` say.
    pub(crate) fn split<const N: usize>(&self, weights: [f64; N]) -> [Stage; N] {
        let sum: f64 = weights.iter().sum();
        let mut before = 0.0;
        weights.map(|weight| {
            let from = self.from + (self.to - self.from) * before / sum;
            before += weight;
            let to = self.from + (self.to - self.from) * before / sum;
            Stage { from, to, ..self.clone() }
        })
    }

    /// Part `index` of `count` equally long stages.
    pub(crate) fn part(&self, index: usize, count: usize) -> Stage {
        let at = |index: usize| self.from + (self.to - self.from) * index as f64 / count as f64;
        Stage { from: at(index), to: at(index + 1), ..self.clone() }
    }
}

#[cfg(test)]
mod tests {
    use parking_lot::Mutex;

    use super::*;

    #[test]
    fn stages_report_their_range_of_the_whole() {
        let reports = Arc::new(Mutex::new(Vec::new()));
        let context = Context::new(1).reporting({
            let reports = Arc::clone(&reports);
            move |what, share| reports.lock().push((what.to_owned(), share))
        });
        let [load, run] = context.stage().split([1.0, 3.0]);
        load.called("load").at(1.0);
        let half = run.part(1, 2).called("run");
        half.at(0.5);
        half.at(7.0);
        let shares = [("load", 0.0), ("load", 0.25), ("run", 0.625), ("run", 0.8125), ("run", 1.0)];
        assert_eq!(*reports.lock(), shares.map(|(what, share)| (what.to_owned(), share)));
    }
}
