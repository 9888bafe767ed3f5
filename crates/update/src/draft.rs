//! Drafts: modifications that a program has not committed, laid over what it reads.

use std::collections::BTreeMap;
use std::ops::Bound;

use crate::encoded::{decode, encode};
use crate::group::Group;
use crate::ids::{DELETE, KINDS_OF_PROGRAMS, KindNumber, PUT, PointNumber, SpaceId};
use crate::kind::{Kinds, Modification};
use crate::units::UnitSet;

/// Modifications that are not committed yet, sorted by key. [`Reader::over`](crate::Reader::over) reads what would be
/// there with them; [`Draft::group`] is what to commit.
#[derive(Clone, Debug, Default)]
pub struct Draft {
    /// Of each key, its modifications in their order.
    spaces: BTreeMap<SpaceId, BTreeMap<Box<[u8]>, Vec<u8>>>,
    /// One of a kind that no program has: reads know nothing of it, and committing it is refused.
    reserved: Option<(SpaceId, KindNumber)>,
    /// Bytes of memory, about.
    bytes: usize,
    /// How to take back what came after the first mark, oldest first; `None` without a mark.
    undo: Option<Vec<Undo>>,
}

/// A state of a draft that [`Draft::roll_back`] brings back.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct DraftMark(usize);

/// What a key had before a modification.
#[derive(Clone, Debug)]
struct Undo {
    space: SpaceId,
    key: Box<[u8]>,
    before: Before,
}

#[derive(Clone, Debug)]
enum Before {
    /// No modification.
    Nothing,
    /// The first bytes of those that it has now.
    Bytes(usize),
    /// Others, which were replaced.
    Replaced(Vec<u8>),
}

/// What a key takes in memory beside its bytes and those of its modifications.
const KEY_OVERHEAD_BYTES: usize = 96;

/// When something is read, what is laid over it, and which units of blocks are asked for.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Moment<'a> {
    pub(crate) point: PointNumber,
    pub(crate) draft: Option<&'a Draft>,
    pub(crate) units: UnitSet,
    /// The units that are read, too, where views have modifications beside their blocks; `None` where these are applied.
    pub(crate) in_layers: Option<UnitSet>,
    /// The keys that views are read for; `None` where all of them count.
    pub(crate) within: Option<ViewRange<'a>>,
}

/// Keys that a view is read for, from one on and before another or to the last, and after how many modifications of them it may end.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ViewRange<'a> {
    pub(crate) from: &'a [u8],
    pub(crate) to: Option<&'a [u8]>,
    pub(crate) changes: usize,
}

impl Draft {
    /// None yet.
    #[must_use]
    pub fn new() -> Draft {
        Draft::default()
    }

    /// Adds a modification; it comes after those before it.
    pub fn modify(&mut self, space: SpaceId, modification: Modification<'_>) {
        let Modification { key, kind, .. } = modification;
        if !matches!(kind, PUT | DELETE) && kind < KINDS_OF_PROGRAMS {
            self.reserved = Some((space, kind));
            return;
        }
        let of_space = self.spaces.entry(space).or_default();
        let is_new = !of_space.contains_key(key);
        if is_new {
            of_space.insert(key.into(), Vec::new());
            self.bytes += key.len() + KEY_OVERHEAD_BYTES;
        }
        let Some(of_key) = of_space.get_mut(key) else { return };
        let replaces = Kinds::replaces(kind);
        if let Some(undo) = &mut self.undo {
            let before = match replaces {
                _ if is_new => Before::Nothing,
                true => Before::Replaced(of_key.clone()),
                false => Before::Bytes(of_key.len()),
            };
            self.bytes += key.len() + KEY_OVERHEAD_BYTES;
            self.bytes += if replaces { of_key.len() } else { 0 };
            undo.push(Undo { space, key: key.into(), before });
        }
        self.bytes -= of_key.len();
        // What it replaces is of no use.
        if replaces {
            of_key.clear();
        }
        encode(of_key, modification);
        self.bytes += of_key.len();
    }

    /// Marks the state of now. From the first mark on, the draft keeps what it needs to go back.
    pub fn mark(&mut self) -> DraftMark {
        DraftMark(self.undo.get_or_insert_default().len())
    }

