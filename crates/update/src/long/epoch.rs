//! Epochs: blocks that are left are given to others once every reader has ended that may still read them.
//!
//! ```text
//!  readers         R1   R2            R3
//!                   \   /              |
//!  epochs          epoch 7  --next--> epoch 8  --next--> epoch 9 (current)
//!  left in it       a, b               c
//! ```
//!
//! A reader holds the epoch that was current when it looked into the state. An epoch holds the next one. So what was left
//! in epoch 8 is dropped once R1, R2 and R3 have ended: they may have seen references to it.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};

use moirai_extents::Extent;
use parking_lot::Mutex;

/// See the module.
#[derive(Debug, Default)]
pub(crate) struct Epoch {
    left: Mutex<Vec<Extent>>,
    next: OnceLock<Arc<Epoch>>,
    /// Extents that this epoch and the others of the engine keep.
    kept: Arc<AtomicUsize>,
}

impl Epoch {
    fn counting(kept: &Arc<AtomicUsize>) -> Epoch {
        Epoch { left: Mutex::default(), next: OnceLock::new(), kept: Arc::clone(kept) }
    }

    /// Ends the epoch `current`, in which `left` were left, and begins the next one. Gives the one that ended, which frees
    /// them when it is dropped unless somebody reads.
    pub(crate) fn end(current: &mut Arc<Epoch>, left: Vec<Extent>) -> Arc<Epoch> {
        let next = Arc::new(Epoch::counting(&current.kept));
        current.kept.fetch_add(left.len(), Ordering::Relaxed);
        current.left.lock().extend(left);
        // It is ended once, while the state is locked.
        let _ = current.next.set(Arc::clone(&next));
        std::mem::replace(current, next)
    }

    /// Bytes of memory of the extents that all epochs keep.
    pub(crate) fn memory_bytes(&self) -> usize {
        self.kept.load(Ordering::Relaxed) * size_of::<Extent>()
    }
}

impl Drop for Epoch {
    /// One after the other: a chain may be longer than the stack is deep.
    fn drop(&mut self) {
        self.kept.fetch_sub(self.left.get_mut().len(), Ordering::Relaxed);
        let mut next = self.next.take();
        while let Some(mut epoch) = next.and_then(Arc::into_inner) {
            next = epoch.next.take();
        }
    }
}

#[cfg(test)]
mod tests {
    use moirai_units::{BlockCount, BlockRange, Lbn};

    use super::*;
    use moirai_extents::{Ensembles, Extents};

    #[test]
    fn blocks_are_free_once_the_last_older_reader_ends() {
        let count = BlockCount(4);
        let extents =
            Extents::new(BlockRange::new(Lbn(0), count), BlockCount(1), Ensembles::none());
        let take = || vec![extents.take(BlockCount(1), BlockCount::ZERO).unwrap()];
        let mut current = Arc::new(Epoch::default());
        let first = Arc::clone(&current);
        drop(Epoch::end(&mut current, take()));
        let second = Arc::clone(&current);
        drop(Epoch::end(&mut current, take()));
        let third = Arc::clone(&current);
        // The second epoch's blocks may be read by readers of the first.
        drop(second);
        assert_eq!(extents.free(), BlockCount(2));
        assert_eq!(third.memory_bytes(), 2 * size_of::<Extent>());
        drop(first);
        assert_eq!(extents.free(), count);
        assert_eq!(third.memory_bytes(), 0);
        drop(Epoch::end(&mut current, take()));
        assert_eq!(extents.free(), BlockCount(3));
        drop(third);
        assert_eq!(extents.free(), count);
        // Where nobody reads they are free at once.
        drop(Epoch::end(&mut current, take()));
        assert_eq!(extents.free(), count);
    }

    #[test]
    fn long_chains_are_dropped() {
        let mut current = Arc::new(Epoch::default());
        let first = Arc::clone(&current);
        (0..200_000).for_each(|_| drop(Epoch::end(&mut current, Vec::new())));
        drop(first);
    }
}
