//! Checkpoints: all partitions, and where their blocks and staged chunks lie, on the data device. The log before one is
//! free. One is written twice where there is space: all else is found by it.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use moirai_extents::{Extent, Extents};
use moirai_storage::{Device, IoBuf};
use moirai_units::{BlockCount, BlockRange, ByteCount, Lbn};

use crate::codec::{Taker, is_sum, put_bytes, put_number};
use crate::data::place::{Location, Place};
use crate::data::superblock::{Checkpoint, Superblock};
use crate::error::{Error, Result};
use crate::ids::{PartitionId, Seq, SpaceId};
use crate::long::runs::take_runs;
use crate::shared::Shared;
use crate::spec::{SpecBytes, Specs};
use crate::state::chunk::Chunk;
use crate::state::directory::Directory;
use crate::state::partition::{Partition, Staged};
use crate::state::{Misfit, State};

/// Device blocks of a checkpoint that are written at once.
const PART_BLOCKS: BlockCount = BlockCount(1 << 9);
/// Partitions that are encoded while nobody else uses the state.
const AT_ONCE: u32 = 64;
/// What damaged blocks of a checkpoint are called in messages.
const WHAT: &str = crate::error::CHECKPOINT;
/// Where a free number has its space's.
const NO_PARTITION: u64 = 0;

impl Shared {
    /// Makes the state durable by itself, so that the log before what is pending is free. For the sweeper alone: what a
    /// checkpoint holds of partitions changes by sweeps, and by new spaces, which it leaves out.
    pub(crate) async fn take_checkpoint(&self) -> Result<()> {
        let mut held = self.superblock.lock().await;
        let (mut bytes, next, start, slots, spaces) = {
            let state = self.state();
            // A state that lacks a group must not take the place of the log.
            self.check_running()?;
            let start = self.log.start_of(state.oldest());
            let slots = state.partitions.slots();
            let spaces: Vec<SpaceId> = state.spaces.keys().copied().collect();
            let mut bytes = Vec::new();
            encode_header(&mut bytes, &state, slots);
            (bytes, state.outlined(), start, slots, spaces)
        };
        let Some(start) = start else { return Ok(()) };
        // No group may be in the checkpoint in part, and be lost with the log.
        self.flushed_before(next).await?;
        let mut writer = CheckpointWriter::new(&*self.data, &self.extents, self.reserve());
        for first in (0..slots).step_by(AT_ONCE as usize) {
            {
                let state = self.state();
                for id in first..(first + AT_ONCE).min(slots) {
                    let partition = state.partition(PartitionId(id));
                    let is_old = |one: &&Partition| spaces.binary_search(&one.space).is_ok();
                    encode_partition(&mut bytes, partition.filter(is_old));
                }
            }
            writer.write(&mut bytes, PART_BLOCKS.bytes().0 as usize).await?;
        }
        writer.write(&mut bytes, 1).await?;
        let written = writer.bytes;
        let (root, root_copy, extents) = writer.finish().await?;
        self.data.flush().await?;
        let mut superblock = held.0.clone();
        superblock.generation += 1;
        superblock.checkpoint =
            Checkpoint { next, frame: self.log.durable_frame(), start, root, root_copy };
        if let Err(error) = superblock.write(&*self.data).await {
            // One of the copies may name these extents: nobody gets them.
            for extent in extents {
                _ = extent.leave();
            }
            return Err(error);
        }
        self.counts.checkpoint_bytes.add(written);
        let blocks: BlockCount = extents.iter().map(|extent| extent.blocks.count).sum();
        self.checkpoint_blocks.store(blocks.0, Ordering::Relaxed);
        *held = (superblock, extents);
        // The log does not refer to these any more: the checkpoint has what they say.
        let _needless = std::mem::take(&mut self.state().elsewhere_extents);
        self.state().is_ahead = false;
        self.log.free_before(start);
        self.room.notify_waiters();
        Ok(())
    }
}

/// What comes before the partitions, of which there are `slots` at most.
fn encode_header(out: &mut Vec<u8>, state: &State, slots: u32) {
    put_number(out, u64::from(slots));
    put_number(out, state.refused);
    put_number(out, u64::from(state.was_full));
    put_number(out, state.spaces.len() as u64);
    for (space, directory) in &state.spaces {
        put_number(out, u64::from(space.0));
        directory.spec.bytes().encode(out);
    }
    state.long.encode(out);
}

/// A partition, or that its number is free.
fn encode_partition(out: &mut Vec<u8>, partition: Option<&Partition>) {
    let Some(partition) = partition else { return put_number(out, NO_PARTITION) };
    put_number(out, u64::from(partition.space.0));
    put_bytes(out, &partition.low);
    put_number(out, partition.frontier.0);
    partition.place.location().encode(out);
    put_number(out, partition.staged.len() as u64);
    for staged in &partition.staged {
        staged.chunk.encode(out);
        put_number(out, staged.extent.first().0);
    }
}

