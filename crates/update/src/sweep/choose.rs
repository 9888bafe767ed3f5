//! Choosing the partitions that are swept next, and sealing them: modifications that come later stay in the queues.

use std::sync::atomic::Ordering;

use moirai_runtime::now;

use crate::error::Result;
use crate::ids::{PartitionId, Seq, SpaceId};
use crate::limits::LOOKED_AT;
use crate::shape::Shape;
use crate::shared::Shared;
use crate::state::State;
use crate::state::entry::Entry;
use crate::state::partition::{Partition, staged_blocks};
use crate::sweep::job::{BATCH_PARTITIONS, Job, Member};

/// Partitions of a batch that nobody waits for.
const OPTIONAL_PARTITIONS: usize = 16;
/// Idle sweeps rewrite a partition once its pending and staged bytes reach this share of its blocks. Rewriting it for less would
/// wear flash out.
const IDLE_SHARE: u64 = 16;
/// A store rests after so many times the time after which it is idle.
const REST_IDLES: u64 = 16;
/// Small partitions are merged at once when they are one in so many, and otherwise in idle time.
const SMALL_SHARE: usize = 8;
/// Small partitions whose neighbours are looked at in one go.
const MERGES_TRIED: usize = 16;
/// Partitions that are sorted by their keys in one go.
const SORTED: usize = 512;

/// Why a sweep goes on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Need {
    /// Memory is short: sweep the partitions with the longest queues.
    Memory { bytes_min: usize },
    /// Sweep every partition with a modification of a group before this one.
    Older(Seq),
    /// The device is short of space: rewrite every partition that has something pending or staged.
    Space,
}

/// The partitions that are swept next.
pub(super) struct Choice {
    ids: Vec<PartitionId>,
    /// Neighbours that become one.
    merge: Vec<PartitionId>,
    /// See [`Job`].
    is_to_place: bool,
    is_optional: bool,
}

/// Where the sweeper looks for partitions next.
#[derive(Debug, Default)]
pub(super) struct Cursor {
    /// After the partition with this key, which was chosen or passed over last because something was needed.
    space: SpaceId,
    low: Box<[u8]>,
    /// From this number on, for what is worth rewriting in idle time; and whether something was since number 0.
    slot: u32,
    has_found: bool,
}

impl Cursor {
    fn pass(&mut self, partition: &Partition) {
        (self.space, self.low) = (partition.space, partition.low.clone());
    }
}

/// What a look at some of the partitions came to.
enum Look<T> {
    Found(T),
    /// There are more to look at.
    Unfinished,
    Nothing,
}

/// Seals that were appended.
pub(super) struct Seals {
    choice: Choice,
    is_logged: bool,
    /// They are applied once all groups before this one are.
    end: Seq,
}

impl Choice {
    /// These partitions, each by itself.
    pub(super) fn of(ids: Vec<PartitionId>) -> Choice {
        Choice { ids, merge: Vec::new(), is_to_place: false, is_optional: false }
    }
}

impl Shared {
    /// What is to be done now; `None` when nothing is.
    fn need(&self, state: &State) -> Option<Need> {
        // Opening waits for what makes room alone.
        if state.is_loading() {
            return self.need_of_memory(state);
        }
        if self.is_space_wanted(state) {
            return Some(Need::Space);
        }
        let older = self.requests.older();
        if state.oldest_is_before(older) {
            return Some(Need::Older(older));
        }
        if let Some(older) = self.log.to_leave(false)
            && state.oldest_is_before(older)
        {
            return Some(Need::Older(older));
        }
        self.need_of_memory(state)
    }

    fn need_of_memory(&self, state: &State) -> Option<Need> {
        let is_short = state.queued_bytes > self.queues_bytes_max(state) / 2;
        is_short.then(|| {
            let average = state.unplaced_bytes as usize / state.partitions.len().max(1);
            Need::Memory { bytes_min: average / 2 }
        })
    }

    /// Whether nobody has modified anything for some time.
    pub(super) fn is_idle(&self) -> bool {
        self.is_idle_for(1)
    }

    /// Whether the store rests: nobody has modified anything for so long that the next modifications are not expected to be of
    /// the same partitions as those that are pending. The log is made short then: a file gets its space back, and the next
    /// opening reads little.
    pub(super) fn is_resting(&self) -> bool {
        self.is_idle_for(REST_IDLES)
    }

