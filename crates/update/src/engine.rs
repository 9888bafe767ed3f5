//! The engine: taking modifications in, and the tasks that bring them to their places.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use moirai_runtime::Task;

use crate::damage::Damage;
use crate::error::{Error, Result};
use crate::figures::Figures;
use crate::ids::SpaceId;
use crate::long::write::ValueWriter;
use crate::sample::Sample;
use crate::shared::Shared;
use crate::sweep::requests::Cleared;
use crate::view::{At, View};

/// The update engine over a data device and one or more log devices.
///
/// Dropped, it ends at once, as in a crash: what was acknowledged is there when it is opened again. Open the
/// devices anew then, too: writes to these may still be under way, as they are not after [`Engine::close`]. In real
/// time its tasks let go of the devices a moment later, or when their runtime ends. It may be dropped outside of a
/// runtime, and after its own has ended.
///
/// Its tasks run in the tokio runtime that it was opened in, one with `enable_all`: where that runtime ends, or its
/// only thread does something else, nothing is written any more. [`moirai_runtime::wait`] serves programs without one.
pub struct Engine {
    pub(crate) shared: Arc<Shared>,
    /// None of an engine for reading only.
    pub(crate) tasks: Option<Tasks>,
}

pub(crate) struct Tasks {
    pub(crate) writer: Task<()>,
    pub(crate) sweeper: Task<()>,
}

impl Engine {
    /// That the engine takes modifications.
    ///
    /// # Errors
    /// [`Error::ReadOnly`], [`Error::Stopped`].
    pub fn check_writes(&self) -> Result<()> {
        self.shared.check_running()
    }

    /// Whether there is a space of this number.
    #[must_use]
    pub fn has_space(&self, space: SpaceId) -> bool {
        self.shared.state().spaces.contains_key(&space)
    }

    /// The spaces that there are.
    #[must_use]
    pub fn spaces(&self) -> Vec<SpaceId> {
        self.shared.state().spaces.keys().copied().collect()
    }

    /// A writer for a long value of a space, which goes to the device in parts; [`Group::put_long`] puts the value under a key.
    /// [`Error::NoSpace`].
    pub fn value_writer(&self, space: SpaceId) -> Result<ValueWriter> {
        Ok(ValueWriter::new(Arc::clone(&self.shared), self.shared.spec(space)?))
    }

    /// As [`Reader::get`], of what is there now.
    pub async fn get(&self, space: SpaceId, key: &[u8]) -> Result<Option<Vec<u8>>> {
        self.now().get(space, key).await
    }

    /// As [`Reader::view`], of what is there now.
    pub async fn view(
        &self,
        space: SpaceId,
        at: At<'_>,
        blocks_max: usize,
    ) -> Result<Option<View>> {
        self.now().view(space, at, blocks_max).await
    }

    /// Picks up to `most` blocks, two at least, of those that hold the keys from `from` to `to`, which is at or after
    /// `from`, or to the last. Reads no block, but may read where they lie. Errors as of [`Reader`].
    pub async fn sample(
        &self,
        space: SpaceId,
        from: &[u8],
        to: Option<&[u8]>,
        most: usize,
    ) -> Result<Sample> {
        self.shared.sample(space, from, to, most).await
    }

    /// Removes all that lies in the partitions of `space` which are wholly between `from` and `to`, without reading it unless it refers to long values, and
    /// tells which keys these are: from one on, and before another or to the last. `None` when there are none. Durable when
    /// it returns; what is committed meanwhile between these keys may be removed, too. A crash before may leave some removed.
    /// A batch of [`Engine::ingest`] that is being written, and [`Engine::commit_if`], come first.
    ///
    /// # Errors
    /// [`Error::NoSpace`], [`Error::ReadOnly`], [`Error::Stopped`].
    pub async fn clear(
        &self,
        space: SpaceId,
        from: &[u8],
        to: Option<&[u8]>,
    ) -> Result<Option<Cleared>> {
        self.shared.clear(space, from, to).await
    }

    /// Returns when all that was taken in is durable; [`Error::Stopped`] when it cannot be.
    pub async fn barrier(&self) -> Result<()> {
        self.shared.flushed_before(self.shared.log.appended()).await
    }

    /// Reads everything that the engine has on the data device, and tells what is damaged. What comes meanwhile may be left
    /// out.
    pub async fn check(&self) -> Vec<Damage> {
        self.shared.check_all().await
    }

    /// Checks, and drops what is damaged for ever: blocks, and modifications that are staged. What can be read of the same
    /// partitions is written anew. What was taken in for values of dropped blocks, and does not replace them, goes with
    /// them; what is taken in meanwhile may be applied as where there are no values. Returns what was dropped. Errors as of [`Engine::checkpoint`].
    pub async fn drop_damaged(&self) -> Result<Vec<Damage>> {
        if self.shared.is_read_only {
            return Err(Error::ReadOnly { device: self.shared.data.inquiry().name.clone() });
        }
        let dropped = self.shared.drop_damaged().await?;
        // It writes superblocks and checkpoint anew.
        self.checkpoint().await?;
        Ok(dropped)
    }

