//! Tests of profiles: the built-in ones against published figures, and what is refused.

use super::*;
use crate::{Direction, Disk, DiskRequest, Scheduler, TrackOrder};
use moirai_units::{BlockRange, Instant, Lbn};

#[test]
fn built_in_profiles_are_valid_and_named_after_themselves() {
    for name in built_in_names() {
        assert_eq!(Profile::built_in(name).unwrap().file.name, name);
    }
    assert!(Profile::built_in("quantum-fireball").is_none());
}

/// What thesis table 3.1 has of a disk, but its year: rpm, head switch and average seek in ms,
/// sectors per track, tracks, capacity in GB.
#[derive(Debug)]
struct Row {
    rpm: f64,
    head_switch_ms: f64,
    average_seek_ms: f64,
    outer_sectors: u32,
    inner_sectors: u32,
    tracks: u32,
    gb: f64,
}

fn row(name: &str) -> Row {
    let profile = Profile::built_in(name).unwrap();
    let geometry = &profile.geometry;
    let zones: Vec<_> = geometry.zones().collect();
    Row {
        rpm: profile.file.rotation_rpm,
        head_switch_ms: profile.mechanics.head_switch.as_ms(),
        // The table's average seek is the one over a third of the cylinders.
        average_seek_ms: profile.mechanics.seek.time(geometry.cylinders() / 3).as_ms(),
        outer_sectors: zones[0].track_sectors,
        inner_sectors: zones[zones.len() - 1].track_sectors,
        tracks: geometry.cylinders() * geometry.heads(),
        gb: geometry.capacity().bytes().0 as f64 / 1e9,
    }
}

fn is_near(value: f64, expected: f64, part: f64) -> bool {
    (value / expected - 1.0).abs() <= part
}

#[test]
fn built_in_profiles_agree_with_table_3_1() {
    let check = |name, rpm, switch_ms: f64, seek_ms, (outer, inner), tracks, gb| {
        let row = row(name);
        assert_eq!(row.rpm, rpm, "{name}");
        assert_eq!((row.outer_sectors, row.inner_sectors), (outer, inner), "{name}");
        assert_eq!(row.tracks, tracks, "{name}");
        assert!(is_near(row.gb, gb, 0.03), "{name} {row:?}");
        assert!(is_near(row.average_seek_ms, seek_ms, 0.02), "{name} {row:?}");
        // The table rounds, to whole ms for old drives.
        assert!((row.head_switch_ms - switch_ms).abs() < 0.12, "{name} {row:?}");
    };
    check("hp-c2247", 5400.0, 1.0, 10.0, (96, 56), 25_649, 1.0);
    check("quantum-viking", 7200.0, 1.0, 8.0, (216, 126), 49_152, 4.5);
    check("ibm-ultrastar-18es", 7200.0, 1.1, 7.6, (390, 247), 57_090, 9.0);
    check("ibm-ultrastar-18lzx", 10_000.0, 0.8, 5.9, (382, 195), 116_340, 18.0);
    check("fujitsu-mag3091", 10_025.0, 0.7, 5.2, (420, 273), 49_125, 9.0);
    check("quantum-atlas-10k-ii", 10_000.0, 0.6, 4.7, (528, 353), 52_014, 9.0);
    check("seagate-cheetah-x15", 15_000.0, 0.8, 3.9, (386, 286), 103_750, 18.0);
    check("seagate-cheetah-36es", 10_028.0, 0.6, 5.2, (738, 574), 105_208, 36.0);
    check("maxtor-atlas-10k-iii", 10_000.0, 0.6, 4.5, (686, 396), 124_088, 36.0);
    check("fujitsu-man3367mp", 10_025.0, 0.6, 4.5, (738, 450), 118_776, 36.0);
    // The eleventh is as extracted, which differs: the switch alone takes 0.176 ms, and a skew of
    // 63 sectors covers the 0.8 ms that the table has.
    let atlas = row("quantum-atlas-10k");
    assert!(is_near(atlas.rpm, 10_000.0, 0.003), "{atlas:?}");
    assert_eq!((atlas.outer_sectors, atlas.inner_sectors), (334, 229));
    assert!(is_near(f64::from(atlas.inner_sectors), 224.0, 0.03), "{atlas:?}");
    assert!(is_near(f64::from(atlas.tracks), 60_126.0, 0.003), "{atlas:?}");
    assert!(is_near(atlas.gb, 9.0, 0.03), "{atlas:?}");
    assert!(is_near(atlas.average_seek_ms, 5.0, 0.15), "{atlas:?}");
}

