//! The requests that wait for the mechanism, and which one is next.

use std::collections::BTreeMap;
use std::str::FromStr;

use moirai_units::{Instant, Lbn, Nanos};

use crate::service::{self, Access, Arm};
use crate::{Extent, Mechanics};

/// How the next request is chosen.
#[derive(Clone, Copy, Debug, PartialEq, Default)]
pub enum Scheduler {
    /// In order of arrival.
    Fcfs,
    /// The next higher block number, and from the last one on again from the lowest.
    CLook,
    /// The nearest cylinder.
    Sstf,
    /// Shortest positioning time first.
    #[default]
    Sptf,
    /// Shortest positioning time first, less `weight` times the time a request has waited (Jacobson
    /// and Wilkes 1991).
    AgedSptf {
        /// How much a unit of waiting outweighs a unit of positioning.
        weight: f64,
    },
}

/// A text that names no scheduler.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "no scheduler `{0}`: there are fcfs, c-look, sstf, sptf and aged-sptf:WEIGHT, with a weight of \
     0 or more, like aged-sptf:0.02"
)]
pub struct UnknownScheduler(String);

impl FromStr for Scheduler {
    type Err = UnknownScheduler;

    fn from_str(text: &str) -> Result<Scheduler, UnknownScheduler> {
        let unknown = || UnknownScheduler(text.to_owned());
        match text {
            "fcfs" => Ok(Scheduler::Fcfs),
            "c-look" => Ok(Scheduler::CLook),
            "sstf" => Ok(Scheduler::Sstf),
            "sptf" => Ok(Scheduler::Sptf),
            _ => {
                let weight = text.strip_prefix("aged-sptf:").ok_or_else(unknown)?;
                let weight: f64 = weight.parse().map_err(|_| unknown())?;
                let valid = weight.is_finite() && weight >= 0.0;
                valid.then_some(Scheduler::AgedSptf { weight }).ok_or_else(unknown)
            }
        }
    }
}

/// A media access that waits.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Waiting<T> {
    pub(crate) access: Access,
    /// When the mechanism may begin with it.
    pub(crate) ready: Instant,
    /// Where its first block lies.
    pub(crate) extent: Extent,
    pub(crate) job: T,
}

/// Waiting accesses, ordered so that the scheduler finds the next one without looking at all.
#[derive(Debug)]
pub(crate) struct Queue<T> {
    scheduler: Scheduler,
    /// Those that are ready or not, by what the scheduler goes by and then by arrival.
    waiting: BTreeMap<Key, Waiting<T>>,
    arrivals: u64,
}

/// Block or cylinder, by scheduler; then the order of arrival.
type Key = (u64, u64);

impl<T: Copy> Queue<T> {
    pub(crate) fn new(scheduler: Scheduler) -> Queue<T> {
        Queue { scheduler, waiting: BTreeMap::new(), arrivals: 0 }
    }

    pub(crate) fn push(&mut self, waiting: Waiting<T>) {
        let place = match self.scheduler {
            Scheduler::Fcfs => 0,
            Scheduler::CLook => waiting.access.blocks.first.0,
            Scheduler::Sstf | Scheduler::Sptf | Scheduler::AgedSptf { .. } => {
                u64::from(waiting.extent.cylinder)
            }
        };
        self.waiting.insert((place, self.arrivals), waiting);
        self.arrivals += 1;
    }

    pub(crate) fn len(&self) -> usize {
        self.waiting.len()
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.waiting.is_empty()
    }

    /// Takes out the access that is next for an arm at `arm` whose last block was `position`.
    pub(crate) fn pop(
        &mut self,
        mechanics: &Mechanics,
        arm: Arm,
        position: Lbn,
        now: Instant,
    ) -> Option<Waiting<T>> {
        if self.waiting.len() == 1 {
            return self.waiting.pop_first().map(|(_, waiting)| waiting);
        }
        let key = match self.scheduler {
            Scheduler::Fcfs => *self.waiting.first_key_value()?.0,
            Scheduler::CLook => {
                let above = self.waiting.range((position.0, 0)..).next();
                *above.or_else(|| self.waiting.first_key_value())?.0
            }
            Scheduler::Sstf => self.nearest(u64::from(arm.cylinder))?,
            Scheduler::Sptf => self.shortest(mechanics, arm, now, 0.0)?,
            Scheduler::AgedSptf { weight } => self.shortest(mechanics, arm, now, weight)?,
        };
        self.waiting.remove(&key)
    }