/// The state, as bytes.
#[cfg(any(fuzzing, test))]
pub(crate) fn encode_state(state: &State) -> Vec<u8> {
    let mut out = Vec::new();
    let slots = state.partitions.slots();
    encode_header(&mut out, state, slots);
    (0..slots).for_each(|id| encode_partition(&mut out, state.partition(PartitionId(id))));
    out
}

/// The state that `bytes` are of.
#[cfg(any(fuzzing, test))]
pub(crate) fn decode_state(
    bytes: &[u8],
    specs: Specs,
    extents: &Arc<Extents>,
    next: Seq,
) -> std::result::Result<State, Misfit> {
    let mut decoder = Decoder::new(specs, extents, next);
    decoder.push(bytes)?;
    decoder.finish()
}

/// Decodes a state part by part: of a long directory the bytes are not in memory all at once, beside what comes of them.
struct Decoder {
    state: State,
    /// What is not decoded yet.
    bytes: Vec<u8>,
    /// How many bytes are to be there before it is tried again.
    wanted: usize,
    /// How many partitions there are, once the header is decoded, and how many of them are decoded.
    slots: Option<u32>,
    decoded: u32,
}

impl Decoder {
    fn new(specs: Specs, extents: &Arc<Extents>, next: Seq) -> Decoder {
        let mut state = State::new(specs, Arc::clone(extents));
        state.applied = next;
        Decoder { state, bytes: Vec::new(), wanted: 1, slots: None, decoded: 0 }
    }

    fn push(&mut self, part: &[u8]) -> std::result::Result<(), Misfit> {
        self.bytes.extend_from_slice(part);
        match self.bytes.len() >= self.wanted {
            true => self.decode(),
            false => Ok(()),
        }
    }

    fn finish(mut self) -> std::result::Result<State, Misfit> {
        self.decode()?;
        let is_whole = self.slots == Some(self.decoded);
        // Before the first checkpoint there is none.
        let is_none = self.slots.is_none() && self.wanted == 1;
        match self.bytes.is_empty() && (is_whole || is_none) {
            true => Ok(self.state),
            false => Err(Misfit::NotOfLog),
        }
    }

    /// Decodes what is there as a whole.
    fn decode(&mut self) -> std::result::Result<(), Misfit> {
        let mut taker = Taker(&self.bytes);
        loop {
            let before = taker.0;
            let is_whole = match self.slots {
                None if before.is_empty() => false,
                None => match Header::take(&mut taker) {
                    Some(header) => {
                        self.slots = Some(header.slots);
                        header.put_into(&mut self.state)?;
                        true
                    }
                    None => false,
                },
                Some(slots) if self.decoded < slots => match PartitionBytes::take(&mut taker) {
                    Some(partition) => {
                        let state = &mut self.state;
                        put_partition(partition, state, self.decoded).ok_or(Misfit::NotOfLog)?;
                        self.decoded += 1;
                        true
                    }
                    None => false,
                },
                Some(_) => false,
            };
            if !is_whole {
                let left = before.len();
                self.bytes.drain(..self.bytes.len() - left);
                self.wanted = (2 * left).max(1);
                return Ok(());
            }
        }
    }
}

/// What comes before the partitions.
struct Header<'a> {
    slots: u32,
    refused: u64,
    was_full: u64,
    spaces: Vec<(SpaceId, SpecBytes<'a>)>,
    long: Vec<BlockRange>,
}

impl<'a> Header<'a> {
    fn take(taker: &mut Taker<'a>) -> Option<Header<'a>> {
        let (slots, refused, was_full) = (taker.number32()?, taker.number()?, taker.number()?);
        let mut spaces = Vec::new();
        for _ in 0..taker.number()? {
            spaces.push((taker.space()?, SpecBytes::take(taker)?));
        }
        Some(Header { slots, refused, was_full, spaces, long: take_runs(taker)? })
    }

    fn put_into(self, state: &mut State) -> std::result::Result<(), Misfit> {
        state.refused = self.refused;
        state.was_full = match self.was_full {
            0 => false,
            1 => true,
            _ => return Err(Misfit::NotOfLog),
        };
        for (space, bytes) in self.spaces {
            let spec = state.specs.made(bytes);
            let spec = spec.ok_or_else(|| Misfit::UnknownFormat(bytes.name()))?;
            state.spaces.insert(space, Directory::new(&spec));
        }
        for run in self.long {
            state.take_long(run).ok_or(Misfit::NotOfLog)?;
        }
        Ok(())
    }
}

/// A partition as a checkpoint has it.
struct PartitionBytes<'a> {
    space: SpaceId,
    low: &'a [u8],
    frontier: Seq,
    location: Location,
    staged: Vec<(Chunk, Lbn)>,
}

