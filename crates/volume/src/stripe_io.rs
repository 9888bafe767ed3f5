//! Stripes with redundancy: writing them so that parity stays right, and reading what is missing from
//! what is left.
//!
//! Whoever changes a stripe holds its lock, and so does whoever works a missing unit out: a unit and its
//! parity are never seen between two writes. A device that fails to write is out; one that fails to read
//! is asked to take the right data again, and is out when it fails that.

use std::sync::Arc;

use futures::future::join_all;
use moirai_storage::{Error, IoBuf, Op, Request, Result, Timing};
use moirai_units::{BLOCK_BYTES, BlockCount, BlockRange};

use crate::journal::Entry;
use crate::keeper::Keeper;
use crate::members::{Members, Without};
use crate::parity::{add_to_p, add_to_q, solve_one, solve_two};
use crate::pieces::{Outcome, Piece, PieceOf, Served};
use crate::plan::{Access, Extent, Lost, Method, Plan, Present};
use crate::{DiskIndex, Layout, Role, StripeIndex};

/// The stripes of a volume, and what they lie on.
#[derive(Debug)]
pub(crate) struct Stripes {
    pub(crate) layout: Layout,
    pub(crate) members: Arc<Members>,
    /// Labels and journal, where the devices have them.
    pub(crate) keeper: Option<Arc<Keeper>>,
    /// Whether blocks that cannot be read are written again.
    pub(crate) heals: bool,
}

/// Blocks of a unit in memory.
pub(crate) struct Part {
    pub(crate) role: Role,
    pub(crate) offset: BlockCount,
    pub(crate) buffers: Vec<IoBuf>,
}

/// What was read of a stripe, or the disk that could not be.
pub(crate) enum Read {
    All(Vec<Part>),
    Unreadable(DiskIndex),
}

impl Stripes {
    /// Writes pieces of one stripe, which do not overlap.
    pub(crate) async fn write(&self, stripe: StripeIndex, pieces: Vec<Piece>) -> Vec<Served> {
        let _lock = self.members.lock(stripe).await;
        let ofs: Vec<PieceOf> = pieces.iter().map(|piece| piece.of).collect();
        let mut timing = None;
        match self.write_locked(stripe, pieces, &mut timing).await {
            Ok(data) => {
                let done =
                    |(of, buffers)| Served { of, outcome: Outcome::Done(buffers, timing.take()) };
                ofs.into_iter().zip(data).map(done).collect()
            }
            Err(error) => {
                // The pieces may be of several requests, and each of these failed.
                let problem = error.to_string();
                let mut error = Some(error);
                let failed = |of| {
                    let again = || Error::Together { problem: problem.clone() };
                    let error = error.take().unwrap_or_else(again);
                    Served { of, outcome: Outcome::Failed(Some(error)) }
                };
                ofs.into_iter().map(failed).collect()
            }
        }
    }

    /// Writes pieces of one stripe, whose lock is held.
    pub(crate) async fn write_locked(
        &self,
        stripe: StripeIndex,
        pieces: Vec<Piece>,
        timing: &mut Option<Timing>,
    ) -> Result<Vec<Vec<IoBuf>>> {
        let mut extents: Vec<Extent> = pieces.iter().map(|piece| piece.of.extent).collect();
        let with_data = pieces.iter().all(|piece| !piece.buffers.is_empty());
        let mut plan = Plan::default();
        let mut unreadable = Vec::new();
        let mut is_healed = false;
        let parts = loop {
            let present = Without { members: &self.members, unreadable: &unreadable };
            if let Err(Lost) = plan.write(&self.layout, &present, stripe, &mut extents) {
                // What cannot be read may be other blocks of each disk.
                if is_healed || unreadable.len() < 2 || !with_data {
                    return Err(self.lost(stripe, &extents));
                }
                self.check_locked(stripe, false).await;
                unreadable.clear();
                is_healed = true;
                continue;
            }
            match self.read(&plan.reads, with_data, timing).await {
                Read::All(parts) => break parts,
                Read::Unreadable(disk) => unreadable.push(disk),
            }
        };
        let parity = match with_data && plan.method != Method::Plain {
            true => self.parity(&plan, parts, &pieces),
            false => [None, None],
        };
        self.put(stripe, &plan, pieces, parity, timing).await
    }

