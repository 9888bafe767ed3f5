//! What every layout answers: where the volume's blocks lie on its devices, and the attributes that
//! follow. Pure arithmetic.

use moirai_storage::{Ensemble, EquivalenceClass, Result};
use moirai_units::{BlockCount, BlockRange, Lbn};

use crate::{Quadrangle, Stripe};

/// Which of a volume's devices, counted from 0.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct DiskIndex(pub usize);

/// Where a block of the volume lies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Location {
    /// The device.
    pub disk: DiskIndex,
    /// The block on it.
    pub dlbn: Lbn,
    /// How many blocks from there on are consecutive on the volume and on the device alike.
    pub run: BlockCount,
}

/// How a volume spreads its blocks.
///
/// The functions take blocks that the volume has.
#[derive(Clone, Debug)]
pub enum Layout {
    /// Stripe units in turn.
    Stripe(Stripe),
    /// Quadrangles in turn.
    Quadrangle(Quadrangle),
}

impl Layout {
    /// Blocks of the volume.
    #[must_use]
    pub fn capacity(&self) -> BlockCount {
        match self {
            Layout::Stripe(layout) => layout.capacity(),
            Layout::Quadrangle(layout) => layout.capacity(),
        }
    }

    /// Where `vlbn` lies.
    pub fn locate(&self, vlbn: Lbn) -> Result<Location> {
        match self {
            Layout::Stripe(layout) => layout.locate(vlbn),
            Layout::Quadrangle(layout) => Ok(layout.locate(vlbn)),
        }
    }

    /// The ensemble around `vlbn`.
    pub fn ensemble(&self, vlbn: Lbn) -> Result<Ensemble> {
        match self {
            Layout::Stripe(layout) => layout.ensemble(vlbn),
            Layout::Quadrangle(layout) => Ok(layout.ensemble(vlbn)),
        }
    }

    /// The ensembles that are accessed in parallel with the one around `vlbn`.
    pub fn parallel_ensemble(&self, vlbn: Lbn) -> Result<BlockRange> {
        match self {
            Layout::Stripe(layout) => layout.parallel_ensemble(vlbn),
            Layout::Quadrangle(layout) => Ok(layout.parallel_ensemble(vlbn)),
        }
    }

    /// The equivalence class of `vlbn`.
    pub fn equivalent(&self, vlbn: Lbn) -> Result<EquivalenceClass> {
        match self {
            Layout::Stripe(layout) => layout.equivalent(vlbn),
            Layout::Quadrangle(layout) => Ok(layout.equivalent(vlbn)),
        }
    }

    /// The depth d that the volume announces.
    #[must_use]
    pub fn depth(&self) -> u32 {
        match self {
            Layout::Stripe(_) => 1,
            Layout::Quadrangle(layout) => layout.dimensions().depth,
        }
    }

    /// The volume block, b.
    #[must_use]
    pub fn volume_block(&self) -> BlockCount {
        match self {
            Layout::Stripe(layout) => layout.volume_block(),
            Layout::Quadrangle(layout) => layout.dimensions().block,
        }
    }
}
