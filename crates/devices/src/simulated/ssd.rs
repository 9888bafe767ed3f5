//! An SSD, whose ensembles are the blocks that are erased together, and whose dies work side by side.

use std::sync::Arc;

use futures::future::BoxFuture;
use moirai_models::{Ssd, SsdCounters, SsdProfile};
use moirai_storage::{
    Completions, Device, Discarded, Ensemble, EquivalenceClass, Flushed, Inquiry, Request, Result,
};
use moirai_units::{BlockCount, BlockRange, Lbn};

use super::{SimulatedOptions, Simulation};

/// A simulated SSD.
#[derive(Debug)]
pub struct SimulatedSsd {
    simulation: Simulation<Ssd>,
    profile: SsdProfile,
}

impl SimulatedSsd {
    /// Starts an SSD that was never written. Its physical sector is a page at least.
    ///
    /// # Panics
    /// Outside a runtime.
    #[must_use]
    pub fn start(profile: SsdProfile, options: SimulatedOptions) -> Arc<SimulatedSsd> {
        let page = profile.page_blocks;
        let ssd = Ssd::new(profile.clone());
        let mut simulation = Simulation::start(ssd, profile.capacity(), options);
        let inquiry = &mut simulation.inquiry;
        inquiry.parallelism = profile.dies;
        inquiry.volatile_cache = true;
        inquiry.physical_block = inquiry.physical_block.max(page);
        // The SSD knows discards, whatever holds its contents.
        inquiry.discard = Some(inquiry.discard.map_or(page, |granule| granule.max(page)));
        inquiry.wants_discards = true;
        Arc::new(SimulatedSsd { simulation, profile })
    }

    /// What the SSD has done.
    #[must_use]
    pub fn counters(&self) -> SsdCounters {
        self.simulation.mechanism.state.lock().model.counters()
    }
}

impl Device for SimulatedSsd {
    fn inquiry(&self) -> &Inquiry {
        &self.simulation.inquiry
    }

    fn ensemble(&self, lbn: Lbn) -> Result<Ensemble> {
        self.simulation.check_lbn(lbn)?;
        Ok(Ensemble { blocks: self.profile.ensemble(lbn), switch: self.profile.switch() })
    }

    fn parallel_ensemble(&self, lbn: Lbn) -> Result<BlockRange> {
        self.simulation.check_lbn(lbn)?;
        Ok(self.profile.row(lbn))
    }

    fn equivalent(&self, lbn: Lbn) -> Result<EquivalenceClass> {
        self.simulation.check_lbn(lbn)?;
        // A block of each die, at the same place in the ensemble.
        let (row, ensemble) = (self.profile.row(lbn), self.profile.ensemble);
        let first = row.first + BlockCount(lbn.0 % ensemble.0);
        let of_die = |die: u32| first + BlockCount(ensemble.0 * u64::from(die));
        let lbns = (0..self.profile.dies).map(of_die).collect();
        Ok(EquivalenceClass { lbns, parallelism: self.profile.dies })
    }

    fn submit(&self, batch: Vec<Request>) -> BoxFuture<'_, Completions> {
        Box::pin(self.simulation.submit(batch))
    }

    fn flush(&self) -> Flushed<'_> {
        Box::pin(self.simulation.flush())
    }

    fn discard(&self, blocks: BlockRange) -> Discarded<'_> {
        Box::pin(async move { self.simulation.discard(blocks) })
    }
}
