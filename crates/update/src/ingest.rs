//! Ingest: a writer that brings sorted records into blocks, past the log and the queues.

use std::sync::Arc;

use moirai_runtime::now;
use tokio::sync::oneshot;

use crate::engine::Engine;
use crate::error::{Error, Result};
use crate::group::Group;
use crate::ids::{KindNumber, PUT, SpaceId};
use crate::kind::Modification;
use crate::options::Durability;
use crate::records::{Records, SortedRecords};
use crate::shared::Shared;
use crate::spec::Spec;
use crate::sweep::requests::{IngestOutcome, IngestRequest};

/// The part of the memory that a batch takes: one is written while the next is filled, and each may have as much left of
/// the one before.
const BATCH_SHARE: usize = 16;
/// Bytes of a batch at most, and at least. A longer one goes no faster.
const BATCH_BYTES_MAX: usize = 8 << 20;
const BATCH_BYTES_MIN: usize = 512;
/// The part of the device that a batch takes at most: a batch goes in only where there is space for all of it.
const DEVICE_SHARE: u64 = 64;
/// What the log says of a partition, about: what a batch makes of them finds room there.
const ENTRY_BYTES: usize = 128;

/// A writer of records with ascending keys that puts them into the blocks of a space, past the log and the queues: as fast
/// as blocks can be written. A record takes the place of any value under its key.
///
/// Records go in batch by batch. One batch is written while the next is filled. A batch comes after all that was committed
/// before it began, and before all that is committed after it ended; what is committed meanwhile comes before or after it.
///
/// # Durability
/// Records are durable after [`Ingest::flush`] and [`Ingest::finish`]. At any time some are that were pushed, and readers see
/// these: always all up to some key, also after a crash and when this is dropped.
pub struct Ingest<'a> {
    engine: &'a Engine,
    shared: &'a Shared,
    space: SpaceId,
    /// What the records do.
    kind: KindNumber,
    /// Of the space.
    spec: Arc<Spec>,
    /// The last key that was pushed.
    last: Option<Vec<u8>>,
    /// The next batch: what the last one left, and what was pushed since.
    left: Records,
    filling: SortedRecords,
    /// The batch that is being written.
    in_flight: Option<InFlight>,
    pushed: u64,
    durable: u64,
    batch_bytes: usize,
}

/// A batch that is being written.
struct InFlight {
    /// Its records.
    count: usize,
    outcome: oneshot::Receiver<IngestOutcome>,
}

impl Engine {
    /// Puts sorted records into the blocks of a space, past the log and the queues: see [`Ingest`].
    ///
    /// # Errors
    /// [`Error::NoSpace`], [`Error::ReadOnly`], [`Error::Stopped`].
    pub fn ingest(&self, space: SpaceId) -> Result<Ingest<'_>> {
        Ingest::new(self, space, PUT)
    }

    /// The same of records that are modifications of another kind than [`PUT`], up to a block long. Their keys are cut at the lowest
    /// keys of partitions and blocks, so what a record says of other keys than its own must not reach the next block.
    ///
    /// # Errors
    /// [`Error::UnknownKind`], and those of [`Engine::ingest`].
    pub fn ingest_as(&self, space: SpaceId, kind: KindNumber) -> Result<Ingest<'_>> {
        Ingest::new(self, space, kind)
    }
}