    /// The first to have arrived on the nearest cylinder.
    fn nearest(&self, cylinder: u64) -> Option<Key> {
        let above = self.waiting.range((cylinder, 0)..).next().map(|(key, _)| *key);
        let below = self.waiting.range(..(cylinder, 0)).next_back().map(|(key, _)| key.0);
        let below = below
            .and_then(|cylinder| self.waiting.range((cylinder, 0)..).next().map(|(key, _)| *key));
        match (above, below) {
            (Some(above), Some(below)) if cylinder - below.0 < above.0 - cylinder => Some(below),
            (above, below) => above.or(below),
        }
    }

    /// The least positioning time, less `weight` times the waiting; of equal ones the first to have
    /// arrived. Looks outwards from the arm and stops where even a seek alone takes too long.
    fn shortest(&self, mechanics: &Mechanics, arm: Arm, now: Instant, weight: f64) -> Option<Key> {
        let here = u64::from(arm.cylinder);
        let mut above = self.waiting.range((here, 0)..).peekable();
        let mut below = self.waiting.range(..(here, 0)).rev().peekable();
        let oldest = if weight > 0.0 {
            let longest = self.waiting.values().map(|waiting| now.since(waiting.ready)).max()?;
            weight * longest.0 as f64
        } else {
            0.0
        };
        let mut best: Option<(f64, u64, Key)> = None;
        loop {
            let up = above.peek().map(|(key, _)| key.0 - here);
            let down = below.peek().map(|(key, _)| here - key.0);
            let (distance, side): (u64, &mut dyn Iterator<Item = _>) = match (up, down) {
                (None, None) => break,
                (Some(up), Some(down)) if down < up => (down, &mut below),
                (Some(up), _) => (up, &mut above),
                (None, Some(down)) => (down, &mut below),
            };
            let least = mechanics.least_positioning(distance as u32).0 as f64 - oldest;
            if best.is_some_and(|(time, ..)| time < least) {
                break;
            }
            let Some((key, waiting)) = side.next() else { break };
            if waiting.ready > now {
                continue;
            }
            let Access { direction, .. } = waiting.access;
            let time = service::positioning_time(mechanics, arm, now, direction, &waiting.extent);
            let cost = time.0 as f64 - weight * now.since(waiting.ready).0 as f64;
            if best.is_none_or(|(least, arrival, _)| (cost, key.1) < (least, arrival)) {
                best = Some((cost, key.1, *key));
            }
        }
        best.map(|(.., key)| key)
    }

    /// When the mechanism, free from `free` on, may take up an access.
    pub(crate) fn next_start(&self, free: Instant) -> Option<Instant> {
        let earliest = match self.scheduler {
            Scheduler::Fcfs => self.waiting.first_key_value().map(|(_, first)| first.ready),
            // Nearly always one is ready already, and then it does not matter which.
            _ => self.earliest_ready(free),
        };
        earliest.map(|ready| ready.max(free))
    }

    fn earliest_ready(&self, free: Instant) -> Option<Instant> {
        let mut earliest: Option<Instant> = None;
        for waiting in self.waiting.values() {
            if waiting.ready <= free {
                return Some(waiting.ready);
            }
            earliest = Some(earliest.map_or(waiting.ready, |known| known.min(waiting.ready)));
        }
        earliest
    }
}

impl Mechanics {
    /// A time that no access over `distance` cylinders needs less than.
    fn least_positioning(&self, distance: u32) -> Nanos {
        let settle = self.write_settle_ns.min(0);
        Nanos(self.seek.least(distance).0.saturating_add_signed(settle))
    }
}
