//! The data device: superblocks, extents, checkpoints, and the cache of blocks that were read.

pub(crate) mod cache;
pub(crate) mod checkpoint;
pub(crate) mod division;
pub(crate) mod format;
pub(crate) mod layout;
pub(crate) mod place;
pub(crate) mod requests;
pub(crate) mod strips;
pub(crate) mod superblock;
pub(crate) mod tables;
