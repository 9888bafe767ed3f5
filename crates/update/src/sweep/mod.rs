//! Sweeps: what is pending leaves memory, partition after partition in the order of their keys.
//!
//! A partition's pending modifications are sealed. They are staged, in a chunk, as long as the partition may stage more
//! (`stage`). Else its blocks are read, everything staged and sealed is applied, and they are written to another extent
//! (`place`). Both count once the log says so, after a flush of the data. `choose` chooses the partitions, `level` spreads
//! rewriting over the batches.
//!
//! ```text
//!  key order   | partition A | partition B | partition C |
//!  memory        active        sealed        active            groups 1 .. 99
//!                since 70      since 40      since 52
//!                              at 60
//!  staged        chunk                       chunk
//!  blocks        extent        extent        extent
//!  frontier      70            35            50
//! ```
//!
//! The invariant: every group before a partition's `frontier` is in its blocks or chunks; every later one is in `sealed`
//! or `active`, and in the log. `seal` moves what is active behind the number of the seal's own group (`at`); what is
//! staged or placed of it makes `at` the new frontier. `since` is the oldest group that a queue needs the log for, so
//! the log before the least `since` of all partitions is free after a checkpoint. Where the log has no room, seals and
//! what follows from them are not logged and take no number: the checkpoint that follows at once says them instead.
//!
//! No failure of one partition stops the others: one whose blocks cannot be read is set aside, and more is staged for it, in
//! chunks that are combined with each other instead of with blocks;
//! one that finds no space waits, sealed, until some is free.

mod absorb;
mod choose;
mod clear;
mod done;
mod finish;
mod history;
mod ingest;
mod job;
mod level;
mod load;
mod pace;
mod place;
pub(crate) mod requests;
mod slices;
mod stage;
mod sweeper;
pub(crate) mod working;
mod writes;

use std::sync::Arc;
use std::sync::atomic::Ordering;

use futures::future::{Either, select};
use futures::{StreamExt, TryStreamExt};
use moirai_runtime::{sleep, spawn};
use moirai_units::{BlockCount, ByteCount};

use crate::error::{Error, Result};
use crate::ids::Seq;
use crate::shared::Shared;
use crate::state::State;
use crate::sweep::choose::Choice;
use crate::sweep::done::Done;
use crate::sweep::finish::{Carried, Finished};
use crate::sweep::job::{BATCH_PARTITIONS, Job};
use crate::sweep::level::level;
use crate::sweep::slices::Slices;
use crate::sweep::stage::Limit;
use crate::sweep::sweeper::Sweeper;
use crate::sweep::working::Taken;

/// Partitions that are swept at the same time, for each disk: one is read, one is applied, one is written. On four simulated
/// disks, three for each take a fifth less time than one for each; to have the disks take turns beside that changes nothing,
/// since extents that are written together lie on all of them.
const PIPELINE: usize = 3;

/// Space that is given back to the device at once.
const DISCARD_MIB: u64 = 64;

/// Discards after a batch, at most: about as many as it leaves extents and chunks.
const DISCARDS_MAX: usize = 4 * BATCH_PARTITIONS;

impl Shared {
    /// Sweeps until the engine is closed, or something fails.
    pub(crate) async fn sweep_forever(self: &Arc<Shared>) {
        let mut sweeper = Sweeper::new(self);
        loop {
            let woken = self.sweep_wake.notified();
            self.is_parked.store(false, Ordering::SeqCst);
            match sweeper.sweep_some().await {
                Ok(true) => {
                    self.room.notify_waiters();
                    self.discard_soon().await;
                }
                Ok(false) if self.is_closing() => return,
                Ok(false) => match (self.would_idle_work(), self.idle) {
                    (true, Some(idle)) => {
                        let (woken, idle) = (std::pin::pin!(woken), std::pin::pin!(sleep(idle)));
                        let (Either::Left(_) | Either::Right(_)) = select(woken, idle).await;
                    }
                    _ => woken.await,
                },
                Err(error) => {
                    self.stop(&format!("a sweep failed: {error}"));
                    return;
                }
            }
        }
    }

    /// Whether there is something to do once nobody has modified anything for some time. If not, the next commit wakes the
    /// sweeper.
    fn would_idle_work(&self) -> bool {
        // First, or a commit between the two would wake nobody.
        self.is_parked.store(true, Ordering::SeqCst);
        self.has_idle_work()
    }

