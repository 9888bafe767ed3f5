//! Whole units of stripes: working out what a disk should hold of one, and comparing what all hold.

use futures::future::join_all;
use moirai_storage::{IoBuf, Op, Request, Result};
use moirai_units::{BLOCK_BYTES, BlockCount, BlockRange};

use crate::members::{MemberState, Used, Without};
use crate::pieces::{Piece, PieceOf};
use crate::plan::{Extent, Lost, Method, Plan, Present};
use crate::stripe_io::{Part, Read, Stripes, Sums, copy};
use crate::{DiskIndex, Role, StripeIndex};

/// What a scrub changes besides units that it can reconstruct.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Repair {
    /// Copies and parity that do not match the data: nobody knows which of them is wrong, and they are made to match the
    /// data, or the first copy.
    pub differing: bool,
    /// Lost blocks: they are filled with zeros. Until then reads of them fail, and some writes beside them.
    pub lost: bool,
}

/// What a look at a stripe found.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Checked {
    /// Units that could not be read, and were written again.
    pub(crate) restored: u64,
    /// Whether copies or parity did not fit the data.
    pub(crate) differs: bool,
    /// Blocks of the volume that can be neither read nor reconstructed.
    pub(crate) lost: Vec<BlockRange>,
    /// Blocks that were, and hold zeros now.
    pub(crate) cleared: Vec<BlockRange>,
}

impl Stripes {
    /// Writes what `disk`, which is not yet ready for `stripe`, should hold of it. The disk is ready for
    /// one stripe more then. Gives the blocks of the volume that are lost in the stripe.
    pub(crate) async fn fill(
        &self,
        stripe: StripeIndex,
        disk: DiskIndex,
    ) -> Result<Vec<BlockRange>> {
        let _lock = self.members.lock(stripe).await;
        // Another device that comes in its place begins anew, and by itself.
        let device = self.members.device(disk);
        if self.members.state(disk) != MemberState::Rebuilding(stripe.0) {
            return Ok(Vec::new());
        }
        let (content, lost) = match self.work_out(stripe, disk, Vec::new()).await {
            Ok(content) => (content, Vec::new()),
            // Only where blocks have sums can one be marked as lost.
            // Where a disk is missing that may come back nothing is.
            Err(error) => match self.members.summed(disk) {
                Some(_) if self.is_whole(stripe) => self.work_out_blocks(stripe, disk).await,
                _ => return Err(error),
            },
        };
        let is_written = self.put_unit(stripe, &device, disk, content).await;
        let summed = self.members.summed(disk).filter(|_| self.members.is_current(&device));
        if let (true, Some(summed)) = (is_written, summed) {
            let first = self.layout.unit_on(disk, stripe);
            for row in &lost {
                summed.mark_lost(first + *row).await?;
            }
        }
        match is_written {
            true => self.members.advance(&device, stripe.0 + 1),
            false => self.members.fail(&device),
        }
        match lost.is_empty() {
            true => Ok(Vec::new()),
            false => Ok(self.read_by_block(stripe).await.1),
        }
    }

    /// What `disk` should hold of `stripe`, and which blocks of it cannot be worked out.
    async fn work_out_blocks(
        &self,
        stripe: StripeIndex,
        disk: DiskIndex,
    ) -> (Option<IoBuf>, Vec<BlockCount>) {
        let mut unit = IoBuf::zeroed(self.layout.unit(stripe));
        let mut lost = Vec::new();
        for (row, place) in (0..).map(BlockCount).zip(unit.chunks_exact_mut(BLOCK_BYTES as usize)) {
            match self.work_out_block(stripe, disk, row).await {
                Some(block) => place.copy_from_slice(&block),
                None => lost.push(row),
            }
        }
        (Some(unit), lost)
    }

    async fn work_out_block(
        &self,
        stripe: StripeIndex,
        disk: DiskIndex,
        row: BlockCount,
    ) -> Option<IoBuf> {
        let extent = |position| Extent { position, offset: row, count: BlockCount(1) };
        let role = self.layout.role(stripe, disk);
        if let Role::Data { position, .. } = role {
            return self.restored(stripe, extent(position)).await.ok()?;
        }
        let mut sums = Sums::zero((row, row + BlockCount(1)), self.layout.level().parity_units());
        for position in 0..self.layout.data_units() {
            let data = self.restored(stripe, extent(position)).await.ok()??;
            sums.add(Role::Data { position, copy: 0 }, BlockCount::ZERO, &[data]);
        }
        Some(if role == Role::P { sums.p } else { sums.q })
    }

    /// Reads all units of `stripe` that are there. Those that cannot be read are written again. What `repair` says is
    /// done where copies or parity do not match the data, and where blocks are lost.
    pub(crate) async fn check(&self, stripe: StripeIndex, repair: Repair) -> Result<Checked> {
        let _lock = self.members.lock(stripe).await;
        let (mut checked, has_lost) = self.check_locked(stripe, repair.differing).await;
        if !has_lost {
            return Ok(checked);
        }
        let (units, lost) = self.read_by_block(stripe).await;
        match repair.lost {
            true => {
                self.write_whole(stripe, units).await?;
                checked.cleared = lost;
            }
            false => checked.lost = lost,
        }
        Ok(checked)
    }

