//! Where the blocks of a sorted run lie.

use moirai_extents::Extent;

use crate::ids::SpaceId;

/// A block of a run: modifications of one space.
#[derive(Debug)]
pub(crate) struct RunBlock {
    pub(crate) space: SpaceId,
    /// The keys of the first and the last of them.
    pub(crate) first: Box<[u8]>,
    pub(crate) last: Box<[u8]>,
    /// Where they lie: in more than one extent where the free blocks are scattered. Free once nobody needs the run.
    pub(super) extents: Vec<Extent>,
    pub(super) bytes: usize,
    pub(super) checksum: u32,
}

/// Modifications in the order of spaces and keys; those of one key in the order in which they came.
pub(crate) type Run = Vec<RunBlock>;
