//! Sorted records on their way into blocks, in memory.

use std::collections::VecDeque;
use std::ops::Range;
use std::sync::Arc;

use crate::ids::KindNumber;
use crate::kind::Modification;

/// Records in ascending order of their keys: keys and values one behind the other, and where each ends.
#[derive(Debug)]
pub(crate) struct SortedRecords {
    kind: KindNumber,
    bytes: Vec<u8>,
    ends: Vec<Ends>,
}

/// Where the key of a record ends, and the record.
#[derive(Clone, Copy, Debug, Default)]
struct Ends {
    key: u32,
    record: u32,
}

impl SortedRecords {
    /// An empty piece that takes `bytes` of records without growing, which are modifications of a kind.
    pub(crate) fn with_room(kind: KindNumber, bytes: usize) -> SortedRecords {
        SortedRecords { kind, bytes: Vec::with_capacity(bytes), ends: Vec::new() }
    }

    /// Adds a record; its key is above all others.
    pub(crate) fn push(&mut self, key: &[u8], value: &[u8]) {
        self.bytes.extend_from_slice(key);
        let key = self.bytes.len() as u32;
        self.bytes.extend_from_slice(value);
        self.ends.push(Ends { key, record: self.bytes.len() as u32 });
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.ends.is_empty()
    }

    /// Bytes of memory that the records take.
    pub(crate) fn bytes(&self) -> usize {
        self.bytes.len() + self.ends.len() * size_of::<Ends>()
    }

    /// Where record `index` begins.
    fn begin(&self, index: usize) -> usize {
        let before = index.checked_sub(1).and_then(|before| self.ends.get(before));
        before.map_or(0, |before| before.record as usize)
    }

    fn record(&self, index: usize) -> Option<(&[u8], &[u8])> {
        let begin = self.begin(index);
        let ends = self.ends.get(index)?;
        let record = self.bytes.get(begin..ends.record as usize)?;
        record.split_at_checked(ends.key as usize - begin)
    }

    /// How many of the records in `range` have keys below `key`.
    fn count_below(&self, range: &Range<usize>, key: &[u8]) -> usize {
        let (mut first, mut end) = (range.start, range.end);
        while first < end {
            let middle = first.midpoint(end);
            match self.record(middle).is_some_and(|(other, _)| other < key) {
                true => first = middle + 1,
                false => end = middle,
            }
        }
        first - range.start
    }
}

/// Records in ascending order of their keys, in parts of pieces that are shared.
#[derive(Clone, Debug, Default)]
pub(crate) struct Records(VecDeque<(Arc<SortedRecords>, Range<usize>)>);

impl Records {
    /// Adds all records of a piece, whose keys are above those that are there.
    pub(crate) fn push(&mut self, piece: SortedRecords) {
        if !piece.is_empty() {
            let all = 0..piece.ends.len();
            self.0.push_back((Arc::new(piece), all));
        }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub(crate) fn count(&self) -> usize {
        self.0.iter().map(|(_, range)| range.len()).sum()
    }

    /// Bytes of memory that the records take.
    pub(crate) fn bytes(&self) -> usize {
        let bytes = |(piece, range): &(Arc<SortedRecords>, Range<usize>)| {
            piece.begin(range.end) - piece.begin(range.start) + range.len() * size_of::<Ends>()
        };
        self.0.iter().map(bytes).sum()
    }

    /// The lowest key.
    pub(crate) fn first_key(&self) -> Option<&[u8]> {
        let (piece, range) = self.0.front()?;
        Some(piece.record(range.start)?.0)
    }

    /// Takes out the records whose keys are below `key`.
    pub(crate) fn take_below(&mut self, key: &[u8]) -> Records {
        let mut below = Records::default();
        while let Some((piece, range)) = self.0.front_mut() {
            let count = piece.count_below(range, key);
            let at = range.start + count;
            if count > 0 {
                below.0.push_back((Arc::clone(piece), range.start..at));
            }
            if at < range.end {
                range.start = at;
                break;
            }
            self.0.pop_front();
        }
        below
    }

    /// The records as modifications.
    pub(crate) fn iter(&self) -> impl Iterator<Item = Modification<'_>> {
        self.0.iter().flat_map(|(piece, range)| {
            let records = range.clone().filter_map(|index| piece.record(index));
            records.map(|(key, bytes)| Modification { key, kind: piece.kind, bytes })
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::encoded::encode;
    use crate::ids::{DELETE, PUT, PointNumber};
    use crate::state::queue::Queue;
    use crate::state::sorted::Sorted;

    fn piece(keys: Range<u8>) -> SortedRecords {
        let mut piece = SortedRecords::with_room(PUT, 0);
        keys.for_each(|key| piece.push(&[key], &vec![key; usize::from(key)]));
        piece
    }

    fn keys(records: &Records) -> Vec<u8> {
        let key = |one: Modification<'_>| {
            assert_eq!(one.bytes, vec![one.key[0]; usize::from(one.key[0])]);
            one.key[0]
        };
        records.iter().map(key).collect()
    }

    #[test]
    fn records_are_cut_at_any_key() {
        for cut in 0..=12 {
            let mut all = Records::default();
            [0..4, 4..4, 4..5, 5..11].into_iter().for_each(|keys| all.push(piece(keys)));
            assert_eq!((all.count(), all.first_key()), (11, Some(&[0][..])));
            let bytes = all.bytes();
            let below = all.take_below(&[cut]);
            assert_eq!(keys(&below), (0..cut.min(11)).collect::<Vec<u8>>());
            assert_eq!(keys(&all), (cut.min(11)..11).collect::<Vec<u8>>());
            assert_eq!(below.bytes() + all.bytes(), bytes);
            assert_eq!((below.is_empty(), all.is_empty()), (cut == 0, cut > 10));
        }
    }

    #[test]
    fn records_come_after_earlier_modifications_of_their_keys() {
        let mut records = Records::default();
        records.push(piece(2..4));
        let mut queue = Queue::default();
        for key in [[1], [2], [2], [3], [5]] {
            let mut encoded = Vec::new();
            encode(&mut encoded, Modification { key: &key, kind: DELETE, bytes: &[] });
            queue.push(&key, &encoded, PointNumber::default());
        }
        let mut sorted = Sorted::new(&[], &queue).then(records.iter());
        let all = std::iter::from_fn(|| sorted.next_if(|_| true));
        let kinds = all.map(|one| (one.key[0], one.kind));
        let expected =
            [(1, DELETE), (2, DELETE), (2, DELETE), (2, PUT), (3, DELETE), (3, PUT), (5, DELETE)];
        assert_eq!(kinds.collect::<Vec<_>>(), expected);
    }
}
