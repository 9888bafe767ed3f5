//! Places on the platters of a disk.

/// A sector's place on the platters.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Location {
    /// Cylinder, counted from the rim.
    pub cylinder: u32,
    /// Head, which is also the surface.
    pub head: u32,
    /// Sector, counted round the track from the track's own first one.
    pub sector: u32,
}
