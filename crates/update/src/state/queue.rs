//! Pending modifications of a partition, in memory, in the order in which they came.

use crate::codec::is_same_key;
use crate::encoded::{decode, encode};
use crate::filter::KeyHash;
use crate::ids::{AFTER_POINT, PUT_LONG, PointNumber};
use crate::kind::Modification;
use crate::state::key_order::KeyOrder;
use crate::state::pieces::{PIECE_BYTES, Piece, Pieces};
use crate::units::UnitSet;

/// So many bytes of modifications are not worth sorting.
const UNSORTED_BYTES: usize = 2 << 10;
/// Nor are so many for a reader of one key, who looks at the filters of these pieces.
const UNSORTED_BYTES_OF_KEY: usize = 64 * PIECE_BYTES;

/// Modifications one behind the other: a byte for the kind, and key and modification behind their lengths.
/// With short ones that is three bytes each, and what the last piece leaves free.
#[derive(Debug, Default)]
pub(crate) struct Queue {
    pieces: Vec<Piece>,
    bytes: usize,
    count: usize,
    has_long: bool,
    /// The units that its modifications change, or more.
    units: UnitSet,
    /// Some of them by key, where somebody has read ranges.
    order: Option<Box<KeyOrder>>,
}

impl Queue {
    /// Bytes of the modifications.
    pub(crate) fn bytes(&self) -> usize {
        self.bytes
    }

    pub(crate) fn count(&self) -> usize {
        self.count
    }

    /// Whether there are references to long values in it.
    pub(crate) fn has_long(&self) -> bool {
        self.has_long
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.count == 0
    }

    /// The units that its modifications change, or more.
    pub(crate) fn units(&self) -> UnitSet {
        self.units
    }

    /// Adds units that modifications change.
    pub(crate) fn note_units(&mut self, units: UnitSet) {
        self.units = self.units.with(units);
    }

    /// Bytes of memory.
    pub(crate) fn memory_bytes(&self) -> usize {
        let order = self.order.as_ref().map_or(0, |order| order.memory_bytes());
        order + self.pieces.iter().map(Piece::memory_bytes).sum::<usize>()
    }

    /// Forgets what is sorted by key; gives the bytes of memory that this frees.
    pub(crate) fn forget_order(&mut self) -> usize {
        self.order.take().map_or(0, |order| order.memory_bytes())
    }

    /// The last byte, next to which the next modification goes.
    pub(crate) fn end_byte(&self) -> u8 {
        let last = self.pieces.last().and_then(|piece| piece.bytes_from(0).last());
        last.copied().unwrap_or(0)
    }

    /// Adds a modification of `key`, as [`encode`] writes it, that came when `after` was the newest read point; gives by how
    /// many bytes the memory grew.
    pub(crate) fn push(&mut self, key: &[u8], encoded: &[u8], after: PointNumber) -> usize {
        self.push_among(key, encoded, after, |_, _| true)
    }

    /// The same, and `separates` tells whether there may be read points behind the first, up to the second: where there are none,
    /// it does not matter which of the two a modification came after.
    pub(crate) fn push_among(
        &mut self,
        key: &[u8],
        encoded: &[u8],
        after: PointNumber,
        separates: impl Fn(PointNumber, PointNumber) -> bool,
    ) -> usize {
        self.bytes += encoded.len();
        self.count += 1;
        self.has_long |= encoded.first() == Some(&PUT_LONG.0);
        let is_first = self.pieces.len() <= 1;
        let (is_in, grown) = match self.pieces.last_mut() {
            Some(last) => {
                last.push(key, encoded, is_first, |last| last.come_after(after, separates))
            }
            None => (false, 0),
        };
        if is_in {
            return grown;
        }
        // Most queues are short.
        if self.pieces.is_empty() {
            self.pieces.reserve_exact(1);
        }
        let piece = Piece::of(key, encoded, after, self.pieces.is_empty());
        let memory_bytes = piece.memory_bytes();
        self.pieces.push(piece);
        grown + memory_bytes
    }

