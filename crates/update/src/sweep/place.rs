//! Placing: what is staged and sealed of a partition, or of neighbours that are merged, is applied to their blocks, which
//! are written to other extents.

use std::sync::Arc;

use moirai_storage::IoBuf;
use moirai_units::{BlockCount, BlockRange};

use crate::block_format::{Made, Pieces};
use crate::data::extents::Extent;
use crate::data::place::{Location, Run, TablePlace};
use crate::error::Result;
use crate::ids::{DELETE, PUT_LONG};
use crate::kind::{Kinds, Modification};
use crate::long::sweep::References;
use crate::read_whole::Content;
use crate::shared::Shared;
use crate::state::block_table::BlockTable;
use crate::state::queue::{decode, sorted};
use crate::sweep::Done;
use crate::sweep::job::{Job, Member};

/// The new blocks of a partition, or of neighbours that were merged.
pub(super) struct Rewritten {
    pub(super) written: Vec<Written>,
    /// Modifications that did not fit their values.
    pub(super) refused: u64,
    /// Extents of long values that merges made.
    pub(super) made: Vec<Extent>,
    /// Blocks of long values that nothing refers to any more.
    pub(super) freed: Vec<BlockRange>,
}

/// Blocks that were written: a partition to be.
#[derive(Default)]
pub(super) struct Written {
    pub(super) low: Box<[u8]>,
    pub(super) extents: Vec<Extent>,
    pub(super) location: Location,
    pub(super) table: Arc<BlockTable>,
}

/// The long values of what is rewritten.
#[derive(Default)]
struct Long {
    /// What the partitions refer to, before and after.
    before: References,
    after: References,
    made: Vec<Extent>,
}

/// A block of a partition, if it has any, and the modifications that go into it.
struct BlockWork<'a> {
    index: usize,
    low: &'a [u8],
    block: Option<&'a [u8]>,
    now: &'a [Modification<'a>],
}

/// The modifications without those that build on a value of a block that is lost.
fn with_base<'a>(read: &Content, sorted: &[Modification<'a>]) -> Vec<Modification<'a>> {
    let mut all = Vec::with_capacity(sorted.len());
    for of_key in sorted.chunk_by(|one, next| one.key == next.key) {
        let Some(first) = of_key.first() else { continue };
        let from = match read.has_block_of(first.key) {
            true => Some(0),
            false => of_key.iter().rposition(|one| Kinds::replaces(one.kind)),
        };
        all.extend(from.and_then(|from| of_key.get(from..)).unwrap_or_default());
    }
    all
}

/// The modifications, behind deletes of the values that are damaged; a put of a damaged value is a delete.
fn without_damaged<'a>(
    all: &[Modification<'a>],
    deletes: Vec<Modification<'a>>,
    damaged: &References,
) -> Vec<Modification<'a>> {
    let put = |one: &Modification<'a>| match one.kind == PUT_LONG && damaged.has(one.bytes) {
        true => Modification { kind: DELETE, bytes: &[], ..*one },
        false => *one,
    };
    sorted(deletes.into_iter().chain(all.iter().map(put)))
}

