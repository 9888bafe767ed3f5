//! Modifications in the order of their keys, from a queue and from chunks, in little memory.
//!
//! A queue is sorted by where its modifications lie: eight bytes for each, less than half of what a short one takes in the
//! queue. Chunks are sorted already. All of them are merged as they are read, so only those of one key, or of one block,
//! are at hand as [`Modification`]s, of 40 bytes each.

use std::cmp::Ordering;
use std::collections::BinaryHeap;
use std::collections::binary_heap::PeekMut;

use bytes::Bytes;

use crate::codec::{Taker, prefix_of};
use crate::encoded::take;
use crate::kind::Modification;
use crate::state::pieces::{PIECES_MAX, Pieces};
use crate::state::queue::Queue;

/// Modifications in the order of their keys; those of one key in the order in which they came.
pub(crate) struct Sorted<'a> {
    /// The next of each source.
    heads: BinaryHeap<Head<'a>>,
    sources: Vec<Source<'a>>,
}

/// Modifications that are sorted, and older than those of later sources.
enum Source<'a> {
    Chunk(Taker<'a>),
    Queue(Order<'a>),
    Records(Box<dyn Iterator<Item = Modification<'a>> + Send + 'a>),
}

/// Pieces of a queue, and where in them the modifications lie, in the order of their keys.
struct Order<'a> {
    pieces: Pieces<'a>,
    places: std::vec::IntoIter<u64>,
}

struct Head<'a> {
    prefix: u64,
    modification: Modification<'a>,
    source: usize,
}

impl Head<'_> {
    /// The first one is the greatest.
    fn order(&self, other: &Head<'_>) -> Ordering {
        let keys = || self.modification.key.cmp(other.modification.key);
        let order = self.prefix.cmp(&other.prefix).then_with(keys);
        order.then(self.source.cmp(&other.source)).reverse()
    }
}

impl PartialEq for Head<'_> {
    fn eq(&self, other: &Self) -> bool {
        self.order(other).is_eq()
    }
}

impl Eq for Head<'_> {}

impl PartialOrd for Head<'_> {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Head<'_> {
    fn cmp(&self, other: &Self) -> Ordering {
        self.order(other)
    }
}

impl<'a> Order<'a> {
    fn of(pieces: Pieces<'a>) -> Order<'a> {
        let (skipped, count) = measure(pieces);
        let prefix = |key: &[u8]| prefix_of(key.get(skipped..).unwrap_or_default()) >> 32;
        let mut places: Vec<u64> = Vec::with_capacity(count);
        pieces.for_each(|place, key| places.push(prefix(key) << 32 | u64::from(place)));
        places.sort_unstable();
        let key = |place: &u64| pieces.at(*place as u32).map_or(&[][..], |one| one.key);
        // Those with the same prefix are in the order in which they came.
        for same in places.chunk_by_mut(|one, next| one >> 32 == next >> 32) {
            if same.len() > 1 {
                same.sort_by(|one, other| key(one).cmp(key(other)));
            }
        }
        Order { pieces, places: places.into_iter() }
    }
}

/// With how many bytes all keys begin, after which they differ, and how many modifications there are.
fn measure(pieces: Pieces<'_>) -> (usize, usize) {
    let mut common: Option<&[u8]> = None;
    let mut count = 0;
    pieces.for_each(|_, key| {
        count += 1;
        let before = common.unwrap_or(key);
        let same = before.iter().zip(key).take_while(|(one, other)| one == other).count();
        common = before.get(..same);
    });
    (common.map_or(0, <[u8]>::len), count)
}

impl<'a> Source<'a> {
    fn next(&mut self) -> Option<Modification<'a>> {
        match self {
            Source::Chunk(taker) => take(taker),
            Source::Queue(Order { pieces, places }) => pieces.at(places.next()? as u32),
            Source::Records(records) => records.next(),
        }
    }
}