    /// Brings all that was taken in to the data device, and returns when the log is needed for none of it;
    /// [`Error::ReadOnly`]; [`Error::Stopped`] when it cannot be, and [`Error::Full`] where there is no space for it: it
    /// stays in the log.
    pub async fn checkpoint(&self) -> Result<()> {
        let shared = &self.shared;
        let older = shared.log.appended();
        // Sweeps take what is in the state.
        shared.visible_before(older).await?;
        let wanted = shared.requests.want(older);
        loop {
            let swept = shared.room.notified();
            if shared.requests.is_done(wanted) {
                return Ok(());
            }
            shared.check_running()?;
            if shared.is_stuck.load(Ordering::Relaxed) {
                shared.sweep_wake.notify_one();
                return Err(Error::full(&*shared.data));
            }
            shared.sweep_wake.notify_one();
            swept.await;
        }
    }

    /// Takes a checkpoint and ends the engine. No request is in flight on the devices then, except reads of [`Views`](crate::Views) and
    /// [`ValueReader`](crate::ValueReader)s that are not dropped yet, and the devices can be opened again once these are, and
    /// [`ReadPoint`](crate::ReadPoint)s and [`Reserved`](crate::Reserved) room. After an error the engine has ended as
    /// in a crash.
    pub async fn close(mut self) -> Result<()> {
        if self.tasks.is_none() {
            return Ok(());
        }
        match self.checkpoint().await {
            // What finds no space on the data device is safe in the log.
            Ok(()) | Err(Error::Full { .. }) => {}
            Err(error) => return Err(error),
        }
        self.shared.closing.store(true, Ordering::Release);
        self.shared.room.notify_waiters();
        // Writes of long values that are in flight end first; no others begin.
        drop(self.shared.long_writes.write().await);
        self.shared.sweep_wake.notify_one();
        if let Some(Tasks { writer, sweeper }) = &mut self.tasks {
            sweeper.await;
            // It holds the devices.
            writer.stop().await;
        }
        let done = self.shared.check_running();
        self.shared.end();
        done
    }

    /// What it did.
    #[must_use]
    pub fn figures(&self) -> Figures {
        let Shared { counts, cache, tables, log, extents, .. } = &*self.shared;
        self.shared.note_directory();
        let state = self.shared.state();
        Figures {
            modifications: counts.modifications.get(),
            queued: state.queued as u64,
            queued_bytes: state.pending_bytes() as u64,
            log_bytes: log.bytes_written(),
            log_passed_bytes: log.bytes_passed(),
            staged_bytes: counts.staged_bytes.get(),
            history_bytes: counts.history_bytes.get(),
            read_points: state.points.len() as u64,
            placed_bytes: counts.placed_bytes.get(),
            swept_bytes: counts.swept_bytes.get(),
            checkpoint_bytes: counts.checkpoint_bytes.get(),
            placed: counts.placed.get(),
            long_bytes: state.long.blocks().bytes().0,
            long_written_bytes: counts.long_written_bytes.get(),
            long_reads: counts.long_reads.get(),
            reads: counts.reads.get(),
            staged_reads: counts.staged_reads.get(),
            table_reads: counts.table_reads.get(),
            cached_reads: counts.cached_reads.get(),
            cached_bytes: cache.bytes() as u64,
            waits: counts.waits.get(),
            lock_held_max_ns: counts.lock_held_max_ns(),
            lock_held_long: counts.lock_held_long(),
            partitions: state.partitions.len() as u64,
            blocks: state.blocks,
            directory_bytes: (state.directory_bytes + tables.bytes()) as u64,
            other_bytes: (self.shared.other_bytes(&state) + self.shared.working.bytes()) as u64,
            data_bytes: extents.capacity().bytes().0,
            data_free_bytes: extents.free().bytes().0,
            log_capacity_bytes: log.capacity_bytes(),
            log_segments: log.segments() as u64,
            log_segments_used: log.segments_used() as u64,
            replayed_bytes: self.shared.replayed_bytes,
            refused: state.refused,
            set_aside: state.set_aside as u64,
        }
    }
}

impl Drop for Engine {
    fn drop(&mut self) {
        self.shared.closing.store(true, Ordering::Release);
        self.shared.room.notify_waiters();
        if let Some(Tasks { writer, sweeper }) = &self.tasks {
            writer.abort();
            sweeper.abort();
        }
        self.shared.end();
    }
}

impl std::fmt::Debug for Engine {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Engine({})", self.shared.data.inquiry().name)
    }
}
