//! The blocks that placing writes, with some writes in flight while the next blocks are made.

use std::task::Poll;

use futures::StreamExt;
use futures::future::BoxFuture;
use futures::stream::FuturesUnordered;
use moirai_storage::{Device, IoBuf};
use moirai_units::Lbn;

use crate::error::Result;
use crate::sweep::done::Written;

/// Writes of a job that are in flight at most.
const WRITES_MAX: usize = 2;

/// The partitions to be of a job, and their writes in flight. [`Writes::settle`] must end each: a free extent has no write
/// in flight.
#[derive(Default)]
pub(super) struct Writes<'a> {
    pub(super) written: Vec<Written>,
    /// Bytes of the directory that what is replaced takes, and what is written does not take again yet.
    pub(super) replaced_bytes: usize,
    /// Bytes that the directory grows by.
    pub(super) grown_bytes: usize,
    /// Whether to end read points where there is no space: what was taken of a bulk group cannot be taken again.
    pub(super) ends_points: bool,
    in_flight: FuturesUnordered<BoxFuture<'a, moirai_storage::Result<()>>>,
}

impl<'a> Writes<'a> {
    /// Those of a job that replaces so many bytes of the directory.
    pub(super) fn replacing(replaced_bytes: usize) -> Writes<'a> {
        Writes { replaced_bytes, ..Writes::default() }
    }

    /// Begins a write; waits for others where too many are in flight.
    pub(super) async fn begin(
        &mut self,
        device: &'a dyn Device,
        first: Lbn,
        bytes: &[u8],
    ) -> Result<()> {
        while self.in_flight.len() >= WRITES_MAX
            && let Some(done) = self.in_flight.next().await
        {
            done?;
        }
        self.in_flight.push(Box::pin(device.write(first, IoBuf::holding(bytes))));
        // A future begins when it is polled first.
        match futures::poll!(self.in_flight.next()) {
            Poll::Ready(Some(done)) => Ok(done?),
            _ => Ok(()),
        }
    }

    /// Returns when no write is in flight.
    pub(super) async fn settle(&mut self) -> Result<()> {
        let mut settled = Ok(());
        while let Some(done) = self.in_flight.next().await {
            settled = settled.and(done);
        }
        Ok(settled?)
    }
}
