//! What was extracted of a drive beside what it is made of.

use moirai_discovery::{DriveFound, ReadAhead, Reported};
use moirai_models::{Geometry, ImmediateReport, Profile, Zone};
use moirai_units::{BlockCount, Lbn, Nanos};

/// Compares all that shows.
pub(crate) fn compare(name: &str, found: &DriveFound, truth: &Profile) {
    compare_geometry(name, &found.geometry, &truth.geometry);
    let mechanics = &truth.mechanics;
    let turn = mechanics.revolution_ps as f64 / 1000.0;
    is_near(name, "rotation", found.rotation.period_ns, turn, 1e-4, 0.0);
    let switch = found.head_switch_ns.unwrap();
    is_near(name, "head switch", switch, mechanics.head_switch.0 as f64, 0.02, 20e3);
    let furthest = found.seeks.last().unwrap().0;
    for (distance, time) in mechanics.seek.points().filter(|point| point.0 <= furthest) {
        let above = found.seeks.partition_point(|point| point.0 < distance);
        let high = found.seeks[above];
        let low = found.seeks[above.saturating_sub(1)];
        let width = f64::from((high.0 - low.0).max(1));
        let part = f64::from(distance - low.0) / width;
        let ours = if high.0 == distance { high.1 } else { low.1 + (high.1 - low.1) * part };
        is_near(name, "seek", ours, time.0 as f64, 0.02, 20e3);
    }
    let zero_latency = (mechanics.zero_latency_read, Some(mechanics.zero_latency_write));
    assert_eq!((found.zero_latency_read, found.zero_latency_write), zero_latency, "{name}");
    let bus = truth.electronics.bus_sector.0 as f64;
    is_near(name, "bus", found.bus.block_ns.unwrap(), bus, 0.01, 10.0);
    compare_overheads(name, found, truth);
    compare_cache(name, found, truth);
}

fn is_near(name: &str, what: &str, ours: f64, truth: f64, part: f64, least: f64) {
    let off = (ours - truth).abs();
    assert!(off <= (truth.abs() * part).max(least), "{name}: {what} is {ours}, and not {truth}");
}

fn compare_geometry(name: &str, found: &Geometry, truth: &Geometry) {
    assert_eq!(found.capacity(), truth.capacity(), "{name}");
    let mut at = Lbn(0);
    while let Some(track) = truth.track(at) {
        let ours = found.track(at).unwrap();
        let differs = (ours.blocks, ours.next_skew) != (track.blocks, track.next_skew);
        assert!(!differs, "{name}: {ours:?} and not {track:?}");
        at = track.blocks.end();
    }
    // Where the first sectors lie counts from the first zone on, and what lies behind the end of the disk does not show.
    let held: BlockCount = truth.zone_blocks().map(|blocks| blocks.count).sum();
    let last = truth.zones().len() - 1;
    let shown = |geometry: &Geometry| -> Vec<Zone> {
        let zones = geometry.zones().cloned().enumerate();
        zones
            .map(|(at, mut zone)| {
                zone.origin_sector = 0;
                if at == last && truth.capacity() < held {
                    zone.spares = 0;
                }
                zone
            })
            .collect()
    };
    // Zones that follow each other may be one where nothing but the drive's own sectors tells them apart.
    let joined = |geometry: &Geometry| -> Vec<Zone> {
        let mut joined: Vec<Zone> = Vec::new();
        for zone in shown(geometry) {
            let key = |zone: &Zone| {
                (zone.track_sectors, zone.track_skew, zone.cylinder_skew, zone.spares)
            };
            match joined.last_mut().filter(|last| {
                key(last) == key(&zone)
                    && last.first_cylinder + last.cylinders == zone.first_cylinder
            }) {
                Some(last) if last.defects == zone.defects => last.cylinders += zone.cylinders,
                _ => joined.push(zone),
            }
        }
        joined
    };
    let (ours, theirs) = (joined(found), joined(truth));
    for (ours, theirs) in ours.iter().zip(&theirs) {
        let mut ours = ours.clone();
        if theirs.cylinders == 1 {
            // Of one cylinder the skew to the next does not show.
            ours.cylinder_skew = theirs.cylinder_skew;
        }
        assert_eq!(&ours, theirs, "{name}");
    }
    assert_eq!(ours.len(), theirs.len(), "{name}");
    assert_eq!(found.order(), truth.order(), "{name}");
}

