//! Tests of the geometry: the thesis's figure, and bijections under every scheme and defect list.

use std::collections::BTreeSet;

use super::*;
use proptest::prelude::*;

fn zone(first_cylinder: u32, track_sectors: u32) -> Zone {
    Zone {
        first_cylinder,
        cylinders: 3,
        track_sectors,
        track_skew: 20,
        cylinder_skew: 35,
        spares: 5,
        ..Zone::default()
    }
}

fn two_zones() -> Geometry {
    let sparing = Sparing::SectorsPerZone { slip_to_end: false };
    Geometry::new(2, TrackOrder::Cylinder, sparing, vec![zone(0, 200), zone(3, 100)], None).unwrap()
}

#[test]
fn blocks_run_down_the_cylinder_and_tracks_are_skewed() {
    // Figure 3.4 of the thesis: 200 sectors, skew 20.
    let disk = two_zones();
    let at = |lbn| disk.track(Lbn(lbn)).unwrap();
    assert_eq!((at(0).cylinder, at(0).head, at(0).origin_sector), (0, 0, 0));
    assert_eq!((at(200).cylinder, at(200).head, at(200).origin_sector), (0, 1, 20));
    assert_eq!((at(400).cylinder, at(400).head, at(400).origin_sector), (1, 0, 55));
    assert_eq!((at(0).next_skew, at(200).next_skew), (20, 35));
    assert_eq!(at(1199 - 5).blocks.count, BlockCount(195), "spares hold no blocks");
    assert_eq!((at(1195).cylinder, at(1195).sectors), (3, 100));
    assert_eq!(disk.capacity(), BlockCount(1195 + 595));
    assert!(disk.track(Lbn(1790)).is_none());
    assert_eq!(disk.cylinder_end(Lbn(3)), Some(Lbn(400)));
}

#[test]
fn a_slipped_sector_moves_the_blocks_behind_it_as_in_figure_3_4() {
    // "a defect between the sectors with LBNs 580 and 581 ... the first LBN on the following track
    // is 599 instead of 600", thesis 3.2.2.
    let mut outer = zone(0, 200);
    outer.defects.slipped = vec![581];
    let sparing = Sparing::SectorsPerZone { slip_to_end: false };
    let disk = Geometry::new(2, TrackOrder::Cylinder, sparing, vec![outer], None).unwrap();
    assert_eq!(disk.locate(Lbn(580)).unwrap().sector, 180);
    assert_eq!(disk.locate(Lbn(581)).unwrap().sector, 182);
    assert_eq!(disk.track(Lbn(590)).unwrap().blocks.end(), Lbn(599));
    let run = disk.extent(BlockRange::new(Lbn(570), BlockCount(50))).unwrap();
    assert_eq!((run.blocks, run.lead), (BlockCount(11), 170));
}

#[test]
fn a_remapped_sector_is_an_excursion_to_its_spare() {
    let mut outer = zone(0, 200);
    outer.defects.remapped = vec![(50, 1195)];
    let sparing = Sparing::SectorsPerZone { slip_to_end: false };
    let disk = Geometry::new(2, TrackOrder::Cylinder, sparing, vec![outer], None).unwrap();
    let run = |lbn| {
        let run = disk.extent(BlockRange::new(Lbn(lbn), BlockCount(100))).unwrap();
        (run.cylinder, run.head, run.blocks.0)
    };
    assert_eq!([run(40), run(50), run(51)], [(0, 0, 10), (2, 1, 1), (0, 0, 100)]);
    assert_eq!(disk.track(Lbn(50)).unwrap().blocks, BlockRange::new(Lbn(0), BlockCount(200)));
}

#[test]
fn surfaces_are_followed_over_a_group_of_cylinders_and_back() {
    let order = TrackOrder::SurfaceSerpentine { cylinders: 2 };
    let disk =
        Geometry::new(2, order, Sparing::None, vec![Zone { spares: 0, ..zone(0, 100) }], None);
    let disk = disk.unwrap();
    let tracks: Vec<_> = (0..6)
        .map(|track| disk.track(Lbn(track * 100)).unwrap())
        .map(|track| (track.cylinder, track.head, track.origin_sector, track.next_skew))
        .collect();
    let expected = [(0, 0, 0, 35), (1, 0, 35, 20), (1, 1, 55, 35), (0, 1, 90, 35)];
    assert_eq!(tracks[..4], expected);
    assert_eq!((tracks[4].0, tracks[4].1, tracks[5].0, tracks[5].1), (2, 0, 2, 1));
}