/// Track skews of the outermost zones, from which thesis table 6.2 follows. The Atlas 10K has 63
/// where the table needs 64.
#[test]
fn outermost_skews_are_those_of_table_6_2() {
    let check = |name, sectors, skew| {
        let geometry = Profile::built_in(name).unwrap().geometry;
        let zone = geometry.zones().next().unwrap();
        assert_eq!((zone.track_sectors, zone.track_skew), (sectors, skew), "{name}");
    };
    check("hp-c2247", 96, 14);
    check("ibm-ultrastar-18es", 390, 59);
    check("quantum-atlas-10k-ii", 528, 99);
    check("seagate-cheetah-x15", 386, 72);
    check("seagate-cheetah-36es", 738, 139);
    check("maxtor-atlas-10k-iii", 686, 139);
}

/// Thesis 5.3.1 and 6.3.6: average seeks within the outermost zone.
#[test]
fn seeks_within_the_outermost_zone_are_as_measured() {
    let check = |name, average_ms| {
        let Profile { geometry, mechanics, .. } = Profile::built_in(name).unwrap();
        let cylinders = geometry.zones().next().unwrap().cylinders;
        let weighted = |distance| {
            let pairs = 2.0 * f64::from(cylinders - distance) / f64::from(cylinders).powi(2);
            pairs * mechanics.seek.time(distance).as_ms()
        };
        let average: f64 = (1..cylinders).map(weighted).sum();
        assert!(is_near(average, average_ms, 0.02), "{name}: {average}");
    };
    check("quantum-atlas-10k-ii", 2.2);
    check("maxtor-atlas-10k-iii", 2.46);
}

/// A write that goes on to the next track is there in time: the skew covers seek and settle. The
/// skews of extracted zones are what they are.
#[test]
fn the_skew_of_built_in_profiles_covers_a_switch_and_a_seek() {
    for name in built_in_names() {
        let Profile { file, geometry, mechanics, .. } = Profile::built_in(name).unwrap();
        if file.sources["zones"].starts_with("extracted: ") {
            continue;
        }
        // Along a surface the arm moves without a head switch.
        let switches_head = !matches!(geometry.order(), TrackOrder::SurfaceSerpentine { .. });
        for zone in geometry.zones() {
            let time_of = |skew| Nanos(mechanics.sector_angle_ps(skew, zone.track_sectors) / 1000);
            let switch = mechanics.positioning(0, true, Direction::Write).head_switch;
            let seek = mechanics.positioning(1, switches_head, Direction::Write).seek;
            assert!(switch <= time_of(zone.track_skew), "{name}: {zone:?}");
            assert!(seek <= time_of(zone.cylinder_skew), "{name}: {zone:?}");
        }
    }
}

#[test]
fn capacities_are_known_to_the_block() {
    let check = |name, blocks, rpm| {
        let profile = Profile::built_in(name).unwrap();
        assert_eq!(profile.geometry.capacity(), BlockCount(blocks), "{name}");
        assert_eq!(profile.file.rotation_rpm, rpm, "{name}");
    };
    check("dec-rz26", 2_050_860, 5360.0);
    check("fujitsu-mag3091", 17_827_698, 10_025.0);
    check("fujitsu-maj3182mc", 35_694_904, 10_025.0);
    check("fujitsu-man3367mp", 71_771_688, 10_025.0);
    check("hp-c3323a", 2_056_008, 5396.0);
    check("ibm-deskstar-dtla-307030", 60_036_480, 7200.0);
    check("ibm-ultrastar-18es", 17_916_240, 7200.0);
    check("ibm-ultrastar-18lzx", 35_843_670, 10_000.0);
    check("modern-20tb-7200", 39_063_650_304, 7200.0);
    check("quantum-atlas-10k", 17_938_986, 10_025.0);
    check("quantum-atlas-10k-extracted", 17_938_986, 10_025.0);
    check("quantum-atlas-10k-ii", 17_783_239, 10_000.0);
    check("quantum-viking", 8_899_737, 7200.0);
    check("seagate-barracuda-4lp", 4_110_000, 7200.0);
    check("seagate-cheetah-4lp", 8_887_200, 10_033.0);
    check("seagate-cheetah-x15", 35_843_671, 15_000.0);
}

