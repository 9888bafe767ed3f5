//! Which keys were modified lately, and by which group: what validation compares reads and writes with.
//!
//! A read point sees the groups before a number ([`moirai_update::ReadPoint::groups_end`]). A key has changed for its transaction
//! when a group from that number on modified it. The history keeps a key as long as some transaction may ask for it: until
//! all read points of transactions see the group, and those of transactions that begin later will.

use std::collections::{BTreeMap, VecDeque};
use std::ops::Bound;
use std::sync::Arc;

use moirai_update::SpaceId;

use crate::reads::ReadRange;

/// A key that a group modified; `None` stands for any keys of the space.
pub(crate) type Modified = (SpaceId, Option<Arc<[u8]>>);

/// The last group that modified a key.
#[derive(Clone, Copy, Debug, Default)]
struct Last {
    number: u64,
    /// How many groups are being committed that modify it, and whose numbers are not known yet.
    unnumbered: u32,
}

impl Last {
    /// The number of the last group, which counts as the highest as long as it is not known.
    fn number(self) -> u64 {
        if self.unnumbered > 0 { u64::MAX } else { self.number }
    }
}

/// The last groups that modified keys of a space.
#[derive(Debug, Default)]
struct OfSpace {
    /// The last one that may have modified any key.
    whole: Last,
    keys: BTreeMap<Arc<[u8]>, Last>,
}

impl OfSpace {
    fn last(&mut self, key: Option<&Arc<[u8]>>) -> &mut Last {
        match key {
            None => &mut self.whole,
            Some(key) => self.keys.entry(Arc::clone(key)).or_default(),
        }
    }
}

/// The keys that groups modified lately.
#[derive(Debug, Default)]
pub(crate) struct History {
    spaces: BTreeMap<SpaceId, OfSpace>,
    /// What each group modified, oldest first.
    groups: VecDeque<(u64, Vec<Modified>)>,
    /// The numbers from which on groups are not seen, of the read points in use, and how many these are.
    points: BTreeMap<u64, usize>,
    /// Transactions that are beginning their read points.
    beginning: usize,
}

impl History {
    /// A transaction is about to begin a read point: until [`History::begun`] says which groups it sees, nothing is forgotten.
    pub(crate) fn beginning(&mut self) {
        self.beginning += 1;
    }

    /// Its read point sees the groups before this one; `None` where it was not begun.
    pub(crate) fn begun(&mut self, groups_end: Option<u64>) {
        self.beginning -= 1;
        if let Some(groups_end) = groups_end {
            *self.points.entry(groups_end).or_default() += 1;
        }
    }

    /// A read point ended.
    pub(crate) fn ended(&mut self, groups_end: u64) {
        if let Some(count) = self.points.get_mut(&groups_end) {
            *count -= 1;
            if *count == 0 {
                self.points.remove(&groups_end);
            }
        }
    }

    /// A group was appended to the log. Groups come in the order of their numbers, but for [`History::numbered`].
    pub(crate) fn appended(&mut self, number: u64, modified: Vec<Modified>) {
        self.note(&modified, |last| last.number = last.number.max(number));
        self.groups.push_back((number, modified));
    }

    /// A group is being committed whose number is not known yet: what it modifies counts as changed for all.
    pub(crate) fn unnumbered(&mut self, modified: &[Modified]) {
        self.note(modified, |last| last.unnumbered += 1);
    }

    /// That group has this number or a lower one, or was not committed.
    pub(crate) fn numbered(&mut self, number: u64, modified: Vec<Modified>) {
        self.note(&modified, |last| last.unnumbered -= 1);
        self.appended(number, modified);
    }

    fn note(&mut self, modified: &[Modified], change: impl Fn(&mut Last)) {
        for (space, key) in modified {
            change(self.spaces.entry(*space).or_default().last(key.as_ref()));
        }
    }

    fn last(&self, space: SpaceId, key: &[u8]) -> Option<u64> {
        let of_space = self.spaces.get(&space)?;
        let of_key = of_space.keys.get(key).copied().unwrap_or_default();
        Some(of_key.number().max(of_space.whole.number()))
    }

    /// The group that modified a key last, where it is none of those that readers see, which are before `visible_end`; nothing of one
    /// whose number is not known.
    pub(crate) fn in_flight(&self, space: SpaceId, key: &[u8], visible_end: u64) -> Option<u64> {
        self.last(space, key).filter(|number| *number >= visible_end && *number < u64::MAX)
    }

    /// The same of all keys of a space.
    pub(crate) fn in_flight_of(&self, space: SpaceId, visible_end: u64) -> Option<u64> {
        let of_space = self.spaces.get(&space)?;
        let last = of_space.keys.values().chain([&of_space.whole]).map(|last| last.number);
        last.max().filter(|number| *number >= visible_end)
    }

    /// Whether a group from this number on modified a key.
    pub(crate) fn has_changed(&self, space: SpaceId, key: &[u8], since: u64) -> bool {
        self.last(space, key).is_some_and(|number| number >= since)
    }

    /// Whether a group from this number on modified a key of a range.
    pub(crate) fn has_range_changed(&self, read: &ReadRange, since: u64) -> bool {
        let Some(of_space) = self.spaces.get(&read.space) else { return false };
        if of_space.whole.number() >= since {
            return true;
        }
        let to = read.to.as_deref();
        // A range that ends before it begins would panic.
        if to.is_some_and(|to| *to <= *read.from) {
            return false;
        }
        let keys = (Bound::Included(&*read.from), to.map_or(Bound::Unbounded, Bound::Excluded));
        of_space.keys.range::<[u8], _>(keys).any(|(_, last)| last.number() >= since)
    }

    /// Forgets the groups that all read points see, those of transactions to come among them: readers see the groups before
    /// `visible_end`.
    pub(crate) fn forget(&mut self, visible_end: u64) {
        if self.beginning > 0 {
            return;
        }
        let oldest = self.points.keys().next().copied();
        let kept = oldest.map_or(visible_end, |oldest| oldest.min(visible_end));
        while let Some((number, _)) = self.groups.front()
            && *number < kept
            && let Some((number, modified)) = self.groups.pop_front()
        {
            for (space, key) in modified {
                let Some(of_space) = self.spaces.get_mut(&space) else { continue };
                let is_forgotten =
                    |last: Option<&Last>| last.is_some_and(|last| last.number() == number);
                match &key {
                    Some(key) if is_forgotten(of_space.keys.get(key)) => {
                        of_space.keys.remove(key);
                    }
                    None if is_forgotten(Some(&of_space.whole)) => of_space.whole = Last::default(),
                    _ => {}
                }
                if of_space.keys.is_empty() && of_space.whole.number() == 0 {
                    self.spaces.remove(&space);
                }
            }
        }
    }

    /// How many groups it has.
    pub(crate) fn len(&self) -> usize {
        self.groups.len()
    }
}
