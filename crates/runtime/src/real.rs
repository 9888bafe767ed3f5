//! Real time: tokio's multi-threaded runtime, and a stopwatch for what is measured outside it.

use std::future::Future;

use moirai_units::Nanos;

use crate::context::{self, Clock, Context};

/// Runs `future` to its end on the machine's clock, with a worker thread for each core.
///
/// # Panics
/// When the operating system gives no threads.
#[expect(
    clippy::expect_used,
    reason = "a process that cannot start its threads cannot go on, and has lost nothing yet"
)]
pub fn block_on_real<F: Future>(seed: u64, future: F) -> F::Output {
    let context = Context { seed, lasts: true, clock: Clock::Real };
    let _entered = context::enter(context.clone());
    let tokio = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        // The thread belongs to the runtime until it ends.
        .on_thread_start(move || std::mem::forget(context::enter(context.clone())))
        .build()
        .expect("threads for the runtime");
    tokio.block_on(future)
}

/// Measures real time, also while virtual time runs: for throughput figures and progress only,
/// never for anything that decides what is done.
#[derive(Clone, Copy, Debug)]
pub struct Stopwatch(std::time::Instant);

impl Stopwatch {
    /// A stopwatch that runs from now on.
    #[must_use]
    pub fn start() -> Stopwatch {
        Stopwatch(std::time::Instant::now())
    }

    /// Real time since the start.
    #[must_use]
    pub fn elapsed(&self) -> Nanos {
        Nanos(u64::try_from(self.0.elapsed().as_nanos()).unwrap_or(u64::MAX))
    }
}
