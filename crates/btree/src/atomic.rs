//! Changes that depend on what they find: compare and swap, and taking the first or last record out.

use moirai_update::{DELETE, Group, Modification, PUT};

use crate::scan::{Direction, Record};
use crate::store::{Store, Tree};
use crate::{Error, Result};

/// The value that [`Store::compare_and_swap`] found instead of the expected one; `None` for no value.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the key does not have the expected value")]
pub struct CurrentValue(pub Option<Vec<u8>>);

impl Store {
    /// Puts `new` under `key`, or deletes `key` where `new` is `None`, if the value there is `expected`; `None` expects
    /// no value. Otherwise changes nothing and returns the value found, as the inner error. Nothing else is committed
    /// between the comparison and the change, by any method. Returns when the change is as durable as
    /// [`Options::durability`](moirai_update::Options::durability) asks.
    ///
    /// # Cost
    /// Reads the value first, and waits until all earlier commits are acknowledged. All later commits wait meanwhile.
    /// So these calls take a flush of the log each, where commits share one. A merge does without reading.
    ///
    /// # Errors
    /// As of [`Store::get`] and [`Store::commit`].
    pub async fn compare_and_swap(
        &self,
        tree: &Tree,
        key: &[u8],
        expected: Option<&[u8]>,
        new: Option<&[u8]>,
    ) -> Result<std::result::Result<(), CurrentValue>> {
        let space = self.space_of(tree)?;
        let mut found = None;
        let is_swapped = self.engine.commit_if(async || {
            found = self.engine.get(space, key).await?;
            let (kind, bytes) = new.map_or((DELETE, &[][..]), |new| (PUT, new));
            let is_expected = found.as_deref() == expected;
            Ok::<_, Error>(is_expected.then(|| group_of(tree, Modification { key, kind, bytes })))
        });
        Ok(if is_swapped.await? { Ok(()) } else { Err(CurrentValue(found)) })
    }

    /// The record with the lowest key; errors as of [`Scan::next`](crate::Scan::next).
    pub async fn first(&self, tree: &Tree) -> Result<Option<Record>> {
        self.now().first(tree).await
    }

    /// The record with the highest key; errors as of [`Scan::next`](crate::Scan::next).
    pub async fn last(&self, tree: &Tree) -> Result<Option<Record>> {
        self.now().last(tree).await
    }

    /// Deletes the record with the lowest key and returns it; of several tasks, each gets another record. Cost and errors
    /// as of [`Store::compare_and_swap`]. Leaves that became empty stay: a tree that serves as a queue passes over all
    /// of these at each call.
    pub async fn pop_first(&self, tree: &Tree) -> Result<Option<Record>> {
        self.pop(tree, Direction::Forward).await
    }

    /// Deletes the record with the highest key and returns it; else as [`Store::pop_first`].
    pub async fn pop_last(&self, tree: &Tree) -> Result<Option<Record>> {
        self.pop(tree, Direction::Backward).await
    }

    async fn pop(&self, tree: &Tree, direction: Direction) -> Result<Option<Record>> {
        let mut popped = None;
        let is_popped = self.engine.commit_if(async || {
            popped = self.now().end(tree, direction).await?;
            let delete =
                |(key, _): &Record| group_of(tree, Modification { key, kind: DELETE, bytes: &[] });
            Ok::<_, Error>(popped.as_ref().map(delete))
        });
        is_popped.await?;
        Ok(popped)
    }
}

fn group_of(tree: &Tree, modification: Modification<'_>) -> Group {
    let mut group = Group::new();
    group.modify(tree.space, modification);
    group
}
