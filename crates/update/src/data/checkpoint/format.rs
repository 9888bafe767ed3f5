//! The bytes of a checkpoint: what is not of partitions, its index, and pages of the directory. See
//! `docs/formats/update-data.md`.

use std::sync::Arc;

use moirai_extents::{Extent, Extents};
use moirai_units::{BlockRange, Lbn};

use crate::codec::{Taker, is_sum, put_bytes, put_number};
use crate::data::checkpoint::fragments::{Fragment, FragmentPlace};
use crate::data::place::{Location, Place};
use crate::ids::{PartitionId, Seq, SpaceId};
use crate::long::runs::take_runs;
use crate::spec::{Spec, SpecBytes};
use crate::state::chunk::Chunk;
use crate::state::directory::{Directory, Entry, Stored};
use crate::state::partition::{Partition, Staged};
use crate::state::{Misfit, State};

/// Numbers of partitions that may be free, beside one for each block of the device: more are no checkpoint of ours.
const FREE_MAX: u64 = 1 << 17;

/// What comes before the pages.
pub(crate) fn encode_header(out: &mut Vec<u8>, state: &State) {
    put_number(out, u64::from(state.partitions.slots()));
    put_number(out, state.refused);
    put_number(out, u64::from(state.was_full));
    state.long.encode(out);
}

/// A space, of which so many pages follow.
pub(crate) fn encode_space(out: &mut Vec<u8>, space: SpaceId, spec: &Spec, pages: usize) {
    put_number(out, u64::from(space.0));
    spec.bytes().encode(out);
    put_number(out, pages as u64);
}

/// Where in the sequence a page lies.
pub(crate) fn encode_stored(out: &mut Vec<u8>, page: Stored) {
    put_number(out, page.at);
    put_number(out, page.length);
}

/// The fragments of the sequence, and where each begins.
pub(crate) fn encode_fragments(out: &mut Vec<u8>, fragments: &[(u64, &Fragment)]) {
    put_number(out, fragments.len() as u64);
    for (begin, fragment) in fragments {
        put_number(out, *begin);
        fragment.place.encode(out);
    }
}

/// Partitions of a page of the directory.
pub(crate) fn encode_page(out: &mut Vec<u8>, state: &State, page: &[Entry]) {
    let partitions = page.iter().map(|(_, id)| *id);
    for (id, partition) in partitions.filter_map(|id| Some((id, state.partition(id)?))) {
        put_number(out, u64::from(id.0));
        put_bytes(out, &partition.low);
        put_number(out, partition.frontier.0);
        partition.place.location().encode(out);
        put_number(out, partition.staged.len() as u64);
        for staged in &partition.staged {
            staged.chunk.encode(out);
            put_number(out, staged.extent.first().0);
        }
    }
}

/// The root: where the index lies.
pub(crate) fn encode_root(index: &[Fragment]) -> Vec<u8> {
    let mut list = Vec::new();
    put_number(&mut list, index.len() as u64);
    index.iter().for_each(|fragment| fragment.place.encode(&mut list));
    let mut root = Vec::with_capacity(8 + list.len());
    root.extend_from_slice(&(list.len() as u32).to_le_bytes());
    root.extend_from_slice(&crc32c::crc32c(&list).to_le_bytes());
    root.extend_from_slice(&list);
    root
}

/// The fragments of the index, which a root lists.
pub(crate) fn take_root(root: &[u8]) -> Option<Vec<FragmentPlace>> {
    let mut taker = Taker(root);
    let (length, sum) = (taker.le32()?, taker.le32()?);
    let list = taker.fixed(length as usize)?;
    if !is_sum(sum, crc32c::crc32c(list)) {
        return None;
    }
    let mut taker = Taker(list);
    let count = taker.number()?;
    let all = (0..count).map(|_| FragmentPlace::take(&mut taker)).collect::<Option<Vec<_>>>()?;
    taker.is_empty().then_some(all)
}