impl<'a> PartitionBytes<'a> {
    /// `None` inside where the number is free.
    fn take(taker: &mut Taker<'a>) -> Option<Option<PartitionBytes<'a>>> {
        let Some(space) = taker.space_or_none()? else { return Some(None) };
        let (low, frontier) = (taker.bytes()?, taker.seq()?);
        let location = Location::take(taker)?;
        let mut staged = Vec::new();
        for _ in 0..taker.number()? {
            staged.push((Chunk::take(taker)?, Lbn(taker.number()?)));
        }
        Some(Some(PartitionBytes { space, low, frontier, location, staged }))
    }
}

fn put_partition(bytes: Option<PartitionBytes<'_>>, state: &mut State, id: u32) -> Option<()> {
    let Some(PartitionBytes { space, low, frontier, location, staged }) = bytes else {
        state.partitions.push_free();
        return Some(());
    };
    let spec = Arc::clone(state.spec(space)?);
    let mut partition = Partition::new(space, &spec, low.into(), frontier);
    if !location.is_of(&spec) {
        return None;
    }
    let taken = location.ranges(&spec);
    let taken = taken.map(|blocks| state.extents.take_this(blocks.first, blocks.count));
    let taken = taken.collect::<Option<Vec<Extent>>>()?;
    partition.place = Arc::new(Place::new(&spec, taken, location));
    for (chunk, first) in staged {
        let extent = state.extents.take_this(first, chunk.length())?;
        partition.staged.push(Arc::new(Staged { chunk, extent }));
    }
    state.add(PartitionId(id), partition)
}

/// Writes a checkpoint into free extents, and last the list of these, its root.
struct CheckpointWriter<'a> {
    device: &'a dyn Device,
    extents: &'a Arc<Extents>,
    /// Free blocks that copies leave.
    reserve: BlockCount,
    taken: Vec<Extent>,
    /// The root's list of the parts, and how many they are.
    list: Vec<u8>,
    parts: u64,
    bytes: u64,
}

impl<'a> CheckpointWriter<'a> {
    fn new(
        device: &'a dyn Device,
        extents: &'a Arc<Extents>,
        reserve: BlockCount,
    ) -> CheckpointWriter<'a> {
        let (taken, list) = (Vec::new(), Vec::new());
        CheckpointWriter { device, extents, reserve, taken, list, parts: 0, bytes: 0 }
    }

    /// Writes bytes to an extent, and to another where there is space; tells where that begins.
    async fn write_both(&mut self, extent: Extent, bytes: &[u8]) -> Result<Lbn> {
        let copy = self.extents.take(extent.blocks.count, self.reserve);
        let at = copy.as_ref().map_or(Lbn(0), Extent::first);
        for extent in std::iter::once(extent).chain(copy) {
            self.device.write(extent.first(), IoBuf::holding(bytes)).await?;
            self.taken.push(extent);
        }
        Ok(at)
    }

    /// Writes parts of `bytes` and takes them out, while there are at least so many.
    async fn write(&mut self, bytes: &mut Vec<u8>, at_least: usize) -> Result<()> {
        while bytes.len() >= at_least.max(1) {
            let count = BlockCount::holding(ByteCount(bytes.len() as u64)).min(PART_BLOCKS);
            let extent = self.extents.take_part(count, BlockCount(1), BlockCount::ZERO);
            let extent = extent.ok_or_else(|| Error::full(self.device))?;
            let room = (extent.blocks.count.bytes().0 as usize).min(bytes.len());
            let part: Vec<u8> = bytes.drain(..room).collect();
            let first = extent.first();
            let copy = self.write_both(extent, &part).await?;
            put_number(&mut self.list, first.0);
            put_number(&mut self.list, copy.0);
            put_number(&mut self.list, part.len() as u64);
            self.list.extend_from_slice(&crc32c::crc32c(&part).to_le_bytes());
            self.parts += 1;
            self.bytes += part.len() as u64;
        }
        Ok(())
    }

    /// Writes the root; gives its place, where its copy begins, and all extents.
    async fn finish(mut self) -> Result<(BlockRange, Lbn, Vec<Extent>)> {
        let mut root = Vec::new();
        put_number(&mut root, self.parts);
        root.extend_from_slice(&self.list);
        let sum = crc32c::crc32c(&root);
        root.splice(..0, sum.to_le_bytes());
        root.splice(..0, (root.len() as u32 - 4).to_le_bytes());
        let count = BlockCount::holding(ByteCount(root.len() as u64));
        let extent = self.extents.take(count, BlockCount::ZERO);
        let extent = extent.ok_or_else(|| Error::full(self.device))?;
        let place = extent.blocks;
        let copy = self.write_both(extent, &root).await?;
        Ok((place, copy, self.taken))
    }
}

