//! Reading: a block, what is staged for it, and what is pending in memory.

use std::ops::Range;
use std::sync::Arc;

use bytes::Bytes;
use moirai_storage::{IoBuf, Request};
use moirai_units::{BLOCK_BYTES, BlockCount, BlockRange, Lbn};

use crate::block_format::Pieces;
use crate::codec::is_sum;
use crate::data::extents::Extent;
use crate::data::place::Place;
use crate::error::{Error, Result};
use crate::filter::KeyHash;
use crate::ids::{PartitionId, SpaceId};
use crate::kind::{Kinds, Modification, Question, Value};
use crate::read_tables::TablesAtHand;
use crate::shared::Shared;
use crate::state::State;
use crate::state::block_table::BlockTable;
use crate::state::chunk::Stretch;
use crate::state::partition::{Partition, REQUEST_BYTES, REQUEST_MORE_BYTES, Staged};
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
pub(crate) struct Wanted {
    pub(crate) place: Arc<Place>,
    table: Arc<BlockTable>,
    pub(crate) block: usize,
    /// Chunks, oldest first, and what of each.
    pub(crate) staged: Vec<(Arc<Staged>, Stretch)>,
    /// What is pending in memory, oldest first, as queues have it.
    pub(crate) pending: Vec<u8>,
    /// Whether it is to be kept, once it was read.
    is_to_keep: bool,
}

impl Wanted {
    /// A block with what is staged for it; what may be of `key` alone, when one is given.
    fn of(
        partition: &Partition,
        table: Arc<BlockTable>,
        block: usize,
        key: Option<KeyHash>,
    ) -> Wanted {
        let mut staged = Vec::new();
        for one in &partition.staged {
            if let Some(part) = one.chunk.part(block, key) {
                staged.push((Arc::clone(one), part));
            }
        }
        Wanted {
            place: Arc::clone(&partition.place),
            table,
            block,
            staged,
            pending: Vec::new(),
            is_to_keep: false,
        }
    }
}

/// Where a value is found: what is to be read, unless what is pending says all, and what is pending in memory, oldest first,
/// as queues have it.
pub(crate) struct Lookup {
    pub(crate) partition: PartitionId,
    pub(crate) wanted: Option<Wanted>,
    pub(crate) pending: Vec<u8>,
}

/// What was read of a partition.
#[derive(Default)]
pub(crate) struct Found {
    /// The block, when there is one.
    block: Option<Bytes>,
    /// What is staged for it, oldest first.
    staged: Vec<Bytes>,
}

/// What is pending in memory of a partition, in two queues, the older first.
pub(crate) fn in_memory(partition: &Partition) -> impl Iterator<Item = &Queue> {
    let sealed = partition.sealed.as_ref().map(|sealed| &*sealed.queue);
    sealed.into_iter().chain(std::iter::once(&partition.active))
}

impl Shared {
    /// The value under a key; from memory alone when what is pending says all.
    pub(crate) async fn get(&self, space: SpaceId, key: &[u8]) -> Result<Option<Vec<u8>>> {
        let Lookup { wanted, pending, .. } = self
            .with_tables(|state, tables| {
                let found = self.lookup(state, tables, space, key)?;
                if let Some(Lookup { partition, wanted: Some(wanted), .. }) = &found {
                    self.pay(state, *partition, wanted);
                }
                Ok(found)
            })
            .await?;
        match wanted {
            None => self.value_in(None, key, &pending),
            Some(wanted) => {
                let found = self.read_block(&wanted).await?;
                self.value_in(Some((&wanted, &found)), key, &pending)
            }
        }
    }

    /// Where the value under a key is found; `None` when a table is missing.
    pub(crate) fn lookup(
        &self,
        state: &State,
        tables: &mut TablesAtHand<'_>,
        space: SpaceId,
        key: &[u8],
    ) -> Result<Option<Lookup>> {
        let id = state.partition_of(space, key).ok_or(Error::NoSpace { space })?;
        let partition = state.partition(id).ok_or(Error::NoSpace { space })?;
        let (mut pending, mut is_told) = (Vec::new(), false);
        for modification in in_memory(partition).flat_map(|queue| queue.of_key(key)) {
            if Kinds::replaces(modification.kind) {
                is_told = true;
                pending.clear();
            }
            encode(&mut pending, modification);
        }
        if is_told {
            return Ok(Some(Lookup { partition: id, wanted: None, pending }));
        }
        let Some(table) = tables.of(&partition.place) else { return Ok(None) };
        let block = table.holding(key);
        let mut wanted = Wanted::of(partition, table, block, Some(KeyHash::of(key)));
        wanted.is_to_keep = true;
        Ok(Some(Lookup { partition: id, wanted: Some(wanted), pending }))
    }

