//! Drive profiles: what a disk is made of, checked and worked out from a [`ProfileFile`].

mod built_in;
mod check;
mod file;

use moirai_units::{BLOCK_BYTES, BlockCount, Nanos};

pub use built_in::built_in_names;
pub use file::{CacheFile, ExtraDisconnectFile, OverheadsFile, ProfileFile, ZoneFile};

use crate::{
    After, CacheSettings, Defects, Electronics, ExtraDisconnect, Geometry, Mechanics, Overheads,
    SeekCurve, Zone,
};

/// The parameters of a simulated disk.
#[derive(Clone, Debug)]
pub struct Profile {
    /// What the profile was made from, with the source of each number.
    pub file: ProfileFile,
    /// Zones and blocks.
    pub geometry: Geometry,
    /// Moving parts.
    pub mechanics: Mechanics,
    /// Overheads, bus and cache.
    pub electronics: Electronics,
}

/// A profile that is not valid. The message names the key.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ProfileError {
    /// The text is not TOML, or has unknown or missing keys; the message has the line.
    #[error("{0}")]
    Syntax(String),
    /// A value is out of range, or contradicts another value.
    #[error("key `{key}`: {problem}")]
    Value {
        /// The key.
        key: String,
        /// The problem.
        problem: String,
    },
}

/// The longest seek that a profile may have: longer ones are mistakes.
pub(crate) const SEEK_MS_MAX: f64 = 10_000.0;
/// What a diagnostic command takes when the profile does not say; those of thesis table 4.2 took 0.86 to 7.32 ms.
const DIAGNOSTIC_MS: f64 = 1.0;
/// The most cylinders.
pub(crate) const CYLINDERS_MAX: u64 = 10_000_000;
/// The most sectors of a track.
pub(crate) const TRACK_SECTORS_MAX: u32 = 1_000_000;
/// The fastest platters.
pub(crate) const RPM_MAX: f64 = 100_000.0;
/// The most segments of a cache.
pub(crate) const SEGMENTS_MAX: u64 = 65_536;

impl Profile {
    /// The built-in profile `name`.
    #[must_use]
    #[expect(clippy::expect_used, reason = "a test reads every built-in profile")]
    pub fn built_in(name: &str) -> Option<Profile> {
        built_in::text(name).map(|text| Profile::parse(text).expect("a valid built-in profile"))
    }

    /// Reads a profile.
    pub fn parse(text: &str) -> Result<Profile, ProfileError> {
        let file: ProfileFile =
            toml::from_str(text).map_err(|error| ProfileError::Syntax(error.to_string()))?;
        Profile::new(file)
    }

    /// Checks a profile and works it out.
    pub fn new(file: ProfileFile) -> Result<Profile, ProfileError> {
        check::check(&file)?;
        let zones = zones(&file);
        let capacity = file.capacity_blocks.map(BlockCount);
        let geometry = Geometry::new(file.heads, file.track_order, file.sparing, zones, capacity)
            .map_err(|error| bad(format!("zones[{}]", error.zone), error.problem))?;
        let points = file.seek_ms.iter().map(|(distance, ms)| (*distance, Nanos::from_ms(*ms)));
        let seek = match &file.seek {
            Some(formula) => formula.curve(geometry.cylinders()),
            None => SeekCurve::new(points.collect())
                .ok_or_else(|| bad("seek_ms", "distances must begin with 1 and increase"))?,
        };
        // The points first: what follows from them is then within what can be computed.
        let longest = seek.points().map(|(_, time)| time).max().unwrap_or_default();
        let too_long = |time: Nanos| time > Nanos::from_ms(SEEK_MS_MAX);
        if too_long(longest) || too_long(seek.time(geometry.cylinders())) {
            let problem = format!("the longest seek takes more than {SEEK_MS_MAX} ms");
            return Err(bad("seek", problem));
        }
        let mechanics = Mechanics {
            revolution_ps: Mechanics::revolution_ps(file.rotation_rpm),
            head_switch: Nanos::from_ms(file.head_switch_ms),
            write_settle_ns: (file.write_settle_ms * 1e6).round() as i64,
            seek,
            zero_latency_read: file.zero_latency_read,
            zero_latency_write: file.zero_latency_write,
        };
        let bus_sector =
            |mb_per_s: f64| Nanos((BLOCK_BYTES as f64 * 1e3 / mb_per_s).round() as u64);
        let electronics = Electronics {
            overheads: overheads(&file.overheads),
            bus_sector: bus_sector(file.bus_mb_per_s),
            write_bus_sector: bus_sector(file.write_bus_mb_per_s.unwrap_or(file.bus_mb_per_s)),
            bus_in_order: file.bus_in_order,
            holds_bus: file.holds_bus,
            read_watermark: file.read_watermark,
            diagnostic: Nanos::from_ms(file.diagnostic_ms.unwrap_or(DIAGNOSTIC_MS)),
            cache: file.cache.as_ref().map(cache_settings),
        };
        Ok(Profile { file, geometry, mechanics, electronics })
    }
}

