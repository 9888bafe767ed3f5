//! Spreading what a volume holds over disks that were added to it, while it serves.
//!
//! A stripe of the larger layout holds more, and so what belongs in it lies in its own place and behind
//! it: stripes are moved in their order, and what is written over was moved before. Each is moved by one
//! write with its journal record, and so a crash leaves it moved or not.

use std::num::NonZeroU64;
use std::sync::Arc;

use futures::future::join;
use moirai_runtime::{now, spawn};
use moirai_storage::{Completions, Error, IoBuf, Op, Request, Result};
use moirai_units::{BlockCount, BlockRange, Lbn};
use tokio::sync::RwLock;

use crate::pace::pause;
use crate::pieces::{Outcome, cut};
use crate::route::Routed;
use crate::stripe_io::Stripes;
use crate::{StripeIndex, Volume};

/// A volume on its way from one layout to another.
#[derive(Debug)]
pub(crate) struct Growing {
    /// Where that lies which was not moved.
    old: Arc<Stripes>,
    /// Read by who uses stripes, written by who moves one.
    gate: Arc<RwLock<()>>,
    /// Up to which stripe nobody knows, from the first that is not known to be moved on, where they lie; none while
    /// the volume is open.
    doubtful: StripeIndex,
}

impl Growing {
    pub(crate) fn from(old: Arc<Stripes>) -> Growing {
        Growing { old, gate: Arc::default(), doubtful: StripeIndex(0) }
    }

    /// Gives errors for what lies before stripe `end`, and is not known to be moved.
    pub(crate) fn doubt(&mut self, end: StripeIndex) {
        self.doubtful = end;
    }

    pub(crate) fn old(&self) -> &Stripes {
        &self.old
    }

    /// The first block that was not moved to `new`.
    pub(crate) fn boundary(&self, new: &Stripes) -> Lbn {
        first_of(new, StripeIndex(new.members.moved()))
    }

    /// Serves each part of a batch where it lies.
    pub(crate) async fn serve(
        &self,
        new: &Arc<Stripes>,
        batch: Vec<Result<Request>>,
    ) -> Completions {
        let guard = Arc::new(Arc::clone(&self.gate).read_owned().await);
        let boundary = self.boundary(new);
        let known = first_of(new, self.doubtful).max(boundary);
        let mut routed = Routed::of(batch, &[boundary, known, Lbn(u64::MAX)]);
        let (moved, doubtful, old) = (routed.take(0), routed.take(1), routed.take(2));
        let lost = |request: Request| new.lost_blocks(request.blocks);
        let doubtful =
            doubtful.into_iter().map(|asked| Err(asked.map_or_else(|error| error, lost)));
        let doubtful = doubtful.collect();
        let served =
            join(new.serve(moved, Some(Arc::clone(&guard))), self.old.serve(old, Some(guard)));
        let (moved, old) = served.await;
        routed.gather(vec![moved, doubtful, old], new.members.name())
    }

    /// Moves the next stripe to `new`; nobody uses any meanwhile.
    async fn move_next(&self, new: &Arc<Stripes>) -> Result<()> {
        let (old, new, gate) = (Arc::clone(&self.old), Arc::clone(new), Arc::clone(&self.gate));
        // Once begun it is finished, as every write is.
        let moved = spawn(async move {
            let _alone = gate.write_owned().await;
            match new.members.moved() {
                // Somebody else moved the last.
                moved if moved >= new.layout.stripes() => Ok(()),
                moved => move_stripe(&old, &new, StripeIndex(moved)).await,
            }
        });
        moved.await
    }
}

/// The first block of a stripe, or the end of all.
fn first_of(stripes: &Stripes, stripe: StripeIndex) -> Lbn {
    match stripe.0 < stripes.layout.stripes() {
        true => stripes.layout.stripe_blocks(stripe).first,
        false => Lbn(stripes.layout.capacity().0),
    }
}

/// Reads what belongs in a stripe of `new` where it lies in `old`, and writes the stripe.
async fn move_stripe(old: &Arc<Stripes>, new: &Arc<Stripes>, stripe: StripeIndex) -> Result<()> {
    let blocks = new.layout.stripe_blocks(stripe);
    let end = blocks.end().min(Lbn(old.layout.capacity().0));
    let mut data = Vec::new();
    if blocks.first < end {
        let there = BlockRange::between(blocks.first, end);
        for completion in old.serve(vec![Ok(Request::read(there))], None).await {
            data.extend(completion?.data);
        }
    }
    // Behind the end of what there was nothing was ever written.
    let beyond = blocks.end().since(end.max(blocks.first));
    if beyond > BlockCount::ZERO {
        data.push(IoBuf::zeroed(beyond));
    }
    let pieces = cut(&new.layout, 0, Request { op: Op::Write, blocks, data });
    for served in new.write(stripe, pieces).await {
        if let Outcome::Failed(error) = served.outcome {
            let failed = || Error::Latched { device: new.members.name().to_owned() };
            return Err(error.unwrap_or_else(failed));
        }
    }
    Ok(())
}

impl Volume {
    /// Moves what the volume holds to where it lies over all its disks, those with it that were
    /// [added](crate::add_disks), `bytes_per_s` to each at most, beside other work. `progress` is told
    /// after each stripe how many are moved, of how many. What a crash leaves undone goes on after the
    /// next opening. Once all is done the volume is larger when it is opened again.
    pub async fn grow(
        &self,
        bytes_per_s: Option<NonZeroU64>,
        mut progress: impl FnMut(u64, u64),
    ) -> Result<()> {
        let _turn = self.rebuilding().lock().await;
        let Some(growth) = self.growth() else { return Ok(()) };
        let (layout, members) = (self.layout(), self.members());
        while members.moved() < layout.stripes() {
            let began = now();
            let unit = layout.unit(StripeIndex(members.moved())).bytes();
            growth.move_next(self.stripes()).await?;
            progress(members.moved(), layout.stripes());
            pause(began, unit, bytes_per_s).await;
        }
        let device: &dyn moirai_storage::Device = self;
        device.flush().await
    }

    /// How many stripes were moved, of how many; `None` when the volume does not grow.
    #[must_use]
    pub fn moved(&self) -> Option<(u64, u64)> {
        self.growth().map(|_| (self.members().moved(), self.layout().stripes()))
    }

    /// An error while the volume grows.
    pub(crate) fn check_grown(&self) -> Result<()> {
        let Some((moved, all)) = self.moved() else { return Ok(()) };
        let problem = format!(
            "the volume is growing, with {moved} of {all} stripes moved: finish the growth with `moirai \
             volume grow` or `Volume::grow`, and reopen the volume"
        );
        Err(Error::Description { path: self.members().name().into(), problem })
    }
}
