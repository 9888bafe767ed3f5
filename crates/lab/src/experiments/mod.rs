//! The experiments, one to a file.

mod capsule_scan;

use crate::Experiment;

/// All experiments, in the order of their sources.
#[must_use]
pub fn all() -> &'static [Experiment] {
    &[capsule_scan::EXPERIMENT]
}

/// The experiment called `name`.
#[must_use]
pub fn find(name: &str) -> Option<&'static Experiment> {
    all().iter().find(|experiment| experiment.name == name)
}
