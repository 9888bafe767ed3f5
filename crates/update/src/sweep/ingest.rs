//! Ingest: sorted records go into blocks past the log and the queues.
//!
//! The sweeper does it, since no other task changes which partitions there are. It takes a batch of records apart at the
//! lowest keys of partitions, seals each partition that gets some, and places the records after all that is sealed and
//! staged there. What is committed from the seal on comes after them.
//!
//! ```text
//!  partitions  | A     | B        | C ...                 | D, empty
//!  before        a..f    k..m
//!  batch           c..e     n o p q r s t u
//!  after         a..f    k..n       o p q | r s t           u, with the next batch
//! ```
//!
//! What is durable of a batch is always the records up to some key: where one partition fails, none after it counts. Keys
//! that are appended fill partitions. The records that fill none are left for the next batch, and an empty partition
//! waits for them, so no block is written twice.

use crate::block_format::NewBlocks;
use crate::error::{Error, Result};
use crate::ids::PartitionId;
use crate::records::Records;
use crate::shared::Shared;
use crate::state::State;
use crate::sweep::choose::Choice;
use crate::sweep::done::Done;
use crate::sweep::job::{BATCH_PARTITIONS, IngestPart, Job};
use crate::sweep::requests::IngestRequest;
use crate::sweep::sweeper::Sweeper;
use crate::sweep::writes::Writes;

/// What the log says of a partition, beside its lowest key, about.
const ENTRY_BYTES: usize = 64;

/// A batch is refused when no partition could be sealed so often.
const STALLS_MAX: u32 = 16;

/// What comes next of a batch.
enum Next {
    Parts(Vec<(PartitionId, IngestPart)>),
    /// A partition waits for space.
    Postponed,
    /// Nothing, or what is to be left.
    Nothing,
}

impl IngestRequest {
    /// The records for the next partitions.
    fn next(&self, state: &State, shared: &Shared) -> Next {
        let mut left = self.records.clone();
        let mut parts = Vec::new();
        let mut entry_bytes = 0;
        while let Some(first) = left.first_key() {
            let place = state.position(self.space, first);
            let at = place.and_then(|place| Some((place, state.spaces.get(&self.space)?)));
            let Some((place, directory)) = at else { break };
            let found = directory.at(place).and_then(|id| Some((id, state.partition(id)?)));
            let Some((id, partition)) = found else { break };
            if partition.sealed.is_some() {
                return if parts.is_empty() { Next::Postponed } else { Next::Parts(parts) };
            }
            let next = directory.at(place + 1).and_then(|id| state.partition(id));
            let end = next.map(|next| next.low.clone());
            let records = match &end {
                Some(end) => left.take_below(end),
                None => std::mem::take(&mut left),
            };
            let is_open = self.is_open && left.is_empty();
            // More for this partition may come.
            if is_open && (self.has_begun || !parts.is_empty()) {
                break;
            }
            let made = 1 + records.bytes() / directory.spec.division.partition_bytes();
            let of_made = partition.low.len() + ENTRY_BYTES + directory.spec.shape_bytes_max();
            entry_bytes += 2 * partition.place.memory_bytes() + made * of_made;
            let is_full =
                parts.len() == BATCH_PARTITIONS || entry_bytes > shared.log.own_bytes_max();
            if is_full && !parts.is_empty() {
                break;
            }
            parts.push((id, IngestPart { records, is_open, end }));
        }
        if parts.is_empty() { Next::Nothing } else { Next::Parts(parts) }
    }

    /// Those before `end` are durable.
    fn pass(&mut self, end: Option<&[u8]>) {
        self.has_begun = true;
        match end {
            Some(end) => drop(self.records.take_below(end)),
            None => self.records = Records::default(),
        }
    }
}

impl Job {
    /// The key from which on `new_blocks` can be left for the next batch, where they are the last of a job that appends: when
    /// others are written, and all of these are of records.
    pub(super) fn rest(&self, writes: &Writes<'_>, new_blocks: &NewBlocks) -> Option<Box<[u8]>> {
        let part = self.ingest.as_ref()?;
        let is_alone =
            self.members.iter().all(|one| one.sealed.queue.is_empty() && one.staged.is_empty());
        let can_be_left = part.is_open && is_alone && !writes.written.is_empty();
        new_blocks.lows.first().filter(|_| can_be_left).cloned()
    }
}

