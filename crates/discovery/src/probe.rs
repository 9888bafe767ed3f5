//! Reads of single blocks, and when they end.

use std::sync::atomic::{AtomicU64, Ordering};

use futures::{Stream, StreamExt, stream};
use moirai_storage::{Device, Request};
use moirai_units::{BlockCount, BlockRange, Instant, Lbn, Nanos};

use crate::error::Result;

/// Of the blocks that scattered reads are of, each lies so far behind the one before it, as a part of the device, and round its end:
/// the golden ratio, so that any number of them lie far from each other.
pub(crate) const SCATTERED_PART: f64 = 0.618_033_988_749_895;
/// Of blocks that are read near another one: how far they lie from each other, in how many places, and how many places further each
/// lies than the one before.
const NEAR_BLOCKS: u64 = 1024;
const NEAR_PLACES: u64 = 509;
const NEAR_STEP: u64 = 7;
/// Reads in flight: the drive decodes one while it carries out the other. More could be reordered.
const READS_UNDER_WAY: usize = 2;

/// A read of one block.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Read {
    pub(crate) finished: Instant,
    pub(crate) response: Nanos,
}

/// Reads single blocks.
pub(crate) struct Prober<'a> {
    device: &'a dyn Device,
    commands: AtomicU64,
    scattered: f64,
    near: u64,
}

impl<'a> Prober<'a> {
    pub(crate) fn new(device: &'a dyn Device) -> Prober<'a> {
        Prober { device, commands: AtomicU64::new(0), scattered: 0.0, near: 0 }
    }

    pub(crate) fn name(&self) -> &str {
        &self.device.inquiry().name
    }

    /// Behind the last block.
    pub(crate) fn capacity(&self) -> Lbn {
        Lbn(self.device.inquiry().capacity.0)
    }

    /// Commands so far.
    pub(crate) fn commands(&self) -> u64 {
        self.commands.load(Ordering::Relaxed)
    }

    /// Reads a block by itself.
    pub(crate) async fn read(&self, lbn: Lbn) -> Result<Read> {
        self.commands.fetch_add(1, Ordering::Relaxed);
        let blocks = BlockRange::new(lbn, BlockCount(1));
        let timing = self.device.access(Request::read(blocks)).await?.timing;
        Ok(Read { finished: timing.finished, response: timing.response() })
    }

    /// Reads blocks all at once.
    pub(crate) async fn read_at_once(&self, lbns: &[Lbn]) -> Result<Vec<Read>> {
        self.commands.fetch_add(lbns.len() as u64, Ordering::Relaxed);
        let request = |lbn: &Lbn| Request::read(BlockRange::new(*lbn, BlockCount(1)));
        let mut reads = Vec::with_capacity(lbns.len());
        for done in self.device.submit(lbns.iter().map(request).collect()).await {
            let timing = done?.timing;
            reads.push(Read { finished: timing.finished, response: timing.response() });
        }
        Ok(reads)
    }

    /// Reads blocks all over the device: afterwards its cache holds none of those that were read before, if there are enough.
    pub(crate) async fn scatter(&mut self, count: u64) -> Result<()> {
        for _ in 0..count {
            let lbn = self.elsewhere();
            self.read(lbn).await?;
        }
        Ok(())
    }

    /// The same with blocks before `lbn`, which the head reaches soon, or behind it where there are few before.
    pub(crate) async fn evict(&mut self, lbn: Lbn, count: u64) -> Result<()> {
        let reach = NEAR_BLOCKS * NEAR_PLACES;
        let first = if lbn.0 > reach { lbn.0 - reach } else { lbn.0 + NEAR_BLOCKS };
        for _ in 0..count {
            self.near = (self.near + NEAR_STEP) % NEAR_PLACES;
            let lbn = first + self.near * NEAR_BLOCKS;
            self.read(Lbn(lbn % self.capacity().0)).await?;
        }
        Ok(())
    }

    /// A block far from those before, with some behind it.
    pub(crate) fn elsewhere(&mut self) -> Lbn {
        self.scattered = (self.scattered + SCATTERED_PART).fract();
        Lbn((self.capacity().0.saturating_sub(4) as f64 * self.scattered) as u64)
    }

    /// Reads blocks one after the other. The next read is always queued, so the drive does not wait for it.
    pub(crate) fn stream(&self, lbns: Vec<Lbn>) -> impl Stream<Item = Result<Read>> {
        stream::iter(lbns).map(|lbn| self.read(lbn)).buffered(READS_UNDER_WAY)
    }
}
