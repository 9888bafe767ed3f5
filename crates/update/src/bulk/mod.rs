//! Bulk groups: groups that may be longer than the log and than memory.
//!
//! What comes is sorted and written to the device in *runs*, of which nobody knows but the writer: dropped, or after a crash,
//! their blocks are free. To commit, the sweeper seals all partitions that the group touches, at once; merges the runs; and
//! sweeps each partition with the modifications for it after all that was sealed (`sweep::absorb`). What that wrote
//! counts with one entry of the log, `Elsewhere`, which refers to the entries of all these sweeps on the device.
//!
//! ```text
//!  memory      buffer --sort--> run 1, run 2, run 3          commit:   seal A B C ...      Elsewhere
//!  device                       | | |   | | |   | | |  --merge--> chunk A, blocks B, chunk C ...
//! ```

pub(crate) mod run;
pub(crate) mod run_block;

use std::sync::Arc;

use moirai_units::ByteCount;
use tokio::sync::oneshot;

use crate::bulk::run::Buffer;
use crate::bulk::run_block::Run;
use crate::engine::Engine;
use crate::error::{Error, Result};
use crate::group::{Group, Use};
use crate::ids::SpaceId;
use crate::kind::Modification;
use crate::long::value::LongValue;
use crate::options::Durability;
use crate::shared::Turn;
use crate::sweep::requests::BulkRequest;

/// The part of the memory that a buffer takes, and the parts that a block of a run takes and the blocks of all runs.
const BUFFER_SHARE: usize = 8;
const BLOCK_SHARE: usize = 1024;
const RUNS_SHARE: usize = 4;
/// Places in a buffer have 32 bits.
const BUFFER_BYTES_MAX: usize = 1 << 30;
/// Bytes of a block of a run.
const BLOCK_BYTES_MIN: usize = 512;
const BLOCK_BYTES_MAX: usize = 256 << 10;

/// A group that may be longer than the log and than memory: see [`Engine::bulk`].
///
/// Dropped before [`Bulk::commit`], it leaves nothing, as after a crash.
#[must_use = "a bulk group counts once it is committed"]
pub struct Bulk<'a> {
    engine: &'a Engine,
    buffer: Buffer,
    runs: Vec<Arc<Run>>,
    long: Vec<Arc<LongValue>>,
    /// Spaces of which each key has one modification at most.
    without_duplicates: Vec<SpaceId>,
    count: u64,
    bytes: u64,
    /// Whether a part of it was lost, since writing it failed.
    is_broken: bool,
}

impl Engine {
    /// A group that may be longer than the log and than memory. What it is given goes to the device in sorted runs of an eighth
    /// of the memory; it may be as long as 256 of these.
    pub fn bulk(&self) -> Bulk<'_> {
        Bulk {
            engine: self,
            buffer: Buffer::default(),
            runs: Vec::new(),
            long: Vec::new(),
            without_duplicates: Vec::new(),
            count: 0,
            bytes: 0,
            is_broken: false,
        }
    }
}

