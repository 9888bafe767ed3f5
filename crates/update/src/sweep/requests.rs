//! What programs ask the sweeper for: it alone changes which partitions there are.

use std::collections::VecDeque;
use std::sync::Arc;

use parking_lot::Mutex;
use tokio::sync::{OwnedMutexGuard, oneshot};

use crate::bulk::run_block::Run;
use crate::error::{Error, Result};
use crate::ids::SpaceId;
use crate::long::value::LongValue;
use crate::records::Records;

/// From a key on, and before another, or to the end.
pub type Cleared = (Box<[u8]>, Option<Box<[u8]>>);

/// What is to be cleared, in the order in which it was asked for.
#[derive(Debug, Default)]
pub(crate) struct Clears(pub(super) Mutex<VecDeque<Clear>>);

/// A range of keys that is to be cleared.
#[derive(Debug)]
pub(super) struct Clear {
    pub(super) space: SpaceId,
    /// Where the rest begins.
    pub(super) from: Box<[u8]>,
    pub(super) to: Option<Box<[u8]>>,
    /// What is cleared so far, and whether that is all.
    pub(super) cleared: Option<Cleared>,
    pub(super) is_done: bool,
    pub(super) reply: oneshot::Sender<Option<Cleared>>,
    /// No read point begins until this ends: it would see a part of it.
    pub(super) _clearing: OwnedMutexGuard<()>,
}

impl Clears {
    /// Tells all who wait that the engine has stopped.
    pub(crate) fn forget(&self) {
        self.0.lock().clear();
    }
}

/// The bulk group that is absorbed next.
#[derive(Debug, Default)]
pub(crate) struct Bulks(pub(super) Mutex<Option<BulkRequest>>);

/// A bulk group that is to be absorbed.
#[derive(Debug)]
pub(crate) struct BulkRequest {
    pub(super) runs: Vec<Arc<Run>>,
    /// Spaces of which each key has one modification at most.
    pub(super) without_duplicates: Vec<SpaceId>,
    pub(super) long: Vec<Arc<LongValue>>,
    pub(super) count: u64,
    pub(super) reply: oneshot::Sender<Result<()>>,
    /// How often its partitions could not be sealed.
    pub(super) stalls: u32,
    /// No other changes blocks without a group meanwhile, nobody modifies what was read, and no read point begins.
    pub(super) _alone: (OwnedMutexGuard<()>, OwnedMutexGuard<()>),
}

impl Bulks {
    pub(crate) fn begin(&self, request: BulkRequest) {
        *self.0.lock() = Some(request);
    }

    /// Tells who waits that the engine has stopped.
    pub(crate) fn forget(&self) {
        self.0.lock().take();
    }
}

impl BulkRequest {
    pub(crate) fn new(
        (runs, without_duplicates): (Vec<Arc<Run>>, Vec<SpaceId>),
        long: Vec<Arc<LongValue>>,
        count: u64,
        reply: oneshot::Sender<Result<()>>,
        alone: (OwnedMutexGuard<()>, OwnedMutexGuard<()>),
    ) -> BulkRequest {
        BulkRequest { runs, without_duplicates, long, count, reply, stalls: 0, _alone: alone }
    }
}

/// The batch that is ingested.
#[derive(Debug, Default)]
pub(crate) struct Ingests(pub(super) Mutex<Option<IngestRequest>>);

/// What is left of a batch; with the error that kept it from going in.
pub(crate) type IngestOutcome = (Records, Result<()>);

/// A batch of records that is to be ingested.
#[derive(Debug)]
pub(crate) struct IngestRequest {
    pub(crate) space: SpaceId,
    /// Those that are not durable yet.
    pub(crate) records: Records,
    /// Whether the last records may be left for the next batch.
    pub(crate) is_open: bool,
    /// Bytes of all of them.
    pub(crate) bytes: usize,
    /// Whether some of them are durable.
    pub(crate) has_begun: bool,
    /// How often no partition could be sealed.
    pub(crate) stalls: u32,
    pub(crate) failed: Option<Error>,
    pub(crate) reply: oneshot::Sender<IngestOutcome>,
    /// No other batch is ingested, and nobody modifies what was read, until this ends.
    pub(crate) alone: OwnedMutexGuard<()>,
}

impl Ingests {
    pub(crate) fn begin(&self, request: IngestRequest) {
        *self.0.lock() = Some(request);
    }

    /// Tells who waits that the engine has stopped.
    pub(crate) fn forget(&self) {
        self.0.lock().take();
    }

    pub(super) fn is_waiting(&self) -> bool {
        self.0.lock().is_some()
    }
}