    fn is_idle_for(&self, idles: u64) -> bool {
        self.idle.is_some_and(|idle| {
            now().since(*self.last_commit.lock()).0 >= idle.0.saturating_mul(idles)
        })
    }

    /// Seals the next partitions that are to be swept, and waits until the seals are applied; `None` when there are none.
    /// What comes for these partitions until then is sealed, too, where it comes before the seals in the log.
    pub(super) async fn seal_some(&self, cursor: &mut Cursor) -> Result<Option<Vec<Job>>> {
        let (mut looks, looks_max) = (0, 2 + self.glance().partitions.len() / LOOKED_AT);
        let seals = loop {
            let mut state = self.state();
            match self.choose_some(&mut state, cursor) {
                Look::Found(choice) => break self.append_seals(&mut state, choice),
                Look::Unfinished if looks < looks_max => looks += 1,
                _ => return Ok(None),
            }
        };
        self.sealed_jobs(seals).await.map(Some)
    }

    /// Waits until seals are applied; gives the jobs for what is sealed.
    pub(super) async fn sealed_jobs(&self, seals: Seals) -> Result<Vec<Job>> {
        let Seals { choice, is_logged, end } = seals;
        self.visible_before(end).await?;
        let Choice { ids, merge, is_to_place, is_optional } = choice;
        let state = self.state();
        let member = |id: &PartitionId| Member::of(*id, state.partition(*id)?);
        let job = |members, is_to_place| Job {
            members,
            is_to_place,
            is_to_clear: false,
            ingest: None,
            is_of_bulk: false,
            is_optional,
            is_logged,
        };
        let single = |id: &PartitionId| {
            Some(job(vec![member(id)?], is_to_place || state.costly.contains(id)))
        };
        let mut jobs: Vec<Job> = ids.iter().filter_map(single).collect();
        if !merge.is_empty() {
            jobs.push(job(merge.iter().filter_map(member).collect(), true));
        }
        // Those who waited for one of these queues alone.
        self.room.notify_waiters();
        Ok(jobs)
    }

    /// Appends the seals of partitions that are chosen.
    pub(super) fn append_seals(&self, state: &mut State, choice: Choice) -> Seals {
        let group = seals_of(choice.ids.iter().chain(&choice.merge));
        // Where the log has no room for what is to come either, none of it is there.
        let is_logged = !state.is_loading()
            && self.log.has_room_for_own(group.len() + self.log.own_bytes_max());
        let end = self.append_own(state, group, is_logged);
        Seals { choice, is_logged, end }
    }

    fn choose_some(&self, state: &mut State, cursor: &mut Cursor) -> Look<Choice> {
        let need = self.need(state);
        let mut is_unfinished = false;
        // What the log, or who waits for a checkpoint, needs comes before those with so much that reading takes long.
        let mut ids: Vec<PartitionId> = match need {
            Some(Need::Older(_) | Need::Space) => Vec::new(),
            _ => {
                let hot = state.hot.iter().copied();
                hot.filter(|id| is_pending(state, *id)).take(BATCH_PARTITIONS).collect()
            }
        };
        let is_optional = ids.is_empty() && need.is_none();
        let mut is_to_place = need == Some(Need::Space);
        let mut merge = Vec::new();
        // While a log is loaded, partitions may have what comes next already, and then they cannot be sealed.
        let has_log = !self.is_closing()
            && !state.is_loading()
            && self.log.has_room_for_own(2 * self.log.own_bytes_max());
        if is_optional && has_log {
            ids = self.optional(state, state.costly.iter().copied());
            if ids.is_empty() && self.is_idle() {
                is_to_place = true;
                (ids, is_unfinished) = self.worth_rewriting(state, cursor);
            }
        }
        if ids.is_empty() {
            let damaged = state.to_salvage.iter().copied();
            let is_free =
                |id: &PartitionId| state.partition(*id).is_some_and(|one| one.sealed.is_none());
            ids = damaged.filter(is_free).take(OPTIONAL_PARTITIONS).collect();
        }
        let need = need.or_else(|| {
            let older = self.is_resting().then(|| self.log.to_leave(true)).flatten();
            older.filter(|older| state.oldest_is_before(*older)).map(Need::Older)
        });
        if ids.is_empty()
            && !is_unfinished
            && let Some(need) = need
        {
            let most = (self.queues_bytes_max(state) / 8, self.log.own_bytes_max());
            (ids, is_unfinished) = choose(state, need, cursor, most);
        }
        let is_due = state.small.len() * SMALL_SHARE >= state.partitions.len();
        if has_log && (is_due || (ids.is_empty() && self.is_idle())) {
            merge = neighbours_to_merge(state, &ids);
        }
        match ids.is_empty() && merge.is_empty() {
            true if is_unfinished => Look::Unfinished,
            true => Look::Nothing,
            false => Look::Found(Choice { ids, merge, is_to_place, is_optional }),
        }
    }

