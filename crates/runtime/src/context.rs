//! The runtime that the current thread belongs to, and the functions that act on it.
//!
//! Only virtual time, and the seed of `block_on_real`, need a context of their own. Everything else is tokio's: on a
//! thread without a context time is real, and tasks go to the tokio runtime that the caller is in.

use std::cell::RefCell;
use std::future::Future;
use std::hash::{BuildHasher, Hasher, RandomState};
use std::pin::Pin;
use std::sync::{Arc, LazyLock};
use std::task::{Context as TaskContext, Poll};

use moirai_units::{Instant, Nanos};
use parking_lot::Mutex;
use rand::RngCore;

use crate::NoRuntime;
use crate::random::{self, Random};
use crate::timers::{TimerId, Timers};

/// What a runtime knows, shared by its threads.
#[derive(Clone)]
pub(crate) struct Context {
    pub(crate) seed: u64,
    /// Whether numbers that are unique are so beyond this run.
    pub(crate) lasts: bool,
    pub(crate) clock: Clock,
}

#[derive(Clone)]
pub(crate) enum Clock {
    Virtual(Arc<Mutex<Timers>>),
    Real,
}

/// The context of a thread that entered none, as in a runtime that the program made itself.
const OUTSIDE: Context = Context { seed: 0, lasts: true, clock: Clock::Real };

/// The zero of real time: one for the whole process, since devices and stores outlive runtimes.
static BEGAN: LazyLock<std::time::Instant> = LazyLock::new(std::time::Instant::now);

thread_local! {
    static CURRENT: RefCell<Option<Context>> = const { RefCell::new(None) };
}

/// Makes `context` the current thread's for as long as the guard lives.
pub(crate) fn enter(context: Context) -> Entered {
    let outer = CURRENT.with(|current| current.borrow_mut().replace(context));
    Entered { outer }
}

pub(crate) struct Entered {
    outer: Option<Context>,
}

impl Drop for Entered {
    fn drop(&mut self) {
        let outer = self.outer.take();
        CURRENT.with(|current| *current.borrow_mut() = outer);
    }
}

fn with_current<T>(f: impl FnOnce(&Context) -> T) -> T {
    CURRENT.with(|current| f(current.borrow().as_ref().unwrap_or(&OUTSIDE)))
}

/// Checks that the caller is in a runtime.
///
/// # Errors
/// [`NoRuntime`] outside any.
pub fn check_runtime() -> Result<(), NoRuntime> {
    tokio::runtime::Handle::try_current().map(drop).map_err(|_| NoRuntime)
}

/// Checks that the caller is in a runtime with timers, before a task has to find out.
///
/// # Errors
/// [`NoRuntime`] outside any.
///
/// # Panics
/// In a tokio runtime without timers, with tokio's message that says how to enable them.
pub fn check_timers() -> Result<(), NoRuntime> {
    check_runtime()?;
    if !is_virtual() {
        // tokio tells whether it has timers in no other way.
        drop(tokio::time::sleep(std::time::Duration::ZERO));
    }
    Ok(())
}

#[track_caller]
fn handle() -> tokio::runtime::Handle {
    match tokio::runtime::Handle::try_current() {
        Ok(handle) => handle,
        Err(_) => panic!("{NoRuntime}"),
    }
}

/// Whether time is virtual here: inside [`block_on_virtual`](crate::block_on_virtual) alone.
#[must_use]
pub fn is_virtual() -> bool {
    with_current(|context| matches!(context.clock, Clock::Virtual(_)))
}

/// The time on the current runtime's clock; outside of virtual time that of the process, which no runtime sets back.
#[must_use]
pub fn now() -> Instant {
    with_current(|context| match &context.clock {
        Clock::Virtual(timers) => timers.lock().now(),
        Clock::Real => {
            Instant { ns: u64::try_from(BEGAN.elapsed().as_nanos()).unwrap_or(u64::MAX) }
        }
    })
}

/// The random stream that belongs to `name` under the runtime's seed: the same draws in every run. A runtime that the
/// program made itself has seed 0.
#[must_use]
pub fn random(name: &str) -> Random {
    with_current(|context| random::seeded(context.seed, name))
}

/// A number that no other call gives: under [`block_on_virtual`](crate::block_on_virtual) one of the seed's, which
/// another run gives, too; else one of the machine's.
#[must_use]
pub fn unique() -> u64 {
    with_current(|context| match &context.clock {
        Clock::Virtual(timers) if !context.lasts => {
            let index = timers.lock().next_unique();
            random::seeded(context.seed, &format!("unique {index}")).next_u64()
        }
        // The standard library seeds these from the operating system.
        _ => RandomState::new().build_hasher().finish(),
    })
}