    /// The same modifications.
    pub(crate) fn copied(&self) -> Queue {
        let mut copy = Queue { units: self.units, ..Queue::default() };
        for piece in &self.pieces {
            for (modification, encoded, after) in piece.iter_after() {
                copy.push(modification.key, encoded, after);
            }
        }
        copy
    }

    /// The modifications of keys from `low` on, and before `high` or to the last.
    pub(crate) fn within(&self, low: &[u8], high: Option<&[u8]>) -> Queue {
        let mut some = Queue { units: self.units, ..Queue::default() };
        for piece in &self.pieces {
            for (modification, encoded, after) in piece.iter_after() {
                let key = modification.key;
                if key >= low && high.is_none_or(|high| key < high) {
                    some.push(key, encoded, after);
                }
            }
        }
        some
    }

    /// What came before the last of the read points `live`, for their readers: before modifications that came after one of
    /// `live`, an [`AFTER_POINT`] says so.
    pub(crate) fn history(&self, live: &[PointNumber]) -> Queue {
        let mut history = Queue { units: self.units, ..Queue::default() };
        let mut mark = Vec::new();
        let newest = live.last().copied().unwrap_or_default();
        for piece in &self.pieces {
            for (Modification { key, .. }, encoded, after) in piece.iter_after() {
                if after >= newest {
                    continue;
                }
                let earlier = live.partition_point(|point| *point <= after);
                if let Some(after) = earlier.checked_sub(1).and_then(|at| live.get(at)) {
                    mark.clear();
                    let bytes = &after.0.to_le_bytes();
                    encode(&mut mark, Modification { key, kind: AFTER_POINT, bytes });
                    history.push(key, &mark, PointNumber::default());
                }
                history.push(key, encoded, PointNumber::default());
            }
        }
        history
    }

    /// Puts `later`, which has forgotten what was sorted, behind.
    pub(crate) fn append(&mut self, mut later: Queue) {
        self.pieces.append(&mut later.pieces);
        self.bytes += later.bytes;
        self.count += later.count;
        self.has_long |= later.has_long;
        self.units = self.units.with(later.units);
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = Modification<'_>> {
        self.before(PointNumber::NOW)
    }

    /// What came before a read point.
    pub(crate) fn before(&self, point: PointNumber) -> impl Iterator<Item = Modification<'_>> {
        self.pieces.iter().flat_map(move |piece| decode(piece.before(point, 0)))
    }

    /// The queue in parts of so many pieces, the oldest first.
    pub(crate) fn parts(&self, pieces_max: usize) -> impl Iterator<Item = Pieces<'_>> {
        self.pieces.chunks(pieces_max).map(Pieces::of)
    }

    /// The modifications in pieces, the oldest first.
    pub(crate) fn into_pieces(self) -> std::vec::IntoIter<Piece> {
        self.pieces.into_iter()
    }
}

impl Queue {
    fn unsorted_bytes(&self) -> usize {
        self.bytes - self.order.as_deref().map_or(0, |order| order.bytes())
    }

    /// Whether a reader of a range should sort first.
    pub(crate) fn is_to_order(&self) -> bool {
        self.unsorted_bytes() > UNSORTED_BYTES
    }

    /// Whether a reader of single keys should sort.
    pub(crate) fn is_to_order_for_keys(&self) -> bool {
        self.unsorted_bytes() > UNSORTED_BYTES_OF_KEY
    }

