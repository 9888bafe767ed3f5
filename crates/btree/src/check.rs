//! Checks: what is damaged on the data device, by tree and key.

use moirai_units::BlockRange;
use moirai_update::{Modification, PUT, SpaceId};

use crate::Result;
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
    /// The name of their tree; none of the catalog that holds the names, and where that cannot be read.
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
        let is_catalog = damage.iter().any(|one| one.what == CATALOG_NAME);
        let renamed = if is_catalog { self.name_lost_trees().await? } else { Vec::new() };
        Ok(Dropped { damage, renamed })
    }

    /// Gives names to trees that have records and no name.
    async fn name_lost_trees(&self) -> Result<Vec<String>> {
        let _alone = self.making.lock().await;
        let mut known: Vec<SpaceId> = self.names().await.iter().map(|(space, _)| *space).collect();
        known.extend(self.nameless().await?);
        let mut renamed = Vec::new();
        for space in self.engine.spaces() {
            let mut name = format!("lost-{}", space.0);
            if space == CATALOG || known.contains(&space) {
                continue;
            }
            while self.find_tree(&name).await?.is_some() {
                name.push('+');
            }
            let bytes = space.0.to_le_bytes();
            let entry = Modification { key: name.as_bytes(), kind: PUT, bytes: &bytes };
            self.engine.modify(CATALOG, entry).await?;
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
        names
    }
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
