//! What a disk is asked, and what it answers.

use moirai_units::{BlockCount, BlockRange, Instant, ServiceParts};

use crate::Direction;

/// Names a request of one disk.
pub type RequestId = u64;

/// A request to a disk, whose blocks the disk has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DiskRequest {
    /// Comes back with the completion.
    pub id: RequestId,
    /// Read or write.
    pub direction: Direction,
    /// The blocks accessed.
    pub blocks: BlockRange,
}

/// A request that is done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DiskCompletion {
    /// The request.
    pub id: RequestId,
    /// When it was submitted.
    pub issued: Instant,
    /// When work on it began.
    pub started: Instant,
    /// When its last byte had crossed the bus, or was on the platter.
    pub finished: Instant,
    /// Blocks that came from the cache, or were left to it.
    pub cached: BlockCount,
    /// Where the time went.
    pub parts: ServiceParts,
}

/// Done requests, earliest first and then in the order in which that was known.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Done {
    pub(crate) finished: Instant,
    pub(crate) sequence: u64,
    pub(crate) completion: DiskCompletion,
}

impl Ord for Done {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        (self.finished, self.sequence).cmp(&(other.finished, other.sequence))
    }
}

impl PartialOrd for Done {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}
