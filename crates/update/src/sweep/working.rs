//! The memory that sweeps work in: what they read, apply and write takes a part of the engine's memory, like all else.

use std::sync::Arc;

use moirai_units::BlockCount;
use tokio::sync::{Semaphore, SemaphorePermit};

use crate::spec::Spec;
use crate::state::partition::staged_blocks;
use crate::sweep::job::{Job, Member};

/// The part of the memory that sweeps work in, at most.
const WORKING_SHARE: usize = 4;
/// Memory is given away in so many bytes.
const UNIT_BYTES: usize = 1 << 10;

/// The memory that sweeps may work in.
#[derive(Debug)]
pub(crate) struct Working {
    free: Semaphore,
    units: usize,
}

impl Working {
    /// A part of `memory_bytes`.
    pub(crate) fn new(memory_bytes: usize) -> Working {
        let units = (memory_bytes / WORKING_SHARE / UNIT_BYTES).clamp(1, u32::MAX as usize);
        let units = units.min(Semaphore::MAX_PERMITS);
        Working { free: Semaphore::new(units), units }
    }

    /// Bytes that sweeps work in now.
    pub(crate) fn bytes(&self) -> usize {
        (self.units - self.free.available_permits().min(self.units)) * UNIT_BYTES
    }

    /// Waits for so many bytes until others are done, or for all of the memory where that is less. Those who wait come in
    /// their order.
    pub(super) async fn take(&self, bytes: usize) -> Taken<'_> {
        let mut taken = Taken { working: self, permit: None };
        taken.at_least(bytes).await;
        taken
    }

    fn units(&self, bytes: usize) -> usize {
        bytes.div_ceil(UNIT_BYTES).clamp(1, self.units)
    }
}

/// Memory that a job works in, until this is dropped.
pub(super) struct Taken<'a> {
    working: &'a Working,
    permit: Option<SemaphorePermit<'a>>,
}

impl Taken<'_> {
    /// Waits until it has so many bytes. What it has is given back before, or several jobs could wait for each other.
    pub(super) async fn at_least(&mut self, bytes: usize) {
        let units = self.working.units(bytes);
        if self.permit.as_ref().is_none_or(|permit| permit.num_permits() < units) {
            self.permit = None;
            // It is never closed.
            self.permit = self.working.free.acquire_many(units as u32).await.ok();
        }
    }
}

impl Job {
    /// Bytes that it takes, about, beside its queues, if it goes as it is expected to, of so many for all.
    pub(super) fn working_bytes(&self, memory_bytes: usize) -> usize {
        let queued = self.queued_bytes();
        // Where a queue lies in its order, its chunk, and the chunk on its way to the device.
        let to_stage = queued / 2 + 2 * queued;
        if let ([member], false, None) = (&self.members[..], self.is_to_clear, &self.ingest)
            && member.is_set_aside
        {
            // Chunks that are combined are read first.
            let staged = staged_blocks(&member.staged).bytes().0 as usize;
            return to_stage + 3 * staged.min(member.combined_bytes_max(memory_bytes));
        }
        let has_blocks = self.members.iter().any(|one| one.place.blocks() > 0);
        let may_stage = |spec: Arc<Spec>| spec.division.staging > BlockCount::ZERO;
        let is_staged =
            !self.is_to_place && self.ingest.is_none() && self.spec().is_none_or(may_stage);
        match self.is_to_clear || (is_staged && has_blocks) {
            true => to_stage,
            false => self.placing_bytes(),
        }
    }

    /// Bytes that it takes to place it.
    pub(super) fn placing_bytes(&self) -> usize {
        let member = |one: &Member| {
            // The blocks as they were, as they come to be, and on their way to the device.
            let blocks = 3 * one.place.blocks() * one.place.block_bytes();
            blocks + staged_blocks(&one.staged).bytes().0 as usize
        };
        let blocks: usize = self.members.iter().map(member).sum();
        let partition_bytes = self.spec().map_or(0, |spec| spec.division.partition_bytes());
        let queued = self.queued_bytes();
        // New blocks are written once there are enough for two partitions.
        let new = queued.min(2 * partition_bytes);
        blocks + queued / 2 + 2 * new
    }
}
