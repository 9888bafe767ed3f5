//! A drive profile as it stands in a TOML file; `docs/profiles.md` describes it to people.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::{ImmediateReport, ReadAhead, SeekFormula, Sparing, TrackOrder};

/// A profile's keys. Times are in milliseconds, sizes in sectors or blocks of 512 bytes.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ProfileFile {
    /// What `sim:` URIs call it.
    pub name: String,
    /// The drive in words.
    pub description: String,
    /// Surfaces, which are the tracks of a cylinder.
    pub heads: u32,
    /// Turns a minute.
    pub rotation_rpm: f64,
    /// Changing to another head of the cylinder.
    pub head_switch_ms: f64,
    /// What settling adds before a write, after a seek or a head switch; may be negative.
    pub write_settle_ms: f64,
    /// Whether reads take sectors in whatever order they come round.
    pub zero_latency_read: bool,
    /// Whether writes do.
    pub zero_latency_write: bool,
    /// The drive's own bus, in million bytes a second; `inf` for one that takes no time.
    pub bus_mb_per_s: f64,
    /// What it takes from the host, where that is not the same.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub write_bus_mb_per_s: Option<f64>,
    /// Whether data cross the bus in block order only.
    pub bus_in_order: bool,
    /// Whether the bus is kept through pauses of a read.
    #[serde(default, skip_serializing_if = "is_default")]
    pub holds_bus: bool,
    /// What part of a read must be in the buffer before its transfer begins, 0 to 1.
    #[serde(default, skip_serializing_if = "is_default")]
    pub read_watermark: f64,
    /// What a diagnostic command takes; 1 ms when not given.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub diagnostic_ms: Option<f64>,
    /// Blocks of the disk, where the zones hold more.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub capacity_blocks: Option<u64>,
    /// Points of the seek curve: distance in cylinders, milliseconds.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub seek_ms: Vec<(u32, f64)>,
    /// In which order tracks are numbered.
    #[serde(default, skip_serializing_if = "is_default")]
    pub track_order: TrackOrder,
    /// Where the spares are.
    #[serde(default, skip_serializing_if = "is_default")]
    pub sparing: Sparing,
    /// A formula in place of `seek_ms`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub seek: Option<SeekFormula>,
    /// Command processing.
    pub overheads: OverheadsFile,
    /// The cache, if the drive has one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cache: Option<CacheFile>,
    /// From the rim inwards.
    pub zones: Vec<ZoneFile>,
    /// Where each of the above comes from.
    pub sources: BTreeMap<String, String>,
}

/// One zone.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ZoneFile {
    /// Its outermost cylinder; behind the zone before when not given.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub first_cylinder: Option<u32>,
    /// How many cylinders.
    pub cylinders: u32,
    /// Sectors on each track.
    pub track_sectors: u32,
    /// Sectors that pass while the next head takes over.
    pub track_skew: u32,
    /// Sectors that pass while the arm moves to the next cylinder.
    pub cylinder_skew: u32,
    /// Where the first track's sector 0 lies, in sectors from the index mark.
    #[serde(default, skip_serializing_if = "is_default")]
    pub origin_sector: u32,
    /// Sectors at the zone's front that hold no blocks.
    #[serde(default, skip_serializing_if = "is_default")]
    pub reserved_sectors: u64,
    /// Spares of each unit of `sparing`: sectors, or tracks for spare tracks.
    #[serde(default, skip_serializing_if = "is_default")]
    pub spares: u64,
    /// Spare cylinders at the end of each group.
    #[serde(default, skip_serializing_if = "is_default")]
    pub spare_cylinders: u32,
    /// Cylinders of such a group; 0 for the whole zone.
    #[serde(default, skip_serializing_if = "is_default")]
    pub spare_group_cylinders: u32,
    /// Bad sectors (tracks, for spare tracks) that are skipped, counted along the zone's tracks.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub slipped: Vec<u64>,
    /// Bad sectors (tracks) and the spares that hold their blocks.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub remapped: Vec<(u64, u64)>,
}

