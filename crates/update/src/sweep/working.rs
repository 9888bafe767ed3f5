//! The memory that sweeps work in: what they read, apply and write takes a part of the engine's memory, like all else.

use tokio::sync::{Semaphore, SemaphorePermit};

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
