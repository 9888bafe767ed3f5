//! Finishing a batch: what it wrote becomes durable, the log tells of it, readers see it, and what it replaced is free.
//!
//! In this order, so that a crash loses nothing: flush the data device; append the entries to the log and wait until they are
//! durable (without room in the log: apply them, then take a checkpoint); let go of the old extents, each of which is free once
//! nobody reads it.

use std::collections::VecDeque;

use moirai_extents::Extent;
use moirai_units::BlockRange;

use crate::error::Result;
use crate::ids::{PartitionId, Seq};
use crate::limits::RUNS_OF_ENTRY;
use crate::shared::Shared;
use crate::state::State;
use crate::state::entry::{Entry, Placed};
use crate::sweep::done::{Done, Emitted, Rewritten, Staging};
use crate::sweep::job::{Job, Member};

/// A batch that was carried out. Neither the log nor readers know of it yet.
pub(super) struct Carried {
    pub(super) done: Vec<(Job, Done)>,
}

/// A batch that is finished.
#[derive(Default)]
pub(super) struct Finished {
    /// To be carried out again, in this order.
    pub(super) again: VecDeque<Job>,
    pub(super) postponed: Vec<Job>,
    /// While a log is loaded: what was replaced.
    pub(super) replaced: Vec<Member>,
    /// Whether some of it need not be done again.
    pub(super) has_progress: bool,
}

impl Carried {
    pub(super) fn jobs(&self) -> impl Iterator<Item = &Job> {
        self.done.iter().map(|(job, _)| job)
    }
}

impl Shared {
    /// Finishes a batch; see the module.
    pub(super) async fn finish(&self, carried: Carried) -> Result<Finished> {
        self.data.flush().await?;
        let mut finished = Finished::default();
        let are_logged = carried.jobs().all(|job| job.is_logged);
        // Extents that these replaced are free once this is durable.
        let mut left: Vec<Job> = Vec::new();
        // Whether the log has it, and the end of what readers must see then.
        let (is_logged, end, emitted_end) = {
            let mut state = self.state();
            let mut group = Vec::new();
            // Modifications of other spaces that came of it.
            let mut emitted = Emitted::default();
            let mut of_jobs = Vec::new();
            for (job, mut done) in carried.done {
                if let Done::Placed(rewritten) = &mut done {
                    of_jobs.push(std::mem::take(&mut rewritten.emitted));
                }
                left.extend(self.encode_done(&mut state, job, done, &mut group, &mut finished));
                // Entries of a batch may be long. What they say is not so before they are appended.
                state.give_way();
            }
            // The room in the log that was kept for these is free from here until they are appended: nobody else may take it.
            of_jobs.iter_mut().for_each(|of_job| self.take_emitted(&mut emitted, of_job));
            let bytes = group.len() + emitted.entries.len();
            let is_logged = are_logged && self.log.has_room_for_own(bytes);
            if is_logged {
                group.append(&mut emitted.entries);
            }
            self.counts.modifications.add(emitted.count);
            let end = match group.is_empty() {
                true => Seq(0),
                false => self.append_own(&mut state, group, is_logged),
            };
            // A checkpoint has no queues: these are logged in any case, in the room that was kept for them.
            let emitted_end = match emitted.entries.is_empty() {
                true => None,
                false => Some(Seq(self.append(&mut state, &emitted.entries).0 + 1)),
            };
            (is_logged, end, emitted_end)
        };
        finished.has_progress = !left.is_empty();
        let is_loading = self.glance().is_loading();
        match is_logged {
            true => self.flushed_before(end).await?,
            false => {
                self.visible_before(end).await?;
                if let Some(end) = emitted_end {
                    self.flushed_before(end).await?;
                }
                // The checkpoint says where all is, and frees the log. While a log is loaded, one serves many sweeps.
                if !is_loading && let Err(error) = self.take_checkpoint().await {
                    // Before extents are let go of that the last checkpoint still needs.
                    self.stop(&format!("the checkpoint after a sweep failed: {error}"));
                    return Err(error);
                }
            }
        }
        for member in left.iter().flat_map(|job| &job.members) {
            self.tables.forget(&member.place);
        }
        self.ingested(&left);
        let members = left.into_iter().flat_map(|job| job.members);
        match is_loading {
            true => finished.replaced = members.collect(),
            false => {
                // Applies the entries first, so that the members hold the last references to queues and places, and free
                // them outside the lock.
                self.free_left();
                drop(members);
            }
        }
        Ok(finished)
    }

