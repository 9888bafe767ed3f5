//! Where extents may begin so that they cross few boundaries of ensembles.
//!
//! ```text
//!  ensembles     |        e0        |        e1        |        e2        |
//!  short           [ a ]         [x | x]                                      a crosses none, x would: it begins with e1
//!  long                [ b                 ]                                  one boundary: it needs no fewer
//!                               [ y               |    ]                      two: it begins with e1
//! ```

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

    /// The end of the ensemble that holds a block; none where crossing it costs nothing, or nothing is known.
    fn end_of(&self, lbn: u64) -> Option<u64> {
        let ensemble = self.device.as_ref()?.ensemble(Lbn(lbn)).ok()?;
        (ensemble.switch > BlockCount::ZERO).then(|| ensemble.blocks.end().0)
    }

    /// How many boundaries a run of blocks crosses.
    #[must_use]
    pub fn crossed(&self, blocks: BlockRange) -> u64 {
        let (mut at, end, mut crossed) = (blocks.first.0, blocks.end().0, 0);
        while let Some(next) = self.end_of(at).filter(|next| *next < end) {
            at = next;
            crossed += 1;
        }
        crossed
    }

    /// How many boundaries as many blocks cross that begin with the next ensemble behind `first`, at a multiple of `grain`: as
    /// many as they need.
    #[must_use]
    pub fn needed(&self, first: Lbn, count: BlockCount, grain: BlockCount) -> u64 {
        let begin = self.end_of(first.0).unwrap_or(first.0).next_multiple_of(grain.0.max(1));
        self.crossed(BlockRange::new(Lbn(begin), count))
    }

    /// The first place from `first` on for `count` blocks where they cross no boundary that they need not; a multiple of
    /// `grain`.
    pub(crate) fn place(&self, first: u64, count: u64, grain: u64) -> u64 {
        let Some(end) = self.end_of(first) else { return first };
        if end - first >= count {
            return first;
        }
        let crossed = self.crossed(BlockRange::new(Lbn(first), BlockCount(count)));
        match crossed > self.needed(Lbn(first), BlockCount(count), BlockCount(grain)) {
            true => end.next_multiple_of(grain),
            false => first,
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
        let end_before = self.end_of(at)?;
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
    fn extents_cross_what_they_need() {
        let ensembles = ensembles();
        let range = |first, count| BlockRange::new(Lbn(first), BlockCount(count));
        assert_eq!(ensembles.crossed(range(0, 334)), 0);
        assert_eq!(ensembles.crossed(range(1, 334)), 1);
        assert_eq!(ensembles.crossed(range(333, 336)), 2);
        assert_eq!(ensembles.needed(Lbn(333), BlockCount(336), BlockCount(1)), 1);
        // Short ones lie within a track.
        assert_eq!(ensembles.place(0, 100, 1), 0);
        assert_eq!(ensembles.place(234, 100, 1), 234);
        assert_eq!(ensembles.place(235, 100, 1), 334);
        assert_eq!(ensembles.place(235, 100, 8), 336);
        // 500 blocks need one boundary: they may begin where the rest of the track and the next one hold them.
        assert_eq!(ensembles.place(168, 500, 1), 168);
        assert_eq!(ensembles.place(169, 500, 1), 334);
        // From behind: blocks 200 to 299 of the first track, and 234 to 333.
        assert_eq!(ensembles.place_before(0, 300, 100, 1), Some(200));
        assert_eq!(ensembles.place_before(0, 400, 100, 1), Some(234));
        assert_eq!(ensembles.place_before(300, 400, 100, 1), None);
        assert_eq!(Ensembles::none().place(235, 100, 8), 235);
    }
}
