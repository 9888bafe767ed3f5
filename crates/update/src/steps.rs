//! Commits in steps: reserve room, append the group, and wait until it is acknowledged.

use std::sync::Arc;

use moirai_units::ByteCount;

use crate::commit::Room;
use crate::engine::Engine;
use crate::error::{Error, Result};
use crate::group::Group;
use crate::ids::Seq;
use crate::long::write::Turn;
use crate::options::Durability;
use crate::shared::Shared;

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

    /// Reserves room for a group of up to `bytes` ([`Group::log_bytes`]); waits for it in turn with commits. Groups of others
    /// are taken in meanwhile, as far as the rest of the log has room for them, but [`Engine::commit_if`] waits until the room is used or given back: who holds some must not
    /// wait for one.
    ///
    /// # Errors
    /// [`Error::GroupTooLong`], [`Error::Full`], [`Error::ReadOnly`], [`Error::Stopped`].
    pub async fn reserve(&self, bytes: usize) -> Result<Reserved> {
        let shared = &self.shared;
        shared.check_log(bytes)?;
        let turn = shared.turn.lock().await;
        let room = Room { log_bytes: bytes, added_bytes: bytes, is_reserved: true };
        let reserved = shared
            .with_room(room, |state| {
                state.reserved += 1;
                state.reserved_bytes += bytes;
                shared.log.hold(bytes);
                Ok(Reserved { shared: Arc::clone(shared), bytes })
            })
            .await;
        drop(turn);
        reserved
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
        let (have, most) = (group.longest_put, shared.longest.1);
        if have > most {
            return Err(Error::TooLong { what: "value that is not prepared", have, most });
        }
        shared.check(group)?;
        shared.check_running()?;
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

impl Shared {
    /// Returns once no room is reserved. Who holds [`Shared::turn`] waits until none is again.
    pub(crate) async fn none_reserved(&self) -> Result<()> {
        loop {
            let given_back = self.room.notified();
            self.check_running()?;
            if self.state_to_append().reserved == 0 {
                return Ok(());
            }
            given_back.await;
        }
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