impl Shared {
    /// Applies the staged and sealed modifications of a job's partitions, and writes the blocks that result to new
    /// extents: as one partition where they fit, as two halves up to twice as many, and else as partitions that are
    /// three quarters full. Keys that are appended in order fill them. [`Done::Postponed`] when there is no space,
    /// [`Done::SetAside`] when something cannot be read.
    pub(super) async fn place(&self, job: &Job) -> Result<Done> {
        let block_bytes = self.layout.block_bytes();
        let mut pieces = Pieces::on_device(block_bytes, &self.extents, self.checkpoint_reserve());
        let mut written = Vec::new();
        // The long values that the partitions refer to, before and after.
        let mut long = Long::default();
        let is_to_salvage = |member: &Member| self.state().to_salvage.contains(&member.id);
        let most = self.layout.partition_blocks as usize;
        let mut is_appended = job.members.len() == 1;
        let low = job.members.first().map(|first| first.low.clone()).unwrap_or_default();
        for member in &job.members {
            let read = match self.read_member(member).await {
                Ok(read) => read,
                Err(error) => return Ok(Done::SetAside(error)),
            };
            let staged = read.chunks.iter().flat_map(|chunk| decode(chunk));
            let mut sorted = sorted(staged.chain(member.sealed.queue.iter()));
            if member.has_long() {
                long.before.add_all(self.references(&read));
                long.before.add_put(member.sealed.queue.iter());
            }
            if !read.lost.is_empty() {
                sorted = with_base(&read, &sorted);
            }
            if member.has_long() && is_to_salvage(member) {
                let damaged = self.damaged_long_values(&read).await;
                let damaged = References::of(damaged.into_iter().map(|(_, reference)| reference));
                sorted = without_damaged(&sorted, self.deletes_of(&read, &damaged), &damaged);
            }
            is_appended = match self.is_behind(member, &read, &sorted) {
                _ if !read.lost.is_empty() => false,
                Ok(is_behind) => is_appended && is_behind,
                Err(error) => return Ok(Done::SetAside(error)),
            };
            let full = if is_appended { most } else { (most * 3 / 4).max(1) };
            for BlockWork { index, mut low, mut block, mut now } in
                self.blocks_of(member, &read, &sorted)
            {
                let damaged = || self.damaged_block(&member.place, index);
                // Many modifications make many blocks: these are written as they come.
                while block.is_some() || !now.is_empty() {
                    // A block is given away with all modifications up to its last key.
                    let of_block = match block {
                        Some(block) => {
                            let Ok(last) = self.format.last_key(low, block) else {
                                return Ok(Done::SetAside(damaged()));
                            };
                            now.partition_point(|one| one.key <= last)
                        }
                        None => 0,
                    };
                    let (some, others) = now.split_at(of_block.max(self.at_once(now)));
                    pieces.bases = match self.bases(low, block, some).await {
                        Ok(bases) => bases,
                        Err(error) => return Ok(Done::SetAside(error)),
                    };
                    let applied =
                        self.format.apply(low, block.take(), some, &self.kinds, &mut pieces);
                    if applied.is_err() {
                        return Ok(Done::SetAside(damaged()));
                    }
                    if !self.write_made(&mut pieces, &mut long).await? {
                        return Ok(Done::Postponed);
                    }
                    now = others;
                    low = now.first().map_or(low, |first| first.key);
                    while pieces.len() > 2 * most {
                        if !self.write_blocks(pieces.take(full), &mut written, &mut long).await? {
                            return Ok(Done::Postponed);
                        }
                    }
                }
            }
        }
        if pieces.len() > most {
            let count = if is_appended { most } else { pieces.len().div_ceil(2) };
            if !self.write_blocks(pieces.take(count), &mut written, &mut long).await? {
                return Ok(Done::Postponed);
            }
        }
        let refused = pieces.refused();
        if !self.write_blocks(pieces, &mut written, &mut long).await? {
            return Ok(Done::Postponed);
        }
        self.counts.placed.add(1);
        // The first has all keys from the old partition's lowest on.
        match written.first_mut() {
            Some(first) => first.low = low,
            None => written.push(Written { low, ..Written::default() }),
        }
        let Long { before, after, made } = long;
        let freed = self.left_runs(before, &after).await;
        Ok(Done::Placed(Rewritten { written, refused, made, freed }))
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
        Rewritten { written, refused: 0, made: Vec::new(), freed }
    }

    /// Writes the long values that merges have made; tells whether there was space for them.
    async fn write_made(&self, pieces: &mut Pieces, long: &mut Long) -> Result<bool> {
        pieces.bases.clear();
        let Made::Device(made) = &mut pieces.made else { return Ok(true) };
        for write in made.writes.drain(..) {
            self.write_long(write).await?;
        }
        long.made.append(&mut made.taken);
        Ok(!made.lacks_space)
    }

    /// Reads a partition whole, or what is left of one that is to be salvaged.
    async fn read_member(&self, member: &Member) -> Result<Content> {
        let is_to_salvage = self.state().to_salvage.contains(&member.id);
        match is_to_salvage {
            true => Ok(self.read_rest(&member.place, &member.staged).await),
            false => self.read_whole(&member.place, &member.staged).await,
        }
    }