    /// What came of a key before a read point, oldest first.
    pub(crate) fn of_key(
        &self,
        key: &[u8],
        point: PointNumber,
    ) -> impl Iterator<Item = Modification<'_>> {
        let all = Pieces::of(&self.pieces);
        // Few pieces are looked through faster than they are searched.
        let order = self.order.as_deref().filter(|order| order.bytes() > UNSORTED_BYTES_OF_KEY);
        let sorted = order.into_iter().flat_map(move |order| order.of_key(all, key));
        let hash = KeyHash::of(key);
        let found = self.with_rest(order, sorted, point, move |piece| piece.may_have(hash));
        found.filter(move |one| is_same_key(one.key, key))
    }

    /// The modifications at sorted places, and those of pieces that are not sorted yet; of both what came before a read point.
    fn with_rest<'q>(
        &'q self,
        order: Option<&KeyOrder>,
        sorted: impl Iterator<Item = u32>,
        point: PointNumber,
        may_have: impl Fn(&Piece) -> bool,
    ) -> impl Iterator<Item = Modification<'q>> {
        let all = Pieces::of(&self.pieces);
        let sorted = sorted.filter_map(move |place| all.at_before(place, point));
        let (pieces, bytes) = order.map_or((0, 0), KeyOrder::end);
        let rest = self.pieces.iter().enumerate().skip(pieces);
        let rest = rest.filter(move |(_, piece)| may_have(piece));
        let rest = rest.flat_map(move |(index, piece)| {
            decode(piece.before(point, if index == pieces { bytes } else { 0 }))
        });
        sorted.chain(rest)
    }

    /// Sorts places of modifications by their keys; gives by how many bytes the memory grew.
    pub(crate) fn order_keys(&mut self) -> usize {
        let before = self.order.as_ref().map_or(0, |order| order.memory_bytes());
        let order = self.order.get_or_insert_default();
        order.extend(&self.pieces);
        order.memory_bytes().saturating_sub(before)
    }

    /// The key at which a reader of few rows may end its view: `most` pending modifications of the range, or more, have lower keys.
    pub(crate) fn cut(&self, range: (&[u8], Option<&[u8]>), most: usize) -> Option<&[u8]> {
        self.order.as_deref()?.cut(Pieces::of(&self.pieces), range, most)
    }

    /// What came before a read point of keys from one on and before another, or to the last; of each key in the order in which it came.
    pub(crate) fn between<'k>(
        &self,
        point: PointNumber,
        (from, to): (&'k [u8], Option<&'k [u8]>),
    ) -> impl Iterator<Item = Modification<'_>> + use<'_, 'k> {
        let all = Pieces::of(&self.pieces);
        let order = self.order.as_deref();
        let sorted = order.into_iter().flat_map(move |order| order.between(all, (from, to)));
        let is_between =
            move |one: &Modification<'_>| one.key >= from && to.is_none_or(|to| one.key < to);
        self.with_rest(order, sorted, point, |_| true).filter(is_between)
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;
    use std::ops::Bound;

    use rand::Rng;

    use super::*;
    use crate::encoded::decode_before;
    use crate::ids::KindNumber;
    use crate::state::pieces::{FIRST_BYTES, PIECE_MORE_BYTES};

    #[test]
    fn modifications_come_out_in_their_order_and_cost_few_bytes() {
        let mut queue = Queue::default();
        let mut encoded = Vec::new();
        let mut memory = 0;
        for number in 0..1000_u64 {
            encoded.clear();
            let (key, bytes) = (number.to_be_bytes(), [number as u8; 8]);
            encode(&mut encoded, Modification { key: &key, kind: KindNumber(16), bytes: &bytes });
            memory += queue.push(&key, &encoded, PointNumber::default());
        }
        assert_eq!((queue.count(), queue.memory_bytes()), (1000, memory));
        for (number, modification) in queue.iter().enumerate() {
            assert_eq!(modification.key, (number as u64).to_be_bytes());
            assert_eq!(modification.bytes, [number as u8; 8]);
        }
        assert_eq!(queue.iter().count(), 1000);
        for number in [0_u64, 1, 500, 999] {
            let of_key: Vec<_> = queue.of_key(&number.to_be_bytes(), PointNumber::NOW).collect();
            assert_eq!(of_key.len(), 1);
            assert_eq!(of_key[0].bytes, [number as u8; 8]);
        }
        assert_eq!(queue.of_key(&1000_u64.to_be_bytes(), PointNumber::NOW).count(), 0);
        let overhead = (memory - 1000 * 16) / 1000;
        assert!(overhead <= 8, "{overhead} bytes each");
    }

    #[test]
    fn short_queues_take_little_memory() {
        let encoded_of = |bytes: &[u8]| {
            let mut encoded = Vec::new();
            encode(&mut encoded, Modification { key: &[1; 8], kind: KindNumber(16), bytes });
            encoded
        };
        let encoded = encoded_of(&[2; 9]);
        let mut queue = Queue::default();
        let (mut memory, mut bytes) = (0, 0);
        for count in 1..200 {
            memory += queue.push(&[1; 8], &encoded, PointNumber::default());
            bytes += encoded.len();
            assert_eq!((queue.count(), queue.memory_bytes()), (count, memory));
            // As much as it holds, or a piece more, and what pieces take beside.
            let spare = FIRST_BYTES.max(bytes).min(PIECE_BYTES);
            assert!(memory <= bytes + spare + PIECE_MORE_BYTES * queue.pieces.len(), "{count}");
        }
        // A modification that is longer than a piece has one for itself.
        let mut queue = Queue::default();
        let long = encoded_of(&[3; 3000]);
        for one in [&encoded, &long, &encoded] {
            queue.push(&[1; 8], one, PointNumber::default());
        }
        let lengths: Vec<_> = queue.iter().map(|one| one.bytes.len()).collect();
        assert_eq!((lengths, queue.pieces.len()), (vec![9, 3000, 9], 3));
    }

    /// Read points begin and end while modifications come; each sees those that came before it began.
    #[test]
    fn read_points_see_what_came_before_them_and_cost_little() {
        let mut rng = moirai_runtime::seeded(1, "marks");
        for _ in 0..50 {
            let (mut queue, mut memory, mut newest) = (Queue::default(), 0, PointNumber::default());
            // Those that have not ended, with how many modifications each sees.
            let mut live: BTreeMap<PointNumber, usize> = BTreeMap::new();
            for number in 0..2000_u32 {
                let mut encoded = Vec::new();
                let (key, bytes) =
                    (rng.random_range(0..20_u16).to_be_bytes(), number.to_be_bytes());
                let modification = Modification { key: &key, kind: KindNumber(16), bytes: &bytes };
                encode(&mut encoded, modification);
                let after = live.last_key_value().map_or(PointNumber::default(), |(last, _)| *last);
                memory += queue.push_among(&key, &encoded, after, |first, second| {
                    let between = (Bound::Excluded(first), Bound::Included(second));
                    second > newest || live.range(between).next().is_some()
                });
                if rng.random_bool(0.5) {
                    newest.0 += 1;
                    live.insert(newest, queue.count());
                }
                if live.len() > 4 {
                    let ended = *live.keys().nth(rng.random_range(0..live.len())).unwrap();
                    live.remove(&ended);
                }
                if queue.is_to_order() {
                    memory += queue.order_keys();
                }
            }
            assert_eq!(queue.memory_bytes(), memory);
            // A piece for each read point took 1,100 bytes for each modification.
            assert!(memory < 2000 * 50, "{memory}");
            for (point, seen) in live {
                let numbers = |modifications: Vec<Modification<'_>>| -> Vec<u32> {
                    let number =
                        |one: &Modification<'_>| one.bytes.try_into().map(u32::from_be_bytes);
                    let mut numbers: Vec<u32> =
                        modifications.iter().filter_map(|one| number(one).ok()).collect();
                    numbers.sort_unstable();
                    numbers
                };
                let all: Vec<u32> = (0..seen as u32).collect();
                assert_eq!(numbers(queue.before(point).collect()), all);
                assert_eq!(numbers(queue.between(point, (&[], None)).collect()), all);
                assert_eq!(numbers(queue.copied().before(point).collect()), all);
            }
        }
    }

    #[test]
    fn a_history_shows_each_read_point_what_came_before_it() {
        let mut queue = Queue::default();
        // Of two keys in turn, two modifications after each of six read points.
        for number in 0..12_u64 {
            let mut encoded = Vec::new();
            let key = [(number % 2) as u8];
            let bytes = [number as u8];
            encode(&mut encoded, Modification { key: &key, kind: KindNumber(16), bytes: &bytes });
            queue.push(&key, &encoded, PointNumber(number / 2));
        }
        let live = [PointNumber(2), PointNumber(3), PointNumber(5)];
        let history = queue.history(&live);
        let mut bytes = Vec::new();
        for key in [0, 1] {
            history.iter().filter(|one| one.key == [key]).for_each(|one| encode(&mut bytes, one));
        }
        for point in live {
            let mut of_history: Vec<u8> =
                decode_before(&bytes, point).flat_map(|one| one.bytes.to_vec()).collect();
            of_history.sort_unstable();
            let of_queue: Vec<u8> =
                queue.before(point).flat_map(|one| one.bytes.to_vec()).collect();
            assert_eq!(of_history, of_queue);
            assert_eq!(of_queue.len() as u64, 2 * point.0);
        }
        assert!(queue.history(&[]).is_empty());
    }

    /// A queue of random keys, sorted now and then, beside a list.
    #[test]
    fn ranges_of_a_queue_are_those_of_a_list() {
        let mut rng = moirai_runtime::seeded(1, "key order");
        for _ in 0..20 {
            let (mut queue, mut list, mut grown) = (Queue::default(), Vec::new(), 0);
            for number in 0..3000_u32 {
                let key = rng.random_range(0..400_u16).to_be_bytes();
                let after = PointNumber(u64::from(number / 7));
                // Some are longer than a piece.
                let length = if rng.random_bool(0.01) { 1500 } else { 40 };
                let mut bytes = number.to_be_bytes().to_vec();
                bytes.resize(length, 0);
                let mut encoded = Vec::new();
                let kind = KindNumber(16);
                encode(&mut encoded, Modification { key: &key, kind, bytes: &bytes });
                grown += queue.push(&key, &encoded, after);
                list.push((key, after, bytes));
                if queue.is_to_order() && rng.random_bool(0.05) {
                    grown += queue.order_keys();
                }
                if rng.random_bool(0.02) {
                    let (from, to) = (rng.random_range(0..400_u16), rng.random_range(0..500_u16));
                    let (from, to) = (from.to_be_bytes(), (to < 400).then_some(to.to_be_bytes()));
                    let point = PointNumber(rng.random_range(0..450));
                    let to = to.as_ref().map(|to| &to[..]);
                    let mut found: Vec<(Vec<u8>, Vec<u8>)> = queue
                        .between(point, (&from, to))
                        .map(|one| (one.key.to_vec(), one.bytes.to_vec()))
                        .collect();
                    found.sort_by(|one, other| one.0.cmp(&other.0));
                    let is_wanted = |(key, after, _): &&([u8; 2], PointNumber, Vec<u8>)| {
                        key[..] >= from[..] && to.is_none_or(|to| &key[..] < to) && *after < point
                    };
                    let wanted = list.iter().filter(is_wanted);
                    let mut wanted: Vec<(Vec<u8>, Vec<u8>)> =
                        wanted.map(|(key, _, bytes)| (key.to_vec(), bytes.clone())).collect();
                    wanted.sort_by(|one, other| one.0.cmp(&other.0));
                    assert_eq!(found, wanted);
                }
            }
            for key in 0..400_u16 {
                let key = key.to_be_bytes();
                let point = PointNumber(rng.random_range(0..450));
                let found = queue.of_key(&key, point).map(|one| one.bytes.to_vec());
                let wanted = list.iter().filter(|(one, after, _)| *one == key && *after < point);
                assert!(found.eq(wanted.map(|(_, _, bytes)| bytes.clone())));
            }
            assert_eq!(queue.memory_bytes(), grown);
            let forgotten = queue.forget_order();
            assert_eq!(queue.memory_bytes(), grown - forgotten);
        }
    }
}
