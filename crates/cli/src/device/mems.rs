//! What there is to say of a MEMS store.

use std::collections::BTreeMap;

use moirai::units::grouped;
use moirai_models::MemsProfile;
use serde::Serialize;

/// The parameters that matter, and what follows from them.
#[derive(Serialize)]
pub(super) struct ShownMems {
    pub(super) description: String,
    cylinders: u32,
    cylinder_tracks: u32,
    track_rows: u32,
    row_blocks: u32,
    tips: u32,
    active_tips: u32,
    bidirectional: bool,
    row_ms: f64,
    average_seek_ms: f64,
    settle_ms: f64,
    spring_factor: f64,
    command_ms: f64,
    bus_mb_per_s: f64,
    pub(super) sources: BTreeMap<String, String>,
}

impl From<MemsProfile> for ShownMems {
    fn from(profile: MemsProfile) -> ShownMems {
        let (layout, file) = (&profile.layout, &profile.file);
        ShownMems {
            description: file.description.clone(),
            cylinders: layout.cylinders,
            cylinder_tracks: layout.tracks,
            track_rows: layout.rows,
            row_blocks: layout.parallelism,
            tips: file.tips,
            active_tips: file.active_tips,
            bidirectional: file.bidirectional,
            row_ms: profile.pass.as_ms(),
            average_seek_ms: profile.average_seek().as_ms(),
            settle_ms: profile.sled.settle_s * 1e3,
            spring_factor: file.spring_factor,
            command_ms: file.command_ms,
            bus_mb_per_s: file.bus_mb_per_s,
            sources: file.sources.clone(),
        }
    }
}

impl ShownMems {
    pub(super) fn facts(&self) -> Vec<(&'static str, String)> {
        let ShownMems { cylinders, cylinder_tracks, track_rows, row_blocks, .. } = self;
        let directions = if self.bidirectional { "both" } else { "one" };
        vec![
            ("cylinders", grouped(u64::from(*cylinders))),
            ("tracks of a cylinder", cylinder_tracks.to_string()),
            ("rows of a track", format!("{track_rows}, of {row_blocks} blocks")),
            ("active tips", format!("{} of {}", self.active_tips, self.tips)),
            ("access directions", directions.to_owned()),
            ("pass over a row", format!("{:.3} ms", self.row_ms)),
            ("average seek", format!("{:.2} ms", self.average_seek_ms)),
            ("settling in x", format!("{:.3} ms", self.settle_ms)),
            ("springs", format!("{:.0} % of the actuators", self.spring_factor * 100.0)),
            ("command", format!("{:.3} ms", self.command_ms)),
            ("bus", format!("{:.1} MB/s", self.bus_mb_per_s)),
        ]
    }
}
