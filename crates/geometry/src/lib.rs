//! Disk geometry: zones of tracks, and where on the platters each block lies.
//!
//! The layouts that drives are known to have, as plain arithmetic. Models are made of them, and discovery finds out which
//! of them a drive has.
//!
//! Three orders meet here. The *physical* order counts the sectors of a zone along its tracks, in
//! the order in which the drive numbers tracks (`TrackOrder`). The *good* order leaves out what the
//! factory found bad (slipped) and what is kept in reserve (spares). The *logical* order is the good
//! one behind the zone's management area: consecutive LBNs are consecutive good sectors (thesis
//! 3.2.2, 4.2.1). Defects that came later are *remapped*: their LBNs live on a spare.
//!
//! Invariants, held by property tests for every sparing scheme:
//! 1. `locate` is injective, and `lbn_at` is its inverse.
//! 2. Tracks tile the LBNs: every LBN lies in the range of exactly one track, remapped or not.

mod sparing;
mod zone;

use moirai_units::{BlockCount, BlockRange, Lbn, Location};

pub use sparing::Sparing;
pub use zone::{Defects, GeometryError, TrackOrder, Zone};

use zone::MappedZone;

/// A disk's zones, with the block numbers that follow from them.
#[derive(Clone, Debug, PartialEq)]
pub struct Geometry {
    heads: u32,
    order: TrackOrder,
    sparing: Sparing,
    capacity: BlockCount,
    zones: Vec<MappedZone>,
}

/// A place of a zone, counted along its tracks, spare cylinders left out.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Place {
    /// The zone, counted from 0 at the rim.
    pub zone: usize,
    /// The sector, counted from 0 in the zone.
    pub sector: u64,
}

/// A bad place of a disk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BadPlace {
    /// Its first sector.
    pub location: Location,
    /// All of the track is bad.
    pub is_track: bool,
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
    /// Where the track's sector 0 lies, in sectors from the index mark.
    pub origin_sector: u32,
    /// The blocks numbered along the track; fewer than the sectors where spares or bad sectors are.
    pub blocks: BlockRange,
    /// Skew to the next track, in sectors.
    pub next_skew: u32,
}

/// Consecutive blocks on consecutive sectors of one track.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Extent {
    /// Cylinder, counted from the rim.
    pub cylinder: u32,
    /// Head, which is also the surface.
    pub head: u32,
    /// Sectors round the track.
    pub track_sectors: u32,
    /// The first of the extent's sectors, counted from the index mark.
    pub angle_sector: u32,
    /// Blocks, and sectors, of the extent.
    pub blocks: BlockCount,
    /// Sectors of the track before the first one that hold the blocks before it, without a gap.
    pub lead: u32,
}

impl Geometry {
    /// Numbers the blocks of `zones`, which are in order from the rim inwards and may leave
    /// cylinders out. The disk ends after `capacity` blocks, or with its last good sector.
    pub fn new(
        heads: u32,
        order: TrackOrder,
        sparing: Sparing,
        zones: Vec<Zone>,
        capacity: Option<BlockCount>,
    ) -> Result<Geometry, GeometryError> {
        let mut mapped = Vec::with_capacity(zones.len());
        let mut next = Lbn(0);
        for (index, zone) in zones.into_iter().enumerate() {
            let zone = MappedZone::new(index, zone, heads, order, sparing, next)?;
            next = zone.blocks().end();
            mapped.push(zone);
        }
        let all = next.since(Lbn(0));
        Ok(Geometry {
            heads,
            order,
            sparing,
            capacity: capacity.map_or(all, |given| given.min(all)),
            zones: mapped,
        })
    }

    /// Blocks on the disk.
    #[must_use]
    pub fn capacity(&self) -> BlockCount {
        self.capacity
    }

    /// The zones from the rim inwards.
    pub fn zones(&self) -> impl ExactSizeIterator<Item = &Zone> + Clone {
        self.zones.iter().map(MappedZone::zone)
    }

    /// The blocks of each zone, in the order of [`Geometry::zones`].
    pub fn zone_blocks(&self) -> impl ExactSizeIterator<Item = BlockRange> {
        self.zones.iter().map(MappedZone::blocks)
    }

    /// Heads, which are also the tracks of a cylinder.
    #[must_use]
    pub fn heads(&self) -> u32 {
        self.heads
    }

    /// In which order tracks are numbered.
    #[must_use]
    pub fn order(&self) -> TrackOrder {
        self.order
    }

    /// Where the spares are.
    #[must_use]
    pub fn sparing(&self) -> Sparing {
        self.sparing
    }