    /// Carries the writes of a plan out; gives the pieces' buffers back.
    async fn put(
        &self,
        stripe: StripeIndex,
        plan: &Plan,
        mut pieces: Vec<Piece>,
        mut parity: [Option<IoBuf>; 2],
        timing: &mut Option<Timing>,
    ) -> Result<Vec<Vec<IoBuf>>> {
        let journaled =
            match self.keeper.as_ref().filter(|_| pieces.iter().all(|p| !p.buffers.is_empty())) {
                Some(keeper) => {
                    // The plan leaves out what failed until now: a crash must not find that as it was.
                    keeper.record(&self.members).await?;
                    let entries = entries(self.layout.disks(), stripe, plan, &pieces, &parity);
                    Some((keeper, keeper.append(&self.members, entries).await?))
                }
                None => None,
            };
        let mut writes = Vec::with_capacity(plan.writes.len());
        for access in &plan.writes {
            let piece = pieces.iter_mut().position(|piece| is_of(access, &piece.of.extent));
            let data = match (access.role, piece.and_then(|index| pieces.get_mut(index))) {
                (Role::P, _) => parity[0].take().into_iter().collect(),
                (Role::Q, _) => parity[1].take().into_iter().collect(),
                // The last copy takes the buffers themselves.
                (Role::Data { .. }, Some(piece)) if self.is_last(plan, access) => {
                    std::mem::take(&mut piece.buffers)
                }
                (Role::Data { .. }, Some(piece)) => piece.buffers.iter().map(copy).collect(),
                (Role::Data { .. }, None) => Vec::new(),
            };
            writes.push((
                access.disk,
                piece,
                Request { op: Op::Write, blocks: access.blocks, data },
            ));
        }
        let done = join_all(writes.into_iter().map(|(disk, piece, request)| async move {
            let device = self.members.device(disk);
            (piece, device.access(request).await, device)
        }))
        .await;
        let mut data: Vec<Vec<IoBuf>> = pieces.into_iter().map(|piece| piece.buffers).collect();
        let mut first_error = None;
        for (piece, result, device) in done {
            match result {
                Ok(completion) => {
                    add(timing, completion.timing);
                    let place = piece.and_then(|index| data.get_mut(index));
                    if let Some(place) = place.filter(|place| place.is_empty()) {
                        *place = completion.data;
                    }
                }
                Err(error) => {
                    self.members.fail(&device);
                    first_error.get_or_insert(error);
                }
            }
        }
        if self.is_moving(stripe) {
            // Before the journal may forget it.
            self.members.move_to(stripe.0 + 1);
        }
        if let Some((keeper, sequence)) = journaled {
            keeper.journal.placed(sequence);
            keeper.record(&self.members).await?;
        }
        match first_error {
            // What the failed devices missed can be worked out from the others.
            Some(error) if !self.is_whole(stripe) => Err(error),
            _ => Ok(data),
        }
    }

    /// Whether a write of `stripe` is what moves it to where it lies once the volume has grown: who
    /// writes to a stripe that was not moved does so where it was.
    fn is_moving(&self, stripe: StripeIndex) -> bool {
        let old = self.keeper.as_ref().and_then(|keeper| keeper.shape().old.as_ref());
        old.is_some_and(|old| old.disks() != self.layout.disks())
            && stripe.0 >= self.members.moved()
    }

    /// Whether no later write of the plan is of the same extent.
    fn is_last(&self, plan: &Plan, access: &Access) -> bool {
        let same = |other: &&Access| match (other.role, access.role) {
            (Role::Data { position: a, .. }, Role::Data { position: b, .. }) => {
                a == b && other.offset == access.offset
            }
            _ => false,
        };
        plan.writes.iter().rfind(same).is_some_and(|last| last.disk == access.disk)
    }

    /// Whether every data unit of `stripe` is there or can be worked out.
    pub(crate) fn is_whole(&self, stripe: StripeIndex) -> bool {
        let extent = |position| Extent { position, offset: BlockCount::ZERO, count: BlockCount(1) };
        (0..self.layout.data_units()).all(|position| {
            Plan::default().restore(&self.layout, &*self.members, stripe, extent(position)).is_ok()
        })
    }

