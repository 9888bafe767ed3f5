//! Reads of whole partitions, for sweeps and checks.

use std::ops::{Range, RangeInclusive};
use std::sync::Arc;

use bytes::Bytes;
use moirai_runtime::now;
use moirai_storage::{IoBuf, Request};
use moirai_units::BlockRange;

use crate::block_format::BlockFormat;
use crate::codec::is_sum;
use crate::data::place::Place;
use crate::data::strips::StripRows;
use crate::error::Result;
use crate::shape::Shape;
use crate::shared::Shared;
use crate::spec::Spec;
use crate::state::block_table::BlockTable;
use crate::state::partition::Staged;
use crate::units::Block;

/// What a partition has on the device.
pub(crate) struct Content {
    spec: Arc<Spec>,
    shape: Shape,
    pub(crate) table: Arc<BlockTable>,
    /// All blocks, with zeros in the place of those that are lost: the strips of each run, with how many blocks it has.
    runs: Vec<(Vec<Bytes>, usize)>,
    /// The runs of each chunk, oldest first, without the parts that are lost.
    pub(crate) chunks: Vec<Bytes>,
    /// What cannot be read.
    pub(crate) lost: Vec<Lost>,
}

/// The device blocks of a chunk.
pub(crate) fn chunk_blocks(one: &Staged) -> BlockRange {
    BlockRange::new(one.extent.first(), one.chunk.length())
}

/// The runs of a chunk, given what is in its blocks; `None` when that is not the chunk.
pub(crate) fn runs_of<'a>(
    one: &'a Staged,
    content: &'a Bytes,
) -> Option<impl Iterator<Item = Bytes> + use<'a>> {
    let bytes = content.get(..one.chunk.bytes())?;
    let run = |(_, run)| bytes.get::<Range<usize>>(run).map(|run| content.slice_ref(run));
    one.chunk.is_right(0, bytes).then(|| one.chunk.runs().filter_map(run))
}

/// Something of a partition that cannot be read.
#[derive(Clone)]
pub(crate) enum Lost {
    /// The table, and so all blocks.
    Table(BlockRange),
    Block(usize, BlockRange),
    /// A part of a chunk, with the blocks that it is for.
    Staged(RangeInclusive<usize>, BlockRange),
}

impl Content {
    pub(crate) fn format(&self) -> &dyn BlockFormat {
        &*self.spec.format
    }

    /// All blocks, in their order.
    pub(crate) fn blocks(&self) -> impl Iterator<Item = Block<'_>> {
        let unit_bytes = &self.shape.unit_bytes;
        let blocks = self.runs.iter().flat_map(move |(strips, count)| {
            (0..*count).map(move |index| Block::read(strips, index, unit_bytes))
        });
        blocks.take(self.table.len())
    }

    /// Whether the block that a key is of could be read, or there is none.
    pub(crate) fn has_block_of(&self, key: &[u8]) -> bool {
        let has_table = !self.lost.iter().any(|lost| matches!(lost, Lost::Table(_)));
        has_table && self.has_block(self.table.holding(key))
    }

    pub(crate) fn has_block(&self, index: usize) -> bool {
        !self.lost.iter().any(|lost| matches!(lost, Lost::Block(lost, _) if *lost == index))
    }
}

impl Shared {
    /// Reads all blocks of a partition, their table, and all that is staged: a request for each extent, all at the same time.
    pub(crate) async fn read_whole(
        &self,
        place: &Place,
        staged: &[Arc<Staged>],
    ) -> Result<Content> {
        let mut batch: Vec<Request> = place.ranges().map(Request::read).collect();
        let runs = batch.len();
        batch.extend(staged.iter().map(|one| Request::read(chunk_blocks(one))));
        let shape = place.shape();
        let mut found = Content {
            spec: Arc::clone(place.spec()),
            shape: shape.clone(),
            table: Arc::default(),
            runs: Vec::with_capacity(runs),
            chunks: Vec::with_capacity(staged.len()),
            lost: Vec::new(),
        };
        if batch.is_empty() {
            return Ok(found);
        }
        let (asked, bytes) = (now(), place.device_blocks().bytes().0);
        let mut read = self.data.submit(batch).await.into_iter();
        self.note_read(now().since(asked), bytes);
        let mut next = || -> Result<Option<Bytes>> {
            let data = read.next().transpose()?.and_then(|done| done.data.into_iter().next());
            Ok(data.map(IoBuf::freeze))
        };
        if runs > 0 {
            let mut table = place.short_table().cloned();
            for run in &place.location().runs {
                let (rows, count) = (run.rows.count, run.count as usize);
                let mut strips = vec![Bytes::new(); shape.len()];
                for row in 0..rows as usize {
                    let content = next()?.unwrap_or_default();
                    self.counts.swept_bytes.add(content.len() as u64);
                    let of_row = StripRows::strips_of(rows, row, strips.len());
                    let mut end = 0;
                    for (unit, strip) in shape.strips(of_row.clone(), &content, count) {
                        end += strip.len();
                        if let Some(to) = strips.get_mut(unit) {
                            *to = strip;
                        }
                    }
                    if row == StripRows::table_row(rows, strips.len()) && table.is_none() {
                        // Only behind the last run there is one.
                        table = content.get(end..).and_then(|behind| place.take_table(behind));
                    }
                }
                found.runs.push((strips, count));
            }
            found.table = table.ok_or_else(|| self.damaged_table(place))?;
            for (index, block) in found.blocks().enumerate() {
                for unit in 0..shape.len() {
                    let content = block.unit(unit).unwrap_or_default();
                    if !is_sum(found.table.checksum(index, unit), crc32c::crc32c(content)) {
                        return Err(self.damaged_unit(place, index, unit));
                    }
                }
            }
        }
        for one in staged {
            let damaged = || self.damaged_chunk(chunk_blocks(one));
            let buffer = next()?.ok_or_else(damaged)?;
            self.counts.swept_bytes.add(buffer.len() as u64);
            found.chunks.extend(runs_of(one, &buffer).ok_or_else(damaged)?);
        }
        Ok(found)
    }

