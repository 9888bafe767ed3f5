//! The requests that wait for the mechanism, and which one is next.

use std::collections::{BTreeMap, BTreeSet};
use std::str::FromStr;

use moirai_units::{Instant, Lbn};

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
    "there is no scheduler `{0}`: use fcfs, c-look, sstf, sptf or aged-sptf:WEIGHT, with a weight \
     of 0 or more, like aged-sptf:0.02"
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
    /// Those to choose from, by what the scheduler goes by and then by arrival.
    ready: BTreeMap<Key, Waiting<T>>,
    /// Those whose commands are still being taken in, by when they will be ready and by arrival.
    /// First come, first served waits for the first to come, ready or not, and leaves this empty.
    coming: BTreeMap<(Instant, u64), Waiting<T>>,
    /// The ready ones, the oldest first, for a scheduler that goes by age.
    ages: BTreeSet<(Instant, Key)>,
    arrivals: u64,
}

/// Block or cylinder, by scheduler; then the order of arrival.
type Key = (u64, u64);

impl<T: Copy> Queue<T> {
    pub(crate) fn new(scheduler: Scheduler) -> Queue<T> {
        Queue {
            scheduler,
            ready: BTreeMap::new(),
            coming: BTreeMap::new(),
            ages: BTreeSet::new(),
            arrivals: 0,
        }
    }

    pub(crate) fn push(&mut self, waiting: Waiting<T>) {
        let arrival = self.arrivals;
        self.arrivals += 1;
        match self.scheduler {
            Scheduler::Fcfs => self.ready.insert((0, arrival), waiting),
            _ => self.coming.insert((waiting.ready, arrival), waiting),
        };
    }

    pub(crate) fn len(&self) -> usize {
        self.ready.len() + self.coming.len()
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.ready.is_empty() && self.coming.is_empty()
    }

    /// When the mechanism, free from `free` on, may take up an access.
    pub(crate) fn next_start(&self, free: Instant) -> Option<Instant> {
        let ready = self.ready.first_key_value().map(|(_, first)| first.ready);
        let coming = || self.coming.first_key_value().map(|((ready, _), _)| *ready);
        ready.or_else(coming).map(|ready| ready.max(free))
    }

    /// Takes out the access that is next for an arm at `arm` whose last block was `position`.
    pub(crate) fn pop(
        &mut self,
        mechanics: &Mechanics,
        arm: Arm,
        position: Lbn,
        now: Instant,
    ) -> Option<Waiting<T>> {
        if self.ready.is_empty() && self.coming.len() == 1 {
            return self.coming.pop_first().map(|(_, waiting)| waiting);
        }
        self.take_in(now);
        let key = match self.scheduler {
            Scheduler::Fcfs => *self.ready.first_key_value()?.0,
            Scheduler::CLook => {
                let above = self.ready.range((position.0, 0)..).next();
                *above.or_else(|| self.ready.first_key_value())?.0
            }
            Scheduler::Sstf => self.nearest(u64::from(arm.cylinder))?,
            Scheduler::Sptf => self.shortest(mechanics, arm, now, 0.0)?,
            Scheduler::AgedSptf { weight } => self.shortest(mechanics, arm, now, weight)?,
        };
        let next = self.ready.remove(&key)?;
        self.ages.remove(&(next.ready, key));
        Some(next)
    }

    /// Lets the scheduler choose from what is ready by `now`.
    fn take_in(&mut self, now: Instant) {
        while let Some(entry) = self.coming.first_entry().filter(|entry| entry.key().0 <= now) {
            let ((ready, arrival), waiting) = entry.remove_entry();
            let place = match self.scheduler {
                Scheduler::Fcfs => 0,
                Scheduler::CLook => waiting.access.blocks.first.0,
                Scheduler::Sstf | Scheduler::Sptf | Scheduler::AgedSptf { .. } => {
                    u64::from(waiting.extent.cylinder)
                }
            };
            let key = (place, arrival);
            self.ready.insert(key, waiting);
            if let Scheduler::AgedSptf { .. } = self.scheduler {
                self.ages.insert((ready, key));
            }
        }
    }

    /// The first to have arrived on the nearest cylinder.
    fn nearest(&self, cylinder: u64) -> Option<Key> {
        let above = self.ready.range((cylinder, 0)..).next().map(|(key, _)| *key);
        let below = self.ready.range(..(cylinder, 0)).next_back().map(|(key, _)| key.0);
        let below = below
            .and_then(|cylinder| self.ready.range((cylinder, 0)..).next().map(|(key, _)| *key));
        match (above, below) {
            (Some(above), Some(below)) if cylinder - below.0 < above.0 - cylinder => Some(below),
            (above, below) => above.or(below),
        }
    }

