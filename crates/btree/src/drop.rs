//! Dropping and renaming trees, and deleting ranges of keys.
//!
//! The space of a dropped tree stays, empty, for a tree that is made after the store was opened again. The catalog has a
//! key for each, which is no name: opening clears them once more, since a crash may have come before they were empty.

use std::ops::Bound;

use moirai_update::{DELETE, Durability, Engine, Group, Modification, PUT, SpaceFormat, SpaceId};

use crate::batch::Batch;
use crate::range::KeyRange;
use crate::scan::Direction;
use crate::store::{CATALOG, Store, Tree};
use crate::{Error, Result};

/// Bytes of keys that are deleted with a commit.
const DELETED_BYTES: usize = 64 << 10;

impl Store {
    /// Drops the tree called `name` and all of its records; tells whether there was one. Durable when it returns. Its leaves
    /// are not read, and their space is free at once. A crash in between leaves the tree whole, or none; on a full device it may
    /// leave some of its records. After an error there may be no such tree any more, though its space is free only once the
    /// store is opened again.
    ///
    /// # Errors
    /// As of [`Store::commit`]. From then on, [`Tree`]s of that name that were asked for before are refused with
    /// [`Error::Dropped`].
    ///
    /// # Cancel safety
    /// None: the tree may be dropped, and [`Tree`]s that were asked for before taken for it still. What is put by these is gone
    /// once the store is opened again.
    pub async fn drop_tree(&self, name: &str) -> Result<bool> {
        let _alone = self.making.lock().await;
        let Some(tree) = self.find_tree(name).await? else { return Ok(false) };
        let mut group = Group::new();
        group.modify(CATALOG, delete(name.as_bytes()));
        group.modify(CATALOG, put(&key_of_nameless(tree.space), &[]));
        let is_full = match self.engine.commit_with(&group, Durability::Flushed).await {
            Err(moirai_update::Error::Full { .. }) => true,
            done => done.map(|()| false)?,
        };
        if is_full {
            // The list of dropped trees found no room.
            self.engine.clear(tree.space, &[], None).await?;
            self.engine.commit_with(&group, Durability::Flushed).await?;
        }
        self.dropped.write().insert(tree.space);
        self.engine.clear(tree.space, &[], None).await?;
        Ok(true)
    }

    /// Renames a tree, whole or not at all.
    ///
    /// # Errors
    /// [`Error::NoTree`], [`Error::TreeExists`], [`Error::Name`]; errors as of [`Store::commit`].
    pub async fn rename_tree(&self, from: &str, to: &str) -> Result<()> {
        Tree::check_name(to)?;
        let _alone = self.making.lock().await;
        let tree = self.now().known_tree(from).await?;
        if self.find_tree(to).await?.is_some() {
            return Err(Error::TreeExists { tree: to.to_owned() });
        }
        let mut group = Group::new();
        let space = tree.space.0.to_le_bytes();
        group.modify(CATALOG, delete(from.as_bytes()));
        group.modify(CATALOG, put(to.as_bytes(), &space));
        Ok(self.engine.commit(&group).await?)
    }

    /// Deletes all records of a range. Leaves that are wholly in it are not read unless they refer to long values, and their space is free at once; the records
    /// at its ends are deleted one by one. Durable as the options say. Records that are put into the range meanwhile may be
    /// deleted or stay, and a crash in between may leave some of the range deleted. Errors as of [`Store::commit`].
    pub async fn delete_range(&self, tree: &Tree, range: impl Into<KeyRange>) -> Result<()> {
        let range = range.into();
        let space = self.space_of(tree)?;
        if range.is_empty() {
            return Ok(());
        }
        let from = match &range.from {
            Bound::Included(from) => from.clone(),
            Bound::Excluded(from) => behind(from),
            Bound::Unbounded => Vec::new(),
        };
        let to = match &range.to {
            Bound::Included(to) => Some(behind(to)),
            Bound::Excluded(to) => Some(to.clone()),
            Bound::Unbounded => None,
        };
        let Some((low, high)) = self.engine.clear(space, &from, to.as_deref()).await? else {
            return self.delete_each(tree, range).await;
        };
        let below = KeyRange { from: range.from, to: Bound::Excluded(low.into()) };
        self.delete_each(tree, below).await?;
        let Some(high) = high else { return Ok(()) };
        self.delete_each(tree, KeyRange { from: Bound::Included(high.into()), to: range.to }).await
    }

