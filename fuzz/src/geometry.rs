//! The promises of a geometry, for some blocks of each of its first zones.

use moirai_models::Geometry;
use moirai_units::{BlockCount, BlockRange, Lbn};

/// A disk of a hundred thousand zones is valid, and all of them would take long.
const ZONES_MAX: usize = 16;

/// Checks that blocks are where the tracks say and nowhere else.
pub(crate) fn check(geometry: &Geometry) {
    let end = Lbn(geometry.capacity().0);
    assert!(geometry.locate(end).is_none(), "the disk ends with its capacity");
    for zone in geometry.zone_blocks().take(ZONES_MAX) {
        let last = zone.count.0.saturating_sub(1);
        for place in [0, 1, 2, last / 3, last / 2, last.saturating_sub(1), last] {
            let lbn = zone.first + BlockCount(place.min(last));
            if lbn < end {
                check_block(geometry, lbn);
            }
        }
    }
}

fn check_block(geometry: &Geometry, lbn: Lbn) {
    let location = geometry.locate(lbn);
    let found = location.and_then(|location| geometry.lbn_at(location));
    assert_eq!(found, Some(lbn), "at {location:?}");

    let track = geometry.track(lbn);
    assert!(track.is_some_and(|track| track.blocks.contains(lbn)), "{lbn} is on {track:?}");
    let cylinder_end = geometry.cylinder_end(lbn);
    assert!(cylinder_end.is_some_and(|end| end > lbn), "{lbn}: cylinder ends at {cylinder_end:?}");

    let wanted = BlockCount(100);
    let extent = geometry.extent(BlockRange::new(lbn, wanted));
    let is_some_of_them =
        extent.is_some_and(|extent| (BlockCount(1)..=wanted).contains(&extent.blocks));
    assert!(is_some_of_them, "{lbn}: {extent:?}");
}