    /// Takes back all modifications that came after a mark, which stays. A mark of another draft takes back some of them.
    pub fn roll_back(&mut self, mark: DraftMark) {
        let Some(undo) = &mut self.undo else { return };
        while undo.len() > mark.0
            && let Some(Undo { space, key, before }) = undo.pop()
        {
            let Some(of_space) = self.spaces.get_mut(&space) else { continue };
            self.bytes -= key.len() + KEY_OVERHEAD_BYTES;
            let Some(of_key) = of_space.get_mut(&key) else { continue };
            self.bytes -= of_key.len();
            match before {
                Before::Nothing => {
                    of_space.remove(&key);
                    self.bytes -= key.len() + KEY_OVERHEAD_BYTES;
                }
                Before::Bytes(bytes) => {
                    of_key.truncate(bytes);
                    self.bytes += bytes;
                }
                // They were counted twice.
                Before::Replaced(bytes) => *of_key = bytes,
            }
        }
        self.spaces.retain(|_, of_space| !of_space.is_empty());
    }

    /// Forgets all marks, and what was kept for them.
    pub fn forget_marks(&mut self) {
        for Undo { key, before, .. } in self.undo.take().into_iter().flatten() {
            self.bytes -= key.len() + KEY_OVERHEAD_BYTES;
            if let Before::Replaced(bytes) = before {
                self.bytes -= bytes.len();
            }
        }
    }

    /// Bytes of memory that it takes, about.
    #[must_use]
    pub fn memory_bytes(&self) -> usize {
        self.bytes
    }

    /// The keys that it modifies, by spaces and in their order.
    pub fn keys(&self) -> impl Iterator<Item = (SpaceId, &[u8])> {
        let spaces = self.spaces.iter();
        spaces.flat_map(|(space, of_space)| of_space.keys().map(|key| (*space, &**key)))
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
        Draft { spaces, ..Draft::default() }
    }
}

impl<'a> Moment<'a> {
    /// What is there now.
    pub(crate) const NOW: Moment<'static> = Moment {
        point: PointNumber::NOW,
        draft: None,
        units: UnitSet::ALL,
        in_layers: None,
        within: None,
    };

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

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn content(draft: &Draft) -> Vec<(SpaceId, Vec<u8>, KindNumber, Vec<u8>)> {
        let group = draft.group();
        let all = group.iter().map(|(space, Modification { key, kind, bytes })| {
            (space, key.to_vec(), kind, bytes.to_vec())
        });
        all.collect()
    }

    proptest! {
        /// Whatever was modified, marked and rolled back, a draft is as it would be without what was taken back; and once all is
        /// taken back it takes no memory.
        #[test]
        fn marks_bring_drafts_back(
            steps in prop::collection::vec((0_u8..10, 0_u32..2, 0_u8..4, prop::collection::vec(any::<u8>(), 0..9)), 0..60),
        ) {
            let (mut draft, mut marks) = (Draft::new(), Vec::new());
            let first = draft.mark();
            for (step, space, key, bytes) in steps {
                match step {
                    0 => marks.push((draft.mark(), content(&draft))),
                    1 => if let Some((mark, before)) = marks.pop() {
                        draft.roll_back(mark);
                        prop_assert_eq!(content(&draft), before);
                    },
                    _ => {
                        let kind = [PUT, DELETE, KINDS_OF_PROGRAMS][usize::from(step % 3)];
                        draft.modify(SpaceId(space), Modification { key: &[key], kind, bytes: &bytes });
                    }
                }
            }
            let mut kept = draft.clone();
            kept.forget_marks();
            prop_assert_eq!(content(&kept), content(&draft));
            let mut bytes = 0;
            kept.spaces.values().flatten().for_each(|(key, of_key)| bytes += key.len() + KEY_OVERHEAD_BYTES + of_key.len());
            prop_assert_eq!(kept.memory_bytes(), bytes);
            draft.roll_back(first);
            prop_assert!(draft.is_empty());
            prop_assert_eq!(draft.memory_bytes(), 0);
        }
    }
}