    async fn delete_each(&self, tree: &Tree, range: KeyRange) -> Result<()> {
        let mut scan = self.scan(tree, range, Direction::Forward);
        let (mut batch, mut bytes) = (Batch::new(), 0);
        while let Some(key) = scan.next_key().await? {
            batch.delete(tree, key);
            bytes += key.len();
            if bytes >= DELETED_BYTES {
                self.commit(&batch).await?;
                batch.clear();
                bytes = 0;
            }
        }
        self.commit(&batch).await
    }

    /// Clears the spaces that have no name, which are then for the next trees.
    pub(crate) async fn clear_nameless(&self) {
        // Where a leaf of the catalog is damaged they stay as they are.
        let Ok(spaces) = self.nameless().await else { return };
        for space in spaces {
            // One that takes no modifications serves reads all the same.
            if self.engine.clear(space, &[], None).await.is_err() {
                return;
            }
            self.making.lock().await.0.push(space);
        }
    }

    /// The spaces of which the catalog says that they have no name.
    pub(crate) async fn nameless(&self) -> Result<Vec<SpaceId>> {
        let mut spaces = Vec::new();
        let mut scan = self.scan(&self.catalog(), NAMELESS.., Direction::Forward);
        while let Some((key, _)) = scan.next().await? {
            spaces.extend(nameless_of(key));
        }
        Ok(spaces)
    }
}

/// Keys of the catalog from here on are no names: these are UTF-8.
pub(crate) const NAMELESS: &[u8] = &[u8::MAX];

/// The spaces that had no name when the store was opened, and have none yet.
#[derive(Debug, Default)]
pub(crate) struct Nameless(Vec<SpaceId>);

impl Nameless {
    /// None is for new trees any more.
    pub(crate) fn forget(&mut self) {
        self.0.clear();
    }

    /// A space of them that has this format, or leaves.
    pub(crate) fn pop(&mut self, engine: &Engine, format: Option<&SpaceFormat>) -> Option<SpaceId> {
        let of_leaves = engine.space_format(CATALOG).ok();
        let format = format.or(of_leaves.as_ref())?;
        let is_of = |space: &SpaceId| engine.space_format(*space).is_ok_and(|one| one == *format);
        let at = self.0.iter().rposition(is_of)?;
        Some(self.0.remove(at))
    }

    /// Takes one back that got no name.
    pub(crate) fn give_back(&mut self, space: SpaceId) {
        self.0.push(space);
    }

    /// A space for a tree called `name`, if there is one, and what gives it the name.
    pub(crate) fn take(&mut self, engine: &Engine, name: &str) -> Option<(SpaceId, Group)> {
        let space = self.pop(engine, None)?;
        let mut group = Group::new();
        group.modify(CATALOG, put(name.as_bytes(), &space.0.to_le_bytes()));
        group.modify(CATALOG, delete(&key_of_nameless(space)));
        Some((space, group))
    }
}

pub(crate) fn key_of_nameless(space: SpaceId) -> Vec<u8> {
    [NAMELESS, &space.0.to_be_bytes()].concat()
}

fn nameless_of(key: &[u8]) -> Option<SpaceId> {
    let space = key.strip_prefix(NAMELESS)?.try_into().ok()?;
    Some(SpaceId(u32::from_be_bytes(space)))
}

pub(crate) fn put<'a>(key: &'a [u8], bytes: &'a [u8]) -> Modification<'a> {
    Modification { key, kind: PUT, bytes }
}

fn delete(key: &[u8]) -> Modification<'_> {
    Modification { key, kind: DELETE, bytes: &[] }
}

/// The first key behind another.
fn behind(key: &[u8]) -> Vec<u8> {
    [key, &[0]].concat()
}
