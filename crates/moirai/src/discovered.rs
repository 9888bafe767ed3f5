//! From what was discovered of a drive to a profile.

use std::collections::BTreeMap;

use moirai_discovery::{AfterNs, CacheFound, DriveFound, ReadAhead, Reported};
use moirai_models::{
    CacheFile, ImmediateReport, OverheadsFile, ProfileFile, ReadAhead as ModelReadAhead, Zone,
    ZoneFile,
};
use moirai_units::BlockCount;

/// A seek where no other cylinder was found, in ms.
const NO_SEEK_MS: f64 = 1.0;

/// The profile of a drive that was discovered, which `sim:` simulates; `description` says which drive it is. `sources` says of
/// each value whether it was measured or assumed.
#[must_use]
pub fn drive_profile(found: &DriveFound, description: String) -> ProfileFile {
    let ms = |ns: f64| ns.round() / 1e6;
    let held: BlockCount = found.geometry.zone_blocks().map(|blocks| blocks.count).sum();
    let is_cut = found.geometry.capacity() < held;
    let mut seek_ms: Vec<(u32, f64)> =
        found.seeks.iter().map(|(distance, ns)| (*distance, ms(*ns))).collect();
    // Where no two cylinders with blocks lie beside each other, the shortest seek is longer.
    if let Some(shortest) = seek_ms.first().copied().filter(|(distance, _)| *distance > 1) {
        seek_ms.insert(0, (1, shortest.1));
    }
    ProfileFile {
        name: "discovered".to_owned(),
        description,
        heads: found.geometry.heads(),
        rotation_rpm: 60e9 / found.rotation.period_ns,
        head_switch_ms: ms(found.head_switch_ns.unwrap_or_default()),
        write_settle_ms: ms(found.write_settle_ns.unwrap_or_default()),
        zero_latency_read: found.zero_latency_read,
        zero_latency_write: found.zero_latency_write.unwrap_or(found.zero_latency_read),
        bus_mb_per_s: found.bus.block_ns.map_or(f64::INFINITY, |ns| 512e3 / ns),
        // Discovery does not look for these.
        write_bus_mb_per_s: None,
        holds_bus: false,
        bus_in_order: found.bus.is_in_order,
        read_watermark: found.bus.watermark,
        diagnostic_ms: None,
        capacity_blocks: is_cut.then_some(found.geometry.capacity().0),
        seek_ms: if seek_ms.is_empty() { vec![(1, NO_SEEK_MS)] } else { seek_ms },
        track_order: found.geometry.order(),
        sparing: found.geometry.sparing(),
        seek: None,
        overheads: overheads(found),
        cache: found.cache.as_ref().map(cache),
        zones: found.geometry.zones().map(zone).collect(),
        sources: sources(found),
    }
}

fn overheads(found: &DriveFound) -> OverheadsFile {
    let of = &found.overheads;
    let ms = |ns: f64| ns.round().max(0.0) / 1e6;
    let read = |after: Option<AfterNs>| after.map(|after| ms(after.read));
    let write = |after: Option<AfterNs>| after.map(|after| ms(after.write.unwrap_or(after.read)));
    let (misses, hits) = (Some(of.read_miss), of.read_hit);
    OverheadsFile {
        // What has no overhead of its own takes as long as a read that misses.
        command_ms: ms(of.read_miss.read),
        read_hit_after_read_ms: read(hits),
        read_hit_after_write_ms: write(hits),
        read_miss_after_read_ms: read(misses),
        read_miss_after_write_ms: write(misses),
        write_hit_after_read_ms: read(of.write_hit),
        write_hit_after_write_ms: write(of.write_hit),
        write_miss_after_read_ms: read(of.write_miss),
        write_miss_after_write_ms: write(of.write_miss),
        reconnect_ms: ms(of.reconnect),
        read_completion_ms: ms(of.read_completion),
        write_completion_ms: ms(of.write_completion),
        ..OverheadsFile::default()
    }
}

fn cache(found: &CacheFound) -> CacheFile {
    CacheFile {
        segments: found.segments as u32,
        segment_blocks: found.segment_blocks,
        adaptive: found.is_adaptive,
        separate_write_segment: false,
        write_start_blocks: None,
        write_segments: found.write_segments.unwrap_or(1).min(found.segments) as u32,
        read_ahead: match found.read_ahead {
            ReadAhead::None => ModelReadAhead::None,
            ReadAhead::Track => ModelReadAhead::Track,
            ReadAhead::Cylinder => ModelReadAhead::Cylinder,
            ReadAhead::Segment => ModelReadAhead::Segment,
            ReadAhead::NextTrack => ModelReadAhead::NextTrack,
        },
        read_ahead_blocks: found.read_ahead_blocks,
        resume_on_hit: found.resumes_on_hit,
        read_while_waiting: found.reads_while_waiting,
        hit_on_arriving: found.hits_on_arriving,
        discard_sent: found.discards_sent,
        write_drops_reads: found.write_drops_reads.unwrap_or(false),
        hit_on_written: found.hits_on_written.unwrap_or(false),
        stop_within_sector: false,
        immediate_report: match found.reported {
            None | Some(Reported::None) => ImmediateReport::None,
            Some(Reported::Sequential) => ImmediateReport::Sequential,
            Some(Reported::All) => ImmediateReport::All,
        },
        combine_writes: found.combines_writes.unwrap_or(false),
    }
}

fn zone(zone: &Zone) -> ZoneFile {
    ZoneFile {
        first_cylinder: Some(zone.first_cylinder),
        cylinders: zone.cylinders,
        track_sectors: zone.track_sectors,
        track_skew: zone.track_skew,
        cylinder_skew: zone.cylinder_skew,
        origin_sector: zone.origin_sector,
        reserved_sectors: zone.reserved_sectors,
        spares: zone.spares,
        spare_cylinders: zone.spare_cylinders,
        spare_group_cylinders: zone.spare_group_cylinders,
        slipped: zone.defects.slipped.clone(),
        remapped: zone.defects.remapped.clone(),
    }
}

fn sources(found: &DriveFound) -> BTreeMap<String, String> {
    let translated = "extracted: by translations of addresses";
    let timed = "extracted: by the times of reads";
    let (written, timed_or_not) = match found.write_settle_ns {
        Some(_) => {
            ("extracted: by the times of writes", "extracted: by the times of reads and writes")
        }
        None => (
            "interpolated: nothing was written; `moirai discover --write` measures it",
            "extracted: by the times of reads; nothing was written, so those of writes are unknown",
        ),
    };
    let bus = match found.bus.block_ns {
        Some(_) => timed_or_not,
        None => "interpolated: it does not show in what was measured",
    };
    let mut sources = BTreeMap::new();
    for (key, source) in [
        ("heads", translated),
        ("zones", "extracted: by translations of addresses; skews by the times of reads"),
        ("track_order", translated),
        ("sparing", translated),
        ("rotation_rpm", timed),
        ("head_switch_ms", timed),
        ("seek_ms", "extracted: by the times of seeks"),
        ("write_settle_ms", written),
        ("zero_latency_read", timed),
        ("zero_latency_write", written),
        ("bus_mb_per_s", bus),
        ("bus_in_order", bus),
        ("read_watermark", timed),
        ("overheads", timed_or_not),
    ] {
        sources.insert(key.to_owned(), source.to_owned());
    }
    if found.cache.is_some() {
        sources.insert("cache".to_owned(), timed_or_not.to_owned());
    }
    sources
}
