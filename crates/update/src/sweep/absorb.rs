//! Absorbing: a bulk group goes to blocks and chunks, partition by partition, and counts at once.
//!
//! The sweeper does it, since no other task changes which partitions there are. It seals all partitions that the group
//! touches with one group of the log. Each is then swept as for any sweep, with the modifications for it after what was sealed.
//! The entries that say where all this went lie on the data device, and one entry in the log refers to them: it makes the
//! group durable and visible. What is committed meanwhile stays in the queues, after the group.
//!
//! Where that fails before the entry is logged, the partitions stay sealed, as after a sweep that found no space, and the next
//! sweep writes them without the group.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use moirai_extents::Extent;
use moirai_storage::IoBuf;
use moirai_units::{BlockCount, ByteCount};

use crate::bulk::run::Merge;
use crate::bulk::run_block::Run;
use crate::error::{Error, Result};
use crate::ids::{PartitionId, SpaceId};
use crate::limits::RUNS_OF_ENTRY;
use crate::long::value::LongValue;
use crate::shared::Shared;
use crate::state::entry::{Elsewhere, Entry};
use crate::state::queue::Queue;
use crate::sweep::choose::{Choice, seals_of};
use crate::sweep::done::Done;
use crate::sweep::finish::Finished;
use crate::sweep::job::{BATCH_PARTITIONS, Job, Member};
use crate::sweep::requests::BulkRequest;
use crate::sweep::slices::{Slices, with_slice};
use crate::sweep::sweeper::Sweeper;

/// The part of the memory that the modifications of a batch of partitions take.
const BATCH_SHARE: usize = 16;
/// What the log takes to refer to the entries, at most: they lie in a few extents, or in as many as there is no space for.
const ELSEWHERE_BYTES: usize = 4 << 10;
/// A group is refused when its partitions could not be sealed, or had no space for long values, so often.
const STALLS_MAX: u32 = 16;

/// A partition that a bulk group touches, and where it ends.
struct Touched {
    id: PartitionId,
    space: SpaceId,
    high: Option<Box<[u8]>>,
}

/// What became of a try to absorb a group.
enum Absorbed {
    Done,
    /// Not yet: a partition is to be sealed again, or space became free that it lacked.
    Later,
    Refused(Error),
}

