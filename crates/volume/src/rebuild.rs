//! Filling a new device with what it should hold, while the volume serves.

use std::num::NonZeroU64;
use std::sync::Arc;

use moirai_runtime::{now, sleep, spawn};
use moirai_storage::Result;
use moirai_units::{ByteCount, Instant, Nanos};

use crate::{DiskIndex, MemberState, StripeIndex, Volume};

/// How often the labels say how far it is, until it is done.
const RECORDS: u64 = 128;

/// Waits until `bytes` that were begun at `began` are no more than so many a second.
pub(crate) async fn pause(began: Instant, bytes: ByteCount, bytes_per_s: Option<NonZeroU64>) {
    if let Some(rate) = bytes_per_s {
        let due_ns = u128::from(bytes.0) * 1_000_000_000 / u128::from(rate.get());
        sleep(Nanos((due_ns as u64).saturating_sub(now().since(began).0))).await;
    }
}

impl Volume {
    /// Fills the devices that are not ready, stripe by stripe, with `bytes_per_s` at most, so that other
    /// work goes on beside it. `progress` is told after each stripe how many are done, of how many. What
    /// a crash leaves undone goes on after the next opening.
    pub async fn rebuild(
        &self,
        bytes_per_s: Option<NonZeroU64>,
        mut progress: impl FnMut(u64, u64),
    ) -> Result<()> {
        let _turn = self.rebuilding().lock().await;
        self.check_grown()?;
        let stripes = self.layout().stripes();
        let recorded = stripes.div_ceil(RECORDS);
        for disk in (0..self.layout().disks()).map(DiskIndex) {
            let MemberState::Rebuilding(first) = self.state(disk) else { continue };
            for stripe in first..stripes {
                let began = now();
                let io = Arc::clone(self.stripes());
                spawn(async move { io.fill(StripeIndex(stripe), disk).await }).await?;
                if self.members().has_failed(disk) {
                    break;
                }
                if (stripe + 1).is_multiple_of(recorded) {
                    self.record_filled(disk, stripe + 1).await?;
                }
                progress(stripe + 1, stripes);
                let unit = self.layout().unit(StripeIndex(stripe));
                pause(began, unit.bytes(), bytes_per_s).await;
            }
            if matches!(self.state(disk), MemberState::Rebuilding(ready) if ready >= stripes) {
                self.record_filled(disk, u64::MAX).await?;
            }
        }
        Ok(())
    }

    /// Has the labels say that the first `ready` stripes are right on a device, once they are durable.
    async fn record_filled(&self, disk: DiskIndex, ready: u64) -> Result<()> {
        match self.members().device(disk).flush().await {
            Ok(()) => self.members().make_durable(disk, ready),
            Err(_) => self.members().fail(disk),
        }
        match self.keeper() {
            Some(keeper) => keeper.record(self.members()).await,
            None => Ok(()),
        }
    }
}
