//! Reads of a store, as it is now or as it was at a read point.

use moirai_update::{DELETE, Modification, PUT, Question, Reader, SpaceId};

use crate::count::Estimate;
use crate::drop::NAMELESS;
use crate::range::KeyRange;
use crate::scan::{Direction, Record, Scan};
use crate::store::{CATALOG, Store, Tree};
use crate::{Error, Result, ValueReader};

/// See the module.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Reads<'a> {
    pub(crate) store: &'a Store,
    pub(crate) reader: Reader<'a>,
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

impl<'a> Reads<'a> {
    /// Where the engine keeps a tree.
    pub(crate) fn space_of(self, tree: &Tree) -> Result<SpaceId> {
        match self.has_dropped {
            true => self.store.check_store(tree)?,
            false => self.store.check_tree(tree)?,
        }
        Ok(tree.space)
    }

    pub(crate) async fn find_tree(self, name: &str) -> Result<Option<Tree>> {
        if !self.store.has_catalog() {
            return Ok(None);
        }
        let found = self.reader.get(CATALOG, name.as_bytes()).await?;
        let space = found.and_then(|bytes| bytes.try_into().ok()).map(u32::from_le_bytes);
        Ok(space.map(|space| self.store.tree_in(SpaceId(space), name)))
    }

    pub(crate) async fn trees(self) -> Result<Vec<String>> {
        if !self.store.has_catalog() {
            return Ok(Vec::new());
        }
        let mut scan = self.scan(&self.store.catalog(), ..NAMELESS, Direction::Forward);
        let mut names = Vec::new();
        while let Some((name, _)) = scan.next().await? {
            names.push(String::from_utf8_lossy(name).into_owned());
        }
        Ok(names)
    }

    pub(crate) async fn get(self, tree: &Tree, key: &[u8]) -> Result<Option<Vec<u8>>> {
        Ok(self.reader.get(self.space_of(tree)?, key).await?)
    }

    pub(crate) async fn multi_get<K: AsRef<[u8]>>(
        self,
        tree: &Tree,
        keys: &[K],
    ) -> Result<Vec<Option<Vec<u8>>>> {
        let keys: Vec<&[u8]> = keys.iter().map(AsRef::as_ref).collect();
        Ok(self.reader.get_many(self.space_of(tree)?, &keys).await?)
    }

    pub(crate) async fn contains(self, tree: &Tree, key: &[u8]) -> Result<bool> {
        Ok(self.reader.query(self.space_of(tree)?, key, &IsThere).await?)
    }

    pub(crate) async fn read_value(self, tree: &Tree, key: &[u8]) -> Result<Option<ValueReader>> {
        Ok(self.reader.value_reader(self.space_of(tree)?, key).await?)
    }

    pub(crate) fn scan(
        self,
        tree: &Tree,
        range: impl Into<KeyRange>,
        direction: Direction,
    ) -> Scan<'a> {
        Scan::new(self, tree.clone(), range.into(), direction)
    }

    /// The first record of a scan.
    pub(crate) async fn end(self, tree: &Tree, direction: Direction) -> Result<Option<Record>> {
        let mut scan = self.scan(tree, KeyRange::all(), direction);
        let record = scan.next().await?;
        Ok(record.map(|(key, value)| (key.to_vec(), value.to_vec())))
    }

    pub(crate) async fn measure(self, tree: &Tree, range: impl Into<KeyRange>) -> Result<Estimate> {
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
