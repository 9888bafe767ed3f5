//! Where extents begin, so that crossing boundaries of ensembles costs little.
//!
//! ```text
//!  ensembles     |        e0        |        e1        |        e2        |
//!                  [ a ]         [x | x]                                    a crosses none, x would: it begins with e1
//!                [ b                 ]                                      one boundary: it needs no fewer
//!                  [ c   ][ y       | ]                                     y begins where c ends: what is left of e0 is long
//! ```
//!
//! Crossing a boundary costs the time in which `switch` blocks pass (thesis 6.3.3: H), and leaving out the rest of an ensemble
//! the time in which that rest passes, since extents that are written together lie together. So an extent begins with the next
//! ensemble where that saves boundaries whose switches are longer than the rest. With each boundary avoided, whatever the rest,
//! random updates on the paper's disks were 9 % slower.

use std::sync::Arc;

use moirai_storage::Device;
use moirai_units::{BlockCount, BlockRange, Lbn};

/// The ensembles of a device, as far as crossing their boundaries costs something.
#[derive(Clone, Debug, Default)]
pub struct Ensembles {
    device: Option<Arc<dyn Device>>,
}

impl Ensembles {
    /// Those of a device.
    #[must_use]
    pub fn of(device: Arc<dyn Device>) -> Ensembles {
        Ensembles { device: Some(device) }
    }

    /// No boundaries.
    #[must_use]
    pub fn none() -> Ensembles {
        Ensembles::default()
    }

    /// The device, where it is known.
    pub(crate) fn device(&self) -> Option<&dyn Device> {
        self.device.as_deref()
    }

    /// The end of the ensemble that holds a block, and what crossing it costs; none where that is nothing, or nothing is known.
    fn end_of(&self, lbn: u64) -> Option<(u64, u64)> {
        let ensemble = self.device.as_ref()?.ensemble(Lbn(lbn)).ok()?;
        (ensemble.switch > BlockCount::ZERO).then(|| (ensemble.blocks.end().0, ensemble.switch.0))
    }

    /// What crossing the end of the ensemble costs that holds a block, in blocks.
    pub(crate) fn switch(&self, lbn: u64) -> u64 {
        self.end_of(lbn).map_or(0, |(_, switch)| switch)
    }

    /// How many boundaries a run of blocks crosses.
    #[must_use]
    pub fn crossed(&self, blocks: BlockRange) -> u64 {
        let (mut at, end, mut crossed) = (blocks.first.0, blocks.end().0, 0);
        while let Some((next, _)) = self.end_of(at).filter(|(next, _)| *next < end) {
            at = next;
            crossed += 1;
        }
        crossed
    }

    /// How many of the boundaries that an extent crosses it would better not: an extent that begins with the next ensemble, at a
    /// multiple of `grain`, crosses fewer, and that is worth what is left out.
    #[must_use]
    pub fn avoidable(&self, blocks: BlockRange, grain: BlockCount) -> u64 {
        let first = blocks.first.0;
        let Some((end, switch)) = self.end_of(first) else { return 0 };
        let later = Lbn(end.next_multiple_of(grain.0.max(1)));
        let crossed = self.crossed(blocks);
        let saved = crossed.saturating_sub(self.crossed(BlockRange::new(later, blocks.count)));
        if saved * switch >= later.0 - first { saved } else { 0 }
    }

    /// Where `count` blocks begin best from `first` on: there, or with the next ensemble, at a multiple of `grain`.
    pub(crate) fn place(&self, first: u64, count: u64, grain: u64) -> u64 {
        let blocks = BlockRange::new(Lbn(first), BlockCount(count));
        match (self.avoidable(blocks, BlockCount(grain)), self.end_of(first)) {
            (1.., Some((end, _))) => end.next_multiple_of(grain),
            _ => first,
        }
    }

    /// The last such place for `count` blocks that end by `end`; `None` when there is none from `first` on.
    pub(crate) fn place_before(&self, first: u64, end: u64, count: u64, grain: u64) -> Option<u64> {
        let last = end.checked_sub(count)?;
        let at = last / grain * grain;
        if at < first {
            return None;
        }
        let placed = self.place(at, count, grain);
        if placed == at {
            return Some(at);
        }
        // Those that end with the ensemble in which it would have begun.
        let (end_before, _) = self.end_of(at)?;
        let earlier = end_before.checked_sub(count)? / grain * grain;
        (earlier >= first).then_some(earlier)
    }
}

#[cfg(test)]
mod tests {
    use moirai_devices::{Access, open};

    use super::*;

    /// The outermost tracks of an Atlas 10K have 334 sectors.
    fn ensembles() -> Ensembles {
        moirai_runtime::block_on_virtual(0, async {
            let device = open("sim:quantum-atlas-10k?data=none".parse().unwrap(), Access::Write);
            Ensembles::of(device.unwrap())
        })
    }

    #[test]
    fn extents_begin_where_boundaries_cost_little() {
        let ensembles = ensembles();
        let range = |first, count| BlockRange::new(Lbn(first), BlockCount(count));
        assert_eq!(ensembles.crossed(range(0, 334)), 0);
        assert_eq!(ensembles.crossed(range(1, 334)), 1);
        assert_eq!(ensembles.crossed(range(333, 336)), 2);
        // Between two tracks 63 blocks pass: a rest of as many is left out.
        assert_eq!(ensembles.place(0, 100, 1), 0);
        assert_eq!(ensembles.place(234, 100, 1), 234);
        assert_eq!(ensembles.place(271, 100, 1), 334);
        assert_eq!(ensembles.place(270, 100, 1), 270);
        assert_eq!(ensembles.place(275, 100, 8), 336);
        // 600 blocks need one boundary: those that begin behind the first 68 cross two.
        assert_eq!(ensembles.place(60, 600, 1), 60);
        assert_eq!(ensembles.place(300, 600, 1), 334);
        assert_eq!(ensembles.avoidable(range(300, 600), BlockCount(1)), 1);
        assert_eq!(ensembles.avoidable(range(200, 600), BlockCount(1)), 0);
        // From behind: blocks 200 to 299 of the first track, and 234 to 333.
        assert_eq!(ensembles.place_before(0, 300, 100, 1), Some(200));
        assert_eq!(ensembles.place_before(0, 380, 100, 1), Some(234));
        assert_eq!(ensembles.place_before(300, 380, 100, 1), None);
        assert_eq!(Ensembles::none().place(235, 100, 8), 235);
    }
}
