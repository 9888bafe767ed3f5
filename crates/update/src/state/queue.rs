//! Pending modifications of a partition, in memory, in the order in which they came.

use crate::codec::{Taker, put_bytes};
use crate::filter::KeyHash;
use crate::ids::{AFTER_POINT, KindNumber, PUT_LONG, PointNumber};
use crate::kind::Modification;
use crate::state::key_order::KeyOrder;
use crate::units::UnitSet;

/// Bytes of memory that a queue takes at a time, once it is longer than that.
pub(crate) const PIECE_BYTES: usize = 1 << PLACE_BITS;
/// Bytes of the first piece at first. It grows by doubling: among a hundred thousand partitions most queues hold a few
/// modifications when memory is full.
const FIRST_BYTES: usize = 128;
/// Each modification begins in the first so many bytes of its piece, so a number of 32 bits says where it lies.
const PLACE_BITS: u32 = 10;
/// Pieces of a queue that are sorted at once, at most.
pub(crate) const PIECES_MAX: usize = 1 << (u32::BITS - PLACE_BITS);
/// What a piece takes beside: its place in a list that grows by doubling, and what the allocator needs.
const PIECE_MORE_BYTES: usize = size_of::<Piece>() * 3 / 2 + 16;

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

/// Some of the modifications.
#[derive(Debug, Default)]
pub(crate) struct Piece {
    bytes: Vec<u8>,
    /// Of their keys.
    filter: [u8; PIECE_BYTES / 32],
    /// The newest read point that had not ended when they came, up to the first mark.
    after: PointNumber,
    /// The last mark.
    mark: Option<Box<Mark>>,
}

/// What follows in a piece came after a newer read point than what comes before.
#[derive(Debug)]
struct Mark {
    /// Behind so many bytes.
    at: usize,
    after: PointNumber,
    /// The mark before it.
    before: Option<Box<Mark>>,
}

/// Bytes of memory of a mark, with what the allocator needs.
const MARK_BYTES: usize = size_of::<Mark>() + 8;

impl Piece {
    /// Its marks, the last one first.
    fn marks(&self) -> impl Iterator<Item = &Mark> {
        std::iter::successors(self.mark.as_deref(), |mark| mark.before.as_deref())
    }

    /// The newest read point that had not ended when the modification behind so many bytes came.
    pub(crate) fn after(&self, at: usize) -> PointNumber {
        self.marks().find(|mark| mark.at <= at).map_or(self.after, |mark| mark.after)
    }

    /// The bytes of those that came before a read point, behind so many bytes.
    pub(crate) fn before(&self, point: PointNumber, from: usize) -> &[u8] {
        let later = self.marks().take_while(|mark| mark.after >= point).last();
        let end = match self.after < point {
            true => later.map_or(self.bytes.len(), |mark| mark.at),
            false => 0,
        };
        self.bytes.get(from..end).unwrap_or_default()
    }

    /// Its modifications, each with its bytes and the newest read point that had not ended when it came.
    pub(crate) fn iter_after(
        &self,
    ) -> impl Iterator<Item = (Modification<'_>, &[u8], PointNumber)> {
        let mut at = 0;
        decode_encoded(&self.bytes).map(move |(modification, encoded)| {
            let after = self.after(at);
            at += encoded.len();
            (modification, encoded, after)
        })
    }

    /// Notes that what comes now came after a read point. `None` if it cannot: read points see what comes that do not see what is
    /// there. Else by how many bytes the memory grew.
    fn come_after(
        &mut self,
        after: PointNumber,
        separates: impl Fn(PointNumber, PointNumber) -> bool,
    ) -> Option<usize> {
        let last = self.mark.as_ref().map_or(self.after, |mark| mark.after);
        if after == last || !separates(last.min(after), last.max(after)) {
            return Some(0);
        }
        if after < last {
            return None;
        }
        let at = self.bytes.len();
        if let Some(mark) = &mut self.mark {
            let before = mark.before.as_ref().map_or(self.after, |mark| mark.after);
            if !separates(before, mark.after) {
                // The read points for which it was made have ended.
                (mark.at, mark.after) = (at, after);
                return Some(0);
            }
        }
        self.mark = Some(Box::new(Mark { at, after, before: self.mark.take() }));
        Some(MARK_BYTES)
    }

    /// Whether it may have modifications of a key.
    pub(crate) fn may_have(&self, hash: KeyHash) -> bool {
        hash.may_be_in(&self.filter)
    }

    /// Bytes of its modifications.
    pub(crate) fn len(&self) -> usize {
        self.bytes.len()
    }

    /// What is behind so many bytes.
    pub(crate) fn bytes_from(&self, bytes: usize) -> &[u8] {
        self.bytes.get(bytes..).unwrap_or_default()
    }

    /// The places of its modifications behind so many bytes, where it is the piece of this number.
    pub(crate) fn places_from(&self, index: usize, bytes: usize) -> impl Iterator<Item = u32> {
        let mut taker = Taker(self.bytes_from(bytes));
        std::iter::from_fn(move || {
            let at = (self.bytes.len() - taker.0.len()) as u32;
            take(&mut taker)?;
            Some((index as u32) << PLACE_BITS | at)
        })
    }

    fn push(&mut self, key: &[u8], encoded: &[u8]) {
        self.bytes.extend_from_slice(encoded);
        KeyHash::of(key).put_into(&mut self.filter);
    }

    /// Bytes of memory.
    fn memory_bytes(&self) -> usize {
        self.bytes.capacity() + PIECE_MORE_BYTES + self.marks().count() * MARK_BYTES
    }
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

    /// All of its pieces.
    pub(crate) fn pieces(&self) -> &[Piece] {
        &self.pieces
    }

