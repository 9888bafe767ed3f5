//! Maps: where everything lies on the data device of a store.

use std::collections::BTreeMap;

use moirai_storage::Device;
use moirai_units::BlockRange;
use moirai_update::{ExtentUse, SpaceId};

use crate::Result;
use crate::store::{CATALOG, Store};

/// An extent in use.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mapped {
    /// What it holds: leaves, pages, staged changes, long values, or a checkpoint.
    pub what: &'static str,
    /// Of which tree or relation; none where it is of none or of all, and of those that were dropped.
    pub tree: Option<String>,
    /// Where it is.
    pub blocks: BlockRange,
    /// How many boundaries of the device's ensembles it crosses, where that costs something.
    pub crossed: u64,
    /// How many of these it would better not cross: it would begin with the next ensemble if there were room.
    pub avoidable: u64,
}

impl Store {
    /// The extents that are in use on the data device, by their first blocks. Errors as of [`Store::trees`].
    pub async fn map(&self) -> Result<Vec<Mapped>> {
        let mut names = BTreeMap::from([(CATALOG, "(catalog)".to_owned())]);
        for name in self.trees().await? {
            names.extend(self.find_tree(&name).await?.map(|tree| (tree.space, name)));
        }
        for (name, relation) in self.now().relations().await? {
            names.extend(relation.spaces.into_iter().map(|space| (space, name.clone())));
        }
        let of = |space: SpaceId| names.get(&space).cloned();
        let of_leaves = self.engine.space_format(CATALOG)?.name;
        let content = |space: SpaceId| match self.engine.space_format(space) {
            Ok(format) if format.name != of_leaves => "pages",
            _ => "leaves",
        };
        let all = self.engine.map().await.into_iter().map(|one| {
            let (what, tree) = match one.used_for {
                ExtentUse::Blocks(space) => (content(space), of(space)),
                ExtentUse::Staged(space) => ("staged changes", of(space)),
                ExtentUse::LongValues => ("long values", None),
                ExtentUse::Checkpoint => ("checkpoint", None),
            };
            Mapped {
                what,
                tree,
                blocks: one.blocks,
                crossed: one.crossed,
                avoidable: one.avoidable,
            }
        });
        Ok(all.collect())
    }

    /// The data device.
    #[must_use]
    pub fn data_device(&self) -> &dyn Device {
        self.engine.data_device()
    }
}