impl Sweeper<'_> {
    /// Seals the next partitions that records go into, if there are any and nothing else is to be done first.
    pub(super) async fn seal_to_ingest(&mut self) -> Result<()> {
        let shared = self.shared;
        if std::mem::take(&mut self.has_ingested) || !self.waiting.is_empty() {
            return Ok(());
        }
        let Some(request) = shared.ingests.0.lock().take() else { return Ok(()) };
        let next = request.next(&shared.state(), shared);
        let parts = match next {
            Next::Parts(parts) => parts,
            Next::Postponed if shared.end_oldest_point() => {
                shared.ingests.begin(request);
                return Ok(());
            }
            Next::Postponed => {
                shared.answer(request, Err(Error::full(&*shared.data)));
                return Ok(());
            }
            Next::Nothing => {
                shared.answer(request, Ok(()));
                return Ok(());
            }
        };
        shared.ingests.begin(request);
        let ids = parts.iter().map(|(id, _)| *id).collect();
        let seals = shared.append_seals(&mut shared.state(), Choice::of(ids));
        let mut jobs = shared.sealed_jobs(seals).await?;
        let mut is_begun = false;
        for (id, part) in parts {
            let is_of = |job: &&mut Job| job.members.iter().any(|one| one.id == id);
            // A partition that was placed unlogged and got nothing since is sealed by the second group only. Records of the
            // partitions after it would leave a gap.
            let Some(job) = jobs.iter_mut().find(is_of) else { break };
            job.ingest = Some(part);
            is_begun = true;
        }
        self.waiting.extend(jobs);
        self.has_ingested = true;
        if !is_begun {
            // The log has room for the next seal then, which counts as a group.
            shared.take_checkpoint().await?;
            shared.count_stall();
        }
        Ok(())
    }

    /// Leaves out the records of jobs after one that failed, which are done again without them.
    pub(super) fn ingest_in_order(&mut self, done: &mut Vec<(Job, Done)>) {
        let postponed = done.iter().position(|(job, done)| {
            job.ingest.is_some() && matches!(done, Done::Postponed | Done::Staged(..))
        });
        if let Some(index) = postponed
            && self.shared.end_oldest_point()
        {
            // There may be space now, for it and those after it.
            let again = done.split_off(index).into_iter().map(|(job, _)| job);
            again.rev().for_each(|job| self.waiting.push_front(job));
        }
        let mut failed_at = None;
        for (index, (job, done)) in done.iter_mut().enumerate() {
            let Some(part) = &mut job.ingest else { continue };
            let error = match done {
                Done::Placed(rewritten) => {
                    part.end = rewritten.rest.take().or(part.end.take());
                    continue;
                }
                Done::SetAside(error) => {
                    let device = self.shared.data.inquiry().name.clone();
                    Error::Unreadable { device, why: error.to_string() }
                }
                Done::Staged(..) | Done::Postponed => Error::full(&*self.shared.data),
            };
            failed_at = Some((index, error));
            break;
        }
        let Some((index, error)) = failed_at else { return };
        if let Some(request) = &mut *self.shared.ingests.0.lock() {
            request.failed = Some(error);
        }
        self.waiting.iter_mut().for_each(|job| job.ingest = None);
        let mut again = Vec::new();
        for (mut job, outcome) in done.split_off(index) {
            match (job.ingest.take(), &outcome) {
                (None, _) | (_, Done::SetAside(_)) => done.push((job, outcome)),
                _ => again.push(job),
            }
        }
        again.into_iter().rev().for_each(|job| self.waiting.push_front(job));
    }
}

impl Shared {
    /// Ends a batch for which no partition can be sealed: the log never has room.
    fn count_stall(&self) {
        let Some(mut request) = self.ingests.0.lock().take() else { return };
        request.stalls += 1;
        match request.stalls < STALLS_MAX {
            true => self.ingests.begin(request),
            false => self.answer(request, Err(Error::full(&*self.data))),
        }
    }

    /// Tells what is left of a batch.
    fn answer(&self, request: IngestRequest, done: Result<()>) {
        let IngestRequest { records, bytes, reply, alone, .. } = request;
        self.state().ingested_bytes -= bytes;
        drop(alone);
        // Who asked may have gone.
        drop(reply.send((records, done)));
        self.room.notify_waiters();
    }

    /// The records of these jobs are durable.
    pub(super) fn ingested(&self, jobs: &[Job]) {
        let Some(mut request) = self.ingests.0.lock().take() else { return };
        for part in jobs.iter().filter_map(|job| job.ingest.as_ref()) {
            request.pass(part.end.as_deref());
        }
        if let Some(error) = request.failed.take() {
            return self.answer(request, Err(error));
        }
        let next = request.next(&self.state(), self);
        match next {
            Next::Nothing if request.has_begun => self.answer(request, Ok(())),
            _ => self.ingests.begin(request),
        }
    }
}
