//! Placing: what is staged and sealed of a partition, or of neighbours that are merged, is applied to their blocks, which
//! are written to other extents.

use std::sync::Arc;

use moirai_extents::{Extent, Rows};
use moirai_runtime::yield_now;
use moirai_units::BlockCount;

use crate::block_format::{Emission, NewBlocks, OwnedUnits};
use crate::data::place::{Location, TablePlace};
use crate::data::strips::{Run, StripRows};
use crate::error::Result;
use crate::group::Group;
use crate::kind::{Kinds, Modification};
use crate::long::made::Made;
use crate::long::references::References;
use crate::read_whole::Content;
use crate::shape::Shape;
use crate::shared::Shared;
use crate::spec::Spec;
use crate::state::block_table::BlockTable;
use crate::state::partition::Partition;
use crate::state::sorted::Sorted;
use crate::sweep::done::{Done, Emitted, Rewritten, Written};
use crate::sweep::job::{Job, Member};
use crate::sweep::slices::{Slice, Slices, with_slice};
use crate::sweep::writes::Writes;
use crate::units::{Block, UnitSet};

/// Blocks that are rewritten before other tasks get their turn.
const BLOCKS_AT_ONCE: usize = 16;
/// The part of the memory that modifications of other spaces may take which come of one job.
const EMITTED_SHARE: usize = 16;

/// What comes of a job while its partitions are read.
struct Rewrite {
    spec: Arc<Spec>,
    /// Blocks that are not written yet.
    new_blocks: NewBlocks,
    long: Long,
    /// Whether all that is new has keys behind those of the blocks.
    is_appended: bool,
    /// Blocks of a partition at most.
    most: usize,
}

/// The long values of what is rewritten.
#[derive(Default)]
struct Long {
    /// What the partitions refer to, before and after.
    before: References,
    after: References,
    made: Vec<Extent>,
}

/// Blocks with their lowest keys, in their order: first none, for what comes before all of them; then new ones that were taken back;
/// and those of a partition from one on, where one that is lost is none.
fn inputs_of<'a>(
    read: &'a Content,
    lowest: Option<&'a [u8]>,
    taken_back: &'a [OwnedUnits],
    next: usize,
) -> Vec<(Option<&'a [u8]>, Option<Block<'a>>)> {
    let again = taken_back.iter().map(|one| (Some(&*one.low), Some(Block::of_units(&one.units))));
    let rest = read.blocks().enumerate().skip(next);
    let rest =
        rest.map(|(at, block)| (Some(read.table.low(at)), read.has_block(at).then_some(block)));
    std::iter::once((lowest, None)).chain(again).chain(rest).collect()
}

/// Takes the modifications before the key `end`, if that is given: those up to the key `last` together, and else those of as
/// many keys as make blocks of about `growth_max` bytes. Those that build on a value of a block that is lost are left out.
fn take_some<'a>(
    sorted: &mut Sorted<'a>,
    read: &Content,
    (last, end): (Option<&[u8]>, Option<&[u8]>),
    growth_max: usize,
    growth: impl Fn(&Modification<'_>) -> usize,
) -> Vec<Modification<'a>> {
    let (mut all, mut bytes) = (Vec::new(), 0);
    while let Some(key) = sorted.next_key() {
        let is_enough = bytes > growth_max && last.is_none_or(|last| key > last);
        if is_enough || end.is_some_and(|end| key >= end) {
            break;
        }
        let before = all.len();
        sorted.take_key(&mut all);
        if !read.lost.is_empty() && !read.has_block_of(key) {
            let of_key = all.split_off(before);
            let from = of_key.iter().rposition(|one| Kinds::replaces(one.kind));
            all.extend(from.and_then(|from| of_key.get(from..)).unwrap_or_default());
        }
        // What they take here counts, too.
        let of_key = all.iter().skip(before);
        bytes += of_key.map(|one| growth(one).max(size_of_val(one))).sum::<usize>();
    }
    all
}

