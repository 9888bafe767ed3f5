//! Where a volume's blocks lie on its disks. Pure arithmetic.
//!
//! A volume is a sequence of *stripes*: a unit on each disk, in the same slot of each. What a disk's
//! unit is for, data or parity, the [`Level`] says. A unit is as long as all others of its *band*: the
//! stretch of stripes that a zone, or an unusual track, makes. In the quadrangle layout `depth` stripes
//! keep their roles, so that their units on a disk make up a quadrangle, and each is turned by a volume
//! block against the one above (thesis 6.3.5, figure 6.5).
//!
//! ```text
//!            disk 0   disk 1   disk 2   disk 3      raid5, 4 disks
//! stripe 0   D0       D1       D2       P           block of the volume = stripe, position, and
//! stripe 1   D1       D2       P        D0          offset in the unit; block of a disk = slot
//! ...                                               (the stripe), and the turned offset
//! ```

use std::sync::Arc;

use moirai_storage::EquivalenceClass;
use moirai_units::{BlockCount, BlockRange, Lbn};

use crate::level::{Level, Role};
use crate::slots::Slots;

/// Which of a volume's devices, counted from 0.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct DiskIndex(pub usize);

/// A stripe of a volume, counted from 0.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct StripeIndex(pub u64);

/// Where a block of the volume lies in its stripe.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Place {
    /// The stripe.
    pub stripe: StripeIndex,
    /// Which data unit of it.
    pub position: usize,
    /// The block within the unit, as the disks have it.
    pub offset: BlockCount,
    /// How many blocks from there on are consecutive on the volume and on the disk alike.
    pub run: BlockCount,
}

/// Where a block of the volume lies on a disk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Location {
    /// The disk.
    pub disk: DiskIndex,
    /// The block on it.
    pub dlbn: Lbn,
    /// How many blocks from there on are consecutive on the volume and on the disk alike.
    pub run: BlockCount,
}

/// Stripes behind each other whose units are equally long.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Band {
    /// The first block of the volume in it.
    first: Lbn,
    first_stripe: u64,
    stripes: u64,
    unit: BlockCount,
    switch: BlockCount,
}

/// How a volume spreads its blocks over its disks. The functions take blocks and stripes that the
/// volume has.
#[derive(Clone, Debug)]
pub struct Layout {
    level: Level,
    disks: usize,
    /// Whether data units move on with each turn even where no parity moves them.
    moved: bool,
    /// Stripes of a turn, d.
    depth: u64,
    /// By how much each stripe of a turn is turned against the one before, b.
    block: BlockCount,
    bands: Vec<Band>,
    /// Of each disk.
    slots: Vec<Arc<Slots>>,
    stripes: u64,
    capacity: BlockCount,
}

/// A block of the volume, taken apart.
struct Within<'a> {
    band: &'a Band,
    /// The stripe, counted in the band.
    stripe: u64,
    position: u64,
    /// Block in the unit, in the volume's order.
    within: u64,
}

impl Layout {
    /// Stripes of fixed `unit`s over `disks` disks of `capacity` each; disks are not asked for their
    /// attributes.
    ///
    /// # Errors
    /// When the level is not possible over so many disks, or they are smaller than a unit.
    pub fn striped(
        level: Level,
        disks: usize,
        unit: BlockCount,
        capacity: BlockCount,
    ) -> Result<Layout, String> {
        level.check(disks)?;
        match capacity.0.checked_div(unit.0).unwrap_or(0) {
            0 => Err(format!("disks of {capacity} are smaller than a stripe unit of {unit}")),
            stripes => Ok(crate::stripe::fixed_of(level, disks, stripes, unit)),
        }
    }

    /// Stripes without bands; [`Layout::add`] adds these.
    pub(crate) fn new(
        level: Level,
        moved: bool,
        depth: u64,
        block: BlockCount,
        slots: Vec<Slots>,
    ) -> Layout {
        Layout {
            level,
            disks: slots.len(),
            moved,
            depth,
            block,
            bands: Vec::new(),
            slots: Slots::shared(slots),
            stripes: 0,
            capacity: BlockCount::ZERO,
        }
    }

