//! Batches: changes to the trees of a store that are committed together.

use std::sync::Arc;

use moirai_update::{DELETE, Group, KindNumber, Modification, PUT};

use crate::store::{StoreId, Tree};
use crate::{Error, Result};

/// Changes that are durable together or not at all, over any trees of a store. They are applied in their order.
#[derive(Clone, Debug, Default)]
pub struct Batch {
    group: Group,
    /// The store of the first tree, and its name.
    first: Option<(StoreId, Arc<str>)>,
    /// The first tree of another store than that one.
    other: Option<Arc<str>>,
}

impl Batch {
    /// An empty batch.
    #[must_use]
    pub fn new() -> Batch {
        Batch::default()
    }

    /// Puts `value` under `key`, in place of any value there.
    pub fn put(&mut self, tree: &Tree, key: &[u8], value: &[u8]) {
        self.add(tree, Modification { key, kind: PUT, bytes: value });
    }

    /// Deletes `key`.
    pub fn delete(&mut self, tree: &Tree, key: &[u8]) {
        self.add(tree, Modification { key, kind: DELETE, bytes: &[] });
    }

    /// Changes the value under `key` as the kind says, without reading it.
    pub fn merge(&mut self, tree: &Tree, kind: KindNumber, key: &[u8], operand: &[u8]) {
        self.add(tree, Modification { key, kind, bytes: operand });
    }

    fn add(&mut self, tree: &Tree, modification: Modification<'_>) {
        let (store, _) = self.first.get_or_insert_with(|| (tree.store, Arc::clone(&tree.name)));
        if *store != tree.store {
            self.other.get_or_insert_with(|| Arc::clone(&tree.name));
        }
        self.group.modify(tree.space, modification);
    }

    /// The number of changes.
    #[must_use]
    pub fn len(&self) -> usize {
        self.group.len()
    }

    /// Whether there are no changes.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.group.is_empty()
    }

    /// Removes all changes.
    pub fn clear(&mut self) {
        self.group.clear();
        (self.first, self.other) = (None, None);
    }

    /// The changes as one group of the engine; [`Error::OtherStore`] when a tree is not of `store`.
    pub(crate) fn group_for(&self, store: StoreId) -> Result<&Group> {
        let first = self.first.as_ref().filter(|(first, _)| *first != store);
        match first.map(|(_, name)| name).or(self.other.as_ref()) {
            Some(tree) => Err(Error::OtherStore { tree: tree.as_ref().to_owned() }),
            None => Ok(&self.group),
        }
    }
}
