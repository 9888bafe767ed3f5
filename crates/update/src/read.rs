//! Reading: a block, what is staged for it, and what is pending in memory.

use std::ops::Range;
use std::sync::Arc;

use bytes::Bytes;
use moirai_storage::{IoBuf, Request};
use moirai_units::{BLOCK_BYTES, BlockCount, BlockRange, Lbn};

use crate::block_format::Pieces;
use crate::codec::is_sum;
use crate::data::extents::Extent;
use crate::error::{Error, Result};
use crate::filter::KeyHash;
use crate::ids::{PartitionId, SpaceId};
use crate::kind::{Kinds, Modification, Question, Value};
use crate::shared::Shared;
use crate::state::State;
use crate::state::block_table::BlockTable;
use crate::state::chunk::{Chunk, Stretch, staged_blocks};
use crate::state::partition::{Partition, REQUEST_BYTES, REQUEST_MORE_BYTES};
use crate::state::queue::{Queue, decode, encode};

/// Which block of a space is meant.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum At<'a> {
    /// The one with this key.
    Key(&'a [u8]),
    /// The one with the keys just before this one.
    Before(&'a [u8]),
    /// The last.
    Last,
}

/// A block as it is with all that is pending for it.
#[derive(Debug)]
pub struct View {
    /// What it would be written as: one block, several, or none when it is empty.
    pub pieces: Pieces,
    /// Its lowest key; `None` when no block lies before it.
    pub low: Option<Box<[u8]>>,
    /// The lowest key of the next block; `None` when there is none.
    pub next: Option<Box<[u8]>>,
}

/// What is to be read of a partition.
struct Wanted {
    extent: Option<Arc<Extent>>,
    blocks: Arc<BlockTable>,
    block: usize,
    /// Of the staging area, oldest first.
    staged: Vec<Stretch>,
    /// What is pending in memory, oldest first, as queues have it.
    pending: Vec<u8>,
    /// Whether it is to be kept, once it was read.
    is_to_keep: bool,
}

impl Wanted {
    /// A block with what is staged for it; what may be of `key` alone, when one is given.
    fn of(partition: &Partition, block: usize, key: Option<KeyHash>) -> Wanted {
        let mut staged = Vec::new();
        let mut from = 0;
        for chunk in &partition.staged {
            if let Some(Stretch { bytes, checksum }) = chunk.part(block, key) {
                staged.push(Stretch { bytes: bytes.start + from..bytes.end + from, checksum });
            }
            from += chunk.length().bytes().0 as usize;
        }
        Wanted {
            extent: partition.extent.clone(),
            blocks: Arc::clone(&partition.blocks),
            block,
            staged,
            pending: Vec::new(),
            is_to_keep: false,
        }
    }

    /// From the first that is staged to the last.
    fn area(&self) -> Option<Range<usize>> {
        Some(self.staged.first()?.bytes.start..self.staged.last()?.bytes.end)
    }
}

/// What was read of a partition.
#[derive(Default)]
struct Found {
    /// The block, when there is one.
    block: Option<Bytes>,
    /// What is staged for it, oldest first.
    staged: Vec<Bytes>,
}

/// What is pending in memory of a partition, in two queues, the older first.
fn in_memory(partition: &Partition) -> impl Iterator<Item = &Queue> {
    let sealed = partition.sealed.as_ref().map(|sealed| &*sealed.queue);
    sealed.into_iter().chain(std::iter::once(&partition.active))
}

impl Shared {
    /// The value under a key; from memory alone when what is pending says all.
    pub(crate) async fn get(&self, space: SpaceId, key: &[u8]) -> Result<Option<Vec<u8>>> {
        let (wanted, is_told) = {
            let mut state = self.state.lock();
            let id = state.partition_of(space, key).ok_or(Error::NoSpace { space })?;
            let partition = state.partition(id).ok_or(Error::NoSpace { space })?;
            let mut wanted =
                Wanted::of(partition, partition.blocks.holding(key), Some(KeyHash::of(key)));
            wanted.is_to_keep = true;
            let mut is_told = false;
            for modification in in_memory(partition).flat_map(|queue| queue.of_key(key)) {
                if Kinds::replaces(modification.kind) {
                    is_told = true;
                    wanted.pending.clear();
                }
                encode(&mut wanted.pending, modification);
            }
            if !is_told {
                self.pay(&mut state, id, &wanted);
            }
            (wanted, is_told)
        };
        let mut value = Value::default();
        let block_bytes = self.division.block_bytes();
        let mut staged = Vec::new();
        if !is_told && let Some(extent) = &wanted.extent {
            let found = self.read_block(extent, &wanted).await?;
            if let Some(block) = &found.block {
                let low = wanted.blocks.low(wanted.block);
                let found = self.format.find(low, block, key);
                value.set(found.map_err(|_| self.damaged_block(Some(extent), wanted.block))?);
            }
            staged = found.staged;
        }
        self.format.settle(&mut value, block_bytes);
        let staged = staged.iter().flat_map(|part| decode(part)).filter(|one| one.key == key);
        for modification in staged.chain(decode(&wanted.pending)) {
            self.kinds.apply(modification.kind, &mut value, modification.bytes);
            self.format.settle(&mut value, block_bytes);
        }
        Ok(value.is_there.then_some(value.bytes))
    }

    /// The answer to a question; from memory alone when the newest of what is pending tells it.
    pub(crate) async fn query<Q: Question>(
        &self,
        space: SpaceId,
        key: &[u8],
        question: &Q,
    ) -> Result<Q::Answer> {
        let mut pending = Vec::new();
        {
            let state = self.state.lock();
            let partition = state.partition_of(space, key).and_then(|id| state.partition(id));
            let partition = partition.ok_or(Error::NoSpace { space })?;
            let newest = in_memory(partition).flat_map(|queue| queue.of_key(key)).last();
            newest.into_iter().for_each(|newest| encode(&mut pending, newest));
        }
        // The program may ask the engine something.
        match decode(&pending).next().and_then(|newest| question.of_newest(newest)) {
            Some(answer) => Ok(answer),
            None => Ok(question.of_value(self.get(space, key).await?.as_deref())),
        }
    }

    /// A block with all that is pending for it; `None` when nothing lies where it is asked for.
    pub(crate) async fn view(&self, space: SpaceId, at: At<'_>) -> Result<Option<View>> {
        let Some((mut wanted, low, next)) = self.wanted_at(space, at)? else { return Ok(None) };
        let mut found = Found::default();
        if let Some(extent) = &wanted.extent {
            found = self.read_block(extent, &wanted).await?;
        }
        let from = low.as_deref().unwrap_or_default();
        let is_of_block = |one: &Modification<'_>| {
            one.key >= from && next.as_deref().is_none_or(|next| one.key < next)
        };
        let pending = std::mem::take(&mut wanted.pending);
        let staged = found.staged.iter().flat_map(|part| decode(part)).filter(is_of_block);
        let mut all: Vec<Modification<'_>> = staged.chain(decode(&pending)).collect();
        all.sort_by(|one, other| one.key.cmp(other.key));
        let mut pieces = Pieces::new(self.division.block_bytes());
        let block_low = match wanted.blocks.len() {
            0 => from,
            _ => wanted.blocks.low(wanted.block),
        };
        self.format
            .apply(block_low, found.block.as_deref(), &all, &self.kinds, &mut pieces)
            .map_err(|_| self.damaged_block(wanted.extent.as_deref(), wanted.block))?;
        Ok(Some(View { pieces, low, next }))
    }

    /// What to read for a view, and the keys between which it lies.
    #[expect(clippy::type_complexity, reason = "the parts of a view, used once")]
    fn wanted_at(
        &self,
        space: SpaceId,
        at: At<'_>,
    ) -> Result<Option<(Wanted, Option<Box<[u8]>>, Option<Box<[u8]>>)>> {
        let mut state = self.state.lock();
        let directory = state.spaces.get(&space).ok_or(Error::NoSpace { space })?;
        let partition_at = |place: usize| directory.at(place).and_then(|id| state.partition(id));
        let mut place = match at {
            At::Key(key) | At::Before(key) => state.position(space, key).unwrap_or(0),
            At::Last => directory.len().saturating_sub(1),
        };
        let Some(mut partition) = partition_at(place) else { return Ok(None) };
        let mut block = match at {
            At::Key(key) | At::Before(key) => partition.blocks.holding(key),
            At::Last => partition.blocks.len().saturating_sub(1),
        };
        // The lowest key of a block: of the first one that of its partition, which may be the very first.
        let low = |place: usize, partition: &Partition, block: usize| -> Option<Box<[u8]>> {
            match (block, place) {
                (0, 0) => None,
                (0, _) => Some(partition.low.clone()),
                _ => Some(partition.blocks.low(block).into()),
            }
        };
        if let At::Before(key) = at
            && low(place, partition, block).is_some_and(|low| *low >= *key)
        {
            if block > 0 {
                block -= 1;
            } else {
                place -= 1;
                let Some(before) = partition_at(place) else { return Ok(None) };
                partition = before;
                block = partition.blocks.len().saturating_sub(1);
            }
        }
        if matches!(at, At::Before(key) if key.is_empty()) {
            return Ok(None);
        }
        let first = low(place, partition, block);
        let next = match block + 1 < partition.blocks.len() {
            true => Some(partition.blocks.low(block + 1).into()),
            false => partition_at(place + 1).map(|next| next.low.clone()),
        };
        let mut wanted = Wanted::of(partition, block, None);
        let from = first.as_deref().unwrap_or_default();
        for modification in in_memory(partition).flat_map(Queue::iter) {
            let is_before = next.as_deref().is_none_or(|next: &[u8]| modification.key < next);
            if modification.key >= from && is_before {
                encode(&mut wanted.pending, modification);
            }
        }
        if let Some(id) = directory.at(place) {
            self.pay(&mut state, id, &wanted);
        }
        Ok(Some((wanted, first, next)))
    }

    /// Counts what reading staged modifications costs. A partition that has cost as much as writing it is swept.
    fn pay(&self, state: &mut State, id: PartitionId, wanted: &Wanted) {
        let Some(area) = wanted.area() else { return };
        let is_kept = |extent: &Arc<Extent>| self.cache.has(extent, wanted.block);
        let request = match wanted.extent.as_ref().is_some_and(is_kept) {
            true => REQUEST_BYTES,
            false => REQUEST_MORE_BYTES,
        };
        if state.pay(id, request + area.len() as u64, self.division.block_bytes()) {
            self.sweep_wake.notify_one();
        }
    }

    /// Reads a block, if there is one that is not kept, and with it what is staged: two requests at most, at the same time.
    async fn read_block(&self, extent: &Extent, wanted: &Wanted) -> Result<Found> {
        let Wanted { blocks, block, staged, .. } = wanted;
        let has_block = *block < blocks.len();
        let mut found = Found::default();
        if has_block {
            found.block = self.cache.get(extent, *block);
            self.counts.cached_reads.add(u64::from(found.block.is_some()));
        }
        let is_read = has_block && found.block.is_none();
        let of_block = is_read.then(|| self.division.block_at(extent.index, *block));
        let of_staged = match wanted.area() {
            Some(bytes) => Some(self.staged_at(extent, &bytes)?),
            None => None,
        };
        let ranges = [of_block, of_staged.as_ref().map(|(range, _)| *range)];
        let batch: Vec<Request> = ranges.into_iter().flatten().map(Request::read).collect();
        self.counts.reads.add(batch.len() as u64);
        self.counts.staged_reads.add(u64::from(of_staged.is_some()));
        let mut read = Vec::with_capacity(2);
        if !batch.is_empty() {
            for done in self.data.submit(batch).await {
                read.extend(done?.data);
            }
        }
        let mut read = read.into_iter();
        if is_read {
            let buffer = read.next();
            let is_right = |buffer: &IoBuf| is_sum(blocks.checksum(*block), crc32c::crc32c(buffer));
            let whole = buffer.filter(is_right);
            let whole = whole.ok_or_else(|| self.damaged_block(Some(extent), *block))?;
            if wanted.is_to_keep {
                let bytes_max = self.cache_bytes_max(&self.state.lock());
                self.cache.keep(extent, *block, &whole, bytes_max);
            }
            found.block = Some(whole.freeze());
        }
        if let Some(((range, before), area)) = of_staged.zip(read.next()) {
            let area = area.freeze();
            for Stretch { bytes, checksum } in staged {
                let part = area.get(bytes.start - before..bytes.end - before);
                let part = part.filter(|part| is_sum(*checksum, crc32c::crc32c(part)));
                let part = part.ok_or_else(|| self.damaged_staging(range))?;
                found.staged.push(area.slice_ref(part));
            }
        }
        Ok(found)
    }

    /// The device's blocks that hold these bytes of a staging area, as the device likes them best, and how many bytes
    /// of the area come before.
    fn staged_at(&self, extent: &Extent, bytes: &Range<usize>) -> Result<(BlockRange, usize)> {
        let device = self.data.inquiry();
        let area = self.division.staging_at(extent.index, BlockCount::ZERO, self.division.staging);
        if bytes.end > self.division.staging_bytes() {
            return Err(self.damaged_staging(area));
        }
        let round = device.volume_block.0.max(1);
        let first = area.first.0 + bytes.start as u64 / BLOCK_BYTES;
        let end = area.first.0 + (bytes.end as u64).div_ceil(BLOCK_BYTES);
        let first = Lbn(first / round * round).max(area.first);
        let end = Lbn(end.next_multiple_of(round)).min(device.all_blocks().end());
        let before = BlockRange::between(area.first, first).count.bytes().0 as usize;
        Ok((BlockRange::between(first, end), before))
    }

    /// Reads all blocks of a partition, and all that is staged.
    pub(crate) async fn read_whole(
        &self,
        extent: &Extent,
        blocks: &BlockTable,
        staged: &[Arc<Chunk>],
    ) -> Result<(IoBuf, Vec<Bytes>)> {
        let area = self.division.blocks(extent.index, blocks.len());
        let count = staged_blocks(staged);
        let staging = self.division.staging_at(extent.index, BlockCount::ZERO, count);
        let batch: Vec<Request> = [area, staging]
            .into_iter()
            .filter(|range| !range.is_empty())
            .map(Request::read)
            .collect();
        let mut read = Vec::with_capacity(2);
        for done in self.data.submit(batch).await {
            read.extend(done?.data);
        }
        self.counts.swept_bytes.add(read.iter().map(|buffer| buffer.len() as u64).sum());
        let mut read = read.into_iter();
        let empty = || IoBuf::zeroed(BlockCount::ZERO);
        let content = if area.is_empty() { empty() } else { read.next().unwrap_or_else(empty) };
        for (index, block) in content.chunks_exact(self.division.block_bytes()).enumerate() {
            if !is_sum(blocks.checksum(index), crc32c::crc32c(block)) {
                return Err(self.damaged_block(Some(extent), index));
            }
        }
        let chunks = match count {
            BlockCount::ZERO => Vec::new(),
            _ => self.chunks_of(read.next().unwrap_or_else(empty), extent, staged)?,
        };
        Ok((content, chunks))
    }

    /// Divides a staging area into its chunks, and compares their checksums.
    fn chunks_of(&self, area: IoBuf, extent: &Extent, staged: &[Arc<Chunk>]) -> Result<Vec<Bytes>> {
        let area = area.freeze();
        let mut chunks = Vec::with_capacity(staged.len());
        let mut from = BlockCount::ZERO;
        for chunk in staged {
            let damaged = || {
                self.damaged_staging(self.division.staging_at(extent.index, from, chunk.length()))
            };
            let first = from.bytes().0 as usize;
            let bytes = area.get(first..first + chunk.bytes()).ok_or_else(damaged)?;
            for Stretch { bytes: part, checksum } in chunk.parts() {
                let part = bytes.get(part).unwrap_or_default();
                if !is_sum(checksum, crc32c::crc32c(part)) {
                    return Err(damaged());
                }
            }
            chunks.push(area.slice_ref(bytes));
            from += chunk.length();
        }
        Ok(chunks)
    }

    fn damaged_staging(&self, blocks: BlockRange) -> Error {
        Error::Damaged { device: self.data.inquiry().name.clone(), what: "a staged chunk", blocks }
    }

    pub(crate) fn damaged_block(&self, extent: Option<&Extent>, block: usize) -> Error {
        let nowhere = BlockRange::new(self.division.first, BlockCount::ZERO);
        Error::Damaged {
            device: self.data.inquiry().name.clone(),
            what: "a block",
            blocks: extent.map_or(nowhere, |extent| self.division.block_at(extent.index, block)),
        }
    }
}
