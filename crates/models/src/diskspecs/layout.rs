//! `dm_layout_g1`: zones, skews, spares and defects.

use super::parameters::Parameters;
use super::{Block, DiskspecsError, Value};
use crate::profile::{CYLINDERS_MAX, TRACK_SECTORS_MAX};
use crate::{Sparing, TrackOrder, ZoneFile};

pub(super) struct Layout {
    pub(super) track_order: TrackOrder,
    pub(super) sparing: Sparing,
    pub(super) zones: Vec<ZoneFile>,
}

const SECTORS_MAX: u64 = 1 << 50;

pub(super) fn convert(block: &Block, notes: &mut Vec<String>) -> Result<Layout, DiskspecsError> {
    let given = Parameters::of(block);
    if block.kind != "dm_layout_g1" {
        return Err(block.place.error(format!(
            "the layout model `{}` is not supported; \
             `dm_layout_g1` is",
            block.kind
        )));
    }
    let scheme = "LBN-to-PBN mapping scheme";
    let track_order = match given.count(scheme, 1000)? {
        0 => TrackOrder::Cylinder,
        1 => TrackOrder::CylinderSerpentine { restart: true },
        2 => TrackOrder::CylinderSerpentine { restart: false },
        other => {
            return Err(given.error(scheme, &format!("{other} is not supported: 0, 1 and 2 are")));
        }
    };
    let cylinders = given.count("Rangesize for sparing", CYLINDERS_MAX)?.max(1) as u32;
    let name = "Sparing scheme used";
    let sparing = match given.count(name, 1000)? {
        0 => Sparing::None,
        1 => Sparing::TracksPerZone,
        2 => Sparing::SectorsPerCylinder { front: false, slip_to_end: false },
        3 => Sparing::SectorsPerTrack,
        4 => Sparing::SectorsPerCylinder { front: false, slip_to_end: true },
        5 => Sparing::SectorsPerCylinder { front: true, slip_to_end: false },
        6 => Sparing::SectorsPerCylinder { front: true, slip_to_end: true },
        7 => Sparing::EndOfDisk,
        8 => Sparing::SectorsPerCylinders { cylinders },
        9 => Sparing::SectorsPerZone { slip_to_end: false },
        10 => Sparing::SectorsPerZone { slip_to_end: true },
        other => return Err(given.error(name, &format!("{other} is not supported: 0 to 10 are"))),
    };
    let units = given.word("Skew units")?.unwrap_or("sectors");
    let mut zones = Vec::new();
    for (index, value) in given.list("Zones")?.iter().enumerate() {
        let Value::Block(zone) = value else {
            return Err(given.error("Zones", "expected blocks `dm_layout_g1_zone { ... }`"));
        };
        zones.push(zone_of(index, zone, units, sparing, notes)?);
    }
    if zones.is_empty() {
        return Err(given.error("Zones", "a disk has at least one zone"));
    }
    zones.sort_by_key(|zone| zone.first_cylinder);
    for name in given.left_over() {
        notes.push(format!("`{name}` of the layout model is not represented."));
    }
    Ok(Layout { track_order, sparing, zones })
}

fn zone_of(
    index: usize,
    block: &Block,
    units: &str,
    sparing: Sparing,
    notes: &mut Vec<String>,
) -> Result<ZoneFile, DiskspecsError> {
    let given = Parameters::of(block);
    let first = given.count("First cylinder number", CYLINDERS_MAX)?;
    let last = given.count("Last cylinder number", CYLINDERS_MAX)?;
    if last < first {
        return Err(given.error("Last cylinder number", &format!("{last} comes before {first}")));
    }
    let track_sectors = given.needed_count("Blocks per track", TRACK_SECTORS_MAX.into())?;
    let units = given.word("Skew units")?.unwrap_or(units);
    let mut angle = |name: &str| -> Result<u32, DiskspecsError> {
        let turned = given.number(name, 0.0, 1e6)?.unwrap_or(0.0);
        let sectors = match units {
            "sectors" => turned.trunc(),
            "revolutions" => {
                let sectors = turned * track_sectors as f64;
                if (sectors - sectors.round()).abs() > 0.01 {
                    notes.push(format!(
                        "zone {index}: `{name}` of {turned} revolutions is rounded to {} sectors.",
                        sectors.round()
                    ));
                }
                sectors.round()
            }
            other => return Err(given.error("Skew units", &format!("`{other}` is not known"))),
        };
        Ok((sectors as u64 % track_sectors) as u32)
    };
    let origin_sector = angle("Offset of first block")?;
    let (track_skew, cylinder_skew) =
        (angle("Skew for track switch")?, angle("Skew for cylinder switch")?);
    let mut slipped = places(&given, "slips")?;
    slipped.sort_unstable();
    slipped.dedup();
    let defects = places(&given, "defects")?;
    if !defects.len().is_multiple_of(2) {
        return Err(given.error("defects", "expected pairs of a bad place and its replacement"));
    }
    let mut remapped: Vec<(u64, u64)> = defects
        .chunks_exact(2)
        .filter_map(|pair| Some((*pair.first()?, *pair.last()?)))
        .filter(|(from, to)| from != to)
        .collect();
    remapped.sort_unstable();
    remapped.dedup_by_key(|(from, _)| *from);
    let mut spares = given.count("Number of spares", SECTORS_MAX)?;
    if sparing == Sparing::EndOfDisk && spares > 0 {
        notes.push(format!("zone {index}: its spares are at the end of the disk and left out."));
        spares = 0;
    }
    let reserved_sectors = given.count("Empty space at zone front", SECTORS_MAX)?;
    for name in given.left_over() {
        notes.push(format!("zone {index}: `{name}` is not represented."));
    }
    Ok(ZoneFile {
        first_cylinder: Some(first as u32),
        cylinders: (last - first + 1) as u32,
        track_sectors: track_sectors as u32,
        track_skew,
        cylinder_skew,
        origin_sector,
        reserved_sectors,
        spares: if sparing == Sparing::None { 0 } else { spares },
        slipped,
        remapped,
        ..ZoneFile::default()
    })
}

fn places(given: &Parameters<'_>, name: &str) -> Result<Vec<u64>, DiskspecsError> {
    let numbers = given.numbers(name, 0.0, SECTORS_MAX as f64)?;
    if numbers.iter().any(|number| number.fract() != 0.0) {
        return Err(given.error(name, "expected whole numbers"));
    }
    Ok(numbers.into_iter().map(|number| number as u64).collect())
}