    /// Takes a checkpoint when somebody wants one and all that was to be in it is swept, or when that frees
    /// segments of a log that is half full.
    async fn free_log(&self) -> Result<bool> {
        let is_resting = self.is_resting();
        let (wanted, frees) = {
            let state = self.state();
            let wanted = self.requests.wanted(|older| !state.oldest_is_before(older));
            let is_to_leave = self.log.to_leave(is_resting).is_some();
            (wanted, is_to_leave && self.log.would_free(state.oldest()))
        };
        if wanted.is_none() && !frees {
            return Ok(false);
        }
        self.take_checkpoint().await?;
        if let Some(wanted) = wanted {
            self.requests.done(wanted);
        }
        Ok(true)
    }

    /// Appends entries of the engine's own, or takes them in unlogged; gives the end of what readers see with them.
    pub(super) fn append_own(&self, state: &mut State, group: Vec<u8>, is_logged: bool) -> Seq {
        match is_logged {
            true => Seq(self.append(state, &group).0 + 1),
            false => self.append_unlogged(state, group),
        }
    }

    /// Gives free space back to the devices while nobody modifies anything; tells whether there was some.
    async fn discard_some(&self) -> bool {
        if !self.is_idle() || self.is_closing() {
            return false;
        }
        let most = ByteCount::mib(DISCARD_MIB);
        self.discard_data(most).await.is_some()
            || (self.is_resting() && self.log.discard_some(most).await)
    }

    /// Tells flash what sweeps have freed. Until it is told or writes there again, it moves that whenever it erases what lies beside
    /// it: with an SSD 80 % full, a byte that was written cost 1.5 bytes of flash, and costs 1.03. The log is not told of: its free
    /// segments are written again soon.
    async fn discard_soon(&self) {
        let inquiry = self.data.inquiry();
        // Extents that do not fill granules are joined first, until the store is idle.
        let fills = |granule: BlockCount| self.extents.grain().0.is_multiple_of(granule.0.max(1));
        let can_discard = inquiry.wants_discards && inquiry.discard.is_some_and(fills);
        if !can_discard || self.is_closing() || self.glance().is_loading() {
            return;
        }
        let mut left = DISCARD_MIB << 20;
        for _ in 0..DISCARDS_MAX {
            // Most of what is free stays so meanwhile.
            let most = left.min(self.extents.free().bytes().0 / 8);
            let Some(discarded) = self.discard_data(ByteCount(most)).await else { break };
            left = left.saturating_sub(discarded.0);
            if left == 0 {
                break;
            }
        }
        self.room.notify_waiters();
    }

    /// Discards free blocks of the data device that lie together, about `most` bytes; gives how many, `None` when there are none.
    async fn discard_data(&self, most: ByteCount) -> Option<ByteCount> {
        let inquiry = self.data.inquiry();
        inquiry.discard?;
        // What is being discarded is not free meanwhile: who finds no space waits for it.
        self.is_sweeping.store(true, Ordering::Relaxed);
        let free = self.extents.take_discardable(BlockCount::holding(most));
        let discarded = free.as_ref().map(|free| free.blocks.count.bytes());
        if let Some(mut free) = free {
            if let Err(error) = self.data.discard(free.blocks).await {
                tracing::debug!("{}: free space was not given back: {error}", inquiry.name);
            }
            // Where that failed it would fail again, and the space is as free as before.
            free.discarded();
        }
        self.is_sweeping.store(false, Ordering::Relaxed);
        discarded
    }

    /// Carries a job out once there is memory for it.
    async fn carry_out_in_memory(&self, job: &mut Job) -> Result<Done> {
        let bytes = job.working_bytes(self.memory_bytes).max(self.history_working_bytes(job));
        let mut taken = self.working.take(bytes).await;
        self.shrink_cache();
        let done = self.carry_out(job, &mut taken).await?;
        if let Done::Staged(..) | Done::Placed(_) = done {
            self.write_histories(job).await?;
        }
        Ok(done)
    }

    /// Places a partition with what a bulk group has for it, in slices of so many bytes, once there is memory for it.
    async fn place_slices_in_memory(
        &self,
        job: &mut Job,
        slice_bytes: usize,
        slices: &mut Slices<'_, '_>,
    ) -> Result<Done> {
        let bytes = job.placing_bytes() + 2 * slice_bytes;
        let _taken = self.working.take(bytes.max(self.history_working_bytes(job))).await;
        self.shrink_cache();
        let done = self.place_slices(job, slices).await?;
        if let Done::Placed(_) = done {
            self.write_histories(job).await?;
        }
        Ok(done)
    }

