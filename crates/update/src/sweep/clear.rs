//! Clearing: the partitions of a range of keys lose all that they have, without reading it
//! unless it refers to long values.
//!
//! The sweeper does it when it is amid nothing else, since no other task changes which partitions there are. A partition is
//! sealed as for any sweep; what is sealed and all that lies on the device is left, and nothing takes its place.

use std::sync::Arc;

use tokio::sync::oneshot;

use crate::error::{Error, Result};
use crate::ids::{PartitionId, SpaceId};
use crate::limits::LOOKED_AT;
use crate::shared::Shared;
use crate::state::State;
use crate::sweep::choose::Choice;
use crate::sweep::job::Job;
use crate::sweep::requests::{Clear, Cleared};

/// Partitions that are cleared at once.
const BATCH_PARTITIONS: usize = 256;
/// What the log says of one, beside its lowest key, about.
const ENTRY_BYTES: usize = 32;

/// The next partitions of a range.
struct Next {
    /// Those that have something.
    ids: Vec<PartitionId>,
    passed: Option<Cleared>,
    is_last: bool,
}

impl Clear {
    /// The next partitions that lie wholly in the range.
    fn next(&self, state: &State, entry_bytes_max: usize) -> Next {
        let mut next = Next { ids: Vec::new(), passed: None, is_last: true };
        let Some(directory) = state.spaces.get(&self.space) else { return next };
        let first = state.position(self.space, &self.from).unwrap_or(0);
        let mut entry_bytes = 0;
        for place in first..directory.len() {
            let Some(one) = directory.at(place).and_then(|id| state.partition(id)) else { break };
            let high = directory.at(place + 1).and_then(|id| state.partition(id));
            let high = high.map(|next| next.low.clone());
            if *one.low < *self.from {
                continue;
            }
            let is_within = match (&self.to, &high) {
                (None, _) => true,
                (Some(to), Some(high)) => high <= to,
                (Some(_), None) => false,
            };
            if !is_within {
                return next;
            }
            entry_bytes += one.low.len() + ENTRY_BYTES;
            let is_full = next.ids.len() == BATCH_PARTITIONS || entry_bytes > entry_bytes_max;
            if (is_full && !next.ids.is_empty()) || place - first == LOOKED_AT {
                next.is_last = false;
                return next;
            }
            if !one.is_empty() {
                next.ids.extend(directory.at(place));
            }
            let begin = next.passed.take().map_or_else(|| one.low.clone(), |(begin, _)| begin);
            next.passed = Some((begin, high));
        }
        next
    }

    /// Goes on behind what was passed.
    fn pass(&mut self, passed: Option<Cleared>) {
        let Some((begin, end)) = passed else { return };
        if let Some(end) = &end {
            self.from.clone_from(end);
        }
        let begin = self.cleared.take().map_or(begin, |(begin, _)| begin);
        self.cleared = Some((begin, end));
    }
}

impl Shared {
    /// Removes all that partitions have which lie wholly between two keys; tells what was cleared, when there were any. It is
    /// durable then. What is committed meanwhile may be removed or stay.
    pub(crate) async fn clear(
        &self,
        space: SpaceId,
        from: &[u8],
        to: Option<&[u8]>,
    ) -> Result<Option<Cleared>> {
        self.check_running()?;
        if !self.state().spaces.contains_key(&space) {
            return Err(Error::NoSpace { space });
        }
        // A batch of an ingest that was given up may wait for the sweeper still, which would come to it after this.
        let ingesting = self.ingesting.lock().await;
        let _clearing = Arc::clone(&self.clearing).lock_owned().await;
        drop(ingesting);
        self.all_visible().await?;
        let (reply, cleared) = oneshot::channel();
        let (from, to) = (from.into(), to.map(Box::from));
        let clear = Clear { space, from, to, cleared: None, is_done: false, reply, _clearing };
        self.clears.0.lock().push_back(clear);
        if let Err(error) = self.check_running() {
            self.clears.forget();
            return Err(error);
        }
        self.sweep_wake.notify_one();
        match cleared.await {
            Ok(cleared) => Ok(cleared),
            Err(_) => {
                self.check_running()?;
                Err(self.stopped_by("it is closed"))
            }
        }
    }

    /// Seals the next partitions that are to be cleared; `None` when there are none. Those that are sealed already wait for
    /// space, and are among `postponed`: they are sealed again, with what has come since.
    pub(super) async fn seal_to_clear(&self, postponed: &mut Vec<Job>) -> Result<Option<Vec<Job>>> {
        loop {
            let Some(mut clear) = self.clears.0.lock().pop_front() else { return Ok(None) };
            if clear.is_done {
                self.set_stuck(false);
                // Who asked may have gone.
                drop(clear.reply.send(clear.cleared));
                continue;
            }
            let Next { ids, passed, is_last } = clear.next(&self.state(), self.log.own_bytes_max());
            clear.pass(passed);
            clear.is_done = is_last;
            self.clears.0.lock().push_front(clear);
            if ids.is_empty() {
                continue;
            }
            postponed.retain(|job| !job.members.iter().any(|one| ids.contains(&one.id)));
            let seals = self.append_seals(&mut self.state(), Choice::of(ids));
            let mut jobs = self.sealed_jobs(seals).await?;
            jobs.iter_mut().for_each(|job| job.is_to_clear = true);
            if !jobs.is_empty() {
                return Ok(Some(jobs));
            }
        }
    }
}
