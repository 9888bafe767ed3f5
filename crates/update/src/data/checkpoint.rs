//! Requests: the partitions, and where what they have lies, on the data device. The log before one is free.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use moirai_storage::{Device, IoBuf};
use moirai_units::{BlockCount, BlockRange};

use crate::codec::{Taker, put_bytes, put_number};
use crate::data::extents::{Extent, Extents};
use crate::data::layout::Division;
use crate::data::superblock::{CHECKPOINT_EXTENTS_MAX, Checkpoint, Superblock};
use crate::error::{Error, Result};
use crate::ids::{PartitionId, Seq};
use crate::shared::Shared;
use crate::state::State;
use crate::state::block_table::BlockTable;
use crate::state::chunk::Chunk;
use crate::state::partition::Partition;

impl Shared {
    /// Makes the state durable by itself, so that the log before what is pending is free.
    pub(crate) async fn take_checkpoint(&self) -> Result<()> {
        let mut held = self.superblock.lock().await;
        // The extents that it tells of are not free before it counts.
        let (bytes, next, start, _told) = {
            let state = self.state.lock();
            let start = self.log.start_of(state.oldest());
            let told: Vec<_> =
                state.partitions.iter().filter_map(|one| one.extent.clone()).collect();
            (encode_state(&state), state.next, start, told)
        };
        let Some(start) = start else { return Ok(()) };
        // No group may be in the checkpoint in part, and be lost with the log.
        self.flushed_before(next).await?;
        let extents = write_checkpoint(&*self.data, &self.division, &self.extents, &bytes).await?;
        self.data.flush().await?;
        let mut superblock = held.0.clone();
        superblock.generation += 1;
        superblock.checkpoint = Checkpoint {
            next,
            frame: self.log.durable_frame(),
            start,
            bytes: bytes.len() as u64,
            checksum: crc32c::crc32c(&bytes),
            extents: extents.iter().map(|extent| extent.index).collect(),
        };
        superblock.write(&*self.data).await?;
        self.counts.checkpoint_bytes.add(bytes.len() as u64);
        self.checkpoint_extents.store(extents.len(), Ordering::Relaxed);
        *held = (superblock, extents);
        self.state.lock().is_ahead = false;
        self.log.free_before(start);
        self.room.notify_waiters();
        Ok(())
    }
}

/// The state, as bytes.
pub(crate) fn encode_state(state: &State) -> Vec<u8> {
    let mut out = Vec::new();
    put_number(&mut out, state.partitions.len() as u64);
    put_number(&mut out, state.refused);
    for partition in &state.partitions {
        put_number(&mut out, u64::from(partition.space.0));
        put_bytes(&mut out, &partition.low);
        put_number(&mut out, partition.frontier.0);
        let extent = partition.extent.as_ref().map_or(0, |extent| u64::from(extent.index) + 1);
        put_number(&mut out, extent);
        partition.blocks.encode(&mut out);
        put_number(&mut out, partition.staged.len() as u64);
        partition.staged.iter().for_each(|chunk| chunk.encode(&mut out));
    }
    out
}

/// The state that `bytes` are of; `None` when they are of none.
pub(crate) fn decode_state(bytes: &[u8], extents: &Arc<Extents>, next: Seq) -> Option<State> {
    let mut state = State::new(Arc::clone(extents));
    state.next = next;
    if bytes.is_empty() {
        return Some(state);
    }
    let mut taker = Taker(bytes);
    let partitions = taker.number32()?;
    state.refused = taker.number()?;
    for id in 0..partitions {
        let space = taker.space()?;
        let mut partition = Partition::new(space, taker.bytes()?.into(), taker.seq()?);
        if let Some(extent) = taker.number32()?.checked_sub(1) {
            partition.extent = Some(Arc::new(extents.take_this(extent)?));
        }
        partition.blocks = Arc::new(BlockTable::take(&mut taker)?);
        for _ in 0..taker.number()? {
            partition.staged.push(Arc::new(Chunk::take(&mut taker)?));
        }
        state.directory_bytes += partition.directory_bytes();
        state.spaces.entry(space).or_default();
        state.add(PartitionId(id), partition)?;
    }
    taker.is_empty().then_some(state)
}

/// Writes `bytes` into extents that are free.
pub(crate) async fn write_checkpoint(
    device: &dyn Device,
    division: &Division,
    extents: &Arc<Extents>,
    bytes: &[u8],
) -> Result<Vec<Extent>> {
    let mut taken = Vec::new();
    let most = division.extent_bytes().saturating_mul(CHECKPOINT_EXTENTS_MAX);
    if bytes.len() > most {
        let problem = format!(
            "{}: the directory takes {} bytes, but a checkpoint has room for {most}: create a store with larger blocks",
            device.inquiry().name,
            bytes.len()
        );
        return Err(Error::Options { problem });
    }
    for part in bytes.chunks(division.extent_bytes().max(1)) {
        let extent = extents.take(0);
        let full = || Error::Full { device: device.inquiry().name.clone(), extents: extents.count };
        let extent = extent.ok_or_else(full)?;
        // One at a time: a checkpoint is to take its own memory once.
        device.write(division.first_of(extent.index), IoBuf::holding(part)).await?;
        taken.push(extent);
    }
    Ok(taken)
}

/// Reads the checkpoint; with the extents that it lies in.
pub(crate) async fn read_checkpoint(
    device: &dyn Device,
    superblock: &Superblock,
    extents: &Arc<Extents>,
) -> Result<(State, Vec<Extent>)> {
    let Superblock { division, checkpoint, .. } = superblock;
    let damaged = |extent: u32| Error::Damaged {
        device: device.inquiry().name.clone(),
        what: "the checkpoint of its partitions",
        blocks: BlockRange::new(division.first_of(extent), division.extent()),
    };
    let mut bytes = Vec::new();
    let mut taken = Vec::new();
    for index in &checkpoint.extents {
        let left = checkpoint.bytes.saturating_sub(bytes.len() as u64);
        let part = BlockCount::holding(moirai_units::ByteCount(left)).min(division.extent());
        taken.push(extents.take_this(*index).ok_or_else(|| damaged(*index))?);
        bytes.extend_from_slice(
            &device.read(BlockRange::new(division.first_of(*index), part)).await?,
        );
    }
    let first = checkpoint.extents.first().copied().unwrap_or(0);
    let bytes = bytes.get(..checkpoint.bytes as usize).ok_or_else(|| damaged(first))?;
    if crc32c::crc32c(bytes) != checkpoint.checksum {
        return Err(damaged(first));
    }
    let state = decode_state(bytes, extents, checkpoint.next).ok_or_else(|| damaged(first))?;
    Ok((state, taken))
}
