//! Where the runs of blocks that a layout uses lie on one device.

use std::sync::Arc;

use moirai_units::{BlockCount, Lbn};

/// Runs of blocks on one device, its *slots*, numbered in the order of their blocks.
///
/// Almost everywhere they follow each other at equal distances; where a track is passed over, or a
/// zone ends, another stretch begins.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Slots {
    stretches: Vec<Stretch>,
    count: u64,
}

/// Slots at equal distances.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Stretch {
    first_slot: u64,
    first: Lbn,
    /// From the beginning of one slot to that of the next.
    distance: u64,
}

impl Slots {
    /// `count` slots side by side, from `first` on.
    pub(crate) fn side_by_side(first: Lbn, unit: BlockCount, count: u64) -> Slots {
        let distance = if count > 1 { unit.0 } else { 0 };
        Slots { stretches: vec![Stretch { first_slot: 0, first, distance }], count }
    }

    /// The first `count` of them.
    pub(crate) fn limited_to(&self, count: u64) -> Slots {
        let stretches = self.stretches.iter().filter(|stretch| stretch.first_slot < count);
        let mut stretches: Vec<Stretch> = stretches.copied().collect();
        // What lay behind is forgotten: equal places are equal slots.
        if let Some(last) = stretches.last_mut()
            && count - last.first_slot == 1
        {
            last.distance = 0;
        }
        Slots { stretches, count: self.count.min(count) }
    }

    /// A checksum of where they lie.
    pub(crate) fn checksum(&self) -> u32 {
        let numbers = |one: &Stretch| [one.first_slot, one.first.0, one.distance];
        let all = self.stretches.iter().flat_map(numbers).chain([self.count]);
        all.fold(0, |sum, number| crc32c::crc32c_append(sum, &number.to_le_bytes()))
    }

    /// Adds a slot behind the others.
    pub(crate) fn push(&mut self, first: Lbn) {
        let slot = self.count;
        self.count += 1;
        if let Some(last) = self.stretches.last_mut() {
            let slots = slot - last.first_slot;
            if slots == 1 {
                last.distance = first.since(last.first).0;
            }
            if last.first.0 + slots * last.distance == first.0 {
                return;
            }
        }
        self.stretches.push(Stretch { first_slot: slot, first, distance: 0 });
    }

    /// The first block of `slot`.
    pub(crate) fn first_block(&self, slot: u64) -> Lbn {
        let after = self.stretches.partition_point(|stretch| stretch.first_slot <= slot);
        match self.stretches.get(after.saturating_sub(1)) {
            Some(stretch) => {
                stretch.first + BlockCount((slot - stretch.first_slot) * stretch.distance)
            }
            None => Lbn(0),
        }
    }

    /// Shares what is equal: most devices of a volume have the same slots.
    pub(crate) fn shared(all: Vec<Slots>) -> Vec<Arc<Slots>> {
        let mut shared: Vec<Arc<Slots>> = Vec::with_capacity(all.len());
        for slots in all {
            let equal = shared.iter().find(|other| ***other == slots).cloned();
            shared.push(equal.unwrap_or_else(|| Arc::new(slots)));
        }
        shared
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn equal_distances_take_one_stretch() {
        let mut slots = Slots::default();
        for first in [5, 15, 25, 35, 50, 60, 70, 71] {
            slots.push(Lbn(first));
        }
        let stretches: Vec<_> = slots.stretches.iter().map(|s| (s.first_slot, s.first.0)).collect();
        assert_eq!(stretches, [(0, 5), (4, 50), (7, 71)]);
        let even = Slots::side_by_side(Lbn(8), BlockCount(4), 100);
        assert_eq!((even.first_block(0), even.first_block(99)), (Lbn(8), Lbn(8 + 99 * 4)));
        let mut five = Slots::default();
        [5, 15, 25, 35, 50].into_iter().for_each(|first| five.push(Lbn(first)));
        assert_eq!(slots.limited_to(5), five);
    }

    proptest! {
        #[test]
        fn every_slot_is_where_it_was_put(gaps in prop::collection::vec(1u64..4, 1..60)) {
            let mut slots = Slots::default();
            let mut firsts = vec![];
            let mut at = 0;
            for gap in gaps {
                at += gap;
                slots.push(Lbn(at));
                firsts.push(at);
            }
            for (slot, first) in firsts.into_iter().enumerate() {
                prop_assert_eq!(slots.first_block(slot as u64), Lbn(first));
            }
        }
    }
}
