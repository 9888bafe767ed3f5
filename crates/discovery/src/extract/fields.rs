//! Which fields of the caching page can be changed, and with what effect (thesis 4.2.3, its last part).

use moirai_storage::CachePages;

/// A field of the caching page.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CacheField {
    /// The drive says that it can be changed.
    pub can_set: bool,
    /// A change of it shows: with the cache off nothing hits and with it on something does, and with a limit less is read ahead. `None` where
    /// that was not tried.
    pub has_effect: Option<bool>,
}

/// The fields that extraction changes. The thesis tries some more, which no simulated drive has: the least that is read ahead,
/// whether reading ahead goes on past a boundary, the number and the size of segments, writes in order.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CacheFields {
    /// Reads may be answered from the cache (`RCD`).
    pub reads: CacheField,
    /// Writes may be complete when their data are in the cache (`WCE`); tried where writes were allowed.
    pub writes: CacheField,
    /// The longest read ahead (maximum pre-fetch).
    pub read_ahead: CacheField,
}

impl CacheFields {
    /// As the drive says, before anything was tried.
    pub(super) fn of(pages: CachePages) -> CacheFields {
        let field = |can_set| CacheField { can_set, has_effect: None };
        CacheFields {
            reads: field(pages.can_set_reads),
            writes: field(pages.can_set_writes),
            read_ahead: field(pages.can_set_read_ahead),
        }
    }

    /// Each with its name in the SCSI documents.
    #[must_use]
    pub fn named(self) -> [(&'static str, CacheField); 3] {
        [("RCD", self.reads), ("WCE", self.writes), ("maximum pre-fetch", self.read_ahead)]
    }
}

impl CacheField {
    /// Notes what a change did, of a field that can be changed.
    pub(super) fn tried(&mut self, has_effect: bool) {
        self.has_effect = self.can_set.then_some(has_effect);
    }
}