    /// Reads a piece that is not where it should be, or could not be read from `unreadable`, which is
    /// then asked to take it again.
    pub(crate) async fn restore(&self, piece: Piece, unreadable: Option<DiskIndex>) -> Served {
        let of = piece.of;
        let _lock = self.members.lock(of.stripe).await;
        let mut timing = None;
        match self.restore_locked(piece, unreadable, &mut timing).await {
            Ok(data) => Served { of, outcome: Outcome::Done(data, timing) },
            Err(error) => Served { of, outcome: Outcome::Failed(Some(error)) },
        }
    }

    async fn restore_locked(
        &self,
        mut piece: Piece,
        unreadable: Option<DiskIndex>,
        timing: &mut Option<Timing>,
    ) -> Result<Vec<IoBuf>> {
        let PieceOf { stripe, extent, .. } = piece.of;
        // Another device may be there by now, which has nothing yet.
        let is_there = |disk: &DiskIndex| self.members.is_present(*disk, stripe);
        if let Some(disk) = unreadable.filter(is_there).filter(|_| !piece.buffers.is_empty()) {
            // Somebody wrote to it meanwhile: its sum was then that of other data.
            let first = self.layout.unit_on(disk, stripe) + extent.offset;
            let again = self.members.device(disk);
            if let Ok(content) = again.read(BlockRange::new(first, extent.count)).await {
                scatter(&content, &mut piece.buffers);
                return Ok(piece.buffers);
            }
        }
        // What cannot be read is written again, and for that must be known, wanted or not.
        let with_data = !piece.buffers.is_empty() || unreadable.is_some();
        let mut plan = Plan::default();
        let mut failed: Vec<DiskIndex> = unreadable.into_iter().collect();
        let parts = loop {
            let present = Without { members: &self.members, unreadable: &failed };
            if let Err(Lost) = plan.restore(&self.layout, &present, stripe, extent) {
                break Err(self.lost(stripe, &[extent]));
            }
            match self.read(&plan.reads, with_data, timing).await {
                Read::All(parts) => break Ok(parts),
                Read::Unreadable(disk) => failed.push(disk),
            }
        };
        let wanted = match (parts, plan.method) {
            // What cannot be read may be other blocks of each disk.
            (Err(_), _) if with_data && extent.count.0 > 1 && failed.len() > 1 => {
                Some(self.restored_by_block(stripe, extent).await?)
            }
            (Err(lost), _) => return Err(lost),
            (Ok(_), _) if !with_data => None,
            (Ok(parts), Method::Restore) => self.solve(&plan, &parts, extent.position),
            (Ok(parts), _) => parts.first().and_then(|part| part.buffers.first()).map(copy),
        };
        if let Some(wanted) = &wanted {
            scatter(wanted, &mut piece.buffers);
        }
        let heals = |disk: &DiskIndex| self.heals && !self.members.has_failed(*disk);
        if let Some(disk) = unreadable.filter(heals) {
            let first = self.layout.unit_on(disk, stripe) + extent.offset;
            let blocks = BlockRange::new(first, extent.count);
            let data = wanted.into_iter().collect();
            let device = self.members.device(disk);
            if device.access(Request { op: Op::Write, blocks, data }).await.is_err() {
                self.members.fail(&device);
            }
            if let Some(keeper) = &self.keeper {
                keeper.record(&self.members).await?;
            }
        }
        Ok(piece.buffers)
    }

    pub(crate) async fn read(
        &self,
        reads: &[Access],
        with_data: bool,
        timing: &mut Option<Timing>,
    ) -> Read {
        let done = join_all(reads.iter().map(|access| {
            let request = match with_data {
                true => Request::read(access.blocks),
                false => Request::access(Op::Read, access.blocks),
            };
            let device = self.members.device(access.disk);
            async move { device.access(request).await }
        }))
        .await;
        let mut parts = Vec::with_capacity(reads.len());
        for (access, result) in reads.iter().zip(done) {
            match result {
                Ok(completion) => {
                    add(timing, completion.timing);
                    let (role, offset) = (access.role, access.offset);
                    parts.push(Part { role, offset, buffers: completion.data });
                }
                Err(_) => return Read::Unreadable(access.disk),
            }
        }
        Read::All(parts)
    }