impl<'a> Ingest<'a> {
    pub(crate) fn new(engine: &'a Engine, space: SpaceId, kind: KindNumber) -> Result<Ingest<'a>> {
        let shared = &engine.shared;
        shared.check_running()?;
        let spec = shared.spec(space)?;
        if !shared.kinds.knows(kind) && !spec.format.ingests(kind) {
            return Err(Error::UnknownKind { number: kind });
        }
        let entry_bytes = ENTRY_BYTES + spec.shape_bytes_max();
        let of_log = shared.log.own_bytes_max() / entry_bytes * spec.division.partition_bytes();
        let of_device = (shared.extents.capacity().bytes().0 / DEVICE_SHARE) as usize;
        let most = (shared.memory_bytes / BATCH_SHARE).min(of_log).min(of_device);
        Ok(Ingest {
            engine,
            shared,
            space,
            kind,
            spec,
            last: None,
            left: Records::default(),
            filling: SortedRecords::with_room(kind, 0),
            in_flight: None,
            pushed: 0,
            durable: 0,
            batch_bytes: most.clamp(BATCH_BYTES_MIN, BATCH_BYTES_MAX),
        })
    }

    /// Adds a record, whose key is above all before it. Returns at once, or when a batch is full, once the one before is
    /// durable.
    ///
    /// # Errors
    /// The record is left out, and may be pushed again after those that say so:
    /// - [`Error::Unsorted`], [`Error::TooLong`]: all records before it are durable.
    /// - [`Error::Full`]: the data device has no space for the batch. Nothing is lost: once there is space, go on.
    /// - [`Error::Unreadable`]: a block that the batch goes into cannot be read. Go on once it is repaired.
    /// - [`Error::Stopped`], [`Error::ReadOnly`]: records that were not durable are lost.
    ///
    /// # Cancel safety
    /// The record is left out, but for a long value, which may be in; those before it stay.
    pub async fn push(&mut self, key: &[u8], value: &[u8]) -> Result<()> {
        if self.last.as_deref().is_some_and(|last| key <= last) {
            return self
                .refuse(|last| Error::Unsorted { key: key.into(), before: last.into() })
                .await;
        }
        let (key_bytes_max, in_block_max) = self.spec.longest;
        let value_bytes_max = match self.kind {
            PUT => self.spec.value_bytes_max() as usize,
            // Of others the format knows what becomes of them.
            _ => self.spec.block_bytes(),
        };
        let is_long = self.kind == PUT && value.len() > in_block_max;
        for (what, have, most) in
            [("key", key.len(), key_bytes_max), ("value", value.len(), value_bytes_max)]
        {
            if have > most {
                return self.refuse(|_| Error::TooLong { what, have, most }).await;
            }
        }
        if is_long {
            return self.put_long(key, value).await;
        }
        if self.filling.bytes() >= self.batch_bytes {
            self.begin(true).await?;
        }
        self.filling.push(key, value);
        self.pass(key);
        Ok(())
    }

    /// Commits a long value by itself, after all records before it.
    async fn put_long(&mut self, key: &[u8], value: &[u8]) -> Result<()> {
        self.flush().await?;
        let put = Modification { key, kind: PUT, bytes: value };
        let mut group = Group::new();
        group.modify(self.space, put);
        self.engine.commit_with(&group, Durability::Flushed).await?;
        self.durable += 1;
        self.pass(key);
        Ok(())
    }

    /// The record of `key` was pushed.
    fn pass(&mut self, key: &[u8]) {
        self.pushed += 1;
        let last = self.last.get_or_insert_default();
        last.clear();
        last.extend_from_slice(key);
    }

    /// Brings in what was pushed before the record that is refused.
    async fn refuse(&mut self, error: impl FnOnce(&[u8]) -> Error) -> Result<()> {
        self.flush().await?;
        Err(error(self.last.as_deref().unwrap_or_default()))
    }

    /// Returns when all records that were pushed are durable. Errors as of [`Ingest::push`]; those that are left may be flushed
    /// again.
    ///
    /// # Cost
    /// The next batch rewrites the last partition.
    pub async fn flush(&mut self) -> Result<()> {
        self.written().await?;
        while !(self.left.is_empty() && self.filling.is_empty()) {
            self.begin(false).await?;
            self.written().await?;
        }
        Ok(())
    }

    /// Flushes, and gives the number of records. Errors as of [`Ingest::flush`].
    pub async fn finish(mut self) -> Result<u64> {
        self.flush().await?;
        Ok(self.pushed)
    }

    /// The number of records pushed.
    #[must_use]
    pub fn pushed(&self) -> u64 {
        self.pushed
    }

    /// The number of records that are known to be durable: those pushed first.
    #[must_use]
    pub fn durable(&self) -> u64 {
        self.durable
    }

    /// Waits until no batch is being written, and takes back what it left.
    async fn written(&mut self) -> Result<()> {
        let Some(InFlight { count, outcome }) = &mut self.in_flight else { return Ok(()) };
        let (count, outcome) = (*count, outcome.await);
        self.in_flight = None;
        match outcome {
            Ok((left, done)) => {
                self.durable += (count - left.count()) as u64;
                self.left = left;
                done
            }
            Err(_) => {
                self.shared.check_running()?;
                Err(self.shared.stopped_by("it is closed"))
            }
        }
    }

    /// Hands a batch to the sweeper once the one before is durable, and there is memory and space for it. Of an open one, the
    /// last records may be left for the next.
    async fn begin(&mut self, is_open: bool) -> Result<()> {
        self.written().await?;
        let shared = self.shared;
        let alone = Arc::clone(&shared.ingesting).lock_owned().await;
        // Who waits for space does so in turn.
        let turn = shared.turn.lock().await;
        let bytes = self.left.bytes() + self.filling.bytes();
        shared.is_space_refused.store(false, std::sync::atomic::Ordering::Relaxed);
        loop {
            let freed = shared.room.notified();
            shared.check_running()?;
            {
                let mut state = shared.state();
                let most = shared.queues_bytes_max(&state);
                let has_memory =
                    state.pending_bytes() + bytes <= most || state.pending_bytes() <= most / 2;
                let has_space = shared.has_space(&state, bytes);
                if !has_space && (shared.is_refused() || shared.is_full(&state)) {
                    state.was_full = true;
                    return Err(Error::full(&*shared.data));
                }
                if !has_space {
                    shared.want_space(bytes);
                }
                // The space may be one of a group that is not applied yet.
                if has_memory && has_space && state.spaces.contains_key(&self.space) {
                    *shared.last_commit.lock() = now();
                    state.ingested_bytes += bytes;
                    let cache_bytes_max = shared.cache_bytes_max(&state);
                    drop(state);
                    shared.cache.shrink(cache_bytes_max);
                    break;
                }
            }
            shared.sweep_wake.notify_one();
            freed.await;
        }
        drop(turn);
        let mut records = std::mem::take(&mut self.left);
        let room = SortedRecords::with_room(self.kind, if is_open { self.batch_bytes } else { 0 });
        records.push(std::mem::replace(&mut self.filling, room));
        let (reply, outcome) = oneshot::channel();
        self.in_flight = Some(InFlight { count: records.count(), outcome });
        shared.ingests.begin(IngestRequest {
            space: self.space,
            records,
            is_open,
            bytes,
            has_begun: false,
            stalls: 0,
            failed: None,
            reply,
            alone,
        });
        // It may have stopped meanwhile, and nobody would answer.
        if let Err(error) = shared.check_running() {
            shared.ingests.forget();
            return Err(error);
        }
        shared.sweep_wake.notify_one();
        Ok(())
    }
}

impl std::fmt::Debug for Ingest<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Ingest").field("space", &self.space).finish_non_exhaustive()
    }
}
