//! Taking a checkpoint.

use std::collections::BTreeSet;
use std::sync::atomic::Ordering;

use moirai_extents::Extent;
use moirai_units::{BlockCount, BlockRange, Lbn};

use crate::data::checkpoint::format::{
    encode_fragments, encode_header, encode_page, encode_root, encode_space, encode_stored,
};
use crate::data::checkpoint::fragments::{Fragment, FragmentWriter, Kept};
use crate::data::superblock::{Checkpoint, Superblock};
use crate::error::Result;
use crate::ids::{Seq, SpaceId};
use crate::log::segments::Start;
use crate::shared::Shared;
use crate::state::directory::{Page, Stored};

/// Pages that are looked at while nobody else uses the state.
const AT_ONCE: usize = 1 << 9;
/// Partitions that are encoded while nobody else uses it.
const ENCODED_AT_ONCE: usize = 1 << 5;

/// What a checkpoint is of.
struct Moment {
    /// Groups before this one are in it.
    next: Seq,
    /// From where on the log is needed.
    start: Start,
    /// The spaces that there are. One that is made meanwhile is in the log.
    spaces: Vec<SpaceId>,
    /// What the index begins with.
    header: Vec<u8>,
}

impl Shared {
    /// Takes a checkpoint, and frees the log before the oldest group that a queue needs. Only the sweeper may call this, amid no
    /// sweep: then no partition changes meanwhile. A space that is made meanwhile is left out; the log has it.
    pub(crate) async fn take_checkpoint(&self) -> Result<()> {
        let mut held = self.superblock.lock().await;
        let (superblock, kept) = &mut *held;
        let begin = kept.end;
        let taken = self.write_checkpoint(superblock, kept).await;
        if taken.is_err() {
            self.forget_written(begin);
        }
        taken
    }

    async fn write_checkpoint(&self, superblock: &mut Superblock, kept: &mut Kept) -> Result<()> {
        let Some(Moment { next, start, spaces, header }) = self.moment()? else { return Ok(()) };
        // No group may be in the checkpoint in part, and be lost with the log.
        self.flushed_before(next).await?;
        let reserve = self.reserve();
        let wasted = self.wasted(&spaces, kept);
        let mut writer = FragmentWriter::new(&*self.data, &self.extents, reserve);
        let mut begin = kept.end;
        for space in &spaces {
            let mut from = 0;
            while let Some(next) = self.encode_next(*space, from, kept, &wasted, &mut writer.bytes)
            {
                from = next;
                writer.write_whole().await?;
            }
        }
        let fragments = writer.finish().await?;
        let length = |fragment: &Fragment| fragment.place.length.0;
        let mut written: u64 = fragments.iter().map(length).sum();
        let at = |fragment: &Fragment| {
            let at = begin;
            begin += length(fragment);
            at
        };
        let begins: Vec<u64> = fragments.iter().map(at).collect();
        let fragments: Vec<(u64, Fragment)> = begins.into_iter().zip(fragments).collect();
        let mut writer = FragmentWriter::new(&*self.data, &self.extents, reserve);
        writer.bytes = header;
        let left = kept.fragments.iter().filter(|(begin, _)| !wasted.contains(begin));
        let left = left.map(|(begin, fragment)| (*begin, fragment));
        let all = left.chain(fragments.iter().map(|(begin, fragment)| (*begin, fragment)));
        encode_fragments(&mut writer.bytes, &all.collect::<Vec<_>>());
        for space in &spaces {
            self.encode_index(*space, &mut writer).await?;
        }
        let index = writer.finish().await?;
        let root = encode_root(&index);
        written += index.iter().map(length).sum::<u64>() + root.len() as u64;
        let writer = FragmentWriter::new(&*self.data, &self.extents, reserve);
        let mut roots = writer.write_run(&root).await?;
        let place = |extent: Option<&Extent>| extent.map_or(Lbn(0), Extent::first);
        let count = roots.first().map_or(BlockCount::ZERO, |root| root.blocks.count);
        let checkpoint = Checkpoint {
            next,
            frame: self.log.durable_frame(),
            start,
            root: BlockRange::new(place(roots.first()), count),
            root_copy: place(roots.get(1)),
        };
        roots.extend(index.into_iter().flat_map(|fragment| fragment.extents));
        self.data.flush().await?;
        let mut changed = superblock.clone();
        changed.generation += 1;
        changed.checkpoint = checkpoint;
        if let Err(error) = changed.write(&*self.data).await {
            // One of the copies may name these extents: nobody gets them.
            let new = fragments.into_iter().flat_map(|(_, fragment)| fragment.extents).chain(roots);
            new.for_each(|extent| _ = extent.leave());
            return Err(error);
        }
        *superblock = changed;
        kept.fragments.retain(|begin, _| !wasted.contains(begin));
        kept.fragments.extend(fragments);
        kept.index = roots;
        self.counts.checkpoint_bytes.add(written);
        self.checkpoint_blocks.store(kept.blocks().0, Ordering::Relaxed);
        self.kept_bytes.store(kept.memory_bytes(), Ordering::Relaxed);
        // The log does not refer to these any more: the checkpoint has what they say.
        let _needless = std::mem::take(&mut self.state().elsewhere_extents);
        self.state().is_ahead = false;
        self.log.free_before(start);
        self.room.notify_waiters();
        Ok(())
    }

