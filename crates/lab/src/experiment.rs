//! What an experiment is, and what comes out of it.

use serde::Serialize;

/// An experiment: what it reproduces, and how.
#[derive(Clone, Copy, Debug)]
pub struct Experiment {
    /// What the command line calls it.
    pub name: &'static str,
    /// The published figures: document, section, table.
    pub source: &'static str,
    /// One line that says what is measured.
    pub summary: &'static str,
    /// What was assumed where the source is silent.
    pub assumptions: &'static [&'static str],
    /// Runs it in virtual time.
    pub run: fn(seed: u64) -> Result<Vec<Row>, Failure>,
}

/// An experiment that could not be carried out.
#[derive(Debug, thiserror::Error)]
pub enum Failure {
    /// The store failed.
    #[error(transparent)]
    Store(#[from] moirai::store::Error),
    /// A device failed.
    #[error(transparent)]
    Device(#[from] moirai::storage::Error),
    /// The update engine failed.
    #[error(transparent)]
    Update(#[from] moirai::update::Error),
    /// A statement failed.
    #[error(transparent)]
    Sql(#[from] moirai_sql::Error),
    /// Data could not be made.
    #[error("making the data failed: {0}")]
    Data(#[from] arrow_schema::ArrowError),
    /// A folder or file could not be made.
    #[error("{path}: {source}")]
    File {
        /// Which.
        path: std::path::PathBuf,
        /// What the operating system said.
        source: std::io::Error,
    },
    /// An answer is not what it must be.
    #[error("{what} on {store} gives another answer than over tables in memory")]
    Differs {
        /// The query, scan or fetch.
        what: String,
        /// Where it ran.
        store: String,
    },
    /// The experiment's own setting is not possible.
    #[error("the experiment's setting is not possible: {0}")]
    Setting(String),
}

/// A figure, ours beside the published one.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Row {
    /// What was measured.
    pub figure: String,
    /// In what.
    pub unit: &'static str,
    /// The published value, where there is one.
    pub published: Option<f64>,
    /// Our value.
    pub ours: f64,
    /// Ours over the published one.
    pub ratio: Option<f64>,
    /// Whether ours is as near to the published one as the experiment asks; of figures that count.
    pub within: Option<bool>,
}

impl Row {
    /// A figure that stands for itself.
    #[must_use]
    pub fn new(figure: impl Into<String>, unit: &'static str, ours: f64) -> Row {
        Row { figure: figure.into(), unit, published: None, ours, ratio: None, within: None }
    }

    /// Puts the published value beside it.
    #[must_use]
    pub fn beside(mut self, published: f64) -> Row {
        self.published = Some(published);
        self.ratio = Some(self.ours / published);
        self
    }

    /// Asks that ours differ from the published value by at most `tolerance` of it.
    #[must_use]
    pub fn within(mut self, tolerance: f64) -> Row {
        self.within = self.ratio.map(|ratio| (ratio - 1.0).abs() <= tolerance);
        self
    }
}

/// The figures of one run.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Outcome {
    /// The experiment's name.
    pub experiment: &'static str,
    /// Its source.
    pub source: &'static str,
    /// Where its random choices began.
    pub seed: u64,
    /// Its figures.
    pub rows: Vec<Row>,
}

impl Experiment {
    /// Runs the experiment.
    pub fn outcome(&self, seed: u64) -> Result<Outcome, Failure> {
        Ok(Outcome { experiment: self.name, source: self.source, seed, rows: (self.run)(seed)? })
    }
}
