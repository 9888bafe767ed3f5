//! A part of a device, as a device.

use std::sync::Arc;

use futures::future::{BoxFuture, ready};
use moirai_storage::{
    Completion, Completions, Device, Discarded, Ensemble, EquivalenceClass, Error, Flushed,
    Inquiry, Request, Result,
};
use moirai_units::{BlockCount, BlockRange, Lbn};

/// Consecutive blocks of a device, counted from zero. Several volumes can lie on the same devices, each on
/// its own sections of them and with a layout of its own.
#[derive(Debug)]
pub struct Section {
    inquiry: Inquiry,
    device: Arc<dyn Device>,
    first: BlockCount,
}

impl Section {
    /// The `blocks` of `device`; an error when it has not all of them.
    pub fn of(device: Arc<dyn Device>, blocks: BlockRange) -> Result<Arc<Section>> {
        let whole = device.inquiry();
        if blocks.is_empty() || blocks.end() > whole.all_blocks().end() {
            let capacity = whole.capacity;
            return Err(Error::PastEnd { device: whole.name.clone(), blocks, capacity });
        }
        let inquiry = Inquiry { capacity: blocks.count, depth: 1, parallelism: 1, ..whole.clone() };
        Ok(Arc::new(Section { inquiry, device, first: BlockCount(blocks.first.0) }))
    }

    /// A range of the device as the section counts it; what lies before or behind the section is cut off.
    fn within(&self, blocks: BlockRange) -> BlockRange {
        let place = |lbn: Lbn| Lbn(lbn.0.saturating_sub(self.first.0).min(self.inquiry.capacity.0));
        BlockRange::between(place(blocks.first), place(blocks.end()))
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

    /// Blocks that go with one of the section may lie outside: none are told of.
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

    fn discard(&self, blocks: BlockRange) -> Discarded<'_> {
        match self.inquiry.check_blocks(blocks) {
            Ok(()) => self.device.discard(BlockRange::new(blocks.first + self.first, blocks.count)),
            Err(error) => Box::pin(ready(Err(error))),
        }
    }
}
