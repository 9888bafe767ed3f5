//! Ranges of keys.

use std::ops::{Bound, Range, RangeFrom, RangeFull, RangeInclusive, RangeTo, RangeToInclusive};

/// A range of keys; each end includes its key, excludes it or is open. Made of Rust's ranges of anything that is
/// bytes (`"a".."c"`, `key..`, `..`), of a pair of [`Bound`]s, or of a prefix.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KeyRange {
    /// The low end.
    pub from: Bound<Vec<u8>>,
    /// The high end.
    pub to: Bound<Vec<u8>>,
}

impl KeyRange {
    /// All keys.
    #[must_use]
    pub fn all() -> KeyRange {
        KeyRange { from: Bound::Unbounded, to: Bound::Unbounded }
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

    /// Whether the low end is before `key` or at it.
    pub(crate) fn begins_by(&self, key: &[u8]) -> bool {
        match &self.from {
            Bound::Included(from) => key >= &from[..],
            Bound::Excluded(from) => key > &from[..],
            Bound::Unbounded => true,
        }
    }

    /// Whether the high end is after `key` or at it.
    pub(crate) fn reaches(&self, key: &[u8]) -> bool {
        match &self.to {
            Bound::Included(to) => key <= &to[..],
            Bound::Excluded(to) => key < &to[..],
            Bound::Unbounded => true,
        }
    }

    pub(crate) fn holds(&self, key: &[u8]) -> bool {
        self.begins_by(key) && self.reaches(key)
    }

    /// Whether no key is in it, whatever keys there are.
    pub(crate) fn is_empty(&self) -> bool {
        match (&self.from, &self.to) {
            (Bound::Included(from), Bound::Included(to)) => from > to,
            (
                Bound::Included(from) | Bound::Excluded(from),
                Bound::Included(to) | Bound::Excluded(to),
            ) => from >= to,
            _ => false,
        }
    }
}

impl From<RangeFull> for KeyRange {
    fn from(_: RangeFull) -> KeyRange {
        KeyRange::all()
    }
}

impl<K: AsRef<[u8]>> From<(Bound<K>, Bound<K>)> for KeyRange {
    fn from((from, to): (Bound<K>, Bound<K>)) -> KeyRange {
        let bytes = |key: K| key.as_ref().to_vec();
        KeyRange { from: from.map(bytes), to: to.map(bytes) }
    }
}

impl<K: AsRef<[u8]>> From<Range<K>> for KeyRange {
    fn from(Range { start, end }: Range<K>) -> KeyRange {
        (Bound::Included(start), Bound::Excluded(end)).into()
    }
}

impl<K: AsRef<[u8]>> From<RangeInclusive<K>> for KeyRange {
    fn from(range: RangeInclusive<K>) -> KeyRange {
        let (start, end) = range.into_inner();
        (Bound::Included(start), Bound::Included(end)).into()
    }
}

impl<K: AsRef<[u8]>> From<RangeFrom<K>> for KeyRange {
    fn from(RangeFrom { start }: RangeFrom<K>) -> KeyRange {
        (Bound::Included(start), Bound::Unbounded).into()
    }
}

impl<K: AsRef<[u8]>> From<RangeTo<K>> for KeyRange {
    fn from(RangeTo { end }: RangeTo<K>) -> KeyRange {
        (Bound::Unbounded, Bound::Excluded(end)).into()
    }
}

impl<K: AsRef<[u8]>> From<RangeToInclusive<K>> for KeyRange {
    fn from(RangeToInclusive { end }: RangeToInclusive<K>) -> KeyRange {
        (Bound::Unbounded, Bound::Included(end)).into()
    }
}