impl Shared {
    /// Applies the staged and sealed modifications of a job's partitions, and writes the blocks that result to new
    /// extents: as one partition where they fit, as two halves up to twice as many, and else as partitions that are
    /// three quarters full. Keys that are appended in order fill them. [`Done::Postponed`] when there is no space,
    /// [`Done::SetAside`] when something cannot be read.
    ///
    /// With `held`, what comes of it for other spaces may take so many bytes of the log, which are kept for it.
    pub(super) async fn place(&self, job: &Job, held: Option<usize>) -> Result<Done> {
        self.place_all(job, held, None).await
    }

    /// The same, of a job with one partition, with the modifications of a bulk group after those that are sealed.
    pub(super) async fn place_slices(
        &self,
        job: &Job,
        slices: &mut Slices<'_, '_>,
    ) -> Result<Done> {
        self.place_all(job, None, Some(slices)).await
    }

    async fn place_all(
        &self,
        job: &Job,
        held: Option<usize>,
        slices: Option<&mut Slices<'_, '_>>,
    ) -> Result<Done> {
        let replaced =
            job.members.iter().map(|one| Partition::bytes_of(&one.low, &one.place, &one.staged));
        let mut writes = Writes::replacing(replaced.sum());
        writes.ends_points = slices.is_some();
        let done = self.place_with(job, (held, slices), &mut writes).await;
        writes.settle().await?;
        if !matches!(done, Ok(Done::Placed(_))) {
            self.shrink_directory(writes.grown_bytes);
            held.into_iter().for_each(|bytes| self.log.give_back(bytes));
        }
        done
    }

    /// Keeps room in the log for what comes of placing a job for other spaces: none where nothing does, and `Err` where the log
    /// has no room. What is kept leaves enough of it for the engine's own entries.
    pub(super) fn hold_emitted(&self, job: &Job) -> std::result::Result<Option<usize>, ()> {
        let of_one = job.spec().map_or(0, |spec| spec.format.emitted_bytes_max());
        if of_one == 0 || job.ingest.is_some() || job.is_of_bulk {
            return Ok(None);
        }
        let count = |member: &Member| {
            let staged: usize = member.staged.iter().map(|one| one.chunk.count()).sum();
            staged + member.sealed.queue.count()
        };
        let bytes = job.members.iter().map(count).sum::<usize>().saturating_mul(of_one);
        let bytes = bytes.min(self.memory_bytes / EMITTED_SHARE);
        // Nothing else is appended while the state is locked.
        let _state = self.state();
        let has_room =
            self.log.has_room_for_own(bytes.saturating_add(2 * self.log.own_bytes_max()));
        if !job.is_logged || !has_room {
            return Err(());
        }
        self.log.hold(bytes);
        Ok(Some(bytes))
    }

