//! Concurrent flushes of one file.
//!
//! When writing back fails, the operating system reports it once for each open file: one `fdatasync` returns the error, and others that
//! ran at the same time return success. So a flush that succeeded waits until the flushes that ran beside it have ended, and fails if
//! one of them failed.

use std::collections::BTreeSet;
use std::io;

use parking_lot::{Condvar, Mutex};

#[derive(Debug, Default)]
pub(crate) struct Flushes {
    state: Mutex<State>,
    ended: Condvar,
}

#[derive(Debug, Default)]
struct State {
    begun: u64,
    in_flight: BTreeSet<u64>,
    /// Never cleared.
    have_failed: bool,
}

impl Flushes {
    /// Whether one has failed, now or before.
    pub(crate) fn have_failed(&self) -> bool {
        self.state.lock().have_failed
    }

    /// Whether no flush is in flight. One that begins now would wait for it.
    pub(crate) fn is_idle(&self) -> bool {
        self.state.lock().in_flight.is_empty()
    }

    /// Runs a flush; `false` where another one failed. For a thread that may block.
    pub(crate) fn run(&self, sync: impl FnOnce() -> io::Result<()>) -> io::Result<bool> {
        Ok(match self.sync(sync)? {
            Synced::Alone => true,
            Synced::Lost => false,
            Synced::Beside(others) => self.wait(others),
        })
    }

    /// Runs a flush. Where others are in flight it succeeded once these have ended ([`Flushes::wait`]).
    pub(crate) fn sync(&self, sync: impl FnOnce() -> io::Result<()>) -> io::Result<Synced> {
        let number = {
            let mut state = self.state.lock();
            if state.have_failed {
                return Ok(Synced::Lost);
            }
            state.begun += 1;
            let number = state.begun;
            state.in_flight.insert(number);
            number
        };
        let synced = sync();
        let mut state = self.state.lock();
        state.in_flight.remove(&number);
        state.have_failed |= synced.is_err();
        self.ended.notify_all();
        synced?;
        Ok(match (state.have_failed, state.in_flight.is_empty()) {
            (true, _) => Synced::Lost,
            (false, true) => Synced::Alone,
            (false, false) => Synced::Beside(Others { last: state.begun }),
        })
    }

    /// Waits until other flushes have ended; `false` where one failed. For a thread that may block.
    pub(crate) fn wait(&self, others: Others) -> bool {
        let mut state = self.state.lock();
        while state.in_flight.first().is_some_and(|first| *first <= others.last) {
            self.ended.wait(&mut state);
        }
        !state.have_failed
    }
}

/// A flush that did not fail by itself.
#[derive(Debug)]
pub(crate) enum Synced {
    /// No other one is in flight.
    Alone,
    /// Others are, and may get an error that is this one's, too.
    Beside(Others),
    /// Another one failed.
    Lost,
}

/// Flushes that were in flight when another one ended.
#[derive(Debug)]
pub(crate) struct Others {
    /// Those up to this one.
    last: u64,
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::sync::mpsc::channel;
    use std::time::Duration;

    use moirai_runtime::{block_on_real, blocking};

    use super::*;

    /// The flush that gets the error ends well after the other.
    #[test]
    fn a_failure_is_one_of_all_that_were_in_flight() {
        block_on_real(1, async {
            let flushes = Arc::new(Flushes::default());
            let (begun, has_begun) = channel::<()>();
            let (other, other_returned) = channel::<()>();
            let failing = {
                let flushes = Arc::clone(&flushes);
                blocking(move || {
                    flushes.run(|| {
                        begun.send(()).unwrap();
                        other_returned.recv().unwrap();
                        std::thread::sleep(Duration::from_millis(50)); // tidy: allow(a flush takes its time)
                        Err(io::Error::other("lost"))
                    })
                })
            };
            let fine = {
                let flushes = Arc::clone(&flushes);
                blocking(move || {
                    has_begun.recv().unwrap();
                    flushes.run(|| {
                        other.send(()).unwrap();
                        Ok(())
                    })
                })
            };
            let (failed, fine) = futures::future::join(failing, fine).await;
            assert!(failed.is_err());
            assert!(!fine.unwrap());
            assert!(flushes.have_failed());
            assert!(!flushes.run(|| Ok(())).unwrap());
        });
    }
}