    async fn carry_out(&self, job: &Job, taken: &mut Taken<'_>) -> Result<Done> {
        if job.is_to_clear {
            return Ok(Done::Placed(self.cleared(job).await));
        }
        let member = match &job.members[..] {
            [member] => member,
            // Where a merge fails, each partition is swept by itself.
            _ => {
                let Ok(held) = self.hold_emitted(job) else { return Ok(Done::Postponed) };
                return self.place_in(taken, job, held).await.map(|done| match done {
                    Done::Placed(rewritten) => Done::Placed(rewritten),
                    _ => Done::Postponed,
                });
            }
        };
        if job.ingest.is_some() || self.glance().to_salvage.contains(&member.id) {
            return self.place_in(taken, job, None).await;
        }
        if member.is_set_aside {
            return self.stage(member, Limit::Space).await;
        }
        if !job.is_to_place
            && let staged @ Done::Staged(..) = self.stage(member, Limit::Partition).await?
        {
            return Ok(staged);
        }
        let held = match self.hold_emitted(job) {
            Ok(held) => held,
            // With nothing to stage it would be chosen again at once.
            Err(()) if member.sealed.queue.is_empty() => None,
            // It may be placed later, when there is room for what comes of it.
            Err(()) => match self.stage(member, Limit::Partition).await? {
                staged @ Done::Staged(..) => return Ok(staged),
                _ => None,
            },
        };
        match self.place_in(taken, job, held).await? {
            // It need not be now. But where space is wanted, and nothing is there to stage, it waits for space: it would be
            // chosen again at once.
            Done::Postponed
                if job.is_to_place && (job.is_optional || !member.sealed.queue.is_empty()) =>
            {
                self.stage(member, Limit::Partition).await
            }
            done => Ok(done),
        }
    }

    /// Places a job once it has the memory for that.
    async fn place_in(
        &self,
        taken: &mut Taken<'_>,
        job: &Job,
        held: Option<usize>,
    ) -> Result<Done> {
        taken.at_least(job.placing_bytes()).await;
        self.shrink_cache();
        self.place(job, held).await
    }

    /// Has the cache give back what sweeps have taken.
    fn shrink_cache(&self) {
        let cache_bytes_max = self.cache_bytes_max(&self.glance());
        self.cache.shrink(cache_bytes_max);
    }
}

impl<'a> Sweeper<'a> {
    /// Sweeps some partitions; tells whether there was something to do.
    async fn sweep_some(&mut self) -> Result<bool> {
        let shared = self.shared;
        shared.note_swept();
        shared.shorten_history((!self.postponed.is_empty()).then_some(self.free));
        if self.waiting.is_empty()
            && let Some(jobs) = shared.seal_to_clear(&mut self.postponed).await?
        {
            self.waiting.extend(jobs);
        }
        if self.waiting.is_empty() && shared.extents.free() > self.free {
            shared.set_stuck(false);
            self.waiting.extend(self.postponed.drain(..));
        }
        if self.waiting.is_empty() && !shared.glance().is_loading() && self.absorb().await? {
            return Ok(true);
        }
        let wanted = shared.wanted_space();
        self.seal_to_ingest().await?;
        if self.waiting.is_empty() && !self.seal_next().await? {
            if self.seal_again().await? {
                return Ok(true);
            }
            let is_stuck = !self.postponed.is_empty() && !shared.do_points_keep(&shared.state());
            shared.set_stuck(is_stuck);
            if shared.glance().is_loading() {
                return Ok(false);
            }
            return Ok(shared.ingests.is_waiting()
                || shared.refuse_space(wanted).await?
                || shared.free_log().await?
                || shared.discard_some().await);
        }
        let jobs = self.next_jobs();
        let is_optional = jobs.iter().all(|job| job.is_optional);
        let optional = is_optional.then(|| shared.begin_optional());
        let carried = self.carry_out_batch(jobs).await?;
        let finished = shared.finish(carried).await?;
        self.take_in(finished).await?;
        if let Some(batch) = optional {
            shared.make_way(&batch).await;
        }
        Ok(true)
    }

