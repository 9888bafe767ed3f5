//! Filling a new device with what it should hold, while the volume serves.

use moirai_runtime::sleep;
use moirai_storage::Result;
use moirai_units::Nanos;

use crate::{DiskIndex, MemberState, StripeIndex, Volume};

/// Stripes between two times that the labels say how far it is.
const STRIPES_RECORDED: u64 = 256;

impl Volume {
    /// Fills the devices that are not ready, stripe by stripe, with a pause after each that bounds what
    /// is taken from other work. `progress` is told after each stripe how many are done, of how many.
    /// What a crash leaves undone goes on after the next opening.
    pub async fn rebuild(&self, pause: Nanos, mut progress: impl FnMut(u64, u64)) -> Result<()> {
        let stripes = self.layout().stripes();
        for disk in (0..self.layout().disks()).map(DiskIndex) {
            let MemberState::Rebuilding(first) = self.state(disk) else { continue };
            for stripe in first..stripes {
                self.stripes().fill(StripeIndex(stripe), disk).await?;
                if self.members().has_failed(disk) {
                    break;
                }
                if (stripe + 1) % STRIPES_RECORDED == 0 {
                    self.record_progress(disk).await?;
                }
                progress(stripe + 1, stripes);
                sleep(pause).await;
            }
            self.record_progress(disk).await?;
            if self.state(disk) == MemberState::Rebuilding(stripes) {
                self.members().advance(disk, u64::MAX);
                self.record_progress(disk).await?;
            }
        }
        Ok(())
    }

    /// Has the labels say how far a device is, once that is durable.
    async fn record_progress(&self, disk: DiskIndex) -> Result<()> {
        if self.members().device(disk).flush().await.is_err() {
            self.members().fail(disk);
        }
        self.members().note_change();
        match self.keeper() {
            Some(keeper) => keeper.record(self.members()).await,
            None => Ok(()),
        }
    }
}
