//! Pieces of a queue: encoded modifications, one after the other, with a filter of their keys.

use crate::codec::Taker;
use crate::encoded::{decode_encoded, take};
use crate::filter::KeyHash;
use crate::ids::PointNumber;
use crate::kind::Modification;

/// Bytes of memory that a queue takes at a time, once it is longer than that.
pub(crate) const PIECE_BYTES: usize = 1 << PLACE_BITS;
/// Bytes of the first piece at first. It grows by doubling: among a hundred thousand partitions most queues hold a few
/// modifications when memory is full.
pub(crate) const FIRST_BYTES: usize = 128;
/// Each modification begins in the first so many bytes of its piece, so a number of 32 bits says where it lies.
const PLACE_BITS: u32 = 10;
/// Pieces of a queue that are sorted at once, at most.
pub(crate) const PIECES_MAX: usize = 1 << (u32::BITS - PLACE_BITS);
/// What a piece takes beside: its place in a list that grows by doubling, and what the allocator needs.
pub(crate) const PIECE_MORE_BYTES: usize = size_of::<Piece>() * 3 / 2 + 16;

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
    pub(crate) fn come_after(
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

    /// A piece of one modification. The first piece of a queue is short.
    pub(crate) fn of(key: &[u8], encoded: &[u8], after: PointNumber, is_first: bool) -> Piece {
        let least = if is_first { FIRST_BYTES } else { PIECE_BYTES };
        let bytes = Vec::with_capacity(least.max(encoded.len()));
        let mut piece = Piece { bytes, after, ..Piece::default() };
        piece.put(key, encoded);
        piece
    }

    /// Adds a modification if there is room for it, also by growing where that is allowed, and `marked` agrees. Tells whether it is in,
    /// and by how many bytes the memory grew.
    pub(crate) fn push(
        &mut self,
        key: &[u8],
        encoded: &[u8],
        may_grow: bool,
        marked: impl FnOnce(&mut Piece) -> Option<usize>,
    ) -> (bool, usize) {
        let (length, before) = (self.bytes.len() + encoded.len(), self.bytes.capacity());
        if may_grow && before < length && length <= PIECE_BYTES {
            let grown = length.next_power_of_two();
            self.bytes.reserve_exact(grown - self.bytes.len());
        }
        let grown = self.bytes.capacity() - before;
        if self.bytes.len() < PIECE_BYTES
            && length <= self.bytes.capacity()
            && let Some(marked) = marked(self)
        {
            self.put(key, encoded);
            return (true, grown + marked);
        }
        (false, grown)
    }

    fn put(&mut self, key: &[u8], encoded: &[u8]) {
        self.bytes.extend_from_slice(encoded);
        KeyHash::of(key).put_into(&mut self.filter);
    }

    /// Bytes of memory.
    pub(crate) fn memory_bytes(&self) -> usize {
        self.bytes.capacity() + PIECE_MORE_BYTES + self.marks().count() * MARK_BYTES
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
