//! A value as a block holds it: itself, or a reference.

use moirai_units::ByteCount;

use crate::long::reference::Reference;

/// A value as a block holds it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stored<'a> {
    /// The value itself.
    Short(&'a [u8]),
    /// The reference to a long value, as the engine encoded it.
    Long(&'a [u8]),
}

impl Stored<'_> {
    /// Bytes of the value.
    #[must_use]
    pub fn length(&self) -> ByteCount {
        match self {
            Stored::Short(value) => ByteCount(value.len() as u64),
            Stored::Long(reference) => {
                Reference::decode(reference).map_or(ByteCount(0), |one| one.length())
            }
        }
    }
}
