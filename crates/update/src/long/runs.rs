//! The device blocks that long values take.

use std::collections::BTreeMap;

use moirai_units::{BlockCount, BlockRange, Lbn};

use crate::codec::{Taker, put_number};

/// Bytes of memory for a run: two numbers, and their part of a node that is two thirds full.
const RUN_BYTES: usize = 32;

/// Runs of blocks; runs that touch are one. So long values that lie side by side take the memory of one.
#[derive(Debug, Default)]
pub(crate) struct Runs {
    /// The first block of each, and how many there are.
    runs: BTreeMap<u64, u64>,
    blocks: u64,
}

impl Runs {
    /// Blocks of all runs.
    pub(crate) fn blocks(&self) -> BlockCount {
        BlockCount(self.blocks)
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = BlockRange> + Clone + '_ {
        self.runs.iter().map(|(first, count)| BlockRange::new(Lbn(*first), BlockCount(*count)))
    }

    /// Bytes of memory.
    pub(crate) fn memory_bytes(&self) -> usize {
        self.runs.len() * RUN_BYTES
    }

    /// Adds a run; `None` when some of it is there.
    pub(crate) fn insert(&mut self, run: BlockRange) -> Option<()> {
        let (mut first, mut count) = (run.first.0, run.count.0);
        let end = first.checked_add(count)?;
        let before = self.runs.range(..end).next_back().map(|(first, count)| (*first, *count));
        if let Some((other, length)) = before {
            if other + length > first {
                return None;
            }
            if other + length == first {
                (first, count) = (other, count + length);
            }
        }
        if let Some(length) = self.runs.remove(&end) {
            count += length;
        }
        self.runs.insert(first, count);
        self.blocks += run.count.0;
        Some(())
    }

    /// Removes a run; `None` when some of it is not there.
    pub(crate) fn remove(&mut self, run: BlockRange) -> Option<()> {
        let first = run.first.0;
        let end = first.checked_add(run.count.0)?;
        let (other, length) = self.runs.range(..=first).next_back()?;
        let (other, other_end) = (*other, other + length);
        if other_end < end || run.is_empty() {
            return None;
        }
        self.runs.remove(&other);
        for (first, end) in [(other, first), (end, other_end)] {
            if end > first {
                self.runs.insert(first, end - first);
            }
        }
        self.blocks -= run.count.0;
        Some(())
    }

    pub(crate) fn encode(&self, out: &mut Vec<u8>) {
        encode_runs(out, self.iter());
    }
}

/// Appends runs: how many, and of each its first block and its length.
pub(crate) fn encode_runs(out: &mut Vec<u8>, runs: impl Iterator<Item = BlockRange> + Clone) {
    put_number(out, runs.clone().count() as u64);
    for run in runs {
        put_number(out, run.first.0);
        put_number(out, run.count.0);
    }
}

/// The runs that [`encode_runs`] appended.
pub(crate) fn take_runs(taker: &mut Taker<'_>) -> Option<Vec<BlockRange>> {
    let mut runs = Vec::new();
    for _ in 0..taker.number()? {
        runs.push(BlockRange { first: Lbn(taker.number()?), count: BlockCount(taker.number()?) });
    }
    Some(runs)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn runs_hold_the_blocks_that_were_added(
            changes in prop::collection::vec((any::<bool>(), 0_u64..40, 1_u64..6), 0..80)
        ) {
            let (mut runs, mut model) = (Runs::default(), [false; 48]);
            for (is_added, first, count) in changes {
                let run = BlockRange::new(Lbn(first), BlockCount(count));
                let places = first as usize..(first + count) as usize;
                let fits = model[places.clone()].iter().all(|is_there| *is_there != is_added);
                let done = if is_added { runs.insert(run) } else { runs.remove(run) };
                prop_assert_eq!(done.is_some(), fits);
                if fits {
                    model[places].fill(is_added);
                }
                let mut found = [false; 48];
                for run in runs.iter() {
                    found[run.first.0 as usize..run.end().0 as usize].fill(true);
                }
                prop_assert_eq!(found, model);
                prop_assert_eq!(runs.blocks().0 as usize, model.iter().filter(|is| **is).count());
                let all: Vec<_> = runs.iter().collect();
                prop_assert!(all.windows(2).all(|pair| pair[0].end() < pair[1].first));
            }
        }
    }
}
