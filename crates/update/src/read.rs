//! Reading: a block, what is staged for it, and what is pending in memory.

use std::sync::Arc;

use bytes::Bytes;
use moirai_storage::{IoBuf, Request};
use moirai_units::{BLOCK_BYTES, BlockCount, BlockRange};

use crate::engine::Shared;
use crate::extents::Extent;
use crate::partition::{BlockTable, Chunk, Partition};
use crate::queue::{decode, encode};
use crate::sweep::staged_blocks;
use crate::{Error, Kinds, Modification, Pieces, Result, SpaceId, Value};

/// A block and what is staged for it are read with what lies between them, when that is no more than this: any
/// device reads on for as long sooner than it takes up another request. Where that cannot be read they are read apart.
const READ_TOGETHER: BlockCount = BlockCount(256);

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
    staged: Vec<Chunk>,
    /// What is pending in memory, oldest first, as queues have it.
    pending: Vec<u8>,
}

impl Wanted {
    fn of(partition: &Partition, block: usize) -> Wanted {
        let bit = 1_u64 << block.min(63);
        let is_staged = partition.staged.iter().any(|chunk| chunk.blocks & bit != 0);
        Wanted {
            extent: partition.extent.clone(),
            blocks: Arc::clone(&partition.blocks),
            block,
            staged: if is_staged { partition.staged.clone() } else { Vec::new() },
            pending: Vec::new(),
        }
    }
}

/// What is pending in memory of a partition, oldest first.
fn in_memory(partition: &Partition) -> impl Iterator<Item = Modification<'_>> {
    let sealed = partition.sealed.iter().flat_map(|sealed| sealed.queue.iter());
    sealed.chain(partition.active.iter())
}

impl Shared {
    /// The value under a key; from memory alone when what is pending says all.
    pub(crate) async fn get(&self, space: SpaceId, key: &[u8]) -> Result<Option<Vec<u8>>> {
        let (wanted, is_told) = {
            let state = self.state.lock();
            let partition = state.partition_of(space, key).and_then(|id| state.partition(id));
            let partition = partition.ok_or(Error::NoSpace { space })?;
            let mut wanted = Wanted::of(partition, partition.blocks.holding(key));
            let mut is_told = false;
            for modification in in_memory(partition).filter(|one| one.key == key) {
                if Kinds::replaces(modification.kind) {
                    is_told = true;
                    wanted.pending.clear();
                }
                encode(&mut wanted.pending, modification);
            }
            (wanted, is_told)
        };
        let mut value = Value::default();
        let block_bytes = self.division.block_bytes();
        let mut chunks = Vec::new();
        if !is_told && let Some(extent) = &wanted.extent {
            let (block, staged) = self.read_block(extent, &wanted).await?;
            if let Some(block) = &block {
                let low = wanted.blocks.low(wanted.block);
                let found = self.format.find(low, block, key);
                value.set(found.map_err(|_| self.damaged_block(Some(extent), wanted.block))?);
            }
            chunks = staged;
        }
        self.format.settle(&mut value, block_bytes);
        let staged = chunks.iter().flat_map(|chunk| decode(chunk)).filter(|one| one.key == key);
        for modification in staged.chain(decode(&wanted.pending)) {
            self.kinds.apply(modification.kind, &mut value, modification.bytes);
            self.format.settle(&mut value, block_bytes);
        }
        Ok(value.is_there.then_some(value.bytes))
    }

