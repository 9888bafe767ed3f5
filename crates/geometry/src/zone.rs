//! One zone: its tracks in the order of their numbers, its defects, and its share of the blocks.

use moirai_units::{BlockCount, BlockRange, Lbn, Location};
use serde::{Deserialize, Serialize};

use super::sparing::Units;
use super::{BadPlace, Extent, Sparing, Track};

/// In which order the tracks of a zone are numbered.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(tag = "along", rename_all = "kebab-case", deny_unknown_fields)]
pub enum TrackOrder {
    /// Down each cylinder, always from the first head to the last.
    #[default]
    Cylinder,
    /// Down one cylinder and up the next, so that the arm moves without a head switch.
    CylinderSerpentine {
        /// The direction starts afresh in each zone, and does not follow the cylinder's number.
        #[serde(default)]
        restart: bool,
    },
    /// Along one surface over a group of cylinders, and back along the next one.
    SurfaceSerpentine {
        /// Cylinders of a group; the last one of a zone may be smaller.
        cylinders: u32,
    },
}

/// Cylinders whose tracks have the same number of sectors.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
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
    /// Where sector 0 of the zone's first track lies, in sectors from the index mark.
    pub origin_sector: u32,
    /// Sectors at the zone's front that the drive keeps for itself (its management area).
    pub reserved_sectors: u64,
    /// Spares of each unit of the disk's [`Sparing`]: sectors, or tracks for spare tracks.
    pub spares: u64,
    /// Cylinders at the end of each group that are spare.
    pub spare_cylinders: u32,
    /// Cylinders of such a group, its spares included; 0 for the whole zone.
    pub spare_group_cylinders: u32,
    /// What is bad.
    pub defects: Defects,
}

/// Bad places of a zone, as sectors counted along its tracks (spare cylinders left out), or as
/// tracks where [`Sparing::TracksPerZone`] rules.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct Defects {
    /// Places that are skipped when blocks are numbered; ascending.
    pub slipped: Vec<u64>,
    /// Bad place and the spare that holds its block; ascending.
    pub remapped: Vec<(u64, u64)>,
}

/// A zone whose parameters contradict each other. The message names the zone and the parameter.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("zone {zone}: {problem}")]
pub struct GeometryError {
    /// The zone, counted from 0 at the rim.
    pub zone: usize,
    /// The problem, with the name of the parameter.
    pub problem: String,
}

/// A zone with its share of the blocks.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct MappedZone {
    zone: Zone,
    heads: u32,
    order: TrackOrder,
    blocks: BlockRange,
    units: Units,
    /// What units count: single sectors, or tracks.
    granule_sectors: u64,
    /// Whether each slip turns the tracks behind it on by a sector.
    slips_skew: Option<SlipSkew>,
    /// The remapped places again, by their spares.
    spares_used: Vec<(u64, u64)>,
}

/// Where slips count for the skew: at the start of which tracks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum SlipSkew {
    EachTrack,
    EachCylinder,
}

