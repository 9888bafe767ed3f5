//! Taking groups in: each waits for its turn, and for room in memory, in the log and on the data device.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use moirai_runtime::now;
use tokio::sync::MutexGuard;

use crate::data::format::check_room;
use crate::engine::Engine;
use crate::error::{Error, Result};
use crate::group::Group;
use crate::ids::{Seq, SpaceId};
use crate::kind::Modification;
use crate::options::Durability;
use crate::room::Room;
use crate::shared::{Shared, Turn};
use crate::spec::{SpaceFormat, Spec};
use crate::state::State;
use crate::state::entry::Entry;
use crate::steps::Deciding;

impl Engine {
    /// Makes a space; does nothing when it is there. Returns when it is as durable as the options say. Waits while the
    /// log has no room.
    ///
    /// # Errors
    /// [`Error::NoSpace`] for number 0; [`Error::Full`] where a full device keeps the log from having room;
    /// [`Error::ReadOnly`]; [`Error::Stopped`].
    pub async fn create_space(&self, space: SpaceId) -> Result<()> {
        let spec = Arc::clone(&self.shared.specs.default);
        self.create_space_with(space, &spec).await
    }

    /// Makes a space whose blocks have a format of their own; does nothing when the space is there, whatever its format is
    /// ([`Engine::space_format`]). Returns when it is as durable as the options say. Waits while the log has no room.
    ///
    /// # Errors
    /// [`Error::Options`] for what [`SpaceFormat`] does not allow, a format that [`Formats`](crate::Formats) lack, and blocks
    /// or partitions that are too long for the data device; [`Error::Full`] where less is free than rewriting such partitions
    /// takes, and where a full device keeps the log from having room; [`Error::NoSpace`] for number 0; [`Error::ReadOnly`];
    /// [`Error::Stopped`].
    pub async fn create_space_of(&self, space: SpaceId, format: &SpaceFormat) -> Result<()> {
        let shared = &self.shared;
        let spec = shared.specs.asked(format).map_err(|problem| Error::Options { problem })?;
        check_room(&*shared.data, shared.layout.data.count, &spec.division)?;
        self.create_space_with(space, &spec).await
    }

    async fn create_space_with(&self, space: SpaceId, spec: &Arc<Spec>) -> Result<()> {
        let shared = &self.shared;
        if space.0 == 0 {
            return Err(Error::NoSpace { space });
        }
        let seq = loop {
            let freed = shared.room.notified();
            {
                let mut state = shared.state();
                if state.spaces.contains_key(&space) {
                    return Ok(());
                }
                if let Some(seq) = state.unapplied.spaces.get(&space) {
                    break *seq;
                }
                shared.check_running()?;
                // What is kept free to rewrite its partitions must not make a store full.
                if !shared.has_room_for_partition(spec.division.partition()) {
                    return Err(Error::full(&*shared.data));
                }
                // Partitions that the log does not know would have numbers before this one's.
                if !state.is_ahead && shared.log.has_room(0) {
                    let partition = state.partitions.reserve();
                    let mut group = Vec::new();
                    let told = spec.bytes();
                    Entry::CreateSpace { space, partition, spec: told }.encode(&mut group);
                    shared.note_space(space, spec);
                    let seq = shared.append(&mut state, &group);
                    state.unapplied.spaces.insert(space, seq);
                    break seq;
                }
                // A partition that finds no space keeps the log from being free.
                if shared.is_stuck.load(Ordering::Relaxed) && !shared.log.has_room(0) {
                    // There may be space that readers have given back.
                    shared.sweep_wake.notify_one();
                    return Err(Error::full(&*shared.data));
                }
            }
            shared.sweep_wake.notify_one();
            freed.await;
        };
        shared.acknowledged(seq, shared.log.durability).await
    }

    /// Takes a group in; returns when it is as durable as the options say, and readers see it. Until then, and after an
    /// error, they do not. Groups come in the order in which
    /// this is first polled, also when they wait for memory or for room in the log; those with long values once these are
    /// written.
    ///
    /// # Errors
    /// [`Error::UnknownKind`], [`Error::TooLong`], [`Error::GroupTooLong`], [`Error::NoSpace`], [`Error::Full`],
    /// [`Error::ReadOnly`], and nothing was taken in; [`Error::Stopped`], and the group may be there or not when the engine
    /// is opened again.
    ///
    /// # Cancel safety
    /// A future that is dropped before its group is appended to the log leaves the group out; after that the group is committed.
    pub async fn commit(&self, group: &Group) -> Result<()> {
        self.commit_with(group, self.shared.log.durability).await
    }

