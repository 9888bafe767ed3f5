//! Reads of values. A value comes from its block, from the staged chunks of the partition, and from the queues in memory.

use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use bytes::Bytes;
use moirai_storage::{IoBuf, Request};
use moirai_units::{BLOCK_BYTES, BlockCount, BlockRange, Lbn};

use crate::codec::is_sum;
use crate::data::place::Place;
use crate::draft::Moment;
use crate::error::{Error, Result};
use crate::filter::KeyHash;
use crate::ids::{PUT_LONG, PartitionId, PointNumber, SpaceId};
use crate::kind::{Kinds, Question, Value};
use crate::long::Stored;
use crate::long::epoch::Epoch;
use crate::long::read::{LongValues, ValueReader};
use crate::long::reference::Reference;
use crate::read_tables::TablesAtHand;
use crate::shared::Shared;
use crate::state::State;
use crate::state::block_table::BlockTable;
use crate::state::partition::{REQUEST_BYTES, REQUEST_MORE_BYTES, Staged};
use crate::state::points::{Holder, Probe};
use crate::state::queue::{decode, decode_before, encode};

/// What is to be read of a partition.
pub(crate) struct Wanted {
    pub(crate) place: Arc<Place>,
    /// An empty one, where it is read with the blocks.
    pub(crate) table: Arc<BlockTable>,
    /// Whether `table` is read with the blocks, which are all of the partition then, in one extent.
    pub(crate) is_table_read: bool,
    /// Neighbouring blocks of one extent.
    pub(crate) blocks: Range<usize>,
    /// Chunks, oldest first, and which bytes of each.
    pub(crate) staged: Vec<(Arc<Staged>, Range<usize>)>,
    /// What came after this read point is not asked for.
    pub(crate) point: PointNumber,
    /// Whether it is to be kept, once it was read.
    is_to_keep: bool,
}

impl Wanted {
    /// Some blocks, and the parts of staged chunks that belong to them. With `key`, only the parts whose filter matches it.
    pub(crate) fn of(
        holder: &Holder<'_>,
        table: Arc<BlockTable>,
        blocks: Range<usize>,
        key: Option<KeyHash>,
    ) -> Wanted {
        let mut staged = Vec::new();
        for one in holder.chunks() {
            if let Some(bytes) = one.chunk.bytes_for(&blocks, key) {
                staged.push((Arc::clone(one), bytes));
            }
        }
        let (place, point) = (Arc::clone(holder.place), holder.point);
        Wanted { place, table, is_table_read: false, blocks, staged, point, is_to_keep: false }
    }
}

/// Where a value is found: what is to be read, unless what is pending says all, and what is pending in memory, oldest first,
/// as queues have it.
pub(crate) struct Lookup {
    /// The partition whose staged chunks are read, so that their cost is counted; `None` where a read point sees a version.
    pub(crate) partition: Option<PartitionId>,
    pub(crate) wanted: Option<Wanted>,
    pub(crate) pending: Vec<u8>,
}

/// What was read of a partition.
#[derive(Default)]
pub(crate) struct Found {
    /// The content of the blocks, in order; `None` for a partition without blocks.
    blocks: Option<Bytes>,
    /// Their table, when it was read with them.
    table: Option<Arc<BlockTable>>,
    /// What is staged for them, oldest first.
    pub(crate) staged: Vec<Bytes>,
}

impl Found {
    /// One of the blocks, when there are any.
    pub(crate) fn block(&self, index: usize, block_bytes: usize) -> Option<Bytes> {
        let blocks = self.blocks.as_ref()?;
        let block = blocks.get(index * block_bytes..(index + 1) * block_bytes)?;
        Some(blocks.slice_ref(block))
    }

    /// The table of the blocks that `wanted` asked for.
    pub(crate) fn table<'a>(&'a self, wanted: &'a Wanted) -> &'a BlockTable {
        self.table.as_ref().unwrap_or(&wanted.table)
    }
}

impl Shared {
    /// The value under a key; from memory alone when what is pending says all.
    pub(crate) async fn get(
        &self,
        space: SpaceId,
        key: &[u8],
        moment: Moment<'_>,
    ) -> Result<Option<Vec<u8>>> {
        let (value, _epoch) = self.find(space, key, moment).await?;
        self.whole(value).await
    }

    /// The value under a key, to be read in parts.
    pub(crate) async fn value_reader(
        self: &Arc<Shared>,
        space: SpaceId,
        key: &[u8],
        moment: Moment<'_>,
    ) -> Result<Option<ValueReader>> {
        let (value, epoch) = self.find(space, key, moment).await?;
        let shared = Arc::clone(self);
        Ok(match value.stored() {
            None => None,
            Some(Stored::Short(_)) => Some(ValueReader::in_memory(shared, value.bytes)),
            Some(Stored::Long(reference)) => {
                let values = LongValues { epoch: Some(epoch), made: Arc::default() };
                Some(ValueReader::of(shared, &values, reference).await?)
            }
        })
    }

