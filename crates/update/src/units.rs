//! Units: the parts of a block that lie apart on the device, so that who wants some of them reads no others.
//!
//! A format says which units its blocks have ([`BlockFormat::units`](crate::BlockFormat::units)). In an extent the units of one
//! number lie side by side, one for each block:
//!
//! ```text
//!  three blocks of two units:  | 0.0 | 1.0 | 2.0 | 0.1 | 1.1 | 2.1 | table of the blocks |
//! ```
//!
//! So the units 0 of all blocks are one run of the device, and so is each block whose format has a single unit. On a device with
//! equivalence classes the runs lie in rows of equivalents: see `crate::data::strips`.

use bytes::Bytes;

/// Units of a block at most.
pub(crate) const UNITS_MAX: usize = 64;

/// Some of the units of a block.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct UnitSet(u64);

impl UnitSet {
    /// All of them.
    pub const ALL: UnitSet = UnitSet(u64::MAX);
    /// None of them.
    pub const NONE: UnitSet = UnitSet(0);

    /// One of them; none, where there are no units of so high a number.
    #[must_use]
    pub fn one(unit: usize) -> UnitSet {
        UnitSet(if unit < UNITS_MAX { 1 << unit } else { 0 })
    }

    /// These and others.
    #[must_use]
    pub fn with(self, other: UnitSet) -> UnitSet {
        UnitSet(self.0 | other.0)
    }

    /// These but for those of another set.
    pub(crate) fn without(self, other: UnitSet) -> UnitSet {
        UnitSet(self.0 & !other.0)
    }

    /// Whether a unit is in both sets.
    #[must_use]
    pub fn meets(self, other: UnitSet) -> bool {
        self.0 & other.0 != 0
    }

    /// Whether a unit is among them.
    #[must_use]
    pub fn has(self, unit: usize) -> bool {
        unit < UNITS_MAX && self.0 >> unit & 1 == 1
    }
}

/// The units of blocks that lie side by side: a strip for each unit, empty where the unit was not read.
#[derive(Clone, Copy, Debug)]
enum Strips<'a> {
    /// One block of one unit.
    Whole(&'a [u8]),
    /// One block, with its units.
    Units(&'a [Vec<u8>]),
    Read(&'a [Bytes]),
    Made(&'a [Vec<u8>]),
    /// Units of lengths of their own, with where each ends in its strip; none of a unit that is not there.
    Fitted(&'a [Vec<u8>], &'a [Vec<usize>]),
}

/// A block, or those of its units that were read.
#[derive(Clone, Copy, Debug)]
pub struct Block<'a> {
    strips: Strips<'a>,
    /// Which block of the strips it is.
    index: usize,
    /// Bytes of each unit.
    unit_bytes: &'a [usize],
}

impl<'a> Block<'a> {
    /// A block of one unit.
    #[must_use]
    pub fn whole(bytes: &'a [u8]) -> Block<'a> {
        Block { strips: Strips::Whole(bytes), index: 0, unit_bytes: &[] }
    }

    /// A block of these units.
    #[must_use]
    pub fn of_units(units: &'a [Vec<u8>]) -> Block<'a> {
        Block { strips: Strips::Units(units), index: 0, unit_bytes: &[] }
    }

    pub(crate) fn read(strips: &'a [Bytes], index: usize, unit_bytes: &'a [usize]) -> Block<'a> {
        Block { strips: Strips::Read(strips), index, unit_bytes }
    }

    pub(crate) fn made(strips: &'a [Vec<u8>], index: usize, unit_bytes: &'a [usize]) -> Block<'a> {
        Block { strips: Strips::Made(strips), index, unit_bytes }
    }

    /// Some block of those that were made, whose units have lengths of their own.
    pub(crate) fn fitted(strips: &'a [Vec<u8>], ends: &'a [Vec<usize>], index: usize) -> Block<'a> {
        Block { strips: Strips::Fitted(strips, ends), index, unit_bytes: &[] }
    }

    /// The bytes of a unit; `None` where it was not read, or there is none.
    #[must_use]
    pub fn unit(self, unit: usize) -> Option<&'a [u8]> {
        let strip = match self.strips {
            Strips::Whole(bytes) => return (unit == 0).then_some(bytes),
            Strips::Units(units) => return units.get(unit).map(Vec::as_slice),
            Strips::Read(strips) => &strips.get(unit)?[..],
            Strips::Made(strips) => &strips.get(unit)?[..],
            Strips::Fitted(strips, ends) => {
                let ends = ends.get(unit)?;
                let start =
                    self.index.checked_sub(1).map_or(Some(0), |at| ends.get(at).copied())?;
                return strips.get(unit)?.get(start..*ends.get(self.index)?);
            }
        };
        let bytes = *self.unit_bytes.get(unit)?;
        strip.get(self.index * bytes..(self.index + 1) * bytes)
    }

    /// The bytes of a block of one unit.
    #[must_use]
    pub fn bytes(self) -> &'a [u8] {
        self.unit(0).unwrap_or_default()
    }
}
