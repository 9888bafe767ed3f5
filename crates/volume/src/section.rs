//! A part of a device, as a device.

use std::sync::Arc;

use futures::future::BoxFuture;
use moirai_storage::{
    Completion, Completions, Device, Ensemble, EquivalenceClass, Error, Flushed, Inquiry, Request,
    Result,
};
use moirai_units::{BlockCount, BlockRange, Lbn};

/// Consecutive blocks of a device, counted from zero.
#[derive(Debug)]
pub(crate) struct Section {
    inquiry: Inquiry,
    device: Arc<dyn Device>,
    first: BlockCount,
}

impl Section {
    /// The blocks of `device` from `first` on.
    pub(crate) fn from(device: Arc<dyn Device>, first: BlockCount) -> Arc<Section> {
        let whole = device.inquiry();
        let inquiry =
            Inquiry { capacity: whole.capacity - first, depth: 1, parallelism: 1, ..whole.clone() };
        Arc::new(Section { inquiry, device, first })
    }

    /// A range of the device as the section counts it; what lies before the section is cut off.
    fn within(&self, blocks: BlockRange) -> BlockRange {
        let first = Lbn(blocks.first.0.saturating_sub(self.first.0));
        BlockRange::between(first, Lbn(blocks.end().0.saturating_sub(self.first.0)))
    }
}

impl Device for Section {
    fn inquiry(&self) -> &Inquiry {
        &self.inquiry
    }

    fn ensemble(&self, lbn: Lbn) -> Result<Ensemble> {
        let device: &dyn Device = self;
        device.check_lbn(lbn)?;
        let Ensemble { blocks, switch } = self.device.ensemble(lbn + self.first)?;
        Ok(Ensemble { blocks: self.within(blocks), switch })
    }

    fn parallel_ensemble(&self, lbn: Lbn) -> Result<BlockRange> {
        Ok(self.ensemble(lbn)?.blocks)
    }

    /// Blocks that go with one of the section may lie before it: none are told of.
    fn equivalent(&self, lbn: Lbn) -> Result<EquivalenceClass> {
        let device: &dyn Device = self;
        device.check_lbn(lbn)?;
        Ok(EquivalenceClass::single(lbn))
    }

    fn submit(&self, batch: Vec<Request>) -> BoxFuture<'_, Completions> {
        Box::pin(async move {
            let mut results: Vec<Option<Result<Completion>>> = Vec::with_capacity(batch.len());
            let mut requests = Vec::with_capacity(batch.len());
            for mut request in batch {
                match request.check(&self.inquiry) {
                    Err(error) => results.push(Some(Err(error))),
                    Ok(()) => {
                        request.blocks.first += self.first;
                        requests.push(request);
                        results.push(None);
                    }
                }
            }
            let mut done = self.device.submit(requests).await.into_iter();
            let lost = || Error::BufferMismatch {
                device: self.inquiry.name.clone(),
                blocks: self.inquiry.all_blocks(),
                buffers: BlockCount::ZERO,
            };
            let fill =
                |result: Option<_>| result.or_else(|| done.next()).unwrap_or_else(|| Err(lost()));
            results.into_iter().map(fill).collect()
        })
    }

    fn flush(&self) -> Flushed<'_> {
        self.device.flush()
    }
}
