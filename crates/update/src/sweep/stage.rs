//! Staging: what was sealed goes to a chunk, in an extent of its own, and the blocks stay as they are.

use moirai_storage::IoBuf;

use crate::error::Result;
use crate::long::sweep::References;
use crate::shared::Shared;
use crate::state::chunk::{Blocks, Chunk};
use crate::state::partition::staged_blocks;
use crate::sweep::Done;
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
            return Ok(Done::Staged(Chunk::default(), None, Vec::new()));
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
        let blocks = self.blocks_for_chunk(member).await;
        let (chunk, bytes, left) =
            Chunk::of(queue, &blocks, &self.kinds, &*member.place.spec().format);
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
        Ok(Done::Staged(chunk, Some(extent), freed))
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