    /// Some of the partitions that are worth rewriting when there is nothing else to do, and whether there are more to
    /// look at.
    fn worth_rewriting(&self, state: &mut State, cursor: &mut Cursor) -> (Vec<PartitionId>, bool) {
        let slots = state.partitions.slots();
        let end = cursor.slot.saturating_add(LOOKED_AT as u32).min(slots);
        let mut is_worth = (cursor.slot..end)
            .map(PartitionId)
            .filter(|id| state.partition(*id).is_some_and(is_worth_rewriting));
        let first = is_worth.next();
        cursor.has_found |= first.is_some();
        let ids = self.optional(state, first.into_iter().chain(is_worth));
        match ids.last() {
            Some(last) if ids.len() == OPTIONAL_PARTITIONS => cursor.slot = last.0 + 1,
            _ if end < slots => cursor.slot = end,
            _ => {
                cursor.slot = 0;
                state.is_settled = !std::mem::take(&mut cursor.has_found);
            }
        }
        (ids, cursor.slot > 0)
    }

    /// Some of these partitions, which nobody waits for: as far as there is room.
    fn optional(&self, state: &State, ids: impl Iterator<Item = PartitionId>) -> Vec<PartitionId> {
        let mut room = self.extents.free().0.saturating_sub(self.reserve().0) / 4;
        let mut entry_bytes = self.log.own_bytes_max() / 2;
        let mut fits = |id: &PartitionId| {
            let Some(one) = state.partition(*id).filter(|one| is_sealable(one)) else {
                return false;
            };
            let blocks = one.place.device_blocks() + staged_blocks(&one.staged);
            let left =
                (room.checked_sub(blocks.0), entry_bytes.checked_sub(2 * one.directory_bytes()));
            let (Some(room_left), Some(bytes_left)) = left else { return false };
            (room, entry_bytes) = (room_left, bytes_left);
            true
        };
        ids.filter(|id| fits(id)).take(OPTIONAL_PARTITIONS).collect()
    }

    /// Whether there is something to do once nobody has modified anything for some time.
    pub(super) fn has_idle_work(&self) -> bool {
        let is_discardable =
            self.data.inquiry().discard.is_some() && self.extents.has_discardable();
        let is_long = self.log.is_long(true) && !self.is_stuck.load(Ordering::Relaxed);
        let has_work = is_discardable || is_long || self.log.has_discardable();
        let state = self.state();
        has_work || state.small.len() > 1 || !state.is_settled
    }
}

fn is_sealable(partition: &Partition) -> bool {
    partition.sealed.is_none() && !partition.is_set_aside
}

fn is_pending(state: &State, id: PartitionId) -> bool {
    state.partition(id).is_some_and(|one| one.sealed.is_none() && !one.active.is_empty())
}

/// Whether a partition is worth rewriting when there is nothing else to do.
fn is_worth_rewriting(partition: &Partition) -> bool {
    let waiting = partition.active.bytes() as u64 + staged_blocks(&partition.staged).bytes().0;
    let blocks = (partition.place.blocks() * partition.place.block_bytes()) as u64;
    // A short delete may free a long value.
    let is_much = partition.place.has_long() || waiting >= blocks / IDLE_SHARE;
    is_sealable(partition) && waiting > 0 && is_much
}

/// The entries that seal partitions.
pub(super) fn seals_of<'a>(ids: impl IntoIterator<Item = &'a PartitionId>) -> Vec<u8> {
    let mut group = Vec::new();
    for id in ids {
        Entry::Seal { partition: *id }.encode(&mut group);
    }
    group
}

