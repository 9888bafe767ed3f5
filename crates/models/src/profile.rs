//! Drive profiles: what a disk is made of, read from TOML, each number with its source.

use std::collections::BTreeMap;

use moirai_units::{BLOCK_BYTES, BlockCount, Nanos};
use serde::Deserialize;

use crate::{Geometry, Mechanics, SeekCurve, Zone};

/// The parameters of a simulated disk.
#[derive(Clone, Debug)]
pub struct Profile {
    /// What `sim:` URIs call it.
    pub name: String,
    /// The drive in words.
    pub description: String,
    /// Where each parameter comes from: "published: ...", "extracted: ..." or "interpolated: ...".
    pub sources: BTreeMap<String, String>,
    /// Zones and blocks.
    pub geometry: Geometry,
    /// Moving parts.
    pub mechanics: Mechanics,
    /// Time to decode a command.
    pub command_overhead: Nanos,
    /// Time for one sector to cross the bus.
    pub bus_sector: Nanos,
    /// Whether the bus sends data in block order only.
    pub bus_in_order: bool,
}

/// A profile that is not valid. The message names the key.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ProfileError {
    /// No TOML, or not of this shape; the message has the line.
    #[error("{0}")]
    Syntax(String),
    /// A value that makes no sense.
    #[error("key `{key}`: {problem}")]
    Value {
        /// The key.
        key: String,
        /// What is wrong with it.
        problem: String,
    },
}

const BUILT_IN: [(&str, &str); 3] = [
    ("maxtor-atlas-10k-iii", include_str!("../profiles/maxtor-atlas-10k-iii.toml")),
    ("quantum-atlas-10k", include_str!("../profiles/quantum-atlas-10k.toml")),
    ("seagate-cheetah-36es", include_str!("../profiles/seagate-cheetah-36es.toml")),
];

/// The names of the built-in profiles, sorted.
pub fn built_in_names() -> impl Iterator<Item = &'static str> {
    BUILT_IN.iter().map(|(name, _)| *name)
}

/// A profile as it stands in a file.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    name: String,
    description: String,
    heads: u32,
    rotation_rpm: f64,
    head_switch_ms: f64,
    write_settle_ms: f64,
    zero_latency: bool,
    command_overhead_ms: f64,
    bus_mb_per_s: f64,
    bus_in_order: bool,
    capacity_blocks: Option<u64>,
    /// (distance in cylinders, milliseconds)
    seek_ms: Vec<(u32, f64)>,
    zones: Vec<ZoneRow>,
    sources: BTreeMap<String, String>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct ZoneRow {
    cylinders: u32,
    track_sectors: u32,
    track_skew: u32,
    cylinder_skew: u32,
    #[serde(default)]
    spare_sectors: u32,
}

/// The keys that must have a source.
const SOURCED: [&str; 10] = [
    "heads",
    "rotation_rpm",
    "head_switch_ms",
    "write_settle_ms",
    "zero_latency",
    "command_overhead_ms",
    "bus_mb_per_s",
    "bus_in_order",
    "seek_ms",
    "zones",
];

impl Profile {
    /// The built-in profile `name`.
    #[must_use]
    #[expect(clippy::expect_used, reason = "a test reads every built-in profile")]
    pub fn built_in(name: &str) -> Option<Profile> {
        let (_, text) = BUILT_IN.iter().find(|(known, _)| *known == name)?;
        Some(Profile::parse(text).expect("a valid built-in profile"))
    }

