//! The pieces of a checkpoint: extents that hold a sequence of bytes.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use moirai_extents::{Extent, Extents, tree_bytes};
use moirai_storage::{Device, IoBuf};
use moirai_units::{BlockCount, BlockRange, ByteCount, Lbn};

use crate::codec::{Taker, is_sum, put_number};
use crate::error::{Error, Result};
use crate::state::directory::Stored;

/// Device blocks of a piece at most.
pub(crate) const PIECE_BLOCKS: BlockCount = BlockCount(1 << 9);

/// Where a piece lies.
#[derive(Clone, Copy, Debug)]
pub(crate) struct PiecePlace {
    first: Lbn,
    /// Where its copy begins; block 0 when there is none.
    copy: Lbn,
    pub(crate) length: ByteCount,
    checksum: u32,
}

/// A piece, and the extents that it lies in.
#[derive(Debug)]
pub(crate) struct Piece {
    pub(crate) place: PiecePlace,
    pub(crate) extents: Vec<Extent>,
    /// Whether one of its copies was found to be damaged: it is written anew.
    pub(crate) is_damaged: bool,
}

/// What the last checkpoint consists of.
#[derive(Debug, Default)]
pub(crate) struct Kept {
    /// The pieces that pages lie in, by where they begin in the sequence.
    pub(crate) pieces: BTreeMap<u64, Piece>,
    /// Where the sequence ends.
    pub(crate) end: u64,
    /// The extents of the index and of its root.
    pub(crate) index: Vec<Extent>,
}

impl PiecePlace {
    pub(crate) fn encode(&self, out: &mut Vec<u8>) {
        put_number(out, self.first.0);
        put_number(out, self.copy.0);
        put_number(out, self.length.0);
        out.extend_from_slice(&self.checksum.to_le_bytes());
    }

    pub(crate) fn take(taker: &mut Taker<'_>) -> Option<PiecePlace> {
        let (first, copy) = (Lbn(taker.number()?), Lbn(taker.number()?));
        let length = ByteCount(taker.number()?);
        let checksum = taker.le32()?;
        let is_piece = length.0 > 0 && length <= PIECE_BLOCKS.bytes();
        is_piece.then_some(PiecePlace { first, copy, length, checksum })
    }

    fn range(&self, first: Lbn) -> BlockRange {
        BlockRange::new(first, BlockCount::holding(self.length))
    }

    pub(crate) fn blocks(&self) -> BlockRange {
        self.range(self.first)
    }

    pub(crate) fn copies(&self) -> impl Iterator<Item = BlockRange> + use<> {
        let copy = Some(self.range(self.copy)).filter(|copy| copy.first != Lbn(0));
        std::iter::once(self.blocks()).chain(copy)
    }

    /// Its bytes, when these blocks hold it.
    pub(crate) fn content(&self, read: &[u8]) -> Option<Vec<u8>> {
        let content = read.get(..self.length.0 as usize)?;
        is_sum(self.checksum, crc32c::crc32c(content)).then(|| content.to_vec())
    }

    /// The piece, whose blocks are taken out of what is free.
    pub(crate) fn taken(self, extents: &Arc<Extents>) -> Option<Piece> {
        let take = |copy: BlockRange| extents.take_this(copy.first, copy.count);
        let extents = self.copies().map(take).collect::<Option<Vec<_>>>()?;
        Some(Piece { place: self, extents, is_damaged: false })
    }
}

impl Kept {
    /// Device blocks that it takes.
    pub(crate) fn blocks(&self) -> BlockCount {
        self.extents().map(|extent| extent.blocks.count).sum()
    }

    /// Bytes of memory.
    pub(crate) fn memory_bytes(&self) -> usize {
        tree_bytes::<(u64, Piece)>(self.pieces.len()) + self.extents().count() * size_of::<Extent>()
    }

    pub(crate) fn extents(&self) -> impl Iterator<Item = &Extent> {
        self.pieces.values().flat_map(|piece| &piece.extents).chain(&self.index)
    }

    /// Bytes of each piece that lie in a page.
    fn used<'a>(&self, pages: impl Iterator<Item = &'a Stored>) -> BTreeMap<u64, u64> {
        let mut used = BTreeMap::new();
        for page in pages {
            for (begin, piece) in self.around(page) {
                let end = (begin + piece.place.length.0).min(page.end());
                *used.entry(begin).or_default() += end - begin.max(page.at);
            }
        }
        used
    }

    /// The pieces that a page lies in.
    fn around(&self, page: &Stored) -> impl Iterator<Item = (u64, &Piece)> {
        let pieces = self.pieces.range(..page.end()).rev();
        let pieces = pieces.map(|(begin, piece)| (*begin, piece));
        pieces.take_while(|(begin, piece)| begin + piece.place.length.0 > page.at)
    }

    /// The pieces that the next checkpoint does without: pages take less than half of them, or they are not there twice
    /// and whole.
    pub(crate) fn wasted<'a>(&self, pages: impl Iterator<Item = &'a Stored>) -> BTreeSet<u64> {
        let used = self.used(pages);
        let is_wasted = |begin: &u64, piece: &Piece| {
            let used = used.get(begin).copied().unwrap_or(0);
            2 * used < piece.place.length.0 || piece.extents.len() < 2 || piece.is_damaged
        };
        let wasted = self.pieces.iter().filter(|(begin, piece)| is_wasted(begin, piece));
        wasted.map(|(begin, _)| *begin).collect()
    }

    /// Whether a page lies in one of these pieces.
    pub(crate) fn is_among(&self, page: &Stored, pieces: &BTreeSet<u64>) -> bool {
        self.around(page).any(|(begin, _)| pieces.contains(&begin))
    }
}