/// Overheads. Each of the eight of thesis 4.2.4 that is not given is `command_ms`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct OverheadsFile {
    /// Decoding any command.
    #[serde(skip_serializing_if = "is_default")]
    pub command_ms: f64,
    /// Until the transfer of a read hit, after a read.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub read_hit_after_read_ms: Option<f64>,
    /// The same after a write.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub read_hit_after_write_ms: Option<f64>,
    /// Until the arm moves for a read, after a read.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub read_miss_after_read_ms: Option<f64>,
    /// The same after a write.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub read_miss_after_write_ms: Option<f64>,
    /// Until a write's data are asked for, after a read.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub write_hit_after_read_ms: Option<f64>,
    /// The same after a write.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub write_hit_after_write_ms: Option<f64>,
    /// Until the arm moves for a write, after a read.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub write_miss_after_read_ms: Option<f64>,
    /// The same after a write.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub write_miss_after_write_ms: Option<f64>,
    /// Between data in the buffer and their transfer, when the drive had left the bus meanwhile.
    #[serde(skip_serializing_if = "is_default")]
    pub reconnect_ms: f64,
    /// Between a read's last byte and its completion.
    #[serde(skip_serializing_if = "is_default")]
    pub read_completion_ms: f64,
    /// Between a write's end and its completion.
    #[serde(skip_serializing_if = "is_default")]
    pub write_completion_ms: f64,
    /// From the decoding of a read miss until the bus is left, after a read.
    #[serde(skip_serializing_if = "is_default")]
    pub read_disconnect_after_read_ms: f64,
    /// The same after a write.
    #[serde(skip_serializing_if = "is_default")]
    pub read_disconnect_after_write_ms: f64,
    /// From the last of a write's data until the bus is left.
    #[serde(skip_serializing_if = "is_default")]
    pub write_disconnect_ms: f64,
    /// Reconnecting for the completion of a write that is on the media.
    #[serde(skip_serializing_if = "is_default")]
    pub write_reconnect_ms: f64,
    /// The least that a write's positioning takes.
    #[serde(skip_serializing_if = "is_default")]
    pub write_positioning_least_ms: f64,
    /// Of a write in another place than the write directly before.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub extra_disconnect: Option<ExtraDisconnectFile>,
}

/// See [`crate::ExtraDisconnect`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ExtraDisconnectFile {
    /// Until the arm moves.
    pub arm_ms: f64,
    /// Until the data are asked for.
    pub data_ms: f64,
    /// From the last of them until the bus is left again.
    #[serde(default, skip_serializing_if = "is_default")]
    pub disconnect_ms: f64,
    /// Reconnecting for the completion.
    #[serde(default, skip_serializing_if = "is_default")]
    pub reconnect_ms: f64,
}

/// The cache; see [`crate::CacheSettings`].
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CacheFile {
    /// Circular buffers that the cache is divided into.
    pub segments: u32,
    /// Blocks of one.
    pub segment_blocks: u64,
    /// Segments are as long as their data.
    #[serde(default, skip_serializing_if = "is_default")]
    pub adaptive: bool,
    /// Segments that may hold data not on the media yet.
    #[serde(default = "one", skip_serializing_if = "is_one")]
    pub write_segments: u32,
    /// One segment is for writes alone.
    #[serde(default, skip_serializing_if = "is_default")]
    pub separate_write_segment: bool,
    /// Blocks of a write that must be there before its first is written; 1 when not given.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub write_start_blocks: Option<u64>,
    /// Where reading on ends.
    pub read_ahead: ReadAhead,
    /// Blocks past a request that reading on may reach; a segment's when not given.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub read_ahead_blocks: Option<u64>,
    /// Reading on goes on after a hit on a segment that was left.
    #[serde(default, skip_serializing_if = "is_default")]
    pub resume_on_hit: bool,
    /// What passes while the head waits for a read is kept.
    #[serde(default, skip_serializing_if = "is_default")]
    pub read_while_waiting: bool,
    /// A read of the block that is just being read ahead counts as a hit.
    #[serde(default, skip_serializing_if = "is_default")]
    pub hit_on_arriving: bool,
    /// What was sent to the host is given up.
    #[serde(default, skip_serializing_if = "is_default")]
    pub discard_sent: bool,
    /// A write makes the drive give up all that was read.
    #[serde(default, skip_serializing_if = "is_default")]
    pub write_drops_reads: bool,
    /// Reads hit on written data.
    #[serde(default, skip_serializing_if = "is_default")]
    pub hit_on_written: bool,
    /// Reading on is stopped within a sector.
    #[serde(default, skip_serializing_if = "is_default")]
    pub stop_within_sector: bool,
    /// Which writes are complete when their data are in the buffer.
    pub immediate_report: ImmediateReport,
    /// A write that goes on where the one before ended joins its segment.
    #[serde(default, skip_serializing_if = "is_default")]
    pub combine_writes: bool,
}

fn one() -> u32 {
    1
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde passes a reference")]
fn is_one(count: &u32) -> bool {
    *count == 1
}

fn is_default<T: Default + PartialEq>(value: &T) -> bool {
    *value == T::default()
}
