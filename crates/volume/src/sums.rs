//! Checksums of a device's blocks, kept apart from them: what the device changed by itself, or wrote to
//! another place, is found when it is read. See `docs/formats/volume-sums.md`.
//!
//! The sums that a write changes stay in memory until the device is flushed. A crash before leaves blocks
//! whose sums do not fit; the journal holds these blocks, and its replay writes them with their sums.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use futures::future::{BoxFuture, join, join_all};
use moirai_runtime::spawn;
use moirai_storage::{
    Completions, Device, Ensemble, EquivalenceClass, Error, Flushed, Inquiry, IoBuf, Op, Request,
    Result,
};
use moirai_units::{BLOCK_BYTES, BlockCount, BlockRange, Lbn};
use parking_lot::Mutex;

const BLOCK: usize = BLOCK_BYTES as usize;
const HEADER_BYTES: usize = 8;
/// Sums in a block of them, each of which is whole or not by itself.
const BLOCK_SUMS: usize = (BLOCK - HEADER_BYTES) / 4;
/// Blocks of sums that are read and written together.
pub(crate) const PAGE_BLOCKS: BlockCount = BlockCount(8);
const PAGE_SUMS: usize = BLOCK_SUMS * PAGE_BLOCKS.0 as usize;
/// Pages of sums in memory, for each device: 16 MiB, for 2 GiB of data.
const CACHED: usize = 4 << 10;
/// Pages of sums are read and written under a lock that is shared by so many others.
const SHARDS: usize = 64;

/// Blocks that the sums of so many blocks take.
pub(crate) fn sums_blocks(data: BlockCount) -> BlockCount {
    BlockCount(data.0.div_ceil(PAGE_SUMS as u64) * PAGE_BLOCKS.0)
}

/// How many blocks have sums in so many blocks of these.
pub(crate) fn blocks_covered(sums: BlockCount) -> BlockCount {
    BlockCount(sums.0 / PAGE_BLOCKS.0 * PAGE_SUMS as u64)
}

/// A part of a device whose blocks have sums.
///
/// It takes no discard: the sums of blocks would have to be durably void before the blocks change.
pub(crate) struct Summed {
    inquiry: Inquiry,
    /// The part that holds the blocks.
    data: Arc<dyn Device>,
    table: Arc<Table>,
}

/// The sums, in pages.
struct Table {
    device: Arc<dyn Device>,
    area: BlockRange,
    /// The sum of a block of zeros: sums are kept with this taken off, so that zeros are right on a
    /// device that holds nothing else.
    of_zeros: u32,
    cache: Mutex<Cache>,
    shards: Vec<tokio::sync::Mutex<()>>,
}

#[derive(Default)]
struct Cache {
    pages: BTreeMap<u64, Page>,
    /// Where to look next for one to evict.
    hand: u64,
}

struct Page {
    sums: Box<[u32; PAGE_SUMS]>,
    is_dirty: bool,
    /// Whether it is being written: it is not durable before that is done.
    is_written: bool,
    /// Whether it was used since it was last looked at for eviction.
    is_used: bool,
}

impl Summed {
    /// `data` with the sums of its blocks in `area` of `device`.
    pub(crate) fn new(data: Arc<dyn Device>, device: Arc<dyn Device>, area: BlockRange) -> Summed {
        let table = Table {
            device,
            area,
            of_zeros: crc32c::crc32c(&[0; BLOCK]),
            cache: Mutex::default(),
            shards: (0..SHARDS).map(|_| tokio::sync::Mutex::default()).collect(),
        };
        let inquiry = Inquiry { discard: None, ..data.inquiry().clone() };
        Summed { inquiry, data, table: Arc::new(table) }
    }

    /// Has reads of a block fail until it is written again: nobody knows what it should hold.
    pub(crate) async fn mark_lost(&self, lbn: Lbn) -> Result<()> {
        self.table.put(lbn.0 / PAGE_SUMS as u64, (lbn.0 % PAGE_SUMS as u64) as usize, &[LOST]).await
    }

