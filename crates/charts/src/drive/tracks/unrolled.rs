//! The blocks of a track as stretches of one revolution.

use moirai_models::{Extent, Geometry, Track};

/// A gap of a smaller part of a revolution is too small to see.
const GAP_MIN: f64 = 1.0 / 4000.0;

/// The angles of the blocks of a track, as parts of a revolution after the index mark.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Unrolled {
    /// The start and the end of each stretch with blocks.
    pub(super) pieces: Vec<(f64, f64)>,
    /// The start of the first block; none if all blocks are remapped to other tracks.
    pub(super) first: Option<f64>,
    /// The end of the last block, more than 0.
    pub(super) end: Option<f64>,
}

impl Unrolled {
    pub(super) fn new(geometry: &Geometry, track: &Track) -> Unrolled {
        let mut unrolled = Unrolled { pieces: Vec::new(), first: None, end: None };
        let mut left = track.blocks;
        while !left.is_empty() {
            let Some(extent) = geometry.extent(left).filter(|extent| extent.blocks.0 > 0) else {
                break;
            };
            // Leaves out blocks remapped to other tracks.
            if (extent.cylinder, extent.head) == (track.cylinder, track.head) {
                unrolled.add(&extent);
            }
            left = left.split_at(left.first + extent.blocks).1;
        }
        unrolled
    }

    fn add(&mut self, extent: &Extent) {
        let sectors = f64::from(extent.track_sectors.max(1));
        let from = f64::from(extent.angle_sector) / sectors;
        let to = from + extent.blocks.0 as f64 / sectors;
        self.first = self.first.or(Some(from));
        if to > 1.0 {
            self.piece(from, 1.0);
            self.piece(0.0, to - 1.0);
            self.end = Some(to - 1.0);
        } else {
            self.piece(from, to);
            self.end = Some(to);
        }
    }

    fn piece(&mut self, from: f64, to: f64) {
        match self.pieces.last_mut() {
            Some((_, end)) if (0.0..GAP_MIN).contains(&(from - *end)) => *end = to,
            _ => self.pieces.push((from, to)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use moirai_models::{Defects, Sparing, TrackOrder, Zone};
    use moirai_units::Lbn;

    #[test]
    fn unrolled_track_leaves_out_bad_and_reserved_sectors() {
        let zone = Zone {
            cylinders: 2,
            track_sectors: 10,
            cylinder_skew: 3,
            origin_sector: 4,
            reserved_sectors: 1,
            spares: 2,
            defects: Defects { slipped: vec![3], remapped: vec![(11, 19)] },
            ..Zone::default()
        };
        let sparing = Sparing::SectorsPerTrack;
        let geometry = Geometry::new(1, TrackOrder::Cylinder, sparing, vec![zone], None).unwrap();
        let check = |lbn, pieces: &[(f64, f64)], first, end| {
            let unrolled = Unrolled::new(&geometry, &geometry.track(Lbn(lbn)).unwrap());
            let rounded = |value: f64| (value * 100.0).round() / 100.0;
            let found: Vec<_> =
                unrolled.pieces.iter().map(|(a, b)| (rounded(*a), rounded(*b))).collect();
            assert_eq!(found, pieces);
            assert_eq!(unrolled.first.map(rounded), Some(first));
            assert_eq!(unrolled.end.map(rounded), Some(end));
        };
        // Sectors 1, 2, 4 to 8 of the first track, which begins at 4.
        check(0, &[(0.5, 0.7), (0.8, 1.0), (0.0, 0.3)], 0.5, 0.3);
        // The second track begins at 4 + 3 + 1, for the slip; its second block is remapped to its last sector.
        let second = geometry.track(Lbn(7)).unwrap();
        assert_eq!(second.origin_sector, 8);
        check(7, &[(0.8, 0.9), (0.7, 0.8), (0.0, 0.6)], 0.8, 0.6);
    }
}