/// Overheads with what follows the last byte: only their sums show.
fn compare_overheads(name: &str, found: &DriveFound, truth: &Profile) {
    let (ours, theirs) = (&found.overheads, &truth.electronics.overheads);
    let bus = truth.electronics.bus_sector.0 as f64;
    let sum = |time: Nanos, behind: Nanos| (time + behind).0 as f64;
    let near = |what: &str, ours: f64, truth: f64| is_near(name, what, ours, truth, 0.05, 2000.0);
    let read = theirs.reconnect + theirs.read_completion;
    let behind = ours.reconnect + ours.read_completion;
    near("read miss", ours.read_miss.read + behind, sum(theirs.read_miss.read, read));
    let after_write = ours.read_miss.write.unwrap() + behind;
    near("read miss after write", after_write, sum(theirs.read_miss.write, read));
    if let Some(hit) = ours.read_hit {
        let truth = sum(theirs.read_hit.read, theirs.read_completion);
        near("read hit", hit.read + ours.read_completion, truth);
        if let Some(after_write) = hit.write {
            let truth = sum(theirs.read_hit.write, theirs.read_completion);
            near("read hit after write", after_write + ours.read_completion, truth);
        }
    }
    let completion = theirs.write_completion + theirs.write_reconnect;
    let (hit, miss) = (ours.write_hit.unwrap(), ours.write_miss.unwrap());
    // On the track the head waits for the arm's overhead or for the data, whichever is later.
    let shown = |hit: f64, miss: f64, bus: f64| (hit + bus).max(miss);
    let at = |hit, miss: Nanos, completion| {
        let arm = miss + theirs.write_positioning_least;
        shown(sum(hit, completion), sum(arm, completion), bus)
    };
    let read = at(theirs.write_hit.read, theirs.write_miss.read, completion);
    let write = match theirs.extra_disconnect {
        None => at(theirs.write_hit.write, theirs.write_miss.write, completion),
        Some(extra) => at(extra.data, extra.arm, theirs.write_completion + extra.reconnect),
    };
    let ours_at = |hit: f64, miss: f64| shown(hit, miss, bus) + ours.write_completion;
    near("write", ours_at(hit.read, miss.read), read);
    near("write after write", ours_at(hit.write.unwrap(), miss.write.unwrap()), write);
    // Behind a seek it settles, and has the data.
    let settled = found.write_settle_ns.unwrap() + ours.write_completion;
    let truth_settle = truth.mechanics.write_settle_ns as f64;
    let truth_settled = truth_settle + sum(theirs.write_miss.read, completion);
    is_near(name, "settling", settled + miss.read, truth_settled, 0.05, 20e3);
}

fn compare_cache(name: &str, found: &DriveFound, truth: &Profile) {
    let (Some(ours), Some(theirs)) = (&found.cache, &truth.electronics.cache) else {
        assert_eq!(found.cache.is_some(), truth.electronics.cache.is_some(), "{name}");
        return;
    };
    let read_ahead = match theirs.read_ahead {
        moirai_models::ReadAhead::None => ReadAhead::None,
        moirai_models::ReadAhead::Track => ReadAhead::Track,
        moirai_models::ReadAhead::Cylinder => ReadAhead::Cylinder,
        moirai_models::ReadAhead::Segment => ReadAhead::Segment,
        moirai_models::ReadAhead::NextTrack => ReadAhead::NextTrack,
    };
    let reported = match theirs.immediate_report {
        ImmediateReport::None => Reported::None,
        ImmediateReport::Sequential => Reported::Sequential,
        ImmediateReport::All => Reported::All,
    };
    assert_eq!((ours.read_ahead, ours.reported), (read_ahead, Some(reported)), "{name}");
    let fields = found.cache_fields;
    let effects = [fields.reads, fields.writes].map(|field| field.has_effect);
    let reports = (reported != Reported::None).then_some(true);
    assert_eq!(effects, [Some(true), reports], "{name}");
    // A limit of four blocks is tried, which is none for a drive that reads no further ahead.
    let reads_on =
        read_ahead != ReadAhead::None && ours.read_ahead_blocks.is_none_or(|most| most > 4);
    let reads_on = reads_on.then_some(true);
    assert_eq!(fields.read_ahead.has_effect, reads_on, "{name}");
    assert_eq!(ours.is_adaptive, theirs.adaptive, "{name}");
    // One that is for writes alone is not seen by reads.
    let of_reads = theirs.segments - u32::from(theirs.separate_write_segment);
    if !theirs.adaptive {
        let truth = (u64::from(of_reads), theirs.segment_blocks.0);
        assert_eq!((ours.segments, ours.segment_blocks), truth, "{name}");
    }
    if !theirs.adaptive && theirs.read_ahead != moirai_models::ReadAhead::None {
        // Reading ahead from the front of a cylinder shows no limit that is longer than the track or the cylinder.
        let track = truth.geometry.track(Lbn(0)).unwrap().blocks.count.0;
        let most = match theirs.read_ahead {
            moirai_models::ReadAhead::Track => track - 1,
            moirai_models::ReadAhead::Cylinder => track * u64::from(truth.geometry.heads()) - 1,
            moirai_models::ReadAhead::NextTrack => track,
            _ => u64::MAX,
        };
        let theirs_most = theirs.read_ahead_blocks.0.min(match theirs.read_ahead {
            moirai_models::ReadAhead::NextTrack => u64::MAX,
            _ => theirs.segment_blocks.0,
        });
        let ours_most = ours.read_ahead_blocks.unwrap_or(ours.segment_blocks);
        assert_eq!(ours_most.min(most), theirs_most.min(most), "{name}");
    }
    let flags =
        [ours.resumes_on_hit, ours.reads_while_waiting, ours.hits_on_arriving, ours.discards_sent];
    let truth = [
        theirs.resume_on_hit,
        theirs.read_while_waiting,
        theirs.hit_on_arriving,
        theirs.discard_sent,
    ];
    // Where reads have one segment alone, extraction cannot leave it and come back, and may take that for something else.
    if of_reads > 1 {
        assert_eq!(flags, truth, "{name}");
        assert_eq!(ours.write_drops_reads, Some(theirs.write_drops_reads), "{name}");
    }
    let hit_on_written = theirs.hit_on_written && !theirs.separate_write_segment;
    assert_eq!(ours.hits_on_written, Some(hit_on_written), "{name}");
    if reported == Reported::Sequential {
        assert_eq!((ours.write_segments, ours.combines_writes), (None, None), "{name}");
    }
    if reported == Reported::All {
        assert_eq!(ours.write_segments, Some(u64::from(theirs.write_segments)), "{name}");
        assert_eq!(ours.combines_writes, Some(theirs.combine_writes), "{name}");
    }
}