/// Writes a sequence of bytes into free extents, piece by piece.
pub(crate) struct PieceWriter<'a> {
    device: &'a dyn Device,
    extents: &'a Arc<Extents>,
    /// Free blocks that copies leave.
    reserve: BlockCount,
    /// What is not written yet.
    pub(crate) bytes: Vec<u8>,
    pub(crate) pieces: Vec<Piece>,
}

impl<'a> PieceWriter<'a> {
    pub(crate) fn new(
        device: &'a dyn Device,
        extents: &'a Arc<Extents>,
        reserve: BlockCount,
    ) -> PieceWriter<'a> {
        PieceWriter { device, extents, reserve, bytes: Vec::new(), pieces: Vec::new() }
    }

    /// Writes to an extent, and to another where there is space.
    async fn write_both(&self, extent: Extent, bytes: &[u8]) -> Result<Vec<Extent>> {
        let copy = self.extents.take(extent.blocks.count, self.reserve);
        let extents: Vec<Extent> = std::iter::once(extent).chain(copy).collect();
        for extent in &extents {
            self.device.write(extent.first(), IoBuf::holding(bytes)).await?;
        }
        Ok(extents)
    }

    /// Writes whole pieces, as far as there are bytes for them.
    pub(crate) async fn write_whole(&mut self) -> Result<()> {
        self.write(PIECE_BLOCKS.bytes().0 as usize).await
    }

    /// Writes what is left, and gives all pieces.
    pub(crate) async fn finish(mut self) -> Result<Vec<Piece>> {
        self.write(1).await?;
        Ok(self.pieces)
    }

    /// Writes pieces while there are at least so many bytes.
    async fn write(&mut self, at_least: usize) -> Result<()> {
        let mut written = 0;
        while self.bytes.len() - written >= at_least {
            let left = self.bytes.get(written..).unwrap_or_default();
            let count = BlockCount::holding(ByteCount(left.len() as u64)).min(PIECE_BLOCKS);
            let extent = self.extents.take_part(count, BlockCount(1), BlockCount::ZERO);
            let extent = extent.ok_or_else(|| Error::full(self.device))?;
            let room = (extent.blocks.count.min(PIECE_BLOCKS).bytes().0 as usize).min(left.len());
            let (bytes, _) = left.split_at_checked(room).unwrap_or_default();
            let extents = self.write_both(extent, bytes).await?;
            let mut firsts = extents.iter().map(Extent::first);
            let place = PiecePlace {
                first: firsts.next().unwrap_or(Lbn(0)),
                copy: firsts.next().unwrap_or(Lbn(0)),
                length: ByteCount(bytes.len() as u64),
                checksum: crc32c::crc32c(bytes),
            };
            written += room;
            self.pieces.push(Piece { place, extents, is_damaged: false });
        }
        self.bytes.drain(..written);
        Ok(())
    }

    /// Writes bytes as one run, and as another where there is space.
    pub(crate) async fn write_run(&self, bytes: &[u8]) -> Result<Vec<Extent>> {
        let count = BlockCount::holding(ByteCount(bytes.len() as u64));
        let extent = self.extents.take(count, BlockCount::ZERO);
        let extent = extent.ok_or_else(|| Error::full(self.device))?;
        self.write_both(extent, bytes).await
    }
}

#[cfg(test)]
mod tests {
    use moirai_extents::Ensembles;

    use super::*;

    /// Pieces of these lengths one behind the other, each with so many copies.
    fn kept(pieces: &[(u64, usize)]) -> Kept {
        let data = BlockRange::new(Lbn(8), BlockCount(1 << 12));
        let all = Extents::new(data, BlockCount(1), Ensembles::none());
        let mut kept = Kept::default();
        for (length, copies) in pieces {
            let length = ByteCount(*length);
            let place = PiecePlace { first: Lbn(8), copy: Lbn(9), length, checksum: 0 };
            let extents = (0..*copies).map(|_| all.take(BlockCount(1), BlockCount(0)).unwrap());
            let piece = Piece { place, extents: extents.collect(), is_damaged: false };
            kept.pieces.insert(kept.end, piece);
            kept.end += length.0;
        }
        kept
    }

    #[test]
    fn pieces_of_which_less_than_half_is_in_use_are_wasted() {
        let mut kept = kept(&[(100, 2), (100, 2), (100, 1), (100, 2)]);
        let page = |at, length| Stored { at, length };
        // The second page lies in two pieces: 20 bytes in the first one, 50 in the second.
        let pages = [page(0, 30), page(80, 70), page(200, 100), page(300, 49)];
        let wasted = kept.wasted(pages.iter());
        assert_eq!(wasted, BTreeSet::from([200, 300]));
        let is_among = |kept: &Kept, page| kept.is_among(&page, &wasted);
        assert_eq!(pages.map(|page| is_among(&kept, page)), [false, false, true, true]);
        // The page in both of them is written again when one of them is wasted.
        kept.pieces.get_mut(&100).unwrap().is_damaged = true;
        let wasted = kept.wasted(pages.iter());
        assert_eq!(wasted, BTreeSet::from([100, 200, 300]));
        assert!(kept.is_among(&pages[1], &wasted) && !kept.is_among(&pages[0], &wasted));
        // Nothing lies where a piece was given up.
        kept.pieces.remove(&0);
        assert_eq!(kept.wasted([page(100, 60)].iter()), BTreeSet::from([100, 200, 300]));
    }
}
