//! Requests that somebody waits for.

use parking_lot::Mutex;

use crate::ids::Seq;

/// Requests that somebody waits for. The sweeper takes them: what is begun is finished.
#[derive(Debug, Default)]
pub(crate) struct Requests(Mutex<AllRequests>);

#[derive(Debug, Default)]
struct AllRequests {
    /// How many were asked for.
    wanted: u64,
    /// Those up to this one are taken.
    done: u64,
    /// What is swept for now; what comes meanwhile does not make it more.
    now: Request,
    /// What comes then.
    then: Request,
}

/// The checkpoints up to this one are wanted, with all groups before `older` swept.
#[derive(Clone, Copy, Debug, Default)]
struct Request {
    number: u64,
    older: Seq,
}

impl Requests {
    pub(crate) fn want(&self, older: Seq) -> u64 {
        let mut all = self.0.lock();
        all.wanted += 1;
        let wanted = Request { number: all.wanted, older };
        match all.now.number <= all.done {
            true => all.now = wanted,
            false => all.then = wanted,
        }
        all.wanted
    }

    /// The last one wanted now, when all is swept for it.
    pub(crate) fn wanted(&self, is_swept: impl FnOnce(Seq) -> bool) -> Option<u64> {
        let all = self.0.lock();
        (all.now.number > all.done && is_swept(all.now.older)).then_some(all.now.number)
    }

    pub(crate) fn done(&self, number: u64) {
        let mut all = self.0.lock();
        all.done = all.done.max(number);
        if all.then.number > all.done {
            all.now = all.then;
        }
    }

    pub(crate) fn is_done(&self, wanted: u64) -> bool {
        self.0.lock().done >= wanted
    }

    /// Groups before this one are to be swept, whatever memory there is.
    pub(crate) fn older(&self) -> Seq {
        self.0.lock().now.older
    }
}