fn zones(file: &ProfileFile) -> Vec<Zone> {
    let mut next_cylinder = 0;
    let zone = |row: &ZoneFile| {
        let first_cylinder = row.first_cylinder.unwrap_or(next_cylinder);
        next_cylinder = first_cylinder + row.cylinders;
        Zone {
            first_cylinder,
            cylinders: row.cylinders,
            track_sectors: row.track_sectors,
            track_skew: row.track_skew,
            cylinder_skew: row.cylinder_skew,
            origin_sector: row.origin_sector,
            reserved_sectors: row.reserved_sectors,
            spares: row.spares,
            spare_cylinders: row.spare_cylinders,
            spare_group_cylinders: row.spare_group_cylinders,
            defects: Defects { slipped: row.slipped.clone(), remapped: row.remapped.clone() },
        }
    };
    file.zones.iter().map(zone).collect()
}

fn overheads(file: &OverheadsFile) -> Overheads {
    let after = |read: Option<f64>, write: Option<f64>| {
        let time = |ms: Option<f64>| Nanos::from_ms(ms.unwrap_or(file.command_ms));
        After { read: time(read), write: time(write) }
    };
    Overheads {
        read_hit: after(file.read_hit_after_read_ms, file.read_hit_after_write_ms),
        read_miss: after(file.read_miss_after_read_ms, file.read_miss_after_write_ms),
        write_hit: after(file.write_hit_after_read_ms, file.write_hit_after_write_ms),
        write_miss: after(file.write_miss_after_read_ms, file.write_miss_after_write_ms),
        reconnect: Nanos::from_ms(file.reconnect_ms),
        read_completion: Nanos::from_ms(file.read_completion_ms),
        write_completion: Nanos::from_ms(file.write_completion_ms),
        read_disconnect: After {
            read: Nanos::from_ms(file.read_disconnect_after_read_ms),
            write: Nanos::from_ms(file.read_disconnect_after_write_ms),
        },
        write_disconnect: Nanos::from_ms(file.write_disconnect_ms),
        write_reconnect: Nanos::from_ms(file.write_reconnect_ms),
        write_positioning_least: Nanos::from_ms(file.write_positioning_least_ms),
        extra_disconnect: file.extra_disconnect.map(|extra| ExtraDisconnect {
            arm: Nanos::from_ms(extra.arm_ms),
            data: Nanos::from_ms(extra.data_ms),
            disconnect: Nanos::from_ms(extra.disconnect_ms),
            reconnect: Nanos::from_ms(extra.reconnect_ms),
        }),
    }
}

fn cache_settings(file: &CacheFile) -> CacheSettings {
    let segment_blocks = BlockCount(file.segment_blocks);
    CacheSettings {
        segments: file.segments,
        segment_blocks,
        adaptive: file.adaptive,
        separate_write_segment: file.separate_write_segment,
        write_start_blocks: BlockCount(file.write_start_blocks.unwrap_or(1)),
        write_segments: file.write_segments,
        read_ahead: file.read_ahead,
        read_ahead_blocks: file.read_ahead_blocks.map_or(segment_blocks, BlockCount),
        resume_on_hit: file.resume_on_hit,
        read_while_waiting: file.read_while_waiting,
        hit_on_arriving: file.hit_on_arriving,
        discard_sent: file.discard_sent,
        write_drops_reads: file.write_drops_reads,
        hit_on_written: file.hit_on_written,
        stop_within_sector: file.stop_within_sector,
        immediate_report: file.immediate_report,
        combine_writes: file.combine_writes,
    }
}

pub(crate) fn bad(key: impl Into<String>, problem: impl Into<String>) -> ProfileError {
    ProfileError::Value { key: key.into(), problem: problem.into() }
}

pub(crate) fn within(key: &str, value: f64, low: f64, high: f64) -> Result<(), ProfileError> {
    match (low..=high).contains(&value) {
        true => Ok(()),
        false => Err(bad(key, format!("{value} is not between {low} and {high}"))),
    }
}

/// The `kind` that a profile's text gives; that of a disk gives none.
#[must_use]
pub fn kind_of(text: &str) -> Option<String> {
    let table: toml::Table = toml::from_str(text).ok()?;
    table.get("kind")?.as_str().map(str::to_owned)
}

#[cfg(test)]
mod tests;