impl MappedZone {
    pub(super) fn new(
        index: usize,
        zone: Zone,
        heads: u32,
        order: TrackOrder,
        sparing: Sparing,
        first: Lbn,
    ) -> Result<MappedZone, GeometryError> {
        let bad = |problem: String| GeometryError { zone: index, problem };
        let group = if zone.spare_group_cylinders == 0 {
            zone.cylinders
        } else {
            zone.spare_group_cylinders
        };
        if zone.spare_cylinders > 0 && zone.spare_cylinders >= group {
            let problem = format!(
                "spare_cylinders: {} of {group} cylinders leave none for data",
                zone.spare_cylinders
            );
            return Err(bad(problem));
        }
        let used_cylinders =
            u64::from(zone.cylinders - zone.cylinders / group * zone.spare_cylinders);
        let (track, tracks) = (u64::from(zone.track_sectors), used_cylinders * u64::from(heads));
        let cylinder = track * u64::from(heads);
        let all = track * tracks;
        // Sectors that units divide, sectors of a unit, spares at the front, slips go onwards.
        let (granule, unit, front, onwards) = match sparing {
            Sparing::None | Sparing::EndOfDisk => (1, all, false, true),
            Sparing::TracksPerZone => (track, tracks, false, false),
            Sparing::SectorsPerTrack => (1, track, false, false),
            Sparing::SectorsPerCylinder { front, slip_to_end } => (1, cylinder, front, slip_to_end),
            Sparing::SectorsPerCylinders { cylinders } => {
                (1, cylinder * u64::from(cylinders.max(1)), false, false)
            }
            Sparing::SectorsPerZone { slip_to_end } => (1, all, false, slip_to_end),
        };
        let Defects { slipped, remapped } = &zone.defects;
        let places = all / granule;
        let last = slipped.iter().chain(remapped.iter().flat_map(|(from, to)| [from, to])).max();
        if let Some(last) = last.filter(|last| **last >= places) {
            return Err(bad(format!(
                "a defect at {last} lies past the end of the zone, which has {places} places"
            )));
        }
        if !slipped.is_sorted_by(|a, b| a < b) || !remapped.is_sorted_by(|a, b| a.0 < b.0) {
            return Err(bad("defects must ascend without duplicates".into()));
        }
        let mut spares_used: Vec<_> = remapped.iter().map(|(from, to)| (*to, *from)).collect();
        spares_used.sort_unstable();
        if !spares_used.is_sorted_by(|a, b| a.0 < b.0) {
            return Err(bad("two defects are remapped to one spare".into()));
        }
        let units = Units::new(places, unit.min(places), zone.spares, front, onwards, slipped)
            .ok_or_else(|| {
                let slips = slipped.len();
                bad(format!("spares: {} are too many, or too few for {slips} slips", zone.spares))
            })?;
        let slips_skew = match sparing {
            Sparing::SectorsPerTrack => Some(SlipSkew::EachTrack),
            Sparing::SectorsPerCylinder { .. } => Some(SlipSkew::EachCylinder),
            _ => None,
        };
        let held = units.blocks() * granule;
        let count = held.checked_sub(zone.reserved_sectors).filter(|count| *count > 0);
        let count = count.ok_or_else(|| {
            bad(format!(
                "reserved_sectors: {} of {held} sectors leave none for data",
                zone.reserved_sectors
            ))
        })?;
        let mapped = MappedZone {
            blocks: BlockRange::new(first, BlockCount(count)),
            slips_skew: slips_skew.filter(|_| !slipped.is_empty()),
            granule_sectors: granule,
            spares_used,
            units,
            heads,
            order,
            zone,
        };
        mapped.check_remaps().map_err(bad)?;
        Ok(mapped)
    }

    /// A remapped place holds a block, and a spare in use does not.
    fn check_remaps(&self) -> Result<(), String> {
        let holds = |place: u64| {
            let before = self.units.blocks_before(place);
            self.units.blocks_before(place + 1) > before
        };
        for (from, to) in &self.zone.defects.remapped {
            if !holds(*from) {
                return Err(format!("the remapped defect at {from} holds no block"));
            }
            if from != to && holds(*to) {
                return Err(format!("{from} is remapped to {to}, which is not a spare"));
            }
        }
        Ok(())
    }

    pub(super) fn zone(&self) -> &Zone {
        &self.zone
    }

    pub(super) fn blocks(&self) -> BlockRange {
        self.blocks
    }

    /// All sectors, those of spare cylinders left out.
    pub(super) fn sectors(&self) -> u64 {
        self.used_cylinders() * u64::from(self.heads) * u64::from(self.zone.track_sectors)
    }

    pub(super) fn is_remapped(&self, lbn: Lbn) -> bool {
        self.remapped(self.numbered(lbn) / self.granule_sectors).is_some()
    }

