//! Extents: equal stretches of the data device, each with room for the blocks of a partition and what is
//! staged for them.
//!
//! Nothing is written over: a sweep writes a partition to another extent. An extent is free again when the
//! last who may read it lets go.

use std::collections::BTreeSet;
use std::sync::Arc;

use parking_lot::Mutex;

/// The extents that are free.
#[derive(Debug)]
pub(crate) struct Extents {
    free: Mutex<Free>,
    pub(crate) count: u32,
}

#[derive(Debug)]
struct Free {
    extents: BTreeSet<u32>,
    /// Where to look first, so that what is written together lies together.
    next: u32,
    /// How many were taken.
    taken: u64,
}

/// An extent in use, and free once dropped.
#[derive(Debug)]
pub(crate) struct Extent {
    pub(crate) index: u32,
    /// That of no other that was ever taken.
    pub(crate) number: u64,
    all: Arc<Extents>,
}

impl Extents {
    /// `count` extents, all free.
    pub(crate) fn new(count: u32) -> Arc<Extents> {
        let free = Mutex::new(Free { extents: (0..count).collect(), next: 0, taken: 0 });
        Arc::new(Extents { free, count })
    }

    pub(crate) fn free(&self) -> usize {
        self.free.lock().extents.len()
    }

    /// A free extent; `None` when there is none but for `reserve`.
    pub(crate) fn take(self: &Arc<Extents>, reserve: usize) -> Option<Extent> {
        let mut free = self.free.lock();
        if free.extents.len() <= reserve {
            return None;
        }
        let ahead = free.extents.range(free.next..).next().copied();
        let index = ahead.or_else(|| free.extents.first().copied())?;
        free.next = index + 1;
        self.remove(&mut free, index)
    }

    /// The extent `index`, when it is free.
    pub(crate) fn take_this(self: &Arc<Extents>, index: u32) -> Option<Extent> {
        self.remove(&mut self.free.lock(), index)
    }

    fn remove(self: &Arc<Extents>, free: &mut Free, index: u32) -> Option<Extent> {
        if !free.extents.remove(&index) {
            return None;
        }
        free.taken += 1;
        Some(Extent { index, number: free.taken, all: Arc::clone(self) })
    }
}

impl Drop for Extent {
    fn drop(&mut self) {
        self.all.free.lock().extents.insert(self.index);
    }
}
