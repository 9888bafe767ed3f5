//! A device that does not turn, and whose answers take as long each time.

use std::sync::Arc;

use futures::future::BoxFuture;
use moirai_runtime::{Random, now, random, sleep};
use moirai_storage::{
    Completion, Completions, Device, Ensemble, EquivalenceClass, Flushed, Inquiry, Request, Result,
    Timing,
};
use moirai_units::{BlockRange, Lbn, Nanos};
use parking_lot::Mutex;
use rand::Rng;

/// A device like another one, each answer of which takes as long, within some 30 us: as over a network.
#[derive(Debug)]
pub(crate) struct Distant {
    like: Arc<dyn Device>,
    response: Nanos,
    random: Mutex<Random>,
}

impl Distant {
    pub(crate) fn like(like: Arc<dyn Device>, response: Nanos) -> Distant {
        Distant { like, response, random: Mutex::new(random("distant")) }
    }
}

impl Device for Distant {
    fn inquiry(&self) -> &Inquiry {
        self.like.inquiry()
    }

    fn ensemble(&self, lbn: Lbn) -> Result<Ensemble> {
        self.like.ensemble(lbn)
    }

    fn parallel_ensemble(&self, lbn: Lbn) -> Result<BlockRange> {
        self.like.parallel_ensemble(lbn)
    }

    fn equivalent(&self, lbn: Lbn) -> Result<EquivalenceClass> {
        self.like.equivalent(lbn)
    }

    fn submit(&self, batch: Vec<Request>) -> BoxFuture<'_, Completions> {
        Box::pin(async move {
            let issued = now();
            let more = self.random.lock().random_range(0..60_000);
            sleep(self.response + Nanos(more)).await;
            let timing = Timing { issued, started: issued, finished: now(), parts: None };
            let done = |request: Request| Ok(Completion { data: request.data, timing });
            batch.into_iter().map(done).collect()
        })
    }

    fn flush(&self) -> Flushed<'_> {
        self.like.flush()
    }
}
