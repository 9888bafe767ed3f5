//! The experiments, one to a file.

mod bosc;
mod capsule_scan;
mod dixtrac;
mod dss_queries;
mod index_requests;
mod journal_cost;
mod mems;
mod one_queue;
mod page_layouts;
mod placement;
mod quadrangles;
mod raid5_scan;
mod segment_writes;
mod ssd_updates;
mod store_bed;
mod tpcc_layouts;
mod track_access;
mod track_extents;
mod track_queries;
mod track_requests;
mod update_logging;
mod update_queries;
mod update_recovery;
mod update_sensitivity;
mod update_throughput;
mod update_variants;
mod video_streams;

use crate::Experiment;

/// All experiments: those of volumes and scans first, then those of BOSC by name.
#[must_use]
pub fn all() -> &'static [Experiment] {
    &[
        raid5_scan::EXPERIMENT,
        track_access::EXPERIMENT,
        segment_writes::EXPERIMENT,
        video_streams::EXPERIMENT,
        quadrangles::EFFICIENCY,
        quadrangles::RANDOM,
        quadrangles::RESPONSE,
        quadrangles::SIZES,
        capsule_scan::EXPERIMENT,
        page_layouts::EXPERIMENT,
        dss_queries::EXPERIMENT,
        tpcc_layouts::EXPERIMENT,
        track_extents::EXPERIMENT,
        track_queries::EXPERIMENT,
        mems::EXPERIMENT,
        ssd_updates::EXPERIMENT,
        dixtrac::TIMES,
        dixtrac::VALIDATION,
        journal_cost::EXPERIMENT,
        placement::IDEAL,
        placement::SWEEP,
        placement::INTERFERENCE,
        placement::SKEW,
        placement::TESTBED,
        update_logging::EXPERIMENT,
        update_queries::EXPERIMENT,
        update_recovery::EXPERIMENT,
        update_sensitivity::EXPERIMENT,
        update_throughput::EXPERIMENT,
        update_variants::EXPERIMENT,
    ]
}

/// The experiment that takes the traces of a user, where there are some.
#[must_use]
pub fn of_traces() -> &'static str {
    placement::SKEW.name
}

/// The experiment called `name`.
#[must_use]
pub fn find(name: &str) -> Option<&'static Experiment> {
    all().iter().find(|experiment| experiment.name == name)
}
