//! A volume behind the storage interface: requests are cut along the layout and served in parallel.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use futures::future::{BoxFuture, join, join_all};
use moirai_runtime::spawn;
use moirai_storage::{
    Completions, Device, Ensemble, EquivalenceClass, Error, Flushed, Inquiry, IoBuf, Op, Request,
    Result,
};
use moirai_units::{BlockCount, BlockRange, Lbn};

use crate::keeper::{Keeper, is_whole};
use crate::members::{Member, MemberState, Members};
use crate::pieces::{DiskBatch, Gathering, Outcome, Piece, PieceOf, cut};
use crate::plan::Present;
use crate::quadrangle::{Wanted, quadrangles};
use crate::stripe_io::Stripes;
use crate::tracks::Tracks;
use crate::zones::zones_of;
use crate::{
    DiskIndex, Layout, LayoutDescription, Level, Location, QuadrangleZone, Role, StripeIndex,
    StripeUnit, attributes, stripe,
};

/// Several devices as one.
#[derive(Debug)]
pub struct Volume {
    inquiry: Inquiry,
    stripes: Arc<Stripes>,
    zones: Vec<QuadrangleZone>,
    /// Held by who rebuilds.
    rebuilding: tokio::sync::Mutex<()>,
    /// Set by a flush that leaves too few devices, and never cleared.
    latched: AtomicBool,
}

/// A layout, found from what devices say of themselves.
pub(crate) struct Laid {
    pub(crate) layout: Layout,
    zones: Vec<QuadrangleZone>,
    volume_block: BlockCount,
}

impl Laid {
    /// The message of the error says what does not fit.
    pub(crate) fn over(
        devices: &[Arc<dyn Device>],
        level: Level,
        layout: LayoutDescription,
    ) -> std::result::Result<Laid, String> {
        level.check(devices.len())?;
        let tracks: Vec<Tracks> = devices
            .iter()
            .map(|device| Tracks::of(&**device))
            .collect::<Result<_>>()
            .map_err(|error| error.to_string())?;
        check_equal(devices, &tracks)?;
        let inquiries: Vec<&Inquiry> = devices.iter().map(|device| device.inquiry()).collect();
        let blocks = inquiries.iter().map(|inquiry| inquiry.volume_block);
        let of_devices = blocks.max().unwrap_or(BlockCount(1));
        let mut zones = Vec::new();
        let (layout, volume_block) = match layout {
            LayoutDescription::Stripe { unit: StripeUnit::Blocks(unit) } => {
                (stripe::fixed(level, &inquiries, unit)?, of_devices)
            }
            LayoutDescription::Stripe { unit: StripeUnit::Track } => {
                (stripe::by_track(level, &tracks), of_devices)
            }
            LayoutDescription::Quadrangle { depth, block, zone } => {
                let wanted = Wanted { depth, block, zone };
                let (layout, found) = quadrangles(level, &tracks, wanted)?;
                zones = found;
                (layout, block)
            }
        };
        Ok(Laid { layout, zones, volume_block })
    }
}

impl Volume {
    /// Lays `layout` over `devices`, at `level`, and keeps nothing on them besides data. The message of
    /// the error says what does not fit.
    pub fn new(
        name: String,
        devices: Vec<Arc<dyn Device>>,
        level: Level,
        layout: LayoutDescription,
    ) -> std::result::Result<Arc<Volume>, String> {
        let laid = Laid::over(&devices, level, layout)?;
        let member =
            |device: Arc<dyn Device>| Member::new(Arc::clone(&device), device, MemberState::Ready);
        let members = Members::new(name, devices.into_iter().map(member).collect());
        Ok(Volume::of(laid, members, None))
    }

    pub(crate) fn of(laid: Laid, members: Members, keeper: Option<Keeper>) -> Arc<Volume> {
        Arc::new(Volume::with(laid, members, keeper))
    }

    /// A volume that takes no writes.
    pub(crate) fn read_only(laid: Laid, members: Members) -> Arc<Volume> {
        let mut volume = Volume::with(laid, members, None);
        volume.inquiry.read_only = true;
        Arc::new(volume)
    }

