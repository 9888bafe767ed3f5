//! The blocking door: for programs without a runtime.

use std::fmt;
use std::future::Future;
use std::sync::LazyLock;

/// Threads of the runtime in the background. What they run waits for devices most of the time.
const THREADS: usize = 2;

/// Runs `future` to its end and blocks the calling thread until then: how a program without a runtime calls any
/// `async` function of Moirai.
///
/// The first call starts a tokio runtime of two threads that stays until the process ends, so what the future spawned
/// goes on between calls: a store writes its log and sweeps. Any number of threads may wait at the same time.
///
/// ```
/// use moirai_runtime::{sleep, spawn, wait};
/// use moirai_units::Nanos;
///
/// let task = wait(async { spawn(async { sleep(Nanos(1000)).await; 21 * 2 }) });
/// assert_eq!(wait(task), 42);
/// ```
///
/// # Panics
/// Inside an `async` task, which must `.await` the future instead. When the operating system gives no threads.
#[track_caller]
pub fn wait<F: Future>(future: F) -> F::Output {
    BACKGROUND.block_on(future)
}

#[expect(
    clippy::expect_used,
    reason = "a process that cannot start its threads cannot go on, and has lost nothing yet"
)]
static BACKGROUND: LazyLock<tokio::runtime::Runtime> = LazyLock::new(|| {
    tokio::runtime::Builder::new_multi_thread()
        .worker_threads(THREADS)
        .thread_name("moirai")
        .enable_all()
        .build()
        .expect("threads for the runtime in the background")
});

/// An `async` function was called outside any runtime.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NoRuntime;

impl fmt::Display for NoRuntime {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(
            "there is no tokio runtime here: await this inside one (built with `enable_all`), or block on it with \
             `moirai_runtime::wait(...)`",
        )
    }
}

impl std::error::Error for NoRuntime {}