    /// Reads a profile.
    pub fn parse(text: &str) -> Result<Profile, ProfileError> {
        let file: File =
            toml::from_str(text).map_err(|error| ProfileError::Syntax(error.to_string()))?;
        check(&file)?;
        let points = file.seek_ms.iter().map(|(distance, ms)| (*distance, Nanos::from_ms(*ms)));
        let seek = SeekCurve::new(points.collect())
            .ok_or_else(|| bad("seek_ms", "distances must begin with 1 and increase"))?;
        let mut first_cylinder = 0;
        let mut zones = Vec::with_capacity(file.zones.len());
        for row in &file.zones {
            zones.push(Zone {
                first_cylinder,
                cylinders: row.cylinders,
                track_sectors: row.track_sectors,
                track_skew: row.track_skew,
                cylinder_skew: row.cylinder_skew,
                spare_sectors: row.spare_sectors,
            });
            first_cylinder += row.cylinders;
        }
        Ok(Profile {
            geometry: Geometry::new(file.heads, zones, file.capacity_blocks.map(BlockCount)),
            mechanics: Mechanics {
                revolution_ps: Mechanics::revolution_ps(file.rotation_rpm),
                head_switch: Nanos::from_ms(file.head_switch_ms),
                write_settle: Nanos::from_ms(file.write_settle_ms),
                seek,
                zero_latency: file.zero_latency,
            },
            command_overhead: Nanos::from_ms(file.command_overhead_ms),
            bus_sector: Nanos((BLOCK_BYTES as f64 * 1e3 / file.bus_mb_per_s).round() as u64),
            bus_in_order: file.bus_in_order,
            name: file.name,
            description: file.description,
            sources: file.sources,
        })
    }
}

fn bad(key: impl Into<String>, problem: impl Into<String>) -> ProfileError {
    ProfileError::Value { key: key.into(), problem: problem.into() }
}