    /// Where the defect `place` of the zone lies.
    pub(super) fn bad_place(&self, place: u64) -> BadPlace {
        BadPlace {
            location: self.location(place * self.granule_sectors),
            is_track: self.granule_sectors > 1,
        }
    }

    /// The zone's sector that `lbn` is numbered to, remapping left aside.
    fn numbered(&self, lbn: Lbn) -> u64 {
        let row = lbn.since(self.blocks.first).0 + self.zone.reserved_sectors;
        if self.granule_sectors == 1 {
            return self.units.sector(row);
        }
        let granule = self.granule_sectors;
        self.units.sector(row / granule) * granule + row % granule
    }

    /// The zone's sector that holds `lbn`.
    pub(super) fn physical(&self, lbn: Lbn) -> u64 {
        let numbered = self.numbered(lbn);
        let place = numbered / self.granule_sectors;
        match self.remapped(place) {
            Some(spare) => spare * self.granule_sectors + numbered % self.granule_sectors,
            None => numbered,
        }
    }

    fn remapped(&self, place: u64) -> Option<u64> {
        lookup(&self.zone.defects.remapped, place)
    }

    /// The first block numbered at or after the zone's sector `physical`.
    fn block_from(&self, physical: u64) -> Lbn {
        let (place, offset) = (physical / self.granule_sectors, physical % self.granule_sectors);
        let before = self.units.blocks_before(place);
        // Within a granule, which is a track then, its blocks count when it holds any.
        let within =
            if offset > 0 && self.units.blocks_before(place + 1) > before { offset } else { 0 };
        let row = before * self.granule_sectors + within;
        let block = row.saturating_sub(self.zone.reserved_sectors).min(self.blocks.count.0);
        self.blocks.first + BlockCount(block)
    }

    pub(super) fn lbn_at(&self, location: Location) -> Option<Lbn> {
        let physical = self.physical_at(location)?;
        let (place, offset) = (physical / self.granule_sectors, physical % self.granule_sectors);
        let numbered = match lookup(&self.spares_used, place) {
            Some(defect) => defect * self.granule_sectors + offset,
            None if self.remapped(place).is_some() => return None,
            None => physical,
        };
        let lbn = self.block_from(numbered);
        let found = self.blocks.contains(lbn) && self.numbered(lbn) == numbered;
        found.then_some(lbn)
    }

    pub(super) fn track(&self, lbn: Lbn) -> Track {
        let sectors = u64::from(self.zone.track_sectors);
        let number = self.numbered(lbn) / sectors;
        let place = self.track_place(number);
        let first = self.block_from(number * sectors);
        let end = self.block_from((number + 1) * sectors);
        Track {
            cylinder: place.cylinder,
            head: place.head,
            sectors: self.zone.track_sectors,
            origin_sector: self.origin_sector(number),
            blocks: BlockRange::between(first, end),
            next_skew: self.next_skew(number),
        }
    }

    pub(super) fn cylinder_end(&self, lbn: Lbn) -> Lbn {
        let sectors = u64::from(self.zone.track_sectors);
        let number = self.numbered(lbn) / sectors;
        let tracks = match self.order {
            TrackOrder::SurfaceSerpentine { .. } => 1,
            _ => u64::from(self.heads),
        };
        self.block_from((number / tracks + 1) * tracks * sectors)
    }

