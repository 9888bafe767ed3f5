//! Samples of the blocks of a range, from the directory and tables of blocks alone.

use std::ops::RangeInclusive;

use crate::error::{Error, Result};
use crate::ids::SpaceId;
use crate::read_tables::TablesAtHand;
use crate::shared::Shared;
use crate::state::State;
use crate::state::partition::Partition;
use crate::state::queue::Queue;

/// Partitions that are looked at while nobody else uses the state.
const PARTITIONS_AT_ONCE: usize = 1 << 10;

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

/// The first and the last block of some partitions: the place of each among those of the space, and which block it is.
struct Ends {
    first: (usize, usize),
    last: (usize, Option<usize>),
}

/// Some partitions of a range, and the lowest key of the next one in it.
struct SomePartitions {
    ends: Ends,
    next: Option<Box<[u8]>>,
}

/// Where a piece begins, and whether it is the first one of a range: later ones begin with a partition.
type Start = (Box<[u8]>, bool);

/// Picks blocks at equal distances in bytes.
#[derive(Clone)]
struct Picker {
    /// Whether all blocks are picked.
    is_whole: bool,
    bytes: u64,
    most: u64,
    /// Bytes of the blocks that were passed, and how many picks are in these.
    end: u64,
    pick: u64,
}

impl Picker {
    /// Picks up to `most` of the blocks of a sample.
    fn of(sample: &Sample, most: u64) -> Picker {
        let is_whole = sample.blocks <= most;
        Picker { is_whole, bytes: sample.bytes, most, end: 0, pick: 0 }
    }

    /// The byte of the next pick: the last pick is the block of the last byte.
    fn target(&self) -> u64 {
        let last = u128::from(self.bytes.saturating_sub(1));
        (last * u128::from(self.pick) / u128::from(self.most - 1)) as u64
    }

    /// Goes on with the blocks of `runs`; `None` when tables are missing.
    fn pick<'a>(
        &mut self,
        runs: impl Iterator<Item = Run<'a>>,
        tables: &mut TablesAtHand<'_>,
    ) -> Option<Vec<SampledBlock>> {
        let (mut picked, mut has_all) = (Vec::new(), true);
        let mut target = self.target();
        for Run { partition, blocks, block_bytes } in runs {
            for block in blocks {
                self.end += block_bytes;
                // The range may have grown since its bytes were counted.
                if !self.is_whole && (self.end <= target || self.pick >= self.most) {
                    continue;
                }
                while target < self.end && self.pick < self.most {
                    self.pick += 1;
                    target = self.target();
                }
                let low = match block {
                    0 => Some(partition.low.clone()),
                    block => tables.of(&partition.place).map(|table| table.low(block).into()),
                };
                has_all &= low.is_some();
                picked.extend(low.map(|low| SampledBlock { low, bytes: block_bytes }));
            }
        }
        has_all.then_some(picked)
    }
}

impl Shared {
    /// Up to `most` blocks, two at least, of those that hold the keys from `from` to `to`. Reads no block, but tables of
    /// blocks. A range of many partitions is looked at in pieces, twice: first for its bytes, and then for the picks.
    /// Sweeps and commits go on between the pieces.
    pub(crate) async fn sample(
        &self,
        space: SpaceId,
        from: &[u8],
        to: Option<&[u8]>,
        most: usize,
    ) -> Result<Sample> {
        let most = most.max(2) as u64;
        let mut sample = Sample::default();
        let mut next: Option<Start> = Some((from.into(), true));
        while let Some(start) = next {
            let found = self.with_tables(|state, tables| {
                let Some(SomePartitions { ends, next }) = piece(state, tables, space, &start, to)?
                else {
                    return Ok(None);
                };
                let mut found = Sample::default();
                for run in self.runs(state, space, &ends)? {
                    let blocks = run.blocks.count() as u64;
                    found.blocks += blocks;
                    found.bytes += blocks * run.block_bytes;
                }
                // Few partitions are sampled at one moment.
                if start.1 && next.is_none() {
                    let runs = self.runs(state, space, &ends)?;
                    let picked = Picker::of(&found, most).pick(runs, tables);
                    return Ok(picked.map(|picked| (Sample { picked, ..found }, None)));
                }
                Ok(Some((found, next)))
            });
            let (found, more) = found.await?;
            if start.1 && more.is_none() {
                return Ok(found);
            }
            sample.blocks += found.blocks;
            sample.bytes += found.bytes;
            next = more.map(|key| (key, false));
        }
        let mut picker = Picker::of(&sample, most);
        let mut next: Option<Start> = Some((from.into(), true));
        while let Some(start) = next {
            let found = self.with_tables(|state, tables| {
                let Some(SomePartitions { ends, next }) = piece(state, tables, space, &start, to)?
                else {
                    return Ok(None);
                };
                let mut picker = picker.clone();
                let picked = picker.pick(self.runs(state, space, &ends)?, tables);
                Ok(picked.map(|picked| (picked, picker, next)))
            });
            let (picked, passed, more) = found.await?;
            sample.picked.extend(picked);
            picker = passed;
            next = more.map(|key| (key, false));
        }
        Ok(sample)
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
        Ok((first.0..=last.0).filter_map(move |place| {
            let partition = state.partition(directory.at(place)?)?;
            let count = partition.place.blocks().max(1);
            let from_block = if place == first.0 { first.1 } else { 0 };
            let to_block = last.1.filter(|_| place == last.0).unwrap_or(count - 1);
            let staged: usize = partition.staged.iter().map(|one| one.chunk.bytes()).sum();
            let queued: usize = partition.queues().map(Queue::bytes).sum();
            let block_bytes = (partition.place.block_bytes() + (staged + queued) / count) as u64;
            Some(Run { partition, blocks: from_block..=to_block, block_bytes })
        }))
    }
}

/// The partitions of a range from `start` on, up to [`PARTITIONS_AT_ONCE`]; `None` when tables are missing.
fn piece(
    state: &State,
    tables: &mut TablesAtHand<'_>,
    space: SpaceId,
    (from, is_first): &Start,
    to: Option<&[u8]>,
) -> Result<Option<SomePartitions>> {
    let directory = state.spaces.get(&space).ok_or(Error::NoSpace { space })?;
    let partition_at = |place: usize| directory.at(place).and_then(|id| state.partition(id));
    let mut block_at = |place: usize, key: &[u8]| {
        partition_at(place).map_or(Some(0), |one| Some(tables.of(&one.place)?.holding(key)))
    };
    let first = state.position(space, from).unwrap_or(0);
    let first_block = if *is_first { block_at(first, from) } else { Some(0) };
    let last = match to {
        Some(to) => state.position(space, to).unwrap_or(0),
        None => directory.len().saturating_sub(1),
    };
    let end = first + PARTITIONS_AT_ONCE;
    let next = partition_at(end).filter(|_| end <= last).map(|next| next.low.clone());
    let last = match (&next, to) {
        (Some(_), _) => Some((end - 1, None)),
        (None, Some(to)) => block_at(last, to).map(|block| (last, Some(block))),
        (None, None) => Some((last, None)),
    };
    let ends = first_block.zip(last).map(|(block, last)| Ends { first: (first, block), last });
    Ok(ends.map(|ends| SomePartitions { ends, next }))
}
