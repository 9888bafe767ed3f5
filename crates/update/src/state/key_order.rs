//! The modifications of a queue in the order of their keys, for those who read a range of it, and those of a key of a very long one.
//!
//! A queue has its modifications in the order in which they came. Whoever reads a few rows of a page would decode all that is pending for
//! the page's partition, and whoever reads one key would look at the filter of each piece. So the first one to read a long queue sorts
//! places of some modifications, and later ones go on with the next. What a sweep has sealed stays as it is then.

use crate::codec::is_same_key;
use crate::filter::KeyHash;
use crate::ids::PointNumber;
use crate::kind::Modification;
use crate::state::queue::{PIECE_BYTES, PIECES_MAX, Piece, Pieces, Queue, decode};

/// So many bytes of modifications are not worth sorting.
const UNSORTED_BYTES: usize = 2 << 10;
/// Nor are so many for a reader of one key, who looks at the filters of these pieces.
const UNSORTED_BYTES_OF_KEY: usize = 64 * PIECE_BYTES;
/// Places that came last are merged with the others once they are one in so many.
const RECENT_SHARE: usize = 8;
/// Modifications that are sorted at once, with the lock held.
const SORTED_AT_ONCE: usize = 512;

/// Places of a queue's modifications ([`Pieces::at`]) in the order of their keys, and of a key in the order in which they came.
#[derive(Debug, Default)]
pub(crate) struct KeyOrder {
    places: Vec<u32>,
    /// Those of modifications that came after these, so that not all are moved for a few.
    recent: Vec<u32>,
    /// Up to where the queue is sorted: so many pieces, and so many bytes of the next.
    pieces: usize,
    bytes_of_piece: usize,
    /// Bytes of the modifications that are sorted.
    bytes: usize,
}

impl KeyOrder {
    pub(crate) fn memory_bytes(&self) -> usize {
        size_of::<KeyOrder>() + (self.places.capacity() + self.recent.capacity()) * size_of::<u32>()
    }

    /// Sorts what has come, or some of it.
    fn extend(&mut self, pieces: &[Piece]) {
        let all = Pieces::of(pieces);
        let mut new: Vec<u32> = Vec::new();
        while let Some(piece) = pieces.get(self.pieces)
            && new.len() < SORTED_AT_ONCE
            && self.pieces < PIECES_MAX
        {
            new.extend(piece.places_from(self.pieces, self.bytes_of_piece));
            self.bytes += piece.len() - self.bytes_of_piece;
            match self.pieces + 1 < pieces.len() {
                true => (self.pieces, self.bytes_of_piece) = (self.pieces + 1, 0),
                // The last one may grow.
                false => {
                    self.bytes_of_piece = piece.len();
                    break;
                }
            }
        }
        // Of one key the earlier have lower places.
        let mut keys: Vec<(&[u8], u32)> = new.iter().map(|at| (key_at(all, *at), *at)).collect();
        keys.sort_unstable();
        let new: Vec<u32> = keys.into_iter().map(|(_, place)| place).collect();
        merge(all, &mut self.recent, &new);
        if self.recent.len() > self.places.len() / RECENT_SHARE {
            merge(all, &mut self.places, &self.recent);
            self.recent = Vec::new();
        }
    }

    /// The key behind the first `most` modifications or more of a range, where it has more.
    fn cut<'a>(
        &self,
        all: Pieces<'a>,
        (from, to): (&[u8], Option<&[u8]>),
        most: usize,
    ) -> Option<&'a [u8]> {
        let cut = |places: &[u32]| {
            let below = |key: &[u8]| places.partition_point(|place| key_at(all, *place) < key);
            let place = below(from).saturating_add(most);
            let mut key = key_at(all, *places.get(place)?);
            if key <= from {
                let behind = places.partition_point(|place| key_at(all, *place) <= from);
                key = key_at(all, *places.get(behind)?);
            }
            to.is_none_or(|to| key < to).then_some(key)
        };
        cut(&self.places).into_iter().chain(cut(&self.recent)).min()
    }

    /// The places of a key, in the order in which they came.
    fn of_key(&self, all: Pieces<'_>, key: &[u8]) -> impl Iterator<Item = u32> + use<'_> {
        let of = |places: &'_ [u32]| {
            let first = places.partition_point(|place| key_at(all, *place) < key);
            let behind = places.get(first..).unwrap_or_default().iter();
            first..first + behind.take_while(|place| key_at(all, **place) == key).count()
        };
        let of_all = self.places.get(of(&self.places)).unwrap_or_default();
        let of_recent = self.recent.get(of(&self.recent)).unwrap_or_default();
        of_all.iter().chain(of_recent).copied()
    }

    /// The places of keys from one on and before another, or to the last; of each key in the order in which they came.
    fn between(
        &self,
        all: Pieces<'_>,
        (from, to): (&[u8], Option<&[u8]>),
    ) -> impl Iterator<Item = u32> + use<'_> {
        let within = |places: &'_ [u32]| {
            let below = |key: &[u8]| places.partition_point(|place| key_at(all, *place) < key);
            below(from)..to.map_or(places.len(), below)
        };
        let of_all = self.places.get(within(&self.places)).unwrap_or_default();
        let of_recent = self.recent.get(within(&self.recent)).unwrap_or_default();
        of_all.iter().chain(of_recent).copied()
    }
}