    /// Commits a group like [`Engine::commit`], with the stronger of `durability` and
    /// [`Options::durability`](crate::Options::durability). One without modifications returns at once, and says nothing of those
    /// before it: that is [`Engine::barrier`].
    pub async fn commit_with(&self, group: &Group, durability: Durability) -> Result<()> {
        if group.is_empty() {
            return Ok(());
        }
        let group = self.shared.ready(group, Turn::Free).await?;
        let turn = self.shared.turn.lock().await;
        self.commit_in((turn, None), &group, durability).await
    }

    /// Commits the group that `decide` returns, if any, and tells whether there was one. No other group is taken in
    /// between: what `decide` reads stays as it is until the group is in, and contains every group that was taken in
    /// before; sweeps alone may add what comes of other spaces ([`NewBlocks::emit`](crate::NewBlocks::emit)). Returns when the group is as durable as the options say.
    ///
    /// All other commits wait while `decide` runs, and before that until all groups before are acknowledged, and room that was
    /// reserved ([`Engine::reserve`]) is used or given back. So
    /// these calls do not share the flushes of the log with each other, as commits do. A commit,
    /// an ingest, a clear or a new read point within `decide` would wait forever. A batch of [`Engine::ingest`] that is being written comes first.
    ///
    /// # Errors
    /// Those of `decide`, and nothing was taken in; errors as of [`Engine::commit`].
    ///
    /// # Cancel safety
    /// As [`Engine::commit`].
    pub async fn commit_if<E: From<Error>>(
        &self,
        decide: impl AsyncFnOnce() -> std::result::Result<Option<Group>, E>,
    ) -> std::result::Result<bool, E> {
        // First: who holds room may need to take in something before.
        let deciding = self.shared.decide().await?;
        let _alone = self.shared.ingesting.lock().await;
        let turn = self.shared.turn.lock().await;
        self.shared.all_visible().await?;
        let Some(group) = decide().await? else { return Ok(false) };
        if !group.is_empty() {
            let group = self.shared.ready(&group, Turn::Held).await?;
            self.commit_in((turn, Some(deciding)), &group, self.shared.log.durability).await?;
        }
        Ok(true)
    }

    /// Takes a checked group in, whose turn it is.
    async fn commit_in(
        &self,
        turn: (MutexGuard<'_, ()>, Option<Deciding<'_>>),
        group: &Group,
        durability: Durability,
    ) -> Result<()> {
        let shared = &self.shared;
        let entries = group.entries();
        shared.check_log(entries.len())?;
        let room =
            Room { log_bytes: entries.len(), added_bytes: group.added_bytes, is_reserved: false };
        let take = |state: &mut State| shared.append_group(state, group, &entries);
        let seq = shared.with_room(room, take).await?;
        drop(turn);
        shared.acknowledged(seq, durability).await
    }

    /// Takes one modification in, as a group of its own; errors as of [`Engine::commit`].
    pub async fn modify(&self, space: SpaceId, modification: Modification<'_>) -> Result<()> {
        let mut group = Group::new();
        group.modify(space, modification);
        self.commit(&group).await
    }
}

impl Shared {
    /// Gives a group a number, and to the log, which has room for it.
    pub(crate) fn append_group(
        &self,
        state: &mut State,
        group: &Group,
        entries: &[u8],
    ) -> Result<Seq> {
        // Another group may have been given one of them meanwhile.
        if group.has_long_twice() || !group.long.iter().all(|value| value.is_new(&self.extents)) {
            return Err(Error::LongValueUsed);
        }
        *self.last_commit.lock() = now();
        let long = group.long.iter().flat_map(|value| value.give());
        state.arriving.extend(long.map(|extent| (extent.first(), extent)));
        self.counts.modifications.add(group.len() as u64);
        Ok(self.append(state, entries))
    }
}