/// Neighbours, one of them small, whose blocks are to be those of one partition; none when there are none, or one of them
/// is among `taken`.
fn neighbours_to_merge(state: &mut State, taken: &[PartitionId]) -> Vec<PartitionId> {
    for _ in 0..MERGES_TRIED {
        let Some(id) = state.small.pop_first() else { break };
        let Some((space, place)) = state
            .partition(id)
            .and_then(|one| Some((one.space, state.position(one.space, &one.low)?)))
        else {
            continue;
        };
        let Some(directory) = state.spaces.get(&space) else { continue };
        let division = directory.spec.division;
        let most = division.partition_blocks as usize * 3 / 4;
        let bytes_max = division.partition_bytes() * 3 / 4;
        let at = |place: usize| {
            // What is to be salvaged is found by its number.
            let is_taken = |id: &PartitionId| taken.contains(id) || state.to_salvage.contains(id);
            let id = directory.at(place).filter(|id| !is_taken(id))?;
            Some((id, state.partition(id).filter(|one| is_sealable(one))?))
        };
        let Some((_, one)) = at(place) else { continue };
        let mut blocks = one.place.blocks();
        let mut shape = (blocks > 0).then(|| one.place.shape().clone());
        let mut fits = |place: usize| {
            let (id, one) = at(place)?;
            // Together, all get the longest units of them.
            let together = blocks + one.place.blocks();
            let longer = match (&shape, one.place.blocks()) {
                (_, 0) => shape.clone(),
                (None, _) => Some(one.place.shape().clone()),
                (Some(shape), _) => Some(shape.or_longer(one.place.shape())),
            };
            let block_bytes = longer.as_ref().map_or(0, Shape::block_bytes);
            if together > most || together * block_bytes > bytes_max {
                return None;
            }
            (blocks, shape) = (together, longer);
            Some(id)
        };
        let mut ids: Vec<PartitionId> =
            (0..place).rev().map_while(&mut fits).take(BATCH_PARTITIONS).collect();
        ids.reverse();
        ids.push(id);
        ids.extend((place + 1..directory.len()).map_while(&mut fits).take(BATCH_PARTITIONS));
        if ids.len() > 1 {
            return ids;
        }
    }
    Vec::new()
}

/// The partitions to sweep, in key order from the cursor on and around to it, and whether there are more to look at.
fn choose(
    state: &State,
    need: Need,
    cursor: &mut Cursor,
    (bytes_max, entry_bytes_max): (usize, usize),
) -> (Vec<PartitionId>, bool) {
    let needs = |partition: &Partition| match need {
        _ if partition.sealed.is_some() => false,
        Need::Space => !partition.is_set_aside && partition.has_waiting(),
        _ if partition.active.is_empty() => false,
        Need::Memory { bytes_min } => partition.active.bytes() >= bytes_min,
        Need::Older(seq) => partition.since < seq,
    };
    // Few are found faster than by looking for them.
    let few = match need {
        Need::Older(seq) => state.needing(seq, SORTED),
        Need::Memory { .. } | Need::Space => None,
    };
    let few = few.map(|mut ids| {
        let place = |id: &PartitionId| {
            let one = state.partition(*id)?;
            let is_before = (one.space, &one.low) <= (cursor.space, &cursor.low);
            Some((is_before, one.space, &one.low))
        };
        ids.sort_by_cached_key(place);
        ids
    });
    let mut chosen = Vec::new();
    let (mut looked, mut last) = (0, None);
    // What is pending, and about what the entries take that say where it went.
    let (mut bytes, mut entry_bytes) = (0, 0);
    let all = state.around(cursor.space, &cursor.low);
    let candidates: Box<dyn Iterator<Item = PartitionId>> = match few {
        Some(few) => Box::new(few.into_iter()),
        None => Box::new(all.take(LOOKED_AT)),
    };
    for id in candidates {
        let Some(partition) = state.partition(id) else { continue };
        looked += 1;
        if needs(partition) {
            bytes += partition.active.bytes();
            entry_bytes += 2 * partition.place.memory_bytes() + partition.active.bytes() / 4;
            let is_enough = chosen.len() >= BATCH_PARTITIONS
                || bytes > bytes_max
                || entry_bytes > entry_bytes_max;
            if is_enough && !chosen.is_empty() {
                break;
            }
            chosen.push(id);
        }
        last = Some(partition);
    }
    if let Some(last) = last {
        cursor.pass(last);
    }
    (chosen, looked == LOOKED_AT)
}
