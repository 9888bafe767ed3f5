//! Samples of the blocks of a range, from the directory and tables of blocks alone.

use std::ops::RangeInclusive;

use crate::error::{Error, Result};
use crate::ids::SpaceId;
use crate::read::in_memory;
use crate::read_tables::TablesAtHand;
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

/// The first and the last block of a range: the place of its partition among those of the space, and which block it is.
struct Ends {
    first: (usize, usize),
    last: (usize, Option<usize>),
}

impl Shared {
    /// Up to `most` blocks, two at least, of those that hold the keys from `from` to `to`. Reads no block, but tables of
    /// blocks.
    pub(crate) async fn sample(
        &self,
        space: SpaceId,
        from: &[u8],
        to: Option<&[u8]>,
        most: usize,
    ) -> Result<Sample> {
        self.with_tables(|state, tables| self.sample_of(state, tables, space, (from, to), most))
            .await
    }

    /// The sample; `None` when tables are missing.
    fn sample_of(
        &self,
        state: &State,
        tables: &mut TablesAtHand<'_>,
        space: SpaceId,
        (from, to): (&[u8], Option<&[u8]>),
        most: usize,
    ) -> Result<Option<Sample>> {
        let Some(ends) = ends(state, tables, space, from, to)? else { return Ok(None) };
        let mut sample = Sample::default();
        for run in self.runs(state, space, &ends)? {
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
        let mut has_all = true;
        for Run { partition, blocks, block_bytes } in self.runs(state, space, &ends)? {
            for block in blocks {
                end += block_bytes;
                if !is_whole && u128::from(end) <= target(pick) {
                    continue;
                }
                while target(pick) < u128::from(end) && pick < most as u64 {
                    pick += 1;
                }
                let low = match block {
                    0 => Some(partition.low.clone()),
                    block => tables.of(&partition.place).map(|table| table.low(block).into()),
                };
                has_all &= low.is_some();
                sample.picked.extend(low.map(|low| SampledBlock { low, bytes: block_bytes }));
            }
        }
        Ok(has_all.then_some(sample))
    }

    /// The blocks between the ends, partition by partition.
    fn runs<'a>(
        &self,
        state: &'a State,
        space: SpaceId,
        ends: &Ends,
    ) -> Result<impl Iterator<Item = Run<'a>>> {
        let directory = state.spaces.get(&space).ok_or(Error::NoSpace { space })?;
        let Ends { first, last } = *ends;
        let block_bytes = self.layout.block_bytes() as u64;
        Ok((first.0..=last.0).filter_map(move |place| {
            let partition = state.partition(directory.at(place)?)?;
            let count = partition.place.blocks().max(1);
            let from_block = if place == first.0 { first.1 } else { 0 };
            let to_block = last.1.filter(|_| place == last.0).unwrap_or(count - 1);
            let staged: usize = partition.staged.iter().map(|one| one.chunk.bytes()).sum();
            let queued: usize = in_memory(partition).map(|queue| queue.bytes()).sum();
            let block_bytes = block_bytes + ((staged + queued) / count) as u64;
            Some(Run { partition, blocks: from_block..=to_block, block_bytes })
        }))
    }
}

/// The ends of a range; `None` when tables are missing.
fn ends(
    state: &State,
    tables: &mut TablesAtHand<'_>,
    space: SpaceId,
    from: &[u8],
    to: Option<&[u8]>,
) -> Result<Option<Ends>> {
    let directory = state.spaces.get(&space).ok_or(Error::NoSpace { space })?;
    let mut block_at = |place: usize, key: &[u8]| {
        let partition = directory.at(place).and_then(|id| state.partition(id));
        partition.map_or(Some(0), |one| Some(tables.of(&one.place)?.holding(key)))
    };
    let first = state.position(space, from).unwrap_or(0);
    let first = block_at(first, from).map(|block| (first, block));
    let last = match to {
        Some(to) => {
            let last = state.position(space, to).unwrap_or(0);
            block_at(last, to).map(|block| (last, Some(block)))
        }
        None => Some((directory.len().saturating_sub(1), None)),
    };
    Ok(first.zip(last).map(|(first, last)| Ends { first, last }))
}
