//! The laboratory: experiments in virtual time beside the published figures, and the demo.

mod experiment;
mod experiments;

pub use experiment::{Experiment, Failure, Outcome, Row};
pub use experiments::{all, find};