    /// What the next checkpoint is of; `None` when it would free nothing.
    fn moment(&self) -> Result<Option<Moment>> {
        let state = self.state();
        // A state that lacks a group must not take the place of the log.
        self.check_running()?;
        let Some(start) = self.log.start_of(state.oldest()) else { return Ok(None) };
        let mut header = Vec::new();
        encode_header(&mut header, &state);
        let spaces = state.spaces.keys().copied().collect();
        Ok(Some(Moment { next: state.outlined(), start, spaces, header }))
    }

    /// The fragments that the next checkpoint does without.
    fn wasted(&self, spaces: &[SpaceId], kept: &Kept) -> BTreeSet<u64> {
        // Sweeps and programs need the space that fragments in part use take, and copies. A checkpoint that is written whole
        // gives it back.
        if self.extents.free() < self.reserve() + self.checkpoint_reserve() {
            return kept.fragments.keys().copied().collect();
        }
        let mut stored: Vec<Stored> = Vec::new();
        for space in spaces {
            let mut from = 0;
            while let Some(next) = self.look_at_pages(*space, from, &mut |pages| {
                stored.extend(pages.iter().filter_map(Page::stored));
                pages.len()
            }) {
                from = next;
            }
        }
        kept.wasted(stored.iter())
    }

    /// Has `look` look at some pages of a space from the one with number `from` on; it tells how many it has done. Gives where to go
    /// on; `None` when there are no more.
    fn look_at_pages(
        &self,
        space: SpaceId,
        from: usize,
        look: &mut dyn FnMut(&[Page]) -> usize,
    ) -> Option<usize> {
        let state = self.state();
        let pages = state.spaces.get(&space)?.pages().get(from..)?;
        let pages = pages.get(..AT_ONCE).unwrap_or(pages);
        (!pages.is_empty()).then(|| from + look(pages))
    }

    /// Appends the next page of a space that the last checkpoint does not have, or only in these fragments. Gives where to go
    /// on; `None` when there are no more.
    fn encode_next(
        &self,
        space: SpaceId,
        from: usize,
        kept: &mut Kept,
        wasted: &BTreeSet<u64>,
        out: &mut Vec<u8>,
    ) -> Option<usize> {
        let is_to_write =
            |page: &Page| page.stored().is_none_or(|stored| kept.is_among(&stored, wasted));
        let mut page = Vec::new();
        let next = self.look_at_pages(space, from, &mut |pages| {
            let found = pages.iter().position(is_to_write);
            let found_page = found.and_then(|found| pages.get(found));
            page = found_page.map_or(Vec::new(), |page| page.entries().to_vec());
            found.map_or(pages.len(), |found| found + 1)
        })?;
        if page.is_empty() {
            return Some(next);
        }
        let before = out.len();
        for some in page.chunks(ENCODED_AT_ONCE) {
            encode_page(out, &self.state(), some);
        }
        let stored = Stored { at: kept.end, length: (out.len() - before) as u64 };
        kept.end = stored.end();
        self.state().spaces.get_mut(&space)?.set_stored(next - 1, Some(stored));
        Some(next)
    }

    /// Appends where the pages of a space lie.
    async fn encode_index(&self, space: SpaceId, writer: &mut FragmentWriter<'_>) -> Result<()> {
        {
            let state = self.state();
            let Some(directory) = state.spaces.get(&space) else { return Ok(()) };
            encode_space(&mut writer.bytes, space, &directory.spec, directory.pages().len());
        }
        let (mut from, mut are_all_stored) = (0, true);
        while let Some(next) = self.look_at_pages(space, from, &mut |pages| {
            are_all_stored &= pages.iter().all(|page| page.stored().is_some());
            let stored = pages.iter().filter_map(Page::stored);
            stored.for_each(|stored| encode_stored(&mut writer.bytes, stored));
            pages.len()
        }) {
            from = next;
            writer.write_whole().await?;
        }
        match are_all_stored {
            true => Ok(()),
            false => Err(self.stopped_by("a partition changed while a checkpoint was taken")),
        }
    }

    /// Has the next checkpoint write the pages again that a checkpoint wrote which failed: from `begin` on.
    fn forget_written(&self, begin: u64) {
        let mut state = self.state();
        for directory in state.spaces.values_mut() {
            directory.keep_stored(|stored| stored.at < begin);
        }
    }
}
