//! Copies of trees: within a store, and of all trees of a read point to another store.

use moirai_update::{DELETE, Durability, Group, Modification};

use crate::drop::{key_of_nameless, put};
use crate::range::KeyRange;
use crate::reader::Reader;
use crate::relation::{CatalogChange, Relation};
use crate::scan::{Direction, Passed};
use crate::store::{CATALOG, Store, Tree};
use crate::{Error, ReadPoint, Result};

/// Bytes of a long value that are read and written at once.
const PART_BYTES: u64 = 1 << 20;
/// Records after which progress is told.
const TOLD_RECORDS: u64 = 10_000;

/// What was copied.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Copied {
    /// Trees.
    pub trees: u64,
    /// Records of all of them.
    pub records: u64,
    /// Bytes of keys and values.
    pub bytes: u64,
}

impl Store {
    /// Copies the tree `from`, as it is now, to a new tree `to`; gives the number of its records. Updates go on meanwhile. The
    /// copy is there whole once this returns, and nothing of it before. After a crash or an error it is whole or absent.
    ///
    /// # Errors
    /// [`Error::NoTree`], [`Error::TreeExists`], [`Error::Name`]; errors as of [`Reader`] and [`Store::ingest`], and
    /// [`PointTooOld`](moirai_update::Error::PointTooOld) where updates needed the space that the read point kept.
    ///
    /// # Cancel safety
    /// There is no copy, but what was copied takes space until the store is opened again.
    pub async fn copy_tree(&self, from: &str, to: &str) -> Result<u64> {
        Tree::check_name(to)?;
        let point = self.read_point().await;
        let source = point.reader().known_tree(from).await?;
        let mut copies = Copies { to: self, trees: Vec::new() };
        let copy = copies.begin(to).await?;
        let mut copied = Copied::default();
        let told = &mut |_: &Copied| {};
        let done = copy_records(point.reader(), &source, (self, &copy), &mut copied, told).await;
        copies.end(done, Vec::new()).await?;
        Ok(copied.records)
    }

    async fn check_new(&self, name: &str) -> Result<()> {
        match self.find_tree(name).await? {
            Some(_) => Err(Error::TreeExists { tree: name.to_owned() }),
            None => Ok(()),
        }
    }
}

impl ReadPoint<'_> {
    /// Copies all trees to another store, where those of the same names must not exist. All copies are there once this returns,
    /// and nothing of them before. After a crash or an error all are there or none. `progress` is told now and then how much is
    /// copied.
    ///
    /// # Errors
    /// [`Error::Relations`] where there are relations, which only their owners copy; [`Error::TreeExists`]; errors as of
    /// [`Reader`], and of [`Store::ingest`] into `to`; and
    /// [`GroupTooLong`](moirai_update::Error::GroupTooLong) at the end where the log of `to` does not take the names of all trees.
    ///
    /// # Cancel safety
    /// As of [`Store::copy_tree`].
    pub async fn copy_to(&self, to: &Store, progress: impl FnMut(&Copied)) -> Result<Copied> {
        let reader = self.reader();
        let relations = reader.relations().await?;
        if !relations.is_empty() {
            let names = relations.into_iter().map(|(name, _)| name).collect();
            return Err(Error::Relations { names });
        }
        reader.copy_trees_to(to, Vec::new(), progress).await
    }
}

impl Reader<'_> {
    /// Copies all trees to another store, where `relations` get their names at the same moment as the copies: their owner has filled
    /// their spaces. See [`ReadPoint::copy_to`].
    ///
    /// # Errors
    /// As of [`ReadPoint::copy_to`], and [`Error::RelationExists`].
    pub async fn copy_trees_to(
        self,
        to: &Store,
        relations: Vec<(String, Relation)>,
        mut progress: impl FnMut(&Copied),
    ) -> Result<Copied> {
        let mut copies = Copies { to, trees: Vec::new() };
        let mut copied = Copied::default();
        let done = async {
            for name in self.trees().await? {
                let source = self.known_tree(&name).await?;
                let copy = copies.begin(&name).await?;
                copy_records(self, &source, (to, &copy), &mut copied, &mut progress).await?;
                copied.trees += 1;
                progress(&copied);
            }
            Ok(())
        };
        let done = done.await;
        copies.end(done, relations).await?;
        Ok(copied)
    }
}

/// Copies that have no names yet: after a crash there is nothing of them.
struct Copies<'a> {
    to: &'a Store,
    /// Each called as it will be.
    trees: Vec<Tree>,
}

impl Copies<'_> {
    /// An empty tree that is to get a name, which no tree has.
    async fn begin(&mut self, name: &str) -> Result<Tree> {
        let to = self.to;
        let mut making = to.making.lock().await;
        to.check_new(name).await?;
        let space = to.nameless_space(&mut making, None).await?;
        let tree = to.tree_in(space, name);
        self.trees.push(tree.clone());
        Ok(tree)
    }

    /// Gives all of them and the relations their names, durably and at once; or clears them where copying failed, or another tree got one of the
    /// names meanwhile.
    async fn end(self, copied: Result<()>, relations: Vec<(String, Relation)>) -> Result<()> {
        let Copies { to, trees } = self;
        let named = async {
            copied?;
            let _alone = to.making.lock().await;
            let mut group = Group::new();
            let relations = relations.into_iter().map(|(name, one)| (name, Some(one))).collect();
            let change = CatalogChange { relations, replaces: false };
            to.put_relations(&change, &mut group).await?;
            for tree in &trees {
                to.check_new(tree.name()).await?;
                let space = tree.space.0.to_le_bytes();
                group.modify(CATALOG, put(tree.name().as_bytes(), &space));
                let nameless = key_of_nameless(tree.space);
                group.modify(CATALOG, Modification { key: &nameless, kind: DELETE, bytes: &[] });
            }
            Ok(to.engine.commit_with(&group, Durability::Flushed).await?)
        };
        let named: Result<()> = named.await;
        if named.is_err() {
            for tree in &trees {
                // What fails here is done when the store is opened again.
                if to.engine.clear(tree.space, &[], None).await.is_ok() {
                    to.making.lock().await.give_back(tree.space);
                }
            }
        }
        named
    }
}

/// Copies the records of a tree, in the order of their keys.
async fn copy_records(
    reader: Reader<'_>,
    source: &Tree,
    (to, tree): (&Store, &Tree),
    copied: &mut Copied,
    progress: &mut impl FnMut(&Copied),
) -> Result<()> {
    let mut scan = reader.scan(source, KeyRange::all(), Direction::Forward);
    let mut ingest = to.ingest_into(tree)?;
    loop {
        let (key, value_bytes) = match scan.next_passed().await? {
            None => break,
            Some((key, Passed::Short(value))) => {
                ingest.push(key, value).await?;
                (key, value.len() as u64)
            }
            Some((key, Passed::Long(value))) => {
                let length = value.length().0;
                let mut writer = to.write_value(tree, key)?;
                for first in (0..length).step_by(PART_BYTES as usize) {
                    let part = value.read(first..(first + PART_BYTES).min(length)).await?;
                    writer.write(&part).await?;
                }
                writer.put().await?;
                (key, length)
            }
        };
        copied.records += 1;
        copied.bytes += key.len() as u64 + value_bytes;
        if copied.records.is_multiple_of(TOLD_RECORDS) {
            progress(copied);
        }
    }
    ingest.finish().await?;
    Ok(())
}
