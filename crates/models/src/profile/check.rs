//! Checks of a profile: every inconsistency is named with its key.

use super::{
    CYLINDERS_MAX, ProfileError, ProfileFile, RPM_MAX, SEEK_MS_MAX, SEGMENTS_MAX,
    TRACK_SECTORS_MAX, ZoneFile, bad, within,
};
use crate::{SeekFormula, Sparing, TrackOrder};

/// The keys that must have a source, and those that may.
const SOURCED: [&str; 10] = [
    "heads",
    "rotation_rpm",
    "head_switch_ms",
    "write_settle_ms",
    "zero_latency_read",
    "zero_latency_write",
    "bus_mb_per_s",
    "bus_in_order",
    "overheads",
    "zones",
];
const MAY_BE_SOURCED: [&str; 9] = [
    "write_bus_mb_per_s",
    "holds_bus",
    "capacity_blocks",
    "seek_ms",
    "seek",
    "track_order",
    "sparing",
    "read_watermark",
    "cache",
];
const SOURCE_KINDS: [&str; 3] = ["published: ", "extracted: ", "interpolated: "];

pub(super) fn check(file: &ProfileFile) -> Result<(), ProfileError> {
    within("heads", f64::from(file.heads), 1.0, 256.0)?;
    within("rotation_rpm", file.rotation_rpm, 60.0, RPM_MAX)?;
    within("head_switch_ms", file.head_switch_ms, 0.0, 1000.0)?;
    within("write_settle_ms", file.write_settle_ms, -1000.0, 1000.0)?;
    within("bus_mb_per_s", file.bus_mb_per_s, 0.001, f64::INFINITY)?;
    let write_bus = file.write_bus_mb_per_s.unwrap_or(file.bus_mb_per_s);
    within("write_bus_mb_per_s", write_bus, 0.001, f64::INFINITY)?;
    within("read_watermark", file.read_watermark, 0.0, 1.0)?;
    within("diagnostic_ms", file.diagnostic_ms.unwrap_or(0.0), 0.0, 1000.0)?;
    if file.capacity_blocks == Some(0) {
        return Err(bad("capacity_blocks", "0 is too small: a disk has at least one block"));
    }
    overheads(file)?;
    seek(file)?;
    cache(file)?;
    if file.zones.is_empty() {
        return Err(bad("zones", "a disk has at least one zone"));
    }
    let mut next_cylinder = 0;
    for (index, row) in file.zones.iter().enumerate() {
        next_cylinder = zone(file, index, row, next_cylinder)?;
    }
    let cylinders = next_cylinder as f64;
    within("zones, all cylinders", cylinders, 1.0, CYLINDERS_MAX as f64)?;
    sources(file)
}

fn overheads(file: &ProfileFile) -> Result<(), ProfileError> {
    let given = &file.overheads;
    for (name, ms) in [
        ("command_ms", Some(given.command_ms)),
        ("read_hit_after_read_ms", given.read_hit_after_read_ms),
        ("read_hit_after_write_ms", given.read_hit_after_write_ms),
        ("read_miss_after_read_ms", given.read_miss_after_read_ms),
        ("read_miss_after_write_ms", given.read_miss_after_write_ms),
        ("write_hit_after_read_ms", given.write_hit_after_read_ms),
        ("write_hit_after_write_ms", given.write_hit_after_write_ms),
        ("write_miss_after_read_ms", given.write_miss_after_read_ms),
        ("write_miss_after_write_ms", given.write_miss_after_write_ms),
        ("reconnect_ms", Some(given.reconnect_ms)),
        ("read_completion_ms", Some(given.read_completion_ms)),
        ("write_completion_ms", Some(given.write_completion_ms)),
        ("read_disconnect_after_read_ms", Some(given.read_disconnect_after_read_ms)),
        ("read_disconnect_after_write_ms", Some(given.read_disconnect_after_write_ms)),
        ("write_disconnect_ms", Some(given.write_disconnect_ms)),
        ("write_reconnect_ms", Some(given.write_reconnect_ms)),
        ("write_positioning_least_ms", Some(given.write_positioning_least_ms)),
        ("extra_disconnect.arm_ms", given.extra_disconnect.map(|extra| extra.arm_ms)),
        ("extra_disconnect.data_ms", given.extra_disconnect.map(|extra| extra.data_ms)),
        ("extra_disconnect.disconnect_ms", given.extra_disconnect.map(|extra| extra.disconnect_ms)),
        ("extra_disconnect.reconnect_ms", given.extra_disconnect.map(|extra| extra.reconnect_ms)),
    ] {
        within(&format!("overheads.{name}"), ms.unwrap_or(0.0), 0.0, 1000.0)?;
    }
    Ok(())
}

