//! A volume behind the storage interface: requests are cut along the layout and served in parallel.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use futures::future::BoxFuture;
use moirai_runtime::spawn;
use moirai_storage::{
    Completions, Device, Discarded, Ensemble, EquivalenceClass, Error, Flushed, Inquiry, Request,
    Result,
};
use moirai_units::{BlockCount, BlockRange, Lbn};

use crate::discard::discard_granularity;
use crate::growth::Growing;
use crate::keeper::Keeper;
use crate::laid::Laid;
use crate::members::{Member, MemberState, Members, Parts};
use crate::shape::Shape;
use crate::stripe_io::Stripes;
use crate::{
    DiskIndex, Layout, LayoutDescription, Level, Location, QuadrangleZone, StripeIndex, attributes,
};

/// Several devices as one.
#[derive(Debug)]
pub struct Volume {
    inquiry: Inquiry,
    shape: Shape,
    /// Where everything lies, or will once the volume has grown.
    stripes: Arc<Stripes>,
    growth: Option<Growing>,
    zones: Vec<QuadrangleZone>,
    /// Held by who rebuilds.
    rebuilding: tokio::sync::Mutex<()>,
    /// Set by a flush that leaves too few devices, and never cleared.
    latched: AtomicBool,
}

impl Volume {
    /// An error for a volume that takes no writes.
    pub(crate) fn check_writable(&self) -> Result<()> {
        match self.inquiry.read_only {
            true => Err(Error::ReadOnly { device: self.inquiry.name.clone() }),
            false => Ok(()),
        }
    }

    /// Lays `layout` over `devices`, at `level`, and keeps nothing on them besides data. The message of
    /// the error says what does not fit.
    pub fn new(
        name: String,
        devices: Vec<Arc<dyn Device>>,
        level: Level,
        layout: LayoutDescription,
    ) -> std::result::Result<Arc<Volume>, String> {
        let laid = Laid::over(&devices, level, layout)?;
        let member = |device: Arc<dyn Device>| {
            let parts = Parts { whole: Arc::clone(&device), data: device, summed: None };
            Member::new(parts, MemberState::Ready)
        };
        let members = Members::new(name, devices.into_iter().map(member).collect());
        Ok(Volume::of(laid, members, None))
    }

    pub(crate) fn of(laid: Laid, members: Members, keeper: Option<Keeper>) -> Arc<Volume> {
        Arc::new(Volume::with(laid, members, keeper, true))
    }

    /// A volume that takes no writes. Nobody knows where stripes before `doubtful` lie that are not known to be moved.
    pub(crate) fn read_only(laid: Laid, members: Members, doubtful: StripeIndex) -> Arc<Volume> {
        let mut volume = Volume::with(laid, members, None, false);
        volume.inquiry.read_only = true;
        if let Some(growing) = &mut volume.growth {
            growing.doubt(doubtful);
        }
        Arc::new(volume)
    }

    fn with(laid: Laid, members: Members, keeper: Option<Keeper>, heals: bool) -> Volume {
        let Laid { shape, zones, volume_block } = laid;
        // It is as large as it was until everything lies where it will.
        let capacity = shape.old.as_ref().unwrap_or(&shape.layout).capacity();
        let layout = shape.layout.clone();
        let devices = members.devices();
        let inquiries = || devices.iter().map(|device| device.inquiry());
        // While the volume grows, blocks lie in two places.
        let discard = match shape.old {
            None => discard_granularity(&layout, &members),
            Some(_) => None,
        };
        let inquiry = Inquiry {
            name: members.name().to_owned(),
            capacity,
            parallelism: layout.parallelism(),
            depth: layout.depth(),
            volume_block,
            atomic_write: inquiries().map(|i| i.atomic_write).min().unwrap_or(BlockCount(1)),
            physical_block: inquiries().map(|i| i.physical_block).max().unwrap_or(BlockCount(1)),
            discard,
            wants_discards: inquiries().all(|inquiry| inquiry.wants_discards),
            volatile_cache: inquiries().any(|inquiry| inquiry.volatile_cache),
            read_only: inquiries().any(|inquiry| inquiry.read_only),
            keeps_data: inquiries().all(|inquiry| inquiry.keeps_data),
        };
        let latched = AtomicBool::new(false);
        let rebuilding = tokio::sync::Mutex::new(());
        let (members, keeper) = (Arc::new(members), keeper.map(Arc::new));
        let stripes = |layout| {
            let (members, keeper) = (Arc::clone(&members), keeper.clone());
            Arc::new(Stripes { layout, members, keeper, heals })
        };
        let growth = shape.old.clone().map(|old| Growing::from(stripes(old)));
        let stripes = stripes(layout);
        Volume { inquiry, shape, stripes, growth, zones, rebuilding, latched }
    }

