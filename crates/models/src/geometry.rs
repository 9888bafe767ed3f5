//! Disk geometry: zones of tracks, and where on the platter each block lies.
//!
//! Blocks are numbered down the cylinder: all tracks of a cylinder, head by head, then the next
//! cylinder inwards (thesis 3.2.2). A track starts `track_skew` sectors later than the one before,
//! or `cylinder_skew` when the cylinder changes, so that a sequential access loses no revolution.

use moirai_units::{BlockCount, BlockRange, Lbn};

/// Cylinders whose tracks have the same number of sectors.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Zone {
    /// The outermost cylinder of the zone.
    pub first_cylinder: u32,
    /// How many cylinders.
    pub cylinders: u32,
    /// Sectors on each track, N.
    pub track_sectors: u32,
    /// Sectors that pass while the next head takes over, H.
    pub track_skew: u32,
    /// Sectors that pass while the arm moves to the next cylinder.
    pub cylinder_skew: u32,
    /// Sectors at the end of the zone that hold no blocks.
    pub spare_sectors: u32,
}

/// A disk's zones, with the block numbers that follow from them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Geometry {
    heads: u32,
    capacity: BlockCount,
    zones: Vec<Zone>,
    /// First block of each zone.
    zone_firsts: Vec<Lbn>,
}

/// One track and the blocks on it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Track {
    /// Cylinder, counted from the rim.
    pub cylinder: u32,
    /// Head, which is also the surface.
    pub head: u32,
    /// Sectors round the track.
    pub sectors: u32,
    /// Where the first block lies, in sectors from the index mark.
    pub origin_sector: u32,
    /// The blocks on the track; fewer than the sectors where spares follow.
    pub blocks: BlockRange,
    /// Skew to the next track, in sectors.
    pub next_skew: u32,
}

impl Geometry {
    /// Numbers the blocks of `zones`, which follow each other from the rim inwards. The disk ends
    /// after `capacity` blocks, or with its last sector.
    #[must_use]
    pub fn new(heads: u32, zones: Vec<Zone>, capacity: Option<BlockCount>) -> Geometry {
        let mut zone_firsts = Vec::with_capacity(zones.len());
        let mut next = Lbn(0);
        for zone in &zones {
            zone_firsts.push(next);
            next += zone_blocks(zone, heads);
        }
        let all = next.since(Lbn(0));
        Geometry {
            heads,
            capacity: capacity.map_or(all, |given| given.min(all)),
            zones,
            zone_firsts,
        }
    }

    /// Blocks on the disk.
    #[must_use]
    pub fn capacity(&self) -> BlockCount {
        self.capacity
    }

    /// The zones from the rim inwards.
    #[must_use]
    pub fn zones(&self) -> &[Zone] {
        &self.zones
    }

    /// Heads, which are also the tracks of a cylinder.
    #[must_use]
    pub fn heads(&self) -> u32 {
        self.heads
    }

    /// Cylinders of the disk.
    #[must_use]
    pub fn cylinders(&self) -> u32 {
        self.zones.iter().map(|zone| zone.cylinders).sum()
    }

    /// The track that `lbn` lies on; `None` past the end of the disk.
    #[must_use]
    pub fn track(&self, lbn: Lbn) -> Option<Track> {
        if lbn.0 >= self.capacity.0 {
            return None;
        }
        let index = self.zone_firsts.partition_point(|first| *first <= lbn) - 1;
        let (zone, zone_first) = (self.zones.get(index)?, *self.zone_firsts.get(index)?);
        let track_sectors = u64::from(zone.track_sectors);
        let heads = u64::from(self.heads);

        let track_in_zone = lbn.since(zone_first).0 / track_sectors;
        let (cylinder_in_zone, head) = (track_in_zone / heads, track_in_zone % heads);
        let cylinder_turn =
            (heads - 1) * u64::from(zone.track_skew) + u64::from(zone.cylinder_skew);
        let turned = cylinder_in_zone * cylinder_turn + head * u64::from(zone.track_skew);

        let first = zone_first + BlockCount(track_in_zone * track_sectors);
        let zone_end = zone_first + zone_blocks(zone, self.heads);
        let end = (first + BlockCount(track_sectors)).min(zone_end).min(Lbn(self.capacity.0));
        Some(Track {
            cylinder: zone.first_cylinder + cylinder_in_zone as u32,
            head: head as u32,
            sectors: zone.track_sectors,
            origin_sector: (turned % track_sectors) as u32,
            blocks: BlockRange::between(first, end),
            next_skew: if head + 1 == heads { zone.cylinder_skew } else { zone.track_skew },
        })
    }
}

fn zone_blocks(zone: &Zone, heads: u32) -> BlockCount {
    let sectors = u64::from(zone.cylinders) * u64::from(heads) * u64::from(zone.track_sectors);
    BlockCount(sectors - u64::from(zone.spare_sectors))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn two_zones() -> Geometry {
        let zone = |first_cylinder, track_sectors| Zone {
            first_cylinder,
            cylinders: 3,
            track_sectors,
            track_skew: 20,
            cylinder_skew: 35,
            spare_sectors: 5,
        };
        Geometry::new(2, vec![zone(0, 200), zone(3, 100)], None)
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
    }

    proptest! {
        #[test]
        fn tracks_tile_the_disk(lbn in 0u64..1790) {
            let disk = two_zones();
            let track = disk.track(Lbn(lbn)).unwrap();
            prop_assert!(track.blocks.contains(Lbn(lbn)));
            prop_assert!(track.blocks.count.0 <= u64::from(track.sectors));
            if let Some(next) = disk.track(track.blocks.end()) {
                prop_assert_eq!(next.blocks.first, track.blocks.end());
                prop_assert_ne!((next.cylinder, next.head), (track.cylinder, track.head));
            }
        }
    }
}