fn check(file: &File) -> Result<(), ProfileError> {
    let within = |key: &str, value: f64, low: f64, high: f64| {
        if (low..=high).contains(&value) {
            return Ok(());
        }
        Err(bad(key, format!("{value} is not between {low} and {high}")))
    };
    within("heads", f64::from(file.heads), 1.0, 256.0)?;
    within("rotation_rpm", file.rotation_rpm, 60.0, 100_000.0)?;
    within("head_switch_ms", file.head_switch_ms, 0.0, 1000.0)?;
    within("write_settle_ms", file.write_settle_ms, 0.0, 1000.0)?;
    within("command_overhead_ms", file.command_overhead_ms, 0.0, 1000.0)?;
    within("bus_mb_per_s", file.bus_mb_per_s, 0.001, 1e6)?;
    for (distance, ms) in &file.seek_ms {
        within(&format!("seek_ms, distance {distance}"), *ms, 0.0, 10_000.0)?;
    }
    if file.zones.is_empty() {
        return Err(bad("zones", "a disk has at least one"));
    }
    for (index, row) in file.zones.iter().enumerate() {
        let key = |name: &str| format!("zones[{index}].{name}");
        within(&key("cylinders"), f64::from(row.cylinders), 1.0, 10_000_000.0)?;
        within(&key("track_sectors"), f64::from(row.track_sectors), 1.0, 1_000_000.0)?;
        let track = f64::from(row.track_sectors);
        within(&key("track_skew"), f64::from(row.track_skew), 0.0, track)?;
        within(&key("cylinder_skew"), f64::from(row.cylinder_skew), 0.0, track)?;
        // A zone whose last track is all spares would have tracks without blocks.
        within(&key("spare_sectors"), f64::from(row.spare_sectors), 0.0, track - 1.0)?;
    }
    let cylinders: u64 = file.zones.iter().map(|row| u64::from(row.cylinders)).sum();
    within("zones, all cylinders", cylinders as f64, 1.0, 10_000_000.0)?;
    for key in SOURCED {
        let source = file.sources.get(key).ok_or_else(|| {
            bad(format!("sources.{key}"), "missing: say where the value comes from")
        })?;
        let kinds = ["published: ", "extracted: ", "interpolated: "];
        if !kinds.iter().any(|kind| source.starts_with(kind)) {
            let problem = "begins with `published: `, `extracted: ` or `interpolated: `";
            return Err(bad(format!("sources.{key}"), problem));
        }
    }
    let known = |key: &String| SOURCED.contains(&key.as_str()) || key == "capacity_blocks";
    if let Some(key) = file.sources.keys().find(|key| !known(key)) {
        return Err(bad(format!("sources.{key}"), "there is no such parameter"));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn built_in_profiles_are_valid_and_named_after_themselves() {
        for name in built_in_names() {
            assert_eq!(Profile::built_in(name).unwrap().name, name);
        }
        assert!(Profile::built_in("quantum-fireball").is_none());
    }

    /// Thesis table 3.1: name, tracks, sectors per track, capacity in GB, average seek in ms.
    #[test]
    fn built_in_profiles_agree_with_table_3_1() {
        let check = |name, tracks, outer, inner, gb: f64, average_seek_ms: f64| {
            let profile = Profile::built_in(name).unwrap();
            let geometry = &profile.geometry;
            let zones = geometry.zones();
            assert_eq!(geometry.cylinders() * geometry.heads(), tracks, "{name} tracks");
            assert_eq!(zones[0].track_sectors, outer, "{name} outer zone");
            assert_eq!(zones[zones.len() - 1].track_sectors, inner, "{name} inner zone");
            let bytes = geometry.capacity().bytes().0 as f64;
            assert!((bytes / 1e9 / gb - 1.0).abs() < 0.03, "{name} capacity {bytes}");
            // The table's average seek is the one over a third of the cylinders.
            let third = profile.mechanics.seek.time(geometry.cylinders() / 3).as_ms();
            assert!((third / average_seek_ms - 1.0).abs() < 0.02, "{name} seek {third}");
        };
        check("seagate-cheetah-36es", 105_208, 738, 574, 36.0, 5.2);
        check("maxtor-atlas-10k-iii", 124_088, 686, 396, 36.0, 4.5);
    }

    /// A write that goes on to the next track is there in time: the skew covers seek and settle.
    #[test]
    fn the_skew_of_built_in_profiles_covers_a_switch_and_a_seek() {
        for name in built_in_names() {
            let Profile { geometry, mechanics, .. } = Profile::built_in(name).unwrap();
            for zone in geometry.zones() {
                let time_of =
                    |skew| Nanos(mechanics.sector_angle_ps(skew, zone.track_sectors) / 1000);
                let switch = mechanics.head_switch + mechanics.write_settle;
                let seek = mechanics.seek.time(1) + mechanics.write_settle;
                assert!(switch <= time_of(zone.track_skew), "{name}: {zone:?}");
                assert!(seek <= time_of(zone.cylinder_skew), "{name}: {zone:?}");
            }
        }
    }

    /// The extracted profile agrees with the drive it was extracted from, whose innermost zone has
    /// 229 sectors where the table says 224, and whose own capacity is known to the block.
    #[test]
    fn the_atlas_10k_is_as_extracted() {
        let profile = Profile::built_in("quantum-atlas-10k").unwrap();
        assert_eq!(profile.geometry.capacity(), BlockCount(17_938_986));
        assert_eq!(profile.geometry.cylinders() * profile.geometry.heads(), 60_252);
        assert_eq!(profile.geometry.zones().len(), 24);
        assert_eq!(profile.mechanics.seek.time(1), Nanos::from_ms(1.245));
        assert!(profile.mechanics.zero_latency);
    }

    #[test]
    fn bad_profiles_name_the_key() {
        let good = BUILT_IN[0].1;
        let check = |from: &str, to: &str, expected: &str| {
            assert!(good.contains(from), "{from}");
            let error = Profile::parse(&good.replacen(from, to, 1)).unwrap_err().to_string();
            assert!(error.contains(expected), "{error}");
        };
        check("heads = 4", "heads = 0", "`heads`: 0 is not between");
        check("heads = 4", "heads = 4\nfins = 1", "unknown field `fins`");
        check("heads = 4", "", "missing field `heads`");
        check("[1, ", "[2, ", "`seek_ms`: distances must begin with 1");
        check("published: ", "guessed: ", "begins with `published: `");
        check("track_skew = 139", "track_skew = 9999", "`zones[0].track_skew`: 9999");
    }
}
