//! Batches: changes to the trees of a store that are committed together.

use moirai_update::{DELETE, Group, KindNumber, Modification, PUT};

use crate::Result;
use crate::store::{Store, Tree};

/// Changes that are durable together or not at all, over any trees of a store. They are applied in their order.
#[derive(Clone, Debug, Default)]
pub struct Batch {
    group: Group,
    trees: Vec<Tree>,
}

impl Batch {
    /// An empty batch.
    #[must_use]
    pub fn new() -> Batch {
        Batch::default()
    }

    /// Changes to these trees.
    pub(crate) fn of(group: Group, trees: Vec<Tree>) -> Batch {
        Batch { group, trees }
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
        if self.trees.last() != Some(tree) && !self.trees.contains(tree) {
            self.trees.push(tree.clone());
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
        self.trees.clear();
    }

    /// The changes as one group of the engine, when all trees are of `store`; errors as of [`Store::commit`].
    pub(crate) fn group_for(&self, store: &Store) -> Result<&Group> {
        self.trees.iter().try_for_each(|tree| store.check_tree(tree))?;
        Ok(&self.group)
    }
}
