//! Zones, as far as they show through the interface: runs of ensembles of one length.

use moirai_storage::{Device, Result};
use moirai_units::{BlockCount, Lbn};

/// Consecutive ensembles of the same length.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ZoneRun {
    /// The first block of the first ensemble.
    pub first: Lbn,
    /// Blocks in each ensemble, N.
    pub ensemble: BlockCount,
    /// How many ensembles.
    pub ensembles: u64,
    /// The largest delay between two of them, H.
    pub switch: BlockCount,
}

/// The runs of equally long ensembles that tile `device`, in block order.
pub fn zone_runs(device: &dyn Device) -> Result<Vec<ZoneRun>> {
    let end = device.inquiry().all_blocks().end();
    let mut runs: Vec<ZoneRun> = Vec::new();
    let mut at = Lbn(0);
    while at < end {
        let ensemble = device.ensemble(at)?;
        match runs.last_mut() {
            Some(run) if run.ensemble == ensemble.blocks.count => {
                run.ensembles += 1;
                run.switch = run.switch.max(ensemble.switch);
            }
            _ => runs.push(ZoneRun {
                first: ensemble.blocks.first,
                ensemble: ensemble.blocks.count,
                ensembles: 1,
                switch: ensemble.switch,
            }),
        }
        at = ensemble.blocks.end();
    }
    Ok(runs)
}
