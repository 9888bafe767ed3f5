//! Checks: what is damaged on the data device, by tree and key.

use moirai_units::BlockRange;
use moirai_update::{At, SpaceId};

use crate::Result;
use crate::drop::{key_of_nameless, put};
use crate::leaf::Leaf;
use crate::store::{CATALOG, Store};

/// Something on the data device that is not as it was written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Damage {
    /// What it is.
    pub what: &'static str,
    /// The device.
    pub device: String,
    /// Where it lies.
    pub blocks: BlockRange,
    /// What it holds of the records; none of a superblock or a checkpoint, which are written anew.
    pub keys: Option<DamagedKeys>,
}

/// Keys whose values, or changes, cannot be read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DamagedKeys {
    /// The name of their tree or relation; none of the catalog that holds the names, and where that cannot be read.
    pub tree: Option<String>,
    /// The lowest key that may be among them.
    pub from: Vec<u8>,
    /// The key before which they end; none where they may be the last of the tree.
    pub to: Option<Vec<u8>>,
}

/// What was dropped of a damaged store.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Dropped {
    /// The damage.
    pub damage: Vec<Damage>,
    /// Trees whose names were lost, as they are called now.
    pub renamed: Vec<String>,
}

/// What damage of the catalog is called.
const CATALOG_NAME: &str = "the catalog of trees";

impl Store {
    /// Reads everything that the store has on its data device, and tells what is damaged. Changes that come meanwhile may be
    /// left out.
    pub async fn check(&self) -> Vec<Damage> {
        let found = self.engine.check().await;
        if found.is_empty() {
            return Vec::new();
        }
        let names = self.names().await;
        found.into_iter().map(|one| named(one, &names)).collect()
    }

    /// Checks, and drops what is damaged for ever: leaves, and changes that wait to be applied to them. What can be read
    /// around it stays. A damaged leaf takes the merges with it that build on its values; without damaged changes, the
    /// values that they were for stay as they were before. Where names of trees are lost, the trees get names like
    /// `lost-7`. Errors as of [`Store::checkpoint`].
    pub async fn drop_damaged(&self) -> Result<Dropped> {
        let names = self.names().await;
        let found = self.engine.drop_damaged().await?;
        let damage: Vec<Damage> = found.into_iter().map(|one| named(one, &names)).collect();
        let renamed = self.name_lost_trees().await?;
        Ok(Dropped { damage, renamed })
    }

    /// Gives names to trees that have records and no name. Empty ones are for new trees.
    async fn name_lost_trees(&self) -> Result<Vec<String>> {
        let mut nameless = self.making.lock().await;
        nameless.forget();
        let mut known = self.nameless().await?;
        known.push(CATALOG);
        for name in self.trees().await? {
            known.extend(self.find_tree(&name).await?.map(|tree| tree.space));
        }
        for (_, relation) in self.now().relations().await? {
            known.extend(relation.spaces);
        }
        let of_trees = self.engine.space_format(CATALOG)?;
        let mut renamed = Vec::new();
        for space in self.engine.spaces() {
            // What is lost of relations stays as it is: no tree can show it.
            if known.contains(&space) || self.engine.space_format(space)? != of_trees {
                continue;
            }
            let is_empty = self.engine.view(space, At::Last, 1).await?.is_none_or(|last| {
                last.low.is_none() && last.blocks().all(|(_, leaf)| leaf_is_empty(leaf.bytes()))
            });
            if is_empty || self.dropped.read().contains(&space) {
                self.engine.modify(CATALOG, put(&key_of_nameless(space), &[])).await?;
                continue;
            }
            let mut name = format!("lost-{}", space.0);
            while self.find_tree(&name).await?.is_some() {
                name.push('+');
            }
            self.engine.modify(CATALOG, put(name.as_bytes(), &space.0.to_le_bytes())).await?;
            renamed.push(name);
        }
        Ok(renamed)
    }

    /// The names of trees, as far as they can be read.
    async fn names(&self) -> Vec<(SpaceId, String)> {
        let mut names = Vec::new();
        for name in self.trees().await.unwrap_or_default() {
            if let Ok(Some(tree)) = self.find_tree(&name).await {
                names.push((tree.space, name));
            }
        }
        for (name, relation) in self.now().relations().await.unwrap_or_default() {
            names.extend(relation.spaces.into_iter().map(|space| (space, name.clone())));
        }
        names
    }
}

fn leaf_is_empty(leaf: &[u8]) -> bool {
    Leaf::of(leaf).is_some_and(|leaf| leaf.is_empty())
}

fn named(found: moirai_update::Damage, names: &[(SpaceId, String)]) -> Damage {
    let moirai_update::Damage { what, device, blocks, keys } = found;
    let what = match &keys {
        Some(keys) if keys.space == CATALOG => CATALOG_NAME,
        _ => what,
    };
    let keys = keys.map(|keys| {
        let name = names.iter().find(|(space, _)| *space == keys.space);
        DamagedKeys {
            tree: name.map(|(_, name)| name.clone()),
            from: keys.from.into(),
            to: keys.to.map(Vec::from),
        }
    });
    Damage { what, device, blocks, keys }
}