    fn with(laid: Laid, members: Members, keeper: Option<Keeper>) -> Volume {
        let Laid { layout, zones, volume_block } = laid;
        let inquiries = || members.devices().map(|device| device.inquiry());
        let inquiry = Inquiry {
            name: members.name().to_owned(),
            capacity: layout.capacity(),
            parallelism: layout.parallelism(),
            depth: layout.depth(),
            volume_block,
            atomic_write: inquiries().map(|i| i.atomic_write).min().unwrap_or(BlockCount(1)),
            volatile_cache: inquiries().any(|inquiry| inquiry.volatile_cache),
            read_only: inquiries().any(|inquiry| inquiry.read_only),
            keeps_data: inquiries().all(|inquiry| inquiry.keeps_data),
        };
        let latched = AtomicBool::new(false);
        let rebuilding = tokio::sync::Mutex::new(());
        let stripes = Arc::new(Stripes { layout, members, keeper });
        Volume { inquiry, stripes, zones, rebuilding, latched }
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
    pub fn devices(&self) -> impl ExactSizeIterator<Item = &Arc<dyn Device>> {
        self.stripes.members.all_whole()
    }

    /// Where `vlbn` lies, counting the blocks of the whole device.
    pub fn locate(&self, vlbn: Lbn) -> Result<Location> {
        let device: &dyn Device = self;
        device.check_lbn(vlbn)?;
        let Location { disk, dlbn, run } = self.stripes.layout.locate(vlbn);
        let before = BlockCount(self.stripes.members.data_first(disk).0);
        Ok(Location { disk, dlbn: dlbn + before, run })
    }

    pub(crate) fn rebuilding(&self) -> &tokio::sync::Mutex<()> {
        &self.rebuilding
    }

    pub(crate) fn members(&self) -> &Members {
        &self.stripes.members
    }

    pub(crate) fn keeper(&self) -> Option<&Keeper> {
        self.stripes.keeper.as_ref()
    }

    pub(crate) fn stripes(&self) -> &Stripes {
        &self.stripes
    }

    /// Whether all blocks are there, or can be worked out, without the device and those that are not
    /// ready.
    #[must_use]
    pub fn survives_without(&self, disk: DiskIndex) -> bool {
        let (_, mut states) = self.stripes.members.states();
        if let Some(state) = states.get_mut(disk.0) {
            *state = MemberState::Failed;
        }
        is_whole(&self.stripes.layout, &states)
    }

    /// Notes that a device has failed: it is used no more. The labels say so with the next write or
    /// flush.
    pub fn fail(&self, disk: DiskIndex) {
        self.stripes.members.fail(disk);
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

    fn is_redundant(&self) -> bool {
        self.stripes.layout.level().failures(self.stripes.layout.disks()) > 0
    }

    /// The disk that a data unit is read from: the preferred copy, or another that is there.
    fn source(&self, stripe: StripeIndex, position: usize) -> Option<DiskIndex> {
        let copies = self.stripes.layout.level().copies(self.stripes.layout.disks());
        let preferred = self.stripes.layout.preferred_copy(stripe);
        (0..copies)
            .map(|index| Role::Data { position, copy: (preferred + index) % copies })
            .map(|role| self.stripes.layout.disk(stripe, role))
            .find(|disk| !self.is_redundant() || self.stripes.members.is_present(*disk, stripe))
    }

    /// Sorts a request's pieces to where they are served.
    fn begin(&self, index: usize, request: Request, work: &mut Work) -> Result<Gathering> {
        if self.latched.load(Ordering::Acquire) {
            return Err(Error::Latched { device: self.inquiry.name.clone() });
        }
        request.check(&self.inquiry)?;
        let op = request.op;
        let mut gathering = Gathering::of(request.data.iter().map(IoBuf::blocks).collect());
        let pieces = cut(&self.stripes.layout, index, request);
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
                    let dlbn = self.stripes.layout.unit_on(disk, stripe) + extent.offset;
                    on_disks.push((disk, dlbn, piece));
                }
                None => work.missing.push((piece, None)),
            }
        }
        on_disks.sort_by_key(|(disk, dlbn, _)| (*disk, *dlbn));
        for (disk, dlbn, piece) in on_disks {
            if let Some(batch) = work.disks.get_mut(disk.0) {
                batch.add(op, dlbn, piece, self.stripes.members.device(disk))?;
            }
        }
        Ok(gathering)
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

/// An error when the devices differ in what a layout depends on.
fn check_equal(devices: &[Arc<dyn Device>], tracks: &[Tracks]) -> std::result::Result<(), String> {
    let lengths = |tracks: &Tracks| -> Vec<BlockCount> {
        zones_of(tracks).iter().map(|zone| zone.ensemble).collect()
    };
    let mut each = devices.iter().zip(tracks.iter().map(lengths));
    let Some((first, of_first)) = each.next() else {
        return Err("key `devices`: a volume has at least one".into());
    };
    match each.find(|(_, lengths)| *lengths != of_first) {
        None => Ok(()),
        Some((other, _)) => Err(format!(
            "{} and {} have different geometries: a volume takes devices of one kind",
            first.inquiry().name,
            other.inquiry().name
        )),
    }
}

impl Device for Volume {
    fn inquiry(&self) -> &Inquiry {
        &self.inquiry
    }

