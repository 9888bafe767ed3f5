//! The device trait, and the functions of appendix B that follow from it.

use std::fmt::Debug;

use futures::future::{BoxFuture, ready};
use moirai_units::{BlockCount, BlockRange, Lbn};

use crate::{
    Completion, Diagnostics, Ensemble, EquivalenceClass, Error, Inquiry, IoBuf, Request, Result,
    Zoned,
};

/// One result for each request of a batch, in the order of the batch.
pub type Completions = Vec<Result<Completion>>;

/// The future of [`Device::flush`].
pub type Flushed<'a> = BoxFuture<'a, Result<()>>;

/// The future of [`Device::discard`].
pub type Discarded<'a> = BoxFuture<'a, Result<()>>;

/// A linear space of blocks with performance attributes: a disk, a file, a volume.
///
/// Attributes are exact and do not change while the device is open. Each holds for every block of
/// the device; asked about a block past its end they are an error.
pub trait Device: Send + Sync + Debug {
    /// Capacity, p, d, block sizes, and what the device promises at a power failure.
    fn inquiry(&self) -> &Inquiry;

    /// The access delay boundaries around `lbn` (`sif_ensemble`): ensembles tile the block space.
    fn ensemble(&self, lbn: Lbn) -> Result<Ensemble>;

    /// The run of blocks around `lbn` whose ensembles are accessed in parallel
    /// (`sif_parallel_ensemble`): at most p consecutive ensembles. These runs tile the block space.
    fn parallel_ensemble(&self, lbn: Lbn) -> Result<BlockRange>;

    /// The blocks that can be accessed together with `lbn` (`sif_equivalent`).
    fn equivalent(&self, lbn: Lbn) -> Result<EquivalenceClass>;

    /// Carries out a batch (`sif_batch_read`, `sif_batch_write`). The requests reach the device
    /// together and it serves them in the order it likes best; requests of one batch must not
    /// overlap when one of them writes. Gives one result for each request, in their order.
    fn submit(&self, batch: Vec<Request>) -> BoxFuture<'_, Completions>;

    /// Returns when everything written before is durable. After a failed flush all operations are
    /// errors until the device is reopened.
    fn flush(&self) -> Flushed<'_>;

    /// Writes consecutive blocks from `first` on, and returns when they and everything written before are durable: a write and a flush
    /// after it, in one step where the device has that. Errors are those of both.
    fn write_flushed(&self, first: Lbn, data: IoBuf) -> Flushed<'_> {
        let written = self.submit(vec![Request::write(first, data)]);
        Box::pin(async move {
            for result in written.await {
                result?;
            }
            self.flush().await
        })
    }

    /// The first run of blocks from `from` on that may hold something else than zeros, as far as the device knows that
    /// without reading: of a file, what is no hole. The run is not empty and ends after `from`. `None` after the last one,
    /// and where nothing is known.
    ///
    /// # Errors
    /// Failures of what holds the blocks.
    fn data_after(&self, from: Lbn) -> Result<Option<BlockRange>> {
        let _ = from;
        Ok(None)
    }

    /// Tells the device that the content of `blocks` is not needed any more, so that it may free what holds
    /// them: of `blocks` the whole granules of [`Inquiry::discard`], and in this implementation nothing.
    ///
    /// Until a block is written again, its content is unspecified: zeros, or what it held, and after a crash
    /// possibly something older; two reads may differ. A read of it is no error, though. Other blocks keep
    /// their content. Like a write, a discard is ordered before what is submitted after its end, must not
    /// overlap a request in flight, and is durable only with the next [`flush`](Device::flush). A power failure
    /// before leaves any part of it done.
    ///
    /// # Errors
    /// Blocks past the end of the device, a read-only device, and failures of what holds the blocks.
    fn discard(&self, blocks: BlockRange) -> Discarded<'_> {
        Box::pin(ready(self.inquiry().discardable(blocks).map(drop)))
    }

    /// The commands of a device whose blocks can only be written in order, zone by zone; `None` for everything else.
    fn zones(&self) -> Option<&dyn Zoned> {
        None
    }

    /// The commands that a drive answers besides; `None` for everything else.
    fn diagnostics(&self) -> Option<&dyn Diagnostics> {
        None
    }
}

impl dyn Device + '_ {
    /// Reads consecutive blocks into one buffer (`sif_read`).
    pub async fn read(&self, blocks: BlockRange) -> Result<IoBuf> {
        let mut completion = self.access(Request::read(blocks)).await?;
        let mut buffer = completion.data.drain(..);
        match buffer.next() {
            Some(first) => Ok(buffer.fold(first, |mut whole, part| {
                whole.join(part);
                whole
            })),
            None => Err(self.no_result(blocks)),
        }
    }

    /// Writes consecutive blocks from `first` on (`sif_write`).
    pub async fn write(&self, first: Lbn, data: IoBuf) -> Result<()> {
        self.access(Request::write(first, data)).await.map(drop)
    }

    /// Carries out one request.
    pub async fn access(&self, request: Request) -> Result<Completion> {
        let blocks = request.blocks;
        let mut results = self.submit(vec![request]).await;
        results.pop().unwrap_or_else(|| Err(self.no_result(blocks)))
    }

    /// Reads all of `runs` as one batch; a buffer for each, in their order. Fails when one fails.
    pub async fn batch_read(&self, runs: &[BlockRange]) -> Result<Vec<IoBuf>> {
        let batch = runs.iter().copied().map(Request::read).collect();
        let mut buffers = Vec::with_capacity(runs.len());
        for result in self.submit(batch).await {
            buffers.extend(result?.data);
        }
        Ok(buffers)
    }

    /// Writes all of `runs` as one batch. Fails when one fails; the others may be written then.
    pub async fn batch_write(&self, runs: Vec<(Lbn, IoBuf)>) -> Result<()> {
        let batch = runs.into_iter().map(|(first, data)| Request::write(first, data)).collect();
        for result in self.submit(batch).await {
            result?;
        }
        Ok(())
    }

    /// An error unless the device has `lbn`.
    pub fn check_lbn(&self, lbn: Lbn) -> Result<()> {
        self.inquiry().check_blocks(BlockRange::new(lbn, BlockCount(1)))
    }

    fn no_result(&self, blocks: BlockRange) -> Error {
        Error::BufferMismatch {
            device: self.inquiry().name.clone(),
            blocks,
            buffers: BlockCount::ZERO,
        }
    }
}