    /// Reads and repairs a stripe under its lock; tells also whether a unit could not be read or reconstructed.
    pub(crate) async fn check_locked(&self, stripe: StripeIndex, repair: bool) -> (Checked, bool) {
        let mut checked = Checked::default();
        let mut has_lost = false;
        let mut units: Vec<(DiskIndex, Role, IoBuf)> = Vec::new();
        let mut unreadable = Vec::new();
        let disks = (0..self.layout.disks()).map(DiskIndex);
        let reads = disks.filter(|disk| self.members.is_present(*disk, stripe)).map(|disk| {
            let unit = BlockRange::new(self.layout.unit_on(disk, stripe), self.layout.unit(stripe));
            async move { (disk, self.members.device(disk).read(unit).await) }
        });
        for (disk, read) in join_all(reads).await {
            match read {
                Ok(content) => units.push((disk, self.layout.role(stripe, disk), content)),
                Err(_) => unreadable.push(disk),
            }
        }
        for disk in unreadable.clone() {
            let content = match self.work_out(stripe, disk, unreadable.clone()).await {
                Ok(content) => content,
                // What cannot be read may be other blocks of each disk.
                Err(_) => match self.work_out_blocks(stripe, disk).await {
                    (content, lost) if lost.is_empty() => content,
                    _ => {
                        has_lost = true;
                        continue;
                    }
                },
            };
            checked.restored += 1;
            let again = content.as_ref().map(copy);
            let device = self.members.device(disk);
            match (self.put_unit(stripe, &device, disk, again).await, content) {
                (true, Some(content)) => {
                    units.push((disk, self.layout.role(stripe, disk), content));
                }
                _ => self.members.fail(&device),
            }
        }
        for (disk, content) in self.wrong_units(stripe, &units) {
            checked.differs = true;
            let device = self.members.device(disk);
            if repair && !self.put_unit(stripe, &device, disk, Some(content)).await {
                self.members.fail(&device);
            }
        }
        (checked, has_lost)
    }

    /// The data units of `stripe`, with zeros for blocks that can be neither read nor reconstructed, and these blocks as
    /// the volume counts them.
    async fn read_by_block(&self, stripe: StripeIndex) -> (Vec<IoBuf>, Vec<BlockRange>) {
        let unit = self.layout.unit(stripe);
        let mut units = Vec::with_capacity(self.layout.data_units());
        let mut lost: Vec<BlockRange> = Vec::new();
        for position in 0..self.layout.data_units() {
            let extent = |offset, count| Extent { position, offset, count };
            if let Ok(content) = self.restored(stripe, extent(BlockCount::ZERO, unit)).await {
                units.push(content.unwrap_or_else(|| IoBuf::zeroed(unit)));
                continue;
            }
            let mut whole = IoBuf::zeroed(unit);
            let rows = (0..).map(BlockCount).zip(whole.chunks_exact_mut(BLOCK_BYTES as usize));
            for (row, place) in rows {
                match self.restored(stripe, extent(row, BlockCount(1))).await {
                    Ok(Some(block)) => place.copy_from_slice(&block),
                    Ok(None) => {}
                    Err(_) => {
                        let first = self.layout.block_at(stripe, position, row);
                        add_blocks(&mut lost, BlockRange::new(first, BlockCount(1)));
                    }
                }
            }
            units.push(whole);
        }
        (units, lost)
    }

    /// Writes all data units of `stripe`, and with them its parity, without reading any.
    async fn write_whole(&self, stripe: StripeIndex, units: Vec<IoBuf>) -> Result<()> {
        let piece = |(position, unit): (usize, IoBuf)| {
            let extent = Extent { position, offset: BlockCount::ZERO, count: unit.blocks() };
            let (request, order, from) = (0, position, BlockCount::ZERO);
            let of = PieceOf { request, order, from, stripe, extent };
            Piece { of, buffers: vec![unit] }
        };
        let pieces = units.into_iter().enumerate().map(piece).collect();
        self.write_locked(stripe, pieces, &mut None).await?;
        Ok(())
    }