/// What an index says.
pub(crate) struct Index<'a> {
    header: Header,
    /// The fragments of the sequence, and where each begins.
    pub(crate) fragments: Vec<(u64, FragmentPlace)>,
    spaces: Vec<SpacePages<'a>>,
}

struct Header {
    slots: u32,
    refused: u64,
    was_full: bool,
    long: Vec<BlockRange>,
}

struct SpacePages<'a> {
    space: SpaceId,
    spec: SpecBytes<'a>,
    pages: Vec<Stored>,
}

impl Header {
    fn take(taker: &mut Taker<'_>) -> Option<Header> {
        let (slots, refused) = (taker.number32()?, taker.number()?);
        let was_full = match taker.number()? {
            0 => false,
            1 => true,
            _ => return None,
        };
        Some(Header { slots, refused, was_full, long: take_runs(taker)? })
    }

    fn put_into(self, state: &mut State) -> Option<()> {
        if u64::from(self.slots) > FREE_MAX.saturating_add(state.extents.capacity().0) {
            return None;
        }
        (0..self.slots).for_each(|_| state.partitions.push_free());
        (state.refused, state.was_full) = (self.refused, self.was_full);
        self.long.into_iter().try_for_each(|run| state.take_long(run))
    }
}

impl<'a> Index<'a> {
    pub(crate) fn take(bytes: &'a [u8]) -> Option<Index<'a>> {
        let mut taker = Taker(bytes);
        let header = Header::take(&mut taker)?;
        let mut fragments = Vec::new();
        for _ in 0..taker.number()? {
            let (begin, place) = (taker.number()?, FragmentPlace::take(&mut taker)?);
            // The next checkpoint goes on behind it.
            begin.checked_add(place.length.0).filter(|end| *end < u64::MAX / 2)?;
            fragments.push((begin, place));
        }
        let mut spaces = Vec::new();
        while !taker.is_empty() {
            let (space, spec) = (taker.space()?, SpecBytes::take(&mut taker)?);
            let mut pages = Vec::new();
            for _ in 0..taker.number()? {
                let page = Stored { at: taker.number()?, length: taker.number()? };
                page.at.checked_add(page.length)?;
                pages.push(page);
            }
            spaces.push(SpacePages { space, spec, pages });
        }
        Some(Index { header, fragments, spaces })
    }

    /// Makes the spaces, whose pages are filled next; gives these, in the order of the sequence.
    pub(crate) fn put_into(self, state: &mut State) -> Result<Vec<PageAt>, Misfit> {
        self.header.put_into(state).ok_or(Misfit::NotOfLog)?;
        let mut all = Vec::new();
        for SpacePages { space, spec, pages } in self.spaces {
            add_space(state, space, spec, pages.len())?;
            let pages = pages.into_iter().enumerate();
            all.extend(pages.map(|(number, stored)| PageAt { space, number, stored }));
        }
        all.sort_by_key(|page| page.stored.at);
        Ok(all)
    }
}

/// A page that is to be read: the first of its space has number 0.
#[derive(Clone, Copy, Debug)]
pub(crate) struct PageAt {
    pub(crate) space: SpaceId,
    pub(crate) number: usize,
    pub(crate) stored: Stored,
}

/// Adds a space of so many pages.
fn add_space(
    state: &mut State,
    space: SpaceId,
    spec: SpecBytes<'_>,
    pages: usize,
) -> Result<(), Misfit> {
    let made = state.specs.made(spec);
    let made = made.ok_or_else(|| Misfit::UnknownFormat(spec.name()))?;
    let directory = Directory::of_pages(&made, state.page_partitions, pages);
    let is_new = state.spaces.insert(space, directory).is_none();
    if is_new && pages > 0 { Ok(()) } else { Err(Misfit::NotOfLog) }
}

/// Fills a page with the partitions that `bytes` are of.
pub(crate) fn put_page(bytes: &[u8], state: &mut State, page: PageAt) -> Option<()> {
    let PageAt { space, number, stored } = page;
    let mut taker = Taker(bytes);
    let spec = Arc::clone(state.spec(space)?);
    let mut ids = Vec::new();
    let mut before: Option<&[u8]> = None;
    while !taker.is_empty() {
        let id = Some(taker.number32()?).filter(|id| *id < state.partitions.slots())?;
        let one = PartitionBytes::take(&mut taker)?;
        if before.is_some_and(|before| before >= one.low) {
            return None;
        }
        before = Some(one.low);
        let partition = one.partition(space, &spec, &state.extents)?;
        ids.push(state.add_apart(PartitionId(id), partition)?);
    }
    state.spaces.get_mut(&space)?.fill(number, ids, stored)
}

/// A partition as a page has it, behind its number.
struct PartitionBytes<'a> {
    low: &'a [u8],
    frontier: Seq,
    location: Location,
    staged: Vec<(Chunk, Lbn)>,
}

