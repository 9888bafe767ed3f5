//! What the engine's door, the writer of its log and its sweeper share.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};

use moirai_runtime::now;
use moirai_storage::Device;
use moirai_units::{ByteCount, Nanos};
use parking_lot::Mutex;
use tokio::sync::Notify;

use crate::block_format::BlockFormat;
use crate::data::cache::Cache;
use crate::data::extents::{Extent, Extents};
use crate::data::layout::{Division, EXTENTS_RESERVE};
use crate::data::requests::Requests;
use crate::data::superblock::Superblock;
use crate::error::{Error, Result};
use crate::figures::Counts;
use crate::group::Group;
use crate::ids::{Seq, SpaceId};
use crate::kind::Kinds;
use crate::log::Log;
use crate::log::writer::{Position, Writer};
use crate::state::State;

/// Waits for memory, or for room in the log, are said from so long on, and then each that is twice as long.
pub(crate) const LONG_WAIT: Nanos = Nanos(1_000_000_000);

/// What the engine's tasks share.
pub(crate) struct Shared {
    pub(crate) data: Arc<dyn Device>,
    pub(crate) log: Log,
    pub(crate) division: Division,
    pub(crate) extents: Arc<Extents>,
    pub(crate) kinds: Kinds,
    pub(crate) format: Arc<dyn BlockFormat>,
    pub(crate) memory_bytes: usize,
    pub(crate) cache_bytes_max: usize,
    pub(crate) cache: Cache,
    pub(crate) state: Mutex<State>,
    /// The last partition that was swept.
    pub(crate) cursor: Mutex<(SpaceId, Box<[u8]>)>,
    pub(crate) requests: Requests,
    pub(crate) closing: AtomicBool,
    /// Extents that the last checkpoint took.
    pub(crate) checkpoint_extents: AtomicUsize,
    pub(crate) sweep_wake: Notify,
    pub(crate) room: Arc<Notify>,
    /// Held by the group that is taken in next: they come in the order in which they asked.
    pub(crate) turn: tokio::sync::Mutex<()>,
    pub(crate) counts: Counts,
    /// The superblock, and the extents of its checkpoint.
    pub(crate) superblock: tokio::sync::Mutex<(Superblock, Vec<Extent>)>,
    pub(crate) stopped: Mutex<Option<Arc<str>>>,
    pub(crate) longest: (usize, usize),
    pub(crate) replayed_bytes: u64,
    /// The longest wait that was said.
    pub(crate) waited_ns: AtomicU64,
}

impl Shared {
    pub(crate) fn is_closing(&self) -> bool {
        self.closing.load(Ordering::Acquire)
    }

    /// Extents that partitions leave free, for the next checkpoint.
    pub(crate) fn reserve(&self) -> usize {
        EXTENTS_RESERVE.max(self.checkpoint_extents.load(Ordering::Relaxed) * 3 / 2 + 1)
    }

    pub(crate) async fn write_log(&self, at: Position) {
        let error = Writer::new(&self.log, at).run().await;
        self.stop(&format!("writing the log failed: {error}"));
    }

    /// Numbers a group, does what it says and gives it to the log.
    pub(crate) fn append(&self, state: &mut State, group: &[u8]) -> Result<Seq> {
        let (seq, at) = (state.next, now());
        // What does not fit must not be in the log. From here on both know it, or none.
        self.apply(state, seq, group)?;
        self.log.append(seq, group, at);
        Ok(seq)
    }

    /// Does what entries of the engine's own say, for which the log has no room. They count with the next
    /// checkpoint, which is taken at once.
    pub(crate) fn apply_unlogged(&self, state: &mut State, group: &[u8]) -> Result<()> {
        let next = state.next;
        self.apply(state, next, group)?;
        // A number is that of a group in the log.
        state.next = next;
        state.is_ahead = true;
        Ok(())
    }

    pub(crate) fn apply(&self, state: &mut State, seq: Seq, group: &[u8]) -> Result<()> {
        state.apply(seq, group, &self.kinds, Seq(0)).map_err(|misfit| {
            let why = format!("a logged group cannot be applied: {misfit:?}");
            self.stop(&why);
            self.stopped_by(&why)
        })
    }

    pub(crate) fn check(&self, group: &Group) -> Result<()> {
        if let Some((_, number)) = group.uses.iter().find(|(_, kind)| !self.kinds.knows(*kind)) {
            return Err(Error::UnknownKind { number: *number });
        }
        let pairs = [
            ("key", group.longest.0, self.longest.0),
            ("modification", group.longest.1, self.longest.1),
        ];
        for (what, have, most) in pairs {
            if have > most {
                return Err(Error::TooLong { what, have, most });
            }
        }
        let most = self.log.group_bytes_max();
        if group.bytes.len() > most {
            let (have, most) = (ByteCount(group.bytes.len() as u64), ByteCount(most as u64));
            return Err(Error::GroupTooLong { have, most });
        }
        Ok(())
    }

    /// Bytes of memory that queues may take.
    pub(crate) fn queues_bytes_max(&self, state: &State) -> usize {
        self.memory_bytes.saturating_sub(state.directory_bytes).max(self.memory_bytes / 4)
    }

    /// Bytes of memory that blocks may take which were read: what others leave.
    pub(crate) fn cache_bytes_max(&self, state: &State) -> usize {
        let left = self.memory_bytes.saturating_sub(state.directory_bytes + state.queued_bytes);
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

    pub(crate) async fn acknowledged(&self, seq: Seq) -> Result<()> {
        self.log.acknowledged(seq).await.map_err(|why| self.stopped_by(&why))
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
        self.room.notify_waiters();
    }

    pub(crate) fn stopped_by(&self, why: &str) -> Error {
        Error::Stopped { device: self.data.inquiry().name.clone(), why: why.to_owned() }
    }

    pub(crate) fn check_running(&self) -> Result<()> {
        match &*self.stopped.lock() {
            Some(why) => Err(self.stopped_by(why)),
            None => Ok(()),
        }
    }
}