impl Bulk<'_> {
    /// Adds a modification; it comes after those before it. Waits for space on the device now and then.
    ///
    /// # Errors
    /// [`Error::UnknownKind`], [`Error::TooLong`], [`Error::NoSpace`], and the modification is left out.
    /// [`Error::GroupTooLong`], [`Error::Full`], [`Error::ReadOnly`], [`Error::Stopped`], [`Error::Device`]: begin another group,
    /// since this one takes nothing more ([`Error::BulkBroken`]).
    ///
    /// # Cancel safety
    /// The group takes nothing more.
    pub async fn modify(&mut self, space: SpaceId, modification: Modification<'_>) -> Result<()> {
        let shared = &self.engine.shared;
        if self.is_broken {
            return Err(Error::BulkBroken);
        }
        let spec = shared.spec(space)?;
        shared.check_use(&spec, &Use::of(space, modification))?;
        let mut group = Group::new();
        if spec.is_long(modification) {
            group.modify(space, modification);
            self.is_broken = true;
            let written = shared.ready(&group, Turn::Free).await?.into_owned();
            self.is_broken = false;
            written.iter().for_each(|(space, one)| self.buffer.push(space, one));
            self.long.extend(written.long);
        } else {
            self.buffer.push(space, modification);
        }
        self.count += 1;
        if self.buffer.memory_bytes() > (shared.memory_bytes / BUFFER_SHARE).min(BUFFER_BYTES_MAX) {
            self.spill().await?;
        }
        Ok(())
    }

    /// Adds the modifications of a group, which has no long values that are on the device already. Errors as of
    /// [`Bulk::modify`]; those before the one that is left out are in.
    pub async fn add(&mut self, group: &Group) -> Result<()> {
        for (space, modification) in group.iter() {
            self.modify(space, modification).await?;
        }
        Ok(())
    }

    /// Has the commit refuse a group that modifies a key of this space twice ([`Error::DuplicateKey`]): who adds rows that are to be new
    /// need not remember all of their keys.
    pub fn refuse_duplicates(&mut self, space: SpaceId) {
        if !self.without_duplicates.contains(&space) {
            self.without_duplicates.push(space);
        }
    }

    /// How many modifications it has.
    #[must_use]
    pub fn len(&self) -> u64 {
        self.count
    }

    /// Whether it has none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.count == 0
    }

    async fn spill(&mut self) -> Result<()> {
        let shared = &self.engine.shared;
        self.is_broken = true;
        shared.check_running()?;
        let block_bytes =
            (shared.memory_bytes / BLOCK_SHARE).clamp(BLOCK_BYTES_MIN, BLOCK_BYTES_MAX);
        let most = (shared.memory_bytes / RUNS_SHARE / block_bytes).max(2);
        if self.runs.len() == most {
            let have = ByteCount(self.bytes + self.buffer.memory_bytes() as u64);
            return Err(Error::GroupTooLong { have, most: ByteCount(self.bytes) });
        }
        self.bytes += self.buffer.memory_bytes() as u64;
        // Until it is written: who drops this meanwhile, or fails, loses what the buffer had.
        self.is_broken = true;
        let buffer = std::mem::take(&mut self.buffer);
        self.runs.push(Arc::new(shared.write_run(buffer, block_bytes).await?));
        self.is_broken = false;
        Ok(())
    }

    /// Commits the group: all of it or nothing. Durable when this returns, and readers see it then. It comes after all that was
    /// committed before, and before most of what is committed meanwhile. [`Engine::commit_if`], [`Engine::ingest`],
    /// [`Engine::clear`] and new read points wait for it. So do commits once the log or memory is full: the sweeper does nothing
    /// else.
    ///
    /// A group without modifications returns at once, and says nothing of those before it: that is [`Engine::barrier`].
    ///
    /// # Errors
    /// [`Error::BulkBroken`], [`Error::DuplicateKey`], [`Error::GroupTooLong`], [`Error::Full`],
    /// [`Error::Unreadable`], [`Error::Damaged`], [`Error::Device`], [`Error::ReadOnly`], and nothing was taken in;
    /// [`Error::Stopped`], and the group may be there or not when the engine is opened again.
    ///
    /// # Cancel safety
    /// The group may be committed all the same.
    pub async fn commit(mut self) -> Result<()> {
        let shared = Arc::clone(&self.engine.shared);
        shared.check_running()?;
        if self.is_broken {
            return Err(Error::BulkBroken);
        }
        if self.runs.is_empty() && self.long.is_empty() && self.without_duplicates.is_empty() {
            let mut group = Group::new();
            self.buffer.iter().for_each(|(space, one)| group.modify(space, one));
            if group.log_bytes() <= shared.log.group_bytes_max() {
                return self.engine.commit_with(&group, Durability::Flushed).await;
            }
        }
        if !self.buffer.is_empty() {
            self.spill().await?;
        }
        if self.runs.is_empty() {
            return Ok(());
        }
        let alone = Arc::clone(&shared.ingesting).lock_owned().await;
        let clearing = Arc::clone(&shared.clearing).lock_owned().await;
        let (reply, committed) = oneshot::channel();
        let (runs, long) = (std::mem::take(&mut self.runs), std::mem::take(&mut self.long));
        let spaces = std::mem::take(&mut self.without_duplicates);
        let request = BulkRequest::new((runs, spaces), long, self.count, reply, (alone, clearing));
        shared.bulks.begin(request);
        if let Err(error) = shared.check_running() {
            shared.bulks.forget();
            return Err(error);
        }
        shared.sweep_wake.notify_one();
        match committed.await {
            Ok(done) => done,
            Err(_) => {
                shared.check_running()?;
                Err(shared.stopped_by("it is closed"))
            }
        }
    }
}

impl std::fmt::Debug for Bulk<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Bulk").field("len", &self.count).finish_non_exhaustive()
    }
}