    /// The least positioning time, less `weight` times the waiting; of equal ones the first to have
    /// arrived. Looks at the nearest and the oldest in turn, and stops where even a seek alone, over
    /// the distance reached and with the age reached, costs more than the best one found.
    fn shortest(&self, mechanics: &Mechanics, arm: Arm, now: Instant, weight: f64) -> Option<Key> {
        let here = u64::from(arm.cylinder);
        let mut above = self.ready.range((here, 0)..).peekable();
        let mut below = self.ready.range(..(here, 0)).rev().peekable();
        let mut oldest = self.ages.iter().peekable();
        let credit = |ready: Instant| weight * now.since(ready).0 as f64;
        let cost = |waiting: &Waiting<T>| {
            let Access { direction, .. } = waiting.access;
            let time = service::positioning_time(mechanics, arm, now, direction, &waiting.extent);
            time.0 as f64 - credit(waiting.ready)
        };
        let mut best: Option<(f64, u64, Key)> = None;
        let mut consider = |key: &Key, waiting: &Waiting<T>| {
            let this = (cost(waiting), key.1, *key);
            let (least, arrival, _) = *best.get_or_insert(this);
            if (this.0, this.1) < (least, arrival) {
                best = Some(this);
            }
            best.map_or(f64::INFINITY, |(least, ..)| least)
        };
        let mut least = f64::INFINITY;
        loop {
            let up = above.peek().map(|(key, _)| key.0 - here);
            let down = below.peek().map(|(key, _)| here - key.0);
            let (distance, side): (u64, &mut dyn Iterator<Item = _>) = match (up, down) {
                (None, None) => break,
                (Some(up), Some(down)) if down < up => (down, &mut below),
                (Some(up), _) => (up, &mut above),
                (None, Some(down)) => (down, &mut below),
            };
            let most_credit = oldest.peek().map_or(0.0, |(ready, _)| credit(*ready));
            if least < mechanics.least_positioning(distance as u32).0 as f64 - most_credit {
                break;
            }
            let Some((key, waiting)) = side.next() else { break };
            least = consider(key, waiting);
            if let Some((_, key)) = oldest.next()
                && let Some(waiting) = self.ready.get(key)
            {
                least = consider(key, waiting);
            }
        }
        best.map(|(.., key)| key)
    }
}

#[cfg(test)]
mod tests {
    use moirai_units::{BlockCount, BlockRange};
    use proptest::prelude::*;

    use super::*;
    use crate::Profile;
    use crate::service::Direction;

    proptest! {
        /// Looking at the nearest and the oldest in turn finds what looking at all of them finds.
        #[test]
        fn the_next_one_costs_the_least_of_all_that_are_ready(
            accesses in prop::collection::vec((0u64..17_900_000, 0u64..3_000_000_000), 2..60),
            weight in prop_oneof![Just(0.0), 0.0001f64..0.1],
            mut now_ns in 0u64..3_500_000_000,
        ) {
            let Profile { geometry, mechanics, .. } = Profile::built_in("quantum-atlas-10k").unwrap();
            let scheduler =
                if weight > 0.0 { Scheduler::AgedSptf { weight } } else { Scheduler::Sptf };
            let mut queue = Queue::new(scheduler);
            let mut left = Vec::new();
            for (job, (first, ready_ns)) in accesses.into_iter().enumerate() {
                let blocks = BlockRange::new(Lbn(first), BlockCount(8));
                let access = Access { direction: Direction::Read, blocks, data: None };
                let ready = Instant { ns: ready_ns };
                let extent = geometry.extent(blocks).unwrap();
                let waiting = Waiting { access, ready, extent, job };
                queue.push(waiting);
                left.push(waiting);
            }
            let arm = Arm { cylinder: 5000, head: 2 };
            while !left.is_empty() {
                let now = queue.next_start(Instant { ns: now_ns }).unwrap();
                let next = queue.pop(&mechanics, arm, Lbn(0), now).unwrap();
                let cost = |waiting: &Waiting<usize>| {
                    let Waiting { access, extent, ready, .. } = waiting;
                    let time =
                        service::positioning_time(&mechanics, arm, now, access.direction, extent);
                    time.0 as f64 - weight * now.since(*ready).0 as f64
                };
                let ready = left.iter().filter(|waiting| waiting.ready <= now);
                let least = ready.map(cost).min_by(f64::total_cmp).unwrap();
                prop_assert_eq!(cost(&next), least);
                left.retain(|waiting| waiting.job != next.job);
                prop_assert_eq!(queue.len(), left.len());
                now_ns = now.ns + 5_000_000;
            }
        }
    }

    #[test]
    fn a_command_that_is_not_in_yet_is_not_chosen() {
        let Profile { geometry, mechanics, .. } = Profile::built_in("quantum-atlas-10k").unwrap();
        for scheduler in [Scheduler::CLook, Scheduler::Sstf, Scheduler::Sptf] {
            let mut queue = Queue::new(scheduler);
            for (job, (first, ready_ns)) in [(1000, 900), (9_000_000, 500)].into_iter().enumerate()
            {
                let blocks = BlockRange::new(Lbn(first), BlockCount(8));
                queue.push(Waiting {
                    access: Access { direction: Direction::Read, blocks, data: None },
                    ready: Instant { ns: ready_ns },
                    extent: geometry.extent(blocks).unwrap(),
                    job,
                });
            }
            let now = queue.next_start(Instant::ZERO).unwrap();
            assert_eq!(now, Instant { ns: 500 });
            let next = queue.pop(&mechanics, Arm::default(), Lbn(0), now).unwrap();
            assert_eq!((next.job, queue.len()), (1, 1));
            assert_eq!(queue.next_start(now), Some(Instant { ns: 900 }));
        }
    }
}
