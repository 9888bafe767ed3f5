//! A device with equivalence classes on one that has none.

use std::sync::Arc;

use futures::future::BoxFuture;
use moirai_storage::{
    Completions, Device, Discarded, Ensemble, EquivalenceClass, Flushed, Inquiry, Request, Result,
};
use moirai_units::{BlockCount, BlockRange, Lbn};

/// Regions of some slots, one behind the other as far as there is room; behind them and with a single slot there are no classes.
#[derive(Debug)]
pub(crate) struct Classes {
    pub(crate) inner: Arc<dyn Device>,
    pub(crate) slots: u64,
    /// Blocks of a slot.
    pub(crate) columns: u64,
}

impl Classes {
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
        self.inner.inquiry()
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