    pub(crate) fn order(&self) -> Option<&KeyOrder> {
        self.order.as_deref()
    }

    pub(crate) fn take_order(&mut self) -> Option<Box<KeyOrder>> {
        self.order.take()
    }

    pub(crate) fn put_order(&mut self, order: Option<Box<KeyOrder>>) {
        self.order = order;
    }

    /// Forgets what is sorted by key; gives the bytes of memory that this frees.
    pub(crate) fn forget_order(&mut self) -> usize {
        self.order.take().map_or(0, |order| order.memory_bytes())
    }

    /// The last byte, next to which the next modification goes.
    pub(crate) fn end_byte(&self) -> u8 {
        let last = self.pieces.last().and_then(|piece| piece.bytes.last());
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
        if let Some(last) = self.pieces.last_mut() {
            let (length, before) = (last.bytes.len() + encoded.len(), last.bytes.capacity());
            if is_first && before < length && length <= PIECE_BYTES {
                let grown = length.next_power_of_two();
                last.bytes.reserve_exact(grown - last.bytes.len());
            }
            let grown = last.bytes.capacity() - before;
            if last.bytes.len() < PIECE_BYTES
                && length <= last.bytes.capacity()
                && let Some(marked) = last.come_after(after, separates)
            {
                last.push(key, encoded);
                return grown + marked;
            }
            return grown + self.push_apart(key, encoded, after);
        }
        self.push_apart(key, encoded, after)
    }

    /// Adds it in a piece of its own; gives by how many bytes the memory grew.
    fn push_apart(&mut self, key: &[u8], encoded: &[u8], after: PointNumber) -> usize {
        let least = if self.pieces.is_empty() { FIRST_BYTES } else { PIECE_BYTES };
        let bytes = Vec::with_capacity(least.max(encoded.len()));
        let mut piece = Piece { bytes, after, ..Piece::default() };
        piece.push(key, encoded);
        let memory = piece.memory_bytes();
        // Most queues are short.
        if self.pieces.is_empty() {
            self.pieces.reserve_exact(1);
        }
        self.pieces.push(piece);
        memory
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
        self.pieces.chunks(pieces_max).map(Pieces)
    }

    /// The modifications in pieces, the oldest first.
    pub(crate) fn into_pieces(self) -> std::vec::IntoIter<Piece> {
        self.pieces.into_iter()
    }
}

/// Some pieces of a queue.
#[derive(Clone, Copy)]
pub(crate) struct Pieces<'a>(&'a [Piece]);

impl<'a> Pieces<'a> {
    pub(crate) fn of(pieces: &'a [Piece]) -> Pieces<'a> {
        Pieces(pieces)
    }

    /// The piece that has the modification at a place.
    pub(crate) fn piece(&self, place: u32) -> Option<&'a Piece> {
        self.0.get((place >> PLACE_BITS) as usize)
    }

    /// Calls `each` with the place and the key of every modification, in the order in which they came.
    pub(crate) fn for_each(&self, mut each: impl FnMut(u32, &'a [u8])) {
        for (index, piece) in (0_u32..).zip(self.0) {
            let mut taker = Taker(&piece.bytes);
            while !taker.is_empty() {
                let at = (piece.bytes.len() - taker.0.len()) as u32;
                let Some(modification) = take(&mut taker) else { break };
                each(index << PLACE_BITS | at, modification.key);
            }
        }
    }

    /// The modification at a place, if it came before a read point.
    pub(crate) fn at_before(&self, place: u32, point: PointNumber) -> Option<Modification<'a>> {
        let after = self.piece(place)?.after(place as usize % PIECE_BYTES);
        if after < point { self.at(place) } else { None }
    }

    /// The modification at a place.
    pub(crate) fn at(&self, place: u32) -> Option<Modification<'a>> {
        let piece = self.piece(place)?;
        let at = place as usize % PIECE_BYTES;
        take(&mut Taker(piece.bytes.get(at..)?))
    }
}

/// Appends a modification as queues and chunks have it.
pub(crate) fn encode(out: &mut Vec<u8>, modification: Modification<'_>) {
    out.push(modification.kind.0);
    put_bytes(out, modification.key);
    put_bytes(out, modification.bytes);
}

/// The modifications that [`encode`] wrote; ends where something else is.
pub(crate) fn decode(bytes: &[u8]) -> impl Iterator<Item = Modification<'_>> {
    decode_encoded(bytes).map(|(modification, _)| modification)
}

/// Those of a history, or of any chunk, that came before a read point.
pub(crate) fn decode_before(
    bytes: &[u8],
    point: PointNumber,
) -> impl Iterator<Item = Modification<'_>> {
    let mut later = None;
    decode(bytes).filter(move |one| {
        if one.kind == AFTER_POINT {
            let after = one.bytes.try_into().map_or(0, u64::from_le_bytes);
            if PointNumber(after) >= point {
                later = Some(one.key);
            }
            return false;
        }
        later != Some(one.key)
    })
}

fn decode_encoded(bytes: &[u8]) -> impl Iterator<Item = (Modification<'_>, &[u8])> {
    let mut taker = Taker(bytes);
    std::iter::from_fn(move || {
        let before = taker.0;
        let modification = take(&mut taker)?;
        let encoded = before.get(..before.len() - taker.0.len())?;
        Some((modification, encoded))
    })
}

/// The modification at the front.
#[inline]
pub(crate) fn take<'a>(taker: &mut Taker<'a>) -> Option<Modification<'a>> {
    let kind = KindNumber(taker.byte()?);
    Some(Modification { key: taker.bytes()?, kind, bytes: taker.bytes()? })
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;
    use std::ops::Bound;

    use rand::Rng;

    use super::*;

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
}