fn seek(file: &ProfileFile) -> Result<(), ProfileError> {
    for (distance, ms) in &file.seek_ms {
        within(&format!("seek_ms, distance {distance}"), *ms, 0.0, SEEK_MS_MAX)?;
    }
    let Some(formula) = &file.seek else {
        return match file.seek_ms.first() {
            Some(_) => Ok(()),
            None => Err(bad("seek_ms", "missing: give points, or a formula as `seek`")),
        };
    };
    if !file.seek_ms.is_empty() {
        return Err(bad("seek", "`seek_ms` is given, too: leave one of the two out"));
    }
    let times: Vec<f64> = match formula {
        SeekFormula::Constant { ms } => vec![*ms],
        SeekFormula::ThreePointLine { single_ms, average_ms, full_ms }
        | SeekFormula::ThreePointCurve { single_ms, average_ms, full_ms }
        | SeekFormula::LeeCurve { single_ms, average_ms, full_ms } => {
            vec![*single_ms, *average_ms, *full_ms]
        }
        SeekFormula::RootThenLine {
            first_ms,
            short_ms,
            short_root_ms,
            long_ms,
            long_cylinder_ms,
            ..
        } => {
            let factors = [*short_ms, *short_root_ms, *long_ms, *long_cylinder_ms];
            first_ms.iter().copied().chain(factors).collect()
        }
    };
    times.into_iter().try_for_each(|ms| within("seek", ms, 0.0, SEEK_MS_MAX))
}

fn cache(file: &ProfileFile) -> Result<(), ProfileError> {
    let Some(cache) = &file.cache else { return Ok(()) };
    within("cache.segments", f64::from(cache.segments), 1.0, SEGMENTS_MAX as f64)?;
    within("cache.segment_blocks", cache.segment_blocks as f64, 1.0, 1e9)?;
    let segments = f64::from(cache.segments);
    within("cache.write_segments", f64::from(cache.write_segments), 1.0, segments)?;
    if cache.separate_write_segment && cache.segments < 2 {
        return Err(bad("cache.separate_write_segment", "reads have no segment: give 2 at least"));
    }
    let start = cache.write_start_blocks.unwrap_or(1) as f64;
    within("cache.write_start_blocks", start, 1.0, 1e9)?;
    let ahead = cache.read_ahead_blocks.unwrap_or(0) as f64;
    within("cache.read_ahead_blocks", ahead, 0.0, 1e9)
}

/// Checks a zone that begins at cylinder `next` if it does not say so; gives the one behind it.
fn zone(file: &ProfileFile, index: usize, row: &ZoneFile, next: u64) -> Result<u64, ProfileError> {
    let key = |name: &str| format!("zones[{index}].{name}");
    let most = f64::from(TRACK_SECTORS_MAX);
    within(&key("cylinders"), f64::from(row.cylinders), 1.0, CYLINDERS_MAX as f64)?;
    within(&key("track_sectors"), f64::from(row.track_sectors), 1.0, most)?;
    let track = f64::from(row.track_sectors);
    within(&key("track_skew"), f64::from(row.track_skew), 0.0, track)?;
    within(&key("cylinder_skew"), f64::from(row.cylinder_skew), 0.0, track)?;
    within(&key("origin_sector"), f64::from(row.origin_sector), 0.0, track)?;
    let first = row.first_cylinder.map_or(next, u64::from);
    if first < next {
        return Err(bad(
            key("first_cylinder"),
            format!("cylinder {first} is in the previous zone: take {next} or more"),
        ));
    }
    let cylinder = f64::from(file.heads) * track;
    let zone = f64::from(row.cylinders) * cylinder;
    let most_spares = match file.sparing {
        Sparing::None | Sparing::EndOfDisk => 0.0,
        Sparing::TracksPerZone => zone / track - 1.0,
        Sparing::SectorsPerTrack => track - 1.0,
        Sparing::SectorsPerCylinder { .. } => cylinder - 1.0,
        Sparing::SectorsPerCylinders { cylinders } => {
            within("sparing.cylinders", f64::from(cylinders), 1.0, CYLINDERS_MAX as f64)?;
            f64::from(cylinders) * cylinder - 1.0
        }
        Sparing::SectorsPerZone { .. } => zone - 1.0,
    };
    if let TrackOrder::SurfaceSerpentine { cylinders } = file.track_order {
        within("track_order.cylinders", f64::from(cylinders), 1.0, CYLINDERS_MAX as f64)?;
    }
    within(&key("spares"), row.spares as f64, 0.0, most_spares)?;
    within(&key("reserved_sectors"), row.reserved_sectors as f64, 0.0, zone - 1.0)?;
    Ok(first + u64::from(row.cylinders))
}

fn sources(file: &ProfileFile) -> Result<(), ProfileError> {
    let seek = if file.seek.is_some() { "seek" } else { "seek_ms" };
    let cache = file.cache.as_ref().map(|_| "cache");
    for key in SOURCED.into_iter().chain([seek]).chain(cache) {
        let source = file.sources.get(key).ok_or_else(|| {
            bad(format!("sources.{key}"), "missing: say where the value comes from")
        })?;
        if !SOURCE_KINDS.iter().any(|kind| source.starts_with(kind)) {
            let problem = "must begin with `published: `, `extracted: ` or `interpolated: `";
            return Err(bad(format!("sources.{key}"), problem));
        }
    }
    let known =
        |key: &&String| SOURCED.contains(&key.as_str()) || MAY_BE_SOURCED.contains(&key.as_str());
    match file.sources.keys().find(|key| !known(key)) {
        Some(key) => Err(bad(format!("sources.{key}"), "a profile has no such parameter")),
        None => Ok(()),
    }
}
