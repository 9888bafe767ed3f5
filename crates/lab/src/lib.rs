//! The laboratory: experiments in virtual time beside the published figures, and the demo.

pub mod demo;
mod experiment;
mod experiments;
mod figures;
pub mod report;
mod setting;

pub use experiment::{Experiment, Failure, Outcome, Row};
pub use experiments::{all, find};
pub use figures::{DemoFigures, DemoRow, LoadRow};
