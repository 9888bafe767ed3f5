//! Entries of the log; see `docs/formats/update-log.md`.
//!
//! A group is a sequence of entries that are durable together. Modifications come from programs, the others
//! from the engine itself.

use std::sync::Arc;

use crate::codec::{Taker, put_bytes, put_number};
use crate::ids::{KindNumber, PartitionId, SpaceId};
use crate::kind::Modification;
use crate::state::block_table::BlockTable;
use crate::state::chunk::Chunk;

/// What an entry of the engine begins with, where others have their space.
const OWN: u64 = 0;
pub(crate) const CREATE_SPACE: u8 = 1;
pub(crate) const SEAL: u8 = 2;
pub(crate) const STAGED: u8 = 3;
pub(crate) const PLACED: u8 = 4;
pub(crate) const REFUSED: u8 = 5;

#[derive(Debug)]
pub(crate) enum Entry<'a> {
    /// A modification, and it as queues have it.
    Modify { space: SpaceId, modification: Modification<'a>, encoded: &'a [u8] },
    /// A space with one partition.
    CreateSpace { space: SpaceId, partition: PartitionId },
    /// What is pending in a partition is about to leave memory; what comes is apart from it.
    Seal { partition: PartitionId },
    /// What was sealed is in the staging area.
    Staged { partition: PartitionId, chunk: Chunk },
    /// What was staged and sealed is in the blocks, which lie elsewhere now.
    Placed { partition: PartitionId, into: Vec<Placed> },
    /// Modifications that a sweep of a partition applied did not fit their values.
    Refused { partition: PartitionId, count: u64 },
}

/// One of the partitions that a partition has become.
#[derive(Clone, Debug)]
pub(crate) struct Placed {
    pub(crate) partition: PartitionId,
    /// Its lowest key.
    pub(crate) low: Box<[u8]>,
    /// `None` when it has no blocks.
    pub(crate) extent: Option<u32>,
    pub(crate) blocks: Arc<BlockTable>,
}

pub(crate) fn put_modification(out: &mut Vec<u8>, space: SpaceId, modification: Modification<'_>) {
    put_number(out, u64::from(space.0));
    crate::state::queue::encode(out, modification);
}

impl Entry<'_> {
    pub(crate) fn encode(&self, out: &mut Vec<u8>) {
        match self {
            Entry::Modify { space, modification, .. } => {
                put_modification(out, *space, *modification);
            }
            Entry::CreateSpace { space, partition } => {
                own(out, CREATE_SPACE, *partition);
                put_number(out, u64::from(space.0));
            }
            Entry::Seal { partition } => own(out, SEAL, *partition),
            Entry::Staged { partition, chunk } => {
                own(out, STAGED, *partition);
                chunk.encode(out);
            }
            Entry::Refused { partition, count } => {
                own(out, REFUSED, *partition);
                put_number(out, *count);
            }
            Entry::Placed { partition, into } => {
                own(out, PLACED, *partition);
                put_number(out, into.len() as u64);
                for placed in into {
                    put_number(out, u64::from(placed.partition.0));
                    put_bytes(out, &placed.low);
                    put_number(out, placed.extent.map_or(0, |extent| u64::from(extent) + 1));
                    placed.blocks.encode(out);
                }
            }
        }
    }

    /// The entry at the front; `None` when none of ours is there.
    #[inline]
    pub(crate) fn take<'a>(taker: &mut Taker<'a>) -> Option<Entry<'a>> {
        let space = taker.number32()?;
        if space != OWN as u32 {
            let before = taker.0;
            let kind = KindNumber(taker.byte()?);
            let modification = Modification { key: taker.bytes()?, kind, bytes: taker.bytes()? };
            let encoded = before.get(..before.len() - taker.0.len())?;
            return Some(Entry::Modify { space: SpaceId(space), modification, encoded });
        }
        let what = taker.byte()?;
        let partition = PartitionId(taker.number32()?);
        Some(match what {
            CREATE_SPACE => Entry::CreateSpace { space: taker.space()?, partition },
            SEAL => Entry::Seal { partition },
            STAGED => Entry::Staged { partition, chunk: Chunk::take(taker)? },
            REFUSED => Entry::Refused { partition, count: taker.number()? },
            PLACED => {
                let count = taker.number()?;
                let mut into = Vec::new();
                for _ in 0..count {
                    into.push(Placed {
                        partition: PartitionId(taker.number32()?),
                        low: taker.bytes()?.into(),
                        extent: taker.number32()?.checked_sub(1),
                        blocks: Arc::new(BlockTable::take(taker)?),
                    });
                }
                Entry::Placed { partition, into }
            }
            _ => return None,
        })
    }
}

fn own(out: &mut Vec<u8>, what: u8, partition: PartitionId) {
    put_number(out, OWN);
    out.push(what);
    put_number(out, u64::from(partition.0));
}