    /// Compares the sums of what was read with those that are kept, and keeps those of what was written.
    async fn settle(&self, op: Op, sums: &[PageSums]) -> Result<()> {
        for PageSums { page, place, sums } in sums {
            match op {
                Op::Write => self.table.put(*page, *place, sums).await?,
                Op::Read => {
                    if let Some(wrong) = self.table.first_wrong(*page, *place, sums).await? {
                        let blocks = BlockRange::new(wrong, BlockCount(1));
                        let device = self.data.inquiry().name.clone();
                        return Err(Error::Corrupt { device, blocks });
                    }
                }
            }
        }
        Ok(())
    }
}

/// Sums of consecutive blocks that are in one page, from `place` on.
struct PageSums {
    page: u64,
    place: usize,
    sums: Vec<u32>,
}

impl Table {
    fn sum(&self, block: &[u8]) -> u32 {
        match crc32c::crc32c(block) ^ self.of_zeros {
            LOST => LOST + 1,
            sum => sum,
        }
    }

    /// The sums of blocks in `data`, which begin at `first`.
    fn sums(&self, first: Lbn, data: &[IoBuf]) -> Vec<PageSums> {
        let mut parts: Vec<PageSums> = Vec::new();
        let each = data.iter().flat_map(|buffer| buffer.chunks_exact(BLOCK));
        for (lbn, block) in (first.0..).zip(each) {
            let (page, place) = (lbn / PAGE_SUMS as u64, (lbn % PAGE_SUMS as u64) as usize);
            let sum = self.sum(block);
            match parts.last_mut() {
                Some(last) if last.page == page => last.sums.push(sum),
                _ => parts.push(PageSums { page, place, sums: vec![sum] }),
            }
        }
        parts
    }

    /// The first block whose sum is not the one that is kept.
    async fn first_wrong(
        self: &Arc<Self>,
        page: u64,
        place: usize,
        sums: &[u32],
    ) -> Result<Option<Lbn>> {
        let wrong = self.with(page, |page| {
            let kept = page.sums.get(place..).unwrap_or_default();
            sums.iter().zip(kept).position(|(found, kept)| found != kept)
        });
        let lbn = |wrong| Lbn(page * PAGE_SUMS as u64 + (place + wrong) as u64);
        Ok(wrong.await?.map(lbn))
    }

    /// Brings pages into memory that are not there.
    async fn prepare(self: &Arc<Self>, pages: BTreeSet<u64>) -> Result<()> {
        let loaded = join_all(pages.into_iter().map(|page| self.with(page, |_| ()))).await;
        loaded.into_iter().collect()
    }

    /// Sets sums of a page, from `place` on.
    async fn put(self: &Arc<Self>, page: u64, place: usize, new: &[u32]) -> Result<()> {
        self.with(page, |page| {
            if let Some(sums) = page.sums.get_mut(place..place + new.len()) {
                sums.copy_from_slice(new);
                page.is_dirty = true;
            }
        })
        .await
    }

    /// Gives a page to `f`.
    async fn with<T>(self: &Arc<Self>, page: u64, mut f: impl FnMut(&mut Page) -> T) -> Result<T> {
        loop {
            if let Some(cached) = self.cache.lock().pages.get_mut(&page) {
                cached.is_used = true;
                return Ok(f(cached));
            }
            self.make_room().await?;
            self.load(page).await?;
        }
    }

    fn place(&self, page: u64) -> BlockRange {
        BlockRange::new(self.area.first + BlockCount(page * PAGE_BLOCKS.0), PAGE_BLOCKS)
    }