    /// The blocks of a partition but those that are lost, each with its modifications, and before them what comes before
    /// the first.
    fn blocks_of<'a>(
        &self,
        member: &'a Member,
        read: &'a Content,
        sorted: &'a [Modification<'a>],
    ) -> Vec<BlockWork<'a>> {
        let table = &read.table;
        let first = table.len().min(1);
        let before = match first {
            0 => sorted.len(),
            _ => sorted.partition_point(|one| one.key < table.low(0)),
        };
        let (now, mut rest) = sorted.split_at(before);
        let low = now.first().filter(|_| first > 0).map_or(&member.low[..], |one| one.key);
        let mut all = vec![BlockWork { index: 0, low, block: None, now }];
        for (index, block) in read.blocks(self.layout.block_bytes()).enumerate() {
            let of_block = match index + 1 < table.len() {
                true => rest.partition_point(|one| one.key < table.low(index + 1)),
                false => rest.len(),
            };
            let (now, later) = rest.split_at(of_block);
            rest = later;
            let block = Some(block).filter(|_| read.has_block(index));
            all.push(BlockWork { index, low: table.low(index), block, now });
        }
        all
    }

    /// How many of these modifications are applied at once: those of a key together.
    fn at_once(&self, modifications: &[Modification<'_>]) -> usize {
        let block_bytes = self.layout.block_bytes();
        let most = self.layout.partition_bytes();
        let mut bytes = 0;
        for (index, pair) in modifications.windows(2).enumerate() {
            let [one, next] = pair else { break };
            bytes += self.format.growth_bytes(one, block_bytes);
            if bytes > most && one.key != next.key {
                return index + 1;
            }
        }
        modifications.len()
    }

    /// Whether all modifications are of keys behind those of a partition's blocks.
    fn is_behind(
        &self,
        member: &Member,
        read: &Content,
        sorted: &[Modification<'_>],
    ) -> Result<bool> {
        let Some(last) = read.table.len().checked_sub(1) else { return Ok(true) };
        let block = read.blocks(self.layout.block_bytes()).last();
        let Some((block, first)) = block.zip(sorted.first()) else { return Ok(false) };
        let last_key = self.format.last_key(read.table.low(last), block);
        let last_key = last_key.map_err(|_| self.damaged_block(&member.place, last))?;
        Ok(first.key > last_key)
    }

    /// Writes blocks and their table to an extent, or to several where no free run is so long. Tells whether there was space.
    async fn write_blocks(
        &self,
        mut pieces: Pieces,
        written: &mut Vec<Written>,
        long: &mut Long,
    ) -> Result<bool> {
        if pieces.is_empty() {
            return Ok(true);
        }
        let mut has_long = false;
        for (_, block) in pieces.iter().filter(|(_, block)| self.format.has_long_values(block)) {
            for (_, reference) in self.format.references(block).unwrap_or_default() {
                has_long = true;
                long.after.add(reference);
            }
        }
        let low = pieces.lows.first().cloned().unwrap_or_default();
        let table = pieces.iter().map(|(low, block)| (low, crc32c::crc32c(block)));
        let table = Arc::new(BlockTable::new(table));
        let (table_place, table_bytes) = TablePlace::of(&table);
        let (mut extents, mut runs) = (Vec::new(), Vec::new());
        let block = self.layout.block;
        let mut is_written = false;
        while !is_written {
            let count = BlockCount(pieces.len() as u64 * block.0) + table_place.device_blocks();
            let unit = match pieces.is_empty() {
                true => count,
                false => self.layout.extent_of(1),
            };
            let extent = self.extents.take_part(count, unit, self.checkpoint_reserve());
            let Some(extent) = extent else { return Ok(false) };
            is_written = extent.blocks.count >= count;
            let room = (extent.blocks.count.0 / block.0) as usize;
            let now = pieces.take(room.min(pieces.len()));
            runs.push(Run { first: extent.first(), count: now.len() as u32 });
            let mut bytes = now.bytes;
            if is_written {
                bytes.extend_from_slice(&table_bytes);
            }
            self.counts.placed_bytes.add(bytes.len() as u64);
            self.data.write(extent.first(), IoBuf::holding(&bytes)).await?;
            extents.push(extent);
        }
        let location = Location { runs, table: table_place, has_long };
        written.push(Written { low, extents, location, table });
        Ok(true)
    }
}