/// Puts places among others that come before them where the keys are the same.
fn merge(all: Pieces<'_>, places: &mut Vec<u32>, new: &[u32]) {
    let old = std::mem::take(places);
    places.reserve_exact(old.len() + new.len());
    let mut rest = &old[..];
    // Few keys are compared: those between two new ones move together.
    for place in new {
        let key = key_at(all, *place);
        let (before, behind) = rest.split_at(rest.partition_point(|one| key_at(all, *one) <= key));
        places.extend_from_slice(before);
        places.push(*place);
        rest = behind;
    }
    places.extend_from_slice(rest);
}

fn key_at<'a>(pieces: Pieces<'a>, place: u32) -> &'a [u8] {
    pieces.at(place).map(|one| one.key).unwrap_or_default()
}

impl Queue {
    fn unsorted_bytes(&self) -> usize {
        self.bytes() - self.order().map_or(0, |order| order.bytes)
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
        let all = Pieces::of(self.pieces());
        // Few pieces are looked through faster than they are searched.
        let order = self.order().filter(|order| order.bytes > UNSORTED_BYTES_OF_KEY);
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
        let all = Pieces::of(self.pieces());
        let sorted = sorted.filter_map(move |place| all.at_before(place, point));
        let (pieces, bytes) = order.map_or((0, 0), |order| (order.pieces, order.bytes_of_piece));
        let rest = self.pieces().iter().enumerate().skip(pieces);
        let rest = rest.filter(move |(_, piece)| may_have(piece));
        let rest = rest.flat_map(move |(index, piece)| {
            decode(piece.before(point, if index == pieces { bytes } else { 0 }))
        });
        sorted.chain(rest)
    }

    /// Sorts places of modifications by their keys; gives by how many bytes the memory grew.
    pub(crate) fn order_keys(&mut self) -> usize {
        let mut order = self.take_order();
        let before = order.as_ref().map_or(0, |order| order.memory_bytes());
        let kept = order.get_or_insert_default();
        kept.extend(self.pieces());
        let after = kept.memory_bytes();
        self.put_order(order);
        after.saturating_sub(before)
    }

    /// A key of a range from which on who wants few rows may leave out what is pending: so many modifications or more come before it.
    pub(crate) fn cut(&self, range: (&[u8], Option<&[u8]>), most: usize) -> Option<&[u8]> {
        self.order()?.cut(Pieces::of(self.pieces()), range, most)
    }

    /// What came before a read point of keys from one on and before another, or to the last; of each key in the order in which it came.
    pub(crate) fn between<'k>(
        &self,
        point: PointNumber,
        (from, to): (&'k [u8], Option<&'k [u8]>),
    ) -> impl Iterator<Item = Modification<'_>> + use<'_, 'k> {
        let all = Pieces::of(self.pieces());
        let order = self.order();
        let sorted = order.into_iter().flat_map(move |order| order.between(all, (from, to)));
        let is_between =
            move |one: &Modification<'_>| one.key >= from && to.is_none_or(|to| one.key < to);
        self.with_rest(order, sorted, point, |_| true).filter(is_between)
    }
}

#[cfg(test)]
mod tests {
    use rand::Rng;

    use super::*;
    use crate::ids::KindNumber;
    use crate::state::queue::encode;

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
