//! Commits in steps: reserve room, append the group, and wait until it is acknowledged.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use moirai_units::ByteCount;

use crate::engine::Engine;
use crate::error::{Error, Result};
use crate::group::Group;
use crate::ids::Seq;
use crate::options::Durability;
use crate::room::Room;
use crate::shared::{Shared, Turn};

/// Room for a group, in memory, in the log and on the data device. It is given back when it is dropped.
#[must_use = "room is given back when it is dropped"]
pub struct Reserved {
    shared: Arc<Shared>,
    bytes: usize,
}

/// A group that was appended to the log. It is taken in whether or not somebody waits for it.
#[must_use = "the group may not be durable yet"]
pub struct Appended {
    shared: Arc<Shared>,
    seq: Seq,
}

impl Engine {
    /// The group with its long values on the device, which [`Reserved::append`] asks for.
    ///
    /// # Errors
    /// [`Error::UnknownKind`], [`Error::TooLong`], [`Error::Full`], [`Error::ReadOnly`], [`Error::Stopped`].
    pub async fn prepare(&self, group: &Group) -> Result<Group> {
        Ok(self.shared.ready(group, Turn::Free).await?.into_owned())
    }

    /// Bytes that a group may take in the log at most ([`Group::log_bytes`]); a longer one is a [`Bulk`](crate::Bulk).
    #[must_use]
    pub fn group_bytes_max(&self) -> usize {
        self.shared.log.group_bytes_max()
    }

    /// Reserves room for a group of up to `bytes` ([`Group::log_bytes`]); waits for it in turn with commits. Groups of others
    /// are taken in meanwhile, as far as the rest of the log has room for them.
    ///
    /// [`Engine::commit_if`] waits until no room is reserved, and no more is reserved until it has decided. So who holds room
    /// must not wait for a `commit_if`, nor reserve more before that room is used.
    ///
    /// # Errors
    /// [`Error::GroupTooLong`], [`Error::Full`], [`Error::ReadOnly`], [`Error::Stopped`].
    pub async fn reserve(&self, bytes: usize) -> Result<Reserved> {
        self.reserve_room(Room { log_bytes: bytes, added_bytes: bytes, is_reserved: true }).await
    }

    /// Reserves room for this group, which may have no other: one of deletes needs no space on the data device, and goes into a full
    /// store. Else as [`Engine::reserve`].
    ///
    /// # Errors
    /// As of [`Engine::reserve`].
    pub async fn reserve_for(&self, group: &Group) -> Result<Reserved> {
        let (log_bytes, added_bytes) = (group.log_bytes(), group.added_bytes);
        self.reserve_room(Room { log_bytes, added_bytes, is_reserved: true }).await
    }

    async fn reserve_room(&self, room: Room) -> Result<Reserved> {
        let (shared, bytes) = (&self.shared, room.log_bytes);
        shared.check_log(bytes)?;
        loop {
            shared.check_open()?;
            let decided = shared.room.notified();
            if shared.deciding.load(Ordering::Acquire) > 0 {
                decided.await;
                continue;
            }
            let turn = shared.turn.lock().await;
            let reserved = shared.with_room(room, |state| {
                // One that decides came meanwhile: it waits until none is reserved.
                if shared.deciding.load(Ordering::Acquire) > 0 {
                    return Ok(None);
                }
                state.reserved += 1;
                state.reserved_bytes += bytes;
                shared.log.hold(bytes);
                Ok(Some(Reserved { shared: Arc::clone(shared), bytes }))
            });
            let reserved = reserved.await?;
            drop(turn);
            if let Some(reserved) = reserved {
                return Ok(reserved);
            }
        }
    }
}

impl Reserved {
    /// Appends a group, which comes after all that were appended before and before all that are appended later. Does not wait.
    ///
    /// # Errors
    /// [`Error::RoomTooSmall`], [`Error::UnknownKind`], [`Error::TooLong`], [`Error::NoSpace`], [`Error::LongValueUsed`],
    /// [`Error::Stopped`], and nothing was taken in; the room is given back.
    pub fn append(self, group: &Group) -> Result<Appended> {
        let shared = &self.shared;
        shared.check(group)?;
        shared.check_prepared(group)?;
        shared.check_open()?;
        let entries = group.entries();
        if entries.len() > self.bytes {
            let (have, most) = (ByteCount(entries.len() as u64), ByteCount(self.bytes as u64));
            return Err(Error::RoomTooSmall { have, most });
        }
        let seq = shared.append_group(&mut shared.state_to_append(), group, &entries)?;
        Ok(Appended { shared: Arc::clone(shared), seq })
    }
}

impl Drop for Reserved {
    fn drop(&mut self) {
        {
            let mut state = self.shared.state_to_append();
            state.reserved -= 1;
            state.reserved_bytes -= self.bytes;
        }
        self.shared.log.give_back(self.bytes);
    }
}

impl Appended {
    /// Its number: later groups have higher ones, also after the engine was opened again.
    #[must_use]
    pub fn number(&self) -> u64 {
        self.seq.0
    }

    /// Returns when readers see the group, and it is as durable as the options say; [`Error::Stopped`], and the group may be
    /// there or not when the engine is opened again.
    pub async fn acknowledged(&self) -> Result<()> {
        self.acknowledged_with(self.shared.log.durability).await
    }

    /// The same with the stronger of `durability` and [`Options::durability`](crate::Options::durability).
    pub async fn acknowledged_with(&self, durability: Durability) -> Result<()> {
        self.shared.acknowledged(self.seq, durability).await
    }
}

/// Somebody decides what to commit: no room is reserved until it is dropped.
pub(crate) struct Deciding<'a>(&'a Shared);

impl Shared {
    /// Returns once no room is reserved, and none is until what it gives is dropped.
    pub(crate) async fn decide(&self) -> Result<Deciding<'_>> {
        self.deciding.fetch_add(1, Ordering::AcqRel);
        let deciding = Deciding(self);
        loop {
            let given_back = self.room.notified();
            self.check_running()?;
            if self.state_to_append().reserved == 0 {
                return Ok(deciding);
            }
            given_back.await;
        }
    }
}

impl Drop for Deciding<'_> {
    fn drop(&mut self) {
        self.0.deciding.fetch_sub(1, Ordering::AcqRel);
        self.0.room.notify_waiters();
    }
}

impl std::fmt::Debug for Reserved {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Reserved").field("bytes", &self.bytes).finish_non_exhaustive()
    }
}

impl std::fmt::Debug for Appended {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Appended").field("number", &self.seq.0).finish_non_exhaustive()
    }
}
