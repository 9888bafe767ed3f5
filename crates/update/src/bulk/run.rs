//! Sorted runs on the device: what a bulk group has that does not fit in memory, and how runs are merged again.

use std::cmp::Ordering;
use std::collections::BinaryHeap;
use std::sync::Arc;

use moirai_extents::Extent;
use moirai_units::{BlockCount, BlockRange, ByteCount, Lbn};

use crate::bulk::run_block::{Run, RunBlock};
use crate::codec::{Taker, prefix_of};
use crate::encoded::{put_modification, take_modification};
use crate::error::{Error, Result};
use crate::ids::{PointNumber, SpaceId};
use crate::kind::Modification;
use crate::shared::{Shared, Turn};
use crate::state::entry::Entry;
use crate::state::queue::Queue;

/// Modifications in memory, in the order in which they came.
#[derive(Debug, Default)]
pub(crate) struct Buffer {
    bytes: Vec<u8>,
    /// Of each, its space, what its key begins with, and where it is.
    places: Vec<(SpaceId, u64, u32)>,
}

impl Buffer {
    pub(crate) fn push(&mut self, space: SpaceId, modification: Modification<'_>) {
        let at = self.bytes.len() as u32;
        put_modification(&mut self.bytes, space, modification);
        self.places.push((space, prefix_of(modification.key), at));
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.places.is_empty()
    }

    /// Bytes of memory that it takes.
    pub(crate) fn memory_bytes(&self) -> usize {
        self.bytes.len() + self.places.len() * size_of::<(SpaceId, u64, u32)>()
    }

    /// Its modifications, in the order in which they came.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (SpaceId, Modification<'_>)> {
        let mut taker = Taker(&self.bytes);
        std::iter::from_fn(move || take(&mut taker).map(|(space, one, _)| (space, one)))
    }

    fn at(&self, place: u32) -> Option<(SpaceId, Modification<'_>, &[u8])> {
        take(&mut Taker(self.bytes.get(place as usize..)?))
    }

    /// Sorts the modifications by space and key; gives where they are.
    fn sort(&mut self) -> Vec<u32> {
        let mut places = std::mem::take(&mut self.places);
        let key = |place: u32| self.at(place).map(|(_, one, _)| one.key);
        places.sort_unstable_by(|one, other| {
            let order = (one.0, one.1).cmp(&(other.0, other.1));
            order.then_with(|| key(one.2).cmp(&key(other.2))).then(one.2.cmp(&other.2))
        });
        places.into_iter().map(|(_, _, place)| place).collect()
    }
}

/// The modification at the front, with its space and all of its bytes.
fn take<'a>(taker: &mut Taker<'a>) -> Option<(SpaceId, Modification<'a>, &'a [u8])> {
    let before = taker.0;
    let (space, modification) = take_modification(taker)?;
    Some((space, modification, before.get(..before.len() - taker.0.len())?))
}

impl Shared {
    /// Writes what a buffer has as a run of blocks of about `block_bytes`, and empties it.
    pub(crate) async fn write_run(&self, mut buffer: Buffer, block_bytes: usize) -> Result<Run> {
        let places = buffer.sort();
        let mut left = &places[..];
        let mut run = Run::new();
        let mut bytes = Vec::with_capacity(block_bytes);
        while let Some((space, first, _)) = left.first().and_then(|place| buffer.at(*place)) {
            let first = Box::from(first.key);
            let mut last: &[u8] = &[];
            bytes.clear();
            while let Some((place, others)) = left.split_first()
                && let Some((of, one, encoded)) = buffer.at(*place)
                && of == space
                && (bytes.is_empty() || bytes.len() + encoded.len() <= block_bytes)
            {
                bytes.extend_from_slice(encoded);
                last = one.key;
                left = others;
            }
            let extents = self.write_run_block(&bytes).await?;
            let (last, checksum) = (last.into(), crc32c::crc32c(&bytes));
            run.push(RunBlock { space, first, last, extents, bytes: bytes.len(), checksum });
        }
        Ok(run)
    }

    async fn write_run_block(&self, mut bytes: &[u8]) -> Result<Vec<Extent>> {
        let mut extents = Vec::new();
        while !bytes.is_empty() {
            let count = BlockCount::holding(ByteCount(bytes.len() as u64));
            let extent = self.take_for_long(count, Turn::Free).await?;
            let room = (extent.blocks.count.bytes().0 as usize).min(bytes.len());
            let (now, later) = bytes.split_at_checked(room).unwrap_or((bytes, &[]));
            // The write may outlive a future that is dropped.
            extents.push(self.write_extent(extent, now).await?);
            bytes = later;
        }
        Ok(extents)
    }

    async fn read_run_block(&self, block: &RunBlock) -> Result<Vec<u8>> {
        let mut bytes = Vec::with_capacity(block.bytes);
        for extent in &block.extents {
            let left = ByteCount((block.bytes - bytes.len()) as u64);
            let count = BlockCount::holding(left).min(extent.blocks.count);
            let read = self.data.read(BlockRange::new(extent.first(), count)).await?;
            bytes.extend_from_slice(&read);
            bytes.truncate(block.bytes);
        }
        match crc32c::crc32c(&bytes) == block.checksum && bytes.len() == block.bytes {
            true => Ok(bytes),
            false => {
                let first = block.extents.first().map_or(Lbn(0), Extent::first);
                let blocks =
                    BlockRange::new(first, BlockCount::holding(ByteCount(block.bytes as u64)));
                Err(Error::damaged(&*self.data, "a part of a bulk group", blocks))
            }
        }
    }
}

