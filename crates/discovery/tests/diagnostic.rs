//! What is extracted of simulated drives by diagnostic commands, beside what they are made of.

#![expect(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    reason = "a test stops at what it did not expect"
)]

mod compare;
mod odd;

use moirai_devices::{Access, open};
use moirai_discovery::{DriveFound, ReadAhead, Result, SchedulerKind, extract};
use moirai_models::{Profile, built_in_names};
use moirai_runtime::block_on_virtual;
use moirai_units::Nanos;

use compare::compare;

fn extracted(uri: &str, access: Access<'_>, writes: bool) -> Result<DriveFound> {
    block_on_virtual(1, async {
        let device = open(uri.parse().unwrap(), access).unwrap();
        extract(&*device, writes, |_| ()).await
    })
}

#[test]
fn every_drive_is_extracted() {
    for name in built_in_names() {
        let truth = Profile::built_in(name).unwrap();
        let found = extracted(&format!("sim:{name}"), Access::Write, true);
        let found = found.unwrap_or_else(|error| panic!("{name}: {error}"));
        assert!(found.elapsed < Nanos(120_000_000_000), "{name}: {:?}", found.elapsed);
        compare(name, &found, &truth);
        assert_eq!(found.scheduler, Some(SchedulerKind::Sptf), "{name}");
    }
}

#[test]
fn reading_on_in_the_next_track_does_not_show_where_what_was_sent_is_given_up() {
    let cache = "{ segments = 4, segment_blocks = 256, read_ahead = \"next-track\", immediate_report = \"none\", discard_sent = true }";
    let profile = Profile::parse(&odd::plain(&[("cache", cache)])).unwrap();
    let found = block_on_virtual(1, async { extract(&*odd::start(profile), true, |_| ()).await });
    assert_eq!(found.unwrap().cache.unwrap().read_ahead, ReadAhead::Track);
}

#[test]
fn schedulers_are_told_from_each_other() {
    let kinds = [
        ("fcfs", SchedulerKind::Fcfs),
        ("c-look", SchedulerKind::CLook),
        ("sstf", SchedulerKind::Sstf),
        ("sptf", SchedulerKind::Sptf),
        ("aged-sptf:0.02", SchedulerKind::Sptf),
    ];
    for name in ["quantum-atlas-10k", "seagate-cheetah-4lp", "quantum-viking"] {
        for (scheduler, kind) in kinds {
            let uri = format!("sim:{name}?scheduler={scheduler}");
            let found = extracted(&uri, Access::Read, false).unwrap();
            assert_eq!(found.scheduler, Some(kind), "{uri}");
        }
    }
}

#[test]
fn without_leave_to_write_nothing_is_written() {
    // Every write to a device that is opened for reading is an error.
    let found = extracted("sim:ibm-ultrastar-18es", Access::Read, false).unwrap();
    assert!(!found.commands.contains_key("write"), "{:?}", found.commands);
    assert_eq!((found.write_settle_ns, found.zero_latency_write), (None, None));
    assert_eq!(found.cache.unwrap().segments, 7);
}

