//! Ctrl-C (SIGINT) and requests to end (SIGTERM), for programs that end a piece of work in good order.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use parking_lot::Mutex;
use signal_hook::consts::{SIGINT, SIGTERM};
use signal_hook::flag::register_conditional_default;
use signal_hook::iterator::Signals;
use tokio::sync::Notify;

/// How many listen, and whether none does: then a signal does what it does by default. The system's own handlers do not come back
/// by themselves once there were others.
static LISTENERS: Mutex<Option<(usize, Arc<AtomicBool>)>> = Mutex::new(None);

/// Interrupts by the user, or by who supervises the process. While one exists Ctrl-C no longer ends the process, nor does
/// SIGTERM; a second one, before the first was [taken](Interrupts::take), does. Once none exists any more they end it again, also in a
/// program that handles them otherwise.
#[derive(Debug)]
pub struct Interrupts {
    shared: Arc<Shared>,
    handle: signal_hook::iterator::Handle,
}

#[derive(Debug, Default)]
struct Shared {
    is_pending: AtomicBool,
    pressed: Notify,
}

impl Interrupts {
    /// Listens from now on, in real and in virtual time.
    ///
    /// # Errors
    /// When the operating system refuses a handler or a thread.
    pub fn listen() -> io::Result<Interrupts> {
        let shared = Arc::new(Shared::default());
        let mut signals = Signals::new([SIGINT, SIGTERM])?;
        let handle = signals.handle();
        let told = Arc::clone(&shared);
        std::thread::Builder::new().name("interrupts".to_owned()).spawn(move || {
            for signal in signals.forever() {
                if told.is_pending.swap(true, Ordering::AcqRel) {
                    // Nobody reacts: the user means it. A failure leaves what there was.
                    let _ = signal_hook::low_level::emulate_default_handler(signal);
                }
                told.pressed.notify_one();
            }
        })?;
        {
            let mut listeners = LISTENERS.lock();
            if listeners.is_none() {
                let is_unheard = Arc::new(AtomicBool::new(false));
                for signal in [SIGINT, SIGTERM] {
                    register_conditional_default(signal, Arc::clone(&is_unheard))?;
                }
                *listeners = Some((0, is_unheard));
            }
            if let Some((count, is_unheard)) = &mut *listeners {
                *count += 1;
                is_unheard.store(false, Ordering::Release);
            }
        }
        Ok(Interrupts { shared, handle })
    }

    /// Whether the user pressed Ctrl-C since this was asked last.
    #[must_use]
    pub fn take(&self) -> bool {
        self.shared.is_pending.swap(false, Ordering::AcqRel)
    }

    /// Returns once the user presses Ctrl-C, or has done so since [`Interrupts::take`].
    ///
    /// # Cancel safety
    /// An interrupt is not lost with a future that is dropped.
    pub async fn pressed(&self) {
        while !self.shared.is_pending.load(Ordering::Acquire) {
            self.shared.pressed.notified().await;
        }
    }
}

impl Drop for Interrupts {
    fn drop(&mut self) {
        self.handle.close();
        if let Some((count, is_unheard)) = &mut *LISTENERS.lock() {
            *count -= 1;
            is_unheard.store(*count == 0, Ordering::Release);
        }
    }
}