impl<'a> Sorted<'a> {
    /// What chunks hold, the oldest first, and after them a queue.
    pub(crate) fn new(chunks: &'a [Bytes], queue: &'a Queue) -> Sorted<'a> {
        let chunks = chunks.iter().map(|chunk| Source::Chunk(Taker(chunk)));
        let parts = queue.parts(PIECES_MAX).map(|pieces| Source::Queue(Order::of(pieces)));
        let mut sources: Vec<Source<'a>> = chunks.chain(parts).collect();
        let heads = sources.iter_mut().enumerate().filter_map(|(source, of)| {
            let modification = of.next()?;
            Some(Head { prefix: prefix_of(modification.key), modification, source })
        });
        Sorted { heads: heads.collect(), sources }
    }

    /// The same, and after those of each key what `records` has of it, which is sorted.
    pub(crate) fn then(
        mut self,
        records: impl Iterator<Item = Modification<'a>> + Send + 'a,
    ) -> Sorted<'a> {
        let mut records = Source::Records(Box::new(records));
        let source = self.sources.len();
        self.heads.extend(records.next().map(|modification| Head {
            prefix: prefix_of(modification.key),
            modification,
            source,
        }));
        self.sources.push(records);
        self
    }

    /// The key of the next one.
    pub(crate) fn next_key(&self) -> Option<&'a [u8]> {
        self.heads.peek().map(|head| head.modification.key)
    }

    /// Appends those of the next key to `all`; returns the key.
    pub(crate) fn take_key(&mut self, all: &mut Vec<Modification<'a>>) -> Option<&'a [u8]> {
        let key = self.next_key()?;
        while let Some(next) = self.next_if(|next| next == key) {
            all.push(next);
        }
        Some(key)
    }

    /// The next one, if its key is as `is_wanted` says.
    pub(crate) fn next_if(
        &mut self,
        is_wanted: impl FnOnce(&[u8]) -> bool,
    ) -> Option<Modification<'a>> {
        let mut head = self.heads.peek_mut()?;
        let modification = head.modification;
        if !is_wanted(modification.key) {
            return None;
        }
        match self.sources.get_mut(head.source).and_then(Source::next) {
            Some(next) => (head.prefix, head.modification) = (prefix_of(next.key), next),
            None => drop(PeekMut::pop(head)),
        }
        Some(modification)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::PUT;
    use crate::encoded::encode;
    use crate::ids::PointNumber;
    use crate::kind::Kinds;
    use crate::state::chunk::{Blocks, Chunk};

    fn queue_of(keys: &[Vec<u8>], from: u32) -> Queue {
        let mut queue = Queue::default();
        for (key, number) in keys.iter().zip(from..) {
            let mut encoded = Vec::new();
            let bytes = number.to_be_bytes();
            encode(&mut encoded, Modification { key, kind: PUT, bytes: &bytes });
            queue.push(key, &encoded, PointNumber::default());
        }
        queue
    }

    fn all_of(mut sorted: Sorted<'_>) -> Vec<(Vec<u8>, Vec<u8>)> {
        let mut all = Vec::new();
        while let Some(one) = sorted.next_if(|_| true) {
            all.push((one.key.to_vec(), one.bytes.to_vec()));
        }
        all
    }

    proptest! {
        #[test]
        fn modifications_come_in_the_order_of_their_keys_and_of_their_age(
            begin in prop::collection::vec(any::<u8>(), 0..12),
            ends in prop::collection::vec(prop::collection::vec(0_u8..3, 0..7), 0..300),
        ) {
            let keys: Vec<Vec<u8>> = ends.iter().map(|end| [&begin[..], end].concat()).collect();
            let mut expected: Vec<_> =
                (0_u32..).zip(&keys).map(|(at, key)| (key.clone(), at.to_be_bytes().to_vec())).collect();
            expected.sort();
            let queue = queue_of(&keys, 0);
            prop_assert_eq!(&all_of(Sorted::new(&[], &queue)), &expected);
            // In pieces, as queues of more than four GiB are.
            let parts = queue.parts(2).map(|pieces| Source::Queue(Order::of(pieces)));
            let mut sources: Vec<Source<'_>> = parts.collect();
            let heads = sources.iter_mut().enumerate().filter_map(|(source, of)| {
                let modification = of.next()?;
                Some(Head { prefix: prefix_of(modification.key), modification, source })
            });
            let heads = heads.collect();
            prop_assert_eq!(&all_of(Sorted { heads, sources }), &expected);
            // In two chunks and a queue: of a key, the last put of each alone is there.
            let (first, rest) = keys.split_at(keys.len() / 3);
            let (second, third) = rest.split_at(rest.len() / 2);
            let (one, two) = (first.len() as u32, (first.len() + second.len()) as u32);
            let chunk = |queue: &Queue| Bytes::from(Chunk::of(&[], queue, &Blocks::All(0), &Kinds::new(), &crate::WholeBlocks).1);
            let chunks = [chunk(&queue_of(first, 0)), chunk(&queue_of(second, one))];
            let queue = queue_of(third, two);
            let found = all_of(Sorted::new(&chunks, &queue));
            let is_last = |at: &usize, keys: std::ops::Range<usize>| {
                !keys.contains(at) || expected.iter().rev().any(|(key, number)| {
                    let number = u32::from_be_bytes(number[..].try_into().unwrap()) as usize;
                    keys.contains(&number) && number == *at && !expected.iter().any(|(other, later)| {
                        let later = u32::from_be_bytes(later[..].try_into().unwrap()) as usize;
                        other == key && keys.contains(&later) && later > number
                    })
                })
            };
            let expected: Vec<_> = expected.iter().filter(|(_, number)| {
                let at = u32::from_be_bytes(number[..].try_into().unwrap()) as usize;
                is_last(&at, 0..one as usize) && is_last(&at, one as usize..two as usize)
            }).cloned().collect();
            prop_assert_eq!(&found, &expected);
        }
    }
}
