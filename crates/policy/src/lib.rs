//! Placement: which arrays, which RAID level, which stripe unit, and which objects where (placement
//! paper).
//!
//! A [`Workload`] says how each object is accessed, a [`Policy`] what the objects must survive and
//! which disks there are, a [`Plan`] where the objects lie. [`judge`] simulates a plan, [`estimate`]
//! approximates its response times by queueing theory, and [`search`] looks for the best plan.

pub mod apply;
mod characterise;
pub mod choose;
mod error;
pub mod estimate;
mod file;
mod generate;
mod judge;
mod moments;
mod plan;
mod policy;
mod run;
pub mod search;
mod spread;
mod system;
mod windows;
mod workload;

pub use characterise::{Characterised, Characteriser, Overlap};
pub use error::Error;
pub use generate::{Generator, Source, TraceSource, TracedRequest};
pub use judge::{
    DiskFigures, Judge, Judgement, ObjectFigures, RebuildFigures, Scenario, goal_text, scenarios,
};
pub use plan::{Placement, Plan, PlannedArray};
pub use policy::{Arrays, Disks, Goal, Object, Policy};
pub use run::Run;
pub use system::{ObjectOnArrays, Response, System, SystemDescription};
pub use workload::{Arrivals, Hot, SizeDistribution, Stream, Workload};