    pub(super) fn extent(&self, lbn: Lbn, most: BlockCount) -> Extent {
        let sectors = u64::from(self.zone.track_sectors);
        let numbered = self.numbered(lbn);
        let remapped = &self.zone.defects.remapped;
        let mut physical = numbered;
        let mut run = most.0.min(self.blocks.end().since(lbn).0);
        let mut lead = u64::MAX;
        if !remapped.is_empty() {
            let place = numbered / self.granule_sectors;
            if let Some(spare) = self.remapped(place) {
                physical = spare * self.granule_sectors + numbered % self.granule_sectors;
                (run, lead) = (run.min(self.granule_sectors), 0);
            } else {
                let next = remapped.partition_point(|(from, _)| *from < place);
                let ahead = remapped.get(next).map(|(from, _)| from * self.granule_sectors);
                run = ahead.map_or(run, |ahead| run.min(ahead - numbered));
                let behind = next.checked_sub(1).and_then(|before| remapped.get(before));
                let behind = behind.map(|(from, _)| (from + 1) * self.granule_sectors);
                lead = behind.map_or(lead, |behind| numbered.saturating_sub(behind));
            }
        }
        let (number, sector) = (physical / sectors, physical % sectors);
        let start = number * sectors;
        if physical == numbered {
            run = run.min(self.block_from(start + sectors).since(lbn).0);
            lead = lead.min(lbn.since(self.block_from(start)).0);
            if !self.units.is_whole() && self.granule_sectors == 1 {
                let next = self.units.next_slip(numbered);
                run = next.map_or(run, |slip| run.min(slip - numbered));
                if self.units.next_slip(start).is_some_and(|slip| slip < numbered) {
                    lead = 0;
                }
            }
        } else {
            run = run.min(sectors - sector);
        }
        let place = self.track_place(number);
        let turned = u64::from(self.origin_sector(number)) + sector;
        Extent {
            cylinder: place.cylinder,
            head: place.head,
            track_sectors: self.zone.track_sectors,
            angle_sector: (turned % sectors) as u32,
            blocks: BlockCount(run),
            lead: lead as u32,
        }
    }

    pub(super) fn location(&self, physical: u64) -> Location {
        let sectors = u64::from(self.zone.track_sectors);
        let place = self.track_place(physical / sectors);
        Location { cylinder: place.cylinder, head: place.head, sector: (physical % sectors) as u32 }
    }

    /// The cylinder and head of the zone's track `number`.
    fn track_place(&self, number: u64) -> TrackPlace {
        let heads = u64::from(self.heads);
        let (within, head) = match self.order {
            TrackOrder::Cylinder => (number / heads, number % heads),
            TrackOrder::CylinderSerpentine { restart } => {
                let (cylinder, step) = (number / heads, number % heads);
                let odd = self.is_odd(cylinder, restart);
                (cylinder, if odd { heads - 1 - step } else { step })
            }
            TrackOrder::SurfaceSerpentine { .. } => {
                let group = self.surface_group(number / heads);
                let step = number - group.first * heads;
                let (head, along) = (step / group.cylinders, step % group.cylinders);
                let back = head % 2 == 1;
                let along = if back { group.cylinders - 1 - along } else { along };
                (group.first + along, head)
            }
        };
        TrackPlace { cylinder: self.actual_cylinder(within), head: head as u32 }
    }

    /// The inverse of [`MappedZone::track_place`], with the sector.
    pub(super) fn physical_at(&self, location: Location) -> Option<u64> {
        let heads = u64::from(self.heads);
        let (head, sectors) = (u64::from(location.head), u64::from(self.zone.track_sectors));
        if head >= heads || u64::from(location.sector) >= sectors {
            return None;
        }
        let cylinder = self.used_cylinder(location.cylinder)?;
        let number = match self.order {
            TrackOrder::Cylinder => cylinder * heads + head,
            TrackOrder::CylinderSerpentine { restart } => {
                let odd = self.is_odd(cylinder, restart);
                cylinder * heads + if odd { heads - 1 - head } else { head }
            }
            TrackOrder::SurfaceSerpentine { .. } => {
                let group = self.surface_group(cylinder);
                let along = cylinder - group.first;
                let along = if head % 2 == 1 { group.cylinders - 1 - along } else { along };
                group.first * heads + head * group.cylinders + along
            }
        };
        Some(number * sectors + u64::from(location.sector))
    }

    fn is_odd(&self, cylinder: u64, restart: bool) -> bool {
        let counted = if restart { cylinder } else { u64::from(self.actual_cylinder(cylinder)) };
        counted % 2 == 1
    }

