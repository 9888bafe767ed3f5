//! Drives that are put together at random.

#![expect(dead_code, reason = "each test uses some of the kinds")]

use std::collections::BTreeSet;
use std::fmt::Write;
use std::sync::Arc;

use moirai_devices::{Contents, SimulatedDisk, SimulatedOptions};
use moirai_models::{Profile, Scheduler};
use moirai_runtime::Random;
use moirai_storage::Device;
use moirai_units::BlockCount;
use rand::Rng;
use rand::seq::IndexedRandom;

const ORDERS: [&str; 4] = [
    "{ along = \"cylinder\" }",
    "{ along = \"cylinder-serpentine\" }",
    "{ along = \"cylinder-serpentine\", restart = true }",
    "{ along = \"surface-serpentine\", cylinders = 5 }",
];
const CACHES: [&str; 4] = [
    "",
    "cache = { segments = 1, segment_blocks = 256, read_ahead = \"segment\", immediate_report = \"none\" }",
    "cache = { segments = 8, segment_blocks = 512, read_ahead = \"track\", immediate_report = \"none\", resume_on_hit = true, \
     hit_on_arriving = true }",
    "cache = { segments = 3, segment_blocks = 300, read_ahead = \"next-track\", immediate_report = \"none\", discard_sent = true }",
];

/// A drive of such a profile.
pub(crate) fn start(profile: Profile) -> Arc<dyn Device> {
    let options = SimulatedOptions {
        name: "odd".to_owned(),
        scheduler: Scheduler::Sptf,
        contents: Contents::Nothing,
        physical_block: BlockCount(1),
        host_bus: None,
    };
    SimulatedDisk::start(profile, options)
}

/// A drive of a few hundred tracks. Bad sectors and spares are as the sparing scheme has them.
pub(crate) fn profile(random: &mut Random) -> String {
    let heads = *[1_u32, 2, 5, 24].choose(random).unwrap();
    let rpm = random.random_range(4000..16_000);
    let turn_ms = 60e3 / f64::from(rpm);
    let switch_ms: f64 = random.random_range(0.3..1.2);
    let (sparing, kind) = *[
        ("none", 0),
        ("sectors-per-track", 1),
        ("sectors-per-cylinder", 2),
        ("sectors-per-zone", 3),
        ("end-of-disk", 4),
        ("tracks-per-zone", 5),
    ]
    .choose(random)
    .unwrap();
    let mut zones = String::new();
    let (mut sectors, count) = (random.random_range(100..500_u32), random.random_range(1..5));
    for _ in 0..count {
        let cylinders =
            if random.random_bool(0.2) { 1 } else { random.random_range(2..400 / heads + 3) };
        let cylinders = if kind == 5 { cylinders.max(3) } else { cylinders };
        let skew = |ms: f64| (ms / turn_ms * f64::from(sectors)).ceil() as u32 + 2;
        let (spares, unit) = match kind {
            1 => (2, sectors),
            2 => (6, sectors * heads),
            3 => (sectors / 2, sectors * heads * cylinders),
            5 => (2, heads * cylinders),
            _ => (0, u32::MAX),
        };
        let reserved = if random.random_bool(0.3) { random.random_range(1..sectors) } else { 0 };
        let _ = write!(
            zones,
            "    {{ cylinders = {cylinders}, track_sectors = {sectors}, track_skew = {}, cylinder_skew = {}, spares = {spares}, \
             reserved_sectors = {reserved}, origin_sector = {}",
            skew(switch_ms),
            skew(switch_ms + 1.0),
            random.random_range(0..sectors),
        );
        // One bad sector or track in each unit of spares at most, so that there are spares enough.
        let all = if kind == 5 { heads * cylinders } else { sectors * heads * cylinders };
        let mut slipped = BTreeSet::new();
        if random.random_bool(0.6) {
            let most = match random.random_range(0..10) {
                _ if kind == 5 => 1,
                0 => random.random_range(40..400),
                _ => random.random_range(1..40),
            };
            for _ in 0..most {
                let at = random.random_range(0..all);
                let unit_of = |at: &u32| at / unit;
                if !slipped.iter().any(|other| unit_of(other) == unit_of(&at)) || kind == 0 {
                    slipped.insert(at);
                }
            }
        }
        let slipped: Vec<String> = slipped.iter().map(ToString::to_string).collect();
        let _ = writeln!(zones, ", slipped = [{}] }},", slipped.join(", "));
        sectors = sectors.saturating_sub(random.random_range(0..40)).max(100);
    }
    format!(
        "name = \"odd\"\ndescription = \"odd\"\nheads = {heads}\nrotation_rpm = {rpm}\nhead_switch_ms = {switch_ms}\n\
         write_settle_ms = 0.5\nzero_latency_read = {}\nzero_latency_write = false\nbus_mb_per_s = {}\nbus_in_order = {}\n\
         overheads = {{ command_ms = {} }}\nseek = {{ formula = \"three-point-curve\", single_ms = {}, average_ms = 5.0, full_ms = 9.0 }}\n\
         track_order = {}\nsparing = {{ scheme = \"{sparing}\" }}\n{}\nzones = [\n{zones}]\n[sources]\n{}",
        random.random_bool(0.5),
        [10.0, 40.0, 160.0].choose(random).unwrap(),
        random.random_bool(0.5),
        [0.05, 0.2, 0.6].choose(random).unwrap(),
        switch_ms + 0.5,
        ORDERS.choose(random).unwrap(),
        CACHES.choose(random).unwrap(),
        sources() + &source_of("cache"),
    )
}