#[test]
fn plain_drives_are_extracted_as_they_are() {
    let cache = |of: &str| format!("{{ segments = 4, segment_blocks = 256, {of} }}");
    let with_cache = |of: &str| vec![("cache", cache(of))];
    let mut drives: Vec<(String, Vec<(&str, String)>)> = Vec::new();
    // Overheads that no write shows which is reported at once.
    let of_writes = "{ command_ms = 0.2, write_hit_after_read_ms = 0.3, write_hit_after_write_ms = 0.7, \
                     write_miss_after_read_ms = 0.3, write_miss_after_write_ms = 0.1 }";
    for reports in ["none", "sequential", "all"] {
        let mut keys =
            with_cache(&format!("read_ahead = \"segment\", immediate_report = \"{reports}\""));
        keys.push(("overheads", of_writes.to_owned()));
        drives.push((format!("writes reported: {reports}"), keys));
    }
    drives.push(("no cache".to_owned(), vec![("overheads", of_writes.to_owned())]));
    // A read that takes longer to begin than a write.
    for (rpm, command_ms) in [("5400", "0.05"), ("7200", "0.1"), ("10000", "0.4")] {
        let overheads = format!(
            "{{ command_ms = {command_ms}, read_miss_after_read_ms = 0.6, read_miss_after_write_ms = 0.6 }}"
        );
        let keys = vec![("rotation_rpm", rpm.to_owned()), ("overheads", overheads)];
        drives.push((format!("no cache, {rpm} rpm"), keys));
    }
    for read_ahead in ["none", "track", "cylinder", "segment", "next-track"] {
        for flags in [
            "discard_sent = true",
            "resume_on_hit = true",
            "hit_on_arriving = true",
            "read_while_waiting = true",
            "write_drops_reads = true, hit_on_written = true",
        ] {
            let of_reading_ahead = ["discard_sent", "resume_on_hit", "hit_on_arriving"];
            // What was sent is given up, and so where the read began: that is as `track`, below.
            if (read_ahead, flags) == ("next-track", "discard_sent = true") {
                continue;
            }
            if read_ahead == "none" && of_reading_ahead.iter().any(|of| flags.starts_with(of)) {
                continue;
            }
            let of = format!("read_ahead = \"{read_ahead}\", immediate_report = \"all\", {flags}");
            drives.push((format!("{read_ahead}, {flags}"), with_cache(&of)));
        }
        for (segments, blocks) in [(1, 512), (3, 200), (8, 1024), (2, 4096)] {
            let cache = format!(
                "{{ segments = {segments}, segment_blocks = {blocks}, read_ahead = \"{read_ahead}\", immediate_report = \"none\" }}"
            );
            drives.push((format!("{read_ahead}, {segments} of {blocks}"), vec![("cache", cache)]));
        }
    }
    // Reading ahead that does not reach far.
    for blocks in [3, 8, 40] {
        let of = format!(
            "read_ahead = \"segment\", immediate_report = \"none\", read_ahead_blocks = {blocks}"
        );
        drives.push((format!("{blocks} blocks ahead"), with_cache(&of)));
    }
    let seeks = "[[1, 1.9], [10, 3.1], [100, 3.9], [500, 5.0], [2000, 5.4]]";
    let mut fast =
        with_cache("read_ahead = \"segment\", immediate_report = \"none\", resume_on_hit = true");
    fast.extend([("rotation_rpm", "10000".to_owned()), ("seek_ms", seeks.to_owned())]);
    drives.push(("resumed reading ahead, 10,000 rpm".to_owned(), fast));
    // Zones beside each other whose tracks are equally long.
    let zones = |of: [(u32, &str); 3]| {
        let zone = |(cylinders, more): (u32, &str)| {
            format!(
                "{{ cylinders = {cylinders}, track_sectors = 300, track_skew = 50, cylinder_skew = 60{more} }}"
            )
        };
        format!("[{}]", of.map(zone).join(", "))
    };
    let orders = ["cylinder\"", "cylinder-serpentine\"", "surface-serpentine\", cylinders = 7"];
    for order in orders {
        for (scheme, of) in [
            (
                "sectors-per-cylinder",
                [(247, ", spares = 20"), (113, ", spares = 16"), (375, ", spares = 14")],
            ),
            ("none", [(394, ""), (250, ", reserved_sectors = 137"), (462, "")]),
            (
                "sectors-per-track",
                [(300, ", spares = 2"), (1, ", spares = 3"), (200, ", spares = 4")],
            ),
        ] {
            drives.push((
                format!("alike zones, {order}, {scheme}"),
                vec![
                    ("track_order", format!("{{ along = \"{order} }}")),
                    ("sparing", format!("{{ scheme = \"{scheme}\" }}")),
                    ("zones", zones(of)),
                ],
            ));
        }
    }
    let mut wrong = Vec::new();
    for (name, keys) in &drives {
        let keys: Vec<(&str, &str)> =
            keys.iter().map(|(key, value)| (*key, value.as_str())).collect();
        let truth = Profile::parse(&odd::plain(&keys)).unwrap();
        let found =
            block_on_virtual(1, async { extract(&*odd::start(truth.clone()), true, |_| ()).await });
        let compared = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| match &found {
            Ok(found) => compare(name, found, &truth),
            Err(error) => panic!("{name}: {error}"),
        }));
        wrong.extend(compared.is_err().then_some(name));
    }
    assert!(wrong.is_empty(), "of {}: {wrong:#?}", drives.len());
}
