//! What a store holds beside its trees, in spaces whose formats are not that of leaves: tables.
//!
//! A *relation* has a name, spaces of the engine, and a description that only its owner reads. Its spaces are made and filled
//! first, while the catalog lists them as nameless, so that a crash frees them. One group then names it: it is there whole or not
//! at all. Relations and trees may have the same names.

use moirai_update::{DELETE, Durability, Engine, Group, Modification, SpaceFormat, SpaceId};

use crate::drop::{NAMELESS, Nameless, key_of_nameless, put};
use crate::reader::Reader;
use crate::scan::Direction;
use crate::store::{CATALOG, Store, Tree};
use crate::{Error, Result};

/// Keys of the catalog that begin so are of relations: these are no UTF-8, as names of trees are.
pub(crate) const RELATIONS: &[u8] = &[0xfe];

/// Something that a store holds in spaces of its own, beside its trees.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Relation {
    /// Its spaces, fewer than 65,536.
    pub spaces: Vec<SpaceId>,
    /// What its owner has to know of it.
    pub description: Vec<u8>,
}

impl Relation {
    /// The number of spaces (2 bytes), each of them (4), and the description.
    fn encode(&self) -> Vec<u8> {
        let mut bytes = (self.spaces.len() as u16).to_le_bytes().to_vec();
        self.spaces.iter().for_each(|space| bytes.extend(space.0.to_le_bytes()));
        bytes.extend(&self.description);
        bytes
    }

    fn decode(bytes: &[u8]) -> Option<Relation> {
        let (count, rest) = bytes.split_first_chunk()?;
        let (spaces, description) =
            rest.split_at_checked(4 * usize::from(u16::from_le_bytes(*count)))?;
        let (spaces, _) = spaces.as_chunks();
        let spaces = spaces.iter().map(|space| SpaceId(u32::from_le_bytes(*space))).collect();
        Some(Relation { spaces, description: description.to_vec() })
    }
}

fn key_of(name: &str) -> Vec<u8> {
    [RELATIONS, name.as_bytes()].concat()
}

/// A change of the catalog: relations that come, change or go at the same moment.
#[derive(Debug, Default)]
pub struct CatalogChange {
    /// Names, and what they stand for from now on; `None` drops the relation. Spaces that no relation has any more are cleared.
    pub relations: Vec<(String, Option<Relation>)>,
    /// Whether a relation that is there may get another meaning.
    pub replaces: bool,
}

impl<'a> Reader<'a> {
    /// The relation called `name`.
    ///
    /// # Errors
    /// As of [`Reader::get`].
    pub async fn relation(self, name: &str) -> Result<Option<Relation>> {
        if !self.store.has_catalog() {
            return Ok(None);
        }
        let found = self.get(&self.store.catalog(), &key_of(name)).await?;
        Ok(found.as_deref().and_then(Relation::decode))
    }

    /// All relations by their names. Errors as of [`Reader::get`].
    pub async fn relations(self) -> Result<Vec<(String, Relation)>> {
        if !self.store.has_catalog() {
            return Ok(Vec::new());
        }
        let mut found = Vec::new();
        let mut scan = self.scan(&self.store.catalog(), RELATIONS..NAMELESS, Direction::Forward);
        while let Some((key, value)) = scan.next().await? {
            let name = key.strip_prefix(RELATIONS).map(String::from_utf8_lossy);
            found.extend(name.zip(Relation::decode(value)).map(|(name, one)| (name.into(), one)));
        }
        Ok(found)
    }
}

impl Store {
    /// The engine, for crates that store relations.
    #[must_use]
    pub fn engine(&self) -> &Engine {
        &self.engine
    }

    /// An empty space of a format, or of leaves, without a name: it is free again once the store is opened again, unless
    /// [`Store::change_relations`] makes it part of a relation.
    ///
    /// # Errors
    /// As of [`Engine::create_space_of`] and [`Store::commit`].
    pub async fn begin_space(&self, format: Option<&SpaceFormat>) -> Result<SpaceId> {
        let mut nameless = self.making.lock().await;
        self.nameless_space(&mut nameless, format).await
    }