    /// The value under a key, from what was read and from the key's modifications in memory.
    pub(crate) fn value_in(
        &self,
        read: Option<(&Wanted, &Found)>,
        key: &[u8],
        pending: &[u8],
    ) -> Result<Option<Vec<u8>>> {
        let mut value = Value::default();
        let block_bytes = self.layout.block_bytes();
        if let Some((wanted, Found { block: Some(block), .. })) = read {
            let low = wanted.table.low(wanted.block);
            let in_block = self.format.find(low, block, key);
            let damaged = |_| self.damaged_block(&wanted.place, wanted.block);
            value.set(in_block.map_err(damaged)?);
        }
        self.format.settle(&mut value, block_bytes);
        let staged = read.iter().flat_map(|(_, found)| &found.staged).flat_map(|part| decode(part));
        for modification in staged.filter(|one| one.key == key).chain(decode(pending)) {
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
            let state = self.state();
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
        let wanted =
            self.with_tables(|state, tables| self.wanted_at(state, tables, space, at)).await?;
        let Some((mut wanted, low, next)) = wanted else { return Ok(None) };
        let found = self.read_block(&wanted).await?;
        let from = low.as_deref().unwrap_or_default();
        let is_of_block = |one: &Modification<'_>| {
            one.key >= from && next.as_deref().is_none_or(|next| one.key < next)
        };
        let pending = std::mem::take(&mut wanted.pending);
        let staged = found.staged.iter().flat_map(|part| decode(part)).filter(is_of_block);
        let mut all: Vec<Modification<'_>> = staged.chain(decode(&pending)).collect();
        all.sort_by(|one, other| one.key.cmp(other.key));
        let mut pieces = Pieces::new(self.layout.block_bytes());
        let block_low = match wanted.table.len() {
            0 => from,
            _ => wanted.table.low(wanted.block),
        };
        self.format
            .apply(block_low, found.block.as_deref(), &all, &self.kinds, &mut pieces)
            .map_err(|_| self.damaged_block(&wanted.place, wanted.block))?;
        Ok(Some(View { pieces, low, next }))
    }

    /// What to read for a view, and the keys between which it lies; `None` outside when a table is missing.
    #[expect(clippy::type_complexity, reason = "the parts of a view, used once")]
    fn wanted_at(
        &self,
        state: &mut State,
        tables: &mut TablesAtHand<'_>,
        space: SpaceId,
        at: At<'_>,
    ) -> Result<Option<Option<(Wanted, Option<Box<[u8]>>, Option<Box<[u8]>>)>>> {
        let directory = state.spaces.get(&space).ok_or(Error::NoSpace { space })?;
        let partition_at = |place: usize| directory.at(place).and_then(|id| state.partition(id));
        let mut place = match at {
            At::Key(key) | At::Before(key) => state.position(space, key).unwrap_or(0),
            At::Last => directory.len().saturating_sub(1),
        };
        if matches!(at, At::Before(key) if key.is_empty()) {
            return Ok(Some(None));
        }
        let Some(mut partition) = partition_at(place) else { return Ok(Some(None)) };
        let Some(mut table) = tables.of(&partition.place) else { return Ok(None) };
        let mut block = match at {
            At::Key(key) | At::Before(key) => table.holding(key),
            At::Last => table.len().saturating_sub(1),
        };
        // The lowest key of a block: of the first one that of its partition, which may be the very first.
        let low = |place: usize, partition: &Partition, table: &BlockTable, block: usize| {
            let low: Option<Box<[u8]>> = match (block, place) {
                (0, 0) => None,
                (0, _) => Some(partition.low.clone()),
                _ => Some(table.low(block).into()),
            };
            low
        };
        if let At::Before(key) = at
            && low(place, partition, &table, block).is_some_and(|low| *low >= *key)
        {
            if block > 0 {
                block -= 1;
            } else {
                place -= 1;
                let Some(before) = partition_at(place) else { return Ok(Some(None)) };
                partition = before;
                let Some(before) = tables.of(&partition.place) else { return Ok(None) };
                table = before;
                block = table.len().saturating_sub(1);
            }
        }
        let first = low(place, partition, &table, block);
        let next = match block + 1 < table.len() {
            true => Some(table.low(block + 1).into()),
            false => partition_at(place + 1).map(|next| next.low.clone()),
        };
        let mut wanted = Wanted::of(partition, table, block, None);
        let from = first.as_deref().unwrap_or_default();
        for modification in in_memory(partition).flat_map(Queue::iter) {
            let is_before = next.as_deref().is_none_or(|next: &[u8]| modification.key < next);
            if modification.key >= from && is_before {
                encode(&mut wanted.pending, modification);
            }
        }
        if let Some(id) = directory.at(place) {
            self.pay(state, id, &wanted);
        }
        Ok(Some(Some((wanted, first, next))))
    }