impl Sweeper<'_> {
    /// Absorbs the bulk group that waits, if there is one; tells whether it did something.
    pub(super) async fn absorb(&mut self) -> Result<bool> {
        let shared = self.shared;
        let Some(mut request) = shared.bulks.0.lock().take() else { return Ok(false) };
        shared.is_sweeping.store(true, Ordering::Relaxed);
        let absorbed = match shared.touched(&request.runs) {
            Ok(touched) => self.absorb_group(&mut request, touched).await?,
            Err(error) => Absorbed::Refused(error),
        };
        let done = match absorbed {
            Absorbed::Done => Ok(()),
            Absorbed::Refused(error) => Err(error),
            Absorbed::Later if request.stalls < STALLS_MAX => {
                request.stalls += 1;
                shared.take_checkpoint().await?;
                shared.bulks.begin(request);
                return Ok(true);
            }
            Absorbed::Later => Err(Error::full(&*shared.data)),
        };
        shared.is_sweeping.store(false, Ordering::Relaxed);
        // Who asked may have gone.
        drop(request.reply.send(done));
        shared.room.notify_waiters();
        Ok(true)
    }

    async fn absorb_group(
        &mut self,
        request: &mut BulkRequest,
        touched: Vec<Touched>,
    ) -> Result<Absorbed> {
        let shared = self.shared;
        // First: where a run cannot be read nothing has changed.
        let mut merge = match Merge::of(shared, &request.runs, &request.without_duplicates).await {
            Ok(merge) => merge,
            Err(error) => return Ok(Absorbed::Refused(error)),
        };
        let ids: Vec<PartitionId> = touched.iter().map(|one| one.id).collect();
        // Before they are swept in vain.
        let (have, most) = (seals_of(&ids).len(), shared.log.own_group_bytes_max());
        if have + shared.log.own_bytes_max() > most {
            let (have, most) = (ByteCount(have as u64), ByteCount(most as u64));
            return Ok(Absorbed::Refused(Error::GroupTooLong { have, most }));
        }
        // What waits for space is sealed again, with what has come since.
        self.postponed.retain(|job| !job.members.iter().any(|one| ids.contains(&one.id)));
        let seals = shared.append_seals(&mut shared.state(), Choice::of(ids));
        let jobs = shared.sealed_jobs(seals).await?;
        // The entry that refers to the others needs the seals in the log; and a partition that was placed unlogged and got
        // nothing since is sealed by the second group only.
        if jobs.len() < touched.len() || jobs.iter().any(|job| !job.is_logged) {
            self.waiting.extend(jobs);
            return Ok(Absorbed::Later);
        }
        let mut done = Vec::with_capacity(jobs.len());
        let mut batch = Vec::new();
        let mut bytes = 0;
        let bytes_max = shared.memory_bytes / BATCH_SHARE;
        let mut failed = None;
        for (mut job, one) in jobs.into_iter().zip(&touched) {
            job.is_of_bulk = true;
            let mut slice = Queue::default();
            let high = one.high.as_deref();
            let has_more = merge.take_some(one.space, high, bytes_max, &mut slice).await;
            // A device that cannot be read refuses the group, and stops nothing.
            let has_more = match has_more {
                Ok(has_more) => has_more,
                Err(error) => {
                    failed = Some(Absorbed::Refused(error));
                    self.waiting.push_back(job);
                    break;
                }
            };
            if has_more {
                let mut slices = Slices {
                    merge: &mut merge,
                    space: one.space,
                    high,
                    first: Some(slice),
                    bytes_max,
                    failed: None,
                };
                let placed =
                    shared.place_slices_in_memory(&mut job, bytes_max, &mut slices).await?;
                failed = match placed {
                    Done::Placed(mut rewritten) => {
                        rewritten.keep_tables(&shared.tables);
                        done.push((job, Done::Placed(rewritten)));
                        continue;
                    }
                    Done::SetAside(error) => Some(Absorbed::Refused(unreadable(shared, &error))),
                    _ => Some(match slices.failed {
                        Some(error) => Absorbed::Refused(error),
                        // Its long values may find the space that ending a read point has freed.
                        None if request.stalls < STALLS_MAX && shared.end_oldest_point() => {
                            Absorbed::Later
                        }
                        None => Absorbed::Refused(Error::full(&*shared.data)),
                    }),
                };
                self.waiting.push_back(job);
                break;
            }
            bytes += slice.bytes();
            batch.push((job, slice));
            if bytes >= bytes_max || batch.len() == BATCH_PARTITIONS {
                bytes = 0;
                if let Some(error) = self.absorb_batch(&mut batch, &mut done).await? {
                    failed = Some(Absorbed::Refused(error));
                    break;
                }
            }
        }
        if failed.is_none() {
            let refused = self.absorb_batch(&mut batch, &mut done).await?;
            failed = refused.map(Absorbed::Refused);
        }
        // It holds the runs, too.
        drop(merge);
        let failed = match failed {
            Some(failed) => Some(failed),
            None => shared.finish_absorbed(request, &mut done).await?.map(Absorbed::Refused),
        };
        let Some(failed) = failed else { return Ok(Absorbed::Done) };
        // They are swept without the group. What was written for it is free once it is dropped.
        drop((done, batch));
        self.waiting.clear();
        let state = shared.state();
        let member = |one: &Touched| Member::of(one.id, state.partition(one.id)?);
        let jobs = touched.iter().filter_map(member).map(Job::of_sealed);
        self.waiting.extend(jobs);
        Ok(failed)
    }

    /// Carries out the sweeps of some partitions; gives why one of them could not be.
    async fn absorb_batch(
        &mut self,
        batch: &mut Vec<(Job, Queue)>,
        done: &mut Vec<(Job, Done)>,
    ) -> Result<Option<Error>> {
        let shared = self.shared;
        let mut jobs: Vec<Job> = Vec::with_capacity(batch.len());
        for (mut job, slice) in batch.drain(..) {
            for member in &mut job.members {
                member.sealed.queue =
                    Arc::new(with_slice(&member.sealed.queue, None, slice.copied()));
            }
            jobs.push(job);
        }
        while !jobs.is_empty() {
            let mut again = Vec::new();
            for (mut job, outcome) in self.carry_out_batch(jobs).await?.done {
                match outcome {
                    // Ending a read point may have freed the space that it needs.
                    Done::Postponed if shared.end_oldest_point() => again.push(job),
                    Done::Postponed => return Ok(Some(Error::full(&*shared.data))),
                    Done::SetAside(error) => return Ok(Some(unreadable(shared, &error))),
                    mut outcome => {
                        // Memory need not hold the group, nor all tables.
                        job.members.iter_mut().for_each(|one| one.sealed.queue = Arc::default());
                        if let Done::Placed(rewritten) = &mut outcome {
                            rewritten.keep_tables(&shared.tables);
                        }
                        done.push((job, outcome));
                    }
                }
            }
            jobs = again;
        }
        Ok(None)
    }
}