    /// The new P and Q over the plan's hull, from what was read and what is written.
    fn parity(&self, plan: &Plan, mut parts: Vec<Part>, pieces: &[Piece]) -> [Option<IoBuf>; 2] {
        let from = plan.hull.0;
        if plan.method == Method::Restore {
            self.complete(plan, &mut parts);
        }
        let mut sums = Sums::zero(plan.hull, self.layout.level().parity_units());
        for part in &parts {
            sums.add(part.role, part.offset - from, &part.buffers);
        }
        for Piece { of: PieceOf { extent, .. }, buffers } in pieces {
            let role = Role::Data { position: extent.position, copy: 0 };
            // The new data replace the old: these are taken off, which is to add them once more.
            if plan.method == Method::Restore {
                for part in parts.iter().filter(|part| part.role == role) {
                    let old = part
                        .buffers
                        .iter()
                        .map(|old| section(old, extent.offset - part.offset, extent.count));
                    sums.add_bytes(role, extent.offset - from, old);
                }
            }
            sums.add(role, extent.offset - from, buffers);
        }
        let writes = |role| plan.writes.iter().any(|access| access.role == role);
        [writes(Role::P).then_some(sums.p), writes(Role::Q).then_some(sums.q)]
    }

    /// Replaces the parities that were read by the data units that are worked out from them, as if these
    /// had been read.
    fn complete(&self, plan: &Plan, parts: &mut Vec<Part>) {
        let solved: Vec<Part> = self
            .missing(parts)
            .into_iter()
            .filter_map(|position| {
                let buffer = self.solve(plan, parts, position)?;
                let role = Role::Data { position, copy: 0 };
                Some(Part { role, offset: plan.hull.0, buffers: vec![buffer] })
            })
            .collect();
        parts.retain(|part| matches!(part.role, Role::Data { .. }));
        parts.extend(solved);
    }

    /// P and Q of a stripe whose units were read, or can be worked out from what was.
    pub(crate) fn sums(&self, plan: &Plan, mut parts: Vec<Part>) -> Sums {
        self.complete(plan, &mut parts);
        let mut sums = Sums::zero(plan.hull, self.layout.level().parity_units());
        parts.iter().for_each(|part| sums.add(part.role, BlockCount::ZERO, &part.buffers));
        sums
    }

    /// The positions of which nothing was read.
    fn missing(&self, parts: &[Part]) -> Vec<usize> {
        let is_read = |position: &usize| {
            parts.iter().any(
                |part| matches!(part.role, Role::Data { position: read, .. } if read == *position),
            )
        };
        (0..self.layout.data_units()).filter(|position| !is_read(position)).collect()
    }

    /// The data unit at `position` over the plan's hull, worked out from the others.
    pub(crate) fn solve(&self, plan: &Plan, parts: &[Part], position: usize) -> Option<IoBuf> {
        let mut sums = Sums::zero(plan.hull, self.layout.level().parity_units());
        let (mut has_p, mut has_q) = (false, false);
        for part in parts {
            has_p |= part.role == Role::P;
            has_q |= part.role == Role::Q;
            sums.add(part.role, BlockCount::ZERO, &part.buffers);
        }
        let Sums { mut p, mut q } = sums;
        match (self.missing(parts).as_slice(), has_p, has_q) {
            ([one], true, _) if *one == position => Some(p),
            ([one], false, true) if *one == position => {
                solve_one(&mut q, position);
                Some(q)
            }
            ([x, y], true, true) => {
                solve_two(&mut p, &mut q, *x, *y);
                if position == *x { Some(q) } else { Some(p) }
            }
            _ => None,
        }
    }

    pub(crate) fn lost(&self, stripe: StripeIndex, extents: &[Extent]) -> Error {
        let first = extents.first();
        let blocks = first.map(|extent| {
            BlockRange::new(
                self.layout.block_at(stripe, extent.position, extent.offset),
                extent.count,
            )
        });
        self.lost_blocks(blocks.unwrap_or_else(|| self.layout.stripe_blocks(stripe)))
    }