impl<'a> PartitionBytes<'a> {
    fn take(taker: &mut Taker<'a>) -> Option<PartitionBytes<'a>> {
        let (low, frontier) = (taker.bytes()?, taker.seq()?);
        let location = Location::take(taker)?;
        let mut staged = Vec::new();
        for _ in 0..taker.number()? {
            staged.push((Chunk::take(taker)?, Lbn(taker.number()?)));
        }
        Some(PartitionBytes { low, frontier, location, staged })
    }

    /// The partition, whose blocks are taken out of what is free.
    fn partition(
        self,
        space: SpaceId,
        spec: &Arc<Spec>,
        extents: &Arc<Extents>,
    ) -> Option<Partition> {
        let mut partition = Partition::new(space, spec, self.low.into(), self.frontier);
        if !self.location.is_of(spec) {
            return None;
        }
        let taken = self.location.ranges(spec);
        let taken = taken.map(|blocks| extents.take_this(blocks.first, blocks.count));
        let taken = taken.collect::<Option<Vec<Extent>>>()?;
        partition.place = Arc::new(Place::new(spec, taken, self.location));
        for (chunk, first) in self.staged {
            let extent = extents.take_this(first, chunk.length())?;
            partition.staged.push(Arc::new(Staged { chunk, extent }));
        }
        Some(partition)
    }
}

/// The state as bytes: the header, and for each space its pages behind their lengths.
#[cfg(any(fuzzing, test))]
pub(crate) fn encode_state(state: &State) -> Vec<u8> {
    let mut out = Vec::new();
    encode_header(&mut out, state);
    for (space, directory) in &state.spaces {
        encode_space(&mut out, *space, &directory.spec, directory.pages().len());
        for page in directory.pages() {
            let mut bytes = Vec::new();
            encode_page(&mut bytes, state, page.entries());
            put_bytes(&mut out, &bytes);
        }
    }
    out
}

/// The state that `bytes` are of.
#[cfg(any(fuzzing, test))]
pub(crate) fn decode_state(
    bytes: &[u8],
    specs: crate::spec::Specs,
    extents: &Arc<Extents>,
    next: Seq,
) -> Result<State, Misfit> {
    let mut state = State::new(specs, Arc::clone(extents));
    state.applied = next;
    let mut taker = Taker(bytes);
    let header = Header::take(&mut taker).ok_or(Misfit::NotOfLog)?;
    header.put_into(&mut state).ok_or(Misfit::NotOfLog)?;
    while !taker.is_empty() {
        let space = taker.space().ok_or(Misfit::NotOfLog)?;
        let spec = SpecBytes::take(&mut taker).ok_or(Misfit::NotOfLog)?;
        let mut pages = Vec::new();
        for _ in 0..taker.number().ok_or(Misfit::NotOfLog)? {
            pages.push(taker.bytes().ok_or(Misfit::NotOfLog)?);
        }
        add_space(&mut state, space, spec, pages.len())?;
        for (number, bytes) in pages.into_iter().enumerate() {
            let stored = Stored { at: 0, length: bytes.len() as u64 };
            let page = PageAt { space, number, stored };
            put_page(bytes, &mut state, page).ok_or(Misfit::NotOfLog)?;
        }
    }
    state.end_filling().ok_or(Misfit::NotOfLog)?;
    Ok(state)
}