    /// A value whose long form is read.
    pub(crate) async fn whole(&self, value: Value) -> Result<Option<Vec<u8>>> {
        match value.stored() {
            None => Ok(None),
            Some(Stored::Short(_)) => Ok(Some(value.bytes)),
            Some(Stored::Long(reference)) => {
                let reference = Reference::decode(reference);
                let reference = reference.ok_or_else(|| self.damaged_reference())?;
                self.read_long(&reference).await.map(Some)
            }
        }
    }

    /// The value under a key, or the reference to it, and what keeps the reference valid.
    async fn find(
        &self,
        space: SpaceId,
        key: &[u8],
        moment: Moment<'_>,
    ) -> Result<(Value, Arc<Epoch>)> {
        let (Lookup { wanted, pending, .. }, epoch) = self
            .with_tables(|state, tables| {
                let found = self.lookup(state, tables, (space, key), moment)?;
                if let Some(Lookup { partition: Some(partition), wanted: Some(wanted), .. }) =
                    &found
                {
                    self.pay(state, *partition, wanted);
                }
                let epoch = self.epoch_at(state, moment.point)?;
                Ok(found.map(|found| (found, epoch)))
            })
            .await?;
        let value = match wanted {
            None => self.value_in(None, key, &pending).await?,
            Some(wanted) => {
                let found = self.read_blocks(&wanted).await?;
                self.value_in(Some((&wanted, &found)), key, &pending).await?
            }
        };
        Ok((value, epoch))
    }

    /// What keeps the long values that are there at a moment.
    pub(crate) fn epoch_at(&self, state: &State, point: PointNumber) -> Result<Arc<Epoch>> {
        match point {
            PointNumber::NOW => Ok(Arc::clone(&state.epoch)),
            _ => state.points.epoch(point).cloned().ok_or_else(|| self.too_old()),
        }
    }

