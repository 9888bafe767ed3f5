//! Drafts: modifications that a program has not committed, laid over what it reads.

use std::collections::BTreeMap;
use std::ops::Bound;

use crate::group::Group;
use crate::ids::{DELETE, KINDS_OF_PROGRAMS, KindNumber, PUT, PointNumber, SpaceId};
use crate::kind::{Kinds, Modification};
use crate::state::queue::{decode, encode};
use crate::units::UnitSet;

/// Modifications that are not committed yet, sorted by key. [`Reader::over`](crate::Reader::over) reads what would be
/// there with them; [`Draft::group`] is what to commit.
#[derive(Clone, Debug, Default)]
pub struct Draft {
    /// Of each key, its modifications in their order.
    spaces: BTreeMap<SpaceId, BTreeMap<Box<[u8]>, Vec<u8>>>,
    /// One of a kind that no program has: reads know nothing of it, and committing it is refused.
    reserved: Option<(SpaceId, KindNumber)>,
}

/// When something is read, what is laid over it, and which units of blocks are asked for.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Moment<'a> {
    pub(crate) point: PointNumber,
    pub(crate) draft: Option<&'a Draft>,
    pub(crate) units: UnitSet,
    /// The units that are read, too, where views have modifications beside their blocks; `None` where these are applied.
    pub(crate) in_layers: Option<UnitSet>,
}

impl Draft {
    /// None yet.
    #[must_use]
    pub fn new() -> Draft {
        Draft::default()
    }

    /// Adds a modification; it comes after those before it.
    pub fn modify(&mut self, space: SpaceId, modification: Modification<'_>) {
        let of_space = self.spaces.entry(space).or_default();
        let of_key = match of_space.get_mut(modification.key) {
            Some(of_key) => of_key,
            None => of_space.entry(modification.key.into()).or_default(),
        };
        let kind = modification.kind;
        if !matches!(kind, PUT | DELETE) && kind < KINDS_OF_PROGRAMS {
            self.reserved = Some((space, kind));
            return;
        }
        // What it replaces is of no use.
        if Kinds::replaces(modification.kind) {
            of_key.clear();
        }
        encode(of_key, modification);
    }

    /// The group that commits it.
    #[must_use]
    pub fn group(&self) -> Group {
        let mut group = Group::new();
        for (space, of_space) in &self.spaces {
            for modification in of_space.values().flat_map(|of_key| decode(of_key)) {
                group.modify(*space, modification);
            }
        }
        if let Some((space, kind)) = self.reserved {
            group.modify(space, Modification { key: &[], kind, bytes: &[] });
        }
        group
    }

    /// Whether there are none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.spaces.is_empty() && self.reserved.is_none()
    }

    /// Takes all out.
    pub fn clear(&mut self) {
        *self = Draft::default();
    }

    /// The modifications of one space alone.
    pub(crate) fn of_space(&self, space: SpaceId) -> Draft {
        let of_space = self.spaces.get(&space).cloned();
        let spaces = of_space.map(|of_space| (space, of_space)).into_iter().collect();
        Draft { spaces, reserved: None }
    }
}

impl<'a> Moment<'a> {
    /// What is there now.
    pub(crate) const NOW: Moment<'static> =
        Moment { point: PointNumber::NOW, draft: None, units: UnitSet::ALL, in_layers: None };

    /// The program's own modifications of a key.
    pub(crate) fn own_of(
        self,
        space: SpaceId,
        key: &[u8],
    ) -> impl Iterator<Item = Modification<'a>> {
        let of_key = self.draft.and_then(|draft| draft.spaces.get(&space)?.get(key));
        of_key.into_iter().flat_map(|of_key| decode(of_key))
    }

    /// Those from a key on and before another, or to the last.
    pub(crate) fn own_between(
        self,
        space: SpaceId,
        from: &[u8],
        to: Option<&[u8]>,
    ) -> impl Iterator<Item = Modification<'a>> {
        let of_space = self.draft.and_then(|draft| draft.spaces.get(&space));
        // A range that ends before it begins would panic.
        let of_space = of_space.filter(|_| to.is_none_or(|to| from < to));
        let keys = (Bound::Included(from), to.map_or(Bound::Unbounded, Bound::Excluded));
        let all = of_space.into_iter().flat_map(move |of_space| of_space.range::<[u8], _>(keys));
        all.flat_map(|(_, of_key)| decode(of_key))
    }
}
