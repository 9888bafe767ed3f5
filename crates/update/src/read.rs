//! Reads of values. A value comes from its block, from the staged chunks of the partition, and from the queues in memory.

use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use bytes::Bytes;
use moirai_runtime::now;
use moirai_storage::{IoBuf, Request};
use moirai_units::{BLOCK_BYTES, BlockCount, BlockRange, Lbn, Nanos};

use crate::codec::is_sum;
use crate::data::place::{BlockPlace, Place};
use crate::draft::Moment;
use crate::encoded::{decode, decode_before, encode};
use crate::error::{Error, Result};
use crate::filter::KeyHash;
use crate::ids::{PUT_LONG, PartitionId, PointNumber, SpaceId};
use crate::kind::{Kinds, Question, Value};
use crate::long::epoch::Epoch;
use crate::long::read::{LongValues, ValueReader};
use crate::long::reference::Reference;
use crate::long::stored::Stored;
use crate::read_tables::TablesAtHand;
use crate::shared::Shared;
use crate::spec::Spec;
use crate::state::State;
use crate::state::block_table::BlockTable;
use crate::state::holder::Holder;
use crate::state::partition::{MERGED_FREE, MERGED_NS, REQUEST_BYTES, REQUEST_MORE_BYTES, Staged};
use crate::state::points::Probe;
use crate::units::{Block, UnitSet};

/// Reads of the device among which each counts as much for the average as one in so many.
const READS_AVERAGED: u64 = 16;

/// What is to be read of a partition.
pub(crate) struct Wanted {
    pub(crate) place: Arc<Place>,
    /// An empty one, where it is read with the blocks.
    pub(crate) table: Arc<BlockTable>,
    /// Whether `table` is read with the blocks, which are all of the partition then, in one run.
    pub(crate) is_table_read: bool,
    /// Neighbouring blocks of one run, and which of their units.
    pub(crate) blocks: Range<usize>,
    pub(crate) units: UnitSet,
    /// Chunks, oldest first, and which bytes of each.
    pub(crate) staged: Vec<(Arc<Staged>, Range<usize>)>,
    /// What came after this read point is not asked for.
    pub(crate) point: PointNumber,
    /// Whether it is to be kept, once it was read.
    pub(crate) is_to_keep: bool,
}

impl Wanted {
    /// Some units of some blocks, and the parts of staged chunks that belong to them. With `key`, only the parts whose filter
    /// matches it.
    pub(crate) fn of(
        holder: &Holder<'_>,
        table: Arc<BlockTable>,
        (blocks, units): (Range<usize>, UnitSet),
        key: Option<KeyHash>,
    ) -> Wanted {
        let mut staged = Vec::new();
        for one in holder.chunks() {
            let take = |bytes| staged.push((Arc::clone(one), bytes));
            one.chunk.for_each_range(&blocks, units, key, take);
        }
        Wanted {
            place: Arc::clone(holder.place),
            table,
            is_table_read: false,
            blocks,
            units,
            staged,
            point: holder.point,
            is_to_keep: false,
        }
    }
}

/// Where a value is found: what is to be read, unless what is pending says all, and what is pending in memory, oldest first,
/// as queues have it.
pub(crate) struct Lookup {
    /// The partition whose staged chunks are read, so that their cost is counted; `None` where a read point sees a version.
    pub(crate) partition: Option<PartitionId>,
    pub(crate) place: Arc<Place>,
    pub(crate) wanted: Option<Wanted>,
    pub(crate) pending: Vec<u8>,
    /// How many modifications of the key were in queues.
    pub(crate) merged: usize,
}

/// What was read of a partition.
#[derive(Default)]
pub(crate) struct Found {
    /// For each unit those of all blocks, in order, and nothing for one that was not read; none for a partition without blocks.
    pub(crate) strips: Vec<Bytes>,
    /// Their table, when it was read with them.
    table: Option<Arc<BlockTable>>,
    /// What is staged for them, oldest first.
    pub(crate) staged: Vec<Bytes>,
}