#[test]
fn block_numbers_have_64_bits() {
    // 30 TB in blocks of 512 bytes.
    let zone = |first_cylinder, track_sectors| Zone {
        first_cylinder,
        cylinders: 300_000,
        track_sectors,
        track_skew: 900,
        cylinder_skew: 700,
        spares: 1000,
        defects: Defects { slipped: vec![5, 20_000_000_001], remapped: Vec::new() },
        ..Zone::default()
    };
    let order = TrackOrder::SurfaceSerpentine { cylinders: 300 };
    let zones = vec![zone(0, 6000), zone(300_000, 4000)];
    let sparing = Sparing::SectorsPerZone { slip_to_end: false };
    let disk = Geometry::new(20, order, sparing, zones, None).unwrap();
    assert_eq!(disk.capacity(), BlockCount(20 * 300_000 * 10_000 - 2000));
    for lbn in (0..disk.capacity().0).step_by(59_999_999) {
        let place = disk.locate(Lbn(lbn)).unwrap();
        assert_eq!(disk.lbn_at(place), Some(Lbn(lbn)), "{place:?}");
    }
}

#[test]
fn what_does_not_fit_is_an_error_that_names_the_zone() {
    let check = |sparing, change: fn(&mut Zone), expected: &str| {
        let mut bad = zone(3, 100);
        change(&mut bad);
        let zones = vec![zone(0, 200), bad];
        let error = Geometry::new(2, TrackOrder::Cylinder, sparing, zones, None).unwrap_err();
        assert!(error.to_string().starts_with("zone 1: "), "{error}");
        assert!(error.problem.contains(expected), "{error}");
    };
    let per_zone = Sparing::SectorsPerZone { slip_to_end: false };
    check(per_zone, |zone| zone.spares = 600, "spares: 600");
    check(per_zone, |zone| zone.reserved_sectors = 595, "reserved_sectors: 595 of 595");
    check(per_zone, |zone| zone.defects.slipped = vec![9, 4], "must ascend");
    check(per_zone, |zone| zone.defects.slipped = vec![600], "which has 600 places");
    check(per_zone, |zone| zone.defects.remapped = vec![(1, 2)], "which is not a spare");
    check(per_zone, |zone| zone.spare_cylinders = 3, "spare_cylinders: 3 of 3");
    check(Sparing::TracksPerZone, |zone| zone.spares = 6, "spares: 6");
}

/// Any scheme, with as many spares and bad places as it may have.
fn any_geometry() -> impl Strategy<Value = Geometry> {
    let sparing = prop_oneof![
        Just(Sparing::None),
        Just(Sparing::TracksPerZone),
        Just(Sparing::SectorsPerTrack),
        (any::<bool>(), any::<bool>())
            .prop_map(|(front, slip_to_end)| Sparing::SectorsPerCylinder { front, slip_to_end }),
        (1u32..4).prop_map(|cylinders| Sparing::SectorsPerCylinders { cylinders }),
        any::<bool>().prop_map(|slip_to_end| Sparing::SectorsPerZone { slip_to_end }),
        Just(Sparing::EndOfDisk),
    ];
    let order = prop_oneof![
        Just(TrackOrder::Cylinder),
        any::<bool>().prop_map(|restart| TrackOrder::CylinderSerpentine { restart }),
        (1u32..4).prop_map(|cylinders| TrackOrder::SurfaceSerpentine { cylinders }),
    ];
    let zones = prop::collection::vec(any_zone(), 1..3);
    (1u32..4, order, sparing, zones).prop_filter_map(
        "defects fit",
        |(heads, order, sparing, mut zones)| {
            let mut next = 0;
            for zone in &mut zones {
                zone.first_cylinder += next;
                next = zone.first_cylinder + zone.cylinders;
                if sparing == Sparing::None || sparing == Sparing::EndOfDisk {
                    zone.spares = 0;
                }
                add_remaps(heads, order, sparing, zone);
            }
            Geometry::new(heads, order, sparing, zones, None).ok()
        },
    )
}

