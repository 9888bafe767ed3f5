//! The fragments of a checkpoint: extents that hold a sequence of bytes.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use moirai_extents::{Extent, Extents, tree_bytes};
use moirai_storage::{Device, IoBuf};
use moirai_units::{BlockCount, BlockRange, ByteCount, Lbn};

use crate::codec::{Taker, is_sum, put_number};
use crate::error::{Error, Result};
use crate::state::directory::Stored;

/// Device blocks of a fragment at most.
const FRAGMENT_BLOCKS: BlockCount = BlockCount(1 << 9);
/// A fragment of fewer bytes is short. More short ones than so many are joined: opening reads them all.
const SHORT_BYTES: u64 = 32 << 10;
const SHORT_MAX: usize = 32;

/// Where a fragment lies.
#[derive(Clone, Copy, Debug)]
pub(crate) struct FragmentPlace {
    first: Lbn,
    /// Where its copy begins; block 0 when there is none.
    copy: Lbn,
    pub(crate) length: ByteCount,
    checksum: u32,
}

/// A fragment, and the extents that it and its copy lie in.
#[derive(Debug)]
pub(crate) struct Fragment {
    pub(crate) place: FragmentPlace,
    pub(crate) extents: Vec<Extent>,
    /// Whether one of its copies was found to be damaged: it is written anew.
    pub(crate) is_damaged: bool,
}

/// What the last checkpoint consists of.
#[derive(Debug, Default)]
pub(crate) struct Kept {
    /// The fragments that pages lie in, by where they begin in the sequence.
    pub(crate) fragments: BTreeMap<u64, Fragment>,
    /// Where the sequence ends.
    pub(crate) end: u64,
    /// The extents of the index and of its root.
    pub(crate) index: Vec<Extent>,
}

impl FragmentPlace {
    pub(crate) fn encode(&self, out: &mut Vec<u8>) {
        put_number(out, self.first.0);
        put_number(out, self.copy.0);
        put_number(out, self.length.0);
        out.extend_from_slice(&self.checksum.to_le_bytes());
    }

    pub(crate) fn take(taker: &mut Taker<'_>) -> Option<FragmentPlace> {
        let (first, copy) = (Lbn(taker.number()?), Lbn(taker.number()?));
        let length = ByteCount(taker.number()?);
        let checksum = taker.le32()?;
        let is_fragment = length.0 > 0 && length <= FRAGMENT_BLOCKS.bytes();
        is_fragment.then_some(FragmentPlace { first, copy, length, checksum })
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

    /// The fragment, whose blocks are taken out of what is free.
    pub(crate) fn taken(self, extents: &Arc<Extents>) -> Option<Fragment> {
        let take = |copy: BlockRange| extents.take_this(copy.first, copy.count);
        let extents = self.copies().map(take).collect::<Option<Vec<_>>>()?;
        Some(Fragment { place: self, extents, is_damaged: false })
    }
}

impl Fragment {
    /// Bytes of one of its extents.
    fn bytes(&self) -> u64 {
        self.extents.first().map_or(0, |extent| extent.blocks.count.bytes().0)
    }
}

impl Kept {
    /// Device blocks that it takes.
    pub(crate) fn blocks(&self) -> BlockCount {
        self.extents().map(|extent| extent.blocks.count).sum()
    }

    /// Bytes of memory.
    pub(crate) fn memory_bytes(&self) -> usize {
        tree_bytes::<(u64, Fragment)>(self.fragments.len())
            + self.extents().count() * size_of::<Extent>()
    }

    pub(crate) fn extents(&self) -> impl Iterator<Item = &Extent> {
        self.fragments.values().flat_map(|fragment| &fragment.extents).chain(&self.index)
    }

    /// Bytes of each fragment that lie in a page.
    fn used<'a>(&self, pages: impl Iterator<Item = &'a Stored>) -> BTreeMap<u64, u64> {
        let mut used = BTreeMap::new();
        for page in pages {
            for (begin, fragment) in self.around(page) {
                let end = (begin + fragment.place.length.0).min(page.end());
                *used.entry(begin).or_default() += end - begin.max(page.at);
            }
        }
        used
    }

    /// The fragments that a page lies in.
    fn around(&self, page: &Stored) -> impl Iterator<Item = (u64, &Fragment)> {
        let fragments = self.fragments.range(..page.end()).rev();
        let fragments = fragments.map(|(begin, fragment)| (*begin, fragment));
        fragments.take_while(|(begin, fragment)| begin + fragment.place.length.0 > page.at)
    }

    /// The fragments that the next checkpoint does without: pages take less than half of their extents, they are not there
    /// twice and whole, or many are short.
    pub(crate) fn wasted<'a>(&self, pages: impl Iterator<Item = &'a Stored>) -> BTreeSet<u64> {
        let used = self.used(pages);
        let is_wasted = |begin: &u64, fragment: &Fragment| {
            let used = used.get(begin).copied().unwrap_or(0);
            2 * used < fragment.bytes() || fragment.extents.len() < 2 || fragment.is_damaged
        };
        let is_short = |fragment: &Fragment| fragment.place.length.0 < SHORT_BYTES;
        let (wasted, left): (Vec<_>, Vec<_>) =
            self.fragments.iter().partition(|(begin, fragment)| is_wasted(begin, fragment));
        let short =
            left.into_iter().filter(|(_, fragment)| is_short(fragment)).map(|(begin, _)| *begin);
        let short: Vec<u64> = short.collect();
        let joined = short.iter().filter(|_| short.len() > SHORT_MAX);
        wasted.into_iter().map(|(begin, _)| begin).chain(joined).copied().collect()
    }

    /// Whether a page lies in one of these fragments.
    pub(crate) fn is_among(&self, page: &Stored, fragments: &BTreeSet<u64>) -> bool {
        self.around(page).any(|(begin, _)| fragments.contains(&begin))
    }
}

