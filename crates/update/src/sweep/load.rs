//! Loading: what a log has pending comes into memory while the engine opens, and sweeps make room for it.
//!
//! `crate::state::load` says when that is needed, and why it is right. The sweeps are those of a running engine whose log
//! has no room for their entries: what they did is durable with the next checkpoint. Until that, they write nothing but
//! extents that neither the last checkpoint nor the log after it needs, and what they replace is kept, long values too. So a crash meanwhile
//! leaves the log, and the next opening reads it again.

use std::sync::Arc;

use crate::error::Result;
use crate::log::segments::Start;
use crate::log::walk::Walk;
use crate::shared::Shared;
use crate::state::Misfit;
use crate::sweep::job::Member;
use crate::sweep::sweeper::{Replaced, Sweeper};

/// What the blocks and chunks that were replaced take of the memory, before a checkpoint has them freed.
const REPLACED_SHARE: usize = 16;
/// After sweeps that could not make room, so much of the memory is filled before others try.
const RETRY_SHARE: usize = 8;

impl Shared {
    /// Loads what is pending of the groups from `start` to the frame `last`, where the log ends. Where sweeps cannot make
    /// room, as on a device that is full or fails, memory takes it all the same.
    pub(crate) async fn load(
        self: &Arc<Shared>,
        start: Start,
        last: u64,
        is_forced: bool,
    ) -> Result<()> {
        self.state().begin_loading(start.first);
        let mut sweeper = Sweeper::new(self);
        let mut walk = Walk::new(&self.log.disks, start, is_forced).await?;
        // From so many bytes on, sweeps make room.
        let mut bytes_max = 0;
        while walk.number < last {
            if !walk.step().await? {
                let name = &self.data.inquiry().name;
                let frame = walk.number + 1;
                tracing::warn!("{name}: frame {frame} of the log was there, and is not");
                return Err(walk.not_applied(Misfit::NotOfLog));
            }
            while let Some((seq, group)) = walk.next_group() {
                let (queued_bytes, most) = {
                    let mut state = self.state();
                    let loaded = state.load(seq, group);
                    loaded.ok_or_else(|| walk.not_applied(Misfit::NotOfLog))?;
                    (state.queued_bytes, self.queues_bytes_max(&state))
                };
                if queued_bytes > bytes_max.max(most / 4 * 3) {
                    sweeper.make_room().await;
                    let state = self.state();
                    bytes_max = state.queued_bytes + self.memory_bytes / RETRY_SHARE;
                    if state.queued_bytes <= self.queues_bytes_max(&state) / 2 {
                        bytes_max = 0;
                    }
                }
            }
        }
        // What is sealed is pending again, so no job may have it. What was replaced is kept until the checkpoint.
        let replaced = std::mem::take(&mut sweeper.replaced);
        drop(sweeper);
        self.set_stuck(false);
        let is_ahead = {
            let mut state = self.state();
            state.end_loading();
            state.is_ahead
        };
        // The log goes on from what the checkpoint says alone.
        if is_ahead && self.check_running().is_ok() {
            match self.take_checkpoint().await {
                Ok(()) => self.free_left(),
                Err(error) => self.stop(&format!("the checkpoint after opening failed: {error}")),
            }
        }
        drop(replaced);
        Ok(())
    }
}

impl Sweeper<'_> {
    /// Sweeps while memory is short, and as far as there is space.
    async fn make_room(&mut self) {
        let shared = self.shared;
        while shared.check_running().is_ok() {
            let swept = match self.sweep_some().await {
                Ok(false) if !self.replaced.is_empty() && !self.postponed.is_empty() => {
                    self.free_replaced().await
                }
                swept => swept,
            };
            match swept {
                Ok(true) => {}
                Ok(false) => return,
                Err(error) => shared.stop(&format!("a sweep failed: {error}")),
            }
        }
    }

    /// Keeps what was swept until a checkpoint has what replaced it.
    pub(super) async fn replace(&mut self, members: impl Iterator<Item = Member>) -> Result<()> {
        members.for_each(|member| self.replaced.keep(member));
        if self.replaced.bytes > self.shared.memory_bytes / REPLACED_SHARE {
            self.free_replaced().await?;
        }
        Ok(())
    }

    /// Takes a checkpoint, and frees what was replaced before it.
    async fn free_replaced(&mut self) -> Result<bool> {
        self.shared.take_checkpoint().await?;
        self.replaced = Replaced::default();
        self.shared.free_left();
        Ok(true)
    }
}
