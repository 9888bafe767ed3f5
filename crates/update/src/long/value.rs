//! Long values that are on the device before their group is committed.

use std::sync::Arc;

use moirai_extents::{Extent, Extents};
use moirai_units::{BlockRange, ByteCount};
use parking_lot::Mutex;

use crate::long::reference::Reference;

/// A long value that is on the device, for one modification of a group: see
/// [`Group::put_long`](crate::Group::put_long). Its blocks are free again when it is dropped before its group is
/// committed.
#[derive(Debug)]
pub struct LongValue {
    pub(crate) reference: Reference,
    runs: Vec<BlockRange>,
    /// `None` once its group was taken in: the state has them then.
    extents: Mutex<Option<Vec<Extent>>>,
}

impl LongValue {
    pub(crate) fn new(reference: Reference, extents: Vec<Extent>) -> LongValue {
        let runs = extents.iter().map(|extent| extent.blocks).collect();
        LongValue { reference, runs, extents: Mutex::new(Some(extents)) }
    }

    /// Bytes of the value.
    #[must_use]
    pub fn length(&self) -> ByteCount {
        self.reference.length()
    }

    pub(crate) fn runs(&self) -> &[BlockRange] {
        &self.runs
    }

    /// Whether it may be put: it was not yet, and lies in `all`.
    pub(crate) fn is_new(&self, all: &Arc<Extents>) -> bool {
        let extents = self.extents.lock();
        extents.as_ref().is_some_and(|extents| extents.iter().all(|one| one.is_of(all)))
    }

    /// Gives its extents to the state.
    pub(crate) fn give(&self) -> Vec<Extent> {
        self.extents.lock().take().unwrap_or_default()
    }
}