    /// Adds stripes with units of `unit` blocks, in the next slots; `switch` is the delay of crossing
    /// from one to the next on a disk.
    pub(crate) fn add(&mut self, stripes: u64, unit: BlockCount, switch: BlockCount) {
        let units = self.level.data_units(self.disks) as u64;
        match self.bands.last_mut() {
            Some(band) if band.unit == unit => {
                band.stripes += stripes;
                band.switch = band.switch.max(switch);
            }
            _ => self.bands.push(Band {
                first: Lbn(self.capacity.0),
                first_stripe: self.stripes,
                stripes,
                unit,
                switch,
            }),
        }
        self.stripes += stripes;
        self.capacity += BlockCount(stripes * units * unit.0);
    }

    /// Blocks of the volume.
    #[must_use]
    pub fn capacity(&self) -> BlockCount {
        self.capacity
    }

    /// How the volume survives the failure of disks.
    #[must_use]
    pub fn level(&self) -> Level {
        self.level
    }

    /// Disks of the volume.
    #[must_use]
    pub fn disks(&self) -> usize {
        self.disks
    }

    /// Stripes of the volume.
    #[must_use]
    pub fn stripes(&self) -> u64 {
        self.stripes
    }

    /// Data units of a stripe.
    #[must_use]
    pub fn data_units(&self) -> usize {
        self.level.data_units(self.disks)
    }

    /// Parallelism p: how many blocks can be read at the same time. Where the roles go round, data
    /// are read from all disks (thesis 3.4.1).
    #[must_use]
    pub fn parallelism(&self) -> u32 {
        let all = if self.level.goes_round(self.moved) {
            self.disks
        } else {
            self.data_units() * self.level.copies(self.disks)
        };
        u32::try_from(all).unwrap_or(u32::MAX)
    }

    /// Depth d: how many blocks of one disk can be accessed for one positioning cost.
    #[must_use]
    pub fn depth(&self) -> u32 {
        u32::try_from(self.depth).unwrap_or(u32::MAX)
    }

    /// The volume block, b, of the quadrangle layout.
    #[must_use]
    pub fn block(&self) -> BlockCount {
        self.block
    }

    fn band_of_stripe(&self, stripe: StripeIndex) -> Option<&Band> {
        let after = self.bands.partition_point(|band| band.first_stripe <= stripe.0);
        self.bands.get(after.saturating_sub(1))
    }