/// Runs as one.
pub(crate) struct Merge<'a> {
    shared: &'a Shared,
    runs: Vec<Cursor>,
    /// The next modification of each run.
    heads: BinaryHeap<Head>,
    /// Spaces of which each key has one modification at most.
    without_duplicates: Vec<SpaceId>,
}

struct Cursor {
    run: Arc<Run>,
    /// The block after the current one.
    next: usize,
    bytes: Vec<u8>,
    at: usize,
}

#[derive(PartialEq, Eq)]
struct Head {
    space: SpaceId,
    key: Vec<u8>,
    run: usize,
}

impl Ord for Head {
    /// The first one is the greatest.
    fn cmp(&self, other: &Head) -> Ordering {
        let one = (self.space, &self.key, self.run);
        one.cmp(&(other.space, &other.key, other.run)).reverse()
    }
}

impl PartialOrd for Head {
    fn partial_cmp(&self, other: &Head) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl<'a> Merge<'a> {
    /// Merges runs; those of one key come in the order of the runs.
    pub(crate) async fn of(
        shared: &'a Shared,
        runs: &[Arc<Run>],
        without_duplicates: &[SpaceId],
    ) -> Result<Merge<'a>> {
        let cursor =
            |run: &Arc<Run>| Cursor { run: Arc::clone(run), next: 0, bytes: Vec::new(), at: 0 };
        let (runs_of, heads) = (runs.iter().map(cursor).collect(), BinaryHeap::new());
        let mut merge =
            Merge { shared, runs: runs_of, heads, without_duplicates: without_duplicates.to_vec() };
        for run in 0..merge.runs.len() {
            merge.advance(run, Vec::new()).await?;
        }
        Ok(merge)
    }

    /// Puts the next modification of a run among the heads; `key` is memory for its key.
    async fn advance(&mut self, run: usize, mut key: Vec<u8>) -> Result<()> {
        let Some(cursor) = self.runs.get_mut(run) else { return Ok(()) };
        while cursor.at == cursor.bytes.len() {
            let Some(block) = cursor.run.get(cursor.next) else { return Ok(()) };
            cursor.bytes = self.shared.read_run_block(block).await?;
            (cursor.next, cursor.at) = (cursor.next + 1, 0);
        }
        let rest = cursor.bytes.get(cursor.at..).unwrap_or_default();
        let Some((space, one, _)) = take(&mut Taker(rest)) else {
            let blocks = BlockRange::new(Lbn(0), BlockCount::ZERO);
            return Err(Error::damaged(&*self.shared.data, "a part of a bulk group", blocks));
        };
        key.clear();
        key.extend_from_slice(one.key);
        self.heads.push(Head { space, key, run });
        Ok(())
    }

    /// The key of the modification that comes next, if it is one of `space` before the key `high`.
    pub(crate) fn next_key(&self, space: SpaceId, high: Option<&[u8]>) -> Option<&[u8]> {
        let head = self.heads.peek().filter(|head| head.space == space)?;
        high.is_none_or(|high| *head.key < *high).then_some(&head.key)
    }

    /// Takes the modifications of `space` before the key `high`, or to its last, that come next, with all of the last key's:
    /// about `bytes_max`. Tells whether more are left. [`Error::DuplicateKey`] where a key has two that is to have one.
    pub(crate) async fn take_some(
        &mut self,
        space: SpaceId,
        high: Option<&[u8]>,
        bytes_max: usize,
        into: &mut Queue,
    ) -> Result<bool> {
        let mut last: Option<Vec<u8>> = None;
        let refuses_duplicates = self.without_duplicates.contains(&space);
        while let Some(head) = self.heads.peek() {
            if self.next_key(space, high).is_none() {
                return Ok(false);
            }
            if into.bytes() >= bytes_max && last.as_ref().is_some_and(|last| *last != head.key) {
                return Ok(true);
            }
            if refuses_duplicates && last.as_ref() == Some(&head.key) {
                return Err(Error::DuplicateKey { space, key: head.key.clone() });
            }
            let Some(Head { key, run, .. }) = self.heads.pop() else { break };
            if let Some(cursor) = self.runs.get_mut(run) {
                let rest = cursor.bytes.get(cursor.at..).unwrap_or_default();
                let mut taker = Taker(rest);
                if let Some(Entry::Modify { modification, encoded, .. }) = Entry::take(&mut taker) {
                    // No read point sees them among what was sealed.
                    into.push(modification.key, encoded, PointNumber::AFTER_ALL);
                }
                cursor.at = cursor.bytes.len() - taker.0.len();
            }
            last.get_or_insert_default().clone_from(&key);
            self.advance(run, key).await?;
        }
        Ok(false)
    }
}
