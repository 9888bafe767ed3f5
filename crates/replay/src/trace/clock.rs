//! The time of a trace, which does not go back.

use moirai_units::{Instant, Nanos};

use super::Flaw;
use super::fields::{TIME_NS_MAX, TimeUnit};

/// The latest time so far, from the start of the trace.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Clock {
    last: Instant,
    /// Times that would have gone back.
    backwards: u64,
}

impl Clock {
    /// Moves on to `time`; going back is an error.
    #[inline]
    pub(super) fn ordered(
        &mut self,
        column: &'static str,
        unit: TimeUnit,
        time: Nanos,
    ) -> Result<Instant, Flaw> {
        let at = Instant { ns: time.0 };
        if at < self.last {
            let (at, last) = (unit.shown(time.0), unit.shown(self.last.ns));
            return Err(Flaw::Backwards { column, at, last });
        }
        self.last = at;
        Ok(at)
    }

    /// Moves on to `time`, or stays where that would be going back.
    #[inline]
    pub(super) fn held(&mut self, time: Nanos) -> Instant {
        let at = Instant { ns: time.0 };
        self.backwards += u64::from(at < self.last);
        self.last = self.last.max(at);
        self.last
    }

    /// The same for a time before the trace's first.
    pub(super) fn held_before_start(&mut self) -> Instant {
        self.backwards += 1;
        self.last
    }

    /// How many times would have gone back.
    pub(super) fn backwards(self) -> u64 {
        self.backwards
    }

    /// Moves on by `span`. Waits that add up to more than the latest time there is end there.
    pub(super) fn wait(&mut self, span: Nanos) {
        self.last.ns = self.last.ns.saturating_add(span.0).min(TIME_NS_MAX);
    }

    /// The latest time so far.
    pub(super) fn now(self) -> Instant {
        self.last
    }
}