/// The rates at the rim that data sheets have, in bytes a second: while the head is on the track
/// for the MAJ3182MC, and with the way to the next track for the others.
#[test]
fn rates_at_the_rim_are_as_published() {
    let check = |name, with_skew, expected: f64| {
        let Profile { geometry, mechanics, .. } = Profile::built_in(name).unwrap();
        let zone = geometry.zones().next().unwrap();
        let sectors = zone.track_sectors + if with_skew { zone.cylinder_skew } else { 0 };
        let seconds = mechanics.span_ps(u64::from(sectors), zone.track_sectors) as f64 / 1e12;
        let rate = BLOCK_BYTES as f64 * f64::from(zone.track_sectors) / seconds;
        assert!(is_near(rate, expected, 0.001), "{name}: {rate}");
    };
    check("fujitsu-maj3182mc", false, 39.16 * f64::from(1 << 20));
    check("ibm-deskstar-dtla-307030", true, 37e6);
    check("modern-20tb-7200", true, 285e6);
}

/// One read at a time, each behind the one before, goes at the rate of the media: caches whose
/// settings are ours keep up with a stream.
#[test]
fn caches_keep_up_with_a_stream() {
    let check = |name, expected: f64| {
        let mut disk = Disk::new(Profile::built_in(name).unwrap(), Scheduler::Fcfs);
        let (blocks, requests) = (BlockCount(256), 1000);
        let mut completions = Vec::new();
        let mut now = Instant::ZERO;
        for id in 0..requests {
            let blocks = BlockRange::new(Lbn(id * blocks.0), blocks);
            disk.submit(now, DiskRequest { id, direction: Direction::Read, blocks });
            while completions.len() as u64 <= id {
                disk.advance(disk.next_event().unwrap(), &mut completions);
            }
            now = completions.last().unwrap().finished;
        }
        let bytes = (requests * blocks.0 * BLOCK_BYTES) as f64;
        let rate = bytes / now.since(Instant::ZERO).as_ms() * 1e3;
        assert!(is_near(rate, expected, 0.03), "{name}: {rate}");
    };
    check("ibm-deskstar-dtla-307030", 37e6);
    check("modern-20tb-7200", 285e6);
}

#[test]
fn seek_figures_are_as_published() {
    let check = |name, single_ms: f64, average_ms, full_ms| {
        let Profile { geometry, mechanics, .. } = Profile::built_in(name).unwrap();
        let ms = |distance| mechanics.seek.time(distance).as_ms();
        assert_eq!(ms(1), single_ms, "{name}");
        assert!(is_near(ms(geometry.cylinders() / 3), average_ms, 0.001), "{name}");
        assert!(is_near(ms(geometry.cylinders() - 1), full_ms, 0.001), "{name}");
    };
    check("fujitsu-maj3182mc", 0.6, 4.7, 11.0);
    check("ibm-deskstar-dtla-307030", 1.2, 8.5, 15.0);
    check("modern-20tb-7200", 0.6, 8.5, 16.0);
}