    /// What holds some keys of a space at a moment.
    pub(crate) fn holder<'a>(
        &self,
        state: &'a State,
        space: SpaceId,
        probe: Probe<'_>,
        point: PointNumber,
    ) -> Result<Holder<'a>> {
        if point != PointNumber::NOW && state.points.epoch(point).is_none() {
            return Err(self.too_old());
        }
        state.holder(space, probe, point).ok_or(Error::NoSpace { space })
    }

    fn too_old(&self) -> Error {
        Error::PointTooOld { device: self.data.inquiry().name.clone() }
    }

    /// Where the value under a key is found; `None` when a table is missing.
    pub(crate) fn lookup(
        &self,
        state: &State,
        tables: &mut TablesAtHand<'_>,
        (space, key): (SpaceId, &[u8]),
        moment: Moment<'_>,
    ) -> Result<Option<Lookup>> {
        let holder = self.holder(state, space, Probe::Key(key), moment.point)?;
        let partition = holder.partition.map(|(id, _)| id);
        let (mut pending, mut is_told) = (Vec::new(), false);
        for modification in holder.pending_of(key).chain(moment.own_of(space, key)) {
            if Kinds::replaces(modification.kind) {
                is_told = true;
                pending.clear();
            }
            encode(&mut pending, modification);
        }
        if is_told {
            return Ok(Some(Lookup { partition, wanted: None, pending }));
        }
        let Some(table) = tables.of(holder.place) else { return Ok(None) };
        let block = table.holding(key);
        let mut wanted = Wanted::of(&holder, table, block..block + 1, Some(KeyHash::of(key)));
        wanted.is_to_keep = true;
        Ok(Some(Lookup { partition, wanted: Some(wanted), pending }))
    }

    /// The value under a key, or the reference to it, from what was read and from the key's modifications in memory.
    pub(crate) async fn value_in(
        &self,
        read: Option<(&Wanted, &Found)>,
        key: &[u8],
        pending: &[u8],
    ) -> Result<Value> {
        let mut value = Value::default();
        let block_bytes = self.layout.block_bytes();
        if let Some((wanted, Found { blocks: Some(block), .. })) = read {
            let low = wanted.table.low(wanted.blocks.start);
            let in_block = self.format.find(low, block, key);
            let damaged = |_| self.damaged_block(&wanted.place, wanted.blocks.start);
            value.set_stored(in_block.map_err(damaged)?);
        }
        self.format.settle(&mut value, block_bytes);
        let point = read.map_or(PointNumber::NOW, |(wanted, _)| wanted.point);
        let staged = read.iter().flat_map(|(_, found)| &found.staged);
        let staged = staged.flat_map(|part| decode_before(part, point));
        for modification in staged.filter(|one| one.key == key).chain(decode(pending)) {
            if value.is_long && !Kinds::replaces(modification.kind) {
                let reference = Reference::decode(&value.bytes);
                let reference = reference.ok_or_else(|| self.damaged_reference())?;
                if let Some(base) = self.read_to_merge(&reference).await? {
                    value.set(Some(&base));
                }
            }
            self.kinds.apply(modification.kind, &mut value, modification.bytes);
            self.format.settle(&mut value, block_bytes);
        }
        Ok(value)
    }

    /// The answer to a question; from memory alone when the newest of what is pending tells it.
    pub(crate) async fn query<Q: Question>(
        &self,
        space: SpaceId,
        key: &[u8],
        question: &Q,
        moment: Moment<'_>,
    ) -> Result<Q::Answer> {
        let mut pending = Vec::new();
        {
            let state = self.state();
            let holder = self.holder(&state, space, Probe::Key(key), moment.point)?;
            let newest = holder.pending_of(key).chain(moment.own_of(space, key)).last();
            let newest = newest.filter(|newest| newest.kind != PUT_LONG);
            newest.into_iter().for_each(|newest| encode(&mut pending, newest));
        }
        // The program may ask the engine something.
        match decode(&pending).next().and_then(|newest| question.of_newest(newest)) {
            Some(answer) => Ok(answer),
            None => {
                let (value, _epoch) = self.find(space, key, moment).await?;
                match value.stored() {
                    Some(Stored::Long(_)) => match question.of_long() {
                        Some(answer) => Ok(answer),
                        None => Ok(question.of_value(self.whole(value).await?.as_deref())),
                    },
                    _ => Ok(question.of_value(value.get())),
                }
            }
        }
    }

    /// Counts what reading staged modifications costs. A partition that has cost as much as writing it is swept.
    pub(crate) fn pay(&self, state: &mut State, id: PartitionId, wanted: &Wanted) {
        if wanted.staged.is_empty() {
            return;
        }
        let block = wanted.place.find(wanted.blocks.start);
        let is_alone = block.is_none_or(|(extent, index)| self.cache.has(extent, index));
        let first = if is_alone { REQUEST_BYTES } else { REQUEST_MORE_BYTES };
        let others = (wanted.staged.len() as u64 - 1) * REQUEST_MORE_BYTES;
        let bytes: u64 = wanted.staged.iter().map(|(_, bytes)| bytes.len() as u64).sum();
        let is_costly = state.pay(id, first + others + bytes, self.layout.block_bytes());
        if is_costly && !self.is_making_way.load(Ordering::Relaxed) {
            self.sweep_wake.notify_one();
        }
    }

    /// Reads blocks and the staged chunks that belong to them. All requests go out together: one for the blocks, with their
    /// table where that is wanted, unless the cache holds them all, and one for each chunk.
    pub(crate) async fn read_blocks(&self, wanted: &Wanted) -> Result<Found> {
        let Wanted { place, is_table_read, blocks, staged, .. } = wanted;
        let block_bytes = self.layout.block_bytes();
        let mut found = Found::default();
        let mut run = place.find(blocks.start);
        if let Some((extent, index)) = run
            && !is_table_read
        {
            found.blocks = self.cache.get_run(extent, index..index + blocks.len());
            self.counts.cached_reads.add(u64::from(found.blocks.is_some()));
        }
        run = run.filter(|_| found.blocks.is_none());
        let mut batch = Vec::with_capacity(1 + staged.len());
        batch.extend(run.map(|(extent, index)| {
            let mut range = self.layout.block_at(extent.first(), index);
            range.count = BlockCount(range.count.0 * blocks.len() as u64);
            if *is_table_read {
                let table = place.table_range(&self.layout);
                range.count += table.map_or(BlockCount::ZERO, |table| table.count);
            }
            Request::read(range)
        }));
        for (one, bytes) in staged {
            batch.push(Request::read(self.staged_at(one, bytes).0));
        }
        if batch.is_empty() {
            return Ok(found);
        }
        self.counts.reads.add(batch.len() as u64);
        self.counts.staged_reads.add(staged.len() as u64);
        let mut read = self.data.submit(batch).await.into_iter();
        let mut next = || -> Result<Option<IoBuf>> {
            Ok(read.next().transpose()?.and_then(|done| done.data.into_iter().next()))
        };
        if let Some((extent, index)) = run {
            let content = next()?.ok_or_else(|| self.damaged_block(place, blocks.start))?;
            if *is_table_read {
                let behind = content.get(blocks.len() * block_bytes..);
                let table = behind.and_then(|behind| place.take_table(behind));
                let table = table.ok_or_else(|| self.damaged_table(place))?;
                self.tables.keep(place.number(), &table);
                found.table = Some(table);
            }
            let table = found.table(wanted);
            let mut contents = content.chunks_exact(block_bytes);
            for block in blocks.clone() {
                let is_right =
                    |content: &&[u8]| is_sum(table.checksum(block), crc32c::crc32c(content));
                let whole = contents.next().filter(is_right);
                whole.ok_or_else(|| self.damaged_block(place, block))?;
            }
            if wanted.is_to_keep {
                let bytes_max = self.cache_bytes_max(&self.state());
                self.cache.keep(extent, index, &content, bytes_max);
            }
            found.blocks = Some(content.freeze());
        }
        for (one, bytes) in staged {
            let (range, before) = self.staged_at(one, bytes);
            let buffer = next()?.ok_or_else(|| self.damaged_chunk(range))?.freeze();
            let part = buffer.get(bytes.start.wrapping_sub(before)..bytes.end.wrapping_sub(before));
            let part = part.filter(|part| one.chunk.is_right(bytes.start, part));
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