    async fn place_with<'a>(
        &'a self,
        job: &Job,
        (held, mut slices): (Option<usize>, Option<&mut Slices<'_, '_>>),
        writes: &mut Writes<'a>,
    ) -> Result<Done> {
        let Some(spec) = job.spec() else { return Ok(Done::Postponed) };
        let made = Made::on_device(&self.extents, self.checkpoint_reserve());
        let mut new_blocks = spec.new_blocks(UnitSet::ALL, made);
        new_blocks.emission =
            held.map(|bytes_max| Box::new(Emission { group: Group::new(), bytes_max }));
        let most = spec.division.partition_blocks as usize;
        let is_appended = job.members.len() == 1;
        let long = Long::default();
        let mut rewrite = Rewrite { spec: Arc::clone(&spec), new_blocks, long, is_appended, most };
        let low = job.members.first().map(|first| first.low.clone()).unwrap_or_default();
        for member in &job.members {
            let slices = slices.as_deref_mut();
            let unfinished = self.place_member((job, member), slices, &mut rewrite, writes).await?;
            if let Some(unfinished) = unfinished {
                return Ok(unfinished);
            }
        }
        let Rewrite { mut new_blocks, mut long, is_appended, .. } = rewrite;
        if new_blocks.len() > most {
            let count = if is_appended { most } else { new_blocks.len().div_ceil(2) };
            if !self.write_blocks(&spec, new_blocks.take(count), writes, &mut long).await? {
                return Ok(Done::Postponed);
            }
        }
        let refused = new_blocks.refused();
        let emitted = new_blocks.emission.take().map(|emission| emission.group).unwrap_or_default();
        let emitted = match self.check(&emitted).and_then(|()| self.check_prepared(&emitted)) {
            Ok(()) => emitted,
            Err(error) => {
                let name = spec.format.name();
                tracing::warn!("what format `{name}` makes for other spaces is left out: {error}");
                Group::new()
            }
        };
        let count = emitted.len() as u64;
        let emitted = Emitted { entries: emitted.bytes, count, held };
        let rest = match is_appended {
            true => job.rest(writes, &new_blocks),
            false => None,
        };
        if rest.is_none() && !self.write_blocks(&spec, new_blocks, writes, &mut long).await? {
            return Ok(Done::Postponed);
        }
        self.counts.placed.add(1);
        let mut written = std::mem::take(&mut writes.written);
        // The first has all keys from the old partition's lowest on.
        match written.first_mut() {
            Some(first) => first.low = low,
            None => written.push(Written { low, ..Written::default() }),
        }
        // What is left finds an empty partition, which costs nothing to rewrite.
        let empty = |rest| Written { low: rest, ..Written::default() };
        written.extend(rest.clone().map(empty));
        let Long { before, after, made } = long;
        let freed = self.left_runs(before, &after).await;
        Ok(Done::Placed(Rewritten { written, refused, made, freed, rest, emitted }))
    }

    /// Makes the new blocks of one partition, and writes those that are enough for another; gives why it could not.
    async fn place_member<'a>(
        &'a self,
        (job, member): (&Job, &Member),
        mut slices: Option<&mut Slices<'_, '_>>,
        rewrite: &mut Rewrite,
        writes: &mut Writes<'a>,
    ) -> Result<Option<Done>> {
        let Rewrite { spec, new_blocks, long, is_appended, most } = rewrite;
        let most = *most;
        let read = match self.read_member(member).await {
            Ok(read) => read,
            Err(error) => return Ok(Some(Done::SetAside(error))),
        };
        let mut damaged_long = References::default();
        if member.has_long() {
            long.before.add_all(self.references(&read));
            long.before.add_put(member.sealed.queue.iter());
            if self.glance().to_salvage.contains(&member.id) {
                let damaged = self.damaged_long_values(&read).await;
                damaged_long = References::of(damaged.into_iter().map(|(_, one)| one));
            }
        }
        let (block_bytes, growth_max) = (new_blocks.block_bytes(), spec.division.partition_bytes());
        let growth = |one: &Modification<'_>| spec.format.growth_bytes(one, block_bytes);
        let table = &read.table;
        // The modifications of a bulk group come in slices, of keys from `from` on; without one all come at once. Blocks before `next`
        // are rewritten, but for what was taken back: new blocks that have keys which the next slice may change, too.
        let (mut from, mut next, mut taken_back) = (None::<Box<[u8]>>, 0, Vec::<OwnedUnits>::new());
        loop {
            let mut cut = None;
            let with_group = match &mut slices {
                None => None,
                Some(slices) => match slices.take().await {
                    Ok(Slice { queue, end }) => {
                        if queue.has_long() {
                            long.before.add_put(queue.iter());
                        }
                        let range = (from.as_deref().unwrap_or(&member.low), end.as_deref());
                        let queue = with_slice(&member.sealed.queue, Some(range), queue);
                        cut = end;
                        Some(queue)
                    }
                    Err(error) => {
                        slices.failed = Some(error);
                        return Ok(Some(Done::Postponed));
                    }
                },
            };
            let cut = cut.as_deref();
            let queue = with_group.as_ref().unwrap_or(&member.sealed.queue);
            let mut sorted = Sorted::new(&read.chunks, queue);
            if let Some(part) = &job.ingest {
                sorted = sorted.then(part.records.iter());
            }
            let mut lowest = None;
            if let Some(from) = from.as_deref() {
                while sorted.next_if(|key| key < from).is_some() {}
            } else {
                lowest = (table.len() == 0).then_some(&member.low[..]);
                *is_appended = match self.is_behind(member, &read, sorted.next_key()) {
                    _ if !read.lost.is_empty() => false,
                    Ok(is_behind) => *is_appended && is_behind,
                    Err(error) => return Ok(Some(Done::SetAside(error))),
                };
            }
            let full = if *is_appended { most } else { (most * 3 / 4).max(1) };
            let inputs = inputs_of(&read, lowest, &taken_back, next);
            let (mut passed, mut newly_taken) = (0, Vec::new());
            while let Some((mut low, mut block)) = inputs.get(passed).copied() {
                // Jobs may occupy all cores: other tasks, such as the one that writes the log, get their turn here.
                if passed % BLOCKS_AT_ONCE == 0 {
                    yield_now().await;
                }
                passed += 1;
                let next_low = inputs.get(passed).and_then(|(low, _)| *low);
                let end = match (next_low, cut) {
                    (Some(low), Some(cut)) => Some(low.min(cut)),
                    (low, cut) => low.or(cut),
                };
                let index = (next + passed).saturating_sub(taken_back.len() + 2);
                let damaged = || self.damaged_block(&member.place, index);
                // Many modifications make many blocks: these are written as they come.
                loop {
                    // A block is given away with all modifications up to its last key.
                    let last =
                        block.map(|block| spec.format.last_key(low.unwrap_or_default(), block));
                    let Ok(last) = last.transpose() else {
                        return Ok(Some(Done::SetAside(damaged())));
                    };
                    let mut some = take_some(&mut sorted, &read, (last, end), growth_max, growth);
                    if !damaged_long.is_empty() {
                        some = self.without_damaged(read.format(), some, block, &damaged_long);
                    }
                    if block.is_none() && some.is_empty() {
                        break;
                    }
                    let first = some.first().map(|first| first.key);
                    let low = low.take().or(first).unwrap_or_default();
                    let merged = self.merge_long(spec, low, block, &some, new_blocks).await?;
                    if let Some(error) = merged.unreadable {
                        return Ok(Some(Done::SetAside(error)));
                    }
                    if !self.take_made(new_blocks, long).await? {
                        return Ok(Some(Done::Postponed));
                    }
                    if !merged.is_empty() {
                        some = merged.put_into(&some);
                    }
                    let applied =
                        spec.format.apply(low, block.take(), &some, &self.kinds, new_blocks);
                    if applied.is_err() {
                        return Ok(Some(Done::SetAside(damaged())));
                    }
                    if !self.take_made(new_blocks, long).await? {
                        return Ok(Some(Done::Postponed));
                    }
                    if let Some(cut) = cut.filter(|cut| last.is_some_and(|last| last >= *cut)) {
                        while let Some((low, block)) = new_blocks.last()
                            && spec.format.last_key(low, block).is_ok_and(|last| last >= cut)
                        {
                            newly_taken.extend(new_blocks.pop());
                        }
                        newly_taken.reverse();
                    }
                    while new_blocks.len() > if *is_appended { most } else { 2 * most } {
                        let some = new_blocks.take(full);
                        if !self.write_blocks(spec, some, writes, long).await? {
                            return Ok(Some(Done::Postponed));
                        }
                    }
                }
                // What the next slice has may come before the next block.
                if cut.is_some() && end == cut {
                    break;
                }
            }
            let Some(cut) = cut else { break };
            let again = (passed - 1).min(taken_back.len());
            next += passed - 1 - again;
            newly_taken.extend(taken_back.drain(again..));
            (taken_back, from) = (newly_taken, Some(cut.into()));
            writes.written.iter_mut().for_each(|one| one.keep_table(&self.tables));
        }
        Ok(None)
    }

    /// An empty partition in the place of a job's.
    pub(super) async fn cleared(&self, job: &Job) -> Rewritten {
        let low = job.members.first().map(|first| first.low.clone()).unwrap_or_default();
        let mut before = References::default();
        for member in job.members.iter().filter(|member| member.has_long()) {
            before.add_put(member.sealed.queue.iter());
            let read = match self.read_whole(&member.place, &member.staged).await {
                Ok(read) => read,
                Err(_) => self.read_rest(&member.place, &member.staged).await,
            };
            before.add_all(self.references(&read));
        }
        let freed = self.left_runs(before, &References::default()).await;
        let written = vec![Written { low, ..Written::default() }];
        Rewritten { written, freed, ..Rewritten::default() }
    }

    /// Writes the long values that merges have made; tells whether there was space for them.
    async fn take_made(&self, new_blocks: &mut NewBlocks, long: &mut Long) -> Result<bool> {
        let Made::Device(made) = &mut new_blocks.made else { return Ok(true) };
        self.write_made(made).await?;
        long.made.append(&mut made.taken);
        Ok(!made.lacks_space)
    }

    /// Reads a partition whole, or what is left of one that is to be salvaged.
    async fn read_member(&self, member: &Member) -> Result<Content> {
        let is_to_salvage = self.glance().to_salvage.contains(&member.id);
        match is_to_salvage {
            true => Ok(self.read_rest(&member.place, &member.staged).await),
            false => self.read_whole(&member.place, &member.staged).await,
        }
    }

    /// Whether all modifications are of keys behind those of a partition's blocks.
    fn is_behind(&self, member: &Member, read: &Content, first: Option<&[u8]>) -> Result<bool> {
        let Some(last) = read.table.len().checked_sub(1) else { return Ok(true) };
        let block = read.blocks().last();
        let Some((block, first)) = block.zip(first) else { return Ok(false) };
        let last_key = read.format().last_key(read.table.low(last), block);
        let last_key = last_key.map_err(|_| self.damaged_block(&member.place, last))?;
        Ok(first > last_key)
    }

    /// Writes blocks as a partition: as several, where units of lengths of their own make them longer than one may be. Tells
    /// whether there was space.
    async fn write_blocks<'a>(
        &'a self,
        spec: &Spec,
        mut new_blocks: NewBlocks,
        writes: &mut Writes<'a>,
        long: &mut Long,
    ) -> Result<bool> {
        while !new_blocks.is_empty() {
            let count = new_blocks.fitting(spec.division.partition_bytes());
            let some = match count < new_blocks.len() {
                true => new_blocks.take(count),
                false => std::mem::replace(&mut new_blocks, NewBlocks::new(spec.block_bytes())),
            };
            if !self.write_partition(spec, some, writes, long).await? {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// Writes blocks and their table to an extent, or to several where no free run is so long. Tells whether there was space.
    async fn write_partition<'a>(
        &'a self,
        spec: &Spec,
        mut new_blocks: NewBlocks,
        writes: &mut Writes<'a>,
        long: &mut Long,
    ) -> Result<bool> {
        let mut has_long = false;
        let format = &spec.format;
        for (_, block) in new_blocks.iter().filter(|(_, block)| format.has_long_values(*block)) {
            for (_, reference) in format.references(block).unwrap_or_default() {
                has_long = true;
                long.after.add(reference);
            }
        }
        let low = new_blocks.lows.first().cloned().unwrap_or_default();
        let own_shape = new_blocks.fit().map(Arc::new);
        let shape = own_shape.as_deref().unwrap_or(&spec.shape);
        let units = shape.len();
        let units =
            new_blocks.iter().flat_map(|(_, block)| (0..units).map(move |unit| block.unit(unit)));
        let checksums = units.map(|unit| crc32c::crc32c(unit.unwrap_or_default())).collect();
        let lows = new_blocks.iter().map(|(low, _)| low);
        let table = Arc::new(BlockTable::new(lows, checksums));
        let (table_place, table_bytes) = TablePlace::of(&table);
        let directory_bytes = Partition::bytes_in_one_run(&low, &table_place);
        let again = directory_bytes.min(writes.replaced_bytes);
        writes.replaced_bytes -= again;
        writes.grown_bytes += directory_bytes - again;
        self.grow_directory(directory_bytes - again);
        if let Some((run, extents)) = self.take_in_rows(shape, new_blocks.len(), &table_place) {
            self.write_strips(shape, &run, new_blocks, &table_bytes, writes).await?;
            let location =
                Location { runs: [run].into(), table: table_place, has_long, shape: own_shape };
            writes.written.push(Written { low, extents, location, table });
            return Ok(true);
        }
        let (mut extents, mut runs) = (Vec::new(), Vec::new());
        let block = shape.block();
        let mut is_written = false;
        while !is_written {
            let count = BlockCount(new_blocks.len() as u64 * block.0) + table_place.device_blocks();
            let unit = match new_blocks.is_empty() {
                true => count,
                false => spec.division.rounded(block),
            };
            let extent = self.extents.take_part(count, unit, self.checkpoint_reserve());
            let Some(extent) = extent else {
                // Those taken so far are free when this returns.
                writes.settle().await?;
                if writes.ends_points && self.end_oldest_point() {
                    continue;
                }
                return Ok(false);
            };
            is_written = extent.blocks.count >= count;
            let room = (extent.blocks.count.0 / block.0) as usize;
            let now = new_blocks.take(room.min(new_blocks.len()));
            let count = now.len() as u32;
            let run = Run { first: extent.first(), count, rows: StripRows::ONE };
            let table_bytes: &[u8] = if is_written { &table_bytes } else { &[] };
            extents.push(extent);
            self.write_strips(shape, &run, now, table_bytes, writes).await?;
            runs.push(run);
        }
        let location =
            Location { runs: runs.into(), table: table_place, has_long, shape: own_shape };
        writes.written.push(Written { low, extents, location, table });
        Ok(true)
    }

    /// Extents for blocks and their table in rows of equivalents, where the format's units can lie so and the device has such
    /// rows free.
    fn take_in_rows(
        &self,
        shape: &Shape,
        blocks: usize,
        table: &TablePlace,
    ) -> Option<(Run, Vec<Extent>)> {
        if !StripRows::are_of(shape) {
            return None;
        }
        let (strips, count) = (shape.len(), blocks as u32);
        let length = |rows: usize, row: usize| {
            let behind = row == StripRows::table_row(rows as u32, strips);
            let behind = if behind { table.device_blocks() } else { BlockCount::ZERO };
            StripRows::row_blocks(rows as u32, row, shape, count) + behind
        };
        let Rows { extents, stride } =
            self.extents.take_rows(strips, length, self.checkpoint_reserve())?;
        let rows = StripRows { count: extents.len() as u32, stride };
        Some((Run { first: extents.first()?.first(), count, rows }, extents))
    }

    /// Writes the strips of a run's blocks, and their table behind the last: each row with one request.
    async fn write_strips<'a>(
        &'a self,
        shape: &Shape,
        run: &Run,
        mut new_blocks: NewBlocks,
        table_bytes: &[u8],
        writes: &mut Writes<'a>,
    ) -> Result<()> {
        let rows = run.rows.count;
        let table_row = StripRows::table_row(rows, new_blocks.strips.len());
        for (row, range) in run.rows(shape, BlockCount::ZERO).enumerate() {
            let mut bytes = Vec::new();
            for unit in StripRows::strips_of(rows, row, new_blocks.strips.len()) {
                let strip = new_blocks.strips.get_mut(unit).map(std::mem::take).unwrap_or_default();
                match bytes.is_empty() {
                    true => bytes = strip,
                    false => bytes.extend_from_slice(&strip),
                }
            }
            if row == table_row {
                bytes.extend_from_slice(table_bytes);
            }
            self.counts.placed_bytes.add(bytes.len() as u64);
            if let Err(error) = writes.begin(&*self.data, range.first, &bytes).await {
                // The extents are free when this returns.
                let _ = writes.settle().await;
                return Err(error);
            }
        }
        Ok(())
    }
}
