//! What an experiment is, and the figures that it gives.

use serde::Serialize;

use crate::{Context, Tolerance};

/// An experiment: what it reproduces, and how.
#[derive(Clone, Copy, Debug)]
pub struct Experiment {
    /// Its name on the command line.
    pub name: &'static str,
    /// The published figures: document, section, table.
    pub source: &'static str,
    /// One line that says what is measured.
    pub summary: &'static str,
    /// What was assumed where the source is silent.
    pub assumptions: &'static [&'static str],
    /// The real time of a run at full scale, of a release build on one core, in words.
    pub takes: &'static str,
    /// How the experiment can be made smaller; `None` if it runs in seconds.
    pub scaling: Option<Scaling>,
    /// Runs the experiment in virtual time.
    pub run: fn(context: &Context) -> Result<Vec<Row>, Failure>,
}

/// How an experiment that takes long can be made smaller.
#[derive(Clone, Copy, Debug)]
pub struct Scaling {
    /// The smallest scale at which the experiment measures something.
    pub least: f64,
    /// A scale at which it takes about a minute.
    pub shorter: f64,
    /// What the scale multiplies.
    pub what: &'static str,
}

/// An experiment that could not be carried out.
#[derive(Debug, thiserror::Error)]
pub enum Failure {
    /// The store failed.
    #[error(transparent)]
    Store(#[from] moirai::store::Error),
    /// The tables of a store failed.
    #[error(transparent)]
    Tables(#[from] moirai::tables::Error),
    /// A store failed.
    #[error(transparent)]
    Trees(#[from] moirai::btree::Error),
    /// A device failed.
    #[error(transparent)]
    Device(#[from] moirai::storage::Error),
    /// A drive could not be discovered.
    #[error(transparent)]
    Discovery(#[from] moirai::discovery::Error),
    /// The update engine failed.
    #[error(transparent)]
    Update(#[from] moirai::update::Error),
    /// A statement failed.
    #[error(transparent)]
    Sql(#[from] moirai_sql::Error),
    /// Data could not be generated.
    #[error("cannot generate the data: {0}")]
    Data(#[from] arrow_schema::ArrowError),
    /// A folder or file could not be created.
    #[error("{path}: {source}")]
    File {
        /// The folder or file.
        path: std::path::PathBuf,
        /// What the operating system said.
        source: std::io::Error,
    },
    /// An answer is wrong.
    #[error("{what} on {store} gives another answer than on tables in memory")]
    Differs {
        /// The query, scan or fetch.
        what: String,
        /// Where it ran.
        store: String,
    },
    /// The experiment's own setting is not possible.
    #[error("the experiment's setting is not possible: {0}")]
    Setting(String),
    /// The experiment cannot run at the scale asked for.
    #[error("{0}")]
    Scale(String),
}

/// A figure, ours beside the published one.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Row {
    /// What was measured.
    pub figure: String,
    /// The unit of ours; the published value is in real time where ours is in virtual time.
    pub unit: &'static str,
    /// The published value, if there is one.
    pub published: Option<f64>,
    /// Our value.
    pub ours: f64,
    /// Ours divided by the published value.
    pub ratio: Option<f64>,
    /// What ours must satisfy; `None` if the figure is not judged at any scale.
    pub tolerance: Option<Tolerance>,
    /// Whether ours satisfies the tolerance; `None` if the figure is not judged at this scale.
    pub within: Option<bool>,
    /// Why ours is another one, where that is known.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub because: Option<&'static str>,
}

impl Row {
    /// A figure with no published value, not judged.
    #[must_use]
    pub fn new(figure: impl Into<String>, unit: &'static str, ours: f64) -> Row {
        let (published, ratio, tolerance, within) = (None, None, None, None);
        let because = None;
        Row { figure: figure.into(), unit, published, ours, ratio, tolerance, within, because }
    }

    /// Puts the published value beside ours.
    #[must_use]
    pub fn beside(mut self, published: f64) -> Row {
        self.published = Some(published);
        self.ratio = Some(self.ours / published);
        self
    }

    /// Says why ours is another one than what was published.
    #[must_use]
    pub fn because(mut self, why: &'static str) -> Row {
        self.because = Some(why);
        self
    }

    /// Judges ours by `tolerance`.
    #[must_use]
    pub fn judged(mut self, tolerance: Tolerance) -> Row {
        self.tolerance = Some(tolerance);
        self.within = tolerance.admits(self.ours, self.published);
        self
    }

    /// Judges ours by `tolerance` at full scale. A reduced scale says nothing of such a figure: the row then has the
    /// tolerance and no verdict.
    #[must_use]
    pub fn judged_at_full_scale(mut self, tolerance: Tolerance, context: &Context) -> Row {
        if context.is_full_scale() {
            return self.judged(tolerance);
        }
        self.tolerance = Some(tolerance);
        self
    }

    /// Whether the figure is judged at full scale, but not in this run.
    #[must_use]
    pub fn is_unjudged(&self) -> bool {
        self.tolerance.is_some() && self.within.is_none()
    }
}

/// The figures of one run.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Outcome {
    /// The experiment's name.
    pub experiment: &'static str,
    /// Its source.
    pub source: &'static str,
    /// The seed of its random choices.
    pub seed: u64,
    /// Its scale, 1 at the published setting.
    pub scale: f64,
    /// Its figures.
    pub rows: Vec<Row>,
}

impl Outcome {
    /// The rows that are judged and outside their tolerance.
    pub fn outside(&self) -> impl Iterator<Item = &Row> {
        self.rows.iter().filter(|row| row.within == Some(false))
    }
}

impl Experiment {
    /// Runs the experiment.
    ///
    /// # Errors
    /// [`Failure::Scale`] before anything runs if the experiment has no scale and the context's is not 1, or if the
    /// scale is too small; else whatever fails during the run.
    pub fn outcome(&self, context: &Context) -> Result<Outcome, Failure> {
        self.check_scale(context.scale())?;
        let stage = context.stage();
        stage.at(0.0);
        let rows = (self.run)(context)?;
        stage.at(1.0);
        let (seed, scale) = (context.seed(), context.scale());
        Ok(Outcome { experiment: self.name, source: self.source, seed, scale, rows })
    }

    /// Checks that the experiment can run at `scale`.
    ///
    /// # Errors
    /// [`Failure::Scale`].
    pub fn check_scale(&self, scale: f64) -> Result<(), Failure> {
        let name = self.name;
        let least = match self.scaling {
            // The published setting is everyone's.
            _ if scale.total_cmp(&1.0).is_eq() => return Ok(()),
            None => {
                let problem = format!("experiment {name} runs in seconds and has no --scale");
                return Err(Failure::Scale(problem));
            }
            Some(scaling) => scaling.least,
        };
        if (least..=1.0).contains(&scale) {
            return Ok(());
        }
        Err(Failure::Scale(format!("experiment {name} takes a --scale between {least} and 1")))
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use parking_lot::Mutex;

    use super::*;
    use crate::{all, find};

    /// Judges `ours` by the printed tolerance alone.
    fn admits_as_printed(printed: &str, ours: f64, published: f64) -> bool {
        let number = |text: &str| text.replace(',', "").trim().parse::<f64>().unwrap();
        let is_near = |value: f64, percent: &str| {
            let percent = number(percent.trim_matches(['±', ' ', '%']));
            (ours - value).abs() <= value * percent / 100.0
        };
        match printed.split_once(' ') {
            None => ours == published,
            Some((">=", bound)) => ours >= number(bound),
            Some(("<=", bound)) => ours <= number(bound),
            Some((">", bound)) => ours > number(bound),
            Some(("<", bound)) => ours < number(bound),
            Some((percent, "%")) => is_near(published, percent),
            Some((value, percent)) => is_near(number(value), percent),
        }
    }

    /// Each tolerance, a figure within it and one outside, beside a published value of 10.
    #[test]
    fn rows_are_judged_by_the_tolerance_that_they_print() {
        let cases = [
            (Tolerance::Published(0.2), "±20 %", 11.9, 12.1),
            (Tolerance::Published(0.15), "±15 %", 8.6, 8.4),
            (Tolerance::Exact, "exact", 10.0, 10.5),
            (Tolerance::Near { value: 4000.0, share: 0.05 }, "4,000 ±5 %", 4190.0, 4210.0),
            (Tolerance::AtLeast(2.5), ">= 2.5", 2.5, 2.499),
            (Tolerance::AtMost(1.02), "<= 1.02", 1.02, 1.021),
            (Tolerance::Above(50_000.0), "> 50,000", 50_001.0, 50_000.0),
            (Tolerance::Below(0.5), "< 0.5", 0.499, 0.5),
        ];
        for (tolerance, printed, inside, outside) in cases {
            assert_eq!(tolerance.to_string(), printed);
            for (ours, is_within) in [(inside, true), (outside, false)] {
                let row = Row::new("figure", "ms", ours).beside(10.0).judged(tolerance);
                assert_eq!(row.within, Some(is_within), "{row:?}");
                assert_eq!(admits_as_printed(printed, ours, 10.0), is_within, "{row:?}");
                let json = serde_json::to_value(&row).unwrap();
                assert_eq!(json["tolerance"], printed);
            }
        }
    }

    #[test]
    fn a_tolerance_of_the_published_value_judges_nothing_without_one() {
        let row = Row::new("figure", "ms", 1.0).judged(Tolerance::Published(0.1));
        assert_eq!((row.within, row.is_unjudged()), (None, true));
    }

    #[test]
    fn a_reduced_scale_keeps_the_tolerance_and_withholds_the_verdict() {
        let row = |scale| {
            let context = Context::new(1).scaled(scale);
            Row::new("figure", "ms", 1.0).judged_at_full_scale(Tolerance::AtLeast(2.0), &context)
        };
        assert_eq!((row(1.0).within, row(1.0).is_unjudged()), (Some(false), false));
        assert_eq!((row(0.5).within, row(0.5).is_unjudged()), (None, true));
        assert_eq!(row(0.5).tolerance, Some(Tolerance::AtLeast(2.0)));
    }

    #[test]
    fn scale_is_refused_by_an_experiment_that_has_none() {
        for experiment in all() {
            experiment.check_scale(1.0).unwrap();
            let refused = |scale: f64| experiment.check_scale(scale).unwrap_err().to_string();
            match experiment.scaling {
                None => {
                    let name = experiment.name;
                    let expected = format!("experiment {name} runs in seconds and has no --scale");
                    assert_eq!(refused(0.5), expected);
                    let context = Context::new(1).scaled(0.5);
                    let refused = experiment.outcome(&context).unwrap_err();
                    assert!(matches!(refused, Failure::Scale(_)), "{refused}");
                }
                Some(scaling) => {
                    experiment.check_scale(scaling.least).unwrap();
                    experiment.check_scale(scaling.shorter).unwrap();
                    for scale in [0.0, -1.0, scaling.least / 2.0, 1.5, f64::NAN] {
                        assert!(refused(scale).contains("takes a --scale between"), "{scale}");
                    }
                }
            }
        }
        assert!(all().iter().any(|experiment| experiment.scaling.is_some()));
    }

    /// Checks the progress of a run, and that it was reported at least `count` times.
    fn check_progress(name: &str, scale: f64, count: usize) {
        let shares = Arc::new(Mutex::new(Vec::new()));
        let context = Context::new(1).scaled(scale).reporting({
            let shares = Arc::clone(&shares);
            move |_, share| shares.lock().push(share)
        });
        find(name).unwrap().outcome(&context).unwrap();
        let shares = shares.lock();
        assert_eq!((shares.first(), shares.last()), (Some(&0.0), Some(&1.0)), "{name}");
        assert!(shares.is_sorted(), "{name}: {shares:?}");
        assert!(shares.len() >= count, "{name}: {shares:?}");
        let largest_step = shares.windows(2).map(|pair| pair[1] - pair[0]).fold(0.0, f64::max);
        assert!(largest_step <= 0.5, "{name}: {shares:?}");
    }

    #[test]
    fn progress_never_falls_and_reaches_1() {
        for name in ["raid5-scan", "quadrangle-sizes", "quadrangle-efficiency", "random-access"] {
            check_progress(name, 1.0, 5);
        }
        check_progress("capsule-scan", 1.0, 6);
        check_progress("journal-cost", 1.0, 9);
    }

    #[test]
    fn progress_of_a_scaled_experiment_never_falls_and_reaches_1() {
        check_progress("update-throughput", 0.01, 100);
    }
}