    /// Seals the next partitions that are to be swept; tells whether there were any.
    async fn seal_next(&mut self) -> Result<bool> {
        let shared = self.shared;
        let Some(mut jobs) = shared.seal_some(&mut self.cursor).await? else { return Ok(false) };
        level(&mut jobs, &mut self.due);
        self.forget_staged(&mut jobs);
        self.waiting.extend(jobs);
        Ok(true)
    }

    async fn carry_out_batch(&mut self, jobs: Vec<Job>) -> Result<Carried> {
        let shared = self.shared;
        shared.is_sweeping.store(true, Ordering::Relaxed);
        // What nobody waits for leaves the device to those who read.
        let pipeline = match jobs.iter().all(|job| job.is_optional) {
            true => 1,
            false => PIPELINE * (shared.data.inquiry().parallelism as usize).max(1),
        };
        // Each job runs in its own task, so that several cores can sort, apply and encode modifications.
        let carry_out = |mut job: Job| {
            let shared = Arc::clone(shared);
            let carried = spawn(async move {
                let done = shared.carry_out_in_memory(&mut job).await?;
                Ok::<_, Error>((job, done))
            });
            carried.bound()
        };
        let mut done: Vec<(Job, Done)> =
            futures::stream::iter(jobs).map(carry_out).buffered(pipeline).try_collect().await?;
        self.ingest_in_order(&mut done);
        Ok(Carried { done })
    }

    /// Goes on from a batch that is finished.
    async fn take_in(&mut self, finished: Finished) -> Result<()> {
        let shared = self.shared;
        let Finished { again, postponed, replaced, has_progress } = finished;
        again.into_iter().rev().for_each(|job| self.waiting.push_front(job));
        self.postponed.extend(postponed);
        if !replaced.is_empty() {
            self.replace(replaced.into_iter()).await?;
        }
        shared.is_sweeping.store(false, Ordering::Relaxed);
        if !has_progress && !self.postponed.is_empty() {
            self.free = shared.extents.free();
        }
        if !shared.glance().is_loading() {
            shared.free_log().await?;
        }
        Ok(())
    }

    /// Seals partitions again that wait for space, with what has come for them since: it may delete what needs the space. Tells
    /// whether there were any.
    async fn seal_again(&mut self) -> Result<bool> {
        let shared = self.shared;
        let has_more = |job: &mut Job| {
            let state = shared.state();
            let [member] = &job.members[..] else { return false };
            state.partition(member.id).is_some_and(|one| !one.active.is_empty())
        };
        if shared.state().is_loading() {
            return Ok(false);
        }
        let again: Vec<Job> =
            self.postponed.extract_if(.., has_more).take(BATCH_PARTITIONS).collect();
        if again.is_empty() {
            return Ok(false);
        }
        let ids = again.iter().flat_map(|job| &job.members).map(|member| member.id).collect();
        drop(again);
        let seals = shared.append_seals(&mut shared.state(), Choice::of(ids));
        let jobs = shared.sealed_jobs(seals).await?;
        self.waiting.extend(jobs);
        Ok(true)
    }

    /// As many jobs as there is space for; the others wait until these have left theirs.
    fn next_jobs(&mut self) -> Vec<Job> {
        let shared = self.shared;
        let mut room = shared.extents.free().0.saturating_sub(shared.reserve().0);
        let mut jobs: Vec<Job> = Vec::new();
        while let Some(job) = self.waiting.pop_front() {
            let growth = BlockCount::holding(ByteCount(job.queued_bytes() as u64 * 2));
            let needed = if job.is_to_clear { 0 } else { job.blocks() + growth.0 };
            // A seal that is not logged, and what follows from it, are made durable by a checkpoint.
            let is_other = jobs.first().is_some_and(|first| first.is_logged != job.is_logged);
            if !jobs.is_empty() && (needed > room || is_other) {
                self.waiting.push_front(job);
                break;
            }
            room = room.saturating_sub(needed);
            jobs.push(job);
        }
        jobs
    }

    /// Marks the partitions of a batch that have staged chunks for rewriting, once the directory of those chunks takes
    /// half of the memory.
    fn forget_staged(&self, jobs: &mut [Job]) {
        if self.shared.glance().directory_bytes > self.shared.memory_bytes / 2 {
            let has_staged = |job: &&mut Job| job.members.iter().any(|one| !one.staged.is_empty());
            jobs.iter_mut().filter(has_staged).for_each(|job| job.is_to_place = true);
        }
    }
}
