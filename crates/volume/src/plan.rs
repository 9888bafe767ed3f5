//! What reading or writing a stripe takes: which blocks of which disks are read first, and which are
//! written then. Pure arithmetic, so that whoever moves the data, or only counts the time, plans alike.

use moirai_units::{BlockCount, BlockRange};

use crate::{DiskIndex, Layout, Level, Role, StripeIndex};

/// Blocks of a data unit.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Extent {
    /// Which data unit of the stripe.
    pub position: usize,
    /// The first block, counted in the unit.
    pub offset: BlockCount,
    /// How many.
    pub count: BlockCount,
}

/// Blocks of a unit, whatever it is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Access {
    /// The disk.
    pub disk: DiskIndex,
    /// What the disk's unit is for.
    pub role: Role,
    /// The blocks on the disk.
    pub blocks: BlockRange,
    /// The first of them, counted in the unit.
    pub offset: BlockCount,
}

/// How parity is kept right.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Method {
    /// There is none that could be, or none is left.
    #[default]
    Plain,
    /// The new data are all there is: nothing is read. Of units that are not written whole, what is
    /// left of them is read: reconstruct-write.
    Reconstruct,
    /// The old data and the old parity are read: read-modify-write.
    Modify,
    /// All that is left is read, and what is missing is worked out first.
    Restore,
}

/// The accesses that a stripe takes; used again for the next.
#[derive(Clone, Debug, Default)]
pub struct Plan {
    /// How parity is kept right.
    pub method: Method,
    /// What is read before anything is written.
    pub reads: Vec<Access>,
    /// What is written then.
    pub writes: Vec<Access>,
    /// The blocks of the units that parity is worked out for.
    pub hull: (BlockCount, BlockCount),
}

/// More units are missing than the level can bear.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Lost;

/// Which disks can be used for a stripe.
pub trait Present {
    /// Whether the unit of `stripe` on `disk` is kept up to date.
    fn is_present(&self, disk: DiskIndex, stripe: StripeIndex) -> bool;

    /// Whether it can also be read.
    fn is_readable(&self, disk: DiskIndex, stripe: StripeIndex) -> bool {
        self.is_present(disk, stripe)
    }
}

/// All disks are there.
#[derive(Clone, Copy, Debug)]
pub struct AllPresent;

impl Present for AllPresent {
    fn is_present(&self, _: DiskIndex, _: StripeIndex) -> bool {
        true
    }
}

/// A stripe that is planned for.
struct Stripe<'a, P: Present> {
    layout: &'a Layout,
    present: &'a P,
    index: StripeIndex,
}

impl<P: Present> Stripe<'_, P> {
    fn is_present(&self, role: Role) -> bool {
        self.present.is_present(self.layout.disk(self.index, role), self.index)
    }

    fn is_readable(&self, role: Role) -> bool {
        self.present.is_readable(self.layout.disk(self.index, role), self.index)
    }

    fn access(&self, role: Role, offset: u64, count: u64) -> Access {
        let disk = self.layout.disk(self.index, role);
        let first = self.layout.unit_on(disk, self.index) + BlockCount(offset);
        let blocks = BlockRange::new(first, BlockCount(count));
        Access { disk, role, blocks, offset: BlockCount(offset) }
    }

    fn parities(&self) -> impl Iterator<Item = Role> + '_ {
        let units = self.layout.level().parity_units();
        [Role::P, Role::Q].into_iter().take(units).filter(|role| self.is_present(*role))
    }

    fn data(position: usize) -> Role {
        Role::Data { position, copy: 0 }
    }

    /// The parts of `from..to` of the unit at `position` that `extents`, which are sorted, leave out.
    fn gaps<'e>(
        extents: &'e [Extent],
        position: usize,
        (from, to): (u64, u64),
    ) -> impl Iterator<Item = (u64, u64)> + 'e {
        let of_unit = extents.iter().filter(move |extent| extent.position == position);
        let ends = std::iter::once((to, to));
        let mut at = from;
        of_unit.map(|e| (e.offset.0, e.offset.0 + e.count.0)).chain(ends).filter_map(
            move |(begin, end)| {
                let gap = (at, begin);
                at = at.max(end);
                (gap.0 < gap.1).then_some(gap)
            },
        )
    }
}

impl Plan {
    /// Plans the reading of `extent` of `stripe` from a unit that is not there, or of which a block
    /// cannot be read: the other units that it is worked out from go to `reads`.
    pub fn restore(
        &mut self,
        layout: &Layout,
        present: &impl Present,
        stripe: StripeIndex,
        extent: Extent,
    ) -> Result<(), Lost> {
        self.clear();
        let stripe = Stripe { layout, present, index: stripe };
        let (from, to) = (extent.offset.0, extent.offset.0 + extent.count.0);
        self.hull = (BlockCount(from), BlockCount(to));
        let copies = (0..layout.level().copies(layout.disks()))
            .map(|copy| Role::Data { position: extent.position, copy });
        if let Some(copy) = copies.into_iter().find(|copy| stripe.is_readable(*copy)) {
            self.reads.push(stripe.access(copy, from, to - from));
            return Ok(());
        }
        self.method = Method::Restore;
        self.read_what_is_left(&stripe)
    }

