//! Objects over several arrays: stripe units in turn (placement paper 2, figure 1).
//!
//! Narrow striping puts an object on one array, wide striping on all. The units of a request on one
//! array follow each other there, so each array has at most one part of a request.

use moirai_units::{BlockCount, BlockRange, Lbn};

/// Stripe units of an object in turn over some arrays.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Spread {
    /// The number of arrays, 1 or more.
    pub(crate) arrays: usize,
    /// The blocks of a stripe unit.
    pub(crate) unit: BlockCount,
}

impl Spread {
    /// The blocks that each array has of an object of `size`.
    #[must_use]
    pub(crate) fn share(&self, size: BlockCount) -> BlockCount {
        match self.arrays {
            0 | 1 => size,
            arrays => {
                let units = size.0.div_ceil(self.unit.0.max(1));
                BlockCount(units.div_ceil(arrays as u64) * self.unit.0)
            }
        }
    }

    /// The parts of `blocks`: which of the arrays has it, and its blocks there.
    pub(crate) fn parts(self, blocks: BlockRange) -> impl Iterator<Item = (usize, BlockRange)> {
        let (arrays, unit) = (self.arrays.max(1) as u64, self.unit.0.max(1));
        let units = match (arrays, blocks.is_empty()) {
            (1, _) | (_, true) => 0..0,
            _ => blocks.first.0 / unit..blocks.end().0.div_ceil(unit),
        };
        let alone = (arrays == 1).then_some((0, blocks));
        let among = (units.end - units.start).min(arrays);
        let spread = (units.start..units.start + among).map(move |first| {
            // The last unit of the request that this array has.
            let last = first + (units.end - 1 - first) / arrays * arrays;
            let place = |lbn: u64, index: u64| (index / arrays) * unit + (lbn - index * unit);
            let begin = place(blocks.first.0.max(first * unit), first);
            let end = place(blocks.end().0.min((last + 1) * unit), last);
            let range = BlockRange::between(Lbn(begin), Lbn(end));
            ((first % arrays) as usize, range)
        });
        alone.into_iter().chain(spread)
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;

    /// Compared with what a block at a time gives.
    #[test]
    fn every_block_is_on_the_array_of_its_unit() {
        for (arrays, unit) in [(1, 4), (2, 4), (3, 5), (4, 1)] {
            let spread = Spread { arrays, unit: BlockCount(unit) };
            for first in 0..30 {
                for count in 1..40 {
                    let mut expected: BTreeMap<usize, Vec<u64>> = BTreeMap::new();
                    for lbn in first..first + count {
                        let index = lbn / unit;
                        let on = expected.entry((index % arrays as u64) as usize).or_default();
                        on.push(index / arrays as u64 * unit + lbn % unit);
                    }
                    let range = BlockRange::new(Lbn(first), BlockCount(count));
                    let parts: BTreeMap<usize, Vec<u64>> = spread
                        .parts(range)
                        .map(|(array, part)| (array, (part.first.0..part.end().0).collect()))
                        .collect();
                    assert_eq!(parts, expected, "{arrays} arrays, units of {unit}, {range}");
                    let share = spread.share(BlockCount(first + count));
                    assert!(parts.values().flatten().all(|lbn| *lbn < share.0));
                }
            }
        }
    }
}