/// The orders of tracks, the sparing schemes and what their spares are of: sectors or tracks of which unit.
const ALL_ORDERS: [&str; 6] = [
    "{ along = \"cylinder\" }",
    "{ along = \"cylinder-serpentine\" }",
    "{ along = \"cylinder-serpentine\", restart = true }",
    "{ along = \"surface-serpentine\", cylinders = 1 }",
    "{ along = \"surface-serpentine\", cylinders = 5 }",
    "{ along = \"surface-serpentine\", cylinders = 40 }",
];

#[derive(Clone, Copy)]
enum Unit {
    None,
    Track,
    Cylinders(u32),
    Zone,
    Tracks,
}

const SCHEMES: [(&str, Unit); 12] = [
    ("scheme = \"none\"", Unit::None),
    ("scheme = \"tracks-per-zone\"", Unit::Tracks),
    ("scheme = \"sectors-per-track\"", Unit::Track),
    ("scheme = \"sectors-per-cylinder\"", Unit::Cylinders(1)),
    ("scheme = \"sectors-per-cylinder\", slip_to_end = true", Unit::Cylinders(1)),
    ("scheme = \"sectors-per-cylinder\", front = true", Unit::Cylinders(1)),
    ("scheme = \"sectors-per-cylinder\", front = true, slip_to_end = true", Unit::Cylinders(1)),
    ("scheme = \"sectors-per-cylinders\", cylinders = 3", Unit::Cylinders(3)),
    ("scheme = \"sectors-per-cylinders\", cylinders = 12", Unit::Cylinders(12)),
    ("scheme = \"sectors-per-zone\"", Unit::Zone),
    ("scheme = \"sectors-per-zone\", slip_to_end = true", Unit::Zone),
    ("scheme = \"end-of-disk\"", Unit::None),
];

