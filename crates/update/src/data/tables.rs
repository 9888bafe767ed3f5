//! Tables of partitions' blocks that were read or written, kept in a part of the memory.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use lru::LruCache;
use parking_lot::Mutex;

use crate::data::place::Place;
use crate::state::block_table::BlockTable;

/// What keeping a table takes beside its bytes, about.
const ENTRY_BYTES: usize = 96;

/// Tables by the numbers of their places, of which those that nobody asked for longest go first.
#[derive(Debug)]
pub(crate) struct Tables {
    kept: Mutex<LruCache<u64, Arc<BlockTable>>>,
    /// Changed while `kept` is locked.
    bytes: AtomicUsize,
    bytes_max: usize,
}

impl Tables {
    /// None yet, in `bytes_max` bytes of memory.
    pub(crate) fn new(bytes_max: usize) -> Tables {
        let kept = Mutex::new(LruCache::unbounded());
        Tables { kept, bytes: AtomicUsize::new(0), bytes_max }
    }

    /// Bytes of memory that they take.
    pub(crate) fn bytes(&self) -> usize {
        self.bytes.load(Ordering::Relaxed)
    }

    /// The table of a place, when it is in memory.
    pub(crate) fn get(&self, place: &Place) -> Option<Arc<BlockTable>> {
        match place.short_table() {
            Some(table) => Some(Arc::clone(table)),
            None => self.kept.lock().get(&place.number()).cloned(),
        }
    }

    /// Keeps the table of the place with this number, which never changes.
    pub(crate) fn keep(&self, place: u64, table: &Arc<BlockTable>) {
        let mut kept = self.kept.lock();
        let mut bytes = self.bytes() + bytes_of(table);
        let before = kept.put(place, Arc::clone(table));
        bytes -= before.map_or(0, |before| bytes_of(&before));
        while bytes > self.bytes_max
            && let Some((_, table)) = kept.pop_lru()
        {
            bytes -= bytes_of(&table);
        }
        self.bytes.store(bytes, Ordering::Relaxed);
    }

    /// Lets go of the table of a place that is left.
    pub(crate) fn forget(&self, place: &Place) {
        let mut kept = self.kept.lock();
        if let Some(table) = kept.pop(&place.number()) {
            self.bytes.fetch_sub(bytes_of(&table), Ordering::Relaxed);
        }
    }
}

fn bytes_of(table: &BlockTable) -> usize {
    table.memory_bytes() + ENTRY_BYTES
}
