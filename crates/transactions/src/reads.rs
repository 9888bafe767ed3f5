//! What a transaction has read: keys, and ranges of keys with those that were not there.

use moirai_update::SpaceId;
use parking_lot::Mutex;

/// Ranges that are kept one by one; beyond, those of a space become one.
const RANGES_MAX: usize = 20_000;

/// Keys of a space that were read: from one on, and before another or to the last.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct ReadRange {
    pub(crate) space: SpaceId,
    pub(crate) from: Box<[u8]>,
    pub(crate) to: Option<Box<[u8]>>,
}

impl ReadRange {
    /// Whether it is one key.
    #[cfg(feature = "canary")]
    pub(crate) fn is_key(&self) -> bool {
        let rest = self.to.as_ref().and_then(|to| to.strip_prefix(&*self.from));
        rest == Some(&[0])
    }
}

/// The first key after another one.
#[must_use]
pub fn key_after(key: &[u8]) -> Vec<u8> {
    [key, &[0]].concat()
}

/// What a transaction has read. Scans note it as they go on, each in its own task.
#[derive(Debug, Default)]
pub struct Reads {
    ranges: Mutex<Vec<ReadRange>>,
}

impl Reads {
    /// Notes that a key was read, or found missing.
    pub fn note_key(&self, space: SpaceId, key: &[u8]) {
        self.note(space, key, Some(&key_after(key)));
    }

    /// Notes that all keys from one on and before another, or to the last, were read or found missing.
    pub fn note(&self, space: SpaceId, from: &[u8], to: Option<&[u8]>) {
        let mut ranges = self.ranges.lock();
        ranges.push(ReadRange { space, from: from.into(), to: to.map(Into::into) });
        if ranges.len() > RANGES_MAX {
            shorten(&mut ranges);
        }
    }

    pub(crate) fn any(&self, is_so: impl Fn(&ReadRange) -> bool) -> bool {
        self.ranges.lock().iter().any(is_so)
    }

    pub(crate) fn clear(&self) {
        self.ranges.lock().clear();
    }
}

/// Joins ranges that touch; where that leaves too many, all of a space.
fn shorten(ranges: &mut Vec<ReadRange>) {
    ranges.sort_unstable();
    join(ranges, |last, next| last.to.as_ref().is_none_or(|to| next.from <= *to));
    if ranges.len() > RANGES_MAX / 2 {
        join(ranges, |_, _| true);
    }
}

/// Joins neighbours of a space where `is_joined` says so.
fn join(ranges: &mut Vec<ReadRange>, is_joined: impl Fn(&ReadRange, &ReadRange) -> bool) {
    ranges.dedup_by(|next, last| {
        if next.space != last.space || !is_joined(last, next) {
            return false;
        }
        last.to = match (last.to.take(), next.to.take()) {
            (Some(one), Some(other)) => Some(one.max(other)),
            _ => None,
        };
        true
    });
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn many_ranges_become_fewer_and_still_have_all_keys() {
        let reads = Reads::default();
        let (one, other) = (SpaceId(1), SpaceId(2));
        for key in 0..2 * RANGES_MAX as u32 {
            reads.note_key(one, &(3 * key).to_be_bytes());
        }
        reads.note(other, b"a", Some(b"c"));
        assert!(reads.ranges.lock().len() <= RANGES_MAX);
        let has = |space, key: &[u8]| {
            let is_in = |range: &ReadRange| {
                let before = range.to.as_ref().is_none_or(|to| *key < **to);
                range.space == space && key >= &*range.from && before
            };
            reads.any(is_in)
        };
        assert!((0..2 * RANGES_MAX as u32).all(|key| has(one, &(3 * key).to_be_bytes())));
        assert!(has(other, b"b") && !has(other, b"c") && !has(one, b""));
    }

    #[test]
    fn ranges_that_touch_become_one() {
        let of = |from: &[u8], to: Option<&[u8]>| ReadRange {
            space: SpaceId(1),
            from: from.into(),
            to: to.map(Into::into),
        };
        let mut ranges =
            vec![of(b"m", None), of(b"a", Some(b"c")), of(b"b", Some(b"d")), of(b"x", Some(b"y"))];
        shorten(&mut ranges);
        assert_eq!(ranges, [of(b"a", Some(b"d")), of(b"m", None)]);
    }
}
