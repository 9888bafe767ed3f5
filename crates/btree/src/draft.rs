//! Drafts: changes that are not committed, and what would be there with them.

use moirai_update::{DELETE, KindNumber, Modification, PUT};

use crate::batch::Batch;
use crate::store::Tree;

/// Changes that are not committed yet, over any trees of a store. [`Reader::over`](crate::Reader::over) reads what would be
/// there with them; [`Draft::batch`] is what to commit.
#[derive(Clone, Debug, Default)]
pub struct Draft {
    pub(crate) changes: moirai_update::Draft,
    pub(crate) trees: Vec<Tree>,
}

impl Draft {
    /// An empty draft.
    #[must_use]
    pub fn new() -> Draft {
        Draft::default()
    }

    /// Puts `value` under `key`, in place of any value there.
    pub fn put(&mut self, tree: &Tree, key: &[u8], value: &[u8]) {
        self.add(tree, Modification { key, kind: PUT, bytes: value });
    }

    /// Deletes `key`.
    pub fn delete(&mut self, tree: &Tree, key: &[u8]) {
        self.add(tree, Modification { key, kind: DELETE, bytes: &[] });
    }

    /// Changes the value under `key` as the kind says.
    pub fn merge(&mut self, tree: &Tree, kind: KindNumber, key: &[u8], operand: &[u8]) {
        self.add(tree, Modification { key, kind, bytes: operand });
    }

    fn add(&mut self, tree: &Tree, modification: Modification<'_>) {
        if !self.trees.contains(tree) {
            self.trees.push(tree.clone());
        }
        self.changes.modify(tree.space, modification);
    }

    /// Whether there are no changes.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.changes.is_empty()
    }

    /// Removes all changes.
    pub fn clear(&mut self) {
        self.changes.clear();
        self.trees.clear();
    }

    /// The batch that commits them.
    #[must_use]
    pub fn batch(&self) -> Batch {
        Batch::of(self.changes.group(), self.trees.clone())
    }
}