impl Found {
    /// One of the blocks that `wanted` asked for, when there are any.
    pub(crate) fn block<'a>(&'a self, wanted: &'a Wanted, index: usize) -> Option<Block<'a>> {
        let unit_bytes = &wanted.place.shape().unit_bytes;
        (!self.strips.is_empty()).then(|| Block::read(&self.strips, index, unit_bytes))
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
        let (Lookup { place, wanted, pending, .. }, epoch) = self
            .with_tables(|state, tables| {
                let found = self.lookup(state, tables, (space, key), moment)?;
                if let Some(Lookup { partition: Some(partition), wanted, merged, .. }) = &found {
                    self.pay(state, *partition, wanted.as_ref(), *merged);
                    state.order_for_keys(*partition);
                }
                let epoch = self.epoch_at(state, moment.point)?;
                Ok(found.map(|found| (found, epoch)))
            })
            .await?;
        let value = match wanted {
            None => self.value_in(place.spec(), None, key, &pending).await?,
            Some(wanted) => {
                let found = self.read_blocks(&wanted).await?;
                let read = Some((&wanted, &found));
                self.value_in(place.spec(), read, key, &pending).await?
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
        holder.place.spec().check_units(moment.units)?;
        let partition = holder.partition.map(|(id, _)| id);
        let (mut pending, mut is_told, mut merged) = (Vec::new(), false, 0);
        // What a transaction has not committed costs nobody else anything.
        let own = moment.own_of(space, key).map(|one| (one, 0));
        for (modification, counts) in holder.pending_of(key).map(|one| (one, 1)).chain(own) {
            merged += counts;
            if Kinds::replaces(modification.kind) {
                (is_told, merged) = (true, 0);
                pending.clear();
            }
            encode(&mut pending, modification);
        }
        if is_told {
            let place = Arc::clone(holder.place);
            return Ok(Some(Lookup { partition, place, wanted: None, pending, merged }));
        }
        let Some(table) = tables.of(holder.place) else { return Ok(None) };
        let block = table.holding(key);
        let blocks = (block..block + 1, moment.units);
        let mut wanted = Wanted::of(&holder, table, blocks, Some(KeyHash::of(key)));
        wanted.is_to_keep = true;
        let place = Arc::clone(holder.place);
        Ok(Some(Lookup { partition, place, wanted: Some(wanted), pending, merged }))
    }

    /// The value under a key, or the reference to it, from what was read and from the key's modifications in memory.
    pub(crate) async fn value_in(
        &self,
        spec: &Spec,
        read: Option<(&Wanted, &Found)>,
        key: &[u8],
        pending: &[u8],
    ) -> Result<Value> {
        let mut value = Value::default();
        let (format, block_bytes) = (&spec.format, spec.block_bytes());
        if let Some((wanted, found)) = read
            && let Some(block) = found.block(wanted, 0)
        {
            let low = wanted.table.low(wanted.blocks.start);
            let damaged = |_| self.damaged_block(&wanted.place, wanted.blocks.start);
            format.find(low, block, key, &mut value).map_err(damaged)?;
        }
        format.settle(&mut value, block_bytes);
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
            format.settle(&mut value, block_bytes);
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

    /// Counts what reading costs beside the block: requests for staged chunks, and merging modifications in memory, of which a key
    /// that all transactions change has many. A partition that has cost as much as writing it is swept.
    pub(crate) fn pay(
        &self,
        state: &mut State,
        id: PartitionId,
        wanted: Option<&Wanted>,
        merged: usize,
    ) {
        let staged_bytes = wanted.map_or(0, |wanted| self.staged_bytes(wanted));
        // On a disk, whose requests take a hundred times as long, nobody sweeps to save processor time.
        let merged_ns = merged.saturating_sub(MERGED_FREE) as u64 * MERGED_NS;
        let read_ns = self.read_ns.load(Ordering::Relaxed);
        let merged_bytes = (merged_ns * REQUEST_BYTES).checked_div(read_ns).unwrap_or(0);
        if staged_bytes + merged_bytes == 0 {
            return;
        }
        let is_costly = state.pay(id, staged_bytes + merged_bytes);
        if is_costly && !self.is_making_way.load(Ordering::Relaxed) {
            self.sweep_wake.notify_one();
        }
    }

    /// Takes what a read of so many bytes took into the average, without its transfer.
    pub(crate) fn note_read(&self, took: Nanos, bytes: u64) {
        let request_ns = took.0 * REQUEST_BYTES / (REQUEST_BYTES + bytes);
        let average = match self.read_ns.load(Ordering::Relaxed) {
            0 => request_ns,
            average => average - average / READS_AVERAGED + request_ns / READS_AVERAGED,
        };
        self.read_ns.store(average, Ordering::Relaxed);
    }

    /// What the requests for staged chunks cost, in bytes transferred.
    fn staged_bytes(&self, wanted: &Wanted) -> u64 {
        if wanted.staged.is_empty() {
            return 0;
        }
        let block = wanted.place.find(wanted.blocks.start);
        let unit = wanted.place.shape().units(wanted.units).next().unwrap_or(0);
        let is_alone = block.is_none_or(|block| self.cache.has(block.extent, block.number(unit)));
        let first = if is_alone { REQUEST_BYTES } else { REQUEST_MORE_BYTES };
        let others = (wanted.staged.len() as u64 - 1) * REQUEST_MORE_BYTES;
        let bytes: u64 = wanted.staged.iter().map(|(_, bytes)| bytes.len() as u64).sum();
        first + others + bytes
    }

    /// Reads blocks and the staged chunks that belong to them. All requests go out together: one for each run of wanted units that
    /// the cache does not hold, with the table of the blocks where that is wanted, and one for each part of a chunk.
    pub(crate) async fn read_blocks(&self, wanted: &Wanted) -> Result<Found> {
        let Wanted { place, is_table_read, blocks, staged, .. } = wanted;
        let mut found = Found::default();
        let block = place.find(blocks.start);
        // Those of the wanted units that are read.
        let mut units = wanted.units;
        if let Some(block) = block {
            found.strips = vec![Bytes::new(); place.shape().len()];
            if !is_table_read {
                units = units.without(self.find_kept(wanted, block, &mut found.strips));
                let is_kept = place.shape().units(units).next().is_none();
                self.counts.cached_reads.add(u64::from(is_kept));
            }
        }
        let runs = block.map(|block| unit_runs(wanted, block, units)).unwrap_or_default();
        let mut batch = Vec::with_capacity(runs.len() + 1 + staged.len());
        batch.extend(runs.iter().map(|run| Request::read(run.range)));
        let table_range = place.table_range().filter(|_| *is_table_read && block.is_some());
        // It is behind the last unit.
        let is_behind =
            |table: &BlockRange| runs.last().is_some_and(|run| run.range.end() == table.first);
        if let Some(table) = table_range {
            match batch.last_mut().zip(runs.last()).filter(|_| is_behind(&table)) {
                Some((last, run)) => {
                    *last = Request::read(BlockRange::between(run.range.first, table.end()));
                }
                None => batch.push(Request::read(table)),
            }
        }
        for (one, bytes) in staged {
            batch.push(Request::read(self.staged_at(one, bytes).0));
        }
        if batch.is_empty() {
            return Ok(found);
        }
        self.counts.reads.add(batch.len() as u64);
        self.counts.staged_reads.add(staged.len() as u64);
        let asked = now();
        let mut read = self.data.submit(batch).await.into_iter();
        let bytes = place.shape().bytes_of(units) * blocks.len();
        self.note_read(now().since(asked), bytes as u64);
        let mut next = || -> Result<Option<Bytes>> {
            let data = read.next().transpose()?.and_then(|done| done.data.into_iter().next());
            Ok(data.map(IoBuf::freeze))
        };
        if let Some(block) = block {
            let missing = || self.damaged_block(place, blocks.start);
            let mut contents = Vec::with_capacity(runs.len());
            for _ in &runs {
                contents.push(next()?.ok_or_else(missing)?);
            }
            if let Some(range) = table_range {
                let behind = match is_behind(&range) {
                    true => contents.last().zip(runs.last()).and_then(|(content, run)| {
                        let behind = content.get(run.range.count.bytes().0 as usize..)?;
                        Some(content.slice_ref(behind))
                    }),
                    false => next()?,
                };
                let table = behind.and_then(|behind| place.take_table(&behind));
                let table = table.ok_or_else(|| self.damaged_table(place))?;
                self.tables.keep(place.number(), &table);
                found.table = Some(table);
            }
            put_strips(&mut found.strips, wanted, &runs, &contents);
            let table = found.table(wanted);
            for unit in place.shape().units(units) {
                for (index, number) in blocks.clone().enumerate() {
                    let content = found.block(wanted, index).and_then(|block| block.unit(unit));
                    let is_right = |content: &[u8]| {
                        is_sum(table.checksum(number, unit), crc32c::crc32c(content))
                    };
                    if !content.is_some_and(is_right) {
                        return Err(self.damaged_unit(place, number, unit));
                    }
                }
            }
            if wanted.is_to_keep {
                self.keep_strips(wanted, block, (units, &found.strips));
            }
        }
        for (one, bytes) in staged {
            let (range, before) = self.staged_at(one, bytes);
            let buffer = next()?.ok_or_else(|| self.damaged_chunk(range))?;
            let part = buffer.get(bytes.start.wrapping_sub(before)..bytes.end.wrapping_sub(before));
            let part = part.filter(|part| one.chunk.is_right(bytes.start, part));
            let part = part.ok_or_else(|| self.damaged_chunk(range))?;
            found.staged.push(buffer.slice_ref(part));
        }
        Ok(found)
    }

    /// Takes the strips of what is wanted that the cache holds; gives the units that they are of.
    fn find_kept(&self, wanted: &Wanted, block: BlockPlace<'_>, strips: &mut [Bytes]) -> UnitSet {
        let mut kept = UnitSet::NONE;
        for unit in wanted.place.shape().units(wanted.units) {
            let first = block.number(unit);
            if let Some(strip) = self.cache.get(block.extent, first..first + wanted.blocks.len())
                && let Some(to) = strips.get_mut(unit)
            {
                *to = strip;
                kept = kept.with(UnitSet::one(unit));
            }
        }
        kept
    }

    /// Keeps some units of the blocks that were wanted.
    fn keep_strips(
        &self,
        wanted: &Wanted,
        block: BlockPlace<'_>,
        (units, strips): (UnitSet, &[Bytes]),
    ) {
        let bytes_max = self.cache_bytes_max(&self.glance());
        let shape = wanted.place.shape();
        for unit in shape.units(units) {
            if let Some(strip) = strips.get(unit) {
                let first = block.number(unit);
                let blocks = first..first + wanted.blocks.len();
                self.cache.keep(block.extent, blocks, strip, bytes_max);
            }
        }
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
        let blocks = place.table_range().unwrap_or(nowhere);
        Error::damaged(&*self.data, "the table of a partition's blocks", blocks)
    }

    pub(crate) fn damaged_block(&self, place: &Place, block: usize) -> Error {
        self.damaged_unit(place, block, 0)
    }

    pub(crate) fn damaged_unit(&self, place: &Place, block: usize, unit: usize) -> Error {
        let nowhere = BlockRange::new(self.layout.data.first, BlockCount::ZERO);
        let blocks = place.unit_at(block, unit).unwrap_or(nowhere);
        Error::damaged(&*self.data, "a block", blocks)
    }
}

/// Units of wanted blocks that lie side by side, and are read with one request.
struct UnitRun {
    units: Range<usize>,
    range: BlockRange,
}

/// What to read of some units of wanted blocks, from the lowest unit to the highest.
fn unit_runs(wanted: &Wanted, block: BlockPlace<'_>, units: UnitSet) -> Vec<UnitRun> {
    let mut runs: Vec<UnitRun> = Vec::new();
    for unit in wanted.place.shape().units(units) {
        let range = block.unit(unit, wanted.blocks.len());
        // In rows, strips that touch may have others between them.
        let is_next =
            |last: &&mut UnitRun| last.units.end == unit && last.range.end() == range.first;
        match runs.last_mut().filter(is_next) {
            Some(last) => {
                last.units.end = unit + 1;
                last.range.count += range.count;
            }
            None => runs.push(UnitRun { units: unit..unit + 1, range }),
        }
    }
    runs
}

/// Puts what was read of wanted blocks into the strips of its units.
fn put_strips(strips: &mut [Bytes], wanted: &Wanted, runs: &[UnitRun], contents: &[Bytes]) {
    let shape = wanted.place.shape();
    for (run, content) in runs.iter().zip(contents) {
        for (unit, strip) in shape.strips(run.units.clone(), content, wanted.blocks.len()) {
            if let Some(to) = strips.get_mut(unit) {
                *to = strip;
            }
        }
    }
}
