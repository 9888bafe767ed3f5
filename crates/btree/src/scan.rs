//! Scans over a range of keys, in either direction.

use std::collections::VecDeque;
use std::ops::Bound;

use moirai_update::At;

use crate::leaf::Leaf;
use crate::store::{Store, Tree};
use crate::{Error, Result};

/// Which way a scan goes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Direction {
    /// From the lowest key up.
    #[default]
    Forward,
    /// From the highest key down.
    Backward,
}

/// A range of keys.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KeyRange {
    /// Where it begins.
    pub from: Bound<Vec<u8>>,
    /// Where it ends.
    pub to: Bound<Vec<u8>>,
}

impl KeyRange {
    /// All keys.
    #[must_use]
    pub fn all() -> KeyRange {
        KeyRange { from: Bound::Unbounded, to: Bound::Unbounded }
    }

    /// The keys from `from` on, up to and without `to`.
    #[must_use]
    pub fn between(from: &[u8], to: &[u8]) -> KeyRange {
        KeyRange { from: Bound::Included(from.into()), to: Bound::Excluded(to.into()) }
    }

    /// The keys that begin with `prefix`.
    #[must_use]
    pub fn with_prefix(prefix: &[u8]) -> KeyRange {
        let mut end = prefix.to_vec();
        while end.last() == Some(&u8::MAX) {
            end.pop();
        }
        let to = match end.last_mut() {
            Some(last) => {
                *last += 1;
                Bound::Excluded(end)
            }
            None => Bound::Unbounded,
        };
        KeyRange { from: Bound::Included(prefix.into()), to }
    }

    fn holds(&self, key: &[u8]) -> bool {
        let is_behind = match &self.from {
            Bound::Included(from) => key >= &from[..],
            Bound::Excluded(from) => key > &from[..],
            Bound::Unbounded => true,
        };
        is_behind
            && match &self.to {
                Bound::Included(to) => key <= &to[..],
                Bound::Excluded(to) => key < &to[..],
                Bound::Unbounded => true,
            }
    }
}

/// A leaf's place, as a scan asks for it.
#[derive(Clone, Debug)]
enum Next {
    /// The keys from this one on.
    Key(Vec<u8>),
    /// The keys up to this one.
    Upto(Vec<u8>),
    /// The keys before this one.
    Before(Vec<u8>),
    Last,
    End,
}

/// Records of a tree in the order of their keys. It reads a leaf at a time, as that is when it comes to it:
/// what changes meanwhile is seen or not, and no record comes twice or out of order.
#[derive(Debug)]
pub struct Scan<'a> {
    store: &'a Store,
    tree: Tree,
    range: KeyRange,
    direction: Direction,
    next: Next,
    /// Records of the last leaf that was read: bytes, and where key and value end.
    bytes: Vec<u8>,
    records: VecDeque<(usize, usize, usize)>,
}

impl<'a> Scan<'a> {
    pub(crate) fn new(store: &'a Store, tree: Tree, range: KeyRange, direction: Direction) -> Self {
        let next = match (direction, &range.from, &range.to) {
            (Direction::Forward, Bound::Included(key) | Bound::Excluded(key), _) => {
                Next::Key(key.clone())
            }
            (Direction::Forward, Bound::Unbounded, _) => Next::Key(Vec::new()),
            (Direction::Backward, _, Bound::Included(key)) => Next::Upto(key.clone()),
            (Direction::Backward, _, Bound::Excluded(key)) => Next::Before(key.clone()),
            (Direction::Backward, _, Bound::Unbounded) => Next::Last,
        };
        let (bytes, records) = (Vec::new(), VecDeque::new());
        Scan { store, tree, range, direction, next, bytes, records }
    }

    /// The next record: its key and its value. `None` at the end. Errors as of [`Store::get`], and [`Error::NoLeaf`].
    pub async fn next(&mut self) -> Result<Option<(&[u8], &[u8])>> {
        while self.records.is_empty() {
            if !self.read_leaf().await? {
                return Ok(None);
            }
        }
        let found = self.records.pop_front().and_then(|(first, middle, end)| {
            Some((self.bytes.get(first..middle)?, self.bytes.get(middle..end)?))
        });
        Ok(found)
    }

    /// Reads the next leaf; tells whether there was one.
    async fn read_leaf(&mut self) -> Result<bool> {
        let at = match &self.next {
            Next::Key(key) => At::Key(key),
            Next::Upto(key) => At::Key(key),
            Next::Before(key) => At::Before(key),
            Next::Last => At::Last,
            Next::End => return Ok(false),
        };
        let Some(view) = self.store.engine.view(self.tree.space, at).await? else {
            self.next = Next::End;
            return Ok(false);
        };
        self.bytes.clear();
        let mut is_past = false;
        for (_, block) in view.pieces.iter() {
            let damaged = || Error::NoLeaf { tree: self.tree.name().to_owned() };
            let leaf = Leaf::of(block).ok_or_else(damaged)?;
            for index in 0..leaf.len() {
                let (key, value) = leaf.record(index).ok_or_else(damaged)?;
                // Leaves that are gone meanwhile: this one may have what came before.
                let is_ahead = match &self.next {
                    Next::Key(from) => key >= &from[..],
                    Next::Before(end) => key < &end[..],
                    Next::Upto(_) | Next::Last | Next::End => true,
                };
                if !is_ahead || !self.range.holds(key) {
                    continue;
                }
                let first = self.bytes.len();
                self.bytes.extend_from_slice(key);
                let middle = self.bytes.len();
                self.bytes.extend_from_slice(value);
                let record = (first, middle, self.bytes.len());
                match self.direction {
                    Direction::Forward => self.records.push_back(record),
                    Direction::Backward => self.records.push_front(record),
                }
            }
        }
        self.next = match self.direction {
            Direction::Forward => match view.next {
                Some(next) => {
                    is_past |= !match &self.range.to {
                        Bound::Included(to) => *next <= to[..],
                        Bound::Excluded(to) => *next < to[..],
                        Bound::Unbounded => true,
                    };
                    Next::Key(next.into())
                }
                None => Next::End,
            },
            Direction::Backward => match view.low {
                Some(low) => {
                    is_past |= !match &self.range.from {
                        Bound::Included(from) | Bound::Excluded(from) => *low > from[..],
                        Bound::Unbounded => true,
                    };
                    Next::Before(low.into())
                }
                None => Next::End,
            },
        };
        if is_past {
            self.next = Next::End;
        }
        Ok(true)
    }
}