/// A drive with all that `docs/profiles.md` allows of a layout: groups of spare cylinders, cylinders left out, zones of one
/// cylinder and zones with equally long tracks, many defects, slipped or remapped.
pub(crate) fn any_layout(random: &mut Random) -> String {
    let heads = *[1_u32, 2, 3, 5, 24].choose(random).unwrap();
    let (scheme, unit) = *SCHEMES.choose(random).unwrap();
    let mut zones = String::new();
    let (mut sectors, count) = (random.random_range(60..500_u32), random.random_range(1..7));
    let many = random.random_bool(0.2);
    let mut next_cylinder = 0;
    for _ in 0..count {
        let cylinders = match random.random_range(0..5) {
            0 => 1,
            1 => random.random_range(100..900),
            _ => random.random_range(2..60),
        };
        let spare_group = match random.random_range(0..6) {
            0 if cylinders > 20 => Some((random.random_range(1..4), random.random_range(6..18))),
            1 if cylinders > 20 => Some((random.random_range(1..4), 0)),
            _ => None,
        };
        let (spare_cylinders, group) = spare_group.unwrap_or((0, 0));
        let whole = if group == 0 { cylinders } else { group };
        let used = cylinders - cylinders / whole * spare_cylinders;
        let all = used * heads * sectors;
        let (unit_sectors, spares) = match unit {
            Unit::None => (all, 0),
            Unit::Track => (sectors, random.random_range(1..6)),
            Unit::Cylinders(count) => (sectors * heads * count, random.random_range(2..40)),
            Unit::Zone => (all, random.random_range(50..sectors.max(51) * 3 / 2)),
            Unit::Tracks => (all, random.random_range(1..heads * 2 + 2)),
        };
        let granule = if matches!(unit, Unit::Tracks) { sectors } else { 1 };
        let (places, unit_places) = (all / granule, unit_sectors / granule);
        // Each unit has fewer bad places than spares. The last of the spares are for those that are remapped.
        let (mut slipped, mut remapped) = (BTreeSet::new(), Vec::new());
        let most = if many { 400 } else { random.random_range(0..12) };
        for _ in 0..most {
            let at = random.random_range(0..places);
            let of_unit = at / unit_places;
            let in_unit = slipped.iter().filter(|other| **other / unit_places == of_unit).count();
            if matches!(unit, Unit::None) || (in_unit as u32) < spares / 2 {
                slipped.insert(at);
            }
        }
        let front = scheme.contains("front");
        if !matches!(unit, Unit::None) && random.random_bool(0.5) {
            for number in 0..places / unit_places {
                let (begin, end) = (number * unit_places, (number + 1) * unit_places);
                let to = if front { begin } else { end - 1 };
                let from = begin + unit_places / 3 + random.random_range(0..=unit_places / 4);
                let is_free = !slipped.contains(&to) && !slipped.contains(&from);
                let clean = slipped.range(begin..end).next().is_none();
                if is_free && clean && spares * 3 < unit_places && remapped.len() < 6 {
                    remapped.push(format!("[{from}, {to}]"));
                }
            }
        }
        let first =
            next_cylinder + if random.random_bool(0.15) { random.random_range(1..9) } else { 0 };
        next_cylinder = first + cylinders;
        let reserved =
            if random.random_bool(0.2) { random.random_range(1..sectors * 2) } else { 0 };
        let slipped: Vec<String> = slipped.iter().map(ToString::to_string).collect();
        let _ = writeln!(
            zones,
            "    {{ first_cylinder = {first}, cylinders = {cylinders}, track_sectors = {sectors}, track_skew = {}, \
             cylinder_skew = {}, spares = {spares}, reserved_sectors = {reserved}, origin_sector = {}, \
             spare_cylinders = {spare_cylinders}, spare_group_cylinders = {group}, slipped = [{}], remapped = [{}] }},",
            random.random_range(1..sectors),
            random.random_range(1..sectors),
            random.random_range(0..sectors),
            slipped.join(", "),
            remapped.join(", "),
        );
        if random.random_bool(0.6) {
            sectors = sectors.saturating_sub(random.random_range(0..60)).max(40);
        }
    }
    let cut = if scheme.contains("end-of-disk") { "capacity_blocks = 20000\n" } else { "" };
    drive_text(random, heads, &zones, scheme, cut)
}

fn source_of(key: &str) -> String {
    format!("{key} = \"interpolated: at random\"\n")
}

/// The sources of all that a drive here has.
fn sources() -> String {
    let keys = [
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
        "seek",
    ];
    keys.map(source_of).concat()
}

fn drive_text(random: &mut Random, heads: u32, zones: &str, scheme: &str, more: &str) -> String {
    format!(
        "name = \"odd\"\ndescription = \"odd\"\nheads = {heads}\nrotation_rpm = 7200\nhead_switch_ms = 0.8\n{more}\
         write_settle_ms = 0.5\nzero_latency_read = true\nzero_latency_write = false\nbus_mb_per_s = 40.0\n\
         bus_in_order = true\noverheads = {{ command_ms = 0.2 }}\n\
         seek = {{ formula = \"three-point-curve\", single_ms = 1.0, average_ms = 5.0, full_ms = 9.0 }}\n\
         track_order = {}\nsparing = {{ {scheme} }}\nzones = [\n{zones}]\n[sources]\n{}",
        ALL_ORDERS.choose(random).unwrap(),
        sources(),
    )
}

