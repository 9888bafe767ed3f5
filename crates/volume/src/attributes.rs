//! What a volume says of its blocks: its layout, and what its devices say of theirs.

use moirai_storage::{Ensemble, Result};
use moirai_units::{BlockCount, BlockRange, Lbn};

use crate::members::Members;
use crate::{Layout, Location};

/// The ensemble around `vlbn`: the unit, or what an ensemble of the disk makes of it.
pub(crate) fn ensemble(layout: &Layout, members: &Members, vlbn: Lbn) -> Result<Ensemble> {
    let (unit, switch) = layout.unit_around(vlbn);
    if layout.depth() > 1 {
        // A row of a quadrangle lies on one track; it begins anywhere there, and goes on at its start.
        return Ok(Ensemble { blocks: unit, switch });
    }
    let Location { disk, dlbn, .. } = layout.locate(vlbn);
    let device = members.device(disk);
    let Ensemble { blocks, switch } = device.ensemble(dlbn)?;
    let within = vlbn.since(unit.first);
    let before = dlbn.since(blocks.first).min(within);
    let after = blocks.end().since(dlbn).min(unit.end().since(vlbn));
    let blocks = BlockRange::new(Lbn(vlbn.0 - before.0), before + after);
    // Within an ensemble of the disk nothing is lost.
    let ends =
        after < unit.end().since(vlbn) || dlbn + after == device.ensemble(dlbn)?.blocks.end();
    Ok(Ensemble { blocks, switch: if ends { switch } else { BlockCount::ZERO } })
}

/// The ensembles that are read in parallel with the one around `vlbn`: those of the units beside its
/// own, where each is one ensemble.
pub(crate) fn parallel_ensemble(
    layout: &Layout,
    members: &Members,
    vlbn: Lbn,
) -> Result<BlockRange> {
    let units = layout.parallel_units(vlbn);
    let mut at = units.first;
    while at < units.end() {
        let (unit, _) = layout.unit_around(at);
        if ensemble(layout, members, at)?.blocks != unit {
            return Ok(ensemble(layout, members, vlbn)?.blocks);
        }
        at = unit.end();
    }
    Ok(units)
}
