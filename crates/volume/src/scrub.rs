//! Reading everything, to find what went bad while nobody looked.

use std::num::NonZeroU64;
use std::sync::Arc;

use moirai_runtime::{now, spawn};
use moirai_storage::{Device, Error, Result};
use moirai_units::BlockRange;

use crate::pace::pause;
use crate::whole_units::{Repair, add_blocks};
use crate::{StripeIndex, Volume};

/// What a scrub found.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Scrubbed {
    /// Stripe units that could not be read, and were written again from the others.
    pub restored_units: u64,
    /// Stripes whose copies or parity did not match the data, in the volume's blocks.
    pub differing: Vec<BlockRange>,
    /// Blocks of the volume that can be neither read nor reconstructed.
    pub lost: Vec<BlockRange>,
    /// Blocks of the volume that could be neither read nor reconstructed, and were filled with zeros.
    pub cleared: Vec<BlockRange>,
}

impl Volume {
    /// Reads every stripe, `bytes_per_s` from each disk at most, beside other work. Units that cannot be
    /// read are written again; what else is changed, `repair` says. `progress` is told after each stripe how many are
    /// done. An error when the volume has nothing to compare.
    pub async fn scrub(
        &self,
        bytes_per_s: Option<NonZeroU64>,
        repair: Repair,
        mut progress: impl FnMut(u64),
    ) -> Result<Scrubbed> {
        let layout = self.layout();
        if layout.level().failures(layout.disks()) == 0 {
            let problem = format!(
                "{} stores no redundant data, so there is nothing to compare",
                layout.level()
            );
            return Err(Error::Description { path: self.members().name().into(), problem });
        }
        self.check_writable()?;
        self.check_grown()?;
        let mut scrubbed = Scrubbed::default();
        for stripe in (0..layout.stripes()).map(StripeIndex) {
            let began = now();
            let stripes = Arc::clone(self.stripes());
            let checked = spawn(async move { stripes.check(stripe, repair).await }).await?;
            scrubbed.restored_units += checked.restored;
            if checked.differs {
                scrubbed.differing.push(layout.stripe_blocks(stripe));
            }
            checked.lost.into_iter().for_each(|blocks| add_blocks(&mut scrubbed.lost, blocks));
            checked
                .cleared
                .into_iter()
                .for_each(|blocks| add_blocks(&mut scrubbed.cleared, blocks));
            progress(stripe.0 + 1);
            pause(began, layout.unit(stripe).bytes(), bytes_per_s).await;
        }
        // What was written again is durable, and what failed is on the labels.
        self.flush().await?;
        Ok(scrubbed)
    }
}