    /// Puts modifications that came of a sweep behind others; no room is kept for them any more, since they are appended next.
    fn take_emitted(&self, all: &mut Emitted, of_job: &mut Emitted) {
        all.entries.append(&mut of_job.entries);
        all.count += of_job.count;
        of_job.held.take().into_iter().for_each(|bytes| self.log.give_back(bytes));
    }

    /// Appends the entries that tell of a job; gives the job, unless it is to be done again.
    pub(super) fn encode_done(
        &self,
        state: &mut State,
        mut job: Job,
        done: Done,
        group: &mut Vec<u8>,
        finished: &mut Finished,
    ) -> Option<Job> {
        let keep_histories = |state: &mut State, job: &mut Job| {
            for member in &mut job.members {
                let history = member.history.take();
                history.into_iter().for_each(|history| state.points.expect(member.id, history));
            }
        };
        match done {
            Done::Postponed if job.members.len() > 1 => {
                job.split().rev().for_each(|one| finished.again.push_front(one));
                return None;
            }
            Done::Postponed => {
                finished.postponed.push(job);
                return None;
            }
            Done::SetAside(error) => {
                for member in &mut job.members {
                    member.is_set_aside = true;
                    state.set_aside(member.id);
                    state.to_salvage.remove(&member.id);
                }
                tracing::warn!("a partition is set aside, and its modifications are kept: {error}");
                finished.again.push_front(job);
                return None;
            }
            Done::Staged(Staging { chunk, extent, combined, freed }) => {
                let partition = job.members.first().map(|one| one.id)?;
                keep_histories(state, &mut job);
                // Of one that could not be placed: readers pay once more before it is tried again.
                if state.costly.contains(&partition) {
                    state.pay_again(partition);
                }
                let first = extent.as_ref().map(Extent::first).unwrap_or_default();
                state.arriving.extend(extent.map(|extent| (first, extent)));
                Entry::Staged { partition, chunk, first, combined }.encode(group);
                encode_freed(group, &freed);
            }
            Done::Placed(rewritten) => {
                keep_histories(state, &mut job);
                self.encode_placed(state, &job, rewritten, group)?;
            }
        }
        Some(job)
    }

    fn encode_placed(
        &self,
        state: &mut State,
        job: &Job,
        rewritten: Rewritten,
        group: &mut Vec<u8>,
    ) -> Option<()> {
        let Rewritten { written, refused, made, freed, .. } = rewritten;
        let from: Vec<PartitionId> = job.members.iter().map(|one| one.id).collect();
        let partition = from.first().copied()?;
        if refused > 0 {
            Entry::Refused { partition, count: refused }.encode(group);
        }
        let mut into = Vec::with_capacity(written.len());
        for (index, mut one) in written.into_iter().enumerate() {
            let partition = match index {
                0 => partition,
                _ => state.partitions.reserve(),
            };
            one.keep_table(&self.tables);
            let extents = one.extents.into_iter();
            state.arriving.extend(extents.map(|extent| (extent.first(), extent)));
            into.push(Placed { partition, low: one.low, location: one.location });
        }
        Entry::Placed { from, into }.encode(group);
        if !made.is_empty() {
            let runs = made.iter().map(|extent| extent.blocks).collect();
            Entry::Long { runs }.encode(group);
        }
        state.arriving.extend(made.into_iter().map(|one| (one.first(), one)));
        encode_freed(group, &freed);
        Some(())
    }
}

/// Appends that long values are left, if there are any.
fn encode_freed(group: &mut Vec<u8>, runs: &[BlockRange]) {
    for runs in runs.chunks(RUNS_OF_ENTRY) {
        Entry::Freed { runs: runs.to_vec() }.encode(group);
    }
}
