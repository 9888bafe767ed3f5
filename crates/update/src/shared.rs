//! What the engine's door, the writer of its log and its sweeper share.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::panic::Location;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};

use moirai_extents::Extents;
use moirai_runtime::{BusyTime, now};
use moirai_storage::Device;
use moirai_units::{ByteCount, Instant, Nanos};
use parking_lot::{Mutex, MutexGuard, RwLock};
use tokio::sync::Notify;

use crate::data::cache::Cache;
use crate::data::checkpoint::fragments::Kept;
use crate::data::layout::Layout;
use crate::data::requests::Requests;
use crate::data::superblock::Superblock;
use crate::data::tables::Tables;
use crate::error::{Error, Result};
use crate::figures::Counts;
use crate::group::{Group, Use};
use crate::ids::{PUT, PUT_LONG, Seq, SpaceId};
use crate::kind::Kinds;
use crate::locked::{HELD_AT_ONCE, Lagging, Locked};
use crate::log::Log;
use crate::log::writer::{Position, Writer};
use crate::options::Durability;
use crate::spec::{Spec, Specs};
use crate::state::entry::is_own;
use crate::state::{Misfit, State};
use crate::sweep::requests::{Bulks, Clears, Ingests};
use crate::sweep::working::Working;

/// Waits for memory, or for room in the log, are said from so long on, and then each that is twice as long.
pub(crate) const LONG_WAIT: Nanos = Nanos(1_000_000_000);

/// What the engine's tasks share.
pub(crate) struct Shared {
    pub(crate) data: Arc<dyn Device>,
    pub(crate) log: Log,
    pub(crate) layout: Layout,
    pub(crate) extents: Arc<Extents>,
    pub(crate) kinds: Kinds,
    pub(crate) specs: Specs,
    /// The format of each space, from the moment that its creation is appended to the log. No space is ever removed: a group that
    /// was checked against this finds its spaces when it is appended.
    pub(crate) spaces: RwLock<BTreeMap<SpaceId, Arc<Spec>>>,
    /// How long a request of the device takes: a weighted average of the last reads; 0 before the first.
    pub(crate) read_ns: AtomicU64,
    /// Device blocks of the longest partition of any space.
    pub(crate) partition_blocks_max: AtomicU64,
    pub(crate) memory_bytes: usize,
    pub(crate) cache_bytes_max: usize,
    /// Bytes that a scan reads ahead, about.
    pub(crate) ahead_bytes: usize,
    pub(crate) cache: Cache,
    pub(crate) tables: Tables,
    /// What sweeps work in.
    pub(crate) working: Working,
    /// Bytes of the maps that say what is free and what waits, when a sweep looked last.
    pub(crate) maps_bytes: AtomicUsize,
    /// Reached by [`Shared::state`] and by [`Shared::glance`].
    pub(crate) state: Lagging,
    pub(crate) requests: Requests,
    pub(crate) clears: Clears,
    pub(crate) ingests: Ingests,
    pub(crate) bulks: Bulks,
    /// Held by the batch that is ingested, and by who reads a value to modify it: see `Engine::commit_if`.
    pub(crate) ingesting: Arc<tokio::sync::Mutex<()>>,
    /// Held by who clears a range, to its end.
    pub(crate) clearing: Arc<tokio::sync::Mutex<()>>,
    /// How many decide what to commit: see `Engine::commit_if`.
    pub(crate) deciding: AtomicUsize,
    /// How many read points are ending: what they kept is free in a moment.
    pub(crate) ending: AtomicUsize,
    pub(crate) closing: AtomicBool,
    /// Held by writes of long values that are in flight, which end before the engine is closed.
    pub(crate) long_writes: Arc<tokio::sync::RwLock<()>>,
    /// Whether sweeps may give back space soon.
    pub(crate) is_sweeping: AtomicBool,
    /// Device blocks that the last checkpoint keeps.
    pub(crate) checkpoint_blocks: AtomicU64,
    /// Bytes of memory of the list of its fragments.
    pub(crate) kept_bytes: AtomicUsize,
    /// Device blocks for the directory as it is in memory: a checkpoint of it takes no more.
    pub(crate) directory_blocks: AtomicU64,
    /// Bytes that the directory grows by once what is being swept is finished.
    pub(crate) directory_more_bytes: AtomicU64,
    pub(crate) sweep_wake: Notify,
    /// Whether the sweeper has nothing to do, so that the next commit is to wake it.
    pub(crate) is_parked: AtomicBool,
    /// Whether the sweeper does optional work, or pauses after it. Meanwhile reads do not wake it, however many staged
    /// modifications they had to read.
    pub(crate) is_making_way: AtomicBool,
    pub(crate) room: Arc<Notify>,
    /// Held by the group that is taken in next: they come in the order in which they asked.
    pub(crate) turn: tokio::sync::Mutex<()>,
    pub(crate) counts: Counts,
    /// The superblock, and what its checkpoint consists of.
    pub(crate) superblock: tokio::sync::Mutex<(Superblock, Kept)>,
    /// See `Options::read_only`.
    pub(crate) is_read_only: bool,
    pub(crate) stopped: Mutex<Option<Arc<str>>>,
    /// Whether a group waits for space on the data device.
    pub(crate) space_wanted_bytes: AtomicUsize,
    /// The sweeper found no space for the group that waits: its commit returns [`Error::Full`].
    pub(crate) is_space_refused: AtomicBool,
    /// Whether partitions wait for space on the data device, and nothing can be done for them.
    pub(crate) is_stuck: AtomicBool,
    /// See [`Options::idle`](crate::Options::idle).
    pub(crate) idle: Option<Nanos>,
    /// When a group was taken in last.
    pub(crate) last_commit: Mutex<Instant>,
    pub(crate) replayed_bytes: u64,
    /// The longest wait that was said.
    pub(crate) waited_ns: AtomicU64,
}