    /// The group of cylinders that `cylinder`, counted in the zone, belongs to.
    fn surface_group(&self, cylinder: u64) -> SurfaceGroup {
        let whole = match self.order {
            TrackOrder::SurfaceSerpentine { cylinders } => u64::from(cylinders.max(1)),
            _ => 1,
        };
        let first = cylinder / whole * whole;
        SurfaceGroup { first, cylinders: whole.min(self.used_cylinders() - first) }
    }

    fn spare_group(&self) -> u64 {
        let group = match self.zone.spare_group_cylinders {
            0 => self.zone.cylinders,
            group => group,
        };
        u64::from(group)
    }

    fn used_cylinders(&self) -> u64 {
        let cylinders = u64::from(self.zone.cylinders);
        cylinders - cylinders / self.spare_group() * u64::from(self.zone.spare_cylinders)
    }

    /// The disk's number of the zone's used cylinder `used`.
    fn actual_cylinder(&self, used: u64) -> u32 {
        let spare = u64::from(self.zone.spare_cylinders);
        let skipped = if spare == 0 { 0 } else { used / (self.spare_group() - spare) * spare };
        // The rest behind the last whole group has no spares, and may be longer than one's use.
        let skipped = skipped.min(u64::from(self.zone.cylinders) / self.spare_group() * spare);
        self.zone.first_cylinder + (used + skipped) as u32
    }

    /// The inverse of [`MappedZone::actual_cylinder`]; `None` for spares and other zones' cylinders.
    fn used_cylinder(&self, actual: u32) -> Option<u64> {
        let within = actual.checked_sub(self.zone.first_cylinder)?;
        if within >= self.zone.cylinders {
            return None;
        }
        let group = u64::from(within) / self.spare_group();
        let used = u64::from(within).checked_sub(group * u64::from(self.zone.spare_cylinders))?;
        (used < self.used_cylinders() && self.actual_cylinder(used) == actual).then_some(used)
    }

    /// Where sector 0 of track `number` lies: its predecessors' skews, added up.
    fn origin_sector(&self, number: u64) -> u32 {
        let heads = u64::from(self.heads);
        // The head changes along a cylinder, and between the surfaces of a group.
        let head_changes = match self.order {
            TrackOrder::SurfaceSerpentine { .. } => {
                let group = self.surface_group(number / heads);
                let groups = group.first / self.surface_group(0).cylinders;
                groups * (heads - 1) + (number - group.first * heads) / group.cylinders
            }
            _ => number - number / heads,
        };
        let cylinder_changes = number - head_changes;
        let slips = self.slips_skew.map_or(0, |skew| {
            let track = match skew {
                SlipSkew::EachTrack => number,
                SlipSkew::EachCylinder => number / heads * heads,
            };
            let cut = track * u64::from(self.zone.track_sectors);
            self.zone.defects.slipped.partition_point(|slip| *slip < cut) as u64
        });
        let turned = u64::from(self.zone.origin_sector)
            + head_changes * u64::from(self.zone.track_skew)
            + cylinder_changes * u64::from(self.zone.cylinder_skew)
            + slips;
        (turned % u64::from(self.zone.track_sectors)) as u32
    }

    fn next_skew(&self, number: u64) -> u32 {
        if number + 1 == self.used_cylinders() * u64::from(self.heads) {
            return self.zone.cylinder_skew;
        }
        let (here, next) = (self.track_place(number), self.track_place(number + 1));
        if here.cylinder == next.cylinder { self.zone.track_skew } else { self.zone.cylinder_skew }
    }
}

struct TrackPlace {
    cylinder: u32,
    head: u32,
}

/// Cylinders over which a surface is followed, counted in the zone.
struct SurfaceGroup {
    first: u64,
    cylinders: u64,
}

fn lookup(pairs: &[(u64, u64)], key: u64) -> Option<u64> {
    let index = pairs.binary_search_by_key(&key, |(from, _)| *from).ok()?;
    pairs.get(index).map(|(_, to)| *to)
}
