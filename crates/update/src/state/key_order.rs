//! The modifications of a queue in the order of their keys, for those who read a range of it, and those of a key of a very long one.
//!
//! A queue has its modifications in the order in which they came. Whoever reads a few rows of a page would decode all that is pending for
//! the page's partition, and whoever reads one key would look at the filter of each piece. So the first one to read a long queue sorts
//! places of some modifications, and later ones go on with the next. What a sweep has sealed stays as it is then.

use crate::state::pieces::{PIECES_MAX, Piece, Pieces};

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

    /// Bytes of the modifications that are sorted.
    pub(crate) fn bytes(&self) -> usize {
        self.bytes
    }

    /// Up to where the queue is sorted: so many pieces, and so many bytes of the next.
    pub(crate) fn end(&self) -> (usize, usize) {
        (self.pieces, self.bytes_of_piece)
    }

    /// Sorts what has come, or some of it.
    pub(crate) fn extend(&mut self, pieces: &[Piece]) {
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
    pub(crate) fn cut<'a>(
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
    pub(crate) fn of_key(
        &self,
        all: Pieces<'_>,
        key: &[u8],
    ) -> impl Iterator<Item = u32> + use<'_> {
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
    pub(crate) fn between(
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