    fn within(&self, vlbn: Lbn) -> Within<'_> {
        let after = self.bands.partition_point(|band| band.first <= vlbn);
        let Some(band) = self.bands.get(after.saturating_sub(1)) else {
            panic!("a layout has blocks");
        };
        let from_first = vlbn.since(band.first).0;
        let (unit, within) = (from_first / band.unit.0, from_first % band.unit.0);
        let units = self.data_units() as u64;
        Within { band, stripe: unit / units, position: unit % units, within }
    }

    /// Where `vlbn` lies in its stripe.
    #[must_use]
    pub fn place(&self, vlbn: Lbn) -> Place {
        let Within { band, stripe, position, within } = self.within(vlbn);
        let turned = band.first_stripe + stripe;
        let by = turned % self.depth * self.block.0;
        // What runs over the unit's end lies at its beginning.
        let (offset, run) = if within + by < band.unit.0 {
            (within + by, band.unit.0 - by - within)
        } else {
            (within + by - band.unit.0, band.unit.0 - within)
        };
        Place {
            stripe: StripeIndex(turned),
            position: position as usize,
            offset: BlockCount(offset),
            run: BlockCount(run),
        }
    }

    /// Blocks of each unit of `stripe`.
    #[must_use]
    pub fn unit(&self, stripe: StripeIndex) -> BlockCount {
        self.band_of_stripe(stripe).map_or(BlockCount::ZERO, |band| band.unit)
    }

    /// Whether its stripes are in the same places as those of `other`, which has as many disks or fewer.
    pub(crate) fn extends(&self, other: &Layout) -> bool {
        self.is_divided_as(other) && self.slots.starts_with(&other.slots)
    }

    /// Whether its units are as long as those of `other`, stripe by stripe.
    pub(crate) fn is_divided_as(&self, other: &Layout) -> bool {
        let bands = |layout: &Layout| -> Vec<(u64, u64, BlockCount)> {
            let bands = layout.bands.iter();
            bands.map(|band| (band.first_stripe, band.stripes, band.unit)).collect()
        };
        bands(self) == bands(other) && (self.depth, self.block) == (other.depth, other.block)
    }

    /// How much of a disk it takes at most, from where it begins to the end of the last unit.
    pub(crate) fn end(&self) -> BlockCount {
        let last = StripeIndex(self.stripes.saturating_sub(1));
        let end = |disk| (self.unit_on(DiskIndex(disk), last) + self.unit(last)).since(Lbn(0));
        (0..self.disks).map(end).max().unwrap_or_default()
    }

    /// A checksum of where the units of `disk` lie.
    pub(crate) fn slots_checksum(&self, disk: DiskIndex) -> u32 {
        self.slots.get(disk.0).map_or(0, |slots| slots.checksum())
    }

    /// A checksum of how long its units are, stripe by stripe.
    pub(crate) fn division(&self) -> u32 {
        let numbers = |band: &Band| [band.first_stripe, band.stripes, band.unit.0];
        let all = self.bands.iter().flat_map(numbers).chain([self.depth, self.block.0]);
        all.fold(0, |sum, number| crc32c::crc32c_append(sum, &number.to_le_bytes()))
    }

    /// The first `stripes` of it; as it is where it has no more.
    pub(crate) fn limited_to(mut self, stripes: u64) -> Layout {
        if stripes >= self.stripes {
            return self;
        }
        self.bands.retain(|band| band.first_stripe < stripes);
        if let Some(last) = self.bands.last_mut() {
            last.stripes = last.stripes.min(stripes - last.first_stripe);
        }
        let slots = self.slots.iter().map(|slots| slots.limited_to(stripes));
        self.slots = Slots::shared(slots.collect());
        self.stripes = stripes;
        self.capacity = BlockCount(self.stripe_blocks(StripeIndex(stripes)).first.0);
        self
    }

    /// Blocks of the longest unit.
    #[must_use]
    pub fn unit_max(&self) -> BlockCount {
        self.bands.iter().map(|band| band.unit).max().unwrap_or_default()
    }

    /// The blocks of the volume in `stripe`.
    #[must_use]
    pub fn stripe_blocks(&self, stripe: StripeIndex) -> BlockRange {
        let Some(band) = self.band_of_stripe(stripe) else {
            return BlockRange::new(Lbn(0), BlockCount::ZERO);
        };
        let blocks = band.unit.0 * self.data_units() as u64;
        let first = band.first + BlockCount((stripe.0 - band.first_stripe) * blocks);
        BlockRange::new(first, BlockCount(blocks))
    }

    /// The block of the volume at `offset` of the data unit `position` of `stripe`: the inverse of
    /// [`Layout::place`].
    #[must_use]
    pub fn block_at(&self, stripe: StripeIndex, position: usize, offset: BlockCount) -> Lbn {
        let unit = self.unit(stripe).0;
        let by = stripe.0 % self.depth * self.block.0;
        let within = (offset.0 + unit - by) % unit.max(1);
        let first = self.stripe_blocks(stripe).first;
        first + BlockCount(position as u64 * unit + within)
    }

    /// The first block of the unit of `stripe` on `disk`.
    #[must_use]
    pub fn unit_on(&self, disk: DiskIndex, stripe: StripeIndex) -> Lbn {
        self.slots.get(disk.0).map_or(Lbn(0), |slots| slots.first_block(stripe.0))
    }

    fn turn(&self, stripe: StripeIndex) -> u64 {
        stripe.0 / self.depth
    }

    /// What `disk` holds of `stripe`.
    #[must_use]
    pub fn role(&self, stripe: StripeIndex, disk: DiskIndex) -> Role {
        self.level.role(self.disks, self.turn(stripe), self.moved, disk)
    }

    /// The disk that has `role` in `stripe`.
    #[must_use]
    pub fn disk(&self, stripe: StripeIndex, role: Role) -> DiskIndex {
        self.level.disk(self.disks, self.turn(stripe), self.moved, role)
    }

    /// The copy of the data units of `stripe` that is read when all are there.
    #[must_use]
    pub fn preferred_copy(&self, stripe: StripeIndex) -> usize {
        self.level.preferred_copy(self.disks, self.turn(stripe), self.moved)
    }

    /// Where `vlbn` is read from when all disks are there.
    #[must_use]
    pub fn locate(&self, vlbn: Lbn) -> Location {
        let Place { stripe, position, offset, run } = self.place(vlbn);
        let copy = self.preferred_copy(stripe);
        let disk = self.disk(stripe, Role::Data { position, copy });
        Location { disk, dlbn: self.unit_on(disk, stripe) + offset, run }
    }

    /// The unit around `vlbn`, in the volume's blocks, and the delay of crossing its upper boundary.
    #[must_use]
    pub fn unit_around(&self, vlbn: Lbn) -> (BlockRange, BlockCount) {
        let Within { band, within, .. } = self.within(vlbn);
        (BlockRange::new(Lbn(vlbn.0 - within), band.unit), band.switch)
    }

    /// The units that are read in parallel with the one around `vlbn`: those of its stripe, or with
    /// copies of as many stripes.
    #[must_use]
    pub fn parallel_units(&self, vlbn: Lbn) -> BlockRange {
        let Within { band, stripe, .. } = self.within(vlbn);
        let together = match self.depth {
            1 => self.level.copies(self.disks) as u64,
            // The next stripe is below this one, on the same disks.
            _ => 1,
        };
        let first = stripe / together * together;
        let blocks = band.unit.0 * self.data_units() as u64;
        let count = together.min(band.stripes - first);
        BlockRange::new(band.first + BlockCount(first * blocks), BlockCount(count * blocks))
    }

    /// The equivalence class of `vlbn`: p columns of d blocks each. The blocks of a column lie below
    /// each other in a quadrangle; the columns lie on different disks, because they belong to turns
    /// that put the same position there, or else to the positions of one turn.
    #[must_use]
    pub fn equivalent(&self, vlbn: Lbn) -> EquivalenceClass {
        let Within { band, stripe, position, within } = self.within(vlbn);
        let (depth, units) = (self.depth, self.data_units() as u64);
        let turns = match self.level.goes_round(self.moved) {
            true => self.disks as u64,
            false => self.level.copies(self.disks) as u64,
        };
        let turn = stripe / depth;
        let first = turn / turns * turns;
        let whole = (first + turns) * depth <= band.stripes;
        // At the end of a band the turns do not suffice: a class is within one.
        let (first, turns, round) = match whole {
            true => (first, turns, self.level.goes_round(self.moved)),
            false => (turn, 1, false),
        };
        let positions = if round { position..position + 1 } else { 0..units };
        let member = |row: u64, turn: u64, position: u64| {
            let stripe = (first + turn) * depth + row;
            band.first + BlockCount((stripe * units + position) * band.unit.0 + within)
        };
        let columns = || (0..turns).flat_map(|turn| positions.clone().map(move |at| (turn, at)));
        let rows = depth.min(band.stripes - first * depth);
        EquivalenceClass {
            lbns: (0..rows)
                .flat_map(|row| columns().map(move |(turn, at)| member(row, turn, at)))
                .collect(),
            parallelism: u32::try_from(columns().count()).unwrap_or(u32::MAX),
        }
    }
}

#[cfg(test)]
mod tests;
