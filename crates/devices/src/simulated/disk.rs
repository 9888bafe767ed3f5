//! A disk, whose tracks are its ensembles.

use std::sync::Arc;

use futures::future::BoxFuture;
use moirai_models::{Disk, Geometry, ImmediateReport, Profile, Track};
use moirai_storage::{
    Completions, Device, Diagnostics, Discarded, Ensemble, EquivalenceClass, Flushed, Inquiry,
    Request, Result,
};
use moirai_units::{BlockCount, BlockRange, Lbn};

use super::{SimulatedOptions, Simulation};

/// A simulated disk.
#[derive(Debug)]
pub struct SimulatedDisk {
    pub(super) simulation: Simulation<Disk>,
    pub(super) geometry: Geometry,
}

impl SimulatedDisk {
    /// Starts a disk at rest.
    ///
    /// # Panics
    /// Outside a runtime.
    #[must_use]
    pub fn start(profile: Profile, options: SimulatedOptions) -> Arc<SimulatedDisk> {
        let geometry = profile.geometry.clone();
        let cache = profile.electronics.cache.as_ref();
        let writes_back =
            cache.is_some_and(|cache| cache.immediate_report != ImmediateReport::None);
        let disk = Disk::new(profile, options.scheduler);
        let mut simulation = Simulation::start(disk, geometry.capacity(), options);
        simulation.inquiry.volatile_cache = writes_back;
        Arc::new(SimulatedDisk { simulation, geometry })
    }

    pub(super) fn track(&self, lbn: Lbn) -> Result<Track> {
        self.geometry.track(lbn).ok_or_else(|| self.simulation.past_end(lbn))
    }
}

impl Device for SimulatedDisk {
    fn inquiry(&self) -> &Inquiry {
        &self.simulation.inquiry
    }

    fn ensemble(&self, lbn: Lbn) -> Result<Ensemble> {
        self.track(lbn).map(|track| Ensemble {
            blocks: track.blocks,
            switch: BlockCount(u64::from(track.next_skew)),
        })
    }

    fn parallel_ensemble(&self, lbn: Lbn) -> Result<BlockRange> {
        self.track(lbn).map(|track| track.blocks)
    }

    fn equivalent(&self, lbn: Lbn) -> Result<EquivalenceClass> {
        self.track(lbn).map(|_| EquivalenceClass::single(lbn))
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

    fn diagnostics(&self) -> Option<&dyn Diagnostics> {
        Some(self)
    }
}

#[cfg(test)]
mod tests {
    use std::fs::File;

    use futures::future::join;
    use moirai_models::Scheduler;
    use moirai_runtime::block_on_virtual;
    use moirai_storage::Error;

    use super::*;
    use crate::Contents;

    #[test]
    fn a_flush_that_succeeds_does_not_clear_the_latch_of_one_that_failed() {
        block_on_virtual(1, async {
            // A null device cannot be synchronized.
            let path = "/dev/null".into();
            let contents = Contents::File {
                file: File::open("/dev/null").unwrap(),
                path,
                is_read_only: false,
            };
            let disk = SimulatedDisk::start(
                Profile::built_in("ibm-ultrastar-18lzx").unwrap(),
                SimulatedOptions {
                    name: "disk".to_owned(),
                    scheduler: Scheduler::Fcfs,
                    contents,
                    physical_block: BlockCount(1),
                    host_bus: None,
                },
            );
            let failing = async {
                let flushed = disk.flush().await;
                *disk.simulation.contents.lock() = Contents::memory();
                flushed
            };
            let (failed, flushed) = join(failing, disk.flush()).await;
            assert!(failed.is_err() && matches!(flushed, Err(Error::Latched { .. })));
            assert!(matches!(disk.flush().await, Err(Error::Latched { .. })));
        });
    }
}
