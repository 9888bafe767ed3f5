//! Reading a checkpoint: all of it when an engine is opened, and what is damaged of it when it is checked.

use std::sync::Arc;

use futures::StreamExt;
use futures::stream;
use moirai_storage::Device;
use moirai_units::BlockRange;

use crate::data::checkpoint::format::{Index, PageAt, put_page, take_root};
use crate::data::checkpoint::fragments::{Fragment, FragmentPlace, Kept};
use crate::data::superblock::{Checkpoint, Superblock};
use crate::error::{CHECKPOINT as WHAT, Error, Result};
use crate::state::{Misfit, State};

/// Fragments that are read at the same time.
const READ_AT_ONCE: usize = 8;

/// Reads the checkpoint into `state`, which is new; gives what it consists of.
pub(crate) async fn read_checkpoint(
    device: &dyn Device,
    superblock: &Superblock,
    state: &mut State,
) -> Result<Kept> {
    let checkpoint = &superblock.checkpoint;
    let root = checkpoint.root;
    let damaged = |blocks: BlockRange| Error::damaged(device, WHAT, blocks);
    let of_misfit = |misfit| match misfit {
        Misfit::UnknownFormat(format) => Error::UnknownFormat { format },
        _ => damaged(root),
    };
    state.applied = checkpoint.next;
    let mut kept = Kept::default();
    // Before the first checkpoint there is none.
    if root.is_empty() {
        return Ok(kept);
    }
    let extents = Arc::clone(&state.extents);
    for copy in checkpoint.roots() {
        let extent = extents.take_this(copy.first, copy.count);
        kept.index.push(extent.ok_or_else(|| damaged(root))?);
    }
    let (fragments, _) = first_right(device, checkpoint.roots(), take_root).await;
    let mut bytes = Vec::new();
    for place in fragments.ok_or_else(|| damaged(root))? {
        let fragment = place.taken(&extents).ok_or_else(|| damaged(root))?;
        bytes.extend_from_slice(&read_fragment(device, &place).await?.0);
        kept.index.extend(fragment.extents);
    }
    let index = Index::take(&bytes).ok_or_else(|| damaged(root))?;
    for (begin, place) in &index.fragments {
        let fragment = place.taken(&extents).ok_or_else(|| damaged(place.blocks()))?;
        let before = kept.fragments.last_key_value();
        if *begin < before.map_or(0, |(begin, fragment)| begin + fragment.place.length.0) {
            return Err(damaged(root));
        }
        kept.fragments.insert(*begin, fragment);
    }
    kept.end =
        kept.fragments.last_key_value().map_or(0, |(at, fragment)| at + fragment.place.length.0);
    let pages = index.put_into(state).map_err(of_misfit)?;
    read_pages(device, root, &mut kept, pages, state).await?;
    state.end_filling().ok_or_else(|| damaged(root))?;
    Ok(kept)
}

/// Reads pages, which come in the order of the sequence.
async fn read_pages(
    device: &dyn Device,
    root: BlockRange,
    kept: &mut Kept,
    pages: Vec<PageAt>,
    state: &mut State,
) -> Result<()> {
    let mut pages = pages.into_iter().peekable();
    let places: Vec<FragmentPlace> =
        kept.fragments.values().map(|fragment| fragment.place).collect();
    let read = |place: FragmentPlace| async move { read_fragment(device, &place).await };
    let read = stream::iter(places).map(read).buffered(READ_AT_ONCE);
    let mut read = std::pin::pin!(read);
    // What has been read of the sequence, from `begin` on.
    let (mut begin, mut bytes) = (0, Vec::new());
    for (at, fragment) in &mut kept.fragments {
        let Some(content) = read.next().await else { break };
        let (content, is_first) = content?;
        fragment.is_damaged = !is_first;
        let damaged = || Error::damaged(device, WHAT, fragment.place.blocks());
        if begin + bytes.len() as u64 != *at {
            bytes.clear();
            begin = *at;
        }
        bytes.extend_from_slice(&content);
        let end = begin + bytes.len() as u64;
        while let Some(page) = pages.next_if(|page| page.stored.end() <= end) {
            let first = page.stored.at.checked_sub(begin).ok_or_else(damaged)? as usize;
            let content = bytes.get(first..first + page.stored.length as usize);
            let content = content.ok_or_else(damaged)?;
            put_page(content, state, page).ok_or_else(damaged)?;
        }
        // A page may go on in the next fragment.
        let left = pages.peek().map_or(end, |page| page.stored.at.clamp(begin, end));
        bytes.drain(..(left - begin) as usize);
        begin = left;
    }
    match pages.next() {
        Some(_) => Err(Error::damaged(device, WHAT, root)),
        None => Ok(()),
    }
}

/// The bytes of a fragment, and whether the first of its copies has them.
async fn read_fragment(device: &dyn Device, place: &FragmentPlace) -> Result<(Vec<u8>, bool)> {
    let (content, is_first) = first_right(device, place.copies(), |read| place.content(read)).await;
    Ok((content.ok_or_else(|| Error::damaged(device, WHAT, place.blocks()))?, is_first))
}

/// What `take` takes from the first of these places that can be read and is right, and whether it is the first of all.
async fn first_right<T>(
    device: &dyn Device,
    places: impl Iterator<Item = BlockRange>,
    take: impl Fn(&[u8]) -> Option<Vec<T>>,
) -> (Option<Vec<T>>, bool) {
    let mut is_first = true;
    for place in places {
        if let Some(found) = device.read(place).await.ok().and_then(|read| take(&read)) {
            return (Some(found), is_first);
        }
        is_first = false;
        let name = &device.inquiry().name;
        tracing::warn!("{name}: a copy of {WHAT} at {place} is damaged");
    }
    (None, is_first)
}

/// Where copies of the checkpoint are not as they were written. The next checkpoint writes the fragments anew of which one is
/// not.
pub(crate) async fn damaged_places(
    device: &dyn Device,
    checkpoint: &Checkpoint,
    kept: &mut Kept,
) -> Vec<BlockRange> {
    let mut damaged = Vec::new();
    let mut index = Vec::new();
    for copy in checkpoint.roots() {
        let read = device.read(copy).await.ok();
        match read.as_deref().and_then(take_root) {
            Some(fragments) => index = fragments,
            None => damaged.push(copy),
        }
    }
    for place in index {
        damaged.extend(damaged_copies(device, &place).await);
    }
    for Fragment { place, is_damaged, .. } in kept.fragments.values_mut() {
        let copies = damaged_copies(device, place).await;
        *is_damaged |= !copies.is_empty();
        damaged.extend(copies);
    }
    damaged
}

/// The copies of a fragment that are not as they were written.
async fn damaged_copies(device: &dyn Device, place: &FragmentPlace) -> Vec<BlockRange> {
    let mut damaged = Vec::new();
    for copy in place.copies() {
        let read = device.read(copy).await.ok();
        if read.and_then(|read| place.content(&read)).is_none() {
            damaged.push(copy);
        }
    }
    damaged
}