    /// A block with all that is pending for it; `None` when nothing lies where it is asked for.
    pub(crate) async fn view(&self, space: SpaceId, at: At<'_>) -> Result<Option<View>> {
        let Some((mut wanted, low, next)) = self.wanted_at(space, at)? else { return Ok(None) };
        let mut chunks = Vec::new();
        let mut content = None;
        if let Some(extent) = &wanted.extent {
            (content, chunks) = self.read_block(extent, &wanted).await?;
        }
        let from = low.as_deref().unwrap_or_default();
        let is_of_block = |one: &Modification<'_>| {
            one.key >= from && next.as_deref().is_none_or(|next| one.key < next)
        };
        let pending = std::mem::take(&mut wanted.pending);
        let staged = chunks.iter().flat_map(|chunk| decode(chunk)).filter(is_of_block);
        let mut all: Vec<Modification<'_>> = staged.chain(decode(&pending)).collect();
        all.sort_by(|one, other| one.key.cmp(other.key));
        let mut pieces = Pieces::new(self.division.block_bytes());
        let block_low = match wanted.blocks.len() {
            0 => from,
            _ => wanted.blocks.low(wanted.block),
        };
        self.format
            .apply(block_low, content.as_deref(), &all, &self.kinds, &mut pieces)
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
        let state = self.state.lock();
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
        let mut wanted = Wanted::of(partition, block);
        let from = first.as_deref().unwrap_or_default();
        for modification in in_memory(partition) {
            let is_before = next.as_deref().is_none_or(|next: &[u8]| modification.key < next);
            if modification.key >= from && is_before {
                encode(&mut wanted.pending, modification);
            }
        }
        Ok(Some((wanted, first, next)))
    }

    /// Reads a block, if there is one, and with it what is staged.
    async fn read_block(
        &self,
        extent: &Extent,
        wanted: &Wanted,
    ) -> Result<(Option<IoBuf>, Vec<Bytes>)> {
        let Wanted { blocks, block, staged, .. } = wanted;
        let has_block = *block < blocks.len();
        let of_block = self.division.block_at(extent.index, *block);
        let count = staged_blocks(staged);
        let area = self.division.staging_at(extent.index, BlockCount::ZERO, count);
        self.counts.staged_reads.add(u64::from(!staged.is_empty()));
        let mut read = Vec::with_capacity(2);
        let both = BlockRange::between(of_block.first, area.end());
        let is_near = has_block && !staged.is_empty() && both.count <= READ_TOGETHER;
        let together = if is_near { self.data.read(both).await.ok() } else { None };
        if let Some(mut buffer) = together {
            self.counts.reads.add(1);
            let mut behind = buffer.split_off(of_block.count);
            let between = BlockRange::between(of_block.end(), area.first);
            read.extend([buffer, behind.split_off(between.count)]);
        } else {
            let ranges = [has_block.then_some(of_block), (!staged.is_empty()).then_some(area)];
            let batch: Vec<Request> = ranges.into_iter().flatten().map(Request::read).collect();
            if batch.is_empty() {
                return Ok((None, Vec::new()));
            }
            self.counts.reads.add(batch.len() as u64);
            for done in self.data.submit(batch).await {
                read.extend(done?.data);
            }
        }
        let mut read = read.into_iter();
        let mut content = None;
        if has_block {
            let buffer = read.next();
            let is_right = |buffer: &IoBuf| crc32c::crc32c(buffer) == blocks.checksum(*block);
            let whole = buffer.filter(is_right);
            content = Some(whole.ok_or_else(|| self.damaged_block(Some(extent), *block))?);
        }
        let mut chunks = Vec::new();
        if !staged.is_empty() {
            let area = read.next().unwrap_or_else(|| IoBuf::zeroed(BlockCount::ZERO));
            chunks = self.chunks_of(area, extent, staged)?;
        }
        Ok((content, chunks))
    }

    /// Reads all blocks of a partition, and all that is staged.
    pub(crate) async fn read_whole(
        &self,
        extent: &Extent,
        blocks: &BlockTable,
        staged: &[Chunk],
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
            if crc32c::crc32c(block) != blocks.checksum(index) {
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
    fn chunks_of(&self, mut area: IoBuf, extent: &Extent, staged: &[Chunk]) -> Result<Vec<Bytes>> {
        let mut chunks = Vec::with_capacity(staged.len());
        let mut from = BlockCount::ZERO;
        for chunk in staged {
            let count = BlockCount(u64::from(chunk.bytes).div_ceil(BLOCK_BYTES));
            let damaged = || Error::Damaged {
                device: self.data.inquiry().name.clone(),
                what: "what is staged",
                blocks: self.division.staging_at(extent.index, from, count),
            };
            if area.blocks() < count {
                return Err(damaged());
            }
            let rest = area.split_off(count);
            let content = std::mem::replace(&mut area, rest);
            let bytes = content.get(..chunk.bytes as usize);
            if bytes.is_none_or(|bytes| crc32c::crc32c(bytes) != chunk.checksum) {
                return Err(damaged());
            }
            chunks.push(content.freeze().slice(..chunk.bytes as usize));
            from += count;
        }
        Ok(chunks)
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
