//! Virtual time: a single-threaded runtime whose clock jumps to the next timer when nothing can run.

use std::future::{Future, poll_fn};
use std::pin::pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};
use std::task::{Context as TaskContext, Poll, Wake, Waker};

use parking_lot::Mutex;

use crate::context::{self, Clock, Context};
use crate::timers::Timers;

/// Runs `future` to its end in virtual time that begins at zero. All that it draws is the seed's.
///
/// # Panics
/// When every task waits for something and no timer is set: in virtual time nothing else can come.
pub fn block_on_virtual<F: Future>(seed: u64, future: F) -> F::Output {
    run(seed, false, future)
}

/// As [`block_on_virtual`], for work on what outlives the run, like simulated disks whose contents are in files:
/// [`unique`](crate::unique) gives numbers that no other run gives. They do not change how long anything takes.
///
/// # Panics
/// As [`block_on_virtual`].
pub fn block_on_virtual_with_files<F: Future>(seed: u64, future: F) -> F::Output {
    run(seed, true, future)
}

#[expect(
    clippy::expect_used,
    reason = "a runtime without drivers asks the operating system for nothing that it could refuse"
)]
fn run<F: Future>(seed: u64, lasts: bool, future: F) -> F::Output {
    let timers = Arc::new(Mutex::new(Timers::default()));
    // Set from the moment the main future is woken until it is polled. tokio parks before it polls
    // a woken main future, and time must not move while anything can run.
    let main_woken = Arc::new(AtomicBool::new(true));
    // Wakes tokio's loop.
    let loop_waker: Arc<OnceLock<Waker>> = Arc::default();

    let tokio = tokio::runtime::Builder::new_current_thread()
        .on_thread_park({
            let timers = Arc::clone(&timers);
            let main_woken = Arc::clone(&main_woken);
            let loop_waker = Arc::clone(&loop_waker);
            let due = Mutex::new(Vec::new());
            move || {
                if main_woken.load(Ordering::Acquire) {
                    return;
                }
                let mut due = due.lock();
                if !timers.lock().advance(&mut due) {
                    panic!("virtual time stands still: every task waits and no timer is set")
                }
                due.drain(..).for_each(Waker::wake);
                // Where that made nothing run, as when nobody waits for the timer any more, tokio would park for ever.
                if let Some(waker) = loop_waker.get() {
                    waker.wake_by_ref();
                }
            }
        })
        .build()
        .expect("a current-thread runtime without drivers");

    let _entered = context::enter(Context { seed, lasts, clock: Clock::Virtual(timers) });
    tokio.block_on(async {
        let mut future = pin!(future);
        poll_fn(|cx| {
            loop_waker.get_or_init(|| cx.waker().clone());
            if !main_woken.swap(false, Ordering::AcqRel) {
                return Poll::Pending;
            }
            let waker = Waker::from(Arc::new(MainWaker {
                woken: Arc::clone(&main_woken),
                inner: cx.waker().clone(),
            }));
            let poll = future.as_mut().poll(&mut TaskContext::from_waker(&waker));
            if poll.is_ready() {
                main_woken.store(true, Ordering::Release);
            }
            poll
        })
        .await
    })
}

struct MainWaker {
    woken: Arc<AtomicBool>,
    inner: Waker,
}

impl Wake for MainWaker {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        self.woken.store(true, Ordering::Release);
        self.inner.wake_by_ref();
    }
}
