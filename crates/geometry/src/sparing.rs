//! Sparing schemes: which sectors of a zone are kept in reserve, and where slipping ends.
//!
//! A zone is cut into *units* of consecutive sectors (a track, a cylinder, some cylinders, all of
//! it), each of which keeps some sectors back. A slipped sector pushes the blocks behind it on by
//! one: either to the unit's spares, or on and on to the end of the zone.

use serde::{Deserialize, Serialize};

/// Where the spares of a disk are (thesis 4.2.1). How many there are of each is said by the zones.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(tag = "scheme", rename_all = "kebab-case", deny_unknown_fields)]
pub enum Sparing {
    /// No spares; slipped sectors make the zone smaller.
    #[default]
    None,
    /// Whole tracks at the end of the zone. Slips and remaps are of tracks.
    TracksPerZone,
    /// Sectors of each track.
    SectorsPerTrack,
    /// Sectors of each cylinder.
    SectorsPerCylinder {
        /// At the cylinder's front and not at its end.
        #[serde(default)]
        front: bool,
        /// Slipping does not end in the cylinder's spares but goes on to the end of the zone.
        #[serde(default)]
        slip_to_end: bool,
    },
    /// Sectors of each group of cylinders.
    SectorsPerCylinders {
        /// Cylinders of a group. What is left at the end of a zone has no spares.
        cylinders: u32,
    },
    /// Sectors at the end of each zone.
    SectorsPerZone {
        /// Slipped sectors make the zone smaller and leave its spares alone.
        #[serde(default)]
        slip_to_end: bool,
    },
    /// Sectors at the end of the disk; slipped sectors make a zone smaller.
    EndOfDisk,
}

/// A scheme worked out for one zone: `spares` of each `unit_sectors`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Units {
    /// All sectors, spares included. What is left behind the last whole unit has no spares.
    sectors: u64,
    unit_sectors: u64,
    spares: u64,
    /// Spares lie at the front of their unit.
    front: bool,
    slips: Slips,
}

/// The bad sectors that are skipped, ascending, and how far they push what follows.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Slips {
    /// To the spares of their unit: the units that have any, ascending.
    IntoSpares(Vec<UnitSlips>),
    /// To the end of the zone. Bad sectors are counted in rows, which leave spares out.
    Onwards(Vec<u64>),
}

#[derive(Clone, Debug, PartialEq, Eq)]
struct UnitSlips {
    unit: u64,
    /// Where the unit's first block may lie, and the bad sectors behind that, from its start.
    start: u64,
    bad: Vec<u64>,
}

impl Units {
    /// Units over `sectors` sectors with `bad` ones among them, ascending and without repetition.
    /// `None` when a unit has more bad sectors than spares, or no room for blocks at all.
    pub(super) fn new(
        sectors: u64,
        unit_sectors: u64,
        spares: u64,
        front: bool,
        slip_onwards: bool,
        bad: &[u64],
    ) -> Option<Units> {
        if spares >= unit_sectors {
            return None;
        }
        let slips = Slips::Onwards(Vec::new());
        let mut units = Units { sectors, unit_sectors, spares, front, slips };
        units.slips = if slip_onwards {
            let rows = bad.iter().filter(|sector| !units.is_spare(**sector));
            Slips::Onwards(rows.map(|sector| units.row(*sector)).collect())
        } else {
            let by_unit = bad.chunk_by(|a, b| a / unit_sectors == b / unit_sectors);
            Slips::IntoSpares(by_unit.map(|bad| units.unit_slips(bad)).collect::<Option<_>>()?)
        };
        Some(units)
    }

    /// Blocks that fit.
    pub(super) fn blocks(&self) -> u64 {
        let rows = self.row(self.sectors);
        match &self.slips {
            Slips::Onwards(bad) => rows - bad.len() as u64,
            Slips::IntoSpares(units) => {
                // A rest without spares has its slips out of its blocks.
                let rest = find(units, self.sectors / self.unit_sectors);
                rows - rest.map_or(0, |slips| slips.bad.len() as u64)
            }
        }
    }

    /// Whether no sector was slipped.
    pub(super) fn is_whole(&self) -> bool {
        match &self.slips {
            Slips::Onwards(bad) => bad.is_empty(),
            Slips::IntoSpares(units) => units.is_empty(),
        }
    }

    /// The sector of block number `block`, both counted from 0.
    pub(super) fn sector(&self, block: u64) -> u64 {
        match &self.slips {
            Slips::Onwards(bad) => self.sector_of_row(skip(bad, block)),
            Slips::IntoSpares(units) => {
                let unit = self.unit_of_row(block);
                let Some(slips) = find(units, unit) else {
                    return self.sector_of_row(block);
                };
                let place = block - unit * self.unit_blocks();
                unit * self.unit_sectors + skip(&slips.bad, slips.start + place)
            }
        }
    }