    /// Cylinders of the disk, those that no zone has included.
    #[must_use]
    pub fn cylinders(&self) -> u32 {
        self.zones().last().map_or(0, |zone| zone.first_cylinder + zone.cylinders)
    }

    /// The place of `lbn`'s sector; `None` past the end of the disk.
    #[must_use]
    pub fn locate(&self, lbn: Lbn) -> Option<Location> {
        let zone = self.zone_of(lbn)?;
        Some(zone.location(zone.physical(lbn)))
    }

    /// Whether `lbn` was moved to a spare; not past the end of the disk.
    #[must_use]
    pub fn is_remapped(&self, lbn: Lbn) -> bool {
        self.zone_of(lbn).is_some_and(|zone| zone.is_remapped(lbn))
    }

    /// The place at `location`; `None` where no zone has one, or on a spare cylinder.
    #[must_use]
    pub fn place(&self, location: Location) -> Option<Place> {
        let zone = self.zone_at(location.cylinder)?;
        let sector = self.zones.get(zone)?.physical_at(location)?;
        Some(Place { zone, sector })
    }

    /// The inverse of [`Geometry::place`].
    #[must_use]
    pub fn location(&self, place: Place) -> Option<Location> {
        let zone = self.zones.get(place.zone)?;
        (place.sector < zone.sectors()).then(|| zone.location(place.sector))
    }

    /// Whether the disk has a sector at `location`, with or without a block.
    #[must_use]
    pub fn has(&self, location: Location) -> bool {
        let zone = self.zone_at(location.cylinder).and_then(|zone| self.zones.get(zone));
        zone.is_some_and(|zone| {
            let Zone { first_cylinder, cylinders, track_sectors, .. } = *zone.zone();
            location.cylinder - first_cylinder < cylinders
                && location.head < self.heads
                && location.sector < track_sectors
        })
    }

    /// The bad places of all zones: the slipped and the remapped ones, in the order of places.
    #[must_use]
    pub fn defects(&self) -> (Vec<BadPlace>, Vec<BadPlace>) {
        let mut all = (Vec::new(), Vec::new());
        for zone in &self.zones {
            let Defects { slipped, remapped } = &zone.zone().defects;
            all.0.extend(slipped.iter().map(|place| zone.bad_place(*place)));
            all.1.extend(remapped.iter().map(|(place, _)| zone.bad_place(*place)));
        }
        all
    }

    /// The block that the sector at `location` holds; `None` for spares, bad sectors, management
    /// areas and places that the disk does not have.
    #[must_use]
    pub fn lbn_at(&self, location: Location) -> Option<Lbn> {
        let lbn = self.zones.get(self.zone_at(location.cylinder)?)?.lbn_at(location)?;
        (lbn.0 < self.capacity.0).then_some(lbn)
    }

    /// The track that `lbn` is numbered along; `None` past the end of the disk.
    #[must_use]
    pub fn track(&self, lbn: Lbn) -> Option<Track> {
        let mut track = self.zone_of(lbn)?.track(lbn);
        let end = track.blocks.end().min(Lbn(self.capacity.0));
        track.blocks = BlockRange::between(track.blocks.first, end);
        Some(track)
    }

    /// The longest run from `blocks.first` on, within `blocks`, that lies on consecutive sectors of
    /// one track; `None` past the end of the disk.
    #[must_use]
    pub fn extent(&self, blocks: BlockRange) -> Option<Extent> {
        let zone = self.zone_of(blocks.first)?;
        Some(zone.extent(blocks.first, blocks.count))
    }

    /// The end of the cylinder that `lbn` lies on; of its track where blocks are not numbered down
    /// the cylinder. `None` past the end of the disk.
    #[must_use]
    pub fn cylinder_end(&self, lbn: Lbn) -> Option<Lbn> {
        let end = self.zone_of(lbn)?.cylinder_end(lbn);
        Some(end.min(Lbn(self.capacity.0)))
    }

    /// The last zone that begins at `cylinder` or before.
    fn zone_at(&self, cylinder: u32) -> Option<usize> {
        self.zones.partition_point(|zone| zone.zone().first_cylinder <= cylinder).checked_sub(1)
    }

    fn zone_of(&self, lbn: Lbn) -> Option<&MappedZone> {
        if lbn.0 >= self.capacity.0 {
            return None;
        }
        let index = self.zones.partition_point(|zone| zone.blocks().first <= lbn).checked_sub(1)?;
        self.zones.get(index)
    }
}

#[cfg(test)]
mod tests;
