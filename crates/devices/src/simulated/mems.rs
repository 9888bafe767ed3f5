//! A MEMS store, whose tracks are its ensembles and whose blocks at one position of the sled are equivalent.

use std::sync::Arc;

use futures::future::BoxFuture;
use moirai_models::{Mems, MemsProfile};
use moirai_storage::{
    Completions, Device, Discarded, Ensemble, EquivalenceClass, Flushed, Inquiry, Request, Result,
};
use moirai_units::{BlockCount, BlockRange, Lbn};

use super::{SimulatedOptions, Simulation};

/// A simulated MEMS store.
#[derive(Debug)]
pub struct SimulatedMems {
    simulation: Simulation<Mems>,
    profile: MemsProfile,
}

impl SimulatedMems {
    /// Starts a store whose sled rests.
    ///
    /// # Panics
    /// Outside a runtime.
    #[must_use]
    pub fn start(profile: MemsProfile, options: SimulatedOptions) -> Arc<SimulatedMems> {
        let mems = Mems::new(profile.clone(), options.scheduler);
        let mut simulation = Simulation::start(mems, profile.layout.capacity(), options);
        simulation.inquiry.parallelism = profile.layout.parallelism;
        simulation.inquiry.depth = profile.layout.tracks;
        Arc::new(SimulatedMems { simulation, profile })
    }
}

impl Device for SimulatedMems {
    fn inquiry(&self) -> &Inquiry {
        &self.simulation.inquiry
    }

    fn ensemble(&self, lbn: Lbn) -> Result<Ensemble> {
        self.simulation.check_lbn(lbn)?;
        let layout = &self.profile.layout;
        let blocks = self.profile.switch_rows(lbn) * f64::from(layout.parallelism);
        Ok(Ensemble { blocks: layout.track(lbn), switch: BlockCount(blocks.round() as u64) })
    }

    fn parallel_ensemble(&self, lbn: Lbn) -> Result<BlockRange> {
        self.simulation.check_lbn(lbn)?;
        Ok(self.profile.layout.track(lbn))
    }

    fn equivalent(&self, lbn: Lbn) -> Result<EquivalenceClass> {
        self.simulation.check_lbn(lbn)?;
        let layout = &self.profile.layout;
        Ok(EquivalenceClass { lbns: layout.equivalent(lbn), parallelism: layout.parallelism })
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
