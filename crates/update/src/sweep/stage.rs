//! Staging: what was sealed goes to a chunk, in an extent of its own, and the blocks stay as they are.
//!
//! A partition that is set aside has no blocks that its chunks could be applied to, so the chunks are combined with each
//! other: or keys that are modified again and again would fill the device.

use bytes::Bytes;
use moirai_extents::Extent;
use moirai_storage::IoBuf;
use moirai_units::{BLOCK_BYTES, BlockRange};

use crate::error::Result;
use crate::long::sweep::References;
use crate::read_whole::{chunk_blocks, runs_of};
use crate::shared::Shared;
use crate::state::chunk::{Blocks, Chunk};
use crate::state::partition::staged_blocks;
use crate::sweep::Done;
use crate::sweep::job::Member;

/// A partition is rewritten once deletes come to this part of its blocks' bytes: they are short beside what they delete.
const DELETED_SHARE: u64 = 8;
/// Bytes of a chunk that are read as fast as a part of them.
const READ_AT_ONCE: usize = 4 << 10;
/// Chunks that are combined have no more than this part of the memory together, and no more than so many bytes: a chunk's
/// offsets have 32 bits.
const COMBINED_SHARE: usize = 16;
const COMBINED_BYTES_MAX: usize = 1 << 30;

/// A chunk that was written.
#[derive(Default)]
pub(super) struct Staging {
    pub(super) chunk: Chunk,
    /// None when the chunk is empty.
    pub(super) extent: Option<Extent>,
    /// So many of the partition's chunks, those that were staged last, are in this one.
    pub(super) combined: usize,
    /// Blocks of long values that it leaves out.
    pub(super) freed: Vec<BlockRange>,
}

/// How much may be staged for a partition.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Limit {
    /// What the format allows, and space for rewriting everything is left.
    Partition,
    /// What there is space for: the partition cannot be rewritten.
    Space,
}

impl Shared {
    /// Writes what was sealed to a chunk, which has no extent when it is empty; [`Done::Postponed`] when the partition may
    /// stage no more, or no extent is free.
    pub(super) async fn stage(&self, member: &Member, limit: Limit) -> Result<Done> {
        let queue = &member.sealed.queue;
        if queue.is_empty() {
            return Ok(Done::Staged(Staging::default()));
        }
        let used = staged_blocks(&member.staged);
        let division = &member.place.spec().division;
        let (mut older, mut combined) = (Vec::new(), 0);
        match limit {
            Limit::Partition => {
                // A queue that is too long as it is may be short enough once it is combined; a quarter is worth the try.
                let worth = used.bytes().0 as usize + queue.bytes() / 4;
                // Where there are no blocks, making some is as cheap.
                if member.place.blocks() == 0 || worth > division.staging_bytes() {
                    return Ok(Done::Postponed);
                }
            }
            Limit::Space => (older, combined) = self.chunks_to_combine(member).await,
        }
        let blocks = self.blocks_for_chunk(member).await;
        let format = &*member.place.spec().format;
        let (chunk, bytes, left) = Chunk::of(&older, queue, &blocks, &self.kinds, format);
        let reserve = match limit {
            Limit::Partition if used + division.rounded(chunk.length()) > division.staging => {
                return Ok(Done::Postponed);
            }
            Limit::Partition if self.frees_much(member, &chunk) => return Ok(Done::Postponed),
            Limit::Partition => self.reserve() + self.growth(),
            Limit::Space => self.checkpoint_reserve(),
        };
        let Some(extent) = self.extents.take(chunk.length(), reserve) else {
            return Ok(Done::Postponed);
        };
        self.data.write(extent.first(), IoBuf::holding(&bytes)).await?;
        self.counts.staged_bytes.add(chunk.length().bytes().0);
        let freed = self.left_runs(left, &References::default()).await;
        Ok(Done::Staged(Staging { chunk, extent: Some(extent), combined, freed }))
    }

    /// The runs of the chunks with which what was sealed is combined, the oldest first, and how many chunks these are: the last
    /// ones, each no longer than all that came after it. So a modification is written again only where the chunk it is in
    /// becomes twice as long, and chunks take at most about three times what they come to once all of them are combined.
    async fn chunks_to_combine(&self, member: &Member) -> (Vec<Bytes>, usize) {
        let mut bytes = member.sealed.queue.bytes().next_multiple_of(BLOCK_BYTES as usize);
        let bytes_max = (self.memory_bytes / COMBINED_SHARE).min(COMBINED_BYTES_MAX);
        let (mut chunks, mut count) = (Vec::new(), 0);
        for one in member.staged.iter().rev() {
            let range = chunk_blocks(one);
            let length = range.count.bytes().0 as usize;
            if length > bytes || bytes + length > bytes_max {
                break;
            }
            let read = self.data.read(range).await.map(IoBuf::freeze);
            // One that cannot be read stays, and those before it.
            let Some(runs) = read.as_ref().ok().and_then(|read| runs_of(one, read)) else { break };
            chunks.splice(..0, runs);
            bytes += length;
            count += 1;
        }
        (chunks, count)
    }

    /// The blocks by which a member's chunk is divided into parts. The chunk stays one part if it is so short that a read takes
    /// all of it and the table of the blocks is not in memory, or if the table cannot be read.
    pub(super) async fn blocks_for_chunk(&self, member: &Member) -> Blocks {
        let table = match self.tables.get(&member.place) {
            None if member.sealed.queue.bytes() > READ_AT_ONCE => {
                self.table(&member.place).await.ok()
            }
            kept => kept,
        };
        table.map_or(Blocks::All(member.place.blocks()), Blocks::Of)
    }

    /// Whether applying what is staged, and `chunk`, would give much of the partition's space back.
    fn frees_much(&self, member: &Member, chunk: &Chunk) -> bool {
        let staged: u64 = member.staged.iter().map(|one| one.chunk.deleted_bytes()).sum();
        let blocks = (member.place.blocks() * member.place.block_bytes()) as u64;
        staged + chunk.deleted_bytes() >= blocks / DELETED_SHARE
    }
}