fn any_zone() -> impl Strategy<Value = Zone> {
    let slips = prop::collection::btree_set(0u64..60, 0..5);
    (0u32..3, 1u32..7, 4u32..13, (0u64..4, 0u64..9), (0u32..2, 0u32..4), slips).prop_map(
        |(gap, cylinders, track_sectors, (spares, reserved), (spare_cylinders, group), slipped)| {
            Zone {
                first_cylinder: gap,
                cylinders,
                track_sectors,
                track_skew: 2,
                cylinder_skew: 3,
                origin_sector: 1,
                reserved_sectors: reserved,
                spares,
                spare_cylinders,
                spare_group_cylinders: group,
                defects: Defects { slipped: slipped.into_iter().collect(), remapped: Vec::new() },
            }
        },
    )
}

/// Remaps the first block of the zone to its first free spare, if it has one.
fn add_remaps(heads: u32, order: TrackOrder, sparing: Sparing, zone: &mut Zone) {
    let plain = Geometry::new(heads, order, sparing, vec![zone.clone()], None);
    let Some(mapped) = plain.ok().and_then(|disk| disk.zones.into_iter().next()) else { return };
    let held: BTreeSet<u64> = (0..mapped.blocks().count.0)
        .map(|block| mapped.physical(mapped.blocks().first + BlockCount(block)))
        .collect();
    let granule = if sparing == Sparing::TracksPerZone { u64::from(zone.track_sectors) } else { 1 };
    let places = u64::from(heads) * u64::from(zone.cylinders) * u64::from(zone.track_sectors);
    let holds = |place: u64| (0..granule).any(|offset| held.contains(&(place * granule + offset)));
    let is_spare = |place: u64| !holds(place) && !zone.defects.slipped.contains(&place);
    let spare = (0..places / granule).rev().find(|place| is_spare(*place));
    let Some(first) = held.first().map(|sector| sector / granule) else { return };
    if let Some(spare) = spare.filter(|spare| *spare > first) {
        let before = zone.defects.clone();
        zone.defects.remapped = vec![(first, spare)];
        if Geometry::new(heads, order, sparing, vec![zone.clone()], None).is_err() {
            zone.defects = before;
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(512))]

    /// Invariant 1.
    #[test]
    fn locating_is_a_bijection(disk in any_geometry()) {
        let mut seen = BTreeSet::new();
        for lbn in 0..disk.capacity().0 {
            let place = disk.locate(Lbn(lbn)).unwrap();
            prop_assert!(seen.insert((place.cylinder, place.head, place.sector)), "{place:?} twice");
            prop_assert_eq!(disk.lbn_at(place), Some(Lbn(lbn)));
        }
        let sectors = disk.zones().map(|zone| zone.track_sectors).max().unwrap();
        for cylinder in 0..disk.cylinders() + 1 {
            for head in 0..disk.heads() + 1 {
                for sector in 0..sectors + 1 {
                    let held = disk.lbn_at(Location { cylinder, head, sector });
                    prop_assert_eq!(held.is_some(), seen.contains(&(cylinder, head, sector)));
                }
            }
        }
        prop_assert!(disk.locate(Lbn(disk.capacity().0)).is_none());
    }

    /// Invariant 2, and extents that say where each block is.
    #[test]
    fn tracks_tile_the_disk_and_extents_agree_with_locations(disk in any_geometry()) {
        let mut lbn = Lbn(0);
        while let Some(track) = disk.track(lbn) {
            prop_assert_eq!(track.blocks.first, lbn);
            prop_assert!(!track.blocks.is_empty());
            prop_assert!(track.blocks.count.0 <= u64::from(track.sectors));
            lbn = track.blocks.end();
        }
        prop_assert_eq!(lbn, Lbn(disk.capacity().0));

        let mut rest = BlockRange::new(Lbn(0), disk.capacity());
        while let Some(extent) = disk.extent(rest) {
            prop_assert!(extent.blocks > BlockCount::ZERO);
            let place = disk.locate(rest.first).unwrap();
            prop_assert_eq!((extent.cylinder, extent.head), (place.cylinder, place.head));
            for step in 0..extent.blocks.0 {
                let next = disk.locate(rest.first + BlockCount(step)).unwrap();
                prop_assert_eq!(next, Location { sector: place.sector + step as u32, ..place });
            }
            for step in 1..=u64::from(extent.lead) {
                let before = disk.locate(Lbn(rest.first.0 - step)).unwrap();
                prop_assert_eq!(before, Location { sector: place.sector - step as u32, ..place });
            }
            rest = BlockRange::between(rest.first + extent.blocks, rest.end());
        }
        prop_assert!(rest.is_empty());
    }
}
