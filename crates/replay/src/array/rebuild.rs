//! Filling a drive that was put in the place of one that failed, as [`moirai_volume::Volume::rebuild`] does it: stripe by stripe,
//! beside the requests.

use std::collections::BTreeSet;

use moirai_units::{BlockCount, BlockRange, Instant, Nanos};
use moirai_volume::plan::{Access, Extent};
use moirai_volume::{DiskIndex, Role, StripeIndex};

use super::{Array, Work, Working, emptied};

/// How far a drive is filled.
#[derive(Debug)]
pub(super) struct Rebuild {
    drive: usize,
    /// The volume and its stripe that are filled next, or now.
    volume: usize,
    stripe: u64,
    began: Instant,
    /// Stripes that are lost: too many of their disks have failed.
    lost: BTreeSet<(usize, StripeIndex)>,
    rebuilt: Rebuilt,
}

/// What was filled of a drive.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Rebuilt {
    /// Blocks that were written.
    pub blocks: BlockCount,
    /// Blocks that the volumes have on it; those that are lost are not filled.
    pub of: BlockCount,
    /// How long the former took.
    pub elapsed: Nanos,
}

impl Rebuild {
    /// Whether a stripe of volume `number` is on the drive.
    pub(super) fn has_filled(&self, drive: usize, number: usize, stripe: StripeIndex) -> bool {
        self.drive == drive
            && (number, stripe.0) < (self.volume, self.stripe)
            && !self.lost.contains(&(number, stripe))
    }
}

impl Array {
    /// Puts another drive in the place of one that failed, and begins to fill it. Does nothing where the drive has not failed, or where one
    /// was put in a place already.
    pub fn rebuild(&mut self, at: Instant, drive: usize) {
        if !self.failed.contains(&drive) || self.rebuild.is_some() {
            return;
        }
        let of = self.volumes.iter().flat_map(|hosted| {
            let disks = hosted.disks.iter().filter(move |disk| disk.drive == drive);
            disks.flat_map(|_| {
                (0..hosted.layout.stripes()).map(|at| hosted.layout.unit(StripeIndex(at)))
            })
        });
        let rebuilt = Rebuilt { of: of.sum(), ..Rebuilt::default() };
        let lost = BTreeSet::new();
        self.rebuild = Some(Rebuild { drive, volume: 0, stripe: 0, began: at, lost, rebuilt });
        self.fill_next(at);
    }

    /// How far a drive is filled; `None` where none is.
    #[must_use]
    pub fn rebuilt(&self) -> Option<Rebuilt> {
        self.rebuild.as_ref().map(|rebuild| rebuild.rebuilt)
    }

    /// Goes on behind the stripe that was filled.
    pub(super) fn stripe_filled(&mut self, at: Instant) {
        let Some(rebuild) = &mut self.rebuild else { return };
        if let Some(hosted) = self.volumes.get(rebuild.volume) {
            rebuild.rebuilt.blocks += hosted.layout.unit(StripeIndex(rebuild.stripe));
            rebuild.rebuilt.elapsed = at.since(rebuild.began);
        }
        rebuild.stripe += 1;
        self.fill_next(at);
    }

    /// Reads what the next stripe's unit is worked out from, to write it then. What is lost is passed over.
    fn fill_next(&mut self, at: Instant) {
        while let Some(rebuild) = &mut self.rebuild
            && let Some(hosted) = self.volumes.get(rebuild.volume)
        {
            let on_drive = |disk: &super::DriveSection| disk.drive == rebuild.drive;
            let disk = hosted.disks.iter().position(on_drive).map(DiskIndex);
            let Some(disk) = disk.filter(|_| rebuild.stripe < hosted.layout.stripes()) else {
                (rebuild.volume, rebuild.stripe) = (rebuild.volume + 1, 0);
                continue;
            };
            let (volume, stripe) = (rebuild.volume, StripeIndex(rebuild.stripe));
            let working = Working::new(volume, hosted, &self.failed, Some(rebuild));
            let role = hosted.layout.role(stripe, disk);
            let count = hosted.layout.unit(stripe);
            let planned = match role {
                Role::Data { position, .. } => {
                    let extent = Extent { position, offset: BlockCount::ZERO, count };
                    self.plan.restore(&hosted.layout, &working, stripe, extent)
                }
                Role::P | Role::Q => self.plan.read_data(&hosted.layout, &working, stripe),
            };
            if planned.is_err() {
                rebuild.lost.insert((volume, stripe));
                rebuild.stripe += 1;
                continue;
            }
            let blocks = BlockRange::new(hosted.layout.unit_on(disk, stripe), count);
            let index = self.works.take();
            let mut work = emptied(self.works.get(index));
            work.reads.extend_from_slice(&self.plan.reads);
            work.writes.push(Access { disk, role, blocks, offset: BlockCount::ZERO });
            *self.works.get(index) = Work { request: None, volume, stripe: Some(stripe), ..work };
            return self.write_stripe(at, index, (volume, stripe));
        }
    }
}
