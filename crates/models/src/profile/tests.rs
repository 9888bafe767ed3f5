//! Tests of profiles: the built-in ones against published figures, and what is refused.

use super::*;
use crate::Direction;

#[test]
fn built_in_profiles_are_valid_and_named_after_themselves() {
    for name in built_in_names() {
        assert_eq!(Profile::built_in(name).unwrap().file.name, name);
    }
    assert!(Profile::built_in("quantum-fireball").is_none());
}

/// Thesis table 3.1: name, tracks, sectors per track, capacity in GB, average seek in ms.
#[test]
fn built_in_profiles_agree_with_table_3_1() {
    let check = |name, tracks, outer, inner, gb: f64, average_seek_ms: f64| {
        let profile = Profile::built_in(name).unwrap();
        let geometry = &profile.geometry;
        let zones: Vec<_> = geometry.zones().collect();
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
            let time_of = |skew| Nanos(mechanics.sector_angle_ps(skew, zone.track_sectors) / 1000);
            let switch = mechanics.positioning(0, true, Direction::Write).head_switch;
            let seek = mechanics.positioning(1, true, Direction::Write).seek;
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
    assert!(profile.mechanics.zero_latency_read);
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
    check("published: ", "guessed: ", "begins with `published: `");
    check("track_skew = 139", "track_skew = 9999", "`zones[0].track_skew`: 9999");
}