/// Steps of work (`State::steps`) on groups that became visible, after which it is looked for how long the lock of the state is
/// held: some 15 us where the caches have what they need, and up to half a millisecond among a hundred thousand partitions.
const STEPS_AT_ONCE: u64 = 1 << 6;
/// Bytes of groups that the state may lack before the next group is taken in: a few milliseconds of work for whoever locks it
/// next. With less, several clients who commit wait for each other.
const LAG_BYTES_MAX: usize = 256 << 10;
/// With little memory, no more than this part of it. Groups that are not applied count as pending, and a commit waits for sweeps
/// when too much is pending, but sweeps find nothing to do in groups that are not applied.
const LAG_SHARE: usize = 32;
/// Of so many short holds of the lock one is measured.
const MEASURED_OF: u64 = 16;

/// Whether the task that writes a long value holds `Shared::turn`. Only the task that holds it waits for space.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Turn {
    Held,
    Free,
}

impl Shared {
    pub(crate) fn is_closing(&self) -> bool {
        self.closing.load(Ordering::Acquire)
    }

    pub(crate) async fn write_log(&self, at: Position) {
        let error = Writer::new(&self.log, at).run().await;
        self.stop(&format!("writing the log failed: {error}"));
    }

    /// The state that readers see: the effect of all visible groups, and of no other. Whoever locks it first after
    /// groups became visible applies them.
    ///
    /// That may take long, so a thread that applies groups gives the lock to waiting threads now and then, also in the middle of a
    /// group. A thread that gets the lock, or gets it back, first finishes the group that was begun. So no reader sees a part of a group,
    /// except in [`Shared::state_to_append`] and [`Shared::glance`].
    #[track_caller]
    pub(crate) fn state(&self) -> Locked<'_> {
        self.locked(false)
    }

    /// The state for taking a group in, which looks at counts and at the spaces. It may lack groups that are visible, and have a
    /// part of one: so the next group is on its way to the log while others are applied.
    ///
    /// Where it lacks many it gets them first. While the sweeper applies groups, those who commit find the state in use and
    /// leave theirs to the next one who locks it. That may be the sweeper again, and a program commits faster than
    /// the sweeper applies: it would have more to do each time, and get nowhere.
    ///
    /// One hold in [`MEASURED_OF`] is measured. Reading the clock for all of them would cost a small commit 3 % of its time.
    #[track_caller]
    pub(crate) fn state_to_append(&self) -> Locked<'_> {
        let state = self.state.state.lock();
        match state.unapplied.bytes > LAG_BYTES_MAX.min(self.memory_bytes / LAG_SHARE) {
            true => self.up_to_date(state, true),
            false => self.held(state, self.is_measured()),
        }
    }

    /// The state for reading counts, and what groups of programs do not change. Groups that are visible may not be applied yet, or
    /// one of them in part, as with [`Shared::state_to_append`].
    #[track_caller]
    pub(crate) fn glance(&self) -> Locked<'_> {
        self.held(self.state.state.lock(), self.is_measured())
    }

    /// Applies the groups that are visible, as long as no other thread wants the lock. The next caller of [`Shared::state`] applies
    /// the rest.
    #[track_caller]
    fn catch_up_if_free(&self) {
        let visible = self.log.visible();
        while let Some(mut state) = self.state.state.try_lock() {
            if !state.lacks(visible) {
                return;
            }
            let held = BusyTime::start();
            let is_short = || held.is_none_or(|held| held.elapsed() < HELD_AT_ONCE);
            let caught_up = loop {
                match self.catch_up(&mut state, visible) {
                    Ok(false) if is_short() => {}
                    caught_up => break caught_up,
                }
            };
            if let Some(held) = held {
                self.counts.count_lock(held.elapsed(), Location::caller());
            }
            match caught_up {
                Ok(true) => return,
                // A thread that waits for the lock gets it.
                Ok(false) => MutexGuard::unlock_fair(state),
                Err(misfit) => return self.stop_at(&mut state, visible, &misfit),
            }
        }
    }

    #[track_caller]
    fn locked(&self, is_short: bool) -> Locked<'_> {
        self.up_to_date(self.state.state.lock(), is_short)
    }

    /// Whether the next short hold is measured.
    fn is_measured(&self) -> bool {
        let holds = self.state.short_holds.load(Ordering::Relaxed);
        self.state.short_holds.store(holds.wrapping_add(1), Ordering::Relaxed);
        holds.is_multiple_of(MEASURED_OF)
    }

    #[track_caller]
    fn held<'a>(&'a self, state: MutexGuard<'a, State>, is_measured: bool) -> Locked<'a> {
        let held = is_measured.then(BusyTime::start).flatten();
        Locked { state, counts: &self.counts, held, at: Location::caller() }
    }

    /// The state, which is locked, with all visible groups.
    #[track_caller]
    fn up_to_date<'a>(&'a self, state: MutexGuard<'a, State>, is_short: bool) -> Locked<'a> {
        let mut visible = self.log.visible();
        let is_measured = !is_short || state.lacks(visible) || self.is_measured();
        let mut state = self.held(state, is_measured);
        while state.lacks(visible) {
            match self.catch_up(&mut state, visible) {
                Ok(true) => break,
                Ok(false) => {
                    state.give_way();
                    // The thread that had the lock may have begun a group that was not visible before.
                    visible = visible.max(self.log.visible().min(state.begun()));
                }
                Err(misfit) => self.stop_at(&mut state, visible, &misfit),
            }
        }
        state
    }

    /// Stops the engine at a group that cannot be applied: nothing that comes after it can be either.
    fn stop_at(&self, state: &mut State, visible: Seq, misfit: &Misfit) {
        state.give_up(visible);
        self.stop(&format!("a logged group cannot be applied: {misfit:?}"));
    }

    /// Applies the groups before `visible`, or some of them; tells whether it was all.
    fn catch_up(&self, state: &mut State, visible: Seq) -> std::result::Result<bool, Misfit> {
        let end = state.steps + STEPS_AT_ONCE;
        let mut is_done = self.apply_unlogged(state, end)?;
        while is_done && state.applied < visible {
            let Some(groups) = self.log.unapplied(state.applied) else { break };
            while is_done
                && state.applied < visible
                && let Some(group) = groups.get(state.applied)
            {
                let elsewhere = state.entries_of(group);
                let entries = elsewhere
                    .as_ref()
                    .map_or(Ok(group), |found| found.as_deref().ok_or(Misfit::NotOfLog))?;
                is_done = state.steps < end
                    && state.apply_some(state.applied, entries, &self.kinds, end)?;
                if is_done {
                    if elsewhere.is_some() {
                        state.forget_elsewhere(group);
                    }
                    state.unapplied.bytes -= group_memory_bytes(group);
                    is_done = self.apply_unlogged(state, end)?;
                }
            }
        }
        if state.queued_bytes > self.queues_bytes_max(state) / 2 || !state.hot.is_empty() {
            self.sweep_wake.notify_one();
        }
        Ok(is_done)
    }

    /// Applies the unlogged groups that come before the next logged one, or some of them; tells whether it was all.
    fn apply_unlogged(&self, state: &mut State, end: u64) -> std::result::Result<bool, Misfit> {
        let next = state.applied;
        while let Some(first) = state.unapplied.unlogged.pop_front_if(|(at, _)| *at <= next) {
            if !state.apply_some(next, &first.1, &self.kinds, end)? {
                state.unapplied.unlogged.push_front(first);
                return Ok(false);
            }
            // A number is that of a group in the log.
            state.applied = next;
        }
        Ok(true)
    }

    /// Numbers a group and gives it to the log. The state has it once it is visible. It must be one that can be
    /// applied then: from here on the log has it.
    pub(crate) fn append(&self, state: &mut State, group: &[u8]) -> Seq {
        state.unapplied.bytes += group_memory_bytes(group);
        self.log.append(group, now())
    }

    /// Takes in entries of the engine's own for which the log has no room, after all groups appended so far; gives the
    /// number before which these are. They count with the next checkpoint, which is taken at once.
    pub(crate) fn append_unlogged(&self, state: &mut State, group: Vec<u8>) -> Seq {
        let at = match state.is_loading() {
            true => state.applied,
            false => self.log.appended(),
        };
        state.unapplied.unlogged.push_back((at, group));
        state.is_ahead = true;
        at
    }

    /// Returns when readers see all groups before `seq`, and the unlogged ones among them.
    pub(crate) async fn visible_before(&self, seq: Seq) -> Result<()> {
        self.log.visible_before(seq).await.map_err(|why| self.stopped_by(&why))
    }

    /// Returns when readers see all groups that were appended before this was polled. While [`Shared::turn`] is held,
    /// [`Shared::state`] has every group of a program then, and what is read is what the next group finds.
    pub(crate) async fn all_visible(&self) -> Result<()> {
        self.visible_before(self.log.appended()).await
    }

    pub(crate) fn check(&self, group: &Group) -> Result<()> {
        let spaces = self.spaces.read();
        group.uses.iter().try_for_each(|used| {
            let spec = spaces.get(&used.space).ok_or(Error::NoSpace { space: used.space })?;
            self.check_use(spec, used)
        })
    }

    /// Whether modifications of a kind may be taken in, with keys and contents of these lengths at most.
    pub(crate) fn check_use(&self, spec: &Spec, used: &Use) -> Result<()> {
        let Use { kind, key_bytes, bytes, has_long, .. } = *used;
        let has_long_alone = has_long && !spec.format.takes_long_values();
        if kind == PUT_LONG || !self.kinds.knows(kind) || has_long_alone {
            return Err(Error::UnknownKind { number: kind });
        }
        let (key_bytes_max, bytes_max) = spec.longest;
        let content = match kind {
            PUT => ("value", bytes, spec.value_bytes_max() as usize),
            _ => ("modification", bytes, bytes_max),
        };
        for (what, have, most) in [("key", key_bytes, key_bytes_max), content] {
            if have > most {
                return Err(Error::TooLong { what, have, most });
            }
        }
        Ok(())
    }

    /// Whether no value of a checked group has to be written first.
    pub(crate) fn check_prepared(&self, group: &Group) -> Result<()> {
        let spaces = self.spaces.read();
        for used in group.uses.iter().filter(|used| used.kind == PUT) {
            let most = spaces.get(&used.space).map_or(0, |spec| spec.longest.1);
            if used.bytes > most {
                let what = "value that is not prepared";
                return Err(Error::TooLong { what, have: used.bytes, most });
            }
        }
        Ok(())
    }

    /// A space is about to be made.
    pub(crate) fn note_space(&self, space: SpaceId, spec: &Arc<Spec>) {
        self.spaces.write().insert(space, Arc::clone(spec));
        self.partition_blocks_max.fetch_max(spec.division.partition().0, Ordering::Relaxed);
    }

    /// What the blocks of a space are, which may be about to be made.
    pub(crate) fn spec(&self, space: SpaceId) -> Result<Arc<Spec>> {
        self.spaces.read().get(&space).cloned().ok_or(Error::NoSpace { space })
    }

    /// A group that was checked, with its long values on the device.
    pub(crate) async fn ready<'a>(&self, group: &'a Group, turn: Turn) -> Result<Cow<'a, Group>> {
        self.check(group)?;
        self.with_long_values(group, turn).await
    }

    /// Whether the log takes a group of so many bytes.
    pub(crate) fn check_log(&self, bytes: usize) -> Result<()> {
        let most = self.log.group_bytes_max();
        if bytes > most {
            let (have, most) = (ByteCount(bytes as u64), ByteCount(most as u64));
            return Err(Error::GroupTooLong { have, most });
        }
        Ok(())
    }

    /// Bytes of memory that queues may take.
    pub(crate) fn queues_bytes_max(&self, state: &State) -> usize {
        let others = self.tables.bytes() + self.other_bytes(state) + self.working.bytes();
        state.queues_bytes_max(self.memory_bytes, others)
    }

    /// Bytes of memory of maps and of the log's buffers.
    pub(crate) fn other_bytes(&self, state: &State) -> usize {
        // Of what the log has at hand, the state counts the groups that it lacks.
        let log_bytes = self.log.memory_bytes().saturating_sub(state.unapplied.bytes);
        self.maps_bytes.load(Ordering::Relaxed) + log_bytes
    }

    /// Bytes of memory that blocks may take which were read: what others leave.
    pub(crate) fn cache_bytes_max(&self, state: &State) -> usize {
        let others = self.tables.bytes() + self.other_bytes(state) + self.working.bytes();
        let used = state.directory_bytes + others + state.pending_bytes();
        let left = self.memory_bytes.saturating_sub(used);
        left.min(self.cache_bytes_max)
    }

    /// Says how long a group waited for room, when that is long and none waited so long before.
    pub(crate) fn say_waited(&self, waited: Nanos) {
        let is_said = |longest: u64| (waited.0 >= 2 * longest).then_some(waited.0);
        if self.waited_ns.fetch_update(Ordering::Relaxed, Ordering::Relaxed, is_said).is_ok() {
            let name = &self.data.inquiry().name;
            tracing::warn!("{name}: a group waited {waited} for sweeps to make room");
        }
    }

    /// Returns when readers see the group `seq`, and it is as durable as was asked for.
    pub(crate) async fn acknowledged(&self, seq: Seq, durability: Durability) -> Result<()> {
        let end = Seq(seq.0 + 1);
        match durability {
            // That takes a flush which would not come by itself.
            Durability::Flushed if self.log.durability == Durability::Written => {
                self.flushed_before(end).await?;
            }
            _ => self.visible_before(end).await?,
        }
        // The next reader finds it applied, and the sweeper is told when memory is short.
        self.catch_up_if_free();
        // It may delete what keeps others from finding space.
        if self.is_stuck.load(Ordering::Relaxed) || self.is_parked.load(Ordering::SeqCst) {
            self.sweep_wake.notify_one();
        }
        Ok(())
    }

    pub(crate) async fn flushed_before(&self, seq: Seq) -> Result<()> {
        self.log.flush_before(seq).await.map_err(|why| self.stopped_by(&why))
    }

    /// Takes no more modifications from now on.
    pub(crate) fn stop(&self, why: &str) {
        let why: Arc<str> = why.into();
        self.stopped.lock().get_or_insert_with(|| {
            tracing::warn!("{}: {why}", self.data.inquiry().name);
            Arc::clone(&why)
        });
        self.log.fail(&why);
        self.clears.forget();
        self.ingests.forget();
        self.bulks.forget();
        self.room.notify_waiters();
    }

    /// The engine is closed or dropped: read points end, and nobody waits for what is not written.
    pub(crate) fn end(&self) {
        self.end_all_points();
        self.log.fail(&Arc::from("it is closed"));
        self.room.notify_waiters();
    }

    pub(crate) fn stopped_by(&self, why: &str) -> Error {
        Error::Stopped { device: self.data.inquiry().name.clone(), why: why.to_owned() }
    }

    /// Whether it takes modifications.
    pub(crate) fn check_running(&self) -> Result<()> {
        if self.is_read_only {
            return Err(Error::ReadOnly { device: self.data.inquiry().name.clone() });
        }
        match &*self.stopped.lock() {
            Some(why) => Err(self.stopped_by(why)),
            None => Ok(()),
        }
    }
}

