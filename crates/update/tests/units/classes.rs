//! A device with equivalence classes on one that has none.

use std::sync::Arc;

use futures::future::BoxFuture;
use moirai_storage::{
    Completions, Device, Discarded, Ensemble, EquivalenceClass, Flushed, Inquiry, Request, Result,
};
use moirai_units::{BlockCount, BlockRange, Lbn};

/// The device is divided into regions of equally many slots. Blocks behind the last whole region have no class; neither has any
/// block where a region has a single slot.
#[derive(Debug)]
pub(crate) struct Classes {
    inner: Arc<dyn Device>,
    inquiry: Inquiry,
    slots: u64,
    columns: u64,
}

impl Classes {
    /// So many slots of so many blocks.
    pub(crate) fn new(inner: Arc<dyn Device>, slots: u64, columns: u64) -> Arc<Classes> {
        let inquiry = Inquiry { depth: slots as u32, ..inner.inquiry().clone() };
        Arc::new(Classes { inner, inquiry, slots, columns })
    }

    fn class(&self, lbn: Lbn) -> Option<Vec<Lbn>> {
        let region = self.slots * self.columns;
        let first = lbn.0 / region * region;
        let has_room = first + region <= self.inner.inquiry().capacity.0;
        let column = first + lbn.0 % self.columns;
        let class = (0..self.slots).map(|slot| Lbn(column + slot * self.columns));
        (has_room && self.slots > 1).then(|| class.collect())
    }
}

impl Device for Classes {
    fn inquiry(&self) -> &Inquiry {
        &self.inquiry
    }

    fn ensemble(&self, lbn: Lbn) -> Result<Ensemble> {
        self.inner.ensemble(lbn)
    }

    fn parallel_ensemble(&self, lbn: Lbn) -> Result<BlockRange> {
        let first = lbn.0 / self.columns * self.columns;
        let end = (first + self.columns).min(self.inner.inquiry().capacity.0);
        Ok(BlockRange::new(Lbn(first), BlockCount(end - first)))
    }

    fn equivalent(&self, lbn: Lbn) -> Result<EquivalenceClass> {
        Ok(match self.class(lbn) {
            Some(lbns) => EquivalenceClass { lbns, parallelism: 1 },
            None => EquivalenceClass::single(lbn),
        })
    }

    fn submit(&self, batch: Vec<Request>) -> BoxFuture<'_, Completions> {
        self.inner.submit(batch)
    }

    fn flush(&self) -> Flushed<'_> {
        self.inner.flush()
    }

    fn discard(&self, blocks: BlockRange) -> Discarded<'_> {
        self.inner.discard(blocks)
    }
}
