//! Samples of the blocks of a range, from the directory alone.

use std::ops::RangeInclusive;

use crate::error::{Error, Result};
use crate::ids::SpaceId;
use crate::read::in_memory;
use crate::shared::Shared;
use crate::state::State;
use crate::state::partition::Partition;

/// Some of the blocks that hold a range of keys.
#[derive(Debug, Default)]
pub struct Sample {
    /// How many blocks there are.
    pub blocks: u64,
    /// Bytes of all of them, with what is staged and pending.
    pub bytes: u64,
    /// The first block, the last one, and others at about equal distances in bytes; in the order of their keys.
    pub picked: Vec<SampledBlock>,
}

/// A block of a sample.
#[derive(Debug)]
pub struct SampledBlock {
    /// Its lowest key.
    pub low: Box<[u8]>,
    /// Its bytes, with its part of what is staged and pending for its partition.
    pub bytes: u64,
}

/// Consecutive blocks of one partition.
struct Run<'a> {
    partition: &'a Partition,
    blocks: RangeInclusive<usize>,
    /// Bytes of each.
    block_bytes: u64,
}

impl Run<'_> {
    fn low(&self, block: usize) -> Box<[u8]> {
        match block {
            0 => self.partition.low.clone(),
            block => self.partition.blocks.low(block).into(),
        }
    }
}

impl Shared {
    /// Up to `most` blocks, two at least, of those that hold the keys from `from` to `to`. Reads no block.
    pub(crate) fn sample(
        &self,
        space: SpaceId,
        from: &[u8],
        to: Option<&[u8]>,
        most: usize,
    ) -> Result<Sample> {
        let state = self.state();
        let mut sample = Sample::default();
        for run in self.runs(&state, space, from, to)? {
            let blocks = run.blocks.count() as u64;
            sample.blocks += blocks;
            sample.bytes += blocks * run.block_bytes;
        }
        let most = most.max(2);
        let is_whole = sample.blocks <= most as u64;
        // The last pick is the block of the last byte.
        let target = |pick: u64| {
            u128::from(sample.bytes.saturating_sub(1)) * u128::from(pick) / (most as u128 - 1)
        };
        let (mut end, mut pick) = (0, 0);
        for run in self.runs(&state, space, from, to)? {
            for block in run.blocks.clone() {
                end += run.block_bytes;
                if !is_whole && u128::from(end) <= target(pick) {
                    continue;
                }
                while target(pick) < u128::from(end) && pick < most as u64 {
                    pick += 1;
                }
                sample.picked.push(SampledBlock { low: run.low(block), bytes: run.block_bytes });
            }
        }
        Ok(sample)
    }

    /// The blocks that hold the keys from `from` to `to`, partition by partition.
    fn runs<'a>(
        &self,
        state: &'a State,
        space: SpaceId,
        from: &'a [u8],
        to: Option<&'a [u8]>,
    ) -> Result<impl Iterator<Item = Run<'a>>> {
        let directory = state.spaces.get(&space).ok_or(Error::NoSpace { space })?;
        let first = state.position(space, from).unwrap_or(0);
        let last = match to {
            Some(to) => state.position(space, to).unwrap_or(0),
            None => directory.len().saturating_sub(1),
        };
        let block_bytes = self.layout.block_bytes() as u64;
        Ok((first..=last).filter_map(move |place| {
            let partition = state.partition(directory.at(place)?)?;
            let count = partition.blocks.len().max(1);
            let from_block = if place == first { partition.blocks.holding(from) } else { 0 };
            let to_block = match to {
                Some(to) if place == last => partition.blocks.holding(to),
                _ => count - 1,
            };
            let staged: usize = partition.staged.iter().map(|one| one.chunk.bytes()).sum();
            let queued: usize = in_memory(partition).map(|queue| queue.bytes()).sum();
            let block_bytes = block_bytes + ((staged + queued) / count) as u64;
            Some(Run { partition, blocks: from_block..=to_block, block_bytes })
        }))
    }
}
