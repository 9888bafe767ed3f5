//! Checks: everything that the engine has on the data device is read and compared with its checksums. What is damaged is
//! told, and dropped where that is asked for.

use std::ops::RangeInclusive;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use bytes::Bytes;
use futures::StreamExt;
use moirai_storage::IoBuf;
use moirai_units::{BlockCount, BlockRange};

use crate::codec::is_sum;
use crate::data::checkpoint::read_checkpoint;
use crate::data::extents::Extents;
use crate::data::place::Place;
use crate::data::superblock::Superblock;
use crate::error::{Error, Result};
use crate::ids::{PartitionId, SpaceId};
use crate::shared::Shared;
use crate::state::block_table::BlockTable;
use crate::state::chunk::Stretch;
use crate::state::partition::Staged;

/// Partitions that are read at the same time.
const READ_AHEAD: usize = 4;

/// Something on the data device that is not as it was written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Damage {
    /// What it is.
    pub what: &'static str,
    /// The device.
    pub device: String,
    /// Where it lies.
    pub blocks: BlockRange,
    /// What it holds of the records; none of a superblock or a checkpoint, which are written anew.
    pub keys: Option<DamagedKeys>,
}

/// Keys whose values, or changes, cannot be read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DamagedKeys {
    /// Their space.
    pub space: SpaceId,
    /// The lowest key that may be among them.
    pub from: Box<[u8]>,
    /// The key before which they end; none where they may be the last of the space.
    pub to: Option<Box<[u8]>>,
}

/// A partition to be read.
struct Whole {
    id: PartitionId,
    space: SpaceId,
    low: Box<[u8]>,
    /// The lowest key of the next one.
    high: Option<Box<[u8]>>,
    place: Arc<Place>,
    blocks: Arc<BlockTable>,
    staged: Vec<Arc<Staged>>,
}

/// What can be read of a partition.
pub(crate) struct Rest {
    /// All blocks, with zeros in the place of those that are lost.
    pub(crate) content: IoBuf,
    /// The modifications of each chunk, without the parts that are lost.
    pub(crate) chunks: Vec<Bytes>,
    /// What cannot be read.
    pub(crate) lost: Vec<Lost>,
}

/// A block, or a part of a chunk, that cannot be read.
pub(crate) enum Lost {
    Block(usize, BlockRange),
    /// With the blocks that it is for.
    Staged(RangeInclusive<usize>, BlockRange),
}

impl Rest {
    pub(crate) fn has_block(&self, index: usize) -> bool {
        !self.lost.iter().any(|lost| matches!(lost, Lost::Block(lost, _) if *lost == index))
    }
}

impl Whole {
    fn damage(&self, lost: Lost, device: &str) -> Damage {
        let (what, of, blocks) = match lost {
            Lost::Block(index, blocks) => ("a leaf", index..=index, blocks),
            Lost::Staged(of, blocks) => ("staged changes", of, blocks),
        };
        Damage { what, device: device.to_owned(), blocks, keys: Some(self.keys(&of)) }
    }

    /// The keys of some blocks.
    fn keys(&self, of: &RangeInclusive<usize>) -> DamagedKeys {
        let (first, last) = (*of.start(), *of.end());
        let low = |block: usize| match block {
            0 => self.low.clone(),
            block => self.blocks.low(block).into(),
        };
        let to = match last + 1 < self.blocks.len() {
            true => Some(low(last + 1)),
            false => self.high.clone(),
        };
        DamagedKeys { space: self.space, from: low(first), to }
    }
}

impl Shared {
    /// Reads everything; gives what is damaged, and the partitions that have lost something.
    pub(crate) async fn check_all(&self) -> (Vec<Damage>, Vec<PartitionId>) {
        let mut damage = self.check_checkpoint().await;
        let wholes = self.wholes();
        let mut checked = std::pin::pin!(
            futures::stream::iter(wholes)
                .map(|one| async move { (one.id, self.check_partition(&one).await) })
                .buffered(READ_AHEAD)
        );
        let mut partitions = Vec::new();
        while let Some((id, more)) = checked.next().await {
            if !more.is_empty() {
                partitions.push(id);
                damage.extend(more);
            }
        }
        (damage, partitions)
    }

    /// What is damaged of a partition; blocks are read one by one only where something is.
    async fn check_partition(&self, one: &Whole) -> Vec<Damage> {
        match self.read_whole(&one.place, &one.blocks, &one.staged).await {
            Ok((content, _)) if self.is_of_format(one, &content) => Vec::new(),
            _ => {
                let rest = self.read_rest(&one.place, &one.blocks, &one.staged).await;
                let device = &self.data.inquiry().name;
                rest.lost.into_iter().map(|lost| one.damage(lost, device)).collect()
            }
        }
    }

