//! Reads of whole partitions, for sweeps and checks.

use std::ops::RangeInclusive;
use std::sync::Arc;

use bytes::Bytes;
use moirai_storage::{IoBuf, Request};
use moirai_units::{BlockCount, BlockRange};

use crate::codec::is_sum;
use crate::data::place::Place;
use crate::error::Result;
use crate::shared::Shared;
use crate::state::block_table::BlockTable;
use crate::state::partition::Staged;

/// What a partition has on the device.
pub(crate) struct Content {
    pub(crate) table: Arc<BlockTable>,
    /// All blocks, with zeros in the place of those that are lost; behind them may come more.
    pub(crate) blocks: IoBuf,
    /// The modifications of each chunk, without the parts that are lost.
    pub(crate) chunks: Vec<Bytes>,
    /// What cannot be read.
    pub(crate) lost: Vec<Lost>,
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
    /// All blocks, in their order.
    pub(crate) fn blocks(&self, block_bytes: usize) -> impl Iterator<Item = &[u8]> {
        self.blocks.chunks_exact(block_bytes).take(self.table.len())
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
        let mut batch: Vec<Request> = place.ranges(&self.layout).map(Request::read).collect();
        let runs = batch.len();
        let chunk_blocks = |one: &Staged| BlockRange::new(one.extent.first(), one.chunk.length());
        batch.extend(staged.iter().map(|one| Request::read(chunk_blocks(one))));
        let mut found = Content {
            table: Arc::default(),
            blocks: IoBuf::zeroed(BlockCount::ZERO),
            chunks: Vec::with_capacity(staged.len()),
            lost: Vec::new(),
        };
        if batch.is_empty() {
            return Ok(found);
        }
        let mut read = self.data.submit(batch).await.into_iter();
        let mut next = || -> Result<Option<IoBuf>> {
            Ok(read.next().transpose()?.and_then(|done| done.data.into_iter().next()))
        };
        if runs > 0 {
            let mut content = next()?.unwrap_or(IoBuf::zeroed(BlockCount::ZERO));
            if runs > 1 {
                let mut bytes = content.to_vec();
                for _ in 1..runs {
                    bytes.extend(next()?.iter().flat_map(|more| more.iter()));
                }
                content = IoBuf::holding(&bytes);
            }
            self.counts.swept_bytes.add(content.len() as u64);
            let behind = content.get(place.blocks() * self.layout.block_bytes()..);
            let table = behind.and_then(|behind| place.take_table(behind));
            found.table = table.ok_or_else(|| self.damaged_table(place))?;
            found.blocks = content;
            for (index, block) in found.blocks(self.layout.block_bytes()).enumerate() {
                if !is_sum(found.table.checksum(index), crc32c::crc32c(block)) {
                    return Err(self.damaged_block(place, index));
                }
            }
        }
        for one in staged {
            let damaged = || self.damaged_chunk(chunk_blocks(one));
            let buffer = next()?.ok_or_else(damaged)?.freeze();
            self.counts.swept_bytes.add(buffer.len() as u64);
            let bytes = buffer.get(..one.chunk.bytes()).ok_or_else(damaged)?;
            if !one.chunk.is_right(0, bytes) {
                return Err(damaged());
            }
            found.chunks.push(buffer.slice_ref(bytes));
        }
        Ok(found)
    }

    /// Reads what can be read of a partition, block by block and part by part.
    pub(crate) async fn read_rest(&self, place: &Place, staged: &[Arc<Staged>]) -> Content {
        let block_bytes = self.layout.block_bytes();
        let mut lost = Vec::new();
        let table: Arc<BlockTable> = match self.table(place).await {
            Ok(table) => table,
            Err(_) => {
                lost.extend(place.table_range(&self.layout).map(Lost::Table));
                Arc::default()
            }
        };
        let mut blocks = IoBuf::zeroed(BlockCount(self.layout.block.0 * table.len() as u64));
        for index in 0..table.len() {
            let Some(range) = place.block_at(&self.layout, index) else { continue };
            let read = self.data.read(range).await.ok().filter(|read| {
                let is_whole = is_sum(table.checksum(index), crc32c::crc32c(read));
                is_whole && self.format.last_key(table.low(index), read).is_ok()
            });
            let to = blocks.get_mut(index * block_bytes..(index + 1) * block_bytes);
            match read.zip(to) {
                Some((read, to)) => to.copy_from_slice(&read),
                None => lost.push(Lost::Block(index, range)),
            }
        }
        let mut chunks = Vec::with_capacity(staged.len());
        for one in staged {
            let mut chunk = Vec::with_capacity(one.chunk.bytes());
            for (of, bytes) in one.chunk.parts() {
                let (range, before) = self.staged_at(one, &bytes);
                let read = self.data.read(range).await.ok();
                let from = bytes.start.wrapping_sub(before);
                let read = read.as_ref().and_then(|read| read.get(from..from + bytes.len()));
                match read.filter(|read| one.chunk.is_right(bytes.start, read)) {
                    Some(read) => chunk.extend_from_slice(read),
                    None => lost.push(Lost::Staged(of, range)),
                }
            }
            chunks.push(chunk.into());
        }
        Content { table, blocks, chunks, lost }
    }
}