/// Writes a sequence of bytes into free extents, fragment by fragment.
pub(crate) struct FragmentWriter<'a> {
    device: &'a dyn Device,
    extents: &'a Arc<Extents>,
    /// Free blocks that copies leave.
    reserve: BlockCount,
    /// What is not written yet.
    pub(crate) bytes: Vec<u8>,
    fragments: Vec<Fragment>,
}

impl<'a> FragmentWriter<'a> {
    pub(crate) fn new(
        device: &'a dyn Device,
        extents: &'a Arc<Extents>,
        reserve: BlockCount,
    ) -> FragmentWriter<'a> {
        FragmentWriter { device, extents, reserve, bytes: Vec::new(), fragments: Vec::new() }
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

    /// Writes whole fragments, as far as there are bytes for them.
    pub(crate) async fn write_whole(&mut self) -> Result<()> {
        self.write(FRAGMENT_BLOCKS.bytes().0 as usize).await
    }

    /// Writes what is left, and gives all fragments.
    pub(crate) async fn finish(mut self) -> Result<Vec<Fragment>> {
        self.write(1).await?;
        Ok(self.fragments)
    }

    /// Writes fragments while there are at least so many bytes.
    async fn write(&mut self, at_least: usize) -> Result<()> {
        let mut written = 0;
        while self.bytes.len() - written >= at_least {
            let left = self.bytes.get(written..).unwrap_or_default();
            let count = BlockCount::holding(ByteCount(left.len() as u64)).min(FRAGMENT_BLOCKS);
            let extent = self.extents.take_part(count, BlockCount(1), BlockCount::ZERO);
            let extent = extent.ok_or_else(|| Error::full(self.device))?;
            let room =
                (extent.blocks.count.min(FRAGMENT_BLOCKS).bytes().0 as usize).min(left.len());
            let (bytes, _) = left.split_at_checked(room).unwrap_or_default();
            let extents = self.write_both(extent, bytes).await?;
            let mut firsts = extents.iter().map(Extent::first);
            let place = FragmentPlace {
                first: firsts.next().unwrap_or(Lbn(0)),
                copy: firsts.next().unwrap_or(Lbn(0)),
                length: ByteCount(bytes.len() as u64),
                checksum: crc32c::crc32c(bytes),
            };
            written += room;
            self.fragments.push(Fragment { place, extents, is_damaged: false });
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
    use moirai_units::BLOCK_BYTES;

    use super::*;

    /// Fragments one after the other: of each its length in blocks, and the number of its copies.
    fn kept(fragments: &[(u64, usize)]) -> Kept {
        let data = BlockRange::new(Lbn(8), BlockCount(1 << 16));
        let all = Extents::new(data, BlockCount(1), Ensembles::none());
        let mut kept = Kept::default();
        for (blocks, copies) in fragments {
            let blocks = BlockCount(*blocks);
            let length = blocks.bytes();
            let place = FragmentPlace { first: Lbn(8), copy: Lbn(9), length, checksum: 0 };
            let extents = (0..*copies).map(|_| all.take(blocks, BlockCount(0)).unwrap());
            let fragment = Fragment { place, extents: extents.collect(), is_damaged: false };
            kept.fragments.insert(kept.end, fragment);
            kept.end += length.0;
        }
        kept
    }

    /// A page from one block to another.
    fn page(at: u64, length: u64) -> Stored {
        Stored { at: at * BLOCK_BYTES, length: length * BLOCK_BYTES }
    }

    /// The first blocks of those that are wasted.
    fn wasted(kept: &Kept, pages: &[Stored]) -> Vec<u64> {
        kept.wasted(pages.iter()).into_iter().map(|begin| begin / BLOCK_BYTES).collect()
    }

    #[test]
    fn fragments_of_which_less_than_half_is_in_use_are_wasted() {
        let mut kept = kept(&[(100, 2), (100, 2), (100, 1), (100, 2)]);
        // The second page lies in two fragments: 20 blocks in the first one, 50 in the second.
        let pages = [page(0, 30), page(80, 70), page(200, 100), page(300, 49)];
        assert_eq!(wasted(&kept, &pages), [200, 300]);
        let all = kept.wasted(pages.iter());
        assert_eq!(pages.map(|page| kept.is_among(&page, &all)), [false, false, true, true]);
        // The page in both of them is written again when one of them is wasted.
        kept.fragments.get_mut(&page(100, 0).at).unwrap().is_damaged = true;
        assert_eq!(wasted(&kept, &pages), [100, 200, 300]);
        let all = kept.wasted(pages.iter());
        assert!(kept.is_among(&pages[1], &all) && !kept.is_among(&pages[0], &all));
        // Nothing lies where a fragment was given up.
        kept.fragments.remove(&0);
        assert_eq!(wasted(&kept, &[page(100, 60)]), [100, 200, 300]);
    }

    /// And a few long ones beside them are left.
    #[test]
    fn many_short_fragments_are_joined() {
        for (short, is_wasted) in [(SHORT_MAX, false), (SHORT_MAX + 1, true)] {
            let short: Vec<(u64, usize)> = vec![(4, 2); short];
            let kept = kept(&[&[(100, 2), (100, 2)], &short[..]].concat());
            let pages = kept
                .fragments
                .iter()
                .map(|(at, fragment)| Stored { at: *at, length: fragment.place.length.0 });
            let wasted = wasted(&kept, &pages.collect::<Vec<_>>());
            assert_eq!(wasted.len(), if is_wasted { short.len() } else { 0 });
            assert!(wasted.iter().all(|begin| *begin >= 200));
        }
    }
}