/// Its physical sectors are of eight blocks, which no track, skew or spare divides, and its zones
/// hold what the drive holds without being cut short.
#[test]
fn the_modern_drive_is_made_of_4_kib_sectors() {
    let profile = Profile::built_in("modern-20tb-7200").unwrap();
    assert_eq!(profile.file.capacity_blocks, None);
    for zone in profile.geometry.zones() {
        let counts = [zone.track_sectors, zone.track_skew, zone.cylinder_skew];
        assert!(counts.iter().all(|count| count % 8 == 0) && zone.spares % 8 == 0, "{zone:?}");
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
    assert!(profile.mechanics.zero_latency_read);
}

/// Where the data lie, the five extracted drives are what the importer makes of their files. What
/// the files do not have is set aside: the bus of two, and what the cache of two gives up.
#[test]
fn extracted_profiles_equal_what_the_importer_makes() {
    let drives = concat!(env!("CARGO_MANIFEST_DIR"), "/../../../shared/data/drives");
    if !std::path::Path::new(drives).exists() {
        return;
    }
    let check = |name, folder, file| {
        let mut load = |path: &str| std::fs::read_to_string(format!("{drives}/{folder}/{path}"));
        let imported = crate::diskspecs::import(file, None, &mut load).unwrap();
        let expected = Profile::new(imported.profile).unwrap();
        let profile = Profile::built_in(name).unwrap();
        assert_eq!(profile.geometry, expected.geometry, "{name}");
        assert_eq!(profile.mechanics, expected.mechanics, "{name}");
        let mut electronics = profile.electronics;
        if imported.bus_assumed {
            electronics.bus_sector = expected.electronics.bus_sector;
            electronics.write_bus_sector = expected.electronics.write_bus_sector;
        }
        let caches = electronics.cache.as_mut().zip(expected.electronics.cache.as_ref());
        let (cache, imported) = caches.unwrap();
        cache.discard_sent = imported.discard_sent;
        cache.write_drops_reads = imported.write_drops_reads;
        assert_eq!(electronics, expected.electronics, "{name}");
    };
    check("quantum-atlas-10k-extracted", "atlas10k", "atlas10k.diskspecs");
    check("seagate-cheetah-4lp", "cheetah4LP", "cheetah4LP.diskspecs");
    check("seagate-barracuda-4lp", "barracuda", "barracuda.diskspecs");
    check("dec-rz26", "dec_rz26", "dec_rz26.diskspecs");
    check("hp-c3323a", "hp_c3323a", "hp_c3323a_validate.diskspecs");
}

/// Measured traces of these four drives: what a sector takes on the bus, and what the cache gives
/// up.
#[test]
fn traces_complete_what_was_extracted() {
    let bus = |name, sector_ns: u64| {
        let electronics = Profile::built_in(name).unwrap().electronics;
        assert!(electronics.bus_sector.0.abs_diff(sector_ns) < 10, "{name}");
    };
    bus("dec-rz26", 70_800);
    bus("hp-c3323a", 145_500);
    for name in ["seagate-cheetah-4lp", "seagate-barracuda-4lp"] {
        let cache = Profile::built_in(name).unwrap().electronics.cache.unwrap();
        assert!(cache.discard_sent && cache.write_drops_reads, "{name}");
    }
}

#[test]
fn bad_profiles_name_the_key() {
    let good = built_in::text("maxtor-atlas-10k-iii").unwrap();
    let check = |from: &str, to: &str, expected: &str| {
        assert!(good.contains(from), "{from}");
        let error = Profile::parse(&good.replacen(from, to, 1)).unwrap_err().to_string();
        assert!(error.contains(expected), "{error}");
    };
    check("heads = 4", "heads = 0", "`heads`: 0 is not between");
    check("heads = 4", "heads = 4\nfins = 1", "unknown field `fins`");
    check("heads = 4", "", "missing field `heads`");
    check("[1, ", "[2, ", "`seek_ms`: distances must begin with 1");
    check("published: ", "guessed: ", "must begin with `published: `");
    // Goes on as steep as that to the last cylinder.
    check(
        "[23000, 7.6], [31021, 9.6]",
        "[30000, 0.0], [30001, 9000.0]",
        "`seek`: the longest seek",
    );
    check("track_skew = 139", "track_skew = 9999", "`zones[0].track_skew`: 9999");
}
