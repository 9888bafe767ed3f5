//! What a volume is at the moment: its layout, and while it grows the one that it comes from.

use crate::plan::{Plan, Present};
use crate::{DiskIndex, Layout, Level, MemberState, StripeIndex};

/// How the stripes lie on the disks; while the volume grows, how those lie that were not yet moved.
#[derive(Clone, Debug)]
pub(crate) struct Shape {
    pub(crate) layout: Layout,
    /// The layout over fewer disks that the volume grows from.
    pub(crate) old: Option<Layout>,
}

impl Shape {
    /// Whether no block is lost while the disks are as `states` say, and `moved` stripes were moved.
    pub(crate) fn is_whole(&self, states: &[MemberState], moved: u64) -> bool {
        let old = self.old.as_ref().filter(|_| moved < self.layout.stripes());
        let old_is_whole = old.is_none_or(|old| {
            states.get(..old.disks()).is_some_and(|states| is_whole(old, states))
        });
        old_is_whole && is_whole(&self.layout, states)
    }

    /// The disks that are to hold a record: enough of those `in_use` that one is left whenever the
    /// volume is whole. `rotation` says with which to begin.
    pub(crate) fn record_holders(&self, in_use: &[DiskIndex], rotation: usize) -> Vec<DiskIndex> {
        let count = self.layout.disks().max(1);
        if self.layout.level() == Level::Raid10 {
            // Other pairs may be down to one disk each, but no pair to none.
            let pairs = count / 2;
            let pair = |index: usize| -> Vec<DiskIndex> {
                let first = (rotation.wrapping_add(index) % pairs.max(1)) * 2;
                let both = [DiskIndex(first), DiskIndex(first + 1)];
                both.into_iter().filter(|disk| in_use.contains(disk)).collect()
            };
            return (0..pairs).map(pair).find(|pair| !pair.is_empty()).unwrap_or_default();
        }
        let (before, after) = in_use.split_at(rotation % in_use.len().max(1));
        after.iter().chain(before).copied().take(self.failures() + 1).collect()
    }

    /// Devices that may fail, at the most.
    pub(crate) fn failures(&self) -> usize {
        self.layout.level().failures(self.layout.disks())
    }
}

/// Whether every block of the volume is on a device that is ready, or can be worked out from those.
/// Stripes of one turn after the other say all: their roles go round.
fn is_whole(layout: &Layout, states: &[MemberState]) -> bool {
    let turns = (layout.disks() as u64).min(layout.stripes() / u64::from(layout.depth()).max(1));
    (0..turns.max(1)).all(|turn| {
        let stripe = StripeIndex(turn * u64::from(layout.depth()));
        Plan::default().read_data(layout, &Ready(states), stripe).is_ok()
    })
}

/// The disks that are ready, and no others.
struct Ready<'a>(&'a [MemberState]);

impl Present for Ready<'_> {
    fn is_present(&self, disk: DiskIndex, _: StripeIndex) -> bool {
        self.0.get(disk.0) == Some(&MemberState::Ready)
    }
}
