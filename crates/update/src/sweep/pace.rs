//! The pace of sweeps that nobody waits for: they make way for readers.
//!
//! Such a sweep pays off in the long run, but while it runs it takes the device, and a core, from those who read. Where
//! somebody reads, the sweeper therefore rests after each batch, for a multiple of the time that the batch took. Where
//! nobody does, it goes on at once.

use std::sync::atomic::Ordering;

use futures::future::{Either, select};
use moirai_runtime::{now, sleep_until};
use moirai_units::{Instant, Nanos};

use crate::shared::Shared;

/// Beside readers, the sweeper rests so many times as long as it worked. While it works, many reads wait behind its long
/// transfers: on flash, 0.5 ms for what else takes 0.05 ms.
const RESTS: u64 = 9;

/// When a batch of optional sweeps began, and how much had been read until then.
pub(super) struct OptionalBatch {
    began: Instant,
    reads: u64,
}

impl Shared {
    /// Begins a batch of optional sweeps. Until [`Shared::make_way`] returns, reads do not wake the sweeper: that would cut
    /// its pause short.
    pub(super) fn begin_optional(&self) -> OptionalBatch {
        self.is_making_way.store(true, Ordering::Relaxed);
        OptionalBatch { began: now(), reads: self.reads() }
    }

    /// Rests after a batch if somebody read meanwhile, until there is something to do that somebody waits for.
    pub(super) async fn make_way(&self, batch: &OptionalBatch) {
        if self.reads() > batch.reads {
            let ended = now();
            let end = ended + Nanos(ended.since(batch.began).0.saturating_mul(RESTS));
            let woken = std::pin::pin!(self.sweep_wake.notified());
            let rested = std::pin::pin!(sleep_until(end));
            let (Either::Left(_) | Either::Right(_)) = select(woken, rested).await;
        }
        self.is_making_way.store(false, Ordering::Relaxed);
    }

    /// Requests and hits of readers so far.
    fn reads(&self) -> u64 {
        self.counts.reads.get() + self.counts.cached_reads.get()
    }
}