fn unreadable(shared: &Shared, error: &Error) -> Error {
    Error::Unreadable { device: shared.data.inquiry().name.clone(), why: error.to_string() }
}

impl Shared {
    /// The partitions that runs touch, in the order of their keys; perhaps some between those, too.
    fn touched(&self, runs: &[Arc<Run>]) -> Result<Vec<Touched>> {
        let mut places: BTreeMap<SpaceId, Vec<std::ops::RangeInclusive<usize>>> = BTreeMap::new();
        for block in runs.iter().flat_map(|run| run.iter()) {
            let state = self.state();
            let position = |key| state.position(block.space, key);
            let (Some(first), Some(last)) = (position(&block.first), position(&block.last)) else {
                return Err(Error::NoSpace { space: block.space });
            };
            places.entry(block.space).or_default().push(first..=last);
        }
        let mut touched = Vec::new();
        for (space, mut ranges) in places {
            ranges.sort_unstable_by_key(|range| (*range.start(), *range.end()));
            let mut next = 0;
            for range in ranges {
                for place in next.max(*range.start())..=*range.end() {
                    let state = self.state();
                    let Some(directory) = state.spaces.get(&space) else { continue };
                    let high = directory.at(place + 1).and_then(|id| state.partition(id));
                    let high = high.map(|next| next.low.clone());
                    touched.extend(directory.at(place).map(|id| Touched { id, space, high }));
                }
                next = next.max(range.end() + 1);
            }
        }
        Ok(touched)
    }

