//! What a disk is asked, and what it answers.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

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

/// A done request, by when it is done and then by the order in which that was known.
#[derive(Debug, PartialEq, Eq)]
struct Done {
    finished: Instant,
    sequence: u64,
    completion: DiskCompletion,
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

/// Done requests whose time has not come, earliest first.
#[derive(Debug, Default)]
pub(crate) struct DoneQueue {
    waiting: BinaryHeap<Reverse<Done>>,
    pushed: u64,
}

impl DoneQueue {
    pub(crate) fn push(&mut self, completion: DiskCompletion) {
        let (finished, sequence) = (completion.finished, self.pushed);
        self.pushed += 1;
        self.waiting.push(Reverse(Done { finished, sequence, completion }));
    }

    /// When the next of them is done.
    pub(crate) fn next(&self) -> Option<Instant> {
        self.waiting.peek().map(|Reverse(done)| done.finished)
    }

    /// Appends those that are done by `now` to `completions`.
    pub(crate) fn take(&mut self, now: Instant, completions: &mut Vec<DiskCompletion>) {
        while self.next().is_some_and(|finished| finished <= now) {
            completions.extend(self.waiting.pop().map(|Reverse(done)| done.completion));
        }
    }
}