    /// All partitions, in the order of their keys.
    fn wholes(&self) -> Vec<Whole> {
        let state = self.state();
        let mut all: Vec<Whole> = Vec::with_capacity(state.partitions.len());
        for (space, directory) in &state.spaces {
            let first = all.len();
            for id in directory.iter() {
                let Some(one) = state.partition(id) else { continue };
                if all.len() > first
                    && let Some(before) = all.last_mut()
                {
                    before.high = Some(one.low.clone());
                }
                all.push(Whole {
                    id,
                    space: *space,
                    low: one.low.clone(),
                    high: None,
                    place: Arc::clone(&one.place),
                    blocks: Arc::clone(&one.blocks),
                    staged: one.staged.clone(),
                });
            }
        }
        all
    }

    /// Both copies of the superblock, and the checkpoint that it names. No checkpoint is taken meanwhile.
    async fn check_checkpoint(&self) -> Vec<Damage> {
        let held = self.superblock.lock().await;
        let mut damage = Superblock::damaged_copies(&*self.data, &held.0).await;
        // Where it lies is known; that it can be read is not.
        let extents = Extents::new(self.layout.data, self.layout.grain);
        match read_checkpoint(&*self.data, &held.0, &extents).await {
            Ok(_) => {}
            Err(Error::Damaged { device, what, blocks }) => {
                damage.push(Damage { what, device, blocks, keys: None });
            }
            Err(_) => {
                let device = self.data.inquiry().name.clone();
                let blocks = held.0.checkpoint.root;
                damage.push(Damage { what: "the checkpoint", device, blocks, keys: None });
            }
        }
        damage
    }

    fn is_of_format(&self, one: &Whole, content: &[u8]) -> bool {
        let mut blocks = content.chunks_exact(self.layout.block_bytes()).enumerate();
        blocks.all(|(index, block)| self.format.last_key(one.blocks.low(index), block).is_ok())
    }

    /// Reads what can be read of a partition, block by block and part by part.
    pub(crate) async fn read_rest(
        &self,
        place: &Place,
        table: &BlockTable,
        staged: &[Arc<Staged>],
    ) -> Rest {
        let block_bytes = self.layout.block_bytes();
        let content = IoBuf::zeroed(BlockCount(self.layout.block.0 * table.len() as u64));
        let mut rest = Rest { content, chunks: Vec::new(), lost: Vec::new() };
        for index in 0..table.len() {
            let Some(blocks) = place.block_at(&self.layout, index) else { continue };
            let read = self.data.read(blocks).await.ok().filter(|read| {
                let is_whole = is_sum(table.checksum(index), crc32c::crc32c(read));
                is_whole && self.format.last_key(table.low(index), read).is_ok()
            });
            let to = rest.content.get_mut(index * block_bytes..(index + 1) * block_bytes);
            match read.zip(to) {
                Some((read, to)) => to.copy_from_slice(&read),
                None => rest.lost.push(Lost::Block(index, blocks)),
            }
        }
        for one in staged {
            let mut chunk = Vec::with_capacity(one.chunk.bytes());
            for (of, Stretch { bytes, checksum }) in one.chunk.parts_of_blocks() {
                let (range, before) = self.staged_at(one, &bytes);
                let read = self.data.read(range).await.ok();
                let from = bytes.start.wrapping_sub(before);
                let read = read.as_ref().and_then(|read| read.get(from..from + bytes.len()));
                match read.filter(|read| is_sum(checksum, crc32c::crc32c(read))) {
                    Some(read) => chunk.extend_from_slice(read),
                    None => rest.lost.push(Lost::Staged(of, range)),
                }
            }
            rest.chunks.push(chunk.into());
        }
        rest
    }

    /// Drops what is damaged, and writes the rest anew.
    pub(crate) async fn drop_damaged(&self) -> Result<Vec<Damage>> {
        let (damage, partitions) = self.check_all().await;
        self.state().to_salvage.extend(partitions);
        loop {
            let swept = self.room.notified();
            self.check_running()?;
            if self.state().to_salvage.is_empty() {
                break;
            }
            if self.is_stuck.load(Ordering::Relaxed) {
                return Err(Error::full(&*self.data));
            }
            self.sweep_wake.notify_one();
            swept.await;
        }
        Ok(damage)
    }
}
