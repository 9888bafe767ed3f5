//! The lock of the state, and for how long it is held.

use std::ops::{Deref, DerefMut};
use std::panic::Location;
use std::sync::atomic::AtomicU64;

use moirai_runtime::BusyTime;
use moirai_units::Nanos;
use parking_lot::{Mutex, MutexGuard};

use crate::figures::Counts;
use crate::state::State;

/// The lock is given to whoever waits for it once it was held for so long. More often is not good: to hand it over takes two
/// threads some microseconds.
pub(crate) const HELD_AT_ONCE: Nanos = Nanos(150_000);

/// A state that may lack groups which are visible.
pub(crate) struct Lagging {
    pub(crate) state: Mutex<State>,
    /// How often it was locked shortly, about.
    pub(crate) short_holds: AtomicU64,
}

impl Lagging {
    pub(crate) fn new(state: State) -> Lagging {
        Lagging { state: Mutex::new(state), short_holds: AtomicU64::new(0) }
    }
}

/// The state, locked. Counts for how long when it is dropped.
pub(crate) struct Locked<'a> {
    pub(crate) state: MutexGuard<'a, State>,
    pub(crate) counts: &'a Counts,
    /// None in virtual time.
    pub(crate) held: Option<BusyTime>,
    /// Where it was locked.
    pub(crate) at: &'static Location<'static>,
}

impl Locked<'_> {
    /// Lets go of the lock and takes it again, when it was held for some time and somebody waits for it.
    pub(crate) fn give_way(&mut self) {
        if self.held.as_ref().is_some_and(|held| held.elapsed() < HELD_AT_ONCE) {
            return;
        }
        self.count();
        MutexGuard::bump(&mut self.state);
        self.held = BusyTime::start();
    }

    fn count(&self) {
        if let Some(held) = &self.held {
            self.counts.count_lock(held.elapsed(), self.at);
        }
    }
}

impl Deref for Locked<'_> {
    type Target = State;

    fn deref(&self) -> &State {
        &self.state
    }
}

impl DerefMut for Locked<'_> {
    fn deref_mut(&mut self) -> &mut State {
        &mut self.state
    }
}

impl Drop for Locked<'_> {
    fn drop(&mut self) {
        self.count();
    }
}