    /// Reads what can be read of a partition, block by block and part by part.
    pub(crate) async fn read_rest(&self, place: &Place, staged: &[Arc<Staged>]) -> Content {
        let (spec, shape) = (place.spec(), place.shape());
        let mut lost = Vec::new();
        let table: Arc<BlockTable> = match self.table(place).await {
            Ok(table) => table,
            Err(_) => {
                lost.extend(place.table_range().map(Lost::Table));
                Arc::default()
            }
        };
        let zeroed = |bytes: &usize| vec![0; bytes * table.len()];
        let mut strips: Vec<Vec<u8>> = shape.unit_bytes.iter().map(zeroed).collect();
        for index in 0..table.len() {
            let mut units = vec![Vec::new(); strips.len()];
            let mut unreadable = None;
            for (unit, content) in units.iter_mut().enumerate() {
                let Some(range) = place.unit_at(index, unit) else { continue };
                let read = self.data.read(range).await.ok();
                let sum = table.checksum(index, unit);
                match read.filter(|read| is_sum(sum, crc32c::crc32c(read))) {
                    Some(read) => *content = read.to_vec(),
                    None => unreadable = unreadable.or(Some(range)),
                }
            }
            let block = Block::made(&units, 0, &shape.unit_bytes);
            let is_whole = unreadable.is_none();
            if !is_whole || spec.format.last_key(table.low(index), block).is_err() {
                lost.extend(
                    unreadable
                        .or_else(|| place.unit_at(index, 0))
                        .map(|range| Lost::Block(index, range)),
                );
                continue;
            }
            for ((strip, content), bytes) in strips.iter_mut().zip(&units).zip(&*shape.unit_bytes) {
                if let Some(to) = strip.get_mut(index * bytes..(index + 1) * bytes) {
                    to.copy_from_slice(content);
                }
            }
        }
        let mut chunks = Vec::with_capacity(staged.len());
        for one in staged {
            // What changes one unit may build on what the first run had for the same blocks.
            let mut lost_before: Vec<RangeInclusive<usize>> = Vec::new();
            for (is_any_unit, run) in one.chunk.runs() {
                let mut content = Vec::with_capacity(run.len());
                let parts = one.chunk.parts().filter(|(_, bytes)| run.contains(&bytes.start));
                for (of, bytes) in parts {
                    let (range, before) = self.staged_at(one, &bytes);
                    let is_apart = |lost: &RangeInclusive<usize>| {
                        lost.end() < of.start() || of.end() < lost.start()
                    };
                    let read = match lost_before.iter().all(is_apart) {
                        true => self.data.read(range).await.ok(),
                        false => None,
                    };
                    let from = bytes.start.wrapping_sub(before);
                    let read = read.as_ref().and_then(|read| read.get(from..from + bytes.len()));
                    match read.filter(|read| one.chunk.is_right(bytes.start, read)) {
                        Some(read) => content.extend_from_slice(read),
                        None => {
                            if is_any_unit {
                                lost_before.push(of.clone());
                            }
                            lost.push(Lost::Staged(of, range));
                        }
                    }
                }
                chunks.push(content.into());
            }
        }
        let strips = strips.into_iter().map(Bytes::from).collect();
        let runs = vec![(strips, table.len())];
        Content { spec: Arc::clone(spec), shape: shape.clone(), table, runs, chunks, lost }
    }
}