    /// The quadrangles of each zone; none where blocks are striped.
    #[must_use]
    pub fn quadrangles(&self) -> &[QuadrangleZone] {
        &self.zones
    }

    /// The layout, to ask where blocks lie.
    #[must_use]
    pub fn layout(&self) -> &Layout {
        &self.stripes.layout
    }

    /// The devices, in their order.
    #[must_use]
    pub fn devices(&self) -> Vec<Arc<dyn Device>> {
        self.stripes.members.devices()
    }

    /// Where `vlbn` lies, counting the blocks of the whole device.
    pub fn locate(&self, vlbn: Lbn) -> Result<Location> {
        let device: &dyn Device = self;
        device.check_lbn(vlbn)?;
        let Location { disk, dlbn, run } = self.stripes_at(vlbn).layout.locate(vlbn);
        let before = BlockCount(self.stripes.members.data_first(disk).0);
        Ok(Location { disk, dlbn: dlbn + before, run })
    }

    /// What the volume has of `blocks`: while it grows stripes are longer than it.
    fn within(&self, blocks: BlockRange) -> BlockRange {
        BlockRange::between(blocks.first, blocks.end().min(Lbn(self.inquiry.capacity.0)))
    }

    /// The stripes that `vlbn` is in.
    fn stripes_at(&self, vlbn: Lbn) -> &Stripes {
        match &self.growth {
            Some(growth) if vlbn >= growth.boundary(&self.stripes) => growth.old(),
            _ => &self.stripes,
        }
    }

    pub(crate) fn growth(&self) -> Option<&Growing> {
        self.growth.as_ref()
    }

    pub(crate) fn rebuilding(&self) -> &tokio::sync::Mutex<()> {
        &self.rebuilding
    }

    pub(crate) fn members(&self) -> &Members {
        &self.stripes.members
    }

    pub(crate) fn keeper(&self) -> Option<&Keeper> {
        self.stripes.keeper.as_deref()
    }

    pub(crate) fn stripes(&self) -> &Arc<Stripes> {
        &self.stripes
    }

    /// Whether all blocks are there, or can be worked out, without the device and those that are not
    /// ready.
    #[must_use]
    pub fn survives_without(&self, disk: DiskIndex) -> bool {
        let mut states = self.stripes.members.recordable().states;
        if let Some(state) = states.get_mut(disk.0) {
            *state = MemberState::Failed;
        }
        self.shape.is_whole(&states, self.stripes.members.moved())
    }

    /// Whether no block is lost: every one is on a device that is ready, or can be reconstructed.
    #[must_use]
    pub fn is_whole(&self) -> bool {
        let states = self.stripes.members.recordable().states;
        self.shape.is_whole(&states, self.stripes.members.moved())
    }

    /// How many more devices may fail, whichever they are, without a block being lost; 0 when it cannot do
    /// without one of those that are left, or has lost blocks already.
    #[must_use]
    pub fn survives(&self) -> usize {
        let states = self.stripes.members.recordable().states;
        let moved = self.stripes.members.moved();
        let most = self.shape.failures().min(states.len());
        // A level survives two failures at the most, but for copies on every disk.
        (1..=most)
            .take_while(|failures| survives_any(&self.shape, &states, moved, *failures))
            .count()
    }

    /// Notes that a device has failed: it is used no more. The labels say so with the next write or
    /// flush.
    pub fn fail(&self, disk: DiskIndex) {
        let members = &self.stripes.members;
        members.fail(&members.device(disk));
    }

    /// Whether blocks have checksums, so that what a device changed by itself is found.
    #[must_use]
    pub fn has_checksums(&self) -> bool {
        self.stripes.members.summed(DiskIndex(0)).is_some()
    }

    /// How far a device can be used.
    #[must_use]
    pub fn state(&self, disk: DiskIndex) -> MemberState {
        self.stripes.members.state(disk)
    }

    /// The devices that failed.
    #[must_use]
    pub fn failed(&self) -> Vec<DiskIndex> {
        self.stripes.members.failed()
    }
}