    /// The right to read or write a page.
    async fn shard(&self, page: u64) -> Option<tokio::sync::MutexGuard<'_, ()>> {
        let shard = self.shards.get((page % SHARDS as u64) as usize)?;
        Some(shard.lock().await)
    }

    async fn load(&self, page: u64) -> Result<()> {
        let _shard = self.shard(page).await;
        if self.cache.lock().pages.contains_key(&page) {
            return Ok(());
        }
        // Where sums are lost no block is right, until it is written again from the other devices.
        let mut sums = Box::new([LOST; PAGE_SUMS]);
        let place = self.place(page);
        let whole = self.device.read(place).await.ok();
        let indices = page * PAGE_BLOCKS.0..;
        for (index, sums) in indices.zip(sums.chunks_exact_mut(BLOCK_SUMS)) {
            let within = index % PAGE_BLOCKS.0;
            if let Some(whole) = &whole {
                let block = whole.chunks_exact(BLOCK).nth(within as usize);
                decode(index, block.unwrap_or_default(), sums);
                continue;
            }
            let block = BlockRange::new(place.first + BlockCount(within), BlockCount(1));
            if let Ok(block) = self.device.read(block).await {
                decode(index, &block, sums);
            }
        }
        self.cache
            .lock()
            .pages
            .insert(page, Page { sums, is_dirty: false, is_written: false, is_used: true });
        Ok(())
    }

    /// Drops pages while there are too many: those that were not used since the hand passed them.
    async fn make_room(self: &Arc<Self>) -> Result<()> {
        loop {
            let Some(page) = self.cache.lock().victim() else { return Ok(()) };
            self.write_out(page).await?;
            let _shard = self.shard(page).await;
            let mut cache = self.cache.lock();
            if cache.pages.get(&page).is_some_and(|one| !one.is_dirty) {
                cache.pages.remove(&page);
            }
        }
    }

    /// Writes a page, when it was changed; once begun it is finished.
    async fn write_out(self: &Arc<Self>, page: u64) -> Result<()> {
        let table = Arc::clone(self);
        spawn(async move { table.write_page(page).await }).await
    }

    async fn write_page(&self, page: u64) -> Result<()> {
        let _shard = self.shard(page).await;
        let mut buffer = IoBuf::zeroed(PAGE_BLOCKS);
        if let Some(cached) = self.cache.lock().pages.get_mut(&page).filter(|page| page.is_dirty) {
            cached.is_dirty = false;
            cached.is_written = true;
            let sums = cached.sums.chunks_exact(BLOCK_SUMS);
            let blocks = (page * PAGE_BLOCKS.0..).zip(buffer.chunks_exact_mut(BLOCK));
            for ((index, block), sums) in blocks.zip(sums) {
                encode(index, sums, block);
            }
        } else {
            return Ok(());
        }
        let written = self.device.write(self.place(page).first, buffer).await;
        if let Some(cached) = self.cache.lock().pages.get_mut(&page) {
            cached.is_written = false;
            cached.is_dirty |= written.is_err();
        }
        written
    }

    /// Writes all sums that were changed, and waits for those that somebody else writes.
    async fn write_all(self: &Arc<Self>) -> Result<()> {
        let dirty = {
            let cache = self.cache.lock();
            let dirty = cache.pages.iter().filter(|(_, page)| page.is_dirty || page.is_written);
            dirty.map(|(page, _)| *page).collect::<Vec<u64>>()
        };
        let written = join_all(dirty.into_iter().map(|page| self.write_out(page))).await;
        written.into_iter().collect()
    }
}

impl Cache {
    /// A page to do without, when there are too many.
    fn victim(&mut self) -> Option<u64> {
        if self.pages.len() < CACHED {
            return None;
        }
        // Twice round: the first time may find all of them used.
        for _ in 0..2 * self.pages.len() {
            let next = self.pages.range_mut(self.hand..).next();
            match next {
                None => self.hand = 0,
                Some((page, cached)) => {
                    self.hand = page + 1;
                    if !std::mem::take(&mut cached.is_used) {
                        return Some(*page);
                    }
                }
            }
        }
        self.pages.keys().next().copied()
    }
}

/// A sum that no block has.
const LOST: u32 = 0xdead_c0de;

/// Writes sums to their block, which is zero.
fn encode(index: u64, sums: &[u32], block: &mut [u8]) {
    let (header, content) = block.split_at_mut(HEADER_BYTES);
    for (place, sum) in content.chunks_exact_mut(4).zip(sums) {
        place.copy_from_slice(&sum.to_le_bytes());
    }
    // All zeros is what a device that holds nothing has.
    if let (true, Some(place)) = (sums.iter().any(|sum| *sum != 0), header.get_mut(..4)) {
        place.copy_from_slice(&crc32c::crc32c_append(index as u32, content).to_le_bytes());
    }
}