    pub(crate) fn lost_blocks(&self, blocks: BlockRange) -> Error {
        let why = match self.members.failed_names() {
            names if names.is_empty() => {
                "more disks cannot read them, or changed them, than the volume survives: rewrite them, or have \
                 `moirai volume scrub --clear-lost` fill them with zeros"
                    .into()
            }
            names => format!("{names} failed: reconnect a failed device, or rewrite the blocks"),
        };
        Error::Lost { device: self.members.name().to_owned(), blocks, why }
    }
}

/// What the journal is to hold of a plan's writes: each unit's new blocks once.
fn entries(
    disks: usize,
    stripe: StripeIndex,
    plan: &Plan,
    pieces: &[Piece],
    [p, q]: &[Option<IoBuf>; 2],
) -> Vec<Entry> {
    let (from, _) = plan.hull;
    let of_piece = |Piece { of: PieceOf { extent, .. }, buffers }: &Piece| Entry {
        disks,
        stripe,
        role: Role::Data { position: extent.position, copy: 0 },
        offset: extent.offset,
        content: buffers.iter().map(|buffer| &**buffer).collect::<Vec<_>>().concat(),
    };
    let parity = [(Role::P, p), (Role::Q, q)].into_iter().filter_map(|(role, sum)| {
        Some(Entry { disks, stripe, role, offset: from, content: sum.as_ref()?.to_vec() })
    });
    pieces.iter().map(of_piece).chain(parity).collect()
}

/// Sums of units over a hull.
pub(crate) struct Sums {
    pub(crate) p: IoBuf,
    /// Empty at levels without it.
    pub(crate) q: IoBuf,
}

impl Sums {
    pub(crate) fn zero((from, to): (BlockCount, BlockCount), parities: usize) -> Sums {
        let q = if parities > 1 { to - from } else { BlockCount::ZERO };
        Sums { p: IoBuf::zeroed(to - from), q: IoBuf::zeroed(q) }
    }

    /// Adds blocks of a unit to both sums, a parity to its own.
    pub(crate) fn add(&mut self, role: Role, offset: BlockCount, buffers: &[IoBuf]) {
        self.add_bytes(role, offset, buffers.iter().map(|buffer| &**buffer));
    }

    fn add_bytes<'b>(
        &mut self,
        role: Role,
        offset: BlockCount,
        buffers: impl Iterator<Item = &'b [u8]>,
    ) {
        let mut at = offset.bytes().0 as usize;
        for bytes in buffers {
            let of = at..at + bytes.len();
            at = of.end;
            let p = self.p.get_mut(of.clone()).filter(|_| role != Role::Q);
            let q = self.q.get_mut(of).filter(|_| role != Role::P);
            if let Some(p) = p {
                add_to_p(p, bytes);
            }
            match (role, q) {
                (Role::Data { position, .. }, Some(q)) => add_to_q(q, position, bytes),
                (_, Some(q)) => add_to_p(q, bytes),
                (_, None) => {}
            }
        }
    }
}

/// Whether the access is to a data unit's extent.
fn is_of(access: &Access, extent: &Extent) -> bool {
    matches!(access.role, Role::Data { position, .. } if position == extent.position)
        && access.offset == extent.offset
}

pub(crate) fn copy(buffer: &IoBuf) -> IoBuf {
    IoBuf::holding(buffer)
}

fn section(buffer: &IoBuf, from: BlockCount, count: BlockCount) -> &[u8] {
    let bytes = |blocks: BlockCount| (blocks.0 * BLOCK_BYTES) as usize;
    buffer.get(bytes(from)..bytes(from + count)).unwrap_or_default()
}

/// Fills buffers from one that is as long as all of them.
fn scatter(whole: &IoBuf, buffers: &mut [IoBuf]) {
    let mut from = BlockCount::ZERO;
    for buffer in buffers {
        let count = buffer.blocks();
        buffer.copy_from_slice(section(whole, from, count));
        from += count;
    }
}

fn add(timing: &mut Option<Timing>, other: Timing) {
    *timing = Some(timing.map_or(other, |one| one.and(other)));
}
