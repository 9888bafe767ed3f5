//! Reads of an engine, as it is now or as it was at a read point.

use std::sync::Arc;

use crate::draft::{Draft, Moment, ViewRange};
use crate::engine::Engine;
use crate::error::Result;
use crate::ids::SpaceId;
use crate::kind::Question;
use crate::long::read::{LongValues, ValueReader};
use crate::shared::Shared;
use crate::units::UnitSet;
use crate::view::{At, View, Views};

/// Reads an engine as it is whenever something is read ([`Engine::now`]), or as it was at a
/// [`ReadPoint`](crate::ReadPoint).
///
/// # Errors
/// [`Error::NoSpace`](crate::Error::NoSpace); [`Error::Damaged`](crate::Error::Damaged) and
/// [`Error::Device`](crate::Error::Device) for what has to be read; at a read point that has ended,
/// [`Error::PointTooOld`](crate::Error::PointTooOld).
#[derive(Clone, Copy)]
pub struct Reader<'a> {
    pub(crate) shared: &'a Arc<Shared>,
    pub(crate) moment: Moment<'a>,
}

impl Engine {
    /// Reads what is there now.
    #[must_use]
    pub fn now(&self) -> Reader<'_> {
        Reader { shared: &self.shared, moment: Moment::NOW }
    }
}

impl<'a> Reader<'a> {
    /// Reads what would be there with the modifications of `draft`.
    #[must_use]
    pub fn over(self, draft: &'a Draft) -> Reader<'a> {
        Reader { moment: Moment { draft: Some(draft), ..self.moment }, ..self }
    }

    /// Reads these units of blocks alone, and of staged modifications those that may change them. Values, and the blocks of views,
    /// have what their format makes of that. Reads fail with [`Error::Options`](crate::Error::Options) where the format has none of
    /// these.
    #[must_use]
    pub fn units(self, units: UnitSet) -> Reader<'a> {
        Reader { moment: Moment { units, ..self.moment }, ..self }
    }

    /// Reads views in layers: blocks as they are on the device, and beside them the modifications that are not in them yet. Where
    /// there are some, the units `with` are read, too: those that say which values there are. See [`View::layers`].
    #[must_use]
    pub fn in_layers(self, with: UnitSet) -> Reader<'a> {
        Reader { moment: Moment { in_layers: Some(with), ..self.moment }, ..self }
    }

    /// Reads views for keys from `from` on and before `to`, or to the last: of other keys they may lack what was modified since blocks were
    /// written. A view may end within a block, with its `next`, once it has so many modifications: the block that all inserts go to has
    /// more than the reader of a few rows should pay for. The caller must ignore keys outside of this range, and those from the view's `next`
    /// on.
    #[must_use]
    pub fn within(self, from: &'a [u8], to: Option<&'a [u8]>, changes: usize) -> Reader<'a> {
        let within = Some(ViewRange { from, to, changes });
        Reader { moment: Moment { within, ..self.moment }, ..self }
    }

    /// The value under a key, with all that was modified; from memory alone where that says all.
    pub async fn get(self, space: SpaceId, key: &[u8]) -> Result<Option<Vec<u8>>> {
        self.shared.get(space, key, self.moment).await
    }

    /// The values under several keys, in the order of `keys` and all of one moment. Blocks are read at the same time,
    /// up to 32 of them, and a block once for all of its keys.
    pub async fn get_many(self, space: SpaceId, keys: &[&[u8]]) -> Result<Vec<Option<Vec<u8>>>> {
        self.shared.get_many(space, keys, self.moment).await
    }

    /// The answer to a question about the value under a key; from memory alone where what is pending there tells it.
    pub async fn query<Q: Question>(
        self,
        space: SpaceId,
        key: &[u8],
        question: &Q,
    ) -> Result<Q::Answer> {
        self.shared.query(space, key, question, self.moment).await
    }

    /// The value under a key, to be read in parts: as it is now, whatever is committed before it is read. It outlives a read
    /// point.
    pub async fn value_reader(self, space: SpaceId, key: &[u8]) -> Result<Option<ValueReader>> {
        self.shared.value_reader(space, key, self.moment).await
    }

    /// A long value of a view, whose blocks hold the `reference`.
    pub async fn long_value(self, values: &LongValues, reference: &[u8]) -> Result<ValueReader> {
        ValueReader::of(Arc::clone(self.shared), values, reference).await
    }

    /// The block at `at` with all that is pending for it, and some that follow it and are read with the same request, up to
    /// `blocks_max` together; with [`At::Before`] and [`At::Last`], some that come before it. `None` when nothing lies there.
    pub async fn view(self, space: SpaceId, at: At<'_>, blocks_max: usize) -> Result<Option<View>> {
        self.shared.view(space, at, blocks_max, self.moment).await
    }

    /// As [`Reader::view`], view after view from `at` on, while `goes_on` says so of the key at which the next one begins; with
    /// [`At::Before`] and [`At::Last`] downwards, and of the key before which it ends. They are read ahead, several at a time
    /// on several disks.
    pub fn views(
        self,
        space: SpaceId,
        at: At<'_>,
        blocks_max: usize,
        goes_on: impl Fn(&[u8]) -> bool + Send + 'static,
    ) -> Views {
        self.shared.views(space, at, (blocks_max, self.moment), goes_on)
    }
}

impl std::fmt::Debug for Reader<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Reader").field("point", &self.moment.point).finish_non_exhaustive()
    }
}