    /// Copies and parities that do not fit the data, and what would. Nothing is known of parities where
    /// a data unit is missing.
    fn wrong_units(
        &self,
        stripe: StripeIndex,
        units: &[(DiskIndex, Role, IoBuf)],
    ) -> Vec<(DiskIndex, IoBuf)> {
        let data = |wanted: usize| {
            units.iter().find_map(|(_, role, content)| match role {
                Role::Data { position, .. } if *position == wanted => Some(content),
                _ => None,
            })
        };
        let parities = self.layout.level().parity_units();
        let mut sums = Sums::zero((BlockCount::ZERO, self.layout.unit(stripe)), parities);
        let mut is_whole = parities > 0;
        for position in (0..self.layout.data_units()).filter(|_| parities > 0) {
            match data(position) {
                Some(content) => {
                    let role = Role::Data { position, copy: 0 };
                    sums.add(role, BlockCount::ZERO, std::slice::from_ref(content));
                }
                None => is_whole = false,
            }
        }
        let mut wrong = Vec::new();
        for (disk, role, content) in units {
            let right = match role {
                Role::Data { position, .. } => data(*position),
                Role::P if is_whole => Some(&sums.p),
                Role::Q if is_whole => Some(&sums.q),
                Role::P | Role::Q => None,
            };
            if let Some(right) = right.filter(|right| right[..] != content[..]) {
                wrong.push((*disk, copy(right)));
            }
        }
        wrong
    }

    /// What `disk` should hold of `stripe`, worked out from disks that are not `unreadable`.
    async fn work_out(
        &self,
        stripe: StripeIndex,
        disk: DiskIndex,
        mut unreadable: Vec<DiskIndex>,
    ) -> Result<Option<IoBuf>> {
        let whole = |position| {
            let count = self.layout.unit(stripe);
            Extent { position, offset: BlockCount::ZERO, count }
        };
        let role = self.layout.role(stripe, disk);
        if let Role::Data { position, .. } = role {
            return self.restored_from(stripe, whole(position), unreadable).await;
        }
        let mut timing = None;
        let (plan, parts) = loop {
            let present = Without { members: &self.members, unreadable: &unreadable };
            let mut plan = Plan::default();
            let planned = plan.read_data(&self.layout, &present, stripe);
            planned.map_err(|Lost| self.lost(stripe, &[whole(0)]))?;
            match self.read(&plan.reads, true, &mut timing).await {
                Read::All(parts) => break (plan, parts),
                Read::Unreadable(disk) => unreadable.push(disk),
            }
        };
        let sums = self.sums(&plan, parts);
        Ok(Some(if role == Role::P { sums.p } else { sums.q }))
    }

    /// Blocks of a data unit, each for itself, as [`Stripes::restored`].
    pub(crate) async fn restored_by_block(
        &self,
        stripe: StripeIndex,
        extent: Extent,
    ) -> Result<IoBuf> {
        let mut whole = IoBuf::zeroed(extent.count);
        let rows = (extent.offset.0..).map(BlockCount);
        for (offset, place) in rows.zip(whole.chunks_exact_mut(BLOCK_BYTES as usize)) {
            let one = Extent { offset, count: BlockCount(1), ..extent };
            if let Some(block) = self.restored(stripe, one).await? {
                place.copy_from_slice(&block);
            }
        }
        Ok(whole)
    }

    /// Blocks of a data unit, read, or worked out.
    async fn restored(&self, stripe: StripeIndex, extent: Extent) -> Result<Option<IoBuf>> {
        self.restored_from(stripe, extent, Vec::new()).await
    }

    /// The same, from disks that are not `unreadable`.
    async fn restored_from(
        &self,
        stripe: StripeIndex,
        extent: Extent,
        mut unreadable: Vec<DiskIndex>,
    ) -> Result<Option<IoBuf>> {
        let mut timing = None;
        let (plan, parts): (Plan, Vec<Part>) = loop {
            let present = Without { members: &self.members, unreadable: &unreadable };
            let mut plan = Plan::default();
            let planned = plan.restore(&self.layout, &present, stripe, extent);
            planned.map_err(|Lost| self.lost(stripe, &[extent]))?;
            match self.read(&plan.reads, true, &mut timing).await {
                Read::All(parts) => break (plan, parts),
                Read::Unreadable(disk) => unreadable.push(disk),
            }
        };
        Ok(match plan.method {
            Method::Restore => self.solve(&plan, &parts, extent.position),
            _ => parts.first().and_then(|part| part.buffers.first()).map(copy),
        })
    }

    /// Writes a disk's unit of `stripe`; tells whether the disk took it.
    async fn put_unit(
        &self,
        stripe: StripeIndex,
        device: &Used,
        disk: DiskIndex,
        content: Option<IoBuf>,
    ) -> bool {
        let first = self.layout.unit_on(disk, stripe);
        let blocks = BlockRange::new(first, self.layout.unit(stripe));
        let request = Request { op: Op::Write, blocks, data: content.into_iter().collect() };
        device.access(request).await.is_ok()
    }
}

/// Adds blocks behind ranges that are in order; what they cover already is left out.
pub(crate) fn add_blocks(ranges: &mut Vec<BlockRange>, blocks: BlockRange) {
    match ranges.last_mut().filter(|last| last.end() >= blocks.first) {
        Some(last) => *last = BlockRange::between(last.first, last.end().max(blocks.end())),
        None => ranges.push(blocks),
    }
}
