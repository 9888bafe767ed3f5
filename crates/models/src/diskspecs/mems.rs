//! `memsmodel_mems`: the sled, its tips and its electronics.

use std::collections::BTreeMap;

use super::parameters::Parameters;
use super::{Block, DiskspecsError};
use crate::{MemsKind, MemsProfileFile, Scheduler};

/// Parameters of which a profile knows one value. What a file may say beside these changes no response time, but the read
/// buffer's, which is left out.
const EXPECTED: [(&str, f64); 3] =
    [("Number of sleds", 1.0), ("Prefetch depth", 0.0), ("Block count", 0.0)];

pub(super) fn convert(
    block: &Block,
) -> Result<(MemsProfileFile, Option<Scheduler>), DiskspecsError> {
    let given = Parameters::of(block);
    for (name, expected) in EXPECTED {
        let value = given.number(name, 0.0, 1e12)?.unwrap_or(expected);
        if value != expected {
            return Err(
                given.error(name, &format!("{value} is not represented: it must be {expected}"))
            );
        }
    }
    // All tracks the same way, or every other one back.
    let reversed_tracks = match given.count("Layout policy", 1000)? {
        6 => false,
        7 => true,
        other => {
            return Err(given.error("Layout policy", &format!("{other} is not known: 6 and 7 are")));
        }
    };
    let count = |name| Ok(given.needed_count(name, u64::from(u32::MAX))? as u32);
    let pair = |name: &str| -> Result<[f64; 2], DiskspecsError> {
        let of = |axis: &str| given.needed(&format!("{name} {axis}"), 0.0, 1e9);
        Ok([of("X")?, of("Y")?])
    };
    let sector_ms = given.needed("Bulk sector transfer time", 0.0, 1e4)?;
    let policy = match given.block("Scheduler")? {
        Some(scheduler) => Parameters::of(scheduler).count("Scheduling policy", 1000)?,
        None => 0,
    };
    let name = block.name.to_lowercase().replace('_', "-");
    let source = format!("extracted: {} of {}", block.name, block.place.file);
    let sources = BTreeMap::from([("name".to_owned(), source)]);
    let file = MemsProfileFile {
        kind: MemsKind::Mems,
        description: format!("{}, from DiskSim's parameters", block.name),
        name,
        sled_nm: pair("Sled movement")?,
        bit_nm: given.needed("Bit cell length", 0.0, 1e9)?,
        tip_sector_bits: count("Tip sector length")?,
        servo_bits: count("Servo burst length")?,
        tips_per_block: count("Tip sectors per lbn")?,
        tips: count("Number of usable tips")?,
        active_tips: count("Simultaneously active tips")?,
        bidirectional: given.flag("Bidirectional access")?,
        reversed_tracks,
        acceleration_m_per_s2: pair("Sled acceleration")?,
        tip_bits_per_s: given.needed("Sled access speed", 0.0, 1e12)?,
        resonance_hz: given.needed("Sled resonant frequency", 0.0, 1e9)?,
        settle_constants: given.needed("Settling time constants", 0.0, 1e3)?,
        spring_factor: given.needed("Spring constant factor", 0.0, 1.0)?,
        command_ms: given.ms("Command overhead")?,
        bus_mb_per_s: 0.512 / sector_ms,
        buffer_blocks: given.needed_count("Number of buffer segments", 1 << 16)?
            * given.needed_count("Segment size (in blks)", 1 << 30)?,
        inactive_after_ms: given.needed("Time before sled inactive", 0.0, 1e9)?,
        startup_ms: given.ms("Startup delay")?,
        sources,
    };
    // DiskSim's number 1 is first come, first served.
    Ok((file, (policy == 1).then_some(Scheduler::Fcfs)))
}