    /// How many blocks lie on sectors before `sector`.
    pub(super) fn blocks_before(&self, sector: u64) -> u64 {
        match &self.slips {
            Slips::Onwards(bad) => {
                let row = self.row(sector);
                row - rank(bad, row)
            }
            Slips::IntoSpares(units) => {
                let unit = sector / self.unit_sectors;
                let Some(slips) = find(units, unit) else {
                    return self.row(sector);
                };
                let place = sector % self.unit_sectors;
                let good = (place - rank(&slips.bad, place)).saturating_sub(slips.start);
                let most = if self.is_whole_unit(unit) { self.unit_blocks() } else { good };
                unit * self.unit_blocks() + good.min(most)
            }
        }
    }

    /// The first sector that is skipped as bad at or after `sector`, if there is one.
    pub(super) fn next_slip(&self, sector: u64) -> Option<u64> {
        match &self.slips {
            Slips::Onwards(bad) => {
                let from = rank(bad, self.row(sector)) as usize;
                bad.get(from).map(|row| self.sector_of_row(*row))
            }
            Slips::IntoSpares(units) => {
                let unit = sector / self.unit_sectors;
                let from = units.partition_point(|slips| slips.unit < unit);
                units.get(from..)?.iter().find_map(|slips| {
                    let base = slips.unit * self.unit_sectors;
                    slips.bad.iter().map(|bad| base + bad).find(|bad| *bad >= sector)
                })
            }
        }
    }

    /// Blocks of a whole unit.
    fn unit_blocks(&self) -> u64 {
        self.unit_sectors - self.spares
    }

    fn is_spare(&self, sector: u64) -> bool {
        let (unit, place) = (sector / self.unit_sectors, sector % self.unit_sectors);
        let among_spares =
            if self.front { place < self.spares } else { place >= self.unit_blocks() };
        among_spares && self.is_whole_unit(unit)
    }

    fn is_whole_unit(&self, unit: u64) -> bool {
        (unit + 1) * self.unit_sectors <= self.sectors
    }

    /// How many sectors before `sector` are no spares.
    fn row(&self, sector: u64) -> u64 {
        let (unit, place) = (sector / self.unit_sectors, sector % self.unit_sectors);
        let before = unit * self.unit_blocks();
        if !self.is_whole_unit(unit) {
            return before + place;
        }
        let skipped = if self.front { self.spares } else { 0 };
        before + place.saturating_sub(skipped).min(self.unit_blocks())
    }

    /// The unit that a row lies in; the rest behind the last whole one may be longer than a unit's
    /// blocks, as it has no spares.
    fn unit_of_row(&self, row: u64) -> u64 {
        (row / self.unit_blocks()).min(self.sectors / self.unit_sectors)
    }

    /// The inverse of [`Units::row`] on sectors that are no spares.
    fn sector_of_row(&self, row: u64) -> u64 {
        let unit = self.unit_of_row(row);
        let place = row - unit * self.unit_blocks();
        let skipped = if self.front && self.is_whole_unit(unit) { self.spares } else { 0 };
        unit * self.unit_sectors + skipped + place
    }

    /// Works out one unit from its `bad` sectors.
    fn unit_slips(&self, bad: &[u64]) -> Option<UnitSlips> {
        let unit = bad.first()? / self.unit_sectors;
        let base = unit * self.unit_sectors;
        let mut bad: Vec<u64> = bad.iter().map(|sector| sector - base).collect();
        let mut start = 0;
        if !self.is_whole_unit(unit) {
            let rest = self.sectors - base;
            return ((bad.len() as u64) < rest).then_some(UnitSlips { unit, start, bad });
        }
        if self.front {
            // Blocks end with the unit; each bad sector among them moves their start down.
            start = self.spares;
            for place in bad.iter().rev() {
                if *place >= start {
                    start = start.checked_sub(1)?;
                }
            }
            bad.retain(|place| *place >= start);
        } else {
            // Bad sectors behind the last block are spares that are never used.
            let used =
                bad.iter().zip(0..).take_while(|(bad, before)| **bad < self.unit_blocks() + before);
            let used = used.count();
            bad.truncate(used);
            if used as u64 > self.spares {
                return None;
            }
        }
        Some(UnitSlips { unit, start, bad })
    }
}

fn find(units: &[UnitSlips], unit: u64) -> Option<&UnitSlips> {
    let index = units.binary_search_by_key(&unit, |slips| slips.unit).ok()?;
    units.get(index)
}

/// How many of the ascending `bad` lie before `at`.
fn rank(bad: &[u64], at: u64) -> u64 {
    bad.partition_point(|place| *place < at) as u64
}

/// The place number `index`, from 0, of those that are not among the ascending `bad`.
fn skip(bad: &[u64], index: u64) -> u64 {
    // `bad[i]` has `bad[i] - i` good places before it, which does not fall as i grows.
    let (mut low, mut high) = (0usize, bad.len());
    while low < high {
        let middle = usize::midpoint(low, high);
        match bad.get(middle) {
            Some(place) if *place - middle as u64 <= index => low = middle + 1,
            _ => high = middle,
        }
    }
    index + low as u64
}
