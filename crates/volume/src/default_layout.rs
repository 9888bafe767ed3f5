//! The layout that fits what devices say of themselves, for a volume whose maker names none.
//!
//! Quadrangles (thesis 6.3) pay where the device loses time between ensembles: a column of blocks is reached by
//! switches alone, for less than a revolution. Where nothing is lost between ensembles, as in a file, equation
//! 6.8 has no bound (H = 0, D_max = N / b) and a column is no faster than any other blocks: stripes are as good,
//! and parity rotates with each of them.

use std::sync::Arc;

use moirai_storage::{Device, Result};
use moirai_units::{BLOCK_BYTES, BlockCount};

use crate::format::is_journal_small;
use crate::tracks::Tracks;
use crate::zones::zones_of;
use crate::{LayoutDescription, Level, StripeUnit};

/// The smallest unit of a stripe that is chosen: 64 KiB.
const UNIT_BLOCKS_MIN: BlockCount = BlockCount((64 << 10) / BLOCK_BYTES);
/// The largest: 1 MiB.
const UNIT_BLOCKS_MAX: BlockCount = BlockCount((1 << 20) / BLOCK_BYTES);

/// The layout for a volume of `level` over `devices`: quadrangles of the depth of equation 6.8 where every device
/// has a delay between its ensembles, else stripes of their ensemble, of 64 KiB to 1 MiB. With a journal
/// (levels that survive failures) the unit is small enough for a journal of 1/64 of the smallest device.
pub fn default_layout(devices: &[Arc<dyn Device>], level: Level) -> Result<LayoutDescription> {
    if has_switch(devices)? {
        return Ok(LayoutDescription::Quadrangle { depth: None, block: BlockCount(1), zone: None });
    }
    let inquiries = || devices.iter().map(|device| device.inquiry());
    let volume_block = inquiries().map(|inquiry| inquiry.volume_block.0).max().unwrap_or(1);
    let smallest = inquiries().map(|inquiry| inquiry.capacity).min().unwrap_or_default();
    let mut unit = match devices.first() {
        Some(device) => device.ensemble(moirai_units::Lbn(0))?.blocks.count,
        None => UNIT_BLOCKS_MAX,
    };
    let halves = |unit: BlockCount| unit.0.is_multiple_of(2 * volume_block);
    while unit > UNIT_BLOCKS_MAX && halves(unit) {
        unit = BlockCount(unit.0 / 2);
    }
    // A short ensemble, or one that cannot be halved.
    if unit < UNIT_BLOCKS_MIN || unit > UNIT_BLOCKS_MAX {
        let step = if unit < UNIT_BLOCKS_MIN { unit.0.max(1) } else { volume_block };
        let step = if step.is_multiple_of(volume_block) { step } else { volume_block };
        unit = BlockCount(UNIT_BLOCKS_MIN.0.next_multiple_of(step));
    }
    if level.failures(devices.len()) > 0 {
        let fits = |unit| is_journal_small(devices.len(), unit, smallest);
        while !fits(unit) && unit.0 >= 2 * UNIT_BLOCKS_MIN.0 && halves(unit) {
            unit = BlockCount(unit.0 / 2);
        }
    }
    Ok(LayoutDescription::Stripe { unit: StripeUnit::Blocks(unit) })
}

/// Whether every device has a delay between its ensembles, in each of its zones.
pub fn has_switch(devices: &[Arc<dyn Device>]) -> Result<bool> {
    for device in devices {
        let zones = zones_of(&Tracks::of(&**device)?);
        if zones.is_empty() || zones.iter().any(|zone| zone.switch == BlockCount::ZERO) {
            return Ok(false);
        }
    }
    Ok(!devices.is_empty())
}
