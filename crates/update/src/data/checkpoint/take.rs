//! Taking a checkpoint.

use std::collections::BTreeSet;
use std::sync::atomic::Ordering;

use moirai_extents::Extent;
use moirai_units::{BlockCount, BlockRange, Lbn};

use crate::data::checkpoint::format::{
    encode_header, encode_page, encode_pieces, encode_root, encode_space, encode_stored,
};
use crate::data::checkpoint::pieces::{Kept, PieceWriter};
use crate::data::superblock::{Checkpoint, Superblock};
use crate::error::Result;
use crate::ids::{Seq, SpaceId};
use crate::log::segments::Start;
use crate::shared::Shared;
use crate::state::directory::{Page, Stored};

/// Pages that are looked at while nobody else uses the state. One of them is encoded.
const AT_ONCE: usize = 1 << 9;

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
    /// Makes the state durable by itself, so that the log before what is pending is free. For the sweeper alone: what a
    /// checkpoint holds of partitions changes by sweeps, and by new spaces, which it leaves out.
    pub(crate) async fn take_checkpoint(&self) -> Result<()> {
        let mut held = self.superblock.lock().await;
        let (superblock, kept) = &mut *held;
        let begin = kept.end;
        let taken = self.write_checkpoint(superblock, kept).await;
        if taken.is_err() {
            // No checkpoint has what was written of these.
            self.note_pages(|stored| stored.at < begin);
        }
        taken
    }

    async fn write_checkpoint(&self, superblock: &mut Superblock, kept: &mut Kept) -> Result<()> {
        let Some(Moment { next, start, spaces, header }) = self.moment()? else { return Ok(()) };
        // No group may be in the checkpoint in part, and be lost with the log.
        self.flushed_before(next).await?;
        let reserve = self.reserve();
        let wasted = self.wasted(&spaces, kept);
        let mut writer = PieceWriter::new(&*self.data, &self.extents, reserve);
        let mut end = kept.end;
        for space in &spaces {
            let mut from = 0;
            while let Some(next) = self.encode_next(*space, from, kept, &wasted, &mut writer.bytes)
            {
                from = next;
                writer.write_whole().await?;
            }
        }
        let pieces = writer.finish().await?;
        let mut written: u64 = pieces.iter().map(|piece| piece.place.length.0).sum();
        let pieces: Vec<_> = pieces
            .into_iter()
            .map(|piece| {
                let begin = end;
                end += piece.place.length.0;
                (begin, piece)
            })
            .collect();
        let mut writer = PieceWriter::new(&*self.data, &self.extents, reserve);
        writer.bytes = header;
        let left = kept.pieces.iter().filter(|(begin, _)| !wasted.contains(begin));
        let left = left.map(|(begin, piece)| (*begin, piece));
        let all = left.chain(pieces.iter().map(|(begin, piece)| (*begin, piece)));
        encode_pieces(&mut writer.bytes, all.collect::<Vec<_>>().into_iter());
        for space in &spaces {
            self.encode_index(*space, &mut writer).await?;
        }
        written += writer.bytes.len() as u64;
        let index = writer.finish().await?;
        let root = encode_root(&index);
        written += root.len() as u64;
        let writer = PieceWriter::new(&*self.data, &self.extents, reserve);
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
        roots.extend(index.into_iter().flat_map(|piece| piece.extents));
        self.data.flush().await?;
        let mut changed = superblock.clone();
        changed.generation += 1;
        changed.checkpoint = checkpoint;
        if let Err(error) = changed.write(&*self.data).await {
            // One of the copies may name these extents: nobody gets them.
            let new = pieces.into_iter().flat_map(|(_, piece)| piece.extents).chain(roots);
            new.for_each(|extent| _ = extent.leave());
            return Err(error);
        }
        *superblock = changed;
        kept.pieces.retain(|begin, _| !wasted.contains(begin));
        kept.pieces.extend(pieces);
        (kept.end, kept.index) = (end, roots);
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

    /// The pieces that the next checkpoint does without.
    fn wasted(&self, spaces: &[SpaceId], kept: &Kept) -> BTreeSet<u64> {
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

    /// Appends the next page of a space that the last checkpoint does not have, or only in these pieces. Gives where to go
    /// on; `None` when there are no more.
    fn encode_next(
        &self,
        space: SpaceId,
        from: usize,
        kept: &mut Kept,
        wasted: &BTreeSet<u64>,
        out: &mut Vec<u8>,
    ) -> Option<usize> {
        let mut state = self.state();
        let pages = state.spaces.get(&space)?.pages().get(from..)?;
        let is_to_write =
            |page: &Page| page.stored().is_none_or(|stored| kept.is_among(&stored, wasted));
        let some = pages.get(..AT_ONCE).unwrap_or(pages);
        let Some(found) = some.iter().position(is_to_write) else {
            return (!some.is_empty()).then_some(from + some.len());
        };
        let before = out.len();
        encode_page(out, &state, some.get(found)?.entries());
        let stored = Stored { at: kept.end, length: (out.len() - before) as u64 };
        kept.end = stored.end();
        state.spaces.get_mut(&space)?.set_stored(from + found, Some(stored));
        Some(from + found + 1)
    }

    /// Appends where the pages of a space lie.
    async fn encode_index(&self, space: SpaceId, writer: &mut PieceWriter<'_>) -> Result<()> {
        {
            let state = self.state();
            let Some(directory) = state.spaces.get(&space) else { return Ok(()) };
            encode_space(&mut writer.bytes, space, &directory.spec, directory.pages().len());
        }
        let mut from = 0;
        while let Some(next) = self.look_at_pages(space, from, &mut |pages| {
            let stored = pages.iter().filter_map(Page::stored);
            stored.for_each(|stored| encode_stored(&mut writer.bytes, stored));
            pages.len()
        }) {
            from = next;
            writer.write_whole().await?;
        }
        Ok(())
    }

    /// Has all pages of which `is_kept` is false written by the next checkpoint.
    fn note_pages(&self, is_kept: impl Fn(Stored) -> bool) {
        let mut state = self.state();
        for directory in state.spaces.values_mut() {
            directory.keep_stored(&is_kept);
        }
    }
}