/// Reads the checkpoint; with the extents that it lies in.
pub(crate) async fn read_checkpoint(
    device: &dyn Device,
    superblock: &Superblock,
    specs: Specs,
    extents: &Arc<Extents>,
) -> Result<(State, Vec<Extent>)> {
    let checkpoint = &superblock.checkpoint;
    let root = checkpoint.root;
    let damaged = |blocks: BlockRange| Error::damaged(device, WHAT, blocks);
    let of_misfit = |misfit| match misfit {
        Misfit::UnknownFormat(format) => Error::UnknownFormat { format },
        _ => damaged(root),
    };
    let mut taken = Vec::new();
    let mut decoder = Decoder::new(specs, extents, checkpoint.next);
    for copy in checkpoint.roots() {
        let extent = extents.take_this(copy.first, copy.count);
        taken.push(extent.ok_or_else(|| damaged(root))?);
    }
    if !root.is_empty() {
        let list = first_right(device, checkpoint.roots(), parts).await;
        for part in list.ok_or_else(|| damaged(root))? {
            for copy in part.copies() {
                let extent = extents.take_this(copy.first, copy.count);
                taken.push(extent.ok_or_else(|| damaged(root))?);
            }
            let content = first_right(device, part.copies(), |read| part.content(read)).await;
            let content = content.ok_or_else(|| damaged(part.range(part.first)))?;
            decoder.push(&content).map_err(of_misfit)?;
        }
    }
    Ok((decoder.finish().map_err(of_misfit)?, taken))
}

/// Where copies of the checkpoint are not as they were written.
pub(crate) async fn damaged_places(
    device: &dyn Device,
    checkpoint: &Checkpoint,
) -> Vec<BlockRange> {
    let mut damaged = Vec::new();
    let mut all = Vec::new();
    for copy in checkpoint.roots() {
        let read = device.read(copy).await.ok();
        match read.as_deref().and_then(parts) {
            Some(parts) => all = parts,
            None => damaged.push(copy),
        }
    }
    for part in all {
        for copy in part.copies() {
            let read = device.read(copy).await.ok();
            if read.and_then(|read| part.content(&read)).is_none() {
                damaged.push(copy);
            }
        }
    }
    damaged
}

/// What `take` takes from the first of these places that can be read and is right.
async fn first_right<T>(
    device: &dyn Device,
    places: impl Iterator<Item = BlockRange>,
    take: impl Fn(&[u8]) -> Option<Vec<T>>,
) -> Option<Vec<T>> {
    for place in places {
        if let Some(found) = device.read(place).await.ok().and_then(|read| take(&read)) {
            return Some(found);
        }
        let name = &device.inquiry().name;
        tracing::warn!("{name}: a copy of {WHAT} at {place} is damaged");
    }
    None
}

/// A part of a checkpoint.
#[derive(Clone, Copy)]
struct Part {
    first: Lbn,
    /// Where its copy begins; block 0 when there is none.
    copy: Lbn,
    length: ByteCount,
    checksum: u32,
}

impl Part {
    fn range(&self, first: Lbn) -> BlockRange {
        BlockRange::new(first, BlockCount::holding(self.length))
    }

    fn copies(&self) -> impl Iterator<Item = BlockRange> + use<> {
        let copy = Some(self.range(self.copy)).filter(|copy| copy.first != Lbn(0));
        std::iter::once(self.range(self.first)).chain(copy)
    }

    /// Its bytes, when these blocks hold it.
    fn content(&self, read: &[u8]) -> Option<Vec<u8>> {
        let content = read.get(..self.length.0 as usize)?;
        is_sum(self.checksum, crc32c::crc32c(content)).then(|| content.to_vec())
    }
}

/// The parts that a root lists.
fn parts(root: &[u8]) -> Option<Vec<Part>> {
    let mut taker = Taker(root);
    let (length, sum) = (taker.le32()?, taker.le32()?);
    let list = taker.fixed(length as usize)?;
    if !is_sum(sum, crc32c::crc32c(list)) {
        return None;
    }
    let mut taker = Taker(list);
    let count = taker.number()?;
    let part = |taker: &mut Taker<'_>| {
        let (first, copy) = (Lbn(taker.number()?), Lbn(taker.number()?));
        let length = taker.number()?;
        let is_part = length > 0 && length <= PART_BLOCKS.bytes().0;
        let checksum = taker.le32()?;
        is_part.then_some(Part { first, copy, length: ByteCount(length), checksum })
    };
    let all = (0..count).map(|_| part(&mut taker)).collect::<Option<Vec<_>>>()?;
    taker.is_empty().then_some(all)
}
