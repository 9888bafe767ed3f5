//! Serving a batch: requests are cut along the layout and served in parallel.

use std::collections::BTreeMap;
use std::sync::Arc;

use futures::future::{join, join_all};
use moirai_runtime::spawn;
use moirai_storage::{Completions, IoBuf, Op, Request, Result};
use moirai_units::Lbn;
use tokio::sync::OwnedRwLockReadGuard;

use crate::pieces::{DiskBatch, Gathering, Outcome, Piece, PieceOf, cut};
use crate::plan::Present;
use crate::stripe_io::Stripes;
use crate::{DiskIndex, Role, StripeIndex};

/// Keeps stripes where they are.
pub(crate) type Guard = Arc<OwnedRwLockReadGuard<()>>;

impl Stripes {
    fn is_redundant(&self) -> bool {
        self.layout.level().failures(self.layout.disks()) > 0
    }

    /// The disk that a data unit is read from: the preferred copy, or another that is there.
    fn source(&self, stripe: StripeIndex, position: usize) -> Option<DiskIndex> {
        let copies = self.layout.level().copies(self.layout.disks());
        let preferred = self.layout.preferred_copy(stripe);
        (0..copies)
            .map(|index| Role::Data { position, copy: (preferred + index) % copies })
            .map(|role| self.layout.disk(stripe, role))
            // Without redundancy a disk may be asked that failed, but not what stands in for one.
            .find(|disk| {
                (!self.is_redundant() && self.heals) || self.members.is_present(*disk, stripe)
            })
    }

    /// Sorts a request's pieces to where they are served.
    fn begin(&self, index: usize, request: Request, work: &mut Work) -> Result<Gathering> {
        let op = request.op;
        let mut gathering = Gathering::of(request.data.iter().map(IoBuf::blocks).collect());
        let pieces = cut(&self.layout, index, request);
        gathering.expect(pieces.len());
        if op == Op::Write && self.is_redundant() {
            for piece in pieces {
                work.stripes.entry(piece.of.stripe).or_default().push(piece);
            }
            return Ok(gathering);
        }
        let mut on_disks: Vec<(DiskIndex, Lbn, Piece)> = Vec::with_capacity(pieces.len());
        for piece in pieces {
            let PieceOf { stripe, extent, .. } = piece.of;
            match self.source(stripe, extent.position) {
                Some(disk) => {
                    let dlbn = self.layout.unit_on(disk, stripe) + extent.offset;
                    on_disks.push((disk, dlbn, piece));
                }
                None => work.missing.push((piece, None)),
            }
        }
        on_disks.sort_by_key(|(disk, dlbn, _)| (*disk, *dlbn));
        for (disk, dlbn, piece) in on_disks {
            if let Some(batch) = work.disks.get_mut(disk.0) {
                batch.add(op, dlbn, piece, &*self.members.device(disk))?;
            }
        }
        Ok(gathering)
    }

    /// Serves requests that were checked; those that failed that keep their error. What is written holds
    /// `guard` until it is.
    pub(crate) async fn serve(
        self: &Arc<Self>,
        batch: Vec<Result<Request>>,
        guard: Option<Guard>,
    ) -> Completions {
        let mut gatherings: Vec<Gathering> = Vec::with_capacity(batch.len());
        let mut work = Work::default();
        work.disks.resize_with(self.layout.disks(), DiskBatch::default);
        for (index, request) in batch.into_iter().enumerate() {
            let begun = request.and_then(|request| self.begin(index, request, &mut work));
            gatherings.push(begun.unwrap_or_else(Gathering::failed));
        }
        let Work { disks, stripes, mut missing } = work;
        let disks = disks.into_iter().zip((0..).map(DiskIndex));
        let on_disks = join_all(disks.map(|(batch, disk)| {
            batch.carry_out(self.members.device(disk).shared().clone(), disk)
        }));
        // What writes is finished once it was begun, also when nobody waits for it any more: half of
        // it would leave a stripe that does not fit together.
        let written = join_all(stripes.into_iter().map(|(stripe, pieces)| {
            let (io, guard) = (Arc::clone(self), guard.clone());
            spawn(async move {
                let _guard = guard;
                io.write(stripe, pieces).await
            })
        }));
        let (on_disks, written) = join(on_disks, written).await;
        for (disk, served) in on_disks.into_iter().flatten() {
            let Some(gathering) = gatherings.get_mut(served.of.request) else { continue };
            if matches!(served.outcome, Outcome::Failed(_)) && self.is_redundant() {
                let PieceOf { from, extent, .. } = served.of;
                let buffers = gathering.fresh(from, extent.count);
                missing.push((Piece { of: served.of, buffers }, Some(disk)));
            } else {
                gathering.add(served);
            }
        }
        let restored = join_all(missing.into_iter().map(|(piece, disk)| {
            let (io, guard) = (Arc::clone(self), guard.clone());
            spawn(async move {
                let _guard = guard;
                io.restore(piece, disk).await
            })
        }))
        .await;
        for served in written.into_iter().flatten().chain(restored) {
            if let Some(gathering) = gatherings.get_mut(served.of.request) {
                gathering.add(served);
            }
        }
        gatherings.into_iter().map(Gathering::finish).collect()
    }
}

/// What a batch takes.
#[derive(Default)]
struct Work {
    /// By disk.
    disks: Vec<DiskBatch>,
    /// Writes that keep parity or copies right.
    stripes: BTreeMap<StripeIndex, Vec<Piece>>,
    /// Pieces to be worked out from others, and the disk that could not read them.
    missing: Vec<(Piece, Option<DiskIndex>)>,
}