/// Bytes of memory that a program's group takes until it is applied. The engine's own are few: it waits for each.
fn group_memory_bytes(group: &[u8]) -> usize {
    if is_own(group) { 0 } else { group.len() + 4 + size_of::<usize>() }
}

#[cfg(test)]
mod tests {
    use futures::FutureExt;
    use moirai_devices::{FaultyDevice, Power};
    use moirai_runtime::{block_on_virtual, sleep};
    use moirai_units::BlockCount;

    use super::*;
    use crate::{Engine, Format, Formats, Modification, Options, PUT, SpaceId, WholeBlocks};

    #[test]
    fn who_commits_applies_what_others_left() {
        block_on_virtual(1, async {
            let power = Power::on();
            let device = |name: &str, blocks| -> Arc<dyn Device> {
                let (blocks, ensemble) = (BlockCount(blocks), BlockCount(16));
                FaultyDevice::new(name.into(), blocks, ensemble, Arc::clone(&power))
            };
            let (data, logs) = (device("data", 40_000), [device("log", 20_000)]);
            Engine::format(&*data, &logs, &WholeBlocks, Format::default()).await.unwrap();
            // Nobody else looks at the state.
            let options = Options { idle: None, ..Options::default() };
            let formats = Formats::of(WholeBlocks);
            let engine = Engine::open(data, &logs, Kinds::new(), formats, options).await.unwrap();
            let space = SpaceId(1);
            engine.create_space(space).await.unwrap();
            let mut group = Group::new();
            for key in 0..100_u8 {
                group.modify(space, Modification { key: &[key], kind: PUT, bytes: &[7; 40] });
            }
            let group_bytes = group.entries().len();
            let mut most = 0;
            for _ in 0..10 * LAG_BYTES_MAX / group_bytes {
                // It is taken in and written, and dropped before it is applied.
                assert!(engine.commit(&group).now_or_never().is_none());
                sleep(Nanos(1_000_000_000)).await;
                most = most.max(engine.shared.state.state.lock().unapplied.bytes);
            }
            assert!(most > LAG_BYTES_MAX && most < LAG_BYTES_MAX + 2 * group_bytes, "{most}");
            engine.close().await.unwrap();
        });
    }
}