    /// Plans the reading of all data units of `stripe`, or of what they are worked out from.
    pub fn read_data(
        &mut self,
        layout: &Layout,
        present: &impl Present,
        stripe: StripeIndex,
    ) -> Result<(), Lost> {
        self.clear();
        self.hull = (BlockCount::ZERO, layout.unit(stripe));
        self.method = Method::Restore;
        self.read_what_is_left(&Stripe { layout, present, index: stripe })
    }

    /// Plans the writing of `extents` of `stripe`, which do not overlap; sorts them. Of the ways that
    /// are possible the one is taken that reads less.
    pub fn write(
        &mut self,
        layout: &Layout,
        present: &impl Present,
        stripe: StripeIndex,
        extents: &mut [Extent],
    ) -> Result<(), Lost> {
        self.clear();
        extents.sort_unstable();
        let stripe = Stripe { layout, present, index: stripe };
        let level = layout.level();
        let copies = level.copies(layout.disks());
        for extent in extents.iter() {
            for copy in 0..copies {
                let role = Role::Data { position: extent.position, copy };
                if stripe.is_present(role) {
                    self.writes.push(stripe.access(role, extent.offset.0, extent.count.0));
                }
            }
        }
        let written = self.writes.len();
        let from = extents.iter().map(|extent| extent.offset.0).min().unwrap_or(0);
        let to = extents.iter().map(|extent| extent.offset.0 + extent.count.0).max().unwrap_or(0);
        for parity in stripe.parities() {
            self.writes.push(stripe.access(parity, from, to - from));
        }
        if self.writes.len() == written {
            // Each block must go somewhere.
            let reached = |extent: &Extent| {
                (0..copies)
                    .any(|copy| stripe.is_present(Role::Data { position: extent.position, copy }))
            };
            return if extents.iter().all(reached) { Ok(()) } else { Err(Lost) };
        }
        self.hull = (BlockCount(from), BlockCount(to));
        self.choose(&stripe, level, extents, (from, to))
    }

    fn choose<P: Present>(
        &mut self,
        stripe: &Stripe<'_, P>,
        level: Level,
        extents: &[Extent],
        (from, to): (u64, u64),
    ) -> Result<(), Lost> {
        let positions = level.data_units(stripe.layout.disks());
        let gaps = |position| Stripe::<P>::gaps(extents, position, (from, to));
        let readable = stripe.parities().all(|parity| stripe.is_readable(parity));
        let old_parity = stripe.parities().count() as u64 * (to - from);
        let mut modify = readable.then_some(old_parity);
        for extent in extents {
            let there = stripe.is_readable(Stripe::<P>::data(extent.position));
            modify = modify.filter(|_| there).map(|blocks| blocks + extent.count.0);
        }
        let mut reconstruct = Some(0);
        for position in 0..positions {
            let missing: u64 = gaps(position).map(|(begin, end)| end - begin).sum();
            let there = missing == 0 || stripe.is_readable(Stripe::<P>::data(position));
            reconstruct = reconstruct.filter(|_| there).map(|blocks: u64| blocks + missing);
        }
        match (modify, reconstruct) {
            (Some(modify), reconstruct) if reconstruct.is_none_or(|other| modify < other) => {
                self.method = Method::Modify;
                for extent in extents {
                    let role = Stripe::<P>::data(extent.position);
                    self.reads.push(stripe.access(role, extent.offset.0, extent.count.0));
                }
                for parity in stripe.parities() {
                    self.reads.push(stripe.access(parity, from, to - from));
                }
                Ok(())
            }
            (_, Some(_)) => {
                self.method = Method::Reconstruct;
                for position in 0..positions {
                    for (begin, end) in gaps(position) {
                        let role = Stripe::<P>::data(position);
                        self.reads.push(stripe.access(role, begin, end - begin));
                    }
                }
                Ok(())
            }
            _ => {
                self.method = Method::Restore;
                self.read_what_is_left(stripe)
            }
        }
    }

    /// Reads the hull of all data units, and of as many parities as are missing of these.
    fn read_what_is_left<P: Present>(&mut self, stripe: &Stripe<'_, P>) -> Result<(), Lost> {
        let (from, to) = (self.hull.0.0, self.hull.1.0);
        let copies = stripe.layout.level().copies(stripe.layout.disks());
        let mut missing = 0;
        for position in 0..stripe.layout.data_units() {
            let roles = (0..copies).map(|copy| Role::Data { position, copy });
            match roles.into_iter().find(|role| stripe.is_readable(*role)) {
                Some(role) => self.reads.push(stripe.access(role, from, to - from)),
                None => missing += 1,
            }
        }
        let mut parities = stripe.parities().filter(|parity| stripe.is_readable(*parity));
        for _ in 0..missing {
            let parity = parities.next().ok_or(Lost)?;
            self.reads.push(stripe.access(parity, from, to - from));
        }
        Ok(())
    }

    fn clear(&mut self) {
        self.method = Method::Plain;
        self.reads.clear();
        self.writes.clear();
        self.hull = (BlockCount::ZERO, BlockCount::ZERO);
    }
}
