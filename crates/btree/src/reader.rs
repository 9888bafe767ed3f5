//! Reads of a store, as it is now or as it was at a read point.

use moirai_update::{DELETE, Modification, PUT, Question, SpaceId};

use crate::count::Estimate;
use crate::draft::Draft;
use crate::range::KeyRange;
use crate::relation::RELATIONS;
use crate::scan::{Direction, Record, Scan};
use crate::store::{CATALOG, Store, Tree};
use crate::{Error, Result, ValueReader};

/// Reads a store as it is whenever something is read ([`Store::now`]), or as it was at a
/// [`ReadPoint`](crate::ReadPoint); with the changes of a draft or without.
///
/// # Errors
/// [`Error::OtherStore`], [`Error::Dropped`], [`Error::NoLeaf`]; errors as of [`moirai_update::Reader`], and where long values
/// have to be read.
#[derive(Clone, Copy, Debug)]
pub struct Reader<'a> {
    pub(crate) store: &'a Store,
    pub(crate) engine: moirai_update::Reader<'a>,
    /// Whether trees are read that were dropped since.
    pub(crate) has_dropped: bool,
}

/// Whether there is a value.
struct IsThere;

impl Question for IsThere {
    type Answer = bool;

    fn of_newest(&self, newest: Modification<'_>) -> Option<bool> {
        match newest.kind {
            PUT => Some(true),
            DELETE => Some(false),
            _ => None,
        }
    }

    fn of_long(&self) -> Option<bool> {
        Some(true)
    }

    fn of_value(&self, value: Option<&[u8]>) -> bool {
        value.is_some()
    }
}

impl<'a> Reader<'a> {
    /// Reads what would be there with the changes of `draft`. [`Error::OtherStore`], [`Error::Dropped`].
    pub fn over(self, draft: &'a Draft) -> Result<Reader<'a>> {
        draft.trees.iter().try_for_each(|tree| self.space_of(tree).map(drop))?;
        Ok(Reader { engine: self.engine.over(&draft.changes), ..self })
    }

    /// Where the engine keeps a tree.
    pub(crate) fn space_of(self, tree: &Tree) -> Result<SpaceId> {
        match self.has_dropped {
            true => self.store.check_store(tree)?,
            false => self.store.check_tree(tree)?,
        }
        Ok(tree.space)
    }

    /// The tree called `name`. At a read point, one that was dropped or renamed since is found, and of one that was made since
    /// no records are shown.
    pub async fn find_tree(self, name: &str) -> Result<Option<Tree>> {
        if !self.store.has_catalog() {
            return Ok(None);
        }
        let found = self.engine.get(CATALOG, name.as_bytes()).await?;
        let space = found.and_then(|bytes| bytes.try_into().ok()).map(u32::from_le_bytes);
        Ok(space.map(|space| self.store.tree_in(SpaceId(space), name)))
    }

    /// The names of all trees, in their order.
    pub async fn trees(self) -> Result<Vec<String>> {
        if !self.store.has_catalog() {
            return Ok(Vec::new());
        }
        let mut scan = self.scan(&self.store.catalog(), ..RELATIONS, Direction::Forward);
        let mut names = Vec::new();
        while let Some((name, _)) = scan.next().await? {
            names.push(String::from_utf8_lossy(name).into_owned());
        }
        Ok(names)
    }

    /// The value under `key`.
    pub async fn get(self, tree: &Tree, key: &[u8]) -> Result<Option<Vec<u8>>> {
        Ok(self.engine.get(self.space_of(tree)?, key).await?)
    }

    /// The values under several keys, in the order of `keys`. No commit comes between them: a batch shows in all of the
    /// values or in none. Reads up to 32 leaves at the same time, and each leaf once.
    pub async fn multi_get<K: AsRef<[u8]>>(
        self,
        tree: &Tree,
        keys: &[K],
    ) -> Result<Vec<Option<Vec<u8>>>> {
        let keys: Vec<&[u8]> = keys.iter().map(AsRef::as_ref).collect();
        Ok(self.engine.get_many(self.space_of(tree)?, &keys).await?)
    }

    /// Whether there is a value under `key`. Reads nothing where the newest change of `key` is in memory and tells.
    pub async fn contains(self, tree: &Tree, key: &[u8]) -> Result<bool> {
        Ok(self.engine.query(self.space_of(tree)?, key, &IsThere).await?)
    }

    /// A reader of parts of the value under `key`: of the value as it is now, whatever is committed meanwhile. It outlives a
    /// read point.
    pub async fn read_value(self, tree: &Tree, key: &[u8]) -> Result<Option<ValueReader>> {
        Ok(self.engine.value_reader(self.space_of(tree)?, key).await?)
    }

    /// Scans the records of a range, from the lowest key up or from the highest down.
    #[must_use]
    pub fn scan(self, tree: &Tree, range: impl Into<KeyRange>, direction: Direction) -> Scan<'a> {
        Scan::new(self, tree.clone(), range.into(), direction)
    }

    /// The record with the lowest key.
    pub async fn first(self, tree: &Tree) -> Result<Option<Record>> {
        self.end(tree, Direction::Forward).await
    }

    /// The record with the highest key.
    pub async fn last(self, tree: &Tree) -> Result<Option<Record>> {
        self.end(tree, Direction::Backward).await
    }

    /// The number of records in a range. Reads every leaf of the range, and what is pending for it, as a scan does: what
    /// changes meanwhile is counted or not.
    pub async fn count(self, tree: &Tree, range: impl Into<KeyRange>) -> Result<u64> {
        self.scan(tree, range, Direction::Forward).count().await
    }

    /// The first record of a scan.
    pub(crate) async fn end(self, tree: &Tree, direction: Direction) -> Result<Option<Record>> {
        let mut scan = self.scan(tree, KeyRange::all(), direction);
        let record = scan.next().await?;
        Ok(record.map(|(key, value)| (key.to_vec(), value.to_vec())))
    }

    /// The records in a range, and the bytes of their keys and values. Cost as of [`Reader::count`].
    pub async fn measure(self, tree: &Tree, range: impl Into<KeyRange>) -> Result<Estimate> {
        let mut found = Estimate { is_exact: true, ..Estimate::default() };
        let mut scan = self.scan(tree, range, Direction::Forward);
        while let Some((key, value_bytes)) = scan.next_sizes().await? {
            found.records += 1;
            found.bytes += key.len() as u64 + value_bytes.0;
        }
        Ok(found)
    }

    /// A tree that is known to be there, or an error that names it.
    pub(crate) async fn known_tree(self, name: &str) -> Result<Tree> {
        let tree = self.find_tree(name).await?;
        tree.ok_or_else(|| Error::NoTree { tree: name.to_owned() })
    }
}