/// Waits until the clock shows `at`.
///
/// # Panics
/// Outside a runtime, and in a tokio runtime without timers.
pub async fn sleep_until(at: Instant) {
    let clock = with_current(|context| context.clock.clone());
    match clock {
        Clock::Virtual(timers) => {
            VirtualSleep { timers, at, id: None }.await;
        }
        Clock::Real => {
            let deadline = *BEGAN + std::time::Duration::from_nanos(at.ns);
            drop(handle());
            tokio::time::sleep_until(deadline.into()).await;
        }
    }
}

/// Waits for `span`; panics as [`sleep_until`].
pub async fn sleep(span: Nanos) {
    sleep_until(now() + span).await;
}

/// Runs `future` beside the current task. Dropping the [`Task`] does not stop it.
///
/// # Panics
/// Outside a runtime.
#[track_caller]
pub fn spawn<F>(future: F) -> Task<F::Output>
where
    F: Future + Send + 'static,
    F::Output: Send + 'static,
{
    Task(Some(handle().spawn(future)))
}

/// Runs `work`, which may block on the operating system, where it does not hold up other tasks.
///
/// Under virtual time it runs at once on the only thread: the machine's time does not count there,
/// and a second thread would make the order of events depend on it.
///
/// # Panics
/// Outside a runtime.
pub async fn blocking<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> T {
    if is_virtual() {
        return work();
    }
    Task(Some(handle().spawn_blocking(work))).await
}

/// A spawned task; awaiting it gives its result, or goes on with its panic. One that was aborted never gives any.
pub struct Task<T>(Option<tokio::task::JoinHandle<T>>);

impl<T> Task<T> {
    /// Stops the task at its next await.
    pub fn abort(&self) {
        if let Some(handle) = &self.0 {
            handle.abort();
        }
    }

    /// The same task, which is aborted when the returned handle is dropped.
    #[must_use]
    pub fn bound(self) -> BoundTask<T> {
        BoundTask(self)
    }

    /// Stops the task at its next await, and returns once it is gone, with all that it held.
    pub async fn stop(&mut self) {
        let Some(handle) = self.0.take() else { return };
        handle.abort();
        if let Err(error) = handle.await
            && let Ok(panic) = error.try_into_panic()
        {
            std::panic::resume_unwind(panic);
        }
    }

    /// Whether it has come to its end, or was stopped, as all tasks are when their runtime ends.
    #[must_use]
    pub fn is_ended(&self) -> bool {
        self.0.as_ref().is_none_or(tokio::task::JoinHandle::is_finished)
    }
}

impl<T> Future for Task<T> {
    type Output = T;

    fn poll(mut self: Pin<&mut Self>, cx: &mut TaskContext<'_>) -> Poll<T> {
        // None: it was aborted, or the runtime ends, and with it who waits.
        let Some(handle) = &mut self.0 else { return Poll::Pending };
        let Poll::Ready(joined) = Pin::new(handle).poll(cx) else { return Poll::Pending };
        self.0 = None;
        match joined {
            Ok(output) => Poll::Ready(output),
            Err(error) => match error.try_into_panic() {
                Ok(panic) => std::panic::resume_unwind(panic),
                Err(_) => Poll::Pending,
            },
        }
    }
}

/// A task that is aborted when this is dropped: it stops at its next await.
pub struct BoundTask<T>(Task<T>);

impl<T> BoundTask<T> {
    /// As [`Task::stop`].
    pub async fn stop(&mut self) {
        self.0.stop().await;
    }
}

impl<T> Future for BoundTask<T> {
    type Output = T;

    fn poll(mut self: Pin<&mut Self>, cx: &mut TaskContext<'_>) -> Poll<T> {
        Pin::new(&mut self.0).poll(cx)
    }
}

impl<T> Drop for BoundTask<T> {
    fn drop(&mut self) {
        self.0.abort();
    }
}

struct VirtualSleep {
    timers: Arc<Mutex<Timers>>,
    at: Instant,
    id: Option<TimerId>,
}

impl Future for VirtualSleep {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, cx: &mut TaskContext<'_>) -> Poll<()> {
        let timers = Arc::clone(&self.timers);
        let mut timers = timers.lock();
        if timers.now() >= self.at {
            return Poll::Ready(());
        }
        match self.id {
            Some(id) => timers.rewake(id, cx.waker()),
            None => self.id = Some(timers.register(self.at, cx.waker().clone())),
        }
        Poll::Pending
    }
}

impl Drop for VirtualSleep {
    fn drop(&mut self) {
        if let Some(id) = self.id {
            self.timers.lock().cancel(id);
        }
    }
}

/// Lets other tasks go on, and whoever waits together with this one.
pub async fn yield_now() {
    let mut has_yielded = false;
    std::future::poll_fn(|context| {
        if std::mem::replace(&mut has_yielded, true) {
            return std::task::Poll::Ready(());
        }
        context.waker().wake_by_ref();
        std::task::Poll::Pending
    })
    .await;
}