    /// Counts what reading staged modifications costs. A partition that has cost as much as writing it is swept.
    pub(crate) fn pay(&self, state: &mut State, id: PartitionId, wanted: &Wanted) {
        if wanted.staged.is_empty() {
            return;
        }
        let block = wanted.place.find(wanted.block);
        let is_alone = block.is_none_or(|(extent, index)| self.cache.has(extent, index));
        let first = if is_alone { REQUEST_BYTES } else { REQUEST_MORE_BYTES };
        let others = (wanted.staged.len() as u64 - 1) * REQUEST_MORE_BYTES;
        let bytes: u64 = wanted.staged.iter().map(|(_, part)| part.bytes.len() as u64).sum();
        if state.pay(id, first + others + bytes, self.layout.block_bytes()) {
            self.sweep_wake.notify_one();
        }
    }

    /// Reads a block, if there is one that is not kept, and what is staged for it: a request for each, all at the same
    /// time.
    pub(crate) async fn read_block(&self, wanted: &Wanted) -> Result<Found> {
        let Wanted { table, block, staged, .. } = wanted;
        let mut found = Found::default();
        let mut place = wanted.place.find(*block);
        if let Some((extent, index)) = place {
            found.block = self.cache.get(extent, index);
            self.counts.cached_reads.add(u64::from(found.block.is_some()));
        }
        place = place.filter(|_| found.block.is_none());
        let mut batch = Vec::with_capacity(1 + staged.len());
        let range = |(extent, index): (&Extent, usize)| self.layout.block_at(extent.first(), index);
        batch.extend(place.map(|place| Request::read(range(place))));
        for (one, part) in staged {
            batch.push(Request::read(self.staged_at(one, &part.bytes).0));
        }
        if batch.is_empty() {
            return Ok(found);
        }
        self.counts.reads.add(batch.len() as u64);
        self.counts.staged_reads.add(staged.len() as u64);
        let mut read = self.data.submit(batch).await.into_iter();
        if let Some((extent, index)) = place {
            let buffer = read.next().transpose()?.and_then(|done| done.data.into_iter().next());
            let is_right = |buffer: &IoBuf| is_sum(table.checksum(*block), crc32c::crc32c(buffer));
            let whole = buffer.filter(is_right);
            let whole = whole.ok_or_else(|| self.damaged_block(&wanted.place, *block))?;
            if wanted.is_to_keep {
                let bytes_max = self.cache_bytes_max(&self.state());
                self.cache.keep(extent, index, &whole, bytes_max);
            }
            found.block = Some(whole.freeze());
        }
        for (one, Stretch { bytes, checksum }) in staged {
            let buffer = read.next().transpose()?.and_then(|done| done.data.into_iter().next());
            let (range, before) = self.staged_at(one, bytes);
            let buffer = buffer.ok_or_else(|| self.damaged_chunk(range))?.freeze();
            let part = buffer.get(bytes.start.wrapping_sub(before)..bytes.end.wrapping_sub(before));
            let part = part.filter(|part| is_sum(*checksum, crc32c::crc32c(part)));
            let part = part.ok_or_else(|| self.damaged_chunk(range))?;
            found.staged.push(buffer.slice_ref(part));
        }
        Ok(found)
    }

    /// The device's blocks that hold these bytes of a chunk, as the device likes them best, and how many bytes of the
    /// chunk come before.
    pub(crate) fn staged_at(&self, staged: &Staged, bytes: &Range<usize>) -> (BlockRange, usize) {
        let round = self.data.inquiry().volume_block.0.max(1);
        let area = staged.extent.blocks;
        let first = area.first.0 + bytes.start as u64 / BLOCK_BYTES;
        let end = area.first.0 + (bytes.end as u64).div_ceil(BLOCK_BYTES);
        let first = Lbn(first / round * round).max(area.first);
        let end = Lbn(end.next_multiple_of(round)).min(area.end());
        let before = BlockRange::between(area.first, first).count.bytes().0 as usize;
        (BlockRange::between(first, end.max(first)), before)
    }

    pub(crate) fn damaged_chunk(&self, blocks: BlockRange) -> Error {
        Error::damaged(&*self.data, "a staged chunk", blocks)
    }

    pub(crate) fn damaged_table(&self, place: &Place) -> Error {
        let nowhere = BlockRange::new(self.layout.data.first, BlockCount::ZERO);
        let blocks = place.table_range(&self.layout).unwrap_or(nowhere);
        Error::damaged(&*self.data, "the table of a partition's blocks", blocks)
    }

    pub(crate) fn damaged_block(&self, place: &Place, block: usize) -> Error {
        let nowhere = BlockRange::new(self.layout.data.first, BlockCount::ZERO);
        let blocks = place.block_at(&self.layout, block).unwrap_or(nowhere);
        Error::damaged(&*self.data, "a block", blocks)
    }
}