/// A drive of any layout with any mechanism, overheads, bus and cache.
pub(crate) fn any_drive(random: &mut Random) -> String {
    let layout = any_layout(random);
    let ms = |random: &mut Random, most: f64| {
        (random.random_range(0.0..most) * 1000.0_f64).round() / 1000.0
    };
    let rpm = random.random_range(3600..15_000);
    let head_switch = 0.1 + ms(random, 1.2);
    let mut seeks = String::new();
    let (mut distance, mut time) = (1_u32, 0.3 + ms(random, 1.0));
    while distance < 6000 {
        let _ = write!(seeks, "[{distance}, {time:.3}], ");
        distance += random.random_range(1..=distance * 2);
        time += ms(random, 1.5);
    }
    let overhead = |random: &mut Random| format!("{:.3}", 0.02 + ms(random, 0.8));
    let mut overheads = String::new();
    for key in ["read_hit", "read_miss", "write_hit", "write_miss"] {
        for after in ["read", "write"] {
            let _ = write!(overheads, "{key}_after_{after}_ms = {}, ", overhead(random));
        }
    }
    let cache = match random.random_range(0..4) {
        0 => String::new(),
        _ => {
            let flag = |random: &mut Random| random.random_bool(0.5);
            let ahead =
                ["none", "track", "cylinder", "segment", "next-track"].choose(random).unwrap();
            let report = ["none", "sequential", "all"].choose(random).unwrap();
            format!(
                "cache = {{ segments = {}, segment_blocks = {}, read_ahead = \"{ahead}\", immediate_report = \"{report}\", \
                 write_segments = 1, resume_on_hit = {}, read_while_waiting = {}, hit_on_arriving = {}, discard_sent = false, \
                 write_drops_reads = {}, hit_on_written = {}, combine_writes = {} }}\n",
                [1, 2, 3, 8, 16].choose(random).unwrap(),
                [64, 200, 512].choose(random).unwrap(),
                flag(random),
                flag(random),
                flag(random),
                flag(random),
                flag(random),
                flag(random),
            )
        }
    };
    let of_cache = if cache.is_empty() { String::new() } else { source_of("cache") };
    let sources = format!("[sources]\n{of_cache}");
    layout
        .replace("rotation_rpm = 7200", &format!("rotation_rpm = {rpm}"))
        .replace("head_switch_ms = 0.8", &format!("head_switch_ms = {head_switch:.3}"))
        .replace("write_settle_ms = 0.5", &format!("write_settle_ms = {:.3}", ms(random, 0.8)))
        .replace("zero_latency_read = true", &format!("zero_latency_read = {}", random.random_bool(0.5)))
        .replace("zero_latency_write = false", &format!("zero_latency_write = {}", random.random_bool(0.5)))
        .replace("bus_mb_per_s = 40.0", &format!("bus_mb_per_s = {}", [5.0, 20.0, 160.0].choose(random).unwrap()))
        .replace("overheads = { command_ms = 0.2 }", &format!("overheads = {{ {overheads}}}"))
        .replace(
            "seek = { formula = \"three-point-curve\", single_ms = 1.0, average_ms = 5.0, full_ms = 9.0 }",
            &format!("seek_ms = [{seeks}]\n{cache}"),
        )
        .replace("seek = \"interpolated", "seek_ms = \"interpolated")
        .replace("[sources]\n", &sources)
}

/// A drive without defects, with some keys of its profile other than usual.
pub(crate) fn plain(changes: &[(&str, &str)]) -> String {
    let mut keys = vec![
        ("heads", "4"),
        ("rotation_rpm", "7200"),
        ("head_switch_ms", "0.8"),
        ("write_settle_ms", "0.3"),
        ("zero_latency_read", "false"),
        ("zero_latency_write", "false"),
        ("bus_mb_per_s", "40"),
        ("bus_in_order", "false"),
        ("seek_ms", "[[1, 1.0], [100, 3.0], [1000, 8.0], [3000, 14.0]]"),
        ("overheads", "{ command_ms = 0.2 }"),
        (
            "zones",
            "[{ cylinders = 1000, track_sectors = 300, track_skew = 50, cylinder_skew = 60 }, \
                   { cylinders = 1000, track_sectors = 240, track_skew = 40, cylinder_skew = 50 }]",
        ),
    ];
    for (key, value) in changes {
        keys.retain(|(other, _)| other != key);
        keys.push((*key, *value));
    }
    let lines: String = keys.iter().map(|(key, value)| format!("{key} = {value}\n")).collect();
    let sources: String =
        keys.iter().map(|(key, _)| format!("{key} = \"interpolated: a plain drive\"\n")).collect();
    format!("name = \"plain\"\ndescription = \"plain\"\n{lines}[sources]\n{sources}")
}
