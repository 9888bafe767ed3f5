//! Discarding blocks of a volume: the devices free what they hold of them, where the level allows it.
//!
//! - Without redundancy every device gets what it has of the range.
//! - All copies of a mirrored block are discarded, under the lock of its stripe, so that they stay equal. A crash
//!   before the next flush may leave copies of discarded blocks that differ, which a scrub reports.
//! - With parity nothing is discarded. The devices free their parts of a stripe one by one, and a crash between
//!   would leave parity that does not fit; the next write of a part of the stripe would carry that on, and a block
//!   worked out from it would be wrong. A record in the journal would mend that and be as long as the stripe.
//! - Blocks with checksums are not discarded (`crate::sums`), nor those of a volume that grows.

use std::sync::Arc;

use futures::future::join_all;
use moirai_runtime::spawn;
use moirai_storage::Result;
use moirai_units::{BlockCount, BlockRange};

use crate::members::Members;
use crate::stripe_io::Stripes;
use crate::{DiskIndex, Layout, Role, StripeIndex};

/// Stripes that are locked together at most.
const LOCKED_STRIPES: u64 = 1024;

/// The granularity of a discard, where it can be passed on to the devices. Copies are to stay equal, so their
/// devices must free the same blocks.
pub(crate) fn discard_granularity(layout: &Layout, members: &Members) -> Option<BlockCount> {
    if layout.level().parity_units() > 0 {
        return None;
    }
    let of_disks = || members.in_use().into_iter().map(|disk| members.device(disk));
    let mut granules = of_disks().map(|device| device.inquiry().discard);
    match layout.level().copies(layout.disks()) {
        1 => granules.flatten().max(),
        _ => {
            let first = granules.next().flatten();
            first.filter(|_| granules.all(|granule| granule == first))
        }
    }
}

impl Stripes {
    /// Discards blocks, which the volume has.
    pub(crate) async fn discard(self: &Arc<Self>, blocks: BlockRange) -> Result<()> {
        let mut at = blocks.first;
        while at < blocks.end() {
            let stripe = self.layout.place(at).stripe;
            let last = StripeIndex((stripe.0 + LOCKED_STRIPES).min(self.layout.stripes()) - 1);
            let end = self.layout.stripe_blocks(last).end().min(blocks.end());
            let (io, part) = (Arc::clone(self), BlockRange::between(at, end));
            // Once begun it is finished, so that copies stay equal.
            spawn(async move { io.discard_locked(stripe, last, part).await }).await?;
            at = end;
        }
        Ok(())
    }

    /// Discards blocks in the stripes from `first` to `last`, under their locks.
    async fn discard_locked(
        &self,
        first: StripeIndex,
        last: StripeIndex,
        blocks: BlockRange,
    ) -> Result<()> {
        let has_copies = self.layout.level().copies(self.layout.disks()) > 1;
        let mut locks = Vec::new();
        if has_copies {
            // In their order: who else has a lock waits for no other.
            for stripe in (first.0..=last.0).map(StripeIndex) {
                locks.push(self.members.lock(stripe).await);
            }
            // Another device may have come in the place of one that failed.
            if discard_granularity(&self.layout, &self.members).is_none() {
                return Ok(());
            }
        }
        let runs = self.runs_of(blocks).into_iter().zip((0..).map(DiskIndex));
        let done = join_all(runs.filter(|(_, disk)| !self.members.has_failed(*disk)).map(
            |(runs, disk)| async move {
                let device = self.members.device(disk);
                for run in runs {
                    device.discard(run).await?;
                }
                Ok(())
            },
        ));
        let done = done.await.into_iter().collect::<Result<()>>();
        // A device that fails is found out by the next write; the others hold copies.
        if has_copies { Ok(()) } else { done }
    }

    /// Where the blocks lie on each disk, in long runs.
    fn runs_of(&self, blocks: BlockRange) -> Vec<Vec<BlockRange>> {
        let copies = self.layout.level().copies(self.layout.disks());
        let mut runs: Vec<Vec<BlockRange>> = vec![Vec::new(); self.layout.disks()];
        let mut at = blocks.first;
        while at < blocks.end() {
            let place = self.layout.place(at);
            let count = place.run.min(blocks.end().since(at));
            for copy in 0..copies {
                let role = Role::Data { position: place.position, copy };
                let disk = self.layout.disk(place.stripe, role);
                let first = self.layout.unit_on(disk, place.stripe) + place.offset;
                let Some(runs) = runs.get_mut(disk.0) else { continue };
                match runs.last_mut() {
                    Some(last) if last.end() == first => last.count += count,
                    _ => runs.push(BlockRange::new(first, count)),
                }
            }
            at += count;
        }
        // The blocks of a quadrangle are turned from row to row.
        for runs in &mut runs {
            runs.sort_unstable();
            runs.dedup_by(|next, last| {
                let follows = last.end() == next.first;
                if follows {
                    last.count += next.count;
                }
                follows
            });
        }
        runs
    }
}