    fn ensemble(&self, lbn: Lbn) -> Result<Ensemble> {
        let device: &dyn Device = self;
        device.check_lbn(lbn)?;
        attributes::ensemble(&self.stripes.layout, &self.stripes.members, lbn)
    }

    fn parallel_ensemble(&self, lbn: Lbn) -> Result<BlockRange> {
        let device: &dyn Device = self;
        device.check_lbn(lbn)?;
        attributes::parallel_ensemble(&self.stripes.layout, &self.stripes.members, lbn)
    }

    fn equivalent(&self, lbn: Lbn) -> Result<EquivalenceClass> {
        let device: &dyn Device = self;
        device.check_lbn(lbn)?;
        Ok(self.stripes.layout.equivalent(lbn))
    }

    /// The requests of a batch reach each disk together, so that its own scheduler orders them;
    /// different disks work in parallel.
    fn submit(&self, batch: Vec<Request>) -> BoxFuture<'_, Completions> {
        Box::pin(async move {
            let mut gatherings: Vec<Gathering> = Vec::with_capacity(batch.len());
            let mut work = Work::default();
            work.disks.resize_with(self.stripes.layout.disks(), DiskBatch::default);
            for (index, request) in batch.into_iter().enumerate() {
                let begun = self.begin(index, request, &mut work);
                gatherings.push(begun.unwrap_or_else(Gathering::failed));
            }
            let Work { disks, stripes, mut missing } = work;
            let disks = disks.into_iter().zip((0..).map(DiskIndex));
            let on_disks = join_all(
                disks.map(|(batch, disk)| batch.carry_out(self.stripes.members.device(disk), disk)),
            );
            // A write that was begun is finished, also when nobody waits for it any more: half of it
            // would leave a stripe that does not fit together.
            let written = join_all(stripes.into_iter().map(|(stripe, pieces)| {
                let io = Arc::clone(&self.stripes);
                spawn(async move { io.write(stripe, pieces).await })
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
            let restored = join_all(
                missing.into_iter().map(|(piece, disk)| self.stripes.restore(piece, disk)),
            )
            .await;
            for served in written.into_iter().flatten().chain(restored) {
                if let Some(gathering) = gatherings.get_mut(served.of.request) {
                    gathering.add(served);
                }
            }
            gatherings.into_iter().map(Gathering::finish).collect()
        })
    }

    /// Flushes all devices that are in use. One that fails is out where the level can bear that, and
    /// else what was written to it may be lost.
    fn flush(&self) -> Flushed<'_> {
        Box::pin(async move {
            if self.latched.load(Ordering::Acquire) {
                return Err(Error::Latched { device: self.inquiry.name.clone() });
            }
            let placed = self.stripes.keeper.as_ref().map(|keeper| keeper.journal.first_active());
            let flushed = self.stripes.members.flush_all().await;
            let settled = match (&self.stripes.keeper, placed) {
                (Some(keeper), Some(placed)) => {
                    let recorded = keeper.record(&self.stripes.layout, &self.stripes.members).await;
                    recorded.map(|()| keeper.journal.retire(placed))
                }
                _ if is_whole(&self.stripes.layout, &self.stripes.members.states().1) => Ok(()),
                _ => flushed,
            };
            if settled.is_err() {
                self.latched.store(true, Ordering::Release);
            }
            settled?;
            Ok(())
        })
    }
}
