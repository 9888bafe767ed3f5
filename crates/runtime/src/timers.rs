//! The timers of virtual time: a heap of wakers ordered by time, then by order of registration.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap};
use std::task::Waker;

use moirai_units::Instant;

/// Identifies one registered timer; never used again.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) struct TimerId(u64);

/// Virtual time and what waits for it.
#[derive(Default)]
pub(crate) struct Timers {
    now: Instant,
    next_id: u64,
    uniques: u64,
    queue: BinaryHeap<Reverse<(Instant, TimerId)>>,
    /// A timer that is gone from here but still queued was cancelled.
    wakers: BTreeMap<TimerId, Waker>,
}

impl Timers {
    pub(crate) fn now(&self) -> Instant {
        self.now
    }

    /// Counts the numbers that are given once.
    pub(crate) fn next_unique(&mut self) -> u64 {
        self.uniques += 1;
        self.uniques
    }

    pub(crate) fn register(&mut self, at: Instant, waker: Waker) -> TimerId {
        let id = TimerId(self.next_id);
        self.next_id += 1;
        self.queue.push(Reverse((at, id)));
        self.wakers.insert(id, waker);
        id
    }

    /// Replaces the waker of a timer that has not fired.
    pub(crate) fn rewake(&mut self, id: TimerId, waker: &Waker) {
        if let Some(held) = self.wakers.get_mut(&id) {
            held.clone_from(waker);
        }
    }

    pub(crate) fn cancel(&mut self, id: TimerId) {
        self.wakers.remove(&id);
    }

    /// Moves time to the earliest timer and takes the wakers of all that are due then, in the order
    /// of their registration: what begins at an instant begins before what follows from it. Tells
    /// whether there were any.
    pub(crate) fn advance(&mut self, due: &mut Vec<Waker>) -> bool {
        while let Some(Reverse((at, id))) = self.queue.peek().copied() {
            if !due.is_empty() && at > self.now {
                break;
            }
            self.queue.pop();
            if let Some(waker) = self.wakers.remove(&id) {
                self.now = self.now.max(at);
                due.push(waker);
            }
        }
        !due.is_empty()
    }
}