/// Whether no block is lost whichever `failures` devices of those that are ready fail.
fn survives_any(shape: &Shape, states: &[MemberState], moved: u64, failures: usize) -> bool {
    if failures == 0 {
        return shape.is_whole(states, moved);
    }
    let ready = states.iter().enumerate().filter(|(_, state)| **state == MemberState::Ready);
    let mut any = false;
    for (disk, _) in ready {
        any = true;
        let mut fewer = states.to_vec();
        if let Some(state) = fewer.get_mut(disk) {
            *state = MemberState::Failed;
        }
        // With copies on every disk it makes no difference which fails.
        let is_mirror = shape.layout.level() == Level::Raid1;
        match survives_any(shape, &fewer, moved, failures - 1) {
            false => return false,
            true if is_mirror => return true,
            true => {}
        }
    }
    any
}

impl Device for Volume {
    fn inquiry(&self) -> &Inquiry {
        &self.inquiry
    }

    fn ensemble(&self, lbn: Lbn) -> Result<Ensemble> {
        let device: &dyn Device = self;
        device.check_lbn(lbn)?;
        let Stripes { layout, members, .. } = self.stripes_at(lbn);
        let Ensemble { blocks, switch } = attributes::ensemble(layout, members, lbn)?;
        Ok(Ensemble { blocks: self.within(blocks), switch })
    }

    fn parallel_ensemble(&self, lbn: Lbn) -> Result<BlockRange> {
        let device: &dyn Device = self;
        device.check_lbn(lbn)?;
        let Stripes { layout, members, .. } = self.stripes_at(lbn);
        Ok(self.within(attributes::parallel_ensemble(layout, members, lbn)?))
    }

    fn equivalent(&self, lbn: Lbn) -> Result<EquivalenceClass> {
        let device: &dyn Device = self;
        device.check_lbn(lbn)?;
        let class = self.stripes_at(lbn).layout.equivalent(lbn);
        match class.lbns.iter().all(|lbn| lbn.0 < self.inquiry.capacity.0) {
            true => Ok(class),
            false => Ok(EquivalenceClass::single(lbn)),
        }
    }

    /// The requests of a batch reach each disk together, so that its own scheduler orders them;
    /// different disks work in parallel.
    fn submit(&self, batch: Vec<Request>) -> BoxFuture<'_, Completions> {
        Box::pin(async move {
            let checked = batch.into_iter().map(|request| {
                if self.latched.load(Ordering::Acquire) {
                    return Err(Error::Latched { device: self.inquiry.name.clone() });
                }
                request.check(&self.inquiry)?;
                Ok(request)
            });
            match &self.growth {
                None => self.stripes.serve(checked.collect(), None).await,
                Some(growth) => growth.serve(&self.stripes, checked.collect()).await,
            }
        })
    }

    /// Flushes all devices that are in use. One that fails is out where the level can bear that, and
    /// else what was written to it may be lost.
    fn flush(&self) -> Flushed<'_> {
        Box::pin(async move {
            if self.latched.load(Ordering::Acquire) {
                return Err(Error::Latched { device: self.inquiry.name.clone() });
            }
            if self.inquiry.read_only {
                // Nothing was written.
                return Ok(());
            }
            let stripes = Arc::clone(&self.stripes);
            // Labels are written to their end, too.
            let settled = spawn(async move {
                let members = &stripes.members;
                match &stripes.keeper {
                    Some(keeper) => keeper.settle(members, keeper.journal.first_active()).await,
                    None => members.flush_all().await,
                }
            });
            let mut settled = settled.await;
            if self.stripes.keeper.is_none() {
                let states = self.stripes.members.recordable().states;
                settled = match (self.shape.is_whole(&states, 0), settled) {
                    (true, _) => Ok(()),
                    (false, Err(error)) => Err(error),
                    // A disk is out since a flush that nobody waited for any more, or one at the same time.
                    (false, Ok(())) => Err(Error::Latched { device: self.inquiry.name.clone() }),
                };
            }
            if settled.is_err() {
                self.latched.store(true, Ordering::Release);
            }
            settled?;
            Ok(())
        })
    }

    /// Passes to the devices what they hold of the blocks. Volumes with parity, with checksums of blocks, or
    /// that grow do not, and report no granularity.
    fn discard(&self, blocks: BlockRange) -> Discarded<'_> {
        Box::pin(async move {
            if self.latched.load(Ordering::Acquire) {
                return Err(Error::Latched { device: self.inquiry.name.clone() });
            }
            let freed = self.inquiry.discardable(blocks)?;
            match freed.is_empty() {
                true => Ok(()),
                false => self.stripes.discard(freed).await,
            }
        })
    }
}
