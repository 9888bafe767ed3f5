//! A device that counts what passes through it.

use std::sync::Arc;

use futures::future::BoxFuture;
use moirai_units::{BlockCount, BlockRange, Lbn, ServiceParts};
use parking_lot::Mutex;

use crate::{
    Completions, Device, Discarded, Ensemble, EquivalenceClass, Flushed, Inquiry, Op, Request,
    Result,
};

/// What passed through a [`Metered`] device.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Meter {
    /// Reads carried out.
    pub reads: u64,
    /// Writes carried out.
    pub writes: u64,
    /// Blocks read.
    pub read_blocks: BlockCount,
    /// Blocks written.
    pub written_blocks: BlockCount,
    /// Where the time went, summed over all requests; zero on devices that do not know.
    pub parts: ServiceParts,
}

/// Passes everything on to another device and counts it.
#[derive(Debug)]
pub struct Metered {
    inner: Arc<dyn Device>,
    meter: Mutex<Meter>,
}

impl Metered {
    /// Counts what passes to `inner`.
    #[must_use]
    pub fn new(inner: Arc<dyn Device>) -> Arc<Metered> {
        Arc::new(Metered { inner, meter: Mutex::new(Meter::default()) })
    }

    /// What passed since the last call, or since the start.
    pub fn take(&self) -> Meter {
        std::mem::take(&mut self.meter.lock())
    }
}

impl Device for Metered {
    fn inquiry(&self) -> &Inquiry {
        self.inner.inquiry()
    }

    fn ensemble(&self, lbn: Lbn) -> Result<Ensemble> {
        self.inner.ensemble(lbn)
    }

    fn parallel_ensemble(&self, lbn: Lbn) -> Result<BlockRange> {
        self.inner.parallel_ensemble(lbn)
    }

    fn equivalent(&self, lbn: Lbn) -> Result<EquivalenceClass> {
        self.inner.equivalent(lbn)
    }

    fn submit(&self, batch: Vec<Request>) -> BoxFuture<'_, Completions> {
        Box::pin(async move {
            let kinds: Vec<_> = batch.iter().map(|r| (r.op, r.blocks.count)).collect();
            let results = self.inner.submit(batch).await;
            let mut meter = self.meter.lock();
            for ((op, count), result) in kinds.into_iter().zip(&results) {
                let Ok(completion) = result else { continue };
                match op {
                    Op::Read => {
                        meter.reads += 1;
                        meter.read_blocks += count;
                    }
                    Op::Write => {
                        meter.writes += 1;
                        meter.written_blocks += count;
                    }
                }
                if let Some(parts) = completion.timing.parts {
                    meter.parts += parts;
                }
            }
            results
        })
    }

    fn flush(&self) -> Flushed<'_> {
        self.inner.flush()
    }

    fn data_after(&self, from: Lbn) -> Result<Option<BlockRange>> {
        self.inner.data_after(from)
    }

    fn discard(&self, blocks: BlockRange) -> Discarded<'_> {
        self.inner.discard(blocks)
    }
}
