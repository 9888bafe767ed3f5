//! Waiting for room: in memory, in the log and on the data device.

use std::sync::atomic::Ordering;

use moirai_runtime::now;

use crate::error::{Error, Result};
use crate::shared::Shared;
use crate::state::State;

/// The part of the memory that one partition's queue may take: to write it as a chunk takes as much again, and to sort it
/// eight bytes for each modification. Groups wait then, whatever they modify, since they are taken in in their order.
const PARTITION_SHARE: usize = 8;

/// What a group takes, or may take.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Room {
    /// In the log.
    pub(crate) log_bytes: usize,
    /// On the data device, once it is applied.
    pub(crate) added_bytes: usize,
    /// Whether it is reserved for a group that is to come. What is reserved keeps no group waiting for memory: who holds it may
    /// take long.
    pub(crate) is_reserved: bool,
}

impl Shared {
    /// Waits until there is room in memory, in the log and on the data device, and takes it. The caller holds
    /// [`Shared::turn`].
    pub(crate) async fn with_room<T>(
        &self,
        room: Room,
        take: impl Fn(&mut State) -> Result<T>,
    ) -> Result<T> {
        let mut waiting_since = None;
        self.is_space_refused.store(false, Ordering::Relaxed);
        let taken = loop {
            let freed = self.room.notified();
            self.check_running()?;
            {
                let mut state = self.state_to_append();
                let most = self.queues_bytes_max(&state);
                let reserved_bytes = if room.is_reserved { state.reserved_bytes } else { 0 };
                let has_memory = state.pending_bytes() + reserved_bytes < most
                    && !state.is_full(most / PARTITION_SHARE);
                let has_space = self.has_space(&state, room.added_bytes);
                let has_room = has_memory && self.log.has_room(room.log_bytes);
                // Where sweeps are stuck, nothing makes room either.
                let is_stuck = self.is_stuck.load(Ordering::Relaxed);
                let is_refused = self.is_space_refused.load(Ordering::Relaxed);
                if (!has_space && (is_refused || self.is_full(&state))) || (!has_room && is_stuck) {
                    state.was_full = true;
                    // There may be space that readers have given back.
                    self.sweep_wake.notify_one();
                    return Err(Error::full(&*self.data));
                }
                if !has_space {
                    self.want_space(room.added_bytes);
                }
                if has_room && has_space {
                    let taken = take(&mut state)?;
                    let cache_bytes_max = self.cache_bytes_max(&state);
                    drop(state);
                    self.cache.shrink(cache_bytes_max);
                    if self.log.to_leave(false).is_some() {
                        self.sweep_wake.notify_one();
                    }
                    break taken;
                }
            }
            if waiting_since.is_none() {
                self.counts.waits.add(1);
                waiting_since = Some(now());
            }
            self.log.want(room.log_bytes);
            self.sweep_wake.notify_one();
            freed.await;
        };
        if let Some(since) = waiting_since {
            self.say_waited(now().since(since));
        }
        Ok(taken)
    }
}
