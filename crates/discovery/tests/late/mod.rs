//! A device whose answers come late.

use std::sync::Arc;

use futures::future::BoxFuture;
use moirai_runtime::{Random, now, random, sleep};
use moirai_storage::{
    Completions, Device, Diagnostics, Ensemble, EquivalenceClass, Flushed, Inquiry, Request, Result,
};
use moirai_units::{BlockRange, Lbn, Nanos};
use parking_lot::Mutex;
use rand::Rng;

const STALL: Nanos = Nanos(50_000_000);

/// A device whose answers come late: each by 100 us and some more or less, and, if it stalls, one batch in so many as a whole 50 ms after
/// its last answer.
#[derive(Debug)]
pub(crate) struct Late {
    device: Arc<dyn Device>,
    deviation_us: f64,
    one_stalls_in: Option<u32>,
    random: Mutex<Random>,
}

impl Late {
    pub(crate) fn over(
        device: Arc<dyn Device>,
        deviation_us: f64,
        one_stalls_in: Option<u32>,
    ) -> Arc<dyn Device> {
        Arc::new(Late { device, deviation_us, one_stalls_in, random: Mutex::new(random("late")) })
    }

    /// How late an answer comes.
    fn late(&self) -> Nanos {
        let random = &mut *self.random.lock();
        // The sum of twelve has a standard deviation of one.
        let deviates: f64 = (0..12).map(|_| random.random_range(-0.5..0.5)).sum();
        Nanos(((100.0 + deviates * self.deviation_us).max(0.0) * 1e3) as u64)
    }
}

impl Device for Late {
    fn inquiry(&self) -> &Inquiry {
        self.device.inquiry()
    }

    fn ensemble(&self, lbn: Lbn) -> Result<Ensemble> {
        self.device.ensemble(lbn)
    }

    fn parallel_ensemble(&self, lbn: Lbn) -> Result<BlockRange> {
        self.device.parallel_ensemble(lbn)
    }

    fn equivalent(&self, lbn: Lbn) -> Result<EquivalenceClass> {
        self.device.equivalent(lbn)
    }

    fn submit(&self, batch: Vec<Request>) -> BoxFuture<'_, Completions> {
        Box::pin(async move {
            let mut done = self.device.submit(batch).await;
            for one in done.iter_mut().flatten() {
                one.timing.finished = one.timing.finished + self.late();
            }
            let ends = done.iter().flatten().map(|one| one.timing.finished);
            let mut last = ends.max().unwrap_or_else(now);
            if self.one_stalls_in.is_some_and(|many| self.random.lock().random_ratio(1, many)) {
                last = last + STALL;
                done.iter_mut().flatten().for_each(|one| one.timing.finished = last);
            }
            sleep(last.since(now())).await;
            done
        })
    }

    fn flush(&self) -> Flushed<'_> {
        self.device.flush()
    }

    fn diagnostics(&self) -> Option<&dyn Diagnostics> {
        self.device.diagnostics()
    }
}
