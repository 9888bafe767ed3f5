//! What a volume is at the moment: its layout, and while it grows the one that it comes from.

use crate::plan::{Plan, Present};
use crate::{DiskIndex, Layout, MemberState, StripeIndex};

/// How the stripes lie on the disks; while the volume grows, how those lie that were not yet moved.
#[derive(Clone, Debug)]
pub(crate) struct Shape {
    pub(crate) layout: Layout,
    /// The layout over fewer disks that the volume grows from.
    pub(crate) old: Option<Layout>,
}

impl Shape {
    /// Whether no block is lost while the disks are as `states` say.
    pub(crate) fn is_whole(&self, states: &[MemberState]) -> bool {
        let old = self.old.as_ref().is_none_or(|old| {
            states.get(..old.disks()).is_some_and(|states| is_whole(old, states))
        });
        old && is_whole(&self.layout, states)
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