    /// Clears a space that [`Store::begin_space`] gave, for others to use. What fails is done when the store is opened again.
    pub async fn end_space(&self, space: SpaceId) {
        if self.engine.clear(space, &[], None).await.is_ok() {
            self.making.lock().await.give_back(space);
        }
    }

    /// Whether a space was dropped since the store was opened.
    #[must_use]
    pub fn is_dropped(&self, space: SpaceId) -> bool {
        self.dropped.read().contains(&space)
    }

    /// Changes relations: all that `change` says, or nothing. Durable when it returns; spaces that go are empty then, or once the
    /// store is opened again. On a full device, what a relation had that was to be dropped may be gone although it failed.
    ///
    /// # Errors
    /// [`crate::Error::Name`], [`crate::Error::RelationExists`]; errors as of [`Store::commit`].
    pub async fn change_relations(&self, change: CatalogChange) -> Result<()> {
        let _alone = self.making.lock().await;
        let mut group = Group::new();
        let gone = self.put_relations(&change, &mut group).await?;
        let only_drops = change.relations.iter().all(|(_, to)| to.is_none());
        match self.engine.commit_with(&group, Durability::Flushed).await {
            // The list of spaces without a name found no room.
            Err(moirai_update::Error::Full { .. }) if only_drops => {
                for space in &gone {
                    self.engine.clear(*space, &[], None).await?;
                }
                self.engine.commit_with(&group, Durability::Flushed).await?;
            }
            done => done?,
        }
        self.dropped.write().extend(gone.iter().copied());
        for space in gone {
            // What fails here is done when the store is opened again.
            let _ = self.engine.clear(space, &[], None).await;
        }
        Ok(())
    }

    /// Puts a change of relations into a group; gives the spaces that are to be cleared once that is committed. Nobody else changes
    /// the catalog meanwhile.
    pub(crate) async fn put_relations(
        &self,
        change: &CatalogChange,
        group: &mut Group,
    ) -> Result<Vec<SpaceId>> {
        let mut gone: Vec<SpaceId> = Vec::new();
        let mut named: Vec<SpaceId> = Vec::new();
        for (name, to) in &change.relations {
            Tree::check_name(name)?;
            let from = self.now().relation(name).await?;
            if from.is_some() && to.is_some() && !change.replaces {
                return Err(Error::RelationExists { name: name.clone() });
            }
            let from = from.unwrap_or_default();
            let spaces = to.as_ref().map_or(&[][..], |to| &to.spaces);
            named.extend(spaces.iter().filter(|space| !from.spaces.contains(space)));
            gone.extend(from.spaces.iter().filter(|space| !spaces.contains(space)));
            let key = key_of(name);
            match to {
                Some(to) => group.modify(CATALOG, put(&key, &to.encode())),
                None => group.modify(CATALOG, delete(&key)),
            }
        }
        // One that moves from a relation to another stays.
        gone.retain(|space| !named.contains(space));
        for space in &named {
            group.modify(CATALOG, delete(&key_of_nameless(*space)));
        }
        for space in &gone {
            group.modify(CATALOG, put(&key_of_nameless(*space), &[]));
        }
        Ok(gone)
    }

    /// An empty space of a format, or of leaves, that has no name and of which the catalog knows that: a crash frees it.
    pub(crate) async fn nameless_space(
        &self,
        nameless: &mut Nameless,
        format: Option<&SpaceFormat>,
    ) -> Result<SpaceId> {
        if let Some(space) = nameless.pop(&self.engine, format) {
            return Ok(space);
        }
        let space = self.new_space(format).await?;
        let mut group = Group::new();
        group.modify(CATALOG, put(&key_of_nameless(space), &[]));
        self.engine.commit_with(&group, Durability::Flushed).await?;
        Ok(space)
    }
}

fn delete(key: &[u8]) -> Modification<'_> {
    Modification { key, kind: DELETE, bytes: &[] }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn relations_come_back() {
        let spaces = vec![SpaceId(7), SpaceId(u32::MAX)];
        for relation in [Relation::default(), Relation { spaces, description: b"a table".to_vec() }]
        {
            let bytes = relation.encode();
            assert_eq!(Relation::decode(&bytes), Some(relation.clone()));
            let cut = relation.spaces.len() * 4 + 1;
            assert_eq!(Relation::decode(&bytes[..cut]), None);
        }
    }
}
