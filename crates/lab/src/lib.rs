//! The laboratory: experiments in virtual time beside the published figures, and the demo.

mod context;
pub mod demo;
mod experiment;
mod experiments;
mod figures;
pub mod report;
mod setting;
pub mod site;
mod tolerance;

pub use context::{Context, Report};
pub use experiment::{Experiment, Failure, Outcome, Row, Scaling};
pub use experiments::{all, find, of_traces};
pub use figures::{DemoFigures, DemoRow, LoadRow};
pub use tolerance::Tolerance;