    /// Makes durable what sweeps of a group wrote, and then the entry that makes it count. Where there is no space for the
    /// entries, nothing counts, and it says so.
    async fn finish_absorbed(
        &self,
        request: &mut BulkRequest,
        done: &mut Vec<(Job, Done)>,
    ) -> Result<Option<Error>> {
        let is_new = |value: &Arc<LongValue>| value.is_new(&self.extents);
        if !request.long.iter().all(is_new) {
            return Ok(Some(Error::LongValueUsed));
        }
        // Before anything changes. Nobody else takes the last of the log, which is for the engine's own entries.
        if !self.log.has_room_for_own(ELSEWHERE_BYTES) {
            self.take_checkpoint().await?;
            if !self.log.has_room_for_own(ELSEWHERE_BYTES) {
                return Ok(Some(Error::full(&*self.data)));
            }
        }
        // As many bytes as the entries take at most.
        let Some(mut extents) = self.space_for_entries(request, done) else {
            return Ok(Some(Error::full(&*self.data)));
        };
        let mut entries = Vec::new();
        let mut left = Vec::with_capacity(done.len());
        {
            let mut state = self.state();
            // No space is made until the log has the numbers of the partitions that these sweeps made. The checkpoint below
            // ends that.
            state.is_ahead = true;
            // First: the group may replace one of its own long values.
            let runs: Vec<_> = request.long.iter().flat_map(|one| one.runs()).copied().collect();
            for runs in runs.chunks(RUNS_OF_ENTRY) {
                Entry::Long { runs: runs.to_vec() }.encode(&mut entries);
            }
            let long = request.long.iter().flat_map(|value| value.give());
            state.arriving.extend(long.map(|extent| (extent.first(), extent)));
            let mut finished = Finished::default();
            for (job, outcome) in done.drain(..) {
                let job = self.encode_done(&mut state, job, outcome, &mut entries, &mut finished);
                left.extend(job);
                // What the entries say is not so before they are appended.
                state.give_way();
            }
        }
        let room = |extents: &[Extent]| -> BlockCount {
            extents.iter().map(|extent| extent.blocks.count).sum()
        };
        let needed = BlockCount::holding(ByteCount(entries.len() as u64));
        while room(&extents) < needed {
            let more = BlockCount(needed.0 - room(&extents).0);
            let extent = self.extents.take_part(more, BlockCount(1), self.checkpoint_reserve());
            extents.push(extent.ok_or_else(|| Error::full(&*self.data))?);
        }
        let (mut runs, mut rest) = (Vec::new(), &entries[..]);
        for extent in &extents {
            let room = (extent.blocks.count.bytes().0 as usize).min(rest.len());
            let (now, later) = rest.split_at_checked(room).unwrap_or((rest, &[]));
            if !now.is_empty() {
                let buffer = IoBuf::holding(now);
                runs.push(moirai_units::BlockRange::new(
                    extent.first(),
                    BlockCount::holding(ByteCount(now.len() as u64)),
                ));
                self.data.write(extent.first(), buffer).await?;
            }
            rest = later;
        }
        self.data.flush().await?;
        let (bytes, checksum) = (entries.len() as u64, crc32c::crc32c(&entries));
        let first = runs.first().map(|run| run.first);
        let mut group = Vec::new();
        Entry::Elsewhere(Elsewhere { runs, bytes, checksum }).encode(&mut group);
        let end = {
            let mut state = self.state();
            state.elsewhere.extend(first.map(|first| (first, Arc::from(entries))));
            state.elsewhere_extents.extend(extents);
            self.append_own(&mut state, group, true)
        };
        self.flushed_before(end).await?;
        self.counts.modifications.add(request.count);
        for member in left.iter().flat_map(|job| &job.members) {
            self.tables.forget(&member.place);
        }
        self.free_left();
        drop(left);
        // The checkpoint needs space.
        request.runs.clear();
        self.note_swept();
        self.take_checkpoint().await?;
        Ok(None)
    }

    /// Extents for the entries that tell of sweeps; `None` where there is no space.
    fn space_for_entries(
        &self,
        request: &BulkRequest,
        done: &[(Job, Done)],
    ) -> Option<Vec<Extent>> {
        let long: usize = request.long.iter().map(|one| one.runs().len()).sum();
        let of_one = |(job, outcome): &(Job, Done)| {
            let members: usize = job.members.iter().map(|one| one.low.len() + 16).sum();
            members + outcome.entry_bytes_max()
        };
        let bytes = 64 + 32 * long + done.iter().map(of_one).sum::<usize>();
        let mut count = BlockCount::holding(ByteCount(bytes as u64)).0;
        let mut extents = Vec::new();
        while count > 0 {
            let unit = BlockCount(1);
            let extent = self.extents.take_part(BlockCount(count), unit, self.checkpoint_reserve());
            let Some(extent) = extent else {
                if self.end_oldest_point() {
                    continue;
                }
                return None;
            };
            count = count.saturating_sub(extent.blocks.count.0);
            extents.push(extent);
            if extents.len() * 24 > ELSEWHERE_BYTES {
                return None;
            }
        }
        Some(extents)
    }
}
