//! Filling a new device with what it should hold, while the volume serves.

use std::num::NonZeroU64;
use std::pin::pin;
use std::sync::Arc;

use moirai_runtime::{now, spawn};
use moirai_storage::{Device, Error, Result};
use moirai_units::BlockRange;

use crate::members::Used;
use crate::pace::pause;
use crate::whole_units::add_blocks;
use crate::{DiskIndex, MemberState, StripeIndex, Volume};

/// How often the labels say how far it is, until it is done.
const RECORDS: u64 = 128;

impl Volume {
    /// Fills the devices that are not ready, stripe by stripe, with `bytes_per_s` at most, so that other
    /// work goes on beside it. `progress` is told after each stripe how many are done, of how many. What
    /// a crash leaves undone goes on after the next opening. Gives the blocks of the volume that are lost: what the
    /// level survives, and blocks that other disks changed or cannot read, are more than it can reconstruct. Only volumes
    /// with checksums go on past them.
    pub async fn rebuild(
        &self,
        bytes_per_s: Option<NonZeroU64>,
        mut progress: impl FnMut(u64, u64),
    ) -> Result<Vec<BlockRange>> {
        let _turn = self.rebuilding().lock().await;
        self.check_writable()?;
        self.check_grown()?;
        let mut rebuilt = Ok(());
        let mut lost = Vec::new();
        for disk in (0..self.layout().disks()).map(DiskIndex) {
            // What cannot be worked out for one disk can be for another.
            let filled = self.fill_disk(disk, bytes_per_s, &mut progress, &mut lost).await;
            rebuilt = rebuilt.and(filled);
        }
        // Two disks may have missed the same stripe.
        lost.sort_unstable_by_key(|blocks| blocks.first);
        let mut joined = Vec::new();
        lost.into_iter().for_each(|blocks| add_blocks(&mut joined, blocks));
        rebuilt.map(|()| joined)
    }

    async fn fill_disk(
        &self,
        disk: DiskIndex,
        bytes_per_s: Option<NonZeroU64>,
        progress: &mut impl FnMut(u64, u64),
        lost: &mut Vec<BlockRange>,
    ) -> Result<()> {
        let stripes = self.layout().stripes();
        let recorded = stripes.div_ceil(RECORDS);
        let device = self.members().device(disk);
        let MemberState::Rebuilding(first) = self.state(disk) else { return Ok(()) };
        for stripe in first..stripes {
            let began = now();
            let io = Arc::clone(self.stripes());
            lost.extend(spawn(async move { io.fill(StripeIndex(stripe), disk).await }).await?);
            if self.members().has_failed(disk) || !self.members().is_current(&device) {
                return Ok(());
            }
            if (stripe + 1).is_multiple_of(recorded) {
                self.record_filled(&device, stripe + 1).await?;
            }
            progress(stripe + 1, stripes);
            let unit = self.layout().unit(StripeIndex(stripe));
            pause(began, unit.bytes(), bytes_per_s).await;
        }
        match self.state(disk) {
            MemberState::Rebuilding(ready) if ready >= stripes => {
                self.record_filled(&device, u64::MAX).await
            }
            _ => Ok(()),
        }
    }

    /// Puts `device`, which loses what it holds, in the place of a disk that failed, while the volume
    /// serves. It is filled by [`Volume::rebuild`].
    pub async fn replace(&self, disk: DiskIndex, device: Arc<dyn Device>) -> Result<()> {
        let bad =
            |problem: String| Error::Description { path: self.members().name().into(), problem };
        let Some(keeper) = self.stripes().keeper.clone() else {
            return Err(bad("the devices have no labels, so no disk can be replaced".into()));
        };
        if disk.0 >= self.layout().disks() || self.state(disk) != MemberState::Failed {
            return Err(bad(format!(
                "disk {} has not failed: mark the disk as failed first",
                disk.0
            )));
        }
        if self.devices().iter().any(|other| Arc::ptr_eq(other, &device)) {
            return Err(bad(format!(
                "{} is a disk of this volume: name another device",
                device.inquiry().name
            )));
        }
        let stripes = Arc::clone(self.stripes());
        // Once begun it is finished, as every write is.
        spawn(async move { keeper.replace(&stripes.members, disk, device).await }).await
    }

    /// Puts `spares` in the places of disks that fail, one after the other, and fills them,
    /// `bytes_per_s` to each at most. Returns when there is no spare left and nothing to fill; `told` is
    /// told which disk each takes the place of.
    pub async fn keep_whole(
        &self,
        spares: Vec<Arc<dyn Device>>,
        bytes_per_s: Option<NonZeroU64>,
        mut told: impl FnMut(DiskIndex, &dyn Device),
    ) -> Result<()> {
        // What cannot be filled now is no reason to leave the next disk without a spare.
        let mut problem = self.rebuild_whole(bytes_per_s).await;
        for spare in spares {
            let disk = loop {
                // Rung from here on, so that no failure is missed.
                let mut failure = pin!(self.members().failure().notified());
                failure.as_mut().enable();
                if let Some(disk) = self.failed().first() {
                    break *disk;
                }
                failure.await;
            };
            // One that does not fit is passed over.
            problem = self.replace(disk, Arc::clone(&spare)).await;
            if problem.is_ok() {
                told(disk, &*spare);
                problem = self.rebuild_whole(bytes_per_s).await;
            }
        }
        problem
    }

    /// Rebuilds; an error, too, when blocks are lost.
    async fn rebuild_whole(&self, bytes_per_s: Option<NonZeroU64>) -> Result<()> {
        match self.rebuild(bytes_per_s, |_, _| ()).await?.first() {
            Some(first) => Err(self.stripes().lost_blocks(*first)),
            None => Ok(()),
        }
    }

    /// Has the labels say that the first `ready` stripes are right on a device, once they are durable.
    async fn record_filled(&self, device: &Used, ready: u64) -> Result<()> {
        let (stripes, flushing) = (Arc::clone(self.stripes()), device.clone());
        let flushed = spawn(async move {
            // Records may have been kept by the disk whose place this is: what they hold is durable
            // before it counts as ready.
            if let (Some(keeper), u64::MAX) = (&stripes.keeper, ready) {
                keeper.settle(&stripes.members, keeper.journal.first_active()).await?;
                // And the journal says so: other disks may hold older records of the same blocks, and be the only ones that are left.
                let empty = keeper.append(&stripes.members, Vec::new()).await?;
                keeper.journal.placed(empty);
            }
            Ok(flushing.flush().await)
        });
        match flushed.await? {
            Ok(()) => self.members().make_durable(device, ready),
            Err(_) => self.members().fail(device),
        }
        match self.keeper() {
            Some(keeper) => keeper.record(self.members()).await,
            None => Ok(()),
        }
    }
}