/// Reads the sums of a block of them; leaves them as they are when it is damaged, or of another place.
fn decode(index: u64, block: &[u8], sums: &mut [u32]) {
    let Some((header, content)) = block.split_at_checked(HEADER_BYTES) else { return };
    let checksum = crc32c::crc32c_append(index as u32, content).to_le_bytes();
    let is_zero = block.iter().all(|byte| *byte == 0);
    if !is_zero && header.get(..4) != Some(&checksum) {
        return;
    }
    for (sum, bytes) in sums.iter_mut().zip(content.chunks_exact(4)) {
        if let Ok(bytes) = bytes.try_into() {
            *sum = u32::from_le_bytes(bytes);
        }
    }
}

impl std::fmt::Debug for Summed {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Summed").field("data", &self.data).finish_non_exhaustive()
    }
}

impl Device for Summed {
    fn inquiry(&self) -> &Inquiry {
        &self.inquiry
    }

    fn ensemble(&self, lbn: Lbn) -> Result<Ensemble> {
        self.data.ensemble(lbn)
    }

    fn parallel_ensemble(&self, lbn: Lbn) -> Result<BlockRange> {
        self.data.parallel_ensemble(lbn)
    }

    fn equivalent(&self, lbn: Lbn) -> Result<EquivalenceClass> {
        self.data.equivalent(lbn)
    }

    fn submit(&self, batch: Vec<Request>) -> BoxFuture<'_, Completions> {
        Box::pin(async move {
            let mut written = Vec::with_capacity(batch.len());
            let mut pages = BTreeSet::new();
            for request in &batch {
                let sums = match request.op {
                    Op::Write => self.table.sums(request.blocks.first, &request.data),
                    Op::Read => Vec::new(),
                };
                // What the device refuses has no sums.
                if !request.data.is_empty() && request.check(self.inquiry()).is_ok() {
                    let (first, end) = (request.blocks.first.0, request.blocks.end().0);
                    pages.extend(first / PAGE_SUMS as u64..end.div_ceil(PAGE_SUMS as u64));
                }
                written.push((request.op, request.blocks.first, sums));
            }
            let (served, prepared) = join(self.data.submit(batch), self.table.prepare(pages)).await;
            let problem = prepared.err().map(|error| error.to_string());
            let mut results = Vec::with_capacity(served.len());
            for (result, (op, first, sums)) in served.into_iter().zip(written) {
                let settled = match (result, &problem) {
                    (Ok(_), Some(problem)) => Err(Error::Together { problem: problem.clone() }),
                    (Ok(completion), None) => {
                        let sums = match op {
                            Op::Write => sums,
                            Op::Read => self.table.sums(first, &completion.data),
                        };
                        self.settle(op, &sums).await.map(|()| completion)
                    }
                    (Err(error), _) => Err(error),
                };
                results.push(settled);
            }
            results
        })
    }

    fn flush(&self) -> Flushed<'_> {
        Box::pin(async move {
            self.table.write_all().await?;
            self.data.flush().await
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const GONE: [u32; BLOCK_SUMS] = [LOST; BLOCK_SUMS];

    fn decoded(index: u64, block: &[u8]) -> [u32; BLOCK_SUMS] {
        let mut sums = GONE;
        decode(index, block, &mut sums);
        sums
    }

    proptest! {
        #[test]
        fn blocks_of_sums_round_trip_and_a_changed_bit_is_none(
            sums in prop::collection::vec(any::<u32>(), BLOCK_SUMS),
            index in 0u64..1 << 31,
            bit in 0usize..BLOCK * 8,
        ) {
            let mut block = [0; BLOCK];
            encode(index, &sums, &mut block);
            prop_assert_eq!(&decoded(index, &block)[..], &sums);
            prop_assert_eq!(decoded(index + 1, &block), GONE);
            // Four bytes of the header are not used.
            prop_assume!(!(32..64).contains(&bit));
            block[bit / 8] ^= 1 << (bit % 8);
            prop_assert_eq!(decoded(index, &block), GONE);
        }
    }

    #[test]
    fn what_was_never_written_is_zeros() {
        let mut block = [0; BLOCK];
        assert_eq!(decoded(5, &block), [0; BLOCK_SUMS]);
        encode(5, &[0; BLOCK_SUMS], &mut block);
        assert_eq!(block, [0; BLOCK]);
    }
}
