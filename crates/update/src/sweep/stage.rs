//! Staging: what was sealed goes to a chunk, in an extent of its own, and the blocks stay as they are.
//!
//! A partition that is set aside has no blocks that its chunks could be applied to, so the chunks are combined with each
//! other: or keys that are modified again and again would fill the device.

use bytes::Bytes;
use moirai_storage::IoBuf;
use moirai_units::BLOCK_BYTES;

use crate::error::Result;
use crate::long::references::References;
use crate::read_whole::{chunk_blocks, runs_of};
use crate::shared::Shared;
use crate::state::chunk::{Blocks, Chunk};
use crate::state::partition::{Staged, staged_blocks};
use crate::sweep::done::{Done, Staging};
use crate::sweep::job::Member;

/// A partition is rewritten once deletes come to this part of its blocks' bytes: they are short beside what they delete.
const DELETED_SHARE: u64 = 8;
/// Bytes of a chunk that are read as fast as a part of them.
const READ_AT_ONCE: usize = 4 << 10;

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
        if limit == Limit::Partition {
            // A queue that is too long as it is may be short enough once it is combined; a quarter is worth the try.
            let worth = used.bytes().0 as usize + queue.bytes() / 4;
            // Where there are no blocks, making some is as cheap.
            if member.place.blocks() == 0 || worth > division.staging_bytes() {
                return Ok(Done::Postponed);
            }
        }
        let (mut older, mut combined) = match limit {
            Limit::Partition => (Vec::new(), 0),
            Limit::Space => self.chunks_to_combine(member).await,
        };
        loop {
            let blocks = self.blocks_for_chunk(member, older.iter().map(Bytes::len).sum()).await;
            let format = &*member.place.spec().format;
            let (chunk, bytes, left) = Chunk::of(&older, queue, &blocks, &self.kinds, format);
            if limit == Limit::Partition
                && (used + division.rounded(chunk.length()) > division.staging
                    || self.frees_much(member, &chunk))
            {
                return Ok(Done::Postponed);
            }
            let directory_bytes = Staged::bytes_of(&chunk);
            self.grow_directory(directory_bytes);
            let reserve = match limit {
                Limit::Partition => self.reserve() + self.growth(),
                Limit::Space => self.checkpoint_reserve(),
            };
            match self.extents.take(chunk.length(), reserve) {
                Some(extent) => {
                    self.data.write(extent.first(), IoBuf::holding(&bytes)).await?;
                    self.counts.staged_bytes.add(chunk.length().bytes().0);
                    let freed = self.left_runs(left, &References::default()).await;
                    let extent = Some(extent);
                    return Ok(Done::Staged(Staging { chunk, extent, combined, freed }));
                }
                None => {
                    self.shrink_directory(directory_bytes);
                    if combined == 0 {
                        return Ok(Done::Postponed);
                    }
                    // What was sealed may fit alone, where no free run holds all of them.
                    (older, combined) = (Vec::new(), 0);
                }
            }
        }
    }

    /// The runs of the chunks with which what was sealed is combined, the oldest first, and how many chunks these are: the last
    /// ones, each no longer than all that came after it. So a modification is written again only where the chunk it is in
    /// becomes twice as long, and chunks take at most about three times what they come to once all of them are combined, unless
    /// that is more than [`Member::combined_bytes_max`].
    async fn chunks_to_combine(&self, member: &Member) -> (Vec<Bytes>, usize) {
        let bytes_max = member.combined_bytes_max(self.memory_bytes);
        let queued = member.sealed.queue.bytes().next_multiple_of(BLOCK_BYTES as usize);
        let (mut chunks, mut count, mut bytes) = (Vec::new(), 0, 0);
        for one in member.staged.iter().rev() {
            let range = chunk_blocks(one);
            let length = range.count.bytes().0 as usize;
            if length > queued + bytes || bytes + length > bytes_max {
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

    /// The blocks by which a member's chunk is divided into parts, which has so many bytes beside what was sealed. It stays one part
    /// if it is so short that a read takes all of it and the table of the blocks is not in memory, or if the table cannot be read.
    pub(super) async fn blocks_for_chunk(&self, member: &Member, more_bytes: usize) -> Blocks {
        let table = match self.tables.get(&member.place) {
            None if member.sealed.queue.bytes() + more_bytes > READ_AT_ONCE => {
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
