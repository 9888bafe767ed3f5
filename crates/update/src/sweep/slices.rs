//! The modifications of a bulk group for one partition, some at a time: there may be more of them than memory holds.

use crate::bulk::run::Merge;
use crate::error::{Error, Result};
use crate::ids::SpaceId;
use crate::state::queue::Queue;

/// What a bulk group has for one partition.
pub(super) struct Slices<'a, 'm> {
    pub(super) merge: &'m mut Merge<'a>,
    pub(super) space: SpaceId,
    /// Where the partition ends.
    pub(super) high: Option<&'m [u8]>,
    /// The first modifications, which were taken already.
    pub(super) first: Option<Queue>,
    /// Bytes of a slice, about.
    pub(super) bytes_max: usize,
    /// Why no more could be taken.
    pub(super) failed: Option<Error>,
}

/// Modifications of keys that follow each other, and the key from which on there are more.
pub(super) struct Slice {
    pub(super) queue: Queue,
    pub(super) end: Option<Box<[u8]>>,
}

impl Slices<'_, '_> {
    /// The modifications that come next.
    pub(super) async fn take(&mut self) -> Result<Slice> {
        let mut queue = self.first.take().unwrap_or_default();
        if queue.is_empty() {
            self.merge.take_some(self.space, self.high, self.bytes_max, &mut queue).await?;
        }
        let end = self.merge.next_key(self.space, self.high).map(Box::from);
        Ok(Slice { queue, end })
    }
}

/// What was sealed, of a range of keys or all of it, and a slice of a group after it.
pub(super) fn with_slice(
    sealed: &Queue,
    range: Option<(&[u8], Option<&[u8]>)>,
    slice: Queue,
) -> Queue {
    let mut queue = match range {
        None => sealed.copied(),
        Some((low, high)) => sealed.within(low, high),
    };
    queue.append(slice);
    queue
}
